import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deepval.errors import InputError, InputWarning
from deepval.geometry.classes import (
    CLASSES,
    HEIGHT_M,
    KITTI_CLASSES,
    LENGTH_M,
    lookup,
    super_class,
)
from deepval.perception.reported.cache import FrameRecord
from deepval.perception.reported.detection_rows import Source
from deepval.perception.reported.detections import (
    DONE,
    FAILED,
    NEVER_RUN,
    Calibration,
    Coverage,
    calibrate,
    check_coverage,
    check_whole,
    coverage,
)
from deepval.perception.reported.losses import fit_calibration, graded_scores
from deepval.perception.running.decoding import FrameDetections
from driving import detections, scene, truth
from in_memory import DetectionSet, read_detections
from whole_sets import write_unit

SCENES = [scene(3, unit="0000"), scene(2, unit="0001")]
COLUMNS = {
    "seq": ["0000", "0000", "0001", "0000"],
    "frame": [2, 0, 1, 1],
    "cls": ["Car", "car", "dog", "Van"],
    "score": [0.5, 0.9, 0.4, 0.3],
    "x1": [0.0, 1.0, 2.0, 3.0],
    "y1": [0.0] * 4,
    "x2": [9.0, 9.0, 9.0, 3.0],
    "y2": [9.0] * 4,
}


def parquet(path, columns=COLUMNS, **meta):
    pq.write_table(pa.table(columns).replace_schema_metadata(meta or None), path)
    return path


def kitti_line(frame, cls="Car", *, score=None):
    words = [frame, 7, cls, 0, 0, -10, 1, 2, 30, 40, 1.5, 1.6, 4.0, 2.0, 1.7, 20.0, 0.3]
    return (
        " ".join(str(word) for word in [*words, *([] if score is None else [score])])
        + "\n"
    )


def test_parquet_is_mapped_sorted_and_cleaned(tmp_path):
    found = read_detections(parquet(tmp_path / "m.parquet"), SCENES)
    assert (found.mode, found.scores, dict(found.dropped)) == (
        "m",
        "probabilities",
        {"degenerate": 1, "class": 1},
    )
    assert found["0000"].frame.tolist() == [0, 2]
    assert found["0000"].cls.tolist() == ["Car", "Car"]
    assert found["0000"].score.tolist() == [0.9, 0.5]
    assert len(found["0001"]) == 0
    assert len(found) == 2
    assert found["0000"].run.all()


def test_parquet_metadata_say_what_was_run(tmp_path):
    meta = {
        "frames_run": json.dumps({"0000": ["000000", "000002"]}),
        "frames_failed": json.dumps({"0001": [1]}),
    }
    columns = {name: values[:2] for name, values in COLUMNS.items()}
    found = read_detections(
        parquet(tmp_path / "m.parquet", columns, scores="raw", mode="x", **meta), SCENES
    )
    assert (found.mode, found.scores) == ("x", "raw")
    assert found["0000"].status.tolist() == [DONE, NEVER_RUN, DONE]
    assert found["0001"].status.tolist() == [NEVER_RUN, FAILED]


def test_counts_of_processed_frames_serve_where_they_are_unambiguous(tmp_path):
    columns = {name: values[:2] for name, values in COLUMNS.items()}
    path = parquet(
        tmp_path / "m.parquet", columns, frames_processed=json.dumps({"0000": 3})
    )
    assert [
        found.run.any() for found in read_detections(path, SCENES).units.values()
    ] == [True, False]
    path = parquet(
        tmp_path / "m.parquet", columns, frames_processed=json.dumps({"0000": 2})
    )
    with pytest.raises(
        InputError, match=r"2 of the 3 frames of unit 0000.*give frames_run"
    ):
        read_detections(path, SCENES)
    told = Source(frames_run={"0000": np.array([True, False, True])})
    assert read_detections(path, SCENES, source=told)["0000"].run.tolist() == [
        True,
        False,
        True,
    ]


