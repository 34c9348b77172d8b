"""A fitted allocator and rows to try it on -> its ONNX graph, checked: what ONNX Runtime answers is what we answer."""

from typing import NamedTuple

import numpy as np

from deepval.allocators.fitted import FittedAllocator
from deepval.allocators.learned import Learned
from deepval.allocators.onnx_graph import onnx_of
from deepval.allocators.tree_graph import ROW
from deepval.arrays import Float
from deepval.errors import InputError, library
from deepval.perception.running.onnx_model import open_session

TOLERANCE = 1e-9
"""Largest difference of a score, relative to the largest score where that is above 1."""


class Exported(NamedTuple):
    """A graph, and what the check found: rows tried, the largest difference, and how many scores kept every bit."""

    graph: bytes
    rows: int
    difference: float
    equal: int


def exported(made: FittedAllocator, rows: Float[np.ndarray, "row column"]) -> Exported:
    """The graph of an allocator that is a function of a row; InputError where its scores are not ours.

    It is tried on the rows, on the same with every third number missing and with numbers on the thresholds of trees.
    """
    if not isinstance(made, Learned):
        raise InputError(f"{made.name} is no function of a row of numbers, so there is no graph from row to score.")
    library("onnxruntime", purpose="Checking an exported graph", extra="vision")
    graph = onnx_of(made)
    tried = _tried(made, rows)
    (found,) = open_session(graph, name=f"that of {made.name}", threads=1).run(None, {ROW: tried})
    ours = made.score_rows(tried).reshape(found.shape)
    difference = float(np.abs(found - ours).max())
    if not difference <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise InputError(
            f"{made.name}: ONNX Runtime must score rows as we do; it differs by {difference:.3g} on one of "
            f"{len(tried):,} rows. Nothing is written."
        )
    return Exported(graph, len(tried), difference, int((found == ours).all(axis=1).sum()))


def _tried(made: Learned, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "tried column"]:
    """Rows to try: as they are, with gaps, and with columns on thresholds, where trees part."""
    known = np.ascontiguousarray(rows, np.float64)
    gaps = np.where(np.arange(known.size).reshape(known.shape) % 3 == 0, np.nan, known)
    on = known.copy()
    for head in made.heads:
        feature, threshold = (getattr(head, name, np.zeros(0)) for name in ("feature", "threshold"))
        cuts = np.flatnonzero(np.isfinite(threshold).ravel())
        for place, cut in enumerate(cuts.tolist()):
            on[place % len(on), int(feature.ravel()[cut])] = threshold.ravel()[cut]
    return np.concatenate([known, gaps, on])
