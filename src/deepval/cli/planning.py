"""`deepval planner train`: scenes with poses, tracks and a map -> the learned planner's weights and masks."""

from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells.splits import ROLES, split, units_of
from deepval.cli import options
from deepval.cli.lazy import LOOK, GroupedCommand
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.datasets import DATASETS, Dataset, open_dataset
from deepval.errors import InputError
from deepval.files.canonical import digest_of, file_digest
from deepval.files.writing import check_writable
from deepval.report.tables import counted

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
    from deepval.planners.learned.grid import PlanGrid
    from deepval.planners.learned.samples import samples_of, unit_samples
    from deepval.planners.learned.training import TrainingSettings
    from deepval.planners.learned.training import train as run

    check_writable(out, folder=True)
    if not 0 < every < float("inf"):
        raise InputError(f"--every must be more than 0 seconds; found {every:g}.")
    settings = TrainingSettings(width=width, steps=steps, batch=batch, seed=seed, threads=threads)
    cells = PlanGrid(grid)
    kind = options.one_of(dataset, tuple(DATASETS), "--dataset")
    source = open_dataset(kind, root, **options.maps_of(kind, maps))
    chosen = _units(source, units)
    options.check_roads(source, chosen)
    read = [
        unit_samples(*source.read_unit(unit), every_s=every, ego_only=not others)
        for unit in options.watch(chosen, f"units of {source.name}")
    ]
    made = run(samples_of(read, cells), out, settings, source=_source(source, chosen), watch=options.watch)
    told = made.manifest
    if json:
        typer.echo(options.as_json({"folder": str(out), **told}), nl=False)
        return
    say(
        f"{made.weights} and {made.masks}: {told['steps']:,} steps on {told['samples']:,} samples of "
        f"{counted(len(chosen), 'unit')}, loss {told['loss']['first']:.4f} to {told['loss']['last']:.4f}; "
        f"{told['label']}."
    )


def _units(source: Dataset, text: str) -> tuple[str, ...]:
    named = options.unit_list(text, ROLES) or []
    if named == [text] and text in ROLES:
        return units_of(split(source.name, source.unit_ids()), text)
    return source.chosen(named)


def _source(source: Dataset, units: tuple[str, ...]) -> dict[str, Any]:
    """What the samples were made from, for the manifest."""
    files = {name: file_digest(path) for unit in units for name, path in source.files(unit).items()}
    return {"dataset": source.name, "units": list(units), "files_sha256": digest_of(files)}
