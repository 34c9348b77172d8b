"""Logits within the masks -> the planned path, heat maps; paths and a logged future -> displacements."""

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.planners.learned.grid import AHEAD_S
from deepval.planners.learned.masks import Masks
from deepval.world.truth import Future

HORIZON_S = float(AHEAD_S[-1])


def path_cells(logits: Float[np.ndarray, "*batch cell"], masks: Masks) -> Int[np.ndarray, "*batch step 2"]:
    """At each step the cell of the largest logit within the mask; of equal ones the first in row-major order."""
    begins = np.concatenate([[0], masks.ends[:-1]])
    best = np.stack([part.argmax(axis=-1) for part in masks.per_step(logits)], axis=-1) + begins
    return np.moveaxis(masks.index[1:][:, best], 0, -1)


def path_m(logits: Float[np.ndarray, "*batch cell"], masks: Masks) -> Float[np.ndarray, "*batch step 2"]:
    """The planned positions (x, y) in the vehicle's frame."""
    return masks.grid.metres(path_cells(logits, masks))


def sigmoid(logits: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """The logistic function, in the precision of its argument and without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def has_future(future: Future) -> Bool[np.ndarray, "time"]:
    """Frames of which the future is logged for as long as a plan reaches."""
    needed = np.searchsorted(future.times_s, HORIZON_S - 1e-9) + 1
    if needed > len(future.times_s):
        return np.zeros(len(future.valid), dtype=bool)
    return np.asarray(future.valid[:, :needed].all(axis=1))


def logged_path_m(future: Future) -> Float[np.ndarray, "time step 2"]:
    """Where the vehicle was at each step of a plan: linear between logged times, at the origin now."""
    times_s = np.concatenate([[0.0], future.times_s])
    driven = np.concatenate([np.zeros((len(future.pose), 1, 2)), future.pose[..., :2]], axis=1)
    after = np.clip(np.searchsorted(times_s, AHEAD_S - 1e-9), 1, len(times_s) - 1)
    share = ((AHEAD_S - times_s[after - 1]) / (times_s[after] - times_s[after - 1]))[:, None]
    return driven[:, after - 1] * (1 - share) + driven[:, after] * share


def displacements_m(
    paths_m: Float[np.ndarray, "time step 2"], target_m: Float[np.ndarray, "time step 2"]
) -> Float[np.ndarray, "time step"]:
    """Distance of each planned position from where the vehicle should be; their mean is ADE, the last one FDE."""
    return np.hypot(*np.moveaxis(paths_m - target_m, -1, 0))
