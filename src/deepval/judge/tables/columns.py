"""CSV files, Parquet files, Arrow streams and mappings of columns -> named NumPy
columns, and back to files.

Every table that deepval reads passes through this module, so every error names the
source, the column, the row (data rows counted from 1) and the id. The same columns give
the same bytes.
"""

import csv
import io
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Ids, InputFloats
from deepval.basics.errors import (
    InputError,
    InputWarning,
    library,
    missing_library,
    quote,
    reason,
)
from deepval.basics.files import reading
from deepval.basics.files.canonical import Manifest, cell_content
from deepval.judge.tables.keys import LONGEST_ID as LONGEST_ID
from deepval.judge.tables.keys import (
    as_array,
    as_text,
    first_repeat,
    id_array,
    number_array,
    quality_array,
)
from deepval.judge.tables.keys import row_name as row_name

ID_COLUMNS = ("unit", "input")
LOSS_PREFIX, REWARD_PREFIX = "loss_", "reward_"
ESTIMATED = "estimated"
"""Column with the note on how losses were estimated, the same in every row; absent
where losses were measured.
"""
LIMITS = (
    "Gains and differences are estimates of what the measured ones would be; the "
    "oracle, nDG, benefit, harm and counts of affected and "
    "harmed inputs are of noise, too."
)
"""End of that note."""
ABOUT = "deepval."
"""Beginning of the keys of a Parquet file's metadata that are ours."""
READABLE = (
    "a .csv or .parquet file, an object with __arrow_c_stream__, "
    "or a mapping of columns"
)
NULLS = ["", "null"]
TRUTHS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
LONGEST_HEADER = 65_536
"""Bytes of a line that are searched for separators."""
BLOCK = 2**20
"""Bytes of CSV that Arrow reads in one block: threads do not help in a file of one
block.
"""
PACKED = 256
"""Longest text, in bytes, of a column that is packed into an array of fixed width."""


@dataclass(frozen=True)
class Columns:
    """Equally long columns by name, the name of their source, and what it says about
    them (`ABOUT`).
    """

    source: str
    data: Mapping[str, np.ndarray]
    about: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.data.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(
                f"{self.source}: all columns must be equally long; found {lengths}."
            )

    @classmethod
    def of(cls, source: str, data: Mapping[Any, Any]) -> "Columns":
        """Columns from anything that NumPy converts to arrays."""
        arrays = {}
        for name, column in data.items():
            arrays[str(name)] = as_array(column, f"{source}: column '{name}'")
        return cls(source, arrays)

    def __len__(self) -> int:
        return max(map(len, self.data.values()), default=0)

    def require(self, *names: str, advice: str = "") -> None:
        """Raise where a column is missing or there is no row; in the advice, NAME
        stands for the missing name.
        """
        for name in names:
            if name not in self.data:
                raise InputError(
                    f"{self.source}: column {name!r} is needed; found "
                    f"{', '.join(self.data) or 'no columns'}."
                    f"{advice.replace('NAME', name)}"
                )
        if len(self) == 0:
            raise InputError(f"{self.source}: at least one row is needed; found none.")

    def _what(self, name: str) -> str:
        """A column in messages."""
        return f"{self.source}: column {name!r}"

    def ids(self, name: str) -> Ids:
        """A column of ids as text or integers."""
        inputs = None
        if name != "input":
            inputs = self.data.get("input")
        return id_array(self.data[name], self._what(name), ids=inputs)

    def of_types(
        self,
        *,
        texts: Collection[str] = (),
        numbers: Collection[str] = (),
        whole: Collection[str] = (),
    ) -> dict[str, np.ndarray]:
        """Columns of declared types; a missing one, or one of another type, is an
        error.

        Args:
            texts: Names of the columns that hold text.
            numbers: Names of the columns that hold numbers, as float64.
            whole: Names of the columns that hold integers, as int64.
        """
        for name in (*texts, *numbers, *whole):
            if name not in self.data:
                raise InputError(
                    f"{self.source}: must have a column {name!r}; it has "
                    f"{', '.join(self.data)}."
                )
        typed: dict[str, np.ndarray] = {name: as_text(self.ids(name)) for name in texts}
        typed |= {name: self.numbers(name) for name in numbers}
        for name in whole:
            values = self.data[name]
            largest = values.max(initial=0) if values.dtype.kind in "iu" else math.inf
            if largest > np.iinfo(np.int64).max:
                raise InputError(
                    f"{self._what(name)} must hold integers of 64 bits; it holds "
                    "others."
                )
            typed[name] = values.astype(np.int64)
        return typed

    def numbers(self, name: str) -> InputFloats:
        """A column as float64; nulls become NaN."""
        ids = self.data.get("input")
        return number_array(self.data[name], self._what(name), ids=ids)

    def rewards(self, name: str) -> InputFloats:
        """A column of rewards as float64, where right and wrong may be words."""
        ids = self.data.get("input")
        return quality_array(self.data[name], self._what(name), ids=ids)


