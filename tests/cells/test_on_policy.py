"""Allocators with feedback, judged on policy: what they see, what a policy allows, and
what their rows add up to.
"""

import json
import math
from dataclasses import dataclass, fields, replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepval
from allocator_worlds import failing_cell, ladder_cell, pair_cell
from commands import call, refusal
from deepval.allocators.allocator import SIGNALS
from deepval.allocators.feedback import (
    FeedbackAllocator,
    Session,
    WithoutFeedback,
    with_feedback,
)
from deepval.allocators.router import Router
from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import read_cell
from deepval.cells.judgement import judge
from deepval.cells.on_policy import OnPolicy, calibrate, feedback_rows
from deepval.errors import InputError
from deepval.features import Sight
from deepval.features.views import frames_of
from deepval.judging.draws import make_draws
from deepval.judging.policies import CausalCap, FrozenThreshold
from deepval.judging.resamples import Resamples
from deepval.results import Result
from deepval.world.objects import Outputs
from shared import shared_data
from view_worlds import until
from worlds import quietly

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.errors.InputWarning")
NOTHING = FrozenThreshold(math.inf, 0.0)
EVERYTHING = FrozenThreshold(-math.inf, 1.0)


@dataclass(frozen=True)
class Curious(FeedbackAllocator):
    """Scores by ego speed, and by all that it learned: the nearest full object,
    decaying by half a frame.
    """

    weight: float = 1.0
    name = "curious"
    uses = frozenset({"ego speed"})

    def session(self):
        return CuriousSession(self.weight)


@dataclass
class CuriousSession(Session):
    weight: float
    memory: float = 0.0
    frames: int = 0

    def score(self, glance):
        self.memory *= 0.5
        self.frames += 1
        return glance.frame.ego_speed_mps % 1.0 + self.weight * self.memory

    def learn(self, full):
        assert full.frames == 1
        self.memory += len(full) + (
            float(full.near_m.min()) % 1.0 if len(full) else -1.0
        )


def on(cell, allocator, units="all"):
    named = cell.split.units if units == "all" else getattr(cell.split, units)
    return OnPolicy(cell, with_feedback(allocator), cell.listed.restrict(list(named)))


def blanked(cell, shown):
    """The cell without the full outputs of inputs that are not shown, and without any
    reference.
    """
    outputs = []
    for view, own in zip(cell.views, cell.outputs, strict=True):
        visible = np.isin(view.scene.inputs, shown)
        outputs.append(
            Outputs(
                own.full.where(visible[own.full.frame]),
                own.full.where(np.zeros(len(own.full), bool)),
            )
        )
    other = replace(cell)
    other.__dict__["outputs"] = tuple(outputs)
    return other


def policies(rate):
    theta = st.floats(-1, 4)
    return st.one_of(
        st.builds(FrozenThreshold, theta, st.just(1.0)),
        st.builds(CausalCap, st.builds(FrozenThreshold, theta, st.just(1.0)), rate),
    )


RATES = st.floats(0.01, 1.0)


@settings(max_examples=25)
@given(policies(RATES), st.floats(-2, 2))
def test_full_outputs_of_frames_that_were_not_escalated_change_nothing(policy, weight):
    cell = pair_cell()
    judged = on(cell, Curious(weight))
    run = judged.replay(policy)
    again = on(
        blanked(cell, judged.table.input[run.escalated]), Curious(weight)
    ).replay(policy)
    np.testing.assert_array_equal(again.score, run.score)
    np.testing.assert_array_equal(again.escalated, run.escalated)


def test_full_outputs_of_escalated_frames_do_change_scores():
    judged = on(pair_cell(), Curious())
    run = judged.replay(EVERYTHING)
    assert not np.array_equal(run.score, judged.replay(NOTHING).score)
    assert not np.array_equal(
        run.score, on(blanked(pair_cell(), []), Curious()).replay(EVERYTHING).score
    )


