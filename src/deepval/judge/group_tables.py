"""A column -> a table with a mode for each group: the best one at every spend.

What is known of an input before any mode runs is often its task, tenant or route. A
table by groups runs one mode in each of them. With all inputs in one group it is the
best choice that does not look at the inputs at all.

Chosen and judged on the same rows, a table looks better than it is. So it is judged
*out of fold*: the inputs of a fold get the table of the other folds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, ModeFloats, PerResample
from deepval.basics.errors import InputError, argument, suggestion
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import Bootstrap, Gains
from deepval.judge.ladders import references_among
from deepval.judge.mode_charges import Charged
from deepval.judge.mode_plans import Steps, steps
from deepval.judge.policies import Outcome, Policy, References
from deepval.judge.results import TABLE_BY
from deepval.judge.tables.values import ValueTable

FOLDS = 10
SMALL = 20
"""Inputs below which a group has no entry of its own: it gets the one of all others."""

ALL = "all"
"""The group of a table without groups."""
SMALLEST_SHARE = 1e-9
"""Parts of a group below this are rounding errors."""

NamedShares = dict[str, float]
"""The share of some inputs that each mode gets, by its name."""
SpendTables = Float[np.ndarray, "spend row mode"]
"""For every spend, the share of the inputs of each row that each mode gets."""
SpendInputs = Float[np.ndarray, "spend input"]
SpendUnits = Float[np.ndarray, "spend unit"]


def label_of(value: object) -> str:
    """The value of a column as text; a missing one has a label of its own."""
    is_missing = value is None or value != value
    return "(none)" if is_missing else str(value)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a table's inputs.

    Attributes:
        column: The column; None where all inputs are one group.
        labels: The groups, in the order of their text.
        of: The group of each input.
    """

    column: str | None
    labels: tuple[str, ...]
    of: Int[np.ndarray, "input"]

    @classmethod
    def by(cls, table: ValueTable, column: str | None) -> "Groups":
        """The groups by the values of a column, or one group of all inputs."""
        if column is None:
            return cls(None, ("",), np.zeros(len(table), dtype=np.int64))
        if column == "unit":
            values = table.unit_ids[table.unit]
        elif column in table.attributes:
            values = np.asarray(table.attributes[column])
        else:
            names = ("unit", *table.attributes)
            raise InputError(
                f"{argument('table_by')} needs a column of the table; found "
                f"{column!r}, the table has {', '.join(names)}"
                f"{suggestion(column, names)}"
            )
        texts = np.array([label_of(value) for value in values])
        labels, group = np.unique(texts, return_inverse=True)
        return cls(column, tuple(labels.tolist()), group.astype(np.int64))

    def folds(self, table: ValueTable) -> Int[np.ndarray, "input"]:
        """The fold of each input: units stay whole, and groups are in every fold.

        Units are dealt out group by group. A group that is one single unit is in no
        other fold as a whole, so its inputs are dealt out instead: the judgement is
        then about further inputs of the same group.
        """
        units = len(table.unit_ids)
        # The first group of a unit that lies in several has no meaning, but any order
        # of units would do: it only spreads them evenly.
        group_of_unit = np.full(units, len(self.labels))
        np.minimum.at(group_of_unit, table.unit, self.of)
        dealt = np.lexsort((np.arange(units), group_of_unit))
        fold_of_unit = np.empty(units, dtype=np.int64)
        fold_of_unit[dealt] = np.arange(units) % FOLDS
        fold = fold_of_unit[table.unit]
        if len(self.labels) == 1:
            return fold
        for group in range(len(self.labels)):
            rows = np.flatnonzero(self.of == group)
            unit = table.unit[rows[0]]
            is_one_unit = bool((table.unit[rows] == unit).all())
            if is_one_unit and bool((self.of[table.unit == unit] == group).all()):
                ids = table.input[rows].astype(str)
                fold[rows[np.argsort(ids, kind="stable")]] = (
                    np.arange(len(rows)) % FOLDS
                )
        return fold


