"""Observed agents -> the agents that PDM-Closed uses: the nearest of each kind,
forecast at constant velocity.

Map j contains the forecast positions at 0.2 j seconds; a state at 0.1 i seconds looks
at map i // 2. The order is the one of the published occupancy maps: static objects,
vehicles, pedestrians, bicycles, each kind from near to far, then red lights. See
docs/definitions.md, PDM-Closed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.classes import super_class
from deepval.driving.geometry.vehicle import Vehicle, ground_corners_m, ground_poses
from deepval.driving.planners.roads import (
    Geometry,
    Rectangles,
    Roads,
    directions,
    rectangles_overlap,
    shapely,
)
from deepval.driving.world.lanes import LaneMap
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene

VEHICLE, PEDESTRIAN, BICYCLE, STATIC = range(4)
"""Kinds of agents; the first three move."""


@dataclass(frozen=True, eq=False)
class EgoState:
    """The ego vehicle by its rear axle: pose (x, y, heading), speed and acceleration
    along the heading, steering.
    """

    pose: Float[np.ndarray, "3"]
    speed_mps: float
    vehicle: Vehicle
    acceleration_mps2: float = 0.0
    steering_rad: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(
            [*self.pose, self.speed_mps, self.acceleration_mps2, self.steering_rad]
        ).all():
            raise InputError(
                "the ego state must be finite; found NaN or infinity: check the "
                "logged pose and speed."
            )


@dataclass(frozen=True, eq=False)
class Situation:
    """State and task of the ego vehicle: ids of the roadblocks ahead, and of the lanes
    with a red light.
    """

    ego: EgoState
    lane_map: LaneMap
    route: tuple[str, ...]
    red_lights: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Agents:
    """The agents observed at one moment, in the order of the report.

    Attributes:
        id: Names.
        kind: VEHICLE, PEDESTRIAN, BICYCLE or STATIC.
        pose: Centre and heading (x, y, heading).
        size_m: Length and width.
        velocity_mps: Velocity (x, y) in the world frame.
    """

    id: Shaped[np.ndarray, "agent"]
    kind: Int[np.ndarray, "agent"]
    pose: Float[np.ndarray, "agent 3"]
    size_m: Float[np.ndarray, "agent 2"]
    velocity_mps: Float[np.ndarray, "agent 2"]

    def __post_init__(self) -> None:
        if not (
            np.isfinite(self.pose).all()
            and np.isfinite(self.velocity_mps).all()
            and (self.size_m > 0).all()
        ):
            raise InputError(
                "observed agents must have finite poses and velocities "
                "and positive sizes."
            )

    def __len__(self) -> int:
        return len(self.id)

    def where(self, keep: Bool[np.ndarray, "agent"]) -> "Agents":
        """The agents marked by `keep`."""
        return Agents(
            **{field.name: getattr(self, field.name)[keep] for field in fields(self)}
        )


KINDS = {"vehicle": VEHICLE, "person": PEDESTRIAN, "cyclist": BICYCLE, "static": STATIC}


def situation_at(scene: Scene, frame: int) -> Situation:
    """State and task of the ego vehicle in a frame; InputError where the scene lacks
    them.
    """
    if (
        scene.lane_map is None
        or scene.world_from_ego is None
        or scene.vehicle is None
        or not scene.route
    ):
        raise InputError(
            f"unit {scene.unit}: a planner needs a lane map, poses, the vehicle's "
            f"size and a route; {_lacking(scene)}: take a data set of logged drives, "
            "or another downstream system."
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
    """The objects of a single frame as agents in the world; an object without a
    velocity stands still.
    """
    corners_m = objects.corners_m
    ahead_m = corners_m[:, :2].mean(axis=1) - corners_m[:, 2:].mean(axis=1)
    width_m = np.linalg.norm(corners_m[:, 0] - corners_m[:, 1], axis=-1)
    centre_m = to_world_m(corners_m.mean(axis=1), ego_pose)
    heading = np.arctan2(ahead_m[:, 1], ahead_m[:, 0]) + ego_pose[2]
    return Agents(
        id=_names(objects.track),
        kind=_kinds(objects.cls),
        pose=np.column_stack([centre_m, np.arctan2(np.sin(heading), np.cos(heading))]),
        size_m=np.column_stack([np.linalg.norm(ahead_m, axis=-1), width_m]),
        velocity_mps=rotate(
            np.nan_to_num(objects.velocity_mps, nan=0.0), float(ego_pose[2])
        ),
    )


def rotate(
    vector: Float[np.ndarray, "*batch 2"], angle_rad: float
) -> Float[np.ndarray, "*batch 2"]:
    """Vectors turned counter-clockwise."""
    cos, sin = np.cos(angle_rad), np.sin(angle_rad)
    return np.stack(
        [
            cos * vector[..., 0] - sin * vector[..., 1],
            sin * vector[..., 0] + cos * vector[..., 1],
        ],
        axis=-1,
    )


def to_world_m(
    point_m: Float[np.ndarray, "*batch 2"], ego_pose: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "*batch 2"]:
    """Points of the ego frame in the world."""
    return rotate(point_m, float(ego_pose[2])) + ego_pose[:2]


def to_ego_m(
    point_m: Float[np.ndarray, "*batch 2"], ego_pose: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "*batch 2"]:
    """Points of the world in the ego frame."""
    return rotate(point_m - ego_pose[:2], -float(ego_pose[2]))


def _names(track: Int[np.ndarray, "obj"]) -> Shaped[np.ndarray, "obj"]:
    names = [
        str(number) if number >= 0 else f"untracked-{index}"
        for index, number in enumerate(track.tolist())
    ]
    return np.array(names, dtype=str)


def _kinds(cls: Shaped[np.ndarray, "obj"]) -> Int[np.ndarray, "obj"]:
    groups = super_class(cls).tolist()
    strange = sorted({name for name in groups if name not in KINDS})
    if strange:
        raise InputError(
            "objects given to a planner must be of a known class; found "
            f"{', '.join(map(repr, strange))}: give detections "
            "with classes, or a class map."
        )
    return np.array([KINDS[name] for name in groups], dtype=int)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses of the rear axle (x, y, heading) in the world frame and speeds, at the
    planner's own times, 0 first.
    """

    times_s: Float[np.ndarray, "step"]
    pose: Float[np.ndarray, "step 3"]
    speed_mps: Float[np.ndarray, "step"]


