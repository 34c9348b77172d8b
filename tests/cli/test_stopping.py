"""Commands that are stopped and run again end with the same bytes: a sample of
tests/slow/test_faults.py.
"""

import resource
import signal
import warnings

import pytest

from fault_worlds import commands, write_fault_world
from faulty import Tally, clocks_jump, digests, done, redate, refused, stopped


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    home = tmp_path_factory.mktemp("faults")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_fault_world(home)
    return home


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_stopped_and_run_again(world, tmp_path, by):
    tally = stopped(
        "evaluate", commands(world)["evaluate"], tmp_path, kills=2, seed=1, by=by
    )
    assert tally.amiss == []


def test_clocks_that_jump(world, tmp_path):
    tally = stopped(
        "evaluate",
        commands(world)["evaluate"],
        tmp_path,
        kills=1,
        seed=1,
        before=clocks_jump,
        between=redate,
    )
    assert tally.amiss == []


def test_no_room(world, tmp_path):
    words, tally = commands(world)["evaluate"], Tally("no room")
    (tmp_path / "whole").mkdir()
    assert done(words(tmp_path / "whole")) == 0
    refused(
        "none", words, tmp_path, expected=digests(tmp_path / "whole"), tally=tally,
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )  # fmt: skip
    assert tally.amiss == []
