"""Every command on every kind of path that cannot be meant."""

import pytest

from odd_worlds import COMMANDS, check_refused, tree, trials, write_world

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_odd_path(world, monkeypatch, command):
    monkeypatch.chdir(world)
    before = tree(world)
    for odd in trials(command):
        check_refused(command, odd)
    assert tree(world) == before
