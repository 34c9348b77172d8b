"""A result is the same bytes for the same inputs, survives its file, and reads as rows,
mappings and Arrow.
"""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

import deepval
from deepval.basics.files.canonical import plain
from deepval.judge.report.forms import FORMS
from deepval.judge.results import SCHEMA, Estimate, Reason, Record, Row, joined
from whole_sets import standings
from worlds import COSTS, judge, random_table, random_world, table_of

CONTRACT = {
    "allocator",
    "kind",
    "alpha",
    "inputs",
    "escalated",
    "gain",
    "gain_share",
    "benefit",
    "harm",
    "oracle_gain",
}
CONTRACT |= {
    "ndg",
    "ndg_lo",
    "ndg_hi",
    "versus_random",
    "versus_random_lo",
    "versus_random_hi",
    "verdict",
}
CONTRACT |= {"draws", "draws_dropped", "reason"}


def everything() -> deepval.Result:
    """A result with slices, streams, curves, a ladder, simultaneous intervals,
    infeasible rows and nulls.
    """
    rng = np.random.default_rng(1)
    modes = ("cheap", "middle", "full")
    table = random_table(
        rng,
        inputs=14,
        units=4,
        modes=modes,
        order=np.arange(14),
        attributes={"kind": rng.choice(["x", "y"], 14)},
    )
    costs = {
        "modes": {"cheap": {"ms": 5.0}, "middle": {"ms": 6.0}, "full": {"ms": 8.0}},
        "allocators": {"mine": {"ms": 0.5}, "dear": {"ms": 7.0}, "both": {"ms": 0.5}},
    }
    scores = {
        "mine": rng.normal(size=14),
        "dear": rng.normal(size=14),
        "both": rng.normal(size=(14, 2)),
    }
    budgets = [
        deepval.Selection(0.2),
        deepval.Latency(0.5, costs),
        deepval.Latency(0.5, costs, "skipping"),
    ]
    options = {
        "by": "kind",
        "curve_points": 3,
        "simultaneous_intervals": True,
        "draws": 15,
    }
    return judge(
        table, scores, budgets, calibration=[str(table.unit_ids[0])], **options
    )


def test_the_same_inputs_give_the_same_bytes():
    assert everything().to_json() == everything().to_json()


def test_a_result_survives_its_file(tmp_path):
    result = everything()
    for part in (
        "rows",
        "slices",
        "gaps",
        "streams",
        "units",
        "curves",
        "ladder",
        "half_widths",
    ):
        assert getattr(result, part), part
    result.save(tmp_path / "result.json")
    loaded = deepval.Result.load(tmp_path / "result.json")
    assert loaded == result
    assert (
        loaded.to_json()
        == result.to_json()
        == (tmp_path / "result.json").read_text(encoding="utf-8")
    )
    assert loaded.samples is None


def test_a_result_is_whole_however_it_is_first_read():
    one = everything()
    assert one.rows
    twins = [
        everything(),
        pickle.loads(pickle.dumps(everything())),
        copy.copy(everything()),
        copy.deepcopy(everything()),
        dataclasses.replace(everything(), warnings=one.warnings),
    ]
    for twin in twins:
        assert twin == one
        assert twin.to_json() == one.to_json()
        assert twin.samples is not None
        assert one.samples is not None
        assert np.array_equal(twin.samples.gain, one.samples.gain, equal_nan=True)


def test_scores_that_change_after_the_judgement_change_no_result():
    rng = np.random.default_rng(2)
    table = random_table(rng, inputs=60, units=6)
    score = table.decision_values + rng.normal(size=60)
    expected = judge(table, {"mine": score}, [0.2], thresholds=True).to_json()
    result = judge(table, {"mine": score}, [0.2])
    result_with_thresholds = judge(table, {"mine": score}, [0.2], thresholds=True)
    threshold = result_with_thresholds.threshold("mine")
    score[:] = rng.normal(size=60)
    assert result_with_thresholds.to_json() == expected
    assert result.threshold("mine") == threshold


def test_results_saved_before_rows_named_their_yardsticks_are_read_and_shown(tmp_path):
    content = json.loads(everything().to_json())
    for part, names in (
        ("rows", ("oracle", "chance")),
        ("streams", ("draws", "versus_ranking_dropped")),
    ):
        for row in content[part]:
            for name in names:
                del row[name]
    (tmp_path / "old.json").write_text(json.dumps(content), encoding="utf-8")
    loaded = deepval.Result.load(tmp_path / "old.json")
    assert {row.oracle for row in loaded.rows} == {None}
    for form in FORMS.values():
        assert "random-ladder" in form(loaded)


