"""Argoverse 2 motion-forecasting scenarios and sensor logs -> logs, and the scenes and truths of their states.

A scenario is a folder with `scenario_*.parquet` and `log_map_archive_*.json`; a sensor log one with
`annotations.feather`, `city_SE3_egovehicle.feather`, `map/log_map_archive_*.json` and usually `calibration/`.
docs/external.md lists their real and their nominal parts.
"""

import warnings
from pathlib import Path

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.dataset import FileUnits
from deepval.datasets.logs.argoverse_tables import drive, once, one_file, table_columns
from deepval.datasets.logs.log import Log, LoggedTrack, differences_mps, poses_of
from deepval.datasets.logs.states import level, unit_of
from deepval.errors import InputError, InputWarning
from deepval.files import reading
from deepval.geometry.camera import Camera, looking_ahead
from deepval.geometry.vehicle import headings_rad, transforms
from deepval.world.scene import Scene
from deepval.world.truth import Truth

CAMERA = Camera(1686.0, 1686.0, 775.0, 1024.0, looking_ahead(1.63, height_m=1.72), 0.0, width_px=1550, height_px=2048)
"""A nominal camera like ring_front_center, for scenarios, which have no camera, and logs without calibration."""
TEXTS = ("track_id", "object_type")
NUMBERS = ("position_x", "position_y", "heading", "velocity_x", "velocity_y", "start_timestamp", "end_timestamp")
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
"""Object type -> class and typical length, width and height (m); the files have no sizes."""


def scenario_log(folder: Path, unit: str) -> Log:
    """A motion-forecasting scenario as a log; the position of track AV is read as its rear axle."""
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
        raise InputError(f"{path}: timesteps must lie in the scenario's {steps} over {seconds:g} s; they do not.")
    order = list(dict.fromkeys(table["track_id"].tolist()))
    if "AV" not in order:
        raise InputError(f"{path}: a scenario must have the track AV of its ego; found none.")
    tracks = {key: _scenario_track(table, table["track_id"] == key, steps=steps) for key in order}
    ego = tracks.pop("AV")
    absent = np.flatnonzero(~ego.valid)
    if len(absent):
        raise InputError(f"{path}: the ego must be logged at every step; it is not at step {absent[0]}.")
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


def _scenario_track(table: dict[str, np.ndarray], is_track: Bool[np.ndarray, "row"], *, steps: int) -> LoggedTrack:
    kind = str(table["object_type"][is_track][0])
    if kind not in SCENARIO_TYPES:
        raise InputError(f"a scenario's object types must be among {', '.join(SCENARIO_TYPES)}; found {kind}.")
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
        centre_m=np.column_stack([by_step("position_x", "position_y"), np.full(steps, size_m[2] / 2)]),
        heading_rad=by_step("heading")[:, 0],
        size_m=np.tile(np.array(size_m), (steps, 1)),
        velocity_mps=by_step("velocity_x", "velocity_y"),
        valid=valid,
    )


AXLE_M = 0.33
"""Nominal height above the ground of the rear axle, the origin of the data set's vehicle frame."""
FRONT = "ring_front_center"
CATEGORIES: dict[str, str] = {
    **dict.fromkeys(("REGULAR_VEHICLE",), "Car"),
    **dict.fromkeys(("LARGE_VEHICLE", "BOX_TRUCK", "TRUCK", "TRUCK_CAB", "VEHICULAR_TRAILER"), "Truck"),
    **dict.fromkeys(("BUS", "SCHOOL_BUS", "ARTICULATED_BUS"), "Bus"),
    **dict.fromkeys(("RAILED_VEHICLE",), "Tram"),
    **dict.fromkeys(("PEDESTRIAN", "OFFICIAL_SIGNALER", "STROLLER", "WHEELCHAIR"), "Pedestrian"),
    **dict.fromkeys(
        ("BICYCLIST", "BICYCLE", "MOTORCYCLIST", "MOTORCYCLE", "WHEELED_RIDER", "WHEELED_DEVICE"), "Cyclist"
    ),
    **dict.fromkeys(("CONSTRUCTION_CONE", "CONSTRUCTION_BARREL", "BOLLARD"), "Traffic_cone"),
    **dict.fromkeys(("SIGN", "STOP_SIGN", "MOBILE_PEDESTRIAN_CROSSING_SIGN"), "Barrier"),
    **dict.fromkeys(("MESSAGE_BOARD_TRAILER", "TRAFFIC_LIGHT_TRAILER"), "Barrier"),
    **dict.fromkeys(("DOG", "ANIMAL"), "Misc"),
}
"""Categories of sensor logs -> classes."""
TURN = ("qw", "qx", "qy", "qz")
SHIFT = ("tx_m", "ty_m", "tz_m")
SIZE = ("length_m", "width_m", "height_m")


