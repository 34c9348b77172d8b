"""Annotations are checked at the first calls of each test, and anew in the next."""

from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

import typechecker

checked = typechecker.first_calls_checked(typechecker=typechecker.check)
PAIR, TRIPLE = np.zeros(2), np.zeros(3)


@checked
def together(one: Float[np.ndarray, "n"], other: Float[np.ndarray, "n"]) -> float:
    return float(one.sum() + other.sum())


@checked
@dataclass
class Held:
    one: Float[np.ndarray, "n"]
    other: Float[np.ndarray, "n"]


@pytest.mark.parametrize("made", [together, Held])
def test_the_first_calls_are_checked_and_anew_in_the_next_test(made):
    with pytest.raises(TypeCheckError, match="parameters"):
        made(PAIR, TRIPLE)
    for _ in range(typechecker.CHECKED_CALLS - 1):
        made(PAIR, PAIR)
    made(PAIR, TRIPLE)
    typechecker.begin_test()
    with pytest.raises(TypeCheckError, match="parameters"):
        made(PAIR, TRIPLE)


def test_it_keeps_what_a_function_is_called_and_answers():
    assert (together.__name__, together(PAIR, PAIR + 1)) == ("together", 2.0)
