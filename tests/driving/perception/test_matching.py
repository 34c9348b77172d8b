import numpy as np
import pytest

from deepval.basics.errors import InputError
from deepval.driving.perception.reported.detections import DONE, NEVER_RUN
from deepval.driving.perception.reported.losses import (
    LOSSES,
    area,
    assignment,
    match_candidates,
    matching,
    perception_gains,
    perception_losses,
    precision_curve,
)
from deepval.driving.perception.reported.score_thresholds import (
    Rates,
    own_scale_points,
    unit_counts,
)
from driving import detections, random_boxes, truth
from reference import matching as slow
from whole_sets import average_precision, grade

BOX, AWAY, GROUND = (
    (0.0, 0.0, 40.0, 40.0),
    (500.0, 0.0, 540.0, 40.0),
    (10.0, 14.0, -1.0, 1.0),
)
CLASSES = ["Car", "Van", "Bus", "Pedestrian", "Person_sitting", "Cyclist"]


def crowd(rng, frames=8, *, most=6, scores=None):
    """A random unit with crowded boxes, ignored objects and regions, and its detections
    near the objects.
    """
    rows, found, ignored = [], [], []
    for frame in range(frames):
        for box in random_boxes(rng, rng.integers(0, most)):
            cls = rng.choice(CLASSES)
            rows.append(
                (frame, cls, 0, int(rng.integers(0, 4)), tuple(box), GROUND, 0.0)
            )
            for _ in range(rng.integers(0, 3)):
                near = box + rng.normal(0, 4, 4)
                score = rng.random() if scores is None else rng.choice(scores)
                found.append(
                    (
                        frame,
                        cls if rng.random() < 0.8 else rng.choice(CLASSES),
                        score,
                        *near,
                    )
                )
        ignored.extend(
            (frame, *box) for box in random_boxes(rng, rng.integers(0, 2), spread=200.0)
        )
    found = [row for row in found if row[5] > row[3] and row[6] > row[4]]
    return detections(found, frames), truth(rows, frames, ignored=ignored)


def per_frame(found, reference, frame):
    """A frame as lists: detections, judged objects, ignored objects, regions, and where
    the first begin.
    """
    at, of = (
        np.flatnonzero(found.frame == frame),
        np.flatnonzero(reference.frame == frame),
    )
    judged = reference.judged()
    dets = [(str(found.cls[i]), found.box_px[i].tolist()) for i in at]
    refs = [
        (str(reference.cls[i]), reference.box_px[i].tolist()) for i in of if judged[i]
    ]
    out = [
        (str(reference.cls[i]), reference.box_px[i].tolist())
        for i in of
        if not judged[i]
    ]
    return (
        at,
        dets,
        refs,
        out,
        reference.ignored_box_px[reference.ignored_frame == frame].tolist(),
    )


def test_matching_equals_trying_every_assignment():
    rng = np.random.default_rng(0)
    checked = knots = 0
    for _ in range(260):
        found, reference = crowd(rng)
        match = matching(found, reference)
        for frame in range(8):
            at, dets, refs, out, regions = per_frame(found, reference, frame)
            total, pairs = slow.best_assignment(dets, refs)
            assert match.overlap[at].sum() == pytest.approx(total, rel=1e-9)
            assert (match.partner[at] >= 0).sum() == len(pairs)
            hit = {i for i, _ in pairs}
            false = [
                i not in hit and not slow.excused(det, out, regions)
                for i, det in enumerate(dets)
            ]
            assert match.false_positive[at].tolist() == false
            assert match.missed[reference.frame == frame].sum() == len(refs) - len(
                pairs
            )
            checked += 1
        pairs = match_candidates(found, reference)
        knots += (
            2 * len(pairs.det) - len(np.unique(pairs.det)) - len(np.unique(pairs.obj))
        )
    assert checked >= 2000
    assert knots > 500


