"""Result -> figures of allocators under budgets, for a paper and in Python.

The gap to the oracle, gain curves, gain without and with own cost; in Python gain
against budget, and every allocator against random.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from deepval import checks
from deepval.errors import InputError
from deepval.report.charts import Chart
from deepval.report.figures import style
from deepval.report.figures.answer_figure import answer_figure
from deepval.report.figures.style import Axes, Figure, LeftOutError, draw_or_reason
from deepval.report.text_tables import number
from deepval.results import (
    ALWAYS,
    MEASURED,
    BudgetKey,
    Curve,
    Gap,
    Result,
    Row,
    lists_by_key,
)
from deepval.tables.scores import is_reference

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
    candidates = list(entries)
    kind = next(
        (kind for kind in kinds if any(entry.kind == kind for entry in candidates)),
        None,
    )
    candidates = [entry for entry in candidates if entry.kind == kind]
    if not candidates:
        return []
    alpha = min(
        (entry.alpha for entry in candidates),
        key=lambda a: (round(abs(a - HEADLINE), 9), a),
    )
    candidates = [entry for entry in candidates if entry.alpha == alpha]
    return [entry for entry in candidates if entry.budget == candidates[0].budget]


def gap(result: Result) -> Figure:
    """The parts of each allocator's gap to the oracle, as shares of the all-cheap loss,
    smallest gap first.

    Under a measured budget the parts are overhead, ranking and causal; if allocators
    are free, they are the missed value that the budget allows and the selected harm.
    The parts add up to the gap.
    """
    gaps = at_one_budget(result.gaps, (*MEASURED, "selection"))
    loss = result.setting["cheap_loss"]
    if not any(item.gap is not None for item in gaps):
        raise LeftOutError(
            "no "
            f"gap is known{f' ({gaps[0].reason})' if gaps and gaps[0].reason else ''}"
        )
    if not loss or loss < 0:
        raise LeftOutError(
            "the all-cheap loss is not positive, so there are no shares of it"
        )
    charged = gaps[0].kind in MEASURED
    gaps.sort(key=lambda item: (item.gap is None, item.gap or 0.0, item.allocator))
    rows = {(row.allocator, row.budget): row for row in result.rows}
    entries = {
        item.allocator: _absent(rows.get((item.allocator, item.budget)))
        if item.gap is None
        else {name: part / loss for name, part in _parts(item, charged=charged).items()}
        for item in gaps
    }
    return stacked(
        entries,
        f"Gap to the oracle at {gaps[0].budget.label}",
        CAUSES if charged else FREE_CAUSES,
    )


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


def _parts(item: Gap, *, charged: bool) -> dict[str, float]:
    if charged:
        return {
            "overhead": item.overhead or 0.0,
            "ranking": item.ranking or 0.0,
            "causal": item.causal or 0.0,
        }
    return {
        "missed value": (item.missed or 0.0) - (item.left_out or 0.0),
        "selected harm": item.selected_harm or 0.0,
    }


def _absent(row: Row | None) -> str:
    """The reason why an allocator has no bar, in a word or two."""
    return (
        row.verdict_words if row is not None and row.gain is None else None
    ) or "undefined"


def curves(result: Result) -> Figure:
    """Gain share against the share of escalated inputs, 95 % bands for the best,
    random, oracle, never and always.

    The best have the largest gains at the headline budget; the others are thin lines.
    """
    if not any(
        value is not None for curve in result.curves for value in curve.gain_share
    ):
        raise LeftOutError("the result holds no curves: evaluate with --curve 20")
    figure, (axes,) = style.panels(height_in=2.75)
    style.legend_above(
        figure, _draw_all(axes, result, BudgetKey("selection", HEADLINE))
    )
    return figure


def _draw_all(axes: Axes, result: Result, budget: BudgetKey) -> list[Any]:
    """Draw the result's curves or, if it has none, the gains of its rows under budgets
    like this one.

    Allocators without a curve are points with intervals. References are those that the
    rows are compared with.
    """
    alike = [
        row for row in result.rows if row.budget.holds(**vars(budget) | {"alpha": None})
    ]
    judged = [row for row in alike if not is_reference(row.allocator)]
    own = {
        curve.allocator: curve for curve in result.curves if budget.kind == "selection"
    }
    lone = lists_by_key(
        (r.allocator, r)
        for r in judged
        if r.spender or (own and r.allocator not in own)
    )
    beside = {name for row in judged for name in (row.chance, row.oracle)}
    rows = lists_by_key(
        (row.allocator, row) for row in alike if row.gain_share is not None
    )
    lines = {name: _curve_of(members) for name, members in rows.items()} | own
    curves = [
        c
        for name, c in lines.items()
        if name not in lone and (not is_reference(name) or name in beside)
    ]
    if not curves:
        raise LeftOutError(
            "no gain is a share of the all-cheap loss, which is not positive"
        )
    handles = draw_curves(axes, result, curves, marker="" if own else "o")
    for i, line in enumerate(lines[name] for name in lone if name in lines):
        look: dict[str, Any] = {"color": style.SERIES[-1 - i % len(style.SERIES)]}
        if None not in (*line.lo, *line.hi):
            shares, lows, highs = _band(line)
            axes.vlines(shares[1:], lows[1:], highs[1:], linewidth=1.0, **look)
        look |= {"marker": "D", "markersize": 3.5, "linestyle": "none"}
        handles += axes.plot(
            *(part[1:] for part in _line(line)),
            label=style.short(line.allocator),
            **look,
        )
    return handles


def _curve_of(rows: Sequence[Row]) -> Curve:
    """The gains of one allocator's rows as a curve, with their intervals."""
    rows = sorted(rows, key=lambda row: row.alpha)
    columns = ("alpha", "gain_share", "versus_never_lo", "versus_never_hi")
    return Curve(
        rows[0].allocator, *(tuple(row[column] for row in rows) for column in columns)
    )


