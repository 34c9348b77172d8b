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
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deepval.errors import InputError, InputWarning, quoted, reason
from deepval.files import reading
from deepval.files.canonical import file_digest
from deepval.protocol.cards import CARD, LARGEST_CARD, card_content, card_of
from deepval.tables import columns
from deepval.tables.scores import FIT_UNITS, IN_FIT, SCORE_PREFIX, Scores, align
from deepval.tables.values import ValueTable

LARGEST_FILE = 64 * 2**20
LARGEST_FOOTER = 2**20
LONGEST_HEADER = 4096
LONGEST_ID = 200
ENDINGS = (".csv", ".parquet")
MAGIC = b"PAR1"
NUMBERS = frozenset({"FLOAT", "DOUBLE", "INT32", "INT64"})
TEXT = "BYTE_ARRAY"


@dataclass(frozen=True, eq=False)
class WantedScores:
    """What must be known of a cell to read the scores of a stranger: no answer is.

    Attributes:
        table: All inputs with their units and the cell's modes; losses are not looked at.
        units: Validation and test units: those whose inputs must be scored.
        profile: Name of its cost profile, None where costs are unknown.
    """

    table: ValueTable = field(repr=False)
    units: tuple[str, ...]
    profile: str | None = None

    @cached_property
    def scored(self) -> ValueTable:
        """The inputs that must be scored."""
        return self.table.restrict(self.units)


def read_scores(path: Path, cell: WantedScores, *, name: str) -> Scores:
    """Scores of a cell's validation and test inputs, all of them and no others.

    Args:
        path: A .csv or .parquet file with columns `input` and `score`.
        cell: The cell that is scored.
        name: What the scores are called.
    """
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise InputError(f"{path}: a score file may have {LARGEST_FILE:,} bytes; found {size:,}.")
    wanted = ["score"] if len(cell.table.modes) == 2 else ["score", *(SCORE_PREFIX + m for m in cell.table.modes[1:])]
    reader = _bounded_csv if path.suffix == ".csv" else _bounded_parquet
    found = reader(path, most_rows=len(cell.table), allowed=["input", *wanted, FIT_UNITS, IN_FIT])
    # What `deepval score` states of its fits cannot be checked here, and nothing rests on it.
    found = columns.Columns(found.source, {k: v for k, v in found.data.items() if k not in (FIT_UNITS, IN_FIT)})
    found.require("input")
    _check_lengths(found)
    _check_split(found, cell)
    scores = align(cell.scored, name, columns.Columns(name, found.data))
    absent = np.flatnonzero(~scores.covered)
    if len(absent):
        first = int(absent[0])
        unit = cell.scored.unit_ids[cell.scored.unit[first]]
        raise InputError(
            f"{path}: every validation and test input needs a score; input {str(cell.scored.input[first])!r} of unit "
            f"{str(unit)!r} has none{f', nor have {len(absent) - 1:,} more' if len(absent) > 1 else ''}."
        )
    return scores


def _bounded_csv(path: Path, *, most_rows: int, allowed: Sequence[str]) -> columns.Columns:
    with reading.opened(path) as file:
        head = file.read(LONGEST_HEADER)
        _check_header(path, head, allowed)
        lines, last = 0, b""
        block = head
        while block and lines <= most_rows + 1:
            # A row ends in \n, \r or \r\n, as for Arrow; the pair may be cut by the end of a block.
            pairs = block.count(b"\r\n") + (last == b"\r" and block[:1] == b"\n")
            lines += block.count(b"\n") + block.count(b"\r") - pairs
            last, block = block[-1:], file.read(2**20)
    if lines > most_rows + 1:
        raise InputError(f"{path}: there may be one row per input of the cell, {most_rows:,}; found more.")
    return columns.read(path)


def _check_header(path: Path, head: bytes, allowed: Sequence[str]) -> None:
    line, *rest = re.split(rb"[\r\n]", head, maxsplit=1)
    names = [name.strip().strip('"') for name in line.decode("utf-8-sig", errors="replace").split(",")]
    if not rest or not set(names) <= set(allowed):
        raise InputError(
            f"{path}: the first line must name columns among {', '.join(allowed)}; found "
            f"{quoted(line[:LONGEST_HEADER].decode('utf-8', errors='replace'))}."
        )


