"""CSV files, Parquet files, Arrow streams and mappings of columns -> named NumPy
columns, and back to files.

Every table that deepval reads passes through this module, so every error names the
source, the column, the row (data rows counted from 1) and the id. The same columns give
the same bytes.
"""

import csv
import io
import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Ids, InputFloats, InputInts
from deepval.errors import (
    InputError,
    InputWarning,
    library,
    missing_library,
    quote,
    reason,
    suggestion,
)
from deepval.files import reading
from deepval.files.canonical import Manifest, cell_content
from deepval.tables.keys import LONGEST_ID as LONGEST_ID
from deepval.tables.keys import (
    as_array,
    as_text,
    first_repeat,
    id_array,
    number_array,
    quality_array,
)
from deepval.tables.keys import row_name as row_name

ID_COLUMNS = ("unit", "input")
LOSS_PREFIX, REWARD_PREFIX = "loss_", "reward_"
ESTIMATED = "estimated"
"""Column with the note on how losses were estimated, the same in every row; absent
where losses were measured.
"""
READABLE = (
    "a .csv or .parquet file, an object with __arrow_c_stream__, "
    "or a mapping of columns"
)
TAB = "\t"
SEPARATORS = {";": "semicolons", TAB: "tabs", "|": "bars"}
NULLS = ["", "null"]
TRUTHS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
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
class Form:
    """How a user's files differ from ours; the fields are arguments of `read_values`
    and options of commands.

    Attributes:
        columns: Names of columns in the files by our names, {"unit": "drive"}.
        sep: Sign between the cells of a CSV file; a file without it in its header is
            read as ours are.
        decimal: Decimal sign of such a file.
        losses: Columns with the loss of each mode, named after the modes, cheap first;
            empty where ours are used.
        rewards: The same with rewards.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    sep: str = ","
    decimal: str = "."
    losses: Sequence[str] = ()
    rewards: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.sep) != 1 or self.sep in '"\r\n' or self.decimal not in (".", ","):
            raise InputError(
                "The sign between cells (--sep) must be one character and the decimal "
                f"sign (--decimal) . or ,; found {self.sep!r} and {self.decimal!r}."
            )
        if self.losses and self.rewards:
            raise InputError(
                "Columns of losses (--losses) or of rewards (--rewards) "
                "are needed; found both."
            )

    @property
    def modes(self) -> Sequence[str]:
        """Modes that columns are named after."""
        return self.losses or self.rewards

    def names(self, *, scores: bool) -> dict[str, str]:
        """Names of columns in scores files, or in values files, by our names; both have
        the column `input`.
        """
        prefix = LOSS_PREFIX if self.losses else REWARD_PREFIX
        every = dict(self.columns) | {f"{prefix}{mode}": mode for mode in self.modes}
        return {
            n: own
            for n, own in every.items()
            if n == "input" or n.startswith(("score", "choice")) == scores
        }


OURS = Form()


@dataclass(frozen=True)
class Columns:
    """Equally long columns by name, and the name of their source."""

    source: str
    data: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.data.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(
                f"{self.source}: all columns must be equally long; found {lengths}."
            )

    @classmethod
    def of(cls, source: str, data: Mapping[Any, Any]) -> "Columns":
        """Columns from anything that NumPy converts to arrays."""
        return cls(
            source,
            {
                str(n): as_array(column, f"{source}: column '{n}'")
                for n, column in data.items()
            },
        )

    def __len__(self) -> int:
        return len(next(iter(self.data.values()))) if self.data else 0

    def require(self, *names: str, advice: str = "") -> None:
        """Raise where a column is missing or there is no row; in the advice, NAME
        stands for the missing name.
        """
        missing = [name for name in names if name not in self.data]
        if missing:
            raise InputError(
                f"{self.source}: column {missing[0]!r} is needed; found "
                f"{', '.join(self.data) or 'no columns'}."
                f"{advice.replace('NAME', missing[0])}"
            )
        if not any(map(len, self.data.values())):
            raise InputError(f"{self.source}: at least one row is needed; found none.")

    def renamed(self, names: Mapping[str, str]) -> "Columns":
        """The columns under our names; only `input` may be missing under the user's
        name.
        """
        for name, own in names.items():
            if own not in self.data and name != "input":
                raise InputError(
                    f"{self.source}: column {own!r} is needed for {name!r}; found "
                    f"{', '.join(self.data)}{suggestion(own, self.data)}"
                )
            if own in self.data and own != name in self.data:
                raise InputError(
                    f"{self.source}: {own!r} is to be {name!r}, "
                    f"and there is a column {name!r} already."
                )
        data: dict[str, np.ndarray] = {}
        for own, column in self.data.items():
            data |= dict.fromkeys(
                [name for name, other in names.items() if other == own] or [own], column
            )
        return Columns(self.source, data)

    def ids(self, name: str) -> Ids:
        """A column of ids as text or integers."""
        inputs = None if name == "input" else self.data.get("input")
        return id_array(self.data[name], f"{self.source}: column {name!r}", ids=inputs)

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
        missing = [name for name in (*texts, *numbers, *whole) if name not in self.data]
        if missing:
            raise InputError(
                f"{self.source}: must have "
                f"a column {missing[0]!r}; it has {', '.join(self.data)}."
            )
        return (
            {name: as_text(self.ids(name)) for name in texts}
            | {name: self.numbers(name) for name in numbers}
            | {name: self._integers(name) for name in whole}
        )

    def _integers(self, name: str) -> InputInts:
        values = self.data[name]
        if (
            values.dtype.kind not in "iu"
            or values.max(initial=0) > np.iinfo(np.int64).max
        ):
            raise InputError(
                f"{self.source}: column {name!r} must hold integers "
                "of 64 bits; it holds others."
            )
        return values.astype(np.int64)

    def numbers(self, name: str) -> InputFloats:
        """A column as float64; nulls become NaN."""
        return number_array(
            self.data[name],
            f"{self.source}: column {name!r}",
            ids=self.data.get("input"),
        )

    def rewards(self, name: str) -> InputFloats:
        """A column of rewards as float64, where right and wrong may be words."""
        return quality_array(
            self.data[name],
            f"{self.source}: column {name!r}",
            ids=self.data.get("input"),
        )


def read(source: Any, form: Form = OURS, *, scores: bool = False) -> Columns:
    """Columns of a file, an Arrow stream or a mapping under our names: those of scores,
    or of values.
    """
    names = form.names(scores=scores)
    return _read(source, form).renamed(names) if names else _read(source, form)


def _read(source: Any, form: Form) -> Columns:
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
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(
            f"{path}: the name must end in .csv "
            f"or .parquet; found {path.suffix or 'no ending'!r}."
        )
    try:
        if reading.is_folder(path):
            raise InputError(f"{path}: must be a file; it is a folder.")
        if not reading.is_file(path):
            raise InputError(f"{path}: no such file; check the name and the folder.")
        if not path.stat().st_size:
            raise InputError(
                f"{path}: the file is empty; it must hold a header "
                "and at least one row."
            )
        return (
            _read_csv(path, form)
            if path.suffix.lower() == ".csv"
            else _read_parquet(path)
        )
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
    files = (
        item
        for item in reading.entries(path)
        if item.suffix.lower() == ".parquet" and reading.is_file(item)
    )
    return tuple(item for item in files if not item.name.startswith("."))


def _read_folder(path: Path) -> Columns:
    """Columns of all Parquet files of a folder, one below the other."""
    pa = library("pyarrow")

    tables = {file: parquet_table(file, str(file)) for file in parquet_files(path)}
    first = next(iter(tables))
    for file, table in tables.items():
        if table.column_names != tables[first].column_names:
            raise InputError(
                f"{path}: all files must have the same columns; {file.name} has "
                f"{', '.join(table.column_names)}, "
                f"{first.name} {', '.join(tables[first].column_names)}."
            )
    if all(table.schema.equals(tables[first].schema) for table in tables.values()):
        return of_arrow(pa.concat_tables(tables.values()), str(path))
    parts = [of_arrow(table, str(file)).data for file, table in tables.items()]
    return Columns(
        str(path),
        {name: _concatenate([data[name] for data in parts]) for name in parts[0]},
    )


def _concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The parts of a column in one array; a column of text and numbers stays mixed."""
    texts = any(part.dtype.kind in "OUT" for part in parts)
    return np.concatenate([part.astype(object) if texts else part for part in parts])


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


