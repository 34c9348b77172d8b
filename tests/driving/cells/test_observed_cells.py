"""Cells whose placing observes: what their views hold, keep and hide; who can score
them, fitted, saved and served.
"""

from functools import cache

import numpy as np
import pytest

from allocator_worlds import HOME
from deepval.basics.errors import InputError
from deepval.deploy.allocators import RECIPES, read_allocator
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.allocators.router import Router
from deepval.deploy.fitting import (
    calibration_scores,
    fit_on,
    recipes_for,
    refit,
    score_on,
    scored_by_all,
)
from deepval.driving.cells import folder as folders
from deepval.driving.cells.build import cells
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.perception.placing import PLACINGS
from deepval.driving.views import frames_of
from deepval.judge.cases import judge
from street import street
from view_worlds import columns_of, glances_of, shuffled, until

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
        material.units,
        [part.outputs for part in cell.parts],
        again.outputs,
        strict=True,
    ):
        scene, truth = material.source.read_unit(unit)
        report = material.modes[-1].reader.detections(scene, truth)
        same_objects(stored.full, PLACINGS["cuboids"].place(report, scene, truth))
        same_objects(stored.reference, truth.objects)
        same_objects(stored.full, outputs.full)
    assert len(again.outputs[0].full) > len(again.views[0].objects)


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
