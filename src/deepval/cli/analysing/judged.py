"""`deepval analyse wins`, `half-widths`, `concentration`: results, or cells judged here -> what many rows come to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import deepval
from deepval.cells.case import read_case
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Form, Out, Shown
from deepval.cli.options import DrawNumber, Json, Seed
from deepval.cli.registering import noted
from deepval.results import Result

Results = Annotated[
    list[Path],
    typer.Argument(
        help="Results (.json) that `deepval evaluate` saved, or cells (folders, specifications, tracks): these are "
        "judged on their test units, by the scores beside them."
    ),
]


def wins(
    results: Results,
    *,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Count how often each allocator beats random, loses to it, or cannot be told from it.

    Example: deepval analyse wins cells/braking-monocular cells/braking-oracle
    """
    from deepval.analyses import wins as analysis

    told = Shown.of(form, json=json, out=out)
    told.tell(analysis.rows(_results(results, draws, seed, "analyse wins")), analysis.table)


def half_widths(
    results: Results,
    *,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how wide intervals against random typically are, cell by cell.

    Example: deepval analyse half-widths cells/braking-monocular result.json
    """
    from deepval.analyses import half_widths as analysis

    told = Shown.of(form, json=json, out=out)
    told.tell(analysis.rows(_results(results, draws, seed, "analyse half-widths")), analysis.table)


def concentration(
    results: Results,
    *,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how much of each result hangs on one unit.

    Example: deepval analyse concentration cells/braking-monocular
    """
    from deepval.analyses import concentration as analysis

    told = Shown.of(form, json=json, out=out)
    told.tell(analysis.rows(_results(results, draws, seed, "analyse concentration")), analysis.table)


def _results(paths: Sequence[Path], draws: str, seed: int, by: str) -> dict[str, Result]:
    """Results by the name of their file or cell."""
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    found, cells = shown.results_and_cells(paths)
    for name, cell in options.watch(list(cells.items()), "judging"):
        case = read_case(cell.folder)
        scored = case.scores({})
        budgets = options.budgets(case, scored)
        units = case.units(None, usual="test")
        found[name] = deepval.evaluate(case.table, scored, budgets, draws=number, seed=start, units=units)
        noted(case, by, units, scored)
    return found
