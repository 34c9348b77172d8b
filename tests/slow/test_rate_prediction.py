"""How often the prediction interval of `deepval threshold` holds the rate on as many
new units: printed by `make slow`.

Each world draws units twice. The first set calibrates a router under the default
policy; the router then runs on the second set, in time order. docs/statistics.md, Rates
on new units, quotes the table.
"""

import numpy as np
import pytest

import deepval
from deepval.judge.deployment import deployment
from deepval.judge.tables.scores import align

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning"),
]
WORLDS, LEAST = 300, 0.90
EFFECTS = {
    "alike": lambda rng, units: rng.normal(0, 0.2, units),
    "normal": lambda rng, units: rng.normal(0, 1, units),
    "far apart": lambda rng, units: rng.normal(0, 3, units),
    "skewed": lambda rng, units: rng.exponential(1.5, units),
    "rare": lambda rng, units: np.where(rng.random(units) < 0.15, 4.0, 0.0),
}
"""What a unit adds to the scores of its inputs, which otherwise vary with a standard
deviation of 1.
"""


def drawn_units(kind, units, rng):
    """Units of 20 to 100 inputs, scores that follow each other in time, and values that
    scores half tell.
    """
    lengths = rng.integers(20, 101, units)
    unit = np.repeat(np.arange(units), lengths)
    order = np.concatenate([np.arange(length) for length in lengths])
    noise = rng.normal(size=len(unit))
    score = noise.copy()
    for row in np.flatnonzero(order > 0):
        score[row] = 0.8 * score[row - 1] + 0.6 * noise[row]
    score += EFFECTS[kind](rng, units)[unit]
    value = np.where(
        rng.random(len(unit)) < 0.3, score + rng.normal(size=len(unit)), 0.0
    )
    losses = {"cheap": np.full(len(unit), 5.0), "full": 5.0 - value}
    return deepval.ValueTable.from_columns(unit=unit, order=order, losses=losses), score


def coverage(kind, units, alpha, seed):
    """The share of worlds whose new units have a rate within the interval, and within
    the percentiles of before.
    """
    rng = np.random.default_rng([seed, units])
    inside, before, rates, widths, policies = [], [], [], [], []
    for _ in range(WORLDS):
        (table, score), (new, new_score) = (
            drawn_units(kind, units, rng) for _ in range(2)
        )
        found = deployment(
            table, align(table, "mine", score), deepval.Selection(alpha), draws=300
        )
        promised = found.threshold
        rate = float(np.mean(found.routing.replay(new_score, new.unit, new.order) > 0))
        inside.append(promised.rate_lo - 1e-12 <= rate <= promised.rate_hi + 1e-12)
        rates.append(rate)
        widths.append(promised.rate_hi - promised.rate_lo)
        policies.append(promised.policy)
        escalated = np.bincount(
            table.unit, found.routing.replay(score, table.unit, table.order) > 0
        )
        counts = rng.multinomial(units, np.full(units, 1 / units), 300)
        low, high = np.quantile(
            (counts @ escalated) / (counts @ np.bincount(table.unit)), [0.025, 0.975]
        )
        before.append(low <= rate <= high)
    names, numbers = np.unique(policies, return_counts=True)
    chosen = ", ".join(
        f"{name} {number}" for name, number in zip(names, numbers, strict=True)
    )
    figures = [
        f"{kind:9s}",
        f"{units:2d} units",
        f"{alpha:.0%}",
        f"held {np.mean(inside):.1%}",
        f"percentiles held {np.mean(before):.1%}",
        f"mean width {100 * np.mean(widths):.1f} points",
        f"mean rate {np.mean(rates):.1%}",
        chosen,
    ]
    print("\n" + " | ".join(figures), flush=True)
    return float(np.mean(inside))


@pytest.mark.parametrize("units", [6, 20, 50])
@pytest.mark.parametrize(
    ("kind", "seed"),
    [("alike", 1), ("normal", 1), ("far apart", 1), ("skewed", 1), ("rare", 3)],
)
def test_the_rate_on_new_units_lies_in_the_interval(kind, seed, units):
    assert coverage(kind, units, 0.2, seed=seed) >= LEAST


@pytest.mark.parametrize("units", [6, 20, 50])
def test_the_rate_on_new_units_at_a_small_share(units):
    assert coverage("normal", units, 0.05, seed=2) >= LEAST
