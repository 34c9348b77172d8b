"""Lanes and other ground of a map, in the world frame.

This module is separate from `scene`, so that planners on a map depend on neither
cameras nor vehicles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError

Outline = Float[np.ndarray, "_ 2"]
DIVIDERS = ("road", "lane")
"""Kinds of dividers: between directions of travel, and between lanes of one
direction.
"""
FARTHEST_M = 1e8
"""No coordinate on Earth is larger, in any projection; squares and products of smaller
ones stay finite.
"""
LONGEST_M = 1e5
"""A lane is at most this long: lanes are sampled by their length, so a wrong point
would fill the memory.
"""


def on_earth(points_m: Float[np.ndarray, "..."]) -> bool:
    """Whether all coordinates are finite and at most `FARTHEST_M`."""
    return bool((np.abs(points_m) <= FARTHEST_M).all())


def check_line(line_m: Float[np.ndarray, "point 2"], what: str) -> None:
    """Raise unless a line has two points or more, coordinates on Earth and at most the
    length of a lane.
    """
    if len(line_m) < 2:
        raise InputError(f"{what} needs two points or more; found {len(line_m)}.")
    if not on_earth(line_m):
        raise InputError(
            f"{what} must be finite, with coordinates "
            f"of at most {FARTHEST_M:g} m; found others."
        )
    length_m = float(np.linalg.norm(np.diff(line_m, axis=0), axis=1).sum())
    if length_m > LONGEST_M:
        raise InputError(
            f"{what} may be {LONGEST_M / 1000:g} km long; found {length_m / 1000:g} km."
        )


@dataclass(frozen=True, eq=False)
class Lane:
    """One lane in the world frame, driven from the first to the last point of its
    centreline.

    Attributes:
        id: Its id.
        centreline_m: Its middle, (x, y).
        roadblock: Id of the group of parallel lanes it belongs to.
        polygon_m: Its outline; empty where the map has none, and the lane then spans
            `half_width_m` to both sides.
        half_width_m: Half its width, used only where there is no outline.
        successors: Ids of the lanes it leads to; some may lie outside the map.
        speed_limit_mps: None where the map has none.
        connector: Whether it leads through an intersection.
    """

    id: str
    centreline_m: Float[np.ndarray, "point 2"]
    roadblock: str
    polygon_m: Outline = field(default_factory=lambda: np.zeros((0, 2)), repr=False)
    half_width_m: float = 2.0
    successors: tuple[str, ...] = ()
    speed_limit_mps: float | None = None
    connector: bool = False

    def __post_init__(self) -> None:
        check_line(self.centreline_m, f"lane {self.id}: a centreline")
        if not on_earth(self.polygon_m):
            raise InputError(
                f"lane {self.id}: its outline must be finite, with coordinates of at "
                f"most {FARTHEST_M:g} m; found others."
            )


@dataclass(frozen=True, eq=False)
class LaneMap:
    """Lanes by id, in the map's order, and outlines of other drivable ground,
    intersections and crosswalks.

    `drivable_m` is drivable ground beside the lanes (car parks); it does not repeat the
    lanes. `road_segments_m` are outlines of whole stretches of road where the map has
    them. `dividers_m` are painted lines by kind: "road" (between directions) and
    "lane". All are in the world frame.
    """

    lanes: Mapping[str, Lane]
    drivable_m: tuple[Outline, ...] = field(default=(), repr=False)
    intersections_m: tuple[Outline, ...] = field(default=(), repr=False)
    crosswalks_m: tuple[Outline, ...] = field(default=(), repr=False)
    road_segments_m: tuple[Outline, ...] = field(default=(), repr=False)
    dividers_m: Mapping[str, tuple[Outline, ...]] = field(
        default_factory=dict, repr=False
    )

    def __post_init__(self) -> None:
        wrong = [key for key, lane in self.lanes.items() if key != lane.id]
        if wrong:
            raise InputError(
                "a lane map must hold each lane under "
                f"its own id; {wrong[0]} is another's."
            )
        areas = {"drivable area": self.drivable_m, "intersection": self.intersections_m}
        areas |= {"crosswalk": self.crosswalks_m, "road segment": self.road_segments_m}
        areas |= {f"{kind} divider": lines for kind, lines in self.dividers_m.items()}
        for what, outlines in areas.items():
            if not all(map(on_earth, outlines)):
                raise InputError(
                    f"every {what} of a lane map must be finite, with coordinates of "
                    f"at most {FARTHEST_M:g} m; one is not."
                )
        strange = sorted(set(self.dividers_m) - set(DIVIDERS))
        if strange:
            raise InputError(
                "dividers of a lane map "
                f"must be of {' or '.join(DIVIDERS)}; found {strange[0]!r}."
            )

    @cached_property
    def roadblocks(self) -> dict[str, tuple[str, ...]]:
        """Ids of the lanes of each roadblock, in the map's order."""
        lanes_by_roadblock: dict[str, list[str]] = {}
        for lane in self.lanes.values():
            lanes_by_roadblock.setdefault(lane.roadblock, []).append(lane.id)
        return {
            roadblock: tuple(lanes) for roadblock, lanes in lanes_by_roadblock.items()
        }

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """Ids of the lanes that lead to each lane."""
        predecessors: dict[str, list[str]] = {lane: [] for lane in self.lanes}
        for lane in self.lanes.values():
            for after in lane.successors:
                if after in predecessors:
                    predecessors[after].append(lane.id)
        return {lane: tuple(before) for lane, before in predecessors.items()}
