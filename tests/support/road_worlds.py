"""Small roads, routes and road users for tests of planners."""

from itertools import pairwise

import numpy as np

from deepval.driving.geometry.vehicle import ZOE
from deepval.driving.planners.observation import (
    BICYCLE,
    PEDESTRIAN,
    STATIC,
    VEHICLE,
    Agents,
    EgoState,
    Situation,
)
from deepval.driving.world.lanes import Lane, LaneMap


def lane(name, *points, to=(), block=None, half_m=2.0, **rest):
    """A lane through points, a vertex every metre or so."""
    points = np.array(points, dtype=float)
    steps = [
        np.linspace(a, b, max(2, round(np.hypot(*(b - a)))), endpoint=False)
        for a, b in pairwise(points)
    ]
    middle = np.concatenate([*steps, points[-1:]])
    rest.setdefault("speed_limit_mps", 13.0)
    return Lane(
        name,
        middle,
        block or f"rb_{name}",
        half_width_m=half_m,
        successors=tuple(to),
        **rest,
    )


def road(*lanes, **rest):
    return LaneMap({mine.id: mine for mine in lanes}, **rest)


def straight(length_m=200.0, **rest):
    """One lane along x from 0 on, cut in two roadblocks at its middle."""
    half = length_m / 2
    return road(
        lane("a", (0, 0), (half, 0), to=["b"], **rest),
        lane("b", (half, 0), (length_m, 0), **rest),
    )


def situation(
    lane_map,
    *,
    route=("rb_a", "rb_b"),
    x=10.0,
    y=0.0,
    heading=0.0,
    speed=8.0,
    red=(),
    **ego,
):
    state = EgoState(np.array([x, y, heading]), float(speed), ZOE, **ego)
    return Situation(state, lane_map, tuple(route), frozenset(red))


def others(*rows):
    """Rows (kind, x, y, heading, vx, vy), as large as their kind."""
    sizes = {
        VEHICLE: (4.5, 1.9),
        PEDESTRIAN: (0.7, 0.7),
        BICYCLE: (1.8, 0.7),
        STATIC: (0.5, 1.5),
    }
    table = np.array([row[1:] for row in rows], dtype=float).reshape(-1, 5)
    return Agents(
        id=np.array([f"n{place}" for place in range(len(rows))], dtype=str),
        kind=np.array([row[0] for row in rows], dtype=int),
        pose=table[:, :3],
        size_m=np.array([sizes[row[0]] for row in rows], dtype=float).reshape(-1, 2),
        velocity_mps=table[:, 3:],
    )


def town(rng):
    """A road of two lanes, a crossing with a bend, and a way out; ego, red lights and
    road users at random.
    """
    limit = [None, 6.0, 13.0][rng.integers(3)]
    turn = [
        (60 + 20 * np.sin(a), 20 - 20 * np.cos(a))
        for a in np.linspace(0, np.pi / 2, 12)
    ]
    lanes = [
        lane("a", (0, 0), (60, 0), to=["turn"], speed_limit_mps=limit),
        lane("b", (0, 4), (60, 4), to=["on"], block="rb_a", speed_limit_mps=limit),
        lane("turn", *turn, connector=True, to=["c"], speed_limit_mps=limit),
        lane("on", (60, 4), (90, 4), connector=True),
        lane("c", (80, 20), (80, 90), speed_limit_mps=limit),
        lane("d", (84, 90), (84, 20), to=["back"]),
        lane("back", (84, 20), (60, 8), connector=True, half_m=3.0),
    ]
    carpark = np.array([[20.0, -6.0], [40.0, -6.0], [40.0, -2.0], [20.0, -2.0]])
    rows = []
    for _ in range(rng.integers(0, 14)):
        kind = int(rng.integers(4))
        speed = rng.uniform(0, 8) * (rng.random() < 0.6)
        heading = (
            rng.uniform(-np.pi, np.pi) if rng.random() < 0.4 else rng.normal(0, 0.2)
        )
        backwards = np.pi if rng.random() < 0.2 else 0.0
        vx, vy = (
            speed * np.cos(heading + backwards),
            speed * np.sin(heading + backwards),
        )
        rows.append((kind, rng.uniform(0, 90), rng.normal(2, 6), heading, vx, vy))
    red = [name for name in ("turn", "c", "on") if rng.random() < 0.3]
    here = situation(
        road(*lanes, drivable_m=(carpark,)),
        route=("rb_a", "rb_turn", "rb_c"),
        x=rng.uniform(2, 65),
        y=rng.normal(0, 0.5),
        heading=rng.normal(0, 0.1),
        speed=rng.uniform(0, 12) * (rng.random() < 0.8),
        red=red,
        acceleration_mps2=float(rng.normal(0, 0.5)),
    )
    return here, others(*rows)
