"""A log -> the Scene at its states, and the Truth there with the logged future."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.datasets.logs.log import Log
from deepval.driving.geometry.camera import cuboid_corners_m, image_boxes_px, occlusion
from deepval.driving.geometry.vehicle import (
    ground_corners_m,
    ground_poses,
    headings_rad,
)
from deepval.driving.world.objects import Objects, track_closing_mps
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Future, Truth

AHEAD_S = np.arange(1, 9) * 0.5
"""Times ahead of the logged future: 0.5 to 4 s."""


class TrackColumns(NamedTuple):
    """The columns of all tracks in arrays, by track and step."""

    cls: Shaped[np.ndarray, "track"]
    centre_m: Float[np.ndarray, "track step 3"]
    heading_rad: Float[np.ndarray, "track step"]
    size_m: Float[np.ndarray, "track step 3"]
    velocity_mps: Float[np.ndarray, "track step 2"]
    valid: Bool[np.ndarray, "track step"]


class LoggedObjects(NamedTuple):
    """Objects at steps, in the ego frames of states, with the heights that Objects
    leave out.
    """

    objects: Objects
    bottom_m: Float[np.ndarray, "obj"]
    height_m: Float[np.ndarray, "obj"]


def unit_of(log: Log) -> tuple[Scene, Truth]:
    """The scene at the states of a log, and its reference."""
    scene = scene_of(log)
    return scene, truth_of(log, scene.dt_s)


def scene_of(log: Log) -> Scene:
    """The scene at the states of a log; the ego frame is level, at the rear axle on the
    ground.
    """
    states = log.states
    frame_ids = log.frame_ids or tuple(f"{step:06d}" for step in states)
    return Scene(
        unit=log.unit,
        frame_ids=np.array(frame_ids, dtype=str),
        time_s=log.time_s[states],
        ego_speed_mps=np.maximum(log.speed_mps[states], 0.0),
        cameras={"front": log.camera},
        world_from_ego=level(log.world_from_ego[states]),
        lane_map=log.lane_map,
        route=log.route,
        route_starts=None if log.route_starts is None else log.route_starts[states],
        red_lights=tuple(log.red_lights[step] for step in states)
        if log.red_lights
        else (),
        vehicle=log.vehicle,
        ego_acceleration_mps2=None
        if log.acceleration_mps2 is None
        else log.acceleration_mps2[states],
    )


def truth_of(log: Log, dt_s: Float[np.ndarray, "state"]) -> Truth:
    """The tracks logged at each state, in the log's order, and their future; `dt_s` is
    the time between states.
    """
    columns = track_columns(log)
    pose = level(log.world_from_ego[log.states])
    logged = logged_objects(columns, log.states, pose=pose)
    objects = logged.objects
    closing_mps = track_closing_mps(
        objects.frame, objects.track, range_m=objects.near_m, dt_s=dt_s
    )
    objects = replace(objects, closing_mps=closing_mps)
    cuboids_m = cuboid_corners_m(
        objects.corners_m, bottom_m=logged.bottom_m, height_m=logged.height_m
    )
    box_px = image_boxes_px(log.camera, cuboids_m)
    away_m = np.linalg.norm(
        objects.corners_m.mean(axis=1) - log.camera.ego_from_cam[:2, 3], axis=-1
    )
    return Truth(
        unit=log.unit,
        objects=objects,
        box_px=box_px,
        occlusion=occlusion(objects.frame, box_px, range_m=away_m),
        ignored_frame=np.zeros(0, dtype=int),
        ignored_box_px=np.zeros((0, 4)),
        future=future_of(log, columns, pose=pose),
    )


def future_of(
    log: Log, columns: TrackColumns, *, pose: Float[np.ndarray, "state 4 4"]
) -> Future:
    """Poses of the ego and of all other agents 0.5 to 4 s after each state, in the ego
    frame of the state.
    """
    steps = log.states[:, None] + np.arange(
        1, len(AHEAD_S) + 1
    ) * steps_per_half_second(log)
    valid = steps < len(log.time_s)
    world_from_later = level(log.world_from_ego)[np.where(valid, steps, 0)]
    relative = np.linalg.inv(pose)[:, None] @ world_from_later
    driven = ground_poses(relative)
    others = tuple(
        logged_objects(
            columns, steps[:, ahead], pose=pose, valid=valid[:, ahead]
        ).objects
        for ahead in range(len(AHEAD_S))
    )
    return Future(AHEAD_S, np.where(valid[..., None], driven, np.nan), valid, others)


def steps_per_half_second(log: Log) -> int:
    """Number of steps in half a second; raises where it is not whole."""
    step_s = log.step_s
    count = round(0.5 / step_s)
    if count < 1 or abs(count * step_s - 0.5) > step_s / 4:
        raise InputError(
            f"unit {log.unit}: half a second must be a whole number of steps; its "
            f"steps are {step_s:g} s apart."
        )
    return count


def level(pose: Float[np.ndarray, "*batch 4 4"]) -> Float[np.ndarray, "*batch 4 4"]:
    """Poses without roll and pitch: planners and objects move on the ground plane."""
    yaw_rad = headings_rad(pose)
    flat = np.zeros_like(pose)
    flat[..., 0, 0] = flat[..., 1, 1] = np.cos(yaw_rad)
    flat[..., 1, 0] = np.sin(yaw_rad)
    flat[..., 0, 1] = -flat[..., 1, 0]
    flat[..., 2, 2] = flat[..., 3, 3] = 1.0
    flat[..., :3, 3] = pose[..., :3, 3]
    return flat


def track_columns(log: Log) -> TrackColumns:
    """The tracks of a log in common arrays."""
    steps, tracks = len(log.time_s), log.tracks

    def stack(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        return np.stack(parts) if parts else np.zeros((0, *shape))

    return TrackColumns(
        np.array([track.cls for track in tracks], dtype="<U14"),
        stack([track.centre_m for track in tracks], (steps, 3)),
        stack([track.heading_rad for track in tracks], (steps,)),
        stack([track.size_m for track in tracks], (steps, 3)),
        stack([track.velocity_mps for track in tracks], (steps, 2)),
        stack([track.valid for track in tracks], (steps,)).astype(bool),
    )


def logged_objects(
    columns: TrackColumns,
    steps: Int[np.ndarray, "state"],
    *,
    pose: Float[np.ndarray, "state 4 4"],
    valid: Bool[np.ndarray, "state"] | None = None,
) -> LoggedObjects:
    """The objects logged at one step per state (none where it is not `valid`), in the
    ego frame of that state.
    """
    valid = np.ones(len(steps), dtype=bool) if valid is None else valid
    safe_steps = np.where(valid, steps, 0)
    frame, track = np.nonzero((columns.valid[:, safe_steps] & valid).T)
    step = safe_steps[frame]
    ego_from_world = np.linalg.inv(pose)[frame]
    turn = ego_from_world[:, :2, :2]
    centre_m = np.einsum(
        "oij,oj->oi", ego_from_world[:, :3, :3], columns.centre_m[track, step]
    )
    centre_m += ego_from_world[:, :3, 3]
    yaw_rad = columns.heading_rad[track, step] - headings_rad(pose)[frame]
    size_m = columns.size_m[track, step]
    objects = Objects(
        frames=len(steps),
        frame=frame,
        corners_m=ground_corners_m(centre_m[:, :2], size_m[:, :2], yaw_rad=yaw_rad),
        closing_mps=np.zeros(len(frame)),
        cls=columns.cls[track],
        track=track,
        velocity_mps=np.einsum("oij,oj->oi", turn, columns.velocity_mps[track, step]),
    )
    return LoggedObjects(objects, centre_m[:, 2] - size_m[:, 2] / 2, size_m[:, 2])
