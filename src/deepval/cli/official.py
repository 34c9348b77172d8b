"""`deepval cells`, `leaderboard` and `reproduce`: official cells, submissions, the
paper.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from deepval.cli import options, terminal
from deepval.cli.options import INTERVALS
from deepval.cli.terminal import say
from deepval.cli.typer_commands import (
    DataFolder,
    Json,
    Seed,
    Workers,
    WorkFolder,
    option,
)
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.writing import check_writable
from deepval.protocol import leaderboard as boards
from deepval.protocol import submissions, tracks
from deepval.protocol.cell_builds import WORK
from deepval.protocol.integrity import card_notes
from deepval.protocol.track_data import LocalCells, RunEstimate, local_cells
from deepval.protocol.tracks import LOCAL_NOTE, NAMES, TrackCell, read_cells
from deepval.report.text_tables import quantity

EVERY_CORE = Workers(workers=min(4, os.cpu_count() or 1))
"""One worker per core, at most 4."""


def reproduce(
    names: Annotated[
        list[Path] | None,
        typer.Argument(
            help=(
                f"Tracks ({', '.join(NAMES)}), their cells, cell folders or "
                "specifications. Default: all tracks."
            )
        ),
    ] = None,
    *,
    data: DataFolder = None,
    work: WorkFolder = WORK,
    out: Annotated[
        Path,
        option(
            "--out", "Folder for report.html, report.md and report.json.", short="-o"
        ),
    ] = Path("reproduction"),
    costs: Annotated[
        str | None,
        option("--costs", "Costs for cells without costs: a .toml file or a profile."),
    ] = None,
    analyses: Annotated[
        list[str] | None,
        option("--analysis", "Name of an analysis to run. Repeatable. Default: all."),
    ] = None,
    allocators: Annotated[
        list[str] | None,
        option("--allocator", "Recipe to fit. Repeatable. Default: all.", short="-a"),
    ] = None,
    workers: Workers = EVERY_CORE,
    json: Json = False,
) -> None:
    """Run the paper's analyses and compare with its results.

    The cells that this machine can build are used. Results are stored by content: a
    second run computes only what changed, and a stopped run continues.

    Tracks whose file hashes are not public (core, external) run on your own data:
    detectors first, cells marked local.

    Example: deepval reproduce synthetic kitti-public --data data --work work --out
    reproduction
    """
    from deepval.allocators import RECIPES
    from deepval.judging.cases import openings
    from deepval.paper.analysis import ANALYSES
    from deepval.paper.run import run
    from deepval.paper.study import BOARD
    from deepval.paper.study_report import FILES, write_report
    from deepval.tables.costs import read_costs

    if data is not None and not reading.is_folder(data):
        raise InputError(
            "--data must be a folder that holds kitti_tracking, "
            f"nuscenes or others; {data} is none."
        )
    check_writable(work, folder=True)
    check_writable(out, folder=True)
    if costs is not None:
        read_costs(costs)
    _check_names(analyses or [], list(ANALYSES), "--analysis")
    _check_names(allocators or [], list(RECIPES), "--allocator")
    with workers.start() as map_units, terminal.step_bar() as step:
        done = run(
            list(names or map(Path, NAMES)),
            work=work,
            data=data,
            costs=costs or BOARD,
            recipes=None if allocators is None else tuple(allocators),
            analyses=analyses,
            map_units=map_units,
            watch=terminal.watch,
            step=step,
            announce=lambda expected: say(
                _expected(expected, workers.workers), err=True
            ),
        )
    content = write_report(done, out)
    if json:
        typer.echo(reading.text(out / FILES[2]), nl=False)
        return
    beside = content["beside_the_paper"]
    counts = (
        quantity(len(done.cells), "cell"),
        quantity(len(done.outcomes), "analysis", "analyses"),
    )
    say(
        f"{', '.join(counts)}, {quantity(len(beside['figures']), 'figure')} beside "
        "the paper's."
    )
    if any(
        not cell.published
        for name in map(str, names or NAMES)
        for cell in tracks.cells_named(name)
    ):
        say(f"  {LOCAL_NOTE}")
    for note in done.notes:
        say(f"  {note}")
    for item in dict.fromkeys(
        line for lines in done.lacking.values() for line in lines
    ):
        say(f"  not built, for want of: {item}")
    for at in done.cells:
        typer.echo(
            f"  {at.cell.id}: {openings(at.folder, at.cell.id)} looks at its test "
            "units on record"
        )
    typer.echo(f"Written to {', '.join(str(out / name) for name in FILES)}")


def _expected(expected: RunEstimate, workers: int) -> str:
    """The expected time and disk in a sentence."""
    minutes = (expected.detector_s + expected.analyses_s / max(workers, 1)) / 60
    return (
        f"Expected, roughly: {quantity(expected.cells, 'cell')}, {expected.frames:,} "
        f"frames to run through detectors ({expected.detector_s / 60:,.1f} min); with "
        f"all analyses {minutes:,.1f} min on {quantity(workers, 'worker')} and "
        f"{expected.disk_bytes / 1e6:,.1f} MB of disk. A stopped run continues."
    )


def _check_names(names: Sequence[str], allowed: Sequence[str], option: str) -> None:
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise InputError(
            f"{option} must be one of {', '.join(allowed)}; found {unknown[0]!r}."
        )


def cells(
    track: Annotated[
        list[str] | None,
        typer.Argument(help=f"Tracks: {', '.join(NAMES)}. Default: all."),
    ] = None,
    *,
    data: DataFolder = None,
    work: WorkFolder = WORK,
    json: Json = False,
) -> None:
    """List the cells of tracks, missing data and build commands.

    Example: deepval cells kitti-public --data data
    """
    if data is not None and not reading.is_folder(data):
        raise InputError(
            "--data must be a folder that holds kitti_tracking, "
            f"nuscenes or others; {data} is none."
        )
    listed = [
        (item, *_available(item, data, work)) for item in tracks.read_tracks(track)
    ]
    if json:
        terminal.print_json(
            [_track(item, data, local, missing) for item, local, missing in listed]
        )
        return
    for item, local, missing in listed:
        _print_track(item, data, local, missing)


def _print_track(
    item: tracks.Track,
    data: Path | None,
    local: LocalCells | None,
    missing: dict[str, tuple[str, ...]],
) -> None:
    say(f"{item.name}: {item.title} ({quantity(len(item.cells), 'cell')})")
    if not item.cells[0].published:
        say(f"  {LOCAL_NOTE}")
    shared: dict[str, list[str]] = {}
    for cell in item.cells:
        say(f"  {'incomplete  ' if missing[cell.id] else 'can be built'}  {cell.id}")
        for line in missing[cell.id]:
            shared.setdefault(line, []).append(cell.id)
    for need in dict.fromkeys(need for cell in item.cells for need in cell.needs):
        if data is not None and (count := need.available(data)):
            say(
                "    "
                "present: "
                f"{need.name}, {count:,} of {need.count:,} at {_looked(need, data)}"
            )
    for pictures in () if local is None else local.pictures.values():
        say(f"    {pictures.note}")
    for line, ids in shared.items():
        say(f"    missing for {len(ids)}: {line}")
    for line in item.not_given:
        say(f"    not given by the source: {line}")
    ready = [cell for cell in item.cells if not missing[cell.id]]
    for line in dict.fromkeys(
        line for cell in ready for line in _commands(cell, data, local)
    ):
        typer.echo(f"    run: {line}")  # in one line, so that it can be copied
    if ready and data is not None:
        typer.echo(
            "    or all at once: deepval "
            f"reproduce {item.name} --data {quote(str(data))}"
        )


def _available(
    item: tracks.Track, data: Path | None, work: Path
) -> tuple[LocalCells | None, dict[str, tuple[str, ...]]]:
    """The local cells of a track whose hashes are not public, and what each cell of a
    track lacks.
    """
    if item.cells[0].published:
        return None, {cell.id: tuple(cell.missing(data)) for cell in item.cells}
    local, lacking = local_cells(item.cells, data, work, terminal.watch)
    return local, {cell.id: lacking.get(cell.id, ()) for cell in item.cells}


def _commands(
    cell: TrackCell, data: Path | None, local: LocalCells | None
) -> list[str]:
    """The commands that build a cell: the detector where one is needed, then the
    cell.
    """
    if local is None:
        command = tracks.build_command(cell, data)
        return [] if command is None else [command]
    return [*(run.command for run in local.runs_of(cell)), local.command(cell)]


def _looked(need: tracks.Need, data: Path | None) -> str:
    return " or ".join(
        pattern if data is None else (data / pattern).as_posix()
        for pattern in need.patterns
    )


def _track(
    item: tracks.Track,
    data: Path | None,
    local: LocalCells | None,
    missing: dict[str, tuple[str, ...]],
) -> dict[str, Any]:
    listed = []
    for cell in item.cells:
        needs = [
            {
                "name": n.name,
                "found": n.available(data) if data else 0,
                "of": n.count,
                "looked": _looked(n, data),
            }
            for n in cell.needs
        ]
        *perceived, command = (
            [None] if missing[cell.id] else (_commands(cell, data, local) or [None])
        )
        about = {
            "id": cell.id,
            "name": cell.name,
            "official": cell.published,
            "missing": list(missing[cell.id]),
        }
        listed.append(
            about
            | {
                "needs": needs,
                "perceive": perceived,
                "build": command,
                **cell.definition,
            }
        )
    about = {
        "track": item.name,
        "title": item.title,
        "source": item.source,
        "not_given": list(item.not_given),
    }
    if local is not None:
        about |= {
            "note": LOCAL_NOTE,
            "pictures": {name: item.note for name, item in local.pictures.items()},
        }
    return about | {
        "alphas": list(item.alphas),
        "headline_alpha": item.headline_alpha,
        "cells": listed,
    }


def leaderboard(
    folder: Annotated[
        Path,
        typer.Argument(
            help=(
                "Folder of submissions' folders; with --check one submission: "
                "card.toml and scores/<cell>.csv or .parquet."
            )
        ),
    ],
    *,
    cells: Annotated[
        Path, option("--cells", "Folder of cells that `deepval build` wrote.")
    ],
    out: Annotated[
        Path | None,
        option(
            "--out",
            "Folder for leaderboard.json, .md and .html. Not with --check.",
            short="-o",
        ),
    ] = None,
    check: Annotated[
        bool,
        option(
            "--check",
            "Check one submission as scoring does; list problems by file, row and id.",
        ),
    ] = False,
    draws: Annotated[
        int,
        option(
            "--draws",
            "Number of bootstrap draws of units.",
            within=(0, options.MOST_DRAWS),
            panel=INTERVALS,
        ),
    ] = 1000,
    seed: Seed = 0,
    strict: Annotated[
        bool,
        option(
            "--strict",
            "Exit with 2 if a submission is refused or removed from the base.",
        ),
    ] = False,
    base: Annotated[
        Path | None,
        option(
            "--base",
            "Folder of the current board, if FOLDER is a proposal; its history counts.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        option(
            "--cache",
            "Folder for judgements; unchanged submissions are not judged again.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Rank a folder of submissions, or check one of them.

    Standings per cell and per track, notes, refusals with reasons. --check
    exits with 2 if the submission is refused.

    Example: deepval leaderboard submissions --cells cells --out leaderboard

    A check: deepval leaderboard submissions/mine --cells cells --check
    """
    if check:
        _check_submission(folder, cells, json=json)
        return
    if out is None:
        raise InputError(
            "--out must be given: the folder for leaderboard.json, .md and .html."
        )
    check_writable(out, folder=True)
    if cache is not None:
        check_writable(cache, folder=True)
    content = boards.leaderboard(
        folder,
        cells,
        base=base,
        draws=draws,
        seed=seed,
        cache=cache,
        watch=terminal.watch,
    )
    boards.write_leaderboard(content, out)
    if json:
        typer.echo(reading.text(out / "leaderboard.json"), nl=False)
    else:
        _print_board(content, out, base)
    if strict and content["refused"]:
        names = ", ".join(item["folder"] for item in content["refused"])
        raise InputError(
            f"{folder}: every submission must be valid; "
            f"refused {names}, for the reasons in {out}."
        )
    if strict and content["removed"]:
        raise InputError(
            f"{folder}: every submission of {base} must be in it; "
            f"{', '.join(content['removed'])} is not: put it back."
        )


