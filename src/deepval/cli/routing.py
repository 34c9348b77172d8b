"""`deepval threshold`: a cell or a values file, and scores -> where to escalate from, and a router's file."""

import math
from pathlib import Path
from typing import Annotated

import typer

from deepval.cells.case import note_unknown_fits, read_case
from deepval.cli import options
from deepval.cli.options import (
    BUDGETS,
    OUTPUT,
    SUBJECT,
    Alphas,
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
    Values,
)
from deepval.cli.registering import noted
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files.canonical import plain
from deepval.files.writing import check_writable, write_atomically
from deepval.judging import diagnosis
from deepval.judging.contenders import POLICIES
from deepval.judging.deployment import BEST, deployment
from deepval.judging.routing import file_text
from deepval.report.comparisons import diagnosis_sentence, diagnosis_tables
from deepval.report.console import render_tables
from deepval.report.result_tables import threshold_table
from deepval.tables.router_logs import METHODS, import_router_log, values_from_log, write_values


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

    In a cell's folder it reads the scores and by default judges the test units, or all units if none of the scores were
    fitted. It also works without scores.

    Example: deepval diagnose cells/braking-monocular --resolve 0.02
    """
    if not 0 < abs(resolve) < math.inf:
        raise InputError(f"--resolve must be a difference other than 0; found {resolve:g}.")
    case = read_case(values, costs=costs, modes=options.mode_list(modes))
    files = options.score_files(scores)
    scored = case.scores(files) if files or case.scored else {}
    chosen, _ = case.judged_units(options.unit_list(units, case.roles), scored)
    budgets = options.budgets(case, scored, alpha, budget)
    result = diagnosis.diagnose(
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
        typer.echo(options.as_json(plain(dict(result))), nl=False)
        return
    say(diagnosis_sentence(result))
    typer.echo(render_tables(list(diagnosis_tables(result)), width=options.width(), color=options.colored()), nl=False)


def import_log(
    log: Annotated[
        Path,
        typer.Argument(
            help="A log (.csv, .parquet, .json, .jsonl) as of RouterBench, RouteLLM, RouterArena or LLMRouterBench, or "
            "a folder of LLMRouterBench's results."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The values file to write: .parquet or .csv.")],
    modes: Annotated[
        str | None,
        typer.Option("--modes", help="Models to keep, cheap first: small,large. Default: all, by rising cost."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Column whose values are the units. Default: the dataset.")
    ] = None,
    best: Annotated[
        float | None, typer.Option("--best", help="The best quality there is: loss = best - quality. Default: 1.")
    ] = None,
    off_policy: Annotated[
        str | None,
        typer.Option(
            "--off-policy",
            help=f"Of a log with one mode per input (unit, input, mode, loss, propensity): {', '.join(METHODS)}.",
            autocompletion=options.offered(*METHODS),
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", help="Column to predict losses from, for doubly-robust. Repeatable."),
    ] = None,
    clip: Annotated[
        float | None, typer.Option("--clip", help="Raise smaller propensities to this, which biases.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Turn a public router's log into a values file: a loss and a cost per prompt and model.

    With --off-policy the losses of modes that did not run are estimated, and every result says so.

    Example: deepval import routerbench_0shot.parquet --modes mixtral-8x7b-chat,gpt-4-1106-preview -o values.parquet
    """
    check_writable(out)
    if off_policy is None and (feature or clip is not None):
        raise InputError("--feature and --clip are of --off-policy: give that too, or leave them out.")
    if off_policy is None:
        table = import_router_log(log, models=options.mode_list(modes), unit=unit, best=best)
    else:
        method: str = options.one_of(off_policy, METHODS, "--off-policy")
        if modes is None or unit is not None or best is not None:
            raise InputError("--off-policy needs --modes, cheap first, and has neither --unit nor --best.")
        named = options.mode_list(modes) or []
        table = values_from_log(log, named, method=method, features=feature or (), clip=clip)
    write_values(table, out)
    if table.estimated is not None:
        say(f"deepval: note: {table.estimated}", err=True)
    costs = table.input_costs.get("usd")
    models = [
        {
            "mode": mode,
            "mean_loss": float(table.losses[:, column].mean()),
            "mean_usd": None if costs is None else float(costs[:, column].mean()),
        }
        for column, mode in enumerate(table.modes)
    ]
    if json:
        content = {"values": str(out), "inputs": len(table), "units": len(table.unit_ids), "models": models}
        typer.echo(options.as_json(content | {"estimated": table.estimated}), nl=False)
        return
    say(f"{out}: {len(table):,} prompts in {len(table.unit_ids):,} units, models cheap first:")
    for model in models:
        price = "" if costs is None else f", {model['mean_usd']:.3g} USD per call"
        say(f"  {model['mode']}: mean loss {model['mean_loss']:.4g}{price}")


