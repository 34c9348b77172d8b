"""A log's files -> one table of columns, without texts.

Prompts and answers are not kept: a column of prompts becomes its lengths and digests,
other texts are left out. Nested objects of JSON become columns with dotted names.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, read_json
from deepval.judge.tables import columns
from deepval.judge.tables.logs import names, spreadsheet
from deepval.judge.tables.logs.owners import inspect_ai, owner_of
from deepval.judge.tables.logs.owners.owner import Owner
from deepval.judge.tables.logs.public import navsim_scores

PICKLES = (".pkl", ".pickle", ".joblib")
LINES = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", ".txt")
READ = (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".eval")
LISTS = ("records", "data", "observations", "spans")
"""Entries of a JSON object that hold its records."""
SCALARS = (str, int, float, bool)
LONGEST_LINE = 2**28
"""Bytes of a line of JSON."""
DEEPEST = 3
"""Nested objects of a record that are read."""
FOLDER_ENTRIES = ("dataset_id", "model_name")


@dataclass(frozen=True)
class LogTable:
    """Columns of a log, and the program that wrote it."""

    table: columns.Columns
    owner: Owner | None = None

    @property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Fields by role, of the program that wrote the log."""
        return {} if self.owner is None else self.owner.names


def read_log(sources: Sequence[Any], texts: Collection[str] = ()) -> LogTable:
    """The columns of files, of folders with files, or of one thing that is columnar.

    Args:
        sources: Files or folders; or one Arrow table, mapping of columns or frame.
        texts: Columns that are ids or names, whatever they look like.
    """
    (first, *others) = sources
    if not isinstance(first, str | Path):
        table = columns.read(first)
        return LogTable(_without_texts(table), owner_of(table.data))
    if not others:
        return _read_path(Path(first), texts)
    logs = [_read_path(Path(source), texts) for source in sources]
    return _joined(logs, f"{first} and {len(others)} more")


def read_records(source: Any) -> columns.Columns:
    """The columns of a table or a file of records."""
    if isinstance(source, str | Path):
        return _read_path(Path(source), columns.ID_COLUMNS).table
    return columns.read(source)


def _read_path(path: Path, texts: Collection[str]) -> LogTable:
    ending = path.suffix.lower()
    if ending in PICKLES:
        raise InputError(
            f"{path}: a pickle can run code, so none is read. Convert it where you "
            "trust it, with its own environment: "
            'python -c "import pandas; '
            f"pandas.read_pickle({path.name!r}).to_parquet({path.stem + '.parquet'!r})"
            '".'
        )
    if reading.is_folder(path):
        return _read_folder(path, texts)
    if not reading.is_file(path):
        raise InputError(f"{path}: no such file; check the name and the folder.")
    if ending == ".eval":
        return _of_records([inspect_ai.zip_record(path)], str(path))
    if ending in LINES:
        return _of_records(_lines(path), str(path))
    if ending == ".json":
        return _of_records(_record_list(read_json(path), str(path)), str(path))
    table = spreadsheet.read(path, texts) if ending in TABLES else columns.read(path)
    table = navsim_scores(table, path.stem)
    return LogTable(_without_texts(table), owner_of(table.data))


def _read_folder(path: Path, texts: Collection[str]) -> LogTable:
    """The log in all files of a folder, one below the other."""
    files = [
        file
        for file in reading.entries(path)
        if file.suffix.lower() in READ and not file.name.startswith(".")
    ]
    if not files:
        return _of_records(_model_folders(path), str(path))
    return _joined([_read_path(file, texts) for file in files], str(path))


def _model_folders(path: Path) -> list[Mapping[str, Any]]:
    """LLMRouterBench's results, <dataset>/<split>/<model>/<time>.json: the latest file
    of each model.
    """
    latest: dict[Path, Path] = {}
    for file in sorted(reading.find(path, "**/*.json")):
        latest[file.parent] = file
    rows: list[Mapping[str, Any]] = []
    for folder, file in sorted(latest.items()):
        *_, dataset, _split, model = ("", "", "", *folder.relative_to(path).parts)
        entries = dict(zip(FOLDER_ENTRIES, (dataset, model), strict=True))
        records = _record_list(read_json(file), str(file))
        rows += [entries | dict(record) for record in records]
    if not rows:
        raise InputError(
            f"{path}: must hold logs ({', '.join(READ)}), or "
            "<dataset>/<split>/<model>/*.json with records; found none."
        )
    return rows


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with reading.open_file(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{path}: a line must have at most {LONGEST_LINE:,} bytes; line "
                    f"{number} has more."
                )
            if line.strip():
                yield from _record_list(
                    json_content(line, f"{path}: line {number}"), str(path)
                )


