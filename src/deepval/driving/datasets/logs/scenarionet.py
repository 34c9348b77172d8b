"""ScenarioNet records -> logs, and the scenes and truths of their keyframes, a scene as
a unit.

docs/external.md lists their real and their nominal parts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError
from deepval.driving.datasets.dataset import Dataset
from deepval.driving.datasets.logs.log import Log, LoggedTrack, poses_of, route_of
from deepval.driving.datasets.logs.scenarionet_records import (
    CAMERA,
    lane_map_of,
    read_record,
    records_below,
)
from deepval.driving.datasets.logs.states import unit_of
from deepval.driving.geometry.classes import NUSCENES_CLASSES
from deepval.driving.geometry.vehicle import ZOE, vehicle_like
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

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
    """A record as a log: all tracks but the ego in the record's order, a matched route,
    a state at each keyframe.
    """
    time_s = _times(record, unit)
    ego = _track(record, unit, _ego_id(record, unit), steps=len(time_s))
    absent = np.flatnonzero(~ego.valid)
    if len(absent):
        raise InputError(
            f"unit {unit}: the ego must be logged at every step; "
            f"it is not at step {absent[0]}."
        )
    nuscenes = (record["metadata"].get("dataset") or "").startswith("nuscenes")
    length_m, width_m = float(ego.size_m[0, 0]), float(ego.size_m[0, 1])
    vehicle = ZOE if nuscenes else vehicle_like(length_m, width_m)
    pose = np.column_stack([ego.centre_m[:, :2], ego.heading_rad])
    if not nuscenes:
        pose[:, :2] -= vehicle.centre_m * np.column_stack(
            [np.cos(pose[:, 2]), np.sin(pose[:, 2])]
        )
    lane_map = lane_map_of(record)
    route = route_of(lane_map, pose)
    return Log(
        unit=unit,
        time_s=time_s,
        world_from_ego=poses_of(
            pose, height_m=ego.centre_m[:, 2] if nuscenes else None
        ),
        speed_mps=np.linalg.norm(ego.velocity_mps, axis=1),
        vehicle=vehicle,
        camera=CAMERA,
        tracks=tuple(
            _track(record, unit, key, steps=len(time_s))
            for key in record["tracks"]
            if key != _ego_id(record, unit)
        ),
        lane_map=lane_map,
        route=route.roadblocks,
        route_starts=route.starts,
        states=np.arange(0, len(time_s), KEYFRAME),
    )


def _ego_id(record: dict[str, Any], unit: str) -> str:
    ego = record["metadata"].get("sdc_id")
    if ego not in record["tracks"]:
        raise InputError(
            f"unit {unit}: a record must have the track of its ego "
            f"(sdc_id); there is no track {ego!r}."
        )
    return ego


def _times(record: dict[str, Any], unit: str) -> Float[np.ndarray, "step"]:
    stamps = record["metadata"].get("ts")
    if not (
        isinstance(stamps, np.ndarray)
        and stamps.ndim == 1
        and stamps.dtype.kind in "fiu"
        and len(stamps)
    ):
        raise InputError(
            f"unit {unit}: a record must have a time stamp per "
            "step (metadata ts); found none."
        )
    return stamps.astype(float)


def _class(track: dict[str, Any]) -> str:
    category = track.get("metadata", {}).get("type") or ""
    name = next(
        (
            benchmark_name
            for begins, benchmark_name in CATEGORIES.items()
            if f"{category}.".startswith(f"{begins}.")
        ),
        None,
    )
    if name is not None:
        return NUSCENES_CLASSES[name]
    if track.get("type") not in TYPES:
        raise InputError(
            "a track's type must "
            f"be one of {', '.join(TYPES)}; found {track.get('type')!r}."
        )
    return TYPES[track["type"]]


def _track(record: dict[str, Any], unit: str, key: str, *, steps: int) -> LoggedTrack:
    track = record["tracks"][key]
    state = track.get("state", {})

    def column(part: str, width: int) -> Float[np.ndarray, "step width"]:
        values = state.get(part)
        if not (
            isinstance(values, np.ndarray)
            and values.dtype.kind in "biuf"
            and values.ndim in (1, 2)
        ):
            raise InputError(
                f"unit {unit}: track {key} must have numbers as {part}; found none."
            )
        if len(values) != steps:
            raise InputError(
                f"unit {unit}: track {key} must have {steps} rows of {part}, one per "
                f"step; found {len(values)}."
            )
        rows = values.reshape(steps, -1).astype(float)
        if rows.shape[1] < width:
            raise InputError(
                f"unit {unit}: track {key} must have {width} numbers a step as {part}."
            )
        return rows[:, :width]

    valid: Bool[np.ndarray, "step"] = column("valid", 1)[:, 0] > 0
    return LoggedTrack(
        id=str(key),
        cls=_class(track),
        centre_m=column("position", 3),
        heading_rad=column("heading", 1)[:, 0],
        size_m=np.column_stack(
            [column(part, 1) for part in ("length", "width", "height")]
        ),
        velocity_mps=column("velocity", 2),
        valid=valid,
    )


@dataclass(frozen=True)
class ScenarioNet(Dataset):
    """The records `sd_*.pkl` at any depth below a folder; a unit is a scene.

    Attributes:
        root: The folder.
    """

    root: Path | str

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return "scenarionet"

    @property
    def paths(self) -> dict[str, Path]:
        """The record of each scene."""
        return records_below(self.root)

    def path_of(self, unit: str) -> Path:
        """The file of a scene; raises if the scene is unknown."""
        return self.paths[self.select([unit])[0]]

    def files(self, unit: str) -> dict[str, Path]:
        """The record of a scene."""
        path = self.path_of(unit)
        return {path.name: path}

    def beside(self, unit: str) -> dict[str, Any]:
        """Nothing: a scene depends on its record only."""
        return {}

    def unit_ids(self) -> tuple[str, ...]:
        """Names of the scenes, in order."""
        return tuple(self.paths)

    def read_log(self, unit: str) -> Log:
        """All steps of a scene."""
        path = self.path_of(unit)
        record = read_record(path)
        try:
            return log_of(record, unit)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene at the keyframes of a record, and its reference."""
        return unit_of(self.read_log(unit))
