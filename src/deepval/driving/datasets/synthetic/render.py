"""Traffic and look of a scene -> camera pictures: sky, road with lane marks, scenery
and shaded road users.

The shading is simple, but it shows what a detector needs: positions and sizes, light,
weather, haze and grain.
"""

import io
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload
from uuid import uuid4

import numpy as np

from deepval.basics.arrays import Bool, Float, Shaped
from deepval.basics.errors import InputError, library
from deepval.basics.files import reading
from deepval.basics.files.writing import write_atomically
from deepval.driving.datasets.synthetic.bodies import (
    WEATHERS,
    Brush,
    Look,
    pack,
    paint_body,
    unpack,
)
from deepval.driving.datasets.synthetic.traffic import LANE_M, Drive
from deepval.driving.geometry.camera import Camera
from deepval.driving.geometry.vehicle import ground_corners_m
from deepval.driving.world.scene import Scene

ASPHALT, PAVEMENT, GRASS, MARK = (
    (92, 92, 96),
    (138, 134, 128),
    (88, 112, 66),
    (218, 218, 210),
)
D_STEP_M, D_REACH_M = 0.08, 24.0
DASH_M, DASH_EVERY_M = 4.0, 10.0
SCENERY_REACH_M = 130.0
CAR_PAINTS = (
    (32, 34, 40),
    (176, 178, 182),
    (224, 224, 222),
    (120, 24, 28),
    (34, 58, 112),
    (92, 96, 102),
    (60, 84, 66),
)
CLOTHES = (
    (150, 46, 44),
    (44, 62, 120),
    (52, 52, 56),
    (196, 176, 120),
    (70, 110, 74),
    (110, 70, 110),
)
WALLS = (
    (168, 146, 122),
    (150, 104, 86),
    (186, 180, 170),
    (128, 130, 136),
    (196, 174, 138),
)


class Ground(NamedTuple):
    """Every pixel below the horizon on the road plane: rows from `top` on, range per
    row, lateral offset per pixel.
    """

    top: int
    x_m: Float[np.ndarray, "row"]
    y_m: Float[np.ndarray, "row column"]


class Scenery(NamedTuple):
    """Buildings and trees beside the road: position, size and colour; `tree` marks the
    trees.
    """

    s_m: Float[np.ndarray, "piece"]
    d_m: Float[np.ndarray, "piece"]
    size_m: Float[np.ndarray, "piece 3"]
    rgb: Float[np.ndarray, "piece 3"]
    tree: np.ndarray


def ground_of(camera: Camera) -> Ground:
    """The road plane under each pixel."""
    width, height = camera.width_px or 1242, camera.height_px or 375
    top = int(np.ceil(camera.cy_px + 2.0))
    depth_m = (
        camera.fy_px * camera.height_m / (np.arange(top, height) + 0.5 - camera.cy_px)
    )
    sideways = -(np.arange(width) + 0.5 - camera.cx_px) / camera.fx_px
    t_x, t_y = camera.ego_from_cam[0, 3], camera.ego_from_cam[1, 3]
    y_m = depth_m[:, None] * sideways + t_y
    return Ground(top, (depth_m + t_x).astype(np.float32), y_m.astype(np.float32))


def road_colours(
    street: str,
) -> tuple[Float[np.ndarray, "step 3"], Bool[np.ndarray, "step"]]:
    """Colour of the ground by d, and where the dashed middle line lies."""
    d = np.arange(-D_REACH_M, D_REACH_M, D_STEP_M)
    right, left = -0.75 * LANE_M - 1.6, 1.75 * LANE_M + 1.6
    if street == "country":
        right, left = -0.5 * LANE_M - 0.6, 1.5 * LANE_M + 0.6
    rgb = np.tile(np.array(GRASS, dtype=float), (len(d), 1))
    if street != "country":
        rgb[(d > right - 3.5) & (d < left + 3.5)] = PAVEMENT
    rgb[(d > right) & (d < left)] = ASPHALT
    for edge in (right, left):
        rgb[np.abs(d - edge) < 0.08] = (70, 70, 72) if street != "country" else MARK
    return rgb, np.abs(d - LANE_M / 2) < 0.09