def test_the_largest_total_overlap_wins_over_the_largest_single_one():
    chosen = assignment(
        np.array([0, 0, 1]), np.array([0, 1, 0]), overlap=np.array([0.9, 0.6, 0.8])
    )
    assert chosen.tolist() == [False, True, True]


def test_small_or_occluded_objects_and_regions_excuse_detections():
    small, region = (0.0, 0.0, 40.0, 24.0), (500.0, 0.0, 530.0, 40.0)
    found = detections(
        [(0, "Car", 1.0, *small), (1, "Cyclist", 1.0, *BOX), (2, "Car", 1.0, *AWAY)]
    )
    rows = [(0, "Car", 1, 0, small, GROUND, 0.0), (1, "Car", 1, 3, BOX, GROUND, 0.0)]
    match = matching(found, truth(rows, ignored=[(2, *region)]))
    assert not match.false_positive.any()
    assert not match.missed.any()
    assert matching(found, truth(rows, ignored=[])).false_positive.tolist() == [
        False,
        False,
        True,
    ]


def test_a_class_of_another_super_class_is_no_match():
    reference = truth([(0, "Pedestrian", 1, 0, BOX, GROUND, 0.0)])
    match = matching(detections([(0, "Car", 1.0, *BOX)]), reference)
    assert match.false_positive.tolist() == match.missed.tolist() == [True]
    with pytest.raises(InputError, match="needs image boxes"):
        matching(detections([(0, "Car", 1.0, *[float("nan")] * 4)]), reference)


def test_losses_by_hand():
    shifted = (0.0, 0.0, 40.0, 30.0)
    rows = [
        (0, "Van", 1, 0, BOX, GROUND, 0.0),
        (0, "Car", 2, 0, AWAY, (9.0, 12.0, 1.9, 4.0), 3.0),
        (1, "Car", 3, 0, AWAY, (-2.0, 2.0, 3.0, 4.0), 3.0),
    ]
    found = detections(
        [(0, "Car", 1.0, *shifted), (0, "Car", 1.0, 200.0, 0.0, 240.0, 40.0)]
    )
    loss = {
        name: values.tolist()
        for name, values in perception_losses(found, truth(rows)).items()
    }
    assert loss["E1"] == [1, 1, 0]
    assert loss["E2"] == [1, 0, 0]
    assert loss["E3"] == [2, 1, 0]
    assert loss["E4"] == pytest.approx([1 - 2 / (2 + 1 + 1), 1, 0])
    assert loss["E5"] == pytest.approx([2 + (1 - 0.75) + 0.5, 1, 0])
    assert loss["E6"] == pytest.approx([1 - 0.75, 0, 0])
    assert loss["E7"] == pytest.approx([np.exp(-9 / 30), np.exp(0), 0])
    assert loss["E8"] == pytest.approx(
        [1 / (1 + 9 / 3) + np.exp(-9 / 20), np.exp(0), 0]
    )
    assert set(loss) == set(LOSSES)


def test_frames_that_were_not_run_have_no_loss_and_gains_are_cheap_minus_full():
    reference = truth(
        [(0, "Car", 1, 0, BOX, GROUND, 0.0), (1, "Car", 1, 0, BOX, GROUND, 0.0)]
    )
    cheap = perception_losses(detections([]), reference)
    full = perception_losses(
        detections([(0, "Car", 1.0, *BOX)], status=[DONE, NEVER_RUN, DONE]), reference
    )
    gain = perception_gains(cheap, full)["E1"]
    assert gain[[0, 2]].tolist() == [1, 0]
    assert np.isnan(gain[1])


