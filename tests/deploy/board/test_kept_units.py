"""A build that was stopped continues with the units that are not finished, and what it
writes is to the byte what a build from nothing writes.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import Done, run
from deepval.basics.errors import UnfinishedError
from deepval.basics.files.writing import lock
from deepval.deploy.board import cell_builds
from deepval.deploy.board.cell_builds import UNITS, unit_folder
from deepval.driving.cells import build as mapping
from deepval.driving.cells import folder as folders
from deepval.driving.cells.build import built
from deepval.driving.cells.spec import specs
from kitti_files import UNITS as SEQUENCES
from kitti_files import write_kitti
from street import street
from worlds import quietly

SYSTEMS = ("braking", "receding-horizon")


@pytest.fixture(scope="module")
def drives(tmp_path_factory):
    home = tmp_path_factory.mktemp("kitti")
    write_kitti(home)
    return home


@pytest.fixture
def world(drives, tmp_path):
    """Four sequences and two modes, the cheap one with raw scores."""
    for name in ("kitti_tracking", "small.parquet", "large.parquet"):
        (shutil.copytree if (drives / name).is_dir() else shutil.copy)(
            drives / name, tmp_path / name
        )
    return tmp_path


@pytest.fixture
def worked(monkeypatch):
    """What is made, in turn: the kind of part, and the unit."""
    found = []

    def noted(name, place):
        make = getattr(mapping, name)
        monkeypatch.setattr(
            mapping,
            name,
            lambda *given, **more: (
                found.append((name, given[place])) or make(*given, **more)
            ),
        )

    for name, place in (("scored_outcomes", 1), ("shared_part", 1), ("unit_parts", 1)):
        noted(name, place)
    return found


def build(world: Path, out: str, *words: str) -> dict[str, bytes]:
    """Every file of a folder after a build into it."""
    done = asked(world, out, *words)
    assert done.code == 0, done.err
    return contents(world / out)


def asked(world: Path, out: str, *words: str) -> Done:
    """How a build into a folder ended."""
    modes = [f"--mode={name}={world / name}.parquet" for name in ("small", "large")]
    systems = [f"--system={name}" for name in SYSTEMS]
    root = (
        "--dataset",
        "kitti",
        "--root",
        world / "kitti_tracking",
        "--threshold",
        "large=0.25",
    )
    return run(
        "build",
        *root,
        "--scores-are",
        "small=raw",
        *modes,
        *systems,
        "--out",
        world / out,
        *words,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def roles(world: Path) -> dict[str, list[str]]:
    return json.loads((world / "out" / "braking-monocular" / "split.json").read_text())


def relabel(world: Path, unit: str) -> None:
    """The object of a sequence's second frame is nearer, and elsewhere in the image."""
    path = world / "kitti_tracking" / "training" / "label_02" / f"{unit}.txt"
    lines = path.read_text().splitlines()
    words = lines[1].split()
    lines[1] = " ".join(
        [*words[:6], "0", "0", "50", "50", *words[10:15], "9.5", *words[16:]]
    )
    path.write_text("\n".join(lines) + "\n")


def stop_at(monkeypatch, unit, stop):
    """A build ends at a unit; returns how to let it go on."""
    make = mapping.unit_parts

    def stopped(specs, name):
        if name == unit:
            raise stop
        return make(specs, name)

    monkeypatch.setattr(mapping, "unit_parts", stopped)
    return lambda: monkeypatch.setattr(mapping, "unit_parts", make)


def files_of_units(world: Path) -> list[Path]:
    return sorted((world / "out" / UNITS).glob("*/*.npz"))


@pytest.mark.parametrize("change", ["label", "detections", "picture", "units"])
def test_what_changed_is_built_as_from_nothing(world, change):
    build(world, "out")
    words = ()
    unit = roles(world)["test"][0]
    if change == "label":
        relabel(world, unit)
    elif change == "detections":
        boxes = pq.read_table(world / "large.parquet")
        column = boxes["x1"].to_numpy() + 1.0
        place = boxes.schema.get_field_index("x1")
        pq.write_table(boxes.set_column(place, "x1", [column]), world / "large.parquet")
    elif change == "picture":
        folder = world / "kitti_tracking" / "training" / "image_02" / unit
        folder.mkdir(parents=True)
        (folder / "000001.png").touch()
        for path in (world / "out").glob("*/manifest.json"):
            path.unlink()
    else:
        words = ("--units", "0000,0001,0002")
    assert build(world, "out", *words) == build(world, "anew", *words)


