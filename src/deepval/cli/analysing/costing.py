"""`deepval analyse budgets`, `break-even`, `gaps` and so on: what allocators are worth once they pay for themselves."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells.ledger import note
from deepval.cells.splits import units_of
from deepval.cli import options
from deepval.cli.analysing import charging, shown
from deepval.cli.analysing.charging import Charging
from deepval.cli.analysing.shown import Cells, Form, Out, Shown, Units
from deepval.cli.options import Alphas, CostFile, DrawNumber, Json, Rails, Seed
from deepval.errors import InputError
from deepval.files import check_writable
from deepval.report.tables import Table
from deepval.results import KINDS

Judged = Annotated[
    list[Path],
    typer.Argument(
        help="Cells, judged on their test units by the scores beside them, or results (.json) that `deepval evaluate` "
        "saved."
    ),
]
Fitted = Annotated[
    list[Path],
    typer.Argument(
        help="Cells: allocators are fitted on their training units, policies calibrated on their validation units, and "
        "both judged on their test units. Or results (.json) that `deepval evaluate --calibrate` saved."
    ),
]
Kind = Annotated[
    list[str] | None,
    typer.Option("--budget", help="latency (the default), energy, money. Repeatable; several charge each."),
]
Recipes = Annotated[
    list[str] | None,
    typer.Option("--allocator", "-a", help="Signal or recipe to judge. Repeatable. Default: all with a cost."),
]


def budgets(
    cells: Judged,
    *,
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Kind = None,
    rails: Rails = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    figure: Annotated[Path | None, typer.Option("--figure", help="The figure to write (.pdf, .png).")] = None,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show allocators under measured budgets beside free ones: nDG by level, and the share left to escalate.

    Example: deepval analyse budgets cells/braking-monocular --costs jetson-agx-xavier --figure budgets.pdf
    """
    from deepval.analyses import budgets as analysis

    told = Shown.of(form, json=json, out=out)
    if figure is not None:
        check_writable(figure)
    set_up = Charging.of(alpha=alpha, budget=budget, rails=rails, costs=costs, draws=draws, seed=seed)
    rows = analysis.rows(charging.results(cells, set_up, by="budgets"))
    over = analysis.overheads(rows)
    if figure is not None:
        from deepval.report.figures import write_figure
        from deepval.report.figures.charged import charged

        write_figure(figure, lambda: charged(analysis.levels(rows)))
    _tell(told, rows, over, [analysis.table(rows), analysis.overhead_table(over)])


