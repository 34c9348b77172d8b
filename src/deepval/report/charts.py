"""Rows of an analysis -> a chart in plain data: named rows of dots with intervals. `report/figures` draws it."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from deepval.results import HEADLINE, BudgetRecord

Record = TypeVar("Record", bound=BudgetRecord)


@dataclass(frozen=True)
class Dot:
    """One figure with its interval.

    Attributes:
        row: The row that it stands in.
        series: What it is a figure of, where a row has several.
        point: The figure; None where it is undefined.
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
    """Dots along one axis, a row for each name, in the order in which they are met.

    Attributes:
        axis: What the axis measures, with its unit.
        dots: The dots.
        line: A value to compare with, such as 0; None where there is none.
        percent: Whether figures are shares, drawn in percent.
    """

    axis: str
    dots: tuple[Dot, ...]
    line: float | None = None
    percent: bool = False

    @property
    def rows(self) -> list[str]:
        """Names of the rows, each once."""
        return list(dict.fromkeys(dot.row for dot in self.dots))

    @property
    def series(self) -> list[str]:
        """Names of the series, each once."""
        return list(dict.fromkeys(dot.series for dot in self.dots))


def shares(axis: str, dots: Iterable[Dot], *, line: float | None = None) -> Chart:
    """A chart of shares."""
    return Chart(axis, tuple(dots), line, percent=True)


def plain(axis: str, dots: Iterable[Dot], *, line: float | None = None) -> Chart:
    """A chart of numbers as they are."""
    return Chart(axis, tuple(dots), line)


def at_headline(rows: Sequence[Record]) -> list[Record]:
    """The rows whose share is nearest to the headline's, the smaller of two: what a chart has room for."""
    shares_of = {row["alpha"] for row in rows}
    at = min(shares_of, key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha), default=HEADLINE)
    return [row for row in rows if row["alpha"] == at]


WIDTH, LINE, TOP, BOTTOM = 920, 22, 8, 40
STEP = 11
"""From one series of a row to the next, and from the last to the next row."""
LETTER = 6.9
MOST = 58
"""Characters of a row's name that are shown; the whole of it stands in a title."""
SERIES = 8
TRIMMED = 0.9
"""An interval that makes the axis this much longer than the figures need is cut at its end."""


def dots_svg(chart: Chart) -> str:
    """The chart, from top to bottom; several series of a row lie one below the other, and a line divides such rows."""
    rows, series = chart.rows, chart.series
    known = [dot for dot in chart.dots if dot.point is not None]
    low, high, ticks = _axis(chart, known)
    left = 16 + LETTER * min(MOST, max(map(len, rows)))
    each = LINE if len(series) == 1 else STEP * (len(series) + 1)
    height = each * len(rows)
    legend = 22 * (len(series) > 1)

    def x(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (WIDTH - left - 20)

    lines = [
        f'<svg viewBox="0 0 {WIDTH} {height + TOP + BOTTOM + legend}" role="img" aria-label="{_e(chart.axis)}">',
        *_legend(series),
    ]
    top = TOP + legend
    scale = 100.0 if chart.percent else 1.0
    for tick in ticks:
        text = f"{scale * tick:.10g}{'%' if chart.percent else ''}"
        lines.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{top + height}"/>')
        lines.append(f'<text class="tick" x="{x(tick):.1f}" y="{top + height + 16}" text-anchor="middle">{text}</text>')
    if chart.line is not None and low <= chart.line <= high:
        at = x(chart.line)
        lines.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + height}"/>')
    for place, name in enumerate(rows):
        y = top + each * (place + 0.5)
        if place and len(series) > 1:
            above = top + each * place
            lines.append(f'<line class="grid" x1="{left:.1f}" x2="{WIDTH - 20}" y1="{above}" y2="{above}"/>')
        short = name if len(name) <= MOST else name[: MOST - 1] + "…"
        lines.append(
            f'<text x="{left - 10:.1f}" y="{y + 4:.1f}" text-anchor="end"><title>{_e(name)}</title>{_e(short)}</text>'
        )
    for dot in known:
        below = series.index(dot.series)
        y = top + each * (rows.index(dot.row) + 0.5) + STEP * (below - (len(series) - 1) / 2)
        lines.append(_dot(dot, y, f"d{below % SERIES}", x, chart))
    label = f'<text class="dim" x="{(left + WIDTH) / 2:.1f}" y="{top + height + 34}" text-anchor="middle">'
    lines.append(f"{label}{_e(chart.axis)}</text></svg>")
    return "".join(lines)


def _dot(dot: Dot, y: float, colour: str, x: object, chart: Chart) -> str:
    assert callable(x)
    assert dot.point is not None
    scale, sign = (100.0, "%") if chart.percent else (1.0, "")
    said = f"{dot.row}, {dot.series}: {scale * dot.point:.3g}{sign}"
    bar = ""
    if dot.lo is not None and dot.hi is not None:
        said += f" [{scale * dot.lo:.3g}{sign}, {scale * dot.hi:.3g}{sign}]"
        bar = f'<line class="bar-line {colour}" x1="{x(dot.lo):.1f}" x2="{x(dot.hi):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    mark = f'<circle class="mark {colour}" cx="{x(dot.point):.1f}" cy="{y:.1f}" r="3.6"/>'
    return f"<g><title>{_e(said)}</title>{bar}{mark}</g>"


def _legend(series: Sequence[str]) -> list[str]:
    if len(series) < 2:
        return []
    lines, at = [], 12.0
    for place, name in enumerate(series):
        lines.append(f'<circle class="mark d{place % SERIES}" cx="{at:.1f}" cy="12" r="4"/>')
        lines.append(f'<text class="dim" x="{at + 9:.1f}" y="16">{_e(name)}</text>')
        at += 28 + LETTER * len(name)
    return lines


def _axis(chart: Chart, known: Sequence[Dot]) -> tuple[float, float, list[float]]:
    """The ends of the axis and round numbers along it; a very long interval is cut."""
    points = [dot.point for dot in known if dot.point is not None] + ([] if chart.line is None else [chart.line])
    low, high = min(points), max(points)
    room = (high - low or abs(high) or 1.0) * TRIMMED
    ends = [end for dot in known for end in (dot.lo, dot.hi) if end is not None]
    low, high = max(min([low, *ends]), low - room), min(max([high, *ends]), high + room)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(m for m in (1, 2, 5, 10) if span / (m * step) <= 7)
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    number = round((high - low) / step)
    return low, high, [low + step * i for i in range(number + 1)]


def _e(text: str) -> str:
    return html.escape(text)
