"""The one error and the one warning that deepval raises on purpose: a sentence a person can act on."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """What must hold, what was found and where, and what to do. The command prints it and exits with 2."""


class NothingToLearnError(InputError):
    """Inputs to fit on that hold nothing to tell apart."""


class InputWarning(UserWarning):
    """Something that is allowed but probably not meant, such as one unit per input."""


def meant(text: object, allowed: Iterable[object]) -> str:
    """How a sentence about a wrong word ends: with the nearest allowed one, where one is near."""
    near = get_close_matches(str(text), list(map(str, allowed)), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else "."
