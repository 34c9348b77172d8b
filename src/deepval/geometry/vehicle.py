"""Vehicle: the size of the ego vehicle as planners need it, measured from its rear axle; its footprint at any pose."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.geometry.corners import ground_corners_m


@dataclass(frozen=True)
class Vehicle:
    """A vehicle that reaches `front_m` ahead of and `rear_m` behind its rear axle."""

    front_m: float
    rear_m: float
    width_m: float
    wheel_base_m: float

    def __post_init__(self) -> None:
        if not min(self.front_m, self.rear_m, self.width_m, self.wheel_base_m) > 0:
            raise InputError(f"a vehicle's measures must be positive; found {self}.")

    @property
    def length_m(self) -> float:
        """Length over all."""
        return self.front_m + self.rear_m

    @property
    def centre_m(self) -> float:
        """How far its centre is ahead of its rear axle."""
        return self.length_m / 2 - self.rear_m

    def centres_m(self, pose: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2"]:
        """Centres of the vehicle where its rear axle has the poses (x, y, heading)."""
        ahead = np.stack([np.cos(pose[..., 2]), np.sin(pose[..., 2])], axis=-1)
        return pose[..., :2] + self.centre_m * ahead

    def corners_m(self, pose: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 4 2"]:
        """Footprints where its rear axle has the poses: front left, front right, rear right, rear left."""
        flat = pose.reshape(-1, 3)
        size_m = np.broadcast_to(np.array([self.length_m, self.width_m]), (len(flat), 2))
        corners = ground_corners_m(self.centres_m(flat), size_m, yaw_rad=flat[:, 2])
        return corners.reshape(*pose.shape[:-1], 4, 2)


ZOE = Vehicle(front_m=3.244, rear_m=0.84, width_m=1.73, wheel_base_m=2.588)
"""nuScenes' Renault Zoe."""
PACIFICA = Vehicle(front_m=4.049, rear_m=1.127, width_m=2.297, wheel_base_m=3.089)
"""nuPlan's Chrysler Pacifica."""
FUSION = Vehicle(front_m=3.85, rear_m=1.027, width_m=1.852, wheel_base_m=2.85)
"""Argoverse 2's Ford Fusion Hybrid; its overhangs are those of the production car."""


def vehicle_like(length_m: float, width_m: float) -> Vehicle:
    """A vehicle of that size with its axles where the Zoe has them, in proportion."""
    scale = length_m / ZOE.length_m
    return Vehicle(ZOE.front_m * scale, ZOE.rear_m * scale, width_m, ZOE.wheel_base_m * scale)
