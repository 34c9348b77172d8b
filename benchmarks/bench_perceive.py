"""`perceive` beside ONNX Runtime alone on tensors that were prepared before: wall and
CPU time per picture.

Run: python benchmarks/bench_perceive.py. Needs YOLOv8s and pictures of KITTI in the
data folder (DEEPVAL_SHARED). Both run in turn, several times, and the median of the
ratios is judged. ONNX Runtime alone has its usual session, whose threads spin.
`perceive` reads, decodes and prepares the pictures, runs the network, and writes boxes
and manifest; the session is loaded before. With tiny=True a small model made for the
tests runs on blank pictures.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, finish

from deepval.driving.perception.running.detector import (
    Detector,
    decode_image,
    infer,
    load_detector,
    prepare,
)
from deepval.driving.perception.running.perceive import Units, perceive, units_in_folder

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

TURNS, PICTURES = 7, 91
LIMITS = {320: 1.25, 640: 1.05}
SHARED = Path(
    os.environ.get("DEEPVAL_SHARED", Path(__file__).resolve().parents[2] / "shared")
)


def main(*, tiny: bool = False) -> list[Figure]:
    if tiny:
        with tempfile.TemporaryDirectory() as folder:
            return compared(*tiny_case(Path(folder)), turns=2)
    weights, pictures = (
        SHARED / "data/weights/yolov8s.onnx",
        SHARED / "data/kitti_tracking/training/image_02",
    )
    if not weights.is_file() or not pictures.is_dir():
        return [
            Figure(
                "perceive",
                f"{weights.name} and KITTI are not in {SHARED}",
                "-",
                "set DEEPVAL_SHARED",
                met=None,
            )
        ]
    units = {"0002": units_in_folder(pictures)["0002"][:PICTURES]}
    return compared(weights, units, turns=TURNS)


def tiny_case(folder: Path) -> tuple[Path, Units]:
    """A model made for the tests and six grey pictures."""
    import cv2

    import onnx_models

    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(6):
        cv2.imwrite(
            str(pictures / f"{number:06d}.png"),
            np.full((375, 1242, 3), 40 * number, dtype=np.uint8),
        )
    return onnx_models.yolov8(folder / "tiny.onnx"), units_in_folder(pictures)


def compared(weights: Path, units: Units, *, turns: int) -> list[Figure]:
    """Wall and CPU time of both at each resolution."""
    detector = load_detector(weights)
    images = [
        decode_image(path.read_bytes())
        for frames in units.values()
        for _, path in frames
    ]
    figures = []
    for size, limit in LIMITS.items():
        tensors = [prepare(detector, image, size=size).tensor for image in images]
        # loads the session of `perceive`, and warms both
        one_turn(detector, tensors, units, weights, size)
        taken_s = np.array(
            [one_turn(detector, tensors, units, weights, size) for _ in range(turns)]
        )
        ratios = np.median(taken_s[:, 2:] / taken_s[:, :2], axis=0).tolist()
        taken_ms = (1000 * np.median(taken_s, axis=0) / len(images)).tolist()
        for place, clock in enumerate(("wall", "CPU")):
            figures.append(
                Figure(
                    f"perceive, {size} px, {len(images)} pictures",
                    f"{taken_ms[2 + place]:.1f} ms {clock} per "
                    f"picture: {ratios[place]:.2f} times",
                    "ONNX Runtime "
                    f"alone {taken_ms[place]:.1f} ms; load {os.getloadavg()[0]:.1f}",
                    f"at most {limit} times",
                    ratios[place] <= limit,
                )
            )
            print(*figures[-1][:4], sep="; ", flush=True)
    return figures


def one_turn(
    detector: Detector, tensors: list[Any], units: Units, weights: Path, size: int
) -> tuple[float, ...]:
    """Wall and CPU seconds of ONNX Runtime alone, then of `perceive`, over all
    pictures.
    """
    start, start_cpu = time.perf_counter(), time.process_time()
    for tensor in tensors:
        infer(detector, tensor)
    middle, middle_cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        perceive(
            units,
            Path(folder) / "cache",
            weights=weights,
            sizes=[size],
            latency_samples=0,
        )
        end, end_cpu = time.perf_counter(), time.process_time()
    return middle - start, middle_cpu - start_cpu, end - begin, end_cpu - begin_cpu


if __name__ == "__main__":
    finish(main())
