"""A specification and a unit -> all that what a build makes of it rests on, by which that is kept and found again.

A part is named by all that it rests on: files of its unit by their hashes, what each mode reports there, settings.
Whoever keeps it adds the code that makes it. The slot of a part says what it is of, so that old ones can be found.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.cells.spec import CellSpec
from deepval.files.canonical import digest_of, joint_sha256, plain

Arrays = Mapping[str, np.ndarray]


class PartStore(ABC):
    """Keeps arrays by what they rest on."""

    @abstractmethod
    def found(self, slot: str, rests_on: Mapping[str, Any]) -> Arrays | None:
        """What is kept, whole; None where nothing is."""

    @abstractmethod
    def keep(self, slot: str, rests_on: Mapping[str, Any], arrays: Arrays) -> None:
        """Keep arrays."""


@dataclass(frozen=True)
class KeptPart:
    """Where a part is kept; nowhere without a store, or where nobody can say what it rests on."""

    store: PartStore | None
    slot: str
    rests_on: Mapping[str, Any] | None

    def found(self) -> Arrays | None:
        """The part's arrays; None where they must be made."""
        return None if self.store is None or self.rests_on is None else self.store.found(self.slot, self.rests_on)

    def keep(self, arrays: Arrays) -> None:
        """Keep the part's arrays."""
        if self.store is not None and self.rests_on is not None:
            self.store.keep(self.slot, self.rests_on, arrays)


def slots(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Names for what cells of a data set and its modes share, and for what is one cell's own."""
    shared = {"dataset": definition["dataset"]["name"], "modes": sorted(definition["modes"])}
    own = {**shared, "geometry": definition["geometry"], "system": definition["system"]["name"]}
    return digest_of(shared)[:12], digest_of(own)[:12]


def unit_rests_on(spec: CellSpec, unit: str) -> dict[str, Any] | None:
    """What is read of a unit for cells of a data set and modes; None where that cannot be told without reading it."""
    beside = None if spec.source is None else spec.source.beside(unit)
    if spec.source is None or beside is None:
        return None
    return {
        "unit": unit,
        "dataset": spec.dataset,
        "files": {name: spec.files.get(name) for name in spec.source.files(unit)},
        "beside": plain(beside),
        "modes": [
            {
                "name": mode.name,
                "report": None if mode.reader is None else plain(mode.reader.rests_on(unit)),
                "threshold": mode.threshold,
                "classes": mode.definition["classes"],
            }
            for mode in spec.modes
        ],
    }


def own_settings(spec: CellSpec) -> dict[str, Any]:
    """What a cell's own parts rest on beside what is read of a unit, and whether that is one to show."""
    return {"part": "own", **{name: spec.definition[name] for name in ("geometry", "persistence", "system")}}


def made_of(
    given: Sequence[tuple[np.ndarray, ...]],
    make: Callable[..., Arrays],
    *,
    what: str,
    slot: str,
    store: PartStore | None,
) -> Arrays:
    """What is made of nothing but tuples of arrays, as it was kept or made now."""
    at = KeptPart(store, slot, None if store is None else {"part": what, "of": [_digest(each) for each in given]})
    found = at.found()
    if found is None:
        found = make(*given)
        at.keep(found)
    return found


def _digest(arrays: tuple[np.ndarray, ...]) -> str:
    """SHA-256 of arrays with their kinds and shapes."""
    about = [[array.dtype.str, list(array.shape)] for array in arrays]
    return digest_of([about, joint_sha256(np.ascontiguousarray(array).tobytes() for array in arrays)])
