"""Observed objects of units <-> columns: a row per object, with the row of its frame among all frames of the cell."""

from collections.abc import Mapping, Sequence

import numpy as np

from deepval.world.objects import Objects

CORNERS = tuple((f"x{corner}_m", f"y{corner}_m") for corner in range(1, 5))
VELOCITY = ("vx_mps", "vy_mps")
OBJECT_COLUMNS = {
    "texts": ("cls",),
    "numbers": ("closing_mps", *VELOCITY, *(name for pair in CORNERS for name in pair)),
    "whole": ("row", "track"),
}
"""Columns by type."""


def object_columns(parts: Sequence[Objects]) -> dict[str, np.ndarray]:
    """The columns of the objects of units, one unit after the other."""
    begin = np.cumsum([0, *(part.frames for part in parts)])
    corners_m = np.concatenate([part.corners_m for part in parts])
    velocity_mps = np.concatenate([part.velocity_mps for part in parts])
    row = np.concatenate([start + part.frame for start, part in zip(begin, parts, strict=False)])
    columns = {
        "row": row.astype(np.int64),
        "cls": np.concatenate([part.cls.astype(str) for part in parts]),
        "track": np.concatenate([part.track for part in parts]).astype(np.int64),
        "closing_mps": np.concatenate([part.closing_mps for part in parts]),
    }
    columns |= {name: velocity_mps[:, axis] for axis, name in enumerate(VELOCITY)}
    for corner, names in enumerate(CORNERS):
        columns |= {name: corners_m[:, corner, axis] for axis, name in enumerate(names)}
    return columns


def objects_of(columns: Mapping[str, np.ndarray], begin: int, frames: int) -> Objects:
    """The objects of the unit whose frames begin at a row."""
    low, high = np.searchsorted(columns["row"], (begin, begin + frames))
    here = slice(int(low), int(high))
    corners = [np.stack([columns[name][here] for name in names], axis=-1) for names in CORNERS]
    return Objects(
        frames=frames,
        frame=columns["row"][here] - begin,
        corners_m=np.stack(corners, axis=1),
        closing_mps=columns["closing_mps"][here],
        cls=columns["cls"][here],
        track=columns["track"][here],
        velocity_mps=np.stack([columns[name][here] for name in VELOCITY], axis=-1),
    )
