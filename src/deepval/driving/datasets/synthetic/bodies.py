"""Road users and scenery as shaded solids: cars with cabins, windows and lights,
walkers, cyclists, trees, houses.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.driving.geometry.camera import Camera

RGB = tuple[float, float, float]


class Weather(NamedTuple):
    """A kind of light or weather: frequency, colours of sky and horizon, light on the
    ground, sight, noise.

    `shift`, `haze_per_m` and `phantoms` are its effects on a detector's latent scores
    and phantoms.
    """

    share: float
    sky: RGB
    horizon: RGB
    light: float
    sight_m: float
    grain: float
    shift: float
    haze_per_m: float
    phantoms: float


WEATHERS: dict[str, Weather] = {
    "sun": Weather(
        0.42, (96, 148, 214), (196, 216, 232), 1.0, 900.0, 2.0, 0.1, 0.0, 1.0
    ),
    "cloud": Weather(
        0.26, (150, 160, 172), (200, 205, 210), 0.8, 500.0, 2.5, 0.0, 0.0, 0.9
    ),
    "rain": Weather(
        0.12, (112, 120, 130), (150, 156, 164), 0.55, 160.0, 5.0, -0.3, 0.006, 1.3
    ),
    "fog": Weather(
        0.08, (182, 186, 190), (190, 194, 198), 0.75, 55.0, 3.0, -0.2, 0.016, 0.8
    ),
    "dusk": Weather(
        0.07, (70, 72, 104), (206, 140, 96), 0.42, 350.0, 5.0, -0.35, 0.0, 1.2
    ),
    "night": Weather(
        0.05, (12, 14, 24), (26, 28, 40), 0.2, 250.0, 5.0, -0.7, 0.004, 1.5
    ),
}


class Look(NamedTuple):
    """A scene's weather, its brightness and the seed of its scenery."""

    weather: str
    brightness: float
    scenery: int


def look(rng: np.random.Generator) -> Look:
    """A scene's light and weather."""
    names = list(WEATHERS)
    share = np.array([WEATHERS[name].share for name in names])
    name = names[int(np.searchsorted(np.cumsum(share / share.sum()), rng.random()))]
    return Look(name, float(rng.uniform(0.88, 1.1)), int(rng.integers(2**31)))


Canvas = Shaped[np.ndarray, "height width"]
FEW_ROWS = 12


def pack(rgb: Shaped[np.ndarray, "*batch 3"]) -> Shaped[np.ndarray, "*batch"]:
    """Colours of whole numbers in 0 to 255 as packed pixels."""
    red, green, blue = np.moveaxis(np.asarray(rgb, dtype=np.uint32), -1, 0)
    return red | green << 8 | blue << 16


def unpack(canvas: Canvas) -> Shaped[np.ndarray, "height width 3"]:
    """A canvas as a picture: height, width, RGB, uint8."""
    little = np.ascontiguousarray(canvas, dtype="<u4")
    return np.ascontiguousarray(
        little.view(np.uint8).reshape(*canvas.shape, 4)[..., :3]
    )


def fill_spans(
    canvas: Canvas,
    top: int,
    *,
    left_px: Float[np.ndarray, "row"],
    right_px: Float[np.ndarray, "row"],
    colour: int,
) -> None:
    """Fill the pixels whose middle lies between left and right, in rows from `top`
    on.
    """
    width = canvas.shape[1]
    first = np.ceil(np.maximum(left_px, 0.0) - 0.5).astype(int)
    last = np.ceil(np.minimum(right_px, width) - 0.5).astype(int)
    for row, (begin, end) in enumerate(
        zip(first.tolist(), last.tolist(), strict=True), start=top
    ):
        if end > begin:
            canvas[row, begin:end] = colour


def fill_few_rows(
    canvas: Canvas, corners: list[list[float]], low: int, high: int, *, colour: int
) -> None:
    """Fill a convex polygon row by row in plain Python, which is faster than NumPy for
    few rows.
    """
    width = canvas.shape[1]
    for row in range(low, high):
        y, left, right = row + 0.5, float(width), 0.0
        for (x0, y0), (x1, y1) in pairwise([*corners, corners[0]]):
            if y0 != y1 and min(y0, y1) <= y <= max(y0, y1):
                x = x0 + (y - y0) * ((x1 - x0) / (y1 - y0))
                left, right = min(left, x), max(right, x)
        begin, end = math.ceil(max(left, 0.0) - 0.5), math.ceil(min(right, width) - 0.5)
        if end > begin:
            canvas[row, begin:end] = colour


