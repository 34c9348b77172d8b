"""Files that are read, with one change, are refused in a sentence or used: a sample of
tests/slow.
"""

import copy
import json
import sqlite3
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import external_worlds
import protocol_worlds
from commands import run
from deepval.basics.errors import InputError
from deepval.deploy.allocators import read_allocator
from deepval.deploy.allocators.allocator import file_text
from deepval.deploy.fitting import fit_on, refit
from deepval.driving.cells.folder import BuiltCell, read_cell
from deepval.driving.datasets.logs.nuplan import Nuplan
from deepval.judge.results import Result
from mutated_files import (
    result_content,
    show_frames,
    show_quickly,
    show_result,
    try_mutations,
)
from odd_files import drive_subjects, table_subjects, trials
from pages import write_cells


def test_results(tmp_path):
    content = result_content()
    (tmp_path / "r.json").write_text(json.dumps(content), encoding="utf-8")
    show_result(tmp_path / "r.json")
    assert (
        try_mutations(content, show_quickly, tmp_path / "r.json", times=8, seed=0) > 2
    )


def named(content, key):
    """Every record with such a key, at any depth."""
    parts = (
        content.values()
        if isinstance(content, dict)
        else content
        if isinstance(content, list)
        else ()
    )
    return [content] * (key in content if isinstance(content, dict) else False) + [
        found for part in parts for found in named(part, key)
    ]


def test_every_convention_is_one_that_there_is(tmp_path):
    content = result_content()
    records = named(content, "convention")
    assert {id(record) for row in content["ladder"] for record in row["spent"]} <= {
        id(record) for record in records
    }
    for record in records:
        kept, record["convention"] = record["convention"], "miles"
        (tmp_path / "r.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(
            InputError, match=r"convention must be one of .*; found 'miles'"
        ):
            Result.load(tmp_path / "r.json")
        record["convention"] = kept


@pytest.mark.parametrize("part", ["verdict", "scale", "best_fixed"])
def test_every_word_of_an_answer_is_one_that_there_is(tmp_path, part):
    content = result_content()
    content["answers"][-1][part] = "perhaps"
    (tmp_path / "r.json").write_text(json.dumps(content), encoding="utf-8")
    place = rf"answers\[{len(content['answers']) - 1}\]\.{part}"
    with pytest.raises(InputError, match=f"{place} must be one of .*'perhaps'"):
        Result.load(tmp_path / "r.json")


def test_frames(tmp_path):
    (kept,) = write_cells(tmp_path, ("braking",))
    content = json.loads((kept.parent / "frames.json").read_text(encoding="utf-8"))
    content["frames"] = content["frames"][:2]
    refused = try_mutations(
        content, show_frames(Result.load(kept)), tmp_path / "f.json", times=8, seed=0
    )
    assert refused > 1


class Fitted(NamedTuple):
    """A cell, and what the file of an allocator fitted on it holds."""

    cell: BuiltCell
    content: dict


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    home = tmp_path_factory.mktemp("fitted")
    protocol_worlds.write_cells(
        home, scenes=10, frames=8, costs=None, systems=("braking",)
    )
    cell = read_cell(home / "braking-monocular")
    return Fitted(cell, fit_on(cell, "gate-ridge").content())


SAMPLED = ("scenarionet",)
SAMPLED += ("nuplan log", "nuplan map", "nuscenes sample_annotation", "nuscenes map")


def test_drives_with_odd_types_rows_and_shapes_are_read_or_refused_in_a_sentence(
    tmp_path,
):
    subjects = {subject.name: subject for subject in drive_subjects(tmp_path)}
    answers = {
        name: list(trials(subjects[name], times=4, seed=name)) for name in SAMPLED
    }
    assert [trial for name in SAMPLED for trial in answers[name] if trial.crash] == []
    assert sum(trial.refused for name in SAMPLED for trial in answers[name]) > 10


