"""`deepval fit`, `score` and `export`: a built cell -> a fitted allocator's file, its scores, its ONNX graph."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from deepval.allocators import RECIPES, FittedAllocator, Learned, PixelRouter, read_allocator, recipe_named
from deepval.allocators.onnx_graph import exported
from deepval.cells import fitting
from deepval.cells.case import SCORES
from deepval.cells.fitting import allocator_named, called
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.spec import ROLES, split, units_of
from deepval.cli import options
from deepval.cli.groups import WhoWorks
from deepval.cli.lazy import LOOK, GroupedCommand
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.datasets import DATASETS, Dataset, open_dataset
from deepval.errors import InputError
from deepval.features import Glance, glance
from deepval.features.views import CheapMode, Frame, Past, frames_of
from deepval.files.canonical import digest_of, file_digest
from deepval.files.writing import check_writable, write_atomically
from deepval.metering.cost_cards import CostCard, add_cards, measure_cards, read_entries
from deepval.metering.energy import EnergyUse
from deepval.metering.timing import Items, Stages
from deepval.report.text_table import quantity
from deepval.tables.column_files import csv_text, parquet_bytes
from deepval.targets import TARGETS


def profile(
    target: Annotated[str, typer.Argument(help="File of a fitted allocator, or a signal by name.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Costs file (.toml) that takes the cards; the rest stays.")],
    cell: Annotated[Path | None, typer.Option("--cell", help="Cell whose inputs it runs on.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit of each measurement.")] = 5.0,
    tolerance: Annotated[float, typer.Option("--tolerance", help="How tight the median must be, relative.")] = 0.02,
    batch: Annotated[int | None, typer.Option("--batch", help="Measure batches of this size as well.")] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", help="Hold BLAS, OpenMP and OpenCV to so many threads.")
    ] = None,
    energy: Annotated[bool, typer.Option("--energy", help="Measure energy over idle; needs a sensor.")] = False,
    json: Json = False,
) -> None:
    """Measure what an allocator costs per input, preprocessing and inference, and put it into a costs file.

    Example: deepval profile gate-ridge.json --cell cells/braking-monocular --out costs.toml --batch 64
    """
    # Read before the measurement, so that an unreadable costs file is reported at once.
    read_entries(out, "allocators")
    name, stages, items = stages_of(target, cell)
    cards = measure_cards(
        name, stages, items, batch=batch, seconds=seconds, tolerance=tolerance, threads=threads, energy=energy
    )
    add_cards(out, cards)
    if json:
        typer.echo(options.as_json({card.name: card.entry() for card in cards}), nl=False)
        return
    for card in cards:
        say("\n".join(_lines(card)))
    say(f"Cards in {out}")


def stages_of(target: str, cell: Path | None) -> tuple[str, Stages, Items]:
    """What an allocator's scores are called, its stages from frame to score, and the frames of a cell they run on.

    The first is all from the cheap mode's boxes on, memory included: for a learned allocator to the row that its
    models take.
    """
    if cell is None:
        raise InputError("An allocator is measured on real inputs: give --cell, a folder that `deepval build` wrote.")
    allocator, built = allocator_named(target, cell), read_cell(cell)
    frames = _frames(built)
    steps = dict(allocator.stages())
    first = next(iter(steps))
    return called(target), steps | {first: lambda items: steps[first](_glances(items))}, frames


class _FrameWithPast(NamedTuple):
    """A frame with the memory of earlier frames at its arrival."""

    frame: Frame
    past: Past
    mode: CheapMode


def _glances(items: _FrameWithPast | list[_FrameWithPast]) -> Glance | list[Glance]:
    if isinstance(items, list):
        return [glance(item.frame, item.past, mode=item.mode) for item in items]
    return glance(items.frame, items.past, mode=items.mode)


def _frames(built: BuiltCell) -> list[_FrameWithPast]:
    """The frames of the cell's validation units on which the cheap mode was run, as a router receives them."""
    frames = []
    for view in built.views:
        if view.scene.unit not in built.split.validation:
            continue
        past = Past()
        for frame in frames_of(view):
            if frame.run:
                frames.append(_FrameWithPast(frame, past, view.mode))
            past = glance(frame, past, mode=view.mode).after
    return frames


def _lines(card: CostCard) -> list[str]:
    timing, entry = card.timing, card.entry()
    low, high = timing.interval_ms
    parts = ", ".join(f"{stage} {entry[f'{stage}_ms']:.4g}" for stage in timing.stages)
    energy = (
        ", ".join(f"{convention} {mj:.4g}" for convention, mj in card.energy.mj.items())
        if isinstance(card.energy, EnergyUse)
        else card.energy
    )
    return [
        f"{card.name} ({card.served}{f' {timing.batch}' if timing.batch else ''}): {timing.ms:.4g} ms per input "
        f"[{low:.4g}, {high:.4g}], p95 {timing.p95_ms:.4g} ({parts}), {timing.calls:,} calls",
        f"  {card.threads} threads, {card.device}; energy: {energy}",
        *(f"  note: {note}" for note in card.notes),
    ]


