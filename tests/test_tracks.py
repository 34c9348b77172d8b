"""Tracks as data: the paper's facts, ids that rest on every definition, and what a machine lacks."""

import json

import pytest

from deepval.benchmark import build, cell_folders, folder, sources, tracks
from deepval.costs import PROFILES
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from shared import shared_data

SMALL = WorldSettings(scenes=4, frames=16)


def cells_of(name):
    return tracks.read_track(name).cells


def test_the_tracks_hold_as_many_cells_as_the_paper_and_the_public_data_give():
    assert {track.name: len(track.cells) for track in tracks.read_tracks()} == {
        "core": 10,
        "external": 4,
        "kitti-public": 3 * 2 * 2,
        "synthetic": 2 * 2,
    }
    ids = [cell.id for track in tracks.read_tracks() for cell in track.cells]
    assert len(set(ids)) == 10 + 4 + 12 + 4


def test_facts_of_the_paper():
    core = [cell.definition for cell in cells_of("core")]
    assert {mode["threshold"] for d in core for mode in d["modes"].values()} == {0.25}
    assert {d["dataset"]["name"]: d["dataset"]["test_units"] for d in core} == {"kitti": 6, "nuscenes": 24}
    planner = [d for d in core if d["system"]["name"] == "learned-planner"]
    assert [d["dataset"]["inputs"] for d in planner] == [2655] * 4
    kitti = next(d for d in core if d["dataset"]["name"] == "kitti")
    assert kitti["costs"]["modes"] == {
        "yolov8s-320": {"ms": 13.18, "gpu_ms": 5.09, "mj": 41.1},
        "yolov8s-640": {"ms": 18.47, "gpu_ms": 9.28, "mj": 84.4},
    }
    nuplan = cells_of("external")[0].definition
    assert (nuplan["dataset"]["inputs"], nuplan["dataset"]["test_units"]) == (60 * 24, 9)
    assert nuplan["costs"]["modes"]["yolov8s-640"] == {"ms": 23.6, "mj": 143.8}
    public = {name: mode for cell in cells_of("kitti-public") for name, mode in cell.definition["modes"].items()}
    assert {name: mode.get("threshold") for name, mode in public.items()} == {
        "CIWT": None, "RRC": 0.25, "YOLOv3-SORT": None, "YOLOX-SORT": None, "PointGNN": None, "PointRCNN": 2.0,
    }  # fmt: skip
    assert {tuple(mode["classes"]) for mode in public.values()} == {("Car",)}


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
    assert tracks.TrackCell(cell.track, changed, ()).id.rsplit("-", 1)[1] != cell.id.rsplit("-", 1)[1]


def test_what_is_missing_is_said_in_words(tmp_path):
    assert all(cell.missing(tmp_path) == [] for cell in cells_of("synthetic"))
    (planner,) = [c for c in cells_of("external") if c.name.endswith("idm-scalar")]
    assert "'idm': not in this version" in planner.missing(tmp_path)[0]
    cell = cells_of("kitti-public")[0]
    lacks = cell.missing(tmp_path)
    assert len(lacks) == 4
    assert "0 of 21 found at kitti_tracking/training/oxts/*.txt or kitti_tracking/training/poses/*.txt" in lacks[1]
    labels = tmp_path / "kitti_tracking" / "training" / "label_02"
    labels.mkdir(parents=True)
    for sequence in range(20):
        (labels / f"{sequence:04d}.txt").write_text("")
    assert "20 of 21 found" in cell.missing(tmp_path)[0]
    (labels / "0020.txt").write_text("")
    assert "OXTS" in cell.missing(tmp_path)[0]
    assert not any("http" in line for track in tracks.read_tracks() for c in track.cells for line in c.missing(None))


def test_the_synthetic_track_is_what_the_package_builds(tmp_path):
    material = sources.synthetic()
    (cell,) = build.cells(material.dataset, material.modes)
    folder.write(cell, tmp_path / "one", costs=PROFILES["jetson-agx-xavier"])
    built = cell_folders.read_cells(tmp_path)["one"]
    assert built.official == cells_of("synthetic")[0]
    assert (built.track, built.profile) == ("synthetic", "jetson-agx-xavier")
    facts = built.official.definition["dataset"]
    assert len(built.table) == facts["inputs"]
    assert (len(built.split.test), len(built.split.validation)) == (facts["test_units"], facts["validation_units"])


@pytest.mark.parametrize("options", [{"seed": 1}, {"threshold": 0.3}, {"settings": SMALL}])
def test_another_world_is_in_no_track(options):
    material = sources.synthetic(**{"settings": SMALL, **options})
    (cell,) = build.cells(material.dataset, material.modes)
    assert tracks.cell_of(build.plain(cell.definition), cell.table.modes) is None


def test_a_cell_whose_files_changed_is_refused(tmp_path):
    material = sources.synthetic(settings=SMALL)
    (cell,) = build.cells(material.dataset, material.modes)
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
    cell = next(c for c in cells_of("kitti-public") if c.name == "kitti-PointGNN-PointRCNN-monocular-braking")
    assert cell.missing(root.parent) == []
    modes = cell.definition["modes"]
    files = [
        sources.ModeFile(
            name, root / "detections" / mode["source"], mode.get("threshold"), mode["scores"], tuple(mode["classes"])
        )
        for name, mode in modes.items()
    ]
    material = sources.kitti(root, files)
    definition = {
        "dataset": {"name": material.dataset.name, "units": list(material.dataset.units)},
        "modes": {name: dict(mode.definition) for name, mode in material.modes.items()},
        "geometry": "monocular",
        "persistence": False,
        "system": cell.definition["system"],
    }
    assert tracks.cell_of(definition, list(modes)) == cell
    assert sum(len(scene) for scene in material.dataset.scenes) == cell.definition["dataset"]["inputs"]
