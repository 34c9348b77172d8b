"""`deepval compare`: two allocators on the same tables -> paired differences; plans of comparisons are registered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from deepval.cells.evaluation_data import EvaluationData, note_unknown_fits
from deepval.cells.judgement import judge
from deepval.cli import options, terminal
from deepval.cli.options import (
    OUTPUT,
    SUBJECT,
    Calibration,
    ChargedBudgets,
    DrawOptions,
    Json,
    PlanFile,
    SubjectOptions,
)
from deepval.cli.registered_plan import count_look, on_test_units, plan_on, print_plan, register
from deepval.cli.terminal import say
from deepval.errors import InputError
from deepval.judging import comparison
from deepval.judging.comparison import POLICIES, STATISTICS, Comparison, Named, Statistic, parsed
from deepval.judging.draws import seeds_by_units
from deepval.judging.over_cells import PooledComparison, compare_over
from deepval.report.comparisons import area_table, comparison_table
from deepval.results import Result
from deepval.tables.scores import Scores

FAILED_GATE = 3
"""Exit code of `--fail-if` if the gate fails; 2 is bad input."""
AREA = "area"
GATES = ("worse", "not-better")


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE... CANDIDATE BASELINE",
            help="Cell folders or values files (several: the mean over them is compared), then the scores of the "
            "candidate and of the baseline: FILE, NAME=FILE, or a name in the cell's folder scores. NAME@POLICY "
            f"compares under a causal policy: {', '.join(POLICIES)}.",
        ),
    ] = None,
    *,
    subject: SubjectOptions,
    budgets: ChargedBudgets,
    draws: DrawOptions,
    calibrate: Calibration = None,
    of: Annotated[
        str,
        typer.Option(
            "--of",
            help="What to compare: gain, its parts benefit and harm, or area (between the whole gain curves).",
            rich_help_panel=SUBJECT,
            autocompletion=options.completion(*STATISTICS, AREA),
        ),
    ] = "gain",
    fail_if: Annotated[
        str | None,
        typer.Option(
            "--fail-if",
            help="Exit with 3 if the candidate is 'worse' or 'not-better' anywhere.",
            rich_help_panel=OUTPUT,
            autocompletion=options.completion(*GATES),
        ),
    ] = None,
    plan: PlanFile = None,
    register_plan: Annotated[
        Path | None,
        typer.Option(
            "--register",
            help="Compare nothing: register this plan (.toml) in a log beside it, before test units are opened. TABLE "
            "names its cells, so that earlier looks are recorded.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compare two allocators on the same units, or gate a change.

    Differences are paired within every draw of units. Over several cells the mean is compared, with equal weights;
    cells with the same units share their draws. Causal policies are calibrated on the validation units of a cell unless
    --calibrate names others. A plan has tables [[comparison]] with candidate, baseline, cells (by id) and alphas, and
    optionally budget, of and direction.

    Example: deepval compare values.parquet new.csv old.csv --alpha 0.2 --fail-if worse

    A plan: deepval compare --register plan.toml cells/braking-monocular
    """
    if register_plan is not None:
        register(register_plan, list(map(Path, names or ())), json=json)
        return
    if names is None or len(names) < 3:
        raise InputError("compare needs a table, a candidate and a baseline: deepval compare TABLE CANDIDATE BASELINE.")
    *tables, candidate, baseline = names
    gate = None if fail_if is None else options.one_of(fail_if, GATES, "--fail-if")
    statistic: Any = options.one_of(of, (*STATISTICS, AREA), "--of")
    sides = [parsed(text) for text in (candidate, baseline)]
    if sides[0] == sides[1]:
        raise InputError(f"Candidate and baseline must differ; {candidate!r} is given twice.")
    cases = _cases(tables, subject)
    following = plan_on(cases, plan)
    if following is not None:
        subject = replace(subject, units=subject.units or "test")
    judged = _judge(cases, sides, subject, budgets, draws, calibrate)
    results = {name: item.result for name, item in judged.items()}
    one, other = (side._replace(allocator=_name_of(side.allocator)).text for side in sides)
    rows = _rows(results, one, other, of="gain" if of == AREA else statistic)
    for name, item in judged.items():
        count_look(cases[name], "compare", item.units, item.scores, following)
    if of == AREA:
        _compare_areas(results, one, other, gate=gate, json=json)
        return
    if json:
        terminal.print_json([dict(row) for row in rows])
    else:
        terminal.print_tables([comparison_table(rows)])
    if following is not None:
        verdicts = [(row.candidate, row.baseline, row.budget, row.of, row.verdict) for row in rows]
        print_plan(
            following, on_test_units(following, {name: item.units for name, item in judged.items()}, verdicts), err=json
        )
    if gate:
        _apply_gate(gate, rows, f"{one} is {gate.replace('-', ' ')} than {other}")


