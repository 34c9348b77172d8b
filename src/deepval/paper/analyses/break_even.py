"""Scores on cells and their costs -> what a ranking may cost per input and still reach
random's gain.

Decision values are signed, so the costs that qualify may form several intervals:
docs/definitions.md. Rankings are scored at every capacity, including rankings of
allocators that cannot pay for themselves.

The costs per input at which a ranking still reaches random's gain, by cell; medians
over cells, and whether the measured cost is among them.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from deepval.deploy.fitting import Scored
from deepval.judge.allowances import LEVELS, Budget, Latency, allowance
from deepval.judge.extras.break_even import break_even
from deepval.judge.report.charts import at_headline
from deepval.judge.report.text_tables import MISSING, Table, cost, percent
from deepval.judge.results import UNITS, BudgetKey, lists_by_key
from deepval.judge.tables.keys import positions
from deepval.judge.tables.scores import align, fill_missing
from deepval.paper.analysis import Analysis, Summary
from deepval.paper.columns import ALLOCATOR, BUDGET, NAME, budget_text
from deepval.paper.study import Cell, Units, watched
from deepval.paper.tidy import (
    Column,
    Dots,
    Estimate,
    Row,
    decimals,
    only,
    printed,
    shortest,
    yes_no,
)

COLUMNS = (
    NAME,
    ALLOCATOR,
    *BUDGET,
    Column(
        "largest",
        "Largest cost per input at which its ranking reaches random's gain; None if "
        "there is no such cost",
        heading="largest",
        text_of_row=lambda row: cost(row["largest"], row["convention"]),
    ),
    Column(
        "spans",
        "All costs that qualify, as intervals (above, up to]; "
        "an interval from 0 includes 0",
        heading="costs that qualify",
        text_of_row=lambda row: _intervals(row["spans"], row["convention"]),
    ),
    Column(
        "cost",
        "Its measured cost; None if it was not measured",
        heading="measured",
        text=shortest,
    ),
    Column(
        "inside",
        "Whether the measured cost qualifies; None if it was not measured",
        heading="inside",
        text=yes_no,
    ),
)
"""What one allocator may cost on one cell."""


AFFORDABLE_COLUMNS = (
    ALLOCATOR,
    *BUDGET,
    Column("cells", "Number of cells", heading="cells"),
    Column(
        "never",
        "Cells in which its ranking does not reach random's gain even for free",
        heading="never",
    ),
    Column(
        "several",
        "Cells in which the costs that qualify are more than one interval",
        heading="several",
    ),
    Column(
        "median",
        "Median over all cells of the largest cost that qualifies; cells without one "
        "count as the lowest, and None means that the median falls on such a cell",
        heading="median",
        text_of_row=lambda row: cost(row["median"], row["convention"]),
    ),
    Column("reaching_median", "The same median over the cells that have such a cost"),
    Column(
        "lowest",
        "Smallest over the cells of the largest cost that qualifies",
        heading="range",
        text_of_row=lambda row: (
            MISSING
            if row["lowest"] is None
            else (
                f"{cost(row['lowest'], row['convention'])} "
                f"to {cost(row['highest'], row['convention'])}"
            )
        ),
    ),
    Column("highest", "Largest over the cells of the same cost"),
    Column(
        "cost",
        "Median over cells of its measured cost",
        heading="measured",
        text=shortest,
    ),
    Column("priced", "Cells with a measured cost"),
    Column(
        "inside",
        "Cells in which the measured cost is among those that qualify",
        heading="inside",
        text_of_row=lambda row: (
            f"{row['inside']} of {row['priced']}"
            + (
                f" ({percent(row['inside'] / row['priced'], 0)})"
                if row["priced"]
                else ""
            )
        ),
    ),
    Column("times", "cost / median", heading="times", text=decimals(1)),
)
"""What one allocator may cost, over cells."""


def rows(
    cells: Sequence[Cell],
    budgets: Sequence[Budget] = tuple(Latency(alpha) for alpha in LEVELS),
    *,
    units: Units = "test",
) -> Iterator[Row]:
    """One row per cell, budget and allocator with a plain score.

    Args:
        cells: The cells.
        budgets: Latency, energy and money budgets.
        units: Units whose inputs are ranked.
    """
    for at in watched(cells, "break-even"):
        cell = at.cell
        table = at.inputs(units).table
        charged = at.needed_costs("a break-even cost")
        inside = positions(cell.table.input, table.input) >= 0
        for allocator, source in at.part("scores_with_cost").items():
            if isinstance(source, Scored):
                whole = source.over(cell.table)
            else:
                whole = align(cell.table, allocator, source)
            part = whole.keep(inside)
            if part.modes or part.kind == "diagnostic":
                continue
            values = fill_missing(part, table, "error").values
            for budget in budgets:
                allowed = allowance(budget, table.modes, charged)
                assert budget.convention is not None  # these budgets are measured
                even = break_even(values, table.decision_values, allowed)
                cost = charged.allocators.get(allocator, {}).get(budget.convention)
                yield {
                    **vars(allowed.key),
                    "cell": at.name,
                    "allocator": allocator,
                    "largest": even.largest,
                    "spans": even.spans,
                    "cost": cost,
                    "inside": None if cost is None else even.holds(cost),
                }


def over_cells(rows: Sequence[Row]) -> list[Row]:
    """One row per budget and allocator, in order of appearance."""
    members_by_key = lists_by_key(
        ((BudgetKey.of(row), row["allocator"]), row) for row in rows
    )
    return [
        _over(budget, allocator, members)
        for (budget, allocator), members in members_by_key.items()
    ]


def _over(budget: BudgetKey, allocator: str, members: Sequence[Row]) -> Row:
    largest = [row["largest"] for row in members if row["largest"] is not None]
    costs = [row["cost"] for row in members if row["cost"] is not None]
    middle = _median(largest, len(members))
    cost = median(costs) if costs else None
    return {
        **vars(budget),
        "allocator": allocator,
        "cells": len(members),
        "never": len(members) - len(largest),
        "several": sum(len(row["spans"]) > 1 for row in members),
        "median": middle,
        "reaching_median": median(largest) if largest else None,
        "lowest": min(largest, default=None),
        "highest": max(largest, default=None),
        "cost": cost,
        "priced": len(costs),
        "inside": sum(row["inside"] is True for row in members),
        "times": None if cost is None or not middle else cost / middle,
    }


def _median(numbers: Sequence[float], number: int) -> float | None:
    """The median of `number` figures; those that are missing from `numbers` count as
    the lowest.
    """
    ordered = [None] * (number - len(numbers)) + sorted(numbers)
    low, high = ordered[(number - 1) // 2], ordered[number // 2]
    return None if low is None or high is None else (low + high) / 2


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    order = ("cell", "kind", "allocator", "spans", "largest", "cost", "inside")
    return [
        printed(
            "What a ranking may cost and still reach random's gain",
            only(COLUMNS, *order),
            rows,
        )
    ]


def _intervals(spans: Sequence[tuple[float, float]], unit: str | None) -> str:
    parts = [f"{cost(low, unit)} to {cost(high, unit)}" for low, high in spans]
    return (
        " and ".join(parts[:3])
        + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
        or "none"
    )


def over_tables(rows: Sequence[Row]) -> list[Table]:
    """The summary over cells."""
    order = (
        *("kind", "allocator", "cells", "never", "median", "lowest"),
        *("cost", "inside", "times", "several"),
    )
    notes = (
        "median: largest cost that qualifies, over all cells; cells where none "
        "does (never) are the lowest.",
        "times: measured cost over that median. several: cells in which the costs "
        "are more than one interval.",
    )
    columns = only(AFFORDABLE_COLUMNS, *order)
    return [printed("Break-even cost over cells", columns, rows, notes=notes)]


def charted(rows: Sequence[Row]) -> Iterator[Row]:
    """What each allocator may cost (median and range over the cells with such a cost),
    and what it does cost.
    """
    units = " or ".join(dict.fromkeys(UNITS[row["convention"] or ""] for row in rows))
    over = over_cells(at_headline(rows))
    several = len({BudgetKey.of(row) for row in over}) > 1
    for row in over:
        label = row["allocator"]
        if several:
            label = f"{label}, {budget_text(row)}"
        affordable = Estimate(row["reaching_median"], row["lowest"], row["highest"])
        yield row | {"label": label, "affordable": affordable, "units": units}


BREAK_EVEN = Analysis(
    name="break-even",
    shows="Show what a ranking may cost per input",
    paper="break-even overhead",
    example="cells/braking-monocular --costs jetson-agx-xavier --alpha 0.2",
    asks=("scores_with_cost", "costs"),
    judges=True,
    details=(
        "The costs per input at which a ranking still reaches random's gain, by cell;"
        " medians over cells, and whether the measured cost is among them."
    ),
    rows=rows,
    columns=COLUMNS,
    over_cells=Summary(
        over_cells, AFFORDABLE_COLUMNS, tables=over_tables, is_record=True
    ),
    charts=[
        Dots(
            "Cost per input ({units}), median and range over cells",
            {"may cost": "affordable", "costs": "cost"},
            label="{label}",
            percent=False,
            line=0.0,
            of=charted,
        )
    ],
    tables=tables,
)
