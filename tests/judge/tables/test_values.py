import hashlib
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepval
from deepval import InputError, InputWarning, ValueTable, read_values
from deepval.judge.extras.setting import setting as setting_of
from deepval.judge.tables import values
from deepval.judge.tables.values import most_helpful

CASES = 2_000

# Ten inputs in three units. V = cheap - full: three help (3, 1, 2), two harm (-2, -1),
# five change nothing.
CHEAP = [5.0, 2.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 2.0, 2.0]
FULL = [2.0, 1.0, 3.0, 1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 2.0]
UNITS = ["9", "10", "9", "10", "2", "2", "9", "10", "2", "9"]
COLUMNS = {
    "unit": UNITS,
    "input": [f"frame-{row}" for row in range(10)],
    "loss_cheap": CHEAP,
    "loss_full": FULL,
    "order": [float(row) for row in range(10)],
    "weather": ["rain", "sun"] * 5,
}


def by_hand(**changes) -> ValueTable:
    return read_values(COLUMNS | changes)


def same(one: ValueTable, two: ValueTable) -> bool:
    return (
        one.digest == two.digest
        and one.modes == two.modes
        and one.unit_ids.tolist() == two.unit_ids.tolist()
        and one.unit.tolist() == two.unit.tolist()
        and np.array_equal(one.losses, two.losses)
        and np.array_equal(one.order, two.order)
        and [str(value) for value in one.attributes["weather"]]
        == [str(value) for value in two.attributes["weather"]]
    )


def test_every_form_gives_the_same_table(tmp_path):
    frame, table = pd.DataFrame(COLUMNS), pa.table(COLUMNS)
    frame.to_csv(tmp_path / "values.csv", index=False)
    frame.to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "polars.parquet")
    pq.write_table(table, tmp_path / "arrow.PARQUET")
    forms = {
        "csv": tmp_path / "values.csv",
        "csv by name": str(tmp_path / "values.csv"),
        "parquet of pandas": tmp_path / "pandas.parquet",
        "parquet of polars": tmp_path / "polars.parquet",
        "parquet of arrow": tmp_path / "arrow.PARQUET",
        "pandas": frame,
        "pandas, categories": frame.astype(
            {"unit": "category", "input": "category", "weather": "category"}
        ),
        "pandas by input": frame.set_index("input"),
        "polars": pl.DataFrame(COLUMNS),
        "polars, categories": pl.DataFrame(COLUMNS).with_columns(
            pl.col("unit", "weather").cast(pl.Categorical)
        ),
        "arrow": table,
        "arrow stream": table.to_reader(),
        "mapping of arrays": {
            name: np.array(column) for name, column in COLUMNS.items()
        },
    }
    expected = by_hand()
    for form, source in forms.items():
        assert same(read_values(source), expected), form


def test_from_columns_is_the_table_that_is_read():
    table = ValueTable.from_columns(
        unit=UNITS,
        input=COLUMNS["input"],
        losses={"cheap": CHEAP, "full": FULL},
        order=COLUMNS["order"],
        attributes={"weather": COLUMNS["weather"]},
    )
    assert same(table, by_hand())


def test_integer_ids_are_the_same_table_in_every_form(tmp_path):
    ids = COLUMNS | {
        "input": list(range(90, 100)),
        "unit": [int(unit) for unit in UNITS],
    }
    pd.DataFrame(ids).to_csv(tmp_path / "values.csv", index=False)
    text = read_values(tmp_path / "values.csv")
    for source in (
        ids,
        pd.DataFrame(ids),
        pd.DataFrame(ids).astype({"input": "Int64"}),
        pl.DataFrame(ids),
    ):
        assert same(read_values(source), text)
    assert text.input.tolist() == [str(number) for number in range(90, 100)]
    assert read_values(ids).input.dtype == np.int64


def test_inputs_are_numbered_where_they_have_no_id():
    table = ValueTable.from_columns(
        unit=["u", "u"], losses={"cheap": [1, 2], "full": [0, 2]}
    )
    assert table.input.tolist() == [0, 1]
    assert table.losses.dtype == np.float64
    assert table.order is None


def test_columns_may_stand_in_any_order_but_modes_keep_theirs():
    names = ["weather", "loss_cheap", "order", "input", "loss_full", "unit"]
    shuffled = read_values({name: COLUMNS[name] for name in names})
    assert same(shuffled, by_hand())
    swapped = read_values(
        {name: COLUMNS[name] for name in ("unit", "input", "loss_full", "loss_cheap")}
    )
    assert swapped.modes == ("full", "cheap")
    assert swapped.decision_values.tolist() == [
        -value for value in by_hand().decision_values
    ]


