"""Every way in which input can be bad: one sentence that names the source, the column,
the row and the id.
"""

import io
import json
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
from deepval.errors import one_line, quote

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
    """What is said of bad input: InputError itself, one sentence on one line."""
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


# Tables: what is in a cell.


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            "u,a,1,nan\nu,b,1,1\n",
            "column 'loss_full' must be finite; row 1 (input 'a') holds nan.",
        ),
        (
            "u,a,1,1\nu,b,-inf,1\n",
            "column 'loss_cheap' must be finite; row 2 (input 'b') holds -inf.",
        ),
        (
            "u,a,1,1\nu,b,1e999,1\n",
            "column 'loss_cheap' must be finite; row 2 (input 'b') holds inf.",
        ),
        (
            "u,a,1,1\nu,b,,1\n",
            "column 'loss_cheap' must be finite; row 2 (input 'b') holds nan.",
        ),
        ("u,a,,1\nu,b,,1\n", "row 1 (input 'a') holds nan, and 1 more are not."),
        (
            "u,a,1,1\nu,b,1,-1e308\n",
            (
                "'loss_full' must be at most 1e+150 in size; row "
                "2 (input 'b') holds -1e+308."
            ),
        ),
        (
            "u,a,1,1\nu,b,2e150,1\n",
            (
                "'loss_cheap' must be at most 1e+150 in size; row "
                "2 (input 'b') holds 2e+150."
            ),
        ),
        (
            "u,a,1,1\nu,b,x1,1\n",
            "column 'loss_cheap' must hold numbers; row 2 (input 'b') holds 'x1'.",
        ),
        (
            "u,a,1,1\nu,b,1_000,1\n",
            "column 'loss_cheap' must hold numbers; row 2 (input 'b') holds '1_000'.",
        ),
        (
            "u,a,1,1\nu,b,1,N/A\n",
            "column 'loss_full' must hold numbers; row 2 (input 'b') holds 'N/A'.",
        ),
        (
            'u,a,1,1\nu,b,"1,5",1\n',
            "column 'loss_cheap' must hold numbers; row 2 (input 'b') holds '1,5'. "
            "That is a decimal comma: write 1.5, or give --decimal ,.",
        ),
        (
            "u,a,2024-05-01,1\n",
            "column 'loss_cheap' must hold numbers; found datetime64[D].",
        ),
        (
            "u,a,1,1\nu,b,1,1\nv,a,1,1\n",
            "input ids must differ; 'a' stands in rows 1 and 3.",
        ),
        (
            "u,a,1,1\nu,,1,1\n",
            "column 'input' must hold text or integers; row 2 holds None.",
        ),
        (
            "u,a,1,1\n,b,1,1\n",
            "column 'unit' must hold text or integers; row 2 (input 'b') holds None.",
        ),
        ("", "at least one row is needed; found none."),
    ],
)
def test_cells_of_a_csv_file(tmp_path, rows, sentence):
    path = write(tmp_path, HEADER + rows)
    assert complaint(read_values, path).endswith(sentence)
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
    ("changes", "sentence"),
    [
        (
            {"loss_full": [1.0, 2.0, float("nan")]},
            "column 'loss_full' must be finite; row 3 (input 'c') holds nan.",
        ),
        (
            {"loss_full": [1.0, None, 2.0]},
            "column 'loss_full' must be finite; row 2 (input 'b') holds nan.",
        ),
        (
            {"loss_cheap": [1.0, float("inf"), 2.0]},
            "column 'loss_cheap' must be finite; row 2 (input 'b') holds inf.",
        ),
        (
            {"order": [0.0, 1.0, float("nan")]},
            "column 'order' must be finite; row 3 (input 'c') holds nan.",
        ),
        (
            {"loss_cheap": ["1", "2", "high"]},
            "'loss_cheap' must hold numbers; row 3 (input 'c') holds 'high'.",
        ),
        (
            {"input": ["a", "b", "b"]},
            "input ids must differ; 'b' stands in rows 2 and 3.",
        ),
        (
            {"input": ["a", None, "c"]},
            "column 'input' must hold text or integers; row 2 holds None.",
        ),
        (
            {"unit": ["u", "u", None]},
            "column 'unit' must hold text or integers; row 3 (input 'c') holds None.",
        ),
    ],
)
def test_the_same_words_for_every_form(tmp_path, changes, sentence):
    for form, source in every_form(tmp_path, COLUMNS | changes).items():
        assert complaint(read_values, source).endswith(sentence), form


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"input": [1.0, 2.0, 3.0]},
            "column 'input' must hold text or integers; found float64.",
        ),
        (
            {"input": [True, False, True]},
            "column 'input' must hold text or integers; found bool.",
        ),
        (
            {"unit": [0.5, 0.5, 1.0]},
            "column 'unit' must hold text or integers; found float64.",
        ),
        (
            {"input": ["a", True, "c"]},
            "column 'input' must hold text or integers; row 2 holds True.",
        ),
        (
            {"input": ["a", float("nan"), "c"]},
            "column 'input' must hold text or integers; row 2 holds nan.",
        ),
        (
            {"input": ["a", 2.5, "c"]},
            "column 'input' must hold text or integers; row 2 holds 2.5.",
        ),
        (
            {"input": [b"a", b"b", b"c"]},
            "column 'input' must hold text or integers; found |S1.",
        ),
        (
            {"input": [("a", 1), ("b", 2), ("c", 3)]},
            "column 'input' must have one dimension; found shape (3, 2).",
        ),
        ({"unit": "u"}, "column 'unit' must have one dimension; found shape ()."),
        (
            {"loss_full": np.ones((3, 1))},
            "column 'loss_full' must have one dimension; found shape (3, 1).",
        ),
        (
            {"loss_full": [1.0, 10**400, 1.0]},
            f"row 2 (input 'b') holds 1{'0' * 59}....",
        ),
        (
            {"loss_full": [1.0, "x" * 900, 1.0]},
            f"row 2 (input 'b') holds 'x{'x' * 58}....",
        ),
        (
            {"loss_full": [1.0, [2.0], 1.0]},
            "column 'loss_full' must be an array of one dimension",
        ),
        (
            {"loss_full": [1.0, {}, 1.0]},
            "column 'loss_full' must hold numbers; row 2 (input 'b') holds {}.",
        ),
        (
            {"loss_full": [1.0, 2.0, 3j]},
            "column 'loss_full' must hold numbers; found complex128.",
        ),
        (
            {"loss_full": np.arange(3).astype("datetime64[ns]")},
            "must hold numbers; found datetime64[ns].",
        ),
        (
            {"loss_full": [1.0, 2.0]},
            (
                "equally long; found {'unit': 3, 'input': 3, 'loss_cheap': 3, "
                "'loss_full': 2}."
            ),
        ),
        ({"weather": ["sun"]}, "all columns must be equally long; found "),
    ],
)
def test_columns_of_a_mapping(changes, sentence):
    assert sentence in complaint(read_values, COLUMNS | changes)


