"""Modes without a file: nothing, the reference, the detection profile; by name on the
command line and in cells.
"""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import call
from deepval.basics.errors import InputError
from deepval.deploy.thresholds import count_matched_point, count_matched_specs
from deepval.driving.cells import sources
from deepval.driving.cells.build import built
from deepval.driving.cells.folder import read_cell
from deepval.driving.cells.spec import specs
from deepval.driving.geometry.boxes import frame_pairs, iou
from deepval.driving.perception.modes import (
    EveryReference,
    Nothing,
    Profiled,
    visible_to_camera,
)
from deepval.driving.perception.placing import Tracks
from deepval.driving.perception.profile import logit, read_profile
from deepval.driving.perception.reported.score_thresholds import (
    GRID,
    count_matching_point,
)
from driving import camera, detections, scene, truth
from in_memory import Recording
from kitti_files import write_kitti
from observed_recall import observed_tracks

KITTI = ("build", "--dataset", "kitti", "--root", "kitti_tracking")
CAMERA = replace(camera(), width_px=1242, height_px=375)
FRAMES = 60


def street(unit="0000", *, cars=6, frames=FRAMES, least_px=18.0):
    """Cars at fixed places of the image, from far to near: the same outcome again and
    again but for the draw.
    """
    rows = []
    for frame in range(frames):
        for car in range(cars):
            tall = least_px + 9 * car
            left = 40 + 190 * car
            near = 720 * 1.5 / tall
            box = (left, 190 - tall / 2, left + 1.6 * tall, 190 + tall / 2)
            rows.append((frame, "Car", car, 0, box, (near, near + 4, -1.0, 1.0), 0.0))
    return scene(frames, unit=unit, camera=CAMERA), truth(rows, frames, unit=unit)


def best_scores(size, seed, least_px):
    """The latent score (log odds) of each car in each frame, that of the floor where it
    is not reported.
    """
    road, reference = street(least_px=least_px)
    report = Profiled(size, seed).detections(road, reference)
    pairs = frame_pairs(reference.frame, report.frame)
    fits = iou(reference.box_px[pairs.first], report.box_px[pairs.second]) > 0.5
    score = np.full(len(reference), 0.1)
    np.maximum.at(score, pairs.first[fits], report.score[pairs.second[fits]])
    return logit(score, top=read_profile().scores.top).reshape(FRAMES, -1)


def correlation(one, other):
    """Over seeds and frames, car by car so that size alone does not correlate them."""
    one, other = one - one.mean(axis=(0, 1)), other - other.mean(axis=(0, 1))
    return float((one * other).mean() / np.sqrt((one**2).mean() * (other**2).mean()))


def test_a_profile_draws_the_same_for_the_same_seed_and_unit():
    road, reference = street()
    first, again = (Profiled(320, 4).detections(road, reference) for _ in range(2))
    np.testing.assert_array_equal(first.score, again.score)
    np.testing.assert_array_equal(first.box_px, again.box_px)
    other = Profiled(320, 5).detections(road, reference)
    assert len(other) != len(first) or not np.array_equal(other.score, first.score)
    elsewhere = Profiled(320, 4).detections(*street("0001"))
    assert len(elsewhere) != len(first) or not np.array_equal(
        elsewhere.score, first.score
    )


def test_scores_are_correlated_between_modes_and_over_time_as_the_profile_says():
    seeds, noise = range(12), read_profile().scores.noise
    small, middle, large = (
        np.stack([best_scores(size, s, 60.0) for s in seeds])
        for size in (320, 384, 640)
    )
    assert large.mean() > small.mean()

    def expected(*, lag_s=0.0, times=1.0):
        kept = np.exp(-lag_s / noise.memory_s - np.log(times) / noise.size_scale)
        return pytest.approx(noise.of_object + noise.drifting * kept, abs=0.1)

    assert correlation(small, middle) == expected(times=384 / 320)
    assert correlation(small, large) == expected(times=2.0)
    assert correlation(small[:, 1:], small[:, :-1]) == expected(lag_s=0.1)
    assert correlation(small[:, 20:], small[:, :-20]) == expected(lag_s=2.0)
    # of other seeds: nothing in common
    assert abs(correlation(small, np.roll(small, 1, axis=0))) < 0.1


def test_a_larger_size_finds_more_of_what_is_far():
    least = logit(0.25, top=read_profile().scores.top)
    small, large = (
        (np.stack([best_scores(size, s, 18.0) for s in range(3)]) >= least).mean()
        for size in (320, 640)
    )
    assert large > small + 0.2


def test_a_profile_sees_what_a_camera_can_see():
    rows = [
        (0, "Car", 1, 0, (100, 150, 300, 300), (10, 14, -1, 1), 0.0),
        (0, "Car", 2, 3, (500, 150, 700, 300), (10, 14, -1, 1), 0.0),  # hidden
        (0, "Traffic_cone", 3, 0, (800, 150, 900, 300), (10, 14, -1, 1), 0.0),
        (0, "Car", 4, 0, (np.nan,) * 4, (-10, -6, -1, 1), 0.0),
    ]
    assert visible_to_camera(truth(rows, 1)).objects.track.tolist() == [1]
    report = Profiled(640).detections(scene(1, camera=CAMERA), truth(rows, 1))
    assert np.isfinite(report.box_px).all()
    assert "Traffic_cone" not in report.cls


def test_what_a_mode_reports_is_part_of_a_cells_id():
    made = [
        mode.definition
        for mode in (
            Nothing(),
            Nothing(all_around=False),
            EveryReference(),
            Profiled(320),
            Profiled(640),
        )
    ]
    made += [Profiled(320, 1).definition]
    told = [
        {key: value for key, value in each.items() if key != "source"} for each in made
    ]
    assert len({str(each) for each in told}) == len(made)
    assert {"profile", "profile_sha256", "size", "seed"} <= made[3].keys()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_kitti(tmp_path)


