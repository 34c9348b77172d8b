"""`deepval doctor`: everything of ours below a folder is verified, and what is wrong is
named with what to run.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import deepval
from alterations import missed
from commands import run
from deepval.allocators.allocator import file_text
from deepval.cells.judgement import LEDGER, note
from deepval.doctor import doctor
from deepval.errors import InputError
from deepval.files.canonical import json_text, sha256
from deepval.perception.reported import cache
from deepval.perception.running.decoding import FrameDetections
from deepval.protocol.leaderboard import leaderboard, write_leaderboard
from deepval.protocol.store import REFUSED, store_result
from deepval.protocol.tracks import read_cells
from protocol_worlds import noisy, write_cells, write_submission
from whole_sets import write_unit
from worlds import judge, random_table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One of everything that deepval writes."""
    home = tmp_path_factory.mktemp("ours")
    write_cells(home / "cells", scenes=12, frames=8, costs=None, systems=("braking",))
    cells = read_cells(home / "cells")
    entries = tmp_path_factory.mktemp("submissions")
    write_submission(entries / "noise", cells, noisy(1), name="Noise", costs={})
    board = leaderboard(entries, home / "cells", draws=20, cache=home / "judged")
    write_leaderboard(board, home / "board")
    table = random_table(np.random.default_rng(0), inputs=12, units=3)
    result = judge(table, {"mine": np.arange(12.0)}, [deepval.Selection(0.2)], draws=10)
    (home / "results").mkdir()
    result.save(home / "results" / "r.json", samples=True)
    (home / "allocators").mkdir()
    (home / "allocators" / "gate.json").write_text(
        file_text({"columns": ["a"]}), encoding="utf-8"
    )
    boxes = FrameDetections(
        np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.array(["car"])
    )
    cache.bind(home / "detections", {"weights": "x"})
    record = cache.FrameRecord(0, "a.png", "0" * 64, (4, 4), boxes)
    write_unit(home / "detections", "small", unit="u", records=[record])
    store_result(home / "work", "part", {"a": 1}, lambda: {"rows.json": b"[]"})
    planner = home / "planner"
    planner.mkdir()
    for name in ("weights", "masks"):
        (planner / f"{name}.npz").write_bytes(name.encode())
    hashes = {f"{name}_sha256": sha256(name.encode()) for name in ("weights", "masks")}
    (planner / "manifest.json").write_text(json_text(hashes), encoding="utf-8")
    return home


@pytest.fixture
def ours(made, tmp_path):
    shutil.copytree(made, tmp_path / "ours")
    return tmp_path / "ours"


def test_everything_is_found_and_whole(made):
    up = doctor(made)
    assert up.problems == []
    kinds = (
        "allocator",
        "cell",
        "detection cache",
        "history",
        "judgements",
        "kept part",
    )
    assert set(up.counts) == {*kinds, "leaderboard", "planner", "result"}
    done = run("doctor", made)
    assert done.code == 0
    assert "0 problems" in done.out


@pytest.mark.parametrize(
    "file",
    [
        "cells/braking-monocular/values.parquet",
        "cells/braking-monocular/manifest.json",
        "detections/small/detections/u.parquet",
        "detections/small/frames/u.parquet",
        "detections/manifest.json",
        "allocators/gate.json",
        "results/r.samples.npz",
        "results/r.json",
        "board/leaderboard.html",
        "board/leaderboard.md",
        "planner/weights.npz",
        "planner/masks.npz",
        "work/part/*/rows.json",
        "work/part/*/kept.json",
        "judged/*.judged",
        "judged/*.read",
        "judged/*.ranked",
    ],
)
def test_a_changed_byte_is_found_in_each(ours, file):
    (path,) = ours.glob(file)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(bytes(data))
    done = run("doctor", ours, "--json")
    assert done.code == 1
    told = json.loads(done.out)
    assert told["whole"] is False
    # A changed number of a result shows in its samples, which no longer belong to it.
    named = (
        {path, *path.parent.iterdir()}
        if path.name in ("kept.json", "r.json")
        else {path}
    )
    assert {problem["path"] for problem in told["problems"]} & {
        item.relative_to(ours).as_posix() for item in named
    }
    assert all(problem["run"] for problem in told["problems"])


