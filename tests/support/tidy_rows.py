"""Cells with parts for analyses, and their rows with a field for each column."""

from collections.abc import Iterable, Mapping
from typing import Any

from deepval.judge.results import BudgetKey
from deepval.paper.analysis import Analysis, Summary
from deepval.paper.study import PARTS, Cell, Choices
from deepval.paper.tidy import Column, Row, records

COMMAND = Choices(command="test")
ABSENT = dict.fromkeys(PARTS.keys() - {"cells", "located", "costs"})
"""Parts that a cell does not have unless a test gives them."""


def study_cells(
    cells: Mapping[str, Any] | None = None,
    located: Mapping[str, Any] | None = None,
    **parts: Mapping[str, Any],
) -> list[Cell]:
    """Cells by name, with the parts that are at hand, each by cell."""
    built = cells or {}
    names = dict.fromkeys(name for part in parts.values() for name in part)
    if built:
        names = dict.fromkeys(built)
    return [
        Cell(
            name,
            built=built.get(name),
            folder=getattr(built.get(name), "folder", None),
            spec=(located or {}).get(name),
            choices=COMMAND,
            parts=ABSENT
            | {
                part: by_cell[name]
                for part, by_cell in parts.items()
                if name in by_cell
            },
        )
        for name in names
    ]


class ReadableRow(dict):
    """A row whose fields, as CSV and JSON have them, are attributes too."""

    def __init__(self, row: Row, columns: Iterable[Column]) -> None:
        super().__init__(row)
        (self.fields,) = records(tuple(columns), [row])

    def __getattr__(self, name: str) -> Any:
        if name == "budget":
            return BudgetKey.of(self)
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


def flat(declared: Analysis | Summary, rows: Iterable[Row]) -> list[Any]:
    """Rows with their fields as attributes."""
    return [ReadableRow(row, declared.columns) for row in rows]


def flat_rows(declared: Analysis, cells: Iterable[Cell], **settings: Any) -> list[Any]:
    """The rows of an analysis on some cells, with their fields as attributes."""
    return flat(declared, declared.run(list(cells), **settings))


def flat_means(declared: Analysis, rows: Iterable[Row]) -> list[Any]:
    """The summary of some rows over cells, with its fields as attributes."""
    assert declared.over_cells is not None
    return flat(declared.over_cells, declared.over_cells.rows(list(rows)))
