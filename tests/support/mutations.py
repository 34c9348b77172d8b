"""Plain data, arrays, tables and databases -> the same with one change: what a damaged
or invented file holds.
"""

import copy
import math
import random
import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

DEEPER = 0.85
"""Chance of every further step."""
INSTEAD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    3,
    0.5,
    -1e300,
    10**30,
    "",
    "x",
    "</script>",
    [],
    [0],
    {},
    {"a": 1},
    [[]],
    "random",
    math.nan,
    math.inf,
    1e308,
    2**63,
    10**400,
    "nan",
    "1",
    "a\nb",
    "\u202eé",
    "../x",
    "x" * 5000,
    [None],
    [[1, 2], [3]],
    {"x": "y"},
)
DTYPES = ("f2", "f4", "i1", "i8", "u1", "u8", "?", "U", "S", "c16", "M8[s]", ">f8", "O")
ARROW_TYPES = (
    *(
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.bool_(),
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
    ),
    *(
        pa.timestamp("us"),
        pa.timestamp("ns", "UTC"),
        pa.date32(),
        pa.duration("s"),
        pa.decimal128(20, 3),
        pa.null(),
    ),
    *(
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.float64()),
        pa.struct([("a", pa.int64())]),
    ),
)
CELLS: tuple[Any, ...] = (
    None,
    "",
    "x",
    "nan",
    b"",
    b"\xff",
    0,
    -1,
    0.5,
    1e308,
    -1e300,
    math.inf,
    2**62,
    "1 2",
    "é",
)
"""What a cell of a database may hold instead."""
WORDS = (
    "",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e308",
    "-1",
    "0",
    "99999999999999999999",
    "x",
    "true",
    "null",
    "é",
    "\0",
    '"',
)
WORDS += (
    "0x10",
    "1_0",
    "1.5",
    "[1]",
    "{a = 1}",
    "'",
    "1979-05-27T07:32:00Z",
    "-0.0",
    "1e-320",
    ",",
    "\t",
    "NaN",
)


def keys(content: Any) -> list[Any]:
    """The keys or positions of a dict or list."""
    return (
        list(content)
        if isinstance(content, dict)
        else list(range(len(content)))
        if isinstance(content, list)
        else []
    )


def way(content: Any, rng: random.Random) -> list[Any]:
    """Steps to some position in plain data; every step is as likely as the others
    beside it.
    """
    steps: list[Any] = []
    while keys(content) and (not steps or rng.random() < DEEPER):
        steps.append(rng.choice(keys(content)))
        content = content[steps[-1]]
    return steps


def at(content: Any, steps: list[Any]) -> Any:
    """The value at the end of some steps."""
    for key in steps:
        content = content[key]
    return content


def mutated(content: Any, rng: random.Random) -> tuple[Any, str]:
    """A copy with one change, and what was done."""
    copied, steps = copy.deepcopy(content), way(content, rng)
    holder, last = at(copied, steps[:-1]), steps[-1]
    kind = rng.choice(("instead", "instead", "gone", "twice", "more", "moved"))
    if isinstance(holder[last], np.ndarray) and rng.random() < 0.8:
        holder[last], kind = mutated_array(holder[last], rng)
    elif kind == "gone":
        del holder[last]
    elif kind == "twice" and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif kind == "more" and isinstance(holder, dict):
        holder[rng.choice(("unknown", "__class__", ""))] = rng.choice(INSTEAD)
    elif kind == "moved":
        holder[last] = copy.deepcopy(at(content, way(content, rng)))
    else:
        holder[last] = rng.choice(INSTEAD)
        kind = f"{holder[last]!r:.40}"
    return copied, f"{kind} at {'.'.join(map(str, steps))}"


