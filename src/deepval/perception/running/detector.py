"""Turns a camera image into scored boxes with any YOLO-style or DETR-style ONNX model, at any resolution.

YOLO: letterbox (see `letterboxed`), score = best class probability (times objectness for `yolov5`), kept from
0.10, class-wise NMS that drops IoU > 0.7, at most 300 boxes; padding subtracted, divided by the axis' scale,
clipped to the image. YOLOX the same, but for its own input (see `cornered`). DETR: plain resize to S x S, with
ImageNet's mean and spread for `detr-softmax`; scores from 0.10, no NMS, the 300 best. One class per box.
Images are decoded by OpenCV to 8-bit BGR, turned as their EXIF tag says. Extra `vision`: onnxruntime, OpenCV.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepval.arrays import Float, Shaped
from deepval.errors import InputError
from deepval.files.pixels import MOST_PIXELS, size_px
from deepval.perception.running import decoding, letterbox, onnx_model
from deepval.perception.running.decoding import BY_QUERY, STYLES, FrameError, Style
from deepval.perception.running.onnx_model import OnnxModel

PROBE_SIZE = 640


@dataclass(frozen=True)
class DetectorConfig:
    """How a model is run: everything here can change the boxes, so a cache is bound to it."""

    style: str = "auto"
    min_score: float = 0.10
    nms_iou: float = 0.7
    max_boxes: int = 300
    threads: int = 2
    provider: str = "CPUExecutionProvider"
    batch: int = 1

    def __post_init__(self) -> None:
        """Refuse figures outside their range."""
        if self.style not in ("auto", *STYLES):
            raise InputError(f"The style must be auto or one of {', '.join(STYLES)}, and is {self.style!r}.")
        if not (0 < self.min_score <= 1 and 0 < self.nms_iou <= 1):
            raise InputError(
                f"Lowest score and NMS IoU must lie in (0, 1], and are {self.min_score} and {self.nms_iou}."
            )
        if min(self.max_boxes, self.threads, self.batch) < 1:
            raise InputError(
                "At least one box, one thread and one image at a time are needed, and are "
                f"{self.max_boxes}, {self.threads} and {self.batch}."
            )


@dataclass(frozen=True)
class FrameDetections:
    """Boxes (x1, y1, x2, y2) in pixels of the original image, best score first; classes are names."""

    boxes_px: Float[np.ndarray, "det 4"]
    scores: Float[np.ndarray, "det"]
    classes: Shaped[np.ndarray, "det"]


@dataclass(frozen=True)
class Detector:
    """A loaded model, the layout of its output, and its class names by index."""

    model: OnnxModel
    style: Style
    names: tuple[str, ...]
    config: DetectorConfig


def load_detector(
    weights: Path, *, names: Path | None = None, config: DetectorConfig | None = None, spinning: bool = True
) -> Detector:
    """The detector of an ONNX file.

    Args:
        weights: ONNX file.
        names: JSON file of class names; None takes them from the model's own metadata.
        config: Style, thresholds, threads; None for the defaults.
        spinning: Whether threads of ONNX Runtime spin while they wait: sooner at work, but they keep a core busy. The
            boxes are the same.
    """
    config = config or DetectorConfig()
    model = onnx_model.open_model(weights, threads=config.threads, provider=config.provider, spinning=spinning)
    if config.batch > 1 and model.one_at_a_time:
        raise InputError(
            f"{weights} takes one image at a time, and {config.batch} were asked for: leave --batch out, or export it "
            "with a dynamic batch."
        )
    found = onnx_model.class_names(model, names)
    return Detector(model, _style(model, config.style, found), found, config)


def check_size(detector: Detector, size: int) -> None:
    """Raise InputError for a resolution that the model cannot take."""
    if size < 1:
        raise InputError(f"A resolution must be a positive number of pixels, and is {size}.")
    if detector.model.fixed_hw_px is not None:
        rows, columns = detector.model.fixed_hw_px
        if size != max(rows, columns):
            raise InputError(
                f"The model's input is fixed at {columns} x {rows}, so the resolution must be "
                f"{max(rows, columns)}, and is {size}: ask for that one, or export with a dynamic input."
            )
    elif detector.style not in BY_QUERY and size % detector.model.stride:
        stride = detector.model.stride
        raise InputError(
            f"A resolution must be a multiple of {stride} for this model, and {size} is not: use "
            f"{-(-size // stride) * stride}."
        )


def decoded_image(data: bytes) -> Shaped[np.ndarray, "h w 3"]:
    """The BGR pixels of an encoded image; FrameError when it is empty, truncated or no image."""
    cv2 = onnx_model.vision("cv2")
    if not data:
        raise FrameError("the file is empty")
    # Older OpenCV fills the missing part of a truncated JPEG with grey: an end mark must follow the last start of scan.
    # Looked for from the end, so that not all of the file is searched.
    end = data.rfind(b"\xff\xd9")
    if data[:2] == b"\xff\xd8" and (end < 0 or data.find(b"\xff\xda", end) >= 0):
        raise FrameError("the JPEG file is truncated")
    size = size_px(data)
    if size is not None and size[0] * size[1] > MOST_PIXELS:
        raise FrameError(f"the image has {size[0]:,} x {size[1]:,} pixels, and at most {MOST_PIXELS:,} are decoded")
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise FrameError("the file is not an image that OpenCV can decode")
    return image


def prepared(detector: Detector, image_bgr: Shaped[np.ndarray, "h w 3"], *, size: int) -> letterbox.Prepared:
    """The model's input for one image at one resolution."""
    fixed = detector.model.fixed_hw_px
    if detector.style in BY_QUERY:
        return letterbox.stretched(image_bgr, size, fixed_hw_px=fixed, normalised=detector.style == "detr-softmax")
    if detector.style in ("yolox", "yolox-decoded"):
        return letterbox.cornered(image_bgr, size, fixed_hw_px=fixed)
    return letterbox.letterboxed(image_bgr, size, stride=detector.model.stride, fixed_hw_px=fixed)


