"""Frames with their pictures and boxes -> a gallery of crops: cheap beside full, harmed left, helped right."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepval.files import reading
from deepval.report.figures import style
from deepval.report.figures.style import Axes, Figure, LeftOutError
from deepval.report.text_tables import number

ASPECT, LEAST_PX, MARGIN = 1.6, 160.0, 2.2
"""Width over height of a crop, its least height in pixels, and its size over that of the decisive box."""
MARKS = {"added": style.ADDED, "removed": style.ADDED, "recovered": style.RECOVERED, "lost": style.RECOVERED}
MISSED = "#f5d90a"


def crops(rows: Sequence[Any]) -> Figure:
    """A line per rank: the crops of a harmed frame and of a helped one, each cheap and full.

    A side without a frame is left out.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    sides = [[row for row in rows if row.effect == effect and row.box_px] for effect in ("harmed", "helped")]
    sides = [side for side in sides if side]
    if not sides:
        raise LeftOutError("no frame has a decisive change of the chosen kind")
    lines, width_in = max(map(len, sides)), style.TEXT_IN / 2 * len(sides)
    height_in = 0.5 + lines * (style.TEXT_IN / 4 / ASPECT + 0.2)
    figure, panels = style.panels(lines, width_in=width_in, height_in=height_in, columns=2 * len(sides))
    for axes in panels:
        axes.set_axis_off()
    for side, members in enumerate(sides):
        for line, row in enumerate(members):
            left = 2 * (line * len(sides) + side)
            _draw_pair(panels[left : left + 2], row, titled=line == 0)
    marks = {"Without a reference object": style.ADDED, "Object that the other mode misses": style.RECOVERED}
    handles = [Line2D([], [], color=colour, label=text) for text, colour in marks.items()]
    handles.append(Line2D([], [], color=MISSED, linestyle="--", label="The missed object"))
    style.legend_above(figure, [*handles, Patch(color=style.CORRIDOR, alpha=0.3, label="Corridor")])
    return figure


def _draw_pair(pair: Sequence[Axes], row: Any, *, titled: bool) -> None:
    from matplotlib.patches import Polygon

    picture = None if row.picture is None else reading.picture(Path(row.picture))
    grey = [[(0.45, 0.48, 0.5)]]
    width, height = row.size_px or ([2 * x for x in row.box_px[2:]] if picture is None else picture.shape[1::-1])
    left, top, right, bottom = _window(row.box_px, width, height)
    for full, (axes, boxes) in enumerate(zip(pair, (row.cheap_px, row.full_px), strict=True)):
        axes.imshow(grey if picture is None else picture, interpolation="bilinear", extent=(0, width, height, 0))
        if row.corridor_px:
            axes.add_patch(Polygon(row.corridor_px, closed=True, color=style.CORRIDOR, alpha=0.3, linewidth=0))
        for box in boxes:
            _outline(axes, box, "white", 0.6)
        if full == (row.change in ("added", "recovered", "moved")):
            _outline(axes, row.box_px, MARKS.get(row.change, "white"), 1.6)
        elif row.change in ("recovered", "lost") and row.reference_px:
            _outline(axes, row.reference_px, MISSED, 1.4, linestyle="--")
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.set_aspect("equal")
        if titled:
            axes.set_title(f"{row.effect}, {('cheap', 'full')[full]}", fontsize=6.5, pad=2, color=style.SOFT)
    words = f"V = {'+' if row.value > 0 else '−'}{number(abs(row.value), 2)}: {row.does[0]} → {row.does[1]}"
    look = {"fontsize": 6.5, "color": style.HELPED if row.value > 0 else style.HARMED, "va": "top"}
    text = pair[0].text(0.0, -0.04, words, transform=pair[0].transAxes, **look)
    # The words run below both crops and must not make room beside the first.
    text.set_in_layout(False)


def _window(box_px: Sequence[float], width: float, height: float) -> tuple[float, float, float, float]:
    """The part of the image around a box, of the fixed aspect and inside the image."""
    left, top, right, bottom = box_px
    high = max(LEAST_PX, MARGIN * (bottom - top), MARGIN * (right - left) / ASPECT)
    high = min(high, height, width / ASPECT)
    x = min(max((left + right) / 2, ASPECT * high / 2), width - ASPECT * high / 2)
    y = min(max((top + bottom) / 2, high / 2), height - high / 2)
    return x - ASPECT * high / 2, y - high / 2, x + ASPECT * high / 2, y + high / 2


def _outline(axes: Axes, box: Sequence[float], colour: str, width: float, *, linestyle: str = "-") -> None:
    from matplotlib.patches import Rectangle

    left, top, right, bottom = box
    look: dict[str, Any] = {"edgecolor": colour, "linewidth": width, "linestyle": linestyle}
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, clip_on=True, **look))
