"""Perceived objects of two or more modes on one unit -> losses per input and mode, with
their terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.driving.frames import columns, trivial_plans
from deepval.driving.systems.system import (
    System,
    constants,
    first_only,
    previous_plans,
    same_plans,
)
from deepval.driving.world.objects import Objects
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from deepval.judge.tables.terms import weighted_loss
from deepval.judge.tables.values import ValueTable


@dataclass(frozen=True)
class Outcomes:
    """The loss terms of each mode on each input, cheap first: from the plans of a unit
    until the table of a cell.

    `columns` are the columns that describe the plans, by name and mode.
    """

    system: System
    modes: tuple[str, ...]
    unit: Shaped[np.ndarray, "input"]
    input: Shaped[np.ndarray, "input"]
    order: Int[np.ndarray, "input"]
    terms: Mapping[str, Float[np.ndarray, "input mode"]]
    columns: Mapping[str, Float[np.ndarray, "input mode"]]

    @cached_property
    def loss(self) -> Float[np.ndarray, "input mode"]:
        """The weighted sum of the terms."""
        return weighted_loss(self.terms, self.system.weights)

    @property
    def losses(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Loss per input of each mode, cheap first."""
        return {mode: self.loss[:, index] for index, mode in enumerate(self.modes)}

    @property
    def values(self) -> Float[np.ndarray, "input"]:
        """Decision value of the last mode: loss(cheap) - loss(full)."""
        return self.loss[:, 0] - self.loss[:, -1]

    def table(self, attributes: Mapping[str, np.ndarray] | None = None) -> ValueTable:
        """The losses as a table to judge on."""
        table = ValueTable.from_columns(
            unit=self.unit,
            input=self.input,
            losses=self.losses,
            order=self.order,
            attributes=attributes,
        )
        return replace(table, tolerance=self.system.tolerance)


class Branches(NamedTuple):
    """The plans of a unit: `before` are the plans of all-cheap operation one frame
    earlier; then one list per mode.
    """

    before: Float[np.ndarray, "time *plan"]
    plans: Mapping[str, Float[np.ndarray, "time *plan"]]


