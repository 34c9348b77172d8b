"""Outputs of commands: none replaces an input."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError
from deepval.basics.files import reading

OUTPUTS = ("--out", "--figure", "--figures", "--page", "--work", "--cache")
"""Options that name output files or folders; every other path may be an input."""
WRITTEN = {
    "demo": ("report.html", "results.md"),
    "leaderboard": (
        "leaderboard.json",
        "leaderboard.md",
        "leaderboard.html",
        "history.json",
    ),
    "detect": ("manifest.json", "costs.toml"),
    "reproduce": ("report.html", "report.md", "report.json"),
}
"""Files that a command writes into its output folder."""


def check_outputs(command: str, values: Mapping[str, Any]) -> None:
    """Raise if an output of a command is one of its inputs, by any name or link.

    Args:
        command: Its name.
        values: Values of its arguments and options, by name.
    """
    inputs = []
    outputs = []
    for option, value in values.items():
        for path in _paths(value):
            if option not in OUTPUTS:
                inputs.append(path)
            elif reading.is_folder(path):
                outputs += [(option, path / name) for name in WRITTEN.get(command, ())]
            else:
                outputs.append((option, path))

    for option, written in outputs:
        for read in inputs:
            if _reads(command, read, written):
                relation = "is the same file as"
                if reading.is_folder(read):
                    relation = "is one of the files of"
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
    from deepval.basics.files.canonical import MANIFEST

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
    from deepval.basics.files.canonical import MANIFEST, TOP, read_manifest
    from deepval.judge.cases import LEDGER

    try:
        listed = set(read_manifest(cell).files)
    except InputError:  # another kind of manifest, or a damaged one
        listed = set(TOP)
    return listed | {MANIFEST, LEDGER}
