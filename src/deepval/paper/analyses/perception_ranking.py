"""Cells and scores -> whether the best signals by perception gain are the best by decision gain.

docs/definitions.md, Choosing an allocator. Protocol, budgets and ties are the same under both objectives; only what is
summed over the escalated test inputs changes. The counts are descriptive: pairs of cell and budget are not independent.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.errors import InputWarning
from deepval.judging.agreement import pair_counts
from deepval.judging.budgets import Selection
from deepval.judging.oracle import oracle_gain
from deepval.paper.analyses.judged import judged
from deepval.paper.analyses.selection_regret import (
    ALPHAS,
    FEWEST_TEST,
    HEADLINES,
    POOLS,
    objectives,
    pools,
    ranked,
    too_few,
)
from deepval.perception.reported.losses import LOSSES
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import Table, TableCell, number, percent
from deepval.results import HEADLINE, known
from deepval.tables.shares import quota


@dataclass(frozen=True)
class RankingRow:
    """One perception gain beside decision gain, in one pair of cell and budget.

    Attributes:
        cell: The cell.
        pool: Which signals are ranked.
        loss: The perception loss whose decrease is the gain: E1 to E8.
        alpha: Share of inputs that may be escalated.
        signals: How many are ranked.
        best_perception: Those that realise most perception gain on the test units, several where they are tied.
        best_decision: Those that realise most decision gain.
        common: Whether the two share a signal.
        tau: Kendall's tau-b between the two rankings; None where one of them ties all signals.
    """

    cell: str
    pool: str
    loss: str
    alpha: float
    signals: int
    best_perception: tuple[str, ...]
    best_decision: tuple[str, ...]
    common: bool
    tau: float | None


@dataclass(frozen=True)
class RankingMean:
    """One perception gain in one pool, over pairs of cell and budget.

    Attributes:
        pool: Which signals are ranked.
        loss: The perception loss.
        cells: Number of cells.
        pairs: Pairs of cell and budget.
        apart: Those in which the two objectives share no best signal.
        share: apart / pairs.
        ranked: Pairs in which both rank.
        tau: Median Kendall's tau-b over those; None without any.
    """

    pool: str
    loss: str
    cells: int
    pairs: int
    apart: int
    share: float
    ranked: int
    tau: float | None


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scored]],
    diagnostics: Mapping[str, Mapping[str, Scored]] | None = None,
    *,
    losses: Sequence[str] | None = None,
    alphas: Sequence[float] = ALPHAS,
    watch: Watch = silent,
) -> list[RankingRow]:
    """One row per pool, perception loss, cell and budget whose decision value is defined on the test units.

    That is where the oracle has something to gain; cells with fewer than five affected test inputs are left out with a
    warning.

    Args:
        cells: Cells by name.
        scores: Per cell, scores by signals and by allocators fitted on the training and validation units.
        diagnostics: Per cell, scores by diagnostics, for the last pool.
        losses: Perception losses; all that a cell's modes define where None.
        alphas: Shares of inputs that may be escalated.
        watch: Who is told how far it is.
    """
    budgets = [Selection(alpha) for alpha in alphas]
    found: list[RankingRow] = []
    for name, cell in watch(list(cells.items()), "ranking signals"):
        test = judged(cell, "test")
        why = too_few(test, FEWEST_TEST, "test")
        if why is not None:
            warnings.warn(f"{name} is left out: {why}.", InputWarning, stacklevel=2)
            continue
        gains = objectives(cell, test, losses)
        for kind, pool in pools({**scores[name], **(diagnostics or {}).get(name, {})}, test).items():
            for budget in budgets:
                slots = int(quota(len(test), budget.alpha))
                if not oracle_gain(test.decision_values, slots) > 0:
                    continue
                decision = ranked(test.decision_values, pool, slots)
                for loss, gain in gains.items():
                    perception = ranked(gain, pool, slots)
                    found.append(
                        RankingRow(
                            cell=name,
                            pool=kind,
                            loss=loss,
                            alpha=budget.alpha,
                            signals=len(pool),
                            best_perception=perception.best,
                            best_decision=decision.best,
                            common=bool(set(perception.best) & set(decision.best)),
                            tau=known(pair_counts(perception.level, decision.level).tau_b),
                        )
                    )
    return found


def over_cells(rows: Sequence[RankingRow]) -> list[RankingMean]:
    """One row per pool and perception loss."""
    by = sorted(rows, key=lambda row: (POOLS.index(row.pool), row.loss))
    found = []
    for (pool, loss), group in groupby(by, key=lambda row: (row.pool, row.loss)):
        members = list(group)
        taus = [row.tau for row in members if row.tau is not None]
        apart = sum(not row.common for row in members)
        found.append(
            RankingMean(
                pool=pool,
                loss=loss,
                cells=len({row.cell for row in members}),
                pairs=len(members),
                apart=apart,
                share=apart / len(members),
                ranked=len(taus),
                tau=median(taus) if taus else None,
            )
        )
    return found


def table(rows: Sequence[RankingRow]) -> Table:
    """What the rows come to, a section for each pool."""
    header = ("pool", "perception gain", "cells", "pairs", "apart", "share", "median tau")
    sections = [
        tuple(
            tuple(
                map(
                    TableCell,
                    (
                        _pool(pool, rows) if i == 0 else "",
                        f"{row.loss} ({LOSSES[row.loss].partition(':')[0]})",
                        *map(str, (row.cells, row.pairs, row.apart)),
                        percent(row.share, 1),
                        number(row.tau, 2),
                    ),
                )
            )
            for i, row in enumerate(members)
        )
        for pool, members in groupby(over_cells(rows), key=lambda row: row.pool)
    ]
    notes = (
        "pairs: of cell and budget, on test units; apart: those in which no signal is best under both objectives. "
        "Descriptive counts, not a test.",
        "tau: Kendall's tau-b between the two rankings of the signals.",
    )
    return Table("Ranking by perception gain and by decision gain", header, tuple(sections), notes)


def _pool(pool: str, rows: Sequence[RankingRow]) -> str:
    sizes = sorted({row.signals for row in rows if row.pool == pool})
    number_of = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"{pool}, {number_of} signals"


def cells_table(rows: Sequence[RankingRow]) -> Table:
    """Every cell at the headline budget, by the paper's two perception losses where they are there."""
    header = ("cell", "gain", "pool", "best by perception", "best by decision", "tau")
    at = min((row.alpha for row in rows), key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    losses = {row.loss for row in rows} & set(HEADLINES) or {row.loss for row in rows}
    shown = [row for row in rows if row.alpha == at and row.loss in losses]
    sections = []
    for cell in dict.fromkeys(row.cell for row in shown):
        members = [row for row in shown if row.cell == cell]
        sections.append(
            tuple(
                tuple(
                    map(
                        TableCell,
                        (
                            *(cell if i == 0 else "", row.loss, row.pool),
                            *(" or ".join(row.best_perception), " or ".join(row.best_decision), number(row.tau, 2)),
                        ),
                    )
                )
                for i, row in enumerate(members)
            )
        )
    return Table(f"Best signals at {percent(at, 0)}, cell by cell", header, tuple(sections))


def tables(rows: Sequence[RankingRow]) -> list[Table]:
    """Both."""
    return [table(rows), cells_table(rows)]


def chart(rows: Sequence[RankingRow]) -> Chart:
    """Share of pairs without a common best signal for each perception loss, a series for each pool."""
    dots = [Dot(f"{row.loss} ({LOSSES[row.loss].partition(':')[0]})", row.pool, row.share) for row in over_cells(rows)]
    return shares("Pairs without a common best signal", dots)
