"""Picture -> probability that escalation pays, by a small convolutional network in ONNX
Runtime; and its plain file.

The file is JSON like every allocator's file, with the network as an ONNX graph in
base64: it loads without torch. Before the graph runs, `check_graph` compares it with
the graph that training writes: a file can change the weights only. Frames are scored
one at a time on one thread, so that a frame's score is bit-equal alone, in its unit and
in any order.

Training needs torch: `PixelRecipe` turns pictures and labels of the fit inputs into a
router. One thread and seeded random numbers: the same pictures, labels and seed give
the same bytes of the file.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError, library
from deepval.basics.files.reading import check_form
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.allocators.allocator import (
    Examples,
    FittedAllocator,
    Recipe,
    Training,
)
from deepval.deploy.allocators.models.model import apply_link, check_settings
from deepval.deploy.allocators.onnx_graph import graph, model, node, value_info
from deepval.deploy.features import Glance, Sight
from deepval.driving.perception.running.onnx_model import open_session
from deepval.driving.planners.neural import repeatable
from deepval.driving.views import View, picture, sample_pixels

SIZE_PX = 128
"""Side of the square that every picture is resized to."""
STEM = 32
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
"""Expansion, channels, number of blocks and stride of the first block, stage by
stage.
"""


class Convolution(NamedTuple):
    """A convolution with batch normalisation over separate `groups` of channels;
    `clipped` limits outputs to 0..6.
    """

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
    """Convolutions in sequence; a `residual` block adds its input to its output."""

    convolutions: tuple[Convolution, ...]
    residual: bool


def _blocks() -> tuple[Block, ...]:
    blocks = [Block((Convolution(3, STEM, 3, 2),), residual=False)]
    inputs = STEM
    for expansion, outputs, repeats, first_stride in STAGES:
        for repeat in range(repeats):
            stride, wide = first_stride if repeat == 0 else 1, inputs * expansion
            widen = (Convolution(inputs, wide),) if expansion > 1 else ()
            depthwise = Convolution(wide, wide, 3, stride, wide)
            narrow = Convolution(wide, outputs, clipped=False)
            blocks.append(
                Block(
                    (*widen, depthwise, narrow),
                    residual=stride == 1 and inputs == outputs,
                )
            )
            inputs = outputs
    return tuple(blocks)


BLOCKS = _blocks()
"""The 14 feature blocks."""
CHANNELS = BLOCKS[-1].convolutions[-1].outputs
"""Pooled channels: the inputs of the linear head."""


OPSET, IR_VERSION = 17, 9
"""Every ONNX Runtime since 1.14 reads these versions."""
OPERATORS = ("Conv", "Clip", "Add", "GlobalAveragePool", "Flatten", "Gemm")


class Weights(NamedTuple):
    """Weight and bias of every convolution in order, normalisation folded in, and of
    the head.
    """

    convolutions: list[tuple[Float[np.ndarray, "_ _ _ _"], Float[np.ndarray, "_"]]]
    head: tuple[Float[np.ndarray, "1 channel"], Float[np.ndarray, "1"]]


def onnx_bytes(weights: Weights) -> bytes:
    """The graph: picture [1, 3, 128, 128] -> log_odds [1, 1]."""
    nodes: list[bytes] = []
    constants: dict[str, np.ndarray] = {"low": np.array(0.0), "high": np.array(6.0)}
    signal, number = "picture", 0
    for index, block in enumerate(BLOCKS):
        block_input = signal
        for layer in block.convolutions:
            constants[f"weight{number}"], constants[f"bias{number}"] = (
                weights.convolutions[number]
            )
            nodes.append(_convolution(layer, signal, number))
            signal = f"layer{number}"
            if layer.clipped:
                nodes.append(node("Clip", (signal, "low", "high"), f"clipped{number}"))
                signal = f"clipped{number}"
            number += 1
        if block.residual:
            nodes.append(node("Add", (block_input, signal), f"block{index}"))
            signal = f"block{index}"
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
        inputs=value_info("picture", (1, 3, SIZE_PX, SIZE_PX)),
        outputs=value_info("log_odds", (1, 1)),
    )
    return model(whole, ir_version=IR_VERSION, opsets={"": OPSET}, facts={})


def check_graph(content: bytes, name: str) -> None:
    """Raise InputError unless a graph is the output of `onnx_bytes` for some finite
    weights.
    """
    ours = _layout()
    graph_bytes = np.frombuffer(content, np.uint8)
    requirement = (
        f"{name}: its network must be the graph that `deepval fit` writes, which has "
        f"{ours.content.size:,} bytes, the operators {', '.join(OPERATORS)} and no "
        "others, and may differ in its weights alone"
    )
    if graph_bytes.size != ours.content.size:
        raise InputError(
            f"{requirement}; found {graph_bytes.size:,} bytes, and none of them is "
            "executed. Fit it again."
        )
    strange = np.flatnonzero((graph_bytes != ours.content) & ~ours.is_weight)
    if strange.size:
        raise InputError(
            f"{requirement}; found a different one at byte {strange[0]:,}, and it is "
            "not executed. Fit it again."
        )
    if not np.isfinite(graph_bytes[ours.is_weight].view("<f4")).all():
        raise InputError(
            f"{name}: its network's weights must be finite numbers; found NaN or "
            "infinity. Fit it again."
        )


class _Layout(NamedTuple):
    """The bytes of the graph, and a mask of the bytes that hold weights."""

    content: Int[np.ndarray, "byte"]
    is_weight: Bool[np.ndarray, "byte"]


@cache
def _layout() -> _Layout:
    """The layout of the graph: bytes that differ between all weight bits 0 and all 1
    are weights.
    """
    none, every = (
        np.frombuffer(onnx_bytes(_constant_weights(byte)), np.uint8)
        for byte in (b"\x00", b"\xff")
    )
    return _Layout(none, none != every)


def _constant_weights(byte: bytes) -> Weights:
    def array(*shape: int) -> np.ndarray:
        return np.frombuffer(byte * (4 * int(np.prod(shape))), "<f4").reshape(shape)

    layers = [layer for block in BLOCKS for layer in block.convolutions]
    convolutions = [
        (array(*layer.weight_shape), array(layer.outputs)) for layer in layers
    ]
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


NAME, FRONT = "router-pixel", "pixels"
MEAN, SPREAD = 0.45, 0.25
"""Every level between 0 and 1 becomes (level - MEAN) / SPREAD."""


@dataclass(frozen=True, eq=False)
class PixelRouter(FittedAllocator):
    """A trained pixel router.

    Attributes:
        model: The network, an ONNX graph as `onnx_bytes` writes it: [1, 3, 128, 128] ->
            the log-odds [1, 1].
        training: The data and settings of its training.
    """

    model: bytes = field(repr=False)
    training: Training = field(repr=False)
    name = NAME
    uses = frozenset({"image"})
    holds = "an ONNX graph in base64"

    def __post_init__(self) -> None:
        check_graph(self.model, NAME)

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        """The scores of the unit's pictures; other parts of its frames are not read."""
        scores = np.full(len(sight), np.nan)
        for frame in np.flatnonzero(sight.view.detections.run).tolist():
            scores[frame] = self.score_picture(picture_of(sight.view, frame))
        return scores

    def _of_frame(self, glance: Glance) -> float:
        if glance.frame.image is None:
            raise InputError(
                f"{NAME} looks at pictures, and frame {glance.past.frames} of the "
                "drive has none: give Frame its image."
            )
        return self.score_picture(glance.frame.image)

    def score_picture(self, image: Shaped[np.ndarray, "h w 3"]) -> float:
        """The probability that escalation pays, from the picture alone."""
        raw = self._session.run(None, {"picture": network_input(image)[None]})[0]
        return float(apply_link(np.asarray(raw, float).reshape(1), "logistic")[0])

    @cached_property
    def _session(self) -> Any:
        library("onnxruntime", purpose="The pixel router", extra="vision")
        return open_session(self.model, name=f"that of {NAME}", threads=1)

    @classmethod
    def feature_sets(cls) -> tuple[str, ...]:
        """Pixels."""
        return (FRONT,)

    def content(self) -> dict[str, Any]:
        """Training, and the network in base64."""
        content = {"name": NAME, "training": self.training.content(), "front": FRONT}
        return content | {"onnx": b64encode(self.model).decode("ascii")}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "PixelRouter":
        """The pixel router from a file's content."""
        return cls(b64decode(content["onnx"], validate=True), Training.of(content))


