"""A folder -> whether what deepval keeps in it is whole: every file against its hash, and what to run where it is not.

Cells, detection caches, fitted allocators, saved results with their samples, leaderboards with their judgements, parts
that builds and reproductions keep and trained planners are found wherever they lie below the folder; nothing is
changed. What a killed writer left and folders that somebody is writing to are named too.
"""

import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepval.allocators.allocator import FORMAT as ALLOCATOR
from deepval.allocators.allocator import check_hash
from deepval.cells.case import LEDGER, openings
from deepval.errors import InputError, InputWarning, reports_machine
from deepval.files import reading
from deepval.files.canonical import (
    MANIFEST,
    TOP,
    Manifest,
    digest_of,
    file_digest,
    json_content,
    json_lines,
    json_text,
    read_json,
    read_manifest,
    read_sealed,
    sha256,
)
from deepval.files.writing import locked
from deepval.perception.reported import cache as detections
from deepval.planners.learned.training import CHECKPOINT
from deepval.protocol import judgements, keeping, standings
from deepval.protocol.history import HISTORY, read_history
from deepval.protocol.keeping import LIST, REFUSED
from deepval.protocol.leaderboard import SCHEMA as LEADERBOARD
from deepval.protocol.leaderboard_pages import as_html, as_markdown
from deepval.results import SCHEMA as RESULT
from deepval.results import Result
from deepval.results.result import samples_path
from deepval.version import __version__

LEFT = re.compile(r"\..*\.[0-9a-f]{8}\.tmp")
"""Names of what killed writers leave."""
SAMPLES = ".samples.npz"
SEALED = {
    ".read": (keeping.SCHEMA, keeping.WHAT),
    ".judged": (judgements.SCHEMA, judgements.WHAT),
    ".ranked": (standings.SCHEMA, standings.WHAT),
}
"""Endings of what a leaderboard keeps."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file, and what to run."""

    path: str
    wrong: str
    run: str


@dataclass
class Checkup:
    """What was found in a folder.

    Attributes:
        folder: The folder.
        found: What of ours is in it, by kind: the number of each.
        files: Files whose content was verified.
        problems: What is wrong.
        notes: What need not be wrong.
    """

    folder: Path
    found: dict[str, int] = field(default_factory=dict)
    files: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, kind: str, files: int = 0) -> None:
        """Note that something of ours is there, with so many files that are whole."""
        self.found[kind] = self.found.get(kind, 0) + 1
        self.files += files

    def wrong(self, path: Path, why: object, run: str) -> None:
        """Note a problem."""
        said = str(why).removeprefix(f"{path}: ").removeprefix(f"{path} ").rstrip(".")
        place = path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else str(path)
        self.problems.append(Problem(place, said, run))

    def whole(self, path: Path, digest: object, run: str) -> bool:
        """Whether a file has its hash; a problem where it has not."""
        try:
            if file_digest(path) == digest:
                self.files += 1
                return True
            self.wrong(path, "must be as it was written; its hash is another", run)
        except InputError as error:
            self.wrong(path, error, run)
        return False


def doctor(folder: Path | str) -> Checkup:
    """Everything of ours below a folder, verified; an InputError where there is nothing of ours."""
    home = Path(folder)
    if not reading.is_folder(home):
        raise InputError(f"{folder}: must be a folder; there is no such folder.")
    up = Checkup(home)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        for place in _folders(home):
            _look(place, up)
    if not up.found and not up.problems:
        raise InputError(
            f"{folder}: must hold something that deepval wrote (a cell, a detection cache, a result, a leaderboard, "
            "fitted allocators, a reproduction's work or a planner); nothing of it is there."
        )
    return up


def _folders(home: Path) -> Iterator[Path]:
    """A folder and those below it, in the order of names; links are not followed."""
    for place, below, _ in os.walk(home, onerror=_raise):
        below.sort()
        yield Path(place)


def _raise(error: OSError) -> None:
    raise InputError(f"{error.filename}: must be a folder that can be read; {error.strerror}.") from error


