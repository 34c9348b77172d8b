"""SQLite files -> columns, read only: a file is opened so that nothing is written to it and none of its code is run."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading

BATCH = 20_000


@dataclass(frozen=True)
class Database:
    """An open SQLite file."""

    path: Path
    connection: sqlite3.Connection

    def tables(self) -> frozenset[str]:
        """Names of its tables. Views are none: reading one would run a query that the file brings along."""
        return frozenset(name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'"))

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of a table's columns."""
        return tuple(row[1] for row in self.rows(f"PRAGMA table_info({quoted(table)})"))

    def require(self, needed: dict[str, Sequence[str]]) -> None:
        """Raise unless the tables and their columns are there."""
        for table, columns in needed.items():
            if table not in self.tables():
                raise InputError(f"{self.path}: must have a table {table}; it has none: check that the file is whole.")
            missing = sorted(set(columns) - set(self.columns(table)))
            if missing:
                raise InputError(f"{self.path}: table {table} must have a column {missing[0]}; it has none.")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query of ours gives."""
        return [row for batch in self.batches(query, values) for row in batch]

    def batches(self, query: str, values: Sequence[Any] = ()) -> Iterator[list[tuple[Any, ...]]]:
        """The same, some rows at a time, for tables that are too large to be held."""
        try:
            cursor = self.connection.execute(query, values)
            while batch := cursor.fetchmany(BATCH):
                yield batch
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: must be a whole SQLite file; {error}: get the file again.") from error


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def opened(path: Path, *, what: str) -> Iterator[Database]:
    """A SQLite file, read only."""
    if not reading.is_file(path):
        raise InputError(f"{what} must be at {path}; there is no such file: check the data set's folder.")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise InputError(f"{path}: must be a SQLite file that can be read; {error}.") from error
    with closing(connection):
        database = Database(path, connection)
        database.rows("PRAGMA trusted_schema = OFF")
        yield database
