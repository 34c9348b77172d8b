"""The picture of an answer: its points are those of the judgement, and what a reader
sees in it is what the answer says.
"""

import dataclasses

import numpy as np
import pytest

import deepval
from deepval.judge.report.pictures import is_reference, pictures
from worlds import judge

ALPHAS = (0.1, 0.2, 0.3, 0.5)


def two_modes(skill: float, *, seed: int = 1, units: int = 20, **options):
    """Two modes of different losses and a score of some skill, 15 inputs a unit."""
    rng = np.random.default_rng(seed)
    n = 15 * units
    value = rng.normal(0.3, 1.0, n)
    cheap = 4 + rng.random(n)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{i}" for i in range(units)], 15),
        losses={"cheap": cheap, "full": cheap - value},
    )
    score = skill * value + rng.normal(0, 1, n)
    return judge(table, {"mine": score}, list(ALPHAS), draws=300, **options)


def four_priced_modes(skill: float = 1.0):
    """Right and wrong answers of four models with prices."""
    rng = np.random.default_rng(2)
    n = 600
    hard = rng.random(n)
    ends = {"tiny": 0.5, "small": 0.62, "middle": 0.75, "large": 0.9}
    losses = {mode: (hard > end).astype(float) for mode, end in ends.items()}
    costs = {
        mode: np.full(n, usd)
        for mode, usd in zip(ends, (1e-4, 3e-4, 4e-4, 4e-3), strict=True)
    }
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{i}" for i in range(30)], 20),
        losses=losses,
        input_costs=costs,
    )
    score = skill * hard + rng.normal(0, 0.3, n)
    budgets = [deepval.Money(alpha, accounting="skipping") for alpha in ALPHAS]
    return judge(table, {"mine": score}, budgets, draws=200)


def line_at(points, cost: float) -> float:
    return float(np.interp(cost, points.cost, points.quality))


def test_the_blind_line_runs_from_the_cheap_mode_to_the_full_one():
    for result in (two_modes(0.5), four_priced_modes()):
        picture = result.with_picture().picture
        cheap, full = picture.fixed[0], picture.fixed[-1]
        line = picture.blind
        assert (line.cost[0], line.quality[0]) == (cheap.cost, cheap.quality)
        assert line.cost[-1] == pytest.approx(full.cost)
        assert line.quality[-1] == pytest.approx(full.quality)
        for mark in picture.fixed:
            assert line_at(line, mark.cost) >= mark.quality - 1e-9


def test_the_perfect_router_is_above_everything():
    for result in (two_modes(2.0), four_priced_modes()):
        picture = result.with_picture().picture
        others = [picture.blind, *picture.routers]
        for line in others:
            for cost, quality in zip(line.cost, line.quality, strict=True):
                assert line_at(picture.oracle, cost) >= quality - 1e-6


@pytest.mark.parametrize("skill", [0.0, 0.2, 0.5, 2.0, -1.0])
def test_the_band_touches_the_blind_line_exactly_where_it_is_not_settled(skill):
    """One allocator, and many units of equal size: the band alone decides."""
    result = two_modes(skill).with_picture()
    picture = result.picture
    (mine,) = picture.routers
    for answer in result.answers:
        place = mine.cost.index(pytest.approx(100 * answer.budget.alpha))
        blind = line_at(picture.blind, mine.cost[place])
        touches = mine.low[place] <= blind <= mine.high[place]
        assert touches == (answer.verdict == "not settled")


def test_the_points_are_those_of_the_rows():
    result = four_priced_modes().with_picture()
    picture = result.picture
    assert picture.quality_axis == "right answers, %"
    assert picture.cost_axis == "USD per 1,000 inputs"
    (mine,) = picture.routers
    for alpha in ALPHAS:
        row = result.row("mine", "money", alpha)
        place = mine.cost.index(pytest.approx(1000 * row.spend))
        assert mine.quality[place] == pytest.approx(100 * row.quality)


def test_only_who_asks_pays_for_it_and_a_file_keeps_it(tmp_path):
    result = two_modes(0.5)
    assert result.picture is None
    assert "picture" not in result.to_dict()
    drawn = result.with_picture()
    drawn.save(tmp_path / "r.json")
    loaded = deepval.Result.load(tmp_path / "r.json")
    assert loaded.picture == drawn.picture
    assert loaded.with_picture() is loaded


def test_under_other_budgets_every_mode_is_drawn_whether_it_fits_or_not():
    """A saved result has no scores, so rows and answers alone are drawn."""
    result = four_priced_modes()
    (drawn,) = pictures(dataclasses.replace(result, fresh=None))
    assert [mark.name for mark in drawn.fixed] == ["tiny", "small", "middle", "large"]
    for mark, usd in zip(drawn.fixed, (1e-4, 3e-4, 4e-4, 4e-3), strict=True):
        assert mark.cost == pytest.approx(1000 * usd)
    assert drawn.quality_axis == "right answers, %"


def test_the_words_of_the_reader_are_on_the_axes_of_saved_results():
    result = two_modes(0.5)
    setting = dataclasses.replace(result.setting, nouns=("frame", "drive"))
    (drawn,) = pictures(dataclasses.replace(result, setting=setting, fresh=None))
    assert drawn.cost_axis == "frames escalated, %"


def test_a_saved_result_without_it_is_drawn_from_its_rows(tmp_path):
    result = two_modes(0.5)
    result.save(tmp_path / "r.json")
    (rough,) = pictures(deepval.Result.load(tmp_path / "r.json"))
    (fine,) = pictures(result)
    assert rough.quality_axis == fine.quality_axis
    for mark, other in zip(rough.fixed, fine.fixed, strict=True):
        assert (mark.name, mark.cost) == (other.name, other.cost)
        assert mark.quality == pytest.approx(other.quality)
    (few,), (many,) = rough.routers, fine.routers
    for place, cost in enumerate(few.cost):
        assert few.quality[place] == pytest.approx(line_at(many, cost))
    place = few.cost.index(20.0)
    exact = many.cost.index(pytest.approx(20.0))
    assert few.low[place] == pytest.approx(many.low[exact])
    assert few.high[place] == pytest.approx(many.high[exact])


def test_a_fixed_mode_is_no_allocator():
    assert is_reference("always gpt-4")
    assert is_reference("oracle")
    assert not is_reference("mine")


def test_units_hold_what_each_mode_gains_in_them():
    result = two_modes(0.5)
    total = sum(unit.modes["full"] for unit in result.units)
    loss = result.setting.cheap_loss
    assert total == pytest.approx(result.setting.all_full_share * loss)
