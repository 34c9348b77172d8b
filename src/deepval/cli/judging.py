"""`deepval evaluate` and `deepval compare`: a cell or a values file, and score files -> verdicts."""

from pathlib import Path
from typing import Annotated

import typer

import deepval
from deepval.cells.case import read_case
from deepval.cli import options
from deepval.cli.options import (
    Alphas,
    Calibration,
    CostFile,
    DrawNumber,
    Json,
    JudgedUnits,
    Kinds,
    MissingRule,
    Modes,
    Rails,
    ScoreFiles,
    Seed,
    Skipping,
    TermFile,
    Values,
    Weights,
)
from deepval.errors import InputError
from deepval.files import check_writable
from deepval.judging import comparison
from deepval.report import FORMS, console

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
        list[str] | None, typer.Option("--by", help="Judge within groups too: COLUMN or COLUMN:5,10.")
    ] = None,
    missing: MissingRule = "error",
    simultaneous: Annotated[bool, typer.Option("--simultaneous", help="Add intervals that hold for all rows.")] = False,
    curve: Annotated[int, typer.Option("--curve", help="Add budget curves with this many points.")] = 0,
    terms: TermFile = None,
    weight: Weights = None,
    resolve: Annotated[float | None, typer.Option("--resolve", help="How many units resolve this difference?")] = None,
    form: Annotated[
        str | None, typer.Option("--format", help=f"What to print: {', '.join(FORMS)}. Default: console.")
    ] = None,
    json: Json = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also save the result as JSON.")] = None,
) -> None:
    """Judge allocators: nDG, benefit and harm, and a verdict against random with intervals over units.

    Of a cell's folder it takes losses, terms, costs, the scores beside it and the test units, unless told otherwise.

    Example: deepval evaluate values.parquet -s mine.csv -s speed.csv --costs costs.toml --out result.json
    """
    shown = _form(form, json=json)
    number = options.draws(draws)
    wanted = options.difference(resolve, form=shown, draws=number)
    if simultaneous and number == 0:
        raise InputError("--simultaneous adds intervals, which need draws: leave --draws 0 out.")
    if out:
        check_writable(out)
    case = read_case(values, costs=costs, modes=options.mode_list(modes))
    chosen = case.units(options.unit_list(units, case.roles), usual="test")
    held = case.units(options.unit_list(calibrate, case.roles))
    scored = case.scores(options.score_files(scores))
    result = deepval.evaluate(
        case.table,
        scored,
        options.budgets(case, scored, alpha, budget, rails=rails, skipping=skipping),
        draws=number,
        seed=options.at_least(seed, 0, "--seed"),
        units=chosen,
        calibration=held,
        by=by or (),
        missing=options.one_of(missing, ("error", "worst"), "--missing"),
        simultaneous_intervals=simultaneous,
        curve_points=options.at_least(curve, 0, "--curve"),
        terms=terms or case.terms,
        weights=options.weights(weight),
        watch=options.watch,
    )
    result = case.labelled(result)
    if out:
        result.save(out)
    options.show(result, shown)
    if wanted is not None:
        options.print_resolution(result, wanted)


def _form(form: str | None, *, json: bool) -> str:
    shown = options.one_of(form or ("json" if json else "console"), tuple(FORMS), "--format")
    if json and shown != "json":
        raise InputError(f"--json prints JSON and --format {shown} something else: give one of them.")
    return shown


def compare(
    values: Values,
    candidate: Annotated[
        str, typer.Argument(help="Scores of the candidate: FILE or NAME=FILE, or a name beside the cell.")
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
    missing: MissingRule = "error",
    fail_if: Annotated[
        str | None, typer.Option("--fail-if", help="Exit with 3 if the candidate is 'worse' or 'not-better' anywhere.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare two allocators, paired within every draw of units; a regression gate with --fail-if.

    Example: deepval compare values.parquet new.csv old.csv --alpha 0.2 --fail-if worse
    """
    gate = None if fail_if is None else options.one_of(fail_if, ("worse", "not-better"), "--fail-if")
    case = read_case(values, costs=costs, modes=options.mode_list(modes))
    chosen = case.units(options.unit_list(units, case.roles), usual="test")
    named = case.scores(options.score_files([candidate, baseline]))
    result = deepval.evaluate(
        case.table,
        named,
        options.budgets(case, named, alpha, budget, rails=rails, skipping=skipping),
        draws=options.draws(draws),
        seed=options.at_least(seed, 0, "--seed"),
        units=chosen,
        missing=options.one_of(missing, ("error", "worst"), "--missing"),
        watch=options.watch,
    )
    one, other = named
    rows = comparison.compare(result, one, other)
    typer.echo(
        options.as_json([dict(row) for row in rows])
        if json
        else console.render_comparison(rows, width=options.width()),
        nl=False,
    )
    if gate and rows and all(row.verdict is None for row in rows):
        raise InputError(f"--fail-if needs a verdict; there is none: {rows[0].reason}.")
    bad = [row for row in rows if row.verdict == "worse" or (gate == "not-better" and row.verdict != "better")]
    if gate and bad:
        where = ", ".join(row.budget.label for row in bad)
        typer.echo(f"deepval: {one} is {gate.replace('-', ' ')} than {other} at {where}.", err=True)
        raise typer.Exit(FAILED_GATE)
