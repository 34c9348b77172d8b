"""Untrusted folders -> submissions, or every reason why a folder is refused; none can
crash or bloat this process.

Each folder is read by a process of its own whose memory, time and output are bounded
(`files.bounded`, `submission_child`). That process gets the inputs of the cells but no
losses, and returns its findings as plain text and numbers; if it crashes, the folder is
refused. Its answer is not trusted: cards are checked again, and scores must be numbers
of the right shape.

The history of a board (history.json beside the submissions) has the versions that it
has accepted so far, to detect copies and changes. Every leaderboard is written with the
history that the next one starts from: earlier and present versions, each once. The
maintainer of the board puts the file beside the submissions. It contains hashes of
files, the folder of each submission, a hash of how each file of scores ranks the test
inputs and, as there is no clock, the turn of the leaderboard in which each version was
new. The turn determines which of two equal submissions is the earlier one.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.bounded import Limits, Reader
from deepval.basics.files.canonical import digest_of, json_content
from deepval.basics.files.writing import sealed_or_none, write_sealed
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.board.cards import Card, card_of
from deepval.deploy.board.store import code_digest
from deepval.deploy.board.submission_child import write_wanted
from deepval.deploy.board.submission_files import WantedScores, file_digests, plain_name
from deepval.deploy.board.tracks import TrackedCell
from deepval.judge.tables.scores import Scores

READINGS_SCHEMA = "deepval/readings/1"
READINGS_WHAT = "readings kept by `deepval leaderboard`"
READINGS_FILE = "submissions.read"
READS = "deepval.deploy.board.submission_child"


class StoredReadings:
    """Returns the stored answer for an unchanged folder; for any other folder, asks a
    reader.

    `purpose` is plain data that an answer depends on besides the folder: the cells that
    are to be scored.
    """

    def __init__(self, cache: Path, purpose: Any) -> None:
        self._path, self._inputs = (
            cache / READINGS_FILE,
            {"code": code_digest(READS), "wanted": purpose},
        )
        self._stored = _read_answers(self._path)
        self._current: dict[str, bytes] = {}

    def answer(self, folder: Path, reader: Reader, limits: Limits, most: int) -> bytes:
        """The reader's answer for a folder, stored or new."""
        try:
            files = file_digests(folder)
        except (InputError, OSError):
            # the reader reports the reason
            return reader.answer(str(folder.absolute()), limits, most)
        key = digest_of(self._inputs | {"files": files})
        answer = self._stored.get(key)
        if answer is None:
            answer = reader.answer(str(folder.absolute()), limits, most)
        # The folder may have changed while it was read: store an answer only if it is
        # of the hashed files.
        if _files_of(answer) == files:
            self._current[key] = answer
        return answer

    def write(self) -> None:
        """Write the answers for the folders of this run; answers for other folders are
        dropped.
        """
        if self._current.keys() != self._stored.keys():
            lengths = {
                key: len(answer) for key, answer in sorted(self._current.items())
            }
            write_sealed(
                self._path,
                READINGS_SCHEMA,
                lengths,
                [self._current[key] for key in lengths],
            )


def _read_answers(path: Path) -> dict[str, bytes]:
    """The stored answers by key; empty if the file is missing or damaged."""
    lengths, content = sealed_or_none(path, READINGS_SCHEMA, READINGS_WHAT) or ({}, b"")
    answers, begin = {}, 0
    for key, length in lengths.items():
        answers[key] = content[begin : begin + length]
        begin += length
    return answers


def _files_of(answer: bytes) -> Mapping[str, str] | None:
    """The file hashes in a reader's answer; None if the answer has none."""
    try:
        return json_content(answer.partition(b"\n")[0], "what a reader said")["files"]
    except (InputError, TypeError, KeyError):
        return None


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


