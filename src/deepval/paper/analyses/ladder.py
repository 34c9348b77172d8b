"""Cells with several modes and costs -> what choosing among fidelities is worth beside the top mode alone.

The optimum is an exact knapsack over all modes in milliseconds or millijoules (judging/ladder.py). A plan that is best
under one of them is also charged in the others: the best plan for energy need not keep the latency budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.cells.folder import BuiltCell
from deepval.judging.budgets import Measured, allowance
from deepval.judging.ladder import optima
from deepval.paper.analyses.judged import Charged, Units, figures, judged
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import MISSING, Table, lines_of, number, percent
from deepval.results import UNITS, BudgetRecord, Optimum
from deepval.tables.costs import CONVENTIONS, Convention, Costs


@dataclass(frozen=True)
class LadderRow(BudgetRecord):
    """The best plan over all modes of a cell under one measured budget.

    Attributes:
        cell: The cell.
        kind: latency, energy or money.
        alpha: The budget's share, of passes of the top mode.
        convention: What it counts.
        accounting: cascade: a higher mode runs after the cheap one, from scratch.
        inputs: Number of inputs.
        optimum_share: Share of the all-cheap loss that the best plan removes.
        top_only_share: What the best plan of the top mode alone gains, as a part of the best plan's gain.
        worth_more: The best plan's gain over that of the top mode alone, less 1.
        modes: The modes, cheap first.
        planned: Inputs per mode in the best plan.
        relative_cost: Cost of each mode over that of the top one.
        gap_share: What the certificate leaves open, as a part of the plan's gain: no plan gains more.
        excess_ms: By which share the plan exceeds the latency budget of the same alpha; None where ms are not known.
        excess_mj: The same for energy of the module.
        excess_mj_gpu: Of the GPU rail.
        excess_mj_all: Of all rails.
        excess_usd: Of money.
    """

    cell: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    inputs: int
    optimum_share: float | None
    top_only_share: float | None
    worth_more: float | None
    modes: tuple[str, ...]
    planned: tuple[int, ...]
    relative_cost: tuple[float, ...]
    gap_share: float | None
    excess_ms: float | None
    excess_mj: float | None
    excess_mj_gpu: float | None
    excess_mj_all: float | None
    excess_usd: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    budgets: Sequence[Measured],
    *,
    costs: Charged | None = None,
    units: Units = "test",
    watch: Watch = silent,
) -> list[LadderRow]:
    """One row per cell of three modes or more and per cascade budget.

    Args:
        cells: Cells by name.
        budgets: Latency, energy and money budgets.
        costs: Figures to use instead of each cell's own, for all or by name.
        units: Units whose inputs are planned for.
        watch: Who is told how far it is.
    """
    found = []
    for name, cell in watch(list(cells.items()), "ladder"):
        table = judged(cell, units)
        charged = figures(name, cell, costs, "a ladder")
        for budget in budgets:
            best = optima(table, [allowance(budget, table.modes, charged)])
            found += [_row(name, each, len(table), charged, budget.convention) for each in best]
    return found


def _row(name: str, best: Optimum, inputs: int, charged: Costs, convention: Convention) -> LadderRow:
    modes = tuple(best.modes)
    each = [charged.of_mode(mode, convention) for mode in modes]
    spent = {each.convention: each.excess for each in best.spent}
    excess: dict[str, Any] = {f"excess_{unit}": spent.get(unit) for unit in CONVENTIONS}
    return LadderRow(
        cell=name,
        **best.budget.fields,
        inputs=inputs,
        optimum_share=best.share_of_cheap_loss,
        top_only_share=best.full_only_share,
        worth_more=best.value / best.full_only - 1 if best.full_only > 0 else None,
        modes=modes,
        planned=tuple(best.modes.values()),
        relative_cost=tuple(cost / each[-1] for cost in each),
        gap_share=best.gap / best.value if best.value > 0 else None,
        **excess,
    )


def table(rows: Sequence[LadderRow]) -> Table:
    """The rows as a table."""
    units = [unit for unit in ("ms", "mj", "usd") if unit != "usd" or any(row.excess_usd is not None for row in rows)]
    over = [f"over {UNITS[unit]}" for unit in units]
    header = ("cell", "budget", "optimum", "top alone", "more", "inputs per mode", *over)
    texts = [
        (
            *(row.cell, row.budget.label, percent(row.optimum_share), number(row.top_only_share)),
            percent(row.worth_more, 0),
            " / ".join(map(str, row.planned)),
            *(_excess(row[f"excess_{unit}"]) for unit in units),
        )
        for row in rows
    ]
    notes = [
        "optimum: share of the all-cheap loss. top alone: part of it that the top mode alone reaches; more: what "
        "choosing among modes adds to that. over: by how much the plan exceeds the budget of the same share.",
    ]
    ladders = dict.fromkeys((row.modes, row.convention, row.relative_cost) for row in rows)
    notes += [
        f"In {UNITS[unit or '']}, of {modes[-1]}: "
        + ", ".join(f"{m} {number(r, 2)}" for m, r in zip(modes[:-1], parts, strict=False))
        for modes, unit, parts in ladders
    ]
    return Table("Choosing among fidelities", header, lines_of(texts), tuple(notes))


def _excess(share: float | None) -> str:
    return MISSING if share is None else "kept" if share <= 1e-9 else f"+{percent(share, 1)}"


def chart(rows: Sequence[LadderRow]) -> Chart:
    """How much of the best plan's gain the top mode alone reaches in each cell, by budget."""
    dots = (Dot(row.cell, row.budget.label, row.top_only_share) for row in rows)
    return shares("Part of the best plan's gain that the top mode alone reaches", dots, line=1.0)
