from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.driving.geometry.classes import SUPER_CLASS
from deepval.driving.perception.reported import ap_swap as module
from deepval.driving.perception.reported.ap_swap import (
    GROUPS,
    GradedFrames,
    ap_swap,
    contexts,
    contextual_gains,
    graded_frames,
    join_units,
    released_gains,
)
from deepval.driving.perception.reported.detections import NEVER_RUN
from driving import detections, random_boxes, truth
from reference import ap_swap as slow
from whole_sets import average_precision

BOX, AWAY, GROUND = (
    (0.0, 0.0, 40.0, 40.0),
    (500.0, 0.0, 540.0, 40.0),
    (10.0, 14.0, -1.0, 1.0),
)
CLASSES = ["Car", "Pedestrian", "Cyclist"]


def graded(frames, objects):
    """Frames are lists of (score, right), all vehicles, or lists of such lists by
    super-class.
    """
    listed = [
        frame if frame and isinstance(frame[0], list) else [[], [], frame]
        for frame in frames
    ]
    rows = [
        (f, g, *row)
        for f, frame in enumerate(listed)
        for g, part in enumerate(frame)
        for row in part
    ]
    counts = np.zeros((len(frames), len(GROUPS) + 1), dtype=int)
    if np.ndim(objects) == 1:
        counts[:, 2] = objects
    else:
        counts[:, :3] = objects
    return GradedFrames(
        frame=np.array([row[0] for row in rows], dtype=int),
        score=np.array([row[2] for row in rows], dtype=float),
        right=np.array([row[3] for row in rows], dtype=bool),
        group=np.array([row[1] for row in rows], dtype=int),
        objects=counts,
    )


def graded_units(found, truths, frames=None):
    """The detections of several units, graded one by one, as one list."""
    marks = [None] * len(truths) if frames is None else frames
    return join_units(
        [
            graded_frames(d, t, frames=mark)
            for d, t, mark in zip(found, truths, marks, strict=True)
        ]
    )


def random_list(rng, *, most=4):
    """A few graded detections; scores on a grid (ties), or continuous; at times all
    wrong or all right.
    """
    count = rng.integers(0, most + 1)
    score = (
        rng.choice([0.3, 0.5, 0.7, 0.9], count)
        if rng.random() < 0.6
        else rng.random(count)
    )
    right = rng.random(count) < rng.choice([0.0, 0.5, 0.8, 1.0])
    return list(zip(score.tolist(), right.tolist(), strict=True))


def rights(rows):
    return sum(right for _, right in rows)


def test_ap_swap_equals_putting_the_list_together_anew(monkeypatch):
    rng = np.random.default_rng(0)
    tied = without_right = empty = 0
    for case in range(2000):
        monkeypatch.setattr(module, "CASES", 64 if case % 2 else 2)
        weak = [random_list(rng) for _ in range(rng.integers(1, 5))]
        strong = [row if rng.random() < 0.2 else random_list(rng) for row in weak]
        least = [max(rights(w), rights(s)) for w, s in zip(weak, strong, strict=True)]
        objects = [int(count + rng.integers(0, 2)) for count in least]
        if not sum(objects):
            objects[0] = 1
        found = ap_swap(graded(weak, objects), graded(strong, objects))
        expected = slow.ap_swap(weak, strong, sum(objects))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        for value, w, s in zip(found, weak, strong, strict=True):
            assert value == 0 or sorted(w) != sorted(s)
        scores = [score for frame in weak for score, _ in frame]
        tied += len(scores) > len(set(scores))
        without_right += not any(rights(frame) for frame in weak)
        empty += any(not frame for frame in weak)
    assert min(tied, without_right, empty) > 100


def test_oric_rewards_equal_putting_the_list_together_anew(monkeypatch):
    rng = np.random.default_rng(1)
    undefined = inside = outside = 0
    for case in range(500):
        monkeypatch.setattr(module, "CASES", 64 if case % 2 else 3)
        frames = rng.integers(1, 9)
        weak, strong = (
            [
                [random_list(rng, most=int(rng.integers(0, 3))) for _ in CLASSES]
                for _ in range(frames)
            ]
            for _ in range(2)
        )
        objects = np.array(
            [
                [max(rights(w), rights(s)) for w, s in zip(*pair, strict=True)]
                for pair in zip(weak, strong, strict=True)
            ]
        )
        objects = objects + rng.integers(0, 2, objects.shape) * rng.integers(0, 30)
        context = np.sort(
            rng.choice(frames, rng.integers(0, frames + 1), replace=False)
        )
        found = contextual_gains(
            graded(weak, objects), graded(strong, objects), context=context
        )
        expected = slow.reward(weak, strong, objects.tolist(), context.tolist())
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        inside += len(context)
        outside += frames - len(context)
        undefined += not objects.sum()
    assert inside + outside > 2000
    assert min(inside, outside) > 500
    assert undefined > 0


