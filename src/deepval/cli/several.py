"""A parameter of a command that stands for several options -> those options, and one value made of what is given.

Options that belong together are the fields of one frozen dataclass; what they come to, and whether they fit together,
is said there once for all commands that take them.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Several:
    """Options as fields, each annotated as typer wants it; a command says other defaults by a default of its own."""


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every field of its parameters that stand for several."""
    parameters = inspect.signature(command).parameters
    groups = {name: parameter.annotation for name, parameter in parameters.items() if _is_several(parameter.annotation)}
    if not groups:
        return command

    @wraps(command)
    def run(**named: Any) -> None:
        group_values = {
            name: kind(**{f.name: named.pop(f.name) for f in _init_fields(kind)}) for name, kind in groups.items()
        }
        command(**named, **group_values)

    options = [option for parameter in parameters.values() for option in _options(parameter)]
    vars(run)["__signature__"] = inspect.Signature(options)
    run.__annotations__ = {option.name: option.annotation for option in options} | {"return": None}
    return run


def _is_several(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Several)


def _init_fields(kind: type[Several]) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init]


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The options that a parameter stands for; keyword-only, as typer takes arguments in order of declaration."""
    if not _is_several(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    other: Mapping[str, Any] = {} if parameter.default is parameter.empty else vars(parameter.default)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=other.get(field.name, parameter.empty if field.default is MISSING else field.default),
            annotation=field.type,
        )
        for field in _init_fields(parameter.annotation)
    ]
