"""What all analyses share on the command line: cells in, rows out in the form that was asked for."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells.folder import BuiltCell
from deepval.cells.sources import PlannerPaths, is_specification, located, needs_files
from deepval.cells.spec import ROLES, CellSpec
from deepval.cli import options
from deepval.cli.several import Several
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.writing import check_writable, write_atomically
from deepval.protocol.cell_builds import WORK, find_cells
from deepval.report import forms
from deepval.report.console import render_tables
from deepval.report.table import Table
from deepval.results import Result

FORMS = ("text", "markdown", "csv", "latex", "json")
SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}

Units = Annotated[
    str, typer.Option("--units", help="Units to look at: all (the default), test, validation, train, fit, or a,b,c.")
]
Alpha = Annotated[float, typer.Option("--alpha", help="Share of inputs that may be escalated.")]


@dataclass(frozen=True)
class Cells(Several):
    """The cells that a command is given, where those of tracks and specifications come from, and what built them."""

    cells: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of cells that `deepval build` wrote, folders of such, specification files (.toml, .json), or "
            "tracks by name, with --data."
        ),
    ]
    data: Annotated[
        Path | None, typer.Option("--data", help="Of tracks: folder with kitti_tracking, nuscenes and so on.")
    ] = None
    work: Annotated[Path, typer.Option("--work", help="Of tracks and specifications: folder to build cells in.")] = WORK
    specs: dict[str, CellSpec] = field(default_factory=dict, init=False, repr=False)

    def by_path(self) -> dict[str, BuiltCell]:
        """Cells by folder; a folder that is none itself stands for the cells in it, a track for those it can build."""
        return self._read(self.cells)

    def named(self) -> dict[str, BuiltCell]:
        """Cells by the name of their folder, or by its path where two have the same name."""
        return _by_name(self.by_path())

    def judged(self) -> tuple[dict[str, Result], dict[str, BuiltCell]]:
        """Results saved in files, by path, and the cells that the other names stand for."""
        saved = [path for path in self.cells if reading.is_file(path) and not is_specification(path)]
        others = [path for path in self.cells if path not in saved]
        if len({reading.resolved(path) for path in saved}) < len(saved):
            raise InputError("Results must be different files; one is given twice.")
        return {str(path): Result.load(path) for path in saved}, _by_name(self._read(others)) if others else {}

    def _read(self, names: Sequence[Path]) -> dict[str, BuiltCell]:
        collected = find_cells(names, data=self.data, work=self.work, watch=options.watch)
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
    names = [reading.resolved(cell.folder).name for cell in built.values()]
    return {
        name if names.count(name) == 1 else path: cell for name, (path, cell) in zip(names, built.items(), strict=True)
    }


@dataclass(frozen=True)
class ReadAgain(Several):
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
        typer.Option("--weights", help="Weights of the learned planner, where cells of it are to act again."),
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
class Shown(Several):
    """How the rows of an analysis are to be told: in which form, and where; checked before any work."""

    form: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMS)}. Default: what the name of --out ends in, or text."),
    ] = None
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write instead of printing.")] = None
    json: options.Json = False

    def __post_init__(self) -> None:
        chosen = options.one_of(self.chosen, FORMS, "--format")
        if self.json and chosen != "json":
            raise InputError(f"--json prints JSON and --format {chosen} something else: give one of them.")
        if self.out is not None:
            check_writable(self.out)

    @property
    def chosen(self) -> str:
        """The form, by name or by the end of a file's name."""
        usual = "json" if self.json else SUFFIXES.get("" if self.out is None else self.out.suffix, "text")
        return self.form or usual

    def tell(self, rows: Sequence[Any], *tables_of: Callable[[Sequence[Any]], Table]) -> None:
        """Print or write the rows, each a dataclass, in one or several tables; CSV and JSON have all, unrounded."""
        records = [asdict(row) for row in rows]
        tables = [] if self.chosen in ("csv", "json") else [table(rows) for table in tables_of]
        self._put(forms.records_csv(records) if self.chosen == "csv" else self._text(records, tables))

    def tell_parts(self, content: Mapping[str, Any], tables: Sequence[Table]) -> None:
        """Print or write an analysis of several tables; JSON has every field unrounded."""
        self._put(self._text(content, tables))

    def refuse_csv(self) -> None:
        """Raise where one CSV is asked for and the analysis has several tables."""
        if self.chosen == "csv":
            raise InputError("CSV holds one table and this analysis has several: give --format json or markdown.")

    def _put(self, text: str) -> None:
        if self.out is None:
            typer.echo(text, nl=False)
        else:
            write_atomically(self.out, text)
            typer.echo(f"Written to {self.out}")

    def _text(self, content: Any, tables: Sequence[Table]) -> str:
        if self.chosen == "json":
            return options.as_json(content)
        if self.chosen in ("markdown", "latex"):
            text = forms.table_markdown if self.chosen == "markdown" else forms.table_latex
            return "\n\n".join(map(text, tables)) + "\n"
        if self.out is not None:
            return render_tables(tables, width=options.ENDLESS)
        return render_tables(tables, width=options.width(), color=options.colored())


def units_of(text: str) -> str | list[str]:
    """Units by role or by name."""
    return text if text in ROLES else options.unit_list(text, ROLES) or text
