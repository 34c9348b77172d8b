"""Errors and warnings that deepval raises on purpose, and the wording that their
one-line messages share.
"""

import errno
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

LONGEST_QUOTE = 60
"""Largest number of characters of a quoted value in a message."""
QUOTABLE = ("builtins", "numpy", "datetime", "decimal", "fractions", "pathlib")
"""Modules of types whose values have a readable `repr`."""

ABSENT = (
    "is not installed",
    "no such file",
    "no such folder",
    os.strerror(errno.ENOENT),
)
"""Phrases in messages about missing files and libraries."""

EXTRAS = {
    "pyarrow": ("parquet", "A Parquet file, a cell or an Arrow table"),
    "matplotlib": ("plot", "A figure"),
    "PIL": ("fit", "A picture"),
    "sklearn": ("fit", "Fitting"),
    "scipy": ("fit", "Matching detections with objects"),
    "threadpoolctl": ("fit", "A limit on threads"),
    "shapely": ("planners", "A lane map"),
    "onnxruntime": ("vision", "Running a network"),
    "cv2": ("vision", "Reading pictures"),
    "torch": ("torch", "The learned planner or training a network"),
    "joblib": ("fit", "Work in several processes"),
}
"""The extra that installs each optional library, and what needs it, as the subject of a
sentence.
"""

LONGEST, END_LENGTH = 2000, 600
"""Largest number of characters of a message, and of its end, which has the advice, if
the middle is left out.
"""


def _in_python(name: str, value: object = None) -> str:
    return name if value is None else f"{name}={value!r}"


_wording: ContextVar[Callable[[str, object], str]] = ContextVar(
    "wording of arguments", default=_in_python
)


def argument(name: str, value: object = None) -> str:
    """An argument of a public function in a message, as its reader writes it: by its
    name in Python, by the option that sets it where a command runs.

    >>> argument("missing"), argument("missing", "worst")
    ('missing', "missing='worst'")
    """
    return _wording.get()(name, value)


@contextmanager
def arguments_as(wording: Callable[[str, object], str]) -> Iterator[None]:
    """Messages that are raised meanwhile name arguments as this function does."""
    before = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(before)


def one_line(text: object) -> str:
    """A text as one printable line of bounded length; libraries and file names may
    contribute any characters.
    """
    flat = " ".join(filter(None, (line.strip() for line in str(text).splitlines())))
    if len(flat) > LONGEST:
        flat = f"{flat[: LONGEST - END_LENGTH]} ... {flat[-END_LENGTH:]}"
    return (
        flat
        if flat.isprintable()
        else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in flat)
    )


class InputError(ValueError):
    """Wrong input.

    The message states the requirement, the input and where it is, and the remedy.

    The command prints the message and exits with 2.
    """

    def __init__(self, sentence: object = "") -> None:
        super().__init__(one_line(sentence))


class UnsuitableError(InputError):
    """A cell on which an analysis cannot work, such as one without image boxes, or
    whose system cannot plan here: with other cells, the analysis goes on without it.
    """


class NothingToLearnError(InputError):
    """Inputs to fit on without any difference to learn."""


class UnfinishedError(InputError):
    """Work that stopped for lack of workers or because of another writer; its finished
    parts are valid.
    """


class InputWarning(UserWarning):
    """Input that is allowed but probably a mistake, such as one unit per input."""

    def __init__(self, sentence: object = "") -> None:
        super().__init__(one_line(sentence))


def reason(error: BaseException) -> str:
    """The reason of an error in its own words, as a part of a sentence."""
    message = error.strerror if isinstance(error, OSError) else None
    first = (message or str(error)).strip().split("\n")[0].rstrip(".")
    if isinstance(error, ValueError) and "embedded null" in first:
        return "embedded null byte"  # the wording differs between versions of Python
    return first or type(error).__name__


