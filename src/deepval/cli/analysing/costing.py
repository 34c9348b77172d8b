"""`deepval analyse budgets`, `break-even`, `gaps` and so on: what allocators are worth once they pay for themselves."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells import spec
from deepval.cells.evaluation_data import note
from deepval.cli import options
from deepval.cli.analysing import charging
from deepval.cli.analysing.charging import Charges
from deepval.cli.analysing.shown import Cells, Shown, Units, units_of
from deepval.cli.groups import Drawn
from deepval.errors import InputError
from deepval.files.writing import check_writable
from deepval.report.table import Table
from deepval.results import KINDS

Recipes = Annotated[
    list[str] | None,
    typer.Option("--allocator", "-a", help="Signal or recipe to judge. Repeatable. Default: all with a cost."),
]


@dataclass(frozen=True)
class JudgedCells(Cells):
    """Cells that are judged by the scores beside them, or results."""

    cells: Annotated[
        list[Path],
        typer.Argument(
            help="Cells, judged on their test units by the scores beside them, or results (.json) that `deepval "
            "evaluate` saved."
        ),
    ]


@dataclass(frozen=True)
class FittedCells(Cells):
    """Cells on which allocators are fitted and policies calibrated, or results of such."""

    cells: Annotated[
        list[Path],
        typer.Argument(
            help="Cells: allocators are fitted on their training units, policies calibrated on their validation units, "
            "and both judged on their test units. Or results (.json) that `deepval evaluate --calibrate` saved."
        ),
    ]


@dataclass(frozen=True)
class StreamCharges(Charges):
    """Budgets of streams, which need not charge anything."""

    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget", help="selection (the default), latency, energy, money. Repeatable; measured ones charge."
        ),
    ] = None


def budgets(
    sources: JudgedCells,
    *,
    charges: Charges,
    drawn: Drawn,
    figure: Annotated[Path | None, typer.Option("--figure", help="The figure to write (.pdf, .png).")] = None,
    output: Shown,
) -> None:
    """Show allocators under measured budgets beside free ones: nDG by level, and the share left to escalate.

    Example: deepval analyse budgets cells/braking-monocular --costs jetson-agx-xavier --figure budgets.pdf
    """
    from deepval.paper.analyses import budgets as analysis

    if figure is not None:
        check_writable(figure)
    rows = analysis.rows(charging.results(sources, charges.checked(drawn), by="budgets"))
    over = analysis.overheads(rows)
    if figure is not None:
        from deepval.report.figures import write_figure
        from deepval.report.figures.gain_figures import charged_levels

        write_figure(figure, lambda: charged_levels(analysis.levels(rows)))
    _write(output, rows, over, [analysis.table(rows), analysis.overhead_table(over)])


def break_even(sources: Cells, *, charges: Charges, units: Units = "test", output: Shown) -> None:
    """Show what each ranking beside a cell may cost per input and still reach random's gain, and whether it does.

    Example: deepval analyse break-even cells/braking-monocular --costs jetson-agx-xavier --alpha 0.2
    """
    from deepval.paper.analyses import break_even as analysis

    set_up, looked_at = charges.checked(alphas=(0.2,)), units_of(units)
    built = sources.named()
    scores = charging.beside(built, set_up)
    rows = analysis.rows(built, scores, set_up.measured(), costs=set_up.costs, units=looked_at, watch=options.watch)
    for name, cell in built.items():
        note(cell, by="analyse break-even", units=spec.units_of(cell.split, looked_at), scores=scores[name])
    over = analysis.over_cells(rows)
    _write(output, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def gaps(sources: FittedCells, *, allocator: Recipes = None, charges: Charges, output: Shown) -> None:
    """Split the gap to the zero-cost oracle into overhead, ranking and causal enforcement, over cells.

    Example: deepval analyse gaps cells/braking-monocular -a router-mlp-value -a gate-ridge
    """
    from deepval.paper.analyses import gaps as analysis

    charging.check_allocators(allocator)
    set_up = charges.checked(alphas=(0.2, 0.5))
    results = charging.results(sources, set_up, by="gaps", causal=True, allocators=allocator)
    rows = [row for row in analysis.rows(results) if row.kind in set_up.kinds]
    over = analysis.over_cells(rows)
    _write(output, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def uniform(
    sources: FittedCells,
    *,
    allocator: Recipes = None,
    policy: Annotated[
        str, typer.Option("--policy", help="How allocators keep the budget: a causal policy, or ranking.")
    ] = "causal-cap",
    charges: Charges,
    drawn: Drawn,
    output: Shown,
) -> None:
    """Compare running the full mode alone on every input with the best allocator that fits the same budget.

    Example: deepval analyse uniform cells/braking-monocular --alpha 0.5
    """
    from deepval.judging.comparison import POLICIES, RANKING
    from deepval.paper.analyses import uniform as analysis

    charging.check_allocators(allocator)
    options.one_of(policy, (*POLICIES, RANKING), "--policy")
    set_up = charges.checked(drawn, alphas=(0.3, 0.5))
    results = charging.results(sources, set_up, by="uniform", causal=True, allocators=allocator)
    rows = analysis.rows(results, policy=policy)
    over = analysis.over_cells(rows)
    _write(output, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def capacity(sources: Cells, *, alpha: options.Alphas = None, units: Units = "test", output: Shown) -> None:
    """Show whether a quota forces harm: whether enough inputs are not harmed for quota and capacity to agree.

    Example: deepval analyse capacity cells/braking-monocular
    """
    from deepval.paper.analyses import capacity as analysis

    rows = analysis.rows(sources.named(), alphas=alpha or analysis.ALPHAS, units=units_of(units), watch=options.watch)
    output.tell(rows, analysis.table)


def ladder(sources: Cells, *, charges: Charges, units: Units = "test", output: Shown) -> None:
    """Show what choosing among several modes is worth, in milliseconds and millijoules, beside the top mode alone.

    Example: deepval analyse ladder cells/braking-monocular --alpha 0.1 --alpha 0.2
    """
    from deepval.paper.analyses import ladder as analysis

    set_up = charges.checked(alphas=(0.1, 0.2), kinds=("latency", "energy"))
    rows = analysis.rows(
        sources.named(), set_up.measured(), costs=set_up.costs, units=units_of(units), watch=options.watch
    )
    if not rows:
        raise InputError("A ladder needs a cell with three modes or more; all that are given have two.")
    output.tell(rows, analysis.table)


def skipping(
    sources: JudgedCells,
    *,
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            "--allocator",
            "-a",
            help="Scores of an allocator that needs no cheap pass. Repeatable. Default: known ones.",
        ),
    ] = None,
    charges: Charges,
    drawn: Drawn,
    output: Shown,
) -> None:
    """Charge routers that look at nothing of the cheap pass for the full mode in its place, not after it.

    Example: deepval analyse skipping cells/braking-monocular --costs jetson-agx-xavier
    """
    from deepval.paper.analyses import skipping as analysis

    results = charging.results(sources, charges.checked(drawn), by="skipping", accountings=("cascade", "skipping"))
    rows = analysis.rows(results, allocator)
    if not rows:
        names = ", ".join(allocator or analysis.skippers())
        raise InputError(f"A skipping router must be among the scores of a cell; found none of {names}: give -a NAME.")
    over = analysis.over_cells(rows)
    _write(output, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def streams(
    sources: FittedCells,
    *,
    allocator: Recipes = None,
    charges: StreamCharges,
    controls: Annotated[int, typer.Option("--controls", help="Random scores to judge beside the allocators.")] = 3,
    drawn: Drawn,
    output: Shown,
) -> None:
    """Show what deciding causally costs: four streaming policies against the ranking, and rates that are missed.

    Example: deepval analyse streams cells/braking-monocular cells/braking-oracle -a gate-ridge -a router-mlp-value
    """
    from deepval.paper.analyses import streams as analysis

    charging.check_allocators(allocator)
    set_up = charges.checked(drawn, alphas=(0.2,), kinds=("selection",), allowed=KINDS)
    results = charging.results(sources, set_up, by="streams", causal=True, allocators=allocator, controls=controls)
    rows = [row for row in analysis.rows(results) if row.kind in set_up.kinds]
    output.tell(rows, analysis.table)


def _write(output: Shown, rows: Sequence[Any], over: Sequence[Any], tables: Sequence[Table]) -> None:
    """Write the rows and their summary over cells; CSV contains the rows only."""
    if output.chosen == "csv":
        output.tell(rows, lambda _: tables[0])
    else:
        output.tell_parts({"rows": [asdict(row) for row in rows], "over_cells": [asdict(row) for row in over]}, tables)
