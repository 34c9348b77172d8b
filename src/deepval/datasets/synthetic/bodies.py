"""Road users and scenery as shaded solids: cars with cabins, windows and lights, walkers, cyclists, trees, houses."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deepval.arrays import Float
from deepval.datasets.synthetic.canvas import Canvas, fill_ellipse, fill_polygon, packed
from deepval.datasets.synthetic.look import Weather
from deepval.geometry.camera import Camera

GLASS, TYRE, DARK = np.array([44.0, 54.0, 64.0]), np.array([26.0, 26.0, 28.0]), np.array([40.0, 40.0, 42.0])
TAIL, HEAD, SKIN = np.array([190.0, 26.0, 24.0]), np.array([250.0, 246.0, 224.0]), np.array([196.0, 150.0, 122.0])
NEAREST_M = 0.4
HEADLIGHT_M = 32.0


@dataclass(frozen=True)
class Brush:
    """The camera and the light: how a colour looks at a distance.

    Colours keep `margin` from black and white and are packed less that margin: grain of 0 to twice the margin is added
    to the packed pixels in the end, and nothing overflows.
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

    def haze(self, distance_m: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
        """Share of the horizon's colour at a distance."""
        return 1 - np.exp(-np.maximum(distance_m, 0.0) / self.weather.sight_m)

    def lit(self, distance_m: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
        """Light on a thing at a distance: the day's, and the headlights' where it is dark."""
        beam = max(0.5 - self.weather.light, 0.0) * 1.6 * np.exp(-distance_m / HEADLIGHT_M)
        return (self.weather.light + beam) * self.brightness

    def pixel(self, rgb: Float[np.ndarray, "*batch 3"]) -> np.ndarray:
        """Colours as packed pixels."""
        return packed(np.clip(rgb - self.margin, 0, 255 - 2 * self.margin).astype(np.uint8))

    def colour(self, rgb: np.ndarray, distance_m: float, *, shade: float = 1.0, glows: bool = False) -> int:
        """A colour as it looks at a distance, as a packed pixel; lamps glow at night."""
        away = max(distance_m, 0.0)
        beam = max(0.5 - self.weather.light, 0.0) * 1.6 * math.exp(-away / HEADLIGHT_M)
        light = (self.weather.light + beam) * self.brightness
        haze = 1 - math.exp(-away / self.weather.sight_m)
        light, haze = (max(light, 0.9), 0.7 * haze) if glows else (light, haze)
        most = 255 - 2 * self.margin
        mixed = zip(rgb.tolist(), self.horizon.tolist(), strict=True)
        red, green, blue = (
            min(max(int(c * shade * light * (1 - haze) + h * haze) - self.margin, 0), most) for c, h in mixed
        )
        return red | green << 8 | blue << 16

    def pixels(self, points_m: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point 2"]:
        """Points in the picture; those behind the camera are moved just before it. The camera looks straight ahead."""
        ahead = points_m - self.camera.ego_from_cam[:3, 3]
        depth_m = np.maximum(ahead[:, 0], NEAREST_M)
        u = self.camera.cx_px - self.camera.fx_px * ahead[:, 1] / depth_m
        return np.stack([u, self.camera.cy_px - self.camera.fy_px * ahead[:, 2] / depth_m], axis=-1)


def solid(corners_m: Float[np.ndarray, "4 2"], low_m: float, high_m: float) -> Float[np.ndarray, "8 3"]:
    """The corners of a solid over a ground quadrilateral, between two heights."""
    bottom = np.column_stack([corners_m, np.full(4, low_m)])
    return np.concatenate([bottom, np.column_stack([corners_m, np.full(4, high_m)])])


def shrunk(corners_m: Float[np.ndarray, "4 2"], *, front: float, rear: float, side: float) -> Float[np.ndarray, "4 2"]:
    """A ground quadrilateral made smaller by shares of its length and width; corners 0, 1 are the front."""
    ahead, across = corners_m[0] - corners_m[3], corners_m[0] - corners_m[1]
    inward = np.array([[-front, -side], [-front, side], [rear, side], [rear, -side]])
    return corners_m + inward[:, :1] * ahead + inward[:, 1:] * across


def patch(face_px: Float[np.ndarray, "4 2"], area: tuple[float, float, float, float]) -> Float[np.ndarray, "4 2"]:
    """Part of a face (left bottom, right bottom, right top, left top): from (a, b) to (c, d) across and up."""
    a, b, c, d = area
    u, v = np.array([a, c, c, a])[:, None], np.array([b, b, d, d])[:, None]
    lb, rb, rt, lt = face_px
    return lb * (1 - u) * (1 - v) + rb * u * (1 - v) + rt * u * v + lt * (1 - u) * v


def faces(corners_m: Float[np.ndarray, "4 2"], eye_m: np.ndarray) -> list[int]:
    """The sides (from corner i to i + 1) that are turned to the eye, far to near."""
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
    """Paint the sides and the top that can be seen; gives the painted sides back for details."""
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
    picture: Canvas, corners_m: np.ndarray, height_m: float, *, kind: str, rgb: np.ndarray, brush: Brush, away: bool
) -> None:
    """A body on wheels with a cabin of glass, lamps at the ends; `away` says that its rear is turned to us."""
    distance = float(np.hypot(*corners_m.mean(axis=0)))
    z = brush.camera.road_z_m
    shadow = shrunk(corners_m, front=-0.05, rear=-0.05, side=-0.08)
    floor = brush.pixels(np.column_stack([shadow, np.full(4, z)]))
    fill_polygon(picture, floor, brush.colour(DARK, distance, shade=0.8))
    boxy = kind in ("Truck", "Bus", "Van", "Misc")
    belt = height_m * (0.6 if not boxy else 0.98)
    sides = paint_solid(picture, corners_m, (0.18 * height_m, belt), rgb=rgb, brush=brush, distance_m=distance)
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
            fill_polygon(picture, patch(face, (0.38, 0.3, 0.62, 0.42)), brush.colour(HEAD, distance, shade=0.8))
        elif boxy and kind != "Truck":
            fill_polygon(picture, patch(face, (0.05, 0.58, 0.95, 0.9)), dark)
        if side % 2 == 1:
            paint_wheels(picture, face, tyre)
    if not boxy:
        cabin = shrunk(corners_m, front=0.27, rear=0.1, side=0.09)
        over = paint_solid(picture, cabin, (belt, height_m), rgb=rgb, brush=brush, distance_m=distance)
        for _, face in over:
            fill_polygon(picture, patch(face, (0.07, 0.1, 0.93, 0.82)), dark)


def paint_wheels(picture: Canvas, face_px: np.ndarray, rgb: int) -> None:
    """Two wheels at the foot of a vehicle's side."""
    tall = abs(face_px[3, 1] - face_px[0, 1]) * 0.34
    narrow = min(1.0, abs(face_px[1, 0] - face_px[0, 0]) / max(abs(face_px[3, 1] - face_px[0, 1]) * 2.2, 1e-6))
    for place in (0.18, 0.82):
        u, v = face_px[0] * (1 - place) + face_px[1] * place
        fill_ellipse(picture, (float(u), float(v)), (tall * narrow, tall), rgb)


def paint_person(
    picture: Canvas, corners_m: np.ndarray, height_m: float, *, kind: str, rgb: np.ndarray, brush: Brush
) -> None:
    """A walker: legs, coat and head; a cyclist sits on two wheels."""
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
        for place in (-0.55, 0.55):
            fill_ellipse(picture, (u + place * wide, low - 0.19 * tall), (0.35 * wide, 0.19 * tall), trousers)
        lift = 0.12
    for leg in (-0.4, 0.08):
        fill_polygon(picture, box(leg, lift, leg + 0.32, 0.5), trousers)
    fill_polygon(picture, box(-0.5, 0.45, 0.5, 0.84), coat)
    fill_ellipse(picture, (u, low - 0.92 * tall), (0.075 * tall, 0.085 * tall), brush.colour(SKIN, distance))


def paint_windows(picture: Canvas, face_px: np.ndarray, *, height_m: float, rgb: int) -> None:
    """Rows of windows on a wall, where they are large enough to be seen."""
    wide, tall = abs(face_px[1, 0] - face_px[0, 0]), abs(face_px[3, 1] - face_px[0, 1])
    columns, rows = min(5, int(wide // 18)), min(int(height_m // 3), int(tall // 14))
    if not columns or not rows:
        return
    row, column = (grid.reshape(-1, 1) for grid in np.mgrid[:rows, :columns])
    u = ((column + np.array([0.28, 0.74, 0.74, 0.28])) / columns)[..., None]
    v = ((row + np.array([0.35, 0.35, 0.77, 0.77])) / rows)[..., None]
    lb, rb, rt, lt = face_px
    for window in lb * (1 - u) * (1 - v) + rb * u * (1 - v) + rt * u * v + lt * (1 - u) * v:
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
    """Paint one thing that stands on the road plane."""
    distance = float(np.hypot(*corners_m.mean(axis=0)))
    if kind == "tree":
        centre, z = corners_m.mean(axis=0), brush.camera.road_z_m
        (u, low), (_, high) = brush.pixels(np.array([[*centre, z], [*centre, z + height_m]]))
        tall = low - high
        trunk = np.array(
            [(u - 0.03 * tall, low), (u + 0.03 * tall, low), (u + 0.02 * tall, high), (u - 0.02 * tall, high)]
        )
        fill_polygon(picture, trunk, brush.colour(np.array([72.0, 56.0, 42.0]), distance))
        for shade, size, lift in ((0.8, 0.3, 0.62), (1.0, 0.24, 0.7)):
            leaves = brush.colour(rgb, distance, shade=shade)
            fill_ellipse(picture, (u, low - lift * tall), (size * tall, size * 1.15 * tall), leaves)
    elif kind == "building":
        sides = paint_solid(picture, corners_m, (0.0, height_m), rgb=rgb, brush=brush, distance_m=distance)
        glass = brush.colour(GLASS, distance)
        for _, face in sides:
            paint_windows(picture, face, height_m=height_m, rgb=glass)
    elif kind in ("Pedestrian", "Cyclist"):
        paint_person(picture, corners_m, height_m, kind=kind, rgb=rgb, brush=brush)
    else:
        paint_vehicle(picture, corners_m, height_m, kind=kind, rgb=rgb, brush=brush, away=not oncoming)
