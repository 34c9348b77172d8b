"""Cells and scores -> how much of a top-k choice is decided by ties: docs/analyses.md."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float
from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.judging.agreement import tie_audit
from deepval.judging.ties import nth_highest
from deepval.paper.analyses.judged import Units, judged
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import Table, lines_of, percent
from deepval.results import known
from deepval.tables.columns import positions
from deepval.tables.scores import Scores
from deepval.tables.shares import quota, share_of_inputs

VALUE = "decision value"
"""The ranking by V itself, which every cell has."""


@dataclass(frozen=True)
class TieRow:
    """What the top k of one ranking of a cell's inputs rests on.

    Attributes:
        cell: The cell.
        ranking: What ranks: the decision value itself, or an allocator.
        alpha: Share of inputs that may be escalated.
        quota: That many inputs, k.
        above: Inputs strictly above the cut.
        tied: Inputs tied at the cut.
        slots: Slots that the tied ones fill.
        share: Share of the choice that ties decide: 0 where the tied group fits exactly, None where k is 0.
        cut: The score at the cut; None where k is 0 or it is infinite.
    """

    cell: str
    ranking: str
    alpha: float
    quota: int
    above: int
    tied: int
    slots: int
    share: float | None
    cut: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    *,
    scores: Mapping[str, Iterable[Scores]] | None = None,
    alphas: Sequence[float] = (0.1, 0.2, 0.3, 0.5),
    units: Units = "all",
    watch: Watch = silent,
) -> list[TieRow]:
    """One row per cell, ranking and budget.

    Args:
        cells: Cells by name.
        scores: For each cell, allocators' scores aligned with its table; per-mode scores rank nothing and are left out.
        alphas: Shares of inputs that may be escalated.
        units: Units whose inputs are ranked.
        watch: Who is told how far it is.
    """
    shares, found = [share_of_inputs(alpha) for alpha in alphas], []
    for name, cell in watch(list(cells.items()), "ties"):
        table = judged(cell, units)
        kept = positions(table.input, cell.table.input)
        rankings = {VALUE: table.decision_values}
        for item in (scores or {}).get(name, ()):
            if not item.covered[kept].all():
                raise InputError(
                    f"{name}: every input that is ranked needs a score, and {item.name} has none for "
                    f"{np.count_nonzero(~item.covered[kept]):,} of {len(kept):,}: look at --units test, or score more."
                )
            if not item.modes:
                rankings[item.name] = item.values[kept]
        for ranking, score in rankings.items():
            found += [_row(name, ranking, score, alpha) for alpha in shares]
    return found


def _row(cell: str, ranking: str, score: Float[np.ndarray, "input"], alpha: float) -> TieRow:
    k = int(quota(len(score), alpha))
    audit = tie_audit(score, k)
    cut = nth_highest(score, k) if k else np.inf
    return TieRow(
        cell,
        ranking,
        alpha,
        k,
        audit.above,
        audit.tied,
        audit.slots,
        known(audit.share),
        float(cut) if np.isfinite(cut) else None,
    )


def table(rows: Sequence[TieRow]) -> Table:
    """The rows as a table."""
    header = ("cell", "ranking", "budget", "slots", "above the cut", "tied at it", "filled by ties", "decided by ties")
    texts = [
        (
            row.cell,
            row.ranking,
            percent(row.alpha, 0),
            f"{row.quota:,}",
            f"{row.above:,}",
            f"{row.tied:,}" + (" (at 0)" if row.cut == 0 else ""),
            f"{row.slots:,}",
            percent(row.share, 1),
        )
        for row in rows
    ]
    return Table("What ties decide", header, lines_of(texts))


def chart(rows: Sequence[TieRow]) -> Chart:
    """Share of each choice that ties decide."""
    return shares(
        "Share of the choice that ties decide",
        (Dot(f"{row.cell}: {row.ranking}", f"{row.alpha:.0%}", row.share) for row in rows),
    )
