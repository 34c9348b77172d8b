"""Graded detections of a weak and a strong mode -> the change of average precision by a
swap, for every frame.

A swap replaces the weak output of one frame by the strong one. Matching stays within a
frame, so a swap takes some graded detections out of one long list and puts others in.
Between the scores it touches, the counts shift by whole numbers; and down a run of
right detections precision only rises, so that the best precision at no less recall can
turn only at the ends of runs and at touched scores. The curve is needed there and
nowhere else, and nothing is sorted again. Equal scores form one point, as in
`average_precision`.

`contextual_gains` is ORIC's reward as published. `released_gains` is the reward of its
authors' released code, which differs in two ways. AP is interpolated: best precision at
no less recall, drawn as straight lines from (0, 1) over the points of the curve to (1,
0), and the area under them by trapezia at recalls 0, 0.01, ..., 1. And every frame has
a context of its own, drawn at random from the others. Matching and super-classes are
this package's. Equal scores form one point, so that the order of detections does not
matter; the released code does not define that order.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.geometry.classes import CLASSES, SUPER_CLASS, super_class
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.perception.reported.losses import (
    Candidates,
    greedy_matches,
    match_candidates,
    precision_curve,
)
from deepval.driving.world.truth import Truth

GROUPS: tuple[str, ...] = tuple(sorted({SUPER_CLASS[name] for name in CLASSES}))
CONTEXT = 1000
"""Frames that an image's contextual AP is measured among."""
CASES = 64
"""Cases evaluated at once: more cases share the search for points, fewer cases need
fewer points.
"""
ELEMENTS = 1 << 18
"""Points times cases evaluated at once; keeps the arrays in cache."""


class GradedFrames(NamedTuple):
    """Counted detections (frame, score, right or wrong, super-class) and the number of
    objects per frame.

    `group` and the columns of `objects` are indices into GROUPS; one past them stands
    for any other class.
    """

    frame: Int[np.ndarray, "det"]
    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]
    group: Int[np.ndarray, "det"]
    objects: Int[np.ndarray, "time group"]

    def above(self, threshold: float) -> "GradedFrames":
        """The detections with score >= threshold; greedy matching pairs them the same
        without the rest.
        """
        selected = self.score >= threshold
        return GradedFrames(
            self.frame[selected],
            self.score[selected],
            self.right[selected],
            self.group[selected],
            self.objects,
        )

    def of_group(self, group: int) -> "GradedFrames":
        """The detections of one super-class, with its objects only."""
        own = self.group == group
        return GradedFrames(
            self.frame[own],
            self.score[own],
            self.right[own],
            self.group[own],
            self.objects[:, [group]],
        )


def graded_frames(
    detections: Detections,
    truth: Truth,
    *,
    frames: Bool[np.ndarray, "time"] | None = None,
    candidates: Candidates | None = None,
) -> GradedFrames:
    """The detections of a unit, right or wrong, in the frames that `frames` marks
    (None: all), numbered anew.
    """
    mark = np.ones(truth.frames, dtype=bool) if frames is None else frames
    if np.isnan(detections.score).any():
        raise InputError(
            f"unit {detections.unit}: average precision needs scores; "
            "this source has none."
        )
    if not detections.run[mark].all():
        first = np.flatnonzero(mark & ~detections.run)[0]
        raise InputError(
            f"unit {detections.unit}: a mode must have been run on every frame "
            f"graded; frame {first} was not."
        )
    candidates = candidates or match_candidates(detections, truth)
    right = greedy_matches(
        candidates.det,
        candidates.obj,
        overlap=candidates.overlap,
        score=detections.score,
    )
    counted = (right | ~candidates.excused) & mark[detections.frame]
    judged = candidates.judged & mark[truth.frame]
    # The new number of a marked frame; unmarked frames are not looked up.
    number = np.cumsum(mark) - 1
    objects = np.zeros((int(mark.sum()), len(GROUPS) + 1), dtype=int)
    np.add.at(objects, (number[truth.frame[judged]], _group(truth.cls[judged])), 1)
    selected = detections.where(counted)
    return GradedFrames(
        number[selected.frame],
        selected.score,
        right[counted],
        _group(selected.cls),
        objects,
    )


