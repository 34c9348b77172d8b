"""A sentence -> printed, folded at spaces where it goes to a terminal: a pipe gets it in one line."""

import sys
import textwrap
from shutil import get_terminal_size

import typer


def say(text: str, *, err: bool = False) -> None:
    """Print lines, each folded to the terminal with its indent kept and two more for what follows."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        text = "\n".join(_folded(line, max(40, get_terminal_size().columns)) for line in text.split("\n"))
    typer.echo(text, err=err)


def _folded(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.strip(), width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
