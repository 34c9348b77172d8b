"""Rasters -> logits: the learned planner's network in plain torch, ResNet-18 with skips, 5 channels to 16 maps.

Names and shapes of its state are the published ones at width 64, so that the released weights load strictly. This
module needs torch: import it where it is used.
"""

import io
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deepval.errors import InputError, library
from deepval.files.canonical import json_content
from deepval.files.reading import formed_file
from deepval.files.writing import npz_arrays
from deepval.planners.learned.masks import BLOCK, STEPS, PlannerFile


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
    network: Any = PlannerNetwork(weights.width)
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.arrays.items()})
    return network.eval().to(memory_format=torch.channels_last)


def _checked_width(arrays: Mapping[str, np.ndarray], source: str) -> int:
    """The network's width; an error unless names, shapes and numbers are those of such a network."""
    torch_library()
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
    return arrays, formed_file(dict[str, Any], json_content(str(manifest).encode(), file.path, what), file.path, what)


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


CHANNELS = 5
WIDTH = 64
"""Channels after the first convolution of the published network."""
UNUSED_CLASSES = 1000
"""The published trunk contains its classifier, which is not used."""


class ResidualBlock(nn.Module):
    """Two convolutions whose output is added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(inputs, outputs, stride=stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = _convolution(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        nn.init.zeros_(self.bn2.weight)
        self.downsample = None
        if stride > 1:
            narrow = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            nn.init.kaiming_normal_(narrow.weight, mode="fan_out", nonlinearity="relu")
            self.downsample = nn.Sequential(narrow, nn.BatchNorm2d(outputs))

    def forward(self, signal: Tensor) -> Tensor:
        """The block's output."""
        shortcut = signal if self.downsample is None else self.downsample(signal)
        signal = torch.relu(self.bn1(self.conv1(signal)))
        return torch.relu(self.bn2(self.conv2(signal)) + shortcut)


class Trunk(nn.Module):
    """ResNet-18 up to its last stage, with its unused classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(CHANNELS, width, 7, 2, 3, bias=False)
        nn.init.kaiming_normal_(self.conv1.weight, mode="fan_out", nonlinearity="relu")
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _stage(width, width, stride=1)
        self.layer2 = _stage(width, 2 * width, stride=2)
        self.layer3 = _stage(2 * width, 4 * width, stride=2)
        self.layer4 = _stage(4 * width, 8 * width, stride=2)
        self.fc = nn.Linear(8 * width, UNUSED_CLASSES)


class PlannerNetwork(nn.Module):
    """Rasters -> logits of the vehicle's future position per step and cell."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.width = width
        self.trunk = Trunk(width)
        self.downscale = nn.Sequential(nn.Conv2d(8 * width, 8 * width, 3, 2, 1, bias=False))
        self.upscale0 = _up(8 * width, 8 * width, 2)
        self.upscale1 = _up(8 * width, 4 * width, 4)
        self.upscale2 = _up(6 * width, 4 * width, 2)
        self.upscale3 = _up(5 * width, 2 * width, BLOCK)
        self.final = nn.Conv2d(2 * width, STEPS, 1)

    def blocks(self, rasters: Tensor) -> Tensor:
        """Logits of each block of cells.

        The last step up only repeats numbers and the convolution after it looks at one cell at a time, so that it is
        applied before the repetition: a sixteenth of the work for the same numbers.
        """
        trunk = self.trunk
        signal = trunk.maxpool(torch.relu(trunk.bn1(trunk.conv1(rasters))))
        early = trunk.layer1(signal)
        middle = trunk.layer2(early)
        signal = self.downscale(trunk.layer4(trunk.layer3(middle)))
        signal = self.upscale1(self.upscale0(signal))
        signal = self.upscale2(torch.cat([signal, middle], dim=1))
        return self.final(self.upscale3[:-1](torch.cat([signal, early], dim=1)))

    def forward(self, rasters: Tensor) -> Tensor:
        """Logits of each cell."""
        return self.upscale3[-1](self.blocks(rasters))


@lru_cache(maxsize=4)
def state_shapes(width: int = WIDTH) -> Mapping[str, tuple[int, ...]]:
    """Name and shape of every tensor of the network's state."""
    with torch.random.fork_rng(devices=[]):
        return {name: tuple(tensor.shape) for name, tensor in PlannerNetwork(width).state_dict().items()}


def _convolution(inputs: int, outputs: int, *, stride: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _stage(inputs: int, outputs: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(ResidualBlock(inputs, outputs, stride), ResidualBlock(outputs, outputs, 1))


def _up(inputs: int, outputs: int, times: int) -> nn.Sequential:
    layers: Sequence[nn.Module] = (
        nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Upsample(scale_factor=times, mode="nearest"),
    )
    return nn.Sequential(*layers)
