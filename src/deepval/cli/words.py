"""The words of a command line, whichever library reads them.

A repeatable option needs its name only once, numbers have limits, words too many are
refused with advice, and so is an output that would replace an input.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from deepval.errors import InputError, as_number
from deepval.files import reading

EXACT = 2**53
"""Whole numbers up to this are exact as floats; the limit of options that declare
none.
"""
OUTPUTS = ("--out", "--junit", "--figure", "--figures", "--page", "--work", "--cache")
"""Options that name output files or folders; every other path may be an input."""
WRITTEN = {
    "demo": ("report.html", "results.md"),
    "leaderboard": (
        "leaderboard.json",
        "leaderboard.md",
        "leaderboard.html",
        "history.json",
    ),
    "perceive": ("manifest.json", "costs.toml"),
    "reproduce": ("report.html", "report.md", "report.json"),
}
"""Files that a command writes into its output folder."""


@dataclass(frozen=True)
class Declared:
    """An argument or an option of a command."""

    names: tuple[str, ...]
    """Of an option: --scores, -s. Of an argument: its one name in the help."""
    text: str = ""
    """Its line in the help."""
    is_argument: bool = False
    is_flag: bool = False
    is_repeatable: bool = False
    is_required: bool = False


def expand_lists(declared: Sequence[Declared], words: Sequence[str]) -> list[str]:
    """The words with `-s a b` expanded to `-s a -s b`, once all required arguments are
    there.
    """
    arguments = [part for part in declared if part.is_argument]
    required = sum(part.is_required for part in arguments)
    endless = any(part.is_repeatable for part in arguments)
    options = {
        name: part for part in declared if not part.is_argument for name in part.names
    }

    expanded: list[str] = []
    remaining = list(words)
    bare = 0  # arguments so far
    repeatable = ""  # the list that the next word may belong to
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*expanded, word, *remaining]
        if word.startswith("-") and len(word) > 1:
            option = options.get(word)
            repeatable = ""
            expanded.append(word)
            if option is None or option.is_flag:
                continue
            if option.is_repeatable:
                repeatable = word
            # The value of an option is its value even if it begins with a hyphen.
            expanded += remaining[:1]
            remaining = remaining[1:]
        elif repeatable and bare >= required and not endless:
            expanded += [repeatable, word]
        else:
            bare += 1
            repeatable = ""
            expanded.append(word)
    return expanded


def refuse_extra(declared: Sequence[Declared], word: str, command: str) -> NoReturn:
    """Report an argument too many, with the option whose help names it or a similar
    word, or else a repeatable one.
    """
    arguments = [part.names[0] for part in declared if part.is_argument]
    options = [part for part in declared if not part.is_argument]
    options_by_word = {
        text: part.names[-1]
        for part in reversed(options)
        for text in re.findall(r"[\w-]{3,}", part.text)
    }
    near = get_close_matches(word, options_by_word, n=1, cutoff=0.8)
    lists = [part.names[-1] for part in options if part.is_repeatable]
    advice = f"see {command} -h."
    if near:
        advice = f"did you mean {options_by_word[near[0]]} {near[0]}?"
    elif lists and arguments:
        advice = f"did you mean {lists[0]} {word}?"
    takes = "options alone"
    if arguments:
        plural = "s" * (len(arguments) > 1)
        takes = f"the argument{plural} {' '.join(arguments)} alone"
    raise InputError(f"{command} takes {takes}; found {word!r} as well: {advice}")


def refuse_number(option: str, text: str, *, whole: bool) -> NoReturn:
    """Report a word that is no number, with advice on percentages and lists."""
    kind = "a whole number" if whole else "a number"
    raise InputError(
        f"{option} must be {kind}; found {text!r}{as_number(option, text)}"
    )


def check_number(option: str, value: Any, within: tuple[float, float]) -> None:
    """Raise if a number, or one in a list, lies outside the limits of its option."""
    for number in value if isinstance(value, list | tuple) else (value,):
        fault = number_fault(number, *within)
        if fault is not None:
            raise InputError(f"{option} {fault}")


def number_fault(number: Any, least: float, greatest: float) -> str | None:
    """What is wrong with a number outside of its limits; None for other values."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if isinstance(number, float) and not math.isfinite(number):
        return f"must be a finite number; found {number:g}."
    if number < least:
        return f"must be {least:,} or more; found {number:,}."
    if number > greatest:
        return f"must be at most {greatest:,}; found {number:,}."
    return None


def check_outputs(command: str, values: Mapping[str, Any]) -> None:
    """Raise if an output of a command is one of its inputs, by any name or link.

    Args:
        command: Its name.
        values: Values of its arguments and options, by name.
    """
    outputs = {
        option: values[option] for option in OUTPUTS if values.get(option) is not None
    }
    inputs = [
        path
        for option, value in values.items()
        if option not in OUTPUTS
        for path in _paths(value)
    ]
    for option, value in outputs.items():
        for output in _paths(value):
            within = WRITTEN.get(command, ()) if reading.is_folder(output) else None
            for written in (
                [output] if within is None else [output / name for name in within]
            ):
                read = next(
                    (path for path in inputs if _reads(command, path, written)), None
                )
                if read is not None:
                    relation = (
                        "is one of the files of"
                        if reading.is_folder(read)
                        else "is the same file as"
                    )
                    raise InputError(
                        f"{option} must not replace a file that the command reads; "
                        f"{written} {relation} {read}: write to another file."
                    )


def _paths(value: Any) -> Iterator[Path]:
    """The existing paths among the values of an option: PATH or NAME=PATH, one or
    several.
    """
    for item in value if isinstance(value, list | tuple) else (value,):
        if isinstance(item, str | Path):
            text = str(item)
            yield from (
                Path(part)
                for part in (text, text.partition("=")[2])
                if part and reading.exists(part)
            )


def _reads(command: str, read: Path, written: Path) -> bool:
    """Whether writing the output would overwrite an input: that file, or one in a
    folder that is read.
    """
    if not reading.is_file(written):
        return False
    if not reading.is_folder(read):
        return read.samefile(written)
    from deepval.files.canonical import MANIFEST

    target, folder = reading.resolve(written), reading.resolve(read)
    if folder not in target.parents:
        return False
    for cell in target.parents:
        if reading.is_file(cell / MANIFEST):
            name = target.relative_to(cell).as_posix()
            return name in _cell_files(cell) or (
                command != "score" and name.startswith("scores/")
            )
        if cell == folder:
            break
    # A folder of tables, or of a router's results.
    return target.suffix == ".parquet" or command == "import"


def _cell_files(cell: Path) -> set[str]:
    """The files of a cell that its manifest lists, the manifest and the ledger."""
    from deepval.files.canonical import MANIFEST, TOP, read_manifest
    from deepval.judging.cases import LEDGER

    try:
        listed = set(read_manifest(cell).files)
    except InputError:  # another kind of manifest, or a damaged one
        listed = set(TOP)
    return listed | {MANIFEST, LEDGER}
