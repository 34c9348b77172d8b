"""What all analyses share on the command line: cells in, rows out in the form that was asked for."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval import reading
from deepval.cells.folder import BuiltCell
from deepval.cells.located import PlannerPaths, located, needs_files
from deepval.cells.spec import CellSpec
from deepval.cells.spec_files import is_specification
from deepval.cells.splits import ROLES
from deepval.cli import options
from deepval.errors import InputError, InputWarning
from deepval.files import check_writable, write_atomically
from deepval.protocol.gathering import WORK, gathered
from deepval.report import csv, latex, markdown
from deepval.report.console import render_tables
from deepval.report.tables import Table
from deepval.results import Result

FORMS = ("text", "markdown", "csv", "latex", "json")
SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}

Cells = Annotated[
    list[Path],
    typer.Argument(
        help="Folders of cells that `deepval build` wrote, folders of such, specification files (.toml, .json), or "
        "tracks by name, with --data."
    ),
]
Form = Annotated[
    str | None,
    typer.Option("--format", help=f"{', '.join(FORMS)}. Default: what the name of --out ends in, or text."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File to write instead of printing.")]
Units = Annotated[
    str, typer.Option("--units", help="Units to look at: all (the default), test, validation, train, fit, or a,b,c.")
]
Alpha = Annotated[float, typer.Option("--alpha", help="Share of inputs that may be escalated.")]


Root = Annotated[
    Path | None, typer.Option("--root", help="Folder of the data set that the cells were built from, to read it again.")
]
Maps = Annotated[Path | None, typer.Option("--maps", help="Folder of lane maps, where the cells were built with one.")]
ModeFiles = Annotated[
    list[str] | None, typer.Option("--mode", help="NAME=DETECTIONS of a mode, to read it again. Repeatable.")
]
PlannerWeights = Annotated[
    Path | None, typer.Option("--weights", help="Weights of the learned planner, where cells of it are to act again.")
]
PlannerMasks = Annotated[Path | None, typer.Option("--masks", help="Masks that belong to the weights.")]


Data = Annotated[Path | None, typer.Option("--data", help="Of tracks: folder with kitti_tracking, nuscenes and so on.")]
Work = Annotated[Path, typer.Option("--work", help="Of tracks and specifications: folder to build cells in.")]


@dataclass(frozen=True)
class CellSource:
    """Where cells of tracks and specifications come from in this command, and what is known of those it built."""

    data: Path | None = None
    work: Path = WORK
    specs: dict[str, CellSpec] = field(default_factory=dict)


_SOURCE: ContextVar[CellSource] = ContextVar("_SOURCE", default=CellSource())  # noqa: B039 - replaced by every command


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options --data and --work, which say where cells that are named come from."""
    told = inspect.signature(command)

    @wraps(command)
    def run(*args: Any, data: Path | None = None, work: Path = WORK, **named: Any) -> None:
        token = _SOURCE.set(CellSource(data, work))
        try:
            command(*args, **named)
        finally:
            _SOURCE.reset(token)

    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter("data", kind, default=None, annotation=Data),
        inspect.Parameter("work", kind, default=WORK, annotation=Work),
    ]
    vars(run)["__signature__"] = told.replace(parameters=[*told.parameters.values(), *more])
    run.__annotations__ = {**command.__annotations__, "data": Data, "work": Work}
    return run


