"""A folder -> a check of every deepval file below it against its hash, and the command
that repairs a damaged file.

The check covers cells, detection caches, fitted allocators, saved results with their
samples, leaderboards with their judgements, stored parts of builds and reproductions,
and trained planners. It also reports leftovers of killed writers and folders that
another process is writing to. It changes nothing.
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
from deepval.cells.judgement import LEDGER, openings
from deepval.errors import InputError, InputWarning, reports_machine
from deepval.files import canonical, reading
from deepval.files.writing import lock, read_sealed
from deepval.perception.reported import cache as detections
from deepval.protocol import standings, submissions
from deepval.protocol.leaderboard import SCHEMA as LEADERBOARD
from deepval.protocol.leaderboard_pages import as_html, as_markdown
from deepval.protocol.store import LIST, REFUSED
from deepval.protocol.submissions import HISTORY, read_history
from deepval.results import SCHEMA as RESULT
from deepval.results import Result
from deepval.results.result import samples_path
from deepval.version import __version__

LEFT = re.compile(r"\..*\.[0-9a-f]{8}\.tmp")
"""Names of temporary files that killed writers leave."""
SAMPLES = ".samples.npz"
SEALED = {
    ".read": (submissions.READINGS_SCHEMA, submissions.READINGS_WHAT),
    ".judged": (standings.JUDGEMENTS_SCHEMA, standings.JUDGEMENTS_WHAT),
    ".ranked": (standings.SCHEMA, standings.WHAT),
}
"""Schema and description of the files that a leaderboard stores, by suffix."""


@dataclass(frozen=True)
class Problem:
    """A damaged file: what is wrong with it, and what to run."""

    path: str
    wrong: str
    run: str


@dataclass
class Checkup:
    """The outcome of a check of a folder.

    Attributes:
        folder: The folder.
        counts: Number of deepval's objects in it, by kind.
        files: Number of files whose content was verified.
        problems: Damaged files.
        notes: Remarks that need not be errors.
    """

    folder: Path
    counts: dict[str, int] = field(default_factory=dict)
    files: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, kind: str, files: int = 0) -> None:
        """Count an object of this kind with its verified files."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.files += files

    def wrong(self, path: Path, why: object, run: str) -> None:
        """Add a problem."""
        sentence = (
            str(why).removeprefix(f"{path}: ").removeprefix(f"{path} ").rstrip(".")
        )
        name = (
            path.relative_to(self.folder).as_posix()
            if path.is_relative_to(self.folder)
            else str(path)
        )
        self.problems.append(Problem(name, sentence, run))

    def whole(self, path: Path, digest: object, run: str) -> bool:
        """Whether a file matches its hash; adds a problem if it does not."""
        try:
            if canonical.file_digest(path) == digest:
                self.files += 1
                return True
            self.wrong(path, "must be as it was written; its hash is another", run)
        except InputError as error:
            self.wrong(path, error, run)
        return False


def doctor(folder: Path | str) -> Checkup:
    """Check all of deepval's files below a folder; raises InputError if there are
    none.
    """
    home = Path(folder)
    if not reading.is_folder(home):
        raise InputError(f"{folder}: must be a folder; there is no such folder.")
    checkup = Checkup(home)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        for subfolder in _folders(home):
            _check_folder(subfolder, checkup)
    if not checkup.counts and not checkup.problems:
        raise InputError(
            f"{folder}: must hold something that deepval wrote (a cell, a detection "
            "cache, a result, a leaderboard, fitted allocators, a reproduction's work "
            "or a planner); nothing of it is there."
        )
    return checkup


def _folders(home: Path) -> Iterator[Path]:
    """A folder and all folders below it, in the order of names; links are not
    followed.
    """
    for path, below, _ in os.walk(home, onerror=_raise):
        below.sort()
        yield Path(path)


def _raise(error: OSError) -> None:
    raise InputError(
        f"{error.filename}: must be a folder that can be read; {error.strerror}."
    ) from error


def _check_folder(folder: Path, checkup: Checkup) -> None:
    """Check the files directly in a folder; files that a manifest or a list names are
    checked with it.
    """
    names = {path.name: path for path in reading.entries(folder)}
    files = {name: path for name, path in names.items() if _is_regular_file(path)}
    for name, path in files.items():
        if LEFT.fullmatch(name):
            checkup.wrong(
                path, "a writer that was killed left it; nothing reads it", f"rm {path}"
            )
    listed: set[str] = set()
    if canonical.MANIFEST in names:
        listed = _check_manifest(folder, checkup)
    elif len(canonical.TOP & files.keys()) > 1:
        checkup.wrong(
            folder / canonical.MANIFEST,
            "a cell's files lie there without it",
            f"deepval build --out {folder.parent}",
        )
    if LIST in names:
        listed |= _check_kept_part(folder, checkup)
    for name, path in files.items():
        if name in listed or name.startswith("."):
            continue
        if path.suffix in SEALED:
            _check_file(
                checkup,
                path,
                "judgements",
                lambda p: read_sealed(p, *SEALED[p.suffix]),
                "deepval leaderboard ... --cache",
            )
        elif name.endswith(SAMPLES):
            _check_samples(path, checkup)
        elif name.endswith(".json") and name not in (canonical.MANIFEST, LIST):
            _check_json(path, checkup)


