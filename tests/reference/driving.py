"""Slow twins of the driving kernels: one box, one object, one path at a time, straight
from the definitions.
"""

import math


def iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


def lifted(box, height_m, camera):
    """(range, low y, high y) of one box."""
    x1, y1, x2, y2 = box
    rotation, shift = camera.ego_from_cam[:3, :3], camera.ego_from_cam[:3, 3]
    ray = (
        ((x1 + x2) / 2 - camera.cx_px) / camera.fx_px,
        (y2 - camera.cy_px) / camera.fy_px,
        1.0,
    )
    ray_z = sum(rotation[2][i] * ray[i] for i in range(3))
    camera_height = shift[2] - camera.road_z_m
    box_height = max(y2 - y1, 1)
    z_h = camera.fy_px * height_m / box_height
    s_h = z_h * math.sqrt(0.08**2 + (2 / box_height) ** 2)
    top, bottom = z_h / s_h**2, 1 / s_h**2
    if ray_z < -1e-3:
        z_g = camera_height / -ray_z
        s_v = math.hypot(2, camera.fy_px * math.radians(0.3))
        s_g = z_g**2 * s_v / (camera.fy_px * camera_height)
        top, bottom = top + z_g / s_g**2, bottom + 1 / s_g**2
    z = min(max(top / bottom, 1.0), 120.0)
    sides = [-z * (x - camera.cx_px) / camera.fx_px + shift[1] for x in (x2, x1)]
    return z + shift[0], sides[0], sides[1]


def required_deceleration(objects, ego_speed):
    """a_req of one frame; objects are (near, far, low, high, closing)."""
    worst = 0.0
    for near, _, low, high, closing in objects:
        if not (0 < near <= 80 and high > -1.2 and low < 1.2):
            continue
        for s in (ego_speed, closing):
            if s > 0:
                d = near - 2.0 - 0.4 * s
                worst = max(worst, min(9.0, s * s / (2 * d) if d > 0 else 9.0))
    return worst


def brake(needed):
    return 0.0 if needed < 1.0 else 2.5 if needed < 3.5 else 6.0


def brake_loss(needed, action, before):
    short = max(needed - action, 0.0)
    change = 0.0 if before is None else abs(action - before)
    return (
        short**2
        + 0.12 * max(action - needed, 0.0) ** 2
        + 0.02 * change
        + (6.0 if short >= 8 else 0.0)
    )


def growth(boxes_now, boxes_before, dt):
    """Growth rate of each (class, box), matched to the frame before."""
    rates = []
    for cls, box in boxes_now:
        best, rate = 0.0, 0.0
        for other, earlier in boxes_before:
            overlap = iou(box, earlier)
            if other == cls and overlap >= 0.3 and overlap > best:
                best, rate = (
                    overlap,
                    ((box[3] - box[1]) / (earlier[3] - earlier[1]) - 1) / dt,
                )
        rates.append(rate)
    return rates


def persists(frames, at, cls, box):
    """Whether a box passes the persistence filter; `frames` is a list of lists of
    (class, box).
    """
    if at < 2:
        return False
    return all(
        any(
            other == cls and iou(box, earlier) >= 0.3
            for other, earlier in frames[at - lag]
        )
        for lag in (1, 2)
    )


def shift(objects, speed):
    """Action of the lateral corridor controller in one frame."""
    for candidate in (0.0, -1.0, 1.0):
        if not corridor_blocked(objects, speed, candidate):
            return candidate
    return 0.0


def corridor_blocked(objects, speed, candidate):
    reach = speed**2 / (2 * 6) + 0.4 * speed + 2
    return any(
        0 < near <= reach and high > candidate - 1.2 and low < candidate + 1.2
        for near, _, low, high, _ in objects
    )