def fill_polygon(
    canvas: Canvas, points_px: Float[np.ndarray, "point 2"], colour: int
) -> None:
    """Fill a convex polygon, row by row between its leftmost and rightmost edge."""
    height, width = canvas.shape
    corners = points_px.tolist()
    across, down = zip(*corners, strict=True)
    low, high = (
        max(math.ceil(min(down) - 0.5), 0),
        min(math.ceil(max(down) - 0.5), height),
    )
    if high <= low or max(across) < 0 or min(across) >= width:
        return
    if high - low <= FEW_ROWS:
        fill_few_rows(canvas, corners, low, high, colour=colour)
        return
    y = np.arange(low, high) + 0.5
    left, right = np.full(len(y), float(width)), np.zeros(len(y))
    for (x0, y0), (x1, y1) in pairwise([*corners, corners[0]]):
        first = max(math.ceil(min(y0, y1) - 0.5) - low, 0)
        last = min(math.floor(max(y0, y1) - 0.5) + 1 - low, len(y))
        if y0 != y1 and last > first:
            x = x0 + (y[first:last] - y0) * ((x1 - x0) / (y1 - y0))
            np.minimum(left[first:last], x, out=left[first:last])
            np.maximum(right[first:last], x, out=right[first:last])
    fill_spans(canvas, low, left_px=left, right_px=right, colour=colour)


def fill_ellipse(
    canvas: Canvas,
    centre_px: tuple[float, float],
    radius_px: tuple[float, float],
    colour: int,
) -> None:
    """Fill an upright ellipse."""
    (u, v), (a, b) = centre_px, (max(radius_px[0], 0.3), max(radius_px[1], 0.3))
    height, width = canvas.shape
    low, high = max(math.ceil(v - b - 0.5), 0), min(math.ceil(v + b - 0.5), height)
    if high <= low or u + a < 0 or u - a >= width:
        return
    half = a * np.sqrt(np.maximum(1 - ((np.arange(low, high) + 0.5 - v) / b) ** 2, 0.0))
    fill_spans(canvas, low, left_px=u - half, right_px=u + half, colour=colour)


GLASS, TYRE, DARK = (
    np.array([44.0, 54.0, 64.0]),
    np.array([26.0, 26.0, 28.0]),
    np.array([40.0, 40.0, 42.0]),
)
TAIL, HEAD, SKIN = (
    np.array([190.0, 26.0, 24.0]),
    np.array([250.0, 246.0, 224.0]),
    np.array([196.0, 150.0, 122.0]),
)
NEAREST_M = 0.4
HEADLIGHT_M = 32.0


