"""`deepval demo`: the synthetic world -> its cells, a judgement of simple allocators on each, all in one folder."""

import os
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

import deepval
from deepval.benchmark import build, sources
from deepval.benchmark.regime import PAPER, regime_lines
from deepval.benchmark.splits import split
from deepval.cli import options
from deepval.cli.options import Json
from deepval.cli.reporting import write_page
from deepval.files import write_atomically
from deepval.report import FORMS
from deepval.values import ValueTable

COSTS = Path(deepval.__file__).parent / "cost_profiles" / "jetson-agx-xavier.toml"
SIGNALS = {"ego-speed": "ego_speed_mps", "criticality": "cheap_required_mps2", "box-count": "cheap_boxes"}
"""Untrained allocators, and the column that is their score."""


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for cells and results.")] = Path("demo"),
    seed: Annotated[int, typer.Option("--seed", help="Seed of the synthetic world.")] = 0,
    json: Json = False,
) -> None:
    """Build the cells of the synthetic world and judge simple allocators on their test units.

    Example: deepval demo --out demo
    """
    world = sources.synthetic(seed=seed)
    systems, geometries = (tuple(dict.fromkeys(part)) for part in zip(*PAPER, strict=True))
    roles = split("synthetic", world.dataset.units)
    tables: dict[tuple[str, str], list[ValueTable]] = {}
    results: dict[str, Any] = {}
    for cell in build.cells(world.dataset, world.modes, geometries=geometries, systems=systems, watch=options.watch):
        system, geometry = cell.definition["system"]["name"], cell.definition["geometry"]
        folder = out / f"{system}-{geometry}"
        build.write(cell, folder, costs=COSTS)
        table = deepval.read_values(folder / "values.parquet", costs=folder / "costs.toml")
        scores = {name: table.attributes[column] for name, column in SIGNALS.items()}
        for name, score in scores.items():
            lines = (f"{key},{value!r}\n" for key, value in zip(table.input.tolist(), score.tolist(), strict=True))
            write_atomically(folder / "scores" / f"{name}.csv", "".join(["input,score\n", *lines]), make_folder=True)
        result = deepval.evaluate(
            table,
            scores,
            options.budgets(table, [0.2, 0.5], ["selection", "latency"], rails="mj", skipping=False),
            units=roles.test,
            calibration=roles.validation,
            curve_points=20,
            terms=folder / "terms.parquet",
            watch=options.watch,
        )
        result.save(folder / "result.json")
        write_atomically(folder / "result.md", FORMS["markdown"](result))
        tables[system, geometry] = [table]
        results[f"{system}-{geometry}"] = result
    page = out / "report.html"
    write_page({name: out / name / "result.json" for name in results}, page, images=True)
    if json:
        typer.echo(options.as_json({name: result.to_dict() for name, result in results.items()}), nl=False)
        return
    typer.echo("The synthetic world, all units, beside the paper's ranges:\n" + "\n".join(regime_lines(tables)))
    shown = "braking-monocular"
    typer.echo(f"\n{shown}, {len(roles.test)} test units:")
    options.show(results[shown], "console", sections=("Verdicts",))
    typer.echo(f"\nCells, results (result.json) and tables (result.md) lie in {out}/<system>-<geometry>/.")
    typer.echo(f"Everything as one page, with sliders and frames to look at: {page}")
    if os.environ.get("DISPLAY") and os.isatty(1):
        webbrowser.open(page.resolve().as_uri())
