"""Convex polygons and ellipses painted in place onto a canvas of packed pixels (one uint32 each: red is the low byte).

Packed pixels are filled several times faster than triples.
"""

import math
from itertools import pairwise

import numpy as np

from deepval.arrays import Float, Shaped

Canvas = Shaped[np.ndarray, "height width"]
FEW_ROWS = 12


def packed(rgb: Shaped[np.ndarray, "*batch 3"]) -> Shaped[np.ndarray, "*batch"]:
    """Colours of whole numbers in 0 to 255 as packed pixels."""
    red, green, blue = np.moveaxis(np.asarray(rgb, dtype=np.uint32), -1, 0)
    return red | green << 8 | blue << 16


def unpacked(canvas: Canvas) -> Shaped[np.ndarray, "height width 3"]:
    """A canvas as a picture: height, width, RGB, uint8."""
    little = np.ascontiguousarray(canvas, dtype="<u4")
    return np.ascontiguousarray(little.view(np.uint8).reshape(*canvas.shape, 4)[..., :3])


def fill_spans(
    canvas: Canvas,
    top: int,
    *,
    left_px: Float[np.ndarray, "row"],
    right_px: Float[np.ndarray, "row"],
    colour: int,
) -> None:
    """Fill the pixels whose middle lies between left and right, in rows from `top` on."""
    width = canvas.shape[1]
    first = np.ceil(np.maximum(left_px, 0.0) - 0.5).astype(int)
    last = np.ceil(np.minimum(right_px, width) - 0.5).astype(int)
    for row, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True), start=top):
        if end > begin:
            canvas[row, begin:end] = colour


def fill_few_rows(canvas: Canvas, corners: list[list[float]], low: int, high: int, *, colour: int) -> None:
    """The same polygon row by row in plain Python, which is faster where there are few rows."""
    width = canvas.shape[1]
    for row in range(low, high):
        y, left, right = row + 0.5, float(width), 0.0
        for (x0, y0), (x1, y1) in pairwise([*corners, corners[0]]):
            if y0 != y1 and min(y0, y1) <= y <= max(y0, y1):
                x = x0 + (y - y0) * ((x1 - x0) / (y1 - y0))
                left, right = min(left, x), max(right, x)
        begin, end = math.ceil(max(left, 0.0) - 0.5), math.ceil(min(right, width) - 0.5)
        if end > begin:
            canvas[row, begin:end] = colour


def fill_polygon(canvas: Canvas, points_px: Float[np.ndarray, "point 2"], colour: int) -> None:
    """Fill a convex polygon, row by row between its leftmost and rightmost edge."""
    height, width = canvas.shape
    corners = points_px.tolist()
    across, down = zip(*corners, strict=True)
    low, high = max(math.ceil(min(down) - 0.5), 0), min(math.ceil(max(down) - 0.5), height)
    if high <= low or max(across) < 0 or min(across) >= width:
        return
    if high - low <= FEW_ROWS:
        fill_few_rows(canvas, corners, low, high, colour=colour)
        return
    y = np.arange(low, high) + 0.5
    left, right = np.full(len(y), float(width)), np.zeros(len(y))
    for (x0, y0), (x1, y1) in pairwise([*corners, corners[0]]):
        first = max(math.ceil(min(y0, y1) - 0.5) - low, 0)
        last = min(math.floor(max(y0, y1) - 0.5) + 1 - low, len(y))
        if y0 != y1 and last > first:
            x = x0 + (y[first:last] - y0) * ((x1 - x0) / (y1 - y0))
            np.minimum(left[first:last], x, out=left[first:last])
            np.maximum(right[first:last], x, out=right[first:last])
    fill_spans(canvas, low, left_px=left, right_px=right, colour=colour)


def fill_ellipse(canvas: Canvas, centre_px: tuple[float, float], radius_px: tuple[float, float], colour: int) -> None:
    """Fill an upright ellipse."""
    (u, v), (a, b) = centre_px, (max(radius_px[0], 0.3), max(radius_px[1], 0.3))
    height, width = canvas.shape
    low, high = max(math.ceil(v - b - 0.5), 0), min(math.ceil(v + b - 0.5), height)
    if high <= low or u + a < 0 or u - a >= width:
        return
    half = a * np.sqrt(np.maximum(1 - ((np.arange(low, high) + 0.5 - v) / b) ** 2, 0.0))
    fill_spans(canvas, low, left_px=u - half, right_px=u + half, colour=colour)