# scores that do not state their fit
@pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
def test_tables_with_odd_types_rows_and_columns_are_judged_or_refused_in_a_sentence(
    tmp_path,
):
    chosen = (
        "values whole",
        "scores in pieces",
        "scores as text",
        "router",
        "wide router log",
    )
    subjects = [
        subject for subject in table_subjects(tmp_path) if subject.name in chosen
    ]
    answers = [
        trial
        for subject in subjects
        for trial in trials(subject, times=3, seed=subject.name)
    ]
    assert [trial for trial in answers if trial.crash] == []
    assert sum(trial.refused for trial in answers) > 5


def nuplan_without(tmp_path, table):
    root = external_worlds.nuplan(tmp_path / "nuplan")
    with closing(sqlite3.connect(next(root.rglob("*.db")))) as database:
        database.execute(f"DELETE FROM {table}")
        database.commit()
    return Nuplan(root)


def test_a_nuplan_log_without_boxes_has_no_tracks(tmp_path):
    data = nuplan_without(tmp_path, "lidar_box")
    assert [drive.log.tracks for drive in data.read_drives(data.unit_ids()[0])] == [()]


def test_an_empty_scores_file_is_refused_when_it_is_read_piece_by_piece(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DEEPVAL_MEMORY", "0")
    losses = {
        "unit": ["a", "b"],
        "input": ["x", "y"],
        "loss_s": [1.0, 2.0],
        "loss_l": [0.5, 3.0],
    }
    pq.write_table(pa.table(losses), tmp_path / "values.parquet")
    empty = pa.table(
        {"input": pa.array([], pa.string()), "score": pa.array([], pa.float64())}
    )
    pq.write_table(empty, tmp_path / "mine.parquet")
    done = run(
        "evaluate",
        tmp_path / "values.parquet",
        "-s",
        tmp_path / "mine.parquet",
    )
    assert done.code == 2
    assert "at least one row is needed; found none" in done.err


@pytest.mark.parametrize(
    ("part", "odd", "sentence"),
    [
        ("seed", "1", "training.seed must be a whole number; found '1'"),
        ("seed", 10**30, "training.seed must be from 0 to 4294967295"),
        ("units", [[]], r"training.units\[0\] must be a text"),
        (
            "settings",
            {"learner": "Ridge", "penalties": 10**9},
            "penalties of Ridge must be from 1 to 1000",
        ),
        (
            "settings",
            {"learner": "Ridge", "penalties": "x"},
            "must be a whole number; found 'x'",
        ),
    ],
)
def test_an_allocator_altered_and_sealed_again_is_refused(
    fitted, tmp_path, part, odd, sentence
):
    cell, path = fitted.cell, tmp_path / "gate.json"
    content = copy.deepcopy(fitted.content)
    content["training"][part] = odd
    path.write_text(file_text(content), encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        refit(cell, read_allocator(path))


@pytest.mark.parametrize(
    ("part", "odd", "sentence"),
    [
        (("pictures", "seed"), -1, "a seed of 0 or more; found -1"),
        (("pictures", "scenes"), 1e308, "at most 1,000,000 of"),
        (("pictures", "frames"), 0, "2 frames or more"),
        (("frames", 0, "frame"), "x", "none is called 'x'"),
        (("frames", 0, "value"), float("nan"), "not JSON compliant"),
    ],
)
def test_pictures_of_frames_with_odd_numbers_are_refused(tmp_path, part, odd, sentence):
    (kept,) = write_cells(tmp_path, ("braking",))
    content = json.loads((kept.parent / "frames.json").read_text(encoding="utf-8"))
    holder = content
    for step in part[:-1]:
        holder = holder[step]
    holder[part[-1]] = odd
    (tmp_path / "f.json").write_text(json.dumps(content), encoding="utf-8")
    done = run(
        "report",
        kept,
        "--frames",
        tmp_path / "f.json",
        "--images",
        "--out",
        tmp_path / "page.html",
    )
    assert done.code == 2
    assert sentence in done.err
    assert not (tmp_path / "page.html").exists()
