"""Tracks as data: the paper's facts, ids that rest on every definition, and what a
machine lacks.
"""

import json
import tomllib
from dataclasses import replace

import pytest

from deepval.basics.errors import InputError
from deepval.basics.files.canonical import file_digest
from deepval.deploy.board import tracks
from deepval.deploy.board import tracks as cell_folders
from deepval.deploy.board import tracks as official
from deepval.driving.cells import build, folder, sources
from deepval.driving.cells import spec as splits
from deepval.driving.cells.spec import CellSpec, specs
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.judge.tables.costs import PROFILES
from in_memory import read_units
from shared import shared_data

SMALL = WorldSettings(scenes=4, frames=16)


def cells_of(name):
    return tracks.read_track(name).cells


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (("geometry",), "oracle"),
        (("modes", "yolov8s-320", "threshold"), 0.3),
        (("system", "constants", "hard_mps2"), 9.0),
        (("dataset", "test_units"), 5),
        (("costs", "modes", "yolov8s-640", "ms"), 1.0),
        (("cheap_first",), ["yolov8s-640", "yolov8s-320"]),
    ],
)
def test_an_id_rests_on_every_definition(part, value):
    cell = cells_of("synthetic")[0]
    changed = json.loads(json.dumps(cell.definition))
    place = changed
    for key in part[:-1]:
        place = place[key]
    place[part[-1]] = value
    assert (
        tracks.TrackCell(cell.track, changed, ()).id.rsplit("-", 1)[1]
        != cell.id.rsplit("-", 1)[1]
    )


def test_the_synthetic_track_is_what_the_package_builds(tmp_path):
    material = sources.synthetic()
    (cell,) = build.cells(material)
    folder.write(cell, tmp_path / "one", costs=PROFILES["jetson-agx-xavier"])
    built = cell_folders.read_cells(tmp_path)["one"]
    assert built.official == cells_of("synthetic")[0]
    assert (built.track, built.profile) == ("synthetic", "jetson-agx-xavier")
    facts = built.official.definition["dataset"]
    assert len(built.table) == facts["inputs"]
    assert (len(built.split.test), len(built.split.validation)) == (
        facts["test_units"],
        facts["validation_units"],
    )


def likeness(definition, modes, costs):
    """What a folder's manifest and costs make of its cell."""
    return official.track_match(CellSpec.from_definition(definition, modes), costs)


def read_costs_file():
    return tomllib.loads(PROFILES["jetson-agx-xavier"].read_text())


@pytest.fixture(scope="module")
def whole():
    """The definition, modes and costs of an official synthetic cell as its folder tells
    them.
    """
    cell = cells_of("synthetic")[0]
    dataset = cell.definition["dataset"]
    mode = {
        "source": "synthetic",
        "seed": dataset["seed"],
        "settings": dataset["settings"],
        "classes": None,
    }
    definition = {
        "dataset": {
            "name": "synthetic",
            "files": {},
            "units": [f"scene-{place:02d}" for place in range(48)],
        },
        "modes": {
            name: mode | {"size": int(name[-3:]), "threshold": 0.25}
            for name in cell.definition["modes"]
        },
        "geometry": "monocular",
        "persistence": False,
        "system": cell.definition["system"],
    }
    return json.dumps(definition), ("yolov8s-320", "yolov8s-640"), read_costs_file()


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        (("persistence",), True, "persistence must be False; found True"),
        (
            ("modes", "yolov8s-320", "seed"),
            1,
            "mode yolov8s-320 seed must be 0; found 1",
        ),
        (
            ("modes", "yolov8s-640", "threshold"),
            0.3,
            "mode yolov8s-640 threshold must be 0.25; found 0.3",
        ),
        (
            ("system", "constants", "hard_mps2"),
            9.0,
            "system constants hard_mps2 must be",
        ),
    ],
)
def test_a_cell_that_differs_in_one_point_is_not_official_and_the_point_is_named(
    whole, part, value, said
):
    definition, modes, costs = json.loads(whole[0]), *whole[1:]
    assert likeness(definition, modes, costs) == (cells_of("synthetic")[0], ())
    place = definition
    for key in part[:-1]:
        place = place[key]
    place[part[-1]] = value
    (found,) = likeness(definition, modes, costs).differences
    assert said in found


def test_a_detections_file_of_another_hash_is_said(tmp_path):
    place = tmp_path / "kitti_tracking" / "detections"
    place.mkdir(parents=True)
    (place / "CIWT.parquet").write_bytes(b"YOLOv3-SORT")
    lacks = cells_of("kitti-public")[0].missing(tmp_path)
    assert any(
        "CIWT" in line and "is another: its SHA-256 must be 0bcf9303" in line
        for line in lacks
    )


def test_a_split_or_an_id_of_ones_own_is_not_official(tmp_path):
    material = sources.synthetic()
    (cell,) = build.cells(material)
    folder.write(cell, tmp_path / "one", costs=PROFILES["jetson-agx-xavier"])
    manifest = tmp_path / "one" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"id": "synthetic-0123456789ab"}))
    like = cell_folders.read_cells(tmp_path)["one"].match
    assert like.differences == (
        "its id must be the hash of its definition; found another",
    )
    chosen = splits.split("synthetic", material.units, test_units=3)
    (tmp_path / "one" / "split.json").write_text(chosen.to_json())
    content["files"]["split.json"] = file_digest(tmp_path / "one" / "split.json")
    manifest.write_text(json.dumps(content))
    found = cell_folders.read_cells(tmp_path)["one"]
    assert found.match.differences == (
        "its split must be the frozen one; found another",
    )
    assert (found.official, found.track) == (None, "local")


def test_a_cell_whose_files_changed_is_refused(tmp_path):
    material = sources.synthetic(settings=SMALL)
    (cell,) = build.cells(material)
    folder.write(cell, tmp_path / "pair" / "one")
    assert list(cell_folders.read_cells(tmp_path)) == ["pair-one"]
    assert cell_folders.read_cells(tmp_path)["pair-one"].track == "local"
    (tmp_path / "pair" / "one" / "split.json").write_text("{}")
    with pytest.raises(InputError, match="must be as it was built"):
        cell_folders.read_cells(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        cell_folders.read_cells(tmp_path / "none")
    with pytest.raises(InputError, match="no manifest"):
        cell_folders.read_cells(tmp_path / "pair" / "one")


@pytest.mark.shared
def test_public_detections_on_this_machine_make_the_tracks_cells():
    root = shared_data("kitti_tracking")
    cell = next(
        c
        for c in cells_of("kitti-public")
        if c.name == "kitti-PointGNN-PointRCNN-monocular-braking"
    )
    assert cell.missing(root.parent) == []
    modes = cell.definition["modes"]
    files = [
        sources.ModeFile(
            name,
            root / "detections" / mode["source"],
            mode.get("threshold"),
            mode["scores"],
            tuple(mode["classes"]),
        )
        for name, mode in modes.items()
    ]

    def found(files):
        (spec,) = specs(sources.from_files(Kitti(root), files))
        return official.track_match(spec, None)

    assert found(files) == (cell, ())
    assert (
        sum(map(len, read_units(Kitti(root)).scenes))
        == cell.definition["dataset"]["inputs"]
    )
    other = root / "detections" / "YOLOv3-SORT.parquet"
    faked = found([replace(files[0], path=other), files[1]])
    assert faked.cell == cell
    (difference,) = faked.differences
    assert difference.startswith("mode PointGNN sha256 must be 'bbf44c83")
