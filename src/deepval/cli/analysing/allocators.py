"""`deepval analyse seeds`, `transfer`, `out-of-fold`: recipes fitted on cells -> what their results depend on."""

from collections.abc import Sequence
from typing import Annotated

import typer

from deepval.cells.ledger import note_looks
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Alpha, Cells, Form, Out, Shown
from deepval.cli.options import Json
from deepval.engines import engine as making
from deepval.errors import InputError
from deepval.judging.budgets import Selection

Recipes = Annotated[list[str], typer.Option("--allocator", "-a", help="Recipe to fit. Repeatable.")]


def seeds(
    cells: Cells,
    *,
    allocator: Recipes,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds: 0, 1, ...")] = 6,
    alpha: Alpha = 0.2,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how results depend on the seed of training: nDG by seed, its span, and whether scores are the same bits.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    """
    from deepval.analyses import seeds as analysis

    told = Shown.of(form, json=json, out=out)
    number = seeds
    _check(allocator, alpha)
    built = shown.named(cells)
    rows = analysis.rows(built, allocator, seeds=number, alpha=alpha, watch=options.watch)
    note_looks(built.values(), by="analyse seeds")
    told.tell(rows, analysis.table)


def transfer(
    cells: Cells,
    *,
    allocator: Recipes,
    seeds: Annotated[int | None, typer.Option("--seeds", hidden=True)] = None,
    alpha: Alpha = 0.2,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what a router fitted for one consumer is worth to another, and its regret against one fitted there.

    Example: deepval analyse transfer cells/braking-monocular cells/receding-horizon-monocular -a gate-ridge
    """
    from deepval.analyses import transfer as analysis

    told = Shown.of(form, json=json, out=out)
    if seeds is not None:
        raise InputError("--seeds is an option of the analysis seeds; transfer fits with seed 0: leave it out.")
    _check(allocator, alpha)
    built = shown.read_all(cells)
    rows = analysis.rows(built, allocator, alphas=[alpha], watch=options.watch)
    note_looks(built.values(), by="analyse transfer")
    told.tell(rows, analysis.table)


def out_of_fold(
    cells: Cells,
    *,
    allocator: Annotated[
        list[str] | None, typer.Option("--allocator", "-a", help="Recipe to fit. Repeatable. Default: all.")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", help="Into how many folds units are dealt.")] = 5,
    alpha: options.Alphas = None,
    draws: options.DrawNumber = "1000",
    seed: options.Seed = 0,
    form: Form = None,
    out: Out = None,
    engine: options.EngineName = "local",
    workers: options.Workers = 1,
    memory: options.Memory = None,
    address: options.Address = None,
    json: Json = False,
) -> None:
    """Show recipes out of fold over all units, test units among them: such numbers are released, never scored.

    Example: deepval analyse out-of-fold cells/braking-monocular -a gate-ridge -a gate-gbm
    """
    from deepval.analyses import out_of_fold as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    options.at_least(folds, 2, "--folds")
    shares = [Selection(each).alpha for each in alpha or analysis.ALPHAS]
    _check(allocator or (), shares[0])
    built = shown.named(cells)
    with making(engine, workers=workers, memory_mb=memory, address=address) as made_by:
        rows = analysis.rows(
            built,
            allocator,
            folds=folds,
            alphas=shares,
            draws=number,
            seed=start,
            map_fits=made_by.map,
            watch=options.watch,
        )
    note_looks(built.values(), by="analyse out-of-fold")
    told.tell(rows, analysis.table)


def _check(recipes: Sequence[str], alpha: float) -> None:
    from deepval.allocators import recipe_named

    Selection(alpha)
    for name in recipes:
        recipe_named(name)
