"""Every command of the command line, by its words, and its arguments and options,
whichever library reads them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from deepval.cli.commands import COMMANDS, FUNCTIONS
from deepval.cli.functions import Command
from deepval.cli.typer_commands import flatten
from deepval.paper.analysis import ANALYSES, REPORT_ONLY


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command."""

    names: tuple[str, ...]
    """Of an option: --out, -o."""
    kinds: set[type]
    """The plain types of its values."""
    is_limited: bool
    """Whether it declares the limits of a number."""


def functions() -> Iterator[tuple[str, Any]]:
    """Words and function of each command."""
    analyses = {name: "analyse" for name in ANALYSES if name not in REPORT_ONLY}
    for names, prefix in ((COMMANDS, ""), (analyses, "analyse ")):
        for name, module in names.items():
            made = getattr(
                import_module(f"deepval.cli.{module}"), name.replace("-", "_")
            )
            if callable(made) and hasattr(made, "__name__"):
                yield f"{prefix}{name}", made


def parameters(words: str, function: Any) -> list[Parameter]:
    """The arguments and options of a command."""
    if COMMANDS.get(words) in FUNCTIONS:
        return [
            Parameter(
                argument.names or (argument.field_info.name,),
                kinds_of(argument.hint),
                is_limited=bool(argument.parameter.validator),
            )
            for argument in Command(words, function).arguments
        ]
    hints = get_type_hints(flatten(function), include_extras=True)
    found = []
    for name, hint in hints.items():
        kind, *rest = get_args(hint) or (hint,)
        if not rest:
            continue
        (info, *_) = rest
        texts = (
            getattr(info, "default", None),
            *(getattr(info, "param_decls", None) or ()),
        )
        names = [
            text for text in texts if isinstance(text, str) and text.startswith("-")
        ]
        found.append(
            Parameter(
                tuple(names) or (name,),
                kinds_of(kind),
                is_limited=getattr(info, "callback", None) is not None,
            )
        )
    return found


def of_kinds(*kinds: type) -> Iterator[tuple[str, Parameter]]:
    """Command and option of every option that takes one of these types, or several of
    them.
    """
    for words, function in functions():
        for parameter in parameters(words, function):
            is_option = parameter.names[0].startswith("-")
            if is_option and parameter.kinds & set(kinds):
                yield words, parameter


def kinds_of(hint: Any) -> set[type]:
    """The plain types in an annotation."""
    if get_origin(hint) is None:
        return {hint} if hint in (int, float, Path, str) else set()
    return {kind for part in get_args(hint) for kind in kinds_of(part)}
