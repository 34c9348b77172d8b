"""Untrusted folders -> submissions, or every reason why a folder is refused; none can crash or bloat this process.

Each folder is read by a process of its own (`submission_child`) whose memory, time and output are bounded. That process
gets the inputs of the cells but no losses, and returns its findings as plain text and numbers; if it crashes, the
folder is refused. Its answer is not trusted: cards are checked again, and scores must be numbers of the right shape.
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
"""Number of folders that are read at the same time."""
LARGEST_HEAD = 2**20
"""Largest answer of a reader without the scores, in bytes."""


@dataclass(frozen=True, eq=False)
class Submission:
    """A folder that passed all checks.

    Attributes:
        folder: The folder's name.
        card: Its description of itself.
        scores: Per cell, the scores of validation and test inputs.
        files: SHA-256 of every file.
        remarks: Harmless oddities, such as a last line without a line end.
    """

    folder: str
    card: Card
    scores: Mapping[str, Scores] = field(repr=False)
    files: Mapping[str, str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Checked:
    """A submission, or the reasons why its folder is refused."""

    folder: str
    submission: Submission | None
    problems: tuple[str, ...]


def check(folder: Path | str, cells: Mapping[str, TrackedCell], limits: Limits | None = None) -> Checked:
    """The submission in a folder, or one sentence for each of its faults."""
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
    """The same for many folders, in their order; with a cache, unchanged folders are not read again."""
    scored_cells = wanted(cells)
    stored = None if cache is None else KeptReadings(cache, [[c.name, c.digest, c.profile] for c in cells.values()])
    with tempfile.TemporaryDirectory(prefix="deepval-") as home:
        path = Path(home) / "wanted.npz"
        write_wanted(path, scored_cells)
        idle: SimpleQueue[Reader] = SimpleQueue()

        def checked(folder: Path) -> Checked:
            process = idle.get()
            try:
                return _check_folder(folder, scored_cells, process, limits or Limits(), stored)
            finally:
                idle.put(process)

        pool = ThreadPoolExecutor(AT_ONCE)
        with ExitStack() as readers:
            for number in range(AT_ONCE):
                idle.put(readers.enter_context(reader(path, f"said-{number}")))
            try:
                futures = [pool.submit(checked, folder) for folder in folders]
                results = [future.result() for future in watch(futures, "checking submissions")]
            finally:
                pool.shutdown(cancel_futures=True)
    if stored is not None:
        stored.write()
    return results


def wanted(cells: Mapping[str, TrackedCell]) -> dict[str, WantedScores]:
    """The facts about cells that a reader needs."""
    return {name: WantedScores(c.table, (*c.split.validation, *c.split.test), c.profile) for name, c in cells.items()}


def _check_folder(
    folder: Path,
    cells: Mapping[str, WantedScores],
    reader: Reader,
    limits: Limits,
    stored: KeptReadings | None = None,
) -> Checked:
    name = plain_name(folder.name)
    most = LARGEST_HEAD + sum(8 * len(cell.scored) * len(cell.table.modes) for cell in cells.values())
    try:
        answer = _answer(folder, reader, limits, most, stored)
    except InputError as error:
        return Checked(name, None, (str(error),))
    try:
        return _parsed(name, answer, cells)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Checked(name, None, ("must be readable; its reader says what no reader says.",))


def _answer(folder: Path, reader: Reader, limits: Limits, most: int, stored: KeptReadings | None) -> bytes:
    """The reader's answer for a folder, from the cache where there is one."""
    return reader.said(folder, limits, most) if stored is None else stored.answer(folder, reader, limits, most)


def _parsed(name: str, answer: bytes, cells: Mapping[str, WantedScores]) -> Checked:
    """The submission in a reader's answer; any error here means that the answer is malformed."""
    head, _, numbers = answer.partition(b"\n")
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
    if start != len(numbers) or any(np.isnan(item.values).any() for item in scores.values()):
        raise ValueError
    return Checked(name, Submission(name, card, scores, files, _texts(content["remarks"])), ())


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    """Texts as they are printed and written; characters that UTF-8 cannot encode are escaped."""
    return tuple(str(text).encode("utf-8", "backslashreplace").decode() for text in values)
