"""Argoverse 2 motion-forecasting scenarios and sensor logs -> logs, and the scenes and
truths of their states.

A scenario is a folder with `scenario_*.parquet` and `log_map_archive_*.json`; a sensor
log one with `annotations.feather`, `city_SE3_egovehicle.feather`,
`map/log_map_archive_*.json` and usually `calibration/`. docs/external.md lists their
real and their nominal parts.
"""

import warnings
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.datasets.dataset import FileUnits
from deepval.datasets.logs.log import (
    Log,
    LoggedTrack,
    differences_mps,
    poses_of,
    route_of,
)
from deepval.datasets.logs.states import level, unit_of
from deepval.errors import InputError, InputWarning, reason
from deepval.files import reading
from deepval.files.canonical import read_json
from deepval.files.reading import check_file_form
from deepval.geometry.camera import Camera, looking_ahead
from deepval.geometry.vehicle import FUSION, ground_poses, headings_rad, transforms
from deepval.tables import columns
from deepval.world.lanes import Lane, LaneMap, check_line

DRIVEN = ("VEHICLE", "BUS")
"""Types of lanes that a car may use; bike lanes are left out."""
SPACING_M = 2.0
"""Approximate spacing of points on a centreline computed from the boundaries."""
WHAT = "an Argoverse 2 map"
Id = int | str


class PointForm(TypedDict):
    """A point of a line; its height is not read."""

    x: float
    y: float


class SegmentForm(TypedDict):
    """A lane segment."""

    left_lane_boundary: list[PointForm]
    right_lane_boundary: list[PointForm]
    centerline: NotRequired[list[PointForm] | None]
    successors: list[Id]
    left_neighbor_id: NotRequired[Id | None]
    right_neighbor_id: NotRequired[Id | None]
    is_intersection: bool
    lane_type: str


class AreaForm(TypedDict):
    """A drivable area."""

    area_boundary: list[PointForm]


class CrossingForm(TypedDict):
    """A pedestrian crossing."""

    edge1: list[PointForm]
    edge2: list[PointForm]


class MapForm(TypedDict):
    """The file."""

    lane_segments: dict[str, SegmentForm]
    drivable_areas: NotRequired[dict[str, AreaForm]]
    pedestrian_crossings: NotRequired[dict[str, CrossingForm]]


def read_lane_map(path: Path) -> LaneMap:
    """Lanes for cars, drivable areas and crosswalks of a map file, in its order.

    Neighbours that lead in the same direction are one roadblock; lanes within
    intersections are connectors. The map has no speed limits. Drivable areas cover the
    lanes too.
    """
    content = check_file_form(MapForm, read_json(path, "a map in JSON"), path, WHAT)
    segments: dict[str, Any] = content["lane_segments"]
    try:
        return _lane_map(content, segments)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _lane_map(content: dict[str, Any], segments: dict[str, Any]) -> LaneMap:
    driven = {
        key: segment
        for key, segment in segments.items()
        if segment["lane_type"] in DRIVEN
    }
    if not driven:
        raise InputError("a map must have lanes for vehicles; found none.")
    lines = {key: _centreline_m(key, segment) for key, segment in driven.items()}
    blocks = _roadblocks(driven, lines)
    lanes = {
        key: Lane(
            id=key,
            centreline_m=lines[key],
            roadblock=f"rb_{blocks[key]}",
            polygon_m=np.concatenate(
                [
                    _points(segment["left_lane_boundary"]),
                    _points(segment["right_lane_boundary"])[::-1],
                ]
            ),
            successors=tuple(str(after) for after in segment["successors"]),
            connector=bool(segment["is_intersection"]),
        )
        for key, segment in driven.items()
    }
    crossings = content.get("pedestrian_crossings", {}).values()
    return LaneMap(
        lanes,
        drivable_m=tuple(
            _points(area["area_boundary"])
            for area in content.get("drivable_areas", {}).values()
        ),
        crosswalks_m=tuple(
            np.concatenate(
                [_points(crossing["edge1"]), _points(crossing["edge2"])[::-1]]
            )
            for crossing in crossings
        ),
    )


def middle_m(
    left_m: Float[np.ndarray, "a 2"], right_m: Float[np.ndarray, "b 2"]
) -> Float[np.ndarray, "point 2"]:
    """The line midway between two boundaries: the mean of both at equal shares of their
    lengths.
    """
    length_m = max(_along(left_m)[-1], _along(right_m)[-1])
    share = np.linspace(0.0, 1.0, max(int(np.ceil(length_m / SPACING_M)) + 1, 2))
    return (_at(left_m, share) + _at(right_m, share)) / 2


