"""Results of several cells -> the benefit that allocators capture and the harm that
they incur, against random.

docs/definitions.md, Where the gap goes: gap = missed benefit + selected harm - benefit
that even the oracle must leave under the budget. Differences with random are paired;
means over cells use the joint bootstrap (Means over cells).

Benefit captured and harm incurred against random, by cell and as means over cells, and
the gap to the oracle by sign.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from deepval.basics.errors import InputError
from deepval.deploy.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS
from deepval.judge.pairs import ComparisonRow, compare
from deepval.judge.pooled import PooledComparison, compare_over
from deepval.judge.report.charts import at_headline
from deepval.judge.report.figures import style
from deepval.judge.report.figures.gain_figures import stacked
from deepval.judge.report.text_tables import (
    Table,
    TableCell,
    interval,
    mark_of,
    percent,
    quantity,
)
from deepval.judge.results import BudgetKey, Gap, Result, joined, lists_by_key, share_of
from deepval.judge.results import Row as ResultRow
from deepval.judge.tables.scores import REFERENCES
from deepval.paper.analysis import Analysis
from deepval.paper.columns import BUDGET, budget_text
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import (
    NOT_PRINTED,
    Column,
    Dots,
    Estimate,
    Row,
    mean_of_all,
    only,
    printed,
)

SHOWN = ("oracle", "random")
"""References whose benefit and harm are shown with those of the allocators."""
PARTS = ("benefit", "harm")


COLUMNS = (
    Column("cell", "The cell; None in the mean over cells"),
    Column("cells", "Number of cells"),
    Column(
        "allocator",
        "The allocator; `oracle` and `random` have no differences with random",
        heading="allocator",
    ),
    *BUDGET,
    Column("benefit", "Positive value captured"),
    Column(
        "harm",
        "Harm selected, a positive number",
        heading="selected harm",
        text=percent,
    ),
    Column("benefit_difference", "Benefit less that of random", bounds=NOT_PRINTED),
    Column("benefit_verdict", "more, less or unresolved; None without an interval"),
    Column("harm_difference", "Harm less that of random", bounds=NOT_PRINTED),
    Column("harm_verdict", "less, more or unresolved; None without an interval"),
    Column(
        "gap",
        "Gain of the oracle less that of the allocator; None for references and "
        "per-mode scores",
        heading="gap",
        text=percent,
    ),
    Column("missed", "Benefit that is not escalated", heading="missed", text=percent),
    Column(
        "left_out",
        "Benefit that even the oracle must leave under the budget: gap = missed + "
        "harm - left_out",
        heading="left out",
        text=percent,
    ),
    Column("more_benefit", "Cells with significantly more benefit than random"),
    Column("less_benefit", "Cells with significantly less benefit than random"),
    Column("less_harm", "Cells with significantly less harm than random"),
    Column("more_harm", "Cells with significantly more harm than random"),
    Column("draws", "Number of draws"),
    Column("reason", "Why something is None"),
)
"""One allocator under one budget, in a cell or as the equal-weight mean; shares of
the all-cheap loss.
"""


HARM_COUNTS_COLUMNS = (
    *BUDGET,
    Column(
        "allocators",
        "Allocators that are neither references nor diagnostics",
        heading="allocators",
    ),
    Column(
        "pairs",
        "Pairs of such an allocator and a cell that have both intervals",
        heading="pairs",
    ),
    Column(
        "less_harm",
        "Pairs with significantly less harm than random",
        heading="less harm",
    ),
    Column("more_harm", "Pairs with significantly more harm", heading="more harm"),
    Column(
        "more_benefit", "Pairs with significantly more benefit", heading="more benefit"
    ),
    Column(
        "less_benefit", "Pairs with significantly less benefit", heading="less benefit"
    ),
)
"""Pairs of allocator and cell under one budget, by their difference with random."""


NO_DIFFERENCES: Row = {
    "draws": 0,
    "benefit_difference": Estimate(),
    "benefit_verdict": None,
    "harm_difference": Estimate(),
    "harm_verdict": None,
}
"""Columns of references, which are not compared with random."""


def rows(cells: Sequence[Cell]) -> list[Row]:
    """Per budget and allocator: the mean over the cells that judge it, then each cell.

    Results need their samples.
    """
    results = of_each(cells, "results")
    if not results:
        raise InputError("Benefit and harm need at least one result; found none.")
    rows_of = {cell: _by_allocator(result) for cell, result in results.items()}
    names = list(
        dict.fromkeys(allocator for own in rows_of.values() for allocator in own)
    )
    by_budget: dict[BudgetKey, list[Row]] = {}
    for name in (
        *(name for name in SHOWN if name in names),
        *(name for name in names if name not in REFERENCES),
    ):
        judged = {
            cell: result for cell, result in results.items() if name in rows_of[cell]
        }
        alone = [
            row
            for cell, result in judged.items()
            for row in _cell_rows(cell, result, rows_of[cell][name])
        ]
        over = {} if name in REFERENCES else _over(judged, name)
        for budget in dict.fromkeys(BudgetKey.of(row) for row in alone):
            members = [row for row in alone if BudgetKey.of(row) == budget]
            by_budget.setdefault(budget, []).extend(
                [_mean(members, over.get(budget)), *members]
            )
    return [row for members in by_budget.values() for row in members]


def _by_allocator(result: Result) -> dict[str, list[ResultRow]]:
    """Rows of plain scores and of the references that are shown; per-mode scores are
    left out.
    """
    listed = (
        row
        for row in result.choosers
        if row.allocator in SHOWN or row.allocator not in REFERENCES
    )
    return lists_by_key(
        (row.allocator, row) for row in listed if row.oracle == "oracle"
    )


def _differences(
    result: Result, name: str
) -> dict[BudgetKey, tuple[ComparisonRow, ComparisonRow]]:
    """Benefit and harm against random, budget by budget; empty for a reference."""
    if name in REFERENCES:
        return {}
    parts = [
        {c.budget: c for c in compare(result, name, "random", of=of)}
        for of in ("benefit", "harm")
    ]
    return {budget: (parts[0][budget], parts[1][budget]) for budget in parts[0]}


def _cell_rows(cell: str, result: Result, own: Sequence[ResultRow]) -> Iterator[Row]:
    differences = _differences(result, own[0].allocator)
    gaps = {(gap.allocator, gap.budget): gap for gap in result.gaps}
    for row in own:
        against_random = NO_DIFFERENCES
        if row.budget in differences:
            against_random = _against_random(*differences[row.budget])
        gap = gaps.get((row.allocator, row.budget))
        yield {
            **vars(row.budget),
            **against_random,
            **_gap(gap, row.cheap_loss),
            **_counts([against_random]),
            "cell": cell,
            "cells": 1,
            "allocator": row.allocator,
            "benefit": share_of(row.benefit, row.cheap_loss),
            "harm": share_of(row.harm, row.cheap_loss),
            "reason": row.reason,
        }


def _gap(gap: Gap | None, loss: float | None) -> dict[str, Any]:
    names = ("gap", "missed", "left_out")
    return (
        dict.fromkeys(names)
        if gap is None
        else {name: share_of(gap[name], loss) for name in names}
    )


def _against_random(
    benefit: ComparisonRow | PooledComparison, harm: ComparisonRow | PooledComparison
) -> dict[str, Any]:
    """Both differences with random and their verdicts: better means more benefit, or
    less harm.
    """
    words = {
        "benefit": {"better": "more", "worse": "less", "unresolved": "unresolved"},
        "harm": {"better": "less", "worse": "more", "unresolved": "unresolved"},
    }
    columns: dict[str, Any] = {"draws": benefit.draws}
    for part, difference in zip(PARTS, (benefit, harm), strict=True):
        columns |= {
            f"{part}_difference": Estimate(
                difference.difference, difference.lo, difference.hi
            ),
            f"{part}_verdict": None
            if difference.verdict is None
            else words[part].get(difference.verdict),
        }
    return columns


def _counts(differences: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    benefit, harm = (
        [item.get(f"{part}_verdict") for item in differences] for part in PARTS
    )
    return {
        "more_benefit": benefit.count("more"),
        "less_benefit": benefit.count("less"),
        "less_harm": harm.count("less"),
        "more_harm": harm.count("more"),
    }


def _over(
    results: Mapping[str, Result], name: str
) -> dict[BudgetKey, tuple[PooledComparison, PooledComparison]]:
    """Benefit and harm against random as means over cells, under the budgets that all
    of these cells judge.
    """
    benefit, harm = (
        compare_over(results, name, "random", of=of) for of in ("benefit", "harm")
    )
    return {one.budget: (one, other) for one, other in zip(benefit, harm, strict=True)}


def _mean(
    members: Sequence[Row],
    over: tuple[PooledComparison, PooledComparison] | None,
) -> Row:
    """The mean over cells; `over` has its differences with random."""
    first = members[0]
    means: dict[str, Any] = {}
    for part in (*PARTS, "gap", "missed", "left_out"):
        means[part] = mean_of_all([row[part] for row in members])
    return {
        **vars(BudgetKey.of(first)),
        **means,
        **(NO_DIFFERENCES if over is None else _against_random(*over)),
        **_counts(members),
        "cell": None,
        "cells": len(members),
        "allocator": first["allocator"],
        "reason": joined(row["reason"] for row in members),
    }


def counts(rows: Sequence[Row]) -> list[Row]:
    """One row per budget, over all pairs of cell and allocator; diagnostics are not
    deployable and do not count.
    """
    apart, records = {*REFERENCES, *DIAGNOSTICS, *PLANNING_DIAGNOSTICS}, []
    for budget in dict.fromkeys(BudgetKey.of(row) for row in rows):
        own = [
            row
            for row in rows
            if BudgetKey.of(row) == budget
            and row["cell"]
            and row["allocator"] not in apart
        ]
        resolved = [
            row for row in own if row["benefit_verdict"] and row["harm_verdict"]
        ]
        number_of = len({row["allocator"] for row in own})
        records.append(
            {
                **vars(budget),
                **_counts(resolved),
                "allocators": number_of,
                "pairs": len(resolved),
            }
        )
    return records


def table(rows: Sequence[Row]) -> Table:
    """The means over cells, a section for each budget."""
    header = (
        "budget",
        "allocator",
        "cells",
        "benefit",
        "benefit vs random",
        "harm",
        "harm vs random",
    )
    header = (*header, "more / less benefit", "less / more harm")
    sections = []
    for budget, group in groupby(
        (row for row in rows if row["cell"] is None), key=budget_text
    ):
        sections.append(
            tuple(_line(row, budget if i == 0 else "") for i, row in enumerate(group))
        )
    notes = (
        "Means over cells, of the all-cheap loss; intervals are of the paired "
        "difference with random, which + and bold mark where it is resolved for the "
        "better, an asterisk for the worse. On the right: cells that resolve it.",
    )
    return Table(
        "Benefit captured and harm incurred",
        header,
        tuple(sections),
        notes,
        ("cells", "less / more harm", "more / less benefit"),
    )


def _line(row: Row, budget: str) -> tuple[TableCell, ...]:
    good = {"benefit": "more", "harm": "less"}
    parts = []
    for part in PARTS:
        verdict = _better(row[f"{part}_verdict"], good[part])
        text = percent(row[part]) + "+" * (verdict == "better")
        _, low, high = row[f"{part}_difference"]
        parts.append(TableCell(text, mark_of(verdict)))
        parts.append(TableCell(interval(low, high, percent)))
    alone = row["allocator"] in REFERENCES
    counted = (
        "" if alone else f"{row['more_benefit']} / {row['less_benefit']}",
        "" if alone else f"{row['less_harm']} / {row['more_harm']}",
    )
    return (
        *map(TableCell, (budget, row["allocator"], str(row["cells"]))),
        *parts,
        *map(TableCell, counted),
    )


def _better(verdict: str | None, good: str) -> str | None:
    return (
        "better"
        if verdict == good
        else "worse"
        if verdict in ("more", "less")
        else None
    )


def counts_table(rows: Sequence[Row]) -> Table:
    """Pairs of allocator and cell by their difference with random."""
    title = "Pairs of allocator and cell that differ from random at 95 %"
    return printed(title, HARM_COUNTS_COLUMNS, counts(rows))


def gap_table(rows: Sequence[Row]) -> Table:
    """The gap to the oracle by sign, as means over cells."""
    notes = (
        (
            "gap = missed + selected harm - left out, which the budget forces even the "
            "oracle to leave; means over cells."
        ),
    )
    return printed(
        "The gap to the oracle by sign",
        only(COLUMNS, "kind", "allocator", "gap", "missed", "harm", "left_out"),
        [row for row in rows if row["cell"] is None and row["gap"] is not None],
        notes=notes,
        group=("kind",),
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """All three."""
    return [table(rows), counts_table(rows), gap_table(rows)]


def charted(rows: Sequence[Row]) -> list[Row]:
    """Means over cells at the headline selection budget."""
    return at_headline(
        [
            row
            for row in rows
            if row["cell"] is None
            and row["kind"] == "selection"
            and row["allocator"] not in REFERENCES
        ]
    )


def figure(rows: Sequence[Row]) -> Any:
    """Benefit, harm and net gain of each allocator: means over cells at the headline
    selection budget.
    """
    means = at_headline(
        [
            row
            for row in rows
            if row["cell"] is None
            and row["kind"] == "selection"
            and row["harm"] is not None
        ]
    )
    means.sort(key=lambda row: (row["harm"] - row["benefit"], row["allocator"]))
    colours = {"benefit captured": style.HELPED, "harm selected": style.HARMED}
    entries = {
        row["allocator"]: dict(
            zip(colours, (row["benefit"], -row["harm"]), strict=True)
        )
        for row in means
    }
    at = ""
    if means:
        cells = quantity(means[0]["cells"], "cell")
        at = f"At {percent(means[0]['alpha'], 0)}, mean over {cells}"
    return stacked(entries, at, colours, total="Net gain")


BENEFIT_HARM = Analysis(
    name="benefit-harm",
    shows="Show captured benefit and incurred harm",
    paper="benefit captured and harm incurred",
    example="cells/braking-monocular cells/braking-oracle",
    details=(
        "Benefit captured and harm incurred against random, by cell and as means over"
        " cells, "
        "and the gap to the oracle by sign."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    figure=figure,
    charts=[
        Dots(
            "Against random at {alpha:.0%}, of the loss",
            {part: f"{part}_difference" for part in PARTS},
            label="{allocator}",
            line=0.0,
            of=charted,
        )
    ],
    asks=("results",),
)