def sensor_log(folder: Path, unit: str) -> Log:
    """A sensor log as a log: a step per annotated sweep, velocities by differences of positions."""
    path = folder / "annotations.feather"
    rows = table_columns(
        path, texts=("track_uuid", "category"), numbers=(*SIZE, *TURN, *SHIFT), whole=("timestamp_ns",)
    )
    poses = table_columns(folder / "city_SE3_egovehicle.feather", numbers=(*TURN, *SHIFT), whole=("timestamp_ns",))
    stamps = np.unique(rows["timestamp_ns"])
    if len(stamps) < 2:
        raise InputError(f"{path}: a log must have annotations of two sweeps or more; found {len(stamps)}.")
    row_of = {int(stamp): number for number, stamp in enumerate(poses["timestamp_ns"])}
    without_pose = [int(stamp) for stamp in stamps if int(stamp) not in row_of]
    if without_pose:
        raise InputError(f"{path}: every sweep must have an ego pose; the one at {without_pose[0]} ns has none.")
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
        speed_mps=np.maximum((along * level(city_from_axle)[:, :2, 0]).sum(axis=1), 0.0),
        camera=_front_camera(folder / "calibration", unit),
        tracks=_annotated_tracks(rows, stamps, city_from_axle=city_from_axle, time_s=time_s, path=path),
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
        raise InputError(f"{path}: categories must be Argoverse 2's; found {unknown[0]}.")
    step = np.searchsorted(stamps, rows["timestamp_ns"])
    city_from_object = city_from_axle[step] @ poses_of_rows(rows)
    heading_rad = headings_rad(city_from_object)
    size_m = np.column_stack([rows[part] for part in SIZE]).astype(float)
    tracks = []
    for key in dict.fromkeys(rows["track_uuid"].tolist()):
        here = np.flatnonzero(rows["track_uuid"] == key)
        once(step[here], str(key))
        centre, size, heading = np.zeros((len(stamps), 3)), np.ones((len(stamps), 3)), np.zeros(len(stamps))
        valid = np.zeros(len(stamps), dtype=bool)
        centre[step[here]], size[step[here]] = city_from_object[here, :3, 3], size_m[here]
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
    """The calibrated front camera; the nominal one, with a note, for a log without calibration."""
    if not reading.exists(folder):
        note = f"log {unit} has no folder calibration: a nominal camera like {FRONT} stands in."
        warnings.warn(note, InputWarning, stacklevel=2)
        return CAMERA
    names = ("fx_px", "fy_px", "cx_px", "cy_px", "width_px", "height_px")
    inside = table_columns(folder / "intrinsics.feather", texts=("sensor_name",), numbers=names)
    mounted = table_columns(folder / "egovehicle_SE3_sensor.feather", texts=("sensor_name",), numbers=(*TURN, *SHIFT))
    for table, file in ((inside, "intrinsics"), (mounted, "egovehicle_SE3_sensor")):
        if FRONT not in table["sensor_name"].tolist():
            raise InputError(f"{folder / file}.feather: a calibration must have the sensor {FRONT}; found none.")
    row = inside["sensor_name"].tolist().index(FRONT)
    fx, fy, cx, cy, width, height = (float(inside[name][row]) for name in names)
    ego_from_cam = poses_of_rows(mounted)[mounted["sensor_name"].tolist().index(FRONT)]
    ego_from_cam[2, 3] += AXLE_M
    return Camera(fx, fy, cx, cy, ego_from_cam, 0.0, width_px=int(width), height_px=int(height))


def poses_of_rows(table: dict[str, np.ndarray]) -> Float[np.ndarray, "row 4 4"]:
    """Transforms of rows with a quaternion (w first) and a translation."""
    turn, shift = (np.column_stack([table[part].astype(float) for part in parts]) for parts in (TURN, SHIFT))
    return transforms(turn, shift)


class Argoverse2(FileUnits):
    """Argoverse 2 scenarios and sensor logs; a unit is one of them, named as its folder."""

    called, patterns = "argoverse2", ("scenario_*.parquet", "annotations.feather")
    requirement = "an Argoverse 2 folder must hold scenario_*.parquet or annotations.feather"

    @property
    def paths(self) -> dict[str, Path]:
        """The main file of each unit, by the name of its folder."""
        return reading.files_by_unit(
            self.root, self.patterns, self.requirement, name=lambda path: reading.resolve(path.parent).name
        )

    def files(self, unit: str) -> dict[str, Path]:
        """All files of a unit."""
        folder = self.path_of(unit).parent
        patterns = ("scenario_*.parquet", "*.feather", "calibration/*.feather", "log_map_archive_*.json")
        paths = [
            path
            for pattern in (*patterns, "map/log_map_archive_*.json")
            for path in sorted(reading.find(folder, pattern))
        ]
        return {f"{unit}/{path.relative_to(folder).as_posix()}": path for path in paths}

    def read_log(self, unit: str) -> Log:
        """All steps of a unit."""
        path = self.path_of(unit)
        return (scenario_log if path.suffix == ".parquet" else sensor_log)(path.parent, unit)

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """The scene at the states of a unit, and its reference."""
        return unit_of(self.read_log(unit))
