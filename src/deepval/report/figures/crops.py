"""Frames with their pictures and boxes -> a gallery of crops: cheap beside full, harmed left, helped right."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deepval.errors import InputError, reason
from deepval.files import reading
from deepval.report.figures import style
from deepval.report.figures.style import Axes, Figure, LeftOutError
from deepval.report.text_tables import number

ASPECT, LEAST_PX, MARGIN = 1.6, 160.0, 2.2
"""Width over height of a crop, its least height in pixels, and its size over that of the decisive box."""
ADDED, RECOVERED, MISSED = "#e02b20", "#27b34b", "#f5d90a"


def crops(rows: Sequence[Any]) -> Figure:
    """A line per rank: the crops of a harmed frame and of a helped one, each cheap and full."""
    sides = [[row for row in rows if row.effect == effect and row.box_px] for effect in ("harmed", "helped")]
    height = max(map(len, sides))
    if not height:
        raise LeftOutError("no frame has a decisive change of the chosen kind")
    from matplotlib.figure import Figure as Canvas

    panel_in = style.TEXT_IN / 4 / ASPECT
    figure = Canvas(figsize=(style.TEXT_IN, 0.35 + height * (panel_in + 0.32)), layout="constrained")
    panels = figure.subplots(height, 4, squeeze=False, gridspec_kw={"hspace": 0.12})
    for axes in panels.ravel():
        axes.set_axis_off()
    for side, members in enumerate(sides):
        for line, row in enumerate(members):
            pair = [panels[line, 2 * side], panels[line, 2 * side + 1]]
            _draw_pair(pair, row, colour=(style.HARMED, style.HELPED)[side])
    style.legend_above(figure, _legend())
    return figure


def _draw_pair(pair: Sequence[Axes], row: Any, *, colour: str) -> None:
    from matplotlib.patches import Polygon

    picture = _picture(row.picture)
    left, top, right, bottom = _window(row.box_px, None if picture is None else picture.shape)
    for full, axes in enumerate(pair):
        if picture is None:
            axes.set_facecolor(style.EVEN)
        else:
            axes.imshow(picture, interpolation="bilinear")
        if row.corridor_px:
            axes.add_patch(Polygon(row.corridor_px, closed=True, color=style.CORRIDOR, alpha=0.3, linewidth=0))
        for box in row.full_px if full else row.cheap_px:
            _outline(axes, box, "white", 0.6)
        decisive_is_full = row.change in ("added", "recovered", "moved")
        mark = {"added": ADDED, "removed": ADDED, "recovered": RECOVERED, "lost": RECOVERED}.get(row.change, "white")
        if full == decisive_is_full:
            _outline(axes, row.box_px, mark, 1.6)
        elif row.change in ("recovered", "lost") and row.reference_px:
            _outline(axes, row.reference_px, MISSED, 1.4, dashed=True)
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.set_aspect("equal")
        axes.set_title(("cheap", "full")[full], fontsize=6, pad=2, color=style.SOFT)
    sign = "+" if row.value > 0 else "−"
    words = f"V = {sign}{number(abs(row.value), 2)}: {row.does[0]} → {row.does[1]}"
    text = pair[0].text(0.0, -0.04, words, transform=pair[0].transAxes, fontsize=6, color=colour, va="top")
    # The words run below both crops and must not make room beside the first.
    text.set_in_layout(False)


def _picture(path: str | None) -> np.ndarray | None:
    if path is None:
        return None
    from PIL import Image

    data = reading.content(Path(path), "a picture")
    reading.check_pixels(data, Path(path))
    try:
        with Image.open(io.BytesIO(data)) as opened:
            return np.asarray(opened.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: must be a picture; it cannot be read ({reason(error)}).") from error


def _window(box_px: Sequence[float], shape: tuple[int, ...] | None) -> tuple[float, float, float, float]:
    """The part of the image around a box, of the fixed aspect and inside the image where it fits."""
    left, top, right, bottom = box_px
    height = max(LEAST_PX, MARGIN * (bottom - top), MARGIN * (right - left) / ASPECT)
    if shape is not None:
        height = min(height, shape[0], shape[1] / ASPECT)
    width, x, y = ASPECT * height, (left + right) / 2, (top + bottom) / 2
    if shape is not None:
        x = min(max(x, width / 2), shape[1] - width / 2)
        y = min(max(y, height / 2), shape[0] - height / 2)
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _outline(axes: Axes, box: Sequence[float], colour: str, width: float, *, dashed: bool = False) -> None:
    from matplotlib.patches import Rectangle

    left, top, right, bottom = box
    look: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": width, "clip_on": True}
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, linestyle="--" if dashed else "-", **look))


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Line2D([], [], color=ADDED, label="Without a reference object"),
        Line2D([], [], color=RECOVERED, label="Object that the other mode misses"),
        Line2D([], [], color=MISSED, linestyle="--", label="The missed object"),
        Patch(color=style.CORRIDOR, alpha=0.3, label="Corridor"),
    ]
