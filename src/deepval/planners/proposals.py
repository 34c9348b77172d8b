"""Paths, target speeds and forecasts -> PDM-Closed's proposals: IDM along each path at each target speed.

Comments that start with "Quirk" say which behaviour of the published code is reproduced. See
docs/definitions.md, PDM-Closed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.geometry.vehicle import Vehicle
from deepval.planners.observation import ObservedAgents
from deepval.planners.roads import Geometry, LanePath, shapely

if TYPE_CHECKING:
    from deepval.planners.pdm_closed import PdmClosed

STEP_S = 0.1
MARGIN_M = 1e-3
LEAST_M = 1e-5
"""Quirk: the path's first pose is never looked up, only the one this far along it."""


@dataclass(frozen=True, eq=False)
class Guide:
    """A path to follow, the progress of the rear axle on it, and the corridor in which others count as ahead."""

    path: LanePath
    start_m: float
    corridor: Geometry

    def poses(self, progress_m: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch 3"]:
        """Poses of the rear axle."""
        return self.path.at(progress_m, least_m=LEAST_M)


def guide(path: LanePath, rear_axle_m: Float[np.ndarray, "2"], *, ahead_m: float, half_width_m: float) -> Guide:
    """A path as the ego is to follow it."""
    start_m = float(path.projected_m(rear_axle_m))
    corridor = path.corridor(start_m, start_m + ahead_m, half_width_m=half_width_m)
    shapely.prepare(corridor)
    return Guide(path, start_m, corridor)


class DriverModel(NamedTuple):
    """The driver model of the proposals."""

    min_gap_m: float
    headway_s: float
    acceleration_mps2: float
    deceleration_mps2: float
    exponent: float

    @classmethod
    def of(cls, planner: "PdmClosed") -> "DriverModel":
        """The driver model of a planner."""
        return cls(*(getattr(planner, name) for name in cls._fields))


class ProposalMotion(NamedTuple):
    """Progress and speed on a path, and the leader (progress, speed, rear length) that the last step looked at."""

    progress_m: Float[np.ndarray, "path speed index"]
    speed_mps: Float[np.ndarray, "path speed index"]
    leader: Float[np.ndarray, "path speed index 3"]


class Met(NamedTuple):
    """Others that meet a corridor in one map: the guide whose it is, who, progress of their centroid, polygon."""

    guide: list[int]
    who: list[int]
    progress_m: Float[np.ndarray, "met"]
    polygon: np.ndarray


def met_by(guides: list[Guide], observation: ObservedAgents, maps: range) -> list[Met]:
    """Who meets which guide's corridor, map by map."""
    moves = np.asarray(observation.forecast_mps.any(axis=1))
    ends_m = np.moveaxis(observation.centres_m[[maps.start, maps.stop - 1]], 0, 1)
    ways = shapely.points(ends_m[:, 0])
    ways[moves] = shapely.linestrings(ends_m[moves])
    rows = []
    for number, followed in enumerate(guides):
        near = shapely.dwithin(followed.corridor, ways, observation.radius_m + MARGIN_M)
        near &= ~observation.collided[: len(observation)]
        # What stands is looked at once, not in every map.
        movers, standing = np.flatnonzero(near & moves), np.flatnonzero(near & ~moves)
        j = np.concatenate([np.repeat(maps, len(movers)), np.full(len(standing), maps.start)])
        who = np.concatenate([np.tile(movers, len(maps)), standing])
        polygon = observation.polygons(j, who)
        hit = shapely.intersects(followed.corridor, polygon)
        progress_m = followed.path.projected_m(observation.centres_m[j[hit], who[hit]])
        rows.append((np.where(moves[who[hit]], j[hit], -1), number, who[hit], progress_m, polygon[hit]))
        red = np.flatnonzero(shapely.intersects(followed.corridor, observation.red))
        red = red[~observation.collided[len(observation) + red]]
        middles_m = shapely.get_coordinates(shapely.centroid(observation.red[red]))
        progress_m = followed.path.projected_m(middles_m)
        rows.append((np.full(len(red), -1), number, len(observation) + red, progress_m, observation.red[red]))
    in_map = np.concatenate([row[0] for row in rows])
    guide = np.concatenate([np.full(len(row[0]), row[1]) for row in rows])
    who, progress_m, polygon = (np.concatenate([row[part] for row in rows]) for part in (2, 3, 4))
    found = []
    for j in maps:
        here = np.flatnonzero((in_map == j) | (in_map == -1))
        found.append(Met(guide[here].tolist(), who[here].tolist(), progress_m[here], polygon[here]))
    return found


class Course(NamedTuple):
    """Where IDM is on each guide at each target speed, and whom it follows."""

    progress_m: Float[np.ndarray, "path speed"]
    speed_mps: Float[np.ndarray, "path speed"]
    leader: Float[np.ndarray, "path speed 3"]


@dataclass(frozen=True, eq=False)
class Driver:
    """IDM on several guides at several target speeds among what is observed."""

    policy: DriverModel
    guides: list[Guide]
    targets_mps: Float[np.ndarray, "path speed"]
    observation: ObservedAgents
    vehicle: Vehicle

    def driven(self, start: Course, indices: range) -> ProposalMotion:
        """Progress, speed and leader at the start and at each index (0.1 s apart) after it."""
        first_map, last_map = (indices.start + 1) // 2, (indices.stop - 1) // 2
        met = met_by(self.guides, self.observation, range(first_map, last_map + 1))
        policy = self.policy
        softness = 2 * np.sqrt(policy.acceleration_mps2 * policy.deceleration_mps2)
        courses = [start]
        progress_m, speed_mps, leader = start
        for index in indices:
            # Quirk: at odd indices the leaders of the index before are kept; at index 1 these are the zeros of
            # index 0, a leader at progress 0, so that whoever moves brakes hard for the first 0.1 s.
            if index % 2 == 0:
                leader = self._leaders(progress_m, met[index // 2 - first_map], in_map=index // 2)
            gap_m = np.maximum(leader[..., 0] - progress_m - leader[..., 2], policy.min_gap_m)
            closing = policy.headway_s + (speed_mps - leader[..., 1]) / softness
            wanted_m = policy.min_gap_m + speed_mps * closing
            change = policy.acceleration_mps2 * (
                1 - (speed_mps / self.targets_mps) ** policy.exponent - (wanted_m / gap_m) ** 2
            )
            change = np.minimum(np.maximum(change, -policy.deceleration_mps2), policy.acceleration_mps2)
            # Quirk: speeds may fall below 0; poses do not go back beyond the path's beginning.
            progress_m, speed_mps = progress_m + STEP_S * speed_mps, speed_mps + STEP_S * change
            courses.append(Course(progress_m, speed_mps, leader))
        return ProposalMotion(*(np.stack(part, axis=2) for part in zip(*courses, strict=True)))

    def _leaders(
        self, progress_m: Float[np.ndarray, "path speed"], met: Met, *, in_map: int
    ) -> Float[np.ndarray, "path speed 3"]:
        """The leader of each proposal by the state before, from the map of the time it is for."""
        if not met.who:
            return self._free
        pose = np.stack([guide.poses(mine_m) for guide, mine_m in zip(self.guides, progress_m, strict=True)])
        footprints = shapely.polygons(self.vehicle.corners_m(pose))
        away_m = shapely.distance(met.polygon[:, None], footprints[met.guide])
        away_m = np.where(met.progress_m[:, None] > progress_m[met.guide], away_m, np.inf)
        nearest = self._nearest(met, away_m, in_map=in_map)
        leader = np.empty((*progress_m.shape, 3))
        for row, guide in enumerate(self.guides):
            # Quirk: one buffer (progress, speed, rear length), zeros at first, goes through the proposals of a path.
            # An object writes progress and speed, a red light only progress, a free road progress and rear length;
            # what is not written is what the proposal before left there.
            speed_mps = rear_m = 0.0
            for place, (who, distance_m) in enumerate(nearest[row]):
                if who < 0:
                    to_m, rear_m = guide.path.length_m, self.vehicle.length_m / 2
                else:
                    to_m = progress_m[row, place] + distance_m
                    if who < len(self.observation):
                        turned_rad = self.observation.heading_rad[who] - pose[row, place, 2]
                        speed_mps = self.observation.speed_mps[who] * np.cos(turned_rad)
                leader[row, place] = to_m, speed_mps, rear_m
        return leader

    @cached_property
    def _free(self) -> Float[np.ndarray, "path speed 3"]:
        """The end of each path as leader."""
        leader = np.zeros((*self.targets_mps.shape, 3))
        leader[..., 0] = np.array([[guide.path.length_m] for guide in self.guides])
        leader[..., 2] = self.vehicle.length_m / 2
        return leader

    def _nearest(
        self, met: Met, away_m: Float[np.ndarray, "met speed"], *, in_map: int
    ) -> list[list[tuple[int, float]]]:
        """Who is nearest to each proposal and how far away; -1 where nobody is ahead."""
        nearest = [[(-1, np.inf)] * away_m.shape[1] for _ in self.guides]
        tied = set()
        for row, who, distances_m in zip(met.guide, met.who, away_m.tolist(), strict=True):
            for place, distance_m in enumerate(distances_m):
                if distance_m < nearest[row][place][1]:
                    nearest[row][place] = who, distance_m
                elif distance_m == nearest[row][place][1] < np.inf:
                    tied.add(row)
        for row in tied:
            # Quirk: of several that are equally near (footprints that overlap) the published spatial index decides.
            named = self.observation.tree_order(in_map, self.guides[row].corridor).tolist()
            mine = {who: away_m[place] for place, who in enumerate(met.who) if met.guide[place] == row}
            for place in range(away_m.shape[1]):
                first = min((who for who in named if who in mine), key=lambda who: mine[who][place])
                if mine[first][place] < np.inf:
                    nearest[row][place] = first, float(mine[first][place])
        return nearest
