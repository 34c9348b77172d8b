"""Every way in which input can be bad: an error on one line that names the source and
the column or the field, and the input where there is one.
"""

import io
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from commands import PYTHON, run_process
from deepval import (
    InputError,
    InputWarning,
    Latency,
    Selection,
    ValueTable,
    read_costs,
    read_values,
)

HEADER = "unit,input,loss_cheap,loss_full\n"
GOOD = HEADER + "u,a,1,0.5\nu,b,2,3\nv,c,1,1\n"
COLUMNS = {
    "unit": ["u", "u", "v"],
    "input": ["a", "b", "c"],
    "loss_cheap": [1.0, 2.0, 1.0],
    "loss_full": [0.5, 3.0, 1.0],
}
COSTS = (
    "[modes.cheap]\nms = 13.18\n[modes.full]\nms = 18.47\n[allocators.mine]\n"
    "ms = 0.65\nserved = 'single'\n"
)
SCORES = {"input": ["a", "b", "c"], "score": [1.0, 2.0, 3.0]}


def complaint(action, *arguments, **options) -> str:
    """The error about bad input: InputError itself, on one line."""
    with pytest.raises(InputError) as caught:
        action(*arguments, **options)
    text = str(caught.value)
    assert type(caught.value) is InputError
    assert text.endswith(".")
    assert "\n" not in text
    return text


def write(folder: Path, content: str | bytes, name: str = "values.csv") -> Path:
    (folder / name).write_bytes(
        content.encode() if isinstance(content, str) else content
    )
    return folder / name


def parquet(columns) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def judged(scores, columns=None, budget=None, **options):
    return deepval.evaluate(
        read_values(columns or COLUMNS),
        scores,
        [budget or Selection(0.5)],
        draws=0,
        **options,
    )


def test_a_mode_with_a_price_whose_column_of_losses_is_misspelt_is_not_left_out():
    content = {**COLUMNS, "los_large": COLUMNS["loss_full"]}
    for number, mode in enumerate(("cheap", "full", "large"), start=1):
        content[f"usd_{mode}"] = [float(number)] * 3
    text = complaint(read_values, content)
    assert "'los_large'" in text
    assert "'loss_large'" in text
    # A number that only begins like a price is none.
    content["usd_total"] = content.pop("usd_large")
    assert read_values(content).modes == ("cheap", "full")


# Tables: what is in a cell.


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ("u,a,1,nan\nu,b,1,1\n", ("'loss_full'", "row 1 (input 'a')")),
        ("u,a,1,1\nu,b,-inf,1\n", ("'loss_cheap'", "row 2 (input 'b')")),
        ("u,a,1,1\nu,b,1e999,1\n", ("'loss_cheap'", "row 2 (input 'b')")),
        ("u,a,1,1\nu,b,,1\n", ("'loss_cheap'", "row 2 (input 'b')")),
        ("u,a,,1\nu,b,,1\n", ("row 1 (input 'a')", "1 more")),
        ("u,a,1,1\nu,b,1,-1e308\n", ("'loss_full'", "row 2 (input 'b')")),
        ("u,a,1,1\nu,b,x1,1\n", ("'loss_cheap'", "row 2 (input 'b')", "'x1'")),
        ("u,a,1,1\nu,b,1_000,1\n", ("'loss_cheap'", "row 2 (input 'b')")),
        ('u,a,1,1\nu,b,"1,5",1\n', ("'loss_cheap'", "write 1.5")),
        ("u,a,2024-05-01,1\n", ("'loss_cheap'",)),
        ("u,a,1,1\nu,b,1,1\nv,a,1,1\n", ("'a'", "rows 1 and 3")),
        ("u,a,1,1\nu,,1,1\n", ("'input'", "row 2")),
        ("u,a,1,1\n,b,1,1\n", ("'unit'", "row 2 (input 'b')")),
        ("", ("at least one row",)),
    ],
)
def test_cells_of_a_csv_file(tmp_path, rows, names):
    path = write(tmp_path, HEADER + rows)
    text = complaint(read_values, path)
    assert all(name in text for name in names)
    assert complaint(deepval.evaluate, path, {"mine": SCORES}).startswith(f"{path}: ")