def check(
    folder: Path | str, cells: Mapping[str, TrackedCell], limits: Limits | None = None
) -> Checked:
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
    """The submission or the faults of each folder, in order; with a cache, unchanged
    folders are not read again.
    """
    scored_cells = wanted(cells)
    stored = (
        None
        if cache is None
        else StoredReadings(
            cache, [[c.name, c.digest, c.profile] for c in cells.values()]
        )
    )
    with tempfile.TemporaryDirectory(prefix="deepval-") as home:
        path = Path(home) / "wanted.npz"
        write_wanted(path, scored_cells)
        idle: SimpleQueue[Reader] = SimpleQueue()

        def checked(folder: Path) -> Checked:
            process = idle.get()
            try:
                return _check_folder(
                    folder, scored_cells, process, limits or Limits(), stored
                )
            finally:
                idle.put(process)

        pool = ThreadPoolExecutor(AT_ONCE)
        with ExitStack() as readers:
            for _ in range(AT_ONCE):
                idle.put(readers.enter_context(closing(Reader(READS, str(path)))))
            try:
                futures = [pool.submit(checked, folder) for folder in folders]
                results = [
                    future.result() for future in watch(futures, "checking submissions")
                ]
            finally:
                pool.shutdown(cancel_futures=True)
    if stored is not None:
        stored.write()
    return results


def wanted(cells: Mapping[str, TrackedCell]) -> dict[str, WantedScores]:
    """The facts about cells that a reader needs."""
    return {
        name: WantedScores(c.table, (*c.split.validation, *c.split.test), c.profile)
        for name, c in cells.items()
    }


def _check_folder(
    folder: Path,
    cells: Mapping[str, WantedScores],
    reader: Reader,
    limits: Limits,
    stored: StoredReadings | None = None,
) -> Checked:
    name = plain_name(folder.name)
    most = LARGEST_HEAD + sum(
        8 * len(cell.scored) * len(cell.table.modes) for cell in cells.values()
    )
    try:
        answer = (
            reader.answer(str(folder.absolute()), limits, most)
            if stored is None
            else stored.answer(folder, reader, limits, most)
        )
    except InputError as error:
        return Checked(name, None, (str(error),))
    try:
        return _parsed(name, answer, cells)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Checked(
            name, None, ("must be readable; the answer of its reader is malformed.",)
        )


def _parsed(name: str, answer: bytes, cells: Mapping[str, WantedScores]) -> Checked:
    """The submission in a reader's answer; any error here means that the answer is
    malformed.
    """
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
        values = np.frombuffer(
            numbers,
            "<f8",
            len(cells[cell].scored) * (len(modes) if axes == 2 else 1),
            start,
        )
        start += values.nbytes
        values = values.reshape(-1, len(modes)) if axes == 2 else values
        scores[cell] = Scores(
            file, values, np.ones(len(values), dtype=bool), modes if axes == 2 else ()
        )
    files = dict(
        zip(_texts(content["files"]), _texts(content["files"].values()), strict=True)
    )
    if start != len(numbers) or any(
        np.isnan(item.values).any() for item in scores.values()
    ):
        raise ValueError
    return Checked(
        name,
        Submission(name, card, scores, files, _texts(content["remarks"])),
        (),
    )


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    """Texts as they are printed and written; characters that UTF-8 cannot encode are
    escaped.
    """
    return tuple(
        str(text).encode("utf-8", "backslashreplace").decode() for text in values
    )


SCHEMA = "deepval/history/1"
HISTORY = "history.json"
LARGEST_HISTORY = 64 * 2**20
Versions = dict[str, list[dict[str, str]]]
"""Per submission, the SHA-256 of its files in every version, oldest first."""


class ScoreFile(NamedTuple):
    """A file of scores that the board accepted: its submission, cell, turn, hash and
    the hash of its ranking.
    """

    key: str
    cell: str
    turn: int
    sha256: str
    ranking: str | None

    @property
    def handle(self) -> str:
        """Handle of the submitter."""
        return self.key.partition("/")[0]


