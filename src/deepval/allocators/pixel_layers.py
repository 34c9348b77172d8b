"""The pixel router's layers: the first 14 feature blocks of MobileNetV2 (width 1.0), pooled, and one linear head.

One table says what training builds, the ONNX graph holds and a picture costs. See docs/definitions.md, Pixel router.
"""

from typing import NamedTuple

SIZE_PX = 128
"""Side of the square that every picture is resized to."""
STEM = 32
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
"""Expansion, channels, blocks and stride of the first of them, stage after stage."""


class Convolution(NamedTuple):
    """A convolution with batch normalisation; `clipped` to 0 to 6 afterwards or not, `groups` of channels apart."""

    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    clipped: bool = True

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Outputs, inputs per group, rows and columns of the weights."""
        return self.outputs, self.inputs // self.groups, self.kernel, self.kernel


class Block(NamedTuple):
    """Convolutions one after the other; where `residual`, what came in is added to what comes out."""

    convolutions: tuple[Convolution, ...]
    residual: bool


def _blocks() -> tuple[Block, ...]:
    found = [Block((Convolution(3, STEM, 3, 2),), residual=False)]
    inputs = STEM
    for expansion, outputs, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            stride, wide = first_stride if repeat == 0 else 1, inputs * expansion
            widened = (Convolution(inputs, wide),) if expansion > 1 else ()
            filtered = Convolution(wide, wide, 3, stride, wide)
            narrowed = Convolution(wide, outputs, clipped=False)
            found.append(Block((*widened, filtered, narrowed), residual=stride == 1 and inputs == outputs))
            inputs = outputs
    return tuple(found)


BLOCKS = _blocks()
"""The 14 feature blocks."""
CHANNELS = BLOCKS[-1].convolutions[-1].outputs
"""Channels that are pooled: what the linear head takes."""


def parameters() -> int:
    """How many numbers are trained: convolutions, scale and shift of each of their channels, and the head."""
    layers = [layer for block in BLOCKS for layer in block.convolutions]
    taps = [outputs * inputs * rows * columns for outputs, inputs, rows, columns in (la.weight_shape for la in layers)]
    return sum(taps) + sum(2 * layer.outputs for layer in layers) + CHANNELS + 1
