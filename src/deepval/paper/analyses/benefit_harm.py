"""Results of several cells -> the benefit that allocators capture and the harm that they take with it, against random.

docs/definitions.md, Where the gap goes: gap = missed benefit + selected harm - benefit that the budget forces even the
oracle to leave. Differences with random are paired, over cells by the joint bootstrap (Means over cells).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any

from deepval.diagnostics import DIAGNOSTICS, PLANNING_DIAGNOSTICS
from deepval.errors import InputError
from deepval.judging.comparison import Comparison, compare
from deepval.judging.over_cells import PooledComparison, compare_over
from deepval.report.charts import Chart, Dot, shares
from deepval.report.text_table import Table, TableCell, interval, lines_of, mark_of, percent
from deepval.results import HEADLINE, BudgetKey, BudgetRecord, Gap, Result, Row, joined
from deepval.tables.scores import REFERENCES

SHOWN = ("oracle", "random")
"""References whose benefit and harm stand beside the others'."""
PARTS = ("benefit", "harm")


@dataclass(frozen=True)
class BenefitHarmRow(BudgetRecord):
    """One allocator under one budget, in a cell or as the equal-weight mean over cells; shares of the all-cheap loss.

    Attributes:
        cell: The cell; None in the mean over cells.
        cells: Number of cells.
        allocator: The allocator; `oracle` and `random` have no differences with random.
        kind: selection, latency or energy.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        benefit: Positive value captured.
        harm: Harm selected, a positive number.
        benefit_difference: Benefit less random's.
        benefit_difference_lo: Lower bound of its paired 95 % interval.
        benefit_difference_hi: Upper bound.
        benefit_verdict: more, less or unresolved; None without an interval.
        harm_difference: Harm less random's.
        harm_difference_lo: Lower bound of its paired 95 % interval.
        harm_difference_hi: Upper bound.
        harm_verdict: less, more or unresolved.
        gap: Oracle's gain less the allocator's; None of references and of per-mode scores.
        missed: Benefit that is not escalated.
        left_out: Benefit that the budget forces even the oracle to leave: gap = missed + harm - left_out.
        more_benefit: Cells with significantly more benefit than random.
        less_benefit: Cells with less.
        less_harm: Cells with significantly less harm than random.
        more_harm: Cells with more.
        draws: Number of draws.
        reason: Why something is None.
    """

    cell: str | None
    cells: int
    allocator: str
    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    benefit: float | None = None
    harm: float | None = None
    benefit_difference: float | None = None
    benefit_difference_lo: float | None = None
    benefit_difference_hi: float | None = None
    benefit_verdict: str | None = None
    harm_difference: float | None = None
    harm_difference_lo: float | None = None
    harm_difference_hi: float | None = None
    harm_verdict: str | None = None
    gap: float | None = None
    missed: float | None = None
    left_out: float | None = None
    more_benefit: int = 0
    less_benefit: int = 0
    less_harm: int = 0
    more_harm: int = 0
    draws: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class HarmCounts(BudgetRecord):
    """Pairs of allocator and cell under one budget, by what they do beside random.

    Attributes:
        kind: selection, latency or energy.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping.
        allocators: Allocators that are neither references nor diagnostics.
        pairs: Pairs of these and cells that have both intervals.
        less_harm: Pairs with significantly less harm than random.
        more_harm: Pairs with more.
        more_benefit: Pairs with significantly more benefit.
        less_benefit: Pairs with less.
    """

    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    allocators: int
    pairs: int
    less_harm: int
    more_harm: int
    more_benefit: int
    less_benefit: int


def rows(results: Mapping[str, Result]) -> list[BenefitHarmRow]:
    """Per budget and allocator the mean over the cells that judge it, then each of them; results need their samples."""
    if not results:
        raise InputError("Benefit and harm need at least one result; found none.")
    plain = {cell: _by_allocator(result) for cell, result in results.items()}
    met = list(dict.fromkeys(allocator for own in plain.values() for allocator in own))
    found: dict[BudgetKey, list[BenefitHarmRow]] = {}
    for name in (*(name for name in SHOWN if name in met), *(name for name in met if name not in REFERENCES)):
        judged = {cell: result for cell, result in results.items() if name in plain[cell]}
        alone = [row for cell, result in judged.items() for row in _cell_rows(cell, result, plain[cell][name])]
        over = {} if name in REFERENCES else _over(judged, name)
        for budget in dict.fromkeys(row.budget for row in alone):
            members = [row for row in alone if row.budget == budget]
            found.setdefault(budget, []).extend([_mean(members, over.get(budget)), *members])
    return [row for members in found.values() for row in members]


