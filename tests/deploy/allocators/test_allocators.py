"""The contract of everything that scores before escalation, for each untrained signal
and each recipe.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import deepval
from allocator_worlds import (
    HOME,
    LADDER,
    LEARNED,
    built,
    failing_cell,
    ladder_cell,
    learned,
    material,
    reporting,
)
from deepval.basics.errors import InputError, InputWarning
from deepval.deploy.allocators import FEATURE_SETS, RECIPES
from deepval.deploy.allocators.allocator import SIGNALS, unseen
from deepval.deploy.allocators.router import Router
from deepval.deploy.allocators.row_allocator import RowRecipe
from deepval.deploy.diagnostics import DIAGNOSTICS
from deepval.deploy.features import Sight, glance
from deepval.deploy.fitting import calibration_scores, fit_on, score_on
from deepval.driving.views import CheapMode, View, frames_of
from deepval.judge.streaming import AdaptiveThreshold, CausalCap, FrozenThreshold
from view_worlds import (
    MODES,
    car_view,
    glances_of,
    random_observed,
    random_view,
    shuffled,
    until,
)
from worlds import quietly

NAMES = (*SIGNALS, *LEARNED)
PARTS = (
    "ego speed",
    "cheap boxes",
    "cheap objects",
    "cheap scores",
    "calibration",
    "previous frames",
    "image",
    "route",
)
every_allocator = pytest.mark.parametrize("name", NAMES)


def allocator(name):
    return SIGNALS[name] if name in SIGNALS else learned(name)


@cache
def scored(name):
    """Scores of every input of the cell of three modes."""
    return score_on(ladder_cell(), allocator(name), units="all")


@cache
def random_views():
    """Units with failed frames and pictures, of every kind of cheap mode."""
    rng = np.random.default_rng(3)
    return tuple(
        random_view(rng, mode=mode, images=True, rounded=bool(rng.random() < 0.5))
        for mode in MODES
    )


def best(scores):
    return scores.max(axis=1) if scores.ndim == 2 else scores


def same(one, other):
    """Whether two scorings of a cell agree to the bit, whatever the order of the
    inputs.
    """
    places = np.argsort(one.input), np.argsort(other.input)
    equal = np.array_equal(one.input[places[0]], other.input[places[1]])
    return equal and one.score[places[0]].tobytes() == other.score[places[1]].tobytes()


@cache
def without_answers():
    """The cell built from drives whose references are swapped about and whose higher
    modes report next to nothing.
    """
    found = material()
    truths = found.source.truths
    swapped = [
        replace(truths[place - 3], unit=truth.unit)
        for place, truth in enumerate(truths)
    ]
    told = replace(found, source=replace(found.source, truths=tuple(swapped)))
    told = reporting(told, lambda part: part.where(part.score > 0.95), modes=LADDER[1:])
    return quietly(built, told, "without-answers")


@every_allocator
def test_no_score_depends_on_reference_or_higher_modes(name):
    other = without_answers()
    assert not np.array_equal(other.table.losses, ladder_cell().table.losses)
    assert same(score_on(other, allocator(name), units="all"), scored(name))


@every_allocator
def test_the_order_of_units_is_irrelevant(name):
    turned = reversed_cell()
    assert [view.scene.unit for view in turned.views] == [
        view.scene.unit for view in ladder_cell().views
    ][::-1]
    assert same(score_on(turned, allocator(name), units="all"), scored(name))


@cache
def reversed_cell():
    found = material()
    turned = replace(
        found.source, scenes=found.source.scenes[::-1], truths=found.source.truths[::-1]
    )
    return built(replace(found, source=turned, units=found.units[::-1]), "rev")


@cache
def in_two_orders():
    """Units, and the same with the boxes of each frame reported in another order."""
    rng = np.random.default_rng(5)
    return [
        (Sight(view), Sight(shuffled(view, rng)))
        for view in (ladder_cell().views[0], *random_views())
    ]


@every_allocator
def test_the_order_of_boxes_is_irrelevant(name):
    for one, other in in_two_orders():
        assert (
            allocator(name).score(one).tobytes()
            == allocator(name).score(other).tobytes()
        )


@pytest.mark.parametrize("name", LEARNED)
def test_a_second_fit_gives_the_same_file(name):
    again = fit_on(ladder_cell(), name)
    assert again.to_json() == learned(name).to_json()
    assert len(np.unique(scored(name).score)) > 20


def first_past():
    """The longest memory that any allocator asks for, at the beginning of a unit."""
    return learned("router-voi").past()


@cache
def looked_at():
    """Some units, each as a whole, cut off early, and as its frames arrive."""
    views = (ladder_cell().views[0], failing_cell().views[1], *random_views())
    return [
        (Sight(view), Sight(until(view, 7)), tuple(glances_of(view, past=first_past())))
        for view in views
    ]


@every_allocator
def test_frame_by_frame_gives_the_bits_of_the_whole_unit(name):
    for sight, early, glances in looked_at():
        whole = allocator(name).score(sight)
        assert (
            np.array([allocator(name).score_frame(seen) for seen in glances]).tobytes()
            == whole.tobytes()
        )
        assert allocator(name).score(early).tobytes() == whole[:7].tobytes()
        assert not np.isinf(whole).any()


@every_allocator
def test_frames_on_which_the_cheap_mode_failed_have_no_score(name):
    for view in failing_cell().views[:2]:
        found = allocator(name).score(view)
        assert (
            np.isnan(found.reshape(len(view), -1)).all(axis=1).tolist()
            == (~view.detections.run).tolist()
        )
        assert np.flatnonzero(~view.detections.run).tolist() == [4, 9, 14, 19]


def changed(view: View, part: str) -> View:
    """The view with one part of it other than it was, and all else the same; scores
    stay used or unused.
    """
    rng = np.random.default_rng(6)
    scene, found = view.scene, view.detections
    if part == "ego speed":
        return replace(
            view,
            scene=replace(
                scene, ego_speed_mps=scene.ego_speed_mps + rng.uniform(1, 9, len(scene))
            ),
        )
    if part == "image":
        return replace(
            view,
            scene=replace(
                scene, images=rng.integers(0, 256, (len(scene), 9, 14, 3), np.uint8)
            ),
        )
    if part == "calibration":
        camera = scene.camera
        width = None if camera.width_px is None else camera.width_px + 99
        camera = replace(
            camera,
            fx_px=camera.fx_px * 1.3,
            fy_px=camera.fy_px * 0.8,
            cx_px=700.0,
            width_px=width,
        )
        return replace(view, scene=replace(scene, cameras={"front": camera}))
    if part == "route":
        return (
            view
            if view.connector_m is None
            else replace(view, connector_m=rng.uniform(0, 80, len(view)))
        )
    if part == "cheap objects":
        if view.objects is None:
            return view
        moved_m = view.objects.corners_m + rng.uniform(-9, 9, (len(view.objects), 1, 2))
        return replace(view, objects=replace(view.objects, corners_m=moved_m))
    if part == "cheap boxes":
        corner = rng.uniform((100, 100), (900, 190), (len(found), 2))
        size = rng.uniform(20, 150, (len(found), 2))
        cls = np.where(rng.random(len(found)) < 0.5, "Cyclist", "Van")
        return replace(
            view,
            detections=replace(
                found, box_px=np.hstack([corner, corner + size]), cls=cls
            ),
        )
    threshold = view.mode.threshold
    halves = (
        (0.0, 1.0) if threshold is None else (0.0, threshold),
        (threshold or 0.0, 1.0),
    )
    used = view.mode.used(found.score)
    score = np.where(
        used, rng.uniform(*halves[1], len(found)), rng.uniform(*halves[0], len(found))
    )
    return replace(view, detections=replace(found, score=score))


@cache
def two_looks(part):
    """Units as they are, and with one part changed or, of the frames before, forgotten:
    whole and as frames arrive.
    """
    approaching = car_view([(t, 0.9, 30.0 - 2 * t, -1.0, 1.0) for t in range(5)], 5)
    found = []
    for view in (
        *ladder_cell().views[:2],
        approaching,
        random_observed(np.random.default_rng(8)),
    ):
        other = view if part == "previous frames" else changed(view, part)
        glances = tuple(glances_of(other, past=first_past()))
        if part == "previous frames":
            glances = tuple(
                glance(seen.frame, first_past(), mode=view.mode) for seen in glances
            )
        found.append((Sight(view), Sight(other), glances))
    return found


READ = {
    name: SIGNALS[name].uses
    if name in SIGNALS
    else FEATURE_SETS[RECIPES[name].feature_set].uses
    if isinstance(RECIPES[name], RowRecipe)
    else RECIPES[name].makes.uses
    for name in NAMES
}
UNDECLARED = [
    (name, part) for name in NAMES for part in PARTS if part not in READ[name]
]


@pytest.mark.parametrize(("name", "part"), UNDECLARED)
def test_what_is_not_declared_is_not_read(name, part):
    found = allocator(name)
    assert found.uses == READ[name]
    for sight, other, glances in two_looks(part):
        whole = found.score(sight).tobytes()
        assert found.score(other).tobytes() == whole
        assert (
            np.array([found.score_frame(seen) for seen in glances]).tobytes() == whole
        )


DECLARED = [(name, part) for name in SIGNALS for part in sorted(SIGNALS[name].uses)]
DECLARED += [
    (name, part) for name in FEATURE_SETS for part in sorted(FEATURE_SETS[name].uses)
]


@pytest.mark.parametrize(("name", "part"), DECLARED)
def test_what_is_declared_is_read(name, part):
    read = SIGNALS[name].score_frame if name in SIGNALS else FEATURE_SETS[name].row
    whole = SIGNALS[name].score if name in SIGNALS else FEATURE_SETS[name].rows
    uses = SIGNALS[name].uses if name in SIGNALS else FEATURE_SETS[name].uses
    looks = [
        look for look in two_looks(part) if unseen(uses, look[0].view.mode) is None
    ]
    changes = [
        whole(sight).tobytes() != np.array([read(seen) for seen in glances]).tobytes()
        for sight, _, glances in looks
    ]
    assert any(changes)


def routed(router, view):
    router.begin()
    return [router.decide(frame) for frame in frames_of(view)]


@every_allocator
def test_a_router_decides_as_its_policy_does_on_the_unit_s_scores(name):
    scores = best(score_on(ladder_cell(), allocator(name), units="validation").score)
    asked = {
        "policy": "causal cap",
        "units": ["elsewhere"],
        "mode": ladder_cell().views[0].mode,
        "modes": LADDER,
    }
    capped = Router.calibrated(allocator(name), scores, 0.3, **asked)
    assert capped.policy == CausalCap(FrozenThreshold.calibrate(scores, 0.3), 0.3)
    adaptive = Router(
        allocator(name),
        AdaptiveThreshold(0.05, scores, 0.3),
        mode=capped.mode,
        modes=LADDER,
    )
    for router, view in (
        (capped, ladder_cell().views[4]),
        (capped, failing_cell().views[0]),
        (adaptive, ladder_cell().views[5]),
    ):
        found, run = allocator(name).score(view), view.detections.run
        expected = np.zeros(len(view), bool)
        known = best(found[run])
        expected[run] = (
            router.policy.decide(
                known, np.zeros(len(known), int), np.arange(len(known))
            )
            == 1
        )
        mode = (
            1 + found[expected].argmax(axis=1)
            if found.ndim == 2
            else np.full(int(expected.sum()), 2)
        )
        answer = np.full(len(view), LADDER[0])
        answer[expected] = np.array(LADDER)[mode]
        assert routed(router, view) == answer.tolist()
        if router is capped:
            assert (
                np.cumsum(expected) <= np.floor(1 + 0.3 * np.cumsum(run) + 1e-9)
            ).all()


def test_a_router_keeps_its_rate_over_a_long_drive():
    signal, rng = SIGNALS["ego-speed"], np.random.default_rng(0)
    router = Router.calibrated(
        "ego-speed", rng.uniform(0, 5, 200), 0.2, policy="causal cap"
    )
    assert (router.allocator, router.modes) == (signal, ("cheap", "full"))
    frame = next(iter(frames_of(ladder_cell().views[0], images=False)))
    decisions = [
        router.decide(replace(frame, ego_speed_mps=9.0, dt_s=0.1)) for _ in range(100)
    ]
    assert decisions.count("full") == 1 + 0.2 * 100
    assert decisions[:4] == ["full", "cheap", "cheap", "cheap"]
    assert router.decide(replace(frame, ego_speed_mps=9.0, dt_s=0.1)) == "cheap"
    router.begin()
    assert router.decide(replace(frame, ego_speed_mps=9.0)) == "full"
    assert router.score == 9.0


def test_a_router_is_not_calibrated_on_units_that_its_allocator_was_fitted_on():
    made, mode, validation = (
        learned("gate-gbm"),
        ladder_cell().views[0].mode,
        ladder_cell().split.validation,
    )
    own = score_on(ladder_cell(), made, units="validation")
    for scores, units in ((own, None), (own.score, validation)):
        with pytest.raises(
            InputError,
            match=(
                "validation scores must be of units that the allocator "
                "was not fitted on"
            ),
        ):
            Router.calibrated(made, scores, 0.3, mode=mode, units=units)
    with pytest.warns(
        InputWarning,
        match="was fitted on 6 units, and the validation scores do not state theirs",
    ):
        Router.calibrated(made, own.score, 0.3, mode=mode)
    fresh = calibration_scores(ladder_cell(), made, units="validation")
    router = Router.calibrated(made, fresh, 0.3, mode=mode)
    assert router.policy == FrozenThreshold.calibrate(fresh.score, 0.3)
    stream = router.policy.start()
    assert router.routing.about["rate"] == np.mean(
        [stream.decide(score) for score in fresh.score.tolist()]
    )


def test_a_router_from_a_file_decides_as_the_allocator_that_was_saved():
    made = learned("gate-multi-fidelity")
    made.save(HOME / "served.json")
    scores = score_on(ladder_cell(), made, units="validation").score
    mode = ladder_cell().views[0].mode
    asked = {"policy": "causal cap", "units": ["elsewhere"], "mode": mode}
    one, other = (
        Router.calibrated(source, scores, 0.3, **asked)
        for source in (made, HOME / "served.json")
    )
    assert one.modes == other.modes == LADDER
    drives = ladder_cell().views[3:6]
    answers = [routed(one, view) for view in drives]
    assert answers == [routed(other, view) for view in drives]
    assert {answer for unit in answers for answer in unit} == set(LADDER)


def test_a_router_refuses_a_signal_that_the_cheap_mode_cannot_give():
    with pytest.raises(
        InputError, match="uncertainty cannot route here: the cheap mode has no scores"
    ):
        Router(
            SIGNALS["uncertainty"], FrozenThreshold(0.0, 1.0), mode=CheapMode("none")
        )


COSTS = {
    "modes": {
        mode: {"ms": 5.0 + 5 * place, "mj": 10.0 + place}
        for place, mode in enumerate(LADDER)
    },
    "allocators": {name: {"ms": 0.1, "mj": 0.1} for name in DIAGNOSTICS},
}


@pytest.mark.parametrize("name", DIAGNOSTICS)
@pytest.mark.parametrize(
    "budget", [deepval.Latency(0.2, COSTS), deepval.Energy(0.2, COSTS)]
)
def test_diagnostics_are_judged_by_selection_only(name, budget, tmp_path):
    cell = ladder_cell()
    table = cell.table.restrict(cell.split.test)
    found = diagnosed(name)
    assert (found.kind, found.coverage, found.reason) == ("diagnostic", 1.0, None)
    sentence = f"{name} is a diagnostic: .* {budget.kind} budgets cannot charge it"
    path = tmp_path / "scores.csv"
    columns = found.columns()
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    for source in (found.over(table), path):
        with pytest.raises(InputError, match=sentence):
            deepval.evaluate(table, {name: source}, [budget], draws=0)
    result = deepval.evaluate(table, {name: path}, [deepval.Selection(0.2)], draws=0)
    assert any(row.allocator == name for row in result.rows)


@cache
def diagnosed(name):
    return score_on(ladder_cell(), name)
