"""A plain function as a command: cyclopts makes its options from the signature and
their help from the docstring; wrong words are one sentence.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from inspect import getdoc
from shutil import get_terminal_size
from types import NoneType
from typing import Any, Literal, NoReturn, get_args, get_origin

from cyclopts import (
    App,
    Argument,
    ArgumentCollection,
    CycloptsError,
    Parameter,
)
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

from deepval.cli import options
from deepval.cli.terminal import NARROWEST, write
from deepval.cli.words import (
    OUTPUTS,
    Declared,
    check_outputs,
    expand_lists,
    refuse_extra,
    refuse_number,
)
from deepval.errors import InputError, suggestion

HELP = ("-h", "--help")
WIDEST = 80
"""Columns of a help."""


@dataclass(frozen=True)
class Command:
    """A plain function that is called with the words of a command line."""

    name: str
    function: Callable[..., int | None]

    @property
    def path(self) -> str:
        """The words before its own."""
        return f"deepval {self.name}"

    @cached_property
    def app(self) -> App:
        """The function as cyclopts sees it."""
        app = App(
            name=self.path,
            help_flags=(),
            version_flags=(),
            group_arguments=options.ARGUMENTS,
            group_parameters=options.OTHERS,
            default_parameter=Parameter(
                negative=(),  # no --no-json, no --empty-scores
                allow_repeating=True,  # the last one counts
                json_dict=False,
                json_list=False,  # a file may be called [a].csv
            ),
        )
        app.default(self.function)
        return app

    @cached_property
    def arguments(self) -> ArgumentCollection:
        """Its arguments and options; a group of options is none itself."""
        collection = self.app.assemble_argument_collection(parse_docstring=True)
        return collection.filter_by(show=True)

    @cached_property
    def declared(self) -> list[Declared]:
        """Its arguments and options, as `words` needs them."""
        return [_declared(argument) for argument in self.arguments]

    @property
    def help(self) -> str:
        """What it does, and its arguments and options under their headings."""
        columns = max(NARROWEST, min(WIDEST, get_terminal_size().columns))
        arguments = [part.names[0] for part in self.declared if part.is_argument]
        parts = [f"Usage: {self.path} [OPTIONS] {' '.join(arguments)}"]

        description, _, _ = (getdoc(self.function) or "").partition("\n\nArgs:")
        for paragraph in description.split("\n\n"):
            text = textwrap.fill(" ".join(paragraph.split()), columns - 2)
            parts.append(textwrap.indent(text, "  "))

        groups = {group.name: group for group in self.arguments.groups}
        for heading in options.HEADINGS:
            rows = []
            if heading in groups:
                below = self.arguments.filter_by(group=groups[heading])
                rows = [_row(argument) for argument in below]
            if heading == options.OTHERS:
                rows.append((", ".join(HELP), "Show this message and exit."))
            if rows:
                parts.append(f"{heading}:\n{_table(rows, columns)}")
        return "\n\n".join(parts)

    def call(self, words: Sequence[str]) -> int:
        """Call the function with these words; its exit code."""
        before_end = words[: words.index("--")] if "--" in words else words
        if any(word in HELP for word in before_end):
            write(self.help + "\n")
            return 0
        expanded = expand_lists(self.declared, words)
        try:
            function, bound, _ = self.app.parse_args(
                expanded, exit_on_error=False, print_error=False
            )
        except CycloptsError as error:
            self._refuse(error)
        values = dict(_values(bound.arguments))
        if any(values.get(option) is not None for option in OUTPUTS):
            check_outputs(self.name, values)
        return function(*bound.args, **bound.kwargs) or 0

    def complete(self, words: Sequence[str], incomplete: str) -> list[str]:
        """What a shell offers after these words: options, or the choices of one."""
        names = [name for part in self.declared for name in part.names]
        if incomplete.startswith("-"):
            offered = ["--help", *(name for name in names if name.startswith("--"))]
        else:
            last = self.arguments.get(words[-1], None) if words else None
            offered = [] if last is None else last.get_choices(force=True) or ()
        return [word for word in offered if word.startswith(incomplete)]

    def _refuse(self, error: CycloptsError) -> NoReturn:
        """Report wrong words in one sentence."""
        help_command = f"{self.path} -h"
        if isinstance(error.__cause__, InputError):
            raise error.__cause__
        if isinstance(error, UnknownOptionError):
            name = error.token.keyword or error.token.value
            names = [name for part in self.declared for name in part.names]
            advice = suggestion(name, [name for name in names if name.startswith("--")])
            if advice == ".":
                advice = f": see {help_command}."
            raise InputError(f"{self.path} has no option {name}{advice}") from error
        if isinstance(error, UnusedCliTokensError):
            refuse_extra(self.declared, (error.unused_tokens or [""])[0], self.path)

        argument = error.argument
        if argument is None:
            raise InputError(f"{error} See {help_command}.") from error
        if isinstance(error, MissingArgumentError):
            if error.keyword is not None:
                raise InputError(
                    f"{error.keyword} must have a value: see {help_command}."
                ) from error
            (name, *_) = _declared(argument).names
            raise InputError(f"{name} must be given: see {help_command}.") from error
        if isinstance(error, ValidationError):
            raise InputError(f"{argument.name} {error.exception_message}") from error
        if isinstance(error, CoercionError):
            _refuse_value(argument, error)
        raise InputError(f"{error} See {help_command}.") from error


def _refuse_value(argument: Argument, error: CoercionError) -> NoReturn:
    """Report a word that cannot be the value of an option."""
    if error.token is None:
        raise InputError(f"{argument.name} must stand alone, without a value.")
    name = error.token.keyword or argument.name
    text = error.token.value
    kinds = set(_kinds(argument.hint))
    if bool in kinds:
        raise InputError(f"{name} must stand alone; found {text!r} as its value.")
    choices = argument.get_choices(force=True)
    if choices:
        options.one_of(text, choices, name)
    refuse_number(name, text, whole=float not in kinds)


def _kinds(hint: Any) -> Iterator[Any]:
    """The plain types in an annotation, beside None."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if hint is not NoneType:
            yield hint
    elif get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from _kinds(part)


