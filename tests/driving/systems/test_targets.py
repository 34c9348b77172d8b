from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.deploy.labels import (
    TARGETS,
    Binary,
    Cdf,
    Identity,
    Rank,
    SignedCdf,
    arbiter,
    labels,
)
from deepval.driving.evidence import OricReward
from deepval.driving.perception.reported.ap_swap import (
    ap_swap,
    context_sample,
    contextual_gains,
    graded_frames,
    join_units,
    released_gains,
)
from driving import detections, random_boxes, scene, truth
from evidence_worlds import evidence_of, material_of, shared_of
from in_memory import DetectionSet, Recording, read_units
from reference import targets as slow

FRAMES, UNITS = 8, ("0000", "0001", "0002")
BOX, GROUND = (0.0, 0.0, 40.0, 40.0), (10.0, 14.0, -1.0, 1.0)
TRANSFORMS = {
    "cdf": Cdf(),
    "rank": Rank(),
    "signed-cdf": SignedCdf(),
    "binary": Binary(),
    "identity": Identity(),
}


def drives(rng):
    """Three units of vehicles and pedestrians, seen by a weak and a strong mode."""
    truths, rows = [], {"weak": {}, "strong": {}}
    for unit in UNITS:
        objects, seen = [], {"weak": [], "strong": []}
        for frame in range(FRAMES):
            for box in random_boxes(rng, rng.integers(0, 4), spread=300.0):
                cls = str(rng.choice(["Car", "Pedestrian"]))
                near = float(rng.uniform(3, 40))
                objects.append(
                    (frame, cls, 0, 0, tuple(box), (near, near + 4, -1.0, 1.0), 0.0)
                )
                for mode, chance in (("weak", 0.5), ("strong", 0.8)):
                    if rng.random() < chance:
                        seen[mode].append(
                            (
                                frame,
                                cls,
                                rng.uniform(0.05, 1),
                                *(box + rng.normal(0, 1, 4)),
                            )
                        )
            for mode in seen:
                if rng.random() < 0.3:
                    seen[mode].append(
                        (frame, "Car", rng.uniform(0.05, 0.6), 900.0, 0.0, 940.0, 40.0)
                    )
        truths.append(truth(objects, FRAMES, unit=unit))
        for mode, found in seen.items():
            rows[mode][unit] = detections(found, FRAMES, unit=unit)
    dataset = Recording(
        "made-up", tuple(scene(FRAMES, unit=unit) for unit in UNITS), tuple(truths)
    )
    reports = [
        DetectionSet(mode, "probabilities", found) for mode, found in rows.items()
    ]
    return material_of(dataset, reports, threshold=0.25)


def losses_of(rng):
    return rng.integers(0, 4, (len(UNITS) * FRAMES, 2)).astype(float)


def test_signed_cdf_by_hand():
    fitted = SignedCdf().fit(np.array([4.0, 0.0, -1.0, 2.0, -3.0, 2.0, 8.0, -1.0, 0.0]))
    found = fitted.apply(
        np.array([8.0, 4.0, 2.0, 1.0, 9.0, 0.0, -0.0, -1.0, -3.0, -0.5, -9.0])
    )
    assert found.tolist() == [
        4 / 4,
        3 / 4,
        2 / 4,
        0 / 4,
        4 / 4,
        0,
        0,
        -2 / 3,
        -3 / 3,
        -0 / 3,
        -3 / 3,
    ]


def test_rank_cdf_and_binary_by_hand():
    values = np.array([0.0, 5.0, 0.0, -2.0])
    assert Rank().fit(values).apply(values).tolist() == [
        (2.5 - 0.5) / 4,
        (4 - 0.5) / 4,
        (2.5 - 0.5) / 4,
        (1 - 0.5) / 4,
    ]
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
        np.testing.assert_allclose(
            found, slow.transformed(name, fit.tolist(), new.tolist()), rtol=1e-9
        )


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


