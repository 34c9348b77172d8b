"""The upper half of the house on real KITTI tracking data: figures that independent
implementations agree on.
"""

from typing import NamedTuple

import numpy as np
import pytest

import deepval
from deepval.basics.errors import InputError
from deepval.driving.cells.build import built
from deepval.driving.cells.sources import read_specification
from deepval.driving.cells.spec import CellSpec
from deepval.driving.perception.placing import monocular_objects, oracle_objects
from deepval.driving.perception.reported.detection_rows import Source
from deepval.driving.systems import SYSTEMS
from in_memory import read_dataset, read_detections
from project import ROOT
from shared import shared_data
from whole_sets import outcomes

pytestmark = pytest.mark.shared
KINDS = {"CIWT": "raw", "RRC": "probabilities"}


class Summary(NamedTuple):
    affected: int
    harmed: float
    ratio: float
    all_full: float
    oracle_20: float
    all_cheap_loss: float


def summary(found):
    values, total = found.values, found.loss[:, 0].sum()
    helped, harmed = values[values > 0], values[values < 0]
    k = int(np.floor(0.2 * len(values) + 0.5))
    best = np.sort(helped)[::-1][:k].sum()
    affected = len(helped) + len(harmed)
    return Summary(
        affected,
        100 * len(harmed) / affected,
        -harmed.sum() / helped.sum(),
        100 * values.sum() / total,
        100 * best / total,
        total,
    )


@pytest.fixture(scope="module")
def kitti():
    return read_dataset("kitti", shared_data("kitti_tracking"))


@pytest.fixture(scope="module")
def modes(kitti):
    def mode(name):
        path = shared_data("kitti_tracking", "detections", f"{name}.parquet")
        found = read_detections(
            path, kitti.scenes, source=Source(scores=KINDS.get(name, "none"))
        )
        return (found.above(0.25) if name == "RRC" else found).where(
            lambda each: each.cls == "Car"
        )

    return {
        name: mode(name)
        for name in ("CIWT", "RRC", "YOLOv3-SORT", "YOLOv4-SORT", "YOLOX-SORT")
    }


@pytest.fixture(scope="module")
def perceived(kitti, modes):
    pairs = list(zip(kitti.scenes, kitti.truths, strict=True))
    return {
        (name, geometry): [
            monocular_objects(mode[scene.unit], scene)
            if geometry == "monocular"
            else oracle_objects(mode[scene.unit], scene, truth=truth)
            for scene, truth in pairs
        ]
        for name, mode in modes.items()
        for geometry in ("monocular", "oracle")
    }


def cell(kitti, perceived, names, geometry, system):
    seen = {name: perceived[name, geometry] for name in names}
    return outcomes(SYSTEMS[system], kitti.scenes, kitti.truths, perceived=seen)


def test_the_reader_finds_every_sequence_frame_and_object(kitti):
    assert kitti.units == tuple(f"{unit:04d}" for unit in range(21))
    assert sum(len(scene) for scene in kitti.scenes) == 8008
    assert sum(len(truth) for truth in kitti.truths) == 47262
    assert sum(len(truth.ignored_frame) for truth in kitti.truths) == 18039
    assert [
        int(scene.has_image.sum()) for scene in kitti.scenes if scene.has_image.any()
    ] == [3, 91, 3]
    with pytest.raises(InputError, match="must have an image"):
        kitti.scenes[1].image_source(0)


@pytest.mark.parametrize(
    ("names", "geometry", "system", "expected"),
    [
        (
            ("CIWT", "RRC"),
            "monocular",
            "braking",
            Summary(718, 54.3, 1.063, -0.67, 10.61, 10297),
        ),
        (
            ("YOLOv3-SORT", "YOLOX-SORT"),
            "oracle",
            "receding-horizon",
            Summary(939, 5.0, 0.0285, 57.59, 59.28, np.nan),
        ),
    ],
)
def test_published_cells(kitti, perceived, names, geometry, system, expected):
    found = summary(cell(kitti, perceived, names, geometry, system))
    assert found.affected == pytest.approx(expected.affected, abs=2)
    assert found.harmed == pytest.approx(expected.harmed, abs=0.05)
    assert found.ratio == pytest.approx(expected.ratio, rel=0.0005 / 1.063, abs=0.00005)
    assert found.all_full == pytest.approx(expected.all_full, abs=0.005)
    assert found.oracle_20 == pytest.approx(expected.oracle_20, abs=0.005)
    if not np.isnan(expected.all_cheap_loss):
        assert found.all_cheap_loss == pytest.approx(expected.all_cheap_loss, abs=0.5)


