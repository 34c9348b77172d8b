"""A vehicle and another that touch -> how they met, and whether the vehicle is at fault: nuPlan's rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deepval.arrays import Float
from deepval.geometry.corners import ground_corners_m
from deepval.geometry.vehicle import Vehicle
from deepval.planners.rectangles import Rectangles, directions, overlapping
from deepval.planners.situation import STATIC, Agents
from deepval.planners.tracking import STEP_S
from deepval.world.lanes import LaneMap

STOPPED_MPS = 0.05
BEHIND_RAD = np.deg2rad(150.0)
EGO_STOPPED, OTHER_STOPPED, FROM_BEHIND = "ego stopped", "other stopped", "from behind"
AHEAD, BESIDE = "ahead", "beside"


@dataclass(frozen=True)
class Contact:
    """The first touch of one of the others.

    `how` is "ego stopped", "other stopped", "from behind", "ahead" (the front bumper touches) or "beside".
    """

    time_s: float
    agent: str
    how: str
    at_fault: bool
    ego_speed_mps: float
    agent_speed_mps: float


def footprints_m(agents: Agents) -> Float[np.ndarray, "agent 4 2"]:
    """Ground corners of the others."""
    return ground_corners_m(agents.pose[:, :2], agents.size_m, yaw_rad=agents.pose[:, 2])


def as_moved(replayed: Sequence[Agents], step: int) -> Agents:
    """The others at a step; who is not there at the next one has the velocity of its last movement.

    Records whose velocities are differences to the next position have none, or 0, at the end of a track.
    """
    now, before = replayed[step], replayed[max(step - 1, 0)]
    later = replayed[step + 1].id if step + 1 < len(replayed) else now.id[:0]
    velocity_mps, known = now.velocity_mps.copy(), {str(name): place for place, name in enumerate(before.id)}
    for place in np.flatnonzero(~np.isin(now.id, later)):
        if step and str(now.id[place]) in known:
            moved_m = now.pose[place, :2] - before.pose[known[str(now.id[place])], :2]
            velocity_mps[place] = moved_m / STEP_S
    return replace(now, velocity_mps=velocity_mps)


def meeting(pose: Float[np.ndarray, "3"], speed_mps: float, *, vehicle: Vehicle, agents: Agents, place: int) -> str:
    """How the vehicle meets the agent at `place`, which it touches."""
    if abs(speed_mps) <= STOPPED_MPS:
        return EGO_STOPPED
    if agents.kind[place] == STATIC or np.hypot(*agents.velocity_mps[place]) <= STOPPED_MPS:
        return OTHER_STOPPED
    towards = agents.pose[place, :2] - pose[:2]
    angle = np.arctan2(towards[1], towards[0]) - pose[2]
    if abs(np.remainder(angle + np.pi, 2 * np.pi) - np.pi) > BEHIND_RAD:
        return FROM_BEHIND
    return AHEAD if _hit_by_bumper(pose, vehicle, agents=agents, place=place) else BESIDE


def at_fault(how: str, footprint_m: Float[np.ndarray, "4 2"], *, lane_map: LaneMap) -> bool:
    """Whether the vehicle is to blame; from beside only where it is astray: in several lanes or off the road."""
    return how in (OTHER_STOPPED, AHEAD) or (how == BESIDE and astray(footprint_m, lane_map))


def astray(footprint_m: Float[np.ndarray, "4 2"], lane_map: LaneMap) -> bool:
    """Whether a corner is on no drivable ground, or the corners lie in several lanes none of which holds them all."""
    from deepval.planners.roads import roads_of
    from deepval.planners.shapes import shapely

    roads = roads_of(lane_map)
    near = roads.ground[roads.near(shapely.Polygon(footprint_m), 0.0)]
    inside = shapely.contains_xy(near[:, None], *footprint_m.T)
    several = inside.any(axis=1).sum() > 1 and not inside.all(axis=1).any()
    return bool(several or not inside.any(axis=0).all())


def _hit_by_bumper(pose: Float[np.ndarray, "3"], vehicle: Vehicle, *, agents: Agents, place: int) -> bool:
    """Whether the front bumper, a rectangle without length, touches the agent."""
    ahead, at = directions(pose[2:]), slice(place, place + 1)
    bumper = Rectangles(pose[:2] + vehicle.front_m * ahead, ahead, np.array([[0.0, vehicle.width_m / 2]]))
    other = Rectangles(agents.pose[at, :2], directions(agents.pose[at, 2]), agents.size_m[at] / 2)
    return bool(overlapping(bumper, other)[0])