@dataclass(frozen=True, eq=False)
class Tables:
    """The best table at every spend, fitted on some inputs.

    Attributes:
        row: The row of each group; the last row is that of small and unknown groups.
        shares: The tables.
    """

    row: Int[np.ndarray, "group"]
    shares: SpendTables

    @classmethod
    def fit(
        cls,
        group: Int[np.ndarray, "input"],
        groups: int,
        value: ModeFloats,
        cost: ModeFloats,
        spends: Float[np.ndarray, "spend"],
        *,
        rest: int | None = None,
    ) -> "Tables":
        """The tables of greatest value that cost no more per input than each spend.

        Where money is left for a part of the next step, a random part of a group takes
        it. A spend below the cheapest modes buys these. Money that no table is worth is
        left, or spent on the mode `rest` for a random part of all inputs.

        Half of the way from 1 to 3 is paid for by running the dear mode on half:

        >>> group, spends = np.zeros(20, dtype=int), np.array([2.0])
        >>> value, cost = np.tile([0.0, 4.0], (20, 1)), np.tile([1.0, 3.0], (20, 1))
        >>> Tables.fit(group, 1, value, cost, spends).shares[0, 0].tolist()
        [0.5, 0.5]
        """
        number = np.bincount(group, minlength=groups)
        is_small = number < SMALL
        row = np.where(is_small, groups, np.arange(groups))
        row_value = _row_sums(row[group], groups + 1, value)
        row_cost = _row_sums(row[group], groups + 1, cost)
        # Small groups are taken to be like all inputs together.
        few = int(number[is_small].sum())
        row_value[-1] = few * value.mean(axis=0)
        row_cost[-1] = few * cost.mean(axis=0)
        purse = spends * len(value)
        shares = _best_shares(row_value, row_cost, purse)
        if not few:
            # Unknown groups get what is best for all inputs if none is told apart.
            all_values = value.sum(axis=0, keepdims=True)
            all_costs = cost.sum(axis=0, keepdims=True)
            shares[:, -1:] = _best_shares(all_values, all_costs, purse)
        if rest is None:
            return cls(row, shares)
        cost_of_tables = (shares * row_cost).sum(axis=(1, 2))
        rise = row_cost[:, rest].sum() - cost_of_tables
        part = (purse - cost_of_tables) / np.where(rise > 0, rise, np.inf)
        part = np.clip(part, 0.0, 1.0)[:, None, None]
        everywhere = np.arange(value.shape[1]) == rest
        return cls(row, (1 - part) * shares + part * everywhere)

    def named(
        self, at: int, groups: Groups, modes: Sequence[str]
    ) -> tuple[dict[str, NamedShares], NamedShares]:
        """One of the tables in names: the shares of each group, and of unknown ones."""
        shares = self.shares[at]
        by_group = {}
        for label, row in zip(groups.labels, self.row, strict=True):
            by_group[label or ALL] = _named(modes, shares[row])
        return by_group, _named(modes, shares[-1])

    def of_inputs(
        self, group: Int[np.ndarray, "input"], amount: ModeFloats
    ) -> SpendInputs:
        """An amount of each input under each table, in expectation."""
        shares = self.shares[:, self.row[group]]
        return np.einsum("sim,im->si", shares, amount)


def _named(modes: Sequence[str], shares: Float[np.ndarray, "mode"]) -> NamedShares:
    """The modes that a row of a table runs, with their shares of its inputs."""
    named = {}
    for mode, share in zip(modes, shares.tolist(), strict=True):
        if share > 1 - SMALLEST_SHARE:
            return {mode: 1.0}
        if share > SMALLEST_SHARE:
            named[mode] = share
    return named


def _best_shares(
    value: ModeFloats, cost: ModeFloats, purse: Float[np.ndarray, "spend"]
) -> SpendTables:
    """The share of each row that each mode gets, by what every purse buys."""
    rows = np.arange(len(value))
    hull = steps(value, cost)
    order, taken = bought(hull, cost, purse)
    shares = np.zeros((len(purse), *value.shape))
    shares[:, rows, hull.start] = 1.0
    for step, share in zip(order, taken.T, strict=True):
        shares[:, hull.input[step], hull.source[step]] -= share
        shares[:, hull.input[step], hull.target[step]] += share
    return shares


def _row_sums(
    row: Int[np.ndarray, "input"], rows: int, amount: ModeFloats
) -> Float[np.ndarray, "row mode"]:
    columns = [np.bincount(row, weights=part, minlength=rows) for part in amount.T]
    return np.stack(columns, axis=1)


def bought(
    hull: Steps, cost: ModeFloats, purse: Float[np.ndarray, "spend"]
) -> tuple[Int[np.ndarray, "step"], Float[np.ndarray, "spend step"]]:
    """The steps in the order of their slope, and the part of each that a purse buys.

    Each row climbs the concave hull of its values over its costs, so that all steps in
    the order of value per cost are the optimum of the relaxed problem: Sinha and
    Zoltners, "The multiple-choice knapsack problem", Operations Research 27 (1979).
    """
    # Stable: steps of one row keep their order where their slopes are equal.
    order = np.argsort(-hull.slope, kind="stable")
    price = hull.cost[order]
    before = np.cumsum(price) - price
    start = cost[np.arange(len(cost)), hull.start].sum()
    left = purse[:, None] - start - before
    return order, np.clip(left / price, 0.0, 1.0)


