"""Logits under reference and perceived boxes -> PKL and TIP; utilities of any planner's candidates -> TIP.

PKL is 0 or more, more is worse; TIP is 0 or less, less is worse. Their gains are positive where the full mode's boxes
change the plan less than the cheap mode's.
"""

from typing import Literal

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.planners.neural.masks import AHEAD_S, Masks
from deepval.world.truth import Future

HORIZON_S = float(AHEAD_S[-1])


def path_cells(logits: Float[np.ndarray, "*batch cell"], masks: Masks) -> Int[np.ndarray, "*batch step 2"]:
    """At every step the cell of the largest logit within the mask; of equal ones the first in row-major order."""
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
    """Frames whose logged future covers the horizon of a plan."""
    needed = np.searchsorted(future.times_s, HORIZON_S - 1e-9) + 1
    if needed > len(future.times_s):
        return np.zeros(len(future.valid), dtype=bool)
    return np.asarray(future.valid[:, :needed].all(axis=1))


def logged_path_m(future: Future) -> Float[np.ndarray, "time step 2"]:
    """The logged positions at the steps of a plan: linear between logged times, at the origin now."""
    times_s = np.concatenate([[0.0], future.times_s])
    driven = np.concatenate([np.zeros((len(future.pose), 1, 2)), future.pose[..., :2]], axis=1)
    after = np.clip(np.searchsorted(times_s, AHEAD_S - 1e-9), 1, len(times_s) - 1)
    share = ((AHEAD_S - times_s[after - 1]) / (times_s[after] - times_s[after - 1]))[:, None]
    return driven[:, after - 1] * (1 - share) + driven[:, after] * share


def displacements_m(
    paths_m: Float[np.ndarray, "time step 2"], target_m: Float[np.ndarray, "time step 2"]
) -> Float[np.ndarray, "time step"]:
    """Distances of planned positions from their targets; their mean is ADE, the last one FDE."""
    return np.hypot(*np.moveaxis(paths_m - target_m, -1, 0))


TIP_STEPS = 12
"""Steps over which TIP is summed: 3 s."""


def pkl(
    reference: Float[np.ndarray, "*batch cell"],
    perceived: Float[np.ndarray, "*batch cell"],
    *,
    precision: type[np.floating] = np.float64,
) -> Float[np.ndarray, "*batch"]:
    """Planning KL divergence: the change of the plan by the perceived boxes, over the cells within the masks.

    The sum of KL(sigmoid reference || sigmoid perceived). Single precision gives the sums of the published code.
    """
    p_logits, q_logits = reference.astype(precision), perceived.astype(precision)
    target = sigmoid(p_logits)
    return np.asarray(
        (_cross_entropy(q_logits, target) - _cross_entropy(p_logits, target)).sum(axis=-1, dtype=precision)
    )


def tip(
    reference: Float[np.ndarray, "*batch cell"],
    perceived: Float[np.ndarray, "*batch cell"],
    masks: Masks,
    *,
    steps: int = TIP_STEPS,
    utility: Literal["probability", "logarithm"] = "probability",
    precision: type[np.floating] = np.float64,
) -> Float[np.ndarray, "*batch"]:
    """Transcendental idealism of the planner: sum over steps of the four-term formula on softmax within the mask.

    With `utility="logarithm"` the four numbers are logarithms; the compared cells are the same.
    """
    total = np.zeros(reference.shape[:-1], dtype=precision)
    both = zip(masks.per_step(reference.astype(precision)), masks.per_step(perceived.astype(precision)), strict=True)
    for p_logits, q_logits in list(both)[:steps]:
        p, q = _softmax(p_logits), _softmax(q_logits)
        best, raised = p.argmax(axis=-1, keepdims=True), (q - p).argmax(axis=-1, keepdims=True)
        if utility == "logarithm":
            p, q = np.log(p), np.log(q)
        total = total + _four_terms(p, q, best, raised)
    return np.asarray(total)


def tip_of_utilities(
    reference: Float[np.ndarray, "*batch action"], perceived: Float[np.ndarray, "*batch action"]
) -> Float[np.ndarray, "*batch"]:
    """TIP of a planner that chooses among candidates by utility, such as PDM-Closed by the scores of its proposals.

    With p and q the utilities under the reference and the perceived objects, a* the best candidate under p and â the
    one that the error raises most: (q(a*) - q(â)) - (p(a*) - p(â)). It is 0 iff no candidate is raised more than a*.
    Ties go to the first candidate.
    """
    if not reference.shape[-1]:
        raise ValueError("TIP needs a candidate or more.")
    raised = (perceived - reference).argmax(axis=-1, keepdims=True)
    return _four_terms(reference, perceived, reference.argmax(axis=-1, keepdims=True), raised)


def pkl_gain(cheap: Float[np.ndarray, "*any"], full: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """PKL of the cheap mode minus that of the full one: more PKL is worse."""
    return cheap - full


def tip_gain(cheap: Float[np.ndarray, "*any"], full: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """TIP of the full mode minus that of the cheap one: less TIP is worse."""
    return full - cheap


def _four_terms(p: np.ndarray, q: np.ndarray, best: np.ndarray, raised: np.ndarray) -> np.ndarray:
    def at(utility: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.take_along_axis(utility, action, axis=-1)[..., 0]

    return np.asarray((at(q, best) - at(p, best)) - (at(q, raised) - at(p, raised)))


def _cross_entropy(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    # The stable form of -t log s(x) - (1 - t) log(1 - s(x)): no logarithm of 0 and no overflow.
    return np.maximum(logits, 0) - logits * target + np.log1p(np.exp(-np.abs(logits)))


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
