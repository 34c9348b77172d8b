"""Cells of several consumers -> what a router for one is worth to another:
docs/definitions.md, Seeds and transfer.

Only cells that share a data set and a geometry are paired, because only there a router
sees the same views.

What a router fitted for one consumer is worth to another, and its regret against one
fitted there.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from deepval.allocators import Recipe, recipe_by_name
from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.errors import InputWarning, NothingToLearnError
from deepval.judging.allowances import LEVELS, Selection
from deepval.judging.cases import judge
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    AllocatorName,
    column,
    declared_table,
    sees_the_same,
)
from deepval.paper.tidy import count, level, or_nothing, share
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, number
from deepval.results import HEADLINE
from deepval.tables.keys import positions

WITHOUT_EXTRAS = (
    *(
        "gate-ridge",
        "gate-gbm",
        "gate-gbm-memory",
        "router-mlp-value",
        "router-mlp-binary",
        "router-gbm-value",
    ),
    *("router-gbm-binary", "router-two-head", "router-recall"),
)
"""Recipes that need no optional library and give one score per input."""


@dataclass(frozen=True)
class Transfer(AllocatorName):
    """One allocator fitted on one cell and judged on the test units of another, or of
    its own.
    """

    source: str = column("Cell on which it was fitted", "fitted on")
    target: str = column("Cell on which it is judged", "judged on")
    alpha: float = column("Share of inputs that may be escalated")
    coverage: float = column(
        "Share of the judged inputs that it scores; the others are ranked last",
        "coverage",
        share,
    )
    common: float = column(
        "Share of the judged inputs that the source cell can judge too",
        "in common",
        share,
    )
    ndg: float | None = column("Its nDG; None if undefined", "nDG", number)
    regret: float | None = column(
        "Its nDG less that of the router fitted on the target, if any", "regret", number
    )
    verdict: str | None = column("Verdict against random", "verdict", or_nothing)


@dataclass(frozen=True)
class TransferCounts:
    """Transferred allocators over all budgets, and how many of them beat random at
    one.
    """

    entries: str = column(
        "Entries that count: all, or those whose allocator scores every judged input",
        "entries",
    )
    transfers: int = column(
        "Entries of another cell's allocator, over all budgets", "transfers", count
    )
    regret: float | None = column("Median of their regrets", "median regret", number)
    alpha: float = column("Share at which wins are counted", "wins at", level)
    others: int = column("Transferred entries at this share")
    others_better: int = column(
        "Transferred entries that beat random",
        "transferred",
        of_row=lambda row: f"{row.others_better} of {row.others}",
    )
    own: int = column(
        "Entries at this share whose allocator was fitted on the judged cell"
    )
    own_better: int = column(
        "Those that beat random",
        "own",
        of_row=lambda row: f"{row.own_better} of {row.own}",
    )


def rows(
    cells: Mapping[str, BuiltCell],
    recipes: Iterable[str | Recipe] = WITHOUT_EXTRAS,
    *,
    alphas: Iterable[float] = LEVELS,
    draws: int = 1000,
    watch: Watch = unwatched,
) -> list[Transfer]:
    """Every recipe, fitted on every cell and judged on every cell with the same
    views.
    """
    recipe_list = [
        recipe_by_name(recipe) if isinstance(recipe, str) else recipe
        for recipe in recipes
    ]
    names, budgets = (
        [recipe.name for recipe in recipe_list],
        [Selection(alpha) for alpha in alphas],
    )
    fitted = {}
    for name, cell in watch(list(cells.items()), "fitting"):
        for recipe in recipe_list:
            try:
                fitted[recipe.name, name] = fit_on(cell, recipe)
            except NothingToLearnError as error:
                warnings.warn(f"{name}, left out: {error}", InputWarning, stacklevel=2)
    records = []
    for target, cell in watch(list(cells.items()), "judging"):
        sources = [name for name, other in cells.items() if sees_the_same(other, cell)]
        scored = {
            (r, s): score_on(cell, fitted[r, s])
            for r in names
            for s in sources
            if (r, s) in fitted
        }
        scores = {
            f"{recipe} of {source}": item.over(cell.table)
            for (recipe, source), item in scored.items()
        }
        result = judge(
            cell, scores, budgets, command=None, draws=draws, missing="worst"
        )
        for (recipe, source), item in scored.items():
            for budget in budgets:
                row = result.row(f"{recipe} of {source}", "selection", budget.alpha)
                is_fitted = (recipe, target) in scored
                own = (
                    result.row(f"{recipe} of {target}", "selection", budget.alpha).ndg
                    if is_fitted
                    else None
                )
                regret = None if row.ndg is None or own is None else row.ndg - own
                key = (recipe, source, target, budget.alpha)
                common = float(
                    (positions(cell.table.input, cells[source].table.input) >= 0).mean()
                )
                records.append(
                    Transfer(*key, item.coverage, common, row.ndg, regret, row.verdict)
                )
    return records


def over_cells(rows: Sequence[Transfer]) -> list[TransferCounts]:
    """All entries, then those whose allocator scores every judged input."""
    at = min(
        (row.alpha for row in rows),
        key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha),
        default=HEADLINE,
    )
    records = []
    for name, among in (
        ("all", rows),
        ("fully covered", [row for row in rows if row.coverage == 1]),
    ):
        moved = [row for row in among if row.source != row.target]
        regrets = [row.regret for row in moved if row.regret is not None]
        there = [row for row in moved if row.alpha == at]
        own = [row for row in among if row.source == row.target and row.alpha == at]
        better = [
            sum(row.verdict == "better" for row in group) for group in (there, own)
        ]
        counts = (len(there), better[0], len(own), better[1])
        records.append(
            TransferCounts(
                name, len(moved), median(regrets) if regrets else None, at, *counts
            )
        )
    return records


def table(rows: Sequence[Transfer]) -> Table:
    """The rows as a table."""
    return declared_table(Transfer, rows, "Transfer between consumers")


def over_cells_table(rows: Sequence[TransferCounts]) -> Table:
    """The median and the counts as a table."""
    notes = (
        (
            "Descriptive counts over dependent entries. better: than random, at 95 %; "
            "own: fitted where it is judged."
        ),
    )
    return declared_table(
        TransferCounts,
        rows,
        "Transfer over all budgets, and wins against random",
        notes=notes,
    )


def chart(rows: Sequence[Transfer]) -> Chart:
    """Regret of each transferred router, by the recipe."""
    dots = [
        Dot(
            f"{row.source} for {row.target}, {row.alpha:.0%}", row.allocator, row.regret
        )
        for row in rows
        if row.source != row.target
    ]
    return plain("nDG less that of the router fitted there", dots, line=0.0)


TRANSFER = declare(
    __name__,
    shows="Judge routers on another consumer",
    see="definitions.md#seeds-and-transfer",
    paper="transfer with coverage",
    example="cells/braking-monocular cells/receding-horizon-monocular -a gate-ridge",
    by="view",
    least=2,
    judges=True,
    names="path",
)
