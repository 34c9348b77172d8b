"""A frame of a scene and the objects perceived in it -> what a planner is given: situation and agents, in the world.

The ground is flat: of the ego's pose its place and heading count, roll and pitch do not.
"""

import numpy as np

from deepval.arrays import Float, Int, Shaped
from deepval.errors import InputError
from deepval.geometry.classes import super_class
from deepval.geometry.rotations import ground_poses
from deepval.planners.situation import BICYCLE, PEDESTRIAN, STATIC, VEHICLE, Agents, EgoState, Situation
from deepval.world.objects import Objects
from deepval.world.scene import Scene

KINDS = {"vehicle": VEHICLE, "person": PEDESTRIAN, "cyclist": BICYCLE, "static": STATIC}


def situation_at(scene: Scene, frame: int) -> Situation:
    """Where the ego vehicle is in a frame and is to go; an error where the scene does not say."""
    if scene.lane_map is None or scene.world_from_ego is None or scene.vehicle is None or not scene.route:
        raise InputError(
            f"unit {scene.unit}: a planner needs a lane map, poses, the vehicle's size and a route; {_lacking(scene)}: "
            "take a data set of logged drives, or another downstream system."
        )
    acceleration = scene.ego_acceleration_mps2
    ego = EgoState(
        pose=ground_poses(scene.world_from_ego[frame]),
        speed_mps=float(scene.ego_speed_mps[frame]),
        vehicle=scene.vehicle,
        acceleration_mps2=0.0 if acceleration is None else float(acceleration[frame]),
    )
    red = scene.red_lights[frame] if scene.red_lights else frozenset()
    return Situation(ego, scene.lane_map, scene.route_at(frame), red)


def _lacking(scene: Scene) -> str:
    parts = {
        "no lane map": scene.lane_map is None,
        "no poses": scene.world_from_ego is None,
        "no size of the vehicle": scene.vehicle is None,
        "no route": not scene.route,
    }
    return "it has " + " and ".join(what for what, lacks in parts.items() if lacks)


def agents_of(objects: Objects, ego_pose: Float[np.ndarray, "3"]) -> Agents:
    """The objects of a single frame as agents in the world; what has no known velocity stands."""
    corners_m = objects.corners_m
    ahead_m = corners_m[:, :2].mean(axis=1) - corners_m[:, 2:].mean(axis=1)
    width_m = np.linalg.norm(corners_m[:, 0] - corners_m[:, 1], axis=-1)
    centre_m = placed_m(corners_m.mean(axis=1), ego_pose)
    heading = np.arctan2(ahead_m[:, 1], ahead_m[:, 0]) + ego_pose[2]
    return Agents(
        id=_names(objects.track),
        kind=_kinds(objects.cls),
        pose=np.column_stack([centre_m, np.arctan2(np.sin(heading), np.cos(heading))]),
        size_m=np.column_stack([np.linalg.norm(ahead_m, axis=-1), width_m]),
        velocity_mps=turned(np.nan_to_num(objects.velocity_mps, nan=0.0), float(ego_pose[2])),
    )


def turned(vector: Float[np.ndarray, "*batch 2"], angle_rad: float) -> Float[np.ndarray, "*batch 2"]:
    """Vectors turned counter-clockwise."""
    cos, sin = np.cos(angle_rad), np.sin(angle_rad)
    return np.stack([cos * vector[..., 0] - sin * vector[..., 1], sin * vector[..., 0] + cos * vector[..., 1]], axis=-1)


def placed_m(point_m: Float[np.ndarray, "*batch 2"], ego_pose: Float[np.ndarray, "3"]) -> Float[np.ndarray, "*batch 2"]:
    """Points of the ego frame in the world."""
    return turned(point_m, float(ego_pose[2])) + ego_pose[:2]


def seen_m(point_m: Float[np.ndarray, "*batch 2"], ego_pose: Float[np.ndarray, "3"]) -> Float[np.ndarray, "*batch 2"]:
    """Points of the world in the ego frame."""
    return turned(point_m - ego_pose[:2], -float(ego_pose[2]))


def _names(track: Int[np.ndarray, "obj"]) -> Shaped[np.ndarray, "obj"]:
    names = [str(number) if number >= 0 else f"untracked-{place}" for place, number in enumerate(track.tolist())]
    return np.array(names, dtype=str)


def _kinds(cls: Shaped[np.ndarray, "obj"]) -> Int[np.ndarray, "obj"]:
    groups = super_class(cls).tolist()
    strange = sorted({name for name in groups if name not in KINDS})
    if strange:
        raise InputError(
            f"objects given to a planner must be of a known class; found {', '.join(map(repr, strange))}: "
            "give detections with classes, or a class map."
        )
    return np.array([KINDS[name] for name in groups], dtype=int)