def read(source: Any, *, texts: Collection[str] = ID_COLUMNS) -> Columns:
    """Columns of a file, an Arrow stream or a mapping; of a CSV file, `texts` are text,
    whatever they look like.
    """
    if isinstance(source, Columns):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        return _read_stream(source, f"the {type(source).__name__} given")
    if isinstance(source, Mapping):
        return Columns.of("the columns given", source)
    if not isinstance(source, str | Path):
        raise InputError(f"A table must be {READABLE}; found {type(source).__name__}.")
    path = Path(source)
    if reading.is_folder(path) and parquet_files(path):
        return _read_folder(path)
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise InputError(
            f"{path}: the name must end in .csv or .parquet; found "
            f"{path.suffix or 'no ending'!r}."
        )
    if reading.is_folder(path):
        raise InputError(f"{path}: must be a file; it is a folder.")
    if not reading.is_file(path):
        raise InputError(f"{path}: no such file; check the name and the folder.")
    try:
        if path.stat().st_size == 0:
            raise InputError(
                f"{path}: the file is empty; it must hold a header and at least one "
                "row."
            )
        if ending == ".csv":
            return read_csv(path, texts=texts)
        return _read_parquet(path)
    except OSError as error:
        raise InputError(
            f"{path}: must be a file that can be read; {reason(error)}."
        ) from error


def parquet_files(path: Path) -> tuple[Path, ...]:
    """A Parquet file, or those of a folder by name; hidden files, which killed writers
    leave, are ignored.
    """
    if not reading.is_folder(path):
        return (path,)
    return tuple(
        item
        for item in reading.entries(path)
        if item.suffix.lower() == ".parquet"
        and not item.name.startswith(".")
        and reading.is_file(item)
    )


def _read_folder(path: Path) -> Columns:
    """Columns of all Parquet files of a folder, one below the other."""
    parts = {file: from_parquet(file, str(file)) for file in parquet_files(path)}
    refuse_other_columns(str(path), {file: part.data for file, part in parts.items()})
    first = next(iter(parts.values()))
    data = {}
    for name in first.data:
        pieces = [part.data[name] for part in parts.values()]
        if len({piece.dtype.kind in "OU" for piece in pieces}) > 1:
            # A column of text and numbers stays mixed.
            pieces = [piece.astype(object) for piece in pieces]
        data[name] = np.concatenate(pieces)
    return Columns(str(path), data)


def refuse_other_columns(source: str, names: Mapping[Path, Iterable[str]]) -> None:
    """Raise where the files of a folder have different columns."""
    listed = {file.name: ", ".join(own) for file, own in names.items()}
    first = next(iter(listed))
    for file, own in listed.items():
        if own != listed[first]:
            raise InputError(
                f"{source}: all files must have the same columns; {file} has {own}, "
                f"{first} {listed[first]}."
            )


def _read_parquet(path: Path) -> Columns:
    content = cell_content(path)
    return from_parquet(path if content is None else content, str(path))


def native(source: Path | bytes) -> Any:
    """A file, or bytes, as an Arrow source that holds no Python object.

    An Arrow thread that still holds a Python object when the process ends crashes the
    process. A file is not memory-mapped: reading a map of a file that was truncated
    meanwhile would crash, too.
    """
    import pyarrow as pa

    if isinstance(source, Path):
        # refuses pipes, devices and files without permission
        reading.open_file(source).close()
        return pa.OSFile(os.fsencode(source))
    sink = pa.BufferOutputStream()
    sink.write(source)
    return pa.BufferReader(sink.getvalue())


def from_parquet(content: Path | bytes, source: str) -> Columns:
    """Columns of a Parquet file, or of its content."""
    return of_arrow(parquet_table(content, source), source)


def parquet_table(content: Path | bytes, source: str) -> Any:
    """Arrow table of a Parquet file, or of its content."""
    pa, pq = library("pyarrow"), library("pyarrow.parquet")

    try:
        with native(content) as file:
            return pq.ParquetFile(file).read()
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damage_error(source, error) from error


def damage_error(source: object, error: Exception) -> InputError:
    """The error of a Parquet file that cannot be read."""
    if isinstance(error, InputError):
        return error
    return InputError(
        f"{source}: must be a complete Parquet file; it is cut, "
        f"damaged or of another type ({reason(error)})."
    )


