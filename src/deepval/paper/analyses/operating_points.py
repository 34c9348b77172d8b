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
from typing import Annotated

from deepval.basics.progress import Watch
from deepval.deploy.thresholds import at_threshold, counted, ends_of, tuned
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.cells.spec import CellSpec, ModeSpec
from deepval.driving.cells.unit import variant_tables
from deepval.driving.perception.reported.operating_points import (
    ALL,
    Counted,
    Ends,
    chosen,
    pairs,
)
from deepval.driving.perception.reported.score_thresholds import OperatingPoint
from deepval.judge.report.text_tables import Table, number, percent
from deepval.judge.results import known
from deepval.judge.tables.split import units_of
from deepval.judge.tables.values import ValueTable
from deepval.paper.analysis import Analysis, Option
from deepval.paper.columns import CELL, HARM, INPUTS, harm, no_harm
from deepval.paper.study import Cell, DrawCount, Inputs, Units
from deepval.paper.tidy import Column, Row, count, only, printed

BUILT, PAIR, TUNED = "as built", "pair", "tuned"


THRESHOLDS = (
    *CELL,
    Column("scheme", "as built, S0 to S3, pair or tuned", heading="scheme"),
    Column(
        "cheap_scale",
        "Thresholds of the cheap mode: probabilities; quantiles, for raw scores: "
        "ranks among the boxes of the training units; none, where "
        "the mode cannot be moved",
    ),
    Column("full_scale", "Thresholds of the full mode, likewise"),
    Column(
        "cheap_threshold",
        "Lowest score of a box of the cheap mode that is used; "
        "None if all boxes are used",
        heading="thresholds",
        text_of_row=lambda row: (
            ""
            if row["inputs"] is None
            else f"{_threshold(row, 'cheap')} -> {_threshold(row, 'full')}"
        ),
    ),
    Column("full_threshold", "The same of the full mode"),
    Column(
        "cheap_below",
        "Share of the training boxes below the threshold, if a pair takes the "
        "threshold from a quantile",
    ),
    Column("full_below", "The same of the full mode"),
    Column(
        "cheap_boxes",
        "Boxes of the cheap mode per frame, over frames on which both modes were run",
        heading="boxes",
        text_of_row=lambda row: _arrow(row["cheap_boxes"], row["full_boxes"]),
    ),
    Column("full_boxes", "The same of the full mode"),
    Column(
        "cheap_precision",
        "Share of the counted boxes of the cheap mode that are right",
        heading="precision",
        text_of_row=lambda row: _arrow(row["cheap_precision"], row["full_precision"]),
    ),
    Column("full_precision", "The same of the full mode"),
    Column(
        "cheap_recall",
        "Share of the reference objects that the cheap mode detects",
        heading="recall",
        text_of_row=lambda row: _arrow(row["cheap_recall"], row["full_recall"]),
    ),
    Column("full_recall", "The same of the full mode"),
    Column(
        "cheap_own_loss",
        "Mean loss of the cheap mode alone on training and validation units, if its "
        "threshold was tuned",
    ),
    Column("full_own_loss", "The same of the full mode"),
)
"""A cell with its cheap and full mode at some thresholds, and what the two report
there.
"""


COLUMNS = (
    *THRESHOLDS,
    *INPUTS,
    # A pair that is not judged has no dash here.
    Column(
        "affected",
        HARM[0].meaning,
        heading="affected",
        text=lambda number_of: "" if number_of is None else count(number_of),
    ),
    *HARM[1:],
    Column("reason", "Why the scheme is undefined here"),
)
"""A cell with its cheap and full mode at some thresholds. None: undefined."""


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
    cells: Sequence[Cell],
    *,
    with_pairs: bool = True,
    with_tuned: Annotated[
        bool, Option("Tune each mode to its own loss (slow).", ("--tuned/--no-tuned",))
    ] = True,
    units: Units = "all",
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """Rows per cell: as it was built, S0 to S3, the tuned thresholds and the pairs.

    Args:
        cells: The cells.
        with_pairs: Whether to judge the grid of pairs.
        with_tuned: Whether to tune each mode to its own loss, which plans again at
            every threshold.
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
    """
    for cell in cells:
        spec = cell.located
        watch = cell.watch
        inputs = cell.inputs(units, draws, seed)
        ends = ends_of(spec, watch=watch)
        candidates = list(
            _candidates(
                spec, ends, with_pairs=with_pairs, with_tuned=with_tuned, watch=watch
            )
        )
        chosen_units = units_of(cell.cell.split, units)
        counts = _counted(spec, ends, candidates, chosen_units, watch)
        tables = _tables(spec, inputs.table, candidates, watch)
        for candidate in candidates:
            yield {
                **cell.description,
                "scheme": candidate.point.scheme,
                "cheap_scale": ends.cheap.kind,
                "full_scale": ends.full.kind,
                **_at_thresholds(candidate, ends, counts),
                **_harm(candidate, inputs, tables),
                "reason": candidate.point.reason or None,
            }


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


