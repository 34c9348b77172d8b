"""Columns of a log -> what each is: id, model, quality, price, unit, order, group.

A log is long, with a row per run of a model, or wide, with a row per input and a column
per model. What the user names counts; the rest is taken by usual names, and where a
name is not enough nothing is guessed: a further number is neither a model nor a score.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from deepval.basics.errors import InputError, argument, few, suggestion
from deepval.judge.tables import columns, keys
from deepval.judge.tables.logs import names
from deepval.judge.tables.logs.files import LogTable
from deepval.judge.tables.logs.public import Public, public_table

Measure = Literal["loss", "reward"]
MEASURES = ("right", "reward", "loss")
PROMPT_LENGTH = "prompt_length"
"""Name of the score that is the length of the prompt."""
PRICE_FORMS = ("{}_cost", "cost_{}", "{}|total_cost", "{}_usd", "usd_{}", "{}_price")
"""Names of the column with the price of a model."""
VALUE_WORDS = ("loss", "reward", "correct", "right", "quality", "accuracy")
"""Words that are joined to the name of a model, before or after it."""
JOINTS = ("_", "|", ".")


@dataclass(frozen=True)
class NamedColumns:
    """Columns that the user names, by role; None or empty where none was named.

    Attributes:
        id: Ids of the inputs.
        model: Models of a long log.
        right: Right or wrong, or how good; of a wide log, a column per model.
        reward: The same, of any size.
        loss: The same, lower is better.
        cost: Prices of a long log.
        unit: Units.
        order: Times.
        propensity: Probability with which the model was chosen that ran.
        group: Groups of inputs.
        score: Scores of routers.
        modes: Models, cheap first.
    """

    id: str | None = None
    model: str | None = None
    right: Sequence[str] = ()
    reward: Sequence[str] = ()
    loss: Sequence[str] = ()
    cost: str | None = None
    unit: str | None = None
    order: str | None = None
    propensity: str | None = None
    group: Sequence[str] = ()
    score: Sequence[str] = ()
    modes: Sequence[str] | None = None

    @property
    def texts(self) -> set[str]:
        """Columns that are read as text, whatever they look like."""
        single = (self.id, self.model, self.unit)
        return {name for name in (*single, *self.group) if name is not None}


@dataclass(frozen=True)
class Roles:
    """What the columns of a log are.

    Attributes:
        measure: Whether a lower value (loss) or a higher one (reward) is better.
        id: Column of ids; None where rows are numbered.
        unit: Column of units; None where every input is one.
        order: Column of times, if any.
        groups: Columns of groups.
        scores: Column by name of a score.
        model: Column of models; None in a wide log.
        value: Column of losses or rewards of a long log.
        cost: Column of prices of a long log, if any.
        propensity: Column of propensities, if any.
        values: Column of losses or rewards by model, in a wide log.
        costs: Column of prices by model, in a wide log.
        ignored: Why a column is ignored.
        public: How the table of a public benchmark differs, if it is one.
    """

    measure: Measure
    id: str | None = None
    unit: str | None = None
    order: str | None = None
    groups: tuple[str, ...] = ()
    scores: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    value: str | None = None
    cost: str | None = None
    propensity: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    public: Public | None = None

    def lines(self) -> list[str]:
        """What each column was taken for, a line each."""
        better = {"loss": "lower is better", "reward": "higher is better"}[self.measure]
        measure = self.measure
        if self.public is not None:  # its losses are the best quality minus the quality
            measure, better = "quality", "higher is better"
        parts = [
            (self.id, "id of the input"),
            (self.unit, "unit"),
            (self.order, "order in time"),
            (self.model, "model"),
            (self.value, f"{measure}, {better}"),
            (self.cost, "price of a run in dollars"),
            (self.propensity, "probability of the model that ran"),
            *((column, "group") for column in self.groups),
            *((column, f"score {name}") for name, column in self.scores.items()),
        ]
        for mode, column in self.values.items():
            parts.append((column, f"{measure} of {mode}, {better}"))
        for mode, column in self.costs.items():
            parts.append((column, f"price of {mode} in dollars"))
        lines = [f"{column}: {what}" for column, what in parts if column is not None]
        nested = Counter()
        for name, why in self.ignored.items():
            top, dot, _ = name.partition(".")
            if dot:
                nested[top] += 1
            else:
                lines.append(f"{name}: ignored: {why}")
        for top, number in nested.items():
            lines.append(f"{top}.*: ignored: {number} nested fields; options name them")
        return lines

    def used(self) -> set[str]:
        """The columns that have a role."""
        single = (self.id, self.unit, self.order, self.model, self.value, self.cost)
        several = (*self.values.values(), *self.costs.values(), *self.scores.values())
        every = (*single, self.propensity, *several, *self.groups)
        return {name for name in every if name is not None}


def roles_of(log: LogTable, named: NamedColumns) -> Roles:
    """The roles of a log's columns."""
    _refuse_unknown(log.table, named)
    if log.owner is None and not (named.right or named.reward or named.loss):
        public = public_table(log.table, named.modes)
        if public is not None:
            return _explained(log.table, _public_roles(public, named))
    return _explained(log.table, _own_roles(log, named))


