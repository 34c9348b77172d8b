"""`deepval analyse objective-swap`, `published-objectives`, `target-transforms`: recipes fitted on other labels."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from deepval.cells.label_fits import judged_on_labels
from deepval.cli import options
from deepval.cli.analysing.shown import Cells, Shown
from deepval.cli.groups import Drawn
from deepval.cli.several import Several
from deepval.judging.budgets import Selection

LEVELS = (0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class Relabelled(Cells):
    """Cells on which recipes are fitted, or results of such fits."""

    cells: Annotated[
        list[Path],
        typer.Argument(
            help="Cells: recipes are fitted on their training and validation units and judged on their test units. Or "
            "results (.json) whose allocators are named 'RECIPE on LABEL'."
        ),
    ]


@dataclass(frozen=True)
class Fits(Several):
    """What is fitted on every label, and the budgets that it is judged under."""

    allocator: Annotated[
        list[str] | None,
        typer.Option("--allocator", "-a", help="Recipe to fit on every label. Repeatable. Default: the paper's."),
    ] = None
    alpha: options.Alphas = None


def objective_swap(sources: Relabelled, *, fits: Fits, drawn: Drawn, output: Shown) -> None:
    """Fit the same recipes on decision value and on perception gains, and compare them: pooled, and wins counted.

    Example: deepval analyse objective-swap cells/braking-monocular cells/braking-oracle -a gate-ridge -a gate-gbm
    """
    from deepval.paper.analyses import objective_swap as analysis

    _run(analysis, "objective-swap", sources, fits=fits, drawn=drawn, output=output)


def published_objectives(sources: Relabelled, *, fits: Fits, drawn: Drawn, output: Shown) -> None:
    """Fit routers on decision value, on ORIC's reward and on AP-swap: wins against random, and over each other.

    Example: deepval analyse published-objectives cells/braking-monocular -a router-gbm-value -a router-gbm-binary
    """
    from deepval.paper.analyses import published_objectives as analysis

    _run(analysis, "published-objectives", sources, fits=fits, drawn=drawn, output=output)


def target_transforms(sources: Relabelled, *, fits: Fits, drawn: Drawn, output: Shown) -> None:
    """Fit routers on V, its rank, its signed CDF and on published objectives, and compare any two of them.

    Example: deepval analyse target-transforms cells/braking-monocular cells/braking-oracle -a router-gbm-value
    """
    from deepval.paper.analyses import target_transforms as analysis

    _run(analysis, "target-transforms", sources, fits=fits, drawn=drawn, output=output)


def _run(analysis: ModuleType, name: str, sources: Relabelled, *, fits: Fits, drawn: Drawn, output: Shown) -> None:
    from deepval.allocators import recipe_named

    recipes = [recipe_named(item) for item in fits.allocator or analysis.RECIPES]
    for recipe in recipes:
        for label in analysis.LABELS:
            label.target(recipe)
    alphas = [Selection(item).alpha for item in fits.alpha or LEVELS]
    saved, built = sources.judged()
    judged = judged_on_labels(
        built,
        recipes,
        analysis.LABELS,
        alphas=alphas,
        by=f"analyse {name}",
        **drawn.settings,
        watch=options.watch,
    )
    rows = analysis.rows(saved | dict(judged))
    if output.chosen in ("csv", "json"):
        output.tell(rows, analysis.table)
    else:
        output.tell_parts({}, analysis.tables(rows))