def _harm(
    candidate: _Candidate, inputs: Inputs, tables: Mapping[Pair, ValueTable]
) -> Row:
    """What escalation does at the thresholds of a candidate."""
    pair = _both(candidate.point)
    if pair is None:
        return no_harm()
    return harm(tables[pair], inputs.draws)


def _at_thresholds(candidate: _Candidate, ends: Ends, counts: Counted) -> Row:
    """The thresholds of a candidate, and what both modes report there."""
    names = ("threshold", "below", "boxes", "precision", "recall", "own_loss")
    pair = _both(candidate.point)
    columns: Row = {}
    for index, end in enumerate(("cheap", "full")):
        if pair is None:
            columns |= {f"{end}_{name}": None for name in names}
            continue
        threshold = pair[index]
        rates = (counts.cheap, counts.full)[index]
        scale = (ends.cheap, ends.full)[index]
        at = rates.threshold.tolist().index(threshold)
        ranked = candidate.point.scheme == PAIR and scale.kind == "quantiles"
        boxes = None
        if counts.frames:
            boxes = float(rates.boxes[at]) / counts.frames
        columns |= {
            f"{end}_threshold": None if threshold == ALL else threshold,
            f"{end}_below": scale.steps[threshold] if ranked else None,
            f"{end}_boxes": boxes,
            f"{end}_precision": known(float(rates.precision[at])),
            f"{end}_recall": known(float(rates.recall[at])),
            f"{end}_own_loss": candidate.own_loss[index],
        }
    return columns


def tables(rows: Sequence[Row]) -> list[Table]:
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
    return [
        printed(
            "Each mode at its own threshold",
            only(COLUMNS, *order, "harm_rate", "harm_ratio"),
            sorted(rows, key=_is_pair),
            notes=list(_notes(rows)),
            section=_is_pair,
        )
    ]


def _is_pair(row: Row) -> bool:
    return row["scheme"] == PAIR


def _arrow(cheap: float | None, full: float | None) -> str:
    return (
        ""
        if cheap is None and full is None
        else f"{number(cheap, 2)} -> {number(full, 2)}"
    )


def _threshold(row: Row, end: str) -> str:
    threshold = row[f"{end}_threshold"]
    below = row[f"{end}_below"]
    text = "all" if threshold is None else f"{threshold:.3g}"
    return text if below is None else f"{text} (q {below:g})"


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "boxes: per frame. Thresholds S0 to S3 are chosen on training units, tuned "
        "ones on training and validation."
    )
    if any("quantiles" in (row["cheap_scale"], row["full_scale"]) for row in rows):
        yield (
            "Raw scores have a scale of their own: S1 and S3 keep a cheap mode with "
            "them as built, and its pairs are of quantiles (q: share of its training "
            "boxes below), not of the paper's probabilities."
        )
    yield from dict.fromkeys(
        f"{row['cell']}, {row['scheme']}: {row['reason']}."
        for row in rows
        if row["reason"]
    )
    for cell in dict.fromkeys(row["cell"] for row in rows):
        of_pairs = [
            row for row in rows if row["cell"] == cell and row["scheme"] == PAIR
        ]
        rates = [
            row["harm_rate"].value
            for row in of_pairs
            if row["harm_rate"].value is not None
        ]
        ratios = [
            row["harm_ratio"].value
            for row in of_pairs
            if row["harm_ratio"].value is not None
        ]
        if rates and ratios:
            yield (
                f"{cell}, {len(of_pairs)} pairs: harmed {percent(min(rates), 1)} to "
                f"{percent(max(rates), 1)}, harm "
                f"ratio {number(min(ratios))} to {number(max(ratios))}."
            )


OPERATING_POINTS = Analysis(
    name="operating-points",
    shows="Show harm at other detection thresholds",
    see="definitions.md#operating-points",
    paper="operating points",
    example=("cells/braking-monocular"),
    by="cell",
    long=True,
    needs_data=True,
    among=(_applies, "no cell but of the receding horizon with oracle geometry"),
    details=(
        "Harm under thresholds matched by boxes, F1 or precision (S0 to S3), under 25"
        " pairs of thresholds, and under thresholds tuned on the loss of each mode."
    ),
    rows=rows,
    columns=COLUMNS,
    asks=("located",),
    tables=tables,
)
