"""A data set: its files, the ids of its units, and the reading of one unit into a scene
and a truth.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepval.basics.errors import InputError, few
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


class Dataset(ABC):
    """A source of units: a frozen dataclass of plain settings, so that it can be sent
    to another process.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""

    @property
    def classes(self) -> Mapping[str, str] | None:
        """Classes that a detector may report -> the data set's names; None: KITTI's
        names, by the kind of report.
        """
        return None

    @abstractmethod
    def files(self, unit: str) -> dict[str, Path]:
        """The files of a unit, by names that do not depend on the folder."""

    def choice(self, unit: str) -> Mapping[str, Any]:
        """The part of a unit that is read, as plain data for the id of a cell; empty
        where it is all of its files.
        """
        return {}

    def beside(self, unit: str) -> Mapping[str, Any] | None:
        """Settings that a unit depends on besides its files, as plain data; None, never
        cached, if not listed.
        """
        return None

    @abstractmethod
    def unit_ids(self) -> tuple[str, ...]:
        """Ids of all its units, in order."""

    @abstractmethod
    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene and the reference of one unit."""

    def without_map(self, units: Sequence[str]) -> tuple[str, ...]:
        """The units that are known to have no lane map before they are read."""
        return ()

    @property
    def unit_lists(self) -> Mapping[str, Sequence[str]]:
        """Published lists of units by name; a list's name stands for its units."""
        return {}

    def for_units(self, units: Sequence[str] | None) -> "Dataset":
        """The data set that is read if these units are needed: itself, unless its
        folder holds several.
        """
        return self

    def select(self, units: Sequence[str] | None) -> tuple[str, ...]:
        """The units of these names or lists (all where None) in the data set's order;
        raises if one is unknown.
        """
        all_units = self.unit_ids()
        if units is None:
            return all_units
        named = self.expand(units)
        unknown = sorted(named - set(all_units))
        if unknown:
            raise InputError(
                f"units must be among {few(all_units)}; found {few(unknown)}."
            )
        return tuple(unit for unit in all_units if unit in named)

    def expand(self, units: Sequence[str]) -> set[str]:
        """The named units, with lists replaced by their units."""
        return {unit for name in units for unit in self.unit_lists.get(name, (name,))}
