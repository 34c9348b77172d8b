"""Cells whose placing observes: what their views hold, keep and hide; who can score
them, fitted, saved and served.
"""

import json
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from allocator_worlds import HOME, ladder_cell, learned
from commands import run
from deepval.allocators import RECIPES, read_allocator
from deepval.allocators.allocator import SIGNALS
from deepval.allocators.router import Router
from deepval.cells import folder as folders
from deepval.cells.build import cells
from deepval.cells.fitting import (
    calibration_scores,
    fit_on,
    recipes_for,
    refit,
    score_on,
    scored_by_all,
)
from deepval.datasets import DATASETS
from deepval.errors import InputError
from deepval.features.views import Frame, frames_of
from deepval.geometry.vehicle import ZOE
from deepval.judging.cases import judge
from deepval.judging.streaming import FrozenThreshold
from deepval.perception.placing import PLACINGS
from street import Street, street
from view_worlds import columns_of, glances_of, shuffled, until
from worlds import quietly

OBSERVERS = (
    "gate-ridge",
    "gate-gbm",
    "gate-multi-fidelity",
    "router-mlp-value",
    "router-mlp-binary",
)
OBSERVERS += ("router-gbm-value", "router-gbm-binary")
BLIND = ("gate-gbm-memory", "router-two-head", "router-recall")
SIMULATED = ("router-voi",)
SEEING = {"gate": "tracked", "router": "track-list"}


def made(material, *, geometry="cuboids"):
    (cell,) = cells(material, geometries=[geometry])
    return cell


def written(cell, name):
    folders.write(cell, HOME / name)
    return folders.read_cell(HOME / name)


@cache
def street_cell():
    """A cell of three trackers."""
    return written(made(street()), "street")


@cache
def failing_cell():
    """The same with a cheap tracker that fails on every fifth frame."""
    return written(made(street(fails=True)), "street-failing")


@cache
def fitted(name):
    return fit_on(street_cell(), name)


def allocator(name):
    return SIGNALS[name] if name in SIGNALS else fitted(name)


def same_objects(one, other):
    assert one.frames == other.frames
    for name, column in columns_of(one).items():
        np.testing.assert_array_equal(column, columns_of(other)[name], err_msg=name)


def test_a_placing_says_whether_it_observes():
    found = {name: placing.observes for name, placing in PLACINGS.items()}
    assert (found["monocular"], found["oracle"], found["cuboids"]) == (
        False,
        False,
        True,
    )
    assert all(
        observes for name, observes in found.items() if name.startswith("tracks")
    )


def test_views_hold_what_the_cheap_mode_comes_to_and_are_read_back_identically():
    material = street(fails=True)
    cell, again = made(material), failing_cell()
    assert cell.views[0].mode.observes
    for unit, view, kept in zip(material.units, cell.views, again.views, strict=True):
        scene, truth = material.source.read_unit(unit)
        report = material.modes[0].reader.detections(scene, truth)
        same_objects(view.objects, PLACINGS["cuboids"].place(report, scene, truth))
        same_objects(kept.objects, view.objects)
        assert (kept.mode, kept.scene.vehicle) == (view.mode, ZOE)
        np.testing.assert_array_equal(kept.connector_m, view.connector_m)
        assert 0 < view.connector_m[0] < 40
        for name in ("gate-gbm", "router-gbm-value", "criticality"):
            assert (
                allocator(name).score(kept).tobytes()
                == allocator(name).score(view).tobytes()
            )


def test_outputs_are_the_objects_of_the_fullest_mode_and_of_the_reference():
    material = street(reach_m=(15.0, 25.0, 60.0))
    cell = made(material)
    again = written(cell, "street-outputs")
    for unit, outputs, stored in zip(
        material.units, cell.outputs, again.outputs, strict=True
    ):
        scene, truth = material.source.read_unit(unit)
        report = material.modes[-1].reader.detections(scene, truth)
        same_objects(stored.full, PLACINGS["cuboids"].place(report, scene, truth))
        same_objects(stored.reference, truth.objects)
        same_objects(stored.full, outputs.full)
    assert len(again.outputs[0].full) > len(again.views[0].objects)


