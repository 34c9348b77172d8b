"""How often the 95 % intervals hold the truth, by simulation: printed by `make slow`,
quoted in docs/statistics.md.

The truth is the population's value of the same ratio in closed form: where a few units
hold most of the value, even 30,000 drawn ones miss it.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import deepval
from deepval.judge.draws import Draws
from deepval.judge.extras.simultaneous import intervals_at_once
from deepval.judge.intervals import Interval
from deepval.judge.pairs import basis

# small tables, by chance
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The last mode")]
INPUTS, REPLICATIONS = 40, 400
SCENARIOS = {"mild": 0.5, "concentrated": 1.6}
"""Spread of the units' effect (standard deviation of its logarithm): how unevenly value
is spread over units.
"""


STRENGTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""How much the scores of 24 rows (six scores under four budgets) know of the sign of
the value.
"""


def table_of(
    units: int,
    spread: float,
    rng: np.random.Generator,
    strengths: tuple[float, ...] = (0.5,),
) -> tuple[deepval.ValueTable, list[np.ndarray]]:
    """Units with their own effect on how often and how much escalation changes the
    loss, and imperfect scores.
    """
    effect = np.repeat(np.exp(spread * rng.normal(size=units) - spread**2 / 2), INPUTS)
    touched = rng.random(len(effect)) < np.minimum(0.1 * np.sqrt(effect), 0.9)
    value = np.where(
        touched,
        effect
        * np.where(rng.random(len(effect)) < 0.6, 1.0, -0.7)
        * rng.gamma(2, 0.5, len(effect)),
        0,
    )
    cheap = rng.gamma(1, 1, len(effect)) + np.maximum(value, 0)
    scores = [
        strength * np.sign(value) + rng.normal(size=len(effect))
        for strength in strengths
    ]
    losses = {"cheap": cheap, "full": cheap - value}
    return deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(units), INPUTS), losses=losses
    ), scores


class Truth(NamedTuple):
    """What an endless table of a scenario gives."""

    versus_random: float
    ndg: float


def population(spread: float, strength: float = 0.5, alpha: float = 0.2) -> Truth:
    """The truth about a score: given the sign of a value, it knows neither the unit's
    effect nor the size.

    With p(e) the share of inputs that escalation touches in a unit of effect e and m =
    E[p e], an input is worth 0.6 m in benefit and 0.28 m in harm, and the all-cheap
    loss is 1 + 0.6 m. Of inputs with value of sign s the score takes P(strength s +
    noise > cut), and all positive ones fit in the budget.
    """

    def mean(of):
        def weighed(deviate):
            effect = math.exp(spread * deviate - spread**2 / 2)
            return of(effect, min(0.1 * math.sqrt(effect), 0.9)) * stats.norm.pdf(
                deviate
            )

        capped = (math.log(81.0) + spread**2 / 2) / spread
        pieces = [(-12.0, min(capped, 12.0)), (min(capped, 12.0), 12.0 + spread)]
        return sum(
            integrate.quad(weighed, low, high, epsabs=1e-13, limit=200)[0]
            for low, high in pieces
        )

    touched, size = (
        mean(lambda effect, share: share),
        mean(lambda effect, share: share * effect),
    )
    shares = {1: 0.6 * touched, -1: 0.4 * touched, 0: 1 - touched}
    assert shares[1] < alpha

    def taken(cut):
        return {sign: stats.norm.sf(cut - strength * sign) for sign in shares}

    cut = optimize.brentq(
        lambda c: sum(share * taken(c)[sign] for sign, share in shares.items()) - alpha,
        -6,
        6,
    )
    gain = size * (0.6 * taken(cut)[1] - 0.28 * taken(cut)[-1])
    return Truth((gain - alpha * 0.32 * size) / (1 + 0.6 * size), gain / (0.6 * size))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_closed_form_is_what_large_tables_come_to(name):
    """The mean over many large tables, which for concentrated units is far from any one
    of them.
    """
    spread, rows = SCENARIOS[name], []
    for seed in range(20):
        table, (score,) = table_of(20_000, spread, np.random.default_rng(seed))
        value, cheap = table.decision_values, table.losses[:, 0]
        chosen = np.argsort(-score)[: round(0.2 * len(score))]
        rows.append((value[chosen].sum() - 0.2 * value.sum(), cheap.sum()))
    gains, losses = np.transpose(rows)
    error = np.std(gains / losses, ddof=1) / math.sqrt(len(rows))
    print(
        f"\n{name}: closed form {population(spread).versus_random:.5f}, tables "
        f"{gains.sum() / losses.sum():.5f}"
    )
    assert gains.sum() / losses.sum() == pytest.approx(
        population(spread).versus_random, abs=4 * error
    )


