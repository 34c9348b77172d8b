"""Weights of the pixel router's layers <-> the one ONNX graph that holds them, its bytes the same for the same weights.

The bytes are written field by field, so that serving can hold a file's graph to them without a parser: weights
lie at fixed places, and every other byte has to be ours. So no operator but those below is ever executed, there is
no subgraph and no data outside the file, and every shape and the size of the whole are known beforehand.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from deepval.allocators.onnx_writer import graph, model, node, shaped
from deepval.allocators.pixel_layers import BLOCKS, CHANNELS, SIZE_PX, Convolution
from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError

OPSET, IR_VERSION = 17, 9
"""Read by every ONNX Runtime since 1.14."""
OPERATORS = ("Conv", "Clip", "Add", "GlobalAveragePool", "Flatten", "Gemm")


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
                nodes.append(node("Clip", (signal, "low", "high"), f"clipped{number}"))
                signal = f"clipped{number}"
            number += 1
        if block.residual:
            nodes.append(node("Add", (entered, signal), f"block{place}"))
            signal = f"block{place}"
    constants["head_weight"], constants["head_bias"] = weights.head
    nodes += [
        node("GlobalAveragePool", (signal,), "pooled"),
        node("Flatten", ("pooled",), "flat"),
        node("Gemm", ("flat", "head_weight", "head_bias"), "log_odds", transB=1),
    ]
    whole = graph(
        "pixel_router",
        nodes,
        {name: value.astype("<f4") for name, value in constants.items()},
        inputs=shaped("picture", (1, 3, SIZE_PX, SIZE_PX)),
        outputs=shaped("log_odds", (1, 1)),
    )
    return model(whole, ir_version=IR_VERSION, opsets={"": OPSET}, facts={})


def check_graph(found_bytes: bytes, name: str) -> None:
    """Raise InputError unless a graph is that of `onnx_bytes` for some finite weights."""
    ours = _layout()
    found = np.frombuffer(found_bytes, np.uint8)
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
    return node(
        "Conv",
        (signal, f"weight{number}", f"bias{number}"),
        f"layer{number}",
        group=layer.groups,
        kernel_shape=[layer.kernel] * 2,
        pads=[layer.kernel // 2] * 4,
        strides=[layer.stride] * 2,
    )
