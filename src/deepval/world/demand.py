"""Objects and ego speed -> the deceleration that they require: a_req of the braking controller."""

import numpy as np

from deepval.arrays import Float
from deepval.geometry.motion import BrakingSettings, stopping_deceleration_mps2
from deepval.world.objects import Objects


def object_deceleration_mps2(
    objects: Objects, ego_speed_mps: Float[np.ndarray, "time"], *, settings: BrakingSettings | None = None
) -> Float[np.ndarray, "obj"]:
    """Deceleration that each object requires at ego or closing speed; 0 if it is not considered."""
    settings = settings or BrakingSettings()
    ahead = (objects.near_m > 0) & (objects.near_m <= settings.farthest_m)
    inside = (objects.lateral_m[:, 1] > -settings.corridor_m) & (objects.lateral_m[:, 0] < settings.corridor_m)
    at_ego = stopping_deceleration_mps2(objects.near_m, ego_speed_mps[objects.frame], settings=settings)
    at_closing = stopping_deceleration_mps2(objects.near_m, objects.closing_mps, settings=settings)
    return np.where(ahead & inside, np.maximum(at_ego, at_closing), 0.0)


def required_deceleration_mps2(
    objects: Objects, ego_speed_mps: Float[np.ndarray, "time"], *, settings: BrakingSettings | None = None
) -> Float[np.ndarray, "time"]:
    """a_req of docs/definitions.md, Braking controller: the most that an object of the frame requires, 0 if none."""
    required = np.zeros(objects.frames)
    np.maximum.at(required, objects.frame, object_deceleration_mps2(objects, ego_speed_mps, settings=settings))
    return required
