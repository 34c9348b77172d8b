"""`deepval analyse signs`, `composition`, `ties` and so on: built cells -> what escalation does."""

from typing import Annotated

import typer

from deepval.cells.evaluation_data import EvaluationData
from deepval.cli import options
from deepval.cli.analysing.shown import Alpha, Cells, ReadAgain, Shown, Units, units_of
from deepval.cli.groups import Drawn
from deepval.judging.budgets import Selection


def signs(sources: Cells, *, units: Units = "all", alpha: Alpha = 0.2, drawn: Drawn, output: Shown) -> None:
    """Show how many escalations help and harm, and how much, with intervals over units.

    Example: deepval analyse signs cells/braking-monocular cells/braking-oracle
    """
    from deepval.paper.analyses import signs as analysis

    Selection(alpha)
    rows = analysis.rows(sources.named(), units=units_of(units), alpha=alpha, **drawn.settings, watch=options.watch)
    output.tell(rows, analysis.table)


def composition(sources: Cells, *, units: Units = "all", output: Shown) -> None:
    """Show what benefit and harm are made of, loss term by loss term.

    Example: deepval analyse composition cells/braking-monocular
    """
    from deepval.paper.analyses import composition as analysis

    output.tell(analysis.rows(sources.named(), units=units_of(units), watch=options.watch), analysis.table)


def ties(
    sources: Cells,
    *,
    scores: Annotated[
        bool, typer.Option("--scores", help="Look at the scores beside each cell too, not at the decision value alone.")
    ] = False,
    alpha: options.Alphas = None,
    units: Units = "all",
    output: Shown,
) -> None:
    """Show how much of what a ranking would escalate is decided by ties at its cut.

    Example: deepval analyse ties cells/braking-monocular --scores --units test
    """
    from deepval.paper.analyses import ties as analysis

    built = sources.named()
    beside = (
        {name: EvaluationData(cell.folder, cell.table, cell).scores({}).values() for name, cell in built.items()}
        if scores
        else {}
    )
    shares = alpha or [0.1, 0.2, 0.3, 0.5]
    rows = analysis.rows(built, scores=beside, alphas=shares, units=units_of(units), watch=options.watch)
    output.tell(rows, analysis.table)


def mechanism(sources: Cells, *, again: ReadAgain, units: Units = "all", drawn: Drawn, output: Shown) -> None:
    """Show what perception gains and invents on helped, harmed and unaffected inputs, and what the system acts on.

    Example: deepval analyse mechanism cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import mechanism as analysis

    built = sources.named()
    located = again.located(sources, built, all_needed=False)
    rows = analysis.rows(built, located=located, units=units_of(units), **drawn.settings, watch=options.watch)
    output.tell(rows, analysis.table)


def viability(sources: Cells, *, again: ReadAgain, units: Units = "all", drawn: Drawn, output: Shown) -> None:
    """Show whether acting on each mode beats a predictor that looks at nothing; the data are read again.

    Example: deepval analyse viability cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import viability as analysis

    built = sources.named()
    located = again.located(sources, built, all_needed=True)
    rows = analysis.rows(built, located, units=units_of(units), **drawn.settings, watch=options.watch)
    output.tell(rows, analysis.table)


def lift(
    sources: Cells,
    *,
    again: ReadAgain,
    only: Annotated[
        str, typer.Option("--class", help="Class of the detections and of their reference objects.")
    ] = "Car",
    units: Units = "all",
    output: Shown,
) -> None:
    """Show how far lifted ranges are from the reference, by mode and band of ranges; the data are read again.

    Example: deepval analyse lift cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import lift as analysis

    built = sources.named()
    located = again.located(sources, built, all_needed=True)
    rows = analysis.rows(built, located, cls=only, units=units_of(units), watch=options.watch)
    output.tell(rows, analysis.table)
