"""Results of routers fitted on decision value and on published objectives -> how often each wins, and over the other.

ORIC's offloading reward and AP-swap are what published detector routers learn (docs/definitions.md, ORIC reward,
AP-swap); the routers here are ours, so it is the objectives that are judged and not the published methods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.cells.label_fits import CLASSIFIERS, PUBLISHED, REGRESSORS, VALUE
from deepval.paper.analyses.contrasts import Contrast, cell_table, contrasts, pooled_chart, pooled_table, single
from deepval.report.charts import Chart
from deepval.report.table import Table, lines_of
from deepval.results import Result

LABELS = (VALUE, *PUBLISHED)
"""What recipes are fitted on."""
RECIPES = (*REGRESSORS, *CLASSIFIERS)
"""The paper's detection-list routers; its fifth architecture, the pixel router, needs pictures and an extra."""
ROUTERS = "all"


@dataclass(frozen=True)
class ObjectiveCount:
    """Cells and budgets in which a recipe wins when fitted on a published objective, and on decision value.

    Attributes:
        label: The published objective.
        recipe: The recipe, or `all`.
        combinations: Cells times budgets (times recipes).
        wins: Those in which it beats random when fitted on the objective.
        decision_wins: When fitted on decision value.
        only: It beats random on the objective and not on decision value.
        only_decision: The reverse.
        ahead: The objective is ahead of decision value: the paired interval lies above 0.
        behind: Below 0.
    """

    label: str
    recipe: str
    combinations: int
    wins: int
    decision_wins: int
    only: int
    only_decision: int
    ahead: int
    behind: int


def rows(results: Mapping[str, Result]) -> list[Contrast]:
    """Per recipe, objective and budget: the mean over cells, then every cell; the objective less decision value."""
    return contrasts(results, [(label.name, VALUE.name) for label in PUBLISHED])


def counts(rows: Sequence[Contrast]) -> list[ObjectiveCount]:
    """One row per published objective for all recipes together, then for each."""
    found = []
    for label in dict.fromkeys(row.label for row in rows):
        own = [row for row in single(rows) if row.label == label]
        names = dict.fromkeys(row.recipe for row in own)
        groups = {ROUTERS: own} | {name: [row for row in own if row.recipe == name] for name in names}
        found += [_count(label, name, members) for name, members in groups.items()]
    return found


def _count(label: str, recipe: str, members: Sequence[Contrast]) -> ObjectiveCount:
    won = [(row.versus_random == "better", row.against_versus_random == "better") for row in members]
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


def table(rows: Sequence[Contrast]) -> Table:
    """The counts as a table, with the rows in which one of the two beats random and the other does not."""
    header = ("objective", "recipe", "of", "wins", "value wins", "only it", "only value", "ahead", "behind")
    found = counts(rows)
    texts = [
        (
            *(row.label, row.recipe),
            *map(str, (row.combinations, row.wins, row.decision_wins, row.only, row.only_decision)),
            *map(str, (row.ahead, row.behind)),
        )
        for row in found
    ]
    every = [row for row in found if row.recipe == ROUTERS]
    notes = (
        "of: cells times budgets. wins: better than random; value: the same recipe fitted on decision value. ahead, "
        "behind: of the same recipe on decision value, by the paired interval of the gain.",
        f"Of {sum(row.combinations for row in every)} rows a published objective alone beats random in "
        f"{sum(row.only for row in every)}, decision value alone in {sum(row.only_decision for row in every)}.",
    )
    return Table("Published routing objectives against decision value", header, lines_of(texts), notes)


def tables(rows: Sequence[Contrast]) -> list[Table]:
    """The counts, the means over cells, then the cells."""
    title = "Published objectives less decision value"
    return [table(rows), pooled_table(title, rows), cell_table(f"{title}, cell by cell", rows)]


def chart(rows: Sequence[Contrast]) -> Chart:
    """The means over cells at the headline budget."""
    return pooled_chart(rows)
