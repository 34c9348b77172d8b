"""Seed -> the synthetic world: a data set like any other, and what a detector reports of it in every mode.

Scene i depends on the seed and on i alone, so scenes can be made in any order and number. What a scene shows is
drawn by whoever holds the world's drives; a Scene itself holds no more than a number to ask for pictures with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from deepval.datasets.dataset import Dataset
from deepval.datasets.synthetic.look import Look, conditions_of, look
from deepval.datasets.synthetic.pictures import pictures_of, write_pictures
from deepval.datasets.synthetic.traffic import Drive, TrafficSettings, drive
from deepval.datasets.synthetic.view import kitti_camera, truth_of
from deepval.errors import InputError
from deepval.perception.detections import Detections, DetectionSet
from deepval.perception.profile import Profile, read_profile
from deepval.perception.profile_simulation import detected, draw, street
from deepval.scenes import Scene
from deepval.truth import Truth

MODES: dict[str, int] = {"yolov8s-320": 320, "yolov8s-384": 384, "yolov8s-512": 512, "yolov8s-640": 640}
TRAFFIC, LOOK, DETECTOR = 0, 1, 2
GOLDEN = (5**0.5 - 1) / 2
VERSION = 1


@dataclass(frozen=True)
class WorldSettings:
    """How many scenes of how many frames, and the traffic in them."""

    scenes: int = 48
    frames: int = 40
    traffic: TrafficSettings = field(default_factory=TrafficSettings)

    def __post_init__(self) -> None:
        if self.scenes < 1 or self.frames < 2:
            raise InputError(f"a world needs 1 scene of 2 frames or more; found {self.scenes} of {self.frames}.")


@dataclass(frozen=True)
class World:
    """The data set and, for each mode, the detections on it."""

    dataset: Dataset
    modes: Mapping[str, DetectionSet]


class SceneParts:
    """One scene in the making: its traffic, its look, and from them the Scene, the Truth and the detections."""

    def __init__(self, place: int, *, seed: int, settings: WorldSettings) -> None:
        self.unit, self.seed, self.place, self.settings = unit_id(place), seed, place, settings
        # Steps of the golden ratio spread the kinds of streets evenly, however many scenes there are.
        chance = (np.random.default_rng(seed).random() + place * GOLDEN) % 1.0
        self.drive: Drive = drive(settings.frames, settings=settings.traffic, chance=chance, rng=self.rng(TRAFFIC))
        self.look: Look = look(self.rng(LOOK))
        self.camera = kitti_camera()

    def rng(self, part: int) -> np.random.Generator:
        """The random numbers of one part of the scene: they depend on seed, scene and part alone."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.place, part)))

    def truth(self) -> Truth:
        """The reference."""
        settings = self.settings.traffic
        dt_s = np.full(self.settings.frames, settings.dt_s)
        return truth_of(self.drive, self.unit, camera=self.camera, dt_s=dt_s, farthest_m=settings.farthest_m)

    def scene(self, paths: Sequence[Path] | None = None) -> Scene:
        """What the vehicle knows; pictures from files where given, else drawn on demand."""
        frames = self.settings.frames
        return Scene(
            unit=self.unit,
            frame_ids=np.array([f"{frame:06d}" for frame in range(frames)], dtype="<U6"),
            time_s=np.arange(frames) * self.settings.traffic.dt_s,
            ego_speed_mps=self.drive.speed_mps,
            camera=self.camera,
            image_paths=tuple(paths or ()),
            images=None if paths else pictures_of(self.drive, self.look, camera=self.camera),
        )

    def detections(self, scene: Scene, truth: Truth, *, profile: Profile, modes: Mapping[str, int]) -> list[Detections]:
        """What the detector reports in each mode; what is wholly hidden it cannot see."""
        rng = self.rng(DETECTOR)
        clutter = self.settings.traffic.streets[self.drive.street].clutter
        conditions = conditions_of(self.look, street=street(profile, rng), clutter=clutter)
        drawn = draw(profile, scene, truth=visible(truth), rng=rng, conditions=conditions)
        return [detected(drawn, size) for size in modes.values()]


def unit_id(place: int) -> str:
    """Id of a scene: scene-00, scene-01, ..."""
    return f"scene-{place:02d}"


def visible(truth: Truth) -> Truth:
    """The truth without what is hidden (level 3)."""
    keep = truth.occlusion < 3
    columns = ("frame", "cls", "track", "box_px", "occlusion", "corners_m", "closing_mps")
    return Truth(
        unit=truth.unit,
        frames=truth.frames,
        ignored_frame=truth.ignored_frame,
        ignored_box_px=truth.ignored_box_px,
        **{name: getattr(truth, name)[keep] for name in columns},
    )


def make_world(
    seed: int = 0,
    *,
    settings: WorldSettings | None = None,
    modes: Mapping[str, int] | None = None,
    profile: Profile | None = None,
    units: Sequence[str] | None = None,
) -> World:
    """The synthetic world of a seed.

    Args:
        seed: everything follows from it.
        settings: number and length of scenes, traffic.
        modes: name -> long side of the picture in pixels; YOLOv8s at 320, 384, 512 and 640 where None.
        profile: how the detector sees; the one that ships with deepval where None.
        units: only these scenes, unchanged by leaving out the others.
    """
    settings, modes, profile = settings or WorldSettings(), modes or MODES, profile or read_profile()
    parts = scene_parts(seed, settings=settings, units=units)
    scenes, truths = [part.scene() for part in parts], [part.truth() for part in parts]
    found = [
        part.detections(scene, truth, profile=profile, modes=modes)
        for part, scene, truth in zip(parts, scenes, truths, strict=True)
    ]
    sets = {
        name: DetectionSet(name, "probabilities", {d[place].unit: d[place] for d in found})
        for place, name in enumerate(modes)
    }
    return World(Dataset("synthetic", tuple(scenes), tuple(truths)), sets)


def scene_parts(seed: int, *, settings: WorldSettings, units: Sequence[str] | None = None) -> list[SceneParts]:
    """The scenes of a world in the making, or those of `units`."""
    known = [unit_id(place) for place in range(settings.scenes)]
    unknown = sorted(set(units or ()) - set(known))
    if unknown:
        raise InputError(f"units must be {known[0]} to {known[-1]}; found {', '.join(unknown)}.")
    chosen = [place for place, unit in enumerate(known) if units is None or unit in set(units)]
    return [SceneParts(place, seed=seed, settings=settings) for place in chosen]


def read(
    root: Any = None,
    units: Sequence[str] | None = None,
    *,
    seed: int = 0,
    scenes: int = 48,
    frames: int = 40,
    picture_format: str = "jpg",
) -> Dataset:
    """Scenes and truths of the synthetic world; pictures are written under the folder `root` where one is given.

    Without a folder pictures are drawn each time they are asked for, in this process only.
    """
    settings = WorldSettings(scenes=scenes, frames=frames)
    parts = scene_parts(seed, settings=settings, units=units)
    made, truths = [part.scene() for part in parts], tuple(part.truth() for part in parts)
    if root is not None:
        folder = Path(root)
        # The name tells one world's pictures from another's, but not how to make that world.
        facts = repr((seed, frames, settings.traffic, VERSION)).encode()
        place = folder / f"image_02-{sha256(facts).hexdigest()[:12]}"
        paths = [write_pictures(scene, place / scene.unit, ending=picture_format) for scene in made]
        made = [part.scene(files) for part, files in zip(parts, paths, strict=True)]
    return Dataset("synthetic", tuple(made), truths)
