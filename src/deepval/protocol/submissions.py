"""Folders of strangers -> submissions, or every reason why they are none; none can end or swell this process.

Each folder is read by a process of its own (`submission_child`) whose memory, time and output are bounded. It is told
which inputs a cell has and no answer, and says in plain text and numbers what it found; a process that breaks off is a
reason to refuse. Nothing that it says is trusted: cards are checked again, and scores are numbers of a known shape.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from deepval.errors import InputError
from deepval.progress import Watch, unwatched
from deepval.protocol.cards import Card, card_of
from deepval.protocol.keeping import KeptReadings
from deepval.protocol.submission_child import Limits, write_wanted
from deepval.protocol.submission_files import WantedScores, plain_name
from deepval.protocol.submission_reader import Reader, reader
from deepval.protocol.tracks import TrackedCell
from deepval.tables.scores import Scores

AT_ONCE = 2
"""Folders that are read at the same time."""
LARGEST_HEAD = 2**20
"""Bytes of what a reader says besides the scores."""


@dataclass(frozen=True, eq=False)
class Submission:
    """A folder that passed.

    Attributes:
        folder: Its name.
        card: What it says of itself.
        scores: Per cell, the scores of validation and test inputs.
        files: SHA-256 of every file.
        remarks: What a reader may want to know, such as a last line without an end.
    """

    folder: str
    card: Card
    scores: Mapping[str, Scores] = field(repr=False)
    files: Mapping[str, str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Checked:
    """A submission, or why there is none."""

    folder: str
    submission: Submission | None
    problems: tuple[str, ...]


def check(folder: Path | str, cells: Mapping[str, TrackedCell], limits: Limits | None = None) -> Checked:
    """Everything that is wrong with a submission's folder, one sentence each; the submission where nothing is."""
    (checked,) = check_all([Path(folder)], cells, limits)
    return checked


def check_all(
    folders: Sequence[Path],
    cells: Mapping[str, TrackedCell],
    limits: Limits | None = None,
    *,
    cache: Path | None = None,
    watch: Watch = unwatched,
) -> list[Checked]:
    """The same of many folders, in their order; with a cache, those that are as they were are not read again."""
    told = wanted(cells)
    kept = None if cache is None else KeptReadings(cache, [[c.name, c.digest, c.profile] for c in cells.values()])
    with tempfile.TemporaryDirectory(prefix="deepval-") as home:
        path = Path(home) / "wanted.npz"
        write_wanted(path, told)
        free: SimpleQueue[Reader] = SimpleQueue()

        def checked(folder: Path) -> Checked:
            mine = free.get()
            try:
                return _checked(folder, told, mine, limits or Limits(), kept)
            finally:
                free.put(mine)

        pool = ThreadPoolExecutor(AT_ONCE)
        with ExitStack() as readers:
            for number in range(AT_ONCE):
                free.put(readers.enter_context(reader(path, f"said-{number}")))
            try:
                begun = [pool.submit(checked, folder) for folder in folders]
                found = [future.result() for future in watch(begun, "checking submissions")]
            finally:
                pool.shutdown(cancel_futures=True)
    if kept is not None:
        kept.write()
    return found


def wanted(cells: Mapping[str, TrackedCell]) -> dict[str, WantedScores]:
    """What a reader is told of cells."""
    return {name: WantedScores(c.table, (*c.split.validation, *c.split.test), c.profile) for name, c in cells.items()}


def _checked(
    folder: Path,
    cells: Mapping[str, WantedScores],
    reader: Reader,
    limits: Limits,
    kept: KeptReadings | None = None,
) -> Checked:
    name = plain_name(folder.name)
    most = LARGEST_HEAD + sum(8 * len(cell.scored) * len(cell.table.modes) for cell in cells.values())
    try:
        said = _said(folder, reader, limits, most, kept)
    except InputError as error:
        return Checked(name, None, (str(error),))
    try:
        return _understood(name, said, cells)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Checked(name, None, ("must be readable; its reader says what no reader says.",))


def _said(folder: Path, reader: Reader, limits: Limits, most: int, kept: KeptReadings | None) -> bytes:
    """What is said of a folder."""
    return reader.said(folder, limits, most) if kept is None else kept.said(folder, reader, limits, most)


def _understood(name: str, said: bytes, cells: Mapping[str, WantedScores]) -> Checked:
    head, _, numbers = said.partition(b"\n")
    content = json.loads(head)
    problems = _texts(content["problems"])
    if problems:
        return Checked(name, None, problems)
    card, faults = card_of(content["card"])
    if card is None:
        return Checked(name, None, tuple(faults))
    scores, start = {}, 0
    for cell, file, axes in content["scores"]:
        modes = cells[cell].table.modes[1:]
        values = np.frombuffer(numbers, "<f8", len(cells[cell].scored) * (len(modes) if axes == 2 else 1), start)
        start += values.nbytes
        values = values.reshape(-1, len(modes)) if axes == 2 else values
        scores[cell] = Scores(file, values, np.ones(len(values), dtype=bool), modes if axes == 2 else ())
    files = dict(zip(_texts(content["files"]), _texts(content["files"].values()), strict=True))
    if start != len(numbers) or any(np.isnan(found.values).any() for found in scores.values()):
        raise ValueError
    return Checked(name, Submission(name, card, scores, files, _texts(content["remarks"])), ())


def _texts(found: Iterable[Any]) -> tuple[str, ...]:
    """Texts as they are shown and written: whatever is no UTF-8 is spelled out."""
    return tuple(str(text).encode("utf-8", "backslashreplace").decode() for text in found)
