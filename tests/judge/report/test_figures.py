"""Figures for papers: files that are the same every time, whose marks lie where the
result's numbers are.
"""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

import deepval
from commands import call
from deepval.basics.errors import InputError
from deepval.judge.report.figures import figures, style, write_figures
from deepval.judge.report.figures.gain_figures import MOST, at_one_budget
from deepval.judge.results import Result
from deepval.judge.tables.columns import read
from pages import write_cells
from worlds import judge

COSTS = {
    "modes": {"cheap": {"ms": 10.0}, "full": {"ms": 20.0}},
    "allocators": {"good": {"ms": 1.0}, "bad": {"ms": 0.0}, "dear": {"ms": 12.0}},
}


def judged(names=("good", "bad", "dear"), budgets=None, **options) -> Result:
    rng = np.random.default_rng(5)
    value = np.where(rng.random(120) < 0.4, rng.normal(0.4, 1, 120), 0.0)
    cheap = 2 + rng.random(120)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{i}" for i in range(6)], 20),
        losses={"cheap": cheap, "full": cheap - value},
        costs=COSTS,
    )
    scores = {
        name: value + (i + 1) * rng.normal(0, 0.3, 120) for i, name in enumerate(names)
    }
    return deepval.evaluate(
        table, scores, budgets or [deepval.Selection(0.2)], draws=50, **options
    )


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """The result of a built cell, by its path."""
    (result,) = write_cells(tmp_path_factory.mktemp("cells"), ("braking",))
    return result


@pytest.fixture(scope="module")
def parts(cell):
    """What the command hands over: results, frames and gains by cell."""
    found = read(cell.parent / "evidence.parquet")
    gains = (found.numbers("cheap_E5") - found.numbers("full_E5")).tolist()
    frames = json.loads((cell.parent / "frames.json").read_text(encoding="utf-8"))
    return (
        {"braking": Result.load(cell)},
        {"braking": frames},
        {"braking": dict(zip(found.ids("input"), gains, strict=True))},
    )


@pytest.fixture(scope="module")
def drawn(parts):
    results, frames, gains = parts
    return figures(results, frames, gains=gains)


def axes_of(figure, i=0):
    return figure.axes[i]


def lines_of(axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
    }


