"""A registered plan and the cells of a run -> what became of every comparison, as the mean over the plan's cells.

Allocators are those of the run. Selection budgets are judged with allocators free, latency with their costs charged,
causal policies with what was fitted on training units alone; other budgets are no part of a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from deepval.cells.judgement import openings
from deepval.errors import InputError
from deepval.judging.comparison import Basis, parse_name
from deepval.judging.over_cells import PooledComparison, compare_bases, together
from deepval.paper.cell_parts import CellAtHand
from deepval.protocol.plans import DIRECTIONS, Planned, registered
from deepval.report.text_tables import Table, interval, lines_of, percent
from deepval.results import BudgetKey

CAUSAL = "causal"
JUDGED = {"selection": "results", "latency": "charged", CAUSAL: CAUSAL}
"""The part of a cell that a planned comparison is made on."""


@dataclass(frozen=True)
class PlannedRow:
    """A planned comparison at one budget.

    Attributes:
        candidate: The allocator in question, with its causal policy where it has one.
        baseline: What it is compared with.
        of: What is compared: gain, benefit or harm.
        budget: The budget.
        over: The cells in words.
        expected: better, worse or different.
        made: The comparison as the mean over the cells; None where it was not made.
        as_expected: Whether its verdict is what was expected; None where it was not made.
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
class PlanFollowed:
    """A plan that a run followed.

    Attributes:
        digest: SHA-256 of the plan.
        opened_before: Per cell, how often its test units had been judged on when the plan was registered; None where
            nobody looked.
        opened: Per cell at hand, how often by now.
        rows: Its comparisons.
    """

    digest: str
    opened_before: Mapping[str, int | None]
    opened: Mapping[str, int]
    rows: tuple[PlannedRow, ...]


def followed(path: Path, cells: Sequence[CellAtHand]) -> PlanFollowed:
    """What became of a registered plan on the cells of a run."""
    plan, registration = registered(path)
    at_hand = {at.cell.id: at for at in cells if at.cell.id in plan.cells}

    @cache
    def held(ids: tuple[str, ...], part: str) -> dict[str, Basis]:
        found = {cell: at_hand[cell].part(part) for cell in ids}
        return together({cell: result for cell, result in found.items() if result is not None})

    def row(item: Planned, alpha: float) -> PlannedRow:
        known = [at_hand[cell] for cell in item.cells if cell in at_hand]
        key = BudgetKey(item.budget, alpha)
        start = PlannedRow(item.candidate, item.baseline, item.of, key.label, _over(item, known), item.direction)
        causal = any(parse_name(name).policy for name in (item.candidate, item.baseline))
        part = JUDGED.get(CAUSAL if causal else item.budget)
        if len(known) < len(item.cells) or part is None:
            absent = f"{len(item.cells) - len(known)} of its {len(item.cells)} cells are not at hand"
            return replace(start, reason=absent if part else f"{item.budget} budgets are no part of a run")
        try:
            bases = held(item.cells, part)
            made = compare_bases(bases, item.candidate, item.baseline, of=item.of)  # pyright: ignore[reportArgumentType]
        except InputError as error:
            return replace(start, reason=str(error))
        found = next((entry for entry in made if entry.budget.holds(kind=item.budget, alpha=alpha)), None)
        if found is None or len(bases) < len(item.cells):
            return replace(start, reason="not every cell was judged so")
        return replace(start, made=found, as_expected=found.verdict in DIRECTIONS[item.direction])

    rows = tuple(row(item, alpha) for item in plan.comparisons for alpha in item.alphas)
    opened = {cell: openings(at.folder, cell) for cell, at in at_hand.items()}
    return PlanFollowed(plan.digest, dict(registration.opened), opened, rows)


def _over(item: Planned, known: Sequence[CellAtHand]) -> str:
    """How many cells, and what all of them share of data set, system and geometry."""
    parts = [(at.cell.spec.dataset, at.cell.spec.system, at.cell.spec.geometry) for at in known]
    shared = [entry[0] for entry in zip(*parts, strict=True) if len(set(entry)) == 1]
    return ", ".join([f"{len(item.cells)} cell{'s' * (len(item.cells) > 1)}", *shared])


def table(plan: PlanFollowed) -> Table:
    """The comparisons as a table."""
    header = ("planned", "over", "budget", "of", "expected", "difference", "95 %", "verdict", "as expected")
    texts = [
        (
            f"{row.candidate} against {row.baseline}",
            *(row.over, row.budget, row.of, row.expected),
            percent(None if row.made is None else row.made.difference),
            interval(*((None, None) if row.made is None else (row.made.lo, row.made.hi)), percent),
            "not made" if row.made is None else row.made.verdict or "",
            {None: "", True: "yes", False: "no"}[row.as_expected],
        )
        for row in plan.rows
    ]
    return Table("Planned comparisons", header, lines_of(texts), tuple(_notes(plan)))


def _notes(plan: PlanFollowed) -> Iterator[str]:
    made = sum(row.made is not None for row in plan.rows)
    yield f"Plan {plan.digest[:12]}: {made} of {len(plan.rows)} comparisons were made; no other comparison was planned."
    before = [number for number in plan.opened_before.values() if number]
    blind = sum(number is None for number in plan.opened_before.values())
    yield (
        f"When it was registered, test units of {len(before)} of its {len(plan.opened_before)} cells had been judged on"
        f" as far as was told; {blind} cells were registered without their folders, so of them nobody knows."
    )
    if plan.opened:
        least, most = min(plan.opened.values()), max(plan.opened.values())
        looks = f"{least}" if least == most else f"{least} to {most}"
        yield f"By now {looks} looks at the test units of each cell are on record here."
    yield from dict.fromkeys(f"{row.candidate}, {row.over}: {row.reason}." for row in plan.rows if row.reason)
