"""Figures of analyses: the marks, bars, words and boxes that are drawn are the numbers
of the rows.
"""

import matplotlib.colors
import numpy as np
import pytest

import deepval
from deepval.judge.report.figures import style
from deepval.judge.report.figures.gain_figures import across
from deepval.judge.report.figures.style import LeftOutError, draw_or_reason
from deepval.paper.analyses import (
    benefit_harm,
    budgets,
    gallery,
    gaps,
    selection_regret,
    target_transforms,
    targets,
)
from deepval.paper.analyses.selection_regret import NOT_SCORED
from deepval.paper.tidy import Estimate
from tidy_rows import flat_means, flat_rows, study_cells

# few units, to be quick
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")
COSTS = {
    "modes": {"cheap": {"ms": 10.0}, "full": {"ms": 20.0}},
    "allocators": {"good": {"ms": 1.0}, "bad": {"ms": 0.0}, "dear": {"ms": 12.0}},
}
LEVELS = (0.2, 0.5)


def judged(seed):
    rng = np.random.default_rng(seed)
    value = np.where(rng.random(120) < 0.4, rng.normal(0.4, 1, 120), 0.0)
    losses = {"cheap": 3.0 + rng.random(120)}
    losses["full"] = losses["cheap"] - value
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(list("abcdef"), 20), losses=losses, costs=COSTS
    )
    scores = {
        name: value + (i + 1) * rng.normal(0, 0.3, 120)
        for i, name in enumerate(COSTS["allocators"])
    }
    budgets_of = [
        kind(level) for kind in (deepval.Selection, deepval.Latency) for level in LEVELS
    ]
    return deepval.evaluate(table, scores, budgets_of, draws=40)


@pytest.fixture(scope="module")
def results():
    return {"one": judged(5), "two": judged(6)}


def drawn(draw):
    figure = draw_or_reason(draw)
    assert not isinstance(figure, str), figure
    return figure


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def bars_of(axes):
    """Signed length of each bar by the name of its row and of its part."""
    bars = [
        (container.get_label(), container.patches[0]) for container in axes.containers
    ]
    return {
        (names_of(axes)[round(bar.get_y() + 0.34)], part): bar.get_width()
        for part, bar in bars
    }


def lines_of(axes):
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
    }


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_benefit_points_right_harm_left_and_a_mark_is_at_the_net_gain(results):
    rows = flat_rows(benefit_harm.BENEFIT_HARM, study_cells(results=results))
    figure = drawn(lambda: benefit_harm.figure(rows))
    (axes,) = figure.axes
    means = {
        row.allocator: row
        for row in rows
        if (row.cell, row.kind, row.alpha) == (None, "selection", 0.2)
    }
    assert (
        set(means) == {"good", "bad", "dear", "random", "oracle"} == set(names_of(axes))
    )
    bars, (net, _) = bars_of(axes), lines_of(axes)["Net gain"]
    for y, name in enumerate(names_of(axes)):
        row = means[name]
        assert bars[name, "benefit captured"] == pytest.approx(100 * row.benefit)
        assert bars.get((name, "harm selected"), 0.0) == pytest.approx(-100 * row.harm)
        assert net[y] == pytest.approx(100 * (row.benefit - row.harm))
    assert net == sorted(net, reverse=True)
    assert axes.get_xlabel().startswith("At 20%, mean over 2 cells")
    assert legend_of(figure) == ["Benefit captured", "Harm selected", "Net gain"]


def test_parts_of_a_mean_gap_add_up_to_it(results):
    rows = flat_rows(gaps.GAPS, study_cells(causal=results))
    (axes,) = drawn(lambda: gaps.figure(rows)).axes
    means = {
        row.allocator: row
        for row in flat_means(gaps.GAPS, rows)
        if row.alpha == 0.2 and row.gap is not None
    }
    assert names_of(axes) == sorted(means, key=lambda name: means[name].gap)
    bars = bars_of(axes)
    for name, mean in means.items():
        assert sum(
            bars.get((name, part), 0.0) for part in ("overhead", "ranking", "causal")
        ) == pytest.approx(100 * mean.gap)
        assert bars["good", "overhead"] == pytest.approx(100 * means["good"].overhead)
    assert [text.get_text() for text in axes.texts] == [
        f" {100 * means[name].gap:.1f}" for name in names_of(axes)
    ]


