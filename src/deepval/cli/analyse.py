"""`deepval analyse NAME`: a command for every declared analysis, with options from the parts and settings it takes."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from deepval.cells.judgement import shared_seeds
from deepval.cells.spec import ROLES
from deepval.cli import options
from deepval.cli.analysis_options import Cells, Charges, ReadAgain, Shown
from deepval.cli.commands import LOOK, OptionGroup, lazy_group, limits
from deepval.cli.options import DrawOptions, Workers
from deepval.cli.terminal import watch
from deepval.errors import InputError
from deepval.files.writing import check_writable
from deepval.judging.budgets import Selection
from deepval.paper.analysis import ALPHAS, ANALYSES, GROUPS, REPORT_ONLY, Analysis, Option, analysis
from deepval.paper.parts import PARTS, CellAtHand, Choices
from deepval.paper.run import rows_of
from deepval.results import Result


def units_of(text: str) -> str | list[str]:
    """Units by role or by name."""
    return text if text in ROLES else options.unit_list(text, ROLES) or text


def _recipes(names: Sequence[str]) -> Sequence[str]:
    from deepval.allocators import recipe_by_name

    for name in names:
        recipe_by_name(name)
    return names


SETTINGS: dict[str, tuple[Any, Option]] = {
    "units": (str, Option("Units to include: all, test, validation, train, fit, or a,b,c.", read=units_of)),
    "alpha": (
        float,
        Option(
            "Share of inputs that may be escalated.", limits=ALPHAS.limits, read=lambda alpha: Selection(alpha).alpha
        ),
    ),
    "alphas": (list[float], ALPHAS),
    "recipes": (list[str], Option("Allocator to fit, by recipe. Repeatable.", ("--allocator", "-a"), read=_recipes)),
}
"""Options of arguments that several analyses have, by the name of the argument."""
FIGURE = Option("The figure to write (.pdf, .png).")
PART_GROUPS: dict[str, tuple[str, type[OptionGroup]]] = {
    "draws": ("drawn", DrawOptions),
    "charges": ("charges", Charges),
    "data": ("again", ReadAgain),
}
"""Argument and class of the option groups of parts."""


def command(declared: Analysis) -> Callable[..., None]:
    """The command of an analysis."""
    parts = [PARTS[part] for part in declared.takes.values()]
    groups = dict(PART_GROUPS[name] for part in parts for name in part.groups)
    choices = {name: item for part in parts for name, item in part.options.items()}
    own = {name: _setting(declared, name) for name in declared.settings if name not in SUPPLIED}
    if {"draws", "seed"} <= declared.parameters.keys():
        groups["drawn"] = DrawOptions
    if "map_fits" in declared.parameters:
        groups["workers"] = Workers
    saved = next((part.saved for part in parts if part.saved), None)
    parameters = [_parameter("sources", _cells(saved))]
    parameters += [_option(name, item.kind, item.option, item.default) for name, item in choices.items()]
    parameters += [_option(f"own_{name}", *item, declared.settings[name]) for name, item in own.items()]
    parameters += [_parameter(name, kind) for name, kind in groups.items()]
    if declared.figure is not None:
        parameters.append(_option("figure", Path | None, FIGURE, None))
    parameters.append(_parameter("output", Shown))

    def run(**values: Any) -> None:
        options = {name: item.option for name, item in choices.items()}
        options |= {f"own_{name}": option for name, (_, option) in own.items()}
        _run(declared, {name: _value(options.get(name), value) for name, value in values.items()})

    run.__doc__ = (
        f"{declared.shows}.\n\n{declared.details}\n\nExample: deepval analyse {declared.name} {declared.example}"
    )
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


SUPPLIED = frozenset({"draws", "seed", "budgets", "kinds"})
"""Arguments of `rows` that option groups supply."""


def _setting(declared: Analysis, name: str) -> tuple[Any, Option]:
    if name in declared.declared:
        kind, option = declared.declared[name]
        if get_origin(kind) is not None:  # several words, such as Sequence[str] or Mapping | None
            kind = list[str] if declared.settings[name] is not None else list[str] | None
        return kind, option
    if name not in SETTINGS:
        raise TypeError(f"Analysis {declared.name}: the argument {name!r} of rows(...) must be declared by an Option.")
    return SETTINGS[name]


def _parameter(name: str, annotation: Any, **default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **default)


def _option(name: str, kind: Any, option: Option, default: Any) -> inspect.Parameter:
    flags = option.flags or (f"--{name.removeprefix('own_')}",)
    callback = None if option.limits is None else limits(*option.limits)
    usual = list(default) if isinstance(default, tuple) else default
    return _parameter(name, Annotated[kind, typer.Option(*flags, help=option.help, callback=callback)], default=usual)


def _cells(text: str | None) -> type[Cells]:
    """The cells' argument, with this help."""
    if text is None:
        return Cells
    argument = ("cells", Annotated[list[Path], typer.Argument(help=text)])
    return make_dataclass("Cells", [argument], bases=(Cells,), frozen=True)


