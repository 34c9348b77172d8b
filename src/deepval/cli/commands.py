"""The commands of `deepval` by name, and how one of them is run: bad input is one sentence and exit code 2."""

import io
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cli.interrupts import STOPPED
from deepval.cli.lazy import LOOK, lazy_group
from deepval.cli.saying import say
from deepval.errors import InputError, InputWarning, one_line, reason
from deepval.version import __version__

COMMANDS = {
    "demo": "demo",
    "perceive": "making",
    "build": "making",
    "fit": "fitting",
    "score": "fitting",
    "export": "fitting",
    "planner": "fitting",
    "profile": "fitting",
    "register": "registering",
    "import": "routing",
    "evaluate": "judging",
    "compare": "judging",
    "threshold": "routing",
    "diagnose": "routing",
    "analyse": "analyses",
    "reproduce": "protocol",
    "drive": "driving",
    "cells": "protocol",
    "validate": "protocol",
    "leaderboard": "protocol",
    "report": "reporting",
    "doctor": "protocol",
}
"""The module here that holds each command, or group of commands; it is imported when the command is asked for."""

CACHES = ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name folders in which libraries keep what they need not compute again."""

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
    say(f"deepval: {label}: {one_line(message)}", err=True)


@contextmanager
def _temporary_caches() -> Iterator[None]:
    """Put the caches of libraries into a temporary folder, which is removed at the end, unless the user names others.

    Without it, matplotlib writes to the user's cache and configuration folders, and torch leaves a folder among the
    temporary files. The libraries create their folders on import, so that commands without them create none.
    """
    try:
        folder = Path(tempfile.gettempdir(), f"deepval-{secrets.token_hex(8)}")
        missing = [name for name in CACHES if name not in os.environ]
    except FileNotFoundError:  # no temporary folder is writable, which matters only to commands that need one
        folder, missing = Path(), []
    os.environ.update({name: str(folder / name) for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]
        if missing:
            shutil.rmtree(folder, ignore_errors=True)


def run() -> None:
    """Run the command that the words of the process ask for."""
    warnings.showwarning = _warn
    if isinstance(sys.stdout, io.TextIOWrapper):  # characters that the terminal's encoding lacks are escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _temporary_caches():
            app()
    except InputError as error:
        message = str(error)
    except KeyboardInterrupt:
        say("\ndeepval: stopped.", err=True)
        sys.exit(STOPPED)
    except BrokenPipeError:
        raise  # `main` ends the process without a message
    except OSError as error:  # refused by the system, without a message of a reader or writer of ours
        message = f"{error.filename}: {reason(error)}." if error.filename else f"{reason(error)}."
    except MemoryError as error:
        message = (
            f"this takes more memory than the machine gives{f' ({error})' if str(error) else ''}: give it less at once."
        )
    else:
        return
    say(f"deepval: {one_line(message)}", err=True)
    sys.exit(2)
