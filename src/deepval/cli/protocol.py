"""`deepval cells`, `deepval validate` and `deepval leaderboard`: the official protocol on a folder of submissions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cli import options
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.writing import check_writable
from deepval.protocol import leaderboard as boards
from deepval.protocol import submissions, tracks
from deepval.protocol.cell_folders import read_cells
from deepval.protocol.integrity import contradictions
from deepval.report.tables import counted

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
    found = tracks.read_tracks(track)
    if json:
        typer.echo(options.as_json([_track(item, data) for item in found]), nl=False)
        return
    for item in found:
        say(f"{item.name}: {item.title} ({counted(len(item.cells), 'cell')})")
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
        say(f"{done.card.key}: valid; {counted(rows, 'score')} on {counted(len(done.scores), 'cell')}.")
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
        judged, on = counted(len(content["submissions"]), "submission"), counted(len(content["cells"]), "cell")
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
