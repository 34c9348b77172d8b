"""Scores and counts of two modes -> the thresholds at which they can be compared.

A threshold is a number on the scale of a mode's own scores; 0.25 means a probability.
Thresholds of raw scores are quantiles over the boxes of the training units. A mode
without scores, or with the same score for all boxes, has no other threshold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from deepval.basics.arrays import Float
from deepval.driving.perception.reported.score_thresholds import (
    GRID,
    SHARED,
    STEPS,
    OperatingPoint,
    Rates,
    own_scale_points,
)

ALL = -np.inf
"""The threshold that keeps every box."""
QUANTILES: tuple[float, ...] = tuple(step / 100 for step in range(96))
"""The grid for raw scores: the share of the training boxes below each threshold."""
Kind = Literal["probabilities", "quantiles", "none"]


@dataclass(frozen=True)
class ThresholdScale:
    """Thresholds that a mode can have.

    Attributes:
        kind: What the thresholds are; none if the mode has only one.
        grid: The thresholds to choose from, ascending.
        steps: Thresholds of the grid of pairs, each with its name: a probability, or
            the share of boxes below it.
        kept: Threshold of this mode while that of the other mode is varied.
        why: Why 0.25 has no meaning on this scale; None if it has one.
    """

    kind: Kind
    grid: tuple[float, ...]
    steps: Mapping[float, float]
    kept: float
    why: str | None


def scale_of(
    name: str, kind: str, own: float, scores: Float[np.ndarray, "det"]
) -> ThresholdScale:
    """The scale of a mode, from the scores of all its boxes on the training units.

    Args:
        name: The mode.
        kind: What its scores are: probabilities, raw or none.
        own: The threshold that it has.
        scores: Scores of all its boxes.
    """
    if kind == "none" or not len(scores):
        return ThresholdScale("none", (own,), {}, own, f"{name} has no scores")
    if scores.min() == scores.max():
        return ThresholdScale(
            "none", (own,), {}, own, f"all scores of {name} are {scores[0]:g}"
        )
    if kind == "probabilities":
        return ThresholdScale(
            "probabilities", GRID, {step: step for step in STEPS}, SHARED, None
        )
    ordered = np.sort(scores)
    at = {share: float(ordered[int(share * len(ordered))]) for share in QUANTILES}
    grid = sorted(
        {ALL, own, *(threshold for share, threshold in at.items() if share > 0)}
    )
    steps = {at[share]: share for share in reversed(STEPS)}
    return ThresholdScale(
        "quantiles",
        tuple(grid),
        dict(sorted(steps.items())),
        own,
        f"the scores of {name} are raw",
    )


class Ends(NamedTuple):
    """The scales of a cell's two modes, and whether boxes are matched in the image or
    as 3D boxes on the ground.
    """

    cheap: ThresholdScale
    full: ThresholdScale
    in_image: bool


class Counted(NamedTuple):
    """Counts of both modes at thresholds over some units, and the number of frames
    behind them.
    """

    cheap: Rates
    full: Rates
    frames: int


def chosen(ends: Ends, rates: Counted) -> list[OperatingPoint]:
    """S0 to S3 from counts over the grids of both modes; None with a reason if a scheme
    has no meaning here.
    """
    why = [scale.why for scale in (ends.cheap, ends.full) if scale.why is not None]
    reason = f"{SHARED:g} is a probability, and {' and '.join(why)}"
    shared = (
        OperatingPoint("S0", None, None, reason)
        if why
        else OperatingPoint("S0", SHARED, SHARED)
    )
    points = own_scale_points(
        rates.cheap, rates.full, at=ends.cheap.grid.index(ends.cheap.kept)
    )
    fixed = (
        f"{ends.full.why}, so it cannot be moved" if ends.full.kind == "none" else ""
    )
    neither = (
        "neither mode can be moved"
        if ends.full.kind == ends.cheap.kind == "none"
        else ""
    )
    undefined = {"S1": fixed, "S2": neither, "S3": fixed}
    return [
        shared,
        *(
            OperatingPoint(s, None, None, undefined[s]) if undefined[s] else p
            for s, p in points.items()
        ),
    ]


def pairs(ends: Ends) -> list[tuple[float, float]]:
    """The 25 pairs of cheap and full thresholds; fewer if scores are tied, none if a
    mode has no steps.
    """
    return [(cheap, full) for cheap in ends.cheap.steps for full in ends.full.steps]
