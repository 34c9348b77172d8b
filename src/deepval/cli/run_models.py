"""`deepval perceive`: images -> detections of a detector at several resolutions."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from deepval.cli import options, terminal
from deepval.cli.build_cells import DataFiles
from deepval.cli.terminal import say
from deepval.cli.typer_commands import Json, Workers, option
from deepval.errors import InputError, InputWarning
from deepval.files.writing import check_writable
from deepval.metering.energy import rails
from deepval.perception.running.decoding import STYLES
from deepval.perception.running.onnx_model import PROVIDERS, check_provider
from deepval.report.text_tables import quantity
from deepval.world.scene import pictures_of


def perceive(
    images: Annotated[
        Path | None,
        typer.Argument(help="Folder of images; each sub-folder with images is a unit."),
    ] = None,
    *,
    weights: Annotated[
        Path, option("--weights", "Detector (.onnx), YOLO or DETR style.", short="-w")
    ],
    size: Annotated[
        list[int],
        option("--size", "Resolution in pixels. Repeatable.", within=(1, 16_384)),
    ],
    out: Annotated[
        Path,
        option("--out", "Cache folder; a stopped run continues there.", short="-o"),
    ],
    names: Annotated[
        Path | None, option("--names", "Class names (.json) if the model has none.")
    ] = None,
    style: Annotated[
        str,
        option(
            "--style",
            f"Output format of the detector: auto, {', '.join(STYLES)}.",
            words=("auto", *STYLES),
        ),
    ] = "auto",
    threads: Annotated[
        int, option("--threads", "Threads of ONNX Runtime.", within=(1, 1_024))
    ] = 2,
    provider: Annotated[
        str,
        option(
            "--provider",
            f"Provider of ONNX Runtime: {', '.join(PROVIDERS)}.",
            words=PROVIDERS,
        ),
    ] = "cpu",
    fp16: Annotated[
        bool, option("--fp16", "TensorRT: compute in half precision.")
    ] = False,
    engine_cache: Annotated[
        Path | None,
        option(
            "--engine-cache", "TensorRT: folder of built engines, to load or to fill."
        ),
    ] = None,
    batch: Annotated[
        int, option("--batch", "Images per call of the detector.", within=(1, 100_000))
    ] = 1,
    on_error: Annotated[
        str,
        option(
            "--on-error",
            "A broken image: raise (stop), or record as failed.",
            words=("raise", "record"),
        ),
    ] = "raise",
    files: DataFiles,
    samples: Annotated[
        int,
        option(
            "--samples", "Timed calls per mode; 0: no timing.", within=(0, 1_000_000)
        ),
    ] = 50,
    energy: Annotated[
        bool,
        option(
            "--energy", "Measure energy above idle in the timed calls; needs a sensor."
        ),
    ] = False,
    workers: Workers,
    json: Json = False,
) -> None:
    """Run a detector over images at several resolutions.

    The images lie in a folder or belong to a data set with pictures. The cache gets the
    detections of every unit, and the cost of every mode.

    Example: deepval perceive images -w yolov8s.onnx --size 320 --size 640 --out cache

    A data set: deepval perceive --dataset nuscenes --root nuscenes -w yolov8s.onnx
    --size 320 --size 640 --out cache
    """
    from deepval.perception.running.detector import DetectorConfig
    from deepval.perception.running.perceive import perceive as run

    check_writable(out, folder=True)
    if energy and not samples:
        raise InputError(
            "--energy is measured in the timed calls, and --samples "
            "is 0: take 1 or more."
        )
    runs_on = PROVIDERS[options.one_of(provider, tuple(PROVIDERS), "--provider")]
    engines = None if engine_cache is None else str(engine_cache)
    config = DetectorConfig(
        style=style,
        threads=threads,
        provider=runs_on,
        batch=batch,
        fp16=fp16,
        engine_cache=engines,
    )
    check_provider(runs_on)
    if engine_cache is not None:
        check_writable(engine_cache, folder=True)
    sensors = rails() if energy else ()
    source = _pictures(images, files)
    with workers.start() as map_units, terminal.step_bar() as step:
        done = run(
            source,
            out,
            weights=weights,
            sizes=size,
            names=names,
            config=config,
            on_error=on_error,
            latency_samples=samples,
            sensors=sensors,
            map_units=map_units,
            progress=lambda at: step(f"{at.mode} {at.unit}", at.done, at.total),
        )
    if json:
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
