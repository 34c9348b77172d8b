"""`deepval compare`: two allocators on the same tables -> paired differences; plans of
comparisons are registered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from deepval.cells.judgement import (
    EvaluationData,
    judge,
    note,
    note_unknown_fits,
    openings,
)
from deepval.cli import options, terminal
from deepval.cli.commands import option
from deepval.cli.terminal import say
from deepval.errors import InputError
from deepval.files.writing import check_writable, write_atomically
from deepval.judging import comparison
from deepval.judging.comparison import POLICIES, STATISTICS, Named, parse_name
from deepval.judging.draws import seeds_by_units
from deepval.judging.over_cells import compare_over
from deepval.protocol import plans
from deepval.protocol.plans import ComparisonPlan, Made, Registration
from deepval.report.comparisons import (
    GATES,
    AnyComparison,
    Gate,
    area_table,
    comparison_table,
)
from deepval.report.console import render_tables
from deepval.report.forms import escape_markdown, table_markdown
from deepval.report.result_tables import units_judged, with_units
from deepval.report.text_tables import MISSING, Table, TableCell
from deepval.results import Area, BudgetKey, Result, Row
from deepval.tables.scores import Scores

if TYPE_CHECKING:
    from deepval.cells.folder import BuiltCell


def register(plan: Path, cells: Sequence[Path], *, json: bool) -> None:
    """Write the hash of a plan to the log beside it, and print how often the cells'
    test units had been opened.
    """
    from deepval.cells.folder import read_cell

    plan_cells = plans.read_plan(plan).cells
    opened = {cell.id: openings(cell.folder, cell.id) for cell in map(read_cell, cells)}
    unplanned = [cell for cell in opened if cell not in plan_cells]
    if unplanned:
        raise InputError(
            f"{plan}: every cell on the command line "
            f"must be in the plan; {unplanned[0]!r} is not."
        )
    registration = plans.register(plan, opened)
    if json:
        terminal.print_json(
            {"plan": registration.plan, "opened": dict(registration.opened)}
        )
        return
    say(f"{plans.log_path(plan)}: plan {registration.plan}")
    for sentence in _looks_before(registration):
        say(sentence)


def _looks_before(registration: Registration) -> list[str]:
    """Per cell, how often its test units had been opened when the plan was
    registered.
    """
    return [
        f"{cell}: registered {_looks(looks)}."
        for cell, looks in sorted(registration.opened.items())
    ]


def _looks(number: int | None) -> str:
    if number is None:
        return "without its folder; looks at its test units before that are unknown"
    return (
        f"after {_times(number)} on record"
        if number
        else "with no look at its test units on record"
    )


def _times(number: int) -> str:
    return (
        "one look at its test units"
        if number == 1
        else f"{number} looks at its test units"
    )


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


def plan_on(cases: Mapping[str, EvaluationData], plan: Path) -> PlanOnCells:
    """The registered plan for these cells."""
    comparison_plan, registration = plans.registered(plan)
    without_cell = [name for name, case in cases.items() if case.cell is None]
    if without_cell:
        raise InputError(
            f"{without_cell[0]}: --plan names cells by id, and a values file has "
            "none: give the cell's folder."
        )
    return PlanOnCells(
        comparison_plan,
        registration,
        {name: case.cell for name, case in cases.items() if case.cell is not None},
    )


def on_test_units(
    plan: PlanOnCells,
    units: Mapping[str, Sequence[str] | None],
    rows: Sequence[tuple[str, str, BudgetKey, str, str | None]],
) -> list[Made]:
    """Comparisons (candidate, baseline, budget, of, verdict), if exactly the test units
    were judged; else none.

    A plan is about test units only.
    """
    if any(
        set(units[name] or ()) != set(cell.split.test)
        for name, cell in plan.cells.items()
    ):
        return []
    return [
        Made(one, other, plan.ids, budget, of, verdict)
        for one, other, budget, of, verdict in rows
    ]


def print_plan(plan: PlanOnCells, actual: Sequence[Made], *, err: bool) -> None:
    """Print the outcome of every planned comparison, the number of others, and how
    often test units were opened.
    """
    lines = []
    for item in plan.plan.outcomes(actual):
        name = f"{item.planned.candidate} against {item.planned.baseline}"
        expected = {None: "not made here", True: "yes", False: "no"}[item.as_expected]
        budget = BudgetKey(item.planned.budget, item.alpha).label
        texts = (
            name,
            budget,
            item.planned.of,
            item.planned.direction,
            item.verdict or MISSING,
            expected,
        )
        lines.append(tuple(map(TableCell, texts)))
    rest = plan.plan.unplanned(actual)
    examples = ", ".join(
        f"{m.candidate} against {m.baseline}, {m.budget.label}" for m in rest[:3]
    )
    more = ", ..." if len(rest) > 3 else ""
    notes = [
        f"Plan {plan.registration.plan[:12]}.",
        *_looks_before(plan.registration),
        (
            "Not planned: "
            f"{len(rest)} of "
            f"{len(actual)} comparisons{f' ({examples}{more})' if rest else ''}."
        )
        if actual
        else "The plan is about test units only, and other units were judged.",
        *(
            f"{cell.id}: {_times(openings(cell.folder, cell.id))} on record by now."
            for cell in plan.cells.values()
        ),
    ]
    header = ("planned", "budget", "of", "expected", "verdict", "as expected")
    table = Table("Planned comparisons", header, (tuple(lines),), tuple(notes))
    typer.echo(
        render_tables([table], width=terminal.look()["width"]), nl=False, err=err
    )


FAILED_GATE = 3
"""Exit code of `--fail-if` if the gate fails; 2 is bad input."""
AREA = "area"
FORMATS = ("console", "markdown", "json")


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE... CANDIDATE BASELINE",
            help=(
                "Cell folders or values files (several: the mean over them is "
                "compared), then the scores of the candidate and of the baseline: "
                "FILE, NAME=FILE, or a name in the cell's folder scores. NAME@POLICY "
                f"compares under a causal policy: {', '.join(POLICIES)}."
            ),
        ),
    ] = None,
    *,
    subject: options.SubjectOptions,
    budgets: options.ChargedBudgets,
    draws: options.DrawOptions,
    calibrate: options.Calibration = None,
    of: Annotated[
        str,
        option(
            "--of",
            "What to compare: gain, its parts benefit and harm, or area (between the "
            "whole gain curves).",
            words=(*STATISTICS, AREA),
            panel=options.SUBJECT,
        ),
    ] = "gain",
    fail_if: Annotated[
        str | None,
        option(
            "--fail-if",
            "Exit with 3 if the candidate is 'worse' or 'not-better' anywhere, or "
            "cannot pay for itself.",
            words=GATES,
            panel=options.OUTPUT,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        option(
            "--junit",
            "Also write the outcome of --fail-if as JUnit XML, a test case per budget.",
            panel=options.OUTPUT,
        ),
    ] = None,
    plan: options.PlanFile = None,
    register_plan: Annotated[
        Path | None,
        option(
            "--register",
            "Compare nothing: register this plan (.toml) in a log beside it, before "
            "test units are opened. TABLE names its cells, so that "
            "earlier looks are recorded.",
            panel=options.OUTPUT,
        ),
    ] = None,
    form: Annotated[
        str | None,
        option(
            "--format",
            f"Output format: {', '.join(FORMATS)}. Default: console.",
            words=FORMATS,
            panel=options.OUTPUT,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare two allocators on the same units, or gate a change.

    Differences are paired within every draw of units. Over several cells the mean is
    compared, with equal weights; cells with the same units share their draws. Causal
    policies are calibrated on the validation units of a cell unless --calibrate names
    others. A plan has tables [[comparison]] with candidate, baseline, cells (by id) and
    alphas, and optionally budget, of and direction.

    Example: deepval compare values.parquet new.csv old.csv --alpha 0.2 --fail-if worse

    A plan: deepval compare --register plan.toml cells/braking-monocular
    """
    if register_plan is not None:
        register(register_plan, list(map(Path, names or ())), json=json)
        return
    if names is None or len(names) < 3:
        raise InputError(
            "compare needs a table, a candidate and a baseline: deepval compare TABLE "
            "CANDIDATE BASELINE."
        )
    *tables, candidate, baseline = names
    gate_name = None if fail_if is None else options.one_of(fail_if, GATES, "--fail-if")
    output_form = options.format_name(form, json=json, allowed=FORMATS, usual="console")
    if junit is not None:
        if gate_name is None:
            raise InputError(
                "--junit writes the outcome of a gate: add --fail-if worse."
            )
        check_writable(junit)
    options.one_of(of, (*STATISTICS, AREA), "--of")
    if plan is not None and of == AREA:
        raise InputError(
            "A plan lists comparisons at a budget, and --of area compares over all "
            "budgets: leave out one of them."
        )
    sides = [parse_name(text) for text in (candidate, baseline)]
    if sides[0] == sides[1]:
        raise InputError(
            f"Candidate and baseline must differ; {candidate!r} is given twice."
        )
    cases = _cases(tables, subject)
    following = None if plan is None else plan_on(cases, plan)
    if following is not None:
        subject = replace(subject, units=subject.units or "test")
    judged = _judge(cases, sides, subject, budgets, draws, calibrate)
    results = {name: item.result for name, item in judged.items()}
    one, other = (
        side._replace(allocator=_name_of(side.allocator)).text for side in sides
    )
    rows = _rows(results, one, other, of=of)
    for name, item in judged.items():
        digest = None if following is None else following.plan.digest
        note(
            cases[name].cell,
            by="compare",
            units=item.units,
            scores=item.scores,
            plan=digest,
        )
    gate = None if gate_name is None else Gate(gate_name, rows)
    provenance = {"provenance": {name: case.provenance for name, case in cases.items()}}
    both = [
        row
        for result in results.values()
        for row in result.rows
        if row.allocator in (one, other)
    ]
    _print(output_form, rows, gate, provenance, both, units_judged(*results.values()))
    if following is not None:
        verdicts = [
            (r.candidate, r.baseline, r.budget, r.of, r.verdict)
            for r in rows
            if not isinstance(r, Area)
        ]
        actual = on_test_units(
            following, {name: item.units for name, item in judged.items()}, verdicts
        )
        print_plan(following, actual, err=output_form != "console")
    if gate is not None:
        _close(gate, junit)


