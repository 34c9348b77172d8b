"""Rankings over all shares of the inputs at once: APGR, CPTs, areas between curves.

A gain curve is the expected sum of decision values over the highest scores against the
share of inputs escalated. It is linear within a group of equal scores, so its area and
its first crossing of a level are exact in every draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Bool, Float, InputFloats, PerResample
from deepval.basics.checks import share_of_inputs
from deepval.basics.errors import InputError, suggestion
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.differences import compare_one, unit_shown, why_undefined
from deepval.judge.intervals import ROUNDING, estimate, interval_over, verdict_of
from deepval.judge.policies import Policy, Ranking
from deepval.judge.purses import runs
from deepval.judge.results import Area, CallShare, Reason, Recovery, Threshold, joined

RECOVERED = (0.2, 0.5, 0.8)
"""Parts of the gap at which the share of calls is reported, as in RouteLLM."""
RANDOM = "random"
ORACLE = "oracle"


@dataclass(frozen=True, eq=False)
class Fresh:
    """What is computed only where asked for needs of a fresh result.

    Attributes:
        bootstrap: The resamples.
        rankings: The allocators with one score per input.
        thresholds: Finds the threshold of every allocator under every budget.
        policies: All allocators and references.
        allowances: The budgets of the user.
        own: The user's own allocators; of none all.
        diagnostics: Scores that use the answer, which cannot be deployed.
    """

    bootstrap: Bootstrap
    rankings: tuple[Ranking, ...]
    thresholds: Callable[[], tuple[Threshold, ...]]
    policies: tuple[Policy, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    own: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()

    @property
    def has_gap(self) -> Bool[np.ndarray, "resample"]:
        """Whether the full mode has less loss than the cheap one in each resample."""
        bootstrap = self.bootstrap
        return bootstrap.full_gain > ROUNDING * bootstrap.sum_of_sizes

    def score(self, name: str) -> InputFloats:
        """The scores of an allocator."""
        scores = {ranking.name: ranking.score for ranking in self.rankings}
        score = scores.get(name)
        if score is None:
            raise InputError(
                "A gain curve needs an allocator with one score per input; it must be "
                f"one of {', '.join([*scores, RANDOM, ORACLE])}; found "
                f"{name!r}{suggestion(name, scores)}"
            )
        return score


@dataclass(frozen=True, eq=False)
class GainCurve:
    """A gain curve in every resample.

    Attributes:
        area: Its area, in units of the loss.
        reached: The share of the inputs at which it reaches each level.
    """

    area: PerResample
    reached: Float[np.ndarray, "resample level"]


def gain_curve(fresh: Fresh, name: str, levels: Sequence[float] = ()) -> GainCurve:
    """The gain curve of an allocator, of chance or of the oracle.

    Args:
        fresh: The data.
        name: Whose curve.
        levels: Parts of the gain of escalating everything.
    """
    bootstrap = fresh.bootstrap
    resamples = len(bootstrap.counts)
    if name == RANDOM:
        # A straight line: half of the gain, and each level at its own share.
        reached = np.broadcast_to(np.array(levels), (resamples, len(levels)))
        return GainCurve(bootstrap.full_gain / 2, reached)
    values = bootstrap.table.decision_values
    if name == ORACLE:
        score = values
        values = bootstrap.table.benefits
    else:
        score = fresh.score(name)
    area = np.zeros(resamples)
    reached = np.full((resamples, len(levels)), np.nan)
    inputs = np.maximum(bootstrap.inputs, 1.0)
    pieces = runs(
        score,
        [np.ones(len(score)), values],
        bootstrap.table.unit,
        counts=bootstrap.counts,
    )
    for part, (number, gain) in pieces:
        before = np.cumsum(gain, axis=1) - gain
        area[part] = (number * (before + gain / 2)).sum(axis=1) / inputs[part]
        for column, level in enumerate(levels):
            target = level * bootstrap.full_gain[part]
            share = _first_reached(number, gain, target) / inputs[part]
            reached[part, column] = np.where(fresh.has_gap[part], share, np.nan)
    return GainCurve(area, reached)


def _first_reached(
    number: Float[np.ndarray, "resample group"],
    gain: Float[np.ndarray, "resample group"],
    target: PerResample,
) -> PerResample:
    """Number of inputs at which a curve first reaches a target; NaN if it never does.

    Args:
        number: Number of inputs of each group of equal scores.
        gain: Their gain.
        target: The gain to reach.
    """
    before = np.cumsum(gain, axis=1) - gain
    is_over = before + gain >= target[:, None] * (1 - 1e-12)
    resample = np.arange(len(target))
    at = is_over.argmax(axis=1)
    inputs_before = (np.cumsum(number, axis=1) - number)[resample, at]
    rise = gain[resample, at]
    # The line is straight within a group; a group without gain is reached at its start.
    inside = np.zeros(len(target))
    missing = target - before[resample, at]
    np.divide(missing, rise, out=inside, where=rise > 0)
    reached = inputs_before + np.clip(inside, 0.0, 1.0) * number[resample, at]
    return np.where(is_over.any(axis=1), reached, np.nan)


def recoveries(
    fresh: Fresh, levels: Sequence[float] = RECOVERED
) -> tuple[Recovery, ...]:
    """APGR and call-performance thresholds of every ranking, and of the oracle."""
    levels = [share_of_inputs(level) for level in levels]
    names = [ranking.name for ranking in fresh.rankings]
    return tuple(_recovery(fresh, name, levels) for name in [*names, ORACLE])


def _recovery(fresh: Fresh, name: str, levels: Sequence[float]) -> Recovery:
    bootstrap = fresh.bootstrap
    has_gap = fresh.has_gap
    curve = gain_curve(fresh, name, levels)
    undefined = np.full(len(curve.area), np.nan)
    apgr = np.divide(curve.area, bootstrap.full_gain, out=undefined, where=has_gap)
    drawn = apgr[bootstrap.drawn]
    if not (bootstrap.has_intervals and has_gap[0]):
        drawn = np.full(len(drawn), np.nan)
    ahead = interval_over(drawn - 0.5, bootstrap.draws)
    verdict = None
    if name != ORACLE:
        verdict = verdict_of(ahead)
    calls = []
    for column, level in enumerate(levels):
        share = curve.reached[:, column]
        own = np.where(np.isnan(drawn), np.nan, share[bootstrap.drawn])
        bounds = interval_over(own, bootstrap.draws, scale=0.0)
        calls.append(CallShare(level, estimate(float(share[0]), bounds)))
    dropped = 0
    if bootstrap.has_intervals:
        dropped = int(np.count_nonzero(np.isnan(apgr[bootstrap.drawn])))
    return Recovery(
        allocator=name,
        apgr=estimate(float(apgr[0]), interval_over(drawn, bootstrap.draws, scale=0.0)),
        versus_random=estimate(float(apgr[0] - 0.5), ahead),
        verdict=verdict,
        calls=tuple(calls),
        draws=len(bootstrap.draws),
        dropped=dropped,
        reason=joined(_why_no_apgr(fresh)),
    )


def _why_no_apgr(fresh: Fresh) -> list[Reason]:
    """Why APGR or its interval is undefined."""
    reasons = []
    if not fresh.has_gap[0]:
        reasons.append(Reason.NO_GAP)
    no_interval = [
        reason
        for reason in why_undefined(fresh.bootstrap)
        if reason is not Reason.NO_SHARE
    ]
    return reasons + no_interval


def area(fresh: Fresh, candidate: str, baseline: str) -> Area:
    """The area between two gain curves, paired within every draw of units."""
    bootstrap = fresh.bootstrap
    ours = gain_curve(fresh, candidate).area
    theirs = gain_curve(fresh, baseline).area
    comparison = compare_one(bootstrap, ours, theirs)
    return Area(
        candidate=candidate,
        baseline=baseline,
        difference=comparison.share.estimate,
        loss=comparison.loss.estimate,
        unit=unit_shown(bootstrap),
        verdict=comparison.verdict,
        draws=len(bootstrap.draws),
        dropped=comparison.dropped,
        reason=joined(why_undefined(bootstrap)),
    )