def test_levels_have_the_mean_over_cells_first_and_random_as_a_line(results):
    rows = flat_rows(budgets.BUDGETS, study_cells(charged=results))
    figure = drawn(lambda: budgets.figure(rows))
    assert len(figure.axes) == 2 * 3
    by_cell = {(row.cell, row.allocator, row.alpha): row for row in rows}
    left, right = figure.axes[:2]
    assert left.get_title(loc="left") == "Mean over 2 cells"
    ndg = {
        name: [by_cell[cell, name, 0.2] for cell in results]
        for name in ("good", "bad", "dear", "random")
    }
    mean = {
        name: np.mean([row.ndg for row in pair])
        for name, pair in ndg.items()
        if name != "dear"
    }
    assert lines_of(left)["good"][1][0] == pytest.approx(mean["good"])
    marks = lines_of(right)
    free = dict(zip(names_of(right), marks["free"][0], strict=True))
    charged = dict(zip(names_of(right), marks["charged"][0], strict=True))
    for name in ("good", "bad", "dear"):
        assert free[name] == pytest.approx(np.mean([row.free_ndg for row in ndg[name]]))
    assert charged["good"] == pytest.approx(mean["good"])
    assert np.isnan(charged["dear"])  # it costs more than the budget
    assert [text.get_text() for text in right.texts] == ["infeasible"]
    assert marks["random"][0][0] == pytest.approx(
        np.mean([row.free_ndg for row in ndg["random"]])
    )
    one = figure.axes[2]
    assert lines_of(one)["bad"] == (
        [20.0, 50.0],
        [by_cell["one", "bad", level].ndg for level in LEVELS],
    )
    assert (
        len(
            drawn(
                lambda: budgets.figure([row for row in rows if row.cell == "one"])
            ).axes
        )
        == 2
    )


def test_targets_are_panels_and_scores_are_lines_of_one_look():
    curves = {
        "braking": {"random": [(0.2, 0.2), (0.1, 0.1)], "mine": [(0.1, 0.3)]},
        "planner": {"mine": [(0.1, -0.2)], "other": [(0.2, 0.4)]},
    }
    figure = drawn(lambda: across(curves))
    first, second = figure.axes
    assert lines_of(first)["random"] == ([10.0, 20.0], [0.1, 0.2])
    assert lines_of(second)["mine"] == ([10.0], [-0.2])
    looks = [
        {line.get_label(): line.get_color() for line in axes.get_lines()}
        for axes in figure.axes
    ]
    assert looks[0]["mine"] == looks[1]["mine"] != looks[1]["other"]
    assert sorted(legend_of(figure)) == ["mine", "other", "random"]
    assert targets.across is across
    with pytest.raises(LeftOutError):
        across({})


def test_a_heat_map_has_the_differences_and_marks_the_resolved_ones():
    own = {
        "recipe": "r",
        "against": "value",
        "kind": "selection",
        "alpha": 0.2,
        "cells": 1,
        "draws": 9,
        "dropped": 0,
    }
    entries = [
        ("a", "oric", 0.2, 0.1, 0.3),
        ("a", "ap-swap", -0.4, -0.6, 0.1),
        ("b", "oric", 0.05, None, None),
    ]
    rows = [
        own | {"cell": cell, "label": label, "ndg_difference": Estimate(*ndg)}
        for cell, label, *ndg in entries
    ]
    figure = drawn(lambda: target_transforms.figure(rows))
    axes = figure.axes[0]
    shades = axes.images[0].get_array()
    assert np.ma.filled(shades, np.nan) == pytest.approx(
        np.array([[0.2, -0.4], [0.05, np.nan]]), nan_ok=True
    )
    assert axes.images[0].get_clim() == (-0.4, 0.4)
    words = {
        text.get_position(): (text.get_text(), text.get_weight()) for text in axes.texts
    }
    assert words == {
        (0, 0): ("+0.20*", "bold"),
        (1, 0): ("−0.40", "normal"),
        (0, 1): ("+0.05", "normal"),
    }
    assert names_of(axes) == ["r: a", "r: b"]


