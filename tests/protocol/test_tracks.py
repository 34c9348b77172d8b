"""Tracks as data: the paper's facts, ids that rest on every definition, and what a
machine lacks.
"""

import json
import tomllib
from dataclasses import replace

import pytest

from deepval.cells import build, folder, sources
from deepval.cells import spec as splits
from deepval.cells.spec import CellSpec, specs
from deepval.datasets.kitti import Kitti
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from deepval.files.canonical import file_digest, plain
from deepval.protocol import tracks
from deepval.protocol import tracks as cell_folders
from deepval.protocol import tracks as official
from deepval.systems import SYSTEMS
from deepval.systems.system import constants
from deepval.tables.costs import PROFILES
from in_memory import read_units
from shared import shared_data

SMALL = WorldSettings(scenes=4, frames=16)


def cells_of(name):
    return tracks.read_track(name).cells


def test_the_tracks_hold_as_many_cells_as_the_paper_and_the_public_data_give():
    assert {track.name: len(track.cells) for track in tracks.read_tracks()} == {
        "core": 10 + 4 * 4,
        "external": 4,
        "kitti-public": 3 * 2 * 2,
        "synthetic": 2 * 2,
    }
    ids = [cell.id for track in tracks.read_tracks() for cell in track.cells]
    assert len(set(ids)) == 26 + 4 + 12 + 4


def test_facts_of_the_paper():
    core = [cell.definition for cell in cells_of("core")]
    assert {mode["threshold"] for d in core for mode in d["modes"].values()} == {0.25}
    assert {d["dataset"]["name"]: d["dataset"]["test_units"] for d in core} == {
        "kitti": 6,
        "nuscenes": 24,
    }
    planner = [d for d in core if d["system"]["name"] == "learned-planner"]
    assert [d["dataset"]["inputs"] for d in planner] == [2655] * 4
    kitti = next(d for d in core if d["dataset"]["name"] == "kitti")
    assert kitti["costs"]["modes"] == {
        "yolov8s-320": {"ms": 13.18, "gpu_ms": 5.09, "mj": 41.1},
        "yolov8s-640": {"ms": 18.47, "gpu_ms": 9.28, "mj": 84.4},
    }
    nuplan = cells_of("external")[0].definition
    assert (nuplan["dataset"]["inputs"], nuplan["dataset"]["test_units"]) == (
        60 * 24,
        9,
    )
    assert nuplan["costs"]["modes"]["yolov8s-640"] == {"ms": 23.6, "mj": 143.8}
    public = {
        name: mode
        for cell in cells_of("kitti-public")
        for name, mode in cell.definition["modes"].items()
    }
    assert {name: mode.get("threshold") for name, mode in public.items()} == {
        "CIWT": None,
        "RRC": 0.25,
        "YOLOv3-SORT": None,
        "YOLOX-SORT": None,
        "PointGNN": None,
        "PointRCNN": 2.0,
    }
    assert {tuple(mode["classes"]) for mode in public.values()} == {("Car",)}


def test_the_external_cells_are_planners_with_a_loss_each():
    found = [cell.definition for cell in cells_of("external")]
    names = ["pdm-closed-safety", "pdm-closed-scalar", "idm-safety", "idm-scalar"]
    assert [d["system"]["name"] for d in found] == names
    assert {d["loss"] for d in found} == {None}
    weights = [d["system"]["constants"] for d in found]
    assert [(w["collision_weight"], w["shortfall_weight"]) for w in weights] == [
        (10.0, 1.5)
    ] * 4
    assert [w["deviation_weight"] for w in weights] == [0.0, 0.1, 0.0, 0.1]
    for cell, name in zip(cells_of("external"), names, strict=True):
        assert cell.spec.rule == SYSTEMS[name]
        assert cell.name.endswith(f"tracks-{name}")
        # What differs of a cell that is built with this system from the track's own is
        # not the system.
        assert cell.spec.key["system"] == {
            "name": name,
            "constants": plain(constants(SYSTEMS[name])),
        }


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


