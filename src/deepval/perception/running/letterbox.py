"""Turns a camera image into a network's input tensor, and boxes in that input back into image pixels."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, Shaped

PAD_VALUE = 114
IMAGENET_MEAN, IMAGENET_SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue between 0 and 1."""


@dataclass(frozen=True)
class Placement:
    """Where the resized image lies in the input: original = (input - (left, top)) / (scale_x, scale_y)."""

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


def letterboxed(
    image_bgr: Shaped[np.ndarray, "h w 3"],
    size: int,
    *,
    stride: int = 32,
    fixed_hw_px: tuple[int, int] | None = None,
) -> Prepared:
    """The image resized into size x size with its aspect kept, padded with 114 to multiples of `stride`.

    r = min(S/H, S/W); bilinear resize to nw, nh = round(W r), round(H r); dw = ((S - nw) mod stride) / 2;
    padding left = round(dw - 0.1), right = round(dw + 0.1), the same for top and bottom; BGR to RGB; NCHW;
    divided by 255. A fixed input of h x w takes r = min(h/H, w/W) and is padded to the whole of h x w.
    """
    height, width = image_bgr.shape[:2]
    rows, columns = fixed_hw_px or (size, size)
    ratio = min(rows / height, columns / width)
    inner_w, inner_h = max(1, round(width * ratio)), max(1, round(height * ratio))
    spare_w, spare_h = columns - inner_w, rows - inner_h
    if fixed_hw_px is None:
        spare_w, spare_h = spare_w % stride, spare_h % stride
    left, top = round(spare_w / 2 - 0.1), round(spare_h / 2 - 0.1)
    canvas = np.full((inner_h + spare_h, inner_w + spare_w, 3), PAD_VALUE, dtype=np.uint8)
    canvas[top : top + inner_h, left : left + inner_w] = _resized(image_bgr, inner_w, inner_h)
    placement = Placement(
        (height, width), (canvas.shape[0], canvas.shape[1]), left, top, inner_w / width, inner_h / height
    )
    return Prepared(_tensor(canvas), placement)


def cornered(
    image_bgr: Shaped[np.ndarray, "h w 3"], size: int, *, fixed_hw_px: tuple[int, int] | None = None
) -> Prepared:
    """The image as YOLOX takes it: in the upper left corner of size x size, padded with 114; BGR; NCHW; 0 to 255.

    r = min(S/H, S/W); bilinear resize to floor(W r), floor(H r); boxes go back by r on both axes.
    """
    height, width = image_bgr.shape[:2]
    rows, columns = fixed_hw_px or (size, size)
    ratio = min(rows / height, columns / width)
    inner_w, inner_h = max(1, int(width * ratio)), max(1, int(height * ratio))
    canvas = np.full((rows, columns, 3), PAD_VALUE, dtype=np.uint8)
    canvas[:inner_h, :inner_w] = _resized(image_bgr, inner_w, inner_h)
    placement = Placement((height, width), (rows, columns), 0, 0, ratio, ratio)
    return Prepared(np.ascontiguousarray(canvas.transpose(2, 0, 1)).astype(np.float32)[None], placement)


def stretched(
    image_bgr: Shaped[np.ndarray, "h w 3"],
    size: int,
    *,
    fixed_hw_px: tuple[int, int] | None = None,
    normalised: bool = False,
) -> Prepared:
    """The image resized (bilinear) to size x size whatever its aspect; BGR to RGB; NCHW; / 255.

    Where `normalised`, ImageNet's mean is taken off then, and the rest divided by its spread.
    """
    height, width = image_bgr.shape[:2]
    rows, columns = fixed_hw_px or (size, size)
    placement = Placement((height, width), (rows, columns), 0, 0, columns / width, rows / height)
    tensor = _tensor(_resized(image_bgr, columns, rows))
    if normalised:
        mean, spread = (np.array(x, np.float32)[:, None, None] for x in (IMAGENET_MEAN, IMAGENET_SPREAD))
        tensor = (tensor - mean) / spread
    return Prepared(tensor, placement)


def boxes_in_image(boxes_px: Float[np.ndarray, "det 4"], placement: Placement) -> Float[np.ndarray, "det 4"]:
    """The boxes in pixels of the original image, clipped to it: (x - padding) / scale per axis."""
    height, width = placement.image_hw_px
    padding = np.array([placement.left_px, placement.top_px] * 2)
    scale = np.array([placement.scale_x, placement.scale_y] * 2)
    return np.clip((boxes_px - padding) / scale, 0.0, np.array([width, height] * 2)).astype(np.float32)


def _resized(image_bgr: Shaped[np.ndarray, "h w 3"], width: int, height: int) -> Shaped[np.ndarray, "h2 w2 3"]:
    import cv2

    if image_bgr.shape[:2] == (height, width):
        return image_bgr
    return np.asarray(cv2.resize(image_bgr, (width, height), interpolation=cv2.INTER_LINEAR))


def _tensor(image_bgr: Shaped[np.ndarray, "h w 3"]) -> Float[np.ndarray, "1 3 h w"]:
    channels_first = np.ascontiguousarray(image_bgr[:, :, ::-1].transpose(2, 0, 1))
    return (channels_first.astype(np.float32) / np.float32(255))[None]
