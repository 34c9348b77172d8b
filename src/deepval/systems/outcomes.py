"""Perceived objects of two or more modes on one unit -> losses per input and mode, with the terms they are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.systems.system import System, constants, first_only, previous_plans, same_plans
from deepval.tables.terms import weighted_loss
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Truth


@dataclass(frozen=True)
class Outcomes:
    """What each mode leads to on each input: `loss` is the weighted sum of `terms`; cheap comes first.

    `columns` is what the system keeps of its plans, by name and mode.
    """

    system: System
    modes: tuple[str, ...]
    unit: Shaped[np.ndarray, "input"]
    input: Shaped[np.ndarray, "input"]
    order: Int[np.ndarray, "input"]
    loss: Float[np.ndarray, "input mode"]
    terms: Mapping[str, Float[np.ndarray, "input mode"]]
    columns: Mapping[str, Float[np.ndarray, "input mode"]]

    @property
    def losses(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Loss per input of each mode, cheap first."""
        return {mode: self.loss[:, place] for place, mode in enumerate(self.modes)}

    @property
    def values(self) -> Float[np.ndarray, "input"]:
        """Decision value of the last mode: loss(cheap) - loss(full)."""
        return self.loss[:, 0] - self.loss[:, -1]


class Branches(NamedTuple):
    """The plans of a unit: `before` are those of all-cheap operation one frame earlier, then one list per mode."""

    before: Float[np.ndarray, "time *plan"]
    plans: Mapping[str, Float[np.ndarray, "time *plan"]]


def branches(
    system: System,
    scene: Scene,
    perceived: Mapping[str, Objects],
    run: Mapping[str, Bool[np.ndarray, "time"]] | None = None,
) -> Branches:
    """What the system plans on a unit under every mode, cheap first, each escalated alone from all-cheap operation.

    Args:
        system: The decision rule.
        scene: The unit.
        perceived: For each mode, cheap first, the perceived objects.
        run: For each mode, the frames on which it was run; all where None. A plan has no predecessor after a frame
            without the cheap mode.
    """
    modes = tuple(perceived)
    if len(modes) < 2:
        raise InputError(f"decision values need two modes or more, cheap first; found {len(modes)}.")
    for name, objects in perceived.items():
        _check_span(name, objects, scene)
    starts = _starts(len(scene), None if run is None else run[modes[0]])
    plans = system.plan_branches(perceived, scene, starts=starts)
    return Branches(previous_plans(plans[modes[0]], starts), plans)


def unit_outcomes(
    system: System,
    scene: Scene,
    truth: Truth,
    *,
    branches: Branches,
    run: Mapping[str, Bool[np.ndarray, "time"]] | None = None,
) -> Outcomes:
    """Losses of every mode on every input of a unit.

    Frames that some mode was not run on, or that the system cannot judge, are no inputs.
    """
    _check_span("reference", truth.objects, scene)
    kept = system.judged(scene, truth)
    for marks in (run or {}).values():
        kept = kept & marks
    terms = [system.terms(plans, scene, truth, previous=branches.before) for plans in branches.plans.values()]
    columns = [system.columns(plans) for plans in branches.plans.values()]
    loss_terms = _side_by_side(terms, kept)
    return Outcomes(
        system=system,
        modes=tuple(branches.plans),
        unit=np.full(int(kept.sum()), scene.unit),
        input=scene.inputs[kept],
        order=np.flatnonzero(kept),
        loss=weighted_loss(loss_terms, system.weights),
        terms=loss_terms,
        columns=_side_by_side(columns, kept),
    )


def joined(parts: Sequence[Outcomes]) -> Outcomes:
    """The outcomes of several units as one, unit after unit."""
    first = parts[0]

    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    def each(name: str) -> dict[str, np.ndarray]:
        return {key: np.concatenate([getattr(part, name)[key] for part in parts]) for key in getattr(first, name)}

    flat = {name: column(name) for name in ("unit", "input", "order", "loss")}
    return Outcomes(first.system, first.modes, **flat, terms=each("terms"), columns=each("columns"))


def outcomes(
    system: System,
    scenes: Sequence[Scene],
    truths: Sequence[Truth],
    *,
    perceived: Mapping[str, Sequence[Objects]],
    run: Mapping[str, Sequence[Bool[np.ndarray, "_"]]] | None = None,
) -> Outcomes:
    """Losses of every mode on every input of several units; `perceived` and `run` hold one item per unit."""
    parts = []
    for place, (scene, truth) in enumerate(zip(scenes, truths, strict=True)):
        marks = None if run is None else {mode: marks[place] for mode, marks in run.items()}
        made = branches(system, scene, {mode: seen[place] for mode, seen in perceived.items()}, marks)
        parts.append(unit_outcomes(system, scene, truth, branches=made, run=marks))
    return joined(parts)


