"""nuPlan logs (`.db`, SQLite) and maps (`map.gpkg`) -> scenes and truths, a log as a unit.

Layout: any folder below the root holds `LOG.db` (such as `data/cache/mini` or `nuplan-v1.1/splits/mini`), `maps` holds
`nuplan-maps-v1.0.json` and `LOCATION/VERSION/map.gpkg`, and where there are pictures `sensor_blobs/LOG/CAM_F0/*.jpg`
lies below the root, at most two folders deep.

A scenario is a row of the table `scene`: its sweeps, its route. Steps are every second of its 20 Hz sweeps; its states
are 24 equally spaced steps with 4 s of it ahead. A scenario that is too short for 24 has no states. One without a
route gets that of the path that was driven.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.dataset import Dataset
from deepval.datasets.logs.databases import Database, opened
from deepval.datasets.logs.joining import joined
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.nuplan_camera import NOMINAL, picture_files, read_camera
from deepval.datasets.logs.nuplan_map import map_file, read_lane_map
from deepval.datasets.logs.nuplan_tracks import TABLES, numbers, read_boxes, read_red_lights, token_text
from deepval.datasets.logs.progress import route_starts
from deepval.datasets.logs.routing import route_of
from deepval.datasets.logs.states import unit_of
from deepval.errors import InputError
from deepval.files import reading
from deepval.geometry.rotations import headings_rad, transforms
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
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz", "vx", "acceleration_x")
NEEDED = {
    "log": ("map_version",),
    "scene": ("token", "roadblock_ids"),
    "lidar_pc": ("token", "ego_pose_token", "scene_token", "timestamp"),
    "ego_pose": ("token", *POSE),
} | TABLES


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


class NuplanDrive(NamedTuple):
    """A scenario as a log of its own, and the front picture of each of its states, or none at all."""

    log: Log
    pictures: tuple[Path | None, ...]


def read_drives(path: Path, maps: Path, *, pictures: Path | None = None) -> list[NuplanDrive]:
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
        tokens = [token for sweeps in scenarios for token in sweeps.tokens]
        boxes, shut = read_boxes(database, tokens), read_red_lights(database, tokens)
        drives, first = [], 0
        for sweeps in scenarios:
            steps = slice(first, first + len(sweeps.tokens))
            log = _log(sweeps, path.stem, lane_map=lane_map, zero_us=int(scenarios[0].time_us[0]))
            log = replace(log, camera=camera, tracks=boxes.tracks(steps), red_lights=shut[steps])
            drives.append(NuplanDrive(log, picture_files(database, pictures, sweeps_us=sweeps.time_us[sweeps.states])))
            first = steps.stop
        return drives


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
    name = token_text(scene)
    told = f"{database.path}: scene {name}"
    rows = rows[::EVERY]
    table = numbers([row[1:] for row in rows], f"{told}, timestamps and ego poses", columns=1 + len(POSE))
    if not np.isfinite(table).all():
        raise InputError(f"{told}: every sweep must have a timestamp and an ego pose of finite numbers; one has not.")
    time_us, pose = table[:, 0].astype(np.int64), table[:, 1:]
    steps_s = np.diff(time_us) * 1e-6
    wrong = np.flatnonzero(np.abs(steps_s - STEP_S) > LATE_S)
    if len(wrong):
        raise InputError(
            f"{told}: sweeps must follow each other at 20 Hz; after timestamp {time_us[wrong[0]]} two of them take "
            f"{steps_s[wrong[0]]:.3f} s: leave the log out, or get the file again."
        )
    if not (np.linalg.norm(pose[:, 3:7], axis=1) > 0).all():
        raise InputError(f"{told}, ego poses: a quaternion must not be all zeros.")
    return Sweeps(name, tuple(str(route or "").split()), tuple(row[0] for row in rows), time_us, pose)


def _log(sweeps: Sweeps, unit: str, *, lane_map: LaneMap, zero_us: int) -> Log:
    """The ego's part of a log: others, red lights and the camera are not in it yet."""
    pose = sweeps.pose
    world_from_ego = transforms(pose[:, 3:7], pose[:, :3])
    route, starts = _route(sweeps, lane_map, heading_rad=headings_rad(world_from_ego))
    return Log(
        unit=unit,
        time_s=(sweeps.time_us - zero_us) * 1e-6,
        world_from_ego=world_from_ego,
        speed_mps=np.maximum(pose[:, 7], 0.0),
        vehicle=PACIFICA,
        camera=NOMINAL,
        tracks=(),
        lane_map=lane_map,
        route=route,
        states=sweeps.states,
        route_starts=starts,
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

    def beside(self, unit: str) -> dict[str, Any] | None:
        """Nothing; of which sweeps there are pictures nobody says."""
        return {} if self._pictures() is None else None

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

    def read_drives(self, unit: str) -> list[NuplanDrive]:
        """All steps of the scenarios of one log, in time order."""
        return read_drives(self._log_file(unit), self.maps, pictures=self._pictures())

    def _log_file(self, unit: str) -> Path:
        found = self.logs()
        if unit not in found:
            raise InputError(f"a nuPlan log {unit} must lie below {self.root}; there is no {unit}.db.")
        return found[unit]

    def _pictures(self) -> Path | None:
        root = Path(self.root)
        return next(
            (path for depth in ("", "*/", "*/*/") for path in sorted(reading.matching(root, f"{depth}sensor_blobs"))),
            None,
        )