def picture_of(view: View, frame: int) -> Shaped[np.ndarray, "h w 3"]:
    """The picture of a frame of a unit; InputError if there is none."""
    check_picture(view, frame)
    return picture(view.scene, frame)


def check_picture(view: View, frame: int) -> None:
    """Raise InputError if a frame of a unit has no picture."""
    if not view.scene.has_image[frame]:
        raise InputError(
            f"{NAME} looks at pictures, and {view.scene.inputs[frame]} has none: "
            "build the cell with --pictures from a data set that has them, or choose "
            "another allocator."
        )


def network_input(
    image: Shaped[np.ndarray, "h w 3"],
) -> Float[np.ndarray, "3 size size"]:
    """The network's input from a picture: every s-th pixel, resized to 128 x 128,
    levels centred; channels first.

    A sampled picture from a cell gives the same bits as the camera's whole picture.
    """
    if (
        image.dtype != np.uint8
        or image.ndim != 3
        or image.shape[2] != 3
        or min(image.shape[:2]) < 1
    ):
        raise InputError(
            "a picture must be height x width x "
            f"RGB of 8 bit; found {image.dtype} {image.shape}."
        )
    part = np.asarray(sample_pixels(image), float)
    for axis in (0, 1):
        part = np.moveaxis(_resize(np.moveaxis(part, axis, 0)), 0, axis)
    return np.ascontiguousarray(
        np.moveaxis((part / 255.0 - MEAN) / SPREAD, 2, 0), dtype=np.float32
    )


