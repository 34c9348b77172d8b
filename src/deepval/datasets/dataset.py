"""A data set: what the vehicle knows and the reference, unit by unit."""

from collections.abc import Sequence
from dataclasses import dataclass

from deepval.errors import InputError
from deepval.scenes import Scene
from deepval.truth import Truth


@dataclass(frozen=True)
class Dataset:
    """Scenes and truths of the same units in the same order; splits are drawn under `name`."""

    name: str
    scenes: tuple[Scene, ...]
    truths: tuple[Truth, ...]

    def __post_init__(self) -> None:
        if self.units != tuple(truth.unit for truth in self.truths):
            raise InputError(f"data set {self.name}: scenes and truths must be of the same units in the same order.")
        for scene, truth in zip(self.scenes, self.truths, strict=True):
            if len(scene) != truth.frames:
                raise InputError(
                    f"unit {scene.unit}: scene and truth must have equally many frames; "
                    f"found {len(scene)} and {truth.frames}."
                )

    @property
    def units(self) -> tuple[str, ...]:
        """Ids of the units."""
        return tuple(scene.unit for scene in self.scenes)

    def of_units(self, units: Sequence[str]) -> "Dataset":
        """The data set restricted to `units`, in its own order."""
        unknown = sorted(set(units) - set(self.units))
        if unknown:
            raise InputError(f"units must be among {', '.join(self.units)}; found {', '.join(unknown)}.")
        kept = [place for place, unit in enumerate(self.units) if unit in set(units)]
        return Dataset(self.name, tuple(self.scenes[i] for i in kept), tuple(self.truths[i] for i in kept))
