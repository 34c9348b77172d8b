import hashlib
import json
import math

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

import onnx_models
from deepval.basics.errors import InputError
from deepval.basics.files import reading
from deepval.driving.perception.running import decoding, onnx_model
from deepval.driving.perception.running import detector as letterbox
from deepval.driving.perception.running.decoding import DecodedBoxes, FrameError
from deepval.driving.perception.running.detector import (
    DetectorConfig,
    check_size,
    decode_image,
    detect,
    load_detector,
)
from reference import nms as slow
from shared import shared_data

CASES = 2_000
NAMES = {"names": "{0: 'car', 1: 'person'}"}
WHITE = np.full((64, 64, 3), 255, dtype=np.uint8)


def image(height: int, width: int, seed: int = 0) -> np.ndarray:
    picture = np.random.default_rng(seed).integers(
        0, 256, (height, width, 3), dtype=np.uint8
    )
    picture.flags.writeable = False
    return picture


def encoded(picture: np.ndarray, suffix: str = ".jpg") -> bytes:
    return cv2.imencode(suffix, picture)[1].tobytes()


def test_letterbox_centres_the_image_with_the_odd_pixel_below():
    # 60 x 40 into 64: 64 x round(40 * 64 / 60) = 64 x 43, 64 - 43 = 21 rows to share:
    # 10 above, 11 below.
    ready = letterbox.letterbox(np.full((40, 60, 3), 200, dtype=np.uint8), 64)
    inside = np.isclose(ready.tensor[0, 0], 200 / 255)
    assert inside[10 : 10 + 43].all()
    np.testing.assert_allclose(ready.tensor[0, :, :10], 114 / 255, rtol=1e-6)
    np.testing.assert_allclose(ready.tensor[0, :, 53:], 114 / 255, rtol=1e-6)
    assert ready.placement == letterbox.Placement(
        (40, 60), (64, 64), 0, 10, 64 / 60, 43 / 40
    )


def test_tensor_is_red_green_blue_from_0_to_1():
    picture = np.zeros((32, 32, 3), dtype=np.uint8)
    picture[:, :, 0], picture[:, :, 1], picture[:, :, 2] = 51, 102, 255
    tensor = letterbox.stretch(picture, 32).tensor
    assert tensor.dtype == np.float32
    np.testing.assert_allclose(
        tensor[0, :, 5, 7], [255 / 255, 102 / 255, 51 / 255], rtol=1e-6
    )


def test_yolov8_boxes_by_hand(tmp_path):
    detector = load_detector(
        onnx_models.yolov8(tmp_path / "m.onnx"), config=DetectorConfig(nms_iou=0.95)
    )
    assert detector.style == "yolov8"
    found = detect(detector, WHITE, size=64)
    # White has mean 1; the first two boxes overlap by 19 of 21 columns: IoU 19 / 21 <
    # 0.95, so all three stay.
    np.testing.assert_allclose(found.scores, [0.9, 0.8, 0.7], rtol=1e-6)
    assert found.classes.tolist() == ["car", "car", "person"]
    centres = [(30, 20), (31, 20), (50, 40)]
    expected = [
        (cx - 20 / 2, cy - 10 / 2, cx + 20 / 2, cy + 10 / 2) for cx, cy in centres
    ]
    np.testing.assert_allclose(found.boxes_px, expected, rtol=1e-6)
    # With 0.7 < 19 / 21 the second goes.
    found = detect(load_detector(tmp_path / "m.onnx"), WHITE, size=64)
    np.testing.assert_allclose(found.scores, [0.9, 0.7], rtol=1e-6)


def test_yolov8_boxes_in_a_letterboxed_image(tmp_path):
    detector = load_detector(onnx_models.yolov8(tmp_path / "m.onnx"))
    found = detect(detector, np.full((40, 60, 3), 255, dtype=np.uint8), size=64)
    # Placed at left 0, top 10, scaled by 64/60 and 43/40 (see above); scores times the
    # mean with padding.
    mean = (43 * 255 + 21 * 114) / (64 * 255)
    np.testing.assert_allclose(found.scores, [0.9 * mean, 0.7 * mean], rtol=1e-5)
    expected = [20 * 60 / 64, (15 - 10) * 40 / 43, 40 * 60 / 64, (25 - 10) * 40 / 43]
    np.testing.assert_allclose(found.boxes_px[0], expected, rtol=1e-6)


