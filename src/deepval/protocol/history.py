"""history.json beside the submissions -> hashes of earlier versions, so that a changed resubmission can be seen.

A leaderboard is written with the history that the next one starts from: the earlier versions and the present ones,
each once. Whoever keeps the folder of submissions puts it there. It holds hashes of files and, as there is no clock, in
which turn of the leaderboard each version was new, so that of two equal submissions the earlier is known.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import json_content
from deepval.protocol.submissions import Submission

SCHEMA = "deepval/history/1"
HISTORY = "history.json"
LARGEST_HISTORY = 64 * 2**20
Versions = dict[str, list[dict[str, str]]]
"""Per submission, the SHA-256 of its files in every version, the oldest first."""


class History(NamedTuple):
    """Versions of submissions, and the turn in which each was new (0 where a history does not say)."""

    versions: Versions
    turns: dict[str, list[int]]

    def since(self, item: Submission, cells: Collection[str]) -> int | None:
        """The first turn in which a submission had its present scores of these cells, None where that is now."""
        scores = {
            name: sha for name, sha in item.files.items() if name.startswith("scores/") and Path(name).stem in cells
        }
        pairs = zip(self.versions.get(item.card.key, []), self.turns.get(item.card.key, []), strict=True)
        return min((turn for files, turn in pairs if scores.items() <= files.items()), default=None)


def read_history(folder: Path) -> History:
    """The earlier versions of submissions in a folder; none where there is no history."""
    path = folder / HISTORY
    if not reading.exists(path) and not reading.is_link(path):
        return History({}, {})
    if reading.is_link(path):
        raise InputError(f"{path}: must be a plain file of at most {LARGEST_HISTORY:,} bytes; it is a link.")
    data = reading.content(path, "a plain file", largest=LARGEST_HISTORY)
    try:
        content = json_content(data, path)
        versions = {str(k): [_version(item) for item in v] for k, v in content["versions"].items()}
        told = content.get("turns", {})
        turns = {key: _turns(told.get(key), len(items)) for key, items in versions.items()}
        schema = content["schema"]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        schema, versions, turns = None, {}, {}
    if schema != SCHEMA:
        raise InputError(f"{path}: must be a history written by `deepval leaderboard`; mend it or take it away.")
    return History(versions, turns)


def _version(item: Mapping[str, str]) -> dict[str, str]:
    version = {str(name): str(digest) for name, digest in item.items()}
    "".join(version).encode()  # names are shown, so they must be text: half a surrogate pair is a ValueError
    return version


def _turns(told: Any, number: int) -> list[int]:
    turns = [0] * number if told is None else [int(turn) for turn in told]
    if len(turns) != number:
        raise ValueError(f"{number} versions have as many turns; found {len(turns)}")
    return turns


def continued(history: History, accepted: Sequence[Submission]) -> History:
    """The history with the present versions at its end, unless they are the last already."""
    kept = {key: list(versions) for key, versions in history.versions.items()}
    turns = {key: list(items) for key, items in history.turns.items()}
    now = 1 + max((turn for items in turns.values() for turn in items), default=0)
    for item in accepted:
        versions, files = kept.setdefault(item.card.key, []), dict(item.files)
        if not versions or versions[-1] != files:
            versions.append(files)
            turns.setdefault(item.card.key, []).append(now)
    return History(kept, turns)


def history_file(history: History) -> dict[str, Any]:
    """The content of history.json."""
    return {"schema": SCHEMA, "versions": history.versions, "turns": history.turns}