def _print_board(content: dict[str, Any], out: Path, base: Path | None) -> None:
    """Print how many submissions were judged, flagged and refused, and why."""
    judged, on = (
        quantity(len(content["submissions"]), "submission"),
        quantity(len(content["cells"]), "cell"),
    )
    say(f"{judged} judged on {on}, {len(content['refused'])} refused: see {out}.")
    for item in content["submissions"]:
        for reason in item["flags"]:
            say(f"  flagged, not ranked: {item['allocator']}: {reason}")
    for item in content["refused"]:
        for reason in item["reasons"]:
            say(f"  refused {item['folder']}: {reason}")
    for key in content["changed"]:
        say(
            "  changed since the last version, which only its "
            f"author may request: {key}"
        )
    for key in content["removed"]:
        say(f"  removed by the proposal, judged as it stands in {base}: {key}")


def _check_submission(folder: Path, cells: Path, *, json: bool) -> None:
    """Print the problems of a submission, or its size and notes on it; raise if it is
    refused.
    """
    if not reading.is_folder(folder):
        raise InputError(
            f"{folder}: must be a submission's folder; there is no such folder."
        )
    built = read_cells(cells)
    checked = submissions.check(folder, built)
    done = checked.submission
    notes = [] if done is None else [*done.remarks, *card_notes(done)]
    if json:
        about = {
            "folder": checked.folder,
            "valid": done is not None,
            "problems": list(checked.problems),
        }
        about |= {} if done is None else {"cells": list(done.scores), "notes": notes}
        terminal.print_json(about)
    elif done is not None:
        number = sum(len(scores.values) for scores in done.scores.values())
        rows = quantity(number, "score")
        cells_scored = quantity(len(done.scores), "cell")
        say(f"{done.card.key}: valid; {rows} on {cells_scored}.")
        for note in notes:
            say(f"  note: {note}")
    for problem in [] if json else checked.problems:
        say(f"  {problem}")
    if done is None:
        number = len(checked.problems)
        raise InputError(
            f"{checked.folder}: must be a valid "
            f"submission; found {number} problem{'s' * (number > 1)}."
        )
