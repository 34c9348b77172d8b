"""A log -> a value table, what each column was taken for, and trials."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError, InputWarning, argument, few, suggestion
from deepval.basics.files import reading
from deepval.judge.tables import columns, keys
from deepval.judge.tables.columns import LOSS_PREFIX, REWARD_PREFIX
from deepval.judge.tables.input_costs import cost_columns
from deepval.judge.tables.logs import names
from deepval.judge.tables.logs.assembly import Repeat, Runs, runs_of, times
from deepval.judge.tables.logs.files import LogTable, digest, read_log
from deepval.judge.tables.logs.public import STRONG, WEAK, listed_costs
from deepval.judge.tables.logs.roles import NamedColumns, Roles, roles_of
from deepval.judge.tables.off_policy import LEAST_RUNS, one_mode_estimates
from deepval.judge.tables.values import ValueTable

TRIAL = "@"
"""Sign between the name of a mode and the number of a trial in a values file."""


@dataclass(frozen=True)
class Imported:
    """A log as a values file has it.

    Attributes:
        table: The table; of repeated runs, the first.
        lines: What each column was taken for, and how the modes are ordered.
        trials: Columns of every trial, where all of them are asked for.
        scores: Names of the attributes that are scores of routers.
    """

    table: ValueTable
    lines: list[str]
    trials: Mapping[str, Float[np.ndarray, "input"]] = field(default_factory=dict)
    scores: tuple[str, ...] = ()


def read_import(
    sources: Sequence[Any],
    named: NamedColumns,
    *,
    best: float | None = None,
    prices: Any = None,
    dataset: str | None = None,
    quality: Any = None,
    repeat: Repeat | None = None,
    hash_ids: bool = False,
) -> Imported:
    """The values in a log.

    Args:
        sources: Files or folders, or one thing that is columnar.
        named: Columns that the user names.
        best: The best possible quality: loss = best - quality.
        prices: A list of prices (dataset, model, cost_per_10k) for a log without.
        dataset: Name of the log's data set in that list.
        quality: A file with quality by id, for a log without.
        repeat: Which of several runs of a model on an input counts.
        hash_ids: Whether ids and units are replaced by digests.
    """
    log, files = _read(sources, named, quality)
    named = replace(named, score=[n for n in named.score if n not in files])
    roles = roles_of(log, named)
    source = log.table.source
    runs = runs_of(log.table, roles, repeat)
    runs = replace(runs, scores={**runs.scores, **_scores_of_files(files, runs, named)})
    runs = _with_prices(runs, source, prices, dataset)
    if roles.public is not None and named.unit is None:
        runs = _with_units(runs)
    if hash_ids:
        runs = _hashed(runs)
    if best is None and roles.public is not None:
        best = _best_of(runs, source)
    _refuse_single_runs(runs, source)
    modes, how = _order_of_models(runs, named.modes, source)
    if roles.public is not None and modes[0] in roles.public.confidences:
        # Only the cheap model's confidence is there before a dearer model is called.
        column = roles.public.confidences[modes[0]]
        confidence = log.table.numbers(column)
        runs = replace(runs, scores={**runs.scores, "confidence": confidence})
    table, complete = _table(runs, modes, roles, best, source)

    trials = {}
    if repeat == "trial":
        prefix = REWARD_PREFIX if table.is_reward else LOSS_PREFIX
        for mode in modes:
            column = runs.models.index(mode)
            for number, values in enumerate(runs.values[:, complete, column], start=1):
                lost = values if best is None else best - values
                trials[f"{prefix}{mode}{TRIAL}{number}"] = lost
    head = []
    if log.owner is not None:
        head = [f"{source}: a log of {log.owner.name}"]
    elif roles.public is not None:
        head = [f"{source}: a table of {roles.public.name}"]
    lines = [*head, *_used_roles(roles, runs, modes).lines(), how]
    others = [model for model in runs.models if model not in modes]
    if others:
        lines.append(f"left out by {argument('models')}: {few(others)}")
    return Imported(table, lines, trials, tuple(runs.scores))


def import_router_log(
    source: Any,
    *,
    models: Sequence[str] | None = None,
    best: float | None = None,
    prices: Any = None,
    dataset: str | None = None,
    quality: Any = None,
    repeat: Repeat | None = None,
    hash_ids: bool = False,
    **named: str | Sequence[str],
) -> ValueTable:
    """A value table from a log of models: one's own, a program's or a public table.

    Args:
        source: A file, a folder, a list of them, or anything columnar.
        models: Models to select, cheap first and full last; None selects all, by rising
            mean cost, else by rising mean quality.
        best: The best possible quality: loss = best - quality. None gives rewards, in
            public tables losses of 1 - quality.
        prices: A list of prices (dataset, model, cost_per_10k) for a log without; None
            takes the one in the log's folder that lists the log's models, if there is
            one.
        dataset: Name of the log's data set in that list; None takes the one that the
            file's name contains.
        quality: A file with columns id and correct (or score), for a log without.
        repeat: Which of several runs of a model on an input counts: first or mean.
        hash_ids: Whether ids and units are replaced by digests.
        named: Columns by role: id, model, right, reward, loss, cost, unit, order,
            group, score.
    """
    if repeat == "trial":
        raise InputError(
            "Trials have columns in a values file and none in a table: use `deepval "
            "import --repeat trial`, or repeat='mean'."
        )
    several = isinstance(source, list | tuple)
    return read_import(
        list(source) if several else [source],
        named_of(models, named),
        best=best,
        prices=prices,
        dataset=dataset,
        quality=quality,
        repeat=repeat,
        hash_ids=hash_ids,
    ).table


def named_of(
    models: Sequence[str] | None, named: Mapping[str, str | Sequence[str] | None]
) -> NamedColumns:
    """The columns that keywords name; several for right, reward, loss, group, score."""
    lists = ("right", "reward", "loss", "group", "score")
    known = [name for name in NamedColumns.__dataclass_fields__ if name != "modes"]
    values: dict[str, Any] = {}
    for role, value in named.items():
        if role not in known:
            raise InputError(
                f"A column is named by its role, one of {', '.join(known)}; found "
                f"{role!r}{suggestion(role, known)}"
            )
        if value is None:
            continue
        if role in lists and isinstance(value, str):
            value = [value]
        values[role] = value
    return NamedColumns(modes=models, **values)


def _read(
    sources: Sequence[Any], named: NamedColumns, quality: Any
) -> tuple[LogTable, dict[str, columns.Columns]]:
    """The log, with quality joined, and the files of scores that the user names."""
    log = read_log(sources, named.texts)
    files = {}
    for name in named.score:
        if name not in log.table.data and reading.is_file(name):
            files[name] = read_log([name], named.texts).table
    if quality is None:
        return log, files
    return _with_quality(log, read_log([quality], named.texts), named), files


def _with_quality(log: LogTable, quality: LogTable, named: NamedColumns) -> LogTable:
    """The log with the columns of a file that has quality by id, and by model if it
    has models.

    The file's ids may be those of the inputs, or those that the log has for each run.
    """
    table, other = log.table, quality.table
    other_id = named.id
    if quality.owner is not None or other_id not in other.data:
        usual = names.usual_names("id", quality.names)
        other_id = names.first(other.data, usual)
    if other_id is None:
        raise InputError(
            f"{other.source}: quality is joined by id, and it has no column of ids: "
            f"name it as in {table.source}, or id."
        )
    right = keys.as_text(other.ids(other_id))
    taken = {other_id}
    models = names.usual_names("model", log.names)
    own_model = named.model or names.first(table.data, models)
    other_model = names.first(other.data, (*models, names.plain(own_model or "")))
    if own_model is not None and other_model is not None:
        right = _pairs(right, keys.as_text(other.ids(other_model)))
        taken.add(other_model)
    columns.refuse_repeated(right, other.source)

    row = np.full(len(table), -1)
    run_id = names.first(table.data, names.usual_names("id", log.names))
    for own_id in dict.fromkeys((named.id, run_id)):
        if own_id is not None and not (row >= 0).any():
            left = keys.as_text(table.ids(own_id))
            if own_model is not None and other_model is not None:
                left = _pairs(left, keys.as_text(table.ids(own_model)))
            row = keys.positions(left, right)
    if not (row >= 0).any():
        raise InputError(
            f"{other.source}: must have quality of runs in {table.source}; none of the "
            f"ids in its column {other_id!r} is there: "
            f"{argument('id')} names the column of ids."
        )
    data = dict(table.data)
    for name, column in other.data.items():
        if name not in taken:
            joined = column.astype(object)[np.maximum(row, 0)]
            joined[row < 0] = None
            data[name] = joined
    joined_table = columns.Columns(table.source, data)
    if log.owner is None:
        return LogTable(joined_table)
    # what the joined file has counts before what the log has
    own_names = dict(log.owner.names)
    for role in ("right", "reward", "loss"):
        own_names[role] = (*quality.names.get(role, ()), *own_names.get(role, ()))
    return LogTable(joined_table, replace(log.owner, names=own_names))


def _pairs(
    ids: Shaped[np.ndarray, "row"], models: Shaped[np.ndarray, "row"]
) -> Shaped[np.ndarray, "row"]:
    return np.char.add(np.char.add(ids, "\n"), models)


def _scores_of_files(
    files: Mapping[str, columns.Columns], runs: Runs, named: NamedColumns
) -> dict[str, Float[np.ndarray, "input"]]:
    """Scores of the inputs, from files with columns of ids and scores."""
    scores = {}
    for name, table in files.items():
        column = named.id
        if column not in table.data:
            column = names.first(table.data, names.usual_names("id", {}))
        numbers = [n for n, c in table.data.items() if c.dtype.kind in "fiu"]
        numbers = [n for n in numbers if n != column]
        score = "score" if "score" in table.data else "".join(numbers[:1])
        if column is None or not score or (score != "score" and len(numbers) > 1):
            raise InputError(
                f"{name}: a file of scores has a column of ids and 'score', or one "
                f"number; found {few(list(table.data), 20)}."
            )
        ids = table.ids(column)
        columns.refuse_repeated(ids, name)
        row = keys.positions(runs.ids, ids)
        if (row < 0).any():
            first = str(runs.ids[int(np.flatnonzero(row < 0)[0])])
            raise InputError(f"{name}: every input needs a score; {first!r} has none.")
        scores[Path(name).stem] = table.numbers(score)[row]
    return scores


def _with_prices(runs: Runs, source: str, prices: Any, dataset: str | None) -> Runs:
    """The runs with prices from a list, where the log has none."""
    if np.isnan(runs.cost).all():
        listed = listed_costs(source, runs.models, prices, dataset)
        cost = np.array([listed.get(model, np.nan) for model in runs.models])
        return replace(runs, cost=np.broadcast_to(cost, runs.cost.shape))
    if prices is not None or dataset is not None:
        raise InputError(
            f"{source}: has its own costs, so it takes no "
            "list of prices: leave the list out."
        )
    return runs


def _with_units(runs: Runs) -> Runs:
    """The runs of a public table; units that are all one count as none."""
    if runs.units is None or len(np.unique(runs.units)) > 1:
        return runs
    return replace(runs, units=None)


def _hashed(runs: Runs) -> Runs:
    """The runs with digests in place of ids and units."""
    units = runs.units
    if units is not None:
        units = np.array([digest(unit) for unit in units.tolist()])
    return replace(
        runs, ids=np.array([digest(name) for name in runs.ids.tolist()]), units=units
    )


def _best_of(runs: Runs, source: str) -> float:
    """The best quality of a public table, 1."""
    top = float(np.nanmax(runs.values, initial=-np.inf))
    if top > 1:
        raise InputError(
            f"{source}: quality must lie within [0, 1], or the best there is be "
            f"named; found {top:g}: give {argument('best', 10)}."
        )
    return 1.0


def _order_of_models(
    runs: Runs, modes: Sequence[str] | None, source: str
) -> tuple[list[str], str]:
    """The selected models, cheap first, and how they are ordered."""
    available = runs.models
    if modes is not None:
        unknown = [mode for mode in modes if mode not in available]
        if unknown:
            raise InputError(
                f"{source}: models must be among {few(available, 20)}; found "
                f"{unknown[0]!r}."
            )
        return list(modes), f"modes: {', '.join(modes)}, as named"
    if len(available) < 2:
        raise InputError(
            f"{source}: two or more models are needed; found {', '.join(available)}."
        )
    unpriced = np.isnan(runs.cost).all(axis=0)
    if unpriced.any() and not unpriced.all():
        raise InputError(
            f"{source}: models are ordered by their cost, and "
            f"{available[int(unpriced.argmax())]!r} has none: name the models cheap "
            f"first, {argument('models')}. It has {few(available, 20)}."
        )
    if not unpriced.any():
        rank = np.nanmean(runs.cost, axis=0)
        by = "by mean price"
    elif all(name.startswith((WEAK, STRONG)) for name in available):
        rank = np.array([name.startswith(STRONG) for name in available])
        by = "by name"
    else:
        rank = np.nanmean(runs.values[0], axis=0)
        by = "by mean quality"
        note = (
            f"{source}: has no costs, so models are ordered by rising mean quality; "
            f"{argument('models')} sets another order, {argument('prices')} names a "
            "list of prices."
        )
        warnings.warn(InputWarning(note), stacklevel=4)
    ordered = [available[i] for i in np.argsort(rank, kind="stable")]
    return ordered, f"modes: {', '.join(ordered)}, {by}"


def _table(
    runs: Runs, modes: Sequence[str], roles: Roles, best: float | None, source: str
) -> tuple[ValueTable, Shaped[np.ndarray, "input"]]:
    """The table of the inputs on which every selected model ran, and which inputs
    these are.
    """
    columns_of = [runs.models.index(mode) for mode in modes]
    values = runs.values[0][:, columns_of]
    cost = runs.cost[:, columns_of]
    priced = not np.isnan(cost).all(axis=0).any()
    if priced and len(modes) > 1 and cost[:, 0].sum() == cost[:, -1].sum():
        priced = False  # equal prices say nothing
    lacking = np.isnan(values + cost if priced else values).any(axis=1)
    complete = np.logical_not(lacking)
    if not complete.any():
        raise InputError(
            f"{source}: some input must have a run of every model of "
            f"{', '.join(modes)}; none has: name those that ran together "
            f"with {argument('models')}."
        )
    if not complete.all():
        note = (
            f"{source}: {np.count_nonzero(lacking)} of {len(lacking)} inputs lack a "
            "value or price of a selected model, and are left out."
        )
        warnings.warn(InputWarning(note), stacklevel=4)
    units = runs.ids if runs.units is None else runs.units
    if runs.units is None:
        note = (
            f"{source}: has no groups of inputs, so each input is its own unit; "
            f"{argument('unit')} names a column of groups."
        )
        warnings.warn(InputWarning(note), stacklevel=4)
    with warnings.catch_warnings():
        # noted where units are chosen
        warnings.filterwarnings("ignore", ".*is different in every row", InputWarning)
        values = values[complete]
        if best is not None:
            if float(values.max()) > best:
                raise InputError(
                    f"{source}: no quality can exceed the best, {best:g}; found "
                    f"{float(values.max()):g}."
                )
            values = best - values
        by_mode = {mode: values[:, m] for m, mode in enumerate(modes)}
        is_reward = roles.measure == "reward" and best is None
        table = ValueTable.from_columns(
            unit=units[complete],
            input=runs.ids[complete],
            losses=None if is_reward else by_mode,
            rewards=by_mode if is_reward else None,
            order=None if runs.order is None else runs.order[complete],
            input_costs=(
                {mode: cost[complete, m] for m, mode in enumerate(modes)}
                if priced
                else None
            ),
            attributes=_attributes(runs, roles, complete, source),
            source=source,
        )
    noun = names.input_noun(roles.id)
    unit_noun = noun
    if runs.units is not None:
        unit_noun = names.unit_noun(roles.unit)
    nouns = (noun, unit_noun)
    return replace(table, nouns=nouns, id_column=roles.id or "input"), complete


def _used_roles(roles: Roles, runs: Runs, modes: Sequence[str]) -> Roles:
    """The roles, without models that are not selected and groups that are one."""
    ignored = dict(roles.ignored)
    values = {m: c for m, c in roles.values.items() if m in modes}
    costs = {m: c for m, c in roles.costs.items() if m in modes}
    unit = roles.unit
    if unit is not None and runs.units is None:
        ignored[unit] = "the same in every row"
        unit = None
    return replace(roles, values=values, costs=costs, unit=unit, ignored=ignored)


def _refuse_single_runs(runs: Runs, source: str) -> None:
    """Raise where no input has runs of two models."""
    ran = np.count_nonzero(~np.isnan(runs.values[0]), axis=1)
    if ran.max(initial=0) < 2 <= len(runs.models):
        raise InputError(
            f"{source}: one model ran on each input, so what another would have done "
            "is not known: run two on some inputs; or, where the model was drawn with "
            f"a probability that the log has ({argument('propensity')}), "
            "values_from_log (deepval import --off-policy doubly-robust) estimates it; "
            f"or, where two runs share another id, name it with {argument('id')}."
        )


def _attributes(
    runs: Runs,
    roles: Roles,
    complete: Shaped[np.ndarray, "input"],
    source: str,
) -> dict[str, np.ndarray]:
    """Groups and scores of the complete inputs, by name."""
    attributes = {name: column[complete] for name, column in runs.groups.items()}
    for name, score in runs.scores.items():
        attributes[name] = score[complete]
        if roles.public is None and np.isnan(attributes[name]).any():
            raise InputError(
                f"{source}: score {name!r} must be a number for every input; it is "
                "empty for some."
            )
    reserved = {"unit", "input", "order"} & attributes.keys()
    if reserved:
        raise InputError(
            f"{source}: {sorted(reserved)[0]!r} is the name of a column of values "
            "files, so no group or score can have it: rename the column."
        )
    return attributes


def read_estimates(
    sources: Sequence[Any],
    named: NamedColumns,
    *,
    method: str,
    features: Sequence[str] = (),
    clip: float | None = None,
    quality: Any = None,
    hash_ids: bool = False,
) -> Imported:
    """The estimated values in a log in which one mode ran on each input; arguments as
    of `read_import` and `values_from_log`.
    """
    log, _ = _read(sources, replace(named, score=()), quality)
    roles = roles_of(log, replace(named, score=()))
    source = log.table.source
    if roles.model is None or roles.id is None or roles.value is None:
        raise InputError(
            f"{source}: one mode ran on each input of such a log: columns of ids, "
            f"models and quality are needed ({argument('id')}, {argument('model')}, "
            f"{argument('right')})."
        )
    if roles.propensity is None:
        raise InputError(
            f"{source}: the probability with which the model was chosen that ran is "
            f"needed, {argument('propensity', 'COLUMN')}, in the log or in "
            f"{argument('quality', 'FILE')}; where the "
            "model was not drawn at random, nothing can be estimated."
        )
    data = log.table.data
    ids = log.table.ids(roles.id)
    units = ids if roles.unit is None else log.table.ids(roles.unit)
    if hash_ids:
        ids = np.array([digest(name) for name in ids.tolist()])
        units = np.array([digest(name) for name in units.tolist()])
    value = keys.quality_array(data[roles.value], f"{source}: {roles.value!r}")
    content: dict[str, np.ndarray] = {
        "unit": units,
        "input": ids,
        "mode": keys.as_text(log.table.ids(roles.model)),
        roles.measure: value,
        "propensity": data[roles.propensity],
    }
    order = times(log.table, roles)
    if order is not None:
        content["order"] = order
    used = roles.used()
    for name, column in data.items():
        if name not in used and name not in content:
            content[name] = column
    table = values_from_log(
        columns.Columns(source, content),
        named.modes or (),
        method=method,
        features=features,
        clip=clip,
    )
    return Imported(table, roles.lines())


def values_from_log(
    source: Any,
    modes: Sequence[str],
    *,
    method: str = "doubly-robust",
    features: Sequence[str] = (),
    clip: float | None = None,
    least_runs: float = LEAST_RUNS,
) -> ValueTable:
    """Estimated losses from a log in which one mode ran on each input.

    Args:
        source: A file or anything columnar: `unit`, `input`, `mode`, `loss` (or
            `reward`), `propensity` of the mode that ran; optionally `predicted_<mode>`
            of every mode, `order`, and further columns.
        modes: The modes, cheap first and full last.
        method: doubly-robust, ipw or self-normalised.
        features: Numeric columns that predict the losses where the log has no
            `predicted_<mode>`: a ridge regression per mode, fitted on other units;
            without features, the mean loss of the mode on other units.
        clip: Propensities below this are raised to it, which biases the estimates; None
            refuses those below 0.01.
        least_runs: Fewest effective runs of a mode, (sum w)^2 / sum w^2 with weights w
            = 1 / propensity; fewer are refused.
    """
    log = columns.read(source)
    losses, note = one_mode_estimates(
        log,
        modes,
        method=method,
        features=features,
        clip=clip,
        least_runs=least_runs,
    )
    by_prefix = cost_columns(log.data, modes)
    table = ValueTable.from_columns(
        unit=log.data["unit"],
        input=log.ids("input"),
        losses={mode: losses[:, m] for m, mode in enumerate(modes)},
        order=log.data.get("order"),
        input_costs={
            n: {m: log.data[c] for m, c in by_mode.items()}
            for n, by_mode in by_prefix.items()
        }
        or None,
        source=log.source,
    )
    return replace(table, estimated=note)