def test_a_cell_of_an_older_deepval_has_no_outputs_and_says_so():
    cell = street_cell()
    files = {
        name: digest
        for name, digest in cell.manifest.files.items()
        if not name.startswith("outputs/")
    }
    older = replace(cell, manifest=replace(cell.manifest, files=files))
    assert len(older.views) == len(cell.views)
    with pytest.raises(
        InputError,
        match=r"must be in outputs/, and are not: an older deepval .* build it again",
    ):
        _ = older.outputs


def test_only_cells_that_observe_have_objects_in_their_folder():
    assert "view/objects.parquet" in street_cell().manifest.files
    assert "view/objects.parquet" not in ladder_cell().manifest.files
    told = json.loads(ladder_cell().manifest.content("view/view.json"))
    assert set(told) == {"mode", "cameras"}
    assert set(told["mode"]) == {"scores", "threshold", "calibration"}
    assert ladder_cell().views[0].objects is None


def test_a_street_without_any_object_is_a_cell_whose_views_are_read_back():
    again = written(quietly(made, street(reach_m=(-99.0, 60.0))), "street-blind")
    assert [len(view.objects) for view in again.views] == [0] * 10
    assert (
        score_on(again, "criticality").score.tolist()
        == [0.0] * score_on(again, "criticality").inputs
    )


def test_views_of_one_data_set_differ_by_placing_alone():
    cell = made(street())
    assert cell.shared.views[0].objects is None
    bare = replace(
        cell.views[0], mode=cell.shared.views[0].mode, objects=None, connector_m=None
    )
    assert bare.detections is cell.shared.views[0].detections


def test_what_the_cheap_mode_does_not_show_does_not_reach_the_view():
    one, other = made(street()), made(street(hidden_m=3.0))
    assert not np.array_equal(one.table.losses, other.table.losses)
    assert one.view_files == other.view_files
    changed = made(street(reach_m=(15.0, 16.0, 17.0)))
    assert changed.view_files == one.view_files, "nor does what higher modes report"
    assert made(street(hidden_m=3.0, beyond_m=10.0)).view_files != one.view_files


def test_every_recipe_looks_at_objects_or_says_why_it_cannot():
    assert {*OBSERVERS, *BLIND, *SIMULATED} == {
        name for name, recipe in RECIPES.items() if recipe.extra is None
    }
    assert recipes_for(street_cell()) == tuple(
        name for name in RECIPES if name in (*OBSERVERS, "router-voi")
    )
    for name in OBSERVERS:
        assert fitted(name).feature_set.name == SEEING[name.split("-")[0]]
    for name in BLIND:
        with pytest.raises(
            InputError, match=f"{name} cannot be fitted here: it looks at image boxes"
        ):
            fit_on(street_cell(), name)


SCORERS = ("ego-speed", "criticality", "memory", *OBSERVERS)


@pytest.mark.parametrize("name", SCORERS)
def test_frame_by_frame_gives_the_bits_of_the_whole_unit(name):
    rng = np.random.default_rng(0)
    for view in (*street_cell().views[:2], failing_cell().views[0]):
        found = allocator(name)
        whole = found.score(view)
        assert (
            np.array([found.score_frame(seen) for seen in glances_of(view)]).tobytes()
            == whole.tobytes()
        )
        assert found.score(until(view, 7)).tobytes() == whole[:7].tobytes()
        assert found.score(shuffled(view, rng)).tobytes() == whole.tobytes()
        assert (
            np.isnan(whole.reshape(len(view), -1)).any(axis=1).tolist()
            == (~view.detections.run).tolist()
        )


@pytest.mark.parametrize("name", OBSERVERS)
def test_a_fitted_allocator_is_saved_loaded_fitted_again_and_served(name, tmp_path):
    found = fitted(name)
    found.save(tmp_path / "one.json")
    loaded = read_allocator(tmp_path / "one.json")
    assert loaded.to_json() == found.to_json() == refit(street_cell(), loaded).to_json()
    scored = score_on(street_cell(), loaded)
    assert (scored.coverage, scored.reason) == (1.0, None)
    assert len(np.unique(scored.score)) > 20
    validation = calibration_scores(street_cell(), found, units="validation")
    mode = street_cell().views[0].mode
    router = Router.calibrated(tmp_path / "one.json", validation, 0.3, mode=mode)
    view = failing_cell().views[0]
    scores, answers = [], []
    for frame in frames_of(view):
        answers.append(router.decide(frame))
        scores.append(router.score)
    whole = found.score(view)
    best = whole.max(axis=1) if whole.ndim == 2 else whole
    assert np.array(scores).tobytes() == best.tobytes()
    assert answers.count(mode_names()[0]) < len(view)
    assert set(answers) <= set(mode_names())


