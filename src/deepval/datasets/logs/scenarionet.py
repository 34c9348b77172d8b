"""ScenarioNet records (one pickle per scene) -> lane maps, logs, and the scenes and truths of their keyframes.

docs/external.md lists their real and their nominal parts.
"""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.logs.log import Log, LoggedTrack, distinct_m, poses_of, route_of
from deepval.datasets.logs.states import FileUnits
from deepval.datasets.logs.unpickling import read_pickle
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.reading import check_file_form
from deepval.geometry.camera import Camera, looking_ahead
from deepval.geometry.classes import NUSCENES_CLASSES
from deepval.geometry.vehicle import ZOE, vehicle_like
from deepval.world.lanes import Lane, LaneMap

SPEED_LIMIT_MPS = 13.0
"""Speed limit of every lane: the limits in nuScenes records (100 km/h on connectors, none on lanes) are not real."""
CONNECTOR_HALF_WIDTH_M = 2.0
LANE_TYPES = ("LANE_SURFACE_STREET", "LANE_FREEWAY", "LANE_SURFACE_UNSTRUCTURE")
DIVIDERS = {"road": "ROAD_LINE_SOLID_SINGLE_YELLOW", "lane": "ROAD_LINE_BROKEN_SINGLE_WHITE"}
"""The painted lines that divide roads, and those that divide lanes."""
CONNECTOR = "LANE_SURFACE_UNSTRUCTURE"
Word = int | str
Row = tuple[Word, ...]


class FeatureForm(TypedDict):
    """A part of the map; its lines are arrays, which `_points` checks."""

    type: NotRequired[str | None]
    exit_lanes: NotRequired[Row | None]


class TrackNotes(TypedDict):
    """Metadata of a track."""

    type: NotRequired[str | None]


class TrackForm(TypedDict):
    """A road user; its columns are arrays, which `_track` checks."""

    type: NotRequired[str | None]
    metadata: NotRequired[TrackNotes]
    state: dict[str, Any]


class MetadataForm(TypedDict):
    """Metadata of a record."""

    sdc_id: Word
    dataset: NotRequired[str | None]


class RecordForm(TypedDict):
    """The file."""

    metadata: MetadataForm
    tracks: dict[str, TrackForm]
    map_features: dict[str, FeatureForm]


CAMERA = Camera(
    1266.0, 1266.0, 816.0, 491.0, looking_ahead(1.70, height_m=1.51), road_z_m=0.0, width_px=1600, height_px=900
)
"""A nominal front camera like nuScenes' CAM_FRONT, looking level; records have no calibration."""


def records_below(root: Path | str) -> dict[str, Path]:
    """The record of each scene, such as scene-0103; its name follows the last underscore of the file's name."""
    requirement = "a ScenarioNet folder must hold records sd_*.pkl"
    return reading.files_by_unit(root, ("sd_*.pkl",), requirement, name=lambda path: path.stem.rsplit("_", 1)[-1])


def read_record(path: Path | str) -> dict[str, Any]:
    """The record of a file, read without running anything in it."""
    record = read_pickle(Path(path))
    return check_file_form(RecordForm, record, path, "a ScenarioNet record")


def lane_map_of(record: dict[str, Any]) -> LaneMap:
    """Lanes of a record in its order, each a roadblock of its own (`rb_` and its id), and its crosswalks.

    Drivable areas of a record outline all lanes together, not ground beside them, and are left out.
    """
    features = record["map_features"]
    lanes = {
        str(key): _lane(str(key), feature) for key, feature in features.items() if feature.get("type") in LANE_TYPES
    }
    if not lanes:
        raise InputError(f"a record's map must have lanes; {record.get('id', 'this one')} has none.")
    crosswalks = tuple(
        _points(key, feature, "polygon") for key, feature in features.items() if feature.get("type") == "CROSSWALK"
    )
    dividers = {
        kind: tuple(
            _points(key, feature, "polyline") for key, feature in features.items() if feature.get("type") == line
        )
        for kind, line in DIVIDERS.items()
    }
    return LaneMap(lanes, crosswalks_m=crosswalks, dividers_m=dividers)


def _lane(key: str, feature: dict[str, Any]) -> Lane:
    outline = _points(key, feature, "polygon") if "polygon" in feature else np.zeros((0, 2))
    return Lane(
        id=key,
        centreline_m=distinct_m(_points(key, feature, "polyline")),
        roadblock=f"rb_{key}",
        polygon_m=outline,
        half_width_m=CONNECTOR_HALF_WIDTH_M,
        successors=tuple(str(lane) for lane in feature.get("exit_lanes") or ()),
        speed_limit_mps=SPEED_LIMIT_MPS,
        connector=feature["type"] == CONNECTOR,
    )


def _points(key: str, feature: dict[str, Any], part: str) -> Float[np.ndarray, "point 2"]:
    points = feature.get(part)
    if not (isinstance(points, np.ndarray) and points.ndim == 2 and points.shape[1] >= 2 and points.dtype.kind == "f"):
        raise InputError(f"map feature {key}: its {part} must be rows of x and y; found {type(points).__name__}.")
    return points[:, :2].astype(float)


