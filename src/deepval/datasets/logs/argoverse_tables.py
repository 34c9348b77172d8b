"""Tables and maps of both kinds of Argoverse 2 folders -> columns, lane maps, and the log of a drive."""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.logs.log import Log, route_of
from deepval.errors import InputError, reason
from deepval.files import reading
from deepval.files.canonical import read_json
from deepval.files.reading import check_file_form
from deepval.geometry.vehicle import FUSION, ground_poses
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

    Neighbours that lead in the same direction are one roadblock; lanes within intersections are connectors. The map
    has no speed limits. Drivable areas cover the lanes too.
    """
    content = check_file_form(MapForm, read_json(path, "a map in JSON"), path, WHAT)
    segments: dict[str, Any] = content["lane_segments"]
    try:
        return _lane_map(content, segments)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _lane_map(content: dict[str, Any], segments: dict[str, Any]) -> LaneMap:
    driven = {key: segment for key, segment in segments.items() if segment["lane_type"] in DRIVEN}
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
                [_points(segment["left_lane_boundary"]), _points(segment["right_lane_boundary"])[::-1]]
            ),
            successors=tuple(str(after) for after in segment["successors"]),
            connector=bool(segment["is_intersection"]),
        )
        for key, segment in driven.items()
    }
    crossings = content.get("pedestrian_crossings", {}).values()
    return LaneMap(
        lanes,
        drivable_m=tuple(_points(area["area_boundary"]) for area in content.get("drivable_areas", {}).values()),
        crosswalks_m=tuple(
            np.concatenate([_points(crossing["edge1"]), _points(crossing["edge2"])[::-1]]) for crossing in crossings
        ),
    )


def middle_m(left_m: Float[np.ndarray, "a 2"], right_m: Float[np.ndarray, "b 2"]) -> Float[np.ndarray, "point 2"]:
    """The line midway between two boundaries: the mean of both at equal shares of their lengths."""
    length_m = max(_along(left_m)[-1], _along(right_m)[-1])
    share = np.linspace(0.0, 1.0, max(int(np.ceil(length_m / SPACING_M)) + 1, 2))
    return (_at(left_m, share) + _at(right_m, share)) / 2


def _centreline_m(key: str, segment: dict[str, Any]) -> Float[np.ndarray, "point 2"]:
    """The map's own centreline (motion forecasting), or the line midway between the boundaries (sensor logs)."""
    if segment.get("centerline"):
        return _points(segment["centerline"])
    left_m, right_m = (_points(segment[f"{side}_lane_boundary"]) for side in ("left", "right"))
    for side, line_m in (("left", left_m), ("right", right_m)):
        check_line(line_m, f"lane segment {key}: a {side} boundary")
    return middle_m(left_m, right_m)


def _roadblocks(segments: dict[str, dict[str, Any]], lines: dict[str, np.ndarray]) -> dict[str, str]:
    """For each lane, the first lane in the map's order of its group of neighbours (union-find)."""
    group = {key: key for key in segments}

    def head(key: str) -> str:
        while group[key] != key:
            key = group[key]
        return key

    order = {key: rank for rank, key in enumerate(segments)}
    for key, segment in segments.items():
        for side in ("left_neighbor_id", "right_neighbor_id"):
            beside = str(segment.get(side))
            if beside not in segments or segments[beside]["is_intersection"] != segment["is_intersection"]:
                continue
            directions = [line[-1] - line[0] for line in (lines[key], lines[beside])]
            if np.dot(directions[0], directions[1]) > 0:
                first, second = sorted((head(key), head(beside)), key=order.__getitem__)
                group[second] = first
    return {key: head(key) for key in segments}


def _points(rows: list[dict[str, float]]) -> Float[np.ndarray, "point 2"]:
    return np.array([(row["x"], row["y"]) for row in rows], dtype=float).reshape(-1, 2)


def _along(line_m: np.ndarray) -> Float[np.ndarray, "point"]:
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line_m, axis=0), axis=1))])


def _at(line_m: np.ndarray, share: Float[np.ndarray, "point"]) -> Float[np.ndarray, "point 2"]:
    along = _along(line_m)
    return np.column_stack([np.interp(share * along[-1], along, line_m[:, axis]) for axis in (0, 1)])


EVERY = 5
"""Steps from state to state: half a second at ten a second."""


def drive(unit: str, folder: Path, **parts: Any) -> Log:
    """The log of a drive from its other parts, with the map of its folder and a route matched to its poses."""
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
    path: Path, *, texts: tuple[str, ...] = (), numbers: tuple[str, ...] = (), whole: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """Columns of a Parquet or Feather file, each of its declared type.

    Args:
        path: The file.
        texts: Names of the columns that hold text.
        numbers: Names of the columns that hold finite numbers.
        whole: Names of the columns that hold integers.
    """
    names = (*texts, *numbers, *whole)
    table = columns.parquet_table(path, str(path)) if path.suffix == ".parquet" else _feather(path)
    rows = columns.of_arrow(table, str(path), only=names)
    typed = rows.of_types(texts=texts, numbers=numbers, whole=whole)
    empty = [name for name in names if table.column(name).null_count]
    if empty:
        raise InputError(f"{path}: every row must have a value of {empty[0]}; some have none.")
    for name in numbers:
        odd = np.flatnonzero(~np.isfinite(typed[name]))
        if len(odd):
            location, value = columns.row_name(int(odd[0])), typed[name][odd[0]]
            raise InputError(f"{path}: column {name!r} must hold finite numbers; {location} holds {value}.")
    return typed


def _feather(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import feather

    try:
        return feather.read_table(columns.native(path))
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: must be a Feather table that can be read; {reason(error)}.") from error


def once(step: Int[np.ndarray, "row"], track: str) -> Int[np.ndarray, "row"]:
    """The steps of a track's rows; raises where a step occurs twice."""
    if len(np.unique(step)) != len(step):
        raise InputError(f"track {track}: every step must have one row; two rows are of the same step.")
    return step
