"""AP-swap and ORIC labels at KITTI's size: the incremental kernels against sorting
again for every frame.

Run: python benchmarks/bench_ap_swap.py [frames to sort again for]
Times are CPU seconds of this process, so that other work on the machine does not count.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from figures import Figure, finish

from deepval.driving.perception.reported.ap_swap import (
    GROUPS,
    GradedFrames,
    ap_swap,
    context_sample,
    contextual_gains,
)
from deepval.driving.perception.reported.losses import area, precision_curve

FRAMES, PER_FRAME, LEAST_RATIO, TOLERANCE = 8008, 6.0, 15, 1e-9


def random_frames(
    rng: np.random.Generator,
    objects: np.ndarray,
    *,
    precision: float,
    decimals: int | None,
) -> GradedFrames:
    """About six detections a frame, three quarters of them vehicles, right ones scoring
    higher.
    """
    frame = np.repeat(np.arange(len(objects)), rng.poisson(PER_FRAME, len(objects)))
    right = rng.random(len(frame)) < precision
    score = 0.3 + 0.7 * np.where(
        right, rng.beta(5, 2, len(frame)), rng.beta(1.5, 3, len(frame))
    )
    group = rng.choice(len(GROUPS), len(frame), p=[0.1, 0.15, 0.75])
    return GradedFrames(
        frame,
        score if decimals is None else score.round(decimals),
        right,
        group,
        objects,
    )


def swapped_area(weak: GradedFrames, strong: GradedFrames, frame: int) -> float:
    """AP with one frame swapped: the list is put together and sorted again."""
    kept, put = weak.frame != frame, strong.frame == frame
    score = np.concatenate([weak.score[kept], strong.score[put]])
    right = np.concatenate([weak.right[kept], strong.right[put]])
    return area(
        precision_curve(score, right), int(weak.objects.sum()), rule="all-point"
    )


def reward_again(
    weak: GradedFrames, strong: GradedFrames, frame: int, context: np.ndarray
) -> float:
    """ORIC's reward of one frame: both lists are put together and sorted again, for
    each super-class.
    """
    others = context[context != frame]
    around = np.isin(weak.frame, others)
    change = []
    for group in range(len(GROUPS)):
        objects = int(weak.objects[others, group].sum() + weak.objects[frame, group])
        areas = []
        for mode in (weak, strong):
            base, put = (
                around & (weak.group == group),
                (mode.frame == frame) & (mode.group == group),
            )
            score = np.concatenate([weak.score[base], mode.score[put]])
            right = np.concatenate([weak.right[base], mode.right[put]])
            areas.append(area(precision_curve(score, right), objects))
        change.append(areas[1] - areas[0])
    known = [value for value in change if not np.isnan(value)]
    return (len(others) + 1) * float(np.mean(known)) if known else 0.0


def compared(
    name: str,
    fast: Callable[[], np.ndarray],
    again: Callable[[int], float],
    sample: np.ndarray,
) -> Figure:
    """Both times; the kernel must equal sorting again for every frame of the sample."""
    values, fast_s = np.zeros(0), []
    for _ in range(3):
        begin = time.process_time()
        values = fast()
        fast_s.append(time.process_time() - begin)
    best_s = min(fast_s)
    begin = time.process_time()
    expected = np.array([again(int(frame)) for frame in sample])
    again_s = (time.process_time() - begin) * len(values) / len(sample)
    difference = float(np.abs(values[sample] - expected).max())
    if difference > TOLERANCE:
        raise SystemExit(
            f"{name}: the kernel must equal sorting again "
            f"to {TOLERANCE}, and differs by {difference}"
        )
    print(f"  {name}: largest difference {difference:.1e}", flush=True)
    return Figure(
        name,
        f"{best_s:.3f} s CPU (least of {len(fast_s)})",
        "sorting again "
        f"{again_s:.1f} s (from {len(sample)} frames): {again_s / best_s:.0f} times",
        f"at least {LEAST_RATIO} times as fast",
        again_s >= LEAST_RATIO * best_s,
    )


def main(*, tiny: bool = False, count: int = 60) -> list[Figure]:
    """Both kernels on distinct and on rounded scores; sorting again for `count`
    frames.
    """
    frames, count = (200, 6) if tiny else (FRAMES, count)
    rng = np.random.default_rng(0)
    objects = np.zeros((frames, len(GROUPS) + 1), dtype=int)
    objects[:, :3] = rng.poisson([0.6, 1.0, 4.5], (frames, 3))
    figures = []
    for decimals in (None, 2):
        weak, strong = (
            random_frames(rng, objects, precision=p, decimals=decimals)
            for p in (0.75, 0.85)
        )
        sample = rng.choice(frames, count, replace=False)
        context = context_sample(frames, rng=rng)
        scores = "distinct scores" if decimals is None else f"scores in {10**-decimals}"
        print(
            f"{frames} frames, {len(weak.frame)} weak "
            f"and {len(strong.frame)} strong detections, {scores}"
        )
        whole = area(
            precision_curve(weak.score, weak.right),
            int(objects.sum()),
            rule="all-point",
        )
        figures += [
            compared(
                f"AP-swap, one curve, {scores}",
                lambda w=weak, s=strong: ap_swap(w, s),
                lambda frame, w=weak, s=strong, base=whole: (
                    frames * (swapped_area(w, s, frame) - base)
                ),
                sample,
            ),
            compared(
                f"ORIC, {len(context)} context frames, {scores}",
                lambda w=weak, s=strong, c=context: contextual_gains(w, s, context=c),
                lambda frame, w=weak, s=strong, c=context: reward_again(w, s, frame, c),
                np.concatenate([sample, context[: count // 3]]),
            ),
        ]
    return figures


if __name__ == "__main__":
    finish(main(count=int(sys.argv[1]) if len(sys.argv) > 1 else 60))
