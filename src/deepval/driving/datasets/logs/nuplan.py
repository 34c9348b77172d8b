"""nuPlan logs (`.db`, SQLite) and maps (`map.gpkg`) -> scenes and truths, a log as a
unit.

Layout: any folder below the root holds `LOG.db` (such as `nuplan-v1.1/splits/mini`),
`maps` holds `nuplan-maps-v1.0.json` and `LOCATION/VERSION/map.gpkg`, and where there
are pictures they are `sensor_blobs/LOG/CAM_F0/*.jpg`. `maps` and `sensor_blobs` lie
below the root or beside the folders that it is in.

A scenario is a row of the table `scene`, with its sweeps and its route. Its steps are
every second one of its sweeps, which come at 20 Hz. Its states are 24 equally spaced
steps, each with 4 s of the scenario ahead; a scenario too short for them has none.
Where a scenario has no route, the route is matched to the driven path.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of
from deepval.basics.files.pickles import unpickle
from deepval.driving.datasets.dataset import Dataset
from deepval.driving.datasets.logs import nuplan_tables
from deepval.driving.datasets.logs.geopackage import Database, open_database
from deepval.driving.datasets.logs.log import Log, route_of, route_starts
from deepval.driving.datasets.logs.nuplan_choice import (
    chosen_scenes,
    is_choice,
    logs_below,
)
from deepval.driving.datasets.logs.states import unit_of
from deepval.driving.geometry.camera import Camera, looking_ahead
from deepval.driving.geometry.vehicle import PACIFICA, headings_rad, transforms
from deepval.driving.world.lanes import FARTHEST_M, LaneMap, on_earth
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

CHANNEL = "CAM_F0"
SIZE_PX = (1920, 1080)
FARTHEST_US = 41_000
"""A sweep has a picture if one was taken at most this much before or after it."""
LATEST_US = 1e17
"""Bound of time stamps: three thousand years."""
MOST_BYTES = 4096
"""Largest size of a measure of a camera, which is a pickle of at most nine numbers."""
COLUMNS = (
    "token",
    "channel",
    "translation",
    "rotation",
    "intrinsic",
    "width",
    "height",
)
NOMINAL = Camera(
    fx_px=1545.0,
    fy_px=1545.0,
    cx_px=960.0,
    cy_px=560.0,
    ego_from_cam=looking_ahead(1.7, height_m=1.6),
    road_z_m=0.0,
    width_px=SIZE_PX[0],
    height_px=SIZE_PX[1],
)
"""Stands in where a log has no cameras: nuPlan's usual focal length, looking straight
ahead from the windscreen.
"""


def read_camera(database: Database) -> Camera:
    """The front camera of a log, or the nominal one where the log has no cameras."""
    row = _row(database)
    if row is None:
        return NOMINAL
    translation = _numbers(database, row[2], name="translation", shape=(3,))
    rotation = _numbers(database, row[3], name="rotation", shape=(4,))
    k = _numbers(database, row[4], name="intrinsic", shape=(3, 3))
    if not rotation.any():
        raise InputError(
            f"{database.path}: the rotation of {CHANNEL} must be "
            "a quaternion; it is all zeros."
        )
    width, height = (
        int(size) if isinstance(size, int | float) and size > 0 else None
        for size in row[5:7]
    )
    return Camera(
        fx_px=float(k[0, 0]),
        fy_px=float(k[1, 1]),
        cx_px=float(k[0, 2]),
        cy_px=float(k[1, 2]),
        ego_from_cam=transforms(rotation, translation),
        road_z_m=0.0,
        width_px=width,
        height_px=height,
    )


def picture_files(
    database: Database, folder: Path | None, *, sweeps_us: Int[np.ndarray, "sweep"]
) -> tuple[Path | None, ...]:
    """The front picture nearest in time to each sweep, within `FARTHEST_US`; empty
    without a folder or pictures.
    """
    row = _row(database)
    if folder is None or row is None or "image" not in database.tables():
        return ()
    database.require({"image": ("camera_token", "filename_jpg", "timestamp")})
    query = (
        "SELECT timestamp, filename_jpg FROM image WHERE camera_token "
        "= ? ORDER BY timestamp"
    )
    taken = database.rows(query, (row[0],))
    if not taken:
        return ()
    time_us = np.array([time for time, _ in taken], dtype=np.int64)
    after = np.clip(np.searchsorted(time_us, sweeps_us), 1, max(len(time_us) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(time_us) - 1)
    nearest = np.where(
        np.abs(time_us[after] - sweeps_us) < np.abs(time_us[before] - sweeps_us),
        after,
        before,
    )
    near = np.abs(time_us[nearest] - sweeps_us) <= FARTHEST_US
    paths = [
        _below(database, folder, taken[index][1]) if is_near else None
        for index, is_near in zip(nearest, near, strict=True)
    ]
    return tuple(
        path if path is not None and reading.is_file(path) else None for path in paths
    )


def _row(database: Database) -> tuple[Any, ...] | None:
    if "camera" not in database.tables():
        return None
    database.require({"camera": COLUMNS})
    rows = database.rows(
        f"SELECT {', '.join(COLUMNS)} FROM camera WHERE channel = ?", (CHANNEL,)
    )
    return rows[0] if rows else None


def _numbers(
    database: Database, content: Any, *, name: str, shape: tuple[int, ...]
) -> Float[np.ndarray, "..."]:
    source = f"{database.path}: the {name} of {CHANNEL}"
    requirement = f"{source} must be numbers of shape {shape}"
    if isinstance(content, bytes):
        try:
            content = unpickle(content, most=MOST_BYTES)
        except InputError as error:
            raise InputError(f"{source} {error}") from error
    try:
        values = np.array(content, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{requirement}; {error}.") from error
    if values.shape != shape or not on_earth(values):
        raise InputError(
            f"{requirement}, of at most {FARTHEST_M:g}; found {values.shape} or other "
            "numbers."
        )
    return values


def _below(database: Database, folder: Path, name: Any) -> Path:
    """A picture's file.

    It must lie in the folder: a database from elsewhere must not point at other files.
    """
    relative = PurePosixPath(str(name))
    if relative.is_absolute() or ".." in relative.parts:
        raise InputError(
            f"{database.path}: pictures must lie below {folder}; found {name!r}."
        )
    return folder / relative


STATES = 24
STEP_S, EVERY = 0.1, 2
"""Time between steps, and the number of sweeps per step."""
LATE_S = 0.03
"""A step may be this much longer or shorter."""
FUTURE_STEPS = 40
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz", "vx", "acceleration_x")
NEEDED = {
    "log": ("map_version",),
    "scene": ("token", "roadblock_ids"),
    "lidar_pc": ("token", "ego_pose_token", "scene_token", "timestamp"),
    "ego_pose": ("token", *POSE),
} | nuplan_tables.TABLES


class Sweeps(NamedTuple):
    """The steps of a scenario."""

    scene: str
    route: tuple[str, ...]
    tokens: tuple[bytes, ...]
    time_us: Int[np.ndarray, "step"]
    pose: Float[np.ndarray, "step 9"]

    @property
    def states(self) -> Int[np.ndarray, "state"]:
        """24 equally spaced steps with 4 s ahead of them, none where the scenario is
        too short.
        """
        apart = (len(self.tokens) - 1 - FUTURE_STEPS) // (STATES - 1)
        return np.arange(STATES) * apart if apart > 0 else np.zeros(0, dtype=int)


class NuplanDrive(NamedTuple):
    """A scenario as a log of its own, the front picture of each of its states or none,
    and how many states lack one.
    """

    log: Log
    pictures: tuple[Path | None, ...]
    unpictured: int = 0


def read_drives(
    path: Path,
    maps: Path,
    *,
    pictures: Path | None = None,
    scenes: frozenset[str] | None = None,
) -> list[NuplanDrive]:
    """The scenarios of a log in time order; states without a picture are left out if
    others have one.

    Args:
        path: The log.
        maps: The folder of the maps.
        pictures: The folder of sensor data, if there is one.
        scenes: Tokens of the scenarios to read; None reads all.
    """
    with open_database(path, what="a nuPlan log") as database:
        database.require(NEEDED)
        scenarios = [
            sweeps for sweeps in _scenarios(database, scenes) if len(sweeps.states)
        ]
        if not scenarios:
            least_s = (STATES - 1 + FUTURE_STEPS) * STEP_S
            raise InputError(
                f"{path}: a log must have a scenario of "
                f"{least_s:g} s or more; it has none."
            )
        location = _location(database)
        routes = frozenset(
            roadblock for sweeps in scenarios for roadblock in sweeps.route
        )
        drive_m = np.concatenate([sweeps.pose[:, :2] for sweeps in scenarios])
        lane_map = nuplan_tables.read_lane_map(
            nuplan_tables.map_file(maps, location),
            location,
            drive_m=drive_m,
            routes=routes,
        )
        camera = read_camera(database)
        tokens = [token for sweeps in scenarios for token in sweeps.tokens]
        boxes, shut = (
            nuplan_tables.read_boxes(database, tokens),
            nuplan_tables.read_red_lights(database, tokens),
        )
        drives, first = [], 0
        for sweeps in scenarios:
            steps = slice(first, first + len(sweeps.tokens))
            log = _log(
                sweeps,
                path.stem,
                lane_map=lane_map,
                zero_us=int(scenarios[0].time_us[0]),
            )
            log = replace(
                log, camera=camera, tracks=boxes.tracks(steps), red_lights=shut[steps]
            )
            drives.append(
                NuplanDrive(
                    log,
                    picture_files(
                        database, pictures, sweeps_us=sweeps.time_us[sweeps.states]
                    ),
                )
            )
            first = steps.stop
        return _with_pictures(drives, path.stem)


def _with_pictures(drives: list[NuplanDrive], unit: str) -> list[NuplanDrive]:
    """The states that have a picture, with a note on how many have none; all states if
    the log has no pictures.
    """
    present = [
        np.array([path is not None for path in drive.pictures], dtype=bool)
        for drive in drives
    ]
    states, pictured = (
        sum(len(drive.log.states) for drive in drives),
        sum(int(has.sum()) for has in present),
    )
    if pictured in (0, states):
        return drives
    warnings.warn(
        f"log {unit}: {states - pictured} of {states} states have no {CHANNEL} "
        "picture and are left out.",
        InputWarning,
        stacklevel=2,
    )
    reduced = []
    for (log, pictures, _), has in zip(drives, present, strict=True):
        if has.any():
            frame_ids = tuple(
                name for name, there in zip(log.frame_ids, has, strict=True) if there
            )
            log = replace(log, states=log.states[has], frame_ids=frame_ids)
            reduced.append(
                NuplanDrive(log, tuple(path for path in pictures if path is not None))
            )
    reduced[0] = reduced[0]._replace(unpictured=states - pictured)
    return reduced


def _location(database: Database) -> str:
    """Name of a log's map; despite its name, the column map_version holds it."""
    rows = database.rows("SELECT map_version FROM log")
    if len(rows) != 1:
        raise InputError(
            f"{database.path}: table log must have one row; it has {len(rows)}."
        )
    return str(rows[0][0]).removesuffix(".gpkg")


