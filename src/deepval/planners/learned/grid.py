"""PlanGrid: the square of cells around the vehicle on which the learned planner sees and plans."""

from dataclasses import dataclass

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError

STEPS, STEP_S = 16, 0.25
"""Steps of a plan and the time between them: 0.25 to 4 s ahead."""
AHEAD_S = STEP_S * np.arange(1, STEPS + 1)
COARSEST = 64
"""The network halves its grid six times, so that sides are multiples of this."""
BLOCK = 4
"""Logits are constant on blocks of this many cells a side: the network's last step up repeats them."""


@dataclass(frozen=True)
class PlanGrid:
    """`cells` x `cells` cells, index [x forward, y left], of the same ground whatever their number.

    A point lies in the cell `round((p - low_m) / cell_m)`; a cell stands for the point `low_m + cell_m * cell`.
    """

    cells: int = 256

    def __post_init__(self) -> None:
        if self.cells < COARSEST or self.cells % COARSEST:
            raise InputError(f"a planner's grid must have a multiple of {COARSEST} cells a side; found {self.cells}.")

    @property
    def cell_m(self) -> float:
        """Side of a cell: 0.3 m of the published grid."""
        return 0.3 if self.cells == 256 else 76.8 / self.cells

    @property
    def low_m(self) -> Float[np.ndarray, "2"]:
        """Where the grid begins: 17 m behind the vehicle, 38.5 m to its right."""
        return np.array([-17.0, -38.5])

    def cell_of(self, points_m: Float[np.ndarray, "*batch 2"]) -> Int[np.ndarray, "*batch 2"]:
        """The cell of each point, also outside the grid."""
        return np.round((points_m - self.low_m) / self.cell_m).astype(np.int32)

    def metres(self, cells: Int[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 2"]:
        """The point that each cell stands for."""
        return self.low_m + self.cell_m * cells
