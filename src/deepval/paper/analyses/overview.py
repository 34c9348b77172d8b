"""Results of the cells of a data set -> every allocator in every cell, free and
charged, and means over the cells.
"""

from collections.abc import Iterator, Sequence

from deepval.judge.allowances import LEVELS
from deepval.judge.pooled import Pooled, pool
from deepval.judge.report.tables.overview import overview
from deepval.judge.report.text_tables import Table, TableCell, interval, number, percent
from deepval.paper.analysis import Analysis
from deepval.paper.columns import ALLOCATOR, budget_text
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Row, or_nothing, printed

TABLE = (
    Column("title", "Title of the table"),
    Column("header", "Its headings"),
    Column("sections", "Its lines, by section, as pairs of text and mark"),
    Column("notes", "Sentences below it"),
    Column("extra", "Headings that a narrow terminal leaves out first"),
)
"""A printed table; its columns are the cells, so its lines cannot be rows."""
POOLED_COLUMNS = tuple(Column(name) for name in Pooled.columns())
MEANS = (
    Column("kind", heading="budget", text_of_row=budget_text),
    ALLOCATOR,
    Column("ndg", heading="nDG", text=number),
    Column(
        "ndg_lo",
        heading="95 %",
        text_of_row=lambda row: interval(row["ndg_lo"], row["ndg_hi"]),
    ),
    Column("versus_random", heading="vs random", text=percent),
    Column(
        "versus_random_lo",
        heading="95 %",
        text_of_row=lambda row: interval(
            row["versus_random_lo"], row["versus_random_hi"], percent
        ),
    ),
    Column("verdict", heading="verdict", text=or_nothing),
)


def free(cells: Sequence[Cell]) -> Iterator[Row]:
    """One table per level of the selection budget."""
    results = of_each(cells, "results")
    for alpha in LEVELS:
        yield _parts(overview(results, alpha=alpha))


def charged(cells: Sequence[Cell]) -> Iterator[Row]:
    """One table per level of the latency budget."""
    results = of_each(cells, "charged")
    for alpha in LEVELS:
        yield _parts(overview(results, kind="latency", alpha=alpha))


def _parts(table: Table) -> Row:
    sections = []
    for section in table.sections:
        lines = [tuple((cell.text, cell.mark) for cell in line) for line in section]
        sections.append(tuple(lines))
    return vars(table) | {"sections": tuple(sections)}


def tables(rows: Sequence[Row]) -> list[Table]:
    """The tables of the rows."""
    whole = []
    for row in rows:
        sections = []
        for section in row["sections"]:
            lines = [tuple(TableCell(*cell) for cell in line) for line in section]
            sections.append(tuple(lines))
        whole.append(
            Table(
                row["title"],
                tuple(row["header"]),
                tuple(sections),
                tuple(row["notes"]),
                tuple(row["extra"]),
            )
        )
    return whole


def pooled(cells: Sequence[Cell]) -> Iterator[Row]:
    """One row per budget and allocator: its mean over the cells, with a joint
    interval.
    """
    for row in pool(of_each(cells, "results")):
        yield dict(row)


OVERVIEW = Analysis(
    name="overview",
    shows="Show every allocator in every cell",
    details=(
        "nDG of every allocator (rows) in every cell (columns) under selection budgets."
    ),
    paper="held-out tables",
    example="",
    rows=free,
    columns=TABLE,
    tables=tables,
    asks=("results",),
    records=lambda row: (),
)
CHARGED = Analysis(
    name="charged",
    shows="Show every charged allocator in every cell",
    details=(
        "nDG of every allocator (rows) in every cell (columns) under latency budgets."
    ),
    paper="measured budgets",
    example="",
    rows=charged,
    columns=TABLE,
    tables=tables,
    asks=("charged",),
    records=lambda row: (),
)
POOLED = Analysis(
    name="pooled",
    shows="Show the mean of every allocator over the cells",
    details=(
        "Mean nDG and gain against random of every allocator over the cells, with "
        "joint intervals."
    ),
    paper="held-out tables",
    example="",
    rows=pooled,
    columns=POOLED_COLUMNS,
    tables=lambda rows: [printed("Means over the cells", MEANS, rows)],
    asks=("results",),
)
