import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from deepval import InputError, ValueTable
from deepval.basics.errors import InputWarning
from deepval.judge.tables import scores

CASES = 2_000
IDS = ["10", "9", "a", "b", "c", "d"]
SCORE = [0.5, -1.0, 2.0, 0.0, 2.0, 1.0]
SHUFFLED = [3, 5, 0, 2, 4, 1]
FRAME = {
    "input": [IDS[row] for row in SHUFFLED],
    "score": [SCORE[row] for row in SHUFFLED],
}


def table(modes=("cheap", "full"), ids=IDS) -> ValueTable:
    """Six inputs in two units; each mode lowers the loss of input i by i times its
    place.
    """
    losses = {
        mode: [10.0 - place * row for row in range(6)]
        for place, mode in enumerate(modes)
    }
    return ValueTable.from_columns(
        unit=["u", "u", "u", "v", "v", "v"], input=ids, losses=losses
    )


def aligned(source, of=None) -> scores.Scores:
    return scores.align(table() if of is None else of, "mine", source)


@pytest.mark.parametrize(
    "source",
    [
        SCORE,
        tuple(SCORE),
        np.array(SCORE),
        np.array(SCORE, dtype=np.float32),
        np.array(SCORE, dtype=object),
        pd.Series(SCORE),
        pd.Series(SCORE, dtype="Float64"),
        pd.Series(SCORE, index=[3, 5, 8, 13, 21, 34]),
        pl.Series(SCORE),
        pa.array(SCORE),
        pa.chunked_array([SCORE[:2], SCORE[2:]]),
    ],
    ids=lambda source: (
        f"{type(source).__module__.split('.')[0]}.{type(source).__name__}"
    ),
)
def test_arrays_are_in_the_order_of_the_table(source):
    found = aligned(source)
    assert found.values.tolist() == SCORE
    assert found.covered.all()
    assert found.modes == ()
    assert found.name == "mine"


def test_integers_and_truth_values_are_scores():
    assert aligned([3, 1, 2, 0, 5, 4]).values.tolist() == [3, 1, 2, 0, 5, 4]
    assert aligned(np.array([True, False] * 3)).values.tolist() == [1, 0] * 3


def every_form(folder) -> dict:
    pd.DataFrame(FRAME).to_csv(folder / "scores.csv", index=False)
    pq.write_table(pa.table(FRAME), folder / "scores.parquet")
    return {
        "mapping": FRAME,
        "mapping of arrays": {name: np.array(column) for name, column in FRAME.items()},
        "pandas": pd.DataFrame(FRAME),
        "pandas by input": pd.DataFrame(FRAME).set_index("input"),
        "pandas Series by input": pd.DataFrame(FRAME).set_index("input")["score"],
        "pandas, categories": pd.DataFrame(FRAME).astype({"input": "category"}),
        "polars": pl.DataFrame(FRAME),
        "arrow": pa.table(FRAME),
        "csv": folder / "scores.csv",
        "csv by name": str(folder / "scores.csv"),
        "parquet": folder / "scores.parquet",
    }


def test_columns_are_aligned_by_id_and_never_by_row(tmp_path):
    for form, source in every_form(tmp_path).items():
        found = aligned(source)
        assert found.values.tolist() == SCORE, form
        assert found.covered.all(), form
        assert found.digest == aligned(SCORE).digest, form


def test_a_shuffled_file_gives_the_same_result(tmp_path):
    budgets = [deepval.Selection(0.3)]
    expected = deepval.evaluate(table(), {"mine": SCORE}, budgets, draws=20)
    for form, source in every_form(tmp_path).items():
        result = deepval.evaluate(table(), {"mine": source}, budgets, draws=20)
        assert result.to_json() == expected.to_json(), form