def test_json_is_plain_and_has_no_nan():
    content = json.loads(everything().to_json(), parse_constant=pytest.fail)
    assert content["schema"] == SCHEMA
    assert set(content["rows"][0]) == set(Row.columns())
    for seed in range(8):
        json.loads(
            random_world(np.random.default_rng(seed)).judged().to_json(),
            parse_constant=pytest.fail,
        )


def test_files_that_are_no_results_are_refused(tmp_path):
    for content in ("", "[]", '{"schema": "other/1"}', everything().to_json()[:400]):
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
        with pytest.raises(deepval.InputError, match=r"bad\.json"):
            deepval.Result.load(tmp_path / "bad.json")
    with pytest.raises(deepval.InputError, match=r"absent\.json"):
        deepval.Result.load(tmp_path / "absent.json")


def test_rows_are_mappings_with_the_published_names():
    row = everything().rows[0]
    assert set(row) >= CONTRACT
    assert row["gain"] == row.gain
    assert dict(row) == plain(row)
    assert {**row}["allocator"] == "random"
    assert len(row) == len(list(row))
    with pytest.raises(KeyError):
        row["nothing"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.gain = 1.0


def test_arrow_holds_rows_and_slices():
    result = everything()
    table = result.to_arrow()
    assert table.column_names == list(Row.columns())
    assert table.to_pylist() == [dict(row) for row in (*result.rows, *result.slices)]
    assert str(table.schema.field("gain").type) == "double"
    assert str(table.schema.field("draws").type) == "int64"
    assert str(table.schema.field("verdict").type) == "string"


def test_a_row_is_found_by_allocator_kind_and_alpha():
    table = table_of([1.0, -1.0, 2.0], unit=["a", "a", "b"])
    result = judge(
        table,
        {"light": np.arange(3.0)},
        [deepval.Selection(0.2), deepval.Latency(0.5, COSTS)],
        draws=5,
    )
    assert result.row("light").alpha == 0.2
    assert result.row("light", "latency", 0.5).kind == "latency"
    assert (
        result.row("light", "latency")
        == result.row("light", "latency", 0.5)
        == result.row("light", alpha=0.5)
    )
    with pytest.raises(deepval.InputError, match="'latency'"):
        result.row("light", "latency", 0.2)
    with pytest.raises(deepval.InputError, match="'dark'"):
        result.row("dark")


def test_the_only_budget_of_a_result_need_not_be_named():
    table = table_of([1.0, -1.0, 2.0], unit=["a", "a", "b"])
    for budget in (
        deepval.Selection(0.5),
        deepval.Selection(1.0),
        deepval.Latency(0.3, COSTS, "skipping"),
    ):
        result = judge(table, {"light": np.arange(3.0)}, [budget], draws=5)
        assert result.row("light") is result.rows[3]
        assert result.row("random").alpha == budget.alpha


def test_a_row_is_not_guessed_among_several_budgets():
    table = table_of([1.0, -1.0, 2.0], unit=["a", "a", "b"])
    budgets = [
        deepval.Latency(0.5, COSTS),
        deepval.Latency(0.5, COSTS, "skipping"),
        deepval.Selection(0.5),
    ]
    result = judge(table, {"light": np.arange(3.0)}, budgets, draws=5)
    labels = r"latency 50% \(ms\), latency 50% \(ms, skipping\), selection 50%"
    with pytest.raises(
        deepval.InputError, match=rf"found no budget named and the budgets {labels}\."
    ):
        result.row("light")
    with pytest.raises(
        deepval.InputError, match=rf"found kind = 'latency' and the budgets {labels}"
    ):
        result.row("light", "latency")
    with pytest.raises(deepval.InputError, match="accounting"):
        result.row("light", accounting="both")
    (skipping,) = [
        row
        for row in result.rows
        if (row.allocator, row.kind, row.accounting) == ("light", "latency", "skipping")
    ]
    assert result.row("light", "latency", accounting="skipping") is skipping
    assert result.row("light", accounting="cascade").accounting == "cascade"
    assert (
        result.row("light", alpha=0.5).kind
        == result.row("light", "selection").kind
        == "selection"
    )


def test_every_null_of_a_row_has_a_reason():
    rng = np.random.default_rng(3)
    looked = (
        "gain",
        "gain_share",
        "ndg",
        "ndg_lo",
        "versus_random",
        "versus_random_lo",
        "oracle_gain",
    )
    nulls = 0
    for _ in range(20):
        for row in random_world(rng, budgets=2).judged().rows:
            missing = [name for name in looked if row[name] is None]
            nulls += bool(missing)
            assert not missing or row.reason, (missing, row)
    assert nulls > 10


def test_undefined_shares_of_curves_are_null():
    table = table_of([0.0, -1.0, 0.0], unit=["a", "b", "b"], cheap=-1.0)
    result = judge(
        table,
        {"mine": np.array([2.0, 0.0, 1.0])},
        [deepval.Selection(0.5)],
        draws=5,
        curve_points=2,
    )
    for curve in result.curves:
        assert curve.gain_share == curve.lo == curve.hi == (None, None)


def test_curves_pass_through_the_rows():
    table = table_of([1.0, -1.0, 2.0, 0.5], unit=["a", "a", "b", "b"])
    budgets = [deepval.Selection(a) for a in (0.25, 0.5, 0.75, 1.0)]
    result = judge(table, {"mine": np.arange(4.0)}, budgets, draws=20, curve_points=4)
    for curve in result.curves:
        rows = [result.row(curve.allocator, alpha=a) for a in curve.alpha]
        assert curve.gain_share == pytest.approx([row.gain_share for row in rows])


def test_units_add_up_to_the_headline_row():
    rng = np.random.default_rng(4)
    for _ in range(10):
        table = random_table(rng, inputs=12, units=4)
        if len(table.unit_ids) < 2:
            continue
        score = rng.integers(0, 3, 12).astype(float)
        result = judge(
            table,
            {"mine": score},
            [deepval.Selection(0.5), deepval.Selection(0.2)],
            draws=0,
        )
        row = result.row("mine", alpha=0.2)
        assert {unit.alpha for unit in result.units} == {0.2}
        assert sum(unit.gains["mine"] for unit in result.units) == pytest.approx(
            row.gain, abs=1e-12
        )
        assert sum(unit.oracle_gain for unit in result.units) == pytest.approx(
            row.oracle_gain, abs=1e-12
        )
        assert sum(unit.inputs for unit in result.units) == 12
        assert sum(unit.cheap_loss for unit in result.units) == pytest.approx(
            table.cheap_loss, abs=1e-12
        )


def test_leaving_out_each_unit():
    # nDG at 50 %: without a, (1)/(1); without b, (4 - 0)/4; the score ranks b's harmful
    # input first.
    table = table_of([4.0, 0.0, 1.0, -1.0], unit=["a", "a", "b", "b"])
    row = judge(
        table,
        {"mine": np.array([2.0, 1.0, 3.0, 4.0])},
        [deepval.Selection(0.5)],
        draws=5,
    ).row("mine", alpha=0.5)
    assert (row.ndg_without_lo, row.ndg_without_hi, row.ndg_without_unit) == (
        -1.0,
        1.0,
        "a",
    )


def test_half_width_is_the_median_over_allocators():
    table = table_of(
        [4.0, 0.0, 1.0, -1.0, 2.0, 0.0], unit=["a", "a", "b", "b", "c", "c"]
    )
    rng = np.random.default_rng(5)
    scores = {f"s{i}": rng.normal(size=6) for i in range(5)}
    result = judge(table, scores, [deepval.Selection(0.5)], draws=40)
    widths = [
        (row.versus_random_hi - row.versus_random_lo) / 2
        for row in result.rows
        if row.verdict
    ]
    assert result.half_widths[0]["half_width"] == pytest.approx(np.median(widths))


def test_a_result_saved_with_its_samples_compares_and_pools_after_loading(tmp_path):
    for draws in (15, "exact", 0):
        table = table_of([1.0, -1.0, 2.0, 0.5], unit=["a", "a", "b", "c"], cheap=3.0)
        scores = {"light": np.arange(4.0), "dear": -np.arange(4.0)}
        result = judge(
            table,
            scores,
            [deepval.Selection(0.3), deepval.Latency(0.3, COSTS)],
            draws=draws,
        )
        result.save(tmp_path / "result.json", samples=True)
        loaded = deepval.Result.load(tmp_path / "result.json")
        assert loaded == result
        assert deepval.compare(loaded, "light", "dear") == deepval.compare(
            result, "light", "dear"
        )
        assert deepval.pool({"one": loaded, "two": result}) == deepval.pool(
            {"one": result, "two": result}
        )
        assert standings({"one": loaded}) == standings({"one": result})


def test_saved_samples_are_the_same_bytes_and_hold_no_pickles(tmp_path):
    for name in ("one", "two"):
        everything().save(tmp_path / f"{name}.json", samples=True)
    assert (tmp_path / "one.samples.npz").read_bytes() == (
        tmp_path / "two.samples.npz"
    ).read_bytes()
    with np.load(tmp_path / "one.samples.npz", allow_pickle=False) as file:
        assert file["gain"].shape == (len(everything().rows), len(file["cheap_loss"]))


def test_a_result_without_samples_says_what_it_lacks(tmp_path):
    everything().save(tmp_path / "bare.json")
    bare = deepval.Result.load(tmp_path / "bare.json")
    for asked in (
        lambda: deepval.compare(bare, "mine", "dear"),
        lambda: deepval.pool({"c": bare}),
    ):
        with pytest.raises(deepval.InputError, match="with its samples"):
            asked()
    with pytest.raises(deepval.InputError, match=r"no samples to save"):
        bare.save(tmp_path / "again.json", samples=True)


def test_samples_of_another_result_are_left_out_and_damaged_ones_refused(tmp_path):
    path, beside = tmp_path / "result.json", tmp_path / "result.samples.npz"
    everything().save(path, samples=True)
    kept = beside.read_bytes()
    dataclasses.replace(everything(), warnings=("changed",)).save(path)
    with pytest.warns(
        deepval.InputWarning, match=r"result\.samples\.npz: .* of another"
    ):
        assert deepval.Result.load(path).samples is None
    for damaged in (kept[: len(kept) // 2], b"", b"text"):
        beside.write_bytes(damaged)
        with pytest.raises(deepval.InputError, match="must be samples"):
            deepval.Result.load(path)


def test_what_surrounds_the_rows_is_typed_and_reads_by_name():
    result = everything()
    parts = (
        result.setting,
        result.provenance,
        *result.half_widths,
        *result.ladder,
        *result.setting.budgets,
    )
    for part in (
        *parts,
        result.setting.concentration,
        result.provenance.draws,
        *result.ladder[0].spent,
    ):
        assert isinstance(part, Record)
        assert part == dict(part)
        with pytest.raises(dataclasses.FrozenInstanceError):
            part.anything = 1
    assert result.setting["harm_rate"] == result.setting.harm_rate
    assert result.provenance["scores"]["mine"]["coverage"] == 1


def test_results_with_unknown_or_missing_parts_are_refused(tmp_path):
    for change in (
        lambda c: c["setting"].pop("inputs"),
        lambda c: c["provenance"].update(other=1),
    ):
        content = json.loads(everything().to_json())
        change(content)
        (tmp_path / "bad.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(
            deepval.InputError, match=r"bad\.json: must be a result saved by deepval"
        ):
            deepval.Result.load(tmp_path / "bad.json")


def test_every_reason_has_words_of_its_own():
    told = [reason.value for reason in Reason]
    assert len(set(told)) == len(told)
    assert (
        joined([None, Reason.NO_DRAWS, "more", Reason.NO_DRAWS])
        == "no draws: no interval; more"
    )
    assert joined([None]) is None


def test_an_estimate_is_a_number_with_bounds_and_survives_copies():
    row = next(row for row in everything().rows if row.ndg_lo is not None)
    assert isinstance(row.ndg, float)
    assert (
        (row.ndg.low, row.ndg.high)
        == (row.ndg_lo, row.ndg_hi)
        == (row["ndg_lo"], row["ndg_hi"])
    )
    assert type(row["ndg"]) is float
    for twin in (
        pickle.loads(pickle.dumps(row)),
        copy.copy(row),
        copy.deepcopy(row),
        Row.of_columns(dict(row)),
    ):
        assert twin == row
        assert hash(twin) == hash(row)
        assert twin.ndg.low == row.ndg_lo
        assert twin.ndg_without == row.ndg_without
    moved = dataclasses.replace(row, ndg=Estimate(row.ndg, row.ndg_lo - 1, row.ndg_hi))
    assert moved.ndg == row.ndg
    assert moved != row
    with pytest.raises(AttributeError, match="ndg_mid"):
        _ = row.ndg_mid
