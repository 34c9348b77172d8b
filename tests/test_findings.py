"""Findings of the paper: every rule says what it must on rows made up for it, and each finding has all its parts."""

import pytest

from deepval.reproduction.findings import KnownRows, findings
from deepval.reproduction.registry import THEMES
from deepval.reproduction.verdicts import FAILS, HOLDS, OPEN, above, apart, at_most, of_every, of_mean, of_most, within


def row(value: float, lo: float | None, hi: float | None, **more: object) -> dict[str, object]:
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
    assert [above(row(0.3, lo, hi), "x", 0.1) for lo, hi in ((0.2, 0.4), (0.0, 0.4), (0.0, 0.05), (None, None))] == [
        *(True, None, False, None),
    ]
    assert [
        within(row(v, lo, hi), "x", 0.34, 0.54) for v, lo, hi in ((0.4, 0.1, 0.9), (0.6, 0.5, 0.7), (0.6, 0.55, 0.7))
    ] == [
        *(True, None, False),
    ]
    assert apart(row(0.5, 0.4, 0.6), row(0.2, 0.1, 0.3), "x") is True
    assert apart(row(0.2, 0.1, 0.3), row(0.5, 0.4, 0.6), "x") is False
    assert apart(row(0.2, 0.1, 0.45), row(0.5, 0.4, 0.6), "x") is None
    assert [at_most(v, 0.1, 0.3) for v in (0.1, 0.2, 0.31, None)] == [True, None, False, None]
    assert of_mean(None, "").verdict == OPEN


def signs(*shares: tuple[float, float, float], affected: int = 100) -> KnownRows:
    rows = [
        {"cell": f"c{i}", "geometry": "monocular", "system": "braking", "affected": affected}
        | {"harm_rate": v, "harm_rate_lo": lo, "harm_rate_hi": hi}
        for i, (v, lo, hi) in enumerate(shares)
    ]
    return KnownRows({"signs": rows}, {})


def named(name: str):
    return next(each.told for each in findings() if each.name == name)


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
    assert {each.theme for each in found} <= set(THEMES)
    assert all(each.says.endswith(".") and each.where and each.rule.endswith(".") for each in found)
    assert all(each.told(KnownRows({}, {})) is None for each in found)
