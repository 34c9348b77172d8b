"""Cells and times of passes -> gain of allocators under an average budget and under
deadlines, and their two orders.

The average budget is a latency budget; its ranking takes the highest scores of all
judged units. Under deadlines the same scores are replayed by the clock
(docs/definitions.md, Deadlines) with a threshold on the same units. Thresholds stay the
same in every draw of units. Losses of old outputs are those of the cell's own rule with
the objects of an earlier frame, not moved; where it has no such rule, an old output is
worth the cheap loss.

Gain under an average budget and if every frame has a deadline that late full outputs
miss, whether the order of allocators is the same, and response times. Allocators are
fitted out of fold.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from deepval.basics.arrays import InputFloats
from deepval.basics.checks import word
from deepval.basics.errors import InputError, InputWarning, UnsuitableError
from deepval.deploy.allocators import check_allocators
from deepval.deploy.fitting import fold_scores, rule_of
from deepval.driving.cells.folder import BuiltCell
from deepval.judge.allowances import Budget, Latency, allowance
from deepval.judge.concordance import pair_counts
from deepval.judge.deadline_replay import DeadlineTrack, by_age, requests
from deepval.judge.draws import Draws, make_draws
from deepval.judge.extras.optimality import oracle_gain
from deepval.judge.intervals import interval_over, verdict_of
from deepval.judge.report.charts import at_headline
from deepval.judge.report.text_tables import Table, number, percent
from deepval.judge.results import known
from deepval.judge.tables.keys import positions
from deepval.judge.tables.values import ValueTable
from deepval.paper.analyses.contrasts import GATES
from deepval.paper.analyses.out_of_fold import ALLOCATORS
from deepval.paper.analysis import FIRST_OF_PAIR, Analysis, Option
from deepval.paper.columns import ALLOCATOR, BUDGET, NAME, estimate_within
from deepval.paper.costs import needed_costs
from deepval.paper.study import Cell, DrawCount
from deepval.paper.tidy import Column, Dots, Row, only, printed, shortest

OLDEST = 10
"""Age in frames up to which the losses of old outputs are computed; older ones are
worth the cheap loss.
"""
PERIODS_MS = (33.0, 50.0, 100.0)
KEEP = ("rate", "p95", "threshold")


COLUMNS = (
    NAME,
    ALLOCATOR,
    *BUDGET,
    Column(
        "period_ms",
        "Time from one frame to the next in ms",
        heading="period",
        text=shortest,
    ),
    Column(
        "average",
        "Gain under the average budget, as a share of the all-cheap loss",
        heading="average",
        text=percent,
        bounds="95 %",
    ),
    Column(
        "gain",
        "Gain under deadlines, as a share of the all-cheap loss",
        heading="deadlines",
        text=percent,
        bounds="95 %",
    ),
    Column(
        "verdict",
        "Gain under deadlines against the average budget: better, worse or unresolved",
    ),
    Column(
        "oracle_average",
        "The oracle's gain with as many escalations and no deadline, allocator free",
    ),
    Column(
        "oracle",
        "The oracle's gain with as many escalations under deadlines",
        heading="oracle",
        text=percent,
    ),
    Column(
        "escalated",
        "Share of the inputs escalated under deadlines",
        heading="escalated",
        text=percent,
    ),
    Column(
        "late",
        "Share of the escalations whose output missed its own frame",
        heading="late",
        text=percent,
    ),
    Column(
        "p95_ms",
        "Response time in ms that 95 % of the frames do not exceed",
        heading="p95",
        text=shortest,
    ),
    Column(
        "tau",
        "Kendall's tau-b of the allocators' gains, average against deadlines",
        heading="tau",
        text=number,
        bounds="95 %",
    ),
)
"""One allocator of a cell, or of all cells together, under one budget and one
period.
"""


def _check(keep: str) -> str:
    return word(keep, KEEP, "--keep")


Keep = Annotated[
    str,
    Option(
        "What thresholds keep: rate, p95 (and rate), or threshold of the average.",
        read=_check,
    ),
]


def rows(
    cells: Sequence[Cell],
    allocators: Annotated[Sequence[str], ALLOCATORS] = GATES,
    *,
    folds: Annotated[int, Option("Number of folds.", limits=(2, 1_000))] = 5,
    units: str | Sequence[str] = "fit",
    periods: Sequence[float] = PERIODS_MS,
    keep: Keep = "rate",
    switch_ms: float = 0.0,
    budgets: Sequence[Budget] | None = None,
    draws: DrawCount = 1000,
    seed: int = 0,
) -> list[Row]:
    """One row per budget, period and allocator: over all cells if there are several of
    the same units, then by cell.

    Args:
        cells: The cells.
        allocators: Signals and recipes; "all" for all that apply to a cell.
        folds: Number of folds of units to fit recipes on.
        units: Units to fit and judge on, by role or by name.
        periods: Times from one frame to the next in ms.
        keep: What the threshold keeps: the budget's rate; the rate, and a 95th
            percentile of response times within the period; or the threshold of the
            average budget.
        switch_ms: Time in ms to change modes and back, for every escalation.
        budgets: Latency budgets; 20 % where None.
        draws: Number of draws of units, or "exact".
        seed: Their seed.
    """
    tables = {}
    for at in cells:
        table = replace(
            with_old_outputs(at.cell, at.inputs(units).table),
            costs=at.needed_costs("a deadline"),
        )
        scored = fold_scores(
            at.name,
            at.cell,
            check_allocators(allocators),
            folds=folds,
            units=table.unit_ids.tolist(),
            watch=at.watch,
        )
        aligned = {
            item.name: item.over(table) for item in scored.values() if not item.modes
        }
        scores = {
            own: np.where(item.covered, item.values, -np.inf)
            for own, item in aligned.items()
        }
        tables[at.name] = (table, scores)
    settings = {
        "periods": periods,
        "keep": keep,
        "switch_ms": switch_ms,
        "draws": draws,
        "seed": seed,
    }
    return table_rows(tables, budgets, **settings)


def table_rows(
    tables: Mapping[str, tuple[ValueTable, Mapping[str, InputFloats]]],
    budgets: Sequence[Budget] | None = None,
    *,
    periods: Sequence[float] = PERIODS_MS,
    keep: str = "rate",
    switch_ms: float = 0.0,
    draws: DrawCount = 1000,
    seed: int = 0,
) -> list[Row]:
    """The same rows from tables with costs and times of inputs, and scores of each by
    allocator.

    A mode FULL-d has the loss of deciding by the full output of d inputs before;
    without it that output is worth the cheap loss.
    """
    for budget in budgets or ():
        if budget.kind != "latency":
            raise InputError(
                "A deadline is a time, so budgets must be latency "
                f"budgets; found {getattr(budget, 'kind', budget)}."
            )
    tables = {
        name: (_in_order(name, table), scores)
        for name, (table, scores) in tables.items()
    }
    lists = [table.unit_ids.tolist() for table, _ in tables.values()]
    groups = (
        {f"all {len(tables)} cells": list(tables)}
        if len(tables) > 1 and lists.count(lists[0]) == len(lists)
        else {}
    )
    records = []
    for budget in budgets or [Latency(0.2)]:
        for period_ms in periods:
            gains, drawn = {}, {}
            for name, (table, scores) in tables.items():
                drawn[name] = make_draws(len(table.unit_ids), draws, seed)
                gains[name] = {
                    allocator: _gains(
                        table,
                        score,
                        allocator,
                        budget,
                        drawn[name],
                        period_ms,
                        switch_ms,
                        _check(keep),
                    )
                    for allocator, score in _with_time(
                        name, table, scores, budget
                    ).items()
                }
            for label, members in (groups | {name: [name] for name in tables}).items():
                about = {
                    "cell": label,
                    "period_ms": period_ms,
                    "kind": "latency",
                    "alpha": budget.alpha,
                }
                about |= {
                    "convention": budget.convention,
                    "accounting": budget.accounting,
                }
                records += _rows(
                    [gains[name] for name in members], about, drawn[members[0]]
                )
    return records


def _in_order(name: str, table: ValueTable) -> ValueTable:
    """The table with a place in time for every input: without one, inputs arrive in the
    order of the rows.
    """
    if table.order is not None:
        return table
    note = (
        f"{name}: has no column 'order', so inputs of a unit arrive "
        "in the order of the rows."
    )
    warnings.warn(InputWarning(note), stacklevel=2)
    return replace(table, order=np.arange(float(len(table))))


def _with_time(
    name: str, table: ValueTable, scores: Mapping[str, InputFloats], budget: Budget
) -> dict[str, InputFloats]:
    """The scores of allocators whose time the costs have and the budget pays; a warning
    names the others.
    """
    costs = needed_costs(name, table, "a deadline")
    allowed = allowance(budget, by_age(table)[0].modes, costs)
    timed = [own for own in scores if "ms" in costs.allocators.get(own, {})]
    paid = [own for own in timed if allowed.share(costs.of_allocator(own, "ms")) > 0]
    for why, left_out in (
        (
            "because the costs have no ms of it",
            [own for own in scores if own not in timed],
        ),
        (
            f"because its time is beyond a budget of {budget.alpha:.0%}",
            [own for own in timed if own not in paid],
        ),
    ):
        if left_out:
            warnings.warn(
                InputWarning(f"{name}: {', '.join(left_out)} left out, {why}."),
                stacklevel=2,
            )
    return {own: scores[own] for own in paid}


def _gains(
    table: ValueTable,
    score: InputFloats,
    allocator: str,
    budget: Budget,
    draws: Draws,
    period_ms: float,
    switch_ms: float,
    keep: str,
) -> dict[str, Any]:
    """Gains in the sample and the draws as shares of the all-cheap loss, and what else
    a row shows.
    """
    costs: Any = table.costs
    own_ms, allowed = (
        costs.of_allocator(allocator, "ms"),
        allowance(budget, by_age(table)[0].modes, costs),
    )
    track = DeadlineTrack(
        table,
        period_ms=period_ms,
        cheap_ms=allowed.cheap + own_ms,
        full_ms=allowed.full + switch_ms,
    )
    slots = int(allowed.slots(len(table), own_ms))
    ranked = requests(score, min(slots, int(np.count_nonzero(score > -np.inf))))
    limit = period_ms if keep == "p95" else np.inf
    replay = track.replay(
        ranked if keep == "threshold" else track.threshold(score, slots, p95_ms=limit),
        score,
    )
    counts = np.vstack([np.ones((1, draws.counts.shape[1])), draws.counts])
    parts = (
        track.table.decision_values * ranked.expected(score),
        replay.gain,
        table.losses[:, 0],
    )
    average, gain, loss = (
        counts @ np.bincount(table.unit, part, counts.shape[1]) for part in parts
    )
    if not loss[0] > 0:
        raise UnsuitableError(
            "gains are shares of the all-cheap loss, which must be positive; it is "
            f"{loss[0]:g}."
        )
    # a draw may hold only units without any loss: there is no share of it
    loss[~(loss > 0)] = np.nan
    escalated, best = (
        float(replay.escalated.mean()),
        oracle_gain(track.table.decision_values, slots),
    )
    return {
        "average": average / loss,
        "gain": gain / loss,
        "oracle_average": best / loss[0],
        "oracle": track.oracle(slots) / loss[0],
        "escalated": escalated,
        "late": escalated * (track.age > 0),
        "p95_ms": replay.p95_ms,
    }


def _rows(
    cells: Sequence[Mapping[str, Any]], about: Mapping[str, Any], draws: Draws
) -> list[Row]:
    """The rows of the allocators that all cells have, by means over the cells."""
    means = {
        name: {key: np.mean([cell[name][key] for cell in cells], axis=0) for key in own}
        for name, own in cells[0].items()
        if all(name in cell for cell in cells)
    }
    # No allocator has a time that the budget pays in all cells.
    if not means:
        return []
    average, gain = (
        np.array([own[of] for own in means.values()]) for of in ("average", "gain")
    )
    tau = np.full(average.shape[1], np.nan)
    for draw in np.flatnonzero(~np.isnan(average[0])):
        tau[draw] = pair_counts(average[:, draw], gain[:, draw]).tau_b
    records = []
    for name, own in means.items():
        fields: dict[str, Any] = {
            key: float(mean) for key, mean in own.items() if not mean.ndim
        }
        fields["late"] = own["late"] / own["escalated"] if own["escalated"] else None
        for key, samples in (
            ("average", own["average"]),
            ("gain", own["gain"]),
            ("tau", tau),
        ):
            bounds = interval_over(samples[1:], draws, scale=0.0)
            fields[key] = estimate_within(known(samples[0]), bounds)
        verdict = verdict_of(interval_over(own["gain"][1:] - own["average"][1:], draws))
        records.append(
            {
                **about,
                **fields,
                "allocator": name,
                "verdict": verdict,
            }
        )
    return records


def with_old_outputs(cell: BuiltCell, table: ValueTable) -> ValueTable:
    """The table with a mode FULL-d for the full output of d inputs before, for every d
    up to OLDEST.

    Objects stay where they were relative to the vehicle. Without d inputs before, the
    loss is that of the cheap mode.
    """
    rule, cheap, full = rule_of(cell), table.modes[0], table.modes[-1]
    if rule is None:
        note = (
            f"{cell.spec.system} has no rule to plan by old outputs, so they are worth "
            "the cheap loss."
        )
        warnings.warn(InputWarning(f"{cell.folder.name}: {note}"), stacklevel=2)
        return table
    names = [f"action{part}_{cheap}" for part in range(rule.choices.shape[1])]
    actions = np.column_stack(list(cell.terms.of_types(numbers=names).values()))
    row_of = positions(table.input, cell.terms.ids("input"))
    old = np.repeat(table.losses[:, :1], OLDEST, axis=1)
    for view, outputs in zip(cell.views, cell.outputs, strict=True):
        rows = positions(view.scene.inputs, table.input)
        frames, speed_mps = np.flatnonzero(rows >= 0), view.scene.ego_speed_mps
        if not len(frames):
            continue
        acted = np.full((len(view), actions.shape[1]), np.nan)
        acted[frames] = actions[row_of[rows[frames]]]
        before = np.vstack([np.full((1, actions.shape[1]), np.nan), acted[:-1]])
        needs = rule.needs(outputs.reference, speed_mps)
        for age in range(1, min(OLDEST + 1, len(frames))):
            later = np.full(len(view), -1)
            later[frames[:-age]] = frames[age:]
            seen = outputs.full.where(later[outputs.full.frame] >= 0)
            seen = replace(seen, frame=later[seen.frame])
            plan = rule.act(rule.needs(seen, speed_mps), speed_mps, previous=before)
            loss = rule.loss(plan, needs, speed_mps=speed_mps, previous=before)
            old[rows[frames[age:]], age - 1] = loss[frames[age:]]
    modes = (
        *table.modes[:-1],
        full,
        *(f"{full}-{age}" for age in range(1, OLDEST + 1)),
    )
    return replace(
        table, modes=modes, losses=np.column_stack([table.losses, old]), input_costs={}
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """The rows as a table."""
    notes = (
        (
            "average, deadlines, oracle: shares of the all-cheap loss. late: of the "
            "escalations. p95: response time in ms."
        ),
        (
            "tau: Kendall's tau-b of the order of allocators, average against "
            "deadlines, the same in all rows of a period."
        ),
    )
    group = ("cell", "kind", "period_ms", "tau")
    names = ("cell", "kind", "period_ms", "allocator")
    last = ("tau",)
    # A single allocator has no order, and its periods are compared.
    if len({row["allocator"] for row in rows}) == 1:
        group = ("cell", "kind", "allocator")
        names = ("cell", "kind", "allocator", "period_ms")
        last = ()
        notes = notes[:1]
    measured = ("average", "gain", "oracle", "escalated", "late", "p95_ms")
    order = (*names, *measured, *last)
    return [
        printed(
            "Allocators under deadlines",
            only(COLUMNS, *order),
            rows,
            notes=notes,
            group=group,
        )
    ]


DEADLINES = Analysis(
    name="deadlines",
    shows="Compare average budgets with deadlines of frames",
    see="definitions.md#deadlines",
    paper="latency budgets, which are averages",
    example="cells/braking-monocular --costs jetson-agx-xavier --period 33",
    asks=("costs",),
    by="cell",
    judges=True,
    empty=(
        "No allocator has a time (ms) in the costs that the budget pays: give other "
        "--costs, or name others (-a)."
    ),
    among=FIRST_OF_PAIR,
    details=(
        "Gain under an average budget and if every frame has a deadline that late "
        "full outputs miss, whether the order of allocators is the same, and response"
        " times. Allocators are fitted out of fold."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    table_rows=table_rows,
    charts=[
        Dots(
            "Gain, share of the all-cheap loss",
            {"average budget": "average", "every {period_ms:g} ms": "gain"},
            label="{cell}: {allocator}",
            line=0.0,
            of=at_headline,
        )
    ],
)