class Planner(ABC):
    """A planner: a frozen dataclass whose fields are its constants.

    It has no state between calls.

    A session, which plans one drive step by step, may have state: `session` creates a
    new one for every drive.
    """

    has_proposals: ClassVar[bool] = False
    """Whether the planner chooses among proposals, which `proposal_scores` scores."""

    @abstractmethod
    def plan(self, situation: Situation, agents: Agents) -> Trajectory:
        """The plan for the observed agents."""

    def plans(
        self, situation: Situation, branches: Sequence[Agents]
    ) -> list[Trajectory]:
        """Plans for several observations of one situation, independent of each
        other.
        """
        return [self.plan(situation, agents) for agents in branches]

    def proposal_scores(
        self, situation: Situation, branches: Sequence[Agents]
    ) -> list[Float[np.ndarray, "prop"]]:
        """The score of each proposal, observation by observation; only for planners
        with proposals.
        """
        raise NotImplementedError

    def session(self) -> "Planner":
        """A planner for one drive, which may reuse the path of its first plan; by
        default the planner itself.
        """
        return self


MAP_STEP_S = 0.2
MAPS = 42
MOST_PER_KIND = {STATIC: 50, VEHICLE: 50, PEDESTRIAN: 25, BICYCLE: 10}
"""Largest number of agents of each kind, in the order of the maps."""


