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

from deepval.basics.errors import InputError, InputWarning
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.fitting import Scored
from deepval.deploy.labels import arbiter
from deepval.judge.allowances import LEVELS, Budget, Selection
from deepval.judge.cases import judge, shared_seeds
from deepval.judge.report.text_tables import Table, number, percent
from deepval.judge.results import Result, share_of
from deepval.paper.analyses.selection_regret import RANDOM, not_chosen_on, pools
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME
from deepval.paper.study import Cell, DrawCount, of_each, watched
from deepval.paper.tidy import Column, Dots, Estimate, Row, level, or_nothing, printed

COLUMNS = (
    NAME,
    Column(
        "pool",
        "Allocators to choose from: every one that scores all inputs, "
        "or the learned ones",
        heading="pool",
    ),
    Column("candidates", "Their names"),
    Column(
        "alpha", "Share of inputs that may be escalated", heading="budget", text=level
    ),
    Column(
        "choice",
        "Allocator with the largest gain on the validation units",
        heading="choice",
    ),
    Column(
        "validation_share",
        "Its gain there, as a share of the all-cheap loss; None "
        "if that loss is not positive",
        heading="validation",
        text=percent,
    ),
    Column(
        "ndg",
        "nDG of the choice on the test units; None if undefined",
        heading="nDG",
        text=number,
        bounds="95 %",
    ),
    Column(
        "verdict",
        "Verdict on it against random: better, worse or unresolved",
        heading="verdict",
        text=or_nothing,
    ),
    Column(
        "fixed",
        "Allocator with the largest gain on the validation units, "
        "summed over the budgets",
        heading="fixed",
    ),
    Column(
        "fixed_ndg",
        "nDG of that one allocator on the test units",
        heading="its nDG",
        text=number,
    ),
    Column(
        "best",
        "Allocator with the largest gain on the test units, in hindsight",
        heading="in hindsight",
    ),
    Column("best_ndg", "Its nDG there"),
)
"""The choice at one budget, and what it is worth on the test units."""


def rows(
    cells: Sequence[Cell],
    *,
    alphas: Sequence[float] = LEVELS,
    draws: DrawCount = 1000,
    seed: int = 0,
) -> list[Row]:
    """One row per cell, pool and budget.

    Args:
        cells: The cells; those with too few validation or test inputs are left out with
            a warning.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of units, or "exact".
        seed: Their seed; each data set uses a child seed.
    """
    budgets = [Selection(alpha) for alpha in alphas]
    records = []
    reasons = {}
    scores = of_each(cells, "train_scores")
    seeds = shared_seeds({cell.name: cell.cell for cell in cells}, seed)
    for cell in watched(cells, "arbiter"):
        scored = scores[cell.name]
        reasons[cell.name] = not_chosen_on(cell.cell) or _lacking(cell, scored)
        if reasons[cell.name] is None:
            records += _rows(cell, scored, budgets, draws=draws, seed=seeds[cell.name])
    words = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    if not records:
        raise InputError(
            f"There must be a cell to choose on; found none ({'; '.join(words)})."
        )
    for sentence in words:
        warnings.warn(InputWarning(f"Left out, {sentence}."), stacklevel=2)
    return records


def _lacking(cell: Cell, scored: Mapping[str, Scored]) -> str | None:
    return (
        None
        if _pools(cell, scored)
        else "no allocator scores every validation and test input"
    )


def _pools(cell: Cell, scored: Mapping[str, Scored]) -> dict[str, list[str]]:
    """The allocators to choose from: all that score every validation and test input,
    and the learned among them.
    """
    members = [
        {
            name
            for pool in ("target-free", "learned")
            for name in pools(scored, cell.inputs(units).table).get(pool, ())
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
    cell: Cell,
    scored: Mapping[str, Scored],
    budgets: Sequence[Budget],
    *,
    draws: DrawCount,
    seed: int,
) -> list[Row]:
    validation = cell.inputs("validation").table
    named = _pools(cell, scored)
    records = []
    used = {
        candidate: scored[candidate] for names in named.values() for candidate in names
    }
    # The runner notes the look at test units.
    result = judge(cell.cell, used, budgets, command=None, draws=draws, seed=seed)
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
                {
                    "cell": cell.name,
                    "pool": pool,
                    "candidates": tuple(names),
                    "alpha": row.alpha,
                    "choice": choice,
                    "validation_share": share_of(
                        chosen.gains[alpha][choice], validation.cheap_loss
                    ),
                    "ndg": Estimate(row.ndg, row.ndg_lo, row.ndg_hi),
                    "verdict": row.verdict,
                    "fixed": fixed,
                    "fixed_ndg": result.row(fixed, "selection", alpha).ndg,
                    "best": best,
                    "best_ndg": result.row(best, "selection", alpha).ndg,
                }
            )
    return records


def _best(result: Result, names: Sequence[str], alpha: float) -> str:
    return max(names, key=lambda name: result.row(name, "selection", alpha).gain or 0.0)


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    choices: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        choices.setdefault((row["cell"], row["pool"]), set()).add(row["choice"])
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
    return [
        printed(
            "The budget-adaptive arbiter",
            COLUMNS,
            rows,
            notes=notes,
            group=("cell", "pool"),
            extra=extra,
        )
    ]


ARBITER = Analysis(
    name="arbiter",
    shows="Choose an allocator for each budget",
    see="definitions.md#arbiter",
    paper="budget-adaptive arbiter",
    example="cells/braking-monocular -a router-gbm-value -a router-mlp-value",
    asks=("train_scores",),
    by="cell",
    judges=True,
    details=(
        "At each budget the allocator with the largest gain on validation units, and "
        "its nDG on test units beside that of one allocator for all budgets. "
        "Candidates are signals without a fit and the recipes of --allocator, fitted "
        "on training units."
    ),
    rows=rows,
    columns=COLUMNS,
    charts=[
        Dots(
            "nDG on the test units",
            {"arbiter": "ndg", "fixed": "fixed_ndg"},
            label="{cell}, {pool}, {alpha:.0%}",
            percent=False,
            line=0.0,
        )
    ],
    tables=tables,
)
