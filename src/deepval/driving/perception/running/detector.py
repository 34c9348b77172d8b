"""A camera image -> scored boxes, with any YOLO-style or DETR-style ONNX model, at any
resolution.

YOLO: letterbox (see `letterbox`), score = best class probability (times objectness for
`yolov5`), at least 0.10, class-wise NMS that drops IoU > 0.7, at most 300 boxes;
padding subtracted, divided by the axis' scale, clipped to the image. YOLOX is the same
except for its input (see `fit_corner`). DETR: plain resize to S x S, with ImageNet's
mean and spread for `detr-softmax`; scores from 0.10, no NMS, the 300 best. One class
per box. Images are decoded by OpenCV to 8-bit BGR, turned according to their EXIF tag.
Extra `vision`: onnxruntime, OpenCV.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError
from deepval.basics.files.reading import picture_fault
from deepval.driving.perception.running import decoding, onnx_model
from deepval.driving.perception.running.decoding import (
    BY_QUERY,
    STYLES,
    FrameDetections,
    FrameError,
    Style,
)
from deepval.driving.perception.running.onnx_model import PROVIDERS, OnnxModel

PAD_VALUE = 114
IMAGENET_MEAN, IMAGENET_SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of red, green and blue in 0 to 1."""


@dataclass(frozen=True)
class Placement:
    """Position of the resized image in the input: original = (input - (left, top)) /
    (scale_x, scale_y).
    """

    image_hw_px: tuple[int, int]
    input_hw_px: tuple[int, int]
    left_px: int
    top_px: int
    scale_x: float
    scale_y: float


@dataclass(frozen=True)
class Prepared:
    """A network's input and the placement that takes its boxes back to the image."""

    tensor: Float[np.ndarray, "1 3 rows columns"]
    placement: Placement


def letterbox(
    image_bgr: Shaped[np.ndarray, "h w 3"],
    size: int,
    *,
    stride: int = 32,
    fixed_hw_px: tuple[int, int] | None = None,
) -> Prepared:
    """The image resized into size x size with its aspect ratio, padded with 114 to
    multiples of `stride`.

    r = min(S/H, S/W); bilinear resize to nw, nh = round(W r), round(H r); dw = ((S -
    nw) mod stride) / 2; padding left = round(dw - 0.1), right = round(dw + 0.1), the
    same for top and bottom; BGR to RGB; NCHW; divided by 255. A fixed input of h x w
    takes r = min(h/H, w/W) and is padded to the whole of h x w.
    """
    height, width = image_bgr.shape[:2]
    rows, columns = fixed_hw_px or (size, size)
    ratio = min(rows / height, columns / width)
    inner_w, inner_h = max(1, round(width * ratio)), max(1, round(height * ratio))
    spare_w, spare_h = columns - inner_w, rows - inner_h
    if fixed_hw_px is None:
        spare_w, spare_h = spare_w % stride, spare_h % stride
    left, top = round(spare_w / 2 - 0.1), round(spare_h / 2 - 0.1)
    canvas = np.full(
        (inner_h + spare_h, inner_w + spare_w, 3), PAD_VALUE, dtype=np.uint8
    )
    canvas[top : top + inner_h, left : left + inner_w] = _resize(
        image_bgr, inner_w, inner_h
    )
    placement = Placement(
        (height, width),
        (canvas.shape[0], canvas.shape[1]),
        left,
        top,
        inner_w / width,
        inner_h / height,
    )
    return Prepared(_tensor(canvas), placement)


def fit_corner(
    image_bgr: Shaped[np.ndarray, "h w 3"],
    size: int,
    *,
    fixed_hw_px: tuple[int, int] | None = None,
) -> Prepared:
    """The image as YOLOX takes it: in the upper left corner of size x size, padded with
    114; BGR; NCHW; 0 to 255.

    r = min(S/H, S/W); bilinear resize to floor(W r), floor(H r); boxes go back by r on
    both axes.
    """
    height, width = image_bgr.shape[:2]
    rows, columns = fixed_hw_px or (size, size)
    ratio = min(rows / height, columns / width)
    inner_w, inner_h = max(1, int(width * ratio)), max(1, int(height * ratio))
    canvas = np.full((rows, columns, 3), PAD_VALUE, dtype=np.uint8)
    canvas[:inner_h, :inner_w] = _resize(image_bgr, inner_w, inner_h)
    placement = Placement((height, width), (rows, columns), 0, 0, ratio, ratio)
    return Prepared(
        np.ascontiguousarray(canvas.transpose(2, 0, 1)).astype(np.float32)[None],
        placement,
    )


