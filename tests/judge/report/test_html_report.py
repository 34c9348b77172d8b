"""The page as a file: whole, escaped, the same bytes every time, and silent about what
was not measured.
"""

import base64
import hashlib
import json
import re
import warnings

import numpy as np
import pytest

import deepval
from commands import call, run, run_process
from deepval.judge.report import html
from deepval.judge.report.forms import FORMS
from pages import data_of, write_cells

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "{{data}}{{script}}",
)


def judged(names=("good", "bad"), **options) -> deepval.Result:
    rng = np.random.default_rng(5)
    value = np.where(rng.random(120) < 0.4, rng.normal(0.4, 1, 120), 0.0)
    cheap = 2 + rng.random(120)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{i}" for i in range(6)], 20),
        losses={"cheap": cheap, "full": cheap - value},
    )
    scores = {
        name: value + (i + 1) * rng.normal(0, 0.3, 120) for i, name in enumerate(names)
    }
    return deepval.evaluate(
        table, scores, [deepval.Selection(0.2)], draws=50, **options
    )


def nothing() -> deepval.Result:
    table = deepval.ValueTable.from_columns(
        unit=["u", "u"], losses={"cheap": [0.0, 0.0], "full": [0.0, 0.0]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.evaluate(table, {"mine": [1.0, 2.0]})


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return write_cells(tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def page(cells):
    out = cells[0].parent.parent / "report.html"
    call("report", *cells, "--out", out)
    return out.read_text(encoding="utf-8")


def test_the_same_results_give_the_same_bytes_in_any_order(cells, page, tmp_path):
    done = run_process("report", *cells[::-1], "--out", tmp_path / "other.html")
    assert done.code == 0, done.err
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == page
    one, two = judged(), nothing()
    assert html.render({"a": one, "b": two}) == html.render({"b": two, "a": one})


def test_a_page_is_small_and_loads_nothing(page):
    assert len(page.encode()) < 3e6
    # names, not addresses
    names = {
        "http://www.w3.org/2000/svg",
        "https://vega.github.io/schema/vega-lite/v5.json",
    }
    assert set(re.findall(r"https?://[^\s\"']*", page)) == names
    assert not re.search(r"\b(src|href)=\"(?!#|data:,)", page)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_the_policy_names_every_script_and_style_by_its_hash(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy
    sources = dict(directive.split(" ", 1) for directive in policy.split("; "))
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert sources == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "style-src": hashed(style),
        "script-src": " ".join(map(hashed, scripts)),
        "img-src": "data:",
    }
    assert len(scripts) == 2
    assert page.count("<script") == 1 + len(scripts)  # and the data, which nobody runs


def hashed(text: str) -> str:
    return (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    )


def test_no_element_carries_a_style_or_a_handler(page):
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"<[^>]*\s(style|on\w+)\s*=", markup)
    assert "javascript:" not in page


def test_hostile_names_stay_text():
    page = html.render({HOSTILE[1]: judged(HOSTILE)})
    assert page.count("<script") == 3
    assert page.count("</script>") == 3
    assert "<img" not in page
    data = data_of(page)
    assert list(data["cells"][0]["result"]["provenance"]["scores"]) == list(HOSTILE)
    assert data["cells"][0]["name"] == HOSTILE[1]


def test_no_script_writes_markup():
    page = html.render({"a": judged()})
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert word not in page


def test_undefined_is_said_and_never_zero():
    data = data_of(html.render({"empty": nothing()}))
    stored = data["cells"][0]["result"]["rows"]
    rows = [dict(zip(stored["names"], row, strict=True)) for row in stored["rows"]]
    row = next(row for row in rows if row["allocator"] == "mine")
    assert row["ndg"] is row["gain_share"] is row["versus_random"] is None
    assert "the oracle gains nothing" in row["reason"]
    verdicts = data["cells"][0]["tables"][0]
    assert all(
        cells[verdicts["header"].index("nDG")][0] == "–" for cells in verdicts["rows"]
    )


def test_what_results_of_a_cell_share_is_in_the_page_once():
    frames = {"frames": [], "cell": "c"}
    data = data_of(
        html.render(
            {"a": judged(), "a, charged": judged()},
            {"a": frames, "a, charged": dict(frames)},
        )
    )
    assert [cell["frames"] for cell in data["cells"]] == [frames, "a"]
    assert [cell["inputs"] for cell in data["cells"]] == [None, None]


def test_without_scripts_the_numbers_are_there():
    page = html.render({"a<b": judged()})
    plain = page.partition("<noscript>")[2].partition("</noscript>")[0]
    assert "a&lt;b" in plain
    assert "| **good** |" in plain


def test_every_table_can_be_saved():
    result = judged()
    cell = data_of(html.render({"a": result}))["cells"][0]
    assert cell["csv"] == FORMS["csv"](result)
    latex = cell["latex"] + "\n".join(table["latex"] for table in cell["tables"]) + "\n"
    assert latex == FORMS["latex"](result)
    assert all(table["latex"].startswith("\\begin{table}") for table in cell["tables"])


def test_frames_beside_a_result_are_taken_and_pictures_only_on_wish(
    cells, page, tmp_path
):
    data = data_of(page)
    assert data["images"] == {}
    frames = data["cells"][0]["frames"]
    assert frames == json.loads(
        (cells[0].parent / "frames.json").read_text(encoding="utf-8")
    )
    assert "1 cell, " in call(
        "report", cells[0], "--out", tmp_path / "b.html", "--images"
    )
    data = data_of((tmp_path / "b.html").read_text(encoding="utf-8"))
    assert set(data["images"]) == {
        f"synthetic/{frame['input']}" for frame in frames["frames"]
    }
    assert all(
        text.startswith("data:image/jpeg;base64,") for text in data["images"].values()
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("absent.json",), "absent.json"),
        (("{0}", "braking={0}"), "'braking'"),
        (("{0}", "{1}", "--frames", "x={0}"), "--frames"),
        (("{0}", "--frames", "{0}"), "'deepval/frames/1'"),
        (("{0}", "--out", "/nowhere/at/all.html"), "must be a"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, cells, tmp_path):
    filled = [word.format(*cells) for word in words]
    done = run(
        "report",
        *filled,
        *(() if "--out" in words else ("--out", tmp_path / "page.html")),
    )
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_frames_that_are_not_whole_are_refused(cells, tmp_path):
    content = json.loads((cells[0].parent / "frames.json").read_text(encoding="utf-8"))
    del content["frames"][0]["camera"]
    (tmp_path / "frames.json").write_text(json.dumps(content), encoding="utf-8")
    done = run(
        "report",
        cells[0],
        "--frames",
        tmp_path / "frames.json",
        "--out",
        tmp_path / "page.html",
    )
    assert done.code == 2
    assert "'camera'" in done.err


def test_a_report_needs_a_result_and_frames_need_theirs():
    with pytest.raises(deepval.InputError, match="needs one result or more"):
        html.render({})
    with pytest.raises(deepval.InputError, match="'b'"):
        html.render({"a": judged()}, {"b": {}})