def _by_allocator(result: Result) -> dict[str, list[Row]]:
    """Rows of references that are shown and of plain scores; on a ladder, chance has several modes to harm by."""
    found: dict[str, list[Row]] = {}
    for row in result.rows:
        if row.oracle == "oracle" and (row.allocator in SHOWN or row.allocator not in REFERENCES):
            found.setdefault(row.allocator, []).append(row)
    return found


def _differences(result: Result, name: str) -> dict[BudgetKey, tuple[Comparison, Comparison]]:
    """Benefit and harm against random, budget by budget; none of a reference."""
    if name in REFERENCES:
        return {}
    parts = [{c.budget: c for c in compare(result, name, "random", of=of)} for of in ("benefit", "harm")]
    return {budget: (parts[0][budget], parts[1][budget]) for budget in parts[0]}


def _cell_rows(cell: str, result: Result, own: Sequence[Row]) -> Iterator[BenefitHarmRow]:
    differences = _differences(result, own[0].allocator)
    gaps = {(gap.allocator, gap.budget): gap for gap in result.gaps}
    for row in own:
        told = _told(*differences[row.budget]) if row.budget in differences else {}
        gap = gaps.get((row.allocator, row.budget))
        yield BenefitHarmRow(
            cell=cell,
            cells=1,
            allocator=row.allocator,
            **row.budget.fields,
            benefit=_share(row.benefit, row.cheap_loss),
            harm=_share(row.harm, row.cheap_loss),
            **told,
            **_gap(gap, row.cheap_loss),
            **_counts([told]),
            reason=row.reason,
        )


def _share(part: float | None, loss: float | None) -> float | None:
    return None if part is None or loss is None or not loss > 0 else part / loss


def _gap(gap: Gap | None, loss: float | None) -> dict[str, Any]:
    names = ("gap", "missed", "left_out")
    return dict.fromkeys(names) if gap is None else {name: _share(gap[name], loss) for name in names}


def _told(benefit: Comparison | PooledComparison, harm: Comparison | PooledComparison) -> dict[str, Any]:
    """Both differences with random, and what they say: better is more benefit, or less harm."""
    words = {
        "benefit": {"better": "more", "worse": "less", "unresolved": "unresolved"},
        "harm": {"better": "less", "worse": "more", "unresolved": "unresolved"},
    }
    found: dict[str, Any] = {"draws": benefit.draws}
    for part, each in zip(PARTS, (benefit, harm), strict=True):
        found |= {
            f"{part}_difference": each.difference,
            f"{part}_difference_lo": each.lo,
            f"{part}_difference_hi": each.hi,
        }
        found[f"{part}_verdict"] = None if each.verdict is None else words[part].get(each.verdict)
    return found


