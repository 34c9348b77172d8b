"""Numbers and paths of the command line -> the same, once numbers are within bounds and outputs are no inputs."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading

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

OUTPUTS = ("--out", "--figure", "--figures", "--work", "--cache")
"""Options that name what a command writes; every other option or argument may name what it reads."""
WRITTEN = {
    "demo": ("report.html", "results.md"),
    "leaderboard": ("leaderboard.json", "leaderboard.md", "leaderboard.html", "history.json"),
    "perceive": ("manifest.json", "costs.toml"),
    "reproduce": ("report.html", "report.md", "report.json"),
    "train": ("weights.npz", "masks.npz", "manifest.json"),
}
"""Files that commands write into a folder, by the name of the command."""


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
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{option} must hold finite numbers; found {text!r}.")
    return value


def check_outputs(command: str, values: Mapping[str, Any]) -> None:
    """Raise where an output of a command is one of its inputs, by whatever name or link.

    Args:
        command: Its name.
        values: What its arguments and options were given, by the name of each.
    """
    inputs = [path for option, value in values.items() if option not in OUTPUTS for path in _paths(value)]
    for option in OUTPUTS:
        for output in _paths(values.get(option)):
            within = WRITTEN.get(command, ()) if reading.is_folder(output) else None
            for written in [output] if within is None else [output / name for name in within]:
                read = next((path for path in inputs if _reads(command, path, written)), None)
                if read is not None:
                    relation = "is one of the files of" if reading.is_folder(read) else "is the same file as"
                    raise InputError(
                        f"{option} must not replace a file that the command reads; {written} {relation} {read}: "
                        "write to another file."
                    )


def _paths(value: Any) -> Iterator[Path]:
    """The existing paths among the values of an option: PATH or NAME=PATH, one or several."""
    for item in value if isinstance(value, list | tuple) else (value,):
        if isinstance(item, str | Path):
            text = str(item)
            yield from (Path(part) for part in (text, text.partition("=")[2]) if part and reading.exists(part))


def _reads(command: str, read: Path, written: Path) -> bool:
    """Whether a path that a command reads is a file that it writes, or a folder with such a file among its inputs."""
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
            return name in _cell_files(cell) or (command != "score" and name.startswith("scores/"))
        if cell == folder:
            break
    # A folder of tables, or of a router's results.
    return target.suffix == ".parquet" or command == "import"


def _cell_files(cell: Path) -> set[str]:
    """The files of a cell that its manifest lists, and the ledger beside them."""
    from deepval.cells.case import LEDGER
    from deepval.files.canonical import MANIFEST, TOP, read_manifest

    try:
        listed = set(read_manifest(cell).files)
    except InputError:  # of something else, or damaged
        listed = set(TOP)
    return listed | {MANIFEST, LEDGER}