def row_names(axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def bars_of(axes) -> dict[tuple[str, str], float]:
    """Signed length of each bar, by the name of its row and of its part."""
    rows, found = row_names(axes), {}
    for container in axes.containers:
        (bar,) = container.patches
        found[
            rows[round(bar.get_y() + bar.get_height() / 2)], container.get_label()
        ] = bar.get_width()
    return found


@pytest.fixture(scope="module")
def paper(cell):
    """The folder that the command writes, and what it says."""
    folder = cell.parent / "paper"
    return folder, call("report", cell, "--figures", folder)


def test_the_command_writes_what_the_library_draws_and_no_page(paper, parts, tmp_path):
    results, frames, gains = parts
    folder, said = paper
    written, left_out = write_figures(tmp_path, results, frames, gains=gains)
    kinds = ("answer", "birds-eye", "curves", "dumbbells", "gap", "sign")
    names = [f"{kind}-braking.{form}" for kind in kinds for form in ("pdf", "png")]
    assert (
        sorted(path.name for path in folder.iterdir())
        == names
        == sorted(path.name for path in written)
    )
    # Another process, with other hashes: the bytes are those of the data.
    assert all(
        (folder / path.name).read_bytes() == path.read_bytes() for path in written
    )
    assert not left_out
    assert said.splitlines() == [str(folder / path.name) for path in written]
    assert not (folder.parent / "report.html").exists()


def test_files_are_what_they_are_called_with_fonts_inside_and_without_a_date(paper):
    for path in paper[0].iterdir():
        data = path.read_bytes()
        if path.suffix == ".png":
            assert data.startswith(b"\x89PNG\r\n\x1a\n")
            assert b"tEXt" not in data
            assert b"tIME" not in data
        else:
            assert data.startswith(b"%PDF-")
            assert b"/FontFile2" in data
            assert b"/Type3" not in data
            assert b"CreationDate" not in data
            width_pt = float(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", data)[1])
            assert width_pt == pytest.approx(
                72 * (7.0 if "birds-eye" in path.name else 3.4)
            )


def test_order_of_results_and_settings_of_the_user_do_not_matter(tmp_path):
    import matplotlib

    one, two = judged(), judged(budgets=[deepval.Latency(0.2)])
    before, _ = write_figures(tmp_path / "a", {"x": one, "y": two}, formats=("png",))
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red"}):
        after, _ = write_figures(tmp_path / "b", {"y": two, "x": one}, formats=("png",))
        assert (
            matplotlib.rcParams["font.size"],
            matplotlib.rcParams["axes.facecolor"],
        ) == (20, "red")
    assert [path.name for path in before] == [
        "answer-x.png",
        "gap-x.png",
        "answer-y.png",
        "gap-y.png",
        "dumbbells-x.png",
    ]
    assert [path.read_bytes() for path in before] == [
        path.read_bytes() for path in after
    ]


def test_bars_of_a_measured_budget_are_overhead_and_ranking_in_percent_of_the_loss(
    drawn, parts
):
    result = parts[0]["braking"]
    bars, loss = bars_of(axes_of(drawn["gap-braking"])), result.setting["cheap_loss"]
    gaps = [gap for gap in result.gaps if (gap.kind, gap.alpha) == ("latency", 0.2)]
    assert len(gaps) == 2
    for gap in gaps:
        for part in ("overhead", "ranking"):
            assert bars.get((gap.allocator, part), 0.0) == pytest.approx(
                100 * gap[part] / loss
            )
    assert row_names(axes_of(drawn["gap-braking"])) == [
        gap.allocator for gap in sorted(gaps, key=lambda gap: gap.gap)
    ]


def test_bars_of_free_allocators_are_missed_value_and_selected_harm_and_add_up_to_the_gap():  # noqa: E501
    result = judged()
    bars, loss = (
        bars_of(axes_of(figures({"c": result})["gap-c"])),
        result.setting["cheap_loss"],
    )
    for gap in result.gaps:
        parts = (
            bars[gap.allocator, "missed value"],
            bars.get((gap.allocator, "selected harm"), 0.0),
        )
        assert parts == pytest.approx(
            (100 * (gap.missed - gap.left_out) / loss, 100 * gap.selected_harm / loss)
        )
        assert sum(parts) == pytest.approx(100 * gap.gap / loss)


def test_a_negative_part_points_the_other_way_and_an_infeasible_allocator_is_named():
    result = judged(budgets=[deepval.Latency(0.2)])
    gaps = tuple(
        dataclasses.replace(gap, causal=-0.5 if gap.gap is not None else None)
        for gap in result.gaps
    )
    axes = axes_of(figures({"c": dataclasses.replace(result, gaps=gaps)})["gap-c"])
    bars = bars_of(axes)
    assert bars["good", "causal"] == pytest.approx(-50 / result.setting["cheap_loss"])
    assert row_names(axes)[-1] == "dear"
    assert "dear" not in {name for name, _ in bars}
    assert " infeasible" in [text.get_text() for text in axes.texts]


def test_curves_start_at_nothing_and_run_through_the_gain_shares():
    names = [f"a{i}" for i in range(MOST + 2)]
    result = judged(names, curve_points=5)
    axes = axes_of(figures({"c": result})["curves-c"])
    lines = lines_of(axes)
    assert {curve.allocator for curve in result.curves} == {*names, "random", "oracle"}
    for curve in result.curves:
        x, y = lines[curve.allocator]
        assert x == pytest.approx([0, *(100 * a for a in curve.alpha)])
        assert y == pytest.approx([0, *(100 * share for share in curve.gain_share)])
    assert lines["always"][1] == pytest.approx(
        [100 * result.setting["all_full_share"]] * 2
    )
    curves = {curve.allocator: curve for curve in result.curves}
    for band in axes.collections:
        curve = curves[band.get_label()]
        corners = {(round(x, 9), round(y, 9)) for x, y in band.get_paths()[0].vertices}
        ends = zip([*curve.alpha, *curve.alpha], [*curve.lo, *curve.hi], strict=True)
        assert {(round(100 * a, 9), round(100 * end, 9)) for a, end in ends} <= corners
    assert len(axes.collections) == 2


def test_dumbbells_join_the_same_budget_of_two_results_of_a_table():
    free, charged = (
        judged(budgets=[deepval.Selection(0.2), deepval.Selection(0.5)]),
        judged(budgets=[deepval.Latency(0.1), deepval.Latency(0.5)]),
    )
    drawn = figures({"paid": charged, "free": free})
    assert "dumbbells-paid" not in drawn
    axes = axes_of(drawn["dumbbells-free"])
    lines, names = lines_of(axes), row_names(axes)
    assert sorted(names) == ["bad", "dear", "good"]
    assert lines["free"][0] == [free.row(name, alpha=0.5).ndg for name in names]
    paid = [charged.row(name, "latency", 0.5).ndg for name in names]
    assert paid[names.index("dear")] is None
    assert lines["charged"][0] == pytest.approx(
        [math.nan if ndg is None else ndg for ndg in paid], nan_ok=True
    )
    assert lines["random"][0] == [free.row("random", alpha=0.5).ndg] * 2
    assert [text.get_text() for text in axes.texts] == ["infeasible"]


def test_dumbbells_need_a_budget_that_both_results_have(tmp_path):
    results = {"free": judged(), "paid": judged(budgets=[deepval.Latency(0.5)])}
    assert write_figures(tmp_path, results, formats=())[1]["dumbbells-free"] == (
        "no allocator has an nDG under a selection budget and is judged under a "
        "measured one as large"
    )


def test_each_point_of_the_scatter_is_an_input_with_gain_and_value_other_than_zero(
    drawn, parts
):
    inputs, gains = parts[0]["braking"].inputs, parts[2]["braking"]
    cheap, full = inputs.losses.values()
    pairs = [
        (gains[key], a - b) for key, a, b in zip(inputs.input, cheap, full, strict=True)
    ]
    pairs = [(gain, value) for gain, value in pairs if gain and value]
    axes = axes_of(drawn["sign-braking"])
    points = [(c.get_label(), c.get_offsets().tolist()) for c in axes.collections[:2]]
    helped, harmed = (
        [list(pair) for pair in pairs if pair[1] > 0],
        [list(pair) for pair in pairs if pair[1] < 0],
    )
    assert points == [
        (f"Helped ({len(helped)})", helped),
        (f"Harmed ({len(harmed)})", harmed),
    ]
    assert helped
    assert harmed
    assert (axes.get_xscale(), axes.get_yscale()) == ("asinh", "asinh")
    disagree = sum(gain * value < 0 for gain, value in pairs) / len(pairs)
    assert axes.collections[2].get_label() == f"Signs disagree: {100 * disagree:.1f}%"


def test_without_gains_the_scatter_sets_both_losses_against_each_other(parts):
    inputs = parts[0]["braking"].inputs
    axes = axes_of(figures(parts[0])["sign-braking"])
    found = np.concatenate([points.get_offsets() for points in axes.collections])
    assert sorted(map(tuple, found.tolist())) == sorted(
        zip(*inputs.losses.values(), strict=True)
    )
    assert [axes.get_xlabel(), axes.get_ylabel()] == [
        f"Loss with {mode}" for mode in inputs.losses
    ]


def test_a_view_from_above_holds_the_objects_and_the_paths_of_its_frame(drawn, parts):
    frames = parts[1]["braking"]
    for i, sign in enumerate(("harmed", "helped")):
        axes = axes_of(drawn["birds-eye-braking"], i)
        of_sign = [
            f
            for f in frames["frames"]
            if f["sign"] == sign
            and any(m["decisive"] is not None for m in f["modes"].values())
        ]
        frame = max(of_sign, key=lambda f: abs(f["value"]))
        for label, mode in zip(("cheap", "full"), frames["modes"], strict=True):
            boxes = [
                p.get_bbox().extents.tolist()
                for p in axes.patches
                if p.get_label() == label
            ]
            objects = frame["modes"][mode]["objects_m"]
            assert boxes == [
                pytest.approx([near, low, far, high])
                for near, far, low, high in objects
            ]
            thick = [
                p.get_linewidth() > 1 for p in axes.patches if p.get_label() == label
            ]
            assert thick == [
                k == frame["modes"][mode]["decisive"] for k in range(len(objects))
            ]
            assert lines_of(axes)[label][0] == [
                x for x, _ in frame["modes"][mode]["path_m"]
            ]
        assert sum(p.get_label() == "reference" for p in axes.patches) == len(
            frame["reference"]["corners_m"]
        )
        half = frames["corridor_m"]["half_width"]
        (corridor,) = [p for p in axes.patches if p.get_label() == "corridor"]
        assert corridor.get_height() == pytest.approx(2 * half)
        assert axes.texts[0].get_text().startswith(sign.capitalize())


def test_what_cannot_be_drawn_is_left_out_with_a_reason(tmp_path):
    written, left_out = write_figures(
        tmp_path, {"c": judged()}, {"c": {"frames": [], "modes": []}}, formats=("png",)
    )
    assert [path.name for path in written] == ["answer-c.png", "gap-c.png"]
    assert left_out == {
        "curves-c": "the result holds no curves: evaluate with curve_points=20",
        "sign-c": "the result holds no inputs: evaluate with terms='terms.parquet'",
        "birds-eye-c": "no frame of the test units is affected",
        "dumbbells-c": "no result of this cell has a latency, energy or money budget",
    }


def test_nothing_to_gain_leaves_no_figure_and_no_file(tmp_path):
    table = deepval.ValueTable.from_columns(
        unit=["u", "u"], losses={"cheap": [0.0, 0.0], "full": [0.0, 0.0]}
    )
    with pytest.warns(deepval.InputWarning):
        result = deepval.evaluate(table, {"mine": [1.0, 2.0]})
    result.save(tmp_path / "empty.json")
    printed = call(
        "report",
        tmp_path / "empty.json",
        "--figures",
        tmp_path / "paper",
        "--out",
        tmp_path / "page.html",
    )
    assert not (tmp_path / "paper").exists()
    assert (tmp_path / "page.html").exists()
    assert len(re.findall(r"^Left out \S+: .+\.$", printed, re.MULTILINE)) == 6


def test_names_are_text_and_stay_in_their_folder(tmp_path):
    hostile = ("$\\frac{", "a\nb", "long " * 20)
    written, _ = write_figures(
        tmp_path / "in",
        {"../up $x$": judged(hostile, curve_points=3)},
        formats=("pdf",),
    )
    names = [f"{kind}-..-up-x.pdf" for kind in ("answer", "gap", "curves")]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == sorted(
        path.name for path in written
    )
    assert style.short("long " * 20) == "long long long long long …"
    with pytest.raises(InputError, match="names that differ as file names"):
        write_figures(tmp_path, {"a b": judged(), "a?b": judged()}, formats=("png",))


@pytest.mark.parametrize(
    ("given", "message"),
    [(({}, {}), "one result or more"), (({"c": None}, {"d": {}}), "'d'")],
)
def test_wrong_calls_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        figures({name: judged() for name in given[0]}, given[1])


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(InputError, match="one of pdf, png; found 'svg'"):
        write_figures(tmp_path, {"c": judged()}, formats=("svg",))


def test_the_budget_nearest_to_the_headline_is_drawn():
    rows = judged(budgets=[deepval.Selection(a) for a in (0.5, 0.1, 0.3)]).rows
    assert {row.alpha for row in at_one_budget(rows, ("selection",))} == {0.1}
    assert at_one_budget(rows, ("latency",)) == []


def test_a_plot_is_the_answer():
    result = judged(budgets=[deepval.Selection(a) for a in (0.1, 0.2, 0.5)])
    (axes,) = result.plot().axes
    answer = result.answer()
    assert axes.get_title(loc="left").replace("\n", " ") == answer.sentence
    lines = lines_of(axes)
    costs, qualities = lines[answer.candidate]
    row = result.row(answer.candidate, alpha=0.2)
    place = costs.index(pytest.approx(20.0))
    assert qualities[place] == pytest.approx(100 * row.gain_share)
    assert "best blind mixture" in lines
    names = {text.get_text() for text in axes.texts}
    assert {*result.setting.modes, answer.candidate} <= names
    # One candidate is emphasised, and there is one band.
    widths = {line.get_label(): line.get_linewidth() for line in axes.get_lines()}
    assert max(widths, key=widths.get) == answer.candidate
    assert len(axes.collections) == 1


def test_a_plot_keeps_its_layout_whatever_the_settings_when_it_is_saved():
    import matplotlib

    figure = judged().plot()
    (axes,) = figure.axes
    places = []
    for size in (4, 10, 30):
        with matplotlib.rc_context({"xtick.labelsize": size, "ytick.labelsize": size}):
            figure.draw_without_rendering()
            places.append([*axes.get_xticks(), *axes.get_yticks()])
    assert places[0] == places[1] == places[2]


def test_a_plot_emphasises_the_allocator_that_is_named():
    result = judged(("good", "bad"))
    widths = {}
    for name in ("good", "bad"):
        (axes,) = result.plot(highlight=name).axes
        widths[name] = {
            line.get_label(): line.get_linewidth() for line in axes.get_lines()
        }
    assert widths["good"]["good"] == widths["bad"]["bad"] > widths["good"]["bad"]
    with pytest.raises(InputError, match="must be one of good, bad; found 'other'"):
        result.plot(highlight="other")


def test_a_plot_draws_the_references_of_the_verdict():
    rng = np.random.default_rng(3)
    cheap = rng.exponential(size=60)
    losses = {"cheap": cheap, "middle": cheap * 0.5, "full": cheap * 0.4}
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(list("abcdef"), 10), losses=losses
    )
    chosen = {"input": table.input, "choice": np.where(cheap > 1, "middle", "cheap")}
    scores = {"each": np.column_stack([cheap, cheap * 1.1]), "mine": chosen}
    result = judge(table, scores, [0.1, 0.2], draws=20, curve_points=5)
    (gain,) = figures({"c": result})["curves-c"].axes
    (forest,) = result.plot("forest").axes
    lines = {line.get_label(): line for line in gain.get_lines()}
    references = {"random-ladder", "oracle-ladder", "never", "always"}
    assert references | {"each", "mine"} <= set(lines)
    assert not {"random", "oracle"} & set(lines)
    own = result.row("mine")
    point = lines["mine"].get_xydata()[0].tolist()
    assert point == pytest.approx([100 * own.alpha, 100 * own.gain_share])
    names = [text.get_text() for text in forest.get_yticklabels()]
    assert names == ["each", f"mine (at {100 * own.alpha:.4g}%)", "never", "always"]
    assert "random-ladder" in forest.get_xlabel()
    scores["plain"] = cheap
    both = judge(table, scores, [0.1, 0.2], draws=20, curve_points=5)
    (gain,) = figures({"c": both})["curves-c"].axes
    labels = {line.get_label() for line in gain.get_lines()}
    minor = {"random (full mode only)", "oracle (full mode only)"}
    assert minor | {"random-ladder"} <= labels
