"""`deepval evaluate` and `deepval compare`: a cell or a values file, and score files -> verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import deepval
from deepval.cells.case import Case, head_of, heads_of, note_unknown_fits, read_case
from deepval.cells.judgement import judge
from deepval.cli import options
from deepval.cli.options import (
    INTERVALS,
    MORE,
    OUTPUT,
    SUBJECT,
    Alphas,
    Calibration,
    CostFile,
    DrawNumber,
    Json,
    JudgedUnits,
    Kinds,
    MissingRule,
    Modes,
    PlanFile,
    Rails,
    ScoreFiles,
    Seed,
    Skipping,
    TableMemory,
    TermFile,
    Values,
    Weights,
)
from deepval.cli.registering import followed, made_by, noted, show_plan
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files.writing import check_writable
from deepval.judging import comparison
from deepval.judging.comparison import Comparison
from deepval.judging.contenders import POLICIES, STATISTICS, Named, Statistic, parsed
from deepval.judging.draws import seeds_by_units
from deepval.judging.out_of_core import refuse
from deepval.judging.over_cells import PooledComparison, compare_over
from deepval.report import FORMS, console
from deepval.report.comparisons import area_table, comparison_table
from deepval.report.sentences import excerpt
from deepval.results import Result
from deepval.tables.chunks import on_disk

FAILED_GATE = 3
"""Exit code of `compare --fail-if` when the gate fails; 2 is bad input."""


def evaluate(
    values: Values,
    *,
    scores: ScoreFiles = None,
    costs: CostFile = None,
    modes: Modes = None,
    alpha: Alphas = None,
    budget: Kinds = None,
    rails: Rails = None,
    skipping: Skipping = False,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    units: JudgedUnits = None,
    calibrate: Calibration = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            help="Judge within groups too: COLUMN, or COLUMN:5,10 to cut numbers there. Repeatable.",
            rich_help_panel=MORE,
        ),
    ] = None,
    missing: MissingRule = "error",
    memory: TableMemory = None,
    simultaneous: Annotated[
        bool,
        typer.Option("--simultaneous", help="Add intervals that hold for all rows.", rich_help_panel=INTERVALS),
    ] = False,
    curve: Annotated[
        int,
        typer.Option("--curve", help="Add budget curves with this many points.", rich_help_panel=MORE),
    ] = 0,
    thresholds: Annotated[
        bool,
        typer.Option("--thresholds", help="Add where to escalate from, and how often that is.", rich_help_panel=MORE),
    ] = False,
    apgr: Annotated[
        bool,
        typer.Option("--apgr", help="Add APGR and call-performance thresholds (RouteLLM's).", rich_help_panel=MORE),
    ] = False,
    terms: TermFile = None,
    weight: Weights = None,
    resolve: Annotated[
        float | None,
        typer.Option("--resolve", help="How many units resolve this difference?", rich_help_panel=INTERVALS),
    ] = None,
    plan: PlanFile = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"What to print: {', '.join(FORMS)}. Default: console.",
            rich_help_panel=OUTPUT,
            autocompletion=options.offered(*FORMS),
        ),
    ] = None,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also save the result as JSON.", rich_help_panel=OUTPUT)
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help=f"Print every row; a table of more than {options.MOST_ROWS} rows is summarised otherwise.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Judge allocators: nDG, benefit and harm, and a verdict against random with intervals over units.

    Of a cell's folder it takes losses, terms, costs, the scores beside it and the test units by default, or all units
    where none of the scores were fitted.

    Example: deepval evaluate values.parquet -s mine.csv -s speed.csv --costs costs.toml --out result.json
    """
    output_form = _form(form, json=json)
    number = options.draws(draws)
    target_difference = options.difference(resolve, form=output_form, draws=number)
    if simultaneous and number == 0:
        raise InputError("--simultaneous adds intervals, which need draws: leave --draws 0 out.")
    if out:
        check_writable(out)
    files = options.score_files(scores)
    table_on_disk = on_disk(values, files, memory)
    case = (
        read_case(values, costs=costs, modes=options.mode_list(modes))
        if table_on_disk is None
        else head_of(table_on_disk, costs)
    )
    following = followed(plan, {str(values): case})
    note = None
    if table_on_disk is None:
        scored = case.scores(files)
        calibration_units = case.units(options.unit_list(calibrate, case.roles))
        role = units if following is None else units or "test"
        chosen, note = case.judged_units(options.unit_list(role, case.roles), scored, calibration=calibration_units)
        if calibration_units is not None:
            note_unknown_fits(scored)
    else:
        chosen, calibration_units = options.unit_list(units), options.unit_list(calibrate)
        scored = heads_of(case, files)
        refuse(table_on_disk, {"--apgr": apgr})
    budgets = options.budgets(case, scored, alpha, budget, rails=rails, skipping=skipping)
    settings: dict[str, Any] = {
        "draws": number,
        "seed": seed,
        "units": chosen,
        "calibration": calibration_units,
        "by": by or (),
        "missing": options.one_of(missing, ("error", "worst"), "--missing"),
        "missing_costs": case.missing_costs(scored, budgets, requested=bool(budget)),
        "simultaneous_intervals": simultaneous,
        "curve_points": curve,
        "terms": terms or case.terms,
        "weights": options.weights(weight),
        "watch": options.watch,
    }
    if table_on_disk is None:
        plan_digest = None if following is None else following.plan.digest
        result = judge(case, scored, budgets, command="evaluate", plan=plan_digest, **settings)
    else:
        on_file = replace(table_on_disk, costs=case.table.costs)
        result = deepval.evaluate(on_file, files, budgets, modes=options.mode_list(modes), **settings)
    result = case.labelled(result if thresholds else replace(result, thresholds=()), note)
    result = replace(result, recovery=result.apgr()) if apgr else result
    if out:
        result.save(out)
    options.show(result, output_form, whole=whole)
    if following is not None:
        rows = [(r.allocator, r.chance or "random", r.budget, "gain", r.verdict) for r in result.rows if r.verdict]
        show_plan(following, made_by(following, {str(values): chosen}, rows), err=output_form != "console")
    if target_difference is not None:
        options.print_resolution(result if whole else excerpt(result, options.MOST_ROWS), target_difference)


