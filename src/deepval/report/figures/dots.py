"""A chart of dots with intervals -> a figure: a row for each name, a colour for each series."""

from typing import Any

from deepval.report.charts import Chart
from deepval.report.figures import style
from deepval.report.figures.style import Figure, LeftOutError

MARKS = ("o", "s", "^", "D", "v", "P", "X")
LONGEST = 60
"""Largest number of characters of a row's name: long, because names of an analysis may differ only at the end."""


def dot_chart(chart: Chart) -> Figure:
    """The chart, from top to bottom; several series of a row lie one below the other."""
    from matplotlib.lines import Line2D

    defined = [(dot, dot.point) for dot in chart.dots if dot.point is not None]
    if not defined:
        raise LeftOutError("no figure of it is defined")
    rows, series = chart.rows, chart.series
    scale = 100.0 if chart.percent else 1.0
    step = 0.7 / len(series)
    wide = max(map(len, rows)) > style.LONGEST
    figure, (axes,) = style.panels(
        width_in=style.TEXT_IN if wide else style.COLUMN_IN, height_in=0.65 + len(rows) * max(0.17, 0.09 * len(series))
    )
    looks = [
        {"color": style.SERIES[index % len(style.SERIES)], "marker": MARKS[index % len(MARKS)], "markersize": 3}
        for index in range(len(series))
    ]
    for dot, point in defined:
        index = series.index(dot.series)
        y = rows.index(dot.row) + step * (index - (len(series) - 1) / 2)
        look: dict[str, Any] = looks[index]
        if dot.lo is not None and dot.hi is not None:
            axes.plot([scale * dot.lo, scale * dot.hi], [y, y], color=look["color"], linewidth=0.9)
        axes.plot([scale * point], [y], markeredgewidth=0, linestyle="none", **look)
    if chart.line is not None:
        axes.axvline(scale * chart.line, color=style.SOFT, linewidth=0.6)
    style.named_rows(axes, rows, LONGEST)
    axes.set_xlabel(f"{chart.axis} (%)" if chart.percent else chart.axis)
    if len(series) > 1:
        handles = [
            Line2D([], [], label=style.short(name), linestyle="none", markeredgewidth=0, **look)
            for name, look in zip(series, looks, strict=True)
        ]
        style.legend_above(figure, handles)
    return figure
