"""Images and one detector at several resolutions -> a cache filled unit by unit, and
latencies.

The function behind `deepval detect`. A mode is named `<weights file>-<resolution>`,
as `yolov8s-320`. If killed at any moment and run again, it continues after the last
unit written and ends with the same bytes. Latencies differ from run to run, so they go
to a costs file of their own, written last.
"""

import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Literal, NamedTuple

import numpy as np

from deepval.basics.errors import InputError, InputWarning
from deepval.basics.files import reading
from deepval.basics.files.canonical import sha256
from deepval.basics.workers import Map
from deepval.driving.metering.cost_cards import write_entries
from deepval.driving.metering.energy import Rail
from deepval.driving.perception.reported import cache as store
from deepval.driving.perception.reported.cache import FrameRecord
from deepval.driving.perception.running.decoding import FrameError
from deepval.driving.perception.running.detector import (
    Detector,
    DetectorConfig,
    Prepared,
    boxes_from,
    check_size,
    decode_image,
    infer_batch,
    load_detector,
    prepare,
)
from deepval.driving.perception.running.mode_costs import (
    cost_entry,
    gpu_ms,
    measure_mode,
    modes_to_measure,
)
from deepval.driving.perception.running.onnx_model import (
    PROVIDERS,
    Outputs,
    vision,
    weights_sha256,
)

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp"})
INT32_MAX = 2**31 - 1

Units = Mapping[str, Sequence[tuple[int, Path]]]
"""Unit name to (frame id, image file)."""


def units_in_folder(folder: Path) -> dict[str, list[tuple[int, Path]]]:
    """Units of a folder: every subfolder with images, or the folder itself where it
    contains the images.

    A frame's id is the number that its file is named after (`000012.jpg` is 12). Where
    a file of the unit is named otherwise, the unit's frames are numbered from 0 in
    natural order of the names (`a2` before `a10`).
    """
    if not reading.is_folder(folder):
        raise InputError(f"The images must lie in a folder, and {folder} is none.")
    own = _image_files(folder)
    below = {
        sub.name: _image_files(sub)
        for sub in sorted(reading.entries(folder))
        if reading.is_folder(sub)
    }
    below = {name: files for name, files in below.items() if files}
    if own and below:
        raise InputError(
            "A folder must hold images or subfolders of "
            f"images, and {folder} holds both."
        )
    if not own and not below:
        raise InputError(
            f"There must be images ({', '.join(sorted(SUFFIXES))}) in {folder}, and "
            "there are none."
        )
    units = below or {reading.resolve(folder).name: own}
    return {name: _number_frames(files) for name, files in units.items()}


def check_units(units: Units) -> dict[str, list[tuple[int, Path]]]:
    """The units, frames in order; InputError for a unit without images or a duplicate
    frame id.
    """
    if not units:
        raise InputError("At least one unit with images is needed, and there is none.")
    for unit, frames in units.items():
        ids = [frame for frame, _ in frames]
        if not unit or not ids:
            raise InputError(
                "Every unit needs a name and images, "
                f"and unit {unit!r} has {len(ids)} images."
            )
        if len(set(ids)) != len(ids) or min(ids) < 0 or max(ids) > INT32_MAX:
            raise InputError(
                "Frame ids must be different numbers "
                f"in 0..{INT32_MAX}; those of {unit} are not."
            )
    return {unit: sorted(frames) for unit, frames in units.items()}


def image_bytes(path: Path) -> bytes:
    """The content of an image file; FrameError where it cannot be read."""
    try:
        return reading.content(path, "an image")
    except InputError as error:
        # No path of the machine, because the cache stores the reasons.
        why = str(error).rpartition("; ")[2].rstrip(".")
        raise FrameError(f"the file cannot be read ({why})") from error


def image_sha256(path: Path) -> str | None:
    """SHA-256 of an image file, None where it cannot be read."""
    try:
        return sha256(image_bytes(path))
    except FrameError:
        return None


def _image_files(folder: Path) -> list[Path]:
    return [
        path
        for path in reading.entries(folder)
        if path.suffix.lower() in SUFFIXES and reading.is_file(path)
    ]


