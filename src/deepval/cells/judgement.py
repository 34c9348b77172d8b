"""Scores and a cell or values file -> a Result: the one way to judge scores on a cell.

The table lists every unit of the cell's split, so that cells of a data set share their draws. Test units are judged
unless others are named, and a judgement on test units is noted in the cell's ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepval.cells.evaluation_data import EvaluationData, note
from deepval.cells.spec import units_of
from deepval.judging.budgets import Budget
from deepval.judging.draws import seeds_by_units
from deepval.judging.evaluation import evaluate
from deepval.results import Result
from deepval.tables.costs import Costs
from deepval.tables.scores import Missing, Scores

if TYPE_CHECKING:
    from deepval.cells.fitting import Scored
    from deepval.cells.folder import BuiltCell


def case_of(cell: "BuiltCell", costs: Costs | None = None) -> EvaluationData:
    """A built cell as the data to judge scores on; with other costs than its own, if any."""
    table = cell.listed if costs is None else replace(cell.listed, costs=costs)
    return EvaluationData(cell.folder, table, cell, own_costs=costs is None)


def shared_seeds(cells: "Mapping[str, BuiltCell]", seed: int, *, units: str = "test") -> dict[str, int]:
    """Per cell, the seed of its draws: cells with the same units of this role share it."""
    return seeds_by_units({name: units_of(cell.split, units) for name, cell in cells.items()}, seed)


def judge(
    case: "EvaluationData | BuiltCell",
    scores: "Mapping[str, Scores | Scored]",
    budgets: Sequence[Budget] | None = None,
    *,
    command: str | None,
    units: Sequence[str] | None = None,
    plan: str | None = None,
    missing: Missing = "error",
    **settings: Any,
) -> Result:
    """The judgement of scores on a cell or a values file.

    Args:
        case: A built cell, or the data of `read_evaluation_data` or `case_of`.
        scores: Scores by allocator.
        budgets: Budgets; selection at the default levels where None.
        command: Command that judges, for the ledger; None leaves the ledger as it is.
        units: Units by name; where None, the test units of a cell and all units of a values file.
        plan: SHA-256 of the preregistered plan, for the ledger.
        missing: Whether an input without a score is an error or ranked last ("worst"); where it is an error, allocators
            without any score are left out.
        settings: More arguments of `evaluate`: draws, seed, calibration, by, missing_costs, terms, watch and so on.
    """
    case = case if isinstance(case, EvaluationData) else case_of(case)
    if units is None and case.cell is not None:
        units = list(case.cell.split.test)
    aligned = {
        name: item if isinstance(item, Scores) else item.over(case.table)
        for name, item in scores.items()
        if isinstance(item, Scores) or len(item.input) or missing == "worst"
    }
    result = evaluate(case.table, aligned, budgets, units=units, missing=missing, **settings)
    if command is not None and case.cell is not None:
        note(case.cell, by=command, units=units, scores=aligned, plan=plan)
    return result
