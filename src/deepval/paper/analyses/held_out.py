"""Results on test units -> the held-out tables: every allocator in every cell under
every budget, with marks.

Diagnostics use information that no vehicle has and are listed apart from deployable
allocators. A mark is a verdict on realised gain against random (docs/definitions.md,
Interval and verdict), not a rank.

Normalized decision gain (nDG) of every allocator on the test units, by cell and budget,
marked where it differs from random; diagnostics in their own section.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from deepval.deploy.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS
from deepval.judge.report.charts import at_headline
from deepval.judge.report.text_tables import (
    MISSING,
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    percent,
)
from deepval.judge.results import HEADLINE, BudgetKey, Result
from deepval.judge.results import Row as ResultRow
from deepval.judge.tables.scores import REFERENCES
from deepval.paper.analyses.selection_regret import FEWEST_TEST
from deepval.paper.analysis import Analysis
from deepval.paper.columns import ALLOCATOR, BUDGET, NAME
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import NOT_PRINTED, Column, Dots, Estimate, Row

Role = Literal["control", "deployable", "diagnostic"]
ROLES: tuple[Role, ...] = ("control", "deployable", "diagnostic")
CONTROLS = ("random", "random-ladder")
"""References that are listed among the allocators."""


COLUMNS = (
    NAME,
    ALLOCATOR,
    Column(
        "role",
        "control (random), deployable, or diagnostic: it uses the "
        "full output or the reference",
    ),
    *BUDGET,
    Column("units", "Number of test units"),
    Column("inputs", "Number of test inputs"),
    Column("affected", "Test inputs whose loss escalation changes"),
    Column("gain_share", "Realised gain as a share of the all-cheap loss"),
    Column("ndg", "nDG", bounds=NOT_PRINTED),
    Column("draws_dropped", "Number of draws left out"),
    Column(
        "versus_random",
        "Paired difference with random, as a share of the all-cheap loss",
        bounds=NOT_PRINTED,
    ),
    Column(
        "verdict",
        "better (bold), worse (asterisk), unresolved or infeasible; None for a control",
    ),
    Column("draws", "Number of draws"),
    Column("reason", "Why something is None"),
)
"""One allocator of a cell under one budget, on the cell's test units.

