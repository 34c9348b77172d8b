"""Simulated proposals -> PDM-Closed's scores.

No collision x drivable area x direction x (5 progress + 5 time to collision + 2
comfort) / 12. Only the first overlap of a proposal with an agent counts: if the ego is
at fault, it decides the score; otherwise the agent is ignored from then on. Time to
collision follows the same rule with a list of its own. See docs/definitions.md,
PDM-Closed.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import library
from deepval.driving.geometry.vehicle import Vehicle
from deepval.driving.planners.observation import ObservedAgents
from deepval.driving.planners.roads import (
    DrivableGround,
    LanePath,
    Rectangles,
    directions,
    rectangles_overlap,
)
from deepval.driving.planners.tracking import AX, AY, HEADING, STEP_S, VX, VY

AHEAD_STEPS = (0, 3, 6, 9)
"""Time to collision looks these numbers of steps ahead, with the ego at constant
velocity.
"""
STOPPED_MPS, CREEPING_MPS = 0.05, 5e-3
"""Speeds up to which a vehicle is stopped in a collision, and below which time to
collision ignores a state.
"""
AHEAD_RAD, BEHIND_RAD = np.deg2rad(30), np.deg2rad(150)
ONCOMING_M = (2.0, 6.0)
"""Distances off the route below which the direction factor is 1 and 0.5."""
LEAST_PROGRESS_M = 0.1
"""Progress of the best proposal up to which all of them count as standing."""
WEIGHTS = {"progress": 5.0, "ttc": 5.0, "comfort": 2.0}
SAMPLES = 41
ACCELERATION_MPS2 = (-4.05, 2.40)
LATERAL_ACCELERATION_MPS2 = 4.89
JERK_MPS3, ALONG_JERK_MPS3 = 8.37, 4.13
YAW_ACCELERATION_RADPS2, YAW_RATE_RADPS = 1.93, 0.95


@dataclass(frozen=True, eq=False)
class ProposalScores:
    """The score of every proposal, its terms, and the time of its first collision or
    near miss (inf: never).
    """

    score: Float[np.ndarray, "prop"]
    no_collision: Float[np.ndarray, "prop"]
    drivable_area: Float[np.ndarray, "prop"]
    driving_direction: Float[np.ndarray, "prop"]
    progress: Float[np.ndarray, "prop"]
    ttc: Float[np.ndarray, "prop"]
    comfort: Float[np.ndarray, "prop"]
    progress_m: Float[np.ndarray, "prop"]
    collision_s: Float[np.ndarray, "prop"]
    ttc_s: Float[np.ndarray, "prop"]


@dataclass(frozen=True, eq=False)
class Rides:
    """Simulated proposals and their quantities that do not depend on other agents."""

    states: Float[np.ndarray, "prop 41 11"]
    vehicle: Vehicle
    ground: DrivableGround
    comfortable: Bool[np.ndarray, "prop"]
    progress_m: Float[np.ndarray, "prop"]

    def __getitem__(self, chosen: Int[np.ndarray, "some"]) -> "Rides":
        """Some of the proposals, with the quantities already computed for all."""
        part = Rides(
            self.states[chosen],
            self.vehicle,
            self.ground,
            self.comfortable[chosen],
            self.progress_m[chosen],
        )
        # Branches share most proposals: quantities computed for all of them are passed
        # on, not computed again.
        for name in (
            "ahead",
            "centre_m",
            "corners_m",
            "speed_mps",
            "off_road",
            "oncoming_m",
        ):
            part.__dict__[name] = getattr(self, name)[chosen]
        return part

    @cached_property
    def ahead(self) -> Float[np.ndarray, "prop 41 2"]:
        """Unit vectors along the headings."""
        return directions(self.states[..., HEADING])

    @cached_property
    def centre_m(self) -> Float[np.ndarray, "prop 41 2"]:
        """Centres."""
        return self.vehicle.centres_m(self.states[..., :3])

    @cached_property
    def corners_m(self) -> Float[np.ndarray, "prop 41 4 2"]:
        """Footprints."""
        return self.vehicle.corners_m(self.states[..., :3])

    @cached_property
    def speed_mps(self) -> Float[np.ndarray, "prop 41"]:
        """Speeds, not negative."""
        return np.hypot(self.states[..., VX], self.states[..., VY])

    @cached_property
    def off_road(self) -> Bool[np.ndarray, "prop 41"]:
        """Whether a corner is off the road."""
        return self.ground.off_road(self.corners_m)

    @cached_property
    def oncoming_m(self) -> Float[np.ndarray, "prop"]:
        """Longest uninterrupted distance off the route, counting steps that end
        there.
        """
        off = self.ground.off_route(self.centre_m)
        moved_m = np.hypot(*np.moveaxis(np.diff(self.centre_m, axis=1), -1, 0))
        # The step to a state counts where that state is off the route; one state on the
        # route ends the run.
        longest = run = np.zeros(len(off))
        for step in range(1, off.shape[1]) if off.any() else ():
            run = np.where(off[:, step], run + moved_m[:, step - 1], 0.0)
            longest = np.maximum(longest, run)
        return longest

    def footprints(
        self, prop: Int[np.ndarray, "pair"], index: Int[np.ndarray, "pair"]
    ) -> Rectangles:
        """Footprints of proposals at indices, pair by pair."""
        half_m = np.array([self.vehicle.length_m, self.vehicle.width_m]) / 2
        return Rectangles(
            self.centre_m[prop, index],
            self.ahead[prop, index],
            np.broadcast_to(half_m, (len(prop), 2)),
        )

    def bumpers(
        self, prop: Int[np.ndarray, "pair"], index: Int[np.ndarray, "pair"]
    ) -> Rectangles:
        """Front bumpers: rectangles without length."""
        half_m = np.broadcast_to([0.0, self.vehicle.width_m / 2], (len(prop), 2))
        ahead = self.ahead[prop, index]
        return Rectangles(
            self.states[prop, index, :2] + self.vehicle.front_m * ahead, ahead, half_m
        )


def rides(
    states: Float[np.ndarray, "prop 41 11"],
    vehicle: Vehicle,
    *,
    ground: DrivableGround,
    centreline: LanePath,
) -> Rides:
    """Simulated proposals with their comfort and their progress along the centreline,
    never below 0.
    """
    ends_m = vehicle.centres_m(states[:, [0, -1], :3])
    progress_m = np.maximum(
        np.diff(centreline.progress_at_m(ends_m), axis=1)[:, 0], 0.0
    )
    return Rides(states, vehicle, ground, comfortable(states), progress_m)


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Every overlap: proposal, agent, index of the ego state, and the number of steps
    looked ahead.
    """

    prop: Int[np.ndarray, "overlap"]
    who: Int[np.ndarray, "overlap"]
    index: Int[np.ndarray, "overlap"]
    step: Int[np.ndarray, "overlap"]