def scenery_of(drive: Drive, seed: int) -> Scenery:
    """Buildings in town, trees everywhere, on both sides."""
    rng = np.random.default_rng(seed)
    span = drive.s_m[-1] + SCENERY_REACH_M
    town = drive.street != "country"
    parts = []
    for side in (-1, 1):
        edge = side * (7.5 if town else 9.0) + (LANE_M / 2 if side > 0 else 0.0)
        start_m = -10.0
        while start_m < span:
            tree = rng.random() < (0.35 if town else 0.9)
            length = rng.uniform(1.5, 3.0) if tree else rng.uniform(8, 22)
            height = rng.uniform(3.5, 8.0) if tree else rng.uniform(5, 13)
            away = edge + side * (
                rng.uniform(0, 3) if tree else 4.0 + rng.uniform(0, 2)
            )
            wall = np.array(WALLS[int(rng.integers(len(WALLS)))], dtype=float)
            rgb = np.array([58, 84, 46]) * rng.uniform(0.75, 1.2) if tree else wall
            parts.append(
                (
                    start_m + length / 2,
                    away,
                    length,
                    3.0 if tree else 7.0,
                    height,
                    *rgb,
                    tree,
                )
            )
            start_m += length + (rng.uniform(0, 6) if town else rng.uniform(4, 22))
    table = np.array(parts, dtype=float)
    return Scenery(
        table[:, 0], table[:, 1], table[:, 2:5], table[:, 5:8], table[:, 8] > 0
    )


def ground_pixels(
    ground: Ground,
    drive: Drive,
    frame: int,
    *,
    colours: np.ndarray,
    dashed: np.ndarray,
    brush: Brush,
) -> np.ndarray:
    """The ground of one frame: lane marks follow the curve and move with the driven
    distance.
    """
    shift = (drive.d_m[frame] - drive.curvature_per_m * ground.x_m**2 / 2).astype(
        np.float32
    )
    step = (
        (ground.y_m + (shift[:, None] + np.float32(D_REACH_M)))
        * np.float32(1 / D_STEP_M)
    ).astype(np.int32)
    np.clip(step, 0, len(colours) - 1, out=step)
    along = ground.x_m + drive.s_m[frame]
    # Rough asphalt: brightness changes along the road, so that motion is visible.
    rough = 1.0 + 0.05 * np.sin(along * 2.1) * np.sin(along * 0.37)
    rough = rough * brush.lit(ground.x_m)
    haze = brush.haze(ground.x_m)
    table = (
        colours[None] * (rough * (1 - haze))[:, None, None]
        + brush.horizon * haze[:, None, None]
    )
    mark = (
        np.array(MARK) * (rough * (1 - haze))[:, None] + brush.horizon * haze[:, None]
    )
    lit = (along % DASH_EVERY_M) < DASH_M
    table[:, dashed] = np.where(lit[:, None, None], mark[:, None], table[:, dashed])
    step += (np.arange(len(step)) * len(colours))[:, None]
    return brush.pixel(table).take(step)


def sky_of(brush: Brush, *, top: int) -> np.ndarray:
    """The sky above the horizon, from its colour overhead to the horizon's colour, as
    packed pixels.
    """
    share = (np.arange(top) / top)[:, None] ** 1.5
    rgb = (
        np.array(brush.weather.sky) * brush.brightness * (1 - share)
        + brush.horizon * share
    )
    return np.repeat(brush.pixel(rgb)[:, None], brush.camera.width_px or 1242, axis=1)


class Upright(NamedTuple):
    """Bodies on the road plane in one frame, far to near: ground corners, height, kind
    and colour.
    """

    corners_m: Float[np.ndarray, "thing 4 2"]
    height_m: Float[np.ndarray, "thing"]
    kind: list[str]
    rgb: Float[np.ndarray, "thing 3"]
    oncoming: np.ndarray


def bodies_ahead(
    drive: Drive, frame: int, *, scenery: Scenery, paint: np.ndarray
) -> Upright:
    """Scenery and road users ahead in the ego frame, far to near."""
    actors = drive.actors
    s = np.concatenate([scenery.s_m, actors.s_m[:, frame]]) - drive.s_m[frame]
    d = np.concatenate([scenery.d_m, actors.d_m[:, frame]]) - drive.d_m[frame]
    size_m = np.concatenate([scenery.size_m, actors.size_m])
    heading = np.concatenate([np.zeros(len(scenery.s_m)), actors.heading_rad[:, frame]])
    kind = np.concatenate([np.where(scenery.tree, "tree", "building"), actors.cls])
    rgb = np.concatenate([scenery.rgb, paint])
    y, yaw = d + drive.curvature_per_m * s**2 / 2, heading + drive.curvature_per_m * s
    corners_m = ground_corners_m(np.stack([s, y], axis=-1), size_m[:, :2], yaw_rad=yaw)
    keep = np.flatnonzero((corners_m[..., 0].max(axis=1) > 2.0) & (s < SCENERY_REACH_M))
    distance = np.hypot(*np.moveaxis(corners_m, -1, 0)).min(axis=1)
    order = keep[np.argsort(-distance[keep], kind="stable")]
    oncoming = np.cos(heading) < 0
    return Upright(
        corners_m[order],
        size_m[order, 2],
        [str(kind[i]) for i in order],
        rgb[order],
        oncoming[order],
    )


