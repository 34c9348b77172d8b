"""`deepval analyse agreement`, `consumers`, `optima`, `targets`: perception and consumers beside decisions."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deepval.cells.ledger import note_looks
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Alpha, Cells, Form, Out, Shown, Units
from deepval.cli.options import DrawNumber, Json, Seed
from deepval.errors import InputError
from deepval.files import check_writable
from deepval.judging.budgets import Selection


def agreement(
    cells: Cells,
    *,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how far perception gain and decision value agree in sign, for every perception loss.

    Example: deepval analyse agreement cells/braking-monocular
    """
    from deepval.analyses import agreement as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    found = analysis.rows(shown.named(cells), units=shown.units(units), draws=number, seed=start, watch=options.watch)
    told.tell(found, analysis.table)


def consumers(
    cells: Cells,
    *,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how far two consumers of the same perception agree on what escalation is worth, in sign and in order.

    Example: deepval analyse consumers cells/braking-monocular cells/receding-horizon-monocular
    """
    from deepval.analyses import consumers as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    found = analysis.rows(shown.named(cells), units=shown.units(units), draws=number, seed=start, watch=options.watch)
    told.tell(found, analysis.table)


def optima(
    cells: Cells,
    *,
    alpha: options.Alphas = None,
    units: Units = "all",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what the best and the worst optimal allocation of one consumer is worth to another, whatever breaks ties.

    Example: deepval analyse optima cells/braking-monocular cells/receding-horizon-monocular --alpha 0.2
    """
    from deepval.analyses import optima as analysis

    told = Shown.of(form, json=json, out=out)
    found = analysis.rows(shown.named(cells), alphas=alpha or [0.2], units=shown.units(units), watch=options.watch)
    told.tell(found, analysis.table)


def targets(
    cells: Cells,
    *,
    allocator: Annotated[
        list[str] | None, typer.Option("--allocator", "-a", help="Signal or diagnostic to judge. Repeatable.")
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", hidden=True)] = None,
    alpha: Alpha = 0.2,
    figure: Annotated[Path | None, typer.Option("--figure", help="The figure to write (.pdf, .png).")] = None,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what one score is worth to several targets, where they disagree, and self-reference gaps.

    Example: deepval analyse targets cells/braking-oracle cells/planner-ade-oracle --figure eta.pdf
    """
    from deepval.analyses.target_tables import curves, target_tables
    from deepval.analyses.targets import ALPHAS, SCORES, across_targets

    told = Shown.of(form, json=json, out=out)
    told.refuse_csv()
    if seeds is not None:
        raise InputError("--seeds is an option of the analysis seeds; targets fits with seed 0: leave it out.")
    Selection(alpha)
    if figure is not None:
        check_writable(figure)
    budgets = sorted({*ALPHAS, alpha})
    built = shown.named(cells)
    found = across_targets(built, allocator or SCORES, alphas=budgets, watch=options.watch)
    note_looks(built.values(), by="analyse targets")
    if figure is not None:
        from deepval.report.figures import write_figure
        from deepval.report.figures.targets import across

        write_figure(figure, lambda: across(curves(found)))
    told.tell_parts(asdict(found), target_tables(found, alpha))
