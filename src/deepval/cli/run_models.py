"""Commands that run or train a model: `deepval perceive`, `deepval drive` and `deepval train-planner`.

Images -> detections; logged scenes -> distance, contacts and comfort of a planner in closed loop; drives with maps ->
weights and masks of the learned planner.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from deepval.cells import sources
from deepval.cells.spec import ROLES, split, units_of
from deepval.cells.unit import mode_report, used_detections
from deepval.cli import options, terminal
from deepval.cli.build_cells import DataFiles, MappedFiles, check_roads
from deepval.cli.commands import option
from deepval.cli.options import Json, Seed, Workers
from deepval.cli.terminal import say
from deepval.datasets import DATASETS, Dataset
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.replay import perception_at, replay_from
from deepval.errors import InputError, InputWarning
from deepval.files.canonical import digest_of, file_digest
from deepval.files.writing import check_writable
from deepval.metering.energy import rails
from deepval.perception.placing import PLACINGS, Placing
from deepval.perception.running.decoding import STYLES
from deepval.perception.running.onnx_model import PROVIDERS, check_provider
from deepval.planners.closed_loop import DrivenScene
from deepval.planners.closed_loop import drive as driven
from deepval.planners.observation import Planner
from deepval.report.text_tables import MISSING, Table, TableCell, number, percent, quantity
from deepval.world.objects import Objects
from deepval.world.scene import pictures_of


def perceive(
    images: Annotated[
        Path | None, typer.Argument(help="Folder of images; each sub-folder with images is a unit.")
    ] = None,
    *,
    weights: Annotated[Path, option("--weights", "Detector (.onnx), YOLO or DETR style.", short="-w")],
    size: Annotated[list[int], option("--size", "Resolution in pixels. Repeatable.", within=(1, 16_384))],
    out: Annotated[Path, option("--out", "Cache folder; a stopped run continues there.", short="-o")],
    names: Annotated[Path | None, option("--names", "Class names (.json) if the model has none.")] = None,
    style: Annotated[
        str, option("--style", f"Output format of the detector: auto, {', '.join(STYLES)}.", words=("auto", *STYLES))
    ] = "auto",
    threads: Annotated[int, option("--threads", "Threads of ONNX Runtime.", within=(1, 1_024))] = 2,
    provider: Annotated[
        str, option("--provider", f"Provider of ONNX Runtime: {', '.join(PROVIDERS)}.", words=PROVIDERS)
    ] = "cpu",
    fp16: Annotated[bool, option("--fp16", "TensorRT: compute in half precision.")] = False,
    engine_cache: Annotated[
        Path | None, option("--engine-cache", "TensorRT: folder of built engines, to load or to fill.")
    ] = None,
    batch: Annotated[int, option("--batch", "Images per call of the detector.", within=(1, 100_000))] = 1,
    on_error: Annotated[
        str, option("--on-error", "A broken image: raise (stop), or record as failed.", words=("raise", "record"))
    ] = "raise",
    files: DataFiles,
    samples: Annotated[int, option("--samples", "Timed calls per mode; 0: no timing.", within=(0, 1_000_000))] = 50,
    energy: Annotated[
        bool, option("--energy", "Measure energy above idle in the timed calls; needs a sensor.")
    ] = False,
    workers: Workers,
    json: Json = False,
) -> None:
    """Run a detector over images at several resolutions.

    The images lie in a folder or belong to a data set with pictures. The cache gets the detections of every unit, and
    the cost of every mode.

    Example: deepval perceive images -w yolov8s.onnx --size 320 --size 640 --out cache

    A data set: deepval perceive --dataset nuscenes --root nuscenes -w yolov8s.onnx --size 320 --size 640 --out cache
    """
    from deepval.perception.running.detector import DetectorConfig
    from deepval.perception.running.perceive import perceive as run

    check_writable(out, folder=True)
    if energy and not samples:
        raise InputError("--energy is measured in the timed calls, and --samples is 0: take 1 or more.")
    runs_on = PROVIDERS[options.one_of(provider, tuple(PROVIDERS), "--provider")]
    engines = None if engine_cache is None else str(engine_cache)
    config = DetectorConfig(
        style=style, threads=threads, provider=runs_on, batch=batch, fp16=fp16, engine_cache=engines
    )
    check_provider(runs_on)
    if engine_cache is not None:
        check_writable(engine_cache, folder=True)
    sensors = rails() if energy else ()
    source = _pictures(images, files)
    with workers.start() as engine, terminal.step_bar() as step:
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
            engine=engine,
            progress=lambda at: step(f"{at.mode} {at.unit}", at.done, at.total),
        )
    if json:
        terminal.print_json([vars(mode) for mode in done.modes])
        return
    for mode in done.modes:
        say(
            f"{mode.mode}: {quantity(mode.boxes, 'box', 'boxes')} on {quantity(mode.frames, 'frame')} of "
            f"{quantity(mode.units, 'unit')} ({mode.units_run} run now, {quantity(mode.failed, 'frame')} failed)"
        )
        if mode.note is not None:
            say(f"  note: {mode.note} Use more --samples on a quiet machine.")
    say(f"Detections and manifest in {out}" + (f", costs in {done.costs}" if done.costs else ""))


def _pictures(images: Path | None, files: DataFiles) -> "Path | dict[str, list[tuple[int, Path]]]":
    """A folder of images, or the pictures of a data set by unit."""
    if files.dataset is None and images is not None and files.root is None and files.units is None:
        return images
    if images is not None or files.dataset is None:
        raise InputError("Give a folder of images, or --dataset with --root and --units, not both.")
    opened = files.open()
    units = opened.select(files.unit_names)
    pictures = pictures_of(opened.read_unit(unit)[0] for unit in terminal.watch(units, f"units of {opened.name}"))
    if not pictures.units:
        raise InputError(
            f"Pictures of {opened.name} must lie below {files.root}; none of {quantity(len(units), 'unit')} has one."
        )
    if pictures.frames_left_out:
        warnings.warn(InputWarning(f"{opened.name}: {pictures.note}."), stacklevel=2)
    return pictures.units


Perceive = Callable[[str], Objects]
"""A unit's id -> the objects that a mode perceives, state by state."""


