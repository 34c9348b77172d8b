"""Seed -> the synthetic world: a data set, and the detections of a simulated detector
on it in every mode.

Scene i depends on the seed and on i alone, so any scenes can be built in any order.
Traffic becomes cuboids in the ego frame, their image boxes, truncation and occlusion,
and the Truth. A Scene has no pictures itself: it asks `render` for them by a ticket,
and `render` draws them from the scene's drive.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.basics.errors import InputError, quote
from deepval.basics.files.canonical import sha256
from deepval.driving.datasets.dataset import Dataset
from deepval.driving.datasets.synthetic.bodies import WEATHERS, Look, look
from deepval.driving.datasets.synthetic.render import pictures_of, write_pictures
from deepval.driving.datasets.synthetic.traffic import Drive, TrafficSettings, drive
from deepval.driving.geometry.camera import (
    Camera,
    image_points_px,
    looking_ahead,
    transform,
)
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.perception.profile import Conditions, Profile, read_profile
from deepval.driving.perception.reported.detection_rows import ModeReader
from deepval.driving.perception.reported.detections import Detections, ScoreKind
from deepval.driving.perception.simulation import Draw, detections_at, draw, street
from deepval.driving.world.objects import Objects, track_closing_mps
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth

NEAREST_M = 0.4
CELL_PX = 6
# Share of the box that must be visible for KITTI's levels 0 (fully), 1 (partly), 2
# (largely hidden); 3 below that.
VISIBLE = (0.85, 0.5, 0.1)


def conditions_of(
    scene_look: Look, *, street: Conditions, clutter: float
) -> Conditions:
    """Effects of light and weather on a detector, in a street with its own phantoms."""
    weather = WEATHERS[scene_look.weather]
    phantoms = street.phantoms * weather.phantoms * clutter
    return Conditions(weather.shift, weather.haze_per_m, phantoms, street.phantom_size)


def kitti_camera() -> Camera:
    """A camera like KITTI's left colour camera: 1242x375, 1.66 m above the road,
    looking straight ahead.
    """
    return Camera(
        721.5,
        721.5,
        609.6,
        172.9,
        looking_ahead(1.1, left_m=-0.32, height_m=0.73),
        -0.93,
        1242,
        375,
    )


class Bodies(NamedTuple):
    """Actors in the ego frame, one row per actor and frame in reach: actor number,
    ground corners, height.
    """

    frame: Int[np.ndarray, "row"]
    actor: Int[np.ndarray, "row"]
    corners_m: Float[np.ndarray, "row 4 2"]
    height_m: Float[np.ndarray, "row"]


def cuboids(drive: Drive, *, farthest_m: float) -> Bodies:
    """Actors ahead of the ego vehicle, in its frame: y = d - d_ego + curvature x^2 / 2,
    turned by curvature x.
    """
    actors = drive.actors
    x = actors.s_m - drive.s_m
    y = actors.d_m - drive.d_m + drive.curvature_per_m * x**2 / 2
    reach = (x > -actors.size_m[:, :1]) & (x < farthest_m)
    frame, actor = np.nonzero(reach.T)
    index = (actor, frame)
    yaw = actors.heading_rad[index] + drive.curvature_per_m * x[index]
    corners_m = ground_corners_m(
        np.stack([x[index], y[index]], axis=-1),
        actors.size_m[actor][:, :2],
        yaw_rad=yaw,
    )
    return Bodies(frame, actor, corners_m, actors.size_m[actor, 2])


def solid_corners_m(bodies: Bodies, road_z_m: float) -> Float[np.ndarray, "row 8 3"]:
    """The eight corners of each cuboid: the four on the road, then the four above
    them.
    """
    low = np.full((*bodies.corners_m.shape[:2], 1), road_z_m)
    bottom = np.concatenate([bodies.corners_m, low], axis=-1)
    top = np.concatenate(
        [bodies.corners_m, low + bodies.height_m[:, None, None]], axis=-1
    )
    return np.concatenate([bottom, top], axis=1)


class InPicture(NamedTuple):
    """Cuboids in the picture: their rows, their boxes clipped to the picture, and the
    share cut off.
    """

    row: Int[np.ndarray, "seen"]
    box_px: Float[np.ndarray, "seen 4"]
    truncation: Float[np.ndarray, "seen"]


def boxes_px(
    points_m: Float[np.ndarray, "row 8 3"], camera: Camera
) -> Float[np.ndarray, "row 4"]:
    """Image boxes around cuboids, not clipped to the image; parts behind the camera are
    moved just in front.
    """
    depth_m = transform(np.linalg.inv(camera.ego_from_cam), points_m)[..., 2]
    ahead = points_m.copy()
    ahead[..., 0] += np.maximum(NEAREST_M - depth_m, 0.0)
    pixel = image_points_px(camera, ahead)
    return np.concatenate([pixel.min(axis=1), pixel.max(axis=1)], axis=-1)


def in_picture(
    bodies: Bodies, camera: Camera, *, least_px: float = 8.0, most_cut: float = 0.85
) -> InPicture:
    """The cuboids whose clipped boxes are tall and wide enough and not cut off too
    far.
    """
    whole = boxes_px(solid_corners_m(bodies, camera.road_z_m), camera)
    size_px = np.array([camera.width_px, camera.height_px], dtype=float)
    clipped = np.clip(whole, 0.0, np.tile(size_px, 2))
    area = np.prod(whole[:, 2:] - whole[:, :2], axis=1)
    truncation = 1 - np.prod(clipped[:, 2:] - clipped[:, :2], axis=1) / np.maximum(
        area, 1e-9
    )
    size = clipped[:, 2:] - clipped[:, :2]
    near_m = bodies.corners_m[..., 0].max(axis=1)
    visible = (
        (size[:, 1] >= least_px)
        & (size[:, 0] >= 2.0)
        & (truncation <= most_cut)
        & (near_m > 1.5)
    )
    return InPicture(np.flatnonzero(visible), clipped[visible], truncation[visible])


def visible_share(
    frame: Int[np.ndarray, "seen"],
    box_px: Float[np.ndarray, "seen 4"],
    *,
    distance_m: Float[np.ndarray, "seen"],
    size_px: tuple[int, int],
) -> Float[np.ndarray, "seen"]:
    """Share of each box that no nearer box of its frame covers, on a grid of six-pixel
    cells.
    """
    columns, rows = -(-size_px[0] // CELL_PX), -(-size_px[1] // CELL_PX)
    low = np.floor(box_px[:, :2] / CELL_PX).astype(int)
    high = np.maximum(np.ceil(box_px[:, 2:] / CELL_PX).astype(int), low + 1)
    share = np.ones(len(frame))
    covered = np.zeros((rows, columns), dtype=bool)
    before = -1
    # Near to far within a frame: every box then covers the farther ones.
    for box in np.lexsort((distance_m, frame)):
        if frame[box] != before:
            covered[:] = False
            before = frame[box]
        part = covered[low[box, 1] : high[box, 1], low[box, 0] : high[box, 0]]
        share[box] = 1.0 - part.mean() if part.size else 0.0
        part[:] = True
    return share


def occlusion_level(visible: Float[np.ndarray, "seen"]) -> Int[np.ndarray, "seen"]:
    """KITTI's level 0 to 3 of a visible share."""
    return (visible[:, None] < np.array(VISIBLE)).sum(axis=1)