def _apply_gate(gate: str, rows: Sequence[Comparison | PooledComparison], sentence: str) -> None:
    """Exit with 3 if a row fails the gate."""
    if rows and all(row.verdict is None for row in rows):
        raise InputError(f"--fail-if needs a verdict; there is none: {rows[0].reason}.")
    bad = [row for row in rows if row.verdict == "worse" or (gate == "not-better" and row.verdict != "better")]
    if bad:
        say(f"deepval: {sentence} at {', '.join(row.budget.label for row in bad)}.", err=True)
        raise typer.Exit(FAILED_GATE)


class _Judged(NamedTuple):
    """The result on one table, and the units and scores behind it."""

    result: Result
    units: list[str] | None
    scores: Mapping[str, Scores]


def _judge(
    cases: Mapping[str, EvaluationData],
    sides: Sequence[Named],
    subject: SubjectOptions,
    budgets: ChargedBudgets,
    draws: DrawOptions,
    calibrate: str | None,
) -> dict[str, _Judged]:
    """Both sides judged on every table; tables with the same units share their draws."""
    causal = any(side.policy for side in sides)
    scores = {name: case.scores(_files(sides)) for name, case in cases.items()}
    calibration_units = {
        name: case.units(options.unit_list(calibrate, case.roles), usual="validation" if causal else None)
        for name, case in cases.items()
    }
    units: dict[str, list[str] | None] = {}
    for name, case in cases.items():
        listed = options.unit_list(subject.units, case.roles)
        units[name], _ = case.judged_units(listed, scores[name], calibration=calibration_units[name])
    all_units = {name: case.table.unit_ids if (own := units[name]) is None else own for name, case in cases.items()}
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
    results: Mapping[str, Result], one: str, other: str, *, of: Statistic
) -> Sequence[Comparison | PooledComparison]:
    """Differences on the one table, or of the means over several."""
    if len(results) == 1:
        return comparison.compare(next(iter(results.values())), one, other, of=of)
    return compare_over(results, one, other, of=of)


def _compare_areas(results: Mapping[str, Result], one: str, other: str, *, gate: str | None, json: bool) -> None:
    """Print the area between two gain curves of one table, and apply the gate to it."""
    if len(results) > 1:
        raise InputError(f"--of area compares on one table; found {len(results)}.")
    (result,) = results.values()
    row = result.area(one, other)
    if json:
        terminal.print_json(dict(row))
    else:
        terminal.print_tables([area_table(row)])
    if gate and (row.verdict == "worse" or (gate == "not-better" and row.verdict != "better")):
        say(f"deepval: {one} is {gate.replace('-', ' ')} than {other} over all shares.", err=True)
        raise typer.Exit(FAILED_GATE)


def _cases(paths: Sequence[str], subject: SubjectOptions) -> dict[str, EvaluationData]:
    """The cells or values files to compare on, by path."""
    cases = {str(path): subject.case(path) for path in map(Path, paths)}
    if len(cases) < len(paths):
        raise InputError("Tables must differ; one is given twice.")
    return cases


def _files(sides: Iterable[Named]) -> dict[str, Path]:
    """Score files of the two sides, which may be one file under two policies."""
    return options.score_files(dict.fromkeys(side.allocator for side in sides))


def _name_of(text: str) -> str:
    (name,) = options.score_files([text])
    return name
