import json
import time
import tomllib
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest

import commands
import onnx_models
from deepval.basics.errors import InputError
from deepval.driving.metering import energy
from deepval.driving.metering.energy import energy_over_idle, rails
from deepval.driving.perception.running import detector, mode_costs, onnx_model
from deepval.driving.perception.running.detector import DetectorConfig, load_detector
from deepval.driving.perception.running.mode_costs import (
    cost_entry,
    gpu_ms,
    measure_mode,
)
from sensor_files import RAPL, XAVIER, FakeNvml, hwmon_tree, write_tree

TENSORRT = "TensorrtExecutionProvider"


@pytest.fixture
def weights(tmp_path) -> Path:
    return onnx_models.yolov8(tmp_path / "tiny.onnx")


@pytest.fixture
def picture() -> bytes:
    return cv2.imencode(".png", np.full((40, 60, 3), 200, dtype=np.uint8))[1].tobytes()


@pytest.fixture
def images(tmp_path, picture) -> Path:
    (tmp_path / "images").mkdir()
    for frame in range(3):
        (tmp_path / "images" / f"{frame}.png").write_bytes(picture)
    return tmp_path / "images"


def count_up(path: Path, uj: int) -> None:
    """A counter in a file, which starts again at its largest value as that of a
    processor does.
    """
    largest = int((path.parent / "max_energy_range_uj").read_text())
    path.write_text(f"{(int(path.read_text()) + uj) % largest}\n")


def test_the_command_writes_the_energy_of_a_frame(
    tmp_path, monkeypatch, images, weights
):
    """Every pass uses 2 mJ of a package, 1 mJ of memory and 5 mJ of a card, and nothing
    is used at rest.
    """
    card, root, infer = FakeNvml(), write_tree(tmp_path / "sys", RAPL), mode_costs.infer
    zones = root / "class/powercap"

    def spend(*words):
        count_up(zones / "intel-rapl:0/energy_uj", 2_000)
        count_up(zones / "intel-rapl:0:1/energy_uj", 1_000)
        card.energy_mj += 5
        return infer(*words)

    command = [
        "detect",
        images,
        "-w",
        weights,
        "--size",
        64,
        "--size",
        96,
        "--out",
        tmp_path / "cache",
    ]
    commands.call(*command, "--samples", 7)
    before = tomllib.loads((tmp_path / "cache/costs.toml").read_text())["modes"]
    assert "energy" not in before["tiny-64"]
    monkeypatch.setattr(mode_costs, "infer", spend)
    monkeypatch.setattr(
        mode_costs,
        "energy_over_idle",
        partial(energy_over_idle, settle_s=0, idle_s=0.02),
    )
    monkeypatch.setattr(energy, "rails", partial(rails, root, library=card))
    printed = commands.call(*command, "--samples", 7, "--energy")
    assert "Energy is uncertain: the run lasted" in printed
    modes = tomllib.loads((tmp_path / "cache/costs.toml").read_text())["modes"]
    assert list(modes) == ["tiny-64", "tiny-96"]
    for entry in modes.values():
        assert [entry[key] for key in ("mj", "mj_gpu", "mj_all")] == pytest.approx(
            [2 + 5, 5, 2 + 1 + 5], rel=1e-9
        )
        assert entry["energy"].startswith(
            "above idle; mj_gpu: NVML card 0 + NVML card 1; mj: "
            "RAPL intel-rapl:0 + NVML"
        )
        assert entry["note"].startswith("Energy is uncertain")
        assert "gpu_ms" not in entry
    first = (tmp_path / "cache/costs.toml").read_text()
    commands.call(*command, "--energy")
    assert (tmp_path / "cache/costs.toml").read_text() == first


