"""How annotations are checked while tests run: beartype, with Python's rule that an int
is a float too.

Checking every call takes three times as long as the tests themselves, so that each
function's first calls in each test are checked, and all of them where
DEEPVAL_CHECK_EVERY_CALL is set.
"""

import os
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

CHECKED_CALLS = 10
"""Calls of a function that are checked in a test."""

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_every_call_checked = jaxtyping.jaxtyped
_tests_begun = 0


def begin_test() -> None:
    """From here on first calls are checked anew."""
    global _tests_begun
    _tests_begun += 1


def first_calls_checked(fn: Any = None, *, typechecker: Any) -> Any:
    """As jaxtyping's decorator, for first calls only."""
    if fn is None:
        return partial(first_calls_checked, typechecker=typechecker)
    if isinstance(fn, FunctionType):
        return _first_calls(fn, typechecker)
    if is_dataclass(fn) and isinstance(fn, type):
        fn.__init__ = _first_calls(fn.__init__, typechecker)
        return fn
    return _every_call_checked(fn, typechecker=typechecker)


def _first_calls(plain: Callable[..., Any], typechecker: Any) -> Callable[..., Any]:
    # most are never called
    checked = cache(lambda: _every_call_checked(plain, typechecker=typechecker))
    test = calls = 0

    @wraps(plain)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal test, calls
        if test != _tests_begun:
            test, calls = _tests_begun, 0
        if calls == CHECKED_CALLS:
            return plain(*args, **kwargs)
        calls += 1
        return checked()(*args, **kwargs)

    return called


if "DEEPVAL_CHECK_EVERY_CALL" not in os.environ:
    jaxtyping.jaxtyped = first_calls_checked
