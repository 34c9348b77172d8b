"""`deepval analyse operating-points`, `persistence`, `sensitivity`, `robustness`: variants of cells from their data."""

from typing import Annotated

import typer

from deepval.cli import bounds, options
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
from deepval.errors import InputError
from deepval.judging.budgets import Selection

Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", help="NAME=A,B,...: values of a constant of the systems, instead of the paper's."),
]


def operating_points(
    cells: Cells,
    *,
    root: Root = None,
    mode: ModeFiles = None,
    maps: Maps = None,
    weights: PlannerWeights = None,
    masks: PlannerMasks = None,
    pairs: Annotated[bool, typer.Option("--pairs/--no-pairs", help="Judge the 25 pairs of thresholds too.")] = True,
    tuned: Annotated[
        bool, typer.Option("--tuned/--no-tuned", help="Tune each mode to its own loss too, which takes longest.")
    ] = True,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what escalation does with each mode at its own threshold; the data are read again.

    Example: deepval analyse operating-points cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import operating_points as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=True, planner=(weights, masks))
    found = analysis.rows(
        built,
        located,
        with_pairs=pairs,
        with_tuned=tuned,
        units=shown.units(units),
        draws=number,
        seed=start,
        watch=options.watch,
    )
    told.tell(found, analysis.table)


def persistence(
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
    """Show what is left of harm when a detection must persist over three frames; the data are read again.

    Example: deepval analyse persistence cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import persistence as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=True, planner=(weights, masks))
    found = analysis.rows(built, located, units=shown.units(units), draws=number, seed=start, watch=options.watch)
    told.tell(found, analysis.table)


def sensitivity(
    cells: Cells,
    *,
    root: Root = None,
    mode: ModeFiles = None,
    maps: Maps = None,
    vary: Vary = None,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show harm under other loss weights and corridor widths, one at a time; what changes plans needs the data.

    Example: deepval analyse sensitivity cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import sensitivity as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    values = _values(vary)
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=False)
    found = analysis.rows(
        built,
        located=located,
        vary=values,
        units=shown.units(units),
        draws=number,
        seed=start,
        watch=options.watch,
    )
    told.tell(found, analysis.table)


def robustness(
    cells: Cells,
    *,
    root: Root = None,
    mode: ModeFiles = None,
    maps: Maps = None,
    alpha: Alpha = 0.2,
    units: Units = "all",
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what ranking by perception gain is worth over configurations: with the data, both geometries and tasks.

    Example: deepval analyse robustness cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.analyses import robustness as analysis

    told = Shown.of(form, json=json, out=out)
    number, start = options.draws(draws), seed
    Selection(alpha)
    built = shown.named(cells)
    located = shown.at_hand(built, root, mode, maps, all_needed=False)
    found = analysis.rows(
        built,
        located=located,
        alpha=alpha,
        units=shown.units(units),
        draws=number,
        seed=start,
        watch=options.watch,
    )
    told.tell(found, analysis.table)


def _values(texts: list[str] | None) -> dict[str, list[float]] | None:
    """Values by constant, from NAME=A,B."""
    found: dict[str, list[float]] = {}
    for text in texts or []:
        name, _, values = text.partition("=")
        if not name or not values or name in found:
            raise InputError(f"--vary must be NAME=A,B,... with numbers, once for each NAME; found {text!r}.")
        found[name] = [bounds.number(value, "--vary NAME=A,B,...") for value in values.split(",")]
    return found or None
