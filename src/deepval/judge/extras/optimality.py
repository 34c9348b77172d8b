"""Scores and decision values -> how far a ranking is from the best of all.

The oracle has a capacity, not a quota: of at most k inputs it takes only those with
V > 0. With K = #{V >= 0}, a score is optimal for every k <= K iff it ranks positive
values first, in order, and zeros before negatives (Proposition 1 of the paper).
"""

from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float, InputFlags, InputFloats
from deepval.basics.errors import InputError
from deepval.judge.purses import Rows, walk
from deepval.judge.tables.values import most_helpful
from deepval.judge.tie_expectations import cumulative_gain, inclusion


def oracle_gain(values: InputFloats, slots: int) -> float:
    """OPT(k): the sum of the k largest positive values."""
    return float(most_helpful(values, slots).sum())


def oracle_curve(values: InputFloats) -> Float[np.ndarray, "slots"]:
    """OPT(k) for every k = 0, 1, ..., N."""
    best = np.sort(most_helpful(values))[::-1]
    return np.cumsum(np.concatenate([[0.0], best, np.zeros(len(values) - len(best))]))


@dataclass(frozen=True)
class Violation:
    """Proof that a ranking is not optimal: at `slots` it may select `above` and may
    leave out `below`.

    Attributes:
        above: Input that is selected (with some probability) and should not be; None
            for a slot that abstention leaves empty.
        below: Input of larger value that is left out (with some probability); None if
            an empty slot would be better.
        slots: Smallest number of slots at which the expected gain falls short of the
            oracle's.
        shortfall: By how much it falls short there.
    """

    above: int | None
    below: int | None
    slots: int
    shortfall: float


def ranking_violation(
    score: InputFloats, values: InputFloats, abstained: InputFlags | None = None
) -> Violation | None:
    """A proof that the score is not optimal; None iff it is optimal for every k <= K in
    expectation over tie-breaks.

    Args:
        score: The score of each input.
        values: Their decision values.
        abstained: Inputs that are never selected, even if slots stay empty. If it is
            passed, the score must be optimal at every k, also above K.
    """
    inputs = len(values)
    if abstained is not None:
        score, values = _with_empty_slots(score, values, abstained)
    order, starts = walk(score)
    ranked, ends = values[order], np.append(starts[1:], len(order))
    budget = np.arange(1, int(np.count_nonzero(values >= 0)) + 1)
    group = np.searchsorted(starts, budget - 1, side="right") - 1
    # At k, inputs up to the end of the group at the cut may be selected; those of a
    # group that does not fit, and all after it, may be left out. The gain is the
    # oracle's iff no value of the former is below one of the latter.
    last = ends[group]
    first = np.where(budget < last, starts[group], last)
    least = np.minimum.accumulate(ranked)[last - 1]
    most = np.append(np.maximum.accumulate(ranked[::-1])[::-1], -np.inf)[first]
    wrong = np.flatnonzero(least < np.maximum(most, 0.0))
    if not len(wrong):
        return None
    k, at = int(budget[wrong[0]]), wrong[0]
    above = int(order[np.argmin(ranked[: last[at]])])
    below = int(order[first[at] + np.argmax(ranked[first[at] :])])
    lack = float(oracle_curve(values)[k] - cumulative_gain(score, values)[k])
    return Violation(
        above if above < inputs else None, below if below < inputs else None, k, lack
    )


def _with_empty_slots(
    score: InputFloats, values: InputFloats, abstained: InputFlags
) -> tuple[Rows, Rows]:
    """Abstention as a ranking: as many empty slots of value 0 as inputs, ranked above
    the inputs abstained on.

    No k <= N gets past the empty slots, so the order of the inputs after them is free:
    harmful ones are the last.
    """
    rank = np.unique(score, return_inverse=True)[1] + 1.0
    rank = np.where(abstained, np.where(values < 0, -2.0, -1.0), rank)
    empty = np.zeros(len(values))
    return np.concatenate([rank, empty]), np.concatenate([values, empty])


@dataclass(frozen=True)
class Regret:
    """How a selection of k inputs falls short of the oracle's, in expectation over
    tie-breaks.

    Attributes:
        regret: OPT(k) - gain, equal to the sum of (missed value - wrongly selected
            value) over matched pairs.
        swapped: u, the expected number of oracle inputs missed, which equals that of
            inputs wrongly selected.
        margin: delta, by how much the least missed value exceeds the largest wrongly
            selected one (NaN for none).
        bound: u * delta <= regret, where delta > 0 (NaN otherwise).
    """

    regret: float
    swapped: float
    margin: float
    bound: float


def regret(
    score: InputFloats,
    values: InputFloats,
    slots: int,
    abstained: InputFlags | None = None,
) -> Regret:
    """Regret of the k highest scores against an oracle selection of the same size, for
    k <= #{V >= 0}.

    Among equal values the oracle prefers what the score selects, so both sets differ
    only where value is lost. Inputs that are abstained on are never selected; slots
    that stay empty count as inputs of value 0, and k may be any number up to that of
    the inputs.
    """
    if abstained is not None:
        score, values = _with_empty_slots(score, values, abstained)
    reachable = int(np.count_nonzero(values >= 0))
    if slots > reachable:
        raise InputError(
            "The regret of a top-k mismatch needs "
            f"k <= #{{V >= 0}} = {reachable}; found k = {slots}."
        )
    chosen = inclusion(score, slots)
    ideal = _overlapping_oracle(values, chosen, slots)
    missed, wrong = ideal - chosen > 1e-12, chosen - ideal > 1e-12
    swapped = float((ideal - chosen)[missed].sum())
    margin = (
        float(values[missed].min() - values[wrong].max())
        if missed.any() and wrong.any()
        else float("nan")
    )
    lost = float((ideal - chosen) @ values)
    return Regret(
        lost, swapped, margin, swapped * margin if margin > 0 else float("nan")
    )


def _overlapping_oracle(
    values: InputFloats, chosen: InputFloats, slots: int
) -> InputFloats:
    """Weights in [0, 1] of an oracle selection of total size k that shares as much as
    it can with `chosen`.
    """
    if not slots:
        return np.zeros(len(values))
    cut = np.partition(values, len(values) - slots)[len(values) - slots]
    ideal = (values > cut).astype(float)
    tied = values == cut
    left = slots - ideal.sum()
    shared = chosen[tied].sum()
    if shared >= left:
        ideal[tied] = chosen[tied] * (left / shared if shared else 0.0)
    else:
        rest = 1.0 - chosen[tied]
        ideal[tied] = chosen[tied] + rest * ((left - shared) / rest.sum())
    return ideal
