"""Slow twins of `deepval.judge.streaming`: plain loops, from the definitions."""

import math


def frozen_threshold(validation, alpha):
    """(theta, p): tries every validation score from the top."""
    n = len(validation)
    for theta in sorted(validation, reverse=True):
        at_least = sum(s >= theta for s in validation)
        if at_least >= alpha * n - 1e-9:
            above = sum(s > theta for s in validation)
            return theta, min(1.0, (alpha * n - above) / (at_least - above))
    raise AssertionError("alpha is at most 1, so the smallest score always qualifies")


def in_time(unit, order):
    """The rows of each unit in time order; rows with equal order as they stand."""
    return [
        sorted(
            (row for row in range(len(unit)) if unit[row] == u),
            key=lambda row: order[row],
        )
        for u in sorted(set(unit))
    ]


def frozen(scores, theta, p):
    """Sure decisions on one unit's scores."""
    decisions, tied = [], 0
    for s in scores:
        if s == theta:
            tied += 1
            decisions.append(math.floor(tied * p) > math.floor((tied - 1) * p))
        else:
            decisions.append(s > theta)
    return decisions


def causal_cap(scores, theta, p, alpha):
    decisions = []
    for t, wanted in enumerate(frozen(scores, theta, p), start=1):
        decisions.append(
            wanted and sum(decisions) + 1 <= math.floor(1 + alpha * t + 1e-9)
        )
    return decisions


def adaptive(scores, validation, alpha, eta):
    decisions, q = [], 1 - alpha
    for s in scores:
        escalated = sum(v <= s for v in validation) / len(validation) > q
        decisions.append(escalated)
        q = q + eta * (escalated - alpha)
        if q < 0:
            q = 0.0
        if q > 1:
            q = 1.0
    return decisions


def token_bucket(scores, theta, p, alpha, cap):
    decisions, level = [], 1.0
    for wanted in frozen(scores, theta, p):
        level = min(cap, level + alpha)
        escalated = wanted and level >= 1 - 1e-9
        if escalated:
            level -= 1
        decisions.append(escalated)
    return decisions


def decide(one_unit, score, unit, order):
    """Decisions per row, where `one_unit` turns one unit's scores in time order into
    decisions.
    """
    decisions = [False] * len(score)
    for rows in in_time(unit, order):
        for row, decision in zip(
            rows, one_unit([score[row] for row in rows]), strict=True
        ):
            decisions[row] = decision
    return decisions


def choice(tried, alpha):
    """Position of the chosen (rate, gain) among those tried."""
    near = [
        (gain, -i)
        for i, (rate, gain) in enumerate(tried)
        if abs(rate - alpha) <= 0.05 + 1e-12
    ]
    if near:
        return -max(near)[1]
    return min((round(abs(rate - alpha), 11), i) for i, (rate, _) in enumerate(tried))[
        1
    ]


def unit_totals(acceptance, value, unit, units):
    """One (gain, benefit, harm, escalated, inputs) per unit."""
    totals = [[0.0] * 5 for _ in range(units)]
    for a, v, u in zip(acceptance, value, unit, strict=True):
        for column, amount in enumerate(
            (a * v, a * v if v > 0 else 0, -a * v if v < 0 else 0, a, 1)
        ):
            totals[u][column] += amount
    return totals
