"""Cells of the learned planner's systems, and the commands that build them, with
weights that studies/train_planner.py trained.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

import train_planner
from commands import run
from deepval.basics.errors import InputError
from deepval.deploy.fitting import score_on
from deepval.driving.cells.build import cells
from deepval.driving.cells.folder import read_cell, write
from deepval.driving.cells.sources import ModeFile, from_files
from deepval.driving.cells.spec import CellSpec, Material, ModeSpec, specs
from deepval.driving.datasets import DATASETS
from deepval.driving.frames import path_m, trivial_plans, words
from deepval.driving.planners.neural.plan_metrics import STEPS
from deepval.driving.planners.neural.planner import MANIFEST, TRAINED_HERE
from deepval.driving.systems.learned import LEARNED, learned_planners
from deepval.driving.systems.system import constants, settable
from driving import Lidar
from learned_worlds import AHEAD, FRAMES, Roads, fan, small_weights
from train_planner import masks_bytes, npz_bytes
from whole_sets import viability

MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (5.0, 500.0)
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(DATASETS, "roads", Roads)


@pytest.fixture
def files(tmp_path):
    weights, masks = tmp_path / "w.npz", tmp_path / "m.npz"
    weights.write_bytes(npz_bytes(small_weights().arrays))
    masks.write_bytes(masks_bytes(fan()))
    return {"weights": weights, "masks": masks}


UNITS = ("road-0", "road-1", "road-2")


def material():
    return Material(Roads(), MODES, UNITS)


def test_a_plan_is_judged_by_where_the_vehicle_went(files):
    scene, truth = Roads().read_unit("road-0")
    ade, fde = learned_planners(["planner-ade", "planner-fde"], **files)
    plans = ade.plan(truth.objects, scene)
    assert plans.shape == (FRAMES, STEPS, 2)
    np.testing.assert_array_equal(
        ade.judged(scene, truth), np.arange(FRAMES) < FRAMES - AHEAD
    )
    driven = np.column_stack(
        [scene.ego_speed_mps[0] * 0.25 * np.arange(1, STEPS + 1), np.zeros(STEPS)]
    )
    off = np.linalg.norm(plans[0] - driven, axis=1)
    nothing = np.full_like(plans, np.nan)
    assert ade.terms(plans, scene, truth, previous=nothing)["displacement"][
        0
    ] == pytest.approx(off.mean())
    assert fde.terms(plans, scene, truth, previous=nothing)["displacement"][
        0
    ] == pytest.approx(off[-1])
    assert not ade.judged(scene, replace(truth, future=None)).any()
    assert words(ade, plans[0]).startswith(f"{plans[0, -1, 0]:.1f} m ahead in 4 s, ")
    assert len(path_m(ade, plans[0], 5.0)) == 1 + STEPS


def test_a_system_is_its_files_by_their_hashes_and_not_by_their_place(files, tmp_path):
    (one,) = learned_planners(["planner-ade"], **files)
    moved = tmp_path / "moved.npz"
    moved.write_bytes(files["weights"].read_bytes())
    (two,) = learned_planners(["planner-ade"], weights=moved, masks=files["masks"])
    assert constants(one) == constants(two)
    assert set(constants(one)) == {
        "loss",
        "target",
        "weights_sha256",
        "masks_sha256",
        "origin",
    }
    assert settable(one) == {}, "no number of it can be set"
    moved.write_bytes(npz_bytes(small_weights(seed=1).arrays))
    (other,) = learned_planners(["planner-ade"], weights=moved, masks=files["masks"])
    ids = [
        specs(material(), geometries=["cuboids"], systems=[rule])[0].id
        for rule in (one, two, other)
    ]
    assert ids[0] == ids[1] != ids[2]
    assert "planner-ade-unverified" in ids[0]


def test_cells_keep_pkl_and_tip_of_both_modes(files, tmp_path):
    rules = learned_planners(["planner-self-ade", "planner-ade"], **files)
    made = {
        cell.spec.system: cell
        for cell in cells(
            material(), geometries=["cuboids"], systems=[*rules, "braking"]
        )
    }
    itself, logged = made["planner-self-ade-unverified"], made["planner-ade-unverified"]
    assert (len(itself.table), len(logged.table)) == (3 * FRAMES, 3 * (FRAMES - AHEAD))
    assert not {"cheap_PKL", "cheap_TIP"} & set(made["braking"].evidence)
    for cell in (itself, logged):
        assert (cell.evidence["cheap_PKL"] > 0).any()
        assert (cell.evidence["cheap_PKL"] >= 0).all()
        assert (cell.evidence["cheap_TIP"] <= 0).all()
        # The far lidar sees everything as it is.
        np.testing.assert_allclose(cell.evidence["full_PKL"], 0, atol=1e-9)
        np.testing.assert_allclose(cell.evidence["full_TIP"], 0, atol=1e-9)
    assert (itself.table.losses[:, 1] == 0).all()
    write(itself, tmp_path / "cell")
    again = read_cell(tmp_path / "cell")
    assert (
        again.definition["system"]["constants"]["origin"]
        == "not verified to be the published files"
    )
    for name in ("gain-PKL", "gain-TIP"):
        scored = score_on(again, name, units="all")
        assert (scored.kind, len(scored.input)) == ("diagnostic", 3 * FRAMES)
        assert (scored.score >= -1e-9).all()
        assert scored.score.max() > 0
    write(made["braking"], tmp_path / "braking")
    with pytest.raises(
        InputError,
        match="PKL needs a cell whose downstream system is the learned planner",
    ):
        score_on(read_cell(tmp_path / "braking"), "gain-PKL")


def test_a_cell_s_command_is_whole(files):
    def words(spec):
        return spec.command(root="here", files={}, out="cells").split()

    rules = learned_planners(["planner-self-fde"], **files)
    built_in = from_files(
        Roads(), [ModeFile(name, None) for name in ("none", "reference")], units=UNITS
    )
    (spec,) = specs(built_in, geometries=["cuboids"], systems=rules)
    told = words(spec)
    assert told[told.index("--system") + 1] == "planner-self-fde"
    assert told[told.index("--weights") + 1 : told.index("--masks")] == [
        str(files["weights"])
    ]
    assert told[told.index("--masks") + 1] == str(files["masks"])
    read = words(CellSpec.from_definition(spec.definition, spec.order))
    assert [
        read[read.index(word) + 1] for word in ("--system", "--weights", "--masks")
    ] == [
        "planner-self-fde",
        "WEIGHTS",
        "MASKS",
    ]


def test_straight_on_at_the_present_speed_is_the_trivial_predictor(files):
    (rule,) = learned_planners(["planner-ade"], **files)
    (name,) = trivial_plans(rule, Roads().read_unit("road-0")[0])
    assert name == "constant velocity"
    (cell,) = cells(material(), geometries=["cuboids"], systems=[rule])
    found = viability(cell.outcomes, *zip(*map(Roads().read_unit, UNITS), strict=True))
    # The made-up vehicle keeps its speed, so that nothing beats going on.
    assert found.trivial == name
    assert found.trivial_loss == pytest.approx(0, abs=1e-9)
    assert not any(found.viable.values())


@pytest.mark.parametrize("lacking", ["lane_map", "world_from_ego", "vehicle"])
def test_a_scene_without_map_poses_or_size_of_the_vehicle_is_refused(lacking, files):
    scene, truth = Roads().read_unit("road-0")
    (rule,) = learned_planners(["planner-ade"], **files)
    with pytest.raises(InputError, match="unit road-0: the learned planner"):
        rule.plan(truth.objects, replace(scene, **{lacking: None}))


def test_a_build_with_units_without_roads_writes_nothing(files, tmp_path, monkeypatch):
    monkeypatch.setattr(Roads, "without_map", lambda self, units: ("road-1",))
    modes = ("--mode", "none", "--mode", "reference", "--geometry", "cuboids")
    rule = ("--system", "planner-ade", "--weights", files["weights"])
    data = ("--dataset", "roads", "--root", tmp_path, "--units", "road-0,road-1")
    out = tmp_path / "cells"
    done = run("build", *data, *modes, *rule, "--masks", files["masks"], "--out", out)
    assert done.code == 2
    assert "road-1" in done.err
    assert "--units road-0" in done.err
    assert not out.exists()


# Commands


def test_the_study_trains_weights_that_a_build_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    data = ("--dataset", "roads", "--root", "here")
    quick = ("--width", "2", "--grid", "64", "--steps", "1", "--batch", "2")
    train_planner.main([*data, *quick, "--out", "planner"])
    manifest = json.loads((tmp_path / "planner" / "manifest.json").read_text())
    assert set(manifest["source"]["units"]) < set(Roads().unit_ids()), "training units"
    monkeypatch.setattr(
        "deepval.driving.cells.sources._from_file",
        lambda file, *told: dict(zip("ab", MODES, strict=True))[file.name],
    )
    cell = ("--mode", "a=x", "--mode", "b=y", "--geometry", "cuboids")
    rule = ("--system", "planner-ade", "--weights", "planner/weights.npz")
    masks = ("--masks", "planner/masks.npz", "--units", ",".join(UNITS))
    built = run("build", *data, *cell, *rule, *masks, "--out", "cells")
    assert built.code == 0, built.err
    folder = tmp_path / "cells" / "planner-ade-trained-here-cuboids"
    assert read_cell(folder).definition["system"]["constants"]["origin"] == TRAINED_HERE


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    """Weights name the grid that they were trained on."""
    weights, wide = tmp_path / "w.npz", tmp_path / "wide.npz"
    manifest = np.array(json.dumps({"label": TRAINED_HERE, "cells": 64}))
    weights.write_bytes(npz_bytes({**small_weights().arrays, MANIFEST: manifest}))
    wide.write_bytes(masks_bytes(fan(128)))
    with pytest.raises(
        InputError, match="a grid of 64 cells a side, and the masks have 128"
    ):
        learned_planners(["planner-ade"], weights=weights, masks=wide)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--system", "planner-ade"),
            "--system planner-ade needs --weights and --masks: take planner.pt and",
        ),
        (
            ("--system", "planner-ade", "--weights", "w.pt"),
            "needs --weights and --masks",
        ),
        (
            ("--weights", "w.pt"),
            "--weights applies only to the systems planner-ade, planner-fde",
        ),
        (
            ("--system", "planner-ade", "--weights", "w.pt", "--masks", "m"),
            "w.pt: must be a planner's weights that can be read; No such",
        ),
    ],
)
def test_a_build_says_which_files_it_needs(words, sentence, tmp_path):
    done = run("build", *words, "--out", tmp_path)
    assert done.code == 2
    assert sentence in done.err


def test_a_system_by_name_alone_is_told_what_it_lacks():
    for name in LEARNED:
        with pytest.raises(InputError, match=f"{name} needs its weights and masks"):
            specs(material(), systems=[name])