def _read_csv(path: Path, form: Form) -> Columns:
    sep, decimal = (
        (form.sep, form.decimal) if form.sep in _first_lines(path)[0] else (",", ".")
    )
    result = None
    with suppress(ImportError):
        result = _read_by_arrow(path, sep, decimal=decimal)
    if sep == "," and (result is None or len(result.data) == 1):
        _refuse_other_separators(path)
    result = _read_by_python(path, sep, decimal=decimal) if result is None else result
    with reading.open_file(path) as handle:
        handle.seek(-1, 2)
        if handle.read(1) not in b"\r\n":
            warnings.warn(
                InputWarning(
                    f"{path}: the last line has no end; check that the file is not cut."
                ),
                stacklevel=5,
            )
    return result


def _read_by_arrow(path: Path, sep: str, *, decimal: str) -> Columns | None:
    """Columns of a CSV file; None where Arrow refuses it."""
    import pyarrow as pa
    import pyarrow.csv as pc

    types = dict.fromkeys(ID_COLUMNS, pa.string())
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


def _read_by_python(path: Path, sep: str, *, decimal: str) -> Columns:
    """Columns of a CSV file without Arrow, ten times slower; a file that Arrow refuses
    is an error that says why.
    """
    content, why = reading.content(path, largest=path.stat().st_size), "it has no lines"
    csv.field_size_limit(max(csv.field_size_limit(), min(len(content), 2**31 - 1)))
    try:
        rows = list(
            filter(
                None,
                csv.reader(
                    io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=sep
                ),
            )
        )
    except UnicodeDecodeError as bad:
        line, byte = content.count(b"\n", 0, bad.start) + 1, content[bad.start]
        raise InputError(
            f"{path}: text must be UTF-8; line {line} holds the byte 0x{byte:02x}. "
            "Save it as UTF-8."
        ) from bad
    except csv.Error as error:
        rows, why = [], reason(error)
    if not rows:
        raise InputError(
            f"{path}: must be a CSV file with a header; it is cut, damaged or of "
            f"another type ({why})."
        )
    header = rows.pop(0)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            more = (
                "numbers have a decimal point, not a comma, and that "
                if len(row) > len(header)
                else ""
            )
            raise InputError(
                f"{path}: rows must be equally long; row {number} has {len(row)} "
                f"cells and the header {len(header)}: {quote(sep.join(row))}. Check "
                f"that {more}the file is not cut."
            )
    refuse_equal_names(header, str(path))
    cells = {name: [row[at] for row in rows] for at, name in enumerate(header)}
    return Columns(
        str(path),
        {n: _typed(c, text=n in ID_COLUMNS, decimal=decimal) for n, c in cells.items()},
    )


