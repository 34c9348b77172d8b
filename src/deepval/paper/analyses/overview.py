"""Results of the cells of a data set -> every allocator in every cell, free and
charged, and means over the cells.
"""

from collections.abc import Mapping, Sequence

from deepval.judging.allowances import LEVELS
from deepval.judging.pooled import Pooled, pool
from deepval.paper.analysis import Declared
from deepval.report.tables.overview import overview
from deepval.report.text_tables import Table, interval, lines_of, number, percent
from deepval.results import Result


def free(results: Mapping[str, Result]) -> list[Table]:
    """One table per level of the selection budget."""
    return [overview(results, alpha=alpha) for alpha in LEVELS]


def charged(results: Mapping[str, Result]) -> list[Table]:
    """One table per level of the latency budget."""
    return [overview(results, kind="latency", alpha=alpha) for alpha in LEVELS]


def pooled(results: Mapping[str, Result]) -> list[Pooled]:
    """One row per budget and allocator: its mean over the cells, with a joint
    interval.
    """
    return list(pool(results))


def pooled_table(rows: Sequence[Pooled]) -> Table:
    """The means as a table."""
    header = ("budget", "allocator", "nDG", "95 %", "vs random", "95 %", "verdict")
    texts = [
        (
            row.budget.label,
            row.allocator,
            number(row.ndg),
            interval(row.ndg_lo, row.ndg_hi),
            percent(row.versus_random),
            interval(row.versus_random_lo, row.versus_random_hi, percent),
            row.verdict or "",
        )
        for row in rows
    ]
    return Table("Means over the cells", header, lines_of(texts))


OVERVIEW = Declared(
    "overview",
    shows="Show every allocator in every cell",
    details=(
        "nDG of every allocator (rows) in every cell (columns) under selection budgets."
    ),
    paper="held-out tables",
    example="",
    rows=free,
    kind=Table,
    tables=list,
    takes={"results": "results"},
    records=lambda tables: (),
)
CHARGED = Declared(
    "charged",
    shows="Show every charged allocator in every cell",
    details=(
        "nDG of every allocator (rows) in every cell (columns) under latency budgets."
    ),
    paper="measured budgets",
    example="",
    rows=charged,
    kind=Table,
    tables=list,
    takes={"results": "charged"},
    records=lambda tables: (),
)
POOLED = Declared(
    "pooled",
    shows="Show the mean of every allocator over the cells",
    details=(
        "Mean nDG and gain against random of every allocator over the cells, with "
        "joint intervals."
    ),
    paper="held-out tables",
    example="",
    rows=pooled,
    kind=Pooled,
    table=pooled_table,
    takes={"results": "results"},
)