def test_boxes_on_a_frame_that_was_not_run_are_an_error(tmp_path):
    with pytest.raises(InputError, match="only frames that were run"):
        read_detections(
            parquet(tmp_path / "m.parquet"),
            SCENES,
            source=Source(frames_run={"0000": [1]}),
        )


def test_kitti_text_knows_absent_files_from_empty_ones(tmp_path):
    (tmp_path / "0000.txt").write_text(
        kitti_line(2, score=0.5) + "\n" + kitti_line(0, "Person", score=0.9)
    )
    found = read_detections(tmp_path, SCENES)
    assert found["0000"].cls.tolist() == ["Person_sitting", "Car"]
    assert found["0000"].box_px[0].tolist() == [1, 2, 30, 40]
    assert found["0000"].track is not None
    assert found["0000"].cuboid_m[0].tolist() == pytest.approx(
        [2.0, 1.7 - 1.5 / 2, 20.0, 4.0, 1.6, 1.5, 0.3]
    )
    assert not found["0001"].run.any()
    (tmp_path / "0001.txt").write_text("")
    assert read_detections(tmp_path, SCENES)["0001"].run.all()


def test_kitti_text_without_scores_has_none(tmp_path):
    (tmp_path / "0000.txt").write_text(kitti_line(0))
    found = read_detections(tmp_path / "0000.txt", SCENES)
    assert found.scores == "none"
    assert np.isnan(found["0000"].score).all()
    with pytest.raises(InputError, match="has no scores"):
        found.above(0.25)
    (tmp_path / "0000.txt").write_text(kitti_line(0) + kitti_line(1, score=0.5))
    with pytest.raises(InputError, match="some without"):
        read_detections(tmp_path, SCENES)
    (tmp_path / "0000.txt").write_text("1 2 3\n")
    with pytest.raises(InputError, match=r"17 or 18 columns.*3 in line 1"):
        read_detections(tmp_path, SCENES)
    (tmp_path / "0000.txt").write_text(kitti_line("one"))
    with pytest.raises(InputError, match="must hold numbers"):
        read_detections(tmp_path, SCENES)


def test_coco_results_with_and_without_annotations(tmp_path):
    rows = [
        {
            "image_id": "0000/000002",
            "category_id": 3,
            "bbox": [1, 2, 10, 20],
            "score": 0.5,
        },
        {
            "image_id": "0000/000000",
            "category_id": 18,
            "bbox": [1, 2, 10, 20],
            "score": 0.5,
        },
    ]
    (tmp_path / "r.json").write_text(json.dumps(rows))
    found = read_detections(tmp_path / "r.json", SCENES)
    assert found["0000"].frame.tolist() == [2]
    assert found["0000"].box_px.tolist() == [[1, 2, 11, 22]]
    assert found.dropped["class"] == 1
    about = {
        "images": [{"id": 5, "file_name": "images/0001/000001.jpg"}],
        "categories": [{"id": 0, "name": "bus"}],
    }
    (tmp_path / "a.json").write_text(json.dumps(about))
    (tmp_path / "r.json").write_text(
        json.dumps([{**rows[0], "image_id": 5, "category_id": 0}])
    )
    found = read_detections(
        tmp_path / "r.json", SCENES, annotations=tmp_path / "a.json"
    )
    assert (found["0001"].frame.tolist(), found["0001"].cls.tolist()) == ([1], ["Bus"])
    (tmp_path / "r.json").write_text(json.dumps([{"image_id": 6}]))
    with pytest.raises(InputError, match="COCO results must have"):
        read_detections(tmp_path / "r.json", SCENES, annotations=tmp_path / "a.json")