def every_form(folder, columns) -> dict:
    return {
        "csv": write(folder, pd.DataFrame(columns).to_csv(index=False)),
        "parquet": write(folder, parquet(columns), "values.parquet"),
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "arrow": pa.table(columns),
        "mapping": columns,
    }


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"loss_full": [1.0, 2.0, float("nan")]}, "row 3 (input 'c')"),
        ({"loss_full": [1.0, None, 2.0]}, "row 2 (input 'b')"),
        ({"loss_cheap": [1.0, float("inf"), 2.0]}, "row 2 (input 'b')"),
        ({"order": [0.0, 1.0, float("nan")]}, "row 3 (input 'c')"),
        ({"loss_cheap": ["1", "2", "high"]}, "row 3 (input 'c')"),
        ({"input": ["a", "b", "b"]}, "rows 2 and 3"),
        ({"input": ["a", None, "c"]}, "row 2"),
        ({"unit": ["u", "u", None]}, "row 3 (input 'c')"),
    ],
)
def test_the_same_words_for_every_form(tmp_path, changes, row):
    sources = every_form(tmp_path, COLUMNS | changes)
    texts = {complaint(read_values, source) for source in sources.values()}
    after_source = {text.split(": ", 1)[1] for text in texts}
    assert len(after_source) == 1
    assert row in after_source.pop()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("input", [1.0, 2.0, 3.0]),
        ("input", [True, False, True]),
        ("unit", [0.5, 0.5, 1.0]),
        ("input", ["a", True, "c"]),
        ("input", ["a", float("nan"), "c"]),
        ("input", ["a", 2.5, "c"]),
        ("input", [b"a", b"b", b"c"]),
        ("input", [("a", 1), ("b", 2), ("c", 3)]),
        ("unit", "u"),
        ("loss_full", np.ones((3, 1))),
        ("loss_full", [1.0, 10**400, 1.0]),
        ("loss_full", [1.0, "x" * 900, 1.0]),
        ("loss_full", [1.0, [2.0], 1.0]),
        ("loss_full", [1.0, {}, 1.0]),
        ("loss_full", [1.0, 2.0, 3j]),
        ("loss_full", np.arange(3).astype("datetime64[ns]")),
        ("loss_full", [1.0, 2.0]),
        ("weather", ["sun"]),
    ],
)
def test_columns_of_a_mapping(name, column):
    text = complaint(read_values, COLUMNS | {name: column})
    assert f"'{name}'" in text
    assert len(text) < 300


def test_columns_given_one_by_one():
    losses = {"cheap": [1.0, 2.0], "full": [1.0, 2.0]}
    for columns in (
        {"unit": ["u", "u"], "losses": {"cheap": [1.0, 2.0]}},
        {"unit": ["u"], "losses": losses},
        {"unit": ["u", "u"], "input": ["a"], "losses": losses},
        {"unit": [], "losses": {"cheap": [], "full": []}},
        {"unit": ["u", "u"], "losses": losses | {"full": [1.0, "x"]}},
    ):
        assert complaint(ValueTable.from_columns, **columns).startswith("the table: ")


def test_huge_integers_are_ids_but_no_losses(tmp_path):
    ids = ["99999999999999999999999", "18446744073709551615", "7"]
    numbers = [int(value) for value in ids]
    assert read_values(COLUMNS | {"input": numbers}).input.tolist() == ids
    rows = "".join(f"u,{value},{value},1\n" for value in ids)
    table = read_values(write(tmp_path, HEADER + rows))
    assert table.input.tolist() == ids
    assert table.losses[0, 0] == 1e23
    unsigned = pa.table(COLUMNS | {"input": pa.array([2**64 - 1, 1, 2], pa.uint64())})
    assert read_values(unsigned).input.tolist() == [str(2**64 - 1), "1", "2"]


# Tables: what they are.


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("unit,loss_cheap,loss_full\nu,1,1\n", "'input'"),
        ("input,loss_cheap,loss_full\nu,1,1\n", "'unit'"),
        ("unit,input\nu,a\n", "'loss_<mode>'"),
        ("unit,input,loss_full\nu,a,1\n", "'loss_<mode>'"),
        ("unit;input;loss_a;loss_b\nu;a;1;2\n", "`deepval import`"),
        ("unit,input,loss_a,loss_b,loss_a\nu,a,1,2,3\n", "loss_a"),
        ("unit,input,loss_a,loss_b\nu,a,1,2\nu,b,1\n", "row 2"),
        ("unit,input,loss_a,loss_b\nu,a,1,2\n\nu,b,1,2,3\n", "row 2"),
        ('unit,input,loss_a,loss_b\n"u,a,1,2\nu,b,1,2\n', "row 1"),
        (GOOD[: GOOD.index(",3\n")], "row 2"),
        ("\n\n", "header"),
        ("", "header"),
    ],
)
def test_tables_without_what_is_needed(tmp_path, content, name):
    path = write(tmp_path, content)
    text = complaint(read_values, path)
    assert text.startswith(f"{path}: ")
    assert name in text


