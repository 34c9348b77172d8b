"""Cells of several consumers -> what a router for one is worth to another:
docs/definitions.md, Seeds and transfer.

Only cells that share a data set and a geometry are paired, because only there a router
sees the same views.

What a router fitted for one consumer is worth to another, and its regret against one
fitted there.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from deepval.basics.errors import InputWarning, NothingToLearnError
from deepval.deploy.allocators import Recipe, recipe_by_name
from deepval.deploy.fitting import fit_on, score_on
from deepval.judge.allowances import LEVELS, Selection
from deepval.judge.cases import judge
from deepval.judge.report.text_tables import number
from deepval.judge.results import HEADLINE
from deepval.judge.tables.keys import positions
from deepval.paper.analysis import Analysis, Summary
from deepval.paper.columns import ALLOCATOR
from deepval.paper.study import Cell, watched
from deepval.paper.tidy import Column, Dots, Row, count, level, or_nothing, share

WITHOUT_EXTRAS = (
    *(
        "gate-ridge",
        "gate-gbm",
        "gate-gbm-memory",
        "router-mlp-value",
        "router-mlp-binary",
        "router-gbm-value",
    ),
    *("router-gbm-binary", "router-two-head", "router-recall"),
)
"""Recipes that need no optional library and give one score per input."""


COLUMNS = (
    ALLOCATOR,
    Column("source", "Cell on which it was fitted", heading="fitted on"),
    Column("target", "Cell on which it is judged", heading="judged on"),
    Column("alpha", "Share of inputs that may be escalated"),
    Column(
        "coverage",
        "Share of the judged inputs that it scores; the others are ranked last",
        heading="coverage",
        text=share,
    ),
    Column(
        "common",
        "Share of the judged inputs that the source cell can judge too",
        heading="in common",
        text=share,
    ),
    Column("ndg", "Its nDG; None if undefined", heading="nDG", text=number),
    Column(
        "regret",
        "Its nDG less that of the router fitted on the target, if any",
        heading="regret",
        text=number,
    ),
    Column("verdict", "Verdict against random", heading="verdict", text=or_nothing),
)
"""One allocator fitted on one cell and judged on the test units of another, or of
its own.
"""


TRANSFER_COUNTS_COLUMNS = (
    Column(
        "entries",
        "Entries that count: all, or those whose allocator scores every judged input",
        heading="entries",
    ),
    Column(
        "transfers",
        "Entries of another cell's allocator, over all budgets",
        heading="transfers",
        text=count,
    ),
    Column("regret", "Median of their regrets", heading="median regret", text=number),
    Column("alpha", "Share at which wins are counted", heading="wins at", text=level),
    Column("others", "Transferred entries at this share"),
    Column(
        "others_better",
        "Transferred entries that beat random",
        heading="transferred",
        text_of_row=lambda row: f"{row['others_better']} of {row['others']}",
    ),
    Column(
        "own", "Entries at this share whose allocator was fitted on the judged cell"
    ),
    Column(
        "own_better",
        "Those that beat random",
        heading="own",
        text_of_row=lambda row: f"{row['own_better']} of {row['own']}",
    ),
)
"""Transferred allocators over all budgets, and how many of them beat random at
one.
"""


def rows(
    cells: Sequence[Cell],
    recipes: Iterable[str | Recipe] = WITHOUT_EXTRAS,
    *,
    alphas: Iterable[float] = LEVELS,
    draws: int = 1000,
) -> Iterator[Row]:
    """Every recipe, fitted on every cell and judged on every cell with the same
    views.
    """
    recipe_list = [
        recipe_by_name(recipe) if isinstance(recipe, str) else recipe
        for recipe in recipes
    ]
    names = [recipe.name for recipe in recipe_list]
    budgets = [Selection(alpha) for alpha in alphas]
    fitted = {}
    for cell in watched(cells, "fitting"):
        for recipe in recipe_list:
            try:
                fitted[recipe.name, cell.name] = fit_on(cell.cell, recipe)
            except NothingToLearnError as error:
                sentence = f"{cell.name}, left out: {error}"
                warnings.warn(sentence, InputWarning, stacklevel=2)
    inputs_by_name = {cell.name: cell.cell.table.input for cell in cells}
    for at in watched(cells, "judging"):
        target = at.name
        cell = at.cell
        sources = [other.name for other in cells if other.shares_perception_with(at)]
        scored = {
            (r, s): score_on(cell, fitted[r, s])
            for r in names
            for s in sources
            if (r, s) in fitted
        }
        scores = {
            f"{recipe} of {source}": item.over(cell.table)
            for (recipe, source), item in scored.items()
        }
        result = judge(
            cell, scores, budgets, command=None, draws=draws, missing="worst"
        )
        for (recipe, source), item in scored.items():
            for budget in budgets:
                row = result.row(f"{recipe} of {source}", "selection", budget.alpha)
                is_fitted = (recipe, target) in scored
                own = (
                    result.row(f"{recipe} of {target}", "selection", budget.alpha).ndg
                    if is_fitted
                    else None
                )
                regret = None if row.ndg is None or own is None else row.ndg - own
                common = float(
                    (positions(cell.table.input, inputs_by_name[source]) >= 0).mean()
                )
                yield {
                    "allocator": recipe,
                    "source": source,
                    "target": target,
                    "alpha": budget.alpha,
                    "coverage": item.coverage,
                    "common": common,
                    "ndg": row.ndg,
                    "regret": regret,
                    "verdict": row.verdict,
                }


def wins(rows: Sequence[Row]) -> int:
    """The number of rows that beat random."""
    return sum(row["verdict"] == "better" for row in rows)


def over_cells(rows: Sequence[Row]) -> Iterator[Row]:
    """All entries, then those whose allocator scores every judged input."""
    at = min(
        (row["alpha"] for row in rows),
        key=lambda alpha: (round(abs(alpha - HEADLINE), 9), alpha),
        default=HEADLINE,
    )
    for name, among in (
        ("all", rows),
        ("fully covered", [row for row in rows if row["coverage"] == 1]),
    ):
        moved = [row for row in among if row["source"] != row["target"]]
        regrets = [row["regret"] for row in moved if row["regret"] is not None]
        there = [row for row in moved if row["alpha"] == at]
        own = [
            row
            for row in among
            if row["source"] == row["target"] and row["alpha"] == at
        ]
        yield {
            "entries": name,
            "transfers": len(moved),
            "regret": median(regrets) if regrets else None,
            "alpha": at,
            "others": len(there),
            "others_better": wins(there),
            "own": len(own),
            "own_better": wins(own),
        }


TRANSFER = Analysis(
    name="transfer",
    shows="Judge routers on another consumer",
    see="definitions.md#seeds-and-transfer",
    paper="transfer with coverage",
    example="cells/braking-monocular cells/receding-horizon-monocular -a gate-ridge",
    by="view",
    least=2,
    judges=True,
    names="path",
    details=(
        "What a router fitted for one consumer is worth to another, and its regret "
        "against one fitted there."
    ),
    rows=rows,
    columns=COLUMNS,
    title="Transfer between consumers",
    over_cells=Summary(
        over_cells,
        TRANSFER_COUNTS_COLUMNS,
        "Transfer over all budgets, and wins against random",
        notes=lambda rows: [
            "Descriptive counts over dependent entries. better: than random, at 95 %; "
            "own: fitted where it is judged."
        ],
    ),
    charts=[
        Dots(
            "nDG less that of the router fitted there",
            {"{allocator}": "regret"},
            label="{source} for {target}, {alpha:.0%}",
            percent=False,
            line=0.0,
            where=lambda row: row["source"] != row["target"],
        )
    ],
)
