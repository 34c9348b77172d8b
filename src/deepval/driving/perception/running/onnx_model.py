"""An ONNX file -> an open detection model: its session, the layout of its input, its
class names and its hash.
"""

import re
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.basics.errors import InputError, library, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import joint_sha256, read_json

Outputs = Mapping[str, Shaped[np.ndarray, "..."]]
"""A model's output arrays by name."""
PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
}
"""ONNX Runtime's names of the processors that can run a model."""
HALF_BY_TYPE = {"tensor(float)": False, "tensor(float16)": True}


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX Runtime session that takes [1, 3, height, width]; `fixed_hw_px` is None
    for a dynamic input.
    """

    session: Any
    input_name: str
    half: bool
    fixed_hw_px: tuple[int, int] | None
    metadata: Mapping[str, str]
    one_at_a_time: bool = False

    @property
    def stride(self) -> int:
        """The sides of a dynamic input are multiples of this number: the model's
        metadata, at least 32.
        """
        stated = self.metadata.get("stride", "")
        return max(32, int(stated)) if stated.isdigit() else 32

    @property
    def declared_shapes(self) -> dict[str, list[int | None]]:
        """The outputs' shapes as the file states them, None for an open length."""
        return {
            output.name: _fixed_lengths(output.shape)
            for output in self.session.get_outputs()
        }


def vision(module: str) -> ModuleType:
    """A library of the extra `vision`, or InputError where it is not installed."""
    return library(module, purpose="Running a detector", extra="vision")


def check_provider(provider: str) -> None:
    """Raise InputError for a provider that this build of ONNX Runtime lacks."""
    available = vision("onnxruntime").get_available_providers()
    if provider not in available:
        short = {full: name for name, full in PROVIDERS.items()}
        here = ", ".join(str(short.get(option, option)) for option in available)
        raise InputError(
            f"The provider must be one that ONNX Runtime has here ({here}), and is "
            f"{short.get(provider, provider)}: install the build of onnxruntime that "
            "has it, or take another --provider."
        )


def open_model(
    weights: Path,
    *,
    threads: int,
    provider: str,
    spinning: bool = True,
    provider_options: Mapping[str, str] | None = None,
    profile: Path | None = None,
) -> OnnxModel:
    """The model of an ONNX file, for one image at a time, with results that do not vary
    between runs.
    """
    if not reading.is_file(weights):
        raise InputError(
            f"The weights must be an ONNX file, and there is none at {weights}."
        )
    check_provider(provider)
    session = open_session(
        str(weights),
        name=str(weights),
        threads=threads,
        provider=provider,
        spinning=spinning,
        provider_options=provider_options,
        profile=profile,
    )
    metadata = _metadata(session, weights)
    _refuse_other_tasks(metadata, weights)
    name, half, fixed = _input_layout(session, weights)
    if provider not in session.get_providers():
        raise InputError(
            f"The provider {provider} must take {weights}, and ONNX Runtime fell back "
            f"to {', '.join(session.get_providers())}: its libraries may be missing; "
            "take another --provider."
        )
    return OnnxModel(
        session, name, half, fixed, metadata, session.get_inputs()[0].shape[0] == 1
    )


