"""Rows of a run and the paper's figures -> what agrees, in words: same sign, inside the
interval or range, same order.

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
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from deepval.paper.findings.rules import Records
from deepval.paper.run import Run
from deepval.results import lists_by_key

FILE = Path(__file__).with_name("published.csv")
SOURCE = "The Decision Value of Perception Compute"
INPUTS = {"kitti": 8008, "nuscenes": 3376, "nuplan": 1440}
"""Number of inputs of each whole data set in the paper; on nuScenes, the learned
planner judges fewer.
"""


@dataclass(frozen=True)
class Figure:
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
        neutral: The value that divides its two signs, such as 0; None if there is none.
        verdict: Its verdict against random; empty if it has none.
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
    neutral: float | None
    verdict: str

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
def published() -> tuple[Figure, ...]:
    """Every figure."""
    numbers = ("value", "lo", "hi", "neutral")
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Figure(
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
class Beside:
    """One figure of this run beside the paper's figure.

    Attributes:
        table: The paper's table or paragraph.
        quantity: The column of that table.
        analysis: The analysis.
        cell: The cell here; for a figure over many cells, a description of them.
        kinship: same, part, like, or over many cells.
        here: The figure here.
        here_lo: Lower end of its interval.
        here_hi: Upper end.
        paper_lo: The paper's figure, or the least over its pairs of modes.
        paper_hi: The paper's figure, or the largest over its pairs of modes.
        figures: Number of the paper's figures in this range.
        same_sign: Whether both figures lie on the same side of `neutral`; None if there
            is no neutral value, or if the paper's figures lie on both sides of it.
        inside: Whether the interval here contains the paper's figure, or the paper's
            interval or range contains the figure here; None if there is neither.
        same_verdict: Whether the verdict against random is the same; None if there is
            no verdict.
        words: The comparison in words.
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
    same_sign: bool | None
    inside: bool | None
    same_verdict: bool | None
    words: str


@dataclass(frozen=True)
class Order:
    """How often pairs of figures have the same order here as in the paper; only pairs
    on which the paper itself agrees.

    Attributes:
        table: The paper's table.
        quantity: What is ordered.
        among: What the pairs are of: cells of one pair of modes, or rows of one cell.
        of: The pair of modes, or the cell.
        pairs: Number of pairs that have a strict order both here and in the paper.
        same: Number of these pairs with the same order in both.
        words: Both numbers in words.
    """

    table: str
    quantity: str
    among: str
    of: str
    pairs: int
    same: int
    words: str


@dataclass(frozen=True)
class Agreement:
    """All comparisons with the paper's figures; and, by table, the number of figures
    without a counterpart here.
    """

    figures: tuple[Beside, ...]
    orders: tuple[Order, ...]
    without: Mapping[str, int]


@dataclass(frozen=True)
class _Here:
    """A figure of this run with a counterpart in the paper."""

    cell: str
    place: Place
    value: float
    lo: float | None
    hi: float | None
    verdict: str | None


def compare_with_paper(run: Run, records: Records) -> Agreement:
    """The figures of a run compared with those of the paper."""
    places = {
        (at.collection, at.label): Place(
            at.cell.spec.dataset,
            f"{at.cell.table.modes[0]} -> {at.cell.table.modes[-1]}",
            at.cell.spec.geometry,
            at.cell.spec.system,
            len(at.cell.table),
        )
        for at in run.cells
    }
    groups = lists_by_key(
        ((figure.kind, figure.quantity_key, figure.over), figure)
        for figure in published()
    )
    figures: list[Beside] = []
    without: dict[str, int] = {}
    met: dict[tuple[Any, ...], list[_Here]] = {}
    for key, members in groups.items():
        many = members[0].over not in ("", "span")
        matches = (
            list(_pooled(members[0], records))
            if many
            else list(_here(members[0], records, places))
        )
        met[key] = matches
        for here in matches:
            own = [figure for figure in members if figure.pair == here.place.pair]
            kinship = ("same" if here.place.whole else "part") if own else "like"
            figures.append(_beside(here, own or members, kinship=kinship))
        if not matches:
            without[members[0].table] = without.get(members[0].table, 0) + len(members)
    return Agreement(tuple(figures), tuple(_orders(groups, met)), without)


