from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from commands import PYTHON, run_process
from deepval.basics.errors import InputError
from deepval.deploy.allocators.models import Boosting
from deepval.deploy.diagnostics import (
    MultiMetric,
    PerceptionGain,
    ReferenceCriticality,
    error_features,
    unit_folds,
)
from deepval.driving.evidence import Evidence
from deepval.driving.perception.reported.detections import NEVER_RUN
from deepval.driving.systems import SYSTEMS
from driving import detections, objects, scene, truth
from evidence_worlds import evidence_of, material_of, shared_of
from in_memory import DetectionSet, Recording
from whole_sets import outcomes


@pytest.fixture(autouse=True)
def one_thread():
    """Small fits on several threads mostly wait for each other."""
    with threadpool_limits(1):
        yield


BOX, AWAY = (0.0, 0.0, 40.0, 40.0), (500.0, 0.0, 540.0, 40.0)
NEAR, FAR = (12.0, 16.0, -1.0, 1.0), (62.0, 66.0, -1.0, 1.0)


def material(dataset, cheap, full):
    """The data set under two modes that report these detections by unit."""
    modes = {"cheap": cheap, "full": full}
    return material_of(
        dataset,
        [DetectionSet(mode, "probabilities", found) for mode, found in modes.items()],
    )


def two_frames():
    """Evidence of `near_and_far`."""
    return evidence_of(near_and_far(), [[3, 1], [0, 0]])


def near_and_far():
    """A near and a far car; the cheap mode sees the far one and a ghost, the full mode
    both cars.
    """
    rows = [(0, "Car", 1, 0, BOX, NEAR, 0.0), (1, "Car", 2, 0, AWAY, FAR, 5.0)]
    dataset = Recording("made-up", (scene(2),), (truth(rows, 2),))
    cheap = {
        "0000": detections(
            [(0, "Car", 0.9, 200.0, 0.0, 240.0, 40.0), (1, "Car", 0.9, *AWAY)], 2
        )
    }
    full = {"0000": detections([(0, "Car", 0.9, *BOX), (1, "Car", 0.9, *AWAY)], 2)}
    return material(dataset, cheap, full)


def test_by_hand():
    made = two_frames()
    # 10 m/s, 12 m ahead: 12 - 2 - 0.4*10 = 6 m of room; 62 m ahead: 62 - 2 - 0.4*10 =
    # 56 m at ego speed, which demands more than 5 m/s with 62 - 2 - 0.4*5 = 58 m.
    expected = [10**2 / (2 * 6), max(10**2 / (2 * 56), 5**2 / (2 * 58))]
    assert ReferenceCriticality().scores(made) == pytest.approx(expected)
    expected = {
        "E1": 1,
        "E2": 1,
        "E3": 1 + 1,
        "E4": 1 - 0,
        "E5": 1 + 1,
        "E6": 0,
        "E7": np.exp(-12 / 30),
    }
    expected["E8"] = 1 / (1 + 10) + np.exp(-12 / 20)
    for name, gain in expected.items():
        assert PerceptionGain(name).scores(made) == pytest.approx([gain, 0])


def random_evidence(rng, *, units=6, frames=30, rows=None, noise=0.1):
    """Units in which escalation is worth twice what it adds in found objects, and
    noise.
    """
    scenes, truths, cheap, full, losses = [], [], {}, {}, []
    for place in range(units):
        unit, listed, seen = f"{place:04d}", [], ([], [])
        for frame in range(frames):
            worth = 0.0
            for lane in range(rng.integers(0, 4)):
                box = (100.0 * lane, 0.0, 100.0 * lane + 40.0, 40.0)
                near = float(rng.uniform(4, 60))
                listed.append(
                    (frame, "Car", lane, 0, box, (near, near + 4, -1.0, 1.0), 0.0)
                )
                found = rng.random(2) < (0.5, 0.7)
                for rows_of, hit in zip(seen, found, strict=True):
                    if hit:
                        rows_of.append((frame, "Car", 0.9, *box))
                worth += 2.0 * (int(found[1]) - int(found[0]))
            losses.append((10 + worth + rng.normal(0, noise), 10))
        scenes.append(scene(frames, unit=unit))
        truths.append(truth(listed, frames, unit=unit))
        cheap[unit], full[unit] = (detections(part, frames, unit=unit) for part in seen)
    found = material(Recording("made-up", tuple(scenes), tuple(truths)), cheap, full)
    return evidence_of(found, losses, rows=rows)


