"""The feedback track: what of a log is checked, and that its rows stand apart from
those of scores.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from commands import call, refusal
from deepval.allocators.allocator import SIGNALS
from deepval.allocators.feedback import output_digest, with_feedback
from deepval.cells.fitting import fit_on
from deepval.cells.on_policy import OnPolicy, calibrate
from deepval.protocol.feedback_track import with_feedback_checked
from deepval.protocol.leaderboard import leaderboard, write_leaderboard
from deepval.protocol.submissions import check
from deepval.protocol.tracks import read_cells
from protocol_worlds import PAID, speed, write_card, write_cells, write_submission
from worlds import quietly

pytestmark = pytest.mark.filterwarnings("ignore::deepval.errors.InputWarning")
INPUTS = ["ego", "escalated-outputs"]
CELL = "braking-monocular"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    write_cells(folder, systems=("braking",))
    return folder


@pytest.fixture(scope="module")
def cells(folder):
    return read_cells(folder)


@pytest.fixture(scope="module")
def rows(cells):
    """The rows of an honest log: input, 0 or 1, digest."""
    cell = cells[CELL].built
    capped = calibrate(cell, SIGNALS["lost"], 0.2)[1]
    table = cells[CELL].scored
    run = OnPolicy(cell, with_feedback(SIGNALS["lost"]), table).replay(capped)
    digests = {
        str(name): output_digest(outputs.full.at(frame))
        for view, outputs in zip(cell.views, cell.outputs, strict=True)
        for frame, name in enumerate(view.scene.inputs)
    }
    names = table.input.tolist()
    return [
        (name, int(own), digests[name] if own else "")
        for name, own in zip(names, run.escalated, strict=True)
    ]


def write_log(folder: Path, rows, **entries) -> Path:
    (folder / "feedback").mkdir(parents=True)
    write_card(folder, **{"inputs": INPUTS} | entries)
    lines = ["input,escalated,output", *(",".join(map(str, row)) for row in rows)]
    (folder / "feedback" / f"{CELL}.csv").write_text("\n".join(lines) + "\n")
    return folder


def problems(folder, cells):
    return with_feedback_checked(check(folder, cells), cells).problems


def test_an_honest_log_is_accepted(tmp_path, cells, rows):
    checked = with_feedback_checked(
        check(write_log(tmp_path / "mine", rows), cells), cells
    )
    assert checked.problems == ()
    assert (checked.submission.logs[CELL].values > 0).tolist() == [
        bool(row[1]) for row in rows
    ]
    assert not checked.submission.scores


def escalated(rows):
    return next(i for i, row in enumerate(rows) if row[1])


def free(rows):
    return next(i for i, row in enumerate(rows) if not row[1])


def changed(rows, index, row):
    return [row if i == index else own for i, own in enumerate(rows)]


FAULTS = {
    "another output": (
        lambda rows: changed(
            rows, escalated(rows), (rows[escalated(rows)][0], 1, "x000000000000")
        ),
        "must be that of its full output in the cell",
    ),
    "an output of a frame that was not escalated": (
        lambda rows: changed(
            rows, free(rows), (rows[free(rows)][0], 0, "x000000000000")
        ),
        "any other input (0) none",
    ),
    "no digest": (
        lambda rows: changed(rows, escalated(rows), (rows[escalated(rows)][0], 1, "")),
        "must have the digest of its full output",
    ),
    "half an escalation": (
        lambda rows: changed(rows, free(rows), (rows[free(rows)][0], 0.5, "")),
        "must have the digest of its full output",
    ),
    "an unknown input": (
        lambda rows: changed(rows, 3, ("scene-99/000000", 0, "")),
        "row 4 must be",
    ),
    "another order": (
        lambda rows: [rows[1], rows[0], *rows[2:]],
        "unit after unit in time order; row 1 must be",
    ),
    "a row less": (lambda rows: rows[:-1], "found 'nothing'"),
    "a row twice": (lambda rows: [rows[0], *rows], "row 2 must be"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_log_is_refused_in_one_sentence(tmp_path, cells, rows, fault):
    change, sentence = FAULTS[fault]
    (problem,) = problems(write_log(tmp_path / "mine", change(rows)), cells)
    assert sentence in problem
    assert problem.startswith(f"feedback/{CELL}.csv: ")


def test_escalations_beyond_the_cap_are_refused(tmp_path, cells, rows):
    cell = cells[CELL].built
    unit = rows[0][0].partition("/")[0]
    view, outputs = next(
        (v, o)
        for v, o in zip(cell.views, cell.outputs, strict=True)
        if v.scene.unit == unit
    )
    digests = [output_digest(outputs.full.at(frame)) for frame in range(len(view))]
    most = math.floor(1 + 0.2 * 2 + 1e-9)
    for number in (most, most + 1):
        greedy = [
            (name, int(i < number), digests[i] if i < number else "")
            for i, (name, *_) in enumerate(rows)
        ]
        found = problems(write_log(tmp_path / str(number), greedy), cells)
        assert len(found) == (number > most)
    assert found[0] == (
        f"feedback/{CELL}.csv: at most floor(1 + 0.2 t) of a unit's first t inputs "
        f"may be escalated; {rows[most][0]} is beyond."
    )


def test_one_track_at_a_time(tmp_path, cells, rows):
    both = write_log(tmp_path / "both", rows)
    write_submission(tmp_path / "scores", cells, speed)
    (tmp_path / "scores" / "scores").rename(both / "scores")
    assert any("scores/, or feedback/" in problem for problem in problems(both, cells))
    write_submission(tmp_path / "other", cells, speed, inputs=INPUTS)
    (problem,) = problems(tmp_path / "other", cells)
    assert "an input of the feedback track alone" in problem


def with_allocator(folder, allocator, **entries):
    (folder / "feedback").mkdir(parents=True)
    write_card(folder, **{"inputs": INPUTS} | entries)
    if isinstance(allocator, str):
        (folder / "feedback" / "allocator.json").write_text(allocator)
    else:
        allocator.save(folder / "feedback" / "allocator.json")
    return folder


def test_an_allocator_of_ours_must_be_whole_and_fitted_on_training_units(
    tmp_path, cells
):
    fitted = quietly(lambda: fit_on(cells[CELL].built, "gate-ridge"))
    (problem,) = problems(with_allocator(tmp_path / "fit", fitted), cells)
    assert "must be judged and calibrated on units that it was not fitted on" in problem
    (problem,) = problems(
        with_allocator(tmp_path / "altered", fitted.to_json().replace("gate", "gaet")),
        cells,
    )
    assert problem.startswith("feedback/allocator.json: ")
    (problem,) = problems(with_allocator(tmp_path / "text", "print('hello')"), cells)
    assert problem.startswith("feedback/allocator.json: ")


@pytest.fixture(scope="module")
def board(tmp_path_factory, folder, cells, rows):
    home = tmp_path_factory.mktemp("submissions")
    write_log(home / "log", rows, name="Log")
    write_submission(home / "scores", cells, speed, name="Speed")
    with_allocator(
        home / "ours",
        quietly(lambda: fit_on(cells[CELL].built, "gate-ridge", units="train")),
        name="Ours",
    )
    return home, quietly(lambda: leaderboard(home, folder, draws=50))


def test_the_board_lists_feedback_apart_from_scores(board, cells, rows, tmp_path):
    _, content = board
    assert content["refused"] == []
    found = content["feedback"][CELL]
    assert {row["allocator"] for row in found} == {"lab/Log", "lab/Ours"}
    assert {row["policy"] for row in found} == {"causal cap"}
    ranked = {
        row["allocator"] for track in content["tracks"] for row in track["overall"]
    }
    assert "lab/Speed" in ranked
    assert not ranked & {"lab/Log", "lab/Ours"}
    log = next(
        row
        for row in found
        if row["allocator"] == "lab/Log" and row["kind"] == "selection"
    )
    table = cells[CELL].scored
    test = np.isin(table.unit_ids[table.unit], cells[CELL].split.test)
    chosen = np.array([bool(row[1]) for row in rows]) & test
    assert log["gain"] == pytest.approx(table.decision_values[chosen].sum())
    assert log["rate"] == pytest.approx(chosen.sum() / test.sum())
    paid = [
        row
        for row in found
        if row["kind"] == "latency" and row["allocator"] == "lab/Ours"
    ]
    assert [row["target_rate"] for row in paid] == pytest.approx(
        [0.2 - PAID["jetson-agx-xavier"]["ms"] / 18.47]
    )
    same = [row for row in found if row["kind"] == "selection"]
    assert all(1 <= row["rank"] <= row["rank_hi"] <= len(same) == 2 for row in same)
    write_leaderboard(content, tmp_path)
    for name in ("leaderboard.md", "leaderboard.html"):
        text = (tmp_path / name).read_text()
        assert "Feedback track" in text
        assert "never ranked with scores" in text


def test_the_same_submissions_give_the_same_board(board, folder):
    home, content = board
    again = quietly(lambda: leaderboard(home, folder, draws=50))
    assert json.dumps(again["feedback"]) == json.dumps(content["feedback"])


def test_the_command_checks_one_submission(board, folder, tmp_path, rows):
    home, _ = board
    assert "decisions on 1 cell" in call(
        "leaderboard", home / "log", "--cells", folder, "--check"
    )
    assert "an allocator of the feedback track" in call(
        "leaderboard", home / "ours", "--cells", folder, "--check"
    )
    bad = write_log(tmp_path / "bad", rows[:-1])
    assert "must be a valid submission" in refusal(
        "leaderboard", bad, "--cells", folder, "--check"
    )
