"""Sight -> the 65 cheap-side features of each frame of a unit. Names, order and formulas are those of `table`."""

import numpy as np

from deepval.arrays import Float, Int
from deepval.features.images import IMAGE_STATISTICS, image_statistics
from deepval.features.quantities import BRAKING, PLACE, demand_mps2
from deepval.features.segments import Segments, segments
from deepval.features.sights import CODES, Sight
from deepval.features.table import CONFIDENCE, FEATURE_NAMES, UNCERTAINTY, WITHOUT_BOXES
from deepval.geometry.boxes import area_px2, frame_pairs, iou
from deepval.geometry.motion import stopping_deceleration_mps2, time_to_collision_s

LEAST_PROBABILITY = 0.10
LOW_CONFIDENCE = 0.25
CONFIDENCE_STEPS = {"confidence_025": 0.25, "confidence_040": 0.40, "confidence_060": 0.60, "confidence_080": 0.80}
LEADERS = {"confidence_second": 1, "confidence_third": 2, "confidence_fourth": 3, "confidence_fifth": 4}
QUARTERS = {"confidence_min": 4, "confidence_q25": 3, "confidence_q50": 2, "confidence_q75": 1, "confidence_max": 0}
"""How many quarters of the way from the largest p down to the smallest."""
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
GROUP_OF_CLASS = [next(group for group, names in CLASS_GROUPS.items() if name in names) for name in CODES]
"""The feature that counts each class, by its code."""
ON_BOXES = np.array([name not in WITHOUT_BOXES for name in FEATURE_NAMES])

Columns = dict[str, np.ndarray]


def cheap_features(sight: Sight) -> Float[np.ndarray, "time feature"]:
    """The 65 features of each frame, columns as in FEATURES."""
    columns = dict.fromkeys([feature.name for feature in CONFIDENCE + UNCERTAINTY], np.full(len(sight), np.nan))
    if sight.view.mode.has_probabilities:
        columns |= _confidence(sight)
    columns |= _overlaps(sight) | _complexity(sight) | _pictures(sight) | _criticality(sight)
    features = np.stack([columns[name] for name in FEATURE_NAMES], axis=1)
    features[np.ix_(~sight.view.detections.run, ON_BOXES)] = np.nan
    return features


def _confidence(sight: Sight) -> Columns:
    """Confidence and uncertainty but for suppression; boxes are sorted by falling p."""
    counted = sight.boxes.probability >= LEAST_PROBABILITY
    p = sight.boxes.probability[counted]
    frames = segments(sight.boxes.frames.frame[counted], len(sight))
    mean, entropy = frames.mean(p), binary_entropy(p)
    step = np.searchsorted(list(CONFIDENCE_STEPS.values()), p, side="right")
    columns = {
        "confidence_sum": frames.total(p),
        "confidence_mean": mean,
        "confidence_std": np.sqrt(frames.mean((p - mean[frames.frame]) ** 2)),
        "entropy_sum": frames.total(entropy),
        "entropy_mean": frames.mean(entropy),
        "entropy_max": frames.highest(entropy),
        "doubt_sum": frames.total(4.0 * p * (1.0 - p)),
        "low_count": frames.total(p < LOW_CONFIDENCE),
    }
    columns |= {name: _quantile(p, frames, quarters) for name, quarters in QUARTERS.items()}
    columns |= {name: _ranked(p, frames, np.full(len(sight), rank)) for name, rank in LEADERS.items()}
    columns |= {name: frames.total(step == number) for number, name in enumerate(CONFIDENCE_STEPS, 1)}
    threshold = sight.view.mode.threshold_probability
    return columns if np.isnan(threshold) else columns | _margins(np.abs(p - threshold), frames)


def _margins(margin: Float[np.ndarray, "det"], frames: Segments) -> Columns:
    return {
        "margin_sum": frames.total(margin),
        "margin_mean": frames.mean(margin),
        "margin_min": frames.lowest(margin, empty=np.nan),
    } | {name: frames.total(margin <= bound) for name, bound in MARGINS.items()}


def binary_entropy(p: Float[np.ndarray, "det"]) -> Float[np.ndarray, "det"]:
    """-p ln p - (1-p) ln (1-p), 0 at 0 and 1."""
    inside = (p > 0) & (p < 1)
    safe = np.where(inside, p, 0.5)
    return np.where(inside, -safe * np.log(safe) - (1.0 - safe) * np.log(1.0 - safe), 0.0)


def _ranked(p: Float[np.ndarray, "det"], frames: Segments, rank: Int[np.ndarray, "time"]) -> Float[np.ndarray, "time"]:
    """The value of this rank (0 is the largest) in each frame, NaN where it has fewer."""
    there = (rank >= 0) & (rank < frames.number)
    return np.append(p, np.nan)[np.where(there, frames.start[:-1] + rank, len(p))]


