"""Inputs of every unit above a threshold -> the 95 % prediction interval of the rate on
as many new units.

What a unit says about the next ones is its residual. If the same units set the
threshold, that is its number of inputs above the threshold that the other units would
have set, less the target share of its inputs: so the error of the threshold counts
too. For a threshold from elsewhere it is the number above it, less the mean share.
"""

import math
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import InputFloats, InputInts, Int, PerUnit
from deepval.judge.bootstrap import effective_number
from deepval.judge.intervals import LEVEL, ROUNDING, Interval, student_quantile
from deepval.judge.streaming import SLACK


class CutsWithout(NamedTuple):
    """Where the slots run out among the scores of all units but one, for several units.

    Attributes:
        own_above: Number of scores of the unit itself above the cut.
        own_tied: Number of its scores equal to the cut.
        others_above: Number of scores of the other units above it.
        others_tied: Number of their scores equal to it.
    """

    own_above: PerUnit
    own_tied: PerUnit
    others_above: PerUnit
    others_tied: PerUnit


class RatePrediction(NamedTuple):
    """What units say about the rate on as many new ones.

    Attributes:
        interval: The 95 % prediction interval.
        effective_units: (sum f^2)^2 / sum f^4 of the residuals f; about a third of the
            units if these are normal, 1 if one unit decides. NaN where all are 0.
    """

    interval: Interval
    effective_units: float


def slots_without(inputs: PerUnit, rate: float) -> Int[np.ndarray, " unit"]:
    """The slots that a rate leaves among the inputs of all units but one."""
    others = inputs.sum() - inputs
    return np.maximum(1, np.ceil(rate * others - SLACK)).astype(np.int64)


def cuts_without(
    score: InputFloats,
    unit: InputInts,
    *,
    above: PerUnit,
    slots: Int[np.ndarray, " own"],
    left_out: Int[np.ndarray, " own"],
) -> CutsWithout:
    """The cut without each of some units.

    Args:
        score: Scores among which all these cuts lie.
        unit: Their units.
        above: Number of further scores of every unit, above all of these.
        slots: For each unit to leave out, the slots of the others.
        left_out: These units.
    """
    levels, level = np.unique(-score, return_inverse=True)
    upto = np.cumsum(np.bincount(level, minlength=len(levels)))
    total_above = above.sum() + np.concatenate([[0], upto])
    # Sorted by unit and level, so that one search counts a unit's scores above a level.
    keys = np.sort(unit.astype(np.int64) * len(levels) + level)
    first = left_out * len(levels)
    begin = np.searchsorted(keys, first)

    def own_above(at: Int[np.ndarray, " own"]) -> PerUnit:
        return above[left_out] + (np.searchsorted(keys, first + at) - begin)

    def others_above(at: Int[np.ndarray, " own"]) -> PerUnit:
        return total_above[at] - own_above(at)

    # The cut is the highest level down to which the others have enough scores.
    low = np.zeros(len(left_out), dtype=np.int64)
    high = np.full(len(left_out), len(levels) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        is_enough = others_above(middle + 1) >= slots
        high = np.where(is_enough, middle, high)
        low = np.where(is_enough, low, middle + 1)
    own = own_above(low)
    others = others_above(low)
    return CutsWithout(
        own_above=own,
        own_tied=own_above(low + 1) - own,
        others_above=others,
        others_tied=others_above(low + 1) - others,
    )


def left_out_residuals(inputs: PerUnit, cuts: CutsWithout, rate: float) -> PerUnit:
    """Inputs of each unit accepted at the threshold from the other units, less the
    target share of its inputs; 0 for units without inputs.
    """
    accepted = rate * (inputs.sum() - inputs)
    tie_acceptance = np.minimum(1.0, (accepted - cuts.others_above) / cuts.others_tied)
    return cuts.own_above + tie_acceptance * cuts.own_tied - rate * inputs


def prediction(
    rate: float, residuals: PerUnit, inputs: PerUnit
) -> RatePrediction | None:
    """The prediction interval of a rate; None where fewer than two units have inputs.

    With residuals f of U units, the half-width is Student's t with
    max(1, min(U - 1, 2 U_eff - 1)) degrees of freedom, U_eff = (sum f^2)^2 / sum f^4,
    times sqrt(2 U / (U - 1) x sum f^2) / inputs: the rates of the old and the new units
    vary alike, so their difference has twice the variance of one. The few units that
    decide the rate decide the spread as well, hence U_eff. The bounds are the wider
    ones on the scale of the rate and on that of its logit, within 0 and 1.
    """
    units = int(np.count_nonzero(inputs))
    if units < 2:
        return None
    squares = residuals**2
    spread = math.sqrt(squares.sum()) / inputs.sum()
    if not spread > ROUNDING:
        # All units have the same rate.
        return RatePrediction(Interval(rate, rate), math.nan)
    effective = effective_number(squares)
    degrees = max(1.0, min(units - 1.0, 2 * effective - 1))
    t = student_quantile((1 - LEVEL) / 2, degrees)
    half = t * spread * math.sqrt(2 * units / (units - 1))
    return RatePrediction(_bounds(rate, half), effective)


def _bounds(rate: float, half: float) -> Interval:
    """The wider bounds of rate +- half and of its logit +- half / variance."""
    low = rate - half
    high = rate + half
    variance = rate * (1 - rate)
    # A logit is finite strictly between 0 and 1 only.
    if variance > 0:
        odds = rate / (1 - rate)
        factor = math.exp(min(half / variance, 700.0))  # bounded against overflow
        low = min(low, odds / factor / (1 + odds / factor))
        high = max(high, 1 - 1 / (1 + odds * factor))
    return Interval(max(0.0, low), min(1.0, high))
