"""The commands of `deepval` by name, and how one of them is run: bad input is one sentence and exit code 2."""

import sys
import warnings
from typing import Annotated, Any

import typer

from deepval.cli.lazy import LOOK, lazy_group
from deepval.cli.saying import say
from deepval.errors import InputError, InputWarning
from deepval.version import __version__

COMMANDS = {
    "demo": "demo",
    "perceive": "making",
    "build": "making",
    "fit": "fitting",
    "score": "fitting",
    "export": "fitting",
    "planner": "planning",
    "profile": "profiling",
    "register": "registering",
    "import": "importing",
    "evaluate": "judging",
    "compare": "judging",
    "threshold": "routing",
    "diagnose": "diagnosing",
    "analyse": "analysing",
    "reproduce": "reproducing",
    "drive": "driving",
    "cells": "protocol",
    "validate": "protocol",
    "leaderboard": "protocol",
    "report": "reporting",
}
"""The module here that holds each command, or group of commands; it is imported when the command is asked for."""

COMPLETED: dict[str, Any] = LOOK | {"add_completion": True}
app = typer.Typer(cls=lazy_group(COMMANDS), no_args_is_help=True, **COMPLETED)


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
    say(f"deepval: {label}: {message}", err=True)


def run() -> None:
    """Run the command that the words of the process ask for."""
    warnings.showwarning = _warn
    try:
        app()
    except InputError as error:
        say(f"deepval: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
