"""Cells and scores -> whether the best signals by perception gain are the best by
decision gain.

docs/definitions.md, Choosing an allocator. Protocol, budgets and ties are the same
under both objectives; only what is summed over the escalated test inputs changes. The
counts are descriptive: pairs of cell and budget are not independent.

How often the best signal by perception gain and the best by decision gain differ, over
cells and budgets.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.errors import InputWarning
from deepval.judging.allowances import LEVELS, Selection
from deepval.judging.concordance import pair_counts
from deepval.judging.extras.optimality import oracle_gain
from deepval.paper.analyses.selection_regret import (
    FEWEST_TEST,
    HEADLINES,
    POOLS,
    Losses,
    objectives,
    pools,
    ranked,
    too_few,
)
from deepval.paper.analysis import declare
from deepval.paper.columns import loss_title
from deepval.paper.row_columns import CellName, column, declared_table, loss_table
from deepval.paper.tidy import decimals
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_tables import Table, TableCell, number, percent
from deepval.results import HEADLINE, known
from deepval.tables.values import quota


def _names(signals: Sequence[str]) -> str:
    return " or ".join(signals)


@dataclass(frozen=True)
class RankingRow(CellName):
    """The best signals by one perception gain and by decision gain, in one cell at one
    budget.
    """

    pool: str = column("The signals that are ranked", "pool")
    loss: str = column(
        "The perception loss whose decrease is the gain: E1 to E8", "gain"
    )
    alpha: float = column("Share of inputs that may be escalated")
    signals: int = column("Number of signals that are ranked")
    best_perception: tuple[str, ...] = column(
        "Signals with the largest perception gain on the test units; several if tied",
        "best by perception",
        _names,
    )
    best_decision: tuple[str, ...] = column(
        "Signals with the largest decision gain on the test units",
        "best by decision",
        _names,
    )
    common: bool = column("Whether the two lists share a signal")
    tau: float | None = column(
        "Kendall's tau-b between the two rankings; None if "
        "one of them ties all signals",
        "tau",
        decimals(2),
    )


@dataclass(frozen=True)
class RankingMean:
    """One perception gain in one pool, over pairs of cell and budget."""

    pool: str = column("The signals that are ranked")
    loss: str = column("The perception loss")
    cells: int = column("Number of cells")
    pairs: int = column("Pairs of cell and budget")
    apart: int = column("Pairs in which the two objectives share no best signal")
    share: float = column("apart / pairs")
    ranked: int = column("Pairs in which both objectives rank the signals")
    tau: float | None = column(
        "Median Kendall's tau-b over these pairs; None without any"
    )


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scored]],
    diagnostics: Mapping[str, Mapping[str, Scored]] | None = None,
    *,
    losses: Losses = None,
    alphas: Sequence[float] = LEVELS,
    watch: Watch = unwatched,
) -> list[RankingRow]:
    """One row per pool, perception loss, cell and budget whose decision value is
    defined on the test units.

    That is where the oracle has something to gain; cells with fewer than five affected
    test inputs are left out with a warning.

    Args:
        cells: Cells by name.
        scores: Per cell, scores by signals and by allocators fitted on the training and
            validation units.
        diagnostics: Per cell, scores by diagnostics, for the last pool.
        losses: Perception losses; None for all that a cell's modes define.
        alphas: Shares of inputs that may be escalated.
        watch: Progress reporting.
    """
    budgets = [Selection(alpha) for alpha in alphas]
    records: list[RankingRow] = []
    for name, cell in watch(list(cells.items()), "ranking signals"):
        test = loss_table(cell, "test")
        why = too_few(test, FEWEST_TEST, "test")
        if why is not None:
            warnings.warn(f"{name} is left out: {why}.", InputWarning, stacklevel=2)
            continue
        gains = objectives(cell, test, losses)
        for kind, pool in pools(
            {**scores[name], **(diagnostics or {}).get(name, {})}, test
        ).items():
            for budget in budgets:
                slots = int(quota(len(test), budget.alpha))
                if not oracle_gain(test.decision_values, slots) > 0:
                    continue
                decision = ranked(test.decision_values, pool, slots)
                for loss, gain in gains.items():
                    perception = ranked(gain, pool, slots)
                    records.append(
                        RankingRow(
                            cell=name,
                            pool=kind,
                            loss=loss,
                            alpha=budget.alpha,
                            signals=len(pool),
                            best_perception=perception.best,
                            best_decision=decision.best,
                            common=bool(set(perception.best) & set(decision.best)),
                            tau=known(
                                pair_counts(perception.level, decision.level).tau_b
                            ),
                        )
                    )
    return records


def counts_over_cells(rows: Sequence[RankingRow]) -> list[RankingMean]:
    """One row per pool and perception loss."""
    by = sorted(rows, key=lambda row: (POOLS.index(row.pool), row.loss))
    records = []
    for (pool, loss), group in groupby(by, key=lambda row: (row.pool, row.loss)):
        members = list(group)
        taus = [row.tau for row in members if row.tau is not None]
        apart = sum(not row.common for row in members)
        records.append(
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
    return records


def table(rows: Sequence[RankingRow]) -> Table:
    """The means over cells, a section for each pool."""
    header = (
        "pool",
        "perception gain",
        "cells",
        "pairs",
        "apart",
        "share",
        "median tau",
    )
    sections = [
        tuple(
            tuple(
                map(
                    TableCell,
                    (
                        _pool(pool, rows) if i == 0 else "",
                        loss_title(row.loss),
                        *map(str, (row.cells, row.pairs, row.apart)),
                        percent(row.share, 1),
                        number(row.tau, 2),
                    ),
                )
            )
            for i, row in enumerate(members)
        )
        for pool, members in groupby(counts_over_cells(rows), key=lambda row: row.pool)
    ]
    notes = (
        "pairs: of cell and budget, on test units; apart: those in which no signal is "
        "best under both objectives. Descriptive counts, not a test.",
        "tau: Kendall's tau-b between the two rankings of the signals.",
    )
    return Table(
        "SignalRanking by perception gain and by decision gain",
        header,
        tuple(sections),
        notes,
    )


def _pool(pool: str, rows: Sequence[RankingRow]) -> str:
    sizes = sorted({row.signals for row in rows if row.pool == pool})
    number_of = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"{pool}, {number_of} signals"


def cells_table(rows: Sequence[RankingRow]) -> Table:
    """Every cell at the headline budget, by the paper's two perception losses if the
    rows have them.
    """
    at = min(
        (row.alpha for row in rows),
        key=lambda alpha: (abs(alpha - HEADLINE), alpha),
        default=HEADLINE,
    )
    losses = {row.loss for row in rows} & set(HEADLINES) or {row.loss for row in rows}
    at_budget = [row for row in rows if row.alpha == at and row.loss in losses]
    cells = list(dict.fromkeys(row.cell for row in at_budget))
    return declared_table(
        RankingRow,
        sorted(at_budget, key=lambda row: cells.index(row.cell)),
        f"Best signals at {percent(at, 0)}, cell by cell",
        order=("cell", "loss", "pool", "best_perception", "best_decision", "tau"),
        group=("cell",),
    )


def tables(rows: Sequence[RankingRow]) -> list[Table]:
    """The means over cells, then the cells."""
    return [table(rows), cells_table(rows)]


def chart(rows: Sequence[RankingRow]) -> Chart:
    """Share of pairs without a common best signal for each perception loss, a series
    for each pool.
    """
    dots = [
        Dot(loss_title(row.loss), row.pool, row.share)
        for row in counts_over_cells(rows)
    ]
    return shares("Pairs without a common best signal", dots)


PERCEPTION_RANKING = declare(
    __name__,
    shows="Compare the best signals by perception and decision",
    see="definitions.md#choosing-an-allocator",
    paper="rank by perception gain",
    example="cells/braking-monocular cells/braking-oracle -a gate-ridge",
    takes={"cells": "cells", "scores": "scores", "diagnostics": "diagnostics"},
    judges=True,
)
