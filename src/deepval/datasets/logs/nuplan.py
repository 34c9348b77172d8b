"""nuPlan logs (`.db`, SQLite) and maps (`map.gpkg`) -> scenes and truths, a log as a unit.

Layout: any folder below the root holds `LOG.db` (such as `data/cache/mini` or `nuplan-v1.1/splits/mini`), `maps` holds
`nuplan-maps-v1.0.json` and `LOCATION/VERSION/map.gpkg`, and where there are pictures `sensor_blobs/LOG/CAM_F0/*.jpg`
lies below the root, at most two folders deep.

A scenario is a row of the table `scene`: its sweeps, its route. Steps are every second of its 20 Hz sweeps; its states
are 24 equally spaced steps with 4 s of it ahead. A scenario that is too short for 24 has no states. One without a
route gets that of the path that was driven.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.dataset import Dataset
from deepval.datasets.logs.databases import Database, opened
from deepval.datasets.logs.joining import joined
from deepval.datasets.logs.log import Log, LoggedTrack
from deepval.datasets.logs.nuplan_camera import picture_files, posed, read_camera, rotations
from deepval.datasets.logs.nuplan_map import map_file, read_lane_map
from deepval.datasets.logs.progress import route_starts
from deepval.datasets.logs.routing import route_of
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError
from deepval.geometry.camera import Camera
from deepval.geometry.vehicle import PACIFICA
from deepval.world.lanes import LaneMap
from deepval.world.scene import Scene
from deepval.world.truth import Truth

STATES = 24
STEP_S, EVERY = 0.1, 2
"""Time between steps, and how many sweeps a step has."""
LATE_S = 0.03
"""A step may be this much longer or shorter."""
FUTURE_STEPS = 40
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
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz", "vx", "acceleration_x")
BOX = ("x", "y", "z", "length", "width", "height", "yaw", "vx", "vy")
NEEDED = {
    "log": ("map_version",),
    "scene": ("token", "roadblock_ids"),
    "lidar_pc": ("token", "ego_pose_token", "scene_token", "timestamp"),
    "ego_pose": ("token", *POSE),
    "lidar_box": ("lidar_pc_token", "track_token", *BOX),
    "track": ("token", "category_token"),
    "category": ("token", "name"),
    "traffic_light_status": ("lidar_pc_token", "lane_connector_id", "status"),
}


class Sweeps(NamedTuple):
    """The steps of a scenario."""

    scene: str
    route: tuple[str, ...]
    tokens: tuple[bytes, ...]
    time_us: Int[np.ndarray, "step"]
    pose: Float[np.ndarray, "step 9"]

    @property
    def states(self) -> Int[np.ndarray, "state"]:
        """24 equally spaced steps with 4 s ahead of them, none where the scenario is too short."""
        apart = (len(self.tokens) - 1 - FUTURE_STEPS) // (STATES - 1)
        return np.arange(STATES) * apart if apart > 0 else np.zeros(0, dtype=int)


class Drive(NamedTuple):
    """A scenario as a log of its own, and the front picture of each of its states, or none at all."""

    log: Log
    pictures: tuple[Path | None, ...]


def read_drives(path: Path, maps: Path, *, pictures: Path | None = None) -> list[Drive]:
    """The scenarios of a log in time order; `pictures` is the folder of sensor data, if there is one."""
    with opened(path, what="a nuPlan log") as database:
        database.require(NEEDED)
        scenarios = [sweeps for sweeps in _scenarios(database) if len(sweeps.states)]
        if not scenarios:
            least_s = (STATES - 1 + FUTURE_STEPS) * STEP_S
            raise InputError(f"{path}: a log must have a scenario of {least_s:g} s or more; it has none.")
        location = _location(database)
        routes = frozenset(roadblock for sweeps in scenarios for roadblock in sweeps.route)
        drive_m = np.concatenate([sweeps.pose[:, :2] for sweeps in scenarios])
        lane_map = read_lane_map(map_file(maps, location), location, drive_m=drive_m, routes=routes)
        camera = read_camera(database)
        return [
            Drive(
                _log(database, sweeps, lane_map=lane_map, camera=camera, zero_us=int(scenarios[0].time_us[0])),
                picture_files(database, pictures, sweeps_us=sweeps.time_us[sweeps.states]),
            )
            for sweeps in scenarios
        ]


def _location(database: Database) -> str:
    """The map that a log was driven on: its column map_version holds the map's name, not a version."""
    rows = database.rows("SELECT map_version FROM log")
    if len(rows) != 1:
        raise InputError(f"{database.path}: table log must have one row; it has {len(rows)}.")
    return str(rows[0][0]).removesuffix(".gpkg")


