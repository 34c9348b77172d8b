"""Results of recipes fitted on decision value and on perception gains -> what training
on decision value is worth.

Architecture, inputs, settings and fit units stay the same; only the label is swapped.
Above 0, decision value is ahead.

The same allocators fitted on decision value and on perception gains (E1, E5, E8):
paired differences by cell and pooled, and wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from deepval.judge.report.text_tables import Table
from deepval.judge.results import BudgetKey, lists_by_key
from deepval.paper.analyses import contrasts
from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Row

LABELS = (contrasts.VALUE, *contrasts.GAINS)
"""The labels that recipes are fitted on."""
RECIPES = (*contrasts.GATES, *contrasts.REGRESSORS, *contrasts.CLASSIFIERS)
"""The paper's six architectures."""


@dataclass(frozen=True)
class SwapCount:
    """Under one budget, pairs of cell and recipe in which either label wins.

    Attributes:
        label: The perception gain.
        budget: The budget.
        pairs: Pairs that are compared.
        decision: Pairs in which decision value is ahead: its paired interval lies
            above 0.
        perception: Pairs in which the perception gain is ahead.
    """

    label: str
    budget: BudgetKey
    pairs: int
    decision: int
    perception: int


def rows(cells: Sequence[Cell]) -> list[Row]:
    """Per recipe, perception gain and budget: decision value less the gain, as the mean
    over cells, then by cell.
    """
    results = of_each(cells, "relabelled")
    pairs = [(contrasts.VALUE.name, gain.name) for gain in contrasts.GAINS]
    return contrasts.label_contrasts(results, pairs)


def counts(rows: Sequence[Row]) -> list[SwapCount]:
    """One row per perception gain and budget."""
    met = lists_by_key(
        ((row["against"], BudgetKey.of(row)), row["verdict"])
        for row in contrasts.single(rows)
    )
    return [
        SwapCount(
            label,
            budget,
            pairs=len(won),
            decision=won.count("better"),
            perception=won.count("worse"),
        )
        for (label, budget), won in met.items()
    ]


def table(rows: Sequence[Row]) -> Table:
    """The means over cells, and how often either label wins."""
    notes = [
        f"{count.budget.label}: of {count.pairs} pairs of cell and recipe, decision "
        f"value is ahead in {count.decision} and {count.label} in {count.perception}."
        for count in counts(rows)
    ]
    return contrasts.pooled_table(
        "Training on decision value or on perception gain", rows, notes
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """The means over cells, then the cells."""
    return [
        table(rows),
        contrasts.cell_table(
            "Training on decision value or on perception gain, cell by cell", rows
        ),
    ]


OBJECTIVE_SWAP = Analysis(
    name="objective-swap",
    details=(
        "The same allocators fitted on decision value and on perception gains (E1, "
        "E5, E8): "
        "paired differences by cell and pooled, and wins."
    ),
    rows=rows,
    tables=tables,
    shows="Compare fits on decision value and perception gain",
    paper="training on perception gain",
    example="cells/braking-monocular cells/braking-oracle -a gate-ridge -a gate-gbm",
    **contrasts.ON_LABELS,
    recipes=RECIPES,
    labels=LABELS,
)
