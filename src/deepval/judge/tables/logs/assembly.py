"""Columns and their roles -> values and prices by input and model.

Runs of a long log are put into an array by index, so that a million rows take no loop.
A repeated run of a model on an input is a trial.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from deepval.basics.arrays import Float, Int, Shaped
from deepval.basics.errors import InputError, argument, quote
from deepval.judge.tables import columns, keys
from deepval.judge.tables.logs.roles import Roles

Repeat = Literal["first", "mean", "trial"]
MILLISECONDS = 1e11
"""Times above this, and those 1,000 and 1,000,000 times larger, are milliseconds,
microseconds and nanoseconds since 1970: as seconds they would be after the year 5000.
"""


@dataclass(frozen=True)
class Runs:
    """What models did on inputs; NaN where one did not run, or had no price.

    Attributes:
        ids: Ids of the inputs, in their order in the log.
        models: The models.
        values: Losses, or qualities and other rewards.
        cost: Prices in dollars.
        units: Unit of each input; None where every input is one.
        order: Time of each input.
        groups: Group of each input, by column.
        scores: Score of each input, by name.
    """

    ids: Shaped[np.ndarray, "input"]
    models: list[str]
    values: Float[np.ndarray, "trial input model"]
    cost: Float[np.ndarray, "input model"]
    units: Shaped[np.ndarray, "input"] | None
    order: Float[np.ndarray, "input"] | None
    groups: Mapping[str, Shaped[np.ndarray, "input"]]
    scores: Mapping[str, Float[np.ndarray, "input"]]


def runs_of(table: columns.Columns, roles: Roles, repeat: Repeat | None) -> Runs:
    """The runs in a log, in the order of its inputs."""
    if roles.model is None:
        return _wide_runs(table, roles)
    return _long_runs(table, roles, repeat)


def _wide_runs(table: columns.Columns, roles: Roles) -> Runs:
    """Runs in a log with a row per input."""
    ids = np.arange(len(table))
    if roles.id is not None:
        ids = table.ids(roles.id)
    elif roles.public is not None:
        ids = ids.astype(str)
    units = None if roles.unit is None else table.ids(roles.unit)
    if roles.public is not None and units is not None and _repeats(ids):
        ids = np.char.add(np.char.add(keys.as_text(units), "/"), keys.as_text(ids))
    values = [_numbers(table, column) for column in roles.values.values()]
    cost = [
        _numbers(table, roles.costs.get(model), prices=True) for model in roles.values
    ]
    return Runs(
        ids=ids,
        models=list(roles.values),
        values=np.column_stack(values)[None],
        cost=np.column_stack(cost),
        units=units,
        order=times(table, roles),
        groups={name: _labels(table, name) for name in roles.groups},
        scores={n: _numbers(table, column) for n, column in roles.scores.items()},
    )


def _repeats(ids: Shaped[np.ndarray, "input"]) -> bool:
    return keys.first_repeat(ids) is not None


def _long_runs(table: columns.Columns, roles: Roles, repeat: Repeat | None) -> Runs:
    """Runs in a log with a row per run."""
    assert roles.model is not None
    row_ids = np.arange(len(table)) if roles.id is None else table.ids(roles.id)
    units = None if roles.unit is None else table.ids(roles.unit)
    if roles.public is not None:
        row_ids, units = _public_ids(keys.as_text(row_ids), units, roles)
    ids, first_row, row_input = _distinct(row_ids)
    _, first_of_model, row_model = _distinct(table.ids(roles.model))
    models = [str(table.data[roles.model][row]) for row in first_of_model]
    order = times(table, roles)

    trial = _trials(row_input * len(models) + row_model, order)
    if repeat is None and trial.any():
        row = int(np.flatnonzero(trial)[0])
        raise InputError(
            f"{table.source}: {models[row_model[row]]!r} ran more than once on "
            f"{str(row_ids[row])!r} ({columns.row_name(row)}): "
            f"{argument('repeat', 'first')}, mean or trial, says which run counts, or "
            f"{argument('id')} another column of ids."
        )
    values = _numbers(table, roles.value)
    cost = _numbers(table, roles.cost, prices=True)
    shape = (int(trial.max(initial=0)) + 1, len(ids), len(models))
    by_trial = np.full(shape, np.nan)
    by_trial[trial, row_input, row_model] = values
    cost_by_trial = np.full(shape, np.nan)
    cost_by_trial[trial, row_input, row_model] = cost
    if repeat == "mean":
        by_trial = _mean(by_trial)[None]
    elif repeat != "trial":
        by_trial = by_trial[:1]
        cost_by_trial = cost_by_trial[:1]

    earliest = None
    if order is not None:
        earliest = np.full(len(ids), np.inf)
        np.minimum.at(earliest, row_input, order)

    def of_inputs(column: np.ndarray, name: str) -> np.ndarray:
        """The value of each input, which must be the same in all its rows."""
        if roles.public is None:
            _refuse_different(column, first_row[row_input], row_ids, name, table.source)
        return column[first_row]

    return Runs(
        ids=ids,
        models=models,
        values=by_trial,
        cost=_mean(cost_by_trial),
        units=None if units is None else of_inputs(units, roles.unit or "unit"),
        order=earliest,
        groups={n: of_inputs(_labels(table, n), n) for n in roles.groups},
        scores={
            name: of_inputs(_numbers(table, column), column)
            for name, column in roles.scores.items()
        },
    )


def _public_ids(
    ids: Shaped[np.ndarray, "row"],
    units: Shaped[np.ndarray, "row"] | None,
    roles: Roles,
) -> tuple[Shaped[np.ndarray, "row"], Shaped[np.ndarray, "row"] | None]:
    """Ids and units of a public benchmark: ids get their unit before them."""
    assert roles.public is not None
    if roles.public.units_of_ids and units is None:
        before = [str(name).rpartition("_")[0] or str(name) for name in ids]
        return ids, np.array(before)
    if units is None or not roles.public.ids_within_units:
        return ids, units
    whole = [
        name if name.startswith(f"{unit}_") else f"{unit}/{name}"
        for unit, name in zip(keys.as_text(units), ids, strict=True)
    ]
    return np.array(whole), units


def _distinct(
    ids: Shaped[np.ndarray, "row"],
) -> tuple[
    Shaped[np.ndarray, "input"], Int[np.ndarray, "input"], Int[np.ndarray, "row"]
]:
    """The distinct ids in the order of their first rows, these rows, and the index of
    each row's id.
    """
    # Runs on one input are mostly one below the other: one comparison finds them.
    differs = np.ones(len(ids), dtype=bool)
    differs[1:] = ids[1:] != ids[:-1]
    begins = np.flatnonzero(differs)
    stretch = np.cumsum(differs) - 1
    heads = ids[begins]
    if bool(np.all(heads[1:] > heads[:-1])):
        return heads, begins, stretch

    key = keys.keys_of(heads)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if ids.dtype.kind == "U" and not bool(np.all(heads[first][inverse] == heads)):
        # two texts share a key
        _, first, inverse = np.unique(heads, return_index=True, return_inverse=True)
    by_row = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[by_row] = np.arange(len(first))
    return heads[first[by_row]], begins[first[by_row]], rank[inverse][stretch]


def _trials(
    pair: Int[np.ndarray, "row"], order: Float[np.ndarray, "row"] | None
) -> Int[np.ndarray, "row"]:
    """Number of earlier runs of each row's model on its input, by time if there is
    one, else by row.
    """
    if np.bincount(pair).max(initial=0) <= 1:
        return np.zeros(len(pair), dtype=np.int64)
    by_time = (pair,) if order is None else (order, pair)
    rows = np.lexsort(by_time)
    ordered = pair[rows]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    lengths = np.diff(np.append(begins, len(rows)))
    trial = np.empty(len(rows), dtype=np.int64)
    trial[rows] = np.arange(len(rows)) - np.repeat(begins, lengths)
    return trial


def _mean(
    by_trial: Float[np.ndarray, "trial input model"],
) -> Float[np.ndarray, "input model"]:
    """Mean over the trials that have a value; NaN where none has."""
    if len(by_trial) == 1:
        return by_trial[0]
    number = np.count_nonzero(~np.isnan(by_trial), axis=0)
    total = np.nansum(by_trial, axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _refuse_different(
    column: np.ndarray,
    first_row: Int[np.ndarray, "row"],
    ids: np.ndarray,
    name: str,
    source: str,
) -> None:
    """Raise where rows of one input hold different values."""
    compared = column
    if column.dtype.kind == "U":
        compared = keys.keys_of(column)  # integers are compared faster
    first = compared[first_row]
    same = first == compared
    if column.dtype.kind == "f":
        same |= np.isnan(first) & np.isnan(compared)
    if not same.all():
        row = int(np.flatnonzero(~same)[0])
        raise InputError(
            f"{source}: column {name!r} must hold one value per input, whatever model "
            f"ran; for {str(ids[row])!r} it holds {quote(column[first_row[row]])} and "
            f"{quote(column[row])}."
        )


def _numbers(
    table: columns.Columns, name: str | None, *, prices: bool = False
) -> Float[np.ndarray, "row"]:
    """A column of numbers; true and false are 1 and 0; empty cells and a missing column
    are NaN.
    """
    if name is None:
        return np.full(len(table), np.nan)
    what = f"{table.source}: column {name!r}"
    if prices:
        return keys.number_array(_without_currency(table.data[name]), what)
    return keys.quality_array(table.data[name], what)


def _without_currency(column: np.ndarray) -> np.ndarray:
    """Prices without a dollar sign; empty texts are None."""
    if column.dtype.kind not in "OUT":
        return column
    return np.array([_price(value) for value in column.tolist()], dtype=object)


def _price(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.strip().removeprefix("$") or None


def _labels(table: columns.Columns, name: str) -> Shaped[np.ndarray, "row"]:
    """A column of groups as text; an empty cell is an empty text."""
    column = table.data[name]
    if column.dtype.kind != "O":
        return column.astype(str)
    return np.array(["" if v is None else str(v) for v in column.tolist()], dtype=str)


def times(table: columns.Columns, roles: Roles) -> Float[np.ndarray, "row"] | None:
    """Times in seconds, or any other positions; as they are in a public table."""
    if roles.order is None:
        return None
    what = f"{table.source}: column {roles.order!r}"
    column = table.data[roles.order]
    if column.dtype.kind == "M":
        seconds = column.astype("datetime64[us]").astype(np.int64) / 1e6
    elif column.dtype.kind in "fiub":
        seconds = column.astype(np.float64)
    else:
        seconds = _times(column, what)
    if roles.public is not None:
        return seconds
    if not np.isfinite(seconds).all():
        row = int(np.flatnonzero(~np.isfinite(seconds))[0])
        raise InputError(f"{what} must hold times; {columns.row_name(row)} holds none.")
    least = float(np.abs(seconds).min(initial=np.inf))
    for scale in (1e9, 1e6, 1e3):
        if np.isfinite(least) and least >= MILLISECONDS / 1e3 * scale:
            return seconds / scale
    return seconds


def _times(column: np.ndarray, what: str) -> Float[np.ndarray, "row"]:
    """Texts of times in ISO 8601, or of numbers; without a zone they are of UTC."""
    times = np.empty(len(column))
    for row, text in enumerate(column.tolist()):
        try:
            times[row] = _seconds(text)
        except (ValueError, TypeError, OverflowError):
            raise InputError(
                f"{what} must hold numbers or times such as 2026-03-01T12:00:00; "
                f"{columns.row_name(row)} holds {quote(text)}."
            ) from None
    return times


def _seconds(text: Any) -> float:
    if isinstance(text, datetime):
        time = text
    elif isinstance(text, str) and not _is_number(text):
        time = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    else:
        return float(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time.timestamp()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
