"""A cell and an allocator with feedback -> its decisions on policy, and their gain:
docs/definitions.md, Feedback.

In time order within a unit, a session scores each frame, a policy decides, and the
session gets the full output of the frame if it is escalated. It gets nothing else of
the outputs. Frames without losses are scored and never escalated.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from deepval.allocators import FittedAllocator
from deepval.allocators.allocator import Allocator
from deepval.allocators.feedback import FeedbackAllocator, with_feedback
from deepval.arrays import InputFlags, InputFloats
from deepval.cells.fitting import (
    Scored,
    fitted_units,
    out_of_fold,
    recipes_for,
    without_validation,
)
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import units_of
from deepval.errors import InputError, InputWarning, NothingToLearnError
from deepval.features import Glance
from deepval.files.canonical import digest_of, sha256
from deepval.judging.allowances import (
    Budget,
    MissingCosts,
    Selection,
    allowance_on,
    budget_list,
    charging,
)
from deepval.judging.policies import CausalCap, FrozenThreshold, Policy
from deepval.judging.resamples import Resamples
from deepval.judging.stream_rows import Acceptance, Decider, Streamed, streams_under
from deepval.progress import Watch, unwatched
from deepval.results import Feedback, known
from deepval.tables.keys import positions
from deepval.tables.scores import Missing, Scores
from deepval.tables.values import ValueTable
from deepval.world.objects import Objects

FREE, CAP = "frozen threshold", "causal cap"
TOLERANCE = 0.02
"""A realised share further than this from the rate misses it, where the rate is not
enforced.
"""
NEAR = 0.001
"""A replayed share this near to the rate ends the search of a threshold."""
ROUNDS = 12
"""Most replays in the search of a threshold that keeps its rate."""
MULTIPLES = (0.5, 1.5, 2.0, 4.0)
"""Further thresholds that are tried under a cap: those of these multiples of the
rate.
"""


class PolicyTrace(NamedTuple):
    """The score of each input, and whether it was escalated."""

    score: InputFloats
    escalated: InputFlags


@dataclass(frozen=True, eq=False)
class OnPolicy:
    """An allocator on the inputs of a table of some units of a cell.

    Attributes:
        cell: The cell, with views and outputs.
        allocator: The allocator.
        table: The inputs.
        missing: Whether an input without a score is an error or never escalated
            ("worst").
    """

    cell: BuiltCell
    allocator: FeedbackAllocator
    table: ValueTable
    missing: Missing = "error"

    def __post_init__(self) -> None:
        reason = self.allocator.undefined(self.cell.views[0].mode)
        if reason is not None:
            raise InputError(f"{self.allocator.name} cannot score here: {reason}.")
        if self.table.modes[-1] != self.cell.table.modes[-1]:
            raise InputError(
                "Feedback is the output of the cell's full mode, "
                f"{self.cell.table.modes[-1]!r}; the last mode judged is "
                f"{self.table.modes[-1]!r}: judge with all modes."
            )

    def replay(self, policy: Policy) -> PolicyTrace:
        """Scores and decisions of a policy, unit by unit."""
        score, escalated = (
            np.empty(len(self.table)),
            np.zeros(len(self.table), dtype=bool),
        )
        for frames in self._frames:
            session, stream = self.allocator.session(), policy.start()
            for row, glance, full in frames:
                own = session.score(glance)
                if row < 0:
                    continue
                score[row] = (
                    -math.inf if math.isnan(own) and self.missing == "worst" else own
                )
                if math.isnan(score[row]):
                    raise InputError(
                        f"{self.allocator.name}: every input needs a score; "
                        f"{self.table.input[row]} has none. Use missing='worst' "
                        "(--missing worst) to leave such inputs unescalated."
                    )
                if stream.decide(float(score[row])):
                    escalated[row] = True
                    session.learn(full)
        return PolicyTrace(score, escalated)

    @cached_property
    def _frames(self) -> list[list[tuple[int, Glance, Objects]]]:
        """Unit by unit, the row of each frame in the table (-1: no input), its glance
        and its full output.
        """
        units, frames = set(self.table.unit_ids.tolist()), []
        for sight, outputs in zip(self.cell.sights, self.cell.outputs, strict=True):
            if sight.view.scene.unit in units:
                rows = positions(sight.view.scene.inputs, self.table.input).tolist()
                frames.append(
                    list(zip(rows, sight.glances, outputs.full.by_frame(), strict=True))
                )
        return frames

    def acceptance(self, policy: FrozenThreshold | CausalCap) -> Acceptance:
        """The decisions of a policy, as they are judged."""
        weights = self.replay(policy).escalated.astype(float)
        if isinstance(policy, CausalCap):
            return Acceptance(CAP, known(policy.threshold.theta), weights, None)
        return Acceptance(FREE, known(policy.theta), weights, TOLERANCE)

    def calibrate(self, rate: float) -> tuple[FrozenThreshold, CausalCap]:
        """The threshold that keeps a rate by itself, and the capped one with the
        largest gain, on these inputs.
        """
        free, score = keep_rate(self.replay, rate)
        others = FrozenThreshold.calibrate_each(
            score, [min(1.0, multiple * rate) for multiple in MULTIPLES]
        )
        capped = [
            CausalCap(threshold, rate) for threshold in dict.fromkeys([free, *others])
        ]
        value = self.table.decision_values
        gains = [math.fsum(value[self.replay(policy).escalated]) for policy in capped]
        return free, capped[int(np.argmax(gains))]


def keep_rate(
    replay: Callable[[FrozenThreshold], PolicyTrace], rate: float
) -> tuple[FrozenThreshold, InputFloats]:
    """A threshold whose replay escalates a share near a rate, and the scores in that
    replay.

    Scores may depend on the threshold. So it is calibrated on the scores of the replay
    before, until the share is near enough or the threshold stays the same; where that
    leaves the bounds known so far, in their middle.
    """
    nothing = FrozenThreshold(math.inf, 0.0)
    policy, best = (
        FrozenThreshold.calibrate(replay(nothing).score, rate),
        (math.inf, nothing, np.empty(0)),
    )
    low, high = -math.inf, math.inf
    for _ in range(ROUNDS):
        score, escalated = replay(policy)
        over = float(escalated.mean()) - rate
        best = min(best, (abs(over), policy, score), key=lambda trial: trial[0])
        again = FrozenThreshold.calibrate(score, rate)
        if abs(over) <= NEAR or again == policy:
            break
        low, high = (
            (max(low, policy.theta), high)
            if over > 0
            else (low, min(high, policy.theta))
        )
        policy = (
            again
            if low < again.theta < high
            else FrozenThreshold((low + high) / 2, 1.0)
        )
        if not math.isfinite(policy.theta):
            break
    return best[1:]


def calibrated_by(
    cell: BuiltCell,
    allocator: Allocator,
    units: Sequence[str],
    *,
    watch: Watch = unwatched,
) -> Allocator:
    """The allocator, fitted again without validation units if it was fitted on any of
    these calibration units.
    """
    again = None
    if isinstance(allocator, FittedAllocator) and set(units) & set(
        fitted_units(cell, allocator)
    ):
        again = without_validation(cell, allocator, watch)
    refuse_fitted(cell, again or allocator, units)
    return again or allocator


def refuse_fitted(cell: BuiltCell, allocator: Allocator, units: Sequence[str]) -> None:
    """Raise if an allocator was fitted on any of these units."""
    shared = (
        sorted(set(units) & set(fitted_units(cell, allocator)))
        if isinstance(allocator, FittedAllocator)
        else []
    )
    if shared:
        raise InputError(
            f"{allocator.name} must be judged and calibrated on units that it was not "
            f"fitted on; it was fitted on {', '.join(shared[:5])}: name other units, "
            "or fit it without these."
        )


def calibrate(
    cell: BuiltCell,
    allocator: Allocator,
    alpha: float,
    *,
    units: str | Sequence[str] = "validation",
) -> tuple[FrozenThreshold, CausalCap]:
    """The policies that escalate the share `alpha`, freely and capped, for a deployed
    router.
    """
    table = cell.listed.restrict(units_of(cell.split, units))
    own = with_feedback(calibrated_by(cell, allocator, table.unit_ids.tolist()))
    return OnPolicy(cell, own, table).calibrate(alpha)


def feedback_rows(
    cell: BuiltCell,
    allocators: Mapping[str, Allocator],
    resamples: Resamples,
    budgets: Sequence[Budget] | None,
    *,
    calibration: ValueTable,
    missing: Missing = "error",
    missing_costs: MissingCosts = "error",
    watch: Watch = unwatched,
) -> tuple[Feedback, list[Streamed]]:
    """The judgement of allocators with feedback under budgets: free and capped,
    calibrated on other units.

    The rows come twice: for the result, and with the samples behind them.

    Args:
        cell: The cell.
        allocators: Allocators by name; an ordinary one ignores what it could learn.
        resamples: The inputs to judge on.
        budgets: Budgets; selection at the default levels where None.
        calibration: The inputs on which policies are replayed to set their thresholds.
        missing: Whether an input without a score is an error or never escalated
            ("worst").
        missing_costs: Whether an allocator without a cost is an error or listed without
            a verdict.
        watch: Shows the progress.
    """
    deciders, units = [], calibration.unit_ids.tolist()
    shared = sorted(set(units) & set(resamples.table.unit_ids.tolist()))
    if shared:
        raise InputError(
            "Calibration units must not be judged; "
            f"{shared[0]!r} is in both lists: name others."
        )
    for name, allocator in allocators.items():
        refuse_fitted(cell, allocator, resamples.table.unit_ids.tolist())
        own = OnPolicy(cell, with_feedback(allocator), resamples.table, missing)
        other = with_feedback(calibrated_by(cell, allocator, units, watch=watch))
        deciders.append(decider(name, own, OnPolicy(cell, other, calibration, missing)))
    allowances = [
        allowance_on(budget, resamples.table) for budget in budget_list(budgets)
    ]
    allowances = charging(
        [Scores.stand_in(name) for name in allocators], allowances, missing_costs
    )
    watched = watch(allowances, "replaying policies")
    streamed = [
        item
        for allowed in watched
        for item in streams_under(allowed, resamples, deciders)
    ]
    digests = {name: digest(own) for name, own in allocators.items()}
    return Feedback(
        tuple(item.row for item in streamed), tuple(map(str, units)), digests
    ), streamed


def feedback_out_of_fold(
    cell: BuiltCell,
    recipes: Sequence[str],
    budgets: Sequence[Selection],
    resamples: Resamples,
    **settings: Any,
) -> Iterator[Streamed]:
    """Those of the recipes with feedback, free: every fold is decided by a fit and a
    threshold from the other folds.

    `settings` are arguments of `out_of_fold`.
    """
    table, units = (
        resamples.table,
        resamples.table.unit_ids[np.unique(resamples.table.unit)].tolist(),
    )

    def accept(recipe: str, rate: float) -> Iterator[Acceptance]:
        decided = out_of_fold(
            cell, recipe, score=partial(_decide, rate), units=units, **settings
        )
        yield Acceptance(FREE, None, decided.over(table).values, TOLERANCE)

    for recipe, budget in product(
        sorted({*recipes} & {*recipes_for(cell, feedback=True)}), budgets
    ):
        try:
            yield from streams_under(
                allowance_on(budget, table),
                resamples,
                [Decider(recipe, partial(accept, recipe))],
            )
        except NothingToLearnError as error:
            warnings.warn(
                f"{cell.folder.name}, left out: {error}", InputWarning, stacklevel=2
            )


def _decide(
    rate: float,
    cell: BuiltCell,
    allocator: Allocator,
    others: list[str],
    own: list[str],
) -> Scored:
    """1 for the inputs of a fold that are escalated, by the threshold that keeps a rate
    in a replay of the others.
    """
    learner, table = with_feedback(allocator), cell.table.restrict(own)
    threshold, _ = keep_rate(
        OnPolicy(cell, learner, cell.table.restrict(others), "worst").replay, rate
    )
    escalated = (
        OnPolicy(cell, learner, table, "worst")
        .replay(threshold)
        .escalated.astype(float)
    )
    return Scored(allocator.name, "deployable", table.input, escalated, (), len(table))


def decider(name: str, own: OnPolicy, other: OnPolicy) -> Decider:
    """Decides freely, then capped, by policies that are calibrated on the inputs of
    `other`.
    """
    return Decider(name, lambda rate: map(own.acceptance, other.calibrate(rate)))


def digest(allocator: Allocator) -> str:
    """SHA-256 of an allocator's file, or of the name of one without a file."""
    return (
        sha256(allocator.to_json().encode())
        if isinstance(allocator, FittedAllocator)
        else digest_of(allocator.name)
    )
