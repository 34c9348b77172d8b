"""nuPlan's `map.gpkg` -> the lane map around a drive; a log's tables -> tracks and red
lights of some sweeps.

The map is in metres of the location's UTM zone. Lanes have their own polygons.
Connectors, which lead through intersections, have polygons that the map generates.
Roadblocks are the map's lane groups and lane group connectors. Holes in polygons are
not read; the outline of a lane in several pieces is the largest piece. Each table of a
log is read once from start to end, since a log may lack indices for other queries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import read_json
from deepval.driving.datasets.logs.geopackage import (
    Database,
    Part,
    UtmZone,
    features,
    open_database,
    zone_of_file,
)
from deepval.driving.datasets.logs.log import LoggedTrack
from deepval.driving.world.lanes import Lane, LaneMap
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Future, Truth

ZONES = {
    "sg-one-north": UtmZone(48),
    "us-ma-boston": UtmZone(19),
    "us-nv-las-vegas-strip": UtmZone(11),
    "us-pa-pittsburgh-hazelwood": UtmZone(17),
}
"""nuPlan's locations, with the zone of a map that does not name its own."""
VERSIONS_FILE = "nuplan-maps-v1.0.json"
REACH_M = 300.0
"""Lanes and areas within this distance of the drive's bounding box are read, and every
lane of a route.
"""


def map_file(maps: Path, location: str) -> Path:
    """The file of a location's map: the version that the index names, or the only
    version without an index.
    """
    if location not in ZONES:
        raise InputError(
            f"a nuPlan log's map must be one of {', '.join(ZONES)}; found {location!r}."
        )
    index, folder = maps / VERSIONS_FILE, maps / location
    if reading.is_file(index):
        path = folder / _version(index, location) / "map.gpkg"
        if not reading.is_file(path):
            raise InputError(
                f"the map of {location} must be at {path}, according to {index}; "
                "there is no such file."
            )
        return path
    paths = sorted(reading.find(folder, "*/map.gpkg"))
    if len(paths) != 1:
        raise InputError(
            f"the map of {location} must be at {folder}/VERSION/map.gpkg; found "
            f"{len(paths)} and no {index} that names one: unpack nuPlan's maps there."
        )
    return paths[0]


def read_lane_map(
    path: Path,
    location: str,
    *,
    drive_m: Float[np.ndarray, "step 2"],
    routes: frozenset[str],
) -> LaneMap:
    """The lane map within `REACH_M` of a drive, and all lanes of the roadblocks in
    `routes`.
    """
    near = _Nearness(drive_m.min(axis=0) - REACH_M, drive_m.max(axis=0) + REACH_M)
    with open_database(path, what=f"the map of {location}") as database:
        sheet = _Sheet(database, zone_of_file(database) or ZONES[location])
        lanes = [*sheet.lanes(), *sheet.connectors()]
        _check_ids(path, lanes)
        return LaneMap(
            lanes={
                lane.id: lane
                for lane in lanes
                if lane.roadblock in routes or near(lane.centreline_m)
            },
            drivable_m=tuple(
                filter(near, sheet.areas("carpark_areas", "generic_drivable_areas"))
            ),
            intersections_m=tuple(filter(near, sheet.areas("intersections"))),
            crosswalks_m=tuple(filter(near, sheet.areas("crosswalks"))),
        )


class _Nearness(NamedTuple):
    """Whether a line meets a rectangle along the axes, by its bounding box."""

    low_m: Float[np.ndarray, "2"]
    high_m: Float[np.ndarray, "2"]

    def __call__(self, line_m: Part) -> bool:
        return bool(
            len(line_m)
            and (line_m.max(0) >= self.low_m).all()
            and (line_m.min(0) <= self.high_m).all()
        )


def _version(index: Path, location: str) -> str:
    try:
        version = read_json(index)[location]["version"]
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"{index} must name the version of "
            f"{location}'s map; it does not: {error!r}."
        ) from error
    if not isinstance(version, str) or "/" in version or version in ("", ".", ".."):
        raise InputError(
            f"{index} must name the version of {location}'s map; found {version!r}."
        )
    return version


