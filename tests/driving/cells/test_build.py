"""Cells in folders: the same bytes every time, whatever interrupts the making, and
refusals in one sentence.
"""

import hashlib
import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deepval
from commands import MODULE, refusal, run, run_process
from deepval.basics.errors import InputError
from deepval.basics.files.canonical import digest_of
from deepval.driving.cells import build as building
from deepval.driving.cells import folder as folders
from deepval.driving.cells import sources
from deepval.driving.cells import unit as parts
from deepval.driving.cells.spec import specs
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.datasets.synthetic import WorldSettings
from deepval.driving.perception.reported import ap_swap, losses
from deepval.driving.systems.braking import Braking
from evidence_worlds import in_memory
from shared import shared_data

SMALL = WorldSettings(scenes=5, frames=12)


@pytest.fixture(scope="module")
def material():
    return sources.synthetic(settings=SMALL)


def made(material, **options):
    return list(building.cells(material, **options))


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def test_a_cell_s_table_is_what_its_folder_holds(material, tmp_path):
    (cell,) = made(material)
    folders.write(cell, tmp_path)
    read = deepval.read_values(tmp_path / "values.parquet")
    assert np.array_equal(read.losses, cell.table.losses)
    assert (read.modes, len(read)) == (("yolov8s-320", "yolov8s-640"), 60)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["id"] == cell.id
    assert set(manifest["files"]) == {
        "values.parquet",
        "terms.parquet",
        "evidence.parquet",
        "split.json",
        "frames.json",
        "view/frames.parquet",
        "view/boxes.parquet",
        "view/view.json",
        "outputs/full.parquet",
        "outputs/reference.parquet",
    }
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


def test_the_id_rests_on_every_definition(material):
    (plain,) = made(material)
    (wider,) = made(material, systems=(Braking(change_weight=0.04),))
    (filtered,) = made(material, persistence=True)
    (other,) = made(sources.synthetic(settings=SMALL, seed=1))
    assert (
        len(
            {
                digest_of(cell.spec.definition)
                for cell in (plain, wider, filtered, other)
            }
        )
        == 4
    )
    (again,) = made(sources.synthetic(settings=SMALL))
    assert again.id == plain.id


