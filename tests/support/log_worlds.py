"""Small made-up logs: a straight road, an ego on it, others around it."""

import numpy as np

from deepval.driving.datasets.logs.log import Log, LoggedTrack, poses_of
from deepval.driving.datasets.logs.scenarionet_records import CAMERA
from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.world.lanes import Lane, LaneMap


def straight_map(lanes=3, *, length_m=50.0):
    """Lanes one behind the other along x, each a roadblock of its own."""
    found = {}
    for place in range(lanes):
        x = np.linspace(place * length_m, (place + 1) * length_m, 6)
        found[f"l{place}"] = Lane(
            f"l{place}",
            np.column_stack([x, np.zeros(6)]),
            f"rb_l{place}",
            successors=(f"l{place + 1}",),
        )
    return LaneMap(found)


def track(rows, steps=11, *, key="t", cls="Car", size_m=(4.0, 2.0, 1.5), z_m=0.75):
    """Rows are (step, x, y, heading, vx, vy)."""
    columns = np.zeros((steps, 5))
    valid = np.zeros(steps, dtype=bool)
    for step, *told in rows:
        columns[step], valid[step] = told, True
    return LoggedTrack(
        id=key,
        cls=cls,
        centre_m=np.column_stack([columns[:, :2], np.full(steps, z_m)]),
        heading_rad=columns[:, 2],
        size_m=np.tile(np.array(size_m), (steps, 1)),
        velocity_mps=columns[:, 3:],
        valid=valid,
    )


def standing(x, y, steps=11, *, heading=0.0, **more):
    return track(
        [(step, x, y, heading, 0.0, 0.0) for step in range(steps)], steps, **more
    )


def log(tracks=(), steps=11, *, pose=None, **more):
    """Ego from the origin along x at 5 m/s, ten steps a second, a state every fifth
    step.
    """
    time_s = np.arange(steps) * 0.1
    pose = (
        np.column_stack([5.0 * time_s, np.zeros(steps), np.zeros(steps)])
        if pose is None
        else pose
    )
    told = {
        "unit": "u",
        "time_s": time_s,
        "world_from_ego": poses_of(pose),
        "speed_mps": np.full(steps, 5.0),
        "vehicle": ZOE,
        "camera": CAMERA,
        "tracks": tuple(tracks),
        "lane_map": straight_map(),
        "route": ("rb_l0", "rb_l1"),
        "states": np.arange(0, steps, 5),
    }
    return Log(**(told | more))
