"""What both kinds of Argoverse 2 folders share: how their tables are read, and the log that a drive becomes."""

from pathlib import Path
from typing import Any

import numpy as np

from deepval.arrays import Int
from deepval.datasets.logs.argoverse_map import read_lane_map
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.routing import route_of
from deepval.errors import InputError
from deepval.files import reading
from deepval.geometry.rotations import ground_poses
from deepval.geometry.vehicle import FUSION

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


def table_columns(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Columns of a Parquet or Feather file; raises where one is missing or has empty cells."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    try:
        table = parquet.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: must be a table that can be read; {error}.") from error
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise InputError(f"{path}: must have columns {', '.join(names)}; it lacks {missing[0]}.")
    empty = [name for name in names if table.column(name).null_count]
    if empty:
        raise InputError(f"{path}: every row must have a value of {empty[0]}; some have none.")
    return {name: table.column(name).to_numpy() for name in names}


def once(step: Int[np.ndarray, "row"], track: str) -> Int[np.ndarray, "row"]:
    """The steps of a track's rows; raises where one comes twice."""
    if len(np.unique(step)) != len(step):
        raise InputError(f"track {track}: it must be told once a step; found two rows of one step.")
    return step
