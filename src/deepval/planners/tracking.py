"""Poses that a vehicle is to reach every 0.1 s -> the states it really passes: LQR tracking of a kinematic bicycle.

nuPlan's tracker and vehicle model at their released gains, over any number of proposals at once. A state is (x, y,
heading, vx, vy, ax, ay, steering angle, steering rate, yaw rate, yaw acceleration) at the rear axle. Where the
published code does something that one would not expect, a comment that starts with "Quirk" says what it reproduces.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from deepval.arrays import Float
from deepval.geometry.vehicle import PACIFICA

STEP_S = 0.1
X, Y, HEADING, VX, VY, AX, AY, STEER, STEER_RATE, YAW_RATE, YAW_ACCELERATION = range(11)

HORIZON = 10
SPEED_WEIGHT, ACCELERATION_WEIGHT = 10.0, 1.0
LATERAL_WEIGHT, HEADING_WEIGHT, STEER_RATE_WEIGHT = 1.0, 10.0, 1.0
ACCELERATION_PENALTY, CURVATURE_RATE_PENALTY, FIRST_CURVATURE_PENALTY = 1e-4, 1e-2, 1e-10
STOPPING_SPEED_MPS, STOPPING_GAIN = 0.2, 0.5
LARGEST_STEER_RAD = np.pi / 3
ACCELERATION_LAG_S, STEER_LAG_S = 0.2, 0.05
# Quirk: the published LQR believes that every vehicle has the Pacifica's wheel base; only the bicycle has the ego's.
LQR_WHEEL_BASE_M = PACIFICA.wheel_base_m


@dataclass(frozen=True, eq=False)
class Reference:
    """What is tracked: the poses, and the speed and curvature with which each is left for the next."""

    pose: Float[np.ndarray, "prop pose 3"]
    speed_mps: Float[np.ndarray, "prop gap"]
    curvature_per_m: Float[np.ndarray, "prop gap"]


def wrapped_rad(angle_rad: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
    """The angle in [-pi, pi)."""
    return (angle_rad + np.pi) % (2 * np.pi) - np.pi


def reference(path_states: Float[np.ndarray, "prop pose 3"]) -> Reference:
    """Poses (x, y, heading) 0.1 s apart -> the reference with their fitted speeds and curvatures."""
    heading = path_states[..., :-1, HEADING]
    moved = np.diff(path_states[..., :2], axis=-2)
    along_m = moved[..., 0] * np.cos(heading) + moved[..., 1] * np.sin(heading)
    speed = along_m @ _speed_fit(along_m.shape[-1]).T
    turned_rad = wrapped_rad(np.diff(path_states[..., HEADING], axis=-1))
    return Reference(path_states, speed, _fitted_curvature_per_m(turned_rad, speed))


def simulated(
    path_states: Float[np.ndarray, "prop pose 3"], start: Float[np.ndarray, "11"], *, wheel_base_m: float
) -> Float[np.ndarray, "prop pose 11"]:
    """The states that a vehicle passes which starts in `start` and tracks each proposal; `start` itself first."""
    tracked = reference(path_states)
    states = np.empty((*path_states.shape[:2], 11))
    states[:, 0] = start
    for index in range(path_states.shape[1] - 1):
        states[:, index + 1] = next_state(states[:, index], tracked, index=index, wheel_base_m=wheel_base_m)
    return states


def next_state(
    state: Float[np.ndarray, "prop 11"], tracked: Reference, *, index: int, wheel_base_m: float
) -> Float[np.ndarray, "prop 11"]:
    """The state 0.1 s later of a vehicle that is to be at pose `index` of the reference now."""
    acceleration, steer_rate = _commands(state, tracked, index=index)
    return _driven(state, acceleration, steer_rate, wheel_base_m=wheel_base_m)


@cache
def _summed(gaps: int) -> Float[np.ndarray, "gap gap"]:
    """(first value, rates) -> values: each is the first plus 0.1 s times the rates before it."""
    summed = np.tril(np.full((gaps, gaps), STEP_S))
    summed[:, 0] = 1.0
    return summed


@cache
def _speed_fit(gaps: int) -> Float[np.ndarray, "gap gap"]:
    """Displacements along the headings -> fitted speeds.

    The squared cosines and sines of a heading sum to one, so the regularised least squares is the same matrix for
    every proposal.
    """
    rates = gaps - 1
    # Quirk: the published difference matrix loses all but its last difference (its second diagonal overwrites the
    # first), so that single accelerations are penalised, the last two by their difference, the first speed not at all.
    change = np.zeros((max(rates - 1, 0), rates))
    change[range(len(change)), range(len(change))] = 1.0
    if len(change):
        change[-1, -2:] = -1.0, 1.0
    penalty = np.zeros((gaps, gaps))
    penalty[1:, 1:] = ACCELERATION_PENALTY * change.T @ change
    summed = _summed(gaps)
    return summed @ np.linalg.solve(STEP_S**2 * summed.T @ summed + penalty, STEP_S * summed.T)


def _fitted_curvature_per_m(
    turned_rad: Float[np.ndarray, "prop gap"], speed_mps: Float[np.ndarray, "prop gap"]
) -> Float[np.ndarray, "prop gap"]:
    """Curvatures whose headings turn as asked at the fitted speeds, changing as little as possible."""
    gaps = turned_rad.shape[-1]
    summed = _summed(gaps)
    design = STEP_S * speed_mps[..., None] * summed
    penalty = np.diag([FIRST_CURVATURE_PENALTY, *[CURVATURE_RATE_PENALTY] * (gaps - 1)])
    across = np.swapaxes(design, -1, -2)
    rates = np.linalg.solve(across @ design + penalty, across @ turned_rad[..., None])
    return (summed @ rates)[..., 0]


def _commands(
    state: Float[np.ndarray, "prop 11"], tracked: Reference, *, index: int
) -> tuple[Float[np.ndarray, "prop"], Float[np.ndarray, "prop"]]:
    """Acceleration and steering rate that the two LQRs ask for: one for the speed, one for the way."""
    last = tracked.speed_mps.shape[-1] - 1
    wanted_mps = tracked.speed_mps[:, min(index + HORIZON, last)]
    ahead_s = HORIZON * STEP_S
    excess_mps = state[:, VX] - wanted_mps
    acceleration = -ahead_s * SPEED_WEIGHT * excess_mps / (ahead_s**2 * SPEED_WEIGHT + ACCELERATION_WEIGHT)
    curvature = tracked.curvature_per_m[:, np.minimum(np.arange(index, index + HORIZON), last)]
    steer_rate = _steer_rate(state, tracked.pose[:, index], curvature_per_m=curvature, acceleration_mps2=acceleration)
    stopping = (wanted_mps <= STOPPING_SPEED_MPS) & (state[:, VX] <= STOPPING_SPEED_MPS)
    return np.where(stopping, -STOPPING_GAIN * excess_mps, acceleration), np.where(stopping, 0.0, steer_rate)


def _steer_rate(
    state: Float[np.ndarray, "prop 11"],
    pose: Float[np.ndarray, "prop 3"],
    *,
    curvature_per_m: Float[np.ndarray, "prop ahead"],
    acceleration_mps2: Float[np.ndarray, "prop"],
) -> Float[np.ndarray, "prop"]:
    """The constant steering rate that is best after ten steps for lateral and heading error, linear in both."""
    step_s = STEP_S * np.arange(HORIZON)
    moved_m = STEP_S * (state[:, VX, None] + acceleration_mps2[:, None] * step_s)
    apart = state[:, :2] - pose[:, :2]
    lateral_m = -apart[:, 0] * np.sin(pose[:, HEADING]) + apart[:, 1] * np.cos(pose[:, HEADING])
    heading_rad = wrapped_rad(state[:, HEADING] - pose[:, HEADING])

    # Left alone, and with a steering rate of 1 and nothing else: each step's lateral error takes the old heading error.
    turned = moved_m * (state[:, STEER, None] / LQR_WHEEL_BASE_M - curvature_per_m)
    turning = moved_m * step_s / LQR_WHEEL_BASE_M
    free_rad = heading_rad[:, None] + np.cumsum(turned, axis=1)
    answer_rad = np.cumsum(turning, axis=1)
    free_m = lateral_m + moved_m[:, 0] * heading_rad + (moved_m[:, 1:] * free_rad[:, :-1]).sum(axis=1)
    answer_m = (moved_m[:, 1:] * answer_rad[:, :-1]).sum(axis=1)

    end_rad, answer_end_rad = wrapped_rad(free_rad[:, -1]), answer_rad[:, -1]
    pull = LATERAL_WEIGHT * answer_m * free_m + HEADING_WEIGHT * answer_end_rad * end_rad
    return -pull / (LATERAL_WEIGHT * answer_m**2 + HEADING_WEIGHT * answer_end_rad**2 + STEER_RATE_WEIGHT)


def _driven(
    state: Float[np.ndarray, "prop 11"],
    acceleration_mps2: Float[np.ndarray, "prop"],
    steer_rate_radps: Float[np.ndarray, "prop"],
    *,
    wheel_base_m: float,
) -> Float[np.ndarray, "prop 11"]:
    """One Euler step of the kinematic bicycle whose acceleration and steering follow the commands with a lag."""
    after = np.zeros_like(state)
    speed, heading, steer = state[:, VX], state[:, HEADING], state[:, STEER]
    follows = STEP_S / (STEP_S + ACCELERATION_LAG_S)
    after[:, AX] = state[:, AX] + follows * (acceleration_mps2 - state[:, AX])
    rate = STEP_S / (STEP_S + STEER_LAG_S) * steer_rate_radps
    after[:, STEER_RATE] = rate
    # Place and heading advance with the old speed and steering, the speed with the new acceleration.
    after[:, X] = state[:, X] + STEP_S * speed * np.cos(heading)
    after[:, Y] = state[:, Y] + STEP_S * speed * np.sin(heading)
    after[:, HEADING] = wrapped_rad(heading + STEP_S * speed * np.tan(steer) / wheel_base_m)
    after[:, VX] = speed + STEP_S * after[:, AX]
    after[:, STEER] = np.clip(steer + STEP_S * rate, -LARGEST_STEER_RAD, LARGEST_STEER_RAD)
    after[:, YAW_RATE] = after[:, VX] * np.tan(after[:, STEER]) / wheel_base_m
    after[:, YAW_ACCELERATION] = (after[:, YAW_RATE] - state[:, YAW_RATE]) / STEP_S
    return after
