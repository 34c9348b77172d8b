"""Vertices of a lane or of several -> a path: arc lengths, poses at any progress, projection, the corridor along it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import Float
from deepval.planners.shapes import LineString, Polygon, shapely

QUARTER = 16
"""Segments of a quarter circle where a corridor goes round a bend."""


@dataclass(frozen=True, eq=False)
class LanePath:
    """A line through poses (x, y, heading), headings without jumps of a turn, by its arc length from the first."""

    pose: Float[np.ndarray, "point 3"]

    @classmethod
    def through(cls, pose: Float[np.ndarray, "point 3"]) -> "LanePath":
        """The path through poses whose headings may jump by a turn."""
        return cls(np.column_stack([pose[:, :2], np.unwrap(pose[:, 2])]))

    @cached_property
    def progress_m(self) -> Float[np.ndarray, "point"]:
        """Arc length up to each vertex."""
        steps = np.diff(self.pose[:, :2], axis=0)
        return np.concatenate([[0.0], np.cumsum(np.hypot(steps[:, 0], steps[:, 1]))])

    @property
    def length_m(self) -> float:
        """Arc length of the whole."""
        return float(self.progress_m[-1])

    @cached_property
    def line(self) -> LineString:
        """The line itself."""
        return shapely.LineString(self.pose[:, :2])

    def at(self, progress_m: Float[np.ndarray, "*batch"], *, least_m: float = 0.0) -> Float[np.ndarray, "*batch 3"]:
        """Poses at a progress, linear between vertices; progress is held to `least_m` .. length."""
        wanted = np.minimum(np.maximum(progress_m, least_m), self.progress_m[-1])
        # At a joint, where two vertices are at one place, the one before it counts: the search is from the left.
        before = self.progress_m[1:-1].searchsorted(wanted)
        return self.pose[before] + (wanted - self.progress_m[before])[..., None] * self._slope[before]

    @cached_property
    def _slope(self) -> Float[np.ndarray, "gap 3"]:
        gaps_m = np.diff(self.progress_m)
        return np.diff(self.pose, axis=0) / np.where(gaps_m > 0, gaps_m, 1.0)[:, None]

    def projected_m(self, points_m: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
        """Progress of the nearest place on the path."""
        return np.asarray(shapely.line_locate_point(self.line, shapely.points(points_m)), dtype=float)

    def beside(self, left_m: float) -> "LanePath":
        """The path whose vertices lie so far to the left of these; its arc length is its own."""
        to_left = self.pose[:, 2] + np.pi / 2
        moved = self.pose[:, :2] + left_m * np.column_stack([np.cos(to_left), np.sin(to_left)])
        return LanePath(np.column_stack([moved, self.pose[:, 2]]))

    def part(self, start_m: float, end_m: float) -> LineString:
        """The line from one progress to another, both held to the path."""
        start_m, end_m = (min(max(at_m, 0.0), self.length_m) for at_m in (start_m, end_m))
        first, last = np.searchsorted(self.progress_m, [start_m, end_m], side="right")
        ends = self.at(np.array([start_m, max(start_m, end_m)]))[:, :2]
        return shapely.linestrings(np.concatenate([ends[:1], self.pose[first : max(first, last), :2], ends[1:]]))

    def corridor(self, start_m: float, end_m: float, *, half_width_m: float) -> Polygon:
        """The ground within `half_width_m` of a part of the path, with square ends."""
        return shapely.buffer(self.part(start_m, end_m), half_width_m, quad_segs=QUARTER, cap_style="square")