def test_building_twice_gives_the_same_bytes_and_leaves_a_whole_cell_alone(
    material, tmp_path
):
    (cell,) = made(material)
    folders.write(cell, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    first = digests(tmp_path)
    folders.write(cell, tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    (tmp_path / "values.parquet").write_bytes(b"damaged")
    folders.write(cell, tmp_path)
    assert digests(tmp_path) == first


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again_it_ends_with_the_same_bytes(tmp_path):
    words = ["build", "--units", "scene-00,scene-01,scene-02"]
    words += [
        "--geometry",
        "monocular",
        "--geometry",
        "oracle",
        "--system",
        "braking",
        "--system",
        "lateral",
    ]
    began = time.monotonic()
    assert run_process(*words, "--out", tmp_path / "whole").code == 0
    took = time.monotonic() - began
    for share in (0.5, 0.7, 0.8, 0.9, 0.95):
        process = subprocess.Popen(
            [*MODULE, *words, "--out", str(tmp_path / "cut")], stdout=subprocess.DEVNULL
        )
        time.sleep(share * took)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert run_process(*words, "--out", tmp_path / "cut").code == 0
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--mode", "yolov8s-320"),
            "A cell needs two modes or more, cheap first; found 1",
        ),
        (("--mode", "a", "--mode", "b"), "Modes of the synthetic world must be among"),
        (
            ("--system", "flying"),
            "--system must be one of braking, receding-horizon, lateral, "
            "pdm-closed-safety, pdm-closed-scalar, idm-safety, idm-scalar, "
            "planner-ade, planner-fde, planner-self-ade, planner-self-fde; "
            "found 'flying'",
        ),
        (
            ("--geometry", "flat"),
            'Invalid value "flat" for --geometry. Choose from: "monocular", "oracle", '
            '"cuboids", "tracks", "tracks-no-fp", "tracks-iou-05". '
            "See deepval build -h.",
        ),
        (
            ("--dataset", "mars"),
            "--dataset must be one of kitti, nuplan, nuscenes, scenarionet, "
            "synthetic; found 'mars'",
        ),
        (("--dataset", "kitti"), "--dataset kitti needs --root"),
        (
            ("--threshold", "high"),
            "--threshold must be a number or NAME=NUMBER; found 'high'",
        ),
        (
            (
                "--dataset",
                "kitti",
                "--root",
                "nowhere",
                "--mode",
                "a=b",
                "--mode",
                "c=d",
            ),
            "--root must be the folder",
        ),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path):
    assert sentence in refusal("build", "--out", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_costs_of_other_modes_are_refused_before_anything_is_written(
    material, tmp_path
):
    costs, out = tmp_path / "costs.toml", tmp_path / "cells"
    costs.write_text("[modes.small]\nms = 1\n[modes.large]\nms = 2\n")
    done = run(
        "build",
        "--units",
        "scene-00,scene-01,scene-02,scene-03",
        "--costs",
        costs,
        "--out",
        out,
    )
    assert (done.code, done.out, out.exists()) == (2, "", False)
    assert (
        "costs must be those of the modes yolov8s-320, yolov8s-640; "
        "it has none of yolov8s-320"
    ) in done.err
    (cell,) = building.cells(material)
    with pytest.raises(InputError, match="Its modes are small, large"):
        folders.write(cell, out, costs=costs)
    assert not out.exists()


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_a_build_reads_each_unit_once_and_matches_each_report_once(
    material, monkeypatch, threshold
):
    reads, pairings, matchings = [], [], []

    def counted(function, calls, key):
        def call(first, *others, **options):
            calls.append(key(first, *others))
            return function(first, *others, **options)

        return call

    recording = in_memory(material)
    cheap, full = recording.modes
    report = replace(cheap.reader.report, scores="raw")
    modes = (
        replace(
            cheap, reader=replace(cheap.reader, report=report), threshold=threshold
        ),
        full,
    )
    source = type(recording.source)
    monkeypatch.setattr(
        source, "read_unit", counted(source.read_unit, reads, lambda _, unit: unit)
    )
    for name, calls in (("match_candidates", pairings), ("matching", matchings)):
        function = counted(getattr(losses, name), calls, lambda report, _: report.unit)
        for module in (parts, ap_swap, losses):
            monkeypatch.setattr(module, name, function, raising=False)
    requested = specs(
        replace(recording, modes=modes),
        geometries=("monocular", "oracle"),
        systems=("braking", "lateral"),
    )
    built = list(building.built(requested))
    assert len(built) == 4
    assert built[0].shared.calibrations
    assert built[0].shared.evidence
    units, train = list(requested[0].units), requested[0].roles.train
    assert sorted(reads) == units
    assert sorted(pairings) == sorted(2 * units)
    # A calibration is fitted on the whole report; with a threshold, losses match a part
    # of it.
    assert sorted(matchings) == sorted(
        [*2 * units, *([] if threshold is None else train)]
    )


@pytest.mark.shared
def test_real_kitti_by_the_command(tmp_path):
    root = shared_data("kitti_tracking")
    words = ["build", "--dataset", "kitti", "--root", root, "--class", "Car"]
    for name in ("CIWT", "RRC"):
        words += ["--mode", f"{name}={root / 'detections' / f'{name}.parquet'}"]
    words += [
        "--threshold",
        "RRC=0.25",
        "--scores-are",
        "CIWT=raw",
        "--out",
        tmp_path,
        "--json",
    ]
    done = run(*words, notes=True)
    assert done.code == 0, done.err
    assert "mode CIWT reports nothing at all in unit 0017" in done.err
    (cell,) = json.loads(done.out)
    assert cell["affected"] == pytest.approx(718, abs=2)
    assert cell["harm_rate"] == pytest.approx(0.543, abs=0.0005)
    assert cell["harm_ratio"] == pytest.approx(1.063, abs=0.0005)
    assert cell["all_full_share"] == pytest.approx(-0.0067, abs=0.00005)
    assert cell["oracle_share"] == pytest.approx(0.1061, abs=0.00005)
    assert cell["cheap_loss"] == pytest.approx(10297, abs=0.5)


@pytest.mark.shared
def test_the_three_step_ladder_is_a_multi_fidelity_cell(tmp_path):
    root = shared_data("kitti_tracking")
    names = ("YOLOv3-SORT", "YOLOv4-SORT", "YOLOX-SORT")
    files = [
        sources.ModeFile(
            name,
            root / "detections" / f"{name}.parquet",
            scores="none",
            classes=("Car",),
        )
        for name in names
    ]
    (cell,) = made(sources.from_files(Kitti(root), files))
    costs = {
        "modes": {
            "YOLOv3-SORT": {"ms": 10},
            "YOLOv4-SORT": {"ms": 15},
            "YOLOX-SORT": {"ms": 20},
        }
    }
    budget = deepval.Latency(0.2, costs | {"allocators": {"speed": {"ms": 0}}})
    result = deepval.evaluate(
        cell.table,
        {"speed": cell.table.attributes["ego_speed_mps"]},
        [budget],
        draws=20,
    )
    (optimum,) = result.ladder
    assert sum(optimum["modes"].values()) == 8008
    assert optimum["modes"]["YOLOv4-SORT"] > 0
    assert 0 < optimum["full_only_share"] <= 1
    assert optimum["gap"] < 1e-6 * optimum["value"]
