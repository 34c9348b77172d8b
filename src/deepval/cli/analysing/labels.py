"""`deepval analyse objective-swap`, `published-objectives`, `target-transforms`: recipes fitted on other labels."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from deepval.cells.relabelled import judged_on_labels
from deepval.cli import options
from deepval.cli.analysing import shown
from deepval.cli.analysing.shown import Form, Out, Shown
from deepval.cli.options import Alphas, DrawNumber, Json, Seed
from deepval.judging.budgets import Selection

LEVELS = (0.1, 0.2, 0.3, 0.5)
Relabelled = Annotated[
    list[Path],
    typer.Argument(
        help="Cells: recipes are fitted on their training and validation units and judged on their test units. Or "
        "results (.json) whose allocators are named 'RECIPE on LABEL'."
    ),
]
Recipes = Annotated[
    list[str] | None,
    typer.Option("--allocator", "-a", help="Recipe to fit on every label. Repeatable. Default: the paper's."),
]


def objective_swap(
    cells: Relabelled,
    *,
    allocator: Recipes = None,
    alpha: Alphas = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Fit the same recipes on decision value and on perception gains, and compare them: pooled, and wins counted.

    Example: deepval analyse objective-swap cells/braking-monocular cells/braking-oracle -a gate-ridge -a gate-gbm
    """
    from deepval.analyses import objective_swap as analysis

    _run(analysis, "objective-swap", cells, allocator, alpha, draws, seed, Shown.of(form, json=json, out=out))


def published_objectives(
    cells: Relabelled,
    *,
    allocator: Recipes = None,
    alpha: Alphas = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Fit routers on decision value, on ORIC's reward and on AP-swap: wins against random, and over each other.

    Example: deepval analyse published-objectives cells/braking-monocular -a router-gbm-value -a router-gbm-binary
    """
    from deepval.analyses import published_objectives as analysis

    _run(analysis, "published-objectives", cells, allocator, alpha, draws, seed, Shown.of(form, json=json, out=out))


def target_transforms(
    cells: Relabelled,
    *,
    allocator: Recipes = None,
    alpha: Alphas = None,
    draws: DrawNumber = "1000",
    seed: Seed = 0,
    form: Form = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Fit routers on V, its rank, its signed CDF and on published objectives, and compare any two of them.

    Example: deepval analyse target-transforms cells/braking-monocular cells/braking-oracle -a router-gbm-value
    """
    from deepval.analyses import target_transforms as analysis

    _run(analysis, "target-transforms", cells, allocator, alpha, draws, seed, Shown.of(form, json=json, out=out))


def _run(
    analysis: ModuleType,
    name: str,
    paths: Sequence[Path],
    allocators: Sequence[str] | None,
    alpha: Sequence[float] | None,
    draws: str,
    seed: int,
    told: Shown,
) -> None:
    from deepval.allocators import recipe_named

    recipes = [recipe_named(each) for each in allocators or analysis.RECIPES]
    for recipe in recipes:
        for label in analysis.LABELS:
            label.target(recipe)
    alphas = [Selection(each).alpha for each in alpha or LEVELS]
    number, start = options.draws(draws), options.at_least(seed, 0, "--seed")
    found, built = shown.results_and_cells(paths)
    judged = judged_on_labels(
        built,
        recipes,
        analysis.LABELS,
        alphas=alphas,
        by=f"analyse {name}",
        draws=number,
        seed=start,
        watch=options.watch,
    )
    rows = analysis.rows(found | dict(judged))
    if told.form in ("csv", "json"):
        told.tell(rows, analysis.table)
    else:
        told.tell_parts({}, analysis.tables(rows))
