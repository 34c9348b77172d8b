"""The paper's fourteen held-out cells by name, tiny and with generated values: what
counts of its designs rest on.

Six of nuScenes (three consumers, two geometries), four of KITTI (two and two), four of
nuPlan (two planners under two losses). On its test units IDM under the safety loss has
nothing to gain, so that nobody can be scored there: thirteen cells are. Cells of a data
set share units, views and split; views of all are such as every recipe can be fitted
on.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from deepval.basics.files.canonical import Manifest
from deepval.deploy.allocators import RECIPES, RowRecipe
from deepval.deploy.allocators.models import Learner, Linear
from deepval.deploy.allocators.models.model import Standard
from deepval.deploy.features import Sight
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.evidence import Evidence
from deepval.driving.perception.reported.losses import LOSSES
from deepval.driving.views import CheapMode, View
from deepval.judge.tables.costs import PROFILES, Costs
from deepval.judge.tables.split import Split
from deepval.judge.tables.values import ValueTable
from view_worlds import random_view
from worlds import quietly

MODES = ("yolov8s-320", "yolov8s-640")
BOARDS = {
    "nuscenes": "jetson-agx-xavier-nuscenes",
    "kitti": "jetson-agx-xavier",
    "nuplan": "jetson-agx-xavier-nuplan",
}
LEARNED = (
    *("gate-ridge", "gate-gbm"),
    *("router-mlp-value", "router-mlp-binary", "router-gbm-value", "router-gbm-binary"),
)
"""The six learned allocators of its tables."""
ALPHAS = (0.1, 0.2, 0.3, 0.5)

HELD_OUT = (
    *(
        f"nuscenes {system} {how}"
        for how in ("monocular", "oracle")
        for system in ("braking", "ade", "fde")
    ),
    *(
        f"kitti {system} {how}"
        for how in ("monocular", "oracle")
        for system in ("braking", "receding-horizon")
    ),
    *(
        f"nuplan {planner}-{loss} tracks"
        for planner in ("pdm-closed", "idm")
        for loss in ("safety", "scalar")
    ),
)
"""Fourteen cells, by data set, consumer and geometry."""
CORE = tuple(name for name in HELD_OUT if not name.startswith("nuplan"))
"""Ten cells of detection-based pipelines."""
POOLED = (*CORE, *(name for name in HELD_OUT if "pdm-closed" in name))
"""Twelve cells: the core and PDM-Closed under both losses."""
UNSCORED = "nuplan idm-safety tracks"
SCORED = tuple(name for name in HELD_OUT if name != UNSCORED)
"""Thirteen cells."""


@dataclass(frozen=True)
class Slopes(Learner):
    """The covariance of every column with the label as its weight: quick, and enough
    where designs are counted.
    """

    def _fit(self, task):
        standard, labels = Standard.of(task.rows), task.labels
        return Linear(
            standard,
            standard.apply(task.rows).T @ (labels - labels.mean()),
            float(labels.mean()),
        )


LIGHT = tuple(
    RowRecipe(name, RECIPES[name].feature_set, RECIPES[name].target, Slopes())
    for name in LEARNED
)
"""The six, looking at the same and learning the same, each by slopes."""
ROLES = {"train": 4, "validation": 2, "test": 3}
FRAMES = 10
LATER = 8
"""Frames of a unit that have a logged future, which the learned planner is judged
against: the first ones.
"""


def paper_cells(names=HELD_OUT) -> dict[str, BuiltCell]:
    """The cells of these names."""
    return {name: _cell(name) for name in names}


def place(name: str) -> tuple[str, str, str]:
    """Data set, consumer and geometry of a cell."""
    data, consumer, geometry = name.split()
    return data, consumer, geometry


@lru_cache
def _units(data: str) -> Split:
    number = sum(ROLES.values())
    names = [f"{data}-{place}" for place in range(number)]
    ends = np.cumsum([0, *ROLES.values()])
    return Split(data, *(tuple(names[low:high]) for low, high in pairwise(ends)))


@lru_cache
def _sights(data: str) -> tuple[Sight, ...]:
    rng = np.random.default_rng(sorted(BOARDS).index(data))
    found = []
    for unit in _units(data).units:
        view = random_view(
            rng, FRAMES, mode=CheapMode("probabilities", 0.25), failures=False
        )
        scene, seen = (
            replace(view.scene, unit=unit),
            replace(view.detections, unit=unit),
        )
        found.append(Sight(View(scene, seen, view.mode)))
    return tuple(found)


@lru_cache
def _cell(name: str) -> BuiltCell:
    data, consumer, geometry = place(name)
    split, sights = _units(data), _sights(data)
    rng = np.random.default_rng(100 + HELD_OUT.index(name))
    judged = LATER if consumer in ("ade", "fde") else FRAMES
    inputs = np.concatenate([sight.view.scene.inputs[:judged] for sight in sights])
    unit = np.repeat(split.units, judged)
    values = np.where(
        rng.random(len(unit)) < 0.4, 0.0, np.round(rng.normal(0.3, 1.0, len(unit)), 2)
    )
    if name == UNSCORED:
        values = np.where(np.isin(unit, split.test), np.minimum(values, 0.0), values)
    cheap = np.abs(values) + 1
    costs = Costs.of(PROFILES[BOARDS[data]])
    table = quietly(
        ValueTable.from_columns,
        unit=unit,
        input=inputs,
        losses=dict(zip(MODES, (cheap, cheap - values), strict=True)),
        order=np.tile(np.arange(judged), len(split.units)),
        costs=costs,
    )
    definition = {
        "dataset": {"name": data, "files": {}, "units": list(split.units)},
        "modes": {mode: {"threshold": 0.25, "classes": None} for mode in MODES},
        "geometry": geometry,
        "persistence": False,
        "system": {"name": consumer, "constants": None},
    }
    cell = BuiltCell(
        Manifest(Path("paper") / name.replace(" ", "-"), name, definition, {}), name
    )
    kept = {
        f"{mode}_{loss}": rng.integers(0, 4, len(table)).astype(float)
        for mode in ("cheap", "full")
        for loss in LOSSES
    }
    kept |= {
        f"{column}{role}": np.round(rng.normal(size=len(table)), 1)
        for column in ("oric_reward", "ap_swap", "oric_released")
        for role in ("", "_train")
    }
    kept["reference_required_mps2"] = rng.random(len(table))
    views = tuple(sight.view for sight in sights)
    cell.__dict__.update(
        table=table,
        split=split,
        sights=sights,
        views=views,
        evidence=Evidence(table, kept),
    )
    return cell
