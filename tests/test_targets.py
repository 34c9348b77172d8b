from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.datasets import Dataset
from deepval.diagnostics import Evidence, Perception
from deepval.errors import InputError
from deepval.perception.ap_swap import ap_swap, context_sample, contextual_gains, graded_frames
from deepval.perception.detections import DetectionSet
from deepval.perception.oric_released import released_gains
from deepval.targets import (
    TARGETS,
    ApSwap,
    Binary,
    Cdf,
    Gain,
    Identity,
    OricReward,
    Rank,
    SignedCdf,
    Target,
    arbiter,
    labels,
)
from deepval.values import ValueTable
from driving import detections, random_boxes, scene, truth
from reference import targets as slow

FRAMES, UNITS = 8, ("0000", "0001", "0002")
BOX, GROUND = (0.0, 0.0, 40.0, 40.0), (10.0, 14.0, -1.0, 1.0)
TRANSFORMS = {"cdf": Cdf(), "rank": Rank(), "signed-cdf": SignedCdf(), "binary": Binary(), "identity": Identity()}


def drives(rng):
    """Three units of vehicles and pedestrians, seen by a weak and a strong mode."""
    truths, rows = [], {"weak": {}, "strong": {}}
    for unit in UNITS:
        objects, seen = [], {"weak": [], "strong": []}
        for frame in range(FRAMES):
            for box in random_boxes(rng, rng.integers(0, 4), spread=300.0):
                cls = str(rng.choice(["Car", "Pedestrian"]))
                near = float(rng.uniform(3, 40))
                objects.append((frame, cls, 0, 0, tuple(box), (near, near + 4, -1.0, 1.0), 0.0))
                for mode, chance in (("weak", 0.5), ("strong", 0.8)):
                    if rng.random() < chance:
                        seen[mode].append((frame, cls, rng.uniform(0.05, 1), *(box + rng.normal(0, 1, 4))))
            for mode in seen:
                if rng.random() < 0.3:
                    seen[mode].append((frame, "Car", rng.uniform(0.05, 0.6), 900.0, 0.0, 940.0, 40.0))
        truths.append(truth(objects, FRAMES, unit=unit))
        for mode, found in seen.items():
            rows[mode][unit] = detections(found, FRAMES, unit=unit)
    dataset = Dataset("made-up", tuple(scene(FRAMES, unit=unit) for unit in UNITS), tuple(truths))
    return dataset, *(DetectionSet(mode, "probabilities", found) for mode, found in rows.items())


def evidence(rng, *, rows=None, scored=True):
    """Evidence with made-up losses; inputs in the order of `rows`, or in order of time."""
    dataset, weak, strong = drives(rng)
    inputs = np.concatenate([each.inputs for each in dataset.scenes])
    unit = np.repeat(UNITS, FRAMES)
    losses = rng.integers(0, 4, (len(inputs), 2)).astype(float)
    rows = np.arange(len(inputs)) if rows is None else rows
    table = ValueTable.from_columns(
        unit=unit[rows], input=inputs[rows], losses={"weak": losses[rows, 0], "strong": losses[rows, 1]}
    )
    used = weak.above(0.25), strong.above(0.25)
    return Evidence(table, Perception(dataset, *used, scored=(weak, strong) if scored else None))


def test_signed_cdf_by_hand():
    fitted = SignedCdf().fit(np.array([4.0, 0.0, -1.0, 2.0, -3.0, 2.0, 8.0, -1.0, 0.0]))
    found = fitted.apply(np.array([8.0, 4.0, 2.0, 1.0, 9.0, 0.0, -0.0, -1.0, -3.0, -0.5, -9.0]))
    assert found.tolist() == [4 / 4, 3 / 4, 2 / 4, 0 / 4, 4 / 4, 0, 0, -2 / 3, -3 / 3, -0 / 3, -3 / 3]


def test_a_sign_that_no_fit_value_has_is_undefined():
    fitted = SignedCdf().fit(np.array([1.0, 0.0]))
    assert fitted.apply(np.array([1.0, 0.0])).tolist() == [1, 0]
    assert np.isnan(fitted.apply(np.array([-1.0]))).all()
    assert np.isnan(SignedCdf().fit(np.array([-1.0])).apply(np.array([2.0]))).all()