@dataclass(frozen=True)
class _Sheet:
    """An open map, and the zone of its coordinates in metres."""

    database: Database
    zone: UtmZone

    def features(
        self, layer: str, *columns: str
    ) -> Iterator[tuple[tuple[Any, ...], list[Part]]]:
        """Rows of a layer and the parts of their geometry."""
        rows = features(self.database, layer, columns, zone=self.zone)
        return zip(rows.columns, rows.parts, strict=True)

    def areas(self, *layers: str) -> list[Part]:
        """Outlines of all areas of some layers."""
        return [
            part
            for layer in layers
            for _, parts in self.features(layer)
            for part in parts
        ]

    @cached_property
    def centrelines(self) -> dict[tuple[str, str], Part]:
        """The baseline of every lane and connector, by its kind and number."""
        lines = {}
        for (lane, connector), parts in self.features(
            "baseline_paths", "lane_fid", "lane_connector_fid"
        ):
            line = _distinct(np.concatenate([*parts, np.zeros((0, 2))]))
            owners = {"lane": lane, "connector": connector}
            lines |= {
                (kind, _id(number)): line
                for kind, number in owners.items()
                if number is not None
            }
        return lines

    def lanes(self) -> Iterator[Lane]:
        """Lanes between intersections; each leads to the connectors that begin where it
        ends.
        """
        self.database.require({"lane_connectors": ("fid", "exit_lane_fid")})
        after: dict[str, list[str]] = {}
        for connector, lane in self.database.rows(
            "SELECT fid, exit_lane_fid FROM lane_connectors ORDER BY fid"
        ):
            after.setdefault(_id(lane), []).append(_id(connector))
        columns = ("lane_fid", "lane_group_fid", "speed_limit_mps")
        for (number, group, limit), parts in self.features("lanes_polygons", *columns):
            yield self.lane(
                _id(number),
                _id(group),
                parts=parts,
                after=after.get(_id(number), ()),
                limit=limit,
            )

    def connectors(self) -> Iterator[Lane]:
        """Lanes through intersections; each leads to one lane."""
        drawn = self.features(
            "gen_lane_connectors_scaled_width_polygons", "lane_connector_fid"
        )
        outlines = {_id(number): parts for (number,), parts in drawn}
        columns = (
            "fid",
            "lane_group_connector_fid",
            "entry_lane_fid",
            "speed_limit_mps",
        )
        self.database.require({"lane_connectors": columns})
        rows = self.database.rows(
            f"SELECT {', '.join(columns)} FROM lane_connectors ORDER BY fid"
        )
        for number, group, after, limit in rows:
            parts = outlines.get(_id(number), [])
            yield self.lane(
                _id(number),
                _id(group),
                parts=parts,
                after=(_id(after),),
                limit=limit,
                kind="connector",
            )

    def lane(
        self,
        number: str,
        group: str,
        *,
        parts: list[Part],
        after: Sequence[str],
        limit: Any,
        kind: str = "lane",
    ) -> Lane:
        """A lane or connector with its baseline."""
        if (kind, number) not in self.centrelines:
            raise InputError(
                f"{self.database.path}: every {kind} must "
                f"have a baseline path; {number} has none."
            )
        return Lane(
            id=number,
            centreline_m=self.centrelines[kind, number],
            roadblock=group,
            polygon_m=_largest(parts),
            successors=tuple(after),
            speed_limit_mps=float(limit)
            if isinstance(limit, int | float) and 0 < limit < np.inf
            else None,
            connector=kind == "connector",
        )


def _check_ids(path: Path, lanes: list[Lane]) -> None:
    """Raise where lanes and connectors, or their groups, share a number: planners
    identify them by number only.
    """
    for what, name in (("lane", "id"), ("lane group", "roadblock")):
        plain = {getattr(lane, name) for lane in lanes if not lane.connector}
        both = plain & {getattr(lane, name) for lane in lanes if lane.connector}
        if both:
            raise InputError(
                f"{path}: no {what} may have the number "
                f"of a {what} connector; {min(both)} is both."
            )


def _largest(parts: list[Part]) -> Part:
    """The ring of the largest area; an empty ring where there is none."""

    def area(ring: Part) -> float:
        x, y = (ring - ring[:1]).T
        return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2

    return max(parts, key=area, default=np.zeros((0, 2)))


def _distinct(line_m: Part) -> Part:
    """A line without points that repeat the previous point."""
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
    raise InputError(
        f"numbers of lanes and lane groups must be whole; found {number!r}."
    )


def join_drives(drives: Sequence[tuple[Scene, Truth]]) -> tuple[Scene, Truth]:
    """One unit of drives that share camera, map and vehicle; tracks of different drives
    get different numbers.
    """
    if not drives:
        raise InputError("a unit must be joined from one drive or more; found none.")
    scenes, truths = [scene for scene, _ in drives], [truth for _, truth in drives]
    return _scene(scenes), _truth(truths)