@settings(max_examples=15)
@given(policies(RATES), st.integers(1, 23))
def test_later_frames_change_no_earlier_decision(policy, frames):
    cell = pair_cell()
    part = replace(cell)
    part.__dict__["views"] = tuple(until(view, frames) for view in cell.views)
    part.__dict__["sights"] = tuple(Sight(view) for view in part.views)
    cut = [own.full.where(own.full.frame < frames) for own in cell.outputs]
    part.__dict__["outputs"] = tuple(
        Outputs(replace(full, frames=frames), full) for full in cut
    )
    early = np.isin(
        cell.listed.input, np.concatenate([view.scene.inputs for view in part.views])
    )
    whole = on(cell, Curious()).replay(policy)
    short = OnPolicy(part, Curious(), cell.listed.keep(early)).replay(policy)
    np.testing.assert_array_equal(short.score, whole.score[early])
    np.testing.assert_array_equal(short.escalated, whole.escalated[early])


def test_a_session_cannot_look_at_later_frames():
    # What a session gets is one frame and bounded memory; all that it can reach is the
    # same if the unit ends there.
    sight = pair_cell().sights[0]
    for frame in (0, 7, 23):
        own, cut = (
            sight.glances[frame],
            Sight(until(sight.view, frame + 1)).glances[frame],
        )
        assert own.row == pytest.approx(cut.row, nan_ok=True, rel=0, abs=0)
        assert own.past.frames == cut.past.frames == frame
        assert {f.name for f in fields(own.frame)} & {
            "scene",
            "truth",
            "outputs",
        } == set()


@settings(max_examples=25)
@given(policies(RATES), st.floats(-2, 2))
def test_a_plain_loop_gives_the_same_decisions(policy, weight):
    """Obvious and slow: an own loop, with the rules of the definition written out."""
    cell = pair_cell()
    judged = on(cell, Curious(weight))
    run = judged.replay(policy)
    threshold = policy.threshold if isinstance(policy, CausalCap) else policy
    escalated = {}
    for view, own in zip(cell.views, cell.outputs, strict=True):
        memory, spent = 0.0, 0
        for t, name in enumerate(view.scene.inputs, 1):
            memory *= 0.5
            score = float(view.scene.ego_speed_mps[t - 1]) % 1.0 + weight * memory
            fits = not isinstance(policy, CausalCap) or spent + 1 <= math.floor(
                1 + policy.alpha * t + 1e-9
            )
            escalated[name] = score >= threshold.theta and fits
            if escalated[name]:
                spent += 1
                here = own.full.frame == t - 1
                near = (
                    own.full.corners_m[here, :, 0].min(axis=1) if here.any() else None
                )
                memory += here.sum() + (near.min() % 1.0 if near is not None else -1.0)
    assert [
        escalated[name] for name in judged.table.input.tolist()
    ] == run.escalated.tolist()


@settings(max_examples=25)
@given(RATES, st.floats(-1, 3))
def test_the_cap_holds_after_every_input(rate, theta):
    judged = on(pair_cell(), Curious())
    run = judged.replay(CausalCap(FrozenThreshold(theta, 1.0), rate))
    for unit in range(len(judged.table.unit_ids)):
        rows = np.flatnonzero(judged.table.unit == unit)
        rows = rows[np.argsort(judged.table.order[rows])]
        spent = np.cumsum(run.escalated[rows])
        assert (spent <= np.floor(1 + rate * np.arange(1, len(rows) + 1) + 1e-9)).all()


@settings(max_examples=20)
@given(policies(RATES), st.sampled_from(["ego-speed", "criticality", "lost"]))
def test_an_allocator_that_ignores_feedback_decides_as_its_scores_do(policy, name):
    cell = pair_cell()
    judged = on(cell, SIGNALS[name])
    run, table = judged.replay(policy), judged.table
    np.testing.assert_array_equal(
        run.score, score_on(cell, name, units="all").over(table).values
    )
    np.testing.assert_array_equal(
        run.escalated, policy.decide(run.score, table.unit, table.time_rank) > 0
    )


