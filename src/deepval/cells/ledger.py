"""Judgements on a cell's test units -> a line each in a ledger beside the cell: how often the answer was looked at.

The ledger is no file of the cell: the manifest does not name it, no hash covers it and no result holds it. It has no
times in it. A line is appended whole or not at all, and processes never mix theirs.
"""

import errno
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
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk says that takes no more."""


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

    Raises:
        InputError: The disk is full. A cell that this user may not write to, say, is a warning instead.
    """
    test = sorted(set(cell.split.test) & set(cell.split.units if units is None else units))
    if not test:
        return
    judged = {name: item.digest for name, item in scores.items()}
    line = {"cell": cell.id, "by": by, "test_units": test, "scores": judged, "plan": plan}
    try:
        append_line(cell.folder / LEDGER, json_canonical(line))
    except InputError as error:
        if getattr(error.__cause__, "errno", None) in FULL:
            raise
        warnings.warn(f"This look at test units is not counted: {error}", InputWarning, stacklevel=2)


def note_looks(cells: Iterable["BuiltCell"], *, by: str) -> None:
    """Append to each cell's ledger that an analysis judged allocators of its own on the test units."""
    for cell in cells:
        note(cell, by=by, units=cell.split.test, scores={})


def openings(folder: Path, cell: str) -> int:
    """How often test units of a cell were judged on in this folder; a cell built there before has its own count."""
    path = folder / LEDGER
    lines = reading.content(path, "a ledger").splitlines() if reading.exists(path) else []
    return sum(_cell_of(line, path, number) == cell for number, line in enumerate(lines, 1))


def _cell_of(line: bytes, path: Path, number: int) -> str:
    """The cell that a line of a ledger is about."""
    try:
        content = json_content(line, path)
        if isinstance(content, dict) and isinstance(content.get("cell"), str):
            return content["cell"]
    except InputError:
        pass
    raise InputError(
        f"{path}: must be a ledger that deepval wrote; line {number} is no look at test units. It may have been cut "
        f"off on a full disk: remove it with `sed -i {number}d {path}`, and count that look yourself."
    )
