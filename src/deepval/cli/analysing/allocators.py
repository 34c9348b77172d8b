"""`deepval analyse seeds`, `transfer`, `out-of-fold`: recipes fitted on cells -> what their results depend on."""

from collections.abc import Sequence
from typing import Annotated

import typer

from deepval.cells.evaluation_data import note_looks
from deepval.cli import options
from deepval.cli.analysing.shown import Alpha, Cells, Shown
from deepval.cli.groups import Drawn, WhoWorks
from deepval.judging.budgets import Selection

Recipes = Annotated[list[str], typer.Option("--allocator", "-a", help="Recipe to fit. Repeatable.")]


def seeds(
    sources: Cells,
    *,
    allocator: Recipes,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds: 0, 1, ...")] = 6,
    alpha: Alpha = 0.2,
    output: Shown,
) -> None:
    """Show how results depend on the seed of training: nDG by seed, its span, and whether scores are the same bits.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    """
    from deepval.paper.analyses import seeds as analysis

    _check(allocator, [alpha])
    built = sources.named()
    rows = analysis.rows(built, allocator, seeds=seeds, alpha=alpha, watch=options.watch)
    note_looks(built.values(), by="analyse seeds")
    output.tell(rows, analysis.table)


def transfer(sources: Cells, *, allocator: Recipes, alpha: Alpha = 0.2, output: Shown) -> None:
    """Show what a router fitted for one consumer is worth to another, and its regret against one fitted there.

    Example: deepval analyse transfer cells/braking-monocular cells/receding-horizon-monocular -a gate-ridge
    """
    from deepval.paper.analyses import transfer as analysis

    _check(allocator, [alpha])
    built = sources.by_path()
    rows = analysis.rows(built, allocator, alphas=[alpha], watch=options.watch)
    note_looks(built.values(), by="analyse transfer")
    output.tell(rows, analysis.table)


def out_of_fold(
    sources: Cells,
    *,
    allocator: Annotated[
        list[str] | None, typer.Option("--allocator", "-a", help="Recipe to fit. Repeatable. Default: all.")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", help="Into how many folds units are dealt.")] = 5,
    alpha: options.Alphas = None,
    drawn: Drawn,
    who: WhoWorks,
    output: Shown,
) -> None:
    """Show recipes out of fold over all units, test units among them: such numbers are released, never scored.

    Example: deepval analyse out-of-fold cells/braking-monocular -a gate-ridge -a gate-gbm
    """
    from deepval.paper.analyses import out_of_fold as analysis

    options.at_least(folds, 2, "--folds")
    shares = list(alpha or analysis.ALPHAS)
    _check(allocator or (), shares)
    built = sources.named()
    with who.hired() as engine:
        rows = analysis.rows(
            built,
            allocator,
            folds=folds,
            alphas=shares,
            **drawn.settings,
            map_fits=engine.map,
            watch=options.watch,
        )
    note_looks(built.values(), by="analyse out-of-fold")
    output.tell(rows, analysis.table)


def _check(recipes: Sequence[str], alphas: Sequence[float]) -> None:
    from deepval.allocators import recipe_named

    for alpha in alphas:
        Selection(alpha)
    for name in recipes:
        recipe_named(name)