def _idm() -> Planner:
    from deepval.planners.idm import Idm

    return Idm()


def _pdm_closed() -> Planner:
    from deepval.planners.pdm_closed import PdmClosed

    return PdmClosed()


PLANNERS: dict[str, Callable[[], Planner]] = {"idm": _idm, "pdm-closed": _pdm_closed}


class DriveRow(NamedTuple):
    """One drive: the unit, the state it started from, and what came of it."""

    unit: str
    start: int
    drive: DrivenScene


def drive(
    *,
    files: DataFiles,
    planner: Annotated[str, option("--planner", f"{' or '.join(PLANNERS)}.")],
    start: Annotated[
        str, option("--from", "Keyframes to start from: 0 or 0,10,20; all: those with a second to drive.")
    ] = "0",
    seconds: Annotated[
        float, option("--seconds", "Duration of a drive; it ends with the scene.", within=(0, 1e6))
    ] = 6.0,
    replan: Annotated[float, option("--replan", "Seconds between plans, a multiple of 0.1.", within=(0, 1e6))] = 0.1,
    mode: Annotated[
        str | None,
        option("--mode", "Perception: NAME=DETECTIONS, or a mode without a file. Default: everything, always."),
    ] = None,
    threshold: Annotated[
        float | None, option("--threshold", "Lowest score of the mode's detections.", within=(-1e9, 1e9))
    ] = None,
    geometry: Annotated[
        str | None, option("--geometry", f"How the mode's detections become objects: {', '.join(PLACINGS)}.")
    ] = None,
    json: Json = False,
) -> None:
    """Let a planner drive logged scenes in closed loop.

    Its plans are tracked; the other road users move as logged. The output has distance, contacts and comfort.

    Example: deepval drive --dataset scenarionet --root records --planner pdm-closed --seconds 60
    """
    kind = files.kind
    options.one_of(planner, tuple(PLANNERS), "--planner")
    if files.root is None:
        raise InputError("--root must be given: the folder of the data set's files.")
    if not seconds:
        raise InputError(f"--seconds must be above 0; found {seconds:g}.")
    opened = files.open()
    if not hasattr(opened, "read_log"):
        names = ", ".join(name for name, reader in DATASETS.items() if hasattr(reader, "read_log"))
        raise InputError(f"--dataset must have one logged drive with a lane map per unit ({names}); found {kind}.")
    if mode is None and not (threshold is None and geometry is None):
        raise InputError("--threshold and --geometry apply only to --mode: give it too.")
    units = opened.select(files.unit_names)
    placing = options.one_of(geometry or "tracks", tuple(PLACINGS), "--geometry")
    perceive = None if mode is None else _perceive(opened, units, _mode_file(mode, threshold), PLACINGS[placing])
    rows = list(
        _drives(
            opened,
            units,
            planner=PLANNERS[planner](),
            starts=_starts(start),
            seconds=seconds,
            replan_s=replan,
            perceive=perceive,
        )
    )
    if json:
        terminal.print_json([_summary(row) for row in rows])
    else:
        terminal.print_tables([_table(rows, planner)])


