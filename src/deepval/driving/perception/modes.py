"""Sources of a mode's report -> its detections, unit by unit: a file or cache, or a
built-in mode without a file.

Built-in modes report nothing, the reference, or the simulation of the shipped profile
at any size: docs/own-detections.md, Modes without a file.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.basics.files.canonical import (
    digest_of,
    file_digest,
    folder_digests,
    plain,
    sha256,
)
from deepval.driving.geometry.boxes import proper
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.classes import (
    HEIGHT_M,
    NUSCENES_CLASSES,
    lookup,
    super_class,
)
from deepval.driving.perception.profile import Conditions, Profile, read_profile
from deepval.driving.perception.reported.detection_files import (
    is_cache,
    open_detections,
)
from deepval.driving.perception.reported.detection_rows import (
    DetectionFile,
    ModeReader,
    Source,
)
from deepval.driving.perception.reported.detections import DONE, Detections, ScoreKind
from deepval.driving.perception.simulation import (
    KITTI_SIZE_PX,
    detections_at,
    draw,
    street,
)
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth


@dataclass(frozen=True)
class FileMode(ModeReader):
    """A report in a file, or in a mode's folder of a cache.

    Attributes:
        path: Detections of any kind that `open_detections` reads.
        mode: The mode's name.
        declared: The kind of its scores; None takes the file's declaration.
        units: Units of the data set, of which the file must contain some.
        sha256: Hash of the file, or of each file of the folder as pairs of name and
            hash: the bytes read must match.
        classes: The data set's name for each class that may be reported, as
            pairs; None: the usual names of the file.
        frames_run: Numbers of the frames that it was run on, as pairs of unit and
            numbers; None: from the file.
    """

    path: Path
    mode: str
    declared: ScoreKind | None
    units: tuple[str, ...]
    sha256: str | tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, str], ...] | None = None
    frames_run: tuple[tuple[str, tuple[int, ...]], ...] | None = None

    @classmethod
    def of(
        cls,
        path: Path | str,
        mode: str,
        scores: ScoreKind | None,
        units: Sequence[str],
        classes: Mapping[str, str] | None = None,
        *,
        frames_run: Mapping[str, Sequence[int]] | None = None,
    ) -> "FileMode":
        """The report at a path, with its present hash."""
        path = Path(path)
        if not reading.exists(path):
            raise InputError(
                f"detections must be at {path}; there is nothing there: check the path."
            )
        pairs = None if classes is None else tuple(classes.items())
        run = (
            None
            if frames_run is None
            else tuple((unit, tuple(frames)) for unit, frames in frames_run.items())
        )
        return cls(path, mode, scores, tuple(units), _digests(path), pairs, run)

    @property
    def scores(self) -> ScoreKind:
        """The kind of its scores."""
        return _open_file(self).scores

    @property
    def definition(self) -> dict[str, Any]:
        """The file by name and hash, the kind of its scores, and the frames it was run
        on where these were listed.
        """
        sha256 = self.sha256 if isinstance(self.sha256, str) else dict(self.sha256)
        run = (
            {}
            if self.frames_run is None
            else {
                "frames_run": {unit: list(frames) for unit, frames in self.frames_run}
            }
        )
        return {
            "source": self.path.name,
            "sha256": sha256,
            "scores": self.scores,
            **run,
        }

    @property
    def whole(self) -> bool:
        """A cache is filled unit by unit, so a missing unit was not reached yet."""
        return is_cache(self.path)

    @property
    def by_scene(self) -> bool:
        """Results that name frames by tokens (nuScenes) list every frame of a scene,
        including frames without boxes.
        """
        return _open_file(self).rows.unit is None

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """The mode's detections on one unit."""
        return _open_file(self).on(scene)


