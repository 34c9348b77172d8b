"""What Python and notebooks show of tables and results: short, escaped, the same
figures as the rows hold.
"""

import json
import os
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest

import deepval
from commands import run_process
from deepval.basics.errors import InputError
from deepval.judge.report.text_tables import Table, lines_of
from project import SUPPORT

RNG = np.random.default_rng(3)
VALUE = np.where(RNG.random(120) < 0.4, RNG.normal(0.4, 1, 120), 0.0)
NAMES = ("mine", "<script>alert(1)</script>", "a & b")
COSTS = {
    "modes": {"cheap": {"ms": 10}, "full": {"ms": 20}},
    "allocators": {name: {"ms": 0.5} for name in NAMES},
}


def table_of(value=VALUE, **more):
    losses = {"cheap": np.full(len(value), 2.0), "full": 2 - value}
    return deepval.ValueTable.from_columns(
        unit=np.arange(len(value)) % 6, losses=losses, **more
    )


def scores_of(names=NAMES):
    rng = np.random.default_rng(4)
    return {
        name: VALUE + (i + 1) * rng.normal(0, 0.3, 120) for i, name in enumerate(names)
    }


@pytest.fixture(scope="module")
def result():
    return deepval.evaluate(table_of(), scores_of(), [0.1, 0.2], draws=40)


class Texts(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_what_notebooks_show_is_escaped(result):
    shown = [
        result,
        table_of(attributes={"<b>": VALUE > 0}, costs=COSTS),
        deepval.read_costs(COSTS),
    ]
    shown.append(Table("<i>title", ("a<b",), lines_of([["<td>"]]), ("<p>note",)))
    for item in shown:
        page = Texts(item._repr_html_())
        assert page.tags <= {
            "pre",
            "img",
            "div",
            "p",
            "table",
            "caption",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "b",
        }
    page = Texts(result._repr_html_())
    assert page.tags == {"pre", "img"}
    assert "".join(page.texts) == str(result)
    assert all(name in str(result) for name in NAMES)


def test_rows_as_frames_hold_what_the_rows_hold(result):
    pandas, polars = result.to_pandas(), result.to_polars()
    assert (
        list(pandas["allocator"])
        == polars["allocator"].to_list()
        == [row.allocator for row in result.rows]
    )
    assert (
        list(pandas["gain"])
        == polars["gain"].to_list()
        == [row.gain for row in result.rows]
    )
    assert list(pandas.columns) == polars.columns == list(result.rows[0])


def lines_of_axes(axes):
    return {str(line.get_label()): line for line in axes.get_lines()}


def test_a_plot_holds_the_figures_of_the_rows(result):
    rows = [result.row("mine", alpha=alpha) for alpha in (0.1, 0.2)]
    figure = result.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    (picture,) = figure.axes
    title = picture.get_title(loc="left")
    assert " ".join(title.split()) == result.answer().sentence
    points = {
        round(cost, 6): quality
        for cost, quality in lines_of_axes(picture)["mine"].get_xydata().tolist()
    }
    assert [points[10], points[20]] == pytest.approx([100 * r.gain_share for r in rows])
    # The band is the interval of the lead, above the best blind mixture.
    (band,) = [part for part in picture.collections if part.get_paths()]
    corners = band.get_paths()[0].vertices
    ends = corners[np.isclose(corners[:, 0], 20), 1]
    blind = rows[1].gain_share - rows[1].lead
    bounds = [100 * (blind + bound) for bound in (rows[1].lead_lo, rows[1].lead_hi)]
    assert [ends.min(), ends.max()] == pytest.approx(bounds)
    assert figure._repr_png_().startswith(b"\x89PNG")
    (forest,) = result.plot("forest").axes
    names = [label.get_text() for label in forest.get_yticklabels()]
    interval = forest.collections[names.index("mine")].get_segments()[0]
    assert interval[:, 0].tolist() == [
        100 * rows[1].versus_random_lo,
        100 * rows[1].versus_random_hi,
    ]
    with pytest.raises(
        InputError,
        match="must be one of answer, forest; found 'forrest'; did you mean 'forest'",
    ):
        result.plot("forrest")


def test_a_plot_of_charged_and_of_negative_losses():
    table = table_of(costs=COSTS)
    charged = deepval.evaluate(
        table, scores_of(), [deepval.Latency(0.2), deepval.Latency(0.4)], draws=10
    )
    assert charged.plot().axes[0].get_xlabel() == "ms per input"
    losses = {"cheap": np.full(120, -2.0), "full": -2 - VALUE}
    with pytest.warns(deepval.InputWarning, match="not positive"):
        below = deepval.evaluate(
            deepval.ValueTable.from_columns(unit=np.arange(120) % 6, losses=losses),
            scores_of(),
            0.2,
            draws=10,
        )
    assert "units of the loss" in below.plot("forest").axes[0].get_xlabel()
    alone = deepval.evaluate(table, {}, 0.2, draws=10)
    title = alone.plot().axes[0].get_title(loc="left")
    assert " ".join(title.split()) == alone.effect.sentences[0]
    with pytest.raises(InputError, match="cannot be drawn: it judges no allocator"):
        alone.plot("forest")


def test_a_page_of_one_result(result, tmp_path):
    page = result.report(tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert '"name":"page"' in text
    assert "<script>alert(1)" not in text
    assert '"name":"mine"' in result.report(
        tmp_path / "page.html", name="mine"
    ).read_text(encoding="utf-8")
    with pytest.raises(InputError, match="must be a file that can be written"):
        result.report(tmp_path / "nowhere" / "page.html")


def test_shares_and_budgets_stand_side_by_side():
    found = deepval.evaluate(
        table_of(costs=COSTS), scores_of(), [0.1, deepval.Latency(0.2)], draws=5
    )
    assert list(dict.fromkeys(row.budget.label for row in found.rows)) == [
        "selection 10%",
        "latency 20% (ms)",
    ]
    with pytest.raises(
        InputError, match="At least one budget is needed; found an empty list"
    ):
        deepval.evaluate(table_of(), scores_of(), [])


def test_a_name_that_is_not_there_is_answered_with_those_that_are(result):
    with pytest.raises(
        InputError,
        match=r"no allocator 'mien'; it has random, .*; did you mean 'mine'\?",
    ):
        result.row("mien")


def test_whatever_is_passed_to_public_functions_is_taken_or_answered_by_a_sentence(
    tmp_path,
):
    path = os.pathsep.join(
        filter(
            None,
            (str(Path(deepval.__file__).parent.parent), os.environ.get("PYTHONPATH")),
        )
    )
    program = sys.executable, str(SUPPORT / "odd_arguments.py")
    done = run_process(tmp_path, program=program, env=os.environ | {"PYTHONPATH": path})
    assert done.code == 0, done.err
    assert json.loads(done.out) == []
