"""ScenarioNet records (one pickle per scene) -> their checked content and lane maps,
which nuScenes takes too.
"""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.pickles import read_pickle
from deepval.basics.files.reading import check_file_form
from deepval.driving.datasets.logs.log import distinct_m
from deepval.driving.geometry.camera import Camera, looking_ahead
from deepval.driving.world.lanes import Lane, LaneMap

SPEED_LIMIT_MPS = 13.0
"""Speed limit of every lane: the limits in nuScenes records (100 km/h on connectors,
none on lanes) are not real.
"""
CONNECTOR_HALF_WIDTH_M = 2.0
LANE_TYPES = ("LANE_SURFACE_STREET", "LANE_FREEWAY", "LANE_SURFACE_UNSTRUCTURE")
DIVIDERS = {
    "road": "ROAD_LINE_SOLID_SINGLE_YELLOW",
    "lane": "ROAD_LINE_BROKEN_SINGLE_WHITE",
}
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
    1266.0,
    1266.0,
    816.0,
    491.0,
    looking_ahead(1.70, height_m=1.51),
    road_z_m=0.0,
    width_px=1600,
    height_px=900,
)
"""A nominal front camera like nuScenes' CAM_FRONT, looking level; records have no
calibration.
"""


def records_below(root: Path | str) -> dict[str, Path]:
    """The record of each scene, such as scene-0103; its name follows the last
    underscore of the file's name.
    """
    paths: dict[str, Path] = {}
    for path in sorted(reading.find(Path(root), "**/sd_*.pkl")):
        scene = path.stem.rsplit("_", 1)[-1]
        if scene in paths:
            raise InputError(
                "units must have different names; "
                f"{paths[scene]} and {path} are both {scene}."
            )
        paths[scene] = path
    if not paths:
        raise InputError(
            f"a ScenarioNet folder must hold records sd_*.pkl; found none in {root}."
        )
    return dict(sorted(paths.items()))


def read_record(path: Path | str) -> dict[str, Any]:
    """The record of a file, read in a process with limits."""
    record = read_pickle(Path(path))
    return check_file_form(RecordForm, record, path, "a ScenarioNet record")


def lane_map_of(record: dict[str, Any]) -> LaneMap:
    """Lanes of a record in its order, each a roadblock of its own (`rb_` and its id),
    and its crosswalks.

    Drivable areas of a record outline all lanes together, not ground beside them, and
    are left out.
    """
    features = record["map_features"]
    lanes = {
        str(key): _lane(str(key), feature)
        for key, feature in features.items()
        if feature.get("type") in LANE_TYPES
    }
    if not lanes:
        raise InputError(
            f"a record's map must have lanes; {record.get('id', 'this one')} has none."
        )
    crosswalks = tuple(
        _points(key, feature, "polygon")
        for key, feature in features.items()
        if feature.get("type") == "CROSSWALK"
    )
    dividers = {
        kind: tuple(
            _points(key, feature, "polyline")
            for key, feature in features.items()
            if feature.get("type") == line
        )
        for kind, line in DIVIDERS.items()
    }
    return LaneMap(lanes, crosswalks_m=crosswalks, dividers_m=dividers)


def _lane(key: str, feature: dict[str, Any]) -> Lane:
    outline = (
        _points(key, feature, "polygon") if "polygon" in feature else np.zeros((0, 2))
    )
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


def _points(
    key: str, feature: dict[str, Any], part: str
) -> Float[np.ndarray, "point 2"]:
    points = feature.get(part)
    if not (
        isinstance(points, np.ndarray)
        and points.ndim == 2
        and points.shape[1] >= 2
        and points.dtype.kind == "f"
    ):
        raise InputError(
            f"map feature {key}: its {part} must be rows "
            f"of x and y; found {type(points).__name__}."
        )
    return points[:, :2].astype(float)
