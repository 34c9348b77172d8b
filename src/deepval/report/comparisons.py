"""Two allocators compared -> tables of their paired differences, at budgets and over whole gain curves."""

from collections.abc import Iterator, Sequence

from deepval.judging.comparison import Comparison
from deepval.judging.over_cells import PooledComparison
from deepval.report.tables import (
    IN_LOSS,
    MISSING,
    SECOND,
    SECOND_BOUNDS,
    Table,
    TableCell,
    interval,
    lines_of,
    mark_of,
    number,
    percent,
)
from deepval.results import Area


def comparison_table(rows: Sequence[Comparison | PooledComparison]) -> Table:
    """Paired differences between two allocators, on one table or as means over cells."""
    header = ["budget", "difference", "95 %", "nDG", SECOND_BOUNDS, SECOND, "verdict"]
    over = any(isinstance(row, PooledComparison) for row in rows)
    if over:
        header[4:6] = ["nDG 95 %", "better / worse in"]
    cells = []
    for row in rows:
        mark = mark_of(row.verdict)
        difference, bounds = percent(row.difference), interval(row.lo, row.hi, percent)
        if isinstance(row, Comparison) and row.unit == "loss":
            difference, bounds = number(row.loss), interval(row.loss_lo, row.loss_hi)
        more = [MISSING if row.ndg_difference is None else f"{row.ndg_difference:+.3f}"]
        if isinstance(row, PooledComparison):
            more += [interval(row.ndg_lo, row.ndg_hi), f"{row.cells_better} / {row.cells_worse} of {row.cells} cells"]
        else:
            more += _second_of(row)
        texts = (row.budget.label, difference, bounds, *more, row.verdict or "")
        cells.append(tuple(TableCell(text, mark if i == 1 else "") for i, text in enumerate(texts)))
    extra = () if over else (SECOND_BOUNDS,)
    return Table(_comparison_title(rows), tuple(header), (tuple(cells),), tuple(_comparison_notes(rows)), extra)


def _second_of(row: Comparison) -> tuple[str, str]:
    """As of a row: the interval of the second opinion, and what it says."""
    if row.second_verdict is None:
        return "", ""
    said = "agrees" if row.second_verdict == row.verdict else row.second_verdict
    if row.unit == "loss":
        return interval(row.second_loss_lo, row.second_loss_hi), said
    return interval(row.second_lo, row.second_hi, percent), said


def _comparison_title(rows: Sequence[Comparison | PooledComparison]) -> str:
    if not rows:
        return "Nothing compared"
    first = rows[0]
    part = "" if first.of == "gain" else f"{first.of}, "
    over = f", mean over {first.cells} cells" if isinstance(first, PooledComparison) else ""
    return f"{first.candidate} against {first.baseline}, {part}shares of the all-cheap loss{over}"


def _comparison_notes(rows: Sequence[Comparison | PooledComparison]) -> Iterator[str]:
    yield from sorted({row.reason for row in rows if row.reason})
    if any(isinstance(row, Comparison) and row.unit == "loss" for row in rows):
        yield IN_LOSS
    if any(row.of == "harm" for row in rows):
        yield "Less harm is better: a difference below 0 is in favour of the candidate."
    left = max((row.dropped for row in rows), default=0)
    if left:
        yield f"Up to {left} of {rows[0].draws} draws without a positive all-cheap loss could not be compared."
    pooled = [row for row in rows if isinstance(row, PooledComparison)]
    small = max((row.ndg_dropped for row in pooled), default=0)
    if small:
        yield f"Up to {small} of {rows[0].draws} draws are left out of an nDG interval (small prize in some cell)."
    missed = max((row.rates_missed or 0 for row in pooled), default=0)
    if missed:
        yield f"In up to {missed} of {pooled[0].cells} cells a causal policy misses its rate."


def area_table(row: Area) -> Table:
    """The area between two gain curves."""
    share = row.unit == "share"
    form = percent if share else number
    found = (row.difference, row.lo, row.hi) if share else (row.loss, row.loss_lo, row.loss_hi)
    header = ("candidate", "baseline", "area between", "95 %", "verdict")
    text = (row.candidate, row.baseline, form(found[0]), interval(found[1], found[2], form), row.verdict or MISSING)
    note = "area between gain curves: mean difference over all shares of inputs, " + (
        "as a share of the all-cheap loss." if share else "in units of the loss."
    )
    return Table("Area between gain curves", header, lines_of([text]), (note,))
