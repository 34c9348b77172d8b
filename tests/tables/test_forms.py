"""Files as they come: other names of columns, other separators, decimal commas, a
column per model.
"""

import numpy as np
import pandas as pd
import pytest

import deepval
from commands import call, refusal, run
from deepval.errors import InputWarning
from deepval.tables.scores import align

OURS = pd.DataFrame(
    {
        "unit": ["a", "a", "b", "b"],
        "input": ["1", "2", "3", "4"],
        "loss_small": [1.5, 0.25, 2.0, 1.0],
        "loss_large": [0.5, 0.75, 1.0, 1.0],
    }
)
THEIRS = {
    "unit": "drive",
    "input": "frame",
    "loss_small": "err_s",
    "loss_large": "err_l",
}
WORDS = [word for name, own in THEIRS.items() for word in ("--column", f"{name}={own}")]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theirs = OURS.rename(columns=THEIRS)
    OURS.to_csv("ours.csv", index=False)
    theirs.to_csv("theirs.csv", index=False)
    theirs.to_csv("semicolons.csv", index=False, sep=";", decimal=",")
    theirs.to_csv("tabs.csv", index=False, sep="\t")
    theirs.to_parquet("theirs.parquet")
    scores = pd.DataFrame({"frame": OURS["input"], "conf": [0.4, 0.3, 0.2, 0.1]})
    scores.to_csv("scores.csv", index=False, sep=";", decimal=",")
    scores.set_axis(["input", "score"], axis=1).to_csv("own.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "form"),
    [
        ("theirs.csv", {}),
        ("theirs.parquet", {}),
        ("semicolons.csv", {"sep": ";", "decimal": ","}),
        ("tabs.csv", {"sep": "\t"}),
        # no semicolon in its header: commas and points
        ("theirs.csv", {"sep": ";", "decimal": ","}),
    ],
)
def test_every_form_is_the_same_table(file, form):
    expected = deepval.read_values("ours.csv")
    table = deepval.read_values(file, columns=THEIRS, **form)
    assert table.modes == ("small", "large")
    assert table.digest == expected.digest


def test_frames_are_renamed_too():
    table = deepval.read_values(OURS.rename(columns=THEIRS), columns=THEIRS)
    assert table.digest == deepval.read_values(OURS).digest


@pytest.mark.parametrize("command", ["evaluate", "threshold"])
def test_commands_read_values_and_scores_of_another_form(command):
    words = (
        *WORDS,
        "--column",
        "score=conf",
        "--sep",
        ";",
        "--decimal",
        ",",
        "--draws",
        "0",
        "--json",
    )
    plain = (command, "ours.csv", "-s", "mine=own.csv", "--draws", "0", "--json")
    done = run(command, "semicolons.csv", "-s", "mine=scores.csv", *words, notes=True)
    assert done == run(*plain, notes=True)
    assert (done.code, '"mine"' in done.out) == (0, True)


def test_compare_reads_two_forms_of_scores_at_once():
    words = (*WORDS, "--sep", ";", "--decimal", ",", "--draws", "0", "--alpha", "0.5")
    assert "own against" in call(
        "compare", "semicolons.csv", "own.csv", "other=own.csv", *words
    )


def test_a_column_per_model_needs_neither_units_nor_ids(tmp_path):
    pd.DataFrame(
        {"small": [1, 0, 0, 1], "large": [1, 1, 0, 0], "doubt": [1, 4, 3, 2]}
    ).to_csv("wide.csv", index=False)
    with pytest.warns(InputWarning, match="'unit'"):
        table = deepval.read_values("wide.csv", rewards=["small", "large"])
    assert table.losses.tolist() == [[-1, -1], [0, -1], [0, 0], [-1, 0]]
    assert (len(table.unit_ids), table.input.tolist()) == (4, [0, 1, 2, 3])
    form = deepval.tables.columns.Form({"score": "doubt"}, rewards=("small", "large"))
    assert align(table, "doubt", "wide.csv", form).values.tolist() == [1, 4, 3, 2]
    done = run(
        "evaluate",
        "wide.csv",
        "--rewards",
        "small,large",
        "-s",
        "wide.csv",
        "--column",
        "score=doubt",
        "--alpha",
        "0.25",
        "--draws",
        "0",
        "--format",
        "csv",
        notes=True,
    )
    assert (done.code, "every row is its own unit" in done.err, "wide" in done.out) == (
        0,
        True,
        True,
    )
    swapped = deepval.read_values(
        OURS, columns={"unit": "unit"}, losses=["loss_large", "loss_small"]
    )
    assert np.array_equal(
        swapped.decision_values, OURS["loss_large"] - OURS["loss_small"]
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("semicolons.csv",), "--sep"),
        (("tabs.csv",), "--sep tab reads it."),
        (("theirs.csv",), "--losses"),
        (("theirs.csv", "--losses", "err_s,err_x"), "'err_x'"),
        (("theirs.csv", *WORDS[2:]), "--column"),
        (("ours.csv", "--column", "unit=drivee"), "'drivee'"),
        (("ours.csv", "--column", "order=loss_small", "--column", "unit"), "--column"),
        (("ours.csv", "--column", "unit=input", "--losses", "loss_small"), "'input'"),
        (("ours.csv", "--losses", "loss_small"), "losses of a"),
        (("ours.csv", "--losses", "a,b", "--rewards", "a,b"), "--losses"),
        (("ours.csv", "--sep", ";;"), "--sep"),
        (("ours.csv", "--decimal", ";"), "--decimal"),
        (("ours.csv", "--column", "score=conf"), "'conf'"),
    ],
)
def test_errors_name_the_option(words, sentence):
    assert sentence in refusal("evaluate", words[0], "-s", "own.csv", *words[1:])


def test_tables_in_pieces_have_our_columns():
    assert "must have our columns" in refusal(
        "evaluate", "theirs.parquet", "-s", "own.csv", *WORDS, "--memory", "0"
    )
