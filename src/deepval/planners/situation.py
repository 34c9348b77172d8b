"""What a planner is given at one moment, in the world frame: ego state, road, route, red lights, and the others."""

from dataclasses import dataclass, fields

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.geometry.vehicle import Vehicle
from deepval.world.lanes import LaneMap

VEHICLE, PEDESTRIAN, BICYCLE, STATIC = range(4)
"""Kinds of others; the first three move."""


@dataclass(frozen=True, eq=False)
class EgoState:
    """The ego vehicle by its rear axle: pose (x, y, heading), speed and acceleration along the heading, steering."""

    pose: Float[np.ndarray, "3"]
    speed_mps: float
    vehicle: Vehicle
    acceleration_mps2: float = 0.0
    steering_rad: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite([*self.pose, self.speed_mps, self.acceleration_mps2, self.steering_rad]).all():
            raise InputError("the ego state must be finite; found NaN or infinity: check the logged pose and speed.")


@dataclass(frozen=True, eq=False)
class Situation:
    """Where the ego vehicle is and is to go: ids of the roadblocks ahead, and of the lanes that a red light shuts."""

    ego: EgoState
    lane_map: LaneMap
    route: tuple[str, ...]
    red_lights: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Agents:
    """The others that are observed at one moment, in the order in which they were reported.

    Attributes:
        id: A name for each.
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
        if not (np.isfinite(self.pose).all() and np.isfinite(self.velocity_mps).all() and (self.size_m > 0).all()):
            raise InputError("observed agents must have finite poses and velocities and positive sizes.")

    def __len__(self) -> int:
        return len(self.id)

    def where(self, keep: Bool[np.ndarray, "agent"]) -> "Agents":
        """The agents marked by `keep`."""
        return Agents(**{field.name: getattr(self, field.name)[keep] for field in fields(self)})
