"""A policy and, for frames, an allocator -> the mode to run on each score or frame as
it arrives.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics import checks
from deepval.basics.errors import InputError, InputWarning, quote
from deepval.basics.files.writing import file_path, write_atomically
from deepval.deploy.allocators import read_allocator
from deepval.deploy.allocators.allocator import SIGNALS, Allocator, FittedAllocator
from deepval.deploy.features import Glance, glance
from deepval.driving.views import CheapMode, Frame, Past
from deepval.judge.prices import Price
from deepval.judge.report.text_tables import quantity
from deepval.judge.routing import (
    MODES,
    Route,
    Routing,
    check_scores,
    file_text,
    read_routing,
)
from deepval.judge.streaming import StreamRule


class Router:
    """Decides in a user's own loop: `router.begin()` at each unit, then
    `router.decide(...)` input after input.

    An input is a score (`Router.from_scores`), or a frame that an allocator scores
    (`Router(allocator, policy)`, `Router.calibrated`). The size of the router's memory
    is bounded. A frame on which the cheap mode failed has no score; it is not escalated
    and does not count for the policy.

    Attributes:
        routing: Policy, modes and whether state resets: the content of its file.
        score: The score of the last input; with one score per mode, the largest.
    """

    def __repr__(self) -> str:
        routing = self.routing
        return f"Router({routing.policy_name}: {' or '.join(routing.modes)})"

    def __init__(
        self,
        allocator: Allocator | None,
        policy: StreamRule | Price | Routing,
        *,
        mode: CheapMode | None = None,
        modes: Sequence[str] | None = None,
        reset: bool = True,
    ) -> None:
        """A router that scores with an allocator and escalates by a policy.

        Args:
            allocator: The allocator that scores frames; None if inputs are scores.
            policy: When to escalate; calibrate it on validation scores. Or a routing,
                with modes and reset.
            mode: How to read the cheap mode's report.
            modes: Names of the modes to return, cheap first; by default the allocator's
                own.
            reset: Whether the policy starts again at `begin()`; if not, all inputs are
                one stream.
        """
        self.allocator = allocator
        self.mode = CheapMode() if mode is None else mode
        if not isinstance(policy, Routing):
            own = MODES if allocator is None else allocator.modes
            per_mode = (
                isinstance(policy, Price) if allocator is None else allocator.per_mode
            )
            policy = Routing(
                policy, tuple(modes or own), per_mode=per_mode, reset=reset
            )
        elif modes is not None or not reset:
            raise InputError(
                "A routing has its own modes and reset: leave "
                "these out, or give a policy."
            )
        self.routing = policy
        if allocator is not None:
            self._check(allocator)
        self._route: Route = self.routing.start()
        self.begin()

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        alpha: float,
        *,
        policy: str | StreamRule | Price = "frozen threshold",
        parameter: float | None = None,
        modes: Sequence[str] | None = None,
        costs: Mapping[str, float] | None = None,
        reset: bool = True,
        about: Mapping[str, Any] | None = None,
    ) -> "Router":
        """A router for scores of any kind that escalates the share `alpha` of its
        calibration scores.

        `deepval threshold` also replays each policy on the calibration units, chooses
        among them and predicts the rate on new units; `Router.load` reads its file.

        Args:
            scores: Scores of validation inputs from units outside the fit: one per
                input, or one for every mode above cheap (columns).
            alpha: Share of inputs to escalate; with costs, share of the cost of the
                full mode on every input.
            policy: "frozen threshold"; "causal cap" and "token bucket", which escalate
                less than `alpha` if the scores above the threshold come in bursts;
                "adaptive threshold"; or your own policy.
            parameter: Step of an adaptive threshold; size of a token bucket, unlimited
                if None.
            modes: Names of the modes to return, cheap first; "cheap" and "full" for one
                score per input.
            costs: Cost of each mode above cheap, for scores per mode: a price then
                decides.
            reset: Whether inputs come in units and `begin()` starts each; if not, all
                inputs are one stream.
            about: Facts to store in its file.
        """
        settings: dict[str, Any] = {
            "policy": policy,
            "parameter": parameter,
            "modes": modes,
            "costs": costs,
        }
        return cls(
            None, Routing.calibrate(scores, alpha, **settings, reset=reset, about=about)
        )

    @classmethod
    def calibrated(
        cls,
        allocator: Allocator | str | Path,
        validation_scores: Any,
        alpha: float,
        *,
        units: Sequence[str] | None = None,
        mode: CheapMode | None = None,
        modes: Sequence[str] | None = None,
        **settings: Any,
    ) -> "Router":
        """A router of frames that escalates the share `alpha` of the validation scores.

        Args:
            allocator: An allocator, its file, or the name of an untrained signal.
            validation_scores: Scores of validation inputs, one per mode above cheap if
                the allocator has as many: an array, or the result of
                `deepval.deploy.fitting.calibration_scores`. The allocator must not be
                fitted on these units.
            alpha: Share of frames to escalate.
            units: The units of the scores, if these are an array; the allocator must
                not be fitted on any of them.
            mode: How to read the cheap mode's report.
            modes: Names of the modes to return, cheap first; by default the allocator's
                own.
            settings: Policy, parameter and other arguments of `from_scores`.
        """
        scorer = _allocator(allocator)
        _check_units(scorer, validation_scores, units)
        scores = check_scores(getattr(validation_scores, "score", validation_scores))
        if scorer.per_mode and scores.ndim == 1:
            scores = np.repeat(scores[:, None], len(scorer.modes) - 1, axis=1)
        routing = Routing.calibrate(
            scores, alpha, modes=modes or scorer.modes, **settings
        )
        return cls(scorer, routing, mode=mode)

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        allocator: Allocator | str | Path | None = None,
        mode: CheapMode | None = None,
    ) -> "Router":
        """The router in a file; with an allocator (or its file, or a signal's name) it
        takes frames.
        """
        return cls(
            None if allocator is None else _allocator(allocator),
            read_routing(path),
            mode=mode,
        )

    def save(self, path: Path | str) -> None:
        """Write the routing (policy, modes, reset) to a plain JSON file; the allocator
        has its own file.
        """
        write_atomically(file_path(path), file_text(self.routing))

    @property
    def policy(self) -> StreamRule | Price:
        """The rule that decides which scores are escalated."""
        return self.routing.policy

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the modes, cheap first."""
        return self.routing.modes

    def begin(self) -> None:
        """Start a new unit: clear the past frames and, unless all inputs are one
        stream, the escalations so far.
        """
        self._past: Past = Past() if self.allocator is None else self.allocator.past()
        self.score: float = np.nan
        if self.routing.reset:
            self._route = self.routing.start()

    def decide(self, arrived: Any, costs: Mapping[str, float] | None = None) -> str:
        """The mode to run on the next input; sets `score`.

        Args:
            arrived: A frame if there is an allocator, otherwise a score, or scores of
                the modes above cheap.
            costs: Cost of a call of each mode on this input, for a router that was
                calibrated on costs per input.
        """
        if self.allocator is not None:
            arrived = self._score(self.allocator, arrived)
            if np.isnan(arrived if isinstance(arrived, float) else max(arrived)):
                self.score = np.nan
                return self.modes[0]
        mode = self._route.decide(arrived, costs)
        self.score = self._route.score
        return mode

    def _score(self, allocator: Allocator, frame: Frame) -> Any:
        seen: Glance = glance(frame, self._past, mode=self.mode)
        self._past = seen.after
        return allocator.score_frame(seen)

    def _check(self, allocator: Allocator) -> None:
        reason = allocator.undefined(self.mode)
        if reason is not None:
            raise InputError(
                f"{allocator.name} cannot route here: "
                f"{reason}. Choose another allocator."
            )
        if allocator.per_mode != self.routing.per_mode:
            scores = "a score per mode" if allocator.per_mode else "one score"
            raise InputError(
                f"{allocator.name} gives {scores} per frame, and the router takes "
                "another number of them."
            )


def _check_units(
    allocator: Allocator, scores: Any, units: Sequence[str] | None
) -> None:
    """Refuse calibration on units of the allocator's fit; warn if the units are
    unknown.
    """
    if not isinstance(allocator, FittedAllocator):
        return
    fit, fitted_on = getattr(scores, "fit", None), allocator.training.units
    if fit is not None:
        shared = [quantity(int(fit.inside.sum()), "input")] if fit.inside.any() else []
    else:
        shared = (
            sorted(set(checks.texts(units, "units")) & set(fitted_on))
            if units is not None
            else []
        )
    if shared:
        raise InputError(
            f"{allocator.name}: validation scores must be of units that the allocator "
            f"was not fitted on; it was fitted on {', '.join(shared[:5])}. Take "
            "`deepval.deploy.fitting.calibration_scores`, or "
            "fit on training units alone."
        )
    if fit is None and units is None:
        note = (
            f"{allocator.name} was fitted on {quantity(len(fitted_on), 'unit')}, and "
            "the validation scores do not state theirs: name them (units=[...]), or "
            "pass what `deepval.deploy.fitting.calibration_scores` gives."
        )
        warnings.warn(InputWarning(note), stacklevel=3)


def _allocator(source: Allocator | str | Path) -> Allocator:
    if isinstance(source, Allocator):
        return source
    if not isinstance(source, str | Path):
        raise InputError(
            "An allocator must be an allocator object, its file or the name of a "
            f"signal; found {quote(source)}."
        )
    return (
        SIGNALS[source]
        if isinstance(source, str) and source in SIGNALS
        else read_allocator(source)
    )