def test_columns_given_one_by_one():
    losses = {"cheap": [1.0, 2.0], "full": [1.0, 2.0]}
    assert complaint(
        ValueTable.from_columns, unit=["u", "u"], losses={"cheap": [1.0, 2.0]}
    ) == ("the table: losses of a cheap and a full mode are needed; found 1 mode.")
    assert "equally long" in complaint(
        ValueTable.from_columns, unit=["u"], losses=losses
    )
    assert "equally long" in complaint(
        ValueTable.from_columns, unit=["u", "u"], input=["a"], losses=losses
    )
    assert "at least one row" in complaint(
        ValueTable.from_columns, unit=[], losses={"cheap": [], "full": []}
    )
    text = complaint(
        ValueTable.from_columns, unit=["u", "u"], losses=losses | {"full": [1.0, "x"]}
    )
    assert text == "the table: column 'loss_full' must hold numbers; row 2 holds 'x'."


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
    ("header", "sentence"),
    [
        (
            "unit,loss_cheap,loss_full\nu,1,1\n",
            "column 'input' is needed; found unit, loss_cheap, loss_full.",
        ),
        (
            "input,loss_cheap,loss_full\nu,1,1\n",
            "column 'unit' is needed; found input, loss_cheap, loss_full.",
        ),
        (
            "unit,input\nu,a\n",
            (
                "two or more columns 'loss_<mode>' are needed, "
                "cheap first; found unit, input."
            ),
        ),
        (
            "unit,input,loss_full\nu,a,1\n",
            (
                "columns 'loss_<mode>' are needed, cheap first; "
                "found unit, input, loss_full."
            ),
        ),
        (
            "unit;input;loss_a;loss_b\nu;a;1;2\n",
            "numbers have a point; it has semicolons between cells: 'unit;input;",
        ),
        (
            "unit,input,loss_a,loss_b,loss_a\nu,a,1,2,3\n",
            "names must differ; found unit, input, loss_a, loss_b, loss_a.",
        ),
        (
            "unit,input,loss_a,loss_b\nu,a,1,2\nu,b,1\n",
            "row 2 has 3 cells and the header 4: 'u,b,1'. Check that ",
        ),
        (
            "unit,input,loss_a,loss_b\nu,a,1,2\n\nu,b,1,2,3\n",
            "rows must be equally long; row 2 has 5 cells and the",
        ),
        (
            'unit,input,loss_a,loss_b\n"u,a,1,2\nu,b,1,2\n',
            "rows must be equally long; row 1 has 1 cells",
        ),
        (
            "\n\n",
            "must be a CSV file with a header; it is cut, damaged or of another type",
        ),
        ("", "the file is empty; it must hold a header and at least one row."),
    ],
)
def test_tables_without_what_is_needed(tmp_path, header, sentence):
    path = write(tmp_path, header)
    text = complaint(read_values, path)
    assert text.startswith(f"{path}: ")
    assert sentence in text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("values.json", "the name must end in .csv or .parquet; found '.json'."),
        ("values", "the name must end in .csv or .parquet; found 'no ending'."),
        ("values.xlsx", "the name must end in .csv or .parquet; found '.xlsx'."),
        ("absent.csv", "no such file; check the name and the folder."),
        ("absent.parquet", "no such file; check the name and the folder."),
        ("folder.csv", "must be a file; it is a folder."),
        ("folder.parquet", "must be a file; it is a folder."),
        ("n" * 300 + ".csv", "no such file; check the name and the folder."),
        ("nul\0.csv", "no such file; check the name and the folder."),
    ],
)
def test_files_that_are_not_there(tmp_path, name, sentence):
    for folder in ("folder.csv", "folder.parquet"):
        (tmp_path / folder).mkdir()
    write(tmp_path, "{}", "values.json")
    assert complaint(read_values, tmp_path / name) == one_line(
        f"{tmp_path / name}: {sentence}"
    )
    assert sentence in complaint(judged, {"mine": str(tmp_path / name)})


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    paths = [write(tmp_path, GOOD), write(tmp_path, parquet(COLUMNS), "values.parquet")]
    toml = write(tmp_path, COSTS, "costs.toml")
    monkeypatch.setattr(os, "open", refuse)
    for path in paths:
        assert (
            complaint(read_values, path)
            == f"{path}: must be a file that can be read; Permission denied."
        )
    assert complaint(read_costs, toml) == (
        f"{toml}: must be costs in a .toml file that can be read; Permission denied."
    )


