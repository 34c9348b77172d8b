"""Functions over whole data sets and boards that only tests need: deepval itself works
part by part.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError
from deepval.deploy.board.standings import Standing, standings_of_bases
from deepval.driving.datasets.kitti import Kitti
from deepval.driving.geometry.classes import super_class
from deepval.driving.perception.reported.cache import FrameRecord, enter, unit_files
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.perception.reported.losses import (
    Rule,
    area,
    greedy_matches,
    match_candidates,
    precision_curve,
)
from deepval.driving.systems.outcomes import (
    Outcomes,
    branches,
    join_outcomes,
    trivial_losses,
    unit_outcomes,
)
from deepval.driving.systems.system import System
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.pairs import basis
from deepval.judge.results import Result
from in_memory import Recording, read_units


class Viability(NamedTuple):
    """Mean loss per mode and of the best trivial predictor, and which modes beat it.

    `trivial` is the name of the predictor.
    """

    loss: dict[str, float]
    trivial_loss: float
    viable: dict[str, bool]
    trivial: str


def viability(
    outcomes: Outcomes, scenes: Sequence[Scene], truths: Sequence[Truth]
) -> Viability:
    """Whether acting on each mode beats a predictor that looks at nothing, on all
    judged frames of `scenes`.

    Trivial predictors are those that always take one of the system's choices (the
    change term is 0 throughout) and those that the system itself lists as trivial.
    """
    system = outcomes.system
    losses = [
        trivial_losses(system, scene, truth)
        for scene, truth in zip(scenes, truths, strict=True)
    ]
    if not losses or not losses[0]:
        raise InputError(
            f"{type(system).__name__} has no short list of plans, so there is no "
            "trivial predictor."
        )
    judged = [
        system.judged(scene, truth) for scene, truth in zip(scenes, truths, strict=True)
    ]
    trivial = {
        name: float(
            np.concatenate(
                [
                    unit[name][frames]
                    for unit, frames in zip(losses, judged, strict=True)
                ]
            ).mean()
        )
        for name in losses[0]
    }
    # Among equally good predictors, the first listed counts: fixed choices come before
    # those that depend on the scene.
    best = min(trivial, key=trivial.__getitem__)
    loss = {mode: float(column.mean()) for mode, column in outcomes.losses.items()}
    viable = {mode: mean < trivial[best] for mode, mean in loss.items()}
    return Viability(loss, trivial[best], viable, best)


class Graded(NamedTuple):
    """Scores of the counted detections, whether each is right, and the number of
    objects to find.
    """

    score: Float[np.ndarray, "det"]
    right: Bool[np.ndarray, "det"]
    objects: int


def grade(detections: Detections, truth: Truth, *, group: str | None = None) -> Graded:
    """The detections of a unit that count, right or wrong; only those of super-class
    `group` if it is given.
    """
    if np.isnan(detections.score).any():
        raise InputError(
            f"unit {detections.unit}: average precision needs scores; "
            "this source has none."
        )
    candidates = match_candidates(detections, truth)
    right = greedy_matches(
        candidates.det,
        candidates.obj,
        overlap=candidates.overlap,
        score=detections.score,
    )
    counted, judged = right | ~candidates.excused, candidates.judged
    if group is not None:
        counted = counted & (super_class(detections.cls) == group)
        judged = judged & (super_class(truth.cls) == group)
    return Graded(detections.score[counted], right[counted], int(judged.sum()))


def pool(parts: Sequence[Graded]) -> Graded:
    """Several units' graded detections as one."""
    score = np.concatenate([np.zeros(0), *(part.score for part in parts)])
    right = np.concatenate([np.zeros(0, dtype=bool), *(part.right for part in parts)])
    return Graded(score, right, sum(part.objects for part in parts))


def average_precision(
    detections: Sequence[Detections],
    truths: Sequence[Truth],
    *,
    rule: Rule = "101-point",
    group: str | None = None,
) -> float:
    """AP at IoU 0.5 over units, of one super-class or of all in one list; NaN if there
    is nothing to find.
    """
    parts = [grade(d, t, group=group) for d, t in zip(detections, truths, strict=True)]
    whole = pool(parts)
    return area(precision_curve(whole.score, whole.right), whole.objects, rule=rule)


def write_unit(
    cache: Path, mode: str, *, unit: str, records: Sequence[FrameRecord]
) -> None:
    """Write a unit of a mode: its frames, its detections, then its entry in the
    manifest, which marks it as done.
    """
    enter(cache, {mode: unit_files(cache, mode, unit=unit, records=records)}, unit=unit)


def read_kitti(
    root: Path | str, units: Sequence[str] | None = None, **options: Any
) -> Recording:
    """The named sequences under `root` (all where None), in memory; the options are
    those of `Kitti`.
    """
    return read_units(Kitti(root, **options), units)


def standings(
    results: Mapping[str, Result], *, unranked: Collection[str] = ()
) -> tuple[Standing, ...]:
    """Allocators that are judged on all the cells, budget by budget: ranked first, then
    unranked, then references.

    Args:
        results: Per cell, the same allocators under the same budgets.
        unranked: Allocators that get no rank and do not affect the ranks of others.
    """
    return standings_of_bases(
        {cell: basis(result) for cell, result in results.items()}, unranked=unranked
    )


def outcomes(
    system: System,
    scenes: Sequence[Scene],
    truths: Sequence[Truth],
    *,
    perceived: Mapping[str, Sequence[Objects]],
    run: Mapping[str, Sequence[np.ndarray]] | None = None,
) -> Outcomes:
    """Losses of every mode on every input of several units; `perceived` and `run` have
    one item per unit.
    """
    parts = []
    for index, (scene, truth) in enumerate(zip(scenes, truths, strict=True)):
        marks = (
            None if run is None else {mode: marks[index] for mode, marks in run.items()}
        )
        plans = branches(
            system,
            scene,
            {mode: objects[index] for mode, objects in perceived.items()},
            marks,
        )
        parts.append(unit_outcomes(system, scene, truth, branches=plans, run=marks))
    return join_outcomes(parts)
