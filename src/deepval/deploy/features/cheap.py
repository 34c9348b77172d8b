"""Glance -> the 65 cheap-side features of a frame, or the 18 of its observed objects,
if the mode's placing observes.

p is the probability of a reported box; boxes with p < 0.10 are left out. Over an empty
set, sums, counts and maxima are 0, and means, minima and order statistics are NaN. A
feature is also NaN if its input is missing: usable scores, the mode's threshold,
pictures, the previous frame, or boxes because the cheap mode was not run. Ranges are
capped at 80 m and times at 10 s; over an empty set they have these values.

Objects are those that the planner receives from the cheap mode's report, in the ego
frame (x forward, y left). The gap is the distance from the ego's front to an object
that extends beyond it, 0 if the object is beside the front or across it. The corridor
is straight and as wide as the ego; if the ego's size is unknown, it extends 1.2 m to
either side, from the ego origin on. The closing speed is ego speed minus the object's
own forward speed, or the reported closing speed if that is unknown. Distances are
between centres. Over an empty set, counts and maxima are 0 and means are NaN. Gaps are
capped at 80 m and times at 10 s; over an empty set they have these values. A feature is
also NaN if its input is missing: the previous frame (for track ids: if it was not run),
objects because the cheap mode was not run, or the route because there is no map, route
or pose.
"""

from bisect import bisect_right
from math import hypot, inf, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float
from deepval.deploy.features import glances
from deepval.driving.geometry.classes import CLASSES
from deepval.driving.views import IMAGE_STATISTICS, image_statistics


class Feature(NamedTuple):
    """One column of a feature matrix."""

    name: str
    group: str
    formula: str


def features_of(group: str, formulas: dict[str, str]) -> tuple[Feature, ...]:
    """The features of one group, from name -> formula; an empty one means the formula
    of the quantity so named.
    """
    return tuple(
        Feature(name, group, formula or glances.QUANTITIES[name])
        for name, formula in formulas.items()
    )


