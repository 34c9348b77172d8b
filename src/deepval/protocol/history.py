"""history.json beside the submissions -> the versions that the board has accepted so far, to detect copies and changes.

Every leaderboard is written with the history that the next one starts from: earlier and present versions, each once.
The maintainer of the board puts the file beside the submissions. It contains hashes of files, the folder of each
submission, a sketch of how each file of scores ranks its inputs and, as there is no clock, the turn of the leaderboard
in which each version was new. The turn determines which of two equal submissions is the earlier one.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import json_content
from deepval.protocol.submissions import Submission

SCHEMA = "deepval/history/1"
HISTORY = "history.json"
LARGEST_HISTORY = 64 * 2**20
LONGEST_SKETCH = 256
Versions = dict[str, list[dict[str, str]]]
"""Per submission, the SHA-256 of its files in every version, oldest first."""


class ScoreFile(NamedTuple):
    """A file of scores that the board accepted: its submission, cell, turn, hash and sketch."""

    key: str
    cell: str
    turn: int
    sha256: str
    sketch: bytes | None

    @property
    def handle(self) -> str:
        """Handle of the submitter."""
        return self.key.partition("/")[0]


@dataclass(frozen=True)
class History:
    """The versions that the board accepted.

    Attributes:
        versions: Per submission, the SHA-256 of its files in every version, oldest first.
        turns: The turn in which each version was new (0 where the file does not contain it).
        folders: The folder of each submission's last version.
        sketches: Per SHA-256 of a file of scores, how it ranks a sample of the test inputs.
    """

    versions: Versions = field(default_factory=dict)
    turns: dict[str, list[int]] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    sketches: dict[str, bytes] = field(default_factory=dict)

    def score_files(self) -> Iterator[ScoreFile]:
        """Every file of scores of every version."""
        for key, versions in self.versions.items():
            for files, turn in zip(versions, self.turns[key], strict=True):
                for name, sha in files.items():
                    if name.startswith("scores/"):
                        yield ScoreFile(key, Path(name).stem, turn, sha, self.sketches.get(sha))


def read_history(folder: Path) -> History:
    """The earlier versions of submissions in a folder; none where there is no history."""
    path = folder / HISTORY
    if not reading.exists(path) and not reading.is_link(path):
        return History()
    if reading.is_link(path):
        raise InputError(f"{path}: must be a plain file of at most {LARGEST_HISTORY:,} bytes; it is a link.")
    data = reading.content(path, "a plain file", largest=LARGEST_HISTORY)
    try:
        content = json_content(data, path)
        versions = {str(k): [_version(item) for item in v] for k, v in content["versions"].items() if v}
        "".join(versions).encode()  # as in `_version`
        turns = {key: _turns(content.get("turns", {}).get(key), len(items)) for key, items in versions.items()}
        folders = _version(content.get("folders", {}))
        sketches = {str(sha): _sketch(text) for sha, text in content.get("sketches", {}).items()}
        schema = content["schema"]
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError, RecursionError):
        raise _no_history(path) from None
    if schema != SCHEMA:
        raise _no_history(path)
    return History(versions, turns, folders, sketches)


def _no_history(path: Path) -> InputError:
    return InputError(f"{path}: must be a history written by `deepval leaderboard`; mend it or take it away.")


def _version(item: Mapping[str, str]) -> dict[str, str]:
    version = {str(name): str(digest) for name, digest in item.items()}
    "".join([*version, *version.values()]).encode()  # both are printed; a lone surrogate raises ValueError here
    return version


def _turns(turns: Any, number: int) -> list[int]:
    numbers = [0] * number if turns is None else [int(turn) for turn in turns]
    if len(numbers) != number or any(not 0 <= turn < 2**31 for turn in numbers):
        raise ValueError(f"{number} versions have as many turns from 0 on; found {len(numbers)}")
    return numbers


def _sketch(text: str) -> bytes:
    sketch = base64.b64decode(text, validate=True)
    if len(sketch) > LONGEST_SKETCH:
        raise ValueError(f"a sketch has at most {LONGEST_SKETCH} bytes; found {len(sketch)}")
    return sketch


def continued(history: History, accepted: Sequence[Submission], sketches: Mapping[str, bytes] | None = None) -> History:
    """The history with the present versions appended, except those that equal the last recorded version.

    Args:
        history: The history so far.
        accepted: The submissions on the board now.
        sketches: Sketches of their scores by the SHA-256 of the file.
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
    return History(versions, turns, folders, history.sketches | dict(sketches or {}))


def history_file(history: History) -> dict[str, Any]:
    """The content of history.json."""
    sketches = {sha: base64.b64encode(sketch).decode() for sha, sketch in history.sketches.items()}
    return {
        "schema": SCHEMA,
        "versions": history.versions,
        "turns": history.turns,
        "folders": history.folders,
        "sketches": sketches,
    }
