"""Pictures and labels of the fit inputs -> a trained pixel router; the only module of allocators that needs torch.

One thread and seeded random numbers: the same pictures, labels and seed give the same bytes of the file.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from deepval.allocators import pixel
from deepval.allocators.allocator import Examples, Recipe, Training
from deepval.allocators.models.model import check_settings
from deepval.arrays import Float
from deepval.errors import InputError, library
from deepval.files.reading import check_form
from deepval.progress import Watch, unwatched


@dataclass(frozen=True)
class PixelRecipe(Recipe):
    """How to train the pixel router: Adam on the cross-entropy of 1[V > 0], with a step that falls linearly to 0.

    Attributes:
        epochs: Number of passes over the fit inputs.
        batch: Number of inputs per step.
        step: Size of the first step.
    """

    epochs: int = 6
    batch: int = 32
    step: float = 0.002
    name = pixel.NAME
    target = "value-binary"
    makes = pixel.PixelRouter
    extra = "torch"

    def admits(self, target: str, *, classifies: bool) -> bool:
        """Targets with labels 0 and 1."""
        del target
        return classifies

    def like(self, settings: Mapping[str, Any]) -> "PixelRecipe":
        """The recipe with a trained router's settings."""
        names = [field.name for field in fields(PixelRecipe)]
        values = {name: settings[name] for name in names if name in settings}
        recipe: PixelRecipe = check_form(PixelRecipe, values, f"the settings of {pixel.NAME}")
        check_settings(recipe, {"epochs": (1, 10_000), "batch": (1, 65_536), "step": (1e-9, 1e3)})
        return recipe

    def fit(self, examples: Examples, training: Training, *, watch: Watch = unwatched) -> pixel.PixelRouter:
        """The pixel router, trained on the examples' pictures."""
        frames = examples.frames
        for view, frame in frames:
            pixel.check_picture(view, frame)
        return fit_pixels(self, lambda row: pixel.picture_of(*frames[row]), examples.labels, training, watch=watch)


def fit_pixels(
    recipe: PixelRecipe,
    picture: Callable[[int], np.ndarray],
    labels: Float[np.ndarray, "input"],
    training: Training,
    *,
    watch: Watch = unwatched,
) -> pixel.PixelRouter:
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
            f"{pixel.NAME}: a classifier needs fit inputs of both labels, 0 and 1; found {first_labels or 'none'}."
        )
    with _repeatable(torch, training.seed):
        network = new_network(torch, positive=float(labels.mean()))
        _train(torch, network, recipe, picture, labels=labels, watch=watch)
        _normalise(torch, network, recipe, picture, len(labels))
    settings = {"learner": "MobileNetV2", **asdict(recipe)}
    return pixel.PixelRouter(pixel.onnx_bytes(weights_of(network)), replace(training, settings=settings))


def new_network(torch: Any, *, positive: float = 0.5) -> Any:
    """The untrained network: a module per block, then the head, whose bias starts at the share of positive labels."""
    nn = torch.nn
    blocks = [nn.Sequential(*(_layer(nn, layer) for layer in block.convolutions)) for block in pixel.BLOCKS]
    head = nn.Linear(pixel.CHANNELS, 1)
    nn.init.normal_(head.weight, std=0.01)
    nn.init.constant_(head.bias, float(np.log(positive / (1.0 - positive))))
    return nn.ModuleList([*blocks, head]).to(memory_format=torch.channels_last)


def log_odds(network: Any, pictures: Any) -> Any:
    """The network's log-odds for a batch of prepared pictures."""
    *modules, head = network
    signal = pictures
    for block, module in zip(pixel.BLOCKS, modules, strict=True):
        signal = signal + module(signal) if block.residual else module(signal)
    return head(signal.mean((2, 3)))[:, 0]


def weights_of(network: Any) -> pixel.Weights:
    """The network's weights in plain numbers; batch normalisation becomes part of the convolution before it."""
    *modules, head = network
    folded = []
    for convolution, norm in (layer[:2] for module in modules for layer in module):
        gamma, beta, mean, variance, weight = (
            tensor.detach().double().numpy()
            for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var, convolution.weight)
        )
        scale = gamma / np.sqrt(variance + norm.eps)
        folded.append((weight * scale[:, None, None, None], beta - mean * scale))
    return pixel.Weights(folded, (head.weight.detach().double().numpy(), head.bias.detach().double().numpy()))


def _layer(nn: Any, layer: pixel.Convolution) -> Any:
    padding = layer.kernel // 2
    convolution = nn.Conv2d(
        layer.inputs, layer.outputs, layer.kernel, layer.stride, padding, groups=layer.groups, bias=False
    )
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out")
    return nn.Sequential(convolution, nn.BatchNorm2d(layer.outputs), *([nn.ReLU6()] if layer.clipped else []))


def _train(
    torch: Any,
    network: Any,
    recipe: PixelRecipe,
    picture: Callable[[int], np.ndarray],
    *,
    labels: Float[np.ndarray, "input"],
    watch: Watch,
) -> None:
    steps = [chosen for _ in range(recipe.epochs) for chosen in torch.randperm(len(labels)).split(recipe.batch)]
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.step)
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: 1.0 - done / len(steps))
    network.train()
    for chosen in watch(steps, f"training {pixel.NAME}"):
        answer = log_odds(network, _batch(torch, picture, chosen))
        target = torch.from_numpy(labels[chosen.numpy()].astype(np.float32))
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(answer, target).backward()
        optimiser.step()
        falling.step()


def _normalise(
    torch: Any, network: Any, recipe: PixelRecipe, picture: Callable[[int], np.ndarray], inputs: int
) -> None:
    """Measure means and variances over all fit inputs: the running ones lag behind the weights of the training."""
    for norm in (module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)):
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for chosen in torch.arange(inputs).tensor_split(-(-inputs // recipe.batch)):
            log_odds(network, _batch(torch, picture, chosen))


def _batch(torch: Any, picture: Callable[[int], np.ndarray], chosen: Any) -> Any:
    pictures = torch.from_numpy(np.stack([pixel.network_input(picture(index)) for index in chosen.tolist()]))
    return pictures.contiguous(memory_format=torch.channels_last)


@contextmanager
def _repeatable(torch: Any, seed: int) -> Iterator[None]:
    """One thread, seeded numbers, and sums in one order; torch's own settings are restored afterwards."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            torch.set_num_threads(1)
            torch.use_deterministic_algorithms(mode=True)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(mode=strict)
