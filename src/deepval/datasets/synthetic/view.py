"""Traffic seen from the ego vehicle: cuboids in the ego frame -> image boxes, truncation, occlusion, and the Truth."""

from typing import NamedTuple

import numpy as np

from deepval.arrays import Float, Int
from deepval.datasets.synthetic.traffic import Drive
from deepval.geometry.camera import Camera, projected_px, transformed
from deepval.geometry.motion import track_closing_mps
from deepval.geometry.vehicle import ground_corners_m
from deepval.world.objects import Objects
from deepval.world.truth import Truth

CAMERA_AXES = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
NEAREST_M = 0.4
CELL_PX = 6
# Share of the box that must be visible for KITTI's levels 0 (fully), 1 (partly), 2 (largely hidden); else 3.
VISIBLE = (0.85, 0.5, 0.1)


def kitti_camera() -> Camera:
    """A camera like KITTI's left colour camera: 1242x375, 1.66 m above the road, looking straight ahead."""
    pose = np.eye(4)
    pose[:3, :3] = CAMERA_AXES
    pose[:3, 3] = (1.1, -0.32, 0.73)
    return Camera(721.5, 721.5, 609.6, 172.9, pose, -0.93, 1242, 375)


class Bodies(NamedTuple):
    """Actors in the ego frame, one row per actor and frame in reach: actor number, ground corners, height."""

    frame: Int[np.ndarray, "row"]
    actor: Int[np.ndarray, "row"]
    corners_m: Float[np.ndarray, "row 4 2"]
    height_m: Float[np.ndarray, "row"]


def cuboids(drive: Drive, *, farthest_m: float) -> Bodies:
    """Actors ahead of the ego vehicle, in its frame: y = d - d_ego + curvature x^2 / 2, turned by curvature x."""
    actors = drive.actors
    x = actors.s_m - drive.s_m
    y = actors.d_m - drive.d_m + drive.curvature_per_m * x**2 / 2
    reach = (x > -actors.size_m[:, :1]) & (x < farthest_m)
    frame, actor = np.nonzero(reach.T)
    index = (actor, frame)
    yaw = actors.heading_rad[index] + drive.curvature_per_m * x[index]
    corners_m = ground_corners_m(np.stack([x[index], y[index]], axis=-1), actors.size_m[actor][:, :2], yaw_rad=yaw)
    return Bodies(frame, actor, corners_m, actors.size_m[actor, 2])


def solid_corners_m(bodies: Bodies, road_z_m: float) -> Float[np.ndarray, "row 8 3"]:
    """The eight corners of each cuboid: the four on the road, then the four above them."""
    low = np.full((*bodies.corners_m.shape[:2], 1), road_z_m)
    bottom = np.concatenate([bodies.corners_m, low], axis=-1)
    top = np.concatenate([bodies.corners_m, low + bodies.height_m[:, None, None]], axis=-1)
    return np.concatenate([bottom, top], axis=1)


class Seen(NamedTuple):
    """Cuboids in the picture: their rows, their boxes clipped to the picture, and the share cut off."""

    row: Int[np.ndarray, "seen"]
    box_px: Float[np.ndarray, "seen 4"]
    truncation: Float[np.ndarray, "seen"]


def boxes_px(points_m: Float[np.ndarray, "row 8 3"], camera: Camera) -> Float[np.ndarray, "row 4"]:
    """Image boxes around cuboids, not clipped to the image; parts behind the camera are moved just in front."""
    depth_m = transformed(np.linalg.inv(camera.ego_from_cam), points_m)[..., 2]
    ahead = points_m.copy()
    ahead[..., 0] += np.maximum(NEAREST_M - depth_m, 0.0)
    pixel = projected_px(camera, ahead)
    return np.concatenate([pixel.min(axis=1), pixel.max(axis=1)], axis=-1)


def in_picture(bodies: Bodies, camera: Camera, *, least_px: float = 8.0, most_cut: float = 0.85) -> Seen:
    """The cuboids whose clipped boxes are tall and wide enough and not cut off too far."""
    whole = boxes_px(solid_corners_m(bodies, camera.road_z_m), camera)
    size_px = np.array([camera.width_px, camera.height_px], dtype=float)
    clipped = np.clip(whole, 0.0, np.tile(size_px, 2))
    area = np.prod(whole[:, 2:] - whole[:, :2], axis=1)
    truncation = 1 - np.prod(clipped[:, 2:] - clipped[:, :2], axis=1) / np.maximum(area, 1e-9)
    size = clipped[:, 2:] - clipped[:, :2]
    near_m = bodies.corners_m[..., 0].max(axis=1)
    visible = (size[:, 1] >= least_px) & (size[:, 0] >= 2.0) & (truncation <= most_cut) & (near_m > 1.5)
    return Seen(np.flatnonzero(visible), clipped[visible], truncation[visible])


def visible_share(
    frame: Int[np.ndarray, "seen"],
    box_px: Float[np.ndarray, "seen 4"],
    *,
    distance_m: Float[np.ndarray, "seen"],
    size_px: tuple[int, int],
) -> Float[np.ndarray, "seen"]:
    """Share of each box that no nearer box of its frame covers, on a grid of six-pixel cells."""
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


def truth_of(drive: Drive, unit: str, *, camera: Camera, dt_s: Float[np.ndarray, "time"], farthest_m: float) -> Truth:
    """The reference of a scene: every road user in the picture, hidden ones too (level 3)."""
    bodies = cuboids(drive, farthest_m=farthest_m)
    seen = in_picture(bodies, camera)
    frame, actor, corners_m = bodies.frame[seen.row], bodies.actor[seen.row], bodies.corners_m[seen.row]
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
