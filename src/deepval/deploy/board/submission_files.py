"""A folder with card.toml and scores -> its content, or every
reason why it is refused.

Scores are in scores/<cell>.csv or .parquet.

Everything that scoring needs is checked here, before scoring. Links, devices and
unknown files are refused, sizes are bounded before reading, and nothing in the folder
is executed or unpickled. Reasons name files relative to the folder, so that they do not
depend on its location. The memory and time that decoding a file may take are bounded
from outside: `submissions` runs this module in a process with limits.
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

from deepval.basics.errors import InputError, InputWarning, quote, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import file_digest
from deepval.deploy.board.cards import CARD, LARGEST_CARD, card_content, card_of
from deepval.judge.tables import columns, keys
from deepval.judge.tables.scores import FIT_UNITS, IN_FIT, SCORE_PREFIX, Scores, align
from deepval.judge.tables.values import ValueTable

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
    """The facts about a cell that are needed to read untrusted scores; losses are not
    among them.

    Attributes:
        table: All inputs with their units and the cell's modes; its losses are not
            used.
        units: Validation and test units, whose inputs must be scored.
        profile: Name of its cost profile; None if costs are unknown.
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
        name: Name of the scores.
    """
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise InputError(
            f"{path}: a score file may have {LARGEST_FILE:,} bytes; found {size:,}."
        )
    score_columns = (
        ["score"]
        if len(cell.table.modes) == 2
        else ["score", *(SCORE_PREFIX + m for m in cell.table.modes[1:])]
    )
    reader = _read_csv if path.suffix == ".csv" else _read_parquet
    content = reader(
        path,
        most_rows=len(cell.table),
        allowed=["input", *score_columns, FIT_UNITS, IN_FIT],
    )
    # `deepval score` adds columns about its fits. They cannot be checked here and are
    # not used.
    content = columns.Columns(
        content.source,
        {k: v for k, v in content.data.items() if k not in (FIT_UNITS, IN_FIT)},
    )
    content.require("input")
    _check_lengths(content)
    _check_split(content, cell)
    scores = align(cell.scored, name, columns.Columns(name, content.data))
    missing = np.flatnonzero(~scores.covered)
    if len(missing):
        first = int(missing[0])
        unit = cell.scored.unit_ids[cell.scored.unit[first]]
        raise InputError(
            f"{path}: every validation and test input needs a score; input "
            f"{str(cell.scored.input[first])!r} of "
            "unit "
            f"{str(unit)!r} has "
            "none"
            f"{f', nor have {len(missing) - 1:,} more' if len(missing) > 1 else ''}."
        )
    return scores


def _read_csv(path: Path, *, most_rows: int, allowed: Sequence[str]) -> columns.Columns:
    """The columns of a CSV file; header and number of rows are checked before it is
    parsed.
    """
    with reading.open_file(path) as file:
        head = file.read(LONGEST_HEADER)
        _check_header(path, head, allowed)
        lines, last = 0, b""
        block = head
        while block and lines <= most_rows + 1:
            # As in Arrow, a row ends in \n, \r or \r\n; the end of a block may split
            # the pair.
            pairs = block.count(b"\r\n") + (last == b"\r" and block[:1] == b"\n")
            lines += block.count(b"\n") + block.count(b"\r") - pairs
            last, block = block[-1:], file.read(2**20)
    if lines > most_rows + 1:
        raise InputError(
            f"{path}: there may be one row per "
            f"input of the cell, {most_rows:,}; found more."
        )
    return columns.read(path)


def _check_header(path: Path, head: bytes, allowed: Sequence[str]) -> None:
    line, *rest = re.split(rb"[\r\n]", head, maxsplit=1)
    names = [
        name.strip().strip('"')
        for name in line.decode("utf-8-sig", errors="replace").split(",")
    ]
    if not rest or not set(names) <= set(allowed):
        raise InputError(
            f"{path}: the first line must name columns among {', '.join(allowed)}; "
            f"found {quote(line[:LONGEST_HEADER].decode('utf-8', errors='replace'))}."
        )


def _read_parquet(
    path: Path, *, most_rows: int, allowed: Sequence[str]
) -> columns.Columns:
    """The columns of a Parquet file; its footer is checked before any data are
    decoded.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading.open_file(path) as file:
        _check_magic(path, file)
        try:
            parquet = pq.ParquetFile(columns.native(path))
            _check_footer(path, parquet.metadata, most_rows=most_rows, allowed=allowed)
            # Ids stay dictionary-coded, so that a long id that repeats is not copied
            # into every row.
            coded = (
                ["input"]
                if _physical_types(parquet.metadata).get("input") == TEXT
                else None
            )
            table = pq.ParquetFile(columns.native(path), read_dictionary=coded).read(
                use_threads=False
            )
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{path}: must be a complete Parquet file; "
                f"it is cut or damaged ({reason(error)})."
            ) from error
    return columns.Columns(str(path), columns.read(table).data)


