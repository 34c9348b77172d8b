"""Sizes, colours and matplotlib settings of all figures, for a printed page."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

from deepval.basics.errors import library

COLUMN_IN, TEXT_IN = 3.4, 7.0
"""Widths of one column and of the text of a two-column paper."""
INK, SOFT, LINE, EVEN = "#1c2329", "#59636d", "#d8d5cd", "#b9bec4"
HELPED, HARMED, HARMED_WASH = "#2a6fb0", "#b54d14", "#fbece2"
CHEAP, FULL, TRUTH, CORRIDOR = "#7b5bb0", "#14806b", "#7d868f", "#0e6672"
ADDED, RECOVERED = "#e02b20", "#27b34b"
SERIES = (
    "#3f4fa3",
    "#b0447b",
    "#86761a",
    "#2f8f9d",
    "#7a4b94",
    "#4d8a3a",
    "#94553a",
    "#5d7fae",
)
"""The colours of the HTML page, light theme."""
MARKS = ("o", "s", "^", "D", "v", "P", "X")
"""Marks of points, one per series."""
CHARACTER_IN, MARK_IN = 0.05, 0.28
"""Width of a character of a legend, and of a mark with its surrounding space."""
DOTS_PER_INCH = 180
"""Resolution in a notebook."""
LONGEST = 26
"""Largest number of characters of a name."""

Figure: TypeAlias = Any
Axes: TypeAlias = Any
"""Types of matplotlib, which is imported only where it is used."""

SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    # A name with a dollar sign is a name, not a formula.
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": LINE,
    "grid.linewidth": 0.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.5,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "savefig.dpi": 300,
}


class LeftOutError(Exception):
    """A figure cannot be drawn; the message names the missing part of the result."""


def leave_out(reason: str) -> Figure:
    """Draw nothing, for this reason."""
    raise LeftOutError(reason)


@contextmanager
def house_style() -> Iterator[None]:
    """A context in which figures are drawn and saved in this style, regardless of the
    user's settings.
    """
    matplotlib = library("matplotlib")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def draw_or_reason(draw: Callable[[], Figure]) -> Figure | str:
    """A figure in the common style, or the reason for leaving it out."""
    with house_style():
        try:
            figure = draw()
        except LeftOutError as missing:
            return str(missing)
        # Fix ticks and positions now, in this style, so that the settings at the time
        # of saving do not matter.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure


@cache
def _figure_class() -> Any:
    """A figure without a window that notebooks show as a PNG, with any matplotlib
    backend.
    """
    Base = library("matplotlib.figure").Figure

    class Canvas(Base):
        """A matplotlib Figure with a PNG for notebooks."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
            return buffer.getvalue()

    return Canvas


def panels(
    rows: int = 1,
    *,
    width_in: float = COLUMN_IN,
    height_in: float,
    ratios: Sequence[float] | None = None,
    columns: int = 1,
) -> tuple[Figure, list[Axes]]:
    """A figure without a window and its axes, row by row from the top, of the same
    height or in these ratios.
    """
    figure = _figure_class()(figsize=(width_in, height_in), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, height_ratios=ratios)
    all_axes = list(grid.ravel())
    for axes in all_axes:
        # Only a size that is set on the axes counts when it is saved: under the
        # settings of that time it has other ticks, whose numbers push its label out.
        for axis in ("x", "y"):
            axes.tick_params(axis=axis, labelsize=SETTINGS[f"{axis}tick.labelsize"])
    return figure, all_axes


def short(name: str, longest: int = LONGEST) -> str:
    """A name on one line, shortened to `longest` characters."""
    plain = re.sub(r"\s+", " ", name).strip()
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def named_rows(axes: Axes, names: list[str], longest: int = LONGEST) -> None:
    """A row for each name, the first on top, with a grid along the values."""
    axes.set_yticks(range(len(names)), [short(name, longest) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def legend_above(figure: Figure, handles: list[Any]) -> None:
    """The legend above all panels; a handle may be several marks drawn over each other,
    labelled as the last.
    """
    labels = [
        str((handle[-1] if isinstance(handle, tuple) else handle).get_label())
        for handle in handles
    ]
    columns = _columns(labels, float(figure.get_size_inches()[0]))
    figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, borderaxespad=0.1
    )


def _columns(labels: list[str], width_in: float) -> int:
    """The number of legend columns that fit, at most three if there are over five
    labels; labels run downwards.
    """
    most = 3 if len(labels) > 5 else len(labels)
    for columns in range(most, 1, -1):
        rows = -(-len(labels) // columns)
        widest = [
            max(map(len, labels[i : i + rows])) for i in range(0, len(labels), rows)
        ]
        if sum(CHARACTER_IN * width + MARK_IN for width in widest) <= width_in:
            return columns
    return 1
