"""Names of commands and where each is written -> a group that imports the module of the command that is asked for."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

LOOK: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __init__(self, modules: Mapping[str, str], dressed: Callable[[Any], Any] | None) -> None:
        self.modules, self.dressed = modules, dressed

    def __getitem__(self, name: str) -> Any:
        made = getattr(import_module(f"deepval.cli.{self.modules[name]}"), name.replace("-", "_"))
        if isinstance(made, typer.Typer):
            group = typer.main.get_group(made)
            group.name = name
            return group
        alone = typer.Typer(**LOOK)
        alone.command(name)(made if self.dressed is None else self.dressed(made))
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)


def lazy_group(modules: Mapping[str, str], dressed: Callable[[Any], Any] | None = None) -> type[TyperGroup]:
    """The kind of group whose commands lie in these modules of the command line, as functions or groups by name.

    Args:
        modules: The module of each command.
        dressed: What gives every command the options that all of them have.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands: Any = _Commands(modules, dressed)

    return LazyGroup