def test_nuscenes_results_have_cuboids_in_the_world_frame(tmp_path):
    row = {
        "translation": [10.0, 20.0, 1.0],
        "size": [1.9, 4.6, 1.5],
        "rotation": [np.cos(0.2), 0, 0, np.sin(0.2)],
        "velocity": [1.0, 2.0],
        "detection_name": "car",
        "detection_score": 0.7,
    }
    content = {
        "meta": {},
        "results": {"000001": [row], "000000": [], "elsewhere": [row]},
    }
    (tmp_path / "n.json").write_text(json.dumps(content))
    found = read_detections(tmp_path / "n.json", [SCENES[0]])["0000"]
    assert found.cuboid_frame == "world"
    assert found.cuboid_m[0].tolist() == pytest.approx([10, 20, 1, 4.6, 1.9, 1.5, 0.4])
    assert found.velocity_mps[0].tolist() == [1, 2]
    assert np.isnan(found.box_px).all()
    assert found.status.tolist() == [DONE, DONE, NEVER_RUN]
    content["results"]["000001"][0].pop("size")
    (tmp_path / "n.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="nuScenes results must follow"):
        read_detections(tmp_path / "n.json", [SCENES[0]])


def test_nuscenes_results_keep_all_ten_classes(tmp_path):
    names = [
        "car",
        "truck",
        "bus",
        "trailer",
        "construction_vehicle",
        "pedestrian",
        "motorcycle",
        "bicycle",
        "traffic_cone",
        "barrier",
    ]
    row = {
        "translation": [10.0, 20.0, 1.0],
        "size": [1.9, 4.6, 1.5],
        "rotation": [1, 0, 0, 0],
        "detection_score": 0.7,
    }
    listed = [{**row, "detection_name": name} for name in names]
    (tmp_path / "n.json").write_text(json.dumps({"results": {"000001": listed}}))
    found = read_detections(tmp_path / "n.json", [SCENES[0]])
    assert dict(found.dropped) == {"degenerate": 0, "class": 0}
    cls = found["0000"].cls
    assert cls[-2:].tolist() == ["Traffic_cone", "Barrier"]
    assert super_class(cls).tolist() == ["vehicle"] * 5 + [
        "person",
        "cyclist",
        "cyclist",
        "static",
        "static",
    ]
    assert lookup(cls, HEIGHT_M)[-2:].tolist() == [1.06, 0.98]
    assert lookup(cls, LENGTH_M)[-2:].tolist() == [0.4, 0.5]


def test_barriers_and_cones_are_no_classes_of_kitti(tmp_path):
    path = parquet(
        tmp_path / "m.parquet",
        COLUMNS | {"cls": ["Barrier", "car", "traffic_cone", "Van"]},
    )
    assert read_detections(path, SCENES).dropped["class"] == 2
    assert tuple(KITTI_CLASSES)[:-1] == CLASSES
    assert len(CLASSES) == 9


def test_files_that_cannot_be_read_are_named(tmp_path):
    for name, text, match in [
        ("a.parquet", "x", "must be a complete Parquet file"),
        ("a.json", "{", "must be a JSON file; "),
        ("b.json", "{}", "must be a list"),
        ("a.xml", "x", "must be .parquet"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=match):
            read_detections(tmp_path / name, SCENES)
    with pytest.raises(InputError, match="nothing there"):
        read_detections(tmp_path / "none.parquet", SCENES)
    with pytest.raises(InputError, match="lacks cls"):
        read_detections(
            parquet(
                tmp_path / "c.parquet", {k: v for k, v in COLUMNS.items() if k != "cls"}
            ),
            SCENES,
        )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seq": ["7", "7", "7", "7"]}, "must hold units of the data set"),
        ({"frame": [2, 0, 1, 3]}, None),
        ({"frame": [3, 0, 1, 1]}, "frames must be those of unit 0000"),
        (
            {"score": [5.0, 0.9, 0.4, 0.3]},
            r"declare them as raw \(--scores-are NAME=raw\)",
        ),
        ({"score": [float("nan"), 0.9, 0.4, 0.3]}, "some without"),
    ],
)
def test_rows_that_do_not_fit_are_an_error(tmp_path, change, match):
    path = parquet(tmp_path / "m.parquet", COLUMNS | change)
    if match is None:
        assert len(read_detections(path, SCENES)) == 2
        return
    with pytest.raises(InputError, match=match):
        read_detections(path, SCENES)