@lru_cache(maxsize=8)
def _open_file(mode: FileMode) -> DetectionFile:
    """The file of a mode, read once in each process."""
    run = None if mode.frames_run is None else dict(mode.frames_run)
    source = Source(
        mode.mode,
        mode.declared,
        None if mode.classes is None else dict(mode.classes),
        run,
    )
    file = open_detections(mode.path, source=source, units=mode.units)
    if _digests(mode.path) != mode.sha256:
        raise InputError(
            f"{mode.path}: must not change while it is read, and did: build again "
            "when it is whole."
        )
    file.check_units(mode.units)
    return file


def _digests(path: Path) -> str | tuple[tuple[str, str], ...]:
    return (
        file_digest(path)
        if reading.is_file(path)
        else tuple(folder_digests(path, ["**/*"]).items())
    )


BUILT_IN = "built-in"
"""The source of these modes, instead of a file's name."""
SIZES_PX = (160, 1280)
KITTI_FOCAL_PX = 721.5
"""Focal length of the pictures that the profile was fitted on."""
HIDDEN = 3


class BuiltIn(ModeReader):
    """A mode that is defined by its name, and a random one also by a seed."""

    @property
    def scores(self) -> ScoreKind:
        """Its scores are probabilities."""
        return "probabilities"

    @property
    def by_definition(self) -> bool:
        """Its report follows from its definition, so that a unit without detections is
        no omission.
        """
        return True

    @property
    def definition(self) -> dict[str, Any]:
        """Its definition: part of a cell's id."""
        return {"source": BUILT_IN, "scores": self.scores, **self.reports}

    @property
    @abstractmethod
    def reports(self) -> dict[str, Any]:
        """The content of its report, for a cell's definition."""


@dataclass(frozen=True)
class Nothing(BuiltIn):
    """A mode that was run everywhere and reports nothing.

    Attributes:
        all_around: Whether it stands for a sensor that would see all around, or for a
            camera that sees its image.
    """

    all_around: bool = True

    @property
    def reports(self) -> dict[str, Any]:
        """No detections, and the field of view of the absent sensor."""
        return {"reports": "nothing", "all_around": self.all_around}

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """No detections on every frame."""
        return Detections(
            unit=scene.unit,
            frame=np.zeros(0, dtype=int),
            cls=np.zeros(0, dtype="<U14"),
            score=np.zeros(0),
            box_px=np.zeros((0, 4)),
            status=np.full(len(scene), DONE),
            cuboid_m=np.zeros((0, 7)) if self.all_around else None,
            velocity_mps=np.zeros((0, 2)) if self.all_around else None,
            cuboid_frame="ego",
        )


@dataclass(frozen=True)
class EveryReference(BuiltIn):
    """A mode that reports every reference object as it is, with score 1."""

    @property
    def reports(self) -> dict[str, Any]:
        """Every reference object."""
        return {"reports": "every reference object"}

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """A detection per reference object: a 3D box in the ego frame, an image box
        where it is in the image.
        """
        objects = truth.objects
        return Detections(
            unit=scene.unit,
            frame=objects.frame,
            cls=objects.cls,
            score=np.ones(len(objects)),
            box_px=np.where(proper(truth.box_px)[:, None], truth.box_px, np.nan),
            status=np.full(len(scene), DONE),
            track=objects.track,
            cuboid_m=upright_boxes_m(truth, road_z_m=scene.camera.road_z_m),
            velocity_mps=reference_velocity_mps(truth, scene),
            cuboid_frame="ego",
        )


def reference_velocity_mps(truth: Truth, scene: Scene) -> Float[np.ndarray, "obj 2"]:
    """Velocities of the reference objects; where the truth has none, straight ahead,
    from the closing speed.
    """
    ahead_mps = scene.ego_speed_mps[truth.frame] - truth.objects.closing_mps
    logged_mps = truth.objects.velocity_mps
    return np.where(
        np.isnan(logged_mps),
        np.column_stack([ahead_mps, np.zeros(len(truth))]),
        logged_mps,
    )