@pytest.mark.parametrize(
    "source", [None, 3, [1, 2], {1, 2}, object(), b"values.csv", pl.LazyFrame(COLUMNS)]
)
def test_things_that_are_no_table(source):
    assert complaint(read_values, source).startswith(
        "A table must be a .csv or .parquet file, an object with "
    )


@pytest.mark.parametrize(
    "source", [pd.Series([1, 2]), pl.Series([1, 2]), pa.chunked_array([[1, 2]])]
)
def test_streams_that_are_no_table(source):
    assert complaint(read_values, source).startswith(
        f"the {type(source).__name__} given must be a table that Arrow "
    )


def test_frames_that_arrow_cannot_hold():
    doubled = pd.concat(
        [pd.DataFrame(COLUMNS), pd.DataFrame(COLUMNS)[["unit"]]], axis=1
    )
    assert "Duplicate column names found" in complaint(read_values, doubled)
    mixed = pd.DataFrame(COLUMNS | {"input": pd.Series(["a", 1, 2.5], dtype=object)})
    assert "the DataFrame given must be a table that Arrow can hold; " in complaint(
        read_values, mixed
    )


def not_utf8() -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"u", b"\xff", b"v"]).buffers()
    )


@pytest.mark.parametrize(
    ("name", "column", "sentence"),
    [
        (
            "loss_full",
            pa.array([[1.0], [2.0], [3.0]]),
            "must hold numbers; row 1 (input 'a') holds array([1.]).",
        ),
        (
            "loss_full",
            pa.array([{"x": 1}] * 3),
            "must hold numbers; row 1 (input 'a') holds {'x': 1}.",
        ),
        (
            "loss_full",
            pa.array([1, 2, 3], pa.timestamp("ns")),
            "must hold numbers; found datetime64[ns].",
        ),
        (
            "loss_full",
            pa.array([1, 2, 3], pa.duration("ms")),
            "must hold numbers; found timedelta64[ms].",
        ),
        (
            "loss_full",
            pa.array([b"1", b"2", b"3"]),
            "must hold numbers; row 1 (input 'a') holds b'1'.",
        ),
        (
            "loss_full",
            pa.nulls(3),
            "must be finite; row 1 (input 'a') holds nan, and 2 more are not.",
        ),
        (
            "input",
            pa.array([{"x": 1}] * 3),
            "must hold text or integers; row 1 holds {'x': 1}.",
        ),
        (
            "input",
            pa.array([1, None, 3]),
            "must hold text or integers; row 2 holds None.",
        ),
        (
            "input",
            pa.array([b"a", b"b", b"c"]),
            "must hold text or integers; row 1 holds b'a'.",
        ),
        ("input", pa.nulls(3), "must hold text or integers; row 1 holds None."),
        (
            "unit",
            not_utf8(),
            "must hold text or numbers; it is string and cannot be read ",
        ),
        (
            "unit",
            pa.array(["u", None, "v"]).dictionary_encode(),
            "integers; row 2 (input 'b') holds None.",
        ),
    ],
    ids=str,
)
def test_columns_of_odd_arrow_types(tmp_path, name, column, sentence):
    columns = COLUMNS | {name: column}
    path = write(tmp_path, parquet(columns), "values.parquet")
    for source, title in ((pa.table(columns), "the Table given"), (path, str(path))):
        text = complaint(read_values, source)
        assert text.startswith(f"{title}: column '{name}' must ")
        assert sentence in text


