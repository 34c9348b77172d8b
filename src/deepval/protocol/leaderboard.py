"""A folder of submissions and a folder of cells -> a leaderboard, the same bytes for the same bytes.

There is no clock in it, no order of directories and no path of the machine. Only scores that passed every check are
judged, on test units alone; nothing that a card says of results enters. A refused submission is listed with its reasons
and the leaderboard stands; a flagged one is judged, has no rank, counts in nobody's, and stands apart with the reasons.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, json_lines, json_text
from deepval.files.writing import write_atomically
from deepval.progress import Watch, unwatched
from deepval.protocol import integrity
from deepval.protocol.cell_folders import LOCAL, TrackedCell, read_cells
from deepval.protocol.history import HISTORY, continued, history_file, read_history
from deepval.protocol.leaderboard_pages import as_html, as_markdown
from deepval.protocol.submissions import Checked, Submission, check_all
from deepval.protocol.track_standings import track_standings
from deepval.protocol.tracks import NAMES, read_track
from deepval.version import __version__

SCHEMA = "deepval/leaderboard/1"
ALPHAS, HEADLINE = (0.1, 0.2, 0.3, 0.5), 0.2


def leaderboard(
    submissions: Path | str,
    cells: Path | str,
    *,
    draws: int = 1000,
    seed: int = 0,
    cache: Path | None = None,
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """The leaderboard as plain lists, dicts and numbers.

    Args:
        submissions: Folder of submissions' folders, and history.json where there is one.
        cells: Folder of cells made by `deepval build`.
        draws: Number of bootstrap draws of units.
        seed: Seed of the draws; each data set has a child of it.
        cache: Folder in which judgements are kept: submissions that are as they were are not judged again.
        watch: Who is told how far long loops are.
    """
    built = read_cells(cells)
    history = read_history(Path(submissions))
    accepted, refused = _sifted(check_all(_folders(Path(submissions)), built, cache=cache, watch=watch))
    tracks = [name for name in (*NAMES, LOCAL) if any(cell.track == name for cell in built.values())]
    copied = integrity.copies(accepted, history)
    entries = [
        _entry(item, built, history.versions.get(item.card.key, []), copied[item.card.key], draws=draws, seed=seed)
        for item in watch(accepted, "looking at integrity")
    ]
    flagged = {entry["allocator"] for entry in entries if entry["flags"]}
    return {
        "schema": SCHEMA,
        "deepval": __version__,
        "draws": {"number": draws, "seed": seed},
        "cells": {name: _cell(cell) for name, cell in built.items()},
        "tracks": [
            _track(name, _of_track(name, built), accepted, flagged, draws=draws, seed=seed, cache=cache)
            for name in watch(tracks, "judging tracks")
        ],
        "submissions": entries,
        "refused": refused,
        "history": continued(history, accepted),
    }


def write_leaderboard(content: Mapping[str, Any], folder: Path | str) -> None:
    """leaderboard.json, .md and .html, and history.json for the next time."""
    board = {name: part for name, part in content.items() if name != "history"}
    history = json_text(history_file(content["history"]), sort_keys=True, ensure_ascii=True)
    write_atomically(Path(folder) / HISTORY, history, make_folder=True)
    write_atomically(Path(folder) / "leaderboard.md", as_markdown(board))
    write_atomically(Path(folder) / "leaderboard.html", as_html(board))
    write_atomically(Path(folder) / "leaderboard.json", json_lines(board))


def _folders(folder: Path) -> list[Path]:
    """Submissions' folders by name; plain files beside them and hidden entries are none."""
    if not reading.is_folder(folder):
        raise InputError(f"{folder}: must be a folder of submissions; there is no such folder.")
    with os.scandir(folder) as entries:
        found = [entry.name for entry in entries if not entry.name.startswith(".") and not reading.is_file(entry.path)]
    return [folder / name for name in sorted(found)]


def _sifted(checked: Sequence[Checked]) -> tuple[list[Submission], list[dict[str, Any]]]:
    """Submissions sorted by handle and name, and those refused; one name of one handle must be one submission."""
    passed = [item.submission for item in checked if item.submission is not None]
    times = Counter(item.card.key.lower() for item in passed)
    refused = [(item.folder, list(item.problems)) for item in checked if item.submission is None]
    for item in passed:
        claims = times[item.card.key.lower()]
        if claims > 1:
            reason = f"card.toml: {item.card.key} must be one submission; {claims} folders claim it."
            refused.append((item.folder, [reason]))
    accepted = [item for item in passed if times[item.card.key.lower()] == 1]
    listed = [{"folder": folder, "reasons": reasons} for folder, reasons in sorted(refused)]
    return sorted(accepted, key=lambda item: item.card.key), listed