def _scenarios(database: Database) -> list[Sweeps]:
    told = database.rows(
        "SELECT scene.token, scene.roadblock_ids FROM scene JOIN lidar_pc ON lidar_pc.scene_token = scene.token "
        "GROUP BY scene.token ORDER BY MIN(lidar_pc.timestamp)"
    )
    pose = ", ".join(f"ego_pose.{name}" for name in POSE)
    query = (
        f"SELECT lidar_pc.token, lidar_pc.timestamp, {pose} FROM lidar_pc "
        "LEFT JOIN ego_pose ON lidar_pc.ego_pose_token = ego_pose.token "
        "WHERE lidar_pc.scene_token = ? ORDER BY lidar_pc.timestamp"
    )
    return [_sweeps(database, token, route, rows=database.rows(query, (token,))) for token, route in told]


def _sweeps(database: Database, scene: Any, route: Any, *, rows: list[tuple[Any, ...]]) -> Sweeps:
    name = _hex(scene)
    told = f"{database.path}: scene {name}"
    rows = rows[::EVERY]
    time_us = _numbers([row[1:2] for row in rows], f"{told}, timestamps", columns=1)[:, 0].astype(np.int64)
    steps_s = np.diff(time_us) * 1e-6
    wrong = np.flatnonzero(np.abs(steps_s - STEP_S) > LATE_S)
    if len(wrong):
        raise InputError(
            f"{told}: sweeps must follow each other at 20 Hz; after timestamp {time_us[wrong[0]]} two of them take "
            f"{steps_s[wrong[0]]:.3f} s: leave the log out, or get the file again."
        )
    pose = _numbers([row[2:] for row in rows], f"{told}, ego poses", columns=len(POSE))
    if not (np.linalg.norm(pose[:, 3:7], axis=1) > 0).all():
        raise InputError(f"{told}, ego poses: a quaternion must not be all zeros.")
    return Sweeps(name, tuple(str(route or "").split()), tuple(row[0] for row in rows), time_us, pose)


def _log(database: Database, sweeps: Sweeps, *, lane_map: LaneMap, camera: Camera, zero_us: int) -> Log:
    steps = {token: step for step, token in enumerate(sweeps.tokens)}
    pose = sweeps.pose
    turn = rotations(pose[:, 3:7])
    route, starts = _route(sweeps, lane_map, heading_rad=np.arctan2(turn[:, 1, 0], turn[:, 0, 0]))
    return Log(
        unit=database.path.stem,
        time_s=(sweeps.time_us - zero_us) * 1e-6,
        world_from_ego=np.stack([posed(R, t) for R, t in zip(turn, pose[:, :3], strict=True)]),
        speed_mps=np.maximum(pose[:, 7], 0.0),
        vehicle=PACIFICA,
        camera=camera,
        tracks=_tracks(database, sweeps, steps=steps),
        lane_map=lane_map,
        route=route,
        states=sweeps.states,
        route_starts=starts,
        red_lights=_red_lights(database, sweeps, steps=steps),
        acceleration_mps2=pose[:, 8],
        frame_ids=tuple(f"{sweeps.scene}-{step:04d}" for step in sweeps.states),
    )


def _route(
    sweeps: Sweeps, lane_map: LaneMap, *, heading_rad: Float[np.ndarray, "step"]
) -> tuple[tuple[str, ...], Int[np.ndarray, "step"]]:
    """The scenario's own route, or where it has none that of the driven path, and where each step is on it."""
    if sweeps.route:
        return sweeps.route, route_starts(lane_map, sweeps.route, place_m=sweeps.pose[:, :2])
    driven = route_of(lane_map, np.column_stack([sweeps.pose[:, :2], heading_rad]))
    return driven.roadblocks, driven.starts


def _tracks(database: Database, sweeps: Sweeps, *, steps: dict[bytes, int]) -> tuple[LoggedTrack, ...]:
    """All tracks of a scenario, in the order in which they are first seen."""
    box = ", ".join(f"lidar_box.{name}" for name in BOX)
    rows = database.rows(
        f"SELECT lidar_box.lidar_pc_token, lidar_box.track_token, category.name, {box} FROM lidar_box "
        "JOIN lidar_pc ON lidar_box.lidar_pc_token = lidar_pc.token "
        "LEFT JOIN track ON lidar_box.track_token = track.token "
        "LEFT JOIN category ON track.category_token = category.token "
        "WHERE lidar_pc.scene_token = ? ORDER BY lidar_pc.timestamp, lidar_box.rowid",
        (bytes.fromhex(sweeps.scene),),
    )
    found: dict[bytes, list[tuple[Any, ...]]] = {}
    for row in rows:
        if row[0] in steps:
            found.setdefault(row[1], []).append(row)
    told = f"{database.path}: scene {sweeps.scene}"
    return tuple(_track(token, seen, steps=steps, told=told) for token, seen in found.items())