CONFIDENCE = features_of(
    "confidence",
    {
        "confidence_sum": "sum of p",
        "confidence_mean": "mean of p",
        "confidence_std": "standard deviation of p (population)",
        "confidence_min": "smallest p",
        "confidence_q25": "lower quartile of p (linear between order statistics)",
        "confidence_q50": "median of p",
        "confidence_q75": "upper quartile of p",
        "confidence_max": "largest p",
        "confidence_second": "second largest p, NaN if there are fewer boxes",
        "confidence_third": "third largest p, likewise",
        "confidence_fourth": "fourth largest p, likewise",
        "confidence_fifth": "fifth largest p, likewise",
        "confidence_025": "number with 0.25 <= p < 0.40",
        "confidence_040": "number with 0.40 <= p < 0.60",
        "confidence_060": "number with 0.60 <= p < 0.80",
        "confidence_080": "number with 0.80 <= p",
    },
)
UNCERTAINTY = features_of(
    "uncertainty",
    {
        "entropy_sum": "sum of the entropy -p ln p - (1-p) ln (1-p)",
        "doubt_sum": "sum of 4 p (1-p): the signal `uncertainty`",
        "low_count": "number with 0.10 <= p < 0.25",
        "margin_sum": "sum of |p - threshold|",
        "margin_005": "number with |p - threshold| <= 0.05",
        "margin_010": "number with |p - threshold| <= 0.10",
        "entropy_mean": "mean entropy",
        "margin_mean": "mean |p - threshold|",
        "entropy_max": "largest entropy",
        "margin_min": "smallest |p - threshold|",
        "suppression_pairs": (
            "number of pairs of reported boxes of one class with IoU > 0.4 "
            "(suppression ambiguity)"
        ),
        "suppression_sum": "sum of their IoU",
        "suppression_max": "largest of their IoU",
    },
)
COMPLEXITY = features_of(
    "complexity",
    {
        "count": "",
        "count_car": "number of used boxes of class Car",
        "count_large": "number of used boxes of class Van, Truck, Bus, Tram or Misc",
        "count_person": "number of used boxes of class Pedestrian or Person_sitting",
        "count_cyclist": "number of used boxes of class Cyclist",
        "area_sum": "sum of area / (fx fy) over used boxes",
        "fresh_count": (
            "number of used boxes without a match in the previous frame (same class, "
            "best IoU >= 0.3)"
        ),
        "area_max": "largest area / (fx fy) of a used box",
        "overlap_sum": "sum of IoU over pairs of used boxes",
        "overlap_max": "largest IoU of two used boxes",
        "vanished_count": (
            "number of used boxes of the previous frame that no "
            "used box overlaps by IoU >= 0.3"
        ),
        "count_change": "count - count one frame before",
        "ego_speed_mps": "",
        "ego_acceleration_mps2": "(ego speed - ego speed one frame before) / dt",
        "brightness": "mean level of the small grey picture (0 to 255)",
        "contrast": "standard deviation of its levels",
        "edge_density": (
            "share of its pixels that differ from the right or lower neighbour by more "
            "than 16 levels"
        ),
        "sharpness": (
            "standard deviation of its Laplacian (low where the picture is blurred)"
        ),
        "difference_mean": "mean |level - level one frame before|",
        "difference_max": "largest |level - level one frame before|",
    },
)
CRITICALITY = features_of(
    "criticality",
    {
        "required": "",
        "required_wider_03": "",
        "required_wider_08": "",
        "required_narrower_04": "",
        "corridor_count": "",
        "corridor_nearest_m": "",
        "proximity": "",
        "headway_s": "corridor_nearest_m / ego speed, at most 10",
        "required_closing": "a_req at closing speeds alone",
        "required_reported": (
            "a_req with the boxes below the threshold too, these at ego speed"
        ),
        "nearest_m": "smallest range of a used object ahead (0 < range <= 80 m)",
        "side_nearest_m": (
            "smallest range of a used object ahead beside the corridor, "
            "within 3.5 m of its middle"
        ),
        ("time_to_collision_s"): (
            "smallest range / closing speed of a used object in "
            "the corridor, at most 10"
        ),
        "aside_m": (
            "smallest distance of a used object's nearer side from the corridor's "
            "middle, 0 < range <= 40 m; negative if it extends "
            "across the middle, at most 10"
        ),
        "close_count": "number of used objects with 0 < range <= 20 m",
        ("demanding_confidence"): (
            "p of the object that requires a_req (if several, "
            "the largest), NaN if a_req is 0"
        ),
    },
)
FEATURES: tuple[Feature, ...] = CONFIDENCE + UNCERTAINTY + COMPLEXITY + CRITICALITY
"""The 65 features, in the order of the columns."""
FEATURE_NAMES = tuple(feature.name for feature in FEATURES)
assert len(set(FEATURE_NAMES)) == len(FEATURES) == 65


LEAST_PROBABILITY = 0.10
LOW_CONFIDENCE = 0.25
CONFIDENCE_STEPS = {
    "confidence_025": 0.25,
    "confidence_040": 0.40,
    "confidence_060": 0.60,
    "confidence_080": 0.80,
}
LEADERS = {
    "confidence_second": 1,
    "confidence_third": 2,
    "confidence_fourth": 3,
    "confidence_fifth": 4,
}
QUARTERS = {
    "confidence_min": 4,
    "confidence_q25": 3,
    "confidence_q50": 2,
    "confidence_q75": 1,
    "confidence_max": 0,
}
"""Quarters of the way from the largest p down to the smallest."""
MARGINS = {"margin_005": 0.05, "margin_010": 0.10}
SUPPRESSED_IOU = 0.4
SIDE_M, CLOSE_M, AROUND_M, WIDEST_M = 3.5, 20.0, 40.0, 10.0
LONGEST_S = 10.0
CLASS_GROUPS = {
    "count_car": ("Car",),
    "count_large": ("Van", "Truck", "Bus", "Tram", "Misc"),
    "count_person": ("Pedestrian", "Person_sitting"),
    "count_cyclist": ("Cyclist",),
}
GROUP_OF_CLASS = [
    next(group for group, names in CLASS_GROUPS.items() if name in names)
    for name in CLASSES
]
"""Class code -> the feature that counts this class."""
STEPS = list(CONFIDENCE_STEPS.values())
COUNT, EGO_SPEED = glances.PLACE["count"], glances.PLACE["ego_speed_mps"]
UNKNOWN = dict.fromkeys(FEATURE_NAMES, nan)

