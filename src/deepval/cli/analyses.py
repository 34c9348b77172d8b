"""`deepval analyse NAME`: a command for every declared analysis, with options from the parts and settings it takes."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from deepval.cells.folder import BuiltCell
from deepval.cells.spec import ROLES, CellSpec
from deepval.cells.spec import units_of as units_in_role
from deepval.cli import options
from deepval.cli.analysis_options import Cells, Charges, ReadAgain, Shown
from deepval.cli.commands import LOOK, OptionGroup, lazy_group, limits
from deepval.cli.options import DrawOptions, Workers
from deepval.cli.terminal import watch
from deepval.errors import InputError
from deepval.files.writing import check_writable
from deepval.judging.allowances import LEVELS, Selection
from deepval.paper.analysis import ANALYSES, GROUPS, REPORT_ONLY, Analysis, analysis
from deepval.results import Result
from deepval.tables.scores import Scores


def units_of(text: str) -> str | list[str]:
    """Units by role or by name."""
    return text if text in ROLES else options.unit_list(text, ROLES) or text


def _recipes(names: Sequence[str]) -> Sequence[str]:
    from deepval.allocators import recipe_named

    for name in names:
        recipe_named(name)
    return names


def _allocators(names: Sequence[str] | None) -> Sequence[str] | None:
    from deepval.paper.charging import check_allocators

    check_allocators(names)
    return names


@dataclass(frozen=True)
class CommandOption:
    """An option for an argument of `rows`: its type on the command line, declaration and check."""

    kind: Any
    option: Any
    read: Callable[[Any], Any] | None = None


SETTINGS = {
    "units": CommandOption(
        str,
        typer.Option("--units", help="Units to include: all, test, validation, train, fit, or a,b,c."),
        units_of,
    ),
    "alpha": CommandOption(
        float,
        typer.Option("--alpha", help="Share of inputs that may be escalated.", callback=limits()),
        lambda alpha: Selection(alpha).alpha,
    ),
    "alphas": CommandOption(
        list[float],
        typer.Option("--alpha", help="Share of inputs that may be escalated. Repeatable.", callback=limits()),
        lambda alphas: [Selection(alpha).alpha for alpha in alphas],
    ),
    "recipes": CommandOption(
        list[str], typer.Option("--allocator", "-a", help="Allocator to fit, by recipe. Repeatable."), _recipes
    ),
}
"""Options of arguments that several analyses have, by the name of the argument."""

FITTED = CommandOption(
    list[str] | None,
    typer.Option("--allocator", "-a", help="Signal or recipe to judge. Repeatable. Default: all with a cost."),
    _allocators,
)
RANKED = CommandOption(
    list[str] | None,
    typer.Option("--allocator", "-a", help="Recipe to fit and rank among the signals. Repeatable. Default: none."),
    _recipes,
)
TAUGHT = CommandOption(
    list[str] | None,
    typer.Option("--allocator", "-a", help="Recipe to fit on every label. Repeatable. Default: the paper's."),
    _recipes,
)
CONTROLS = CommandOption(
    int, typer.Option("--controls", help="Random scores to judge beside the allocators.", callback=limits(0, 1_000))
)
SCORES = CommandOption(bool, typer.Option("--scores", help="Include the scores stored with each cell."))
DIAGNOSTICS = CommandOption(
    bool, typer.Option("--diagnostics/--no-diagnostics", help="Judge the diagnostics of cells too, apart.")
)
FIGURE = CommandOption(Path | None, typer.Option("--figure", help="The figure to write (.pdf, .png)."))

JUDGED = (
    "Results (.json) that `deepval evaluate` saved, or cells: these are judged on their test units by their scores."
)
CALIBRATED = (
    "Cells: allocators are fitted on their training units, policies calibrated on their validation units, and both "
    "judged on their test units. Or results (.json) that `deepval evaluate --calibrate` saved."
)
RELABELLED = (
    "Cells: recipes are fitted on their training and validation units and judged on their test units. Or results "
    "(.json) whose allocators are named 'RECIPE on LABEL'."
)


@dataclass(frozen=True)
class PartSupply:
    """How a command supplies a part of the cells.

    Attributes:
        supply: The part, from the request.
        groups: Option groups that it needs, by argument.
        settings: Single options that it needs with their defaults, by argument.
        saved: Help of the cells' argument where results saved in files may stand for cells.
    """

    supply: Callable[["Request"], Any]
    groups: Mapping[str, type[OptionGroup]] = field(default_factory=dict)
    settings: Mapping[str, tuple[CommandOption, Any]] = field(default_factory=dict)
    saved: str | None = None


class Request:
    """One call of a command: its checked options, and the cells that it names."""

    def __init__(self, declared: Analysis, values: dict[str, Any]) -> None:
        self.declared = declared
        self.sources: Cells = values["sources"]
        self.again: ReadAgain | None = values.get("again")
        self.drawn: DrawOptions | None = values.get("drawn")
        self.allocators: Any = values.get("allocator")
        self.controls: int = values.get("controls", 0)
        self.alphas: Any = values.get("alphas")
        self.with_scores: bool = values.get("stored_scores", False)
        self.with_diagnostics: bool = values.get("diagnostics", False)
        charges: Charges | None = values.get("charges")
        self.charging: Any = None if charges is None else charges.charging(declared, self.drawn)
        self.saved: dict[str, Result] = {}
        self.cells: dict[str, BuiltCell] = {}

    @property
    def command(self) -> str:
        """The name of the command, for the ledgers."""
        return f"analyse {self.declared.name}"

    def read(self) -> None:
        """Read the cells, and results where they may stand for cells."""
        if any(PARTS[part].saved for part in self.declared.takes.values() if part in PARTS):
            self.saved, self.cells = self.sources.results_and_cells()
        else:
            self.cells = self.sources.by_path() if self.declared.names == "path" else self.sources.named()

    def located(self) -> dict[str, CellSpec]:
        """The specifications of the cells with their data; where the analysis can do without, those at hand."""
        assert self.again is not None
        needed = self.declared.parameters["located"].default is inspect.Parameter.empty
        return self.again.located(self.sources, self.cells, all_needed=needed)

    def stored_scores(self) -> dict[str, Any]:
        """Scores in the folders of the cells, where they were asked for."""
        from deepval.cells.judgement import EvaluationData

        if not self.with_scores:
            return {}
        return {
            name: EvaluationData(cell.folder, cell.table, cell).scores({}).values() for name, cell in self.cells.items()
        }

    def ranked(self, units: str) -> dict[str, Any]:
        """Scores by signals, and by recipes fitted on these units."""
        from deepval.allocators.allocator import SIGNALS
        from deepval.cells import fitting
        from deepval.paper.analyses.selection_regret import FREE

        signals = [name for name in FREE if name in SIGNALS]
        return {
            name: fitting.scored_by_all(cell, self.allocators or (), signals=signals, units=units, lenient=True)
            for name, cell in watch(list(self.cells.items()), "scoring")
        }

    def diagnostics(self) -> dict[str, Any]:
        """Scores by diagnostics."""
        from deepval.cells import fitting

        return {name: fitting.diagnosed(cell) for name, cell in watch(list(self.cells.items()), "diagnostics")}

    def judged(self) -> dict[str, Result]:
        """Saved results, and cells judged by the scores in their folders."""
        from deepval.cells.judgement import judge, read_evaluation_data, shared_seeds

        assert self.drawn is not None
        results, seeds = dict(self.saved), shared_seeds(self.cells, self.drawn.seed)
        for name, cell in watch(list(self.cells.items()), "judging"):
            case = read_evaluation_data(cell.folder)
            scores = case.scores({})
            budgets = options.budgets(case, scores)
            results[name] = judge(
                case,
                scores,
                budgets,
                command=self.command,
                units=case.units(None, usual="test"),
                draws=self.drawn.number,
                seed=seeds[name],
                missing_costs=case.missing_costs(scores, budgets),
            )
        return results

    def diagnosed(self) -> dict[str, Result]:
        """Cells judged by diagnostics, where they were asked for."""
        from deepval.cells import fitting
        from deepval.cells.judgement import judge, shared_seeds

        assert self.drawn is not None
        seeds = shared_seeds(self.cells, self.drawn.seed)
        return {
            name: judge(cell, fitting.diagnosed(cell), command=None, draws=self.drawn.number, seed=seeds[name])
            for name, cell in watch(list(self.cells.items()) if self.with_diagnostics else [], "diagnostics")
        }

    def knowing(self) -> set[str]:
        """Names of the diagnostics among the scores in the folders of the cells."""
        from deepval.cells.judgement import read_evaluation_data

        scores = [
            item for cell in self.cells.values() for item in read_evaluation_data(cell.folder).scores({}).values()
        ]
        return {item.name for item in scores if item.kind == "diagnostic"}

    def charged(self, *accountings: Any) -> dict[str, Result]:
        """Saved results, and cells judged under charged budgets by the scores in their folders."""
        from deepval.paper import charging

        scores = charging.stored(self.cells, self.charging)
        settings: Any = {"accountings": accountings or ("cascade",), "command": self.command, "watch": watch}
        return self.saved | charging.results(self.cells, scores, self.charging, **settings)

    def causal(self) -> dict[str, Result]:
        """Saved results, and cells judged under policies calibrated on their validation units."""
        from deepval.paper import charging

        scores = charging.fitted(self.cells, self.charging, self.allocators, watch=watch)
        return self.saved | charging.results(
            self.cells,
            scores,
            self.charging,
            command=self.command,
            calibrate=True,
            controls=self.controls,
            watch=watch,
        )

    def priced(self) -> dict[str, Any]:
        """Scores in the folders of the cells that can be charged."""
        from deepval.paper import charging

        return charging.stored(self.cells, self.charging)

    def relabelled(self) -> dict[str, Result]:
        """Saved results, and cells judged by recipes fitted on several labels."""
        from deepval.allocators import recipe_named
        from deepval.cells.label_fits import judged_on_labels

        assert self.drawn is not None
        recipes = [recipe_named(name) for name in self.allocators or self.declared.recipes]
        judged = judged_on_labels(
            self.cells,
            recipes,
            self.declared.labels,
            alphas=self.alphas,
            by=self.command,
            **self.drawn.settings,
            watch=watch,
        )
        return self.saved | dict(judged)


_DRAWN: Mapping[str, type[OptionGroup]] = {"drawn": DrawOptions}
_CHARGED: Mapping[str, type[OptionGroup]] = {"charges": Charges, "drawn": DrawOptions}
PARTS: dict[str, PartSupply] = {
    "cells": PartSupply(lambda request: request.cells),
    "located": PartSupply(Request.located, {"again": ReadAgain}),
    "aligned": PartSupply(Request.stored_scores, settings={"stored_scores": (SCORES, False)}),
    "scores": PartSupply(lambda request: request.ranked("fit"), settings={"allocator": (RANKED, None)}),
    "train_scores": PartSupply(lambda request: request.ranked("train"), settings={"allocator": (RANKED, None)}),
    "diagnostics": PartSupply(Request.diagnostics),
    "results": PartSupply(Request.judged, _DRAWN, saved=JUDGED),
    "diagnosed": PartSupply(Request.diagnosed, _DRAWN, {"diagnostics": (DIAGNOSTICS, True)}),
    "knowing": PartSupply(Request.knowing),
    "charged": PartSupply(Request.charged, _CHARGED, saved=JUDGED),
    "skipping": PartSupply(lambda request: request.charged("cascade", "skipping"), _CHARGED, saved=JUDGED),
    "causal": PartSupply(Request.causal, _CHARGED, {"allocator": (FITTED, None)}, saved=CALIBRATED),
    "streamed": PartSupply(
        Request.causal, _CHARGED, {"allocator": (FITTED, None), "controls": (CONTROLS, 3)}, saved=CALIBRATED
    ),
    "priced": PartSupply(Request.priced, {"charges": Charges}),
    "costs": PartSupply(lambda request: request.charging.costs, {"charges": Charges}),
    "relabelled": PartSupply(
        Request.relabelled,
        _DRAWN,
        {"allocator": (TAUGHT, None), "alphas": (SETTINGS["alphas"], LEVELS)},
        saved=RELABELLED,
    ),
}
"""How commands supply the parts that analyses take; a report supplies the same names from `paper.cell_parts`."""


def command(declared: Analysis) -> Callable[..., None]:
    """The command of an analysis."""
    parts = {argument: PARTS[part] for argument, part in declared.takes.items() if part in PARTS}
    groups = {name: kind for part in parts.values() for name, kind in part.groups.items()}
    extras = {name: item for part in parts.values() for name, item in part.settings.items()}
    own = {name: _setting(declared, name) for name in declared.settings if name not in SUPPLIED}
    if {"draws", "seed"} <= declared.parameters.keys():
        groups["drawn"] = DrawOptions
    if "map_fits" in declared.parameters:
        groups["workers"] = Workers
    saved = next((part.saved for part in parts.values() if part.saved), None)
    parameters = [_parameter("sources", _cells(saved))]
    parameters += [_option(name, item, default) for name, (item, default) in extras.items()]
    parameters += [_option(f"own_{name}", item, declared.settings[name]) for name, item in own.items()]
    parameters += [_parameter(name, kind) for name, kind in groups.items()]
    if declared.figure is not None:
        parameters.append(_option("figure", FIGURE, None))
    parameters.append(_parameter("output", Shown))

    def run(**values: Any) -> None:
        _run(declared, own, extras, values)

    run.__doc__ = (
        f"{declared.shows}.\n\n{declared.details}\n\nExample: deepval analyse {declared.name} {declared.example}"
    )
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


SUPPLIED = frozenset({"draws", "seed", "budgets", "kinds"})
"""Arguments of `rows` that option groups supply."""


def _setting(declared: Analysis, name: str) -> CommandOption:
    if name in declared.declared:
        kind, item = declared.declared[name]
        if get_origin(kind) is not None:  # several words, such as Sequence[str] or Mapping | None
            kind = list[str] if declared.settings[name] is not None else list[str] | None
        callback = None if item.limits is None else limits(*item.limits)
        return CommandOption(
            kind, typer.Option(*(item.flags or (f"--{name}",)), help=item.help, callback=callback), item.read
        )
    if name not in SETTINGS:
        raise TypeError(f"Analysis {declared.name}: the argument {name!r} of rows(...) must be declared by an Option.")
    return SETTINGS[name]


def _parameter(name: str, annotation: Any, **default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **default)


def _option(name: str, item: CommandOption, default: Any) -> inspect.Parameter:
    usual = list(default) if isinstance(default, tuple) else default
    return _parameter(name, Annotated[item.kind, item.option], default=usual)


def _cells(text: str | None) -> type[Cells]:
    """The cells' argument, with this help."""
    if text is None:
        return Cells
    argument = ("cells", Annotated[list[Path], typer.Argument(help=text)])
    return make_dataclass("Cells", [argument], bases=(Cells,), frozen=True)