@dataclass(frozen=True)
class Shown:
    """How the rows of an analysis are to be told: in which form, and where."""

    form: str
    out: Path | None

    @classmethod
    def of(cls, form: str | None, *, json: bool, out: Path | None) -> "Shown":
        """The form that was asked for, by name or by the end of a file's name; checked before any work."""
        usual = "json" if json else SUFFIXES.get("" if out is None else out.suffix, "text")
        chosen = options.one_of(form or usual, FORMS, "--format")
        if json and chosen != "json":
            raise InputError(f"--json prints JSON and --format {chosen} something else: give one of them.")
        if out is not None:
            check_writable(out)
        return cls(chosen, out)

    def tell(self, rows: Sequence[Any], *tables_of: Callable[[Sequence[Any]], Table]) -> None:
        """Print or write the rows, each a dataclass, in one or several tables; CSV and JSON have all, unrounded."""
        records = [asdict(row) for row in rows]
        tables = [] if self.form in ("csv", "json") else [table(rows) for table in tables_of]
        self._put(csv.records_text(records) if self.form == "csv" else self._text(records, tables))

    def tell_parts(self, content: Mapping[str, Any], tables: Sequence[Table]) -> None:
        """Print or write an analysis of several tables; JSON has every field unrounded."""
        self._put(self._text(content, tables))

    def refuse_csv(self) -> None:
        """Raise where one CSV is asked for and the analysis has several tables."""
        if self.form == "csv":
            raise InputError("CSV holds one table and this analysis has several: give --format json or markdown.")

    def _put(self, text: str) -> None:
        if self.out is None:
            typer.echo(text, nl=False)
        else:
            write_atomically(self.out, text)
            typer.echo(f"Written to {self.out}")

    def _text(self, content: Any, tables: Sequence[Table]) -> str:
        if self.form == "json":
            return options.as_json(content)
        if self.form in ("markdown", "latex"):
            text = markdown.table_text if self.form == "markdown" else latex.table_text
            return "\n\n".join(map(text, tables)) + "\n"
        if self.out is not None:
            return render_tables(tables, width=options.ENDLESS)
        return render_tables(tables, width=options.width(), color=options.colored())


def read_all(names: Sequence[Path]) -> dict[str, BuiltCell]:
    """Cells by folder; a folder that is none itself stands for the cells in it, a track for those it can build."""
    source = _SOURCE.get()
    found = gathered(names, data=source.data, work=source.work, watch=options.watch)
    source.specs.update(found.specs)
    reasons: dict[str, list[str]] = {}
    for cell, lines in found.lacking.items():
        for line in lines:
            reasons.setdefault(line, []).append(cell)
    for line, cells in reasons.items():
        told = cells[0] if len(cells) == 1 else f"{cells[0]} and {len(cells) - 1} more"
        warnings.warn(InputWarning(f"Not built: {told} lack {line}."), stacklevel=2)
    if not found.cells:
        raise InputError(
            f"At least one cell is needed; none of {', '.join(map(str, names))} can be built here: see `deepval cells`."
        )
    return dict(found.cells)


def named(names: Sequence[Path]) -> dict[str, BuiltCell]:
    """Cells by the name of their folder, or by its path where two have the same name."""
    built = read_all(names)
    called = [reading.resolved(cell.folder).name for cell in built.values()]
    return {
        name if called.count(name) == 1 else path: cell
        for name, (path, cell) in zip(called, built.items(), strict=True)
    }


def results_and_cells(paths: Sequence[Path]) -> tuple[dict[str, Result], dict[str, BuiltCell]]:
    """Results saved in files, by path, and the cells that the other names stand for."""
    saved = [path for path in paths if reading.is_file(path) and not is_specification(path)]
    others = [path for path in paths if path not in saved]
    if len({reading.resolved(path) for path in saved}) < len(saved):
        raise InputError("Results must be different files; one is given twice.")
    return {str(path): Result.load(path) for path in saved}, named(others) if others else {}


def units(text: str) -> str | list[str]:
    """Units by role or by name."""
    return text if text in ROLES else options.unit_list(text, ROLES) or text


def at_hand(
    cells: Mapping[str, BuiltCell],
    root: Path | None,
    mode: list[str] | None,
    maps: Path | None,
    *,
    all_needed: bool,
    planner: tuple[Path | None, Path | None] = (None, None),
) -> dict[str, CellSpec]:
    """Specifications of the cells whose data are at hand: all where files are given, else those that need none."""
    if root is None and (mode or maps):
        raise InputError(
            "--mode and --maps say how a data set is read again: give --root, the folder of its files, too."
        )
    weights, masks = planner
    if (weights is None) != (masks is None):
        raise InputError("A learned planner is weights and masks: give both --weights and --masks, or neither.")
    paths = None if weights is None or masks is None else PlannerPaths(weights, masks)
    if paths is not None and not any(cell.spec.learned for cell in cells.values()):
        raise InputError(
            "--weights and --masks are of cells of the learned planner, and none is given: leave them out."
        )
    files = options.named_files(mode or (), "Modes", lambda path: path.stem)
    known = {name: told for name, cell in cells.items() if (told := _SOURCE.get().specs.get(str(cell.folder)))}
    wanted = {
        name: cell
        for name, cell in cells.items()
        if name not in known and (all_needed or root is not None or not needs_files(cell))
    }
    return known | {
        name: located(cell, root=root, files=files, maps=maps, planner=paths) for name, cell in wanted.items()
    }