def _declared(argument: Argument) -> Declared:
    """An argument or option; its text ends with the words that it may be."""
    _, takes_several = argument.token_count()
    is_argument = argument.field_info.is_positional
    names = argument.names
    if is_argument:
        names = (argument.parameter.metavar or argument.field_info.names[0],)
    text = argument.parameter.help or ""
    choices = argument.get_choices()
    if choices:
        text += f" [{', '.join(choices)}]"
    return Declared(
        names,
        text=text,
        is_argument=is_argument,
        is_flag=argument.is_flag(),
        is_repeatable=takes_several,
        is_required=argument.required,
    )


def _values(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The stated values by option, those in groups of options too."""
    for name, value in values.items():
        if is_dataclass(value):
            yield from _values(vars(value))
        else:
            yield f"--{name}", value


def _row(argument: Argument) -> tuple[str, str]:
    """An argument or option in the help: its names and the kind of its value, and what
    it does.
    """
    declared = _declared(argument)
    label = ", ".join(sorted(declared.names, key=len))  # -o, --out
    if not declared.is_argument and not declared.is_flag:
        kind = next(_kinds(argument.hint), str)  # the words of a choice are text
        label += f" {kind.__name__.upper()}{'...' * declared.is_repeatable}"

    text = declared.text
    # Of a value that is left out, the text says what happens instead.
    default = argument.field_info.default
    if argument.required:
        text += " [required]"
    elif default is not None and default is not False and default != ():
        text += f" [default: {default}]"
    return label, text


def _table(rows: Sequence[tuple[str, str]], columns: int) -> str:
    """Labels with texts beside them."""
    widest = max(len(label) for label, _ in rows)
    lines = [
        textwrap.fill(
            text,
            columns,
            initial_indent=f"  {label:{widest}}  ",
            subsequent_indent=" " * (widest + 4),
            break_on_hyphens=False,
        )
        for label, text in rows
    ]
    return "\n".join(lines)
