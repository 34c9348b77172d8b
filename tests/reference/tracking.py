"""The slow and obvious twin of tracking: one proposal, one step and one matrix at a
time.
"""

import math

import numpy as np

DT = 0.1


def wrapped(angle):
    return math.remainder(angle, 2 * math.pi)


def fitted(path):
    """Speeds and curvatures of one proposal by textbook least squares with stacked
    penalty rows.
    """
    gaps = len(path) - 1
    summed = np.array(
        [[1.0 if j == 0 else DT * (j <= k) for j in range(gaps)] for k in range(gaps)]
    )
    rows, told = [], []
    for k in range(gaps):
        for axis, part in ((0, math.cos), (1, math.sin)):
            rows.append(DT * part(path[k, 2]) * summed[k])
            told.append(path[k + 1, axis] - path[k, axis])
    rates = gaps - 1
    for j in range(rates - 2):
        rows.append(1e-2 * np.eye(gaps)[1 + j])
        told.append(0.0)
    rows.append(1e-2 * (np.eye(gaps)[gaps - 1] - np.eye(gaps)[gaps - 2]))
    told.append(0.0)
    speed = summed @ np.linalg.lstsq(np.array(rows), np.array(told), rcond=None)[0]

    rows = [DT * speed[k] * summed[k] for k in range(gaps)]
    told = [wrapped(path[k + 1, 2] - path[k, 2]) for k in range(gaps)]
    for j in range(gaps):
        rows.append((1e-5 if j == 0 else 1e-1) * np.eye(gaps)[j])
        told.append(0.0)
    curvature = summed @ np.linalg.lstsq(np.array(rows), np.array(told), rcond=None)[0]
    return speed, curvature


def simulated(path, start, wheel_base_m):
    """States of one proposal."""
    speed, curvature = fitted(path)
    states = [np.array(start, dtype=float)]
    for index in range(len(path) - 1):
        states.append(
            driven(
                states[-1],
                *commands(states[-1], path[index], speed, curvature, index),
                wheel_base_m,
            )
        )
    return np.array(states)


def commands(state, pose, speed, curvature, index):
    wanted = speed[min(index + 10, len(speed) - 1)]
    if wanted <= 0.2 and state[3] <= 0.2:
        return -0.5 * (state[3] - wanted), 0.0
    acceleration = -10 * (state[3] - wanted) / 11
    dx, dy = state[0] - pose[0], state[1] - pose[1]
    first = np.array(
        [
            dy * math.cos(pose[2]) - dx * math.sin(pose[2]),
            wrapped(state[2] - pose[2]),
            state[7],
        ]
    )
    a, b, g = np.eye(3), np.zeros(3), np.zeros(3)
    for k in range(10):
        moved = DT * (state[3] + acceleration * k * DT)
        step = np.array([[1, moved, 0], [0, 1, moved / 3.089], [0, 0, 1]])
        a = step @ a
        b = step @ b + np.array([0, 0, DT])
        g = step @ g + np.array(
            [0, -moved * curvature[min(index + k, len(curvature) - 1)], 0]
        )
    free = a @ first + g
    free[1] = wrapped(free[1])
    q = np.diag([1.0, 10.0, 0.0])
    return acceleration, -(b @ q @ free) / (b @ q @ b + 1.0)


def driven(state, acceleration, steer_rate, wheel_base_m):
    x, y, heading, v, _, ax, _, steer, _, yaw_rate, _ = state
    ax = DT / (DT + 0.2) * (acceleration - ax) + ax
    wanted = steer + DT * steer_rate
    rate = (DT / (DT + 0.05) * (wanted - steer) + steer - steer) / DT
    after = v + DT * ax
    turned = min(max(steer + DT * rate, -math.pi / 3), math.pi / 3)
    new_yaw_rate = after * math.tan(turned) / wheel_base_m
    return np.array(
        [
            x + DT * v * math.cos(heading),
            y + DT * v * math.sin(heading),
            wrapped(heading + DT * v * math.tan(steer) / wheel_base_m),
            *(
                after,
                0.0,
                ax,
                0.0,
                turned,
                rate,
                new_yaw_rate,
                (new_yaw_rate - yaw_rate) / DT,
            ),
        ]
    )
