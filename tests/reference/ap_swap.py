"""Slow twins of AP-swap and of ORIC's reward: the list is put together anew for every
frame.
"""

from itertools import pairwise

import numpy as np

from reference.matching import average_precision


def area(frames, objects, rule):
    """AP of frames, each a list of (score, right)."""
    rows = [row for frame in frames for row in frame]
    return average_precision(
        [score for score, _ in rows], [right for _, right in rows], objects, rule
    )


def ap_swap(weak, strong, objects):
    """N x change in AP per frame; `objects` is their total."""
    changes = []
    for place in range(len(weak)):
        swapped = [strong[f] if f == place else weak[f] for f in range(len(weak))]
        changes.append(
            len(weak)
            * (area(swapped, objects, "all-point") - area(weak, objects, "all-point"))
        )
    return changes


def reward(weak, strong, objects, context):
    """ORIC's reward per frame; a frame is a list of lists by class, `objects` holds a
    number per frame and class.
    """
    rewards = []
    for place in range(len(weak)):
        others = [f for f in context if f != place]
        change = []
        for cls in range(len(objects[place])):
            wanted = objects[place][cls] + sum(objects[f][cls] for f in others)
            if wanted:
                around = [weak[f][cls] for f in others]
                after = area([*around, strong[place][cls]], wanted, "101-point")
                change.append(
                    after - area([*around, weak[place][cls]], wanted, "101-point")
                )
        rewards.append((len(others) + 1) * sum(change) / len(change) if change else 0.0)
    return rewards


def interpolated_area(frames, objects):
    """Area under straight lines through (recall, best precision at no less recall), by
    trapezia at 101 recalls.
    """
    rows = sorted((row for frame in frames for row in frame), key=lambda row: -row[0])
    if not rows:
        return 0.0
    points = [(0.0, 1.0)]
    for last, (score, _) in enumerate(rows):
        if last + 1 == len(rows) or rows[last + 1][0] != score:
            right = sum(row[1] for row in rows[: last + 1])
            points.append((right / objects, right / (last + 1)))
    points.append((1.0, 0.0))
    recall = [point[0] for point in points]
    best = [
        max(precision for _, precision in points[place:])
        for place in range(len(points))
    ]
    drawn = []
    for step in range(101):
        # as released: where a recall is met is left to rounding
        at = float(np.linspace(0, 1, 101)[step])
        left = max(place for place, value in enumerate(recall) if value <= at)
        if left + 1 == len(points) or recall[left] == at:
            drawn.append(best[left])
        else:
            share = (at - recall[left]) / (recall[left + 1] - recall[left])
            drawn.append(best[left] + share * (best[left + 1] - best[left]))
    return sum((one + other) / 200 for one, other in pairwise(drawn))


def released_reward(weak, strong, objects, contexts):
    """ORIC's reward as released: a context of its own for each frame, interpolated
    AP.
    """
    rewards = []
    for place, others in enumerate(contexts):
        change = []
        for cls in range(len(objects[place])):
            wanted = objects[place][cls] + sum(objects[f][cls] for f in others)
            if wanted:
                around = [weak[f][cls] for f in others]
                after = interpolated_area([*around, strong[place][cls]], wanted)
                change.append(
                    after - interpolated_area([*around, weak[place][cls]], wanted)
                )
        rewards.append((len(others) + 1) * sum(change) / len(change) if change else 0.0)
    return rewards
