"""Results of several cells -> uniform full fidelity against the best allocator that
fits the same measured budget.

Running the full mode alone on every input needs no cheap pass, so it fits if alpha >=
(C_f - C_c)/C_f. Allocators pay for themselves and keep the budget causally. The best of
them is the best on the judged units, in hindsight, so a lead of uniform full fidelity
is one over every allocator that was judged.

The full mode alone on every input, against the best allocator that fits the same
budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from deepval.errors import InputError
from deepval.judging.pairs import AT, POLICIES, RANKING, ComparisonRow, compare
from deepval.paper.analysis import Option, declare
from deepval.paper.row_columns import (
    BudgetColumns,
    CellName,
    column,
    declared_table,
    high,
    low,
    mode_costs,
)
from deepval.paper.tidy import or_dash
from deepval.paper.tidy import share as in_percent
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, number, percent
from deepval.results import BudgetKey, Reason, Result, Row, Stream, joined, lists_by_key
from deepval.tables.scores import REFERENCES

ALL_FULL = "all-full"
ROUNDING = 1e-12
"""Shares of the all-cheap loss that differ by at most this count as equal."""


@dataclass(frozen=True)
class UniformRow(BudgetColumns, CellName):
    """Uniform full fidelity and the best feasible allocator of a cell under one
    measured budget.
    """

    uniform_from: float | None = column(
        "Smallest share at which uniform full fidelity fits; "
        "None if the costs are unknown",
        "fits from",
        in_percent,
    )
    fits: bool = column("Whether it fits here")
    uniform: float | None = column(
        "Share of the all-cheap loss that uniform full fidelity "
        "removes, whether it fits or not",
        "uniform",
        of_row=lambda row: percent(row.uniform) if row.fits else "inf.",
    )
    uniform_ndg: float | None = column(
        "Its nDG; None if it does not fit", "nDG", number
    )
    feasible: int = column("Allocators that can run")
    best: str | None = column(
        "The feasible allocator that removes most", "best allocator", or_dash
    )
    policy: str = column(
        "How allocators keep the budget: a causal policy, or ranking in hindsight"
    )
    best_share: float | None = column(
        "Share of the all-cheap loss that the best allocator removes",
        "removes",
        percent,
    )
    best_ndg: float | None = column("nDG of the best allocator", "nDG", number)
    difference: float | None = column(
        "uniform - best_share; None where either cannot run", "difference", percent
    )
    lo: float | None = low(
        "Lower end of its paired 95 % interval; None without samples", "95 %", percent
    )
    hi: float | None = high()
    leader: str | None = column(
        "uniform, allocator or neither; None where either cannot run"
    )
    verdict: str | None = column(
        "Verdict of uniform against the best allocator: better, worse or unresolved"
    )
    reason: str | None = column("Why something is None")


@dataclass(frozen=True)
class UniformCount(BudgetColumns):
    """Under one budget, over cells: where uniform full fidelity fits, and where it
    leads.
    """

    cells: int = column("Number of cells", "cells")
    fits: int = column("Cells in which uniform full fidelity fits", "fits")
    compared: int = column("Cells in which an allocator fits too", "compared")
    leads: int = column(
        "Compared cells in which it removes more than the best allocator", "leads"
    )
    behind: int = column("Compared cells in which it removes less", "behind")
    better: int = column(
        "Compared cells in which the paired interval of the difference lies above 0",
        "better",
    )
    worse: int = column("Compared cells in which the interval lies below 0", "worse")
    raises: int = column(
        "Cells in which it fits and raises the loss", "raises the loss"
    )


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
    results: Mapping[str, Result],
    *,
    policy: Policy = "causal-cap",
) -> list[UniformRow]:
    """One row per cell and measured budget.

    Args:
        results: Results by cell, with measured budgets; with streams for a causal
            policy.
        policy: How allocators keep the budget: a causal policy, or "ranking".
    """
    if policy not in (*POLICIES, RANKING):
        raise InputError(
            "policy must "
            f"be one of {', '.join((*POLICIES, RANKING))}; found {policy!r}."
        )
    records = []
    for name, result in results.items():
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
        records += [_row(name, result, budget, policy, compared) for budget in budgets]
    return records


def _row(
    name: str,
    result: Result,
    budget: BudgetKey,
    policy: str,
    compared: dict[str, tuple[ComparisonRow, ...]],
) -> UniformRow:
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
    reasons = [
        None if fits else own.reason,
        None if best else "no allocator fits",
        None if positive else Reason.NO_SHARE,
    ]
    return UniformRow(
        cell=name,
        **vars(budget),
        uniform_from=None if modes is None else modes.uniform_from,
        fits=fits,
        uniform=all_full,
        uniform_ndg=own.ndg,
        feasible=len(rivals),
        best=None if best is None else best.name,
        policy=policy,
        best_share=best.gain / loss if best and positive else None,
        best_ndg=None if best is None else best.ndg,
        difference=difference,
        lo=None if at is None else at.lo,
        hi=None if at is None else at.hi,
        leader=_leader(difference),
        verdict=None if at is None else at.verdict,
        reason=joined(reasons),
    )


def _rivals(result: Result, budget: BudgetKey, policy: str) -> list[_Rival]:
    """Allocators that can run under the budget, by the policy."""
    members: list[Row | Stream]
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


def over_cells(rows: Sequence[UniformRow]) -> list[UniformCount]:
    """One row per budget, in order of appearance."""
    members_by_budget = lists_by_key((row.budget, row) for row in rows)
    records = []
    for budget, members in members_by_budget.items():
        leaders, verdicts = (
            [row.leader for row in members],
            [row.verdict for row in members],
        )
        records.append(
            UniformCount(
                **vars(budget),
                cells=len(members),
                fits=sum(row.fits for row in members),
                compared=sum(leader is not None for leader in leaders),
                leads=leaders.count("uniform"),
                behind=leaders.count("allocator"),
                better=verdicts.count("better"),
                worse=verdicts.count("worse"),
                raises=sum(
                    row.fits and row.uniform is not None and row.uniform < 0
                    for row in members
                ),
            )
        )
    return records


def table(rows: Sequence[UniformRow]) -> Table:
    """The rows as a table."""
    policies = ", ".join(dict.fromkeys(row.policy for row in rows))
    notes = (
        "uniform, removes: shares of the all-cheap loss. Allocators pay for "
        f"themselves ({policies}); the best is the best on these units, in hindsight.",
    )
    return declared_table(
        UniformRow,
        rows,
        "Uniform full fidelity against the best allocator",
        notes=notes,
    )


def over_cells_table(rows: Sequence[UniformCount]) -> Table:
    """The counts as a table."""
    return declared_table(UniformCount, rows, "Where uniform full fidelity leads")


def chart(rows: Sequence[UniformRow]) -> Chart:
    """Uniform full fidelity less the best allocator in every cell in which both can
    run.
    """
    dots = (
        Dot(row.cell, row.budget.label, row.difference, row.lo, row.hi)
        for row in rows
        if row.difference is not None
    )
    return shares(
        "Uniform full less the best allocator, share of the all-cheap loss",
        dots,
        line=0.0,
    )


UNIFORM = declare(
    __name__,
    shows="Compare allocators with the full mode everywhere",
    paper="uniform full fidelity",
    example="cells/braking-monocular --alpha 0.5",
    kind=(UniformRow, UniformCount),
    takes={"results": "causal"},
)
