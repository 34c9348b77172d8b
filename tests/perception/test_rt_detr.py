"""Decoding of RT-DETR outputs against the published description, on outputs of random weights at three sizes."""

import numpy as np
import pytest

from deepval.perception.running.decoding import best_first, candidates
from reference import rt_detr

QUERIES, CLASSES, MOST = 300, 80, 300


@pytest.mark.parametrize("size", [320, 480, 640])
@pytest.mark.parametrize("one_output", [False, True])
def test_each_query_has_its_best_published_entry(size, one_output):
    rng = np.random.default_rng(size)
    # A random head on random features, as after the last decoder layer: class logits with the usual prior, box shares.
    features = rng.normal(size=(QUERIES, 256))
    logits = (features @ rng.normal(0, 0.08, (256, CLASSES)) - 4.6).astype(np.float32)
    boxes = (1 / (1 + np.exp(-features @ rng.normal(0, 0.1, (256, 4))))).astype(np.float32)
    published = rt_detr.decode(logits, boxes, width=size, height=size, most=QUERIES * CLASSES)
    best = {}
    for query, cls, score, box in published:
        best.setdefault(query, (query, cls, score, box))
    expected = [entry for entry in best.values() if entry[2] >= 0.10][:MOST]
    outputs = {"logits": logits[None], "pred_boxes": boxes[None]}
    if one_output:
        outputs = {"output0": np.concatenate([boxes, 1 / (1 + np.exp(-logits))], axis=1)[None].astype(np.float32)}
    decoded = candidates(outputs, "detr", classes=CLASSES, input_hw_px=(size, size), min_score=0.10)
    order = best_first(decoded, max_boxes=MOST)
    assert len(order) == len(expected) > 50
    assert decoded.labels[order].tolist() == [cls for _, cls, _, _ in expected]
    np.testing.assert_allclose(decoded.scores[order], [score for _, _, score, _ in expected], rtol=1e-4)
    np.testing.assert_allclose(decoded.boxes_px[order], [box for *_, box in expected], rtol=1e-4, atol=1e-3)
    # The published list may repeat a query under its second class; a box has one class here.
    listed = [query for query, _, score, _ in published[:MOST] if score >= 0.10]
    assert set(listed) <= set(best)
    assert len(listed) >= len(set(listed)) > 50
