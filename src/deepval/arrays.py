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

InputFloats = Float[np.ndarray, "input"]
InputInts = Int[np.ndarray, "input"]
InputNumbers = Num[np.ndarray, "input"]
InputFlags = Bool[np.ndarray, "input"]
"""One number or flag for each input."""
ModeFloats = Float[np.ndarray, "input mode"]
"""One number for each mode of each input."""

__all__ = ["Bool", "Float", "Int", "Num", "Shaped"]