def test_an_odd_column_beside_the_others_is_named():
    union = pa.UnionArray.from_sparse(
        pa.array([0, 0, 0], pa.int8()), [pa.array([1, 2, 3])]
    )
    text = complaint(read_values, pa.table(COLUMNS | {"extra": union}))
    assert text.startswith(
        "the Table given: column 'extra' must hold text or numbers; it is sparse_union"
    )
    assert text.endswith("Leave it out.")
    lists = read_values(pa.table(COLUMNS | {"boxes": [[1.0], [], [2.0, 3.0]]}))
    assert lists.attributes["boxes"].shape == (3,)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            HEADER + "u,a,1,1\nu,\xe9,1,1\n",
            "text must be UTF-8; line 3 holds the byte 0xe9. Save it as UTF-8.",
        ),
        (
            "weather," + HEADER + "\xe9,u,a,1,1\n",
            "text must be UTF-8; line 2 holds the byte 0xe9. Save it as UTF-8.",
        ),
        (
            "m\xe9t\xe9o," + HEADER + "x,u,a,1,1\n",
            "column names must be UTF-8 text. Save it as UTF-8.",
        ),
    ],
)
def test_text_that_is_not_utf8(tmp_path, content, sentence):
    path = write(tmp_path, content.encode("latin-1"))
    assert complaint(read_values, path) == f"{path}: {sentence}"
    assert read_values(write(tmp_path, content)).losses.shape[1] == 2


