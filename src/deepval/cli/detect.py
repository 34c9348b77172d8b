"""`deepval detect`: images -> detections of a detector at several resolutions."""

import warnings
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files.writing import check_writable
from deepval.cli import options, terminal
from deepval.cli.data_options import NO_DATA, DataFiles
from deepval.cli.options import whole
from deepval.cli.terminal import say
from deepval.judge.report.text_tables import quantity

Style = Literal[
    "auto", "yolov8", "yolov5", "yolox", "yolox-decoded", "detr", "detr-softmax"
]
Provider = Literal["cpu", "cuda", "tensorrt", "coreml"]
"""Words that an option takes; the library has the same ones (tests/cli)."""


def detect(
    images: Path | None = None,
    /,
    *,
    weights: Annotated[Path, Parameter(alias="-w")],
    size: Annotated[tuple[int, ...], whole(1, 16_384)],
    out: Annotated[Path, Parameter(alias="-o", group=options.OUTPUT)],
    names: Path | None = None,
    style: Style = "auto",
    provider: Provider = "cpu",
    batch: Annotated[int, whole(1, 100_000)] = 1,
    samples: Annotated[int, whole(0, 1_000_000)] = 50,
    energy: bool = False,
    files: DataFiles = NO_DATA,
    workers: options.Workers = options.WORKERS_DEFAULTS,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """The images lie in a folder or belong to a data set with pictures. The cache gets
    the detections of every unit, and the cost of every mode.

    Example: deepval detect images -w yolov8s.onnx --size 320 640 --out cache

    A data set: deepval detect --dataset nuscenes --root nuscenes -w yolov8s.onnx
    --size 320 640 --out cache

    Args:
        images: Folder of images; each sub-folder with images is a unit.
        weights: Detector (.onnx), YOLO or DETR style.
        size: Resolution in pixels. Repeatable.
        out: Cache folder; a stopped run continues there.
        names: Class names (.json) if the model has none.
        style: Output format of the detector.
        provider: Provider of ONNX Runtime.
        batch: Images per call of the detector.
        samples: Timed calls per mode; 0: no timing.
        energy: Measure energy above idle in the timed calls; needs a sensor.
    """
    from deepval.driving.metering.energy import rails
    from deepval.driving.perception.running.detector import DetectorConfig
    from deepval.driving.perception.running.onnx_model import PROVIDERS, check_provider
    from deepval.driving.perception.running.perceive import perceive

    check_writable(out, folder=True)
    if energy and not samples:
        raise InputError(
            "--energy is measured in the timed calls, and --samples "
            "is 0: take 1 or more."
        )
    runs_on = PROVIDERS[provider]
    check_provider(runs_on)
    sensors = rails() if energy else ()
    source = _pictures(images, files)
    with workers.start() as map_units, terminal.step_bar() as step:
        done = perceive(
            source,
            out,
            weights=weights,
            sizes=size,
            names=names,
            config=DetectorConfig(style=style, provider=runs_on, batch=batch),
            latency_samples=samples,
            sensors=sensors,
            map_units=map_units,
            progress=lambda at: step(f"{at.mode} {at.unit}", at.done, at.total),
        )
    if printing.is_json:
        terminal.print_json([vars(mode) for mode in done.modes])
        return
    for mode in done.modes:
        say(
            f"{mode.mode}: {quantity(mode.boxes, 'box', 'boxes')} on "
            f"{quantity(mode.frames, 'frame')} of {quantity(mode.units, 'unit')} "
            f"({mode.units_run} run now, {quantity(mode.failed, 'frame')} failed)"
        )
        if mode.note is not None:
            say(f"  note: {mode.note} Use more --samples on a quiet machine.")
    say(
        f"Detections and manifest in {out}"
        + (f", costs in {done.costs}" if done.costs else "")
    )


def _pictures(
    images: Path | None, files: DataFiles
) -> "Path | dict[str, list[tuple[int, Path]]]":
    """A folder of images, or the pictures of a data set by unit."""
    if (
        files.dataset is None
        and images is not None
        and files.root is None
        and files.units is None
    ):
        return images
    if images is not None or files.dataset is None:
        raise InputError(
            "Give a folder of images, or --dataset with --root and --units, not both."
        )
    from deepval.driving.world.scene import pictures_of

    opened = files.open()
    units = opened.select(files.unit_names)
    pictures = pictures_of(
        opened.read_unit(unit)[0]
        for unit in terminal.watch(units, f"units of {opened.name}")
    )
    if not pictures.units:
        raise InputError(
            f"Pictures of {opened.name} must "
            f"lie below {files.root}; none of {quantity(len(units), 'unit')} has one."
        )
    if pictures.frames_left_out:
        warnings.warn(InputWarning(f"{opened.name}: {pictures.note}."), stacklevel=2)
    return pictures.units