def read_csv(
    path: Path, sep: str = ",", decimal: str = ".", texts: Collection[str] = ID_COLUMNS
) -> Columns:
    """Columns of a CSV file.

    Args:
        path: The file.
        sep: Sign between cells.
        decimal: Decimal sign.
        texts: Columns that are text, whatever they look like.
    """
    result = None
    with suppress(ImportError):
        result = _read_by_arrow(path, sep, decimal, texts)
    if result is None:
        result = _read_by_python(path, sep, decimal, texts)
    with reading.open_file(path) as handle:
        handle.seek(-1, 2)
        ends = handle.read(1) in b"\r\n"
    if not ends:
        note = f"{path}: the last line has no end; check that the file is not cut."
        warnings.warn(InputWarning(note), stacklevel=5)
    return result


def _read_by_arrow(
    path: Path, sep: str, decimal: str, texts: Collection[str]
) -> Columns | None:
    """Columns of a CSV file; None where Arrow refuses it."""
    import pyarrow as pa
    import pyarrow.csv as pc

    types = dict.fromkeys(texts, pa.string())
    nulls = {"strings_can_be_null": True, "null_values": NULLS}
    options = pc.ConvertOptions(decimal_point=decimal, column_types=types, **nulls)
    try:
        with native(path) as file:
            threads = pc.ReadOptions(use_threads=file.size() > BLOCK)
            table = pc.read_csv(
                file, threads, pc.ParseOptions(delimiter=sep), convert_options=options
            )
    except pa.ArrowException:
        return None
    # Arrow reads text that is not UTF-8 as binary
    if any(map(pa.types.is_binary, table.schema.types)):
        return None
    return of_arrow(table, str(path))


def _read_by_python(
    path: Path, sep: str, decimal: str, texts: Collection[str]
) -> Columns:
    """Columns of a CSV file without Arrow, ten times slower; a file that Arrow refuses
    is an error that says why.
    """
    content = reading.content(path, largest=path.stat().st_size)
    lines = io.StringIO(reading.decode(content, path), newline="")
    csv.field_size_limit(max(csv.field_size_limit(), min(len(content), 2**31 - 1)))
    why = "it has no lines"
    try:
        rows = [row for row in csv.reader(lines, delimiter=sep) if row]
    except csv.Error as error:
        rows = []
        why = reason(error)
    if not rows:
        raise InputError(
            f"{path}: must be a CSV file with a header; it is cut, damaged or of "
            f"another type ({why})."
        )
    header = rows.pop(0)
    refuse_equal_names(header, str(path))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InputError(
                f"{path}: rows must be equally long; row {number} has {len(row)} "
                f"cells and the header {len(header)}: {quote(sep.join(row))}. Check "
                "that the file is not cut, and that numbers have a decimal point, not "
                "a comma."
            )
    data = {}
    for at, name in enumerate(header):
        cells = [None if row[at] in NULLS else row[at] for row in rows]
        data[name] = _typed(cells, text=name in texts, decimal=decimal)
    return Columns(str(path), data)


def _typed(cells: Sequence[str | None], *, text: bool, decimal: str) -> np.ndarray:
    """Cells of a CSV file as integers, truth values, floats or text; nulls are NaN
    among floats and None elsewhere.
    """
    forms: dict[type, Callable[[str], Any]] = {
        np.int64: int,
        np.bool_: TRUTHS.__getitem__,
        np.float64: lambda cell: float(cell.replace(decimal, ".")),
    }
    # Python, unlike others, reads 1_000.
    if text or any("_" in cell for cell in cells if cell is not None):
        forms = {}
    for kind, convert in forms.items():
        with suppress(ValueError, KeyError, OverflowError):
            values = [None if cell is None else convert(cell) for cell in cells]
            if None in values and kind is not np.float64:
                return np.array(values, dtype=object)
            return np.array(values, dtype=kind)
    return np.array(cells, dtype=object)


def _read_stream(source: Any, name: str) -> Columns:
    try:
        import pyarrow as pa
    except ImportError:  # pandas and polars have columns of their own
        if not hasattr(source, "columns"):
            raise missing_library("pyarrow") from None
        arrays = {column: source[column].to_numpy() for column in source.columns}
        return Columns.of(name, arrays)
    try:
        table = pa.table(source)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{name} must be a table that Arrow can hold; {reason(error)}."
        ) from error
    return of_arrow(table, name)


def of_arrow(
    table: Any, source: str, *, only: Collection[str] | None = None
) -> Columns:
    """Columns of an Arrow table: all of them, or those in `only`."""
    try:
        names = table.column_names
    except UnicodeDecodeError:
        raise InputError(
            f"{source}: column names must be UTF-8 text. Save it as UTF-8."
        ) from None
    refuse_equal_names(names, source)
    data = {}
    for name, column in zip(names, table.columns, strict=True):
        if only is None or name in only:
            data[name] = to_numpy(column, f"{source}: column {name!r}")
    return Columns(source, data, _about(table.schema.metadata))


