"""Weights of the pixel router's layers -> an ONNX graph, its bytes the same for the same weights."""

from typing import Any, NamedTuple

import numpy as np

from deepval.allocators.pixel_layers import BLOCKS, SIZE_PX, Convolution
from deepval.arrays import Float
from deepval.perception.onnx_model import library

OPSET, IR_VERSION = 17, 9
"""Read by every ONNX Runtime since 1.14."""
PURPOSE = "Training the pixel router"


class Weights(NamedTuple):
    """Weight and bias of every convolution in order, normalisation folded in, and of the head."""

    convolutions: list[tuple[Float[np.ndarray, "_ _ _ _"], Float[np.ndarray, "_"]]]
    head: tuple[Float[np.ndarray, "1 channel"], Float[np.ndarray, "1"]]


def onnx_bytes(weights: Weights) -> bytes:
    """The graph: picture [1, 3, 128, 128] -> log_odds [1, 1]."""
    onnx: Any = library("onnx", purpose=PURPOSE, extra="torch")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes: list[Any] = []
    constants: dict[str, Any] = {"low": 0.0, "high": 6.0}
    signal, number = "picture", 0
    for place, block in enumerate(BLOCKS):
        entered = signal
        for layer in block.convolutions:
            constants[f"weight{number}"], constants[f"bias{number}"] = weights.convolutions[number]
            nodes.append(_convolution(helper, layer, signal, number))
            signal = f"layer{number}"
            if layer.clipped:
                nodes.append(helper.make_node("Clip", [signal, "low", "high"], [f"clipped{number}"]))
                signal = f"clipped{number}"
            number += 1
        if block.residual:
            nodes.append(helper.make_node("Add", [entered, signal], [f"block{place}"]))
            signal = f"block{place}"
    constants["head_weight"], constants["head_bias"] = weights.head
    nodes += [
        helper.make_node("GlobalAveragePool", [signal], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "head_weight", "head_bias"], ["log_odds"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "pixel_router",
        [helper.make_tensor_value_info("picture", kind, [1, 3, SIZE_PX, SIZE_PX])],
        [helper.make_tensor_value_info("log_odds", kind, [1, 1])],
        [onnx.numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return model.SerializeToString(deterministic=True)


def _convolution(helper: Any, layer: Convolution, signal: str, number: int) -> Any:
    return helper.make_node(
        "Conv",
        [signal, f"weight{number}", f"bias{number}"],
        [f"layer{number}"],
        kernel_shape=[layer.kernel] * 2,
        strides=[layer.stride] * 2,
        pads=[layer.kernel // 2] * 4,
        group=layer.groups,
    )
