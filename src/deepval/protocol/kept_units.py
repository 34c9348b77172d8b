"""A folder of cells -> what was made of their units, kept in it as long as a cell there is made of it.

Parts lie in `kept/units/SLOT/`, each in a folder named by the hash of all that it rests on, with the hashes of its
files: what is damaged, or what a kill left, is made anew.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

from deepval.cells.kept_parts import Arrays, PartStore, slots
from deepval.errors import InputError, UnfinishedError
from deepval.files import reading
from deepval.files.archives import npz_arrays, npz_bytes
from deepval.files.canonical import digest_of
from deepval.files.manifests import MANIFEST, read_manifest
from deepval.files.writing import locked
from deepval.protocol.code_digest import code_digest
from deepval.protocol.keeping import contents, kept, place

CODE = "deepval.cells.build"
KEPT, UNITS, PART = "kept", "units", "part.npz"


@dataclass(frozen=True, eq=False)
class KeptUnits(PartStore):
    """Parts that are kept in a folder.

    Attributes:
        root: The folder that cells are built in.
        used: Folders of the parts that were asked for, by slot.
        written: Folders of the parts that were written.
    """

    root: Path
    used: dict[str, set[str]] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def found(self, slot: str, rests_on: Mapping[str, Any]) -> Arrays | None:
        """What is kept, whole; None where nothing is."""
        folder = place(*self._at(slot), _named(rests_on))
        self.used.setdefault(slot, set()).add(folder.name)
        files = contents(folder)
        return None if files is None else npz_arrays(files[PART])

    def keep(self, slot: str, rests_on: Mapping[str, Any], arrays: Arrays) -> None:
        """Keep arrays."""
        named = _named(rests_on)
        self.written.append(place(*self._at(slot), named))
        kept(*self._at(slot), named, lambda: {PART: npz_bytes(arrays)})

    def _at(self, slot: str) -> tuple[Path, str]:
        return self.root / KEPT, f"{UNITS}/{slot}"

    def sweep(self) -> None:
        """Remove the parts that no cell is made of any more."""
        standing = _standing_slots(self.root)
        for slot in reading.inside(self.root / KEPT / UNITS):
            if slot.name in self.used:
                old = [part for part in reading.inside(slot) if part.name not in self.used[slot.name]]
            else:
                old = [] if slot.name in standing else [slot]
            for part in old:
                rmtree(part, ignore_errors=True)

    def forget(self) -> None:
        """Remove what was written now."""
        for part in self.written:
            rmtree(part, ignore_errors=True)
            with suppress(OSError):  # other parts may lie there
                part.parent.rmdir()


@contextmanager
def kept_units(root: Path) -> Iterator[KeptUnits]:
    """Keeps what is made of units for cells that are built in a folder; when all are built, what is old goes.

    What is refused writes nothing; what is stopped otherwise goes on from what was kept.
    """
    store, folder = KeptUnits(root), root / KEPT / UNITS
    new = [place for place in (folder, *folder.parents) if not reading.exists(place)]
    with locked(folder):
        try:
            yield store
        except UnfinishedError:
            raise
        except InputError:
            store.forget()
            for place in new:
                with suppress(OSError):  # what others wrote stays
                    place.rmdir()
            raise
    # Where somebody else builds in this folder, the last of all removes what is old.
    with suppress(InputError), locked(folder, "busy"):
        store.sweep()


def _named(rests_on: Mapping[str, Any]) -> dict[str, Any]:
    """A part by what it is of, and by the hash of all that it rests on: its list stays short."""
    told = {name: rests_on.get(name) for name in ("part", "unit")}
    return {**told, "sha256": digest_of({**rests_on, "code": code_digest(CODE)})}


def _standing_slots(root: Path) -> set[str]:
    """The slots of all cells in a folder, and in the folder of cells in it."""
    found: set[str] = set()
    for path in (each for pattern in ("*", "cells/*") for each in reading.matching(root, f"{pattern}/{MANIFEST}")):
        with suppress(InputError, KeyError, TypeError):
            found.update(slots(read_manifest(path.parent).definition))
    return found
