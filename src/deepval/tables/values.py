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
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from deepval import checks
from deepval.arrays import Bool, Float, Int, Num, Shaped
from deepval.display import Printable
from deepval.errors import InputError, InputWarning, library, quote
from deepval.tables import columns, keys, off_policy
from deepval.tables.columns import ESTIMATED, LOSS_PREFIX, REWARD_PREFIX
from deepval.tables.costs import Costs
from deepval.tables.input_costs import InputCosts, by_name, cost_arrays, cost_columns
from deepval.tables.keys import groups

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
    """

    input: Shaped[np.ndarray, "input"]
    unit_ids: Shaped[np.ndarray, "unit"]
    unit: Int[np.ndarray, "input"]
    modes: tuple[str, ...]
    losses: Float[np.ndarray, "input mode"]
    order: Float[np.ndarray, "input"] | None = None
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    costs: Costs | None = None
    input_costs: InputCosts = field(default_factory=dict)
    tolerance: float = 0.0
    estimated: str | None = None
    is_reward: bool = False
    cheap_always_runs: bool = False
    nouns: tuple[str, str] = ("input", "unit")

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
        losses, rewards = _by_mode(losses, "losses"), _by_mode(rewards, "rewards")
        attributes = _by_mode(attributes, "attributes")
        if bool(losses) == bool(rewards):
            raise InputError(
                f"{source}: losses of the modes are needed, or rewards, not both; "
                f"found {'both' if losses else 'neither'}."
            )
        prefix, by_mode = (
            (LOSS_PREFIX, losses) if losses else (REWARD_PREFIX, rewards or {})
        )
        selected = chosen_modes(tuple(map(str, by_mode)), modes, source)
        costs_by_name = {} if input_costs is None else by_name(input_costs, source)
        optional = {"input": input, "order": order}
        raw = columns.Columns.of(
            source,
            {**(attributes or {}), "unit": unit}
            | {name: column for name, column in optional.items() if column is not None}
            | {
                f"{prefix}{mode}": column
                for mode, column in by_mode.items()
                if str(mode) in selected
            }
            | {
                f"{n}_{mode}": c
                for n, part in costs_by_name.items()
                for mode, c in part.items()
                if str(mode) in selected
            },
        )
        parts = {
            "attributes": tuple(map(str, attributes)),
            "by_prefix": costs_by_name,
            "costs": costs,
        }
        table = _table(
            raw,
            prefix,
            selected,
            has_ids=input is not None,
            has_order=order is not None,
            **parts,
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
        indices = [self.modes.index(mode) for mode in selected]
        parts = {
            "modes": selected,
            "losses": np.asfortranarray(self.losses[:, indices]),
        }
        parts |= {
            "input_costs": {
                unit: costs[:, indices] for unit, costs in self.input_costs.items()
            }
        }
        return replace(self, **parts)

    @cached_property
    def mode_values(self) -> Float[np.ndarray, "input mode"]:
        """Decision value of every mode, zero for cheap."""
        return self.losses[:, :1] - self.losses

    @cached_property
    def decision_values(self) -> Float[np.ndarray, "input"]:
        """Decision value of the full mode: loss(cheap) - loss(full)."""
        return self.losses[:, 0] - self.losses[:, -1]

    @cached_property
    def time_rank(self) -> Int[np.ndarray, "input"]:
        """Rank of each input in time, by its order, then its unit, then its id.

        All ranks differ, so streaming results do not depend on the order of rows.
        """
        assert self.order is not None
        tied = np.flatnonzero(self.repeats_order)
        ids = self.input[tied]
        numbers = integers(ids)
        by_id = np.zeros(len(self), dtype=np.int64)
        by_id[tied[np.argsort(keys.as_text(ids) if numbers is None else numbers)]] = (
            np.arange(len(tied))
        )
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.lexsort((by_id, self.unit, self.order))] = np.arange(len(self))
        return rank

    @cached_property
    def repeats_order(self) -> Bool[np.ndarray, "input"]:
        """Whether each input shares its order with another input of its unit; all False
        where the table has no time.
        """
        repeats = np.zeros(len(self), dtype=bool)
        if self.order is not None:
            rows = np.lexsort((self.order, self.unit))
            unit, order = self.unit[rows], self.order[rows]
            same = (unit[1:] == unit[:-1]) & (order[1:] == order[:-1])
            repeats[rows[1:][same]] = repeats[rows[:-1][same]] = True
        return repeats

    @cached_property
    def benefits(self) -> Float[np.ndarray, "input"]:
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
        return part_of(
            int(np.count_nonzero(self.decision_values < -self.tolerance)), self.affected
        )

    @cached_property
    def harm_ratio(self) -> float:
        """Total harm over total benefit of the full mode, sum|V-| / sum V+."""
        values = self.decision_values
        return part_of(
            float(np.abs(values[values < 0]).sum()), float(self.helpful.sum())
        )

    @cached_property
    def helpful(self) -> Float[np.ndarray, "helpful"]:
        """Positive decision values, the largest first."""
        return np.sort(most_helpful(self.decision_values))[::-1]

    def summary(self, alpha: float = 0.2) -> "Summary":
        """Effect of escalation over all units, with the oracle at share `alpha`."""
        share = checks.share_of_inputs(alpha)
        slots = int(quota(len(self), share))
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
            quota_is_capacity=len(self)
            - int(np.count_nonzero(self.decision_values < 0))
            >= slots,
        )

    def to_pandas(self) -> Any:
        """The columns of a values file as a pandas DataFrame, where pandas is
        installed.
        """
        pandas = library("pandas", purpose="to_pandas")
        prefix = REWARD_PREFIX if self.is_reward else LOSS_PREFIX
        content: dict[str, Any] = {
            "unit": self.unit_ids[self.unit],
            "input": self.input,
        }
        if self.order is not None:
            content["order"] = self.order
        for mode, column in zip(self.modes, self.losses.T, strict=True):
            content[f"{prefix}{mode}"] = 0.0 - column if self.is_reward else column
        return pandas.DataFrame(content | dict(self.attributes))

    def keep(self, rows: Bool[np.ndarray, "input"]) -> "ValueTable":
        """The chosen inputs, with the full list of units, so that tables share their
        draws of units.
        """
        rows = columns.as_array(rows, "The array of chosen inputs")
        if rows.dtype != bool or rows.shape != (len(self),):
            raise InputError(
                f"Chosen inputs must be an array of {len(self)} times True or False, "
                "one for each input."
            )
        return replace(
            self,
            input=self.input[rows],
            unit=self.unit[rows],
            losses=self.losses[rows],
            order=None if self.order is None else self.order[rows],
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
                f"Named units must hold inputs; none of {some(names)} does."
            )
        return replace(part, unit_ids=names, unit=position[part.unit])

    def with_units(self, units: Any) -> "ValueTable":
        """The same inputs with a longer list of units, such as all units of a data set;
        some may have no inputs here.

        Listed units can be named in `restrict`, and bootstraps draw them. So tables of
        one data set share their draws, even where they have different inputs.
        """
        listed = np.unique(np.concatenate([self.unit_ids, unit_names(units)]))
        return replace(
            self, unit_ids=listed, unit=keys.positions(self.unit_ids, listed)[self.unit]
        )

    @property
    def digest(self) -> str:
        """SHA-256 of ids, units, modes and losses, and of times and costs per input if
        present, in the order of rows.

        Attributes are not hashed. Integer ids and text ids of the same spelling have
        the same digest.
        """
        digest = hashlib.sha256("\n".join([*self.modes, *self.unit_ids, ""]).encode())
        ids = integers(self.input)
        digest.update(
            "\n".join(self.input).encode()
            if ids is None
            else np.ascontiguousarray(ids, dtype="<i8").data
        )
        digest.update(self.unit.astype("<i4").data)
        for column in (*self.losses.T, *(() if self.order is None else (self.order,))):
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
    values: Float[np.ndarray, "input"], slots: int | None = None
) -> Float[np.ndarray, "helpful"]:
    """Values that an oracle with `slots` escalations takes: the largest positive ones,
    in no order; all where None.
    """
    positive = values[values > 0]
    # Partition instead of sort: only the set of the largest values matters.
    spare = 0 if slots is None else len(positive) - slots
    return (
        np.partition(positive, spare)[spare:]
        if 0 < spare < len(positive)
        else positive[max(spare, 0) :]
    )


def read_values(
    source: Any, *, costs: Any = None, modes: Sequence[str] | None = None, **form: Any
) -> ValueTable:
    """A value table from a file or anything columnar.

    Columns are `unit`, `input`, optionally `order`, and `loss_<mode>` or
    `reward_<mode>` for each mode: cheap first and full last, unless `modes` names them
    in another order. `cost_<mode>` of every mode is its cost on each input in dollars;
    `ms_<mode>`, `mj_<mode>` and the other conventions of `costs` work alike.

    Other files are read as they come: `columns={"unit": "drive"}` gives the file's
    names of our columns, `sep=";"` and `decimal=","` its signs. `losses=["small",
    "large"]`, or `rewards`, names a column per mode, cheap first; such a table needs
    neither units nor ids: without them, every row is a unit and the rows are numbered.

    A shadow log (`deepval.ShadowLog`) has a column `propensity` and gaps, which
    estimates fill.
    """
    own = columns.Form(**form)
    raw = columns.read(source, own)
    prefix, mode_names = loss_columns(raw.data, raw.source)
    if own.modes:
        mode_names = tuple(own.modes)
    else:
        raw.require(
            "unit",
            "input",
            advice=" --column NAME=COLUMN reads a column of another name.",
        )
    selected = (
        mode_names
        if modes is None and not own.modes
        else chosen_modes(mode_names, modes, raw.source)
    )
    names = [f"{prefix}{mode}" for mode in selected]
    if "propensity" in raw.data and any(
        np.isnan(raw.numbers(name)).any() for name in names
    ):
        raw = off_policy.shadow_estimates(raw, names)
    by_prefix = cost_columns(raw.data, mode_names)
    used = {name for by_mode in by_prefix.values() for name in by_mode.values()} | {
        "unit",
        "input",
        "order",
        ESTIMATED,
    }
    other = [
        n
        for n in raw.data
        if n not in used and not n.startswith((LOSS_PREFIX, REWARD_PREFIX))
    ]
    parts = {"attributes": other, "by_prefix": by_prefix, "costs": costs}
    table = _table(
        raw,
        prefix,
        selected,
        has_ids="input" in raw.data,
        has_order="order" in raw.data,
        **parts,
    )
    return (
        replace(table, estimated=str(raw.data[ESTIMATED][0]))
        if ESTIMATED in raw.data
        else table
    )


def _table(
    raw: columns.Columns,
    prefix: str,
    modes: tuple[str, ...],
    *,
    has_ids: bool,
    has_order: bool,
    attributes: Sequence[str],
    by_prefix: Mapping[str, Mapping[Any, Any]],
    costs: Any,
) -> ValueTable:
    """A table from columns.

    Args:
        raw: The columns: `unit`, without which every row is a unit, and those of the
            other arguments.
        prefix: Prefix of the columns of losses or rewards.
        modes: The modes, cheap first.
        has_ids: Whether the column `input` has the ids; else inputs are numbered.
        has_order: Whether the column `order` has the times.
        attributes: Further columns.
        by_prefix: Modes with a cost on each input, by the prefix of their columns.
        costs: Source of the costs of the modes, if any.
    """
    raw.require()
    ids = raw.ids("input") if has_ids else np.arange(len(raw))
    unit_ids, unit = groups(raw.ids("unit") if "unit" in raw.data else ids)
    numbers = raw.rewards if prefix == REWARD_PREFIX else raw.numbers
    losses = {mode: numbers(f"{prefix}{mode}") for mode in modes}
    order = raw.numbers("order") if has_order else None
    columns.refuse_repeated(ids, raw.source)
    for mode, column in losses.items():
        refuse_large(column, ids, f"{raw.source}: column {prefix + mode!r}")
    if order is not None:
        refuse_large(order, ids, f"{raw.source}: column 'order'")
    if prefix == REWARD_PREFIX:
        # no negative zeros
        losses = {mode: 0.0 - column for mode, column in losses.items()}
    if "unit" in raw.data:
        warn_of_frames(unit_ids, ids, raw.source)
    else:
        note = (
            "no column 'unit', so every row is its own unit; --column unit=COLUMN "
            "names the groups of rows."
        )
        warnings.warn(InputWarning(f"{raw.source}: {note}"), stacklevel=3)
    return ValueTable(
        input=ids,
        unit_ids=unit_ids,
        unit=unit,
        modes=modes,
        # column-major: sums and digests go mode by mode
        losses=np.stack(list(losses.values())).T,
        order=order,
        attributes={name: raw.data[name] for name in attributes},
        costs=None if costs is None else Costs.of(costs),
        input_costs=cost_arrays(raw, by_prefix, modes, ids) if by_prefix else {},
        is_reward=prefix == REWARD_PREFIX,
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
            "exchanged? Values come first, scores after -s."
        )
    modes_of = {
        prefix: tuple(
            name.removeprefix(prefix) for name in names if name.startswith(prefix)
        )
        for prefix in (LOSS_PREFIX, REWARD_PREFIX)
    }
    if all(modes_of.values()):
        raise InputError(
            f"{source}: columns 'loss_<mode>' or 'reward_<mode>' are needed, not "
            f"both; found {', '.join(names)}."
        )
    prefix = REWARD_PREFIX if modes_of[REWARD_PREFIX] else LOSS_PREFIX
    if any(not mode.strip() for mode in modes_of[prefix]):
        raise InputError(
            f"{source}: every mode needs a name; found a column {prefix!r}. Write the "
            f"name of the mode after it, as in {prefix}full."
        )
    if len(modes_of[prefix]) < 2 and (
        not modes_of[prefix] or ("unit" in names and "input" in names)
    ):
        raise InputError(
            f"{source}: two or more columns 'loss_<mode>' are needed, cheap first; "
            f"found {', '.join(names)}. --losses SMALL,LARGE (or --rewards) reads "
            "columns that are named after the modes."
        )
    return prefix, modes_of[prefix]


def _by_mode(value: Any, what: str) -> Mapping[Any, Any]:
    """Columns by name from a mapping or from any frame with an Arrow stream; empty
    where None.
    """
    if value is None or isinstance(value, Mapping):
        return value or {}
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
    named = (
        ()
        if modes is None or isinstance(modes, str)
        else checks.texts(modes, f"{source}: modes", numbers=True)
    )
    selected = available if modes is None else named
    unknown = [mode for mode in selected if mode not in available]
    if unknown or len(set(selected)) < len(selected):
        raise InputError(
            f"{source}: modes must be different ones of {', '.join(available)}, cheap "
            f"first; found {', '.join(selected)}."
        )
    if len(selected) < 2:
        description = repr(modes) if isinstance(modes, str) else f"{len(selected)} mode"
        raise InputError(
            f"{source}: losses of a cheap and a full mode "
            f"are needed; found {description}."
        )
    return selected


def unit_names(units: Any) -> Shaped[np.ndarray, "unit"]:
    """Distinct names of units as sorted text."""
    names = columns.as_array(units, "the list of units")
    if not len(names):  # an empty list has no type to check, so this test comes first
        raise InputError("At least one unit must be named; found an empty list.")
    return np.unique(keys.as_text(columns.id_array(names, "the list of units")))


def named_units(
    units: Any, available: Shaped[np.ndarray, "available"]
) -> Shaped[np.ndarray, "unit"]:
    """Distinct names of units as sorted text; every name must be available."""
    names = unit_names(units)
    unknown = names[keys.positions(names, available) < 0]
    if len(unknown):
        raise InputError(
            f"Named units must be in the table; {', '.join(unknown)} "
            f"{'is' if len(unknown) == 1 else 'are'} not. It has {some(available)}."
        )
    return names


def some(names: Shaped[np.ndarray, "unit"]) -> str:
    """The first ten names of a list, and their number if there are more."""
    return ", ".join(names[:10]) + (
        f", ... ({len(names)} units)" if len(names) > 10 else ""
    )


def integers(ids: Shaped[np.ndarray, "input"]) -> Int[np.ndarray, "input"] | None:
    """Ids as integers; None where an id is not the decimal spelling of an integer."""
    try:
        numbers = ids.astype(np.int64, copy=False)
    except (ValueError, OverflowError):
        return None
    return (
        numbers
        if ids.dtype.kind == "i" or bool(np.all(keys.as_text(numbers) == ids))
        else None
    )


def is_right_or_wrong(losses: Float[np.ndarray, "..."]) -> bool:
    """Whether every loss is 0 or 1, or every one 0 or -1, as of rewards."""
    # A loss between 0 and 1 may be anything; only 0 and 1 are right and wrong.
    if not ((losses == 0) | (np.abs(losses) == 1)).all():
        return False
    return bool((losses >= 0).all() or (losses <= 0).all())


def part_of(part: float, whole: float) -> float:
    """A share of a whole, NaN where the whole is not positive."""
    return part / whole if whole > 0 else math.nan


def refuse_large(
    column: Float[np.ndarray, "input"], ids: Shaped[np.ndarray, "input"], what: str
) -> None:
    """Raise where a number of a column is not finite, or so large that sums of squares
    could overflow.
    """
    if column.min() >= -LARGEST_LOSS and column.max() <= LARGEST_LOSS:
        return
    bad = np.flatnonzero(~(np.abs(column) <= LARGEST_LOSS))
    value = column[bad[0]]
    need = f"be at most {LARGEST_LOSS:g} in size" if np.isfinite(value) else "be finite"
    raise InputError(
        f"{what} must {need}; {columns.row_name(int(bad[0]), ids)} holds {value}"
        f"{f', and {len(bad) - 1} more are not' if len(bad) > 1 else ''}."
    )


def warn_of_frames(
    unit_ids: Shaped[np.ndarray, "unit"], ids: Shaped[np.ndarray, "input"], source: str
) -> None:
    """Warn where every input is a unit of its own."""
    if len(unit_ids) == len(ids) > 1:
        warnings.warn(
            InputWarning(
                f"{source}: column 'unit' is different in every row; are these "
                "frames? Units are scenes, sequences or logs: what "
                "is resampled as a whole."
            ),
            stacklevel=4,
        )
