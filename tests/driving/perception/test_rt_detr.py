"""Decoding of RT-DETR outputs against the published description, on outputs of random
weights at three sizes.

The published list has the best pairs of query and class, so that a query may be in it
under several classes. A box has one class here: each query appears with the first of
its pairs.
"""

import numpy as np
import pytest

import onnx_models
from deepval.driving.perception.running.decoding import best_first, candidates
from deepval.driving.perception.running.detector import detect, load_detector
from reference import rt_detr

QUERIES, CLASSES, MOST = 300, 80, 300


@pytest.mark.parametrize(
    ("height", "width"), [(320, 320), (480, 480), (640, 640), (320, 640)]
)
@pytest.mark.parametrize("one_output", [False, True])
def test_each_query_has_its_best_published_entry(height, width, one_output):
    rng = np.random.default_rng(height)
    # A random head on random features, as after the last decoder layer: class logits
    # with the usual prior, box shares.
    features = rng.normal(size=(QUERIES, 256))
    logits = (features @ rng.normal(0, 0.08, (256, CLASSES)) - 4.6).astype(np.float32)
    boxes = (1 / (1 + np.exp(-features @ rng.normal(0, 0.1, (256, 4))))).astype(
        np.float32
    )
    published = rt_detr.decode(
        logits, boxes, width=width, height=height, most=QUERIES * CLASSES
    )
    best = {}
    for query, cls, score, box in published:
        best.setdefault(query, (query, cls, score, box))
    expected = [entry for entry in best.values() if entry[2] >= 0.10][:MOST]
    outputs = {"logits": logits[None], "pred_boxes": boxes[None]}
    if one_output:
        outputs = {
            "output0": np.concatenate([boxes, 1 / (1 + np.exp(-logits))], axis=1)[
                None
            ].astype(np.float32)
        }
    decoded = candidates(
        outputs, "detr", classes=CLASSES, input_hw_px=(height, width), min_score=0.10
    )
    order = best_first(decoded, max_boxes=MOST)
    assert len(order) == len(expected) > 50
    assert decoded.labels[order].tolist() == [cls for _, cls, _, _ in expected]
    np.testing.assert_allclose(
        decoded.scores[order], [score for _, _, score, _ in expected], rtol=1e-4
    )
    np.testing.assert_allclose(
        decoded.boxes_px[order], [box for *_, box in expected], rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("size", [320, 480, 640])
def test_a_picture_through_a_random_model(tmp_path, size):
    """Boxes in pixels of the picture, which is stretched to the model's square
    input.
    """
    rng = np.random.default_rng(size)
    logits = rng.normal(-5, 2, (QUERIES, 3)).astype(np.float32)
    boxes = np.concatenate(
        [rng.uniform(0.3, 0.7, (QUERIES, 2)), rng.uniform(0.05, 0.5, (QUERIES, 2))],
        axis=1,
    )
    boxes = boxes.astype(np.float32)
    outputs = {
        "logits": onnx_models.fixed(logits[None]),
        "pred_boxes": onnx_models.fixed(boxes[None]),
    }
    path = onnx_models.save(
        tmp_path / "m.onnx",
        outputs,
        metadata={"names": "{0: 'car', 1: 'person', 2: 'truck'}"},
    )
    reported = detect(
        load_detector(path), np.zeros((375, 1242, 3), dtype=np.uint8), size=size
    )
    best = {}
    for query, cls, score, box in rt_detr.decode(
        logits, boxes, width=1242, height=375, most=QUERIES * 3
    ):
        best.setdefault(query, (cls, score, box))
    expected = [entry for entry in best.values() if entry[1] >= 0.10]
    assert len(reported.scores) == len(expected) > 30
    assert reported.classes.tolist() == [
        ("car", "person", "truck")[cls] for cls, _, _ in expected
    ]
    np.testing.assert_allclose(
        reported.scores, [score for _, score, _ in expected], rtol=1e-4
    )
    np.testing.assert_allclose(
        reported.boxes_px, [box for *_, box in expected], rtol=1e-4, atol=1e-2
    )
