"""Histogram gradient boosting -> flat trees: arrays of complete binary trees that NumPy
walks, all trees at once.

A shallower tree is filled up with nodes that send every row left. Leaves are added one
tree after the other, as in the library that fits them, so both give the same bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deepval.basics.arrays import Bool, Float, Int
from deepval.basics.errors import library
from deepval.deploy.allocators.models.model import (
    Learner,
    Link,
    Model,
    Task,
    apply_link,
    apply_link_to_one,
    link_of,
    one_thread,
)

BINS = 255
"""Bins of a column in a weighted fit: the library's own number."""
MOST_TREES, MOST_LEAVES = 10_000, 2**20
"""Upper limits for a model file: larger models take gigabytes to read and to walk."""
CHUNK = 512
"""Rows walked at a time, so that the working set stays in the cache."""


@dataclass(frozen=True, eq=False)
class Trees(Model):
    """Trees as heaps: the children of node k are 2k+1 (value <= threshold) and 2k+2.

    Attributes:
        baseline: The prediction before any tree.
        link: The function from the sum to the prediction.
        feature: The column that each node compares.
        threshold: Values up to this go left.
        gap_left: Whether a gap (NaN) goes left.
        leaf: The summand of each leaf, from left to right.
        columns: The length of a row.
    """

    baseline: float
    link: Link
    feature: Int[np.ndarray, "tree node"]
    threshold: Float[np.ndarray, "tree node"]
    gap_left: Bool[np.ndarray, "tree node"]
    leaf: Float[np.ndarray, "tree leaf"]
    columns: int

    @property
    def width(self) -> int:
        """The length of a row."""
        return self.columns

    def raw(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The sum of the leaves that each row reaches."""
        sums = np.empty(len(rows))
        for begin in range(0, len(rows), CHUNK):
            part = rows[begin : begin + CHUNK]
            start = np.arange(len(part))[:, None] * part.shape[1]
            sums[begin : begin + CHUNK] = self._sums(part.ravel(), start)
        return sums

    def raw_row(self, row: Float[np.ndarray, "column"]) -> float:
        """The sum of the leaves that one row reaches."""
        return float(self._sums(row, 0))

    def predict(
        self, rows: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        return apply_link(self.raw(rows), self.link)

    def predict_row(self, row: Float[np.ndarray, "column"]) -> float:
        """The prediction for one row."""
        return apply_link_to_one(self.raw_row(row), self.link)

    def _sums(
        self, values: Float[np.ndarray, "_"], start: Int[np.ndarray, "row 1"] | int
    ) -> Float[np.ndarray, "*row"]:
        """Sums for the rows that begin at the indices `start` of `values`; all trees
        descend at once.
        """
        feature, threshold, gap_left, leaf, first = self._flat
        gap = np.isnan(values)
        gaps = bool(gap.any())
        step, node = 2 - first, first
        for _ in range(self.depth):
            index = feature.take(node) + start
            left = values.take(index) <= threshold.take(node)
            if gaps:
                left |= gap_left.take(node) & gap.take(index)
            # Node k of a tree that begins at f has index f + k; its children have f +
            # 2k + 1 and f + 2k + 2.
            node = 2 * node + step - left
        ends = leaf.take(node - self._before_leaves)
        sums = np.empty((*ends.shape[:-1], ends.shape[-1] + 1))
        sums[..., 0], sums[..., 1:] = self.baseline, ends
        # A running sum adds the trees in order; np.sum adds pairwise and rounds
        # differently.
        return np.add.accumulate(sums, axis=-1)[..., -1]

    @cached_property
    def depth(self) -> int:
        """Number of comparisons on the way to a leaf."""
        return self.leaf.shape[1].bit_length() - 1

    @cached_property
    def _flat(
        self,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Features, thresholds, gap directions and leaves of all trees, flattened, and
        the first node of each tree.
        """
        trees, nodes = self.feature.shape
        first = np.arange(trees) * nodes
        return (
            self.feature.ravel(),
            self.threshold.ravel(),
            self.gap_left.ravel(),
            self.leaf.ravel(),
            first,
        )

    @cached_property
    def _before_leaves(self) -> Int[np.ndarray, "tree"]:
        """Offset to subtract from a node index below the last level to get its index
        among all leaves.
        """
        trees, nodes = self.feature.shape
        return nodes - np.arange(trees)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers; a node without a threshold (null) sends
        every number left.
        """
        threshold = self.threshold.tolist()
        return {
            "model": "trees",
            "link": self.link,
            "baseline": self.baseline,
            "columns": self.columns,
            "feature": self.feature.tolist(),
            "threshold": [
                [None if value == np.inf else value for value in tree]
                for tree in threshold
            ],
            "gap_left": self.gap_left.astype(int).tolist(),
            "leaf": self.leaf.tolist(),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Trees":
        """The model from plain lists and numbers."""
        columns = int(content["columns"])
        if (
            len(content["leaf"]) > MOST_TREES
            or sum(map(len, content["leaf"])) > MOST_LEAVES
        ):
            raise ValueError(
                f"there may be at most {MOST_TREES:,} trees with {MOST_LEAVES:,} "
                "leaves; there are more"
            )
        threshold = [
            [np.inf if value is None else value for value in tree]
            for tree in content["threshold"]
        ]
        leaf = np.array(content["leaf"], float)
        if leaf.ndim != 2 or not leaf.size or leaf.shape[1] & (leaf.shape[1] - 1):
            raise ValueError("trees need a leaf for every path from the root")
        shape = len(leaf), leaf.shape[1] - 1
        feature = np.array(content["feature"]).reshape(shape)
        if feature.size and (
            feature.dtype.kind != "i" or feature.min() < 0 or feature.max() >= columns
        ):
            raise ValueError(
                "trees must refer to columns by whole numbers from 0 to one less than "
                "the number of columns"
            )
        return cls(
            baseline=float(content["baseline"]),
            link=link_of(content["link"]),
            feature=feature.astype(np.intp),
            threshold=np.array(threshold, float).reshape(shape),
            gap_left=np.array(content["gap_left"], bool).reshape(shape),
            leaf=leaf,
            columns=columns,
        )


@dataclass(frozen=True)
class Boosting(Learner[Trees]):
    """Histogram gradient boosting: depth, trees, learning rate and leaf size of the
    paper; the fit is deterministic.
    """

    trees: int = 200
    depth: int = 3
    learning_rate: float = 0.08
    least_per_leaf: int = 40
    l2: float = 0.0
    bounds = {  # noqa: RUF012
        "trees": (1, 10_000),
        "depth": (1, 12),
        "learning_rate": (1e-6, 10.0),
        "least_per_leaf": (1, 1e9),
        "l2": (0.0, 1e12),
    }

    def _fit(self, task: Task) -> Trees:
        """The fitted trees; early stopping is off, as it would make the fit depend on a
        random part of the rows.
        """
        rows, model = task.rows, self.estimator(classify=task.classify, seed=task.seed)
        columns = informative_columns(rows)
        informative = rows[:, columns] if len(columns) else np.zeros((len(rows), 1))
        if task.weights is None:
            with one_thread():
                model.fit(informative, task.labels)
            return flat(model, columns, columns=rows.shape[1], depth=self.depth)
        # With weights the library computes weighted bins, which takes longer than the
        # fit; so bin here, unweighted.
        codes, edges = bin_columns(informative)
        with one_thread():
            model.fit(codes, task.labels, sample_weight=task.weights)
        trees = flat(model, columns, columns=rows.shape[1], depth=self.depth)
        return replace(
            trees,
            threshold=_number_thresholds(
                trees, dict(zip(columns.tolist(), edges, strict=False))
            ),
        )

    def estimator(self, *, classify: bool, seed: int = 0) -> Any:
        """The library's own model, not yet fitted."""
        kind = f"HistGradientBoosting{'Classifier' if classify else 'Regressor'}"
        settings: dict[str, Any] = {
            "max_iter": self.trees,
            "max_depth": self.depth,
            "learning_rate": self.learning_rate,
            "min_samples_leaf": self.least_per_leaf,
            "l2_regularization": self.l2,
            "early_stopping": False,
            "random_state": seed,
        }
        return getattr(library("sklearn.ensemble"), kind)(**settings)


def informative_columns(
    rows: Float[np.ndarray, "row column"],
) -> Int[np.ndarray, "asked"]:
    """The columns that a tree can split: those with at least two different values,
    where a gap counts as a value.
    """
    return np.flatnonzero(
        ~((rows == rows[:1]).all(axis=0) | np.isnan(rows).all(axis=0))
    )


def bin_columns(
    rows: Float[np.ndarray, "row column"],
) -> tuple[Float[np.ndarray, "row column"], list[np.ndarray]]:
    """The bin index of every number (gaps stay gaps), and the upper edges of each
    column's bins.

    Edges lie halfway between neighbouring values; with more than 255 values, at
    quantiles.
    """
    codes, edges = np.full(rows.shape, np.nan), []
    for index, column in enumerate(rows.T):
        present = ~np.isnan(column)
        values = np.unique(column[present])
        middles = (values[:-1] + values[1:]) / 2
        if len(values) > BINS:
            middles = np.unique(
                np.quantile(
                    column[present], np.arange(1, BINS) / BINS, method="midpoint"
                )
            )
        codes[present, index] = np.searchsorted(middles, column[present], side="left")
        edges.append(middles)
    return codes, edges


def _number_thresholds(
    trees: Trees, edges: Mapping[int, np.ndarray]
) -> Float[np.ndarray, "tree node"]:
    """Thresholds on the numbers themselves: bin <= k + 1/2 is number <= edge k."""
    threshold = trees.threshold.copy()
    for index in np.argwhere(np.isfinite(threshold)).tolist():
        node = tuple(index)
        threshold[node] = edges[int(trees.feature[node])][int(threshold[node])]
    return threshold


def flat(
    model: Any, fitted_columns: Int[np.ndarray, "asked"], *, columns: int, depth: int
) -> Trees:
    """The flat form of a scikit-learn model that was fitted on some columns."""
    # The library has no public access to its trees.
    trees = [iteration[0].nodes for iteration in vars(model)["_predictors"]]
    nodes = 2**depth - 1
    feature = np.zeros((len(trees), nodes), np.intp)
    threshold, gap_left = (
        np.full((len(trees), nodes), np.inf),
        np.ones((len(trees), nodes), bool),
    )
    leaf = np.zeros((len(trees), nodes + 1))
    for number, tree in enumerate(trees):
        for position, node in _positions(tree, depth):
            if position >= nodes:
                leaf[number, position - nodes] = node["value"]
            elif not node["is_leaf"]:
                feature[number, position] = fitted_columns[node["feature_idx"]]
                threshold[number, position] = node["num_threshold"]
                gap_left[number, position] = node["missing_go_to_left"]
    classify = hasattr(model, "classes_")
    baseline = float(np.asarray(vars(model)["_baseline_prediction"]).ravel()[0])
    return Trees(
        baseline,
        "logistic" if classify else "identity",
        feature,
        threshold,
        gap_left,
        leaf,
        columns,
    )


def _positions(tree: np.ndarray, depth: int) -> list[tuple[int, np.void]]:
    """Every position of the complete tree with its node; a leaf fills all positions
    below it.
    """
    nodes, level = [(0, tree[0])], [(0, tree[0])]
    for _ in range(depth):
        level = [
            (
                2 * position + 1 + side,
                node if node["is_leaf"] else tree[node["right" if side else "left"]],
            )
            for position, node in level
            for side in (0, 1)
        ]
        nodes += level
    return nodes