def _centreline_m(key: str, segment: dict[str, Any]) -> Float[np.ndarray, "point 2"]:
    """The map's own centreline (motion forecasting), or the line midway between the
    boundaries (sensor logs).
    """
    if segment.get("centerline"):
        return _points(segment["centerline"])
    left_m, right_m = (
        _points(segment[f"{side}_lane_boundary"]) for side in ("left", "right")
    )
    for side, line_m in (("left", left_m), ("right", right_m)):
        check_line(line_m, f"lane segment {key}: a {side} boundary")
    return middle_m(left_m, right_m)


def _roadblocks(
    segments: dict[str, dict[str, Any]], lines: dict[str, np.ndarray]
) -> dict[str, str]:
    """For each lane, the first lane in the map's order of its group of neighbours
    (union-find).
    """
    group = {key: key for key in segments}

    def head(key: str) -> str:
        while group[key] != key:
            key = group[key]
        return key

    order = {key: rank for rank, key in enumerate(segments)}
    for key, segment in segments.items():
        for side in ("left_neighbor_id", "right_neighbor_id"):
            beside = str(segment.get(side))
            if (
                beside not in segments
                or segments[beside]["is_intersection"] != segment["is_intersection"]
            ):
                continue
            directions = [line[-1] - line[0] for line in (lines[key], lines[beside])]
            if np.dot(directions[0], directions[1]) > 0:
                first, second = sorted((head(key), head(beside)), key=order.__getitem__)
                group[second] = first
    return {key: head(key) for key in segments}


def _points(rows: list[dict[str, float]]) -> Float[np.ndarray, "point 2"]:
    return np.array([(row["x"], row["y"]) for row in rows], dtype=float).reshape(-1, 2)


def _along(line_m: np.ndarray) -> Float[np.ndarray, "point"]:
    return np.concatenate(
        [[0.0], np.cumsum(np.linalg.norm(np.diff(line_m, axis=0), axis=1))]
    )


def _at(
    line_m: np.ndarray, share: Float[np.ndarray, "point"]
) -> Float[np.ndarray, "point 2"]:
    along = _along(line_m)
    return np.column_stack(
        [np.interp(share * along[-1], along, line_m[:, axis]) for axis in (0, 1)]
    )


EVERY = 5
"""Steps from state to state: half a second at ten a second."""


def drive(unit: str, folder: Path, **parts: Any) -> Log:
    """The log of a drive from its other parts, with the map of its folder and a route
    matched to its poses.
    """
    map_folder = folder / "map" if reading.is_folder(folder / "map") else folder
    lane_map = read_lane_map(one_file(map_folder, "log_map_archive_*.json"))
    pose = parts["world_from_ego"]
    driven = ground_poses(pose)
    route = route_of(lane_map, driven)
    return Log(
        unit=unit,
        vehicle=FUSION,
        lane_map=lane_map,
        route=route.roadblocks,
        route_starts=route.starts,
        states=np.arange(0, len(pose), EVERY),
        **parts,
    )


def one_file(folder: Path, pattern: str) -> Path:
    """The only file of a pattern in a folder; raises unless there is exactly one."""
    paths = sorted(reading.find(folder, pattern))
    if len(paths) != 1:
        raise InputError(f"{folder}: must hold one {pattern}; found {len(paths)}.")
    return paths[0]