def draw_curves(
    axes: Axes, result: Result, lines: Iterable[Curve], *, marker: str = ""
) -> list[Any]:
    """Draw the curves, the best with names and bands; returns the handles of a
    legend.
    """
    curve_of = {
        curve.allocator: curve
        for curve in lines
        if any(v is not None for v in curve.gain_share)
    }
    names = sorted(
        (n for n in curve_of if not is_reference(n)),
        key=lambda n: (-_gain_at_headline(curve_of[n]), n),
    )
    best, others = names[:MOST], names[MOST:]
    mark: dict[str, Any] = (
        {"marker": marker, "markersize": 2.5, "markeredgewidth": 0} if marker else {}
    )
    for name in others:
        axes.plot(
            *_line(curve_of[name]), **mark, color=style.EVEN, linewidth=0.6, label=name
        )
    handles: list[Any] = []
    for i, (name, colour) in enumerate(zip(best, style.SERIES, strict=False)):
        bands = []
        if i < BANDS and any(bound is not None for bound in curve_of[name].lo):
            bands = [
                axes.fill_between(
                    *_band(curve_of[name]),
                    color=colour,
                    alpha=0.14,
                    linewidth=0,
                    label=name,
                )
            ]
        (line,) = axes.plot(
            *_line(curve_of[name]), **mark, color=colour, label=style.short(name)
        )
        handles.append((*bands, line))
    for name, dash in REFERENCE_DASHES.items():
        if name in curve_of:
            minor = f"{name}-ladder" in curve_of
            look: dict[str, Any] = {
                "color": style.SOFT if minor else style.INK,
                "linewidth": 0.9,
                "linestyle": dash,
            }
            label = f"{name} (full mode only)" if minor else name
            handles.append(
                tuple(axes.plot(*_line(curve_of[name]), label=label, **look))
            )
    share = result.setting["all_full_share"]
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

    label = others[0] if len(others) == 1 else f"{len(others)} others"
    return (
        [(Line2D([], [], color=style.EVEN, linewidth=0.6, label=style.short(label)),)]
        if others
        else []
    )


def _gain_at_headline(curve: Curve) -> float:
    distances = [
        (round(abs(a - HEADLINE), 9), a, g)
        for a, g in zip(curve.alpha, curve.gain_share, strict=True)
        if g is not None
    ]
    return min(distances)[2]