def test_released_rewards_equal_putting_the_list_together_anew():
    rng = np.random.default_rng(6)
    undefined = moved = tied = 0
    for case in range(400):
        frames = int(rng.integers(1, 7))
        weak, strong = (
            [
                [random_list(rng, most=int(rng.integers(0, 3))) for _ in CLASSES]
                for _ in range(frames)
            ]
            for _ in range(2)
        )
        if case % 3 == 0:
            weak, strong = (
                [
                    [
                        [(float(rng.random()), right) for _, right in part]
                        for part in frame
                    ]
                    for frame in mode
                ]
                for mode in (weak, strong)
            )
        objects = np.array(
            [
                [max(rights(w), rights(s)) for w, s in zip(*pair, strict=True)]
                for pair in zip(weak, strong, strict=True)
            ]
        )
        objects = objects + rng.integers(0, 2, objects.shape) * rng.integers(0, 30)
        size = int(rng.integers(0, frames + 1))
        one, other = graded(weak, objects), graded(strong, objects)
        found = released_gains(one, other, rng=np.random.default_rng(case), size=size)
        drawn = [
            context.tolist()
            for context in contexts(frames, rng=np.random.default_rng(case), size=size)
        ]
        expected = slow.released_reward(weak, strong, objects.tolist(), drawn)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        undefined += not objects.sum()
        moved += np.count_nonzero(found)
        tied += len(np.unique(one.score)) < len(one.score)
    assert (undefined > 0, tied > 100) == (True, True)
    assert moved > 500


def test_released_by_hand():
    # One object, one wrong detection above the right one: points (0, 1), (0, 1/2), (1,
    # 1/2), (1, 0), so that the lines stand at 1/2 from recall 0 on and drop to 0 at
    # recall 1. The right one alone stands at 1 until there.
    weak, strong = (
        graded([[(0.9, False), (0.5, True)]], [1]),
        graded([[(0.5, True)]], [1]),
    )
    last = 0.01 / 2
    found = released_gains(weak, strong, rng=np.random.default_rng(0))
    assert found == pytest.approx([(1 - last) - (1 - last) / 2])
    # One of two objects found: the lines fall from (1/2, 1) to (1, 0), where the
    # benchmark's own AP is 51/101.
    found = released_gains(
        graded([[]], [2]), graded([[(0.5, True)]], [2]), rng=np.random.default_rng(0)
    )
    assert found == pytest.approx([3 / 4])


def test_by_hand():
    weak = graded([[(0.9, True)], [(0.8, False)], [(0.7, True)]], [1, 1, 1])
    strong = graded([[(0.9, True)], [(0.8, True)], []], [1, 1, 1])
    before = (1 * 1 + 1 * 2 / 3) / 3
    assert ap_swap(weak, strong) == pytest.approx(
        [0, 3 * (1 - before), 3 * (1 / 3 - before)]
    )
    # Tied with the wrong 0.8, a right detection shares its point: precision 2/3 instead
    # of 1 for recall 2/3.
    tied = graded(
        [[(0.9, True)], [(0.8, False), (0.8, True)], [(0.7, True)]], [1, 1, 1]
    )
    assert ap_swap(weak, tied)[1] == pytest.approx(3 * ((1 + 2 * 3 / 4) / 3 - before))


def test_oric_by_hand():
    weak = graded([[(0.9, True)], [(0.8, False)], []], [1, 1, 2])
    strong = graded(
        [[(0.9, True), (0.95, False)], [(0.8, True)], [(0.5, True)]], [1, 1, 2]
    )
    # Alone: precision 1 or, behind the wrong 0.95, 1/2 at each of the 101
    # recalls. Others: recall 1/2 of two objects covers 51 recalls; 1/3 of three covers
    # 34 and 2/3 covers 67.
    expected = [1 * (1 / 2 - 1), 2 * (1 - 51 / 101), 2 * (67 - 34) / 101]
    assert contextual_gains(weak, strong, context=np.array([0])) == pytest.approx(
        expected
    )


lists = st.lists(
    st.tuples(st.sampled_from([0.3, 0.4, 0.5, 0.8]), st.booleans()), max_size=4
)


