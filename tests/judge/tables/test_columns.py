import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deepval.basics.errors import InputError, InputWarning, quote
from deepval.judge.tables import columns, keys
from deepval.judge.tables.columns import Columns

CASES = 2_000
DATA = {
    "input": ["a", "b", "10", "9"],
    "score": [0.5, -1.0, 2.0, 0.0],
    "weather": ["rain", "fog", "rain", "sun"],
}


def csv_file(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def every_form(folder):
    """The same three columns in every form that is read."""
    table = pa.table(DATA)
    pq.write_table(table, folder / "table.parquet")
    pd.DataFrame(DATA).to_csv(folder / "table.csv", index=False)
    return {
        "mapping": DATA,
        "mapping of arrays": {name: np.array(column) for name, column in DATA.items()},
        "csv": folder / "table.csv",
        "csv by name": str(folder / "table.csv"),
        "parquet": folder / "table.parquet",
        "arrow table": table,
        "arrow batch": table.to_batches()[0],
        "arrow stream": table.to_reader(max_chunksize=3),
        "chunked": pa.concat_tables([table[:1], table[1:]]),
        "pandas": pd.DataFrame(DATA),
        "pandas by input": pd.DataFrame(DATA).set_index("input"),
        "polars": pl.DataFrame(DATA),
    }


def test_every_form_gives_the_same_columns(tmp_path):
    for form, source in every_form(tmp_path).items():
        found = columns.read(source)
        assert set(found.data) == set(DATA), form
        assert len(found) == 4, form
        assert found.ids("input").tolist() == DATA["input"], form
        assert found.numbers("score").tolist() == DATA["score"], form
        assert [str(value) for value in found.data["weather"]] == DATA["weather"], form


def test_columns_keep_their_order(tmp_path):
    path = csv_file(tmp_path, "z,input,a\n1,x,2\n")
    assert list(columns.read(path).data) == ["z", "input", "a"]
    assert list(columns.read({"z": [1], "input": ["x"], "a": [2]}).data) == [
        "z",
        "input",
        "a",
    ]


def test_columns_that_were_read_are_taken_as_they_are():
    found = columns.read(DATA)
    assert columns.read(found) is found


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series(["a", "b", "a"], dtype="string"),
        pd.Series(["a", "b", "a"], dtype=object),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical),
        pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"])),
        pl.Series(["a", "b", "a"], dtype=pl.String),
    ],
    ids=lambda column: f"{type(column).__module__.split('.')[0]}-{column.dtype}",
)
def test_text_of_every_kind_in_frames(column):
    frame = (pd if isinstance(column, pd.Series) else pl).DataFrame({"input": column})
    assert columns.read(frame).ids("input").tolist() == ["a", "b", "a"]
    assert columns.read({"input": column}).ids("input").tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([7, 10, 9], dtype="category"),
        pd.Series([7, 10, 9], dtype="Int64"),
        pd.Series([7, 10, 9], dtype="uint8"),
        pl.Series([7, 10, 9], dtype=pl.Int32),
        pl.Series([7, 10, 9], dtype=pl.UInt64),
    ],
    ids=lambda column: f"{type(column).__module__.split('.')[0]}-{column.dtype}",
)
def test_integer_ids_of_every_kind_in_frames(column):
    frame = (pd if isinstance(column, pd.Series) else pl).DataFrame({"input": column})
    assert keys.as_text(columns.read(frame).ids("input")).tolist() == ["7", "10", "9"]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["u", "u", "v"]).dictionary_encode(),
        pa.array(["u", "u", "v"], pa.large_string()),
        pa.array(["u", "u", "v"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([2, 3], ["u", "v"]),
        pa.chunked_array(
            [
                pa.array(["u"]).dictionary_encode(),
                pa.array(["u", "v"]).dictionary_encode(),
            ]
        ),
    ],
    ids=lambda array: str(array.type),
)
def test_arrow_text_of_every_kind(array):
    assert columns.read(pa.table({"input": array})).ids("input").tolist() == [
        "u",
        "u",
        "v",
    ]


def test_a_null_of_a_dictionary_is_none_and_not_its_last_word():
    table = pa.table({"weather": pa.array(["rain", None, "fog"]).dictionary_encode()})
    assert columns.read(table).data["weather"].tolist() == ["rain", None, "fog"]
    frame = pl.DataFrame(
        {"weather": pl.Series(["rain", None, "fog"], dtype=pl.Categorical)}
    )
    assert columns.read(frame).data["weather"].tolist() == ["rain", None, "fog"]


def test_nulls_are_nan_among_numbers_and_none_among_integers():
    table = pa.table(
        {
            "score": [1.0, None],
            "frame": [1, None],
            "half": pa.array([1, 2], pa.decimal128(5, 2)),
        }
    )
    found = columns.read(table)
    assert np.array_equal(found.numbers("score"), [1.0, np.nan], equal_nan=True)
    assert found.data["frame"].tolist() == [1, None]
    assert np.array_equal(found.numbers("frame"), [1.0, np.nan], equal_nan=True)
    assert found.numbers("half").tolist() == [1.0, 2.0]


def test_times_with_nanoseconds_are_read():
    times = pa.array([1, 10**9 + 1], pa.time64("ns"))
    assert len(columns.read(pa.table({"taken": times})).data["taken"]) == 2


