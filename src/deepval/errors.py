"""The one error and the one warning that deepval raises on purpose: a sentence a person can act on."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LONGEST_QUOTE = 60
"""Characters of a value that a message quotes."""
QUOTABLE = ("builtins", "numpy", "datetime", "decimal", "fractions", "pathlib")
"""Modules of types whose values say what they are."""


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


def quoted(value: Any) -> str:
    """A value as a message quotes it: short, in one line, without NumPy's name; what has no short form, by its type."""
    plain = value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value
    try:
        text = " ".join(map(str.strip, repr(plain).splitlines())) if type(plain).__module__ in QUOTABLE else "<"
    except (ValueError, TypeError, RecursionError):
        text = "<"
    text = type(value).__name__ if text.startswith("<") else text
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."