def test_further_columns_are_attributes():
    assert list(by_hand().attributes) == ["weather"]
    assert by_hand(speed_mps=range(10), loss=[0.0] * 10).attributes.keys() == {
        "weather",
        "speed_mps",
        "loss",
    }


def test_units_are_sorted_as_text():
    table = by_hand()
    assert table.unit_ids.tolist() == ["10", "2", "9"]
    assert table.unit.tolist() == [2, 0, 2, 0, 1, 1, 2, 0, 1, 2]
    assert by_hand(unit=[int(unit) for unit in UNITS]).unit_ids.tolist() == [
        "10",
        "2",
        "9",
    ]


def test_contiguous_and_scattered_units_are_the_same_setting():
    scattered = by_hand()
    rows = np.argsort(scattered.unit, kind="stable")
    contiguous = by_hand(
        **{name: [column[row] for row in rows] for name, column in COLUMNS.items()}
    )
    assert contiguous.unit_ids.tolist() == scattered.unit_ids.tolist()
    assert contiguous.unit.tolist() == scattered.unit[rows].tolist()
    assert contiguous.summary(0.3) == scattered.summary(0.3)
    scores = {"mine": {"input": COLUMNS["input"], "score": CHEAP}}
    budgets = [deepval.Selection(0.3)]
    one, two = (
        deepval.evaluate(table, scores, budgets, draws=20)
        for table in (contiguous, scattered)
    )
    assert one.rows == two.rows


def test_decision_values_by_hand():
    table = by_hand()
    assert table.decision_values.tolist() == [3, 1, -2, 0, 0, 2, -1, 0, 0, 0]
    assert table.mode_values.tolist() == [[0, value] for value in table.decision_values]
    assert len(table) == 10
    assert table.cheap_loss == 5 + 2 + 1 + 1 + 1 + 4 + 1 + 1 + 2 + 2
    assert table.affected == 5
    assert table.harm_rate == 2 / 5
    assert table.harm_ratio == (2 + 1) / (3 + 1 + 2)


def test_summary_where_the_budget_binds():
    summary = by_hand().summary(0.2)
    assert summary.inputs == 10
    assert summary.units == 3
    assert summary.modes == ("cheap", "full")
    assert summary.quota == 2
    assert summary.all_full_share == (3 + 1 - 2 + 2 - 1) / 20
    assert summary.oracle_share == (3 + 2) / 20
    assert summary.budget_binds
    assert summary.quota_is_capacity


def test_summary_where_the_budget_is_slack():
    summary = by_hand().summary(0.3)
    assert summary.quota == 3
    assert summary.oracle_share == (3 + 2 + 1) / 20
    assert not summary.budget_binds
    # In a slack setting the harm ratio is what all-full loses of the oracle.
    assert summary.harm_ratio == pytest.approx(
        1 - summary.all_full_share / summary.oracle_share, rel=1e-9
    )


def test_quota_is_capacity_while_there_are_inputs_without_harm():
    assert by_hand().summary(0.8).quota_is_capacity
    assert not by_hand().summary(0.9).quota_is_capacity


def test_the_quota_rounds_half_up():
    assert by_hand().summary(0.25).quota == 3
    assert by_hand().summary(0.24).quota == 2
    assert by_hand().summary(1).quota == 10


def test_the_summary_says_no_more_than_evaluate():
    result = deepval.evaluate(
        by_hand(), {"mine": CHEAP}, [deepval.Selection(0.3)], draws=0
    )
    assert result.row("oracle", alpha=0.3).gain_share == pytest.approx(
        by_hand().summary(0.3).oracle_share, rel=1e-9
    )
    assert result.row("all-full", alpha=0.3).gain_share == pytest.approx(
        by_hand().summary(0.3).all_full_share
    )


def test_nothing_affected_leaves_shares_undefined():
    table = by_hand(loss_full=CHEAP)
    assert table.affected == 0
    assert math.isnan(table.harm_rate)
    assert math.isnan(table.harm_ratio)
    assert table.summary().all_full_share == 0
    assert table.summary().oracle_share == 0


def test_harm_without_benefit_has_a_rate_and_no_ratio():
    table = by_hand(loss_full=[loss + 1 for loss in CHEAP])
    assert table.harm_rate == 1
    assert math.isnan(table.harm_ratio)
    assert not table.summary(0.2).quota_is_capacity


