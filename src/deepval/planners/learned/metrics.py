"""Logits under reference and perceived boxes -> PKL and TIP; utilities of any planner's candidates -> TIP.

PKL is 0 or more, more is worse; TIP is 0 or less, less is worse. Their gains are positive where the full mode's boxes
change the plan less than the cheap mode's.
"""

from typing import Literal

import numpy as np

from deepval.arrays import Float
from deepval.planners.learned.masks import Masks
from deepval.planners.learned.plans import sigmoid

TIP_STEPS = 12
"""Steps over which TIP is summed: 3 s."""


def pkl(
    reference: Float[np.ndarray, "*batch cell"],
    perceived: Float[np.ndarray, "*batch cell"],
    *,
    precision: type[np.floating] = np.float64,
) -> Float[np.ndarray, "*batch"]:
    """Planning KL divergence: over the cells within the masks, of what boxes seen change in where the vehicle will be.

    The sum of KL(sigmoid reference || sigmoid perceived). Single precision sums as the published code does.
    """
    told, seen = reference.astype(precision), perceived.astype(precision)
    wanted = sigmoid(told)
    return np.asarray((_cross_entropy(seen, wanted) - _cross_entropy(told, wanted)).sum(axis=-1, dtype=precision))


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

    With `utility="logarithm"` the four numbers are logarithms; which cells are compared stays as it is.
    """
    found = np.zeros(reference.shape[:-1], dtype=precision)
    both = zip(masks.per_step(reference.astype(precision)), masks.per_step(perceived.astype(precision)), strict=True)
    for p_logits, q_logits in list(both)[:steps]:
        p, q = _softmax(p_logits), _softmax(q_logits)
        wanted, raised = p.argmax(axis=-1, keepdims=True), (q - p).argmax(axis=-1, keepdims=True)
        if utility == "logarithm":
            p, q = np.log(p), np.log(q)
        found = found + _four_terms(p, q, wanted, raised)
    return np.asarray(found)


def tip_of_utilities(
    reference: Float[np.ndarray, "*batch action"], perceived: Float[np.ndarray, "*batch action"]
) -> Float[np.ndarray, "*batch"]:
    """TIP of a planner that chooses among candidates by utility, such as PDM-Closed by the scores of its proposals.

    With p and q the utilities under what is there and what is perceived, a* the best candidate under p and â the one
    that the error raises most: (q(a*) - q(â)) - (p(a*) - p(â)). It is 0 iff no candidate is raised more than a*. Ties
    go to the first candidate.
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


def _four_terms(p: np.ndarray, q: np.ndarray, wanted: np.ndarray, raised: np.ndarray) -> np.ndarray:
    def at(utility: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.take_along_axis(utility, action, axis=-1)[..., 0]

    return np.asarray((at(q, wanted) - at(p, wanted)) - (at(q, raised) - at(p, raised)))


def _cross_entropy(logits: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.maximum(logits, 0) - logits * wanted + np.log1p(np.exp(-np.abs(logits)))


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