def _scenarios(database: Database, chosen: frozenset[str] | None) -> list[Sweeps]:
    """The chosen scenarios whose sweeps follow each other at 20 Hz, with a note on the
    others.
    """
    scenes = database.rows(
        "SELECT scene.token, scene.roadblock_ids FROM scene JOIN lidar_pc ON "
        "lidar_pc.scene_token = scene.token GROUP BY scene.token ORDER BY "
        "MIN(lidar_pc.timestamp)"
    )
    pose = ", ".join(f"ego_pose.{name}" for name in POSE)
    query = (
        f"SELECT lidar_pc.token, lidar_pc.timestamp, {pose} FROM lidar_pc "
        "LEFT JOIN ego_pose ON lidar_pc.ego_pose_token = ego_pose.token "
        "WHERE lidar_pc.scene_token = ? ORDER BY lidar_pc.timestamp"
    )
    scenarios = [
        _sweeps(database, token, route, rows=database.rows(query, (token,)))
        for token, route in scenes
        if chosen is None or nuplan_tables.token_text(token) in chosen
    ]
    gaps = [
        np.flatnonzero(np.abs(np.diff(sweeps.time_us) * 1e-6 - STEP_S) > LATE_S)
        for sweeps in scenarios
    ]
    whole = [
        sweeps for sweeps, gap in zip(scenarios, gaps, strict=True) if not len(gap)
    ]
    if len(whole) < len(scenarios):
        first = next(
            sweeps.time_us[gap[0]]
            for sweeps, gap in zip(scenarios, gaps, strict=True)
            if len(gap)
        )
        sentence = (
            f"{database.path}: sweeps must follow each other at 20 Hz; in "
            f"{len(scenarios) - len(whole)} of {len(scenarios)} scenarios they do "
            f"not, first after timestamp {first}"
        )
        if not whole:
            raise InputError(f"{sentence}: leave the log out, or get the file again.")
        warnings.warn(
            f"{sentence}: these scenarios are left out.", InputWarning, stacklevel=2
        )
    return whole


