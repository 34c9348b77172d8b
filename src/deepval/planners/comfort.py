"""Simulated states of 4 s -> whether the ride is comfortable: nuPlan's six bounds on Savitzky-Golay filtered motion.

The filters are linear in the 41 samples (their edges are polynomial fits), so a filter is one matrix, computed once.
"""

from functools import cache

import numpy as np

from deepval.arrays import Bool, Float
from deepval.planners.tracking import AX, AY, HEADING, STEP_S

SAMPLES = 41
ACCELERATION_MPS2 = (-4.05, 2.40)
LATERAL_ACCELERATION_MPS2 = 4.89
JERK_MPS3, ALONG_JERK_MPS3 = 8.37, 4.13
YAW_ACCELERATION_RADPS2, YAW_RATE_RADPS = 1.93, 0.95


def comfortable(states: Float[np.ndarray, "prop 41 11"]) -> Bool[np.ndarray, "prop"]:
    """Whether accelerations, jerks, yaw rate and yaw acceleration stay strictly within their bounds at every sample."""
    along, across = states[..., AX], states[..., AY]
    heading = np.unwrap(states[..., HEADING], axis=-1)
    lowest, highest = ACCELERATION_MPS2
    along_filtered = _filter_series(along, window=SAMPLES, order=2)
    return (
        np.all((along_filtered > lowest) & (along_filtered < highest), axis=-1)
        & _within(_filter_series(across, window=SAMPLES, order=2), LATERAL_ACCELERATION_MPS2)
        # Quirk: the jerk's magnitude is the derivative of the magnitude of the acceleration.
        & _within(_jerk_mps3(np.hypot(along, across)), JERK_MPS3)
        & _within(_jerk_mps3(along), ALONG_JERK_MPS3)
        # Quirk: the window that the published code asks for here does not reach the filter; 5 is the filter's own.
        & _within(_filter_series(heading, window=5, order=3, derivative=2), YAW_ACCELERATION_RADPS2)
        & _within(_filter_series(heading, window=5, order=2, derivative=1), YAW_RATE_RADPS)
    )


def _within(series: Float[np.ndarray, "prop 41"], bound: float) -> Bool[np.ndarray, "prop"]:
    return np.all(np.abs(series) < bound, axis=-1)


def _jerk_mps3(acceleration_mps2: Float[np.ndarray, "prop 41"]) -> Float[np.ndarray, "prop 41"]:
    smooth = _filter_series(acceleration_mps2, window=8, order=2)
    return _filter_series(smooth, window=SAMPLES, order=2, derivative=1)


def _filter_series(
    series: Float[np.ndarray, "prop 41"], *, window: int, order: int, derivative: int = 0
) -> Float[np.ndarray, "prop 41"]:
    # Quirk: every filtered series is rounded to 8 decimals before it is compared or filtered again.
    return np.round(series @ _filter(window, order, derivative).T, 8)


@cache
def _filter(window: int, order: int, derivative: int) -> Float[np.ndarray, "41 41"]:
    """The filter as a matrix: its response to every unit sample."""
    from scipy.signal import savgol_filter

    return np.asarray(savgol_filter(np.eye(SAMPLES), window, order, deriv=derivative, delta=STEP_S, axis=0))
