"""Results of several cells -> uniform full fidelity against the best allocator that
fits the same measured budget.

Running the full mode alone on every input needs no cheap pass, so it fits if alpha >=
(C_f - C_c)/C_f. Allocators pay for themselves and keep the budget causally. The best of
them is the best on the judged units, in hindsight, so a lead of uniform full fidelity
is one over every allocator that was judged.

The full mode alone on every input, against the best allocator that fits the same
budget.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from deepval.basics.errors import InputError
from deepval.judge.pairs import AT, POLICIES, RANKING, ComparisonRow, compare
from deepval.judge.report.text_tables import number, percent
from deepval.judge.results import (
    BudgetKey,
    Reason,
    Result,
    Stream,
    joined,
    lists_by_key,
)
from deepval.judge.results import Row as ResultRow
from deepval.judge.tables.scores import REFERENCES
from deepval.paper.analysis import Analysis, Option, Summary
from deepval.paper.columns import BUDGET, NAME, budget_text
from deepval.paper.costs import mode_costs
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Dots, Estimate, Row, or_dash
from deepval.paper.tidy import share as in_percent

ALL_FULL = "all-full"
ROUNDING = 1e-12
"""Shares of the all-cheap loss that differ by at most this count as equal."""


COLUMNS = (
    NAME,
    *BUDGET,
    Column(
        "uniform_from",
        "Smallest share at which uniform full fidelity fits; "
        "None if the costs are unknown",
        heading="fits from",
        text=in_percent,
    ),
    Column("fits", "Whether it fits here"),
    Column(
        "uniform",
        "Share of the all-cheap loss that uniform full fidelity "
        "removes, whether it fits or not",
        heading="uniform",
        text_of_row=lambda row: percent(row["uniform"]) if row["fits"] else "inf.",
    ),
    Column(
        "uniform_ndg", "Its nDG; None if it does not fit", heading="nDG", text=number
    ),
    Column("feasible", "Allocators that can run"),
    Column(
        "best",
        "The feasible allocator that removes most",
        heading="best allocator",
        text=or_dash,
    ),
    Column(
        "policy",
        "How allocators keep the budget: a causal policy, or ranking in hindsight",
    ),
    Column(
        "best_share",
        "Share of the all-cheap loss that the best allocator removes",
        heading="removes",
        text=percent,
    ),
    Column("best_ndg", "nDG of the best allocator", heading="nDG", text=number),
    Column(
        "difference",
        "uniform - best_share; None where either cannot run",
        heading="difference",
        text=percent,
        bounds="95 %",
        ends=("lo", "hi"),
    ),
    Column("leader", "uniform, allocator or neither; None where either cannot run"),
    Column(
        "verdict",
        "Verdict of uniform against the best allocator: better, worse or unresolved",
    ),
    Column("reason", "Why something is None"),
)
"""Uniform full fidelity and the best feasible allocator of a cell under one
measured budget.
"""


UNIFORM_COUNT_COLUMNS = (
    *BUDGET,
    Column("cells", "Number of cells", heading="cells"),
    Column("fits", "Cells in which uniform full fidelity fits", heading="fits"),
    Column("compared", "Cells in which an allocator fits too", heading="compared"),
    Column(
        "leads",
        "Compared cells in which it removes more than the best allocator",
        heading="leads",
    ),
    Column("behind", "Compared cells in which it removes less", heading="behind"),
    Column(
        "better",
        "Compared cells in which the paired interval of the difference lies above 0",
        heading="better",
    ),
    Column(
        "worse", "Compared cells in which the interval lies below 0", heading="worse"
    ),
    Column(
        "raises",
        "Cells in which it fits and raises the loss",
        heading="raises the loss",
    ),
)
"""Under one budget, over cells: where uniform full fidelity fits, and where it
leads.
"""


class _Rival(NamedTuple):
    """An allocator that can run, and what it removes."""

    name: str
    gain: float
    ndg: float | None


def _policy(name: str) -> str:
    allowed = (*POLICIES, RANKING)
    if name not in allowed:
        raise InputError(
            f"--policy must be one of {', '.join(allowed)}; found {name!r}."
        )
    return name


Policy = Annotated[
    str,
    Option(
        "How allocators meet the budget: a causal policy, or ranking.", read=_policy
    ),
]


def rows(
    cells: Sequence[Cell],
    *,
    policy: Policy = "causal-cap",
) -> Iterator[Row]:
    """One row per cell and measured budget.

    Args:
        cells: The cells; a result has measured budgets, and streams for a causal
            policy.
        policy: How allocators keep the budget: a causal policy, or "ranking".
    """
    if policy not in (*POLICIES, RANKING):
        raise InputError(
            "policy must "
            f"be one of {', '.join((*POLICIES, RANKING))}; found {policy!r}."
        )
    for name, result in of_each(cells, "causal").items():
        if policy != RANKING and not result.streams:
            raise InputError(
                f"{name}: a causal policy is calibrated on other units, and the "
                "result has no streams: judge with calibration units (--calibrate), "
                "or take policy 'ranking'."
            )
        budgets = dict.fromkeys(
            row.budget for row in result.choosers if row.kind != "selection"
        )
        compared: dict[str, tuple[ComparisonRow, ...]] = {}
        for budget in budgets:
            yield _row(name, result, budget, policy, compared)


def _row(
    name: str,
    result: Result,
    budget: BudgetKey,
    policy: str,
    compared: dict[str, tuple[ComparisonRow, ...]],
) -> Row:
    own = next(
        row
        for row in result.choosers
        if row.allocator == ALL_FULL and row.budget == budget
    )
    modes = mode_costs(result, budget.convention)
    loss, all_full = result.setting.cheap_loss, result.setting.all_full_share
    rivals = _rivals(result, budget, policy)
    best = max(rivals, key=lambda rival: rival.gain, default=None)
    fits, positive = own.gain is not None, loss > 0
    difference = (
        all_full - best.gain / loss
        if best and fits and positive and all_full is not None
        else None
    )
    paired = (
        _compared(result, best.name, policy, compared)
        if best and difference is not None
        else ()
    )
    at = next((item for item in paired if item.budget == budget), None)
    paired_difference = Estimate(difference)
    if at is not None:
        paired_difference = Estimate(difference, at.lo, at.hi)
    reasons = [
        None if fits else own.reason,
        None if best else "no allocator fits",
        None if positive else Reason.NO_SHARE,
    ]
    return {
        **vars(budget),
        "cell": name,
        "uniform_from": None if modes is None else modes.uniform_from,
        "fits": fits,
        "uniform": all_full,
        "uniform_ndg": own.ndg,
        "feasible": len(rivals),
        "best": None if best is None else best.name,
        "policy": policy,
        "best_share": best.gain / loss if best and positive else None,
        "best_ndg": None if best is None else best.ndg,
        "difference": paired_difference,
        "leader": _leader(difference),
        "verdict": None if at is None else at.verdict,
        "reason": joined(reasons),
    }


def _rivals(result: Result, budget: BudgetKey, policy: str) -> list[_Rival]:
    """Allocators that can run under the budget, by the policy."""
    members: list[ResultRow | Stream]
    if policy == RANKING:
        members = [row for row in result.choosers if row.allocator not in REFERENCES]
    else:
        members = [
            row for row in result.streams if row.policy == policy.replace("-", " ")
        ]
    return [
        _Rival(row.allocator, row.gain, row.ndg)
        for row in members
        if row.budget == budget and row.gain is not None
    ]


def _compared(
    result: Result,
    best: str,
    policy: str,
    compared: dict[str, tuple[ComparisonRow, ...]],
) -> tuple[ComparisonRow, ...]:
    """Uniform full fidelity against an allocator under every budget, each pair once;
    nothing without samples.
    """
    if result.samples is None:
        return ()
    if best not in compared:
        compared[best] = compare(result, ALL_FULL, f"{best}{AT}{policy}")
    return compared[best]


def _leader(difference: float | None) -> str | None:
    if difference is None:
        return None
    return (
        "neither"
        if abs(difference) <= ROUNDING
        else "uniform"
        if difference > 0
        else "allocator"
    )


def over_cells(rows: Sequence[Row]) -> Iterator[Row]:
    """One row per budget, in order of appearance."""
    members_by_budget = lists_by_key((BudgetKey.of(row), row) for row in rows)
    for budget, members in members_by_budget.items():
        leaders = [row["leader"] for row in members]
        verdicts = [row["verdict"] for row in members]
        yield {
            **vars(budget),
            "cells": len(members),
            "fits": sum(row["fits"] for row in members),
            "compared": sum(leader is not None for leader in leaders),
            "leads": leaders.count("uniform"),
            "behind": leaders.count("allocator"),
            "better": verdicts.count("better"),
            "worse": verdicts.count("worse"),
            "raises": sum(
                row["fits"] and row["uniform"] is not None and row["uniform"] < 0
                for row in members
            ),
        }


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """What the columns are shares of, and how allocators keep the budget."""
    policies = ", ".join(dict.fromkeys(row["policy"] for row in rows))
    yield (
        "uniform, removes: shares of the all-cheap loss. Allocators pay for "
        f"themselves ({policies}); the best is the best on these units, in hindsight."
    )


UNIFORM = Analysis(
    name="uniform",
    shows="Compare allocators with the full mode everywhere",
    paper="uniform full fidelity",
    example="cells/braking-monocular --alpha 0.5",
    asks=("causal",),
    details=(
        "The full mode alone on every input, against the best allocator that fits the"
        " same budget."
    ),
    rows=rows,
    columns=COLUMNS,
    title="Uniform full fidelity against the best allocator",
    notes=notes,
    over_cells=Summary(
        over_cells, UNIFORM_COUNT_COLUMNS, "Where uniform full fidelity leads"
    ),
    charts=[
        Dots(
            "Uniform full less the best allocator, share of the all-cheap loss",
            lambda row: {budget_text(row): row["difference"]},
            line=0.0,
            where=lambda row: row["difference"].value is not None,
        )
    ],
)