def mode_names():
    return street_cell().table.modes


def test_who_needs_boxes_or_objects_says_so():
    boxes, objects = ladder_cell().views[0].mode, street_cell().views[0].mode
    policy = FrozenThreshold(0.0, 1.0)
    for found, mode, sentence in (
        (SIGNALS["lost"], objects, "lost cannot route here: it looks at image boxes"),
        (
            learned("gate-gbm"),
            objects,
            "gate-gbm cannot route here: it looks at image boxes",
        ),
        (
            fitted("gate-gbm"),
            boxes,
            "gate-gbm cannot route here: it looks at observed objects",
        ),
        (
            SIGNALS["uncertainty"],
            objects,
            "uncertainty cannot route here: the cheap mode has no scores",
        ),
    ):
        with pytest.raises(InputError, match=sentence):
            Router(found, policy, mode=mode)
    for found, cell in (
        (learned("gate-gbm"), street_cell()),
        (fitted("router-mlp-value"), ladder_cell()),
    ):
        scored = score_on(cell, found)
        assert (scored.coverage, len(scored.input)) == (0.0, 0)
        assert "it looks at" in scored.reason
    with pytest.raises(InputError, match="give Frame its `objects`"):
        Router(SIGNALS["ego-speed"], policy, mode=objects).decide(
            next(frames_of(ladder_cell().views[0], images=False))
        )


def test_all_that_can_score_is_judged():
    cell = street_cell()
    scored = scored_by_all(cell, ["gate-ridge", "router-gbm-value"])
    assert {name for name, item in scored.items() if not len(item.input)} == {
        "uncertainty",
        "lost",
    }
    result = judge(
        cell,
        {name: item for name, item in scored.items() if item.score.ndim == 1},
        draws=0,
        command=None,
    )
    assert {"gate-ridge", "criticality", "random"} <= {
        row.allocator for row in result.rows
    }


def test_other_targets_of_the_value_are_learned_too():
    for target in ("value", "value-rank", "value-signed-cdf"):
        assert (
            fit_on(street_cell(), "gate-ridge", target=target).training.target == target
        )


def test_a_frame_of_one_s_own():
    view = street_cell().views[0]
    frame = Frame(
        ego_speed_mps=8.0,
        dt_s=0.1,
        camera=view.scene.camera,
        cls=np.zeros(0, "<U3"),
        score=np.zeros(0),
        box_px=np.zeros((0, 4)),
        objects=view.objects.at(0),
        vehicle=ZOE,
    )
    router = Router(fitted("gate-gbm"), FrozenThreshold(-1e9, 1.0), mode=view.mode)
    assert router.decide(frame) == "tracker-60"
    assert {field.name for field in fields(Frame)} >= {
        "objects",
        "vehicle",
        "connector_m",
    }


def test_the_commands_fit_score_and_profile_such_a_cell(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "street", Street)
    folder = tmp_path / "cell"
    folders.write(made(street()), folder)
    assert run("fit", folder, "--allocator", "gate-ridge").code == 0
    done = run("score", folder, "gate-ridge")
    assert done.code == 0, done.err
    assert "coverage 100.0%" in done.out
    again = run(
        "fit",
        folder,
        "--like",
        folder / "allocators" / "gate-ridge.json",
        "--out",
        tmp_path / "again.json",
    )
    assert again.code == 0, again.err
    assert (tmp_path / "again.json").read_bytes() == (
        folder / "allocators" / "gate-ridge.json"
    ).read_bytes()
    refused = run("score", folder, "lost")
    assert refused.code == 2
    assert "lost has no score for any of the" in refused.err
    assert "it looks at image boxes" in " ".join(refused.err.split())
    refused = run("fit", folder, "--allocator", "router-recall")
    assert refused.code == 2
    assert "router-recall cannot be fitted here: it looks at image boxes" in " ".join(
        refused.err.split()
    )
    profiled = run(
        "profile",
        folder,
        "gate-ridge",
        "--out",
        tmp_path / "costs.toml",
        "--seconds",
        "0.2",
    )
    assert profiled.code == 0, profiled.err
    assert "gate-ridge (single)" in profiled.out