def break_even(
    cells: Cells,
    *,
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Kind = None,
    rails: Rails = None,
    units: Units = "test",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what each ranking beside a cell may cost per input and still reach random's gain, and whether it does.

    Example: deepval analyse break-even cells/braking-monocular --costs jetson-agx-xavier --alpha 0.2
    """
    from deepval.analyses import break_even as analysis

    told = Shown.of(form, json=json, out=out)
    set_up = Charging.of(alpha=alpha, usual_alphas=(0.2,), budget=budget, rails=rails, costs=costs)
    built = shown.named(cells)
    scores = charging.beside(built, set_up)
    rows = analysis.rows(
        built, scores, set_up.measured(), costs=set_up.costs, units=shown.units(units), watch=options.watch
    )
    for name, cell in built.items():
        note(cell, by="analyse break-even", units=units_of(cell.split, shown.units(units)), scores=scores[name])
    over = analysis.over_cells(rows)
    _tell(told, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def gaps(
    cells: Fitted,
    *,
    allocator: Recipes = None,
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Kind = None,
    rails: Rails = None,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Split the gap to the zero-cost oracle into overhead, ranking and causal enforcement, over cells.

    Example: deepval analyse gaps cells/braking-monocular -a router-mlp-value -a gate-ridge
    """
    from deepval.analyses import gaps as analysis

    told = Shown.of(form, json=json, out=out)
    charging.check_allocators(allocator)
    set_up = Charging.of(alpha=alpha, usual_alphas=(0.2, 0.5), budget=budget, rails=rails, costs=costs)
    results = charging.results(cells, set_up, by="gaps", causal=True, allocators=allocator)
    rows = [row for row in analysis.rows(results) if row.kind in set_up.kinds]
    over = analysis.over_cells(rows)
    _tell(told, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def uniform(
    cells: Fitted,
    *,
    allocator: Recipes = None,
    policy: Annotated[
        str, typer.Option("--policy", help="How allocators keep the budget: a causal policy, or ranking.")
    ] = "causal-cap",
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Kind = None,
    rails: Rails = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Compare running the full mode alone on every input with the best allocator that fits the same budget.

    Example: deepval analyse uniform cells/braking-monocular --alpha 0.5
    """
    from deepval.analyses import uniform as analysis
    from deepval.judging.contenders import POLICIES, RANKING

    told = Shown.of(form, json=json, out=out)
    charging.check_allocators(allocator)
    options.one_of(policy, (*POLICIES, RANKING), "--policy")
    set_up = Charging.of(
        alpha=alpha, usual_alphas=(0.3, 0.5), budget=budget, rails=rails, costs=costs, draws=draws, seed=seed
    )
    results = charging.results(cells, set_up, by="uniform", causal=True, allocators=allocator)
    rows = analysis.rows(results, policy=policy)
    over = analysis.over_cells(rows)
    _tell(told, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def capacity(
    cells: Cells,
    *,
    alpha: Alphas = None,
    units: Units = "test",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show whether a quota forces harm: whether enough inputs are not harmed for quota and capacity to agree.

    Example: deepval analyse capacity cells/braking-monocular
    """
    from deepval.analyses import capacity as analysis

    told = Shown.of(form, json=json, out=out)
    rows = analysis.rows(
        shown.named(cells), alphas=alpha or analysis.ALPHAS, units=shown.units(units), watch=options.watch
    )
    told.tell(rows, analysis.table)


def ladder(
    cells: Cells,
    *,
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Kind = None,
    rails: Rails = None,
    units: Units = "test",
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what choosing among several modes is worth, in milliseconds and millijoules, beside the top mode alone.

    Example: deepval analyse ladder cells/braking-monocular --alpha 0.1 --alpha 0.2
    """
    from deepval.analyses import ladder as analysis

    told = Shown.of(form, json=json, out=out)
    set_up = Charging.of(
        alpha=alpha, budget=budget, usual=("latency", "energy"), usual_alphas=(0.1, 0.2), rails=rails, costs=costs
    )
    built = shown.named(cells)
    rows = analysis.rows(built, set_up.measured(), costs=set_up.costs, units=shown.units(units), watch=options.watch)
    if not rows:
        raise InputError("A ladder needs a cell with three modes or more; all that are given have two.")
    told.tell(rows, analysis.table)


def skipping(
    cells: Judged,
    *,
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            "--allocator",
            "-a",
            help="Scores of an allocator that needs no cheap pass. Repeatable. Default: known ones.",
        ),
    ] = None,
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Kind = None,
    rails: Rails = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Charge routers that look at nothing of the cheap pass for the full mode in its place, not after it.

    Example: deepval analyse skipping cells/braking-monocular --costs jetson-agx-xavier
    """
    from deepval.analyses import skipping as analysis

    told = Shown.of(form, json=json, out=out)
    set_up = Charging.of(alpha=alpha, budget=budget, rails=rails, costs=costs, draws=draws, seed=seed)
    results = charging.results(cells, set_up, by="skipping", accountings=("cascade", "skipping"))
    rows = analysis.rows(results, allocator)
    if not rows:
        wanted = ", ".join(allocator or analysis.skippers())
        raise InputError(f"A skipping router must be among the scores of a cell; found none of {wanted}: give -a NAME.")
    over = analysis.over_cells(rows)
    _tell(told, rows, over, [analysis.table(rows), analysis.over_cells_table(over)])


def streams(
    cells: Fitted,
    *,
    allocator: Recipes = None,
    costs: CostFile = None,
    alpha: Alphas = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget", help="selection (the default), latency, energy, money. Repeatable; measured ones charge."
        ),
    ] = None,
    rails: Rails = None,
    controls: Annotated[int, typer.Option("--controls", help="Random scores to judge beside the allocators.")] = 3,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what deciding causally costs: four streaming policies against the ranking, and rates that are missed.

    Example: deepval analyse streams cells/braking-monocular cells/braking-oracle -a gate-ridge -a router-mlp-value
    """
    from deepval.analyses import streams as analysis

    told = Shown.of(form, json=json, out=out)
    charging.check_allocators(allocator)
    set_up = Charging.of(
        alpha=alpha,
        usual_alphas=(0.2,),
        budget=budget,
        usual=("selection",),
        allowed=KINDS,
        rails=rails,
        costs=costs,
        draws=draws,
        seed=seed,
    )
    found = charging.results(cells, set_up, by="streams", causal=True, allocators=allocator, controls=controls)
    rows = [row for row in analysis.rows(found) if row.kind in set_up.kinds]
    told.tell(rows, analysis.table)


def _tell(told: Shown, rows: Sequence[Any], over: Sequence[Any], tables: Sequence[Table]) -> None:
    """Rows and what they come to over cells; CSV holds the rows."""
    if told.form == "csv":
        told.tell(rows, lambda _: tables[0])
    else:
        told.tell_parts({"rows": [asdict(row) for row in rows], "over_cells": [asdict(row) for row in over]}, tables)