@given(
    frames=st.lists(st.tuples(lists, lists), min_size=1, max_size=5),
    seed=st.integers(0, 9),
)
def test_laws(frames, seed):
    weak, strong = [list(pair) for pair in zip(*frames, strict=True)]
    objects = np.array([max(rights(w), rights(s)) + 1 for w, s in frames])
    one, other = graded(weak, objects), graded(strong, objects)
    found = ap_swap(one, other)
    assert (np.abs(found) <= len(frames)).all()
    order = np.random.default_rng(seed).permutation(len(frames))
    moved = [
        graded([kind[place] for place in order], objects[order])
        for kind in (weak, strong)
    ]
    np.testing.assert_allclose(ap_swap(*moved), found[order], rtol=1e-9, atol=1e-12)
    stretched = [part._replace(score=np.exp(5 * part.score)) for part in (one, other)]
    np.testing.assert_array_equal(ap_swap(*stretched), found)
    perfect = graded([[(0.9, True)] * int(count) for count in objects], objects)
    assert (ap_swap(one, perfect) >= -1e-12).all()


def random_unit(rng, frames, *, unit):
    """A unit's truth and two modes' detections of it, crowded, some objects and regions
    ignored.
    """
    objects, found, ignored = [], ([], []), []
    for frame in range(frames):
        for box in random_boxes(rng, rng.integers(0, 4)):
            cls = str(rng.choice(CLASSES))
            objects.append(
                (frame, cls, 0, int(rng.integers(0, 4)), tuple(box), GROUND, 0.0)
            )
            for rows in found:
                for _ in range(rng.integers(0, 3)):
                    near = box + rng.normal(0, 3, 4)
                    rows.append(
                        (
                            frame,
                            cls,
                            float(rng.choice([0.2, 0.35, 0.5, rng.random()])),
                            *near,
                        )
                    )
        ignored.extend(
            (frame, *box) for box in random_boxes(rng, rng.integers(0, 2), spread=200.0)
        )
    modes = [
        detections(
            [row for row in rows if row[5] > row[3] and row[6] > row[4]],
            frames,
            unit=unit,
        )
        for rows in found
    ]
    return truth(objects, frames, unit=unit, ignored=ignored), *modes


def swapped(weak, strong, frame):
    """The weak detections with one frame's strong ones in place of its own."""
    kept, taken = weak.where(weak.frame != frame), strong.where(strong.frame == frame)
    columns = {name: np.concatenate([getattr(kept, name), getattr(taken, name)])
               for name in ("frame", "cls", "score", "box_px")}  # fmt: skip
    order = np.argsort(columns["frame"], kind="stable")
    return replace(weak, **{name: column[order] for name, column in columns.items()})


def mean_average_precision(found, truths):
    """The mean over the super-classes that have something to find."""
    areas = [
        average_precision(found, truths, group=group)
        for group in sorted(set(SUPER_CLASS.values()))
    ]
    return float(np.nanmean(areas)) if not np.isnan(areas).all() else float("nan")


def test_both_objectives_from_detections_equal_average_precision_of_swapped_detections():  # noqa: E501
    rng = np.random.default_rng(5)
    for _ in range(6):
        units = [random_unit(rng, 6, unit=name) for name in ("a", "b")]
        truths, weak, strong = (list(column) for column in zip(*units, strict=True))
        marks = [np.arange(6) != 2, np.ones(6, dtype=bool)]
        one, other = (graded_units(mode, truths, marks) for mode in (weak, strong))
        found = ap_swap(one, other)
        reward = contextual_gains(one, other, context=np.arange(11))
        place, hidden = (
            0,
            [
                replace(w.where(m[w.frame]), status=np.where(m, w.status, NEVER_RUN))
                for w, m in zip(weak, marks, strict=True)
            ],
        )
        for unit in (0, 1):
            for frame in np.flatnonzero(marks[unit]):
                after = [
                    swapped(w, strong[unit], frame) if u == unit else w
                    for u, w in enumerate(hidden)
                ]
                change = average_precision(after, truths, rule="all-point")
                change -= average_precision(hidden, truths, rule="all-point")
                assert found[place] == pytest.approx(11 * change, rel=1e-9, abs=1e-12)
                change = mean_average_precision(after, truths) - mean_average_precision(
                    hidden, truths
                )
                assert reward[place] == pytest.approx(11 * change, rel=1e-9, abs=1e-12)
                place += 1
        assert place == len(found) == 11


def test_what_cannot_be_graded_is_refused():
    reference = truth([(0, "Car", 1, 0, BOX, GROUND, 0.0)])
    with pytest.raises(InputError, match="needs scores"):
        graded_frames(detections([(0, "Car", float("nan"), *BOX)]), reference)
    with pytest.raises(InputError, match="frame 1 was not"):
        graded_frames(detections([], status=[0, NEVER_RUN, 0]), reference)
    with pytest.raises(InputError, match="found none"):
        join_units([])
    one = graded_frames(detections([(0, "Car", 0.5, *AWAY)]), reference)
    assert one.objects.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert one.right.tolist() == [False]
    with pytest.raises(InputError, match="grade them together"):
        ap_swap(one, graded([[]], [1]))
