"""Fitted models -> an ONNX graph from a row of numbers to a score, in double precision
throughout.

Trees become one TreeEnsemble whose leaves are added in our order, so their sums are
exact to the bit. Thresholds stay doubles, so every row takes the same path. ONNX
Runtime may add other sums in another order, which changes the last digits. A graph is
written as fields of protocol buffers: writing needs no library, and equal graphs have
equal bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

import numpy as np

from deepval.basics.errors import InputError
from deepval.deploy.allocators.models import Linear, Model, Network, Quantile, Trees
from deepval.deploy.allocators.models.model import Link, Standard

_VARINT, _BYTES = 0, 2
_INT, _TENSOR, _INTS = 2, 4, 7
_TYPES = {"float32": 1, "uint8": 2, "int64": 7, "bool": 9, "float64": 11}
"""Array type -> its number in ONNX."""
Attribute = int | list[int] | np.ndarray


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: str | Sequence[str],
    *,
    domain: str = "",
    **attributes: Attribute,
) -> bytes:
    """An operator from input signals to one or more output signals."""
    content = b"".join(field(1, signal.encode()) for signal in inputs)
    content += b"".join(
        field(2, signal.encode())
        for signal in ([outputs] if isinstance(outputs, str) else outputs)
    )
    content += field(4, operator.encode())
    content += b"".join(
        field(5, _attribute(name, value)) for name, value in attributes.items()
    )
    return content + (field(7, domain.encode()) if domain else b"")


def tensor(name: str, value: np.ndarray) -> bytes:
    """A constant."""
    lengths = b"".join(field(1, length) for length in value.shape)
    data = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    return (
        lengths
        + field(2, _TYPES[value.dtype.name])
        + field(8, name.encode())
        + field(9, data)
    )


def value_info(
    name: str, shape: Sequence[int | str], *, dtype: str = "float32"
) -> bytes:
    """An input or output; a length may be a name, and is then free."""
    lengths = b"".join(
        field(1, field(1, n) if isinstance(n, int) else field(2, n.encode()))
        for n in shape
    )
    return field(1, name.encode()) + field(
        2, field(1, field(1, _TYPES[dtype]) + field(2, lengths))
    )


def graph(
    name: str,
    nodes: Sequence[bytes],
    constants: Mapping[str, np.ndarray],
    *,
    inputs: bytes,
    outputs: bytes,
) -> bytes:
    """The graph of nodes and constants from its one input to its one output."""
    content = b"".join(field(1, part) for part in nodes) + field(2, name.encode())
    content += b"".join(
        field(5, tensor(key, value)) for key, value in constants.items()
    )
    return content + field(11, inputs) + field(12, outputs)


def model(
    content: bytes,
    *,
    ir_version: int,
    opsets: Mapping[str, int],
    facts: Mapping[str, str],
) -> bytes:
    """The whole file: a graph, the versions of its operators by domain, and facts by
    name.
    """
    data = field(1, ir_version) + field(7, content)
    data += b"".join(
        field(8, field(1, domain.encode()) + field(2, number))
        for domain, number in opsets.items()
    )
    return data + b"".join(
        field(14, field(1, k.encode()) + field(2, v.encode())) for k, v in facts.items()
    )


def field(number: int, value: int | bytes) -> bytes:
    """A field of protocol buffers: its number and kind, then a varint, or a length and
    bytes.
    """
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, np.ndarray):
        return (
            field(1, name.encode()) + field(5, tensor("", value)) + field(20, _TENSOR)
        )
    listed = isinstance(value, list)
    numbers = (
        b"".join(field(8, number) for number in value) if listed else field(3, value)
    )
    return field(1, name.encode()) + numbers + field(20, _INTS if listed else _INT)


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


ML = "ai.onnx.ml"
OPSETS, IR_VERSION = {"": 17, ML: 5}, 10
"""ONNX Runtime reads these versions from 1.20 on."""
ROW, RAW = "row", "raw"


def tree_graph(trees: Trees) -> bytes:
    """The graph: row [n, columns] -> raw [n, 1], the sum of the leaves that a row
    reaches.
    """
    whole = graph(
        "trees",
        [node("TreeEnsemble", (ROW,), RAW, domain=ML, **tree_attributes(trees))],
        {},
        inputs=value_info(ROW, ("n", trees.columns), dtype="float64"),
        outputs=value_info(RAW, ("n", 1), dtype="float64"),
    )
    return model(whole, ir_version=IR_VERSION, opsets=OPSETS, facts={})


def tree_attributes(head: Trees) -> dict[str, Any]:
    """The attributes of a TreeEnsemble of all trees, after a first tree that adds the
    baseline.
    """
    feature, threshold, gap_left, leaves = (
        head.feature,
        head.threshold,
        head.gap_left,
        head.leaf,
    )
    if not feature.size:  # a tree of depth 0 gets one split that sends every row left
        shape = len(leaves), 1
        feature, threshold, gap_left = (
            np.zeros(shape, np.int64),
            np.full(shape, np.inf),
            np.ones(shape, bool),
        )
        leaves = np.repeat(leaves, 2, axis=1)
    trees, inner = feature.shape
    roots, first = (
        1 + inner * np.arange(trees)[:, None],
        1 + (inner + 1) * np.arange(trees)[:, None],
    )
    left = 2 * np.arange(inner) + 1
    # the level whose children are leaves, which have their own numbering
    last = left >= inner
    true, false = (
        np.where(last, first + child - inner, roots + child)
        for child in (left, left + 1)
    )
    to_leaf = np.tile(last, (trees, 1))

    def as_list(start: int, rest: np.ndarray) -> list[int]:
        return [start, *np.asarray(rest, np.int64).ravel().tolist()]

    return {
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": as_list(0, roots),
        "nodes_featureids": as_list(0, feature),
        "nodes_splits": np.concatenate([[np.inf], threshold.ravel()]),
        "nodes_modes": np.zeros(1 + trees * inner, np.uint8),
        "nodes_truenodeids": as_list(0, true),
        "nodes_falsenodeids": as_list(0, false),
        "nodes_trueleafs": as_list(1, to_leaf),
        "nodes_falseleafs": as_list(1, to_leaf),
        "nodes_missing_value_tracks_true": as_list(1, gap_left),
        "leaf_targetids": [0] * (1 + leaves.size),
        "leaf_weights": np.concatenate([[head.baseline], leaves.ravel()]),
    }


SCORE = "score"


def score_graph(
    heads: Sequence[Model],
    *,
    columns: int,
    weights: Sequence[float] | None,
    facts: Mapping[str, str],
) -> bytes:
    """The graph: row [n, columns] -> score [n, 1], the first head and the weighted
    others.

    Without weights the scores are [n, heads], one per head.
    """
    builder = _Graph()
    signals = [builder.head(head) for head in heads]
    if weights is None:
        builder.add("Concat", signals, SCORE, axis=1)
    else:
        signal = signals[0]
        for index, (other, weight) in enumerate(
            zip(signals[1:], weights, strict=False)
        ):
            signal = builder.add(
                "Add",
                (signal, builder.add("Mul", (other, builder.number(weight)))),
                f"sum{index}",
            )
        builder.add("Identity", (signal,), SCORE)
    whole = graph(
        "allocator",
        builder.nodes,
        builder.constants,
        inputs=value_info(ROW, ("n", columns), dtype="float64"),
        outputs=value_info(
            SCORE, ("n", len(heads) if weights is None else 1), dtype="float64"
        ),
    )
    return model(whole, ir_version=IR_VERSION, opsets=OPSETS, facts=facts)


@dataclass
class _Graph:
    """Nodes and constants so far; every signal has a unique name."""

    nodes: list[bytes] = dataclass_field(default_factory=list)
    constants: dict[str, np.ndarray] = dataclass_field(default_factory=dict)
    signals: int = 0

    def add(
        self, operator: str, inputs: Any, output: str | None = None, **attributes: Any
    ) -> str:
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
                sums = self.add(
                    "MatMul",
                    (self.standard(head.standard), self.constant(head.weight[:, None])),
                )
                return self.add("Add", (sums, self.number(head.intercept)))
            case Network():
                return self.network(head)
            case Trees():
                return self.link(self.trees(head), head.link)
            case Quantile():
                return self.quantile(head)
            case _:
                raise InputError(
                    f"A {type(head).__name__} has no ONNX form; write one in "
                    "deploy/allocators/onnx_graph.py."
                )

    def standard(self, standard: Standard) -> str:
        centred = self.add("Sub", (ROW, self.constant(standard.mean)))
        scaled = self.add("Mul", (centred, self.constant(standard.inverse_spread)))
        return self.add(
            "Where", (self.add("IsNaN", (scaled,)), self.number(0.0), scaled)
        )

    def network(self, head: Network) -> str:
        signal = self.standard(head.standard)
        for number, (weight, bias) in enumerate(head.layers):
            signal = self.add("Max", (signal, self.number(0.0))) if number else signal
            signal = self.add(
                "Add",
                (
                    self.add("MatMul", (signal, self.constant(weight))),
                    self.constant(bias),
                ),
            )
        scaled = self.add("Mul", (signal, self.number(head.scale)))
        return self.link(self.add("Add", (scaled, self.number(head.shift))), head.link)

    def link(self, raw: str, link: Link) -> str:
        if link == "identity":
            return raw
        small = self.add("Exp", (self.add("Neg", (self.add("Abs", (raw,)),)),))
        above = self.add("GreaterOrEqual", (raw, self.number(0.0)))
        return self.add(
            "Div",
            (
                self.add("Where", (above, self.number(1.0), small)),
                self.add("Add", (small, self.number(1.0))),
            ),
        )

    def trees(self, head: Trees) -> str:
        """All trees as one operator; the baseline is its first tree, because our sum
        starts with it.
        """
        return self.add("TreeEnsemble", (ROW,), domain=ML, **tree_attributes(head))

    def quantile(self, head: Quantile) -> str:
        total = self.number(0.0)
        for index, weight in head.weight.items():
            column = self.add("Gather", (ROW, self.constant([index], np.int64)), axis=1)
            total = self.add(
                "Add", (total, self.add("Mul", (column, self.number(weight))))
            )
        reference, axes = (
            self.constant(head.reference[None]),
            self.constant([1], np.int64),
        )
        counts = []
        for operator in ("Less", "LessOrEqual"):
            below = self.add("Cast", (self.add(operator, (reference, total)),), to=7)
            counts.append(self.add("ReduceSum", (below, axes), keepdims=1))
        both = self.add("Cast", (self.add("Add", counts),), to=11)
        share = self.add("Div", (both, self.number(2.0 * max(len(head.reference), 1))))
        return self.add("Where", (self.add("IsNaN", (total,)), self.number(0.5), share))
