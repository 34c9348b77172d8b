"""Charts of analyses: dots lie where the rows' figures are, and what is undefined has
none.
"""

import re

from deepval.judge.report.charts import Dot, dots_svg, plain, shares

CHART = shares(
    "Harmed share",
    [
        Dot("cell one", "E1", 0.25, 0.1, 0.4),
        Dot("cell one", "E2", None),
        Dot("cell two", "E1", 0.5),
        Dot("cell two", "E2", 0.75, None, 0.9),
    ],
    line=0.5,
)
DOT = re.compile(
    r'<g><title>.*?</title>.*?<circle class="mark d\d" cx="([\d.]+)" cy="([\d.]+)"'
)
BAR = re.compile(r'<line class="bar-line d\d" x1="([\d.]+)" x2="([\d.]+)"')


def test_dots_lie_where_the_figures_are():
    svg = dots_svg(CHART)
    first, second, third = (float(x) for x, _ in DOT.findall(svg))
    assert round(second - first, 1) == round(third - second, 1) > 0  # 25, 50 and 75 %
    ((low, high),) = BAR.findall(svg)
    assert float(low) < first < float(high)


def test_rows_and_series_are_named_once_in_the_order_met():
    assert CHART.rows == ["cell one", "cell two"]
    assert CHART.series == ["E1", "E2"]


def test_series_of_one_row_do_not_lie_on_each_other():
    svg = dots_svg(plain("x", [Dot("row", "a", 1.0), Dot("row", "b", 1.0)]))
    assert len({y for _, y in DOT.findall(svg)}) == 2
