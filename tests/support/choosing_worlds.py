"""Cells that are a table, a split and perception losses, with scores beside them: what
choosing starts from.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from deepval.deploy.board.tracks import read_track
from deepval.deploy.fitting import Scored
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.evidence import Evidence
from deepval.judge.tables.split import Split
from worlds import table_of

TRAIN, VALIDATION, TEST = ("t0", "t1"), ("v0", "v1"), ("a", "b", "c")
ROLES = {"train": TRAIN, "validation": VALIDATION, "test": TEST}


def made_cell(values, unit, gains, *, data="made", cheap=None) -> BuiltCell:
    """A cell with these decision values and perception gains (E1 and so on, the cheap
    mode's loss where it is 0).
    """
    cheap = np.abs(values) + 1 if cheap is None else cheap
    table = table_of(values, unit=unit, cheap=cheap)
    kept = {f"cheap_{name}": np.asarray(gain, float) for name, gain in gains.items()}
    kept |= {f"full_{name}": np.zeros(len(values)) for name in gains}
    cell = object.__new__(BuiltCell)
    cell.__dict__.update(
        manifest=SimpleNamespace(folder=Path(data), id=data),
        table=table,
        split=Split(data, *ROLES.values()),
        evidence=Evidence(table, kept),
    )
    return cell


def made_scores(cell, scores, *, kind="deployable") -> dict[str, Scored]:
    """Scores of every input of a cell."""
    inputs = cell.table.input
    return {
        name: Scored(name, kind, inputs, np.asarray(s, float), (), len(inputs))
        for name, s in scores.items()
    }


def random_cell(
    rng,
    *,
    each=6,
    data="made",
    names=("uncertainty", "criticality", "ego-speed"),
    prefix="",
):
    """A tiny cell of whole numbers, with ties everywhere, and scores of it."""
    units = [prefix + unit for role in ROLES.values() for unit in role]
    unit = np.repeat(units, each)
    values = rng.integers(-2, 4, len(unit)) / 2
    gains = {
        name: rng.integers(-1, 3, len(unit)).astype(float) for name in ("E1", "E8")
    }
    cell = made_cell(values, unit, gains, data=data)
    if prefix:
        roles = ([prefix + each for each in role] for role in ROLES.values())
        cell.__dict__["split"] = Split(data, *map(tuple, roles))
    return cell, made_scores(
        cell, {name: rng.integers(0, 4, len(unit)) for name in names}
    )


def paper_cells(seed=0):
    """The paper's fourteen held-out cells by name, with values that are made up and as
    few affected inputs as it tells.

    Four test states are affected under IDM's safety loss; at most seven validation
    states in the nuPlan cells but PDM-Closed's scalar loss.
    """
    rng = np.random.default_rng(seed)
    found, scores = {}, {}
    for track in ("core", "external"):
        for told in read_track(track).cells:
            if "yolov8s-320" not in told.definition["modes"]:
                continue  # the paper's other pairs have no held-out results
            data = told.definition["dataset"]["name"]
            cell, scored = random_cell(rng, each=20, data=data, prefix=f"{data}-")
            if data == "nuplan":
                values, unit = (
                    cell.table.decision_values.copy(),
                    cell.table.unit_ids[cell.table.unit],
                )
                idm, scalar = "idm" in told.name, "scalar" in told.name
                if idm or not scalar:
                    _leave(values, np.isin(unit, cell.split.validation), 7)
                if idm and not scalar:
                    _leave(values, np.isin(unit, cell.split.test), 4)
                kept = {name: cell.evidence.losses[0][name] for name in ("E1", "E8")}
                split = cell.split
                cell = made_cell(values, unit, kept, data=data)
                cell.__dict__["split"] = split
                scored = {
                    name: each for name, each in scored.items() if name != "uncertainty"
                }
            found[told.name], scores[told.name] = cell, scored
    return found, scores


def _leave(values, among, number):
    """Make all but so many of the affected inputs unaffected; those left help."""
    rows = np.flatnonzero(among)
    values[rows] = 0.0
    values[rows[:number]] = 1.0