def _form(form: str | None, *, json: bool) -> str:
    name = options.one_of(form or ("json" if json else "console"), tuple(FORMS), "--format")
    if json and name != "json":
        raise InputError(f"--json prints JSON and --format {name} something else: give one of them.")
    return name


def compare(
    values: Annotated[
        list[Path],
        typer.Argument(help="A cell's folder, or a values file; of several, the mean over them is compared."),
    ],
    candidate: Annotated[
        str,
        typer.Argument(
            help="Scores of the candidate: FILE or NAME=FILE, or a name beside the cell; with @POLICY under a causal "
            f"policy ({', '.join(POLICIES)})."
        ),
    ],
    baseline: Annotated[str, typer.Argument(help="Scores of the baseline, likewise.")],
    *,
    costs: CostFile = None,
    modes: Modes = None,
    alpha: Alphas = None,
    budget: Kinds = None,
    rails: Rails = None,
    skipping: Skipping = False,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    units: JudgedUnits = None,
    calibrate: Calibration = None,
    missing: MissingRule = "error",
    of: Annotated[
        str,
        typer.Option(
            "--of",
            help="What to compare: gain, or its parts benefit and harm.",
            rich_help_panel=SUBJECT,
            autocompletion=options.offered(*STATISTICS),
        ),
    ] = "gain",
    area: Annotated[
        bool,
        typer.Option(
            "--area", help="Compare whole gain curves: the area between them, over all shares.", rich_help_panel=SUBJECT
        ),
    ] = False,
    fail_if: Annotated[
        str | None,
        typer.Option(
            "--fail-if",
            help="Exit with 3 if the candidate is 'worse' or 'not-better' anywhere.",
            rich_help_panel=OUTPUT,
            autocompletion=options.offered("worse", "not-better"),
        ),
    ] = None,
    plan: PlanFile = None,
    json: Json = False,
) -> None:
    """Compare two allocators, paired within every draw of units; a regression gate with --fail-if.

    Over several cells it compares the mean, every cell with the same weight; cells with the same units share their
    draws. Causal policies are calibrated on the validation units of a cell unless --calibrate names others.

    Example: deepval compare values.parquet new.csv old.csv --alpha 0.2 --fail-if worse
    """
    gate = None if fail_if is None else options.one_of(fail_if, ("worse", "not-better"), "--fail-if")
    statistic: Statistic = options.one_of(of, STATISTICS, "--of")
    sides = [parsed(text) for text in (candidate, baseline)]
    if sides[0] == sides[1]:
        raise InputError(f"Allocators to compare must be different ones; {candidate!r} is given twice.")
    cases = _cases(values, costs=costs, modes=options.mode_list(modes))
    following = followed(plan, cases)
    causal = any(side.policy for side in sides)
    number = options.draws(draws)
    role = units if following is None else units or "test"
    scores = {name: case.scores(_files(sides)) for name, case in cases.items()}
    calibration_units = {
        name: case.units(options.unit_list(calibrate, case.roles), usual="validation" if causal else None)
        for name, case in cases.items()
    }
    chosen: dict[str, list[str] | None] = {}
    for name, case in cases.items():
        listed = options.unit_list(role, case.roles)
        chosen[name], _ = case.judged_units(listed, scores[name], calibration=calibration_units[name])
    units_of = {name: case.table.unit_ids if (named := chosen[name]) is None else named for name, case in cases.items()}
    seeds = seeds_by_units(units_of, seed)
    results = {}
    pair: list[str] = []
    looks = []
    for name, case in cases.items():
        named = scores[name]
        pair = [side._replace(allocator=_name_of(side.allocator)).text for side in sides]
        if calibration_units[name] is not None:
            note_unknown_fits(named)
        # No ledger yet: a comparison that is refused is no look at test units.
        results[name] = judge(
            case,
            named,
            options.budgets(case, named, alpha, budget, rails=rails, skipping=skipping, every=True),
            command=None,
            draws=number,
            seed=seeds[name],
            units=chosen[name],
            calibration=calibration_units[name],
            missing=options.one_of(missing, ("error", "worst"), "--missing"),
            watch=options.watch,
        )
        looks.append((case, chosen[name], named))
    one, other = pair
    rows: Sequence[Comparison | PooledComparison]
    if len(results) == 1:
        rows = comparison.compare(next(iter(results.values())), one, other, of=statistic)
    else:
        rows = compare_over(results, one, other, of=statistic)
    for case, seen, named in looks:
        noted(case, "compare", seen, named, following)
    if area:
        _compare_areas(results, one, other, gate=gate, json=json)
        return
    typer.echo(
        options.as_json([dict(row) for row in rows])
        if json
        else console.render_tables([comparison_table(rows)], width=options.width(), color=options.colored()),
        nl=False,
    )
    if following is not None:
        verdicts = [(row.candidate, row.baseline, row.budget, row.of, row.verdict) for row in rows]
        show_plan(following, made_by(following, chosen, verdicts), err=json)
    if gate and rows and all(row.verdict is None for row in rows):
        raise InputError(f"--fail-if needs a verdict; there is none: {rows[0].reason}.")
    bad = [row for row in rows if row.verdict == "worse" or (gate == "not-better" and row.verdict != "better")]
    if gate and bad:
        where = ", ".join(row.budget.label for row in bad)
        say(f"deepval: {one} is {gate.replace('-', ' ')} than {other} at {where}.", err=True)
        raise typer.Exit(FAILED_GATE)