def judged(
    units: int, spread: float, rng: np.random.Generator, **options
) -> deepval.Row:
    table, (score,) = table_of(units, spread, rng)
    return deepval.evaluate(
        table, {"score": score}, [deepval.Selection(0.2)], **options
    ).row("score")


def coverage(
    units: int, spread: float, truth: Truth, draws: object
) -> tuple[float, float]:
    """Share of replications whose paired interval, and whose nDG interval, holds the
    population's value.
    """
    held = np.zeros(2)
    for replication in range(REPLICATIONS):
        rng = np.random.default_rng([units, replication])
        row = judged(units, spread, rng, draws=draws, seed=replication)
        held += [
            row.versus_random_lo <= truth.versus_random <= row.versus_random_hi,
            row.ndg_lo <= truth.ndg <= row.ndg_hi,
        ]
    return tuple(held / REPLICATIONS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_coverage_of_the_intervals(name):
    spread = SCENARIOS[name]
    truth = population(spread)
    print(
        f"\n{name}: versus random {truth.versus_random:.4f}, nDG {truth.ndg:.4f}; "
        f"{REPLICATIONS} replications"
    )
    found = {}
    for units, draws in ((6, 1000), (6, "exact"), (24, 1000), (100, 1000)):
        found[units, draws] = coverage(units, spread, truth, draws)
        paired, ndg = found[units, draws]
        print(
            f"  {units:4d} units, draws "
            f"{draws!s:>5}: paired {paired:.3f}, nDG {ndg:.3f}"
        )
    assert found[6, 1000][0] < 0.95
    assert found[100, 1000][0] > found[6, 1000][0]
    if name == "mild":
        assert 0.90 < found[100, 1000][0] < 0.98
        assert abs(found[6, "exact"][0] - found[6, 1000][0]) < 0.05


def test_what_enumeration_changes():
    """The bound of drawn intervals moves with the seed; the enumerated one does not,
    and lies among them.
    """
    table, (score,) = table_of(6, 0.5, np.random.default_rng(3))
    budgets = [deepval.Selection(0.2)]
    lows = [
        deepval.evaluate(table, {"s": score}, budgets, seed=seed)
        .row("s")
        .versus_random_lo
        for seed in range(50)
    ]
    exact = (
        deepval.evaluate(table, {"s": score}, budgets, draws="exact")
        .row("s")
        .versus_random_lo
    )
    print(
        f"\nlower bound over 50 seeds: {min(lows):.5f} to {max(lows):.5f}; "
        f"enumerated: {exact:.5f}"
    )
    assert min(lows) <= exact <= max(lows)
    assert max(lows) - min(lows) > 0


def compared(
    units: int, spread: float, rng: np.random.Generator, **options
) -> tuple[np.ndarray, Draws]:
    """The paired differences of 24 rows over resamples, the sample first, and the
    draws.
    """
    table, scores = table_of(units, spread, rng, STRENGTHS)
    named = {f"score {number}": score for number, score in enumerate(scores)}
    held = basis(deepval.evaluate(table, named, **options))
    rows = [
        judged.ahead_of_chance(held.totals)
        for judged in held.judged
        if judged.row.allocator in named
    ]
    return np.stack(rows), held.totals.draws


def compared_rows() -> list[tuple[float, float]]:
    """Strength and share of each of those rows, in their order."""
    table, scores = table_of(6, 0.5, np.random.default_rng(0), STRENGTHS)
    named = {f"score {number}": score for number, score in enumerate(scores)}
    rows = [
        judged.row
        for judged in basis(deepval.evaluate(table, named)).judged
        if judged.row.allocator in named
    ]
    return [(STRENGTHS[list(named).index(row.allocator)], row.alpha) for row in rows]


def held_at_once(intervals: list[Interval], truth: np.ndarray) -> bool:
    return all(
        each.low <= value <= each.high
        for each, value in zip(intervals, truth, strict=True)
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_coverage_of_simultaneous_intervals(name):
    """How often all of 24 intervals hold the truth at once: as drawn, and widened for
    few units as they are.
    """
    spread = SCENARIOS[name]
    truth = np.array(
        [population(spread, *each).versus_random for each in compared_rows()]
    )
    assert len(truth) == 24
    print(f"\n{name}: 24 rows at once; {REPLICATIONS} replications")
    for units in (6, 12, 24, 100):
        held = np.zeros(2)
        for replication in range(REPLICATIONS):
            samples, draws = compared(
                units,
                spread,
                np.random.default_rng([units, replication]),
                seed=replication,
            )
            point, drawn = samples[:, 0], samples[:, 1 : 1 + len(draws)]
            held += [
                held_at_once(intervals_at_once(point, drawn, draws, units=u), truth)
                for u in (math.inf, units)
            ]
        plain, widened = held / REPLICATIONS
        print(f"  {units:4d} units: as drawn {plain:.3f}, Student's t {widened:.3f}")
        assert widened >= plain
        if name == "mild":
            assert widened > 0.8