def _typed(cells: Sequence[str], *, text: bool, decimal: str) -> np.ndarray:
    """Cells of a CSV file as integers, truth values, floats or text; nulls are NaN
    among floats and None elsewhere.
    """
    values = [None if cell in NULLS else cell for cell in cells]
    # Python, unlike others, reads 1_000
    if not text and not any("_" in cell for cell in cells):
        for convert, kind in (
            (int, np.int64),
            (TRUTHS.__getitem__, np.bool_),
            (lambda v: float(v.replace(decimal, ".")), np.float64),
        ):
            with suppress(ValueError, KeyError, OverflowError):
                numbers = [
                    None if value is None else convert(value) for value in values
                ]
                return np.array(
                    numbers,
                    dtype=object if None in values and kind is not np.float64 else kind,
                )
    return np.array(values, dtype=object)


def _first_lines(path: Path) -> tuple[str, str]:
    """The header of a CSV file and its first row."""
    with reading.open_file(path) as handle:
        header, row = (
            handle.readline(LONGEST_HEADER).decode("utf-8", "replace").strip()
            for _ in range(2)
        )
    return header, row


def _refuse_other_separators(path: Path) -> None:
    """Raise where a header has no comma but a separator that other programs use."""
    header, row = _first_lines(path)
    between = next(
        (
            name
            for sign, name in SEPARATORS.items()
            if sign in header and "," not in header
        ),
        None,
    )
    if between is not None:
        sign = next(sign for sign, name in SEPARATORS.items() if name == between)
        comma = re.search(r"\d,\d", row) is not None
        raise InputError(
            f"{path}: cells must be separated by commas and numbers have a point; it "
            f"has {between} between cells{' and commas in its numbers' * comma}: "
            f"{quote(header)}. --sep "
            f"{'tab' if sign == TAB else repr(sign)}{' --decimal ,' * comma} reads it."
        )