def test_yolov5_score_is_objectness_times_class(tmp_path):
    rows = [
        [30, 20, 20, 10, 0.5, 0.9, 0.1],
        [50, 40, 8, 4, 0.8, 0.3, 0.6],
        [50, 10, 8, 4, 0.1, 0.95, 0.0],
    ]
    path = onnx_models.save(
        tmp_path / "m.onnx",
        {"output": onnx_models.fixed([rows])},
        shapes={"output": [1, "anchors", 7]},
        metadata=NAMES,
    )
    detector = load_detector(path)
    assert detector.style == "yolov5"
    found = detect(detector, WHITE, size=64)
    np.testing.assert_allclose(found.scores, [0.8 * 0.6, 0.5 * 0.9], rtol=1e-6)
    assert found.classes.tolist() == ["person", "car"]
    np.testing.assert_allclose(
        found.boxes_px, [[46, 38, 54, 42], [20, 15, 40, 25]], rtol=1e-6
    )


def cells_of(
    height: int, width: int, strides=(8, 16, 32)
) -> list[tuple[int, int, int]]:
    """Column, row and stride of every cell, by loops."""
    return [
        (column, row, stride)
        for stride in strides
        for row in range(height // stride)
        for column in range(width // stride)
    ]


def yolox_table(
    height: int, width: int, *, decoded: bool, strides=(8, 16, 32)
) -> np.ndarray:
    """Two boxes in the noise of a YOLOX head: 24 x 16 px about (20, 36), and 64 x 32 px
    about (48, 16).
    """
    cells = cells_of(height, width, strides)
    rng = np.random.default_rng(2)
    raw = np.column_stack(
        [rng.normal(0.5, 0.4, (len(cells), 2)), rng.normal(0, 0.5, (len(cells), 2))]
    )
    table = np.column_stack([raw, np.full((len(cells), 3), 0.01)])
    for (column, row, stride), box, scores in (
        ((2, 4, 8), (20, 36, 24, 16), (0.9, 0.8, 0.1)),
        ((1, 0, 32), (48, 16, 64, 32), (0.5, 0.2, 0.6)),
    ):
        place = cells.index((column, row, stride))
        cx, cy, w, h = box
        table[place] = [
            cx / stride - column,
            cy / stride - row,
            math.log(w / stride),
            math.log(h / stride),
            *scores,
        ]
    if decoded:
        for place, (column, row, stride) in enumerate(cells):
            x, y, w, h = table[place, :4]
            table[place, :4] = (
                (x + column) * stride,
                (y + row) * stride,
                math.exp(w) * stride,
                math.exp(h) * stride,
            )
    return table[None]


@pytest.mark.parametrize(
    ("decoded", "style"), [(False, "yolox"), (True, "yolox-decoded")]
)
@pytest.mark.parametrize("strides", [(8, 16, 32), (8, 16, 32, 64)])
@pytest.mark.parametrize("declared", [True, False])
def test_yolox_is_told_from_yolov5_by_its_anchors(
    tmp_path, decoded, style, strides, declared
):
    table = yolox_table(64, 128, decoded=decoded, strides=strides)
    path = onnx_models.save(
        tmp_path / "m.onnx",
        {"output": onnx_models.fixed(table)},
        shapes={"output": table.shape if declared else [1, "anchors", 7]},
        input_shape=(1, 3, 64, 128),
        metadata=NAMES,
    )
    detector = load_detector(path)
    assert detector.style == style
    found = detect(detector, np.zeros((32, 64, 3), np.uint8), size=128)
    np.testing.assert_allclose(found.scores, [0.9 * 0.8, 0.5 * 0.6], rtol=1e-5)
    assert found.classes.tolist() == ["car", "person"]
    # The image of 64 x 32 is doubled, without padding above it; the second box begins
    # at 48 - 64 / 2.
    expected = [[8 / 2, 28 / 2, 32 / 2, 44 / 2], [16 / 2, 0, 80 / 2, 32 / 2]]
    np.testing.assert_allclose(found.boxes_px, expected, atol=1e-4)
    assert load_detector(path, config=DetectorConfig(style="yolov5")).style == "yolov5"


def test_yolov6_has_an_anchor_per_cell_and_is_read_like_yolov5(tmp_path):
    table = yolox_table(64, 64, decoded=True)
    table[..., 4] = 1
    path = onnx_models.save(
        tmp_path / "m.onnx",
        {"output": onnx_models.fixed(table)},
        input_shape=(1, 3, 64, 64),
        metadata=NAMES,
    )
    detector = load_detector(path)
    assert detector.style == "yolov5"
    np.testing.assert_allclose(
        detect(detector, WHITE, size=64).scores, [0.8, 0.6], rtol=1e-5
    )


def test_yolox_sees_blue_green_red_from_0_to_255_in_the_upper_left_corner():
    picture = np.zeros((40, 61, 3), dtype=np.uint8)
    picture[:] = 51, 102, 255
    ready = letterbox.fit_corner(picture, 64)
    # 61 x 40 by 64 / 61: 64 x 41.97, cut to 41 rows; boxes go back by the same 64 / 61
    # on both axes.
    assert ready.tensor.dtype == np.float32
    np.testing.assert_array_equal(ready.tensor[0, :, 40, 63], [51, 102, 255])
    assert (ready.tensor[0, :, 41:] == 114).all()
    assert ready.placement == letterbox.Placement(
        (40, 61), (64, 64), 0, 0, 64 / 61, 64 / 61
    )
    assert letterbox.fit_corner(picture, 96, fixed_hw_px=(32, 96)).tensor.shape == (
        1,
        3,
        32,
        96,
    )


def test_a_yolox_letterbox_keeps_the_pixels_that_its_own_code_makes():
    picture = image(37, 91)
    own = np.full((64, 64, 3), 114, dtype=np.uint8)
    ratio = min(64 / 37, 64 / 91)
    own[: int(37 * ratio), : int(91 * ratio)] = cv2.resize(
        picture, (int(91 * ratio), int(37 * ratio))
    )
    np.testing.assert_array_equal(
        letterbox.fit_corner(picture, 64).tensor[0], own.transpose(2, 0, 1)
    )


def softmax_logits(
    queries: int, classes: int, objects: dict[int, tuple[int, float]]
) -> np.ndarray:
    """Logits of a DETR head: no object (the last) everywhere but where `objects` says
    class and logit.
    """
    logits = np.full((queries, classes), -2.0, dtype=np.float32)
    logits[:, -1] = 6.0
    for query, (cls, logit) in objects.items():
        logits[query, cls] = logit
    return logits[None]


def two_outputs(path, logits, names, *, outputs=("logits", "pred_boxes"), **options):
    boxes = np.tile(np.float32([0.5, 0.5, 0.2, 0.4]), (logits.shape[1], 1))[None]
    tables = {
        outputs[0]: onnx_models.fixed(logits),
        outputs[1]: onnx_models.fixed(boxes),
    }
    return onnx_models.save(
        path, tables, metadata={"names": str(list(names))}, **options
    )


COCO_IDS = [f"id {number}" for number in range(91)]


@pytest.mark.parametrize(
    "outputs", [("logits", "pred_boxes"), ("pred_logits", "pred_boxes")]
)
@pytest.mark.parametrize(
    ("names", "width"),
    [
        ([*COCO_IDS, "N/A"], 92),
        (COCO_IDS, 92),
        (["car", "person", "van", "No-Object"], 4),
        (["car", "person", "van"], 4),
    ],
)
def test_softmax_heads_leave_no_object_out(tmp_path, names, width, outputs):
    logits = softmax_logits(100, width, {7: (2, 8.0), 9: (0, 5.0)})
    detector = load_detector(
        two_outputs(tmp_path / "m.onnx", logits, names, outputs=outputs)
    )
    assert detector.style == "detr-softmax"
    found = detect(detector, image(100, 200), size=64)
    rest = (width - 2) * math.exp(-2)
    strong = math.exp(8) / (math.exp(8) + math.exp(6) + rest)
    weak = math.exp(5) / (math.exp(5) + math.exp(6) + rest)
    np.testing.assert_allclose(found.scores, [strong, weak], rtol=1e-4)
    assert found.classes.tolist() == [names[2], names[0]]
    np.testing.assert_allclose(found.boxes_px, [[80, 30, 120, 70]] * 2, rtol=1e-5)
    nothing = two_outputs(
        tmp_path / "n.onnx", softmax_logits(100, width, {}), names, outputs=outputs
    )
    assert len(detect(load_detector(nothing), image(100, 200), size=64).scores) == 0


def test_a_softmax_head_that_may_be_a_sigmoid_needs_the_style(tmp_path):
    names = ["car", "person", "van", "other", "rest"]
    path = two_outputs(tmp_path / "m.onnx", softmax_logits(50, 5, {3: (1, 9.0)}), names)
    with pytest.raises(
        InputError,
        match=r"detr-softmax with a last logit for no object.*give the style",
    ):
        load_detector(path)
    found = detect(
        load_detector(path, config=DetectorConfig(style="detr-softmax")), WHITE, size=64
    )
    assert found.classes.tolist() == ["person"]
    assert (
        len(
            detect(
                load_detector(path, config=DetectorConfig(style="detr")), WHITE, size=64
            ).scores
        )
        == 50
    )
    # A logit more than names, but not the highest of a blank image: names may be
    # missing.
    other = two_outputs(
        tmp_path / "n.onnx", np.full((1, 50, 6), -4.0, np.float32), names
    )
    with pytest.raises(InputError, match="give the style"):
        load_detector(other)


def test_a_style_that_needs_a_trial_run_says_so_where_there_is_none(tmp_path):
    path = onnx_models.at_one_size(tmp_path / "m.onnx", side=96, metadata=NAMES)
    with pytest.raises(
        InputError,
        match=r"cannot be run at 640 x 640.*Its style cannot be detected: give one of",
    ):
        load_detector(path)
    assert detect(
        load_detector(path, config=DetectorConfig(style="yolov5")), WHITE, size=96
    ).scores.tolist() == [0.25]


def detr_boxes() -> np.ndarray:
    return np.array(
        [[0.5, 0.5, 0.2, 0.4], [0.5, 0.5, 0.2, 0.4], [0.9, 0.9, 0.4, 0.2]],
        dtype=np.float32,
    )


def expected_detr() -> np.ndarray:
    # Shares of a 200 x 100 image; the third, (140, 80, 220, 100), is cut at its edge.
    return np.array([[80, 30, 120, 70], [80, 30, 120, 70], [140, 80, 200, 100]])


def test_detr_with_one_output_scales_shares_and_keeps_overlaps(tmp_path):
    scores = np.array([[0.1, 0.8], [0.7, 0.2], [0.15, 0.05]], dtype=np.float32)
    table = np.concatenate([detr_boxes(), scores], axis=1)[None]
    path = onnx_models.save(
        tmp_path / "m.onnx", {"output0": onnx_models.fixed(table)}, metadata=NAMES
    )
    detector = load_detector(path)
    assert detector.style == "detr"
    found = detect(detector, image(100, 200), size=50)
    np.testing.assert_allclose(found.boxes_px, expected_detr(), rtol=1e-5)
    np.testing.assert_allclose(found.scores, [0.8, 0.7, 0.15], rtol=1e-6)
    assert found.classes.tolist() == ["person", "car", "car"]
    best = detect(
        load_detector(path, config=DetectorConfig(max_boxes=1)),
        image(100, 200),
        size=50,
    )
    np.testing.assert_allclose(best.scores, [0.8], rtol=1e-6)


@pytest.mark.parametrize("names", [("logits", "pred_boxes"), ("a", "b")])
def test_detr_with_two_outputs_takes_the_sigmoid(tmp_path, names):
    logits = np.array(
        [[[-3.0, 1.0, -9.0], [0.5, -4.0, -9.0], [-2.0, -9.0, -9.0]]], dtype=np.float32
    )
    outputs = {
        names[0]: onnx_models.fixed(logits),
        names[1]: onnx_models.fixed(detr_boxes()[None]),
    }
    classes = tmp_path / "names.json"
    classes.write_text(json.dumps(["car", "person", "van"]))
    path = onnx_models.save(tmp_path / "m.onnx", outputs)
    detector = load_detector(path, names=classes)
    found = detect(detector, image(100, 200), size=64)
    np.testing.assert_allclose(found.boxes_px, expected_detr(), rtol=1e-5)
    expected = [
        1 / (1 + math.exp(-1.0)),
        1 / (1 + math.exp(-0.5)),
        1 / (1 + math.exp(2.0)),
    ]
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6)
    assert found.classes.tolist() == ["person", "car", "car"]


@pytest.mark.parametrize("shape", [(1, 300, 6, 1), (1, 300), (1, 10, 12), (1, 38, 100)])
def test_unsupported_output_is_one_sentence_with_its_shape(tmp_path, shape):
    path = onnx_models.save(
        tmp_path / "m.onnx",
        {"output0": onnx_models.fixed(np.zeros(shape))},
        metadata=NAMES,
    )
    with pytest.raises(
        InputError, match=r"\[batch, 6, anchors\].*and is output0 \[1, "
    ):
        load_detector(path)


@pytest.mark.parametrize(("row", "what"), [(0, "boxes"), (5, "scores")])
def test_outputs_that_are_no_numbers_fail_the_frame(tmp_path, row, what):
    table = np.array([[30, 20, 20, 10, 0.9, 0.1]], dtype=np.float32).T[None]
    table[0, row, 0] = np.nan
    path = onnx_models.save(
        tmp_path / "m.onnx", {"output0": onnx_models.fixed(table)}, metadata=NAMES
    )
    detector = load_detector(path, config=DetectorConfig(style="yolov8"))
    with pytest.raises(FrameError, match=f"{what} are not finite"):
        detect(detector, WHITE, size=64)


def test_class_names_from_file_or_metadata(tmp_path):
    path = onnx_models.yolov8(tmp_path / "m.onnx")
    assert load_detector(path).names == ("car", "person")
    for content in (["a", "b"], {"1": "b", "0": "a"}):
        (tmp_path / "names.json").write_text(json.dumps(content))
        assert load_detector(path, names=tmp_path / "names.json").names == ("a", "b")
    bare = onnx_models.yolov8(tmp_path / "bare.onnx", metadata={})
    with pytest.raises(InputError, match="holds no class names"):
        load_detector(bare)
    for content in (["a", 2], {"1": "b", "2": "c"}, [], 3):
        (tmp_path / "names.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"list of text or a mapping.*names\.json"):
            load_detector(path, names=tmp_path / "names.json")
    (tmp_path / "names.json").write_text("{")
    with pytest.raises(InputError, match="must be class names in JSON"):
        load_detector(path, names=tmp_path / "names.json")
    with pytest.raises(InputError, match="the model's are neither"):
        load_detector(
            onnx_models.yolov8(tmp_path / "odd.onnx", metadata={"names": "open("})
        )


def test_resolutions_are_multiples_of_the_stride(tmp_path):
    detector = load_detector(onnx_models.yolov8(tmp_path / "m.onnx"))
    with pytest.raises(
        InputError, match="multiple of 32 for this model, and 100 is not: use 128"
    ):
        check_size(detector, 100)
    with pytest.raises(InputError, match="positive"):
        check_size(detector, 0)
    coarse = load_detector(
        onnx_models.yolov8(tmp_path / "p6.onnx", metadata={**NAMES, "stride": "64"})
    )
    with pytest.raises(InputError, match="multiple of 64"):
        check_size(coarse, 96)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"task": "segment"}, "and the task of .* is 'segment'"),
        ({"end2end": "True"}, "without embedded NMS"),
        ({"args": "{'nms': True, 'batch': 1}"}, "without embedded NMS"),
    ],
)
def test_models_that_are_no_plain_detectors_are_refused(tmp_path, metadata, reason):
    path = onnx_models.yolov8(tmp_path / "m.onnx", metadata={**NAMES, **metadata})
    with pytest.raises(InputError, match=reason):
        load_detector(path)


