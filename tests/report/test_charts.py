"""Charts of analyses: dots lie where the rows' figures are, and what is undefined has none."""

import pytest

from deepval.errors import InputError
from deepval.report.charts import Dot, plain, shares
from deepval.report.figures import write_figure
from deepval.report.figures.dots import dotted

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


def places(figure):
    """Horizontal places of marks, and of the lines between two ends."""
    (axes,) = figure.axes
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    marks = [float(line.get_xdata()[0]) for line in lines if line.get_linestyle() == "None"]
    spans = [tuple(map(float, line.get_xdata())) for line in lines if line.get_linestyle() != "None"]
    return marks, spans


def test_dots_lie_where_the_figures_are():
    marks, spans = places(dotted(CHART))
    assert marks == pytest.approx([25, 50, 75])
    assert spans == [pytest.approx((10, 40))]


def test_rows_and_series_are_named_once_in_the_order_met():
    assert CHART.rows == ["cell one", "cell two"]
    assert CHART.series == ["E1", "E2"]


def test_series_of_one_row_do_not_lie_on_each_other():
    figure = dotted(plain("x", [Dot("row", "a", 1.0), Dot("row", "b", 1.0)]))
    heights = {float(line.get_ydata()[0]) for line in figure.axes[0].lines}
    assert len(heights) == 2


def test_a_chart_without_a_figure_is_not_drawn(tmp_path):
    with pytest.raises(InputError, match="no figure of it is defined"):
        write_figure(tmp_path / "none.png", lambda: dotted(plain("x", [Dot("row", "", None)])))
    assert not list(tmp_path.iterdir())


def test_the_same_chart_gives_the_same_bytes(tmp_path):
    for name in ("one.pdf", "two.pdf"):
        write_figure(tmp_path / name, lambda: dotted(CHART))
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()
