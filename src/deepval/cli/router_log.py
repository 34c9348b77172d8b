"""`deepval import`: the log of a public router -> a values file, with losses and costs per prompt and model."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options, terminal
from deepval.cli.arguments import limits
from deepval.cli.terminal import say
from deepval.errors import InputError
from deepval.files.writing import check_writable
from deepval.tables.router_logs import METHODS, import_router_log, values_from_log, write_values


def import_log(
    log: Annotated[
        Path,
        typer.Argument(
            help="A log (.csv, .parquet, .json, .jsonl) in the format of RouterBench, RouteLLM, RouterArena or "
            "LLMRouterBench, or a folder of LLMRouterBench's results."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The values file to write: .parquet or .csv.")],
    modes: Annotated[
        str | None,
        typer.Option("--modes", help="Models to keep, cheap first: small,large. Default: all, by rising cost."),
    ] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="Column with the units. Default: the dataset.")] = None,
    best: Annotated[
        float | None,
        typer.Option(
            "--best", help="Highest possible quality: loss = best - quality. Default: 1.", callback=limits(-1e12, 1e12)
        ),
    ] = None,
    off_policy: Annotated[
        str | None,
        typer.Option(
            "--off-policy",
            help="For a log with one mode per input (unit, input, mode, loss, propensity): estimate the other losses "
            f"by {', '.join(METHODS)}.",
            autocompletion=options.completion(*METHODS),
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", help="Column that predicts losses, for doubly-robust. Repeatable."),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option("--clip", help="Raise smaller propensities to this value; adds bias.", callback=limits(0, 1)),
    ] = None,
    json: options.Json = False,
) -> None:
    """Turn the log of a public router into a values file.

    The file has a loss and a cost per prompt and model. With --off-policy the losses of modes that did not run are
    estimates, and every result notes it.

    Example: deepval import routerbench_0shot.parquet --modes mixtral-8x7b-chat,gpt-4-1106-preview -o values.parquet
    """
    check_writable(out)
    if off_policy is None and (feature or clip is not None):
        raise InputError("--feature and --clip apply only to --off-policy: give it too, or leave them out.")
    if off_policy is None:
        table = import_router_log(log, models=options.name_list(modes), unit=unit, best=best)
    else:
        method: str = options.one_of(off_policy, METHODS, "--off-policy")
        if modes is None or unit is not None or best is not None:
            raise InputError("--off-policy needs --modes, cheap first, and takes neither --unit nor --best.")
        names = options.name_list(modes) or []
        table = values_from_log(log, names, method=method, features=feature or (), clip=clip)
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
        terminal.print_json(content | {"estimated": table.estimated})
        return
    say(f"{out}: {len(table):,} prompts in {len(table.unit_ids):,} units, models cheap first:")
    for model in models:
        price = "" if costs is None else f", {model['mean_usd']:.3g} USD per call"
        say(f"  {model['mode']}: mean loss {model['mean_loss']:.4g}{price}")


globals()["import"] = import_log  # the name of the command is a Python keyword