@dataclass(frozen=True)
class Brush:
    """The camera and the light: the look of a colour at a distance.

    Colours stay `margin` away from black and white, and are packed with that margin
    subtracted. Grain of 0 to twice the margin is added to the packed pixels at the end,
    so no byte overflows.
    """

    camera: Camera
    weather: Weather
    brightness: float

    @cached_property
    def margin(self) -> int:
        """Largest grain."""
        return int(np.ceil(3 * self.weather.grain))

    @cached_property
    def horizon(self) -> np.ndarray:
        """Colour of the horizon, towards which haze fades everything."""
        return np.array(self.weather.horizon) * self.brightness

    def haze(
        self, distance_m: Float[np.ndarray, "*batch"]
    ) -> Float[np.ndarray, "*batch"]:
        """Share of the horizon's colour at a distance."""
        return 1 - np.exp(-np.maximum(distance_m, 0.0) / self.weather.sight_m)

    def lit(
        self, distance_m: Float[np.ndarray, "*batch"]
    ) -> Float[np.ndarray, "*batch"]:
        """Light on a body at a distance: daylight, and headlights where it is dark."""
        beam = (
            max(0.5 - self.weather.light, 0.0) * 1.6 * np.exp(-distance_m / HEADLIGHT_M)
        )
        return (self.weather.light + beam) * self.brightness

    def pixel(self, rgb: Float[np.ndarray, "*batch 3"]) -> np.ndarray:
        """Colours as packed pixels."""
        return pack(
            np.clip(rgb - self.margin, 0, 255 - 2 * self.margin).astype(np.uint8)
        )

    def colour(
        self,
        rgb: np.ndarray,
        distance_m: float,
        *,
        shade: float = 1.0,
        glows: bool = False,
    ) -> int:
        """A colour as it looks at a distance, as a packed pixel; lamps glow at
        night.
        """
        away = max(distance_m, 0.0)
        beam = max(0.5 - self.weather.light, 0.0) * 1.6 * math.exp(-away / HEADLIGHT_M)
        light = (self.weather.light + beam) * self.brightness
        haze = 1 - math.exp(-away / self.weather.sight_m)
        light, haze = (max(light, 0.9), 0.7 * haze) if glows else (light, haze)
        most = 255 - 2 * self.margin
        mixed = zip(rgb.tolist(), self.horizon.tolist(), strict=True)
        red, green, blue = (
            min(
                max(int(c * shade * light * (1 - haze) + h * haze) - self.margin, 0),
                most,
            )
            for c, h in mixed
        )
        return red | green << 8 | blue << 16

    def pixels(
        self, points_m: Float[np.ndarray, "point 3"]
    ) -> Float[np.ndarray, "point 2"]:
        """Points in the picture; those behind the camera are moved just in front.

        The camera looks straight ahead.
        """
        ahead = points_m - self.camera.ego_from_cam[:3, 3]
        depth_m = np.maximum(ahead[:, 0], NEAREST_M)
        u = self.camera.cx_px - self.camera.fx_px * ahead[:, 1] / depth_m
        return np.stack(
            [u, self.camera.cy_px - self.camera.fy_px * ahead[:, 2] / depth_m], axis=-1
        )


def solid(
    corners_m: Float[np.ndarray, "4 2"], low_m: float, high_m: float
) -> Float[np.ndarray, "8 3"]:
    """The corners of a solid over a ground quadrilateral, between two heights."""
    bottom = np.column_stack([corners_m, np.full(4, low_m)])
    return np.concatenate([bottom, np.column_stack([corners_m, np.full(4, high_m)])])


def inset(
    corners_m: Float[np.ndarray, "4 2"], *, front: float, rear: float, side: float
) -> Float[np.ndarray, "4 2"]:
    """A ground quadrilateral reduced by shares of its length and width; corners 0 and 1
    are the front.
    """
    ahead, across = corners_m[0] - corners_m[3], corners_m[0] - corners_m[1]
    inward = np.array([[-front, -side], [-front, side], [rear, side], [rear, -side]])
    return corners_m + inward[:, :1] * ahead + inward[:, 1:] * across


def patch(
    face_px: Float[np.ndarray, "4 2"], area: tuple[float, float, float, float]
) -> Float[np.ndarray, "4 2"]:
    """Part of a face (left bottom, right bottom, right top, left top): from (a, b) to
    (c, d) across and up.
    """
    a, b, c, d = area
    u, v = np.array([a, c, c, a])[:, None], np.array([b, b, d, d])[:, None]
    lb, rb, rt, lt = face_px
    return lb * (1 - u) * (1 - v) + rb * u * (1 - v) + rt * u * v + lt * (1 - u) * v


def faces(corners_m: Float[np.ndarray, "4 2"], eye_m: np.ndarray) -> list[int]:
    """The sides (from corner i to i + 1) that face the eye, far to near."""
    ahead = np.roll(corners_m, -1, axis=0)
    edge, centre = ahead - corners_m, corners_m.mean(axis=0)
    normal = np.column_stack([edge[:, 1], -edge[:, 0]])
    middle = (corners_m + ahead) / 2
    normal *= np.sign((normal * (middle - centre)).sum(axis=1))[:, None]
    turned = ((eye_m - middle) * normal).sum(axis=1) > 0
    return [int(i) for i in np.argsort(-np.hypot(*(middle - eye_m).T)) if turned[i]]