CUBOIDS = {
    "h": [1.5] * 4,
    "w": [1.6] * 4,
    "l": [4.0] * 4,
    "X": [0.0] * 4,
    "Y": [1.7] * 4,
    "Z": [20.0] * 4,
    "ry": [0.1] * 4,
}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"frame": [2.0, 0.0, 1.5, 1.0]},
            r"frame numbers must be whole; .* has 1\.5 in row 3 \(0001/1\.5\)",
        ),
        (
            {"frame": [2.0, None, 1.0, 1.0]},
            r"frame numbers must be whole; .* has nan in row 2 \(0000/nan\)",
        ),
        (
            {"frame": [2.0, 0.0, 1.0, 1e300]},
            r"frame numbers must be whole; .* has 1e\+300 in row 4",
        ),
        (
            {"track_id": [1.0, 2.5, 3.0, 4.0]},
            r"track ids must be whole numbers; .* has 2\.5 in row 2 \(0000/0\)",
        ),
        (
            {"track_id": [1.0, 2.0, 3.0, None]},
            r"track ids must be whole numbers; .* has nan in row 4 \(0000/1\)",
        ),
        (
            {"x2": [9.0, np.inf, 9.0, 3.0]},
            r"boxes must be finite .* has 1, 0, inf, 9 in row 2 \(0000/0\)",
        ),
        (
            {"y1": [-np.inf, 0.0, 0.0, 0.0]},
            r"boxes must be finite .* has 0, -inf, 9, 9 in row 1 \(0000/2\)",
        ),
        ({"x2": [9.0, 1e308, 9.0, 3.0]}, r"within 1e\+06 px; .* in row 2 \(0000/0\)"),
        (
            {"x1": [0.0, 1.0, 2.0, None]},
            r"boxes must be finite .* has nan, 0, 3, 9 in row 4 \(0000/1\)",
        ),
        (
            {name: [None, 1.0, 2.0, 3.0] for name in ("x1", "y1", "x2", "y2")},
            r"has nan, nan, nan, nan in row 1",
        ),
        (
            {"score": [0.5, 0.9, np.inf, 0.3]},
            r"scores must be finite; .* has inf in row 3 \(0001/1\)",
        ),
        (
            CUBOIDS | {"Z": [20.0, np.inf, 20.0, 20.0]},
            r"cuboids must be finite .* inf, .* in row 2 \(0000/0\)",
        ),
        (
            CUBOIDS | {"ry": [0.1, 0.1, 0.1, None]},
            r"cuboids must be finite .* nan in row 4 \(0000/1\)",
        ),
        (
            {"x1": ["a", "b", "c", "d"]},
            "column 'x1' must hold numbers; row 1 holds 'a'",
        ),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_with_row_and_id(
    tmp_path, change, match
):
    path = parquet(tmp_path / "m.parquet", COLUMNS | change)
    with pytest.raises(InputError, match=match):
        read_detections(path, SCENES, source=Source(scores="raw"))


def test_whole_numbers_may_be_written_with_a_point(tmp_path):
    path = parquet(
        tmp_path / "m.parquet",
        COLUMNS | {"frame": [2.0, 0.0, 1.0, 1.0], "track_id": [4.0, 3.0, 2.0, 1.0]},
    )
    found = read_detections(path, SCENES)["0000"]
    assert found.frame.tolist() == [0, 2]
    assert found.track.tolist() == [3, 4]
    assert (found.frame.dtype, found.track.dtype) == (np.dtype(int), np.dtype(int))


def test_boxes_may_be_unknown_where_there_are_cuboids(tmp_path):
    blank = {name: [None] * 4 for name in ("x1", "y1", "x2", "y2")}
    path = parquet(
        tmp_path / "m.parquet",
        COLUMNS | CUBOIDS | {k: pa.array(v, pa.float64()) for k, v in blank.items()},
    )
    assert np.isnan(read_detections(path, SCENES)["0000"].box_px).all()