def _quantile(p: Float[np.ndarray, "det"], frames: Segments, quarters: int) -> Float[np.ndarray, "time"]:
    """The value so many quarters of the way down from the largest, linear between order statistics."""
    way = (frames.number - 1) * quarters
    rank, rest = way // 4, way % 4
    upper, lower = _ranked(p, frames, rank), _ranked(p, frames, rank + (rest > 0))
    return upper + (lower - upper) * (rest / 4.0)


def _overlaps(sight: Sight) -> Columns:
    boxes = sight.boxes
    frame = boxes.frames.frame
    pairs = frame_pairs(frame, frame)
    once = pairs.first < pairs.second
    first, second = pairs.first[once], pairs.second[once]
    overlap = iou(boxes.box_px[first], boxes.box_px[second])
    rival = (boxes.code[first] == boxes.code[second]) & (overlap > SUPPRESSED_IOU)
    rivalry = np.where(rival, overlap, 0.0)
    used = np.where(boxes.used[first] & boxes.used[second], overlap, 0.0)
    frames = segments(frame[first], len(sight))
    return {
        "suppression_pairs": frames.total(rival),
        "suppression_sum": frames.total(rivalry),
        "suppression_max": frames.highest(rivalry),
        "overlap_sum": frames.total(used),
        "overlap_max": frames.highest(used),
    }


def _complexity(sight: Sight) -> Columns:
    frames, used, scene = sight.objects.frames, sight.boxes.used, sight.view.scene
    area = area_px2(sight.boxes.box_px[used]) / (scene.camera.fx_px * scene.camera.fy_px)
    change = dict(zip(PLACE, (sight.ago(0) - sight.ago(1)).T, strict=True))
    before = ~np.isnan(change["count"])
    group = np.array(GROUP_OF_CLASS)[sight.boxes.code[used]]
    return {name: frames.total(group == name) for name in CLASS_GROUPS} | {
        "count": sight.ago(0)[:, PLACE["count"]],
        "area_sum": frames.total(area),
        "area_max": frames.highest(area),
        "fresh_count": np.where(before, frames.total(sight.age == 1), np.nan),
        "vanished_count": np.where(before, sight.lost.frames.total(sight.missing == 1), np.nan),
        "count_change": change["count"],
        "ego_speed_mps": scene.ego_speed_mps,
        "ego_acceleration_mps2": change["ego_speed_mps"] / scene.dt_s,
    }


def _pictures(sight: Sight) -> Columns:
    pairs = zip(sight.greys, [None, *sight.greys], strict=False)
    table = np.array([image_statistics(now, before) for now, before in pairs], dtype=float)
    return dict(zip(IMAGE_STATISTICS, table.reshape(-1, len(IMAGE_STATISTICS)).T, strict=True))


def _criticality(sight: Sight) -> Columns:
    objects, speed_mps = sight.objects, sight.view.scene.ego_speed_mps
    frames, near_m, aside_m, corridor = objects.frames, objects.near_m, objects.aside_m, objects.in_corridor
    now = dict(zip(PLACE, sight.ago(0).T, strict=True))
    beside = objects.ahead & (aside_m >= BRAKING.corridor_m) & (aside_m < SIDE_M)
    around = objects.ahead & (near_m <= AROUND_M) & (aside_m < WIDEST_M)
    at_closing = stopping_deceleration_mps2(near_m, objects.closing_mps, settings=BRAKING)
    time_s = time_to_collision_s(near_m, objects.closing_mps, longest_s=LONGEST_S)
    moving = speed_mps > 0
    headway_s = np.minimum(now["corridor_nearest_m"] / np.where(moving, speed_mps, 1.0), LONGEST_S)
    p = np.where(objects.demanding, sight.boxes.probability[sight.boxes.used], -np.inf)
    confidence = frames.highest(p, empty=-np.inf)
    return now | {
        "headway_s": np.where(moving, headway_s, LONGEST_S),
        "required_closing": frames.highest(np.where(corridor, at_closing, 0.0)),
        "required_reported": np.maximum(now["required"], _required_unused(sight)),
        "nearest_m": objects.nearest_m(objects.ahead),
        "side_nearest_m": objects.nearest_m(beside),
        "time_to_collision_s": frames.lowest(np.where(corridor, time_s, LONGEST_S), empty=LONGEST_S),
        "aside_m": frames.lowest(np.where(around, aside_m, WIDEST_M), empty=WIDEST_M),
        "close_count": frames.total(objects.ahead & (near_m <= CLOSE_M)),
        "demanding_confidence": np.where(np.isinf(confidence), np.nan, confidence),
    }


def _required_unused(sight: Sight) -> Float[np.ndarray, "time"]:
    """Largest deceleration that a box below the threshold requires at ego speed."""
    boxes = sight.boxes
    rest = ~boxes.used & (boxes.aside_m < BRAKING.corridor_m)
    speed_mps = sight.view.scene.ego_speed_mps[boxes.frames.frame]
    demand = demand_mps2(boxes.near_m, np.zeros(len(speed_mps)), ego_mps=speed_mps)
    return boxes.frames.highest(np.where(rest, demand, 0.0))