A cell with too few affected inputs is not scored: only `reason` says why.
"""


def rows(cells: Sequence[Cell]) -> Iterator[Row]:
    """One row per cell, budget and allocator, random first and diagnostics last."""
    names = {*DIAGNOSTICS, *PLANNING_DIAGNOSTICS}
    names.update(*of_each(cells, "diagnostic_names").values())
    diagnosed = of_each(cells, "diagnostic_results")
    for cell, result in of_each(cells, "results").items():
        rows = [
            _row(cell, _role(row, names), row, result)
            for row in result.choosers
            if _listed(row)
        ]
        judged = {row["allocator"] for row in rows}
        if cell in diagnosed:
            rows += [
                _row(cell, "diagnostic", row, diagnosed[cell])
                for row in diagnosed[cell].choosers
                if _listed(row) and row.allocator not in judged
            ]
        yield from sorted(
            rows,
            key=lambda row: (
                row["kind"] != "selection",
                row["kind"],
                row["accounting"] or "",
                ROLES.index(row["role"]),
                row["alpha"],
            ),
        )


def _listed(row: ResultRow) -> bool:
    return row.allocator in CONTROLS or row.allocator not in REFERENCES


def _role(row: ResultRow, diagnostic_names: Collection[str]) -> Role:
    if row.allocator in CONTROLS:
        return "control"
    return "diagnostic" if row.allocator in diagnostic_names else "deployable"


def _row(cell: str, role: Role, row: ResultRow, result: Result) -> Row:
    affected = result.setting.affected
    start = {
        **vars(row.budget),
        "cell": cell,
        "allocator": row.allocator,
        "role": role,
        "units": row.units,
        "inputs": row.inputs,
        "affected": affected,
    }
    if affected < FEWEST_TEST:
        return start | {
            "gain_share": None,
            "ndg": Estimate(),
            "draws_dropped": 0,
            "versus_random": Estimate(),
            "verdict": None,
            "draws": 0,
            "reason": f"too few affected test inputs ({affected})",
        }
    return start | {
        "gain_share": row.gain_share,
        "ndg": Estimate(row.ndg, row.ndg_lo, row.ndg_hi),
        "draws_dropped": row.draws_dropped,
        "versus_random": Estimate(
            row.versus_random, row.versus_random_lo, row.versus_random_hi
        ),
        "verdict": row.verdict,
        "draws": row.draws,
        "reason": row.reason,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """The nDG by budget and the difference with random at the headline budget; sections
    by cell, kind and role.
    """
    alphas = sorted({row["alpha"] for row in rows})
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
        rows, key=lambda row: (row["cell"], _unlike(BudgetKey.of(row)), row["role"])
    ):
        members = list(group)
        first = (cell, f"{role}{budget}")
        if all(row["affected"] < FEWEST_TEST for row in members):
            sections += (
                [_not_scored(first, members[0], len(header))]
                if role == ROLES[0]
                else []
            )
            continue
        names = dict.fromkeys(row["allocator"] for row in members)
        lines = []
        for name in names:
            own = {row["alpha"]: row for row in members if row["allocator"] == name}
            lead = first if name == members[0]["allocator"] else ("", "")
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
    return [Table("Held-out test units", header, tuple(sections), notes, ("95 %",))]


def _unlike(budget: BudgetKey) -> str:
    """The kind and unit of a budget; empty for a selection budget."""
    if budget.kind == "selection":
        return ""
    return f", {budget.kind}" + (f" ({budget.unit})" if budget.unit else "")


def _not_scored(
    first: tuple[str, str], row: Row, columns: int
) -> tuple[tuple[TableCell, ...], ...]:
    texts = (first[0], "not scored", row["reason"] or "", *[""] * (columns - 3))
    return (tuple(map(TableCell, texts)),)


def _figures(own: Mapping[float, Row], alphas: Sequence[float]) -> Iterator[TableCell]:
    for alpha in alphas:
        row = own.get(alpha)
        if row is None:
            yield TableCell(MISSING)
        elif row["verdict"] == "infeasible":
            yield TableCell("inf.")
        else:
            yield TableCell(
                number(row["ndg"].value) + "+" * (row["verdict"] == "better"),
                mark_of(row["verdict"]),
            )


def _against(row: Row | None) -> tuple[TableCell, TableCell]:
    if row is None or row["role"] == "control" or row["versus_random"].value is None:
        return TableCell(""), TableCell("")
    low, high = row["versus_random"].low, row["versus_random"].high
    return TableCell(
        percent(row["versus_random"].value), mark_of(row["verdict"])
    ), TableCell(interval(low, high, percent))


def charted(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows at the headline selection budget by role and allocator."""
    selected = at_headline([row for row in rows if row["kind"] == "selection"])
    names = list(dict.fromkeys(row["allocator"] for row in selected))
    for role in ROLES:
        mark = " (diagnostic)" * (role == "diagnostic")
        members = [row for row in selected if row["role"] == role]
        for row in sorted(members, key=lambda row: names.index(row["allocator"])):
            series = row["verdict"] or "control"
            yield row | {
                "label": f"{row['allocator']}{mark}",
                "series": series,
                # Intervals of many cells in one row would hide its dots.
                "point": row["ndg"].value,
            }


HELD_OUT = Analysis(
    name="held-out",
    shows="Show every allocator on the test units",
    paper="held-out tables",
    example="cells/braking-monocular cells/braking-oracle",
    asks=("results", "diagnostic_results", "diagnostic_names"),
    details=(
        "Normalized decision gain (nDG) of every allocator on the test units, by cell"
        " and budget, marked where it differs from random; diagnostics in their own "
        "section."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    charts=[
        Dots(
            "nDG at {alpha:.0%} on test units, a dot for each cell",
            {"{series}": "point"},
            label="{label}",
            percent=False,
            line=0.0,
            of=charted,
        )
    ],
)
