"""Workers give the same results in the same order, whoever is lost."""

import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial

import pytest

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.workers import mapping
from worker_tasks import (
    always_killed,
    in_folder,
    killed_once,
    refused,
    square,
    too_large,
)

ITEMS = [str(number) for number in range(12)]
SQUARES = [int(item) ** 2 for item in ITEMS]


@pytest.fixture(scope="module")
def two():
    """Two processes, used by several tests: joblib uses its workers again."""
    with mapping(2) as running:
        yield running


def test_units_of_lost_workers_are_computed_again(two, tmp_path):
    with pytest.warns(InputWarning, match="A worker was lost"):
        results = list(two(partial(killed_once, str(tmp_path)), ITEMS))
    assert results == SQUARES
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0", "10", "5"]


@pytest.mark.parametrize("items", [ITEMS, ["0", "3"]])
def test_a_unit_that_ends_every_worker_stops_the_run(two, items):
    before = items[: items.index("3")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        results = []
        arriving = iter(two(always_killed, items))
        with pytest.raises(InputError, match="Workers were lost 3 times in a row"):
            results.extend(arriving)
    # How many units before the deadly one are done depends on how busy the machine is.
    assert results == [int(item) for item in before][: len(results)]
    assert list(two(square, ITEMS)) == SQUARES


def test_the_error_of_the_first_unit_is_raised_where_its_result_would_stand(two):
    results = two(refused, ITEMS)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(InputError, match="unit 2 must hold frames; it holds none"):
        next(results)
    with pytest.raises(ValueError, match="four") as raised:
        list(two(refused, ["4", "5"]))
    assert "in refused" in raised.value.__notes__[0]
    with pytest.raises(InputError, match=r"too little memory .* use fewer workers"):
        list(two(too_large, ["0", "1"]))


def test_paths_are_relative_to_the_folder_of_the_command(two, tmp_path, monkeypatch):
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        (folder / "file").write_text(name, encoding="utf-8")
        monkeypatch.chdir(folder)
        assert list(two(in_folder, ["file", "file"])) == [name, name]


LINGERING = """
import os, time
from deepval.basics.workers import mapping

def linger(_):
    os.write(1, b"at work\\n")
    time.sleep(30)
    os.write(1, b"left behind\\n")
    os._exit(0)

if __name__ == "__main__":
    with mapping(2) as two:
        list(two(linger, [1, 2]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_is_left_behind(tmp_path, how):
    """Their common output ends when the last of them is gone, which must not wait for
    their work to be done.
    """
    script = tmp_path / "lingering.py"
    script.write_text(LINGERING, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"at work\n"
        start = time.monotonic()
        if how == signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.send_signal(how)
        assert b"left behind" not in process.stdout.read()
        assert time.monotonic() - start < 20
        said = process.stderr.read()
        assert said.count(b"Traceback") == (how == signal.SIGINT), said
    assert process.returncode == -how
