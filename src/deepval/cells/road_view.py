"""A frame of a scene with a lane map -> the road around the ego vehicle as it is drawn: few points, few decimals.

Everything is in the ego frame (x forward, y left, metres).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.geometry.rotations import ground_poses
from deepval.planners.from_scene import seen_m
from deepval.systems.system import System
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth

REACH_M = 60.0
"""How far around the vehicle the road is drawn."""
DECIMALS = 2
TRUE_TO_M = 0.1
"""How far a drawn line may be off."""


def road(scene: Scene, frame: int, truth: Truth) -> dict[str, Any] | None:
    """Lanes, crosswalks, the vehicle and where it really went; None where the scene has no map or pose."""
    if scene.lane_map is None or scene.world_from_ego is None or scene.vehicle is None:
        return None
    pose = ground_poses(scene.world_from_ego[frame])
    red = scene.red_lights[frame] if scene.red_lights else frozenset()
    lanes = []
    for lane in scene.lane_map.lanes.values():
        middle, outline = _near(seen_m(lane.centreline_m, pose)), _near(_closed(seen_m(lane.polygon_m, pose)))
        if middle or outline:
            width_m = 0.0 if len(lane.polygon_m) else 2 * lane.half_width_m
            told = {"centre_m": middle, "outline_m": outline, "width_m": width_m}
            lanes.append(told | {"connector": lane.connector, "red": lane.id in red})
    return {
        "lanes": lanes,
        "drivable_m": _outlines(scene.lane_map.drivable_m, pose),
        "crosswalks_m": _outlines(scene.lane_map.crosswalks_m, pose),
        "ego_m": _rounded(scene.vehicle.corners_m(np.zeros(3))),
        "driven_m": _driven(truth, frame),
    }


def planned(system: System, plan: Float[np.ndarray, "*plan"], scene: Scene) -> dict[str, Any]:
    """The poses of a plan with their times, and the footprint at its end; null where the plan does not say."""
    poses = system.poses(plan)
    if poses is None or scene.vehicle is None:
        return {"poses": None, "footprint_m": None}
    return {"poses": _rounded(poses), "footprint_m": _rounded(scene.vehicle.corners_m(poses[-1, 1:]))}


def outlined(objects: Objects) -> dict[str, Any]:
    """Objects as they lie."""
    return {"corners_m": _rounded(objects.corners_m)}


def _driven(truth: Truth, frame: int) -> list[list[float]]:
    if truth.future is None:
        return []
    return [[0.0, 0.0], *_rounded(truth.future.pose[frame, truth.future.valid[frame], :2])]


def _outlines(outlines_m: Iterable[Float[np.ndarray, "_ 2"]], pose: Float[np.ndarray, "3"]) -> list[Any]:
    near = [_near(_closed(seen_m(outline, pose))) for outline in outlines_m]
    return [outline for outline in near if outline]


def _closed(outline_m: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "more 2"]:
    return np.concatenate([outline_m, outline_m[:1]])


def _near(line_m: Float[np.ndarray, "point 2"]) -> list[list[float]]:
    """The part of a line from where it first comes near the vehicle to where it last does, in few points."""
    if len(line_m) < 2:
        return []
    start, way = line_m[:-1], np.diff(line_m, axis=0)
    along = -(start * way).sum(axis=1) / np.maximum((way**2).sum(axis=1), 1e-12)
    distance_m = np.linalg.norm(start + np.clip(along, 0.0, 1.0)[:, None] * way, axis=1)
    near = np.flatnonzero(distance_m <= REACH_M)
    return _rounded(thinned(line_m[near[0] : near[-1] + 2])) if len(near) else []


def thinned(line_m: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "fewer 2"]:
    """The line without points that it stays true to without (Douglas and Peucker)."""
    keep, todo = {0, len(line_m) - 1}, [(0, len(line_m) - 1)]
    while todo:
        first, last = todo.pop()
        between = line_m[first + 1 : last]
        if not len(between):
            continue
        way = line_m[last] - line_m[first]
        share = np.clip((between - line_m[first]) @ way / max(float(way @ way), 1e-12), 0.0, 1.0)
        off_m = np.linalg.norm(between - line_m[first] - share[:, None] * way, axis=1)
        if off_m.max() > TRUE_TO_M:
            middle = first + 1 + int(off_m.argmax())
            keep.add(middle)
            todo += [(first, middle), (middle, last)]
    return line_m[sorted(keep)]


def _rounded(numbers: np.ndarray) -> Any:
    return (np.round(numbers, DECIMALS) + 0.0).tolist()
