"""A folder with card.toml and scores/<cell>.csv or .parquet -> what it holds, or every reason why it is refused.

Everything that scoring needs is checked here, before scoring. Links, devices and unknown files are refused, sizes are
bounded before reading, and nothing in the folder is executed or unpickled. Reasons name files relative to the folder,
so that they do not depend on where it lies. What a file may still do while it is decoded is bounded from outside:
`submissions` has this done by a process with little memory and time.
"""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepval.errors import InputError, InputWarning, quoted
from deepval.files import reading
from deepval.files.canonical import file_digest
from deepval.protocol.cards import CARD, LARGEST_CARD, card_content, card_of
from deepval.protocol.score_files import ENDINGS, LARGEST_FILE, WantedScores, read_scores
from deepval.tables.scores import Scores

LARGEST_FOLDER = 4 * LARGEST_FILE
MOST_FILES = 200
MOST_PROBLEMS = 50
LONGEST_PROBLEM = 2000


@dataclass(frozen=True, eq=False)
class Reading:
    """What a folder holds, or why it is refused.

    Attributes:
        problems: One sentence for everything that is wrong; all else is empty where there is one.
        card: Content of the card.
        scores: Per cell, the scores of validation and test inputs.
        files: SHA-256 of every file.
        remarks: What a reader may want to know, such as a last line without an end.
    """

    problems: tuple[str, ...] = ()
    card: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Scores] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read_folder(folder: Path, cells: Mapping[str, WantedScores]) -> Reading:
    """The submission in a folder, or everything that is wrong with it, one sentence each."""
    try:
        _check_name(folder)
        files = _files(folder)
        card, problems = _card(reading.content(folder / CARD))
        scores, remarks = _scores(folder, files, cells, problems)
        digests = _digests(folder, files)
    except InputError as error:
        return _refused([_relative(error, folder)])
    except OSError as error:
        return _refused([f"every file must be readable; {error.strerror or type(error).__name__}."])
    if card:
        problems += _unpaid(card, [cells[cell] for cell in scores])
    if problems:
        return _refused(problems)
    return Reading((), card, scores, digests, remarks)


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a submission; an error where it holds what no submission may hold."""
    return _digests(folder, _files(folder))


def _digests(folder: Path, files: Sequence[str]) -> dict[str, str]:
    return {file: file_digest(folder / file) for file in files}


def _refused(problems: Sequence[str]) -> Reading:
    return Reading(tuple(problem[:LONGEST_PROBLEM] for problem in problems[:MOST_PROBLEMS]))


def plain_name(name: str) -> str:
    """A file's name as a reason shows it: as it is where it is plain, else quoted and short."""
    return name if re.fullmatch(r"[A-Za-z0-9 ._+()/-]{1,120}", name) else quoted(name)


def _check_name(folder: Path) -> None:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError("the folder's name must be UTF-8 text; rename it.") from None


def _card(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """A card's content, empty where something is wrong with it, and what that is."""
    try:
        content = card_content(data)
    except InputError as error:
        return {}, [str(error)]
    card, problems = card_of(content)
    return ({} if card is None else content), problems


def _relative(error: Exception | str, folder: Path) -> str:
    return str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name)


def _files(folder: Path) -> list[str]:
    """Names of the files in a folder, sorted; anything but the card and scores is refused."""
    found: dict[str, int] = {}
    for name, entry in _entries(folder, ""):
        if name == "scores" and entry.is_dir(follow_symlinks=False):
            found |= {inner: _size(inner, item) for inner, item in _entries(folder / "scores", "scores/")}
        elif name == CARD:
            found[name] = _size(name, entry)
        else:
            raise InputError(f"{plain_name(name)}: a submission holds {CARD} and scores/<cell>.csv or .parquet only.")
    if CARD not in found:
        raise InputError(f"{CARD}: every submission needs one; there is none.")
    if found[CARD] > LARGEST_CARD:
        raise InputError(f"{CARD}: may have {LARGEST_CARD:,} bytes; found {found[CARD]:,}.")
    large = [name for name, size in sorted(found.items()) if size > LARGEST_FILE]
    if large:
        raise InputError(f"{plain_name(large[0])}: may have {LARGEST_FILE:,} bytes; found {found[large[0]]:,}.")
    if sum(found.values()) > LARGEST_FOLDER:
        raise InputError(f"a submission may have {LARGEST_FOLDER:,} bytes; found {sum(found.values()):,}.")
    return sorted(found)


def _entries(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    if reading.is_link(folder) or not reading.is_folder(folder):
        raise InputError(f"{prefix or 'a submission'} must be a folder, not a link or a file.")
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_FILES:
                raise InputError(f"{prefix or 'a submission'} may hold {MOST_FILES} files; found more.")
            yield prefix + entry.name, entry


def _size(name: str, entry: os.DirEntry[str]) -> int:
    if entry.is_symlink() or not entry.is_file(follow_symlinks=False):
        raise InputError(f"{plain_name(name)}: must be a plain file, not a link, a folder or a device.")
    return entry.stat(follow_symlinks=False).st_size


def _scores(
    folder: Path, files: Sequence[str], cells: Mapping[str, WantedScores], problems: list[str]
) -> tuple[dict[str, Scores], tuple[str, ...]]:
    scores: dict[str, Scores] = {}
    remarks: list[str] = []
    for name in (name for name in files if name != CARD):
        path = folder / name
        if path.suffix not in ENDINGS or path.stem not in cells:
            known = ", ".join(cells)
            problems.append(f"{plain_name(name)}: must be called <cell>.csv or .parquet; the cells here are {known}.")
            continue
        if path.stem in scores:
            problems.append(f"{name}: cell {path.stem!r} must have one file; it has two.")
            continue
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", InputWarning)
                scores[path.stem] = read_scores(path, cells[path.stem], name=name)
            remarks += [_relative(item.message, folder) for item in caught]
        except InputError as error:
            problems.append(_relative(error, folder))
    if len(files) == 1:
        problems.append("scores/: at least one cell must be scored; there is no file.")
    return scores, tuple(remarks)


def _unpaid(card: Mapping[str, Any], cells: Sequence[WantedScores]) -> list[str]:
    """Measured budgets are judged wherever a cell has costs, so an allocator must say what it costs there."""
    profiles = sorted({cell.profile for cell in cells if cell.profile is not None})
    return [
        f"{CARD}: latency budgets need what the allocator costs; 'ms' is missing under [costs.{profile}]."
        for profile in profiles
        if "ms" not in card.get("costs", {}).get(profile, {})
    ]
