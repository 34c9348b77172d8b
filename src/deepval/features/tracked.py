"""Glance -> the 18 features of the observed objects and the ego state, if the cheap mode's placing observes.

Objects are those that the planner receives from the cheap mode's report, in the ego frame (x forward, y left). The gap
is the distance from the ego's front to an object that extends beyond it, 0 if the object is beside the front or across
it. The corridor is straight and as wide as the ego; if the ego's size is unknown, it extends 1.2 m to either side, from
the ego origin on. The closing speed is ego speed minus the object's own forward speed, or the reported closing speed if
that is unknown. Distances are between centres. Over an empty set, counts and maxima are 0 and means are NaN. Gaps are
capped at 80 m and times at 10 s; over an empty set they have these values. A feature is also NaN if its input is
missing: the previous frame (for track ids: if it was not run), objects because the cheap mode was not run, or the route
because there is no map, route or pose.
"""

from math import hypot, isnan, nan

import numpy as np

from deepval.arrays import Float
from deepval.features.cheap import LONGEST_S, motion, total
from deepval.features.glances import BRAKING, CODE_OF_KIND, KINDS, PLACE, Glance, half_width_m, in_way
from deepval.features.table import Feature, features_of

WITHIN_M = {"within_10": 10.0, "within_20": 20.0, "within_40": 40.0}

EGO = features_of(
    "ego",
    {
        "ego_speed_mps": "",
        "ego_acceleration_mps2": "(ego speed - ego speed one frame before) / dt",
    },
)
TRAFFIC = features_of(
    "traffic",
    {
        "count_vehicle": "number of objects of class Car, Van, Truck, Bus, Tram or Misc",
        "count_person": "number of objects of class Pedestrian or Person_sitting",
        "count_cyclist": "number of objects of class Cyclist",
        "count_static": "number of objects of class Traffic_cone or Barrier",
        "within_10": "number of objects at a distance of at most 10 m",
        "within_20": "number of objects at a distance of at most 20 m",
        "within_40": "number of objects at a distance of at most 40 m",
        "speed_mean_mps": "mean speed of the objects that are not static and whose velocity is known",
        "fresh_count": "number of track ids that were not observed one frame before",
        "vanished_count": "number of track ids that were observed one frame before and are not now",
    },
)
NEED = features_of(
    "criticality",
    {
        "nearest_m": "smallest gap of an object",
        "corridor_nearest_m": "smallest gap of an object in the corridor",
        "corridor_closing_mps": "closing speed of that object (if several, the largest), 0 if there is none",
        "time_to_collision_s": "smallest gap / closing speed over the objects in the corridor that come nearer",
        "required": "a_req, m/s²: largest deceleration that an object in the corridor requires at its closing speed: "
        "closing² / 2 (gap - 2 m - 0.4 s closing), at most 9, 0 if none",
    },
)
ROUTE = features_of("route", {"connector_m": "distance along the route to the next lane through an intersection"})
TRACKED_FEATURES: tuple[Feature, ...] = EGO + TRAFFIC + NEED + ROUTE
"""The 18 features, in the order of the columns."""
TRACKED_NAMES = tuple(feature.name for feature in TRACKED_FEATURES)
UNKNOWN = dict.fromkeys(TRACKED_NAMES, nan)
assert len(set(TRACKED_NAMES)) == len(TRACKED_FEATURES) == 18

Values = dict[str, float]


def tracked_features(glance: Glance) -> Float[np.ndarray, "feature"]:
    """The 18 features of a frame, in the order of TRACKED_FEATURES."""
    values = UNKNOWN | motion(glance) | {"connector_m": glance.frame.connector_m}
    if glance.frame.run and glance.mode.observes:
        values |= _traffic(glance) | _need(glance)
    return np.array([values[name] for name in TRACKED_NAMES])


def _traffic(glance: Glance) -> Values:
    tracks = glance.tracks
    values: Values = {f"count_{kind}": sum(track.kind == code for track in tracks) for code, kind in enumerate(KINDS)}
    values |= {name: sum(track.distance_m <= bound for track in tracks) for name, bound in WITHIN_M.items()}
    movers = [track for track in tracks if track.kind != CODE_OF_KIND["static"]]
    speeds = [hypot(track.vx_mps, track.vy_mps) for track in movers if not isnan(track.vx_mps + track.vy_mps)]
    if speeds:
        values["speed_mean_mps"] = total(speeds) / len(speeds)
    now, before = glance.after.ids, glance.past.ids
    if now is not None and before is not None:
        values |= {"fresh_count": len(now - before), "vanished_count": len(before - now)}
    return values


def _need(glance: Glance) -> Values:
    inside = in_way(glance.tracks, half_width_m(glance.frame.vehicle))
    near_m, far_m = glance.row[PLACE["corridor_nearest_m"]], BRAKING.farthest_m
    coming = [track.gap_m / track.closing_mps for track in inside if track.closing_mps > 0]
    return {
        "nearest_m": min([far_m, *(track.gap_m for track in glance.tracks)]),
        "corridor_nearest_m": near_m,
        "corridor_closing_mps": max((track.closing_mps for track in inside if track.gap_m == near_m), default=0.0),
        "time_to_collision_s": min([LONGEST_S, *coming]),
        "required": glance.row[PLACE["required"]],
    }
