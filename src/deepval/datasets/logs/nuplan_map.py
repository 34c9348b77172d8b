"""nuPlan's `map.gpkg` -> the lane map around a drive, in metres of the location's UTM zone.

Lanes have their own polygons. Connectors, which lead through intersections, have polygons that the map generates.
Roadblocks are the map's lane groups and lane group connectors. Holes in polygons are not read; the outline of a lane
in several pieces is the largest piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.logs.geopackage import Database, Part, UtmZone, features, open_database, zone_of_file
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import read_json
from deepval.world.scene import Lane, LaneMap

ZONES = {
    "sg-one-north": UtmZone(48),
    "us-ma-boston": UtmZone(19),
    "us-nv-las-vegas-strip": UtmZone(11),
    "us-pa-pittsburgh-hazelwood": UtmZone(17),
}
"""nuPlan's locations, with the zone of a map that does not name its own."""
VERSIONS_FILE = "nuplan-maps-v1.0.json"
REACH_M = 300.0
"""Lanes and areas within this distance of the drive's bounding box are kept, and every lane of a route."""


def map_file(maps: Path, location: str) -> Path:
    """The file of a location's map: the version that the index names, or the only version without an index."""
    if location not in ZONES:
        raise InputError(f"a nuPlan log's map must be one of {', '.join(ZONES)}; found {location!r}.")
    index, folder = maps / VERSIONS_FILE, maps / location
    if reading.is_file(index):
        path = folder / _version(index, location) / "map.gpkg"
        if not reading.is_file(path):
            raise InputError(f"the map of {location} must be at {path}, as {index} says; there is no such file.")
        return path
    paths = sorted(reading.find(folder, "*/map.gpkg"))
    if len(paths) != 1:
        raise InputError(
            f"the map of {location} must be at {folder}/VERSION/map.gpkg; found {len(paths)} and no {index} that names "
            "one: unpack nuPlan's maps there."
        )
    return paths[0]


def read_lane_map(
    path: Path, location: str, *, drive_m: Float[np.ndarray, "step 2"], routes: frozenset[str]
) -> LaneMap:
    """The lane map within `REACH_M` of a drive, and all lanes of the roadblocks in `routes`."""
    near = _Nearness(drive_m.min(axis=0) - REACH_M, drive_m.max(axis=0) + REACH_M)
    with open_database(path, what=f"the map of {location}") as database:
        sheet = _Sheet(database, zone_of_file(database) or ZONES[location])
        lanes = [*sheet.lanes(), *sheet.connectors()]
        _check_ids(path, lanes)
        return LaneMap(
            lanes={lane.id: lane for lane in lanes if lane.roadblock in routes or near(lane.centreline_m)},
            drivable_m=tuple(filter(near, sheet.areas("carpark_areas", "generic_drivable_areas"))),
            intersections_m=tuple(filter(near, sheet.areas("intersections"))),
            crosswalks_m=tuple(filter(near, sheet.areas("crosswalks"))),
        )


class _Nearness(NamedTuple):
    """Whether a line meets a rectangle along the axes, by its bounding box."""

    low_m: Float[np.ndarray, "2"]
    high_m: Float[np.ndarray, "2"]

    def __call__(self, line_m: Part) -> bool:
        return bool(len(line_m) and (line_m.max(0) >= self.low_m).all() and (line_m.min(0) <= self.high_m).all())


def _version(index: Path, location: str) -> str:
    try:
        version = read_json(index)[location]["version"]
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{index} must name the version of {location}'s map; it does not: {error!r}.") from error
    if not isinstance(version, str) or "/" in version or version in ("", ".", ".."):
        raise InputError(f"{index} must name the version of {location}'s map; found {version!r}.")
    return version


