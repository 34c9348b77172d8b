"""Objects of a frame -> the few numbers of the frame that are remembered: demands, counts, nearest range, speed."""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float
from deepval.features.segments import Segments
from deepval.geometry.motion import BrakingSettings, stopping_deceleration_mps2

BRAKING = BrakingSettings()
"""The braking rule of DEFINITIONS section 6."""
CORRIDORS_M: dict[str, float] = {
    "required": BRAKING.corridor_m,
    "required_wider_03": BRAKING.corridor_m + 0.3,
    "required_wider_08": BRAKING.corridor_m + 0.8,
    "required_narrower_04": BRAKING.corridor_m - 0.4,
}
"""Half-width of the corridor behind each of the demands."""
NEAR_M = 10.0
"""Range at which an object adds one half to the proximity sum."""

QUANTITIES: dict[str, str] = {
    "required": "a_req, m/s²: largest deceleration that a used object in the corridor (1.2 m) requires, 0 if none",
    "required_wider_03": "a_req with the corridor 0.3 m wider on each side",
    "required_wider_08": "a_req with the corridor 0.8 m wider on each side",
    "required_narrower_04": "a_req with the corridor 0.4 m narrower on each side",
    "count": "number of used boxes",
    "corridor_count": "number of used objects in the corridor, 0 < range <= 80 m",
    "corridor_nearest_m": "smallest range of those objects, 80 if none",
    "ego_speed_mps": "ego speed",
    "proximity": "sum of 10 / (10 + max(range, 0)) over used objects",
}
"""What is remembered of each frame, by name, with its formula."""
PLACE = {name: place for place, name in enumerate(QUANTITIES)}
"""The column of each quantity."""


class Objects(NamedTuple):
    """Objects of the frames as a decision sees them, by frame.

    `aside_m` is the distance of an object's nearer side from the middle of the corridor: it reaches into a corridor of
    half-width w iff that is below w. `demand_mps2` is the deceleration it requires at ego or closing speed wherever it
    stands aside, 0 where it is not ahead.
    """

    frames: Segments
    near_m: Float[np.ndarray, "obj"]
    aside_m: Float[np.ndarray, "obj"]
    closing_mps: Float[np.ndarray, "obj"]
    demand_mps2: Float[np.ndarray, "obj"]

    def required_mps2(self, corridor_m: float) -> Float[np.ndarray, "time"]:
        """Largest demand of an object that reaches into the corridor, 0 if none."""
        return self.frames.highest(np.where(self.aside_m < corridor_m, self.demand_mps2, 0.0))

    @property
    def ahead(self) -> Bool[np.ndarray, "obj"]:
        """Whether the braking rule considers an object at this range."""
        return (self.near_m > 0) & (self.near_m <= BRAKING.farthest_m)

    @property
    def in_corridor(self) -> Bool[np.ndarray, "obj"]:
        """Whether the braking rule considers it."""
        return self.ahead & (self.aside_m < BRAKING.corridor_m)

    def nearest_m(self, among: Bool[np.ndarray, "obj"]) -> Float[np.ndarray, "time"]:
        """Smallest range among some, 80 if there are none."""
        return self.frames.lowest(np.where(among, self.near_m, BRAKING.farthest_m), empty=BRAKING.farthest_m)

    @property
    def demanding(self) -> Bool[np.ndarray, "obj"]:
        """Whether it reaches into the corridor and requires as much as any of its frame that does, and something."""
        required = self.required_mps2(BRAKING.corridor_m)[self.frames.frame]
        return (self.aside_m < BRAKING.corridor_m) & (self.demand_mps2 > 0) & (self.demand_mps2 == required)


def demand_mps2(
    near_m: Float[np.ndarray, "obj"], closing_mps: Float[np.ndarray, "obj"], *, ego_mps: Float[np.ndarray, "obj"]
) -> Float[np.ndarray, "obj"]:
    """Deceleration that an object requires at ego or closing speed; 0 where it is not ahead."""
    at_ego = stopping_deceleration_mps2(near_m, ego_mps, settings=BRAKING)
    at_closing = stopping_deceleration_mps2(near_m, closing_mps, settings=BRAKING)
    ahead = (near_m > 0) & (near_m <= BRAKING.farthest_m)
    return np.where(ahead, np.maximum(at_ego, at_closing), 0.0)


def quantities(
    objects: Objects, ego_speed_mps: Float[np.ndarray, "time"], *, run: Bool[np.ndarray, "time"]
) -> Float[np.ndarray, "time quantity"]:
    """The quantities of each frame; all but the ego speed are NaN where the cheap mode was not run."""
    columns = {name: objects.required_mps2(corridor_m) for name, corridor_m in CORRIDORS_M.items()} | {
        "count": objects.frames.number,
        "corridor_count": objects.frames.total(objects.in_corridor),
        "corridor_nearest_m": objects.nearest_m(objects.in_corridor),
        "ego_speed_mps": ego_speed_mps,
        "proximity": objects.frames.total(NEAR_M / (NEAR_M + np.maximum(objects.near_m, 0.0))),
    }
    rows = np.stack([columns[name] for name in QUANTITIES], axis=1)
    rows[~run] = np.nan
    rows[:, PLACE["ego_speed_mps"]] = ego_speed_mps
    return rows
