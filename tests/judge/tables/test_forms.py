"""Files as they come: other names of columns, other separators, decimal commas, a
column per model; `import` writes ours of them, and the others say so.
"""

import pandas as pd
import pytest

import deepval
from commands import call, refusal, run
from deepval.basics.errors import InputError

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


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theirs = OURS.rename(columns=THEIRS)
    OURS.to_csv("ours.csv", index=False)
    theirs.to_csv("theirs.csv", index=False)
    theirs.to_csv("semicolons.csv", index=False, sep=";", decimal=",")
    theirs.to_csv("tabs.csv", index=False, sep="\t")
    theirs.to_parquet("theirs.parquet")
    theirs.to_json("theirs.jsonl", orient="records", lines=True)
    scores = pd.DataFrame({"frame": OURS["input"], "conf": [0.4, 0.3, 0.2, 0.1]})
    scores.to_csv("scores.csv", index=False, sep=";", decimal=",")
    return tmp_path


@pytest.mark.parametrize(
    "file",
    ["theirs.csv", "theirs.parquet", "theirs.jsonl", "semicolons.csv", "tabs.csv"],
)
def test_every_form_is_imported_as_the_same_table(file):
    words = ("--id", "frame", "--unit", "drive", "--loss", "err_l,err_s")
    call("import", file, *words, "--modes", "err_s,err_l", "-o", "values.csv")
    table = deepval.read_values("values.csv")
    ours = deepval.read_values("ours.csv")
    assert table.modes == ("err_s", "err_l")
    assert table.losses.tolist() == ours.losses.tolist()
    assert list(table.unit_ids[table.unit]) == OURS["unit"].tolist()
    assert table.input.tolist() == ours.input.tolist()


def test_our_own_columns_are_imported_as_they_are():
    call("import", "ours.csv", "--modes", "small,large", "-o", "again.csv")
    ours, again = deepval.read_values("ours.csv"), deepval.read_values("again.csv")
    assert ours.digest == again.digest


@pytest.mark.filterwarnings("ignore::deepval.InputWarning")
def test_scores_of_other_names_come_along(folder):
    words = ("--id", "frame", "--unit", "drive", "--loss", "err_s,err_l")
    words += ("--score", "scores.csv", "--scores-out", "out")
    call("import", "semicolons.csv", *words, "-o", "values.csv")
    written = pd.read_parquet(folder / "out" / "scores.parquet")
    assert written.to_dict("list") == {
        "input": ["1", "2", "3", "4"],
        "score": [0.4, 0.3, 0.2, 0.1],
    }
    assert run("evaluate", "values.csv", "-s", "out/scores.parquet").code == 0


@pytest.mark.parametrize("command", ["evaluate", "threshold", "report"])
@pytest.mark.parametrize("file", ["theirs.csv", "semicolons.csv", "tabs.csv"])
def test_files_of_another_form_are_not_judged(command, file):
    assert "deepval import" in refusal(command, file)


def test_files_of_another_form_are_not_read_by_python_either():
    with pytest.raises(InputError, match="`deepval import` reads other names"):
        deepval.read_values("theirs.csv")


def test_options_that_left_are_unknown():
    for option in ("--column", "--losses", "--rewards", "--sep", "--decimal"):
        assert f"Unknown option: {option}." in refusal(
            "evaluate", "ours.csv", option, "x"
        )
