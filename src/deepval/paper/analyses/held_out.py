"""Results on test units -> the held-out tables: every allocator in every cell under
every budget, with marks.

Diagnostics use information that no vehicle has and are listed apart from deployable
allocators. A mark is a verdict on realised gain against random (docs/definitions.md,
Interval and verdict), not a rank.

Normalized decision gain (nDG) of every allocator on the test units, by cell and budget,
marked where it differs from random; diagnostics in their own section.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from deepval.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS
from deepval.paper.analyses.selection_regret import FEWEST_TEST
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    AllocatorName,
    BudgetColumns,
    CellName,
    column,
    high,
    low,
)
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import (
    MISSING,
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    percent,
)
from deepval.results import HEADLINE, BudgetKey, Result, Row
from deepval.tables.scores import REFERENCES

Role = Literal["control", "deployable", "diagnostic"]
ROLES: tuple[Role, ...] = ("control", "deployable", "diagnostic")
CONTROLS = ("random", "random-ladder")
"""References that are listed among the allocators."""


@dataclass(frozen=True)
class RoleColumns(AllocatorName, CellName):
    """An allocator of a cell and its role."""

    role: str = column(
        "control (random), deployable, or diagnostic: it uses the "
        "full output or the reference"
    )


@dataclass(frozen=True)
class HeldOutRow(BudgetColumns, RoleColumns):
    """One allocator of a cell under one budget, on the cell's test units.

    A cell with too few affected inputs is not scored: all fields after `affected` have
    their defaults.
    """

    units: int = column("Number of test units")
    inputs: int = column("Number of test inputs")
    affected: int = column("Test inputs whose loss escalation changes")
    gain_share: float | None = column(
        "Realised gain as a share of the all-cheap loss", default=None
    )
    ndg: float | None = column("nDG", default=None)
    ndg_lo: float | None = low(
        "Lower end of its 95 % interval over units; draws with a "
        "small prize are left out",
        default=None,
    )
    ndg_hi: float | None = high(default=None)
    draws_dropped: int = column("Number of draws left out", default=0)
    versus_random: float | None = column(
        "Paired difference with random, as a share of the all-cheap loss", default=None
    )
    versus_random_lo: float | None = low(
        "Lower end of its 95 % interval over all draws", default=None
    )
    versus_random_hi: float | None = high(default=None)
    verdict: str | None = column(
        "better (bold), worse (asterisk), unresolved or infeasible; None for a control",
        default=None,
    )
    draws: int = column("Number of draws", default=0)
    reason: str | None = column("Why something is None", default=None)


def rows(
    results: Mapping[str, Result],
    diagnostic_results: Mapping[str, Result] | None = None,
    *,
    diagnostic_names: Collection[str] = (),
) -> list[HeldOutRow]:
    """One row per cell, budget and allocator, random first and diagnostics last.

    Args:
        results: Judgements on the test units of each cell.
        diagnostic_results: Judgements of diagnostics, if they were judged separately.
        diagnostic_names: Names of diagnostics besides deepval's own.
    """
    names = {*DIAGNOSTICS, *PLANNING_DIAGNOSTICS, *diagnostic_names}
    records = []
    for cell, result in results.items():
        rows = [
            _row(cell, _role(row, names), row, result)
            for row in result.choosers
            if _listed(row)
        ]
        other, taken = (
            (diagnostic_results or {}).get(cell),
            {row.allocator for row in rows},
        )
        if other is not None:
            rows += [
                _row(cell, "diagnostic", row, other)
                for row in other.choosers
                if _listed(row) and row.allocator not in taken
            ]
        records += sorted(
            rows,
            key=lambda row: (
                row.kind != "selection",
                row.kind,
                row.accounting or "",
                ROLES.index(row.role),
                row.alpha,
            ),
        )
    return records


def _listed(row: Row) -> bool:
    return row.allocator in CONTROLS or row.allocator not in REFERENCES


def _role(row: Row, diagnostic_names: Collection[str]) -> Role:
    if row.allocator in CONTROLS:
        return "control"
    return "diagnostic" if row.allocator in diagnostic_names else "deployable"


def _row(cell: str, role: Role, row: Row, result: Result) -> HeldOutRow:
    affected = result.setting.affected
    start = HeldOutRow(
        cell=cell,
        allocator=row.allocator,
        role=role,
        **vars(row.budget),
        units=row.units,
        inputs=row.inputs,
        affected=affected,
    )
    if affected < FEWEST_TEST:
        return replace(start, reason=f"too few affected test inputs ({affected})")
    names = (
        "gain_share",
        "ndg",
        "ndg_lo",
        "ndg_hi",
        "draws_dropped",
        "versus_random",
        "versus_random_lo",
    )
    names = (*names, "versus_random_hi", "verdict", "draws", "reason")
    return replace(start, **{name: row[name] for name in names})


def table(rows: Sequence[HeldOutRow]) -> Table:
    """The nDG by budget and the difference with random at the headline budget; sections
    by cell, kind and role.
    """
    alphas = sorted({row.alpha for row in rows})
    at = min(alphas, key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    header = (
        "cell",
        "",
        "allocator",
        *(percent(alpha, 0) for alpha in alphas),
        f"vs random, {percent(at, 0)}",
        "95 %",
    )
    sections = []
    for (cell, budget, role), group in groupby(
        rows, key=lambda row: (row.cell, _unlike(row.budget), row.role)
    ):
        members = list(group)
        first = (cell, f"{role}{budget}")
        if all(row.affected < FEWEST_TEST for row in members):
            sections += (
                [_not_scored(first, members[0], len(header))]
                if role == ROLES[0]
                else []
            )
            continue
        names = dict.fromkeys(row.allocator for row in members)
        lines = []
        for name in names:
            own = {row.alpha: row for row in members if row.allocator == name}
            lead = first if name == members[0].allocator else ("", "")
            lines.append(
                (
                    *map(TableCell, (*lead, name)),
                    *_figures(own, alphas),
                    *_against(own.get(at)),
                )
            )
        sections.append(tuple(lines))
    notes = (
        "nDG by budget. + and bold: the paired 95 % interval of realised gain against "
        "random, over every draw of units, lies above 0; asterisk: below 0.",
        "vs random: realised gain less random's, of the all-cheap loss.",
        (
            "diagnostic: looks at the full output or the reference, "
            "so it cannot be deployed."
        ),
    )
    return Table("Held-out test units", header, tuple(sections), notes, ("95 %",))


def _unlike(budget: BudgetKey) -> str:
    """The kind and unit of a budget; empty for a selection budget."""
    if budget.kind == "selection":
        return ""
    return f", {budget.kind}" + (f" ({budget.unit})" if budget.unit else "")


def _not_scored(
    first: tuple[str, str], row: HeldOutRow, columns: int
) -> tuple[tuple[TableCell, ...], ...]:
    texts = (first[0], "not scored", row.reason or "", *[""] * (columns - 3))
    return (tuple(map(TableCell, texts)),)


def _figures(
    own: Mapping[float, HeldOutRow], alphas: Sequence[float]
) -> Iterator[TableCell]:
    for alpha in alphas:
        row = own.get(alpha)
        if row is None:
            yield TableCell(MISSING)
        elif row.verdict == "infeasible":
            yield TableCell("inf.")
        else:
            yield TableCell(
                number(row.ndg) + "+" * (row.verdict == "better"), mark_of(row.verdict)
            )


def _against(row: HeldOutRow | None) -> tuple[TableCell, TableCell]:
    if row is None or row.role == "control" or row.versus_random is None:
        return TableCell(""), TableCell("")
    low, high = row.versus_random_lo, row.versus_random_hi
    return TableCell(percent(row.versus_random), mark_of(row.verdict)), TableCell(
        interval(low, high, percent)
    )


def chart(rows: Sequence[HeldOutRow]) -> Chart:
    """The nDG of every allocator at the headline selection budget, a dot for each cell,
    by verdict against random.
    """
    selected = [row for row in rows if row.kind == "selection"]
    at = min(
        (row.alpha for row in selected),
        key=lambda alpha: (abs(alpha - HEADLINE), alpha),
        default=HEADLINE,
    )
    of = {
        role: [row for row in selected if row.role == role and row.alpha == at]
        for role in ROLES
    }
    dots = [
        Dot(
            f"{row.allocator}{' (diagnostic)' * (role == 'diagnostic')}",
            row.verdict or "control",
            row.ndg,
        )
        for role in ROLES
        for name in dict.fromkeys(row.allocator for row in of[role])
        for row in of[role]
        if row.allocator == name
    ]
    return plain(f"nDG at {at:.0%} on test units, a dot for each cell", dots, line=0.0)


HELD_OUT = declare(
    __name__,
    shows="Show every allocator on the test units",
    paper="held-out tables",
    example="cells/braking-monocular cells/braking-oracle",
    takes={
        "results": "results",
        "diagnostic_results": "diagnostic_results",
        "diagnostic_names": "diagnostic_names",
    },
)
