"""Cells with parts for analyses, and their rows with a field for each column."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from deepval.paper.analysis import Analysis
from deepval.paper.study import Cell, Choices

COMMAND = Choices(command="test")


def study_cells(
    cells: Mapping[str, Any] | None = None,
    located: Mapping[str, Any] | None = None,
    **parts: Mapping[str, Any],
) -> list[Cell]:
    """Cells by name, with the parts that are at hand, each by cell."""
    built = cells or {}
    names = dict.fromkeys([*built, *(name for part in parts.values() for name in part)])
    return [
        Cell(
            name,
            built=built.get(name),
            folder=getattr(built.get(name), "folder", None),
            spec=(located or {}).get(name),
            choices=COMMAND,
            parts={
                part: by_cell[name]
                for part, by_cell in parts.items()
                if name in by_cell
            },
        )
        for name in names
    ]


def flat(declared: Analysis, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Rows as CSV and JSON have them, with a field for each column."""
    return [SimpleNamespace(**row) for row in declared.flat(list(rows))]


def flat_rows(declared: Analysis, cells: Iterable[Cell], **settings: Any) -> list[Any]:
    """The rows of an analysis on some cells, with a field for each column."""
    return flat(declared, declared.run(list(cells), **settings))


def flat_means(declared: Analysis, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The summary of some rows over cells, with a field for each column."""
    return [SimpleNamespace(**row) for row in declared.means(list(rows))]