def test_text_of_two_bytes_per_sign(tmp_path):
    assert "text must be UTF-8; line 1 holds the byte 0xff" in complaint(
        read_values, write(tmp_path, GOOD.encode("utf-16"))
    )


def test_files_of_another_type_than_their_name(tmp_path):
    as_csv = write(tmp_path, parquet(COLUMNS), "values.csv")
    assert complaint(read_values, as_csv).startswith(f"{as_csv}: ")
    as_parquet = write(tmp_path, GOOD, "values.parquet")
    assert complaint(read_values, as_parquet).startswith(
        f"{as_parquet}: must be a complete Parquet file; it is cut, damaged or of "
        "another type ("
    )


def test_a_csv_file_cut_in_half(tmp_path):
    in_a_row = write(tmp_path, GOOD[: GOOD.index(",3\n")])
    assert complaint(read_values, in_a_row) == (
        f"{in_a_row}: rows must be equally long; row 2 has 3 cells and the header 4: "
        "'u,b,2'. Check that the file is not cut."
    )
    in_a_number = write(tmp_path, HEADER + "u,a,1,0.5\nu,b,2,3.2")
    with pytest.warns(
        InputWarning,
        match=r"values.csv: the last line has no end; check that the file is not cut",
    ):
        assert read_values(in_a_number).losses[1, 1] == 3.2


def test_a_parquet_file_cut_anywhere(tmp_path):
    whole = parquet(COLUMNS)
    for length in range(1, len(whole), 37):
        path = write(tmp_path, whole[:length], "values.parquet")
        assert complaint(read_values, path).startswith(
            f"{path}: must be a complete Parquet file; it is cut, damaged or "
        )


def test_a_unit_per_row(tmp_path):
    path = write(tmp_path, HEADER + "u,a,1,1\nv,b,2,1\n")
    with pytest.warns(
        InputWarning,
        match=(
            r"values.csv: column 'unit' is different in every row; are these frames\?"
        ),
    ):
        read_values(path)


# Scores.


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"score": [1.0, float("nan"), 3.0]},
            "column 'score' must hold numbers; row 2 (input 'b') holds NaN.",
        ),
        (
            {"score": [None, 2.0, None]},
            (
                "column 'score' must hold numbers; row 1 (input "
                "'a') holds NaN, and 1 more."
            ),
        ),
        (
            {"score": ["1", "high", "3"]},
            "column 'score' must hold numbers; row 2 (input 'b') holds 'high'.",
        ),
        (
            {"input": ["a", "b", "a"]},
            "input ids must differ; 'a' stands in rows 1 and 3.",
        ),
        (
            {"input": ["a", "b", "x"]},
            "every scored input must be in the table; row 3 (input 'x') is not.",
        ),
        (
            {"input": ["x", "b", "y"]},
            (
                "every scored input must be in the table; row 1 (input 'x') is not, "
                "nor are 1 more."
            ),
        ),
        (
            {"input": ["a", None, "c"]},
            "column 'input' must hold text or integers; row 2 holds None.",
        ),
    ],
)
def test_columns_of_scores(tmp_path, columns, sentence):
    for form, source in every_form(tmp_path, SCORES | columns).items():
        text = complaint(judged, {"mine": source})
        assert text.startswith("mine: "), form
        assert text.endswith(sentence), form


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (
            {"input": ["a", "b", "c"]},
            (
                "a column 'score' is needed, or all of score_full, "
                "or 'choice'; found input."
            ),
        ),
        ({"score": [1, 2, 3]}, "column 'input' is needed; found score."),
        ({"input": [], "score": []}, "at least one row is needed; found none."),
        (
            {"a": 1.0, "b": 2.0, "c": 3.0},
            "column 'a' must have one dimension; found shape ().",
        ),
        (
            {"input": ["a"], "score_mid": [1.0]},
            (
                "a column 'score' is needed, or all of score_full, or 'choice'; found "
                "input, score_mid."
            ),
        ),
        (
            [1.0, 2.0],
            "an array of scores must have one per input of the table, 3; found 2.",
        ),
        ([], "an array of scores must have one per input of the table, 3; found 0."),
        (
            np.ones(4),
            "an array of scores must have one per input of the table, 3; found 4.",
        ),
        (
            np.ones((3, 1)),
            (
                "the array of scores must have one dimension, or "
                "a column for each of full where "
            ),
        ),
        (np.ones((3, 2)), "cheap and full; found shape (3, 2)."),
        (
            np.ones((3, 1, 1)),
            "the array of scores must have one dimension; found shape (3, 1, 1).",
        ),
        ([1.0, [2.0], 3.0], "the array of scores must be an array of one dimension"),
        (
            np.array([1.0, np.nan, 3.0]),
            "the array of scores must hold numbers; row 2 (input 'b') holds NaN.",
        ),
        (
            [1.0, None, 3.0],
            "the array of scores must hold numbers; row 2 (input 'b') holds NaN.",
        ),
        (
            [1.0, "high", 3.0],
            "the array of scores must hold numbers; row 2 (input 'b') holds 'high'.",
        ),
        (
            pd.Series([1.0, pd.NA, 3.0], dtype="Float64"),
            "must hold numbers; row 2 (input 'b') holds NaN.",
        ),
        (
            pl.Series([1.0, None, 3.0]),
            "must hold numbers; row 2 (input 'b') holds NaN.",
        ),
        (
            np.array([1j, 2, 3]),
            "the array of scores must hold numbers; found complex128.",
        ),
        (
            None,
            (
                "A table must be a .csv or .parquet file, an object with "
                "__arrow_c_stream__, or a mapping of columns"
            ),
        ),
        (
            0.5,
            (
                "A table must be a .csv or .parquet file, an object with "
                "__arrow_c_stream__, or a mapping of columns"
            ),
        ),
    ],
    ids=str,
)
def test_scores_of_another_shape(scores, sentence):
    text = complaint(judged, {"mine": scores})
    assert sentence in text
    assert text.startswith("mine: ")


