"""Losses per input and mode, grouped in units -> decision values, and a summary of the
setting.

The decision value of mode m on an input is V = loss(cheap) - loss(m), in units of the
loss: positive where the mode helps, exactly 0 where it changes nothing, negative where
it harms. Costs are not deducted. "Decision value" without a mode means that of the full
mode. An input is *affected* where V != 0, or |V| > 1e-9 where losses come from geometry
rather than from a few actions. Shares that divide by zero are NaN.
"""

import hashlib
import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import (
    Float,
    Ids,
    InputFlags,
    InputFloats,
    InputInts,
    Int,
    ModeFloats,
    Num,
    Shaped,
    UnitIds,
)
from deepval.basics.display import Printable
from deepval.basics.errors import (
    InputError,
    InputWarning,
    argument,
    few,
    library,
    quote,
)
from deepval.judge.tables import columns, keys
from deepval.judge.tables.columns import ESTIMATED, LOSS_PREFIX, REWARD_PREFIX
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.input_costs import (
    NAMES,
    InputCosts,
    by_name,
    cost_arrays,
    cost_columns,
)
from deepval.judge.tables.keys import groups

TRIAL = re.compile(r"@\d+$")
"""End of the name of a mode in a column of one trial, as `deepval import` writes it."""
LARGEST_LOSS = 1e150
"""Largest absolute loss that is accepted: intervals sum squares, and squares of larger
losses overflow.
"""


