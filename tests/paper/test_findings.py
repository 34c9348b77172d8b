"""Findings of the paper: every rule says what it must on rows made up for it, and each
finding has all its parts.
"""

import runpy

import pytest

from deepval.paper.analysis import GROUPS
from deepval.paper.findings import RunRows, findings
from deepval.paper.findings.rules import (
    FAILS,
    HOLDS,
    OPEN,
    above,
    apart,
    at_most,
    of_every,
    of_mean,
    of_most,
    within,
)
from project import ROOT


def row(
    value: float, lo: float | None, hi: float | None, **more: object
) -> dict[str, object]:
    return {"x": value, "x_lo": lo, "x_hi": hi, **more}


@pytest.mark.parametrize(
    ("marks", "every", "most"),
    [
        ([True] * 20, HOLDS, HOLDS),
        ([True] * 19 + [False], HOLDS, HOLDS),  # one of twenty is what chance explains
        ([True] * 18 + [False] * 2, FAILS, HOLDS),
        ([True] * 9 + [None] * 11, OPEN, OPEN),
        ([True] * 10 + [None] * 10, HOLDS, OPEN),
        ([False] * 11 + [None] * 9, FAILS, FAILS),
        ([], OPEN, OPEN),
    ],
)
def test_verdicts_over_cells(marks, every, most):
    assert of_every(marks, "").verdict == every
    assert of_most(marks, "").verdict == most


def test_marks_of_single_rows():
    assert [
        above(row(0.3, lo, hi), "x", 0.1)
        for lo, hi in ((0.2, 0.4), (0.0, 0.4), (0.0, 0.05), (None, None))
    ] == [
        *(True, None, False, None),
    ]
    assert [
        within(row(v, lo, hi), "x", 0.34, 0.54)
        for v, lo, hi in ((0.4, 0.1, 0.9), (0.6, 0.5, 0.7), (0.6, 0.55, 0.7))
    ] == [
        *(True, None, False),
    ]
    assert apart(row(0.5, 0.4, 0.6), row(0.2, 0.1, 0.3), "x") is True
    assert apart(row(0.2, 0.1, 0.3), row(0.5, 0.4, 0.6), "x") is False
    assert apart(row(0.2, 0.1, 0.45), row(0.5, 0.4, 0.6), "x") is None
    assert [at_most(v, 0.1, 0.3) for v in (0.1, 0.2, 0.31, None)] == [
        True,
        None,
        False,
        None,
    ]
    assert of_mean(None, "").verdict == OPEN


def signs(*shares: tuple[float, float, float], affected: int = 100) -> RunRows:
    rows = [
        {
            "cell": f"c{i}",
            "geometry": "monocular",
            "system": "braking",
            "affected": affected,
        }
        | {"harm_rate": v, "harm_rate_lo": lo, "harm_rate_hi": hi}
        for i, (v, lo, hi) in enumerate(shares)
    ]
    return RunRows({"signs": rows}, {})


def named(name: str):
    return next(each.judge for each in findings() if each.name == name)


def test_the_first_finding_by_its_rule():
    vary, inside = named("signs vary"), named("34 to 54 % harmed")
    assert vary(signs((0.4, 0.3, 0.5), (0.6, 0.56, 0.7))).verdict == HOLDS
    assert inside(signs((0.4, 0.3, 0.5), (0.6, 0.56, 0.7))).verdict == FAILS
    assert vary(signs((0.04, 0.01, 0.08))).verdict == FAILS
    assert vary(signs((0.2, 0.05, 0.3))).verdict == OPEN
    assert vary(signs((0.4, 0.3, 0.5), affected=29)) is None


def test_every_finding_is_whole_and_silent_without_rows():
    found = findings()
    assert len(found) == 62
    assert len({each.name for each in found}) == len(found)
    assert {each.theme for each in found} <= set(GROUPS)
    assert all(
        each.says.endswith(".") and each.where and each.rule.endswith(".")
        for each in found
    )
    assert all(each.judge(RunRows({}, {})) is None for each in found)


def contrast(
    cell, label="oric", against="value", *, own=None, other=None, lo=-0.1, hi=0.1
):
    """One label less another for a gate at 20 %."""
    return {
        **{
            "recipe": "gate-gbm",
            "label": label,
            "against": against,
            "cell": cell,
            "alpha": 0.2,
        },
        **{
            "difference": (lo + hi) / 2,
            "lo": lo,
            "hi": hi,
            "versus_random": own,
            "against_versus_random": other,
        },
    }


