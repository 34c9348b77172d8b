"""The commands of `deepval` by name, and how one of them is run.

Every command is a plain function: cyclopts makes its options from the signature, and
their help from the docstring. The first sentence of a help stands here, because the
list of all commands must import none of them: its module is imported when it is called.
"""

import inspect
import io
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnusedCliTokensError,
    ValidationError,
)
from cyclopts.help import DefaultFormatter, PanelSpec
from rich import box

from deepval.basics.errors import (
    EXTRAS,
    InputError,
    InputWarning,
    arguments_as,
    as_number,
    missing_library,
    one_line,
    reason,
    suggestion,
)
from deepval.cli.options import OTHERS, option_of
from deepval.cli.outputs import check_outputs
from deepval.cli.terminal import (
    STOPPED,
    loading,
    print_notes,
    say,
    say_note,
    temporary_caches,
)
from deepval.version import __version__

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Judge scores": {
        "evaluate": (
            "evaluate:evaluate",
            "What to run: an allocator, one fixed mode, or not settled.",
        ),
        "report": (
            "report:report",
            "Write an HTML page of results, or figures for a paper.",
        ),
        "threshold": (
            "routers:threshold",
            "Choose the score threshold for a budget; write a router.",
        ),
        "compare": (
            "compare:compare",
            "Compare two allocators on the same units, or gate a change.",
        ),
        "watch": (
            "watch:watch",
            "Watch a running router: alarm when a claim fails.",
        ),
        "shadow": (
            "routers:shadow",
            "Plan which inputs run both modes, to judge a running system.",
        ),
        "import": (
            "routers:import_log",
            "Turn a log of models into a values file.",
        ),
    },
    "Build cells, fit and score allocators": {
        "example": (
            "example:example",
            "Write small files to try the commands on.",
        ),
        "demo": (
            "demo:demo",
            "Build, fit, judge and report a synthetic world.",
        ),
        "detect": (
            "detect:detect",
            "Run a detector over images at several resolutions.",
        ),
        "build": (
            "build_cells:build",
            "Build cells from a data set and two or more modes.",
        ),
        "cells": (
            "official:cells",
            "List the cells of tracks, missing data and build commands.",
        ),
        "fit": (
            "fit_allocators:fit",
            "Fit allocators on a cell.",
        ),
        "export": (
            "fit_allocators:export_fitted",
            "Write a fitted allocator as an ONNX graph.",
        ),
        "score": (
            "fit_allocators:score",
            "Score a cell's inputs by an allocator or a signal.",
        ),
        "profile": (
            "fit_allocators:profile",
            "Measure the cost of an allocator per input.",
        ),
        "drive": (
            "drive:drive",
            "Drive in closed loop, on logs or in the synthetic world.",
        ),
    },
    "Analyse cells and reproduce the paper": {
        "analyse": (
            "analyse:analyse",
            "Run an analysis of the paper on built cells.\n\n"
            "Example: deepval analyse seeds cells/braking-monocular "
            "-a router-mlp-value\n\n"
            "On a whole track: deepval analyse signs kitti-public --data data "
            "--work work",
        ),
        "table": (
            "table:table",
            "Print a table of the paper with the figures of cells.",
        ),
        "reproduce": (
            "official:reproduce",
            "Run the paper's analyses and compare with its results.",
        ),
    },
    "Leaderboard": {
        "leaderboard": (
            "official:leaderboard",
            "Rank a folder of submissions.",
        ),
        "check": (
            "official:check",
            "Check a submission as scoring does.",
        ),
    },
}
"""The module and function of each command and the first sentence of its help, by
heading of the list.
"""
COMMANDS = [name for group in GROUPS.values() for name in group]
RENAMED = {
    "perceive": "detect",
    "fit --export": "export",
    "leaderboard --check": "check",
}
"""Commands that had another name."""

SHORT_JSON = {"--json": "--format=json"}
"""Another word for JSON, which no help shows."""

