"""`deepval drive`: a planner drives logged scenes in closed loop -> distance, contacts, comfort."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from deepval.cells import sources
from deepval.cells.unit import mode_report, used_detections
from deepval.cli import options, terminal
from deepval.cli.arguments import limits
from deepval.cli.dataset_options import DataFiles
from deepval.cli.options import Json
from deepval.datasets import Dataset
from deepval.datasets.logs.log import Log
from deepval.datasets.logs.replay import perception_at, replay_from
from deepval.errors import InputError
from deepval.perception.placing import PLACINGS, Placing
from deepval.planners.closed_loop import DrivenScene
from deepval.planners.closed_loop import drive as driven
from deepval.planners.observation import Planner
from deepval.report.table import MISSING, Table, TableCell, number, percent
from deepval.world.objects import Objects

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
    planner: Annotated[str, typer.Option("--planner", help=f"{' or '.join(PLANNERS)}.")],
    start: Annotated[
        str, typer.Option("--from", help="Keyframes to start from: 0 or 0,10,20; all: those with a second to drive.")
    ] = "0",
    seconds: Annotated[
        float, typer.Option("--seconds", help="Duration of a drive; it ends with the scene.", callback=limits(0, 1e6))
    ] = 6.0,
    replan: Annotated[
        float, typer.Option("--replan", help="Seconds between plans, a multiple of 0.1.", callback=limits(0, 1e6))
    ] = 0.1,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", help="Perception: NAME=DETECTIONS, or a mode without a file. Default: everything, always."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Lowest score of the mode's detections.", callback=limits(-1e9, 1e9)),
    ] = None,
    geometry: Annotated[
        str | None, typer.Option("--geometry", help=f"How the mode's detections become objects: {', '.join(PLACINGS)}.")
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
        raise InputError(f"--dataset must have logged drives with lane maps; {kind} has none: choose another.")
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
