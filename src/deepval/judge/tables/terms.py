"""Loss terms per input and mode, and their weights -> losses under other weights,
without choosing actions again.

A terms file has columns `input`, `term_<name>_<mode>` for every term and mode, and for
every term its weight, the same number in each row: `weight_<name>` where the weight
affects the loss only, `fixed_weight_<name>` where it also affects actions, so that
another weight needs another cell. Loss = sum of weight x term, in the order of the
weights.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import InputFloats, InputInts, ModeFloats
from deepval.basics.errors import InputError
from deepval.judge.results import Inputs
from deepval.judge.tables import columns, keys
from deepval.judge.tables.values import ValueTable, refuse_large

TERM, WEIGHT, FIXED = "term_", "weight_", "fixed_weight_"
AGREE = 1e-9
"""Terms belong to a table if their weighted sum is its loss to this relative
accuracy.
"""


@dataclass(frozen=True, eq=False)
class Terms:
    """Loss terms aligned with a table.

    Attributes:
        parts: Every term by name, before weighting.
        weights: Weight of every term.
        free: Terms whose weight changes no action.
    """

    parts: Mapping[str, ModeFloats]
    weights: Mapping[str, float]
    free: tuple[str, ...]

    @property
    def losses(self) -> ModeFloats:
        """Weighted sum of the terms."""
        return weighted_loss(self.parts, self.weights)

    def reweight(self, weights: Mapping[str, float]) -> "Terms":
        """The terms under other weights; unnamed weights stay."""
        for name, weight in weights.items():
            if name not in self.weights:
                raise InputError(
                    "A weight must "
                    f"be of one of {', '.join(self.weights)}; found {name!r}."
                )
            if name not in self.free:
                raise InputError(
                    f"The weight of {name!r} also shapes actions: build the cell "
                    "again with it."
                )
            if not math.isfinite(weight):
                raise InputError(
                    f"A weight must be finite; that of {name!r} is {weight}."
                )
        return replace(
            self,
            weights={
                name: float(weights.get(name, old))
                for name, old in self.weights.items()
            },
        )


def weighted_loss(
    terms: Mapping[str, np.ndarray], weights: Mapping[str, float]
) -> np.ndarray:
    """Sum of weight x term, in the order of `weights`."""
    if set(terms) != set(weights):
        raise InputError(
            "loss terms and weights must have the "
            f"same names; found {list(terms)} and {list(weights)}."
        )
    names = list(weights)
    total = weights[names[0]] * terms[names[0]]
    for name in names[1:]:
        total = total + weights[name] * terms[name]
    return total


def weight_columns(
    weights: Mapping[str, float], free: Iterable[str], inputs: int
) -> dict[str, np.ndarray]:
    """The columns of weights in a terms file."""
    loose = set(free)
    return {
        f"{WEIGHT if name in loose else FIXED}{name}": np.full(inputs, weight)
        for name, weight in weights.items()
    }


def align(table: ValueTable, source: Any) -> Terms:
    """Terms from anything columnar, aligned by id; their weighted sum must be the
    table's losses.
    """
    raw = columns.read(source)
    raw.require("input")
    ids = raw.ids("input")
    columns.refuse_repeated(ids, raw.source)
    rows = keys.positions(table.input, ids)
    if (rows < 0).any():
        missing = str(table.input[np.flatnonzero(rows < 0)[0]])
        raise InputError(
            f"{raw.source}: every input of the table needs "
            f"loss terms; input {missing!r} has none."
        )
    column_of = {
        c.removeprefix(FIXED).removeprefix(WEIGHT): c
        for c in raw.data
        if c.startswith((FIXED, WEIGHT))
    }
    if not column_of:
        raise InputError(
            f"{raw.source}: a column 'weight_<term>' is needed "
            f"for every term; found {', '.join(raw.data)}."
        )
    parts = {name: _part(raw, name, table, rows) for name in column_of}
    weights = {name: _weight(raw, column) for name, column in column_of.items()}
    terms = Terms(
        parts,
        weights,
        tuple(name for name, column in column_of.items() if column.startswith(WEIGHT)),
    )
    scale = np.abs(table.losses).max(initial=0.0)
    off = np.abs(terms.losses - table.losses).max(axis=1) > AGREE * max(scale, 1e-300)
    if off.any():
        where = str(table.input[np.flatnonzero(off)[0]])
        raise InputError(
            f"{raw.source}: weighted terms must add up to the losses of the table; "
            f"those of input {where!r} do not: take the terms of the same cell."
        )
    return terms


class Composition(NamedTuple):
    """Benefit and harm of the last mode by loss term: weighted, summed over helped and
    harmed inputs.
    """

    benefit: dict[str, float]
    harm: dict[str, float]


def composition(values: InputFloats, terms: Terms) -> Composition:
    """Benefit and harm by loss term; they sum to the totals of the positive and the
    negative values.
    """
    benefit, harm = {}, {}
    for name, weight in terms.weights.items():
        gain = weight * (terms.parts[name][:, 0] - terms.parts[name][:, -1])
        benefit[name] = float(gain[values > 0].sum())
        harm[name] = float(-gain[values < 0].sum())
    return Composition(benefit, harm)


def with_losses(table: ValueTable, terms: Terms) -> ValueTable:
    """The table with the weighted sums of the terms as losses."""
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is refused below
        losses = np.asfortranarray(terms.losses)
    for mode, column in zip(table.modes, losses.T, strict=True):
        refuse_large(
            column, table.input, f"Under these weights the loss of mode {mode!r}"
        )
    return replace(table, losses=losses)


def inputs_of(
    table: ValueTable,
    terms: Terms,
    rows: InputInts,
    *,
    scores: Mapping[str, np.ndarray],
) -> Inputs:
    """Losses, terms, weights and ranks of every input, in columns; `rows` are the rows
    of the inputs in the terms.
    """
    return Inputs(
        input=tuple(map(str, table.input)),
        unit=tuple(map(int, table.unit)),
        units=tuple(map(str, table.unit_ids)),
        losses={
            mode: _as_tuple(table.losses[:, m]) for m, mode in enumerate(table.modes)
        },
        terms={
            name: {mode: _as_tuple(part[rows, m]) for m, mode in enumerate(table.modes)}
            for name, part in terms.parts.items()
        },
        weights=dict(terms.weights),
        free=terms.free,
        ranks={
            name: tuple(map(int, _dense_rank(score))) for name, score in scores.items()
        },
    )


def _as_tuple(column: InputFloats) -> tuple[float, ...]:
    return tuple(column.tolist())


def _dense_rank(score: InputFloats) -> InputInts:
    """1 for the highest score; equal scores share a rank, and the next is one more."""
    levels, rank = np.unique(-(score + 0.0), return_inverse=True)
    return rank.reshape(len(score)) + (1 if len(levels) else 0)


def _weight(raw: columns.Columns, column: str) -> float:
    values = raw.numbers(column)
    if not (np.isfinite(values).all() and (values == values[0]).all()):
        raise InputError(
            f"{raw.source}: column {column!r} must hold the "
            "same finite number in every row."
        )
    return float(values[0])


def _part(
    raw: columns.Columns, name: str, table: ValueTable, rows: InputInts
) -> ModeFloats:
    names = [f"{TERM}{name}_{mode}" for mode in table.modes]
    raw.require(*names)
    part = np.column_stack([raw.numbers(column) for column in names])[rows]
    bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
    if len(bad):
        raise InputError(
            f"{raw.source}: term {name!r} must be "
            f"finite; that of input {str(table.input[bad[0]])!r} is not."
        )
    return part
