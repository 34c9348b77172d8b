"""Slow twins of AP-swap and of ORIC's reward: the list is put together anew for every frame."""

from reference.matching import average_precision


def area(frames, objects, rule):
    """AP of frames, each a list of (score, right)."""
    rows = [row for frame in frames for row in frame]
    return average_precision([score for score, _ in rows], [right for _, right in rows], objects, rule)


def ap_swap(weak, strong, objects):
    """N x change in AP per frame; `objects` is their total."""
    changes = []
    for place in range(len(weak)):
        swapped = [strong[f] if f == place else weak[f] for f in range(len(weak))]
        changes.append(len(weak) * (area(swapped, objects, "all-point") - area(weak, objects, "all-point")))
    return changes


def reward(weak, strong, objects, context):
    """ORIC's reward per frame; a frame is a list of lists by class, `objects` holds a number per frame and class."""
    rewards = []
    for place in range(len(weak)):
        others = [f for f in context if f != place]
        change = []
        for cls in range(len(objects[place])):
            wanted = objects[place][cls] + sum(objects[f][cls] for f in others)
            if wanted:
                around = [weak[f][cls] for f in others]
                after = area([*around, strong[place][cls]], wanted, "101-point")
                change.append(after - area([*around, weak[place][cls]], wanted, "101-point"))
        rewards.append((len(others) + 1) * sum(change) / len(change) if change else 0.0)
    return rewards
