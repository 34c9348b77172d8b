"""Losses of full outputs by age and times of passes -> replays of scores and the oracle under deadlines.

A frame arrives every period and must be decided by the end of it. One processor runs the passes in turn: the cheap pass
of every frame, and the full pass of an escalated one behind it. What is left at the end of the period is the backlog,
for which the next frames wait. A frame is escalated only if it arrives without backlog, so that at most one full pass
is pending. A full output that misses its own frame decides the frame in whose period it is ready, as an old output. So
an escalation blocks a number of frames that does not depend on other decisions: docs/definitions.md, Deadlines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, InputFlags, InputFloats, InputInts
from deepval.errors import InputError
from deepval.judging.policies import FrozenThreshold, in_time
from deepval.judging.stream_rows import times
from deepval.tables.values import ValueTable

SLACK = 1e-9
"""Tolerance of a time in ms, and of a number of periods, for rounding error."""
HIGH = 0.95
"""The share of the frames that a high percentile of response times covers."""


@dataclass(frozen=True, eq=False)
class Deadline:
    """Times in ms: frames arrive every `period_ms`, and each must be decided before the next.

    Attributes:
        period_ms: From one frame to the next.
        cheap_ms: Work on every frame: the cheap pass and the allocator; one number, or one per input.
        full_ms: The full pass; one number, or one per input.
        switch_ms: What an escalation takes beside its full pass, to change modes and back.
    """

    period_ms: float
    cheap_ms: float | InputFloats
    full_ms: float | InputFloats
    switch_ms: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = np.asarray(value, dtype=np.float64)
            if not (np.isfinite(number).all() and (number >= 0).all()) or (name == "period_ms" and not number > 0):
                least = "positive" if name == "period_ms" else "0 or more"
                raise InputError(f"{name} must be a finite time, {least}; found {value}.")


@dataclass(frozen=True, eq=False)
class Replay:
    """Decisions under a deadline, in the order of the table's inputs.

    Attributes:
        escalated: The inputs whose full pass was run.
        late: Those of them whose full output missed its own frame.
        gain: What the full output of each input saves, on its own frame or on the later one that it decides.
        response_ms: From the arrival of each frame to the output of its own that decides it, or would decide it.
    """

    escalated: InputFlags
    late: InputFlags
    gain: InputFloats
    response_ms: InputFloats

    @property
    def p95_ms(self) -> float:
        """The response time that 95 % of the frames do not exceed."""
        return float(np.quantile(self.response_ms, HIGH, method="inverted_cdf"))


def by_age(table: ValueTable) -> tuple[ValueTable, Float[np.ndarray, "input age"]]:
    """The table without modes of old outputs, and the decision value of the full output by its age in frames.

    The mode FULL-2 has the loss of deciding by the full output of two frames before. An age without a mode is worth 0.
    """
    parts = {mode: re.fullmatch(r"(.+)-([1-9]\d?)", mode) for mode in table.modes}
    old = {mode: part for mode, part in parts.items() if part and part[1] in table.modes[1:]}
    fresh = table.with_modes([mode for mode in table.modes if mode not in old])
    ages = {int(part[2]): mode for mode, part in old.items() if part[1] == fresh.modes[-1]}
    values = np.zeros((len(table), 1 + max(ages, default=0)))
    values[:, 0] = fresh.decision_values
    for age, mode in ages.items():
        values[:, age] = table.mode_values[:, table.modes.index(mode)]
    return fresh, values


class Track:
    """The inputs of a table in time order under a deadline; arrays are sorted by unit, then by time."""

    def __init__(self, table: ValueTable, deadline: Deadline) -> None:
        self.table, values = by_age(table)
        self.period_ms = deadline.period_ms
        self.rows, self.first = in_time(table.unit, times(table))
        begins = np.flatnonzero(self.first == np.arange(len(table)))
        self.units = list(zip(begins.tolist(), [*begins[1:].tolist(), len(table)], strict=True))
        self.end = np.repeat([end for _, end in self.units], [end - begin for begin, end in self.units])
        self.cheap_ms, self.full_ms = (
            np.broadcast_to(np.asarray(value, dtype=np.float64), len(table))[self.rows]
            for value in (deadline.cheap_ms, deadline.full_ms)
        )
        self.full_ms = self.full_ms + deadline.switch_ms
        self.age = np.maximum(np.ceil((self.cheap_ms + self.full_ms) / self.period_ms - SLACK), 1).astype(int) - 1
        decided = np.arange(len(table)) + self.age
        useful = (decided < self.end) & (self.age < values.shape[1])
        at = self.rows[np.where(useful, decided, 0)]
        self.worth = np.where(useful, values[at, np.where(useful, self.age, 0)], 0.0)

    def replay(self, policy: FrozenThreshold, score: InputFloats) -> Replay:
        """What a threshold on scores does, frame by frame."""
        wants = policy.decide_sorted(score[self.rows], self.first)
        begins = self.first == np.arange(len(wants))
        taken, response_ms, backlog_ms = np.zeros(len(wants), dtype=bool), np.empty(len(wants)), 0.0
        frames = zip(wants.tolist(), begins.tolist(), self.cheap_ms.tolist(), self.full_ms.tolist(), strict=True)
        for row, (asked, new, cheap_ms, full_ms) in enumerate(frames):
            backlog_ms = 0.0 if new or backlog_ms <= SLACK else backlog_ms
            taken[row] = asked and not backlog_ms
            response_ms[row] = backlog_ms + cheap_ms
            backlog_ms = max(0.0, response_ms[row] + (full_ms if taken[row] else 0.0) - self.period_ms)
        on_time = taken & (self.age == 0)
        response_ms[on_time] += self.full_ms[on_time]
        columns = np.empty((4, len(wants)))
        columns[:, self.rows] = taken, taken & ~on_time, np.where(taken, self.worth, 0.0), response_ms
        return Replay(columns[0] > 0, columns[1] > 0, columns[2], columns[3])

    def threshold(self, score: InputFloats, slots: int, *, p95_ms: float = np.inf) -> FrozenThreshold:
        """The lowest threshold whose replay escalates at most `slots` inputs and keeps the 95th percentile of times.

        More requests never lead to fewer escalations, so the number of requests is found by bisection. Inputs with a
        score of minus infinity are never requested.
        """
        low, high = 0, int(np.count_nonzero(score > -np.inf))
        while low < high:
            middle = (low + high + 1) // 2
            tried = self.replay(requests(score, middle), score)
            fits = np.count_nonzero(tried.escalated) <= slots and tried.p95_ms <= p95_ms + SLACK
            low, high = (middle, high) if fits else (low, middle - 1)
        return requests(score, low)

    def oracle(self, slots: int | None = None) -> float:
        """The largest gain of any decisions, with at most `slots` escalations; any number where None."""
        total = np.zeros(1)
        for curve in self._curves(slots):
            joined = np.full(1 if slots is None else min(len(total) + len(curve) - 1, slots + 1), -np.inf)
            for number, gain in enumerate(curve[: len(joined)].tolist()):
                part = total[: len(joined) - number] + gain
                np.maximum(joined[number : number + len(part)], part, out=joined[number : number + len(part)])
            total = joined
        return float(total[-1])

    def _curves(self, slots: int | None) -> Iterator[Float[np.ndarray, "_"]]:
        """For each unit, the largest gain with at most 0, 1, 2, ... escalations; a single one where slots is None.

        From the last frame to the first: a frame without backlog is either escalated, or not.
        """
        blocked, passed = self._until_idle(self.full_ms), self._until_idle(np.zeros(len(self.full_ms)))
        for begin, end in self.units:
            rows = 1 + max(int(blocked[begin:end].max()), int(passed[begin:end].max()))  # later frames are not needed
            best = np.zeros((rows, 1 if slots is None else min(slots, end - begin) + 1))
            for row in range(end - 1, begin - 1, -1):
                without, taken = best[(row + passed[row]) % rows], self.worth[row] + best[(row + blocked[row]) % rows]
                if slots is None:
                    best[row % rows] = np.maximum(without, taken)
                else:
                    best[row % rows] = np.maximum(without, np.concatenate([[-np.inf], taken[:-1]]))
            yield best[begin % rows].copy()

    def _until_idle(self, more_ms: InputFloats) -> InputInts:
        """Frames until one arrives without backlog, or the unit ends, after this much more work on each frame."""
        row, frames = np.arange(len(more_ms)), np.ones(len(more_ms), dtype=np.int64)
        backlog_ms = self.cheap_ms + more_ms - self.period_ms
        while (busy := (backlog_ms > SLACK) & (row + frames < self.end)).any():
            backlog_ms[busy] += self.cheap_ms[(row + frames)[busy]] - self.period_ms
            frames[busy] += 1
        return frames


def requests(score: InputFloats, number: int) -> FrozenThreshold:
    """The threshold that so many scores reach; ties share what is left."""
    return FrozenThreshold.calibrate(score, number / len(score)) if number else FrozenThreshold(np.inf, 0.0)
