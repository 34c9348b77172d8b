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
from deepval.allocators.allocator import SIGNALS, Allocator
from deepval.cells import drives, sources
from deepval.cells.drives import PERFECT, PLAIN, REFERENCE, Arm, Choice, Course, Followed, Outcome, Perceived
from deepval.cells.unit import mode_report, used_detections
from deepval.cli import options, terminal
from deepval.cli.build_cells import DataFiles
from deepval.cli.commands import OptionGroup, option
from deepval.cli.options import OUTPUT, SUBJECT, DrawOptions, Json, Workers
from deepval.cli.terminal import say
from deepval.datasets import DATASETS, Dataset
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.replay import perception_at, replay_from
from deepval.datasets.synthetic import MODES, WorldSettings, unit_id
from deepval.errors import InputError
from deepval.features.views import CheapMode, View, frames_of
from deepval.files.writing import check_writable, write_atomically
from deepval.judging.draws import make_draws
from deepval.judging.routing import POLICIES
from deepval.perception.placing import PLACINGS, Placing, merge
from deepval.planners.closed_loop import DrivenScene, Replay
from deepval.planners.closed_loop import drive as driven
from deepval.planners.observation import Planner
from deepval.planners.tracking import AX
from deepval.report.drive_page import render_drive
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
        option(
            "--allocator",
            f"Allocator in the loop: {', '.join(PLAIN)}, a signal ({', '.join(SIGNALS)}) or a file. Repeatable; the "
            "others are compared with the first.",
            panel=SUBJECT,
        ),
    ] = None
    alpha: Annotated[float, option("--alpha", "Share of frames to escalate.", within=(0, 1), panel=SUBJECT)] = 0.2
    policy: Annotated[str, option("--policy", f"{', '.join(POLICIES)}.", panel=SUBJECT)] = "frozen threshold"
    calibrate: Annotated[
        str | None,
        option(
            "--calibrate",
            "Scenes that set thresholds, none of them driven: units of a log, or the number of further scenes of the "
            "synthetic world (50).",
            panel=SUBJECT,
        ),
    ] = None
    costs: options.CostFile = None
    out: Annotated[Path | None, option("--out", "CSV file with a row per drive.", short="-o", panel=OUTPUT)] = None
    page: Annotated[
        Path | None,
        option("--page", "Page that plays the first two allocators in the scene where they differ most.", panel=OUTPUT),
    ] = None

    def check(self) -> None:
        """Raise where an output cannot be written or an option has no effect."""
        extra = [name for name in ("calibrate", "costs", "out", "page") if getattr(self, name) is not None]
        if self.allocator is None and extra:
            raise InputError(f"--{extra[0]} applies only with --allocator: give some, such as --allocator never.")
        for path in filter(None, (self.out, self.page)):
            check_writable(path)

    @property
    def arms(self) -> dict[str, Allocator | None]:
        """Allocators by name; None for those that need none."""
        arms: dict[str, Allocator | None] = {}
        for word in self.allocator or ():
            allocator = None if word in PLAIN else SIGNALS.get(word) or read_allocator(word)
            name = word if allocator is None else allocator.name
            if name in arms:
                raise InputError(f"Allocators must have different names; {name!r} is given twice: leave one out.")
            if allocator is not None and ("image" in allocator.uses or len(allocator.modes) > 2):
                raise InputError(f"{name} cannot drive: it must choose between two modes and read no pictures.")
            arms[name] = allocator
        return arms


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
        float | None,
        option(
            "--seconds", "Duration of a drive; it ends with the scene. Default: 6, synthetic world 10.", within=(0, 1e6)
        ),
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
    """Let a planner drive logged scenes in closed loop, or a system the synthetic world.

    The other road users move as logged or scripted. With --allocator, the allocator decides in every frame which mode
    the vehicle sees; all allocators drive the same scenes.

    Example: deepval drive --dataset scenarionet --root records --planner pdm-closed --seconds 60

    Allocators: deepval drive --dataset synthetic --system braking --allocator random --allocator lost --alpha 0.2
    """
    loop.check()
    if seconds is not None and not seconds:
        raise InputError(f"--seconds must be above 0; found {seconds:g}.")
    if files.kind == "synthetic":
        if system is None or planner is not None or loop.allocator is None:
            raise InputError("The synthetic world is driven with --system and --allocator, without --planner.")
        _drive_world(files, system, loop, draws, workers, modes=mode, scenes=scenes, seconds=seconds or 10.0, json=json)
        return
    if planner is None or system is not None:
        raise InputError("Logged scenes are driven with --planner, without --system.")
    options.one_of(planner, tuple(PLANNERS), "--planner")
    if files.root is None:
        raise InputError("--root must be given: the folder of the data set's files.")
    opened = files.open()
    if not hasattr(opened, "read_log"):
        names = ", ".join(name for name, reader in DATASETS.items() if hasattr(reader, "read_log"))
        raise InputError(
            f"--dataset must have one logged drive with a lane map per unit ({names}); found {files.kind}."
        )
    if mode is None and not (threshold is None and geometry is None):
        raise InputError("--threshold and --geometry apply only to --mode: give it too.")
    if len(mode or ()) != 2 if loop.allocator else len(mode or ()) > 1:
        raise InputError("--mode must be given twice with --allocator, cheap first, and at most once without.")
    placing = PLACINGS[options.one_of(geometry or "tracks", tuple(PLACINGS), "--geometry")]
    task = LogTask(opened, PLANNERS[planner](), _starts(start), seconds or 6.0, replan)
    units = opened.select(files.unit_names)
    if loop.allocator is None:
        perceived = Modes(opened, units, mode or [], threshold, placing) if mode else None
        rows = [DriveRow(*row) for row in task.drives(units, perceived)]
        if json:
            terminal.print_json([_summary(row) for row in rows])
        else:
            terminal.print_tables([_table(rows, planner)])
        return
    _drive_logs(task, units, loop, draws, mode or [], threshold, placing, json=json)


