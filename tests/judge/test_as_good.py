"""As good, for less: by hand, laws, and what is refused."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from deepval.basics.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::deepval.InputWarning")


def quiet(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.evaluate(*arguments, **options)


def models(*, rewards=True):
    """Three models: the second costs a fifteenth of the third and is nearly as good."""
    rng = np.random.default_rng(1)
    inputs = 1500
    right = (rng.random((inputs, 3)) < [0.5, 0.75, 0.8]).astype(float)
    prices = {"a": np.full(inputs, 1e-3), "b": np.full(inputs, 2e-3)}
    prices["c"] = np.full(inputs, 3e-2)
    sign = 1 if rewards else -1
    by_model = dict(zip("abc", (sign * right).T + (not rewards), strict=True))
    outcome = {"rewards" if rewards else "losses": by_model}
    return deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(50), 30), input_costs=prices, **outcome
    )


def losses():
    """Two modes with losses of any size, and a score that knows much of the value."""
    rng = np.random.default_rng(0)
    value = np.where(rng.random(1200) < 0.4, rng.normal(0.3, 1, 1200), 0)
    small = np.maximum(value, 0) + rng.gamma(0.5, 1, 1200)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(60), 20),
        losses={"small": small, "big": small - value},
    )
    return table, {"good": value + rng.normal(0, 0.3, 1200)}


def two_tasks(inputs=400, *, seed=0, names=("small", "large")):
    """In task a the models are equally good, in task b the small one is bad."""
    rng = np.random.default_rng(seed)
    task = np.where(rng.random(inputs) < 0.5, "a", "b")
    large = (rng.random(inputs) < 0.9).astype(float)
    luck = (rng.random(inputs) < 0.2).astype(float)
    small = np.where(task == "a", large, luck * large)
    prices = {names[0]: np.full(inputs, 0.1), names[1]: np.full(inputs, 1.0)}
    return deepval.ValueTable.from_columns(
        unit=np.arange(inputs),
        rewards=dict(zip(names, (small, large), strict=True)),
        attributes={"task": task},
        input_costs=prices,
    )


def family(keep, name):
    return next(one for one in keep.families if one.family == name)


def test_worked_example():
    """Both modes are right on half of the inputs, the cheap one never on the others.

    One unit is like another, so draws leave no doubt, and a share p of the dear mode
    keeps (1 + p) / 2. For 80 % that is p = 0.6, at 0.1 + 0.9 x 0.6 = 0.64 of the money:
    the grid has 0.65, where p = 0.55 / 0.9. The bound allows for 1.96^2 = 3.84 of the
    400 inputs, each of which loses the chance 1 - p.
    """
    units = 40
    is_easy = np.tile([1.0, 0.0], 5 * units)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(units), 10),
        rewards={"small": is_easy, "large": np.ones(10 * units)},
        input_costs={
            "small": np.full(10 * units, 0.1),
            "large": np.full(10 * units, 1.0),
        },
    )
    keep = quiet(table, {}, keep="80%").keep
    (blind,) = keep.families
    assert keep.option == "blind"
    assert keep.spend == pytest.approx(0.65)
    share = (0.65 - 0.1) / 0.9
    assert blind.shares["all"]["large"] == pytest.approx(share)
    assert blind.reached == pytest.approx((1 + share) / 2)
    assert blind.lower == pytest.approx(
        (1 + share) / 2 - 3.8415 * (1 - share) / 400, abs=1e-6
    )
    assert keep.sentence == (
        "Keep 80 % of large's right answers for 65 % of its money: large on a random "
        "61 % and small on the rest [lower bound 80.2 %]; always small keeps 50.0 %."
    )


def test_a_table_by_groups_finds_where_the_small_mode_is_as_good():
    keep = quiet(two_tasks(), {}, keep=0.95, table_by="task").keep
    assert keep.option == "table by task"
    table = family(keep, "table by task")
    assert table.shares["a"] == {"small": 1.0}
    assert table.shares["b"]["large"] > 0.8
    assert keep.spend < quiet(two_tasks(), {}, keep=0.95).keep.spend


def test_a_score_is_an_option_at_its_thresholds():
    table = two_tasks()
    score = (table.attributes["task"] == "b").astype(float)
    keep = quiet(table, {"mine": score}, keep=0.95).keep
    assert keep.option == "mine"
    assert "mine at" in keep.sentence
    blind = family(keep, "blind")
    assert not blind.is_shown or blind.spend > keep.spend


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 50), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_floor_never_costs_less(seed, one, other):
    table = two_tasks(120, seed=seed)
    low, high = sorted((one, other))
    options = {"draws": 100, "table_by": "task"}
    below = quiet(table, {}, keep=low, **options).keep
    above = quiet(table, {}, keep=high, **options).keep
    assert below.spend <= above.spend + 1e-12


@pytest.mark.parametrize("rewards", [True, False])
def test_a_floor_of_nothing_chooses_the_cheapest(rewards):
    keep = quiet(models(rewards=rewards), {}, keep=0).keep
    assert keep.spend == pytest.approx(keep.fixed[0].spend)


def test_losses_keep_a_share_of_the_gain():
    table, scores = losses()
    keep = quiet(table, scores, keep=0.5).keep
    assert keep.floor == "50 % of what big gains"
    assert keep.fixed[0].reached == 0
    assert keep.fixed[1].reached == pytest.approx(1)
    assert keep.option == "good"


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 50), st.floats(0.5, 1))
def test_no_option_is_named_whose_mean_is_below_the_floor(seed, floor):
    table = two_tasks(100, seed=seed)
    score = np.random.default_rng(seed).normal(size=100)
    options = {"draws": 100, "table_by": "task"}
    keep = quiet(table, {"mine": score}, at_least=floor, **options).keep
    for one in keep.families:
        if one.is_shown:
            assert one.lower is not None
            assert one.reached >= one.lower >= floor - 1e-9


def test_names_of_modes_and_order_of_rows_mean_nothing():
    table = two_tasks()
    renamed = two_tasks(names=("x", "y"))
    first = quiet(table, {}, keep=0.95, table_by="task").keep
    second = quiet(renamed, {}, keep=0.95, table_by="task").keep
    assert second.spend == first.spend
    assert second.sentence == first.sentence.replace("large", "y").replace("small", "x")


def test_floors_of_a_mode():
    table = models()
    below = quiet(table, {}, at_least="c-9pt").keep
    near = quiet(table, {}, at_least="c-4pt").keep
    assert (below.mode, below.target) == ("c", pytest.approx(-0.09))
    assert below.spend < near.spend < 1
    # A mode is as good as itself, at its own price.
    same = quiet(table, {}, at_least="b").keep
    assert same.spend <= same.fixed[1].spend
    assert quiet(table, {}, at_least="c").keep.sentence.startswith("Keep c: ")


def test_nothing_is_shown_without_draws_or_with_one_unit():
    keep = quiet(models(), {}, keep=0.5, draws=0).keep
    assert (keep.option, keep.spend) == (None, 1)
    assert all(one.lower is None for one in keep.families)
    keep = quiet(models(), {}, at_least=0.99).keep
    assert keep.sentence.startswith("Nothing is shown to reach 99 % right")


def test_few_units_need_the_second_opinion():
    """Of eight units, one has all that can be gained: a wider bound than of inputs."""
    unit = np.repeat(np.arange(8), 50)
    small = np.where((unit == 0) & (np.arange(400) % 2 == 0), 0.0, 1.0)
    rewards = {"small": small, "large": np.ones(400)}
    few = deepval.ValueTable.from_columns(unit=unit, rewards=rewards)
    many = deepval.ValueTable.from_columns(unit=np.arange(400), rewards=rewards)
    keep = quiet(few, {}, keep=0.95).keep
    assert "lies in 1 of 8" in keep.doubt
    assert keep.spend > quiet(many, {}, keep=0.95).keep.spend + 0.3


def test_a_table_of_noise_is_judged_out_of_fold():
    """Groups that mean nothing: chosen and judged on the same rows they would gain."""
    rng = np.random.default_rng(0)
    inputs = 600
    right = (rng.random((inputs, 2)) < 0.5).astype(float)
    table = deepval.ValueTable.from_columns(
        unit=np.arange(inputs),
        rewards={"small": right[:, 0], "large": right[:, 1]},
        attributes={"group": rng.integers(0, 20, inputs)},
    )
    row = quiet(table, {}, 0.5, table_by="group").row("table by group")
    assert row.answer != "run"
    # In the sample, the best half of twenty groups gains some 5 points.
    assert row.gain / inputs < 0.03


def test_a_unit_that_is_a_group_is_divided_itself():
    table = two_tasks()
    by_unit = deepval.ValueTable.from_columns(
        unit=table.attributes["task"],
        rewards={"small": -table.losses[:, 0], "large": -table.losses[:, 1]},
        input_costs={"usd": {"small": 0.1 * np.ones(400), "large": np.ones(400)}},
    )
    row = quiet(by_unit, {}, deepval.Money(0.6, accounting="skipping"), table_by="unit")
    # Half of the inputs need the large mode, which 60 % of its money buys.
    assert row["table by unit"].quality > 0.85


def test_the_record_is_saved_and_loaded(tmp_path):
    result = quiet(two_tasks(), {}, keep=0.95, table_by="task")
    result.save(tmp_path / "result.json")
    again = deepval.Result.load(tmp_path / "result.json")
    assert again.keep.sentence == result.keep.sentence
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["keep"]["option"] == "table by task"
    assert "keep" not in quiet(two_tasks(), {}).to_dict()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": 99}, "share from 0 to 1"),
        ({"keep": "many"}, "finite numbers"),
        ({"keep": 0.9, "at_least": 0.9}, "give one"),
        ({"at_least": "lagre-1pt"}, "the modes are small, large"),
        ({"keep": 0.9, "table_by": "taks"}, "mean 'task'"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match=words):
        quiet(two_tasks(), {}, **options)


def test_losses_have_no_quality_per_input():
    with pytest.raises(InputError, match="right answers or rewards"):
        quiet(losses()[0], {}, at_least=0.8)


def test_a_table_router_gives_each_mode_its_share():
    groups = {"a": {"small": 1.0}, "b": {"small": 0.25, "large": 0.75}}
    router = deepval.TableRouter("task", ("small", "large"), groups, {"large": 1.0})
    decided = [router.decide("b") for _ in range(8)]
    assert decided.count("small") == 2
    assert {router.decide("a") for _ in range(3)} == {"small"}
    assert router.decide("new") == "large"


def test_a_table_router_is_saved_and_loaded(tmp_path):
    groups = {"a": {"small": 1.0}}
    router = deepval.TableRouter("task", ("small", "large"), groups, {"large": 1.0})
    router.save(tmp_path / "router.json")
    again = deepval.TableRouter.load(tmp_path / "router.json")
    assert (again.groups, again.default) == (router.groups, router.default)
    content = json.loads((tmp_path / "router.json").read_text())
    content["groups"]["a"] = {"smal": 1.0}
    (tmp_path / "router.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="modes small, large"):
        deepval.TableRouter.load(tmp_path / "router.json")