def stretch(
    image_bgr: Shaped[np.ndarray, "h w 3"],
    size: int,
    *,
    fixed_hw_px: tuple[int, int] | None = None,
    normalised: bool = False,
) -> Prepared:
    """The image resized (bilinear) to size x size whatever its aspect; BGR to RGB;
    NCHW; / 255.

    Where `normalised`, ImageNet's mean is then subtracted and the result divided by its
    standard deviation.
    """
    height, width = image_bgr.shape[:2]
    rows, columns = fixed_hw_px or (size, size)
    placement = Placement(
        (height, width), (rows, columns), 0, 0, columns / width, rows / height
    )
    tensor = _tensor(_resize(image_bgr, columns, rows))
    if normalised:
        mean, spread = (
            np.array(x, np.float32)[:, None, None]
            for x in (IMAGENET_MEAN, IMAGENET_SPREAD)
        )
        tensor = (tensor - mean) / spread
    return Prepared(tensor, placement)


def boxes_in_image(
    boxes_px: Float[np.ndarray, "det 4"], placement: Placement
) -> Float[np.ndarray, "det 4"]:
    """The boxes in pixels of the original image, clipped to it: (x - padding) / scale
    per axis.
    """
    height, width = placement.image_hw_px
    padding = np.array([placement.left_px, placement.top_px] * 2)
    scale = np.array([placement.scale_x, placement.scale_y] * 2)
    return np.clip(
        (boxes_px - padding) / scale, 0.0, np.array([width, height] * 2)
    ).astype(np.float32)


def _resize(
    image_bgr: Shaped[np.ndarray, "h w 3"], width: int, height: int
) -> Shaped[np.ndarray, "h2 w2 3"]:
    import cv2

    if image_bgr.shape[:2] == (height, width):
        return image_bgr
    return np.asarray(
        cv2.resize(image_bgr, (width, height), interpolation=cv2.INTER_LINEAR)
    )


def _tensor(image_bgr: Shaped[np.ndarray, "h w 3"]) -> Float[np.ndarray, "1 3 h w"]:
    channels_first = np.ascontiguousarray(image_bgr[:, :, ::-1].transpose(2, 0, 1))
    return (channels_first.astype(np.float32) / np.float32(255))[None]


PROBE_SIZE = 640


@dataclass(frozen=True)
class DetectorConfig:
    """Settings of a model's run.

    All but the folder of engines can change the boxes, so a cache is bound to them.
    """

    style: str = "auto"
    min_score: float = 0.10
    nms_iou: float = 0.7
    max_boxes: int = 300
    threads: int = 2
    provider: str = "CPUExecutionProvider"
    batch: int = 1
    fp16: bool = False
    engine_cache: str | None = None

    def __post_init__(self) -> None:
        """Refuse figures outside their range."""
        if self.style not in ("auto", *STYLES):
            raise InputError(
                "The style must be auto "
                f"or one of {', '.join(STYLES)}, and is {self.style!r}."
            )
        if not (0 < self.min_score <= 1 and 0 < self.nms_iou <= 1):
            raise InputError(
                "Lowest score and NMS IoU must lie "
                f"in (0, 1], and are {self.min_score} and {self.nms_iou}."
            )
        if min(self.max_boxes, self.threads, self.batch) < 1:
            raise InputError(
                "At least one box, one thread and one image at a time are needed, and "
                f"are {self.max_boxes}, {self.threads} and {self.batch}."
            )
        if (self.fp16 or self.engine_cache is not None) and self.provider != PROVIDERS[
            "tensorrt"
        ]:
            raise InputError(
                "fp16 and engine_cache are settings of TensorRT, and the provider is "
                f"{self.provider}: leave them out, or choose TensorRT. A model "
                "exported in FP16 needs no setting."
            )

    @property
    def provider_options(self) -> dict[str, str]:
        """The settings that ONNX Runtime passes to the provider."""
        options = {"trt_fp16_enable": "1"} if self.fp16 else {}
        if self.engine_cache is not None:
            options |= {
                "trt_engine_cache_enable": "1",
                "trt_engine_cache_path": self.engine_cache,
            }
        return options


