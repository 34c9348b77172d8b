"""The error and the warning that deepval raises on purpose, and the wording that their one-line sentences share."""

import errno
import os
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

LONGEST_QUOTE = 60
"""Characters of a value that a message quotes."""
QUOTABLE = ("builtins", "numpy", "datetime", "decimal", "fractions", "pathlib")
"""Modules of types whose values say what they are."""

ABSENT = ("is not installed", "no such file", "no such folder", os.strerror(errno.ENOENT))
"""Words of sentences about files and libraries that are not there."""

LONGEST, KEPT_OF_END = 2000, 600
"""Characters of a sentence, and of its end, which says what to do, where more than that is left out in the middle."""


def one_line(text: object) -> str:
    """A text as one printable line of bounded length, whatever a library or a file's name put into it."""
    flat = " ".join(filter(None, (line.strip() for line in str(text).splitlines())))
    if len(flat) > LONGEST:
        flat = f"{flat[: LONGEST - KEPT_OF_END]} ... {flat[-KEPT_OF_END:]}"
    return flat if flat.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in flat)


class InputError(ValueError):
    """What must hold, what was found and where, and what to do. The command prints it and exits with 2."""

    def __init__(self, sentence: object = "") -> None:
        super().__init__(one_line(sentence))


class NothingToLearnError(InputError):
    """Inputs to fit on that hold nothing to tell apart."""


class UnfinishedError(InputError):
    """Work that could not be finished, for want of workers or beside another writer; what was done of it is good."""


class InputWarning(UserWarning):
    """Something that is allowed but probably not meant, such as one unit per input."""

    def __init__(self, sentence: object = "") -> None:
        super().__init__(one_line(sentence))


def reason(error: BaseException) -> str:
    """Why something failed, in the words of what failed, as the middle of a sentence."""
    told = error.strerror if isinstance(error, OSError) else None
    first = (told or str(error)).strip().split("\n")[0].rstrip(".")
    if isinstance(error, ValueError) and "embedded null" in first:
        return "embedded null byte"  # versions of Python have other words for it
    return first or type(error).__name__


def library(module: str, *, purpose: str, extra: str) -> Any:
    """Import a library of an optional extra, or raise InputError with the command that installs it.

    ONNX Runtime is imported nowhere else. Unless the variable is set before the import, it starts telemetry, which
    looks up hosts and writes an identifier of the machine to the user's cache folder; `disable_telemetry_events()`
    comes too late.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose} needs {module}, which is not installed: pip install {extra_requirements(extra)}."
        ) from error


def extra_requirements(extra: str) -> str:
    """The packages of an extra as arguments of `pip install`, which work in a checkout and elsewhere."""
    from importlib.metadata import PackageNotFoundError, requires  # only needed when a library is missing

    try:
        lines = requires("deepval") or []
    except PackageNotFoundError:  # the source tree is on the path without being installed
        return shlex.quote(f".[{extra}]")
    pattern = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    return " ".join(shlex.quote(line.split(";")[0].strip()) for line in lines if pattern.search(line))


def is_of_machine(error: BaseException) -> bool:
    """Whether an error says what the machine lacks or refuses: room, rights, memory, workers, a file, a library.

    The same work may succeed later or elsewhere, so such an error is never kept as the answer of a computation.
    """
    links: BaseException | None = error
    while links is not None and not isinstance(links, (OSError, MemoryError, ImportError, UnfinishedError)):
        links = links.__cause__ or links.__context__
    return links is not None or reports_absence(str(error))


def reports_absence(sentence: str) -> bool:
    """Whether a sentence reports that the machine lacks a file or a library, which other work may not need."""
    return any(words in sentence for words in ABSENT)


def reports_machine(sentence: str) -> bool:
    """Whether a sentence that was kept in a file says what a machine lacked or refused."""
    return reports_absence(sentence) or any(os.strerror(code) in sentence for code in errno.errorcode)


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
