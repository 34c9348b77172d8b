"""Seed -> the synthetic world: a data set, and the detections of a simulated detector on it in every mode.

Scene i depends on the seed and on i alone, so any scenes can be built in any order. A Scene has no pictures itself: it
asks `render` for them by a ticket, and `render` draws them from the scene's drive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from deepval.datasets.dataset import Dataset, Recording
from deepval.datasets.synthetic.bodies import Look, conditions_of, look
from deepval.datasets.synthetic.render import pictures_of, write_pictures
from deepval.datasets.synthetic.traffic import Drive, TrafficSettings, drive
from deepval.datasets.synthetic.view import kitti_camera, truth_of
from deepval.errors import InputError, quote
from deepval.files.canonical import sha256
from deepval.perception.reported.detection_rows import ModeReader
from deepval.perception.reported.detections import Detections, DetectionSet, ScoreKind
from deepval.perception.simulated.profile import Profile, read_profile
from deepval.perception.simulated.simulation import Draw, detected, draw, street
from deepval.world.scene import Scene
from deepval.world.truth import Truth

MODES: dict[str, int] = {"yolov8s-320": 320, "yolov8s-384": 384, "yolov8s-512": 512, "yolov8s-640": 640}
TRAFFIC, LOOK, DETECTOR = 0, 1, 2
GOLDEN = (5**0.5 - 1) / 2
VERSION = 1
MOST_SCENES, MOST_FRAMES = 1_000_000, 100_000


@dataclass(frozen=True)
class WorldSettings:
    """Number of scenes, frames per scene, and their traffic."""

    scenes: int = 48
    frames: int = 40
    traffic: TrafficSettings = field(default_factory=TrafficSettings)

    def __hash__(self) -> int:  # the traffic's streets are a dict
        return hash((self.scenes, self.frames))

    def __post_init__(self) -> None:
        if not (1 <= self.scenes <= MOST_SCENES and 2 <= self.frames <= MOST_FRAMES):
            raise InputError(
                f"a world needs 1 scene of 2 frames or more, and at most {MOST_SCENES:,} of {MOST_FRAMES:,}; found "
                f"{quote(self.scenes)} of {quote(self.frames)}."
            )


@dataclass(frozen=True)
class World:
    """The data set and, for each mode, the detections on it."""

    dataset: Recording
    modes: Mapping[str, DetectionSet]


class SceneParts:
    """Traffic and look of one scene, from which the Scene, the Truth and the detections follow."""

    def __init__(self, number: int, *, seed: int, settings: WorldSettings) -> None:
        self.unit, self.seed, self.number, self.settings = unit_id(number), seed, number, settings
        # Steps of the golden ratio spread the kinds of streets evenly, however many scenes there are.
        chance = (np.random.default_rng(seed).random() + number * GOLDEN) % 1.0
        self.drive: Drive = drive(settings.frames, settings=settings.traffic, chance=chance, rng=self.rng(TRAFFIC))
        self.look: Look = look(self.rng(LOOK))
        self.camera = kitti_camera()

    def rng(self, part: int) -> np.random.Generator:
        """The random numbers of one part of the scene: they depend on seed, scene and part alone."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.number, part)))

    def truth(self) -> Truth:
        """The reference."""
        settings = self.settings.traffic
        dt_s = np.full(self.settings.frames, settings.dt_s)
        return truth_of(self.drive, self.unit, camera=self.camera, dt_s=dt_s, farthest_m=settings.farthest_m)

    def scene(self, paths: Sequence[Path] | None = None) -> Scene:
        """The Scene; its pictures are the files `paths`, or are drawn on demand where there are none."""
        frames = self.settings.frames
        return Scene(
            unit=self.unit,
            frame_ids=np.array([f"{frame:06d}" for frame in range(frames)], dtype="<U6"),
            time_s=np.arange(frames) * self.settings.traffic.dt_s,
            ego_speed_mps=self.drive.speed_mps,
            cameras={"front": self.camera},
            image_paths=tuple(paths or ()),
            images=None if paths else pictures_of(self.drive, self.look, camera=self.camera),
        )

    @cached_property
    def drawn(self) -> Draw:
        """The detector's random draw on the visible objects, shared by all picture sizes."""
        profile, rng = shipped_profile(), self.rng(DETECTOR)
        clutter = self.settings.traffic.streets[self.drive.street].clutter
        conditions = conditions_of(self.look, street=street(profile, rng), clutter=clutter)
        return draw(profile, self.scene(), truth=visible(self.truth()), rng=rng, conditions=conditions)


