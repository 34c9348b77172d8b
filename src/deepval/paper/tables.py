"""A run -> the paper's tables by name, filled with the figures of its cells, beside the
paper's if asked.

Entries that no cell of the run has are left open; rows of cells that the paper has not
follow the paper's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from statistics import median
from typing import Any

from deepval.basics.errors import InputError, suggestion
from deepval.judge.report.text_tables import (
    MISSING,
    Table,
    TableCell,
    mark_of,
    number,
    percent,
)
from deepval.judge.results import lists_by_key
from deepval.judge.tables.costs import read_costs
from deepval.paper.layouts import (
    LAYOUTS,
    LONG,
    NAMES,
    Figure,
    Kind,
    Layout,
    Line,
    PerCell,
    lines_of,
)
from deepval.paper.published_figures import (
    INPUTS,
    Records,
    holds,
    labels_of,
    place_of,
    places_of,
    published,
    value_of,
)
from deepval.paper.run import Run

Record = Mapping[str, Any]
OVERHEAD, HARDWARE = "overhead", "hardware"
TABLES = (
    "ceiling",
    "sign",
    "refgeom",
    "heldout-main",
    "heldout",
    "routers",
    "diag-heldout",
    "target",
    "calib",
    "power",
    OVERHEAD,
    "external",
    "mech",
    "signagree",
    "robust",
    "losssens",
    HARDWARE,
)
"""The tables of the paper by name."""
PLANNER_INPUTS = 2655
"""nuScenes frames with the logged future that the learned planner is judged by."""
OVERHEADS = (
    ("Random", "random"),
    ("Cheap-detection uncertainty", "uncertainty"),
    ("Cheap-side criticality", "criticality"),
    ("Detection-list router, MLP", "router-mlp-value"),
    ("Gate, ridge", "gate-ridge"),
    ("Gate, GBM, batched inference", "gate-gbm-batched"),
    ("Gate, GBM, one call per input", "gate-gbm"),
    ("Pixel router", "router-pixel"),
)


class NoFiguresError(InputError):
    """No cell of a run has a figure of a table."""


def analyses_of(name: str) -> tuple[str, ...]:
    """The analyses that a table's figures come from."""
    if name not in TABLES:
        raise InputError(
            f"A table must be one of {', '.join(TABLES)}; found "
            f"{name!r}{suggestion(name, TABLES)}"
        )
    if name == HARDWARE:
        return ()
    return ("budgets",) if name == OVERHEAD else LAYOUTS[name].analyses


def paper_tables(
    name: str,
    run: Run,
    records: Records,
    *,
    beside: bool = False,
    own: Sequence[str] = (),
) -> list[Table]:
    """A table of the paper with the figures of a run.

    A table with a column per cell goes on in further tables where there are more cells
    than the paper has in it.

    Args:
        name: One of `TABLES` but hardware, which is not about cells.
        run: A run of the analyses of `analyses_of(name)`.
        records: Its rows (`records_of`).
        beside: Whether each entry has its interval and the paper's value, and rows of
            the paper without a cell here are shown.
        own: Names of own allocators, which follow the paper's.
    """
    found = _Found(run, records, analyses_of(name))
    if name == OVERHEAD:
        return [_overhead(found, own)]
    layout = LAYOUTS[name]
    if own and layout.own is None:
        raise InputError(
            f"Table {name} has no allocators to put own ones beside: leave out --own."
        )
    return _filled(layout, found, beside=beside, own=own)