@dataclass(frozen=True, eq=False)
class Events:
    """First overlaps, one per overlapping proposal and agent: index of the ego state,
    and index of the map.
    """

    prop: Int[np.ndarray, "event"]
    who: Int[np.ndarray, "event"]
    index: Int[np.ndarray, "event"]
    in_map: Int[np.ndarray, "event"]


def score_proposals(rides: Rides, observation: ObservedAgents) -> ProposalScores:
    """The scores of proposals among the observed agents."""
    overlaps = _overlaps(rides, observation)
    no_collision, collision_s = _collisions(rides, observation, overlaps)
    near_ttc, ttc_s = _times_to_collision(rides, observation, overlaps)
    drivable = np.where(rides.off_road.any(axis=1), 0.0, 1.0)
    direction = np.select(
        [rides.oncoming_m < bound for bound in ONCOMING_M], [1.0, 0.5], 0.0
    )
    # The three rules multiply: a proposal that breaks one cannot buy it back by
    # progress or comfort.
    factor = no_collision * drivable * direction
    gained_m = rides.progress_m * factor
    # Progress is relative to the best proposal that breaks no rule; where all stand,
    # progress does not separate them.
    most_m = gained_m.max()
    progress = (
        gained_m / most_m
        if most_m > LEAST_PROGRESS_M
        else np.where(factor == 0, 0.0, 1.0)
    )
    comfort = np.where(rides.comfortable, 1.0, 0.0)
    terms = {"progress": progress, "ttc": near_ttc, "comfort": comfort}
    weighted = sum(WEIGHTS[name] * term for name, term in terms.items()) / sum(
        WEIGHTS.values()
    )
    return ProposalScores(
        score=factor * weighted,
        no_collision=no_collision,
        drivable_area=drivable,
        driving_direction=direction,
        **terms,
        progress_m=rides.progress_m,
        collision_s=collision_s,
        ttc_s=ttc_s,
    )


