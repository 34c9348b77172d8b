import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deepval.basics.errors import InputError, InputWarning
from deepval.driving.perception.reported.detection_rows import Source
from deepval.driving.perception.reported.detections import (
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
from deepval.driving.perception.reported.losses import fit_calibration, graded_scores
from driving import detections, scene, truth
from in_memory import DetectionSet, read_detections

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
            {"track_id": [1.0, 2.5, 3.0, 4.0]},
            r"track ids must be whole numbers; .* has 2\.5 in row 2 \(0000/0\)",
        ),
        (
            {"x2": [9.0, np.inf, 9.0, 3.0]},
            r"boxes must be finite .* has 1, 0, inf, 9 in row 2 \(0000/0\)",
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