def _run(
    declared: Analysis,
    own: Mapping[str, CommandOption],
    extras: Mapping[str, tuple[CommandOption, Any]],
    values: dict[str, Any],
) -> None:
    output: Shown = values["output"]
    if declared.whole and output.chosen == "csv":
        raise InputError("CSV holds one table and this analysis has several: give --format json or markdown.")
    figure: Path | None = values.get("figure")
    if figure is not None:
        check_writable(figure)
    for name, (item, _) in extras.items():
        values[name] = _value(item, values[name])
    settings = {name: _value(item, values[f"own_{name}"]) for name, item in own.items()}
    request = Request(declared, values)
    if request.drawn is not None:
        settings |= {name: value for name, value in request.drawn.settings.items() if name in declared.parameters}
    if request.charging is not None:
        supplied = {"budgets": request.charging.measured(), "kinds": request.charging.kinds}
        settings |= {name: value for name, value in supplied.items() if name in declared.parameters}
    if "watch" in declared.parameters:
        settings["watch"] = watch
    request.read()
    rows = _rows(request, settings, values.get("workers"))
    if declared.empty is not None and not rows:
        raise InputError(declared.empty)
    if figure is not None:
        from deepval.report.figures import write_figure

        assert declared.figure is not None
        draw = declared.figure
        write_figure(figure, lambda: draw(rows[0] if declared.whole else rows))
    output.write(declared, rows, **settings)


def _rows(request: Request, settings: dict[str, Any], workers: Workers | None) -> list[Any]:
    from deepval.cells.judgement import note

    declared = request.declared
    parts = {argument: PARTS[part].supply(request) for argument, part in declared.takes.items() if part in PARTS}
    if workers is None:
        rows = declared.run(parts, **settings)
    else:
        with workers.start() as engine:
            rows = declared.run(parts, map_fits=engine.map, **settings)
    if declared.judges:
        scores = parts.get("scores", {})
        for name, cell in request.cells.items():
            aligned = {key: item for key, item in scores.get(name, {}).items() if isinstance(item, Scores)}
            judged = units_in_role(cell.split, settings.get("units", "test"))
            note(cell, by=request.command, units=judged, scores=aligned)
    return rows


def _value(item: CommandOption, value: Any) -> Any:
    return value if item.read is None or value is None else item.read(value)


COMMANDS = {
    heading: {name: "analyses" for name in names if name not in REPORT_ONLY} for heading, names in GROUPS.items()
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
