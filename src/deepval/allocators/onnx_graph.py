"""A fitted allocator on rows of numbers -> an ONNX graph from its row to its score, in double precision throughout.

Trees become one TreeEnsemble whose leaves are added in our order, so their sums are exact to the bit. Thresholds stay
doubles, so every row takes the same path. ONNX Runtime may add other sums in another order, which changes the last
digits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from deepval.allocators.allocator import FittedAllocator
from deepval.allocators.models import Linear, Model, Network, Quantile, Trees
from deepval.allocators.models.model import Link, Standard
from deepval.allocators.onnx_writer import IR_VERSION, ML, OPSETS, ROW, graph, model, node, shaped, tree_attributes
from deepval.allocators.row_allocator import RECALLED, Learned
from deepval.arrays import Float
from deepval.errors import InputError, library
from deepval.files.canonical import json_canonical
from deepval.perception.running.onnx_model import open_session

SCORE = "score"


def onnx_of(allocator: Learned) -> bytes:
    """The graph: row [n, columns] -> score [n, 1], or [n, modes above cheap] with one score per mode."""
    builder = _Graph()
    heads = [builder.head(head) for head in allocator.heads]
    if allocator.per_mode:
        builder.add("Concat", heads, SCORE, axis=1)
    else:
        signal = heads[0]
        for index, (other, weight) in enumerate(zip(heads[1:], (-1.0, RECALLED), strict=False)):
            signal = builder.add("Add", (signal, builder.add("Mul", (other, builder.number(weight)))), f"sum{index}")
        builder.add("Identity", (signal,), SCORE)
    columns = len(allocator.feature_set.columns)
    whole = graph(
        "allocator",
        builder.nodes,
        builder.constants,
        inputs=shaped(ROW, ("n", columns), dtype="float64"),
        outputs=shaped(SCORE, ("n", len(heads) if allocator.per_mode else 1), dtype="float64"),
    )
    return model(whole, ir_version=IR_VERSION, opsets=OPSETS, facts=facts_of(allocator))


def facts_of(allocator: Learned) -> Mapping[str, str]:
    """The metadata of a graph: its columns, the modes of its scores, and its training target and cell."""
    facts: dict[str, Any] = {
        "allocator": allocator.name,
        "front": allocator.feature_set.name,
        "columns": list(allocator.feature_set.columns),
        "modes": list(allocator.modes),
        "target": allocator.training.target,
        "cell": allocator.training.cell,
    }
    return {f"deepval.{name}": v if isinstance(v, str) else json_canonical(v) for name, v in facts.items()}


@dataclass
class _Graph:
    """Nodes and constants so far; every signal has a unique name."""

    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    signals: int = 0

    def add(self, operator: str, inputs: Any, output: str | None = None, **attributes: Any) -> str:
        self.signals += 1
        output = output or f"signal{self.signals}"
        self.nodes.append(node(operator, tuple(inputs), output, **attributes))
        return output

    def constant(self, value: Any, dtype: type = np.float64) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def number(self, value: float) -> str:
        return self.constant(value)

    def head(self, head: Model) -> str:
        """The prediction of a model for each row, [n, 1]."""
        match head:
            case Linear():
                sums = self.add("MatMul", (self.standard(head.standard), self.constant(head.weight[:, None])))
                return self.add("Add", (sums, self.number(head.intercept)))
            case Network():
                return self.network(head)
            case Trees():
                return self.linked(self.trees(head), head.link)
            case Quantile():
                return self.quantile(head)
            case _:
                raise InputError(f"A {type(head).__name__} has no ONNX form; write one in allocators/onnx_graph.py.")

    def standard(self, standard: Standard) -> str:
        centred = self.add("Sub", (ROW, self.constant(standard.mean)))
        scaled = self.add("Mul", (centred, self.constant(standard.inverse_spread)))
        return self.add("Where", (self.add("IsNaN", (scaled,)), self.number(0.0), scaled))

    def network(self, head: Network) -> str:
        signal = self.standard(head.standard)
        for number, (weight, bias) in enumerate(head.layers):
            signal = self.add("Max", (signal, self.number(0.0))) if number else signal
            signal = self.add("Add", (self.add("MatMul", (signal, self.constant(weight))), self.constant(bias)))
        scaled = self.add("Mul", (signal, self.number(head.scale)))
        return self.linked(self.add("Add", (scaled, self.number(head.shift))), head.link)

    def linked(self, raw: str, link: Link) -> str:
        if link == "identity":
            return raw
        small = self.add("Exp", (self.add("Neg", (self.add("Abs", (raw,)),)),))
        above = self.add("GreaterOrEqual", (raw, self.number(0.0)))
        return self.add(
            "Div",
            (self.add("Where", (above, self.number(1.0), small)), self.add("Add", (small, self.number(1.0)))),
        )

    def trees(self, head: Trees) -> str:
        """All trees as one operator; the baseline is its first tree, because our sum starts with it."""
        return self.add("TreeEnsemble", (ROW,), domain=ML, **tree_attributes(head))

    def quantile(self, head: Quantile) -> str:
        total = self.number(0.0)
        for index, weight in head.weight.items():
            column = self.add("Gather", (ROW, self.constant([index], np.int64)), axis=1)
            total = self.add("Add", (total, self.add("Mul", (column, self.number(weight)))))
        reference, axes = self.constant(head.reference[None]), self.constant([1], np.int64)
        counts = []
        for operator in ("Less", "LessOrEqual"):
            below = self.add("Cast", (self.add(operator, (reference, total)),), to=7)
            counts.append(self.add("ReduceSum", (below, axes), keepdims=1))
        both = self.add("Cast", (self.add("Add", counts),), to=11)
        share = self.add("Div", (both, self.number(2.0 * max(len(head.reference), 1))))
        return self.add("Where", (self.add("IsNaN", (total,)), self.number(0.5), share))


TOLERANCE = 1e-9
"""Largest allowed difference of a score; relative to the largest score if that is above 1."""


class Exported(NamedTuple):
    """A graph and the result of its check: rows tried, the largest difference, and rows with bit-equal scores."""

    graph: bytes
    rows: int
    difference: float
    equal: int


def exported(allocator: FittedAllocator, rows: Float[np.ndarray, "row column"]) -> Exported:
    """The graph of an allocator that is a function of a row; InputError if its scores differ from ours.

    The check uses the rows, the same rows with every third number missing, and with numbers on the trees' thresholds.
    """
    if not isinstance(allocator, Learned):
        raise InputError(
            f"{allocator.name} is no function of a row of numbers, so there is no graph from row to score."
        )
    library("onnxruntime", purpose="Checking an exported graph", extra="vision")
    graph = onnx_of(allocator)
    test_rows = _test_rows(allocator, rows)
    (scores,) = open_session(graph, name=f"that of {allocator.name}", threads=1).run(None, {ROW: test_rows})
    ours = allocator.score_rows(test_rows).reshape(scores.shape)
    difference = float(np.abs(scores - ours).max())
    if not difference <= TOLERANCE * max(1.0, float(np.abs(ours).max())):
        raise InputError(
            f"{allocator.name}: ONNX Runtime must score rows as we do; it differs by {difference:.3g} on one of "
            f"{len(test_rows):,} rows. Nothing is written."
        )
    return Exported(graph, len(test_rows), difference, int((scores == ours).all(axis=1).sum()))


def _test_rows(allocator: Learned, rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "tried column"]:
    """Rows for the check: unchanged, with gaps, and with columns on the thresholds of trees."""
    plain = np.ascontiguousarray(rows, np.float64)
    gaps = np.where(np.arange(plain.size).reshape(plain.shape) % 3 == 0, np.nan, plain)
    on_threshold = plain.copy()
    for head in allocator.heads:
        feature, threshold = (getattr(head, name, np.zeros(0)) for name in ("feature", "threshold"))
        cuts = np.flatnonzero(np.isfinite(threshold).ravel())
        for index, cut in enumerate(cuts.tolist()):
            on_threshold[index % len(on_threshold), int(feature.ravel()[cut])] = threshold.ravel()[cut]
    return np.concatenate([plain, gaps, on_threshold])