def _of_track(name: str, built: Mapping[str, TrackedCell]) -> dict[str, TrackedCell]:
    return {key: cell for key, cell in built.items() if cell.track == name}


def _track(
    name: str,
    cells: Mapping[str, TrackedCell],
    accepted: Sequence[Submission],
    flagged: Collection[str],
    *,
    draws: int,
    seed: int,
    cache: Path | None,
) -> dict[str, Any]:
    told = None if name == LOCAL else read_track(name)
    alphas, headline = (ALPHAS, HEADLINE) if told is None else (told.alphas, told.headline_alpha)
    rows = track_standings(name, cells, accepted, flagged, alphas=alphas, draws=draws, seed=seed, cache=cache)
    overall, single = rows["overall"], rows["by_cell"]
    absent = {item.card.key: sorted({*cells} - {*item.scores}) for item in accepted if {*cells} & {*item.scores}}
    ranked = [row for row in _apart(overall, flagged)[0] if row["verdict"] in ("better", "worse", "unresolved")]
    return {
        "track": name,
        "title": "Cells that no track file describes" if told is None else told.title,
        "cells": list(cells),
        "cells_of_track": None if told is None else len(told.cells),
        "headline_alpha": headline,
        "comparisons": len(ranked),
        "overall": _apart(overall, flagged)[0],
        "by_cell": {key: _apart(rows, flagged)[0] for key, rows in single.items()},
        "flagged": {
            "overall": _apart(overall, flagged)[1],
            "by_cell": {key: _apart(rows, flagged)[1] for key, rows in single.items()},
        },
        "incomplete": {key: missing for key, missing in absent.items() if missing},
    }


def _apart(rows: Sequence[Mapping[str, Any]], flagged: Collection[str]) -> tuple[list[Any], list[Any]]:
    """Rows that are ranked, and those of flagged submissions."""
    parts: tuple[list[Any], list[Any]] = [], []
    for row in rows:
        parts[row["allocator"] in flagged].append(row)
    return parts


def _cell(cell: TrackedCell) -> dict[str, Any]:
    test = cell.scored.restrict(cell.split.test)
    return {
        "id": cell.id,
        "track": cell.track,
        "track_cell": None if cell.official is None else cell.official.id,
        "unlike": _unlike(cell),
        "digest": cell.digest,
        "profile": cell.profile,
        "modes": list(cell.table.modes),
        "test_units": len(cell.split.test),
        "test_inputs": len(test),
        "test_affected": test.affected,
        "split": cell.split.digest,
    }


def _unlike(cell: TrackedCell) -> dict[str, Any] | None:
    """The track's cell that a local one is called after, and why it is not that one."""
    like = cell.likeness
    return None if like is None or not like.differences else {"cell": like.cell.id, "because": list(like.differences)}


def _entry(
    item: Submission,
    cells: Mapping[str, TrackedCell],
    versions: Sequence[Mapping[str, str]],
    copied: Mapping[str, bool],
    *,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    card = item.card
    tracked = integrity.excesses(cells, item.scores, draws=draws, seed=seed)
    flags = [
        f"scores {'over all cells' if row.cell is None else f'of cell {row.cell}'} track the decision values of test "
        f"units far better than those of validation units: Spearman {row.test:.2f} against {row.validation:.2f}, "
        f"excess {row.excess:.2f} [{row.lo:.2f}, {row.hi:.2f}]"
        for row in tracked
        if row.noted
    ]
    flags += [f"the same scores as {other}" for other, flag in copied.items() if flag]
    flags += integrity.card_flags(item, cells)
    notes = [f"the same scores as {other}" for other, flag in copied.items() if not flag]
    changed = integrity.changes(versions, item.files)
    return {
        "allocator": card.key,
        "name": card.name,
        "handle": card.handle,
        "folder": item.folder,
        "inputs": list(card.inputs),
        "costs": {profile: dict(entry) for profile, entry in card.costs.items()},
        "measured": dict(card.measured),
        "notes": card.notes,
        "cells": list(item.scores),
        "files": dict(item.files),
        "digest": digest_of(item.files),
        "flags": flags,
        "integrity": [*flags, *notes, *([changed] if changed else []), *integrity.card_notes(item)],
        "excess": [dict(row) for row in tracked],
        "remarks": list(item.remarks),
    }