def test_alterations_of_a_cell_are_found(ours):
    cell = ours / "cells" / "braking-monocular"
    files = sorted(path for path in cell.rglob("*") if path.is_file())
    assert missed(cell, files, times=30, seed=0) == []
    assert doctor(cell).problems == []


def test_what_a_kill_leaves_is_named(ours):
    left = ours / "cells" / "braking-monocular" / ".values.parquet.0123abcd.tmp"
    left.write_bytes(b"half")
    (problem,) = doctor(ours).problems
    assert problem.run == f"rm {left}"


def test_a_folder_that_is_written_to_is_named(ours):
    cell = ours / "cells" / "braking-monocular"
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from deepval.files.writing import lock\n"
        "with lock(Path(sys.argv[1]), 'busy'):\n print('held', flush=True)\n"
        " sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, cell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert any(
            "another process is writing there" in note for note in doctor(ours).notes
        )
        os.kill(holder.pid, signal.SIGKILL)
    assert doctor(ours).notes == []  # no kill leaves a lock


def test_bad_input(tmp_path):
    with pytest.raises(InputError, match="must be a folder"):
        doctor(tmp_path / "nowhere")
    with pytest.raises(InputError, match="must hold something that deepval wrote"):
        doctor(tmp_path)
    assert run("doctor", tmp_path / "nowhere").code == 2


def test_evaluate_on_a_file_of_a_cell_checks_the_manifest(ours):
    cell = ours / "cells" / "braking-monocular"
    values = cell / "values.parquet"
    # no scores in it, but as built
    assert run("evaluate", values, "--draws", "5", "-s", f"mine={values}").code == 2
    data = bytearray(values.read_bytes())
    data[len(data) // 2] ^= 1
    values.write_bytes(bytes(data))
    done = run("evaluate", values, "-s", "x.csv")
    assert done.code == 2
    assert "must be as it was built, and is not" in done.err


def test_a_score_that_is_altered_in_a_cached_file_is_found_where_it_is_used(ours):
    import pyarrow.parquet as pq

    path = ours / "detections" / "small" / "detections" / "u.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, "score", [np.array([0.25], np.float32)]), path)
    with pytest.raises(InputError, match="does not fit its hash"):
        cache.read_mode(ours / "detections", "small")


@pytest.mark.parametrize("cut", [1, 20])
def test_a_ledger_that_was_cut_off_is_reported(ours, cut):
    (cell,) = read_cells(ours / "cells").values()
    note(cell.built, by="evaluate", units=None, scores={})
    note(cell.built, by="evaluate", units=None, scores={})
    assert doctor(ours).problems == []
    ledger = cell.built.folder / LEDGER
    ledger.write_bytes(ledger.read_bytes()[:-cut])
    (problem,) = doctor(ours).problems
    assert problem.path.endswith(LEDGER)
    assert "cut off" in problem.wrong or "line 2 is no look" in problem.wrong
    assert "count that look yourself" in problem.run


@pytest.mark.parametrize(
    "sentence",
    [
        "/w/kept/x.npz: must be a file that can be written; No space left on device.",
        "/w/a.json: must be a file that can be read; Permission denied.",
        (
            "Planning needs shapely, which is not installed: pip install "
            "'deepval[planners]'."
        ),
    ],
)
def test_a_failure_of_the_machine_that_was_kept_as_a_refusal_is_reported(
    ours, sentence
):
    store_result(
        ours / "work",
        "analyses/signs",
        {"a": 2},
        lambda: {REFUSED: b"There must be two cells; found one."},
    )
    assert doctor(ours).problems == []
    store_result(
        ours / "work", "analyses/signs", {"a": 3}, lambda: {REFUSED: sentence.encode()}
    )
    (problem,) = doctor(ours).problems
    assert problem.wrong.startswith(
        "must be the refusal of an analysis; it is a failure of the machine: "
    )
    assert "deepval reproduce" in problem.run
