"""Glance -> the 65 cheap-side features of a frame. Names, order and formulas are those of `table`."""

from bisect import bisect_right
from math import inf, isnan, nan, sqrt

import numpy as np

from deepval.arrays import Float
from deepval.features.glances import BRAKING, PLACE, Glance, ahead, box_iou, stopping_mps2
from deepval.features.table import FEATURE_NAMES
from deepval.features.views import IMAGE_STATISTICS, image_statistics
from deepval.geometry.classes import CLASSES

LEAST_PROBABILITY = 0.10
LOW_CONFIDENCE = 0.25
CONFIDENCE_STEPS = {"confidence_025": 0.25, "confidence_040": 0.40, "confidence_060": 0.60, "confidence_080": 0.80}
LEADERS = {"confidence_second": 1, "confidence_third": 2, "confidence_fourth": 3, "confidence_fifth": 4}
QUARTERS = {"confidence_min": 4, "confidence_q25": 3, "confidence_q50": 2, "confidence_q75": 1, "confidence_max": 0}
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
GROUP_OF_CLASS = [next(group for group, names in CLASS_GROUPS.items() if name in names) for name in CLASSES]
"""Class code -> the feature that counts this class."""
STEPS = list(CONFIDENCE_STEPS.values())
COUNT, EGO_SPEED = PLACE["count"], PLACE["ego_speed_mps"]
UNKNOWN = dict.fromkeys(FEATURE_NAMES, nan)

Values = dict[str, float]


def cheap_features(glance: Glance) -> Float[np.ndarray, "feature"]:
    """The 65 features of a frame, in the order of FEATURES."""
    values = UNKNOWN | motion(glance)
    if glance.frame.image is not None:
        values |= zip(IMAGE_STATISTICS, image_statistics(glance.after.grey, glance.past.grey), strict=True)
    if glance.frame.run:
        if glance.mode.has_probabilities:
            values |= _confidence(glance)
        values |= zip(PLACE, glance.row, strict=True)
        values |= _overlaps(glance) | _complexity(glance) | _criticality(glance)
    return np.array([values[name] for name in FEATURE_NAMES])


def total(values: list[float]) -> float:
    """Sum of the values in order. The built-in `sum` compensates rounding from Python 3.12 on, so its bits differ."""
    result = 0.0
    for value in values:
        result += value
    return result


def _confidence(glance: Glance) -> Values:
    p = [box.probability for box in glance.boxes if box.probability >= LEAST_PROBABILITY]
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
        sums |= {name: sum(distance <= bound for distance in margin) for name, bound in MARGINS.items()}
    if not number:
        return sums
    mean = sums["confidence_sum"] / number
    sums |= {
        "confidence_mean": mean,
        "confidence_std": sqrt(total([(value - mean) * (value - mean) for value in p]) / number),
        "entropy_mean": sums["entropy_sum"] / number,
    }
    if margin:
        sums |= {"margin_mean": sums["margin_sum"] / number, "margin_min": min(margin)}
    return sums | _order_statistics(p)


def binary_entropy(p: Float[np.ndarray, "det"]) -> Float[np.ndarray, "det"]:
    """-p ln p - (1-p) ln (1-p), 0 at 0 and 1."""
    inside = (p > 0) & (p < 1)
    safe = np.where(inside, p, 0.5)
    return np.where(inside, -safe * np.log(safe) - (1.0 - safe) * np.log(1.0 - safe), 0.0)


def _order_statistics(p: list[float]) -> Values:
    """Quartiles and leaders of values in falling order."""
    values = {name: p[rank] for name, rank in LEADERS.items() if rank < len(p)}
    for name, quarters in QUARTERS.items():
        rank, rest = divmod((len(p) - 1) * quarters, 4)
        upper, lower = p[rank], p[rank + (rest > 0)]
        values[name] = upper + (lower - upper) * (rest / 4.0)
    return values


def _overlaps(glance: Glance) -> Values:
    rivals, used = [], [0.0]
    boxes = glance.boxes
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            overlap = box_iou(one, other)
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


def motion(glance: Glance) -> Values:
    """Ego speed and, from the second frame on, the acceleration since the previous frame."""
    speed_mps = glance.frame.ego_speed_mps
    if not glance.past.rows:
        return {"ego_speed_mps": speed_mps}
    change_mps = speed_mps - glance.past.rows[-1][EGO_SPEED]
    return {"ego_speed_mps": speed_mps, "ego_acceleration_mps2": change_mps / glance.frame.dt_s}


def _complexity(glance: Glance) -> Values:
    camera = glance.frame.camera
    scale = camera.fx_px * camera.fy_px
    area = [item.area / scale for item in glance.objects]
    values = dict.fromkeys(CLASS_GROUPS, 0.0) | {"area_sum": total(area), "area_max": max(area, default=0.0)}
    for item in glance.objects:
        values[GROUP_OF_CLASS[item.code]] += 1.0
    if glance.past.rows and not isnan(glance.past.rows[-1][COUNT]):
        values["fresh_count"] = sum(item.age == 1 for item in glance.objects)
        values["vanished_count"] = sum(item.missing == 1 for item in glance.lost)
        values["count_change"] = glance.row[COUNT] - glance.past.rows[-1][COUNT]
    return values


def _criticality(glance: Glance) -> Values:
    speed_mps, row, corridor_m = glance.frame.ego_speed_mps, glance.row, BRAKING.corridor_m
    nearest_m = side_m = BRAKING.farthest_m
    time_s, aside_m, closing, close = LONGEST_S, WIDEST_M, 0.0, 0
    for item in glance.objects:
        near_m = item.near_m
        if not ahead(near_m):
            continue
        nearest_m = min(nearest_m, near_m)
        close += near_m <= CLOSE_M
        if near_m <= AROUND_M:
            aside_m = min(aside_m, item.aside_m)
        if item.aside_m < corridor_m:
            if item.closing_mps > 0:
                time_s = min(time_s, near_m / item.closing_mps)
                closing = max(closing, stopping_mps2(near_m, item.closing_mps))
        elif item.aside_m < SIDE_M:
            side_m = min(side_m, near_m)
    headway_s = min(row[PLACE["corridor_nearest_m"]] / speed_mps, LONGEST_S) if speed_mps > 0 else LONGEST_S
    return {
        "headway_s": headway_s,
        "required_closing": closing,
        "required_reported": max(row[PLACE["required"]], _required_unused(glance)),
        "nearest_m": nearest_m,
        "side_nearest_m": side_m,
        "time_to_collision_s": time_s,
        "aside_m": aside_m,
        "close_count": close,
        "demanding_confidence": _demanding_confidence(glance),
    }


def _required_unused(glance: Glance) -> float:
    needed, speed_mps = 0.0, glance.frame.ego_speed_mps
    for box in glance.boxes:
        if not box.used and box.aside_m < BRAKING.corridor_m and ahead(box.near_m):
            needed = max(needed, stopping_mps2(box.near_m, speed_mps))
    return needed


def _demanding_confidence(glance: Glance) -> float:
    required = glance.row[PLACE["required"]]
    if not required or not glance.mode.has_probabilities:
        return nan
    used = [box.probability for box in glance.boxes if box.used]
    demanding = zip(glance.objects, glance.demands, used, strict=True)
    return max(
        (p for item, demand, p in demanding if demand == required and item.aside_m < BRAKING.corridor_m), default=-inf
    )