Values = dict[str, float]


def cheap_features(glance: glances.Glance) -> Float[np.ndarray, "feature"]:
    """The 65 features of a frame, in the order of FEATURES."""
    values = UNKNOWN | motion(glance)
    if glance.frame.image is not None:
        values |= zip(
            IMAGE_STATISTICS,
            image_statistics(glance.after.grey, glance.past.grey),
            strict=True,
        )
    if glance.frame.run:
        if glance.mode.has_probabilities:
            values |= _confidence(glance)
        values |= zip(glances.PLACE, glance.row, strict=True)
        values |= _overlaps(glance) | _complexity(glance) | _criticality(glance)
    return np.array([values[name] for name in FEATURE_NAMES])


def total(values: list[float]) -> float:
    """Sum of the values in order.

    The built-in `sum` compensates rounding from Python 3.12 on, so its bits differ.
    """
    result = 0.0
    for value in values:
        result += value
    return result


def _confidence(glance: glances.Glance) -> Values:
    p = [
        box.probability for box in glance.boxes if box.probability >= LEAST_PROBABILITY
    ]
    number, entropy = len(p), binary_entropy(np.array(p)).tolist()
    steps = [bisect_right(STEPS, value) for value in p]
    sums = {
        "confidence_sum": total(p),
        "entropy_sum": total(entropy),
        "doubt_sum": total([4.0 * value * (1.0 - value) for value in p]),
        "low_count": sum(value < LOW_CONFIDENCE for value in p),
        "entropy_max": max(entropy, default=0.0),
    }
    sums |= {name: steps.count(step) for step, name in enumerate(CONFIDENCE_STEPS, 1)}
    threshold = glance.mode.threshold_probability
    margin = [] if isnan(threshold) else [abs(value - threshold) for value in p]
    if not isnan(threshold):
        sums["margin_sum"] = total(margin)
        sums |= {
            name: sum(distance <= bound for distance in margin)
            for name, bound in MARGINS.items()
        }
    if not number:
        return sums
    mean = sums["confidence_sum"] / number
    sums |= {
        "confidence_mean": mean,
        "confidence_std": sqrt(
            total([(value - mean) * (value - mean) for value in p]) / number
        ),
        "entropy_mean": sums["entropy_sum"] / number,
    }
    if margin:
        sums |= {"margin_mean": sums["margin_sum"] / number, "margin_min": min(margin)}
    return sums | _order_statistics(p)


def binary_entropy(p: Float[np.ndarray, "det"]) -> Float[np.ndarray, "det"]:
    """-p ln p - (1-p) ln (1-p), 0 at 0 and 1."""
    inside = (p > 0) & (p < 1)
    safe = np.where(inside, p, 0.5)
    return np.where(
        inside, -safe * np.log(safe) - (1.0 - safe) * np.log(1.0 - safe), 0.0
    )


def _order_statistics(p: list[float]) -> Values:
    """Quartiles and leaders of values in falling order."""
    values = {name: p[rank] for name, rank in LEADERS.items() if rank < len(p)}
    for name, quarters in QUARTERS.items():
        rank, rest = divmod((len(p) - 1) * quarters, 4)
        upper, lower = p[rank], p[rank + (rest > 0)]
        values[name] = upper + (lower - upper) * (rest / 4.0)
    return values


def _overlaps(glance: glances.Glance) -> Values:
    rivals, used = [], [0.0]
    boxes = glance.boxes
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            overlap = glances.box_iou(one, other)
            if overlap > SUPPRESSED_IOU and one.code == other.code:
                rivals.append(overlap)
            if overlap > 0 and one.used and other.used:
                used.append(overlap)
    return {
        "suppression_pairs": len(rivals),
        "suppression_sum": total(rivals),
        "suppression_max": max(rivals, default=0.0),
        "overlap_sum": total(used),
        "overlap_max": max(used),
    }