def _print(
    form: str,
    rows: Sequence[AnyComparison],
    gate: Gate | None,
    provenance: dict[str, Any],
    judged: Sequence[Row],
    units: str,
) -> None:
    """Print comparisons over these units, with notes on `judged` rows not worth it;
    Markdown begins with the gate.
    """
    records = [dict(row) | provenance for row in rows]
    areas = [row for row in rows if isinstance(row, Area)]
    if form == "json":
        terminal.print_json(records[0] if areas else records)
        return
    pairs = [row for row in rows if not isinstance(row, Area)]
    table = with_units(
        area_table(areas[0]) if areas else comparison_table(pairs, judged), units
    )
    if form == "console":
        terminal.print_tables([table])
        return
    outcome = (
        []
        if gate is None
        else [f"Gate {'failed' if gate.failures else 'passed'}: {gate.sentence}"]
    )
    typer.echo("\n\n".join([*map(escape_markdown, outcome), table_markdown(table)]))


def _close(gate: Gate, junit: Path | None) -> None:
    """Write the outcome of a gate to a file, if one is named, and exit with 3 if the
    gate fails.
    """
    if junit is not None:
        write_atomically(junit, gate.junit())
    if gate.failures:
        say(f"deepval: {gate.sentence}", err=True)
        raise typer.Exit(FAILED_GATE)