def _counts(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    benefit, harm = ([each.get(f"{part}_verdict") for each in told] for part in PARTS)
    return {
        "more_benefit": benefit.count("more"),
        "less_benefit": benefit.count("less"),
        "less_harm": harm.count("less"),
        "more_harm": harm.count("more"),
    }


def _over(results: Mapping[str, Result], name: str) -> dict[BudgetKey, tuple[PooledComparison, PooledComparison]]:
    """Benefit and harm against random as means over cells, under the budgets that all of these judge."""
    benefit, harm = (compare_over(results, name, "random", of=of) for of in ("benefit", "harm"))
    return {one.budget: (one, other) for one, other in zip(benefit, harm, strict=True)}


def _mean(members: Sequence[BenefitHarmRow], over: tuple[PooledComparison, PooledComparison] | None) -> BenefitHarmRow:
    """The mean over cells, whose differences with random are those of `over`."""
    first = members[0]
    means: dict[str, Any] = {}
    for part in (*PARTS, "gap", "missed", "left_out"):
        known = [row[part] for row in members if row[part] is not None]
        means[part] = fmean(known) if len(known) == len(members) else None
    return BenefitHarmRow(
        cell=None,
        cells=len(members),
        allocator=first.allocator,
        **first.budget.fields,
        **means,
        **({} if over is None else _told(*over)),
        **_counts(members),
        reason=joined(row.reason for row in members),
    )


def counts(rows: Sequence[BenefitHarmRow]) -> list[HarmCounts]:
    """One row per budget, over all pairs of cell and allocator; diagnostics, which are not deployable, do not count."""
    apart, found = {*REFERENCES, *DIAGNOSTICS, *PLANNING_DIAGNOSTICS}, []
    for budget in dict.fromkeys(row.budget for row in rows):
        own = [row for row in rows if row.budget == budget and row.cell and row.allocator not in apart]
        told = [row for row in own if row.benefit_verdict and row.harm_verdict]
        number_of = len({row.allocator for row in own})
        found.append(HarmCounts(**budget.fields, allocators=number_of, pairs=len(told), **_counts(told)))
    return found


def table(rows: Sequence[BenefitHarmRow]) -> Table:
    """The means over cells, a section for each budget."""
    header = ("budget", "allocator", "cells", "benefit", "benefit vs random", "harm", "harm vs random")
    header = (*header, "more / less benefit", "less / more harm")
    sections = []
    for budget, group in groupby((row for row in rows if row.cell is None), key=lambda row: row.budget.label):
        sections.append(tuple(_line(row, budget if i == 0 else "") for i, row in enumerate(group)))
    notes = (
        "Means over cells, of the all-cheap loss; intervals are of the paired difference with random, which + and bold "
        "mark where it is resolved for the better, an asterisk for the worse. On the right: cells that resolve it.",
    )
    return Table(
        "Benefit captured and harm incurred",
        header,
        tuple(sections),
        notes,
        ("cells", "less / more harm", "more / less benefit"),
    )


def _line(row: BenefitHarmRow, budget: str) -> tuple[TableCell, ...]:
    good = {"benefit": "more", "harm": "less"}
    marks = {part: _better(row[f"{part}_verdict"], good[part]) for part in PARTS}
    parts = [
        cell
        for part in PARTS
        for cell in (
            TableCell(percent(row[part]) + "+" * (marks[part] == "better"), mark_of(marks[part])),
            TableCell(interval(row[f"{part}_difference_lo"], row[f"{part}_difference_hi"], percent)),
        )
    ]
    alone = row.allocator in REFERENCES
    counted = (
        "" if alone else f"{row.more_benefit} / {row.less_benefit}",
        "" if alone else f"{row.less_harm} / {row.more_harm}",
    )
    return (*map(TableCell, (budget, row.allocator, str(row.cells))), *parts, *map(TableCell, counted))


def _better(verdict: str | None, good: str) -> str | None:
    return "better" if verdict == good else "worse" if verdict in ("more", "less") else None


def counts_table(rows: Sequence[BenefitHarmRow]) -> Table:
    """Pairs of allocator and cell by what they do beside random."""
    header = ("budget", "allocators", "pairs", "less harm", "more harm", "more benefit", "less benefit")
    texts = [
        (
            row.budget.label,
            *map(str, (row.allocators, row.pairs, row.less_harm, row.more_harm, row.more_benefit, row.less_benefit)),
        )
        for row in counts(rows)
    ]
    return Table("Pairs of allocator and cell that differ from random at 95 %", header, lines_of(texts))


def gap_table(rows: Sequence[BenefitHarmRow]) -> Table:
    """Where the gap to the oracle goes by sign, as means over cells."""
    header = ("budget", "allocator", "gap", "missed", "selected harm", "left out")
    sections = []
    for budget, group in groupby(
        (row for row in rows if row.cell is None and row.gap is not None), key=lambda row: row.budget.label
    ):
        sections.append(
            tuple(
                tuple(
                    map(
                        TableCell,
                        (
                            *(budget if i == 0 else "", row.allocator),
                            *map(percent, (row.gap, row.missed, row.harm, row.left_out)),
                        ),
                    )
                )
                for i, row in enumerate(group)
            )
        )
    notes = (
        "gap = missed + selected harm - left out, which the budget forces even the oracle to leave; means over cells.",
    )
    return Table("The gap to the oracle by sign", header, tuple(sections), notes)


def tables(rows: Sequence[BenefitHarmRow]) -> list[Table]:
    """All three."""
    return [table(rows), counts_table(rows), gap_table(rows)]


def chart(rows: Sequence[BenefitHarmRow]) -> Chart:
    """Benefit and harm less random's, of each allocator as a mean over cells, at the headline selection budget."""
    shown = [row for row in rows if row.cell is None and row.kind == "selection" and row.allocator not in REFERENCES]
    at = min((row.alpha for row in shown), key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    dots = [
        Dot(row.allocator, part, row[f"{part}_difference"], row[f"{part}_difference_lo"], row[f"{part}_difference_hi"])
        for row in shown
        if row.alpha == at
        for part in PARTS
    ]
    return shares(f"Against random at {at:.0%}, of the loss", dots, line=0.0)