def _record_list(content: Any, source: str) -> Sequence[Mapping[str, Any]]:
    """The records of a JSON text: a list, an object that holds one, or one record."""
    if isinstance(content, Mapping):
        records = next(
            (content[n] for n in LISTS if isinstance(content.get(n), list)), [content]
        )
    else:
        records = content
    if not isinstance(records, list) or not all(
        isinstance(record, Mapping) for record in records
    ):
        raise InputError(
            f"{source}: must be a list of records, or have one "
            "as 'records'; found neither."
        )
    return records


def _of_records(records: Any, source: str) -> LogTable:
    """Records as columns of plain values; missing values are None."""
    owner = None
    by_name: dict[str, list[Any]] = {}
    number = 0
    for record in records:
        if not number and owner is None:
            owner = owner_of(record)
        private = names.TEXTS if owner is None else names.TEXTS | owner.private
        for row in [record] if owner is None else owner.rows(record):
            for name, value in _scalars(row, private, DEEPEST):
                column = by_name.setdefault(name, [])
                column.extend([None] * (number - len(column)))
                column.append(value)
            number += 1
    if not number:
        raise InputError(f"{source}: at least one record is needed; found none.")
    data = {}
    for name, column in by_name.items():
        column.extend([None] * (number - len(column)))
        data[name] = _typed(column)
    return LogTable(columns.Columns(source, data), owner)


def _typed(values: list[Any]) -> np.ndarray:
    """Values as an array of truth values, integers, floats or text, where all are."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values)
    if kinds == {int} and max(map(abs, values)) < 2**63:
        return np.array(values, dtype=np.int64)
    if float in kinds and kinds <= {int, float, type(None)}:
        numbers = [np.nan if v is None else v for v in values]
        # An integer beyond all floats stays what it is: what reads it refuses it.
        with suppress(OverflowError):
            return np.array(numbers, dtype=float)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _scalars(
    record: Mapping[str, Any], private: Collection[str], depth: int, at: str = ""
) -> Iterator[tuple[str, Any]]:
    """The plain values in a record by dotted name, without texts; of a prompt, its
    length and a digest.
    """
    for key, value in record.items():
        name = f"{at}{key}"
        word = names.plain(str(key).rpartition(".")[2])
        if word in names.PROMPTS and isinstance(value, str):
            yield f"{name}{names.CHARACTERS}", len(value)
            yield f"{name}{names.DIGEST}", digest(value)
        elif word in names.TEXTS or name in private:
            continue
        elif isinstance(value, SCALARS):
            if not isinstance(value, str) or len(value) <= columns.LONGEST_ID:
                yield name, value
        elif isinstance(value, Mapping) and depth > 1:
            yield from _scalars(value, private, depth - 1, f"{name}.")


def _without_texts(table: columns.Columns) -> columns.Columns:
    """The columns, prompts as lengths and digests, other texts left out."""
    owner = owner_of(table.data)
    private = frozenset() if owner is None else owner.private
    data: dict[str, np.ndarray] = {}
    for name, column in table.data.items():
        word = names.plain(name)
        is_text = column.dtype.kind in "OUT"
        if word in names.PROMPTS and is_text:
            prompts = [str(text) for text in column.tolist()]
            data[f"{name}{names.CHARACTERS}"] = np.array(
                [len(text) for text in prompts], dtype=float
            )
            data[f"{name}{names.DIGEST}"] = np.array([digest(p) for p in prompts])
        elif not (is_text and (word in names.TEXTS or name in private)):
            data[name] = column
    return columns.Columns(table.source, data)


def digest(text: object) -> str:
    """SHA-256 of a text, the first 16 hexadecimal digits."""
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _joined(logs: Sequence[LogTable], source: str) -> LogTable:
    """Logs one below the other; a column that a log has not is empty there."""
    owner = logs[0].owner
    for log in logs:
        if log.owner is not owner:
            raise InputError(
                f"{source}: all files must be of one format; {log.table.source} is of "
                f"{log.owner.name if log.owner else 'no known one'}, and "
                f"{logs[0].table.source} of {owner.name if owner else 'no known one'}."
            )
    every = dict.fromkeys(name for log in logs for name in log.table.data)
    data = {}
    for name in every:
        parts = []
        for log in logs:
            missing = np.full(len(log.table), None, dtype=object)
            parts.append(log.table.data.get(name, missing))
        kinds = {part.dtype.kind for part in parts}
        if not (kinds <= set("fiub") or kinds == {"U"}):
            parts = [part.astype(object) for part in parts]
        data[name] = np.concatenate(parts)
    return LogTable(columns.Columns(source, data), owner)