@dataclass(frozen=True)
class Detector:
    """A loaded model, the layout of its output, and its class names by index."""

    model: OnnxModel
    style: Style
    names: tuple[str, ...]
    config: DetectorConfig


def load_detector(
    weights: Path,
    *,
    names: Path | None = None,
    config: DetectorConfig | None = None,
    spinning: bool = True,
    profile: Path | None = None,
) -> Detector:
    """The detector of an ONNX file.

    Args:
        weights: ONNX file.
        names: JSON file of class names; None takes them from the model's own metadata.
        config: Style, thresholds, threads; None for the defaults.
        spinning: Whether threads of ONNX Runtime spin while they wait: they start
            sooner, but keep a core busy. The boxes are the same.
        profile: Beginning of the name of a file that gets ONNX Runtime's record of
            every call; None for no record.
    """
    config = config or DetectorConfig()
    model = onnx_model.open_model(
        weights,
        threads=config.threads,
        provider=config.provider,
        spinning=spinning,
        provider_options=config.provider_options,
        profile=profile,
    )
    if config.batch > 1 and model.one_at_a_time:
        raise InputError(
            f"{weights} takes one image at a time; --batch is {config.batch}: leave "
            "--batch out, or export it with a dynamic batch."
        )
    class_names = onnx_model.class_names(model, names)
    return Detector(
        model, _style(model, config.style, class_names), class_names, config
    )


def check_size(detector: Detector, size: int) -> None:
    """Raise InputError for a resolution that the model cannot take."""
    if size < 1:
        raise InputError(
            f"A resolution must be a positive number of pixels, and is {size}."
        )
    if detector.model.fixed_hw_px is not None:
        rows, columns = detector.model.fixed_hw_px
        if size != max(rows, columns):
            raise InputError(
                f"The model's input is fixed at {columns} x {rows}, so the resolution "
                f"must be {max(rows, columns)}, and is {size}: ask for that one, or "
                "export with a dynamic input."
            )
    elif detector.style not in BY_QUERY and size % detector.model.stride:
        stride = detector.model.stride
        raise InputError(
            f"A resolution must be a multiple of {stride} for this model, and {size} "
            f"is not: use {-(-size // stride) * stride}."
        )


def decode_image(data: bytes) -> Shaped[np.ndarray, "h w 3"]:
    """The BGR pixels of an encoded image; FrameError when it is empty, truncated or no
    image.
    """
    cv2 = onnx_model.vision("cv2")
    if not data:
        raise FrameError("the file is empty")
    # Older OpenCV fills the missing part of a truncated JPEG with grey: an end mark
    # must follow the last start of scan. The search starts at the end, so that it does
    # not read the whole file.
    end = data.rfind(b"\xff\xd9")
    if data[:2] == b"\xff\xd8" and (end < 0 or data.find(b"\xff\xda", end) >= 0):
        raise FrameError("the JPEG file is truncated")
    fault = picture_fault(data)
    if fault is not None:
        raise FrameError(fault)
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise FrameError("the file is not an image that OpenCV can decode")
    return image


def prepare(
    detector: Detector, image_bgr: Shaped[np.ndarray, "h w 3"], *, size: int
) -> Prepared:
    """The model's input for one image at one resolution."""
    fixed = detector.model.fixed_hw_px
    if detector.style in BY_QUERY:
        return stretch(
            image_bgr,
            size,
            fixed_hw_px=fixed,
            normalised=detector.style == "detr-softmax",
        )
    if detector.style in ("yolox", "yolox-decoded"):
        return fit_corner(image_bgr, size, fixed_hw_px=fixed)
    return letterbox(image_bgr, size, stride=detector.model.stride, fixed_hw_px=fixed)


