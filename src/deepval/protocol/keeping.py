"""A computation and all that it rests on -> a folder of its files, made once and named by the hash of all of it.

Files are written whole, the list of their hashes last: what a kill leaves is no result, what is damaged
is made anew.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, file_digest, json_text, read_json, sha256
from deepval.files.writing import write_atomically
from deepval.version import __version__

LIST, REFUSED = "kept.json", "refused.txt"
"""Files of a folder: the list of the others with their hashes; the sentence with which a computation was refused."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pyarrow")
"""Whose versions may change a number."""


@cache
def versions() -> dict[str, str]:
    """What every result rests on beside its own code and data."""
    return {"deepval": __version__, **{name: version(name) for name in LIBRARIES}}


def place(root: Path, kind: str, rests_on: Mapping[str, Any]) -> Path:
    """The folder of what rests on these."""
    return root / kind / digest_of({**rests_on, "versions": versions()})[:24]


def is_kept(folder: Path) -> bool:
    """Whether everything that was kept in a folder is there, as it was written."""
    try:
        told = read_json(folder / LIST)
        return all(file_digest(folder / str(name)) == digest for name, digest in told["files"].items())
    except (InputError, KeyError, TypeError, AttributeError):
        return False


def contents(folder: Path) -> dict[str, bytes] | None:
    """Everything that was kept in a folder, each file as it was written; None where it is not whole."""
    try:
        told = read_json(folder / LIST)["files"]
        found = {str(name): reading.content(folder / str(name)) for name in told}
        return found if {name: sha256(data) for name, data in found.items()} == told else None
    except (InputError, KeyError, TypeError, AttributeError):
        return None


def kept(root: Path, kind: str, rests_on: Mapping[str, Any], make: Callable[[], Mapping[str, bytes]]) -> Path:
    """The folder of what rests on these: as it was kept, or made now."""
    folder = place(root, kind, rests_on)
    if not is_kept(folder):
        files = dict(make())
        for name, data in files.items():
            write_atomically(folder / name, data, make_folder=True, durable=False)
        listed = {"rests_on": dict(rests_on), "files": {name: sha256(data) for name, data in files.items()}}
        write_atomically(folder / LIST, json_text(listed, sort_keys=True), make_folder=True, durable=False)
    return folder
