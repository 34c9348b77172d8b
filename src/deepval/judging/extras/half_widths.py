"""Rows -> the median half-width of the allocators' paired intervals, per budget.

It is a typical width, not the smallest detectable effect.
"""

from collections.abc import Sequence
from statistics import median

from deepval.judging.judgement import Contest
from deepval.results import HalfWidth


def half_widths(contests: Sequence[Contest]) -> tuple[HalfWidth, ...]:
    """The typical width under each budget; None where no row has an interval."""
    by_budget = []
    for contest in contests:
        widths = []
        for entry in contest.entries:
            figures = entry.judgement.figures
            if figures is None or entry.policy.is_reference:
                continue
            interval = figures.random.share.interval
            if interval is not None:
                widths.append((interval.high - interval.low) / 2)
        half_width = median(widths) if widths else None
        key = contest.allowance.key
        by_budget.append(HalfWidth(**vars(key), half_width=half_width))
    return tuple(by_budget)
