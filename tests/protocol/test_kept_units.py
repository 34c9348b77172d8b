"""A build works on the units that changed, and what it writes is to the byte what a
build from nothing writes.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import Done, run
from deepval.cells import build as mapping
from deepval.cells import folder as folders
from deepval.cells.build import built
from deepval.cells.spec import specs
from deepval.cells.stored_parts import PartStore, slots
from deepval.errors import UnfinishedError
from deepval.files.canonical import digest_of
from deepval.files.writing import npz_arrays, npz_bytes
from deepval.perception.reported.detection_files import open_detections
from deepval.protocol.cell_builds import UNITS
from kitti_files import UNITS as SEQUENCES
from kitti_files import write_kitti
from street import Street, street
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


def test_a_label_that_changed_is_one_unit_of_work(world, worked):
    build(world, "out")
    everything = len(worked)
    (test, *_), (train, *_) = (roles(world)[role] for role in ("test", "train"))
    assert everything == len(SEQUENCES) * 2 + len(roles(world)["train"])
    relabel(world, test)
    again = build(world, "out")
    assert worked[everything:] == [("shared_part", test), ("unit_parts", test)]
    # Not a byte differs from a build from nothing, and what was kept of the old unit is
    # gone.
    assert again == build(world, "anew")
    # The map from raw scores to probabilities rests on the training units, and what is
    # graded rests on that map.
    relabel(world, train)
    worked.clear()
    again = build(world, "out")
    assert [item for item in worked if item[0] != "shared_part"] == [
        ("scored_outcomes", train),
        ("unit_parts", train),
    ]
    assert [unit for name, unit in worked if name == "shared_part"] == list(SEQUENCES)
    shutil.rmtree(world / "anew")
    assert again == build(world, "anew")


def test_detections_of_a_unit_and_pictures_are_looked_at_unit_by_unit(world, worked):
    build(world, "out")
    unit = roles(world)["test"][0]
    boxes = pq.read_table(world / "large.parquet")
    column = boxes["x1"].to_numpy().copy()
    column[boxes["unit"].to_numpy(zero_copy_only=False) == unit] += 1.0
    pq.write_table(
        boxes.set_column(boxes.schema.get_field_index("x1"), "x1", [column]),
        world / "large.parquet",
    )
    worked.clear()
    again = build(world, "out")
    assert worked == [("shared_part", unit), ("unit_parts", unit)]
    assert again == build(world, "anew")
    picture = world / "kitti_tracking" / "training" / "image_02" / unit / "000001.png"
    picture.parent.mkdir(parents=True)
    picture.touch()
    for cell in ("braking-monocular", "receding-horizon-monocular"):
        (world / "out" / cell / "manifest.json").unlink()
    worked.clear()
    again = build(world, "out")
    assert worked == [("shared_part", unit), ("unit_parts", unit)]
    shutil.rmtree(world / "anew")
    assert again == build(world, "anew")


def test_what_is_damaged_is_made_anew(world, worked):
    whole = build(world, "out")
    worked.clear()
    slot = slots(
        json.loads((world / "out" / "braking-monocular" / "manifest.json").read_text())[
            "definition"
        ]
    )[1]
    lists = list((world / "out" / UNITS / slot).glob("*/kept.json"))
    own = {json.loads(path.read_text())["rests_on"]["unit"]: path for path in lists}
    _flip(own["0000"].with_name("part.npz"))
    os.truncate(own["0001"].with_name("part.npz"), 1_000)
    own["0002"].with_name("part.npz").unlink()
    _flip(own["0003"])
    for cell in ("braking-monocular", "receding-horizon-monocular"):
        (world / "out" / cell / "values.parquet").unlink()
    assert build(world, "out") == whole
    assert worked == [("unit_parts", unit) for unit in SEQUENCES]


def _flip(path: Path) -> None:
    """Turn a bit: of a list, in the hash of its file."""
    data = bytearray(path.read_bytes())
    data[
        data.index(b'"part.npz"') + 14 if path.suffix == ".json" else len(data) // 2
    ] ^= 1
    path.write_bytes(bytes(data))


class Memory(PartStore):
    """Keeps parts as the bytes of a file."""

    def __init__(self):
        self.held = {}

    def read(self, slot, rests_on):
        data = self.held.get((slot, digest_of(rests_on)))
        return None if data is None else npz_arrays(data)

    def write(self, slot, rests_on, arrays):
        self.held[slot, digest_of(rests_on)] = npz_bytes(arrays)


def refuse(work, units):
    assert list(units) == []
    return []


def test_observed_objects_and_ways_along_lanes_are_kept_to_the_byte(
    tmp_path, monkeypatch
):
    wanted, store = specs(street(fails=True), geometries=["cuboids"]), Memory()
    quietly(lambda: list(built(wanted, store=store)))
    assert store.held == {}  # nobody says what a unit of the street rests on
    monkeypatch.setattr(Street, "beside", lambda street, unit: {})
    for name, map_units in (("first", map), ("again", refuse)):
        (cell,) = quietly(
            lambda how=map_units: list(built(wanted, store=store, map_units=how))
        )
        assert np.isfinite(cell.views[0].connector_m).any()
        folders.write(cell, tmp_path / name)
    assert contents(tmp_path / "again") == contents(tmp_path / "first")


def test_what_a_file_says_of_a_unit_does_not_depend_on_others(world):
    def said(**metadata):
        boxes = pq.read_table(world / "small.parquet").replace_schema_metadata(
            {name: json.dumps(value) for name, value in metadata.items()}
        )
        pq.write_table(boxes, world / "told.parquet")
        file = open_detections(world / "told.parquet")
        return [file.unit_digest(unit) for unit in ("0000", "0001", "0009")]

    plain, counted, fewer = (
        said(),
        said(frames_processed={"0000": 8, "0001": 8}),
        said(frames_processed={"0000": 8}),
    )
    assert len(set(plain)) == 3
    assert not set(plain) & set(counted)
    assert [a == b for a, b in zip(counted, fewer, strict=True)] == [True, False, True]
    run_on = (
        said(frames_run={"0000": [0, 1], "0001": [0]}),
        said(frames_run={"0000": [0, 1], "0001": [1]}),
    )
    assert [a == b for a, b in zip(*run_on, strict=True)] == [True, False, True]


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