@pytest.mark.parametrize("cheap", [[0.0] * 10, [-1.0] * 10])
def test_shares_of_a_loss_that_is_not_positive_are_undefined(cheap):
    summary = by_hand(loss_cheap=cheap).summary()
    assert math.isnan(summary.all_full_share)
    assert math.isnan(summary.oracle_share)


def test_more_than_two_modes():
    table = by_hand(loss_mid=[loss - 0.5 for loss in CHEAP])
    assert table.modes == ("cheap", "full", "mid")
    last = {name: COLUMNS[name] for name in ("unit", "input", "loss_cheap")} | {
        "loss_384": [loss - 0.5 for loss in CHEAP],
        "loss_512": [loss + 1 for loss in CHEAP],
        "loss_640": FULL,
    }
    ladder = read_values(last)
    assert ladder.modes == ("cheap", "384", "512", "640")
    assert ladder.decision_values.tolist() == by_hand().decision_values.tolist()
    assert ladder.mode_values[0].tolist() == [0, 0.5, -1, 3]
    assert ladder.harm_rate == by_hand().harm_rate


def test_modes_may_be_named_by_numbers():
    table = ValueTable.from_columns(unit=["u", "u"], losses={320: [1, 2], 640: [0, 2]})
    assert table.modes == ("320", "640")
    assert len(table.digest) == 64


def test_costs_come_with_the_table():
    profile = {"modes": {"cheap": {"ms": 1}, "full": {"ms": 2}}}
    table = read_values(COLUMNS, costs=profile)
    assert table.costs is not None
    assert table.costs.of_mode("full", "ms") == 2
    assert table.restrict(["9"]).costs is table.costs
    assert table.keep(table.unit == 0).costs is table.costs


def test_keep_chooses_inputs_and_leaves_the_list_of_units():
    table = by_hand()
    kept = table.keep(table.unit == 1)
    assert kept.input.tolist() == ["frame-4", "frame-5", "frame-8"]
    assert kept.unit_ids.tolist() == table.unit_ids.tolist()
    assert kept.unit.tolist() == [1, 1, 1]
    assert kept.losses.tolist() == [[1, 1], [4, 2], [2, 2]]
    assert kept.order is not None
    assert kept.order.tolist() == [4, 5, 8]
    assert kept.attributes["weather"].tolist() == ["rain", "sun", "rain"]
    assert kept.decision_values.tolist() == [0, 2, 0]


def test_restrict_chooses_units():
    part = by_hand().restrict(["9", "10"])
    assert part.unit_ids.tolist() == ["10", "9"]
    assert part.input.tolist() == [f"frame-{row}" for row in (0, 1, 2, 3, 6, 7, 9)]
    assert part.unit.tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert part.decision_values.tolist() == [3, 1, -2, 0, -1, 0, 0]
    assert same(by_hand().restrict(by_hand().unit_ids), by_hand())


def test_restrict_takes_integers_and_refuses_units_that_are_not_there():
    assert by_hand().restrict([9, 9]).unit_ids.tolist() == ["9"]
    with pytest.raises(InputError, match="Named units must"):
        by_hand().restrict(["9", "77", "sX"])


def test_listed_units_may_be_without_inputs_and_are_kept():
    listed = by_hand().with_units([9, 77, 78])
    assert listed.unit_ids.tolist() == sorted(
        {*by_hand().unit_ids.tolist(), "77", "78"}
    )
    assert same(listed.restrict(by_hand().unit_ids), by_hand())
    part = listed.restrict([9, 77])
    assert part.unit_ids.tolist() == ["77", "9"]
    assert set(part.unit) == {1}
    with pytest.raises(InputError, match="Named units must"):
        listed.restrict(["77", "78"])


@pytest.mark.parametrize("units", [[], ["nowhere"], "9", None])
def test_restrict_refuses_what_names_no_unit(units):
    with pytest.raises(InputError, match=r"unit"):
        by_hand().restrict(units)