def judged_rows(cell, allocators, budgets, **options):
    table = cell.listed.restrict(list(cell.split.test))
    resamples = Resamples.of(table, make_draws(len(table.unit_ids), "exact", 0))
    calibration = cell.listed.restrict(list(cell.split.validation))
    return feedback_rows(
        cell, allocators, resamples, budgets, calibration=calibration, **options
    )[0]


NOT_FOR_FEEDBACK = (
    "versus_ranking",
    "versus_ranking_lo",
    "versus_ranking_hi",
    "versus_ranking_dropped",
    "rate_missed",
)


@pytest.mark.parametrize("name", ["ego-speed", "memory"])
def test_its_free_row_is_that_of_the_stream_bit_for_bit(name):
    cell, budgets = pair_cell(), [deepval.Selection(0.1), deepval.Selection(0.3)]
    scores = {name: score_on(cell, name, units="all")}
    streams = judge(
        cell,
        scores,
        budgets,
        command=None,
        draws="exact",
        calibration=list(cell.split.validation),
    ).streams
    free = [
        row
        for row in judged_rows(cell, {name: SIGNALS[name]}, budgets).rows
        if row.policy == "frozen threshold"
    ]
    frozen = [row for row in streams if row.policy == "frozen threshold"]
    assert len(free) == len(frozen) == 2
    for one, other in zip(free, frozen, strict=True):
        assert one.versus_ranking is None
        assert math.isfinite(one.parameter)
        left_out = {"parameter", *NOT_FOR_FEEDBACK}
        assert {k: v for k, v in dict(one).items() if k not in left_out} == {
            k: v for k, v in dict(other).items() if k not in left_out
        }


def test_rows_add_up_and_rates_are_marked():
    cell = pair_cell()
    found = judged_rows(
        cell,
        {"curious": Curious(), "speed": SIGNALS["ego-speed"]},
        [deepval.Selection(0.2)],
    )
    assert [(row.allocator, row.policy) for row in found.rows] == [
        (name, policy)
        for name in ("curious", "speed")
        for policy in ("frozen threshold", "causal cap")
    ]
    assert found.calibration_units == cell.split.validation
    values = cell.listed.restrict(list(cell.split.test)).decision_values
    for row in found.rows:
        assert row.gain == pytest.approx(row.benefit - row.harm)
        assert row.benefit <= values[values > 0].sum() + 1e-12
        free = row.policy == "frozen threshold"
        assert row.rate_missed is (abs(row.rate - 0.2) > 0.02 + 1e-12 if free else None)
    capped = found.rows[1]
    inputs = len(values) // len(cell.split.test)
    assert capped.rate <= math.floor(1 + 0.2 * inputs) / inputs


def test_rows_with_feedback_are_compared_with_streams_draw_by_draw(tmp_path):
    cell, budgets = pair_cell(), [deepval.Selection(0.2), deepval.Selection(0.1)]
    validation = list(cell.split.validation)
    learners = {"curious": Curious(), "lost": Curious(-1.0)}
    learning = partial(
        feedback_rows,
        cell,
        learners,
        budgets=budgets,
        calibration=cell.listed.restrict(validation),
    )
    scores = {"lost": score_on(cell, "lost", units="all")}
    settings = {
        "command": None,
        "draws": "exact",
        "calibration": validation,
        "feedback": learning,
    }
    judge(cell, scores, budgets, **settings).save(
        tmp_path / "result.json", samples=True
    )
    result = Result.load(tmp_path / "result.json")
    rows = {
        (row.allocator, row.alpha): row
        for row in (*result.feedback.rows, *result.streams)
        if row.policy == "causal cap"
    }
    compared = deepval.compare(result, "curious@causal-cap", "lost@causal-cap")
    assert [row.alpha for row in compared] == [0.2, 0.1]
    for row in compared:
        # the scores, not the learner of this name
        ours, theirs = rows["curious", row.alpha], rows["lost", row.alpha]
        assert theirs in result.streams
        assert row.loss == pytest.approx(ours.gain - theirs.gain)


