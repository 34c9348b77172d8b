"""Tracks on a user's own data: a small KITTI tree in the real layout, from nothing to the report."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kitti_files

OXTS = " ".join(["0"] * 8 + ["11.0"] + ["0"] * 21) + "\n"
SMALL = ("--analysis", "signs", "--workers", "1")


def deepval(*words, cwd, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "deepval.cli", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def tree(tmp_path):
    """data/kitti_tracking with PNG and OXTS, data/weights/yolov8s.onnx."""
    kitti_files.write_kitti(tmp_path / "data")
    data = tmp_path / "data"
    shutil.move(data / "images", data / "kitti_tracking" / "training" / "image_02")
    shutil.rmtree(data / "kitti_tracking" / "training" / "poses")
    oxts = data / "kitti_tracking" / "training" / "oxts"
    oxts.mkdir()
    for unit in kitti_files.UNITS:
        (oxts / f"{unit}.txt").write_text(OXTS * kitti_files.FRAMES)
    (data / "weights").mkdir()
    shutil.move(data / "detector.onnx", data / "weights" / "yolov8s.onnx")
    return tmp_path


def report_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.long
def test_core_runs_on_a_tree_of_kitti_alone_and_again_from_its_cache(tree):
    first = deepval("reproduce", "core", "--data", "data", *SMALL, "--out", "one", cwd=tree)
    assert "Expected, roughly: 12 cells, 128 frames" in first.stderr  # 3 pairs x 4 cells; 4 x 8 frames x 4 sizes
    assert "12 cells" in first.stdout
    assert "local, never official" in first.stdout
    assert "rtdetr-l.onnx" in first.stdout
    content = json.loads((tree / "one" / "report.json").read_text())
    assert {cell["track"] for cell in content["cells"]} == {"local"}
    assert "local" in (tree / "one" / "report.md").read_text()
    assert "local" in (tree / "one" / "report.html").read_text()
    second = deepval("reproduce", "core", "--data", "data", *SMALL, "--out", "two", cwd=tree)
    assert "0 frames to run" in second.stderr
    assert report_bytes(tree / "one") == report_bytes(tree / "two")


@pytest.mark.long
def test_a_killed_run_continues_and_ends_with_the_same_bytes(tree):
    name = "kitti-yolov8s-320-yolov8s-640-monocular-braking"
    words = ("reproduce", name, "--data", "data", *SMALL)
    begun = subprocess.Popen(
        [sys.executable, "-m", "deepval.cli", *words, "--out", "cut"],
        cwd=tree,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    manifest = tree / "deepval-work" / "detections" / "kitti-yolov8s" / "manifest.json"
    while not manifest.exists() and begun.poll() is None:
        time.sleep(0.01)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    assert not (tree / "cut" / "report.json").exists()
    deepval(*words, "--out", "cut", cwd=tree)
    deepval(*words, "--work", "other", "--out", "whole", cwd=tree)
    assert report_bytes(tree / "cut") == report_bytes(tree / "whole")


@pytest.mark.long
def test_the_listed_commands_build_the_cells_and_analyses_take_the_track(tree):
    (core,) = json.loads(deepval("cells", "core", "--data", "data", "--json", cwd=tree).stdout)
    ready = [cell for cell in core["cells"] if not cell["missing"]]
    assert len(ready) == 12
    assert len(core["cells"]) == 26
    cell = ready[0]
    for command in (*cell["perceive"], cell["build"]):
        deepval(*shlex.split(command)[1:], cwd=tree)
    (built,) = (tree / "cells").glob("*/braking-monocular/manifest.json")
    deepval("reproduce", cell["name"], "--data", "data", *SMALL, cwd=tree)
    (same,) = (tree / "deepval-work" / "cells").iterdir()
    assert json.loads(built.read_text())["id"] == same.name
    assert "yolov8s-512" in deepval("analyse", "signs", "core", "--data", "data", cwd=tree).stdout


def test_nothing_to_run_is_an_error_that_lists_what_is_missing(tmp_path):
    (tmp_path / "data").mkdir()
    done = deepval("reproduce", "core", "--data", "data", cwd=tmp_path, code=2)
    assert "every cell lacks something" in done.stderr
    assert "weights/yolov8s.onnx" in done.stderr.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    done = deepval("reproduce", "cor", "--data", "data", cwd=tmp_path, code=2)
    assert "core" in done.stderr