def test_a_unit_whose_file_is_damaged_is_made_anew(world, worked, monkeypatch):
    go_on = stop_at(monkeypatch, SEQUENCES[-1], KeyboardInterrupt())
    assert asked(world, "out").code > 0
    go_on()
    first, second, third = files_of_units(world)
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(bytes(data))
    os.truncate(second, 1_000)
    worked.clear()
    whole = build(world, "out")
    units = [unit for name, unit in worked if name == "unit_parts"]
    assert units == [SEQUENCES[0], SEQUENCES[1], SEQUENCES[3]]
    assert third.exists() is False
    assert whole == build(world, "anew")


@pytest.mark.parametrize("change", ["label", "threshold", "version"])
def test_units_of_another_build_are_not_taken(world, worked, monkeypatch, change):
    go_on = stop_at(monkeypatch, SEQUENCES[-1], KeyboardInterrupt())
    assert asked(world, "out").code > 0
    go_on()
    assert len(files_of_units(world)) == 3
    words = ()
    if change == "label":
        relabel(world, SEQUENCES[0])
    elif change == "threshold":
        words = ("--threshold", "small=0.4")
    else:
        monkeypatch.setattr(cell_builds, "versions", lambda: {"deepval": "another"})
    worked.clear()
    again = build(world, "out", *words)
    units = [unit for name, unit in worked if name == "unit_parts"]
    assert units == list(SEQUENCES)
    assert again == build(world, "anew", *words)


def test_nothing_piles_up(world, monkeypatch):
    go_on = stop_at(monkeypatch, SEQUENCES[-1], KeyboardInterrupt())
    assert asked(world, "out").code > 0
    go_on()
    left = files_of_units(world)[0].with_name(".000003.npz.0123abcd.tmp")
    left.write_bytes(b"a killed writer's")
    # While somebody else builds in the folder, nothing is removed; the next build does
    # it.
    with lock(world / "out" / UNITS):
        build(world, "out", "--threshold", "small=0.4")
        assert left.exists()
    first = build(world, "out")
    assert not list((world / "out" / UNITS).iterdir())
    assert build(world, "out") == first


def refuse(work, units):
    assert list(units) == []
    return []


def test_observed_objects_and_ways_along_lanes_are_kept_to_the_byte(
    tmp_path, monkeypatch
):
    wanted = specs(street(fails=True), geometries=["cuboids"])
    for name, map_units in (("first", map), ("again", refuse)):
        (cell,) = quietly(
            lambda how=map_units: list(
                built(wanted, unit_folder=tmp_path / "units", map_units=how)
            )
        )
        assert np.isfinite(cell.views[0].connector_m).any()
        folders.write(cell, tmp_path / name)
    assert contents(tmp_path / "again") == contents(tmp_path / "first")


def test_units_that_rest_on_something_unknown_are_not_kept(tmp_path):
    with unit_folder(tmp_path, specs(street(fails=True))) as folder:
        assert folder is None


def test_what_is_refused_writes_nothing_and_what_is_stopped_goes_on(
    world, worked, monkeypatch
):
    labels = world / "kitti_tracking" / "training" / "label_02" / "0003.txt"
    good = labels.read_text()
    labels.write_text("1 2 3\n")
    assert "labels must have 17 columns" in asked(world, "new/out").err
    assert not (world / "new").exists()
    labels.write_text(good)
    worked.clear()
    make = mapping.unit_parts
    for stop in (KeyboardInterrupt(), UnfinishedError("No worker was available.")):

        def stopped(specs, unit, stop=stop):
            if unit == "0002":
                raise stop
            return make(specs, unit)

        monkeypatch.setattr(mapping, "unit_parts", stopped)
        assert asked(world, "out").code > 0
    monkeypatch.setattr(mapping, "unit_parts", make)
    whole = build(world, "out")
    assert [unit for name, unit in worked if name == "unit_parts"] == list(SEQUENCES)
    assert whole == build(world, "anew")