def infer(
    detector: Detector, tensor: Float[np.ndarray, "1 3 h w"]
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The model's raw output arrays by name."""
    return onnx_model.run(detector.model, tensor)


def infer_batch(
    detector: Detector, tensors: Sequence[Float[np.ndarray, "1 3 h w"]]
) -> list[onnx_model.Outputs]:
    """The model's raw output arrays for each of several inputs of one shape, in one
    call.
    """
    if len(tensors) == 1:
        return [infer(detector, tensors[0])]
    outputs = onnx_model.run(detector.model, np.concatenate(tensors))
    odd = [
        name for name, array in outputs.items() if array.shape[:1] != (len(tensors),)
    ]
    if odd:
        raise InputError(
            f"The model must give one row of {odd[0]} per image, and gives "
            f"{outputs[odd[0]].shape} for {len(tensors)}: leave --batch out."
        )
    return [
        {name: array[index : index + 1] for name, array in outputs.items()}
        for index in range(len(tensors))
    ]


def boxes_from(
    detector: Detector,
    outputs: Mapping[str, Shaped[np.ndarray, "..."]],
    placement: Placement,
) -> FrameDetections:
    """The boxes of one image, in its own pixels, from the model's raw outputs."""
    config = detector.config
    decoded = decoding.candidates(
        outputs,
        detector.style,
        classes=len(detector.names),
        input_hw_px=placement.input_hw_px,
        min_score=config.min_score,
    )
    if detector.style in BY_QUERY:
        selected = decoding.best_first(decoded, max_boxes=config.max_boxes)
    else:
        selected = decoding.nms(
            decoded, iou_max=config.nms_iou, max_boxes=config.max_boxes
        )
    return FrameDetections(
        boxes_in_image(decoded.boxes_px[selected], placement),
        decoded.scores[selected],
        np.array(detector.names)[decoded.labels[selected]],
    )


def detect(
    detector: Detector, image_bgr: Shaped[np.ndarray, "h w 3"], *, size: int
) -> FrameDetections:
    """The boxes of one BGR image at one resolution."""
    check_size(detector, size)
    ready = prepare(detector, image_bgr, size=size)
    return boxes_from(detector, infer(detector, ready.tensor), ready.placement)


def _style(model: OnnxModel, requested: str, names: tuple[str, ...]) -> Style:
    """The style that fits the shapes in the file, or where several fit, the outputs of
    a blank image.
    """
    shapes: Mapping[str, Sequence[int | None]] = model.declared_shapes
    styles = decoding.matching_styles(shapes, len(names), input_hw_px=model.fixed_hw_px)
    if requested not in styles and (len(styles) != 1 or styles == ("detr-softmax",)):
        hw_px = model.fixed_hw_px or (PROBE_SIZE, PROBE_SIZE)
        outputs = _outputs_of_a_blank(model, hw_px)
        shapes = {name: array.shape for name, array in outputs.items()}
        if requested == "auto":
            likely = decoding.likely_style(outputs, names, input_hw_px=hw_px)
            styles = (likely,) if likely else ()
        else:
            styles = decoding.matching_styles(shapes, len(names), input_hw_px=hw_px)
    chosen: list[Style] = [style for style in styles if requested in ("auto", style)]
    if len(chosen) != 1:
        raise InputError(decoding.unsupported_message(shapes, len(names), requested))
    return chosen[0]


def _outputs_of_a_blank(
    model: OnnxModel, hw_px: tuple[int, int]
) -> dict[str, Shaped[np.ndarray, "..."]]:
    try:
        return onnx_model.run(model, np.zeros((1, 3, *hw_px), dtype=np.float32))
    except InputError as error:
        raise InputError(
            f"{error} Its style cannot be detected: give one of {', '.join(STYLES)}."
        ) from error