@pytest.mark.parametrize(
    "name",
    [
        "values.json",
        "values",
        "values.xlsx",
        "absent.csv",
        "absent.parquet",
        "folder.csv",
        "folder.parquet",
        "n" * 300 + ".csv",
        "nul\0.csv",
    ],
)
def test_files_that_are_not_there(tmp_path, name):
    for folder in ("folder.csv", "folder.parquet"):
        (tmp_path / folder).mkdir()
    write(tmp_path, "{}", "values.json")
    assert complaint(read_values, tmp_path / name).startswith(f"{tmp_path}/{name[:3]}")
    assert name[:3] in complaint(judged, {"mine": str(tmp_path / name)})


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    table = write(tmp_path, GOOD)
    stored = write(tmp_path, parquet(COLUMNS), "values.parquet")
    toml = write(tmp_path, COSTS, "costs.toml")
    monkeypatch.setattr(os, "open", refuse)
    for read, path in (
        (read_values, table),
        (read_values, stored),
        (read_costs, toml),
    ):
        text = complaint(read, path)
        assert text.startswith(f"{path}: ")
        assert "Permission denied" in text


@pytest.mark.parametrize(
    "source",
    [
        *(None, 3, [1, 2], {1, 2}, object(), b"values.csv", pl.LazyFrame(COLUMNS)),
        *(pd.Series([1, 2]), pl.Series([1, 2]), pa.chunked_array([[1, 2]])),
        pd.concat([pd.DataFrame(COLUMNS), pd.DataFrame(COLUMNS)[["unit"]]], axis=1),
        pd.DataFrame(COLUMNS | {"input": pd.Series(["a", 1, 2.5], dtype=object)}),
    ],
    ids=lambda source: type(source).__name__,
)
def test_things_that_are_no_table(source):
    assert "table" in complaint(read_values, source)


def not_utf8() -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"u", b"\xff", b"v"]).buffers()
    )


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("loss_full", pa.array([[1.0], [2.0], [3.0]])),
        ("loss_full", pa.array([{"x": 1}] * 3)),
        ("loss_full", pa.array([1, 2, 3], pa.timestamp("ns"))),
        ("loss_full", pa.array([1, 2, 3], pa.duration("ms"))),
        ("loss_full", pa.array([b"1", b"2", b"3"])),
        ("loss_full", pa.nulls(3)),
        ("input", pa.array([{"x": 1}] * 3)),
        ("input", pa.array([1, None, 3])),
        ("input", pa.array([b"a", b"b", b"c"])),
        ("input", pa.nulls(3)),
        ("unit", not_utf8()),
        ("unit", pa.array(["u", None, "v"]).dictionary_encode()),
    ],
    ids=str,
)
def test_columns_of_odd_arrow_types(tmp_path, name, column):
    columns = COLUMNS | {name: column}
    path = write(tmp_path, parquet(columns), "values.parquet")
    for source, title in ((pa.table(columns), "the Table given"), (path, str(path))):
        assert complaint(read_values, source).startswith(f"{title}: column '{name}' ")


def test_an_odd_column_beside_the_others_is_named():
    union = pa.UnionArray.from_sparse(
        pa.array([0, 0, 0], pa.int8()), [pa.array([1, 2, 3])]
    )
    assert "'extra'" in complaint(read_values, pa.table(COLUMNS | {"extra": union}))
    lists = read_values(pa.table(COLUMNS | {"boxes": [[1.0], [], [2.0, 3.0]]}))
    assert lists.attributes["boxes"].shape == (3,)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (HEADER + "u,a,1,1\nu,\xe9,1,1\n", "line 3"),
        ("weather," + HEADER + "\xe9,u,a,1,1\n", "line 2"),
        ("m\xe9t\xe9o," + HEADER + "x,u,a,1,1\n", "column names"),
    ],
)
def test_text_that_is_not_utf8(tmp_path, content, place):
    path = write(tmp_path, content.encode("latin-1"))
    text = complaint(read_values, path)
    assert text.startswith(f"{path}: ")
    assert place in text
    assert read_values(write(tmp_path, content)).losses.shape[1] == 2
    assert "line 1" in complaint(read_values, write(tmp_path, content.encode("utf-16")))


