"""The JSON tables of nuScenes -> columns by scene: keyframes, annotations with
velocity, the front camera.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError, quote
from deepval.basics.files import reading
from deepval.basics.files.canonical import read_json
from deepval.basics.files.reading import check_form
from deepval.driving.datasets.nuscenes_store import (
    LARGE,
    TEXTS,
    Row,
    SceneStore,
    check_record,
    is_large,
    scene_store,
)
from deepval.driving.world.lanes import FARTHEST_M, on_earth

NAMES = tuple(TEXTS)
MOST = 2**53
"""Largest time stamp or count: larger whole numbers are faults, and a float cannot hold
all of them.
"""
LONGEST_S = 1.5
"""Annotations farther apart give no velocity."""
CATEGORIES = {
    "vehicle.car": "car",
    "vehicle.truck": "truck",
    "vehicle.bus.bendy": "bus",
    "vehicle.bus.rigid": "bus",
    "vehicle.trailer": "trailer",
    "vehicle.construction": "construction_vehicle",
    "human.pedestrian.adult": "pedestrian",
    "human.pedestrian.child": "pedestrian",
    "human.pedestrian.construction_worker": "pedestrian",
    "human.pedestrian.police_officer": "pedestrian",
    "vehicle.motorcycle": "motorcycle",
    "vehicle.bicycle": "bicycle",
    "movable_object.trafficcone": "traffic_cone",
    "movable_object.barrier": "barrier",
}
"""The detection benchmark's class of each category; objects of other categories are
left out.
"""

Three = tuple[float, float, float]


class PoseForm(TypedDict):
    """A pose: a quaternion and a translation."""

    rotation: tuple[float, float, float, float]
    translation: Three


class AnnotationForm(PoseForm):
    """An annotated box."""

    size: Three
    num_lidar_pts: int
    num_radar_pts: int


class SampleForm(TypedDict):
    """A keyframe."""

    timestamp: int


class SceneForm(TypedDict):
    """A scene."""

    nbr_samples: int


class IntrinsicForm(TypedDict):
    """A camera's matrix."""

    camera_intrinsic: tuple[Three, Three, Three]


class Keyframes(NamedTuple):
    """Keyframes of a scene in time order, with the ego pose at the LiDAR sweep."""

    token: Shaped[np.ndarray, "time"]
    timestamp_us: Int[np.ndarray, "time"]
    rotation: Float[np.ndarray, "time 4"]
    translation_m: Float[np.ndarray, "time 3"]