planner = typer.Typer(no_args_is_help=True, **LOOK)


@planner.callback()
def _planner() -> None:
    """Train the learned planner behind the systems planner-ade and planner-fde, PKL and TIP.

    Example: deepval planner train --dataset nuscenes --root nuscenes --out planner
    """


@planner.command(cls=GroupedCommand)
def train(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; a run that was stopped goes on there.")],
    dataset: Annotated[str, typer.Option("--dataset", help=f"One with poses and maps: {', '.join(DATASETS)}.")],
    root: Annotated[Path | None, typer.Option("--root", help="Folder of the data set's files.")] = None,
    maps: options.Maps = None,
    units: Annotated[
        str, typer.Option("--units", help="train (the default), validation, fit, all, a,b,c or a file.")
    ] = "train",
    width: Annotated[int, typer.Option("--width", help="Channels of the first layer; 64 as published.")] = 64,
    grid: Annotated[int, typer.Option("--grid", help="Cells a side, a multiple of 64; 256 as published.")] = 256,
    steps: Annotated[int, typer.Option("--steps", help="Steps of training; about 100,000 as published.")] = 1000,
    batch: Annotated[int, typer.Option("--batch", help="Samples in a step.")] = 16,
    every: Annotated[float, typer.Option("--every", help="Seconds between samples of a road user.")] = 0.25,
    others: Annotated[
        bool, typer.Option("--others", help="Train on other vehicles that move too, not on the ego vehicle alone.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of weights, order and flips.")] = 0,
    threads: Annotated[int, typer.Option("--threads", help="Threads of torch; part of what bytes depend on.")] = 1,
    json: Json = False,
) -> None:
    """Train a planner on scenes at hand; what it makes is labelled as trained here, not the published weights.

    Example: deepval planner train --dataset nuscenes --root nuscenes --maps expansion --steps 2000 --out planner
    """
    from deepval.planners.neural.masks import PlanGrid
    from deepval.planners.neural.training import TrainingSettings, samples_of, unit_samples
    from deepval.planners.neural.training import train as run

    check_writable(out, folder=True)
    if not 0 < every < float("inf"):
        raise InputError(f"--every must be more than 0 seconds; found {every:g}.")
    settings = TrainingSettings(width=width, steps=steps, batch=batch, seed=seed, threads=threads)
    cells = PlanGrid(grid)
    kind = options.one_of(dataset, tuple(DATASETS), "--dataset")
    source = open_dataset(kind, root, **options.maps_of(kind, maps))
    chosen = _units(source, units)
    options.check_roads(source, chosen)
    samples_by_unit = [
        unit_samples(*source.read_unit(unit), every_s=every, ego_only=not others)
        for unit in options.watch(chosen, f"units of {source.name}")
    ]
    trained = run(
        samples_of(samples_by_unit, cells), out, settings, source=_source(source, chosen), watch=options.watch
    )
    manifest = trained.manifest
    if json:
        typer.echo(options.as_json({"folder": str(out), **manifest}), nl=False)
        return
    say(
        f"{trained.weights} and {trained.masks}: {manifest['steps']:,} steps on {manifest['samples']:,} samples of "
        f"{quantity(len(chosen), 'unit')}, loss {manifest['loss']['first']:.4f} to {manifest['loss']['last']:.4f}; "
        f"{manifest['label']}."
    )


def _units(source: Dataset, text: str) -> tuple[str, ...]:
    named = options.unit_list(text, ROLES) or []
    if named == [text] and text in ROLES:
        return units_of(split(source.name, source.unit_ids()), text)
    return source.chosen(named)


def _source(source: Dataset, units: tuple[str, ...]) -> dict[str, Any]:
    """The source of the samples, for the manifest."""
    files = {name: file_digest(path) for unit in units for name, path in source.files(unit).items()}
    return {"dataset": source.name, "units": list(units), "files_sha256": digest_of(files)}


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
    refit_options = {"--target": target, "--units": units, "--seed": seed}
    ignored = [option for option, value in refit_options.items() if value is not None]
    if like is not None and ignored:
        raise InputError(f"--like takes target, units and seed from its file: leave {' and '.join(ignored)} out.")
    many = allocator is not None and (len(allocator) > 1 or ALL in allocator)
    if out is not None:
        check_writable(out, folder=many)
    built = read_cell(cell)
    items: list[Any] = _recipes(built, allocator or []) if like is None else [read_allocator(like)]
    arguments = {"target": target, "units": options.unit_list(units, ROLES) or "fit", "seed": seed or 0}
    work = partial(fitting.fit_on, built, **arguments) if like is None else partial(fitting.refit, built)
    written = []
    with who.hired() as engine:
        alone = engine.here and len(items) == 1
        fitted = engine.map(partial(work, watch=options.watch) if alone else work, items)
        watched = items if alone else options.watch(items, f"allocators of {cell.name}")
        for _, fitted_allocator in zip(watched, fitted, strict=True):
            path = out / f"{fitted_allocator.name}.json" if many and out is not None else out
            file = path or fitting.fitted_file(cell, fitted_allocator.name)
            write_atomically(file, fitted_allocator.to_json(), make_folder=out is None or many)
            written.append((file, fitted_allocator))
    if json:
        content = [_summary(file, fitted_allocator) for file, fitted_allocator in written]
        typer.echo(options.as_json(content if many else content[0]), nl=False)
        return
    for file, fitted_allocator in written:
        used = fitted_allocator.training
        fitted_on = f"{quantity(used.inputs, 'input')} of {quantity(len(used.units), 'unit')}"
        say(f"{file}: {fitted_allocator.name} for {used.target}, fitted on {fitted_on}.")


