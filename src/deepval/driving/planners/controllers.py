"""Objects in the way -> the action of a downstream rule, and its loss given other
objects as the reference.

A rule is the part of a downstream system that is public: what it does about objects,
and what that costs if other objects are really there. It knows nothing of a unit's
truth, so allocators may simulate it; systems/ applies the same formulas to the
reference. All functions take many frames, or many draws of one frame, at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from typing import Any

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError
from deepval.driving.world.objects import (
    BrakingSettings,
    Objects,
    Outlines,
    required_deceleration_mps2,
)

Actions = Float[np.ndarray, "_ act"]
Speeds = Float[np.ndarray, "_"]
"""Ego speeds: one per frame, or a single one for all draws of a frame.

Previous actions may be single as well.
"""
Needs = Float[np.ndarray, "time *need"]
"""What the objects of each frame require: all that an action or a loss depends on."""


class Rule(ABC):
    """A downstream rule: a frozen dataclass whose fields are the constants of its
    system.
    """

    @property
    @abstractmethod
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""

    @property
    @abstractmethod
    def reach_m(self) -> float:
        """Distance aside, from the middle of the corridor, beyond which an object can
        change nothing.
        """

    @abstractmethod
    def needs(self, objects: Objects | Outlines, speed_mps: Speeds) -> Needs:
        """What the objects require in each frame."""

    @abstractmethod
    def act(self, needs: Needs, speed_mps: Speeds, *, previous: Actions) -> Actions:
        """The action in each frame; `previous` is NaN where there is none."""

    @abstractmethod
    def loss_terms(
        self, actions: Actions, needs: Needs, *, speed_mps: Speeds, previous: Actions
    ) -> dict[str, Float[np.ndarray, "time"]]:
        """Loss terms of actions if these are the needs of the reference objects, before
        weighting.
        """

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each loss term: the constants called TERM_weight, in the order
        of their fields.
        """
        return loss_weights(vars(self))

    def loss(
        self, actions: Actions, needs: Needs, *, speed_mps: Speeds, previous: Actions
    ) -> Float[np.ndarray, "time"]:
        """The weighted sum of the loss terms."""
        return self._weighted(
            self.loss_terms(actions, needs, speed_mps=speed_mps, previous=previous)
        )

    def value(
        self,
        cheap: Actions,
        needs: Float[np.ndarray, "2 draw *need"],
        *,
        speed_mps: Speeds,
        previous: Actions,
    ) -> np.ndarray:
        """Loss of the cheap action minus loss of the action for the full mode's needs,
        by the reference's needs.
        """
        full = self.act(needs[0], speed_mps, previous=previous)
        losses = [
            self.loss(act, needs[1], speed_mps=speed_mps, previous=previous)
            for act in (cheap, full)
        ]
        return losses[0] - losses[1]

    def _weighted(self, terms: Mapping[str, np.ndarray]) -> np.ndarray:
        """The weighted sum of some terms, added in the order of the weights: the same
        bits for a cost and a loss.
        """
        return reduce(
            np.add,
            [
                weight * terms[name]
                for name, weight in self.weights.items()
                if name in terms
            ],
        )


def loss_weights(constants: Mapping[str, Any]) -> dict[str, float]:
    """The weights among the constants of a system, by the names of the loss terms."""
    return {
        name.removesuffix("_weight"): value
        for name, value in constants.items()
        if name.endswith("_weight")
    }


