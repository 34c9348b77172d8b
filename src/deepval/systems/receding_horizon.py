"""The cheapest of 35 short paths past still obstacles: docs/definitions.md, Receding-horizon controller.

Action = (acceleration a, lateral offset d). Loss = 10 collision + 1.5 c^2 + progress^2 + 0.01 a^2 T
+ 0.5 d^2 + 0.05 ((a-a_prev)^2/4 + (d-d_prev)^2), c = shortfall of the worst lateral clearance below 1 m, at
most 2. The planning cost is the same formula on perceived objects; ties go to the smaller |a|, then the
smaller |d|, then the smaller d.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.systems.system import (
    FAR_M,
    Actions,
    FrameFlags,
    FrameValues,
    System,
    first_only,
    sideways,
    smooth_path_m,
    travelled_m,
)
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class RecedingHorizon(System):
    """Candidates, ego footprint and loss weights; the weights shape the plan too, so none is loss-only."""

    hardest_mps2: float = -8.0
    accelerations: int = 7
    widest_m: float = 3.0
    offsets: int = 5
    horizon_s: float = 3.0
    step_s: float = 0.25
    length_m: float = 4.5
    half_width_m: float = 0.9
    clearance_m: float = 1.0
    most_shortfall_m: float = 2.0
    least_speed_mps: float = 2.0
    collision_weight: float = 10.0
    clearance_weight: float = 1.5
    progress_weight: float = 1.0
    effort_weight: float = 0.01
    offset_weight: float = 0.5
    change_weight: float = 0.05

    def __post_init__(self) -> None:
        if min(self.accelerations, self.offsets) < 1 or not 0 < self.step_s <= self.horizon_s:
            raise InputError(
                "A receding horizon needs accelerations and offsets of 1 or more, and 0 < step_s <= horizon_s; found "
                f"{self.accelerations}, {self.offsets}, {self.step_s:g} and {self.horizon_s:g}."
            )

    @property
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""
        return _choices(self.hardest_mps2, self.accelerations, self.widest_m, self.offsets)

    @property
    def times_s(self) -> Float[np.ndarray, "step"]:
        """Times at which a path is checked."""
        return np.arange(1, round(self.horizon_s / self.step_s) + 1) * self.step_s

    def plan(
        self, perceived: Objects, scene: Scene, *, starts: FrameFlags | None = None, previous: Actions | None = None
    ) -> Actions:
        """The action in each frame."""
        fixed = self.fixed_costs(perceived, scene.ego_speed_mps)
        choices = self.choices
        if previous is not None:
            change = change_term(choices[None], previous[:, None])
            return choices[(fixed + self.change_weight * change).argmin(axis=1)]
        starts = first_only(len(scene)) if starts is None else starts
        return choices[cheapest_chain(fixed, self.change_weight * change_term(choices, choices[:, None]), starts)]

    def fixed_costs(self, perceived: Objects, speed_mps: Float[np.ndarray, "time"]) -> Float[np.ndarray, "time choice"]:
        """Planning cost of every candidate without the change term."""
        worst_m = worst_clearances_m(self, perceived, speed_mps).reshape(len(speed_mps), -1)
        choices = np.broadcast_to(self.choices, (*worst_m.shape, 2))
        terms = path_terms(self, worst_m, choices, speed_mps=speed_mps[:, None])
        costs = [weight * terms[name] for name, weight in self.weights.items() if name != "change"]
        # One after the other, in the order of the weights: the same sum to the bit as in the loss.
        return reduce(np.add, costs)

    def terms(self, plans: Actions, scene: Scene, truth: Truth, *, previous: Actions) -> FrameValues:
        """Loss terms of the actions against the reference objects, before weighting."""
        worst_m = reference_clearances_m(self, scene, truth)
        chosen_m = np.take_along_axis(worst_m, choice_index(self, plans)[:, None], axis=1)[:, 0]
        found = path_terms(self, chosen_m, plans, speed_mps=scene.ego_speed_mps)
        return found | {"change": change_term(plans, previous)}

    def words(self, plan: Float[np.ndarray, "act"]) -> str:
        """Braking, and the distance and side of the offset."""
        wanted = float(plan[0])
        return ", ".join([f"brake, {-wanted:.2g} m/s²" if wanted else "keep speed", sideways(float(plan[1]))])

    def path_m(self, plan: Float[np.ndarray, "act"], speed_mps: float) -> Float[np.ndarray, "point 2"]:
        """The chosen path."""
        return smooth_path_m(speed_mps, acceleration_mps2=float(plan[0]), shift_m=float(plan[1]))

    @property
    def corridor_m(self) -> Mapping[str, float]:
        """The width and length of the vehicle itself."""
        return {"half_width": self.half_width_m, "far": FAR_M}


@cache
def _choices(hardest_mps2: float, accelerations: int, widest_m: float, offsets: int) -> Float[np.ndarray, "choice act"]:
    a = np.linspace(0.0, hardest_mps2, accelerations)
    d = np.linspace(-widest_m, widest_m, offsets)
    pairs = np.array([(x, y) for x in sorted(a, key=abs) for y in sorted(d, key=lambda y: (abs(y), y))])
    pairs.setflags(write=False)
    return pairs


def change_term(actions: Float[np.ndarray, "*a act"], previous: Float[np.ndarray, "*b act"]) -> np.ndarray:
    """(a - a_prev)^2 / 4 + (d - d_prev)^2, 0 where there is no previous action; leading axes broadcast."""
    change = (actions[..., 0] - previous[..., 0]) ** 2 / 4 + (actions[..., 1] - previous[..., 1]) ** 2
    return np.where(np.isnan(change), 0.0, change)


def path_terms(
    system: RecedingHorizon, worst_m: np.ndarray, actions: np.ndarray, *, speed_mps: np.ndarray
) -> dict[str, np.ndarray]:
    """Loss terms of paths with the given worst clearances, without the change term."""
    a, d = actions[..., 0], actions[..., 1]
    shortfall_m = np.clip(system.clearance_m - worst_m, 0.0, system.most_shortfall_m)
    wanted_m = system.horizon_s * np.maximum(speed_mps, system.least_speed_mps)
    behind = np.maximum(1.0 - travelled_m(speed_mps, a, system.horizon_s) / wanted_m, 0.0)
    return {
        "collision": (worst_m < 0).astype(float),
        "clearance": shortfall_m**2,
        "progress": behind**2,
        "effort": a**2 * system.horizon_s,
        "offset": d**2,
    }


def choice_index(system: RecedingHorizon, actions: Actions) -> Int[np.ndarray, "time"]:
    """Index of each action among the system's choices."""
    same = (system.choices[None] == actions[:, None]).all(axis=-1)
    if not same.any(axis=1).all():
        raise InputError("actions must be among the controller's candidates; found others: use those that it chose.")
    return same.argmax(axis=1)