def _refuse_unknown(table: columns.Columns, named: NamedColumns) -> None:
    table.require()
    for option in ("id", "model", "cost", "unit", "order", "propensity"):
        name = getattr(named, option)
        _require(table, option, () if name is None else (name,))
    for option in ("right", "reward", "loss", "group"):
        _require(table, option, getattr(named, option))
    if sum(bool(getattr(named, option)) for option in MEASURES) > 1:
        raise InputError(f"One of {_measures('and')} is needed; found more.")


def _measures(joint: str) -> str:
    """The arguments that name columns of quality."""
    right, reward, loss = map(argument, MEASURES)
    return f"{right}, {reward} {joint} {loss}"


def _require(table: columns.Columns, option: str, wanted: Iterable[str]) -> None:
    for name in wanted:
        if name not in table.data:
            raise InputError(
                f"{table.source}: --{option} must name a column; found {name!r}"
                f"{suggestion(name, table.data)} It has {few(list(table.data), 20)}."
            )


def _public_roles(public: Public, named: NamedColumns) -> Roles:
    """The roles in a public table, apart from what the user names."""
    units_stand = named.unit is None
    return Roles(
        measure="loss",
        id=named.id or public.id,
        unit=public.unit if units_stand else named.unit,
        order=named.order or public.order,
        groups=tuple(named.group),
        scores={**public.scores, **{name: name for name in named.score}},
        model=public.model,
        value=public.value,
        cost=named.cost or public.cost,
        values=public.values,
        costs=public.costs,
        public=public if units_stand else replace(public, units_of_ids=False),
    )


def _own_roles(log: LogTable, named: NamedColumns) -> Roles:
    table = log.table
    free = dict.fromkeys(name for name in table.data if not _is_empty(table.data[name]))

    def take(role: str, name: str | None) -> str | None:
        """The column in a role, which has no other role then."""
        found = name or names.first(free, names.usual_names(role, log.names))
        if found is not None:
            free.pop(found, None)
        return found

    for name in (*named.right, *named.reward, *named.loss, *named.group):
        free.pop(name, None)
    is_wide = _names_a_column_per_model(table, named)
    model = None if is_wide else take("model", named.model)
    shared = Roles(
        measure="loss" if named.loss else "reward",
        id=take("id", named.id),
        unit=take("unit", named.unit),
        order=take("order", named.order),
        scores=_scores(table, named),
    )
    for name in shared.scores.values():
        free.pop(name, None)
    if model is None and log.owner is not None:
        raise InputError(_no_quality(log, ""))
    if model is None:
        return _wide_roles(table, named, shared, list(free))
    propensity = take("propensity", named.propensity)
    cost = take("cost", named.cost)
    values = (*named.right, *named.reward, *named.loss)
    measure = shared.measure
    value = values[0] if values else None
    for role in MEASURES:
        if value is None:
            value = take(role, None)
            if value is not None:
                measure = "loss" if role == "loss" else "reward"
    if value is None:
        raise InputError(_no_quality(log, model))
    return replace(
        shared,
        measure=measure,
        model=model,
        value=value,
        cost=cost,
        propensity=propensity,
        groups=_groups(log, named, free),
    )


def _no_quality(log: LogTable, model: str) -> str:
    """The sentence about a log of runs without their quality."""
    source = log.table.source
    if log.owner is not None:
        advice = log.owner.advice.format(
            quality=argument("quality", "FILE"),
            right=argument("right", "scores.NAME"),
        )
        return f"{source}: a log of {log.owner.name} without quality: {advice}"
    return (
        f"{source}: has models ({model!r}) and no column of quality: name it with "
        f"{_measures('or')}, or join it with {argument('quality', 'FILE')} "
        f"(columns id, correct); found {few(list(log.table.data), 20)}."
    )


def _names_a_column_per_model(table: columns.Columns, named: NamedColumns) -> bool:
    """Whether the user names the columns of a wide log."""
    several = (*named.right, *named.reward, *named.loss)
    if len(several) > 1:
        return True
    if named.model is not None or several or not named.modes:
        return False
    return all(mode in table.data for mode in named.modes)


def _scores(table: columns.Columns, named: NamedColumns) -> dict[str, str]:
    """The column of each score that the user names."""
    scores = {}
    for name in named.score:
        column = name
        if name == PROMPT_LENGTH and name not in table.data:
            lengths = [n for n in table.data if n.endswith(names.CHARACTERS)]
            column = lengths[0] if lengths else name
        _require(table, "score", [column])
        scores[name] = column
    return scores


