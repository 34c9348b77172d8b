"""Slow twin of `deepval.evaluate`: the judgement word by word from the definitions,
sections 2 and 3.

Every draw is written out as a list of inputs and sorted again. Losses and scores are
float64; the arithmetic after that is in fractions, so a comparison with zero or with a
quarter of the prize is decided by the rule, not by rounding: what is equal up to 1e-12
of its size counts as equal, and a row where that decides a draw is marked as on the
edge.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np

ROUNDING = Fraction(1e-12)
UNDEFINED = (
    "escalated",
    "gain",
    "gain_share",
    "benefit",
    "harm",
    "ndg",
    "ndg_lo",
    "ndg_hi",
    "versus_random",
)
UNDEFINED = (*UNDEFINED, "versus_random_lo", "versus_random_hi", "verdict")
UNDEFINED = (
    *UNDEFINED,
    "versus_random_loss",
    "versus_random_loss_lo",
    "versus_random_loss_hi",
)
UNIFORM = {"never": "never", "always": "all-full"}
"""Comparisons with what escalates nothing or everything -> its reference."""
UNDEFINED += tuple(
    f"versus_{n}{unit}{end}"
    for n in UNIFORM
    for unit in ("", "_loss")
    for end in ("", "_lo", "_hi")
)
UNDEFINED += tuple(f"{name}_verdict" for name in UNIFORM)


def expected_top(scores, quantity, slots):
    """Sum of a quantity over the highest scores, the group at the cut with (slots
    left)/(group size).
    """
    total, left = Fraction(0), slots
    for score in sorted(set(scores), reverse=True):
        group = [
            Fraction(q) for s, q in zip(scores, quantity, strict=True) if s == score
        ]
        if left >= len(group):
            total += sum(group)
            left -= len(group)
        else:
            return total + Fraction(left, len(group)) * sum(group)
    return total


def best_gain(values, slots):
    """At most `slots` inputs, only positive ones."""
    return sum(
        (
            Fraction(v)
            for v in sorted((v for v in values if v > 0), reverse=True)[:slots]
        ),
        Fraction(0),
    )


def drawn_units(units, draws, seed):
    """Lists of drawn units with their probabilities; `units` are sorted as text
    here.
    """
    units = sorted(units)
    if draws == "exact":
        chance = Counter(
            tuple(sorted(pick))
            for pick in itertools.product(range(len(units)), repeat=len(units))
        )
        every = len(units) ** len(units)
        return [
            ([units[i] for i in pick], Fraction(times, every))
            for pick, times in sorted(chance.items())
        ]
    rng = np.random.Generator(np.random.PCG64(seed))
    picks = rng.integers(0, len(units), (draws, len(units))).tolist()
    return [([units[i] for i in pick], Fraction(1, draws)) for pick in picks]


def linear_percentile(samples, p):
    """Straight line between the two order statistics around p*(n-1)."""
    ordered = sorted(samples)
    place = p * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def exact_percentile(samples, weights, p):
    """The smallest x with F(x) >= p, the weights made to add up to 1."""
    total, reached = sum(weights), Fraction(0)
    for x, weight in sorted(zip(samples, weights, strict=True)):
        reached += weight / total
        if reached >= p:
            return x
    raise AssertionError("F reaches 1")


def interval(samples, weights, *, exact):
    """The 2.5 and 97.5 percentiles, (None, None) where nothing was kept."""
    if not samples:
        return None, None
    tails = Fraction(1, 40), Fraction(39, 40)
    if exact:
        return tuple(exact_percentile(samples, weights, p) for p in tails)
    return tuple(linear_percentile(samples, p) for p in tails)


def snapped(bound, scale=1):
    return (
        Fraction(0) if bound is not None and abs(bound) <= ROUNDING * scale else bound
    )


class Measure:
    """One budget: how many inputs it lets an allocator of a given cost escalate."""

    def __init__(self, kind, alpha, *, cheap=None, full=None, accounting="cascade"):
        self.kind, self.alpha, self.cheap, self.full, self.accounting = (
            kind,
            alpha,
            cheap,
            full,
            accounting,
        )

    def slots(self, inputs, cost=0.0):
        if self.kind == "selection":
            return math.floor(self.alpha * inputs + 0.5)
        share = self.alpha - cost / self.full
        if self.accounting == "skipping":
            share = min(1.0, (self.alpha * self.full - cost) / (self.full - self.cheap))
        return math.floor(inputs * share + 1e-9)

    def feasible(self, cost):
        return self.kind == "selection" or cost <= self.alpha * self.full

    def uniform_full_is_feasible(self):
        return self.alpha >= (self.full - self.cheap) / self.full


class Sample:
    """The inputs of one draw, or of the table itself, one after another."""

    def __init__(self, rows):
        self.rows = rows
        self.values = [cheap - full for _, cheap, full, _ in rows]
        self.cheap_loss = sum((Fraction(cheap) for _, cheap, _, _ in rows), Fraction(0))

    def outcome(self, name, measure, cost):
        """(gain, benefit, escalated) of an allocator or a reference."""
        inputs = len(self.rows)
        positive = [max(v, 0.0) for v in self.values]
        if name == "oracle":
            slots = measure.slots(inputs)
            gain = best_gain(self.values, slots)
            return gain, gain, min(slots, sum(v > 0 for v in self.values))
        if name == "never":
            return Fraction(0), Fraction(0), 0
        if name == "all-full":
            return sum(map(Fraction, self.values)), sum(map(Fraction, positive)), inputs
        slots = measure.slots(inputs, cost)
        scores = (
            [0.0] * inputs
            if name == "random"
            else [score[name] for *_, score in self.rows]
        )
        return (
            expected_top(scores, self.values, slots),
            expected_top(scores, positive, slots),
            min(slots, inputs),
        )


def judge(rows, units, scores, measures, *, costs, draws, seed=0):
    """Rows of the result as dicts, budget by budget: random, never, all-full, every
    allocator, oracle.

    `rows` are (unit, cheap loss, full loss, {allocator: score}); `units` are all units
    to draw from; `costs` gives an allocator's cost under each budget by position.
    """
    full_sample = Sample(rows)
    resamples = [
        (Sample([row for unit in pick for row in rows if row[0] == unit]), weight)
        for pick, weight in drawn_units(units, draws, seed)
    ]
    judged = []
    for position, measure in enumerate(measures):
        for name in ("random", "never", "all-full", *scores, "oracle"):
            cost = costs[name][position] if name in scores else 0.0
            judged.append(
                _row(
                    name,
                    measure,
                    cost,
                    full_sample,
                    resamples,
                    exact=draws == "exact",
                    several=len(units) > 1,
                )
            )
    return judged


def _row(name, measure, cost, full_sample, resamples, *, exact, several):
    oracle = full_sample.outcome("oracle", measure, 0.0)[0]
    start = dict.fromkeys(UNDEFINED)
    start |= {
        "allocator": name,
        "kind": measure.kind,
        "alpha": measure.alpha,
        "oracle_gain": oracle,
    }
    start |= {
        "draws_dropped": 0,
        "weight_dropped": 0,
        "versus_random_dropped": 0,
        "on_edge": False,
    }
    if (
        name == "all-full"
        and measure.kind != "selection"
        and not measure.uniform_full_is_feasible()
    ):
        return start
    reference = name in ("random", "never", "all-full", "oracle")
    if not measure.feasible(cost):
        return start | {"verdict": "infeasible"}
    gain, benefit, escalated = full_sample.outcome(name, measure, cost)
    chance = full_sample.outcome("random", measure, 0.0)[0]
    row = start | {
        "gain": gain,
        "benefit": benefit,
        "harm": benefit - gain,
        "escalated": escalated,
    }
    if oracle > 0 and not (name == "all-full" and measure.kind == "selection"):
        row["ndg"] = gain / oracle
        if several and resamples:
            row |= _ndg_interval(name, measure, cost, oracle, resamples, exact=exact)
    if full_sample.cheap_loss > 0:
        row["gain_share"] = gain / full_sample.cheap_loss
    for against, other in {"random": "random", **UNIFORM}.items():
        difference = gain - (
            chance if other == "random" else full_sample.outcome(other, measure, 0.0)[0]
        )
        row[f"versus_{against}_loss"] = difference
        if full_sample.cheap_loss > 0:
            row[f"versus_{against}"] = difference / full_sample.cheap_loss
        if several and resamples:
            paired = _paired_intervals(
                name, measure, cost, resamples, full_sample, exact=exact, other=other
            )
            row |= {
                f"versus_{against}_{part}": value
                for part, value in paired.items()
                if part != "on_edge"
            }
            row["on_edge"] |= paired["on_edge"]
        low, high = row[f"versus_{against}_lo"], row[f"versus_{against}_hi"]
        # no share of the all-cheap loss in any draw: the difference itself decides
        if low is None:
            low, high = (
                row[f"versus_{against}_loss_lo"],
                row[f"versus_{against}_loss_hi"],
            )
        verdict = (
            None
            if low is None
            else "better"
            if low > 0
            else "worse"
            if high < 0
            else "unresolved"
        )
        row["verdict" if against == "random" else f"{against}_verdict"] = (
            None if reference else verdict
        )
    return row


def _ndg_interval(name, measure, cost, oracle, resamples, *, exact):
    samples, weights, dropped, weight_dropped, on_edge = [], [], 0, Fraction(0), False
    for sample, weight in resamples:
        prize = sample.outcome("oracle", measure, 0.0)[0]
        a_quarter = abs(prize - oracle / 4) <= ROUNDING * oracle
        on_edge |= a_quarter
        if prize < oracle / 4 and not a_quarter:
            dropped += 1
            weight_dropped += weight
            continue
        samples.append(sample.outcome(name, measure, cost)[0] / prize)
        weights.append(weight)
    low, high = interval(samples, weights, exact=exact)
    counted = {
        "draws_dropped": dropped,
        "weight_dropped": weight_dropped,
        "on_edge": on_edge,
    }
    return {"ndg_lo": low, "ndg_hi": high, **counted}


def _paired_intervals(name, measure, cost, resamples, full_sample, *, exact, other):
    """Of the share of the all-cheap loss, and of the loss itself over the same draws
    (over all where it has none).
    """
    shares, losses, weights, everything, on_edge = [], [], [], [], False
    for sample, weight in resamples:
        size = sum(abs(Fraction(v)) for v in sample.values)
        difference = (
            sample.outcome(name, measure, cost)[0]
            - sample.outcome(other, measure, 0.0)[0]
        )
        everything.append((difference, weight))
        if sample.cheap_loss > 0:
            shares.append(difference / sample.cheap_loss)
        elif abs(difference) <= ROUNDING * size:
            on_edge |= size > 0
            shares.append(Fraction(0))
        else:
            continue
        losses.append(difference)
        weights.append(weight)
    found = {
        "on_edge": on_edge,
        "dropped": len(resamples) - len(shares) if shares else 0,
    }
    if full_sample.cheap_loss <= 0 or not shares:
        losses, weights = zip(*everything, strict=True)
    else:
        low, high = map(snapped, interval(shares, weights, exact=exact))
        found |= {"lo": low, "hi": high}
    size = sum(abs(Fraction(v)) for v in full_sample.values)
    low, high = (
        snapped(bound, size) for bound in interval(losses, weights, exact=exact)
    )
    return found | {"loss_lo": low, "loss_hi": high}