def test_rank_cdf_and_binary_by_hand():
    values = np.array([0.0, 5.0, 0.0, -2.0])
    assert Rank().fit(values).apply(values).tolist() == [(2.5 - 0.5) / 4, (4 - 0.5) / 4, (2.5 - 0.5) / 4, (1 - 0.5) / 4]
    assert Cdf().fit(values).apply(values).tolist() == [3 / 4, 4 / 4, 3 / 4, 1 / 4]
    assert Cdf().fit(values).apply(np.array([-9.0, 2.0, 9.0])).tolist() == [0, 3 / 4, 1]
    assert Binary().fit(values).apply(values).tolist() == [0, 1, 0, 0]
    assert Identity().fit(values).apply(values).tolist() == values.tolist()


@pytest.mark.parametrize("name", ["cdf", "rank", "signed-cdf"])
def test_transforms_equal_their_slow_twins(name):
    rng = np.random.default_rng(0)
    for _ in range(2000):
        fit = rng.integers(-3, 4, rng.integers(1, 9)).astype(float)
        new = np.concatenate([fit, rng.integers(-4, 5, 4) / 2])
        found = TRANSFORMS[name].fit(fit).apply(new)
        np.testing.assert_allclose(found, slow.transformed(name, fit.tolist(), new.tolist()), rtol=1e-9)


@given(
    fit=st.lists(st.floats(-9, 9), min_size=1, max_size=20),
    new=st.lists(st.floats(-9, 9), min_size=1, max_size=20),
    name=st.sampled_from(sorted(TRANSFORMS)),
)
def test_transforms_keep_order_and_leave_their_inputs_alone(fit, new, name):
    values = np.sort(np.array(new))
    values.flags.writeable = False
    given_fit = np.array(fit)
    given_fit.flags.writeable = False
    found = TRANSFORMS[name].fit(given_fit).apply(values)
    known = found[~np.isnan(found)]
    assert (np.diff(known) >= 0).all()
    if name == "signed-cdf":
        assert (known * values[~np.isnan(found)] >= 0).all()
    if name != "identity":
        assert (np.abs(known) <= 1).all()


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf]])
def test_a_transform_needs_finite_values(values):
    with pytest.raises(InputError, match="one or more finite values"):
        Cdf().fit(np.array(values, dtype=float))


def test_the_table_of_targets():
    made = evidence(np.random.default_rng(1))
    for name, target in TARGETS.items():
        found = labels(name, made)
        again = labels(target, made)
        assert found.values.tobytes() == again.values.tobytes()
        assert found.values.shape == (len(made.table),)
        assert np.isfinite(found.values).all()
        assert target.classifies == name.endswith("binary") == (set(found.values) <= {0.0, 1.0} and "cdf" not in name)
        assert len(np.unique(found.objective)) > 2
    for objective in ("gain-E1", "gain-E5", "gain-E8", "oric", "oric-released", "ap-swap"):
        raw = labels(objective, made)
        np.testing.assert_array_equal(raw.values, raw.objective)
        np.testing.assert_array_equal(labels(f"{objective}-binary", made).values, raw.values > 0)
        np.testing.assert_array_equal(labels(f"{objective}-cdf", made).fitted.reference, np.sort(raw.values))
    np.testing.assert_array_equal(labels("value", made).values, made.table.decision_values)
    np.testing.assert_array_equal(labels("value-binary", made).values, made.table.decision_values > 0)


