"""A figure without a window that notebooks show as it is, whatever else is loaded."""

import io

from matplotlib.figure import Figure

DOTS_PER_INCH = 180
"""At which a notebook shows it."""


class Canvas(Figure):
    """A matplotlib Figure."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
        return buffer.getvalue()