def _resize(
    lines: Float[np.ndarray, "line across 3"],
) -> Float[np.ndarray, "size across 3"]:
    """The lines of a picture resized to 128: means of the lines near each centre,
    weighted by a tent.

    Taps are added in order, not as a matrix product, so that the bits are the same on
    every machine.
    """
    resized = np.zeros((SIZE_PX, *lines.shape[1:]))
    for line, weight in zip(*_taps(len(lines)), strict=True):
        resized += weight[:, None, None] * lines[line]
    return resized


def _taps(
    lines: int,
) -> tuple[Int[np.ndarray, "tap size"], Float[np.ndarray, "tap size"]]:
    """Source lines and weights of each of the 128 lines; a tent reaches one new or one
    old line, whichever is wider.

    Lines beyond the border have weight 0.
    """
    scale = lines / SIZE_PX
    reach = max(scale, 1.0)
    centre = (np.arange(SIZE_PX) + 0.5) * scale
    first = np.floor(centre - reach).astype(int)
    line = first + np.arange(int(np.ceil(2 * reach)) + 1)[:, None]
    weight = np.maximum(1.0 - np.abs(line + 0.5 - centre) / reach, 0.0)
    weight[(line < 0) | (line >= lines)] = 0.0
    return np.clip(line, 0, lines - 1), weight / np.add.reduce(weight)


@dataclass(frozen=True)
class PixelRecipe(Recipe):
    """How to train the pixel router: Adam on the cross-entropy of 1[V > 0], with a step
    that falls linearly to 0.

    Attributes:
        epochs: Number of passes over the fit inputs.
        batch: Number of inputs per step.
        step: Size of the first step.
    """

    epochs: int = 6
    batch: int = 32
    step: float = 0.002
    name = NAME
    target = "value-binary"
    makes = PixelRouter
    extra = "torch"

    def admits(self, target: str, *, classifies: bool) -> bool:
        """Targets with labels 0 and 1."""
        del target
        return classifies

    def like(self, settings: Mapping[str, Any]) -> "PixelRecipe":
        """The recipe with a trained router's settings."""
        names = [field.name for field in fields(PixelRecipe)]
        values = {name: settings[name] for name in names if name in settings}
        recipe: PixelRecipe = check_form(PixelRecipe, values, f"the settings of {NAME}")
        check_settings(
            recipe, {"epochs": (1, 10_000), "batch": (1, 65_536), "step": (1e-9, 1e3)}
        )
        return recipe

    def fit(
        self, examples: Examples, training: Training, *, watch: Watch = unwatched
    ) -> PixelRouter:
        """The pixel router, trained on the examples' pictures."""
        frames = examples.frames
        for view, frame in frames:
            check_picture(view, frame)
        return fit_pixels(
            self,
            lambda row: picture_of(*frames[row]),
            examples.labels,
            training,
            watch=watch,
        )