def _look(place: Path, up: Checkup) -> None:
    names = {path.name: path for path in reading.inside(place)}
    files = {name: path for name, path in names.items() if _is_plain(path)}
    for name, path in files.items():
        if LEFT.fullmatch(name):
            up.wrong(path, "a writer that was killed left it; nothing reads it", f"rm {path}")
    listed: set[str] = set()
    if MANIFEST in names:
        listed = _manifest(place, up)
    elif len(TOP & files.keys()) > 1:
        up.wrong(place / MANIFEST, "a cell's files lie there without it", f"deepval build --out {place.parent}")
    if LIST in names:
        listed |= _kept(place, up)
    for name, path in files.items():
        if name in listed or name.startswith("."):
            continue
        if path.suffix in SEALED:
            _tried(
                up, path, "judgements", lambda p: read_sealed(p, *SEALED[p.suffix]), "deepval leaderboard ... --cache"
            )
        elif name == CHECKPOINT:
            up.notes.append(f"{path}: a training was stopped; the same command goes on from there.")
        elif name.endswith(SAMPLES):
            _samples(path, up)
        elif name.endswith(".json") and name not in (MANIFEST, LIST):
            _json(path, up)


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _tried(up: Checkup, path: Path, kind: str, check: Callable[[Path], Any], run: str) -> None:
    try:
        check(path)
        up.count(kind, 1)
    except (InputError, KeyError, TypeError, ValueError) as error:
        up.count(kind)
        up.wrong(path, error if isinstance(error, InputError) else "must be as it was written, and is not", run)


# Folders with a manifest.


def _manifest(place: Path, up: Checkup) -> set[str]:
    """What a manifest names in its own folder, verified with everything else that it names."""
    path = place / MANIFEST
    try:
        content = read_json(path)
    except InputError as error:
        up.wrong(path, error, "the command that wrote this folder, again")
        return set()
    known = set(content) if isinstance(content, dict) else set()
    if {"definition", "files"} & known:
        return _cell(place, content, up)
    if {"recipe", "modes"} & known:
        return _detections(place, up)
    if {"weights_sha256", "masks_sha256"} & known:
        up.count("planner")
        for name in ("weights", "masks"):
            up.whole(place / f"{name}.npz", content.get(f"{name}_sha256"), f"deepval planner train --out {place}")
        return {"weights.npz", "masks.npz"}
    up.wrong(path, "must be the manifest of something that deepval wrote; it is none", "the command that wrote it")
    return set()


def _cell(place: Path, content: dict[str, Any], up: Checkup) -> set[str]:
    again = f"deepval build --out {place.parent}"
    up.count("cell")
    try:
        manifest: Manifest = read_manifest(place)
    except InputError as error:
        up.wrong(place / MANIFEST, error, again)
        return set()
    if not manifest.id.endswith(digest_of(manifest.definition)[:12]):
        up.wrong(place / MANIFEST, "its id must be the hash of its definition; it is another", again)
    elif reading.content(place / MANIFEST) != json_text(content, sort_keys=True, ensure_ascii=True).encode():
        up.wrong(place / MANIFEST, "must be as it was written; it is laid out otherwise", again)
    elif content.get("deepval") != __version__ or content.keys() != {"deepval", "id", "definition", "files"}:
        up.notes.append(f"{place / MANIFEST}: built by deepval {content.get('deepval')}; this is {__version__}.")
    for name, digest in manifest.files.items():
        up.whole(place / name, digest, again)
    if reading.exists(place / LEDGER):
        _ledger(place / LEDGER, up)
    _lock(place, up)
    return {name for name in manifest.files if "/" not in name}


def _detections(place: Path, up: Checkup) -> set[str]:
    again = f"delete it, then deepval perceive --out {place}"
    up.count("detection cache")
    try:
        listed = detections.cache_manifest(place)["modes"]
    except InputError as error:
        up.wrong(place / MANIFEST, error, again)
        return set()
    known = set()
    for mode, units in listed.items():
        for unit, entry in units.items():
            for where, digest in (
                (detections.detections_path(place, mode, unit), entry["detections_sha256"]),
                (detections.frames_path(place, mode, unit), entry["frames_sha256"]),
            ):
                known.add(where)
                up.whole(where, digest, again)
    for path in sorted(
        path for part in ("detections", "frames") for path in reading.matching(place, f"*/{part}/*.parquet")
    ):
        if path not in known:
            up.notes.append(f"{path}: not entered in {MANIFEST}: its unit was not finished, and will be run again.")
    _lock(place, up)
    return set()