globals()["import"] = import_log  # the command's name, which Python keeps for itself


def threshold(
    values: Values,
    *,
    scores: ScoreFiles = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="Share of the inputs to escalate, in (0, 1].", rich_help_panel=BUDGETS)
    ] = 0.2,
    budget: Annotated[
        str,
        typer.Option(
            "--budget", help="selection, or latency, energy, money: the share that is left.", rich_help_panel=BUDGETS
        ),
    ] = "selection",
    rails: Rails = None,
    skipping: Skipping = False,
    costs: CostFile = None,
    modes: Modes = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            "--calibrate",
            help="Units that set the threshold. Default: a cell's validation units, all of a values file.",
            rich_help_panel=SUBJECT,
        ),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(
            "--units", help="Units to expect a rate of. Default: those of --calibrate.", rich_help_panel=SUBJECT
        ),
    ] = None,
    missing: MissingRule = "error",
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help=f"What the router runs: {', '.join(POLICIES)}, or best: the one that gains most when replayed within "
            "2 points of the rate.",
            rich_help_panel=OUTPUT,
            autocompletion=options.offered(BEST, *POLICIES),
        ),
    ] = BEST,
    one_stream: Annotated[
        bool,
        typer.Option(
            "--one-stream", help="Units are no streams: the policy never begins anew.", rich_help_panel=OUTPUT
        ),
    ] = False,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a router (.json) that decides so.", rich_help_panel=OUTPUT)
    ] = None,
    json: Json = False,
) -> None:
    """Print from which score on to escalate and how often that will be, and write a router that decides so.

    The policy is replayed in time order on the calibration units; rate, gain and interval are those of the replay.
    Nothing is judged. `deepval.Router.load` reads the file.

    Example: deepval threshold values.csv -s mine.csv --alpha 0.2 --out router.json
    """
    if out is not None:
        check_writable(out)
    named = options.one_of(policy, (BEST, *POLICIES), "--policy")
    case = read_case(values, costs=costs, modes=options.mode_list(modes))
    scored = case.scores(options.score_files(scores))
    if len(scored) != 1:
        raise InputError(f"A threshold is that of one allocator; found {', '.join(scored)}: name one with -s.")
    note_unknown_fits(scored)
    ((name, own),) = scored.items()
    (router_budget,) = options.budgets(case, scored, [alpha], [budget], rails=rails, skipping=skipping)
    calibration_units = case.units(options.unit_list(calibrate, case.roles), usual="validation")
    deployed = deployment(
        case.table,
        own,
        router_budget,
        calibration=calibration_units,
        units=case.units(options.unit_list(units, case.roles)),
        policy=named,
        reset=not one_stream,
        missing=options.one_of(missing, ("error", "worst"), "--missing"),
        draws=options.draws(draws),
        seed=options.at_least(seed, 0, "--seed"),
    )
    if out is not None:
        write_atomically(out, file_text(deployed.routing))
    if json:
        content = {"threshold": plain(deployed.threshold), "replays": [replay._asdict() for replay in deployed.replays]}
        content |= {"router": None if out is None else str(out)}
        typer.echo(
            options.as_json(content | {"calibration_units": deployed.routing.about["calibration_units"]}), nl=False
        )
        return
    table = threshold_table([deployed.threshold], held=deployed.routing.about["calibration_units"])
    typer.echo(render_tables([table], width=options.width(), color=options.colored()), nl=False)
    if out is not None:
        streams = "all inputs are one stream" if one_stream else "call begin() at each unit"
        answers = " or ".join([", ".join(deployed.routing.modes[:-1]), deployed.routing.modes[-1]])
        runs = deployed.routing.policy_name.replace(" ", "-")
        say(f"\n{out}: {name} under {runs} answers {answers}; {streams}.")