def test_escalating_nothing_is_all_cheap_and_escalating_everything_is_all_full():
    judged = on(pair_cell(), Curious())
    values = judged.table.decision_values
    assert values[judged.replay(NOTHING).escalated].sum() == 0
    assert judged.replay(EVERYTHING).escalated.all()


def test_a_threshold_keeps_its_rate_by_its_own_replay():
    for weight in (-2.0, -0.5, 0.5, 2.0):
        judged = on(pair_cell(), Curious(weight))
        free, capped = judged.calibrate(0.3)
        assert abs(judged.replay(free).escalated.mean() - 0.3) <= 0.05
        values, gain = judged.table.decision_values, judged.replay(capped).escalated
        same = judged.replay(CausalCap(free, 0.3)).escalated
        assert values[gain].sum() >= values[same].sum()


def test_costs_are_charged_as_for_streams():
    cell = pair_cell()
    cheap, full = cell.table.modes
    costs = {
        "modes": {cheap: {"ms": 10.0}, full: {"ms": 50.0}},
        "allocators": {"curious": {"ms": 5.0}},
    }
    budgets = [deepval.Latency(0.2, costs), deepval.Latency(0.05, costs)]
    paid, unable = (
        [
            row
            for row in judged_rows(cell, {"curious": Curious()}, budgets).rows
            if row.alpha == budget.alpha
        ]
        for budget in budgets
    )
    assert {row.target_rate for row in paid} == {0.2 - 5.0 / 50.0}
    assert [(row.verdict, row.gain) for row in unable] == [("infeasible", None)]
    listed = judged_rows(cell, {"other": Curious()}, budgets, missing_costs="list").rows
    assert {row.verdict_words for row in listed} == {"no cost known"}
    with pytest.raises(InputError, match="other"):
        judged_rows(cell, {"other": Curious()}, budgets)


@dataclass(frozen=True)
class Blind(Curious):
    """Has no score at a unit's first frame."""

    def session(self):
        return BlindSession(self.weight)


class BlindSession(CuriousSession):
    def score(self, glance):
        return math.nan if glance.past.frames == 0 else super().score(glance)


def test_inputs_without_a_score_are_an_error_or_never_escalated():
    judged = on(pair_cell(), Blind())
    with pytest.raises(
        InputError, match=r"curious: every input needs a score; scene-00/\S+ has none"
    ):
        judged.replay(NOTHING)
    run = replace(judged, missing="worst").replay(FrozenThreshold(-1e9, 1.0))
    assert run.escalated.sum() == len(run.score) - len(judged.table.unit_ids)


def test_frames_that_are_no_inputs_are_seen_and_never_escalated():
    cell = failing_cell()  # its cheap mode failed on every fifth frame
    judged = on(cell, Curious())
    frames = sum(len(view) for view in cell.views)
    assert len(judged.replay(EVERYTHING).score) == len(cell.table) < frames
    shown = judged.table.input
    np.testing.assert_array_equal(
        on(blanked(cell, shown), Curious()).replay(EVERYTHING).score,
        judged.replay(EVERYTHING).score,
    )


def test_units_of_the_fit_are_refused_or_fitted_without():
    cell = pair_cell()
    fitted = quietly(lambda: fit_on(cell, "gate-ridge"))
    found = quietly(
        lambda: judged_rows(cell, {"gate": fitted}, [deepval.Selection(0.2)])
    )
    # so a fit without them calibrates
    assert set(found.calibration_units) <= set(fitted.training.units)
    train = cell.listed.restrict(list(cell.split.train))
    resamples = Resamples.of(train, make_draws(len(train.unit_ids), 0, 0))
    calibration = cell.listed.restrict(list(cell.split.validation))
    with pytest.raises(InputError, match="was not fitted on; it was fitted on"):
        feedback_rows(cell, {"gate": fitted}, resamples, None, calibration=calibration)