def _collisions(
    rides: Rides, observation: ObservedAgents, overlaps: Overlaps
) -> tuple[Float[np.ndarray, "prop"], Float[np.ndarray, "prop"]]:
    """Factor (0 if the ego is at fault, 0.5 if only with static objects) and time of
    the first collision at fault.
    """
    events = _first_events(overlaps, overlaps.step == 0)
    prop, who, index, in_map = events.prop, events.who, events.index, events.in_map
    stopped = rides.speed_mps[prop, index] <= STOPPED_MPS
    stopped_other = observation.static[who] | (
        observation.speed_mps[who] <= STOPPED_MPS
    )
    _, behind = _ahead_and_behind(rides, observation, events)
    front = rectangles_overlap(
        rides.bumpers(prop, index), observation.rectangles(in_map, who)
    )
    # The published rules in order: a stopped ego is not at fault; hitting a stopped
    # agent is always the ego's fault; being hit from behind never is; a contact at the
    # front bumper always is. Only other contacts need the lanes, the most expensive
    # test.
    at_fault = ~stopped & (stopped_other | (~behind & front))
    aside = np.flatnonzero(~stopped & ~stopped_other & ~behind & ~front)
    at_fault[aside] = _between_lanes(rides, prop[aside], index[aside])
    # Minima, because a proposal may collide with several agents: the worst factor and
    # the earliest time stay.
    factor, first = np.ones(len(rides.states)), np.full(len(rides.states), np.inf)
    np.minimum.at(
        factor, prop[at_fault], np.where(observation.static[who[at_fault]], 0.5, 0.0)
    )
    np.minimum.at(first, prop[at_fault], STEP_S * index[at_fault])
    return factor, first


def _times_to_collision(
    rides: Rides, observation: ObservedAgents, overlaps: Overlaps
) -> tuple[Float[np.ndarray, "prop"], Float[np.ndarray, "prop"]]:
    """1 if no agent comes too near, otherwise 0, and the time of the first ego state at
    which one does.
    """
    events = _first_events(
        overlaps, rides.speed_mps[overlaps.prop, overlaps.index] >= CREEPING_MPS
    )
    ahead, behind = _ahead_and_behind(rides, observation, events)
    # An agent ahead is always too near, an agent behind never. For the others the ego's
    # position decides: off the road, in several lanes or, tested last and only where
    # still open, in an intersection.
    too_near = ahead.copy()
    doubtful = np.flatnonzero(~ahead & ~behind)
    prop, index = events.prop[doubtful], events.index[doubtful]
    too_near[doubtful] = _between_lanes(rides, prop, index)
    left = doubtful[~too_near[doubtful]]
    too_near[left] = rides.ground.roads.in_intersection(
        rides.states[events.prop[left], events.index[left], :2]
    )
    score, first = np.ones(len(rides.states)), np.full(len(rides.states), np.inf)
    score[events.prop[too_near]] = 0.0
    np.minimum.at(first, events.prop[too_near], STEP_S * events.index[too_near])
    return score, first


