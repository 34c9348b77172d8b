"""`deepval import`: a public router's log -> a values file, with costs per input."""

from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options
from deepval.cli.saying import say
from deepval.files import check_writable
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
) -> None:
    """Turn a public router's log into a values file: a loss and a cost per prompt and model.

    Example: deepval import routerbench_0shot.parquet --modes mixtral-8x7b-chat,gpt-4-1106-preview -o values.parquet
    """
    check_writable(out)
    table = import_router_log(log, models=options.mode_list(modes), unit=unit, best=best)
    write_values(table, out)
    costs = table.input_costs.get("usd")
    say(f"{out}: {len(table):,} prompts in {len(table.unit_ids):,} units, models cheap first:")
    for place, mode in enumerate(table.modes):
        price = "" if costs is None else f", {costs[:, place].mean():.3g} USD per call"
        say(f"  {mode}: mean loss {table.losses[:, place].mean():.4g}{price}")


globals()["import"] = import_log  # the command's name, which Python keeps for itself