def _drive_world(
    files: DataFiles,
    system: str,
    loop: LoopOptions,
    draws: DrawOptions,
    workers: Workers,
    *,
    modes: list[str] | None,
    scenes: int,
    seconds: float,
    json: bool,
) -> None:
    """Drive scenes of the synthetic world; the scenes after them set the thresholds."""
    further = loop.calibrate or "50"
    if not further.isdecimal() or not 1 <= int(further[: options.LONGEST_NUMBER]) <= WorldSettings().scenes * 1_000:
        raise InputError(f"--calibrate must be a number of further scenes, 1 or more; found {further!r}.")
    sizes = {**MODES, REFERENCE: None}
    names = modes or ["yolov8s-320", "yolov8s-640"]
    if len(names) != 2 or not set(names) <= set(sizes):
        raise InputError(f"--mode must name two of {', '.join(sizes)}, cheap first; found {', '.join(names)}.")
    frames = round(seconds / 0.1) + 1
    world = WorldSettings(scenes + int(further), frames)
    course = Course(
        options.one_of(system, tuple(drives.CONTROLLERS), "--system"),
        seed=draws.seed,
        settings=world,
        modes=tuple((name, sizes[name]) for name in names),
        alpha=loop.alpha,
    )
    units = files.unit_names or [unit_id(scene) for scene in range(scenes)]
    others = [unit_id(scene) for scene in range(scenes, world.scenes)]
    arms, along = loop.arms, None
    if any(allocator is not None for allocator in arms.values()):
        along = [drives.follow_script(course, unit) for unit in terminal.watch(others, "calibration scenes")]
    course = replace(course, arms=tuple(_arm(name, arms[name], course, along or [], loop.policy) for name in arms))
    by_scene = []
    with workers.start() as engine, terminal.step_bar() as step:
        for driven_scene in engine.map(partial(drives.drive_scene, course), units):
            step("scenes", len(by_scene), len(units))
            by_scene.append(driven_scene)
    costs = Costs.of(str(loop.costs or "jetson-agx-xavier"))
    rows = [row for scene in by_scene for row in drives.outcomes(scene, names, dt_s=0.1, costs=costs)]
    if loop.page is not None:
        write_atomically(loop.page, render_drive(drives.playback(course, by_scene)))
    _report(rows, loop, draws, f"Closed loop, {system} in the synthetic world", json=json)


def _arm(name: str, allocator: Allocator | None, course: Course, along: Sequence[Followed], policy: str) -> Arm:
    return Arm(name) if allocator is None else drives.calibrated(allocator, course, along, policy=policy)


