"""Tiny ONNX detectors: their boxes are constants, their scores constants times the mean
of the input tensor.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ANY = ("batch", 3, "height", "width")


def save(
    path: Path,
    outputs: dict[str, tuple[np.ndarray, np.ndarray]],
    *,
    shapes: dict[str, list] | None = None,
    input_shape=ANY,
    metadata: dict[str, str] | None = None,
    half: bool = False,
    external: bool = False,
    batched: bool = False,
    statistic: str = "ReduceMean",
) -> Path:
    """Save a model whose outputs are `constant + slope * mean(input)`, with those
    shapes stated in the file.

    The mean (or another statistic) is over all that goes in; where `batched`, over each
    image of it, with a row of outputs for each.
    """
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    dtype = np.float16 if half else np.float32
    nodes = [helper.make_node(statistic, ["images"], ["mean"], keepdims=0)]
    if batched:
        nodes = [
            helper.make_node(
                "ReduceMean", ["images"], ["columns"], axes=[2], keepdims=0
            ),
            helper.make_node(
                "ReduceMean", ["columns"], ["mean"], axes=[1, 2], keepdims=1
            ),
        ]
    constants, results = [], []
    for name, (constant, slope) in outputs.items():
        constants += [
            numpy_helper.from_array(np.asarray(constant, dtype), f"{name}_constant"),
            numpy_helper.from_array(np.asarray(slope, dtype), f"{name}_slope"),
        ]
        nodes += [
            helper.make_node("Mul", [f"{name}_slope", "mean"], [f"{name}_scaled"]),
            helper.make_node("Add", [f"{name}_constant", f"{name}_scaled"], [name]),
        ]
        shape = (shapes or {}).get(name, np.asarray(constant).shape)
        results.append(helper.make_tensor_value_info(name, kind, list(shape)))
    source = helper.make_tensor_value_info("images", kind, list(input_shape))
    graph = helper.make_graph(nodes, "tiny", [source], results, initializer=constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    helper.set_model_props(model, metadata or {})
    beside = {
        "save_as_external_data": True,
        "location": f"{path.name}.data",
        "size_threshold": 0,
    }
    onnx.save_model(model, str(path), **(beside if external else {}))
    return path


def fixed(table) -> tuple[np.ndarray, np.ndarray]:
    """An output that does not depend on the image."""
    return np.asarray(table, dtype=np.float32), np.zeros_like(table, dtype=np.float32)


def yolov8(path: Path, *, slope: float = 1.0, **options) -> Path:
    """Two classes, three anchors with boxes of 20 x 10 px; class scores are shares of
    the image's mean.
    """
    boxes = np.array(
        [[30, 20, 20, 10], [31, 20, 20, 10], [50, 40, 20, 10]], dtype=np.float32
    )
    scores = slope * np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.7]], dtype=np.float32)
    constant = np.concatenate([boxes, np.zeros_like(scores)], axis=1).T[None]
    varying = np.concatenate([np.zeros_like(boxes), scores], axis=1).T[None]
    options.setdefault("shapes", {"output0": ["batch", "rows", "anchors"]})
    options.setdefault("metadata", {"names": "{0: 'car', 1: 'person'}"})
    return save(path, {"output0": (constant, varying)}, **options)


def at_one_size(path: Path, *, side: int, metadata: dict[str, str]) -> Path:
    """One YOLOv5 row, from a model that says it takes any size and takes side x side
    alone.
    """
    row = np.array([[[30, 20, 20, 10, 0.5, 0.5, 0.1]]], dtype=np.float32)
    constants = {"plane": np.zeros((1, 3, side, side), np.float32), "row": row}
    nodes = [
        helper.make_node("Mul", ["images", "plane"], ["nothing"]),
        helper.make_node("ReduceSum", ["nothing"], ["zero"], keepdims=0),
        helper.make_node("Add", ["row", "zero"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "one size",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, list(ANY))],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, "anchors", 7])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    helper.set_model_props(model, metadata)
    onnx.save_model(model, str(path))
    return path
