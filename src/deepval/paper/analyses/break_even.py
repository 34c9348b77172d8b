"""Scores on cells and their costs -> what a ranking may cost per input and still reach
random's gain.

Decision values are signed, so the costs that qualify may form several intervals:
docs/definitions.md. Rankings are scored at every capacity, including rankings of
allocators that cannot pay for themselves.

The costs per input at which a ranking still reaches random's gain, by cell; medians
over cells, and whether the measured cost is among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.judging.allowances import LEVELS, Budget, Latency, allowance
from deepval.judging.extras.break_even import break_even
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    AllocatorName,
    BudgetColumns,
    CellName,
    Charged,
    Units,
    column,
    decimals,
    declared_table,
    figures,
    loss_table,
    shortest,
    yes_no,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, at_headline, plain
from deepval.report.text_tables import MISSING, Table, cost, percent
from deepval.results import UNITS, BudgetKey, lists_by_key
from deepval.tables.keys import positions
from deepval.tables.scores import Scores, align, fill_missing


@dataclass(frozen=True)
class BreakEvenRow(BudgetColumns, AllocatorName, CellName):
    """What one allocator may cost on one cell."""

    largest: float | None = column(
        "Largest cost per input at which its ranking reaches random's gain; None if "
        "there is no such cost",
        "largest",
        of_row=lambda row: cost(row.largest, row.convention),
    )
    spans: tuple[tuple[float, float], ...] = column(
        "All costs that qualify, as intervals (above, up to]; "
        "an interval from 0 includes 0",
        "costs that qualify",
        of_row=lambda row: _intervals(row.spans, row.convention),
    )
    cost: float | None = column(
        "Its measured cost; None if it was not measured", "measured", shortest
    )
    inside: bool | None = column(
        "Whether the measured cost qualifies; None if it was not measured",
        "inside",
        yes_no,
    )


@dataclass(frozen=True)
class AffordableRow(BudgetColumns, AllocatorName):
    """What one allocator may cost, over cells."""

    cells: int = column("Number of cells", "cells")
    never: int = column(
        "Cells in which its ranking does not reach random's gain even for free", "never"
    )
    several: int = column(
        "Cells in which the costs that qualify are more than one interval", "several"
    )
    median: float | None = column(
        "Median over all cells of the largest cost that qualifies; cells without one "
        "count as the lowest, and None means that the median falls on such a cell",
        "median",
        of_row=lambda row: cost(row.median, row.convention),
    )
    reaching_median: float | None = column(
        "The same median over the cells that have such a cost"
    )
    lowest: float | None = column(
        "Smallest over the cells of the largest cost that qualifies",
        "range",
        of_row=lambda row: (
            MISSING
            if row.lowest is None
            else (
                f"{cost(row.lowest, row.convention)} "
                f"to {cost(row.highest, row.convention)}"
            )
        ),
    )
    highest: float | None = column("Largest over the cells of the same cost")
    cost: float | None = column(
        "Median over cells of its measured cost", "measured", shortest
    )
    priced: int = column("Cells with a measured cost")
    inside: int = column(
        "Cells in which the measured cost is among those that qualify",
        "inside",
        of_row=lambda row: (
            f"{row.inside} of {row.priced}"
            + (f" ({percent(row.inside / row.priced, 0)})" if row.priced else "")
        ),
    )
    times: float | None = column("cost / median", "times", decimals(1))


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scored | Scores]],
    budgets: Sequence[Budget] = tuple(Latency(alpha) for alpha in LEVELS),
    *,
    costs: Charged | None = None,
    units: Units = "test",
    watch: Watch = unwatched,
) -> list[BreakEvenRow]:
    """One row per cell, budget and allocator with a plain score.

    Args:
        cells: Cells by name.
        scores: Per cell, scores of all its inputs or of those of the units.
        budgets: Latency, energy and money budgets.
        costs: Costs to use instead of each cell's own, for all cells or by name.
        units: Units whose inputs are ranked.
        watch: Progress reporting.
    """
    records = []
    for name, cell in watch(list(cells.items()), "break-even"):
        table = loss_table(cell, units)
        charged = figures(name, cell.table, costs, "a break-even cost")
        inside = positions(cell.table.input, table.input) >= 0
        for allocator, source in scores.get(name, {}).items():
            whole = (
                source.over(cell.table)
                if isinstance(source, Scored)
                else align(cell.table, allocator, source)
            )
            part = whole.keep(inside)
            if part.modes or part.kind == "diagnostic":
                continue
            values = fill_missing(part, table, "error").values
            for budget in budgets:
                allowed = allowance(budget, table.modes, charged)
                assert budget.convention is not None  # these budgets are measured
                even = break_even(values, table.decision_values, allowed)
                cost = charged.allocators.get(allocator, {}).get(budget.convention)
                records.append(
                    BreakEvenRow(
                        cell=name,
                        allocator=allocator,
                        **vars(allowed.key),
                        largest=even.largest,
                        spans=even.spans,
                        cost=cost,
                        inside=None if cost is None else even.holds(cost),
                    )
                )
    return records


def over_cells(rows: Sequence[BreakEvenRow]) -> list[AffordableRow]:
    """One row per budget and allocator, in order of appearance."""
    members_by_key = lists_by_key(((row.budget, row.allocator), row) for row in rows)
    return [
        _over(budget, allocator, members)
        for (budget, allocator), members in members_by_key.items()
    ]


def _over(
    budget: BudgetKey, allocator: str, members: Sequence[BreakEvenRow]
) -> AffordableRow:
    largest = [row.largest for row in members if row.largest is not None]
    costs = [row.cost for row in members if row.cost is not None]
    middle = _median(largest, len(members))
    cost = median(costs) if costs else None
    return AffordableRow(
        allocator=allocator,
        **vars(budget),
        cells=len(members),
        never=len(members) - len(largest),
        several=sum(len(row.spans) > 1 for row in members),
        median=middle,
        reaching_median=median(largest) if largest else None,
        lowest=min(largest, default=None),
        highest=max(largest, default=None),
        cost=cost,
        priced=len(costs),
        inside=sum(row.inside is True for row in members),
        times=None if cost is None or not middle else cost / middle,
    )


def _median(numbers: Sequence[float], number: int) -> float | None:
    """The median of `number` figures; those that are missing from `numbers` count as
    the lowest.
    """
    ordered = [None] * (number - len(numbers)) + sorted(numbers)
    low, high = ordered[(number - 1) // 2], ordered[number // 2]
    return None if low is None or high is None else (low + high) / 2


def table(rows: Sequence[BreakEvenRow]) -> Table:
    """The rows as a table."""
    order = ("cell", "kind", "allocator", "spans", "largest", "cost", "inside")
    return declared_table(
        BreakEvenRow,
        rows,
        "What a ranking may cost and still reach random's gain",
        order=order,
    )


def _intervals(spans: Sequence[tuple[float, float]], unit: str | None) -> str:
    parts = [f"{cost(low, unit)} to {cost(high, unit)}" for low, high in spans]
    return (
        " and ".join(parts[:3])
        + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
        or "none"
    )


def over_cells_table(rows: Sequence[AffordableRow]) -> Table:
    """The summary as a table."""
    order = (
        "kind",
        "allocator",
        "cells",
        "never",
        "median",
        "lowest",
        "cost",
        "inside",
        "times",
        "several",
    )
    notes = (
        (
            "median: largest cost that qualifies, over all cells; cells where none "
            "does (never) are the lowest."
        ),
        (
            "times: measured cost over that median. several: cells in which the costs "
            "are more than one interval."
        ),
    )
    return declared_table(
        AffordableRow, rows, "Break-even cost over cells", notes=notes, order=order
    )


def chart(rows: Sequence[BreakEvenRow]) -> Chart:
    """What each allocator may cost (median and range over the cells with such a cost),
    and what it does cost.
    """
    over = over_cells(at_headline(rows))
    several = len({row.budget for row in over}) > 1
    dots = []
    for row in over:
        label = f"{row.allocator}, {row.budget.label}" if several else row.allocator
        dots.append(
            Dot(label, "may cost", row.reaching_median, row.lowest, row.highest)
        )
        dots.append(Dot(label, "costs", row.cost))
    units = " or ".join(dict.fromkeys(UNITS[row.convention or ""] for row in rows))
    return plain(
        f"Cost per input ({units}), median and range over cells", dots, line=0.0
    )


BREAK_EVEN = declare(
    __name__,
    shows="Show what a ranking may cost per input",
    paper="break-even overhead",
    example="cells/braking-monocular --costs jetson-agx-xavier --alpha 0.2",
    kind=(BreakEvenRow, AffordableRow),
    takes={"cells": "cells", "scores": "scores_with_cost", "costs": "costs"},
    judges=True,
    summary_is_record=True,
)
