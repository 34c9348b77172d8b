"""Commands with Ray: the same bytes as in one process, whoever is lost on the way."""

import os
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest

import onnx_models
from commands import run_process
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.workers import mapping
from ray_work import INSTALLED, cluster, losing_its_node, node, prepared
from worker_tasks import killed_first, refused, square

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not INSTALLED, reason="Ray is not installed; `make slow` does it"
    ),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]
SIZES = (64, 96)
BUILD = (
    "build",
    "--system",
    "braking",
    "--system",
    "receding-horizon",
    "--units",
    "scene-00,scene-01,scene-02,scene-03",
)
TWO = ("--backend", "ray", "--workers", 2)
ITEMS = [str(number) for number in range(12)]
SQUARES = [int(item) ** 2 for item in ITEMS]


@pytest.fixture(autouse=True)
def _prepared(monkeypatch):
    for name, value in prepared().items():
        monkeypatch.setenv(name, value)


def command(*words):
    done = run_process(*words)
    assert done.code == 0, done.err
    return done


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for place in range(12):
        path = folder / f"unit-{place // 3}" / f"{place:06d}.png"
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), np.full((40, 60, 3), 20 * place, dtype=np.uint8))
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory, pictures) -> Path:
    """What commands make in one process of this machine."""
    folder = tmp_path_factory.mktemp("alone")
    command(*BUILD, "--out", folder / "cells")
    weights = onnx_models.yolov8(folder / "tiny.onnx")
    command(
        "detect",
        pictures,
        "-w",
        weights,
        *sizes(),
        "--samples",
        0,
        "--out",
        folder / "cache",
    )
    command(
        "fit",
        folder / "cells" / "braking-monocular",
        *recipes(),
        "--out",
        folder / "fitted",
    )
    return folder


def sizes():
    return [word for size in SIZES for word in ("--size", size)]


def recipes():
    return ("-a", "gate-ridge", "-a", "router-recall")


@pytest.mark.parametrize("where", ["here", "two machines"])
def test_commands_make_the_same_bytes(alone, pictures, tmp_path, monkeypatch, where):
    if where == "here":
        _same_bytes(alone, pictures, tmp_path)
        return
    with cluster(head_cpus=1) as running:
        node(running)
        monkeypatch.setenv("RAY_ADDRESS", running.address)
        _same_bytes(alone, pictures, tmp_path)


def _same_bytes(alone, pictures, out):
    command(*BUILD, "--out", out / "cells", *TWO)
    words = ("-w", alone / "tiny.onnx", *sizes(), "--samples", 0)
    command("detect", pictures, *words, "--out", out / "cache", *TWO)
    cell = alone / "cells" / "braking-monocular"
    command("fit", cell, *recipes(), "--out", out / "fitted", *TWO)
    for name in ("cells", "cache", "fitted"):
        assert contents(out / name) == contents(alone / name), name


def test_lost_workers_are_replaced_and_errors_are_those_of_one_process(tmp_path, capfd):
    with mapping(2, "ray") as two:
        assert list(two(square, ITEMS)) == SQUARES
        work = partial(killed_first, str(tmp_path / "killed"), os.getpid(), square)
        with pytest.warns(InputWarning, match="A worker was lost"):
            results = list(two(work, ITEMS))
        assert results == SQUARES
        assert (tmp_path / "killed").exists()
        results = two(refused, ITEMS)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(InputError, match="unit 2 must hold frames; it holds none"):
            next(results)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("spare", [False, True])
def test_a_machine_is_lost(tmp_path, monkeypatch, spare):
    """Another one takes over; without, it is said that there is no room."""
    with cluster(head_cpus=2) as running:
        monkeypatch.setenv("RAY_ADDRESS", running.address)
        first = partial(
            losing_its_node, str(tmp_path / "lost"), running.head_node.node_id, square
        )
        for _ in range(1 + spare):
            node(running)
        no_room = pytest.raises(InputError, match="processor for each of the 3")
        with (
            warnings.catch_warnings(),
            nullcontext() if spare else no_room,
            mapping(3, "ray") as three,
        ):
            warnings.simplefilter("ignore", InputWarning)
            assert list(three(first, ITEMS)) == SQUARES
        assert (tmp_path / "lost").exists()