def paint_solid(
    picture: Canvas,
    corners_m: Float[np.ndarray, "4 2"],
    heights_m: tuple[float, float],
    *,
    rgb: np.ndarray,
    brush: Brush,
    distance_m: float,
) -> list[tuple[int, Float[np.ndarray, "4 2"]]]:
    """Paint the visible sides and the visible top; returns the painted sides, for
    details.
    """
    z = brush.camera.road_z_m
    pixel = brush.pixels(solid(corners_m, z + heights_m[0], z + heights_m[1]))
    eye = brush.camera.ego_from_cam[:3, 3]
    if eye[2] > z + heights_m[1]:
        fill_polygon(picture, pixel[4:], brush.colour(rgb, distance_m, shade=1.15))
    painted = []
    for side in faces(corners_m, eye[:2]):
        other = (side + 1) % 4
        face = pixel[[side, other, other + 4, side + 4]]
        shade = (0.86, 0.7, 0.92, 0.78)[side]
        fill_polygon(picture, face, brush.colour(rgb, distance_m, shade=shade))
        painted.append((side, face))
    return painted


def paint_vehicle(
    picture: Canvas,
    corners_m: np.ndarray,
    height_m: float,
    *,
    kind: str,
    rgb: np.ndarray,
    brush: Brush,
    away: bool,
) -> None:
    """Paint a body on wheels with a cabin of glass and lamps at the ends; `away`: its
    rear faces the camera.
    """
    distance = float(np.hypot(*corners_m.mean(axis=0)))
    z = brush.camera.road_z_m
    shadow = inset(corners_m, front=-0.05, rear=-0.05, side=-0.08)
    floor = brush.pixels(np.column_stack([shadow, np.full(4, z)]))
    fill_polygon(picture, floor, brush.colour(DARK, distance, shade=0.8))
    boxy = kind in ("Truck", "Bus", "Van", "Misc")
    belt = height_m * (0.6 if not boxy else 0.98)
    sides = paint_solid(
        picture,
        corners_m,
        (0.18 * height_m, belt),
        rgb=rgb,
        brush=brush,
        distance_m=distance,
    )
    dark, tyre = brush.colour(GLASS, distance), brush.colour(TYRE, distance)
    lamp = brush.colour(TAIL if away else HEAD, distance, glows=True)
    for side, face in sides:
        if side % 2 == 0:
            fill_polygon(picture, patch(face, (0.02, 0.0, 0.98, 0.16)), tyre)
            for area in ((0.03, 0.52, 0.2, 0.8), (0.8, 0.52, 0.97, 0.8)):
                low, high = (0.35, 0.5) if boxy else (area[1], area[3])
                fill_polygon(picture, patch(face, (area[0], low, area[2], high)), lamp)
            if boxy:
                fill_polygon(picture, patch(face, (0.1, 0.6, 0.9, 0.92)), dark)
            fill_polygon(
                picture,
                patch(face, (0.38, 0.3, 0.62, 0.42)),
                brush.colour(HEAD, distance, shade=0.8),
            )
        elif boxy and kind != "Truck":
            fill_polygon(picture, patch(face, (0.05, 0.58, 0.95, 0.9)), dark)
        if side % 2 == 1:
            paint_wheels(picture, face, tyre)
    if not boxy:
        cabin = inset(corners_m, front=0.27, rear=0.1, side=0.09)
        over = paint_solid(
            picture, cabin, (belt, height_m), rgb=rgb, brush=brush, distance_m=distance
        )
        for _, face in over:
            fill_polygon(picture, patch(face, (0.07, 0.1, 0.93, 0.82)), dark)


def paint_wheels(picture: Canvas, face_px: np.ndarray, rgb: int) -> None:
    """Paint two wheels at the foot of a vehicle's side."""
    tall = abs(face_px[3, 1] - face_px[0, 1]) * 0.34
    narrow = min(
        1.0,
        abs(face_px[1, 0] - face_px[0, 0])
        / max(abs(face_px[3, 1] - face_px[0, 1]) * 2.2, 1e-6),
    )
    for share in (0.18, 0.82):
        u, v = face_px[0] * (1 - share) + face_px[1] * share
        fill_ellipse(picture, (float(u), float(v)), (tall * narrow, tall), rgb)