def test_modes_choose_order_and_subset(tmp_path):
    unit, losses = (
        ["a", "a", "b"],
        {"large": [1.0, 2.0, 0.0], "mid": [2.0, 2.0, 1.0], "small": [3.0, 4.0, 1.0]},
    )
    wanted = ValueTable.from_columns(
        unit=unit, losses={name: losses[name] for name in ("small", "large")}
    )
    named = ValueTable.from_columns(unit=unit, losses=losses, modes=["small", "large"])
    assert named.modes == ("small", "large")
    assert named.digest == wanted.digest
    frame = pd.DataFrame(
        {"unit": unit, "input": [0, 1, 2]}
        | {f"loss_{name}": column for name, column in losses.items()}
    )
    assert read_values(frame, modes=["small", "large"]).digest == wanted.digest
    assert read_values(frame).with_modes(["small", "large"]).digest == wanted.digest
    assert read_values(frame, modes=["small", "large"]).attributes == {}
    judged = deepval.evaluate(
        frame, {"mine": [3.0, 2.0, 1.0]}, draws=5, modes=["small", "large"]
    )
    assert (
        judged.rows == deepval.evaluate(wanted, {"mine": [3.0, 2.0, 1.0]}, draws=5).rows
    )
    assert judged.setting["modes"] == ("small", "large")
    for modes in (
        ["small"],
        ["small", "huge"],
        ["small", "large", "small"],
        [],
        "small,large",
    ):
        for read in (
            lambda m: read_values(frame, modes=m),
            read_values(frame).with_modes,
        ):
            with pytest.raises(InputError, match="mode"):
                read(modes)


def test_rewards_are_losses_the_other_way_round():
    rewards = {"small": [0.5, 0.0, 0.25], "large": [1.0, 0.0, 0.0]}
    table = ValueTable.from_columns(unit=["a", "a", "b"], rewards=rewards)
    assert table.losses.tolist() == [[-0.5, -1.0], [0.0, 0.0], [-0.25, 0.0]]
    assert not np.signbit(table.losses[1]).any()
    assert table.decision_values.tolist() == [0.5, 0.0, -0.25]
    columns = {"unit": ["a", "a", "b"], "input": [0, 1, 2]}
    named = {f"reward_{mode}": column for mode, column in rewards.items()}
    assert read_values(columns | named).digest == table.digest
    assert read_values(columns | named, modes=["large", "small"]).modes == (
        "large",
        "small",
    )
    with pytest.raises(InputError, match="'loss_<mode>'"):
        read_values(columns | named | {"loss_small": [1, 2, 3]})
    with pytest.raises(InputError, match="not both"):
        ValueTable.from_columns(
            unit=["a"], losses={"c": [1], "f": [1]}, rewards={"c": [1], "f": [1]}
        )
    with pytest.raises(InputError, match="are needed"):
        ValueTable.from_columns(unit=["a"])
    with pytest.raises(InputError, match="column 'reward_large' must be finite"):
        read_values(columns | named | {"reward_large": [1.0, math.inf, 0.0]})


@pytest.mark.parametrize("name", ["", " "])
def test_every_mode_has_a_name(name):
    columns = {"unit": ["a", "b"], "input": [0, 1], "loss_full": [1, 2]}
    with pytest.raises(InputError, match="every mode needs a name"):
        read_values(columns | {f"loss_{name}": [1, 0]})
    with pytest.raises(InputError, match="every mode needs a name"):
        ValueTable.from_columns(unit=["a", "b"], losses={name: [1, 0], "full": [1, 2]})


def test_modes_that_seem_to_stand_the_wrong_way_round_are_warned_of():
    unit, losses = ["a", "a", "b"], {"large": [1.0, 2.0, 0.5], "small": [3.0, 4.0, 0.0]}
    costs = {"modes": {"small": {"ms": 5}, "large": {"ms": 20}}}
    told = (
        r"'small', costs less than 'large' \(5 against 20 ms\) and harms more than it "
        r"helps \(harm ratio 8"
    )
    with pytest.warns(InputWarning, match=told) as caught:
        result = deepval.evaluate(
            ValueTable.from_columns(unit=unit, losses=losses, costs=costs), {}, draws=0
        )
    assert "is 'small' really the full mode" in str(caught[0].message)
    assert result.warnings == (str(caught[0].message),)
    with pytest.warns(InputWarning, match="'small'"):
        deepval.evaluate(ValueTable.from_columns(unit=unit, losses=losses), {}, draws=0)
    mild = {"large": [1.0, 2.0, 0.5], "small": [1.5, 2.0, 0.1]}
    assert (
        deepval.evaluate(
            ValueTable.from_columns(unit=unit, losses=mild), {}, draws=0
        ).warnings
        == ()
    )
    with pytest.warns(InputWarning, match="costs less than"):
        deepval.evaluate(
            ValueTable.from_columns(unit=unit, losses=mild, costs=costs), {}, draws=0
        )
    right = ValueTable.from_columns(
        unit=unit, losses=losses, costs=costs, modes=["small", "large"]
    )
    assert deepval.evaluate(right, {}, draws=0).warnings == ()


