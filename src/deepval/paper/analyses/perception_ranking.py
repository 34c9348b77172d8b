"""Cells and scores -> whether the best signals by perception gain are the best by
decision gain.

docs/definitions.md, Choosing an allocator. Protocol, budgets and ties are the same
under both objectives; only what is summed over the escalated test inputs changes. The
counts are descriptive: pairs of cell and budget are not independent.

How often the best signal by perception gain and the best by decision gain differ, over
cells and budgets.
"""

import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from deepval.basics.errors import InputWarning
from deepval.judge.allowances import LEVELS, Selection
from deepval.judge.concordance import pair_counts
from deepval.judge.extras.optimality import oracle_gain
from deepval.judge.report.text_tables import Table, TableCell, number, percent
from deepval.judge.results import HEADLINE, known
from deepval.judge.tables.values import quota
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
from deepval.paper.analysis import Analysis
from deepval.paper.columns import NAME, loss_title
from deepval.paper.study import Cell, of_each, watched
from deepval.paper.tidy import Column, Dots, Row, decimals, only, printed


def _names(signals: Sequence[str]) -> str:
    return " or ".join(signals)


COLUMNS = (
    NAME,
    Column("pool", "The signals that are ranked", heading="pool"),
    Column(
        "loss",
        "The perception loss whose decrease is the gain: E1 to E8",
        heading="gain",
    ),
    Column("alpha", "Share of inputs that may be escalated"),
    Column("signals", "Number of signals that are ranked"),
    Column(
        "best_perception",
        "Signals with the largest perception gain on the test units; several if tied",
        heading="best by perception",
        text=_names,
    ),
    Column(
        "best_decision",
        "Signals with the largest decision gain on the test units",
        heading="best by decision",
        text=_names,
    ),
    Column("common", "Whether the two lists share a signal"),
    Column(
        "tau",
        "Kendall's tau-b between the two rankings; None if "
        "one of them ties all signals",
        heading="tau",
        text=decimals(2),
    ),
)
"""The best signals by one perception gain and by decision gain, in one cell at one
budget.
"""


RANKING_MEAN_COLUMNS = (
    Column("pool", "The signals that are ranked"),
    Column("loss", "The perception loss"),
    Column("cells", "Number of cells"),
    Column("pairs", "Pairs of cell and budget"),
    Column("apart", "Pairs in which the two objectives share no best signal"),
    Column("share", "apart / pairs"),
    Column("ranked", "Pairs in which both objectives rank the signals"),
    Column("tau", "Median Kendall's tau-b over these pairs; None without any"),
)
"""One perception gain in one pool, over pairs of cell and budget."""


def rows(
    cells: Sequence[Cell],
    *,
    losses: Losses = None,
    alphas: Sequence[float] = LEVELS,
) -> Iterator[Row]:
    """One row per pool, perception loss, cell and budget whose decision value is
    defined on the test units.

    That is where the oracle has something to gain; cells with fewer than five affected
    test inputs are left out with a warning.

    Args:
        cells: The cells.
        losses: Perception losses; None for all that a cell's modes define.
        alphas: Shares of inputs that may be escalated.
    """
    budgets = [Selection(alpha) for alpha in alphas]
    scores = of_each(cells, "scores")
    diagnostics = of_each(cells, "diagnostics")
    for at in watched(cells, "ranking signals"):
        name = at.name
        cell = at.cell
        test = at.inputs("test").table
        why = too_few(test, FEWEST_TEST, "test")
        if why is not None:
            warnings.warn(f"{name} is left out: {why}.", InputWarning, stacklevel=2)
            continue
        gains = objectives(cell, test, losses)
        every = {**scores[name], **diagnostics.get(name, {})}
        for kind, pool in pools(every, test).items():
            for budget in budgets:
                slots = int(quota(len(test), budget.alpha))
                if not oracle_gain(test.decision_values, slots) > 0:
                    continue
                decision = ranked(test.decision_values, pool, slots)
                for loss, gain in gains.items():
                    perception = ranked(gain, pool, slots)
                    yield {
                        "cell": name,
                        "pool": kind,
                        "loss": loss,
                        "alpha": budget.alpha,
                        "signals": len(pool),
                        "best_perception": perception.best,
                        "best_decision": decision.best,
                        "common": bool(set(perception.best) & set(decision.best)),
                        "tau": known(
                            pair_counts(perception.level, decision.level).tau_b
                        ),
                    }


def counts_over_cells(rows: Sequence[Row]) -> Iterator[Row]:
    """One row per pool and perception loss."""
    by = sorted(rows, key=lambda row: (POOLS.index(row["pool"]), row["loss"]))
    for (pool, loss), group in groupby(by, key=lambda row: (row["pool"], row["loss"])):
        members = list(group)
        taus = [row["tau"] for row in members if row["tau"] is not None]
        apart = sum(not row["common"] for row in members)
        yield {
            "pool": pool,
            "loss": loss,
            "cells": len({row["cell"] for row in members}),
            "pairs": len(members),
            "apart": apart,
            "share": apart / len(members),
            "ranked": len(taus),
            "tau": median(taus) if taus else None,
        }


def table(rows: Sequence[Row]) -> Table:
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
                        loss_title(row["loss"]),
                        *map(str, (row["cells"], row["pairs"], row["apart"])),
                        percent(row["share"], 1),
                        number(row["tau"], 2),
                    ),
                )
            )
            for i, row in enumerate(members)
        )
        for pool, members in groupby(
            counts_over_cells(rows), key=lambda row: row["pool"]
        )
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


def _pool(pool: str, rows: Sequence[Row]) -> str:
    sizes = sorted({row["signals"] for row in rows if row["pool"] == pool})
    number_of = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"{pool}, {number_of} signals"


def cells_table(rows: Sequence[Row]) -> Table:
    """Every cell at the headline budget, by the paper's two perception losses if the
    rows have them.
    """
    at = min(
        (row["alpha"] for row in rows),
        key=lambda alpha: (abs(alpha - HEADLINE), alpha),
        default=HEADLINE,
    )
    losses = {row["loss"] for row in rows} & set(HEADLINES) or {
        row["loss"] for row in rows
    }
    at_budget = [row for row in rows if row["alpha"] == at and row["loss"] in losses]
    cells = list(dict.fromkeys(row["cell"] for row in at_budget))
    return printed(
        f"Best signals at {percent(at, 0)}, cell by cell",
        only(
            COLUMNS, "cell", "loss", "pool", "best_perception", "best_decision", "tau"
        ),
        sorted(at_budget, key=lambda row: cells.index(row["cell"])),
        group=("cell",),
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """The means over cells, then the cells."""
    return [table(rows), cells_table(rows)]


PERCEPTION_RANKING = Analysis(
    name="perception-ranking",
    shows="Compare the best signals by perception and decision",
    see="definitions.md#choosing-an-allocator",
    paper="rank by perception gain",
    example="cells/braking-monocular cells/braking-oracle -a gate-ridge",
    asks=("scores", "diagnostics"),
    judges=True,
    details=(
        "How often the best signal by perception gain and the best by decision gain "
        "differ, over cells and budgets."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    charts=[
        Dots(
            "Pairs without a common best signal",
            {"{pool}": "share"},
            label=lambda row: loss_title(row["loss"]),
            of=counts_over_cells,
        )
    ],
)
