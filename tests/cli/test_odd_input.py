"""Every command on paths and numbers that cannot be meant: one sentence and exit code
2, no wait, nothing written.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from cli_functions import of_kinds
from commands import call
from deepval.basics.errors import InputError
from deepval.cli.options import Between
from deepval.deploy.allocators.models.trees import Trees
from deepval.driving.perception.reported.detection_files import open_detections
from deepval.judge.draws import make_draws
from odd_worlds import COMMANDS, KITTI, check_refused, tree, trials, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize(("place", "command"), list(enumerate(COMMANDS)))
def test_odd_paths(world, monkeypatch, place, command):
    """One kind of path each, in turn; tests/slow tries all."""
    monkeypatch.chdir(world)
    before = tree(world)
    check_refused(command, trials(command)[place % len(trials(command))])
    assert tree(world) == before


NAMED = {
    option
    for command in COMMANDS
    for option in command.split()
    if option.startswith("--")
}


def test_every_option_that_is_a_path_is_tried():
    """An option of that name is read by the same function in every command."""
    found = {
        next(name for name in option.names if name.startswith("--"))
        for _, option in of_kinds(Path)
    }
    # A base that is not there is an empty board.
    assert found <= NAMED | {"--figure", "--base"}


@pytest.mark.parametrize("within", [(0, 1_000), (-1e9, 1e9), (-np.inf, np.inf)])
def test_numbers_beyond_the_limits_are_refused(within):
    check = Between(*within)
    for value in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match=r"^must be a finite number; found "):
            check(float, value)
    if np.isfinite(within).all():
        least, most = within
        check(float, (least, most))
        for value in (least - 1, most + 1, 10**20):
            with pytest.raises(ValueError, match=r"^must be "):
                check(float, (least, value))
    check(float, None)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("evaluate values.csv -s x.csv --seed -1", "--seed"),
        ("evaluate values.csv -s x.csv --seed 1" + "0" * 30, "--seed"),
        ("evaluate values.csv -s x.csv --draws 1" + "0" * 20, "--draws"),
        ("evaluate values.csv -s x.csv --draws 1e20", "--draws"),
        (
            "detect images -w detector.onnx --size 64 --out c --samples -3",
            "--samples",
        ),
        (f"{KITTI} --threshold nan", "--threshold"),
        (f"{KITTI} --set corridor_half_width_m=nan", "--set"),
        ("leaderboard subs --cells cells --out b --draws 100000000", "--draws"),
    ],
)
def test_numbers_that_cannot_be_meant(world, monkeypatch, command, sentence):
    monkeypatch.chdir(world)
    before = tree(world)
    with pytest.raises(InputError) as told:
        call(*command.split())
    assert sentence in str(told.value)
    assert tree(world) == before


# Text that is not UTF-8, and matrices that cannot be inverted.


# Odd detections.


def boxes(path: Path, *, metadata: dict[bytes, bytes] | None = None, **columns) -> Path:
    held = {
        "unit": ["0000"],
        "frame": [0],
        "cls": ["car"],
        "score": [0.5],
        "x1": [0.0],
        "y1": [0.0],
        "x2": [9.0],
        "y2": [9.0],
    }
    pq.write_table(pa.table(held | columns).replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"unit": pa.array([b"0000"])}, "'unit'"),
        ({"cls": pa.array([["car"]])}, "'cls'"),
        ({"cls": pa.array([None], pa.string())}, "'cls'"),
        ({"frame": pa.array([{"a": 1}])}, "'frame'"),
        ({"frame": pa.array([True])}, "'frame'"),
        ({"x1": pa.array([1], pa.timestamp("ns"))}, "'x1'"),
        ({"score": pa.array([{"x": 1}])}, "'score'"),
        ({"ry": [0.0]}, "lacks X, Y, Z, l, w, h"),
        ({"metadata": {b"frames_run": b"{"}}, "'frames_run'"),
        ({"metadata": {b"frames_run": b"[1]"}}, "must be frames"),
        ({"metadata": {b"frames_run": b'{"0000": 5}'}}, "must be frames"),
        ({"metadata": {b"frames_failed": b"[" * 9999}}, "nest 100 deep"),
        ({"metadata": {b"frames_processed": b'{"0000": "8"}'}}, "must be a"),
        ({"metadata": {b"scores": b"\xff"}}, "'scores'"),
    ],
)
def test_odd_parquet_detections(tmp_path, columns, sentence):
    with pytest.raises(InputError) as told:
        open_detections(boxes(tmp_path / "a.parquet", **columns))
    assert sentence in str(told.value)


@pytest.mark.parametrize(
    "content",
    [
        '{"results": 5}',
        '{"results": {"a": [5]}}',
        (
            '{"results": {"a": [{"rotation": 1, "translation": 1, "size": 1, '
            '"detection_score": 1, "detection_name": 1}]}}'
        ),
        "5",
        "[5]",
        '[{"image_id": []}]',
        '[{"image_id": "u/1", "category_id": 3, "bbox": [1, 2], "score": 0.5}]',
        (
            '[{"image_id": "u/1", "category_id": 3, "bbox": [1, 2, '
            '3, 1e999], "score": 0.5}]'
        ),
    ],
)
def test_odd_json_detections(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError):
        open_detections(tmp_path / "a.json")


# Memory.


def test_one_long_id_is_refused_before_every_row_is_as_wide(tmp_path):
    rows = "".join(
        f"u{i % 3},{'x' * 500_000 if i == 7 else i},1,1\n" for i in range(20_000)
    )
    (tmp_path / "v.csv").write_text("unit,input,loss_a,loss_b\n" + rows)
    with pytest.raises(InputError, match="must hold ids"):
        deepval.read_values(tmp_path / "v.csv")


def test_draws_times_units_are_bounded():
    with pytest.raises(InputError, match="draws of 1"):
        make_draws(1_000_000, 1000)


def test_a_model_of_a_million_trees_is_refused():
    content = {
        "columns": 1,
        "leaf": [[0.0]] * 1_000_000,
        "threshold": [],
        "feature": [],
        "gap_left": [],
    }
    with pytest.raises(ValueError, match="there may be"):
        Trees.of(content)


# Stopping while libraries load.


def test_ctrl_c_while_libraries_load_is_one_sentence(tmp_path):
    """A module that is slow to load stands for the libraries: it says when it is being
    loaded.
    """
    (tmp_path / "numpy.py").write_text(
        "import sys, time\nprint('loading', flush=True)\ntime.sleep(600)\n"
    )
    source = str(Path(deepval.__file__).parents[1])
    begun = subprocess.Popen(
        [sys.executable, "-m", "deepval", "evaluate", "values.csv"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"},
    )  # fmt: skip
    assert begun.stdout is not None
    assert begun.stdout.readline() == "loading\n"
    begun.send_signal(signal.SIGINT)
    _, told = begun.communicate(timeout=600)
    assert begun.returncode == 130
    assert told.strip() == "deepval: stopped. Nothing was begun: run it again."


def test_what_the_system_or_a_library_says_is_one_line(world, monkeypatch, capsys):
    from deepval.cli import commands

    for error, said in [
        (OSError(28, "No space left on device", "a\nb"), "No space left"),
        (MemoryError("Unable to allocate 37 GiB"), "The machine has"),
        (InputError("one\ntwo\x1b[31m"), "deepval: one two\\x1b[31m\n"),
    ]:

        def fail(_words, error=error):
            raise error

        monkeypatch.setattr(commands, "call", fail)
        assert commands.run() == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == 1
