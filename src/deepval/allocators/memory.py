"""Glance -> memory: what the system needed, saw and was near a moment ago, against what it sees now.

Changes of the remembered quantities over 1, 2 and 4 frames, their extremes over the window of 8, and objects that were
seen within it and are missing now, moved on by the way travelled since. Nothing but the past and the present frame of
the unit is used, and a frame is added to the past in constant time.
"""

from math import nan

import numpy as np

from deepval.arrays import Float
from deepval.features.glances import Glance, ahead, required_mps2
from deepval.features.quantities import BRAKING, CORRIDORS_M, PLACE, QUANTITIES, WINDOW
from deepval.features.table import Feature, features_of

LAGS = (1, 2, 4)
STEADY = 3
"""Frames in a row from which on an object is steady."""

CHANGES = features_of(
    "change",
    {
        f"{name}_change_{lag}": f"{name} - {name} {lag} frame{'s' * (lag > 1)} before"
        for name in QUANTITIES
        for lag in LAGS
    },
)
EXTREMES = features_of(
    "extreme",
    {f"{name}_most": f"largest {name} over the last {WINDOW} frames, this one included" for name in QUANTITIES}
    | {f"{name}_least": f"smallest {name} over the last {WINDOW} frames, this one included" for name in QUANTITIES},
)
LOST = features_of(
    "lost",
    {
        "lost_required": "a_req of missing objects: seen in the last 8 frames, and no used box has overlapped their "
        "last box by IoU >= 0.3 since; range less the way travelled since, closing speed as last seen",
        "lost_required_wider_03": "the same with the corridor 0.3 m wider on each side",
        "lost_required_wider_08": "the same with the corridor 0.8 m wider on each side",
        "lost_required_narrower_04": "the same with the corridor 0.4 m narrower on each side",
        "lost_count": "number of missing objects ahead (0 < range <= 80 m)",
        "lost_corridor_count": "number of those in the corridor",
        "lost_nearest_m": "smallest range of those in the corridor, 80 if none",
        "lost_for": "frames since the missing object that requires most was seen, of equals the fewest; NaN if none",
        "lost_age": "frames in a row in which it had been seen (at most 8), of equals the most; NaN if none",
        "steady_required": "a_req of used objects seen in at least 3 frames in a row",
        "sudden_required": "a_req of used objects seen in fewer",
        "demanding_age": "frames in a row in which the object that requires a_req has been seen (at most 8), of equals "
        "the most; NaN if a_req is 0",
    },
)
UNKNOWN = (nan,) * len(QUANTITIES)
MEMORY_FEATURES: tuple[Feature, ...] = CHANGES + EXTREMES + LOST
MEMORY_NAMES = tuple(feature.name for feature in MEMORY_FEATURES)
assert len(set(MEMORY_NAMES)) == len(MEMORY_FEATURES)


def memory_features(glance: Glance) -> Float[np.ndarray, "feature"]:
    """The memory features of a frame, in the order of MEMORY_FEATURES; frames without a report count for no extreme."""
    rows = (*((UNKNOWN,) * (WINDOW - 1 - len(glance.past.rows))), *glance.past.rows, glance.row)
    table = np.array(rows)
    changes = table[-1][:, None] - table[[-1 - lag for lag in LAGS]].T
    columns = _lost(glance) if glance.frame.run else {}
    lost = [columns.get(feature.name, nan) for feature in LOST]
    return np.concatenate([changes.ravel(), np.fmax.reduce(table), np.fmin.reduce(table), lost])


def _lost(glance: Glance) -> dict[str, float]:
    gone, corridor_m = glance.lost, CORRIDORS_M["required"]
    demands = [each.demand_mps2 for each in gone]
    required = dict(zip(CORRIDORS_M, required_mps2(gone, demands), strict=True))
    front = [each for each in gone if ahead(each.near_m)]
    ranges = [each.near_m for each in front if each.aside_m < corridor_m]
    values = {f"lost_{name}": value for name, value in required.items()} | {
        "lost_count": len(front),
        "lost_corridor_count": len(ranges),
        "lost_nearest_m": min(ranges, default=BRAKING.farthest_m),
    }
    if required["required"] > 0:
        worst = [each for each in gone if each.aside_m < corridor_m and each.demand_mps2 == required["required"]]
        values["lost_for"] = min(each.missing for each in worst)
        values["lost_age"] = max(each.age for each in worst)
    needed = glance.row[PLACE["required"]]
    seen = [(demand, each.age) for each, demand in zip(glance.objects, glance.demands, strict=True)
            if each.aside_m < corridor_m]  # fmt: skip
    values["steady_required"] = max((demand for demand, age in seen if age >= STEADY), default=0.0)
    values["sudden_required"] = max((demand for demand, age in seen if age < STEADY), default=0.0)
    if needed > 0:
        values["demanding_age"] = max(age for demand, age in seen if demand == needed)
    return values