def table_columns(
    path: Path,
    *,
    texts: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """Columns of a Parquet or Feather file, each of its declared type.

    Args:
        path: The file.
        texts: Names of the columns that hold text.
        numbers: Names of the columns that hold finite numbers.
        whole: Names of the columns that hold integers.
    """
    names = (*texts, *numbers, *whole)
    table = (
        columns.parquet_table(path, str(path))
        if path.suffix == ".parquet"
        else _feather(path)
    )
    rows = columns.of_arrow(table, str(path), only=names)
    typed = rows.of_types(texts=texts, numbers=numbers, whole=whole)
    empty = [name for name in names if table.column(name).null_count]
    if empty:
        raise InputError(
            f"{path}: every row must have a value of {empty[0]}; some have none."
        )
    for name in numbers:
        odd = np.flatnonzero(~np.isfinite(typed[name]))
        if len(odd):
            location, value = columns.row_name(int(odd[0])), typed[name][odd[0]]
            raise InputError(
                f"{path}: column {name!r} must hold finite "
                f"numbers; {location} holds {value}."
            )
    return typed


def _feather(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import feather

    try:
        return feather.read_table(columns.native(path))
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: must be a Feather table that can be read; {reason(error)}."
        ) from error


def once(step: Int[np.ndarray, "row"], track: str) -> Int[np.ndarray, "row"]:
    """The steps of a track's rows; raises where a step occurs twice."""
    if len(np.unique(step)) != len(step):
        raise InputError(
            f"track {track}: every step must have one row; two "
            "rows are of the same step."
        )
    return step


CAMERA = Camera(
    1686.0,
    1686.0,
    775.0,
    1024.0,
    looking_ahead(1.63, height_m=1.72),
    0.0,
    width_px=1550,
    height_px=2048,
)
"""A nominal camera like ring_front_center, for scenarios, which have no camera, and
logs without calibration.
"""
TEXTS = ("track_id", "object_type")
NUMBERS = (
    "position_x",
    "position_y",
    "heading",
    "velocity_x",
    "velocity_y",
    "start_timestamp",
    "end_timestamp",
)
WHOLE = ("timestep", "num_timestamps")
MOST_STEPS = 100_000
"""Steps of a scenario; a published one has 110."""
SCENARIO_TYPES: dict[str, tuple[str, tuple[float, float, float]]] = {
    "vehicle": ("Car", (4.6, 1.9, 1.53)),
    "bus": ("Bus", (11.2, 2.9, 3.2)),
    "pedestrian": ("Pedestrian", (0.8, 0.8, 1.75)),
    "cyclist": ("Cyclist", (1.8, 0.7, 1.73)),
    "motorcyclist": ("Cyclist", (2.2, 0.8, 1.73)),
    "riderless_bicycle": ("Cyclist", (1.8, 0.7, 1.1)),
    "construction": ("Traffic_cone", (0.4, 0.4, 1.06)),
    "static": ("Barrier", (1.0, 1.0, 1.0)),
    "background": ("Barrier", (1.0, 1.0, 1.0)),
    "unknown": ("Misc", (3.0, 1.5, 1.9)),
}
"""Object type -> class and typical length, width and height (m); the files have no
sizes.
"""


def scenario_log(folder: Path, unit: str) -> Log:
    """A motion-forecasting scenario as a log; the position of track AV is read as its
    rear axle.
    """
    path = one_file(folder, "scenario_*.parquet")
    table = table_columns(path, texts=TEXTS, numbers=NUMBERS, whole=WHOLE)
    if not len(table["track_id"]):
        raise InputError(f"{path}: a scenario must have rows; found none.")
    steps = int(table["num_timestamps"][0])
    seconds = float(table["end_timestamp"][0] - table["start_timestamp"][0]) / 1e9
    if (
        not 2 <= steps <= MOST_STEPS
        or not seconds > 0
        or not 0 <= table["timestep"].min() <= table["timestep"].max() < steps
    ):
        raise InputError(
            f"{path}: timesteps must lie in the scenario's {steps} over {seconds:g} "
            "s; they do not."
        )
    order = list(dict.fromkeys(table["track_id"].tolist()))
    if "AV" not in order:
        raise InputError(
            f"{path}: a scenario must have the track AV of its ego; found none."
        )
    tracks = {
        key: _scenario_track(table, table["track_id"] == key, steps=steps)
        for key in order
    }
    ego = tracks.pop("AV")
    absent = np.flatnonzero(~ego.valid)
    if len(absent):
        raise InputError(
            f"{path}: the ego must be logged at every step; "
            f"it is not at step {absent[0]}."
        )
    pose = np.column_stack([ego.centre_m[:, :2], ego.heading_rad])
    return drive(
        unit,
        folder,
        time_s=np.linspace(0.0, seconds, steps),
        world_from_ego=poses_of(pose),
        speed_mps=np.linalg.norm(ego.velocity_mps, axis=1),
        camera=CAMERA,
        tracks=tuple(tracks.values()),
    )


def _scenario_track(
    table: dict[str, np.ndarray], is_track: Bool[np.ndarray, "row"], *, steps: int
) -> LoggedTrack:
    kind = str(table["object_type"][is_track][0])
    if kind not in SCENARIO_TYPES:
        raise InputError(
            "a scenario's object types "
            f"must be among {', '.join(SCENARIO_TYPES)}; found {kind}."
        )
    cls, size_m = SCENARIO_TYPES[kind]
    step = once(table["timestep"][is_track], str(table["track_id"][is_track][0]))

    def by_step(*names: str) -> Float[np.ndarray, "step column"]:
        values = np.zeros((steps, len(names)))
        values[step] = np.column_stack([table[name][is_track] for name in names])
        return values

    valid = np.zeros(steps, dtype=bool)
    valid[step] = True
    return LoggedTrack(
        id=str(table["track_id"][is_track][0]),
        cls=cls,
        centre_m=np.column_stack(
            [by_step("position_x", "position_y"), np.full(steps, size_m[2] / 2)]
        ),
        heading_rad=by_step("heading")[:, 0],
        size_m=np.tile(np.array(size_m), (steps, 1)),
        velocity_mps=by_step("velocity_x", "velocity_y"),
        valid=valid,
    )


AXLE_M = 0.33
"""Nominal height above the ground of the rear axle, the origin of the data set's
vehicle frame.
"""
FRONT = "ring_front_center"
CATEGORIES: dict[str, str] = {
    **dict.fromkeys(("REGULAR_VEHICLE",), "Car"),
    **dict.fromkeys(
        ("LARGE_VEHICLE", "BOX_TRUCK", "TRUCK", "TRUCK_CAB", "VEHICULAR_TRAILER"),
        "Truck",
    ),
    **dict.fromkeys(("BUS", "SCHOOL_BUS", "ARTICULATED_BUS"), "Bus"),
    **dict.fromkeys(("RAILED_VEHICLE",), "Tram"),
    **dict.fromkeys(
        ("PEDESTRIAN", "OFFICIAL_SIGNALER", "STROLLER", "WHEELCHAIR"), "Pedestrian"
    ),
    **dict.fromkeys(
        (
            "BICYCLIST",
            "BICYCLE",
            "MOTORCYCLIST",
            "MOTORCYCLE",
            "WHEELED_RIDER",
            "WHEELED_DEVICE",
        ),
        "Cyclist",
    ),
    **dict.fromkeys(
        ("CONSTRUCTION_CONE", "CONSTRUCTION_BARREL", "BOLLARD"), "Traffic_cone"
    ),
    **dict.fromkeys(
        ("SIGN", "STOP_SIGN", "MOBILE_PEDESTRIAN_CROSSING_SIGN"), "Barrier"
    ),
    **dict.fromkeys(("MESSAGE_BOARD_TRAILER", "TRAFFIC_LIGHT_TRAILER"), "Barrier"),
    **dict.fromkeys(("DOG", "ANIMAL"), "Misc"),
}
"""Categories of sensor logs -> classes."""
TURN = ("qw", "qx", "qy", "qz")
SHIFT = ("tx_m", "ty_m", "tz_m")
SIZE = ("length_m", "width_m", "height_m")


def sensor_log(folder: Path, unit: str) -> Log:
    """A sensor log as a log: a step per annotated sweep, velocities by differences of
    positions.
    """
    path = folder / "annotations.feather"
    rows = table_columns(
        path,
        texts=("track_uuid", "category"),
        numbers=(*SIZE, *TURN, *SHIFT),
        whole=("timestamp_ns",),
    )
    poses = table_columns(
        folder / "city_SE3_egovehicle.feather",
        numbers=(*TURN, *SHIFT),
        whole=("timestamp_ns",),
    )
    stamps = np.unique(rows["timestamp_ns"])
    if len(stamps) < 2:
        raise InputError(
            f"{path}: a log must have annotations of two "
            f"sweeps or more; found {len(stamps)}."
        )
    row_of = {int(stamp): number for number, stamp in enumerate(poses["timestamp_ns"])}
    without_pose = [int(stamp) for stamp in stamps if int(stamp) not in row_of]
    if without_pose:
        raise InputError(
            f"{path}: every sweep must have an ego "
            f"pose; the one at {without_pose[0]} ns has none."
        )
    city_from_axle = poses_of_rows(poses)[[row_of[int(stamp)] for stamp in stamps]]
    time_s = (stamps - stamps[0]) / 1e9
    ground = np.eye(4)
    ground[2, 3] = -AXLE_M
    along = np.gradient(city_from_axle[:, :2, 3], time_s, axis=0)
    return drive(
        unit,
        folder,
        time_s=time_s,
        world_from_ego=level(city_from_axle @ ground),
        speed_mps=np.maximum(
            (along * level(city_from_axle)[:, :2, 0]).sum(axis=1), 0.0
        ),
        camera=_front_camera(folder / "calibration", unit),
        tracks=_annotated_tracks(
            rows, stamps, city_from_axle=city_from_axle, time_s=time_s, path=path
        ),
    )


def _annotated_tracks(
    rows: dict[str, np.ndarray],
    stamps: np.ndarray,
    *,
    city_from_axle: Float[np.ndarray, "step 4 4"],
    time_s: Float[np.ndarray, "step"],
    path: Path,
) -> tuple[LoggedTrack, ...]:
    unknown = sorted(set(rows["category"].tolist()) - set(CATEGORIES))
    if unknown:
        raise InputError(
            f"{path}: categories must be Argoverse 2's; found {unknown[0]}."
        )
    step = np.searchsorted(stamps, rows["timestamp_ns"])
    city_from_object = city_from_axle[step] @ poses_of_rows(rows)
    heading_rad = headings_rad(city_from_object)
    size_m = np.column_stack([rows[part] for part in SIZE]).astype(float)
    tracks = []
    for key in dict.fromkeys(rows["track_uuid"].tolist()):
        here = np.flatnonzero(rows["track_uuid"] == key)
        once(step[here], str(key))
        centre, size, heading = (
            np.zeros((len(stamps), 3)),
            np.ones((len(stamps), 3)),
            np.zeros(len(stamps)),
        )
        valid = np.zeros(len(stamps), dtype=bool)
        centre[step[here]], size[step[here]] = (
            city_from_object[here, :3, 3],
            size_m[here],
        )
        heading[step[here]], valid[step[here]] = heading_rad[here], True
        tracks.append(
            LoggedTrack(
                id=str(key),
                cls=CATEGORIES[str(rows["category"][here[0]])],
                centre_m=centre,
                heading_rad=heading,
                size_m=size,
                velocity_mps=differences_mps(centre[:, :2], valid, time_s=time_s),
                valid=valid,
            )
        )
    return tuple(tracks)


def _front_camera(folder: Path, unit: str) -> Camera:
    """The calibrated front camera; the nominal one, with a note, for a log without
    calibration.
    """
    if not reading.exists(folder):
        note = (
            f"log {unit} has no folder calibration: a "
            f"nominal camera like {FRONT} stands in."
        )
        warnings.warn(note, InputWarning, stacklevel=2)
        return CAMERA
    names = ("fx_px", "fy_px", "cx_px", "cy_px", "width_px", "height_px")
    inside = table_columns(
        folder / "intrinsics.feather", texts=("sensor_name",), numbers=names
    )
    mounted = table_columns(
        folder / "egovehicle_SE3_sensor.feather",
        texts=("sensor_name",),
        numbers=(*TURN, *SHIFT),
    )
    for table, file in ((inside, "intrinsics"), (mounted, "egovehicle_SE3_sensor")):
        if FRONT not in table["sensor_name"].tolist():
            raise InputError(
                f"{folder / file}.feather: a calibration must have the sensor "
                f"{FRONT}; found none."
            )
    row = inside["sensor_name"].tolist().index(FRONT)
    fx, fy, cx, cy, width, height = (float(inside[name][row]) for name in names)
    ego_from_cam = poses_of_rows(mounted)[mounted["sensor_name"].tolist().index(FRONT)]
    ego_from_cam[2, 3] += AXLE_M
    return Camera(
        fx, fy, cx, cy, ego_from_cam, 0.0, width_px=int(width), height_px=int(height)
    )


def poses_of_rows(table: dict[str, np.ndarray]) -> Float[np.ndarray, "row 4 4"]:
    """Transforms of rows with a quaternion (w first) and a translation."""
    turn, shift = (
        np.column_stack([table[part].astype(float) for part in parts])
        for parts in (TURN, SHIFT)
    )
    return transforms(turn, shift)


class Argoverse2(FileUnits):
    """Argoverse 2 scenarios and sensor logs; a unit is one of them, named as its
    folder.
    """

    called, patterns = "argoverse2", ("scenario_*.parquet", "annotations.feather")
    requirement = (
        "an Argoverse 2 folder must hold scenario_*.parquet or annotations.feather"
    )
    states = staticmethod(unit_of)

    @property
    def paths(self) -> dict[str, Path]:
        """The main file of each unit, by the name of its folder."""
        return reading.files_by_unit(
            self.root,
            self.patterns,
            self.requirement,
            name=lambda path: reading.resolve(path.parent).name,
        )

    def files(self, unit: str) -> dict[str, Path]:
        """All files of a unit."""
        folder = self.path_of(unit).parent
        patterns = (
            "scenario_*.parquet",
            "*.feather",
            "calibration/*.feather",
            "log_map_archive_*.json",
        )
        paths = [
            path
            for pattern in (*patterns, "map/log_map_archive_*.json")
            for path in sorted(reading.find(folder, pattern))
        ]
        return {f"{unit}/{path.relative_to(folder).as_posix()}": path for path in paths}

    def read_log(self, unit: str) -> Log:
        """All steps of a unit."""
        path = self.path_of(unit)
        return (scenario_log if path.suffix == ".parquet" else sensor_log)(
            path.parent, unit
        )
