"""Score files of strangers -> one score per validation and test input of a cell, bounded before they are decoded.

A file's size, its header and, for Parquet, the rows, columns, types and uncompressed size in its footer are looked at
before anything is decoded. Ids stay dictionary-coded until their length is known, so that one long text repeated in
every row cannot grow. Nothing is ever unpickled: a pickle or an archive under another name has no header that fits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deepval.errors import InputError, quoted, reason
from deepval.files import reading
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
