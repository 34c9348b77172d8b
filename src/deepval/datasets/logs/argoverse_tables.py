"""What both kinds of Argoverse 2 folders share: how their tables are read, and the log that a drive becomes."""

from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Int
from deepval.datasets.logs.argoverse_map import read_lane_map
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.routing import route_of
from deepval.errors import InputError, reason
from deepval.files import reading
from deepval.geometry.rotations import ground_poses
from deepval.geometry.vehicle import FUSION
from deepval.tables import columns

EVERY = 5
"""Steps from state to state: half a second at ten a second."""


def drive(unit: str, folder: Path, **told: Any) -> Log:
    """The log of a drive, with the map of its folder and the route matched to it."""
    map_folder = folder / "map" if reading.is_folder(folder / "map") else folder
    lane_map = read_lane_map(one_file(map_folder, "log_map_archive_*.json"))
    pose = told["world_from_ego"]
    driven = ground_poses(pose)
    route = route_of(lane_map, driven)
    return Log(
        unit=unit,
        vehicle=FUSION,
        lane_map=lane_map,
        route=route.roadblocks,
        route_starts=route.starts,
        states=np.arange(0, len(pose), EVERY),
        **told,
    )


def one_file(folder: Path, pattern: str) -> Path:
    """The one file of that pattern in a folder."""
    found = sorted(reading.matching(folder, pattern))
    if len(found) != 1:
        raise InputError(f"{folder}: must hold one {pattern}; found {len(found)}.")
    return found[0]


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
    typed = rows.typed(texts=texts, numbers=numbers, whole=whole)
    empty = [name for name in names if table.column(name).null_count]
    if empty:
        raise InputError(f"{path}: every row must have a value of {empty[0]}; some have none.")
    for name in numbers:
        odd = np.flatnonzero(~np.isfinite(typed[name]))
        if len(odd):
            where, value = columns.place(int(odd[0])), typed[name][odd[0]]
            raise InputError(f"{path}: column {name!r} must hold finite numbers; {where} holds {value}.")
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
    """The steps of a track's rows; raises where one comes twice."""
    if len(np.unique(step)) != len(step):
        raise InputError(f"track {track}: every step must have one row; two rows are of the same step.")
    return step
