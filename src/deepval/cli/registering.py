"""`deepval register` and `--plan`: comparisons declared before test units are looked at, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepval.cells.case import Case, note, openings
from deepval.cli import options
from deepval.cli.options import Json
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.protocol import plans
from deepval.protocol.plans import ComparisonPlan, Made, Registration
from deepval.report.console import render_tables
from deepval.report.text_table import MISSING, Table, TableCell
from deepval.results import BudgetKey
from deepval.tables.scores import Scores

if TYPE_CHECKING:
    from deepval.cells.folder import BuiltCell


def register(
    plan: Annotated[Path, typer.Argument(help="A plan (.toml): tables [[comparison]].")],
    cells: Annotated[list[Path] | None, typer.Argument(help="Folders of its cells: were they opened before?")] = None,
    *,
    json: Json = False,
) -> None:
    """Register the comparisons of a plan before test units are looked at: its hash goes into a log beside it.

    A plan names candidate, baseline, cells (by id), alphas, and may name budget, of and direction. A plan that is
    registered already stays as it was; a changed plan is a new line. `evaluate --plan` and `compare --plan` follow it.

    Example: deepval register plan.toml cells/braking-monocular
    """
    from deepval.cells.folder import read_cell

    plan_cells = plans.read_plan(plan).cells
    opened = {cell.id: openings(cell.folder, cell.id) for cell in map(read_cell, cells or ())}
    unplanned = [cell for cell in opened if cell not in plan_cells]
    if unplanned:
        raise InputError(f"{plan}: cells that are given must be in the plan; {unplanned[0]!r} is not.")
    registration = plans.register(plan, opened)
    if json:
        typer.echo(options.as_json({"plan": registration.plan, "opened": dict(registration.opened)}), nl=False)
        return
    say(f"{plans.log_path(plan)}: plan {registration.plan}")
    for sentence in _when(registration):
        say(sentence)


def _when(registration: Registration) -> list[str]:
    """Per cell, how often its test units had been opened when the plan was registered."""
    return [f"{cell}: registered {_looks(looks)}." for cell, looks in sorted(registration.opened.items())]


def _looks(number: int | None) -> str:
    if number is None:
        return "without its folder, so nobody knows whether its test units had been opened"
    return f"after {_times(number)} on record" if number else "with no look at its test units on record"


def _times(number: int) -> str:
    return "one look at its test units" if number == 1 else f"{number} looks at its test units"


@dataclass(frozen=True)
class Followed:
    """A registered plan, and the cells on which it is followed."""

    plan: ComparisonPlan
    registration: Registration
    cells: Mapping[str, "BuiltCell"]

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the cells, sorted."""
        return tuple(sorted(cell.id for cell in self.cells.values()))


def followed(plan: Path | None, cases: Mapping[str, Case]) -> Followed | None:
    """The plan to follow on these cells; None where none is given."""
    if plan is None:
        return None
    comparison_plan, registration = plans.registered(plan)
    without_cell = [name for name, case in cases.items() if case.cell is None]
    if without_cell:
        raise InputError(
            f"{without_cell[0]}: --plan names cells by id, and a values file has none: give the cell's folder."
        )
    return Followed(
        comparison_plan, registration, {name: case.cell for name, case in cases.items() if case.cell is not None}
    )


def noted(
    case: Case, by: str, units: Sequence[str] | None, scores: Mapping[str, Scores], plan: Followed | None = None
) -> None:
    """Count a look at a cell's test units; a values file has nobody to count for."""
    if case.cell is not None:
        note(case.cell, by=by, units=units, scores=scores, plan=None if plan is None else plan.plan.digest)


def made_by(
    plan: Followed,
    units: Mapping[str, Sequence[str] | None],
    rows: Sequence[tuple[str, str, BudgetKey, str, str | None]],
) -> list[Made]:
    """Comparisons (candidate, baseline, budget, of, verdict) that were made on the test units of cells, and only they.

    On other units, such as those of validation, none of a plan is made.
    """
    if any(set(units[name] or ()) != set(cell.split.test) for name, cell in plan.cells.items()):
        return []
    return [Made(one, other, plan.ids, budget, of, verdict) for one, other, budget, of, verdict in rows]


def show_plan(plan: Followed, actual: Sequence[Made], *, err: bool) -> None:
    """Print which comparisons were planned and what became of them, which were not, and how often units were opened."""
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
        *_when(plan.registration),
        f"Not planned: {len(rest)} of {len(actual)} comparisons{f' ({examples}{more})' if rest else ''}."
        if actual
        else "Other units than the test units were judged, which no plan is about.",
        *(f"{cell.id}: {_times(openings(cell.folder, cell.id))} on record by now." for cell in plan.cells.values()),
    ]
    header = ("planned", "budget", "of", "expected", "verdict", "as expected")
    table = Table("Planned comparisons", header, (tuple(lines),), tuple(notes))
    typer.echo(render_tables([table], width=options.width()), nl=False, err=err)