def test_alignment_matches_a_dictionary():
    rng = np.random.default_rng(1)
    known = ValueTable.from_columns(
        unit=["u"] * 12,
        input=np.arange(12) * 3,
        losses={"a": [1.0] * 12, "b": [0.0] * 12},
    )
    for case in range(CASES):
        rows = rng.permutation(12)[: rng.integers(1, 13)]
        given = rng.normal(size=len(rows))
        ids = known.input[rows]
        found = scores.align(
            known, "m", {"input": ids.astype(str) if case % 2 else ids, "score": given}
        )
        expected = dict(zip(rows.tolist(), given.tolist(), strict=True))
        assert found.covered.tolist() == [row in expected for row in range(12)]
        assert found.values[found.covered].tolist() == [
            expected[row] for row in sorted(expected)
        ]
        assert np.isnan(found.values[~found.covered]).all()


@pytest.mark.parametrize(
    "ids", [[7, 11, 9, 10, 100, 1], ["7", "11", "9", "10", "100", "1"]]
)
@pytest.mark.parametrize("kind", [int, str])
def test_integers_and_text_of_the_same_spelling_are_the_same_id(tmp_path, ids, kind):
    of = table(ids=ids)
    frame = pd.DataFrame(
        {"input": [kind(ids[row]) for row in SHUFFLED], "score": FRAME["score"]}
    )
    frame.to_csv(tmp_path / "scores.csv", index=False)
    for source in (
        frame,
        pl.from_pandas(frame) if kind is int else pl.DataFrame(frame.to_dict("list")),
    ):
        assert aligned(source, of).values.tolist() == SCORE
    assert aligned(tmp_path / "scores.csv", of).values.tolist() == SCORE


def test_infinite_scores_mean_always_and_never(tmp_path):
    (tmp_path / "scores.csv").write_text(
        "input,score\n10,-inf\n9,inf\na,1\nb,1e400\nc,-Infinity\nd,0\n"
    )
    found = aligned(tmp_path / "scores.csv")
    assert found.values.tolist() == [-np.inf, np.inf, 1, np.inf, -np.inf, 0]
    result = deepval.evaluate(
        table(), {"mine": found.values}, [deepval.Selection(0.5)], draws=0
    )
    # The two +inf and the 1 are escalated: values 1, 3 and 2.
    assert result.row("mine", alpha=0.5).gain == 1 + 3 + 2


def test_inputs_without_a_score_rank_last_where_asked_for():
    part = {"input": ["d", "10"], "score": [-5.0, -7.0]}
    found = aligned(part)
    assert found.covered.tolist() == [True, False, False, False, False, True]
    worst = scores.fill_missing(found, table(), "worst")
    assert worst.values.tolist() == [-7, -np.inf, -np.inf, -np.inf, -np.inf, -5]
    assert worst.covered.tolist() == found.covered.tolist()
    assert np.isnan(found.values[1])
    with pytest.warns(InputWarning, match="mine has no"):
        result = deepval.evaluate(
            table(), {"mine": part}, [deepval.Selection(0.5)], draws=10, missing="worst"
        )
    twin = deepval.evaluate(
        table(), {"mine": worst.values}, [deepval.Selection(0.5)], draws=10
    )
    assert result.rows == twin.rows
    assert result.provenance["scores"]["mine"]["coverage"] == 2 / 6
    assert twin.provenance["scores"]["mine"]["coverage"] == 1


def test_scores_may_be_missing_outside_the_units_that_are_judged():
    part = {"input": IDS[3:], "score": SCORE[3:]}
    with pytest.warns(deepval.InputWarning, match="a single unit"):
        result = deepval.evaluate(
            table(), {"mine": part}, [deepval.Selection(0.5)], draws=0, units=["v"]
        )
    assert result.row("mine", alpha=0.5).inputs == 3
    told = (
        r"mine: every input needs a score; input '10' has none, nor have 2 more\. No "
        r"input of 1 of the 2 units has one"
    )
    with pytest.raises(
        InputError, match=told + r": use units=\['v'\], those that are scored\.$"
    ):
        deepval.evaluate(table(), {"mine": part}, [deepval.Selection(0.5)], draws=0)


