"""Numbers of the command line -> the same, once each is finite and within what its option can mean."""

import math
from typing import Any

from deepval.errors import InputError

EXACT = 2**53
"""Whole numbers up to this are exact as floats."""
BOUNDS: dict[str, tuple[float, float]] = {
    "--alpha": (-math.inf, math.inf),  # a share, which the budget checks
    "--batch": (1, 100_000),
    "--best": (-1e12, 1e12),
    "--clip": (0, 1),
    "--controls": (0, 1_000),
    "--curve": (0, 10_000),
    "--draws": (0, 10_000_000),
    "--every": (0, 1e6),
    "--folds": (2, 1_000),
    "--grid": (1, 4_096),
    "--worker-memory": (1, 10**9),
    "--replan": (0, 1e6),
    "--resolve": (-1e9, 1e9),
    "--samples": (0, 1_000_000),
    "--scenes": (3, 10_000),
    "--seconds": (0, 1e6),
    "--seed": (0, 2**63 - 1),
    "--seeds": (1, 1_000),
    "--size": (1, 16_384),
    "--steps": (0, 10**9),
    "--threads": (1, 1_024),
    "--threshold": (-1e9, 1e9),
    "--tolerance": (0, 1),
    "--width": (1, 4_096),
    "--workers": (1, 1_024),
}
"""Least and most of every option that is a number, in all commands: beyond them a machine would only be kept busy."""


def check(option: str, value: Any) -> None:
    """Raise where a number that an option was given, or one of several, is none that it can mean."""
    for number in value if isinstance(value, list | tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        least, most = BOUNDS.get(option, (-EXACT, EXACT))
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"{option} must be a finite number; found {number:g}.")
        if number < least:
            raise InputError(f"{option} must be {least:,} or more; found {number:,}.")
        if number > most:
            raise InputError(f"{option} must be at most {most:,}; found {number:,}.")


def number(text: str, option: str) -> float:
    """A number in a text of an option, such as that after NAME=; it must be finite."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{option} must hold finite numbers; found {text!r}.")
    return found
