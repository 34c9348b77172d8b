"""Histogram gradient boosting -> flat trees: arrays of complete binary trees that NumPy walks, all trees at once.

A tree that is shallower is filled up with nodes that send everything left. Leaves are added one tree after the other,
as the library that fits them does, so both give the same bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deepval.allocators.models.model import Learner, Link, Model, checked_link, linked, linked_one, one_thread
from deepval.arrays import Bool, Float, Int

BINS = 255
"""Bins of a column in a weighted fit, as many as the library has."""
MOST_TREES, MOST_LEAVES = 10_000, 2**20
"""Of a model in a file: more would take gigabytes to read and to walk."""
CHUNK = 512
"""Rows walked at a time, so that the working set stays in the cache."""


@dataclass(frozen=True, eq=False)
class Trees(Model):
    """Trees as heaps: the children of node k are 2k+1 (value <= threshold) and 2k+2.

    Attributes:
        baseline: What is predicted before any tree.
        link: What turns the sum into the prediction.
        feature: Column that each node looks at.
        threshold: Values up to this go left.
        gap_left: Whether a gap (NaN) goes left.
        leaf: What each leaf adds, from the leftmost on.
        columns: How many numbers a row must have.
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
        """How many numbers a row must have."""
        return self.columns

    def raw(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The sum of the leaves that each row ends in."""
        found = np.empty(len(rows))
        for begin in range(0, len(rows), CHUNK):
            part = rows[begin : begin + CHUNK]
            place = np.arange(len(part))[:, None] * part.shape[1]
            found[begin : begin + CHUNK] = self._summed(part.ravel(), place)
        return found

    def raw_row(self, row: Float[np.ndarray, "column"]) -> float:
        """The sum of the leaves that one row ends in."""
        return float(self._summed(row, 0))

    def predict(self, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row"]:
        """The prediction for each row."""
        return linked(self.raw(rows), self.link)

    def predict_row(self, row: Float[np.ndarray, "column"]) -> float:
        """The prediction for one row."""
        return linked_one(self.raw_row(row), self.link)

    def _summed(
        self, values: Float[np.ndarray, "_"], place: Int[np.ndarray, "row 1"] | int
    ) -> Float[np.ndarray, "*row"]:
        """Sums for rows that begin at these places of `values`, one after the other; all trees go down at once."""
        feature, threshold, gap_left, leaf, first = self._flat
        gap = np.isnan(values)
        gaps = bool(gap.any())
        step, node = 2 - first, first
        for _ in range(self.depth):
            asked = feature[node] + place
            left = values[asked] <= threshold[node]
            if gaps:
                left |= gap_left[node] & gap[asked]
            # Node k of a tree that begins at f stands at f + k, its children at f + 2k + 1 and f + 2k + 2.
            node = 2 * node + step - left
        ends = leaf[node - self._before_leaves]
        sums = np.empty((*ends.shape[:-1], ends.shape[-1] + 1))
        sums[..., 0], sums[..., 1:] = self.baseline, ends
        # A running sum keeps the order of the trees; a plain sum would pair them up.
        return np.add.accumulate(sums, axis=-1)[..., -1]

    @cached_property
    def depth(self) -> int:
        """Questions on the way to a leaf."""
        return self.leaf.shape[1].bit_length() - 1

    @cached_property
    def _flat(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Features, thresholds, ways of gaps and leaves of all trees in a row, and where each tree begins."""
        trees, nodes = self.feature.shape
        first = np.arange(trees) * nodes
        return self.feature.ravel(), self.threshold.ravel(), self.gap_left.ravel(), self.leaf.ravel(), first

    @cached_property
    def _before_leaves(self) -> Int[np.ndarray, "tree"]:
        """What to take from a node below the last level to get its place among all leaves."""
        trees, nodes = self.feature.shape
        return nodes - np.arange(trees)

    def to_dict(self) -> dict[str, Any]:
        """The model in plain lists and numbers; a node without a threshold (null) sends every number left."""
        threshold = self.threshold.tolist()
        return {
            "model": "trees",
            "link": self.link,
            "baseline": self.baseline,
            "columns": self.columns,
            "feature": self.feature.tolist(),
            "threshold": [[None if value == np.inf else value for value in tree] for tree in threshold],
            "gap_left": self.gap_left.astype(int).tolist(),
            "leaf": self.leaf.tolist(),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Trees":
        """The model that plain lists and numbers describe."""
        columns = int(content["columns"])
        if len(content["leaf"]) > MOST_TREES or sum(map(len, content["leaf"])) > MOST_LEAVES:
            raise ValueError(f"there may be {MOST_TREES:,} trees with {MOST_LEAVES:,} leaves; there are more")
        threshold = [[np.inf if value is None else value for value in tree] for tree in content["threshold"]]
        leaf = np.array(content["leaf"], float)
        if leaf.ndim != 2 or not leaf.size or leaf.shape[1] & (leaf.shape[1] - 1):
            raise ValueError("trees need a leaf for every way down")
        shape = len(leaf), leaf.shape[1] - 1
        feature = np.array(content["feature"]).reshape(shape)
        if feature.size and (feature.dtype.kind != "i" or feature.min() < 0 or feature.max() >= columns):
            raise ValueError("trees ask for columns by whole numbers, from 0 to less than how many there are")
        return cls(
            baseline=float(content["baseline"]),
            link=checked_link(content["link"]),
            feature=feature.astype(np.intp),
            threshold=np.array(threshold, float).reshape(shape),
            gap_left=np.array(content["gap_left"], bool).reshape(shape),
            leaf=leaf,
            columns=columns,
        )


@dataclass(frozen=True)
class Boosting(Learner):
    """Histogram gradient boosting: depth, trees, learning rate and leaf size of the paper; nothing in it is random."""

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

    def fit(
        self,
        rows: Float[np.ndarray, "row column"],
        labels: Float[np.ndarray, "row"],
        *,
        classify: bool,
        weights: Float[np.ndarray, "row"] | None = None,
        seed: int = 0,
    ) -> Trees:
        """The fitted trees; early stopping is off, as it would make the fit depend on a random part of the rows."""
        model = self.estimator(classify=classify, seed=seed)
        asked = telling(rows)
        shown = rows[:, asked] if len(asked) else np.zeros((len(rows), 1))
        if weights is None:
            with one_thread():
                model.fit(shown, labels)
            return flat(model, asked, columns=rows.shape[1], depth=self.depth)
        # Given weights, the library would weigh its bins too, which takes longer than the fit; these are ours.
        codes, edges = binned(shown)
        with one_thread():
            model.fit(codes, labels, sample_weight=weights)
        trees = flat(model, asked, columns=rows.shape[1], depth=self.depth)
        return replace(trees, threshold=_unbinned(trees, dict(zip(asked.tolist(), edges, strict=False))))

    def estimator(self, *, classify: bool, seed: int = 0) -> Any:
        """The library's own model, not yet fitted."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
        settings: dict[str, Any] = {
            "max_iter": self.trees,
            "max_depth": self.depth,
            "learning_rate": self.learning_rate,
            "min_samples_leaf": self.least_per_leaf,
            "l2_regularization": self.l2,
            "early_stopping": False,
            "random_state": seed,
        }
        return kind(**settings)


def telling(rows: Float[np.ndarray, "row column"]) -> Int[np.ndarray, "asked"]:
    """The columns that a tree can ask, for they hold two different things or more, a gap being one."""
    return np.flatnonzero(~((rows == rows[:1]).all(axis=0) | np.isnan(rows).all(axis=0)))


def binned(rows: Float[np.ndarray, "row column"]) -> tuple[Float[np.ndarray, "row column"], list[np.ndarray]]:
    """Every number as the number of its bin, gaps as they are, and the upper edges of each column's bins.

    Edges lie halfway between neighbours; where there are more than 255 values, at 255 quantiles.
    """
    codes, edges = np.full(rows.shape, np.nan), []
    for place, column in enumerate(rows.T):
        known = ~np.isnan(column)
        values = np.unique(column[known])
        middles = (values[:-1] + values[1:]) / 2
        if len(values) > BINS:
            middles = np.unique(np.quantile(column[known], np.arange(1, BINS) / BINS, method="midpoint"))
        codes[known, place] = np.searchsorted(middles, column[known], side="left")
        edges.append(middles)
    return codes, edges


def _unbinned(trees: Trees, edges: Mapping[int, np.ndarray]) -> Float[np.ndarray, "tree node"]:
    """Thresholds on the numbers themselves: bin <= k + 1/2 is number <= edge k."""
    threshold = trees.threshold.copy()
    for place in np.argwhere(np.isfinite(threshold)).tolist():
        at = tuple(place)
        threshold[at] = edges[int(trees.feature[at])][int(threshold[at])]
    return threshold


def flat(model: Any, asked: Int[np.ndarray, "asked"], *, columns: int, depth: int) -> Trees:
    """The flat form of a model of scikit-learn, fitted on some columns; the library has no public way to its trees."""
    trees = [made[0].nodes for made in vars(model)["_predictors"]]
    nodes = 2**depth - 1
    feature = np.zeros((len(trees), nodes), np.intp)
    threshold, gap_left = np.full((len(trees), nodes), np.inf), np.ones((len(trees), nodes), bool)
    leaf = np.zeros((len(trees), nodes + 1))
    for number, tree in enumerate(trees):
        for place, node in _ways(tree, depth):
            if place >= nodes:
                leaf[number, place - nodes] = node["value"]
            elif not node["is_leaf"]:
                feature[number, place] = asked[node["feature_idx"]]
                threshold[number, place] = node["num_threshold"]
                gap_left[number, place] = node["missing_go_to_left"]
    classify = hasattr(model, "classes_")
    baseline = float(np.asarray(vars(model)["_baseline_prediction"]).ravel()[0])
    return Trees(baseline, "logistic" if classify else "identity", feature, threshold, gap_left, leaf, columns)


def _ways(tree: np.ndarray, depth: int) -> list[tuple[int, np.void]]:
    """Every place of the complete tree with the node that stands there; a leaf stands for all below it."""
    found, level = [(0, tree[0])], [(0, tree[0])]
    for _ in range(depth):
        level = [
            (2 * place + 1 + side, node if node["is_leaf"] else tree[node["right" if side else "left"]])
            for place, node in level
            for side in (0, 1)
        ]
        found += level
    return found
