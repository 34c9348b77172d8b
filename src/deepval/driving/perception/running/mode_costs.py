"""A detector and encoded images -> the costs of a mode: latency by stage, energy above
idle, GPU time.

The GPU time of a call is the sum of the GPU work (kernels and copies) that the provider
reports to ONNX Runtime's profiler: events of category `Kernel`, which belong to the
last `model_run` that began before them.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.errors import InputError
from deepval.basics.files.canonical import read_json
from deepval.driving.metering.cost_cards import read_entries
from deepval.driving.metering.energy import EnergyUse, Rail, energy_over_idle
from deepval.driving.metering.timing import (
    Entry,
    Stages,
    Timing,
    figures,
    measure,
    processor,
    thread_limit,
)
from deepval.driving.perception.running import onnx_model
from deepval.driving.perception.running.detector import (
    Detector,
    boxes_from,
    check_size,
    decode_image,
    infer,
    load_detector,
    prepare,
)

GPU_CALLS = 20
"""Calls per mode whose GPU time is recorded, after the warm-up."""


class ModeCost(NamedTuple):
    """The cost of a mode per image: times, energy where it was measured, GPU time where
    the provider reports it.
    """

    timing: Timing
    energy: EnergyUse | None = None
    gpu_ms: float | None = None

    @property
    def note(self) -> str | None:
        """Sentences that qualify the figures; None if there are none."""
        return (
            " ".join(filter(None, (self.timing.note, self.energy and self.energy.note)))
            or None
        )


def measure_mode(
    detector: Detector,
    images: Sequence[bytes],
    *,
    size: int,
    samples: int = 50,
    warmup: int = 5,
    sensors: Sequence[Rail] = (),
) -> ModeCost:
    """Cost of `samples` calls over the encoded images in turn: one image per call, file
    already in memory.

    Thread pools are limited to the session's number of threads while this runs. With
    sensors, energy is measured over the timed calls and their warm-up.
    """
    check_size(detector, size)
    onnx_model.vision("cv2")  # loaded before its threads are limited
    stages = _stages(detector, size)
    timings: list[Timing] = []

    def run() -> int:
        timings.append(measure(stages, images, calls=samples, warmup=warmup))
        return warmup + samples

    with thread_limit(detector.config.threads):
        if not sensors:
            run()
            return ModeCost(timings[0])
        # The first calls at a size may build an engine, whose energy is no part of a
        # pass.
        measure(stages, images, calls=max(warmup, 1), warmup=0)
        spent = energy_over_idle(run, sensors)
    return ModeCost(timings[0], spent)


def gpu_ms(
    weights: Path,
    detector: Detector,
    images: Sequence[bytes],
    *,
    names: Path | None,
    size: int,
) -> float | None:
    """Median milliseconds of GPU work per image; None on a processor and where the
    provider reports none.
    """
    if detector.config.provider == onnx_model.PROVIDERS["cpu"]:
        return None
    with TemporaryDirectory() as folder:
        recorded = load_detector(
            weights, names=names, config=detector.config, profile=Path(folder) / "calls"
        )
        measure(_stages(recorded, size), images, calls=GPU_CALLS, warmup=GPU_CALLS)
        per_call = gpu_times_ms(
            read_json(
                Path(recorded.model.session.end_profiling()), "a record of ONNX Runtime"
            )
        )
    return float(np.median(per_call[-GPU_CALLS:])) if per_call else None


def gpu_times_ms(events: Sequence[Mapping[str, Any]]) -> list[float]:
    """Milliseconds of GPU work of each call in a record of ONNX Runtime; empty where no
    GPU work is reported.
    """
    began = np.sort(
        [event["ts"] for event in events if event.get("name") == "model_run"]
    )
    work = [event for event in events if event.get("cat") == "Kernel"]
    if not work or not len(began):
        return []
    # Work before the first call is the upload of the weights.
    call = np.searchsorted(began, [event["ts"] for event in work], side="right")
    return (
        np.bincount(call, [event["dur"] for event in work], minlength=len(began) + 1)[
            1:
        ]
        / 1e3
    ).tolist()


def _stages(detector: Detector, size: int) -> Stages:
    return {
        "decode": decode_image,
        "preprocess": lambda image: prepare(detector, image, size=size),
        "inference": lambda ready: (infer(detector, ready.tensor), ready.placement),
        "postprocess": lambda raw: boxes_from(detector, *raw),
    }


def cost_entry(
    cost: ModeCost, detector: Detector, *, size: int, weights_sha256: str
) -> Entry:
    """A mode's entry in the costs file: median and 95th percentile from encoded file to
    boxes and of each stage.

    `ms` is from encoded file to boxes (decode included), `no_decode_ms` the same
    without decoding.
    """
    timing, spent, config = cost.timing, cost.energy, detector.config
    parts = {
        "": timing.total_ms,
        "no_decode_": timing.total_ms - timing.stages["decode"],
    }
    parts |= {f"{stage}_": times for stage, times in timing.stages.items()}
    entry: Entry = {
        key: ms
        for prefix, times in parts.items()
        for key, ms in figures(prefix, times).items()
    }
    entry |= {} if cost.gpu_ms is None else {"gpu_ms": cost.gpu_ms}
    entry |= {} if spent is None else {**spent.entry(), "energy": spent.words}
    entry |= {} if spent is None or spent.note is None else {"note": spent.note}
    return entry | {
        "samples": timing.calls,
        "size": size,
        "threads": config.threads,
        "device": f"{processor()}, {config.provider}{' FP16' if config.fp16 else ''}",
        "weights_sha256": weights_sha256,
    }


def modes_to_measure(
    costs: Path, modes: Mapping[str, int], digest: str, *, energy: bool = False
) -> dict[str, int]:
    """The modes that the costs file lacks, cheapest first, which is the order of a
    costs file.

    Where energy is measured and a mode has none, all are measured again, which keeps
    the order.
    """
    measured = read_entries(costs, "modes")
    for mode in modes:
        if measured.get(mode, {}).get("weights_sha256", digest) != digest:
            raise InputError(
                f"{costs} holds the latency of mode {mode} for other weights: delete "
                "that entry, or use another costs file."
            )
    done = {mode for mode, entry in measured.items() if not energy or "energy" in entry}
    again = energy and not done >= set(modes)
    return {
        mode: size
        for mode, size in sorted(modes.items(), key=itemgetter(1))
        if again or mode not in done
    }
