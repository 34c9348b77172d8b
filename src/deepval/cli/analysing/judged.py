"""`deepval analyse held-out`, `benefit-harm`, `wins` and so on: results, or cells judged here -> what rows come to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

import deepval
from deepval.cells import study
from deepval.cells.case import read_case
from deepval.cells.folder import BuiltCell
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Form, Out, Shown
from deepval.cli.options import DrawNumber, Json, Seed
from deepval.cli.registering import noted
from deepval.judging.draws import seeds_by_units
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


def held_out(
    results: Results,
    *,
    diagnostics: Annotated[
        bool, typer.Option("--diagnostics/--no-diagnostics", help="Judge the diagnostics of cells too, apart.")
    ] = True,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show every allocator on the test units, budget by budget, marked where it is told from random.

    Example: deepval analyse held-out cells/braking-monocular cells/braking-oracle
    """
    from deepval.analyses import held_out as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    saved, cells = shown.results_and_cells(results)
    found = _judged(saved, cells, number, start, "analyse held-out")
    beside = [score for cell in cells.values() for score in read_case(cell.folder).scores({}).values()]
    knowing = {score.name for score in beside if score.kind == "diagnostic"}
    diagnosed, seeds = {}, _seeds(cells, start)
    for name, cell in options.watch(list(cells.items()) if diagnostics else [], "diagnostics"):
        known = study.diagnosed(cell)
        diagnosed[name] = study.judged(cell, known, draws=number, seed=seeds[name])
    told.tell(analysis.rows(found, diagnosed, knowing=knowing), analysis.table)


def benefit_harm(
    results: Results,
    *,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show the benefit that allocators capture and the harm they take with it, against random, over cells.

    Example: deepval analyse benefit-harm cells/braking-monocular cells/braking-oracle
    """
    from deepval.analyses import benefit_harm as analysis

    told = Shown.of(form, json=json, out=out)
    rows = analysis.rows(_results(results, draws, seed, "analyse benefit-harm"))
    told.tell(rows, analysis.table, analysis.counts_table, analysis.gap_table)


def _results(paths: Sequence[Path], draws: str, seed: int, by: str) -> dict[str, Result]:
    """Results by the name of their file or cell."""
    saved, cells = shown.results_and_cells(paths)
    return _judged(saved, cells, options.draws(draws), seed, by)


def _judged(
    saved: Mapping[str, Result], cells: Mapping[str, BuiltCell], draws: int | Literal["exact"], seed: int, by: str
) -> dict[str, Result]:
    """Results as they were saved, and cells judged by the scores beside them; other units have draws of their own."""
    found, seeds = dict(saved), _seeds(cells, seed)
    for name, cell in options.watch(list(cells.items()), "judging"):
        case = read_case(cell.folder)
        scored = case.scores({})
        budgets = options.budgets(case, scored)
        units = case.units(None, usual="test")
        found[name] = deepval.evaluate(case.table, scored, budgets, draws=draws, seed=seeds[name], units=units)
        noted(case, by, units, scored)
    return found


def _seeds(cells: Mapping[str, BuiltCell], seed: int) -> dict[str, int]:
    return seeds_by_units({name: cell.split.test for name, cell in cells.items()}, seed)
