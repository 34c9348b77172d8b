"""Planned poses and what was logged -> the terms of docs/definitions.md, External losses.

collision, clearance shortfall and deviation at 0.5, 1.0, ..., 4.0 s ahead.
"""

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.geometry.vehicle import Vehicle, clearance_m
from deepval.world.truth import Future, Truth

AHEAD_S = np.arange(1, 9) * 0.5
"""Times at which a plan is judged."""
CLOSE_S = 1e-3
"""Times that are nearer to each other than this are the same."""


def logged_future(truth: Truth) -> Future:
    """The future of a unit, of the vehicle and of the others; an error where it was not logged."""
    future = truth.future
    if future is None or not future.objects:
        lacks = "no logged future" if future is None else "no logged future of the others"
        raise InputError(
            f"unit {truth.unit}: a plan is judged against what was logged afterwards; this unit has {lacks}: "
            "take a data set of logged drives, or another downstream system."
        )
    return future


def places_of(wanted_s: Float[np.ndarray, "wanted"], times_s: Float[np.ndarray, "time"]) -> Int[np.ndarray, "wanted"]:
    """Where the wanted times are in a list of times, which must have them all."""
    apart_s = np.abs(times_s[None, :] - wanted_s[:, None])
    lacking = wanted_s[~(apart_s < CLOSE_S).any(axis=1)]
    if len(lacking):
        raise InputError(
            f"times ahead must include {', '.join(f'{t:g}' for t in wanted_s)} s; {lacking[0]:g} s is not there."
        )
    return apart_s.argmin(axis=1)


def judged_frames(truth: Truth) -> Bool[np.ndarray, "time"]:
    """Frames whose future was logged at all the times at which a plan is judged."""
    future = logged_future(truth)
    return np.asarray(future.valid[:, places_of(AHEAD_S, future.times_s)].all(axis=1))


def pose_terms(
    pose: Float[np.ndarray, "time ahead 3"],
    truth: Truth,
    *,
    vehicle: Vehicle,
    margin_m: float = 1.0,
    most_m: float = 2.0,
) -> dict[str, Float[np.ndarray, "time"]]:
    """Loss terms of planned poses of the rear axle, in the ego frame of each frame; NaN where nothing was logged.

    Args:
        pose: (x, y, heading) at the times of `AHEAD_S`.
        truth: The unit's truth.
        vehicle: The ego vehicle.
        margin_m: Clearance from which on nothing is short.
        most_m: What a shortfall counts at most.
    """
    future = logged_future(truth)
    places = places_of(AHEAD_S, future.times_s)
    logged = judged_frames(truth)
    worst_m = worst_clearances_m(pose, future, vehicle=vehicle)
    apart_m = np.linalg.norm(vehicle.centres_m(pose) - vehicle.centres_m(future.pose[:, places]), axis=-1)
    terms = {
        "collision": (worst_m < 0).astype(float),
        "shortfall": np.clip(margin_m - worst_m, 0.0, most_m) ** 2,
        "deviation": apart_m.mean(axis=1),
    }
    return {name: np.where(logged, term, np.nan) for name, term in terms.items()}


def worst_clearances_m(
    pose: Float[np.ndarray, "time ahead 3"], future: Future, *, vehicle: Vehicle
) -> Float[np.ndarray, "time"]:
    """The smallest clearance of planned poses to any logged other, +inf where there is none.

    Who overlaps the logged ego vehicle at that time is left out: that contact is a fault of the log.
    """
    worst_m = np.full(len(pose), np.inf)
    for ahead, place in enumerate(places_of(AHEAD_S, future.times_s)):
        others = future.objects[place]
        others = others.where(future.valid[others.frame, place])
        planned = vehicle.corners_m(pose[:, ahead])[others.frame]
        driven = vehicle.corners_m(future.pose[:, place])[others.frame]
        apart_m = clearance_m(planned, others.corners_m)
        apart_m[clearance_m(driven, others.corners_m) < 0] = np.inf
        np.minimum.at(worst_m, others.frame, apart_m)
    return worst_m