@dataclass(frozen=True)
class BrakingRule(Rule):
    """Three decelerations, chosen by two thresholds on the required deceleration."""

    required: BrakingSettings = field(default_factory=BrakingSettings)
    brake_from_mps2: float = 1.0
    hard_from_mps2: float = 3.5
    brake_mps2: float = 2.5
    hard_mps2: float = 6.0
    collision_from_mps2: float = 8.0
    shortfall_weight: float = 1.0
    excess_weight: float = 0.12
    change_weight: float = 0.02
    collision_weight: float = 6.0

    @property
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""
        return np.array([[0.0], [self.brake_mps2], [self.hard_mps2]])

    @property
    def reach_m(self) -> float:
        """Half the width of the corridor."""
        return self.required.corridor_m

    def needs(self, objects: Objects | Outlines, speed_mps: Speeds) -> Needs:
        """The required deceleration."""
        every_mps = np.broadcast_to(speed_mps, objects.frames)
        return required_deceleration_mps2(objects, every_mps, settings=self.required)

    def act(
        self, needs: Needs, speed_mps: Speeds, *, previous: Actions | None = None
    ) -> Actions:
        """The deceleration; nothing but the needs matters."""
        some = np.where(needs < self.hard_from_mps2, self.brake_mps2, self.hard_mps2)
        return np.where(needs < self.brake_from_mps2, 0.0, some)[:, None]

    def loss_terms(
        self, actions: Actions, needs: Needs, *, speed_mps: Speeds, previous: Actions
    ) -> dict[str, Float[np.ndarray, "time"]]:
        """Shortfall and excess of the deceleration, its change, and whether the
        shortfall means a collision.
        """
        action, before = actions[:, 0], previous[:, 0]
        shortfall = np.maximum(needs - action, 0.0)
        return {
            "shortfall": shortfall**2,
            "excess": np.maximum(action - needs, 0.0) ** 2,
            "change": np.where(np.isnan(before), 0.0, np.abs(action - before)),
            "collision": (shortfall >= self.collision_from_mps2).astype(float),
        }


@dataclass(frozen=True)
class RecedingHorizonRule(Rule):
    """Candidates, ego footprint and loss weights; the weights shape the plan too, so
    none is loss-only.
    """

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
        if (
            min(self.accelerations, self.offsets) < 1
            or not 0 < self.step_s <= self.horizon_s
        ):
            raise InputError(
                "A receding horizon needs accelerations and offsets of 1 or more, and "
                "0 < step_s <= "
                "horizon_s; "
                "found "
                f"{self.accelerations}, {self.offsets}, "
                f"{self.step_s:g} and {self.horizon_s:g}."
            )

    @property
    def choices(self) -> Float[np.ndarray, "choice act"]:
        """Every action, in the order in which ties are settled."""
        return _choices(
            self.hardest_mps2, self.accelerations, self.widest_m, self.offsets
        )

    @cached_property
    def times_s(self) -> Float[np.ndarray, "step"]:
        """Times at which a path is checked."""
        return np.arange(1, round(self.horizon_s / self.step_s) + 1) * self.step_s

    @cached_property
    def paths(
        self,
    ) -> tuple[Float[np.ndarray, "acceleration"], Float[np.ndarray, "offset step"]]:
        """Accelerations of the candidates, and y of each offset at each step."""
        u = self.times_s / self.horizon_s
        offsets = self.choices[: self.offsets, 1]
        return np.unique(self.choices[:, 0])[::-1], offsets[:, None] * (
            3 * u**2 - 2 * u**3
        )

    @property
    def reach_m(self) -> float:
        """Half the width that the candidates sweep, with the clearance."""
        return self.widest_m + self.half_width_m + self.clearance_m

    def needs(self, objects: Objects | Outlines, speed_mps: Speeds) -> Needs:
        """The worst clearance of every candidate."""
        return worst_clearances_m(self, objects, speed_mps)

    def act(self, needs: Needs, speed_mps: Speeds, *, previous: Actions) -> Actions:
        """The cheapest candidate."""
        return self.choices[self._costs(needs, speed_mps, previous).argmin(axis=1)]

    def _costs(
        self,
        needs: Float[np.ndarray, "*time choice"],
        speed_mps: Speeds,
        previous: Actions,
    ) -> Float[np.ndarray, "*_ choice"]:
        change = change_term(self.choices[None], previous[:, None])
        return self.fixed_costs(needs, speed_mps) + self.change_weight * change

    def value(
        self,
        cheap: Actions,
        needs: Float[np.ndarray, "2 draw *need"],
        *,
        speed_mps: Speeds,
        previous: Actions,
    ) -> np.ndarray:
        """The same, by costs of all candidates at once: the planning cost by the
        reference's needs is the loss.
        """
        costs, losses = self._costs(needs, speed_mps, previous)
        full, every = costs.argmin(axis=1), np.arange(len(losses))
        return losses[every, choice_index(self, cheap)] - losses[every, full]

    def fixed_costs(
        self, worst_m: Float[np.ndarray, "*time choice"], speed_mps: Speeds
    ) -> Float[np.ndarray, "*time choice"]:
        """Planning cost of every candidate without the change term."""
        return self._weighted(
            path_terms(self, worst_m, self.choices[None], speed_mps=speed_mps[:, None])
        )

    def loss_terms(
        self, actions: Actions, needs: Needs, *, speed_mps: Speeds, previous: Actions
    ) -> dict[str, Float[np.ndarray, "time"]]:
        """Terms of the chosen paths, and of the change."""
        chosen_m = np.take_along_axis(
            needs, choice_index(self, actions)[:, None], axis=1
        )[:, 0]
        return path_terms(self, chosen_m, actions, speed_mps=speed_mps) | {
            "change": change_term(actions, previous)
        }