def _sweeps(
    database: Database, scene: Any, route: Any, *, rows: list[tuple[Any, ...]]
) -> Sweeps:
    name = nuplan_tables.token_text(scene)
    source = f"{database.path}: scene {name}"
    rows = rows[::EVERY]
    table = nuplan_tables.numbers(
        [row[1:] for row in rows],
        f"{source}, timestamps and ego poses",
        columns=1 + len(POSE),
    )
    is_small = on_earth(table[:, 1:4]) and (np.abs(table[:, 0]) <= LATEST_US).all()
    if not (np.isfinite(table).all() and is_small):
        raise InputError(
            f"{source}: every sweep must have a timestamp and an ego pose of finite "
            f"numbers, with coordinates of at most {FARTHEST_M:g} m and times of at "
            f"most {LATEST_US:g} us; one does not."
        )
    time_us = table[:, 0].astype(np.int64)
    pose = table[:, 1:]
    if not pose[:, 3:7].any(axis=1).all():
        raise InputError(f"{source}, ego poses: a quaternion must not be all zeros.")
    return Sweeps(
        name,
        tuple(str(route or "").split()),
        tuple(row[0] for row in rows),
        time_us,
        pose,
    )


def _log(sweeps: Sweeps, unit: str, *, lane_map: LaneMap, zero_us: int) -> Log:
    """The ego's part of a log; the caller adds tracks, red lights and the camera."""
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
    """The route (the scenario's own or, if it has none, the driven path's), and the
    position of each step on it.
    """
    if sweeps.route:
        return sweeps.route, route_starts(
            lane_map, sweeps.route, place_m=sweeps.pose[:, :2]
        )
    driven = route_of(lane_map, np.column_stack([sweeps.pose[:, :2], heading_rad]))
    return driven.roadblocks, driven.starts


