"""Comparisons of two allocators -> their table, and the area between gain curves."""

from collections.abc import Iterator, Sequence

from deepval.judge.pairs import ComparisonRow
from deepval.judge.pooled import PooledComparison
from deepval.judge.report.tables.verdicts import (
    IN_LOSS,
    SECOND,
    SECOND_BOUNDS,
    second_opinion,
)
from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    TableCell,
    interval,
    lines_of,
    mark_of,
    number,
    percent,
    quantity,
    tabulate,
)
from deepval.judge.results import Area, Row

AnyComparison = ComparisonRow | PooledComparison | Area


def is_in_loss(row: AnyComparison) -> bool:
    """Whether a difference is in units of the loss; means over cells are shares."""
    return not isinstance(row, PooledComparison) and row.unit == "loss"


def difference(row: AnyComparison) -> str:
    """The difference, in percent of the all-cheap loss or in its units."""
    if not isinstance(row, PooledComparison) and row.unit == "loss":
        return number(row.loss)
    return percent(row.difference)


def bounds(row: AnyComparison) -> str:
    """The interval of the difference."""
    if not isinstance(row, PooledComparison) and row.unit == "loss":
        return interval(row.loss_lo, row.loss_hi)
    return interval(row.lo, row.hi, percent)


def comparison_table(
    rows: Sequence[ComparisonRow | PooledComparison], judged: Sequence[Row] = ()
) -> Table:
    """Paired differences between two allocators, on one value table or as means over
    cells.

    A note names those of the `judged` rows that are not to be run.
    """
    more = POOLED if any(isinstance(row, PooledComparison) for row in rows) else PAIRED
    columns = [*COLUMNS, *more, Column("verdict", lambda row: row.verdict or "")]
    beaten = {}
    for row in judged:
        if row.answer == "do not run":
            why = row.lead_words or row.reason
            note = f"{row.label}: do not run {row.name}: {why} against "
            beaten[f"{note}the best blind choice."] = None
    return tabulate(_title(rows), columns, rows, notes=[*_notes(rows), *beaten])


def _difference_cell(row: ComparisonRow | PooledComparison) -> TableCell:
    return TableCell(difference(row), mark_of(row.verdict))


def _ndg(row: ComparisonRow | PooledComparison) -> str:
    return MISSING if row.ndg_difference is None else f"{row.ndg_difference:+.3f}"


def _second_bounds(row: ComparisonRow) -> str:
    if row.second_verdict is None:
        return ""
    if row.unit == "loss":
        return interval(row.second_loss_lo, row.second_loss_hi)
    return interval(row.second_lo, row.second_hi, percent)


def _cells(row: PooledComparison) -> str:
    return f"{row.cells_better} / {row.cells_worse} of {row.cells} cells"


COLUMNS = (
    Column("budget", lambda row: row.budget.label),
    Column("difference", _difference_cell),
    Column("95 %", bounds),
    Column("nDG", _ndg, rank=4),
)
PAIRED = (
    Column(SECOND_BOUNDS, _second_bounds, rank=1),
    Column(SECOND, second_opinion, rank=3),
)
POOLED = (
    Column("nDG 95 %", lambda row: interval(row.ndg_lo, row.ndg_hi), rank=2),
    Column("better / worse in", _cells, rank=3),
)


def _title(rows: Sequence[ComparisonRow | PooledComparison]) -> str:
    if not rows:
        return "Nothing compared"
    first = rows[0]
    part = "" if first.of == "gain" else f"{first.of}, "
    title = (
        f"{first.candidate} against {first.baseline}, {part}shares of the all-cheap "
        "loss"
    )
    if isinstance(first, PooledComparison):
        title += f", mean over {quantity(first.cells, 'cell')}"
    return title


def _notes(rows: Sequence[ComparisonRow | PooledComparison]) -> Iterator[str]:
    yield from sorted({row.reason for row in rows if row.reason})
    if any(map(is_in_loss, rows)):
        yield IN_LOSS
    if any(row.of == "harm" for row in rows):
        yield "Less harm is better: a difference below 0 favours the candidate."
    left_out = max((row.dropped for row in rows), default=0)
    if left_out:
        yield (
            f"Up to {left_out} of {rows[0].draws} draws without a positive all-cheap "
            "loss could not be compared."
        )
    pooled = [row for row in rows if isinstance(row, PooledComparison)]
    small = max((row.ndg_dropped for row in pooled), default=0)
    if small:
        yield (
            f"Up to {small} of {rows[0].draws} draws are left out of an nDG interval: "
            "in some cell the oracle's gain is too small."
        )
    missed = max((row.rates_missed or 0 for row in pooled), default=0)
    if missed:
        yield (
            f"In up to {missed} of {pooled[0].cells} cells a causal "
            "policy misses its rate."
        )


def area_table(row: Area) -> Table:
    """The area between two gain curves."""
    header = ("candidate", "baseline", "area between", "95 %", "verdict")
    verdict = row.verdict or MISSING
    texts = (row.candidate, row.baseline, difference(row), bounds(row), verdict)
    unit = (
        "in units of the loss"
        if is_in_loss(row)
        else "as a share of the all-cheap loss"
    )
    note = (
        f"area between gain curves: mean difference over all shares of inputs, {unit}."
    )
    return Table("Area between gain curves", header, lines_of([texts]), (note,))
