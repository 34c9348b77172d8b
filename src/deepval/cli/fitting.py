"""`deepval fit`, `score` and `export`: a built cell -> a fitted allocator's file, its scores, its ONNX graph."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from deepval.allocators import RECIPES, FittedAllocator, Learned, PixelRouter, read_allocator, recipe_named
from deepval.allocators.exporting import exported
from deepval.cells import fitting
from deepval.cells.case import SCORES
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.splits import ROLES
from deepval.cli import options
from deepval.cli.groups import WhoWorks
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files.writing import check_writable, write_atomically
from deepval.report.tables import counted
from deepval.tables.column_files import csv_text, parquet_bytes
from deepval.targets import TARGETS

ALL = "all"
CellFolder = Annotated[Path, typer.Argument(help="Folder of a cell that `deepval build` wrote.")]


def fit(
    cell: CellFolder,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the fitted allocator, or folder for several. Default: CELL/allocators/NAME.json.",
        ),
    ] = None,
    allocator: Annotated[
        list[str] | None,
        typer.Option("--allocator", "-a", help=f"{', '.join(RECIPES)}; all for those without extra. Repeatable."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help=f"What to predict; its own if not given. {', '.join(TARGETS)}.")
    ] = None,
    units: Annotated[
        str | None, typer.Option("--units", help="fit (train and validation; the default), train, a,b,c or a file.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of what is random in the fit. Default: 0.")] = None,
    like: Annotated[
        Path | None, typer.Option("--like", help="Fit again as this file was: same bytes on the same cell.")
    ] = None,
    who: WhoWorks,
    json: Json = False,
) -> None:
    """Fit allocators on a cell's training and validation units and write each to a plain file.

    Each is written when it is fitted, so what is finished stays. Folds are fitted by `deepval analyse out-of-fold`.

    Example: deepval fit cells/braking-monocular --allocator gate-gbm
    Several, two at a time: deepval fit cells/braking-monocular -a gate-gbm -a gate-ridge --workers 2
    """
    if (not allocator) == (like is None):
        raise InputError("Give --allocator, or --like with the file of one: exactly one of them.")
    told = {"--target": target, "--units": units, "--seed": seed}
    ignored = [option for option, given in told.items() if given is not None]
    if like is not None and ignored:
        raise InputError(f"--like takes target, units and seed from its file: leave {' and '.join(ignored)} out.")
    many = allocator is not None and (len(allocator) > 1 or ALL in allocator)
    if out is not None:
        check_writable(out, folder=many)
    built = read_cell(cell)
    items: list[Any] = _recipes(built, allocator or []) if like is None else [read_allocator(like)]
    told_of = {"target": target, "units": options.unit_list(units, ROLES) or "fit", "seed": seed or 0}
    work = partial(fitting.fit_on, built, **told_of) if like is None else partial(fitting.refit, built)
    described = []
    with who.hired() as made_by:
        alone = made_by.here and len(items) == 1
        fitted = made_by.map(partial(work, watch=options.watch) if alone else work, items)
        watched = items if alone else options.watch(items, f"allocators of {cell.name}")
        for _, made in zip(watched, fitted, strict=True):
            folder = out / f"{made.name}.json" if many and out is not None else out
            place = folder or fitting.fitted_file(cell, made.name)
            write_atomically(place, made.to_json(), make_folder=out is None or many)
            described.append((place, made))
    if json:
        content = [_described(place, made) for place, made in described]
        typer.echo(options.as_json(content if many else content[0]), nl=False)
        return
    for place, made in described:
        used = made.training
        fitted_on = f"{counted(used.inputs, 'input')} of {counted(len(used.units), 'unit')}"
        say(f"{place}: {made.name} for {used.target}, fitted on {fitted_on}.")


def _recipes(cell: BuiltCell, names: list[str]) -> list[str]:
    """Recipes by name, each once; `all` for those that make sense on the cell and need no extra."""
    from deepval.cells.study import recipes_for

    found = [name for told in names for name in (recipes_for(cell) if told == ALL else [told])]
    for name in found:
        recipe_named(name)
    return list(dict.fromkeys(found))


def _described(place: Path, made: FittedAllocator) -> dict[str, Any]:
    used = made.training
    content = {"allocator": made.name, "file": str(place), "target": used.target, "units": list(used.units)}
    return content | {"inputs": used.inputs, "seed": used.seed}


def score(
    cell: CellFolder,
    allocator: Annotated[
        str,
        typer.Argument(help="A fitted allocator (its file, or its name beside the cell), a signal or a diagnostic."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File for the scores (.csv, .parquet). Default: CELL/scores/NAME.csv."),
    ] = None,
    units: Annotated[
        str, typer.Option("--units", help="test, validation, train, fit, all, a,b,c or a file: whose inputs to score.")
    ] = "validation,test",
    json: Json = False,
) -> None:
    """Score a cell's inputs by a fitted allocator, a signal or a diagnostic; what has no score is left out and counted.

    Test units are judged and validation units calibrated on. An allocator that was fitted on validation units does not
    score them itself: the same recipe, fitted on the training units alone, does.

    Example: deepval score cells/braking-monocular gate-gbm
    """
    if out is not None:
        if out.suffix not in (".csv", ".parquet"):
            raise InputError(f"{out}: the name must end in .csv or .parquet.")
        check_writable(out)
    asked = options.unit_list(units, ROLES) or ()
    found = fitting.calibration_scores(read_cell(cell), allocator, units=asked, watch=options.watch)
    if not len(found.input):
        raise InputError(f"{found.name} has no score for any of the {found.inputs:,} inputs: {found.reason}.")
    columns = found.columns()
    place = out or cell / SCORES / f"{fitting.called(allocator)}.csv"
    content = parquet_bytes(columns) if place.suffix == ".parquet" else csv_text(columns)
    write_atomically(place, content, make_folder=out is None)
    if json:
        content = {"allocator": found.name, "kind": found.kind, "file": str(place), "inputs": found.inputs}
        more = {"scored": len(found.input), "coverage": found.coverage, "reason": found.reason, "fits": _fits(found)}
        typer.echo(options.as_json(content | more), nl=False)
        return
    without = "" if found.reason is None else f"; {found.inputs - len(found.input):,} without, as {found.reason}"
    say(
        f"{place}: {len(found.input):,} of {found.inputs:,} inputs scored by {found.name} "
        f"(coverage {found.coverage:.1%}{without}){_fit_words(found)}."
    )


def _fits(scored: fitting.Scored) -> list[dict[str, int]]:
    """For each fit behind scores: its number of units, and the inputs that it scored, also those of its own units."""
    fit = scored.fit
    if fit is None:
        return []
    rows = {number: fit.units == number for number in np.unique(fit.units).tolist() if number}
    return [
        {"units": number, "inputs": int(here.sum()), "inputs_in_fit": int(fit.inside[here].sum())}
        for number, here in rows.items()
    ]


def _fit_words(scored: fitting.Scored) -> str:
    """What must be known of the fits behind scores, for the end of a sentence."""
    fits = _fits(scored)
    words = [
        f"{fit['inputs_in_fit']:,} of them are of units that it was fitted on" for fit in fits if fit["inputs_in_fit"]
    ]
    if len(fits) > 1:
        alone = min(fits, key=lambda fit: fit["units"])
        words.append(
            f"{alone['inputs']:,} validation inputs by a fit on {counted(alone['units'], 'unit')} without theirs"
        )
    return "; ".join(["", *words])


def export(
    cell: CellFolder,
    allocator: Annotated[str, typer.Argument(help="A fitted allocator: its file, or its name beside the cell.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the graph (.onnx).")],
    json: Json = False,
) -> None:
    """Write a fitted allocator as an ONNX graph, checked against ours on the cell's frames.

    From `row` (double, [n, columns]; their names are in the metadata) to `score` (double). The pixel router's graph is
    written as it is served. Checking needs the extra `vision`.

    Example: deepval export cells/braking-monocular gate-gbm --out gate.onnx
    """
    if out.suffix != ".onnx":
        raise InputError(f"{out}: the name must end in .onnx.")
    check_writable(out)
    built = read_cell(cell)
    made = fitting.allocator_named(allocator, cell)
    if isinstance(made, PixelRouter):
        write_atomically(out, made.model)
        facts = {"allocator": made.name, "file": str(out), "rows": 0, "difference": 0.0}
        told = "the graph that it is served by, from picture to log_odds"
    elif isinstance(made, Learned):
        found = exported(made, fitting.rows_on(built, made))
        write_atomically(out, found.graph)
        facts = {"allocator": made.name, "file": str(out), "rows": found.rows, "difference": found.difference}
        same = "all to the bit" if found.equal == found.rows else f"{found.equal:,} of them to the bit"
        told = f"on {found.rows:,} rows ONNX Runtime scores as we do within {found.difference:.2g}, {same}"
    else:
        raise InputError(f"{made.name} is not fitted: only what `deepval fit` wrote is exported.")
    if json:
        typer.echo(options.as_json(facts), nl=False)
        return
    say(f"{out}: {made.name}; {told}.")
