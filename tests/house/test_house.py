"""What a stranger adds without touching a file: a data set with 3D boxes, and a system
that plans trajectories.
"""

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
from commands import run
from deepval.basics.workers import mapping
from deepval.driving.cells.build import built, cells
from deepval.driving.cells.folder import read_cell, write
from deepval.driving.cells.spec import Material, ModeSpec, specs
from deepval.driving.cells.unit import shared_part, unit_parts
from deepval.driving.datasets import DATASETS
from deepval.driving.systems import SYSTEMS
from driving import Lidar
from yard import FRAMES, Follow, Yard

MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (5.0, 30.0)
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(DATASETS, "yard", Yard)
    monkeypatch.setitem(SYSTEMS, "follow", Follow())


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Units in the order in which they are read."""
    found: list[str] = []

    def noted(self, unit, real=Yard.read_unit):
        found.append(unit)
        return real(self, unit)

    monkeypatch.setattr(Yard, "read_unit", noted)
    return found


def yard(units=None) -> Material:
    return Material(Yard(), MODES, Yard().select(units))


def wanted():
    """Two cells of the yard: their specifications."""
    return specs(yard(), geometries=["cuboids"], systems=["follow", "braking"])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def test_a_data_set_of_a_user_is_read():
    scene, truth = Yard().read_unit("yard-0")
    assert (list(scene.cameras), truth.future.pose.shape) == (
        ["left", "right"],
        (FRAMES, 4, 3),
    )


def test_a_new_data_set_and_a_new_system_become_a_cell(tmp_path):
    (cell,) = cells(yard(), geometries=["cuboids"], systems=["follow"])
    kept = FRAMES - 4
    assert len(cell.table) == 6 * kept, "frames without a whole future are not judged"
    assert cell.table.affected > 0
    assert (cell.table.losses[:, 1] == 0).all(), (
        "what the far lidar sees is what was driven"
    )
    write(cell, tmp_path / "cell")
    again = read_cell(tmp_path / "cell")
    np.testing.assert_array_equal(again.table.losses, cell.table.losses)
    assert again.spec == cell.spec
    assert json.loads((tmp_path / "cell" / "frames.json").read_text())["frames"]
    result = deepval.evaluate(
        again.table, {"oracle-like": again.table.decision_values}, draws=50
    )
    assert result.row("oracle-like").ndg == 1.0


def test_a_unit_s_part_is_pure_and_can_be_sent_to_another_process():
    (spec, _) = wanted()
    unit = spec.roles.test[0]
    copied, work = pickle.loads(pickle.dumps((spec, unit_parts)))
    (here,), (there,) = (
        unit_parts([spec], unit),
        pickle.loads(pickle.dumps(work([copied], unit))),
    )
    np.testing.assert_array_equal(here.outcomes.loss, there.outcomes.loss)
    assert here.shown
    assert here.shown == there.shown
    assert here.known.keys() == there.known.keys()
    shared = [
        pickle.loads(pickle.dumps(shared_part(one, unit, {}))) for one in (spec, copied)
    ]
    assert shared[0].evidence.keys() == shared[1].evidence.keys()
    assert str(shared[0].covered) == str(shared[1].covered)


def test_who_maps_the_units_changes_no_byte(tmp_path):
    made = {"here": list(built(wanted()))}
    with mapping(2) as two:
        made["two"] = list(built(wanted(), map_units=two))
    # From the last unit to the first, as a map may choose to.
    made["backwards"] = list(
        built(
            wanted(),
            map_units=lambda work, units: [work(u) for u in [*units][::-1]][::-1],
        )
    )
    for name, found in made.items():
        for cell in found:
            write(cell, tmp_path / name / cell.spec.system)
    assert len(contents(tmp_path / "here")) > 10
    assert (
        contents(tmp_path / "two")
        == contents(tmp_path / "here")
        == contents(tmp_path / "backwards")
    )


def test_the_command_reads_the_units_it_is_given_and_no_others(read, tmp_path):
    box = {"cls": "Car", "score": 0.9, "x1": 500.0, "y1": 150.0, "x2": 700.0}
    for mode, bottom_px in (("small", 230.0), ("large", 300.0)):
        rows = [
            box | {"unit": unit, "frame": t, "y2": bottom_px}
            for unit in Yard().unit_ids()
            for t in range(FRAMES)
        ]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{mode}.parquet")
    words = [
        "build",
        "--dataset",
        "yard",
        "--root",
        tmp_path,
        "--system",
        "follow",
        "--out",
        tmp_path / "cells",
    ]
    words += [
        word
        for mode in ("small", "large")
        for word in ("--mode", f"{mode}={tmp_path / mode}.parquet")
    ]
    words += ["--scores-are", "none"]
    assert run(*words, "--units", "yard-0,yard-3,yard-7").code == 2
    assert read == []
    done = run(*words, "--units", "yard-0,yard-3,yard-5")
    assert done.code == 0, done.err
    assert read == ["yard-0", "yard-3", "yard-5"]
    assert (
        read_cell(tmp_path / "cells" / "follow-monocular").table.unit_ids.tolist()
        == read
    )