def test_what_cannot_be_judged_is_one_sentence():
    with pytest.raises(InputError, match="learns from the frames that it escalates"):
        score_on(pair_cell(), Curious())
    with pytest.raises(InputError, match="has a score per mode"):
        WithoutFeedback(quietly(lambda: fit_on(ladder_cell(), "gate-multi-fidelity")))
    small = ladder_cell().table.with_modes(ladder_cell().table.modes[:2])
    with pytest.raises(
        InputError, match="Feedback is the output of the cell's full mode"
    ):
        OnPolicy(ladder_cell(), Curious(), small)


def test_the_command_prints_and_saves_its_own_table(tmp_path):
    folder, out = pair_cell().folder, tmp_path / "result.json"
    options = ("--alpha", "0.2", "--budget", "selection", "--draws", "50")
    text = call(
        "evaluate",
        folder,
        "--feedback",
        "lost",
        "--feedback",
        "mine=memory",
        *options,
        "--out",
        out,
    )
    assert "Feedback, judged on policy, over" in text
    assert "never rank them with scores" in " ".join(text.split())
    result = Result.load(out)
    assert {row.allocator for row in result.feedback.rows} == {"lost", "mine"}
    assert {row.allocator for row in result.rows} == {
        "random",
        "never",
        "all-full",
        "oracle",
    }
    assert json.loads(out.read_text())["feedback"]["calibration_units"] == list(
        pair_cell().split.validation
    )
    ledger = (folder / "opened.jsonl").read_text().splitlines()
    assert set(json.loads(ledger[-1])["scores"]) == {"lost", "mine"}
    for form in ("markdown", "latex"):
        assert "judged on policy" in call(
            "evaluate", folder, "--feedback", "lost", *options, "--format", form
        )
    page = result.report(tmp_path / "page.html").read_text()
    assert "Feedback, judged on policy" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--feedback", "lsot"), "did you mean 'lost'"),
        (("--feedback", "lost", "--feedback", "lost"), "'lost' is given twice"),
        (("--feedback", "lost", "--weight", "a=1"), "leave out --weight"),
        (
            ("--feedback", "lost", "--units", "validation"),
            "Calibration units must not be judged",
        ),
    ],
)
def test_a_slip_is_one_sentence(arguments, sentence):
    assert sentence in refusal("evaluate", pair_cell().folder, *arguments)


def test_a_values_file_has_no_feedback():
    text = refusal(
        "evaluate", pair_cell().folder / "values.parquet", "--feedback", "lost"
    )
    assert "--feedback needs a cell's folder" in text


def test_a_router_decides_and_learns_as_the_judge_replays():
    cell = pair_cell()
    for policy in calibrate(cell, Curious(0.1), 0.3):
        run = on(cell, Curious(0.1)).replay(policy)
        router = Router(Curious(0.1), policy, mode=cell.views[0].mode)
        escalated = []
        for view, outputs in zip(cell.views, cell.outputs, strict=True):
            router.begin()
            for number, frame in enumerate(frames_of(view, images=False)):
                escalated.append(router.decide(frame) == "full")
                if escalated[-1]:
                    router.learn(outputs.full.at(number))
        assert escalated == run.escalated.tolist()


def test_a_router_with_feedback_refuses_what_breaks_the_contract():
    cell = pair_cell()
    frames, full = list(frames_of(cell.views[0], images=False)), cell.outputs[0].full
    router = Router(Curious(), EVERYTHING)
    with pytest.raises(InputError, match="just escalated, once; there is none"):
        router.learn(full.at(0))
    router.decide(frames[0])
    with pytest.raises(
        InputError, match=r"pass its full output to learn\(\) before the next frame"
    ):
        router.decide(frames[1])
    with pytest.raises(InputError, match=r"objects .* of one frame"):
        router.learn(full)
    router.learn(full.at(0))
    router.decide(
        replace(
            frames[1],
            run=False,
            cls=frames[1].cls[:0],
            score=frames[1].score[:0],
            box_px=frames[1].box_px[:0],
        )
    )
    assert math.isnan(router.score)
    with pytest.raises(InputError, match="just escalated, once; there is none"):
        router.learn(full.at(1))
    plain = Router(SIGNALS["ego-speed"], EVERYTHING)
    plain.decide(frames[0])
    with pytest.raises(InputError, match="Only an allocator with feedback learns"):
        plain.learn(full.at(0))


