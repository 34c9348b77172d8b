"""Losses of full outputs by age and times of passes -> replays of scores and the oracle
under deadlines.

A frame arrives every period and must be decided by the end of it. One processor runs
the passes in turn: the cheap pass of every frame, and the full pass of an escalated one
behind it. What is left at the end of the period is the backlog, for which the next
frames wait. A frame is escalated only if it arrives without backlog, so that at most
one full pass is pending. A full output that misses its own frame decides the frame in
whose period it is ready, as an old output. So an escalation blocks a number of frames
that does not depend on other decisions: docs/definitions.md, Deadlines.
"""

import math
import re
import warnings
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float, InputFlags, InputFloats
from deepval.basics.errors import InputError, InputWarning
from deepval.judge.stream_rows import times
from deepval.judge.streaming import FrozenThreshold, in_time
from deepval.judge.tables.values import ValueTable
from deepval.judge.tie_expectations import cuts

SLACK = 1e-9
"""Tolerance of a time in ms, and of a number of periods, for rounding error."""
HIGH = 0.95
"""The share of the frames that a high percentile of response times covers."""


@dataclass(frozen=True, eq=False)
class DeadlineReplay:
    """Decisions under a deadline, in the order of the table's inputs.

    Attributes:
        escalated: The inputs whose full pass was run.
        gain: What the full output of each input saves, on its own frame or on the later
            one that it decides.
        response_ms: From the arrival of each frame to the output of its own that
            decides it, or would decide it.
    """

    escalated: InputFlags
    gain: InputFloats
    response_ms: InputFloats

    @property
    def p95_ms(self) -> float:
        """The response time that 95 % of the frames do not exceed."""
        return float(np.quantile(self.response_ms, HIGH, method="inverted_cdf"))


def by_age(table: ValueTable) -> tuple[ValueTable, Float[np.ndarray, "input age"]]:
    """The table without modes of old outputs, and the decision value of the full output
    by its age in frames.

    The mode FULL-2 has the loss of deciding by the full output of two frames before. An
    age without a mode is worth 0.
    """
    parts = {mode: re.fullmatch(r"(.+)-([1-9]\d?)", mode) for mode in table.modes}
    old = {
        mode: part
        for mode, part in parts.items()
        if part and part[1] in table.modes[1:]
    }
    fresh = table.with_modes([mode for mode in table.modes if mode not in old])
    ages = {
        int(part[2]): mode for mode, part in old.items() if part[1] == fresh.modes[-1]
    }
    values = np.zeros((len(table), 1 + max(ages, default=0)))
    values[:, 0] = fresh.decision_values
    for age, mode in ages.items():
        values[:, age] = table.mode_values[:, table.modes.index(mode)]
    return fresh, values


