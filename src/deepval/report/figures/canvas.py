"""A figure without a window that notebooks show as a PNG, with any matplotlib backend.

Apart, because the class needs matplotlib, which is imported only when a figure is drawn.
"""

import io

from matplotlib.figure import Figure

DOTS_PER_INCH = 180
"""Resolution in a notebook."""


class Canvas(Figure):
    """A matplotlib Figure with a PNG for notebooks."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
        return buffer.getvalue()
