"""`perceive` beside ONNX Runtime alone on the same tensors: wall and CPU time per image, and the load of the machine.

Needs the data folder (DEEPVAL_SHARED) with YOLOv8s and pictures of KITTI. Both are run in turn, several times, and the
medians of their ratios are told: on a machine that others use, wall times mean little.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from deepval.perception.running.detector import decoded_image, inferred, load_detector, prepared
from deepval.perception.running.image_units import units_in_folder
from deepval.perception.running.perceive import perceive

TURNS = 3
LIMITS = {320: 1.25, 640: 1.05}


def main():
    shared = Path(os.environ.get("DEEPVAL_SHARED", "../shared"))
    weights, pictures = shared / "data/weights/yolov8s.onnx", shared / "data/kitti_tracking/training/image_02"
    if not weights.is_file():
        print("perceive: the shared data are not at hand")
        return
    units = {"0002": units_in_folder(pictures)["0002"]}
    images = [decoded_image(path.read_bytes()) for _, path in units["0002"]]
    detector = load_detector(weights)
    print(f"perceive, {len(images)} pictures of KITTI, YOLOv8s, 2 threads, median of {TURNS} turns")
    for size, limit in LIMITS.items():
        tensors = [prepared(detector, image, size=size).tensor for image in images]
        inferred(detector, tensors[0])
        told = np.array([_turn(detector, tensors, units, weights, size) for _ in range(TURNS)])
        wall, cpu = told[:, 1] / told[:, 0], told[:, 3] / told[:, 2]
        alone, whole, alone_cpu, whole_cpu = 1000 * np.median(told, axis=0) / len(images)
        print(
            f"  {size} px: ONNX Runtime alone {alone:.1f} ms wall, {alone_cpu:.1f} ms CPU; perceive {whole:.1f} "
            f"ms wall, {whole_cpu:.1f} ms CPU; ratio {np.median(wall):.2f} wall (limit {limit}), "
            f"{np.median(cpu):.2f} CPU; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def _turn(detector, tensors, units, weights, size):
    start, cpu = time.perf_counter(), time.process_time()
    for tensor in tensors:
        inferred(detector, tensor)
    middle, cpu_middle = time.perf_counter(), time.process_time()
    folder = Path(tempfile.mkdtemp())
    try:
        perceive(units, folder / "cache", weights=weights, sizes=[size], latency_samples=0)
    finally:
        end, cpu_end = time.perf_counter(), time.process_time()
        shutil.rmtree(folder)
    return middle - start, end - middle, cpu_middle - cpu, cpu_end - cpu_middle


if __name__ == "__main__":
    main()
