"""`deepval drive`: a planner on logged scenes, or a system in the synthetic world -> what came of its drives.

With allocators, every one of them drives the same scenes, and the drives are compared in pairs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from deepval.allocators import read_allocator
from deepval.allocators.allocator import SIGNALS
from deepval.cells import drives, sources
from deepval.cells.drives import (
    PERFECT,
    PLAIN,
    REFERENCE,
    Arm,
    Driven,
    DriveOutcome,
    DriveSetting,
    Followed,
    ModeReports,
)
from deepval.cells.spec import ModeSpec
from deepval.cells.unit import mode_report, used_detections
from deepval.cli import options, terminal
from deepval.cli.build_cells import DataFiles
from deepval.cli.commands import OptionGroup, option
from deepval.cli.options import OUTPUT, SUBJECT, DrawOptions, Json, Workers
from deepval.cli.terminal import say
from deepval.datasets import DATASETS, Dataset
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.replay import perception_at, replay_from
from deepval.datasets.synthetic import MODES, MOST_SCENES, WorldSettings, unit_id
from deepval.errors import InputError
from deepval.features.views import CheapMode, View
from deepval.files.writing import check_writable, write_atomically
from deepval.judging.draws import make_draws
from deepval.judging.routing import POLICIES
from deepval.perception.placing import PLACINGS, Placing, merge
from deepval.planners.closed_loop import DrivenScene
from deepval.planners.closed_loop import drive as driven
from deepval.planners.observation import Planner
from deepval.planners.tracking import AX, STEP_S
from deepval.report.html import render_drive
from deepval.report.text_tables import MISSING, Table, TableCell, interval, number, percent, quantity
from deepval.tables.columns import csv_text
from deepval.tables.costs import Costs
from deepval.world.objects import Objects

OFF_LOG_M = 2.0
"""Beyond this distance from the logged vehicle, detections of the log no longer apply."""


def _idm() -> Planner:
    from deepval.planners.idm import Idm

    return Idm()


def _pdm_closed() -> Planner:
    from deepval.planners.pdm_closed import PdmClosed

    return PdmClosed()


PLANNERS: dict[str, Callable[[], Planner]] = {"idm": _idm, "pdm-closed": _pdm_closed}


@dataclass(frozen=True)
class LoopOptions(OptionGroup):
    """Allocators in the loop."""

    allocator: Annotated[
        list[str] | None,
        option("--allocator", f"{', '.join(PLAIN)}, {', '.join(SIGNALS)} or a file. Repeatable.", panel=SUBJECT),
    ] = None
    alpha: Annotated[float, option("--alpha", "Share of frames to escalate.", within=(0, 1), panel=SUBJECT)] = 0.2
    policy: Annotated[str, option("--policy", f"{', '.join(POLICIES)}.", panel=SUBJECT)] = "frozen threshold"
    calibrate: Annotated[
        str | None,
        option("--calibrate", "Other units that set thresholds; synthetic world: their number (50).", panel=SUBJECT),
    ] = None
    costs: options.CostFile = None
    out: Annotated[Path | None, option("--out", "CSV file with a row per drive.", short="-o", panel=OUTPUT)] = None
    page: Annotated[Path | None, option("--page", "Page that plays the first two allocators.", panel=OUTPUT)] = None

    def check(self) -> None:
        """Raise where an output cannot be written or an option has no effect."""
        extra = [name for name in ("calibrate", "costs", "out", "page") if getattr(self, name) is not None]
        if self.allocator is None and extra:
            raise InputError(f"--{extra[0]} applies only with --allocator: give some, such as --allocator never.")
        for path in filter(None, (self.out, self.page)):
            check_writable(path)

    def read_costs(self) -> Costs:
        """Costs of modes and allocators."""
        return Costs.of(str(self.costs or "jetson-agx-xavier"))

    def ready(self, course: DriveSetting, along: Sequence[Followed]) -> tuple[Arm, ...]:
        """The arms in the order of the options; these scenes set their thresholds."""
        arms: dict[str, Arm] = {}
        for word in self.allocator or ():
            allocator = None if word in PLAIN else SIGNALS.get(word) or read_allocator(word)
            name = word if allocator is None else allocator.name
            if name in arms:
                raise InputError(f"Allocators must have different names; {name!r} is given twice: leave one out.")
            if allocator is not None and ("image" in allocator.uses or len(allocator.modes) > 2):
                raise InputError(f"{name} cannot drive: it must choose between two modes and read no pictures.")
            arms[name] = (
                Arm(word) if allocator is None else drives.calibrated(allocator, course, along, policy=self.policy)
            )
        return tuple(arms.values())


def drive(
    *,
    files: DataFiles,
    planner: Annotated[str | None, option("--planner", f"Logged scenes: {' or '.join(PLANNERS)}.")] = None,
    system: Annotated[
        str | None, option("--system", f"Synthetic world: {', '.join(drives.CONTROLLERS)}.", words=drives.CONTROLLERS)
    ] = None,
    start: Annotated[
        str, option("--from", "Keyframes to start from: 0 or 0,10,20; all: those with a second to drive.")
    ] = "0",
    seconds: Annotated[
        float | None, option("--seconds", "Duration of a drive: 6, synthetic world 10.", within=(0, 1e6))
    ] = None,
    replan: Annotated[float, option("--replan", "Seconds between plans, a multiple of 0.1.", within=(0, 1e6))] = 0.1,
    scenes: Annotated[int, option("--scenes", "Synthetic world: number of scenes.", within=(1, 100_000))] = 200,
    mode: Annotated[
        list[str] | None,
        option(
            "--mode",
            "Perception: NAME=DETECTIONS, or a mode without a file; two, cheap first, with --allocator. Default: "
            f"everything, always; synthetic world: two of {', '.join(MODES)}, {REFERENCE}.",
        ),
    ] = None,
    threshold: Annotated[
        float | None, option("--threshold", "Lowest score of the mode's detections.", within=(-1e9, 1e9))
    ] = None,
    geometry: Annotated[
        str | None, option("--geometry", f"How the mode's detections become objects: {', '.join(PLACINGS)}.")
    ] = None,
    loop: LoopOptions,
    draws: DrawOptions,
    workers: Workers,
    json: Json = False,
) -> None:
    """Drive in closed loop, on logs or in the synthetic world.

    The other road users move as logged or scripted. With --allocator, the allocator decides in every frame which mode
    the vehicle sees; all allocators drive the same scenes.

    Example: deepval drive --dataset scenarionet --root records --planner pdm-closed --seconds 60

    Allocators: deepval drive --dataset synthetic --system braking --allocator random --allocator lost --alpha 0.2
    """
    loop.check()
    if seconds is not None and not seconds:
        raise InputError(f"--seconds must be above 0; found {seconds:g}.")
    synthetic = files.kind == "synthetic"
    if synthetic != (system is not None) or synthetic == (planner is not None) or (synthetic and not loop.allocator):
        raise InputError(
            "The synthetic world is driven with --system and --allocator, logged scenes with --planner: give these."
        )
    if system is not None:
        options.one_of(system, tuple(drives.CONTROLLERS), "--system")
        sizes = {**MODES, REFERENCE: None}
        names = [options.one_of(name, tuple(sizes), "--mode") for name in mode or ("yolov8s-320", "yolov8s-640")]
        further = loop.calibrate or "50"
        if len(names) != 2 or not further.isdecimal() or not 0 < int(further[: options.LONGEST_NUMBER]) < MOST_SCENES:
            raise InputError("The synthetic world needs --mode twice, cheap first, and a number for --calibrate.")
        world = WorldSettings(scenes + int(further), round((seconds or 10.0) / STEP_S) + 1)
        modes = tuple((name, sizes[name]) for name in names)
        course = DriveSetting(system, seed=draws.seed, settings=world, modes=modes, alpha=loop.alpha)
        _report(_drive_world(files, course, scenes, loop, workers), loop, draws, json=json)
        return
    opened = _open_logs(files, planner or "")
    if mode is None and not (threshold is None and geometry is None):
        raise InputError("--threshold and --geometry apply only to --mode: give it too.")
    if len(mode or ()) != 2 if loop.allocator else len(mode or ()) > 1:
        raise InputError("--mode must be given twice with --allocator, cheap first, and at most once without.")
    placing = PLACINGS[options.one_of(geometry or "tracks", tuple(PLACINGS), "--geometry")]
    units, others = opened.select(files.unit_names), options.unit_list(loop.calibrate) or []
    parts = [text.partition("=") for text in mode or ()]
    mode_files = [sources.ModeFile(name, Path(path) if equals else None, threshold) for name, equals, path in parts]
    specs = sources.from_files(opened, mode_files, units=[*units, *others]).modes if parts else ()
    task = LogTask(opened, PLANNERS[planner or ""](), _starts(start), seconds or 6.0, replan, specs, placing)
    if loop.allocator:
        _report(_drive_logs(task, units, others, loop, draws.seed), loop, draws, json=json)
        return
    rows = list(task.drives(units))
    if json:
        terminal.print_json([_summary(row) for row in rows])
    else:
        terminal.print_tables([_table(rows, planner or "")])


def _open_logs(files: DataFiles, planner: str) -> Dataset:
    """The data set of logged scenes."""
    options.one_of(planner, tuple(PLANNERS), "--planner")
    if files.root is None:
        raise InputError("--root must be given: the folder of the data set's files.")
    opened = files.open()
    if not hasattr(opened, "read_log"):
        names = ", ".join(name for name, reader in DATASETS.items() if hasattr(reader, "read_log"))
        raise InputError(
            f"--dataset must have one logged drive with a lane map per unit ({names}); found {files.kind}."
        )
    return opened


def _drive_logs(
    task: "LogTask", units: Sequence[str], others: Sequence[str], loop: LoopOptions, seed: int
) -> list[DriveOutcome]:
    """The outcomes of drives on logged scenes; the units `others` set the thresholds."""
    if loop.page is not None:
        raise InputError("--page plays drives of the synthetic world: leave it out with logged scenes.")
    if not set(loop.allocator or ()) <= set(PLAIN) and (not others or set(others) & set(units)):
        raise InputError("--calibrate must name units that set thresholds and are not driven (--units names those).")
    course = DriveSetting("log", seed=seed, alpha=loop.alpha)
    course = replace(course, arms=loop.ready(course, [task.along(unit) for unit in others]))
    starts = [start for unit in terminal.watch(units, "units") for start in task.compared(unit, course)]
    names, costs = [spec.name for spec in task.modes], loop.read_costs()
    return [row for start in starts for row in drives.outcomes(start, names, costs)]


def _drive_world(
    files: DataFiles, course: DriveSetting, scenes: int, loop: LoopOptions, workers: Workers
) -> list[DriveOutcome]:
    """The outcomes of drives in the synthetic world; the scenes after those that are driven set the thresholds."""
    units = files.unit_names or [unit_id(scene) for scene in range(scenes)]
    others = [unit_id(scene) for scene in range(scenes, course.settings.scenes)]
    if set(units) & set(others):
        raise InputError(
            f"Scenes from {others[0]} on set thresholds and are not driven: give --scenes a larger number."
        )
    along = [drives.follow_script(course, unit) for unit in terminal.watch(others, "calibration scenes")]
    course, by_scene = replace(course, arms=loop.ready(course, along)), []
    with workers.start() as engine, terminal.step_bar() as step:
        for driven_scene in engine.map(partial(drives.drive_scene, course), units):
            step("scenes", len(by_scene), len(units))
            by_scene.append(driven_scene)
    if loop.page is not None:
        write_atomically(loop.page, render_drive(drives.playback(course, by_scene)))
    names = [name for name, _ in course.modes]
    return [row for scene in by_scene for row in drives.outcomes(scene, names, loop.read_costs())]


def _report(rows: Sequence[DriveOutcome], loop: LoopOptions, draws: DrawOptions, *, json: bool) -> None:
    """Write the rows per drive, and print the means per allocator."""
    lines = [{name: _finite_or_none(value) for name, value in asdict(row).items()} for row in rows]
    if loop.out is not None:
        columns = {name: np.array([line[name] for line in lines], dtype=object) for name in lines[0]}
        write_atomically(loop.out, csv_text(columns))
    drawn = make_draws(len({row.unit for row in rows}), draws.number, draws.seed)
    means = drives.summaries(rows, drawn, rows[0].allocator)
    summary = [{name: _finite_or_none(value) for name, value in entry.items()} for entry in means]
    if json:
        terminal.print_json({"summary": summary, "drives": lines})
        return
    terminal.print_tables([_loop_table(summary)])
    for path in filter(None, (loop.out, loop.page)):
        say(f"Wrote {path}")


COLUMNS = {"contacts": ("collisions", 3), "at fault": ("at_fault", 3), "hard": ("hard_brakes", 2),
           "way m": ("progress_m", 1), "lost s": ("time_lost_s", 2), "ms": ("compute_ms", 0)}  # fmt: skip
"""Columns of the table: measure and decimals."""


def _loop_table(summary: Sequence[dict[str, Any]]) -> Table:
    measure, label = ("loss", "loss") if summary[0]["loss"] else ("time_lost_s", "lost")
    base, lines = summary[0]["base"], []
    for entry in summary:
        change = entry[f"{measure}_change"]
        texts = [entry["allocator"], percent(entry["rate"], 1), number((entry["loss"] or {}).get("mean"))]
        texts += [number(change["mean"]), interval(change["low"], change["high"])]
        texts += [number((entry[name] or {}).get("mean"), digits) for name, digits in COLUMNS.values()]
        lines.append(tuple(map(TableCell, (*texts, number(entry["clearance_m"], 2)))))
    off_log = sum(entry["off_log"] for entry in summary)
    notes = (
        f"Means over {quantity(summary[0]['drives'], 'drive')} per allocator. loss: the system's on the driven states, "
        f"per frame. hard: brakes of {drives.HARD_MPS2:g} m/s² or more. lost: behind perfect perception. ms: of modes "
        "and allocator, where both are known. least: smallest clearance.",
        *([f"{quantity(off_log, 'step')} more than {OFF_LOG_M:g} m off the log."] if off_log else ()),
    )
    header = ("allocator", "escalated", "loss", f"{label} - {base}", "95 %", *COLUMNS, "least m")
    return Table(
        "Closed loop", header, (tuple(lines),), notes, ("least m", "ms", "hard", "at fault", "lost s", "way m")
    )


class DriveRow(NamedTuple):
    """One drive: the unit, the state it started from, and what came of it."""

    unit: str
    start: int
    drive: DrivenScene


@dataclass(frozen=True)
class LogTask:
    """Drives of logged scenes: planner, states to start from (None: all), duration, modes and their placing."""

    dataset: Any
    planner: Planner
    starts: list[int] | None
    seconds: float
    replan_s: float
    modes: tuple[ModeSpec, ...]
    placing: Placing

    def along(self, unit: str) -> Followed:
        """What the modes report along the log; the first mode's report also as a view."""
        scene, truth = self.dataset.read_unit(unit)
        reports = [mode_report(mode, scene, truth) for mode in self.modes]
        used = [used_detections(mode, report) for mode, report in zip(self.modes, reports, strict=True)]
        objects = [self.placing.place(part, scene, truth) for part in used]
        reader = self.modes[0].reader
        view = View(scene, reports[0], CheapMode(reader.scores if reader else "none", self.modes[0].threshold))
        view = view.observing(objects[0]) if self.placing.observes else view
        return Followed(scene, truth, ModeReports(reports, objects), view)

    def states(self, log: Log) -> list[int]:
        """The states to start from; by default those with a second or more left to drive."""
        every = [number for number, step in enumerate(log.states) if log.time_s[-1] - log.time_s[step] > 1.0 - 1e-6]
        return every if self.starts is None else self.starts

    def drive(self, log: Log, state: int, objects: Objects | None) -> DrivenScene:
        """One drive from a state, with these perceived objects, or the logged ones where None."""
        observed = None if objects is None else perception_at(log, objects, state)
        replay = replay_from(log, state)
        return driven(self.planner, replay, seconds=self.seconds, replan_s=self.replan_s, observed=observed)

    def drives(self, units: Sequence[str]) -> Iterator[DriveRow]:
        """Every requested drive with the mode, if there is one, unit by unit."""
        for unit in terminal.watch(units, "units"):
            log, objects = self.dataset.read_log(unit), self.along(unit).seen.objects[0] if self.modes else None
            yield from (DriveRow(unit, state, self.drive(log, state, objects)) for state in self.states(log))

    def compared(self, unit: str, course: DriveSetting) -> Iterator[list[Driven]]:
        """For each start, the drives of all arms and last that of the logged objects.

        An arm chooses along the log, since the detections are those of the logged vehicle.
        """
        log, along = self.dataset.read_log(unit), self.along(unit)
        cheap, full = along.seen.objects
        marks = {arm.name: drives.choices_along(arm, course, along).escalated for arm in course.arms}
        objects: dict[str, Objects | None] = {
            arm: merge(cheap.where(~own[cheap.frame]), full.where(own[full.frame]))[0] for arm, own in marks.items()
        }
        for state in self.states(log):
            done = {arm: self.drive(log, state, seen) for arm, seen in (objects | {PERFECT: None}).items()}
            since_s = log.time_s[log.states] - log.time_s[log.states[state]]
            within = (since_s >= 0) & (since_s < done[PERFECT].seconds)
            nothing = np.zeros(len(within), dtype=bool)
            yield [_driven(unit, state, arm, row, marks.get(arm, nothing)[within]) for arm, row in done.items()]


def _driven(unit: str, state: int, arm: str, done: DrivenScene, escalated: np.ndarray) -> Driven:
    """A drive of a logged scene in the form of those of the synthetic world."""
    way_m = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(done.pose[:, :2], axis=0).T))])
    off_m, none = np.hypot(*(done.pose[:, :2] - done.logged_pose[:, :2]).T), np.full(len(way_m), np.nan)
    contacts = tuple((round(one.time_s / STEP_S), one.how, one.at_fault) for one in done.contacts)
    motion = way_m, none, done.speed_mps, -done.states[:, AX], escalated, none, done.clearance_m
    return Driven(unit, arm, *motion, contacts, done.seconds, state, int((off_m > OFF_LOG_M).sum()))


def _starts(text: str) -> list[int] | None:
    """Keyframes from 0,10,20; None for all."""
    if text == "all":
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < options.LONGEST_NUMBER for part in parts):
        raise InputError(f"--from must be a keyframe, several as 0,10,20, or all; found {text!r}.")
    return [int(part) for part in parts]


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


def _finite_or_none(value: Any) -> Any:
    """The value; None in place of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