def paints(drive: Drive, rng: np.random.Generator) -> Float[np.ndarray, "actor 3"]:
    """A colour for each road user."""
    person = np.isin(drive.actors.cls, ["Pedestrian", "Cyclist"])
    cars, clothes = np.array(CAR_PAINTS, dtype=float), np.array(CLOTHES, dtype=float)
    count = len(person)
    chosen = cars[rng.integers(len(cars), size=count)]
    chosen[person] = clothes[rng.integers(len(clothes), size=count)][person]
    return chosen * rng.uniform(0.85, 1.12, (count, 1))


def painter(drive: Drive, look: Look, *, camera: Camera) -> Callable[[int], np.ndarray]:
    """A function that draws the picture of a frame; the same frame always looks the
    same.
    """
    weather = WEATHERS[look.weather]
    cache: dict[str, tuple] = {}

    def parts_of_scene() -> tuple:
        rng = np.random.default_rng([look.scenery, 1])
        ground = ground_of(camera)
        brush = Brush(camera, weather, look.brightness)
        sky = sky_of(brush, top=ground.top)
        tile = np.rint(rng.normal(0, weather.grain, (128, 512))).clip(
            -brush.margin, brush.margin
        )
        grain = pack(np.repeat(tile[..., None] + brush.margin, 3, axis=-1))
        repeats = (
            -(-(camera.height_px or 375) // 128),
            -(-((camera.width_px or 1242) + 256) // 512),
        )
        return (
            ground,
            brush,
            sky,
            *road_colours(drive.street),
            scenery_of(drive, look.scenery),
            paints(drive, rng),
            np.tile(grain, repeats)[: camera.height_px or 375],
        )

    def draw(frame: int) -> np.ndarray:
        if not cache:
            cache["parts"] = parts_of_scene()
        ground, brush, sky, colours, dashed, scenery, paint, grain = cache["parts"]
        floor = ground_pixels(
            ground, drive, frame, colours=colours, dashed=dashed, brush=brush
        )
        picture = np.concatenate([sky, floor])
        things = bodies_ahead(drive, frame, scenery=scenery, paint=paint)
        for index, kind in enumerate(things.kind):
            paint_body(
                picture,
                things.corners_m[index],
                things.height_m[index],
                kind=kind,
                rgb=things.rgb[index],
                oncoming=bool(things.oncoming[index]),
                brush=brush,
            )
        offset = (frame * 97) % 256
        # Colours keep the grain's margin from 0 and 255, so no byte of a packed pixel
        # overflows.
        return unpack(picture + grain[:, offset : offset + picture.shape[1]])

    return draw


ENDINGS = ("jpg", "png")
_painters: dict[str, Callable[[int], np.ndarray]] = {}


class Pictures(Sequence[Any]):
    """Frames as arrays (height, width, RGB, uint8), drawn at every access."""

    __slots__ = ("__weakref__", "_frames", "_ticket")

    def __init__(self, ticket: str, frames: int) -> None:
        self._ticket, self._frames = ticket, frames

    def __len__(self) -> int:
        return self._frames

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self[frame] for frame in range(*index.indices(self._frames))]
        frame = int(index) + (self._frames if index < 0 else 0)
        if not 0 <= frame < self._frames:
            raise IndexError(
                f"a frame must lie in 0 to {self._frames - 1}; found {index}"
            )
        if self._ticket not in _painters:
            raise InputError(
                "pictures drawn on demand exist only in the process that created the "
                "world; write them to files: open_dataset('synthetic', folder)."
            )
        return _painters[self._ticket](frame)


def pictures_of(drive: Drive, look: Look, *, camera: Camera) -> Pictures:
    """A scene's pictures, drawn on demand."""
    ticket = uuid4().hex
    _painters[ticket] = painter(drive, look, camera=camera)
    pictures = Pictures(ticket, len(drive.speed_mps))
    weakref.finalize(pictures, _painters.pop, ticket, None)
    return pictures


def write_picture(picture: Shaped[np.ndarray, "height width 3"], path: Path) -> None:
    """Write a picture as PNG or JPEG (quality 92), whole or not at all."""
    out = io.BytesIO()
    kind, options = ("JPEG", {"quality": 92}) if path.suffix == ".jpg" else ("PNG", {})
    library("PIL.Image").fromarray(picture).save(out, kind, **options)
    write_atomically(path, out.getvalue())


def write_pictures(scene: Scene, folder: Path, *, ending: str = "jpg") -> list[Path]:
    """Write a scene's pictures as folder/<frame id>.<ending>; existing files stay."""
    if ending not in ENDINGS:
        raise InputError(
            f"pictures are written as {' or '.join(ENDINGS)}; found {ending!r}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{frame_id}.{ending}" for frame_id in scene.frame_ids]
    for frame, path in enumerate(paths):
        picture = scene.image_source(frame) if not reading.exists(path) else None
        if isinstance(picture, np.ndarray):
            write_picture(picture, path)
    return paths