@dataclass(frozen=True, eq=False, repr=False)
class ValueTable(Printable):
    """One row per input: its unit, its position in time and its downstream loss under
    every mode.

    Attributes:
        input: Id of each input, all different.
        unit_ids: Ids of the units, sorted as text. Bootstraps and splits move units as
            a whole.
        unit: Position in `unit_ids` of each input's unit.
        modes: Names of the perception modes, cheap first, full last.
        losses: Finite downstream loss of each input under each mode; lower is better.
        order: Position of each input in time within its unit; None where the table has
            no time.
        attributes: Further columns (speed, weather, ...), to evaluate within groups of
            inputs.
        costs: Cost of each mode; None where no costs are available.
        input_costs: Cost of each mode on each input, by convention; where present, it
            replaces `costs` for the modes.
        estimated: Note on how losses were estimated, repeated in every result; None
            where losses were measured.
        tolerance: An input is affected where |V| exceeds it; only counts depend on it,
            never sums.
        is_reward: Whether rewards were given: losses are then negative rewards.
        cheap_always_runs: Whether the cheap output is needed on every input, whatever
            runs besides: then no fixed mode saves the cheap pass.
        nouns: What a reader calls an input and a unit, such as frame and drive.
        id_column: What a reader calls the column of ids, in files of scores too.
    """

    input: Ids
    unit_ids: UnitIds
    unit: InputInts
    modes: tuple[str, ...]
    losses: ModeFloats
    order: InputFloats | None = None
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    costs: Costs | None = None
    input_costs: InputCosts = field(default_factory=dict)
    tolerance: float = 0.0
    estimated: str | None = None
    is_reward: bool = False
    cheap_always_runs: bool = False
    nouns: tuple[str, str] = ("input", "unit")
    id_column: str = "input"

    @classmethod
    def from_columns(
        cls,
        *,
        unit: Any,
        losses: Mapping[str, Any] | Mapping[int, Any] | None = None,
        rewards: Mapping[str, Any] | Mapping[int, Any] | None = None,
        modes: Sequence[str] | None = None,
        input: Any = None,  # noqa: A002  (the benchmark's word for a row)
        order: Any = None,
        attributes: Mapping[str, Any] | None = None,
        costs: Any = None,
        input_costs: Any = None,
        cheap_always_runs: bool = False,
        source: str = "the table",
    ) -> "ValueTable":
        """A table from its columns: losses (lower is better) or rewards (higher is
        better; loss = -reward) by mode.

        The first mode is cheap and the last full. `modes` sets the order and may leave
        modes out. Costs per input are columns by mode in dollars, or by convention and
        mode: {"ms": {"small": ..., ...}}. `cheap_always_runs` states that the cheap
        output is needed on every input.
        """
        attributes = _by_name(attributes, "attributes")
        data = {**attributes, "unit": unit}
        if input is not None:
            data["input"] = input
        if order is not None:
            data["order"] = order
        columns_of_modes = {}
        for mode, column in _by_name(losses, "losses").items():
            columns_of_modes[f"{LOSS_PREFIX}{mode}"] = column
        for mode, column in _by_name(rewards, "rewards").items():
            columns_of_modes[f"{REWARD_PREFIX}{mode}"] = column
        prefix, available = loss_columns(("unit", "input", *columns_of_modes), source)
        priced_modes = {}
        if input_costs is not None:
            for name, by_mode in by_name(input_costs, source).items():
                priced_modes[name] = tuple(map(str, by_mode))
                for mode, column in by_mode.items():
                    data[f"{name}_{mode}"] = column
        table = _table(
            columns.Columns.of(source, data | columns_of_modes),
            prefix,
            chosen_modes(available, modes, source),
            attributes=tuple(map(str, attributes)),
            priced_modes=priced_modes,
            costs=costs,
        )
        needed = checks.flag(cheap_always_runs, "cheap_always_runs")
        return replace(table, cheap_always_runs=needed)

    def __len__(self) -> int:
        return len(self.input)

    def with_modes(self, modes: Sequence[str]) -> "ValueTable":
        """The table with these modes only, in this order: the first is cheap, the last
        full.
        """
        selected = chosen_modes(self.modes, modes, "the table")
        numbers = [self.modes.index(mode) for mode in selected]
        return replace(
            self,
            modes=selected,
            losses=np.asfortranarray(self.losses[:, numbers]),
            input_costs={
                unit: costs[:, numbers] for unit, costs in self.input_costs.items()
            },
        )

    @cached_property
    def mode_values(self) -> ModeFloats:
        """Decision value of every mode, zero for cheap."""
        return self.losses[:, :1] - self.losses

    @cached_property
    def decision_values(self) -> InputFloats:
        """Decision value of the full mode: loss(cheap) - loss(full)."""
        return self.losses[:, 0] - self.losses[:, -1]

    @cached_property
    def time_rank(self) -> InputInts:
        """Rank of each input in time, by its order, then its unit, then its id.

        All ranks differ, so streaming results do not depend on the order of rows.
        """
        assert self.order is not None
        tied = np.flatnonzero(self.repeats_order)
        ids = self.input[tied]
        names = integers(ids)
        if names is None:
            names = keys.as_text(ids)
        by_id = np.zeros(len(self), dtype=np.int64)
        by_id[tied[np.argsort(names)]] = np.arange(len(tied))
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.lexsort((by_id, self.unit, self.order))] = np.arange(len(self))
        return rank

    @cached_property
    def repeats_order(self) -> InputFlags:
        """Whether each input shares its order with another input of its unit; all False
        where the table has no time.
        """
        repeats = np.zeros(len(self), dtype=bool)
        if self.order is not None:
            rows = np.lexsort((self.order, self.unit))
            unit = self.unit[rows]
            order = self.order[rows]
            same = (unit[1:] == unit[:-1]) & (order[1:] == order[:-1])
            repeats[rows[1:][same]] = True
            repeats[rows[:-1][same]] = True
        return repeats

    @cached_property
    def benefits(self) -> InputFloats:
        """Positive part of each input's decision value."""
        return np.maximum(self.decision_values, 0.0)

    @cached_property
    def full_gain(self) -> float:
        """Total decision value of the full mode."""
        return float(self.decision_values.sum())

    @cached_property
    def cheap_loss(self) -> float:
        """All-cheap loss: the total loss when nothing is escalated."""
        return float(self.losses[:, 0].sum())

    @cached_property
    def affected(self) -> int:
        """Number of inputs whose loss the full mode changes."""
        return int(np.count_nonzero(np.abs(self.decision_values) > self.tolerance))

    @cached_property
    def harm_rate(self) -> float:
        """Share of the affected inputs that the full mode makes worse."""
        harmed = np.count_nonzero(self.decision_values < -self.tolerance)
        return part_of(int(harmed), self.affected)

    @cached_property
    def harm_ratio(self) -> float:
        """Total harm over total benefit of the full mode, sum|V-| / sum V+."""
        values = self.decision_values
        harm = np.abs(values[values < 0]).sum()  # no harm is 0, not -0
        return part_of(float(harm), float(self.helpful.sum()))

    @cached_property
    def helpful(self) -> Float[np.ndarray, "helpful"]:
        """Positive decision values, the largest first."""
        return np.sort(most_helpful(self.decision_values))[::-1]

    def summary(self, alpha: float = 0.2) -> "Summary":
        """Effect of escalation over all units, with the oracle at share `alpha`."""
        share = checks.share_of_inputs(alpha)
        slots = int(quota(len(self), share))
        harmed = int(np.count_nonzero(self.decision_values < 0))
        return Summary(
            inputs=len(self),
            units=len(self.unit_ids),
            modes=self.modes,
            cheap_loss=self.cheap_loss,
            affected=self.affected,
            harm_rate=self.harm_rate,
            harm_ratio=self.harm_ratio,
            all_full_share=part_of(self.full_gain, self.cheap_loss),
            alpha=share,
            quota=slots,
            oracle_share=part_of(float(self.helpful[:slots].sum()), self.cheap_loss),
            budget_binds=len(self.helpful) > slots,
            quota_is_capacity=len(self) - harmed >= slots,
        )

    def to_pandas(self) -> Any:
        """The columns of a values file as a pandas DataFrame, where pandas is
        installed.
        """
        pandas = library("pandas", purpose="to_pandas")
        content: dict[str, Any] = {
            "unit": self.unit_ids[self.unit],
            "input": self.input,
        }
        if self.order is not None:
            content["order"] = self.order
        for mode, column in zip(self.modes, self.losses.T, strict=True):
            if self.is_reward:
                content[REWARD_PREFIX + mode] = 0.0 - column
            else:
                content[LOSS_PREFIX + mode] = column
        return pandas.DataFrame(content | dict(self.attributes))

    def keep(self, rows: InputFlags) -> "ValueTable":
        """The chosen inputs, with the full list of units, so that tables share their
        draws of units.
        """
        rows = columns.as_array(rows, "The array of chosen inputs")
        if rows.dtype != bool or rows.shape != (len(self),):
            raise InputError(
                f"Chosen inputs must be an array of {len(self)} times True or False, "
                "one for each input."
            )
        order = None
        if self.order is not None:
            order = self.order[rows]
        return replace(
            self,
            input=self.input[rows],
            unit=self.unit[rows],
            losses=self.losses[rows],
            order=order,
            attributes={name: column[rows] for name, column in self.attributes.items()},
            input_costs={unit: costs[rows] for unit, costs in self.input_costs.items()},
        )

    def restrict(self, units: Any) -> "ValueTable":
        """The inputs of the named units only; every name must be in the table's list of
        units.
        """
        names = named_units(units, self.unit_ids)
        position = keys.positions(self.unit_ids, names)
        part = self.keep(position[self.unit] >= 0)
        if not len(part):
            raise InputError(
                f"Named units must hold inputs; none of {few(names.tolist())} does."
            )
        return replace(part, unit_ids=names, unit=position[part.unit])

    def with_units(self, units: Any) -> "ValueTable":
        """The same inputs with a longer list of units, such as all units of a data set;
        some may have no inputs here.

        Listed units can be named in `restrict`, and bootstraps draw them. So tables of
        one data set share their draws, even where they have different inputs.
        """
        listed = np.unique(np.concatenate([self.unit_ids, unit_names(units)]))
        position = keys.positions(self.unit_ids, listed)
        return replace(self, unit_ids=listed, unit=position[self.unit])

    @property
    def digest(self) -> str:
        """SHA-256 of ids, units, modes and losses, and of times and costs per input if
        present, in the order of rows.

        Attributes are not hashed. Integer ids and text ids of the same spelling have
        the same digest.
        """
        digest = hashlib.sha256("\n".join([*self.modes, *self.unit_ids, ""]).encode())
        ids = integers(self.input)
        if ids is None:
            digest.update("\n".join(self.input).encode())
        else:
            digest.update(np.ascontiguousarray(ids, dtype="<i8").data)
        digest.update(self.unit.astype("<i4").data)
        numbers = list(self.losses.T)
        if self.order is not None:
            numbers.append(self.order)
        for column in numbers:
            digest.update(np.ascontiguousarray(column, dtype="<f8").data)
        for convention, costs in sorted(self.input_costs.items()):
            digest.update(convention.encode())
            digest.update(np.ascontiguousarray(costs, dtype="<f8").data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Summary:
    """One row of the paper's table of signs.

    NaN where a denominator is not positive.
    """

    inputs: int
    units: int
    modes: tuple[str, ...]
    cheap_loss: float
    affected: int
    harm_rate: float
    harm_ratio: float
    all_full_share: float
    alpha: float
    quota: int
    oracle_share: float
    budget_binds: bool
    quota_is_capacity: bool


def quota(
    inputs: int | Num[np.ndarray, "*draw"], alpha: float
) -> Int[np.ndarray, "*draw"]:
    """Number of inputs that a selection budget escalates, k = floor(alpha*N + 0.5)."""
    return np.asarray(np.floor(alpha * np.asarray(inputs) + 0.5), dtype=np.int64)


def capacity(
    inputs: int | Num[np.ndarray, "*draw"], share: float
) -> Int[np.ndarray, "*draw"]:
    """Number of inputs that a measured budget can pay for, k = floor(N*share + 1e-9),
    at least 0.
    """
    return np.asarray(
        np.maximum(np.floor(np.asarray(inputs) * share + 1e-9), 0), dtype=np.int64
    )


def most_helpful(
    values: InputFloats, slots: int | None = None
) -> Float[np.ndarray, "helpful"]:
    """Values that an oracle with `slots` escalations takes: the largest positive ones,
    in no order; all where None.
    """
    positive = values[values > 0]
    if slots is None or slots >= len(positive):
        return positive
    # Partition instead of sort: only the set of the largest values matters.
    spare = len(positive) - slots
    if slots == 0:
        return positive[spare:]
    return np.partition(positive, spare)[spare:]


def read_values(
    source: Any, *, costs: Any = None, modes: Sequence[str] | None = None
) -> ValueTable:
    """A value table from a file or anything columnar.

    Columns are `unit`, `input`, optionally `order`, and `loss_<mode>` or
    `reward_<mode>` for each mode: cheap first and full last, unless `modes` names them
    in another order. `cost_<mode>` of every mode is its cost on each input in dollars;
    `ms_<mode>`, `mj_<mode>` and the other conventions of `costs` work alike.

    Logs and tables of other columns are imported first (`import_router_log`).

    A shadow log (`deepval.ShadowLog`) has a column `propensity` and gaps, which
    estimates fill.
    """
    raw = columns.read(source)
    prefix, available = loss_columns(raw.data, raw.source)
    raw.require("unit", "input", advice=" `deepval import` reads other names.")
    selected = chosen_modes(available, modes, raw.source)
    names = [prefix + mode for mode in selected]
    if "propensity" in raw.data:
        gaps = [np.isnan(raw.numbers(name)).any() for name in names]
        if any(gaps):
            # Few tables come from a log in which not every mode ran.
            from deepval.judge.tables import off_policy

            raw = off_policy.shadow_estimates(raw, names)
    priced_modes = cost_columns(raw.data, available)
    _refuse_misspelt(raw, prefix, available)
    used = {"unit", "input", "order", ESTIMATED}
    for cost_names in priced_modes.values():
        used.update(cost_names.values())
    for name in raw.data:
        if name.startswith((LOSS_PREFIX, REWARD_PREFIX)):
            used.add(name)
    table = _table(
        raw,
        prefix,
        selected,
        attributes=[name for name in raw.data if name not in used],
        priced_modes=priced_modes,
        costs=costs,
    )
    if ESTIMATED in raw.data:
        return replace(table, estimated=str(raw.data[ESTIMATED][0]))
    return table


def _refuse_misspelt(
    raw: columns.Columns, prefix: str, available: Sequence[str]
) -> None:
    """Raise where a mode has a price, and its losses a name that is nearly right.

    Without this a typing error leaves a mode out, and the answer is another one.
    """
    for name in raw.data:
        kind, _, mode = name.partition("_")
        if kind not in NAMES or not mode or mode in available:
            continue
        others = [other for other in raw.data if other != name]
        near = get_close_matches(prefix + mode, others, n=1, cutoff=0.9)
        if near and near[0].removeprefix(prefix) not in available:
            raise InputError(
                f"{raw.source}: column {name!r} is the price of a mode that has no "
                f"column {prefix + mode!r}; found {near[0]!r}: rename one of them."
            )


def _table(
    raw: columns.Columns,
    prefix: str,
    modes: tuple[str, ...],
    *,
    attributes: Sequence[str],
    priced_modes: Mapping[str, Collection[str]],
    costs: Any,
) -> ValueTable:
    """A table from columns.

    Args:
        raw: The columns: `unit`, without which every row is a unit; `input`, without
            which inputs are numbered; `order`, if there is time; and those that the
            other arguments name.
        prefix: Prefix of the columns of losses or rewards.
        modes: The modes, cheap first.
        attributes: Further columns.
        priced_modes: Modes with a cost on each input, by the prefix of their columns.
        costs: Source of the costs of the modes, if any.
    """
    raw.require()
    ids = np.arange(len(raw))
    if "input" in raw.data:
        ids = raw.ids("input")
    unit_ids, unit = groups(raw.ids("unit") if "unit" in raw.data else ids)
    is_reward = prefix == REWARD_PREFIX
    # Column by column in memory: sums and digests go mode by mode.
    losses = np.empty((len(raw), len(modes)), order="F")
    for number, mode in enumerate(modes):
        if is_reward:
            losses[:, number] = 0.0 - raw.rewards(prefix + mode)  # no negative zeros
        else:
            losses[:, number] = raw.numbers(prefix + mode)
    order = None
    if "order" in raw.data:
        order = raw.numbers("order")
    columns.refuse_repeated(ids, raw.source)
    for number, mode in enumerate(modes):
        what = f"{raw.source}: column {prefix + mode!r}"
        refuse_large(losses[:, number], ids, what)
    if order is not None:
        refuse_large(order, ids, f"{raw.source}: column 'order'")
    nouns = nouns_of(raw)
    if "unit" in raw.data:
        warn_of_single_inputs(unit_ids, ids, raw.source, nouns)
    else:
        note = f"{raw.source}: no column 'unit', so every row is its own unit."
        warnings.warn(InputWarning(note), stacklevel=3)
    return ValueTable(
        input=ids,
        unit_ids=unit_ids,
        unit=unit,
        modes=modes,
        losses=losses,
        order=order,
        attributes={name: raw.data[name] for name in attributes},
        costs=None if costs is None else Costs.of(costs),
        input_costs=cost_arrays(raw, priced_modes, modes, ids),
        is_reward=is_reward,
        nouns=nouns,
        id_column=raw.about.get("id", "input"),
    )


def loss_columns(names: Collection[str], source: str) -> tuple[str, tuple[str, ...]]:
    """Prefix of the columns of losses or rewards in a values file, and the modes in the
    order of the columns.
    """
    if "unit" not in names and any(
        name == "score" or name.startswith("score_") for name in names
    ):
        raise InputError(
            f"{source}: losses are needed here (unit, input, loss_<mode>), and this "
            f"looks like scores: it has {', '.join(names)}. Are values and scores "
            "exchanged? Values come first, then scores."
        )
    losses = [name for name in names if name.startswith(LOSS_PREFIX)]
    rewards = [name for name in names if name.startswith(REWARD_PREFIX)]
    if any(TRIAL.search(name) for name in (*losses, *rewards)):
        raise InputError(
            f"{source}: has a column per trial (NAME@1, @2, ...), which no command "
            f"judges: import the log with {argument('repeat', 'first')} or "
            f"{argument('repeat', 'mean')}."
        )
    if losses and rewards:
        raise InputError(
            f"{source}: columns 'loss_<mode>' or 'reward_<mode>' are needed, not "
            f"both; found {', '.join(names)}."
        )
    prefix = REWARD_PREFIX if rewards else LOSS_PREFIX
    modes = tuple(name.removeprefix(prefix) for name in losses or rewards)
    if not all(mode.strip() for mode in modes):
        raise InputError(
            f"{source}: every mode needs a name; found a column {prefix!r}. Write the "
            f"name of the mode after it, as in {prefix}full."
        )
    if len(modes) < 2:
        raise InputError(
            f"{source}: two or more columns 'loss_<mode>' are needed, cheap first; "
            f"found {', '.join(names)}. `deepval import` reads other names."
        )
    return prefix, modes


def _by_name(value: Any, what: str) -> Mapping[Any, Any]:
    """Columns by name from a mapping or from any frame with an Arrow stream; empty
    where None.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "__arrow_c_stream__"):
        return columns.read(value).data
    raise InputError(
        f"{what} must be columns by name, {{'cheap': ..., "
        f"'full': ...}}; found {quote(value)}."
    )


def chosen_modes(
    available: tuple[str, ...], modes: Sequence[str] | None, source: str
) -> tuple[str, ...]:
    """The modes to judge, cheap first: all available ones, or those of `modes` in its
    order.
    """
    selected = available
    if modes is not None:
        selected = checks.texts(modes, f"{source}: modes", numbers=True)
    unknown = set(selected) - set(available)
    if unknown or len(set(selected)) < len(selected):
        raise InputError(
            f"{source}: modes must be different ones of {', '.join(available)}, cheap "
            f"first; found {', '.join(selected)}."
        )
    if len(selected) < 2:
        raise InputError(
            f"{source}: losses of a cheap and a full mode are needed; found "
            f"{len(selected)} mode."
        )
    return selected


def unit_names(units: Any) -> UnitIds:
    """Distinct names of units as sorted text."""
    names = columns.as_array(units, "the list of units")
    if not len(names):  # an empty list has no type to check, so this test comes first
        raise InputError("At least one unit must be named; found an empty list.")
    return np.unique(keys.as_text(columns.id_array(names, "the list of units")))


def named_units(units: Any, available: Shaped[np.ndarray, "available"]) -> UnitIds:
    """Distinct names of units as sorted text; every name must be available."""
    names = unit_names(units)
    unknown = names[keys.positions(names, available) < 0]
    if len(unknown) > 0:
        verb = "is" if len(unknown) == 1 else "are"
        raise InputError(
            f"Named units must be in the table; {few(unknown.tolist())} {verb} not. It "
            f"has {few(available.tolist())}."
        )
    return names


def integers(ids: Ids) -> InputInts | None:
    """Ids as integers; None where an id is not the decimal spelling of an integer."""
    if ids.dtype.kind == "i":
        return ids
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return None
    if np.array_equal(keys.as_text(numbers), ids):
        return numbers
    return None


def is_right_or_wrong(losses: Float[np.ndarray, "..."]) -> bool:
    """Whether every loss is 0 or 1, or every one 0 or -1, as of rewards."""
    # A loss between 0 and 1 may be anything; only 0 and 1 are right and wrong.
    if not ((losses == 0) | (np.abs(losses) == 1)).all():
        return False
    return bool((losses >= 0).all() or (losses <= 0).all())


def part_of(part: float, whole: float) -> float:
    """A share of a whole, NaN where the whole is not positive."""
    return part / whole if whole > 0 else math.nan


def refuse_large(column: InputFloats, ids: Ids, what: str) -> None:
    """Raise where a number of a column is not finite, or so large that sums of squares
    could overflow.
    """
    if column.min() >= -LARGEST_LOSS and column.max() <= LARGEST_LOSS:
        return
    bad = ~(np.abs(column) <= LARGEST_LOSS)
    keys.refuse_rows(bad, column, f"{what} must {need_of(column[bad][0])}", ids)


def need_of(number: float) -> str:
    """What a refused number must be."""
    if math.isfinite(number):
        return f"be at most {LARGEST_LOSS:g} in size"
    return "be finite"


def nouns_of(raw: columns.Columns) -> tuple[str, str]:
    """What a file calls an input and a unit."""
    return (raw.about.get("input", "input"), raw.about.get("unit", "unit"))


def warn_of_single_inputs(
    unit_ids: UnitIds, ids: Ids, source: str, nouns: tuple[str, str]
) -> None:
    """Warn where every input is a unit of its own; an imported log that says so has
    one noun for both.
    """
    one, group = nouns
    if len(unit_ids) == len(ids) > 1 and one != group:
        note = (
            f"{source}: column 'unit' is different in every row, so each {one} is a "
            f"{group} of its own. Should some {one}s be one {group}? A {group} is "
            "resampled as a whole."
        )
        warnings.warn(InputWarning(note), stacklevel=4)