def _here(
    figure: Figure, records: Records, places: Mapping[tuple[str, str], Place]
) -> Iterator[_Here]:
    """Figures of like cells."""
    spans: dict[str, list[_Here]] = {}
    for collection, row in _rows_of(figure.dataset, records.get(figure.analysis, {})):
        labels = [
            row[name]
            for name in ("cell", "source", "target", "first", "second")
            if row.get(name)
        ]
        place = _place(
            row,
            [places[key] for label in labels if (key := (collection, label)) in places],
        )
        value = _value(figure.field, row)
        if place is None or value is None or not _holds(figure.where, row):
            continue
        if (place.geometry, place.system) == (figure.geometry, figure.system):
            bounds = (row.get(f"{figure.field}_lo"), row.get(f"{figure.field}_hi"))
            match = _Here(", ".join(labels), place, value, *bounds, row.get("verdict"))
            if figure.over != "span":
                yield match
            spans.setdefault(match.cell, []).append(match)
    for cell, matches in spans.items() if figure.over == "span" else ():
        values = [entry.value for entry in matches]
        yield _Here(
            cell, matches[0].place, median(values), min(values), max(values), None
        )


def _rows_of(
    dataset: str, records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of every collection of a data set."""
    for collection, rows in records.items():
        if collection.partition(",")[0] == dataset:
            yield from ((collection, row) for row in rows)


def _place(row: Mapping[str, Any], cells: Sequence[Place]) -> Place | None:
    """The cell that a row is about, from the columns of the row or from its cells; two
    consumers are joined.
    """
    if row.get("geometry") and row.get("system") and row.get("cheap"):
        of = cells[0] if cells else Place("", "", "", "")
        pair = f"{row['cheap']} -> {row['full']}"
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


def _pooled(figure: Figure, records: Records) -> Iterator[_Here]:
    """A figure over all cells of each data set that the paper has cells of."""
    for dataset in sorted({entry.dataset for entry in published()} - {""}):
        rows = [
            row
            for row in records.get(figure.analysis, {}).get(dataset, ())
            if _holds(figure.where, row)
        ]
        place = Place(dataset, "", "", "")
        if figure.over == "pooled":
            for row in rows:
                value = _value(figure.field, row)
                if not row.get("cell") and value is not None:
                    bounds = (
                        row.get(f"{figure.field}_lo", row.get("lo")),
                        row.get(f"{figure.field}_hi", row.get("hi")),
                    )
                    yield _Here(f"all cells of {dataset}", place, value, *bounds, None)
        elif figure.over == "share":
            if rows:
                share = sum(_holds(figure.field, row) for row in rows) / len(rows)
                yield _Here(
                    f"{len(rows)} rows of {dataset}", place, share, None, None, None
                )
        else:
            values = [
                value
                for row in rows
                if (value := _value(figure.field, row)) is not None
            ]
            if values:
                yield _Here(
                    f"{len(values)} rows of {dataset}",
                    place,
                    median(values),
                    None,
                    None,
                    None,
                )


def _value(field: str, row: Mapping[str, Any]) -> float | None:
    over, _, below = field.partition("/")
    value = row.get(over)
    if below:
        value = None if value is None or not row.get(below) else value / row[below]
    return None if value is None or not math.isfinite(value) else float(value)


def _holds(where: str, row: Mapping[str, Any]) -> bool:
    for part in filter(None, where.split(";")):
        name, _, text = part.partition("=")
        unlike, name = name.endswith("!"), name.removesuffix("!")
        value = str(row.get(text[1:])) if text.startswith("@") else text
        if (_text(row.get(name)) == value) is unlike:
            return False
    return True


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _beside(here: _Here, figures: Sequence[Figure], *, kinship: str) -> Beside:
    first = figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    low = min(
        [*values, *(f.lo for f in figures if f.value is None and f.lo is not None)]
    )
    high = max(
        [*values, *(f.hi for f in figures if f.value is None and f.hi is not None)]
    )
    sign = _same_sign(here.value, low, high, first.neutral)
    inside, clause = _inside(here, first, low, high, len(figures))
    verdict = (
        None
        if not first.verdict or here.verdict is None or len(figures) > 1
        else here.verdict == first.verdict
    )
    words = [clause]
    if sign is not None:
        side = "sign" if first.neutral == 0 else f"side of {first.neutral:g}"
        words.append(f"{'same' if sign else 'other'} {side}")
    if verdict is not None:
        words.append(
            f"both {here.verdict}"
            if verdict
            else f"{first.verdict} there, {here.verdict} here"
        )
    many = first.over not in ("", "span")
    kinship = "over many cells" if many else kinship
    numbers = (here.value, here.lo, here.hi, low, high)
    sentence = "; ".join(filter(None, words)) or "no interval to tell by"
    return Beside(
        first.table,
        first.column,
        first.analysis,
        here.cell,
        kinship,
        *numbers,
        len(figures),
        sign,
        inside,
        verdict,
        sentence,
    )


def _same_sign(
    here: float, low: float, high: float, neutral: float | None
) -> bool | None:
    if neutral is None or (low - neutral) * (high - neutral) <= 0:
        return None
    return (here - neutral) * (low - neutral) > 0


def _inside(
    here: _Here, figure: Figure, low: float, high: float, number: int
) -> tuple[bool | None, str]:
    """Whether one side's interval contains the other side's figure, and the same in
    words.
    """
    if number > 1 or figure.value is None:
        what = (
            f"the range of the paper's {number} pairs"
            if number > 1
            else "the paper's range"
        )
        if low <= here.value <= high:
            return True, f"inside {what}"
        if (
            here.lo is not None
            and here.hi is not None
            and here.lo <= high
            and here.hi >= low
        ):
            return (
                True,
                (
                    f"{'above' if here.value > high else 'below'} {what}, the interval "
                    "here reaches into it"
                ),
            )
        return False, f"{'above' if here.value > high else 'below'} {what}"
    if figure.lo is not None and figure.hi is not None:
        holds = figure.lo <= here.value <= figure.hi
        return holds, f"{'inside' if holds else 'outside'} the paper's interval"
    if here.lo is not None and here.hi is not None:
        holds = here.lo <= low <= here.hi
        return (
            holds,
            (
                f"the interval here {'holds' if holds else 'does not hold'} the "
                "paper's figure"
            ),
        )
    return None, ""


def _orders(
    groups: Mapping[tuple[Any, ...], list[Figure]],
    met: Mapping[tuple[Any, ...], list[_Here]],
) -> Iterator[Order]:
    """Orders among cells of one pair of modes, and among the rows of one cell."""
    among_cells: dict[tuple[str, str, Any, str], list[tuple[Any, ...]]] = {}
    among_rows: dict[tuple[str, str, Any, str], list[tuple[Any, ...]]] = {}
    for key, members in groups.items():
        first = members[0]
        if first.over or first.value is None:
            continue
        for here in met[key]:
            entry = (key, here.value)
            among_cells.setdefault(
                (first.table, first.column, first.quantity_key, here.place.pair), []
            ).append(entry)
            among_rows.setdefault(
                (first.table, first.field, first.kind, here.cell), []
            ).append(entry)
    for groups_of, what in ((among_cells, "cells"), (among_rows, "rows")):
        for (table, quantity, _, of), entries in groups_of.items():
            pairs = [
                agrees
                for one, other in combinations(entries, 2)
                if (agrees := _same_order(groups, one, other)) is not None
            ]
            if pairs:
                words = f"same order in {sum(pairs)} of {len(pairs)} pairs"
                yield Order(table, quantity, what, of, len(pairs), sum(pairs), words)


def _same_order(
    groups: Mapping[tuple[Any, ...], list[Figure]],
    one: tuple[Any, ...],
    other: tuple[Any, ...],
) -> bool | None:
    """Whether two figures have the same order here as in the paper.

    None where they are equal here, or where the paper's pairs of modes do not all agree
    on the order.
    """
    first, second = (
        {f.pair: f.value for f in groups[key] if f.value is not None}
        for key in (one[0], other[0])
    )
    signs = {
        first[pair] > second[pair]
        for pair in first.keys() & second.keys()
        if first[pair] != second[pair]
    }
    if len(signs) != 1 or one[1] == other[1]:
        return None
    return (one[1] > other[1]) in signs