def motion(glance: glances.Glance) -> Values:
    """Ego speed and, from the second frame on, the acceleration since the previous
    frame.
    """
    speed_mps = glance.frame.ego_speed_mps
    if not glance.past.rows:
        return {"ego_speed_mps": speed_mps}
    change_mps = speed_mps - glance.past.rows[-1][EGO_SPEED]
    return {
        "ego_speed_mps": speed_mps,
        "ego_acceleration_mps2": change_mps / glance.frame.dt_s,
    }


def _complexity(glance: glances.Glance) -> Values:
    camera = glance.frame.camera
    scale = camera.fx_px * camera.fy_px
    area = [item.area / scale for item in glance.objects]
    values = dict.fromkeys(CLASS_GROUPS, 0.0) | {
        "area_sum": total(area),
        "area_max": max(area, default=0.0),
    }
    for item in glance.objects:
        values[GROUP_OF_CLASS[item.code]] += 1.0
    if glance.past.rows and not isnan(glance.past.rows[-1][COUNT]):
        values["fresh_count"] = sum(item.age == 1 for item in glance.objects)
        values["vanished_count"] = sum(item.missing == 1 for item in glance.lost)
        values["count_change"] = glance.row[COUNT] - glance.past.rows[-1][COUNT]
    return values


def _criticality(glance: glances.Glance) -> Values:
    speed_mps, row, corridor_m = (
        glance.frame.ego_speed_mps,
        glance.row,
        glances.BRAKING.corridor_m,
    )
    nearest_m = side_m = glances.BRAKING.farthest_m
    time_s, aside_m, closing, close = LONGEST_S, WIDEST_M, 0.0, 0
    for item in glance.objects:
        near_m = item.near_m
        if not glances.ahead(near_m):
            continue
        nearest_m = min(nearest_m, near_m)
        close += near_m <= CLOSE_M
        if near_m <= AROUND_M:
            aside_m = min(aside_m, item.aside_m)
        if item.aside_m < corridor_m:
            if item.closing_mps > 0:
                time_s = min(time_s, near_m / item.closing_mps)
                closing = max(closing, glances.stopping_mps2(near_m, item.closing_mps))
        elif item.aside_m < SIDE_M:
            side_m = min(side_m, near_m)
    headway_s = (
        min(row[glances.PLACE["corridor_nearest_m"]] / speed_mps, LONGEST_S)
        if speed_mps > 0
        else LONGEST_S
    )
    return {
        "headway_s": headway_s,
        "required_closing": closing,
        "required_reported": max(
            row[glances.PLACE["required"]], _required_unused(glance)
        ),
        "nearest_m": nearest_m,
        "side_nearest_m": side_m,
        "time_to_collision_s": time_s,
        "aside_m": aside_m,
        "close_count": close,
        "demanding_confidence": _demanding_confidence(glance),
    }


def _required_unused(glance: glances.Glance) -> float:
    needed, speed_mps = 0.0, glance.frame.ego_speed_mps
    for box in glance.boxes:
        if (
            not box.used
            and box.aside_m < glances.BRAKING.corridor_m
            and glances.ahead(box.near_m)
        ):
            needed = max(needed, glances.stopping_mps2(box.near_m, speed_mps))
    return needed