def _number_frames(files: Sequence[Path]) -> list[tuple[int, Path]]:
    if all(re.fullmatch(r"[0-9]+", path.stem) for path in files):
        return sorted((int(path.stem), path) for path in files)
    return list(enumerate(sorted(files, key=_natural)))


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.findall(r"[0-9]+|[^0-9]+", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


Step = Literal["run", "skip", "measure"]
IN_WORK = 2
"""Groups of images that are decoded or in the network at the same time."""


@dataclass(frozen=True)
class Progress:
    """The step just done: a frame run, a finished unit skipped, or a mode's latency
    measured (unit empty).

    `done` and `total` count frames of all modes and timed calls.
    """

    step: Step
    mode: str
    unit: str
    done: int
    total: int


@dataclass(frozen=True)
class ModeSummary:
    """The content of the cache for a mode and the requested units.

    `units_run` counts the units of this run; `note` reports a latency whose measurement
    is noisy.
    """

    mode: str
    size: int
    units: int
    units_run: int
    frames: int
    failed: int
    boxes: int
    note: str | None = None


@dataclass(frozen=True)
class Perceived:
    """The files that a run wrote and a summary per mode, in the order of the
    resolutions.
    """

    manifest: Path
    costs: Path | None
    modes: tuple[ModeSummary, ...]


def perceive(
    source: Path | Units,
    cache: Path,
    *,
    weights: Path,
    sizes: Sequence[int],
    names: Path | None = None,
    config: DetectorConfig | None = None,
    mode_prefix: str | None = None,
    on_error: str = "raise",
    costs: Path | None = None,
    latency_samples: int = 50,
    latency_warmup: int = 5,
    sensors: Sequence[Rail] = (),
    map_units: Map = map,
    progress: Callable[[Progress], None] | None = None,
) -> Perceived:
    """The detections of every unit at every resolution, in the cache folder, and their
    latencies.

    Args:
        source: A folder (see `units_in_folder`), or unit name to (frame id, image
            file).
        cache: Folder to fill or to go on filling; its manifest binds it to the weights
            and the config.
        weights: ONNX file.
        sizes: Resolutions; later runs may add units and resolutions to a cache.
        names: JSON file of class names; None takes them from the model's metadata.
        config: Style, thresholds, threads; None for the defaults.
        mode_prefix: First part of the modes' names; None for the name of the weights
            file.
        on_error: A missing or broken image stops the run (`raise`) or is a failed frame
            (`record`).
        costs: Costs file to add `[modes.<name>]` to; None for `costs.toml` in the cache
            folder. A mode in the file is not measured again.
        latency_samples: Timed calls per mode; 0 measures nothing.
        latency_warmup: Calls per mode before the timed ones.
        sensors: Rails whose energy is measured during the timed calls
            (`energy.rails()`); a mode without energy in the costs file is then measured
            again.
        map_units: How units are mapped. Workers must reach images, weights and cache by
            the same names, and report their progress by the unit.
        progress: Called after every step.
    """
    if on_error not in ("raise", "record"):
        raise InputError(f"on_error must be 'raise' or 'record', and is {on_error!r}.")
    units = check_units(units_in_folder(source) if isinstance(source, Path) else source)
    digest = weights_sha256(weights)
    detector = _load(weights, names, config, digest)
    modes = _mode_names(detector, sizes, mode_prefix or weights.stem)
    recipe = _recipe(detector, weights, digest)
    costs = costs or cache / "costs.toml"
    # Before the run, which may take hours, so that a conflicting costs file stops it at
    # once.
    unmeasured = (
        modes_to_measure(costs, modes, digest, energy=bool(sensors))
        if latency_samples
        else {}
    )
    frames = len(modes) * sum(map(len, units.values()))
    tally = _Tally(frames + len(unmeasured) * latency_samples, progress)
    with store.lock(cache):
        store.bind(cache, recipe)
        undone = _units_to_run(
            cache, units, modes=modes, record=on_error == "record", tally=tally
        )
        work = partial(
            _run, cache, (weights, names, config, digest), on_error == "record"
        )
        here = map_units is map
        every = partial(work, tick=partial(tally.add, 1, "run")) if here else work
        for item, entries in zip(undone, map_units(every, undone), strict=True):
            store.enter(cache, entries, unit=item.unit)
            for mode in () if here else item.modes:
                tally.add(len(item.frames), "run", mode, item.unit)
        units_run = {mode: sum(mode in item.modes for item in undone) for mode in modes}
        manifest = store.finish(cache)
        images = _sample(units, latency_samples) if unmeasured else []
        # Latency is measured as ONNX Runtime is usually run, with threads that spin.
        timed = (
            load_detector(weights, names=names, config=config)
            if unmeasured
            else detector
        )
        entries, notes = {}, {}
        for mode, size in unmeasured.items():
            calls = {"samples": latency_samples, "warmup": latency_warmup}
            cost = measure_mode(timed, images, size=size, sensors=sensors, **calls)
            cost = cost._replace(
                gpu_ms=gpu_ms(weights, timed, images, names=names, size=size)
            )
            entries[mode] = cost_entry(cost, detector, size=size, weights_sha256=digest)
            notes[mode] = cost.note
            tally.add(latency_samples, "measure", mode)
        if entries:
            write_entries(costs, "modes", entries)
    summaries = tuple(
        replace(
            _summary(cache, mode, size, list(units), units_run[mode]),
            note=notes.get(mode),
        )
        for mode, size in modes.items()
    )
    for summary in summaries:
        images = summary.frames - summary.failed
        if images and not summary.boxes:
            warnings.warn(
                store.silence(summary.mode, images), InputWarning, stacklevel=2
            )
    return Perceived(manifest, costs if latency_samples else None, summaries)


class _Tally:
    """Counts the finished steps and reports them."""

    def __init__(self, total: int, progress: Callable[[Progress], None] | None) -> None:
        self.total = total
        self.progress = progress
        self.done = 0

    def add(self, count: int, step: Step, mode: str, unit: str = "") -> None:
        self.done += count
        if self.progress is not None:
            self.progress(Progress(step, mode, unit, self.done, self.total))


class _UnitToRun(NamedTuple):
    """A unit, and the modes in which it is not done yet."""

    unit: str
    frames: list[tuple[int, Path]]
    modes: dict[str, int]


def _units_to_run(
    cache: Path, units: Units, *, modes: Mapping[str, int], record: bool, tally: _Tally
) -> list[_UnitToRun]:
    """The units to run; a finished unit is checked against its images and left
    unchanged.
    """
    undone = []
    for unit, frames in units.items():
        hashes: dict[int, str | None] = {}
        left = {
            mode: size
            for mode, size in modes.items()
            if unit not in store.units_in(cache, mode)
        }
        for mode in [mode for mode in modes if mode not in left]:
            hashes = hashes or {frame: image_sha256(path) for frame, path in frames}
            store.check_unit(cache, mode, unit=unit, frames=hashes, allow_failed=record)
            tally.add(len(frames), "skip", mode, unit)
        if left:
            undone.append(_UnitToRun(unit, list(frames), left))
    return undone


@lru_cache(maxsize=1)
def _load(
    weights: Path, names: Path | None, config: DetectorConfig | None, digest: str
) -> Detector:
    """The detector of weights with this hash, loaded once in every process that runs
    units.

    Its threads sleep while they wait: threads that spin would take the cores from the
    decoding of the next image.
    """
    return load_detector(weights, names=names, config=config, spinning=False)


def _run(
    cache: Path,
    loading: tuple[Path, Path | None, DetectorConfig | None, str],
    record: bool,  # noqa: FBT001  (bound by position, so that it can be sent to another process)
    item: _UnitToRun,
    tick: Callable[[str, str], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run a unit in all its modes, write its files, and return the manifest's entries
    by mode.

    Two groups of images are processed at a time: one is decoded while the other is in
    the detector.
    """
    detector = _load(*loading)
    records: dict[str, list[FrameRecord]] = {mode: [] for mode in item.modes}

    def take(group_records: Iterable[tuple[str, FrameRecord, Path]]) -> None:
        for mode, frame_record, path in group_records:
            if frame_record.reason is not None and not record:
                raise InputError(
                    f"Every frame must be usable, and frame {frame_record.frame} of "
                    f"unit {item.unit} ({path}) is not: {frame_record.reason}; repair "
                    "it, or record errors to go on without it."
                )
            records[mode].append(frame_record)
            if tick is not None:
                tick(mode, item.unit)

    together = detector.config.batch
    groups = [
        item.frames[start : start + together]
        for start in range(0, len(item.frames), together)
    ]
    work = partial(
        _group_records,
        detector,
        item.modes,
        BoundedSemaphore(_calls_at_once(detector.config)),
    )
    with ThreadPoolExecutor(IN_WORK) as pool:
        pending: deque[Future[list[tuple[str, FrameRecord, Path]]]] = deque()
        for group in groups:
            pending.append(pool.submit(work, group))
            # one more group is queued, so that no thread waits for the main thread
            if len(pending) > IN_WORK:
                take(pending.popleft().result())
        for future in pending:
            take(future.result())
    return {
        mode: store.unit_files(cache, mode, unit=item.unit, records=mode_records)
        for mode, mode_records in records.items()
    }


def _calls_at_once(config: DetectorConfig) -> int:
    """Calls of the network that may run at the same time: only on a processor, and only
    with several threads.
    """
    return IN_WORK if config.provider == PROVIDERS["cpu"] and config.threads > 1 else 1


def _group_records(
    detector: Detector,
    modes: Mapping[str, int],
    network: BoundedSemaphore,
    frames: Sequence[tuple[int, Path]],
) -> list[tuple[str, FrameRecord, Path]]:
    """The records of a group of frames in every mode; an image is decoded once."""
    pictures = [_picture(detector, modes, path) for _, path in frames]
    records = []
    for mode in modes:
        with network:
            outputs = _outputs(
                detector, [picture.ready.get(mode) for picture in pictures]
            )
        records += _frame_records(detector, mode, frames, pictures, outputs)
    return records


class _Picture(NamedTuple):
    """The content of an image file, ready for the detector in every mode, or the reason
    why it cannot be used.
    """

    digest: str | None
    hw_px: tuple[int, int] | None
    ready: Mapping[str, Prepared]
    reason: str | None


def _picture(detector: Detector, modes: Mapping[str, int], path: Path) -> _Picture:
    digest = None
    try:
        data = image_bytes(path)
        digest = sha256(data)
        image = decode_image(data)
    except FrameError as error:
        return _Picture(digest, None, {}, str(error))
    ready = {mode: prepare(detector, image, size=size) for mode, size in modes.items()}
    return _Picture(digest, (image.shape[0], image.shape[1]), ready, None)


def _outputs(
    detector: Detector, ready: Sequence[Prepared | None]
) -> list[Outputs | None]:
    """The model's outputs for each image that is ready; images of one shape go through
    it together.
    """
    outputs: list[Outputs | None] = [None] * len(ready)
    shapes: dict[tuple[int, ...], list[int]] = {}
    for index, prepared_image in enumerate(ready):
        if prepared_image is not None:
            shapes.setdefault(prepared_image.tensor.shape, []).append(index)
    for indices in shapes.values():
        tensors = [
            prepared_image.tensor
            for index in indices
            if (prepared_image := ready[index]) is not None
        ]
        for index, image_outputs in zip(
            indices, infer_batch(detector, tensors), strict=True
        ):
            outputs[index] = image_outputs
    return outputs


def _frame_records(
    detector: Detector,
    mode: str,
    frames: Sequence[tuple[int, Path]],
    pictures: Sequence[_Picture],
    outputs: Sequence[Outputs | None],
) -> list[tuple[str, FrameRecord, Path]]:
    """The records of frames in a mode."""
    records = []
    for (frame, path), picture, raw in zip(frames, pictures, outputs, strict=True):
        boxes, why = None, picture.reason
        if raw is not None:
            try:
                boxes = boxes_from(detector, raw, picture.ready[mode].placement)
            except FrameError as error:
                why = str(error)
        records.append(
            (
                mode,
                FrameRecord(
                    frame, path.name, picture.digest, picture.hw_px, boxes, why
                ),
                path,
            )
        )
    return records


def _sample(units: Units, samples: int) -> list[bytes]:
    """At most `samples` encoded images that can be decoded, spread evenly over all
    frames.
    """
    paths = [path for frames in units.values() for _, path in frames]
    images = []
    for index in np.linspace(0, len(paths) - 1, min(samples, len(paths))).astype(int):
        try:
            data = image_bytes(paths[index])
            decode_image(data)
        except FrameError:
            continue
        images.append(data)
    if not images:
        raise InputError(
            "A latency needs a readable image, and none of those tried is one: ask "
            "for 0 samples."
        )
    return images


def _recipe(detector: Detector, weights: Path, digest: str) -> dict[str, Any]:
    """All settings on which the boxes of an image at a resolution depend."""
    settings = asdict(detector.config)
    if settings["batch"] == 1:
        del settings["batch"]  # absent in caches from before batches existed
    if not settings["fp16"]:
        del settings["fp16"]
    del settings["engine_cache"]  # where engines are stored changes no box
    return {
        "weights": weights.name,
        "weights_sha256": digest,
        **settings,
        "style": detector.style,
        "onnxruntime": vision("onnxruntime").__version__,
        "opencv": vision("cv2").__version__,
        "names": list(detector.names),
    }


def _mode_names(
    detector: Detector, sizes: Sequence[int], prefix: str
) -> dict[str, int]:
    if not sizes or len(set(sizes)) != len(sizes):
        raise InputError(
            "At least one resolution is needed "
            f"and none twice, and {list(sizes)} were given."
        )
    if not re.fullmatch(r"\w[\w.+-]*", prefix):
        raise InputError(
            "A mode's name is made of letters, digits "
            f"and . _ + -, and {prefix!r} is not."
        )
    for size in sizes:
        check_size(detector, size)
    return {f"{prefix}-{size}": size for size in sizes}


def _summary(
    cache: Path, mode: str, size: int, units: Sequence[str], units_run: int
) -> ModeSummary:
    cached = store.read_mode(cache, mode)
    requested = np.isin(cached.run_seq, units)
    return ModeSummary(
        mode=mode,
        size=size,
        units=len(units),
        units_run=units_run,
        frames=int(requested.sum()),
        failed=int((requested & cached.run_failed).sum()),
        boxes=int(np.isin(cached.seq, units).sum()),
    )
