"""`deepval analyse`: built cells -> the rows of one analysis, a sub-command each."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.allocators import recipe_named
from deepval.analyses.external import ExternalTrack, external_track, planner_cell
from deepval.analyses.seeds import SeedStudy, seed_study
from deepval.analyses.transfer import Transfer, transfers
from deepval.cells.folder import BuiltCell, read_cell
from deepval.cli import options
from deepval.cli.external_tables import external_tables
from deepval.cli.options import Json
from deepval.cli.target_tables import told_targets
from deepval.errors import InputError
from deepval.judging.budgets import Selection
from deepval.report.console import render_tables
from deepval.report.tables import Table, TableCell, number, percent

analyse = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
Folders = Annotated[list[Path], typer.Argument(help="Folders of cells that `deepval build` wrote.")]
Recipes = Annotated[list[str], typer.Option("--allocator", "-a", help="Recipe to fit. Repeatable.")]
Share = Annotated[float, typer.Option("--alpha", help="Share of inputs that may be escalated.")]


@analyse.callback()
def _analyse() -> None:
    """Run an analysis: training seeds, transfer between consumers, or published planners on logged scenes.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    """


@analyse.command()
def seeds(
    cells: Folders,
    *,
    allocator: Recipes,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds: 0, 1, ...")] = 6,
    alpha: Share = 0.2,
    json: Json = False,
) -> None:
    """Show how far a result depends on the seed of training.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    """
    wanted = options.at_least(seeds, 1, "--seeds")
    _check(allocator, alpha)
    rows = [
        row
        for cell in _read(cells).values()
        for row in seed_study(cell, allocator, seeds=wanted, alpha=alpha, watch=options.watch)
    ]
    _show([asdict(row) for row in rows], [_seed_table(rows)], json=json)


@analyse.command()
def transfer(
    cells: Folders,
    *,
    allocator: Recipes,
    seeds: Annotated[int | None, typer.Option("--seeds", hidden=True)] = None,
    alpha: Share = 0.2,
    json: Json = False,
) -> None:
    """Show what a router that was fitted for one consumer is worth to another.

    Example: deepval analyse transfer cells/braking-monocular cells/receding-horizon-monocular -a gate-ridge
    """
    if seeds is not None:
        raise InputError("--seeds is an option of the analysis seeds; transfer fits with seed 0: leave it out.")
    _check(allocator, alpha)
    rows = transfers(_read(cells), allocator, alphas=[alpha], watch=options.watch)
    _show([asdict(row) for row in rows], [_transfer_table(rows)], json=json)


@analyse.command()
def external(cells: Folders, *, json: Json = False) -> None:
    """Show what escalation does to published planners under five losses, how far they agree, and who is viable.

    Example: deepval analyse external cells/pdm-closed-safety-tracks cells/idm-safety-tracks
    """
    taken = [planner_cell(cell, name) for name, cell in _read(cells).items()]
    found: ExternalTrack = external_track(taken, watch=options.watch)
    _show(asdict(found), external_tables(found), json=json)


@analyse.command()
def targets(
    cells: Folders,
    *,
    allocator: Annotated[
        list[str] | None, typer.Option("--allocator", "-a", help="Scores beside the cells to judge. Repeatable.")
    ] = None,
    alpha: Share = 0.2,
    figure: Annotated[Path | None, typer.Option("--figure", help="The figure to write (.pdf, .png).")] = None,
    json: Json = False,
) -> None:
    """Show what one score is worth on several targets: cross-target table and self-reference gap.

    Example: deepval analyse targets cells/planner-ade-cuboids cells/planner-self-ade-cuboids cells/braking-cuboids
    """
    Selection(alpha)
    told_targets(_read(cells), allocator, alpha=alpha, figure=figure, json=json)


def _read(folders: Sequence[Path]) -> dict[str, BuiltCell]:
    cells = {str(folder): read_cell(folder) for folder in folders}
    if len(cells) < len(folders):
        raise InputError("Cells must be different folders; one is given twice.")
    return cells


def _check(recipes: Sequence[str], alpha: float) -> None:
    """Refuse what cannot be fitted or judged before anything is read."""
    Selection(alpha)
    for name in recipes:
        recipe_named(name)


def _show(content: Any, tables: Sequence[Table], *, json: bool) -> None:
    text = options.as_json(content) if json else render_tables(tables, width=options.width())
    typer.echo(text, nl=False)


def _seed_table(rows: Sequence[SeedStudy]) -> Table:
    lines = []
    for row in rows:
        better = sum(verdict == "better" for verdict in row.verdicts)
        texts = (row.cell, row.allocator, " ".join(number(v) for v in row.ndg), number(row.span), str(better))
        lines.append(tuple(map(TableCell, (*texts, "yes" if row.identical else "no"))))
    header = ("cell", "allocator", "nDG by seed", "span", "better", "same bits")
    return Table("Training seeds", header, (tuple(lines),))


def _transfer_table(rows: Sequence[Transfer]) -> Table:
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
