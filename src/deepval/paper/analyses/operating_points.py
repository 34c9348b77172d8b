"""Cells with their data -> what escalation does with each mode at its own threshold: docs/analyses.md.

Thresholds S0 to S3 are chosen on training units from precision, recall and counts alone; the pairs are a grid; tuned
ones minimise each mode's own downstream loss on training and validation units. Rows are over the units asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, ModeSpec, units_of
from deepval.cells.unit import variant_tables
from deepval.judging.draws import Draws, make_draws
from deepval.paper.analyses.judged import Units, harm, judged, place
from deepval.paper.analyses.thresholds import ALL, Counted, Ends, at_threshold, chosen, counted, ends_of, pairs, tuned
from deepval.perception.reported.score_thresholds import OperatingPoint
from deepval.progress import Watch, silent
from deepval.report.text_table import Table, interval, lines_of, number, percent
from deepval.results import known
from deepval.tables.values import ValueTable

BUILT, PAIR, TUNED = "as built", "pair", "tuned"


@dataclass(frozen=True)
class OperatingRow:
    """A cell with its two ends at some thresholds. None: undefined.

    Attributes:
        cell: The cell.
        cheap: Its cheap mode.
        full: Its full mode.
        geometry: How detections become objects.
        system: The downstream system.
        scheme: as built, S0 to S3, pair or tuned.
        cheap_scale: What thresholds of the cheap mode are: probabilities; quantiles, for raw scores told by their rank
            among the boxes of the training units; none, where it cannot be moved.
        full_scale: The same of the full mode.
        cheap_threshold: From which score on boxes of the cheap mode are used; None where all are.
        full_threshold: The same of the full mode.
        cheap_below: Share of the training boxes below the threshold, where a pair takes it from a quantile.
        full_below: The same of the full mode.
        cheap_boxes: Boxes of the cheap mode per frame that both modes were run on.
        full_boxes: The same of the full mode.
        cheap_precision: Share of its boxes that are right, of those that count.
        full_precision: The same of the full mode.
        cheap_recall: Share of the reference objects that it finds.
        full_recall: The same of the full mode.
        cheap_own_loss: Mean loss of the cheap mode alone on training and validation units, where it was tuned.
        full_own_loss: The same of the full mode.
        inputs: Number of inputs; None where the scheme is undefined, as is all below.
        units: Number of units.
        affected: Inputs whose loss the full mode changes.
        harmed: Those that it makes worse.
        harm_rate: Share of the affected inputs that are harmed, with its 95 % interval over units.
        harm_ratio: Total harm over total benefit, with its 95 % interval over units.
        draws: Number of draws.
        draws_dropped: Draws without any benefit, left out of the interval of the harm ratio.
        reason: Why the scheme is undefined here.
    """

    cell: str
    cheap: str
    full: str
    geometry: str
    system: str
    scheme: str
    cheap_scale: str
    full_scale: str
    cheap_threshold: float | None = None
    full_threshold: float | None = None
    cheap_below: float | None = None
    full_below: float | None = None
    cheap_boxes: float | None = None
    full_boxes: float | None = None
    cheap_precision: float | None = None
    full_precision: float | None = None
    cheap_recall: float | None = None
    full_recall: float | None = None
    cheap_own_loss: float | None = None
    full_own_loss: float | None = None
    inputs: int | None = None
    units: int | None = None
    affected: int | None = None
    harmed: int | None = None
    harm_rate: float | None = None
    harm_rate_lo: float | None = None
    harm_rate_hi: float | None = None
    harm_ratio: float | None = None
    harm_ratio_lo: float | None = None
    harm_ratio_hi: float | None = None
    draws: int | None = None
    draws_dropped: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class _Wanted:
    """A pair of thresholds to judge at, and how it came about."""

    point: OperatingPoint
    own_loss: tuple[float | None, float | None] = (None, None)


def rows(
    cells: Mapping[str, BuiltCell],
    located: Mapping[str, CellSpec],
    *,
    with_pairs: bool = True,
    with_tuned: bool = True,
    units: Units = "all",
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = silent,
) -> list[OperatingRow]:
    """Per cell: as it was built, S0 to S3, the tuned thresholds and the pairs.

    Args:
        cells: Cells by name.
        located: Their specifications with the data at hand, by the same names (`cells.located`).
        with_pairs: Whether to judge the grid of pairs.
        with_tuned: Whether to tune each mode to its own loss, which acts anew at every threshold.
        units: Units whose inputs are looked at.
        draws: Draws of units behind the intervals.
        seed: Their seed.
        watch: Who is told how far it is.
    """
    found: list[OperatingRow] = []
    for name, cell in cells.items():
        spec, like = located[name], judged(cell, units)
        ends = ends_of(spec, watch=watch)
        wanted = list(_wanted(spec, ends, with_pairs=with_pairs, with_tuned=with_tuned, watch=watch))
        drawn = make_draws(len(like.unit_ids), draws, seed)
        counts = _counted(spec, ends, wanted, units_of(cell.split, units), watch)
        tables = _tables(spec, like, wanted, watch)
        blank = {"cell": name, **place(cell), "cheap_scale": ends.cheap.kind, "full_scale": ends.full.kind}
        for each in wanted:
            row = OperatingRow(scheme=each.point.scheme, **blank)
            found.append(_filled(row, each, ends, counts, tables, drawn))
    return found


def _wanted(spec: CellSpec, ends: Ends, *, with_pairs: bool, with_tuned: bool, watch: Watch) -> Iterator[_Wanted]:
    cheap, full = (ALL if mode.threshold is None else mode.threshold for mode in (spec.modes[0], spec.modes[-1]))
    yield _Wanted(OperatingPoint(BUILT, cheap, full))
    grids = ends.cheap.grid, ends.full.grid
    for point in chosen(ends, counted(spec, ends, grids, spec.roles.train, watch=watch)):
        yield _Wanted(point)
    if with_tuned and {ends.cheap.kind, ends.full.kind} == {"none"}:
        yield _Wanted(OperatingPoint(TUNED, None, None, "neither mode can be moved"))
    elif with_tuned:
        one, other = tuned(spec, ends, spec.roles.fit, watch=watch)
        yield _Wanted(OperatingPoint(TUNED, one.threshold, other.threshold), (one.loss, other.loss))
    fixed = [f"{scale.why}, so it cannot be moved" for scale in (ends.cheap, ends.full) if scale.kind == "none"]
    if with_pairs and fixed:
        yield _Wanted(OperatingPoint(PAIR, None, None, fixed[0]))
    for cheap, full in pairs(ends) if with_pairs else ():
        yield _Wanted(OperatingPoint(PAIR, cheap, full))


Pair = tuple[float, float]


def _both(point: OperatingPoint) -> Pair | None:
    """The thresholds of a point; None where it is undefined."""
    return None if point.cheap is None or point.full is None else (point.cheap, point.full)


def _defined(wanted: Sequence[_Wanted]) -> list[Pair]:
    """The pairs of thresholds to judge at, each once."""
    return list(dict.fromkeys(pair for each in wanted if (pair := _both(each.point)) is not None))


def _counted(spec: CellSpec, ends: Ends, wanted: Sequence[_Wanted], units: Sequence[str], watch: Watch) -> Counted:
    cheap, full = (sorted({pair[end] for pair in _defined(wanted)}) for end in (0, 1))
    return counted(spec, ends, (cheap, full), units, watch=watch)


def _tables(spec: CellSpec, like: ValueTable, wanted: Sequence[_Wanted], watch: Watch) -> dict[Pair, ValueTable]:
    """The losses at every pair of thresholds; of one cheap threshold all full ones are judged together."""
    defined = _defined(wanted)
    cheap, full = (
        {t: _named(mode, place, t) for place, t in enumerate(sorted({pair[end] for pair in defined}))}
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


def _named(mode: ModeSpec, place: int, threshold: float) -> ModeSpec:
    return replace(at_threshold(mode, threshold), name=f"{mode.name} at {place}")


def _filled(
    row: OperatingRow, each: _Wanted, ends: Ends, counts: Counted, tables: Mapping[Pair, ValueTable], draws: Draws
) -> OperatingRow:
    pair = _both(each.point)
    if pair is None:
        return replace(row, reason=each.point.reason)
    told: dict[str, float | None] = {}
    for end, threshold, rates, scale, loss in zip(
        ("cheap", "full"), pair, (counts.cheap, counts.full), (ends.cheap, ends.full), each.own_loss, strict=True
    ):
        at = rates.threshold.tolist().index(threshold)
        ranked = each.point.scheme == PAIR and scale.kind == "quantiles"
        told |= {
            f"{end}_threshold": None if threshold == ALL else threshold,
            f"{end}_below": scale.steps[threshold] if ranked else None,
            f"{end}_boxes": float(rates.boxes[at]) / counts.frames if counts.frames else None,
            f"{end}_precision": known(float(rates.precision[at])),
            f"{end}_recall": known(float(rates.recall[at])),
            f"{end}_own_loss": loss,
        }
    table = tables[pair]
    return replace(row, **told, inputs=len(table), units=len(table.unit_ids), **harm(table, draws))


def table(rows: Sequence[OperatingRow]) -> Table:
    """The rows as a table, the pairs below."""
    header = (
        *("cell", "scheme", "thresholds", "boxes", "precision", "recall", "affected", "harmed", "95 %"),
        *("harm ratio", "95 %"),
    )
    parts = [[row for row in rows if (row.scheme == PAIR) == paired] for paired in (False, True)]
    sections = tuple(section for part in parts if part for section in lines_of(map(_texts, part)))
    return Table("Each mode at its own threshold", header, sections, tuple(_notes(rows)))


def _texts(row: OperatingRow) -> tuple[str, ...]:
    return (
        row.cell,
        row.scheme,
        "" if row.inputs is None else f"{_said(row, 'cheap')} -> {_said(row, 'full')}",
        _arrow(row.cheap_boxes, row.full_boxes),
        _arrow(row.cheap_precision, row.full_precision),
        _arrow(row.cheap_recall, row.full_recall),
        "" if row.affected is None else f"{row.affected:,}",
        percent(row.harm_rate, 1),
        interval(row.harm_rate_lo, row.harm_rate_hi, lambda share: percent(share, 1)),
        number(row.harm_ratio),
        interval(row.harm_ratio_lo, row.harm_ratio_hi),
    )


def _arrow(cheap: float | None, full: float | None) -> str:
    return "" if cheap is None and full is None else f"{number(cheap, 2)} -> {number(full, 2)}"


def _said(row: OperatingRow, end: str) -> str:
    threshold, below = getattr(row, f"{end}_threshold"), getattr(row, f"{end}_below")
    told = "all" if threshold is None else f"{threshold:.3g}"
    return told if below is None else f"{told} (q {below:g})"


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
