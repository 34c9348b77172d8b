"""`deepval analyse agreement`, `consumers`, `optima`, `targets`: perception and consumers beside decisions."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deepval.cells.evaluation_data import note_looks
from deepval.cli import options
from deepval.cli.analysing.shown import Alpha, Cells, Shown, Units, units_of
from deepval.cli.groups import Drawn
from deepval.files.writing import check_writable
from deepval.judging.budgets import Selection


def agreement(sources: Cells, *, units: Units = "all", drawn: Drawn, output: Shown) -> None:
    """Show how far perception gain and decision value agree in sign, for every perception loss.

    Example: deepval analyse agreement cells/braking-monocular
    """
    from deepval.paper.analyses import agreement as analysis

    rows = analysis.rows(sources.named(), units=units_of(units), **drawn.settings, watch=options.watch)
    output.tell(rows, analysis.table)


def consumers(sources: Cells, *, units: Units = "all", drawn: Drawn, output: Shown) -> None:
    """Show how far two consumers of the same perception agree on what escalation is worth, in sign and in order.

    Example: deepval analyse consumers cells/braking-monocular cells/receding-horizon-monocular
    """
    from deepval.paper.analyses import consumers as analysis

    rows = analysis.rows(sources.named(), units=units_of(units), **drawn.settings, watch=options.watch)
    output.tell(rows, analysis.table)


def optima(sources: Cells, *, alpha: options.Alphas = None, units: Units = "all", output: Shown) -> None:
    """Show what the best and the worst optimal allocation of one consumer is worth to another, whatever breaks ties.

    Example: deepval analyse optima cells/braking-monocular cells/receding-horizon-monocular --alpha 0.2
    """
    from deepval.paper.analyses import optima as analysis

    rows = analysis.rows(sources.named(), alphas=alpha or [0.2], units=units_of(units), watch=options.watch)
    output.tell(rows, analysis.table)


def targets(
    sources: Cells,
    *,
    allocator: Annotated[
        list[str] | None, typer.Option("--allocator", "-a", help="Signal or diagnostic to judge. Repeatable.")
    ] = None,
    alpha: Alpha = 0.2,
    figure: Annotated[Path | None, typer.Option("--figure", help="The figure to write (.pdf, .png).")] = None,
    output: Shown,
) -> None:
    """Show what one score is worth to several targets, where they disagree, and self-reference gaps.

    Example: deepval analyse targets cells/braking-oracle cells/planner-ade-oracle --figure eta.pdf
    """
    from deepval.paper.analyses.targets import ALPHAS, SCORES, across_targets, curves, target_tables

    output.refuse_csv()
    Selection(alpha)
    if figure is not None:
        check_writable(figure)
    budgets = sorted({*ALPHAS, alpha})
    built = sources.named()
    result = across_targets(built, allocator or SCORES, alphas=budgets, watch=options.watch)
    note_looks(built.values(), by="analyse targets")
    if figure is not None:
        from deepval.report.figures import write_figure
        from deepval.report.figures.summary import across

        write_figure(figure, lambda: across(curves(result)))
    output.tell_parts(asdict(result), target_tables(result, alpha))