def _bounded_parquet(path: Path, *, most_rows: int, allowed: Sequence[str]) -> columns.Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading.opened(path) as file:
        _check_magic(path, file)
        try:
            parquet = pq.ParquetFile(columns.native(path))
            _check_footer(path, parquet.metadata, most_rows=most_rows, allowed=allowed)
            coded = ["input"] if _physical(parquet.metadata).get("input") == TEXT else None
            table = pq.ParquetFile(columns.native(path), read_dictionary=coded).read(use_threads=False)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{path}: must be a complete Parquet file; it is cut or damaged ({reason(error)})."
            ) from error
    return columns.Columns(str(path), columns.read(table).data)


def _check_magic(path: Path, file: Any) -> None:
    head = file.read(len(MAGIC))
    tail = b""
    if file.seek(0, 2) >= len(MAGIC) * 3:
        file.seek(-8, 2)
        tail = file.read()
    if head != MAGIC or tail[4:] != MAGIC:
        raise InputError(f"{path}: must be a Parquet file, whatever its name says; it starts with {head!r}.")
    footer = int.from_bytes(tail[:4], "little")
    if footer > LARGEST_FOOTER:
        raise InputError(f"{path}: the footer may have {LARGEST_FOOTER:,} bytes; it says {footer:,}.")


def _physical(metadata: Any) -> dict[str, str]:
    """Physical type of every leaf by its path."""
    return {
        metadata.schema.column(i).path: metadata.schema.column(i).physical_type for i in range(metadata.num_columns)
    }


def _check_footer(path: Path, metadata: Any, *, most_rows: int, allowed: Sequence[str]) -> None:
    if metadata.num_columns > len(allowed) or not set(_physical(metadata)) <= set(allowed):
        names = quoted(", ".join(_physical(metadata)))
        raise InputError(f"{path}: columns must be among {', '.join(allowed)}; found {names}.")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if rows > most_rows:
        raise InputError(
            f"{path}: there may be one row per input of the cell, {most_rows:,}; its footer says {rows:,}."
        )
    size = sum(group.column(c).total_uncompressed_size for group in groups for c in range(metadata.num_columns))
    if size > LARGEST_FILE:
        raise InputError(f"{path}: uncompressed it may have {LARGEST_FILE:,} bytes; its footer says {size:,}.")
    for i in range(metadata.num_columns):
        leaf = metadata.schema.column(i)
        kinds = NUMBERS | {TEXT} if leaf.path == "input" else NUMBERS
        if leaf.max_repetition_level or leaf.physical_type not in kinds:
            raise InputError(f"{path}: column {leaf.path!r} must hold plain numbers; found {leaf.physical_type}.")


def _check_lengths(found: columns.Columns) -> None:
    """Refuse long ids before they become an array whose rows are all as wide as the longest."""
    ids = found.data["input"]
    if ids.dtype.kind != "O":
        return
    for row, value in enumerate(ids):
        if isinstance(value, str) and len(value) > LONGEST_ID:
            raise InputError(
                f"{found.source}: an id may have {LONGEST_ID} characters; row {row + 1} has {len(value):,}: "
                f"{quoted(value)}."
            )


def _check_split(found: columns.Columns, cell: WantedScores) -> None:
    """Refuse rows of training units by name; ids that the cell does not know are refused when they are aligned."""
    ids = found.ids("input")
    if np.all(columns.positions(ids, cell.scored.input) >= 0):
        return
    rows = columns.positions(ids, cell.table.input)
    unit = cell.table.unit_ids[cell.table.unit[rows]]
    wrong = np.flatnonzero((rows >= 0) & ~np.isin(unit, cell.scored.unit_ids))
    if len(wrong):
        first = int(wrong[0])
        raise InputError(
            f"{found.source}: only validation and test inputs may be scored; {columns.place(first, ids)} belongs to "
            f"training unit {str(unit[first])!r}{f', as do {len(wrong) - 1:,} more' if len(wrong) > 1 else ''}."
        )


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
