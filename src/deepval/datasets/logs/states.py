"""A log -> the Scene at its states, the Truth there with the logged future, and the replay of a drive."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.datasets.logs.log import Log
from deepval.errors import InputError
from deepval.geometry.camera import cuboid_corners_m, image_boxes_px, occlusion
from deepval.geometry.classes import super_class
from deepval.geometry.motion import track_closing_mps
from deepval.geometry.vehicle import ground_corners_m, ground_poses, headings_rad
from deepval.planners.closed_loop import Observed, Replay
from deepval.planners.observation import KINDS, Agents, EgoState, agents_of
from deepval.planners.tracking import STEP_S
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Future, Truth

NEAR_WHOLE = 0.02
"""Relative tolerance within which a step counts as a whole multiple or part of 0.1 s, since time stamps jitter."""


def replay_from(log: Log, state: int = 0) -> Replay:
    """The replay that starts at the log's state of this number (a keyframe) and ends with the log.

    Steps at every 0.1 s are taken unchanged. Where the log has fewer, the others move evenly from one step to the next,
    and are present only where both steps log them.
    """
    if not 0 <= state < len(log.states):
        raise InputError(f"unit {log.unit}: a drive must start at one of its states 0 to {len(log.states) - 1}.")
    first = int(log.states[state])
    ratio = _steps_per_tenth(log.step_s)
    positions = np.arange(first, len(log.time_s) - 1 + 1e-6, ratio)
    before = np.floor(positions + 1e-6).astype(int)
    after = np.minimum(np.ceil(positions - 1e-6).astype(int), len(log.time_s) - 1)
    share = np.where(after > before, positions - before, 0.0)
    poses = _between(ground_poses(log.world_from_ego), before, after=after, share=share, turning=2)
    acceleration = 0.0 if log.acceleration_mps2 is None else float(log.acceleration_mps2[first])
    return Replay(
        start=EgoState(poses[0], float(log.speed_mps[first]), log.vehicle, acceleration),
        lane_map=log.lane_map,
        route=log.route if log.route_starts is None else log.route[int(log.route_starts[first]) :],
        agents=_agents(log, before, after=after, share=share),
        logged_pose=poses,
        red_lights=tuple(log.red_lights[step] for step in before) if log.red_lights else (),
    )


def perception_at(log: Log, perceived: Objects, state: int = 0) -> Observed:
    """A mode's objects at the log's states -> the agents at each step of a drive, constant until the next state.

    The agents are as perceived from the logged vehicle, wherever the driven vehicle is.
    """
    if perceived.frames != len(log.states):
        raise InputError(
            f"unit {log.unit}: what is perceived must span its {len(log.states)} states; "
            f"found {perceived.frames} frames."
        )
    first, ratio = int(log.states[state]), _steps_per_tenth(log.step_s)

    @cache
    def agents_at(frame: int) -> Agents:
        objects = perceived.at(frame)
        agents = agents_of(objects, ground_poses(log.world_from_ego[log.states[frame]]))
        # Objects without a track get a new id in every frame, so that a planner does not identify them across frames.
        ids = np.where(objects.track >= 0, agents.id, np.char.add(f"{frame}-", agents.id))
        return replace(agents, id=ids)

    def observed(step: int) -> Agents:
        return agents_at(int(np.searchsorted(log.states, first + step * ratio + 1e-6, side="right")) - 1)

    return observed


def _steps_per_tenth(step_s: float) -> float:
    """Number of the log's steps in 0.1 s."""
    ratio = STEP_S / step_s
    if ratio > 1 - NEAR_WHOLE and abs(ratio / round(ratio) - 1) < NEAR_WHOLE:
        return round(ratio)
    parts = round(1 / ratio)
    return 1 / parts if parts and abs(ratio * parts - 1) < NEAR_WHOLE else ratio


def _agents(
    log: Log, before: Int[np.ndarray, "tenth"], *, after: Int[np.ndarray, "tenth"], share: Float[np.ndarray, "tenth"]
) -> tuple[Agents, ...]:
    """The others at each tenth of a second, in the log's order."""
    ids, kinds, valid_rows, values = [], [], [], []
    for track in log.tracks:
        row = np.column_stack([track.centre_m[:, :2], track.heading_rad, track.size_m[:, :2], track.velocity_mps])
        valid = track.valid[before] & track.valid[after]
        ids.append(track.id)
        kinds.append(KINDS[str(super_class(np.array([track.cls]))[0])])
        valid_rows.append(valid)
        values.append(np.where(valid[:, None], _between(row, before, after=after, share=share, turning=2), 1.0))
    names, kind = np.array(ids, dtype=str), np.array(kinds, dtype=int)
    if not ids:
        return tuple(_row(names, kind, np.zeros((0, 7))) for _ in before)
    valid, rows = np.array(valid_rows), np.array(values)
    return tuple(_row(names[valid[:, t]], kind[valid[:, t]], rows[valid[:, t], t]) for t in range(len(before)))


def _row(
    names: Shaped[np.ndarray, "agent"], kind: Int[np.ndarray, "agent"], row: Float[np.ndarray, "agent 7"]
) -> Agents:
    return Agents(names, kind, row[:, :3], row[:, 3:5], row[:, 5:7])


