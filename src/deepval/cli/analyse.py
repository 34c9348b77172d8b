"""`deepval analyse NAME`: a command for every declared analysis, with options from the
parts and settings it takes.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from cyclopts import App, Group, Parameter

from deepval.basics.errors import InputError, InputWarning, UnsuitableError, few
from deepval.basics.files import reading
from deepval.basics.files.writing import check_writable, write_atomically
from deepval.cli import options
from deepval.cli.options import Workers
from deepval.cli.terminal import ENDLESS, as_json, look, step_bar, watch, write
from deepval.deploy.allocators import check_recipes
from deepval.deploy.board.cell_builds import WORK, find_cells
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.cells.sources import (
    DataPlaces,
    check_confirmed,
    is_specification,
    located,
    needs_files,
)
from deepval.driving.cells.spec import CellSpec
from deepval.judge.allowances import LEVELS, Selection, energy_convention
from deepval.judge.cases import read_evaluation_data, shared_seeds
from deepval.judge.report import forms
from deepval.judge.report.console import render_tables
from deepval.judge.report.tables import with_units
from deepval.judge.report.text_tables import Table
from deepval.judge.results import KINDS, MEASURED, Result, lists_by_key
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.scores import fill_missing
from deepval.judge.tables.split import ROLES
from deepval.paper.analysis import (
    ALPHAS,
    ANALYSES,
    GROUPS,
    REPORT_ONLY,
    Analysis,
    Option,
    analysis,
)
from deepval.paper.run import CellRows, rows_of
from deepval.paper.stored_files import storing_fits
from deepval.paper.study import PARTS, Cell, Choices

SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}


@Parameter(name="*")
@dataclass(frozen=True)
class Origin:
    """Where cells of tracks and specifications come from, and own code of cells.

    Attributes:
        code: FILE.py:NAME of your own code that cells were built with or that
            specifications name, to run it. Repeatable.
    """

    data: options.DataFolder = None
    work: options.WorkFolder = WORK
    code: tuple[str, ...] = ()


ORIGIN_DEFAULTS = Origin()


@dataclass(frozen=True)
class Cells:
    """The cells that an analysis is run on, and where those of tracks and
    specifications come from.
    """

    cells: tuple[Path, ...]
    data: Path | None
    work: Path
    code: tuple[str, ...]
    specs: dict[str, CellSpec] = field(default_factory=dict, init=False, repr=False)

    def by_path(self) -> dict[str, BuiltCell]:
        """Cells by folder; a folder that is no cell stands for the cells in it, a track
        for those it can build.
        """
        return self._read(self.cells)

    def named(self) -> dict[str, BuiltCell]:
        """Cells by the name of their folder, or by its path where two have the same
        name.
        """
        return _by_name(self.by_path())

    def results_and_cells(self) -> tuple[dict[str, Result], dict[str, BuiltCell]]:
        """Results saved in files, by path, and the cells that the other names stand
        for.
        """
        saved = [
            path
            for path in self.cells
            if reading.is_file(path) and not is_specification(path)
        ]
        others = [path for path in self.cells if path not in saved]
        if len({reading.resolve(path) for path in saved}) < len(saved):
            raise InputError("Results must be different files; one is given twice.")
        return {str(path): Result.load(path) for path in saved}, _by_name(
            self._read(others)
        ) if others else {}

    def _read(self, names: Sequence[Path]) -> dict[str, BuiltCell]:
        with step_bar() as step:
            collected = find_cells(
                names,
                data=self.data,
                work=self.work,
                code=self.code,
                watch=watch,
                step=step,
            )
        self.specs.update(collected.specs)
        reasons = lists_by_key(
            (line, cell) for cell, lines in collected.lacking.items() for line in lines
        )
        for line, cells in reasons.items():
            warnings.warn(
                InputWarning(f"Not built: {few(cells)} lack {line}."), stacklevel=2
            )
        if not collected.cells:
            raise InputError(
                f"At least one cell is needed; none of {', '.join(map(str, names))} "
                "can be built here: see `deepval cells`."
            )
        return dict(collected.cells)


def _by_name(built: Mapping[str, BuiltCell]) -> dict[str, BuiltCell]:
    names = [reading.resolve(cell.folder).name for cell in built.values()]
    return {
        name if names.count(name) == 1 else path: cell
        for name, (path, cell) in zip(names, built.items(), strict=True)
    }


def _located(
    sources: Cells, built: Mapping[str, BuiltCell], *, all_needed: bool
) -> tuple[dict[str, CellSpec], dict[str, str]]:
    """Specifications of the cells whose data can be read again (of all where they are
    needed, else of those whose data are at hand), and why others cannot.
    """
    check_confirmed(built.values(), sources.code)
    specs: dict[str, CellSpec] = {}
    unlocated: dict[str, str] = {}
    for name, cell in built.items():
        spec = sources.specs.get(str(cell.folder))
        if spec is None and (all_needed or _is_at_hand(cell, sources.code)):
            try:
                spec = located(cell, code=sources.code)
            except UnsuitableError as error:
                unlocated[name] = str(error)
        if spec is not None:
            specs[name] = spec
    return specs, unlocated


def _is_at_hand(cell: BuiltCell, words: Sequence[str]) -> bool:
    """Whether the data of a cell are where they were, and their code may be run."""
    if "dataset" in cell.code:
        return bool(words)
    if not needs_files(cell):
        return True
    places = DataPlaces.read(cell.folder)
    return places.root is not None and places.missing is None


@Parameter(name="*")
@dataclass(frozen=True)
class Charges(options.Budgets):
    """The measured budgets that an analysis judges under.

    Attributes:
        costs: Costs of modes and allocators: a .toml file or a profile. Default: the
            cell's.
        alpha: Budget share in (0, 1]. Repeatable. Default: 0.1, 0.2, 0.3, 0.5.
        budget: What the budget counts; measured budgets charge. Repeatable.
    """

    costs: Annotated[Path | None, Parameter(group=options.SUBJECT)] = None

    @property
    def own_costs(self) -> Costs | None:
        """The costs in the file, if any."""
        return None if self.costs is None else Costs.of(self.costs)

    def settings(self, declared: Analysis) -> dict[str, Any]:
        """The checked budgets; those of the analysis where none are named."""
        allowed = KINDS if "selection" in declared.budgets else MEASURED
        kinds = tuple(
            dict.fromkeys(
                options.one_of(kind, allowed, "--budget")
                for kind in self.budget or declared.budgets
            )
        )
        return {
            "kinds": kinds,
            "alphas": tuple(Selection(alpha).alpha for alpha in self.alpha or LEVELS),
            "rails": energy_convention(self.own_costs),
        }


@Parameter(name="*")
@dataclass(frozen=True)
class Shown:
    """The format of the rows, and the file they are written to; checked before any
    work.

    Attributes:
        form: Output format. Default: by the name of --out, or text.
        out: File to write instead of printing.
    """

    form: Annotated[
        options.Format | None, Parameter(name="--format", group=options.OUTPUT)
    ] = None
    out: options.Out = None

    def __post_init__(self) -> None:
        if self.out is not None:
            check_writable(self.out)

    @property
    def chosen(self) -> str:
        """The format, by name or by the suffix of the file."""
        if self.form is not None:
            return self.form
        return SUFFIXES.get("" if self.out is None else self.out.suffix, "text")

    def write(
        self,
        declared: Analysis,
        rows: Sequence[Any],
        provenance: Mapping[str, Mapping[str, Any]],
        left_out: Mapping[str, str],
        **settings: Any,
    ) -> None:
        """Print or write the rows; CSV and JSON have every field unrounded, and JSON id
        and split of the cells.
        """
        if self.chosen == "csv":
            text = forms.records_csv(declared.flat(rows))
        elif self.chosen == "json":
            content = _content(declared, rows, provenance)
            if left_out and isinstance(content, dict):
                content["left_out"] = left_out
            text = as_json(content)
        else:
            roles = {
                str(part.get("role", settings.get("units", "test")))
                for part in provenance.values()
            }
            units = (
                f"{min(roles)} units"
                if len(roles) == 1 and roles <= {*ROLES}
                else "the units judged"
            )
            tables = declared.report_tables(rows, summary_first=False, **settings)
            text = self.text_of([with_units(table, units) for table in tables])
        self.put(text)

    def put(self, text: str) -> None:
        """Print a text, or write it to the file."""
        if self.out is None:
            write(text)
        else:
            write_atomically(self.out, text)
            write(f"Written to {self.out}\n")

    def text_of(self, tables: Sequence[Table]) -> str:
        """Tables as text, Markdown or LaTeX."""
        if self.chosen in ("markdown", "latex"):
            text = (
                forms.table_markdown if self.chosen == "markdown" else forms.table_latex
            )
            return "\n\n".join(map(text, tables)) + "\n"
        if self.out is not None:
            return render_tables(tables, width=ENDLESS)
        return render_tables(tables, **look())


def _content(
    declared: Analysis,
    rows: Sequence[Any],
    provenance: Mapping[str, Mapping[str, Any]],
) -> Any:
    def record(content: dict[str, Any]) -> dict[str, Any]:
        named = {
            text: provenance[text]
            for text in content.values()
            if isinstance(text, str) and text in provenance
        }
        return content | {"provenance": named or provenance}

    own = [record(row) for row in declared.flat(rows)]
    if declared.whole:
        return own[0]
    means = declared.means(rows)
    if means is None:
        return own
    return {"rows": own, "over_cells": [record(row) for row in means]}


def units_of(text: str) -> str | list[str]:
    """Units by role or by name."""
    return text if text in ROLES else options.unit_list(text, ROLES) or text


SETTINGS: dict[str, tuple[Any, Option]] = {
    "units": (
        str,
        Option(
            "Units to include: all, test, validation, train, fit, or a,b,c.",
            read=units_of,
        ),
    ),
    "alpha": (
        float,
        Option(
            "Share of inputs that may be escalated.",
            limits=ALPHAS.limits,
            read=lambda alpha: Selection(alpha).alpha,
        ),
    ),
    "alphas": (list[float], ALPHAS),
    "periods": (
        list[float],
        Option(
            "Time from frame to frame in ms. Repeatable.",
            ("--period",),
            limits=(1e-3, 1e6),
        ),
    ),
    "recipes": (
        list[str],
        Option(
            "Allocator to fit, by recipe. Repeatable.",
            ("--allocator", "-a"),
            read=check_recipes,
        ),
    ),
}
"""Options of arguments that several analyses have, by the name of the argument."""
CELLS = (
    "Folders of cells that `deepval build` wrote, folders of such, specification files "
    "(.toml, .json), or tracks by name, with --data."
)
FIGURE = Option("The figure to write (.pdf, .png).")
TABLES = (
    "Cells, as for other analyses, or values files (.csv, .parquet), "
    "judged by the scores of -s."
)
SCORE_FILES = Option(
    "Scores of values files: FILE, or NAME=FILE. Repeatable.", ("--score-file", "-s")
)
PART_GROUPS: dict[str, tuple[str, Any]] = {
    "draws": ("drawn", options.DRAWS_DEFAULTS),
    "charges": ("charges", Charges()),
}
"""Argument and defaults of the option groups of parts."""


def command(declared: Analysis) -> Callable[..., None]:
    """The command of an analysis."""
    parts = [PARTS[part] for part in declared.asks]
    groups = dict(PART_GROUPS[name] for part in parts for name in part.groups)
    choices = {name: item for part in parts for name, item in part.options.items()}
    own = {
        name: _setting(declared, name)
        for name in declared.settings
        if name in declared.declared or name in SETTINGS
    }
    if {"draws", "seed"} <= declared.parameters.keys():
        groups["drawn"] = options.DRAWS_DEFAULTS
    if "map_fits" in declared.parameters:
        groups["workers"] = options.WORKERS_DEFAULTS
    saved = next((part.saved for part in parts if part.saved), None)
    saved = saved if declared.table_rows is None else TABLES
    parameters = [
        inspect.Parameter(
            "cells",
            inspect.Parameter.POSITIONAL_ONLY,
            annotation=Annotated[tuple[Path, ...], Parameter(help=saved or CELLS)],
        ),
        _parameter("origin", ORIGIN_DEFAULTS),
    ]
    parameters += [
        _option(name, item.kind, item.option, item.default)
        for name, item in choices.items()
    ]
    parameters += [
        _option(f"own_{name}", *item, declared.settings[name])
        for name, item in own.items()
    ]
    parameters += [_parameter(name, usual) for name, usual in groups.items()]
    if declared.table_rows is not None:
        parameters.append(_option("score_files", list[str] | None, SCORE_FILES, None))
    if declared.figure is not None:
        parameters.append(_option("figure", Path | None, FIGURE, None))
    parameters.append(_parameter("output", Shown()))
    # The first one is the argument.
    usual = {item.name: item.default for item in parameters[1:]}

    def run(folders: tuple[Path, ...], /, **stated: Any) -> None:
        read = {name: item.option for name, item in choices.items()}
        read |= {f"own_{name}": option for name, (_, option) in own.items()}
        values = {
            name: _value(read.get(name), value)
            for name, value in (usual | stated).items()
        }
        origin: Origin = values.pop("origin")
        values["sources"] = Cells(folders, origin.data, origin.work, origin.code)
        _run(declared, values)

    run.__doc__ = (
        f"{declared.shows}.\n\n{declared.details}\n\nExample: deepval analyse "
        f"{declared.name} {declared.example}"
    )
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def _setting(declared: Analysis, name: str) -> tuple[Any, Option]:
    if name in declared.declared:
        kind, option = declared.declared[name]
        if get_origin(kind) is not None and float not in get_args(
            kind
        ):  # several words, such as Sequence[str] or Mapping | None
            kind = (
                list[str] if declared.settings[name] is not None else list[str] | None
            )
        return kind, option
    return SETTINGS[name]


def _parameter(name: str, default: Any) -> inspect.Parameter:
    """A group of options, with these defaults."""
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=type(default),
        default=default,
    )


def _option(name: str, kind: Any, option: Option, default: Any) -> inspect.Parameter:
    flags = option.flags or (f"--{name.removeprefix('own_')}",)
    yes, _, no = flags[0].partition("/")
    least, greatest = option.limits or (-math.inf, math.inf)
    declared = Parameter(
        name=(yes, *flags[1:]),
        negative=no or (),
        help=option.help,
        converter=options.whole_number if kind is int else None,
        validator=options.Between(least, greatest),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, declared],
        default=list(default) if isinstance(default, tuple) else default,
    )


def _run(declared: Analysis, values: dict[str, Any]) -> None:
    output: Shown = values["output"]
    if declared.whole and output.chosen == "csv":
        raise InputError(
            "CSV holds one table and this analysis has several: "
            "give --format json or markdown."
        )
    figure: Path | None = values.get("figure")
    if figure is not None:
        check_writable(figure)
    choices = _choices(declared, values)
    supplied = (
        {"draws": choices.draws, "seed": choices.seed} if "drawn" in values else {}
    )
    if "charges" in values:
        supplied |= {"budgets": choices.measured(), "kinds": choices.kinds}
    settings = {
        name.removeprefix("own_"): value
        for name, value in values.items()
        if name.startswith("own_")
    }
    settings |= {
        name: value for name, value in supplied.items() if name in declared.parameters
    }
    files = [
        path
        for path in values["sources"].cells
        if reading.is_file(path) and not is_specification(path)
    ]
    of_files = declared.table_rows is not None and files
    if values.get("score_files") and not files:
        raise InputError(
            "-s has scores of values files, and cells were named: leave it out, or "
            "name values files."
        )
    left_out: dict[str, str] = {}
    if of_files:
        rows, provenance = _table_rows(declared, settings, values)
    else:
        (rows, left_out), provenance = _rows(declared, choices, settings, values)
    if declared.empty is not None and not rows:
        raise InputError(declared.empty)
    if figure is not None:
        from deepval.judge.report.figures import write_figure

        assert declared.figure is not None
        draw = declared.figure
        write_figure(figure, lambda: draw(rows))
    output.write(declared, rows, provenance, left_out, **settings)


def _choices(declared: Analysis, values: dict[str, Any]) -> Choices:
    """The options of a command that its parts are made with."""
    own = {item.name for item in fields(Choices)}
    drawn, charges = values.get("drawn"), values.get("charges")
    chosen = {} if drawn is None else {"draws": drawn.number, "seed": drawn.seed}
    chosen |= {} if charges is None else charges.settings(declared)
    chosen |= {
        name: value
        for name, value in values.items()
        if name in own and value is not None
    }
    recipes = values.get("allocators") or declared.recipes
    return Choices(
        command=f"analyse {declared.name}",
        labels=dict.fromkeys(recipes, declared.labels),
        **chosen,
    )


def _rows(
    declared: Analysis,
    choices: Choices,
    settings: dict[str, Any],
    values: dict[str, Any],
) -> tuple[CellRows, Mapping[str, Mapping[str, Any]]]:
    """The rows, and the provenance of every cell or saved result by its name in
    them.
    """
    sources: Cells = values["sources"]
    costs = values["charges"].own_costs if "charges" in values else None
    saved: dict[str, Result] = {}
    if any(PARTS[part].saved for part in declared.asks):
        saved, built = sources.results_and_cells()
    else:
        built = sources.by_path() if declared.names == "path" else sources.named()
    specs: dict[str, CellSpec] = {}
    unlocated: dict[str, str] = {}
    if "located" in declared.asks:
        specs, unlocated = _located(sources, built, all_needed=declared.needs_data)
    seeds = shared_seeds(built, choices.seed)
    cells = [
        Cell(
            name,
            "",
            cell.folder,
            specs.get(name),
            None,
            costs,
            seed=seeds[name],
            built=cell,
            choices=choices,
            watch=watch,
            unlocated=unlocated.get(name, ""),
        )
        for name, cell in built.items()
    ]
    workers: Workers | None = values.get("workers")
    storing = storing_fits(sources.work) if sources.specs else nullcontext()
    with storing, nullcontext() if workers is None else workers.start() as map_fits:
        passed = {} if map_fits is None else {"map_fits": map_fits}
        done = rows_of(
            declared,
            cells,
            settings,
            command=f"analyse {declared.name}",
            saved=saved,
            watch=watch,
            **passed,
        )
    stated = {
        name: {key: result.provenance[key] for key in ("cell", "split", "role")}
        for name, result in saved.items()
    }
    stated |= {
        name: cell.provenance
        for name, cell in built.items()
        if name not in done.left_out
    }
    return done, stated


def _table_rows(
    declared: Analysis,
    settings: dict[str, Any],
    values: dict[str, Any],
) -> tuple[list[Any], Mapping[str, Mapping[str, Any]]]:
    """The rows of values files, judged by scores files, and the digest of every table
    by its name in them.
    """
    assert declared.table_rows is not None
    takes, sources = (
        inspect.signature(declared.table_rows).parameters,
        values["sources"],
    )
    usual = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in declared.settings.items()
    }
    no_file = next((path for path in sources.cells if not reading.is_file(path)), None)
    if no_file is not None:
        what = "is a folder" if reading.exists(no_file) else "does not exist"
        raise InputError(
            f"{no_file} {what}, and values files are analysed "
            "without cells: name files alone."
        )
    chosen = [
        name
        for name, value in settings.items()
        if name not in takes and value not in (usual[name], None)
    ]
    flags = [
        (_setting(declared, name)[1].flags or (f"--{name}",))[0] for name in chosen
    ]
    flags += ["--data"] * (sources.data is not None)
    if flags:
        raise InputError(
            f"{flags[0]} applies to cells, and values files were named: leave it out."
        )
    costs = values["charges"].costs
    tables, provenance, named = {}, {}, options.named_files(values["score_files"])
    for name, path in options.named_files(
        map(str, sources.cells), "Values files"
    ).items():
        case = read_evaluation_data(path, costs=costs)
        scores = case.scores(named)
        of_modes = [item.name for item in scores.values() if item.modes]
        if of_modes:
            raise InputError(
                f"{of_modes[0]}: must have one score per input for this analysis; it "
                "has one per mode."
            )
        whole = [fill_missing(item, case.table, "error") for item in scores.values()]
        tables[name] = case.table, {item.name: item.values for item in whole}
        provenance[name] = {"table": case.table.digest, "role": "all"}
    return list(
        declared.table_rows(
            tables, **{name: settings[name] for name in settings if name in takes}
        )
    ), provenance


def _value(option: Option | None, value: Any) -> Any:
    return (
        value
        if option is None or option.read is None or value is None
        else option.read(value)
    )


analyse = App(name="analyse")
for _heading, _names in GROUPS.items():
    _group = Group.create_ordered(_heading)
    for _name in _names:
        if _name not in REPORT_ONLY:
            analyse.command(
                f"{__name__}:{_name.replace('-', '_')}", name=_name, group=_group
            )


def __getattr__(name: str) -> Callable[..., None]:
    """The command of an analysis, by name."""
    declared = name.replace("_", "-")
    if declared not in ANALYSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return command(analysis(declared))
