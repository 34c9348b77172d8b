"""Options that every analysis has: its cells, the data they were built from, measured budgets, output format."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells.folder import BuiltCell
from deepval.cells.sources import PlannerPaths, is_specification, located, needs_files
from deepval.cells.spec import CellSpec
from deepval.cli import options
from deepval.cli.commands import OptionGroup
from deepval.cli.options import DrawOptions
from deepval.cli.terminal import ENDLESS, as_json, colored, watch, width
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.writing import check_writable, write_atomically
from deepval.judging.allowances import LEVELS, RAILS, Selection
from deepval.paper.analysis import Analysis
from deepval.protocol.cell_builds import WORK, find_cells
from deepval.report import forms
from deepval.report.console import render_tables
from deepval.report.text_tables import Table
from deepval.results import KINDS, MEASURED, Result
from deepval.tables.costs import Costs

FORMS = ("text", "markdown", "csv", "latex", "json")
SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}


@dataclass(frozen=True)
class Cells(OptionGroup):
    """The cells that an analysis is run on, and where those of tracks and specifications come from."""

    cells: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of cells that `deepval build` wrote, folders of such, specification files (.toml, .json), or "
            "tracks by name, with --data."
        ),
    ]
    data: options.DataFolder = None
    work: options.WorkFolder = WORK
    specs: dict[str, CellSpec] = field(default_factory=dict, init=False, repr=False)

    def by_path(self) -> dict[str, BuiltCell]:
        """Cells by folder; a folder that is no cell stands for the cells in it, a track for those it can build."""
        return self._read(self.cells)

    def named(self) -> dict[str, BuiltCell]:
        """Cells by the name of their folder, or by its path where two have the same name."""
        return _by_name(self.by_path())

    def results_and_cells(self) -> tuple[dict[str, Result], dict[str, BuiltCell]]:
        """Results saved in files, by path, and the cells that the other names stand for."""
        saved = [path for path in self.cells if reading.is_file(path) and not is_specification(path)]
        others = [path for path in self.cells if path not in saved]
        if len({reading.resolve(path) for path in saved}) < len(saved):
            raise InputError("Results must be different files; one is given twice.")
        return {str(path): Result.load(path) for path in saved}, _by_name(self._read(others)) if others else {}

    def _read(self, names: Sequence[Path]) -> dict[str, BuiltCell]:
        collected = find_cells(names, data=self.data, work=self.work, watch=watch)
        self.specs.update(collected.specs)
        reasons: dict[str, list[str]] = {}
        for cell, lines in collected.lacking.items():
            for line in lines:
                reasons.setdefault(line, []).append(cell)
        for line, cells in reasons.items():
            names_text = cells[0] if len(cells) == 1 else f"{cells[0]} and {len(cells) - 1} more"
            warnings.warn(InputWarning(f"Not built: {names_text} lack {line}."), stacklevel=2)
        if not collected.cells:
            raise InputError(
                f"At least one cell is needed; none of {', '.join(map(str, names))} can be built here: see "
                "`deepval cells`."
            )
        return dict(collected.cells)


def _by_name(built: Mapping[str, BuiltCell]) -> dict[str, BuiltCell]:
    names = [reading.resolve(cell.folder).name for cell in built.values()]
    return {
        name if names.count(name) == 1 else path: cell for name, (path, cell) in zip(names, built.items(), strict=True)
    }


@dataclass(frozen=True)
class ReadAgain(OptionGroup):
    """The data that cells were built from, to read them again."""

    root: Annotated[
        Path | None,
        typer.Option("--root", help="Folder of the data set that the cells were built from, to read it again."),
    ] = None
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="NAME=DETECTIONS of a mode, to read it again. Repeatable.")
    ] = None
    maps: Annotated[
        Path | None, typer.Option("--maps", help="Folder of lane maps, where the cells were built with one.")
    ] = None
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="Weights of the learned planner, for cells of it."),
    ] = None
    masks: Annotated[Path | None, typer.Option("--masks", help="Masks that belong to the weights.")] = None

    def __post_init__(self) -> None:
        if self.root is None and (self.mode or self.maps):
            raise InputError(
                "--mode and --maps say how a data set is read again: give --root, the folder of its files, too."
            )
        if (self.weights is None) != (self.masks is None):
            raise InputError("A learned planner is weights and masks: give both --weights and --masks, or neither.")

    def located(self, sources: Cells, built: Mapping[str, BuiltCell], *, all_needed: bool) -> dict[str, CellSpec]:
        """Specifications of the cells whose data are at hand: all where files are given, else those that need none."""
        paths = None if self.weights is None or self.masks is None else PlannerPaths(self.weights, self.masks)
        if paths is not None and not any(cell.spec.learned for cell in built.values()):
            raise InputError(
                "--weights and --masks are of cells of the learned planner, and none is given: leave them out."
            )
        files = options.named_files(self.mode or (), "Modes", lambda path: path.stem)
        built_specs = {
            name: cell_spec for name, cell in built.items() if (cell_spec := sources.specs.get(str(cell.folder)))
        }
        to_locate = {
            name: cell
            for name, cell in built.items()
            if name not in built_specs and (all_needed or self.root is not None or not needs_files(cell))
        }
        return built_specs | {
            name: located(cell, root=self.root, files=files, maps=self.maps, planner=paths)
            for name, cell in to_locate.items()
        }


@dataclass(frozen=True)
class Charges(OptionGroup):
    """The measured budgets that an analysis judges under."""

    costs: options.CostFile = None
    alpha: options.Alphas = None
    budget: Annotated[
        list[str] | None,
        typer.Option("--budget", help="selection, latency, energy or money; measured budgets charge. Repeatable."),
    ] = None
    rails: options.Rails = None

    def charging(self, declared: Analysis, drawn: DrawOptions | None) -> Any:
        """The checked budgets; those of the analysis where none are named."""
        from deepval.paper.charging import Charging

        allowed = KINDS if "selection" in declared.budgets else MEASURED
        kinds = tuple(
            dict.fromkeys(options.one_of(kind, allowed, "--budget") for kind in self.budget or declared.budgets)
        )
        if self.rails is not None and "energy" not in kinds:
            raise InputError("--rails applies only to energy budgets; none was requested: give --budget energy too.")
        draws = {} if drawn is None else drawn.settings
        return Charging(
            alphas=tuple(Selection(alpha).alpha for alpha in self.alpha or LEVELS),
            kinds=kinds,
            rails=options.one_of(self.rails or RAILS[0], RAILS, "--rails"),
            costs=None if self.costs is None else Costs.of(self.costs),
            **draws,
        )


@dataclass(frozen=True)
class Shown(OptionGroup):
    """The format of the rows, and the file they are written to; checked before any work."""

    form: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMS)}. Default: by the name of --out, or text."),
    ] = None
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write instead of printing.")] = None
    json: options.Json = False

    def __post_init__(self) -> None:
        options.format_name(self.form, json=self.json, allowed=FORMS, usual="text")
        if self.out is not None:
            check_writable(self.out)

    @property
    def chosen(self) -> str:
        """The format, by name or by the suffix of the file."""
        usual = "json" if self.json else SUFFIXES.get("" if self.out is None else self.out.suffix, "text")
        return self.form or usual

    def write(self, declared: Analysis, rows: Sequence[Any], **settings: Any) -> None:
        """Print or write the rows; CSV and JSON have every field unrounded."""
        if self.chosen == "csv":
            text = forms.records_csv([asdict(row) for row in rows])
        elif self.chosen == "json":
            text = as_json(_content(declared, rows))
        else:
            text = self._text(declared.report_tables(rows, summary_first=False, **settings))
        if self.out is None:
            typer.echo(text, nl=False)
        else:
            write_atomically(self.out, text)
            typer.echo(f"Written to {self.out}")

    def _text(self, tables: Sequence[Table]) -> str:
        if self.chosen in ("markdown", "latex"):
            text = forms.table_markdown if self.chosen == "markdown" else forms.table_latex
            return "\n\n".join(map(text, tables)) + "\n"
        if self.out is not None:
            return render_tables(tables, width=ENDLESS)
        return render_tables(tables, width=width(), color=colored())


def _content(declared: Analysis, rows: Sequence[Any]) -> Any:
    if declared.whole:
        return asdict(rows[0])
    records = [asdict(row) for row in rows]
    if declared.over_cells is None:
        return records
    return {"rows": records, "over_cells": [asdict(row) for row in declared.over_cells(rows)]}