def _is_regular_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _check_file(
    checkup: Checkup, path: Path, kind: str, check: Callable[[Path], Any], run: str
) -> None:
    """Count a file, and add a problem if `check` raises an error."""
    try:
        check(path)
        checkup.count(kind, 1)
    except (InputError, KeyError, TypeError, ValueError) as error:
        checkup.count(kind)
        checkup.wrong(
            path,
            error
            if isinstance(error, InputError)
            else "must be as it was written, and is not",
            run,
        )


# Folders with a manifest.


def _check_manifest(folder: Path, checkup: Checkup) -> set[str]:
    """Check all files that a manifest names; returns the names of those in its own
    folder.
    """
    path = folder / canonical.MANIFEST
    try:
        content = canonical.read_json(path)
    except InputError as error:
        checkup.wrong(path, error, "the command that wrote this folder, again")
        return set()
    keys = set(content) if isinstance(content, dict) else set()
    if {"definition", "files"} & keys:
        return _check_cell(folder, content, checkup)
    if {"recipe", "modes"} & keys:
        return _check_detections(folder, checkup)
    if {"weights_sha256", "masks_sha256"} & keys:
        checkup.count("planner")
        for name in ("weights", "masks"):
            checkup.whole(
                folder / f"{name}.npz",
                content.get(f"{name}_sha256"),
                f"python studies/train_planner.py --out {folder}",
            )
        return {"weights.npz", "masks.npz"}
    checkup.wrong(
        path,
        "must be the manifest of something that deepval wrote; it is none",
        "the command that wrote it",
    )
    return set()


def _check_cell(folder: Path, content: dict[str, Any], checkup: Checkup) -> set[str]:
    """Check the manifest and the files of a cell; returns the names of its files
    directly in the folder.
    """
    again = f"deepval build --out {folder.parent}"
    checkup.count("cell")
    try:
        manifest: canonical.Manifest = canonical.read_manifest(folder)
    except InputError as error:
        checkup.wrong(folder / canonical.MANIFEST, error, again)
        return set()
    if not manifest.id.endswith(canonical.digest_of(manifest.definition)[:12]):
        checkup.wrong(
            folder / canonical.MANIFEST,
            "its id must be the hash of its definition; it is another",
            again,
        )
    elif (
        reading.content(folder / canonical.MANIFEST)
        != canonical.json_text(content, sort_keys=True, ensure_ascii=True).encode()
    ):
        checkup.wrong(
            folder / canonical.MANIFEST,
            "must be as it was written; it is laid out otherwise",
            again,
        )
    elif content.get("deepval") != __version__ or content.keys() != {
        "deepval",
        "id",
        "definition",
        "files",
    }:
        checkup.notes.append(
            f"{folder / canonical.MANIFEST}: built by deepval "
            f"{content.get('deepval')}; this is {__version__}."
        )
    for name, digest in manifest.files.items():
        checkup.whole(folder / name, digest, again)
    if reading.exists(folder / LEDGER):
        _check_ledger(folder / LEDGER, checkup)
    _note_lock(folder, checkup)
    return {name for name in manifest.files if "/" not in name}


def _check_detections(folder: Path, checkup: Checkup) -> set[str]:
    """Check the files of a detection cache; none of them is directly in the folder."""
    again = f"delete it, then deepval perceive --out {folder}"
    checkup.count("detection cache")
    try:
        modes = detections.cache_manifest(folder)["modes"]
    except InputError as error:
        checkup.wrong(folder / canonical.MANIFEST, error, again)
        return set()
    entered = set()
    for mode, units in modes.items():
        for unit, entry in units.items():
            for file, digest in (
                (
                    detections.detections_path(folder, mode, unit),
                    entry["detections_sha256"],
                ),
                (detections.frames_path(folder, mode, unit), entry["frames_sha256"]),
            ):
                entered.add(file)
                checkup.whole(file, digest, again)
    for path in sorted(
        path
        for part in ("detections", "frames")
        for path in reading.find(folder, f"*/{part}/*.parquet")
    ):
        if path not in entered:
            checkup.notes.append(
                f"{path}: not entered in {canonical.MANIFEST}: its unit was not "
                "finished, and will be run again."
            )
    _note_lock(folder, checkup)
    return set()


