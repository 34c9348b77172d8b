"""A test of scores: two scores and a table of losses -> nothing, or an AssertionError
with the numbers.

def test_router_is_not_worse():
    deepval.testing.assert_not_worse("new.csv", "old.csv", "values.csv", budgets=0.2)
"""

from collections.abc import Iterable
from typing import Any

from deepval.basics import checks
from deepval.judge.allowances import Budget
from deepval.judge.evaluation import evaluate
from deepval.judge.pairs import ComparisonRow, compare
from deepval.judge.report.gate import GATES, Gate, GateName


def assert_not_worse(
    new: Any,
    old: Any,
    values: Any,
    *,
    budgets: Budget | float | Iterable[Budget | float] | None = None,
    fail_if: GateName = "worse",
    **options: Any,
) -> tuple[ComparisonRow, ...]:
    """Assert that new scores are not worse than old ones under any budget, by the
    paired interval over units.

    The check of `deepval compare --fail-if`. The message of a failure states the
    difference and its interval.

    Args:
        new: Scores of the candidate: an array in the order of the table, or anything
            else that `evaluate` takes.
        old: Scores of the baseline, likewise.
        values: A `ValueTable`, or anything that `read_values` reads.
        budgets: As in `evaluate`; None means selection budgets of 10, 20, 30 and 50 %.
        fail_if: `worse`: fail if the whole interval favours the old scores;
            `not-better`: fail unless all of it favours the new ones.
        options: Further arguments of `evaluate`, such as `units`, `modes`, `draws` and
            `seed`.

    Returns:
        The comparison under each budget.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    checks.word(fail_if, GATES, "fail_if")
    result = evaluate(
        values, {"new": new, "old": old}, budgets, thresholds=False, **options
    )
    rows = compare(result, "new", "old")
    gate = Gate(fail_if, rows)
    if gate.failures:
        raise AssertionError(gate.sentence)
    return rows