def fit_pixels(
    recipe: PixelRecipe,
    picture: Callable[[int], np.ndarray],
    labels: Float[np.ndarray, "input"],
    training: Training,
    *,
    watch: Watch = unwatched,
) -> PixelRouter:
    """The pixel router, trained from scratch.

    Args:
        recipe: The settings of the training.
        picture: Opens the picture of a fit input; one batch is in memory at a time.
        labels: 1 if escalation pays, otherwise 0.
        training: The data of the training, for the file.
        watch: Reports every step.
    """
    torch = library("torch")
    if set(np.unique(labels).tolist()) != {0.0, 1.0}:
        first_labels = ", ".join(f"{label:g}" for label in np.unique(labels)[:3])
        raise InputError(
            f"{NAME}: a classifier needs fit inputs of both labels, "
            f"0 and 1; found {first_labels or 'none'}."
        )
    with repeatable(torch, training.seed):
        network = new_network(torch, positive=float(labels.mean()))
        _train(torch, network, recipe, picture, labels=labels, watch=watch)
        _normalise(torch, network, recipe, picture, len(labels))
    settings = {"learner": "MobileNetV2", **asdict(recipe)}
    return PixelRouter(
        onnx_bytes(weights_of(network)), replace(training, settings=settings)
    )


def new_network(torch: Any, *, positive: float = 0.5) -> Any:
    """The untrained network: a module per block, then the head, whose bias starts at
    the share of positive labels.
    """
    nn = torch.nn
    blocks = [
        nn.Sequential(*(_layer(nn, layer) for layer in block.convolutions))
        for block in BLOCKS
    ]
    head = nn.Linear(CHANNELS, 1)
    nn.init.normal_(head.weight, std=0.01)
    nn.init.constant_(head.bias, float(np.log(positive / (1.0 - positive))))
    return nn.ModuleList([*blocks, head]).to(memory_format=torch.channels_last)


def log_odds(network: Any, pictures: Any) -> Any:
    """The network's log-odds for a batch of prepared pictures."""
    *modules, head = network
    signal = pictures
    for block, module in zip(BLOCKS, modules, strict=True):
        signal = signal + module(signal) if block.residual else module(signal)
    return head(signal.mean((2, 3)))[:, 0]


def weights_of(network: Any) -> Weights:
    """The network's weights in plain numbers; batch normalisation becomes part of the
    convolution before it.
    """
    *modules, head = network
    folded = []
    for convolution, norm in (layer[:2] for module in modules for layer in module):
        gamma, beta, mean, variance, weight = (
            tensor.detach().double().numpy()
            for tensor in (
                norm.weight,
                norm.bias,
                norm.running_mean,
                norm.running_var,
                convolution.weight,
            )
        )
        scale = gamma / np.sqrt(variance + norm.eps)
        folded.append((weight * scale[:, None, None, None], beta - mean * scale))
    return Weights(
        folded,
        (head.weight.detach().double().numpy(), head.bias.detach().double().numpy()),
    )


def _layer(nn: Any, layer: Convolution) -> Any:
    padding = layer.kernel // 2
    convolution = nn.Conv2d(
        layer.inputs,
        layer.outputs,
        layer.kernel,
        layer.stride,
        padding,
        groups=layer.groups,
        bias=False,
    )
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out")
    return nn.Sequential(
        convolution,
        nn.BatchNorm2d(layer.outputs),
        *([nn.ReLU6()] if layer.clipped else []),
    )


def _train(
    torch: Any,
    network: Any,
    recipe: PixelRecipe,
    picture: Callable[[int], np.ndarray],
    *,
    labels: Float[np.ndarray, "input"],
    watch: Watch,
) -> None:
    steps = [
        chosen
        for _ in range(recipe.epochs)
        for chosen in torch.randperm(len(labels)).split(recipe.batch)
    ]
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.step)
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda done: 1.0 - done / len(steps)
    )
    network.train()
    for chosen in watch(steps, f"training {NAME}"):
        answer = log_odds(network, _batch(torch, picture, chosen))
        target = torch.from_numpy(labels[chosen.numpy()].astype(np.float32))
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(answer, target).backward()
        optimiser.step()
        falling.step()


def _normalise(
    torch: Any,
    network: Any,
    recipe: PixelRecipe,
    picture: Callable[[int], np.ndarray],
    inputs: int,
) -> None:
    """Measure means and variances over all fit inputs: the running ones lag behind the
    weights of the training.
    """
    for norm in (
        module
        for module in network.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    ):
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for chosen in torch.arange(inputs).tensor_split(-(-inputs // recipe.batch)):
            log_odds(network, _batch(torch, picture, chosen))


def _batch(torch: Any, picture: Callable[[int], np.ndarray], chosen: Any) -> Any:
    pictures = torch.from_numpy(
        np.stack([network_input(picture(index)) for index in chosen.tolist()])
    )
    return pictures.contiguous(memory_format=torch.channels_last)