@pytest.mark.parametrize(
    "shape", [(4, 3, "h", "w"), (1, 1, 64, 64), (1, 3, 64, "w"), (1, 3, "h")]
)
def test_inputs_that_are_no_images_are_refused(tmp_path, shape):
    path = onnx_models.yolov8(tmp_path / "m.onnx", input_shape=shape)
    with pytest.raises(InputError, match="one float input"):
        load_detector(path)


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(InputError, match="there is none at"):
        load_detector(tmp_path / "absent.onnx")
    (tmp_path / "text.onnx").write_text("weights")
    with pytest.raises(InputError, match="cannot be loaded as one"):
        load_detector(tmp_path / "text.onnx")
    with pytest.raises(
        InputError,
        match=(
            r"provider must be one that ONNX Runtime has here "
            r"\(.*cpu.*\), and is NoProvider"
        ),
    ):
        load_detector(
            onnx_models.yolov8(tmp_path / "m.onnx"),
            config=DetectorConfig(provider="NoProvider"),
        )


@pytest.mark.parametrize(
    "text", [b"author", b"nobody", b"images", b"output0", b"width"]
)
def test_texts_that_are_no_utf_8_are_refused(tmp_path, text):
    names = {"names": "{0: 'car'}", "author": "nobody"}
    path = onnx_models.yolov8(tmp_path / "m.onnx", metadata=names)
    content = path.read_bytes()
    assert text in content
    path.write_bytes(content.replace(text, b"\xff" + text[1:]))
    with pytest.raises(InputError, match=r"m\.onnx"):
        _ = load_detector(path).names


