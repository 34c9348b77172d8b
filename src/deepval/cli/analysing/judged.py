"""`deepval analyse held-out`, `benefit-harm`, `wins` and so on: results, or cells judged here -> what rows come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import deepval
from deepval.cells import fitting
from deepval.cells.evaluation_data import read_evaluation_data
from deepval.cells.folder import BuiltCell
from deepval.cli import options
from deepval.cli.analysing.shown import Cells, Shown
from deepval.cli.groups import Drawn
from deepval.cli.registering import noted
from deepval.judging.draws import seeds_by_units
from deepval.results import Result


@dataclass(frozen=True)
class Results(Cells):
    """Results that were saved, and cells that are judged here."""

    cells: Annotated[
        list[Path],
        typer.Argument(
            help="Results (.json) that `deepval evaluate` saved, or cells (folders, specifications, tracks): these are "
            "judged on their test units, by the scores beside them."
        ),
    ]

    def all(self, drawn: Drawn, by: str) -> dict[str, Result]:
        """Results by the name of their file or cell."""
        saved, cells = self.judged()
        return saved | _judge(cells, drawn, by)


def wins(sources: Results, *, drawn: Drawn, output: Shown) -> None:
    """Count how often each allocator beats random, loses to it, or cannot be told from it.

    Example: deepval analyse wins cells/braking-monocular cells/braking-oracle
    """
    from deepval.paper.analyses import wins as analysis

    output.tell(analysis.rows(sources.all(drawn, "analyse wins")), analysis.table)


def half_widths(sources: Results, *, drawn: Drawn, output: Shown) -> None:
    """Show how wide intervals against random typically are, cell by cell.

    Example: deepval analyse half-widths cells/braking-monocular result.json
    """
    from deepval.paper.analyses import half_widths as analysis

    output.tell(analysis.rows(sources.all(drawn, "analyse half-widths")), analysis.table)


def concentration(sources: Results, *, drawn: Drawn, output: Shown) -> None:
    """Show how much of each result hangs on one unit.

    Example: deepval analyse concentration cells/braking-monocular
    """
    from deepval.paper.analyses import concentration as analysis

    output.tell(analysis.rows(sources.all(drawn, "analyse concentration")), analysis.table)


def held_out(
    sources: Results,
    *,
    diagnostics: Annotated[
        bool, typer.Option("--diagnostics/--no-diagnostics", help="Judge the diagnostics of cells too, apart.")
    ] = True,
    drawn: Drawn,
    output: Shown,
) -> None:
    """Show every allocator on the test units, budget by budget, marked where it is told from random.

    Example: deepval analyse held-out cells/braking-monocular cells/braking-oracle
    """
    from deepval.paper.analyses import held_out as analysis

    saved, cells = sources.judged()
    results = saved | _judge(cells, drawn, "analyse held-out")
    beside = [score for cell in cells.values() for score in read_evaluation_data(cell.folder).scores({}).values()]
    knowing = {score.name for score in beside if score.kind == "diagnostic"}
    diagnosed, seeds = {}, _seeds(cells, drawn.seed)
    for name, cell in options.watch(list(cells.items()) if diagnostics else [], "diagnostics"):
        diagnostic_scores = fitting.diagnosed(cell)
        diagnosed[name] = fitting.judged(cell, diagnostic_scores, draws=drawn.number, seed=seeds[name])
    output.tell(analysis.rows(results, diagnosed, knowing=knowing), analysis.table)


def benefit_harm(sources: Results, *, drawn: Drawn, output: Shown) -> None:
    """Show the benefit that allocators capture and the harm they take with it, against random, over cells.

    Example: deepval analyse benefit-harm cells/braking-monocular cells/braking-oracle
    """
    from deepval.paper.analyses import benefit_harm as analysis

    rows = analysis.rows(sources.all(drawn, "analyse benefit-harm"))
    output.tell(rows, analysis.table, analysis.counts_table, analysis.gap_table)


def _judge(cells: Mapping[str, BuiltCell], drawn: Drawn, by: str) -> dict[str, Result]:
    """Cells judged by the scores beside them; cells with the same units share their draws."""
    results, seeds = {}, _seeds(cells, drawn.seed)
    for name, cell in options.watch(list(cells.items()), "judging"):
        case = read_evaluation_data(cell.folder)
        scored = case.scores({})
        budgets = options.budgets(case, scored)
        units = case.units(None, usual="test")
        results[name] = deepval.evaluate(
            case.table,
            scored,
            budgets,
            draws=drawn.number,
            seed=seeds[name],
            units=units,
            missing_costs=case.missing_costs(scored, budgets),
        )
        noted(case, by, units, scored)
    return results


def _seeds(cells: Mapping[str, BuiltCell], seed: int) -> dict[str, int]:
    return seeds_by_units({name: cell.split.test for name, cell in cells.items()}, seed)
