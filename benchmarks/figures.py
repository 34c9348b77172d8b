"""What a benchmark's main() may return: one line of the table that run.py prints at the end."""

from typing import NamedTuple


class Figure(NamedTuple):
    """A measured figure beside what it is compared with and what it must reach."""

    task: str
    found: str
    beside: str
    target: str
    met: bool


def report(figures: list[Figure]) -> str:
    """The figures as a table in plain text."""
    rows = [("task", "found", "beside it in the same run", "target", "")]
    rows += [(*figure[:4], "met" if figure.met else "MISSED") for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
