"""Plans of comparisons, registered before test units are opened, and the report of what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from deepval.cells.evaluation_data import EvaluationData, note, openings
from deepval.cli import terminal
from deepval.cli.terminal import say
from deepval.errors import InputError
from deepval.protocol import plans
from deepval.protocol.plans import ComparisonPlan, Made, Registration
from deepval.report.console import render_tables
from deepval.report.table import MISSING, Table, TableCell
from deepval.results import BudgetKey
from deepval.tables.scores import Scores

if TYPE_CHECKING:
    from deepval.cells.folder import BuiltCell


def register(plan: Path, cells: Sequence[Path], *, json: bool) -> None:
    """Write the hash of a plan to the log beside it, and print how often the cells' test units had been opened."""
    from deepval.cells.folder import read_cell

    plan_cells = plans.read_plan(plan).cells
    opened = {cell.id: openings(cell.folder, cell.id) for cell in map(read_cell, cells)}
    unplanned = [cell for cell in opened if cell not in plan_cells]
    if unplanned:
        raise InputError(f"{plan}: every cell on the command line must be in the plan; {unplanned[0]!r} is not.")
    registration = plans.register(plan, opened)
    if json:
        terminal.print_json({"plan": registration.plan, "opened": dict(registration.opened)})
        return
    say(f"{plans.log_path(plan)}: plan {registration.plan}")
    for sentence in _looks_before(registration):
        say(sentence)


def _looks_before(registration: Registration) -> list[str]:
    """Per cell, how often its test units had been opened when the plan was registered."""
    return [f"{cell}: registered {_looks(looks)}." for cell, looks in sorted(registration.opened.items())]


def _looks(number: int | None) -> str:
    if number is None:
        return "without its folder; looks at its test units before that are unknown"
    return f"after {_times(number)} on record" if number else "with no look at its test units on record"


def _times(number: int) -> str:
    return "one look at its test units" if number == 1 else f"{number} looks at its test units"


@dataclass(frozen=True)
class PlanOnCells:
    """A registered plan, and the cells to which it is applied."""

    plan: ComparisonPlan
    registration: Registration
    cells: Mapping[str, "BuiltCell"]

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the cells, sorted."""
        return tuple(sorted(cell.id for cell in self.cells.values()))


def plan_on(cases: Mapping[str, EvaluationData], plan: Path | None) -> PlanOnCells | None:
    """The registered plan for these cells; None without a plan."""
    if plan is None:
        return None
    comparison_plan, registration = plans.registered(plan)
    without_cell = [name for name, case in cases.items() if case.cell is None]
    if without_cell:
        raise InputError(
            f"{without_cell[0]}: --plan names cells by id, and a values file has none: give the cell's folder."
        )
    return PlanOnCells(
        comparison_plan, registration, {name: case.cell for name, case in cases.items() if case.cell is not None}
    )


def count_look(
    case: EvaluationData,
    by: str,
    units: Sequence[str] | None,
    scores: Mapping[str, Scores],
    plan: PlanOnCells | None = None,
) -> None:
    """Record a look at a cell's test units; a values file has no record."""
    if case.cell is not None:
        note(case.cell, by=by, units=units, scores=scores, plan=None if plan is None else plan.plan.digest)


def on_test_units(
    plan: PlanOnCells,
    units: Mapping[str, Sequence[str] | None],
    rows: Sequence[tuple[str, str, BudgetKey, str, str | None]],
) -> list[Made]:
    """Comparisons (candidate, baseline, budget, of, verdict), if exactly the test units were judged; else none.

    A plan is about test units only.
    """
    if any(set(units[name] or ()) != set(cell.split.test) for name, cell in plan.cells.items()):
        return []
    return [Made(one, other, plan.ids, budget, of, verdict) for one, other, budget, of, verdict in rows]


def print_plan(plan: PlanOnCells, actual: Sequence[Made], *, err: bool) -> None:
    """Print the outcome of every planned comparison, the number of others, and how often test units were opened."""
    lines = []
    for item in plan.plan.outcomes(actual):
        name = f"{item.planned.candidate} against {item.planned.baseline}"
        expected = {None: "not made here", True: "yes", False: "no"}[item.as_expected]
        budget = BudgetKey(item.planned.budget, item.alpha).label
        texts = (name, budget, item.planned.of, item.planned.direction, item.verdict or MISSING, expected)
        lines.append(tuple(map(TableCell, texts)))
    rest = plan.plan.unplanned(actual)
    examples = ", ".join(f"{m.candidate} against {m.baseline}, {m.budget.label}" for m in rest[:3])
    more = ", ..." if len(rest) > 3 else ""
    notes = [
        f"Plan {plan.registration.plan[:12]}.",
        *_looks_before(plan.registration),
        f"Not planned: {len(rest)} of {len(actual)} comparisons{f' ({examples}{more})' if rest else ''}."
        if actual
        else "The plan is about test units only, and other units were judged.",
        *(f"{cell.id}: {_times(openings(cell.folder, cell.id))} on record by now." for cell in plan.cells.values()),
    ]
    header = ("planned", "budget", "of", "expected", "verdict", "as expected")
    table = Table("Planned comparisons", header, (tuple(lines),), tuple(notes))
    typer.echo(render_tables([table], width=terminal.width()), nl=False, err=err)
