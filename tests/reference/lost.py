"""Missing objects by their definition: every object of the last frames against every
box since, one by one.
"""

from reference.driving import iou

WINDOW, LEAST_IOU = 8, 0.3


def lost_objects(frames, *, speed_mps, dt_s):
    """(range now, index of the object in its frame, frames missing) of the missing
    objects of each frame.

    `frames` holds one list of (x1, y1, x2, y2, range) per frame.
    """
    found = []
    for now in range(len(frames)):
        missing = []
        for seen in range(max(0, now - WINDOW + 1), now):
            for place, (*box, range_m) in enumerate(frames[seen]):
                later = [
                    other[:4] for frame in frames[seen + 1 : now + 1] for other in frame
                ]
                if all(iou(box, other) < LEAST_IOU for other in later):
                    way = sum(speed_mps[t] * dt_s[t] for t in range(seen + 1, now + 1))
                    missing.append((range_m - way, place, now - seen))
        found.append(missing)
    return found