def _kept(place: Path, up: Checkup) -> set[str]:
    up.count("kept part")
    again = "the command that keeps it, deepval build or reproduce, again: it is made anew"
    try:
        told = read_json(place / LIST)["files"].items()
    except (InputError, KeyError, TypeError, AttributeError) as error:
        up.wrong(place / LIST, error if isinstance(error, InputError) else "must list files with their hashes", again)
        return set()
    for name, digest in told:
        if up.whole(place / str(name), digest, again) and name == REFUSED:
            _refusal(place, up)
    return {str(name) for name, _ in told}


def _refusal(place: Path, up: Checkup) -> None:
    """The sentence that refuses an analysis must be its own; earlier versions kept failures of the machine too."""
    sentence = reading.text(place / REFUSED)
    if reports_machine(sentence):
        why = f"must be the refusal of an analysis; it is a failure of the machine: {sentence}"
        up.wrong(place / REFUSED, why, "deepval reproduce, again: it runs the analysis anew")


def _ledger(path: Path, up: Checkup) -> None:
    """The ledger of a cell must have whole lines."""
    again = f"remove the line (sed -i '$d' {path} if it is the last one) and count that look yourself"
    try:
        openings(path.parent, "")
        cut = reading.content(path)[-1:] not in (b"", b"\n")
    except InputError as error:
        up.wrong(path, str(error).partition(" It may have")[0], again)
        return
    if cut:
        up.wrong(path, "must be a ledger that deepval wrote; its last line was cut off", again)
    else:
        up.files += 1


def _lock(place: Path, up: Checkup) -> None:
    """Name a folder that somebody holds."""
    try:
        with locked(place, "busy"):
            pass
    except InputError as error:
        if str(error) == "busy":
            up.notes.append(f"{place}: another process is writing there; look again when it is done.")


# Single files.


def _json(path: Path, up: Checkup) -> None:
    """A JSON file of ours, told by what it says of itself; those of others are left alone."""
    try:
        content = json_content(reading.content(path), path)
    except InputError as error:
        up.wrong(path, error, "the command that wrote it, again")
        return
    if not isinstance(content, dict):
        return
    if content.get("schema") == LEADERBOARD:
        _board(path, content, up)
    elif content.get("schema") == RESULT:
        _tried(up, path, "result", Result.load, "deepval evaluate ... --out")
    elif content.get("format") == ALLOCATOR or {"version", "sha256"} <= content.keys():
        _tried(up, path, "allocator", lambda p: check_hash(content, str(p)), "deepval fit")
    elif path.name == HISTORY and "versions" in content:
        _tried(up, path, "history", lambda p: read_history(p.parent), "deepval leaderboard")


def _board(path: Path, content: dict[str, Any], up: Checkup) -> None:
    """A leaderboard: its pages must be those of its content."""
    up.count("leaderboard")
    again = "deepval leaderboard ... --out"
    indented = reading.content(path).startswith(b"{\n ")
    try:
        pages = {
            # Boards of earlier versions are indented.
            "leaderboard.json": json_text(content, sort_keys=True, ensure_ascii=True)
            if indented
            else json_lines(content),
            "leaderboard.md": as_markdown(content),
            "leaderboard.html": as_html(content),
        }
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        up.wrong(path, "must be as it was written, and is not", again)
        return
    for name, text in pages.items():
        place = path if name == "leaderboard.json" else path.with_name(name)
        up.whole(place, sha256(text.encode()), again)


def _samples(path: Path, up: Checkup) -> None:
    """Samples must be of the result beside them; the result's own turn says whether they can be read."""
    result = path.with_name(path.name.removesuffix(SAMPLES) + ".json")
    if not reading.is_file(result) or samples_path(result) != path:
        up.wrong(path, "must lie beside its result; there is none", "deepval evaluate ... --out ... --samples")
        return
    try:
        if Result.load(result).samples is None:
            up.wrong(path, "must be of the result beside it; it is of another", "deepval evaluate ... --out, again")
        else:
            up.files += 1
    except InputError as error:
        if str(error).startswith(str(path)):
            up.wrong(path, error, "deepval evaluate ... --out, again")
