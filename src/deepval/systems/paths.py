"""Accelerations and sideways shifts -> the path of the vehicle, and its description in words."""

import numpy as np

from deepval.arrays import Float

AHEAD_S = np.linspace(0.0, 3.0, 13)
"""Times at which a path is drawn."""
FAR_M = 80.0
"""How far a corridor is drawn where a system has no limit of its own."""


def travelled_m(speed_mps: np.ndarray, acceleration_mps2: np.ndarray | float, time_s: np.ndarray | float) -> np.ndarray:
    """Distance after `time_s` at constant deceleration, standing still once stopped; arguments broadcast."""
    acceleration_mps2 = np.asarray(acceleration_mps2)
    braking = acceleration_mps2 < 0
    stop_s = np.where(braking, -speed_mps / np.where(braking, acceleration_mps2, -1.0), np.inf)
    moving_s = np.minimum(time_s, stop_s)
    return speed_mps * moving_s + 0.5 * acceleration_mps2 * moving_s**2


def smooth_path_m(speed_mps: float, *, acceleration_mps2: float, shift_m: float) -> Float[np.ndarray, "point 2"]:
    """Where the vehicle is at the next times, (x, y), if it keeps the acceleration and moves over by the shift."""
    u = AHEAD_S / AHEAD_S[-1]
    x_m = travelled_m(np.full(len(u), speed_mps), acceleration_mps2, AHEAD_S)
    return np.column_stack([x_m, shift_m * (3 * u**2 - 2 * u**3)])


def sideways(shift_m: float) -> str:
    """A shift in words."""
    return f"{abs(shift_m):g} m to the {'left' if shift_m > 0 else 'right'}" if shift_m else "straight on"
