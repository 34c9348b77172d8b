"""Results of several cells -> what it costs to decide causally: streaming policies
against the ranking in hindsight.

Differences of nDG and of gain are means over rows (cell and allocator), draw by draw. A
draw with a small prize is kept; a draw in which some row has no nDG is left out and
counted. Rates are those of the judged units.

Causal policies against the ranking in hindsight, pooled over cells and allocators, and
rates that are missed. With --folds, all policies out of fold.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError
from deepval.judge.bootstrap import Gains
from deepval.judge.differences import is_equal, ndg, paired_shares
from deepval.judge.draws import Draws
from deepval.judge.intervals import interval_over
from deepval.judge.pairs import Basis, Contender, basis
from deepval.judge.pooled import can_resample, mean_over_cells, shared_draws
from deepval.judge.report.charts import at_headline
from deepval.judge.report.text_tables import Table, number, percent
from deepval.judge.results import BudgetKey, Stream, known
from deepval.judge.stream_rows import RATE_TOLERANCE
from deepval.paper.analysis import Analysis
from deepval.paper.columns import ALLOCATOR, BUDGET, budget_text
from deepval.paper.study import CONTROL, VALUES, Cell, of_each
from deepval.paper.tidy import Column, Dots, Estimate, Row, only, printed
from deepval.paper.tidy import share as in_percent

ALL = "all"
"""Name of the row over all allocators together, without controls."""


COLUMNS = (
    Column(
        "policy",
        "Policy",
        heading="policy",
        text_of_row=lambda row: f"{row['policy']}, {budget_text(row)}",
    ),
    ALLOCATOR,
    *BUDGET,
    Column("cells", "Number of cells"),
    Column("rows", "Pairs of cell and allocator that can run", heading="rows"),
    Column("infeasible", "Pairs that cannot run"),
    Column(
        "difference",
        "Mean nDG less that of the same scores ranked in hindsight",
        heading="nDG",
        text=number,
        bounds="95 %",
        ends=("lo", "hi"),
    ),
    Column(
        "compared", "Number of rows in the mean: those whose oracle gains something"
    ),
    Column("draws", "Number of draws"),
    Column(
        "dropped", "Draws left out of the interval because some row has no nDG there"
    ),
    Column(
        "gain_difference",
        "The same difference of gains, as a share of the all-cheap loss",
        heading="gain",
        text=percent,
        bounds="95 %",
        ends=("gain_lo", "gain_hi"),
    ),
    Column(
        "pooled",
        "Sum of the rows' gain shares / sum of their oracles' shares",
        heading="pooled",
        text=number,
    ),
    Column("missed", "Rows that miss the rate by more than 5 points", heading="missed"),
    Column("rate", "Median share that is escalated", heading="rate", text=in_percent),
    Column("target_rate", "Median share that the budget allows"),
    Column(
        "unbounded",
        "Token buckets tuned to hold any number of tokens; None for other policies",
    ),
    Column("better", "Rows that beat random", heading="better"),
    Column("worse", "Rows that lose to random", heading="worse"),
)
"""One policy under one budget for one allocator, for `all`, or for the controls
(`random scores`), over cells.
"""


class _Member(NamedTuple):
    """One stream of a cell, and the same scores ranked in hindsight."""

    cell: str
    held: Basis
    stream: Contender
    ranked: Gains | None

    @property
    def allocator(self) -> str:
        name = self.stream.row.allocator
        return CONTROL if name.startswith(CONTROL) else name

    def differences(
        self,
    ) -> tuple[Float[np.ndarray, "sample"], Float[np.ndarray, "sample"]]:
        """Differences of nDG and of gains as shares, in the sample and every draw."""
        assert self.stream.gains is not None
        assert self.ranked is not None
        totals, prize = self.held.totals, self.stream.prize
        ours, theirs = self.stream.gains.gain, self.ranked.gain
        behind = ndg(ours, prize) - ndg(theirs, prize)
        # A draw with nothing to gain has no nDG, but two allocators with the same gain
        # in it do not differ.
        same = (prize <= 0) & is_equal(totals, ours, theirs) & bool(prize[0] > 0)
        behind = np.where(same, 0.0, behind)
        upto = totals.drawn.stop
        return behind[:upto], paired_shares(totals, ours, theirs)[:upto]


def rows(
    cells: Sequence[Cell], *, kinds: Sequence[str] = ("selection",)
) -> Iterator[Row]:
    """One row per budget and policy for all allocators together, then for each of them
    and for the controls.

    Args:
        cells: The cells; a result has streams and samples. Cells with the same units
            need the same draws, cells with other units draws of another seed.
        kinds: Kinds of budgets to include.
    """
    results = of_each(cells, "streamed")
    if not results:
        raise InputError("Streaming policies are pooled over cells; found none.")
    held = {name: basis(result) for name, result in results.items()}
    bare = next((name for name, item in held.items() if not item.streamed), None)
    if bare is not None:
        raise InputError(
            f"{bare}: the result has no streams: judge with calibration units "
            "(--calibrate)."
        )
    draws = shared_draws(held)
    members = [
        m
        for name, item in held.items()
        for m in _members(name, item)
        if m.stream.row.kind in kinds
    ]
    for budget in dict.fromkeys(m.stream.row.budget for m in members):
        here = [m for m in members if m.stream.row.budget == budget]
        rows_here = [m.stream.row for m in here if isinstance(m.stream.row, Stream)]
        policies = dict.fromkeys(row.policy for row in rows_here if row.policy != "any")
        for policy in policies:
            of_policy = [m for m in here if m.stream.row.policy in ("any", policy)]
            names = dict.fromkeys(m.allocator for m in of_policy)
            groups = {
                ALL: [m for m in of_policy if m.allocator not in (CONTROL, VALUES)]
            }
            groups |= {
                name: [m for m in of_policy if m.allocator == name] for name in names
            }
            for name, group in groups.items():
                if group:
                    yield _row(policy, name, budget, group, draws)


def _members(cell: str, held: Basis) -> list[_Member]:
    ranked = {(item.row.allocator, item.row.budget): item.gains for item in held.judged}
    return [
        _Member(cell, held, item, ranked.get((item.row.allocator, item.row.budget)))
        for item in held.streamed
    ]


def _row(
    policy: str, name: str, budget: BudgetKey, group: Sequence[_Member], draws: Draws
) -> Row:
    running = [m for m in group if m.stream.gains is not None]
    streams = [m.stream.row for m in running if isinstance(m.stream.row, Stream)]
    verdicts = [row.verdict for row in streams]
    return {
        **vars(budget),
        **_means(running, draws),
        "policy": policy,
        "allocator": name,
        "cells": len({m.cell for m in group}),
        "rows": len(running),
        "infeasible": len(group) - len(running),
        "draws": len(draws),
        "pooled": _pooled(running),
        "missed": sum(row.rate_missed is True for row in streams),
        "rate": median(row.rate for row in streams if row.rate is not None)
        if streams
        else None,
        "target_rate": median(
            row.target_rate for row in streams if row.target_rate is not None
        )
        if streams
        else None,
        "unbounded": sum(row.parameter is None for row in streams)
        if policy == "token bucket"
        else None,
        "better": verdicts.count("better"),
        "worse": verdicts.count("worse"),
    }


def _means(running: Sequence[_Member], draws: Draws) -> dict[str, Any]:
    """Both mean differences with their intervals."""
    parts = [m.differences() for m in running]
    ndg = [one for one, _ in parts if not np.isnan(one[0])]
    gain = [other for _, other in parts if not np.isnan(other[0])]
    resampled = can_resample([m.held for m in running])
    means: dict[str, Any] = {"compared": len(ndg)}
    for name, cells in (("difference", ndg), ("gain_difference", gain)):
        mean = np.full(1 + len(draws), np.nan)
        if cells:
            mean = mean_over_cells(cells)
        usable = ~np.isnan(mean[1:]) & resampled
        bounds = interval_over(np.where(usable, mean[1:], np.nan), draws)
        if bounds is None:
            means[name] = Estimate(known(mean[0]))
        else:
            means[name] = Estimate(known(mean[0]), bounds.low, bounds.high)
        if name == "difference":
            means["dropped"] = int(np.count_nonzero(~usable)) if usable.any() else 0
    return means


def _pooled(running: Sequence[_Member]) -> float | None:
    """The gains of the rows together, as a share of what their oracles gain."""
    parts = [
        (
            m.stream.gains.gain[0] / m.held.totals.cheap_loss[0],
            m.stream.prize[0] / m.held.totals.cheap_loss[0],
        )
        for m in running
        if m.stream.gains is not None and m.held.totals.cheap_loss[0] > 0
    ]
    gain, prize = (
        (math.fsum(part) for part in zip(*parts, strict=True)) if parts else (0.0, 0.0)
    )
    return gain / prize if prize > 0 else None


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table, a section for each budget and policy."""
    notes = [
        "nDG, gain: less those of the ranking, means over rows (cell and allocator "
        "that can run) draw by draw; gain as a share of the all-cheap loss. pooled: "
        "sum of gain shares / sum of oracle shares.",
        f"missed: rows that miss the rate by more than {100 * RATE_TOLERANCE:g} "
        "points; rate: median share escalated. better, worse: rows, against random.",
    ]
    dropped = max((row["dropped"] for row in rows), default=0)
    if dropped:
        notes.append(
            f"Up to {dropped} of {rows[0]['draws']} draws are left out: some oracle "
            "gains nothing there."
        )
    buckets = [
        row for row in rows if row["unbounded"] is not None and row["allocator"] == ALL
    ]
    notes += [
        (
            f"{budget_text(row)}: {row['unbounded']} of {row['rows']} token buckets "
            "are unbounded, which is the causal cap."
        )
        for row in buckets
    ]
    if any(row["allocator"] == CONTROL for row in rows):
        notes.append(
            f"{CONTROL} know nothing: what a policy costs them is its own. They are "
            f"not among `{ALL}`."
        )
    if any(row["allocator"] == VALUES for row in rows):
        notes.append(
            f"Out of fold: released, not scored. {VALUES}: scores that know the "
            f"answer; not among `{ALL}`."
        )
    order = (
        "policy",
        "allocator",
        "rows",
        "difference",
        "gain_difference",
        "pooled",
    )
    return [
        printed(
            "Streaming policies against the ranking in hindsight",
            only(COLUMNS, *order, "missed", "rate", "better", "worse"),
            rows,
            notes=notes,
            group=("policy",),
        )
    ]


def charted(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows at the headline budget, those of all allocators together first."""
    shown = at_headline(rows)
    several = len({BudgetKey.of(row) for row in shown}) > 1
    at = " or ".join(dict.fromkeys(budget_text(row) for row in shown))
    for row in sorted(shown, key=lambda row: row["allocator"] != ALL):
        label = row["allocator"]
        if several:
            label = f"{label}, {budget_text(row)}"
        yield row | {"label": label, "at": at}


STREAMS = Analysis(
    name="streams",
    shows="Compare causal policies with the ranking",
    see="definitions.md#streaming",
    paper="streaming policies",
    example=(
        "cells/braking-monocular cells/braking-oracle -a gate-ridge -a router-mlp-value"
    ),
    asks=("streamed",),
    budgets=("selection",),
    details=(
        "Causal policies against the ranking in hindsight, pooled over cells and "
        "allocators, and rates that are missed. With --folds, all policies out of "
        "fold."
    ),
    rows=rows,
    columns=COLUMNS,
    charts=[
        Dots(
            "nDG less the ranking's, {at}",
            {"{policy}": "difference"},
            label="{label}",
            percent=False,
            line=0.0,
            of=charted,
        )
    ],
    tables=tables,
)
