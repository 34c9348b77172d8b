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
from deepval.planners.learned.rasters import road_rasters, scene_rasters
from deepval.planners.learned.weights import network_with, weights_of
from deepval.world.objects import Objects
from deepval.world.scene import Scene

REMEMBERED = 4
"""Number of stored outputs for a scene and objects: cheap, full and reference objects of a unit, and one more."""


class PlannerFiles(NamedTuple):
    """Paths of a planner's weights and masks, their SHA-256, and their origin."""

    weights: Path
    masks: Path
    weights_sha256: str
    masks_sha256: str
    origin: Origin


class LoadedPlanner:
    """A network with its masks and recent outputs, because plans, losses and diagnostics need the same ones."""

    def __init__(self, forward: Forward, masks: Masks) -> None:
        self.forward, self.masks = forward, masks
        self._asked: deque[tuple[Scene, Objects, np.ndarray]] = deque(maxlen=REMEMBERED)
        self._road: tuple[Scene, list[np.ndarray]] | None = None

    def logits(self, scene: Scene, objects: Objects) -> Float[np.ndarray, "time cell"]:
        """The network's logits within the masks, frame by frame, with these objects on the road."""
        for stored_scene, stored_objects, stored_logits in self._asked:
            if stored_scene is scene and stored_objects is objects:
                return stored_logits
        if self._road is None or self._road[0] is not scene:
            self._road = scene, road_rasters(scene, self.masks.grid)
        rasters = scene_rasters(scene, objects, self.masks.grid, roads=self._road[1])
        parts = [self.masks.within(self.forward.blocks(raster)) for raster in rasters]
        logits = np.stack(parts) if parts else np.zeros((0, self.masks.index.shape[1]), dtype=np.float32)
        self._asked.append((scene, objects, logits))
        return logits

    def paths_m(self, scene: Scene, objects: Objects) -> Float[np.ndarray, "time step 2"]:
        """The planned positions in the ego frame, frame by frame."""
        return path_m(self.logits(scene, objects), self.masks)

    def pkl_and_tip(
        self, scene: Scene, reference: Objects, perceived: Objects
    ) -> tuple[Float[np.ndarray, "time"], Float[np.ndarray, "time"]]:
        """PKL and TIP of perceived objects, frame by frame."""
        reference_logits, perceived_logits = self.logits(scene, reference), self.logits(scene, perceived)
        # A frame at a time: the sums of a whole unit at once would take gigabytes in double precision.
        both = [(pkl(a, b), tip(a, b, self.masks)) for a, b in zip(reference_logits, perceived_logits, strict=True)]
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
        origin = PUBLISHED if weights_file.is_published("weights") and masks_file.is_published("masks") else UNVERIFIED
    return PlannerFiles(Path(weights), Path(masks), weights_file.sha256, masks_file.sha256, origin)


@lru_cache(maxsize=2)
def loaded_planner(files: PlannerFiles) -> LoadedPlanner:
    """The planner in these files, stored in memory; InputError where a file has changed."""
    weights_file, masks_file = read_file(files.weights, "weights"), read_file(files.masks, "masks")
    for file, digest in ((weights_file, files.weights_sha256), (masks_file, files.masks_sha256)):
        if file.sha256 != digest:
            raise InputError(f"{file.path}: must stay as it is while it is used, and was changed: start again.")
    return LoadedPlanner(Forward(network_with(weights_of(weights_file))), masks_of(masks_file))


def _check_pair(manifest: object, masks: Masks, source: str) -> None:
    cells = manifest.get("cells") if isinstance(manifest, dict) else None
    if cells != masks.grid.cells:
        raise InputError(
            f"{source}: was trained on a grid of {cells} cells a side, and the masks have {masks.grid.cells}: take the "
            "masks that were written with it."
        )
