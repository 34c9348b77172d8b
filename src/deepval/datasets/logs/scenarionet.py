"""ScenarioNet records (one pickle per scene) -> the record as plain dicts and arrays, and its lane map."""

from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.datasets.logs.unpickling import read_pickle
from deepval.errors import InputError
from deepval.world.lanes import Lane, LaneMap

SPEED_LIMIT_MPS = 13.0
"""On every lane: what nuScenes records carry (100 km/h on connectors, nothing on lanes) is made up."""
CONNECTOR_HALF_WIDTH_M = 2.0
SAME_M = 1e-3
"""A vertex nearer than this to the one before it is the same place."""
LANE_TYPES = ("LANE_SURFACE_STREET", "LANE_FREEWAY", "LANE_SURFACE_UNSTRUCTURE")
CONNECTOR = "LANE_SURFACE_UNSTRUCTURE"
PARTS = ("metadata", "tracks", "map_features")


def read_record(path: Path | str) -> dict[str, Any]:
    """The record of a file, read without running anything in it."""
    record = read_pickle(Path(path))
    missing = [part for part in PARTS if not (isinstance(record, dict) and isinstance(record.get(part), dict))]
    if missing:
        raise InputError(f"{path}: a ScenarioNet record must hold {', '.join(PARTS)}; found no {missing[0]}.")
    return record


def lane_map_of(record: dict[str, Any]) -> LaneMap:
    """Lanes of a record in its order, each a roadblock of its own (`rb_` and its id), and its crosswalks.

    Drivable areas of a record are lines around all lanes together, not ground beside them, and are left out.
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
    return LaneMap(lanes, crosswalks_m=crosswalks)


def distinct_m(line_m: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "kept 2"]:
    """A line without the points that are where the one before them is."""
    kept = [0] if len(line_m) else []
    for place in range(1, len(line_m)):
        if np.linalg.norm(line_m[place] - line_m[kept[-1]]) >= SAME_M:
            kept.append(place)
    return line_m[kept]


def _lane(key: str, feature: dict[str, Any]) -> Lane:
    outline = _points(key, feature, "polygon") if "polygon" in feature else np.zeros((0, 2))
    return Lane(
        id=key,
        centreline_m=distinct_m(_points(key, feature, "polyline")),
        roadblock=f"rb_{key}",
        polygon_m=outline,
        half_width_m=CONNECTOR_HALF_WIDTH_M,
        successors=tuple(str(lane) for lane in feature.get("exit_lanes", ())),
        speed_limit_mps=SPEED_LIMIT_MPS,
        connector=feature["type"] == CONNECTOR,
    )


def _points(key: str, feature: dict[str, Any], part: str) -> Float[np.ndarray, "point 2"]:
    points = feature.get(part)
    if not (isinstance(points, np.ndarray) and points.ndim == 2 and points.shape[1] >= 2 and points.dtype.kind == "f"):
        raise InputError(f"map feature {key}: its {part} must be rows of x and y; found {type(points).__name__}.")
    return points[:, :2].astype(float)
