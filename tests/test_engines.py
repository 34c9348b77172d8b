"""Engines give the same results in the same order, whoever works and whoever is lost."""

import warnings
from functools import partial

import pytest

from deepval.engines import engine
from deepval.errors import InputError, InputWarning
from engine_work import always_killed, killed_once, refused, square

ITEMS = [str(number) for number in range(12)]


@pytest.fixture(scope="module")
def two():
    """Two processes, used by several tests: workers that did their work are used again."""
    with engine("local", workers=2) as running:
        yield running


def test_results_come_in_the_order_of_the_items(two):
    with engine("local", workers=1) as alone:
        assert list(alone.map(square, ITEMS)) == list(two.map(square, ITEMS)) == [int(i) ** 2 for i in ITEMS]
    assert list(two.map(square, [])) == []


def test_what_a_lost_worker_was_at_is_given_to_another(two, tmp_path):
    with pytest.warns(InputWarning, match=r"A worker was lost \(by signal 9 \(Killed\)\); \d+ is given to another"):
        found = list(two.map(partial(killed_once, str(tmp_path)), ITEMS))
    assert found == [int(i) ** 2 for i in ITEMS]
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0", "10", "5"]


def test_an_item_that_ends_every_worker_is_blamed(two):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        found = two.map(always_killed, ITEMS)
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(
            InputError, match="Work on 3 ended 3 workers one after the other, the last one with exit code 7"
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
        ({"address": "10.0.0.1:6379"}, "An address is one of a Ray cluster: give --engine ray with it."),
    ],
)
def test_engines_that_there_are_not(settings, sentence):
    with pytest.raises(InputError) as refusal:
        engine(**settings)
    assert str(refusal.value) == sentence
