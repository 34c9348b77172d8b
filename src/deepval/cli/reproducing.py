"""`deepval reproduce`: every analysis on every cell at hand -> one report beside the paper's own figures."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options
from deepval.cli.groups import WhoWorks
from deepval.cli.options import Json
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.writing import check_writable
from deepval.protocol.gathering import WORK
from deepval.protocol.tracks import NAMES

EVERY_CORE = WhoWorks(workers=min(4, os.cpu_count() or 1))
"""One worker per core, at most 4."""


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
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", help="A registered plan: make its comparisons over the cells, and say what was planned."
        ),
    ] = None,
    who: WhoWorks = EVERY_CORE,
    json: Json = False,
) -> None:
    """Run every analysis, or some, on the cells that this machine can build, and lay the results beside the paper's.

    Everything that is made is kept by content: a second run makes what changed, and a run that was stopped goes on.

    Example: deepval reproduce synthetic kitti-public --data data --work work --out reproduction
    """
    from deepval.allocators import RECIPES
    from deepval.cells.ledger import openings
    from deepval.protocol.plans import registered
    from deepval.reproduction.parts import BOARD
    from deepval.reproduction.planned import followed
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
    if plan is not None:
        registered(plan)
    with who.hired() as made_by:
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
    content = write_report(done, out, None if plan is None else followed(plan, done.cells))
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
