"""`deepval cells`, `leaderboard`, `check` and `reproduce`: official cells, submissions,
the paper.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.writing import check_writable
from deepval.cli import options, terminal
from deepval.cli.terminal import say
from deepval.deploy.board import leaderboard as boards
from deepval.deploy.board import submissions, tracks
from deepval.deploy.board.cell_builds import WORK
from deepval.deploy.board.integrity import card_notes
from deepval.deploy.board.track_data import LocalCells, RunEstimate, local_cells
from deepval.deploy.board.tracks import LOCAL_NOTE, NAMES, TrackCell, read_cells
from deepval.judge.report.text_tables import quantity


@Parameter(name="*")
@dataclass(frozen=True)
class EveryCore(options.Workers):
    """One worker per core, at most 4."""

    workers: Annotated[int, options.whole(1, 1_024, group=options.WORKERS)] = min(
        4, os.cpu_count() or 1
    )


EVERY_CORE = EveryCore()


def reproduce(
    names: tuple[Path, ...] = (),
    /,
    *,
    data: options.DataFolder = None,
    work: options.WorkFolder = WORK,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)] = Path(
        "reproduction"
    ),
    costs: str | None = None,
    analysis: tuple[str, ...] = (),
    allocator: Annotated[tuple[str, ...], Parameter(alias="-a")] = (),
    code: tuple[str, ...] = (),
    workers: EveryCore = EVERY_CORE,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """The cells that this machine can build are used. Results are stored by content: a
    second run computes only what changed, and a stopped run continues.

    Tracks whose file hashes are not public (core, external) run on your own data:
    detectors first, cells marked local.

    Example: deepval reproduce synthetic kitti-public --data data --work work --out
    reproduction

    Args:
        names: Tracks (core, external, kitti-public, synthetic), their cells, cell
            folders or specifications. Default: all tracks.
        out: Folder for report.html, report.md and report.json.
        costs: Costs for cells without costs: a .toml file or a profile.
        analysis: Name of an analysis to run. Repeatable. Default: all.
        allocator: Recipe to fit. Repeatable. Default: all.
        code: FILE.py:NAME of your own code that cells were built with or that
            specifications name, to run it. Repeatable.
    """
    from deepval.deploy.allocators import RECIPES
    from deepval.judge.cases import openings
    from deepval.judge.tables.costs import read_costs
    from deepval.paper.analysis import ANALYSES
    from deepval.paper.run import run
    from deepval.paper.study import BOARD
    from deepval.paper.study_report import FILES, write_report

    check_data(data)
    check_writable(work, folder=True)
    check_writable(out, folder=True)
    if costs is not None:
        read_costs(costs)
    for name in analysis:
        options.one_of(name, tuple(ANALYSES), "--analysis")
    for name in allocator:
        options.one_of(name, tuple(RECIPES), "--allocator")
    with workers.start() as map_units, terminal.step_bar() as step:
        done = run(
            list(names or map(Path, NAMES)),
            work=work,
            data=data,
            costs=costs or BOARD,
            recipes=allocator or None,
            analyses=analysis or None,
            code=code,
            map_units=map_units,
            watch=terminal.watch,
            step=step,
            announce=lambda expected: say(
                _expected(expected, workers.workers), err=True
            ),
        )
    content = write_report(done, out)
    if printing.is_json:
        terminal.write(reading.text(out / FILES[2]))
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
        assert at.folder is not None  # a run builds its cells in folders
        terminal.write(
            f"  {at.cell.id}: {openings(at.folder, at.cell.id)} looks at its test "
            "units on record\n"
        )
    written = ", ".join(str(out / name) for name in FILES)
    terminal.write(f"Written to {written}\n")


def _expected(expected: RunEstimate, workers: int) -> str:
    """The expected time and disk in a sentence."""
    minutes = (expected.detector_s + expected.analyses_s / max(workers, 1)) / 60
    return (
        f"Expected, roughly: {quantity(expected.cells, 'cell')}, {expected.frames:,} "
        f"frames to run through detectors ({expected.detector_s / 60:,.1f} min); with "
        f"all analyses {minutes:,.1f} min on {quantity(workers, 'worker')} and "
        f"{expected.disk_bytes / 1e6:,.1f} MB of disk. A stopped run continues."
    )


def check_data(data: Path | None) -> None:
    """Raise where --data is no folder."""
    if data is not None and not reading.is_folder(data):
        raise InputError(
            "--data must be a folder that holds kitti_tracking, "
            f"nuscenes or others; {data} is none."
        )


def cells(
    track: tuple[str, ...] = (),
    /,
    *,
    data: options.DataFolder = None,
    work: options.WorkFolder = WORK,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Nothing is built.

    Example: deepval cells kitti-public --data data

    Args:
        track: Tracks: core, external, kitti-public, synthetic. Default: all.
    """
    check_data(data)
    listed = [
        (item, *_available(item, data, work))
        for item in tracks.read_tracks(track or None)
    ]
    if printing.is_json:
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
        terminal.write(f"    run: {line}\n")  # in one line, so that it can be copied
    if ready and data is not None:
        terminal.write(
            "    or all at once: deepval "
            f"reproduce {item.name} --data {quote(str(data))}\n"
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


Cells = Annotated[Path, Parameter(help="Folder of cells that `deepval build` wrote.")]


def leaderboard(
    folder: Path,
    /,
    *,
    cells: Cells,
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)],
    draws: Annotated[
        int, options.whole(0, options.MOST_DRAWS, group=options.INTERVALS)
    ] = 1000,
    seed: options.Seed = 0,
    strict: bool = False,
    base: Path | None = None,
    cache: Path | None = None,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Standings per cell and per track, notes, refusals with reasons.

    Example: deepval leaderboard submissions --cells cells --out leaderboard

    Args:
        folder: Folder of submissions' folders.
        out: Folder for leaderboard.json, .md and .html.
        draws: Number of bootstrap draws of units.
        strict: Exit with 2 if a submission is refused or removed from the base.
        base: Folder of the current board, if FOLDER is a proposal; its history counts.
        cache: Folder for judgements; unchanged submissions are not judged again.
    """
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
    if printing.is_json:
        terminal.write(reading.text(out / "leaderboard.json"))
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


def check(
    folder: Path,
    /,
    *,
    cells: Cells,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """Problems are listed by file, row and id; exits with 2 if the submission is
    refused.

    Example: deepval check submissions/mine --cells cells

    Args:
        folder: Folder of one submission: card.toml and scores/<cell>.csv or .parquet.
    """
    if not reading.is_folder(folder):
        raise InputError(
            f"{folder}: must be a submission's folder; there is no such folder."
        )
    built = read_cells(cells)
    checked = submissions.check(folder, built)
    done = checked.submission
    notes = [] if done is None else [*done.remarks, *card_notes(done)]
    if printing.is_json:
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
    if not printing.is_json:
        for problem in checked.problems:
            say(f"  {problem}")
    if done is None:
        number = len(checked.problems)
        raise InputError(
            f"{checked.folder}: must be a valid "
            f"submission; found {number} problem{'s' * (number > 1)}."
        )
