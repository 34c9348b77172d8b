"""Actors of a Ray cluster do what processes do, in the same words; where Ray is
installed.
"""

import socket
import sys
from functools import partial

import pytest

from deepval.engines import engine
from deepval.errors import InputError, InputWarning
from engine_work import filled_mb, killed_once, refused, square
from ray_work import INSTALLED, prepared

pytestmark = [
    pytest.mark.skipif(
        not INSTALLED, reason="Ray is not installed: pip install 'ray>=2.9'"
    ),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]
ITEMS = [str(number) for number in range(12)]


@pytest.fixture(scope="module")
def two():
    """A cluster of this machine alone, with memory of actors bounded."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in prepared().items():
            patch.setenv(name, value)
        with engine("ray", workers=2, memory_mb=300) as running:
            yield running


def test_results_come_in_the_order_of_the_items_and_lost_actors_are_replaced(
    two, tmp_path, capfd
):
    assert list(two.map(square, ITEMS)) == [int(item) ** 2 for item in ITEMS]
    with pytest.warns(
        InputWarning,
        match=r"A worker was lost \(with Actor\w+Error\); \d+ is given to another",
    ):
        found = list(two.map(partial(killed_once, str(tmp_path)), ITEMS))
    assert found == [int(item) ** 2 for item in ITEMS]
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0", "10", "5"]
    assert capfd.readouterr().out == ""


def test_errors_are_raised_where_the_result_would_stand(two):
    found = two.map(refused, ITEMS)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(InputError, match="unit 2 must hold frames; it holds none"):
        next(found)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_an_actor_that_asks_for_more_memory_than_it_may_have_says_so(two):
    assert list(two.map(filled_mb, ["20", "100"])) == [20, 100]
    with pytest.raises(
        InputError,
        match=(
            "Work on 900 needs more memory than a worker has, which "
            "is bounded to 300 MB"
        ),
    ):
        list(two.map(filled_mb, ["900"]))


def test_a_cluster_that_does_not_answer_is_told_of_in_a_sentence():
    # bound and not listening: nobody else can answer there
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InputError) as refusal,
            engine("ray", workers=2, address=address),
        ):
            pass
    assert str(refusal.value) == (
        f"A Ray cluster must answer at {address}; Connection refused: start one with "
        "`ray start --head`, or leave --address out."
    )