def test_scores_per_mode_name_the_mode():
    ladder = COLUMNS | {"loss_best": [0.0, 0.0, 0.0]}
    scores = {
        "input": ["a", "b", "c"],
        "score_full": [1.0, 2.0, 3.0],
        "score_best": [1.0, float("nan"), 3.0],
    }
    text = complaint(judged, {"mine": scores}, ladder)
    assert text.endswith(
        "column 'score_best' must hold numbers; row 2 (input 'b') holds NaN."
    )
    text = complaint(
        judged, {"mine": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, np.nan]])}, ladder
    )
    assert text == (
        "mine: the array of scores of mode 'best' must hold numbers; row 3 (input "
        "'c') holds NaN."
    )
    text = complaint(
        judged,
        {"mine": {"input": ["a", "b", "c"], "score_best": [1.0, 2.0, 3.0]}},
        ladder,
    )
    assert (
        "a column 'score' is needed, or all of score_full, score_best, or "
        "'choice'; found input, score_best."
    ) in text


@pytest.mark.filterwarnings("ignore:The last mode")
def test_inputs_without_a_score():
    text = complaint(judged, {"mine": {"input": ["c"], "score": [1.0]}})
    assert text == (
        "mine: every input needs a score; input 'a' has none, nor have 1 more. No "
        "input of 1 of the 2 units has one: judge on --units "
        "v (units that are scored)."
    )
    with pytest.warns(InputWarning, match="mine has no score for"):
        found = judged({"mine": {"input": ["c"], "score": [1.0]}}, missing="worst")
    assert found.row("mine", alpha=0.5).inputs == 3


@pytest.mark.parametrize(
    "name",
    [
        "random",
        "never",
        "all-full",
        "always",
        "oracle",
        "oracle-ladder",
        "random-ladder",
        "",
        "  ",
    ],
)
def test_names_that_an_allocator_cannot_have(name):
    text = complaint(judged, {name: [1.0, 2.0, 3.0]})
    assert text.startswith(
        "An allocator needs a name of its own, not one of ('random', 'never', "
        "'all-full', 'always', 'oracle'"
    )
    assert text.endswith(f"found {name!r}.")


# Budgets and costs.


