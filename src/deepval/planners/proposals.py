"""Paths, target speeds and forecasts -> PDM-Closed's proposals: IDM along each path at each target speed.

Comments that start with "Quirk" say which behaviour of the published code is reproduced. See Definitions, "PDM-Closed".
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.geometry.vehicle import Vehicle
from deepval.planners.observation import Observation
from deepval.planners.paths import Path
from deepval.planners.shapes import shapely

if TYPE_CHECKING:
    from deepval.planners.pdm_closed import PdmClosed

STEP_S = 0.1
LEAST_M = 1e-5
"""Quirk: the path's first pose is never looked up, only the one this far along it."""


@dataclass(frozen=True, eq=False)
class Guide:
    """A path to follow, the progress of the rear axle on it, and the corridor in which others count as ahead."""

    path: Path
    start_m: float
    corridor: shapely.Geometry
    samples_m: Float[np.ndarray, "sample 2"]
    reach_m: float
    """How far its corridor reaches from the nearest of some points along it."""

    def poses(self, progress_m: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch 3"]:
        """Poses of the rear axle."""
        return self.path.at(progress_m, least_m=LEAST_M)


SPACING_M = 2.0


def guide(path: Path, rear_axle_m: Float[np.ndarray, "2"], *, ahead_m: float, half_width_m: float) -> Guide:
    """A path as the ego is to follow it."""
    start_m = float(path.projected_m(rear_axle_m))
    corridor = path.corridor(start_m, start_m + ahead_m, half_width_m=half_width_m)
    shapely.prepare(corridor)
    samples = path.at(np.arange(start_m, min(start_m + ahead_m, path.length_m) + SPACING_M, SPACING_M))
    return Guide(path, start_m, corridor, samples[:, :2], half_width_m * np.sqrt(2) + SPACING_M / 2)


class Policy(NamedTuple):
    """The driver model of the proposals."""

    min_gap_m: float
    headway_s: float
    acceleration_mps2: float
    deceleration_mps2: float
    exponent: float

    @classmethod
    def of(cls, planner: "PdmClosed") -> "Policy":
        """The driver model of a planner."""
        return cls(*(getattr(planner, name) for name in cls._fields))


class Motion(NamedTuple):
    """Progress and speed on a path, and the leader (progress, speed, rear length) that the last step looked at."""

    progress_m: Float[np.ndarray, "path speed index"]
    speed_mps: Float[np.ndarray, "path speed index"]
    leader: Float[np.ndarray, "path speed index 3"]


class Met(NamedTuple):
    """Others that meet a guide's corridor in one map: who, progress of their centroid, polygon."""

    who: Int[np.ndarray, "met"]
    progress_m: Float[np.ndarray, "met"]
    polygon: np.ndarray


def met_by(guides: list[Guide], observation: Observation, maps: range) -> list[list[Met]]:
    """Who meets each guide's corridor, map by map (outer) and guide by guide."""
    j, who = _near(guides, observation, maps)
    # What stands is looked at once, not in every map.
    moves = observation.forecast_mps.any(axis=1)
    _, first, again = np.unique(np.where(moves[who], j + 1, 0) * len(observation) + who, True, True)
    polygons = observation.polygons(j[first], who[first])
    found: list[list[Met]] = [[] for _ in maps]
    for followed in guides:
        pairs = np.flatnonzero(shapely.intersects(followed.corridor, polygons)[again] & ~observation.collided[who])
        progress_m = followed.path.projected_m(observation.centres_m[j[pairs], who[pairs]])
        bounds = np.searchsorted(j[pairs], np.arange(maps.start, maps.stop + 1)).tolist()
        red = _red_lights(followed, observation)
        for place, (begin, end) in enumerate(pairwise(bounds)):
            here = pairs[begin:end]
            met = Met(who[here], progress_m[begin:end], polygons[again[here]])
            found[place].append(Met(*map(np.concatenate, zip(met, red, strict=True))) if len(red.who) else met)
    return found


def _near(
    guides: list[Guide], observation: Observation, maps: range
) -> tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"]]:
    """Maps and others, sorted by map, of all that come near enough to a corridor to be looked at."""
    samples_m = np.concatenate([followed.samples_m for followed in guides])
    centres_m = observation.centres_m[maps.start : maps.stop]
    reach_m = observation.radius_m + max(followed.reach_m for followed in guides)
    inside = (centres_m >= samples_m.min(axis=0) - reach_m[:, None]) & (
        centres_m <= samples_m.max(axis=0) + reach_m[:, None]
    )
    place, who = np.nonzero(inside.all(axis=2))
    away = centres_m[place, who][:, None] - samples_m
    near = ((away**2).sum(axis=2) <= reach_m[who, None] ** 2).any(axis=1)
    return place[near] + maps.start, who[near]


def _red_lights(followed: Guide, observation: Observation) -> Met:
    who = np.flatnonzero(shapely.intersects(followed.corridor, observation.red))
    who = who[~observation.collided[len(observation) + who]]
    middles_m = shapely.get_coordinates(shapely.centroid(observation.red[who]))
    return Met(len(observation) + who, followed.path.projected_m(middles_m), observation.red[who])


class Course(NamedTuple):
    """Where IDM is on each guide at each target speed, and whom it follows."""

    progress_m: Float[np.ndarray, "path speed"]
    speed_mps: Float[np.ndarray, "path speed"]
    leader: Float[np.ndarray, "path speed 3"]


@dataclass(frozen=True, eq=False)
class Driver:
    """IDM on several guides at several target speeds among what is observed."""

    policy: Policy
    guides: list[Guide]
    targets_mps: Float[np.ndarray, "path speed"]
    observation: Observation
    vehicle: Vehicle

    def driven(self, start: Course, indices: range) -> Motion:
        """Progress, speed and leader at the start and at each index (0.1 s apart) after it."""
        met = met_by(self.guides, self.observation, range((indices.start + 1) // 2, (indices.stop - 1) // 2 + 1))
        courses, first_map = [start], (indices.start + 1) // 2
        for index in indices:
            now = courses[-1]
            # Quirk: at odd indices the leaders of the index before are kept; at index 1 these are the zeros of
            # index 0, a leader at progress 0, so that whoever moves brakes hard for the first 0.1 s.
            leader = now.leader if index % 2 else self._leaders(now, met[index // 2 - first_map], in_map=index // 2)
            change = self._acceleration(now, leader)
            # Quirk: speeds may fall below 0; poses do not go back beyond the path's beginning.
            courses.append(Course(now.progress_m + STEP_S * now.speed_mps, now.speed_mps + STEP_S * change, leader))
        return Motion(*(np.stack(part, axis=2) for part in zip(*courses, strict=True)))

    def _acceleration(self, now: Course, leader: Float[np.ndarray, "path speed 3"]) -> Float[np.ndarray, "path speed"]:
        policy, speed = self.policy, now.speed_mps
        softness = 2 * np.sqrt(policy.acceleration_mps2 * policy.deceleration_mps2)
        wanted_m = policy.min_gap_m + speed * policy.headway_s + speed * (speed - leader[..., 1]) / softness
        gap_m = np.maximum(leader[..., 0] - now.progress_m - leader[..., 2], policy.min_gap_m)
        change = policy.acceleration_mps2 * (
            1 - (speed / self.targets_mps) ** policy.exponent - (wanted_m / gap_m) ** 2
        )
        return np.clip(change, -policy.deceleration_mps2, policy.acceleration_mps2)

    def _leaders(self, now: Course, met: list[Met], *, in_map: int) -> Float[np.ndarray, "path speed 3"]:
        """The leader of each proposal by the state before, from the map of the time it is for."""
        leader = np.zeros((*now.progress_m.shape, 3))
        for row, (guide, others) in enumerate(zip(self.guides, met, strict=True)):
            if len(others.who):
                self._follow(leader[row], now.progress_m[row], guide=guide, others=others, in_map=in_map)
            else:
                leader[row, :, 0] = guide.path.length_m
                leader[row, :, 2] = self.vehicle.length_m / 2
        return leader

    def _follow(
        self,
        leader: Float[np.ndarray, "speed 3"],
        progress_m: Float[np.ndarray, "speed"],
        *,
        guide: Guide,
        others: Met,
        in_map: int,
    ) -> None:
        """Write the leaders of one path's proposals."""
        pose = guide.poses(progress_m)
        footprints = shapely.polygons(self.vehicle.corners_m(pose))
        distance_m = np.where(
            others.progress_m[:, None] > progress_m,
            shapely.distance(others.polygon[:, None], footprints),
            np.inf,
        )
        least_m = distance_m.min(axis=0)
        nearest = others.who[np.argmin(distance_m, axis=0)]
        if (((distance_m == least_m) & (least_m < np.inf)).sum(axis=0) > 1).any():
            # Quirk: of several that are equally near (footprints that overlap) the published spatial index decides.
            named = {
                who: place for place, who in enumerate(self.observation.tree_order(in_map, guide.corridor).tolist())
            }
            order = np.argsort([named[who] for who in others.who.tolist()])
            nearest = others.who[order][np.argmin(distance_m[order], axis=0)]
        # Quirk: one buffer (progress, speed, rear length), zeros at first, goes through the proposals of a path. An
        # object writes progress and speed, a red light only progress, a free road progress and rear length; what is
        # not written is what the proposal before left there.
        speed_mps = rear_m = 0.0
        for place, (who, away_m) in enumerate(zip(nearest.tolist(), least_m.tolist(), strict=True)):
            if away_m == np.inf:
                to_m, rear_m = guide.path.length_m, self.vehicle.length_m / 2
            else:
                to_m = progress_m[place] + away_m
                if who < len(self.observation):
                    turned_rad = self.observation.heading_rad[who] - pose[place, 2]
                    speed_mps = self.observation.speed_mps[who] * np.cos(turned_rad)
            leader[place] = to_m, speed_mps, rear_m