def join_units(units: Sequence[GradedFrames]) -> GradedFrames:
    """The graded frames of several units as one list, frames numbered on from unit to
    unit.
    """
    if not units:
        raise InputError("At least one unit must be graded; found none.")
    start = np.cumsum([0, *(len(unit.objects) for unit in units)])
    moved = [
        unit._replace(frame=unit.frame + begin)
        for unit, begin in zip(units, start, strict=False)
    ]
    return GradedFrames(
        *(np.concatenate(columns) for columns in zip(*moved, strict=True))
    )


def _group(cls: Shaped[np.ndarray, "obj"]) -> Int[np.ndarray, "obj"]:
    names = super_class(cls)
    code = np.full(len(cls), len(GROUPS))
    for index, group in enumerate(GROUPS):
        code[names == group] = index
    return code


def ap_swap(weak: GradedFrames, strong: GradedFrames) -> Float[np.ndarray, "time"]:
    """N x (AP with this frame's strong output - AP), all other frames weak; NaN if
    there is nothing to find.

    One curve over all classes and frames, all-point interpolation.
    """
    frames = common_frames(weak, strong)
    total = int(weak.objects.sum())
    if not total:
        return np.full(frames, np.nan)
    # One case per frame: its weak detections leave the list (-1), its strong ones enter
    # (+1).
    case = np.concatenate([weak.frame, strong.frame])
    sign = np.repeat([-1, 1], [len(weak.frame), len(strong.frame)])
    score = np.concatenate([weak.score, strong.score])
    edits = _edits(
        case,
        score,
        right=sign * np.concatenate([weak.right, strong.right]),
        counted=sign,
    )
    change = np.zeros(frames)
    for part in _curves(weak.score, weak.right, edits=edits, cases=frames):
        rows = len(part.best)
        # All-point area = sum over right detections of the best precision from there
        # on, over the number of objects. `edited` has the right detections that the
        # swap adds or removes, `moved` those of the unedited list.
        edited = np.bincount(
            part.case, part.edit * part.best[part.case, part.point], minlength=rows
        )
        # Terms that a swap leaves alone cancel exactly, so that a swap without effect
        # is worth exactly 0.
        moved = (part.best - part.base_best) @ np.diff(part.base_right, prepend=0)
        change[part.first : part.first + rows] = moved + edited
    return change * (frames / total)


def context_sample(
    frames: int, *, rng: np.random.Generator, size: int = CONTEXT
) -> Int[np.ndarray, "context"]:
    """Frames drawn without replacement as context; all of them where there are no more
    than `size`.
    """
    return np.sort(rng.choice(frames, size=min(size, frames), replace=False))


def contextual_gains(
    weak: GradedFrames, strong: GradedFrames, *, context: Int[np.ndarray, "context"]
) -> Float[np.ndarray, "time"]:
    """ORIC's reward: (n + 1) x (mAP of context and strong output - mAP of context and
    weak output), per frame.

    The context is the weak output of the n frames of `context` other than the frame
    itself. mAP is the mean of the 101-point AP over the super-classes that have
    something to find; the reward is 0 where none has.
    """
    frames = common_frames(weak, strong)
    inside = np.zeros(frames, dtype=bool)
    inside[context] = True
    gain, groups = np.zeros(frames), np.zeros(frames)
    for group in range(len(GROUPS)):
        one, other = weak.of_group(group), strong.of_group(group)
        # A frame of the context is already in the sum over the context.
        objects = one.objects[inside].sum() + np.where(inside, 0, one.objects[:, 0])
        groups += objects > 0
        if len(one.frame) or len(other.frame):
            gain += _contextual_ap_gain(one, other, inside=inside, objects=objects)
    # n + 1 images: a frame of the context has one frame fewer around it.
    return gain / np.maximum(groups, 1) * (inside.sum() - inside + 1)


def common_frames(weak: GradedFrames, strong: GradedFrames) -> int:
    """The number of graded frames, which must be the same in both modes."""
    if not np.array_equal(weak.objects, strong.objects):
        raise InputError(
            "Both modes must be graded on the same frames and objects; theirs differ: "
            "grade them together."
        )
    return len(weak.objects)


