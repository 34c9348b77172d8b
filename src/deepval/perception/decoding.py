"""Turns the raw output arrays of a detection network into scored boxes in pixels of the network's input.

Three layouts are known, for C classes: `yolov8` [batch, 4+C, anchors], `yolov5` [batch, anchors, 5+C] with an
objectness, `detr` [batch, queries, 4+C] or two arrays of C class logits and 4 box numbers per query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from deepval.arrays import Float, Int, Shaped
from deepval.errors import InputError

Style = Literal["yolov8", "yolov5", "detr"]
STYLES: tuple[Style, ...] = get_args(Style)


class FrameError(InputError):
    """One frame that cannot be used, while others may be: a broken image, or boxes that are no numbers."""


@dataclass(frozen=True)
class Candidates:
    """Boxes (x1, y1, x2, y2) in pixels of the network's input, a score in 0..1 and a class index each."""

    boxes_px: Float[np.ndarray, "det 4"]
    scores: Float[np.ndarray, "det"]
    labels: Int[np.ndarray, "det"]


def matching_styles(shapes: Mapping[str, Sequence[int | None]], classes: int) -> tuple[Style, ...]:
    """Every style whose layout agrees with the output shapes; a length of None agrees with nothing."""
    if _logits_and_boxes(shapes, classes) is not None:
        return ("detr",)
    tables = [shape for shape in shapes.values() if len(shape) == 3]
    if len(tables) != 1:
        return ()
    _, rows, columns = tables[0]
    found: list[Style] = []
    if rows == 4 + classes:
        found.append("yolov8")
    if columns == 5 + classes:
        found.append("yolov5")
    if columns == 4 + classes:
        found.append("detr")
    return tuple(found)


def candidates(
    outputs: Mapping[str, Shaped[np.ndarray, "..."]],
    style: Style,
    *,
    classes: int,
    input_hw_px: tuple[int, int],
    min_score: float,
) -> Candidates:
    """Boxes whose best class has a score of at least `min_score`, in the order of the network's output.

    One class per anchor or query: score = max over classes of the class probability, times the objectness for
    `yolov5`; logits of a two-output `detr` become probabilities by the sigmoid. `detr` boxes are shares of
    the input and become pixels here.
    """
    boxes, probabilities = _boxes_and_probabilities(outputs, style, classes)
    best = probabilities.max(axis=0)
    if not np.isfinite(best).all():
        raise FrameError("the model's scores are not finite numbers")
    if best.size and (best.min() < 0 or best.max() > 1 + 1e-3):
        raise InputError(
            f"The model's scores must be probabilities, and lie in {best.min():.3g}..{best.max():.3g} "
            f"with style {style!r}: export the model with its sigmoid, or give the right style."
        )
    kept = np.flatnonzero(best >= min_score)
    cx, cy, width, height = boxes[:, kept]
    corners = np.stack([cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2], axis=1)
    if style == "detr":
        rows_px, columns_px = input_hw_px
        corners = corners * np.array([columns_px, rows_px, columns_px, rows_px], dtype=corners.dtype)
    if not np.isfinite(corners).all():
        raise FrameError("the model's boxes are not finite numbers")
    return Candidates(corners, best[kept], probabilities[:, kept].argmax(axis=0))


def nms(found: Candidates, *, iou_max: float, max_boxes: int) -> Int[np.ndarray, "kept"]:
    """Positions that class-wise non-maximum suppression keeps, best score first (equal scores: first row).

    Greedy and exact: a box goes when an earlier kept box of its class overlaps it with IoU > `iou_max`.
    IoU = intersection / union of the boxes' areas, computed in double precision.
    """
    order = np.argsort(-found.scores, kind="stable")
    x1, y1, x2, y2 = found.boxes_px[order].T.astype(np.float64)
    area = (x2 - x1) * (y2 - y1)
    labels = found.labels[order]
    alive = np.arange(order.size)
    kept: list[int] = []
    while alive.size and len(kept) < max_boxes:
        head, rest = alive[0], alive[1:]
        kept.append(head)
        width = np.minimum(x2[head], x2[rest]) - np.maximum(x1[head], x1[rest])
        height = np.minimum(y2[head], y2[rest]) - np.maximum(y1[head], y1[rest])
        overlap = np.maximum(width, 0.0) * np.maximum(height, 0.0)
        clash = overlap > iou_max * (area[head] + area[rest] - overlap)
        alive = rest[~(clash & (labels[rest] == labels[head]))]
    return order[np.array(kept, dtype=np.intp)]


def best_first(found: Candidates, *, max_boxes: int) -> Int[np.ndarray, "kept"]:
    """Positions of the `max_boxes` highest scores, best first (equal scores: first row)."""
    return np.argsort(-found.scores, kind="stable")[:max_boxes]


def _logits_and_boxes(shapes: Mapping[str, Sequence[int | None]], classes: int) -> tuple[str, str] | None:
    """Names of the class-logit and the box output of a two-output model, or None."""
    tables = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    if {"logits", "pred_boxes"} <= tables.keys():
        return ("logits", "pred_boxes") if tables["logits"][2] == classes else None
    if len(tables) != 2 or classes == 4:
        return None
    by_width = {shape[2]: name for name, shape in tables.items()}
    return (by_width[classes], by_width[4]) if by_width.keys() == {classes, 4} else None


def _boxes_and_probabilities(
    outputs: Mapping[str, Shaped[np.ndarray, "..."]], style: Style, classes: int
) -> tuple[Float[np.ndarray, "4 det"], Float[np.ndarray, "classes det"]]:
    """The (cx, cy, w, h) rows and the class probabilities of the only image of the batch, in one layout."""
    shapes = {name: array.shape for name, array in outputs.items()}
    if style not in matching_styles(shapes, classes):
        raise InputError(unsupported(shapes, classes, style))
    pair = _logits_and_boxes(shapes, classes) if style == "detr" else None
    if pair is not None:
        logits, boxes = (outputs[name][0].T.astype(np.float32, copy=False) for name in pair)
        return boxes, 0.5 * (1.0 + np.tanh(0.5 * logits))
    table = next(array for array in outputs.values() if array.ndim == 3)[0].astype(np.float32, copy=False)
    if style == "yolov8":
        return table[:4], table[4:]
    columns = table.T
    return (columns[:4], columns[4:]) if style == "detr" else (columns[:4], columns[4] * columns[5:])


def unsupported(shapes: Mapping[str, Sequence[int | None]], classes: int, style: str) -> str:
    """The sentence for outputs that no style, or not the asked style, or more than one style explains."""
    listed = ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in shapes.items())
    return (
        f"For {classes} class names the model's output must be [batch, {4 + classes}, anchors] (yolov8), "
        f"[batch, anchors, {5 + classes}] (yolov5), [batch, queries, {4 + classes}] or logits and pred_boxes "
        f"(detr), without embedded NMS, and is {listed} with style {style!r}: check the class names, give "
        "the style, or export the model again."
    )
