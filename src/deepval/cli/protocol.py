"""`deepval cells`, `deepval validate` and `deepval leaderboard`: the official protocol on a folder of submissions."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cli import options
from deepval.cli.groups import WhoWorks
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.doctor import doctor as checkup
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import plain
from deepval.files.writing import check_writable
from deepval.protocol import leaderboard as boards
from deepval.protocol import submissions, tracks
from deepval.protocol.gathering import WORK
from deepval.protocol.integrity import contradictions
from deepval.protocol.tracks import NAMES, read_cells
from deepval.report.text_table import quantity


def doctor(
    folder: Annotated[Path, typer.Argument(help="A folder that deepval wrote, or one with several of them below.")],
    *,
    json: Json = False,
) -> None:
    """Verify cells, caches, allocators, results, leaderboards, kept work and planners below a folder.

    Every file is compared with the hash that was written beside it; what killed commands left is named. Nothing is
    changed. Exits with 1 where something is wrong.

    Example: deepval doctor cells
    """
    up = checkup(folder)
    if json:
        about = {"folder": str(folder), "whole": not up.problems, "found": up.found, "files": up.files}
        about |= {"problems": plain(up.problems), "notes": up.notes}
        typer.echo(options.as_json(about), nl=False)
    else:
        there = ", ".join(f"{number} {kind}{'s' * (number > 1)}" for kind, number in up.found.items())
        files, problems = quantity(up.files, "file"), quantity(len(up.problems), "problem")
        say(f"{there or 'Nothing whole'}: {files} verified, {problems}.")
        for problem in up.problems:
            say(f"  {problem.path}: {problem.wrong}. Run: {problem.run}")
        for note in up.notes:
            say(f"  note: {note}")
    if up.problems:
        raise typer.Exit(1)


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
    from deepval.cells.case import openings
    from deepval.paper.parts import BOARD
    from deepval.paper.planned import followed
    from deepval.paper.registry import ANALYSES
    from deepval.paper.run import run
    from deepval.paper.study_report import FILES, write_report
    from deepval.protocol.plans import registered
    from deepval.tables.costs import read_costs

    if data is not None and not reading.is_folder(data):
        raise InputError(f"--data must be a folder that holds kitti_tracking, nuscenes or others; {data} is none.")
    check_writable(work, folder=True)
    check_writable(out, folder=True)
    if costs is not None:
        read_costs(costs)
    _check_names(analyses or [], [item.name for item in ANALYSES], "--analysis")
    _check_names(allocators or [], list(RECIPES), "--allocator")
    if plan is not None:
        registered(plan)
    with who.hired() as engine:
        done = run(
            list(names or map(Path, NAMES)),
            work=work,
            data=data,
            costs=costs or BOARD,
            recipes=None if allocators is None else tuple(allocators),
            analyses=analyses,
            engine=engine,
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
    for item in dict.fromkeys(line for lines in done.lacking.values() for line in lines):
        typer.echo(f"  not built, for want of: {item}")
    for at in done.cells:
        typer.echo(f"  {at.cell.id}: {openings(at.folder, at.cell.id)} looks at its test units on record")
    typer.echo(f"Written to {', '.join(str(out / name) for name in FILES)}")


def _check_names(names: Sequence[str], allowed: Sequence[str], option: str) -> None:
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise InputError(f"{option} must be one of {', '.join(allowed)}; found {unknown[0]!r}.")


Cells = Annotated[Path, typer.Option("--cells", help="Folder of cells made by `deepval build`.")]


def cells(
    *,
    track: Annotated[list[str] | None, typer.Option("--track", help=f"{', '.join(tracks.NAMES)}. Repeatable.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Folder with kitti_tracking, nuscenes, ...")] = None,
    json: Json = False,
) -> None:
    """List the official cells, what of their data this machine has, what is missing and how to get it.

    Example: deepval cells --track kitti-public --data data
    """
    if data is not None and not reading.is_folder(data):
        raise InputError(f"--data must be a folder that holds kitti_tracking, nuscenes or others; {data} is none.")
    selected_tracks = tracks.read_tracks(track)
    if json:
        typer.echo(options.as_json([_track(item, data) for item in selected_tracks]), nl=False)
        return
    for item in selected_tracks:
        say(f"{item.name}: {item.title} ({quantity(len(item.cells), 'cell')})")
        shared: dict[str, list[str]] = {}
        for cell in item.cells:
            missing = cell.missing(data)
            say(f"  {'can be built' if not missing else 'incomplete  '}  {cell.id}")
            for line in missing:
                shared.setdefault(line, []).append(cell.id)
        for line, ids in shared.items():
            say(f"    missing for {len(ids)}: {line}")
        for line in item.not_given:
            say(f"    not given by the source: {line}")


def _track(item: tracks.Track, data: Path | None) -> dict[str, Any]:
    listed = []
    for cell in item.cells:
        missing = cell.missing(data)
        needs = [{"name": n.name, "found": n.found(data) if data else 0, "of": n.count} for n in cell.needs]
        command = None if missing else tracks.build_command(cell, data)
        listed.append({"id": cell.id, "missing": missing, "needs": needs, "build": command, **cell.definition})
    about = {"track": item.name, "title": item.title, "source": item.source, "not_given": list(item.not_given)}
    return about | {"alphas": list(item.alphas), "headline_alpha": item.headline_alpha, "cells": listed}


def validate(
    folder: Annotated[Path, typer.Argument(help="A submission: card.toml and scores/<cell>.csv or .parquet.")],
    *,
    cells: Cells,
    json: Json = False,
) -> None:
    """Check a submission as scoring will, naming file, row and id of everything that is wrong. Exits with 2 if refused.

    Example: deepval validate submissions/mine --cells cells
    """
    if not reading.is_folder(folder):
        raise InputError(f"{folder}: must be a submission's folder; there is no such folder.")
    built = read_cells(cells)
    checked = submissions.check(folder, built)
    done = checked.submission
    notes = [] if done is None else [*done.remarks, *contradictions(done, built)]
    if json:
        about = {"folder": checked.folder, "valid": done is not None, "problems": list(checked.problems)}
        about |= {} if done is None else {"cells": list(done.scores), "notes": notes}
        typer.echo(options.as_json(about), nl=False)
    elif done is not None:
        rows = sum(len(scores.values) for scores in done.scores.values())
        say(f"{done.card.key}: valid; {quantity(rows, 'score')} on {quantity(len(done.scores), 'cell')}.")
        for note in notes:
            say(f"  note: {note}")
    for problem in [] if json else checked.problems:
        say(f"  {problem}")
    if done is None:
        number = len(checked.problems)
        raise InputError(
            f"{checked.folder}: must be a valid submission; found {number} problem{'s' * (number > 1)} to mend."
        )


def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Folder of submissions' folders.")],
    *,
    cells: Cells,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for leaderboard.json, .md and .html.")],
    draws: Annotated[int, typer.Option("--draws", help="Number of bootstrap draws of units.")] = 1000,
    seed: options.Seed = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 2 if a submission is refused, or removed from the base.")
    ] = False,
    base: Annotated[
        Path | None,
        typer.Option("--base", help="The board's own folder, where FOLDER proposes to change it: its history counts."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="Folder in which judgements are kept: what is unchanged is not judged again."),
    ] = None,
    json: Json = False,
) -> None:
    """Judge every submission of a folder: standings per cell and per track, integrity notes, refusals with reasons.

    Example: deepval leaderboard submissions --cells cells --out leaderboard
    """
    check_writable(out, folder=True)
    if cache is not None:
        check_writable(cache, folder=True)
    content = boards.leaderboard(folder, cells, base=base, draws=draws, seed=seed, cache=cache, watch=options.watch)
    boards.write_leaderboard(content, out)
    if json:
        typer.echo(reading.text(out / "leaderboard.json"), nl=False)
    else:
        judged, on = quantity(len(content["submissions"]), "submission"), quantity(len(content["cells"]), "cell")
        say(f"{judged} judged on {on}, {len(content['refused'])} refused: see {out}.")
        for item in content["submissions"]:
            for reason in item["flags"]:
                say(f"  flagged, not ranked: {item['allocator']}: {reason}")
        for item in content["refused"]:
            for reason in item["reasons"]:
                say(f"  refused {item['folder']}: {reason}")
        for key in content["changed"]:
            say(f"  changed since the last version, which its author alone may ask for: {key}")
        for key in content["removed"]:
            say(f"  removed by the proposal, judged as it stands in {base}: {key}")
    if strict and content["refused"]:
        names = ", ".join(item["folder"] for item in content["refused"])
        raise InputError(f"{folder}: every submission must be valid; refused {names}, for the reasons in {out}.")
    if strict and content["removed"]:
        raise InputError(
            f"{folder}: every submission of {base} must be in it; {', '.join(content['removed'])} is not: put it back."
        )