@dataclass(frozen=True)
class History:
    """The versions that the board accepted.

    Attributes:
        versions: Per submission, the SHA-256 of its files in every version, oldest
            first.
        turns: The turn in which each version was new (0 if history.json does not
            contain it).
        folders: The folder of each submission's last version.
        rankings: Per SHA-256 of a file of scores, the SHA-256 of how it ranks the test
            inputs.
    """

    versions: Versions = field(default_factory=dict)
    turns: dict[str, list[int]] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    rankings: dict[str, str] = field(default_factory=dict)

    def score_files(self) -> Iterator[ScoreFile]:
        """Every file of scores of every version."""
        for key, versions in self.versions.items():
            for files, turn in zip(versions, self.turns[key], strict=True):
                for name, sha in files.items():
                    if name.startswith("scores/"):
                        yield ScoreFile(
                            key, Path(name).stem, turn, sha, self.rankings.get(sha)
                        )


def read_history(folder: Path) -> History:
    """The earlier versions of submissions in a folder; empty if there is no history."""
    path = folder / HISTORY
    if not reading.exists(path) and not reading.is_link(path):
        return History()
    if reading.is_link(path):
        raise InputError(
            f"{path}: must be a plain file of "
            f"at most {LARGEST_HISTORY:,} bytes; it is a link."
        )
    data = reading.content(path, "a plain file", largest=LARGEST_HISTORY)
    try:
        content = json_content(data, path)
        versions = {
            str(k): [_version(item) for item in v]
            for k, v in content["versions"].items()
            if v
        }
        "".join(versions).encode()  # as in `_version`
        turns = {
            key: _turns(content.get("turns", {}).get(key), len(items))
            for key, items in versions.items()
        }
        folders = _version(content.get("folders", {}))
        rankings = _version(content.get("rankings", {}))
        schema = content["schema"]
    except (
        ValueError,
        OverflowError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ):
        raise _no_history(path) from None
    if schema != SCHEMA:
        raise _no_history(path)
    return History(versions, turns, folders, rankings)


def _no_history(path: Path) -> InputError:
    return InputError(
        f"{path}: must be a history written by `deepval leaderboard`; "
        "mend it or take it away."
    )


def _version(item: Mapping[str, str]) -> dict[str, str]:
    version = {str(name): str(digest) for name, digest in item.items()}
    # both are printed; a lone surrogate raises ValueError here
    "".join([*version, *version.values()]).encode()
    return version


def _turns(turns: Any, number: int) -> list[int]:
    numbers = [0] * number if turns is None else [int(turn) for turn in turns]
    if len(numbers) != number or any(not 0 <= turn < 2**31 for turn in numbers):
        raise ValueError(
            f"{number} versions have as many turns from 0 on; found {len(numbers)}"
        )
    return numbers


def continued(
    history: History,
    accepted: Sequence[Submission],
    rankings: Mapping[str, str] | None = None,
) -> History:
    """The history with the present versions appended, except those that equal the last
    recorded version.

    Args:
        history: The history so far.
        accepted: The submissions on the board now.
        rankings: SHA-256 of their rankings by that of the file.
    """
    versions = {key: list(items) for key, items in history.versions.items()}
    turns = {key: list(items) for key, items in history.turns.items()}
    now = 1 + max((turn for items in turns.values() for turn in items), default=0)
    for item in accepted:
        own, files = versions.setdefault(item.card.key, []), dict(item.files)
        if not own or own[-1] != files:
            own.append(files)
            turns.setdefault(item.card.key, []).append(now)
    folders = history.folders | {item.card.key: item.folder for item in accepted}
    return History(versions, turns, folders, history.rankings | dict(rankings or {}))


def history_file(history: History) -> dict[str, Any]:
    """The content of history.json."""
    return {
        "schema": SCHEMA,
        "versions": history.versions,
        "turns": history.turns,
        "folders": history.folders,
        "rankings": history.rankings,
    }