def _groups(log: LogTable, named: NamedColumns, free: Iterable[str]) -> tuple[str, ...]:
    """The columns of groups: those that the user names, or the first usual one."""
    if named.group:
        return tuple(named.group)
    usual = names.first(free, names.usual_names("group", log.names))
    return () if usual is None else (usual,)


def _wide_roles(
    table: columns.Columns, named: NamedColumns, shared: Roles, free: Sequence[str]
) -> Roles:
    """The roles in a log with a column per model."""
    listed = (*named.right, *named.reward, *named.loss)
    groups = _groups(LogTable(table), named, free)
    rest = [name for name in free if name not in groups]
    measure = shared.measure
    if len(listed) > 1:
        values = {name: name for name in listed}
    elif named.modes and all(mode in table.data for mode in named.modes):
        values = {mode: mode for mode in named.modes}
    else:
        values, measure = _values_by_word(table, rest)
    if not values:
        values = _priced(rest, table)
    if not values:
        values = {n: n for n in rest if _is_right_or_wrong(table.data[n])}
    if len(values) < 2:
        raise InputError(
            f"{table.source}: is read if it has a row per run, with columns of the "
            f"model and of quality ({argument('model')}, {argument('right')}), or a "
            f"column per model that is named by {argument('models')} (or by "
            f"{_measures('or')}) or holds right or wrong; "
            f"found {few(list(table.data), 20)}."
        )
    costs = {}
    for mode in values:
        prices = [f.format(mode) for f in PRICE_FORMS if f.format(mode) in table.data]
        if prices:
            costs[mode] = prices[0]
    return replace(shared, measure=measure, values=values, costs=costs, groups=groups)


def _values_by_word(
    table: columns.Columns, free: Iterable[str]
) -> tuple[dict[str, str], Measure]:
    """Columns such as loss_small or small_correct, by model, and what they hold."""
    available = list(free)
    for word in VALUE_WORDS:
        for joint in JOINTS:
            for before, after in ((word + joint, ""), ("", joint + word)):
                by_model = {
                    name.removeprefix(before).removesuffix(after): name
                    for name in available
                    if name.startswith(before)
                    and name.endswith(after)
                    and len(name) > len(before + after)
                    and _is_quality(table.data[name])
                }
                if len(by_model) > 1:
                    return by_model, "loss" if word == "loss" else "reward"
    return {}, "reward"


def _priced(free: Sequence[str], table: columns.Columns) -> dict[str, str]:
    """Columns beside which another one is their price."""
    return {
        name: name
        for name in free
        if any(form.format(name) in table.data for form in PRICE_FORMS)
        and _is_quality(table.data[name])
    }


def _is_quality(column: np.ndarray) -> bool:
    """Whether a column holds numbers, or right and wrong in words."""
    return column.dtype.kind in "fiub" or _words(column) <= set(keys.RIGHT_OR_WRONG)


def _is_right_or_wrong(column: np.ndarray) -> bool:
    """Whether a column holds right and wrong alone: 0 and 1, true and false, words."""
    if column.dtype.kind in "iub":
        return bool(np.isin(column, (0, 1)).all())
    if column.dtype.kind == "f":
        return bool((np.isnan(column) | np.isin(column, (0, 1))).all())
    numbers = {"0", "1", "0.0", "1.0"}
    return _words(column) <= numbers | set(keys.RIGHT_OR_WRONG)


def _words(column: np.ndarray) -> set[str]:
    return {str(value).strip().lower() for value in column.tolist()}


def _is_empty(column: np.ndarray) -> bool:
    """Whether no row has a value."""
    if column.dtype.kind == "O":
        texts = (str, type(None))
        # A list that lies in a cell comes as an array, which has no truth value.
        return all(isinstance(value, texts) and not value for value in column.tolist())
    if column.dtype.kind == "f":
        return bool(np.isnan(column).all())
    return False


def _explained(table: columns.Columns, roles: Roles) -> Roles:
    """The roles, with the reason why each other column is ignored."""
    ignored = {}
    used = roles.used()
    for name, column in table.data.items():
        if name in used:
            continue
        if _is_empty(column):
            ignored[name] = "it is empty"
        elif name.endswith(names.CHARACTERS):
            ignored[name] = (
                f"the length of a text; {argument('score', PROMPT_LENGTH)} takes it"
            )
        elif name.endswith(names.DIGEST):
            ignored[name] = f"digests of a text; {argument('id', name)} takes them"
        elif column.dtype.kind in "fiub":
            ignored[name] = (
                f"a number; {argument('score')} takes it as a router's score"
            )
        else:
            ignored[name] = f"a text; {argument('group')} takes it as a group"
    return replace(roles, ignored=ignored)
