"""The study of intervals judges as deepval does, and the second opinion keeps what
docs/statistics.md says of it.
"""

import numpy as np
import pytest

import deepval
import intervals
from deepval.judge.pairs import basis

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The last mode")]


@pytest.mark.parametrize("units", [6, 24])
def test_the_study_judges_as_evaluate_does(units):
    """Sample, draws, left-out units, the official interval and the second opinion are
    those of a result.
    """
    world = intervals.World(1.6, "skilled")
    one = intervals.sample_pixels(world, units, 3)
    rng = np.random.default_rng([units, 3, sum(map(ord, "skilled")), 16])
    value, cheap, score = world.sample(units, rng)
    names = np.repeat([f"{u:03d}" for u in range(units)], intervals.INPUTS)
    losses = {"cheap": cheap.ravel(), "full": (cheap - value).ravel()}
    table = deepval.ValueTable.from_columns(unit=names, losses=losses)
    result = deepval.evaluate(
        table, {"s": score.ravel()}, [deepval.Selection(intervals.ALPHA)], seed=3
    )
    held = basis(result)
    (judged,) = (item for item in held.judged if item.row.allocator == "s")
    row = judged.row
    samples = judged.ahead_of_chance(held.totals)
    assert np.concatenate([[one.point], one.drawn, one.jack]) == pytest.approx(
        samples, abs=1e-10
    )
    assert intervals.percentile(one) == pytest.approx(
        (row.versus_random_lo, row.versus_random_hi), abs=1e-10
    )
    second = intervals.METHODS[intervals.CHOSEN](one)
    assert second == pytest.approx(
        (row.versus_random_second_lo, row.versus_random_second_hi), abs=1e-9
    )


@pytest.mark.parametrize("spread", intervals.SPREADS)
def test_truth_is_that_of_a_large_population(spread):
    for score in ("skilled", "balanced"):
        world = intervals.World(intervals.SPREADS[spread], score)
        value, cheap, scored = world.sample(100_000, np.random.default_rng(1))
        cut = np.quantile(scored, 1 - intervals.ALPHA)
        found = (
            value[scored > cut].sum() - intervals.ALPHA * value.sum()
        ) / cheap.sum()
        assert found == pytest.approx(world.truth, abs=0.003)


@pytest.mark.parametrize("units", intervals.SIZES)
def test_the_second_opinion_covers_more_and_errs_less(units):
    official, second = "percentile (official)", intervals.CHOSEN
    for spread, least in (("mild", 0.9), ("concentrated", 0.68)):
        skilled = intervals.study(spread, "skilled", units, 200)
        balanced = intervals.study(spread, "balanced", units, 200)
        print(
            f"\n{units} units, {spread}: {second} {skilled[second]}, {official} "
            f"{skilled[official]}"
        )
        assert skilled[second].held >= max(least, skilled[official].held)
        assert balanced[second].better <= balanced[official].better
