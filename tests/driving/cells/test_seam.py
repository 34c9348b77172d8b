"""From a cell to a verdict and a page: fit, score, evaluate, compare and report take
its folder and nothing else.
"""

import json
import shutil
from pathlib import Path

import pytest

import commands
import deepval
from commands import Done
from deepval.deploy.fitting import score_on
from deepval.driving.cells.folder import read_cell
from deepval.judge.cases import judge

NAME = "braking-monocular"
UNITS = ",".join(f"scene-{i:02d}" for i in range(10))
DRAWS = ("--draws", "40")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A cell with the board's costs, which charge ego-speed and gate-ridge and not
    lost.
    """
    out = tmp_path_factory.mktemp("seam")
    words = (
        "--units",
        UNITS,
        "--system",
        "braking",
        "--costs",
        "jetson-agx-xavier",
        "--out",
        out,
    )
    assert run("build", *words).code == 0
    for allocator in ("ego-speed", "lost"):
        assert (
            run("score", out / NAME, allocator, "--units", "validation,test").code == 0
        )
    return out / NAME


@pytest.fixture
def cell(built, tmp_path, monkeypatch) -> Path:
    """A copy of it under the current folder, with two files of scores."""
    shutil.copytree(built, tmp_path / "cells" / NAME)
    monkeypatch.chdir(tmp_path)
    return Path("cells", NAME)


def run(*words: object) -> Done:
    """The command in this process, notes printed as it prints them."""
    return commands.run(*words, notes=True)


def told(done: Done) -> str:
    """The one sentence of a refusal."""
    assert (done.code, done.out) == (2, ""), done
    return done.err.removeprefix("deepval: ").removesuffix("\n")


def content(*words: object) -> dict:
    done = run(*words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def frames_shown(page: str, cell: Path) -> bool:
    return all(
        frame["input"] in page
        for frame in json.loads((cell / "frames.json").read_text())["frames"]
    )


def test_the_numbers_are_those_of_the_study(cell):
    read = read_cell(cell)
    scored = {name: score_on(read, name, units="all") for name in ("ego-speed", "lost")}
    budgets = [deepval.Selection(a) for a in (0.1, 0.2, 0.3, 0.5)]
    same = judge(
        read,
        scored,
        budgets,
        command=None,
        draws=40,
        terms=read.terms,
    ).to_dict()
    assert content("evaluate", cell, "--budget", "selection", *DRAWS) == same
    causal = judge(
        read,
        scored,
        budgets,
        command=None,
        draws=40,
        terms=read.terms,
        calibration=list(read.split.validation),
    )
    words = ("--budget", "selection", "--calibrate", "validation")
    assert content("evaluate", cell, *words, *DRAWS) == causal.to_dict()


def test_results_state_id_and_split_of_the_cell(cell):
    read = read_cell(cell)
    source = {"cell": read.id, "split": read.split.digest}
    for name in ("ego-speed", "criticality"):
        run("score", cell, name, "--units", "validation,test")
    selection = ("--budget", "selection", "--alpha", "0.2", *DRAWS)
    (row,) = content("compare", cell, "ego-speed", "criticality", *selection)
    assert row["provenance"] == {str(cell): source}
    area = content("compare", cell, "ego-speed", "criticality", "--of", "area", *DRAWS)
    assert area["provenance"] == {str(cell): source}
    told = [
        content("threshold", cell, "-s", "ego-speed", "--out", "router.json", *DRAWS)
    ]
    told += [
        json.loads(Path("router.json").read_text())["about"],
    ]
    assert [{name: item[name] for name in source} for item in told] == [source] * 2
    deepval.Router.load("router.json")
    files = [
        cell / "values.parquet",
        *(cell / "scores" / f"{name}.csv" for name in ("ego-speed", "criticality")),
    ]
    (row,) = content(
        "compare", *files, "--units", ",".join(read.split.test), *selection
    )
    assert row["provenance"] == {str(files[0]): {"cell": None, "split": None}}


def test_units_by_name_and_from_a_file(cell):
    units = list(read_cell(cell).split.test[:2])
    Path("units.txt").write_text("\n".join(units))
    for text in (",".join(units), "units.txt"):
        assert (
            content("evaluate", cell, "--units", text, *DRAWS)["provenance"]["units"]
            == units
        )
    done = run("score", cell, "ego-speed", "--units", "units.txt", "--out", "two.csv")
    assert done.out.startswith("two.csv: 80 of 80 inputs")


def test_costs_of_the_cell_charge_what_they_know(cell):
    kinds = {"selection", "latency", "energy"}
    assert {
        row["kind"]
        for row in content("evaluate", cell, "-s", "ego-speed", *DRAWS)["rows"]
    } == kinds
    done = run("evaluate", cell, *DRAWS, "--json")
    assert done.err == (
        "deepval: note: No cost known (ms, mj) of lost: listed without a verdict "
        "under latency and energy budgets. `deepval profile` measures what an "
        "allocator costs; add it under [allocators.NAME] of a costs file and pass "
        "that (--costs).\n"
    )
    judged = json.loads(done.out)
    rows = {(row["allocator"], row["kind"]): row for row in judged["rows"]}
    alone = content("evaluate", cell, "-s", "ego-speed", *DRAWS)["rows"]
    assert [row for row in judged["rows"] if row["allocator"] != "lost"] == alone
    for kind in ("latency", "energy"):
        row = rows["lost", kind]
        assert (row["verdict"], row["gain"], row["cost"], row["reason"]) == (
            None,
            None,
            None,
            "no cost known",
        )
    assert rows["lost", "selection"]["verdict"]
    assert judged["warnings"][0].startswith("No cost known (ms, mj) of lost")
    assert (
        "No cost known (ms) of lost"
        in run("evaluate", cell, "--budget", "latency", *DRAWS).err
    )
    listed = run("evaluate", cell, "--budget", "latency", "--all", *DRAWS)
    assert "lost: no cost known." in listed.out
    only = told(run("evaluate", cell, "-s", "lost", "--budget", "latency"))
    assert "a measured budget needs 'ms' of allocator 'lost'" in only
    modes = "\n".join(
        f"[modes.{mode}]\nms = {ms}"
        for mode, ms in (("yolov8s-320", 5), ("yolov8s-640", 9))
    )
    Path("mine.toml").write_text(
        f"{modes}\n[allocators.lost]\nms = 0.1\n[allocators.ego-speed]\nms = 0\n"
    )
    charged = content("evaluate", cell, "--costs", "mine.toml", *DRAWS)
    assert {row["kind"] for row in charged["rows"]} == {"selection", "latency"}


def test_all_units_are_judged_where_no_scores_were_fitted(cell):
    every, test = list(read_cell(cell).split.units), list(read_cell(cell).split.test)
    words = ("--budget", "selection", *DRAWS)
    # two files cover validation and test only
    assert content("evaluate", cell, *words)["provenance"]["units"] == test
    for signal in ("ego-speed", "lost"):
        assert run("score", cell, signal, "--units", "all").code == 0
    done = run("evaluate", cell, *words, "--json")
    note = (
        "braking-monocular: ego-speed, lost were not fitted, so no units are held "
        "out: all 10 units are judged. --units test judges the test units alone."
    )
    assert done.err == f"deepval: note: {note}\n"
    judged = json.loads(done.out)
    assert (judged["provenance"]["units"], judged["warnings"]) == (every, [note])
    assert (
        content("evaluate", cell, "-s", cell / "scores" / "lost.csv", *words)[
            "provenance"
        ]["units"]
        == every
    )
    assert (
        content("evaluate", cell, *words, "--units", "test")["provenance"]["units"]
        == test
    )
    others = content("evaluate", cell, *words, "--calibrate", "validation")[
        "provenance"
    ]["units"]
    assert others == [
        unit for unit in every if unit not in read_cell(cell).split.validation
    ]
    assert (
        "all 10 units are judged"
        in run("compare", cell, "ego-speed", "lost", *words).err
    )
    diagnosed = run("evaluate", cell, "--diagnose", *words)
    assert "all 10 units are judged" in diagnosed.err
    page = Path("page.html")
    assert "all 10 units are judged" in run("report", cell, "--out", page).err
    assert "no units are held out: all 10 units are judged" in page.read_text(
        encoding="utf-8"
    )


def test_a_cell_without_scores_is_diagnosed_on_all_of_its_units(cell):
    shutil.rmtree(cell / "scores")
    diagnosis = content("evaluate", cell, "--diagnose", *DRAWS)["diagnosis"]
    assert diagnosis["units"] == len(read_cell(cell).split.units)


def test_a_result_has_the_terms_of_the_cell(cell):
    words = ("-s", "lost", "--budget", "selection", *DRAWS)
    assert "excess" in content("evaluate", cell, *words)["inputs"]["weights"]


def test_report_takes_the_results_beside_a_cell(cell):
    for name in ("result", "result-board"):
        assert (
            run(
                "evaluate",
                cell,
                "-s",
                "ego-speed",
                *DRAWS,
                "--out",
                cell / f"{name}.json",
            ).code
            == 0
        )
    assert run("report", cell, "--out", "page.html").out.startswith(
        "page.html: 2 cells, "
    )
    page = Path("page.html").read_text()
    assert f"{NAME}, board" in page
    assert frames_shown(page, cell)
    (cell / "result-board.json").unlink()
    assert run("report", f"mine={cell}", "--out", "one.html").code == 0
    assert run("report", f"mine={cell / 'result.json'}", "--out", "same.html").code == 0
    assert Path("one.html").read_bytes() == Path("same.html").read_bytes()


REFUSED = [
    (
        ("evaluate", "nowhere"),
        (
            "nowhere: must be a values file (.csv, .parquet) or a "
            "cell's folder; there is neither."
        ),
    ),
    (
        ("compare", "nowhere", "a", "b"),
        "nowhere: must be a values file (.csv, .parquet) or a cell's folder",
    ),
    (
        ("evaluate", "cells"),
        (
            "cells: must be a cell's folder as `deepval build` "
            "writes it; it has no manifest.json"
        ),
    ),
    (
        ("report", "cells"),
        (
            "cells: must be a cell's folder as `deepval build` "
            "writes it; it has no manifest.json"
        ),
    ),
    (
        ("evaluate", f"cells/{NAME}", "--units", "tset"),
        "Units must be train, validation, test, fit, all, or among",
    ),
    (
        ("evaluate", f"cells/{NAME}", "--calibrate", "validate"),
        "Units must be train, validation, test, fit, all, or",
    ),
    (
        ("evaluate", f"cells/{NAME}", "--calibrate", "test"),
        "Calibration units must not be judged",
    ),
    (
        ("evaluate", f"cells/{NAME}", "-s", "mine"),
        "mine: must be a scores file or the name of one in cells/braking-",
    ),
    (
        ("threshold", f"cells/{NAME}/values.parquet"),
        "at least one scores file must be given to judge; found none.",
    ),
    (
        ("evaluate", f"cells/{NAME}", "-s", "egospeed"),
        "there is neither; did you mean 'ego-speed'?",
    ),
    (
        ("score", f"cells/{NAME}/values.parquet", "ego-speed"),
        "as `deepval build` writes it; it is a file.",
    ),
    (("score", f"cells/{NAME}", "gate-gbm"), "What scores must be a signal (ego-speed"),
    (
        ("report", f"cells/{NAME}", f"{NAME}=cells/{NAME}"),
        "is given twice. Write NAME=FILE.",
    ),
    (
        (
            "evaluate",
            f"cells/{NAME}/values.parquet",
            "-s",
            f"cells/{NAME}/scores/lost.csv",
            "--units",
            "test",
        ),
        (
            "units by role (test) need a cell, whose split assigns roles, and this is "
            "a values file: give the cell's"
        ),
    ),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_what_is_refused_in_a_sentence(cell, words, sentence):
    before = set(Path().rglob("*"))
    last = told(run(*words)).splitlines()[-1]
    assert sentence in last
    assert set(Path().rglob("*")) == before


def test_a_threshold_after_score_names_the_scores_to_choose_from(cell):
    assert told(run("threshold", cell)) == (
        "A threshold belongs to one allocator; found ego-speed, lost: name one with -s."
    )
    assert run("score", cell, "memory", "--out", "memory.csv").code == 0
    first, *others = run("threshold", cell, "-s", "memory.csv").out.splitlines()
    assert "memory" in first
    assert any(line.startswith("Thresholds") for line in others)


def test_a_cell_without_scores_says_what_the_full_mode_does_in_all_units(cell):
    shutil.rmtree(cell / "scores")
    units = list(read_cell(cell).split.units)
    found = content("evaluate", cell)
    assert found["provenance"]["units"] == units
    assert [row for row in found["rows"] if row["answer"] is not None] == []
    effect = found["effect"]
    sentence = effect["sentences"][0]
    assert sentence in " ".join(run("evaluate", cell).out.split())
    assert run("report", cell, "--out", "page.html").code == 0
    assert sentence in Path("page.html").read_text(encoding="utf-8")


def test_a_threshold_of_a_cell_without_scores_says_how_to_make_some(cell):
    shutil.rmtree(cell / "scores")
    sentence = told(run("threshold", cell))
    assert sentence == (
        f"{cell}: there must be scores to judge, and none lie in {cell}/scores: write "
        f"some with `deepval score {cell} ego-speed`, or give -s FILE."
    )