def branches(
    system: System,
    scene: Scene,
    perceived: Mapping[str, Objects],
    run: Mapping[str, Bool[np.ndarray, "time"]] | None = None,
) -> Branches:
    """The system's plans on a unit under every mode, cheap first, each escalated alone
    from all-cheap operation.

    Args:
        system: The decision rule.
        scene: The unit.
        perceived: For each mode, cheap first, the perceived objects.
        run: For each mode, the frames on which it was run; all where None. A plan has
            no predecessor after a frame without the cheap mode.
    """
    modes = tuple(perceived)
    if len(modes) < 2:
        raise InputError(
            f"decision values need two modes or more, cheap first; found {len(modes)}."
        )
    for name, objects in perceived.items():
        _check_span(name, objects, scene)
    # All modes start from the plans of all-cheap operation, so only gaps of the cheap
    # mode break the chain.
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

    Frames on which some mode was not run, or which the system cannot judge, are no
    inputs.
    """
    _check_span("reference", truth.objects, scene)
    inputs = system.judged(scene, truth)
    for marks in (run or {}).values():
        inputs = inputs & marks
    # Terms are computed on all frames and selected afterwards: change costs need the
    # frames between inputs. Every mode is charged for its change from the same previous
    # plan, which is the plan of all-cheap operation.
    terms = [
        system.terms(plans, scene, truth, previous=branches.before)
        for plans in branches.plans.values()
    ]
    plan_columns = [columns(system, plans) for plans in branches.plans.values()]
    return Outcomes(
        system=system,
        modes=tuple(branches.plans),
        unit=np.full(int(inputs.sum()), scene.unit),
        input=scene.inputs[inputs],
        order=np.flatnonzero(inputs),
        terms=_side_by_side(terms, inputs),
        columns=_side_by_side(plan_columns, inputs),
    )


def join_outcomes(parts: Sequence[Outcomes]) -> Outcomes:
    """The outcomes of several units as one, unit after unit."""
    first = parts[0]

    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    def by_key(name: str) -> dict[str, np.ndarray]:
        return {
            key: np.concatenate([getattr(part, name)[key] for part in parts])
            for key in getattr(first, name)
        }

    return Outcomes(
        first.system,
        first.modes,
        unit=column("unit"),
        input=column("input"),
        order=column("order"),
        terms=by_key("terms"),
        columns=by_key("columns"),
    )


def own_losses(
    system: System,
    scenes: Sequence[Scene],
    truths: Sequence[Truth],
    *,
    perceived: Sequence[Objects],
    run: Sequence[Bool[np.ndarray, "_"]] | None = None,
) -> Float[np.ndarray, "input"]:
    """Loss per frame of running one mode all the time, with its own chain of plans,
    which restarts after a gap.
    """
    losses = []
    for index, (scene, truth, objects) in enumerate(
        zip(scenes, truths, perceived, strict=True)
    ):
        starts = _starts(len(scene), None if run is None else run[index])
        losses.append(
            _chain_loss(
                system, scene, truth, system.plan(objects, scene, starts=starts), starts
            )
        )
    return np.concatenate(losses)


def _starts(
    frames: int, run: Bool[np.ndarray, "time"] | None
) -> Bool[np.ndarray, "time"]:
    """Where a chain of plans begins: at the first frame, and after every frame without
    the mode.
    """
    # The frame after a gap has no predecessor: the plan of the frame before it was
    # never made.
    starts = first_only(frames)
    if run is not None:
        starts[1:] |= ~run[:-1]
    return starts


def _chain_loss(
    system: System,
    scene: Scene,
    truth: Truth,
    plans: Float[np.ndarray, "time *plan"],
    starts: Bool[np.ndarray, "time"],
) -> Float[np.ndarray, "time"]:
    # The chain is the plans themselves: a plan that never changes pays no change cost.
    previous = previous_plans(plans, starts)
    return weighted_loss(
        system.terms(plans, scene, truth, previous=previous), system.weights
    )


def reweight(outcomes: Outcomes, variant: System) -> Outcomes:
    """The outcomes under other loss weights, exactly; an error where plans would
    change.
    """
    if not same_plans(outcomes.system, variant):
        changed = [
            name
            for name, value in constants(variant).items()
            if name not in variant.loss_fields
            and constants(outcomes.system).get(name) != value
        ]
        raise InputError(
            "only loss weights can be recombined; "
            f"{', '.join(changed) or type(variant).__name__} changes actions: build "
            "the outcomes again."
        )
    # The terms are stored unweighted, so the loss is the same sum in the same order as
    # in a fresh build.
    return replace(outcomes, system=variant)


def trivial_losses(
    system: System, scene: Scene, truth: Truth
) -> dict[str, Float[np.ndarray, "time"]]:
    """Loss per frame of every predictor that looks at nothing, each with its own chain
    of plans, by name.
    """
    starts = _starts(len(scene), None)
    return {
        name: _chain_loss(system, scene, truth, plans, starts)
        for name, plans in trivial_plans(system, scene).items()
    }


def _check_span(name: str, objects: Objects, scene: Scene) -> None:
    if objects.frames != len(scene):
        raise InputError(
            f"{name} objects of unit {scene.unit} must "
            f"span its {len(scene)} frames; found {objects.frames}."
        )


def _side_by_side(
    columns: Sequence[Mapping[str, Float[np.ndarray, "time"]]],
    inputs: Bool[np.ndarray, "time"],
) -> dict[str, Float[np.ndarray, "input mode"]]:
    """Columns by name with one value per mode, of the frames that are inputs."""
    tables = {}
    for name in columns[0]:
        table = np.stack([column[name] for column in columns], axis=-1)
        if table.shape != (len(inputs), len(columns)):
            raise InputError(
                f"a system's {name!r} must be a number for each of {len(inputs)} "
                f"frames; found an array of {table.shape[:-1]}."
            )
        tables[name] = table[inputs]
    return tables
