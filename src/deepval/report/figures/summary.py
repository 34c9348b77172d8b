"""A result -> its figure in Python: gain against budget, and every allocator against random."""

from collections.abc import Mapping, Sequence
from typing import Any

from deepval import checks
from deepval.errors import InputError
from deepval.report.figures import draw_or_reason, style
from deepval.report.figures.gain_figures import MEASURED, at_one_budget, draw_curves
from deepval.report.figures.style import Axes, Figure, LeftOutError
from deepval.results import Curve, Result, Row
from deepval.tables.scores import REFERENCES

RANDOM: dict[str, Any] = {"color": style.SOFT, "linewidth": 0.9, "linestyle": (0, (1, 1.2))}
MOST = len(style.SERIES)
"""Number of scores with their own colour; further scores differ by their marks."""


def across(curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """A panel per target, from top to bottom: nDG against the budget, a line per score, random dotted."""
    if not curves:
        raise LeftOutError("no score has an nDG on any target")
    names = list(dict.fromkeys(name for scores in curves.values() for name in scores if name != "random"))
    looks = {
        name: {"color": style.SERIES[index % MOST], "marker": style.MARKS[index % len(style.MARKS)], "markersize": 3}
        for index, name in enumerate(names)
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


KINDS = ("gain", "forest")
WIDTH_IN = 4.6
COLOURS = {"better": style.HELPED, "worse": style.HARMED}


def figure(result: Result, kind: str | None = None) -> Figure:
    """Gain against budget, the forest of differences with random, or both if `kind` is None."""
    kinds = KINDS if kind is None else (checks.word(kind, KINDS, "A plot"),)
    drawing = draw_or_reason(lambda: _figure(result, kinds))
    if isinstance(drawing, str):
        raise InputError(f"The result cannot be drawn: {drawing}.")
    return drawing


def _figure(result: Result, kinds: Sequence[str]) -> Figure:
    rows = [r for r in at_one_budget(result.rows, ("selection", *MEASURED)) if r.allocator not in REFERENCES]
    if not rows:
        raise LeftOutError("it judges no allocator")
    heights = {"gain": 2.5, "forest": 0.45 + 0.17 * len(rows)}
    sizes = [heights[kind] for kind in kinds]
    figure, panels = style.panels(len(kinds), width_in=WIDTH_IN, height_in=0.4 + sum(sizes), ratios=sizes)
    for axes, kind in zip(panels, kinds, strict=True):
        if kind == "gain":
            style.legend_above(figure, _gain(axes, result))
        else:
            _forest(axes, rows)
    return figure


def _gain(axes: Axes, result: Result) -> list[Any]:
    """The result's curves or, if it has none, the gains of its rows at every budget of one kind."""
    if any(value is not None for curve in result.curves for value in curve.gain_share):
        return draw_curves(axes, result, result.curves)
    kind = next(kind for kind in ("selection", *MEASURED) if any(row.kind == kind for row in result.rows))
    first = next(row.budget for row in result.rows if row.kind == kind)
    alike = [r for r in result.rows if r.budget.holds(**first.fields | {"alpha": None})]
    lines = {
        name: [(row.alpha, row.gain_share) for row in alike if row.allocator == name]
        for name in dict.fromkeys(row.allocator for row in alike)
    }
    curves = [
        Curve(name, *zip(*sorted(points), strict=True), lo=(None,) * len(points), hi=(None,) * len(points))
        for name, points in lines.items()
        if any(gain is not None for _, gain in points)
    ]
    if not curves:
        raise LeftOutError("no gain is a share of the all-cheap loss, which is not positive")
    handles = draw_curves(axes, result, curves, marker="o")
    axes.set_xlim(0, min(100.0, 104 * max(row.alpha for row in alike)))
    if kind != "selection":
        axes.set_xlabel(f"{kind.capitalize()} budget ({first.unit}, % of the full mode's)")
    return handles


def _forest(axes: Axes, rows: Sequence[Row]) -> None:
    """Each allocator's difference with random and its interval, the largest on top, coloured by verdict."""
    in_loss = any(row.versus_random_unit == "loss" for row in rows)
    part, scale = ("versus_random_loss", 1.0) if in_loss else ("versus_random", 100.0)
    rows = sorted(rows, key=lambda row: (row[part] is None, -(row[part] or 0.0), row.allocator))
    for y, row in enumerate(rows):
        point, low, high = row[part], row[f"{part}_lo"], row[f"{part}_hi"]
        if point is None:
            axes.text(0.0, y, f" {row.verdict or 'undefined'}", va="center_baseline", color=style.SOFT, style="italic")
            continue
        colour = COLOURS.get(row.verdict or "", style.SOFT)
        if low is not None and high is not None:
            axes.plot([scale * low, scale * high], [y, y], color=colour, linewidth=1.1, label=row.allocator)
        axes.plot([scale * point], [y], marker="o", markersize=3.5, color=colour, linestyle="none")
    axes.axvline(0, color=style.SOFT, linewidth=0.6)
    style.named_rows(axes, [row.allocator for row in rows])
    of = "units of the loss" if in_loss else "% of the all-cheap loss"
    axes.set_xlabel(f"Gain less that of random at {rows[0].budget.label}\n({of}, 95 % intervals)")
