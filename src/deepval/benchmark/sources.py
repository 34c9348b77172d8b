"""Files and the synthetic world -> data sets and modes with the hashes of everything they rest on."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deepval.benchmark.build import file_digest, folder_digests
from deepval.benchmark.material import Material, Mode
from deepval.datasets import Dataset, read_dataset
from deepval.datasets.synthetic import MODES, WorldSettings, make_world
from deepval.errors import InputError, InputWarning
from deepval.perception.detection_files import read_detections
from deepval.perception.detection_rows import Source
from deepval.perception.detections import NEVER_RUN, DetectionSet, ScoreKind

KITTI_FILES = ("label_02/*.txt", "calib/*.txt", "oxts/*.txt", "poses/*.txt", "times/*.txt")
DEFAULT_MODES = ("yolov8s-320", "yolov8s-640")
DEFAULT_THRESHOLD = 0.25
"""What both modes of the synthetic world report from: operating point S0."""


@dataclass(frozen=True)
class ModeFile:
    """One mode as a file of detections and how it is used.

    Attributes:
        name: The mode's name.
        path: Detections of any kind that `read_detections` knows, or a mode's folder in a cache.
        threshold: Detections below this score are dropped; None keeps all.
        scores: What the scores are; None takes what the file declares.
        classes: Classes kept; None keeps all.
    """

    name: str
    path: Path
    threshold: float | None = None
    scores: ScoreKind | None = None
    classes: tuple[str, ...] | None = None


def kitti(root: Path | str, modes: Sequence[ModeFile], *, units: Sequence[str] | None = None) -> Material:
    """KITTI tracking files and detections on them."""
    dataset = read_dataset("kitti", root) if units is None else read_dataset("kitti", root).of_units(units)
    folder = Path(root) / "training" if (Path(root) / "training" / "label_02").is_dir() else Path(root)
    read = {mode.name: _from_file(mode, dataset) for mode in modes}
    if len(read) < len(modes):
        raise InputError("Modes need different names; one is given twice.")
    wanted = set(dataset.units)
    files = {name: sha for name, sha in folder_digests(folder, KITTI_FILES).items() if Path(name).stem in wanted}
    return Material(dataset, read, files)


def _from_file(mode: ModeFile, dataset: Dataset) -> Mode:
    before = _digests(mode.path)
    found = read_detections(mode.path, dataset.scenes, source=Source(mode=mode.name, scores=mode.scores))
    if _digests(mode.path) != before:
        raise InputError(f"{mode.path}: must not change while it is read, and did: build again when it is whole.")
    _tell_what_was_not_run(mode, found, dataset)
    definition = {"source": Path(mode.path).name, "sha256": before, "scores": found.scores}
    return _used(found, definition, threshold=mode.threshold, classes=mode.classes)


def _digests(path: Path) -> str | dict[str, str]:
    return file_digest(path) if path.is_file() else folder_digests(path, ["**/*"])


def _tell_what_was_not_run(mode: ModeFile, found: DetectionSet, dataset: Dataset) -> None:
    """Raise where a cache is filled in part, and note frames that no mode's report covers: they are no inputs."""
    left = {unit: int((found[unit].status == NEVER_RUN).sum()) for unit in dataset.units}
    frames = sum(left.values())
    if not frames:
        return
    missing = [scene.unit for scene in dataset.scenes if left[scene.unit] == len(scene)]
    if missing and (mode.path / "detections").is_dir():
        raise InputError(
            f"{mode.path}: every unit must have been run, and {len(missing)} of {len(dataset.units)} were not: "
            f"{', '.join(missing)}. Run `deepval perceive` to its end, or name the others with --units."
        )
    message = (
        f"mode {mode.name} was not run on {frames:,} of {sum(map(len, dataset.scenes)):,} frames, which are no inputs "
        f"then: in unit {', '.join(unit for unit, number in left.items() if number)}."
    )
    warnings.warn(message, InputWarning, stacklevel=2)


def synthetic(
    modes: Sequence[str] = DEFAULT_MODES,
    *,
    seed: int = 0,
    settings: WorldSettings | None = None,
    threshold: float | Mapping[str, float] = DEFAULT_THRESHOLD,
    classes: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
) -> Material:
    """The synthetic world of a seed and what its detector reports.

    Args:
        modes: Names of its modes, cheap first.
        seed: Seed of the world.
        settings: Its size.
        threshold: Detections below this score are dropped; or by mode, the usual one for those not named.
        classes: Classes kept; None keeps all.
        units: Units to make; None makes all.
    """
    unknown = [name for name in modes if name not in MODES]
    if unknown:
        raise InputError(f"Modes of the synthetic world must be among {', '.join(MODES)}; found {unknown[0]!r}.")
    if len(set(modes)) < len(modes):
        raise InputError("Modes need different names; one is given twice.")
    limits = threshold if isinstance(threshold, Mapping) else dict.fromkeys(modes, threshold)
    settings = settings or WorldSettings()
    world = make_world(seed, settings=settings, modes={name: MODES[name] for name in modes}, units=units)
    definition = {"source": "synthetic", "seed": seed, "settings": asdict(settings)}
    used = {
        name: _used(
            world.modes[name],
            definition | {"size": MODES[name]},
            threshold=limits.get(name, DEFAULT_THRESHOLD),
            classes=classes,
        )
        for name in modes
    }
    return Material(world.dataset, used, {})


def _used(
    found: DetectionSet, definition: Mapping[str, Any], *, threshold: float | None, classes: Sequence[str] | None
) -> Mode:
    report = found if classes is None else found.of_classes(classes)
    kept = report if threshold is None else report.above(threshold)
    chosen = {"threshold": threshold, "classes": None if classes is None else sorted(classes)}
    return Mode(kept, {**definition, **chosen}, report)