def cheapest_chain(
    fixed: Float[np.ndarray, "time choice"],
    change: Float[np.ndarray, "choice choice"],
    first: Bool[np.ndarray, "time"],
) -> Int[np.ndarray, "time"]:
    """Index of the cheapest choice in each frame, where leaving choice i for j costs `change[i, j]` more."""
    chosen = np.empty(len(fixed), dtype=int)
    at = 0
    for frame, (cost, begins) in enumerate(zip(fixed, first.tolist(), strict=True)):
        at = int((cost if begins else cost + change[at]).argmin())
        chosen[frame] = at
    return chosen


@lru_cache(maxsize=1)
def reference_clearances_m(system: RecedingHorizon, scene: Scene, truth: Truth) -> Float[np.ndarray, "time choice"]:
    """Worst clearances to the reference objects ahead, which are the same for all modes of a unit."""
    ahead = truth.objects.where(truth.objects.far_m > 0)
    return worst_clearances_m(system, ahead, scene.ego_speed_mps)


class Reach(NamedTuple):
    """First and last step at which a path of each acceleration overlaps an object in x, if any."""

    first: Int[np.ndarray, "obj acceleration"]
    last: Int[np.ndarray, "obj acceleration"]
    ever: Bool[np.ndarray, "obj acceleration"]


def reachable(system: RecedingHorizon, objects: Objects, speed_mps: Float[np.ndarray, "time"]) -> Objects:
    """The objects that some candidate can come nearer than the clearance; the others change no cost."""
    speed = speed_mps[objects.frame]
    nearest_m = travelled_m(speed, system.hardest_mps2, float(system.times_s[0]))
    farthest_m = travelled_m(speed, 0.0, float(system.times_s[-1]))
    ahead = (nearest_m <= objects.far_m) & (farthest_m + system.length_m >= objects.near_m)
    side_m = system.widest_m + system.half_width_m
    beside = (objects.lateral_m[:, 0] - side_m < system.clearance_m) & (
        -side_m - objects.lateral_m[:, 1] < system.clearance_m
    )
    return objects.where(ahead & beside)


def overlapping_steps(system: RecedingHorizon, objects: Objects, *, speed_mps: Float[np.ndarray, "time"]) -> Reach:
    """Steps at which ego and object overlap in x; as the ego never reverses they are one run."""
    accelerations = np.unique(system.choices[:, 0])[::-1]
    x_m = travelled_m(speed_mps[:, None, None], accelerations[:, None], system.times_s)[objects.frame]
    over = (x_m <= objects.far_m[:, None, None]) & (x_m + system.length_m >= objects.near_m[:, None, None])
    last = over.shape[-1] - 1 - over[..., ::-1].argmax(axis=-1)
    return Reach(over.argmax(axis=-1), last, np.asarray(over.any(axis=-1)))


def worst_clearances_m(
    system: RecedingHorizon, objects: Objects, speed_mps: Float[np.ndarray, "time"]
) -> Float[np.ndarray, "time choice"]:
    """Smallest lateral clearance of every candidate over steps with overlap in x, +inf where none matters.

    Objects that stay at least `clearance_m` away from every candidate are left out, which changes no loss
    term. For one object and one offset the clearance falls and then rises along the path (y moves one way,
    the clearance is convex in y), so over a run of steps it is smallest at the step nearest to its overall
    minimum.
    """
    near = reachable(system, objects, speed_mps)
    worst_m = np.full((len(speed_mps), len(system.choices)), np.inf)
    if not len(near):
        return worst_m
    reach = overlapping_steps(system, near, speed_mps=speed_mps)
    u = system.times_s / system.horizon_s
    offsets = system.choices[: system.offsets, 1]
    y_m = offsets[:, None] * (3 * u**2 - 2 * u**3)
    right_m = near.lateral_m[:, 0][:, None, None] - (y_m + system.half_width_m)
    left_m = (y_m - system.half_width_m) - near.lateral_m[:, 1][:, None, None]
    clearance_m = np.maximum(right_m, left_m)
    step = np.clip(clearance_m.argmin(axis=-1)[:, None, :], reach.first[:, :, None], reach.last[:, :, None])
    found_m = np.take_along_axis(clearance_m[:, None], step[..., None], axis=-1)[..., 0]
    found_m = np.where(reach.ever[:, :, None], found_m, np.inf).reshape(len(near), -1)
    frame, start = np.unique(near.frame, return_index=True)
    worst_m[frame] = np.minimum.reduceat(found_m, start, axis=0)
    return worst_m