def test_files_of_another_type_than_their_name(tmp_path):
    for path in (
        write(tmp_path, parquet(COLUMNS), "values.csv"),
        write(tmp_path, GOOD, "values.parquet"),
    ):
        assert complaint(read_values, path).startswith(f"{path}: ")


def test_a_csv_file_cut_in_its_last_number_is_read_with_a_warning(tmp_path):
    cut = write(tmp_path, HEADER + "u,a,1,0.5\nu,b,2,3.2")
    with pytest.warns(InputWarning, match=r"values.csv: the last line"):
        assert read_values(cut).losses[1, 1] == 3.2


def test_a_parquet_file_cut_anywhere(tmp_path):
    whole = parquet(COLUMNS)
    for length in range(1, len(whole), 37):
        path = write(tmp_path, whole[:length], "values.parquet")
        assert complaint(read_values, path).startswith(f"{path}: ")


def test_a_unit_per_row(tmp_path):
    path = write(tmp_path, HEADER + "u,a,1,1\nv,b,2,1\n")
    with pytest.warns(InputWarning, match=r"values.csv: column 'unit'"):
        read_values(path)


# Scores.


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ({"score": [1.0, float("nan"), 3.0]}, "row 2 (input 'b')"),
        ({"score": [None, 2.0, None]}, "row 1 (input 'a')"),
        ({"score": ["1", "high", "3"]}, "row 2 (input 'b')"),
        ({"input": ["a", "b", "a"]}, "rows 1 and 3"),
        ({"input": ["a", "b", "x"]}, "row 3 (input 'x')"),
        ({"input": ["x", "b", "y"]}, "row 1 (input 'x')"),
        ({"input": ["a", None, "c"]}, "row 2"),
    ],
)
def test_columns_of_scores(tmp_path, columns, row):
    for form, source in every_form(tmp_path, SCORES | columns).items():
        text = complaint(judged, {"mine": source})
        assert text.startswith("mine: "), form
        assert row in text, form


@pytest.mark.parametrize(
    "scores",
    [
        {"input": ["a", "b", "c"]},
        {"score": [1, 2, 3]},
        {"input": [], "score": []},
        {"a": 1.0, "b": 2.0, "c": 3.0},
        {"input": ["a"], "score_mid": [1.0]},
        [1.0, 2.0],
        [],
        np.ones(4),
        np.ones((3, 1)),
        np.ones((3, 2)),
        np.ones((3, 1, 1)),
        [1.0, [2.0], 3.0],
        np.array([1.0, np.nan, 3.0]),
        [1.0, None, 3.0],
        [1.0, "high", 3.0],
        pd.Series([1.0, pd.NA, 3.0], dtype="Float64"),
        pl.Series([1.0, None, 3.0]),
        np.array([1j, 2, 3]),
        None,
        0.5,
    ],
    ids=str,
)
def test_scores_of_another_shape(scores):
    assert complaint(judged, {"mine": scores}).startswith("mine: ")


def test_scores_per_mode_name_the_mode():
    ladder = COLUMNS | {"loss_best": [0.0, 0.0, 0.0]}
    gap = {
        "input": ["a", "b", "c"],
        "score_full": [1.0, 2.0, 3.0],
        "score_best": [1.0, float("nan"), 3.0],
    }
    text = complaint(judged, {"mine": gap}, ladder)
    assert "'score_best'" in text
    assert "row 2 (input 'b')" in text
    array = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, np.nan]])
    text = complaint(judged, {"mine": array}, ladder)
    assert "'best'" in text
    assert "row 3 (input 'c')" in text
    del gap["score_full"]
    assert "score_full" in complaint(judged, {"mine": gap}, ladder)