def _check_magic(path: Path, file: Any) -> None:
    head = file.read(len(MAGIC))
    tail = b""
    if file.seek(0, 2) >= len(MAGIC) * 3:
        file.seek(-8, 2)
        tail = file.read()
    if head != MAGIC or tail[4:] != MAGIC:
        raise InputError(
            f"{path}: must be a Parquet file, whatever its name "
            f"says; it starts with {head!r}."
        )
    footer = int.from_bytes(tail[:4], "little")
    if footer > LARGEST_FOOTER:
        raise InputError(
            f"{path}: the footer may have {LARGEST_FOOTER:,} bytes; it says {footer:,}."
        )


def _physical_types(metadata: Any) -> dict[str, str]:
    """Physical type of every leaf column by its path."""
    return {
        metadata.schema.column(i).path: metadata.schema.column(i).physical_type
        for i in range(metadata.num_columns)
    }


def _check_footer(
    path: Path, metadata: Any, *, most_rows: int, allowed: Sequence[str]
) -> None:
    if metadata.num_columns > len(allowed) or not set(_physical_types(metadata)) <= set(
        allowed
    ):
        names = quote(", ".join(_physical_types(metadata)))
        raise InputError(
            f"{path}: columns must be among {', '.join(allowed)}; found {names}."
        )
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if rows > most_rows:
        raise InputError(
            f"{path}: there may be one row per input of the cell, {most_rows:,}; its "
            f"footer says {rows:,}."
        )
    size = sum(
        group.column(c).total_uncompressed_size
        for group in groups
        for c in range(metadata.num_columns)
    )
    if size > LARGEST_FILE:
        raise InputError(
            f"{path}: uncompressed it may have "
            f"{LARGEST_FILE:,} bytes; its footer says {size:,}."
        )
    for i in range(metadata.num_columns):
        leaf = metadata.schema.column(i)
        kinds = NUMBERS | {TEXT} if leaf.path == "input" else NUMBERS
        if leaf.max_repetition_level or leaf.physical_type not in kinds:
            raise InputError(
                f"{path}: column {leaf.path!r} must hold "
                f"plain numbers; found {leaf.physical_type}."
            )


def _check_lengths(content: columns.Columns) -> None:
    """Refuse long ids before NumPy stores them: every row of the array is as wide as
    the longest id.
    """
    ids = content.data["input"]
    if ids.dtype.kind != "O":
        return
    for row, value in enumerate(ids):
        if isinstance(value, str) and len(value) > LONGEST_ID:
            raise InputError(
                f"{content.source}: an id may have {LONGEST_ID} characters; row "
                f"{row + 1} has {len(value):,}: {quote(value)}."
            )


def _check_split(content: columns.Columns, cell: WantedScores) -> None:
    """Refuse rows of training units and name one; `align` refuses ids that are not in
    the cell.
    """
    ids = content.ids("input")
    if np.all(keys.positions(ids, cell.scored.input) >= 0):
        return
    rows = keys.positions(ids, cell.table.input)
    unit = cell.table.unit_ids[cell.table.unit[rows]]
    wrong = np.flatnonzero((rows >= 0) & ~np.isin(unit, cell.scored.unit_ids))
    if len(wrong):
        first = int(wrong[0])
        where = columns.row_name(first, ids)
        raise InputError(
            f"{content.source}: only validation and test inputs may be scored; "
            f"{where} belongs "
            "to training "
            "unit "
            f"{str(unit[first])!r}"
            f"{f', as do {len(wrong) - 1:,} more' if len(wrong) > 1 else ''}."
        )


LARGEST_FOLDER = 4 * LARGEST_FILE
MOST_FILES = 200
MOST_PROBLEMS = 50
LONGEST_PROBLEM = 2000


@dataclass(frozen=True, eq=False)
class Reading:
    """The content of a folder, or the reasons why it is refused.

    Attributes:
        problems: One sentence for each fault; if there is one, all other attributes are
            empty.
        card: Content of the card.
        scores: Per cell, the scores of validation and test inputs.
        files: SHA-256 of every file.
        remarks: Harmless oddities, such as a last line without a line end.
    """

    problems: tuple[str, ...] = ()
    card: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Scores] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read_folder(folder: Path, cells: Mapping[str, WantedScores]) -> Reading:
    """The submission in a folder, or one sentence for each of its faults."""
    try:
        _check_name(folder)
        files = _files(folder)
        card, problems = _card(reading.content(folder / CARD))
        scores, remarks = _scores(folder, files, cells, problems)
        digests = _digests(folder, files)
    except InputError as error:
        return _refused([_relative_text(error, folder)])
    except OSError as error:
        return _refused(
            [f"every file must be readable; {error.strerror or type(error).__name__}."]
        )
    if card:
        problems += _missing_costs(card, [cells[cell] for cell in scores])
    if problems:
        return _refused(problems)
    return Reading((), card, scores, digests, remarks)


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a submission; an error if it contains a file that no
    submission may contain.
    """
    return _digests(folder, _files(folder))


def _digests(folder: Path, files: Sequence[str]) -> dict[str, str]:
    return {file: file_digest(folder / file) for file in files}


def _refused(problems: Sequence[str]) -> Reading:
    return Reading(
        tuple(problem[:LONGEST_PROBLEM] for problem in problems[:MOST_PROBLEMS])
    )


def plain_name(name: str) -> str:
    """A file's name for use in a message: unchanged if it is plain, otherwise quoted
    and shortened.
    """
    return name if re.fullmatch(r"[A-Za-z0-9 ._+()/-]{1,120}", name) else quote(name)


def _check_name(folder: Path) -> None:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError("the folder's name must be UTF-8 text; rename it.") from None


def _card(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """A card's content (empty if it has faults), and one sentence for each fault."""
    try:
        content = card_content(data)
    except InputError as error:
        return {}, [str(error)]
    card, problems = card_of(content)
    return ({} if card is None else content), problems


