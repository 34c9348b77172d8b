"""A judged budget -> what a router of one score needs to keep to it.

A router has no purse: it decides input by input, by a threshold that keeps a rate.
Where inputs have prices of their own, the rate is the share of the inputs that the
money buys.
"""

from deepval.basics.errors import InputError, argument, suggestion
from deepval.judge.allowances import Budget, Selection
from deepval.judge.answers.blind import OnTop
from deepval.judge.extras.recovery import Fresh
from deepval.judge.results import Result
from deepval.judge.tables.values import ValueTable


def check_base(table: ValueTable, base: str) -> None:
    """Raise unless the base is a mode between the cheap and the dearest one."""
    between = table.modes[1:-1]
    if base not in between:
        raise InputError(
            f"{argument('base')} must be a mode between the cheap and the dearest one, "
            f"{', '.join(between) or 'of which there is none'}; found {base!r}"
            f"{suggestion(base, between)}"
        )


def routed(
    result: Result, table: ValueTable, budget: Budget, base: str | None
) -> tuple[ValueTable, Budget]:
    """The table of the modes that the router can reach, and the budget that it keeps.

    Args:
        result: The judgement of one score under the budget, fresh from evaluate().
        table: What was judged.
        budget: The budget.
        base: The mode that runs where the score is low; None for the cheap one.
    """
    fresh = result.fresh
    assert isinstance(fresh, Fresh)
    if base is not None:
        return _on_base(fresh, table, base)
    if not fresh.rankings:
        return table, budget
    # The score is one per input, so it reaches the cheap and the dearest mode alone.
    ends = table.with_modes([table.modes[0], table.modes[-1]])
    if not fresh.allowances[0].per_input:
        return ends, budget
    # One score was judged, so one row has an answer.
    (row,) = [row for row in result.rows if row.answer is not None]
    if row.escalated is None or not row.escalated > 0:
        raise InputError(
            f"{row.allocator}: the budget must buy an escalation; {row.label} buys "
            "none."
        )
    return ends, Selection(row.escalated / row.inputs)


def _on_base(fresh: Fresh, table: ValueTable, base: str) -> tuple[ValueTable, Budget]:
    """The same for a score on top of a better mode than the cheap one."""
    if not fresh.rankings:
        raise InputError(
            f"{argument('base')} needs one score per input; found one per mode."
        )
    policy = OnTop(fresh.rankings[0], base)
    outcome = policy.outcomes(fresh.bootstrap, [fresh.allowances[0]])[0]
    if outcome.gains is None:
        raise InputError(
            f"{argument('base', base)}: the budget must pay for it on every input, and "
            "charge the mode that runs (skipping); it does not: raise "
            f"{argument('alpha')}."
        )
    share = float(outcome.gains.escalated[0] / fresh.bootstrap.inputs[0])
    return table.with_modes([base, table.modes[-1]]), Selection(share)