def own_losses(
    system: System,
    scenes: Sequence[Scene],
    truths: Sequence[Truth],
    *,
    perceived: Sequence[Objects],
    run: Sequence[Bool[np.ndarray, "_"]] | None = None,
) -> Float[np.ndarray, "input"]:
    """Loss per frame of running one mode all the time, with its own chain of plans, which begins anew after a gap."""
    losses = []
    for place, (scene, truth, seen) in enumerate(zip(scenes, truths, perceived, strict=True)):
        starts = _starts(len(scene), None if run is None else run[place])
        losses.append(_chained_loss(system, scene, truth, system.plan(seen, scene, starts=starts), starts))
    return np.concatenate(losses)


def _starts(frames: int, run: Bool[np.ndarray, "time"] | None) -> Bool[np.ndarray, "time"]:
    """Where a chain of plans begins: at the first frame, and after every frame without the mode."""
    starts = first_only(frames)
    if run is not None:
        starts[1:] |= ~run[:-1]
    return starts


def _chained_loss(
    system: System,
    scene: Scene,
    truth: Truth,
    plans: Float[np.ndarray, "time *plan"],
    starts: Bool[np.ndarray, "time"],
) -> Float[np.ndarray, "time"]:
    previous = previous_plans(plans, starts)
    return weighted_loss(system.terms(plans, scene, truth, previous=previous), system.weights)


def recombined(given: Outcomes, variant: System) -> Outcomes:
    """The outcomes under other loss weights, exactly; an error where plans would change."""
    if not same_plans(given.system, variant):
        changed = [
            name
            for name, value in constants(variant).items()
            if name not in variant.loss_fields and constants(given.system).get(name) != value
        ]
        raise InputError(
            f"only loss weights can be recombined; {', '.join(changed) or type(variant).__name__} "
            "changes actions: build the outcomes again."
        )
    return replace(given, system=variant, loss=weighted_loss(given.terms, variant.weights))


class Viability(NamedTuple):
    """Mean loss per mode and of the best trivial predictor, and who beats it.

    `trivial` says what it does; `trivial_action` is the one plan that it always makes, if it makes only one.
    """

    loss: dict[str, float]
    trivial_action: tuple[float, ...]
    trivial_loss: float
    viable: dict[str, bool]
    trivial: str


def viability(given: Outcomes, scenes: Sequence[Scene], truths: Sequence[Truth]) -> Viability:
    """Whether acting on each mode beats a predictor that looks at nothing, on all frames of `scenes` that are judged.

    Trivial are each of a system's choices, made always (its change term is 0 throughout), and what the system itself
    calls trivial.
    """
    system = given.system
    losses = [trivial_losses(system, scene, truth) for scene, truth in zip(scenes, truths, strict=True)]
    if not losses or not losses[0]:
        raise InputError(f"{type(system).__name__} has no short list of plans, so none to take as a trivial predictor.")
    judged = [system.judged(scene, truth) for scene, truth in zip(scenes, truths, strict=True)]
    found = {
        name: float(np.concatenate([each[name][kept] for each, kept in zip(losses, judged, strict=True)]).mean())
        for name in losses[0]
    }
    best = min(found, key=found.__getitem__)
    loss = {mode: float(column.mean()) for mode, column in given.losses.items()}
    fixed = {} if system.choices is None else {_said(c): tuple(float(x) for x in c.ravel()) for c in system.choices}
    viable = {mode: mean < found[best] for mode, mean in loss.items()}
    return Viability(loss, fixed.get(best, ()), found[best], viable, best)


def trivial_losses(system: System, scene: Scene, truth: Truth) -> dict[str, Float[np.ndarray, "time"]]:
    """Loss per frame of every predictor that looks at nothing, each with its own chain of plans, by name."""
    starts = _starts(len(scene), None)
    return {name: _chained_loss(system, scene, truth, plans, starts) for name, plans in _trivial(system, scene).items()}


def _trivial(system: System, scene: Scene) -> dict[str, Float[np.ndarray, "time *plan"]]:
    """Every trivial predictor's plans on a scene, by name."""
    choices = [] if system.choices is None else system.choices
    fixed = {_said(choice): np.broadcast_to(choice, (len(scene), *choice.shape)).copy() for choice in choices}
    return fixed | system.trivial(scene)


def _said(choice: Float[np.ndarray, "*plan"]) -> str:
    return f"always {', '.join(f'{part:g}' for part in choice.ravel())}"


def _check_span(name: str, objects: Objects, scene: Scene) -> None:
    if objects.frames != len(scene):
        raise InputError(
            f"{name} objects of unit {scene.unit} must span its {len(scene)} frames; found {objects.frames}."
        )


def _side_by_side(
    columns: Sequence[Mapping[str, Float[np.ndarray, "time"]]], kept: Bool[np.ndarray, "time"]
) -> dict[str, Float[np.ndarray, "input mode"]]:
    """Columns by name with one place per mode, of the kept frames."""
    return {name: np.stack([column[name] for column in columns], axis=1)[kept] for name in columns[0]}