class _Judged(NamedTuple):
    """The result on one table, and the units and scores behind it."""

    result: Result
    units: list[str] | None
    scores: Mapping[str, Scores]


def _judge(
    cases: Mapping[str, EvaluationData],
    sides: Sequence[Named],
    subject: options.SubjectOptions,
    budgets: options.ChargedBudgets,
    draws: options.DrawOptions,
    calibrate: str | None,
) -> dict[str, _Judged]:
    """Both sides judged on every table; tables with the same units share their
    draws.
    """
    causal = any(side.policy for side in sides)
    scores = {name: case.scores(_files(sides)) for name, case in cases.items()}
    calibration_units = {
        name: case.units(
            options.unit_list(calibrate, case.roles),
            usual="validation" if causal else None,
        )
        for name, case in cases.items()
    }
    units: dict[str, list[str] | None] = {}
    for name, case in cases.items():
        listed = options.unit_list(subject.units, case.roles)
        units[name], _ = case.judged_units(
            listed, scores[name], calibration=calibration_units[name]
        )
    all_units = {
        name: case.table.unit_ids if (own := units[name]) is None else own
        for name, case in cases.items()
    }
    seeds = seeds_by_units(all_units, draws.seed)
    judged = {}
    for name, case in cases.items():
        if calibration_units[name] is not None:
            note_unknown_fits(scores[name])
        # Not in the ledger yet: a comparison that is refused is no look at test units.
        result = judge(
            case,
            scores[name],
            budgets.of(case, scores[name], every=True),
            command=None,
            draws=draws.number,
            seed=seeds[name],
            units=units[name],
            calibration=calibration_units[name],
            missing=subject.missing_rule,
            watch=terminal.watch,
        )
        judged[name] = _Judged(result, units[name], scores[name])
    return judged


def _rows(
    results: Mapping[str, Result], one: str, other: str, *, of: str
) -> Sequence[AnyComparison]:
    """Differences on the one table, or of the means over several; the area between gain
    curves is of one table.
    """
    statistic: Any = of
    if len(results) > 1:
        if of == AREA:
            raise InputError(f"--of area compares on one table; found {len(results)}.")
        return compare_over(results, one, other, of=statistic)
    (result,) = results.values()
    return (
        [result.area(one, other)]
        if of == AREA
        else comparison.compare(result, one, other, of=statistic)
    )


def _cases(
    paths: Sequence[str], subject: options.SubjectOptions
) -> dict[str, EvaluationData]:
    """The cells or values files to compare on, by path."""
    cases = {str(path): subject.case(path) for path in map(Path, paths)}
    if len(cases) < len(paths):
        raise InputError("Tables must differ; one is given twice.")
    return cases


def _files(sides: Iterable[Named]) -> dict[str, Path]:
    """Score files of the two sides, which may be one file under two policies."""
    return options.named_files(dict.fromkeys(side.allocator for side in sides))


def _name_of(text: str) -> str:
    (name,) = options.named_files([text])
    return name