def test_published_objectives_are_those_of_the_kernels():
    made = evidence(np.random.default_rng(2))
    dataset, modes = made.perceived.dataset, made.perceived.scored
    at = {}
    for threshold in (0.10, 0.30):
        kept = [mode.above(threshold) for mode in modes]
        at[threshold] = [graded_frames([m[unit] for unit in UNITS], dataset.truths) for m in kept]
    np.testing.assert_array_equal(labels("ap-swap", made).values, ap_swap(*at[0.30]))
    context = context_sample(24, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(labels("oric", made).values, contextual_gains(*at[0.10], context=context))
    released = released_gains(*at[0.10], rng=np.random.default_rng(0))
    np.testing.assert_array_equal(labels("oric-released", made).values, released)
    few = context_sample(24, rng=np.random.default_rng(3), size=5)
    found = labels(Target(OricReward(context=5, seed=3), Identity()), made).values
    np.testing.assert_array_equal(found, contextual_gains(*at[0.10], context=few))


def test_labels_follow_the_order_of_the_inputs():
    rows = np.random.default_rng(3).permutation(len(UNITS) * FRAMES)
    one, other = (evidence(np.random.default_rng(4), rows=order) for order in (None, rows))
    for name in TARGETS:
        np.testing.assert_array_equal(labels(name, one).values[rows], labels(name, other).values)


def test_nothing_of_other_units_enters():
    made = evidence(np.random.default_rng(5))
    fit = made.restrict(UNITS[:2])
    dataset = made.perceived.dataset
    blank = replace(dataset, truths=(*dataset.truths[:2], truth([], FRAMES, unit=UNITS[2])))
    scored = tuple(
        replace(mode, units={**mode.units, UNITS[2]: detections([], FRAMES, unit=UNITS[2])})
        for mode in made.perceived.scored
    )
    blanked = Evidence(fit.table, replace(made.perceived, dataset=blank, scored=scored))
    alone = Evidence(
        fit.table,
        Perception(
            dataset.of_units(UNITS[:2]),
            made.perceived.cheap.of_units(UNITS[:2]),
            made.perceived.full.of_units(UNITS[:2]),
            scored=tuple(mode.of_units(UNITS[:2]) for mode in made.perceived.scored),
        ),
    )
    for name in TARGETS:
        found = labels(name, fit).values
        assert len(found) == 2 * FRAMES
        np.testing.assert_array_equal(found, labels(name, blanked).values)
        np.testing.assert_array_equal(found, labels(name, alone).values)
    assert not np.array_equal(labels("ap-swap", fit).values, labels("ap-swap", made).values[: 2 * FRAMES])


def test_targets_that_cannot_be_made_are_refused():
    made = evidence(np.random.default_rng(6), scored=False)
    with pytest.raises(InputError, match="one of value, value-binary"):
        labels("velue", made)
    for name in ("oric", "ap-swap-cdf"):
        with pytest.raises(InputError, match="needs scored detections"):
            labels(name, made)
    raw = replace(made.perceived.cheap, scores="raw")
    for scored in ((raw, made.perceived.full), (made.perceived.full, raw)):
        with pytest.raises(InputError, match="scores of mode weak are raw: calibrate"):
            labels("ap-swap", Evidence(made.table, replace(made.perceived, scored=scored)))
    with pytest.raises(InputError, match="none were given"):
        labels("gain-E1", Evidence(made.table))
    assert len(labels("value-signed-cdf", Evidence(made.table)).values) == len(made.table)
    with pytest.raises(InputError, match="perception loss must be one of E1"):
        Gain("E9")
    dataset = made.perceived.dataset
    empty = replace(dataset, truths=tuple(truth([], FRAMES, unit=unit) for unit in UNITS))
    perception = replace(made.perceived, dataset=empty, scored=(made.perceived.cheap, made.perceived.full))
    with pytest.raises(InputError, match="needs a reference object"):
        labels(Target(ApSwap(), Cdf()), Evidence(made.table, perception))
    for name in ("oric", "oric-released"):
        assert (labels(name, Evidence(made.table, perception)).values == 0).all()


def test_the_arbiter_takes_the_largest_expected_gain_at_each_share():
    values = np.array([5.0, 3.0, -4.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    steady = np.array([1.0, 1.0, 0.0, 1.0, 0, 0, 0, 0, 0, 0])
    bold = np.array([9.0, 1.0, 8.0, 7.0, 0, 0, 0, 0, 0, 0])
    found = arbiter({"steady": steady, "bold": bold, "twin": steady.copy()}, values, alphas=(0.1, 0.2, 0.3))
    assert found.gains[0.1] == pytest.approx({"steady": (5 + 3 + 1) / 3, "bold": 5, "twin": (5 + 3 + 1) / 3})
    assert found.gains[0.2] == pytest.approx({"steady": 2 * (5 + 3 + 1) / 3, "bold": 5 - 4, "twin": 6})
    assert dict(found.choice) == {0.1: "bold", 0.2: "steady", 0.3: "steady"}
    assert found.chosen(0.1) == "bold"
    with pytest.raises(InputError, match=r"shares 0\.1, 0\.2, 0\.3; found 0\.25"):
        found.chosen(0.25)


def test_the_arbiter_is_never_worse_than_any_one_estimator_on_its_own_units():
    rng = np.random.default_rng(7)
    for _ in range(300):
        values = rng.integers(-3, 4, 20).astype(float)
        scores = {name: rng.integers(0, 5, 20).astype(float) for name in "abc"}
        found = arbiter(scores, values)
        for alpha, choice in found.choice.items():
            expected = {
                name: slow.expected_gain(column.tolist(), values.tolist(), alpha) for name, column in scores.items()
            }
            assert found.gains[alpha] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert expected[choice] == pytest.approx(max(expected.values()), abs=1e-9)


def test_an_arbiter_without_candidates_or_scores_is_refused():
    with pytest.raises(InputError, match="at least one estimator"):
        arbiter({}, np.zeros(3))
    with pytest.raises(InputError, match="'a' must have a score for each of the 3"):
        arbiter({"a": np.array([1.0, np.nan, 0.0])}, np.zeros(3))
