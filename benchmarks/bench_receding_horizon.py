"""Receding-horizon controller on drives of KITTI's size: the array kernel against a
fair plain Python loop.

Run: python benchmarks/bench_receding_horizon.py [frames for the loop]
"""

import sys
import time
from pathlib import Path

import numpy as np
from figures import Figure, finish

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from deepval.driving.systems.receding_horizon import RecedingHorizon
from driving import Ego, random_objects
from reference import receding_horizon as slow

FRAMES, UNITS, PER_FRAME, LEAST_RATIO = 8008, 21, 3.0, 15


def main(*, tiny: bool = False, loop_frames: int | None = None) -> list[Figure]:
    """The kernel on all frames, the loop on all or on some of them."""
    frames = 100 if tiny else FRAMES
    looped = min(loop_frames or frames, frames)
    rng = np.random.default_rng(0)
    objects = random_objects(rng, frames, PER_FRAME)
    first = np.zeros(frames, dtype=bool)
    first[np.linspace(0, frames, UNITS, endpoint=False).astype(int)] = True
    ego = Ego(rng.uniform(0, 22, frames), first)
    system, scene = RecedingHorizon(), ego.scene
    kernel_s = []
    for _ in range(5):
        begin = time.process_time()
        actions = system.plan(objects, scene, starts=first)
        kernel_s.append(time.process_time() - begin)
    rows = np.column_stack([objects.near_m, objects.far_m, objects.lateral_m]).tolist()
    by_frame: list[list[list[float]]] = [[] for _ in range(frames)]
    for frame, row in zip(objects.frame.tolist(), rows, strict=True):
        by_frame[frame].append(row)
    accelerations = np.unique(system.choices[:, 0])[::-1].tolist()
    begin = time.process_time()
    expected = slow.drive(
        by_frame[:looped],
        ego.speed_mps.tolist()[:looped],
        first.tolist()[:looped],
        accelerations,
    )
    loop_s = (time.process_time() - begin) * frames / looped
    if not (actions[:looped] == np.array(expected)).all():
        raise SystemExit("the kernel must choose the actions that the loop chooses")
    best_s = min(kernel_s)
    print(
        f"frames {frames}, objects "
        f"{len(objects)}, candidates "
        f"{len(system.choices)}, steps {len(system.times_s)}"
    )
    return [
        Figure(
            f"receding horizon, {frames:,} frames",
            f"{best_s:.3f} s CPU (least of {len(kernel_s)})",
            f"Python loop {loop_s:.2f} s"
            + ("" if looped == frames else f" (from {looped} frames)"),
            f"at least {LEAST_RATIO} times as fast",
            loop_s >= LEAST_RATIO * best_s,
        )
    ]


if __name__ == "__main__":
    finish(main(loop_frames=int(sys.argv[1]) if len(sys.argv) > 1 else None))