def test_labels_are_told_by_their_means_and_by_their_wins():
    swap, published = (
        named("training on perception gain"),
        named("published routing objectives"),
    )
    mean = contrast("all cells", "value", "gain-E1", lo=0.01, hi=0.03)
    cell = contrast("one", "value", "gain-E1", lo=-0.5, hi=0.5)
    found = swap(RunRows({"objective-swap": [mean, cell]}, {}))
    assert found.verdict == FAILS
    assert "gate-gbm, gain-E1 +0.020 [0.010, 0.030]" in found.words
    assert (
        swap(RunRows({"objective-swap": [mean | {"lo": -0.01}, cell]}, {})).verdict
        == HOLDS
    )
    assert swap(RunRows({"objective-swap": [cell]}, {})) is None
    # Decision value wins in one cell of two, the same whatever it is laid beside; the
    # objective in none.
    rows = [
        contrast(
            cell,
            label,
            own="unresolved",
            other="better" if cell == "one" else "unresolved",
        )
        for cell in ("one", "two")
        for label in ("oric", "ap-swap")
    ]
    told = published(
        RunRows({"published-objectives": [contrast("all cells", own=None), *rows]}, {})
    )
    assert (told.verdict, told.words) == (
        HOLDS,
        "wins against random: value 1 of 2, oric 0 of 2, ap-swap 0 of 2",
    )
    rows = [{**row, "versus_random": "better"} for row in rows]
    assert published(RunRows({"published-objectives": rows}, {})).verdict == FAILS


def test_the_sweep_is_told_of_the_paper_s_two_tasks():
    rows = [
        {
            "task": "longitudinal",
            "fn_ndg": 0.2,
            "fn_ndg_lo": 0.1,
            "fn_ndg_hi": 0.3,
            "multi_ndg": 0.4,
            "affected": 30,
        },
        {
            "task": "lateral",
            "fn_ndg": 0.3,
            "fn_ndg_lo": 0.2,
            "fn_ndg_hi": 0.4,
            "multi_ndg": 0.5,
            "affected": 30,
        },
        {
            "task": "lateral",
            "fn_ndg": 0.9,
            "fn_ndg_lo": 0.8,
            "fn_ndg_hi": 1.0,
            "multi_ndg": 0.9,
            "affected": 29,
        },
        {
            "task": "receding-horizon",
            "fn_ndg": 0.9,
            "fn_ndg_lo": 0.8,
            "fn_ndg_hi": 1,
            "multi_ndg": 0.9,
            "affected": 99,
        },
    ]
    for name in (
        "missed objects tell little",
        "all perception errors together tell little",
    ):
        told = named(name)(RunRows({"robustness": rows}, {}))
        assert told.verdict == HOLDS
        assert "borne out in 2 of 2" in told.words


def test_leaders_of_equal_number_are_told_in_the_order_in_which_they_are_met():
    """A set would tell them in another order in every process, and a report would not
    repeat.
    """
    names = [
        f"{name}-{kind}"
        for name in ("router-mlp", "router-gbm")
        for kind in ("binary", "value")
    ]
    names += ["gate-gbm", "gate-ridge", "criticality", "uncertainty"]
    rows = [
        {
            "cell": str(cell),
            "system": "braking",
            "alpha": 0.2,
            "allocator": name,
            "ndg": float(name == leader),
        }
        | {"verdict": "unresolved"}
        for cell, leader in enumerate(names)
        for name in (*names, "ego-speed")
    ]
    told = named("ego speed leads on KITTI braking")(RunRows({"held-out": rows}, {}))
    assert told.words.endswith("leading: " + ", ".join(f"{name} 1" for name in names))


@pytest.fixture
def tool(monkeypatch):
    """What studies/renew_replication.py has."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return runpy.run_path(str(ROOT / "studies" / "renew_replication.py"))


def test_the_page_has_the_rules_of_the_code(tool):
    page = (ROOT / "docs" / "generated" / "replication.md").read_text(encoding="utf-8")
    assert tool["filled"](page, {"rules": tool["rules"]()}) == page


def test_of_several_reports_the_first_that_tells_is_taken(tool):
    first, second, third = (each.name for each in findings()[:3])

    def report(cells, told):
        return {
            "cells": [{"collection": "kitti"}] * cells + [{"collection": "synthetic"}],
            "findings": [
                {
                    "name": name,
                    "told": {where: {"verdict": verdict, "words": f"of {cells}"}},
                }
                for name, where, verdict in told
            ],
        }

    whole = report(80, [(first, "kitti", "holds"), (third, "synthetic", "holds")])
    part = report(
        12, [(first, "kitti", "does not hold"), (second, "kitti", "cannot be told")]
    )
    made = {
        name: [
            [cell.text for cell in row] for section in table.sections for row in section
        ]
        for name, table in tool["tables"]([whole, part]).items()
    }
    assert [(row[0], *row[2:]) for row in made["verdicts"]] == [
        (first, "80", "holds", "of 80"),
        (second, "12", "cannot be told", "of 12"),
    ]
    assert made["elsewhere"] == []  # what is made up tells of no real scene
    assert third in [row[0] for row in made["lacking"]]
    assert len(made["lacking"]) == len(findings()) - 2