@pytest.mark.parametrize("scores", [None, [0.2, 0.4, 0.6, 0.8]])
def test_average_precision_equals_its_slow_twin(scores):
    rng = np.random.default_rng(1)
    frames = 0
    for _ in range(130):
        found, reference = crowd(rng, scores=None)
        flags, values, objects = [], [], 0
        for frame in range(8):
            at, dets, refs, out, regions = per_frame(found, reference, frame)
            right = slow.greedy(dets, found.score[at].tolist(), refs)
            for i, det in enumerate(dets):
                if right[i] or not slow.excused(det, out, regions):
                    flags.append(right[i])
                    values.append(found.score[at][i])
            objects += len(refs)
            frames += 1
        if scores is not None:
            values = [scores[int(value * len(scores))] for value in values]
        if not objects:
            continue
        marked = grade(found, reference)
        assert sorted(marked.right.tolist()) == sorted(flags)
        curve = precision_curve(
            np.array(values, dtype=float), np.array(flags, dtype=bool)
        )
        for rule in ("101-point", "all-point"):
            expected = slow.average_precision(values, flags, objects, rule)
            assert area(curve, objects, rule=rule) == pytest.approx(expected, rel=1e-9)
            if scores is None:
                whole = average_precision([found], [reference], rule=rule)
                assert whole == pytest.approx(expected, rel=1e-9)
    assert frames >= 1000


def test_undefined_and_empty_average_precision():
    assert np.isnan(average_precision([detections([])], [truth([])]))
    reference = truth(
        [(0, "Car", 1, 0, BOX, GROUND, 0.0), (1, "Cyclist", 1, 0, BOX, GROUND, 0.0)]
    )
    assert average_precision([detections([])], [reference]) == 0
    found = detections([(0, "Car", 0.5, *BOX)])
    by_class = [
        average_precision([found], [reference], group=group)
        for group in ("vehicle", "cyclist")
    ]
    assert by_class == [1, 0]
    with pytest.raises(InputError, match="needs scores"):
        average_precision([detections([(0, "Car", float("nan"), *BOX)])], [reference])


def test_operating_points_count_like_matching_at_each_threshold():
    rng = np.random.default_rng(2)
    found, reference = crowd(rng, 30)
    counted = unit_counts(found, reference, grid=(0.1, 0.5, 0.9))
    for place, threshold in enumerate((0.1, 0.5, 0.9)):
        thresholded = found.where(found.score >= threshold)
        match = matching(thresholded, reference)
        expected = (
            len(thresholded),
            (match.partner >= 0).sum(),
            match.false_positive.sum(),
            match.missed.sum(),
        )
        assert tuple(counted[:, place]) == expected


def made_up(boxes, right, wrong, missed):
    return Rates(
        np.array([0.2, 0.25, 0.3, 0.4]),
        *(np.array(column) for column in (boxes, right, wrong, missed)),
    )


def operating_points(cheap, full):
    """S1 to S3 with the cheap mode at 0.25."""
    return own_scale_points(cheap, full, at=1)


def test_operating_points_by_hand():
    cheap = made_up([9, 6, 5, 1], [4, 4, 4, 1], [4, 2, 1, 0], [2, 2, 2, 5])
    full = made_up([20, 8, 4, 3], [6, 5, 4, 3], [9, 3, 2, 0], [0, 1, 2, 3])
    points = operating_points(cheap, full)
    assert points["S1"].cheap == points["S3"].cheap == 0.25
    assert points["S1"].full == 0.3
    assert (points["S2"].cheap, points["S2"].full) == (0.3, 0.25)
    assert points["S3"].full == 0.3
    none = operating_points(cheap, made_up([9] * 4, [1] * 4, [8] * 4, [5] * 4))["S3"]
    assert none.full is None
    assert "as precise" in none.reason


def test_ties_of_operating_points():
    cheap = made_up([9, 6, 5, 1], [4, 4, 4, 1], [4, 2, 1, 0], [2, 2, 2, 5])
    assert (
        operating_points(cheap, made_up([8, 7, 5, 4], [5] * 4, [1] * 4, [1] * 4))[
            "S1"
        ].full
        == 0.3
    )
    assert (
        operating_points(cheap, made_up([9] * 4, [5] * 4, [1] * 4, [1] * 4))["S2"].full
        == 0.2
    )
    empty = made_up([0] * 4, [0] * 4, [0] * 4, [1] * 4)
    assert np.isnan(empty.precision).all()
    assert operating_points(cheap, empty)["S3"].full is None