def _read_stream(source: Any, name: str) -> Columns:
    try:
        import pyarrow as pa
    except ImportError:  # pandas and polars have columns of their own
        if not hasattr(source, "columns"):
            raise missing_library("pyarrow") from None
        return Columns.of(
            name, {column: source[column].to_numpy() for column in source.columns}
        )
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
    pairs = zip(names, table.columns, strict=True)
    selected = {name: column for name, column in pairs if only is None or name in only}
    return Columns(
        source, {n: to_numpy(c, f"{source}: column {n!r}") for n, c in selected.items()}
    )


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
        if pa.types.is_dictionary(column.type):
            return np.concatenate(
                [np.empty(0, dtype=object), *map(_dictionary_values, column.chunks)]
            )
        if pa.types.is_integer(column.type) and column.null_count:
            return np.array(column.to_pylist(), dtype=object)
        if (
            pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        ) and not column.null_count:
            parts = [_fixed_width(chunk) for chunk in column.chunks if len(chunk)]
            packed = [part for part in parts if part is not None]
            return (
                np.concatenate(packed)
                if packed and len(packed) == len(parts)
                else column.to_numpy()
            )
        plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        # Arrow's own way imports pandas where it is installed.
        if plain and column.num_chunks and not column.null_count:
            return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])
        return column.to_numpy()
    except (pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{what} must hold text or numbers; it is {column.type} and cannot be "
            f"read ({reason(error)}). Leave it out."
        ) from error


def _fixed_width(chunk: Any) -> np.ndarray | None:
    """Texts of an Arrow array as an array of fixed width; None where a text is long,
    not ASCII or has a NUL.
    """
    import pyarrow as pa

    _, offsets, data = chunk.buffers()
    number = np.dtype(np.int64 if pa.types.is_large_string(chunk.type) else np.int32)
    offset = np.frombuffer(
        offsets,
        dtype=number,
        count=len(chunk) + 1,
        offset=chunk.offset * number.itemsize,
    )
    length = np.diff(offset)
    width = int(length.max())
    content = (
        np.frombuffer(data, dtype=np.uint8, count=int(offset[-1]))[offset[0] :]
        if data
        else np.empty(0, np.uint8)
    )
    if not 0 < width <= PACKED or content.max() > 127 or content.min() == 0:
        return None
    table = np.zeros((len(chunk), width), dtype=np.uint32)
    table[np.arange(width) < length[:, None]] = content
    return table.view(f"U{width}")[:, 0]


def _dictionary_values(chunk: Any) -> np.ndarray:
    """Values of a dictionary chunk (Arrow itself cannot decode those of polars)."""
    import pyarrow as pa

    values = np.array(
        [*chunk.dictionary.to_numpy(zero_copy_only=False), None], dtype=object
    )
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


def parquet_bytes(content: Mapping[str, np.ndarray]) -> bytes:
    """Content of a Parquet file with these columns."""
    pa, pq = library("pyarrow"), library("pyarrow.parquet")

    arrays = {
        k: pa.array(v.tolist(), pa.string()) if v.dtype.kind == "U" else pa.array(v)
        for k, v in content.items()
    }
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out, compression="zstd")
    return out.getvalue()


def cell_columns(cell: Manifest, name: str) -> Columns:
    """The columns of one of a cell's Parquet files, as built."""
    return from_parquet(cell.content(name), str(cell.folder / name))


def csv_text(content: Mapping[str, np.ndarray]) -> str:
    """Content of a CSV file with these columns, numbers to the last digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(content)
    cells = [
        [repr(v) if isinstance(v, float) else v for v in column.tolist()]
        for column in content.values()
    ]
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()