@cache
def _choices(
    hardest_mps2: float, accelerations: int, widest_m: float, offsets: int
) -> Float[np.ndarray, "choice act"]:
    a = np.linspace(0.0, hardest_mps2, accelerations)
    d = np.linspace(-widest_m, widest_m, offsets)
    pairs = np.array(
        [
            (x, y)
            for x in sorted(a, key=abs)
            for y in sorted(d, key=lambda y: (abs(y), y))
        ]
    )
    pairs.setflags(write=False)
    return pairs


def change_term(
    actions: Float[np.ndarray, "*a act"], previous: Float[np.ndarray, "*b act"]
) -> np.ndarray:
    """(a - a_prev)^2 / 4 + (d - d_prev)^2, 0 where there is no previous action; leading
    axes broadcast.
    """
    change = (actions[..., 0] - previous[..., 0]) ** 2 / 4 + (
        actions[..., 1] - previous[..., 1]
    ) ** 2
    return np.where(np.isnan(change), 0.0, change)


def path_terms(
    system: RecedingHorizonRule,
    worst_m: np.ndarray,
    actions: np.ndarray,
    *,
    speed_mps: np.ndarray,
) -> dict[str, np.ndarray]:
    """Loss terms of paths with the given worst clearances, without the change term."""
    a, d = actions[..., 0], actions[..., 1]
    shortfall_m = np.minimum(
        np.maximum(system.clearance_m - worst_m, 0.0), system.most_shortfall_m
    )
    wanted_m = system.horizon_s * np.maximum(speed_mps, system.least_speed_mps)
    behind = np.maximum(
        1.0 - travelled_m(speed_mps, a, system.horizon_s) / wanted_m, 0.0
    )
    return {
        "collision": (worst_m < 0).astype(float),
        "clearance": shortfall_m**2,
        "progress": behind**2,
        "effort": a**2 * system.horizon_s,
        "offset": d**2,
    }


def choice_index(system: RecedingHorizonRule, actions: Actions) -> Int[np.ndarray, "_"]:
    """Index of each action among the system's choices."""
    same = (system.choices[None] == actions[:, None]).all(axis=-1)
    if not same.any(axis=1).all():
        raise InputError(
            "actions must be among the controller's candidates; found others: use "
            "those that it chose."
        )
    return same.argmax(axis=1)


def travelled_m(
    speed_mps: np.ndarray,
    acceleration_mps2: np.ndarray | float,
    time_s: np.ndarray | float,
) -> np.ndarray:
    """Distance after `time_s` at constant deceleration, standing still once stopped;
    arguments broadcast.
    """
    # Without braking the stop is so far away that only the time counts.
    moving_s = np.minimum(
        time_s, speed_mps / np.maximum(np.negative(acceleration_mps2), 1e-300)
    )
    return speed_mps * moving_s + 0.5 * acceleration_mps2 * moving_s**2


