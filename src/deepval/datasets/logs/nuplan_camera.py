"""nuPlan's front camera and its pictures: from a log's database and the folder of sensor data, where they are there.

The camera's measures are small pickles in the database; they are read by `unpickling`, so nothing in them is run. Lens
distortion is not modelled. The road is taken to be the plane of the ego frame.
"""

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.logs.databases import Database
from deepval.datasets.logs.unpickling import unpickled
from deepval.errors import InputError
from deepval.files import reading
from deepval.geometry.camera import Camera, looking_ahead
from deepval.geometry.rotations import transforms

CHANNEL = "CAM_F0"
SIZE_PX = (1920, 1080)
FARTHEST_US = 41_000
"""A sweep has a picture if one was taken at most this much before or after it."""
COLUMNS = ("token", "channel", "translation", "rotation", "intrinsic", "width", "height")
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
"""For a log without cameras: nuPlan's usual focal length, looking straight ahead from behind the windscreen."""


def read_camera(database: Database) -> Camera:
    """The front camera of a log, the nominal one where the log has no cameras."""
    row = _row(database)
    if row is None:
        return NOMINAL
    translation = _numbers(database, row[2], name="translation", shape=(3,))
    rotation = _numbers(database, row[3], name="rotation", shape=(4,))
    k = _numbers(database, row[4], name="intrinsic", shape=(3, 3))
    if not rotation.any():
        raise InputError(f"{database.path}: the rotation of {CHANNEL} must be a quaternion; it is all zeros.")
    width, height = (int(size) if isinstance(size, int | float) and size > 0 else None for size in row[5:7])
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
    """The front picture nearest to each sweep, within `FARTHEST_US`; empty where there is no folder or no picture."""
    row = _row(database)
    if folder is None or row is None or "image" not in database.tables():
        return ()
    database.require({"image": ("camera_token", "filename_jpg", "timestamp")})
    query = "SELECT timestamp, filename_jpg FROM image WHERE camera_token = ? ORDER BY timestamp"
    taken = database.rows(query, (row[0],))
    if not taken:
        return ()
    time_us = np.array([time for time, _ in taken], dtype=np.int64)
    after = np.clip(np.searchsorted(time_us, sweeps_us), 1, max(len(time_us) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(time_us) - 1)
    nearest = np.where(np.abs(time_us[after] - sweeps_us) < np.abs(time_us[before] - sweeps_us), after, before)
    near = np.abs(time_us[nearest] - sweeps_us) <= FARTHEST_US
    found = [
        _below(database, folder, taken[place][1]) if kept else None for place, kept in zip(nearest, near, strict=True)
    ]
    return tuple(path if path is not None and reading.is_file(path) else None for path in found)


def _row(database: Database) -> tuple[Any, ...] | None:
    if "camera" not in database.tables():
        return None
    database.require({"camera": COLUMNS})
    rows = database.rows(f"SELECT {', '.join(COLUMNS)} FROM camera WHERE channel = ?", (CHANNEL,))
    return rows[0] if rows else None


def _numbers(database: Database, content: Any, *, name: str, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    wanted = f"{database.path}: the {name} of {CHANNEL} must be numbers of shape {shape}"
    try:
        told = np.array(unpickled(content) if isinstance(content, bytes) else content, dtype=float)
    except InputError as error:
        raise InputError(f"{wanted}; {error}.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted}; {error}.") from error
    if told.shape != shape or not np.isfinite(told).all():
        raise InputError(f"{wanted}; found {told.shape} or numbers that are not finite.")
    return told


def _below(database: Database, folder: Path, name: Any) -> Path:
    """A picture's file, which must lie in the folder: the database says where, and may be anybody's."""
    told = PurePosixPath(str(name))
    if told.is_absolute() or ".." in told.parts:
        raise InputError(f"{database.path}: pictures must lie below {folder}; found {name!r}.")
    return folder / told