def test_the_steps_that_are_timed_score_without_learning():
    judged, cell = on(pair_cell(), Curious()), pair_cell()
    (score,) = Curious().stages().values()
    glances = [glance for sight in cell.sights for glance in sight.glances]
    assert [*score(glances[:30]), *map(score, glances[30:])] == judged.replay(
        NOTHING
    ).score.tolist()


@cache
def simulated(name):
    return quietly(lambda: fit_on(pair_cell(), name, units="train"))


def test_the_router_with_feedback_of_ours_uses_escalated_outputs_alone():
    cell, allocator = pair_cell(), simulated("router-voi-feedback")
    judged = on(cell, allocator)
    for policy in (*judged.calibrate(0.3), NOTHING):
        run = judged.replay(policy)
        again = on(blanked(cell, judged.table.input[run.escalated]), allocator).replay(
            policy
        )
        np.testing.assert_array_equal(again.score, run.score)
    assert not np.array_equal(
        judged.replay(EVERYTHING).score, judged.replay(NOTHING).score
    )
    with pytest.raises(InputError, match="learns from the frames that it escalates"):
        score_on(cell, allocator)


def test_an_allocator_with_memory_is_wrapped_with_its_memory():
    cell, allocator = pair_cell(), simulated("router-voi")
    judged = on(cell, allocator)
    scores = score_on(cell, allocator, units="all").over(judged.table).values
    np.testing.assert_array_equal(judged.replay(EVERYTHING).score, scores)


@pytest.mark.shared
def test_on_kitti_nothing_but_escalated_outputs_is_used(tmp_path):
    root = shared_data("kitti_tracking")
    files = [f"{name}={root}/detections/{name}.parquet" for name in ("CIWT", "RRC")]
    kinds = (
        "--scores-are",
        "CIWT=raw",
        "--scores-are",
        "RRC=probabilities",
        "--threshold",
        "RRC=0.25",
    )
    kitti = (
        "--dataset",
        "kitti",
        "--root",
        root,
        "--mode",
        files[0],
        "--mode",
        files[1],
        *kinds,
        "--class",
        "Car",
    )
    call(
        "build",
        *kitti,
        "--geometry",
        "monocular",
        "--system",
        "braking",
        "--out",
        tmp_path,
    )
    cell = read_cell(tmp_path / "braking-monocular")
    # no test unit is opened
    fit = [unit for unit in ("0004", "0010", "0014") if unit in cell.split.fit]
    judged = OnPolicy(cell, Curious(0.02), cell.listed.restrict(fit))
    free, capped = judged.calibrate(0.2)
    for policy in (free, capped):
        run = judged.replay(policy)
        again = OnPolicy(
            blanked(cell, judged.table.input[run.escalated]),
            Curious(0.02),
            judged.table,
        ).replay(policy)
        np.testing.assert_array_equal(again.score, run.score)
        np.testing.assert_array_equal(again.escalated, run.escalated)
    assert abs(judged.replay(free).escalated.mean() - 0.2) <= 0.02
    plain = OnPolicy(cell, with_feedback(SIGNALS["lost"]), judged.table)
    scores = score_on(cell, "lost", units=fit).over(judged.table).values
    np.testing.assert_array_equal(
        plain.replay(capped).escalated,
        capped.decide(scores, judged.table.unit, judged.table.time_rank) > 0,
    )