KEYFRAME = 5
"""Steps from keyframe to keyframe; the steps between are interpolated."""
TYPES: dict[str, str] = {
    "VEHICLE": "Car",
    "PEDESTRIAN": "Pedestrian",
    "CYCLIST": "Cyclist",
    "TRAFFIC_CONE": "Traffic_cone",
    "TRAFFIC_BARRIER": "Barrier",
    "TRAFFIC_OBJECT": "Misc",
    "OTHER": "Misc",
    "UNSET": "Misc",
}
CATEGORIES: dict[str, str] = {
    "vehicle.car": "car",
    "vehicle.truck": "truck",
    "vehicle.trailer": "trailer",
    "vehicle.bus": "bus",
    "vehicle.construction": "construction_vehicle",
    "vehicle.motorcycle": "motorcycle",
    "vehicle.bicycle": "bicycle",
    "human.pedestrian": "pedestrian",
    "movable_object.trafficcone": "traffic_cone",
    "movable_object.barrier": "barrier",
}
"""nuScenes categories or their first words -> names of the detection benchmark."""


def log_of(record: dict[str, Any], unit: str) -> Log:
    """A record as a log: all tracks but the ego in the record's order, a matched route, a state at each keyframe."""
    time_s = _times(record, unit)
    ego = _track(record, unit, _ego_id(record, unit), steps=len(time_s))
    absent = np.flatnonzero(~ego.valid)
    if len(absent):
        raise InputError(f"unit {unit}: the ego must be logged at every step; it is not at step {absent[0]}.")
    nuscenes = (record["metadata"].get("dataset") or "").startswith("nuscenes")
    length_m, width_m = float(ego.size_m[0, 0]), float(ego.size_m[0, 1])
    vehicle = ZOE if nuscenes else vehicle_like(length_m, width_m)
    pose = np.column_stack([ego.centre_m[:, :2], ego.heading_rad])
    if not nuscenes:
        pose[:, :2] -= vehicle.centre_m * np.column_stack([np.cos(pose[:, 2]), np.sin(pose[:, 2])])
    lane_map = lane_map_of(record)
    route = route_of(lane_map, pose)
    return Log(
        unit=unit,
        time_s=time_s,
        world_from_ego=poses_of(pose, height_m=ego.centre_m[:, 2] if nuscenes else None),
        speed_mps=np.linalg.norm(ego.velocity_mps, axis=1),
        vehicle=vehicle,
        camera=CAMERA,
        tracks=tuple(
            _track(record, unit, key, steps=len(time_s)) for key in record["tracks"] if key != _ego_id(record, unit)
        ),
        lane_map=lane_map,
        route=route.roadblocks,
        route_starts=route.starts,
        states=np.arange(0, len(time_s), KEYFRAME),
    )


def _ego_id(record: dict[str, Any], unit: str) -> str:
    ego = record["metadata"].get("sdc_id")
    if ego not in record["tracks"]:
        raise InputError(f"unit {unit}: a record must have the track of its ego (sdc_id); there is no track {ego!r}.")
    return ego


def _times(record: dict[str, Any], unit: str) -> Float[np.ndarray, "step"]:
    stamps = record["metadata"].get("ts")
    if not (isinstance(stamps, np.ndarray) and stamps.ndim == 1 and stamps.dtype.kind in "fiu" and len(stamps)):
        raise InputError(f"unit {unit}: a record must have a time stamp per step (metadata ts); found none.")
    return stamps.astype(float)


def _class(track: dict[str, Any]) -> str:
    category = track.get("metadata", {}).get("type") or ""
    name = next(
        (benchmark_name for begins, benchmark_name in CATEGORIES.items() if f"{category}.".startswith(f"{begins}.")),
        None,
    )
    if name is not None:
        return NUSCENES_CLASSES[name]
    if track.get("type") not in TYPES:
        raise InputError(f"a track's type must be one of {', '.join(TYPES)}; found {track.get('type')!r}.")
    return TYPES[track["type"]]


def _track(record: dict[str, Any], unit: str, key: str, *, steps: int) -> LoggedTrack:
    track = record["tracks"][key]
    state = track.get("state", {})

    def column(part: str, width: int) -> Float[np.ndarray, "step width"]:
        values = state.get(part)
        if not (isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim in (1, 2)):
            raise InputError(f"unit {unit}: track {key} must have numbers as {part}; found none.")
        if len(values) != steps:
            raise InputError(
                f"unit {unit}: track {key} must have {steps} rows of {part}, one per step; found {len(values)}."
            )
        rows = values.reshape(steps, -1).astype(float)
        if rows.shape[1] < width:
            raise InputError(f"unit {unit}: track {key} must have {width} numbers a step as {part}.")
        return rows[:, :width]

    valid: Bool[np.ndarray, "step"] = column("valid", 1)[:, 0] > 0
    return LoggedTrack(
        id=str(key),
        cls=_class(track),
        centre_m=column("position", 3),
        heading_rad=column("heading", 1)[:, 0],
        size_m=np.column_stack([column(part, 1) for part in ("length", "width", "height")]),
        velocity_mps=column("velocity", 2),
        valid=valid,
    )


class ScenarioNet(FileUnits):
    """The records `sd_*.pkl` at any depth below a folder; a unit is a scene."""

    called = "scenarionet"
    content, log = staticmethod(read_record), staticmethod(log_of)

    @property
    def paths(self) -> dict[str, Path]:
        """The record of each scene."""
        return records_below(self.root)
