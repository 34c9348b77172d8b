"""Results of routers fitted on decision value and on published objectives -> wins over
random, and over each other.

ORIC's offloading reward and AP-swap are what published detector routers learn
(docs/definitions.md, ORIC reward, AP-swap). The routers here are ours, so the
objectives are judged, not the published methods.

The same routers fitted on decision value, on ORIC's reward and on AP-swap: wins against
random, discordant rows, and rows significantly ahead and behind.
"""

from collections.abc import Sequence

from deepval.judge.report.text_tables import Table
from deepval.paper.analyses import contrasts
from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, of_each
from deepval.paper.tidy import Column, Row, printed

LABELS = (contrasts.VALUE, *contrasts.PUBLISHED)
"""What recipes are fitted on."""
RECIPES = (*contrasts.REGRESSORS, *contrasts.CLASSIFIERS)
"""The paper's detection-list routers; its fifth architecture, the pixel router, needs
pictures and an extra.
"""
ROUTERS = "all"


COUNTS = (
    Column("label", heading="objective"),
    Column("recipe", heading="recipe"),
    # Cells times budgets, and for all recipes times recipes.
    Column("combinations", heading="of"),
    Column("wins", heading="wins"),
    Column("decision_wins", heading="value wins"),
    Column("only", heading="only it"),
    Column("only_decision", heading="only value"),
    Column("ahead", heading="ahead"),
    Column("behind", heading="behind"),
)
"""Cells and budgets in which a recipe wins when fitted on a published objective, and on
decision value.
"""


def rows(cells: Sequence[Cell]) -> list[Row]:
    """Per recipe, objective and budget: the objective less decision value, as the mean
    over cells, then by cell.
    """
    results = of_each(cells, "relabelled")
    pairs = [(label.name, contrasts.VALUE.name) for label in contrasts.PUBLISHED]
    return contrasts.label_contrasts(results, pairs)


def counts(rows: Sequence[Row]) -> list[Row]:
    """One row per published objective for all recipes together, then for each."""
    records = []
    for label in dict.fromkeys(row["label"] for row in rows):
        own = [row for row in contrasts.single(rows) if row["label"] == label]
        names = dict.fromkeys(row["recipe"] for row in own)
        groups = {ROUTERS: own} | {
            name: [row for row in own if row["recipe"] == name] for name in names
        }
        records += [_count(label, name, members) for name, members in groups.items()]
    return records


def _count(label: str, recipe: str, members: Sequence[Row]) -> Row:
    won = [
        (row["versus_random"] == "better", row["against_versus_random"] == "better")
        for row in members
    ]
    return {
        "label": label,
        "recipe": recipe,
        "combinations": len(members),
        "wins": sum(one for one, _ in won),
        "decision_wins": sum(other for _, other in won),
        "only": sum(one and not other for one, other in won),
        "only_decision": sum(other and not one for one, other in won),
        "ahead": sum(row["verdict"] == "better" for row in members),
        "behind": sum(row["verdict"] == "worse" for row in members),
    }


def table(rows: Sequence[Row]) -> Table:
    """The counts as a table, with the rows in which one of the two beats random and the
    other does not.
    """
    records = counts(rows)
    every = [row for row in records if row["recipe"] == ROUTERS]
    notes = (
        "of: cells times budgets. wins: better than random; value: the same recipe "
        "fitted on decision value. ahead, behind: of the same recipe on decision "
        "value, by the paired interval of the gain.",
        f"Of {sum(row['combinations'] for row in every)} rows a published objective "
        "alone beats random "
        f"in {sum(row['only'] for row in every)}, decision "
        f"value alone in {sum(row['only_decision'] for row in every)}.",
    )
    return printed(
        "Published routing objectives against decision value",
        COUNTS,
        records,
        notes=notes,
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """The counts, the means over cells, then the cells."""
    title = "Published objectives less decision value"
    return [
        table(rows),
        contrasts.pooled_table(title, rows),
        contrasts.cell_table(f"{title}, cell by cell", rows),
    ]


PUBLISHED_OBJECTIVES = Analysis(
    name="published-objectives",
    details=(
        "The same routers fitted on decision value, on ORIC's reward and on AP-swap: "
        "wins "
        "against random, discordant rows, and rows significantly ahead and behind."
    ),
    rows=rows,
    tables=tables,
    shows="Compare fits on published objectives",
    paper="published routing objectives",
    example="cells/braking-monocular -a router-gbm-value -a router-gbm-binary",
    **contrasts.ON_LABELS,
    recipes=RECIPES,
    labels=LABELS,
)
