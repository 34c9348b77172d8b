"""Engines give the same results in the same order, whoever works and whoever is
lost.
"""

import os
import subprocess
import sys
import warnings
from functools import partial

import pytest

from deepval.engines import driver, engine
from deepval.engines.driver import Crew, Done, Engine, Worker
from deepval.errors import InputError, InputWarning
from engine_work import always_killed, filled_mb, killed_once, refused, square

ITEMS = [str(number) for number in range(12)]


@pytest.fixture(scope="module")
def two():
    """Two processes, used by several tests: workers that did their work are used
    again.
    """
    with engine("local", workers=2) as running:
        yield running


def test_results_come_in_the_order_of_the_items(two):
    with engine("local", workers=1) as alone:
        assert (
            list(alone.map(square, ITEMS))
            == list(two.map(square, ITEMS))
            == [int(i) ** 2 for i in ITEMS]
        )
    assert list(two.map(square, [])) == []


def test_what_a_lost_worker_was_at_is_given_to_another(two, tmp_path):
    with pytest.warns(
        InputWarning,
        match=r"A worker was lost \(by signal 9 \(Killed\)\); \d+ is given to another",
    ):
        found = list(two.map(partial(killed_once, str(tmp_path)), ITEMS))
    assert found == [int(i) ** 2 for i in ITEMS]
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0", "10", "5"]


def test_an_item_that_ends_every_worker_is_blamed(two):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        found = two.map(always_killed, ITEMS)
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(
            InputError,
            match=(
                "Work on 3 ended 3 workers one after the other, the "
                "last one with exit code 7"
            ),
        ):
            next(found)
    assert list(two.map(square, ITEMS[:3])) == [0, 1, 4]


def test_errors_are_raised_where_the_result_would_stand(two):
    found = two.map(refused, ITEMS)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(InputError, match="unit 2 must hold frames; it holds none"):
        next(found)
    with pytest.raises(ValueError, match="four"):
        list(two.map(refused, ["4"]))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "dask"}, "An engine must be one of local, ray; found 'dask'."),
        ({"workers": 0}, "An engine needs at least one worker; found 0."),
        ({"memory_mb": 0}, "Memory of a worker must be a whole number of MB; found 0."),
        (
            {"address": "10.0.0.1:6379"},
            "An address belongs to a Ray cluster: give --engine ray with it.",
        ),
    ],
)
def test_engines_that_there_are_not(settings, sentence):
    with pytest.raises(InputError) as refusal:
        engine(**settings)
    assert str(refusal.value) == sentence


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_a_worker_that_asks_for_more_memory_than_it_may_have_says_so():
    with engine("local", workers=1, memory_mb=200) as bounded:
        assert not bounded.here
        assert list(bounded.map(filled_mb, ["20", "100"])) == [20, 100]
        found = bounded.map(filled_mb, ["20", "400", "20"])
        assert next(found) == 20
        with pytest.raises(
            InputError,
            match=(
                r"Work on 400 needs more memory than a worker has, which is bounded to "
                r"200 MB by --worker-memory"
            ),
        ):
            next(found)
        assert list(bounded.map(filled_mb, ["20"])) == [20]


class _Nobody(Crew):
    """A crew that has a worker for one item and then none, on a clock of its own."""

    size, trouble = 2, "the machine is gone"

    def __init__(self, clock):
        self.clock, self.worker = clock, _Once()

    def __exit__(self, *how):
        pass

    def hire(self, wanted):
        worker, self.worker = self.worker, None
        return worker

    def wait(self, busy, timeout_s):
        self.clock.now += timeout_s
        return [(worker, worker.found) for worker in busy]


class _Once(Worker):
    def begin(self, work, item):
        self.found = (
            Done(work(item)) if item == "0" else driver.LostWorker("with its machine")
        )

    def dismiss(self):
        pass


class _Clock:
    now, leap = 0.0, 0.0

    def monotonic(self):
        self.now += self.leap
        return self.now


def test_a_clock_that_leaps_hurries_nobody(two, monkeypatch):
    clock = _Clock()
    clock.leap = 2 * driver.GIVE_UP_S
    monkeypatch.setattr(driver, "time", clock)
    assert list(two.map(square, ITEMS)) == [int(i) ** 2 for i in ITEMS]
    assert clock.now > driver.GIVE_UP_S


def test_nobody_to_work_is_told_within_half_a_minute_and_ends_with_what_to_do(
    monkeypatch,
):
    clock = _Clock()
    monkeypatch.setattr(driver, "time", clock)
    with (
        Engine(_Nobody(clock)) as left_alone,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        found = left_alone.map(square, ["0", "1", "2"])
        assert next(found) == 0
        with pytest.raises(InputError) as refusal:
            next(found)
    remarks = [str(one.message) for one in told]
    assert remarks[0] == "A worker was lost (with its machine); 1 is given to another."
    assert remarks[1].startswith(
        "No worker has been available for 12 s (the machine "
        "is gone); 2 units are waiting"
    )
    assert len(remarks[1:]) * driver.PATIENCE_S <= clock.now <= driver.GIVE_UP_S + 30
    assert len(remarks[1:]) > driver.GIVE_UP_S / 30
    assert (
        "(the machine is gone) and 2 units are waiting: add a machine to the cluster"
        in str(refusal.value)
    )


LINGERING = """
import os, sys, time
from deepval.engines import engine

def linger(_):
    print("at work", flush=True)
    time.sleep(30)
    print("left behind", flush=True)
    os._exit(0)

if __name__ == "__main__":
    with engine("local", workers=2) as two:
        list(two.map(linger, [1, 2]))
"""


def test_a_kill_leaves_no_worker_behind(tmp_path):
    """Their common output ends when the last of them is gone, which must not wait for
    their work to be done.
    """
    script = tmp_path / "lingering.py"
    script.write_text(LINGERING, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at work\n"
        process.kill()
        assert b"left behind" not in process.stdout.read()
