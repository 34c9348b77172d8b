"""All compared rows -> intervals that hold for all of them at once.

Each interval is the difference +- c * spread. c is the smallest number at which all
rows are within their bounds in 95 % of the draws (max-t; Westfall and Young,
"Resampling-based multiple testing", 1993). The spread is itself an estimate, so with
few units c is widened as Student's t is against the normal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import DrawRows, PerRow, ResampleRows
from deepval.judge.bootstrap import Totals
from deepval.judge.differences import paired_difference
from deepval.judge.draws import Draws
from deepval.judge.intervals import (
    LEVEL,
    ROUNDING,
    Interval,
    interval,
    spreads,
    student_quantile,
)
from deepval.judge.judgement import Contest, Judgement


@dataclass(frozen=True)
class Simultaneous:
    """Intervals of the difference with chance that hold for all rows at once."""

    share: Interval | None
    loss: Interval | None


def simultaneous(
    totals: Totals, contests: Sequence[Contest]
) -> dict[Judgement, Simultaneous]:
    """The simultaneous intervals of all rows that have a verdict with an interval."""
    rows = []
    gains = []
    chances = []
    for contest in contests:
        for entry in contest.entries:
            row = entry.judgement
            has_verdict = row.figures is not None and row.verdict is not None
            if has_verdict and entry.outcome.gains is not None:
                rows.append(row)
                gains.append(entry.outcome.gains.gain)
                chances.append(contest.gains(row.references.chance).gain)
    if len(rows) == 0:
        return {}
    # One matrix of all rows, because a draw counts only if every row keeps its bounds.
    difference = paired_difference(totals, np.stack(gains), np.stack(chances))
    shares = _intervals(totals, difference.share)
    losses = _intervals(totals, difference.loss)
    return {
        row: Simultaneous(share, loss)
        for row, share, loss in zip(rows, shares, losses, strict=True)
    }


def _intervals(totals: Totals, samples: ResampleRows) -> list[Interval | None]:
    point = samples[:, 0]
    drawn = samples[:, totals.drawn]
    units = len(totals.unit_ids)
    return intervals_at_once(point, drawn, totals.draws, units=units)


def intervals_at_once(
    point: PerRow, samples: DrawRows, draws: Draws, *, units: float
) -> list[Interval | None]:
    """Intervals of several figures that hold for all of them at once.

    Args:
        point: The figures in the sample.
        samples: The figures in the draws; NaN leaves a draw out.
        draws: The draws.
        units: Number of units that are drawn; may be infinite.
    """
    spread = spreads(samples, draws)
    critical = widened(_critical(point, samples, spread, draws), units)
    return [
        interval(value - critical * own, value + critical * own)
        for value, own in zip(point.tolist(), spread.tolist(), strict=True)
    ]


def _critical(point: PerRow, samples: DrawRows, spread: PerRow, draws: Draws) -> float:
    """The largest distance of any row, in spreads, that 95 % of the draws keep."""
    is_used = ~np.isnan(samples).all(axis=0)
    if not is_used.any():
        return math.nan
    # A row that never varies is always within its bounds.
    scale = np.where(spread > ROUNDING, spread, np.inf)
    distance = np.abs(samples - point[:, None])[:, is_used] / scale[:, None]
    largest = np.nanmax(distance, axis=0, initial=0.0)
    # c is the 95 % quantile of the largest distance in each draw.
    weights = np.ones(len(draws))
    if draws.weights is not None:
        weights = draws.weights
    order = np.argsort(largest, kind="stable")
    reached = np.cumsum(weights[is_used][order])
    # The last digits of a sum of probabilities must not push c to the next draw.
    at = int(np.searchsorted(reached, (LEVEL - 1e-12) * reached[-1]))
    return float(largest[order[min(at, len(order) - 1)]])


def widened(critical: float, units: float) -> float:
    """The number that Student's t exceeds as often as the normal exceeds `critical`."""
    if math.isnan(critical) or math.isinf(units):
        return critical
    tail = math.erfc(critical / math.sqrt(2)) / 2
    return student_quantile(tail, units - 1) / math.sqrt(1 - 1 / units)
