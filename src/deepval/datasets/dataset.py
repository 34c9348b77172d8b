"""A data set: what it is read from, the ids of its units, and how one unit is read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.world.scene import Scene
from deepval.world.truth import Truth


class Dataset(ABC):
    """Where a data set lies: a frozen dataclass of plain settings, so that it can be sent to another process."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name; splits are drawn under it."""

    @property
    def classes(self) -> Mapping[str, str] | None:
        """Its name for each class that a detector may report; None: KITTI's manner, as the kind of report has it."""
        return None

    @property
    def words(self) -> tuple[str, ...]:
        """What a command line says of it beside its folder."""
        return ()

    @abstractmethod
    def files(self, unit: str) -> dict[str, Path]:
        """The files that a unit is read from, by a name that does not depend on where they lie."""

    def beside(self, unit: str) -> Mapping[str, Any] | None:
        """What a unit is read from beside its files, as plain data; None where nobody can say: it is never kept."""
        return None

    @abstractmethod
    def unit_ids(self) -> tuple[str, ...]:
        """Ids of all its units, in order."""

    @abstractmethod
    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """What the vehicle knows of one unit, and its reference."""

    def without_map(self, units: Sequence[str]) -> tuple[str, ...]:
        """Those of the units of which it is known, before they are read, that they have no lane map."""
        return ()

    def chosen(self, units: Sequence[str] | None) -> tuple[str, ...]:
        """Those of the named units (all where None), in the data set's order; an error names the unknown ones."""
        known = self.unit_ids()
        unknown = sorted(set(units or ()) - set(known))
        if unknown:
            raise InputError(f"units must be among {', '.join(known)}; found {', '.join(unknown)}.")
        return known if units is None else tuple(unit for unit in known if unit in set(units))

    def read(self, units: Sequence[str] | None = None) -> "Recording":
        """Units in memory, all where None."""
        pairs = [self.read_unit(unit) for unit in self.chosen(units)]
        return Recording(self.name, tuple(scene for scene, _ in pairs), tuple(truth for _, truth in pairs))


@dataclass(frozen=True, eq=False)
class Recording(Dataset):
    """A data set in memory: scenes and truths of the same units in the same order."""

    called: str
    scenes: tuple[Scene, ...]
    truths: tuple[Truth, ...]

    def __post_init__(self) -> None:
        if self.units != tuple(truth.unit for truth in self.truths):
            raise InputError(f"data set {self.called}: scenes and truths must be of the same units in the same order.")
        for scene, truth in zip(self.scenes, self.truths, strict=True):
            if len(scene) != truth.frames:
                raise InputError(
                    f"unit {scene.unit}: scene and truth must have equally many frames; "
                    f"found {len(scene)} and {truth.frames}."
                )

    @property
    def name(self) -> str:
        """Its name; splits are drawn under it."""
        return self.called

    @property
    def units(self) -> tuple[str, ...]:
        """Ids of the units."""
        return tuple(scene.unit for scene in self.scenes)

    def files(self, unit: str) -> dict[str, Path]:
        """None: it is in memory."""
        return {}

    def unit_ids(self) -> tuple[str, ...]:
        """Ids of all its units, in order."""
        return self.units

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """What the vehicle knows of one unit, and its reference."""
        place = self.units.index(unit)
        return self.scenes[place], self.truths[place]

    def of_units(self, units: Sequence[str]) -> "Recording":
        """The data set restricted to `units`, in its own order."""
        return self.read(units)
