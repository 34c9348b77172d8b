"""Results of the cells of a data set -> every allocator's mean over them, with joint intervals."""

from collections.abc import Mapping, Sequence

from deepval.judging.over_cells import Pooled, pool
from deepval.report.table import Table, interval, lines_of, number, percent
from deepval.results import Result


def rows(results: Mapping[str, Result]) -> list[Pooled]:
    """One row per budget and allocator."""
    return list(pool(results))


def table(rows: Sequence[Pooled]) -> Table:
    """The rows as a table."""
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
