"""Turns a detector and some images into per-mode latencies, stage by stage, and those into entries of a costs file.

Latencies differ from run to run, so they live in their own TOML file apart from the byte-stable cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.metering.cost_files import Entry
from deepval.metering.machine import processor
from deepval.perception.detector import Detector, check_size, decoded_image, finished, inferred, prepared


@dataclass(frozen=True)
class Latency:
    """Milliseconds of each stage for each timed image: one image per call, file already in memory."""

    decode_ms: Float[np.ndarray, "input"]
    preprocess_ms: Float[np.ndarray, "input"]
    inference_ms: Float[np.ndarray, "input"]
    postprocess_ms: Float[np.ndarray, "input"]

    @property
    def no_decode_ms(self) -> Float[np.ndarray, "input"]:
        """Milliseconds from pixels to boxes."""
        return self.preprocess_ms + self.inference_ms + self.postprocess_ms

    @property
    def total_ms(self) -> Float[np.ndarray, "input"]:
        """Milliseconds from the encoded file to boxes."""
        return self.decode_ms + self.no_decode_ms


def measured_latency(
    detector: Detector, images: Sequence[bytes], *, size: int, samples: int = 50, warmup: int = 5
) -> Latency:
    """Stage times of `samples` calls over the encoded images in turn, after `warmup` calls that do not count.

    OpenCV is held to as many threads as the session while this runs.
    """
    import cv2

    check_size(detector, size)
    if not images or samples < 1:
        raise InputError(f"A latency needs an image and a sample, and has {len(images)} and {samples}.")
    threads = cv2.getNumThreads()
    cv2.setNumThreads(detector.config.threads)
    try:
        turns = [images[turn % len(images)] for turn in range(warmup + samples)]
        rows = [_stages_ms(detector, data, size=size) for data in turns][warmup:]
    finally:
        cv2.setNumThreads(threads)
    return Latency(*np.array(rows).T)


def cost_entry(latency: Latency, detector: Detector, *, size: int, weights_sha256: str) -> Entry:
    """What the costs file says of a mode: medians as `<stage>_ms`, 95th percentiles as `<stage>_p95_ms`.

    `ms` is the median from encoded file to boxes (decode included), `no_decode_ms` the same without decoding.
    """
    stages = {
        "": latency.total_ms,
        "no_decode_": latency.no_decode_ms,
        "decode_": latency.decode_ms,
        "preprocess_": latency.preprocess_ms,
        "inference_": latency.inference_ms,
        "postprocess_": latency.postprocess_ms,
    }
    entry: Entry = {f"{stage}ms": float(np.median(times)) for stage, times in stages.items()}
    entry |= {f"{stage}p95_ms": float(np.quantile(times, 0.95)) for stage, times in stages.items()}
    return entry | {
        "samples": latency.decode_ms.size,
        "size": size,
        "threads": detector.config.threads,
        "device": f"{processor()}, {detector.config.provider}",
        "weights_sha256": weights_sha256,
    }


def _stages_ms(detector: Detector, data: bytes, *, size: int) -> tuple[float, ...]:
    marks = [perf_counter_ns()]
    image = decoded_image(data)
    marks.append(perf_counter_ns())
    ready = prepared(detector, image, size=size)
    marks.append(perf_counter_ns())
    outputs = inferred(detector, ready.tensor)
    marks.append(perf_counter_ns())
    finished(detector, outputs, ready.placement)
    marks.append(perf_counter_ns())
    return tuple(float(step) / 1e6 for step in np.diff(marks))
