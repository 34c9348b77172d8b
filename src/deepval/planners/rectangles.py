"""Rectangles on the ground by centre, heading and half lengths -> which of them overlap."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Rectangles of any leading axes: centre, unit vector along the length, half length and half width."""

    centre_m: Float[np.ndarray, "*batch 2"]
    ahead: Float[np.ndarray, "*batch 2"]
    half_m: Float[np.ndarray, "*batch 2"]

    def __getitem__(self, index: Any) -> "Rectangles":
        """Some of them, by an index over the leading axes."""
        return Rectangles(self.centre_m[index], self.ahead[index], self.half_m[index])


def directions(heading_rad: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch 2"]:
    """Unit vectors along headings."""
    return np.stack([np.cos(heading_rad), np.sin(heading_rad)], axis=-1)


def overlapping(first: Rectangles, second: Rectangles) -> Bool[np.ndarray, "*both"]:
    """Whether rectangles overlap or touch, pair by pair: no side of either separates them."""
    between = second.centre_m - first.centre_m
    a, b = first.ahead, second.ahead
    cos = np.abs(a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1])
    sin = np.abs(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])
    free = np.zeros(cos.shape, dtype=bool)
    for own, axis, other in ((first.half_m, a, second.half_m), (second.half_m, b, first.half_m)):
        along = np.abs(between[..., 0] * axis[..., 0] + between[..., 1] * axis[..., 1])
        across = np.abs(between[..., 1] * axis[..., 0] - between[..., 0] * axis[..., 1])
        free |= along > own[..., 0] + other[..., 0] * cos + other[..., 1] * sin
        free |= across > own[..., 1] + other[..., 0] * sin + other[..., 1] * cos
    return ~free
