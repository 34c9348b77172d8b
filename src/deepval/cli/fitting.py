"""`deepval fit` and `deepval score`: a built cell -> a fitted allocator's file; a cell and an allocator -> scores."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.allocators import RECIPES, PixelRecipe, read_allocator
from deepval.benchmark import fitting
from deepval.benchmark.column_files import csv_text, parquet_bytes
from deepval.benchmark.folder import read_cell
from deepval.cli import options
from deepval.cli.options import Json
from deepval.errors import InputError
from deepval.files import check_writable, write_atomically
from deepval.targets import TARGETS

NAMES = (*RECIPES, PixelRecipe.name)
CellFolder = Annotated[Path, typer.Argument(help="Folder of a cell that `deepval build` wrote.")]


def fit(
    cell: CellFolder,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the fitted allocator (.json).")],
    allocator: Annotated[str | None, typer.Option("--allocator", "-a", help=f"{', '.join(NAMES)}.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help=f"What to predict; its own if not given. {', '.join(TARGETS)}.")
    ] = None,
    units: Annotated[
        str | None, typer.Option("--units", help="fit (train and validation; the default), train, or a,b,c.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of what is random in the fit. Default: 0.")] = None,
    like: Annotated[
        Path | None, typer.Option("--like", help="Fit again as this file was: same bytes on the same cell.")
    ] = None,
    json: Json = False,
) -> None:
    """Fit an allocator on a cell's training and validation units and write it to a plain file.

    Example: deepval fit cells/braking-monocular --allocator gate-gbm --out gate-gbm.json
    """
    if (allocator is None) == (like is None):
        raise InputError("Give --allocator, or --like with the file of one: exactly one of them.")
    told = {"--target": target, "--units": units, "--seed": seed}
    ignored = [option for option, given in told.items() if given is not None]
    if like is not None and ignored:
        raise InputError(f"--like takes target, units and seed from its file: leave {' and '.join(ignored)} out.")
    check_writable(out)
    start = options.at_least(seed or 0, 0, "--seed")
    built = read_cell(cell)
    if like is not None:
        made = fitting.refit(built, read_allocator(like), watch=options.watch)
    else:
        made = fitting.fit_on(
            built, str(allocator), target=target, units=units or "fit", seed=start, watch=options.watch
        )
    made.save(out)
    used = made.training
    if json:
        content = {"allocator": made.name, "file": str(out), "target": used.target, "units": list(used.units)}
        typer.echo(options.as_json(content | {"inputs": used.inputs, "seed": used.seed}), nl=False)
        return
    typer.echo(f"{out}: {made.name} for {used.target}, fitted on {used.inputs:,} inputs of {len(used.units)} units.")


def score(
    cell: CellFolder,
    allocator: Annotated[str, typer.Argument(help="File of a fitted allocator, or a signal or diagnostic by name.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the scores (.csv, .parquet).")],
    units: Annotated[
        str, typer.Option("--units", help="test, validation, train, fit, all, or a,b,c: whose inputs to score.")
    ] = "test",
    json: Json = False,
) -> None:
    """Score a cell's inputs by a fitted allocator, a signal or a diagnostic; what has no score is left out and counted.

    Example: deepval score cells/braking-monocular gate-gbm.json --out gate-gbm.csv
    """
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: the name must end in .csv or .parquet.")
    check_writable(out)
    found = fitting.score_on(read_cell(cell), allocator, units=units)
    if not len(found.input):
        raise InputError(f"{found.name} has no score for any of the {found.inputs:,} inputs: {found.reason}.")
    columns = found.columns()
    write_atomically(out, parquet_bytes(columns) if out.suffix == ".parquet" else csv_text(columns))
    if json:
        content = {"allocator": found.name, "kind": found.kind, "file": str(out), "inputs": found.inputs}
        more = {"scored": len(found.input), "coverage": found.coverage, "reason": found.reason}
        typer.echo(options.as_json(content | more), nl=False)
        return
    without = "" if found.reason is None else f"; {found.inputs - len(found.input):,} without, as {found.reason}"
    typer.echo(
        f"{out}: {len(found.input):,} of {found.inputs:,} inputs scored by {found.name} "
        f"(coverage {found.coverage:.1%}{without})."
    )
