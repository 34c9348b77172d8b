"""Units -> draws of units with replacement, as counts per unit.

All policies that are judged on the same units share the draws, so that every
comparison is paired. With few units all possible draws can be enumerated: then there
is no Monte-Carlo error, and no seed.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import Bool, Float, PerDraw, PerRow
from deepval.basics.errors import InputError
from deepval.judge.results import DrawsUsed

MOST_EXACT_DRAWS = 50_000
"""Largest number of draws to enumerate: 9 units have 24,310, 10 units have 92,378."""
MOST_DRAWS = 10_000_000
"""Largest number of random draws."""
MOST_COUNTS = 2**28
"""Largest number of draws times units in memory: 2 GiB of counts."""
DRAWN_AT_ONCE = 1 << 20
"""Units to draw at a time, so that only the counts and not the units stay in memory."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of units.

    Attributes:
        counts: How often each draw contains each unit.
        weights: Probability of each draw; None where all are equally likely.
        seed: Seed of random draws; None where no chance is involved.
    """

    counts: Float[np.ndarray, "draw unit"]
    weights: PerDraw | None
    seed: int | None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def method(self) -> Literal["none", "drawn", "exact"]:
        """How the draws are obtained."""
        if len(self) == 0:
            return "none"
        if self.weights is None:
            return "drawn"
        return "exact"

    @property
    def used(self) -> DrawsUsed:
        """How units were drawn, as a record of a result."""
        return DrawsUsed(self.method, len(self), self.seed)

    def probability(self, marked: Bool[np.ndarray, "draw"]) -> float:
        """Probability of the marked draws."""
        return float(self.probabilities(marked[None])[0])

    def probabilities(self, marked: Bool[np.ndarray, "row draw"]) -> PerRow:
        """Probability of the draws that are marked in each row."""
        if len(self) == 0:
            return np.zeros(len(marked))
        if self.weights is None:
            return np.count_nonzero(marked, axis=1) / len(self)
        return marked @ self.weights


def make_draws(units: int, draws: int | Literal["exact"], seed: int = 0) -> Draws:
    """A number of random draws of `units` units, or all of them where it is "exact"."""
    if isinstance(draws, str) and draws == "exact":
        return all_draws(units)
    if isinstance(draws, str):
        raise InputError(
            f"draws must be a number of draws or 'exact'; found {draws!r}."
        )
    draws = checks.whole(draws, "draws", most=MOST_DRAWS)
    seed = checks.whole(seed, "seed")
    if draws * units > MOST_COUNTS:
        raise InputError(
            f"{draws:,} draws of {units:,} units are {draws * units:,} counts, and at "
            f"most {MOST_COUNTS:,} are held: give at most {MOST_COUNTS // units:,} "
            "draws, or larger units (scenes, logs, users)."
        )
    return random_draws(units, draws, seed)


def random_draws(units: int, draws: int, seed: int) -> Draws:
    """Random draws of as many units as there are."""
    # The generator and its use are part of the benchmark: equal seeds, equal draws.
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = np.empty((draws, units))
    step = max(1, DRAWN_AT_ONCE // units)
    # Pieces continue one stream of numbers: the draws equal those of a single call.
    for first in range(0, draws, step):
        part = counts[first : first + step]
        drawn_units = rng.integers(0, units, part.shape)
        # Numbering the cells of the result lets one bincount serve all draws.
        cell = np.arange(len(part))[:, None] * units + drawn_units
        part[:] = np.bincount(cell.ravel(), minlength=part.size).reshape(part.shape)
    return Draws(counts, None, seed)


def all_draws(units: int) -> Draws:
    """Every possible draw with its multinomial probability.

    Of two units, each is drawn twice with probability 1/4, and both once with 1/2.

    >>> draws = all_draws(2)
    >>> draws.counts.tolist()
    [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    >>> draws.weights.round(12).tolist()
    [0.25, 0.5, 0.25]
    """
    number = math.comb(2 * units - 1, units)
    if number > MOST_EXACT_DRAWS:
        raise InputError(
            f"draws='exact' enumerates at most {MOST_EXACT_DRAWS:,} draws; {units} "
            f"units have {number:,}. Give a number."
        )
    counts = _compositions(units, units)
    # U! / (product of counts!) / U**U, in logarithms so that no factorial overflows.
    log_factorial = np.array([math.lgamma(count + 1) for count in range(units + 1)])
    log_orders = log_factorial[units] - log_factorial[counts].sum(axis=1)
    log_of_all_orders = units * math.log(units)
    weights = np.exp(log_orders - log_of_all_orders)
    return Draws(counts.astype(np.float64), weights / weights.sum(), None)


def _compositions(total: int, parts: int) -> np.ndarray:
    """All ways to write a total as an ordered sum of `parts` numbers of 0 or more."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(parts - 1):
        # Every row branches into all numbers that its sum still leaves room for.
        room = total - rows.sum(axis=1)
        parent = np.repeat(np.arange(len(rows)), room + 1)
        first_child = np.cumsum(room + 1) - (room + 1)
        number = np.arange(len(parent)) - np.repeat(first_child, room + 1)
        rows = np.column_stack([rows[parent], number])
    return np.column_stack([rows, total - rows.sum(axis=1)])


def child_seeds(seed: int, datasets: int) -> list[int]:
    """One seed per data set, all children of one seed.

    Draws are shared within a data set and independent between data sets.
    """
    children = np.random.SeedSequence(seed).spawn(datasets)
    return [int(child.generate_state(1, np.uint64)[0]) for child in children]


def seeds_by_units(units: Mapping[str, Iterable[Any]], seed: int) -> dict[str, int]:
    """One seed for each list of units, so that cells of the same units share draws.

    Args:
        units: The units of each cell.
        seed: The seed of a single list; the seeds of several lists are its children.
    """
    lists = {name: tuple(sorted(map(str, members))) for name, members in units.items()}
    different = sorted(set(lists.values()))
    seeds = [seed]
    if len(different) > 1:
        seeds = child_seeds(seed, len(different))
    by_list = dict(zip(different, seeds, strict=False))
    return {name: by_list[members] for name, members in lists.items()}
