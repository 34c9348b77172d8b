"""A file of weights -> named arrays and nothing else: .npz without pickles, or torch's format read as tensors only.

What is not a tensor is refused before it is made. The hash of the file goes into the id of every cell that rests on it.
"""

import io
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.errors import InputError
from deepval.files.archives import npz_arrays
from deepval.files.canonical import json_content
from deepval.files.forms import formed_file
from deepval.planners.learned.files import PlannerFile
from deepval.planners.learned.libraries import torch_library

MANIFEST = "manifest"
"""Name in an .npz of weights trained here under which their manifest is kept, as JSON text."""
COUNTERS = "num_batches_tracked"


@dataclass(frozen=True, eq=False)
class PlannerWeights:
    """The state of a network: arrays by name; `manifest` says how they were trained here, None where they were not."""

    arrays: Mapping[str, np.ndarray]
    width: int
    manifest: Mapping[str, Any] | None = None


def weights_of(file: PlannerFile) -> PlannerWeights:
    """The weights in a file, which must fit the network strictly."""
    arrays, manifest = _npz(file) if file.path.suffix == ".npz" else (_torch(file), None)
    return PlannerWeights(arrays, _checked_width(arrays, str(file.path)), manifest)


def network_with(weights: PlannerWeights) -> Any:
    """The network in torch with these weights, ready to plan."""
    torch = torch_library()
    from deepval.planners.learned.network import PlannerNetwork

    network: Any = PlannerNetwork(weights.width)
    network.load_state_dict({name: torch.from_numpy(np.array(held)) for name, held in weights.arrays.items()})
    return network.eval().to(memory_format=torch.channels_last)


def _checked_width(arrays: Mapping[str, np.ndarray], source: str) -> int:
    """The network's width; an error unless names, shapes and numbers are those of such a network."""
    torch_library()
    from deepval.planners.learned.network import WIDTH, state_shapes

    first = arrays.get("trunk.conv1.weight")
    width = WIDTH if first is None or first.ndim != 4 or not len(first) else len(first)
    wanted = state_shapes(width)
    missing, extra = sorted(set(wanted) - set(arrays)), sorted(set(arrays) - set(wanted))
    if missing:
        raise InputError(
            f"{source}: weights of the learned planner must hold {len(wanted)} tensors; {len(missing)} are missing, "
            f"the first {missing[0]!r}."
        )
    if extra:
        raise InputError(f"{source}: weights of the learned planner hold {extra[0]!r}, which the network has not.")
    for name, shape in wanted.items():
        held = arrays[name]
        if held.shape != shape:
            raise InputError(
                f"{source}: {name} must have the shape {' x '.join(map(str, shape)) or 'of a single number'}; found "
                f"{' x '.join(map(str, held.shape)) or 'a single number'}: these are weights of another network."
            )
        if held.dtype.kind != ("i" if name.endswith(COUNTERS) else "f") or not np.isfinite(held).all():
            raise InputError(f"{source}: {name} must hold finite numbers; found {held.dtype} or NaN.")
    return width


def _npz(file: PlannerFile) -> tuple[dict[str, np.ndarray], Mapping[str, Any] | None]:
    try:
        arrays = npz_arrays(file.data)
    except ValueError as error:
        raise InputError(f"{file.path}: weights must be plain arrays in an .npz file; {error}.") from error
    told = arrays.pop(MANIFEST, None)
    what = "weights with a manifest in JSON"
    if told is None:
        return arrays, None
    return arrays, formed_file(dict[str, Any], json_content(str(told).encode(), file.path, what), file.path, what)


def _torch(file: PlannerFile) -> dict[str, np.ndarray]:
    torch = torch_library()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old formats; what cannot be read is told below
            found = torch.load(io.BytesIO(file.data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{file.path}: weights must be tensors by name and nothing else; the file asks for more, or is damaged, "
            "and is not read further."
        ) from error
    except (RuntimeError, ValueError, OSError, EOFError, KeyError, TypeError) as error:
        raise InputError(f"{file.path}: weights must be a file of torch or an .npz; it cannot be read.") from error
    strange = not isinstance(found, dict) or [
        name for name, held in found.items() if not (isinstance(name, str) and isinstance(held, torch.Tensor))
    ]
    if strange:
        what = f"{type(found).__name__}" if strange is True else f"{strange[0]!r} that is none"
        raise InputError(f"{file.path}: weights must be tensors by name and nothing else; found {what}.")
    return {name: held.detach().numpy() for name, held in found.items()}