def table_name(column: str) -> str:
    """The name of the table by a column: `table by task`."""
    return TABLE_BY + column


@dataclass(frozen=True, eq=False)
class GroupTable(Policy):
    """The mode of each group that gains most within a budget, chosen out of fold.

    Attributes:
        groups: The groups.
        table: The inputs whose losses choose the modes.
        references: As in `Policy`.
    """

    groups: Groups
    table: ValueTable
    references: References
    is_reference: ClassVar[bool] = False
    is_by_groups: ClassVar[bool] = True

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`table by task`."""
        return table_name(self.groups.column or "")

    @classmethod
    def of(cls, table: ValueTable, column: str) -> "GroupTable":
        """The table by a column."""
        return cls(Groups.by(table, column), table, references_among(table.modes))

    def outcomes(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[Outcome]:
        """The gains of the tables of other folds, which draws do not choose anew."""
        return [self._outcome(bootstrap, allowance) for allowance in allowances]

    def _outcome(self, bootstrap: Bootstrap, allowance: Allowance) -> Outcome:
        chance = self.chances(allowance)
        value = bootstrap.table.mode_values
        gains = Gains(
            gain=bootstrap.totals((chance * value).sum(axis=1)),
            benefit=bootstrap.totals((chance * np.maximum(value, 0.0)).sum(axis=1)),
            escalated=bootstrap.totals(chance[:, 1:].sum(axis=1)),
        )
        return Outcome(gains, own_cost=0.0 if allowance.is_measured else None)

    def spends(
        self, bootstrap: Bootstrap, allowances: Sequence[Allowance]
    ) -> list[PerResample]:
        """What it spends beyond the cheap mode in every resample, under budgets of one
        kind.
        """
        # It chooses before anything runs, and does not pay for a cheap pass.
        price = Charged.of(self.table, allowances[0]).blind
        price = price - price[:, :1]
        chances = [self.chances(allowance) for allowance in allowances]
        return [bootstrap.totals((one * price).sum(axis=1)) for one in chances]

    def chances(self, allowance: Allowance) -> ModeFloats:
        """The probability that each input gets each mode."""
        charged = Charged.of(self.table, allowance)
        spend = np.array([charged.allowed(allowance)])
        fold = self.groups.folds(self.table)
        chances = np.empty(self.table.losses.shape)
        for inside, tables in fold_tables(
            self.groups, fold, self.table.mode_values, charged.blind, spend
        ):
            chances[inside] = tables.shares[0, tables.row[self.groups.of[inside]]]
        return chances

    def best(self, allowance: Allowance) -> tuple[dict[str, NamedShares], NamedShares]:
        """The table that all inputs choose: what each group gets, and unknown ones."""
        charged = Charged.of(self.table, allowance)
        tables = Tables.fit(
            self.groups.of,
            len(self.groups.labels),
            self.table.mode_values,
            charged.blind,
            np.array([charged.allowed(allowance)]),
        )
        return tables.named(0, self.groups, self.table.modes)


def fold_tables(
    groups: Groups,
    fold: Int[np.ndarray, "input"],
    value: ModeFloats,
    cost: ModeFloats,
    spends: Float[np.ndarray, "spend"],
    rest: int | None = None,
) -> Iterator[tuple[Bool[np.ndarray, "input"], Tables]]:
    """The inputs of each fold, and the tables that are fitted on all others."""
    for number in np.unique(fold):
        inside = fold == number
        other = ~inside
        # A single input has no others.
        if not other.any():
            other = inside
        yield (
            inside,
            Tables.fit(
                groups.of[other],
                len(groups.labels),
                value[other],
                cost[other],
                spends,
                rest=rest,
            ),
        )


def out_of_fold(
    groups: Groups,
    fold: Int[np.ndarray, "input"],
    value: ModeFloats,
    cost: ModeFloats,
    spends: Float[np.ndarray, "spend"],
    rest: int,
) -> tuple[SpendInputs, SpendInputs]:
    """Value and cost of each input under the tables of the other folds."""
    values = np.empty((len(spends), len(value)))
    costs = np.empty_like(values)
    for inside, tables in fold_tables(groups, fold, value, cost, spends, rest):
        values[:, inside] = tables.of_inputs(groups.of[inside], value[inside])
        costs[:, inside] = tables.of_inputs(groups.of[inside], cost[inside])
    return values, costs


def unit_sums(table: ValueTable, amounts: SpendInputs) -> SpendUnits:
    """Sums over the inputs of every unit."""
    units = len(table.unit_ids)
    sums = [np.bincount(table.unit, weights=row, minlength=units) for row in amounts]
    return np.stack(sums)
