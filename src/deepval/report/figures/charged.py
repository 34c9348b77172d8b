"""nDG of allocators that are charged for their own cost -> two panels per cell: over budgets, and free -> charged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.report.figures import style
from deepval.report.figures.budgets import FILLED, OPEN, RANDOM_LINE, draw_pairs
from deepval.report.figures.style import Figure, LeftOutError
from deepval.report.figures.summary import MARKS

MOST = len(style.SERIES)


@dataclass(frozen=True)
class Levels:
    """The data of one cell's panels.

    Attributes:
        cell: Its name.
        curves: Allocator -> (share, nDG) at every share at which it can run; `random` included.
        pairs: Allocator -> nDG free and charged at one budget; None if it cannot run within it.
        budget: The budget of `pairs` in words.
    """

    cell: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    pairs: Mapping[str, tuple[float, float | None]]
    budget: str


def charged_levels(cells: Sequence[Levels]) -> Figure:
    """A row per cell: on the left nDG over budget levels, a line per allocator, on the right free -> charged."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    if not cells:
        raise LeftOutError("no allocator has an nDG under a measured budget")
    names = list(dict.fromkeys(name for levels in cells for name in levels.curves if name != "random"))
    looks = {
        name: {"color": style.SERIES[index % MOST], "marker": MARKS[index % len(MARKS)], "markersize": 3}
        for index, name in enumerate(names)
    }
    heights = [max(1.3, 0.5 + 0.15 * len(levels.pairs)) for levels in cells]
    figure = Canvas(
        figsize=(style.TEXT_IN, 0.3 + 0.11 * math.ceil(len(names) / 3) + sum(heights)), layout="constrained"
    )
    panels = figure.subplots(len(cells), 2, squeeze=False, gridspec_kw={"height_ratios": heights})
    for (left, right), levels in zip(panels, cells, strict=True):
        _curves(left, levels, looks)
        _pairs(right, levels)
    panels[-1][0].set_xlabel("Full passes that the budget allows (%)")
    panels[-1][1].set_xlabel(f"nDG at {cells[-1].budget}")
    handles = [Line2D([], [], linewidth=0.9, label=style.short(name), **looks[name]) for name in names]
    handles += [Line2D([], [], label="random", **RANDOM_LINE)]
    handles += [
        Line2D([], [], linestyle="none", label=text, **look) for text, look in (("free", OPEN), ("charged", FILLED))
    ]
    style.legend_above(figure, handles)
    return figure


def _curves(axes: Any, levels: Levels, looks: Mapping[str, Mapping[str, Any]]) -> None:
    for name, points in levels.curves.items():
        share, ndg = zip(*sorted(points), strict=True)
        look = RANDOM_LINE if name == "random" else {"linewidth": 0.9, **looks[name]}
        axes.plot([100 * a for a in share], ndg, label=name, **look)
    axes.axhline(0, color=style.SOFT, linewidth=0.5)
    axes.set_ylabel("nDG")
    axes.set_title(style.short(levels.cell), fontsize=7, loc="left")
    axes.grid(axis="y")


def _pairs(axes: Any, levels: Levels) -> None:
    """Dumbbells, the best free allocator on top."""
    ordered = sorted(levels.pairs.items(), key=lambda item: (-item[1][0], item[0]))
    drawn = {name: (free, math.nan if paid is None else paid) for name, (free, paid) in ordered}
    draw_pairs(axes, drawn, dict.fromkeys(drawn, "infeasible"))
    style.named_rows(axes, list(drawn))
    axes.margins(x=0.12)
