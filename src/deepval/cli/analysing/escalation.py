"""`deepval analyse signs`, `composition`, `ties` and so on: built cells -> what escalation does."""

from typing import Annotated

import typer

from deepval.cells.case import Case
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import (
    Alpha,
    Cells,
    Form,
    Maps,
    ModeFiles,
    Out,
    PlannerMasks,
    PlannerWeights,
    Root,
    Shown,
    Units,
)
from deepval.cli.options import DrawNumber, Json, Seed
from deepval.judging.budgets import Selection


def signs(
    cells: Cells,
    *,
    units: Units = "all",
    alpha: Alpha = 0.2,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how many escalations help and harm, and how much, with intervals over units.

    Example: deepval analyse signs cells/braking-monocular cells/braking-oracle
    """
    from deepval.analyses import signs as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    Selection(alpha)
    found = analysis.rows(
        shown.named(cells), units=shown.units(units), alpha=alpha, draws=number, seed=start, watch=options.watch
    )
    told.tell(found, analysis.table)


def composition(cells: Cells, *, units: Units = "all", form: Form = None, out: Out = None, json: Json = False) -> None:
    """Show what benefit and harm are made of, loss term by loss term.

    Example: deepval analyse composition cells/braking-monocular
    """
    from deepval.analyses import composition as analysis

    told = Shown.of(form, json=json, out=out)
    told.tell(analysis.rows(shown.named(cells), units=shown.units(units), watch=options.watch), analysis.table)


def ties(
    cells: Cells,
    *,
    scores: Annotated[
        bool, typer.Option("--scores", help="Look at the scores beside each cell too, not at the decision value alone.")
    ] = False,
    alpha: options.Alphas = None,
    units: Units = "all",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how much of what a ranking would escalate is decided by ties at its cut.

    Example: deepval analyse ties cells/braking-monocular --scores --units test
    """
    from deepval.analyses import ties as analysis

    told = Shown.of(form, json=json, out=out)
    built = shown.named(cells)
    beside = (
        {name: Case(cell.folder, cell.table, cell).scores({}).values() for name, cell in built.items()}
        if scores
        else {}
    )
    shares = alpha or [0.1, 0.2, 0.3, 0.5]
    found = analysis.rows(built, scores=beside, alphas=shares, units=shown.units(units), watch=options.watch)
    told.tell(found, analysis.table)


def mechanism(
    cells: Cells,
    *,
    root: Root = None,
    mode: ModeFiles = None,
    maps: Maps = None,
    weights: PlannerWeights = None,
    masks: PlannerMasks = None,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what perception gains and invents on helped, harmed and unaffected inputs, and what the system acts on.

    Example: deepval analyse mechanism cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import mechanism as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=False, planner=(weights, masks))
    found = analysis.rows(
        built, located=located, units=shown.units(units), draws=number, seed=start, watch=options.watch
    )
    told.tell(found, analysis.table)


def viability(
    cells: Cells,
    *,
    root: Root = None,
    mode: ModeFiles = None,
    maps: Maps = None,
    weights: PlannerWeights = None,
    masks: PlannerMasks = None,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show whether acting on each mode beats a predictor that looks at nothing; the data are read again.

    Example: deepval analyse viability cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import viability as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=True, planner=(weights, masks))
    found = analysis.rows(built, located, units=shown.units(units), draws=number, seed=start, watch=options.watch)
    told.tell(found, analysis.table)


def lift(
    cells: Cells,
    *,
    root: Root = None,
    mode: ModeFiles = None,
    maps: Maps = None,
    only: Annotated[
        str, typer.Option("--class", help="Class of the detections and of their reference objects.")
    ] = "Car",
    units: Units = "all",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show how far lifted ranges are from the reference, by mode and band of ranges; the data are read again.

    Example: deepval analyse lift cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import lift as analysis

    told = Shown.of(form, json=json, out=out)
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=True)
    found = analysis.rows(built, located, cls=only, units=shown.units(units), watch=options.watch)
    told.tell(found, analysis.table)