def _run(declared: Analysis, values: dict[str, Any]) -> None:
    output: Shown = values["output"]
    if declared.whole and output.chosen == "csv":
        raise InputError("CSV holds one table and this analysis has several: give --format json or markdown.")
    figure: Path | None = values.get("figure")
    if figure is not None:
        check_writable(figure)
    choices = _choices(declared, values)
    supplied = {"draws": choices.draws, "seed": choices.seed} if "drawn" in values else {}
    if "charges" in values:
        supplied |= {"budgets": choices.measured(), "kinds": choices.kinds}
    settings = {name.removeprefix("own_"): value for name, value in values.items() if name.startswith("own_")}
    settings |= {name: value for name, value in supplied.items() if name in declared.parameters}
    rows = _rows(declared, choices, settings, values)
    if declared.empty is not None and not rows:
        raise InputError(declared.empty)
    if figure is not None:
        from deepval.report.figures import write_figure

        assert declared.figure is not None
        draw = declared.figure
        write_figure(figure, lambda: draw(rows[0] if declared.whole else rows))
    output.write(declared, rows, **settings)


def _choices(declared: Analysis, values: dict[str, Any]) -> Choices:
    """The options of a command that its parts are made with."""
    own = {item.name for item in fields(Choices)}
    drawn, charges = values.get("drawn"), values.get("charges")
    chosen = {} if drawn is None else drawn.settings
    chosen |= {} if charges is None else charges.settings(declared)
    chosen |= {name: value for name, value in values.items() if name in own and value is not None}
    recipes = values.get("allocators") or declared.recipes
    return Choices(command=f"analyse {declared.name}", labels=dict.fromkeys(recipes, declared.labels), **chosen)


def _rows(declared: Analysis, choices: Choices, settings: dict[str, Any], values: dict[str, Any]) -> list[Any]:
    sources: Cells = values["sources"]
    costs = values["charges"].own_costs if "charges" in values else None
    saved: dict[str, Result] = {}
    if any(PARTS[part].saved for part in declared.takes.values()):
        saved, built = sources.results_and_cells()
    else:
        built = sources.by_path() if declared.names == "path" else sources.named()
    specs = {}
    if "again" in values:
        needed = declared.parameters["located"].default is inspect.Parameter.empty
        specs = values["again"].located(sources, built, all_needed=needed)
    seeds = shared_seeds(built, choices.seed)
    cells = [
        CellAtHand(name, "", cell.folder, specs.get(name), None, costs, seed=seeds[name], built=cell, choices=choices)
        for name, cell in built.items()
    ]
    workers: Workers | None = values.get("workers")
    with nullcontext() if workers is None else workers.start() as engine:
        passed = {} if engine is None else {"map_fits": engine.map}
        return rows_of(
            declared, cells, settings, command=f"analyse {declared.name}", saved=saved, watch=watch, **passed
        )


def _value(option: Option | None, value: Any) -> Any:
    return value if option is None or option.read is None or value is None else option.read(value)


COMMANDS = {
    heading: {name: "analyse" for name in names if name not in REPORT_ONLY} for heading, names in GROUPS.items()
}
"""The module of each command, by heading of the help."""
analyse = typer.Typer(cls=lazy_group(COMMANDS), no_args_is_help=True, **LOOK)


def __getattr__(name: str) -> Callable[..., None]:
    """The command of an analysis, by name."""
    declared = name.replace("_", "-")
    if declared not in ANALYSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return command(analysis(declared))


@analyse.callback()
def _analyse() -> None:
    """Run an analysis of the paper on built cells.

    Example: deepval analyse seeds cells/braking-monocular -a router-mlp-value -a gate-gbm
    On a whole track: deepval analyse signs kitti-public --data data --work work
    """
