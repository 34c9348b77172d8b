"""The commands of `deepval`, their help, and how one of them is run: bad input is one sentence and exit code 2."""

import io
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deepval.cli.arguments import GroupedCommand, spread
from deepval.cli.interrupts import STOPPED, loading
from deepval.cli.terminal import say
from deepval.errors import InputError, InputWarning, one_line, reason
from deepval.version import __version__

GROUPS: dict[str, dict[str, str]] = {
    "Judge scores": {
        "evaluate": "evaluate",
        "report": "report_page",
        "threshold": "threshold",
        "compare": "compare",
    },
    "Build cells, fit and score allocators": {
        "demo": "demo",
        "perceive": "build_cells",
        "build": "build_cells",
        "fit": "fit_allocators",
        "score": "fit_allocators",
        "profile": "fit_allocators",
        "import": "router_log",
    },
    "Analyse cells and reproduce the paper": {
        "diagnose": "threshold",
        "analyse": "analyse",
        "reproduce": "official",
        "drive": "drive",
        "train-planner": "train_planner",
    },
    "Leaderboard and files": {
        "cells": "official",
        "leaderboard": "official",
        "doctor": "official",
    },
}
"""The module of this package that defines each command, by heading of the help."""
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}

LOOK: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
AFTER_STOP = {
    "perceive": "Finished units stay in the cache. Run the same command to continue after the last one.",
    "train-planner": "The last checkpoint stays in the folder. Run the same command to continue from it.",
    "build": "Finished cells stay. Run the same command to build the others.",
    "demo": "Finished cells and results stay. Run the same command to start again; the output is the same.",
}
"""Message after Ctrl-C, by command."""
AFTER_STOP_ELSEWHERE = "Finished files stay, unfinished files are not written. Run the same command again."

CACHES = ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")
"""Environment variables with the cache folders of libraries."""


class _Commands(Mapping[str, Any]):
    """The commands by name; each is imported on request."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = modules

    def __getitem__(self, name: str) -> Any:
        with loading():
            command = getattr(import_module(f"deepval.cli.{self.modules[name]}"), name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            group = typer.main.get_group(command)
            group.name = name
            return group
        alone = typer.Typer(**LOOK)
        alone.command(name, cls=GroupedCommand)(spread(command))
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)


def lazy_group(groups: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """A group of commands that are imported on request: modules by command, under the headings of its help."""
    modules = {name: module for group in groups.values() for name, module in group.items()}

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands: Any = _Commands(modules)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write the first sentence of every command under its heading."""
            longest = max(map(len, modules))
            for heading, names in groups.items():
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(longest), _summary(self.commands[name])) for name in names])

        def invoke(self, ctx: Any) -> Any:
            """Run the command; after Ctrl-C print what stays and how to continue."""
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                if ctx.parent is not None:
                    raise
                advice = AFTER_STOP.get(ctx.invoked_subcommand or "", AFTER_STOP_ELSEWHERE)
                say(f"\ndeepval: stopped. {advice}", err=True)
                raise typer.Exit(STOPPED) from None

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            """Names of commands without importing any; options as usual."""
            if incomplete.startswith("-"):
                return super().shell_complete(ctx, incomplete)
            return [_completion_item(name) for name in modules if name.startswith(incomplete)]

    return LazyGroup


def _summary(command: Any) -> str:
    """The first paragraph of a command's help, in one line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _completion_item(name: str) -> Any:
    """A completion for the shell; typer or its own copy of click defines the class."""
    home = typer.Context.__mro__[1].__module__.rpartition(".")[0]
    return import_module(f"{home}.shell_completion").CompletionItem(name)


COMPLETED: dict[str, Any] = LOOK | {"add_completion": True}
app = typer.Typer(cls=lazy_group(GROUPS), no_args_is_help=True, **COMPLETED)


@app.callback(invoke_without_command=True)
def root(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    """Decision Evaluation for Escalated Perception: is the expensive mode worth it?

    A first run: deepval evaluate values.csv -s scores.csv
    """
    if version:
        typer.echo(f"deepval {__version__}")
        raise typer.Exit


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    label = "note" if issubclass(category, InputWarning) else "warning"
    say(f"deepval: {label}: {one_line(message)}", err=True)


@contextmanager
def _temporary_caches() -> Iterator[None]:
    """Put the caches of libraries into a temporary folder and remove it at the end, unless the user names others.

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
    """Run the command that the words of the process name."""
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
    except OSError as error:  # an error of the system that no reader or writer of ours reported
        message = f"{error.filename}: {reason(error)}." if error.filename else f"{reason(error)}."
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        message = f"The machine has too little memory for this{detail}: use smaller inputs."
    else:
        return
    say(f"deepval: {one_line(message)}", err=True)
    sys.exit(2)