def test_one_unit_per_row_looks_like_frames():
    with pytest.warns(InputWarning, match="'unit'"):
        by_hand(unit=[f"u{row}" for row in range(10)])
    ValueTable.from_columns(unit=["u"], losses={"cheap": [1], "full": [2]})


def test_the_digest_is_the_hash_of_what_it_says():
    table = ValueTable.from_columns(
        unit=["v", "u"] * 2,
        input=list("dbca"),
        losses={"c": [1, 2, 3, 4], "f": [0] * 4},
    )
    content = b"c\nf\nu\nv\n" + b"d\nb\nc\na"
    content += (
        np.array([1, 0, 1, 0], "<i4").tobytes()
        + np.array([1, 2, 3, 4, 0, 0, 0, 0], "<f8").tobytes()
    )
    assert table.digest == hashlib.sha256(content).hexdigest()


def test_the_digest_sees_every_change_but_attributes():
    first, base = ["frame-x", *COLUMNS["input"][1:]], by_hand().digest
    rows = list(range(9, -1, -1))
    changed = [
        by_hand(input=first),
        by_hand(unit=["2", *UNITS[1:]]),
        by_hand(loss_full=[2.5, *FULL[1:]]),
        by_hand(order=rows),
        by_hand(loss_more=FULL),
        by_hand(
            **{name: [column[row] for row in rows] for name, column in COLUMNS.items()}
        ),
        read_values(
            {name: column for name, column in COLUMNS.items() if name != "order"}
        ),
    ]
    digests = {base, *(table.digest for table in changed)}
    assert len(digests) == 1 + len(changed)
    assert by_hand(weather=["fog"] * 10).digest == base


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=6, unique=True))
def test_the_digest_of_integers_is_that_of_their_spelling(ids):
    losses = {"cheap": [1.0] * len(ids), "full": [0.0] * len(ids)}
    unit = ["u"] * len(ids)
    as_numbers = ValueTable.from_columns(unit=unit, input=np.array(ids), losses=losses)
    as_words = ValueTable.from_columns(
        unit=unit, input=[str(value) for value in ids], losses=losses
    )
    padded = ValueTable.from_columns(
        unit=unit, input=[f"0{value}" for value in ids], losses=losses
    )
    assert as_numbers.digest == as_words.digest != padded.digest


def test_inputs_are_not_modified():
    arrays = {name: np.array(column) for name, column in COLUMNS.items()}
    for array in arrays.values():
        array.flags.writeable = False
    table = read_values(arrays)
    assert same(table.keep(np.ones(10, dtype=bool)), table)
    assert all(np.array_equal(array, COLUMNS[name]) for name, array in arrays.items())


@given(
    st.lists(
        st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=1, max_size=30
    ),
    st.integers(1, 8),
)
def test_laws_of_a_summary(losses, tenths):
    cheap, full = (np.array(column) / 4 for column in zip(*losses, strict=True))
    table = ValueTable.from_columns(
        unit=["u"] * len(cheap), losses={"cheap": cheap, "full": full}
    )
    summary = table.summary(tenths / 10)
    gained = cheap - full
    assert summary.affected == sum(value != 0 for value in gained)
    if cheap.sum() > 0:
        assert summary.oracle_share >= max(
            0.0, summary.all_full_share if not summary.budget_binds else 0.0
        )
        assert summary.oracle_share == pytest.approx(
            sum(
                sorted((value for value in gained if value > 0), reverse=True)[
                    : summary.quota
                ]
            )
            / cheap.sum(),
            rel=1e-9,
        )
    assert summary.budget_binds == (sum(value > 0 for value in gained) > summary.quota)
    assert summary.quota_is_capacity == (
        sum(value >= 0 for value in gained) >= summary.quota
    )


def test_what_a_setting_says_of_several_budgets_takes_one_sort_of_the_values(
    monkeypatch,
):
    rng = np.random.default_rng(5)
    cheap = rng.exponential(size=500)
    table = deepval.ValueTable.from_columns(
        unit=np.arange(500) // 50,
        losses={"cheap": cheap, "full": cheap - rng.normal(0.1, 1.0, 500)},
    )
    sorts = []
    monkeypatch.setattr(
        values,
        "most_helpful",
        lambda *args: sorts.append(len(args)) or most_helpful(*args),
    )
    setting = setting_of(table)
    assert sorts == [1]
    for item in setting.budgets:
        best = np.sort(np.maximum(table.decision_values, 0.0))[::-1][: item.quota]
        assert item.oracle_share == pytest.approx(best.sum() / cheap.sum(), rel=1e-12)
    assert setting == setting_of(table.keep(np.ones(500, dtype=bool)))
