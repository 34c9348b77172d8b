"""Observed objects of one frame -> tracks in plain numbers, nearest first, in one canonical order.

A gap is the way from the ego's front to the object's near face, 0 where it reaches beside or across the front; the
front is the ego origin where nobody says how large the ego is. The order in which objects are reported never matters.
"""

from collections.abc import Iterable
from math import hypot, inf, isnan
from typing import NamedTuple

from deepval.errors import InputError
from deepval.features.quantities import BRAKING
from deepval.geometry.classes import SUPER_CLASS
from deepval.geometry.vehicle import Vehicle
from deepval.world.objects import Objects

KINDS = ("vehicle", "person", "cyclist", "static")
CODE_OF_KIND = {kind: code for code, kind in enumerate(KINDS)}
CODE_OF_CLASS = {name: CODE_OF_KIND[kind] for name, kind in SUPER_CLASS.items()} | {"": -1}
"""The place of each class's kind in KINDS; an object of unknown class is of no kind."""


class SeenTrack(NamedTuple):
    """An observed object.

    `distance_m` is that of its centre (x, y) from the ego's, `velocity` its own, NaN where it is not known; `gap_m` is
    infinite where the object does not reach beyond the ego's front, `aside_m` the distance of its nearer side from the
    middle of the ego, `id` -1 where it has none.
    """

    distance_m: float
    x_m: float
    y_m: float
    length_m: float
    width_m: float
    kind: int
    vx_mps: float
    vy_mps: float
    gap_m: float
    aside_m: float
    closing_mps: float
    id: int


def tracks_of(objects: Objects, vehicle: Vehicle | None, *, ego_speed_mps: float) -> tuple[SeenTrack, ...]:
    """The objects of one frame, nearest first.

    Closing speed = ego speed - the object's own forward speed; where that is not known the closing speed that was
    reported, and ego speed where none was.
    """
    centre_m, front_m = (0.0, 0.0) if vehicle is None else (vehicle.centre_m, vehicle.front_m)
    columns = (objects.corners_m, objects.velocity_mps, objects.closing_mps, objects.cls, objects.track)
    found = []
    for corners, (vx, vy), closing, name, track in zip(*(column.tolist() for column in columns), strict=True):
        if name not in CODE_OF_CLASS:
            raise InputError(f"observed classes must be among {', '.join(SUPER_CLASS)}; found {name!r}.")
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = corners
        x_m, y_m = (x0 + x1 + x2 + x3) / 4.0, (y0 + y1 + y2 + y3) / 4.0
        gap_m = max(min(x0, x1, x2, x3) - front_m, 0.0) if max(x0, x1, x2, x3) > front_m else inf
        closing_mps = (closing or ego_speed_mps) if isnan(vx) else ego_speed_mps - vx
        found.append(
            SeenTrack(
                distance_m=hypot(x_m - centre_m, y_m),
                x_m=x_m,
                y_m=y_m,
                length_m=hypot(x0 - x3, y0 - y3),
                width_m=hypot(x0 - x1, y0 - y1),
                kind=CODE_OF_CLASS[name],
                vx_mps=vx,
                vy_mps=vy,
                gap_m=gap_m,
                aside_m=max(min(y0, y1, y2, y3), -max(y0, y1, y2, y3)),
                closing_mps=closing_mps,
                id=track,
            )
        )
    # NaN has no place in an order.
    return tuple(sorted(found, key=lambda track: tuple(inf if isnan(each) else each for each in track)))


def half_width_m(vehicle: Vehicle | None) -> float:
    """Half the ego's width; that of the braking rule's corridor where nobody says."""
    return BRAKING.corridor_m if vehicle is None else vehicle.width_m / 2


def in_way(tracks: Iterable[SeenTrack], half_m: float) -> list[SeenTrack]:
    """Those ahead, up to 80 m, that reach into a straight corridor of this half-width."""
    return [track for track in tracks if track.aside_m < half_m and track.gap_m <= BRAKING.farthest_m]
