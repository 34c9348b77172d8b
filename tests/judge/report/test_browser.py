"""The page in a browser: what it computes, what a person clicks, and that nothing of
the data can run.
"""

import json
import os
import re
import shlex
import shutil
import warnings
from dataclasses import replace
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np
import pytest
from test_html_report import HOSTILE, judged, nothing

import deepval
from browser import Browser
from commands import call, run
from deepval.deploy.board import leaderboard_pages
from deepval.judge.report import html
from deepval.judge.report.answers import Typed, next_command
from deepval.judge.report.forms import FORMS
from deepval.judge.report.tables import result_tables
from pages import write_cells
from worlds import COSTS, judge

pytestmark = pytest.mark.browser
POINTS = (
    "gain",
    "benefit",
    "harm",
    "gain_share",
    "oracle_gain",
    "ndg",
    "versus_random",
    "cheap_loss",
)
VERDICTS = "#tables .table:first-of-type"
SETTLED = "new Promise((done) => setTimeout(done, 60))"
CAPTURE = """(() => {
  const make = URL.createObjectURL;
  URL.createObjectURL = (blob) => { window.saved = blob; return make.call(URL, blob); };
})()"""


@pytest.fixture(scope="module")
def browser():
    if not shutil.which("chromium"):
        pytest.skip("tests of the page need chromium: apt-get install chromium")
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return write_cells(tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def page(cells):
    out = cells[0].parent.parent / "report.html"
    call("report", *cells, "--out", out)
    return out


@pytest.fixture
def opened(browser, page):
    browser.messages.clear()
    browser.requests.clear()
    browser.size(1200, 900)
    browser.open(page)
    yield browser
    assert browser.messages == []


def column(browser: Browser, table: str, name: str) -> list[str]:
    script = f"""(() => {{
      const table = document.querySelector({json.dumps(table)});
      const at = [...table.querySelectorAll("thead th")].findIndex((th) => th.textContent === {json.dumps(name)});
      return [...table.querySelectorAll("tbody tr")].map((tr) => tr.children[at].textContent);
    }})()"""  # noqa: E501
    return browser.run(script)


def same(found: float | None, expected: float | None) -> bool:
    return (
        found is expected is None
        if None in (found, expected)
        else abs(found - expected) <= 1e-9 * (1 + abs(expected))
    )


def random_case(
    rng: np.random.Generator,
) -> tuple[deepval.ValueTable, dict, dict, dict]:
    """A table made of three terms, their columns, scores with many ties, and other
    weights.
    """
    n = int(rng.integers(6, 30))
    weights = {"a": 1.0, "b": 0.12, "c": 6.0}
    parts = {name: rng.integers(0, 3, (n, 2)) * rng.random((n, 2)) for name in weights}
    losses = sum(weights[name] * part for name, part in parts.items())
    ids = [f"i{i}" for i in range(n)]
    terms = {"input": ids} | {
        f"weight_{name}": np.full(n, weight) for name, weight in weights.items()
    }
    terms |= {
        f"term_{k}_{mode}": part[:, m]
        for k, part in parts.items()
        for m, mode in enumerate(("cheap", "full"))
    }
    table = deepval.ValueTable.from_columns(
        unit=rng.integers(0, 4, n),
        input=ids,
        losses={"cheap": losses[:, 0], "full": losses[:, 1]},
        costs=COSTS,
    )
    names = [name for name in COSTS["allocators"]][:2]
    scores = {
        names[0]: rng.integers(0, 3, n).astype(float),
        names[1]: rng.choice([-np.inf, -0.0, 0.0, 2.0], n),
    }
    return (
        table,
        terms,
        scores,
        {"a": float(rng.random() * 3), "c": float(rng.integers(0, 2))},
    )


def test_sliders_compute_what_the_command_computes(browser, page):
    """The page's own arithmetic against `evaluate`, on random worlds with ties,
    infinities and measured budgets.
    """
    browser.open(page)
    sources = "".join(
        files("deepval.judge.report.html").joinpath(name).read_text()
        for name in ("text.js", "recombine.js")
    )
    rng = np.random.default_rng(7)
    for _ in range(12):
        table, terms, scores, weights = random_case(rng)
        budgets = [
            deepval.Selection(0.2),
            deepval.Selection(0.55),
            deepval.Latency(0.4),
            deepval.Latency(0.4, accounting="skipping"),
        ]
        before = judge(table, scores, budgets, terms=terms, draws=0, curve_points=3)
        after = judge(
            table,
            scores,
            budgets,
            terms=terms,
            weights=weights,
            draws=0,
            curve_points=3,
        )
        chosen = json.dumps(dict(after.inputs.weights))
        found = browser.run(
            f"(() => {{ {sources}; return "
            f"recombined({before.to_json()}, {chosen}); }})()"
        )
        for row, expected in zip(found["rows"], after.rows, strict=True):
            for name in POINTS:
                assert same(row[name], expected[name]), (name, row[name], expected)
        for gap, expected in zip(found["gaps"], after.gaps, strict=True):
            for name in ("gap", "overhead", "ranking"):
                assert same(gap[name], expected[name]), (name, gap[name], expected)
        for unit, expected in zip(found["units"], after.units, strict=True):
            assert unit["gains"] == pytest.approx(expected.gains, abs=1e-9)
            assert unit["oracle_gain"] == pytest.approx(expected.oracle_gain, abs=1e-9)
        for curve, expected in zip(found["curves"], after.curves, strict=True):
            assert all(map(same, curve["gain_share"], expected.gain_share))
        for name in ("affected", "harm_rate", "harm_ratio", "all_full_share"):
            assert same(found["setting"][name], after.setting[name]), name


def test_what_cannot_be_made_again_is_said_to_be_so(browser, page):
    browser.open(page)
    sources = "".join(
        files("deepval.judge.report.html").joinpath(name).read_text()
        for name in ("text.js", "recombine.js")
    )
    part = np.array(
        [[3.0, 2.0, 1.0], [1.0, 1.0, 2.0], [2.0, 0.0, 1.0], [4.0, 3.0, 1.0]]
    )
    modes = ("cheap", "middle", "full")
    losses = {mode: part[:, m] for m, mode in enumerate(modes)}
    table = deepval.ValueTable.from_columns(
        unit=["a", "a", "b", "b"], input=list("wxyz"), losses=losses
    )
    terms = {"input": list("wxyz"), "weight_t": np.ones(4)} | {
        f"term_t_{mode}": losses[mode] for mode in modes
    }
    scores = {"both": part[:, 1:], "plain": part[:, 0]}
    result = judge(table, scores, [deepval.Selection(0.5)], terms=terms, draws=0)
    assert set(result.inputs.ranks) == {"plain"}
    found = browser.run(
        f"(() => {{ {sources}; return recombined({result.to_json()}, {{t: 2}}); }})()"
    )
    rows = {row["allocator"]: row for row in found["rows"]}
    assert (rows["both"]["gain"], rows["both"]["reason"]) == (
        None,
        "not made again in the page: run the Python",
    )
    # The highest two are w and z: 2 (3 - 1) + 2 (4 - 1).
    assert rows["plain"]["gain"] == 10
    for name in ("both", "random-ladder", "oracle-ladder"):
        assert (rows[name]["gain"], rows[name]["oracle_gain"]) == (None, None)


def test_a_moved_slider_shows_the_numbers_of_the_code_it_shows(
    opened, cells, monkeypatch
):
    judged_ndg = column(opened, VERDICTS, "nDG")
    opened.run("document.getElementById('weight-excess').focus()")
    for _ in range(30):
        opened.press("ArrowRight", 39)
    opened.run(SETTLED)
    weight = opened.run("Number(document.getElementById('weight-excess').value)")
    assert weight > 0.12
    code = opened.run("document.getElementById('command').textContent")
    assert f'"excess":{weight}' in code
    monkeypatch.chdir(cells[0].parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        exec(compile(code, "page", "exec"), {})
    result = deepval.Result.load(cells[0].parent / "reweighted.json")
    expected = next(iter(result_tables(result)))
    for name in ("gain", "benefit", "harm", "nDG", "vs random"):
        place = expected.header.index(name)
        assert column(opened, VERDICTS, name) == [
            row[place].text for section in expected.sections for row in section
        ]
    assert column(opened, VERDICTS, "nDG") != judged_ndg
    stale = "document.querySelectorAll('#judged .chip.stale').length"
    assert opened.run(stale) == 2
    # the answer belongs to the weights of the result
    heading = "document.querySelector('h1').textContent"
    assert "not judged" in opened.run(heading)
    assert opened.run("document.querySelectorAll('td.stale').length") > 0
    opened.run("document.getElementById('reset-weights').click()")
    opened.run(SETTLED)
    assert column(opened, VERDICTS, "nDG") == judged_ndg
    assert opened.run("document.querySelectorAll('.stale').length") == 0


def test_a_table_is_sorted_by_its_heading(opened):
    opened.run(f"document.querySelector('{VERDICTS}').closest('details').open = true")
    button = (
        f"[...document.querySelectorAll('{VERDICTS} thead button')].find((b) => "
        "b.textContent === 'nDG')"
    )
    opened.run(f"{button}.click()")
    falling = [
        float(text.rstrip("*"))
        for text in column(opened, VERDICTS, "nDG")
        if text != "–"
    ]
    assert falling == sorted(falling, reverse=True)
    assert column(opened, VERDICTS, "nDG")[-1] == "–"
    opened.run(f"{button}.focus()")
    opened.press(" ", 32)
    rising = [
        float(text.rstrip("*"))
        for text in column(opened, VERDICTS, "nDG")
        if text != "–"
    ]
    assert rising == sorted(rising)
    assert (
        opened.run(f"{button}.closest('th').getAttribute('aria-sort')") == "ascending"
    )


def test_tables_are_saved_as_csv_and_latex(opened, cells):
    result = deepval.Result.load(cells[0])
    opened.run(CAPTURE)
    opened.run("document.getElementById('save-all-csv').click()")
    assert opened.run("window.saved.text()") == FORMS["csv"](result)
    opened.run("document.getElementById('save-all-latex').click()")
    assert opened.run("window.saved.text()") == FORMS["latex"](result)
    opened.run(f"document.querySelector('{VERDICTS} .save-csv').click()")
    lines = opened.run("window.saved.text()").splitlines()
    of_random = "vs random,vs random 95 %,second 95 %,second opinion,verdict"
    assert lines[0] == (
        "budget,allocator,escalated,gain,gain 95 %,benefit,harm,nDG,nDG "
        f"95 %,{of_random}"
    )
    assert len(lines) == 1 + len(result.rows)


def test_a_link_opens_its_frame(opened, page, cells):
    for path in cells:
        content = json.loads((path.parent / "frames.json").read_text(encoding="utf-8"))
        for frame in content["frames"][-2:]:
            opened.open(page, f"#frame={path.parent.name}/{frame['input']}")
            assert (
                opened.run("document.querySelector('#frame-detail h3').textContent")
                == frame["input"]
            )
            assert (
                opened.run(
                    "document.getElementById('cell').selectedOptions[0].textContent"
                )
                == path.parent.name
            )
            assert (
                opened.run(
                    "document.querySelectorAll('#frame-detail .view svg').length"
                )
                == 2
            )
    other = content["frames"][0]["input"]
    opened.run(f"document.querySelector('[data-input=\"{other}\"]').focus()")
    opened.press(" ", 32)
    opened.run(SETTLED)
    assert opened.run("document.activeElement.dataset.input") == other
    assert opened.run("location.hash") == f"#frame={cells[-1].parent.name}/{other}"
    assert opened.run("document.querySelector('#frame-detail h3').textContent") == other
    opened.run(
        "(() => { const s = document.getElementById('frame-sign'); s.value = 'harmed';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    shown = opened.run(
        "[...document.querySelectorAll('.framelist .v')].map((v) => v.textContent[0])"
    )
    assert set(shown) == {"−"}


def test_weights_that_shape_the_plan_have_no_slider(opened):
    opened.run("document.getElementById('cell').value = 1")
    opened.run("document.getElementById('cell').dispatchEvent(new Event('change'))")
    assert opened.run("document.querySelectorAll('input[type=range]').length") == 0
    assert "also shape the plan" in opened.run(
        "document.getElementById('weights').textContent"
    )


def test_it_loads_nothing_and_fits_a_phone(opened, page):
    assert opened.requests == [page.as_uri()]
    opened.size(390, 844)
    opened.open(page)
    assert opened.run("document.documentElement.scrollWidth") <= 390


def test_dark_follows_the_system_and_the_button(opened, page):
    opened.size(1200, 900, scheme="dark")
    opened.open(page)
    assert opened.run("document.documentElement.dataset.theme") == "dark"
    opened.run("document.getElementById('theme').click()")
    assert opened.run("document.documentElement.dataset.theme") == "light"
    opened.run("localStorage.clear()")


def test_everything_has_a_name_for_those_who_listen(opened):
    nameless = """[...document.querySelectorAll("button, select, input, svg:not([aria-hidden]), a")].filter((e) => !(
      e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).length"""  # noqa: E501
    assert opened.run(nameless) == 0
    charts = opened.run("document.querySelectorAll('figure svg').length")
    assert charts > 6
    assert (
        opened.run("document.querySelectorAll('.chart details table').length") == charts
    )
    positive = (
        "[...document.querySelectorAll('[tabindex]')].filter((e) "
        "=> e.tabIndex > 0).length"
    )
    assert opened.run(positive) == 0


def test_names_of_the_data_are_shown_and_never_run(opened, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(html.render({HOSTILE[1]: judged(HOSTILE)}), encoding="utf-8")
    opened.open(path)
    assert opened.run("window.hacked") is None
    shown = opened.run("document.getElementById('judged').textContent")
    assert all(name in shown for name in HOSTILE)


INTRUDERS = {
    "a script": (
        "(() => { const s = document.createElement('script'); s.textContent = "
        "'window.hacked = 1'; document.body.append(s); })()"
    ),
    "a handler": (
        "(() => { const b = document.createElement('button'); "
        "b.setAttribute('onclick', 'window.hacked = 1'); document.body.append(b); "
        "b.click(); })()"
    ),
    "a link": (
        "(() => { const a = document.createElement('a'); a.href = "
        "'javascript:window.hacked = 1'; document.body.append(a); a.click(); })()"
    ),
    "a style": "document.body.setAttribute('style', 'outline: 7px solid red')",
    "a sheet": (
        "(() => { const s = document.createElement('style'); s.textContent = 'body { "
        "outline: 7px solid red }'; document.body.append(s); })()"
    ),
}


@pytest.mark.parametrize("kind", INTRUDERS)
def test_the_policy_stops_whatever_is_not_the_pages_own(opened, kind):
    opened.run(INTRUDERS[kind])
    opened.run(SETTLED)
    assert opened.run("window.hacked") is None
    assert opened.run("getComputedStyle(document.body).outlineWidth") != "7px"
    assert any("Content Security Policy" in message for message in opened.messages)
    opened.messages.clear()


def test_the_pages_own_styles_are_applied(opened):
    """Shares of helped, even and harmed inputs are widths, and keys have the colours of
    their lines.
    """
    widths = (
        "[...document.querySelectorAll('[data-tip^=\"helped\"]')].map((e) => "
        "getComputedStyle(e).flexGrow)"
    )
    tips = (
        "[...document.querySelectorAll('[data-tip^=\"helped\"]')].map((e) => "
        "e.dataset.tip.split(': ')[1])"
    )
    assert opened.run(widths) == opened.run(tips) != []
    assert (
        opened.run("document.querySelector('th[scope=col][style]').style.textAlign")
        == "center"
    )


def standing(name: str, difference: float | None, rank: int | None) -> dict:
    """A row of a leaderboard."""
    about = {
        "allocator": name,
        "kind": "selection",
        "alpha": 0.2,
        "convention": None,
        "accounting": None,
    }
    shares = {"gain_share": difference, "benefit_share": difference, "harm_share": 0.0}
    random = {
        "versus_random": difference,
        "versus_random_lo": difference,
        "versus_random_hi": difference,
    }
    about |= {
        "oracle": "oracle",
        "chance": "random",
        "reason": None,
        "verdict": rank and "better",
        "rank": rank,
    }
    return (
        about
        | shares
        | random
        | {"rank_hi": rank, "ndg": difference, "ndg_lo": None, "ndg_hi": None}
    )


def test_a_leaderboard_is_sorted_by_its_headings_and_fits_a_phone(opened, tmp_path):
    entered = [
        standing("lab/<b>", 0.2, 1),
        standing("lab/c", 0.1, 2),
        standing("lab/a", None, None),
    ]
    table = [*entered, standing("random", -0.05, None)]
    flagged = [standing("lab/leaked", 0.9, None)]
    track = {
        "title": "Roads",
        "cells": ["one"],
        "cells_of_track": 2,
        "headline_alpha": 0.2,
        "comparisons": 2,
    }
    track |= {"overall": table, "by_cell": {"one": table}, "incomplete": {}}
    track |= {"flagged": {"overall": flagged, "by_cell": {"one": flagged}}}
    entries = [
        {
            "allocator": row["allocator"],
            "flags": flags,
            "integrity": [],
            "remarks": [],
            "inputs": [],
            "costs": {},
        }
        | {
            "measured": {},
            "digest": "0" * 64,
            "notes": "<img src=x onerror='window.hacked = 1'>",
        }
        for row, flags in [*((row, []) for row in entered), (flagged[0], ["it leaks"])]
    ]
    board = {
        "draws": {"number": 1, "seed": 0},
        "deepval": "",
        "cells": {},
        "tracks": [track],
        "submissions": entries,
    }
    path = tmp_path / "leaderboard.html"
    path.write_text(
        leaderboard_pages.as_html({**board, "refused": []}), encoding="utf-8"
    )
    opened.requests.clear()
    opened.open(path)
    assert (
        opened.run("document.querySelector('h1').textContent")
        == "Roads: first rank and better than random: lab/<b>."
    )
    assert opened.run("window.hacked") is None
    assert column(opened, "#roads table", "allocator") == [
        "lab/<b>",
        "lab/c",
        "lab/a",
        "random",
    ]
    click = (
        "[...document.querySelectorAll('#roads thead button')].find((b) => "
        "b.textContent === '{}').click()"
    )
    opened.run(click.format("allocator"))
    assert column(opened, "#roads table", "allocator") == [
        "lab/<b>",
        "lab/a",
        "lab/c",
        "random",
    ]
    opened.run(click.format("vs random"))
    assert column(opened, "#roads table", "vs random") == [
        "20.00%",
        "10.00%",
        "-5.00%",
        "–",
    ]
    opened.run(click.format("vs random"))
    assert column(opened, "#roads table", "vs random") == [
        "-5.00%",
        "10.00%",
        "20.00%",
        "–",
    ]
    assert (
        opened.run("document.querySelector('#roads [aria-sort=ascending]').textContent")
        == "vs random"
    )
    heads = "document.querySelector('#roads table').tHead.rows[0].cells"
    for place in range(opened.run(f"{heads}.length")):
        orders = {}
        for _ in range(2):
            opened.run(f"{heads}[{place}].querySelector('button').click()")
            texts = (
                "[...document.querySelectorAll('#roads "
                f"table')[0].tBodies[0].rows].map((r) => r.cells[{place}])"
            )
            orders[opened.run(f"{heads}[{place}].ariaSort")] = opened.run(
                f"{texts}.map((cell) => cell.textContent)"
            )
        assert orders.keys() == {"ascending", "descending"}
        for way, column_texts in orders.items():
            filled = [text for text in column_texts if text not in ("", "–")]
            assert column_texts[: len(filled)] == filled
            numbers = [
                float(match[1])
                for text in filled
                if (match := re.match(r"\[?(-?[\d.]+)", text))
            ]
            assert numbers == sorted(numbers, reverse=way == "descending")
    opened.size(390, 844)
    opened.open(path)
    assert opened.run("document.documentElement.scrollWidth") <= 390
    assert opened.requests == [path.as_uri()] * 2
    assert opened.messages == []
    for script in INTRUDERS.values():
        opened.run(script)
    opened.run(SETTLED)
    assert opened.run("window.hacked") is None
    assert opened.run("getComputedStyle(document.body).outlineWidth") != "7px"
    assert sum(
        "Content Security Policy" in message for message in opened.messages
    ) >= len(INTRUDERS)
    opened.messages.clear()


def test_undefined_is_said(opened, tmp_path):
    path = tmp_path / "empty.html"
    path.write_text(html.render({"empty": nothing()}), encoding="utf-8")
    opened.open(path)
    words = opened.run("document.getElementById('page').textContent")
    for sentence in (
        "the oracle gains nothing",
        "undefined",
    ):
        assert sentence in words
    for wrong in ("NaN", "null", "[object", "Not measured", "vehicle", "frame"):
        assert wrong not in words


def test_streams_and_bands_are_drawn_where_there_are_some(opened, tmp_path):
    rng = np.random.default_rng(3)
    value = rng.normal(0.2, 1, 120)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{i}" for i in range(6)], 20),
        losses={"cheap": 3 + value, "full": np.full(120, 3.0)},
        order=np.tile(np.arange(20), 6),
    )
    scores = {f"s{i}": value + rng.normal(0, i + 0.5, 120) for i in range(6)}
    result = judge(
        table,
        scores,
        [deepval.Selection(0.2)],
        draws=40,
        calibration=["u0", "u1"],
        curve_points=5,
    )
    path = tmp_path / "streams.html"
    path.write_text(html.render({"only": result}), encoding="utf-8")
    opened.open(path)
    assert (
        len(
            opened.run(
                "[...document.querySelectorAll('#streams tbody tr')].map((r) => "
                "r.textContent)"
            )
        )
        == 6 * 4
    )
    bands = "document.querySelectorAll('#gain figure polygon').length"
    assert opened.run(bands) == 1
    choose = "(() => {{ const b = document.getElementById('band'); b.value = '{}';"
    choose += " b.dispatchEvent(new Event('change')); }})()"
    opened.run(choose.format("all"))
    assert opened.run(bands) == 6
    assert opened.run("document.activeElement.id") == "band"
    opened.run(choose.format(""))
    assert opened.run(bands) == 0


def test_a_frame_says_which_object_decided_and_why(opened, page, cells):
    content = json.loads((cells[0].parent / "frames.json").read_text(encoding="utf-8"))
    assert content["brakes_from_mps2"] == 1.0
    for frame in content["frames"][:3]:
        opened.open(page, f"#frame={cells[0].parent.name}/{frame['input']}")
        sources = [
            *(frame["modes"][mode] for mode in content["modes"]),
            frame["reference"],
        ]
        lines = opened.run(
            "[...document.querySelectorAll('.reasons li')].map((li) => li.textContent)"
        )
        sentence = opened.run("document.querySelector('.because').textContent")
        errs = sources[1 if frame["value"] < 0 else 0]
        if errs["does"] != sources[2]["does"]:
            assert sentence.endswith(
                f"chooses “{errs['does']}” instead of “{sources[2]['does']}”."
            )
        for line, source in zip(lines, sources, strict=True):
            assert line.endswith(source["does"]) or source["decisive"] is None
            if source["decisive"] is not None:
                needs = source["needs_mps2"][source["decisive"]]
                assert needs == max(source["needs_mps2"]) >= 1.0
                assert f"needs {needs:.1f} m/s²" in line
        table = "[aria-label^='Objects of'] table"
        reasons = column(opened, table, "why")
        assert len(reasons) == sum(len(source["classes"]) for source in sources)
        decided = sum(source["decisive"] is not None for source in sources)
        assert sum(text.startswith("decides") for text in reasons) == decided
        opened.run(
            f'[...document.querySelectorAll("{table} button")].find((b) => '
            "b.textContent[0] === 'r').click()"
        )
        ranges = [
            float(text.replace("\u2212", "-"))
            for text in column(opened, table, "range, m")
        ]
        assert ranges == sorted(ranges, reverse=True)
        labels = opened.run(
            "[...document.querySelectorAll('#frame-detail .label')].map((e) => "
            "e.textContent)"
        )
        assert any(" · needs " in text for text in labels) == bool(decided)
        for width in (1280, 1400):
            opened.size(width, 900)
            scroller = "document.querySelector(\"[aria-label^='Objects of']\")"
            assert opened.run(f"{scroller}.scrollWidth - {scroller}.clientWidth") == 0
        opened.size(1200, 900)


def test_inputs_without_pictures_are_a_table_to_sort(opened, tmp_path):
    rng = np.random.default_rng(4)
    cheap, value = rng.random(60) + 1, rng.normal(0, 1, 60).round(3)
    lines = [
        "input,unit,loss_small,loss_large,topic,tokens",
        *(
            (
                f"q{i},u{i // 10},{float(cheap[i])},{float(cheap[i] - value[i])},"
                f"<b>law {i},{i if i % 3 else ''}"
            )
            for i in range(60)
        ),
    ]
    (tmp_path / "values.csv").write_text("\n".join(lines) + "\n")
    score = rng.random(60).round(3)
    score[np.argmax(np.abs(value))] = -np.inf
    scores = [f"q{i},{float(number)}" for i, number in enumerate(score)]
    (tmp_path / "scores.csv").write_text("\n".join(["input,score", *scores]) + "\n")
    call(
        "evaluate",
        tmp_path / "values.csv",
        "-s",
        tmp_path / "scores.csv",
        "--draws",
        "50",
        "-o",
        tmp_path / "r.json",
    )
    call("report", tmp_path / "r.json", "--out", tmp_path / "r.html")
    opened.open(tmp_path / "r.html")
    table = "#frames table"
    largest = [f"q{i}" for i in np.argsort(-np.abs(value), kind="stable")[:20]]
    assert column(opened, table, "input") == largest
    assert column(opened, table, "topic") == [f"<b>law {name[1:]}" for name in largest]
    assert column(opened, table, "tokens") == [
        name[1:] if int(name[1:]) % 3 else "–" for name in largest
    ]
    texts = [f"{score[int(name[1:])]:g}" for name in largest[1:]]
    assert column(opened, table, "score, scores") == ["-inf", *texts]
    opened.run(
        "[...document.querySelectorAll('#frames thead button')].find((b) => "
        "b.textContent === 'value').click()"
    )
    shown = [
        float(text.replace("\u2212", "-")) for text in column(opened, table, "value")
    ]
    np.testing.assert_allclose(
        shown, np.sort(value[[int(name[1:]) for name in largest]])[::-1], atol=1e-3
    )
    # Values that were changed since are not what was judged, and are not shown.
    (tmp_path / "values.csv").write_text("\n".join(lines).replace("q3,", "q99,") + "\n")
    with pytest.warns(deepval.InputWarning, match="a saved result of another table"):
        call("report", tmp_path / "r.json", "--out", tmp_path / "r.html")
    opened.open(tmp_path / "r.html")
    assert opened.run(
        "document.getElementById('frames') === null || "
        "!document.querySelector('#frames tbody')"
    )


SAVED = """(async () => {{
  window.saved = null;
  [...document.querySelectorAll('{chart} .save button')].find((b) => b.textContent === '{form}').click();
  while (!window.saved) await new Promise((done) => setTimeout(done, 20));
  return {read};
}})()"""  # noqa: E501


def saved(browser: Browser, chart: str, form: str, read: str = "window.saved.text()"):
    """What a press in the menu of a chart saves."""
    return browser.run(
        SAVED.format(
            chart=f":is(.chart:has(#{chart}), [data-of={chart}])", form=form, read=read
        )
    )


def press_legend(browser: Browser, chart: str, series: str) -> None:
    browser.run(
        f"document.querySelector('.chart:has(#{chart}) "
        f'[data-series="{series}"]\').focus()'
    )
    browser.press(" ", 32)


def test_every_chart_is_saved_as_svg_png_and_vega_lite(opened, cells):
    result = deepval.Result.load(cells[0])
    opened.run(CAPTURE)
    charts = opened.run(
        "[...document.querySelectorAll('figure[id]')].map((figure) => figure.id)"
    )
    assert {
        "chart-picture",
        "chart-gain",
        "chart-benefit-and-harm",
        "chart-units",
    } <= set(charts)
    for chart in charts:
        root = ElementTree.fromstring(saved(opened, chart, "SVG"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        drawn = opened.run(f"document.querySelectorAll('#{chart} svg *').length")
        assert len(list(root.iter())) > drawn
        assert not any(
            "var(" in value for node in root.iter() for value in node.attrib.values()
        )
        first = saved(
            opened,
            chart,
            "PNG",
            "window.saved.slice(0, 8).arrayBuffer().then((b) => [...new "
            "Uint8Array(b)])",
        )
        assert bytes(first) == b"\x89PNG\r\n\x1a\n"
        spec = json.loads(saved(opened, chart, "Vega-Lite"))
        assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
        assert spec["data"]["values"]
        assert "mark" in spec or all(
            "mark" in layer and "encoding" in layer for layer in spec["layer"]
        )
    names = list(result.provenance["scores"])
    picture = json.loads(saved(opened, "chart-picture", "Vega-Lite"))
    lines = {item["series"] for item in picture["data"]["values"]}
    fixed = {f"always {mode}" for mode in result.setting.modes}
    assert lines == {*names, "best blind mixture", "perfect router", *fixed}
    curve = json.loads(saved(opened, "chart-gain", "Vega-Lite"))
    assert len(curve["data"]["values"]) == (len(names) + 2) * len(
        result.curves[0].alpha
    )
    assert curve["layer"][1]["mark"] == "line"
    heat = json.loads(saved(opened, "chart-units", "Vega-Lite"))
    assert heat["mark"] == "rect"
    assert len(heat["data"]["values"]) == len(result.units) * (len(names) + 2)


def test_a_series_is_hidden_by_its_legend_and_stays_so(opened, page, cells):
    name = next(iter(deepval.Result.load(cells[0]).provenance["scores"]))
    lines = "document.querySelectorAll('#chart-gain polyline').length"
    pressed = (
        "document.querySelector('.chart:has(#chart-gain) "
        f"[data-series=\"{name}\"]').getAttribute('aria-pressed')"
    )
    before = opened.run(lines)
    press_legend(opened, "chart-gain", name)
    assert opened.run(lines) == before - 1
    opened.run(CAPTURE)
    assert name not in {
        item["series"]
        for item in json.loads(saved(opened, "chart-gain", "Vega-Lite"))["data"][
            "values"
        ]
    }
    press_legend(opened, "chart-benefit-and-harm", "harm")
    address = opened.run("location.hash")
    opened.open(page, address)
    assert (opened.run(lines), opened.run(pressed)) == (before - 1, "false")
    assert (
        opened.run(
            "document.querySelectorAll('#chart-benefit-and-harm "
            'rect[fill="var(--harmed)"]\').length'
        )
        == 0
    )
    press_legend(opened, "chart-gain", name)
    assert (opened.run(lines), opened.run(pressed)) == (before, "true")
    opened.run(
        "(() => { const b = document.getElementById('band'); b.value = ''; "
        "b.dispatchEvent(new Event('change')); })()"
    )
    opened.open(page, opened.run("location.hash"))
    assert opened.run("document.getElementById('band').value") == ""


def test_no_two_series_look_the_same(browser, tmp_path):
    rng = np.random.default_rng(5)
    cheap = rng.exponential(size=40) + 0.1
    table = deepval.ValueTable.from_columns(
        unit=np.arange(40) // 8, losses={"cheap": cheap, "full": cheap * 0.5}
    )
    scores = {f"s{i:02}": rng.random(40) for i in range(33)}
    result = judge(table, scores, [deepval.Selection(0.2)], draws=10, curve_points=4)
    (tmp_path / "many.html").write_text(html.render({"many": result}), encoding="utf-8")
    browser.messages.clear()
    browser.open(tmp_path / "many.html")
    looks = browser.run("""[...document.querySelectorAll('.chart:has(#chart-gain) .legend svg')].map((svg) => {
      const [line, path] = [svg.querySelector('line'), svg.querySelector('path')];
      const dash = line.getAttribute('stroke-dasharray');
      return [getComputedStyle(line).stroke, dash, path && path.getAttribute('d')].join();
    })""")  # noqa: E501
    assert len(looks) == len(set(looks)) == 35
    # and the grey of references
    assert len({look.partition(")")[0] for look in looks if "rgb" in look}) == 14 + 1
    assert browser.messages == []


def test_a_hover_box_does_not_cover_what_it_explains(opened):
    covered = """(() => {
      const tip = document.getElementById('tip');
      return [...document.querySelectorAll('#chart-units rect, .term, #chart-gain circle')].filter((node) => {
        node.scrollIntoView({ block: 'center' });
        const box = node.getBoundingClientRect();
        node.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.x + 1, clientY: box.y + 1 }));
        const over = tip.getBoundingClientRect();
        return !tip.classList.contains('on') || (over.top < box.bottom && over.bottom > box.top);
      }).length;
    })()"""  # noqa: E501
    assert opened.run("document.querySelectorAll('#chart-units rect').length") > 3
    assert opened.run(covered) == 0


def test_intervals_that_a_slider_made_stale_are_grey_and_say_so(opened):
    note = "document.querySelectorAll('.stale-note').length"
    assert opened.run(note) == 0
    opened.run("document.getElementById('weight-excess').focus()")
    opened.press("ArrowRight", 39)
    opened.run(SETTLED)
    assert opened.run(note) == 1
    assert opened.run("document.querySelectorAll('#judged td.stale').length") > 0
    assert opened.run("document.querySelectorAll('.stale-band').length") > 0
    opened.run("document.getElementById('reset-weights').click()")


def test_print_keeps_every_column(opened, page, tmp_path):
    wide = tmp_path / "wide.html"
    result = judged(tuple(f"router-kind-{i:02}" for i in range(14)))
    wide.write_text(html.render({"one": result, "two": result}), encoding="utf-8")
    for path in (page, wide):
        opened.size(718, 1000, scheme="dark")
        opened.open(path)
        opened.call("Emulation.setEmulatedMedia", media="print")
        opened.run("window.dispatchEvent(new Event('beforeprint'))")
        opened.run(SETTLED)
        cut = """[...document.querySelectorAll('#tables table, #overview table, #frames table')].filter((table) =>
          [...table.querySelectorAll('th, td')].some((cell) => cell.getBoundingClientRect().right > 719)).length"""  # noqa: E501
        assert opened.run("document.querySelectorAll('#tables table').length") > 0
        assert opened.run(cut) == 0
        assert (
            opened.run("getComputedStyle(document.querySelector('.save')).display")
            == "none"
        )
        assert (
            opened.run("getComputedStyle(document.body).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        assert opened.run("document.documentElement.dataset.theme") == "light"
        opened.call("Emulation.setEmulatedMedia", media="")


def test_the_next_command_charges_as_the_result_did(browser, tmp_path):
    rng = np.random.default_rng(2)
    value = rng.gamma(0.3, 1, 600)
    losses = {"cheap": value + 0.1, "full": value * 0}
    prices = {
        "modes": {"cheap": {"usd": 0.1}, "full": {"usd": 1.0}},
        "allocators": {"mine": {"usd": 0.0}},
    }
    table = deepval.ValueTable.from_columns(unit=np.arange(600) // 20, losses=losses)
    result = judge(
        table,
        {"mine": value},
        [deepval.Money(0.3, prices, accounting="skipping")],
        draws=50,
    )
    (tmp_path / "money.html").write_text(
        html.render({"money": result}), encoding="utf-8"
    )
    browser.messages.clear()
    browser.open(tmp_path / "money.html")
    heading = browser.run("document.querySelector('h1').textContent").replace(
        "\u2009", " "
    )
    assert heading == "Run mine"
    words = shlex.split(
        browser.run("document.getElementById('next').textContent").replace("\\\n", "")
    )
    assert words[1:] == [
        *("threshold", "VALUES", "--costs=COSTS", "-s", "SCORES", "--alpha", "0.3"),
        *("--budget", "money", "--skipping"),
    ]
    assert browser.messages == []


def test_the_next_command_of_the_page_is_that_of_the_console(browser, tmp_path):
    rng = np.random.default_rng(2)
    right = (rng.random((1500, 3)) < [0.5, 0.75, 0.8]).astype(float)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat(np.arange(50), 30),
        rewards=dict(zip("abc", right.T, strict=True)),
        input_costs={
            name: np.full(1500, price)
            for name, price in (("a", 1e-3), ("b", 2e-3), ("c", 3e-2))
        },
    )
    value = right[:, 2] - right[:, 1] + rng.normal(0, 0.6, 1500)
    quiet = judge(table, {"mine": value}, None, draws=200)
    files = {"values": "my values.csv", "mine": "mine.csv", "options": ""}
    result = replace(quiet, provenance=replace(quiet.provenance, files=files))
    assert any(answer.on_top for answer in result.answers)
    path = tmp_path / "base.html"
    path.write_text(html.render({"base": result}), encoding="utf-8")
    browser.messages.clear()
    browser.open(path)
    typed = Typed.of(result)
    select = "document.getElementById('budget')"
    for place, answer in enumerate(result.answers):
        browser.run(
            f"(() => {{ const b = {select}; b.selectedIndex = {place}; "
            "b.dispatchEvent(new Event('change')); })()"
        )
        shown = browser.run("document.getElementById('next').textContent")
        words = shlex.split(shown.replace("\\\n", ""))
        assert words == shlex.split(next_command(result, typed, answer=answer))
        assert words[0] == "deepval"
        assert words[2] == "my values.csv"
        if answer.on_top is not None:
            assert words[1] == "threshold"
            assert words[-2:] == ["--base", answer.on_top]
    assert browser.messages == []


FOLD = """(() => {
  const seen = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (node.parentElement.closest('script, style, noscript, option, title')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width && box.top < innerHeight && box.bottom > 0 && box.right > 0)
      seen.push(node.textContent);
  }
  for (const select of document.querySelectorAll('select')) {
    const box = select.getBoundingClientRect();
    const [chosen] = select.selectedOptions;
    if (box.width && box.top < innerHeight) seen.push(chosen.textContent);
  }
  return seen.join(' ').split(/\\s+/);
})()"""
"""The words that are seen before anything is scrolled."""
NUMBER = re.compile(r"[+\u2212\-\[(]*\d")


def above_the_fold(browser: Browser) -> tuple[int, int]:
    """How many words and numbers are seen on a screen of 1280 x 800."""
    found = browser.run(FOLD)
    numbers = [word for word in found if NUMBER.match(word)]
    words = [word for word in found if not NUMBER.match(word)]
    return sum(any(map(str.isalpha, word)) for word in words), len(numbers)


def skilled(skill: float, **options):
    """A result on 30 units of 20 inputs, with a score of some skill."""
    rng = np.random.default_rng(2)
    value = rng.gamma(0.3, 1, 600)
    table = deepval.ValueTable.from_columns(
        unit=np.arange(600) // 20, losses={"cheap": value + 0.1, "full": value * 0}
    )
    score = skill * value + rng.normal(0, 0.1, 600)
    scores = {"mine": score, **options.pop("scores", {})}
    return judge(table, scores, [0.1, 0.2, 0.5], draws=200, **options)


@pytest.mark.parametrize(
    ("skill", "heading", "command"),
    [
        (1.0, "Run mine", "threshold"),
        (0.0, "Not settled: mine", "evaluate"),
        (-1.0, "Do not run mine", "evaluate"),
    ],
)
def test_the_first_screen_is_the_answer(browser, tmp_path, skill, heading, command):
    result = skilled(skill)
    answer = result.answer()
    path = tmp_path / "first.html"
    path.write_text(html.render({"first": result}), encoding="utf-8")
    browser.messages.clear()
    browser.size(1280, 800)
    browser.open(path)
    text = "document.querySelector('{}').textContent"
    assert browser.run(text.format("h1")) == heading
    number = browser.run(text.format(".answer .number"))
    assert answer.lead_words.partition(" ")[0] in number
    assert answer.lead_words[answer.lead_words.index("[") :].strip() in number
    assert answer.doubt[1:] in browser.run(text.format(".doubt"))
    words = shlex.split(browser.run(text.format("#next")).replace("\\\n", ""))
    assert words[:3] == ["deepval", command, "VALUES"]
    words_seen, numbers_seen = above_the_fold(browser)
    assert words_seen <= 60
    assert numbers_seen <= 15
    for part in ("h1", "#chart-picture svg", "#next"):
        box = f"document.querySelector('{part}').getBoundingClientRect().bottom"
        assert browser.run(box) < 800
    # Nothing but the three words is a verdict.
    chips = "[...document.querySelectorAll('.chip')].map((chip) => chip.textContent)"
    assert set(browser.run(chips)) <= {"run", "do not run", "not settled"}
    assert "would cancel" not in browser.run("document.body.innerText")
    browser.size(390, 844)
    browser.open(path)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.messages == []


def test_without_a_score_the_first_screen_is_the_effect(browser, tmp_path):
    rng = np.random.default_rng(2)
    value = rng.gamma(0.3, 1, 600) - 0.2
    table = deepval.ValueTable.from_columns(
        unit=np.arange(600) // 20, losses={"small": value + 1, "big": value * 0 + 1}
    )
    result = judge(table, {}, [0.2, 0.5], draws=200)
    path = tmp_path / "effect.html"
    path.write_text(html.render({"effect": result}), encoding="utf-8")
    browser.messages.clear()
    browser.size(1280, 800)
    browser.open(path)
    assert browser.run("document.querySelector('h1').textContent") == "big helps"
    command = browser.run("document.getElementById('next').textContent")
    assert command.split() == ["deepval", "evaluate", "VALUES", "-s", "SCORES.csv"]
    shown = browser.run("document.querySelector('#verdict').innerText")
    assert result.effect.sentences[1] in shown.replace("\xa0", " ")
    bars = "document.querySelectorAll('#chart-strip rect').length"
    assert browser.run(bars) == len(result.units)
    assert browser.run("document.querySelectorAll('#chart-picture .whisker').length")
    words_seen, numbers_seen = above_the_fold(browser)
    assert words_seen <= 60
    assert numbers_seen <= 15
    assert browser.messages == []


def test_the_table_of_the_budget_is_open_and_can_be_filtered(browser, tmp_path):
    rng = np.random.default_rng(5)
    noise = {f"noise-{i}": rng.random(600) for i in range(7)}
    result = skilled(1.0, scores=noise)
    path = tmp_path / "table.html"
    path.write_text(html.render({"table": result}), encoding="utf-8")
    browser.messages.clear()
    browser.size(1280, 800)
    browser.open(path)
    heads = column(browser, "#judged", "allocator")
    assert heads[0] == result.answer().candidate == "mine"
    # A fixed mode is a reference: it has no verdict of its own.
    answers = dict(zip(heads, column(browser, "#judged", "answer"), strict=True))
    assert answers["mine"] == "run"
    assert answers["always cheap"] == ""
    sections = "[...document.querySelectorAll('#harm figure g title')]"
    names = browser.run(f"{sections}.map((title) => title.textContent)")
    assert "always cheap" in names
    assert browser.run("document.querySelectorAll('#judged .lead-bar').length") == 8
    browser.run(
        "(() => { const f = document.getElementById('filter'); f.value = 'noise-3'; "
        "f.dispatchEvent(new Event('input')); })()"
    )
    left = "[...document.querySelectorAll('#judged tbody tr')].filter((r) => !r.hidden)"
    assert browser.run(f"{left}.map((r) => r.dataset.name)") == ["noise-3"]
    assert browser.messages == []


def test_the_next_command_runs_where_evaluate_ran(browser, cells, tmp_path):
    rng = np.random.default_rng(4)
    lines = [f"q{i},d{i // 10},{rng.random() + 1},{rng.random()}" for i in range(80)]
    (tmp_path / "my files").mkdir()
    (tmp_path / "my files/pair.csv").write_text(
        "\n".join(["input,unit,loss_small,loss_large", *lines]) + "\n"
    )
    scores = [f"q{i},{rng.random()}" for i in range(80)]
    (tmp_path / "my files/length.csv").write_text(
        "\n".join(["input,score", *scores]) + "\n"
    )
    shutil.copytree(
        cells[0].parent,
        tmp_path / "roads/one",
        ignore=shutil.ignore_patterns("result*.json"),
    )
    browser.messages.clear()
    for words, values in (
        (
            (
                "my files/pair.csv",
                "-s",
                "my files/length.csv",
            ),
            "my files/pair.csv",
        ),
        (
            (
                "my files/pair.csv",
                "-s",
                "mine=my files/length.csv",
            ),
            "my files/pair.csv",
        ),
        (("roads/one",), "roads/one"),
    ):
        assert (
            run(
                "evaluate",
                *words,
                "--draws",
                "50",
                "-o",
                "r.json",
                cwd=tmp_path,
                notes=True,
            ).code
            == 0
        )
        os.utime(tmp_path / "r.json", (0, 86400 * 400.5))
        assert run("report", "r.json", "--out", "r.html", cwd=tmp_path).code == 0
        browser.open(tmp_path / "r.html")
        assert "judged 1971-02-05" in browser.run(
            "document.querySelector('.kicker').textContent"
        )
        commands = browser.run(
            "[...document.querySelectorAll('.answer .command')].map((pre) => "
            "pre.textContent)"
        )
        assert commands
        for text in commands:
            command = shlex.split(text.replace("\\\n", ""))
            assert (command[0], command[2]) == ("deepval", values)
            draws = () if command[1] == "report" else ("--draws", "50")
            done = run(*command[1:], *draws, cwd=tmp_path, notes=True)
            assert done.code == 0, done.err
    assert (
        run("report", "roads/one", "--out", "r.html", cwd=tmp_path, notes=True).code
        == 0
    )
    browser.open(tmp_path / "r.html")
    following = browser.run("document.getElementById('next').textContent")
    assert "roads/one" in following.split()
    assert "judged" not in browser.run("document.querySelector('.kicker').textContent")
    assert "Simulated data" in browser.run(
        "document.querySelector('.kicker').textContent"
    )
    assert browser.messages == []


def test_results_of_one_cell_are_one_entry_with_a_switch_and_an_address(
    browser, tmp_path
):
    path = tmp_path / "switch.html"
    one, other = judged(), judged(("good", "third"))
    path.write_text(
        html.render({"a": one, "a, charged": other, "b": one}), encoding="utf-8"
    )
    browser.messages.clear()
    browser.open(path)
    options = "[...document.getElementById('{}').options].map((o) => o.textContent)"
    assert browser.run(options.format("cell")) == ["a", "b"]
    assert browser.run(options.format("kind")) == ["not charged", "charged"]
    assert browser.run("document.querySelectorAll('#overview tbody tr').length") == 2
    browser.run(
        "(() => { const k = document.getElementById('kind'); k.value = 1; "
        "k.dispatchEvent(new Event('change')); })()"
    )
    assert "third" in column(browser, "#judged", "allocator")
    address = browser.run("location.hash")
    browser.open(path, address)
    assert (
        browser.run("document.getElementById('kind').selectedOptions[0].textContent")
        == "charged"
    )
    assert "third" in column(browser, "#judged", "allocator")
    assert browser.messages == []
