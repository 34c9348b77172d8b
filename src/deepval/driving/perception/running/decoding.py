"""Raw output arrays of a detection network -> scored boxes in pixels of the network's
input.

Layouts, for C classes: `yolov8` [batch, 4+C, anchors]; `yolov5` [batch, anchors, 5+C]
with an objectness; `yolox` the same with one anchor per cell of its grids (YOLOv5 has
three), raw, or in pixels already (`yolox-decoded`); `detr` [batch, queries, 4+C], or
two arrays of C class logits and 4 box numbers per query; `detr-softmax` two arrays
whose last logit stands for no object, with or without a name of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from deepval.basics.arrays import Float, Int, Shaped
from deepval.basics.errors import InputError

STRIDES_PX = ((8, 16, 32), (8, 16, 32, 64))
OneAnchorPerCell = Literal["yolov5", "yolox", "yolox-decoded"]


class Grid(NamedTuple):
    """Column and row of each anchor's cell, and the stride of its grid."""

    corner: Float[np.ndarray, "2 anchor"]
    stride_px: Float[np.ndarray, "anchor"]


def grid(anchors: int, input_hw_px: tuple[int, int]) -> Grid | None:
    """The grid of an input that has one anchor per cell, or None where the number of
    anchors differs.
    """
    rows_px, columns_px = input_hw_px
    for strides in STRIDES_PX:
        sides = [(rows_px // stride, columns_px // stride) for stride in strides]
        if sum(rows * columns for rows, columns in sides) == anchors:
            corners = [np.indices(side)[::-1].reshape(2, -1) for side in sides]
            counts = [rows * columns for rows, columns in sides]
            stride_px = np.repeat(np.array(strides, np.float32), counts)
            return Grid(np.concatenate(corners, axis=1).astype(np.float32), stride_px)
    return None


def pixels(
    raw: Float[np.ndarray, "4 anchor"], cells: Grid
) -> Float[np.ndarray, "4 anchor"]:
    """The boxes (cx, cy, w, h) of raw outputs; infinite where a size overflows."""
    with np.errstate(over="ignore"):
        return (
            np.concatenate([raw[:2] + cells.corner, np.exp(raw[2:])]) * cells.stride_px
        )


def grid_style(
    table: Float[np.ndarray, "anchor column"], cells: Grid
) -> OneAnchorPerCell:
    """The style of an output with one anchor per cell, recognised from the output of
    any image.

    Centres in pixels lie near their cells, raw ones near 0. An objectness of 1
    everywhere means YOLOv6, which has none and takes images as YOLOv5 does.
    """
    if (table[:, 4] == 1).all():
        return "yolov5"
    centre = table[:, :2].T.astype(np.float64)
    from_cell = np.median(np.abs(centre / cells.stride_px - cells.corner))
    return "yolox-decoded" if from_cell < np.median(np.abs(centre)) else "yolox"


Style = Literal["yolov8", "yolov5", "yolox", "yolox-decoded", "detr", "detr-softmax"]
STYLES: tuple[Style, ...] = get_args(Style)
BY_QUERY: tuple[Style, ...] = ("detr", "detr-softmax")
ONE_PER_CELL: tuple[Style, ...] = ("yolov5", "yolox", "yolox-decoded")
NO_OBJECT = frozenset({"no object", "no-object", "no_object", "noobject", "∅"})
COCO_AND_NO_OBJECT = 92
"""Logits of DETR and YOLOS on COCO: its ids 0 to 90, and no object."""
LOGITS = ("logits", "pred_logits")


class FrameError(InputError):
    """A single frame that cannot be used: a broken image, or boxes that are not finite
    numbers.
    """


@dataclass(frozen=True)
class DecodedBoxes:
    """Boxes (x1, y1, x2, y2) in pixels of the network's input, with a score in 0..1 and
    a class index per box.
    """

    boxes_px: Float[np.ndarray, "det 4"]
    scores: Float[np.ndarray, "det"]
    labels: Int[np.ndarray, "det"]


def matching_styles(
    shapes: Mapping[str, Sequence[int | None]],
    classes: int,
    *,
    input_hw_px: tuple[int, int] | None,
) -> tuple[Style, ...]:
    """Every style whose layout agrees with the output shapes for an input (None: of any
    size).

    A length of None agrees with no layout, except for the number of anchors, where it
    agrees with all.
    """
    pair = _logits_and_boxes(shapes, classes)
    if pair is not None:
        return BY_QUERY if shapes[pair[0]][2] == classes else ("detr-softmax",)
    tables = [shape for shape in shapes.values() if len(shape) == 3]
    if len(tables) != 1:
        return ()
    _, rows, columns = tables[0]
    styles: list[Style] = []
    if rows == 4 + classes:
        styles.append("yolov8")
    if columns == 5 + classes:
        may_be_grid = (
            rows is None or input_hw_px is None or grid(rows, input_hw_px) is not None
        )
        styles += ONE_PER_CELL if may_be_grid else ("yolov5",)
    if columns == 4 + classes:
        styles.append("detr")
    return tuple(styles)


def likely_style(
    outputs: Mapping[str, Shaped[np.ndarray, "..."]],
    names: Sequence[str],
    *,
    input_hw_px: tuple[int, int],
) -> Style | None:
    """The style of a blank image's outputs, or None where several styles fit."""
    shapes = {name: array.shape for name, array in outputs.items()}
    styles = matching_styles(shapes, len(names), input_hw_px=input_hw_px)
    pair = _logits_and_boxes(shapes, len(names))
    if pair is not None:
        return _likely_by_query(outputs[pair[0]][0], names)
    if styles == ONE_PER_CELL:
        table = next(array for array in outputs.values() if array.ndim == 3)[0]
        cells = grid(len(table), input_hw_px)
        return None if cells is None else grid_style(table, cells)
    return styles[0] if len(styles) == 1 else None


def _likely_by_query(
    logits: Float[np.ndarray, "det classes"], names: Sequence[str]
) -> Style | None:
    """`detr-softmax` where the last class is called no object, or there are COCO's 92.

    Otherwise a blank image decides: nearly all of its queries are no object, so that a
    last logit without a name should be the highest of most. A named last logit that is
    the highest and positive in most queries may also mean no object: the result is
    None, and the user has to name the style.
    """
    if logits.shape[1] == COCO_AND_NO_OBJECT or names[-1].strip().lower() in NO_OBJECT:
        return "detr-softmax"
    last = logits.argmax(axis=1) == logits.shape[1] - 1
    if logits.shape[1] > len(names):
        return "detr-softmax" if last.mean() > 0.5 else None
    return (
        None if len(names) > 1 and (last & (logits[:, -1] > 0)).mean() > 0.5 else "detr"
    )


def candidates(
    outputs: Mapping[str, Shaped[np.ndarray, "..."]],
    style: Style,
    *,
    classes: int,
    input_hw_px: tuple[int, int],
    min_score: float,
) -> DecodedBoxes:
    """Boxes whose best class has a score of at least `min_score`, in the order of the
    network's output.

    One class per anchor or query: score = max over classes of the class probability,
    times the objectness for `yolov5` and `yolox`; logits of a two-output `detr` become
    probabilities by the sigmoid, those of `detr-softmax` by the softmax, without its
    last. Boxes of both are shares of the input and become pixels here.
    """
    boxes, probabilities = _boxes_and_probabilities(
        outputs, style, classes, input_hw_px
    )
    best = probabilities.max(axis=0)
    if not np.isfinite(best).all():
        raise FrameError("the model's scores are not finite numbers")
    if best.size and (best.min() < 0 or best.max() > 1 + 1e-3):
        raise InputError(
            "The model's scores must be probabilities, and lie in "
            f"{best.min():.3g}..{best.max():.3g} with style {style!r}: export the "
            "model with its sigmoid, or give the right style."
        )
    selected = np.flatnonzero(best >= min_score)
    cx, cy, width, height = boxes[:, selected]
    corners = np.stack(
        [cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2], axis=1
    )
    if style in BY_QUERY:
        rows_px, columns_px = input_hw_px
        corners = corners * np.array(
            [columns_px, rows_px, columns_px, rows_px], dtype=corners.dtype
        )
    if not np.isfinite(corners).all():
        raise FrameError("the model's boxes are not finite numbers")
    return DecodedBoxes(
        corners, best[selected], probabilities[:, selected].argmax(axis=0)
    )


def nms(
    decoded: DecodedBoxes, *, iou_max: float, max_boxes: int
) -> Int[np.ndarray, "kept"]:
    """Indices of the boxes left by class-wise non-maximum suppression, best score first
    (equal scores: first row).

    Greedy and exact: a box is dropped when an earlier selected box of its class
    overlaps it with IoU > `iou_max`. IoU = intersection / union of the boxes' areas,
    computed in double precision.
    """
    order = np.argsort(-decoded.scores, kind="stable")
    x1, y1, x2, y2 = decoded.boxes_px[order].T.astype(np.float64)
    area = (x2 - x1) * (y2 - y1)
    labels = decoded.labels[order]
    alive = np.arange(order.size)
    selected: list[int] = []
    while alive.size and len(selected) < max_boxes:
        head, rest = alive[0], alive[1:]
        selected.append(head)
        width = np.minimum(x2[head], x2[rest]) - np.maximum(x1[head], x1[rest])
        height = np.minimum(y2[head], y2[rest]) - np.maximum(y1[head], y1[rest])
        overlap = np.maximum(width, 0.0) * np.maximum(height, 0.0)
        # IoU > limit without a division, so that boxes without area need no special
        # case.
        clash = overlap > iou_max * (area[head] + area[rest] - overlap)
        alive = rest[~(clash & (labels[rest] == labels[head]))]
    return order[np.array(selected, dtype=np.intp)]


def best_first(decoded: DecodedBoxes, *, max_boxes: int) -> Int[np.ndarray, "kept"]:
    """Indices of the `max_boxes` highest scores, best first (equal scores: first
    row).
    """
    return np.argsort(-decoded.scores, kind="stable")[:max_boxes]


def _logits_and_boxes(
    shapes: Mapping[str, Sequence[int | None]], classes: int
) -> tuple[str, str] | None:
    """Names of the class-logit and the box output of a two-output model, or None."""
    tables = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    named = next(
        (name for name in LOGITS if {name, "pred_boxes"} <= tables.keys()), None
    )
    if named is not None:
        return (
            (named, "pred_boxes")
            if tables[named][2] in (classes, classes + 1)
            else None
        )
    if len(tables) != 2 or classes == 4:
        return None
    by_width = {shape[2]: name for name, shape in tables.items()}
    return (by_width[classes], by_width[4]) if by_width.keys() == {classes, 4} else None


def _boxes_and_probabilities(
    outputs: Mapping[str, Shaped[np.ndarray, "..."]],
    style: Style,
    classes: int,
    input_hw_px: tuple[int, int],
) -> tuple[Float[np.ndarray, "4 det"], Float[np.ndarray, "classes det"]]:
    """The (cx, cy, w, h) rows and the class probabilities of the only image of the
    batch, in one layout.
    """
    shapes = {name: array.shape for name, array in outputs.items()}
    if style not in matching_styles(shapes, classes, input_hw_px=input_hw_px):
        raise InputError(unsupported_message(shapes, classes, style))
    pair = _logits_and_boxes(shapes, classes) if style in BY_QUERY else None
    if pair is not None:
        logits, boxes = (
            outputs[name][0].T.astype(np.float32, copy=False) for name in pair
        )
        return boxes, _softmax(logits)[:-1] if style == "detr-softmax" else 0.5 * (
            1.0 + np.tanh(0.5 * logits)
        )
    table = next(array for array in outputs.values() if array.ndim == 3)[0].astype(
        np.float32, copy=False
    )
    if style == "yolov8":
        return table[:4], table[4:]
    columns = table.T
    if style == "detr":
        return columns[:4], columns[4:]
    cells = grid(len(table), input_hw_px) if style == "yolox" else None
    boxes = columns[:4] if cells is None else pixels(columns[:4], cells)
    return boxes, columns[4] * columns[5:]


def _softmax(
    logits: Float[np.ndarray, "classes det"],
) -> Float[np.ndarray, "classes det"]:
    with np.errstate(invalid="ignore"):
        # The largest logit is subtracted, so that no power overflows.
        powers = np.exp(logits - logits.max(axis=0))
    return powers / powers.sum(axis=0)


def unsupported_message(
    shapes: Mapping[str, Sequence[int | None]], classes: int, style: str
) -> str:
    """The error message for outputs that fit no style, not the requested style, or more
    than one style.
    """
    listed = ", ".join(
        f"{name} [{', '.join(map(str, shape))}]" for name, shape in shapes.items()
    )
    return (
        f"For {classes} class names the model's output must be [batch, {4 + classes}, "
        f"anchors] (yolov8), [batch, anchors, {5 + classes}] (yolov5; yolox and "
        f"yolox-decoded with one anchor per cell), [batch, queries, {4 + classes}] "
        "(detr), or logits and pred_boxes (detr by the sigmoid, detr-softmax with a "
        f"last logit for no object), without embedded NMS, and is {listed} with style "
        f"{style!r}: check the class names, give the style, or export the model again."
    )


@dataclass(frozen=True)
class FrameDetections:
    """Boxes (x1, y1, x2, y2) in pixels of the original image, best score first; classes
    are names.
    """

    boxes_px: Float[np.ndarray, "det 4"]
    scores: Float[np.ndarray, "det"]
    classes: Shaped[np.ndarray, "det"]