def test_missing_library_names_the_extra():
    with pytest.raises(
        InputError,
        match=r"needs no_such_runtime, which is not installed: .* install .*\[vision\]",
    ):
        onnx_model.vision("no_such_runtime")


@pytest.mark.parametrize(
    "figures",
    [
        {"style": "ssd"},
        {"min_score": 0.0},
        {"nms_iou": 1.5},
        {"max_boxes": 0},
        {"threads": 0},
    ],
)
def test_config_refuses_figures_outside_their_range(figures):
    with pytest.raises(InputError):
        DetectorConfig(**figures)


def test_hash_covers_tensors_kept_in_another_file(tmp_path):
    plain = onnx_models.yolov8(tmp_path / "plain.onnx")
    assert (
        onnx_model.weights_sha256(plain)
        == hashlib.sha256(plain.read_bytes()).hexdigest()
    )
    path = onnx_models.yolov8(tmp_path / "m.onnx", external=True)
    before = onnx_model.weights_sha256(path)
    beside = tmp_path / "m.onnx.data"
    beside.write_bytes(beside.read_bytes()[:-1] + b"\x01")
    assert onnx_model.weights_sha256(path) != before


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp"])
def test_truncated_images_fail(suffix):
    whole = encoded(image(60, 80), suffix)
    assert decode_image(whole).shape == (60, 80, 3)
    for share in (0.02, 0.5, 0.95):
        with pytest.raises(FrameError):
            decode_image(whole[: int(share * len(whole))])
    with pytest.raises(FrameError, match="empty"):
        decode_image(b"")