def _contextual_ap_gain(
    weak: GradedFrames,
    strong: GradedFrames,
    *,
    inside: Bool[np.ndarray, "time"],
    objects: Int[np.ndarray, "time"],
) -> Float[np.ndarray, "time"]:
    """Change of one super-class's AP if a frame's weak output is replaced by its strong
    one.

    0 if there is nothing to find. Case 2f has frame f weak, case 2f+1 strong.
    """
    # The unedited list is the weak output of the whole context. Weak case: the frame's
    # weak output is added unless the frame is already in the context. Strong case: its
    # strong output is added, and its weak output is removed if the frame is in the
    # context.
    of_context = inside[weak.frame]
    new = ~of_context
    case = [2 * weak.frame[new], 2 * weak.frame[of_context] + 1, 2 * strong.frame + 1]
    sign = np.repeat([1, -1, 1], [len(part) for part in case])
    right = np.concatenate([weak.right[new], weak.right[of_context], strong.right])
    score = np.concatenate([weak.score[new], weak.score[of_context], strong.score])
    edits = _edits(np.concatenate(case), score, right=sign * right, counted=sign)
    case_objects = np.repeat(objects, 2)
    precision = np.zeros(len(case_objects))
    for part in _curves(
        weak.score[of_context],
        weak.right[of_context],
        edits=edits,
        cases=len(case_objects),
    ):
        rows = slice(part.first, part.first + len(part.best))
        precision[rows] = _mean_at_recalls(part, case_objects[rows])
    return np.where(objects > 0, precision[1::2] - precision[::2], 0.0)


class _Edits(NamedTuple):
    """Net changes to a list, case after case and within a case by falling score, each
    score once.
    """

    case: Int[np.ndarray, "edit"]
    score: Float[np.ndarray, "edit"]
    right: Int[np.ndarray, "edit"]
    counted: Int[np.ndarray, "edit"]


class _Curves(NamedTuple):
    """Curves of some cases from case `first` on, at points of falling score that all of
    them share.

    `right` counts right detections down to a point, `best` is the best precision from
    there on; `base_*` are those of the unedited list. Edit i changes the right
    detections of row `case[i]` by `edit[i]`, from point `point[i]` on.
    """

    first: int
    right: Float[np.ndarray, "case point"]
    best: Float[np.ndarray, "case point"]
    base_right: Float[np.ndarray, "point"]
    base_best: Float[np.ndarray, "point"]
    case: Int[np.ndarray, "edit"]
    point: Int[np.ndarray, "edit"]
    edit: Int[np.ndarray, "edit"]


def _edits(
    case: Int[np.ndarray, "edit"],
    score: Float[np.ndarray, "edit"],
    *,
    right: Int[np.ndarray, "edit"],
    counted: Int[np.ndarray, "edit"],
) -> _Edits:
    if not len(case):
        return _Edits(case, score, right, counted)
    # The last key sorts first: by case, then by falling score. Rows of one case and
    # score become one edit.
    order = np.lexsort((-score, case))
    case, score = case[order], score[order]
    first = np.flatnonzero(
        np.concatenate([[True], (np.diff(case) != 0) | (np.diff(score) != 0)])
    )
    right, counted = (
        np.add.reduceat(right[order], first),
        np.add.reduceat(counted[order], first),
    )
    # Equal contributions of both modes at a score cancel: the swap does not touch it.
    left = (right != 0) | (counted != 0)
    return _Edits(case[first][left], score[first][left], right[left], counted[left])


