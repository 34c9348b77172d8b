"""A built cell and where its data lie on this machine -> its specification, able to read them again.

A folder keeps hashes of what went in, not the data. What is read again must be the very same: the specification made
from it has to be the cell's own.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from deepval.cells import sources
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import CellSpec, Material, ModeSpec, specs
from deepval.datasets import open_dataset
from deepval.datasets.synthetic import WorldSettings
from deepval.errors import InputError
from deepval.perception.simulated.modes import BUILT_IN
from deepval.systems import System
from deepval.systems.learned import learned_planners


class PlannerPaths(NamedTuple):
    """Where the files of a learned planner lie on this machine."""

    weights: Path
    masks: Path


def located(
    cell: BuiltCell,
    *,
    root: Path | None = None,
    files: Mapping[str, Path] | None = None,
    maps: Path | None = None,
    planner: PlannerPaths | None = None,
) -> CellSpec:
    """The cell's specification with its data set and modes at hand; an error where they are not those it rests on.

    Args:
        cell: The cell.
        root: Folder of the data set; the synthetic world needs none.
        files: File of each mode's detections; modes without a file need none.
        maps: Folder of lane maps, where the cell was built with one.
        planner: Weights and masks of a learned planner, where one is to act again; without them the specification
            reads the data and cannot act.
    """
    told = cell.spec
    material = _synthetic(told) if told.dataset == "synthetic" else _from_files(cell, root, files or {}, maps)
    absent = told.learned is not None and planner is None
    system = _planner(told.learned, planner) if told.learned and planner else told.system
    (made,) = specs(
        material,
        geometries=[told.geometry],
        systems=["braking" if absent else system],
        persistence=told.persistence,
        changes=told.set_constants(),
    )
    if absent:
        made = replace(made, system=told.system, constants=told.constants, rule=None)
    if made.id != cell.id:
        apart = made.differences(told) or ("what it rests on",)
        raise InputError(f"{cell.folder}: the data given must be those that the cell was built from; {apart[0]}.")
    return made


def _planner(name: str, planner: PlannerPaths) -> System:
    return learned_planners([name], weights=planner.weights, masks=planner.masks)[0]


def needs_files(cell: BuiltCell) -> bool:
    """Whether somebody has to say where the cell's data lie."""
    return cell.spec.dataset != "synthetic"


def _synthetic(told: CellSpec) -> Material:
    made, usual = told.modes[0].made, WorldSettings()
    size = {name: made["settings"][name] for name in (f.name for f in fields(usual)) if name != "traffic"}
    limits = {mode.name: float(mode.threshold or 0.0) for mode in told.modes}
    return sources.synthetic(
        told.order,
        seed=made["seed"],
        settings=WorldSettings(**size),
        threshold=limits,
        classes=told.modes[0].classes,
        units=told.units,
    )


def _from_files(cell: BuiltCell, root: Path | None, files: Mapping[str, Path], maps: Path | None) -> Material:
    told = cell.spec
    if root is None:
        raise InputError(f"{cell.folder}: its data set is read again, and nobody said where it lies: give --root.")
    named = [_mode_file(cell, mode, files) for mode in told.modes]
    source = open_dataset(told.dataset, root, **({} if maps is None else {"maps": maps}))
    return sources.from_files(source, named, units=told.units)


def _mode_file(cell: BuiltCell, mode: ModeSpec, files: Mapping[str, Path]) -> sources.ModeFile:
    built_in = mode.made.get("source") == BUILT_IN
    if not built_in and mode.name not in files:
        raise InputError(
            f"{cell.folder}: its modes are read again, and nobody said where {mode.name} lies: give "
            f"--mode {mode.name}=FILE."
        )
    return sources.ModeFile(
        name=mode.name,
        path=None if built_in else files[mode.name],
        threshold=mode.threshold,
        scores=mode.made.get("scores"),
        classes=mode.classes,
        seed=mode.made.get("seed", 0),
    )