@pytest.mark.long
def test_rails_of_a_board_are_sampled_while_latency_is_measured(
    tmp_path, monkeypatch, picture, weights
):
    """A board whose rails rise during the calls: GPU by 2 W, CPU by 1 W, memory by 0.5
    W.
    """
    root, infer = write_tree(tmp_path, hwmon_tree(XAVIER.values())), mode_costs.infer
    chips = root / "class/hwmon"
    rises_ma = {
        "hwmon1/curr1_input": 200,
        "hwmon1/curr2_input": 100,
        "hwmon2/curr2_input": 50,
    }
    for name in rises_ma:
        (chips / name).with_name(f"in{name[-7]}_input").write_text("10000\n")

    def draw(extra: float) -> None:
        for name, rise in rises_ma.items():
            part = chips / f"{name}.new"
            part.write_text(f"{300 + round(extra * rise)}\n")
            part.rename(chips / name)

    def busy(*words):
        draw(1)
        time.sleep(0.02)
        return infer(*words)

    def rest(seconds: float) -> None:
        draw(0)
        time.sleep(seconds)

    draw(0)
    monkeypatch.setattr(mode_costs, "infer", busy)
    monkeypatch.setattr(
        mode_costs,
        "energy_over_idle",
        partial(energy_over_idle, settle_s=0.01, idle_s=0.2, sleep=rest),
    )
    cost = measure_mode(
        load_detector(weights),
        [picture],
        size=64,
        samples=60,
        warmup=0,
        sensors=rails(root),
    )
    frame_ms = cost.timing.total_ms.mean()
    assert frame_ms >= 20
    expected = {"mj_gpu": 2 * frame_ms, "mj": 3 * frame_ms, "mj_all": 3.5 * frame_ms}
    assert cost.energy.mj == pytest.approx(expected, rel=0.05)
    assert cost.energy.idle_mw["mj_gpu"] == pytest.approx(3000, rel=0.01)


def test_options_of_tensorrt_reach_the_session(tmp_path, monkeypatch, weights):
    onnxruntime = onnx_model.vision("onnxruntime")
    opened, real = [], onnxruntime.InferenceSession

    def session(source, options, *, providers):
        opened.append(providers)
        return real(source, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [TENSORRT])
    config = DetectorConfig(
        provider=TENSORRT, fp16=True, engine_cache=str(tmp_path / "engines")
    )
    with pytest.raises(InputError, match="fell back to CPUExecutionProvider"):
        load_detector(weights, config=config)
    settings = {
        "trt_fp16_enable": "1",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(tmp_path / "engines"),
    }
    assert opened == [[(TENSORRT, settings)]]
    with pytest.raises(InputError, match="fell back"):
        load_detector(weights, config=DetectorConfig(provider=TENSORRT))
    assert opened[1:] == [[TENSORRT]]


def event(cat: str, name: str, ts: int, dur: int) -> dict[str, object]:
    """An event of ONNX Runtime's profiler."""
    return {
        "cat": cat,
        "pid": 1,
        "tid": 1,
        "dur": dur,
        "ts": ts,
        "ph": "X",
        "name": name,
        "args": {},
    }


def test_gpu_time_is_the_median_of_the_recorded_calls(monkeypatch, weights, picture):
    """The record is ONNX Runtime's own; a processor adds no GPU work, so the k-th call
    gets k ms by hand.
    """
    plain = load_detector(weights)
    on_gpu = detector.Detector(
        plain.model, plain.style, plain.names, DetectorConfig(provider=TENSORRT)
    )
    monkeypatch.setattr(
        mode_costs,
        "load_detector",
        lambda weights, *, names, config, profile: load_detector(
            weights, profile=profile
        ),
    )
    assert gpu_ms(weights, plain, [picture], names=None, size=64) is None
    assert gpu_ms(weights, on_gpu, [picture], names=None, size=64) is None
    read = mode_costs.read_json

    def with_work(path, what):
        events = read(path, what)
        calls = sorted(one["ts"] for one in events if one["name"] == "model_run")
        return [
            *events,
            *(
                event("Kernel", "conv", ts, 1000 * k)
                for k, ts in enumerate(calls[-40:], start=1)
            ),
        ]

    monkeypatch.setattr(mode_costs, "read_json", with_work)
    time_ms = gpu_ms(weights, on_gpu, [picture], names=None, size=64)
    assert time_ms == (21 + 40) / 2
    entry = cost_entry(
        measure_mode(plain, [picture], size=64, samples=2)._replace(gpu_ms=time_ms),
        on_gpu,
        size=64,
        weights_sha256="0",
    )
    assert entry["gpu_ms"] == time_ms
    assert entry["device"].endswith(TENSORRT)
    json.dumps(entry)
