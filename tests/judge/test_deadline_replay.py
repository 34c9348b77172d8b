"""Deadlines: the oracle against all decisions of small units, replays against a queue
written out, and laws.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from deepval.basics.errors import InputError
from deepval.judge.deadline_replay import DeadlineTrack, by_age, requests
from deepval.judge.streaming import FrozenThreshold
from deepval.judge.tables.values import ValueTable, quota

# tiny units, busy passes
pytestmark = pytest.mark.filterwarnings("ignore::deepval.basics.errors.InputWarning")


def table_of(values, unit=None, *, cheap=10.0):
    """A table with one unit unless units are named, whose full output of age d is worth
    values[:, d].
    """
    frames = len(values)
    names = ["full", *(f"full-{age}" for age in range(1, np.shape(values)[1]))]
    losses = {"cheap": np.full(frames, cheap)} | {
        n: cheap - v for n, v in zip(names, np.transpose(values), strict=True)
    }
    unit = np.zeros(frames, dtype=int) if unit is None else unit
    return ValueTable.from_columns(
        unit=unit, input=np.arange(frames), losses=losses, order=np.arange(frames)
    )


def queue(decisions, values, unit, *, period_ms, cheap_ms, full_ms):
    """Gain and response times of decisions by the clock; None where one is made while
    the processor is busy.
    """
    gain, times, free_at = 0.0, [], -math.inf
    for frame, escalate in enumerate(decisions):
        arrival = frame * period_ms
        if frame and unit[frame] != unit[frame - 1]:
            free_at = -math.inf
        if escalate and free_at > arrival + 1e-9:
            return None
        ready = free_at = max(free_at, arrival) + cheap_ms
        if escalate:
            free_at += full_ms
            age = max(0, math.ceil((free_at - arrival) / period_ms - 1e-9) - 1)
            decided = frame + age
            if (
                decided < len(values)
                and unit[decided] == unit[frame]
                and age < values.shape[1]
            ):
                gain += values[decided, age]
            ready = free_at if age == 0 else ready
        times.append(ready - arrival)
    return gain, times


@pytest.mark.parametrize("seed", range(200))
def test_the_oracle_equals_the_best_of_all_decisions(seed):
    rng = np.random.default_rng(seed)
    frames = int(rng.integers(1, 9))
    values = rng.normal(size=(frames, 3))
    unit = np.sort(rng.integers(0, 2, frames))
    clock = {
        "period_ms": float(rng.integers(5, 20)),
        "cheap_ms": float(rng.integers(0, 22)),
        "full_ms": float(rng.integers(0, 50)),
    }
    track = DeadlineTrack(table_of(values, unit), **clock)
    every = [
        (sum(d), out[0])
        for d in itertools.product((0, 1), repeat=frames)
        if (out := queue(d, values, unit, **clock))
    ]
    for slots in (0, 1, 2, frames):
        assert track.oracle(slots) == pytest.approx(
            max(gain for number, gain in every if number <= slots)
        )


FEW = st.integers(1, 30)
TIMES = st.tuples(st.integers(5, 40), st.integers(0, 45), st.integers(0, 150)).map(
    lambda t: dict(
        zip(("period_ms", "cheap_ms", "full_ms"), map(float, t), strict=True)
    )
)


def world(seed, frames):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(frames, 4)).round(1)
    return values, np.sort(rng.integers(0, 3, frames)), rng.normal(size=frames).round(1)


@settings(max_examples=60)
@given(st.integers(0, 10**6), FEW, TIMES, st.floats(0.0, 1.0))
def test_a_replay_follows_the_clock_and_never_beats_the_oracle(
    seed, frames, deadline, share
):
    values, unit, score = world(seed, frames)
    track = DeadlineTrack(table_of(values, unit), **deadline)
    replay = track.replay(requests(score, math.floor(share * frames)), score)
    gain, response_ms = queue(replay.escalated, values, unit, **deadline)
    assert replay.gain.sum() == pytest.approx(gain)
    assert replay.response_ms == pytest.approx(response_ms)
    assert replay.gain.sum() <= track.oracle(int(replay.escalated.sum())) + 1e-9


@settings(max_examples=60)
@given(st.integers(0, 10**6), FEW, st.floats(0.0, 1.0))
@example(0, 22, 0.6875)  # 15 / 22 * 22 is below 15
def test_without_pressure_a_deadline_changes_nothing(seed, frames, alpha):
    values, unit, _ = world(seed, frames)
    score = np.random.default_rng(seed).permutation(frames).astype(float)
    track = DeadlineTrack(
        table_of(values, unit), period_ms=33.0, cheap_ms=13.0, full_ms=20.0
    )
    slots = int(quota(frames, alpha))
    assert track.oracle(frames) == pytest.approx(np.maximum(values[:, 0], 0).sum())
    assert track.oracle(slots) == pytest.approx(
        np.sort(np.maximum(values[:, 0], 0))[::-1][:slots].sum()
    )
    replay = track.replay(track.threshold(score, slots), score)
    assert set(np.flatnonzero(replay.escalated)) == set(np.argsort(-score)[:slots])
    assert track.age == 0


@settings(max_examples=60)
@given(st.integers(0, 10**6), FEW, TIMES, st.integers(0, 60), st.integers(0, 30))
def test_a_slower_full_pass_never_gains_if_outputs_only_age(
    seed, frames, deadline, slower, slots
):
    # Where cheap passes pile up, only the first frame can be escalated, and a later
    # output may decide a better frame.
    assume(deadline["cheap_ms"] <= deadline["period_ms"])
    values, unit, _ = world(seed, frames)
    values = np.minimum.accumulate(np.maximum(values, 0), axis=1)
    fast = DeadlineTrack(table_of(values, unit), **deadline)
    slow = DeadlineTrack(
        table_of(values, unit), **deadline | {"full_ms": deadline["full_ms"] + slower}
    )
    assert slow.oracle(slots) <= fast.oracle(slots) + 1e-9


@settings(max_examples=60)
@given(st.integers(0, 10**6), FEW, TIMES, st.integers(0, 30))
def test_a_threshold_keeps_the_rate_and_the_response_times(
    seed, frames, deadline, slots
):
    values, unit, score = world(seed, frames)
    track = DeadlineTrack(table_of(values, unit), **deadline)
    limit = max(
        deadline["period_ms"],
        track.replay(FrozenThreshold(math.inf, 0.0), score).p95_ms,
    )
    free = track.replay(track.threshold(score, slots), score)
    kept = track.replay(track.threshold(score, slots, p95_ms=limit), score)
    assert kept.escalated.sum() <= free.escalated.sum() <= slots
    assert kept.p95_ms <= limit + 1e-9
    everything = track.replay(requests(score, frames), score)
    assert (
        free.escalated.sum() == min(slots, everything.escalated.sum())
        or len(set(score)) < frames
    )


def test_old_outputs_are_modes_named_by_their_age():
    table = table_of(np.array([[1.0, 0.5], [2.0, 0.0]]))
    fresh, values = by_age(table)
    assert fresh.modes == ("cheap", "full")
    assert values.tolist() == [[1.0, 0.5], [2.0, 0.0]]
    assert by_age(fresh)[1].tolist() == [[1.0], [2.0]]
    sizes = ValueTable.from_columns(
        unit=[1, 1], losses={"net-32": [1.0, 2.0], "net-64": [0.0, 0.0]}, order=[0, 1]
    )
    assert by_age(sizes)[0].modes == ("net-32", "net-64")


def test_scores_that_are_missing_are_never_escalated():
    track = DeadlineTrack(
        table_of(np.ones((4, 1))), period_ms=10.0, cheap_ms=1.0, full_ms=2.0
    )
    score = np.array([1.0, -np.inf, 2.0, -np.inf])
    assert track.replay(track.threshold(score, 4), score).escalated.tolist() == [
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"period_ms": 0.0},
        {"cheap_ms": -1.0},
        {"full_ms": math.nan},
        {"full_ms": math.inf},
    ],
)
def test_times_are_checked(wrong):
    right = {"period_ms": 10.0, "cheap_ms": 1.0, "full_ms": 1.0}
    bare = ValueTable.from_columns(unit=[1], losses={"a": [1.0], "b": [0.0]})
    with pytest.raises(InputError, match="needs finite times"):
        DeadlineTrack(bare, **right | wrong)
    with pytest.raises(InputError, match="add a column 'order'"):
        DeadlineTrack(bare, **right)