def _relative_text(error: Exception | str, folder: Path) -> str:
    """A message with paths relative to the folder."""
    return str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name)


def _files(folder: Path) -> list[str]:
    """Names of the files in a folder, sorted; files other than the card and scores are
    refused.
    """
    sizes: dict[str, int] = {}
    for name, entry in _entries(folder, ""):
        if name == "scores" and entry.is_dir(follow_symlinks=False):
            sizes |= {
                inner: _size(inner, item)
                for inner, item in _entries(folder / name, f"{name}/")
            }
        elif name == CARD:
            sizes[name] = _size(name, entry)
        else:
            raise InputError(
                f"{plain_name(name)}: a submission holds {CARD} and scores/<cell>.csv "
                "or .parquet only."
            )
    if CARD not in sizes:
        raise InputError(f"{CARD}: every submission needs one; there is none.")
    if sizes[CARD] > LARGEST_CARD:
        raise InputError(
            f"{CARD}: may have {LARGEST_CARD:,} bytes; found {sizes[CARD]:,}."
        )
    large = [name for name, size in sorted(sizes.items()) if size > LARGEST_FILE]
    if large:
        raise InputError(
            f"{plain_name(large[0])}: may "
            f"have {LARGEST_FILE:,} bytes; found {sizes[large[0]]:,}."
        )
    if sum(sizes.values()) > LARGEST_FOLDER:
        raise InputError(
            "a submission may "
            f"have {LARGEST_FOLDER:,} bytes; found {sum(sizes.values()):,}."
        )
    return sorted(sizes)


def _entries(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    if reading.is_link(folder) or not reading.is_folder(folder):
        raise InputError(
            f"{prefix or 'a submission'} must be a folder, not a link or a file."
        )
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_FILES:
                raise InputError(
                    f"{prefix or 'a submission'} may "
                    f"hold {MOST_FILES} files; found more."
                )
            yield prefix + entry.name, entry


def _size(name: str, entry: os.DirEntry[str]) -> int:
    if entry.is_symlink() or not entry.is_file(follow_symlinks=False):
        raise InputError(
            f"{plain_name(name)}: must be a plain file, not "
            "a link, a folder or a device."
        )
    return entry.stat(follow_symlinks=False).st_size


def _scores(
    folder: Path,
    files: Sequence[str],
    cells: Mapping[str, WantedScores],
    problems: list[str],
) -> tuple[dict[str, Scores], tuple[str, ...]]:
    """Scores by cell, and remarks; faults are appended to `problems`."""
    scores: dict[str, Scores] = {}
    remarks: list[str] = []
    for name in (name for name in files if name != CARD):
        path = folder / name
        if path.suffix not in ENDINGS or path.stem not in cells:
            names = ", ".join(cells)
            problems.append(
                f"{plain_name(name)}: must be called <cell>.csv or .parquet; the "
                f"cells here are {names}."
            )
            continue
        if path.stem in scores:
            problems.append(
                f"{name}: cell {path.stem!r} must have one file; it has two."
            )
            continue
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", InputWarning)
                scores[path.stem] = read_scores(path, cells[path.stem], name=name)
            remarks += [_relative_text(item.message, folder) for item in caught]
        except InputError as error:
            problems.append(_relative_text(error, folder))
    if len(files) == 1:
        problems.append("scores/: at least one cell must be scored; there is no file.")
    return scores, tuple(remarks)


def _missing_costs(card: Mapping[str, Any], cells: Sequence[WantedScores]) -> list[str]:
    """One sentence for each cost profile without the allocator's latency, which
    measured budgets need.
    """
    profiles = sorted({cell.profile for cell in cells if cell.profile is not None})
    return [
        (
            f"{CARD}: latency budgets need what the allocator costs; 'ms' is missing "
            f"under [costs.{profile}]."
        )
        for profile in profiles
        if "ms" not in card.get("costs", {}).get(profile, {})
    ]
