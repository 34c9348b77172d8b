"""A detector and some images -> the times of a mode, stage by stage, and from those its entry of a costs file.

Times differ from run to run, so they live in their own TOML file apart from the byte-stable cache.
"""

from collections.abc import Sequence

from deepval.metering.cost_files import Entry
from deepval.metering.machine import held_to, processor
from deepval.metering.timing import Timing, figures, measured
from deepval.perception.running import onnx_model
from deepval.perception.running.detector import Detector, check_size, decoded_image, finished, inferred, prepared


def mode_timing(
    detector: Detector, images: Sequence[bytes], *, size: int, samples: int = 50, warmup: int = 5
) -> Timing:
    """Times of `samples` calls over the encoded images in turn: one image per call, file already in memory.

    Thread pools are held to as many threads as the session while this runs.
    """
    check_size(detector, size)
    onnx_model.vision("cv2")  # loaded before its threads are held
    stages = {
        "decode": decoded_image,
        "preprocess": lambda image: prepared(detector, image, size=size),
        "inference": lambda ready: (inferred(detector, ready.tensor), ready.placement),
        "postprocess": lambda found: finished(detector, *found),
    }
    with held_to(detector.config.threads):
        return measured(stages, images, calls=samples, warmup=warmup)


def cost_entry(timing: Timing, detector: Detector, *, size: int, weights_sha256: str) -> Entry:
    """What the costs file says of a mode: median and 95th percentile from encoded file to boxes and of each stage.

    `ms` is from encoded file to boxes (decode included), `no_decode_ms` the same without decoding.
    """
    parts = {"": timing.total_ms, "no_decode_": timing.total_ms - timing.stages["decode"]}
    parts |= {f"{stage}_": times for stage, times in timing.stages.items()}
    return {key: ms for prefix, times in parts.items() for key, ms in figures(prefix, times).items()} | {
        "samples": timing.calls,
        "size": size,
        "threads": detector.config.threads,
        "device": f"{processor()}, {detector.config.provider}",
        "weights_sha256": weights_sha256,
    }