def _demanding_confidence(glance: glances.Glance) -> float:
    required = glance.row[glances.PLACE["required"]]
    if not required or not glance.mode.has_probabilities:
        return nan
    used = [box.probability for box in glance.boxes if box.used]
    demanding = zip(glance.objects, glance.demands, used, strict=True)
    return max(
        (
            p
            for item, demand, p in demanding
            if demand == required and item.aside_m < glances.BRAKING.corridor_m
        ),
        default=-inf,
    )


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
        "count_vehicle": (
            "number of objects of class Car, Van, Truck, Bus, Tram or Misc"
        ),
        "count_person": "number of objects of class Pedestrian or Person_sitting",
        "count_cyclist": "number of objects of class Cyclist",
        "count_static": "number of objects of class Traffic_cone or Barrier",
        "within_10": "number of objects at a distance of at most 10 m",
        "within_20": "number of objects at a distance of at most 20 m",
        "within_40": "number of objects at a distance of at most 40 m",
        "speed_mean_mps": (
            "mean speed of the objects that are not static and whose velocity is known"
        ),
        "fresh_count": "number of track ids that were not observed one frame before",
        "vanished_count": (
            "number of track ids that were observed one frame before and are not now"
        ),
    },
)
NEED = features_of(
    "criticality",
    {
        "nearest_m": "smallest gap of an object",
        "corridor_nearest_m": "smallest gap of an object in the corridor",
        ("corridor_closing_mps"): (
            "closing speed of that object (if several, the largest), 0 if there is none"
        ),
        ("time_to_collision_s"): (
            "smallest gap / closing speed over the objects in the "
            "corridor that come nearer"
        ),
        "required": (
            "a_req, m/s²: largest deceleration that an object in the corridor requires "
            "at its closing speed: closing² / 2 (gap - 2 m - 0.4 "
            "s closing), at most 9, 0 if none"
        ),
    },
)
ROUTE = features_of(
    "route",
    {
        "connector_m": (
            "distance along the route to the next lane through an intersection"
        )
    },
)
TRACKED_FEATURES: tuple[Feature, ...] = EGO + TRAFFIC + NEED + ROUTE
"""The 18 features, in the order of the columns."""
TRACKED_NAMES = tuple(feature.name for feature in TRACKED_FEATURES)
TRACKED_UNKNOWN = dict.fromkeys(TRACKED_NAMES, nan)
assert len(set(TRACKED_NAMES)) == len(TRACKED_FEATURES) == 18


def tracked_features(glance: glances.Glance) -> Float[np.ndarray, "feature"]:
    """The 18 features of a frame, in the order of TRACKED_FEATURES."""
    values = (
        TRACKED_UNKNOWN | motion(glance) | {"connector_m": glance.frame.connector_m}
    )
    if glance.frame.run and glance.mode.observes:
        values |= _traffic(glance) | _need(glance)
    return np.array([values[name] for name in TRACKED_NAMES])


def _traffic(glance: glances.Glance) -> Values:
    tracks = glance.tracks
    values: Values = {
        f"count_{kind}": sum(track.kind == code for track in tracks)
        for code, kind in enumerate(glances.KINDS)
    }
    values |= {
        name: sum(track.distance_m <= bound for track in tracks)
        for name, bound in WITHIN_M.items()
    }
    movers = [track for track in tracks if track.kind != glances.CODE_OF_KIND["static"]]
    speeds = [
        hypot(track.vx_mps, track.vy_mps)
        for track in movers
        if not isnan(track.vx_mps + track.vy_mps)
    ]
    if speeds:
        values["speed_mean_mps"] = total(speeds) / len(speeds)
    now, before = glance.after.ids, glance.past.ids
    if now is not None and before is not None:
        values |= {
            "fresh_count": len(now - before),
            "vanished_count": len(before - now),
        }
    return values


def _need(glance: glances.Glance) -> Values:
    inside = glances.in_way(glance.tracks, glances.half_width_m(glance.frame.vehicle))
    near_m, far_m = (
        glance.row[glances.PLACE["corridor_nearest_m"]],
        glances.BRAKING.farthest_m,
    )
    coming = [
        track.gap_m / track.closing_mps for track in inside if track.closing_mps > 0
    ]
    return {
        "nearest_m": min([far_m, *(track.gap_m for track in glance.tracks)]),
        "corridor_nearest_m": near_m,
        "corridor_closing_mps": max(
            (track.closing_mps for track in inside if track.gap_m == near_m),
            default=0.0,
        ),
        "time_to_collision_s": min([LONGEST_S, *coming]),
        "required": glance.row[glances.PLACE["required"]],
    }
