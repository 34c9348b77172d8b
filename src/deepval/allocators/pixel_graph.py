"""Weights of the pixel router's layers <-> the one ONNX graph that holds them, its bytes the same for the same weights.

The bytes are written here, field by field, so that serving can hold a file's graph to them without a parser: weights
lie at fixed places, and every other byte has to be ours. So no operator but those below is ever executed, there is
no subgraph and no data outside the file, and every shape and the size of the whole are known beforehand.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from deepval.allocators.pixel_layers import BLOCKS, CHANNELS, SIZE_PX, Convolution
from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError

OPSET, IR_VERSION = 17, 9
"""Read by every ONNX Runtime since 1.14."""
OPERATORS = ("Conv", "Clip", "Add", "GlobalAveragePool", "Flatten", "Gemm")
_VARINT, _BYTES = 0, 2
_FLOAT, _INT, _INTS = 1, 2, 7


class Weights(NamedTuple):
    """Weight and bias of every convolution in order, normalisation folded in, and of the head."""

    convolutions: list[tuple[Float[np.ndarray, "_ _ _ _"], Float[np.ndarray, "_"]]]
    head: tuple[Float[np.ndarray, "1 channel"], Float[np.ndarray, "1"]]


def onnx_bytes(weights: Weights) -> bytes:
    """The graph: picture [1, 3, 128, 128] -> log_odds [1, 1]."""
    nodes: list[bytes] = []
    constants: dict[str, np.ndarray] = {"low": np.array(0.0), "high": np.array(6.0)}
    signal, number = "picture", 0
    for place, block in enumerate(BLOCKS):
        entered = signal
        for layer in block.convolutions:
            constants[f"weight{number}"], constants[f"bias{number}"] = weights.convolutions[number]
            nodes.append(_convolution(layer, signal, number))
            signal = f"layer{number}"
            if layer.clipped:
                nodes.append(_node("Clip", (signal, "low", "high"), f"clipped{number}"))
                signal = f"clipped{number}"
            number += 1
        if block.residual:
            nodes.append(_node("Add", (entered, signal), f"block{place}"))
            signal = f"block{place}"
    constants["head_weight"], constants["head_bias"] = weights.head
    nodes += [
        _node("GlobalAveragePool", (signal,), "pooled"),
        _node("Flatten", ("pooled",), "flat"),
        _node("Gemm", ("flat", "head_weight", "head_bias"), "log_odds", transB=1),
    ]
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"pixel_router")
    graph += b"".join(_field(5, _tensor(name, value)) for name, value in constants.items())
    graph += _field(11, _shaped("picture", (1, 3, SIZE_PX, SIZE_PX))) + _field(12, _shaped("log_odds", (1, 1)))
    return _field(1, IR_VERSION) + _field(7, graph) + _field(8, _field(1, b"") + _field(2, OPSET))


def check_graph(model: bytes, name: str) -> None:
    """Raise InputError unless a graph is that of `onnx_bytes` for some finite weights."""
    ours = _layout()
    found = np.frombuffer(model, np.uint8)
    wanted = (
        f"{name}: its network must be the graph that `deepval fit` writes, which has {ours.content.size:,} bytes, the "
        f"operators {', '.join(OPERATORS)} and no others, and is free in its weights alone"
    )
    if found.size != ours.content.size:
        raise InputError(f"{wanted}; found {found.size:,} bytes, and none of them is executed. Fit it again.")
    strange = np.flatnonzero((found != ours.content) & ~ours.is_weight)
    if strange.size:
        raise InputError(f"{wanted}; found another at byte {strange[0]:,}, and it is not executed. Fit it again.")
    if not np.isfinite(found[ours.is_weight].view("<f4")).all():
        raise InputError(f"{name}: its network's weights must be finite numbers; found NaN or infinity. Fit it again.")


class _Layout(NamedTuple):
    """The bytes of the graph, and which of them are weights."""

    content: Int[np.ndarray, "byte"]
    is_weight: Bool[np.ndarray, "byte"]


@cache
def _layout() -> _Layout:
    """Bits of the weights are the ones that differ between a graph of none and a graph of all bits set."""
    none, every = (np.frombuffer(onnx_bytes(_filled(byte)), np.uint8) for byte in (b"\x00", b"\xff"))
    return _Layout(none, none != every)


def _filled(byte: bytes) -> Weights:
    def array(*shape: int) -> np.ndarray:
        return np.frombuffer(byte * (4 * int(np.prod(shape))), "<f4").reshape(shape)

    layers = [layer for block in BLOCKS for layer in block.convolutions]
    convolutions = [(array(*layer.weight_shape), array(layer.outputs)) for layer in layers]
    return Weights(convolutions, (array(1, CHANNELS), array(1)))


def _convolution(layer: Convolution, signal: str, number: int) -> bytes:
    return _node(
        "Conv",
        (signal, f"weight{number}", f"bias{number}"),
        f"layer{number}",
        group=layer.groups,
        kernel_shape=[layer.kernel] * 2,
        pads=[layer.kernel // 2] * 4,
        strides=[layer.stride] * 2,
    )


def _node(operator: str, inputs: tuple[str, ...], output: str, **attributes: int | list[int]) -> bytes:
    content = b"".join(_field(1, each.encode()) for each in inputs) + _field(2, output.encode())
    content += _field(4, operator.encode())
    for name, value in attributes.items():
        listed = isinstance(value, list)
        numbers = b"".join(_field(8, each) for each in value) if listed else _field(3, value)
        content += _field(5, _field(1, name.encode()) + numbers + _field(20, _INTS if listed else _INT))
    return content


def _tensor(name: str, value: np.ndarray) -> bytes:
    lengths = b"".join(_field(1, length) for length in value.shape)
    return lengths + _field(2, _FLOAT) + _field(8, name.encode()) + _field(9, value.astype("<f4").tobytes())


def _shaped(name: str, shape: tuple[int, ...]) -> bytes:
    lengths = b"".join(_field(1, _field(1, length)) for length in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, _FLOAT) + _field(2, lengths)))


def _field(number: int, value: int | bytes) -> bytes:
    """A field as protocol buffers write it: its number and kind, then a number or so many bytes."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
