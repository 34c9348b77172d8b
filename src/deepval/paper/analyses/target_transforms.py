"""Results of regressing routers fitted on V, its rank, its signed CDF, published
objectives -> effect of the transform.

Published objectives are used as shares of the fit values and V as it is, so a
difference between them can come from the objective or from the transform. Any two
labels are therefore compared: the later one in the list less the earlier one.

Routers fitted on decision value, its rank, its signed CDF and published objectives:
pooled paired differences between any two.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from deepval.judge.report.charts import at_headline
from deepval.judge.report.figures.gain_figures import heat_map
from deepval.judge.report.text_tables import Table, percent
from deepval.paper.analyses import contrasts
from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Row

LABELS = (contrasts.VALUE, contrasts.RANK, contrasts.SIGNED_CDF, *contrasts.PUBLISHED)
"""The labels that recipes are fitted on."""
RECIPES = contrasts.REGRESSORS
"""The paper's routers that regress."""


def rows(cells: Sequence[Cell]) -> list[Row]:
    """Per recipe that was fitted on a transform, pair of labels and budget: the mean
    over cells, then every cell.
    """
    names = [label.name for label in LABELS]
    results = of_each(cells, "relabelled")
    pairs = [(later, earlier) for earlier, later in combinations(names, 2)]
    records = contrasts.label_contrasts(results, pairs)
    transformed = {
        row["recipe"]
        for row in records
        if {row["label"], row["against"]}
        & {contrasts.RANK.name, contrasts.SIGNED_CDF.name}
    }
    return [row for row in records if row["recipe"] in transformed]


def table(rows: Sequence[Row]) -> Table:
    """The means over cells."""
    return contrasts.pooled_table("Target transform against training objective", rows)


def tables(rows: Sequence[Row]) -> list[Table]:
    """The means over cells, then the cells."""
    return [
        table(rows),
        contrasts.cell_table(
            "Target transform against training objective, cell by cell", rows
        ),
    ]


def figure(rows: Sequence[Row]) -> Any:
    """Difference in nDG from the same recipe on V itself, by cell and recipe, at the
    headline selection budget.
    """
    own = at_headline(
        [
            row
            for row in rows
            if row["against"] == contrasts.VALUE.name and row["kind"] == "selection"
        ]
    )
    entries = {
        (f"{row['recipe']}: {row['cell']}", row["label"]): (
            row["ndg_difference"].value,
            row["ndg_difference"].low is not None
            and row["ndg_difference"].high is not None
            and (row["ndg_difference"].low > 0 or row["ndg_difference"].high < 0),
        )
        for row in own
        if row["ndg_difference"].value is not None
    }
    return heat_map(
        entries, f"nDG less that on V, {percent(own[0]['alpha'], 0) if own else '-'}"
    )


TARGET_TRANSFORMS = Analysis(
    name="target-transforms",
    details=(
        "Routers fitted on decision value, its rank, its signed CDF and published "
        "objectives:"
        " pooled paired differences between any two."
    ),
    rows=rows,
    tables=tables,
    figure=figure,
    shows="Compare fits on transforms of decision value",
    paper="target transform",
    example="cells/braking-monocular cells/braking-oracle -a router-gbm-value",
    **contrasts.ON_LABELS,
    recipes=RECIPES,
    labels=LABELS,
)
