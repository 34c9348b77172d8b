"""`deepval analyse operating-points`, `persistence`, `sensitivity`, `robustness`: variants of cells from their data."""

from typing import Annotated

import typer

from deepval.cli import bounds, options
from deepval.cli.analysing.shown import Alpha, Cells, ReadAgain, Shown, Units, units_of
from deepval.cli.groups import Drawn
from deepval.errors import InputError
from deepval.judging.budgets import Selection


def operating_points(
    sources: Cells,
    *,
    again: ReadAgain,
    pairs: Annotated[bool, typer.Option("--pairs/--no-pairs", help="Judge the 25 pairs of thresholds too.")] = True,
    tuned: Annotated[
        bool, typer.Option("--tuned/--no-tuned", help="Tune each mode to its own loss too, which takes longest.")
    ] = True,
    units: Units = "all",
    drawn: Drawn,
    output: Shown,
) -> None:
    """Show what escalation does with each mode at its own threshold; the data are read again.

    Example: deepval analyse operating-points cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import operating_points as analysis

    built = sources.named()
    rows = analysis.rows(
        built,
        again.located(sources, built, all_needed=True),
        with_pairs=pairs,
        with_tuned=tuned,
        units=units_of(units),
        **drawn.settings,
        watch=options.watch,
    )
    output.tell(rows, analysis.table)


def persistence(sources: Cells, *, again: ReadAgain, units: Units = "all", drawn: Drawn, output: Shown) -> None:
    """Show what is left of harm when a detection must persist over three frames; the data are read again.

    Example: deepval analyse persistence cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import persistence as analysis

    built = sources.named()
    located = again.located(sources, built, all_needed=True)
    rows = analysis.rows(built, located, units=units_of(units), **drawn.settings, watch=options.watch)
    output.tell(rows, analysis.table)


def sensitivity(
    sources: Cells,
    *,
    again: ReadAgain,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", help="NAME=A,B,...: values of a constant of the systems, instead of the paper's."),
    ] = None,
    units: Units = "all",
    drawn: Drawn,
    output: Shown,
) -> None:
    """Show harm under other loss weights and corridor widths, one at a time; what changes plans needs the data.

    Example: deepval analyse sensitivity cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import sensitivity as analysis

    values, built = _values(vary), sources.named()
    rows = analysis.rows(
        built,
        located=again.located(sources, built, all_needed=False),
        vary=values,
        units=units_of(units),
        **drawn.settings,
        watch=options.watch,
    )
    output.tell(rows, analysis.table)


def robustness(
    sources: Cells, *, again: ReadAgain, alpha: Alpha = 0.2, units: Units = "all", drawn: Drawn, output: Shown
) -> None:
    """Show what ranking by perception gain is worth over configurations: with the data, both geometries and tasks.

    Example: deepval analyse robustness cells/braking-monocular --root kitti_tracking --mode CIWT=CIWT.parquet
    --mode RRC=RRC.parquet
    """
    from deepval.paper.analyses import robustness as analysis

    Selection(alpha)
    built = sources.named()
    rows = analysis.rows(
        built,
        located=again.located(sources, built, all_needed=False),
        alpha=alpha,
        units=units_of(units),
        **drawn.settings,
        watch=options.watch,
    )
    output.tell(rows, analysis.table)


def _values(texts: list[str] | None) -> dict[str, list[float]] | None:
    """Values by constant, from NAME=A,B."""
    constants: dict[str, list[float]] = {}
    for text in texts or []:
        name, _, values = text.partition("=")
        if not name or not values or name in constants:
            raise InputError(f"--vary must be NAME=A,B,... with numbers, once for each NAME; found {text!r}.")
        constants[name] = [bounds.number(value, "--vary NAME=A,B,...") for value in values.split(",")]
    return constants or None
