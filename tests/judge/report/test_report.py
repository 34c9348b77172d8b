"""Every form of a report, on one result that has everything and on one that has almost
nothing.
"""

import csv
import io
import re
import warnings

import numpy as np
import pytest

import deepval
from deepval.judge.report import console
from deepval.judge.report.console import closing_sentences
from deepval.judge.report.forms import FORMS
from deepval.judge.report.tables import result_tables
from deepval.judge.report.text_tables import interval, number, percent
from worlds import judge, quietly


def _result(names=("good", "bad_one"), **options):
    rng = np.random.default_rng(5)
    value = np.where(rng.random(240) < 0.4, rng.normal(0.4, 1, 240), 0.0)
    cheap = 2 + rng.random(240)
    table = deepval.ValueTable.from_columns(
        unit=np.repeat([f"u{i}" for i in range(12)], 20),
        losses={"cheap": cheap, "middle": cheap - 0.6 * value, "full": cheap - value},
        order=np.tile(np.arange(20), 12),
        attributes={"weather": np.where(np.arange(240) % 2, "sun", "rain")},
        costs={
            "modes": {
                "cheap": {"ms": 10, "mj": 10},
                "middle": {"ms": 14, "mj": 12},
                "full": {"ms": 20, "mj": 40},
            },
            "allocators": {
                names[0]: {"ms": 0.5, "mj": 1},
                names[1]: {"ms": 9, "mj": 1},
            },
        },
    )
    scores = {names[0]: value + rng.normal(0, 0.3, 240), names[1]: -value}
    budgets = [deepval.Selection(0.2), deepval.Latency(0.2), deepval.Energy(0.2)]
    return judge(
        table,
        scores,
        budgets,
        draws=100,
        by="weather",
        calibration=["u0", "u1", "u2"],
        **options,
    )


