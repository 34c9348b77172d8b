"""The grid of a plan, the masks on it, and the metrics of logits within the masks:
planned path, PKL, TIP.

Masks are the cells that a planned vehicle can be in at each step. PKL compares logits
under reference and perceived boxes: it is 0 or more, more is worse. TIP is 0 or less,
less is worse; it is also defined for the utilities of any planner's candidates. Their
gains are positive where the full mode's boxes change the plan less than the cheap
mode's.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import InputError

STEPS, STEP_S = 16, 0.25
"""Steps of a plan and the time between them: 0.25 to 4 s ahead."""
AHEAD_S = STEP_S * np.arange(1, STEPS + 1)
COARSEST = 64
"""The network halves its grid six times, so that sides are multiples of this."""
BLOCK = 4
"""Logits are constant on blocks of this many cells a side: the network's last step up
repeats them.
"""


@dataclass(frozen=True)
class PlanGrid:
    """`cells` x `cells` cells, index [x forward, y left], over the same ground for any
    number of cells.

    A point lies in the cell `round((p - low_m) / cell_m)`; a cell stands for the point
    `low_m + cell_m * cell`.
    """

    cells: int = 256

    def __post_init__(self) -> None:
        if self.cells < COARSEST or self.cells % COARSEST:
            raise InputError(
                "a planner's grid must have a multiple "
                f"of {COARSEST} cells a side; found {self.cells}."
            )

    @property
    def cell_m(self) -> float:
        """Side of a cell: 0.3 m of the published grid."""
        return 0.3 if self.cells == 256 else 76.8 / self.cells

    @property
    def low_m(self) -> Float[np.ndarray, "2"]:
        """Corner of the grid: 17 m behind the vehicle, 38.5 m to its right."""
        return np.array([-17.0, -38.5])

    def cell_of(
        self, points_m: Float[np.ndarray, "*batch 2"]
    ) -> Int[np.ndarray, "*batch 2"]:
        """The cell of each point, also outside the grid."""
        return np.round((points_m - self.low_m) / self.cell_m).astype(np.int32)

    def metres(
        self, cells: Int[np.ndarray, "*batch 2"]
    ) -> Float[np.ndarray, "*batch 2"]:
        """The point that each cell stands for."""
        return self.low_m + self.cell_m * cells


@dataclass(frozen=True, eq=False)
class Masks:
    """Possible cells per step, [step, x, y]; every step has at least one."""

    cells: Bool[np.ndarray, "step x y"]

    def __post_init__(self) -> None:
        shape = self.cells.shape
        if (
            len(shape) != 3
            or shape[0] != STEPS
            or shape[1] != shape[2]
            or shape[1] % COARSEST
            or not shape[1]
        ):
            raise InputError(
                f"a planner's masks must be {STEPS} squares whose side is a multiple "
                f"of {COARSEST} cells, 16 x 256 x 256 as published; found "
                f"{' x '.join(map(str, shape))}: take the masks "
                "that belong to the weights."
            )
        empty = np.flatnonzero(~self.cells.any(axis=(1, 2)))
        if len(empty):
            raise InputError(
                "a planner's masks must leave a cell "
                f"at every step; step {empty[0]} has none."
            )

    @property
    def grid(self) -> PlanGrid:
        """The grid that the masks are on."""
        return PlanGrid(self.cells.shape[1])

    @cached_property
    def index(self) -> Int[np.ndarray, "3 cell"]:
        """Step, x and y of every cell within the masks: by step, then in row-major
        order.
        """
        return np.stack(np.nonzero(self.cells))

    @cached_property
    def ends(self) -> Int[np.ndarray, "step"]:
        """End of every step's cells in `index`."""
        return np.cumsum(self.cells.sum(axis=(1, 2)))

    def within(
        self, blocks: Float[np.ndarray, "*batch step bx by"]
    ) -> Float[np.ndarray, "*batch cell"]:
        """Values of the cells within the masks, from the values of their blocks."""
        step, x, y = self.index
        return blocks[..., step, x // BLOCK, y // BLOCK]

    def per_step(
        self, values: Float[np.ndarray, "*batch cell"]
    ) -> list[Float[np.ndarray, "*batch _"]]:
        """Values of the cells within the masks, step by step."""
        return np.split(values, self.ends[:-1], axis=-1)


def path_cells(
    logits: Float[np.ndarray, "*batch cell"], masks: Masks
) -> Int[np.ndarray, "*batch step 2"]:
    """At every step the cell of the largest logit within the mask; the first of equal
    ones, in row-major order.
    """
    begins = np.concatenate([[0], masks.ends[:-1]])
    best = (
        np.stack([part.argmax(axis=-1) for part in masks.per_step(logits)], axis=-1)
        + begins
    )
    return np.moveaxis(masks.index[1:][:, best], 0, -1)


def path_m(
    logits: Float[np.ndarray, "*batch cell"], masks: Masks
) -> Float[np.ndarray, "*batch step 2"]:
    """The planned positions (x, y) in the vehicle's frame."""
    return masks.grid.metres(path_cells(logits, masks))


def sigmoid(logits: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """The logistic function, in the precision of its argument and without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def displacements_m(
    paths_m: Float[np.ndarray, "time step 2"],
    target_m: Float[np.ndarray, "time step 2"],
) -> Float[np.ndarray, "time step"]:
    """Distances of planned positions from their targets; their mean is ADE, the last
    one FDE.
    """
    return np.hypot(*np.moveaxis(paths_m - target_m, -1, 0))


TIP_STEPS = 12
"""Steps over which TIP is summed: 3 s."""


def pkl(
    reference: Float[np.ndarray, "*batch cell"],
    perceived: Float[np.ndarray, "*batch cell"],
    *,
    precision: type[np.floating] = np.float64,
) -> Float[np.ndarray, "*batch"]:
    """Planning KL divergence: the change of the plan by the perceived boxes, over the
    cells within the masks.

    The sum of KL(sigmoid reference || sigmoid perceived). Single precision gives the
    sums of the published code.
    """
    p_logits, q_logits = reference.astype(precision), perceived.astype(precision)
    target = sigmoid(p_logits)
    return np.asarray(
        (_cross_entropy(q_logits, target) - _cross_entropy(p_logits, target)).sum(
            axis=-1, dtype=precision
        )
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
    """Transcendental idealism of the planner: sum over steps of the four-term formula
    on softmax within the mask.

    With `utility="logarithm"` the four numbers are logarithms; the compared cells are
    the same.
    """
    total = np.zeros(reference.shape[:-1], dtype=precision)
    both = zip(
        masks.per_step(reference.astype(precision)),
        masks.per_step(perceived.astype(precision)),
        strict=True,
    )
    for p_logits, q_logits in list(both)[:steps]:
        p, q = _softmax(p_logits), _softmax(q_logits)
        best, raised = (
            p.argmax(axis=-1, keepdims=True),
            (q - p).argmax(axis=-1, keepdims=True),
        )
        if utility == "logarithm":
            p, q = np.log(p), np.log(q)
        total = total + _four_terms(p, q, best, raised)
    return np.asarray(total)


def tip_of_utilities(
    reference: Float[np.ndarray, "*batch action"],
    perceived: Float[np.ndarray, "*batch action"],
) -> Float[np.ndarray, "*batch"]:
    """TIP of a planner that chooses among candidates by utility, such as PDM-Closed by
    the scores of its proposals.

    With p and q the utilities under the reference and the perceived objects, a* the
    best candidate under p and â the one that the error raises most: (q(a*) - q(â)) -
    (p(a*) - p(â)). It is 0 iff no candidate is raised more than a*. Ties go to the
    first candidate.
    """
    if not reference.shape[-1]:
        raise ValueError("TIP needs a candidate or more.")
    raised = (perceived - reference).argmax(axis=-1, keepdims=True)
    return _four_terms(
        reference, perceived, reference.argmax(axis=-1, keepdims=True), raised
    )


def pkl_gain(
    cheap: Float[np.ndarray, "*any"], full: Float[np.ndarray, "*any"]
) -> Float[np.ndarray, "*any"]:
    """PKL of the cheap mode minus PKL of the full mode: more PKL is worse."""
    return cheap - full


def tip_gain(
    cheap: Float[np.ndarray, "*any"], full: Float[np.ndarray, "*any"]
) -> Float[np.ndarray, "*any"]:
    """TIP of the full mode minus TIP of the cheap mode: less TIP is worse."""
    return full - cheap


def _four_terms(
    p: np.ndarray, q: np.ndarray, best: np.ndarray, raised: np.ndarray
) -> np.ndarray:
    def at(utility: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.take_along_axis(utility, action, axis=-1)[..., 0]

    return np.asarray((at(q, best) - at(p, best)) - (at(q, raised) - at(p, raised)))


def _cross_entropy(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    # The stable form of -t log s(x) - (1 - t) log(1 - s(x)): no logarithm of 0 and no
    # overflow.
    return np.maximum(logits, 0) - logits * target + np.log1p(np.exp(-np.abs(logits)))


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
