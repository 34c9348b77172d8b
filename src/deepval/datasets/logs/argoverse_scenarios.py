"""Argoverse 2 motion-forecasting scenarios (`scenario_*.parquet` and a map) -> logs."""

from pathlib import Path

import numpy as np

from deepval.arrays import Bool, Float
from deepval.datasets.logs.argoverse_tables import drive, once, one_file, table_columns
from deepval.datasets.logs.log import Log, LoggedTrack, poses_of
from deepval.errors import InputError
from deepval.geometry.camera import Camera, looking_ahead

CAMERA = Camera(1686.0, 1686.0, 775.0, 1024.0, looking_ahead(1.63, height_m=1.72), 0.0, width_px=1550, height_px=2048)
"""A nominal camera like ring_front_center for scenarios, which have none."""
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
"""Class and typical length, width and height of a scenario's object types: the files have no sizes."""


def scenario_log(folder: Path, unit: str) -> Log:
    """A motion-forecasting scenario as a log; the position of track AV is taken for its rear axle."""
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


def _scenario_track(table: dict[str, np.ndarray], here: Bool[np.ndarray, "row"], *, steps: int) -> LoggedTrack:
    kind = str(table["object_type"][here][0])
    if kind not in SCENARIO_TYPES:
        raise InputError(f"a scenario's object types must be among {', '.join(SCENARIO_TYPES)}; found {kind}.")
    cls, size_m = SCENARIO_TYPES[kind]
    step = once(table["timestep"][here], str(table["track_id"][here][0]))

    def told(*names: str) -> Float[np.ndarray, "step column"]:
        filled = np.zeros((steps, len(names)))
        filled[step] = np.column_stack([table[name][here] for name in names])
        return filled

    valid = np.zeros(steps, dtype=bool)
    valid[step] = True
    return LoggedTrack(
        id=str(table["track_id"][here][0]),
        cls=cls,
        centre_m=np.column_stack([told("position_x", "position_y"), np.full(steps, size_m[2] / 2)]),
        heading_rad=told("heading")[:, 0],
        size_m=np.tile(np.array(size_m), (steps, 1)),
        velocity_mps=told("velocity_x", "velocity_y"),
        valid=valid,
    )
