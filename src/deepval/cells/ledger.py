"""Judgements on a cell's test units -> a line each in a ledger beside the cell: how often the answer was looked at.

The ledger is no file of the cell: the manifest does not name it, no hash covers it and no result holds it. It has no
times in it. A line is appended by one write, so that processes never mix theirs.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.files.canonical import json_canonical, json_content
from deepval.files.writing import append_line
from deepval.tables.scores import Scores

if TYPE_CHECKING:
    from deepval.cells.folder import BuiltCell

LEDGER = "opened.jsonl"


def note(
    cell: "BuiltCell", *, by: str, units: Sequence[str] | None, scores: Mapping[str, Scores], plan: str | None = None
) -> None:
    """Append that a command judged scores on these units (all where None), where test units are among them.

    Args:
        cell: The cell.
        by: The command.
        units: Units judged on.
        scores: What was judged.
        plan: SHA-256 of the plan that was followed, if any.
    """
    test = sorted(set(cell.split.test) & set(cell.split.units if units is None else units))
    if not test:
        return
    judged = {name: item.digest for name, item in scores.items()}
    line = {"cell": cell.id, "by": by, "test_units": test, "scores": judged, "plan": plan}
    try:
        append_line(cell.folder / LEDGER, json_canonical(line))
    except InputError as error:
        warnings.warn(f"This look at test units is not counted: {error}", InputWarning, stacklevel=2)


def note_looks(cells: Iterable["BuiltCell"], *, by: str) -> None:
    """Append to each cell's ledger that an analysis judged allocators of its own on the test units."""
    for cell in cells:
        note(cell, by=by, units=cell.split.test, scores={})


def openings(folder: Path, cell: str) -> int:
    """How often test units of a cell were judged on in this folder; a cell built there before has its own count."""
    path = folder / LEDGER
    lines = reading.content(path, "a ledger").splitlines() if reading.exists(path) else []
    told = [json_content(line, path, "a ledger that deepval wrote") for line in lines]
    if not all(isinstance(entry, dict) and isinstance(entry.get("cell"), str) for entry in told):
        raise InputError(f"{path}: must be a ledger that deepval wrote; a line names no cell.")
    return sum(entry["cell"] == cell for entry in told)
