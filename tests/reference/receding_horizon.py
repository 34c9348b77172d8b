"""Slow twin of the receding-horizon controller: plain loops over frames, candidates,
obstacles and steps.

It is fair: paths are computed once per frame, and an obstacle's steps of overlap once
per acceleration.
"""

STEPS = [0.25 * (i + 1) for i in range(12)]
ACCELERATIONS = [-8.0 * i / 6 for i in range(7)]
OFFSETS = [0.0, -1.5, 1.5, -3.0, 3.0]


def travelled(v, a, t):
    moving = min(t, v / -a) if a < 0 else t
    return v * moving + 0.5 * a * moving**2


def paths(accelerations, v):
    return [[travelled(v, a, t) for t in STEPS] for a in accelerations]


SIDEWAYS = [
    [d * (3 * (t / 3.0) ** 2 - 2 * (t / 3.0) ** 3) for t in STEPS] for d in OFFSETS
]


def worst_clearance(xs, ys, obstacles):
    """Smallest clearance of one path over the steps at which it overlaps an obstacle in
    x, inf where none.
    """
    worst = float("inf")
    for near, far, low, high in obstacles:
        for x, y in zip(xs, ys, strict=True):
            if x <= far and x + 4.5 >= near:
                worst = min(worst, max(low - (y + 0.9), (y - 0.9) - high))
    return worst


def fixed_cost(worst, v, a, d):
    """Loss without the change term."""
    c = min(2.0, max(0.0, 1.0 - worst))
    progress = max(0.0, 1.0 - travelled(v, a, 3.0) / (3.0 * max(v, 2.0)))
    collision = 1.0 if worst < 0 else 0.0
    return (
        10.0 * collision
        + 1.5 * c**2
        + 1.0 * progress**2
        + 0.01 * (a**2 * 3.0)
        + 0.5 * d**2
    )


def change_cost(a, d, before):
    return (
        0.0
        if before is None
        else 0.05 * ((a - before[0]) ** 2 / 4 + (d - before[1]) ** 2)
    )


def chosen(obstacles, v, before, accelerations=ACCELERATIONS):
    """The cheapest candidate of one frame; candidates come in the order that settles
    ties.
    """
    best = None
    for a, xs in zip(accelerations, paths(accelerations, v), strict=True):
        for d, ys in zip(OFFSETS, SIDEWAYS, strict=True):
            cost = fixed_cost(
                worst_clearance(xs, ys, obstacles), v, a, d
            ) + change_cost(a, d, before)
            if best is None or cost < best[0]:
                best = (cost, a, d)
    return best[1], best[2]


def drive(frames, speeds, firsts, accelerations=ACCELERATIONS):
    """The chain of actions over frames of obstacles."""
    before, actions = None, []
    for obstacles, v, first in zip(frames, speeds, firsts, strict=True):
        before = chosen(obstacles, v, None if first else before, accelerations)
        actions.append(before)
    return actions


def loss(obstacles, v, action, before):
    """Loss of an action against reference obstacles, those wholly behind left out."""
    a, d = action
    xs = [travelled(v, a, t) for t in STEPS]
    ys = SIDEWAYS[OFFSETS.index(d)]
    ahead = [obstacle for obstacle in obstacles if obstacle[1] > 0]
    return fixed_cost(worst_clearance(xs, ys, ahead), v, a, d) + change_cost(
        a, d, before
    )
