"""The grid of YOLOX: raw outputs, one anchor per cell -> boxes in pixels of the network's input.

Cells of stride 8, then 16, 32 and, where the model has it, 64; row by row. For a cell at (column, row):
(cx, cy) = (raw + (column, row)) * stride and (w, h) = exp(raw) * stride.
"""

from typing import Literal, NamedTuple

import numpy as np

from deepval.arrays import Float

STRIDES_PX = ((8, 16, 32), (8, 16, 32, 64))
OneAnchorPerCell = Literal["yolov5", "yolox", "yolox-decoded"]


class Grid(NamedTuple):
    """Column and row of each anchor's cell, and the stride of its grid."""

    corner: Float[np.ndarray, "2 anchor"]
    stride_px: Float[np.ndarray, "anchor"]


def grid(anchors: int, input_hw_px: tuple[int, int]) -> Grid | None:
    """The grid of an input that has one anchor per cell, or None where that makes another number of anchors."""
    rows_px, columns_px = input_hw_px
    for strides in STRIDES_PX:
        sides = [(rows_px // stride, columns_px // stride) for stride in strides]
        if sum(rows * columns for rows, columns in sides) == anchors:
            corners = [np.indices(side)[::-1].reshape(2, -1) for side in sides]
            counts = [rows * columns for rows, columns in sides]
            stride_px = np.repeat(np.array(strides, np.float32), counts)
            return Grid(np.concatenate(corners, axis=1).astype(np.float32), stride_px)
    return None


def pixels(raw: Float[np.ndarray, "4 anchor"], cells: Grid) -> Float[np.ndarray, "4 anchor"]:
    """The boxes (cx, cy, w, h) of raw outputs; infinite where a size is beyond all numbers."""
    with np.errstate(over="ignore"):
        return np.concatenate([raw[:2] + cells.corner, np.exp(raw[2:])]) * cells.stride_px


def told_apart(table: Float[np.ndarray, "anchor column"], cells: Grid) -> OneAnchorPerCell:
    """Whose output has one anchor per cell, told from that of any image.

    Centres in pixels lie near their cells, raw ones near 0. An objectness of 1 everywhere is YOLOv6's, which has none:
    it takes images as YOLOv5 does.
    """
    if (table[:, 4] == 1).all():
        return "yolov5"
    centre = table[:, :2].T.astype(np.float64)
    from_cell = np.median(np.abs(centre / cells.stride_px - cells.corner))
    return "yolox-decoded" if from_cell < np.median(np.abs(centre)) else "yolox"
