"""The commands of `deepval`, their options and help, and how one of them is run.

Bad input is one sentence and exit code 2. Commands share groups of options. Numbers
have limits, a repeatable option needs its name only once, and an output that would
replace an input is refused before any work.
"""

import inspect
import io
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from deepval import plugins
from deepval.cli.terminal import (
    STOPPED,
    loading,
    print_notes,
    say,
    say_note,
    temporary_caches,
)
from deepval.errors import (
    EXTRAS,
    InputError,
    InputWarning,
    as_number,
    missing_library,
    one_line,
    reason,
)
from deepval.files import reading
from deepval.version import __version__

EXACT = 2**53
"""Whole numbers up to this are exact as floats; the limit of options that declare
none.
"""
PANEL_ORDER = {"Arguments": 0, "Options": 2, "Workers": 3, "Output": 4}
"""Order of headings in the help; others come after the arguments."""

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
class OptionGroup:
    """Base of dataclasses whose fields are options that several commands share.

    Every field has the annotation of a typer option. A command takes the group as one
    parameter; a default value of that parameter replaces the defaults of the fields.
    """


def flatten(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one parameter per field of its option groups, as typer needs it.

    Parameters become keyword-only, because typer takes arguments in order of
    declaration.
    """
    groups: dict[str, type[OptionGroup]] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = parameter.annotation
        if not isinstance(kind, type) or not issubclass(kind, OptionGroup):
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name] = kind
        defaults: Mapping[str, Any] = (
            {} if parameter.default is parameter.empty else vars(parameter.default)
        )
        for field in fields(kind):
            usual = defaults.get(
                field.name,
                parameter.empty if field.default is MISSING else field.default,
            )
            option = inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=usual,
                annotation=field.type,
            )
            options += [option] if field.init else []
    if not groups:
        return command

    @wraps(command)
    def run(**values: Any) -> None:
        group_values = {
            name: kind(
                **{
                    field.name: values.pop(field.name)
                    for field in fields(kind)
                    if field.init
                }
            )
            for name, kind in groups.items()
        }
        command(**values, **group_values)

    vars(run)["__signature__"] = inspect.Signature(options)
    run.__annotations__ = {option.name: option.annotation for option in options} | {
        "return": None
    }
    return run


class GroupedCommand(TyperCommand):
    """A command with options under headings, limits on numbers, and lists that take
    several words at once.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help: arguments, then options under their headings, in the order of
        the first of each.
        """
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            if record is not None:
                panels.setdefault(
                    getattr(param, "rich_help_panel", None) or usual, []
                ).append(record)
        for title in sorted(panels, key=lambda title: PANEL_ORDER.get(title, 1)):
            with formatter.section(title):
                formatter.write_dl(panels[title])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; a repeatable option needs its name only once: `-s a.csv
        b.csv`.
        """
        words = _expand_lists(self.params, args)
        ctx.allow_extra_args = True  # they are refused below, with advice
        try:
            rest = super().parse_args(ctx, list(words))
        except typer.BadParameter as error:
            _refuse_number(error, words)
            raise
        if rest and not ctx.resilient_parsing:
            _refuse_extra(self.params, rest[0], ctx.command_path)
        for param in self.params:
            if param.param_type_name == "option" and param.callback is None:
                check_number(
                    param.opts[0], ctx.params.get(param.name or ""), (-EXACT, EXACT)
                )
        values = {
            param.opts[0]: ctx.params.get(param.name or "") for param in self.params
        }
        if any(values.get(option) is not None for option in OUTPUTS):
            check_outputs(ctx.info_name or "", values)
        return rest


def _refuse_extra(params: Sequence[Any], word: str, command: str) -> NoReturn:
    """Report an argument too many, with the option whose help names it or a similar
    word, or else a repeatable one.
    """
    arguments = [
        param.metavar or param.name
        for param in params
        if param.param_type_name == "argument"
    ]
    options = {
        text: param.opts[-1]
        for param in params[::-1]
        for text in re.findall(r"[\w-]{3,}", param.help or "")
    }
    near = get_close_matches(word, options, n=1, cutoff=0.8)
    several = [
        param.opts[-1]
        for param in params
        if param.param_type_name == "option" and param.multiple and arguments
    ]
    meant = [f"{options[text]} {text}" for text in near] or [
        f"{option} {word}" for option in several
    ]
    advice = f"did you mean {meant[0]}?" if meant else f"see {command} -h."
    takes = (
        f"the argument{'s' * (len(arguments) > 1)} {' '.join(arguments)} alone"
        if arguments
        else "options alone"
    )
    raise InputError(f"{command} takes {takes}; found {word!r} as well: {advice}")


def _refuse_number(error: typer.BadParameter, words: Sequence[str]) -> None:
    """Raise our own error if an option got a word that is no number; typer's message
    does not quote it.
    """
    whole = "valid integer" in error.message
    if error.param is None or not (whole or "valid number" in error.message):
        return
    pairs = [word.split("=", 1) for word in words if "=" in word]
    for name, value in (*pairs, *pairwise(words)):
        if name in error.param.opts:
            try:
                _ = int(value) if whole else float(value)
            except ValueError:
                kind = "a whole number" if whole else "a number"
                raise InputError(
                    f"{name} must be {kind}; found {value!r}{as_number(name, value)}"
                ) from error


def option(
    name: str,
    text: str,
    *,
    short: str | None = None,
    within: tuple[float, float] | None = None,
    words: Iterable[str] = (),
    panel: str | None = None,
) -> Any:
    """The declaration of an option.

    Args:
        name: Its name, such as --out.
        text: Its line in the help.
        short: Its short name, such as -o.
        within: The least and the greatest value of a number.
        words: The words that a shell offers for it.
        panel: Its heading in the help.
    """
    offered = list(words)
    return typer.Option(
        *((name,) if short is None else (name, short)),
        help=text,
        callback=None if within is None else limits(*within),
        autocompletion=(lambda: offered) if offered else None,
        rich_help_panel=panel,
    )


def limits(least: float = -math.inf, greatest: float = math.inf) -> Callable[..., Any]:
    """The least and the greatest value of a numeric option, as its `callback`."""

    def check(_ctx: Any, param: Any, value: Any) -> Any:
        check_number(param.opts[0], value, (least, greatest))
        return value

    return check


def check_number(option: str, value: Any, within: tuple[float, float]) -> None:
    """Raise if a number, or one in a list, lies outside the limits of its option."""
    least, greatest = within
    for number in value if isinstance(value, list | tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"{option} must be a finite number; found {number:g}.")
        if number < least:
            raise InputError(f"{option} must be {least:,} or more; found {number:,}.")
        if number > greatest:
            raise InputError(
                f"{option} must be at most {greatest:,}; found {number:,}."
            )


def _expand_lists(params: Sequence[Any], words: Sequence[str]) -> list[str]:
    """The words with `-s a b` expanded to `-s a -s b`, once all required arguments are
    there.
    """
    arguments = [param for param in params if param.param_type_name == "argument"]
    required = sum(bool(param.required) for param in arguments)
    endless = any(param.nargs < 0 for param in arguments)
    options_by_name = {
        text: param
        for param in params
        if param.param_type_name == "option"
        for text in param.opts
    }
    expanded: list[str] = []
    remaining, bare, repeatable = list(words), 0, ""
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*expanded, word, *remaining]
        if word.startswith("-") and len(word) > 1:
            option = options_by_name.get(word)
            takes = (
                option is not None
                and not option.is_flag
                and not getattr(option, "count", False)
            )
            repeatable = (
                word if takes and option is not None and option.multiple else ""
            )
            expanded.append(word)
            expanded += remaining[: int(takes)]
            remaining = remaining[int(takes) :]
        elif repeatable and bare >= required and not endless:
            expanded += [repeatable, word]
        else:
            bare, repeatable = bare + 1, ""
            expanded.append(word)
    return expanded


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


GROUPS: dict[str, dict[str, str]] = {
    "Judge scores": {
        "evaluate": "evaluate",
        "report": "report_page",
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
        "diagnose": "routers",
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
        if isinstance(command, typer.Typer):
            group = typer.main.get_group(command)
            group.name = cmd_name
            return group
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
    else:
        return
    finally:
        print_notes()
    say(f"deepval: {one_line(message)}", err=True)
    sys.exit(2)