def truth_of(
    drive: Drive,
    unit: str,
    *,
    camera: Camera,
    dt_s: Float[np.ndarray, "time"],
    farthest_m: float,
) -> Truth:
    """The reference of a scene: every road user in the picture, hidden ones too (level
    3).
    """
    bodies = cuboids(drive, farthest_m=farthest_m)
    seen = in_picture(bodies, camera)
    frame, actor, corners_m = (
        bodies.frame[seen.row],
        bodies.actor[seen.row],
        bodies.corners_m[seen.row],
    )
    size_px = (camera.width_px or 0, camera.height_px or 0)
    distance_m = np.hypot(*np.moveaxis(corners_m, -1, 0)).min(axis=1)
    visible = visible_share(frame, seen.box_px, distance_m=distance_m, size_px=size_px)
    range_m = corners_m[..., 0].min(axis=-1)
    objects = Objects.of(
        len(drive.speed_mps),
        frame,
        corners_m=corners_m,
        closing_mps=track_closing_mps(frame, actor, range_m=range_m, dt_s=dt_s),
        names=drive.actors.cls[actor],
        track=actor,
    )
    return Truth(
        unit=unit,
        objects=objects,
        box_px=seen.box_px,
        occlusion=occlusion_level(visible),
        ignored_frame=np.zeros(0, dtype=int),
        ignored_box_px=np.zeros((0, 4)),
    )


MODES: dict[str, int] = {
    "yolov8s-320": 320,
    "yolov8s-384": 384,
    "yolov8s-512": 512,
    "yolov8s-640": 640,
}
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
                "a world needs 1 scene of 2 frames or more, and at most "
                f"{MOST_SCENES:,} of "
                f"{MOST_FRAMES:,}; found {quote(self.scenes)} of {quote(self.frames)}."
            )


