"""Rankings -> their gain against the share of inputs escalated, with intervals."""

from collections.abc import Sequence

import numpy as np

from deepval.basics.arrays import ResampleRows, Slots
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.differences import paired_difference, samples_of_draws
from deepval.judge.intervals import intervals_over
from deepval.judge.policies import Oracle, Ranking
from deepval.judge.results import Curve, known
from deepval.judge.tables.values import quota


def curves(
    bootstrap: Bootstrap, rankings: Sequence[Ranking], points: int
) -> tuple[Curve, ...]:
    """The gain curves of rankings, of chance and of the oracle.

    Args:
        bootstrap: The resamples.
        rankings: The allocators.
        points: Number of shares, from 1 / points to 1.
    """
    alphas = np.linspace(0, 1, points + 1)[1:].tolist()
    slots = np.column_stack([quota(bootstrap.inputs, alpha) for alpha in alphas])
    gains = {"random": _random_gains(bootstrap, slots)}
    for ranking in rankings:
        gains[ranking.name] = ranking.sums_of_slots(bootstrap, slots)[:, :, 0].T
    oracle = Oracle.of(bootstrap.table)
    gains["oracle"] = oracle.sums_of_slots(bootstrap, slots)[:, :, 0].T
    return tuple(_curve(bootstrap, name, alphas, gain) for name, gain in gains.items())


def _random_gains(bootstrap: Bootstrap, slots: Slots) -> ResampleRows:
    """Expected gain of escalating so many inputs at random; a row per share."""
    taken = np.minimum(slots, bootstrap.inputs[:, None])
    share = taken / np.maximum(bootstrap.inputs, 1.0)[:, None]
    return share.T * bootstrap.full_gain


def _curve(
    bootstrap: Bootstrap, name: str, alphas: Sequence[float], gain: ResampleRows
) -> Curve:
    """One curve; `gain` has a row per share."""
    difference = paired_difference(bootstrap, gain, np.zeros_like(gain))
    share, _ = samples_of_draws(bootstrap, difference)
    lows = []
    highs = []
    # The bounds of a curve are drawn, so rounding errors around 0 may stay.
    for own in intervals_over(share, bootstrap.draws, scale=0.0):
        lows.append(None if own is None else own.low)
        highs.append(None if own is None else own.high)
    return Curve(
        allocator=name,
        alpha=tuple(alphas),
        gain_share=tuple(known(value) for value in difference.share[:, 0]),
        lo=tuple(lows),
        hi=tuple(highs),
    )
