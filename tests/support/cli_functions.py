"""Every command of the command line, by its words, and the function that it calls with
the types of its parameters.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from deepval.cli.commands import COMMANDS, flatten
from deepval.paper.analysis import ANALYSES, REPORT_ONLY


def functions() -> Iterator[tuple[str, Any]]:
    """Words and function of each command."""
    for names, prefix in (
        (COMMANDS, ""),
        ({name: "analyse" for name in ANALYSES if name not in REPORT_ONLY}, "analyse "),
    ):
        for name, module in names.items():
            made = getattr(
                import_module(f"deepval.cli.{module}"), name.replace("-", "_")
            )
            if callable(made) and hasattr(made, "__name__"):
                yield f"{prefix}{name}", made
            else:
                for inner in getattr(made, "registered_commands", []):
                    yield (
                        f"{name} {inner.name or inner.callback.__name__}",
                        inner.callback,
                    )


def parameters(kinds: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    """Command and option (or argument) of every parameter that takes one of these
    types, or several of them.
    """
    for words, option, _ in declarations(kinds):
        yield words, option


def declarations(kinds: tuple[type, ...]) -> Iterator[tuple[str, str, Any]]:
    """Command, option (or argument) and declaration of every parameter that takes one
    of these types.
    """
    for words, function in functions():
        for name, hint in get_type_hints(
            flatten(function), include_extras=True
        ).items():
            parts = get_args(hint)
            if len(parts) > 1 and kinds_of(parts[0]) & set(kinds):
                texts = (
                    getattr(parts[1], "default", None),
                    *(getattr(parts[1], "param_decls", None) or ()),
                )
                flags = [
                    text
                    for text in texts
                    if isinstance(text, str) and text.startswith("--")
                ]
                yield words, flags[0] if flags else name, parts[1]


def kinds_of(hint: Any) -> set[type]:
    """The plain types in an annotation."""
    if get_origin(hint) is None:
        return {hint} if hint in (int, float, Path, str) else set()
    return {kind for part in get_args(hint) for kind in kinds_of(part)}