def test_a_png_whose_chunk_is_longer_than_the_file_is_not_decoded(
    monkeypatch, tmp_path
):
    whole = encoded(image(8, 8), ".png")
    at = whole.index(b"IDAT") - 4
    long = whole[:at] + (0x37FFFFFF).to_bytes(4, "big") + whole[at + 4 :]
    # it would take a gigabyte
    monkeypatch.setattr(
        onnx_model.vision("cv2"), "imdecode", lambda *_: pytest.fail("decoded")
    )
    with pytest.raises(FrameError, match="truncated, or a length in it is wrong"):
        decode_image(long)
    with pytest.raises(InputError, match=r"x\.png: must be .* a length in it is wrong"):
        reading.check_pixels(long, tmp_path / "x.png")


def random_candidates(rng: np.random.Generator) -> DecodedBoxes:
    n = int(rng.integers(0, 25))
    corner, side = rng.integers(0, 12, (n, 2)), rng.integers(0, 9, (n, 2))
    boxes = np.concatenate([corner, corner + side], axis=1).astype(np.float32)
    return DecodedBoxes(
        boxes, rng.integers(1, 9, n) / np.float32(8), rng.integers(0, 3, n)
    )


def test_nms_equals_plain_loops():
    rng = np.random.default_rng(5)
    for _ in range(CASES):
        found = random_candidates(rng)
        limits = {
            "iou_max": float(rng.choice([0.3, 0.5, 0.7])),
            "max_boxes": int(rng.integers(1, 20)),
        }
        expected = slow.nms(
            found.boxes_px.tolist(),
            found.scores.tolist(),
            found.labels.tolist(),
            **limits,
        )
        assert decoding.nms(found, **limits).tolist() == expected