def paint_person(
    picture: Canvas,
    corners_m: np.ndarray,
    height_m: float,
    *,
    kind: str,
    rgb: np.ndarray,
    brush: Brush,
) -> None:
    """Paint a pedestrian (legs, coat and head) or a cyclist (the same on two
    wheels).
    """
    distance = float(np.hypot(*corners_m.mean(axis=0)))
    centre, z = corners_m.mean(axis=0), brush.camera.road_z_m
    span = corners_m[:, 1].max() - corners_m[:, 1].min()
    ends = np.array([[*centre, z], [*centre, z + height_m]])
    (u, low), (_, high) = brush.pixels(ends)
    tall = low - high
    wide = max(brush.camera.fx_px * span / max(centre[0], 1.0) * 0.5, 0.12 * tall)
    trousers, coat = brush.colour(DARK, distance), brush.colour(rgb, distance)

    def box(left: float, bottom: float, right: float, top: float) -> np.ndarray:
        corner = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
        return np.column_stack([u + corner[:, 0] * wide, low - corner[:, 1] * tall])

    lift = 0.0
    if kind == "Cyclist":
        for offset in (-0.55, 0.55):
            fill_ellipse(
                picture,
                (u + offset * wide, low - 0.19 * tall),
                (0.35 * wide, 0.19 * tall),
                trousers,
            )
        lift = 0.12
    for leg in (-0.4, 0.08):
        fill_polygon(picture, box(leg, lift, leg + 0.32, 0.5), trousers)
    fill_polygon(picture, box(-0.5, 0.45, 0.5, 0.84), coat)
    fill_ellipse(
        picture,
        (u, low - 0.92 * tall),
        (0.075 * tall, 0.085 * tall),
        brush.colour(SKIN, distance),
    )


def paint_windows(
    picture: Canvas, face_px: np.ndarray, *, height_m: float, rgb: int
) -> None:
    """Paint rows of windows on a wall, where they are large enough to be visible."""
    wide, tall = abs(face_px[1, 0] - face_px[0, 0]), abs(face_px[3, 1] - face_px[0, 1])
    columns, rows = min(5, int(wide // 18)), min(int(height_m // 3), int(tall // 14))
    if not columns or not rows:
        return
    row, column = (grid.reshape(-1, 1) for grid in np.mgrid[:rows, :columns])
    u = ((column + np.array([0.28, 0.74, 0.74, 0.28])) / columns)[..., None]
    v = ((row + np.array([0.35, 0.35, 0.77, 0.77])) / rows)[..., None]
    lb, rb, rt, lt = face_px
    for window in (
        lb * (1 - u) * (1 - v) + rb * u * (1 - v) + rt * u * v + lt * (1 - u) * v
    ):
        fill_polygon(picture, window, rgb)


def paint_body(
    picture: Canvas,
    corners_m: Float[np.ndarray, "4 2"],
    height_m: float,
    *,
    kind: str,
    rgb: Float[np.ndarray, "3"],
    oncoming: bool,
    brush: Brush,
) -> None:
    """Paint one body on the road plane."""
    distance = float(np.hypot(*corners_m.mean(axis=0)))
    if kind == "tree":
        centre, z = corners_m.mean(axis=0), brush.camera.road_z_m
        (u, low), (_, high) = brush.pixels(
            np.array([[*centre, z], [*centre, z + height_m]])
        )
        tall = low - high
        trunk = np.array(
            [
                (u - 0.03 * tall, low),
                (u + 0.03 * tall, low),
                (u + 0.02 * tall, high),
                (u - 0.02 * tall, high),
            ]
        )
        fill_polygon(
            picture, trunk, brush.colour(np.array([72.0, 56.0, 42.0]), distance)
        )
        for shade, size, lift in ((0.8, 0.3, 0.62), (1.0, 0.24, 0.7)):
            leaves = brush.colour(rgb, distance, shade=shade)
            fill_ellipse(
                picture,
                (u, low - lift * tall),
                (size * tall, size * 1.15 * tall),
                leaves,
            )
    elif kind == "building":
        sides = paint_solid(
            picture,
            corners_m,
            (0.0, height_m),
            rgb=rgb,
            brush=brush,
            distance_m=distance,
        )
        glass = brush.colour(GLASS, distance)
        for _, face in sides:
            paint_windows(picture, face, height_m=height_m, rgb=glass)
    elif kind in ("Pedestrian", "Cyclist"):
        paint_person(picture, corners_m, height_m, kind=kind, rgb=rgb, brush=brush)
    else:
        paint_vehicle(
            picture,
            corners_m,
            height_m,
            kind=kind,
            rgb=rgb,
            brush=brush,
            away=not oncoming,
        )
