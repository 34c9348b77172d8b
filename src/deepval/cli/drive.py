"""`deepval drive`: a planner on logged scenes, or a system in the synthetic world ->
what came of its drives.

With allocators, every one of them drives the same scenes, and the drives are compared
in pairs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from deepval.basics.errors import InputError
from deepval.basics.files.canonical import plain
from deepval.basics.files.writing import check_writable, write_atomically
from deepval.cli import options, terminal
from deepval.cli.data_options import NO_DATA, DataFiles, Geometry
from deepval.cli.options import SUBJECT
from deepval.cli.terminal import say
from deepval.deploy import drives
from deepval.deploy.drives import (
    PERFECT,
    PLAIN,
    REFERENCE,
    Arm,
    Driven,
    DriveSetting,
    FirstContact,
    Followed,
    ModeReports,
)
from deepval.deploy.features import Sight
from deepval.deploy.fitting import allocator_named
from deepval.driving.cells import sources
from deepval.driving.cells.spec import ModeSpec
from deepval.driving.cells.unit import mode_report, used_detections
from deepval.driving.datasets import DATASETS
from deepval.driving.datasets.logs.log import Log
from deepval.driving.datasets.logs.replay import perception_at, replay_from
from deepval.driving.datasets.synthetic import (
    MODES,
    MOST_SCENES,
    WorldSettings,
    unit_id,
)
from deepval.driving.perception.placing import PLACINGS, Placing, merge
from deepval.driving.planners.closed_loop import DrivenScene
from deepval.driving.planners.closed_loop import drive as driven
from deepval.driving.planners.idm import Idm
from deepval.driving.planners.observation import Planner
from deepval.driving.planners.pdm_closed import PdmClosed
from deepval.driving.planners.tracking import AX, STEP_S
from deepval.driving.systems import own_planner
from deepval.driving.views import CheapMode, View
from deepval.driving.world.objects import Objects
from deepval.judge.draws import make_draws
from deepval.judge.report.html import render_drive
from deepval.judge.report.text_tables import (
    Table,
    interval,
    lines_of,
    number,
    percent,
    quantity,
)
from deepval.judge.tables.columns import csv_text
from deepval.judge.tables.costs import Costs

OFF_LOG_M = 2.0
"""Beyond this distance from the logged vehicle, detections of the log no longer
apply.
"""


BY_SCORES = ("frozen threshold", "causal cap", "token bucket", "dual price")
"""Policies that need no more than scores and a rate."""
PLANNERS: dict[str, Callable[[], Planner]] = {"idm": Idm, "pdm-closed": PdmClosed}
SystemName = Literal["braking", "receding-horizon", "idm", "pdm-closed"]


@Parameter(name="*")
@dataclass(frozen=True)
class LogOptions:
    """How logged scenes are driven.

    Attributes:
        planner: Logged scenes: idm, pdm-closed, or FILE.py:NAME of your own.
        start: Keyframes to start from: 0 or 0,10,20; all: with a second to drive.
        threshold: Lowest score of detections.
        geometry: How detections become objects. Default: tracks.
    """

    planner: str | None = None
    start: Annotated[str, Parameter(name="--from")] = "0"
    threshold: Annotated[
        float | None, Parameter(validator=options.Between(-1e9, 1e9))
    ] = None
    geometry: Geometry | None = None

    def starts(self) -> list[int] | None:
        """Keyframes to start from; None for all."""
        parts = [part.strip() for part in self.start.split(",")]
        if self.start != "all" and not all(
            part.isdecimal() and len(part) < options.LONGEST_NUMBER for part in parts
        ):
            raise InputError(
                "--from must be a keyframe, several as 0,10,20, "
                f"or all; found {self.start!r}."
            )
        return None if self.start == "all" else [int(part) for part in parts]

    def task(
        self,
        files: DataFiles,
        mode: Sequence[str],
        others: Sequence[str],
        seconds: float,
    ) -> "LogTask":
        """The drives that are asked for; the units `others` are read as well."""
        planner = own_planner(self.planner or "")
        if planner is None:
            name = options.one_of(self.planner or "", tuple(PLANNERS), "--planner")
            planner = PLANNERS[name]()
        if files.root is None:
            raise InputError(
                "--root must be given: the folder of the data set's files."
            )
        opened = files.open()
        if not hasattr(opened, "read_log"):
            names = ", ".join(
                name for name, reader in DATASETS.items() if hasattr(reader, "read_log")
            )
            raise InputError(
                "--dataset must have logged drives with "
                f"a lane map ({names}); found {files.kind}."
            )
        if not mode and not (self.threshold is None and self.geometry is None):
            raise InputError(
                "--threshold and --geometry apply only to --mode: give it too."
            )
        placing = PLACINGS[self.geometry or "tracks"]
        units = opened.select(files.unit_names)
        parts = [text.partition("=") for text in mode]
        named = [
            sources.ModeFile(name, Path(path) if sign else None, self.threshold)
            for name, sign, path in parts
        ]
        modes = (
            sources.from_files(opened, named, units=[*units, *others]).modes
            if named
            else ()
        )
        return LogTask(opened, units, planner, self.starts(), seconds, modes, placing)


@Parameter(name="*")
@dataclass(frozen=True)
class WorldOptions:
    """How the synthetic world is driven.

    Attributes:
        system: Synthetic world: its system.
        scenes: Synthetic world: number of scenes.
    """

    system: SystemName | None = None
    scenes: Annotated[int, options.whole(1, 100_000)] = 200

    def course(
        self,
        mode: Sequence[str],
        further: str,
        seconds: float,
        *,
        seed: int,
        alpha: float,
    ) -> DriveSetting:
        """The setting of the drives; `further` is the number of scenes that set
        thresholds.
        """
        assert self.system is not None
        sizes = {**MODES, REFERENCE: None}
        modes = tuple(
            (name, sizes[options.one_of(name, tuple(sizes), "--mode")]) for name in mode
        )
        if (
            len(modes) != 2
            or not further.isdecimal()
            or not 0 < int(further[: options.LONGEST_NUMBER]) < MOST_SCENES
        ):
            raise InputError(
                "The synthetic world needs --mode twice, cheap first, and a number "
                "for --calibrate."
            )
        world = WorldSettings(self.scenes + int(further), round(seconds / STEP_S) + 1)
        return DriveSetting(
            self.system, seed=seed, settings=world, modes=modes, alpha=alpha
        )


@Parameter(name="*")
@dataclass(frozen=True)
class LoopOptions:
    """Allocators in the loop.

    Attributes:
        allocator: never, always, random, ego-speed, uncertainty, criticality, memory,
            lost or a file. Repeatable.
        alpha: Share of frames to escalate.
        policy: How scores become choices: frozen threshold, causal cap, token bucket,
            dual price.
        calibrate: Other units that set thresholds; synthetic world: their number (50).
        costs: Costs of modes and allocators: a .toml file or a profile. Default:
            jetson-agx-xavier.
        out: CSV file with a row per drive.
        page: Page that plays the first two allocators.
    """

    allocator: Annotated[tuple[str, ...], Parameter(alias="-a", group=SUBJECT)] = ()
    alpha: Annotated[
        float, Parameter(validator=options.Between(0, 1), group=SUBJECT)
    ] = 0.2
    policy: Annotated[str, Parameter(group=SUBJECT)] = "frozen threshold"
    calibrate: Annotated[str | None, Parameter(group=SUBJECT)] = None
    costs: Annotated[Path | None, Parameter(group=SUBJECT)] = None
    out: options.Out = None
    page: Annotated[Path | None, Parameter(group=options.OUTPUT)] = None

    def check(self) -> None:
        """Raise where an output cannot be written or an option has no effect."""
        extra = [
            name
            for name in ("calibrate", "costs", "out", "page")
            if getattr(self, name) is not None
        ]
        if not self.allocator and extra:
            raise InputError(
                f"--{extra[0]} applies only with --allocator: give some, such as "
                "--allocator never."
            )
        options.one_of(self.policy.replace("-", " "), BY_SCORES, "--policy")
        for path in filter(None, (self.out, self.page)):
            check_writable(path)
        self.prices()

    def prices(self) -> Costs:
        """Costs of modes and allocators."""
        return Costs.of(str(self.costs or "jetson-agx-xavier"))

    def ready(self, course: DriveSetting, along: Sequence[Followed]) -> tuple[Arm, ...]:
        """The arms in the order of the options; these scenes set their thresholds."""
        arms: dict[str, Arm] = {}
        for word in self.allocator:
            allocator = None if word in PLAIN else allocator_named(word, others=PLAIN)
            name = word if allocator is None else allocator.name
            if name in arms:
                raise InputError(
                    f"Allocators must have different names; {name!r} is given twice: "
                    "leave one out."
                )
            if allocator is not None and (
                allocator.uses == {"image"} or len(allocator.modes) > 2
            ):
                raise InputError(
                    f"{name} cannot drive: it must choose between two modes, and not "
                    "by pictures alone."
                )
            make = partial(
                drives.calibrated, course=course, scenes=along, policy=self.policy
            )
            arms[name] = Arm(word) if allocator is None else make(allocator)
        return tuple(arms.values())


LOGS_DEFAULTS = LogOptions()
WORLD_DEFAULTS = WorldOptions()
LOOP_DEFAULTS = LoopOptions()


def drive(
    *,
    files: DataFiles = NO_DATA,
    logs: LogOptions = LOGS_DEFAULTS,
    world: WorldOptions = WORLD_DEFAULTS,
    seconds: Annotated[
        float | None, Parameter(validator=options.Between(0, 1e6))
    ] = None,
    mode: tuple[str, ...] = (),
    loop: LoopOptions = LOOP_DEFAULTS,
    draws: options.DrawOptions = options.DRAWS_DEFAULTS,
    workers: options.Workers = options.WORKERS_DEFAULTS,
    printing: options.Printing = options.PRINTING_DEFAULTS,
) -> None:
    """The other road users move as logged or scripted. With --allocator, the allocator
    decides in every frame which mode the vehicle sees; all allocators drive the same
    scenes.

    Example: deepval drive --dataset scenarionet --root records --planner pdm-closed
    --seconds 60

    Allocators: deepval drive --dataset synthetic --system braking --allocator random
    lost --alpha 0.2

    Args:
        seconds: Duration: 6, synthetic world 10.
        mode: Perception: NAME=DETECTIONS, or a mode without a file; two, cheap first,
            with --allocator. Default: everything, always; synthetic world: two of
            yolov8s-320, yolov8s-384, yolov8s-512, yolov8s-640, reference.
    """
    loop.check()
    synthetic = files.kind == "synthetic"
    if seconds is not None and seconds < STEP_S:
        raise InputError(f"--seconds must be {STEP_S:g} or more; found {seconds:g}.")
    if synthetic:
        is_ready = world.system and loop.allocator and logs == LOGS_DEFAULTS
    else:
        is_ready = logs.planner and world == WORLD_DEFAULTS
    if not is_ready:
        raise InputError(
            "The synthetic world is driven with --system and --allocator, logged "
            "scenes with --planner: give these, without --from, --threshold and "
            "--geometry for the former and --scenes for the latter."
        )
    if synthetic:
        names, further = mode or ("yolov8s-320", "yolov8s-640"), loop.calibrate or "50"
        course = world.course(
            names, further, seconds or 10.0, seed=draws.seed, alpha=loop.alpha
        )
        _report(
            _drive_world(files, course, world.scenes, loop, workers),
            loop,
            draws,
            printing,
        )
        return
    numbers = (2,) if loop.allocator else (0, 1)
    if len(mode) not in numbers:
        raise InputError(
            "--mode must be given twice with --allocator, cheap "
            "first, and at most once without."
        )
    others = options.unit_list(loop.calibrate) or []
    task = logs.task(files, mode, others, seconds or 6.0)
    if loop.allocator:
        _report(_drive_logs(task, others, loop, draws.seed), loop, draws, printing)
    else:
        _print_drives(task, logs.planner or "", printing)


def _drive_logs(
    task: "LogTask", others: Sequence[str], loop: LoopOptions, seed: int
) -> list[dict[str, Any]]:
    """A row per drive of a logged scene; the units `others` set the thresholds."""
    if loop.page is not None:
        raise InputError(
            "--page plays drives of the synthetic world: leave "
            "it out with logged scenes."
        )
    if not set(loop.allocator) <= set(PLAIN) and (
        not others or set(others) & set(task.units)
    ):
        raise InputError(
            "--calibrate must name units that set thresholds and are not driven "
            "(--units names those)."
        )
    course = DriveSetting("log", seed=seed, alpha=loop.alpha)
    arms = loop.ready(course, [task.along(unit) for unit in others])
    starts = [
        start
        for unit in terminal.watch(task.units, "units")
        for start in task.compare(unit, course, arms)
    ]
    names, costs = [spec.name for spec in task.modes], loop.prices()
    return [row for start in starts for row in drives.outcomes(start, names, costs)]


def _drive_world(
    files: DataFiles,
    course: DriveSetting,
    scenes: int,
    loop: LoopOptions,
    workers: options.Workers,
) -> list[dict[str, Any]]:
    """A row per drive in the synthetic world; the scenes after those that are driven
    set the thresholds.
    """
    units = files.unit_names or [unit_id(scene) for scene in range(scenes)]
    others = [unit_id(scene) for scene in range(scenes, course.settings.scenes)]
    if set(units) & set(others):
        raise InputError(
            f"Scenes from {others[0]} on set thresholds and "
            "are not driven: raise --scenes."
        )
    along = [
        drives.follow_script(course, unit)
        for unit in terminal.watch(others, "calibration scenes")
    ]
    course, by_scene = replace(course, arms=loop.ready(course, along)), []
    with workers.start() as map_units, terminal.step_bar() as step:
        for driven_scene in map_units(partial(drives.drive_scene, course), units):
            step("scenes", len(by_scene), len(units))
            by_scene.append(driven_scene)
    if loop.page is not None:
        write_atomically(loop.page, render_drive(drives.playback(course, by_scene)))
    names, costs = [name for name, _ in course.modes], loop.prices()
    return [row for scene in by_scene for row in drives.outcomes(scene, names, costs)]


def _report(
    rows: Sequence[dict[str, Any]],
    loop: LoopOptions,
    draws: options.DrawOptions,
    printing: options.Printing,
) -> None:
    """Write the rows per drive, and print the means per allocator."""
    if loop.out is not None:
        lines = _finite(rows)
        write_atomically(
            loop.out,
            csv_text(
                {
                    name: np.array([line[name] for line in lines], object)
                    for name in lines[0]
                }
            ),
        )
    summary = drives.summaries(
        rows, make_draws(len({row["unit"] for row in rows}), draws.number, draws.seed)
    )
    if printing.is_json:
        terminal.print_json(_finite({"summary": summary, "drives": rows}))
        return
    terminal.print_tables([_means(_finite(summary))])
    for path in filter(None, (loop.out, loop.page)):
        say(f"Wrote {path}")


def _means(summary: Sequence[dict[str, Any]]) -> Table:
    """The means per allocator, and the change against the first one."""
    measure, label = ("loss", "loss") if summary[0]["loss"] else ("time_lost_s", "lost")
    columns = {
        "contacts": ("collisions", 3),
        "at fault": ("at_fault", 3),
        "hard": ("hard_brakes", 2),
        "way m": ("progress_m", 1),
        "lost s": ("time_lost_s", 2),
        "ms": ("compute_ms", 0),
    }
    texts = []
    for entry in summary:
        change, mean = (
            entry[f"{measure}_change"],
            {name: (entry[name] or {}).get("mean") for name in drives.MEASURES},
        )
        own = (
            entry["allocator"],
            percent(entry["rate"], 1),
            number(mean["loss"]),
            number(change["mean"]),
        )
        measures = [number(mean[name], digits) for name, digits in columns.values()]
        texts.append(
            (
                *own,
                interval(change["low"], change["high"]),
                *measures,
                number(entry["clearance_m"], 2),
            )
        )
    off_log = sum(entry["off_log"] for entry in summary)
    notes = (
        f"Means over {quantity(summary[0]['drives'], 'drive')} per allocator. loss: "
        "the system's on the driven states, per frame. hard: brakes of "
        f"{drives.HARD_MPS2:g} m/s² or more. lost: behind perfect perception. ms: of "
        "modes and allocator, where both are known. least: smallest clearance.",
        *(
            [f"{quantity(off_log, 'step')} more than {OFF_LOG_M:g} m off the log."]
            if off_log
            else ()
        ),
    )
    header = (
        "allocator",
        "escalated",
        "loss",
        f"{label} - {summary[0]['base']}",
        "95 %",
        *columns,
        "least m",
    )
    extra = ("least m", "ms", "hard", "at fault", "lost s", "way m")
    return Table("Closed loop", header, lines_of(texts), notes, extra)


def _print_drives(task: "LogTask", planner: str, printing: options.Printing) -> None:
    """Print what came of each drive of a planner, without allocators."""
    rows = _finite(
        [
            row
            for unit in terminal.watch(task.units, "units")
            for row in task.drive_alone(unit)
        ]
    )
    if printing.is_json:
        terminal.print_json(rows)
        return
    tenth = partial(number, digits=1)
    columns: dict[str, tuple[str, Callable[[Any], str]]] = {
        **{
            "scene": ("unit", str),
            "from": ("from", str),
            "s": ("seconds", tenth),
            "way m": ("way_m", tenth),
        },
        **{
            "logged m": ("logged_way_m", tenth),
            "contacts": ("contacts", lambda contacts: str(len(contacts))),
        },
        "at fault": (
            "contacts",
            lambda contacts: str(sum(contact["at_fault"] for contact in contacts)),
        ),
        **{
            "clearance m": ("clearance_m", partial(number, digits=2)),
            "off log m": ("deviation_m", tenth),
        },
        "comfort": ("comfort", partial(percent, digits=0)),
    }
    texts = [[form(row[name]) for name, form in columns.values()] for row in rows]
    touched = [
        "{unit} from {from}: ".format_map(row)
        + "{agent} after {time_s:.1f} s, {how}, ".format_map(contact)
        + ("at fault" if contact["at_fault"] else "not at fault")
        + " ({ego_speed_mps:.1f} m/s, the other {agent_speed_mps:.1f} m/s)".format_map(
            contact
        )
        for row in rows
        for contact in row["contacts"]
    ]
    about = (
        "clearance: the smallest to any logged other. off log: from the logged "
        "vehicle at the end. comfort: of all 4 s spans."
    )
    extra = ("logged m", "comfort")
    terminal.print_tables(
        [
            Table(
                f"Closed loop, {planner}",
                tuple(columns),
                lines_of(texts),
                (about, *touched),
                extra,
            )
        ]
    )


RECORDED = (
    "seconds",
    "way_m",
    "logged_way_m",
    "deviation_m",
    "comfort",
    "plans",
    "contacts",
    "pose",
    "speed_mps",
)
"""What a row has of a drive without allocators."""


@dataclass(frozen=True)
class LogTask:
    """Drives of logged scenes: units, planner, states to start from (None: all),
    duration, modes and their placing.
    """

    dataset: Any
    units: Sequence[str]
    planner: Planner
    starts: list[int] | None
    seconds: float
    modes: tuple[ModeSpec, ...]
    placing: Placing

    def along(self, unit: str) -> Followed:
        """What the modes report along the log; the first mode's report also as a
        view.
        """
        scene, truth = self.dataset.read_unit(unit)
        reports = [mode_report(mode, scene, truth) for mode in self.modes]
        blind = [
            mode.name
            for mode, report in zip(self.modes, reports, strict=True)
            if not report.run.any()
        ]
        if blind:
            raise InputError(
                f"{blind[0]}: its file must have frames of {unit}, such as "
                f"{scene.inputs[0]}; found none."
            )
        used = [
            used_detections(mode, report)
            for mode, report in zip(self.modes, reports, strict=True)
        ]
        objects = [self.placing.place(part, scene, truth) for part in used]
        reader = self.modes[0].reader
        view = View(
            scene,
            reports[0],
            CheapMode(reader.scores if reader else "none", self.modes[0].threshold),
        )
        view = view.observing(objects[0]) if self.placing.observes else view
        return Followed(
            scene, truth, ModeReports(reports, objects), Sight(view, images=False)
        )

    def drive(
        self, log: Log, objects: Mapping[str, Objects | None]
    ) -> Iterator[tuple[int, dict[str, DrivenScene]]]:
        """From each state a drive per entry, with these perceived objects, or the
        logged ones where None.

        By default, the states are those with a second or more left to drive.
        """
        every = [
            number
            for number, step in enumerate(log.states)
            if log.time_s[-1] - log.time_s[step] > 1.0 - 1e-6
        ]
        for state in every if self.starts is None else self.starts:
            go = partial(
                driven,
                self.planner,
                replay_from(log, state),
                seconds=self.seconds,
            )
            observed = {
                name: seen if seen is None else perception_at(log, seen, state)
                for name, seen in objects.items()
            }
            yield state, {name: go(observed=own) for name, own in observed.items()}

    def drive_alone(self, unit: str) -> Iterator[dict[str, Any]]:
        """A row per start, driven with the mode, if there is one."""
        objects = self.along(unit).seen.objects[0] if self.modes else None
        for state, drives_here in self.drive(
            self.dataset.read_log(unit), {"": objects}
        ):
            done = drives_here[""]
            room_m = {
                "clearance_m": done.clearance_m.min(),
                "clearances_m": done.clearance_m,
            }
            yield {
                "unit": unit,
                "from": state,
                **room_m,
                **{name: getattr(done, name) for name in RECORDED},
            }

    def compare(
        self, unit: str, course: DriveSetting, arms: Sequence[Arm]
    ) -> Iterator[list[Driven]]:
        """For each start, the drives of all arms and last that of the logged objects.

        An arm chooses along the log, since the detections are those of the logged
        vehicle.
        """
        log, along = self.dataset.read_log(unit), self.along(unit)
        cheap, full = along.seen.objects
        marks = {
            arm.name: drives.choices_along(arm, course, along).escalated for arm in arms
        }
        objects: dict[str, Objects | None] = {
            arm: merge(cheap.where(~own[cheap.frame]), full.where(own[full.frame]))[0]
            for arm, own in marks.items()
        }
        marks[PERFECT], objects[PERFECT] = np.zeros(len(log.states), dtype=bool), None
        for state, done in self.drive(log, objects):
            since_s = log.time_s[log.states] - log.time_s[log.states[state]]
            within = (since_s >= 0) & (since_s < done[PERFECT].seconds)
            yield [
                _driven(unit, state, arm, one, marks[arm][within])
                for arm, one in done.items()
            ]


def _driven(
    unit: str, state: int, arm: str, done: DrivenScene, escalated: np.ndarray
) -> Driven:
    """A drive of a logged scene in the form of those of the synthetic world."""
    way_m = np.concatenate(
        [[0.0], np.cumsum(np.hypot(*np.diff(done.pose[:, :2], axis=0).T))]
    )
    off_m, none = (
        np.hypot(*(done.pose[:, :2] - done.logged_pose[:, :2]).T),
        np.full(len(way_m), np.nan),
    )
    contacts = tuple(
        FirstContact(round(one.time_s / STEP_S), one.how, one.at_fault)
        for one in done.contacts
    )
    motion = (
        way_m,
        none,
        done.speed_mps,
        -done.states[:, AX],
        escalated,
        none,
        done.clearance_m,
    )
    return Driven(
        unit,
        arm,
        *motion,
        contacts,
        done.seconds,
        state,
        int((off_m > OFF_LOG_M).sum()),
    )


def _finite(content: Any) -> Any:
    """Content as JSON holds it, with null for numbers that are not finite."""
    return loads(dumps(plain(content)), parse_constant=lambda _: None)
