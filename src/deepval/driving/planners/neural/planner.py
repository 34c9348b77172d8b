"""Weights and masks in files -> a planner in memory: (scene, objects) -> logits, paths,
PKL and TIP.

Weights are checked against the network. Rasters run one at a time on one thread, and
equal rasters run once: batches of eight would save an eighth of the time, but the last
digits of a frame would depend on the size of its batch.
"""

import hashlib
import io
import pickle
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError, library
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, sha256
from deepval.basics.files.reading import check_file_form
from deepval.basics.files.writing import npz_arrays
from deepval.driving.planners.neural.plan_metrics import Masks, path_m, pkl, tip
from deepval.driving.planners.neural.rasters import road_rasters, scene_rasters
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene

Origin = Literal[
    "published",
    "trained here, not the published weights",
    "not verified to be the published files",
]
PUBLISHED: Origin = "published"
TRAINED_HERE: Origin = "trained here, not the published weights"
UNVERIFIED: Origin = "not verified to be the published files"
BLOBS = {
    "weights": "7e486090566a7f4f1cb7a1910a6598410779982d",
    "masks": "9ebbafd0a0c83bc79211879668ad493e81871762",
}
"""Git's names of the published planner.pt and masks_trainval.json: the SHA-1 of a
header and the content.
"""
GET = (
    "take planner.pt and masks_trainval.json of planning-centric metrics (PKL), or "
    "weights.npz and masks.npz that studies/train_planner.py writes"
)


@dataclass(frozen=True, eq=False)
class PlannerFile:
    """One file, read once: the hashed bytes are the bytes used."""

    path: Path
    data: bytes

    @property
    def sha256(self) -> str:
        """Its SHA-256."""
        return sha256(self.data)

    def is_published(self, kind: Literal["weights", "masks"]) -> bool:
        """Whether it is the published file, byte for byte."""
        blob = hashlib.sha1(
            b"blob %d\0" % len(self.data) + self.data, usedforsecurity=False
        )
        return blob.hexdigest() == BLOBS[kind]


def read_file(path: Path | str, kind: Literal["weights", "masks"]) -> PlannerFile:
    """A file of a planner."""
    try:
        return PlannerFile(Path(path), reading.content(path, f"a planner's {kind}"))
    except InputError as error:
        raise InputError(f"{str(error).removesuffix('.')}: {GET}.") from error


def masks_of(file: PlannerFile) -> Masks:
    """Masks from a nested JSON list of 0 and 1, or from an .npz with the array
    `masks`.
    """
    array = _npz_masks(file) if file.path.suffix == ".npz" else _json_masks(file)
    try:
        array = np.asarray(array)
    except ValueError:
        array = np.zeros(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{file.path}: masks must be a table of 0 and 1 with rows of equal length."
        )
    if not np.isin(array, (0, 1)).all():
        raise InputError(
            f"{file.path}: masks must hold "
            f"0 and 1 only; found {array[~np.isin(array, (0, 1))][0]:g}."
        )
    try:
        return Masks(array.astype(bool))
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from error


def _npz_masks(file: PlannerFile) -> np.ndarray:
    try:
        return npz_arrays(file.data)["masks"]
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{file.path}: must be an .npz file with the array `masks`; {error}."
        ) from error


def _json_masks(file: PlannerFile) -> list:
    content = json_content(file.data, file.path, "masks in a JSON list or an .npz file")
    if not isinstance(content, list):
        raise InputError(f"{file.path}: masks must be a JSON list of lists of 0 and 1.")
    return content


MANIFEST = "manifest"
"""Name of the manifest, JSON text, in an .npz of weights trained here."""
COUNTERS = "num_batches_tracked"


@dataclass(frozen=True, eq=False)
class PlannerWeights:
    """The state of a network: arrays by name; `manifest` describes a training by
    deepval, None for other weights.
    """

    arrays: Mapping[str, np.ndarray]
    width: int
    manifest: Mapping[str, Any] | None = None


def weights_of(file: PlannerFile) -> PlannerWeights:
    """The weights in a file; InputError unless they fit the network strictly."""
    arrays, manifest = (
        _npz(file) if file.path.suffix == ".npz" else (_torch(file), None)
    )
    return PlannerWeights(arrays, _check_width(arrays, str(file.path)), manifest)


def network_with(weights: PlannerWeights) -> Any:
    """The network in torch with these weights, ready to plan."""
    torch = library("torch")
    from deepval.driving.planners.neural.network import PlannerNetwork

    network: Any = PlannerNetwork(weights.width)
    network.load_state_dict(
        {
            name: torch.from_numpy(np.array(array))
            for name, array in weights.arrays.items()
        }
    )
    return network.eval().to(memory_format=torch.channels_last)


