import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deepval
import onnx_models
from deepval.basics.errors import InputError
from deepval.basics.workers import mapping
from deepval.driving.metering.cost_cards import read_entries, write_entries
from deepval.driving.metering.timing import Timing
from deepval.driving.perception.reported import cache as store
from deepval.driving.perception.running.detector import (
    DetectorConfig,
    decode_image,
    detect,
    load_detector,
)
from deepval.driving.perception.running.mode_costs import ModeCost, cost_entry
from deepval.driving.perception.running.perceive import (
    Progress,
    perceive,
    units_in_folder,
)
from driving import scene
from in_memory import read_detections

SIZES = (64, 96)


def write_image(path: Path, brightness: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.full((40, 60, 3), brightness, dtype=np.uint8)
    cv2.imwrite(str(path), picture)


@pytest.fixture
def weights(tmp_path) -> Path:
    return onnx_models.yolov8(tmp_path / "tiny.onnx")


@pytest.fixture
def images(tmp_path) -> Path:
    """Units a (frames 0, 1, 5) and b (frames 3, 4); frame 1 of a is black: nothing is
    found in it.
    """
    folder = tmp_path / "images"
    for unit, frame, brightness in [
        ("a", 0, 255),
        ("a", 1, 0),
        ("a", 5, 90),
        ("b", 3, 200),
        ("b", 4, 150),
    ]:
        write_image(folder / unit / f"{frame:06d}.png", brightness)
    return folder


def run(images, cache, weights, **options):
    options.setdefault("sizes", SIZES)
    options.setdefault("latency_samples", 0)
    return perceive(images, cache, weights=weights, **options)


def snapshot(cache: Path) -> dict[str, bytes]:
    """Every file of a cache but the latencies, which no two runs share."""
    files = (
        path
        for path in cache.rglob("*")
        if path.is_file() and path.name != "costs.toml"
    )
    return {str(path.relative_to(cache)): path.read_bytes() for path in files}


def test_cache_holds_what_the_detector_finds(images, tmp_path, weights):
    result = run(images, tmp_path / "cache", weights)
    assert [mode.mode for mode in result.modes] == ["tiny-64", "tiny-96"]
    detector = load_detector(weights)
    for mode, size in (("tiny-64", 64), ("tiny-96", 96)):
        held = store.read_mode(tmp_path / "cache", mode)
        assert held.run_seq.tolist() == ["a", "a", "a", "b", "b"]
        assert held.run_frame.tolist() == [0, 1, 5, 3, 4]
        assert not held.run_failed.any()
        for unit, frames in units_in_folder(images).items():
            for frame, path in frames:
                found = detect(detector, decode_image(path.read_bytes()), size=size)
                rows = (held.seq == unit) & (held.frame == frame)
                np.testing.assert_array_equal(held.boxes_px[rows], found.boxes_px)
                np.testing.assert_array_equal(held.scores[rows], found.scores)
                assert held.classes[rows].tolist() == found.classes.tolist()


def test_empty_failed_and_never_run_frames_differ(tmp_path, weights):
    # At 64 a frame is padded with 21 of 64 grey rows, so even black has a mean of 0.15
    # and a best score of 0.13.
    threshold = DetectorConfig(min_score=0.2)
    for frame, brightness in ((0, 255), (1, 0), (2, 255)):
        write_image(tmp_path / "images" / f"{frame}.jpg", brightness)
    broken = tmp_path / "images" / "2.jpg"
    broken.write_bytes(broken.read_bytes()[:-40])
    result = run(
        {"u": [(frame, tmp_path / "images" / f"{frame}.jpg") for frame in range(4)]},
        tmp_path / "cache",
        weights,
        sizes=[64],
        config=threshold,
        on_error="record",
    )
    frames = pq.read_table(
        tmp_path / "cache" / "tiny-64" / "frames" / "u.parquet"
    ).to_pylist()
    assert [(row["frame"], row["status"], row["boxes"]) for row in frames] == [
        (0, "ok", 2),
        (1, "ok", 0),
        (2, "failed", None),
        (3, "failed", None),
    ]
    assert [row["reason"] for row in frames] == [
        None,
        None,
        "the JPEG file is truncated",
        "the file cannot be read (No such file or directory)",
    ]
    assert (frames[0]["width_px"], frames[0]["height_px"], frames[3]["width_px"]) == (
        60,
        40,
        None,
    )
    assert frames[3]["image_sha256"] is None
    [summary] = result.modes
    assert (summary.frames, summary.failed, summary.boxes) == (4, 2, 2)
    with pytest.raises(
        InputError, match=r"holds 2 failed frames, first 2: record errors"
    ):
        run(
            {
                "u": [
                    (frame, tmp_path / "images" / f"{frame}.jpg") for frame in range(4)
                ]
            },
            tmp_path / "cache",
            weights,
            sizes=[64],
            config=threshold,
        )


def test_broken_image_stops_the_run_unless_recorded(images, tmp_path, weights):
    (images / "b" / "000004.png").write_bytes(b"no image")
    with pytest.raises(
        InputError,
        match=r"frame 4 of unit b \(.*000004\.png\) is not: the file is not an image",
    ):
        run(images, tmp_path / "cache", weights)
    assert store.units_in(tmp_path / "cache", "tiny-64") == ("a",)
    assert (
        run(images, tmp_path / "cache", weights, on_error="record").modes[0].units_run
        == 1
    )
    with pytest.raises(InputError, match="on_error must be"):
        run(images, tmp_path / "cache", weights, on_error="ignore")


def test_second_run_does_nothing_and_changes_no_byte(images, tmp_path, weights):
    first = run(images, tmp_path / "cache", weights)
    before = snapshot(tmp_path / "cache")
    steps: list[Progress] = []
    second = run(images, tmp_path / "cache", weights, progress=steps.append)
    assert [mode.units_run for mode in first.modes] == [2, 2]
    assert [mode.units_run for mode in second.modes] == [0, 0]
    assert [mode.boxes for mode in second.modes] == [mode.boxes for mode in first.modes]
    assert {step.step for step in steps} == {"skip"}
    assert snapshot(tmp_path / "cache") == before


def test_units_and_resolutions_may_come_later(images, tmp_path, weights):
    run(images, tmp_path / "whole", weights)
    units = units_in_folder(images)
    run({"b": units["b"]}, tmp_path / "parts", weights, sizes=[96])
    run({"a": units["a"]}, tmp_path / "parts", weights, sizes=[64, 96])
    run(units, tmp_path / "parts", weights, sizes=[64])
    assert snapshot(tmp_path / "parts") == snapshot(tmp_path / "whole")


def test_other_weights_or_config_are_refused(images, tmp_path, weights):
    run(images, tmp_path / "cache", weights)
    before = snapshot(tmp_path / "cache")
    with pytest.raises(
        InputError, match=r"filled with min_score 0\.1; this run has 0\.2"
    ):
        run(images, tmp_path / "cache", weights, config=DetectorConfig(min_score=0.2))
    onnx_models.yolov8(weights, slope=0.5)
    with pytest.raises(InputError, match="filled with weights_sha256"):
        run(images, tmp_path / "cache", weights)
    assert snapshot(tmp_path / "cache") == before
    (tmp_path / "cache" / "manifest.json").write_text("[]")
    with pytest.raises(InputError, match="must be the manifest of a detection cache"):
        run(images, tmp_path / "cache", weights)


def test_other_images_are_refused(images, tmp_path, weights):
    run(images, tmp_path / "cache", weights)
    write_image(images / "a" / "000001.png", 7)
    with pytest.raises(
        InputError,
        match=r"Unit a of mode tiny-64 .* other images \(1 frames differ, first 1\)",
    ):
        run(images, tmp_path / "cache", weights)
    for mode in ("tiny-64", "tiny-96"):
        (tmp_path / "cache" / mode / "detections" / "a.parquet").unlink()
    assert [
        mode.units_run for mode in run(images, tmp_path / "cache", weights).modes
    ] == [1, 1]
    write_image(images / "b" / "000007.png", 7)
    with pytest.raises(InputError, match=r"Unit b .*first 7"):
        run(images, tmp_path / "cache", weights)


def altered(path: Path, column: str, values: list) -> None:
    """The file with another column: as plausible a table as before."""
    table = pq.read_table(path)
    place = table.column_names.index(column)
    changed = pa.array(values, table.field(column).type)
    pq.write_table(
        table.set_column(place, table.field(column), changed), path, compression="zstd"
    )


def test_a_changed_file_is_never_adopted(images, tmp_path, weights):
    cache = tmp_path / "cache"
    run(images, cache, weights)
    before = snapshot(cache)
    detections, frames = (
        cache / "tiny-64" / kind / "a.parquet" for kind in ("detections", "frames")
    )
    altered(
        detections,
        "score",
        np.linspace(0.9, 0.2, pq.read_metadata(detections).num_rows),
    )
    for _ in range(2):
        with pytest.raises(
            InputError,
            match=r"detections/a\.parquet does not fit its hash.*delete it and run",
        ):
            run(images, cache, weights)
    with pytest.raises(
        InputError, match=r"detections/a\.parquet does not fit its hash"
    ):
        run(images, cache, weights, sizes=[64, 128])
    with pytest.raises(
        InputError, match=r"detections/a\.parquet does not fit its hash"
    ):
        store.read_mode(cache, "tiny-64")
    with pytest.raises(
        InputError, match=r"detections/a\.parquet does not fit its hash"
    ):
        read_detections(cache / "tiny-64", [scene(6, unit="a"), scene(5, unit="b")])
    detections.unlink()
    assert [mode.units_run for mode in run(images, cache, weights).modes] == [1, 0]
    assert snapshot(cache) == before
    altered(frames, "status", ["ok", "failed", "ok"])
    with pytest.raises(InputError, match=r"frames/a\.parquet does not fit its hash"):
        store.read_mode(cache, "tiny-64")


def test_a_unit_without_an_entry_in_the_manifest_is_run_again(
    images, tmp_path, weights
):
    cache = tmp_path / "cache"
    run(images, cache, weights)
    before = snapshot(cache)
    manifest = json.loads((cache / "manifest.json").read_text())
    boxes = manifest["modes"]["tiny-64"].pop("a")["boxes"]
    (cache / "manifest.json").write_text(json.dumps(manifest))
    altered(cache / "tiny-64" / "detections" / "a.parquet", "score", [0.5] * boxes)
    assert store.units_in(cache, "tiny-64") == ("b",)
    assert [mode.units_run for mode in run(images, cache, weights).modes] == [1, 0]
    assert snapshot(cache) == before


def test_a_cache_without_a_manifest_is_not_read(images, tmp_path, weights):
    run(images, tmp_path / "cache", weights)
    (tmp_path / "cache" / "manifest.json").unlink()
    with pytest.raises(
        InputError, match=r"must hold a manifest\.json with the hashes of its files"
    ):
        store.read_mode(tmp_path / "cache", "tiny-64")


def test_two_runs_cannot_share_a_cache(images, tmp_path, weights):
    with (
        store.lock(tmp_path / "cache"),
        pytest.raises(InputError, match="Another run is filling the cache"),
    ):
        run(images, tmp_path / "cache", weights)


def test_mode_that_is_not_cached_is_named_with_those_that_are(
    images, tmp_path, weights
):
    run(images, tmp_path / "cache", weights, mode_prefix="mine")
    with pytest.raises(
        InputError, match="no unit of mode tiny-64; its modes are: mine-64, mine-96"
    ):
        store.read_mode(tmp_path / "cache", "tiny-64")


def test_folders_without_a_clear_reading_are_refused(tmp_path, weights):
    with pytest.raises(InputError, match="is none"):
        units_in_folder(tmp_path / "absent")
    (tmp_path / "empty" / "sub").mkdir(parents=True)
    with pytest.raises(
        InputError, match=r"There must be images .* in .*empty, and there are none"
    ):
        units_in_folder(tmp_path / "empty")
    write_image(tmp_path / "both" / "1.png", 1)
    write_image(tmp_path / "both" / "sub" / "1.png", 1)
    with pytest.raises(InputError, match="holds both"):
        units_in_folder(tmp_path / "both")
    write_image(tmp_path / "twice" / "1.png", 1)
    write_image(tmp_path / "twice" / "01.png", 1)
    with pytest.raises(
        InputError, match=r"different numbers .* those of twice are not"
    ):
        run(tmp_path / "twice", tmp_path / "cache", weights)


def test_requests_that_cannot_be_met_are_refused(images, tmp_path, weights):
    for units in ({}, {"a": []}):
        with pytest.raises(InputError, match="images"):
            run(units, tmp_path / "cache", weights)
    for sizes in ((), (64, 64), (64, 70)):
        with pytest.raises(InputError, match="resolution"):
            run(images, tmp_path / "cache", weights, sizes=sizes)
    with pytest.raises(InputError, match="letters, digits"):
        run(images, tmp_path / "cache", weights, mode_prefix="../mine")
    assert not (tmp_path / "cache").exists()


def test_costs_are_medians_and_percentiles(weights):
    ten = np.arange(1.0, 11.0)
    stages = {
        "decode": ten,
        "preprocess": 2 * ten,
        "inference": 3 * ten,
        "postprocess": 4 * ten,
    }
    timing = Timing(sum(stages.values()), stages)
    entry = cost_entry(
        ModeCost(timing), load_detector(weights), size=64, weights_sha256="0"
    )
    assert set(entry) == {
        *(
            f"{stage}{figure}"
            for stage in ("", "no_decode_", *(f"{name}_" for name in stages))
            for figure in ("ms", "p95_ms")
        ),
        *("samples", "size", "threads", "device", "weights_sha256"),
    }
    assert entry["decode_ms"] == (5 + 6) / 2
    assert entry["ms"] == (1 + 2 + 3 + 4) * (5 + 6) / 2
    assert entry["no_decode_ms"] == (2 + 3 + 4) * (5 + 6) / 2
    # Linear between the 9th and the 10th value: 1 + 0.95 * 9 = 9.55.
    assert entry["inference_p95_ms"] == pytest.approx(3 * 9.55, rel=1e-12)


def test_costs_file_keeps_what_it_says_and_is_measured_once(images, tmp_path, weights):
    costs = tmp_path / "costs.toml"
    costs.write_text(
        '# by hand\n[allocators.mine]\nms = 1.5\nserved = "single"\n\n'
        "[modes.tiny-64]\nms = 3\n"
    )
    run(images, tmp_path / "cache", weights, costs=costs, latency_samples=2)
    first = costs.read_text()
    assert first.startswith("# by hand\n[allocators.mine]")
    known = tomllib.loads(first)
    assert known["modes"]["tiny-64"] == {"ms": 3}
    assert known["modes"]["tiny-96"]["samples"] == 2
    run(images, tmp_path / "cache", weights, costs=costs, latency_samples=2)
    assert costs.read_text() == first
    onnx_models.yolov8(weights, slope=0.5)
    with pytest.raises(InputError, match="latency of mode tiny-96 for other weights"):
        run(images, tmp_path / "other", weights, costs=costs, latency_samples=2)
    assert not (tmp_path / "other").exists()


def test_costs_file_that_cannot_take_an_entry(tmp_path):
    path = tmp_path / "costs.toml"
    write_entries(path, "modes", {"v5.0 é-320": {"ms": 1.25, "device": 'a "chip"'}})
    assert read_entries(path, "modes") == {
        "v5.0 é-320": {"ms": 1.25, "device": 'a "chip"'}
    }
    path.write_text("modes = {a = {ms = 1}}\n")
    with pytest.raises(InputError, match="costs of b cannot be added"):
        write_entries(path, "modes", {"b": {"ms": 1.0}})
    path.write_text("modes = 3\n")
    with pytest.raises(InputError, match="must be tables"):
        read_entries(path, "modes")
    path.write_text("[[")
    with pytest.raises(InputError, match="must be a TOML file"):
        read_entries(path, "modes")


MORTAL = """
import os, pathlib, signal, sys, time
from pathlib import Path
from deepval.driving.perception.running.perceive import perceive

images, cache, weights, log, point, pause_s = sys.argv[1:]
moments = 0

def moment():
    global moments
    moments += 1
    if moments == int(point):
        os.kill(os.getpid(), signal.SIGKILL)

def mortal(function):
    def wrapped(*arguments):
        moment()
        result = function(*arguments)
        moment()
        return result
    return wrapped

def open_to_write_in_halves(path, mode="r", *arguments, **options):
    handle = plain_open(path, mode, *arguments, **options)
    if mode == "xb":
        write = handle.write
        def in_halves(content):
            write(content[: len(content) // 2])
            handle.flush()
            moment()
            write(content[len(content) // 2 :])
        handle.write = in_halves
    return handle

plain_open = pathlib.Path.open
pathlib.Path.open = open_to_write_in_halves
os.fsync = mortal(os.fsync)
pathlib.Path.replace = mortal(pathlib.Path.replace)

def progress(step):
    with open(log, "a") as handle:
        handle.write(f"{step.step} {step.mode} {step.unit}\\n")
    time.sleep(float(pause_s))

perceive(Path(images), Path(cache), weights=Path(weights), sizes=[64, 96], latency_samples=0, progress=progress)
if float(pause_s):
    time.sleep(600)  # whoever asked for pauses kills it, at the latest now
"""  # noqa: E501


def start_mortal(
    images: Path,
    cache: Path,
    weights: Path,
    *,
    log: Path,
    point: int = 0,
    pause_s: float = 0.0,
):
    """A run in a process of its own that kills itself at the given moment of its
    writing (0: never).
    """
    log.write_text("")
    words = [images, cache, weights, log, point, pause_s]
    source = str(Path(deepval.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", MORTAL, *map(str, words)],
        env={**os.environ, "PYTHONPATH": source},
    )


def done_units(cache: Path) -> set[tuple[str, str]]:
    return {
        (mode, unit)
        for mode in store.modes_in(cache)
        for unit in store.units_in(cache, mode)
    }


def units_run(log: Path) -> set[tuple[str, str]]:
    steps = [line.split(" ") for line in log.read_text().splitlines()]
    return {(mode, unit) for step, mode, unit in steps if step == "run"}


def test_killed_while_writing_it_ends_with_the_same_bytes(images, tmp_path, weights):
    run(images, tmp_path / "whole", weights)
    cache, log = tmp_path / "killed", tmp_path / "log"
    rng = np.random.default_rng(3)
    kills = 0
    for point in [*rng.integers(1, 25, 6), 0]:
        before = done_units(cache)
        code = start_mortal(images, cache, weights, log=log, point=int(point)).wait(
            timeout=600
        )
        assert not units_run(log) & before
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
    assert code == 0
    assert kills >= 3
    assert snapshot(cache) == snapshot(tmp_path / "whole")


@pytest.mark.parametrize("half", [False, True])
def test_images_that_go_through_together_have_the_boxes_they_have_alone(
    images, tmp_path, half
):
    weights = onnx_models.yolov8(tmp_path / "tiny.onnx", batched=True, half=half)
    write_image(images / "a" / "000009.png", 130)
    (images / "a" / "000007.png").write_bytes(b"no image")
    # stands upright
    cv2.imwrite(
        str(images / "b" / "000008.png"), np.full((60, 40, 3), 99, dtype=np.uint8)
    )
    run(images, tmp_path / "alone", weights, on_error="record")
    for together in (2, 3, 8):
        cache = tmp_path / f"by-{together}"
        done = run(
            images,
            cache,
            weights,
            on_error="record",
            config=DetectorConfig(batch=together),
        )
        assert [mode.failed for mode in done.modes] == [1, 1]
        files = snapshot(cache)
        assert json.loads(files.pop("manifest.json"))["recipe"]["batch"] == together
        alone = snapshot(tmp_path / "alone")
        assert "batch" not in json.loads(alone.pop("manifest.json"))["recipe"]
        assert {n: d for n, d in files.items() if n.endswith(".parquet")} == {
            n: d for n, d in alone.items() if n.endswith(".parquet")
        }


def test_workers_that_write_at_once_lose_nothing(images, tmp_path, weights):
    """More units than workers, none of which takes long: their entries in the manifest
    are written by one process.
    """
    for number in range(24):
        write_image(images / f"more-{number:02d}" / "000000.png", 10 * number)
    run(images, tmp_path / "alone", weights)
    with mapping(3) as three:
        done = run(images, tmp_path / "three", weights, map_units=three)
    assert [mode.units_run for mode in done.modes] == [26, 26]
    assert snapshot(tmp_path / "three") == snapshot(tmp_path / "alone")
