"""The commands of `deepval` by name, and how one of them is run.

A command is a plain function (`functions`), or one of typer (`typer_commands`) that is
still to be written anew. Both stand behind the same entry point.
"""

import io
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from deepval import plugins
from deepval.cli.functions import Command
from deepval.cli.terminal import (
    STOPPED,
    loading,
    print_notes,
    say,
    say_note,
    temporary_caches,
)
from deepval.cli.words import Declared
from deepval.errors import (
    EXTRAS,
    InputError,
    InputWarning,
    missing_library,
    one_line,
    reason,
)
from deepval.version import __version__

GROUPS: dict[str, dict[str, str]] = {
    "Judge scores": {
        "evaluate": "evaluate",
        "report": "report",
        "threshold": "routers",
        "compare": "compare",
        "watch": "watch",
        "shadow": "routers",
    },
    "Build cells, fit and score allocators": {
        "demo": "demo",
        "perceive": "run_models",
        "build": "build_cells",
        "fit": "fit_allocators",
        "score": "fit_allocators",
        "profile": "fit_allocators",
        "import": "routers",
    },
    "Analyse cells and reproduce the paper": {
        "analyse": "analyse",
        "reproduce": "official",
        "drive": "drive",
    },
    "Leaderboard": {
        "cells": "official",
        "leaderboard": "official",
    },
}
"""The module of this package that defines each command, by heading of the help."""
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}
FUNCTIONS = ("evaluate", "report", "routers", "compare", "watch")
"""Modules whose commands are plain functions."""

LOOK: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
AFTER_STOP = {
    "perceive": (
        "Finished units stay in the cache. Run the same command "
        "to continue after the last one."
    ),
    "build": "Finished cells stay. Run the same command to build the others.",
    "demo": (
        "Finished cells and results stay. Run the same command to start again; the "
        "output is the same."
    ),
}
"""Message after Ctrl-C, by command."""
AFTER_STOP_ELSEWHERE = (
    "Finished files stay, unfinished files are not written. Run the same command again."
)

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""Base class of errors about the words of a command, which typer defines in a private
module.
"""


class FunctionCommand(TyperCommand):
    """A plain function in a group of commands; cyclopts reads its words."""

    def __init__(self, command: Command) -> None:
        super().__init__(
            command.name, help=getdoc(command.function), add_help_option=False
        )
        self.command = command

    @property
    def declared(self) -> list[Declared]:
        """Its arguments and options."""
        return self.command.declared

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave the words to the function."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: Any) -> None:
        """Call the function; its exit code is that of the process."""
        code = self.command.call(ctx.args)
        if code:
            raise typer.Exit(code)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Options, or the choices of the last one."""
        words = self.command.complete(ctx.args, incomplete)
        return [_completion_item(word) for word in words]


class LazyGroup(TyperGroup):
    """Commands that are imported on request: modules by command, under the headings of
    the help.
    """

    groups: Mapping[str, Mapping[str, str]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Names of modules, for the list of names; `get_command` makes the commands.
        self.commands: Any = {
            name: module
            for group in self.groups.values()
            for name, module in group.items()
        }

    def main(self, *args: Any, prog_name: str | None = None, **settings: Any) -> Any:
        """Run the words; the program is called deepval, whatever program runs it."""
        return super().main(*args, prog_name=prog_name or "deepval", **settings)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, imported now; None if there is none."""
        if cmd_name not in self.commands:
            return None
        with loading():
            command = getattr(
                import_module(f"deepval.cli.{self.commands[cmd_name]}"),
                cmd_name.replace("-", "_"),
            )
        if self.commands[cmd_name] in FUNCTIONS:
            return FunctionCommand(Command(cmd_name, command))
        if isinstance(command, typer.Typer):
            group = typer.main.get_group(command)
            group.name = cmd_name
            return group
        # Imported here: it loads more of the library than help needs.
        from deepval.cli.typer_commands import GroupedCommand, flatten

        alone = typer.Typer(**LOOK)
        alone.command(cmd_name, cls=GroupedCommand)(flatten(command))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first sentence of every command under its heading."""
        longest = max(map(len, self.commands))
        for heading, names in self.groups.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name.ljust(longest), _summary(self.get_command(ctx, name)))
                        for name in names
                    ]
                )

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the command; wrong ones are one sentence."""
        try:
            return super().parse_args(ctx, args)
        except USAGE_ERROR as error:
            _refuse_words(error)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; wrong words are one sentence; after Ctrl-C print what stays
        and how to continue.
        """
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            _refuse_words(error)
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
        return [
            _completion_item(name)
            for name in self.commands
            if name.startswith(incomplete)
        ]


def lazy_group(groups: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """A group of the commands under these headings."""
    return type("LazyGroup", (LazyGroup,), {"groups": groups})


def _refuse_words(error: Any) -> NoReturn:
    """Report wrong words of a command line in one sentence; a request for help is no
    error.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    sentence = error.format_message()
    path = "deepval" if error.ctx is None else error.ctx.command_path
    is_question = sentence.endswith("?")  # "Did you mean ...?"
    raise InputError(
        sentence if is_question else f"{sentence.rstrip('.')} (help: {path} -h)."
    ) from error


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
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True)
    ] = False,
) -> None:
    """Decision Evaluation for Escalated Perception: is the expensive mode worth it?

    A first run: deepval evaluate values.csv -s scores.csv
    """
    if version:
        typer.echo(f"deepval {__version__}")
        raise typer.Exit


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    label = "note" if issubclass(category, InputWarning) else "warning"
    say_note(f"deepval: {label}: {one_line(message)}")


def _machine_complaint(error: Exception) -> str | None:
    """A sentence about an error of the system that no reader or writer of ours
    reported; None for other errors.
    """
    if isinstance(error, OSError):
        return (
            f"{error.filename}: {reason(error)}."
            if error.filename
            else f"{reason(error)}."
        )
    if not isinstance(error, MemoryError):
        return None
    detail = f" ({error})" if str(error) else ""
    return f"The machine has too little memory for this{detail}: use smaller inputs."


def run() -> None:
    """Run the command that the words of the process name."""
    warnings.showwarning = _warn
    # characters that the terminal's encoding lacks are escaped
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with temporary_caches():
            app()
    except InputError as error:
        message = str(error)
    except ModuleNotFoundError as error:
        if (package := (error.name or "").partition(".")[0]) not in EXTRAS:
            raise
        message = str(missing_library(package))
    except KeyboardInterrupt:
        say("\ndeepval: stopped.", err=True)
        sys.exit(STOPPED)
    except BrokenPipeError:
        raise  # `main` ends the process without a message
    except Exception as error:
        message = plugins.complaint(error) or _machine_complaint(error)
        if message is None:
            raise
    except SystemExit as end:
        # the user's own code must not end a command as if it were done
        message = plugins.complaint(end)
        if message is None:
            raise
    else:
        return
    finally:
        print_notes()
    say(f"deepval: {one_line(message)}", err=True)
    sys.exit(2)
