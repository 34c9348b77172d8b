"""Locked dependencies -> name, version and licence of each, from the metadata of what
is installed.

Run: python tools/licences.py [requirements/core.lock ...]. Exits with 1 if a dependency
is installed in another version or a licence is unknown. Dependencies that are locked
only for other systems are listed as not installed.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements/core.lock", "requirements/dev.lock")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)\s*(;[^\\]*)?")
LONGEST = 60


class Licence(NamedTuple):
    """A dependency; `licence` is None if its metadata name none, `installed` None if it
    is not installed here.
    """

    name: str
    version: str
    marker: str
    installed: str | None
    licence: str | None


def locked(text: str) -> list[tuple[str, str, str]]:
    """Name, version and marker of everything that a lock file pins."""
    found = [PINNED.match(line) for line in text.splitlines()]
    return [(m[1], m[2], (m[3] or "").lstrip("; ").strip()) for m in found if m]


def licence_of(name: str) -> tuple[str, str | None]:
    """Installed version and licence: the expression or, if missing, the classifiers, or
    the first line of the text.
    """
    details = metadata(name)
    expression = details.get("License-Expression")
    classes = [
        c.split(" :: ")[-1]
        for c in details.get_all("Classifier") or []
        if c.startswith("License ::")
    ]
    lines = [
        line.strip()
        for line in (details.get("License") or "").splitlines()
        if line.strip()
    ]
    found = expression or ", ".join(classes) or (lines[0] if lines else None)
    return details["Version"], None if found is None else found[:LONGEST]


def licences(locks: list[Path]) -> list[Licence]:
    """Everything that lock files pin, each once, in the order of names."""
    pins = {pin for lock in locks for pin in locked(lock.read_text(encoding="utf-8"))}
    found = []
    for name, version, marker in sorted(pins):
        try:
            installed, licence = licence_of(name)
        except PackageNotFoundError:
            installed, licence = None, None
        found.append(Licence(name, version, marker, installed, licence))
    return found


def main() -> int:
    """Print the table."""
    locks = [Path(word) for word in sys.argv[1:]] or [ROOT / lock for lock in LOCKS]
    wrong = 0
    print("| name | version | licence |\n|---|---|---|")
    for item in licences(locks):
        if item.installed is None:
            text = f"not installed here ({item.marker or 'not for this command'})"
            wrong += not item.marker
        else:
            text = item.licence or "UNKNOWN"
            other = item.installed != item.version and not item.marker
            text += f" (installed: {item.installed})" if other else ""
            wrong += item.licence is None or other
        print(f"| {item.name} | {item.version} | {text} |")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
