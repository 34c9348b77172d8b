"""Training the learned planner, cells of its systems, and the commands for both."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from commands import run
from deepval.cells.build import cells
from deepval.cells.fitting import score_on
from deepval.cells.folder import read_cell, write
from deepval.cells.sources import ModeFile, from_files
from deepval.cells.spec import CellSpec, Material, ModeSpec, specs
from deepval.datasets import DATASETS
from deepval.errors import InputError
from deepval.planners.neural import training
from deepval.planners.neural.plan_metrics import STEPS, PlanGrid
from deepval.planners.neural.planner import TRAINED_HERE, masks_bytes, npz_bytes
from deepval.planners.neural.training import (
    TrainingSettings,
    planner_loss,
    samples_of,
    train,
    unit_samples,
)
from deepval.systems.learned import LEARNED, learned_planners
from deepval.systems.system import constants, settable
from driving import Lidar
from learned_worlds import AHEAD, DT_S, FRAMES, Roads, fan, small_weights
from whole_sets import viability

QUICK = TrainingSettings(width=2, steps=4, batch=2, checkpoint_every=2)
MODES = tuple(
    ModeSpec(f"lidar-{reach:g}", Lidar(reach).definition, reader=Lidar(reach))
    for reach in (5.0, 500.0)
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(DATASETS, "roads", Roads)


@pytest.fixture(scope="module")
def samples():
    return samples_of(
        [unit_samples(*Roads().read_unit(f"road-{unit}")) for unit in range(2)],
        PlanGrid(64),
    )


@pytest.fixture
def files(tmp_path):
    weights, masks = tmp_path / "w.npz", tmp_path / "m.npz"
    weights.write_bytes(npz_bytes(small_weights().arrays))
    masks.write_bytes(masks_bytes(fan()))
    return {"weights": weights, "masks": masks}


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_samples_of_the_ego_vehicle_are_every_quarter_of_a_second_with_four_seconds_to_come(  # noqa: E501
    samples,
):
    span_s = (FRAMES - 1) * DT_S
    assert [len(unit) for unit in samples.units] == [int((span_s - 4) / 0.25) + 1] * 2
    scene, _ = Roads().read_unit("road-0")
    speed = scene.ego_speed_mps[0]
    wanted = PlanGrid(64).cell_of(
        np.column_stack([speed * 0.25 * np.arange(1, STEPS + 1), np.zeros(STEPS)])
    )
    for target in samples.targets[: len(samples.units[0])]:
        np.testing.assert_array_equal(target, wanted)


def test_a_sample_at_a_frame_sees_what_the_planner_will_see():
    from deepval.planners.neural.rasters import scene_rasters

    scene, truth = Roads().read_unit("road-1")
    made = unit_samples(scene, truth, every_s=0.5)
    for frame, raster in zip(
        range(3), scene_rasters(scene, truth.objects, PlanGrid(64)), strict=False
    ):
        np.testing.assert_array_equal(made.raster(frame, PlanGrid(64)), raster)


def test_other_vehicles_are_samples_where_they_move():
    made = unit_samples(*Roads().read_unit("road-0"), ego_only=False)
    # The car ahead moves; the other one stands and the third road user is on foot.
    assert set(made.who.tolist()) == {0, 1}
    assert (made.who == 0).sum() == (made.who == 1).sum()
    follower = made.raster(int(np.flatnonzero(made.who == 1)[0]), PlanGrid(64))
    assert follower[3, :15].any(), "the ego vehicle is drawn behind it"


def test_masks_are_where_samples_go_and_their_mirror_images(samples):
    masks = samples.masks
    np.testing.assert_array_equal(masks, masks[:, :, ::-1])
    for target in samples.targets:
        assert masks[np.arange(STEPS), target[:, 0], target[:, 1]].all()
    assert masks.sum() <= 2 * len(samples) * STEPS


def test_the_loss_weighs_the_right_cell_ten_times():
    rng = np.random.default_rng(0)
    logits, within = rng.normal(size=(2, 2, 3, 3)), rng.random((2, 3, 3)) < 0.7
    targets = np.zeros((2, 2, 3, 3))
    targets[:, :, 1, 1] = 1.0
    within[:, 1, 1] = True
    parts = []
    for sample, step, x, y in np.ndindex(2, 2, 3, 3):
        if within[step, x, y]:
            q = 1 / (1 + np.exp(-logits[sample, step, x, y]))
            y_wanted, weight = (
                (1.0, 10.0) if targets[sample, step, x, y] else (0.01, 1.0)
            )
            parts.append(
                -weight * (y_wanted * np.log(q) + (1 - y_wanted) * np.log(1 - q))
            )
    found = planner_loss(
        torch,
        torch.from_numpy(logits),
        torch.from_numpy(targets),
        torch.from_numpy(within),
    )
    assert float(found) == pytest.approx(np.mean(parts))


def test_training_twice_gives_the_same_bytes_and_says_what_it_is(samples, tmp_path):
    before = torch.get_num_threads(), torch.random.get_rng_state()
    one = train(samples, tmp_path / "one", QUICK, source={"dataset": "roads"})
    train(samples, tmp_path / "two", QUICK, source={"dataset": "roads"})
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert sorted(contents(tmp_path / "one")) == [
        "manifest.json",
        "masks.npz",
        "weights.npz",
    ]
    assert (torch.get_num_threads(), True) == (
        before[0],
        bool((torch.random.get_rng_state() == before[1]).all()),
    )
    told = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert told == dict(one.manifest)
    assert (told["label"], told["seed"], told["samples"], told["source"]) == (
        TRAINED_HERE, 0, len(samples), {"dataset": "roads"},
    )  # fmt: skip
    other = train(samples, tmp_path / "three", replace(QUICK, seed=1))
    assert other.manifest["weights_sha256"] != told["weights_sha256"]


def test_a_training_that_was_stopped_goes_on_and_ends_with_the_same_bytes(
    samples, tmp_path, monkeypatch
):
    whole = train(samples, tmp_path / "whole", QUICK)
    made = training._Run.step

    def stopped(self, step):
        if step == 3:
            raise KeyboardInterrupt
        made(self, step)

    monkeypatch.setattr(training._Run, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(samples, tmp_path / "part", QUICK)
    assert [path.name for path in (tmp_path / "part").iterdir()] == ["checkpoint.npz"]
    steps = []
    monkeypatch.setattr(
        training._Run, "step", lambda self, step: (steps.append(step), made(self, step))
    )
    again = train(samples, tmp_path / "part", QUICK)
    assert steps == [2, 3]
    assert again.manifest == whole.manifest
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_a_checkpoint_of_another_training_is_refused(samples, tmp_path):
    (tmp_path / "checkpoint.npz").write_bytes(
        npz_bytes({"digest": np.array("other"), "losses": np.zeros(1)})
    )
    with pytest.raises(InputError, match="checkpoint of another training"):
        train(samples, tmp_path, QUICK)
    (tmp_path / "checkpoint.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="must be a checkpoint of this training"):
        train(samples, tmp_path, QUICK)


def test_training_learns(samples, tmp_path):
    made = train(samples, tmp_path, TrainingSettings(width=4, steps=40, batch=4))
    assert made.manifest["loss"]["last"] < made.manifest["loss"]["first"]


def test_units_that_cannot_be_trained_on_are_refused_in_a_sentence(tmp_path):
    scene, truth = Roads().read_unit("road-0")
    with pytest.raises(InputError, match="draws the road, and there is no lane map"):
        unit_samples(replace(scene, lane_map=None), truth)
    with pytest.raises(InputError, match="needs the vehicle's poses"):
        unit_samples(replace(scene, world_from_ego=None), truth)
    with pytest.raises(InputError, match="whose size is not known"):
        unit_samples(replace(scene, vehicle=None), truth)
    unknown = replace(
        truth, objects=replace(truth.objects, track=np.full(len(truth), -1))
    )
    with pytest.raises(InputError, match="needs a track id for every reference object"):
        unit_samples(scene, unknown)
    short = unit_samples(
        scene.part(slice(3)),
        replace(truth.where(truth.frame < 3), objects=_first(truth, 3), future=None),
    )
    with pytest.raises(
        InputError, match="logged for 4 s or more; of the 1 given none was"
    ):
        samples_of([short], PlanGrid(64))
    with pytest.raises(InputError, match="batch must be 2 or more"):
        TrainingSettings(batch=1)
    with pytest.raises(InputError, match="steps of a training must be 1 or more"):
        TrainingSettings(steps=0)


def _first(truth, frames):
    return replace(truth.objects.where(truth.frame < frames), frames=frames)


# Systems


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
    assert ade.words(plans[0]).startswith(f"{plans[0, -1, 0]:.1f} m ahead in 4 s, ")
    assert len(ade.path_m(plans[0], 5.0)) == 1 + STEPS


def test_a_plan_compared_with_itself_is_judged_everywhere(files):
    scene, truth = Roads().read_unit("road-0")
    (itself,) = learned_planners(["planner-self-ade"], **files)
    assert itself.judged(scene, truth).all()
    plans = itself.plan(truth.objects, scene)
    assert (
        itself.terms(plans, scene, truth, previous=plans)["displacement"] == 0
    ).all()


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
    (name,) = rule.trivial(Roads().read_unit("road-0")[0])
    assert name == "constant velocity"
    (cell,) = cells(material(), geometries=["cuboids"], systems=[rule])
    found = viability(cell.outcomes, *zip(*map(Roads().read_unit, UNITS), strict=True))
    # The made-up vehicle keeps its speed, so that nothing beats going on.
    assert found.trivial == name
    assert found.trivial_loss == pytest.approx(0, abs=1e-9)
    assert not any(found.viable.values())


def test_the_decisive_object_is_looked_for_near_the_way_only(files):
    (rule,) = learned_planners(["planner-ade"], **files)
    scene, truth = Roads().read_unit("road-0")
    first, now = truth.objects.at(0), scene.part(slice(1))
    crowd = replace(
        first,
        **{
            f.name: np.concatenate([getattr(first, f.name)] * 20)
            for f in fields(first)
            if f.name != "frames"
        },
    )
    crowd.corners_m[6:] += np.array([0.0, 30.0])
    forward = rule.planner.forward
    before = forward.runs
    plan = rule.plan(crowd, now)[0]
    assert len(rule.tried(crowd, plan)) == 6
    assert set(rule.tried(crowd, plan).tolist()) == set(range(6))
    rule.decisive(crowd, now, previous=plan[None])
    assert forward.runs - before <= 2 + 2 * 6


def test_building_again_gives_the_same_bytes(files, tmp_path):
    for place in ("one", "two"):
        rules = learned_planners(["planner-ade"], **files)
        (cell,) = cells(material(), geometries=["cuboids"], systems=rules)
        write(cell, tmp_path / place)
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (
        tmp_path / "two" / "manifest.json"
    ).read_bytes()


# Commands


def test_a_planner_is_trained_and_built_with_from_the_command_line(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    quick = ("--width", 2, "--grid", 64, "--steps", 3, "--batch", 2)
    done = run(
        "train-planner",
        "--dataset",
        "roads",
        "--root",
        "here",
        *quick,
        "--others",
        "--out",
        "planner",
    )
    assert done.code == 0, done.err
    assert "trained here, not the published weights" in done.out
    told = json.loads((tmp_path / "planner" / "manifest.json").read_text())
    assert told["source"]["dataset"] == "roads"
    assert set(told["source"]["units"]) < set(Roads().unit_ids()), "only training units"
    again = run(
        "train-planner",
        "--dataset",
        "roads",
        "--root",
        "here",
        *quick,
        "--units",
        "road-0",
        "--out",
        "b",
        "--json",
    )
    assert json.loads(again.out)["source"]["units"] == ["road-0"]
    monkeypatch.setattr(
        "deepval.cells.sources._from_file",
        lambda file, *told: dict(zip("ab", MODES, strict=True))[file.name],
    )
    asked = (
        "--mode",
        "a=x",
        "--mode",
        "b=y",
        "--geometry",
        "cuboids",
        "--system",
        "planner-ade",
        "--out",
        "cells",
    )
    weights = ("--weights", "planner/weights.npz", "--masks", "planner/masks.npz")
    built = run(
        "build",
        "--dataset",
        "roads",
        "--root",
        "here",
        *asked,
        *weights,
        "--units",
        ",".join(UNITS),
    )
    assert built.code == 0, built.err
    folder = tmp_path / "cells" / "planner-ade-trained-here-cuboids"
    assert read_cell(folder).definition["system"]["constants"]["origin"] == TRAINED_HERE


def test_files_that_do_not_belong_together_are_refused(samples, tmp_path, files):
    made = train(samples, tmp_path / "planner", QUICK)
    wide = tmp_path / "wide.npz"
    wide.write_bytes(masks_bytes(fan(128)))
    with pytest.raises(
        InputError, match="a grid of 64 cells a side, and the masks have 128"
    ):
        learned_planners(["planner-ade"], weights=made.weights, masks=wide)


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


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--grid", 100), "multiple of 64 cells a side; found 100"),
        (("--every", 0), "--every must be more than 0 seconds; found 0"),
        (("--width", 0), "--width must be 1 or more; found 0"),
        (("--units", "road-9"), "units must be among road-0"),
    ],
)
def test_a_training_says_what_is_wrong(words, sentence, tmp_path):
    done = run(
        "train-planner",
        "--dataset",
        "roads",
        "--root",
        "here",
        *words,
        "--out",
        tmp_path / "out",
    )
    assert done.code == 2
    assert sentence in done.err


def test_a_system_by_name_alone_is_told_what_it_lacks():
    for name in LEARNED:
        with pytest.raises(InputError, match=f"{name} needs its weights and masks"):
            specs(material(), systems=[name])


class _More:
    """What a file of weights must not make when it is read."""

    def __reduce__(self):
        return print, ("made",)


def test_faulty_files_of_a_planner_are_told_by_the_command_and_nothing_is_written(
    files, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    narrow = dict(small_weights().arrays)
    narrow["final.weight"] = narrow["final.weight"][:1]
    (tmp_path / "narrow.npz").write_bytes(npz_bytes(narrow))
    torch.save({"trunk.conv1.weight": _More()}, tmp_path / "more.pt")
    (tmp_path / "wide.npz").write_bytes(
        npz_bytes({"masks": np.ones((STEPS, 64, 65), dtype=bool)})
    )
    for weights, masks, sentence in (
        ("narrow.npz", files["masks"], "final.weight must have the shape"),
        ("more.pt", files["masks"], "weights must be tensors by name and nothing else"),
        (files["weights"], "wide.npz", "wide.npz"),
    ):
        words = (
            "--mode",
            "none",
            "--mode",
            "reference",
            "--geometry",
            "cuboids",
            "--system",
            "planner-ade",
        )
        done = run(
            "build",
            "--dataset",
            "roads",
            "--root",
            "here",
            *words,
            "--weights",
            weights,
            "--masks",
            masks,
            "--out",
            "cells",
        )
        assert done.code == 2
        assert sentence in done.err
        assert "made" not in done.out
        assert not (tmp_path / "cells").exists()
