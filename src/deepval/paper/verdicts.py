"""A registered plan -> its outcome on the cells of a run, as a table of a report.

A planned comparison is the mean over the
cells of the plan: selection budgets are judged with allocators free, latency with their
costs charged, causal policies with fits on training units alone. A run has no other
budgets.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from deepval.cells.judgement import openings
from deepval.errors import InputError, InputWarning
from deepval.judging.comparison import Basis, parse_name
from deepval.judging.over_cells import PooledComparison, compare_bases, together
from deepval.paper.parts import RunCell
from deepval.protocol.plans import DIRECTIONS, Planned, registered
from deepval.report.text_tables import Table, interval, lines_of, percent, quantity
from deepval.results import BudgetKey

CAUSAL = "causal"
JUDGED = {"selection": "results", "latency": "charged", CAUSAL: CAUSAL}
"""By kind of budget, the part of a cell that a planned comparison uses."""


@dataclass(frozen=True)
class PlannedRow:
    """A planned comparison at one budget.

    Attributes:
        candidate: The allocator in question, with its causal policy where it has one.
        baseline: The allocator that it is compared with.
        of: What is compared: gain, benefit or harm.
        budget: The budget.
        over: The cells in words.
        expected: better, worse or different.
        made: The comparison as the mean over the cells; None if it was not made.
        as_expected: Whether its verdict is the expected one; None if it was not made.
        reason: Why it was not made.
    """

    candidate: str
    baseline: str
    of: str
    budget: str
    over: str
    expected: str
    made: PooledComparison | None = None
    as_expected: bool | None = None
    reason: str | None = None


@dataclass(frozen=True)
class PlanOutcome:
    """A plan that a run followed.

    Attributes:
        digest: SHA-256 of the plan.
        opened_before: Per cell, how often its test units had been judged on when the
            plan was registered; None where unknown.
        opened: The same number now, for each cell of the run.
        rows: Its comparisons.
    """

    digest: str
    opened_before: Mapping[str, int | None]
    opened: Mapping[str, int]
    rows: tuple[PlannedRow, ...]


def plan_outcome(path: Path, cells: Sequence[RunCell]) -> PlanOutcome:
    """The outcome of a registered plan on the cells of a run."""
    plan, registration = registered(path)
    by_id = {at.cell.id: at for at in cells if at.cell.id in plan.cells}

    @cache
    def bases_of(ids: tuple[str, ...], part: str) -> dict[str, Basis]:
        with warnings.catch_warnings():
            # the rows state what a command would warn of
            warnings.simplefilter("ignore", InputWarning)
            results = {cell: by_id[cell].part(part) for cell in ids}
        return together(
            {cell: result for cell, result in results.items() if result is not None}
        )

    def row(item: Planned, alpha: float) -> PlannedRow:
        present = [by_id[cell] for cell in item.cells if cell in by_id]
        key = BudgetKey(item.budget, alpha)
        start = PlannedRow(
            item.candidate,
            item.baseline,
            item.of,
            key.label,
            _over(item, present),
            item.direction,
        )
        causal = any(
            parse_name(name).policy for name in (item.candidate, item.baseline)
        )
        part = JUDGED.get(CAUSAL if causal else item.budget)
        if len(present) < len(item.cells) or part is None:
            absent = (
                f"{len(item.cells) - len(present)} of its {len(item.cells)} cells are "
                "not in this run"
            )
            return replace(
                start,
                reason=absent
                if part
                else f"{item.budget} budgets are no part of a run",
            )
        try:
            bases = bases_of(item.cells, part)
            compared = compare_bases(bases, item.candidate, item.baseline, of=item.of)  # pyright: ignore[reportArgumentType]
        except InputError as error:
            return replace(start, reason=str(error))
        comparison = next(
            (
                entry
                for entry in compared
                if entry.budget.holds(kind=item.budget, alpha=alpha)
            ),
            None,
        )
        if comparison is None or len(bases) < len(item.cells):
            return replace(start, reason="not every cell was judged so")
        return replace(
            start,
            made=comparison,
            as_expected=comparison.verdict in DIRECTIONS[item.direction],
        )

    rows = tuple(row(item, alpha) for item in plan.comparisons for alpha in item.alphas)
    opened = {cell: openings(at.folder, cell) for cell, at in by_id.items()}
    return PlanOutcome(plan.digest, dict(registration.opened), opened, rows)


def _over(item: Planned, cells: Sequence[RunCell]) -> str:
    """The number of cells, and those of data set, system and geometry that all of them
    share.
    """
    parts = [
        (at.cell.spec.dataset, at.cell.spec.system, at.cell.spec.geometry)
        for at in cells
    ]
    shared = [entry[0] for entry in zip(*parts, strict=True) if len(set(entry)) == 1]
    return ", ".join([f"{len(item.cells)} cell{'s' * (len(item.cells) > 1)}", *shared])


def plan_table(plan: PlanOutcome) -> Table:
    """The comparisons as a table."""
    header = (
        "planned",
        "over",
        "budget",
        "of",
        "expected",
        "difference",
        "95 %",
        "verdict",
        "as expected",
    )
    texts = [
        (
            f"{row.candidate} against {row.baseline}",
            *(row.over, row.budget, row.of, row.expected),
            percent(None if row.made is None else row.made.difference),
            interval(
                *((None, None) if row.made is None else (row.made.lo, row.made.hi)),
                percent,
            ),
            "not made" if row.made is None else row.made.verdict or "",
            {None: "", True: "yes", False: "no"}[row.as_expected],
        )
        for row in plan.rows
    ]
    return Table(
        "Planned comparisons", header, lines_of(texts), tuple(_plan_notes(plan))
    )


def _plan_notes(plan: PlanOutcome) -> Iterator[str]:
    made = sum(row.made is not None for row in plan.rows)
    yield (
        f"Plan {plan.digest[:12]}: {made} of {len(plan.rows)} comparisons were made; "
        "no other comparison was planned."
    )
    before = [number for number in plan.opened_before.values() if number]
    blind = sum(number is None for number in plan.opened_before.values())
    yield (
        f"At registration, the test units of {len(before)} of its "
        f"{len(plan.opened_before)} cells had been judged; for "
        f"{quantity(blind, 'cell')} this is not recorded, because "
        "their folders were not named."
    )
    if plan.opened:
        least, most = min(plan.opened.values()), max(plan.opened.values())
        times = quantity(most, "time") if least == most else f"{least} to {most} times"
        yield (
            f"By now, the test units of each cell have been judged {times}, as "
            "recorded in their folders."
        )
    yield from dict.fromkeys(
        f"{row.candidate}, {row.over}: {row.reason}." for row in plan.rows if row.reason
    )