@pytest.mark.parametrize("kind", [deepval.Selection, deepval.Latency, deepval.Energy])
@pytest.mark.parametrize(
    "alpha",
    [
        0,
        0.0,
        1.5,
        float("nan"),
        float("inf"),
        -0.1,
        True,
        20,
        pytest.param(10**400, id="huge"),
    ],
)
def test_shares_outside_zero_to_one(kind, alpha):
    assert (
        complaint(kind, alpha)
        == f"alpha must be a share in (0, 1]; found {quote(alpha)}. Write 0.2 for 20 %."
    )


def test_a_summary_checks_its_share():
    assert "alpha must be a share in (0, 1]; found 1.5" in complaint(
        read_values(COLUMNS).summary, 1.5
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            COSTS.replace("13.18", "-13.18"),
            "a cost must be finite and not negative; mode 'cheap' has ms = -13.18.",
        ),
        (
            COSTS.replace("0.65", "-1"),
            "a cost must be finite and not negative; allocator 'mine' has ms = -1.0.",
        ),
        (
            COSTS.replace("0.65", "nan"),
            "a cost must be finite and not negative; allocator 'mine' has ms = nan.",
        ),
        (
            COSTS.replace("0.65", "inf"),
            "a cost must be finite and not negative; allocator 'mine' has ms = inf.",
        ),
        (
            COSTS.replace("0.65", "1" + "0" * 400),
            "finite and not negative; allocator 'mine' has ms = inf.",
        ),
        (
            COSTS.replace("0.65", "1e10"),
            "a cost must be at most 1e+09; allocator 'mine' has ms = 10000000000.0.",
        ),
        (
            COSTS.replace("0.65", "'fast'"),
            "allocator 'mine': ms must be a number; found 'fast'.",
        ),
        (
            COSTS.replace("18.47", "8.47"),
            (
                "full mode must cost more than the cheap one, and "
                "the cheap one come first; "
            ),
        ),
        (
            COSTS.replace("18.47", "8.47"),
            "found ms = 8.47 for 'full' and 13.18 for 'cheap'.",
        ),
        ("", "costs of two or more modes are needed; found []."),
        (
            "modes = 3\n",
            "[modes.<name>] tables are needed, such as [modes.cheap] with ms = 13.2.",
        ),
        (
            "[modes.cheap]\nms = \n",
            "must be a TOML file; Invalid value (at line 2, column 6).",
        ),
        (COSTS[:50], "must be a TOML file; "),
        ("a = " + "[" * 5000, "must be a TOML file; "),
        ("a = 1" + "0" * 5000, "must be a TOML file; "),
        (GOOD, "must be a TOML file; "),
    ],
    ids=lambda value: value[:40],
)
def test_costs_of_a_file(tmp_path, content, sentence):
    path = write(tmp_path, content, "costs.toml")
    text = complaint(read_costs, path)
    assert text.startswith(f"{path}: ")
    assert sentence in text
    assert complaint(Latency, 0.2, path) == text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("absent.toml", "No such file or directory."), ("folder.toml", "it is a folder.")],
)
def test_costs_that_are_not_there(tmp_path, name, sentence):
    (tmp_path / "folder.toml").mkdir()
    path = tmp_path / name
    assert (
        complaint(read_costs, path)
        == f"{path}: must be costs in a .toml file that can be read; {sentence}"
    )
    assert "must be costs in a .toml file" in complaint(read_costs, "nul\0.toml")


def test_costs_that_are_not_utf8(tmp_path):
    path = write(tmp_path, (COSTS + "# m\xe9t\xe9o\n").encode("latin-1"), "costs.toml")
    assert (
        complaint(read_costs, path)
        == f"{path}: text must be UTF-8; line 8 holds the byte 0xe9. Save it as UTF-8."
    )


def test_an_allocator_without_a_cost_is_not_free():
    costs = {"modes": {"cheap": {"ms": 1}, "full": {"ms": 2}}}
    text = complaint(judged, {"mine": SCORES}, budget=Latency(0.5, costs))
    assert text.startswith(
        "the costs given: a measured budget needs 'ms' of allocator 'mine'; found "
        "only allocators []"
    )