def library(module: str, *, purpose: str = "", extra: str = "") -> Any:
    """Import a library of an optional extra, or raise InputError with the command that
    installs it.

    ONNX Runtime is imported nowhere else. Unless the variable is set before the import,
    it starts telemetry, which looks up hosts and writes an identifier of the machine to
    the user's cache folder; `disable_telemetry_events()` comes too late.

    Args:
        module: Name of the module.
        purpose: What needs it, as the subject of a sentence; that of `EXTRAS` by
            default.
        extra: The extra to install; that of `EXTRAS` by default.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_library(module, purpose=purpose, extra=extra) from error


def missing_library(module: str, *, purpose: str = "", extra: str = "") -> InputError:
    """The error about a library that is not installed."""
    package = module.partition(".")[0]
    of, what = EXTRAS.get(package, ("", ""))
    command = install_command(extra or of) if extra or of else f"pip install {package}"
    return InputError(
        f"{purpose or what} needs {package}, which is not installed: {command}."
    )


def install_command(extra: str) -> str:
    """The command that installs an extra, for the way in which deepval itself was
    installed.
    """
    # only needed when a library is missing
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        package = distribution("deepval")
        origin = json.loads(package.read_text("direct_url.json") or "{}")
        program = (
            "uv pip"
            if (package.read_text("INSTALLER") or "").strip() == "uv"
            else "pip"
        )
    except PackageNotFoundError:
        # the source tree is on the path without being installed
        origin, program = (
            {"url": Path(__file__).parents[3].as_uri(), "dir_info": {}},
            "pip",
        )
    target, url, editable = f"deepval[{extra}]", origin.get("url", ""), ""
    if "dir_info" in origin:  # a checkout
        folder = Path(
            unquote(url.removeprefix("file:///" if os.name == "nt" else "file://"))
        )
        target = f"{'.' if folder.resolve() == Path.cwd() else folder}[{extra}]"
        editable = "-e " if origin["dir_info"].get("editable") else ""
    elif url:  # a wheel or a repository
        commit = origin.get("vcs_info")
        target += (
            f" @ {commit['vcs']}+{url}@{commit['commit_id']}" if commit else f" @ {url}"
        )
    return f"{program} install {editable}" + (
        f'"{target}"' if os.name == "nt" else shlex.quote(target)
    )


def is_of_machine(error: BaseException) -> bool:
    """Whether an error is due to the machine: disk space, permissions, memory, workers,
    a missing file or library.

    The same work may succeed later or elsewhere, so such an error is never stored as
    the result of a computation.
    """
    link: BaseException | None = error
    while link is not None and not isinstance(
        link, (OSError, MemoryError, ImportError, UnfinishedError)
    ):
        link = link.__cause__ or link.__context__
    return link is not None or reports_absence(str(error))


def reports_absence(sentence: str) -> bool:
    """Whether a message reports a missing file or library, which other work may not
    need.
    """
    return any(words in sentence for words in ABSENT)


def reports_machine(sentence: str) -> bool:
    """Whether a stored message reports a failure of the machine."""
    return reports_absence(sentence) or any(
        os.strerror(code) in sentence for code in errno.errorcode
    )


def suggestion(text: object, allowed: Iterable[object]) -> str:
    """The end of a message about a wrong word: the nearest allowed word, if one is
    near.
    """
    near = get_close_matches(str(text), list(map(str, allowed)), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else "."


def few(names: Sequence[str], most: int = 3) -> str:
    """The first names, and the number of the others."""
    listed = ", ".join(names[:most])
    others = len(names) - most
    if others <= 0:
        return listed
    return f"{listed} and {others} more"


def as_number(name: str, text: str) -> str:
    """The end of a message about a text that is no number: how to write a percentage,
    or several numbers.
    """
    if re.fullmatch(r"[\d.]*\d ?%", text):
        return f": write {name} {float(text.rstrip(' %')) / 100:g}."
    several = re.fullmatch(r"[\d.]*\d(, ?[\d.]*\d)+", text)
    return (
        f": repeat the option, {name} " + re.sub(", ?", f" {name} ", text) + "."
        if several
        else "."
    )


def quote(value: Any) -> str:
    """A value as quoted in messages: short, on one line, NumPy scalars as plain
    numbers; else the name of its type.
    """
    plain = (
        value.item()
        if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
        else value
    )
    try:
        text = (
            " ".join(map(str.strip, repr(plain).splitlines()))
            if type(plain).__module__ in QUOTABLE
            else "<"
        )
    except (ValueError, TypeError, RecursionError):
        text = "<"
    text = type(value).__name__ if text.startswith("<") else text
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."
