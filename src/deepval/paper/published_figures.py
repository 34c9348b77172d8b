"""Rows of a run and the paper's figures -> each of these beside the figure here, and
whether it lies inside the interval here.

A cell here is the `same` as one of the paper's if data set, modes, geometry and system
are the same, and a `part` of it if it then has fewer inputs. It is `like` one of the
paper's if everything but the modes is the same. The paper's own detections are not
public, so most cells are like, not the same.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from deepval.driving.cells.folder import BuiltCell
from deepval.judge.cases import JudgedCell
from deepval.judge.concordance import affected
from deepval.judge.report.text_tables import quantity
from deepval.judge.results import lists_by_key
from deepval.paper.analysis import ANALYSES, analysis
from deepval.paper.run import Run
from deepval.paper.study import loss_table

FILE = Path(__file__).with_name("published.csv")
SOURCE = "The Decision Value of Perception Compute"
Records = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Rows by analysis and collection."""
LEAST_AFFECTED, LEAST_UNITS = 30, 5
"""With fewer affected inputs than this, or with affected inputs in fewer units, a
figure here says nothing about the paper's: shares of so few inputs may take any value.
"""
ON_ALL_UNITS = ("external", "targets")
"""Analyses over all units that have no setting for it; other analyses without one judge
on test units.
"""
INPUTS = {"kitti": 8008, "nuscenes": 3376, "nuplan": 1440}
"""Number of inputs of each whole data set in the paper; on nuScenes, the learned
planner judges fewer.
"""


@dataclass(frozen=True)
class PublishedFigure:
    """One figure of the paper.

    Attributes:
        table: The paper's table or paragraph that contains it.
        row: Its row in the table.
        column: Its column.
        dataset: Data set of its cell; empty for a figure over many cells.
        pair: Modes of the cell, cheap -> full.
        geometry: Geometry of the cell.
        system: Downstream system of the cell; two systems joined by + for a figure
            about two consumers.
        analysis: The analysis that computes the corresponding figure here.
        field: The field of its rows: a name, or the ratio of two as a/b.
        where: What must hold in a row: name=value pairs joined by ;, with != for other
            than, @name for another field.
        over: How rows become one figure: empty for a single row; span for the rows of a
            cell, from least to largest; median, share, or pooled (a row that is pooled
            already) over all cells.
        value: The figure; None if only a range is published.
        lo: Lower end of its interval or range.
        hi: Upper end.
    """

    table: str
    row: str
    column: str
    dataset: str
    pair: str
    geometry: str
    system: str
    analysis: str
    field: str
    where: str
    over: str
    value: float | None
    lo: float | None
    hi: float | None

    @property
    def kind(self) -> tuple[str, str, str]:
        """What a cell here must share with the figure's cell to be like it: data set,
        geometry and system.
        """
        return self.dataset, self.geometry, self.system

    @property
    def quantity_key(self) -> tuple[str, str, str]:
        """The analysis, the field and the condition on rows that define the figure, for
        any cell.
        """
        return self.analysis, self.field, self.where


@cache
def published() -> tuple[PublishedFigure, ...]:
    """Every figure."""
    numbers = ("value", "lo", "hi")
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        PublishedFigure(
            **{  # pyright: ignore
                n: (float(t) if t else None) if n in numbers else t
                for n, t in row.items()
            }
        )
        for row in rows
    )


@dataclass(frozen=True)
class Place:
    """The properties of a cell here that are compared with the paper's cells."""

    dataset: str
    pair: str
    geometry: str
    system: str
    inputs: int = 0

    @property
    def whole(self) -> bool:
        """Whether the cell has all inputs of the paper's data set."""
        return self.inputs >= INPUTS.get(self.dataset, 0) or self.system.startswith(
            "planner"
        )


@dataclass(frozen=True)
class Affected:
    """On how much a figure here rests.

    Attributes:
        inputs: Number of inputs whose loss escalation changes; for several cells, in at
            least one of them.
        units: Number of units with such an input; None where the analysis counts other
            inputs than the cell does, because it has its own losses or thresholds.
    """

    inputs: int
    units: int | None

    @property
    def not_enough(self) -> str | None:
        """Why no figure should be read from so few inputs; None if they are enough."""
        enough_units = self.units is None or self.units >= LEAST_UNITS
        if self.inputs >= LEAST_AFFECTED and enough_units:
            return None
        words = f"not enough: {quantity(self.inputs, 'affected input')}"
        if self.units is None:
            return words
        return f"{words} in {quantity(self.units, 'unit')}"