def test_published_objectives_are_those_of_the_kernels():
    found = drives(np.random.default_rng(2))
    made = evidence_of(found, losses_of(np.random.default_rng(2)))
    at = {}
    for threshold in (0.10, 0.30):
        kept = [mode.reader.report.above(threshold) for mode in found.modes]
        at[threshold] = [
            join_units([graded_frames(m[t.unit], t) for t in found.source.truths])
            for m in kept
        ]
    np.testing.assert_array_equal(labels("ap-swap", made).values, ap_swap(*at[0.30]))
    context = context_sample(24, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(
        labels("oric", made).values, contextual_gains(*at[0.10], context=context)
    )
    released = released_gains(*at[0.10], rng=np.random.default_rng(0))
    np.testing.assert_array_equal(labels("oric-released", made).values, released)
    few = context_sample(24, rng=np.random.default_rng(3), size=5)
    gains = OricReward(context=5, seed=3).frame_values(*graded(found))
    np.testing.assert_array_equal(gains, contextual_gains(*at[0.10], context=few))


def graded(found):
    """Both modes' detections as a build grades them, all units as one list."""
    pairs = [part.graded for part in shared_of(found, fit=found.units).parts]
    return [join_units(list(end)) for end in zip(*pairs, strict=True)]


def test_nothing_of_other_units_enters():
    found, losses = (
        drives(np.random.default_rng(5)),
        losses_of(np.random.default_rng(5)),
    )
    fit = evidence_of(found, losses, fit=UNITS[:2]).restrict(UNITS[:2])
    reports = [mode.reader.report for mode in found.modes]
    blank = replace(
        found.source,
        truths=(*found.source.truths[:2], truth([], FRAMES, unit=UNITS[2])),
    )
    silent = [
        replace(r, units={**r.units, UNITS[2]: detections([], FRAMES, unit=UNITS[2])})
        for r in reports
    ]
    blanked = evidence_of(
        material_of(blank, silent, threshold=0.25), losses, fit=UNITS[:2]
    ).restrict(UNITS[:2])
    alone = material_of(
        read_units(found.source, UNITS[:2]),
        [report.of_units(UNITS[:2]) for report in reports],
        threshold=0.25,
    )
    alone = evidence_of(alone, losses[: 2 * FRAMES])
    for name in TARGETS:
        values = labels(name, fit).values
        assert len(values) == 2 * FRAMES
        np.testing.assert_array_equal(values, labels(name, blanked).values)
        np.testing.assert_array_equal(values, labels(name, alone).values)
    made = evidence_of(found, losses)
    assert not np.array_equal(
        labels("ap-swap", fit).values, labels("ap-swap", made).values[: 2 * FRAMES]
    )


def test_the_arbiter_takes_the_largest_expected_gain_at_each_share():
    values = np.array([5.0, 3.0, -4.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    steady = np.array([1.0, 1.0, 0.0, 1.0, 0, 0, 0, 0, 0, 0])
    bold = np.array([9.0, 1.0, 8.0, 7.0, 0, 0, 0, 0, 0, 0])
    found = arbiter(
        {"steady": steady, "bold": bold, "twin": steady.copy()},
        values,
        alphas=(0.1, 0.2, 0.3),
    )
    assert found.gains[0.1] == pytest.approx(
        {"steady": (5 + 3 + 1) / 3, "bold": 5, "twin": (5 + 3 + 1) / 3}
    )
    assert found.gains[0.2] == pytest.approx(
        {"steady": 2 * (5 + 3 + 1) / 3, "bold": 5 - 4, "twin": 6}
    )
    assert dict(found.choice) == {0.1: "bold", 0.2: "steady", 0.3: "steady"}
    assert found.choice_at(0.1) == "bold"
    with pytest.raises(InputError, match=r"shares 0\.1, 0\.2, 0\.3; found 0\.25"):
        found.choice_at(0.25)


def test_the_arbiter_is_never_worse_than_any_one_estimator_on_its_own_units():
    rng = np.random.default_rng(7)
    for _ in range(300):
        values = rng.integers(-3, 4, 20).astype(float)
        scores = {name: rng.integers(0, 5, 20).astype(float) for name in "abc"}
        found = arbiter(scores, values)
        for alpha, choice in found.choice.items():
            expected = {
                name: slow.expected_gain(column.tolist(), values.tolist(), alpha)
                for name, column in scores.items()
            }
            assert found.gains[alpha] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert expected[choice] == pytest.approx(max(expected.values()), abs=1e-9)


def test_an_arbiter_without_candidates_or_scores_is_refused():
    with pytest.raises(InputError, match="at least one estimator"):
        arbiter({}, np.zeros(3))
    with pytest.raises(InputError, match="'a' must have a score for each of the 3"):
        arbiter({"a": np.array([1.0, np.nan, 0.0])}, np.zeros(3))
