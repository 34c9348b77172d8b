"""`deepval analyse perception-ranking` and `selection-regret`: choosing allocators by what they do for perception."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from deepval.cells import study
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.cells.ledger import note_looks
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Cells, Form, Out, Shown
from deepval.cli.options import Alphas, DrawNumber, Json, Seed
from deepval.judging.budgets import Selection

Recipes = Annotated[
    list[str] | None,
    typer.Option("--allocator", "-a", help="Recipe to fit and rank among the others. Repeatable. Default: none."),
]
Losses = Annotated[
    list[str] | None,
    typer.Option("--loss", help="Perception loss, E1 to E8. Repeatable. Default: all that are defined."),
]


def perception_ranking(
    cells: Cells,
    *,
    allocator: Recipes = None,
    loss: Losses = None,
    alpha: Alphas = None,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how often the best signals by perception gain and by decision gain are different ones.

    Example: deepval analyse perception-ranking cells/braking-monocular cells/braking-oracle -a gate-ridge
    """
    from deepval.analyses import perception_ranking as analysis

    told = Shown.of(form, json=json, out=out)
    losses, alphas = _checked(allocator, loss, alpha)
    built = shown.named(cells)
    scores = _scored(built, allocator, units="fit")
    diagnostics = {name: study.diagnosed(cell) for name, cell in options.watch(list(built.items()), "diagnostics")}
    rows = analysis.rows(built, scores, diagnostics, losses=losses, alphas=alphas)
    note_looks(built.values(), by="analyse perception-ranking")
    told.tell(rows, analysis.table, analysis.cells_table)


def selection_regret(
    cells: Cells,
    *,
    allocator: Recipes = None,
    loss: Losses = None,
    alpha: Alphas = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Choose on validation units by perception gain and by decision gain, and show what the first costs on test units.

    Example: deepval analyse selection-regret cells/braking-monocular cells/braking-oracle --loss E1 --loss E8
    """
    from deepval.analyses import selection_regret as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    losses, alphas = _checked(allocator, loss, alpha)
    built = shown.named(cells)
    scores = _scored(built, allocator, units="train")
    rows = analysis.rows(
        built,
        scores,
        losses=losses,
        alphas=alphas,
        draws=number,
        seed=start,
        watch=options.watch,
    )
    note_looks(built.values(), by="analyse selection-regret")
    told.tell(rows, analysis.table, analysis.cells_table)


def _checked(
    recipes: list[str] | None, losses: list[str] | None, alphas: list[float] | None
) -> tuple[list[str] | None, list[float]]:
    """Losses and shares, all that is named known."""
    from deepval.allocators import recipe_named
    from deepval.analyses.pools import ALPHAS, checked_losses

    for name in recipes or ():
        recipe_named(name)
    return losses and checked_losses(losses), [Selection(each).alpha for each in alphas or ALPHAS]


def _scored(
    cells: Mapping[str, BuiltCell], recipes: Sequence[str] | None, *, units: str
) -> dict[str, dict[str, Scored]]:
    from deepval.allocators.signals import SIGNALS
    from deepval.analyses.pools import FREE

    signals = [name for name in FREE if name in SIGNALS]
    return {
        name: study.scored_by_all(cell, recipes or (), signals=signals, units=units, lenient=True)
        for name, cell in options.watch(list(cells.items()), "scoring")
    }
