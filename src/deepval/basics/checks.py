"""Arguments of public functions -> the same arguments, checked; a wrong argument is an
InputError.
"""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from deepval.basics.errors import InputError, quote, suggestion

Kind = TypeVar("Kind")


def word(value: Any, allowed: Iterable[str], what: str) -> str:
    """One of the allowed words."""
    words = tuple(allowed)
    if isinstance(value, str) and value in words:
        return value
    near = suggestion(value, words) if isinstance(value, str) else "."
    raise InputError(
        f"{what} must be one of {', '.join(words)}; found {quote(value)}{near}"
    )


def flag(value: Any, what: str) -> bool:
    """True or False."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise InputError(f"{what} must be True or False; found {quote(value)}.")


def whole(value: Any, what: str, *, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds."""
    if (
        not isinstance(value, bool)
        and isinstance(value, Integral)
        and least <= int(value) <= (most or math.inf)
    ):
        return int(value)
    bounds = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
    raise InputError(f"{what} must be a whole number, {bounds}; found {quote(value)}.")


def number(value: Any, what: str) -> float:
    """A finite number."""
    try:
        converted = (
            float(value)
            if isinstance(value, Real) and not isinstance(value, bool)
            else math.nan
        )
    except OverflowError:
        converted = math.inf
    if math.isfinite(converted):
        return converted
    raise InputError(f"{what} must be a number; found {quote(value)}.")


def number_in(text: str, option: str) -> float:
    """A finite number in the text of an option, such as the part after NAME=."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{option} must hold finite numbers; found {text!r}.")
    return value


def share_of_inputs(alpha: Any, what: str = "alpha") -> float:
    """A share of inputs in (0, 1]."""
    if (
        isinstance(alpha, bool)
        or not isinstance(alpha, int | float | np.number)
        or not 0 < alpha <= 1
    ):
        raise InputError(
            f"{what} must be a share in (0, 1]; found "
            f"{quote(alpha)}. Write 0.2 for 20 %."
        )
    return float(alpha)


def texts(value: Any, what: str, *, numbers: bool = False) -> tuple[str, ...]:
    """A text, or several; integers are converted to text where `numbers` is True."""
    several = (value,) if isinstance(value, str) else value
    if (
        isinstance(several, Iterable)
        and not isinstance(several, bytes | Mapping)
        and getattr(several, "ndim", 1)
    ):
        items = tuple(several)
        if all(
            isinstance(item, str) or (numbers and isinstance(item, Integral))
            for item in items
        ):
            return tuple(map(str, items))
    raise InputError(f"{what} must be text, or a list of texts; found {quote(value)}.")


def text(value: Any, what: str) -> str:
    """A text."""
    if isinstance(value, str):
        return str(value)
    raise InputError(f"{what} must be text; found {quote(value)}.")


def instance(value: Any, kind: type[Kind], what: str) -> Kind:
    """An instance of a class."""
    if isinstance(value, kind):
        return value
    raise InputError(f"{what} must be a {kind.__name__}; found {quote(value)}.")


def by_cell(value: Any, kind: type[Kind], what: str) -> Mapping[str, Kind]:
    """Instances of a class by the name of their cell, at least one."""
    if not isinstance(value, Mapping):
        raise InputError(f"{what} must be a mapping from names; found {quote(value)}.")
    if not value:
        raise InputError(f"{what}: at least one cell is needed; found none.")
    return {
        str(name): instance(item, kind, f"{what}: {quote(name)}")
        for name, item in value.items()
    }