@dataclass(frozen=True, eq=False)
class ObservedAgents:
    """Other agents and red lights; an index below the number of agents is an agent, a
    higher one a red light.

    Attributes:
        id: Names.
        static: Which are static objects.
        speed_mps: Speeds; 0 for static objects.
        heading_rad: Headings as observed.
        size_m: Length and width.
        centre_m: Centres now.
        forecast_mps: Velocities of the forecast.
        red: Polygons of the route's lanes with a red light.
        collided: Agents and red lights that the ego overlaps already; the planner
            ignores them.
    """

    id: Shaped[np.ndarray, "all"]
    static: Bool[np.ndarray, "other"]
    speed_mps: Float[np.ndarray, "other"]
    heading_rad: Float[np.ndarray, "other"]
    size_m: Float[np.ndarray, "other 2"]
    centre_m: Float[np.ndarray, "other 2"]
    forecast_mps: Float[np.ndarray, "other 2"]
    red: np.ndarray
    collided: Bool[np.ndarray, "all"]

    def __len__(self) -> int:
        return len(self.speed_mps)

    @cached_property
    def centres_m(self) -> Float[np.ndarray, "map other 2"]:
        """Centres in every map."""
        times_s = MAP_STEP_S * np.arange(MAPS)
        return self.centre_m + times_s[:, None, None] * self.forecast_mps

    @cached_property
    def corners_m(self) -> Float[np.ndarray, "other 4 2"]:
        """Footprints now."""
        return ground_corners_m(self.centre_m, self.size_m, yaw_rad=self.heading_rad)

    @cached_property
    def ahead(self) -> Float[np.ndarray, "other 2"]:
        """Unit vectors along the headings."""
        return directions(self.heading_rad)

    @cached_property
    def radius_m(self) -> Float[np.ndarray, "other"]:
        """Half the diagonals."""
        return np.hypot(self.size_m[:, 0], self.size_m[:, 1]) / 2

    def rectangles(
        self, maps: Int[np.ndarray, "pair"], others: Int[np.ndarray, "pair"]
    ) -> Rectangles:
        """Footprints of agents in maps, pair by pair."""
        return Rectangles(
            self.centres_m[maps, others], self.ahead[others], self.size_m[others] / 2
        )

    def polygons(
        self, maps: Int[np.ndarray, "pair"], others: Int[np.ndarray, "pair"]
    ) -> np.ndarray:
        """The same as polygons."""
        moved = self.centres_m[maps, others] - self.centre_m[others]
        return shapely.polygons(self.corners_m[others] + moved[:, None])

    def tree_order(self, in_map: int, shape: Geometry) -> Int[np.ndarray, "met"]:
        """Indices of the agents and red lights that meet a shape, in the order of the
        published spatial index.
        """
        agents = np.arange(len(self))
        polygons = np.concatenate(
            [self.polygons(np.full(len(self), in_map), agents), self.red]
        )
        return shapely.STRtree(polygons).query(shape, predicate="intersects")


def observe(
    agents: Agents,
    ego: EgoState,
    *,
    roads: Roads,
    shut: list[int],
    radius_m: float,
    collided: frozenset[str] = frozenset(),
) -> ObservedAgents:
    """The nearest agents around the ego, and the lanes `shut` by a red light.

    `collided` names agents and red lights overlapped earlier: agents are left out, red
    lights stay and are ignored.
    """
    if collided:
        agents = agents.where(~np.isin(agents.id, list(collided)))
    centre_m = ego.vehicle.centres_m(ego.pose)
    away_m = np.hypot(*(agents.pose[:, :2] - centre_m).T)
    order = np.argsort(away_m, kind="stable")
    order = order[away_m[order] <= radius_m]
    nearest = np.concatenate(
        [
            order[agents.kind[order] == kind][:most]
            for kind, most in MOST_PER_KIND.items()
        ]
    )
    static = agents.kind[nearest] == STATIC
    velocity_mps = np.where(static[:, None], 0.0, agents.velocity_mps[nearest])
    speed_mps = np.hypot(*velocity_mps.T)
    ahead = directions(agents.pose[nearest, 2])
    # As published: the forecast runs along the heading, or against it where the
    # velocity points backwards; leading speeds and everything else take the heading as
    # observed.
    backwards = (velocity_mps * ahead).sum(axis=1) <= 0
    forecast_mps = np.where(backwards, -speed_mps, speed_mps)[:, None] * ahead
    size_m = agents.size_m[nearest]
    own = Rectangles(
        centre_m,
        directions(ego.pose[2:])[0],
        np.array([ego.vehicle.length_m, ego.vehicle.width_m]) / 2,
    )
    touched = rectangles_overlap(
        own, Rectangles(agents.pose[nearest, :2], ahead, size_m / 2)
    )
    red = roads.polygon[shut]
    inside = shapely.contains(red, shapely.Polygon(ego.vehicle.corners_m(ego.pose)))
    lights = np.array([f"red_light_{roads.ids[n]}" for n in shut], dtype=str)
    return ObservedAgents(
        id=np.concatenate([agents.id[nearest].astype(str), lights]),
        static=static,
        speed_mps=speed_mps,
        heading_rad=agents.pose[nearest, 2],
        size_m=size_m,
        centre_m=agents.pose[nearest, :2],
        forecast_mps=forecast_mps,
        red=red,
        collided=np.concatenate(
            [touched, np.atleast_1d(inside) | np.isin(lights, list(collided))]
        ),
    )