def _curves(
    score: Float[np.ndarray, "det"],
    right: Bool[np.ndarray, "det"],
    *,
    edits: _Edits,
    cases: int,
) -> Iterator[_Curves]:
    """The curves of a list under each case's edits, some cases at a time."""
    curve = precision_curve(score, right)
    # Level k: everything down to the k-th distinct score; level 0 is the empty list.
    falling = -np.unique(-score)
    rights, counts = (np.concatenate([[0.0], column]) for column in curve)
    # A level with right detections ends a run unless the next level is all right, where
    # precision still rises.
    gained = np.diff(rights)
    pure = np.append(gained == np.diff(counts), False)[1:]
    ends = np.flatnonzero((gained > 0) & ~pure)
    # The whole list is the last point of every case, so that edits below all its scores
    # have one.
    own = -np.append(falling[ends], -np.inf)
    upto = np.append(ends + 1, len(falling))
    step = max(1, min(CASES, ELEMENTS // len(upto)))
    firsts = range(0, cases, step)
    bounds = np.searchsorted(edits.case, [*firsts, cases])
    for first, low, high in zip(firsts, bounds[:-1], bounds[1:], strict=True):
        touched, which = np.unique(-edits.score[low:high], return_inverse=True)
        # Each touched score gives two points: just above it, and down to it, before any
        # end of a run at that score.
        at = np.searchsorted(own, touched, side="left")
        above = np.searchsorted(-falling, touched, side="left")
        down = np.searchsorted(-falling, touched, side="right")
        levels = np.insert(
            upto, np.repeat(at, 2), np.column_stack([above, down]).reshape(-1)
        )
        point = (at + 2 * np.arange(len(touched)) + 1)[which]
        case, rows = edits.case[low:high] - first, min(step, cases - first)
        base = rights[levels]
        # Best precision at no less recall: the running maximum from the end. Precision
        # of an empty list is 0.
        base_best = np.maximum.accumulate(
            (base / np.maximum(counts[levels], 1.0))[::-1]
        )[::-1]
        # In place: at this size a fresh array costs more than the arithmetic that fills
        # it.
        now = _running_sums(
            case, point, edits.right[low:high], shape=(rows, len(levels))
        )
        best = _running_sums(
            case, point, edits.counted[low:high], shape=(rows, len(levels))
        )
        now += base
        best += counts[levels]
        np.maximum(best, 1.0, out=best)
        np.divide(now, best, out=best)
        np.maximum.accumulate(best[:, ::-1], axis=1, out=best[:, ::-1])
        yield _Curves(
            first, now, best, base, base_best, case, point, edits.right[low:high]
        )


def _running_sums(
    case: Int[np.ndarray, "edit"],
    point: Int[np.ndarray, "edit"],
    by: Int[np.ndarray, "edit"],
    *,
    shape: tuple[int, int],
) -> Float[np.ndarray, "case point"]:
    """For each case and point the sum of `by` over the case's edits at or before the
    point.
    """
    rows, width = shape
    # One cumulative sum over all rows laid end to end; the start of a row takes back
    # the total of the row before.
    total = np.bincount(case, by, minlength=rows)
    offset = np.concatenate([np.arange(rows) * width, case * width + point])
    # Stable: where an edit is at a row's first point, the reset comes before it.
    order = np.argsort(offset, kind="stable")
    change = np.concatenate([-np.append(0.0, total[:-1]), by])[order]
    length = np.diff(offset[order], append=rows * width)
    return np.repeat(np.cumsum(change), length).reshape(shape)


def _mean_at_recalls(
    part: _Curves, objects: Int[np.ndarray, "case"]
) -> Float[np.ndarray, "case"]:
    """Mean best precision at recalls 0, 0.01, ..., 1, in whole numbers; 0 where a
    recall is not reached.
    """
    rows, width = part.right.shape
    # Shifting each row beyond the largest count of the row before makes one sorted
    # list: one search serves all rows.
    apart = 100.0 * max(part.right.max(), objects.max()) + 1.0
    shift = apart * np.arange(rows)[:, None]
    targets = np.arange(101) * objects[:, None] + shift
    point = (
        np.searchsorted((100.0 * part.right + shift).reshape(-1), targets)
        - width * np.arange(rows)[:, None]
    )
    best = np.take_along_axis(part.best, np.minimum(point, width - 1), axis=1)
    return np.where(point < width, best, 0.0).mean(axis=1)


RECALLS = np.linspace(0, 1, 101)
STEPS = np.diff(RECALLS)


def contexts(
    frames: int, *, rng: np.random.Generator, size: int = CONTEXT
) -> Iterator[Int[np.ndarray, "context"]]:
    """For each frame in turn, others drawn without replacement; all of them where there
    are no more than `size`.
    """
    for frame in range(frames):
        drawn = rng.choice(frames - 1, size=min(size, frames - 1), replace=False)
        # Numbers from the frame's own on move up by one: the frame is not in its
        # context.
        yield drawn + (drawn >= frame)


def released_gains(
    weak: GradedFrames,
    strong: GradedFrames,
    *,
    rng: np.random.Generator,
    size: int = CONTEXT,
) -> Float[np.ndarray, "time"]:
    """(n + 1) x (mAP of context and strong output - mAP of context and weak output),
    per frame.

    The context is the weak output of n other frames. mAP is the mean over the
    super-classes that have something to find in the context or the frame; the reward is
    0 where none has.
    """
    frames = common_frames(weak, strong)
    lists = [
        _both(weak.of_group(group), strong.of_group(group), frames)
        for group in range(len(GROUPS))
    ]
    objects = weak.objects[:, : len(GROUPS)]
    inside = np.zeros(frames, dtype=bool)
    gain = np.zeros(frames)
    for frame, context in enumerate(contexts(frames, rng=rng, size=size)):
        inside[:] = False
        inside[context] = True
        counts = objects[context].sum(axis=0) + objects[frame]
        for both, count in zip(lists, counts.tolist(), strict=True):
            own, put = both.weak[frame], both.strong[frame]
            if count and (len(own) or len(put)):
                around = both.rank[np.flatnonzero(inside.take(both.frame))]
                gain[frame] += _interpolated_ap(
                    both, around, put, count
                ) - _interpolated_ap(both, around, own, count)
        gain[frame] *= (len(context) + 1) / max(np.count_nonzero(counts), 1)
    return gain


class _Both(NamedTuple):
    """Both modes' detections of one super-class by falling score, and the ranks of each
    mode's in every frame.
    """

    right: Bool[np.ndarray, "det"]
    level: Int[np.ndarray, "det"] | None
    rank: Int[np.ndarray, "weak"]
    frame: Int[np.ndarray, "weak"]
    weak: tuple[Int[np.ndarray, "_"], ...]
    strong: tuple[Int[np.ndarray, "_"], ...]


def _both(weak: GradedFrames, strong: GradedFrames, frames: int) -> _Both:
    score = np.concatenate([weak.score, strong.score])
    order = np.argsort(-score, kind="stable")
    rank = np.empty(len(order), dtype=int)
    # Both modes are ranked once together; a context is then a choice of ranks, without
    # sorting scores again.
    rank[order] = np.arange(len(order))
    fallen = np.diff(score[order], prepend=np.inf) != 0
    mine, theirs = rank[: len(weak.frame)], rank[len(weak.frame) :]
    by_rank = np.argsort(mine)
    return _Both(
        np.concatenate([weak.right, strong.right])[order],
        None if fallen.all() else np.cumsum(fallen),
        mine[by_rank],
        weak.frame[by_rank],
        _by_frame(weak.frame, mine, frames),
        _by_frame(strong.frame, theirs, frames),
    )


def _by_frame(
    frame: Int[np.ndarray, "det"], rank: Int[np.ndarray, "det"], frames: int
) -> tuple[Int[np.ndarray, "_"], ...]:
    order = np.argsort(frame, kind="stable")
    return tuple(
        np.split(rank[order], np.searchsorted(frame[order], np.arange(1, frames)))
    )


def _interpolated_ap(
    both: _Both, around: Int[np.ndarray, "_"], own: Int[np.ndarray, "_"], objects: int
) -> float:
    """AP of the detections at these ranks; 0 without detections."""
    chosen = np.concatenate([around, own])
    if not len(chosen):
        return 0.0
    chosen.sort(kind="stable")  # two sorted runs, which a stable sort merges
    right, counted = np.cumsum(both.right.take(chosen)), np.arange(1, len(chosen) + 1)
    # Equal scores form one point: only the last of a level stays. No levels where all
    # scores differ.
    if both.level is not None:
        level = both.level.take(chosen)
        ends = np.append(level[1:] != level[:-1], True)
        right, counted = right[ends], counted[ends]
    recall = np.concatenate([[0.0], right / objects, [1.0]])
    precision = np.concatenate([[1.0], right / counted, [0.0]])
    best = np.maximum.accumulate(precision[::-1])[::-1]
    drawn = np.interp(RECALLS, recall, best)
    return float((STEPS * (drawn[1:] + drawn[:-1])).sum() / 2)