# What no annotation may catch first: a process without the run-time checks of the
# tests.

WRONG_TYPES = """
import json
import numpy as np
import deepval

table = deepval.read_values({"unit": ["u", "u"], "input": ["a", "b"], "loss_cheap": [1, 2], "loss_full": [1, 1]})
scores = {"mine": [1, 2]}
actions = {
    "text alpha": lambda: deepval.Selection("0.2"),
    "no alpha": lambda: deepval.Selection(None),
    "list alpha": lambda: deepval.Latency([0.2]),
    "accounting": lambda: deepval.Latency(0.2, accounting="both"),
    "convention": lambda: deepval.Energy(0.2, convention="kwh"),
    "missing": lambda: deepval.evaluate(table, scores, missing="best"),
    "array": lambda: deepval.evaluate(table, np.array([1, 2])),
    "name": lambda: deepval.evaluate(table, {3: [1, 2]}),
}
found = {}
for name, action in actions.items():
    try:
        action()
    except deepval.InputError as error:
        found[name] = str(error)
found["numpy"] = [deepval.Selection(np.float32(0.25)).alpha, deepval.Selection(np.int64(1)).alpha]
print(json.dumps(found))
"""  # noqa: E501


def test_wrong_types_are_said_in_our_words():
    done = run_process(WRONG_TYPES, program=PYTHON)
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "text alpha": (
            "alpha must be a share in (0, 1]; found '0.2'. Write 0.2 for 20 %."
        ),
        "no alpha": "alpha must be a share in (0, 1]; found None. Write 0.2 for 20 %.",
        "list alpha": (
            "alpha must be a share in (0, 1]; found [0.2]. Write 0.2 for 20 %."
        ),
        "accounting": "accounting must be 'cascade' or 'skipping'; found 'both'.",
        "convention": (
            "The convention of an energy budget must be one of ('mj', 'mj_gpu', "
            "'mj_all'); found 'kwh'."
        ),
        "missing": "missing must be 'error' or 'worst'; found 'best'.",
        "array": (
            "Scores must be a mapping from allocator names, "
            "{'mine': ...}; found ndarray."
        ),
        "name": (
            "An allocator needs a name of its own, not one of ('random', 'never', "
            "'all-full', 'always', 'oracle', 'oracle-ladder', 'random-ladder'); "
            "found 3."
        ),
        "numpy": [0.25, 1.0],
    }


# Not errors: nulls with a reason, and a warning.


def test_all_decision_values_zero():
    with pytest.warns(
        InputWarning,
        match=(
            r"All decision values are zero: no allocator can gain or lose, and nDG is "
        ),
    ):
        result = judged(
            {"mine": SCORES}, COLUMNS | {"loss_full": COLUMNS["loss_cheap"]}
        )
    assert len(result.warnings) == 1
    for row in result.rows:
        assert row.gain == 0
        assert row.ndg is None
        assert row.ndg_lo is None
        assert row.reason is not None
        assert "no nDG" in row.reason
        assert row.verdict is None
    assert result.setting["harm_rate"] is None
    assert result.setting["harm_ratio"] is None


@pytest.mark.filterwarnings("ignore:The last mode")
@pytest.mark.parametrize("draws", [50, "exact"])
def test_a_single_unit_has_no_interval(draws):
    table = read_values(COLUMNS | {"unit": ["u", "u", "u"]})
    with pytest.warns(
        InputWarning,
        match=(
            r"There is a single unit, 'u': nothing can be resampled, "
            r"so there is no inte"
        ),
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
    assert row.reason == "a single unit: no interval"


@pytest.mark.filterwarnings("ignore:The last mode")
@pytest.mark.parametrize("cheap", [[0.0, 0.0, 0.0], [-1.0, 0.0, 0.5]])
def test_an_all_cheap_loss_that_is_not_positive(cheap):
    total = f"{sum(cheap):g}"
    with pytest.warns(
        InputWarning,
        match=(
            rf"The all-cheap loss is {total}, not positive: shares of it are undefined"
        ),
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
        assert row.reason is not None
        assert "the all-cheap loss is not positive: no share of it" in row.reason
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
