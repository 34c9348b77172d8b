"""Result -> tables for the terminal: bold green where an allocator beats random, red* where it loses to it."""

import io
from collections.abc import Sequence
from typing import Any

from deepval.judging.comparison import Comparison
from deepval.judging.over_cells import PooledComparison
from deepval.report.tables import Table, comparison_table, headline, tables
from deepval.results import Result

WIDE = 120
"""Narrower pages leave out the columns that a table can spare."""


def render(result: Result, *, width: int = 140, color: bool = False, sections: Sequence[str] | None = None) -> str:
    """The result as text of a given width; with `sections` only the tables whose titles begin with one of them."""
    words = [*headline(result), *(f"Note: {warning}" for warning in result.warnings)]
    shown = [table for table in tables(result) if sections is None or table.title.startswith(tuple(sections))]
    return _rendered(words, shown, width=width, color=color)


def render_comparison(rows: Sequence[Comparison | PooledComparison], *, width: int = 140, color: bool = False) -> str:
    """Two allocators compared, as text of a given width."""
    return _rendered([], [comparison_table(rows)], width=width, color=color)


def render_tables(tables: Sequence[Table], *, width: int = 140, color: bool = False) -> str:
    """Tables as text for a terminal of this width."""
    return _rendered([], tables, width=width, color=color)


def _rendered(words: Sequence[str], shown: Sequence[Table], *, width: int, color: bool) -> str:
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    for sentence in words:
        console.print(sentence, markup=False)
    for table in shown:
        console.print()
        console.print(_grid(table if width >= WIDE else table.narrowed()))
        for note in table.notes:
            console.print(note, markup=False, style="dim")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _grid(table: Table) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(table.header):
        text = index < 2 or name in ("verdict", "policy", "kept", "modes", "oracle")
        grid.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    styles = {"better": "bold green", "worse": "red", "": ""}
    for section in table.sections:
        for row in section:
            cells = [Text(c.text + ("*" if c.mark == "worse" else ""), style=styles[c.mark]) for c in row]
            grid.add_row(*cells)
        grid.add_section()
    return grid