def _line(curve: Curve) -> tuple[list[float], list[float]]:
    """Escalated inputs and gain, both in percent, from (0, 0): escalating no input
    gains nothing.
    """
    points = [
        (a, g)
        for a, g in zip(curve.alpha, curve.gain_share, strict=True)
        if g is not None
    ]
    return [0.0, *(100 * a for a, _ in points)], [0.0, *(100 * g for _, g in points)]


def _band(curve: Curve) -> tuple[list[float], list[float], list[float]]:
    triples = zip(curve.alpha, curve.lo, curve.hi, strict=True)
    points = [
        (0.0, 0.0, 0.0),
        *((a, lo, hi) for a, lo, hi in triples if lo is not None and hi is not None),
    ]
    return (
        [100 * a for a, _, _ in points],
        [100 * lo for _, lo, _ in points],
        [100 * hi for _, _, hi in points],
    )


def dumbbells(free: Result, charged: Result) -> Figure:
    """NDG of each allocator when it is free (open) and when it is charged (filled), the
    best free one first.

    Args:
        free: A result with selection budgets.
        charged: A result of the same inputs with measured budgets; it may be the same
            result.
    """
    shared = {row.alpha for row in free.rows if row.kind == "selection"}
    charged_rows = {
        row.allocator: row
        for row in at_one_budget(
            (r for r in charged.rows if r.alpha in shared), MEASURED
        )
    }
    budget = next(
        (row.budget for row in charged_rows.values()), BudgetKey("", math.nan)
    )
    free_rows = {
        row.allocator: row
        for row in free.rows
        if row.kind == "selection" and row.alpha == budget.alpha
    }
    names = [
        n
        for n in free_rows
        if n in charged_rows and not is_reference(n) and free_rows[n].ndg is not None
    ]
    if not names:
        raise LeftOutError(
            "no allocator has an nDG under a selection budget and is judged under a "
            "measured one as large"
        )
    names.sort(key=lambda n: (-_ndg(free_rows[n]), n))
    figure, (axes,) = style.panels(height_in=0.8 + 0.17 * len(names))
    axes.axvline(_ndg(free_rows["random"]), label="random", **RANDOM_LINE)
    pairs = {name: (_ndg(free_rows[name]), _ndg(charged_rows[name])) for name in names}
    draw_pairs(axes, pairs, {name: _absent(charged_rows[name]) for name in names})
    on_ladder = [n for n in names if free_rows[n].oracle == "oracle-ladder"]
    style.named_rows(axes, [f"{n} (ladder)" if n in on_ladder else n for n in names])
    axes.locator_params(axis="x", nbins=6)
    axes.margins(x=0.1)
    axes.set_xlabel(
        f"nDG at {100 * budget.alpha:.6g}%"
        + ("\n(ladder: of oracle-ladder)" if on_ladder else "")
    )
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

    return [
        Line2D([], [], linestyle="none", label="Selection budget, free", **OPEN),
        Line2D(
            [],
            [],
            linestyle="none",
            label=f"{budget.kind.capitalize()} budget ({budget.unit}), charged",
            **FILLED,
        ),
        Line2D([], [], label="Random", **RANDOM_LINE),
    ]


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


KINDS = ("answer", "gain", "forest")
WIDTH_IN = 4.6
VERDICT_COLOURS = {"better": style.HELPED, "worse": style.HARMED}


def figure(
    result: Result, kind: str | None = None, *, highlight: str | None = None
) -> Figure:
    """The answer, gain against budget, or the forest of differences with random; the
    answer if `kind` is None.
    """
    chosen = "answer" if kind is None else checks.word(kind, KINDS, "A plot")
    if highlight is not None and chosen != "answer":
        raise InputError(
            f'highlight= is for plot("answer"); found plot({chosen!r}): leave it out.'
        )

    def draw() -> Figure:
        if chosen == "answer":
            return answer_figure(result, highlight)
        return _figure(result, chosen)

    drawing = draw_or_reason(draw)
    if isinstance(drawing, str):
        raise InputError(f"The result cannot be drawn: {drawing}.")
    return drawing