def _drives(
    dataset: Any,
    units: Sequence[str],
    *,
    planner: Planner,
    starts: list[int] | None,
    seconds: float,
    replan_s: float,
    perceive: Perceive | None,
) -> Iterator[DriveRow]:
    """Every requested drive, unit by unit."""
    with terminal.step_bar() as step:
        for index, unit in enumerate(units):
            log: Log = dataset.read_log(unit)
            objects = None if perceive is None else perceive(unit)
            for state in starts if starts is not None else _drivable(log):
                step(f"driving {unit} from {state}", index, len(units))
                replay = replay_from(log, state)
                observed = None if objects is None else perception_at(log, objects, state)
                done = driven(planner, replay, seconds=seconds, replan_s=replan_s, observed=observed)
                yield DriveRow(unit, state, done)


def _mode_file(text: str, threshold: float | None) -> sources.ModeFile:
    name, equals, path = text.partition("=")
    return sources.ModeFile(name, Path(path) if equals else None, threshold)


def _perceive(dataset: Dataset, units: Sequence[str], mode: sources.ModeFile, placing: Placing) -> Perceive:
    """A function that returns the objects that the mode perceives in a unit."""
    (mode_spec,) = sources.from_files(dataset, [mode], units=units).modes

    def perceive(unit: str) -> Objects:
        scene, truth = dataset.read_unit(unit)
        return placing.place(used_detections(mode_spec, mode_report(mode_spec, scene, truth)), scene, truth)

    return perceive


def _starts(text: str) -> list[int] | None:
    """Keyframes from 0,10,20; None for all."""
    if text == "all":
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < options.LONGEST_NUMBER for part in parts):
        raise InputError(f"--from must be a keyframe, several as 0,10,20, or all; found {text!r}.")
    return [int(part) for part in parts]


def _drivable(log: Log) -> list[int]:
    """Numbers of the states with a second or more left to drive."""
    return [number for number, step in enumerate(log.states) if log.time_s[-1] - log.time_s[step] > 1.0 - 1e-6]


def _table(rows: Sequence[DriveRow], planner: str) -> Table:
    header = ("scene", "from", "s", "way m", "logged m", "contacts", "at fault", "clearance m", "off log m", "comfort")
    lines = tuple(tuple(map(TableCell, _texts(row))) for row in rows)
    touched = [
        f"{row.unit} from {row.start}: {contact.agent} after {contact.time_s:.1f} s, {contact.how}, "
        f"{'at fault' if contact.at_fault else 'not at fault'} ({contact.ego_speed_mps:.1f} m/s, the other "
        f"{contact.agent_speed_mps:.1f} m/s)"
        for row in rows
        for contact in row.drive.contacts
    ]
    notes = (
        "clearance: the smallest to any logged other. off log: from the logged vehicle at the end. comfort: of all 4 s "
        "spans.",
        *touched,
    )
    return Table(f"Closed loop, {planner}", header, (lines,), notes, ("logged m", "comfort"))


def _texts(row: DriveRow) -> tuple[str, ...]:
    drive = row.drive
    clearance, comfort = _finite_or_none(float(drive.clearance_m.min())), _finite_or_none(drive.comfort)
    return (
        *(row.unit, str(row.start), f"{drive.seconds:.1f}", number(drive.way_m, 1), number(drive.logged_way_m, 1)),
        *(str(len(drive.contacts)), str(sum(contact.at_fault for contact in drive.contacts))),
        *(MISSING if clearance is None else number(clearance, 2), number(drive.deviation_m, 1), percent(comfort, 0)),
    )


