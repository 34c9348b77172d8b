"""Names for array types: `Float[np.ndarray, "input mode"]` is a float array with those
axes.

Axis words: input unit mode det obj time draw budget. The shapes are checked at run time
only where jaxtyping is already loaded (the test command loads it); elsewhere the names
cost nothing and mean a plain array. Apart, because every package needs these names.
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Num, Shaped
else:

    class Unchecked:
        """Stands in for jaxtyping's names: `Unchecked[np.ndarray, "input"]` is
        `np.ndarray`.
        """

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            """Drop the shape, keep the array type."""
            return item[0]

    Bool = Float = Int = Num = Shaped = Unchecked

Ids = Shaped[np.ndarray, "input"]
"""An id for each input: text, or integers."""
UnitIds = Shaped[np.ndarray, "unit"]
"""An id for each unit, as text."""
InputFloats = Float[np.ndarray, "input"]
InputInts = Int[np.ndarray, "input"]
InputNumbers = Num[np.ndarray, "input"]
InputFlags = Bool[np.ndarray, "input"]
"""One number or flag for each input."""
ModeFloats = Float[np.ndarray, "input mode"]
"""One number for each mode of each input."""
PerUnit = Float[np.ndarray, "unit"]
PerDraw = Float[np.ndarray, "draw"]
PerResample = Float[np.ndarray, "resample"]
"""One number for the sample, for each draw, and for the sample without each unit."""
PerRow = Float[np.ndarray, "row"]
"""One number for each of some rows, such as the rows of a result."""
RowInts = Int[np.ndarray, "row"]
RowFlags = Bool[np.ndarray, "row"]
RowValues = Shaped[np.ndarray, "row"]
"""The same with integers, flags, or ids and records."""
RowBounds = Float[np.ndarray, "row 2"]
"""A lower and an upper bound for each row."""
DrawRows = Float[np.ndarray, "row draw"]
"""Rows of samples over the draws."""
ResampleRows = Float[np.ndarray, "row resample"]
"""Rows of samples over the resamples."""
Counts = Float[np.ndarray, "resample unit"]
"""How often each unit occurs in each resample."""
Slots = Int[np.ndarray, "resample budget"]
"""Number of inputs that may be escalated in each resample, under several budgets."""
Purses = Float[np.ndarray, "resample budget"]
"""What may be spent on escalations in each resample, under several budgets."""
BudgetSums = Float[np.ndarray, "resample budget amount"]
"""Amounts such as gain and benefit, summed over the inputs that are escalated."""

__all__ = ["Bool", "Float", "Int", "Num", "Shaped"]
