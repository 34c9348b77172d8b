"""A log -> the replay of a drive in closed loop, and the agents that a mode perceives
at its steps.

This module is separate from `states`, so that reading a data set imports no planner.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from deepval.basics.arrays import Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.datasets.logs.log import Log
from deepval.driving.geometry.classes import super_class
from deepval.driving.geometry.vehicle import ground_poses
from deepval.driving.planners.closed_loop import Observed, Replay
from deepval.driving.planners.observation import KINDS, Agents, EgoState, agents_of
from deepval.driving.planners.tracking import STEP_S
from deepval.driving.world.objects import Objects

NEAR_WHOLE = 0.02
"""Relative tolerance within which a step counts as a whole multiple or part of 0.1 s,
since time stamps jitter.
"""


def replay_from(log: Log, state: int = 0) -> Replay:
    """The replay that starts at the log's state of this number (a keyframe) and ends
    with the log.

    Steps at every 0.1 s are taken unchanged. Where the log has fewer steps, the other
    agents move evenly from one step to the next, and are present only where both steps
    log them.
    """
    if not 0 <= state < len(log.states):
        raise InputError(
            f"unit {log.unit}: a drive must start at one "
            f"of its states 0 to {len(log.states) - 1}."
        )
    first = int(log.states[state])
    ratio = _steps_per_tenth(log.step_s)
    positions = np.arange(first, len(log.time_s) - 1 + 1e-6, ratio)
    before = np.floor(positions + 1e-6).astype(int)
    after = np.minimum(np.ceil(positions - 1e-6).astype(int), len(log.time_s) - 1)
    share = np.where(after > before, positions - before, 0.0)
    poses = _between(
        ground_poses(log.world_from_ego), before, after=after, share=share, turning=2
    )
    acceleration = (
        0.0 if log.acceleration_mps2 is None else float(log.acceleration_mps2[first])
    )
    return Replay(
        start=EgoState(
            poses[0], float(log.speed_mps[first]), log.vehicle, acceleration
        ),
        lane_map=log.lane_map,
        route=log.route
        if log.route_starts is None
        else log.route[int(log.route_starts[first]) :],
        agents=_agents(log, before, after=after, share=share),
        logged_pose=poses,
        red_lights=tuple(log.red_lights[step] for step in before)
        if log.red_lights
        else (),
    )


def perception_at(log: Log, perceived: Objects, state: int = 0) -> Observed:
    """A mode's objects at the log's states -> the agents at each step of a drive,
    constant until the next state.

    The agents are as perceived from the logged vehicle, wherever the driven vehicle is.
    """
    if perceived.frames != len(log.states):
        raise InputError(
            f"unit {log.unit}: what is perceived must span its {len(log.states)} "
            f"states; found {perceived.frames} frames."
        )
    first, ratio = int(log.states[state]), _steps_per_tenth(log.step_s)

    @cache
    def agents_at(frame: int) -> Agents:
        objects = perceived.at(frame)
        agents = agents_of(objects, ground_poses(log.world_from_ego[log.states[frame]]))
        # Objects without a track get a new id in every frame, so that a planner does
        # not identify them across frames.
        ids = np.where(
            objects.track >= 0, agents.id, np.char.add(f"{frame}-", agents.id)
        )
        return replace(agents, id=ids)

    def agents_at_step(step: int) -> Agents:
        return agents_at(
            int(np.searchsorted(log.states, first + step * ratio + 1e-6, side="right"))
            - 1
        )

    return agents_at_step


def _steps_per_tenth(step_s: float) -> float:
    """Number of the log's steps in 0.1 s."""
    ratio = STEP_S / step_s
    if ratio > 1 - NEAR_WHOLE and abs(ratio / round(ratio) - 1) < NEAR_WHOLE:
        return round(ratio)
    parts = round(1 / ratio)
    return 1 / parts if parts and abs(ratio * parts - 1) < NEAR_WHOLE else ratio


def _agents(
    log: Log,
    before: Int[np.ndarray, "tenth"],
    *,
    after: Int[np.ndarray, "tenth"],
    share: Float[np.ndarray, "tenth"],
) -> tuple[Agents, ...]:
    """The other agents at each tenth of a second, in the log's order."""
    ids, kinds, valid_rows, values = [], [], [], []
    for track in log.tracks:
        row = np.column_stack(
            [
                track.centre_m[:, :2],
                track.heading_rad,
                track.size_m[:, :2],
                track.velocity_mps,
            ]
        )
        valid = track.valid[before] & track.valid[after]
        ids.append(track.id)
        kinds.append(KINDS[str(super_class(np.array([track.cls]))[0])])
        valid_rows.append(valid)
        values.append(
            np.where(
                valid[:, None],
                _between(row, before, after=after, share=share, turning=2),
                1.0,
            )
        )
    names, kind = np.array(ids, dtype=str), np.array(kinds, dtype=int)
    if not ids:
        return tuple(_row(names, kind, np.zeros((0, 7))) for _ in before)
    valid, rows = np.array(valid_rows), np.array(values)
    return tuple(
        _row(names[valid[:, t]], kind[valid[:, t]], rows[valid[:, t], t])
        for t in range(len(before))
    )


def _row(
    names: Shaped[np.ndarray, "agent"],
    kind: Int[np.ndarray, "agent"],
    row: Float[np.ndarray, "agent 7"],
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
    """Values part of the way from one step to another; column `turning` is an angle and
    takes the shorter way.
    """
    step = values[after] - values[before]
    step[:, turning] = np.remainder(step[:, turning] + np.pi, 2 * np.pi) - np.pi
    # Values that are not valid may be NaN, and 0 * NaN is NaN: where the share is 0,
    # take the step itself.
    return np.where(
        share[:, None] > 0, values[before] + share[:, None] * step, values[before]
    )
