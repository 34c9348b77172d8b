"""RT-DETR's published post-processing in plain loops: sigmoid, the best pairs of query
and class, corners in pixels.
"""

import math


def decode(
    logits, boxes, *, width: int, height: int, most: int
) -> list[tuple[int, int, float, tuple[float, ...]]]:
    """Query, class, score and box (x1, y1, x2, y2) of the best pairs, best first; boxes
    are shares (cx, cy, w, h).
    """
    pairs = [
        (query, cls, 1.0 / (1.0 + math.exp(-float(logit))))
        for query, row in enumerate(logits)
        for cls, logit in enumerate(row)
    ]
    pairs.sort(key=lambda pair: -pair[2])
    decoded = []
    for query, cls, score in pairs[:most]:
        cx, cy, w, h = map(float, boxes[query])
        box = (
            (cx - w / 2) * width,
            (cy - h / 2) * height,
            (cx + w / 2) * width,
            (cy + h / 2) * height,
        )
        decoded.append((query, cls, score, box))
    return decoded
