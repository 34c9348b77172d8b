"""Result -> figures of allocators under budgets, for a paper and in Python.

The gap to the oracle, gain curves, gain without and with own cost; in Python gain
against budget, and every allocator against random.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from deepval.basics import checks
from deepval.basics.errors import InputError, argument
from deepval.judge.report.charts import Chart
from deepval.judge.report.figures import style
from deepval.judge.report.figures.answer_figure import answer_figure
from deepval.judge.report.figures.style import (
    Axes,
    Figure,
    LeftOutError,
    draw_or_reason,
)
from deepval.judge.report.text_tables import number
from deepval.judge.results import (
    ALWAYS,
    MEASURED,
    BudgetKey,
    Curve,
    Gap,
    Result,
    Row,
    lists_by_key,
)
from deepval.judge.tables.scores import is_reference

HEADLINE = 0.2
"""Of several budgets, a figure shows the nearest to this one."""
DASHES = {"random": (4, 2), "oracle": (1, 1.2)}
CAUSES = {
    "overhead": style.SERIES[2],
    "ranking": style.SERIES[0],
    "causal": style.SERIES[1],
}
FREE_CAUSES = {"missed value": style.SERIES[0], "selected harm": style.HARMED}
REFERENCE_DASHES = {
    f"{name}{end}": (0, dash)
    for end in ("-ladder", "")
    for name, dash in DASHES.items()
}
MOST, BANDS = 5, 2
"""Largest number of curves with a colour and a name, and of bands: more could not be
distinguished.
"""
RANDOM_LINE: dict[str, Any] = {
    "color": style.SOFT,
    "linewidth": 0.9,
    "linestyle": (0, (1, 1.2)),
}
FILLED: dict[str, Any] = {
    "marker": "o",
    "markersize": 3,
    "color": style.SERIES[0],
    "markeredgewidth": 0,
}
OPEN: dict[str, Any] = FILLED | {
    "markersize": 5,
    "markerfacecolor": "white",
    "markeredgewidth": 0.9,
}
"""The open mark is larger, so that both marks are visible at equal values."""

Budgeted = TypeVar("Budgeted", Row, Gap)


def at_one_budget(entries: Iterable[Budgeted], kinds: Sequence[str]) -> list[Budgeted]:
    """The entries of the first kind present, at the budget nearest to the headline and
    with its first accounting.
    """
    by_budget = lists_by_key((entry.budget, entry) for entry in entries)

    def order(budget: BudgetKey) -> tuple[int, float, float]:
        # Of two equally near shares, the smaller.
        distance = round(abs(budget.alpha - HEADLINE), 9)
        return kinds.index(budget.kind), distance, budget.alpha

    budgets = [budget for budget in by_budget if budget.kind in kinds]
    if not budgets:
        return []
    return by_budget[min(budgets, key=order)]


def gap(result: Result) -> Figure:
    """The parts of each allocator's gap to the oracle, as shares of the all-cheap loss,
    smallest gap first.

    Under a measured budget the parts are overhead, ranking and causal; if allocators
    are free, they are the missed value that the budget allows and the selected harm.
    The parts add up to the gap.
    """
    gaps = at_one_budget(result.gaps, (*MEASURED, "selection"))
    loss = result.setting.cheap_loss
    if not any(item.gap is not None for item in gaps):
        why = f" ({gaps[0].reason})" if gaps and gaps[0].reason else ""
        raise LeftOutError(f"no gap is known{why}")
    if not loss > 0:
        raise LeftOutError(
            "the all-cheap loss is not positive, so there are no shares of it"
        )
    budget = gaps[0].budget
    is_charged = budget.kind in MEASURED
    rows = {row.allocator: row for row in result.rows if row.budget == budget}
    gaps.sort(key=lambda item: (item.gap is None, item.gap or 0.0, item.allocator))
    entries: dict[str, dict[str, float] | str] = {}
    for item in gaps:
        if item.gap is None:
            entries[item.allocator] = _absent(rows.get(item.allocator))
        else:
            parts = _parts(item, is_charged=is_charged)
            entries[item.allocator] = {name: parts[name] / loss for name in parts}
    colours = CAUSES if is_charged else FREE_CAUSES
    return stacked(entries, f"Gap to the oracle at {budget.label}", colours)


def stacked(
    entries: Mapping[str, Mapping[str, float] | str],
    label: str,
    colours: Mapping[str, str],
    *,
    total: str = "",
) -> Figure:
    """Bars of shares of the all-cheap loss that add up, by name; a word replaces an
    entry without parts.

    Args:
        entries: Name -> share of each part, or a word.
        label: Label of the axis.
        colours: Colour of each part.
        total: Label of a mark at the sum; without one, the sum is printed.
    """
    from matplotlib.patches import Patch

    if not entries:
        raise LeftOutError("no allocator can run under the budget")
    figure, (axes,) = style.panels(height_in=0.85 + 0.17 * len(entries))
    for y, parts in enumerate(entries.values()):
        if isinstance(parts, str):
            look: dict[str, Any] = {
                "color": style.SOFT,
                "fontsize": 6,
                "style": "italic",
            }
            axes.text(0.0, y, f" {parts}", va="center_baseline", **look)
            continue
        reach = {True: 0.0, False: 0.0}
        for name, part in parts.items():
            if part:
                axes.barh(
                    y,
                    100 * part,
                    left=reach[part > 0],
                    height=0.68,
                    color=colours[name],
                    label=name,
                )
                reach[part > 0] += 100 * part
        if not total:
            text = f" {number(100 * sum(parts.values()), 1)}"
            axes.text(reach[True], y, text, va="center_baseline", fontsize=6)
    sums = [
        math.nan if isinstance(parts, str) else 100 * sum(parts.values())
        for parts in entries.values()
    ]
    look = {
        "linestyle": "none",
        "marker": "D",
        "markersize": 3,
        "color": style.INK,
        "label": total,
    }
    marks = axes.plot(sums, range(len(sums)), **look) if total else []
    style.named_rows(axes, list(entries))
    axes.axvline(0, color=style.SOFT, linewidth=0.6)
    axes.margins(x=0.12)
    axes.set_xlabel(f"{label}\n(% of the all-cheap loss)")
    drawn = {container.get_label() for container in axes.containers}
    handles = [
        Patch(color=colour, label=name.capitalize())
        for name, colour in colours.items()
        if name in drawn
    ]
    style.legend_above(figure, [*handles, *marks])
    return figure


def _parts(item: Gap, *, is_charged: bool) -> dict[str, float]:
    if is_charged:
        return {name: getattr(item, name) or 0.0 for name in CAUSES}
    return {
        "missed value": (item.missed or 0.0) - (item.left_out or 0.0),
        "selected harm": item.selected_harm or 0.0,
    }


def _absent(row: Row | None) -> str:
    """The reason why an allocator has no bar, in a word or two."""
    if row is None or row.gain is not None:
        return "undefined"
    return row.verdict_words or "undefined"


def curves(result: Result) -> Figure:
    """Gain share against the share of escalated inputs, 95 % bands for the best,
    random, oracle, never and always.

    The best have the largest gains at the headline budget; the others are thin lines.
    Allocators without a curve, as routers that choose modes themselves, are points with
    intervals.
    """
    drawn = {
        curve.allocator: curve
        for curve in result.curves
        if any(share is not None for share in curve.gain_share)
    }
    if not drawn:
        raise LeftOutError(
            f"the result holds no curves: evaluate with {argument('curve_points', 20)}"
        )
    figure, (axes,) = style.panels(height_in=2.75)
    rows = [row for row in result.rows if row.kind == "selection"]
    judged = [row for row in rows if not is_reference(row.allocator)]
    # References are those that the rows are compared with.
    beside = {row.chance for row in judged} | {row.oracle for row in judged}
    own = lists_by_key(
        (row.allocator, row)
        for row in rows
        if row.gain_share is not None and row.allocator not in drawn
    )
    shown = list(drawn.values()) + [_curve_of(own[name]) for name in own]
    shown = [
        curve
        for curve in shown
        if curve.allocator in (beside if is_reference(curve.allocator) else drawn)
    ]
    handles = _draw_curves(axes, result, shown)
    points = {name: own[name] for name in own if not is_reference(name)}
    for i, (name, at_budgets) in enumerate(points.items()):
        colour = style.SERIES[-1 - i % len(style.SERIES)]
        handles += _draw_points(axes, name, at_budgets, colour)
    style.legend_above(figure, handles)
    return figure


def _curve_of(rows: Sequence[Row]) -> Curve:
    """A reference at its budgets: those of several modes have no curve."""
    ordered = sorted(rows, key=lambda row: row.alpha)
    return Curve(
        allocator=rows[0].allocator,
        alpha=tuple(row.alpha for row in ordered),
        gain_share=tuple(row.gain_share for row in ordered),
        lo=(None,) * len(rows),
        hi=(None,) * len(rows),
    )


def _draw_points(axes: Axes, name: str, rows: Sequence[Row], colour: str) -> list[Any]:
    """An allocator at its budgets, with intervals."""
    shares = [100 * row.alpha for row in rows]
    gains = [100 * (row.gain_share or 0.0) for row in rows]
    for share, row in zip(shares, rows, strict=True):
        if row.versus_never_lo is not None and row.versus_never_hi is not None:
            ends = (100 * row.versus_never_lo, 100 * row.versus_never_hi)
            axes.vlines(share, *ends, linewidth=1.0, color=colour)
    look: dict[str, Any] = {"marker": "D", "markersize": 3.5, "linestyle": "none"}
    return axes.plot(shares, gains, label=style.short(name), color=colour, **look)


def _draw_curves(axes: Axes, result: Result, lines: Sequence[Curve]) -> list[Any]:
    """Draw the curves, the best with names and bands; returns the handles of a
    legend.
    """
    curve_of = {curve.allocator: curve for curve in lines}
    names = [name for name in curve_of if not is_reference(name)]
    names.sort(key=lambda name: (-_gain_at_headline(curve_of[name]), name))
    best, others = names[:MOST], names[MOST:]
    for name in others:
        thin: dict[str, Any] = {"color": style.EVEN, "linewidth": 0.6}
        axes.plot(*_line(curve_of[name]), label=name, **thin)
    handles: list[Any] = []
    for i, (name, colour) in enumerate(zip(best, style.SERIES, strict=False)):
        handle = []
        band = _band(curve_of[name])
        if i < BANDS and len(band[0]) > 1:
            wash: dict[str, Any] = {"color": colour, "alpha": 0.14, "linewidth": 0}
            handle.append(axes.fill_between(*band, label=name, **wash))
        line = _line(curve_of[name])
        handle += axes.plot(*line, color=colour, label=style.short(name))
        handles.append(tuple(handle))
    for name, dash in REFERENCE_DASHES.items():
        if name in curve_of:
            is_minor = f"{name}-ladder" in curve_of
            label = f"{name} (full mode only)" if is_minor else name
            look: dict[str, Any] = {"linewidth": 0.9, "linestyle": dash}
            look["color"] = style.SOFT if is_minor else style.INK
            handles += axes.plot(*_line(curve_of[name]), label=label, **look)
    share = result.setting.all_full_share
    if share is not None:
        look = {"color": style.SOFT, "linewidth": 0.7, "linestyle": (0, (6, 2, 1, 2))}
        handles.append(axes.axhline(100 * share, label=ALWAYS, **look))
    handles.append(axes.axhline(0, color=style.SOFT, linewidth=0.6, label="never"))
    axes.set_xlim(0, 100)
    axes.grid(axis="y")
    axes.set_xlabel("Inputs escalated (%)")
    axes.set_ylabel("Gain (% of the all-cheap loss)")
    return [*handles, *_grey(others)]


def _grey(others: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    if not others:
        return []
    label = others[0] if len(others) == 1 else f"{len(others)} others"
    grey = Line2D([], [], color=style.EVEN, linewidth=0.6, label=style.short(label))
    return [grey]


def _gain_at_headline(curve: Curve) -> float:
    distances = []
    for alpha, gain in zip(curve.alpha, curve.gain_share, strict=True):
        if gain is not None:
            distances.append((round(abs(alpha - HEADLINE), 9), alpha, gain))
    return min(distances)[2]


def _line(curve: Curve) -> tuple[list[float], list[float]]:
    """Escalated inputs and gain, both in percent, from (0, 0): escalating no input
    gains nothing.
    """
    shares = [0.0]
    gains = [0.0]
    for alpha, gain in zip(curve.alpha, curve.gain_share, strict=True):
        if gain is not None:
            shares.append(100 * alpha)
            gains.append(100 * gain)
    return shares, gains


def _band(curve: Curve) -> tuple[list[float], list[float], list[float]]:
    shares = [0.0]
    lows = [0.0]
    highs = [0.0]
    for alpha, low, high in zip(curve.alpha, curve.lo, curve.hi, strict=True):
        if low is not None and high is not None:
            shares.append(100 * alpha)
            lows.append(100 * low)
            highs.append(100 * high)
    return shares, lows, highs


def dumbbells(free: Result, charged: Result) -> Figure:
    """NDG of each allocator when it is free (open) and when it is charged (filled), the
    best free one first.

    Args:
        free: A result with selection budgets.
        charged: A result of the same inputs with measured budgets; it may be the same
            result.
    """
    free_rows = {
        (row.allocator, row.alpha): row for row in free.rows if row.kind == "selection"
    }
    shared = {alpha for _, alpha in free_rows}
    budgeted = [row for row in charged.rows if row.alpha in shared]
    rows = []
    for row in at_one_budget(budgeted, MEASURED):
        own = free_rows.get((row.allocator, row.alpha))
        is_judged = not is_reference(row.allocator)
        if is_judged and own is not None and own.ndg is not None:
            rows.append((own, row))
    if not rows:
        raise LeftOutError(
            "no allocator has an nDG under a selection budget and is judged under a "
            "measured one as large"
        )
    rows.sort(key=lambda pair: (-_ndg(pair[0]), pair[0].allocator))
    budget = rows[0][1].budget
    figure, (axes,) = style.panels(height_in=0.8 + 0.17 * len(rows))
    random = _ndg(free_rows["random", budget.alpha])
    axes.axvline(random, label="random", **RANDOM_LINE)
    pairs = {own.allocator: (_ndg(own), _ndg(row)) for own, row in rows}
    draw_pairs(axes, pairs, {row.allocator: _absent(row) for _, row in rows})
    names = list(pairs)
    label = f"nDG at {100 * budget.alpha:.6g}%"
    on_ladder = {own.allocator for own, _ in rows if own.oracle == "oracle-ladder"}
    if on_ladder:
        label += "\n(ladder: of oracle-ladder)"
        names = [f"{n} (ladder)" if n in on_ladder else n for n in names]
    style.named_rows(axes, names)
    axes.locator_params(axis="x", nbins=6)
    axes.margins(x=0.1)
    axes.set_xlabel(label)
    style.legend_above(figure, _dumbbell_legend(budget))
    return figure


def draw_pairs(
    axes: Axes, pairs: Mapping[str, tuple[float, float]], absent: Mapping[str, str]
) -> None:
    """A dumbbell per name, free (open) and charged (filled); a word replaces a missing
    (NaN) charged nDG.
    """
    for y, (name, (before, after)) in enumerate(pairs.items()):
        axes.plot(
            [before, after],
            [y, y],
            color=style.EVEN,
            linewidth=1.4,
            zorder=1,
            label=name,
        )
        if math.isnan(after):
            offset: dict[str, Any] = {
                "xytext": (5, 0),
                "textcoords": "offset points",
                "va": "center_baseline",
            }
            axes.annotate(
                absent[name],
                (before, y),
                fontsize=6,
                style="italic",
                color=style.SOFT,
                **offset,
            )
    for end, (label, look) in enumerate((("free", OPEN), ("charged", FILLED))):
        axes.plot(
            [pair[end] for pair in pairs.values()],
            range(len(pairs)),
            linestyle="none",
            label=label,
            **look,
        )


def _ndg(row: Row) -> float:
    return math.nan if row.ndg is None else row.ndg


def _dumbbell_legend(budget: BudgetKey) -> list[Any]:
    from matplotlib.lines import Line2D

    charged = f"{budget.kind.capitalize()} budget ({budget.unit}), charged"
    marks = {"Selection budget, free": OPEN, charged: FILLED}
    handles = [
        Line2D([], [], linestyle="none", label=label, **look)
        for label, look in marks.items()
    ]
    return [*handles, Line2D([], [], label="Random", **RANDOM_LINE)]


@dataclass(frozen=True)
class Levels:
    """The data of one cell's panels.

    Attributes:
        cell: Its name.
        curves: Allocator -> (share, nDG) at every share at which it can run; `random`
            included.
        pairs: Allocator -> nDG free and charged at one budget; None if it cannot run
            within it.
        budget: The budget of `pairs` in words.
        random: nDG of random there.
    """

    cell: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    pairs: Mapping[str, tuple[float, float | None]]
    budget: str
    random: float | None = None


def charged_levels(cells: Sequence[Levels]) -> Figure:
    """A row per cell: on the left nDG over budget levels, a line per allocator, on the
    right free -> charged.
    """
    from matplotlib.lines import Line2D

    if not cells:
        raise LeftOutError("no allocator has an nDG under a measured budget")
    looks = _looks(levels.curves for levels in cells)
    heights = [max(1.3, 0.5 + 0.15 * len(levels.pairs)) for levels in cells]
    height_in = 0.3 + 0.11 * math.ceil(len(looks) / 3) + sum(heights)
    figure, panels = style.panels(
        len(cells),
        width_in=style.TEXT_IN,
        height_in=height_in,
        ratios=heights,
        columns=2,
    )
    for left, right, levels in zip(panels[::2], panels[1::2], cells, strict=True):
        _draw_levels(left, levels.cell, levels.curves, looks)
        ordered = sorted(levels.pairs.items(), key=lambda item: (-item[1][0], item[0]))
        drawn = {
            name: (free, math.nan if paid is None else paid)
            for name, (free, paid) in ordered
        }
        if levels.random is not None:
            right.axvline(levels.random, label="random", **RANDOM_LINE)
        draw_pairs(right, drawn, dict.fromkeys(drawn, "infeasible"))
        style.named_rows(right, list(drawn))
        right.margins(x=0.12)
    panels[-2].set_xlabel("Full passes that the budget allows (%)")
    panels[-1].set_xlabel(f"nDG at {cells[-1].budget}")
    handles = [
        Line2D([], [], label=style.short(name), **look) for name, look in looks.items()
    ]
    marks = {"free": OPEN, "charged": FILLED}
    handles += [
        Line2D([], [], linestyle="none", label=text, **look)
        for text, look in marks.items()
    ]
    style.legend_above(figure, handles)
    return figure


def _looks(panels: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The line of each name in any panel; random is dotted and last."""
    names = list(
        dict.fromkeys(name for curves in panels for name in curves if name != "random")
    )
    return {
        name: {
            "color": style.SERIES[i % len(style.SERIES)],
            "marker": style.MARKS[i % len(style.MARKS)],
            "markersize": 3,
            "linewidth": 0.9,
        }
        for i, name in enumerate(names)
    } | {"random": RANDOM_LINE}