class CameraCalibration(NamedTuple):
    """A camera on the vehicle: a row of the table calibrated_sensor."""

    rotation: Sequence[float]
    translation: Sequence[float]
    intrinsic: Sequence[Sequence[float]]


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotated boxes of a scene in the world frame, sorted by keyframe; size is
    length, width, height.

    `velocity_mps` is the difference of the annotations before and after, NaN where
    there is none within 1.5 s; `points` counts LiDAR and radar points; `track` numbers
    the instances of the scene.
    """

    frame: Int[np.ndarray, "obj"]
    track: Int[np.ndarray, "obj"]
    cls: Shaped[np.ndarray, "obj"]
    centre_m: Float[np.ndarray, "obj 3"]
    size_m: Float[np.ndarray, "obj 3"]
    rotation: Float[np.ndarray, "obj 4"]
    velocity_mps: Float[np.ndarray, "obj 3"]
    points: Int[np.ndarray, "obj"]

    def __len__(self) -> int:
        return len(self.frame)

    def where(
        self, keep: Bool[np.ndarray, "obj"] | Int[np.ndarray, "kept"]
    ) -> "Annotations":
        """The annotations marked by `keep`, or with these numbers."""
        return Annotations(
            **{field.name: getattr(self, field.name)[keep] for field in fields(self)}
        )

    def towards(
        self, later: "Annotations", share: Float[np.ndarray, "obj"]
    ) -> "Annotations":
        """The same objects at a share of the time to later annotations; centre,
        rotation and velocity are linear.
        """
        part = share[:, None]
        same_side = np.where(
            (self.rotation * later.rotation).sum(axis=1, keepdims=True) < 0, -1.0, 1.0
        )
        return replace(
            later,
            centre_m=self.centre_m + part * (later.centre_m - self.centre_m),
            rotation=self.rotation
            + part * (same_side * later.rotation - self.rotation),
            velocity_mps=self.velocity_mps
            + part * (later.velocity_mps - self.velocity_mps),
        )


def read_tables(folder: Path) -> "Tables":
    """The tables of a folder; only those sweeps that are keyframes.

    Large tables are read scene by scene.
    """
    large = (
        LARGE
        if all(reading.is_file(folder / f"{name}.json") for name in NAMES)
        and is_large(folder)
        else ()
    )
    rows = {name: _rows(folder / f"{name}.json") for name in NAMES if name not in large}
    store = scene_store(folder, rows) if large and rows["scene"] else None
    return Tables(folder, rows | {name: [] for name in large}, store)


def scene_names(folder: Path) -> set[str]:
    """Names of the scenes in a folder of tables."""
    return {row["name"] for row in _rows(folder / "scene.json")}


def _rows(path: Path) -> list[Any]:
    """Rows of a table (of sample_data, the keyframes), with the text columns
    checked.
    """
    if not reading.is_file(path):
        raise InputError(
            f"nuScenes needs the table {path.stem}; {path} is not there: check the "
            "data set's folder."
        )
    rows = read_json(path, "a table in JSON")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(
            f"the table {path} must be a list of records with tokens; it is not: "
            "repair the file."
        )
    if path.stem == "sample_data":
        rows = [row for row in rows if row.get("is_key_frame")]
    for number, row in enumerate(rows):
        check_record(path, number, row)
    return rows


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a folder, as lists of records; the rows of large tables are in the
    store, by scene.
    """

    folder: Path
    rows: Mapping[str, Sequence[Row]]
    store: SceneStore | None = None

    def of_scene(self, unit: str) -> "Tables":
        """The tables with all rows of a scene."""
        return (
            self
            if self.store is None
            else Tables(self.folder, {**self.rows, **self.store.rows(unit)})
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        """Their files."""
        return tuple(self.folder / f"{name}.json" for name in sorted(NAMES))

    @cached_property
    def scenes(self) -> dict[str, Row]:
        """Scenes by name."""
        return {row["name"]: row for row in self.rows["scene"]}

    @cached_property
    def _by_token(self) -> dict[str, dict[str, Row]]:
        few = (
            "sample",
            "ego_pose",
            "calibrated_sensor",
            "sensor",
            "instance",
            "category",
            "sample_annotation",
            "log",
        )
        return {name: {row["token"]: row for row in self.rows[name]} for name in few}

    def _get(self, table: str, token: str, *, referrer: str) -> Row:
        row = self._by_token[table].get(token)
        if row is None:
            raise InputError(
                f"{self.folder}: tokens must be in their tables; {referrer} names "
                f"{table} {token!r}, which {table}.json does not have: get the whole "
                "set of tables."
            )
        return row

    def _check_numbers(self, table: str, row: Row, form: Any) -> Row:
        """A row of a table, with numbers in the columns of a form."""
        at = f"{self.folder / table}.json: {table} {row['token']}"
        numbers = check_form(form, row, at)
        for name, value in numbers.items():
            if isinstance(value, int) and not abs(value) <= MOST:
                raise InputError(
                    f"{at}.{name} must be at most {MOST}; found {quote(value)}."
                )
        for name in ("translation", "size"):
            if not on_earth(np.array(numbers.get(name, 0.0), float)):
                raise InputError(
                    f"{at}.{name} must hold "
                    f"at most {FARTHEST_M:g} m; found {quote(numbers[name])}."
                )
        if not any(numbers.get("rotation", (1,))):
            raise InputError(f"{at}.rotation must be a quaternion; it is all zeros.")
        return numbers

    @cached_property
    def _sweeps(self) -> dict[tuple[str, str], Row]:
        """Keyframe sweeps by sample and channel."""
        channels = {}
        for row in self.rows["calibrated_sensor"]:
            referrer = f"calibrated_sensor {row['token']}"
            channels[row["token"]] = self._get(
                "sensor", row["sensor_token"], referrer=referrer
            )["channel"]
        sweeps = {}
        for row in self.rows["sample_data"]:
            referrer = f"sample_data {row['token']}"
            self._get(
                "calibrated_sensor", row["calibrated_sensor_token"], referrer=referrer
            )
            sweeps[row["sample_token"], channels[row["calibrated_sensor_token"]]] = row
        return sweeps

    def _tokens(self, unit: str) -> list[str]:
        """Tokens of a scene's keyframes, by following `next`."""
        scene, tokens = self._check_numbers("scene", self.scenes[unit], SceneForm), []
        token, referrer = scene["first_sample_token"], f"scene {unit}"
        while token:
            sample = self._get("sample", token, referrer=referrer)
            if len(tokens) > len(self.rows["sample"]):
                raise InputError(
                    f"{self.folder}: the keyframes of {unit} must "
                    f"end; they run in a circle at {token!r}."
                )
            tokens.append(token)
            token, referrer = sample["next"], f"sample {token}"
        if len(tokens) != scene["nbr_samples"]:
            raise InputError(
                f"{self.folder}: {unit} must have {scene['nbr_samples']} keyframes; "
                f"following them gives {len(tokens)}."
            )
        return tokens

    def _poses(self, sweeps: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
        rows = [
            self._get(
                "ego_pose",
                row["ego_pose_token"],
                referrer=f"sample_data {row['token']}",
            )
            for row in sweeps
        ]
        poses = [self._check_numbers("ego_pose", pose, PoseForm) for pose in rows]
        rotation = np.array([pose["rotation"] for pose in poses], float)
        return rotation, np.array([pose["translation"] for pose in poses], float)

    def samples_of(self, unit: str) -> Keyframes:
        """The keyframes of a scene."""
        tokens = self._tokens(unit)
        sweeps = [self._sweeps.get((token, "LIDAR_TOP")) for token in tokens]
        missing = [
            token for token, sweep in zip(tokens, sweeps, strict=True) if sweep is None
        ]
        if missing:
            raise InputError(
                f"{self.folder}: every keyframe must have a LIDAR_TOP sweep; sample "
                f"{missing[0]!r} of {unit} has none."
            )
        rotation, translation = self._poses(
            [sweep for sweep in sweeps if sweep is not None]
        )
        stamps = np.array(
            [self._stamp(token, f"scene {unit}") for token in tokens], dtype=np.int64
        )
        return Keyframes(np.array(tokens, dtype=str), stamps, rotation, translation)

    def _stamp(self, token: str, referrer: str) -> int:
        return self._check_numbers(
            "sample", self._get("sample", token, referrer=referrer), SampleForm
        )["timestamp"]

    def location_of(self, unit: str) -> str:
        """Where a scene was driven, such as singapore-onenorth."""
        token = self.scenes[unit]["log_token"]
        return self._get("log", token, referrer=f"scene {unit}")["location"]

    def pictures_of(self, unit: str, channel: str) -> list[str | None]:
        """Names of the pictures of a camera, keyframe by keyframe; None where there is
        none.
        """
        rows = [self._sweeps.get((token, channel)) for token in self._tokens(unit)]
        return [None if row is None else row["filename"] for row in rows]

    def camera_of(
        self, unit: str, channel: str
    ) -> tuple[
        CameraCalibration,
        Float[np.ndarray, "time 4"] | None,
        Float[np.ndarray, "time 3"] | None,
    ]:
        """A camera of a scene, with the ego poses at its pictures.

        The poses are None where a keyframe has no picture. Without any picture, the
        calibration is the first of that camera in the tables.
        """
        rows = [self._sweeps.get((token, channel)) for token in self._tokens(unit)]
        taken = [row for row in rows if row is not None]
        if taken:
            sensor = self._by_token["calibrated_sensor"][
                taken[0]["calibrated_sensor_token"]
            ]
        else:
            sensors = {
                row["token"] for row in self.rows["sensor"] if row["channel"] == channel
            }
            sensor = next(
                (
                    row
                    for row in self.rows["calibrated_sensor"]
                    if row["sensor_token"] in sensors
                ),
                None,
            )
        if sensor is None or not sensor.get("camera_intrinsic"):
            raise InputError(
                f"{self.folder}: {unit} must have a calibration of {channel}; the "
                "tables have none."
            )
        mounted = self._check_numbers("calibrated_sensor", sensor, PoseForm)
        intrinsic = self._check_numbers("calibrated_sensor", sensor, IntrinsicForm)[
            "camera_intrinsic"
        ]
        calibration = CameraCalibration(
            mounted["rotation"], mounted["translation"], intrinsic
        )
        rotation, translation = (
            self._poses(taken) if len(taken) == len(rows) else (None, None)
        )
        return calibration, rotation, translation

    @cached_property
    def _annotations_by_sample(self) -> dict[str, list[Row]]:
        """Annotations by sample."""
        by_sample: dict[str, list[Row]] = {}
        for row in self.rows["sample_annotation"]:
            by_sample.setdefault(row["sample_token"], []).append(row)
        return by_sample

    def _class_of(self, row: Row) -> str | None:
        instance = self._get(
            "instance",
            row["instance_token"],
            referrer=f"sample_annotation {row['token']}",
        )
        category = self._get(
            "category",
            instance["category_token"],
            referrer=f"instance {instance['token']}",
        )
        return CATEGORIES.get(category["name"])

    def _velocity_mps(self, row: Row) -> list[float]:
        """(position after - position before) / time between, from the neighbouring
        annotations; NaN if too far.
        """
        referrer = f"sample_annotation {row['token']}"
        ends = [
            self._get("sample_annotation", row[way], referrer=referrer)
            if row[way]
            else row
            for way in ("prev", "next")
        ]
        before, after = ends
        stamps = [self._stamp(end["sample_token"], referrer) for end in ends]
        elapsed_s = (stamps[1] - stamps[0]) / 1e6
        most_s = 2 * LONGEST_S if row["prev"] and row["next"] else LONGEST_S
        if before is after or not 0 < elapsed_s <= most_s:
            return [np.nan] * 3
        positions_m = [
            self._check_numbers("sample_annotation", end, PoseForm)["translation"]
            for end in ends
        ]
        return [(to - of) / elapsed_s for of, to in zip(*positions_m, strict=True)]

    def annotations_of(self, unit: str) -> Annotations:
        """The annotations of a scene whose category has a class in the detection
        benchmark.
        """
        rows: list[tuple[int, str, Row]] = []
        for frame, token in enumerate(self._tokens(unit)):
            for row in self._annotations_by_sample.get(token, ()):
                kind = self._class_of(row)
                if kind is not None:
                    rows.append(
                        (
                            frame,
                            kind,
                            self._check_numbers(
                                "sample_annotation", row, AnnotationForm
                            ),
                        )
                    )
        tracks: dict[str, int] = {}
        for _, _, row in rows:
            tracks.setdefault(row["instance_token"], len(tracks))
        size = np.array([row["size"] for _, _, row in rows], float).reshape(-1, 3)
        return Annotations(
            frame=np.array([frame for frame, _, _ in rows], dtype=int),
            track=np.array(
                [tracks[row["instance_token"]] for _, _, row in rows], dtype=int
            ),
            cls=np.array([kind for _, kind, _ in rows], dtype="<U20"),
            centre_m=np.array(
                [row["translation"] for _, _, row in rows], float
            ).reshape(-1, 3),
            size_m=size[:, [1, 0, 2]],
            rotation=np.array([row["rotation"] for _, _, row in rows], float).reshape(
                -1, 4
            ),
            velocity_mps=np.array(
                [self._velocity_mps(row) for _, _, row in rows], float
            ).reshape(-1, 3),
            points=np.array(
                [row["num_lidar_pts"] + row["num_radar_pts"] for _, _, row in rows],
                dtype=int,
            ),
        )
