"""Results of several cells -> uniform full fidelity against the best allocator that fits the same measured budget.

Running the full mode alone on every input needs no cheap pass, so it fits from alpha = (C_f - C_c)/C_f on. Allocators
pay for themselves and keep the budget causally. The best of them is the best on the judged units, in hindsight, so a
lead of uniform full fidelity is one over every allocator that was judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deepval.errors import InputError
from deepval.judging.comparison import AT, POLICIES, RANKING, Comparison, compare
from deepval.paper.analyses.judged import mode_costs
from deepval.report.charts import Chart, Dot, shares
from deepval.report.table import MISSING, Table, lines_of, number, percent
from deepval.report.table import interval as span
from deepval.results import BudgetKey, BudgetRecord, Reason, Result, Row, Stream, joined
from deepval.tables.scores import REFERENCES

UNIFORM = "all-full"
ROUNDING = 1e-12
"""Shares of the all-cheap loss that are this near to each other are the same."""


@dataclass(frozen=True)
class UniformRow(BudgetRecord):
    """Uniform full fidelity and the best feasible allocator of a cell under one measured budget.

    Attributes:
        cell: The cell.
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        uniform_from: Share from which uniform full fidelity fits, None where the costs are not known.
        fits: Whether it fits here.
        uniform: Share of the all-cheap loss that it removes, whether it fits or not.
        uniform_ndg: Its nDG, None where it does not fit.
        feasible: Allocators that can run.
        best: The one of them that removes most.
        policy: How allocators keep the budget: a causal policy, or ranking in hindsight.
        best_share: Share of the all-cheap loss that it removes.
        best_ndg: Its nDG.
        difference: uniform - best_share, None where either cannot run.
        lo: Lower bound of the paired interval of the difference; None without samples.
        hi: Upper bound.
        leader: uniform, allocator or neither; None where either cannot run.
        verdict: better, worse or unresolved: uniform against the best allocator.
        reason: Why something is None.
    """

    cell: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    uniform_from: float | None
    fits: bool
    uniform: float | None
    uniform_ndg: float | None
    feasible: int
    best: str | None
    policy: str
    best_share: float | None
    best_ndg: float | None
    difference: float | None
    lo: float | None
    hi: float | None
    leader: str | None
    verdict: str | None
    reason: str | None


@dataclass(frozen=True)
class UniformCount(BudgetRecord):
    """Under one budget, over cells: where uniform full fidelity fits, and where it leads.

    Attributes:
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        accounting: cascade or skipping.
        cells: Number of cells.
        fits: Cells in which uniform full fidelity fits.
        compared: Those in which some allocator fits too.
        leads: Those in which it removes more than the best of them.
        behind: Those in which it removes less.
        better: Those in which the paired interval of the difference lies above zero.
        worse: Below zero.
        raises: Cells in which it fits and raises the loss.
    """

    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    cells: int
    fits: int
    compared: int
    leads: int
    behind: int
    better: int
    worse: int
    raises: int


class _Rival(NamedTuple):
    """An allocator that can run, and what it removes."""

    name: str
    gain: float
    ndg: float | None


def rows(results: Mapping[str, Result], *, policy: str = "causal-cap") -> list[UniformRow]:
    """One row per cell and measured budget.

    Args:
        results: Results by cell, with measured budgets; with streams where a causal policy is asked for.
        policy: How allocators keep the budget: a causal policy, or "ranking".
    """
    if policy not in (*POLICIES, RANKING):
        raise InputError(f"policy must be one of {', '.join((*POLICIES, RANKING))}; found {policy!r}.")
    found = []
    for name, result in results.items():
        if policy != RANKING and not result.streams:
            raise InputError(
                f"{name}: a causal policy is calibrated on other units, and the result has no streams: judge with "
                "calibration units (--calibrate), or take policy 'ranking'."
            )
        budgets = dict.fromkeys(row.budget for row in result.rows if row.kind != "selection")
        compared: dict[str, tuple[Comparison, ...]] = {}
        found += [_row(name, result, budget, policy, compared) for budget in budgets]
    return found


def _row(
    name: str, result: Result, budget: BudgetKey, policy: str, compared: dict[str, tuple[Comparison, ...]]
) -> UniformRow:
    own = next(row for row in result.rows if row.allocator == UNIFORM and row.budget == budget)
    modes = mode_costs(result, budget.convention)
    loss, all_full = result.setting.cheap_loss, result.setting.all_full_share
    rivals = _rivals(result, budget, policy)
    best = max(rivals, key=lambda rival: rival.gain, default=None)
    fits, positive = own.gain is not None, loss > 0
    difference = all_full - best.gain / loss if best and fits and positive and all_full is not None else None
    paired = _compared(result, best.name, policy, compared) if best and difference is not None else ()
    at = next((each for each in paired if each.budget == budget), None)
    reasons = [
        None if fits else own.reason,
        None if best else "no allocator fits",
        None if positive else Reason.NO_SHARE,
    ]
    return UniformRow(
        cell=name,
        **budget.fields,
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
        members = [row for row in result.rows if row.allocator not in REFERENCES]
    else:
        members = [row for row in result.streams if row.policy == policy.replace("-", " ")]
    return [
        _Rival(row.allocator, row.gain, row.ndg) for row in members if row.budget == budget and row.gain is not None
    ]


def _compared(
    result: Result, best: str, policy: str, compared: dict[str, tuple[Comparison, ...]]
) -> tuple[Comparison, ...]:
    """Uniform full fidelity against an allocator under every budget, each pair once; nothing without samples."""
    if result.samples is None:
        return ()
    if best not in compared:
        compared[best] = compare(result, UNIFORM, f"{best}{AT}{policy}")
    return compared[best]


def _leader(difference: float | None) -> str | None:
    if difference is None:
        return None
    return "neither" if abs(difference) <= ROUNDING else "uniform" if difference > 0 else "allocator"


def over_cells(rows: Sequence[UniformRow]) -> list[UniformCount]:
    """One row per budget, in the order in which they are met."""
    met: dict[BudgetKey, list[UniformRow]] = {}
    for row in rows:
        met.setdefault(row.budget, []).append(row)
    found = []
    for budget, members in met.items():
        leaders, verdicts = [row.leader for row in members], [row.verdict for row in members]
        found.append(
            UniformCount(
                **budget.fields,
                cells=len(members),
                fits=sum(row.fits for row in members),
                compared=sum(leader is not None for leader in leaders),
                leads=leaders.count("uniform"),
                behind=leaders.count("allocator"),
                better=verdicts.count("better"),
                worse=verdicts.count("worse"),
                raises=sum(row.fits and row.uniform is not None and row.uniform < 0 for row in members),
            )
        )
    return found


def table(rows: Sequence[UniformRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "budget", "fits from", "uniform", "nDG", "best allocator", "removes", "nDG", "difference", "95 %")
    texts = [
        (
            *(row.cell, row.budget.label, percent(row.uniform_from, 1)),
            percent(row.uniform) if row.fits else "inf.",
            number(row.uniform_ndg),
            row.best or MISSING,
            *(percent(row.best_share), number(row.best_ndg), percent(row.difference), span(row.lo, row.hi, percent)),
        )
        for row in rows
    ]
    policies = ", ".join(dict.fromkeys(row.policy for row in rows))
    notes = (
        f"uniform, removes: shares of the all-cheap loss. Allocators pay for themselves ({policies}); the best is the "
        "best on these units, in hindsight.",
    )
    return Table("Uniform full fidelity against the best allocator", header, lines_of(texts), notes)


def over_cells_table(rows: Sequence[UniformCount]) -> Table:
    """The counts as a table."""
    header = ("budget", "cells", "fits", "compared", "leads", "behind", "better", "worse", "raises the loss")
    texts = [
        (
            row.budget.label,
            *map(str, (row.cells, row.fits, row.compared, row.leads, row.behind, row.better, row.worse, row.raises)),
        )
        for row in rows
    ]
    return Table("Where uniform full fidelity leads", header, lines_of(texts))


def chart(rows: Sequence[UniformRow]) -> Chart:
    """Uniform full fidelity less the best allocator in every cell in which both can run."""
    dots = (
        Dot(row.cell, row.budget.label, row.difference, row.lo, row.hi) for row in rows if row.difference is not None
    )
    return shares("Uniform full less the best allocator, share of the all-cheap loss", dots, line=0.0)