@dataclass(frozen=True)
class Beside:
    """One figure of this run beside the paper's figure.

    Attributes:
        table: The paper's table or paragraph.
        quantity: The column of that table.
        analysis: The analysis.
        cell: The cell here; for a figure over many cells, a description of them.
        kinship: same, part, like, or over many cells.
        here: The figure here.
        here_lo: Lower end of its interval; for a figure over the rows of a cell, the
            least of them.
        here_hi: Upper end.
        paper_lo: The paper's figure, or the least over its pairs of modes.
        paper_hi: The paper's figure, or the largest over its pairs of modes.
        figures: Number of the paper's figures in this range.
        inside: Whether the paper's value lies inside the interval here: "yes", "no",
            "not enough: ..." with the number of affected inputs, or None without an
            interval. A range of the paper's lies inside if it shares a value with the
            interval.
    """

    table: str
    quantity: str
    analysis: str
    cell: str
    kinship: str
    here: float
    here_lo: float | None
    here_hi: float | None
    paper_lo: float
    paper_hi: float
    figures: int
    inside: str | None


@dataclass(frozen=True)
class BesidePaper:
    """All figures beside the paper's; and, by table, the number of figures without a
    counterpart here.
    """

    figures: tuple[Beside, ...]
    without: Mapping[str, int]


@dataclass(frozen=True)
class _Here:
    """A figure of this run with a counterpart in the paper."""

    cell: str
    place: Place
    value: float
    lo: float | None
    hi: float | None
    affected: Affected


class _Cells:
    """The cells of a run by collection and label, which count what a row rests on."""

    def __init__(self, cells: Mapping[tuple[str, str], BuiltCell]) -> None:
        self.cells = cells
        self.counted: dict[tuple[Any, ...], Affected] = {}

    def affected(
        self,
        analysis_name: str,
        keys: Sequence[tuple[str, str]],
        row: Mapping[str, Any],
    ) -> Affected:
        """What a row of an analysis on these cells rests on."""
        key = (analysis_name, *keys)
        if key not in self.counted:
            default = "all" if analysis_name in ON_ALL_UNITS else "test"
            units = analysis(analysis_name).settings.get("units", default)
            self.counted[key] = affected_in([self.cells[k] for k in keys], units)

        counted = self.counted[key]
        own = row.get("affected")
        if isinstance(own, int) and own != counted.inputs:
            return Affected(own, None)
        return counted


def affected_in(cells: Sequence[JudgedCell], units: str) -> Affected:
    """How many inputs of these units escalation affects in at least one of the cells,
    and in how many units they are.
    """
    inputs: set[str] = set()
    places: set[str] = set()
    for cell in cells:
        table = loss_table(cell, units)
        changed = affected(table.decision_values, tolerance=table.tolerance)
        inputs.update(table.input[changed].tolist())
        places.update(table.unit_ids[table.unit[changed]].tolist())
    return Affected(len(inputs), len(places))


def records_of(run: Run) -> Records:
    """The rows as dicts, by analysis and collection."""
    return {
        name: {
            dataset: analysis(name).stored(outcome.rows) if outcome.rows else []
            for dataset, outcome in run.outcomes[name].items()
        }
        for name in ANALYSES
        if name in run.outcomes
    }


def places_of(run: Run) -> dict[tuple[str, str], Place]:
    """What each cell of a run is, by collection and label."""
    return {
        (at.collection, at.name): Place(
            at.cell.spec.dataset,
            pair_of(at.cell.table.modes[0], at.cell.table.modes[-1]),
            at.cell.spec.geometry,
            at.cell.spec.system,
            len(at.cell.table),
        )
        for at in run.cells
    }


def pair_of(cheap: str, full: str) -> str:
    """Two modes as the file of published figures joins them."""
    return f"{cheap} -> {full}"


def compare_with_paper(run: Run, records: Records) -> BesidePaper:
    """The figures of a run beside those of the paper."""
    cells = _Cells({(at.collection, at.name): at.cell for at in run.cells})
    places = places_of(run)
    groups = lists_by_key(
        ((figure.kind, figure.quantity_key, figure.over), figure)
        for figure in published()
    )
    figures: list[Beside] = []
    without: dict[str, int] = {}
    for members in groups.values():
        many = members[0].over not in ("", "span")
        matches = (
            list(_pooled(members[0], records, cells))
            if many
            else list(_here(members[0], records, places, cells))
        )
        for here in matches:
            own = [figure for figure in members if figure.pair == here.place.pair]
            kinship = ("same" if here.place.whole else "part") if own else "like"
            figures.append(_beside(here, own or members, kinship=kinship))
        if not matches:
            without[members[0].table] = without.get(members[0].table, 0) + len(members)
    return BesidePaper(tuple(figures), without)


def _here(
    figure: PublishedFigure,
    records: Records,
    places: Mapping[tuple[str, str], Place],
    cells: _Cells,
) -> Iterator[_Here]:
    """Figures of like cells."""
    spans: dict[str, list[_Here]] = {}
    for collection, row in _rows_of(figure.dataset, records.get(figure.analysis, {})):
        labels = labels_of(row)
        keys = [key for label in labels if (key := (collection, label)) in places]
        place = place_of(row, [places[key] for key in keys])
        value = value_of(figure.field, row)
        if place is None or value is None or not holds(figure.where, row):
            continue
        if (place.geometry, place.system) == (figure.geometry, figure.system):
            bounds = (row.get(f"{figure.field}_lo"), row.get(f"{figure.field}_hi"))
            counted = cells.affected(figure.analysis, keys, row)
            match = _Here(", ".join(labels), place, value, *bounds, counted)
            if figure.over != "span":
                yield match
            spans.setdefault(match.cell, []).append(match)
    for cell, matches in spans.items() if figure.over == "span" else ():
        values = [entry.value for entry in matches]
        # the row that rests on least decides whether there is enough
        least = min((entry.affected for entry in matches), key=lambda of: of.inputs)
        ends = (min(values), max(values))
        yield _Here(cell, matches[0].place, median(values), *ends, least)


