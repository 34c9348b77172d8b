"""Files of weights -> the learned planner's arrays, checked; torch is imported at its first use."""

import io
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.errors import InputError, library
from deepval.files.canonical import json_content
from deepval.files.reading import check_file_form
from deepval.files.writing import npz_arrays
from deepval.planners.learned.masks import PlannerFile


def torch_library() -> Any:
    """PyTorch."""
    return library("torch", purpose="The learned planner", extra="torch")


def opencv_library() -> Any:
    """OpenCV."""
    return library("cv2", purpose="The learned planner", extra="torch")


MANIFEST = "manifest"
"""Name of the manifest, JSON text, in an .npz of weights trained here."""
COUNTERS = "num_batches_tracked"


@dataclass(frozen=True, eq=False)
class PlannerWeights:
    """The state of a network: arrays by name; `manifest` describes a training by deepval, None for other weights."""

    arrays: Mapping[str, np.ndarray]
    width: int
    manifest: Mapping[str, Any] | None = None


def weights_of(file: PlannerFile) -> PlannerWeights:
    """The weights in a file; InputError unless they fit the network strictly."""
    arrays, manifest = _npz(file) if file.path.suffix == ".npz" else (_torch(file), None)
    return PlannerWeights(arrays, _checked_width(arrays, str(file.path)), manifest)


def network_with(weights: PlannerWeights) -> Any:
    """The network in torch with these weights, ready to plan."""
    torch = torch_library()
    from deepval.planners.learned.network import PlannerNetwork

    network: Any = PlannerNetwork(weights.width)
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.arrays.items()})
    return network.eval().to(memory_format=torch.channels_last)


def _checked_width(arrays: Mapping[str, np.ndarray], source: str) -> int:
    """The network's width; an error unless names, shapes and numbers are those of such a network."""
    torch_library()
    from deepval.planners.learned.network import WIDTH, state_shapes

    first = arrays.get("trunk.conv1.weight")
    width = WIDTH if first is None or first.ndim != 4 or not len(first) else len(first)
    shapes = state_shapes(width)
    missing, extra = sorted(set(shapes) - set(arrays)), sorted(set(arrays) - set(shapes))
    if missing:
        raise InputError(
            f"{source}: weights of the learned planner must hold {len(shapes)} tensors; {len(missing)} are missing, "
            f"the first {missing[0]!r}."
        )
    if extra:
        raise InputError(f"{source}: weights of the learned planner hold {extra[0]!r}, which the network has not.")
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape:
            raise InputError(
                f"{source}: {name} must have the shape {' x '.join(map(str, shape)) or 'of a single number'}; found "
                f"{' x '.join(map(str, array.shape)) or 'a single number'}: these are weights of another network."
            )
        if array.dtype.kind != ("i" if name.endswith(COUNTERS) else "f") or not np.isfinite(array).all():
            raise InputError(f"{source}: {name} must hold finite numbers; found {array.dtype} or NaN.")
    return width


def _npz(file: PlannerFile) -> tuple[dict[str, np.ndarray], Mapping[str, Any] | None]:
    try:
        arrays = npz_arrays(file.data)
    except ValueError as error:
        raise InputError(f"{file.path}: weights must be plain arrays in an .npz file; {error}.") from error
    manifest = arrays.pop(MANIFEST, None)
    what = "weights with a manifest in JSON"
    if manifest is None:
        return arrays, None
    return arrays, check_file_form(
        dict[str, Any], json_content(str(manifest).encode(), file.path, what), file.path, what
    )


def _torch(file: PlannerFile) -> dict[str, np.ndarray]:
    torch = torch_library()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old formats; unreadable content is an error below
            state = torch.load(io.BytesIO(file.data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{file.path}: weights must be tensors by name and nothing else; the file asks for more, or is damaged, "
            "and is not read further."
        ) from error
    except (RuntimeError, ValueError, OSError, EOFError, KeyError, TypeError) as error:
        raise InputError(f"{file.path}: weights must be a file of torch or an .npz; it cannot be read.") from error
    strange = not isinstance(state, dict) or [
        name for name, tensor in state.items() if not (isinstance(name, str) and isinstance(tensor, torch.Tensor))
    ]
    if strange:
        what = f"{type(state).__name__}" if strange is True else f"{strange[0]!r} that is none"
        raise InputError(f"{file.path}: weights must be tensors by name and nothing else; found {what}.")
    return {name: tensor.detach().numpy() for name, tensor in state.items()}