def _recipes(cell: BuiltCell, names: list[str]) -> list[str]:
    """Names of recipes without repetition; `all` stands for those that suit the cell and need no extra."""
    from deepval.cells.fitting import recipes_for

    recipes = [name for text in names for name in (recipes_for(cell) if text == ALL else [text])]
    for name in recipes:
        recipe_named(name)
    return list(dict.fromkeys(recipes))


def _summary(file: Path, allocator: FittedAllocator) -> dict[str, Any]:
    used = allocator.training
    content = {"allocator": allocator.name, "file": str(file), "target": used.target, "units": list(used.units)}
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
    requested_units = options.unit_list(units, ROLES) or ()
    scored = fitting.calibration_scores(read_cell(cell), allocator, units=requested_units, watch=options.watch)
    if not len(scored.input):
        raise InputError(f"{scored.name} has no score for any of the {scored.inputs:,} inputs: {scored.reason}.")
    columns = scored.columns()
    file = out or cell / SCORES / f"{fitting.called(allocator)}.csv"
    content = parquet_bytes(columns) if file.suffix == ".parquet" else csv_text(columns)
    write_atomically(file, content, make_folder=out is None)
    if json:
        content = {"allocator": scored.name, "kind": scored.kind, "file": str(file), "inputs": scored.inputs}
        more = {
            "scored": len(scored.input),
            "coverage": scored.coverage,
            "reason": scored.reason,
            "fits": _fits(scored),
        }
        typer.echo(options.as_json(content | more), nl=False)
        return
    without = "" if scored.reason is None else f"; {scored.inputs - len(scored.input):,} without, as {scored.reason}"
    say(
        f"{file}: {len(scored.input):,} of {scored.inputs:,} inputs scored by {scored.name} "
        f"(coverage {scored.coverage:.1%}{without}){_fit_words(scored)}."
    )


def _fits(scored: fitting.Scored) -> list[dict[str, int]]:
    """For each fit behind scores: number of its units, of inputs that it scored, and of those that are of its units."""
    fit = scored.fit
    if fit is None:
        return []
    rows = {number: fit.units == number for number in np.unique(fit.units).tolist() if number}
    return [
        {"units": number, "inputs": int(here.sum()), "inputs_in_fit": int(fit.inside[here].sum())}
        for number, here in rows.items()
    ]


def _fit_words(scored: fitting.Scored) -> str:
    """Facts about the fits behind scores, as the end of a sentence."""
    fits = _fits(scored)
    words = [
        f"{fit['inputs_in_fit']:,} of them are of units that it was fitted on" for fit in fits if fit["inputs_in_fit"]
    ]
    if len(fits) > 1:
        alone = min(fits, key=lambda fit: fit["units"])
        words.append(
            f"{alone['inputs']:,} validation inputs by a fit on {quantity(alone['units'], 'unit')} without theirs"
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
    fitted = fitting.allocator_named(allocator, cell)
    if isinstance(fitted, PixelRouter):
        write_atomically(out, fitted.model)
        facts = {"allocator": fitted.name, "file": str(out), "rows": 0, "difference": 0.0}
        description = "the graph that it is served by, from picture to log_odds"
    elif isinstance(fitted, Learned):
        checked = exported(fitted, fitting.rows_on(built, fitted))
        write_atomically(out, checked.graph)
        facts = {
            "allocator": fitted.name,
            "file": str(out),
            "rows": checked.rows,
            "difference": checked.difference,
        }
        same = "all to the bit" if checked.equal == checked.rows else f"{checked.equal:,} of them to the bit"
        description = f"on {checked.rows:,} rows ONNX Runtime scores as we do within {checked.difference:.2g}, {same}"
    else:
        raise InputError(f"{fitted.name} is not fitted: only what `deepval fit` wrote is exported.")
    if json:
        typer.echo(options.as_json(facts), nl=False)
        return
    say(f"{out}: {fitted.name}; {description}.")
