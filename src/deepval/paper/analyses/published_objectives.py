"""Results of routers fitted on decision value and on published objectives -> wins over
random, and over each other.

ORIC's offloading reward and AP-swap are what published detector routers learn
(docs/definitions.md, ORIC reward, AP-swap). The routers here are ours, so the
objectives are judged, not the published methods.

The same routers fitted on decision value, on ORIC's reward and on AP-swap: wins against
random, discordant rows, and rows significantly ahead and behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.paper.analyses import contrasts
from deepval.paper.analysis import declare
from deepval.paper.row_columns import column, declared_table
from deepval.report.text_tables import Table
from deepval.results import Result

LABELS = (contrasts.VALUE, *contrasts.PUBLISHED)
"""What recipes are fitted on."""
RECIPES = (*contrasts.REGRESSORS, *contrasts.CLASSIFIERS)
"""The paper's detection-list routers; its fifth architecture, the pixel router, needs
pictures and an extra.
"""
ROUTERS = "all"


@dataclass(frozen=True)
class ObjectiveCount:
    """Cells and budgets in which a recipe wins when fitted on a published objective,
    and on decision value.
    """

    label: str = column("The published objective", "objective")
    recipe: str = column("The recipe, or `all`", "recipe")
    combinations: int = column("Cells times budgets, times recipes for `all`", "of")
    wins: int = column(
        "Combinations in which it beats random when fitted on the objective", "wins"
    )
    decision_wins: int = column(
        "Combinations in which it beats random when fitted on decision value",
        "value wins",
    )
    only: int = column(
        "Combinations in which it beats random on the objective "
        "and not on decision value",
        "only it",
    )
    only_decision: int = column(
        "Combinations in which it beats random on decision "
        "value and not on the objective",
        "only value",
    )
    ahead: int = column(
        "Combinations in which the paired interval of objective "
        "less decision value is above 0",
        "ahead",
    )
    behind: int = column("Combinations in which the interval is below 0", "behind")


def rows(results: Mapping[str, Result]) -> list[contrasts.Contrast]:
    """Per recipe, objective and budget: the objective less decision value, as the mean
    over cells, then by cell.
    """
    return contrasts.label_contrasts(
        results, [(label.name, contrasts.VALUE.name) for label in contrasts.PUBLISHED]
    )


def counts(rows: Sequence[contrasts.Contrast]) -> list[ObjectiveCount]:
    """One row per published objective for all recipes together, then for each."""
    records = []
    for label in dict.fromkeys(row.label for row in rows):
        own = [row for row in contrasts.single(rows) if row.label == label]
        names = dict.fromkeys(row.recipe for row in own)
        groups = {ROUTERS: own} | {
            name: [row for row in own if row.recipe == name] for name in names
        }
        records += [_count(label, name, members) for name, members in groups.items()]
    return records


def _count(
    label: str, recipe: str, members: Sequence[contrasts.Contrast]
) -> ObjectiveCount:
    won = [
        (row.versus_random == "better", row.against_versus_random == "better")
        for row in members
    ]
    return ObjectiveCount(
        label=label,
        recipe=recipe,
        combinations=len(members),
        wins=sum(one for one, _ in won),
        decision_wins=sum(other for _, other in won),
        only=sum(one and not other for one, other in won),
        only_decision=sum(other and not one for one, other in won),
        ahead=sum(row.verdict == "better" for row in members),
        behind=sum(row.verdict == "worse" for row in members),
    )


def table(rows: Sequence[contrasts.Contrast]) -> Table:
    """The counts as a table, with the rows in which one of the two beats random and the
    other does not.
    """
    records = counts(rows)
    every = [row for row in records if row.recipe == ROUTERS]
    notes = (
        "of: cells times budgets. wins: better than random; value: the same recipe "
        "fitted on decision value. ahead, behind: of the same recipe on decision "
        "value, by the paired interval of the gain.",
        f"Of {sum(row.combinations for row in every)} rows a published objective "
        "alone beats random "
        f"in {sum(row.only for row in every)}, decision "
        f"value alone in {sum(row.only_decision for row in every)}.",
    )
    return declared_table(
        ObjectiveCount,
        records,
        "Published routing objectives against decision value",
        notes=notes,
    )


def tables(rows: Sequence[contrasts.Contrast]) -> list[Table]:
    """The counts, the means over cells, then the cells."""
    title = "Published objectives less decision value"
    return [
        table(rows),
        contrasts.pooled_table(title, rows),
        contrasts.cell_table(f"{title}, cell by cell", rows),
    ]


PUBLISHED_OBJECTIVES = declare(
    __name__,
    shows="Compare fits on published objectives",
    paper="published routing objectives",
    example="cells/braking-monocular -a router-gbm-value -a router-gbm-binary",
    **contrasts.ON_LABELS,
    recipes=RECIPES,
    labels=LABELS,
)
