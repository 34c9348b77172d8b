"""Perceived objects of two or more modes -> losses per input and mode, with the terms they are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.errors import InputError
from deepval.geometry.objects import Objects, stacked
from deepval.scenes import Scene, ego_of
from deepval.systems.system import System, constants, previous_actions, same_actions
from deepval.terms import weighted_loss


@dataclass(frozen=True)
class Outcomes:
    """What each mode leads to on each input: `loss` is the weighted sum of `terms`; cheap comes first."""

    system: System
    modes: tuple[str, ...]
    unit: Shaped[np.ndarray, "input"]
    input: Shaped[np.ndarray, "input"]
    order: Int[np.ndarray, "input"]
    loss: Float[np.ndarray, "input mode"]
    terms: Mapping[str, Float[np.ndarray, "input mode"]]
    actions: Float[np.ndarray, "input mode act"]

    @property
    def losses(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Loss per input of each mode, cheap first."""
        return {mode: self.loss[:, place] for place, mode in enumerate(self.modes)}

    @property
    def values(self) -> Float[np.ndarray, "input"]:
        """Decision value of the last mode: loss(cheap) - loss(full)."""
        return self.loss[:, 0] - self.loss[:, -1]


def outcomes(
    system: System,
    scenes: Sequence[Scene],
    *,
    reference: Sequence[Objects],
    perceived: Mapping[str, Sequence[Objects]],
    run: Mapping[str, Sequence[Bool[np.ndarray, "_"]]] | None = None,
) -> Outcomes:
    """Losses of every mode on every input, each escalated alone from all-cheap operation.

    Args:
        system: the decision rule.
        scenes: the units.
        reference: the reference objects of each scene (`Truth.objects`).
        perceived: for each mode, cheap first, the perceived objects of each scene.
        run: for each mode, the frames of each scene on which it was run; all where None. Frames that some
            mode was not run on are no inputs, and an action has no predecessor after a frame without the
            cheap mode.
    """
    modes = tuple(perceived)
    if len(modes) < 2:
        raise InputError(f"decision values need two modes or more, cheap first; found {len(modes)}.")
    ego = ego_of(scenes, None if run is None else run[modes[0]])
    truth = stacked(reference)
    seen = {mode: stacked(objects) for mode, objects in perceived.items()}
    for name, objects in [("reference", truth), *seen.items()]:
        if objects.frames != len(ego.speed_mps):
            raise InputError(f"{name} objects must span the {len(ego.speed_mps)} frames; found {objects.frames}.")
    cheap = system.act(seen[modes[0]], ego)
    previous = previous_actions(cheap, ego)
    actions = [cheap, *(system.act(seen[mode], ego, previous=previous) for mode in modes[1:])]
    terms = [system.terms(action, truth, ego=ego, previous=previous) for action in actions]
    kept = np.ones(len(ego.speed_mps), dtype=bool)
    for marks in (run or {}).values():
        kept &= np.concatenate(list(marks))
    columns = {name: np.stack([found[name] for found in terms], axis=1)[kept] for name in terms[0]}
    return Outcomes(
        system=system,
        modes=modes,
        unit=np.repeat([scene.unit for scene in scenes], [len(scene) for scene in scenes])[kept],
        input=np.concatenate([scene.inputs for scene in scenes])[kept],
        order=np.concatenate([np.arange(len(scene)) for scene in scenes])[kept],
        loss=weighted_loss(columns, system.weights),
        terms=columns,
        actions=np.stack(actions, axis=1)[kept],
    )


def own_losses(
    system: System, scenes: Sequence[Scene], *, reference: Sequence[Objects], perceived: Sequence[Objects]
) -> Float[np.ndarray, "input"]:
    """Loss per frame of running one mode all the time, with its own chain of actions."""
    ego, truth = ego_of(scenes), stacked(reference)
    actions = system.act(stacked(perceived), ego)
    terms = system.terms(actions, truth, ego=ego, previous=previous_actions(actions, ego))
    return weighted_loss(terms, system.weights)


def recombined(found: Outcomes, variant: System) -> Outcomes:
    """The outcomes under other loss weights, exactly; an error where actions would change."""
    if not same_actions(found.system, variant):
        changed = [
            name
            for name, value in constants(variant).items()
            if name not in variant.loss_fields and constants(found.system).get(name) != value
        ]
        raise InputError(
            f"only loss weights can be recombined; {', '.join(changed) or type(variant).__name__} "
            "changes actions: build the outcomes again."
        )
    return replace(found, system=variant, loss=weighted_loss(found.terms, variant.weights))


class Composition(NamedTuple):
    """Benefit and harm of the last mode by loss term: weighted, summed over helped and harmed inputs."""

    benefit: dict[str, float]
    harm: dict[str, float]


def composition(found: Outcomes) -> Composition:
    """What benefit and harm are made of; each sums to the total of the positive and negative values."""
    values, benefit, harm = found.values, {}, {}
    for name, weight in found.system.weights.items():
        gain = weight * (found.terms[name][:, 0] - found.terms[name][:, -1])
        benefit[name] = float(gain[values > 0].sum())
        harm[name] = float(-gain[values < 0].sum())
    return Composition(benefit, harm)


class Viability(NamedTuple):
    """Mean loss per mode and of the best trivial predictor (one action, always), and who beats it."""

    loss: dict[str, float]
    trivial_action: tuple[float, ...]
    trivial_loss: float
    viable: dict[str, bool]


def viability(found: Outcomes, scenes: Sequence[Scene], *, reference: Sequence[Objects]) -> Viability:
    """Whether acting on each mode beats always taking the same action, on all frames of `scenes` (M41).

    A constant action never changes, so its change term is 0 throughout.
    """
    ego, truth, system = ego_of(scenes), stacked(reference), found.system
    trivial = []
    for choice in system.choices:
        actions = np.broadcast_to(choice, (len(ego.speed_mps), len(choice))).copy()
        terms = system.terms(actions, truth, ego=ego, previous=previous_actions(actions, ego))
        trivial.append(float(weighted_loss(terms, system.weights).mean()))
    best = int(np.argmin(trivial))
    loss = {mode: float(column.mean()) for mode, column in found.losses.items()}
    action = tuple(float(x) for x in system.choices[best])
    return Viability(loss, action, trivial[best], {mode: mean < trivial[best] for mode, mean in loss.items()})
