"""Picture -> small grey picture -> a few numbers: brightness, contrast, edges, sharpness, change since the last."""

import numpy as np

from deepval.arrays import Float, Shaped
from deepval.errors import InputError

WIDTH_PX = 256
"""Every s-th pixel is taken, s = ceil(width / 256), and blocks of two by two are averaged."""
EDGE_STEP = 16.0
"""Smallest difference of grey levels between neighbours at an edge."""


def sampled(image: Shaped[np.ndarray, "h w 3"]) -> Shaped[np.ndarray, "h2 w2 3"]:
    """Every s-th pixel of a picture, s = ceil(width / 256); of a sampled picture, the picture itself."""
    step = -(-image.shape[1] // WIDTH_PX)
    return image[::step, ::step]


def grey(image: Shaped[np.ndarray, "h w 3"]) -> Float[np.ndarray, "h2 w2"]:
    """Small grey picture, 0 to 255: (77 R + 150 G + 29 B) / 256 of every s-th pixel, averaged two by two."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 1:
        raise InputError(f"a picture must be height x width x RGB of 8 bit; found {image.dtype} {image.shape}.")
    part = sampled(image).astype(np.int64)
    level = 77 * part[..., 0] + 150 * part[..., 1] + 29 * part[..., 2]
    rows, columns = (max(side - side % 2, 1) for side in level.shape)
    level = level[:rows, :columns]
    high, wide = (2 if side > 1 else 1 for side in level.shape)
    summed = np.add.reduce([level[i::high, j::wide] for i in range(high) for j in range(wide)])
    return summed / (256.0 * high * wide)


IMAGE_STATISTICS = ("brightness", "contrast", "edge_density", "sharpness", "difference_mean", "difference_max")


def image_statistics(now: Float[np.ndarray, "h w"] | None, before: Float[np.ndarray, "h2 w2"] | None) -> list[float]:
    """Brightness, contrast, edge density, sharpness, mean and largest change since the previous frame.

    Brightness is the mean level, contrast its standard deviation, edge density the share of pixels whose level
    differs from the right or lower neighbour by more than 16, sharpness the standard deviation of the Laplacian
    (low for a blurred picture). NaN without a picture; changes are NaN without a previous picture of the same size.
    """
    if now is None:
        return [np.nan] * len(IMAGE_STATISTICS)
    right, down = now[:-1, 1:] - now[:-1, :-1], now[1:, :-1] - now[:-1, :-1]
    edges = np.maximum(np.abs(right), np.abs(down)) > EDGE_STEP
    centre = now[1:-1, 1:-1]
    laplacian = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4.0 * centre
    statistics = [
        float(now.mean()),
        float(now.std()),
        float(edges.mean()) if edges.size else np.nan,
        float(laplacian.std()) if laplacian.size else np.nan,
    ]
    if before is None or before.shape != now.shape:
        return [*statistics, np.nan, np.nan]
    change = np.abs(now - before)
    return [*statistics, float(change.mean()), float(change.max())]