def inferred(detector: Detector, tensor: Float[np.ndarray, "1 3 h w"]) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The model's raw output arrays by name."""
    return onnx_model.run(detector.model, tensor)


def inferred_together(detector: Detector, tensors: Sequence[Float[np.ndarray, "1 3 h w"]]) -> list[onnx_model.Outputs]:
    """The model's raw output arrays for each of several inputs of one shape, in one call."""
    if len(tensors) == 1:
        return [inferred(detector, tensors[0])]
    outputs = onnx_model.run(detector.model, np.concatenate(tensors))
    odd = [name for name, array in outputs.items() if array.shape[:1] != (len(tensors),)]
    if odd:
        raise InputError(
            f"The model must give one row of {odd[0]} per image, and gives {outputs[odd[0]].shape} for {len(tensors)}: "
            "leave --batch out."
        )
    return [{name: array[place : place + 1] for name, array in outputs.items()} for place in range(len(tensors))]


def finished(
    detector: Detector, outputs: Mapping[str, Shaped[np.ndarray, "..."]], placement: letterbox.Placement
) -> FrameDetections:
    """The boxes of one image, in its own pixels, from the model's raw outputs."""
    config = detector.config
    found = decoding.candidates(
        outputs,
        detector.style,
        classes=len(detector.names),
        input_hw_px=placement.input_hw_px,
        min_score=config.min_score,
    )
    if detector.style in BY_QUERY:
        kept = decoding.best_first(found, max_boxes=config.max_boxes)
    else:
        kept = decoding.nms(found, iou_max=config.nms_iou, max_boxes=config.max_boxes)
    return FrameDetections(
        letterbox.boxes_in_image(found.boxes_px[kept], placement),
        found.scores[kept],
        np.array(detector.names)[found.labels[kept]],
    )


def detect(detector: Detector, image_bgr: Shaped[np.ndarray, "h w 3"], *, size: int) -> FrameDetections:
    """The boxes of one BGR image at one resolution."""
    check_size(detector, size)
    ready = prepared(detector, image_bgr, size=size)
    return finished(detector, inferred(detector, ready.tensor), ready.placement)


def _style(model: OnnxModel, asked: str, names: tuple[str, ...]) -> Style:
    """The style that fits the shapes in the file, or a blank image's outputs where those leave it open."""
    shapes: Mapping[str, Sequence[int | None]] = model.declared_shapes
    found = decoding.matching_styles(shapes, len(names), input_hw_px=model.fixed_hw_px)
    if asked not in found and (len(found) != 1 or found == ("detr-softmax",)):
        hw_px = model.fixed_hw_px or (PROBE_SIZE, PROBE_SIZE)
        outputs = _outputs_of_a_blank(model, hw_px)
        shapes = {name: array.shape for name, array in outputs.items()}
        if asked == "auto":
            likely = decoding.likely_style(outputs, names, input_hw_px=hw_px)
            found = (likely,) if likely else ()
        else:
            found = decoding.matching_styles(shapes, len(names), input_hw_px=hw_px)
    chosen: list[Style] = [style for style in found if asked in ("auto", style)]
    if len(chosen) != 1:
        raise InputError(decoding.unsupported(shapes, len(names), asked))
    return chosen[0]


def _outputs_of_a_blank(model: OnnxModel, hw_px: tuple[int, int]) -> dict[str, Shaped[np.ndarray, "..."]]:
    try:
        return onnx_model.run(model, np.zeros((1, 3, *hw_px), dtype=np.float32))
    except InputError as error:
        raise InputError(f"{error} Its style cannot be told, then: give one of {', '.join(STYLES)}.") from error
