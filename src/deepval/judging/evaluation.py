"""evaluate(): a table of losses, scores and budgets -> a Result.

One pass per score computes its expected sums over the highest scores in the sample, in
every draw of units and with every unit left out, under all budgets at once. All other
figures follow from those sums.

Groups of inputs (`by`) are judged separately: text and columns of few distinct numbers
by value, other numbers by edges (`speed:0,5,10`) or by quartiles of the judged inputs.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from deepval import checks
from deepval.arrays import Bool, Float
from deepval.errors import InputError, InputWarning, quote
from deepval.judging import audits, deployment, mode_samples
from deepval.judging.allowances import (
    Allowance,
    Budget,
    MissingCosts,
    allowance_on,
    budget_list,
    charging,
    cost_figures,
)
from deepval.judging.audits import gaps
from deepval.judging.comparison import Fresh, samples_of
from deepval.judging.draws import make_draws
from deepval.judging.guarantees import with_guarantees
from deepval.judging.notes import notes_in_memory
from deepval.judging.out_of_core import evaluate_on_disk, refuse
from deepval.judging.resamples import Resamples
from deepval.judging.rows import judge, with_simultaneous, with_words
from deepval.judging.stream_rows import Cap, Streamed, streams, times
from deepval.progress import Watch, unwatched
from deepval.results import (
    Curve,
    DrawsUsed,
    Inputs,
    Provenance,
    Result,
    Row,
    ScoresUsed,
)
from deepval.tables import terms as loss_terms
from deepval.tables.chunks import OnDisk, on_disk
from deepval.tables.keys import positions
from deepval.tables.scores import CALIBRATE, Missing, Scores, align_all, on_part
from deepval.tables.values import ValueTable, read_values
from deepval.version import __version__

MOST_POINTS = 10_000
"""Upper limit of `curve_points`."""


def evaluate(
    table: ValueTable | Any,
    scores: Mapping[str, Any],
    budgets: Budget | float | Iterable[Budget | float] | None = None,
    *,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    modes: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    calibration: Sequence[str] | int | None = None,
    by: str | Sequence[str] = (),
    missing: Missing = "error",
    missing_costs: MissingCosts = "error",
    simultaneous_intervals: bool = False,
    curve_points: int = 0,
    thresholds: bool = True,
    terms: Any = None,
    weights: Mapping[str, float] | None = None,
    memory: int | str | None = None,
    watch: Watch = unwatched,
) -> Result:
    """Judge allocators on a table of losses under budgets.

    Args:
        table: A `ValueTable`, or anything `read_values` reads.
        scores: Per allocator, an array in the table's order or columns `input` and
            `score` (aligned by id).
        budgets: One or several: a share of the inputs (0.2), `Selection`, `Latency`,
            `Energy` or `Money`. None means selection budgets of 10, 20, 30 and 50 %.
        draws: Number of bootstrap draws of units, or "exact" to enumerate them all; 0
            for no intervals.
        seed: Seed of the draws.
        modes: Modes to judge, cheap first and full last; None for all, in the order of
            the table.
        units: Units to judge on; None for all but the calibration units.
        calibration: Units on which streaming policies are calibrated; they are not
            judged. Or a number of folds: the policies of each fold of the judged units
            are calibrated on the others.
        by: Columns of the table that divide the inputs into groups, which are also
            judged, with the same draws.
        missing: Whether an input without a score is an error or ranked last ("worst").
        missing_costs: Whether an allocator without a cost is an error under a measured
            budget, or gets rows without a verdict that give the reason ("list").
        simultaneous_intervals: Whether to add intervals that hold for all rows of the
            table at once.
        curve_points: Number of shares at which to compute the gain curve of every
            allocator.
        thresholds: Whether to compute the score from which each allocator escalates,
            and its expected rate.
        terms: Loss terms of every input (a terms file, or columns as in one): the
            result then contains the terms of every loss.
        weights: New weights of some terms: the losses are computed again from the
            terms.
        memory: Memory limit, such as "1.5GB". Parquet files that need more are read
            piece by piece, with the same rows. None allows most of the available
            memory; 0 reads every Parquet file piece by piece.
        watch: Reports the progress of long loops.
    """
    columns = checks.texts(by, "by")
    checks.word(missing_costs, get_args(MissingCosts), "missing_costs")
    points = checks.whole(curve_points, "curve_points", most=MOST_POINTS)
    every = checks.flag(simultaneous_intervals, "simultaneous_intervals")
    with_thresholds = checks.flag(thresholds, "thresholds")
    files = table if isinstance(table, OnDisk) else on_disk(table, scores, memory)
    if files is not None:
        asked = {
            "by (--by)": columns,
            "calibration (--calibrate)": calibration,
            "curve_points (--curve)": points,
        }
        refuse(
            files,
            asked
            | {"terms (--terms)": terms is not None, "weights (--weight)": weights},
        )
        return evaluate_on_disk(
            files,
            scores,
            budgets,
            draws=draws,
            seed=seed,
            modes=modes,
            units=units,
            missing=missing,
            missing_costs=missing_costs,
            simultaneous_intervals=every,
            thresholds=with_thresholds,
            watch=watch,
        )
    whole = table if isinstance(table, ValueTable) else read_values(table, modes=modes)
    whole = whole if modes is None else whole.with_modes(modes)
    whole, parts = (
        (whole, None)
        if terms is None and weights is None
        else _reweigh(whole, terms, weights)
    )
    judged_on, calibrated_on = (
        (whole, None)
        if units is calibration is None
        else _split(whole, units, calibration)
    )
    aligned = align_all(whole, scores)
    judged_scores = [on_part(judged_on, item, whole, missing) for item in aligned]
    allowances = [allowance_on(b, judged_on) for b in budget_list(budgets)]
    allowances = charging(aligned, allowances, missing_costs)
    resamples = Resamples.of(
        judged_on, make_draws(len(judged_on.unit_ids), draws, seed), watch=watch
    )
    own_budgets = [*mode_samples.own_budgets(judged_on, judged_scores, allowances)]
    judged = judge(resamples, judged_scores, [*allowances, *own_budgets])
    judged = with_words(judged, resamples, judged_scores, allowances)
    estimated = judged_on.estimated is not None
    judged = with_guarantees(
        judged, resamples, judged_scores, allowances, estimated=estimated
    )
    sliced = [
        row
        for column in columns
        for row in _slices(resamples, judged_scores, allowances, column)
    ]
    # A choice is judged above, at its own spend. Everything below is about rankings and
    # prices.
    aligned, ranked = (
        [item for item in items if not item.choice]
        for items in (aligned, judged_scores)
    )
    caps: dict[tuple[str, int], Cap] = {}
    streamed: list[Streamed] = []
    calibration_set = None
    if calibrated_on is not None:
        calibration_set = (
            calibrated_on,
            [
                on_part(calibrated_on, item, whole, missing, role=CALIBRATE)
                for item in aligned
            ],
        )
        streamed, caps = streams(
            resamples, ranked, allowances, calibrated_on=calibration_set
        )
    elif isinstance(calibration, int):
        streamed, caps = streams(
            resamples, ranked, allowances, calibrated_on=calibration
        )
    if every:
        judged = with_simultaneous(judged, resamples)
    notes = [
        *_idle_choices(judged_scores, own_budgets),
        *([] if whole.estimated is None else [whole.estimated]),
        *audits.table_notes(
            resamples.unit_ids,
            whole.modes,
            whole.costs,
            allowances,
            affected=judged_on.affected,
            cheap_loss=judged_on.cheap_loss,
            gain=whole.full_gain,
            harm_ratio=whole.harm_ratio,
        ),
        *notes_in_memory(
            judged_on,
            ranked,
            allowances,
            per_unit=resamples.per_unit,
            streamed=() if calibrated_on is None else (calibrated_on, judged_on),
        ),
    ]
    for note in notes:
        warnings.warn(InputWarning(note), stacklevel=2)
    rows = tuple(item.row for item in judged)
    compared = [
        row
        for row in (*rows, *sliced)
        if row.verdict in ("better", "worse", "unresolved")
    ]
    return Result(
        provenance=_provenance(
            resamples, judged_scores, allowances, calibrated_on, units
        ),
        setting=audits.setting(judged_on),
        comparisons=len(compared),
        half_widths=audits.half_widths(rows, [*allowances, *own_budgets]),
        rows=rows,
        slices=tuple(sliced),
        gaps=gaps(resamples, ranked, allowances, judged=judged, caps=caps),
        streams=tuple(item.row for item in streamed),
        thresholds=deployment.thresholds(
            resamples, ranked, allowances, calibration=calibration_set
        )
        if with_thresholds
        else (),
        units=audits.units(resamples, ranked, allowances),
        curves=audits.curves(resamples, ranked, points) if points else (),
        ladder=tuple(mode_samples.optima(judged_on, allowances)),
        warnings=tuple(notes),
        inputs=None if parts is None else _inputs(judged_on, whole, parts, ranked),
        samples=samples_of(resamples, judged, streamed),
        fresh=Fresh(resamples, tuple(ranked)),
    )


def gain_curves(
    table: ValueTable,
    scores: Mapping[str, Any],
    points: int,
    *,
    units: Sequence[str] | None = None,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
) -> tuple[Curve, ...]:
    """The curves that `evaluate` adds with `curve_points`, without the rest of the
    judgement.
    """
    judged_on, _ = _split(table, units, None)
    judged_scores = [
        on_part(judged_on, item, table, "error") for item in align_all(table, scores)
    ]
    resamples = Resamples.of(
        judged_on, make_draws(len(judged_on.unit_ids), draws, seed)
    )
    return audits.curves(resamples, judged_scores, points)


def _reweigh(
    table: ValueTable, terms: Any, weights: Mapping[str, float] | None
) -> tuple[ValueTable, loss_terms.Terms | None]:
    """The table with losses under the new weights, if there are some, and its terms."""
    if weights is not None and not isinstance(weights, Mapping):
        raise InputError(
            f"weights must be a mapping from terms to numbers; found {quote(weights)}."
        )
    if terms is None:
        if weights:
            raise InputError(
                "Other weights need the loss terms; none were given: give terms "
                "(--terms FILE)."
            )
        return table, None
    parts = loss_terms.align(table, terms)
    if not weights:
        return table, parts
    parts = parts.reweight(weights)
    return loss_terms.with_losses(table, parts), parts


def _idle_choices(
    scores: Sequence[Scores], own_budgets: Sequence[Allowance]
) -> list[str]:
    """Notes on routers that choose the cheap mode everywhere."""
    judged = {allowed.spender for allowed in own_budgets}
    names = [item.name for item in scores if item.choice and item.name not in judged]
    return [
        f"{name} never escalates, or spends nothing on it: it has no row of its own."
        for name in names
    ]


def _inputs(
    judged_on: ValueTable,
    whole: ValueTable,
    terms: loss_terms.Terms,
    scores: Sequence[Scores],
) -> Inputs:
    plain = {item.name: item.values for item in scores if not item.modes}
    return loss_terms.inputs_of(
        judged_on, terms, positions(judged_on.input, whole.input), scores=plain
    )


def _split(
    table: ValueTable,
    units: Sequence[str] | None,
    calibration: Sequence[str] | int | None,
) -> tuple[ValueTable, ValueTable | None]:
    """The inputs to judge, and those to calibrate on."""
    if calibration is not None:
        times(table)  # refuses a table without times before any computation
    if isinstance(calibration, int) and (
        calibration is True or not 2 <= calibration <= len(table.unit_ids)
    ):
        raise InputError(
            f"calibration must be units, or 2 to {len(table.unit_ids)} folds, as many "
            f"as there are units; found {quote(calibration)}."
        )
    if calibration is None or isinstance(calibration, int):
        return (table if units is None else table.restrict(units)), None
    calibration_table = table.restrict(calibration)
    judged = (
        [unit for unit in table.unit_ids if unit not in set(calibration_table.unit_ids)]
        if units is None
        else list(units)
    )
    shared = set(map(str, judged)) & set(calibration_table.unit_ids)
    if shared:
        raise InputError(
            "Calibration units must not be "
            f"judged; {str(min(shared))!r} is in both lists."
        )
    if not judged:
        raise InputError(
            "At least one unit must be left to judge; all are calibration units."
        )
    return table.restrict(judged), calibration_table


def _slices(
    resamples: Resamples,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    column: str,
) -> Iterable[Row]:
    for label, members in groups(resamples.table, column):
        part = Resamples.of(
            resamples.table.keep(members),
            resamples.draws,
            leave_out_up_to=0,
            watch=resamples.watch,
        )
        own = [item.keep(members) for item in scores]
        budgets = [*allowances, *mode_samples.own_budgets(part.table, own, allowances)]
        yield from (item.row for item in judge(part, own, budgets, label))


def _provenance(
    resamples: Resamples,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    calibrated_on: ValueTable | None,
    chosen: Sequence[str] | None,
) -> Provenance:
    draws = resamples.draws
    return Provenance(
        deepval=__version__,
        table=resamples.table.digest,
        scores={
            item.name: ScoresUsed(item.digest, float(item.covered.mean()))
            for item in scores
        },
        costs=cost_figures(allowances, resamples.table),
        draws=DrawsUsed(draws.method, len(draws), draws.seed),
        units=resamples.unit_ids,
        calibration_units=None
        if calibrated_on is None
        else tuple(map(str, calibrated_on.unit_ids)),
        role="all" if chosen is None and calibrated_on is None else "chosen",
    )


MOST_GROUPS = 24
FEW_NUMBERS = 8


def groups(
    table: ValueTable, by: str
) -> Iterator[tuple[str, Bool[np.ndarray, "input"]]]:
    """Label and members of every group, in the order of the values."""
    name, _, edges = by.partition(":")
    if name not in table.attributes:
        available = ", ".join(table.attributes) or "no further columns"
        raise InputError(
            "--by needs a column of the table; found "
            f"{name!r}, the table has {available}."
        )
    column = np.asarray(table.attributes[name])
    if edges:
        yield from _groups_by_edges(name, _numbers(column, name), _edges(edges, name))
    elif column.dtype.kind in "fiu" and len(np.unique(column)) > FEW_NUMBERS:
        numbers = _numbers(column, name)
        yield from _groups_by_edges(
            name, numbers, np.unique(np.quantile(numbers, [0.25, 0.5, 0.75]))
        )
    else:
        yield from _groups_by_value(name, column)


def _groups_by_value(
    name: str, column: np.ndarray
) -> Iterator[tuple[str, Bool[np.ndarray, "input"]]]:
    objects = column if column.dtype.kind == "O" else ()
    odd = next(
        (
            row
            for row, value in enumerate(objects)
            if np.ndim(value) or isinstance(value, dict | set)
        ),
        None,
    )
    if odd is not None:
        raise InputError(
            f"--by {name}: the column must hold a text or a number in every row; row "
            f"{odd + 1} holds {quote(column[odd])}."
        )
    column = column + 0.0 if column.dtype.kind == "f" else column  # -0.0 is 0.0
    labels = np.array(
        [
            "(none)" if value is None or value != value else str(value)
            for value in column
        ]
    )
    _, first = np.unique(
        column if column.dtype.kind in "iubf" else labels, return_index=True
    )
    if len(first) > MOST_GROUPS:
        raise InputError(
            f"--by {name}: at most {MOST_GROUPS} groups can be shown; found "
            f"{len(first)} different values."
        )
    for label in labels[first]:
        yield f"{name}={label}", labels == label


def _groups_by_edges(
    name: str, numbers: Float[np.ndarray, "input"], edges: Float[np.ndarray, "edge"]
) -> Iterator[tuple[str, Bool[np.ndarray, "input"]]]:
    bins = np.searchsorted(edges, numbers, side="right")
    bounds = [f"{edge:g}" for edge in edges]
    labels = [
        f"{name}<{bounds[0]}",
        *(f"{a}<={name}<{b}" for a, b in pairwise(bounds)),
        f"{name}>={bounds[-1]}",
    ]
    for index, label in enumerate(labels):
        if np.any(bins == index):
            yield label, bins == index


def _edges(text: str, name: str) -> Float[np.ndarray, "edge"]:
    try:
        edges = np.unique([float(part) for part in text.split(",")])
    except ValueError:
        edges = np.array([np.nan])
    if not np.isfinite(edges).all():
        raise InputError(
            f"--by {name}: edges must be numbers with commas, "
            f"such as {name}:5,10; found {text!r}."
        )
    return edges


def _numbers(column: np.ndarray, name: str) -> Float[np.ndarray, "input"]:
    if column.dtype.kind not in "fiu" or np.isnan(column.astype(float)).any():
        raise InputError(
            f"--by {name}: a column that is cut at edges must hold numbers only."
        )
    return column.astype(float)