def _figure(result: Result, kind: str) -> Figure:
    judged = [row for row in result.rows if not is_reference(row.allocator)]
    rows = at_one_budget(
        (row for row in judged if row.spender is None), ("selection", *MEASURED)
    )
    rows += [row for row in judged if row.spender]
    if not rows:
        raise LeftOutError("it judges no allocator")
    height = 2.9 if kind == "gain" else 0.85 + 0.17 * (len(rows) + 2)
    figure, (axes,) = style.panels(width_in=WIDTH_IN, height_in=height)
    if kind == "gain":
        style.legend_above(figure, _gain(axes, result))
        return figure
    against = (rows[0].budget, rows[0].chance)
    chance = next(r for r in result.rows if (r.budget, r.allocator) == against)
    _forest(axes, rows, chance)
    return figure


def _gain(axes: Axes, result: Result) -> list[Any]:
    """The result's curves or, if it has none, the gains of its rows at every budget of
    one kind.
    """
    if any(value is not None for curve in result.curves for value in curve.gain_share):
        return _draw_all(axes, result, BudgetKey("selection", HEADLINE))
    kind = next(
        kind
        for kind in ("selection", *MEASURED)
        if any(row.kind == kind for row in result.rows)
    )
    first = next(row.budget for row in result.rows if row.kind == kind)
    handles = _draw_all(axes, result, first)
    shares = [
        row.alpha
        for row in result.rows
        if row.budget.holds(**vars(first) | {"alpha": None})
    ]
    axes.set_xlim(0, min(100.0, 104 * max(shares)))
    if kind != "selection":
        axes.set_xlabel(
            f"{kind.capitalize()} budget ({first.unit}, % of the full mode's)"
        )
    return handles


def _forest(axes: Axes, rows: Sequence[Row], chance: Row) -> None:
    """Each allocator's difference with random and its interval, the largest on top,
    coloured by verdict.

    Below are never and always escalating: their differences with `chance` are its own
    with them, reversed.
    """
    in_loss = any(row.versus_random_unit == "loss" for row in rows)
    part, scale = ("_loss", 1.0) if in_loss else ("", 100.0)
    rows = sorted(
        rows,
        key=lambda row: (
            row[f"versus_random{part}"] is None,
            -(row[f"versus_random{part}"] or 0.0),
        ),
    )
    ends = ("", "_lo", "_hi")
    drawn = [
        (row.name, *(row[f"versus_random{part}{end}"] for end in ends)) for row in rows
    ]
    for name in ("never", ALWAYS):
        values = [chance[f"versus_{name}{part}{end}"] for end in ("", "_hi", "_lo")]
        drawn.append((name, *(None if value is None else -value for value in values)))
    for y, (name, point, low, high) in enumerate(drawn):
        row = rows[y] if y < len(rows) else None
        if point is None:
            word = (row.verdict if row else None) or "undefined"
            axes.text(
                0.0,
                y,
                f" {word}",
                va="center_baseline",
                color=style.SOFT,
                style="italic",
            )
            continue
        colour = VERDICT_COLOURS.get((row.marked if row else None) or "", style.SOFT)
        if low is not None and high is not None:
            axes.plot(
                [scale * low, scale * high],
                [y, y],
                color=colour,
                linewidth=1.1,
                label=name,
            )
        look = {"markerfacecolor": colour if row else "white"}
        axes.plot(
            [scale * point],
            [y],
            marker="o",
            markersize=3.5,
            color=colour,
            linestyle="none",
            **look,
        )
    axes.axvline(0, color=style.SOFT, linewidth=0.6)
    several = len({row.budget for row in rows}) > 1
    names = [
        f"{row.name} (at {100 * row.alpha:.4g}%)"
        if row.spender and several
        else row.name
        for row in rows
    ]
    style.named_rows(axes, [*names, "never", ALWAYS])
    of = "units of the loss" if in_loss else "% of the all-cheap loss"
    against = " or ".join(dict.fromkeys(row.chance or "random" for row in rows))
    label = next((row.label for row in rows if row.spender is None), rows[0].label)
    axes.set_xlabel(f"Gain less that of {against}\n({of}, 95 % intervals; {label})")
