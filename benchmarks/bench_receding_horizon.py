"""Receding-horizon controller on drives of KITTI's size: the array kernel against a fair plain Python loop.

Run: python benchmarks/bench_receding_horizon.py [frames for the loop]
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from deepval.systems.receding_horizon import RecedingHorizon
from driving import Ego, random_objects
from reference import receding_horizon as slow

FRAMES, UNITS, PER_FRAME = 8008, 21, 3.0


def main() -> None:
    loop_frames = int(sys.argv[1]) if len(sys.argv) > 1 else FRAMES
    rng = np.random.default_rng(0)
    objects = random_objects(rng, FRAMES, PER_FRAME)
    first = np.zeros(FRAMES, dtype=bool)
    first[np.linspace(0, FRAMES, UNITS, endpoint=False).astype(int)] = True
    ego = Ego(rng.uniform(0, 22, FRAMES), first)
    system, scene = RecedingHorizon(), ego.scene
    fast_s = []
    for _ in range(5):
        begin = time.perf_counter()
        actions = system.plan(objects, scene, starts=first)
        fast_s.append(time.perf_counter() - begin)
    rows = np.column_stack([objects.near_m, objects.far_m, objects.lateral_m]).tolist()
    frames: list[list[list[float]]] = [[] for _ in range(FRAMES)]
    for frame, row in zip(objects.frame.tolist(), rows, strict=True):
        frames[frame].append(row)
    accelerations = np.unique(system.choices[:, 0])[::-1].tolist()
    begin = time.perf_counter()
    expected = slow.drive(frames[:loop_frames], ego.speed_mps.tolist()[:loop_frames], first.tolist()[:loop_frames],
                          accelerations)  # fmt: skip
    loop_s = (time.perf_counter() - begin) * FRAMES / loop_frames
    equal = bool((actions[:loop_frames] == np.array(expected)).all())
    best_s = min(fast_s)
    print(f"frames {FRAMES}, objects {len(objects)}, candidates {len(system.choices)}, steps {len(system.times_s)}")
    print(f"plain Python loop  {loop_s:8.3f} s" + ("" if loop_frames == FRAMES else f" (from {loop_frames} frames)"))
    print(f"array kernel       {best_s:8.3f} s (best of {len(fast_s)})")
    print(f"ratio              {loop_s / best_s:8.1f}")
    print(f"equal actions      {equal}")
    if not equal or loop_s < 15 * best_s:
        raise SystemExit("the kernel must equal the loop and be at least 15 times faster")


if __name__ == "__main__":
    main()
