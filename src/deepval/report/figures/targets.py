"""nDG of the same scores on several targets -> one panel per target, budget by budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from deepval.report.figures import style
from deepval.report.figures.style import Figure, LeftOutError

RANDOM: dict[str, Any] = {"color": style.SOFT, "linewidth": 0.9, "linestyle": (0, (1, 1.2))}
MARKS = ("o", "s", "^", "D", "v", "P", "X")
MOST = len(style.SERIES)
"""Scores with a colour of their own; the rest are told apart by their marks."""


def across(curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """A panel per target, from top to bottom: nDG against the budget, a line per score, random dotted."""
    if not curves:
        raise LeftOutError("no score has an nDG on any target")
    names = list(dict.fromkeys(name for scores in curves.values() for name in scores if name != "random"))
    looks = {
        name: {"color": style.SERIES[place % MOST], "marker": MARKS[place % len(MARKS)], "markersize": 3}
        for place, name in enumerate(names)
    }
    figure, panels = style.panels(len(curves), height_in=0.5 + 1.55 * len(curves))
    handles: dict[str, Any] = {}
    for axes, (target, scores) in zip(panels, curves.items(), strict=True):
        for name, points in scores.items():
            budget, ndg = zip(*sorted(points), strict=True)
            look = RANDOM if name == "random" else {"linewidth": 0.9, **looks[name]}
            (line,) = axes.plot([100 * share for share in budget], ndg, label=style.short(name), **look)
            handles.setdefault(name, line)
        axes.axhline(0, color=style.SOFT, linewidth=0.5)
        axes.set_ylabel("nDG")
        axes.set_title(style.short(target), fontsize=7, loc="left")
        axes.grid(axis="y")
    panels[-1].set_xlabel("Inputs that may be escalated (%)")
    style.legend_above(figure, list(handles.values()))
    return figure
