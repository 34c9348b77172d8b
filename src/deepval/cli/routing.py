"""`deepval threshold`: a cell or a values file, and scores -> where to escalate from, and a router's file."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.cells.case import note_unknown_fits, read_case
from deepval.cli import options
from deepval.cli.options import (
    BUDGETS,
    OUTPUT,
    SUBJECT,
    CostFile,
    DrawNumber,
    Json,
    MissingRule,
    Modes,
    Rails,
    ScoreFiles,
    Seed,
    Skipping,
    Values,
)
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files.canonical import plain
from deepval.files.writing import check_writable, write_atomically
from deepval.judging.contenders import POLICIES
from deepval.judging.deployment import BEST, deployment
from deepval.judging.routing_files import file_text
from deepval.report.console import render_tables
from deepval.report.tables import threshold_table


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
    (wanted,) = options.budgets(case, scored, [alpha], [budget], rails=rails, skipping=skipping)
    held = case.units(options.unit_list(calibrate, case.roles), usual="validation")
    found = deployment(
        case.table,
        own,
        wanted,
        calibration=held,
        units=case.units(options.unit_list(units, case.roles)),
        policy=named,
        reset=not one_stream,
        missing=options.one_of(missing, ("error", "worst"), "--missing"),
        draws=options.draws(draws),
        seed=options.at_least(seed, 0, "--seed"),
    )
    if out is not None:
        write_atomically(out, file_text(found.routing))
    if json:
        content = {"threshold": plain(found.threshold), "replays": [each._asdict() for each in found.replays]}
        content |= {"router": None if out is None else str(out)}
        typer.echo(options.as_json(content | {"calibration_units": found.routing.about["calibration_units"]}), nl=False)
        return
    table = threshold_table([found.threshold], held=found.routing.about["calibration_units"])
    typer.echo(render_tables([table], width=options.width(), color=options.colored()), nl=False)
    if out is not None:
        streams = "all inputs are one stream" if one_stream else "call begin() at each unit"
        answers = " or ".join([", ".join(found.routing.modes[:-1]), found.routing.modes[-1]])
        runs = found.routing.policy_name.replace(" ", "-")
        say(f"\n{out}: {name} under {runs} answers {answers}; {streams}.")
