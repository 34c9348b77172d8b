"""What all analyses share on the command line: cells in, rows out in the form that was asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from deepval.cells.folder import BuiltCell, read_cell
from deepval.cells.located import located, needs_files
from deepval.cells.spec import CellSpec
from deepval.cells.splits import ROLES
from deepval.cli import options
from deepval.errors import InputError
from deepval.files import check_writable, write_atomically
from deepval.manifests import MANIFEST
from deepval.report import csv, latex, markdown
from deepval.report.console import render_tables
from deepval.report.tables import Table

FORMS = ("text", "markdown", "csv", "latex", "json")
SUFFIXES = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".json": "json"}

Cells = Annotated[
    list[Path], typer.Argument(help="Folders of cells that `deepval build` wrote, or folders that hold such folders.")
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

    def tell(self, rows: Sequence[Any], table: Callable[[Sequence[Any]], Table]) -> None:
        """Print or write the rows, each a dataclass; CSV and JSON have every field unrounded."""
        records = [asdict(row) for row in rows]
        tables = [] if self.form in ("csv", "json") else [table(rows)]
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


def read_all(folders: Sequence[Path]) -> dict[str, BuiltCell]:
    """Cells by folder as given; a folder that is none itself stands for the cells in it."""
    every = [inner for folder in folders for inner in _cells_in(folder)]
    if len({folder.resolve() for folder in every}) < len(every):
        raise InputError("Cells must be different folders; one is given twice.")
    return {str(folder): read_cell(folder) for folder in every}


def named(folders: Sequence[Path]) -> dict[str, BuiltCell]:
    """Cells by the name of their folder, or by its path where two have the same name."""
    built = read_all(folders)
    names = [cell.folder.resolve().name for cell in built.values()]
    return {
        name if names.count(name) == 1 else path: cell for name, (path, cell) in zip(names, built.items(), strict=True)
    }


def units(text: str) -> str | list[str]:
    """Units by role or by name."""
    return text if text in ROLES else options.unit_list(text, ROLES) or text


def at_hand(
    cells: Mapping[str, BuiltCell], root: Path | None, mode: list[str] | None, maps: Path | None, *, all_needed: bool
) -> dict[str, CellSpec]:
    """Specifications of the cells whose data are at hand: all where files are given, else those that need none."""
    if root is None and (mode or maps):
        raise InputError(
            "--mode and --maps say how a data set is read again: give --root, the folder of its files, too."
        )
    files = options.named_files(mode or (), "Modes", lambda path: path.stem)
    wanted = {name: cell for name, cell in cells.items() if all_needed or root is not None or not needs_files(cell)}
    return {name: located(cell, root=root, files=files, maps=maps) for name, cell in wanted.items()}


def _cells_in(folder: Path) -> list[Path]:
    if (folder / MANIFEST).exists():
        return [folder]
    inner = sorted(path.parent for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in folder.glob(pattern))
    return inner or [folder]