class DeadlineTrack:
    """The inputs of a table in time order under a deadline; arrays are sorted by unit,
    then by time.

    Args:
        table: Losses; modes of old outputs as in `by_age`.
        period_ms: Time from one frame to the next, before which a frame must be
            decided.
        cheap_ms: Work on every frame: the cheap pass and the allocator.
        full_ms: Further work on an escalated frame: the full pass, and to change modes
            and back.
    """

    def __init__(
        self, table: ValueTable, *, period_ms: float, cheap_ms: float, full_ms: float
    ) -> None:
        if not (
            0 < period_ms < math.inf
            and 0 <= cheap_ms < math.inf
            and 0 <= full_ms < math.inf
        ):
            raise InputError(
                "A deadline needs finite times in ms, a period above 0, and passes of "
                f"0 or more; found a period of {period_ms}, a cheap pass of "
                f"{cheap_ms} and a full pass of {full_ms}."
            )
        if cheap_ms > period_ms:
            note = (
                f"The cheap pass and the allocator take {cheap_ms:g} ms of every "
                f"{period_ms:g} ms: frames pile up."
            )
            warnings.warn(InputWarning(note), stacklevel=2)
        self.period_ms, self.cheap_ms, self.full_ms = period_ms, cheap_ms, full_ms
        self.table, values = by_age(table)
        self.rows, self.first = in_time(table.unit, times(table))
        self.age = max(0, math.ceil((cheap_ms + full_ms) / period_ms - SLACK) - 1)
        """Frames from an escalated frame to the one that its full output decides."""
        self.worth = np.zeros(len(table))
        if self.age < min(len(table), values.shape[1]):
            decided, unit = self.rows[self.age :], table.unit[self.rows]
            same = unit[self.age :] == unit[: len(decided)]
            self.worth[: len(decided)] = np.where(same, values[decided, self.age], 0.0)

    def replay(self, policy: FrozenThreshold, score: InputFloats) -> DeadlineReplay:
        """What a threshold on scores does, frame by frame."""
        wants = policy.decide_sorted(score[self.rows], self.first)
        taken, response_ms, backlog_ms = (
            np.zeros(len(wants), dtype=bool),
            np.empty(len(wants)),
            0.0,
        )
        for row, (asked, first) in enumerate(
            zip(wants.tolist(), self.first.tolist(), strict=True)
        ):
            backlog_ms = 0.0 if row == first or backlog_ms <= SLACK else backlog_ms
            taken[row] = asked and not backlog_ms
            response_ms[row] = backlog_ms + self.cheap_ms
            backlog_ms = max(
                0.0, response_ms[row] + self.full_ms * taken[row] - self.period_ms
            )
        if not self.age:
            response_ms[taken] += self.full_ms
        order = np.argsort(self.rows)
        return DeadlineReplay(
            taken[order], np.where(taken, self.worth, 0.0)[order], response_ms[order]
        )

    def threshold(
        self, score: InputFloats, slots: int, *, p95_ms: float = np.inf
    ) -> FrozenThreshold:
        """The lowest threshold whose replay escalates at most `slots` inputs and keeps
        the 95th percentile of times.

        More requests never lead to fewer escalations, so the number of requests is
        found by bisection. Inputs with a score of minus infinity are never requested.
        """
        low, high = 0, int(np.count_nonzero(score > -np.inf))
        while low < high:
            middle = (low + high + 1) // 2
            tried = self.replay(requests(score, middle), score)
            fits = (
                np.count_nonzero(tried.escalated) <= slots
                and tried.p95_ms <= p95_ms + SLACK
            )
            low, high = (middle, high) if fits else (low, middle - 1)
        return requests(score, low)

    def oracle(self, slots: int) -> float:
        """The largest gain of any decisions with at most `slots` escalations."""
        total = np.zeros(1)
        for worth in np.split(self.worth, np.unique(self.first)[1:]):
            curve = self._curve(worth, slots)
            joined = np.full(min(len(total) + len(curve) - 1, slots + 1), -np.inf)
            for number, gain in enumerate(curve.tolist()):
                part = total[: len(joined) - number] + gain
                np.maximum(
                    joined[number : number + len(part)],
                    part,
                    out=joined[number : number + len(part)],
                )
            total = joined
        return float(total[-1])

    def _curve(self, worth: InputFloats, slots: int) -> Float[np.ndarray, "_"]:
        """The largest gain within a unit with at most 0, 1, 2, ... escalations.

        From the last frame to the first: a frame without backlog is either escalated,
        or not.
        """
        frames = len(worth)
        blocked, passed = (
            min(self._until_idle(more_ms), frames) for more_ms in (self.full_ms, 0.0)
        )
        rows = 1 + max(blocked, passed)  # later frames are not needed
        best = np.zeros((rows, min(slots, frames) + 1))
        for row in range(frames - 1, -1, -1):
            taken = worth[row] + best[min(row + blocked, frames) % rows, :-1]
            best[row % rows] = best[min(row + passed, frames) % rows]
            best[row % rows, 1:] = np.maximum(best[row % rows, 1:], taken)
        return best[0]

    def _until_idle(self, more_ms: float) -> int:
        """Frames from one with this much work beside the cheap pass to the next that
        arrives without backlog.
        """
        backlog_ms, spare_ms = (
            self.cheap_ms + more_ms - self.period_ms,
            self.period_ms - self.cheap_ms,
        )
        if backlog_ms <= SLACK:
            return 1
        return (
            1 + math.ceil((backlog_ms - SLACK) / spare_ms)
            if spare_ms > SLACK
            else len(self.table)
        )


def requests(score: InputFloats, number: int) -> FrozenThreshold:
    """The threshold that so many scores reach; ties share what is left."""
    # A share of the inputs would lose the last digits of the number, and with them a
    # request.
    return (
        FrozenThreshold.at(cuts(score, [number])[0], number)
        if number
        else FrozenThreshold(np.inf, 0.0)
    )
