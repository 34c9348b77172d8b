"""Target poses every 0.1 s -> the states of the vehicle that tracks them: LQR tracking
of a kinematic bicycle.

nuPlan's tracker and vehicle model at their released gains, over any number of proposals
at once. A state is (x, y, heading, vx, vy, ax, ay, steering angle, steering rate, yaw
rate, yaw acceleration) at the rear axle. A comment that starts with "Quirk" marks
unexpected behaviour of the published code that is reproduced.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.driving.geometry.vehicle import PACIFICA, wrap_rad

STEP_S = 0.1
X, Y, HEADING, VX, VY, AX, AY, STEER, STEER_RATE, YAW_RATE, YAW_ACCELERATION = range(11)

HORIZON = 10
AHEAD_S = HORIZON * STEP_S
SPEED_WEIGHT, ACCELERATION_WEIGHT = 10.0, 1.0
SPEED_GAIN_PER_S = (
    AHEAD_S * SPEED_WEIGHT / (AHEAD_S**2 * SPEED_WEIGHT + ACCELERATION_WEIGHT)
)
LATERAL_WEIGHT, HEADING_WEIGHT, STEER_RATE_WEIGHT = 1.0, 10.0, 1.0
ACCELERATION_PENALTY, CURVATURE_RATE_PENALTY, FIRST_CURVATURE_PENALTY = (
    1e-4,
    1e-2,
    1e-10,
)
STOPPING_SPEED_MPS, STOPPING_GAIN_PER_S = 0.2, 0.5
LARGEST_STEER_RAD = np.pi / 3
ACCELERATION_LAG_S, STEER_LAG_S = 0.2, 0.05
# Quirk: the published LQR assumes the Pacifica's wheel base for every vehicle; only the
# bicycle has the ego's.
LQR_WHEEL_BASE_M = PACIFICA.wheel_base_m
STEP_TIMES_S = STEP_S * np.arange(HORIZON)
LATER = np.tri(HORIZON, k=-1)
"""Distances of the steps -> for every step, the total distance of all later steps."""
STEER_TERMS = np.stack([np.ones(HORIZON), STEP_TIMES_S / LQR_WHEEL_BASE_M], axis=1)
"""Weights of the turn in every step: of a constant curvature of one, and of a steering
rate of one since the start.
"""


@dataclass(frozen=True, eq=False)
class Reference:
    """The tracked poses, and the speed and curvature from every pose to the next."""

    pose: Float[np.ndarray, "prop pose 3"]
    speed_mps: Float[np.ndarray, "prop gap"]
    curvature_per_m: Float[np.ndarray, "prop gap"]

    @cached_property
    def direction(self) -> Float[np.ndarray, "pose 2 prop"]:
        """Cosine and sine of the headings, pose by pose."""
        heading = self.pose[..., HEADING].T
        return np.stack([np.cos(heading), np.sin(heading)], axis=1)

    @cached_property
    def target_mps(self) -> Float[np.ndarray, "gap prop"]:
        """The speed ten gaps ahead of every gap, or the last."""
        return np.ascontiguousarray(
            self.speed_mps[:, _ahead(self.speed_mps.shape[1])[:, -1]].T
        )

    @cached_property
    def bends_per_m(self) -> Float[np.ndarray, "gap prop ahead"]:
        """The curvatures of every gap and the nine after it, the last repeated."""
        ahead = self.curvature_per_m[:, _ahead(self.curvature_per_m.shape[1])[:, :-1]]
        return np.ascontiguousarray(np.swapaxes(ahead, 0, 1))


@cache
def _ahead(gaps: int) -> Int[np.ndarray, "gap ahead"]:
    """Indices of every gap and the ten after it, none beyond the last."""
    return np.minimum(np.arange(gaps)[:, None] + np.arange(HORIZON + 1), gaps - 1)


def reference(path_states: Float[np.ndarray, "prop pose 3"]) -> Reference:
    """Poses (x, y, heading) 0.1 s apart -> the reference with their fitted speeds and
    curvatures.
    """
    heading = path_states[..., :-1, HEADING]
    moved = np.diff(path_states[..., :2], axis=-2)
    along_m = moved[..., 0] * np.cos(heading) + moved[..., 1] * np.sin(heading)
    speed = along_m @ _speed_fit(along_m.shape[-1]).T
    turned_rad = wrap_rad(np.diff(path_states[..., HEADING], axis=-1))
    return Reference(path_states, speed, _curvature_fit_per_m(turned_rad, speed))


def simulate(
    path_states: Float[np.ndarray, "prop pose 3"],
    start: Float[np.ndarray, "11"],
    *,
    wheel_base_m: float,
) -> Float[np.ndarray, "prop pose 11"]:
    """The states of a vehicle that starts in `start` and tracks each proposal; the
    first is `start`.
    """
    tracked = reference(path_states)
    states = np.empty((path_states.shape[1], 11, len(path_states)))
    states[0] = start[:, None]
    for index in range(len(states) - 1):
        states[index + 1] = _step(
            states[index], tracked, index=index, wheel_base_m=wheel_base_m
        )
    return np.ascontiguousarray(np.transpose(states, (2, 0, 1)))


def next_state(
    state: Float[np.ndarray, "prop 11"],
    tracked: Reference,
    *,
    index: int,
    wheel_base_m: float,
) -> Float[np.ndarray, "prop 11"]:
    """The state 0.1 s later of a vehicle whose present target is pose `index` of the
    reference.
    """
    return _step(state.T, tracked, index=index, wheel_base_m=wheel_base_m).T


def _step(
    state: Float[np.ndarray, "11 prop"],
    tracked: Reference,
    *,
    index: int,
    wheel_base_m: float,
) -> Float[np.ndarray, "11 prop"]:
    acceleration, steer_rate = _commands(state, tracked, index=index)
    return _bicycle_step(state, acceleration, steer_rate, wheel_base_m=wheel_base_m)


@cache
def _sum_matrix(gaps: int) -> Float[np.ndarray, "gap gap"]:
    """(first value, rates) -> values: the first value plus 0.1 s times the sum of the
    rates so far.
    """
    summed = np.tril(np.full((gaps, gaps), STEP_S))
    summed[:, 0] = 1.0
    return summed


@cache
def _speed_fit(gaps: int) -> Float[np.ndarray, "gap gap"]:
    """Displacements along the headings -> fitted speeds.

    The squared cosines and sines of a heading sum to one, so the regularised least
    squares is the same matrix for every proposal.
    """
    rates = gaps - 1
    # Quirk: the published difference matrix loses all but its last difference (its
    # second diagonal overwrites the first), so that accelerations are penalised singly,
    # the last two by their difference, and the first speed not at all.
    change = np.zeros((max(rates - 1, 0), rates))
    change[range(len(change)), range(len(change))] = 1.0
    if len(change):
        change[-1, -2:] = -1.0, 1.0
    penalty = np.zeros((gaps, gaps))
    penalty[1:, 1:] = ACCELERATION_PENALTY * change.T @ change
    summed = _sum_matrix(gaps)
    return summed @ np.linalg.solve(
        STEP_S**2 * summed.T @ summed + penalty, STEP_S * summed.T
    )


def _curvature_fit_per_m(
    turned_rad: Float[np.ndarray, "prop gap"], speed_mps: Float[np.ndarray, "prop gap"]
) -> Float[np.ndarray, "prop gap"]:
    """Curvatures that give these turns at the fitted speeds, with the smallest possible
    changes.
    """
    gaps = turned_rad.shape[-1]
    summed = _sum_matrix(gaps)
    design = STEP_S * speed_mps[..., None] * summed
    penalty = np.diag([FIRST_CURVATURE_PENALTY, *[CURVATURE_RATE_PENALTY] * (gaps - 1)])
    across = np.swapaxes(design, -1, -2)
    rates = np.linalg.solve(across @ design + penalty, across @ turned_rad[..., None])
    return (summed @ rates)[..., 0]


def _commands(
    state: Float[np.ndarray, "11 prop"], tracked: Reference, *, index: int
) -> tuple[Float[np.ndarray, "prop"], Float[np.ndarray, "prop"]]:
    """Acceleration and steering rate from the two LQRs: one for the speed, one for the
    lateral motion.
    """
    target_mps = tracked.target_mps[index]
    excess_mps = state[VX] - target_mps
    acceleration = -SPEED_GAIN_PER_S * excess_mps
    steer_rate = _steer_rate(
        state, tracked, index=index, acceleration_mps2=acceleration
    )
    stopping = (target_mps <= STOPPING_SPEED_MPS) & (state[VX] <= STOPPING_SPEED_MPS)
    return np.where(
        stopping, -STOPPING_GAIN_PER_S * excess_mps, acceleration
    ), np.where(stopping, 0.0, steer_rate)


def _steer_rate(
    state: Float[np.ndarray, "11 prop"],
    tracked: Reference,
    *,
    index: int,
    acceleration_mps2: Float[np.ndarray, "prop"],
) -> Float[np.ndarray, "prop"]:
    """The constant steering rate that is best after ten steps for lateral and heading
    error, linear in both.

    A step turns by its distance times (steering / wheel base - curvature), and moves
    aside by its distance times the heading error before it: a turn in one step adds
    itself to the final heading error, and itself times the distance of all later steps
    to the final lateral error.
    """
    pose, (cos, sin) = tracked.pose[:, index], tracked.direction[index]
    lateral_m = (state[Y] - pose[:, Y]) * cos - (state[X] - pose[:, X]) * sin
    heading_rad = wrap_rad(state[HEADING] - pose[:, HEADING])

    way_m = STEP_S * (state[VX, :, None] + acceleration_mps2[:, None] * STEP_TIMES_S)
    # effects of a turn: on the final heading, and on the final lateral error
    weight = np.empty((2, *way_m.shape))
    weight[0] = way_m
    np.multiply(way_m, way_m @ LATER, out=weight[1])
    (straight_m, aside), (turn, shift) = (weight @ STEER_TERMS).transpose(2, 0, 1)
    bent_rad, bent_m = (weight * tracked.bends_per_m[index]).sum(axis=-1)

    curvature_now_per_m = state[STEER] / LQR_WHEEL_BASE_M
    end_rad = wrap_rad(heading_rad + curvature_now_per_m * straight_m - bent_rad)
    end_m = lateral_m + heading_rad * straight_m + curvature_now_per_m * aside - bent_m
    pull = LATERAL_WEIGHT * shift * end_m + HEADING_WEIGHT * turn * end_rad
    return -pull / (
        LATERAL_WEIGHT * shift**2 + HEADING_WEIGHT * turn**2 + STEER_RATE_WEIGHT
    )


def _bicycle_step(
    state: Float[np.ndarray, "11 prop"],
    acceleration_mps2: Float[np.ndarray, "prop"],
    steer_rate_radps: Float[np.ndarray, "prop"],
    *,
    wheel_base_m: float,
) -> Float[np.ndarray, "11 prop"]:
    """One Euler step of the kinematic bicycle; acceleration and steering follow the
    commands with a lag.
    """
    after = np.zeros(state.shape)
    speed, heading, steer = state[VX], state[HEADING], state[STEER]
    moved_m = STEP_S * speed
    after[AX] = state[AX] + STEP_S / (STEP_S + ACCELERATION_LAG_S) * (
        acceleration_mps2 - state[AX]
    )
    after[STEER_RATE] = STEP_S / (STEP_S + STEER_LAG_S) * steer_rate_radps
    # Position and heading advance with the old speed and steering, the speed with the
    # new acceleration.
    after[X] = state[X] + moved_m * np.cos(heading)
    after[Y] = state[Y] + moved_m * np.sin(heading)
    after[HEADING] = wrap_rad(heading + moved_m * np.tan(steer) / wheel_base_m)
    after[VX] = speed + STEP_S * after[AX]
    turned = steer + STEP_S * after[STEER_RATE]
    after[STEER] = np.maximum(np.minimum(turned, LARGEST_STEER_RAD), -LARGEST_STEER_RAD)
    after[YAW_RATE] = after[VX] * np.tan(after[STEER]) / wheel_base_m
    after[YAW_ACCELERATION] = (after[YAW_RATE] - state[YAW_RATE]) / STEP_S
    return after
