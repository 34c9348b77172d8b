"""`deepval reproduce`: every analysis on every cell at hand -> one report beside the paper's own figures."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from deepval import reading
from deepval.cli import options
from deepval.cli.options import Json
from deepval.engines import engine as making
from deepval.errors import InputError
from deepval.files import check_writable
from deepval.protocol.gathering import WORK
from deepval.protocol.tracks import NAMES


def reproduce(
    names: Annotated[
        list[Path] | None,
        typer.Argument(
            help=f"Tracks ({', '.join(NAMES)}; all where none is named), cell folders, or specification files."
        ),
    ] = None,
    *,
    data: Annotated[
        Path | None, typer.Option("--data", help="Of tracks: folder with kitti_tracking, nuscenes and so on.")
    ] = None,
    work: Annotated[
        Path, typer.Option("--work", help="Folder for cells and everything that is made; goes on there.")
    ] = WORK,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for report.html, report.md and report.json.")] = Path(
        "reproduction"
    ),
    costs: Annotated[
        str | None,
        typer.Option("--costs", help="What modes and allocators cost where a cell does not say: .toml, or a profile."),
    ] = None,
    analyses: Annotated[
        list[str] | None, typer.Option("--analysis", help="Analysis to run, as of `deepval analyse`. Repeatable.")
    ] = None,
    allocators: Annotated[
        list[str] | None, typer.Option("--allocator", "-a", help="Recipe to fit. Repeatable. Default: all.")
    ] = None,
    engine: options.EngineName = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            help="How many cells and analyses at once. Default: one per core, at most 4.",
            rich_help_panel=options.ENGINE,
        ),
    ] = None,
    memory: options.Memory = None,
    address: options.Address = None,
    json: Json = False,
) -> None:
    """Run every analysis, or some, on the cells that this machine can build, and lay the results beside the paper's.

    Everything that is made is kept by content: a second run makes what changed, and a run that was stopped goes on.

    Example: deepval reproduce synthetic kitti-public --data data --work work --out reproduction
    """
    from deepval.allocators import RECIPES
    from deepval.cells.ledger import openings
    from deepval.reproduction.parts import BOARD
    from deepval.reproduction.registry import ANALYSES
    from deepval.reproduction.run import run
    from deepval.reproduction.study_report import FILES, write_report
    from deepval.tables.costs import read_costs

    if data is not None and not reading.is_folder(data):
        raise InputError(f"--data must be a folder that holds kitti_tracking, nuscenes or others; {data} is none.")
    check_writable(work, folder=True)
    check_writable(out, folder=True)
    if costs is not None:
        read_costs(costs)
    _check_names(analyses or [], [each.name for each in ANALYSES], "--analysis")
    _check_names(allocators or [], list(RECIPES), "--allocator")
    number = min(4, os.cpu_count() or 1) if workers is None else workers
    with making(engine, workers=number, memory_mb=memory, address=address) as made_by:
        done = run(
            list(names or map(Path, NAMES)),
            work=work,
            data=data,
            costs=costs or BOARD,
            recipes=None if allocators is None else tuple(allocators),
            analyses=analyses,
            engine=made_by,
            watch=options.watch,
        )
    content = write_report(done, out)
    if json:
        typer.echo(reading.text(out / FILES[2]), nl=False)
        return
    beside = content["beside_the_paper"]
    typer.echo(
        f"{len(done.cells)} cells, {len(done.outcomes)} analyses, {len(beside['figures'])} figures beside the paper's."
    )
    for each in dict.fromkeys(line for lines in done.lacking.values() for line in lines):
        typer.echo(f"  not built, for want of: {each}")
    for at in done.cells:
        typer.echo(f"  {at.cell.id}: {openings(at.folder, at.cell.id)} looks at its test units on record")
    typer.echo(f"Written to {', '.join(str(out / name) for name in FILES)}")


def _check_names(given: Sequence[str], known: Sequence[str], option: str) -> None:
    wrong = [name for name in given if name not in known]
    if wrong:
        raise InputError(f"{option} must be one of {', '.join(known)}; found {wrong[0]!r}.")