def test_what_is_missing_is_said_in_words(tmp_path):
    assert all(cell.missing(tmp_path) == [] for cell in cells_of("synthetic"))
    (planner,) = [c for c in cells_of("external") if c.name.endswith("idm-scalar")]
    assert any(
        "0 of 9 found at nuplan/nuplan-v1.1/splits/*/*.db or nuplan/data/**/*.db"
        in line
        for line in planner.missing(tmp_path)
    )
    (learned, *_) = [c for c in cells_of("core") if c.definition["loss"]]
    assert any(
        "0 of 1 found at pkl/planner.pt" in line for line in learned.missing(tmp_path)
    )
    cell = cells_of("kitti-public")[0]
    lacks = cell.missing(tmp_path)
    assert len(lacks) == 4
    assert (
        "0 of 21 found at kitti_tracking/training/oxts/*.txt or "
        "kitti_tracking/training/poses/*.txt"
    ) in lacks[1]
    labels = tmp_path / "kitti_tracking" / "training" / "label_02"
    labels.mkdir(parents=True)
    for sequence in range(20):
        (labels / f"{sequence:04d}.txt").write_text("")
    assert "20 of 21 found" in cell.missing(tmp_path)[0]
    (labels / "0020.txt").write_text("")
    assert "OXTS" in cell.missing(tmp_path)[0]
    assert not any(
        "http" in line
        for track in tracks.read_tracks()
        for c in track.cells
        for line in c.missing(None)
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


@pytest.mark.parametrize(
    "options", [{"seed": 1}, {"threshold": 0.3}, {"settings": SMALL}]
)
def test_another_world_is_in_no_track(options):
    material = sources.synthetic(**{"settings": SMALL, **options})
    (cell,) = build.cells(material)
    told = read_costs_file()
    like = official.track_match(cell.spec, told)
    assert like.cell == cells_of("synthetic")[0]
    assert like.differences


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
        (("dataset", "units"), ["scene-00"], "units must be 48; found 1"),
        (
            ("dataset", "files"),
            {"label_02/0.txt": "ab"},
            "files label_02 must be none; found",
        ),
        (
            ("modes", "yolov8s-320", "seed"),
            1,
            "mode yolov8s-320 seed must be 0; found 1",
        ),
        (
            ("modes", "yolov8s-320", "settings", "frames"),
            8,
            "settings frames must be 40; found 8",
        ),
        (
            ("modes", "yolov8s-640", "size"),
            320,
            "mode yolov8s-640 size must be 640; found 320",
        ),
        (
            ("modes", "yolov8s-640", "threshold"),
            0.3,
            "mode yolov8s-640 threshold must be 0.25; found 0.3",
        ),
        (
            ("modes", "yolov8s-640", "classes"),
            ["Car"],
            "mode yolov8s-640 classes must be none; found ['Car']",
        ),
        (
            ("modes", "yolov8s-640", "scores"),
            "raw",
            "mode yolov8s-640 scores must be none; found 'raw'",
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


def test_costs_and_the_order_of_modes_decide_too(whole):
    definition, modes, costs = json.loads(whole[0]), *whole[1:]
    assert likeness(definition, modes[::-1], costs) is None
    for other, said in (
        (None, "costs must be 'jetson-agx-xavier'; found none"),
        (
            costs | {"profile": "mine"},
            "costs profile must be 'jetson-agx-xavier'; found 'mine'",
        ),
        (
            costs | {"modes": costs["modes"] | {"yolov8s-320": {"ms": 1.0}}},
            "costs modes yolov8s-320 ms must be 13.18",
        ),
    ):
        assert said in likeness(definition, modes, other).differences[0]
    assert (
        likeness(
            definition | {"dataset": definition["dataset"] | {"name": "mars"}},
            modes,
            costs,
        )
        is None
    )


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"dataset": {"name": "mars"}, "system": {}},
        {"dataset": {"name": "synthetic"}, "system": None},
        {
            "dataset": {"name": "synthetic", "files": 3, "units": 3},
            "modes": [],
            "system": "braking",
        },
    ],
)
def test_what_tells_of_no_cell_is_refused_in_a_sentence(whole, strange, tmp_path):
    with pytest.raises(
        InputError, match="a cell's definition must name its data set, modes"
    ):
        likeness(strange, *whole[1:])
    (cell,) = build.cells(sources.synthetic(settings=SMALL))
    manifest = folder.write(cell, tmp_path / "one")
    manifest.write_text(
        json.dumps(json.loads(manifest.read_text()) | {"definition": strange})
    )
    with pytest.raises(
        InputError, match="a cell's definition must name its data set, modes"
    ):
        cell_folders.read_cells(tmp_path)


def test_a_track_without_hashes_has_no_official_cell(whole):
    definition, modes, costs = json.loads(whole[0]), *whole[1:]
    definition["dataset"] |= {"name": "kitti", "units": list("abcdefghijklmnopqrstu")}
    like = likeness(definition, modes, costs)
    assert (like.cell.track, len(like.differences)) == ("core", 1)
    assert "publishes no hashes" in like.differences[0]
    assert all(
        not cell.published for name in ("core", "external") for cell in cells_of(name)
    )
    public = [
        mode
        for cell in cells_of("kitti-public")
        for mode in cell.definition["modes"].values()
    ]
    assert all(len(mode["sha256"]) == 64 for mode in public)


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