def _check_width(arrays: Mapping[str, np.ndarray], source: str) -> int:
    """The network's width; an error unless names, shapes and numbers are those of such
    a network.
    """
    library("torch")
    from deepval.driving.planners.neural.network import WIDTH, state_shapes

    first = arrays.get("trunk.conv1.weight")
    width = WIDTH if first is None or first.ndim != 4 or not len(first) else len(first)
    shapes = state_shapes(width)
    missing, extra = (
        sorted(set(shapes) - set(arrays)),
        sorted(set(arrays) - set(shapes)),
    )
    if missing:
        raise InputError(
            f"{source}: weights of the learned planner must hold {len(shapes)} "
            f"tensors; {len(missing)} are missing, the first {missing[0]!r}."
        )
    if extra:
        raise InputError(
            f"{source}: weights of the learned planner hold {extra[0]!r}, which the "
            "network does not have."
        )
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape:
            raise InputError(
                f"{source}: {name} must have the shape "
                f"{' x '.join(map(str, shape)) or 'of a single number'}; found "
                f"{' x '.join(map(str, array.shape)) or 'a single number'}: these are "
                "weights of another network."
            )
        if (
            array.dtype.kind != ("i" if name.endswith(COUNTERS) else "f")
            or not np.isfinite(array).all()
        ):
            raise InputError(
                f"{source}: {name} must hold finite "
                f"numbers; found {array.dtype} or NaN."
            )
    return width


def _npz(file: PlannerFile) -> tuple[dict[str, np.ndarray], Mapping[str, Any] | None]:
    try:
        arrays = npz_arrays(file.data)
    except ValueError as error:
        raise InputError(
            f"{file.path}: weights must be plain arrays in an .npz file; {error}."
        ) from error
    manifest = arrays.pop(MANIFEST, None)
    what = "weights with a manifest in JSON"
    if manifest is None:
        return arrays, None
    return arrays, check_file_form(
        dict[str, Any],
        json_content(str(manifest).encode(), file.path, what),
        file.path,
        what,
    )


def _torch(file: PlannerFile) -> dict[str, np.ndarray]:
    torch = library("torch")
    try:
        with warnings.catch_warnings():
            # about old formats; unreadable content is an error below
            warnings.simplefilter("ignore")
            state = torch.load(
                io.BytesIO(file.data), map_location="cpu", weights_only=True
            )
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{file.path}: weights must be tensors by name and nothing else; the file "
            "asks for more, or is damaged, and is not read further."
        ) from error
    except (RuntimeError, ValueError, OSError, EOFError, KeyError, TypeError) as error:
        raise InputError(
            f"{file.path}: weights must be a file of torch or "
            "an .npz; it cannot be read."
        ) from error
    strange = not isinstance(state, dict) or [
        name
        for name, tensor in state.items()
        if not (isinstance(name, str) and isinstance(tensor, torch.Tensor))
    ]
    if strange:
        what = (
            f"{type(state).__name__}"
            if strange is True
            else f"{strange[0]!r} that is not a tensor"
        )
        raise InputError(
            f"{file.path}: weights must be tensors by name and "
            f"nothing else; found {what}."
        )
    return {name: tensor.detach().numpy() for name, tensor in state.items()}


STORED_OUTPUTS = 768
"""Number of stored outputs: at most 200 MB with the published network."""


class Forward:
    """A network with its most recent outputs."""

    def __init__(self, network: Any, *, stored: int = STORED_OUTPUTS) -> None:
        self.network = network
        self.stored = stored
        self.runs = 0
        self._answers: OrderedDict[str, np.ndarray] = OrderedDict()

    def blocks(
        self, raster: Bool[np.ndarray, "channel x y"]
    ) -> Float[np.ndarray, "step bx by"]:
        """Logits of each block of cells (see `Masks.within`)."""
        key = sha256(np.packbits(raster).tobytes())
        logits = self._answers.get(key)
        if logits is None:
            logits = self._run(raster)
            self._answers[key] = logits
            while len(self._answers) > self.stored:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        return logits

    def _run(
        self, raster: Bool[np.ndarray, "channel x y"]
    ) -> Float[np.ndarray, "step bx by"]:
        torch = library("torch")
        self.runs += 1
        with one_thread(), torch.inference_mode():
            batch = torch.from_numpy(raster[None].astype(np.float32)).contiguous(
                memory_format=torch.channels_last
            )
            return np.ascontiguousarray(self.network.blocks(batch)[0].numpy())


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, so that sums are in one order; torch's own setting is restored
    afterwards.
    """
    torch = library("torch")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(threads)


STORED_SCENES = 4
"""Number of stored outputs for a scene and objects: cheap, full and reference objects
of a unit, and one more.
"""


class PlannerFiles(NamedTuple):
    """Paths of a planner's weights and masks, their SHA-256, and their origin."""

    weights: Path
    masks: Path
    weights_sha256: str
    masks_sha256: str
    origin: Origin


