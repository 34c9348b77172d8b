"""Specifications that share a data set and modes -> the parts of each of their units, as they were kept or made now.

A unit is worked on if something of it is not kept, and then for that alone; it is read once, and every plan made once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from deepval.cells.kept_parts import KeptPart, PartStore, own_settings, slots, unit_rests_on
from deepval.cells.spec import CellSpec
from deepval.cells.unit import SharedPart, UnitPart, scored_outcomes, shared_part, unit_parts
from deepval.cells.unit_files import shared_arrays, shared_of, unit_arrays, unit_of
from deepval.engines import Map
from deepval.files.canonical import digest_of, plain
from deepval.perception.reported.calibration import GradedScores
from deepval.perception.reported.detections import Calibration
from deepval.progress import Watch, unwatched


class Lacking(NamedTuple):
    """A unit to work on: whether what all cells share of it is lacking, and of which cells their own part is."""

    unit: str
    shared: bool
    own: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class UnitMap:
    """A map over units.

    Attributes:
        wanted: What is built.
        map_units: How units are mapped.
        watch: Who is told how far it is.
        store: Who keeps what is made; nobody where None.
    """

    wanted: tuple[CellSpec, ...]
    map_units: Map = map
    watch: Watch = unwatched
    store: PartStore | None = None

    @cached_property
    def _read(self) -> dict[str, dict[str, Any] | None]:
        """What the reading of each unit rests on."""
        first = self.wanted[0]
        return {unit: None if self.store is None else unit_rests_on(first, unit) for unit in first.units}

    def _at(self, unit: str, slot: str, told: Mapping[str, Any]) -> KeptPart:
        read = self._read[unit]
        return KeptPart(self.store, slot, None if read is None else {**read, **told})

    def scores(self, mode: str, units: Sequence[str]) -> list[GradedScores]:
        """Scores of a mode's detections on some units, and whether each is right."""
        first = self.wanted[0]
        told, slot = {"part": "scores", "mode": mode}, slots(first.definition)[0]
        places = {unit: self._at(unit, slot, told) for unit in units}
        found = {unit: GradedScores(**kept) for unit, at in places.items() if (kept := at.found()) is not None}
        lacking = [unit for unit in units if unit not in found]
        made = self.map_units(partial(scored_outcomes, first, mode=mode), lacking)
        for unit, part in zip(lacking, made, strict=True):
            places[unit].keep(part._asdict())
            found[unit] = part
        return [found[unit] for unit in units]

    def parts(self, calibrations: Mapping[str, Calibration]) -> tuple[list[SharedPart], list[list[UnitPart]]]:
        """What all cells share, unit by unit, and the parts of each cell, likewise."""
        wanted, units = self.wanted, self.wanted[0].units
        told = {"part": "shared", "calibrations": digest_of(plain(calibrations))}
        slot, shown = slots(wanted[0].definition)[0], set(wanted[0].roles.test)
        shared_at = {unit: self._at(unit, slot, told) for unit in units}
        own_at = []
        for spec in wanted:
            slot, told = slots(spec.definition)[1], own_settings(spec)
            own_at.append({unit: self._at(unit, slot, {**told, "shown": unit in shown}) for unit in units})
        shared = {unit: shared_of(kept, unit) for unit, at in shared_at.items() if (kept := at.found()) is not None}
        own = [
            {unit: unit_of(kept, spec, unit) for unit, at in places.items() if (kept := at.found()) is not None}
            for spec, places in zip(wanted, own_at, strict=True)
        ]
        each = [Lacking(u, u not in shared, tuple(i for i, held in enumerate(own) if u not in held)) for u in units]
        lacking = [unit for unit in each if unit.shared or unit.own]
        made = self.map_units(partial(_parts, wanted, calibrations), lacking)
        watched = self.watch(lacking, f"units of {wanted[0].dataset}")
        for (unit, _, places), (common, parts) in zip(watched, made, strict=True):
            if common is not None:
                shared_at[unit].keep(shared_arrays(common))
                shared[unit] = common
            for place, part in zip(places, parts, strict=True):
                own_at[place][unit].keep(unit_arrays(part))
                own[place][unit] = part
        return [shared[unit] for unit in units], [[held[unit] for unit in units] for held in own]


def _parts(
    specs: tuple[CellSpec, ...], calibrations: Mapping[str, Calibration], lacking: Lacking
) -> tuple[SharedPart | None, list[UnitPart]]:
    """All that is lacking of one unit."""
    shared = shared_part(specs[0], lacking.unit, calibrations) if lacking.shared else None
    return shared, unit_parts([specs[place] for place in lacking.own], lacking.unit) if lacking.own else []
