"""A Parquet file, or a folder of them -> its rows in order, in chunks of bounded
memory.

Files of a folder are read in the order of their names. Errors name the source, the
column and the row, counted over all files.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import PerRow, RowInts, RowValues
from deepval.basics.errors import InputError, library, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import MANIFEST
from deepval.judge.tables import columns, keys
from deepval.judge.tables.columns import LOSS_PREFIX, REWARD_PREFIX, parquet_files
from deepval.judge.tables.costs import Costs

CHUNK = 1 << 18
"""Rows of a chunk."""
BUFFER = 1 << 20
"""Bytes of a column that are read ahead."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Parquet files with the same columns.

    Attributes:
        source: Their name in messages.
        files: The files in order.
        lengths: Number of rows of each file.
        types: Arrow types of the columns by name.
        stamps: Inode, size and change time of each file, to detect changes while it is
            read.
    """

    source: str
    files: tuple[Path, ...]
    lengths: tuple[int, ...]
    types: Mapping[str, Any]
    stamps: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> "Parts":
        """The files at a path; `name` is put before it in messages."""
        source = str(path) if name is None else f"{name}: {path}"
        files = columns.parquet_files(path)
        if not files or any(file.suffix.lower() != ".parquet" for file in files):
            raise InputError(
                f"{source}: must be a .parquet file or a folder of them to be read "
                "piece by piece."
            )
        stamps = tuple(map(_stamp, files))
        heads = [_head(file, source) for file in files]
        names = {file: types for file, (_, types) in zip(files, heads, strict=True)}
        columns.refuse_other_columns(source, names)
        merged = {
            column: _common_type([types[column] for types in names.values()])
            for column in heads[0][1]
        }
        return cls(source, files, tuple(rows for rows, _ in heads), merged, stamps)

    def __len__(self) -> int:
        return sum(self.lengths)

    def require(self, *names: str) -> None:
        """Raise where a column is missing or there is no row."""
        for name in names:
            if name not in self.types:
                raise InputError(
                    f"{self.source}: column {name!r} is needed; found "
                    f"{', '.join(self.types)}."
                )
        if len(self) == 0:
            raise InputError(f"{self.source}: at least one row is needed; found none.")

    def chunks(self, *names: str) -> Iterator[Mapping[str, Any]]:
        """Columns in chunks of CHUNK rows; the last chunk may be shorter."""
        pending: list[Any] = []
        waiting = read = 0
        for batch in self._batches(names):
            pending.append(batch)
            waiting += len(batch)
            read += len(batch)
            while waiting >= CHUNK:
                # A batch has at most CHUNK rows, so only the last one is split.
                left = waiting - CHUNK
                *whole, last = pending
                own = len(last) - left
                yield _by_name([*whole, last.slice(0, own)], names)
                pending = [last.slice(own)]
                waiting = left
        if read != len(self):
            raise InputError(
                f"{self.source}: must be complete Parquet files; their headers "
                f"declare {len(self):,} rows, but they have {read:,}."
            )
        if waiting > 0:
            yield _by_name(pending, names)

    def numbers(self, name: str) -> Iterator[PerRow]:
        """A column as float64, CHUNK rows at a time; nulls become NaN."""
        self.check_numbers(name)
        return (as_numbers(chunk[name]) for chunk in self.chunks(name))

    def ids(self, name: str, *, text: bool) -> Iterator[RowValues]:
        """A column of ids as text or integers, CHUNK rows at a time."""
        first = 0
        for chunk in self.chunks(name):
            yield self._as_ids(chunk[name], name, first, text=text)
            first += len(chunk[name])

    def head(self) -> columns.Columns:
        """The first row, with what the first file says about its columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.require()
        first = next(iter(self.chunks(*self.types)))
        table = pa.table({name: column.slice(0, 1) for name, column in first.items()})
        with columns.native(self.files[0]) as file:
            table = table.replace_schema_metadata(pq.read_schema(file).metadata)
        return columns.of_arrow(table, self.source)

    def check_numbers(self, *names: str) -> None:
        """Raise where a column is not of numbers."""
        for name in names:
            if not _is_number(self.types[name]):
                raise InputError(
                    f"{self.source}: column {name!r} must "
                    f"hold numbers; found {self.types[name]}."
                )

    def has_text(self, name: str) -> bool:
        """Whether ids are read as text; raises where they are neither text nor
        integers.

        Unsigned integers of 64 bits count as text: int64 does not hold them all.
        """
        import pyarrow as pa

        kind = self.types[name]
        if pa.types.is_integer(kind):
            return pa.types.is_uint64(kind)
        if not _is_text(kind):
            raise InputError(
                f"{self.source}: column {name!r} must hold text "
                f"or integers; found {kind}."
            )
        return True

    def id_codes(self, name: str) -> Iterator[tuple[Sequence[str], RowInts]]:
        """Per CHUNK rows, the distinct ids as text and the index of each row's id among
        them.
        """
        import pyarrow as pa

        self.has_text(name)
        first = 0
        for chunk in self.chunks(name):
            column = chunk[name]
            self._refuse_null(column, name, first)
            first += len(column)
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            coded = column.unify_dictionaries().combine_chunks()
            if isinstance(coded, pa.ChunkedArray):
                coded = coded.chunk(0)
            words = coded.dictionary.to_numpy(zero_copy_only=False)
            ids = columns.id_array(words, f"{self.source}: column {name!r}")
            codes = coded.indices.to_numpy(zero_copy_only=False)
            yield keys.as_text(ids).tolist(), codes.astype(np.int64, copy=False)

    def width(self, name: str) -> float:
        """Uncompressed bytes per row of a column."""
        import pyarrow.parquet as pq

        size = 0
        for path in self.files:
            with columns.native(path) as file:
                metadata = pq.ParquetFile(file).metadata
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                for at in range(group.num_columns):
                    column = group.column(at)
                    if column.path_in_schema == name:
                        size += column.total_uncompressed_size
        return size / max(1, len(self))

    def id_at(self, row: int, name: str = "input") -> str:
        """The id of one row."""
        for at, ids in enumerate(self.ids(name, text=self.has_text(name))):
            if row < (at + 1) * CHUNK:
                return str(ids[row - at * CHUNK])
        raise IndexError(row)

    def _as_ids(self, column: Any, name: str, first: int, *, text: bool) -> RowValues:
        self._refuse_null(column, name, first)
        ids = columns.id_array(
            columns.to_numpy(column, f"{self.source}: column {name!r}"), self.source
        )
        return keys.as_text(ids) if text else ids

    def _refuse_null(self, column: Any, name: str, first: int) -> None:
        if column.null_count:
            row = first + column.is_null().to_numpy().argmax()
            raise InputError(
                f"{self.source}: column {name!r} must hold "
                f"text or integers; row {row + 1} holds None."
            )

    def _batches(self, names: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        coded = [n for n in names if n == "unit" and _is_text(self.types[n])]
        for path, stamp in zip(self.files, self.stamps, strict=True):
            try:
                if _stamp(path) != stamp:
                    raise InputError(
                        f"{path}: must stay as it is while it is read, and it was "
                        "changed: start again."
                    )
                with columns.native(path) as file:
                    parquet = pq.ParquetFile(
                        file,
                        read_dictionary=coded,
                        buffer_size=BUFFER,
                        pre_buffer=False,
                    )
                    yield from parquet.iter_batches(
                        CHUNK, columns=list(names), use_threads=False
                    )
            except (pa.ArrowException, OSError, ValueError) as error:
                raise columns.damage_error(path, error) from error


def as_numbers(column: Any) -> PerRow:
    """A column as float64; nulls become NaN."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.to_numpy().astype(np.float64, copy=False)


def _stamp(path: Path) -> tuple[int, int, int]:
    """Inode, size and change time of a file; programs cannot set the change time,
    unlike the modification time.
    """
    with reading.open_file(path) as file:
        status = os.fstat(file.fileno())
    return status.st_ino, status.st_size, status.st_ctime_ns


def _head(path: Path, source: str) -> tuple[int, dict[str, Any]]:
    """Number of rows and Arrow types of the columns of a file."""
    pa, pq = library("pyarrow"), library("pyarrow.parquet")

    try:
        with columns.native(path) as file:
            parquet = pq.ParquetFile(file)
            schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise columns.damage_error(path, error) from error
    names = schema.names
    columns.refuse_equal_names(names, source)
    return rows, dict(zip(names, schema.types, strict=True))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    )


def _common_type(kinds: Sequence[Any]) -> Any:
    """Type of a column over several files: the first text or uint64 type, else the type
    in the first file.
    """
    import pyarrow as pa

    return next(
        (kind for kind in kinds if _is_text(kind) or pa.types.is_uint64(kind)), kinds[0]
    )


def _by_name(batches: list[Any], names: Sequence[str]) -> dict[str, Any]:
    import pyarrow as pa

    chunk = {}
    for name in names:
        arrays = [batch.column(name) for batch in batches]
        chunk[name] = pa.chunked_array(_to_one_type(arrays))
    return chunk


def _to_one_type(arrays: list[Any]) -> list[Any]:
    """Arrays of one type; where files differ, text if any has text, else int64 or
    float64.
    """
    import pyarrow as pa

    kinds = {array.type for array in arrays}
    if len(kinds) == 1:
        return arrays
    common = pa.float64()
    if any(map(_is_text, kinds)):
        common = pa.string()
    elif all(map(pa.types.is_integer, kinds)):
        common = pa.int64()
    return [array.cast(common) for array in arrays]


def number_error(
    parts: Parts, name: str, row: int, value: float, need: str
) -> InputError:
    """Error about a number in a row."""
    where = columns.row_name(row)
    if "input" in parts.types:
        where += f" (input {quote(parts.id_at(row))})"
    return InputError(
        f"{parts.source}: column {name!r} must {need}; {where} holds {value}."
    )


VARIABLE = "DEEPVAL_MEMORY"
"""Environment variable with the memory that may be used."""
USABLE = 0.8
"""Share of the available memory that may be used by default."""
SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
PER_ROW, PER_LOSS, PER_SCORE, PER_CHARACTER = 80, 16, 24, 8
"""Bytes that judging in memory takes per row, per loss, per score and per byte of a
text id: slightly above the measured figures (docs/scale.md)."""


@dataclass(frozen=True, eq=False)
class OnDisk:
    """A values file, or a folder of them, that is read piece by piece, with the costs
    of its modes if available.
    """

    source: Path
    costs: Costs | None = None
    why: str = ""


def on_disk(source: Any, scores: Any, memory: Any = None) -> OnDisk | None:
    """The table to read piece by piece; None where table and scores fit in memory, or
    are not Parquet files.

    Args:
        source: Source of the table.
        scores: Source of the scores, by allocator.
        memory: Bytes that may be used, or text such as "1.5GB". None takes the value of
            DEEPVAL_MEMORY, or else most of the available memory. 0 reads every Parquet
            file piece by piece.
    """
    size = os.environ.get(VARIABLE) if memory is None else memory
    allowed = None
    if size not in (None, ""):
        allowed = memory_limit(size)
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    folder = path
    if not reading.is_folder(path):
        folder = path.parent
        if path.suffix.lower() != ".parquet" or not reading.is_file(path):
            return None
    # A cell is read whole, and verified.
    if reading.exists(folder / MANIFEST) or not parquet_files(path):
        return None
    try:
        needed = _memory_estimate(path, scores)
    except InputError:  # the reader of the table reports the reason
        return None
    limit = "most of what is free"
    if allowed is None:
        allowed = available_memory() * USABLE
    else:
        limit = f"{_size_text(allowed)} allowed"
    if needed <= allowed:
        return None
    return OnDisk(path, why=f"about {_size_text(needed)} in memory, {limit}")


def memory_limit(size: Any) -> int:
    """Bytes that may be used: a number, or text such as "1.5GB"."""
    text = str(size).lower().strip()
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,4})?)\s*([kmgt]?b)?", text)
    # A text without a unit is clear only if it is 0.
    needs_unit = isinstance(size, str) and text.strip("0.") != ""
    is_clear = match is not None and bool(match[2] or not needs_unit)
    if match is None or not is_clear or isinstance(size, bool):
        raise InputError(
            f"memory must be a size such as 1.5GB, 800MB or 0; found {quote(size)}."
        )
    return int(float(match[1]) * SIZES[match[2] or "b"])


def available_memory() -> int:
    """Bytes of memory available without swapping, at most the limit of the container;
    Windows does not tell.
    """
    bounds = [sys.maxsize]
    if hasattr(os, "sysconf"):
        bounds.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path, pattern, unit in (
        ("/proc/meminfo", r"MemAvailable:\s+(\d+) kB", 1024),
        ("/sys/fs/cgroup/memory.max", r"(\d+)", 1),
    ):
        with suppress(OSError):
            match = re.search(pattern, Path(path).read_text())
            if match:
                bounds.append(int(match[1]) * unit)
    return min(bounds)


def _memory_estimate(source: Path, scores: Any) -> int:
    """Estimated bytes of judging in memory."""
    parts = Parts.of(source)
    losses = sum(name.startswith((LOSS_PREFIX, REWARD_PREFIX)) for name in parts.types)
    number = len(scores) if isinstance(scores, Mapping) else 1
    row = PER_ROW + PER_LOSS * losses + PER_SCORE * number
    size = len(parts) * row
    if "input" in parts.types and parts.has_text("input"):
        size += int(len(parts) * PER_CHARACTER * parts.width("input"))
    return size


def _size_text(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
