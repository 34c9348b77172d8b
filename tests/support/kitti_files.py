"""A few made-up KITTI tracking sequences with detections and pictures, as files: what
commands in the docs run on.
"""

from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import onnx_models

UNITS, FRAMES = ("0000", "0001", "0002", "0003"), 8
CALIBRATION = """P2: 720 0 610 0 0 720 173 0 0 0 1 0
R_rect 1 0 0 0 1 0 0 0 1
Tr_velo_cam 0 -1 0 0 0 0 -1 0 1 0 0 -0.3
Tr_imu_velo 1 0 0 -0.8 0 1 0 0.3 0 0 1 -0.8
"""


def write_kitti(folder: Path) -> None:
    """kitti_tracking, images, detector.onnx, and detections: small (misses much),
    large, raw, elsewhere.
    """
    training = folder / "kitti_tracking" / "training"
    for part in ("label_02", "calib", "poses"):
        (training / part).mkdir(parents=True)
    rows: dict[str, list[tuple]] = {"small": [], "large": []}
    for number, unit in enumerate(UNITS):
        labels = []
        for frame in range(FRAMES):
            depth = 24.0 + 4 * number - 1.5 * frame
            box = (
                610 - 576 / depth,
                173 + 72 / depth,
                610 + 576 / depth,
                173 + 1224 / depth,
            )
            place = " ".join(f"{edge:.2f}" for edge in box)
            labels.append(
                f"{frame} 1 Car 0 0 0 {place} 1.6 1.6 4.0 0.0 1.7 {depth} -1.5708\n"
            )
            rows["large"].append((unit, frame, "car", 0.8 + 0.01 * frame, *box))
            if (frame + number) % 3:
                rows["small"].append((unit, frame, "car", 0.2 + 0.08 * frame, *box))
            _write_picture(
                folder / "images" / unit / f"{frame:06d}.png",
                0 if unit == "0002" else 200,
            )
        (training / "label_02" / f"{unit}.txt").write_text("".join(labels))
        (training / "calib" / f"{unit}.txt").write_text(CALIBRATION)
        poses = [f"1 0 0 0 0 1 0 0 0 0 1 {1.1 * frame}\n" for frame in range(FRAMES)]
        (training / "poses" / f"{unit}.txt").write_text("".join(poses))
    for name, listed in rows.items():
        _write_boxes(folder / f"{name}.parquet", listed)
    _write_boxes(
        folder / "raw.parquet",
        [("0000", 0, "car", score, 0, 0, 9, 9) for score in (-1.0, 7.0)],
    )
    _write_boxes(folder / "elsewhere.parquet", [("scene-1", 0, "car", 0.5, 0, 0, 9, 9)])
    onnx_models.yolov8(folder / "detector.onnx")


def _write_boxes(path: Path, rows: list[tuple]) -> None:
    names = ("unit", "frame", "cls", "score", "x1", "y1", "x2", "y2")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), path)


def _write_picture(path: Path, brightness: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((40, 60, 3), brightness, dtype=np.uint8))