class SceneParts:
    """Traffic and look of one scene, from which the Scene, the Truth and the detections
    follow.
    """

    def __init__(self, number: int, *, seed: int, settings: WorldSettings) -> None:
        self.unit, self.seed, self.number, self.settings = (
            unit_id(number),
            seed,
            number,
            settings,
        )
        # Steps of the golden ratio spread the kinds of streets evenly, however many
        # scenes there are.
        chance = (np.random.default_rng(seed).random() + number * GOLDEN) % 1.0
        self.drive: Drive = drive(
            settings.frames,
            settings=settings.traffic,
            chance=chance,
            rng=self.rng(TRAFFIC),
        )
        self.look: Look = look(self.rng(LOOK))
        self.camera = kitti_camera()

    def rng(self, part: int) -> np.random.Generator:
        """The random numbers of one part of the scene: they depend on seed, scene and
        part alone.
        """
        return np.random.default_rng(
            np.random.SeedSequence(self.seed, spawn_key=(self.number, part))
        )

    def truth(self) -> Truth:
        """The reference."""
        settings = self.settings.traffic
        dt_s = np.full(self.settings.frames, settings.dt_s)
        return truth_of(
            self.drive,
            self.unit,
            camera=self.camera,
            dt_s=dt_s,
            farthest_m=settings.farthest_m,
        )

    def scene(self, paths: Sequence[Path] | None = None) -> Scene:
        """The Scene; its pictures are the files `paths`, or are drawn on demand where
        there are none.
        """
        frames = self.settings.frames
        return Scene(
            unit=self.unit,
            frame_ids=np.array(
                [f"{frame:06d}" for frame in range(frames)], dtype="<U6"
            ),
            time_s=np.arange(frames) * self.settings.traffic.dt_s,
            ego_speed_mps=self.drive.speed_mps,
            cameras={"front": self.camera},
            image_paths=tuple(paths or ()),
            images=None
            if paths
            else pictures_of(self.drive, self.look, camera=self.camera),
        )

    @cached_property
    def detector_draw(self) -> Draw:
        """The detector's random draw on the visible objects, shared by all picture
        sizes.
        """
        return draw_detector(self, visible(self.truth()), self.rng(DETECTOR))


def draw_detector(parts: SceneParts, truth: Truth, rng: np.random.Generator) -> Draw:
    """A random draw of the detector on a scene, in its light and street."""
    profile, clutter = (
        shipped_profile(),
        parts.settings.traffic.streets[parts.drive.street].clutter,
    )
    conditions = conditions_of(parts.look, street=street(profile, rng), clutter=clutter)
    return draw(profile, parts.scene(), truth=truth, rng=rng, conditions=conditions)


def unit_id(number: int) -> str:
    """Id of a scene: scene-00, scene-01, ..."""
    return f"scene-{number:02d}"


def visible(truth: Truth) -> Truth:
    """The truth without hidden objects (level 3)."""
    return truth.where(truth.occlusion < 3)


@dataclass(frozen=True)
class Synthetic(Dataset):
    """The synthetic world of a seed.

    Attributes:
        root: Folder for the pictures; None: pictures are drawn at every access, in this
            process only.
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
        """Seed and settings; None where pictures are written, since no list names the
        existing ones.
        """
        return (
            None
            if self.root is not None
            else {"seed": self.seed, "settings": asdict(self.settings)}
        )

    def unit_ids(self) -> tuple[str, ...]:
        """scene-00, scene-01, ..."""
        return tuple(unit_id(number) for number in range(self.settings.scenes))

    def read_unit(self, unit: str) -> tuple[Scene, Truth]:
        """One scene, and its reference."""
        part = scene_of(self.seed, self.settings, unit)
        scene = part.scene()
        if self.root is not None:
            # A digest in the folder's name keeps the pictures of different worlds
            # apart.
            facts = repr(
                (self.seed, self.settings.frames, self.settings.traffic, VERSION)
            ).encode()
            folder = Path(self.root) / f"image_02-{sha256(facts)[:12]}"
            scene = part.scene(
                write_pictures(scene, folder / unit, ending=self.picture_format)
            )
        return scene, part.truth()


@dataclass(frozen=True)
class Simulated(ModeReader):
    """Detections of the simulated detector on the synthetic world at one picture
    size.
    """

    seed: int
    settings: WorldSettings
    size: int

    @property
    def scores(self) -> ScoreKind:
        """Its scores are probabilities."""
        return "probabilities"

    @property
    def definition(self) -> dict[str, Any]:
        """The settings behind the detections: part of a cell's id."""
        return {
            "source": "synthetic",
            "seed": self.seed,
            "settings": asdict(self.settings),
            "size": self.size,
        }

    def detections(self, scene: Scene, truth: Truth) -> Detections:
        """The detections on one scene."""
        return detections_at(
            scene_of(self.seed, self.settings, scene.unit).detector_draw, self.size
        )


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