@pytest.mark.parametrize(
    ("words", "geometry"),
    [
        ("--mode none --mode reference", "monocular"),
        ("--mode none --mode reference", "tracks"),
        ("--mode none-camera --mode reference", "cuboids"),
        ("--mode profile-320 --mode profile-640 --seed 3", "monocular"),
        (
            "--mode profile-320 --mode profile-640 --threshold profile-640=0.48",
            "tracks-no-fp",
        ),
        ("--mode none --mode large=large.parquet --threshold large=0.25", "oracle"),
        (
            (
                "--mode profile-320 --mode large=large.parquet --threshold 0.3 "
                "--scores-are raw"
            ),
            "tracks-iou-05",
        ),
    ],
)
def test_a_cell_of_modes_without_a_file_and_its_command(
    files, words, geometry, recwarn
):
    if geometry == "cuboids":
        with pytest.raises(InputError, match="needs 3D boxes"):
            call(
                *KITTI,
                *words.split(),
                "--geometry",
                geometry,
                "--out",
                "out",
            )
        return
    call(*KITTI, *words.split(), "--geometry", geometry, "--out", "out")
    cell = read_cell(Path("out") / f"braking-{geometry}")
    assert geometry in cell.id
    assert not [str(one.message) for one in recwarn if "mode" in str(one.message)]
    command = cell.spec.command(
        root="kitti_tracking", files={"large": "large.parquet"}, out="again"
    )
    assert ("--seed 3" in command) is ("--seed 3" in words)
    call(*shlex.split(command)[1:])
    assert read_cell(Path("again") / f"braking-{geometry}").id == cell.id


def test_count_matched_thresholds():
    small = detections(
        [
            (0, "Car", 0.9, 0, 0, 9, 9),
            (0, "Car", 0.2, 0, 0, 9, 9),
            (1, "Car", 0.3, 0, 0, 9, 9),
        ]
    )
    large = detections(
        [(0, "Car", s, 0, 0, 9, 9) for s in (0.95, 0.505, 0.4, 0.3, 0.26)]
    )
    point = count_matching_point([small], [large])  # two boxes: from above 0.40 to 0.50
    assert (point.scheme, point.cheap, point.full) == ("S1", 0.25, 0.5)
    assert count_matching_point([small], [large], cheap_threshold=0.1).full == 0.4
    halted = replace(small.where(small.frame == 0), status=np.array([0, 2, 2]))
    # frame 0 alone: one box each
    assert count_matching_point([halted], [large]).full == 0.95
    assert count_matching_point([small] * 3, [large] * 3).full == 0.5
    nothing = count_matching_point([detections([])], [large])
    assert nothing.full is None
    assert "reports nothing" in nothing.reason


def test_count_matched_thresholds_of_a_cell():
    units = tuple(f"{unit:04d}" for unit in range(5))
    data = Recording(
        "made-up", *zip(*(street(unit, frames=12) for unit in units), strict=True)
    )
    files = [sources.ModeFile(name, None) for name in ("profile-320", "profile-640")]
    (spec,) = specs(sources.from_files(data, files))
    point = count_matched_point(spec, units=units)
    assert point.full in GRID
    assert point.full > 0.25
    (matched,) = count_matched_specs([spec], units=units)
    assert matched.id != spec.id
    (cell,) = built([matched])
    (plain,) = built([spec])
    modes = ((cell, "profile-320"), (cell, "profile-640"), (plain, "profile-640"))
    boxes = [
        sum(part.covered[mode].boxes for part in each.shared.parts)
        for each, mode in modes
    ]
    assert abs(boxes[1] - boxes[0]) < 0.1 * boxes[0]
    assert boxes[2] > boxes[1]
    train = count_matched_point(spec)
    assert train == count_matched_point(spec, units=spec.roles.train)
    (silent,) = specs(
        sources.from_files(data, [sources.ModeFile("none", None), files[1]])
    )
    with pytest.raises(
        InputError, match="no threshold matches counts: the cheap mode reports nothing"
    ):
        count_matched_specs([silent])


def test_what_is_kept_of_the_tracks_by_range():
    units = ("0000", "0001", "0002")
    data = Recording(
        "made-up", *zip(*(street(unit, frames=5) for unit in units), strict=True)
    )
    names = ("none-camera", "profile-640", "reference")
    (spec,) = specs(
        sources.from_files(data, [sources.ModeFile(name, None) for name in names])
    )
    bands_m = ((0.0, 30.0), (30.0, 50.0), (50.0, 90.0))
    none, some, every = observed_tracks(spec, bands_m=bands_m)
    assert (none.states, none.tracks, none.kept, none.false_positives, none.recall) == (
        15,
        90,
        0,
        0,
        0.0,
    )
    assert (every.kept, every.false_positives, every.band_recall) == (
        90,
        0,
        (1.0, 1.0, 1.0),
    )
    assert every.band_tracks == (45, 30, 15)  # centres at 62, 42, 32, 26, 22 and 19 m
    assert 0 < some.kept < 90
    assert sum(some.band_kept) == some.kept
    assert observed_tracks(spec, units=units[:1], bands_m=bands_m)[2].kept == 30
    without = observed_tracks(
        spec, placing=Tracks(false_positives=False), bands_m=bands_m
    )[1]
    assert (without.kept, without.false_positives) == (some.kept, 0)
    assert some.false_positives > 0