def _report(rows: Sequence[Outcome], loop: LoopOptions, draws: DrawOptions, title: str, *, json: bool) -> None:
    """Write the rows per drive, and print the means per allocator."""
    if loop.out is not None:
        columns = {name: np.array([getattr(row, name) for row in rows], dtype=object) for name in asdict(rows[0])}
        write_atomically(loop.out, csv_text(columns))
    drawn = make_draws(len({row.unit for row in rows}), draws.number, draws.seed)
    base = next(iter(loop.arms))
    summary = drives.summaries(rows, drawn, base)
    if json:
        terminal.print_json({"summary": summary, "drives": [asdict(row) for row in rows]})
        return
    terminal.print_tables([_loop_table(summary, title, base)])
    for path in filter(None, (loop.out, loop.page)):
        say(f"Wrote {path}")


def _loop_table(summary: Sequence[dict[str, Any]], title: str, base: str) -> Table:
    measure = "loss_change" if summary[0]["loss"] else "time_lost_s_change"
    header = ("allocator", "escalated", "loss", f"{'loss' if summary[0]['loss'] else 'lost'} - {base}", "95 %")
    header = (*header, "contacts", "at fault", "hard", "way m", "lost s", "ms", "least m")

    def mean(entry: dict[str, Any], name: str, digits: int) -> str:
        return number(entry[name]["mean"], digits) if entry[name] else MISSING

    lines = []
    for entry in summary:
        change = entry[measure] if entry["allocator"] != base else None
        texts = (
            *(entry["allocator"], percent(entry["rate"], 1), mean(entry, "loss", 3)),
            *((number(change["mean"], 3), interval(change["low"], change["high"])) if change else (MISSING, "")),
            *(mean(entry, "collisions", 3), mean(entry, "at_fault", 3), mean(entry, "hard_brakes", 2)),
            *(mean(entry, "progress_m", 1), mean(entry, "time_lost_s", 2), mean(entry, "compute_ms", 0)),
            number(entry["clearance_m"], 2),
        )
        lines.append(tuple(map(TableCell, texts)))
    off_log = sum(entry["off_log"] for entry in summary)
    notes = (
        f"Means over {quantity(summary[0]['drives'], 'drive')} per allocator. loss: the system's on the driven states, "
        f"per frame. hard: brakes of {drives.HARD_MPS2:g} m/s² or more. lost: behind perfect perception. ms: of modes "
        "and allocator, where both are known. least: smallest clearance.",
        *([f"{off_log:,} steps were more than {OFF_LOG_M:g} m off the log."] if off_log else ()),
    )
    return Table(title, header, (tuple(lines),), notes, ("least m", "ms", "hard", "at fault", "lost s", "way m"))


class Modes:
    """The modes' reports and objects on logged units."""

    def __init__(
        self, dataset: Dataset, units: Sequence[str], modes: Sequence[str], threshold: float | None, placing: Placing
    ) -> None:
        self.dataset, self.placing = dataset, placing
        parts = [text.partition("=") for text in modes]
        files = [sources.ModeFile(name, Path(path) if equals else None, threshold) for name, equals, path in parts]
        self.specs = sources.from_files(dataset, files, units=units).modes

    def on(self, unit: str) -> Followed:
        """What the modes report along the log; the first mode's report also as a view."""
        scene, truth = self.dataset.read_unit(unit)
        reports = [mode_report(spec, scene, truth) for spec in self.specs]
        used = [used_detections(spec, report) for spec, report in zip(self.specs, reports, strict=True)]
        objects = [self.placing.place(part, scene, truth) for part in used]
        reader = self.specs[0].reader
        scores = "none" if reader is None else reader.scores
        view = View(scene, reports[0], CheapMode(scores, self.specs[0].threshold))
        view = view.observing(objects[0]) if self.placing.observes else view
        return Followed(scene, truth, Perceived(reports, objects), view)


class DriveRow(NamedTuple):
    """One drive: the unit, the state it started from, and what came of it."""

    unit: str
    start: int
    drive: DrivenScene


@dataclass(frozen=True)
class LogTask:
    """Drives of logged scenes: the planner, the states to start from (None: all), and how long to drive."""

    dataset: Any
    planner: Planner
    starts: list[int] | None
    seconds: float
    replan_s: float

    def drives(self, units: Sequence[str], modes: Modes | None) -> Iterator[tuple[str, int, DrivenScene]]:
        """Every requested drive with one mode, or with the logged objects where it is None, unit by unit."""
        with terminal.step_bar() as step:
            for index, unit in enumerate(units):
                log: Log = self.dataset.read_log(unit)
                objects = None if modes is None else modes.on(unit).seen.objects[0]
                for state in self.states(log):
                    step(f"driving {unit} from {state}", index, len(units))
                    yield unit, state, self.drive(log, state, objects)

    def states(self, log: Log) -> list[int]:
        """The states to start from; by default those with a second or more left to drive."""
        if self.starts is not None:
            return self.starts
        return [number for number, step in enumerate(log.states) if log.time_s[-1] - log.time_s[step] > 1.0 - 1e-6]

    def drive(self, log: Log, state: int, objects: Objects | None) -> DrivenScene:
        """One drive from a state, with these perceived objects."""
        replay: Replay = replay_from(log, state)
        observed = None if objects is None else perception_at(log, objects, state)
        return driven(self.planner, replay, seconds=self.seconds, replan_s=self.replan_s, observed=observed)