def _summary(row: DriveRow) -> dict[str, Any]:
    drive = row.drive
    return {
        "unit": row.unit,
        "from": row.start,
        "seconds": drive.seconds,
        "way_m": drive.way_m,
        "logged_way_m": drive.logged_way_m,
        "deviation_m": drive.deviation_m,
        "comfort": _finite_or_none(drive.comfort),
        "clearance_m": _finite_or_none(float(drive.clearance_m.min())),
        "plans": drive.plans,
        "contacts": [asdict(contact) for contact in drive.contacts],
        "pose": drive.pose.tolist(),
        "speed_mps": drive.speed_mps.tolist(),
        "clearances_m": [_finite_or_none(value) for value in drive.clearance_m.tolist()],
    }


def _finite_or_none(value: float) -> float | None:
    """The number; None where it is not finite."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class TrainingFiles(MappedFiles):
    """A data set with poses and maps, and the units to train on."""

    units: Annotated[str | None, option("--units", "train (the default), validation, fit, all, a,b,c or a file.")] = (
        "train"
    )

    def chosen(self, source: Dataset) -> tuple[str, ...]:
        """Units by role or by name."""
        text = self.units or "train"
        names = options.unit_list(text, ROLES) or []
        if names == [text] and text in ROLES:
            return units_of(split(source.name, source.unit_ids()), text)
        return source.select(names)


def train_planner(
    *,
    out: Annotated[Path, option("--out", "Folder; a stopped run continues there.", short="-o")],
    files: TrainingFiles,
    width: Annotated[int, option("--width", "Channels of the first layer; published: 64.", within=(1, 4_096))] = 64,
    grid: Annotated[
        int, option("--grid", "Grid cells per side, a multiple of 64; published: 256.", within=(1, 4_096))
    ] = 256,
    steps: Annotated[int, option("--steps", "Training steps; published: about 100,000.", within=(0, 10**9))] = 1000,
    batch: Annotated[int, option("--batch", "Samples per step.", within=(1, 100_000))] = 16,
    every: Annotated[float, option("--every", "Seconds between samples of a road user.", within=(0, 1e6))] = 0.25,
    others: Annotated[
        bool, option("--others", "Train on other moving vehicles too, not only on the ego vehicle.")
    ] = False,
    seed: Seed = 0,
    threads: Annotated[int, option("--threads", "Threads of torch; the result depends on it.", within=(1, 1_024))] = 1,
    json: Json = False,
) -> None:
    """Train the learned planner behind planner-ade, PKL and TIP.

    The weights are labelled as trained here; they are not the published ones.

    Example: deepval train-planner --dataset nuscenes --root nuscenes --maps expansion --steps 2000 --out planner
    """
    from deepval.planners.neural.plan_metrics import PlanGrid
    from deepval.planners.neural.training import TrainingSettings, samples_of, unit_samples
    from deepval.planners.neural.training import train as run

    check_writable(out, folder=True)
    if not every:
        raise InputError(f"--every must be more than 0 seconds; found {every:g}.")
    settings = TrainingSettings(width=width, steps=steps, batch=batch, seed=seed, threads=threads)
    cells = PlanGrid(grid)
    source = files.open()
    units = files.chosen(source)
    check_roads(source, units)
    samples_by_unit = [
        unit_samples(*source.read_unit(unit), every_s=every, ego_only=not others)
        for unit in terminal.watch(units, f"units of {source.name}")
    ]
    trained = run(
        samples_of(samples_by_unit, cells), out, settings, source=_source(source, units), watch=terminal.watch
    )
    manifest = trained.manifest
    if json:
        terminal.print_json({"folder": str(out), **manifest})
        return
    say(
        f"{trained.weights} and {trained.masks}: {manifest['steps']:,} steps on {manifest['samples']:,} samples of "
        f"{quantity(len(units), 'unit')}, loss {manifest['loss']['first']:.4f} to {manifest['loss']['last']:.4f}; "
        f"{manifest['label']}."
    )


def _source(source: Dataset, units: tuple[str, ...]) -> dict[str, Any]:
    """The source of the samples, for the manifest."""
    files = {name: file_digest(path) for unit in units for name, path in source.files(unit).items()}
    return {"dataset": source.name, "units": list(units), "files_sha256": digest_of(files)}