def unit_id(number: int) -> str:
    """Id of a scene: scene-00, scene-01, ..."""
    return f"scene-{number:02d}"


def visible(truth: Truth) -> Truth:
    """The truth without hidden objects (level 3)."""
    return truth.where(truth.occlusion < 3)


def make_world(
    seed: int = 0,
    *,
    settings: WorldSettings | None = None,
    modes: Mapping[str, int] | None = None,
    units: Sequence[str] | None = None,
) -> World:
    """The synthetic world of a seed, in memory.

    Args:
        seed: everything follows from it.
        settings: number and length of scenes, traffic.
        modes: name -> long side of the picture in pixels; YOLOv8s at 320, 384, 512 and 640 where None.
        units: only these scenes, unchanged by leaving out the others.
    """
    settings, modes = settings or WorldSettings(), modes or MODES
    data = Synthetic(seed=seed, settings=settings).read(units)
    sets = {}
    for name, size in modes.items():
        reader = Simulated(seed, settings, size)
        detections = {
            scene.unit: reader.detections(scene, truth) for scene, truth in zip(data.scenes, data.truths, strict=True)
        }
        sets[name] = DetectionSet(name, "probabilities", detections)
    return World(data, sets)


@dataclass(frozen=True)
class Synthetic(Dataset):
    """The synthetic world of a seed.

    Attributes:
        root: Folder for the pictures; None: pictures are drawn at every access, in this process only.
        seed: Everything follows from it.
        settings: Number and length of scenes, traffic.
        picture_format: Ending of the picture files.
    """

    root: Path | str | None = None
    seed: int = 0
    settings: WorldSettings = field(default_factory=WorldSettings)
    picture_format: str = "jpg"

    @property
    def name(self) -> str:
        """Name of the data set; it seeds the splits."""
        return "synthetic"

    def files(self, unit: str) -> dict[str, Path]:
        """None: everything follows from the seed."""
        return {}

    def beside(self, unit: str) -> dict[str, Any] | None:
        """Seed and settings; None where pictures are written, since no list names the existing ones."""
        return None if self.root is not None else {"seed": self.seed, "settings": asdict(self.settings)}

    def unit_ids(self) -> tuple[str, ...]:
        """scene-00, scene-01, ..."""
        return tuple(unit_id(number) for number in range(self.settings.scenes))

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """One scene, and its reference."""
        part = scene_of(self.seed, self.settings, unit)
        scene = part.scene()
        if self.root is not None:
            # A digest in the folder's name keeps the pictures of different worlds apart.
            facts = repr((self.seed, self.settings.frames, self.settings.traffic, VERSION)).encode()
            folder = Path(self.root) / f"image_02-{sha256(facts)[:12]}"
            scene = part.scene(write_pictures(scene, folder / unit, ending=self.picture_format))
        return scene, part.truth()


@dataclass(frozen=True)
class Simulated(ModeReader):
    """Detections of the simulated detector on the synthetic world at one picture size."""

    seed: int
    settings: WorldSettings
    size: int

    @property
    def scores(self) -> ScoreKind:
        """Its scores are probabilities."""
        return "probabilities"

    @property
    def made(self) -> dict[str, Any]:
        """The settings behind the detections: part of a cell's id."""
        return {"source": "synthetic", "seed": self.seed, "settings": asdict(self.settings), "size": self.size}

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """The detections on one scene."""
        return detected(scene_of(self.seed, self.settings, scene.unit).drawn, self.size)


@cache
def shipped_profile() -> Profile:
    """The detector's profile that ships with deepval."""
    return read_profile()


@lru_cache(maxsize=2)
def scene_of(seed: int, settings: WorldSettings, unit: str) -> SceneParts:
    """The parts of one scene; cached, since the modes of a unit share them."""
    units = [unit_id(number) for number in range(settings.scenes)]
    if unit not in units:
        raise InputError(f"units must be {units[0]} to {units[-1]}; found {unit}.")
    return SceneParts(units.index(unit), seed=seed, settings=settings)


def read(
    root: Any = None,
    units: Sequence[str] | None = None,
    *,
    seed: int = 0,
    scenes: int = 48,
    frames: int = 40,
    picture_format: str = "jpg",
) -> Recording:
    """The named scenes (all where None) in memory; pictures are written under the folder `root`, if any."""
    settings = WorldSettings(scenes=scenes, frames=frames)
    return Synthetic(root, seed=seed, settings=settings, picture_format=picture_format).read(units)