def assert_equal_to_published(
    detector, folder, published, *, size, every=1, stretch_xy=(1.0, 1.0)
) -> int:
    table = pq.read_table(published).to_pandas()
    corners = np.array([*stretch_xy, *stretch_xy])
    count = 0
    for path in sorted(folder.glob("*/*.jpg"))[::every]:
        found = detect(detector, decode_image(path.read_bytes()), size=size)
        rows = table[(table.seq == path.parent.name) & (table.frame == int(path.stem))]
        assert found.classes.tolist() == rows.cls.tolist(), path
        np.testing.assert_allclose(
            found.scores, rows.score, atol=1e-3, rtol=0, err_msg=str(path)
        )
        boxes = rows[["x1", "y1", "x2", "y2"]].to_numpy()
        np.testing.assert_allclose(
            found.boxes_px * corners, boxes, atol=0.01, rtol=0, err_msg=str(path)
        )
        count += len(rows)
    return count


def kitti_boxes(size: int, *, every: int) -> int:
    names = shared_data("weights", "coco80_names.json")
    detector = load_detector(
        shared_data("weights", "yolov8s.onnx"),
        names=names,
        config=DetectorConfig(threads=1),
    )
    published = shared_data("kitti_tracking", "detections", f"yolov8s_{size}.parquet")
    folder = shared_data("kitti_tracking", "training", "image_02")
    return assert_equal_to_published(
        detector, folder, published, size=size, every=every
    )


def small_image_boxes(size: int, *, every: int) -> int:
    detector = load_detector(
        shared_data("weights", "yolov8s.onnx"), config=DetectorConfig(threads=1)
    )
    published = shared_data(
        "kitti_tracking", "detections", f"yolov8s_lowres_{size}.parquet"
    )
    folder = shared_data("kitti_tracking", "training", "image_02_lowres")
    stretch = (1242 / 397, 375 / 120)
    return assert_equal_to_published(
        detector, folder, published, size=size, every=every, stretch_xy=stretch
    )


@pytest.mark.shared
@pytest.mark.parametrize("size", [320, 384, 512, 640])
def test_yolov8s_equals_the_published_detections_on_every_fourth_image(size):
    assert kitti_boxes(size, every=4) > 50


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "boxes"), [(320, 310), (384, 435), (512, 753), (640, 1102)]
)
def test_yolov8s_equals_all_published_detections(size, boxes):
    assert kitti_boxes(size, every=1) == boxes


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "boxes"), [(192, 1037), (256, 1554), (320, 1877), (384, 2067)]
)
def test_yolov8s_equals_all_published_detections_on_small_images(size, boxes):
    assert small_image_boxes(size, every=1) == boxes