def _draw_levels(
    axes: Axes,
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    looks: Mapping[str, dict[str, Any]],
) -> None:
    """NDG against the budget, a line per name."""
    for name, points in curves.items():
        share, ndg = zip(*sorted(points), strict=True)
        axes.plot([100 * a for a in share], ndg, label=style.short(name), **looks[name])
    axes.axhline(0, color=style.SOFT, linewidth=0.5)
    axes.set_ylabel("nDG")
    axes.set_title(style.short(title, 40), fontsize=7, loc="left")
    axes.grid(axis="y")


def across(curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """A panel per target, from top to bottom: nDG against the budget, a line per score,
    random dotted.
    """
    if not curves:
        raise LeftOutError("no score has an nDG on any target")
    looks = _looks(curves.values())
    figure, panels = style.panels(len(curves), height_in=0.5 + 1.55 * len(curves))
    for axes, (target, scores) in zip(panels, curves.items(), strict=True):
        _draw_levels(axes, target, scores, looks)
    panels[-1].set_xlabel("Inputs that may be escalated (%)")
    handles = {
        line.get_label(): line for axes in panels for line in axes.get_lines()[:-1]
    }
    style.legend_above(figure, list(handles.values()))
    return figure


def estimates(chart: Chart) -> Figure:
    """Shares with intervals, a row per dot and a mark per series, open without a
    difference; coloured off 0.
    """
    if not any(dot.point is not None for dot in chart.dots):
        raise LeftOutError("no cell has a choice to compare")
    figure, (axes,) = style.panels(height_in=0.95 + 0.17 * len(chart.dots))
    marks: dict[str, Any] = {}
    for y, dot in enumerate(chart.dots):
        point, low, high = (
            math.nan if bound is None else 100 * bound
            for bound in (dot.point, dot.lo, dot.hi)
        )
        colour = style.HARMED if low > 0 or high < 0 else style.INK
        axes.plot([low, high], [y, y], color=colour, linewidth=1.1)
        look: dict[str, Any] = {
            "marker": style.MARKS[chart.series.index(dot.series) % len(style.MARKS)]
        }
        look |= {"markersize": 4, "linestyle": "none", "color": colour}
        axes.plot(
            [point],
            [y],
            markerfacecolor="white" if low == high else colour,
            label=dot.row,
            **look,
        )
        marks[dot.series] = axes.plot(
            [], [], label=style.short(dot.series), **look | {"color": style.INK}
        )[0]
    axes.axvline(0, color=style.SOFT, linewidth=0.6)
    style.named_rows(axes, [dot.row for dot in chart.dots], 34)
    axes.set_xlabel(f"{chart.axis}\n(% of the all-cheap loss, 95 % intervals)")
    style.legend_above(figure, list(marks.values()))
    return figure


def heat_map(
    entries: Mapping[tuple[str, str], tuple[float, bool]], label: str
) -> Figure:
    """Numbers by row and column on a colour scale around 0; bold with an asterisk where
    an interval excludes 0.
    """
    from matplotlib.colors import LinearSegmentedColormap

    if not entries:
        raise LeftOutError("no difference in nDG is defined")
    rows, columns = (list(dict.fromkeys(key[i] for key in entries)) for i in (0, 1))
    most = max(abs(value) for value, _ in entries.values()) or 1.0
    scale = LinearSegmentedColormap.from_list(
        "signed", [style.HARMED, "white", style.HELPED]
    )
    width_in = max(style.COLUMN_IN, 1.9 + 0.75 * len(columns))
    figure, (axes,) = style.panels(width_in=width_in, height_in=1.3 + 0.2 * len(rows))
    shades = [
        [entries.get((row, column), (math.nan, False))[0] for column in columns]
        for row in rows
    ]
    image = axes.imshow(shades, cmap=scale, vmin=-most, vmax=most, aspect="auto")
    for (row, column), (value, resolved) in entries.items():
        look = {
            "weight": "bold" if resolved else "normal",
            "color": "white" if abs(value) > most / 2 else style.INK,
        }
        text = f"{value:+.2f}{'*' * resolved}".replace("-", "−")
        axes.text(
            columns.index(column),
            rows.index(row),
            text,
            ha="center",
            va="center",
            fontsize=6,
            **look,
        )
    axes.set_xticks(
        range(len(columns)),
        [style.short(name, 18) for name in columns],
        rotation=30,
        ha="right",
    )
    axes.set_yticks(range(len(rows)), [style.short(name, 44) for name in rows])
    figure.colorbar(image, ax=axes, label=label, shrink=0.9)
    return figure


KINDS = ("answer", "forest")
WIDTH_IN = 4.6
VERDICT_COLOURS = {"better": style.HELPED, "worse": style.HARMED}


def figure(
    result: Result, kind: str | None = None, *, highlight: str | None = None
) -> Figure:
    """The answer, or the forest of differences with random; the answer if `kind` is
    None.
    """
    chosen = "answer" if kind is None else checks.word(kind, KINDS, "A plot")
    if highlight is not None and chosen != "answer":
        raise InputError(
            f'highlight= is for plot("answer"); found plot({chosen!r}): leave it out.'
        )

    def draw() -> Figure:
        if chosen == "answer":
            return answer_figure(result, highlight)
        return forest(result)

    drawing = draw_or_reason(draw)
    if isinstance(drawing, str):
        raise InputError(f"The result cannot be drawn: {drawing}.")
    return drawing


def forest(result: Result) -> Figure:
    """Each allocator's difference with random and its interval at the headline budget,
    the largest on top, coloured by verdict; below, never and always escalating.
    """
    judged = [row for row in result.rows if not is_reference(row.allocator)]
    fixed = [row for row in judged if row.spender is None]
    rows = at_one_budget(fixed, ("selection", *MEASURED))
    rows += [row for row in judged if row.spender]
    if not rows:
        raise LeftOutError("it judges no allocator")
    is_in_loss = any(row.versus_random_unit == "loss" for row in rows)
    part = "_loss" if is_in_loss else ""

    def difference(row: Row) -> float | None:
        return row[f"versus_random{part}"]

    rows.sort(key=lambda row: (difference(row) is None, -(difference(row) or 0.0)))
    figure, (axes,) = style.panels(
        width_in=WIDTH_IN, height_in=0.85 + 0.17 * (len(rows) + 2)
    )
    scale = 1.0 if is_in_loss else 100.0
    names = []
    several = len({row.budget for row in rows}) > 1
    for y, row in enumerate(rows):
        ends = [row[f"versus_random{part}{end}"] for end in ("", "_lo", "_hi")]
        colour = VERDICT_COLOURS.get(row.marked or "", style.SOFT)
        _draw_estimate(axes, y, ends, scale, colour, row.verdict)
        if row.spender and several:
            names.append(f"{row.name} (at {100 * row.alpha:.4g}%)")
        else:
            names.append(row.name)
    # Their differences with random are its own with them, reversed.
    against = (rows[0].budget, rows[0].chance)
    chance = next(row for row in result.rows if (row.budget, row.allocator) == against)
    for name in ("never", ALWAYS):
        values = [chance[f"versus_{name}{part}{end}"] for end in ("", "_hi", "_lo")]
        ends = [None if value is None else -value for value in values]
        _draw_estimate(axes, len(names), ends, scale, style.SOFT, None, filled=False)
        names.append(name)
    axes.axvline(0, color=style.SOFT, linewidth=0.6)
    style.named_rows(axes, names)
    unit = "units of the loss" if is_in_loss else "% of the all-cheap loss"
    chances = " or ".join(dict.fromkeys(row.chance or "random" for row in rows))
    label = next((row.label for row in rows if row.spender is None), rows[0].label)
    axes.set_xlabel(f"Gain less that of {chances}\n({unit}, 95 % intervals; {label})")
    return figure


def _draw_estimate(
    axes: Axes,
    y: int,
    ends: Sequence[float | None],
    scale: float,
    colour: str,
    instead: str | None,
    *,
    filled: bool = True,
) -> None:
    """A point with its interval; a word where it is undefined."""
    point, low, high = ends
    if point is None:
        look: dict[str, Any] = {"color": style.SOFT, "style": "italic"}
        axes.text(0.0, y, f" {instead or 'undefined'}", va="center_baseline", **look)
        return
    if low is not None and high is not None:
        axes.hlines(y, scale * low, scale * high, color=colour, linewidth=1.1)
    look = {"marker": "o", "markersize": 3.5, "linestyle": "none", "color": colour}
    look["markerfacecolor"] = colour if filled else "white"
    axes.plot([scale * point], [y], **look)