def _about(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """What a Parquet file says about its columns."""
    about = {}
    for key, value in (metadata or {}).items():
        name = key.decode("utf-8", "replace")
        if name.startswith(ABOUT):
            about[name.removeprefix(ABOUT)] = value.decode("utf-8", "replace")
    return about


def refuse_equal_names(names: Sequence[str], source: str) -> None:
    """Raise where two columns have one name."""
    if len(set(names)) < len(names):
        raise InputError(
            f"{source}: column names must differ; found {', '.join(names)}."
        )


def to_numpy(column: Any, what: str) -> np.ndarray:
    """One Arrow column as NumPy; nulls are NaN among floats and None elsewhere; short
    ASCII text has fixed width.
    """
    import pyarrow as pa

    try:
        return _plain_array(column)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{what} must hold text or numbers; it is {column.type} and cannot be "
            f"read ({reason(error)}). Leave it out."
        ) from error


def _plain_array(column: Any) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    is_integer = pa.types.is_integer(kind)
    if pa.types.is_dictionary(kind):
        parts = [_dictionary_values(chunk) for chunk in column.chunks]
        return np.concatenate([np.empty(0, dtype=object), *parts])
    if pa.types.is_time64(kind):
        # Python's times have no nanoseconds.
        column = column.cast(pa.time64("us"), safe=False)
    if is_integer and column.null_count > 0:
        return np.array(column.to_pylist(), dtype=object)
    chunks = [chunk for chunk in column.chunks if len(chunk) > 0]
    if column.null_count > 0 or not chunks:
        return column.to_numpy()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        packed = [_fixed_width(chunk) for chunk in chunks]
        texts = [part for part in packed if part is not None]
        if len(texts) == len(chunks):
            return np.concatenate(texts)
    # Arrow's own way imports pandas where it is installed.
    if is_integer or pa.types.is_floating(kind):
        return np.concatenate([np.from_dlpack(chunk) for chunk in chunks])
    if pa.types.is_timestamp(kind):
        return _plain_array(column.cast(pa.int64())).view(f"datetime64[{kind.unit}]")
    return column.to_numpy()


def _fixed_width(chunk: Any) -> np.ndarray | None:
    """Texts of an Arrow array as an array of fixed width; None where a text is long,
    not ASCII or has a NUL.
    """
    import pyarrow as pa

    _, offsets, data = chunk.buffers()
    kind = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    offset = np.frombuffer(offsets, dtype=kind)[chunk.offset :][: len(chunk) + 1]
    length = np.diff(offset)
    width = int(length.max())
    # Without any characters Arrow may leave the buffer out.
    if not 0 < width <= PACKED:
        return None
    content = np.frombuffer(data, dtype=np.uint8)[offset[0] : offset[-1]]
    if content.max() > 127 or content.min() == 0:
        return None
    table = np.zeros((len(chunk), width), dtype=np.uint32)
    # Texts lie one behind the other, so they fill the rows in order.
    table[np.arange(width) < length[:, None]] = content
    return table.view(f"U{width}")[:, 0]


def _dictionary_values(chunk: Any) -> np.ndarray:
    """Values of a dictionary chunk (Arrow itself cannot decode those of polars)."""
    import pyarrow as pa

    # A null points at the None behind the values.
    words = chunk.dictionary.to_numpy(zero_copy_only=False)
    values = np.array([*words, None], dtype=object)
    return values[chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy()]


def text_array(values: Sequence[str], what: str) -> Ids:
    """Texts as an array, with the bounds of ids on its width."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return as_text(id_array(array, what))


def refuse_repeated(ids: Ids, source: str) -> None:
    """Raise where an id is repeated, naming both rows."""
    rows = first_repeat(ids)
    if rows is not None:
        first, second = rows
        raise InputError(
            f"{source}: input ids must differ; "
            f"{str(ids[first])!r} stands in rows {first + 1} and {second + 1}."
        )


def parquet_bytes(
    content: Mapping[str, np.ndarray], about: Mapping[str, str] | None = None
) -> bytes:
    """Content of a Parquet file with these columns, and what it says about them."""
    pa, pq = library("pyarrow"), library("pyarrow.parquet")

    arrays = {}
    for name, column in content.items():
        if column.dtype.kind == "U":
            arrays[name] = pa.array(column.tolist(), pa.string())
        else:
            arrays[name] = pa.array(column)
    table = pa.table(arrays)
    if about:
        table = table.replace_schema_metadata(
            {f"{ABOUT}{name}": value for name, value in about.items()}
        )
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def cell_columns(cell: Manifest, name: str) -> Columns:
    """The columns of one of a cell's Parquet files, as built."""
    return from_parquet(cell.content(name), str(cell.folder / name))


def csv_text(content: Mapping[str, np.ndarray]) -> str:
    """Content of a CSV file with these columns, numbers to the last digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(content)
    cells = []
    for column in content.values():
        values = column.tolist()
        if column.dtype.kind == "f":
            values = map(repr, values)
        cells.append(values)
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()
