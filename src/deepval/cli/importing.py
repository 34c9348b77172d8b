"""`deepval import`: a public router's log -> a values file, with costs per input."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options
from deepval.cli.saying import say
from deepval.errors import InputError
from deepval.files.writing import check_writable
from deepval.tables.off_policy import METHODS, values_from_log
from deepval.tables.router_logs import import_router_log, write_values


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