@dataclass(frozen=True)
class _Sheet:
    """An open map, and the zone of its coordinates in metres."""

    database: Database
    zone: UtmZone

    def features(self, layer: str, *columns: str) -> Iterator[tuple[tuple[Any, ...], list[Part]]]:
        """Rows of a layer and the parts of their geometry."""
        rows = features(self.database, layer, columns, zone=self.zone)
        return zip(rows.columns, rows.parts, strict=True)

    def areas(self, *layers: str) -> list[Part]:
        """Outlines of all areas of some layers."""
        return [part for layer in layers for _, parts in self.features(layer) for part in parts]

    @cached_property
    def centrelines(self) -> dict[tuple[str, str], Part]:
        """The baseline of every lane and connector, by its kind and number."""
        lines = {}
        for (lane, connector), parts in self.features("baseline_paths", "lane_fid", "lane_connector_fid"):
            line = _distinct(np.concatenate([*parts, np.zeros((0, 2))]))
            owners = {"lane": lane, "connector": connector}
            lines |= {(kind, _id(number)): line for kind, number in owners.items() if number is not None}
        return lines

    def lanes(self) -> Iterator[Lane]:
        """Lanes between intersections; each leads to the connectors that begin where it ends."""
        self.database.require({"lane_connectors": ("fid", "exit_lane_fid")})
        after: dict[str, list[str]] = {}
        for connector, lane in self.database.rows("SELECT fid, exit_lane_fid FROM lane_connectors ORDER BY fid"):
            after.setdefault(_id(lane), []).append(_id(connector))
        columns = ("lane_fid", "lane_group_fid", "speed_limit_mps")
        for (number, group, limit), parts in self.features("lanes_polygons", *columns):
            yield self.lane(_id(number), _id(group), parts=parts, after=after.get(_id(number), ()), limit=limit)

    def connectors(self) -> Iterator[Lane]:
        """Lanes through intersections; each leads to one lane."""
        drawn = self.features("gen_lane_connectors_scaled_width_polygons", "lane_connector_fid")
        outlines = {_id(number): parts for (number,), parts in drawn}
        columns = ("fid", "lane_group_connector_fid", "entry_lane_fid", "speed_limit_mps")
        self.database.require({"lane_connectors": columns})
        rows = self.database.rows(f"SELECT {', '.join(columns)} FROM lane_connectors ORDER BY fid")
        for number, group, after, limit in rows:
            parts = outlines.get(_id(number), [])
            yield self.lane(_id(number), _id(group), parts=parts, after=(_id(after),), limit=limit, kind="connector")

    def lane(
        self, number: str, group: str, *, parts: list[Part], after: Sequence[str], limit: Any, kind: str = "lane"
    ) -> Lane:
        """A lane or connector with its baseline."""
        if (kind, number) not in self.centrelines:
            raise InputError(f"{self.database.path}: every {kind} must have a baseline path; {number} has none.")
        return Lane(
            id=number,
            centreline_m=self.centrelines[kind, number],
            roadblock=group,
            polygon_m=_largest(parts),
            successors=tuple(after),
            speed_limit_mps=float(limit) if isinstance(limit, int | float) and 0 < limit < np.inf else None,
            connector=kind == "connector",
        )


def _check_ids(path: Path, lanes: list[Lane]) -> None:
    """Raise where lanes and connectors, or their groups, share a number: planners identify them by number only."""
    for what, name in (("lane", "id"), ("lane group", "roadblock")):
        plain = {getattr(lane, name) for lane in lanes if not lane.connector}
        both = plain & {getattr(lane, name) for lane in lanes if lane.connector}
        if both:
            raise InputError(f"{path}: no {what} may have the number of a {what} connector; {min(both)} is both.")


def _largest(parts: list[Part]) -> Part:
    """The ring of the largest area; an empty ring where there is none."""

    def area(ring: Part) -> float:
        x, y = (ring - ring[:1]).T
        return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2

    return max(parts, key=area, default=np.zeros((0, 2)))


def _distinct(line_m: Part) -> Part:
    """A line without points that repeat the one before."""
    moved: Bool[np.ndarray, "point"] = np.ones(len(line_m), dtype=bool)
    moved[1:] = (np.diff(line_m, axis=0) != 0).any(axis=1)
    return line_m[moved]


def _id(number: Any) -> str:
    """A feature's number as text; some columns hold whole numbers as floats or text."""
    try:
        if int(number) == float(number):
            return str(int(number))
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"numbers of lanes and lane groups must be whole; found {number!r}.")