@pytest.mark.parametrize(
    ("place", "word", "match"),
    [
        (0, "1.5", r"frame numbers must be whole; .* has 1\.5 in row 3 \(0000/1\.5\)"),
        (
            1,
            "7.5",
            r"track ids must be whole numbers; .* has 7\.5 in row 3 \(0000/1\.0\)",
        ),
        (8, "inf", r"boxes must be finite .* has 1, 2, inf, 40 in row 3"),
        (7, "nan", r"boxes must be finite .* has 1, nan, 30, 40 in row 3"),
        (15, "1e300", r"cuboids must be finite .* in row 3"),
        (17, "-inf", r"scores must be finite; .* has -inf in row 3"),
    ],
)
def test_kitti_text_is_refused_with_the_line_of_its_file(tmp_path, place, word, match):
    words = kitti_line(1, score=0.5).split()
    words[place] = word
    (tmp_path / "0000.txt").write_text(
        kitti_line(0, score=0.5) + "\n" + " ".join(words) + "\n"
    )
    with pytest.raises(InputError, match=match):
        read_detections(tmp_path, SCENES, source=Source(scores="raw"))


def test_json_results_are_refused_with_row_and_id(tmp_path):
    row = {
        "image_id": "0000/000002",
        "category_id": 3,
        "bbox": [1, 2, float("inf"), 20],
        "score": 0.5,
    }
    (tmp_path / "r.json").write_text(json.dumps([row]))
    with pytest.raises(
        InputError,
        match=r"boxes must be finite .* has 1, 2, inf, 22 in row 1 \(0000/000002\)",
    ):
        read_detections(tmp_path / "r.json", SCENES)
    row = {
        "translation": [10.0, 20.0, 1.0],
        "size": [1.9, 4.6, 1.5],
        "rotation": [1, 0, 0, 0],
        "velocity": [1.0, 2.0],
        "detection_name": "car",
        "detection_score": 0.7,
    }
    for change, match in (
        (
            {"translation": [np.nan, 20.0, 1.0]},
            r"cuboids must be finite .* in row 1 \(000001\)",
        ),
        (
            {"size": [1.9, np.inf, 1.5]},
            r"cuboids must be finite .* in row 1 \(000001\)",
        ),
        (
            {"velocity": [1e308, 2.0]},
            r"velocities must be at most 200 m/s; .* has 1e\+308, 2 in row 1",
        ),
        ({"velocity": [np.nan, np.nan]}, None),
    ):
        (tmp_path / "n.json").write_text(
            json.dumps({"results": {"000001": [row | change]}})
        )
        if match is None:
            assert len(read_detections(tmp_path / "n.json", SCENES[:1])) == 1
            continue
        with pytest.raises(InputError, match=match):
            read_detections(tmp_path / "n.json", SCENES[:1])


def test_scores_are_what_the_source_says(tmp_path):
    path = parquet(tmp_path / "m.parquet")
    assert (
        read_detections(path, SCENES, source=Source(scores="raw", mode="r")).mode == "r"
    )
    assert np.isnan(
        read_detections(path, SCENES, source=Source(scores="none"))["0000"].score
    ).all()
    mapped = read_detections(path, SCENES, source=Source(classes={"dog": "Misc"}))
    assert mapped["0001"].cls.tolist() == ["Misc"]


def test_thresholds_classes_and_units():
    found = detections(
        [
            (0, "Car", 0.25, 0, 0, 9, 9),
            (1, "Van", 0.24, 0, 0, 9, 9),
            (2, "Van", 0.9, 0, 0, 9, 9),
        ]
    )
    modes = DetectionSet(
        "m", "probabilities", {"0000": found, "0001": detections([], 2, unit="0001")}
    )
    assert modes.above(0.25)["0000"].frame.tolist() == [0, 2]
    assert modes.where(lambda one: one.cls == "Van")["0000"].frame.tolist() == [1, 2]
    assert list(modes.of_units(["0001"]).units) == ["0001"]
    with pytest.raises(InputError, match="must cover unit 0009"):
        modes["0009"]


