"""Rasters -> logits: the learned planner's network in plain torch, ResNet-18 with
skips, 5 channels to 16 maps.

Names and shapes of its state are the published ones at width 64, so that the released
weights load strictly. This module needs torch: import it where it is used.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn

from deepval.driving.planners.neural.plan_metrics import BLOCK, STEPS

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
        self.downscale = nn.Sequential(
            nn.Conv2d(8 * width, 8 * width, 3, 2, 1, bias=False)
        )
        self.upscale0 = _up(8 * width, 8 * width, 2)
        self.upscale1 = _up(8 * width, 4 * width, 4)
        self.upscale2 = _up(6 * width, 4 * width, 2)
        self.upscale3 = _up(5 * width, 2 * width, BLOCK)
        self.final = nn.Conv2d(2 * width, STEPS, 1)

    def blocks(self, rasters: Tensor) -> Tensor:
        """Logits of each block of cells.

        The last step up only repeats numbers and the convolution after it looks at one
        cell at a time, so that it is applied before the repetition: a sixteenth of the
        work for the same numbers.
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
        return {
            name: tuple(tensor.shape)
            for name, tensor in PlannerNetwork(width).state_dict().items()
        }


def _convolution(inputs: int, outputs: int, *, stride: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _stage(inputs: int, outputs: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        ResidualBlock(inputs, outputs, stride), ResidualBlock(outputs, outputs, 1)
    )


def _up(inputs: int, outputs: int, times: int) -> nn.Sequential:
    layers: Sequence[nn.Module] = (
        nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Upsample(scale_factor=times, mode="nearest"),
    )
    return nn.Sequential(*layers)
