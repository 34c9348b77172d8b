"""history.json beside the submissions -> hashes of earlier versions, so that a changed resubmission can be seen.

A leaderboard is written with the history that the next one starts from: the earlier versions and the present ones,
each once. Whoever keeps the folder of submissions puts it there. It holds hashes of files and nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepval.benchmark.submissions import Submission
from deepval.errors import InputError

SCHEMA = "deepval/history/1"
HISTORY = "history.json"
LARGEST_HISTORY = 64 * 2**20
Versions = dict[str, list[dict[str, str]]]
"""Per submission, the SHA-256 of its files in every version, the oldest first."""


def read_history(folder: Path) -> Versions:
    """The earlier versions of submissions in a folder; none where there is no history."""
    path = folder / HISTORY
    if not path.exists() and not path.is_symlink():
        return {}
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_HISTORY:
        raise InputError(f"{path}: must be a plain file of at most {LARGEST_HISTORY:,} bytes.")
    try:
        content = json.loads(path.read_bytes())
        told = content["schema"], {str(k): [_version(item) for item in v] for k, v in content["versions"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        told = None, {}
    if told[0] != SCHEMA:
        raise InputError(f"{path}: must be a history written by `deepval leaderboard`; mend it or take it away.")
    return told[1]


def _version(item: Mapping[str, str]) -> dict[str, str]:
    version = {str(name): str(digest) for name, digest in item.items()}
    "".join(version).encode()  # names are shown, so they must be text: half a surrogate pair is a ValueError
    return version


def continued(history: Mapping[str, Sequence[dict[str, str]]], accepted: Sequence[Submission]) -> Versions:
    """The history with the present versions at its end, unless they are the last already."""
    kept = {key: list(versions) for key, versions in history.items()}
    for item in accepted:
        versions, now = kept.setdefault(item.card.key, []), dict(item.files)
        if not versions or versions[-1] != now:
            versions.append(now)
    return kept


def history_file(versions: Mapping[str, Any]) -> dict[str, Any]:
    """The content of history.json."""
    return {"schema": SCHEMA, "versions": versions}