def _overlaps(rides: Rides, observation: ObservedAgents) -> Overlaps:
    """Overlaps of all proposals with all agents that the ego does not overlap
    already.
    """
    reach_m = (
        np.hypot(rides.vehicle.length_m, rides.vehicle.width_m) / 2
        + observation.radius_m
    )
    index = np.arange(rides.states.shape[1])
    # The ego moves on straight at its present speed; `_first_events` later prefers
    # fewer steps ahead.
    centres_m = [
        rides.centre_m + STEP_S * step * rides.speed_mps[..., None] * rides.ahead
        for step in AHEAD_STEPS
    ]
    # Cheap tests first: an agent whose way and radius miss the box around all proposals
    # cannot overlap, and only pairs within the sum of the radii need the exact test of
    # rectangles.
    low_m = np.min([centre_m.min(axis=(0, 1)) for centre_m in centres_m], axis=0)
    high_m = np.max([centre_m.max(axis=(0, 1)) for centre_m in centres_m], axis=0)
    theirs_m = observation.centres_m[: (index[-1] + AHEAD_STEPS[-1]) // 2 + 1]
    crosses = (theirs_m.max(axis=0) + reach_m[:, None] >= low_m) & (
        theirs_m.min(axis=0) - reach_m[:, None] <= high_m
    )
    open_to = np.flatnonzero(
        crosses.all(axis=1) & ~observation.collided[: len(observation)]
    )
    rows = []
    for step, centre_m in zip(AHEAD_STEPS, centres_m, strict=True):
        # Maps are two steps apart: an odd number of steps looks at the map one step
        # earlier.
        maps = (index + step) // 2
        away_m = centre_m[:, :, None] - theirs_m[maps][:, open_to]
        prop, at, which = np.nonzero(
            away_m[..., 0] ** 2 + away_m[..., 1] ** 2 <= reach_m[open_to] ** 2
        )
        who = open_to[which]
        own = rides.footprints(prop, at)
        hit = rectangles_overlap(
            Rectangles(centre_m[prop, at], own.ahead, own.half_m),
            observation.rectangles(maps[at], who),
        )
        rows.append(np.stack([prop, who, at, np.full(len(prop), step)])[:, hit])
    return Overlaps(*np.concatenate(rows, axis=1))


def _first_events(overlaps: Overlaps, counted: Bool[np.ndarray, "overlap"]) -> Events:
    """The first counted overlap of every proposal with every agent: by index, then by
    steps looked ahead.
    """
    parts = (overlaps.prop, overlaps.who, overlaps.index, overlaps.step)
    prop, who, index, step = (part[counted] for part in parts)
    # The last key sorts first: by proposal and agent, then by time. The first row of a
    # pair is its first overlap.
    order = np.lexsort([step, index, who, prop])
    prop, who, index, step = prop[order], who[order], index[order], step[order]
    first = np.append(True, (np.diff(prop) != 0) | (np.diff(who) != 0))[: len(prop)]
    return Events(prop[first], who[first], index[first], (index + step)[first] // 2)


def _ahead_and_behind(
    rides: Rides, observation: ObservedAgents, events: Events
) -> tuple[Bool[np.ndarray, "event"], Bool[np.ndarray, "event"]]:
    """Whether agents are ahead (less than 30 degrees off the heading) or behind (more
    than 150), from the rear axle.
    """
    to_m = (
        observation.centres_m[events.in_map, events.who]
        - rides.states[events.prop, events.index, :2]
    )
    along_m = (to_m * rides.ahead[events.prop, events.index]).sum(axis=1)
    away_m = np.hypot(to_m[:, 0], to_m[:, 1])
    # Cosines instead of angles: the same comparison without an arccos or a division by
    # a distance of 0.
    return along_m > np.cos(AHEAD_RAD) * away_m, along_m < np.cos(BEHIND_RAD) * away_m


def _between_lanes(
    rides: Rides, prop: Int[np.ndarray, "event"], index: Int[np.ndarray, "event"]
) -> Bool[np.ndarray, "event"]:
    """Whether the ego is off the road or in several lanes."""
    off = rides.off_road[prop, index]
    # Off the road is known for all states; only the others need the lanes of every
    # corner.
    on = np.flatnonzero(~off)
    off[on] = rides.ground.in_several_lanes(rides.corners_m[prop[on], index[on]])
    return off


def comfortable(states: Float[np.ndarray, "prop 41 11"]) -> Bool[np.ndarray, "prop"]:
    """Whether accelerations, jerks, yaw rate and yaw acceleration stay strictly within
    their bounds at every sample.
    """
    along, across = states[..., AX], states[..., AY]
    heading = np.unwrap(states[..., HEADING], axis=-1)
    lowest, highest = ACCELERATION_MPS2
    along_filtered = _filter_series(along, window=SAMPLES, order=2)
    return (
        np.all((along_filtered > lowest) & (along_filtered < highest), axis=-1)
        & _within(
            _filter_series(across, window=SAMPLES, order=2), LATERAL_ACCELERATION_MPS2
        )
        # Quirk: the jerk's magnitude is the derivative of the magnitude of the
        # acceleration.
        & _within(_jerk_mps3(np.hypot(along, across)), JERK_MPS3)
        & _within(_jerk_mps3(along), ALONG_JERK_MPS3)
        # Quirk: the window that the published code asks for here does not reach the
        # filter; 5 is the filter's own.
        & _within(
            _filter_series(heading, window=5, order=3, derivative=2),
            YAW_ACCELERATION_RADPS2,
        )
        & _within(
            _filter_series(heading, window=5, order=2, derivative=1), YAW_RATE_RADPS
        )
    )


def _within(
    series: Float[np.ndarray, "prop 41"], bound: float
) -> Bool[np.ndarray, "prop"]:
    return np.all(np.abs(series) < bound, axis=-1)


def _jerk_mps3(
    acceleration_mps2: Float[np.ndarray, "prop 41"],
) -> Float[np.ndarray, "prop 41"]:
    smooth = _filter_series(acceleration_mps2, window=8, order=2)
    return _filter_series(smooth, window=SAMPLES, order=2, derivative=1)


def _filter_series(
    series: Float[np.ndarray, "prop 41"],
    *,
    window: int,
    order: int,
    derivative: int = 0,
) -> Float[np.ndarray, "prop 41"]:
    # Quirk: every filtered series is rounded to 8 decimals before it is compared or
    # filtered again.
    return np.round(series @ _filter(window, order, derivative).T, 8)


@cache
def _filter(window: int, order: int, derivative: int) -> Float[np.ndarray, "41 41"]:
    """The filter as a matrix: its response to every unit sample."""
    signal = library("scipy.signal", purpose="Planning", extra="planners")
    return np.asarray(
        signal.savgol_filter(
            np.eye(SAMPLES), window, order, deriv=derivative, delta=STEP_S, axis=0
        )
    )
