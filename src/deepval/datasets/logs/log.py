"""Log: a recorded drive as any source tells it, step by step in the world frame, before states are taken from it."""

from dataclasses import dataclass, field

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError
from deepval.geometry.camera import Camera
from deepval.geometry.vehicle import Vehicle
from deepval.world.lanes import LaneMap


@dataclass(frozen=True, eq=False)
class LoggedTrack:
    """One road user or static object: what was logged of it at each step where `valid`.

    Attributes:
        id: Its id in the source.
        cls: Class of the benchmark, as in `geometry.classes`.
        centre_m: Centre (x, y, z) in the world frame.
        heading_rad: Heading, counter-clockwise from x.
        size_m: Length, width, height.
        velocity_mps: Velocity (x, y) in the world frame.
        valid: Steps at which it was logged.
    """

    id: str
    cls: str
    centre_m: Float[np.ndarray, "step 3"]
    heading_rad: Float[np.ndarray, "step"]
    size_m: Float[np.ndarray, "step 3"]
    velocity_mps: Float[np.ndarray, "step 2"]
    valid: Bool[np.ndarray, "step"]

    def __post_init__(self) -> None:
        told = (self.centre_m, self.heading_rad[:, None], self.size_m, self.velocity_mps)
        if not all(np.isfinite(part[self.valid]).all() for part in told):
            raise InputError(f"track {self.id}: where it is valid it must be finite; found NaN or infinity.")
        if not (self.size_m[self.valid, :2] > 0).all():
            raise InputError(f"track {self.id}: where it is valid its length and width must be positive.")


@dataclass(frozen=True, eq=False)
class Log:
    """A recorded drive at equal steps.

    Attributes:
        unit: Id of the unit.
        time_s: Time of each step.
        world_from_ego: Pose of the ego's rear axle on the ground.
        speed_mps: Speed along its heading.
        vehicle: Its size.
        camera: The front camera that detections are seen through; a nominal one where the source has none.
        tracks: All others, in the source's order.
        lane_map: The road.
        route: Roadblocks that the vehicle is to follow.
        route_starts: Number of the first of them that is still ahead, at each step; None: all, always.
        red_lights: Lanes shut by a red light, step by step, or empty.
        states: Steps that become inputs.
        acceleration_mps2: Acceleration along the heading, None where it was not logged.
    """

    unit: str
    time_s: Float[np.ndarray, "step"]
    world_from_ego: Float[np.ndarray, "step 4 4"]
    speed_mps: Float[np.ndarray, "step"]
    vehicle: Vehicle
    camera: Camera
    tracks: tuple[LoggedTrack, ...]
    lane_map: LaneMap
    route: tuple[str, ...]
    states: Int[np.ndarray, "state"]
    route_starts: Int[np.ndarray, "step"] | None = None
    red_lights: tuple[frozenset[str], ...] = ()
    acceleration_mps2: Float[np.ndarray, "step"] | None = None
    frame_ids: tuple[str, ...] = field(default=())
    """Id of each state where the source has one; the step's number otherwise."""