def _drive_logs(
    task: LogTask,
    units: Sequence[str],
    loop: LoopOptions,
    draws: DrawOptions,
    modes: list[str],
    threshold: float | None,
    placing: Placing,
    *,
    json: bool,
) -> None:
    """Drive logged scenes with every allocator; units that are not driven set the thresholds."""
    if loop.page is not None:
        raise InputError("--page plays drives of the synthetic world: leave it out with logged scenes.")
    arms, others = loop.arms, options.unit_list(loop.calibrate) or []
    needed = any(allocator is not None for allocator in arms.values())
    if needed and (not others or set(others) & set(units)):
        raise InputError("--calibrate must name units that set thresholds and are not driven (--units names those).")
    perceived = Modes(task.dataset, [*units, *others], modes, threshold, placing)
    along = [perceived.on(unit) for unit in others] if needed else []
    course = Course("log", seed=draws.seed, alpha=loop.alpha)
    names = [spec.name for spec in perceived.specs]
    costs, rows = Costs.of(str(loop.costs or "jetson-agx-xavier")), []
    ready = [_arm(name, arms[name], course, along, loop.policy) for name in arms]
    for unit in terminal.watch(units, "units"):
        log, here = task.dataset.read_log(unit), perceived.on(unit)
        chosen = [(arm.name, *_chosen(arm, course, here, log)) for arm in ready]
        for state in task.states(log):
            perfect = task.drive(log, state, None)
            for name, escalated, objects in (*chosen, (PERFECT, np.zeros(len(here.scene), dtype=bool), None)):
                done = perfect if objects is None else task.drive(log, state, objects)
                rows.append(_outcome(unit, state, name, done, perfect, escalated, names=names, log=log, costs=costs))
    _report(rows, loop, draws, "Closed loop on logged scenes", json=json)


def _chosen(arm: Arm, course: Course, here: Followed, log: Log) -> tuple[np.ndarray, Objects]:
    """The frames that an arm escalates along the log, and the objects that the planner then receives."""
    choice, full = Choice(arm, course, log.unit, here.view.mode), here.seen.objects[-1]
    frames = enumerate(frames_of(here.view, images=False))
    marks = np.array([choice.escalates(lambda at=f: at, lambda at=n: full.at(at)) for n, f in frames], dtype=bool)
    cheap = here.seen.objects[0]
    return marks, merge(cheap.where(~marks[cheap.frame]), full.where(marks[full.frame]))[0]


def _outcome(
    unit: str,
    state: int,
    arm: str,
    done: DrivenScene,
    perfect: DrivenScene,
    escalated: np.ndarray,
    *,
    names: Sequence[str],
    log: Log,
    costs: Costs,
) -> Outcome:
    begin_s = log.time_s[log.states[state]]
    within = (log.time_s[log.states] >= begin_s) & (log.time_s[log.states] < begin_s + done.seconds)
    frames, escalations = int(within.sum()), int(escalated[within].sum())
    off_m = np.hypot(*(done.pose[:, :2] - done.logged_pose[:, :2]).T)
    return Outcome(
        unit=unit,
        start=state,
        allocator=arm,
        seconds=done.seconds,
        collisions=len(done.contacts),
        at_fault=sum(contact.at_fault for contact in done.contacts),
        clearance_m=_finite_or_none(float(done.clearance_m.min())),
        hard_brakes=drives.onsets(-done.states[:, AX]),
        progress_m=done.way_m,
        time_lost_s=drives.time_lost_s(done.way_m, perfect.way_m, done.seconds),
        loss=None,
        frames=frames,
        escalations=escalations,
        compute_ms=drives.compute_ms(arm, frames, escalations, modes=names, costs=costs),
        off_log=int((off_m > OFF_LOG_M).sum()),
    )


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


def _finite_or_none(value: float) -> float | None:
    """The number; None where it is not finite."""
    return value if math.isfinite(value) else None
