"""The table of cheap-side features: name, group and formula of the 65 columns that a gate reads.

p is the probability of a reported box; boxes with p < 0.10 are left out. Over an empty set, sums, counts and maxima are
0, and means, minima and order statistics are NaN. A feature is also NaN if its input is missing: usable scores, the
mode's threshold, pictures, the previous frame, or boxes because the cheap mode was not run. Ranges are capped at 80 m
and times at 10 s; over an empty set they have these values.
"""

from collections.abc import Sequence
from typing import NamedTuple

from deepval.features.glances import QUANTITIES


class Feature(NamedTuple):
    """One column of a feature matrix."""

    name: str
    group: str
    formula: str


def features_of(group: str, formulas: dict[str, str]) -> tuple[Feature, ...]:
    """The features of one group, from name -> formula; an empty formula means that of the quantity of this name."""
    return tuple(Feature(name, group, formula or QUANTITIES[name]) for name, formula in formulas.items())


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
        "suppression_pairs": "number of pairs of reported boxes of one class with IoU > 0.4 (suppression ambiguity)",
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
        "fresh_count": "number of used boxes without a match in the previous frame (same class, best IoU >= 0.3)",
        "area_max": "largest area / (fx fy) of a used box",
        "overlap_sum": "sum of IoU over pairs of used boxes",
        "overlap_max": "largest IoU of two used boxes",
        "vanished_count": "number of used boxes of the previous frame that no used box overlaps by IoU >= 0.3",
        "count_change": "count - count one frame before",
        "ego_speed_mps": "",
        "ego_acceleration_mps2": "(ego speed - ego speed one frame before) / dt",
        "brightness": "mean level of the small grey picture (0 to 255)",
        "contrast": "standard deviation of its levels",
        "edge_density": "share of its pixels that differ from the right or lower neighbour by more than 16 levels",
        "sharpness": "standard deviation of its Laplacian (low where the picture is blurred)",
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
        "required_reported": "a_req with the boxes below the threshold too, these at ego speed",
        "nearest_m": "smallest range of a used object ahead (0 < range <= 80 m)",
        "side_nearest_m": "smallest range of a used object ahead beside the corridor, within 3.5 m of its middle",
        "time_to_collision_s": "smallest range / closing speed of a used object in the corridor, at most 10",
        "aside_m": "smallest distance of a used object's nearer side from the corridor's middle, 0 < range <= 40 m; "
        "negative if it extends across the middle, at most 10",
        "close_count": "number of used objects with 0 < range <= 20 m",
        "demanding_confidence": "p of the object that requires a_req (if several, the largest), NaN if a_req is 0",
    },
)
FEATURES: tuple[Feature, ...] = CONFIDENCE + UNCERTAINTY + COMPLEXITY + CRITICALITY
"""The 65 features, in the order of the columns."""
FEATURE_NAMES = tuple(feature.name for feature in FEATURES)
assert len(set(FEATURE_NAMES)) == len(FEATURES) == 65


def markdown(features: Sequence[Feature]) -> str:
    """The features as a Markdown table."""
    bar = r"\|"
    lines = [f"| {n} | `{f.name}` | {f.group} | {f.formula.replace('|', bar)} |" for n, f in enumerate(features, 1)]
    return "\n".join(["| # | name | group | formula |", "|--:|---|---|---|", *lines]) + "\n"
