"""Decision values -> the best that any allocation can reach, and how far a score is from it.

The oracle has a capacity, not a quota: of at most k inputs it takes only those with V > 0. With K = #{V >= 0}, a
score is optimal for every k <= K iff it ranks positive values first, in order, and zeros before negatives
(Proposition 1 of the paper).
"""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError
from deepval.judging.kernel import top_sums
from deepval.judging.ties import cumulative_gain, inclusion
from deepval.tables.values import most_helpful


def oracle_gain(values: Float[np.ndarray, "input"], slots: int) -> float:
    """OPT(k): the sum of the k largest positive values."""
    return float(most_helpful(values, slots).sum())


def oracle_curve(values: Float[np.ndarray, "input"]) -> Float[np.ndarray, "slots"]:
    """OPT(k) for every k = 0, 1, ..., N."""
    best = np.sort(most_helpful(values))[::-1]
    return np.cumsum(np.concatenate([[0.0], best, np.zeros(len(values) - len(best))]))


def oracle_weights(values: Float[np.ndarray, "input"], slots: int) -> Float[np.ndarray, "input"]:
    """The probability that each input is among those that the oracle takes, equal values alike."""
    return inclusion(values, len(most_helpful(values, slots)))


def oracle_sums(
    values: Float[np.ndarray, "input"],
    unit: Int[np.ndarray, "input"],
    *,
    counts: Float[np.ndarray, "resample unit"],
    slots: Int[np.ndarray, "resample budget"],
) -> tuple[Float[np.ndarray, "resample budget"], Float[np.ndarray, "resample budget"]]:
    """OPT(k) and the number of inputs taken in every resample of the units, for each of its numbers of slots."""
    helpful = np.flatnonzero(values > 0)
    values, unit = values[helpful], unit[helpful]
    gain = top_sums(values, values[None], unit, counts=counts, slots=slots)[:, :, 0]
    available = counts @ np.bincount(unit, minlength=counts.shape[1])
    return gain, np.minimum(slots, available[:, None])


@dataclass(frozen=True)
class Violation:
    """Proof that a ranking is not optimal.

    Attributes:
        above: Input that is ranked too high (or tied).
        below: Input of strictly larger value (or zero where the other is negative) that it is not ranked below.
        slots: Smallest number of slots at which the expected gain falls short of the oracle's.
        shortfall: By how much it falls short there.
    """

    above: int
    below: int
    slots: int
    shortfall: float


def ranking_violation(score: Float[np.ndarray, "input"], values: Float[np.ndarray, "input"]) -> Violation | None:
    """None iff the score is optimal for every k <= K in expectation over tie-breaks, else a witness.

    Two inputs need a strict order iff their values differ and the larger one is not negative.
    """
    rank = np.where(values < 0, -1.0, values)
    order = np.lexsort((-score, -rank))
    level = np.cumsum(np.concatenate([[0], rank[order][1:] != rank[order][:-1]]))[: len(rank)]
    lowest = np.minimum.accumulate(score[order])
    last = np.searchsorted(level, level, side="left") - 1  # last input of a strictly larger value, -1 for none
    wrong = np.flatnonzero((last >= 0) & (score[order] >= lowest[last]))
    if not len(wrong):
        return None
    above = wrong[0]
    below = int(np.argmin(score[order][: last[above] + 1]))
    reachable = int(np.count_nonzero(values >= 0))
    lack = (oracle_curve(values) - cumulative_gain(score, values))[: reachable + 1]
    short = np.flatnonzero(lack > 1e-12 * np.abs(values).sum())
    slots = int(short[0]) if len(short) else int(np.argmax(lack))
    return Violation(int(order[above]), int(order[below]), slots, float(lack[slots]))


@dataclass(frozen=True)
class Regret:
    """How a selection of k inputs falls short of the oracle's, in expectation over tie-breaks.

    Attributes:
        regret: OPT(k) - gain, equal to the sum of (missed value - wrongly selected value) over matched pairs.
        swapped: u, the expected number of oracle inputs missed, which equals that of inputs wrongly selected.
        margin: delta, by how much the least missed value exceeds the largest wrongly selected one (NaN for none).
        bound: u * delta <= regret, where delta > 0 (NaN otherwise).
    """

    regret: float
    swapped: float
    margin: float
    bound: float


def regret(score: Float[np.ndarray, "input"], values: Float[np.ndarray, "input"], slots: int) -> Regret:
    """Regret of the k highest scores against an oracle selection of the same size, for k <= #{V >= 0}.

    Among equal values the oracle prefers what the score selects, so both sets differ only where value is lost.
    """
    reachable = int(np.count_nonzero(values >= 0))
    if slots > reachable:
        raise InputError(f"The regret of a top-k mismatch needs k <= #{{V >= 0}} = {reachable}; found k = {slots}.")
    chosen = inclusion(score, slots)
    ideal = _overlapping_oracle(values, chosen, slots)
    missed, wrong = ideal - chosen > 1e-12, chosen - ideal > 1e-12
    swapped = float((ideal - chosen)[missed].sum())
    margin = float(values[missed].min() - values[wrong].max()) if missed.any() and wrong.any() else float("nan")
    lost = float((ideal - chosen) @ values)
    return Regret(lost, swapped, margin, swapped * margin if margin > 0 else float("nan"))


def _overlapping_oracle(
    values: Float[np.ndarray, "input"], chosen: Float[np.ndarray, "input"], slots: int
) -> Float[np.ndarray, "input"]:
    """Weights in [0, 1] of an oracle selection of total size k that shares as much as it can with `chosen`."""
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