def with_values(made, values):
    return replace(
        made,
        table=replace(
            made.table, losses=np.column_stack([values, np.zeros(len(values))])
        ),
    )


def test_the_multi_metric_model_finds_what_perception_errors_explain():
    made = random_evidence(np.random.default_rng(0))
    found = MultiMetric(folds=2, learner=Boosting(trees=30, least_per_leaf=5)).scores(
        made
    )
    assert np.corrcoef(found, made.table.decision_values)[0, 1] > 0.9
    features = error_features(made)
    assert list(features)[:2] == ["cheap-E1", "cheap-E2"]
    assert len(features) == 3 * 8
    np.testing.assert_array_equal(
        features["gain-E3"], features["cheap-E3"] - features["full-E3"]
    )


def test_out_of_fold_means_that_a_units_own_values_do_not_enter():
    made = random_evidence(np.random.default_rng(1))
    model = MultiMetric(folds=2, learner=Boosting(trees=10, least_per_leaf=10))
    before = model.scores(made)
    held = unit_folds(made.table, 2) == 1
    values = made.table.decision_values.copy()
    values[held] = 100 * np.random.default_rng(2).normal(size=held.sum())
    after = model.scores(with_values(made, values))
    np.testing.assert_array_equal(after[held], before[held])
    assert not np.array_equal(after[~held], before[~held])
    assert model.scores(made).tobytes() == before.tobytes()


def test_reference_criticality_is_what_the_braking_controller_is_judged_by():
    dataset, blind = near_and_far().source, [objects([], 2)]
    found = outcomes(
        SYSTEMS["braking"],
        dataset.scenes,
        dataset.truths,
        perceived={"cheap": blind, "full": blind},
    )
    np.testing.assert_allclose(
        found.terms["shortfall"][:, 0], ReferenceCriticality().scores(two_frames()) ** 2
    )


def test_what_cannot_be_scored_is_refused():
    made = two_frames()
    with pytest.raises(InputError, match="found losses only"):
        ReferenceCriticality().scores(Evidence(made.table))
    with pytest.raises(InputError, match="two units or more; the table has 1"):
        MultiMetric().scores(made)
    with pytest.raises(InputError, match="two folds or more; found 1"):
        MultiMetric(folds=1)
    with pytest.raises(InputError, match="must be one of E1"):
        PerceptionGain("F1")


def test_frames_on_which_an_end_of_the_ladder_was_not_run_are_no_inputs():
    """So that no number of a mode that was not run can be taken for evidence."""
    found = near_and_far()
    blind = {"0000": detections([], 2, status=[0, NEVER_RUN])}
    for cheap, full in (
        (found.modes[0].reader.report.units, blind),
        (blind, found.modes[1].reader.report.units),
    ):
        shared = shared_of(material(found.source, cheap, full), fit=found.units)
        assert shared.inputs.tolist() == ["0000/000000"]
        assert {len(column) for column in shared.evidence.values()} == {1}
        assert all(np.isfinite(column).all() for column in shared.evidence.values())


def test_the_module_loads_without_scikit_learn():
    code = (
        "import sys, deepval.deploy.diagnostics, deepval.deploy.labels; "
        "sys.exit(bool({'sklearn', 'scipy'} & set(sys.modules)))"
    )
    assert run_process(code, program=PYTHON).code == 0
