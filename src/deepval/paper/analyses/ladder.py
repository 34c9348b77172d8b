"""Cells with several modes and costs -> how much choosing among all modes gains over
using the top mode alone.

The optimum is an exact knapsack over all modes in milliseconds or millijoules
(judging/selections.py). A plan that is best in one unit is also charged in the others:
the best plan for energy need not keep the latency budget.

Choosing among several modes beside the top mode alone, in milliseconds and millijoules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.cells.folder import BuiltCell
from deepval.judging.allowances import LEVELS, Budget, Energy, Latency, allowance
from deepval.judging.extras.optima import optima
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    BudgetColumns,
    CellName,
    Charged,
    Units,
    column,
    declared_table,
    figures,
    level,
    loss_table,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import MISSING, Table, number, percent
from deepval.results import UNITS, Optimum, share_of
from deepval.tables.costs import CONVENTIONS, Convention, Costs


def _excess(share: float | None) -> str:
    return (
        MISSING
        if share is None
        else "kept"
        if share <= 1e-9
        else f"+{percent(share, 1)}"
    )


@dataclass(frozen=True)
class LadderRow(BudgetColumns, CellName):
    """The best plan over all modes of a cell under one measured budget."""

    inputs: int = column("Number of inputs")
    optimum_share: float | None = column(
        "Share of the all-cheap loss that the best plan removes", "optimum", percent
    )
    top_only_share: float | None = column(
        "Gain of the best plan that uses the top mode alone, "
        "as a part of the best plan's gain",
        "top alone",
        number,
    )
    worth_more: float | None = column(
        "Gain of the best plan divided by that of the top mode alone, less 1",
        "more",
        level,
    )
    modes: tuple[str, ...] = column("The modes, cheap first")
    planned: tuple[int, ...] = column(
        "Inputs per mode in the best plan",
        "inputs per mode",
        lambda numbers: " / ".join(map(str, numbers)),
    )
    relative_cost: tuple[float, ...] = column(
        "Cost of each mode divided by that of the top mode"
    )
    gap_share: float | None = column(
        "Upper limit of what any plan can gain beyond this plan, "
        "as a part of this plan's gain"
    )
    excess_ms: float | None = column(
        "Share by which the plan exceeds the latency budget of the same alpha; None "
        "if latency is unknown",
        f"over {UNITS['ms']}",
        _excess,
    )
    excess_mj: float | None = column(
        "The same for energy of the module", f"over {UNITS['mj']}", _excess
    )
    excess_mj_gpu: float | None = column("The same for energy of the GPU rail")
    excess_mj_all: float | None = column("The same for energy of all rails")
    excess_usd: float | None = column(
        "The same for money", f"over {UNITS['usd']}", _excess
    )


def rows(
    cells: Mapping[str, BuiltCell],
    budgets: Sequence[Budget] = tuple(
        kind(alpha) for kind in (Latency, Energy) for alpha in LEVELS
    ),
    *,
    costs: Charged | None = None,
    units: Units = "test",
    watch: Watch = unwatched,
) -> list[LadderRow]:
    """One row per cell of three modes or more and per cascade budget.

    Args:
        cells: Cells by name.
        budgets: Latency, energy and money budgets.
        costs: Costs to use instead of each cell's own, for all cells or by name.
        units: Units whose inputs are planned for.
        watch: Progress reporting.
    """
    records = []
    for name, cell in watch(list(cells.items()), "ladder"):
        table = loss_table(cell, units)
        charged = figures(name, cell.table, costs, "a ladder")
        for budget in budgets:
            assert budget.convention is not None  # these budgets are measured
            best = optima(table, [allowance(budget, table.modes, charged)])
            records += [
                _row(name, optimum, len(table), charged, budget.convention)
                for optimum in best
            ]
    return records


def _row(
    name: str, best: Optimum, inputs: int, charged: Costs, convention: Convention
) -> LadderRow:
    modes = tuple(best.modes)
    costs = [charged.of_mode(mode, convention) for mode in modes]
    spent = {item.convention: item.excess for item in best.spent}
    excess: dict[str, Any] = {f"excess_{unit}": spent.get(unit) for unit in CONVENTIONS}
    return LadderRow(
        cell=name,
        **vars(best.budget),
        inputs=inputs,
        optimum_share=best.share_of_cheap_loss,
        top_only_share=best.full_only_share,
        worth_more=best.value / best.full_only - 1 if best.full_only > 0 else None,
        modes=modes,
        planned=tuple(best.modes.values()),
        relative_cost=tuple(cost / costs[-1] for cost in costs),
        gap_share=share_of(best.gap, best.value),
        **excess,
    )


def table(rows: Sequence[LadderRow]) -> Table:
    """The rows as a table."""
    units = [
        unit
        for unit in ("ms", "mj", "usd")
        if unit != "usd" or any(row.excess_usd is not None for row in rows)
    ]
    order = ("cell", "kind", "optimum_share", "top_only_share", "worth_more", "planned")
    order = (*order, *(f"excess_{unit}" for unit in units))
    notes = [
        "optimum: share of the all-cheap loss. top alone: part of it that the top "
        "mode alone reaches; more: what choosing among modes adds to that. over: by "
        "how much the plan exceeds the budget of the same share.",
    ]
    ladders = dict.fromkeys(
        (row.modes, row.convention, row.relative_cost) for row in rows
    )
    notes += [
        f"In {UNITS[unit or '']}, of {modes[-1]}: "
        + ", ".join(
            f"{m} {number(r, 2)}" for m, r in zip(modes[:-1], parts, strict=False)
        )
        for modes, unit, parts in ladders
    ]
    return declared_table(
        LadderRow, rows, "Choosing among fidelities", notes=notes, order=order
    )


def chart(rows: Sequence[LadderRow]) -> Chart:
    """How much of the best plan's gain the top mode alone reaches in each cell, by
    budget.
    """
    dots = (Dot(row.cell, row.budget.label, row.top_only_share) for row in rows)
    return shares(
        "Part of the best plan's gain that the top mode alone reaches", dots, line=1.0
    )


LADDER = declare(
    __name__,
    shows="Show the worth of choosing among several modes",
    see="definitions.md#more-than-two-modes",
    paper="multi-fidelity ladder",
    example="cells/braking-monocular --alpha 0.1 --alpha 0.2",
    takes={"cells": "cells", "costs": "costs"},
    budgets=("latency", "energy"),
    judges=True,
    among=(lambda cell: len(cell.table.modes) > 2, "no cell of three modes or more"),
    empty="A cell with three modes or more is needed; all given cells have two.",
)
