"""Nodes, constants and names -> the bytes of an ONNX graph, as fields of protocol buffers.

Writing needs no library, and equal graphs have equal bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deepval.allocators.models import Trees

_VARINT, _BYTES = 0, 2
_INT, _TENSOR, _INTS = 2, 4, 7
_TYPES = {"float32": 1, "uint8": 2, "int64": 7, "bool": 9, "float64": 11}
"""Array type -> its number in ONNX."""
Attribute = int | list[int] | np.ndarray


def node(
    operator: str, inputs: Sequence[str], outputs: str | Sequence[str], *, domain: str = "", **attributes: Attribute
) -> bytes:
    """An operator from input signals to one or more output signals."""
    content = b"".join(field(1, signal.encode()) for signal in inputs)
    content += b"".join(field(2, signal.encode()) for signal in ([outputs] if isinstance(outputs, str) else outputs))
    content += field(4, operator.encode())
    content += b"".join(field(5, _attribute(name, value)) for name, value in attributes.items())
    return content + (field(7, domain.encode()) if domain else b"")


def tensor(name: str, value: np.ndarray) -> bytes:
    """A constant."""
    lengths = b"".join(field(1, length) for length in value.shape)
    data = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    return lengths + field(2, _TYPES[value.dtype.name]) + field(8, name.encode()) + field(9, data)


def shaped(name: str, shape: Sequence[int | str], *, dtype: str = "float32") -> bytes:
    """An input or output; a length may be a name, and is then free."""
    lengths = b"".join(field(1, field(1, n) if isinstance(n, int) else field(2, n.encode())) for n in shape)
    return field(1, name.encode()) + field(2, field(1, field(1, _TYPES[dtype]) + field(2, lengths)))


def graph(
    name: str, nodes: Sequence[bytes], constants: Mapping[str, np.ndarray], *, inputs: bytes, outputs: bytes
) -> bytes:
    """The graph of nodes and constants from its one input to its one output."""
    content = b"".join(field(1, part) for part in nodes) + field(2, name.encode())
    content += b"".join(field(5, tensor(key, value)) for key, value in constants.items())
    return content + field(11, inputs) + field(12, outputs)


def model(content: bytes, *, ir_version: int, opsets: Mapping[str, int], facts: Mapping[str, str]) -> bytes:
    """The whole file: a graph, the versions of its operators by domain, and facts by name."""
    data = field(1, ir_version) + field(7, content)
    data += b"".join(field(8, field(1, domain.encode()) + field(2, number)) for domain, number in opsets.items())
    return data + b"".join(field(14, field(1, k.encode()) + field(2, v.encode())) for k, v in facts.items())


def field(number: int, value: int | bytes) -> bytes:
    """A field of protocol buffers: its number and kind, then a varint, or a length and bytes."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, np.ndarray):
        return field(1, name.encode()) + field(5, tensor("", value)) + field(20, _TENSOR)
    listed = isinstance(value, list)
    numbers = b"".join(field(8, number) for number in value) if listed else field(3, value)
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
    """The graph: row [n, columns] -> raw [n, 1], the sum of the leaves that a row reaches."""
    whole = graph(
        "trees",
        [node("TreeEnsemble", (ROW,), RAW, domain=ML, **tree_attributes(trees))],
        {},
        inputs=shaped(ROW, ("n", trees.columns), dtype="float64"),
        outputs=shaped(RAW, ("n", 1), dtype="float64"),
    )
    return model(whole, ir_version=IR_VERSION, opsets=OPSETS, facts={})


def tree_attributes(head: Trees) -> dict[str, Any]:
    """The attributes of a TreeEnsemble of all trees, after a first tree that adds the baseline."""
    feature, threshold, gap_left, leaves = head.feature, head.threshold, head.gap_left, head.leaf
    if not feature.size:  # a tree of depth 0 gets one split that sends every row left
        shape = len(leaves), 1
        feature, threshold, gap_left = np.zeros(shape, np.int64), np.full(shape, np.inf), np.ones(shape, bool)
        leaves = np.repeat(leaves, 2, axis=1)
    trees, inner = feature.shape
    roots, first = 1 + inner * np.arange(trees)[:, None], 1 + (inner + 1) * np.arange(trees)[:, None]
    left = 2 * np.arange(inner) + 1
    last = left >= inner  # the level whose children are leaves, which have their own numbering
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
