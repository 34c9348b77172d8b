"""Cells with their data -> what escalation does with each mode at its own threshold: docs/analyses.md.

Thresholds S0 to S3 are chosen on training units from precision, recall and counts alone; the pairs are a grid; tuned
ones minimise each mode's own downstream loss on training and validation units. Rows are over the units asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, ModeSpec, units_of
from deepval.cells.unit import variant_tables
from deepval.judging.draws import Draws, make_draws
from deepval.paper.analyses.thresholds import ALL, Counted, Ends, at_threshold, chosen, counted, ends_of, pairs, tuned
from deepval.paper.analysis import LOCATED, Analysis, Option
from deepval.paper.cell_figures import HarmColumns, InputColumns, Units, cell_columns, harm, judged
from deepval.paper.row_columns import CellColumns, column, count, declared_table
from deepval.perception.reported.score_thresholds import OperatingPoint
from deepval.progress import Watch, unwatched
from deepval.report.text_tables import Table, number, percent
from deepval.results import known
from deepval.tables.values import ValueTable

BUILT, PAIR, TUNED = "as built", "pair", "tuned"


@dataclass(frozen=True)
class ThresholdColumns(CellColumns):
    """A cell with its two ends at some thresholds, and what they report there."""

    scheme: str = column("as built, S0 to S3, pair or tuned", "scheme")
    cheap_scale: str = column(
        "Thresholds of the cheap mode: probabilities; quantiles, for raw scores: ranks among the boxes of the "
        "training units; none, where the mode cannot be moved"
    )
    full_scale: str = column("Thresholds of the full mode, likewise")
    cheap_threshold: float | None = column(
        "Lowest score of a box of the cheap mode that is used; None where all are",
        "thresholds",
        of_row=lambda row: "" if row.inputs is None else f"{_threshold(row, 'cheap')} -> {_threshold(row, 'full')}",
        default=None,
    )
    full_threshold: float | None = column("The same of the full mode", default=None)
    cheap_below: float | None = column(
        "Share of the training boxes below the threshold, where a pair takes it from a quantile", default=None
    )
    full_below: float | None = column("The same of the full mode", default=None)
    cheap_boxes: float | None = column(
        "Boxes of the cheap mode per frame that both modes were run on",
        "boxes",
        of_row=lambda row: _arrow(row.cheap_boxes, row.full_boxes),
        default=None,
    )
    full_boxes: float | None = column("The same of the full mode", default=None)
    cheap_precision: float | None = column(
        "Share of the boxes of the cheap mode that are right, of those that count",
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
        "Mean loss of the cheap mode alone on training and validation units, where it was tuned", default=None
    )
    full_own_loss: float | None = column("The same of the full mode", default=None)


@dataclass(frozen=True)
class OperatingRow(HarmColumns, InputColumns, ThresholdColumns):
    """A cell with its two ends at some thresholds. None: undefined."""

    affected: int | None = column(
        "Inputs whose loss the full mode changes",
        "affected",
        lambda number_of: "" if number_of is None else count(number_of),
        default=None,
    )
    reason: str | None = column("Why the scheme is undefined here", default=None)


@dataclass(frozen=True)
class _Candidate:
    """A pair of thresholds to judge at, and the loss of each mode there if it was tuned."""

    point: OperatingPoint
    own_loss: tuple[float | None, float | None] = (None, None)


def _applies(cell: BuiltCell) -> bool:
    return (cell.spec.geometry, cell.spec.system) != ("oracle", "receding-horizon")


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    with_pairs: Annotated[bool, Option("Judge the 25 pairs of thresholds.", ("--pairs/--no-pairs",))] = True,
    with_tuned: Annotated[bool, Option("Tune each mode to its own loss (slow).", ("--tuned/--no-tuned",))] = True,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[OperatingRow]:
    """Per cell: as it was built, S0 to S3, the tuned thresholds and the pairs.

    Args:
        cells: Cells by name.
        located: Their specifications with their data, by the same names (`cells.located`).
        with_pairs: Whether to judge the grid of pairs.
        with_tuned: Whether to tune each mode to its own loss, which acts anew at every threshold.
        units: Units whose inputs are judged.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Progress reporting.
    """
    records: list[OperatingRow] = []
    for name, cell in cells.items():
        spec, like = located[name], judged(cell, units)
        ends = ends_of(spec, watch=watch)
        candidates = list(_candidates(spec, ends, with_pairs=with_pairs, with_tuned=with_tuned, watch=watch))
        drawn = make_draws(len(like.unit_ids), draws, seed)
        counts = _counted(spec, ends, candidates, units_of(cell.split, units), watch)
        tables = _tables(spec, like, candidates, watch)
        blank = {"cell": name, **cell_columns(cell), "cheap_scale": ends.cheap.kind, "full_scale": ends.full.kind}
        for candidate in candidates:
            row = OperatingRow(scheme=candidate.point.scheme, **blank)
            records.append(_filled(row, candidate, ends, counts, tables, drawn))
    return records


def _candidates(
    spec: CellSpec, ends: Ends, *, with_pairs: bool, with_tuned: bool, watch: Watch
) -> Iterator[_Candidate]:
    cheap, full = (ALL if mode.threshold is None else mode.threshold for mode in (spec.modes[0], spec.modes[-1]))
    yield _Candidate(OperatingPoint(BUILT, cheap, full))
    grids = ends.cheap.grid, ends.full.grid
    for point in chosen(ends, counted(spec, ends, grids, spec.roles.train, watch=watch)):
        yield _Candidate(point)
    if with_tuned and {ends.cheap.kind, ends.full.kind} == {"none"}:
        yield _Candidate(OperatingPoint(TUNED, None, None, "neither mode can be moved"))
    elif with_tuned:
        one, other = tuned(spec, ends, spec.roles.fit, watch=watch)
        yield _Candidate(OperatingPoint(TUNED, one.threshold, other.threshold), (one.loss, other.loss))
    fixed = [f"{scale.why}, so it cannot be moved" for scale in (ends.cheap, ends.full) if scale.kind == "none"]
    if with_pairs and fixed:
        yield _Candidate(OperatingPoint(PAIR, None, None, fixed[0]))
    for cheap, full in pairs(ends) if with_pairs else ():
        yield _Candidate(OperatingPoint(PAIR, cheap, full))


Pair = tuple[float, float]


def _both(point: OperatingPoint) -> Pair | None:
    """The thresholds of a point; None where it is undefined."""
    return None if point.cheap is None or point.full is None else (point.cheap, point.full)


def _defined(candidates: Sequence[_Candidate]) -> list[Pair]:
    """The pairs of thresholds to judge at, each once."""
    return list(dict.fromkeys(pair for candidate in candidates if (pair := _both(candidate.point)) is not None))


def _counted(
    spec: CellSpec, ends: Ends, candidates: Sequence[_Candidate], units: Sequence[str], watch: Watch
) -> Counted:
    cheap, full = (sorted({pair[end] for pair in _defined(candidates)}) for end in (0, 1))
    return counted(spec, ends, (cheap, full), units, watch=watch)


def _tables(spec: CellSpec, like: ValueTable, candidates: Sequence[_Candidate], watch: Watch) -> dict[Pair, ValueTable]:
    """The losses at every pair of thresholds; of one cheap threshold all full ones are judged together."""
    defined = _defined(candidates)
    cheap, full = (
        {t: _named(mode, index, t) for index, t in enumerate(sorted({pair[end] for pair in defined}))}
        for end, mode in ((0, spec.modes[0]), (1, spec.modes[-1]))
    )
    beside = {low: [high for first, high in defined if first == low] for low in cheap}
    variants = [replace(spec, modes=(cheap[low], *(full[t] for t in highs))) for low, highs in beside.items()]
    tables = variant_tables(variants, like, watch=watch, label=f"thresholds of {spec.system}")
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
        ("cheap", "full"), pair, (counts.cheap, counts.full), (ends.cheap, ends.full), candidate.own_loss, strict=True
    ):
        at = rates.threshold.tolist().index(threshold)
        ranked = candidate.point.scheme == PAIR and scale.kind == "quantiles"
        columns |= {
            f"{end}_threshold": None if threshold == ALL else threshold,
            f"{end}_below": scale.steps[threshold] if ranked else None,
            f"{end}_boxes": float(rates.boxes[at]) / counts.frames if counts.frames else None,
            f"{end}_precision": known(float(rates.precision[at])),
            f"{end}_recall": known(float(rates.recall[at])),
            f"{end}_own_loss": loss,
        }
    table = tables[pair]
    return replace(row, **columns, inputs=len(table), units=len(table.unit_ids), **harm(table, draws))


def table(rows: Sequence[OperatingRow]) -> Table:
    """The rows as a table, the pairs below."""
    order = ("cell", "scheme", "cheap_threshold", "cheap_boxes", "cheap_precision", "cheap_recall", "affected")
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
    return "" if cheap is None and full is None else f"{number(cheap, 2)} -> {number(full, 2)}"


def _threshold(row: OperatingRow, end: str) -> str:
    threshold, below = getattr(row, f"{end}_threshold"), getattr(row, f"{end}_below")
    text = "all" if threshold is None else f"{threshold:.3g}"
    return text if below is None else f"{text} (q {below:g})"


def _notes(rows: Sequence[OperatingRow]) -> Iterator[str]:
    yield "boxes: per frame. Thresholds S0 to S3 are chosen on training units, tuned ones on training and validation."
    if any("quantiles" in (row.cheap_scale, row.full_scale) for row in rows):
        yield (
            "Raw scores have a scale of their own: S1 and S3 keep a cheap mode with them as built, and its pairs are "
            "of quantiles (q: share of its training boxes below), not of the paper's probabilities."
        )
    yield from dict.fromkeys(f"{row.cell}, {row.scheme}: {row.reason}." for row in rows if row.reason)
    for cell in dict.fromkeys(row.cell for row in rows):
        of_pairs = [row for row in rows if row.cell == cell and row.scheme == PAIR]
        rates = [row.harm_rate for row in of_pairs if row.harm_rate is not None]
        ratios = [row.harm_ratio for row in of_pairs if row.harm_ratio is not None]
        if rates and ratios:
            yield (
                f"{cell}, {len(of_pairs)} pairs: harmed {percent(min(rates), 1)} to {percent(max(rates), 1)}, harm "
                f"ratio {number(min(ratios))} to {number(max(ratios))}."
            )


OPERATING_POINTS = Analysis(
    "operating-points",
    shows="Show harm at other detection thresholds",
    details=(
        "Harm under thresholds matched by boxes, F1 or precision (S0 to S3), under 25 pairs of thresholds, "
        "and under thresholds tuned on the loss of each mode."
    ),
    see="definitions.md#operating-points",
    paper="operating points",
    example="cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet --mode RRC=RRC.parquet",
    rows=rows,
    kind=OperatingRow,
    table=table,
    takes=LOCATED,
    by="cell",
    long=True,
    needs_data=True,
    among=(_applies, "no cell but of the receding horizon with oracle geometry"),
)