@pytest.mark.filterwarnings("ignore:The last mode")
def test_inputs_without_a_score():
    few = {"input": ["c"], "score": [1.0]}
    text = complaint(judged, {"mine": few})
    assert text.startswith("mine: ")
    assert "'a'" in text
    with pytest.warns(InputWarning, match="mine has no score for"):
        found = judged({"mine": few}, missing="worst")
    assert found.row("mine", alpha=0.5).inputs == 3


@pytest.mark.parametrize(
    "name",
    [
        *("random", "never", "all-full", "always", "oracle", "oracle-ladder"),
        *("random-ladder", "", "  "),
    ],
)
def test_names_that_an_allocator_cannot_have(name):
    assert repr(name) in complaint(judged, {name: [1.0, 2.0, 3.0]})


# Budgets and costs.


@pytest.mark.parametrize("kind", [deepval.Selection, deepval.Latency, deepval.Energy])
@pytest.mark.parametrize(
    "alpha",
    [
        *(0, 0.0, 1.5, float("nan"), float("inf"), -0.1, True, 20),
        pytest.param(10**400, id="huge"),
    ],
)
def test_shares_outside_zero_to_one(kind, alpha):
    assert complaint(kind, alpha).startswith("alpha ")


def test_a_summary_checks_its_share():
    assert complaint(read_values(COLUMNS).summary, 1.5).startswith("alpha ")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (COSTS.replace("13.18", "-13.18"), "mode 'cheap' has ms"),
        (COSTS.replace("0.65", "-1"), "allocator 'mine' has ms"),
        (COSTS.replace("0.65", "nan"), "allocator 'mine' has ms"),
        (COSTS.replace("0.65", "inf"), "allocator 'mine' has ms"),
        (COSTS.replace("0.65", "1" + "0" * 400), "allocator 'mine' has ms"),
        (COSTS.replace("0.65", "1e10"), "allocator 'mine' has ms"),
        (COSTS.replace("0.65", "'fast'"), "allocator 'mine': ms"),
        (COSTS.replace("18.47", "8.47"), "ms = 8.47 for 'full'"),
        ("", "modes"),
        ("modes = 3\n", "[modes.<name>]"),
        ("[modes.cheap]\nms = \n", "line 2"),
        (COSTS[:50], "TOML"),
        ("a = " + "[" * 5000, "TOML"),
        ("a = 1" + "0" * 5000, "TOML"),
        (GOOD, "TOML"),
        ((COSTS + "# m\xe9t\xe9o\n").encode("latin-1"), "line 8"),
    ],
    ids=lambda value: str(value[:40]),
)
def test_costs_of_a_file(tmp_path, content, name):
    path = write(tmp_path, content, "costs.toml")
    text = complaint(read_costs, path)
    assert text.startswith(f"{path}: ")
    assert name in text
    assert complaint(Latency, 0.2, path) == text


@pytest.mark.parametrize("name", ["absent.toml", "folder.toml", "nul\0.toml"])
def test_costs_that_are_not_there(tmp_path, name):
    (tmp_path / "folder.toml").mkdir()
    assert name[:3] in complaint(read_costs, f"{tmp_path}/{name}")


def test_an_allocator_without_a_cost_is_not_free():
    costs = {"modes": {"cheap": {"ms": 1}, "full": {"ms": 2}}}
    text = complaint(judged, {"mine": SCORES}, budget=Latency(0.5, costs))
    assert text.startswith("the costs given: ")
    assert "allocator 'mine'" in text


# What no annotation may catch first: a process without the run-time checks of the
# tests.

WRONG_TYPES = """
import numpy as np
import deepval

columns = {"unit": ["u", "u"], "input": ["a", "b"]}
losses = {"loss_cheap": [1, 2], "loss_full": [1, 1]}
table = deepval.read_values(columns | losses)
scores = {"mine": [1, 2]}
actions = [
    lambda: deepval.Selection("0.2"),
    lambda: deepval.Selection(None),
    lambda: deepval.Latency([0.2]),
    lambda: deepval.Latency(0.2, accounting="both"),
    lambda: deepval.Energy(0.2, convention="kwh"),
    lambda: deepval.evaluate(table, scores, missing="best"),
    lambda: deepval.evaluate(table, np.array([1, 2])),
    lambda: deepval.evaluate(table, {3: [1, 2]}),
]
for action in actions:
    try:
        action()
    except deepval.InputError as error:
        print("refused")
assert deepval.Selection(np.float32(0.25)).alpha == 0.25
assert deepval.Selection(np.int64(1)).alpha == 1.0
"""