def _empty_result():
    table = deepval.ValueTable.from_columns(
        unit=["u", "u"], losses={"cheap": [0.0, 0.0], "full": [0.0, 0.0]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deepval.InputWarning)
        return deepval.evaluate(table, {"mine": [1.0, 2.0]})


@pytest.fixture(scope="module")
def whole():
    return _result(thresholds=True)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_every_allocator_and_reference(form, whole):
    text = FORMS[form](whole)
    for name in ("random", "never", "always", "oracle", "good"):
        assert name in text
    assert text.endswith("\n")
    assert FORMS[form](whole) == text


@pytest.mark.parametrize("form", FORMS)
def test_every_form_bears_a_result_without_anything_to_gain(form):
    text = FORMS[form](_empty_result())
    assert "mine" in text
    assert not re.search(r"\bnan\b", text, flags=re.IGNORECASE)


def test_marks_follow_the_verdict(whole):
    assert whole.row("good").verdict == "better"
    assert whole.row("bad_one").verdict == "worse"
    ndg = f"{whole.row('good').ndg:.3f}"
    worst = f"{whole.row('bad_one').ndg:.3f}"
    assert f"**{ndg}**" in FORMS["markdown"](whole)
    assert f"{worst}\\*" in FORMS["markdown"](whole)
    assert f"\\textbf{{{ndg}}}" in FORMS["latex"](whole)
    assert f"{worst}$^{{*}}$" in FORMS["latex"](whole)
    assert f"{worst}*" in FORMS["text"](whole)


def test_csv_is_unrounded_and_complete(whole):
    rows = list(csv.DictReader(io.StringIO(FORMS["csv"](whole))))
    assert len(rows) == len(whole.rows) + len(whole.slices)
    for text, row in zip(rows, (*whole.rows, *whole.slices), strict=True):
        assert set(text) == set(row)
        for name, value in row.items():
            shown = row.name if name == "allocator" else value
            assert text[name] == ("" if shown is None else str(shown))


def test_infeasible_is_said_with_its_reason(whole):
    row = whole.row("bad_one", kind="latency")
    assert (row.verdict, row.gain, row.ndg) == ("infeasible", None, None)
    assert row.reason == "infeasible: costs 9 ms per input, the budget leaves 4"
    assert "inf." in FORMS["text"](whole)


def test_names_are_escaped():
    hostile = ("=cmd|'/c calc'!A1", "<script>|*_\\{}$%")
    result = _result(hostile)
    assert "'=cmd" in FORMS["csv"](result)
    assert "<script>" not in FORMS["markdown"](result)
    assert "|*_" not in FORMS["markdown"](result)
    assert (
        "\\textless{}script\\textgreater{}|*\\_\\textbackslash{}\\{\\}\\$\\%"
        in FORMS["latex"](result)
    )


def test_numbers_round_once_and_never_show_minus_zero():
    assert [
        number(-0.0001),
        number(0.0005, 3),
        number(None),
        percent(0.12345),
        percent(-0.00001),
    ] == [
        "0.000",
        "0.001",
        "–",
        "12.35%",
        "0.00%",
    ]
    assert interval(None, 1.0) == ""
    assert interval(-0.5, 0.25) == "[-0.500, 0.250]"


def test_tables_of_everything(whole):
    assert all(
        table.title.endswith(", over 9 chosen units") for table in result_tables(whole)
    )
    titles = [
        table.title.split(" (")[0].partition(",")[0] for table in result_tables(whole)
    ]
    assert titles == [
        "Verdicts",
        "Within groups of inputs",
        "Streaming",
        "Thresholds",
        "Where the gap to the oracle goes",
        "Multi-fidelity optimum",
    ]
    for table in result_tables(whole):
        assert all(
            len(row) == len(table.header)
            for section in table.sections
            for row in section
        )


def test_differences_are_shown_in_units_of_the_loss_where_shares_are_no_measure():
    value, unit = np.tile([1.0, 0.0, 0.0, -0.5], 6), np.repeat(list("abcdef"), 4)
    for cheap in (-5.0, 1e-6):
        losses = {"cheap": np.full(24, cheap), "full": cheap - value}
        table = deepval.ValueTable.from_columns(
            unit=unit, losses=losses, order=np.tile(np.arange(4), 6)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", deepval.InputWarning)
            result = deepval.evaluate(
                table,
                {"mine": value},
                [deepval.Selection(0.25)],
                draws=20,
                calibration=["f"],
                simultaneous_intervals=True,
            )
        text = console.render(result, width=180)
        verdicts = text[text.index("Verdicts (") :]
        line = next(
            line
            for line in verdicts.splitlines()
            if line.startswith("mine ") and "better" in line
        )
        # 5 units: gain 5, random a quarter of 5 * (1 - 0.5).
        assert line.split()[1:6] == ["5.0", "5.000", "[5.000,", "5.000]", "5.000"]
        # difference, interval, second opinion, all rows
        assert line.count("4.375") == 1 + 2 + 2 + 2
        assert "%" not in line
        assert "Without %: in units of the loss" in text


def test_rows_of_two_oracles_stand_on_one_scale_and_are_compared_with_their_own_chance():  # noqa: E501
    costs = {
        "modes": {"s": {"ms": 2}, "m": {"ms": 3}, "l": {"ms": 6}},
        "allocators": {"each": {"ms": 0}, "one": {"ms": 0}},
    }
    table = deepval.ValueTable.from_columns(
        unit=["a", "a", "b", "b"],
        costs=costs,
        losses={"s": [5.0] * 4, "m": [1, 1, 5, 5], "l": [-1, -1, 5, 5]},
    )
    scores = {"one": [1.0, 0.0, 0.0, 0.0], "each": [[4, 6], [4, 6], [0, 0], [0, 0]]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = deepval.evaluate(table, scores, [deepval.Latency(0.25)], draws="exact")
    # 0.25 * 4 * 6 = 6 ms: one input to l gains 6, two to m gain 8, the best there is.
    (found,) = [t for t in result_tables(result) if t.title.startswith("Verdicts")]
    place, oracle = found.header.index("nDG of ladder"), found.header.index("oracle")
    shown = {
        row[1].text: (row[oracle].text, row[place].text)
        for section in found.sections
        for row in section
    }
    assert shown["one"] == ("full", "0.750")
    assert shown["each"] == ("ladder", "1.000")
    assert shown["oracle"] == ("full", "0.750")
    assert shown["oracle-ladder"] == ("ladder", "1.000")
    # The best blind choice at 6 ms: m, and l for half an input, gains 8 2/3 of 20.
    leads = [result.row(name).lead for name in ("each", "one")]
    assert leads == pytest.approx([(8 - 26 / 3) / 20, (6 - 26 / 3) / 20])
    assert closing_sentences(result) == [result.answer().sentence]
    assert result.answer().verdict == "not settled"
    assert result.answer().candidate == "each"


def test_shares_of_an_almost_zero_loss_are_not_printed():
    loss = {"cheap": [1e-9, 0, 0, 0, 1e-10, 0], "full": [0.1, 0, 0.002, 0, 0, 0.01]}
    table = quietly(deepval.ValueTable.from_columns, unit=list("aabbcc"), losses=loss)
    result = quietly(deepval.evaluate, table, {"mine": np.arange(6.0)}, [0.2], draws=50)
    # JSON keeps the definition
    assert result.setting.all_full_share == pytest.approx(-0.112 / 1.1e-9)
    for form in ("text", "markdown"):
        text = FORMS[form](result)
        assert "-0.112" in text
        assert not re.search(r"\d{5,}(\.\d+)?%", text)


def test_percentages_beyond_a_thousand_say_only_on_which_side():
    assert [percent(share) for share in (10.0, -10.0, 10.1, -9.9e6)] == [
        "1000.00%",
        "-1000.00%",
        "> 1000%",
        "< -1000%",
    ]
