"""Trees -> the TreeEnsemble operator of ONNX that walks them, and the graph that has nothing else.

Thresholds are doubles, so no row takes another way; the baseline is the first tree, as it is the first that we add.
"""

from typing import Any

import numpy as np

from deepval.allocators.models import Trees
from deepval.allocators.onnx_writer import graph, model, node, shaped

ML = "ai.onnx.ml"
OPSETS, IR_VERSION = {"": 17, ML: 5}, 10
"""Read by ONNX Runtime from 1.20 on."""
ROW, RAW = "row", "raw"


def tree_graph(trees: Trees) -> bytes:
    """The graph: row [n, columns] -> raw [n, 1], the sum of the leaves that a row ends in."""
    whole = graph(
        "trees",
        [node("TreeEnsemble", (ROW,), RAW, domain=ML, **tree_attributes(trees))],
        {},
        inputs=shaped(ROW, ("n", trees.columns), dtype="float64"),
        outputs=shaped(RAW, ("n", 1), dtype="float64"),
    )
    return model(whole, ir_version=IR_VERSION, opsets=OPSETS, facts={})


def tree_attributes(head: Trees) -> dict[str, Any]:
    """What the operator is told of all trees at once."""
    feature, threshold, gap_left, leaves = head.feature, head.threshold, head.gap_left, head.leaf
    if not feature.size:  # a tree that asks nothing gets a question with one answer
        shape = len(leaves), 1
        feature, threshold, gap_left = np.zeros(shape, np.int64), np.full(shape, np.inf), np.ones(shape, bool)
        leaves = np.repeat(leaves, 2, axis=1)
    trees, inner = feature.shape
    roots, first = 1 + inner * np.arange(trees)[:, None], 1 + (inner + 1) * np.arange(trees)[:, None]
    left = 2 * np.arange(inner) + 1
    last = left >= inner  # the level whose children are leaves, which are counted apart
    true, false = (np.where(last, first + child - inner, roots + child) for child in (left, left + 1))
    to_leaf = np.tile(last, (trees, 1))

    def listed(start: int, rest: np.ndarray) -> list[int]:
        return [start, *np.asarray(rest, np.int64).ravel().tolist()]

    return {
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": listed(0, roots),
        "nodes_featureids": listed(0, feature),
        "nodes_splits": np.concatenate([[np.inf], threshold.ravel()]),
        "nodes_modes": np.zeros(1 + trees * inner, np.uint8),
        "nodes_truenodeids": listed(0, true),
        "nodes_falsenodeids": listed(0, false),
        "nodes_trueleafs": listed(1, to_leaf),
        "nodes_falseleafs": listed(1, to_leaf),
        "nodes_missing_value_tracks_true": listed(1, gap_left),
        "leaf_targetids": [0] * (1 + leaves.size),
        "leaf_weights": np.concatenate([[head.baseline], leaves.ravel()]),
    }