class LoadedPlanner:
    """A network with its masks and recent outputs, because plans, losses and
    diagnostics need the same ones.
    """

    def __init__(self, forward: Forward, masks: Masks) -> None:
        self.forward, self.masks = forward, masks
        self._asked: deque[tuple[Scene, Objects, np.ndarray]] = deque(
            maxlen=STORED_SCENES
        )
        self._road: tuple[Scene, list[np.ndarray]] | None = None

    def logits(self, scene: Scene, objects: Objects) -> Float[np.ndarray, "time cell"]:
        """The network's logits within the masks, frame by frame, with these objects on
        the road.
        """
        for stored_scene, stored_objects, stored_logits in self._asked:
            if stored_scene is scene and stored_objects is objects:
                return stored_logits
        if self._road is None or self._road[0] is not scene:
            self._road = scene, road_rasters(scene, self.masks.grid)
        rasters = scene_rasters(scene, objects, self.masks.grid, roads=self._road[1])
        parts = [self.masks.within(self.forward.blocks(raster)) for raster in rasters]
        logits = (
            np.stack(parts)
            if parts
            else np.zeros((0, self.masks.index.shape[1]), dtype=np.float32)
        )
        self._asked.append((scene, objects, logits))
        return logits

    def paths_m(
        self, scene: Scene, objects: Objects
    ) -> Float[np.ndarray, "time step 2"]:
        """The planned positions in the ego frame, frame by frame."""
        return path_m(self.logits(scene, objects), self.masks)

    def pkl_and_tip(
        self, scene: Scene, reference: Objects, perceived: Objects
    ) -> tuple[Float[np.ndarray, "time"], Float[np.ndarray, "time"]]:
        """PKL and TIP of perceived objects, frame by frame."""
        reference_logits, perceived_logits = (
            self.logits(scene, reference),
            self.logits(scene, perceived),
        )
        # A frame at a time: the sums of a whole unit at once would take gigabytes in
        # double precision.
        both = [
            (pkl(a, b), tip(a, b, self.masks))
            for a, b in zip(reference_logits, perceived_logits, strict=True)
        ]
        losses = np.array(both, dtype=float).reshape(-1, 2)
        return losses[:, 0], losses[:, 1]


def planner_files(weights: Path | str, masks: Path | str) -> PlannerFiles:
    """A planner's files; InputError unless they fit the network and each other."""
    weights_file, masks_file = read_file(weights, "weights"), read_file(masks, "masks")
    planner_weights, planner_masks = weights_of(weights_file), masks_of(masks_file)
    if planner_weights.manifest is not None:
        _check_pair(planner_weights.manifest, planner_masks, str(weights_file.path))
        origin: Origin = TRAINED_HERE
    else:
        origin = (
            PUBLISHED
            if weights_file.is_published("weights") and masks_file.is_published("masks")
            else UNVERIFIED
        )
    return PlannerFiles(
        Path(weights), Path(masks), weights_file.sha256, masks_file.sha256, origin
    )


@lru_cache(maxsize=2)
def load_planner(files: PlannerFiles) -> LoadedPlanner:
    """The planner in these files, stored in memory; InputError where a file has
    changed.
    """
    weights_file, masks_file = (
        read_file(files.weights, "weights"),
        read_file(files.masks, "masks"),
    )
    for file, digest in (
        (weights_file, files.weights_sha256),
        (masks_file, files.masks_sha256),
    ):
        if file.sha256 != digest:
            raise InputError(
                f"{file.path}: must stay as it is while it is used, "
                "and was changed: start again."
            )
    return LoadedPlanner(
        Forward(network_with(weights_of(weights_file))), masks_of(masks_file)
    )


def _check_pair(manifest: object, masks: Masks, source: str) -> None:
    cells = manifest.get("cells") if isinstance(manifest, dict) else None
    if cells != masks.grid.cells:
        raise InputError(
            f"{source}: was trained on a grid of {cells} cells a side, and the masks "
            f"have {masks.grid.cells}: take the masks that were written with it."
        )
