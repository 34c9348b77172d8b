"""`deepval diagnose`: a cell or a values file -> what can be told on it, before any verdict is believed."""

import math
from typing import Annotated

import typer

from deepval.cells.case import read_case
from deepval.cli import options
from deepval.cli.options import (
    Alphas,
    CostFile,
    DrawNumber,
    Json,
    JudgedUnits,
    Kinds,
    MissingRule,
    Modes,
    ScoreFiles,
    Seed,
    Values,
)
from deepval.cli.registering import noted
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files.canonical import plain
from deepval.judging import diagnosis
from deepval.report.console import render_tables
from deepval.report.diagnosis import diagnosis_tables, opening


def diagnose(
    values: Values,
    *,
    scores: ScoreFiles = None,
    costs: CostFile = None,
    modes: Modes = None,
    alpha: Alphas = None,
    budget: Kinds = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    units: JudgedUnits = None,
    missing: MissingRule = "error",
    resolve: Annotated[
        float, typer.Option("--resolve", help="A share of the all-cheap loss: how many units resolve it?")
    ] = diagnosis.DIFFERENCE,
    json: Json = False,
) -> None:
    """Ask what a cell can tell: does the budget bind, do ties or single units decide, how many units are enough?

    Of a cell's folder it takes the scores beside it and the test units by default, or all units where none of the
    scores were fitted; it also works without scores.

    Example: deepval diagnose cells/braking-monocular --resolve 0.02
    """
    if not 0 < abs(resolve) < math.inf:
        raise InputError(f"--resolve must be a difference other than 0; found {resolve:g}.")
    case = read_case(values, costs=costs, modes=options.mode_list(modes))
    files = options.score_files(scores)
    scored = case.scores(files) if files or case.scored else {}
    chosen, _ = case.judged_units(options.unit_list(units, case.roles), files, scored)
    budgets = options.budgets(case, scored, alpha, budget)
    found = diagnosis.diagnose(
        case.table,
        scored,
        budgets,
        units=chosen,
        draws=options.draws(draws),
        seed=seed,
        missing=options.one_of(missing, ("error", "worst"), "--missing"),
        missing_costs=case.missing_costs(scored, budgets, requested=bool(budget)),
        difference=abs(resolve),
        watch=options.watch,
    )
    noted(case, "diagnose", chosen, scored)
    if json:
        typer.echo(options.as_json(plain(dict(found))), nl=False)
        return
    say(opening(found))
    typer.echo(render_tables(list(diagnosis_tables(found)), width=options.width(), color=options.colored()), nl=False)