def _track(token: bytes, seen: list[tuple[Any, ...]], *, steps: dict[bytes, int], told: str) -> LoggedTrack:
    name = _hex(token)
    if seen[0][2] not in CLASSES:
        raise InputError(
            f"{told}, track {name}: its category must be one of {', '.join(CLASSES)}; found {seen[0][2]!r}."
        )
    cls = CLASSES[seen[0][2]]
    # What stands may have no speed in the file.
    rows = [(*row[3:10], *(value or 0.0 for value in row[10:])) if cls in STANDING else row[3:] for row in seen]
    values = _numbers(rows, f"{told}, boxes of track {name}", columns=len(BOX))
    columns, valid = np.full((len(steps), len(BOX)), np.nan), np.zeros(len(steps), dtype=bool)
    places = [steps[row[0]] for row in seen]
    columns[places], valid[places] = values, True
    return LoggedTrack(
        id=name,
        cls=cls,
        centre_m=columns[:, :3],
        size_m=columns[:, 3:6],
        heading_rad=columns[:, 6],
        velocity_mps=columns[:, 7:],
        valid=valid,
    )


def _red_lights(database: Database, sweeps: Sweeps, *, steps: dict[bytes, int]) -> tuple[frozenset[str], ...]:
    rows = database.rows(
        "SELECT traffic_light_status.lidar_pc_token, lane_connector_id FROM traffic_light_status "
        "JOIN lidar_pc ON traffic_light_status.lidar_pc_token = lidar_pc.token "
        "WHERE lidar_pc.scene_token = ? AND LOWER(status) = 'red'",
        (bytes.fromhex(sweeps.scene),),
    )
    shut: list[set[str]] = [set() for _ in steps]
    for token, connector in rows:
        if token in steps:
            shut[steps[token]].add(str(connector))
    return tuple(frozenset(lanes) for lanes in shut)


def _hex(token: Any) -> str:
    if not isinstance(token, bytes):
        raise InputError(f"tokens of a nuPlan log must be blobs; found {token!r}.")
    return token.hex()


def _numbers(rows: Sequence[Sequence[Any]], told: str, *, columns: int) -> Float[np.ndarray, "row column"]:
    try:
        values = np.array(rows, dtype=float).reshape(len(rows), columns)
    except (TypeError, ValueError) as error:
        raise InputError(f"{told}: must be numbers; {error}.") from error
    if not np.isfinite(values).all():
        raise InputError(f"{told}: must be finite numbers; found NaN, infinity or nothing.")
    return values


@dataclass(frozen=True)
class Nuplan(Dataset):
    """The logs below a folder, wherever in it their `.db` files lie.

    Attributes:
        root: The folder that holds `maps` and, at any depth, the logs.
    """

    root: Path | str

    @property
    def name(self) -> str:
        """Its name; splits are drawn under it."""
        return "nuplan"

    @property
    def maps(self) -> Path:
        """The folder of the maps."""
        return Path(self.root) / "maps"

    def logs(self) -> dict[str, Path]:
        """The file of each log, by its name."""
        found: dict[str, Path] = {}
        for folder, inner, files in os.walk(self.root):
            # Millions of pictures and point clouds: nothing in there is a log.
            inner[:] = sorted(set(inner) - {"sensor_blobs", "maps"})
            for path in (Path(folder) / name for name in sorted(files) if name.endswith(".db")):
                if path.stem in found:
                    raise InputError(
                        f"each nuPlan log must be there once; {path.stem} is at {found[path.stem]} and {path}: "
                        "give the folder of one split, with maps in it."
                    )
                found[path.stem] = path
        return found

    def files(self, unit: str) -> dict[str, Path]:
        """The log's database and its map."""
        path = self._log_file(unit)
        with opened(path, what="a nuPlan log") as database:
            database.require({"log": NEEDED["log"]})
            location = _location(database)
        chart = map_file(self.maps, location)
        return {f"{unit}.db": path, f"maps/{location}/{chart.parent.name}/map.gpkg": chart}

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the logs, in order."""
        found = tuple(sorted(self.logs()))
        if not found:
            raise InputError(f"a nuPlan folder must hold logs (.db); found none in {self.root}: give the right folder.")
        return found

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """What the vehicle knows of one log at the states of all its scenarios, and its reference."""
        units = [(*unit_of(drive.log), drive.pictures) for drive in self.read_drives(unit)]
        return joined([(replace(scene, image_paths=pictures), truth) for scene, truth, pictures in units])

    def read_drives(self, unit: str) -> list[Drive]:
        """All steps of the scenarios of one log, in time order."""
        return read_drives(self._log_file(unit), self.maps, pictures=self._pictures())

    def _log_file(self, unit: str) -> Path:
        found = self.logs()
        if unit not in found:
            raise InputError(f"a nuPlan log {unit} must lie below {self.root}; there is no {unit}.db.")
        return found[unit]

    def _pictures(self) -> Path | None:
        root = Path(self.root)
        return next((path for depth in ("", "*/", "*/*/") for path in sorted(root.glob(f"{depth}sensor_blobs"))), None)