@dataclass(frozen=True)
class _Found:
    """The figures of a table's analyses in a run, by what they are about."""

    run: Run
    records: Records
    analyses: tuple[str, ...]

    @cached_property
    def by_kind(self) -> dict[tuple[str, Kind], list[Record]]:
        """Rows of the analyses, by analysis and by what they are about."""
        places = places_of(self.run)
        found = []
        for analysis in self.analyses:
            for collection, rows in self.records.get(analysis, {}).items():
                for row in rows:
                    keys = [(collection, label) for label in labels_of(row)]
                    place = place_of(row, [places[k] for k in keys if k in places])
                    if place is not None:
                        # An analysis may be about a cell that was not built.
                        dataset = collection.partition(",")[0]
                        kind = Kind(dataset, place.geometry, place.system, place.pair)
                        found.append(((analysis, kind), row))
        return lists_by_key(found)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Everything that some row is about, in the order of the run."""
        return tuple(dict.fromkeys(kind for _, kind in self.by_kind))

    def rows(self, figure: Figure, kind: Kind) -> list[Record]:
        """The rows that hold a figure of a kind."""
        return [
            row
            for row in self.by_kind.get((figure.analysis, kind), ())
            if holds(figure.where, row) and value_of(figure.field, row) is not None
        ]


def _filled(
    layout: Layout, found: _Found, *, beside: bool, own: Sequence[str]
) -> list[Table]:
    rows = tuple(lines_of(layout.rows, found.kinds, all_rows=beside))
    columns = tuple(lines_of(layout.columns, found.kinds, all_rows=beside))
    if layout.own is not None:
        columns += tuple(layout.own(name) for name in own)
    notes = (layout.note, *_notes(layout, rows, found, beside=beside))
    tables = []
    for part in _parts(layout, columns):
        body = _body(layout, rows, part, found, beside=beside)
        if body:
            continued = ", continued" if tables else ""
            tables.append(
                Table(
                    f"Table {layout.name}{continued}: {layout.caption}",
                    (*layout.heads, *(column.headings[0] for column in part)),
                    (body,),
                    tuple(filter(None, notes)),
                )
            )
    if not tables:
        raise NoFiguresError(
            f"Table {layout.name} needs cells that it has figures of; the "
            f"{len(found.run.cells)} cells here give none{_refusals(found)}."
        )
    return tables


def _parts(layout: Layout, columns: tuple[Line, ...]) -> Iterator[tuple[Line, ...]]:
    """The columns of each table: as many cells as the paper has in one."""
    if not isinstance(layout.columns, PerCell):
        yield columns
        return
    most = len(layout.columns.kinds)
    by_cell = lists_by_key((column.kind, column) for column in columns)
    groups = list(by_cell.values())
    for start in range(0, len(groups), most):
        yield tuple(chain.from_iterable(groups[start : start + most]))


def _body(
    layout: Layout,
    rows: Sequence[Line],
    columns: Sequence[Line],
    found: _Found,
    *,
    beside: bool,
) -> tuple[tuple[TableCell, ...], ...]:
    entry = _beside_paper if beside else _here
    body = []
    for row in rows:
        entries = [
            entry(_figures(row, column), _kind(row, column), found)
            for column in columns
        ]
        # A row whose cell is here may still lack every figure of this table.
        if beside or any(one.text != MISSING for one in entries):
            body.append((*map(TableCell, row.headings), *entries))
    if layout.name == "power":
        body.sort(key=lambda cells: _leading_number(cells[-1].text))
    return tuple(body)


def _refusals(found: _Found) -> str:
    """Why the analyses left cells out, each reason once."""
    reasons = dict.fromkeys(
        reason
        for analysis in found.analyses
        for outcome in found.run.outcomes.get(analysis, {}).values()
        for reason in outcome.refused
    )
    return "".join(f"; {reason.rstrip('.')}" for reason in [*reasons][:3])


def _leading_number(text: str) -> float:
    digits = text.partition("%")[0]
    return float(digits) if digits.replace(".", "", 1).isdigit() else float("inf")


def _figures(row: Line, column: Line) -> tuple[Figure, ...]:
    """The figures of an entry, read where row and column both say."""
    figures = row.figures or column.figures
    return tuple(
        replace(
            figure,
            where=";".join(filter(None, (row.where, column.where, figure.where))),
        )
        for figure in figures
    )


def _kind(row: Line, column: Line) -> Kind:
    # What a column says of a cell comes first: its system, of a row for several.
    return column.kind.with_rest(row.kind)


def _here(figures: Sequence[Figure], kind: Kind, found: _Found) -> TableCell:
    """The figures of this run."""
    texts, mark = [], ""
    for figure in figures:
        rows = found.rows(figure, kind)
        if not rows:
            return TableCell(MISSING)
        texts.append(_text(figure, [value_of(figure.field, row) for row in rows]))
        if figure.verdict:
            mark = rows[0].get(figure.verdict)
    return TableCell(" / ".join(texts), mark_of(mark))


def _text(figure: Figure, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not figure.is_span:
        return figure.form(known[0])
    ends = (figure.form(min(known)), figure.form(max(known)))
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"


def _beside_paper(figures: Sequence[Figure], kind: Kind, found: _Found) -> TableCell:
    """The figures of this run with their intervals, and the paper's behind a bar."""
    texts = []
    here = _here(figures, kind, found)
    for figure in figures:
        rows = found.rows(figure, kind)
        text = MISSING
        if rows:
            text = _text(figure, [value_of(figure.field, row) for row in rows])
            low, high = (rows[0].get(f"{figure.field}_{end}") for end in ("lo", "hi"))
            if low is not None and high is not None and not figure.is_span:
                text += f" [{figure.form(low)}, {figure.form(high)}]"
        texts.append(f"{text} | {_papers(figure, kind)}")
    return TableCell(" / ".join(texts), here.mark)


def _papers(figure: Figure, kind: Kind) -> str:
    """The paper's figure as text; a dash where it has none for this cell."""
    parts = frozenset(filter(None, figure.where.split(";")))
    found = _published().get((figure.analysis, figure.field, parts, kind))
    if found is not None:
        value, low, high = found
        return (
            _text(figure, [one for one in (value, low, high) if one is not None])
            if figure.is_span or value is not None
            else MISSING
        )
    if figure.field == "affected":
        share = _published().get((figure.analysis, "affected/inputs", parts, kind))
        if share is not None and share[0] is not None:
            inputs = INPUTS[kind.dataset]
            if kind.system.startswith("planner") and kind.system != "planner-self-ade":
                inputs = PLANNER_INPUTS
            return figure.form(round(share[0] * inputs))
    return MISSING


