"""Cells and recipes -> nDG over all units, each scored by an allocator fitted on other units; not official numbers.

Every recipe is fitted once per fold of units, test units among them, and its scores are judged on all units. The paper
releases such numbers and does not score them: docs/definitions.md, Out of fold.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Annotated, Literal

from deepval.cells.fitting import Scored, out_of_fold, recipes_for
from deepval.cells.folder import BuiltCell
from deepval.cells.judgement import judge, shared_seeds
from deepval.engines import Map
from deepval.errors import InputError, InputWarning, NothingToLearnError
from deepval.judging.allowances import LEVELS, Selection
from deepval.paper.analyses.contrasts import GATES
from deepval.paper.analysis import FIRST_OF_PAIR, Option, declare
from deepval.paper.row_columns import AllocatorName, CellName, column, high, low
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, TableCell, interval, mark_of, number, percent
from deepval.results import HEADLINE, BudgetRecord, Result, row_from

STANDING = "out of fold over all units: released, not scored"
RANDOM = "random"


@dataclass(frozen=True)
class OutOfFoldRow(BudgetRecord, AllocatorName, CellName):
    """One recipe of a cell under one selection budget, out of fold over all units."""

    kind: str = column("Kind of budget: selection")
    alpha: float = column("Share of inputs that may be escalated")
    standing: str = column("Standing of the number: released, not scored")
    folds: int = column("Number of folds of units")
    units: int = column("Number of units judged on, all of the cell")
    test_units: int = column("Test units among them")
    inputs: int = column("Number of inputs")
    ndg: float | None = column("nDG")
    ndg_lo: float | None = low("Lower end of its 95 % interval over all units")
    ndg_hi: float | None = high()
    versus_random: float | None = column("Paired difference with random, as a share of the all-cheap loss")
    versus_random_lo: float | None = low("Lower end of its paired 95 % interval")
    versus_random_hi: float | None = high()
    verdict: str | None = column("better, worse or unresolved against random, over all units")
    held_out_ndg: float | None = column(
        "The official number for comparison: nDG on test units if fitted on all other units; None without results"
    )
    reason: str | None = column("Why something is None")


def rows(
    cells: Mapping[str, BuiltCell],
    recipes: Iterable[str] | None = GATES,
    results: Mapping[str, Result] | None = None,
    *,
    folds: Annotated[int, Option("Number of folds.", limits=(2, 1_000))] = 5,
    alphas: Sequence[float] = LEVELS,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    map_fits: Map = map,
    watch: Watch = unwatched,
) -> list[OutOfFoldRow]:
    """One row per cell, budget and recipe, random first.

    Args:
        cells: Cells by name.
        recipes: Recipes to fit; None for all that apply to a cell.
        results: Judgements on the test units of each cell, shown for comparison.
        folds: Number of folds of units.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of all units, or "exact".
        seed: Their seed.
        map_fits: Maps a function over folds, in this process or in workers.
        watch: Progress reporting.
    """
    if folds < 2:
        raise InputError(f"Out-of-fold scores need two folds or more; found {folds}.")
    budgets, names = [Selection(alpha) for alpha in alphas], None if recipes is None else list(recipes)
    seeds = shared_seeds(cells, seed, units="all")
    records = []
    for name, cell in cells.items():
        available = recipes_for(cell)
        chosen = available if names is None else [name for name in names if name in available]
        scored = _scored(name, cell, chosen, partial(out_of_fold, folds=folds, map_fits=map_fits), watch)
        units, drawn = list(cell.split.units), {"draws": draws, "seed": seeds[name]}
        # The runner notes the look at test units for all recipes at once.
        result = judge(cell, scored, budgets, command=None, units=units, missing="worst", **drawn)
        official = (results or {}).get(name)
        for allocator in (RANDOM, *scored):
            for budget in budgets:
                row = result.row(allocator, "selection", budget.alpha)
                setting = {"cell": name, "standing": STANDING, "folds": folds, "test_units": len(cell.split.test)}
                held_out = _official(official, allocator, budget.alpha)
                records.append(row_from(row, OutOfFoldRow, **setting, held_out_ndg=held_out))
    return records


def _scored(
    name: str, cell: BuiltCell, recipes: Sequence[str], scores: Callable[[BuiltCell, str], Scored], watch: Watch
) -> dict[str, Scored]:
    """Scores by each recipe; a recipe that cannot be fitted in some fold is left out with a warning."""
    by_recipe = {}
    for recipe in watch(list(recipes), f"folds of {name}"):
        try:
            by_recipe[recipe] = scores(cell, recipe)
        except NothingToLearnError as error:
            warnings.warn(f"{name}, left out: {error}", InputWarning, stacklevel=2)
    return by_recipe


def _official(result: Result | None, allocator: str, alpha: float) -> float | None:
    rows = () if result is None else result.rows
    numbers = (row.ndg for row in rows if (row.allocator, row.kind, row.alpha) == (allocator, "selection", alpha))
    return next(numbers, None)


def table(rows: Sequence[OutOfFoldRow]) -> Table:
    """Out-of-fold nDG by budget, a section for each cell, with the official number at the headline budget."""
    alphas = sorted({row.alpha for row in rows})
    at = min(alphas, key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    header = ("cell", "allocator", *(percent(alpha, 0) for alpha in alphas), f"95 % at {percent(at, 0)}")
    header = (*header, f"held out, {percent(at, 0)}")
    sections = []
    for cell, group in groupby(rows, key=lambda row: row.cell):
        members, lines = list(group), []
        for name in dict.fromkeys(row.allocator for row in members):
            own = {row.alpha: row for row in members if row.allocator == name}
            head = own[at]
            lines.append(
                (
                    TableCell("" if lines else cell),
                    TableCell(name),
                    *(
                        TableCell(number(row.ndg) + "+" * (row.verdict == "better"), mark_of(row.verdict))
                        for row in (own[alpha] for alpha in alphas)
                    ),
                    TableCell(interval(head.ndg_lo, head.ndg_hi)),
                    TableCell(number(head.held_out_ndg)),
                )
            )
        sections.append(tuple(lines))
    notes = (
        f"nDG {STANDING}. Each unit is scored by a fit on the units of the other folds, and test units are opened.",
        "+ and bold: better than random over all units, at 95 %; asterisk: worse. held out: the official number, on "
        "test units.",
    )
    return Table(f"Allocators {STANDING}", header, tuple(sections), notes, (header[-2],))


def chart(rows: Sequence[OutOfFoldRow]) -> Chart:
    """Out-of-fold nDG at the headline budget beside the official one."""
    at = min((row.alpha for row in rows), key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    dots = []
    for row in rows:
        if row.alpha == at:
            label = f"{row.cell}: {row.allocator}"
            dots.append(Dot(label, "out of fold, not scored", row.ndg, row.ndg_lo, row.ndg_hi))
            dots.append(Dot(label, "held out", row.held_out_ndg))
    return plain(f"nDG at {at:.0%}, {STANDING}", dots, line=0.0)


OUT_OF_FOLD = declare(
    __name__,
    shows="Show allocators out of fold over all units",
    details=(
        "Allocators over all units, each unit scored by a fit on the others. These numbers are released, not scored."
    ),
    see="definitions.md#out-of-fold",
    paper="held-out allocation",
    example="cells/braking-monocular -a gate-ridge -a gate-gbm",
    kind=OutOfFoldRow,
    takes={"cells": "cells", "results": "free"},
    by="cell",
    judges=True,
    among=FIRST_OF_PAIR,
)