def mutated_array(array: np.ndarray, rng: random.Random) -> tuple[Any, str]:
    """An array of another type, shape or length, or with other numbers, and what was
    done.
    """
    kind = rng.choice(("type", "type", "shape", "number", "number", "rows", "plain"))
    if kind == "type":
        dtype = rng.choice(DTYPES)
        with suppress(TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            return array.astype(dtype), f"type {dtype}"
    if kind == "number" and array.size and array.dtype.kind in "iufb":
        changed = array.astype(float).copy() if rng.random() < 0.7 else array.copy()
        number = rng.choice(
            (math.nan, math.inf, -math.inf, 1e308, 1e200, -1.0, 0.0, 1e-320, 2.0**62)
        )
        whole = rng.random() < 0.3
        with np.errstate(all="ignore"), suppress(OverflowError, ValueError):
            changed.reshape(-1)[
                slice(None) if whole else rng.randrange(changed.size)
            ] = number
        return changed, f"number {number}{' everywhere' * whole}"
    if kind == "rows" and array.ndim:
        count = len(array)
        rows = rng.choice(
            (
                [],
                [0],
                list(range(count - 1)),
                [0] * count,
                list(range(count))[::-1],
                [*range(count), 0],
            )
        )
        return array[[row for row in rows if 0 <= row < count]], f"rows {rows!r:.30}"
    if kind == "plain":
        return rng.choice(
            (array.tolist(), array.tobytes(), {}, None, str(array)[:50])
        ), "plain"
    shapes = [array[None], array[..., None], array.reshape(-1), array.T]
    shapes += [array[..., :1], array[..., :0], array[:0]] if array.ndim else []
    return rng.choice(shapes), "shape"


def mutated_table(
    columns: dict[str, list[Any]], rng: random.Random
) -> tuple[pa.Table, str]:
    """A table of columns with a change, and what was done."""
    table, name = pa.table(columns), rng.choice(list(columns))
    number = table.column_names.index(name)
    kind = rng.choice(
        (
            "type",
            "type",
            "cell",
            "cell",
            "cell",
            "rows",
            "gone",
            "renamed",
            "twice",
            "more",
        )
    )
    if kind == "gone":
        return table.drop_columns([name]), f"no {name}"
    if kind == "renamed":
        other = rng.choice((*table.column_names, "x", ""))
        return table.rename_columns(
            [other if each == name else each for each in table.column_names]
        ), f"{name}={other}"
    if kind == "twice":
        return table.append_column(name, table.column(number)), f"{name} twice"
    if kind == "more":
        return table.append_column(
            "unknown", pa.array([[1]] * len(table))
        ), "unknown column"
    if kind == "rows":
        count = len(table)
        taken = rng.choice(
            (
                [],
                [0],
                list(range(count))[::-1],
                list(range(count - 1)),
                [*range(count), 0],
                list(range(1, count)),
            )
        )
        keep = (
            [row for row in range(count) if rng.random() < 0.7]
            if rng.random() < 0.5
            else taken
        )
        return table.take(
            pa.array([row for row in keep if row < count], pa.int64())
        ), f"rows {keep!r:.40}"
    values = list(columns[name])
    if kind == "cell" and values:
        whole, odd = rng.random() < 0.2, rng.choice((*INSTEAD, *CELLS))
        row = rng.randrange(len(values))
        values = (
            [odd] * len(values) if whole else [*values[:row], odd, *values[row + 1 :]]
        )
        return table.set_column(
            number, name, _arrow(values)
        ), f"{odd!r:.40} in {name}[{'all' if whole else row}]"
    form = rng.choice(ARROW_TYPES)
    return table.set_column(number, name, _arrow(values, form)), f"{name} as {form}"


def _arrow(values: list[Any], form: pa.DataType | None = None) -> pa.Array:
    """Values as a column of a type; where that cannot be, of nulls of the type, or of
    texts.
    """
    errors = (pa.ArrowException, TypeError, ValueError, OverflowError)
    with suppress(*errors):
        return pa.array(values) if form is None else pa.array(values).cast(form)
    if form is not None:
        for odd in ([1.0], {"a": 1}, 1, "x", b"\xff"):
            with suppress(*errors):
                return pa.array([odd] * len(values), form)
        return pa.nulls(len(values), form)
    return pa.array([None if value is None else repr(value)[:60] for value in values])


def mutate_database(path: Path, rng: random.Random) -> str:
    """Change an SQLite file by a statement or two; returns them."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        done = [_change(database, rng) for _ in range(rng.choice((1, 1, 2)))]
        database.commit()
    return "; ".join(done)


def _change(database: sqlite3.Connection, rng: random.Random) -> str:
    tables = [
        name
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
    ]
    table = rng.choice(tables)
    names = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    name, other, odd = rng.choice(names), rng.choice(names), rng.choice(CELLS)
    one = (
        f'rowid IN (SELECT rowid FROM "{table}" ORDER BY '
        f"rowid LIMIT 1 OFFSET {rng.randrange(30)})"
    )
    some = rng.choice((one, one, "1", f"rowid % {rng.randint(2, 7)} = 0"))
    statements: tuple[tuple[str, tuple[Any, ...]], ...] = (
        (f'DELETE FROM "{table}" WHERE {some}', ()),
        (f'DELETE FROM "{table}" WHERE {some}', ()),
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = ? WHERE {some}', (odd,)),
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = ? WHERE {some}', (odd,)),
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = ? WHERE {some}', (odd,)),
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = "{other}" WHERE {some}', ()),
        (f'UPDATE OR IGNORE "{table}" SET "{name}" = -"{name}" WHERE {some}', ()),
        (
            (
                f'UPDATE OR IGNORE "{table}" SET "{name}" '
                f'= CAST("{name}" AS TEXT) WHERE {some}'
            ),
            (),
        ),
        (
            (
                f'UPDATE OR IGNORE "{table}" SET "{name}" '
                f'= substr("{name}", 1, 9) WHERE {some}'
            ),
            (),
        ),
        (f'ALTER TABLE "{table}" DROP COLUMN "{name}"', ()),
        (f'ALTER TABLE "{table}" RENAME COLUMN "{name}" TO "{name}_"', ()),
        (f'DROP TABLE "{table}"', ()),
        (f'CREATE TABLE "copied" AS SELECT * FROM "{table}" WHERE {some}', ()),
    )
    statement, values = rng.choice(statements)
    with suppress(sqlite3.Error):
        database.execute(statement, values)
        if statement.startswith("CREATE TABLE"):
            # A table without keys or types, with some of its rows twice.
            database.execute(f'INSERT INTO "copied" SELECT * FROM "{table}"')
            database.execute(f'DROP TABLE "{table}"')
            database.execute(f'ALTER TABLE "copied" RENAME TO "{table}"')
    return f"{statement} {values!r}"


def mutated_text(text: str, rng: random.Random) -> tuple[str, str]:
    """A text with a word or a line replaced, removed or repeated, and what was done."""
    if rng.random() < 0.3:
        lines = text.splitlines(keepends=True)
        row, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[row] = rng.choice(
            ("", lines[row] * 2, lines[other], lines[row].lstrip("0123456789"), "\n")
        )
        return "".join(lines), f"line {row} is {lines[row]!r:.40}"
    words = re.split(r"([\s,=\[\]{}\"]+)", text)
    place = rng.randrange(len(words))
    words[place] = rng.choice(
        (*WORDS, words[rng.randrange(len(words))], words[place] * 2)
    )
    return "".join(words), f"word {place} is {words[place]!r:.40}"