def test_regret_has_a_point_and_an_interval_per_cell_and_the_pooled_one_last():
    chosen = {
        "by_perception": ("ego-speed",),
        "by_decision": ("ego-speed",),
        "alike": 1,
    }
    setting = {"pool": "target-free", "loss": "E1", "alpha": 0.2}
    pooled = NOT_SCORED | setting
    pooled |= {
        "cell": None,
        "cells": 2,
        "regret": Estimate(0.1, 0.02, 0.2),
        "alike": 1,
    }
    alike = pooled | chosen
    alike |= {"cell": "a", "cells": 1, "regret": Estimate(0.0, 0.0, 0.0)}
    apart = alike | {
        "cell": "b",
        "by_decision": ("criticality",),
        "alike": 0,
        "regret": Estimate(0.2, -0.1, 0.4),
    }
    others = [
        apart | {"loss": "E2"},
        apart | {"alpha": 0.5},
        apart | {"pool": "learned"},
    ]
    unscored = NOT_SCORED | setting
    unscored |= {"cell": "c", "reason": "no validation units"}
    figure = drawn(
        lambda: selection_regret.figure([pooled, alike, apart, unscored, *others])
    )
    (axes,) = figure.axes
    assert names_of(axes) == ["a", "b", "pooled (2 cells)"]
    marks = {
        line.get_label(): line
        for line in axes.get_lines()
        if len(line.get_xdata()) == 1
    }
    assert {name: line.get_xdata()[0] for name, line in marks.items()} == pytest.approx(
        {"a": 0.0, "b": 20.0, "pooled (2 cells)": 10.0}
    )
    assert (marks["a"].get_markerfacecolor(), marks["b"].get_markerfacecolor()) == (
        "white",
        style.INK,
    )
    assert marks["pooled (2 cells)"].get_color() == style.HARMED
    ends = [
        list(line.get_xdata())
        for line in axes.get_lines()
        if len(line.get_xdata()) == 2
    ]
    assert ends[1] == pytest.approx([-10.0, 40.0])
    assert legend_of(figure) == ["ego-speed", "criticality", "pooled"]


def gallery_row(**changed):
    parts = {
        "cell": "c",
        "effect": "helped",
        "input": "u/1",
        "value": 2.5,
        "does": ("keep speed", "brake"),
        "change": "recovered",
        "drawn": True,
        "cheap_px": ((10.0, 10.0, 30.0, 30.0),),
        "full_px": ((400.0, 100.0, 460.0, 150.0),),
        "corridor_px": ((300.0, 370.0), (600.0, 200.0), (640.0, 200.0), (900.0, 370.0)),
        "size_px": (1242, 375),
        "picture": None,
        "box_px": (400.0, 100.0, 460.0, 150.0),
        "reference_px": (402.0, 101.0, 458.0, 149.0),
    }
    return parts | changed


def outlines(axes):
    """Boxes as left, top, right, bottom, by colour and dash."""
    boxes = [patch for patch in axes.patches if not patch.get_fill()]
    return {
        (matplotlib.colors.to_hex(box.get_edgecolor()), box.get_linestyle()): tuple(
            box.get_bbox().extents
        )
        for box in boxes
    }


def test_harmed_frames_are_left_of_helped_ones_and_crops_stay_inside_the_image():
    corner = (1200.0, 0.0, 1242.0, 30.0)
    harmed = gallery_row(
        effect="harmed", value=-1.0, change="added", box_px=corner, reference_px=None
    )
    rows = [
        harmed,
        harmed | {"value": -0.5, "change": "lost"},
        gallery_row(size_px=None),
    ]
    figure = drawn(lambda: gallery.figure(rows))
    panels = np.array(figure.axes).reshape(2, 4)
    assert outlines(panels[0, 1])[style.ADDED, "-"] == corner
    # what is lost is in the cheap mode
    assert outlines(panels[1, 0])[style.RECOVERED, "-"] == corner
    assert style.RECOVERED not in {colour for colour, _ in outlines(panels[1, 1])}
    assert (*panels[0, 0].get_xlim(), *panels[0, 0].get_ylim()) == pytest.approx(
        (1242 - 256, 1242, 160, 0)
    )
    assert outlines(panels[0, 3])[style.RECOVERED, "-"] == gallery_row()["box_px"]
    assert not panels[1, 2].images  # one helped frame, two harmed ones
    assert "no frame has a decisive change" in draw_or_reason(
        lambda: gallery.figure([harmed | {"drawn": False}])
    )