def test_noise_on_a_braking_ladder_does_not_beat_the_best_mixture_of_modes(
    kitti, perceived
):
    ladder = ("YOLOv3-SORT", "YOLOv4-SORT", "YOLOX-SORT")
    found = cell(kitti, perceived, ladder, "monocular", "braking")
    # 320, 384 and 640 px
    figures = dict(zip(ladder, ({"mj": 41.1}, {"mj": 47.8}, {"mj": 84.4}), strict=True))
    costs = {"modes": figures, "allocators": {"noise": {"mj": 0.0}}}
    table = deepval.ValueTable.from_columns(
        unit=found.unit, input=found.input, losses=found.losses, costs=costs
    )
    middle, full = table.mode_values.mean(axis=0)[1:]
    for seed in range(5):
        noise = np.random.default_rng(seed).random(len(table))
        scores = {"noise": np.column_stack([noise, np.full(len(table), -1.0)])}
        result = deepval.evaluate(
            table, scores, [deepval.Energy(0.2)], draws=40, seed=seed
        )
        row, chance, full_only = (
            result.row(name) for name in ("noise", "random-ladder", "random")
        )
        assert chance.gain / full_only.gain == pytest.approx(
            middle / 47.8 * 84.4 / full, rel=1e-3
        )
        assert chance.gain > 1.5 * full_only.gain
        assert row.gain > 1.4 * full_only.gain
        assert row.verdict == "unresolved"


ONE_DETECTOR = {
    (320, "monocular", "braking"): (65, 23.1, 0.055),
    (320, "oracle", "braking"): (40, 10.0, 0.017),
    (320, "monocular", "receding-horizon"): (76, 26.3, 0.242),
    (320, "oracle", "receding-horizon"): (22, 9.1, 0.003),
    (384, "monocular", "braking"): (41, 26.8, 0.124),
    (384, "oracle", "braking"): (21, 19.0, 0.079),
    (384, "monocular", "receding-horizon"): (54, 22.2, 0.216),
    (384, "oracle", "receding-horizon"): (10, 20.0, 0.010),
    (512, "monocular", "braking"): (21, 42.9, 0.433),
    (512, "oracle", "braking"): (4, 50.0, 0.300),
    (512, "monocular", "receding-horizon"): (38, 26.3, 0.243),
    (512, "oracle", "receding-horizon"): (2, 100.0, np.inf),
}


@pytest.mark.filterwarnings(
    "ignore:mode .* was not run on:deepval.basics.errors.InputWarning"
)
def test_one_detector_at_two_resolutions_on_sparse_frames():
    """YOLOv8s on 439 frames of 14 sequences: affected, harmed %, harm ratio of an
    independent implementation.
    """
    data, folder = (
        shared_data(),
        ROOT / "docs" / "replication",
    )
    groups = [
        group
        for group in read_specification(folder / "kitti-one-detector.toml", data)
        if "s-640" in group.specs[0].name
    ]
    cells = {
        (int(c.spec.order[0][-3:]), c.spec.geometry, c.spec.system): c
        for g in groups
        for c in built(g.specs)
    }
    for key, (affected, harmed, ratio) in ONE_DETECTOR.items():
        values = cells[key].outcomes.values
        helped, hurt = values[values > 0].sum(), -values[values < 0].sum()
        assert len(values) == 439
        assert np.count_nonzero(values) == affected
        assert round(100 * np.mean(values[values != 0] < 0), 1) == harmed
        assert (round(hurt / helped, 3) if helped else np.inf) == ratio


@pytest.mark.filterwarnings(
    "ignore:mode .* was not run on:deepval.basics.errors.InputWarning"
)
def test_frames_left_out_change_no_other_frame(tmp_path):
    data, folder = (
        shared_data(),
        ROOT / "docs" / "replication",
    )
    text = (
        (folder / "kitti-one-detector.toml")
        .read_text()
        .replace('root = "', 'left_out = "frames.csv"\nroot = "')
    )
    (tmp_path / "frames.csv").write_text("seq,frame\n0002,5\n0002,6\n")
    (tmp_path / "cells.toml").write_text(text)
    all_specs, some_specs = (
        read_specification(path, data)[0].specs
        for path in (folder / "kitti-one-detector.toml", tmp_path / "cells.toml")
    )
    whole, part = (next(iter(built(specs[:1]))) for specs in (all_specs, some_specs))
    gone = np.isin(whole.outcomes.input, ["0002/000005", "0002/000006"])
    assert gone.sum() == 2
    np.testing.assert_array_equal(part.outcomes.loss, whole.outcomes.loss[~gone])
    assert part.id != whole.id
    assert (
        CellSpec.from_definition(part.spec.definition, part.spec.order).definition
        == part.spec.definition
    )
    wrong = {
        "seq,frame\n0002,x\n": "unit .or seq. and frame, a number; found",
        "seq,frame\n0099,1\n": "units must be those of the data set; found '0099'",
        "seq,frame\n": "found no row",
    }
    for text, complaint in wrong.items():
        (tmp_path / "frames.csv").write_text(text)
        with pytest.raises(InputError, match=complaint):
            read_specification(tmp_path / "cells.toml", data)
