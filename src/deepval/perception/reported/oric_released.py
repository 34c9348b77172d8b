"""Graded detections of a weak and a strong mode -> ORIC's reward as its authors' released code defines it.

Two things differ from `ap_swap.contextual_gains`. AP is interpolated: best precision at no less recall, drawn as
straight lines from (0, 1) over the points of the curve to (1, 0), and the area under them by trapezia at recalls 0,
0.01, ..., 1. And every frame has a context of its own, drawn at random from the others. Matching and super-classes are
this package's. Equal scores form one point, so that the order of detections does not matter; the released code does
not define that order.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.perception.reported.ap_swap import CONTEXT, GROUPS, GradedFrames, checked_frames

RECALLS = np.linspace(0, 1, 101)
STEPS = np.diff(RECALLS)


def contexts(frames: int, *, rng: np.random.Generator, size: int = CONTEXT) -> Iterator[Int[np.ndarray, "context"]]:
    """For each frame in turn, others drawn without replacement; all of them where there are no more than `size`."""
    for frame in range(frames):
        drawn = rng.choice(frames - 1, size=min(size, frames - 1), replace=False)
        yield drawn + (drawn >= frame)


def released_gains(
    weak: GradedFrames, strong: GradedFrames, *, rng: np.random.Generator, size: int = CONTEXT
) -> Float[np.ndarray, "time"]:
    """(n + 1) x (mAP of context and strong output - mAP of context and weak output), per frame.

    The context is the weak output of n other frames. mAP is the mean over the super-classes that have something to find
    in the context or the frame; the reward is 0 where none has.
    """
    frames = checked_frames(weak, strong)
    lists = [_both(weak.of_group(group), strong.of_group(group), frames) for group in range(len(GROUPS))]
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
                gain[frame] += _interpolated_ap(both, around, put, count) - _interpolated_ap(both, around, own, count)
        gain[frame] *= (len(context) + 1) / max(np.count_nonzero(counts), 1)
    return gain


class _Both(NamedTuple):
    """Detections of one super-class of both modes by falling score, with the ranks of the weak and of each frame's."""

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
    return tuple(np.split(rank[order], np.searchsorted(frame[order], np.arange(1, frames))))


def _interpolated_ap(both: _Both, around: Int[np.ndarray, "_"], own: Int[np.ndarray, "_"], objects: int) -> float:
    """AP of the detections at these ranks; 0 without detections."""
    chosen = np.concatenate([around, own])
    if not len(chosen):
        return 0.0
    chosen.sort(kind="stable")  # two runs: merged, not sorted anew
    right, counted = np.cumsum(both.right.take(chosen)), np.arange(1, len(chosen) + 1)
    if both.level is not None:
        level = both.level.take(chosen)
        ends = np.append(level[1:] != level[:-1], True)
        right, counted = right[ends], counted[ends]
    recall = np.concatenate([[0.0], right / objects, [1.0]])
    precision = np.concatenate([[1.0], right / counted, [0.0]])
    best = np.maximum.accumulate(precision[::-1])[::-1]
    drawn = np.interp(RECALLS, recall, best)
    return float((STEPS * (drawn[1:] + drawn[:-1])).sum() / 2)