def upright_boxes_m(truth: Truth, *, road_z_m: float) -> Float[np.ndarray, "obj 7"]:
    """3D boxes on the road over the reference objects' ground corners, as high as their
    class.

    Corners go around from the front left: front right, rear right, rear left.
    """
    corners_m = truth.objects.corners_m
    front_m, side_m = (
        corners_m[:, 0] - corners_m[:, 3],
        corners_m[:, 0] - corners_m[:, 1],
    )
    height_m = lookup(truth.cls, HEIGHT_M)
    return np.column_stack(
        [
            corners_m.mean(axis=1),
            road_z_m + height_m / 2,
            np.linalg.norm(front_m, axis=1),
            np.linalg.norm(side_m, axis=1),
            height_m,
            np.arctan2(front_m[:, 1], front_m[:, 0]),
        ]
    )


@dataclass(frozen=True)
class Profiled(BuiltIn):
    """Simulated detections of the shipped detection profile at one picture size.

    All sizes read the same draw, which depends on the seed and the unit's name alone,
    so that modes agree and disagree with each other and over time according to the
    profile.
    """

    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not SIZES_PX[0] <= self.size <= SIZES_PX[1]:
            raise InputError(
                "A profile's size must "
                f"lie in {SIZES_PX[0]} to {SIZES_PX[1]} px; found {self.size}."
            )

    @property
    def reports(self) -> dict[str, Any]:
        """The profile by name and content, size and seed."""
        profile, digest = _shipped_profile()
        return {
            "profile": profile.name,
            "profile_sha256": digest,
            "size": self.size,
            "seed": self.seed,
        }

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """The simulated detections on one unit."""
        rng = np.random.default_rng(
            [self.seed, int(sha256(scene.unit.encode())[:16], 16)]
        )
        profile, _ = _shipped_profile()
        conditions = conditions_through(scene.camera, street(profile, rng))
        return detections_at(
            draw(
                profile,
                scene,
                truth=visible_to_camera(truth),
                rng=rng,
                conditions=conditions,
            ),
            self.size,
        )


def conditions_through(camera: Camera, conditions: Conditions) -> Conditions:
    """Conditions of the same street through this lens: one longer than KITTI's shows
    fewer and larger phantoms.
    """
    width_px = camera.width_px or KITTI_SIZE_PX[0]
    view = width_px / camera.fx_px * KITTI_FOCAL_PX / KITTI_SIZE_PX[0]
    larger = camera.fy_px / KITTI_FOCAL_PX
    return replace(
        conditions,
        phantoms=conditions.phantoms * view,
        phantom_size=conditions.phantom_size * larger,
    )


def visible_to_camera(truth: Truth) -> Truth:
    """The objects visible to such a detector: in the image, not hidden (level 3), of a
    class that it detects.
    """
    inside = np.isfinite(truth.box_px).all(axis=1) & proper(truth.box_px)
    seen = truth.where(
        inside & (truth.occlusion < HIDDEN) & (super_class(truth.cls) != "static")
    )
    names = [NUSCENES_CLASSES.get(name, name) for name in seen.cls.tolist()]
    return replace(
        seen, objects=replace(seen.objects, cls=np.array(names, dtype="<U14"))
    )


@cache
def _shipped_profile() -> tuple[Profile, str]:
    profile = read_profile()
    return profile, digest_of(plain(asdict(profile)))


NAMES = "none, none-camera, reference, profile-320, profile-640 (or another size)"


def built_in_mode(name: str, *, seed: int = 0) -> BuiltIn | None:
    """The built-in mode of that name; None for another name."""
    sized = re.fullmatch(r"profile-([1-9][0-9]{0,5})", name)
    if sized:
        return Profiled(int(sized[1]), seed)
    return {
        "none": Nothing(),
        "none-camera": Nothing(all_around=False),
        "reference": EveryReference(),
    }.get(name)


def built_in_name(definition: Mapping[str, Any]) -> str:
    """The name of the built-in mode in a cell's definition."""
    if "profile" in definition:
        return f"profile-{definition['size']}"
    named = {name: built_in_mode(name) for name in ("none", "none-camera", "reference")}
    return next(
        name
        for name, mode in named.items()
        if mode is not None and mode.reports.items() <= definition.items()
    )
