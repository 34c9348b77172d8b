"""Scores of allocators -> policies on a table, between the references.

A column `score` ranks the inputs. Columns `score_<mode>` are an estimate of the value
of each mode. A column `choice` names the mode that a router runs.
"""

from collections.abc import Sequence

from deepval.judge.allowances import Allowance, with_distinct_shares
from deepval.judge.policies import Always, Never, Oracle, Policy, Random, Ranking
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.values import ValueTable


def policy_of(table: ValueTable, scores: Scores) -> Policy:
    """What an allocator's scores do on a table."""
    if not scores.choice and not scores.modes:
        return Ranking.of(table, scores)
    # Plans are loaded only where something chooses among modes.
    from deepval.judge.ladders import Choice, Plan, references_among

    references = references_among(table.modes)
    if scores.choice:
        return Choice(scores.name, scores.chosen, references)
    return Plan(scores.name, scores.values, references)


def all_policies(table: ValueTable, allocators: Sequence[Policy]) -> list[Policy]:
    """The allocators between the references, in the order of the rows of a result."""
    oracle = Oracle.of(table)
    if len(table.modes) == 2:
        return [Random(), Never(), Always(), *allocators, oracle]
    from deepval.judge.ladders import OracleLadder, RandomLadder

    return [
        Random(),
        RandomLadder(),
        Never(),
        Always(),
        *allocators,
        oracle,
        OracleLadder(),
    ]


def own_allowances(
    table: ValueTable, allocators: Sequence[Policy], allowances: Sequence[Allowance]
) -> list[Allowance]:
    """For every router that names modes itself, the budgets that it spends."""
    routers = [one for one in allocators if one.has_own_budget]
    if not routers:
        return []
    from deepval.judge.ladders import Choice

    own = []
    for router in routers:
        assert isinstance(router, Choice)
        for allowance in first_of_each_kind(allowances):
            spent = router.own_allowance(allowance, table)
            if spent is not None:
                own.append(spent)
    return with_distinct_shares(own, allowances)


def first_of_each_kind(allowances: Sequence[Allowance]) -> list[Allowance]:
    """The first allowance of each kind of budget."""
    first: dict[object, Allowance] = {}
    for allowance in allowances:
        kind = (allowance.budget.kind, allowance.convention, allowance.accounting)
        first.setdefault(kind, allowance)
    return list(first.values())
