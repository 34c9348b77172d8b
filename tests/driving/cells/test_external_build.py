"""Logs of every source go the same way: build, fit, score, evaluate, report; what is
wrong is one sentence.
"""

import json
import os
import pickle
import warnings
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from PIL import Image
from test_scenarionet import made_record

import external_worlds
import nuplan_files
import onnx_models
from commands import run
from deepval.basics.errors import InputWarning
from deepval.deploy.features import TRACKED_NAMES, tracked_features
from deepval.deploy.fitting import sights_of
from deepval.driving.cells.folder import read_cell
from external_worlds import WORLDS

pytest.importorskip("shapely", reason="the extra `planners` has shapely")
SYSTEMS = ("pdm-closed-safety", "pdm-closed-scalar", "idm-safety", "idm-scalar")
PAIRS = (("none", "reference"), ("profile-320", "profile-640"))
CASES = [
    ("nuplan", PAIRS[0]),
    ("scenarionet", PAIRS[1]),
]
"""Every source and every pair; the others are in tests/slow."""
HOME = Path(mkdtemp(prefix="deepval-external-"))
SIGNALS = ("ego-speed", "criticality")


def told(*words):
    """The command in this process, with its notes on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        return run(*words)


def done(*words):
    found = told(*words)
    assert found.code == 0, found.err
    return found


@cache
def logs(name):
    return WORLDS[name](HOME / name)


def built(name, root, pair, out):
    words = [word for mode in pair for word in ("--mode", mode)]
    words += [word for system in SYSTEMS for word in ("--system", system)]
    return done(
        "build",
        "--dataset",
        name,
        "--root",
        root,
        "--geometry",
        "tracks",
        *words,
        "--out",
        out,
    )


@cache
def cells(name, pair):
    """Folders of the four cells, and what the command said."""
    out = HOME / f"{name}-{pair[0]}"
    said = built(name, logs(name), pair, out)
    return {system: out / f"{system}-tracks" for system in SYSTEMS}, said


def check_cell(folder, *, fits):
    """Everything that a cell is for, on its own folder."""
    cell = read_cell(folder)
    assert len(cell.table) > 0
    assert np.isfinite(cell.table.losses).all()
    assert (
        sum(len(view.objects) for view in cell.views) > 0 or "none" in cell.table.modes
    )
    for sight in sights_of(cell):
        rows = np.array([tracked_features(glance) for glance in sight.glances])
        assert rows.shape == (len(sight.view.scene), len(TRACKED_NAMES))
        # What needs the frame before is not known in the first; where nobody is
        # observed there is no mean speed.
        assert np.isfinite(
            rows[
                1:,
                [
                    TRACKED_NAMES.index(n)
                    for n in ("ego_speed_mps", "connector_m", "nearest_m")
                ],
            ]
        ).all()
    for signal in SIGNALS:
        assert "coverage 100.0%" in done("score", folder, signal).out
    if fits:
        done("fit", folder, "--allocator", "gate-ridge")
        assert "coverage 100.0%" in done("score", folder, "gate-ridge").out
    judged = json.loads(done("evaluate", folder, "--draws", "20", "--json").out)
    assert {row["allocator"] for row in judged["rows"]} >= {
        *SIGNALS,
        *(["gate-ridge"] if fits else []),
    }
    page = folder.parent / f"{folder.name}.html"
    done("report", folder, "--out", page)
    frames = json.loads((folder / "frames.json").read_text())["frames"]
    assert all(frame["road"]["lanes"] for frame in frames)
    assert all(
        len(mode["poses"]) == 8 for frame in frames for mode in frame["modes"].values()
    )
    if frames:
        assert '"lanes"' in page.read_text(encoding="utf-8")
    return judged


@pytest.mark.parametrize(
    ("name", "pair"),
    CASES,
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_every_source_goes_the_same_way(name, pair):
    folders, said = cells(name, pair)
    check_cells(folders, said, fits=name == "scenarionet")


def check_cells(folders, said, *, fits):
    assert ("too few for a split" in said.err) is not fits
    found = {system: read_cell(folder) for system, folder in folders.items()}
    for planner in ("pdm-closed", "idm"):
        # Every state is planned for and judged by one plan under two weightings.
        safety, scalar = (
            found[f"{planner}-{kind}"].table for kind in ("safety", "scalar")
        )
        assert (scalar.losses >= safety.losses).all()
        assert np.isfinite(scalar.losses).all()
    check_cell(folders["pdm-closed-scalar"], fits=fits)


def test_logs_of_several_drives_have_a_split(tmp_path):
    """nuPlan: three units, one of two drives that have a route each; named as a shipped
    costs file has its modes.
    """
    root = external_worlds.nuplan_logs(tmp_path / "logs")
    words = (
        "--dataset",
        "nuplan",
        "--root",
        root,
        "--geometry",
        "tracks",
        "--system",
        "idm-scalar",
    )
    named = (
        "--mode",
        "yolov8s-320=profile-320",
        "--mode",
        "yolov8s-640=profile-640",
        "--seed",
        "3",
    )
    costs = ("--costs", "jetson-agx-xavier-nuplan")
    assert done("build", *words, *named, *costs, "--out", tmp_path).err.strip() == ""
    folder = tmp_path / "idm-scalar-tracks"
    cell = read_cell(folder)
    assert (len(cell.split.units), len(cell.table)) == (3, 4 * 24)
    assert cell.spec.modes[0].made["size"] == 320
    assert "--mode yolov8s-320=profile-320" in cell.spec.command(
        root="r", files={}, out="o"
    )
    done("fit", folder, "--allocator", "gate-ridge")
    for name in ("ego-speed", "criticality", "gate-ridge"):
        done("score", folder, name)
    rows = json.loads(done("evaluate", folder, "--draws", "0", "--json").out)["rows"]
    unpriced = {
        (row["kind"], row["allocator"])
        for row in rows
        if row["reason"] == "no cost known"
    }
    assert {row["kind"] for row in rows} == {"selection", "latency", "energy"}
    # the profile has no energy of these
    assert unpriced == {("energy", "criticality"), ("energy", "gate-ridge")}


def test_one_log_is_judged_on_and_labelled(tmp_path):
    folders, said = cells("nuplan", PAIRS[0])
    assert said.err == (
        "deepval: note: 1 unit is too few for a split, which needs 3: all units of "
        "nuplan are judged, nothing is held out, and no allocator "
        "can be fitted here.\n"
    )
    folder = folders["idm-scalar"]
    refused = told("fit", folder, "--allocator", "gate-ridge")
    assert (refused.code, refused.out) == (2, "")
    assert (
        "there is nothing to fit on: 1 unit is too few for a split, which needs 3"
        in refused.err
    )
    assert not (folder / "allocators").exists()
    done("score", folder, "ego-speed")
    label = (
        "1 unit is too few for a split, which needs 3: all are judged "
        "on, nothing was held out."
    )
    judged = done("evaluate", folder, "--out", tmp_path / "result.json")
    assert (judged.out + judged.err).count(label) == 1
    tables = done("evaluate", folder, "--all")
    assert label in " ".join(tables.out.split())
    assert tables.err == ""  # the note is printed once, above the tables
    assert label in json.loads((tmp_path / "result.json").read_text())["warnings"][0]
    done("report", folder, "--out", tmp_path / "page.html")
    assert label in (tmp_path / "page.html").read_text(encoding="utf-8")


class Escape:
    """What asks for a command when a careless reader loads it."""

    def __reduce__(self):
        return os.mkdir, (str(HOME / "escaped"),)


def refused(name, root, tmp_path, *, system="idm-safety"):
    """What the command says where it refuses to build: one sentence, and nothing is
    written.
    """
    words = (
        "--mode",
        "none",
        "--mode",
        "reference",
        "--geometry",
        "tracks",
        "--system",
        system,
    )
    found = told(
        "build", "--dataset", name, "--root", root, *words, "--out", tmp_path / "cells"
    )
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("deepval: ")
    assert found.err.count("\n") == 1
    assert "Traceback" not in found.err
    assert not (tmp_path / "cells").exists()
    return found.err


def write_record(root, record):
    """The folder of a record."""
    root.mkdir()
    (root / "sd_made.pkl").write_bytes(pickle.dumps(record, protocol=4))
    return root


def test_a_hole_in_time_is_told(tmp_path):
    record = made_record(steps=51)
    record["metadata"]["ts"][20:] += 0.7
    said = refused("scenarionet", write_record(tmp_path / "logs", record), tmp_path)
    assert (
        "a log must have a step every 0.1 s; from step 19 to 20 there are 0.8 s" in said
    )


def test_a_pickle_that_asks_for_more_is_told_and_not_run(tmp_path):
    record = made_record(steps=51) | {"more": Escape()}
    said = refused("scenarionet", write_record(tmp_path / "logs", record), tmp_path)
    assert (
        "sd_made.pkl: must be a pickle of plain containers and NumPy arrays; it "
        "asks for posix.mkdir, which is not loaded"
    ) in said
    assert not (HOME / "escaped").exists()


@pytest.mark.long
def test_nuplan_goes_from_pictures_to_a_page(tmp_path):
    """The commands of docs/external.md on a small tree in the owners' layout; one
    picture is missing.
    """
    data, log = tmp_path / "DATA" / "nuplan", nuplan_files.LOG
    made = external_worlds.nuplan(tmp_path / "made")
    splits = data / "nuplan-v1.1" / "splits" / "mini"
    splits.mkdir(parents=True)
    next(made.rglob("*.db")).rename(splits / f"{log}.db")
    (made / "maps").rename(data / "maps")
    pictures = data / "nuplan-v1.1" / "sensor_blobs" / log / "CAM_F0"
    pictures.mkdir(parents=True)
    for sweep in range(2, 130, 2):
        Image.fromarray(np.full((108, 192, 3), 60 + sweep, np.uint8)).save(
            pictures / f"{sweep:06d}.jpg"
        )
    weights = onnx_models.yolov8(tmp_path / "tiny.onnx")
    chosen = ("--dataset", "nuplan", "--root", data, "--units", "sample:1")
    sizes = ("--size", "64", "--size", "96", "--samples", "0")
    seen = done(
        "detect", *chosen, "-w", weights, *sizes, "--out", tmp_path / "detections"
    )
    assert "1 of 24 states have no CAM_F0 picture and are left out" in seen.err
    modes = [
        word
        for side in (64, 96)
        for word in ("--mode", f"s{side}={tmp_path / 'detections' / f'tiny-{side}'}")
    ]
    done(
        "build",
        *chosen,
        *modes,
        "--geometry",
        "tracks",
        "--system",
        "idm-safety",
        "--out",
        tmp_path,
    )
    folder = tmp_path / "idm-safety-tracks"
    assert len(read_cell(folder).table) == 23
    done("score", folder, "ego-speed")
    done("evaluate", folder, "--draws", "0")
    done("report", folder, "--out", tmp_path / "page.html")
    assert (tmp_path / "page.html").is_file()
    # Of two modes that differ on some frame, page and gallery have the pictures.
    ends = ("--mode", "none-camera", "--mode", "profile-640")
    done(
        "build",
        *chosen,
        *ends,
        "--geometry",
        "tracks",
        "--system",
        "idm-scalar",
        "--out",
        tmp_path / "ends",
    )
    folder = tmp_path / "ends" / "idm-scalar-tracks"
    frames = json.loads((folder / "frames.json").read_text())["frames"]
    done("score", folder, "ego-speed")
    done(
        "report",
        folder,
        "--images",
        "--image-root",
        data,
        "--out",
        tmp_path / "page.html",
    )
    assert (
        (tmp_path / "page.html").read_text().count("data:image/jpeg") == len(frames) > 0
    )
    gallery = done(
        "analyse",
        "gallery",
        folder,
        "--figure",
        tmp_path / "gallery.png",
        "--json",
    )
    rows = {row["input"]: Path(row["picture"]) for row in json.loads(gallery.out)}
    assert {name: path.name for name, path in rows.items()} == {
        frame["input"]: Path(frame["image"]).name for frame in frames
    }
    assert {path.parent for path in rows.values()} == {pictures}