def test_coverage_tells_failed_and_never_run_frames_apart():
    found = coverage(
        detections(
            [(0, "Car", 0.5, 0, 0, 9, 9)], 4, status=[DONE, DONE, FAILED, NEVER_RUN]
        )
    )
    assert found == Coverage(frames=4, reached=3, run=2, boxes=1, low=0.5, high=0.5)
    silent = {"0006": found, "0007": coverage(detections([], 2, unit="0007"))}
    with (
        pytest.warns(InputWarning, match="nothing at all in unit 0007"),
        pytest.warns(
            InputWarning,
            match="not run on 1 of 6 frames, which are no inputs then: in unit 0006",
        ),
    ):
        check_coverage("m", silent, scored=True)
    with pytest.raises(InputError, match="nothing at all in unit 0007"):
        check_coverage("m", {"0007": silent["0007"]}, scored=True, strict=True)
    never = {
        "0001": coverage(detections([], 2, unit="0001", status=[NEVER_RUN, NEVER_RUN]))
    }
    with pytest.raises(
        InputError, match="every unit must have been run, and 1 of 1 were not: 0001"
    ):
        check_whole("m", never)
    same = {
        "0000": coverage(
            detections([(0, "Car", 1.0, 0, 0, 9, 9), (1, "Car", 1.0, 0, 0, 9, 9)], 2)
        )
    }
    with pytest.warns(
        InputWarning, match="all 2 scores of mode m are 1 and carry no information"
    ):
        check_coverage("m", same, scored=True)


def test_a_status_must_be_known():
    with pytest.raises(InputError, match="done, failed or never run"):
        detections([], 2, status=[0, 5])


def test_calibration_gives_the_share_that_was_right():
    box, away = (0.0, 0.0, 40.0, 40.0), (500.0, 0.0, 540.0, 40.0)
    raw = [(0, -2.0, away), (1, 1.0, box), (2, 1.0, away), (3, 7.0, box)]
    found = detections([(f, "Car", score, *place) for f, score, place in raw], 5)
    reference = truth([(f, "Car", f, 0, box, (9, 12, 0, 1), 0.0) for f in range(5)], 5)
    fitted = fit_calibration([graded_scores(found, reference)], "m")
    halves = [
        graded_scores(found.where(half), reference)
        for half in (found.frame < 2, found.frame >= 2)
    ]
    for one, other in zip(
        vars(fitted).values(), vars(fit_calibration(halves, "m")).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert calibrate(found, fitted).score.tolist() == pytest.approx([0, 0.5, 0.5, 1])
    for unscored in ([graded_scores(detections([], 5), reference)], []):
        with pytest.raises(
            InputError, match=r"needs scored detections.*mode m has none"
        ):
            fit_calibration(unscored, "m")
    steep = Calibration(np.array([0.0, 1.0]), np.array([0.25, 0.75]))
    assert calibrate(found, steep).score.tolist() == [0.25, 0.75, 0.75, 0.75]


def test_the_cache_of_a_detector_is_read_with_what_failed(tmp_path):
    boxes = FrameDetections(
        boxes_px=np.array([[1, 2, 30, 40]], dtype=np.float32),
        scores=np.array([0.5], dtype=np.float32),
        classes=np.array(["car"]),
    )
    records = [
        FrameRecord(0, "a", "0", (9, 9), boxes),
        FrameRecord(2, "b", None, None, None, "broken"),
    ]
    write_unit(tmp_path, "fast", unit="0000", records=records)
    found = read_detections(tmp_path / "fast", SCENES)
    assert (found.mode, found["0000"].cls.tolist(), found["0000"].box_px.tolist()) == (
        "fast",
        ["Car"],
        [[1, 2, 30, 40]],
    )
    assert found["0000"].status.tolist() == [DONE, NEVER_RUN, FAILED]
    assert found["0001"].status.tolist() == [NEVER_RUN, NEVER_RUN]
