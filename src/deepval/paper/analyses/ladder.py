"""Cells with several modes and costs -> how much choosing among all modes gains over
using the top mode alone.

The optimum is an exact knapsack over all modes in milliseconds or millijoules
(judge/ladders.py). A plan that is best in one unit is also charged in the others:
the best plan for energy need not keep the latency budget.

Choosing among several modes beside the top mode alone, in milliseconds and millijoules.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from deepval.judge.allowances import LEVELS, Budget, Energy, Latency, allowance
from deepval.judge.extras.optima import optima
from deepval.judge.report.text_tables import MISSING, Table, number, percent
from deepval.judge.results import UNITS, Optimum, share_of
from deepval.judge.tables.costs import CONVENTIONS, Convention, Costs
from deepval.paper.analysis import Analysis
from deepval.paper.columns import BUDGET, NAME, budget_text
from deepval.paper.study import Cell, Units, watched
from deepval.paper.tidy import Column, Dots, Row, level, only, printed


def _excess(share: float | None) -> str:
    return (
        MISSING
        if share is None
        else "kept"
        if share <= 1e-9
        else f"+{percent(share, 1)}"
    )


COLUMNS = (
    NAME,
    *BUDGET,
    Column("inputs", "Number of inputs"),
    Column(
        "optimum_share",
        "Share of the all-cheap loss that the best plan removes",
        heading="optimum",
        text=percent,
    ),
    Column(
        "top_only_share",
        "Gain of the best plan that uses the top mode alone, "
        "as a part of the best plan's gain",
        heading="top alone",
        text=number,
    ),
    Column(
        "worth_more",
        "Gain of the best plan divided by that of the top mode alone, less 1",
        heading="more",
        text=level,
    ),
    Column("modes", "The modes, cheap first"),
    Column(
        "planned",
        "Inputs per mode in the best plan",
        heading="inputs per mode",
        text=lambda numbers: " / ".join(map(str, numbers)),
    ),
    Column("relative_cost", "Cost of each mode divided by that of the top mode"),
    Column(
        "gap_share",
        "Upper limit of what any plan can gain beyond this plan, "
        "as a part of this plan's gain",
    ),
    Column(
        "excess_ms",
        "Share by which the plan exceeds the latency budget of the same alpha; None "
        "if latency is unknown",
        heading=f"over {UNITS['ms']}",
        text=_excess,
    ),
    Column(
        "excess_mj",
        "The same for energy of the module",
        heading=f"over {UNITS['mj']}",
        text=_excess,
    ),
    Column("excess_mj_gpu", "The same for energy of the GPU rail"),
    Column("excess_mj_all", "The same for energy of all rails"),
    Column(
        "excess_usd", "The same for money", heading=f"over {UNITS['usd']}", text=_excess
    ),
)
"""The best plan over all modes of a cell under one measured budget."""


def rows(
    cells: Sequence[Cell],
    budgets: Sequence[Budget] = tuple(
        kind(alpha) for kind in (Latency, Energy) for alpha in LEVELS
    ),
    *,
    units: Units = "test",
) -> Iterator[Row]:
    """One row per cell of three modes or more and per cascade budget.

    Args:
        cells: The cells.
        budgets: Latency, energy and money budgets.
        units: Units whose inputs are planned for.
    """
    for cell in watched(cells, "ladder"):
        table = cell.inputs(units).table
        charged = cell.needed_costs("a ladder")
        for budget in budgets:
            assert budget.convention is not None  # these budgets are measured
            for best in optima(table, [allowance(budget, table.modes, charged)]):
                yield {
                    "cell": cell.name,
                    **vars(best.budget),
                    "inputs": len(table),
                    **_plan(best, charged, budget.convention),
                }


def _plan(best: Optimum, charged: Costs, convention: Convention) -> Row:
    """The best plan: what it gains, and how far it exceeds other budgets."""
    modes = tuple(best.modes)
    costs = [charged.of_mode(mode, convention) for mode in modes]
    spent = {item.convention: item.excess for item in best.spent}
    excess: dict[str, Any] = {f"excess_{unit}": spent.get(unit) for unit in CONVENTIONS}
    return {
        **excess,
        "optimum_share": best.share_of_cheap_loss,
        "top_only_share": best.full_only_share,
        "worth_more": best.value / best.full_only - 1 if best.full_only > 0 else None,
        "modes": modes,
        "planned": tuple(best.modes.values()),
        "relative_cost": tuple(cost / costs[-1] for cost in costs),
        "gap_share": share_of(best.gap, best.value),
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    units = [
        unit
        for unit in ("ms", "mj", "usd")
        if unit != "usd" or any(row["excess_usd"] is not None for row in rows)
    ]
    order = ("cell", "kind", "optimum_share", "top_only_share", "worth_more", "planned")
    order = (*order, *(f"excess_{unit}" for unit in units))
    notes = [
        "optimum: share of the all-cheap loss. top alone: part of it that the top "
        "mode alone reaches; more: what choosing among modes adds to that. over: by "
        "how much the plan exceeds the budget of the same share.",
    ]
    ladders = dict.fromkeys(
        (row["modes"], row["convention"], row["relative_cost"]) for row in rows
    )
    notes += [
        f"In {UNITS[unit or '']}, of {modes[-1]}: "
        + ", ".join(
            f"{m} {number(r, 2)}" for m, r in zip(modes[:-1], parts, strict=False)
        )
        for modes, unit, parts in ladders
    ]
    return [
        printed("Choosing among fidelities", only(COLUMNS, *order), rows, notes=notes)
    ]


LADDER = Analysis(
    name="ladder",
    shows="Show the worth of choosing among several modes",
    see="definitions.md#more-than-two-modes",
    paper="multi-fidelity ladder",
    example="cells/braking-monocular --alpha 0.1 --alpha 0.2",
    asks=("costs",),
    budgets=("latency", "energy"),
    judges=True,
    among=(lambda cell: len(cell.table.modes) > 2, "no cell of three modes or more"),
    empty="A cell with three modes or more is needed; all given cells have two.",
    details=(
        "Choosing among several modes beside the top mode alone, in milliseconds and "
        "millijoules."
    ),
    rows=rows,
    columns=COLUMNS,
    charts=[
        Dots(
            "Part of the best plan's gain that the top mode alone reaches",
            lambda row: {budget_text(row): row["top_only_share"]},
            line=1.0,
        )
    ],
    tables=tables,
)