def _rows_of(
    dataset: str, records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of every collection of a data set."""
    for collection, rows in records.items():
        if collection.partition(",")[0] == dataset:
            yield from ((collection, row) for row in rows)


def labels_of(row: Mapping[str, Any]) -> list[str]:
    """The labels of the cells that a row is about."""
    names = ("cell", "source", "target", "first", "second")
    return [row[name] for name in names if row.get(name)]


def place_of(row: Mapping[str, Any], cells: Sequence[Place]) -> Place | None:
    """The cell that a row is about, from the columns of the row or from its cells; two
    consumers are joined.
    """
    if row.get("geometry") and row.get("system") and row.get("cheap"):
        of = cells[0] if cells else Place("", "", "", "")
        pair = pair_of(row["cheap"], row["full"])
        return Place(
            of.dataset,
            pair,
            row["geometry"],
            row["system"],
            row.get("inputs") or of.inputs,
        )
    if not cells:
        return None
    return replace(
        cells[0], system=row.get("planner") or "+".join(place.system for place in cells)
    )


def _pooled(
    figure: PublishedFigure, records: Records, cells: _Cells
) -> Iterator[_Here]:
    """A figure over all cells of each data set that the paper has cells of."""
    for dataset in sorted({entry.dataset for entry in published()} - {""}):
        rows = [
            row
            for row in records.get(figure.analysis, {}).get(dataset, ())
            if holds(figure.where, row)
        ]
        if not rows:
            continue
        keys = [key for key in cells.cells if key[0] == dataset]
        rests_on = cells.affected(figure.analysis, keys, {})
        place = Place(dataset, "", "", "")
        if figure.over == "pooled":
            for row in rows:
                value = value_of(figure.field, row)
                if not row.get("cell") and value is not None:
                    bounds = (
                        row.get(f"{figure.field}_lo", row.get("lo")),
                        row.get(f"{figure.field}_hi", row.get("hi")),
                    )
                    name = f"all cells of {dataset}"
                    yield _Here(name, place, value, *bounds, rests_on)
        elif figure.over == "share":
            share = sum(holds(figure.field, row) for row in rows) / len(rows)
            name = f"{len(rows)} rows of {dataset}"
            yield _Here(name, place, share, None, None, rests_on)
        else:
            every = [value_of(figure.field, row) for row in rows]
            values = [value for value in every if value is not None]
            if values:
                name = f"{len(values)} rows of {dataset}"
                yield _Here(name, place, median(values), None, None, rests_on)


def value_of(field: str, row: Mapping[str, Any]) -> float | None:
    """The number of a field, or of the ratio of two as a/b; None if undefined."""
    over, _, below = field.partition("/")
    value = row.get(over)
    if below:
        value = None if value is None or not row.get(below) else value / row[below]
    return None if value is None or not math.isfinite(value) else float(value)


def holds(where: str, row: Mapping[str, Any]) -> bool:
    """Whether all name=value pairs, joined by ;, hold in a row."""
    for part in filter(None, where.split(";")):
        name, _, text = part.partition("=")
        unlike, name = name.endswith("!"), name.removesuffix("!")
        value = str(row.get(text[1:])) if text.startswith("@") else text
        if (_text(row.get(name)) == value) is unlike:
            return False
    return True


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _beside(here: _Here, figures: Sequence[PublishedFigure], *, kinship: str) -> Beside:
    first = figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    low = min(
        [*values, *(f.lo for f in figures if f.value is None and f.lo is not None)]
    )
    high = max(
        [*values, *(f.hi for f in figures if f.value is None and f.hi is not None)]
    )
    many = first.over not in ("", "span")
    return Beside(
        table=first.table,
        quantity=first.column,
        analysis=first.analysis,
        cell=here.cell,
        kinship="over many cells" if many else kinship,
        here=here.value,
        here_lo=here.lo,
        here_hi=here.hi,
        paper_lo=low,
        paper_hi=high,
        figures=len(figures),
        inside=_inside(here, low, high),
    )


def _inside(here: _Here, low: float, high: float) -> str | None:
    """Whether the paper's value, or range, has a value inside the interval here."""
    if here.lo is None or here.hi is None:
        return None
    too_few = here.affected.not_enough
    if too_few is not None:
        return too_few
    return "yes" if here.lo <= high and low <= here.hi else "no"
