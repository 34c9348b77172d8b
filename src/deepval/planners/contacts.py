"""A vehicle and another that touch -> how they met, and whether the vehicle is at fault: nuPlan's rules."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.geometry.corners import ground_corners_m
from deepval.geometry.vehicle import Vehicle
from deepval.planners.situation import STATIC, Agents
from deepval.world.lanes import Lane, LaneMap

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
    bumper = vehicle.corners_m(pose)[:2]
    return AHEAD if _meets(bumper, agents.pose[place], agents.size_m[place]) else BESIDE


def at_fault(how: str, footprint_m: Float[np.ndarray, "4 2"], *, lane_map: LaneMap) -> bool:
    """Whether the vehicle is to blame; from beside only where it is astray: in several lanes or off the road."""
    return how in (OTHER_STOPPED, AHEAD) or (how == BESIDE and astray(footprint_m, lane_map))


def astray(footprint_m: Float[np.ndarray, "4 2"], lane_map: LaneMap) -> bool:
    """Whether a corner is on no drivable ground, or the corners lie in several lanes none of which holds them all."""
    shapely = _shapely()
    shapes = [_shape(shapely, lane) for lane in _near(footprint_m, lane_map)]
    shapes += [shapely.Polygon(outline).buffer(0) for outline in lane_map.drivable_m]
    inside = np.array([shapely.contains_xy(shape, footprint_m) for shape in shapes], dtype=bool).reshape(-1, 4)
    several = inside.any(axis=1).sum() > 1 and not inside.all(axis=1).any()
    return bool(several or not inside.any(axis=0).all())


def _near(footprint_m: Float[np.ndarray, "4 2"], lane_map: LaneMap) -> list[Lane]:
    """Lanes whose bounds, with their half width around them, meet the footprint's."""
    low, high = footprint_m.min(axis=0), footprint_m.max(axis=0)
    found = []
    for lane in lane_map.lanes.values():
        around = np.vstack([lane.centreline_m, lane.polygon_m])
        beside = (around.max(axis=0) + lane.half_width_m < low) | (around.min(axis=0) - lane.half_width_m > high)
        if not beside.any():
            found.append(lane)
    return found


def _shape(shapely: Any, lane: Lane) -> Any:
    if len(lane.polygon_m):
        return shapely.Polygon(lane.polygon_m).buffer(0)
    return shapely.LineString(lane.centreline_m).buffer(lane.half_width_m, cap_style="flat")


def _shapely() -> Any:
    try:
        import shapely
    except ImportError as error:
        raise InputError("planners need shapely: pip install 'deepval[planners]'.") from error
    return shapely


def _meets(segment_m: Float[np.ndarray, "2 2"], pose: Float[np.ndarray, "3"], size_m: Float[np.ndarray, "2"]) -> bool:
    """Whether a segment meets a rectangle: where it is between both pairs of sides at once (Liang and Barsky)."""
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    first, last = (segment_m - pose[:2]) @ np.array([[cos, -sin], [sin, cos]])
    enters, leaves = 0.0, 1.0
    for start, way, half in zip(first, last - first, size_m / 2, strict=True):
        if way == 0.0:
            if abs(start) > half:
                return False
            continue
        near, far = sorted(((-half - start) / way, (half - start) / way))
        enters, leaves = max(enters, near), min(leaves, far)
    return bool(enters <= leaves)