def test_wrong_types_are_refused_without_the_checks_of_the_tests():
    done = run_process(WRONG_TYPES, program=PYTHON)
    assert done.code == 0, done.err
    assert done.out.split() == ["refused"] * 8


# Not errors: nulls with a reason, and a warning.


def test_all_decision_values_zero():
    with pytest.warns(
        InputWarning,
        match=r"All decision values are zero",
    ):
        result = judged(
            {"mine": SCORES}, COLUMNS | {"loss_full": COLUMNS["loss_cheap"]}
        )
    assert len(result.warnings) == 1
    for row in result.rows:
        assert row.gain == 0
        assert row.ndg is None
        assert row.ndg_lo is None
        assert row.reason
        assert row.verdict is None
    assert result.setting["harm_rate"] is None
    assert result.setting["harm_ratio"] is None


@pytest.mark.filterwarnings("ignore:The last mode")
@pytest.mark.parametrize("draws", [50, "exact"])
def test_a_single_unit_has_no_interval(draws):
    table = read_values(COLUMNS | {"unit": ["u", "u", "u"]})
    with pytest.warns(
        InputWarning,
        match=r"There is a single unit, 'u'",
    ):
        result = deepval.evaluate(
            table, {"mine": SCORES}, [Selection(0.5)], draws=draws
        )
    row = result.row("mine", alpha=0.5)
    assert (row.ndg_lo, row.ndg_hi, row.versus_random_lo, row.versus_random_hi) == (
        None,
        None,
        None,
        None,
    )
    assert row.gain == (2 - 3) + (1 - 1)  # inputs b and c
    assert row.ndg == (2 - 3) / (1 - 0.5)
    assert row.verdict is None
    assert row.reason


@pytest.mark.filterwarnings("ignore:The last mode")
@pytest.mark.parametrize("cheap", [[0.0, 0.0, 0.0], [-1.0, 0.0, 0.5]])
def test_an_all_cheap_loss_that_is_not_positive(cheap):
    total = f"{sum(cheap):g}"
    with pytest.warns(
        InputWarning,
        match=rf"The all-cheap loss is {total}, not positive",
    ):
        result = judged(
            {"mine": SCORES},
            COLUMNS | {"loss_cheap": cheap, "loss_full": [-1.0, 1.0, 0.0]},
        )
    for row in result.rows:
        assert (row.gain_share, row.versus_random, row.versus_random_lo) == (
            None,
            None,
            None,
        )
        assert row.reason
    assert result.row("mine", alpha=0.5).gain == (cheap[1] - 1) + (cheap[2] - 0)
    assert result.setting["all_full_share"] is None


# Nothing but InputError, whatever the bytes.


def damaged(rng: np.random.Generator, whole: bytes) -> bytes:
    """Random bytes, a beginning, or the whole with a few places overwritten."""
    kind = rng.integers(0, 4)
    if kind == 0:
        return rng.bytes(int(rng.integers(1, 200)))
    if kind == 1:
        return whole[: rng.integers(1, len(whole))]
    signs = rng.bytes(64) if kind == 2 else b',\n".-e0[]=\r\t'
    content = bytearray(whole)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, len(content)))
        content[at : at + int(rng.integers(0, 3))] = bytes(
            signs[i] for i in rng.integers(0, len(signs), rng.integers(0, 4))
        )
    return bytes(content)


@pytest.mark.parametrize(
    ("suffix", "whole", "read"),
    [
        (
            ".csv",
            ("order,weather," + HEADER + "0,sun,u,a,1,0.5\n1,rain,u,b,2,3\n").encode(),
            read_values,
        ),
        (
            ".parquet",
            parquet(
                COLUMNS | {"weather": pa.array(["a", None, "b"]).dictionary_encode()}
            ),
            read_values,
        ),
        (".toml", COSTS.encode(), read_costs),
    ],
)
def test_damaged_files_load_or_raise_input_errors(tmp_path, suffix, whole, read):
    rng = np.random.default_rng(1)
    loaded = 0
    for case in range(200):
        path = write(tmp_path, damaged(rng, whole), f"{case}{suffix}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            try:
                read(path)
                loaded += 1
            except InputError as error:
                assert str(path) in str(error)  # noqa: PT017  (some files load)
    assert loaded < 200
