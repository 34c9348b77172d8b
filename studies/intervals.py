"""Worlds whose truth is known -> how often each kind of interval holds it, how often it
decides, and how wide it is.

Run: python studies/intervals.py [REPLICATIONS [WORLD ...]], WORLD as in mild-noise.
It prints the tables that docs/statistics.md quotes; tests/slow runs a part of
them. The worlds are those of test_coverage.py, their truth is integrated instead of
drawn. A replication is worked out at once: ranks are searched for all draws together,
and a unit's part of a sum up to a rank is read off a table.
"""

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize, special, stats

INPUTS, ALPHA, DRAWS = 40, 0.2, 1000
LEVEL, TAIL = 0.95, 0.025
SIZES = (6, 9, 24, 100)
SPREADS = {"mild": 0.5, "concentrated": 1.6}
SKILL = 0.5
"""How much the score knows of the sign of the value, as in test_coverage.py."""
SHARED = 1.0
"""Standard deviation of the part of a score that all inputs of a unit share, beside 1
of each input's own.
"""


@dataclass(frozen=True)
class World:
    """How unevenly value is spread over units, and what the score knows.

    skilled: of the sign of every value, as much in every unit: better than random.
    noise: of nothing; half of its variance is shared by a unit's inputs, as in real
    scores. No difference. balanced: misleads in the large units that together hold half
    of the value, and knows just so much of the sign in the others that in the
    population it is no better than random. A sample without large units looks better.
    """

    spread: float
    score: str

    @cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Normal deviates of the units' effects, and their probabilities."""
        deviate = np.linspace(-9, 9, 40_001)
        density = np.exp(-(deviate**2) / 2)
        return deviate, density / density.sum()

    def effect(self, deviate: np.ndarray) -> np.ndarray:
        return np.exp(self.spread * deviate - self.spread**2 / 2)

    def skill(self, deviate: np.ndarray, balance: float | None = None) -> np.ndarray:
        """How much the score knows in a unit; below 0 it misleads.

        Value goes with the effect to the power 1.5.
        """
        if self.score == "skilled":
            return np.full(len(deviate), SKILL)
        if self.score == "noise":
            return np.zeros(len(deviate))
        small = deviate < 1.5 * self.spread
        return np.where(small, self.balance if balance is None else balance, -2 * SKILL)

    @cached_property
    def balance(self) -> float:
        """The skill in small units that makes up for what large ones lose."""
        return float(optimize.brentq(self._difference, 0.0, 3.0, xtol=1e-12))

    @cached_property
    def truth(self) -> float:
        """(gain - random's gain) / all-cheap loss of the population."""
        return 0.0 if self.score != "skilled" else self._difference(None)

    def _difference(self, balance: float | None) -> float:
        deviate, weight = self.nodes
        effect, skill = self.effect(deviate), self.skill(deviate, balance)
        touched = np.minimum(0.1 * np.sqrt(effect), 0.9)
        signs = ((1.0, 0.6 * touched), (-1.0, 0.4 * touched), (0.0, 1 - touched))

        def above(cut: float, sign: float) -> np.ndarray:
            return special.ndtr(sign * skill - cut)

        def taken(cut: float) -> float:
            return (
                sum(float(weight @ (share * above(cut, sign))) for sign, share in signs)
                - ALPHA
            )

        cut = float(optimize.brentq(taken, -5, 5, xtol=1e-13))
        sizes = effect * touched
        gain = weight @ (
            sizes
            * (0.6 * (above(cut, 1.0) - ALPHA) - 0.28 * (above(cut, -1.0) - ALPHA))
        )
        return float(gain / (1 + 0.6 * weight @ sizes))

    def sample(
        self, units: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, all-cheap losses and scores, unit by unit."""
        deviate = rng.normal(size=units)
        effect, shape = self.effect(deviate)[:, None], (units, INPUTS)
        touched = rng.random(shape) < np.minimum(0.1 * np.sqrt(effect), 0.9)
        size = np.where(rng.random(shape) < 0.6, 1.0, -0.7) * rng.gamma(2, 0.5, shape)
        value = np.where(touched, effect * size, 0.0)
        cheap = rng.gamma(1, 1, shape) + np.maximum(value, 0)
        score = self.skill(deviate)[:, None] * np.sign(value) + rng.normal(size=shape)
        if self.score == "noise":
            score += SHARED * rng.normal(size=(units, 1))
        return value, cheap, score


class Ranked:
    """A sample, ready for the difference with random under any number of draws."""

    def __init__(self, value: np.ndarray, cheap: np.ndarray, score: np.ndarray) -> None:
        units, inputs = value.shape
        self.units, self.inputs = units, inputs
        order = np.argsort(-score.ravel(), kind="stable")
        self.unit, self.value = order // inputs, value.ravel()[order]
        place = np.arange(1, len(order) + 1)
        self.number = np.zeros((len(order) + 1, units), dtype=np.float32)
        self.number[place, self.unit] = 1
        np.cumsum(self.number, axis=0, out=self.number)
        self.upto = np.zeros((len(order) + 1, units))
        self.upto[place, self.unit] = self.value
        np.cumsum(self.upto, axis=0, out=self.upto)
        self.total, self.loss = value.sum(axis=1), cheap.sum(axis=1)

    def cut(self, counts: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """How many ranks fit whole into the slots of each draw."""
        low, high = (
            np.zeros(len(counts), dtype=int),
            np.full(len(counts), len(self.value)),
        )
        counts = counts.astype(np.float32)
        while (high > low).any():
            middle = (low + high + 1) // 2
            fits = np.einsum("du,du->d", counts, self.number[middle]) <= slots
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    def difference(
        self, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The difference with random in each draw, its all-cheap loss, and the ranks
        that are taken whole.
        """
        number = counts.sum(axis=1) * self.inputs
        slots = np.floor(ALPHA * number + 0.5)
        cut = self.cut(counts, slots)
        left = slots - np.einsum("du,du->d", counts, self.number[cut])
        gain = (
            np.einsum("du,du->d", counts, self.upto[cut])
            + left * np.append(self.value, 0.0)[cut]
        )
        loss = counts @ self.loss
        return (gain - slots / number * (counts @ self.total)) / loss, loss, cut

    def parts(self, cut: np.ndarray, difference: np.ndarray) -> np.ndarray:
        """Each unit's part of (difference of the draw - the true one) x all-cheap loss,
        to first order.

        An input above the cut that pushes another out is worth its value less that of
        the last one taken.
        """
        window = max(5, len(self.value) // 20)
        near = np.concatenate([[0.0], np.cumsum(self.value)])
        low, high = (
            np.maximum(cut - window, 0),
            np.minimum(cut + window, len(self.value)),
        )
        last = ((near[high] - near[low]) / (high - low))[:, None]
        own = (
            self.upto[cut]
            - ALPHA * self.total
            - last * (self.number[cut] - ALPHA * self.inputs)
        )
        return own - difference[:, None] * self.loss


@dataclass(frozen=True, eq=False)
class Sampled:
    """All that the methods look at."""

    ranked: Ranked
    rng: np.random.Generator
    point: float
    drawn: np.ndarray
    jack: np.ndarray
    parts: np.ndarray
    loss: float
    score: np.ndarray
    counts: np.ndarray
    cuts: np.ndarray
    losses: np.ndarray

    @property
    def units(self) -> int:
        return self.ranked.units

    @cached_property
    def spread(self) -> float:
        return float(np.std(self.drawn))

    @cached_property
    def jackknife(self) -> float:
        """Standard error by leaving out each unit in turn."""
        return math.sqrt(
            (self.units - 1) / self.units * np.sum((self.jack - self.jack.mean()) ** 2)
        )

    @cached_property
    def pull(self) -> np.ndarray:
        """How much each unit pulls the difference, by leaving it out."""
        return (self.units - 1) * (self.jack.mean() - self.jack)

    @cached_property
    def studentised(self) -> np.ndarray:
        """(draw - sample) / standard error in the draw, linearised."""
        parts = self.ranked.parts(self.cuts, self.drawn)
        error = (
            np.sqrt(
                self.units
                / (self.units - 1)
                * np.einsum("du,du->d", self.counts, parts**2)
            )
            / self.losses
        )
        return np.divide(
            self.drawn - self.point, error, out=np.zeros(len(error)), where=error > 0
        )

    @cached_property
    def linearised(self) -> float:
        return (
            math.sqrt(self.units / (self.units - 1) * np.sum(self.parts**2)) / self.loss
        )


Bounds = tuple[float, float]


def sample_pixels(world: World, units: int, replication: int) -> Sampled:
    rng = np.random.default_rng(
        [units, replication, sum(map(ord, world.score)), int(10 * world.spread)]
    )
    value, cheap, score = world.sample(units, rng)
    ranked = Ranked(value, cheap, score)
    numbers = np.random.Generator(np.random.PCG64(replication)).integers(
        0, units, (DRAWS, units)
    )
    key = np.arange(DRAWS)[:, None] * units + numbers
    drawn = (
        np.bincount(key.ravel(), minlength=DRAWS * units)
        .reshape(DRAWS, units)
        .astype(float)
    )
    counts = np.vstack([np.ones((1, units)), drawn, 1 - np.eye(units)])
    difference, loss, cut = ranked.difference(counts)
    parts = ranked.parts(cut[:1], difference[:1])[0]
    in_draws = slice(1, 1 + DRAWS)
    return Sampled(
        ranked,
        rng,
        float(difference[0]),
        difference[in_draws],
        difference[1 + DRAWS :],
        parts,
        float(loss[0]),
        score,
        drawn,
        cut[in_draws],
        loss[in_draws],
    )


def quantiles(samples: np.ndarray, low: float, high: float) -> Bounds:
    found = np.quantile(samples, [low, high])
    return float(found[0]), float(found[1])


def percentile(s: Sampled) -> Bounds:
    return quantiles(s.drawn, TAIL, 1 - TAIL)


def basic(s: Sampled) -> Bounds:
    low, high = percentile(s)
    return 2 * s.point - high, 2 * s.point - low


def expanded(s: Sampled) -> Bounds:
    tail = float(
        special.ndtr(
            math.sqrt(s.units / (s.units - 1)) * stats.t.ppf(TAIL, s.units - 1)
        )
    )
    return quantiles(s.drawn, tail, 1 - tail)


def bca(s: Sampled) -> Bounds:
    below = np.mean(s.drawn < s.point) + np.mean(s.drawn == s.point) / 2
    if not 0 < below < 1 or not s.jackknife:
        return percentile(s)
    bias = float(special.ndtri(below))
    away = s.jack.mean() - s.jack
    turn = float(np.sum(away**3) / (6 * np.sum(away**2) ** 1.5))
    z = special.ndtri(np.array([TAIL, 1 - TAIL])) + bias
    low, high = special.ndtr(bias + z / (1 - turn * z))
    return quantiles(s.drawn, float(low), float(high))


def with_t(point: float, error: float, degrees: float) -> Bounds:
    half = -float(special.stdtrit(degrees, TAIL)) * error
    return point - half, point + half


def jackknife_t(s: Sampled) -> Bounds:
    return with_t(s.point, s.jackknife, s.units - 1)


def spread_t(s: Sampled) -> Bounds:
    return with_t(s.point, drawn_error(s), s.units - 1)


def linearised_t(s: Sampled) -> Bounds:
    return with_t(s.point, s.linearised, s.units - 1)


def effective_units(parts: np.ndarray) -> float:
    """As many equal units would be as uneven: 1 / sum of squared shares."""
    return float(parts.sum() ** 2 / np.sum(parts**2)) if np.any(parts) else 1.0


def degrees(parts: np.ndarray) -> float:
    return max(1.0, effective_units(parts) - 1)


def by_pull(s: Sampled) -> float:
    return degrees(np.abs(s.pull))


def by_value(s: Sampled) -> float:
    """By the value to gain, as `effective_units` of a result."""
    return degrees(value_by_unit(s))


def value_by_unit(s: Sampled) -> np.ndarray:
    return np.bincount(s.ranked.unit, np.maximum(s.ranked.value, 0), minlength=s.units)


def by_change(s: Sampled) -> float:
    """By what escalation changes, for better or worse."""
    return degrees(
        np.bincount(s.ranked.unit, np.abs(s.ranked.value), minlength=s.units)
    )


def effective(
    error: Callable[[Sampled], float], freedom: Callable[[Sampled], float]
) -> Callable[[Sampled], Bounds]:
    """Student's t with the degrees of freedom of effective units."""
    return lambda s: with_t(s.point, error(s), freedom(s))


def drawn_error(s: Sampled) -> float:
    return s.spread * math.sqrt(s.units / (s.units - 1))


def jackknife_error(s: Sampled) -> float:
    return s.jackknife


def studentised(s: Sampled) -> Bounds:
    low, high = quantiles(s.studentised, TAIL, 1 - TAIL)
    return s.point - high * s.linearised, s.point - low * s.linearised


def symmetric(s: Sampled) -> Bounds:
    half = float(np.quantile(np.abs(s.studentised), LEVEL)) * s.linearised
    return s.point - half, s.point + half


def johnson(s: Sampled) -> Bounds:
    """Jackknife-t moved by the skewness of the pulls (Johnson 1978)."""
    if not s.jackknife:
        return s.point, s.point
    away, units = s.pull - s.pull.mean(), s.units
    moved = (
        float(np.mean(away**3) / np.mean(away**2) / (6 * units))
        if np.any(away)
        else 0.0
    )
    return with_t(s.point + moved, s.jackknife, units - 1)


def flips(units: int, rng: np.random.Generator) -> np.ndarray:
    if units <= 12:
        return (np.arange(1, 2**units)[:, None] >> np.arange(units) & 1).astype(float)
    return rng.integers(0, 2, (4096, units)).astype(float)


def sign_flip(s: Sampled) -> Bounds:
    """All values that flipping the signs of the units' parts does not reject: quantiles
    of ratios of subsets.
    """
    subset = flips(s.units, s.rng)
    subset = subset[subset.any(axis=1)]
    ratios = np.sort(s.point + (subset @ s.parts) / (subset @ s.ranked.loss))
    among = len(ratios) + 1
    place = math.floor(TAIL * among) if s.units <= 12 else round(TAIL * among)
    return (
        (-math.inf, math.inf)
        if place < 1
        else (float(ratios[place - 1]), float(ratios[-place]))
    )


def permuted(s: Sampled, permutations: int = 200) -> Bounds:
    """The point +- what shuffling all scores over inputs gives: inputs as if they were
    independent.
    """
    number = len(s.ranked.value)
    slots = round(ALPHA * number)
    chosen = np.argpartition(
        s.rng.random((permutations, number), dtype=np.float32), slots, axis=1
    )[:, :slots]
    gained = s.ranked.value[chosen].sum(axis=1) - ALPHA * s.ranked.value.sum()
    low, high = quantiles(gained / s.loss, TAIL, 1 - TAIL)
    return s.point - high, s.point - low


def hierarchical(s: Sampled, draws: int = 200) -> Bounds:
    """Units are drawn, then inputs within each."""
    units, inputs = s.units, s.ranked.inputs
    total = units * inputs
    places = np.argsort(s.ranked.unit, kind="stable").reshape(units, inputs)
    unit = np.repeat(s.rng.integers(0, units, (draws, units)), inputs, axis=1)
    rank = places[unit, s.rng.integers(0, inputs, (draws, total))]
    key = (np.arange(draws)[:, None] * total + rank).ravel()
    weight = np.bincount(key, minlength=draws * total).reshape(draws, total)
    slots = round(ALPHA * total)
    filled = np.minimum(np.cumsum(weight, axis=1), slots)
    taken = np.diff(filled, axis=1, prepend=0)
    loss = np.bincount(
        unit[:, ::inputs].ravel() + np.repeat(np.arange(draws) * units, units),
        minlength=draws * units,
    )
    loss = loss.reshape(draws, units) @ s.ranked.loss
    gained = taken @ s.ranked.value - ALPHA * (weight @ s.ranked.value)
    return quantiles(gained / loss, TAIL, 1 - TAIL)


def widest(*methods: Callable[[Sampled], Bounds]) -> Callable[[Sampled], Bounds]:
    def joined(s: Sampled) -> Bounds:
        found = [method(s) for method in methods]
        return min(low for low, _ in found), max(high for _, high in found)

    return joined


METHODS: dict[str, Callable[[Sampled], Bounds]] = {
    "percentile (official)": percentile,
    "basic": basic,
    "expanded percentile": expanded,
    "BCa": bca,
    "hierarchical percentile": hierarchical,
    "permuted inputs": permuted,
    "jackknife, t": jackknife_t,
    "spread over draws, t": spread_t,
    "linearised, t": linearised_t,
    "jackknife, t, skewness": johnson,
    "jackknife, t of effective units (pull)": effective(jackknife_error, by_pull),
    "jackknife, t of effective units (value)": effective(jackknife_error, by_value),
    "jackknife, t of effective units (change)": effective(jackknife_error, by_change),
    "spread, t of effective units (value)": effective(drawn_error, by_value),
    "spread, t of effective units (change)": effective(drawn_error, by_change),
    "studentised": studentised,
    "studentised, symmetric": symmetric,
    "sign flips": sign_flip,
    "percentile or jackknife, t": widest(percentile, jackknife_t),
}


CHOSEN = "spread, t of effective units (value)"
"""The second opinion of a result."""


@dataclass(frozen=True)
class Found:
    """Over replications: share that hold the truth, share of better, share of worse,
    median width.
    """

    held: float
    better: float
    worse: float
    width: float


def study(spread: str, score: str, units: int, replications: int) -> dict[str, Found]:
    """What becomes of every method in one world."""
    world = World(SPREADS[spread], score)
    bounds = np.empty((replications, len(METHODS), 2))
    for replication in range(replications):
        one = sample_pixels(world, units, replication)
        bounds[replication] = [method(one) for method in METHODS.values()]
    low, high = bounds[..., 0], bounds[..., 1]
    held = holds(bounds, world.truth).mean(axis=0)
    rates = (low > 1e-12).mean(axis=0), (high < -1e-12).mean(axis=0)
    widths = np.median(high - low, axis=0)
    return {
        name: Found(
            float(held[i]), float(rates[0][i]), float(rates[1][i]), float(widths[i])
        )
        for i, name in enumerate(METHODS)
    }


def holds(bounds: np.ndarray, truth: float) -> np.ndarray:
    return (bounds[..., 0] <= truth + 1e-12) & (bounds[..., 1] >= truth - 1e-12)


def by_effective_units(replications: int) -> str:
    """How often the official interval and the second opinion hold the truth of a
    skilled score, by effective units.
    """
    methods, effective, held = ("percentile (official)", CHOSEN), [], []
    for spread in SPREADS:
        world = World(SPREADS[spread], "skilled")
        for units in SIZES:
            for replication in range(replications):
                one = sample_pixels(world, units, replication)
                effective.append(effective_units(value_by_unit(one)))
                held.append(
                    holds(
                        np.array([METHODS[name](one) for name in methods]), world.truth
                    )
                )
    kept, edges = np.array(held), (1, 2, 3, 5, 10, 20, math.inf)
    lines = [
        (
            "skilled, both spreads, all numbers of units: holds the truth, "
            f"{replications} replications each"
        ),
        "",
    ]
    lines += [
        f"| effective units | samples | {' | '.join(methods)} |",
        "|---|---|---|---|",
    ]
    for low, high in itertools.pairwise(edges):
        among = (np.array(effective) >= low) & (np.array(effective) < high)
        shares = " | ".join(f"{100 * share:.1f}" for share in kept[among].mean(axis=0))
        lines.append(f"| {low} to {high} | {among.sum():,} | {shares} |")
    return "\n".join(lines)


def table(spread: str, score: str, replications: int) -> str:
    """What becomes of every method in one world, for all numbers of units, in
    Markdown.
    """
    truth = World(SPREADS[spread], score).truth
    found = {units: study(spread, score, units, replications) for units in SIZES}
    skilled = score == "skilled"
    what = "holds the truth / better / median width" if skilled else "better / worse"
    lines = [
        (
            f"{spread}, {score}, true difference {100 * truth:.2f} %: {what}, "
            f"{replications} replications"
        ),
        "",
    ]
    lines += [
        "| " + " | ".join(["", *(f"{units} units" for units in SIZES)]) + " |",
        "|" + "---|" * (1 + len(SIZES)),
    ]
    for name in METHODS:
        rows = [found[units][name] for units in SIZES]
        rates = [
            (f.held, f.better, f.width) if skilled else (f.better, f.worse)
            for f in rows
        ]
        texts = [" / ".join(f"{100 * rate:.1f}" for rate in each) for each in rates]
        lines.append(f"| {name} | {' | '.join(texts)} |")
    return "\n".join(lines)


def main(replications: str = "1000", *worlds: str) -> None:
    for score in ("skilled", "noise", "balanced"):
        for spread in SPREADS:
            if not worlds or f"{spread}-{score}" in worlds:
                print(f"\n{table(spread, score, int(replications))}", flush=True)
    if not worlds or "effective" in worlds:
        print(f"\n{by_effective_units(int(replications))}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
