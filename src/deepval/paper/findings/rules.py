"""Rules for findings: rows of a run -> a verdict on a statement about every cell, most
cells or their mean.

A statement is borne out, contradicted or open in each cell. The rules were fixed before
any result was seen; docs/replication.md states them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["holds", "does not hold", "cannot be told"]
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
CHANCE = 0.05
"""Share of cells whose 95 % intervals contradict by chance a statement that is true of
every cell.
"""
Row = Mapping[str, Any]
Records = Mapping[str, Mapping[str, Sequence[Row]]]
"""Rows by analysis and collection."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a finding on the cells of one data set: the verdict, and in words
    the figures behind it.
    """

    verdict: Verdict
    words: str


def of_every(marks: Iterable[bool | None], words: str) -> Outcome:
    """A statement about every cell.

    It fails if contradicted in more cells than chance explains, holds if borne out in
    at least half, and else is open.
    """
    marks = list(marks)
    yes, no = marks.count(True), marks.count(False)
    verdict: Verdict = (
        FAILS
        if no > CHANCE * len(marks)
        else HOLDS
        if marks and 2 * yes >= len(marks)
        else OPEN
    )
    return Outcome(
        verdict, f"{_counts(marks)}; {words}" if marks else f"no cell can tell; {words}"
    )


def of_most(marks: Iterable[bool | None], words: str) -> Outcome:
    """A statement about most cells.

    It holds if borne out in more than half of them, fails if contradicted in more than
    half, and is open otherwise.
    """
    marks = list(marks)
    yes, no = marks.count(True), marks.count(False)
    verdict: Verdict = (
        HOLDS if 2 * yes > len(marks) else FAILS if 2 * no > len(marks) else OPEN
    )
    return Outcome(
        verdict, f"{_counts(marks)}; {words}" if marks else f"no cell can tell; {words}"
    )


def of_mean(mark: bool | None, words: str) -> Outcome:  # noqa: FBT001
    """A statement about the mean over cells, judged by the joint interval of the
    mean.
    """
    return Outcome(OPEN if mark is None else HOLDS if mark else FAILS, words)


def _counts(marks: Sequence[bool | None]) -> str:
    yes, no = marks.count(True), marks.count(False)
    rest = len(marks) - yes - no
    return f"borne out in {yes} of {len(marks)}, contradicted in {no}" + (
        f", open in {rest}" if rest else ""
    )


def above(row: Row, field: str, limit: float) -> bool | None:
    """True if the whole interval of a field lies above a limit, False if below, None
    where it contains the limit.
    """
    lo, hi = row.get(f"{field}_lo"), row.get(f"{field}_hi")
    if lo is None or hi is None:
        return None
    return True if lo > limit else False if hi < limit else None


def below(row: Row, field: str, limit: float) -> bool | None:
    """True if the whole interval of a field lies below a limit, False if above, None
    where it contains the limit.
    """
    mark = above(row, field, limit)
    return None if mark is None else not mark


def within(row: Row, field: str, lo: float, hi: float) -> bool | None:
    """True if a figure lies in a range, False if its whole interval lies outside the
    range, None otherwise.
    """
    value, low, high = (row.get(name) for name in (field, f"{field}_lo", f"{field}_hi"))
    if value is None or low is None or high is None:
        return None
    return True if lo <= value <= hi else False if high < lo or low > hi else None


def apart(row: Row, other: Row, field: str) -> bool | None:
    """True if the interval of a field in one row lies above that in the other, False if
    below, None if they overlap.
    """
    (lo, hi), (other_lo, other_hi) = (
        (entry.get(f"{field}_lo"), entry.get(f"{field}_hi")) for entry in (row, other)
    )
    if lo is None or hi is None or other_lo is None or other_hi is None:
        return None
    return True if lo > other_hi else False if hi < other_lo else None


def at_most(value: float | None, borne_out: float, contradicted: float) -> bool | None:
    """True if a figure without an interval is at most `borne_out`, False if above
    `contradicted`, None in between.
    """
    return (
        None
        if value is None or borne_out < value <= contradicted
        else value <= borne_out
    )


def span(rows: Iterable[Row], field: str, *, percent: bool = True) -> str:
    """Least, median and largest of a field in words."""
    values = sorted(row[field] for row in rows if row.get(field) is not None)
    if not values:
        return "none defined"
    middle = (
        values[len(values) // 2]
        if len(values) % 2
        else (values[len(values) // 2 - 1] + values[len(values) // 2]) / 2
    )
    return " / ".join(
        _figure(value, percent=percent) for value in (values[0], middle, values[-1])
    )


def _figure(value: float, *, percent: bool) -> str:
    return f"{100 * value:.1f} %" if percent else f"{value:.3f}"


CONTROLLERS = ("braking", "receding-horizon")
MONOCULAR, ORACLE = "monocular", "oracle"
LEAST_AFFECTED = 30
"""Fewest affected inputs of a cell that counts; with fewer, shares of affected inputs
mean nothing.
"""
PUBLISHED = (
    *(
        "gate-ridge",
        "gate-gbm",
        "router-mlp-value",
        "router-mlp-binary",
        "router-gbm-value",
        "router-gbm-binary",
    ),
)
"""The paper's learned allocators; the findings say nothing about this package's other
allocators.
"""


@dataclass(frozen=True)
class RunRows:
    """The rows of one run on the cells of one data set.

    Attributes:
        rows: Rows by analysis, every field unrounded.
        cells: The properties of each cell by its label: geometry, system, cheap and
            full mode, counts.
    """

    rows: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Mapping[str, Any]]

    def of(self, analysis: str, **requested: Any) -> list[Row]:
        """Rows of an analysis with these values, each with its cell's properties; a
        tuple allows several values.
        """
        rows = [
            {**self.cells.get(str(row.get("cell")), {}), **row}
            for row in self.rows.get(analysis, ())
        ]
        return [
            row
            for row in rows
            if all(_is(row.get(name), value) for name, value in requested.items())
        ]

    def controlled(self, analysis: str, **requested: Any) -> list[Row]:
        """Rows of the paper's controllers, on cells with enough affected inputs."""
        rows = self.of(analysis, **{"system": CONTROLLERS, **requested})
        return [
            row
            for row in rows
            if row.get("affected") is None or row["affected"] >= LEAST_AFFECTED
        ]


def _is(value: Any, requested: Any) -> bool:
    return value in requested if isinstance(requested, tuple) else value == requested


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        name: A short name.
        theme: The part of the report that it belongs to.
        says: What the paper says.
        where: Where it says so.
        rule: What bears it out here and what contradicts it.
        analysis: The analysis whose rows decide.
        judge: Rows -> verdict and figures; None where the data set has no rows to judge
            by.
    """

    name: str
    theme: str
    says: str
    where: str
    rule: str
    analysis: str
    judge: Callable[[RunRows], Outcome | None]
