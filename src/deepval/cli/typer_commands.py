"""Commands of typer: groups of options as dataclasses, options under headings, and the
options that several of them share.

These commands will be written anew as plain functions (`functions`); until then
they are read by typer behind the same entry point.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from deepval.cli.options import BUDGETS, INTERVALS, OUTPUT, SUBJECT, draw_number
from deepval.cli.words import (
    EXACT,
    OUTPUTS,
    Declared,
    check_number,
    check_outputs,
    expand_lists,
    refuse_extra,
    refuse_number,
)
from deepval.judging.allowances import RAILS
from deepval.tables.costs import PROFILES
from deepval.workers import BACKENDS, LOCAL, Map, mapping

WORKERS = "Workers"
PANEL_ORDER = {"Arguments": 0, "Options": 2, "Workers": 3, "Output": 4}
"""Order of headings in the help; others come after the arguments."""


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

    @property
    def declared(self) -> list[Declared]:
        """Its arguments and options."""
        return declared(self.params)

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
        own = self.declared
        words = expand_lists(own, args)
        ctx.allow_extra_args = True  # they are refused below, with advice
        try:
            rest = super().parse_args(ctx, list(words))
        except typer.BadParameter as error:
            _refuse_number(error, words)
            raise
        if rest and not ctx.resilient_parsing:
            refuse_extra(own, rest[0], ctx.command_path)
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


def declared(params: Iterable[Any]) -> list[Declared]:
    """The arguments and options of a command."""
    parts = []
    for param in params:
        if param.param_type_name == "argument":
            part = Declared(
                (param.metavar or param.name,),
                is_argument=True,
                is_repeatable=param.nargs < 0,
                is_required=param.required,
            )
        else:
            part = Declared(
                (*param.opts, *param.secondary_opts),
                text=param.help or "",
                is_flag=param.is_flag or param.count,
                is_repeatable=param.multiple,
            )
        parts.append(part)
    return parts


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
                refuse_number(name, value, whole=whole)


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


CostFile = Annotated[
    Path | None,
    option(
        "--costs",
        "Costs of modes and allocators: a .toml file or a profile "
        f"({', '.join(PROFILES)}). Default: the cell's.",
        panel=SUBJECT,
    ),
]
Alphas = Annotated[
    list[float] | None,
    option(
        "--alpha",
        "Budget share in (0, 1]. Repeatable. Default: 0.1, 0.2, 0.3, 0.5.",
        within=(-math.inf, math.inf),  # a share, which the budget checks
        panel=BUDGETS,
    ),
]
Rails = Annotated[
    str | None,
    option(
        "--rails",
        "Energy convention: mj (module, the default), mj_gpu, mj_all.",
        words=RAILS,
        panel=BUDGETS,
    ),
]
Seed = Annotated[
    int, option("--seed", "Random seed.", within=(0, 2**63 - 1), panel=INTERVALS)
]
Units = Annotated[
    str | None, option("--units", "Units: a,b,c or a file with one per line.")
]
DataFolder = Annotated[
    Path | None,
    option(
        "--data", "Folder with the data sets of tracks: kitti_tracking, nuscenes, ..."
    ),
]
WorkFolder = Annotated[
    Path,
    option(
        "--work", "Folder for cells and stored work; a stopped run continues there."
    ),
]
Json = Annotated[bool, option("--json", "Print JSON.", panel=OUTPUT)]


@dataclass(frozen=True)
class TyperDraws(OptionGroup):
    """The draws of units behind intervals."""

    draws: Annotated[
        str,
        option(
            "--draws",
            "Number of bootstrap draws of units, or 'exact'.",
            panel=INTERVALS,
        ),
    ] = "1000"
    seed: Seed = 0

    @property
    def number(self) -> int | Literal["exact"]:
        """Number of draws, or "exact"."""
        return draw_number(self.draws)


@dataclass(frozen=True)
class Workers(OptionGroup):
    """How many workers share the units, and where they run."""

    workers: Annotated[
        int,
        option("--workers", "Number of workers.", within=(1, 1_024), panel=WORKERS),
    ] = 1
    backend: Annotated[
        str,
        option(
            "--backend",
            "loky (processes of this machine) or ray (a cluster).",
            words=BACKENDS,
            panel=WORKERS,
        ),
    ] = LOCAL

    def start(self) -> AbstractContextManager[Map]:
        """The map over units, to be used in a `with` statement."""
        return mapping(self.workers, self.backend)
