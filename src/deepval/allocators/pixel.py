"""Picture -> probability that escalation pays, by a small convolutional network in ONNX Runtime; and its plain file.

The file is JSON like that of every allocator, with the network as an ONNX graph in base64: it loads without torch. The
graph is held to the one that training writes before it is run (`check_graph`): weights are all that a file brings.
Frames are scored one at a time on one thread, so that a frame has the same score to the bit alone, in its unit and in
any order.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from deepval.allocators.fitted import Examples, FittedAllocator, Recipe, Training
from deepval.allocators.models.links import linked
from deepval.allocators.models.model import check_settings
from deepval.allocators.pixel_graph import check_graph
from deepval.allocators.pixel_layers import SIZE_PX
from deepval.arrays import Float, Int, Shaped
from deepval.errors import InputError, library
from deepval.features import Glance, Sight
from deepval.features.images import sampled
from deepval.features.views import View, picture
from deepval.files.forms import formed
from deepval.perception.running.onnx_model import open_session
from deepval.progress import Watch, unwatched

NAME, FRONT = "router-pixel", "pixels"
MEAN, SPREAD = 0.45, 0.25
"""What is taken from every level between 0 and 1, and what it is divided by then."""


@dataclass(frozen=True, eq=False)
class PixelRouter(FittedAllocator):
    """A trained pixel router.

    Attributes:
        model: The network, an ONNX graph as `onnx_bytes` writes it: [1, 3, 128, 128] -> the log-odds [1, 1].
        training: What it was trained on.
    """

    model: bytes = field(repr=False)
    training: Training = field(repr=False)
    name = NAME
    uses = frozenset({"image"})
    holds = "an ONNX graph in base64"

    def __post_init__(self) -> None:
        check_graph(self.model, NAME)

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        """The scores of the unit's pictures; nothing else of its frames is looked at."""
        found = np.full(len(sight), np.nan)
        for place in np.flatnonzero(sight.view.detections.run).tolist():
            found[place] = self.score_picture(picture_of(sight.view, place))
        return found

    def _of_frame(self, glance: Glance) -> float:
        if glance.frame.image is None:
            raise InputError(
                f"{NAME} looks at pictures, and frame {glance.past.frames} of the drive has none: give Frame its image."
            )
        return self.score_picture(glance.frame.image)

    def score_picture(self, image: Shaped[np.ndarray, "h w 3"]) -> float:
        """The probability that escalation pays, from the picture alone."""
        raw = self._session.run(None, {"picture": prepared(image)[None]})[0]
        return float(linked(np.asarray(raw, float).reshape(1), "logistic")[0])

    @cached_property
    def _session(self) -> Any:
        library("onnxruntime", purpose="The pixel router", extra="vision")
        return open_session(self.model, name=f"that of {NAME}", threads=1)

    @classmethod
    def fronts(cls) -> tuple[str, ...]:
        """Pixels."""
        return (FRONT,)

    def content(self) -> dict[str, Any]:
        """Training, and the network in base64."""
        content = {"name": NAME, "training": asdict(self.training), "front": FRONT}
        return content | {"onnx": b64encode(self.model).decode("ascii")}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "PixelRouter":
        """The pixel router that a file's content describes."""
        return cls(b64decode(content["onnx"], validate=True), Training.of(content))


@dataclass(frozen=True)
class PixelRecipe(Recipe):
    """How the pixel router is trained: Adam on the cross-entropy of 1[V > 0], its step falling to 0 along a line.

    Attributes:
        epochs: How often each fit input is looked at.
        batch: How many of them make a step.
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
        """The recipe that a trained router's settings tell of."""
        names = [field.name for field in fields(PixelRecipe)]
        held = {name: settings[name] for name in names if name in settings}
        recipe: PixelRecipe = formed(PixelRecipe, held, f"the settings of {NAME}")
        check_settings(recipe, {"epochs": (1, 10_000), "batch": (1, 65_536), "step": (1e-9, 1e3)})
        return recipe

    def fit(self, examples: Examples, training: Training, *, watch: Watch = unwatched) -> PixelRouter:
        """The pixel router, trained on the examples' pictures."""
        from deepval.allocators.pixel_training import fit_pixels

        frames = examples.frames
        for view, place in frames:
            check_picture(view, place)
        return fit_pixels(self, lambda row: picture_of(*frames[row]), examples.labels, training, watch=watch)


def picture_of(view: View, place: int) -> Shaped[np.ndarray, "h w 3"]:
    """The picture of a frame of a unit; InputError where there is none."""
    check_picture(view, place)
    return picture(view.scene, place)


def check_picture(view: View, place: int) -> None:
    """Raise where a frame of a unit has no picture."""
    if not view.scene.has_image[place]:
        raise InputError(
            f"{NAME} looks at pictures, and {view.scene.inputs[place]} has none: build the cell with --pictures from a "
            "data set that has them, or choose another allocator."
        )


def prepared(image: Shaped[np.ndarray, "h w 3"]) -> Float[np.ndarray, "3 size size"]:
    """What the network sees of a picture: every s-th pixel, resized to 128 x 128, levels centred; channels first.

    A sampled picture, as a cell keeps it, gives the same bits as the whole one that a camera delivers.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 1:
        raise InputError(f"a picture must be height x width x RGB of 8 bit; found {image.dtype} {image.shape}.")
    part = np.asarray(sampled(image), float)
    for axis in (0, 1):
        part = np.moveaxis(_resized(np.moveaxis(part, axis, 0)), 0, axis)
    return np.ascontiguousarray(np.moveaxis((part / 255.0 - MEAN) / SPREAD, 2, 0), dtype=np.float32)


def _resized(lines: Float[np.ndarray, "line across 3"]) -> Float[np.ndarray, "size across 3"]:
    """Lines of a picture as 128: each the mean of those near its centre, weighted by a tent.

    Taps are added one after the other, not as a matrix product, so that the bits are the same on every machine.
    """
    found = np.zeros((SIZE_PX, *lines.shape[1:]))
    for line, weight in zip(*_taps(len(lines)), strict=True):
        found += weight[:, None, None] * lines[line]
    return found


def _taps(lines: int) -> tuple[Int[np.ndarray, "tap size"], Float[np.ndarray, "tap size"]]:
    """Which lines make each of the 128, and with what weight; tents are as wide as a new line, or as an old if wider.

    Lines beyond the border have no weight.
    """
    scale = lines / SIZE_PX
    reach = max(scale, 1.0)
    centre = (np.arange(SIZE_PX) + 0.5) * scale
    first = np.floor(centre - reach).astype(int)
    line = first + np.arange(int(np.ceil(2 * reach)) + 1)[:, None]
    weight = np.maximum(1.0 - np.abs(line + 0.5 - centre) / reach, 0.0)
    weight[(line < 0) | (line >= lines)] = 0.0
    return np.clip(line, 0, lines - 1), weight / np.add.reduce(weight)
