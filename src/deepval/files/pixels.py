"""The bytes of a picture -> how many pixels it has, told by its head: few bytes cannot ask for all the memory."""

import io

from deepval.errors import InputError

MOST_PIXELS = 2**26
"""Of a picture that is decoded: 8,192 x 8,192."""


def check_pixels(data: bytes, source: object) -> None:
    """Raise where a picture has more pixels than are decoded; what is no picture is left to who decodes it."""
    size = size_px(data)
    if size is not None and size[0] * size[1] > MOST_PIXELS:
        raise InputError(
            f"{source}: a picture may have {MOST_PIXELS:,} pixels; it has {size[0]:,} x {size[1]:,}: make it smaller."
        )


def size_px(data: bytes) -> tuple[int, int] | None:
    """Width and height of a picture; None where its head does not say."""
    import warnings

    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as opened:
                return opened.size
    except Image.DecompressionBombError:
        return MOST_PIXELS, MOST_PIXELS
    except Exception:  # noqa: BLE001 - heads are read by a dozen small parsers that fail in their own ways
        return None
