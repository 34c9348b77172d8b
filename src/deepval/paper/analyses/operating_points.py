"""Cells with their data -> what escalation does with each mode at its own threshold:
docs/analyses.md.

Thresholds S0 to S3 are chosen on training units from precision, recall and counts
alone. The pairs form a grid. Tuned thresholds minimise each mode's own downstream loss
on training and validation units. Rows are over the requested units. A threshold is a
number on the scale of a mode's own scores; 0.25 means a probability. Thresholds of raw
scores are quantiles over the boxes of the training units. A mode without scores, or
with the same score for all boxes, has no other threshold.

Harm under thresholds matched by boxes, F1 or precision (S0 to S3), under 25 pairs of
thresholds, and under thresholds tuned on the loss of each mode.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, ModeSpec
from deepval.cells.unit import (
    UnitData,
    input_frames,
    objects_of_mode,
    unit_data,
    used_detections,
    variant_tables,
)
from deepval.errors import InputError
from deepval.judging.draws import Draws, make_draws
from deepval.paper.analysis import Option, declare
from deepval.paper.row_columns import (
    CellColumns,
    HarmColumns,
    InputColumns,
    Units,
    cell_columns,
    column,
    declared_table,
    harm,
    loss_table,
)
from deepval.paper.tidy import count
from deepval.perception.reported.detections import Detections, has_ground_boxes
from deepval.perception.reported.score_thresholds import (
    GRID,
    SHARED,
    STEPS,
    BestThreshold,
    OperatingPoint,
    Rates,
    best_threshold,
    own_scale_points,
    unit_counts,
)
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table, number, percent
from deepval.results import known
from deepval.systems.outcomes import own_losses
from deepval.tables.split import units_of
from deepval.tables.values import ValueTable

ALL = -np.inf
"""The threshold that keeps every box."""
QUANTILES: tuple[float, ...] = tuple(step / 100 for step in range(96))
"""The grid for raw scores: the share of the training boxes below each threshold."""
Kind = Literal["probabilities", "quantiles", "none"]


@dataclass(frozen=True)
class ThresholdScale:
    """Thresholds that a mode can have.

    Attributes:
        kind: What the thresholds are; none if the mode has only one.
        grid: The thresholds to choose from, ascending.
        steps: Thresholds of the grid of pairs, each with its name: a probability, or
            the share of boxes below it.
        kept: Threshold of this mode while that of the other mode is varied.
        why: Why 0.25 has no meaning on this scale; None if it has one.
    """

    kind: Kind
    grid: tuple[float, ...]
    steps: Mapping[float, float]
    kept: float
    why: str | None


def scale_of(mode: ModeSpec, scores: Float[np.ndarray, "det"]) -> ThresholdScale:
    """The scale of a mode, from the scores of all its boxes on the training units."""
    own = ALL if mode.threshold is None else mode.threshold
    kind = "none" if mode.reader is None else mode.reader.scores
    if kind == "none" or not len(scores):
        return ThresholdScale("none", (own,), {}, own, f"{mode.name} has no scores")
    if scores.min() == scores.max():
        return ThresholdScale(
            "none", (own,), {}, own, f"all scores of {mode.name} are {scores[0]:g}"
        )
    if kind == "probabilities":
        return ThresholdScale(
            "probabilities", GRID, {step: step for step in STEPS}, SHARED, None
        )
    ordered = np.sort(scores)
    at = {share: float(ordered[int(share * len(ordered))]) for share in QUANTILES}
    grid = sorted(
        {ALL, own, *(threshold for share, threshold in at.items() if share > 0)}
    )
    steps = {at[share]: share for share in reversed(STEPS)}
    return ThresholdScale(
        "quantiles",
        tuple(grid),
        dict(sorted(steps.items())),
        own,
        f"the scores of {mode.name} are raw",
    )


class Ends(NamedTuple):
    """The scales of a cell's two modes, and whether boxes are matched in the image or
    as 3D boxes on the ground.
    """

    cheap: ThresholdScale
    full: ThresholdScale
    in_image: bool


class Counted(NamedTuple):
    """Counts of both modes at thresholds over some units, and the number of frames
    behind them.
    """

    cheap: Rates
    full: Rates
    frames: int


def ends_of(spec: CellSpec, *, watch: Watch = unwatched) -> Ends:
    """The score scales of the cheapest and the fullest mode on the training units."""
    if not spec.roles.train:
        raise InputError(
            f"{spec.name}: operating points are chosen on training units, and there "
            f"are none: {spec.roles.too_few}. Build the cell from more units."
        )
    modes, scores, boxed = (spec.modes[0], spec.modes[-1]), ([], []), True
    for unit in watch(spec.roles.train, "scores"):
        seen = unit_data(spec, unit)
        both = reported_by_both(spec, seen)
        boxed &= all(detections.has_boxes for detections in both)
        if not boxed and not all(
            has_ground_boxes(detections, seen.scene) for detections in both
        ):
            raise InputError(
                f"{spec.name}: precision and recall need image "
                "boxes or 3D boxes, of both modes."
            )
        for scores_of_mode, detections in zip(scores, both, strict=True):
            scores_of_mode.append(detections.score)
    cheap, full = (
        scale_of(mode, np.concatenate(parts))
        for mode, parts in zip(modes, scores, strict=True)
    )
    return Ends(cheap, full, boxed)


def reported_by_both(spec: CellSpec, seen: UnitData) -> tuple[Detections, Detections]:
    """All detections of the cheapest and the fullest mode, on inputs on which both were
    run.
    """
    cheap, full = (seen.reported[name] for name in (spec.order[0], spec.order[-1]))
    frames = cheap.run & full.run & input_frames(spec, seen.scene)
    return cheap.on(frames), full.on(frames)


def counted(
    spec: CellSpec,
    ends: Ends,
    grids: tuple[Sequence[float], Sequence[float]],
    units: Sequence[str],
    *,
    watch: Watch = unwatched,
) -> Counted:
    """Counts of both modes, each at the thresholds of its own grid."""
    sums, frames = [np.zeros((4, len(grid)), dtype=int) for grid in grids], 0
    for unit in watch(units, "precision and recall"):
        seen = unit_data(spec, unit)
        both, scene = (
            reported_by_both(spec, seen),
            None if ends.in_image else seen.scene,
        )
        frames += int(np.count_nonzero(both[0].run))
        for total, detections, grid in zip(sums, both, grids, strict=True):
            total += unit_counts(detections, seen.truth, grid=grid, scene=scene)
    cheap, full = (
        Rates(np.array(grid, dtype=float), *total)
        for grid, total in zip(grids, sums, strict=True)
    )
    return Counted(cheap, full, frames)


def chosen(ends: Ends, rates: Counted) -> list[OperatingPoint]:
    """S0 to S3 from counts over the grids of both modes; None with a reason if a scheme
    has no meaning here.
    """
    why = [scale.why for scale in (ends.cheap, ends.full) if scale.why is not None]
    reason = f"{SHARED:g} is a probability, and {' and '.join(why)}"
    shared = (
        OperatingPoint("S0", None, None, reason)
        if why
        else OperatingPoint("S0", SHARED, SHARED)
    )
    points = own_scale_points(
        rates.cheap, rates.full, at=ends.cheap.grid.index(ends.cheap.kept)
    )
    fixed = (
        f"{ends.full.why}, so it cannot be moved" if ends.full.kind == "none" else ""
    )
    neither = (
        "neither mode can be moved"
        if ends.full.kind == ends.cheap.kind == "none"
        else ""
    )
    undefined = {"S1": fixed, "S2": neither, "S3": fixed}
    return [
        shared,
        *(
            OperatingPoint(s, None, None, undefined[s]) if undefined[s] else p
            for s, p in points.items()
        ),
    ]


def pairs(ends: Ends) -> list[tuple[float, float]]:
    """The 25 pairs of cheap and full thresholds; fewer if scores are tied, none if a
    mode has no steps.
    """
    return [(cheap, full) for cheap in ends.cheap.steps for full in ends.full.steps]


def tuned(
    spec: CellSpec, ends: Ends, units: Sequence[str], *, watch: Watch = unwatched
) -> tuple[BestThreshold, BestThreshold]:
    """For each mode, the threshold with the least mean loss if it runs alone; frames on
    which both were run.
    """
    modes, grids = (spec.modes[0], spec.modes[-1]), (ends.cheap.grid, ends.full.grid)
    sums, inputs = [np.zeros(len(grid)) for grid in grids], 0
    for unit in watch(units, f"own losses of {spec.system}"):
        seen = unit_data(spec, unit)
        judged = spec.acting.judged(seen.scene, seen.truth) & input_frames(
            spec, seen.scene
        )
        for marks in (seen.run[mode.name] for mode in modes):
            judged = judged & marks
        inputs += int(judged.sum())
        for total, mode, grid in zip(sums, modes, grids, strict=True):
            total += [
                loss[judged].sum() for loss in _own_losses(spec, mode, seen, grid)
            ]
    means = [
        dict(zip(grid, total / max(inputs, 1), strict=True))
        for grid, total in zip(grids, sums, strict=True)
    ]
    cheap, full = (
        best_threshold(mean.__getitem__, grid=grid)
        for mean, grid in zip(means, grids, strict=True)
    )
    return cheap, full


def _own_losses(
    spec: CellSpec, mode: ModeSpec, seen: UnitData, grid: Sequence[float]
) -> Iterator[Float[np.ndarray, "time"]]:
    """Loss per frame of one mode alone at each threshold of an ascending grid; equal
    boxes are planned for once.
    """
    report, before, loss = seen.reported[mode.name], -1, np.zeros(0)
    for threshold in grid:
        used = used_detections(at_threshold(mode, threshold), report)
        if len(used) != before:
            at = replace(seen, used={mode.name: used})
            objects = objects_of_mode(spec, at, mode.name)
            loss = own_losses(
                spec.acting, [at.scene], [at.truth], perceived=[objects], run=[used.run]
            )
            before = len(used)
        yield loss


def at_threshold(mode: ModeSpec, threshold: float) -> ModeSpec:
    """The mode with another threshold."""
    return replace(mode, threshold=None if threshold == ALL else threshold)


BUILT, PAIR, TUNED = "as built", "pair", "tuned"


@dataclass(frozen=True)
class ThresholdColumns(CellColumns):
    """A cell with its cheap and full mode at some thresholds, and what the two report
    there.
    """

    scheme: str = column("as built, S0 to S3, pair or tuned", "scheme")
    cheap_scale: str = column(
        "Thresholds of the cheap mode: probabilities; quantiles, for raw scores: "
        "ranks among the boxes of the training units; none, where "
        "the mode cannot be moved"
    )
    full_scale: str = column("Thresholds of the full mode, likewise")
    cheap_threshold: float | None = column(
        "Lowest score of a box of the cheap mode that is used; "
        "None if all boxes are used",
        "thresholds",
        of_row=lambda row: (
            ""
            if row.inputs is None
            else f"{_threshold(row, 'cheap')} -> {_threshold(row, 'full')}"
        ),
        default=None,
    )
    full_threshold: float | None = column("The same of the full mode", default=None)
    cheap_below: float | None = column(
        "Share of the training boxes below the threshold, if a pair takes the "
        "threshold from a quantile",
        default=None,
    )
    full_below: float | None = column("The same of the full mode", default=None)
    cheap_boxes: float | None = column(
        "Boxes of the cheap mode per frame, over frames on which both modes were run",
        "boxes",
        of_row=lambda row: _arrow(row.cheap_boxes, row.full_boxes),
        default=None,
    )
    full_boxes: float | None = column("The same of the full mode", default=None)
    cheap_precision: float | None = column(
        "Share of the counted boxes of the cheap mode that are right",
        "precision",
        of_row=lambda row: _arrow(row.cheap_precision, row.full_precision),
        default=None,
    )
    full_precision: float | None = column("The same of the full mode", default=None)
    cheap_recall: float | None = column(
        "Share of the reference objects that the cheap mode detects",
        "recall",
        of_row=lambda row: _arrow(row.cheap_recall, row.full_recall),
        default=None,
    )
    full_recall: float | None = column("The same of the full mode", default=None)
    cheap_own_loss: float | None = column(
        "Mean loss of the cheap mode alone on training and validation units, if its "
        "threshold was tuned",
        default=None,
    )
    full_own_loss: float | None = column("The same of the full mode", default=None)


@dataclass(frozen=True)
class OperatingRow(HarmColumns, InputColumns, ThresholdColumns):
    """A cell with its cheap and full mode at some thresholds. None: undefined."""

    affected: int | None = column(
        "Inputs whose loss the full mode changes",
        "affected",
        lambda number_of: "" if number_of is None else count(number_of),
        default=None,
    )
    reason: str | None = column("Why the scheme is undefined here", default=None)


@dataclass(frozen=True)
class _Candidate:
    """A pair of thresholds to judge, and the loss of each mode at its threshold if that
    was tuned.
    """

    point: OperatingPoint
    own_loss: tuple[float | None, float | None] = (None, None)


def _applies(cell: BuiltCell) -> bool:
    return (cell.spec.geometry, cell.spec.system) != ("oracle", "receding-horizon")


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    with_pairs: Annotated[
        bool, Option("Judge the 25 pairs of thresholds.", ("--pairs/--no-pairs",))
    ] = True,
    with_tuned: Annotated[
        bool, Option("Tune each mode to its own loss (slow).", ("--tuned/--no-tuned",))
    ] = True,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[OperatingRow]:
    """Rows per cell: as it was built, S0 to S3, the tuned thresholds and the pairs.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names
            (`cells.located`).
        with_pairs: Whether to judge the grid of pairs.
        with_tuned: Whether to tune each mode to its own loss, which plans again at
            every threshold.
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Progress reporting.
    """
    records: list[OperatingRow] = []
    for name, cell in cells.items():
        spec, like = located[name], loss_table(cell, units)
        ends = ends_of(spec, watch=watch)
        candidates = list(
            _candidates(
                spec, ends, with_pairs=with_pairs, with_tuned=with_tuned, watch=watch
            )
        )
        drawn = make_draws(len(like.unit_ids), draws, seed)
        counts = _counted(spec, ends, candidates, units_of(cell.split, units), watch)
        tables = _tables(spec, like, candidates, watch)
        blank = {
            **cell_columns(name, cell),
            "cheap_scale": ends.cheap.kind,
            "full_scale": ends.full.kind,
        }
        for candidate in candidates:
            row = OperatingRow(scheme=candidate.point.scheme, **blank)
            records.append(_filled(row, candidate, ends, counts, tables, drawn))
    return records


def _candidates(
    spec: CellSpec, ends: Ends, *, with_pairs: bool, with_tuned: bool, watch: Watch
) -> Iterator[_Candidate]:
    cheap, full = (
        ALL if mode.threshold is None else mode.threshold
        for mode in (spec.modes[0], spec.modes[-1])
    )
    yield _Candidate(OperatingPoint(BUILT, cheap, full))
    grids = ends.cheap.grid, ends.full.grid
    for point in chosen(
        ends, counted(spec, ends, grids, spec.roles.train, watch=watch)
    ):
        yield _Candidate(point)
    if with_tuned and {ends.cheap.kind, ends.full.kind} == {"none"}:
        yield _Candidate(OperatingPoint(TUNED, None, None, "neither mode can be moved"))
    elif with_tuned:
        one, other = tuned(spec, ends, spec.roles.fit, watch=watch)
        yield _Candidate(
            OperatingPoint(TUNED, one.threshold, other.threshold),
            (one.loss, other.loss),
        )
    fixed = [
        f"{scale.why}, so it cannot be moved"
        for scale in (ends.cheap, ends.full)
        if scale.kind == "none"
    ]
    if with_pairs and fixed:
        yield _Candidate(OperatingPoint(PAIR, None, None, fixed[0]))
    for cheap, full in pairs(ends) if with_pairs else ():
        yield _Candidate(OperatingPoint(PAIR, cheap, full))


Pair = tuple[float, float]


def _both(point: OperatingPoint) -> Pair | None:
    """The thresholds of a point; None if it is undefined."""
    return (
        None if point.cheap is None or point.full is None else (point.cheap, point.full)
    )


def _defined(candidates: Sequence[_Candidate]) -> list[Pair]:
    """The pairs of thresholds to judge at, each once."""
    return list(
        dict.fromkeys(
            pair
            for candidate in candidates
            if (pair := _both(candidate.point)) is not None
        )
    )


def _counted(
    spec: CellSpec,
    ends: Ends,
    candidates: Sequence[_Candidate],
    units: Sequence[str],
    watch: Watch,
) -> Counted:
    cheap, full = (
        sorted({pair[end] for pair in _defined(candidates)}) for end in (0, 1)
    )
    return counted(spec, ends, (cheap, full), units, watch=watch)


def _tables(
    spec: CellSpec, like: ValueTable, candidates: Sequence[_Candidate], watch: Watch
) -> dict[Pair, ValueTable]:
    """The losses at every pair of thresholds; all full thresholds for one cheap
    threshold are judged together.
    """
    defined = _defined(candidates)
    cheap, full = (
        {
            t: _named(mode, index, t)
            for index, t in enumerate(sorted({pair[end] for pair in defined}))
        }
        for end, mode in ((0, spec.modes[0]), (1, spec.modes[-1]))
    )
    beside = {low: [high for first, high in defined if first == low] for low in cheap}
    variants = [
        replace(spec, modes=(cheap[low], *(full[t] for t in highs)))
        for low, highs in beside.items()
    ]
    tables = variant_tables(
        variants, like, watch=watch, label=f"thresholds of {spec.system}"
    )
    return {
        (low, high): table.with_modes([cheap[low].name, full[high].name])
        for (low, highs), table in zip(beside.items(), tables, strict=True)
        for high in highs
    }


def _named(mode: ModeSpec, index: int, threshold: float) -> ModeSpec:
    return replace(at_threshold(mode, threshold), name=f"{mode.name} at {index}")


def _filled(
    row: OperatingRow,
    candidate: _Candidate,
    ends: Ends,
    counts: Counted,
    tables: Mapping[Pair, ValueTable],
    draws: Draws,
) -> OperatingRow:
    pair = _both(candidate.point)
    if pair is None:
        return replace(row, reason=candidate.point.reason)
    columns: dict[str, float | None] = {}
    for end, threshold, rates, scale, loss in zip(
        ("cheap", "full"),
        pair,
        (counts.cheap, counts.full),
        (ends.cheap, ends.full),
        candidate.own_loss,
        strict=True,
    ):
        at = rates.threshold.tolist().index(threshold)
        ranked = candidate.point.scheme == PAIR and scale.kind == "quantiles"
        columns |= {
            f"{end}_threshold": None if threshold == ALL else threshold,
            f"{end}_below": scale.steps[threshold] if ranked else None,
            f"{end}_boxes": float(rates.boxes[at]) / counts.frames
            if counts.frames
            else None,
            f"{end}_precision": known(float(rates.precision[at])),
            f"{end}_recall": known(float(rates.recall[at])),
            f"{end}_own_loss": loss,
        }
    return replace(row, **columns, **harm(tables[pair], draws))


def table(rows: Sequence[OperatingRow]) -> Table:
    """The rows as a table, the pairs below."""
    order = (
        "cell",
        "scheme",
        "cheap_threshold",
        "cheap_boxes",
        "cheap_precision",
        "cheap_recall",
        "affected",
    )
    return declared_table(
        OperatingRow,
        sorted(rows, key=_is_pair),
        "Each mode at its own threshold",
        notes=list(_notes(rows)),
        order=(*order, "harm_rate", "harm_rate_lo", "harm_ratio", "harm_ratio_lo"),
        split=_is_pair,
    )


def _is_pair(row: OperatingRow) -> bool:
    return row.scheme == PAIR


def _arrow(cheap: float | None, full: float | None) -> str:
    return (
        ""
        if cheap is None and full is None
        else f"{number(cheap, 2)} -> {number(full, 2)}"
    )


def _threshold(row: OperatingRow, end: str) -> str:
    threshold, below = getattr(row, f"{end}_threshold"), getattr(row, f"{end}_below")
    text = "all" if threshold is None else f"{threshold:.3g}"
    return text if below is None else f"{text} (q {below:g})"


def _notes(rows: Sequence[OperatingRow]) -> Iterator[str]:
    yield (
        "boxes: per frame. Thresholds S0 to S3 are chosen on training units, tuned "
        "ones on training and validation."
    )
    if any("quantiles" in (row.cheap_scale, row.full_scale) for row in rows):
        yield (
            "Raw scores have a scale of their own: S1 and S3 keep a cheap mode with "
            "them as built, and its pairs are of quantiles (q: share of its training "
            "boxes below), not of the paper's probabilities."
        )
    yield from dict.fromkeys(
        f"{row.cell}, {row.scheme}: {row.reason}." for row in rows if row.reason
    )
    for cell in dict.fromkeys(row.cell for row in rows):
        of_pairs = [row for row in rows if row.cell == cell and row.scheme == PAIR]
        rates = [row.harm_rate for row in of_pairs if row.harm_rate is not None]
        ratios = [row.harm_ratio for row in of_pairs if row.harm_ratio is not None]
        if rates and ratios:
            yield (
                f"{cell}, {len(of_pairs)} pairs: harmed {percent(min(rates), 1)} to "
                f"{percent(max(rates), 1)}, harm "
                f"ratio {number(min(ratios))} to {number(max(ratios))}."
            )


OPERATING_POINTS = declare(
    __name__,
    shows="Show harm at other detection thresholds",
    see="definitions.md#operating-points",
    paper="operating points",
    example=(
        "cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode "
        "RRC=RRC.parquet"
    ),
    by="cell",
    long=True,
    needs_data=True,
    among=(_applies, "no cell but of the receding horizon with oracle geometry"),
)