@cache
def _published() -> dict[tuple[Any, ...], tuple[float | None, ...]]:
    """The paper's figures and their ends, by analysis, field, condition and kind."""
    return {
        (
            figure.analysis,
            figure.field,
            frozenset(filter(None, figure.where.split(";"))),
            Kind(figure.dataset, figure.geometry, figure.system, figure.pair),
        ): (figure.value, figure.lo, figure.hi)
        for figure in published()
    }


def _notes(
    layout: Layout, rows: Sequence[Line], found: _Found, *, beside: bool
) -> Iterator[str]:
    every = [*lines_of(layout.rows, found.kinds, all_rows=True)]
    missing = len(every) - len(rows)
    if missing:
        yield f"{missing} of the paper's rows have no cell here."
    if beside:
        yield "Each entry: here, with its 95 % interval where it has one | the paper's."
    reasons = _refusals(found)
    if reasons:
        yield f"Left out{reasons.replace(';', ':', 1)}."


def _overhead(found: _Found, own: Sequence[str]) -> Table:
    """The share that allocators may escalate after paying for themselves, as the median
    over the cells of each data set.
    """
    by_dataset = {
        collection: rows
        for collection, rows in found.records.get("budgets", {}).items()
        if rows
    }
    datasets = sorted(by_dataset, key=lambda name: [*NAMES, name].index(name))
    named = [*OVERHEADS, *((name, name) for name in own)]

    def rows_for(allocator: str) -> list[list[Record]]:
        return [
            [
                row
                for row in by_dataset[dataset]
                if row["allocator"] == allocator and row["kind"] == "latency"
            ]
            for dataset in datasets
        ]

    body = []
    for heading, allocator in named:
        groups = rows_for(allocator)
        every = [row for group in groups for row in group]
        if every:
            shares = [
                " / ".join(_median_share(group, alpha) for group in groups)
                for alpha in (0.2, 0.5)
            ]
            texts = (heading, _cost_range(every), *shares)
            body.append(tuple(map(TableCell, texts)))
    if not body:
        raise NoFiguresError(
            "Table overhead needs allocators with a cost under a latency budget; the "
            f"cells here have none{_refusals(found)}."
        )
    names = [NAMES.get(dataset, dataset) for dataset in datasets]
    return Table(
        "Table overhead: Share of inputs that each deployable allocator can escalate "
        "under a measured per-input latency budget after paying for itself",
        ("Allocator", "Overhead per input", "Escalated at 20 %", "at 50 %"),
        (tuple(body),),
        (
            f"Median over the cells of {' / '.join(names)}.",
            "inf.: the allocator's own overhead exceeds the budget.",
        ),
    )


def _cost_range(rows: Sequence[Record]) -> str:
    costs = sorted({float(row["cost"] or 0.0) for row in rows})
    ends = dict.fromkeys(f"{cost:.3g}" for cost in (costs[0], costs[-1]))
    return f"{'–'.join(ends)} ms"


def _median_share(rows: Sequence[Record], alpha: float) -> str:
    at_level = [row for row in rows if row["alpha"] == alpha]
    if not at_level:
        return MISSING
    # An allocator that cannot run escalates less than any that can.
    shares = [-1.0 if row["share"] is None else row["share"] for row in at_level]
    middle = median(shares)
    return "inf." if middle < 0 else percent(middle, 1)


def hardware_table(name: str) -> Table:
    """What the modes of a profile cost; a file with costs or one of ours."""
    profile = read_costs(name)
    body = []
    for mode, charged in profile.modes.items():
        family, _, size = mode.rpartition("-")
        label = f"{LONG[family]} {size}" if family in LONG else mode
        texts = (label, number(charged.get("ms"), 2), _energy(charged.get("mj")))
        body.append(tuple(map(TableCell, texts)))
    return Table(
        f"Table hardware: What each mode costs per input, profile {name}",
        ("Mode", "End-to-end ms", "Energy mJ"),
        (tuple(body),),
        (
            "Energy is per frame: the GPU, CPU and SoC rails over idle. GPU times are "
            "not part of a profile.",
        ),
    )


def _energy(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def table_records(tables: Sequence[Table]) -> list[dict[str, str | float]]:
    """Rows by heading; a table that goes on in others has its rows once."""
    records: dict[str, dict[str, str | float]] = {}
    for table in tables:
        for row in table.rows:
            texts = [cell.text for cell in row]
            # What names a row: its first texts, which all parts of a table share.
            key = texts[0] if len(tables) > 1 else "\n".join(texts)
            entries = zip(table.header, map(_number, texts), strict=True)
            records.setdefault(key, {}).update(entries)
    return list(records.values())


def _number(text: str) -> str | float:
    """A text that is a number as that number; other texts as they are."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
