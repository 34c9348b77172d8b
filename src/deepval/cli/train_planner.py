"""`deepval train-planner`: drives with maps -> weights and masks of the learned planner."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells.spec import ROLES, split, units_of
from deepval.cli import options, terminal
from deepval.cli.arguments import limits
from deepval.cli.dataset_options import MappedFiles, check_roads
from deepval.cli.options import Json, Seed
from deepval.cli.terminal import say
from deepval.datasets import Dataset
from deepval.errors import InputError
from deepval.files.canonical import digest_of, file_digest
from deepval.files.writing import check_writable
from deepval.report.table import quantity


@dataclass(frozen=True)
class TrainingFiles(MappedFiles):
    """A data set with poses and maps, and the units to train on."""

    units: Annotated[
        str | None, typer.Option("--units", help="train (the default), validation, fit, all, a,b,c or a file.")
    ] = "train"

    def chosen(self, source: Dataset) -> tuple[str, ...]:
        """Units by role or by name."""
        text = self.units or "train"
        names = options.unit_list(text, ROLES) or []
        if names == [text] and text in ROLES:
            return units_of(split(source.name, source.unit_ids()), text)
        return source.select(names)


def train_planner(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; a stopped run continues there.")],
    files: TrainingFiles,
    width: Annotated[
        int, typer.Option("--width", help="Channels of the first layer; published: 64.", callback=limits(1, 4_096))
    ] = 64,
    grid: Annotated[
        int,
        typer.Option(
            "--grid", help="Grid cells per side, a multiple of 64; published: 256.", callback=limits(1, 4_096)
        ),
    ] = 256,
    steps: Annotated[
        int, typer.Option("--steps", help="Training steps; published: about 100,000.", callback=limits(0, 10**9))
    ] = 1000,
    batch: Annotated[int, typer.Option("--batch", help="Samples per step.", callback=limits(1, 100_000))] = 16,
    every: Annotated[
        float, typer.Option("--every", help="Seconds between samples of a road user.", callback=limits(0, 1e6))
    ] = 0.25,
    others: Annotated[
        bool, typer.Option("--others", help="Train on other moving vehicles too, not only on the ego vehicle.")
    ] = False,
    seed: Seed = 0,
    threads: Annotated[
        int, typer.Option("--threads", help="Threads of torch; the result depends on it.", callback=limits(1, 1_024))
    ] = 1,
    json: Json = False,
) -> None:
    """Train the learned planner behind planner-ade, PKL and TIP.

    The weights are labelled as trained here; they are not the published ones.

    Example: deepval train-planner --dataset nuscenes --root nuscenes --maps expansion --steps 2000 --out planner
    """
    from deepval.planners.neural.masks import PlanGrid
    from deepval.planners.neural.training import TrainingSettings, samples_of, unit_samples
    from deepval.planners.neural.training import train as run

    check_writable(out, folder=True)
    if not every:
        raise InputError(f"--every must be more than 0 seconds; found {every:g}.")
    settings = TrainingSettings(width=width, steps=steps, batch=batch, seed=seed, threads=threads)
    cells = PlanGrid(grid)
    source = files.open()
    units = files.chosen(source)
    check_roads(source, units)
    samples_by_unit = [
        unit_samples(*source.read_unit(unit), every_s=every, ego_only=not others)
        for unit in terminal.watch(units, f"units of {source.name}")
    ]
    trained = run(
        samples_of(samples_by_unit, cells), out, settings, source=_source(source, units), watch=terminal.watch
    )
    manifest = trained.manifest
    if json:
        terminal.print_json({"folder": str(out), **manifest})
        return
    say(
        f"{trained.weights} and {trained.masks}: {manifest['steps']:,} steps on {manifest['samples']:,} samples of "
        f"{quantity(len(units), 'unit')}, loss {manifest['loss']['first']:.4f} to {manifest['loss']['last']:.4f}; "
        f"{manifest['label']}."
    )


def _source(source: Dataset, units: tuple[str, ...]) -> dict[str, Any]:
    """The source of the samples, for the manifest."""
    files = {name: file_digest(path) for unit in units for name, path in source.files(unit).items()}
    return {"dataset": source.name, "units": list(units), "files_sha256": digest_of(files)}
