"""Rows of an analysis -> a chart in plain data: named rows of dots with intervals.
`report/figures` draws it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

from deepval.judge.results import HEADLINE, BudgetRecord

Record = TypeVar("Record", bound=BudgetRecord | Mapping[str, Any])


@dataclass(frozen=True)
class Dot:
    """One number with its interval.

    Attributes:
        row: The row of the chart.
        series: The name of its series, if a row has several.
        point: The number; None if it is undefined.
        lo: Lower end of its interval.
        hi: Upper end.
    """

    row: str
    series: str
    point: float | None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class Chart:
    """Dots along one axis, one row per name, in order of first appearance.

    Attributes:
        axis: The quantity of the axis, with its unit.
        dots: The dots.
        line: A reference value, such as 0; None for no line.
        percent: Whether numbers are shares, drawn in percent.
    """

    axis: str
    dots: tuple[Dot, ...]
    line: float | None = None
    percent: bool = False

    @property
    def rows(self) -> list[str]:
        """Names of the rows, without duplicates."""
        return list(dict.fromkeys(dot.row for dot in self.dots))

    @property
    def series(self) -> list[str]:
        """Names of the series, without duplicates."""
        return list(dict.fromkeys(dot.series for dot in self.dots))


def shares(axis: str, dots: Iterable[Dot], *, line: float | None = None) -> Chart:
    """A chart of shares."""
    return Chart(axis, tuple(dots), line, percent=True)


def plain(axis: str, dots: Iterable[Dot], *, line: float | None = None) -> Chart:
    """A chart of plain numbers."""
    return Chart(axis, tuple(dots), line)


def at_headline(rows: Sequence[Record]) -> list[Record]:
    """The rows of the share nearest to the headline's (of two equally near, the
    smaller): a chart shows one share.
    """
    shares_of = {row["alpha"] for row in rows}
    at = min(
        shares_of,
        key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha),
        default=HEADLINE,
    )
    return [row for row in rows if row["alpha"] == at]


WIDTH, LINE, TOP, BOTTOM = 920, 22, 8, 40
STEP = 11
"""Distance from one series of a row to the next, and from the last one to the next
row.
"""
LETTER = 6.9
MOST = 58
"""Largest number of characters of a row's name; its title has the whole name."""
SERIES = 8
TRIMMED = 0.9
"""Intervals may lengthen the axis by this share of the points' range at either end;
longer ones are cut.
"""


def dots_svg(chart: Chart) -> str:
    """The chart as SVG; several series of a row lie one below the other, with lines
    between such rows.
    """
    rows, series = chart.rows, chart.series
    defined = [dot for dot in chart.dots if dot.point is not None]
    low, high, ticks = _axis(chart, defined)
    left = 16 + LETTER * min(MOST, max(map(len, rows)))
    row_height = LINE if len(series) == 1 else STEP * (len(series) + 1)
    height = row_height * len(rows)
    legend = 22 * (len(series) > 1)

    def x(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (
            WIDTH - left - 20
        )

    lines = [
        (
            f'<svg viewBox="0 0 {WIDTH} {height + TOP + BOTTOM + legend}" role="img" '
            f'aria-label="{escape(chart.axis)}">'
        ),
        *_legend(series),
    ]
    top = TOP + legend
    scale = 100.0 if chart.percent else 1.0
    for tick in ticks:
        text = f"{scale * tick:.10g}{'%' if chart.percent else ''}"
        lines.append(
            '<line class="grid" '
            f'x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{top + height}"/>'
        )
        lines.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{top + height + 16}" '
            f'text-anchor="middle">{text}</text>'
        )
    if chart.line is not None and low <= chart.line <= high:
        at = x(chart.line)
        lines.append(
            '<line class="axis" '
            f'x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + height}"/>'
        )
    for index, name in enumerate(rows):
        y = top + row_height * (index + 0.5)
        if index and len(series) > 1:
            above = top + row_height * index
            lines.append(
                '<line class="grid" '
                f'x1="{left:.1f}" x2="{WIDTH - 20}" y1="{above}" y2="{above}"/>'
            )
        short = name if len(name) <= MOST else name[: MOST - 1] + "…"
        at = f'x="{left - 10:.1f}" y="{y + 4:.1f}"'
        lines.append(
            f'<text {at} text-anchor="end">'
            f"<title>{escape(name)}</title>{escape(short)}</text>"
        )
    for dot in defined:
        below = series.index(dot.series)
        y = (
            top
            + row_height * (rows.index(dot.row) + 0.5)
            + STEP * (below - (len(series) - 1) / 2)
        )
        lines.append(_dot(dot, y, f"d{below % SERIES}", x, chart))
    label = (
        f'<text class="dim" x="{(left + WIDTH) / 2:.1f}" y="{top + height + 34}" '
        'text-anchor="middle">'
    )
    lines.append(f"{label}{escape(chart.axis)}</text></svg>")
    return "".join(lines)


def _dot(dot: Dot, y: float, colour: str, x: object, chart: Chart) -> str:
    assert callable(x)
    assert dot.point is not None
    scale, sign = (100.0, "%") if chart.percent else (1.0, "")
    title = f"{dot.row}, {dot.series}: {scale * dot.point:.3g}{sign}"
    bar = ""
    if dot.lo is not None and dot.hi is not None:
        title += f" [{scale * dot.lo:.3g}{sign}, {scale * dot.hi:.3g}{sign}]"
        bar = (
            f'<line class="bar-line {colour}" x1="{x(dot.lo):.1f}" '
            f'x2="{x(dot.hi):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
    mark = (
        f'<circle class="mark {colour}" cx="{x(dot.point):.1f}" cy="{y:.1f}" r="3.6"/>'
    )
    return f"<g><title>{escape(title)}</title>{bar}{mark}</g>"


def _legend(series: Sequence[str]) -> list[str]:
    if len(series) < 2:
        return []
    lines, at = [], 12.0
    for index, name in enumerate(series):
        lines.append(
            f'<circle class="mark d{index % SERIES}" cx="{at:.1f}" cy="12" r="4"/>'
        )
        lines.append(f'<text class="dim" x="{at + 9:.1f}" y="16">{escape(name)}</text>')
        at += 28 + LETTER * len(name)
    return lines


def _axis(chart: Chart, dots: Sequence[Dot]) -> tuple[float, float, list[float]]:
    """The ends of the axis and round numbers along it; very long intervals are cut."""
    points = [dot.point for dot in dots if dot.point is not None] + (
        [] if chart.line is None else [chart.line]
    )
    low, high = min(points), max(points)
    room = (high - low or abs(high) or 1.0) * TRIMMED
    ends = [end for dot in dots for end in (dot.lo, dot.hi) if end is not None]
    low, high = max(min([low, *ends]), low - room), min(max([high, *ends]), high + room)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(m for m in (1, 2, 5, 10) if span / (m * step) <= 7)
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    number = round((high - low) / step)
    return low, high, [low + step * i for i in range(number + 1)]
