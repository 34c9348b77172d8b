"""Slow twins of matching and average precision: every assignment tried, every threshold
walked.
"""

import numpy as np

from reference.driving import iou

GROUPS = {"Pedestrian": "person", "Person_sitting": "person", "Cyclist": "cyclist"}


def group(cls):
    return GROUPS.get(cls, "vehicle")


def allowed(det, ref):
    return group(det[0]) == group(ref[0]) and iou(det[1], ref[1]) >= 0.5


def best_assignment(dets, refs):
    """(total IoU, pairs) of the best one-to-one matching of one frame, by trying
    all.
    """
    if not dets:
        return 0.0, []
    best = best_assignment(dets[1:], refs)
    best = best[0], [(i + 1, j) for i, j in best[1]]
    for j, ref in enumerate(refs):
        if ref is not None and allowed(dets[0], ref):
            rest = best_assignment(dets[1:], [*refs[:j], None, *refs[j + 1 :]])
            total = rest[0] + iou(dets[0][1], ref[1])
            if total > best[0]:
                best = total, [(0, j), *((i + 1, k) for i, k in rest[1])]
    return best


def excused(det, ignored_refs, regions):
    box = det[1]
    own = (box[2] - box[0]) * (box[3] - box[1])
    for ref in ignored_refs:
        if iou(box, ref[1]) >= 0.5:
            return True
    for region in regions:
        width = min(box[2], region[2]) - max(box[0], region[0])
        height = min(box[3], region[3]) - max(box[1], region[1])
        if max(width, 0) * max(height, 0) / own >= 0.5:
            return True
    return False


def greedy(dets, scores, refs):
    """Which detections of a frame find an object, by falling score."""
    free, found = set(range(len(refs))), [False] * len(dets)
    for i in sorted(range(len(dets)), key=lambda i: -scores[i]):
        options = [
            (iou(dets[i][1], refs[j][1]), j) for j in free if allowed(dets[i], refs[j])
        ]
        if options:
            free.remove(max(options)[1])
            found[i] = True
    return found


def average_precision(scores, right, objects, rule):
    """Area under the precision envelope, from the definition."""
    points = []
    for threshold in sorted(set(scores), reverse=True):
        kept = [r for s, r in zip(scores, right, strict=True) if s >= threshold]
        points.append((sum(kept), len(kept)))
    if rule == "101-point":
        heights = []
        for percent in range(101):
            reached = [tp / n for tp, n in points if 100 * tp >= percent * objects]
            heights.append(max(reached, default=0.0))
        return float(np.mean(heights))
    total, before = 0.0, 0
    for tp, _ in points:
        total += (tp - before) / objects * max(t / n for t, n in points if t >= tp)
        before = tp
    return total