def open_session(
    source: str | bytes,
    *,
    name: str,
    threads: int,
    provider: str = "CPUExecutionProvider",
    spinning: bool = True,
    provider_options: Mapping[str, str] | None = None,
    profile: Path | None = None,
) -> Any:
    """The ONNX Runtime session of a file or of its bytes, with results that do not vary
    between runs.
    """
    onnxruntime = vision("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    chosen = (provider, dict(provider_options)) if provider_options else provider
    try:
        return onnxruntime.InferenceSession(source, options, providers=[chosen])
    except (*_runtime_errors(), TypeError, UnicodeDecodeError) as error:
        # the last two: names that are no UTF-8
        raise InputError(
            f"The weights must be an ONNX model, and {name} cannot "
            f"be loaded as one: {_first_line(error)}."
        ) from error


def run(
    model: OnnxModel, tensor: Float[np.ndarray, "image 3 h w"]
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The model's output arrays by name."""
    feed = tensor.astype(np.float16) if model.half else tensor
    try:
        arrays = model.session.run(None, {model.input_name: feed})
    except (*_runtime_errors(), RuntimeError, UnicodeDecodeError) as error:
        # RuntimeError: the device is lost; UnicodeDecodeError: the message of another
        # error names a node whose name is no UTF-8
        columns, rows = tensor.shape[3], tensor.shape[2]
        raise InputError(
            f"The model cannot be run at {columns} x {rows}: {_first_line(error)}."
        ) from error
    return {
        output.name: array
        for output, array in zip(model.session.get_outputs(), arrays, strict=True)
    }


def class_names(model: OnnxModel, names: Path | None) -> tuple[str, ...]:
    """Names by class index, from a JSON file (a list, or index to name) or, if None,
    the model's metadata.
    """
    try:
        content = (
            literal_eval(model.metadata["names"])
            if names is None
            else read_json(names, "class names in JSON")
        )
    except KeyError as error:
        raise InputError(
            "The model holds no class names: give them as a JSON file."
        ) from error
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "The class names must be a list or index to name, "
            "and the model's are neither."
        ) from error
    if isinstance(content, dict):
        by_index = {str(key): value for key, value in content.items()}
        content = [by_index.get(str(index)) for index in range(len(by_index))]
    texts = (
        tuple(name for name in content if isinstance(name, str))
        if isinstance(content, list)
        else ()
    )
    if not texts or len(texts) != len(content):
        raise InputError(
            "The class names must be a list of text or a mapping of 0..C-1 to text, "
            f"and are not in {names or 'the model'}."
        )
    return texts


def weights_sha256(weights: Path) -> str:
    """SHA-256 of an ONNX file as from `sha256sum`, continued over the files of its
    external tensors.
    """
    data = reading.content(weights)
    # The file of an external tensor is the value of a protobuf entry with the key
    # "location".
    entries = re.finditer(rb"\n\x08location\x12([\x01-\x7f])", data)
    beside = {
        data[entry.end() : entry.end() + entry[1][0]].decode(errors="replace")
        for entry in entries
    }
    files = [weights.parent / name for name in sorted(beside)]
    return joint_sha256(
        [data, *(reading.content(file) for file in files if reading.is_file(file))]
    )


def _metadata(session: Any, weights: Path) -> dict[str, str]:
    """The metadata of a model, all of whose texts must be UTF-8."""
    try:
        for item in (*session.get_inputs(), *session.get_outputs()):
            _ = item.name, item.shape  # lengths may be texts
        return session.get_modelmeta().custom_metadata_map
    except UnicodeDecodeError as error:
        raise InputError(
            f"The weights must be an ONNX model whose texts are UTF-8, and {weights} "
            "has others: export it again."
        ) from error


def _runtime_errors() -> tuple[type[Exception], ...]:
    """The exceptions of ONNX Runtime, which have no common base class of their own."""
    state = vars(vision("onnxruntime.capi.onnxruntime_pybind11_state"))
    return tuple(
        v for v in state.values() if isinstance(v, type) and issubclass(v, Exception)
    )


def _input_layout(
    session: Any, weights: Path
) -> tuple[str, bool, tuple[int, int] | None]:
    inputs = session.get_inputs()
    first = inputs[0]
    lengths = _fixed_lengths(first.shape)
    if len(inputs) == 1 and len(lengths) == 4 and first.type in HALF_BY_TYPE:
        batch, channels, rows, columns = lengths
        if (
            batch in (None, 1)
            and channels in (None, 3)
            and (rows is None) == (columns is None)
        ):
            fixed = None if rows is None or columns is None else (rows, columns)
            return first.name, HALF_BY_TYPE[first.type], fixed
    listed = ", ".join(f"{item.name} {item.shape} {item.type}" for item in inputs)
    raise InputError(
        "The model must have one float input [batch or 1, 3, height, width], the last "
        f"two both dynamic or both fixed, and {weights} has {listed}: export it again."
    )


def _refuse_other_tasks(metadata: Mapping[str, str], weights: Path) -> None:
    task = metadata.get("task", "detect")
    if task != "detect":
        raise InputError(
            f"The model must be a detector, and the task of {weights} is {task!r}."
        )
    if metadata.get("end2end") == "True" or "'nms': True" in metadata.get("args", ""):
        raise InputError(
            f"The model must be exported without embedded NMS, and {weights} has it."
        )


def _fixed_lengths(shape: list[Any]) -> list[int | None]:
    return [length if isinstance(length, int) else None for length in shape]


def _first_line(error: Exception) -> str:
    return reason(error)
