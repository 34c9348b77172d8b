"""Class-wise non-maximum suppression as plain loops over pairs of boxes."""


def iou(a, b) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    overlap = max(width, 0.0) * max(height, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - overlap
    return overlap / union if union > 0 else 0.0


def nms(boxes, scores, labels, *, iou_max: float, max_boxes: int) -> list[int]:
    kept: list[int] = []
    for row in sorted(range(len(scores)), key=lambda row: (-scores[row], row)):
        rivals = [other for other in kept if labels[other] == labels[row]]
        if all(iou(boxes[row], boxes[other]) <= iou_max for other in rivals):
            kept.append(row)
    return kept[:max_boxes]