def _scene(scenes: list[Scene]) -> Scene:
    offsets = np.concatenate(
        [[0], np.cumsum([len(scene.route) for scene in scenes])]
    ).astype(int)
    starts = [
        np.zeros(len(scene), dtype=int)
        if scene.route_starts is None
        else scene.route_starts
        for scene in scenes
    ]
    return replace(
        scenes[0],
        frame_ids=np.concatenate([scene.frame_ids for scene in scenes]),
        time_s=np.concatenate([scene.time_s for scene in scenes]),
        ego_speed_mps=np.concatenate([scene.ego_speed_mps for scene in scenes]),
        image_paths=_all_or_none(
            [scene.image_paths for scene in scenes], [len(scene) for scene in scenes]
        ),
        world_from_ego=_together([scene.world_from_ego for scene in scenes]),
        route=tuple(roadblock for scene in scenes for roadblock in scene.route),
        route_starts=np.concatenate(
            [start + offset for start, offset in zip(starts, offsets, strict=False)]
        ),
        route_ends=np.repeat(offsets[1:], [len(scene) for scene in scenes]),
        red_lights=tuple(
            shut
            for scene in scenes
            for shut in scene.red_lights or [frozenset()] * len(scene)
        ),
        ego_acceleration_mps2=_together(
            [scene.ego_acceleration_mps2 for scene in scenes]
        ),
        unpictured=sum(scene.unpictured for scene in scenes),
    )


def _truth(truths: list[Truth]) -> Truth:
    frames = [truth.frames for truth in truths]
    futures = [truth.future for truth in truths if truth.future is not None]
    tracks = _track_offsets(truths)
    return Truth(
        unit=truths[0].unit,
        objects=_objects([truth.objects for truth in truths], tracks),
        box_px=np.concatenate([truth.box_px for truth in truths]),
        occlusion=np.concatenate([truth.occlusion for truth in truths]),
        ignored_frame=np.concatenate(
            [t.ignored_frame + sum(frames[:number]) for number, t in enumerate(truths)]
        ),
        ignored_box_px=np.concatenate([truth.ignored_box_px for truth in truths]),
        future=_future(futures, tracks) if len(futures) == len(truths) else None,
    )


def _future(futures: list[Future], tracks: list[int]) -> Future:
    return Future(
        times_s=futures[0].times_s,
        pose=np.concatenate([future.pose for future in futures]),
        valid=np.concatenate([future.valid for future in futures]),
        objects=tuple(
            _objects(list(ahead), tracks)
            for ahead in zip(*(f.objects for f in futures), strict=True)
        ),
    )


def _objects(parts: list[Objects], tracks: list[int]) -> Objects:
    """Objects of consecutive drives; the track numbers of each drive are shifted by its
    item of `tracks`.
    """
    first = np.concatenate([[0], np.cumsum([part.frames for part in parts])]).astype(
        int
    )
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Objects)
        if field.name not in ("frames", "frame", "track")
    }
    return Objects(
        frames=int(first[-1]),
        frame=np.concatenate(
            [part.frame + start for part, start in zip(parts, first, strict=False)]
        ),
        track=np.concatenate(
            [
                np.where(part.track < 0, -1, part.track + offset)
                for part, offset in zip(parts, tracks, strict=True)
            ]
        ),
        **columns,
    )


def _track_offsets(truths: list[Truth]) -> list[int]:
    """The first track number of each drive: higher than all of the drive before, its
    future included.
    """
    offsets = [0]
    for truth in truths[:-1]:
        all_objects = [truth.objects, *(truth.future.objects if truth.future else ())]
        offsets.append(
            offsets[-1]
            + 1
            + max(int(objects.track.max(initial=-1)) for objects in all_objects)
        )
    return offsets


def _together(parts: Sequence[np.ndarray | None]) -> Any:
    """The arrays concatenated; None where one of them is missing."""
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if len(arrays) == len(parts) else None


def _all_or_none(
    parts: Sequence[tuple[Any, ...]], lengths: Sequence[int]
) -> tuple[Any, ...]:
    """One item per frame, None in drives without items; empty where no drive has
    any.
    """
    if not any(parts):
        return ()
    return tuple(
        item
        for part, length in zip(parts, lengths, strict=True)
        for item in part or (None,) * length
    )


CLASSES = {
    "vehicle": "Car",
    "bicycle": "Cyclist",
    "pedestrian": "Pedestrian",
    "traffic_cone": "Traffic_cone",
    "barrier": "Barrier",
    "czone_sign": "Static",
    "generic_object": "Static",
}
STANDING = ("Traffic_cone", "Barrier", "Static")
BOX = ("x", "y", "z", "length", "width", "height", "yaw", "vx", "vy")
TABLES = {
    "lidar_box": ("lidar_pc_token", "track_token", *BOX),
    "track": ("token", "category_token"),
    "category": ("token", "name"),
    "traffic_light_status": ("lidar_pc_token", "lane_connector_id", "status"),
}


