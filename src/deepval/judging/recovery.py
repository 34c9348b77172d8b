"""Scores and resamples -> summaries of gain curves over all shares of the inputs: APGR, CPTs, areas between curves.

A gain curve is the expected sum of decision values over the highest scores against the share of inputs escalated:
linear within a group of equal scores, so its area and its first crossing of a level are exact in every draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float
from deepval.checks import share_of_inputs
from deepval.errors import InputError, suggestion
from deepval.judging.resamples import Resamples
from deepval.judging.selections import runs
from deepval.results import Area, CallShare, Reason, Recovery, joined
from deepval.tables.scores import Scores

RECOVERED = (0.2, 0.5, 0.8)
"""Parts of the gap at which the share of calls is reported, as in RouteLLM."""
RANDOM, ORACLE = "random", "oracle"


@dataclass(frozen=True, eq=False)
class Fresh:
    """Data of a fresh result for whole curves: the resamples and the judged scores."""

    resamples: Resamples
    scores: tuple[Scores, ...]

    @property
    def gap(self) -> Bool[np.ndarray, "resample"]:
        """Whether the full mode has less total loss than the cheap one in each resample, beyond rounding error."""
        re = self.resamples
        return re.full_gain > 1e-12 * (2 * re.full_benefit - re.full_gain)


class _Curve(NamedTuple):
    """A gain curve in every resample: its area, in units of the loss, and the shares at which it reaches levels."""

    area: Float[np.ndarray, "resample"]
    reached: Float[np.ndarray, "resample level"]


def _curve(fresh: Fresh, name: str, levels: Sequence[float] = ()) -> _Curve:
    re = fresh.resamples
    if name == RANDOM:
        return _Curve(re.full_gain / 2, np.broadcast_to(np.array(levels), (len(re.counts), len(levels))))
    values = re.table.decision_values
    if name == ORACLE:
        score, values = values, re.benefits
    else:
        score = _scores(fresh, name).values
    area, reached = np.zeros(len(re.counts)), np.full((len(re.counts), len(levels)), np.nan)
    number = np.maximum(re.inputs, 1.0)
    for part, (count, value) in runs(score, [np.ones(len(score)), values], re.table.unit, counts=re.counts):
        before = np.cumsum(value, axis=1) - value
        area[part] = (count * (before + value / 2)).sum(axis=1) / number[part]
        for column, level in enumerate(levels):
            target = level * re.full_gain[part]
            over = before + value >= target[:, None] * (1 - 1e-12)
            at = over.argmax(axis=1)[:, None]
            start, rise, width, done = (
                np.take_along_axis(column_values, at, axis=1)[:, 0]
                for column_values in (before, value, count, np.cumsum(count, axis=1) - count)
            )
            inside = np.divide(target - start, rise, out=np.zeros(len(rise)), where=rise > 0)
            share = (done + np.clip(inside, 0.0, 1.0) * width) / number[part]
            reached[part, column] = np.where(over.any(axis=1) & fresh.gap[part], share, np.nan)
    return _Curve(area, reached)


def _scores(fresh: Fresh, name: str) -> Scores:
    plain = {item.name: item for item in fresh.scores if not item.modes}
    if name not in plain:
        raise InputError(
            f"A gain curve needs an allocator with one score per input; it must be one of "
            f"{', '.join([*plain, RANDOM, ORACLE])}; found {name!r}{suggestion(name, plain)}"
        )
    return plain[name]


def recoveries(fresh: Fresh, levels: Sequence[float] = RECOVERED) -> tuple[Recovery, ...]:
    """APGR and call-performance thresholds of every allocator with one score per input, and of the oracle."""
    levels = [share_of_inputs(level) for level in levels]
    names = [item.name for item in fresh.scores if not item.modes]
    return tuple(_recovery(fresh, name, levels) for name in [*names, ORACLE])


def _recovery(fresh: Fresh, name: str, levels: Sequence[float]) -> Recovery:
    re, gap = fresh.resamples, fresh.gap
    curve = _curve(fresh, name, levels)
    apgr = np.divide(curve.area, re.full_gain, out=np.full(len(curve.area), np.nan), where=gap)
    drawn = apgr[re.drawn]
    selected = ~np.isnan(drawn) & re.resampled & bool(gap[0])
    bounds, ahead = re.draws.interval(drawn, selected), re.draws.interval(drawn - 0.5, selected).snapped()
    reasons = [] if gap[0] else [Reason.NO_GAP]
    reasons += [] if re.resampled else [Reason.SINGLE_UNIT if len(re.draws) else Reason.NO_DRAWS]
    calls = []
    for column, level in enumerate(levels):
        share = curve.reached[:, column]
        of = re.draws.interval(share[re.drawn], selected & ~np.isnan(share[re.drawn]))
        calls.append(CallShare(level, of.estimate(share[0])))
    return Recovery(
        allocator=name,
        apgr=bounds.estimate(apgr[0]),
        versus_random=ahead.estimate(apgr[0] - 0.5),
        verdict=None if name == ORACLE else ahead.verdict,
        calls=tuple(calls),
        draws=len(re.draws),
        dropped=int(np.count_nonzero(np.isnan(drawn))) if re.resampled else 0,
        reason=joined(reasons),
    )


def area(fresh: Fresh, candidate: str, baseline: str) -> Area:
    """The area between two gain curves, paired within every draw of units."""
    re = fresh.resamples
    paired = re.paired(*(_curve(fresh, name).area for name in (candidate, baseline)))
    bounds = re.versus(paired)
    return Area(
        candidate=candidate,
        baseline=baseline,
        difference=bounds.share.estimate(paired.share[0]),
        loss=bounds.loss.estimate(paired.loss[0]),
        unit=re.unit_shown,
        verdict=bounds.verdict,
        draws=len(re.draws),
        dropped=bounds.dropped,
        reason=joined(re.undefined()),
    )
