"""Contests -> what extras know about their rows.

Rows are judged without any of this. It is computed once, from the resamples and the
contests, and `row_columns` writes it into the flat rows of a result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deepval.judging.answers.told import RowAnswer
from deepval.judging.bootstrap import Bootstrap
from deepval.judging.extras.deciding_units import DecidingUnit, deciding_units
from deepval.judging.extras.next_units import NextUnit, jackknife_opinions, next_units
from deepval.judging.extras.simultaneous import Simultaneous, simultaneous
from deepval.judging.intervals import Interval
from deepval.judging.judgement import Contest, Judgement


@dataclass(frozen=True)
class Additions:
    """What extras know about rows, by judgement.

    Attributes:
        deciding_units: The unit that a decided verdict rests on.
        next_units: What the units say about one more.
        second_opinions: The second opinion where there are no draws.
        simultaneous: Intervals that hold for all rows at once.
        answers: Whether each allocator is worth running.
    """

    deciding_units: Mapping[Judgement, DecidingUnit] = field(default_factory=dict)
    next_units: Mapping[Judgement, NextUnit] = field(default_factory=dict)
    second_opinions: Mapping[Judgement, Interval] = field(default_factory=dict)
    simultaneous: Mapping[Judgement, Simultaneous] = field(default_factory=dict)
    answers: Mapping[Judgement, RowAnswer] = field(default_factory=dict)


def additions_of(
    bootstrap: Bootstrap,
    contests: Sequence[Contest],
    *,
    answers: Mapping[Judgement, RowAnswer],
    at_once: bool,
    is_estimated: bool,
) -> Additions:
    """What extras know about the rows of all contests.

    Args:
        bootstrap: The resamples.
        contests: The judged policies.
        answers: Whether each allocator is worth running.
        at_once: Whether to add intervals that hold for all rows at once.
        is_estimated: Whether losses are estimates, which say nothing of single units.
    """
    units = {}
    if not is_estimated:
        units = next_units(bootstrap, contests)
    intervals = {}
    if at_once:
        intervals = simultaneous(bootstrap, contests)
    return Additions(
        deciding_units=deciding_units(bootstrap, contests),
        next_units=units,
        second_opinions=jackknife_opinions(bootstrap, contests),
        simultaneous=intervals,
        answers=answers,
    )