class SweepBoxes(NamedTuple):
    """The boxes of sweeps, in time order: number of the sweep, number in `names` and
    `categories`, columns of `BOX`.
    """

    sweep: Int[np.ndarray, "box"]
    track: Int[np.ndarray, "box"]
    values: Float[np.ndarray, "box 9"]
    names: tuple[str, ...]
    categories: tuple[Any, ...]
    source: str

    def tracks(self, sweeps: slice) -> tuple[LoggedTrack, ...]:
        """All tracks of consecutive sweeps, in the order of their first boxes."""
        here = slice(*np.searchsorted(self.sweep, [sweeps.start, sweeps.stop]))
        track, step, values = (
            self.track[here],
            self.sweep[here] - sweeps.start,
            self.values[here],
        )
        track_numbers, first = np.unique(track, return_index=True)
        by_track = np.argsort(track, kind="stable")
        # Without any box, np.split still returns one empty part; it belongs to no
        # track.
        parts = np.split(by_track, np.searchsorted(track[by_track], track_numbers)[1:])[
            : len(track_numbers)
        ]
        by_first_step = sorted(
            zip(first.tolist(), track_numbers.tolist(), parts, strict=True),
            key=lambda track_rows: track_rows[0],
        )
        steps = sweeps.stop - sweeps.start
        return tuple(
            self._track(number, step[rows], values=values[rows], steps=steps)
            for _, number, rows in by_first_step
        )

    def _track(
        self,
        number: int,
        step: Int[np.ndarray, "row"],
        *,
        values: Float[np.ndarray, "row 9"],
        steps: int,
    ) -> LoggedTrack:
        name, category = self.names[number], self.categories[number]
        if category not in CLASSES:
            raise InputError(
                f"{self.source}, track {name}: its category "
                f"must be one of {', '.join(CLASSES)}; found {category!r}."
            )
        cls = CLASSES[category]
        if cls in STANDING:
            # The file may lack speeds of static objects.
            values = np.column_stack([values[:, :7], np.nan_to_num(values[:, 7:])])
        columns, valid = np.full((steps, len(BOX)), np.nan), np.zeros(steps, dtype=bool)
        columns[step], valid[step] = values, True
        try:
            return LoggedTrack(
                id=name,
                cls=cls,
                centre_m=columns[:, :3],
                size_m=columns[:, 3:6],
                heading_rad=columns[:, 6],
                velocity_mps=columns[:, 7:],
                valid=valid,
            )
        except InputError as error:
            raise InputError(f"{self.source}: {error}") from error


def read_boxes(database: Database, sweeps: Sequence[bytes]) -> SweepBoxes:
    """The boxes of the sweeps with these tokens."""
    number_of = {token: number for number, token in enumerate(sweeps)}
    categories = dict(
        database.rows(
            "SELECT track.token, category.name FROM track LEFT JOIN category ON "
            "category_token = category.token"
        )
    )
    tracks: dict[Any, int] = {}
    parts = [np.zeros((0, 2 + len(BOX)))]
    for batch in database.batches(
        f"SELECT lidar_pc_token, track_token, {', '.join(BOX)} "
        "FROM lidar_box ORDER BY rowid"
    ):
        rows = [
            (number_of[row[0]], tracks.setdefault(row[1], len(tracks)), *row[2:])
            for row in batch
            if row[0] in number_of
        ]
        parts.append(numbers(rows, f"{database.path}: boxes", columns=2 + len(BOX)))
    table = np.concatenate(parts)
    table = table[np.argsort(table[:, 0], kind="stable")]
    return SweepBoxes(
        sweep=table[:, 0].astype(int),
        track=table[:, 1].astype(int),
        values=table[:, 2:],
        names=tuple(token_text(token) for token in tracks),
        categories=tuple(categories.get(token) for token in tracks),
        source=str(database.path),
    )


def read_red_lights(
    database: Database, sweeps: Sequence[bytes]
) -> tuple[frozenset[str], ...]:
    """Ids of the lane connectors that a red light shuts, for each of the sweeps with
    these tokens.
    """
    shut: dict[Any, set[str]] = {token: set() for token in sweeps}
    query = (
        "SELECT lidar_pc_token, lane_connector_id FROM traffic_light_status WHERE "
        "LOWER(status) = 'red'"
    )
    for token, connector in database.rows(query):
        if token in shut:
            shut[token].add(str(connector))
    return tuple(frozenset(lanes) for lanes in shut.values())


def token_text(token: Any) -> str:
    """A token in hexadecimal, as nuPlan's tools write it."""
    if not isinstance(token, bytes):
        raise InputError(f"tokens of a nuPlan log must be blobs; found {token!r}.")
    return token.hex()


def numbers(
    rows: Sequence[Sequence[Any]], source: str, *, columns: int
) -> Float[np.ndarray, "row column"]:
    """Rows of numbers as an array, NaN where a value is missing."""
    try:
        return np.array(rows, dtype=float).reshape(len(rows), columns)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: must be numbers; {error}.") from error
