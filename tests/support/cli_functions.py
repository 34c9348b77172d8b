"""Every command of the command line, by its words, and its arguments and options."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from cyclopts import Argument

from deepval.cli import COMMANDS, app
from deepval.paper.analysis import ANALYSES, REPORT_ONLY

EVERY = (
    *((name,) for name in COMMANDS if name != "analyse"),
    *(("analyse", name) for name in ANALYSES if name not in REPORT_ONLY),
)
"""The words of each command."""


def arguments(*words: str) -> list[Argument]:
    """The arguments and options of a command; a group of options is none itself."""
    command: Any = app
    for word in words:
        command = command[word]
    collection = command.assemble_argument_collection(parse_docstring=True)
    return [item for item in collection if not item.children]


def names(*words: str) -> set[str]:
    """The names of the options of a command."""
    every = {name for item in arguments(*words) for name in item.names}
    return {name for name in every if name.startswith("-")}


def of_kinds(*kinds: type) -> Iterator[tuple[str, Argument]]:
    """Command and option of every option that takes one of these types, or several of
    them.
    """
    for words in EVERY:
        for item in arguments(*words):
            is_option = item.name.startswith("-")
            if is_option and kinds_of(item.hint) & set(kinds):
                yield " ".join(words), item


def kinds_of(hint: Any) -> set[type]:
    """The plain types in an annotation."""
    if get_origin(hint) is None:
        return {hint} if hint in (int, float, Path, str) else set()
    return {kind for part in get_args(hint) for kind in kinds_of(part)}
