"""Turns a detector and some images into per-mode latencies, stage by stage, and those into a costs file.

Latencies differ from run to run, so they live in their own TOML file apart from the byte-stable cache.
"""

import json
import platform
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.files import write_atomically
from deepval.perception.detector import Detector, check_size, decoded_image, finished, inferred, prepared

Entry = dict[str, float | int | str]


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
        "device": f"{_processor()}, {detector.config.provider}",
        "weights_sha256": weights_sha256,
    }


def read_mode_costs(path: Path) -> dict[str, Mapping[str, object]]:
    """The `[modes.<name>]` tables of a costs file; empty where there is no file yet."""
    if not path.exists():
        return {}
    try:
        modes = tomllib.loads(path.read_text(encoding="utf-8")).get("modes", {})
    except (OSError, ValueError) as error:
        raise InputError(f"The costs must be a TOML file, and {path} cannot be read: {error}.") from error
    if not isinstance(modes, dict) or not all(isinstance(entry, dict) for entry in modes.values()):
        raise InputError(f"The costs of modes must be tables [modes.<name>], and are not in {path}.")
    return modes


def add_mode_costs(path: Path, entries: Mapping[str, Entry]) -> None:
    """Append one `[modes.<name>]` table per entry; what the file already says stays as it is."""
    before = path.read_text(encoding="utf-8").rstrip() + "\n\n" if path.exists() else ""
    tables = [f"[modes.{_key(mode)}]\n{_lines(entry)}" for mode, entry in entries.items()]
    text = before.lstrip() + "\n".join(tables)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"The costs of {', '.join(entries)} cannot be added to {path} ({error}): use another costs file."
        ) from error
    write_atomically(path, text, make_folder=True)


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


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: *(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _lines(entry: Entry) -> str:
    return "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)}\n"
        for key, value in entry.items()
    )