def reachable(
    system: RecedingHorizonRule, objects: Objects | Outlines, speed_mps: Speeds
) -> Objects | Outlines:
    """The objects that some candidate can come nearer than the clearance; the others
    change no cost.
    """
    speed = speed_mps if len(speed_mps) == 1 else speed_mps[objects.frame]
    nearest_m = travelled_m(speed, system.hardest_mps2, system.step_s)
    farthest_m = speed * float(system.times_s[-1])
    ahead = (nearest_m <= objects.far_m) & (
        farthest_m + system.length_m >= objects.near_m
    )
    side_m = system.widest_m + system.half_width_m
    beside = (objects.lateral_m[:, 0] - side_m < system.clearance_m) & (
        -side_m - objects.lateral_m[:, 1] < system.clearance_m
    )
    return objects.where(ahead & beside)


def overlapping_steps(
    system: RecedingHorizonRule, objects: Objects | Outlines, *, speed_mps: Speeds
) -> tuple[Int[np.ndarray, "acceleration obj"], Int[np.ndarray, "acceleration obj"]]:
    """First and last step at which ego and object overlap in x: one run, as the ego
    never reverses.

    Without an overlap, both are the number of steps.
    """
    x_m = travelled_m(
        speed_mps, system.paths[0][:, None, None], system.times_s[:, None]
    )
    x_m = x_m if len(speed_mps) == 1 else x_m[..., objects.frame]
    first = _count(x_m + system.length_m < objects.near_m)
    last = _count(x_m <= objects.far_m) - 1
    never = first > last
    first[never] = last[never] = x_m.shape[1]
    return first, last


def _count(marks: Bool[np.ndarray, "path step obj"]) -> Int[np.ndarray, "path obj"]:
    """Number of marked steps; narrow integers are several times as fast."""
    return np.add.reduce(marks, axis=1, dtype=np.int16)


def worst_clearances_m(
    system: RecedingHorizonRule, objects: Objects | Outlines, speed_mps: Speeds
) -> Float[np.ndarray, "time choice"]:
    """Smallest lateral clearance of every candidate over steps with overlap in x, +inf
    where none matters.

    Objects that stay at least `clearance_m` away from every candidate are left out,
    which changes no loss term. For one object and one offset the clearance falls and
    then rises along the path (y moves one way, the clearance is convex in y), so over a
    run of steps it is smallest at the step nearest to its overall minimum. Objects are
    the last axis, so that array operations have long inner loops.
    """
    near = reachable(system, objects, speed_mps)
    worst_m = np.full((objects.frames, len(system.choices)), np.inf)
    if not len(near):
        return worst_m
    first, last = overlapping_steps(system, near, speed_mps=speed_mps)
    y_m, (right_m, left_m) = system.paths[1][:, :, None], near.lateral_m.T
    offsets, steps, _ = y_m.shape
    every_m = np.full((offsets, steps + 1, len(near)), np.inf)
    every_m[:, :-1] = np.maximum(
        right_m - (y_m + system.half_width_m), (y_m - system.half_width_m) - left_m
    )
    lowest = _count(every_m[:, 1:] < every_m[:, :-1])
    step = np.minimum(np.maximum(lowest, first[:, None]), last[:, None]).astype(np.intp)
    cell = step * len(near) + (
        np.arange(offsets)[:, None] * (steps + 1) * len(near) + np.arange(len(near))
    )
    found_m, shift = every_m.ravel().take(cell).reshape(-1, len(near)), 1
    # The smallest of each frame goes to its first object, over a distance that doubles,
    # and is then written last.
    while (same := near.frame[shift:] == near.frame[:-shift]).any():
        np.minimum(
            found_m[:, :-shift],
            found_m[:, shift:] + np.where(same, 0.0, np.inf),
            out=found_m[:, :-shift],
        )
        shift *= 2
    worst_m[near.frame[::-1]] = found_m.T[::-1]
    return worst_m


RULES: dict[str, type[Rule]] = {
    "braking": BrakingRule,
    "receding-horizon": RecedingHorizonRule,
}
"""Name in an allocator's file -> rule."""