def _check_kept_part(folder: Path, checkup: Checkup) -> set[str]:
    """Check the files of a stored part against its list; returns their names."""
    checkup.count("kept part")
    again = (
        "the command that keeps it, deepval build or reproduce, again: it is made anew"
    )
    try:
        entries = canonical.read_json(folder / LIST)["files"].items()
    except (InputError, KeyError, TypeError, AttributeError) as error:
        checkup.wrong(
            folder / LIST,
            error
            if isinstance(error, InputError)
            else "must list files with their hashes",
            again,
        )
        return set()
    for name, digest in entries:
        if checkup.whole(folder / str(name), digest, again) and name == REFUSED:
            _check_refusal(folder, checkup)
    return {str(name) for name, _ in entries}


def _check_refusal(folder: Path, checkup: Checkup) -> None:
    """Check a stored refusal of an analysis; earlier versions stored failures of the
    machine, too.
    """
    sentence = reading.text(folder / REFUSED)
    if reports_machine(sentence):
        why = (
            "must be the refusal of an analysis; it is a failure "
            f"of the machine: {sentence}"
        )
        checkup.wrong(
            folder / REFUSED, why, "deepval reproduce, again: it runs the analysis anew"
        )


def _check_ledger(path: Path, checkup: Checkup) -> None:
    """Check that the ledger of a cell has complete lines."""
    again = (
        f"remove the line (sed -i '$d' {path} if it is the last "
        "one) and count that look yourself"
    )
    try:
        openings(path.parent, "")
        cut = reading.content(path)[-1:] not in (b"", b"\n")
    except InputError as error:
        checkup.wrong(path, str(error).partition(" It may have")[0], again)
        return
    if cut:
        checkup.wrong(
            path,
            "must be a ledger that deepval wrote; its last line was cut off",
            again,
        )
    else:
        checkup.files += 1


def _note_lock(folder: Path, checkup: Checkup) -> None:
    """Note a folder that another process has locked."""
    try:
        with lock(folder, "busy"):
            pass
    except InputError as error:
        if str(error) == "busy":
            checkup.notes.append(
                f"{folder}: another process is writing there; "
                "look again when it is done."
            )


# Single files.


def _check_json(path: Path, checkup: Checkup) -> None:
    """Check a JSON file of deepval, identified by its schema or format; other JSON
    files are ignored.
    """
    try:
        content = canonical.json_content(reading.content(path), path)
    except InputError as error:
        checkup.wrong(path, error, "the command that wrote it, again")
        return
    if not isinstance(content, dict):
        return
    if content.get("schema") == LEADERBOARD:
        _check_leaderboard(path, content, checkup)
    elif content.get("schema") == RESULT:
        _check_file(checkup, path, "result", Result.load, "deepval evaluate ... --out")
    elif content.get("format") == ALLOCATOR or {"version", "sha256"} <= content.keys():
        _check_file(
            checkup,
            path,
            "allocator",
            lambda p: check_hash(content, str(p)),
            "deepval fit",
        )
    elif path.name == HISTORY and "versions" in content:
        _check_file(
            checkup,
            path,
            "history",
            lambda p: read_history(p.parent),
            "deepval leaderboard",
        )


def _check_leaderboard(path: Path, content: dict[str, Any], checkup: Checkup) -> None:
    """Check that the pages of a leaderboard match its content."""
    checkup.count("leaderboard")
    again = "deepval leaderboard ... --out"
    indented = reading.content(path).startswith(b"{\n ")
    try:
        pages = {
            # Boards of earlier versions are indented.
            "leaderboard.json": canonical.json_text(
                content, sort_keys=True, ensure_ascii=True
            )
            if indented
            else canonical.json_lines(content),
            "leaderboard.md": as_markdown(content),
            "leaderboard.html": as_html(content),
        }
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        checkup.wrong(path, "must be as it was written, and is not", again)
        return
    for name, text in pages.items():
        page = path if name == "leaderboard.json" else path.with_name(name)
        checkup.whole(page, canonical.sha256(text.encode()), again)


def _check_samples(path: Path, checkup: Checkup) -> None:
    """Check that samples belong to the result beside them; the check of the result
    reports its own damage.
    """
    result = path.with_name(path.name.removesuffix(SAMPLES) + ".json")
    if not reading.is_file(result) or samples_path(result) != path:
        checkup.wrong(
            path,
            "must lie beside its result; there is none",
            "deepval evaluate ... --out ... --samples",
        )
        return
    try:
        if Result.load(result).samples is None:
            checkup.wrong(
                path,
                "must be of the result beside it; it is of another",
                "deepval evaluate ... --out, again",
            )
        else:
            checkup.files += 1
    except InputError as error:
        if str(error).startswith(str(path)):
            checkup.wrong(path, error, "deepval evaluate ... --out, again")