@dataclass(frozen=True)
class Nuplan(Dataset):
    """The logs (`.db` files) at any depth below a folder.

    Attributes:
        root: The folder of the logs, at any depth. It, a folder in it or one of its
            parents holds `maps`.
        scenarios: Choice of scenarios, see `nuplan_choice`; None takes all scenarios of
            all logs.
    """

    root: Path | str
    scenarios: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return "nuplan"

    @property
    def maps(self) -> Path:
        """The folder of the maps: below the root, or beside the folder that the root is
        in.
        """
        root = Path(self.root)
        folders = [root / "maps", *sorted(reading.find(root, "*/maps"))]
        folders += [parent / "maps" for parent in reading.resolve(root).parents[:3]]
        return next(
            (path for path in folders if sorted(reading.find(path, "*/*/map.gpkg"))),
            folders[0],
        )

    def for_units(self, units: Sequence[str] | None) -> "Nuplan":
        """The data set restricted to chosen scenarios if the names are a choice, as
        `--units sample:60`.
        """
        return (
            replace(self, scenarios=tuple(units))
            if units is not None and is_choice(units)
            else self
        )

    def expand(self, units: Sequence[str]) -> set[str]:
        """The named logs; for a choice of scenarios, all logs that it chooses from."""
        chosen = self.for_units(units) if self.scenarios is None else self
        return (
            set(chosen.unit_ids()) if chosen.scenarios == tuple(units) else set(units)
        )

    def _chosen(self) -> Mapping[str, frozenset[str]] | None:
        if self.scenarios is None:
            return None
        return chosen_scenes(
            reading.resolve(self.root), self.scenarios, self._pictures()
        )

    def logs(self) -> dict[str, Path]:
        """The file of each log, by its name."""
        return logs_below(self.root)

    def files(self, unit: str) -> dict[str, Path]:
        """The log's database and its map."""
        path = self._log_file(unit)
        with open_database(path, what="a nuPlan log") as database:
            database.require({"log": NEEDED["log"]})
            location = _location(database)
        chart = nuplan_tables.map_file(self.maps, location)
        return {
            f"{unit}.db": path,
            f"maps/{location}/{chart.parent.name}/map.gpkg": chart,
        }

    def choice(self, unit: str) -> dict[str, Any]:
        """The chosen scenarios, and a digest of the names of the pictures, since states
        without one are left out.
        """
        chosen, folder = (
            self._chosen(),
            (self._pictures() or Path(self.root)) / unit / CHANNEL,
        )
        names = (
            [path.name for path in reading.entries(folder)]
            if reading.is_folder(folder)
            else []
        )
        return ({} if chosen is None else {"scenes": sorted(chosen[unit])}) | (
            {"pictures": digest_of(names)} if names else {}
        )

    def beside(self, unit: str) -> dict[str, Any]:
        """The part of the log that is read."""
        return self.choice(unit)

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the logs, in order."""
        chosen = self._chosen()
        units = tuple(sorted(self.logs() if chosen is None else chosen))
        if not units:
            raise InputError(
                f"a nuPlan folder must hold logs (.db); found none in {self.root}: "
                "give the right folder."
            )
        return units

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene at the states of all scenarios of one log, and its reference."""
        units = [
            (*unit_of(log), {"image_paths": paths, "unpictured": n})
            for log, paths, n in self.read_drives(unit)
        ]
        return nuplan_tables.join_drives(
            [(replace(scene, **pictures), truth) for scene, truth, pictures in units]
        )

    def read_drives(self, unit: str) -> list[NuplanDrive]:
        """All steps of the scenarios of one log, in time order."""
        chosen = self._chosen()
        scenes = None if chosen is None else chosen.get(unit, frozenset())
        return read_drives(
            self._log_file(unit), self.maps, pictures=self._pictures(), scenes=scenes
        )

    def _log_file(self, unit: str) -> Path:
        paths = self.logs()
        if unit not in paths:
            raise InputError(
                f"a nuPlan log {unit} must lie "
                f"below {self.root}; there is no {unit}.db."
            )
        return paths[unit]

    def _pictures(self) -> Path | None:
        root = Path(self.root)
        below = (
            path
            for depth in ("", "*/", "*/*/")
            for path in sorted(reading.find(root, f"{depth}sensor_blobs"))
        )
        beside = (
            parent / "sensor_blobs" for parent in reading.resolve(root).parents[:2]
        )
        return next(
            (path for path in (*below, *beside) if reading.is_folder(path)), None
        )
