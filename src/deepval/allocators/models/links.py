"""Raw outputs -> predictions: as they are, or as probabilities."""

from typing import Literal

import numpy as np

from deepval.arrays import Float

Link = Literal["identity", "logistic"]


def linked(raw: Float[np.ndarray, "*row"], link: Link) -> Float[np.ndarray, "*row"]:
    """The raw output, or 1 / (1 + exp(-raw))."""
    if link == "identity":
        return raw
    # exp of a negative number never overflows.
    small = np.exp(-np.abs(raw))
    return np.where(raw >= 0, 1.0, small) / (1.0 + small)


def linked_one(raw: float, link: Link) -> float:
    """The same of one number, to the bit, without what arrays of one number cost."""
    if link == "identity":
        return raw
    small = float(np.exp(-abs(raw)))
    return (1.0 if raw >= 0 else small) / (1.0 + small)


def checked_link(name: str) -> Link:
    """The link of this name; ValueError where there is none."""
    if name not in ("identity", "logistic"):
        raise ValueError(f"a link is identity or logistic, not {name!r}")
    return name
