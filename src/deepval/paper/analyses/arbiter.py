"""Cells and scores -> the budget-adaptive arbiter: at each budget the allocator that
gains most on validation units.

docs/definitions.md, Arbiter. Learned allocators must be fitted on training units only;
the choice is judged once, on the test units.

At each budget the allocator with the largest gain on validation units, and its nDG on
test units beside that of one allocator for all budgets. Candidates are signals without
a fit and the recipes of --allocator, fitted on training units.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deepval.allocators.allocator import SIGNALS
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.errors import InputError, InputWarning
from deepval.fit_targets import arbiter
from deepval.judging.allowances import LEVELS, Budget, Selection
from deepval.judging.cases import judge, shared_seeds
from deepval.paper.analyses.selection_regret import RANDOM, not_chosen_on, pools
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellName,
    column,
    declared_table,
    high,
    level,
    loss_table,
    low,
    or_nothing,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, number, percent
from deepval.results import Result, row_from, share_of


@dataclass(frozen=True)
class ArbiterRow(CellName):
    """The choice at one budget, and what it is worth on the test units."""

    pool: str = column(
        "Allocators to choose from: every one that scores all inputs, "
        "or the learned ones",
        "pool",
    )
    candidates: tuple[str, ...] = column("Their names")
    alpha: float = column("Share of inputs that may be escalated", "budget", level)
    choice: str = column(
        "Allocator with the largest gain on the validation units", "choice"
    )
    validation_share: float | None = column(
        "Its gain there, as a share of the all-cheap loss; None "
        "if that loss is not positive",
        "validation",
        percent,
    )
    ndg: float | None = column(
        "nDG of the choice on the test units; None if undefined", "nDG", number
    )
    ndg_lo: float | None = low(heading="95 %")
    ndg_hi: float | None = high()
    verdict: str | None = column(
        "Verdict on it against random: better, worse or unresolved",
        "verdict",
        or_nothing,
    )
    fixed: str = column(
        "Allocator with the largest gain on the validation units, "
        "summed over the budgets",
        "fixed",
    )
    fixed_ndg: float | None = column(
        "nDG of that one allocator on the test units", "its nDG", number
    )
    best: str = column(
        "Allocator with the largest gain on the test units, in hindsight",
        "in hindsight",
    )
    best_ndg: float | None = column("Its nDG there")


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scored]],
    *,
    alphas: Sequence[float] = LEVELS,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[ArbiterRow]:
    """One row per cell, pool and budget.

    Args:
        cells: Cells by name; those with too few validation or test inputs are left out
            with a warning.
        scores: Per cell, scores of all inputs by signals and by allocators fitted on
            the training units.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of units, or "exact".
        seed: Their seed; each data set uses a child seed.
        watch: Progress reporting.
    """
    budgets, records, reasons = [Selection(alpha) for alpha in alphas], [], {}
    seeds = shared_seeds(cells, seed)
    for name, cell in watch(list(cells.items()), "arbiter"):
        reasons[name] = not_chosen_on(cell) or _lacking(cell, scores[name])
        if reasons[name] is None:
            records += _rows(
                name, cell, scores[name], budgets, draws=draws, seed=seeds[name]
            )
    words = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    if not records:
        raise InputError(
            f"There must be a cell to choose on; found none ({'; '.join(words)})."
        )
    for sentence in words:
        warnings.warn(InputWarning(f"Left out, {sentence}."), stacklevel=2)
    return records


def _lacking(cell: BuiltCell, scored: Mapping[str, Scored]) -> str | None:
    return (
        None
        if _pools(cell, scored)
        else "no allocator scores every validation and test input"
    )


def _pools(cell: BuiltCell, scored: Mapping[str, Scored]) -> dict[str, list[str]]:
    """The allocators to choose from: all that score every validation and test input,
    and the learned among them.
    """
    members = [
        {
            name
            for pool in ("target-free", "learned")
            for name in pools(scored, loss_table(cell, units)).get(pool, ())
        }
        for units in ("validation", "test")
    ]
    every = [
        name for name in scored if name in members[0] & members[1] and name != RANDOM
    ]
    learned = [name for name in every if name not in SIGNALS]
    named = {"every": every, "learned": learned if learned != every else []}
    return {pool: names for pool, names in named.items() if names}


def _rows(
    name: str,
    cell: BuiltCell,
    scored: Mapping[str, Scored],
    budgets: Sequence[Budget],
    *,
    draws: int | Literal["exact"],
    seed: int,
) -> list[ArbiterRow]:
    validation, named, records = (
        loss_table(cell, "validation"),
        _pools(cell, scored),
        [],
    )
    used = {
        candidate: scored[candidate] for names in named.values() for candidate in names
    }
    # The runner notes the look at test units.
    result = judge(cell, used, budgets, command=None, draws=draws, seed=seed)
    for pool, names in named.items():
        own = {
            candidate: used[candidate].over(validation).values for candidate in names
        }
        chosen = arbiter(
            own, validation.decision_values, alphas=[budget.alpha for budget in budgets]
        )
        fixed = max(
            names,
            key=lambda candidate: sum(
                gains[candidate] for gains in chosen.gains.values()
            ),
        )
        for alpha, choice in chosen.choice.items():
            row, best = (
                result.row(choice, "selection", alpha),
                _best(result, names, alpha),
            )
            records.append(
                row_from(
                    row,
                    ArbiterRow,
                    cell=name,
                    pool=pool,
                    candidates=tuple(names),
                    choice=choice,
                    validation_share=share_of(
                        chosen.gains[alpha][choice], validation.cheap_loss
                    ),
                    fixed=fixed,
                    fixed_ndg=result.row(fixed, "selection", alpha).ndg,
                    best=best,
                    best_ndg=result.row(best, "selection", alpha).ndg,
                )
            )
    return records


def _best(result: Result, names: Sequence[str], alpha: float) -> str:
    return max(names, key=lambda name: result.row(name, "selection", alpha).gain or 0.0)


def table(rows: Sequence[ArbiterRow]) -> Table:
    """The rows as a table."""
    choices: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        choices.setdefault((row.cell, row.pool), set()).add(row.choice)
    same = sum(len(names) == 1 for names in choices.values())
    notes = (
        "choice: largest gain on the validation units at this budget, fitted on the "
        "training units; nDG on the test units, verdict against random. fixed: the "
        "one allocator of the largest gain over all budgets.",
        (
            f"One allocator is chosen at every budget in {same} of {len(choices)} "
            "cases of cell and pool."
        ),
    )
    extra = ("in hindsight", "validation")
    return declared_table(
        ArbiterRow,
        rows,
        "The budget-adaptive arbiter",
        notes=notes,
        group=("cell", "pool"),
        extra=extra,
    )


def chart(rows: Sequence[ArbiterRow]) -> Chart:
    """The nDG of the choice and of the one fixed allocator, by budget."""
    dots = []
    for row in rows:
        label = f"{row.cell}, {row.pool}, {row.alpha:.0%}"
        dots.append(Dot(label, "arbiter", row.ndg, row.ndg_lo, row.ndg_hi))
        dots.append(Dot(label, "fixed", row.fixed_ndg))
    return plain("nDG on the test units", dots, line=0.0)


ARBITER = declare(
    __name__,
    shows="Choose an allocator for each budget",
    see="definitions.md#arbiter",
    paper="budget-adaptive arbiter",
    example="cells/braking-monocular -a router-gbm-value -a router-mlp-value",
    takes={"cells": "cells", "scores": "train_scores"},
    by="cell",
    judges=True,
)