def test_ranking_last_is_advised_only_for_odd_inputs():
    three = ValueTable.from_columns(
        unit=list("uuvvww"),
        input=IDS,
        losses={"c": SCORE, "f": [0.0] * 6},
        order=np.arange(6),
    )

    def message(ids, **options):
        part = {"input": ids, "score": np.arange(len(ids), dtype=float)}
        with pytest.raises(InputError) as caught:
            deepval.evaluate(
                three, {"mine": part}, [deepval.Selection(0.5)], draws=0, **options
            )
        return str(caught.value)

    last = "missing='worst' to rank them last"
    assert message(IDS[1:]).endswith(f" has none. Use {last}.")
    assert message(IDS[2:]).endswith("use units=['v', 'w'], those that are scored.")
    assert message(IDS[3:]).endswith(
        f"use units=['v', 'w'], those that are scored, with {last}: 1 there lack one."
    )
    assert message(IDS[2:], units=["u"]).endswith(
        "has a score: name the units that are scored."
    )
    assert "use calibration=['v']" in message(
        IDS[:4], units=["u"], calibration=["v", "w"]
    )


LADDER = ("cheap", "mid", "full")
PER_MODE = {
    "score_mid": [6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
    "score_full": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}


@pytest.mark.parametrize(
    "names", [("score_mid", "score_full"), ("score_full", "score_mid")]
)
def test_scores_per_mode_follow_the_modes_of_the_table(names):
    found = aligned(
        {"input": IDS} | {name: PER_MODE[name] for name in names}, table(LADDER)
    )
    assert found.modes == ("mid", "full")
    assert found.values[:, 0].tolist() == PER_MODE["score_mid"]
    assert found.values[:, 1].tolist() == PER_MODE["score_full"]
    kept = found.keep(np.array([True] + [False] * 5))
    assert kept.values.tolist() == [[6, 1]]
    assert kept.modes == found.modes


@pytest.mark.parametrize(
    "form",
    [list, tuple, np.array, np.float32, lambda rows: np.array(rows, dtype=object)],
)
def test_an_array_of_two_dimensions_holds_scores_per_mode(form):
    rows = [list(row) for row in zip(*PER_MODE.values(), strict=True)]
    found = aligned(form(rows), table(LADDER))
    assert found.modes == ("mid", "full")
    assert found.values.tolist() == rows


def test_missing_scores_per_mode_are_worst_in_every_mode():
    found = aligned(
        {"input": IDS[1:]} | {name: column[1:] for name, column in PER_MODE.items()},
        table(LADDER),
    )
    assert scores.fill_missing(found, table(LADDER), "worst").values[0].tolist() == [
        -np.inf,
        -np.inf,
    ]


def test_a_plain_score_wins_over_scores_per_mode():
    found = aligned({"input": IDS, "score": SCORE} | PER_MODE, table(LADDER))
    assert found.modes == ()
    assert found.values.tolist() == SCORE


@pytest.mark.parametrize("index", [[5, 4, 3, 2, 1, 0], IDS, [0, 1, 2, 0, 1, 2]])
def test_a_labelled_series_is_not_taken_for_the_order_of_the_table(index):
    with pytest.raises(InputError, match="the array of"):
        aligned(pd.Series(SCORE, index=index))


def test_scores_of_several_allocators_keep_their_order():
    found = scores.align_all(table(), {"z": SCORE, "a": FRAME})
    assert [item.name for item in found] == ["z", "a"]
    assert scores.align(table(), "y", found[0]).values is found[0].values
    assert scores.align(table(), "y", found[0]).name == "y"


def test_inputs_are_not_modified():
    array = np.array(SCORE)
    array.flags.writeable = False
    assert (
        scores.fill_missing(aligned(array), table(), "worst").values.tolist() == SCORE
    )
    found = aligned({"input": np.array(IDS[1:]), "score": array[1:]})
    assert scores.fill_missing(found, table(), "worst").values.tolist() == [
        -np.inf,
        *SCORE[1:],
    ]
    assert np.isnan(found.values[0])
    assert array.tolist() == SCORE
