"""`deepval analyse`: built cells -> the rows of one analysis."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.allocators import recipe_named
from deepval.analyses.seeds import seed_study
from deepval.analyses.transfer import transfers
from deepval.cells.folder import read_cell
from deepval.cli import options
from deepval.cli.options import Json
from deepval.cli.target_tables import told_targets
from deepval.errors import InputError
from deepval.judging.budgets import Selection
from deepval.report.console import render_tables
from deepval.report.tables import Table, TableCell, number, percent

ANALYSES = ("seeds", "transfer", "targets")


def analyse(
    analysis: Annotated[str, typer.Argument(help=f"Which: {', '.join(ANALYSES)}.")],
    cells: Annotated[list[Path], typer.Argument(help="Folders of cells that `deepval build` wrote.")],
    *,
    allocator: Annotated[
        list[str] | None,
        typer.Option("--allocator", "-a", help="Recipe to fit; of targets, what to judge. Repeatable."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="How many seeds: 0, 1, ... Default: 6. Not of transfer.")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Share of inputs that may be escalated.")] = 0.2,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Of targets: the figure to write (.pdf, .png).")
    ] = None,
    json: Json = False,
) -> None:
    """Run an analysis: how results depend on training seeds, what a router or a score is worth to other consumers.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    """
    options.one_of(analysis, ANALYSES, "The analysis")
    if seeds is not None and analysis != "seeds":
        raise InputError(f"--seeds is an option of the analysis seeds; {analysis} fits with seed 0: leave it out.")
    number = options.at_least(6 if seeds is None else seeds, 1, "--seeds")
    Selection(alpha)
    if analysis != "targets" and (figure is not None or not allocator):
        raise InputError(f"The analysis {analysis} needs --allocator, a recipe to fit, and draws no --figure.")
    for name in () if analysis == "targets" else allocator or ():
        recipe_named(name)
    built = {str(folder): read_cell(folder) for folder in cells}
    if len(built) < len(cells):
        raise InputError("Cells must be different folders; one is given twice.")
    if analysis == "targets":
        return told_targets(built, allocator, alpha=alpha, figure=figure, json=json)
    allocator = allocator or []
    rows: list[Any]
    if analysis == "seeds":
        rows = [
            r for c in built.values() for r in seed_study(c, allocator, seeds=number, alpha=alpha, watch=options.watch)
        ]
        table = _seed_table(rows)
    else:
        rows = transfers(built, allocator, alphas=[alpha], watch=options.watch)
        table = _transfer_table(rows)
    if json:
        typer.echo(options.as_json([asdict(row) for row in rows]), nl=False)
    else:
        typer.echo(render_tables([table], width=options.width()), nl=False)


def _seed_table(rows: list[Any]) -> Table:
    lines = []
    for row in rows:
        better = sum(verdict == "better" for verdict in row.verdicts)
        texts = (row.cell, row.allocator, " ".join(number(v) for v in row.ndg), number(row.span), str(better))
        lines.append(tuple(map(TableCell, (*texts, "yes" if row.identical else "no"))))
    header = ("cell", "allocator", "nDG by seed", "span", "better", "same bits")
    return Table("Training seeds", header, (tuple(lines),))


def _transfer_table(rows: list[Any]) -> Table:
    lines = [
        tuple(
            map(
                TableCell,
                (
                    row.allocator,
                    row.source,
                    row.target,
                    percent(row.coverage, 1),
                    percent(row.common, 1),
                    number(row.ndg),
                    number(row.regret),
                    row.verdict or "",
                ),
            )
        )
        for row in rows
    ]
    header = ("allocator", "fitted on", "judged on", "coverage", "in common", "nDG", "regret", "verdict")
    return Table("Transfer between consumers", header, (tuple(lines),))
