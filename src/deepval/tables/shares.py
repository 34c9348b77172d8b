"""A share of inputs -> a whole number of inputs, by the rules of selection and measured budgets.

Apart, because tables and budgets both need these two formulas.
"""

from typing import Any

import numpy as np

from deepval.arrays import Int, Num
from deepval.errors import InputError, quote


def share_of_inputs(alpha: Any) -> float:
    """A share of inputs in (0, 1]."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number) or not 0 < alpha <= 1:
        raise InputError(f"alpha must be a share in (0, 1]; found {quote(alpha)}. Write 0.2 for 20 %.")
    return float(alpha)


def quota(inputs: int | Num[np.ndarray, "*draw"], alpha: float) -> Int[np.ndarray, "*draw"]:
    """Number of inputs that a selection budget escalates, k = floor(alpha*N + 0.5)."""
    return np.asarray(np.floor(alpha * np.asarray(inputs) + 0.5), dtype=np.int64)


def capacity(inputs: int | Num[np.ndarray, "*draw"], share: float) -> Int[np.ndarray, "*draw"]:
    """Number of inputs that a measured budget can pay for, k = floor(N*share + 1e-9), at least 0."""
    return np.asarray(np.maximum(np.floor(np.asarray(inputs) * share + 1e-9), 0), dtype=np.int64)
