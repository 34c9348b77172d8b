"""`deepval demo`: the table that ships with the package -> a judgement in a folder."""

from pathlib import Path
from typing import Annotated

import typer

import deepval
from deepval.cli import options
from deepval.cli.options import Json
from deepval.files import write_atomically
from deepval.report import FORMS


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the result.")] = Path("demo"),
    json: Json = False,
) -> None:
    """Judge the allocators of the table that ships with deepval.

    Example: deepval demo --out demo
    """
    data = Path(deepval.__file__).parent / "demo"
    table = deepval.read_values(data / "values.csv", costs=data / "costs.toml")
    scores = {path.stem: path for path in sorted((data / "scores").glob("*.csv"))}
    budgets = options.budgets(table, [0.2, 0.5], ["selection", "latency"], rails="mj", skipping=False)
    result = deepval.evaluate(table, scores, budgets, by="weather", curve_points=20, watch=options.watch)
    out.mkdir(parents=True, exist_ok=True)
    result.save(out / "result.json")
    write_atomically(out / "result.md", FORMS["markdown"](result))
    options.show(result, "json" if json else "console")
    if not json:
        typer.echo(f"\nSaved {out / 'result.json'} and {out / 'result.md'}.")
