"""The command `deepval`: files in, verdicts out. Bad input is one sentence on stderr and exit code 2."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deepval.errors import InputError, InputWarning
from deepval.version import __version__

COMMANDS = {
    "demo": "demo",
    "perceive": "making",
    "build": "making",
    "fit": "fitting",
    "score": "fitting",
    "planner": "planning",
    "profile": "profiling",
    "register": "registering",
    "evaluate": "judging",
    "compare": "judging",
    "diagnose": "diagnosing",
    "analyse": "analysing",
    "drive": "driving",
    "cells": "protocol",
    "validate": "protocol",
    "leaderboard": "protocol",
    "report": "reporting",
}
"""The module here that holds each command, or group of commands; it is imported when the command is asked for."""
LOOK: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        made = getattr(import_module(f"deepval.cli.{COMMANDS[name]}"), name)
        if isinstance(made, typer.Typer):
            group = typer.main.get_group(made)
            group.name = name
            return group
        alone = typer.Typer(**LOOK)
        alone.command(name)(made)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyGroup(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Commands()


app = typer.Typer(cls=_LazyGroup, no_args_is_help=True, **LOOK)


@app.callback(invoke_without_command=True)
def root(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    """Decision Evaluation for Escalated Perception: does the expensive mode help the decision, and is it worth it?"""
    if version:
        typer.echo(f"deepval {__version__}")
        raise typer.Exit


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    label = "note" if issubclass(category, InputWarning) else "warning"
    typer.echo(f"deepval: {label}: {message}", err=True)


def main() -> None:
    """Run the command; bad input is one sentence and exit code 2."""
    warnings.showwarning = _warn
    try:
        app()
    except InputError as error:
        typer.echo(f"deepval: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
