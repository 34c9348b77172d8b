"""A file that is a log and no values file -> the command that imports it."""

import shlex
from pathlib import Path

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.judge.tables.columns import LOSS_PREFIX, REWARD_PREFIX
from deepval.judge.tables.logs import spreadsheet
from deepval.judge.tables.logs.files import READ, read_log
from deepval.judge.tables.logs.roles import NamedColumns, Roles, roles_of


def import_advice(path: Path) -> str | None:
    """The sentence that says how to import a log; None where a file is none."""
    if path.suffix.lower() not in READ or not reading.is_file(path):
        return None
    try:
        log = read_log([path])
    except InputError:
        return None
    try:
        roles = roles_of(log, NamedColumns())
    except InputError as error:
        if log.owner is not None:
            return str(error)
        if path.suffix.lower() != ".csv" or spreadsheet.separator(path) == ",":
            return None
        return (
            f"{path}: cells must be separated by commas, and numbers have a point: "
            f"deepval import {shlex.quote(str(path))} reads it and writes a values "
            "file; --id, --unit, --right and --loss name its columns."
        )
    ours = (LOSS_PREFIX, REWARD_PREFIX)
    of_values = all(name.startswith(ours) for name in roles.values.values())
    if roles.model is None and of_values and {"unit", "input"} <= set(log.table.data):
        return None  # a values file with another fault
    command = f"deepval import {shlex.quote(str(path))}{_options(roles)}"
    return (
        f"{path}: is a log and no values file: {command} -o values.parquet writes one, "
        "and then values.parquet is judged."
    )


def _options(roles: Roles) -> str:
    """The options that name what the import would guess."""
    if roles.public is not None:
        return ""
    options = {
        "id": roles.id,
        "model": roles.model,
        roles.measure: roles.value or ",".join(roles.values.values()),
        "cost": roles.cost,
        "unit": roles.unit,
        "order": roles.order,
    }
    words = [f" --{n} {shlex.quote(c)}" for n, c in options.items() if c]
    words += [f" --group {shlex.quote(name)}" for name in roles.groups]
    return "".join(words)
