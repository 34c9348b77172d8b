"""Commands on a real Ray cluster of two machines on loopback: the same bytes, whoever
is lost on the way.
"""

import warnings
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest

import onnx_models
from commands import run_process
from deepval.cells.fitting import fit_on, out_of_fold
from deepval.cells.folder import read_cell
from deepval.engines import Engine, driver, engine
from deepval.engines.on_ray import RayCrew
from deepval.errors import InputError, InputWarning
from deepval.perception.running.perceive import perceive
from engine_work import killed_first, square
from ray_work import INSTALLED, cluster, losing_its_node, losing_its_node_after, node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not INSTALLED, reason="Ray is not installed; `make slow` does it"
    ),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]
TIMES = 20
"""How often a worker and a machine are lost."""
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


class Losing(Engine):
    """Two actors of a cluster; whatever they do is done through `first`, which loses
    one of them.
    """

    def __init__(self, address, first):
        super().__init__(RayCrew(2, address=address))
        self.first = first

    def map(self, work, items):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            yield from super().map(partial(self.first, work), items)


@pytest.fixture(scope="module")
def two():
    with cluster(head_cpus=1) as running:
        node(running)
        yield running


def head_of(running) -> str:
    return running.head_node.node_id


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
        "perceive",
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


def test_commands_on_two_machines_make_the_same_bytes(two, alone, pictures, tmp_path):
    there = ("--engine", "ray", "--workers", 2, "--address", two.address)
    command(*BUILD, "--out", tmp_path / "cells", *there)
    weights = alone / "tiny.onnx"
    command(
        "perceive",
        pictures,
        "-w",
        weights,
        *sizes(),
        "--samples",
        0,
        "--out",
        tmp_path / "cache",
        *there,
    )
    command(
        "fit",
        alone / "cells" / "braking-monocular",
        *recipes(),
        "--out",
        tmp_path / "fitted",
        *there,
    )
    for name in ("cells", "cache", "fitted"):
        assert contents(tmp_path / name) == contents(alone / name), name


def test_a_lost_worker_costs_nothing(two, alone, tmp_path):
    cell = read_cell(alone / "cells" / "braking-monocular")
    with Losing(two.address, partial(killed_first, str(tmp_path / "killed"))) as losing:
        made = list(losing.map(partial(fit_on, cell), ["gate-ridge", "router-recall"]))
        folds = out_of_fold(cell, "gate-ridge", folds=3, map_fits=losing.map)
    assert (tmp_path / "killed").exists()
    assert [each.to_json() for each in made] == [
        (alone / "fitted" / f"{each.name}.json").read_text(encoding="utf-8")
        for each in made
    ]
    assert (
        folds.score.tolist() == out_of_fold(cell, "gate-ridge", folds=3).score.tolist()
    )


def test_a_worker_is_lost_again_and_again_and_nothing_with_it(two, tmp_path):
    for place in range(TIMES):
        with Losing(
            two.address, partial(killed_first, str(tmp_path / str(place)))
        ) as losing:
            assert list(losing.map(square, "0123")) == [0, 1, 4, 9]
    assert len(list(tmp_path.iterdir())) == TIMES


def test_a_machine_is_lost_again_and_again_and_nothing_with_it(
    alone, pictures, tmp_path
):
    with cluster(head_cpus=1) as running:
        for place in range(TIMES):
            node(running)
            first = partial(
                losing_its_node, str(tmp_path / f"lost-{place}"), head_of(running)
            )
            with Losing(running.address, first) as losing:
                assert list(losing.map(square, "012345")) == [0, 1, 4, 9, 16, 25]
                if place == 0:
                    continue
                cache = tmp_path / f"cache-{place}"
                perceive(
                    pictures,
                    cache,
                    weights=alone / "tiny.onnx",
                    sizes=SIZES,
                    latency_samples=0,
                    engine=losing,
                )
                assert contents(cache) == contents(alone / "cache")
    assert len(list(tmp_path.glob("lost-*"))) == TIMES


def test_without_any_machine_left_it_is_said_and_what_is_finished_stays(
    alone, pictures, tmp_path, monkeypatch
):
    monkeypatch.setattr(driver, "PATIENCE_S", 2.0)
    monkeypatch.setattr(driver, "GIVE_UP_S", 6.0)
    whole = contents(alone / "cache")
    with cluster(head_cpus=0) as running:
        for place in range(TIMES):
            node(running)
            cache, mark = tmp_path / f"cache-{place}", tmp_path / f"done-{place}"
            with (
                Losing(
                    running.address, partial(losing_its_node_after, str(mark), 2)
                ) as losing,
                pytest.raises(
                    InputError,
                    match=r"No worker was available for \d+ s .* 2 units are waiting",
                ),
            ):
                perceive(
                    pictures,
                    cache,
                    weights=alone / "tiny.onnx",
                    sizes=SIZES,
                    latency_samples=0,
                    engine=losing,
                )
            kept = contents(cache)
            finished = [
                name for name in kept if name in whole and kept[name] == whole[name]
            ]
            assert sum(name.endswith(".parquet") for name in finished) >= 2, sorted(
                kept
            )
        with engine("local") as here:
            perceive(
                pictures,
                cache,
                weights=alone / "tiny.onnx",
                sizes=SIZES,
                latency_samples=0,
                engine=here,
            )
        assert contents(cache) == whole
