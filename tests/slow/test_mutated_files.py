"""Thousands of changes to every kind of file that is read: only our own errors come
out.
"""

import json
import os

import pytest

from deepval.judge.results import Result
from mutated_files import result_content, show_frames, show_result, try_mutations
from odd_files import (
    cell_subjects,
    drive_subjects,
    other_subjects,
    table_subjects,
    trials,
)
from pages import write_cells

pytestmark = pytest.mark.slow
TIMES = 1_000
SEED = os.environ.get("FUZZ_SEED", "")
"""Begins the seed of every file's changes: another one tries others."""


@pytest.mark.parametrize("seed", range(1, 4))
def test_results(tmp_path, seed):
    refused = try_mutations(
        result_content(), show_result, tmp_path / "r.json", times=TIMES, seed=seed
    )
    print(f"{refused} of {TIMES} changed results refused, the others shown")


def test_frames(tmp_path):
    (kept,) = write_cells(tmp_path, ("braking",))
    content = json.loads((kept.parent / "frames.json").read_text(encoding="utf-8"))
    refused = try_mutations(
        content,
        show_frames(Result.load(kept)),
        tmp_path / "f.json",
        times=TIMES,
        seed=1,
    )
    print(f"{refused} of {TIMES} changed frames refused, the others shown")


@pytest.mark.parametrize(
    ("subjects", "times"),
    [
        (drive_subjects, 200),
        (table_subjects, 160),
        (other_subjects, 120),
        (cell_subjects, 50),
    ],
)
def test_every_reader(tmp_path, subjects, times):
    refused, tried, crashes = 0, 0, []
    for subject in subjects(tmp_path):
        for trial in trials(subject, times=times, seed=SEED + subject.name):
            refused, tried = refused + trial.refused, tried + 1
            crashes += (
                [(subject.name, trial.change, trial.crash)] if trial.crash else []
            )
    print(f"{refused} of {tried} changed files refused, the others used")
    assert crashes == []
