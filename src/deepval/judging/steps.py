"""Values per mode and costs per input and mode -> the steps of each input's hull, in which money is best spent.

An input starts at its best mode that costs nothing. A step leads from one corner of its upper concave hull of (cost,
value) to the next; slopes fall along an input's steps, so that taking steps by falling slope, over all inputs, is the
relaxed (LP) optimum of the multiple-choice knapsack at every budget.
"""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int, Num


class Steps(NamedTuple):
    """Steps of all inputs, round by round.

    Attributes:
        start: The mode at which each input starts.
        input: The input that each step is of.
        source: The mode that it leaves.
        target: The mode that it leads to.
        cost: What it costs.
        slope: Value per cost.
    """

    start: Int[np.ndarray, "input"]
    input: Int[np.ndarray, "step"]
    source: Int[np.ndarray, "step"]
    target: Int[np.ndarray, "step"]
    cost: Num[np.ndarray, "step"]
    slope: Float[np.ndarray, "step"]


def steps(values: Float[np.ndarray, "input mode"], costs: Num[np.ndarray, "input mode"]) -> Steps:
    """The steps of every input's hull; of equal slopes the longest, and none rises above the one before by rounding."""
    at = np.where(costs == 0, values, -np.inf).argmax(axis=1)
    start, rows, found = at.copy(), np.arange(len(values)), []
    last = np.full(len(values), np.inf)
    while len(rows):
        ahead = costs[rows] - costs[rows, at[rows]][:, None]
        gain = values[rows] - values[rows, at[rows]][:, None]
        slope = np.divide(gain, ahead, out=np.full(gain.shape, -np.inf), where=(ahead > 0) & (gain > 0))
        steepest = slope.max(axis=1)
        target = np.where(slope == steepest[:, None], ahead, -1).argmax(axis=1)
        moves = steepest > 0
        rows, target, steepest = rows[moves], target[moves], np.minimum(steepest[moves], last[rows[moves]])
        last[rows] = steepest
        found.append((rows, at[rows], target, ahead[moves, target], steepest))
        at[rows] = target
    parts = [np.concatenate(column) for column in zip(*found, strict=True)] if found else []
    none = np.zeros(0, np.int64)
    return Steps(start, *parts) if parts else Steps(start, none, none, none, none, np.zeros(0))