def _between(
    values: Float[np.ndarray, "step column"],
    before: Int[np.ndarray, "tenth"],
    *,
    after: Int[np.ndarray, "tenth"],
    share: Float[np.ndarray, "tenth"],
    turning: int,
) -> Float[np.ndarray, "tenth column"]:
    """Values part of the way from one step to another; column `turning` is an angle and takes the shorter way."""
    step = values[after] - values[before]
    step[:, turning] = np.remainder(step[:, turning] + np.pi, 2 * np.pi) - np.pi
    # Values that are not valid may be NaN, and 0 * NaN is NaN: where the share is 0, take the step itself.
    return np.where(share[:, None] > 0, values[before] + share[:, None] * step, values[before])


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
    """Objects at steps, in the ego frames of states, with the heights that Objects leave out."""

    objects: Objects
    bottom_m: Float[np.ndarray, "obj"]
    height_m: Float[np.ndarray, "obj"]


def unit_of(log: Log) -> tuple[Scene, Truth]:
    """The scene at the states of a log, and its reference."""
    scene = scene_of(log)
    return scene, truth_of(log, scene.dt_s)


def scene_of(log: Log) -> Scene:
    """The scene at the states of a log; the ego frame is level, at the rear axle on the ground."""
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
        red_lights=tuple(log.red_lights[step] for step in states) if log.red_lights else (),
        vehicle=log.vehicle,
        ego_acceleration_mps2=None if log.acceleration_mps2 is None else log.acceleration_mps2[states],
    )


def truth_of(log: Log, dt_s: Float[np.ndarray, "state"]) -> Truth:
    """The tracks logged at each state, in the log's order, and their future; `dt_s` is the time between states."""
    columns = track_columns(log)
    pose = level(log.world_from_ego[log.states])
    logged = logged_objects(columns, log.states, pose=pose)
    objects = logged.objects
    closing_mps = track_closing_mps(objects.frame, objects.track, range_m=objects.near_m, dt_s=dt_s)
    objects = replace(objects, closing_mps=closing_mps)
    cuboids_m = cuboid_corners_m(objects.corners_m, bottom_m=logged.bottom_m, height_m=logged.height_m)
    box_px = image_boxes_px(log.camera, cuboids_m)
    away_m = np.linalg.norm(objects.corners_m.mean(axis=1) - log.camera.ego_from_cam[:2, 3], axis=-1)
    return Truth(
        unit=log.unit,
        objects=objects,
        box_px=box_px,
        occlusion=occlusion(objects.frame, box_px, range_m=away_m),
        ignored_frame=np.zeros(0, dtype=int),
        ignored_box_px=np.zeros((0, 4)),
        future=future_of(log, columns, pose=pose),
    )


def future_of(log: Log, columns: TrackColumns, *, pose: Float[np.ndarray, "state 4 4"]) -> Future:
    """Poses of the ego and all others 0.5 to 4 s after each state, in the ego frame of the state."""
    steps = log.states[:, None] + np.arange(1, len(AHEAD_S) + 1) * steps_per_half_second(log)
    valid = steps < len(log.time_s)
    world_from_later = level(log.world_from_ego)[np.where(valid, steps, 0)]
    relative = np.linalg.inv(pose)[:, None] @ world_from_later
    driven = ground_poses(relative)
    others = tuple(
        logged_objects(columns, steps[:, ahead], pose=pose, valid=valid[:, ahead]).objects
        for ahead in range(len(AHEAD_S))
    )
    return Future(AHEAD_S, np.where(valid[..., None], driven, np.nan), valid, others)


def steps_per_half_second(log: Log) -> int:
    """Number of steps in half a second; raises where it is not whole."""
    step_s = log.step_s
    count = round(0.5 / step_s)
    if count < 1 or abs(count * step_s - 0.5) > step_s / 4:
        raise InputError(
            f"unit {log.unit}: half a second must be a whole number of steps; its steps are {step_s:g} s apart."
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

    def stacked(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        return np.stack(parts) if parts else np.zeros((0, *shape))

    return TrackColumns(
        np.array([track.cls for track in tracks], dtype="<U14"),
        stacked([track.centre_m for track in tracks], (steps, 3)),
        stacked([track.heading_rad for track in tracks], (steps,)),
        stacked([track.size_m for track in tracks], (steps, 3)),
        stacked([track.velocity_mps for track in tracks], (steps, 2)),
        stacked([track.valid for track in tracks], (steps,)).astype(bool),
    )


def logged_objects(
    columns: TrackColumns,
    steps: Int[np.ndarray, "state"],
    *,
    pose: Float[np.ndarray, "state 4 4"],
    valid: Bool[np.ndarray, "state"] | None = None,
) -> LoggedObjects:
    """The objects logged at one step per state (none where it is not `valid`), in the ego frame of that state."""
    valid = np.ones(len(steps), dtype=bool) if valid is None else valid
    safe_steps = np.where(valid, steps, 0)
    frame, track = np.nonzero((columns.valid[:, safe_steps] & valid).T)
    step = safe_steps[frame]
    ego_from_world = np.linalg.inv(pose)[frame]
    turn = ego_from_world[:, :2, :2]
    centre_m = np.einsum("oij,oj->oi", ego_from_world[:, :3, :3], columns.centre_m[track, step])
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
