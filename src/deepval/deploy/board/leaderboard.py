"""A folder of submissions and a folder of cells -> a leaderboard; the same files always
give the same bytes.

It does not depend on the clock, the order of directory entries or paths of the machine.
Only scores that passed every check are judged, on test units alone; results that a card
claims are ignored. A refused submission is listed with its reasons and does not stop
the leaderboard. A submission with the ranking of another handle is flagged: it is
judged and listed in a separate table with the reason; it has no rank and does not
affect the ranks of others.

A proposal, such as a pull request, is judged against a base, the board's own folder:
the base alone decides which submission was first, and a submission of the base that the
proposal removes stays on the board.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, json_lines, json_text
from deepval.basics.files.writing import write_atomically
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.board import integrity
from deepval.deploy.board.cards import folded
from deepval.deploy.board.leaderboard_pages import as_html, as_markdown
from deepval.deploy.board.standings import track_standings
from deepval.deploy.board.submission_files import file_digests, plain_name
from deepval.deploy.board.submissions import (
    HISTORY,
    Checked,
    History,
    Submission,
    check_all,
    continued,
    history_file,
    read_history,
)
from deepval.deploy.board.tracks import (
    LOCAL,
    NAMES,
    TrackedCell,
    read_cells,
    read_track,
)
from deepval.judge.allowances import LEVELS
from deepval.judge.results import lists_by_key
from deepval.version import __version__

SCHEMA = "deepval/leaderboard/1"
HEADLINE = 0.2


def leaderboard(
    submissions: Path | str,
    cells: Path | str,
    *,
    base: Path | None = None,
    draws: int = 1000,
    seed: int = 0,
    cache: Path | None = None,
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """The leaderboard as plain lists, dicts and numbers.

    Args:
        submissions: Folder with one folder per submission and, except for a first
            leaderboard, history.json.
        cells: Folder of cells made by `deepval build`.
        base: The board's own folder of submissions, if `submissions` is a proposal to
            change it. Its history.json is used and that of the proposal is ignored. A
            folder that does not exist is an empty board.
        draws: Number of bootstrap draws of units.
        seed: Seed of the draws; each data set uses a child seed.
        cache: Folder of cached judgements: unchanged submissions are not judged again.
        watch: Reports the progress of long loops.
    """
    built = read_cells(cells)
    folders, board = (
        _folders(Path(submissions)),
        _Board.read(Path(submissions) if base is None else base),
    )
    base_folders = [] if base is None else board.changed(folders)
    checked = check_all([*folders, *base_folders], built, cache=cache, watch=watch)
    proposal, before = checked[: len(folders)], checked[len(folders) :]
    removed_entries = _removed_by_proposal(proposal, before)
    history = (
        board.history if base is None else _completed_history(board, proposal, before)
    )
    accepted, refused = _sort_out([*proposal, *removed_entries], history)
    tracks = [
        name
        for name in (*NAMES, LOCAL)
        if any(cell.track == name for cell in built.values())
    ]
    flags, rankings = integrity.copies(accepted, built, history)
    entries = [
        _entry(item, built, history.versions.get(item.card.key, []), own_flags)
        for item, own_flags in zip(accepted, flags, strict=True)
    ]
    removed = sorted(item.card.key for item in _submissions(removed_entries))
    for entry in entries:
        if entry["allocator"] in removed:
            entry["integrity"].append(
                "the proposal removes it; it is judged as it stands on the board"
            )
    flagged = {entry["allocator"] for entry in entries if entry["flags"]}
    return {
        "schema": SCHEMA,
        "deepval": __version__,
        "draws": {"number": draws, "seed": seed},
        "cells": {name: _cell(cell) for name, cell in built.items()},
        "tracks": [
            _track(name, built, accepted, flagged, draws=draws, seed=seed, cache=cache)
            for name in watch(tracks, "judging tracks")
        ],
        "submissions": entries,
        "refused": refused,
        "removed": removed,
        "changed": [item.card.key for item in accepted if _differs(item, history)],
        "history": continued(history, accepted, rankings),
    }


def write_leaderboard(content: Mapping[str, Any], folder: Path | str) -> None:
    """Write leaderboard.json, .md and .html, and history.json for the next
    leaderboard.
    """
    board = {name: part for name, part in content.items() if name != "history"}
    history = json_text(
        history_file(content["history"]), sort_keys=True, ensure_ascii=True
    )
    write_atomically(Path(folder) / HISTORY, history, make_folder=True)
    write_atomically(Path(folder) / "leaderboard.md", as_markdown(board))
    write_atomically(Path(folder) / "leaderboard.html", as_html(board))
    write_atomically(Path(folder) / "leaderboard.json", json_lines(board))


def _folders(folder: Path) -> list[Path]:
    """The folders of submissions, sorted by name; plain files and hidden entries are
    skipped.
    """
    if not reading.is_folder(folder):
        raise InputError(
            f"{folder}: must be a folder of submissions; there is no such folder."
        )
    with os.scandir(folder) as entries:
        names = [
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and not reading.is_file(entry.path)
        ]
    return [folder / name for name in sorted(names)]


class _Board(NamedTuple):
    """The board's own folder: its history, and the hashes of files of every submission
    in it.
    """

    history: History
    folders: Mapping[Path, Mapping[str, str] | None]

    @classmethod
    def read(cls, folder: Path) -> "_Board":
        if not reading.exists(folder):
            return cls(History(), {})
        return cls(
            read_history(folder), {path: _files(path) for path in _folders(folder)}
        )

    def changed(self, folders: Sequence[Path]) -> list[Path]:
        """The board's folders that are missing among `folders` or have other files
        there.
        """
        others = {path.name: path for path in folders}
        return [
            path
            for path, files in self.folders.items()
            if files is None or _files(others.get(path.name)) != files
        ]

    def holds(self, item: Submission) -> bool:
        """Whether the board contains this submission with the same files."""
        return any(
            plain_name(path.name) == item.folder and files == item.files
            for path, files in self.folders.items()
        )


def _files(folder: Path | None) -> dict[str, str] | None:
    """Hashes of the files of a submission's folder; None if it is missing or contains a
    file that is not allowed.
    """
    try:
        return None if folder is None else file_digests(folder)
    except (InputError, OSError):
        return None


def _submissions(checked: Sequence[Checked]) -> list[Submission]:
    """The submissions that passed all checks."""
    return [item.submission for item in checked if item.submission is not None]


def _removed_by_proposal(
    proposed: Sequence[Checked], before: Sequence[Checked]
) -> list[Checked]:
    """Submissions of the board whose name no folder of the proposal claims."""
    claimed = {item.card.key for item in _submissions(proposed)}
    return [
        item
        for item in before
        if item.submission is not None and item.submission.card.key not in claimed
    ]


def _completed_history(
    board: _Board, proposed: Sequence[Checked], before: Sequence[Checked]
) -> History:
    """The board's history with those submissions of its folder that it lacks and whose
    name is unique there.
    """
    names = {folded(key) for key in board.history.versions}
    present = [
        item
        for item in [*_submissions(proposed), *_submissions(before)]
        if board.holds(item)
    ]
    claims = Counter(folded(item.card.key) for item in present)
    lacking = [
        i
        for i in present
        if folded(i.card.key) not in names and claims[folded(i.card.key)] == 1
    ]
    return continued(board.history, lacking)


def _differs(item: Submission, history: History) -> bool:
    """Whether a submission has other files than its last version in the history."""
    versions = history.versions.get(item.card.key)
    return bool(versions) and versions[-1] != item.files


def _sort_out(
    checked: Sequence[Checked], history: History
) -> tuple[list[Submission], list[dict[str, Any]]]:
    """Accepted submissions sorted by handle and name, and refused ones.

    Handles and names that differ only in case or spacing are the same. The history
    decides which spelling, folder and files own a name; all other claimants are
    refused. If several folders claim a name without a history, all of them are refused.
    """
    refused = [
        (item.folder, list(item.problems))
        for item in checked
        if item.submission is None
    ]
    accepted: list[Submission] = []
    handles, keys = (
        _spellings(key.partition("/")[0] for key in history.versions),
        _spellings(history.versions),
    )
    passed = _submissions(checked)
    spelled = _spellings(item.card.handle for item in passed)
    for name, items in lists_by_key(
        (folded(item.card.key), item) for item in passed
    ).items():
        owner = _owner(
            [item for item in items if item.card.key in keys.get(name, ())], history
        )
        for item in items:
            mine, handle = item.card.key, folded(item.card.handle)
            if item.card.handle not in handles.get(
                handle, spelled[handle][:1] if len(spelled[handle]) == 1 else ()
            ):
                other = ", ".join(handles.get(handle, spelled[handle]))
                reason = (
                    f"handle {item.card.handle} must differ from others in more than "
                    f"hyphens; there is {other}."
                )
            elif mine not in keys.get(name, (mine,)):
                reason = (
                    f"{mine} must differ from others in more than case and spacing; "
                    f"the board has {keys[name][0]}."
                )
            elif len(items) > 1 and item is not owner:
                reason = (
                    f"{mine} must be one submission; {len(items)} folders claim it."
                )
            else:
                accepted.append(item)
                continue
            refused.append((item.folder, [f"card.toml: {reason}"]))
    listed = [
        {"folder": folder, "reasons": reasons} for folder, reasons in sorted(refused)
    ]
    return sorted(accepted, key=lambda item: item.card.key), listed


def _spellings(texts: Iterable[str]) -> dict[str, list[str]]:
    """Per folded text, its spellings."""
    return lists_by_key((folded(text), text) for text in dict.fromkeys(texts))


def _owner(items: Sequence[Submission], history: History) -> Submission | None:
    """The submission that the history has under a name that several claim; None if that
    is ambiguous.
    """
    if len(items) == 1:
        return items[0]
    in_folder = [
        item for item in items if history.folders.get(item.card.key) == item.folder
    ]
    unchanged = [
        item for item in items if history.versions[item.card.key][-1] == item.files
    ]
    return next((part[0] for part in (in_folder, unchanged) if len(part) == 1), None)


def _track(
    name: str,
    built: Mapping[str, TrackedCell],
    accepted: Sequence[Submission],
    flagged: Collection[str],
    *,
    draws: int,
    seed: int,
    cache: Path | None,
) -> dict[str, Any]:
    cells = {key: cell for key, cell in built.items() if cell.track == name}
    track = None if name == LOCAL else read_track(name)
    alphas, headline = (
        (LEVELS, HEADLINE) if track is None else (track.alphas, track.headline_alpha)
    )
    rows = track_standings(
        name,
        cells,
        accepted,
        flagged,
        alphas=alphas,
        draws=draws,
        seed=seed,
        cache=cache,
    )
    overall, flagged_overall = _split_flagged(rows["overall"], flagged)
    by_cell = {
        key: _split_flagged(own, flagged) for key, own in rows["by_cell"].items()
    }
    missing_cells = {
        item.card.key: sorted({*cells} - {*item.scores})
        for item in accepted
        if {*cells} & {*item.scores}
    }
    ranked = [
        row for row in overall if row["verdict"] in ("better", "worse", "unresolved")
    ]
    return {
        "track": name,
        "title": "Local cells, never official" if track is None else track.title,
        "cells": list(cells),
        "cells_of_track": None if track is None else len(track.cells),
        "headline_alpha": headline,
        "comparisons": len(ranked),
        "overall": overall,
        "by_cell": {key: rows for key, (rows, _) in by_cell.items()},
        "flagged": {
            "overall": flagged_overall,
            "by_cell": {key: rows for key, (_, rows) in by_cell.items()},
        },
        "incomplete": {
            key: missing for key, missing in missing_cells.items() if missing
        },
    }


def _split_flagged(
    rows: Sequence[Mapping[str, Any]], flagged: Collection[str]
) -> tuple[list[Any], list[Any]]:
    """Rows of ranked submissions and references, and rows of flagged submissions."""
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
    """The track's cell with the name of a local cell, and the differences between the
    two.
    """
    like = cell.match
    return (
        None
        if like is None or not like.differences
        else {"cell": like.cell.id, "because": list(like.differences)}
    )


def _entry(
    item: Submission,
    cells: Mapping[str, TrackedCell],
    versions: Sequence[Mapping[str, str]],
    flags: Sequence[str],
) -> dict[str, Any]:
    card = item.card
    correlations = integrity.rank_correlations(item, cells)
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
        "flags": list(flags),
        "integrity": [
            *flags,
            *([changed] if changed else []),
            *integrity.card_notes(item),
            *([correlations] if correlations else []),
        ],
        "remarks": list(item.remarks),
    }
