"""Weights and masks in files -> a planner in memory: (scene, objects) -> logits, paths, PKL and TIP."""

from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.planners.learned.forward import Forward
from deepval.planners.learned.masks import PUBLISHED, TRAINED_HERE, UNVERIFIED, Masks, Origin, masks_of, read_file
from deepval.planners.learned.metrics import path_m, pkl, tip
from deepval.planners.learned.network import network_with, weights_of
from deepval.planners.learned.rasters import road_rasters, scene_rasters
from deepval.world.objects import Objects
from deepval.world.scene import Scene

REMEMBERED = 4
"""Answers kept for a scene and objects: cheap, full and reference objects of a unit, and one to spare."""


class PlannerFiles(NamedTuple):
    """Where a planner's weights and masks lie, their SHA-256, and who made them."""

    weights: Path
    masks: Path
    weights_sha256: str
    masks_sha256: str
    origin: Origin


class LoadedPlanner:
    """A network with its masks, and what it was lately asked: plans, losses and diagnostics ask for the same."""

    def __init__(self, forward: Forward, masks: Masks) -> None:
        self.forward, self.masks = forward, masks
        self._asked: deque[tuple[Scene, Objects, np.ndarray]] = deque(maxlen=REMEMBERED)
        self._road: tuple[Scene, list[np.ndarray]] | None = None

    def logits(self, scene: Scene, objects: Objects) -> Float[np.ndarray, "time cell"]:
        """The network's logits within the masks, frame by frame, when these objects are there."""
        for one, others, known in self._asked:
            if one is scene and others is objects:
                return known
        if self._road is None or self._road[0] is not scene:
            self._road = scene, road_rasters(scene, self.masks.grid)
        rasters = scene_rasters(scene, objects, self.masks.grid, roads=self._road[1])
        parts = [self.masks.within(self.forward.blocks(raster)) for raster in rasters]
        found = np.stack(parts) if parts else np.zeros((0, self.masks.index.shape[1]), dtype=np.float32)
        self._asked.append((scene, objects, found))
        return found

    def paths_m(self, scene: Scene, objects: Objects) -> Float[np.ndarray, "time step 2"]:
        """The planned positions in the ego frame, frame by frame."""
        return path_m(self.logits(scene, objects), self.masks)

    def pkl_and_tip(
        self, scene: Scene, reference: Objects, perceived: Objects
    ) -> tuple[Float[np.ndarray, "time"], Float[np.ndarray, "time"]]:
        """PKL and TIP of perceived objects, frame by frame."""
        told, seen = self.logits(scene, reference), self.logits(scene, perceived)
        # A frame at a time: the sums of a whole unit at once would take gigabytes in double precision.
        both = [(pkl(a, b), tip(a, b, self.masks)) for a, b in zip(told, seen, strict=True)]
        found = np.array(both, dtype=float).reshape(-1, 2)
        return found[:, 0], found[:, 1]


def planner_files(weights: Path | str, masks: Path | str) -> PlannerFiles:
    """A planner's files, which must fit the network and each other."""
    held, limits = read_file(weights, "weights"), read_file(masks, "masks")
    found, cells = weights_of(held), masks_of(limits)
    if found.manifest is not None:
        _check_pair(found.manifest, cells, str(held.path))
        origin: Origin = TRAINED_HERE
    else:
        origin = PUBLISHED if held.is_published("weights") and limits.is_published("masks") else UNVERIFIED
    return PlannerFiles(Path(weights), Path(masks), held.sha256, limits.sha256, origin)


@lru_cache(maxsize=2)
def loaded_planner(files: PlannerFiles) -> LoadedPlanner:
    """The planner in these files, kept in memory; they must still be what they were."""
    held, limits = read_file(files.weights, "weights"), read_file(files.masks, "masks")
    for file, told in ((held, files.weights_sha256), (limits, files.masks_sha256)):
        if file.sha256 != told:
            raise InputError(f"{file.path}: must stay as it is while it is used, and was changed: start again.")
    return LoadedPlanner(Forward(network_with(weights_of(held))), masks_of(limits))


def _check_pair(manifest: object, masks: Masks, source: str) -> None:
    told = manifest.get("cells") if isinstance(manifest, dict) else None
    if told != masks.grid.cells:
        raise InputError(
            f"{source}: was trained on a grid of {told} cells a side, and the masks have {masks.grid.cells}: take the "
            "masks that were written with it."
        )
