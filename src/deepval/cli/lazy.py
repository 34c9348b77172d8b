"""Names of commands and where each is written -> a group that imports the module of the command that is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from deepval.cli import bounds
from deepval.cli.interrupts import STOPPED, loading
from deepval.cli.saying import say
from deepval.cli.several import spread

LOOK: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
KEPT = {
    "perceive": "The units that are finished stay in the cache; the same command goes on after the last of them.",
    "planner": "What was trained up to the last checkpoint stays in the folder; the same command goes on from there.",
    "build": "Cells that are finished stay, whole; the same command makes the others and leaves those as they are.",
    "demo": "Cells and results that are finished stay, whole; the same command starts again and ends with the same.",
}
WHOLE = "Files are written whole or not at all: those finished stay, the others are as before. Run it again."
"""Message after Ctrl-C, by command and for all other commands: what stays, and how to continue."""


class GroupedCommand(TyperCommand):
    """A command whose help lists options by what they are about, and whose lists take several words at once."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help: arguments, then options under their headings, in the order of the first of each."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            if record is not None:
                panels.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
        for title in sorted(panels, key=lambda title: {"Arguments": 0, "Options": 2, "Output": 3}.get(title, 1)):
            with formatter.section(title):
                formatter.write_dl(panels[title])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; one that repeats an option may name it once: `-s a.csv b.csv`."""
        left = super().parse_args(ctx, _repeated(self.params, args))
        for param in self.params:
            if param.param_type_name == "option":
                bounds.check(param.opts[0], ctx.params.get(param.name or ""))
        bounds.check_outputs(ctx.info_name or "", {p.opts[0]: ctx.params.get(p.name or "") for p in self.params})
        return left


def _repeated(params: Sequence[Any], words: Sequence[str]) -> list[str]:
    """The words with `-s a b` expanded to `-s a -s b`, once all required arguments are there."""
    arguments = [param for param in params if param.param_type_name == "argument"]
    required = sum(bool(param.required) for param in arguments)
    endless = any(param.nargs < 0 for param in arguments)
    options_by_name = {text: param for param in params if param.param_type_name == "option" for text in param.opts}
    expanded: list[str] = []
    remaining, bare, repeatable = list(words), 0, ""
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*expanded, word, *remaining]
        if word.startswith("-") and len(word) > 1:
            option = options_by_name.get(word)
            takes = option is not None and not option.is_flag and not getattr(option, "count", False)
            repeatable = word if takes and option is not None and option.multiple else ""
            expanded.append(word)
            expanded += remaining[: int(takes)]
            remaining = remaining[int(takes) :]
        elif repeatable and bare >= required and not endless:
            expanded += [repeatable, word]
        else:
            bare, repeatable = bare + 1, ""
            expanded.append(word)
    return expanded


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


def lazy_group(modules: Mapping[str, str]) -> type[TyperGroup]:
    """The kind of group whose commands lie in these modules of the command line, as functions or groups by name."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands: Any = _Commands(modules)

        def invoke(self, ctx: Any) -> Any:
            """Run the command; where it is stopped, say what is kept and how to go on."""
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                if ctx.parent is not None:
                    raise
                say(f"\ndeepval: stopped. {KEPT.get(ctx.invoked_subcommand or '', WHOLE)}", err=True)
                raise typer.Exit(STOPPED) from None

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            """Names of commands without importing any; options as ever."""
            if incomplete.startswith("-"):
                return super().shell_complete(ctx, incomplete)
            return [completion_item(name) for name in modules if name.startswith(incomplete)]

    return LazyGroup


def completion_item(name: str) -> Any:
    """What a shell is offered; its class lies beside that of typer's contexts, in typer or in the click it brings."""
    home = typer.Context.__mro__[1].__module__.rpartition(".")[0]
    return import_module(f"{home}.shell_completion").CompletionItem(name)
