"""Boxes and traffic lights of a nuPlan log -> the tracks and the shut lanes of some of its sweeps.

Each table is gone through once, since a log may have no index for anything else.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.logs.databases import Database
from deepval.datasets.logs.log import LoggedTrack
from deepval.errors import InputError

CLASSES = {
    "vehicle": "Car",
    "bicycle": "Cyclist",
    "pedestrian": "Pedestrian",
    "traffic_cone": "Traffic_cone",
    "barrier": "Barrier",
    "czone_sign": "Static",
    "generic_object": "Static",
}
STANDING = ("Traffic_cone", "Barrier", "Static")
BOX = ("x", "y", "z", "length", "width", "height", "yaw", "vx", "vy")
TABLES = {
    "lidar_box": ("lidar_pc_token", "track_token", *BOX),
    "track": ("token", "category_token"),
    "category": ("token", "name"),
    "traffic_light_status": ("lidar_pc_token", "lane_connector_id", "status"),
}


class SweepBoxes(NamedTuple):
    """The boxes of sweeps, in time order: number of the sweep, number in `names` and `categories`, columns of `BOX`."""

    sweep: Int[np.ndarray, "box"]
    track: Int[np.ndarray, "box"]
    values: Float[np.ndarray, "box 9"]
    names: tuple[str, ...]
    categories: tuple[Any, ...]
    told: str

    def tracks(self, sweeps: slice) -> tuple[LoggedTrack, ...]:
        """All tracks of some sweeps that follow each other, in the order in which they are first seen."""
        here = slice(*np.searchsorted(self.sweep, [sweeps.start, sweeps.stop]))
        track, step, values = self.track[here], self.sweep[here] - sweeps.start, self.values[here]
        known, first = np.unique(track, return_index=True)
        by_track = np.argsort(track, kind="stable")
        # Of no boxes at all, NumPy makes one empty part, which is of no track.
        parts = np.split(by_track, np.searchsorted(track[by_track], known)[1:])[: len(known)]
        seen = sorted(zip(first.tolist(), known.tolist(), parts, strict=True), key=lambda each: each[0])
        steps = sweeps.stop - sweeps.start
        return tuple(self._track(number, step[rows], values=values[rows], steps=steps) for _, number, rows in seen)

    def _track(
        self, number: int, step: Int[np.ndarray, "row"], *, values: Float[np.ndarray, "row 9"], steps: int
    ) -> LoggedTrack:
        name, category = self.names[number], self.categories[number]
        if category not in CLASSES:
            raise InputError(
                f"{self.told}, track {name}: its category must be one of {', '.join(CLASSES)}; found {category!r}."
            )
        cls = CLASSES[category]
        if cls in STANDING:
            # What stands may have no speed in the file.
            values = np.column_stack([values[:, :7], np.nan_to_num(values[:, 7:])])
        columns, valid = np.full((steps, len(BOX)), np.nan), np.zeros(steps, dtype=bool)
        columns[step], valid[step] = values, True
        try:
            return LoggedTrack(
                id=name,
                cls=cls,
                centre_m=columns[:, :3],
                size_m=columns[:, 3:6],
                heading_rad=columns[:, 6],
                velocity_mps=columns[:, 7:],
                valid=valid,
            )
        except InputError as error:
            raise InputError(f"{self.told}: {error}") from error


def read_boxes(database: Database, sweeps: Sequence[bytes]) -> SweepBoxes:
    """The boxes of the sweeps with those tokens."""
    place = {token: number for number, token in enumerate(sweeps)}
    categories = dict(
        database.rows(
            "SELECT track.token, category.name FROM track LEFT JOIN category ON category_token = category.token"
        )
    )
    tracks: dict[Any, int] = {}
    parts = [np.zeros((0, 2 + len(BOX)))]
    for batch in database.batches(
        f"SELECT lidar_pc_token, track_token, {', '.join(BOX)} FROM lidar_box ORDER BY rowid"
    ):
        rows = [(place[row[0]], tracks.setdefault(row[1], len(tracks)), *row[2:]) for row in batch if row[0] in place]
        parts.append(numbers(rows, f"{database.path}: boxes", columns=2 + len(BOX)))
    table = np.concatenate(parts)
    table = table[np.argsort(table[:, 0], kind="stable")]
    return SweepBoxes(
        sweep=table[:, 0].astype(int),
        track=table[:, 1].astype(int),
        values=table[:, 2:],
        names=tuple(token_text(token) for token in tracks),
        categories=tuple(categories.get(token) for token in tracks),
        told=str(database.path),
    )


def read_red_lights(database: Database, sweeps: Sequence[bytes]) -> tuple[frozenset[str], ...]:
    """Ids of the lane connectors that a red light shuts, for each of the sweeps with those tokens."""
    shut: dict[Any, set[str]] = {token: set() for token in sweeps}
    query = "SELECT lidar_pc_token, lane_connector_id FROM traffic_light_status WHERE LOWER(status) = 'red'"
    for token, connector in database.rows(query):
        if token in shut:
            shut[token].add(str(connector))
    return tuple(frozenset(lanes) for lanes in shut.values())


def token_text(token: Any) -> str:
    """A token as nuPlan's tools write it."""
    if not isinstance(token, bytes):
        raise InputError(f"tokens of a nuPlan log must be blobs; found {token!r}.")
    return token.hex()


def numbers(rows: Sequence[Sequence[Any]], told: str, *, columns: int) -> Float[np.ndarray, "row column"]:
    """Rows of numbers as an array, NaN where there is nothing."""
    try:
        return np.array(rows, dtype=float).reshape(len(rows), columns)
    except (TypeError, ValueError) as error:
        raise InputError(f"{told}: must be numbers; {error}.") from error
