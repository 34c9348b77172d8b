"""LaneMap: the road as planners see it, whatever data set it came from: lanes, roadblocks, where one may drive."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError


@dataclass(frozen=True)
class Lane:
    """One lane in the world frame, driven from the first to the last point of its centreline.

    `polygon_m` is its outline, `successors` the ids of the lanes it leads to, `roadblock` the id of the group of
    parallel lanes it belongs to; `speed_limit_mps` is None where the map says nothing.
    """

    id: str
    centreline_m: Float[np.ndarray, "point 2"]
    polygon_m: Float[np.ndarray, "corner 2"]
    roadblock: str
    successors: tuple[str, ...] = ()
    speed_limit_mps: float | None = None

    def __post_init__(self) -> None:
        if len(self.centreline_m) < 2:
            raise InputError(f"lane {self.id}: a centreline needs two points or more; found {len(self.centreline_m)}.")


@dataclass(frozen=True)
class LaneMap:
    """Lanes by id, and outlines of drivable areas and crosswalks, in the world frame."""

    lanes: Mapping[str, Lane]
    drivable_m: tuple[Float[np.ndarray, "_ 2"], ...] = field(default=(), repr=False)
    crosswalks_m: tuple[Float[np.ndarray, "_ 2"], ...] = field(default=(), repr=False)
