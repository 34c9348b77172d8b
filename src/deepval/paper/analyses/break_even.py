"""Scores on cells and their costs -> what a ranking may cost per input and still reach random's gain.

Decision values are signed, so the costs that qualify are a union of intervals and not always one:
docs/definitions.md. Rankings are scored at every capacity, also those of allocators that cannot pay for themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.judging.budgets import Measured, allowance
from deepval.judging.gaps import break_even
from deepval.paper.analyses.judged import Charged, Units, figures, judged
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, at_headline, plain
from deepval.report.text_table import MISSING, Table, cost, lines_of, number, percent
from deepval.results import UNITS, BudgetKey, BudgetRecord
from deepval.tables.columns import positions
from deepval.tables.scores import Scores, align, fill_missing


@dataclass(frozen=True)
class BreakEvenRow(BudgetRecord):
    """What one allocator may cost on one cell.

    Attributes:
        cell: The cell.
        allocator: The allocator.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        largest: Largest cost per input at which its ranking reaches random's gain; None where none does.
        spans: All such costs: intervals (above, up to], the first with its 0.
        cost: Its measured cost, None where there is no figure.
        inside: Whether that is one of them; None without a figure.
    """

    cell: str
    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    largest: float | None
    spans: tuple[tuple[float, float], ...]
    cost: float | None
    inside: bool | None


@dataclass(frozen=True)
class AffordableRow(BudgetRecord):
    """What one allocator may cost, over cells.

    Attributes:
        allocator: The allocator.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        cells: Number of cells.
        never: Cells in which its ranking reaches random's gain at no cost at all, not even for free.
        several: Cells in which the costs that qualify are more than one interval.
        median: Median over all cells of the largest such cost, cells without any counted as the lowest; None where the
            median falls on such a cell.
        reaching_median: The same over the cells that have one.
        lowest: Smallest of them.
        highest: Largest.
        cost: Median over cells of its measured cost.
        priced: Cells in which that is known.
        inside: Cells in which it is among the costs that qualify.
        times: cost / median.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cells: int
    never: int
    several: int
    median: float | None
    reaching_median: float | None
    lowest: float | None
    highest: float | None
    cost: float | None
    priced: int
    inside: int
    times: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scored | Scores]],
    budgets: Sequence[Measured],
    *,
    costs: Charged | None = None,
    units: Units = "test",
    watch: Watch = silent,
) -> list[BreakEvenRow]:
    """One row per cell, budget and allocator with a plain score.

    Args:
        cells: Cells by name.
        scores: Per cell, what was scored on it: on all its inputs, or on those of the units.
        budgets: Latency, energy and money budgets.
        costs: Figures to use instead of each cell's own, for all or by name.
        units: Units whose inputs are ranked.
        watch: Who is told how far it is.
    """
    found = []
    for name, cell in watch(list(cells.items()), "break-even"):
        table = judged(cell, units)
        charged = figures(name, cell, costs, "a break-even cost")
        inside = positions(cell.table.input, table.input) >= 0
        for allocator, source in scores.get(name, {}).items():
            whole = source.over(cell.table) if isinstance(source, Scored) else align(cell.table, allocator, source)
            part = whole.keep(inside)
            if part.modes or part.kind == "diagnostic":
                continue
            values = fill_missing(part, table, "error").values
            for budget in budgets:
                allowed = allowance(budget, table.modes, charged)
                even = break_even(values, table.decision_values, allowed)
                cost = charged.allocators.get(allocator, {}).get(budget.convention)
                found.append(
                    BreakEvenRow(
                        cell=name,
                        allocator=allocator,
                        **allowed.key.fields,
                        largest=even.largest,
                        spans=even.spans,
                        cost=cost,
                        inside=None if cost is None else even.holds(cost),
                    )
                )
    return found


def over_cells(rows: Sequence[BreakEvenRow]) -> list[AffordableRow]:
    """One row per budget and allocator, in the order in which they are met."""
    met: dict[tuple[BudgetKey, str], list[BreakEvenRow]] = {}
    for row in rows:
        met.setdefault((row.budget, row.allocator), []).append(row)
    return [_over(budget, allocator, members) for (budget, allocator), members in met.items()]


def _over(budget: BudgetKey, allocator: str, members: Sequence[BreakEvenRow]) -> AffordableRow:
    largest = [row.largest for row in members if row.largest is not None]
    costs = [row.cost for row in members if row.cost is not None]
    middle = _median(largest, len(members))
    cost = median(costs) if costs else None
    return AffordableRow(
        allocator=allocator,
        **budget.fields,
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


def _median(known: Sequence[float], number: int) -> float | None:
    """The median of `number` figures, those that are not known being the lowest."""
    ordered = [None] * (number - len(known)) + sorted(known)
    low, high = ordered[(number - 1) // 2], ordered[number // 2]
    return None if low is None or high is None else (low + high) / 2


def table(rows: Sequence[BreakEvenRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "budget", "allocator", "costs that qualify", "largest", "measured", "inside")
    texts = [
        (
            *(
                row.cell,
                row.budget.label,
                row.allocator,
                _set(row.spans, row.convention),
                cost(row.largest, row.convention),
            ),
            MISSING if row.cost is None else f"{row.cost:g}",
            MISSING if row.inside is None else "yes" if row.inside else "no",
        )
        for row in rows
    ]
    return Table("What a ranking may cost and still reach random's gain", header, lines_of(texts))


def _set(spans: Sequence[tuple[float, float]], unit: str | None) -> str:
    parts = [f"{cost(low, unit)} to {cost(high, unit)}" for low, high in spans]
    return " and ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "") or "none"


def over_cells_table(rows: Sequence[AffordableRow]) -> Table:
    """The summary as a table."""
    header = ("budget", "allocator", "cells", "never", "median", "range", "measured", "inside", "times", "several")
    texts = [
        (
            *(row.budget.label, row.allocator, str(row.cells), str(row.never), cost(row.median, row.convention)),
            MISSING
            if row.lowest is None
            else f"{cost(row.lowest, row.convention)} to {cost(row.highest, row.convention)}",
            MISSING if row.cost is None else f"{row.cost:g}",
            f"{row.inside} of {row.priced}" + (f" ({percent(row.inside / row.priced, 0)})" if row.priced else ""),
            *(number(row.times, 1), str(row.several)),
        )
        for row in rows
    ]
    notes = (
        "median: largest cost that qualifies, over all cells; cells where none does (never) are the lowest.",
        "times: measured cost over that median. several: cells in which the costs are more than one interval.",
    )
    return Table("Break-even cost over cells", header, lines_of(texts), notes)


def chart(rows: Sequence[BreakEvenRow]) -> Chart:
    """What each allocator may cost, median and range over the cells in which there is such a cost, and what it does."""
    over = over_cells(at_headline(rows))
    several = len({row.budget for row in over}) > 1
    dots = []
    for row in over:
        label = f"{row.allocator}, {row.budget.label}" if several else row.allocator
        dots.append(Dot(label, "may cost", row.reaching_median, row.lowest, row.highest))
        dots.append(Dot(label, "costs", row.cost))
    units = " or ".join(dict.fromkeys(UNITS[row.convention or ""] for row in rows))
    return plain(f"Cost per input ({units}), median and range over cells", dots, line=0.0)
