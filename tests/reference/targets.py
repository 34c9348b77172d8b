"""Slow twins of target transforms and of the expected gain that an arbiter compares."""

import math


def transformed(name, fit, values):
    """Each value's label, by counting."""
    return [
        {"cdf": cdf, "rank": rank, "signed-cdf": signed_cdf}[name](fit, value)
        for value in values
    ]


def cdf(fit, value):
    return sum(other <= value for other in fit) / len(fit)


def rank(fit, value):
    """Mean place among the fit values, first to last, ties sharing theirs, moved to the
    middle of its slot.
    """
    below, tied = (
        sum(other < value for other in fit),
        sum(other == value for other in fit),
    )
    return (below + tied / 2) / len(fit)


def signed_cdf(fit, value):
    same = [other for other in fit if other * value > 0]
    if value == 0:
        return 0.0
    if not same:
        return math.nan
    return math.copysign(
        sum(abs(other) <= abs(value) for other in same) / len(same), value
    )


def expected_gain(scores, values, alpha):
    """Mean gain of the k highest scores over all ways to break ties, input by input."""
    slots, gain = math.floor(alpha * len(scores) + 0.5), 0.0
    for score, value in zip(scores, values, strict=True):
        above, tied = (
            sum(other > score for other in scores),
            sum(other == score for other in scores),
        )
        gain += value * min(max(slots - above, 0) / tied, 1)
    return gain
