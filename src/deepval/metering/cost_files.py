"""Tables `[modes.<name>]` and `[allocators.<name>]` <-> a costs file, which keeps all else that it says."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import read_toml
from deepval.files.writing import write_atomically

Entry = dict[str, float | int | str | bool]
Kind = Literal["modes", "allocators"]


def read_entries(path: Path, kind: Kind) -> dict[str, Mapping[str, object]]:
    """The tables of one kind in a costs file, by name; empty where there is no file yet."""
    if not reading.exists(path):
        return {}
    tables = read_toml(path).get(kind, {})
    if not isinstance(tables, dict) or not all(isinstance(entry, dict) for entry in tables.values()):
        raise InputError(f"The costs of {kind} must be tables [{kind}.<name>], and are not in {path}.")
    return tables


def write_entries(path: Path, kind: Kind, entries: Mapping[str, Entry]) -> None:
    """Put one `[<kind>.<name>]` table per entry at the end, in place of any of that name; the rest stays as it is."""
    known = read_entries(path, kind)
    before = _text(path) if reading.exists(path) else ""
    wanted = tomllib.loads(before)
    wanted[kind] = {**known, **entries}
    kept = _without(before, kind, set(known) & set(entries)).strip()
    tables = [f"[{kind}.{_key(name)}]\n{_lines(entry)}" for name, entry in entries.items()]
    text = (kept + "\n\n" if kept else "") + "\n".join(tables)
    # Text is cut by lines; whether the file still says what it should is checked on the whole.
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _cannot(path, entries, str(error)) from error
    if written != wanted:
        raise _cannot(path, entries, "its tables are not written one by one")
    write_atomically(path, text, make_folder=True)


def _cannot(path: Path, entries: Mapping[str, Entry], why: str) -> InputError:
    return InputError(f"The costs of {', '.join(entries)} cannot be added to {path} ({why}): use another costs file.")


def _text(path: Path) -> str:
    return reading.text(path)


def _without(text: str, kind: Kind, names: set[str]) -> str:
    """The text without the tables of those names; comments right above the next table stay."""
    kept: list[str] = []
    inside, held = False, []
    for line in text.splitlines(keepends=True):
        path = _header(line)
        if path is not None:
            kept += held
            held, inside = [], len(path) > 1 and path[0] == kind and path[1] in names
        if not inside:
            kept.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            held = []
        else:
            held.append(line)
    return "".join(kept + held)


def _header(line: str) -> list[str] | None:
    """The names in a line such as [allocators.mine], or None if it opens no table."""
    if not line.lstrip().startswith("["):
        return None
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path = []
    while isinstance(table, dict) and table:
        ((name, table),) = table.items()
        path.append(name)
    return path


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _lines(entry: Entry) -> str:
    return "".join(
        f"{_key(key)} = {json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)}\n"
        for key, value in entry.items()
    )