def test_ids_of_a_csv_file_stay_text(tmp_path):
    found = columns.read(
        csv_file(tmp_path, "unit,input,track\n0003,007,007\n0003,1e3,8\n")
    )
    assert found.ids("unit").tolist() == ["0003", "0003"]
    assert found.ids("input").tolist() == ["007", "1e3"]
    assert found.data["track"].tolist() == [7, 8]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_of_other_systems_are_read(tmp_path, ends, mark):
    found = columns.read(
        csv_file(tmp_path, mark + "input,score\nä,1\nb,2.5\n".replace("\n", ends))
    )
    assert found.ids("input").tolist() == ["ä", "b"]
    assert found.numbers("score").tolist() == [1.0, 2.5]


def test_a_late_fraction_or_text_does_not_depend_on_how_a_csv_file_is_read_in_blocks(
    tmp_path,
):
    # more than the 1 MB that Arrow looks at first
    first = "".join(f"{row},0,1\n" for row in range(120_000))
    found = columns.read(
        csv_file(tmp_path, f"input,score,lane\n{first}last,0.5,left\n")
    )
    assert found.numbers("score")[-1] == 0.5
    assert str(found.data["lane"][0]) == "1"
    with pytest.raises(InputError, match="'lane'"):
        found.numbers("lane")


def test_numbers_with_spaces_and_truth_values_are_numbers(tmp_path):
    assert columns.read(csv_file(tmp_path, "a,b\n 1, 2.5\n2 ,x\n")).numbers(
        "a"
    ).tolist() == [1.0, 2.0]
    assert columns.read(csv_file(tmp_path, "a\ntrue\nfalse\n")).numbers(
        "a"
    ).tolist() == [1.0, 0.0]
    mixed = [1, True, "2.5", np.float32(0.5), decimal.Decimal("0.25"), None]
    assert np.array_equal(
        columns.number_array(mixed, "a"), [1, 1, 2.5, 0.5, 0.25, np.nan], equal_nan=True
    )


def test_a_file_without_a_last_line_end_is_read_with_a_warning(tmp_path):
    path = csv_file(tmp_path, "input,score\na,1\nb,0.")
    with pytest.warns(InputWarning, match="the last line"):
        assert columns.read(path).numbers("score").tolist() == [1.0, 0.0]


def test_masked_values_are_missing_and_not_what_lies_under_the_mask():
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    assert np.array_equal(
        columns.number_array(masked, "a"), [1.0, np.nan], equal_nan=True
    )
    with pytest.raises(InputError, match="row 2 holds None"):
        columns.id_array(np.ma.masked_array([1, 2], mask=[False, True]), "a")


def test_integers_beyond_64_bits_keep_their_spelling():
    big = [2**63 + 5, 10**30]
    assert columns.id_array(np.array(big[:1], dtype=np.uint64), "a").tolist() == [
        "9223372036854775813"
    ]
    assert columns.id_array(big, "a").tolist() == [str(value) for value in big]
    assert columns.id_array(np.array([1, 2], dtype=np.uint64), "a").dtype == np.int64


def test_inputs_are_not_modified():
    ids, numbers = np.array([3, 1, 2]), np.array([0.5, 0.25, 0.0])
    for array in (ids, numbers):
        array.flags.writeable = False
    found = columns.read({"input": ids, "score": numbers})
    assert found.ids("input").tolist() == [3, 1, 2]
    assert found.numbers("score").tolist() == [0.5, 0.25, 0.0]


def test_columns_of_different_length_are_refused():
    with pytest.raises(InputError, match=r"equally long; found \{'a': 2, 'b': 1\}"):
        Columns.of("x", {"a": [1, 2], "b": [1]})
    assert len(Columns.of("x", {})) == 0


def test_places_count_data_rows_from_one():
    assert columns.row_name(0) == "row 1"
    assert columns.row_name(2, np.array([5, 6, 17])) == "row 3 (input '17')"
    assert columns.row_name(2, ["a"]) == "row 3"


def test_quotes_are_short_and_plain():
    assert quote(np.str_("x")) == "'x'"
    assert quote(np.float64(0.5)) == "0.5"
    assert quote("y" * 1000) == "'" + "y" * 59 + "..."


def test_repeated_ids_are_found_wherever_they_stand():
    rng = np.random.default_rng(1)
    for case in range(CASES):
        ids = rng.integers(0, 12, rng.integers(0, 9))
        ids = ids if case % 2 else ids.astype(str)
        seen, expected = {}, None
        for row, value in enumerate(ids.tolist()):
            if value in seen and expected is None:
                expected = f"'{value}' stands in rows {seen[value] + 1} and {row + 1}."
            seen[value] = row
        if expected is None:
            columns.refuse_repeated(ids, "x")
        else:
            with pytest.raises(InputError) as caught:
                columns.refuse_repeated(ids, "x")
            assert str(caught.value) == f"x: input ids must differ; {expected}"


def test_positions_match_a_dictionary():
    rng = np.random.default_rng(2)
    for case in range(CASES):
        ids = rng.permutation(20)[: rng.integers(0, 12)]
        wanted = (
            rng.permutation(ids)
            if case % 3 == 0
            else rng.integers(0, 20, rng.integers(0, 12))
        )
        rows = {str(value): row for row, value in enumerate(ids)}
        expected = [rows.get(str(value), -1) for value in wanted]
        as_text = (wanted.astype(str), ids.astype(str))
        pairs = ((wanted, ids), as_text, (wanted, as_text[1]), (as_text[0], ids))
        assert keys.positions(*pairs[case % 4]).tolist() == expected