AFTER_STOP = {
    "detect": (
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


def _default_text(value: Any) -> str | None:
    """A default as the help shows it; nothing for what is left out or off."""
    if value is None or value is False or value in ((), []):
        return None
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)


app = App(
    name="deepval",
    help=(
        "Is the expensive model worth it, and on which inputs?"
        "\n\nA first run, on files that it writes: deepval example"
    ),
    help_flags=("-h", "--help"),
    version=f"deepval {__version__}",
    version_flags=("--version",),
    group_parameters=OTHERS,
    help_formatter=DefaultFormatter(
        panel_spec=PanelSpec(box=box.SIMPLE_HEAD, padding=0)
    ),
    default_parameter=Parameter(
        consume_multiple=(1, None),  # -s a.csv b.csv
        negative=(),  # no --no-json, no --empty-scores
        allow_repeating=True,  # the last one counts
        json_dict=False,
        json_list=False,  # a file may be called [a].csv
        show_default=_default_text,
    ),
)
for _flag in ("--help", "--version"):
    app[_flag].group = OTHERS
app.register_install_completion_command(group=OTHERS)
for _heading, _functions in GROUPS.items():
    _group = Group.create_ordered(_heading)
    for _name, (_function, _summary) in _functions.items():
        app.command(
            f"deepval.cli.{_function}",
            name=_name,
            help=_summary,
            group=_group,
            sort_key=COMMANDS.index(_name),
        )


def call(words: Sequence[str]) -> int:
    """Call the command that these words name; its exit code."""
    for old, new in RENAMED.items():
        if set(old.split()) <= set(words) and words[0] == old.split()[0]:
            raise InputError(f"`deepval {old}` is now `deepval {new}`: see its -h.")
    _check_name(words[:1], COMMANDS, "command")
    if words[:1] == ["analyse"]:
        _check_name(words[1:2], list(app["analyse"]), "analysis")
    words = [SHORT_JSON.get(word, word) for word in words]
    try:
        with loading():
            _complete_help(words)
            function, bound, _ = app.parse_args(
                words, exit_on_error=False, print_error=False, verbose=False
            )
    except CycloptsError as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        raise InputError(_sentence(error)) from error
    if words:
        check_outputs(words[0], dict(_values(bound.arguments)))
    # Refusals and notes of the library then name options.
    with arguments_as(option_of):
        code = function(*bound.args, **bound.kwargs)
    # Without a command, what is printed is the help.
    return 2 if list(words) in ([], ["analyse"]) else code or 0


def _check_name(first: Sequence[str], names: Sequence[str], noun: str) -> None:
    """Raise if the first word is no name: cyclopts would import every command before
    it suggests one.
    """
    for word in first:
        if word not in names and not word.startswith("-"):
            raise InputError(f"There is no {noun} {word!r}{suggestion(word, names)}")


def _complete_help(words: Sequence[str]) -> None:
    """Import what a help shows beside the table of commands."""
    names = [word for word in words if word not in app.help_flags]
    # The list of commands has no markup, whose reader takes longer than all else.
    app.help_format = "restructuredtext" if names else "plaintext"
    if not names or names[0] not in COMMANDS:
        return
    command = app[names[0]]
    if command.default_command is not None:
        summary, *_ = command.help.partition("\n\n")
        details = inspect.getdoc(command.default_command)
        command.help = f"{summary}\n\n{details}"
    elif len(names) == 1:
        # The list of analyses: their first sentences stand in their modules.
        for name in list(command):
            _ = command[name]


def _sentence(error: CycloptsError) -> str:
    """What is wrong with the words of a command, and what to do."""
    help_command = " ".join(["deepval", *(error.command_chain or ()), "-h"])
    if isinstance(error, UnusedCliTokensError):
        (word, *_) = error.unused_tokens or [""]
        return f"There is no argument for {word!r}: see {help_command}."
    argument = error.argument
    if argument is None:
        return f"{error} See {help_command}."
    if isinstance(error, MissingArgumentError):
        if error.keyword is not None:
            return f"{error.keyword} must have a value: see {help_command}."
        where = ""
        if argument.field_info.is_positional:
            where = ", before any option that takes a list"
        return f"{argument.name} must be given{where}: see {help_command}."
    if isinstance(error, ValidationError):
        return f"{argument.name} {error.exception_message}"
    if isinstance(error, CoercionError) and error.token is not None:
        advice = as_number(argument.name, error.token.value)
        if advice != ".":
            return (
                f"{argument.name} must be a number; found {error.token.value!r}{advice}"
            )
    return f"{error} See {help_command}."


def _values(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The stated values by option, those in groups of options too."""
    for name, value in values.items():
        if is_dataclass(value):
            yield from _values(vars(value))
        else:
            yield f"--{name}", value


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    label = "note" if issubclass(category, InputWarning) else "warning"
    say_note(f"deepval: {label}: {one_line(message)}")


def _machine_complaint(error: BaseException) -> str | None:
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


def run() -> int:
    """Run the command that the words of the process name; its exit code."""
    warnings.showwarning = _warn
    # characters that the terminal's encoding lacks are escaped
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:]
    try:
        with temporary_caches():
            return call(words)
    except InputError as error:
        message = str(error)
    except ModuleNotFoundError as error:
        if (package := (error.name or "").partition(".")[0]) not in EXTRAS:
            raise
        message = str(missing_library(package))
    except KeyboardInterrupt:
        advice = AFTER_STOP.get("".join(words[:1]), AFTER_STOP_ELSEWHERE)
        say(f"\ndeepval: stopped. {advice}", err=True)
        return STOPPED
    except BrokenPipeError:
        raise  # `main` ends the process without a message
    except (Exception, SystemExit) as error:
        # The user's own code must not end a command as if it were done.
        from deepval.basics import plugins

        message = plugins.complaint(error) or _machine_complaint(error)
        if message is None:
            raise
    finally:
        print_notes()
    say(f"deepval: {one_line(message)}", err=True)
    return 2
