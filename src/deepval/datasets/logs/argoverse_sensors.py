"""Argoverse 2 sensor logs (Feather tables of annotations, poses and calibration, and a map) -> logs."""

from pathlib import Path

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.logs.argoverse_tables import drive, once, table_columns
from deepval.datasets.logs.log import Log, LoggedTrack
from deepval.datasets.logs.states import level
from deepval.errors import InputError
from deepval.geometry.camera import Camera
from deepval.geometry.rotations import headings_rad, transforms

AXLE_M = 0.33
"""Nominal height of the rear axle, which is the origin of the data set's vehicle frame, above the ground."""
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
"""Categories of sensor logs."""
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
    place = {int(stamp): number for number, stamp in enumerate(poses["timestamp_ns"])}
    unknown = [int(stamp) for stamp in stamps if int(stamp) not in place]
    if unknown:
        raise InputError(f"{path}: every sweep must have an ego pose; the one at {unknown[0]} ns has none.")
    city_from_axle = poses_of_rows(poses)[[place[int(stamp)] for stamp in stamps]]
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
        camera=_front_camera(folder / "calibration"),
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
    found = []
    for key in dict.fromkeys(rows["track_uuid"].tolist()):
        here = np.flatnonzero(rows["track_uuid"] == key)
        once(step[here], str(key))
        centre, size, heading = np.zeros((len(stamps), 3)), np.ones((len(stamps), 3)), np.zeros(len(stamps))
        valid = np.zeros(len(stamps), dtype=bool)
        centre[step[here]], size[step[here]] = city_from_object[here, :3, 3], size_m[here]
        heading[step[here]], valid[step[here]] = heading_rad[here], True
        found.append(
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
    return tuple(found)


def differences_mps(
    place_m: Float[np.ndarray, "step 2"], valid: Bool[np.ndarray, "step"], *, time_s: Float[np.ndarray, "step"]
) -> Float[np.ndarray, "step 2"]:
    """Velocity from the valid neighbours of a step (one or both sides); 0 where there is none."""
    steps = np.arange(len(valid))
    before = np.where(np.concatenate([[False], valid[:-1]]), steps - 1, steps)
    after = np.where(np.concatenate([valid[1:], [False]]), steps + 1, steps)
    elapsed_s = time_s[after] - time_s[before]
    known = valid & (after > before)
    moved_m = place_m[after] - place_m[before]
    return np.where(known[:, None], moved_m / np.where(known, elapsed_s, 1.0)[:, None], 0.0)


def _front_camera(folder: Path) -> Camera:
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