def _compare_areas(results: Mapping[str, Result], one: str, other: str, *, gate: str | None, json: bool) -> None:
    """The area between two gain curves of one table, and the gate on it."""
    if len(results) > 1:
        raise InputError(f"--area compares on one table; found {len(results)}.")
    (result,) = results.values()
    row = result.area(one, other)
    if json:
        typer.echo(options.as_json(dict(row)), nl=False)
    else:
        typer.echo(console.render_tables([area_table(row)], width=options.width(), color=options.colored()), nl=False)
    if gate and (row.verdict == "worse" or (gate == "not-better" and row.verdict != "better")):
        say(f"deepval: {one} is {gate.replace('-', ' ')} than {other} over all shares.", err=True)
        raise typer.Exit(FAILED_GATE)


def _cases(paths: Sequence[Path], *, costs: Path | None, modes: list[str] | None) -> dict[str, Case]:
    """The cells or values files to compare on, by path."""
    cases = {str(path): read_case(path, costs=costs, modes=modes) for path in paths}
    if len(cases) < len(paths):
        raise InputError("Cells must be different ones; one is given twice.")
    return cases


def _files(sides: Iterable[Named]) -> dict[str, Path]:
    """Score files of the two sides, which may be one file under two policies."""
    return options.score_files(dict.fromkeys(side.allocator for side in sides))


def _name_of(text: str) -> str:
    (name,) = options.score_files([text])
    return name
