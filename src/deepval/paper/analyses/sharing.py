"""Cells of several consumers -> what one selection of inputs for all of them costs each
of them: docs/deadlines.md.

With x the probability that an input is escalated, a consumer's gain is the sum of x V
over its all-cheap loss. *own*: the oracle of that consumer alone. *summed*: the best
sum of all consumers' gains. *max-min*: the best smallest share of the own gain, over
all consumers that have any; the linear program is exact, because every x within the
budget is a mixture of selections.

One budget for several consumers of the same frames: what each gains under its own
oracle, the best sum, the best minimum and the scores stored with the cells, and what
sharing costs it.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deepval.arrays import Float, InputFloats
from deepval.cells.folder import BuiltCell
from deepval.checks import share_of_inputs
from deepval.errors import InputError, InputWarning, library
from deepval.judging.draws import make_draws
from deepval.judging.oracle import oracle_weights
from deepval.judging.resamples import ratio
from deepval.judging.tie_expectations import inclusion
from deepval.paper.analyses.consumers import pairs
from deepval.paper.analysis import declare
from deepval.paper.row_columns import (
    CellName,
    Units,
    column,
    declared_table,
    high,
    level,
    loss_table,
    low,
    share,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, few, number
from deepval.tables.keys import positions
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable, quota


@dataclass(frozen=True)
class SharedBudget(CellName):
    """What one consumer gains by one selection, and what that costs it against its own
    oracle.
    """

    alpha: float = column("Share of inputs that may be escalated", "budget", level)
    selection: str = column(
        "own, summed, max-min, or the scores of a cell that choose for all",
        "selected by",
    )
    inputs: int = column("Inputs that all consumers judge")
    gain: float | None = column("Gain over the all-cheap loss", "gain", share)
    gain_lo: float | None = low(heading="95 %", form=share)
    gain_hi: float | None = high()
    of_own: float | None = column(
        "Gain over the gain of its own oracle; None if that is 0", "of own", number
    )
    price: float | None = column(
        "Gain of its own oracle less this gain, over the all-cheap loss", "price", share
    )
    price_lo: float | None = low(heading="95 %", form=share)
    price_hi: float | None = high()


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Sequence[Scores]],
    *,
    alphas: Sequence[float] = (0.2,),
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[SharedBudget]:
    """One row per budget, selection and cell; the cells differ in the consumer
    alone.
    """
    if 2 * len(list(pairs(cells))) != len(cells) * (len(cells) - 1):
        raise InputError(
            "One budget needs cells of the same data set, modes "
            f"and geometry; found {', '.join(cells)}."
        )
    tables = {}
    for name, cell in cells.items():
        table = loss_table(cell, units)
        at = positions(table.input, cell.table.input)
        whole = [
            item
            for item in scores.get(name, ())
            if not item.modes and item.covered[at].all()
        ]
        if len(whole) < len(scores.get(name, ())):
            names = few([item.name for item in scores[name] if item not in whole])
            note = (
                f"{name}: {names} left out: no single score for every input judged; "
                "--units test judges fewer."
            )
            warnings.warn(InputWarning(note), stacklevel=2)
        tables[name] = table, {item.name: item.values[at] for item in whole}
    return table_rows(tables, alphas=alphas, draws=draws, seed=seed, watch=watch)


def table_rows(
    tables: Mapping[str, tuple[ValueTable, Mapping[str, InputFloats]]],
    *,
    alphas: Sequence[float] = (0.2,),
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[SharedBudget]:
    """The same rows from a table of each consumer, with scores that cover it; inputs
    that all tables have count.
    """
    if len(tables) < 2:
        raise InputError(
            f"One budget needs two consumers or more; found {', '.join(tables)}."
        )
    first, records = next(iter(tables.values()))[0], []
    common = first.keep(
        np.all(
            [positions(first.input, of.input) >= 0 for of, _ in tables.values()], axis=0
        )
    )
    at = {name: positions(common.input, of.input) for name, (of, _) in tables.items()}
    consumers = {name: of.losses[at[name], 0] for name, (of, _) in tables.items()}
    units = [of.unit_ids[of.unit[at[name]]] for name, (of, _) in tables.items()]
    if not len(common) or not all(np.array_equal(own, units[0]) for own in units):
        raise InputError(
            "One budget needs the losses of all consumers on the same inputs, each in "
            "the same unit; found "
            f"{len(common):,} inputs in common in {', '.join(tables)}."
        )
    poor = next(
        (name for name, cheap in consumers.items() if not cheap.sum() > 0), None
    )
    if poor is not None:
        raise InputError(
            f"{poor}: the all-cheap loss must be above 0, because gains are shares of "
            "it; it is not."
        )
    scored = {
        (own, name): score[at[name]]
        for name, (_, every) in tables.items()
        for own, score in every.items()
    }
    alike = {
        own
        for own, name in scored
        if all(
            np.array_equal(scored.get((own, of), ()), scored[own, name])
            for of in tables
        )
    }
    scores = {
        own if own in alike else f"{own} ({name})": score
        for (own, name), score in scored.items()
    }
    drawn = make_draws(len(common.unit_ids), draws, seed)
    values = np.stack(
        [of.decision_values[at[name]] for name, (of, _) in tables.items()]
    )
    shares = values / np.array([[cheap.sum()] for cheap in consumers.values()])
    for alpha in watch([share_of_inputs(alpha) for alpha in alphas], "sharing"):
        slots = int(quota(len(common), alpha))
        own = np.stack([oracle_weights(of, slots) for of in values])
        for selection, weights in _selections(shares, own, slots, scores).items():
            for (name, cheap), of, best, chosen in zip(
                consumers.items(), values, own, weights, strict=True
            ):
                parts = [
                    ratio(common, x * of, cheap, draws=drawn)
                    for x in (chosen, best - chosen)
                ]
                spent = {**parts[0].columns("gain"), **parts[1].columns("price")}
                of_own = (
                    float(chosen @ of) / float(best @ of) if best @ of > 0 else None
                )
                records.append(
                    SharedBudget(
                        name, alpha, selection, len(common), of_own=of_own, **spent
                    )
                )
    return records


def _selections(
    values: Float[np.ndarray, "consumer input"],
    own: Float[np.ndarray, "consumer input"],
    slots: int,
    scores: Mapping[str, InputFloats],
) -> dict[str, Float[np.ndarray, "consumer input"]]:
    """The probability that each input is escalated for each consumer, by the name of
    the selection.
    """
    best = np.sum(own * values, axis=1, keepdims=True)
    chosen = {
        "summed": oracle_weights(values.sum(axis=0), slots),
        "max-min": max_min_weights(
            (values / np.where(best > 0, best, 1.0))[best[:, 0] > 0], slots
        ),
        **{name: inclusion(score, slots) for name, score in scores.items()},
    }
    return {"own": own} | {
        name: np.broadcast_to(weights, own.shape) for name, weights in chosen.items()
    }


def max_min_weights(
    values: Float[np.ndarray, "consumer input"], slots: int
) -> InputFloats:
    """The probabilities x, at most `slots` in sum, with the largest smallest consumer's
    sum of x times its values.

    Of several such x, the one with the largest sum over all consumers: it counts with a
    weight of 1e-6.
    """
    helpful = np.flatnonzero((values > 0).any(axis=0))
    weights, number = np.zeros(values.shape[1]), len(helpful)
    if number:
        # The last variable is the smallest sum: maximise it under sums >= it, and x
        # within the slots.
        solved = library(
            "scipy.optimize", purpose="One budget for several consumers"
        ).linprog(
            np.append(-1e-6 * values[:, helpful].sum(axis=0), -1.0),
            A_ub=np.vstack(
                [
                    np.insert(-values[:, helpful], number, 1.0, axis=1),
                    np.append(np.ones(number), 0.0),
                ]
            ),
            b_ub=np.append(np.zeros(len(values)), slots),
            bounds=[*[(0, 1)] * number, (None, None)],
        )
        weights[helpful] = np.clip(solved.x[:-1], 0.0, 1.0)
    return weights


def table(rows: Sequence[SharedBudget]) -> Table:
    """The rows as a table."""
    note = (
        "price: own gain less this gain. Intervals are over units; selections stay as "
        "they are in the sample."
    )
    order = (
        "alpha",
        "selection",
        "cell",
        "gain",
        "gain_lo",
        "of_own",
        "price",
        "price_lo",
    )
    title = "One budget for several consumers"
    return declared_table(
        SharedBudget, rows, title, notes=(note,), order=order, group=order[:2]
    )


def chart(rows: Sequence[SharedBudget]) -> Chart:
    """Price that each consumer pays for sharing."""
    paid = [row for row in rows if row.selection != "own"]
    dots = (
        Dot(
            f"{row.cell}, {row.alpha:.0%}",
            row.selection,
            row.price,
            row.price_lo,
            row.price_hi,
        )
        for row in paid
    )
    return shares(
        "Own gain less gain under a shared selection, over the all-cheap loss",
        dots,
        line=0.0,
    )


SHARING = declare(
    __name__,
    shows="Share one budget among several consumers",
    see="deadlines.md#one-budget-several-consumers",
    paper="not in the paper",
    example=(
        "cells/braking-monocular cells/receding-horizon-monocular --alpha 0.2 --scores"
    ),
    takes={"cells": "cells", "scores": "aligned"},
    by="view",
    least=2,
    judges=True,
)
