"""Scores of validation inputs, a rate and a policy -> the mode to run for each score as
it arrives.

With one score per input, a high score requests the full mode. With one score per mode
(estimates of their gains), the mode of the largest score is requested; if no score is
above 0, none is requested. If modes have costs, a price decides.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics import checks
from deepval.basics.arrays import Float, InputInts, InputNumbers, ModeFloats
from deepval.basics.errors import InputError, quote, suggestion
from deepval.basics.files import reading
from deepval.basics.files.canonical import json_content, json_text, plain
from deepval.basics.files.writing import file_path
from deepval.judge.priced_policies import (
    ConformalHarm,
    DualPrice,
    ReplayThreshold,
    score_scale,
)
from deepval.judge.prices import Price, PriceStream
from deepval.judge.streaming import (
    AdaptiveThreshold,
    CausalCap,
    FrozenThreshold,
    StreamRule,
    TokenBucket,
    UnitStream,
)

MODES = ("cheap", "full")
"""Names of two modes without names of their own."""


@dataclass(frozen=True, eq=False)
class Routing:
    """How scores become modes.

    Attributes:
        policy: Decides which scores are high enough; a price if modes have costs.
        modes: Names of the modes, cheap first and full last.
        per_mode: Whether every input has a score per mode above cheap.
        reset: Whether the policy starts again at each unit; if not, all inputs are one
            stream.
        about: Facts about the calibration; they affect no decision.
    """

    policy: StreamRule | Price
    modes: tuple[str, ...] = MODES
    per_mode: bool = False
    reset: bool = True
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        modes = self.modes
        if len(modes) < 2 or not all(modes) or len(set(modes)) < len(modes):
            raise InputError(
                "A router needs different names of two modes "
                f"or more, cheap first; got {modes!r}."
            )
        if not isinstance(self.policy, Price):
            return
        number = len(modes) - 1
        costs = self.policy.costs
        if not self.per_mode or (costs is not None and len(costs) != number):
            found = "one score"
            if costs is not None:
                found = f"{len(costs)} costs"
            raise InputError(
                "A price needs a score and a cost for each mode above cheap, "
                f"{number} of {', '.join(modes)}; got {found}."
            )

    @classmethod
    def calibrate(
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
    ) -> "Routing":
        """The routing that escalates a share alpha of validation inputs; see
        `deepval.Router.from_scores`.
        """
        values = check_scores(scores)
        reset = checks.flag(reset, "reset")
        if costs is not None and not isinstance(costs, Mapping):
            raise InputError(
                f"costs must be a mapping from modes to numbers; found {quote(costs)}."
            )
        if about is not None and not isinstance(about, Mapping):
            raise InputError(
                f"about must be a mapping of plain facts; found {quote(about)}."
            )
        if not isinstance(policy, str | Price) and not callable(
            getattr(policy, "start", None)
        ):
            raise InputError(
                "A policy must be named by text, or be one "
                f"of policies; found {quote(policy)}."
            )
        names: tuple[str, ...] = ()
        if modes is not None:
            names = checks.texts(modes, "modes")
        elif values.ndim == 1:
            names = MODES
        if values.ndim == 2 and values.shape[1] != len(names) - 1:
            found = "no names: give modes=[...], cheap first"
            if names:
                found = f"the modes {', '.join(names)}"
            raise InputError(
                "Scores per mode need a column for each mode above cheap; got "
                f"{values.shape[1]} columns and {found}."
            )
        if isinstance(policy, str):
            if costs:
                policy = _price(values, alpha, policy, names, costs)
            else:
                policy = _named_policy(policy, values, alpha, parameter)
        facts: dict[str, Any] = {
            "alpha": float(alpha),
            "calibration_inputs": len(values),
        }
        about = dict(about or {})
        per_mode = values.ndim == 2
        routing = cls(
            policy, names, per_mode=per_mode, reset=reset, about=facts | about
        )
        # Scores lack units, times and costs, on which the rate of others depends.
        has_rate = isinstance(policy, FrozenThreshold)
        if isinstance(policy, Price):
            has_rate = policy.costs is not None
        if not has_rate or "rate" in about:
            return routing
        rows = np.arange(len(values))
        rate = float(np.mean(routing.replay(values, np.zeros_like(rows), rows) > 0))
        return replace(routing, about=facts | {"rate": rate} | about)

    def replay(
        self,
        scores: Float[np.ndarray, "input *mode"],
        unit: InputInts,
        order: InputNumbers,
        costs: ModeFloats | None = None,
    ) -> InputInts:
        """The index of the mode that a router chooses for each input, when inputs
        arrive in time order.

        Args:
            scores: The scores of the inputs.
            unit: Their units.
            order: Their times.
            costs: What the modes above cheap cost on each input, for a price without
                costs of its own.
        """
        if not self.reset:
            unit = np.zeros_like(unit)
        if isinstance(self.policy, Price):
            return self.policy.decide(scores, unit, order, costs)
        if scores.ndim == 1:
            is_escalated = self.policy.decide(scores, unit, order) > 0
            return np.where(is_escalated, len(self.modes) - 1, 0)
        largest = scores.max(axis=1)
        # No mode is worth more than the cheap one: nothing is requested.
        requests = np.where(largest > 0, largest, -np.inf)
        is_escalated = self.policy.decide(requests, unit, order) > 0
        return np.where(is_escalated, 1 + scores.argmax(axis=1), 0)

    @property
    def policy_name(self) -> str:
        """Name of the policy in a file; the name of the class for a user's own
        policy.
        """
        kind = type(self.policy)
        for name, form in FORMS.items():
            if form.kind is kind:
                return name
        return kind.__name__

    def start(self) -> "Route":
        """A new stream."""
        return Route(self, self.policy.start())


@dataclass
class Route:
    """Decides input by input; `score` is the last score that a decision used."""

    routing: Routing
    stream: UnitStream | PriceStream
    score: float = math.nan

    def decide(self, score: Any, costs: Mapping[str, float] | None = None) -> str:
        """The mode of the next input, from its score or from its scores per mode, and
        its costs if it has its own.
        """
        routing = self.routing
        stream = self.stream
        modes = routing.modes
        needs_costs = isinstance(stream, PriceStream) and stream.price.costs is None
        if costs is not None and not needs_costs:
            raise InputError(
                "This router has no use for the costs of an input: leave them out."
            )
        if isinstance(stream, PriceStream):
            estimates = _mode_scores(score, len(modes) - 1)
            self.score = max(estimates)
            own = None
            if needs_costs:
                own = _own_costs(costs, modes, stream.price)
            return modes[stream.decide(estimates, own)]
        if not routing.per_mode:
            self.score = _single_score(score)
            return modes[-1] if stream.decide(self.score) else modes[0]
        estimates = _mode_scores(score, len(modes) - 1)
        self.score = max(estimates)
        # No mode is worth more than the cheap one: nothing is requested.
        request = self.score if self.score > 0 else -math.inf
        if not stream.decide(request):
            return modes[0]
        return modes[1 + estimates.index(self.score)]


def _own_costs(
    costs: Mapping[str, float] | None, modes: Sequence[str], price: Price
) -> list[float]:
    """Cost of each mode above cheap on an input, on top of the cheap one."""
    needed = modes if price.skipping else modes[1:]
    try:
        own = [float((costs or {})[mode]) for mode in needed]
    except (KeyError, TypeError, ValueError, OverflowError):
        own = []
    if not own or not all(map(math.isfinite, own)):
        raise InputError(
            f"This router needs the cost of {', '.join(needed)} on every input, "
            f"decide(scores, costs={{...}}); got {quote(costs)}."
        )
    if price.skipping:
        return [cost - own[0] for cost in own[1:]]
    return own


def _price(
    scores: Float[np.ndarray, "input *mode"],
    alpha: float,
    policy: str,
    modes: tuple[str, ...],
    costs: Mapping[str, float],
) -> Price:
    if scores.ndim != 2 or not set(modes[1:]) <= set(costs):
        raise InputError(
            f"Costs are for scores per mode, one for each of {', '.join(modes[1:])}; "
            f"got costs of {quote(list(costs))} and scores of shape {scores.shape}."
        )
    if _with_spaces(policy) not in ("frozen threshold", "causal cap"):
        raise InputError(
            "With costs a router keeps a price, and has "
            f"no {policy!r}: leave policy or costs out."
        )
    mode_costs = [float(costs[mode]) for mode in modes[1:]]
    return Price.calibrate(
        scores, mode_costs, checks.share_of_inputs(alpha) * mode_costs[-1]
    )


def _named_policy(
    name: str,
    scores: Float[np.ndarray, "input *mode"],
    alpha: float,
    parameter: float | None,
) -> StreamRule:
    plain = _with_spaces(name)
    if plain not in NAMED:
        raise InputError(
            f"A policy must be one of {', '.join(NAMED)}; got "
            f"{name!r}{suggestion(name, NAMED)}"
        )
    if parameter is not None and plain not in SETTABLE:
        raise InputError(
            f"A {plain} has no parameter to set; got {quote(parameter)}: leave it out."
        )
    # A token bucket may be endless.
    if parameter is not None and parameter != math.inf:
        parameter = checks.number(parameter, "parameter")
    asking = scores
    if scores.ndim == 2:
        asking = scores.max(axis=1)
    frozen = FrozenThreshold.calibrate(asking, checks.share_of_inputs(alpha))
    if scores.ndim == 2 and frozen.theta <= 0:
        frozen = FrozenThreshold(0.0, 0.0)  # an estimate up to 0 requests no escalation
    match plain:
        case "frozen threshold":
            return frozen
        case "causal cap":
            return CausalCap(frozen, alpha)
        case "token bucket":
            return TokenBucket(
                math.inf if parameter is None else parameter, frozen, alpha
            )
        case "dual price":
            step = 0.1 if parameter is None else parameter
            return DualPrice(frozen.theta, score_scale(asking), alpha, step)
        case "adaptive threshold":
            if parameter is None:
                raise InputError(
                    "An adaptive threshold needs its step: parameter=0.02, "
                    "or what `evaluate` tuned."
                )
            return AdaptiveThreshold(parameter, asking, alpha)
    raise InputError(
        "This policy is calibrated by losses, not by scores alone: calibrate it with "
        "`deepval threshold`."
    )


def _with_spaces(name: str) -> str:
    return name.replace("-", " ")


def check_scores(scores: Any) -> Float[np.ndarray, "input *mode"]:
    """Validation scores as numbers: one per input, or one per input and mode."""
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            "Validation scores must be numbers, one per input or "
            f"per input and mode; {error}."
        ) from error
    if values.ndim not in (1, 2) or not values.size:
        raise InputError(
            "Validation scores must be one per input or per input "
            f"and mode; got shape {values.shape}."
        )
    bad = np.isnan(values) if values.ndim == 1 else ~np.isfinite(values)
    if bad.any():
        row = int(np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))[0])
        rule = "not be NaN" if values.ndim == 1 else "be finite, one per mode"
        raise InputError(
            f"Validation scores must {rule}; row {row} is {values[row].tolist()}."
        )
    return values


def _single_score(score: Any) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"This router takes one score per input, a number; got {quote(score)}."
        ) from error
    if math.isnan(value):
        raise InputError("Scores must not be NaN, got one: give every input a score.")
    return value


def _mode_scores(score: Any, number: int) -> list[float]:
    try:
        values = [float(value) for value in score]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"This router takes {number} scores per input, "
            f"one per mode; got {quote(score)}."
        ) from error
    if len(values) != number or not all(value < math.inf for value in values):
        raise InputError(
            f"This router takes {number} scores per input, numbers "
            f"below inf; got {quote(values)}."
        )
    return values


SCHEMA = "deepval/router/1"
LARGEST_BYTES = 64 * 2**20
PARTS = ("schema", "modes", "scores", "reset", "policy", "about")
ONE = "one"
PER_MODE = "per mode"
INFINITE = {"inf": math.inf, "-inf": -math.inf}
"""How a file writes infinite values, for which JSON has no number."""


class Form(NamedTuple):
    """A policy in a file: its class and its fields."""

    kind: type
    fields: tuple[str, ...]


CUT = ("theta", "tie_acceptance")
FORMS = {
    "frozen threshold": Form(FrozenThreshold, CUT),
    "causal cap": Form(CausalCap, ("alpha", *CUT)),
    "adaptive threshold": Form(
        AdaptiveThreshold, ("alpha", "eta", "validation_scores")
    ),
    "token bucket": Form(TokenBucket, ("alpha", "cap", *CUT)),
    "dual price": Form(DualPrice, ("alpha", "eta", "theta", "scale")),
    "replay threshold": Form(ReplayThreshold, ("alpha", *CUT)),
    "conformal harm": Form(ConformalHarm, CUT),
    "price": Form(Price, ("price", "tie_acceptance", "costs")),
    "price per input": Form(Price, ("price", "tie_acceptance", "skipping")),
}
"""Policies by the name in a file."""
NAMED = tuple(name for name, form in FORMS.items() if form.kind is not Price)
"""Policies that a user can name; costs or a budget lead to a price."""
SETTABLE = ("adaptive threshold", "token bucket", "dual price")
"""Policies with a parameter."""


def file_text(routing: Routing) -> str:
    """The text of a routing's file, the same for the same routing."""
    content = {
        "schema": SCHEMA,
        "modes": list(routing.modes),
        "scores": PER_MODE if routing.per_mode else ONE,
        "reset": routing.reset,
        "policy": _plain(routing),
        "about": plain(routing.about),
    }
    return json_text(content)


def read_routing(path: Path | str) -> Routing:
    """The routing in a file.

    A file of another kind or version, or with inconsistent content, raises InputError.
    """
    source = file_path(path)
    content = json_content(
        reading.content(source, "a router's file", largest=LARGEST_BYTES),
        source,
        "a router's file",
    )
    try:
        return _routing(content)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _routing(content: Any) -> Routing:
    schema = type(content).__name__
    if isinstance(content, Mapping):
        schema = content.get("schema")
    if schema != SCHEMA:
        raise InputError(f"must be a router of schema {SCHEMA!r}; found {schema!r}.")
    _exactly(content, PARTS, "a router's file", optional=("about",))
    modes = content["modes"]
    scores = content["scores"]
    reset = content["reset"]
    are_names = isinstance(modes, list) and all(isinstance(it, str) for it in modes)
    if not are_names or scores not in (ONE, PER_MODE) or not isinstance(reset, bool):
        raise InputError(
            "modes must be a list of names, scores 'one' or 'per mode' and reset true "
            f"or false; found {modes!r}, {scores!r} and {reset!r}."
        )
    about = content.get("about", {})
    if not isinstance(about, Mapping):
        raise InputError(f"about must hold facts by name; found {about!r}.")
    return Routing(
        _policy(content["policy"]),
        tuple(modes),
        per_mode=scores == PER_MODE,
        reset=reset,
        about=about,
    )


def _plain(routing: Routing) -> dict[str, Any]:
    """A policy as written to a file."""
    policy = routing.policy
    name = routing.policy_name
    if isinstance(policy, Price) and policy.costs is None:
        name = "price per input"
    if name not in FORMS:
        raise InputError(
            f"A router's file holds one of {', '.join(FORMS)}; got a {name}."
        )
    inside = vars(policy) | vars(vars(policy).get("threshold", policy))
    parts = {part: _written(inside[part]) for part in FORMS[name].fields}
    return {"name": name} | parts


def _policy(content: Any) -> StreamRule | Price:
    name = content.get("name") if isinstance(content, Mapping) else None
    if not isinstance(name, str) or name not in FORMS:
        raise InputError(
            f"a policy's name must be one of {', '.join(FORMS)}; found "
            f"{name!r}{suggestion(name, FORMS)}"
        )
    kind, fields = FORMS[name]
    _exactly(content, ("name", *fields), f"a {name}")
    values: dict[str, Any] = {part: _read(content[part], part) for part in fields}
    if kind in (CausalCap, ReplayThreshold, TokenBucket):
        cut = [values.pop(part) for part in CUT]
        values["threshold"] = FrozenThreshold(*cut)
    if kind is AdaptiveThreshold:
        values["validation_scores"] = np.array(values["validation_scores"])
    if kind is Price:
        values.setdefault("costs", None)
    return kind(**values)


def _written(value: Any) -> Any:
    if isinstance(value, tuple | np.ndarray):
        return [_written(item) for item in np.asarray(value).tolist()]
    return value if math.isfinite(value) else str(value)


def _read(value: Any, part: str) -> Any:
    """A field of a policy: numbers, true or false, or a number."""
    if part in ("validation_scores", "costs"):
        if not isinstance(value, list):
            raise InputError(f"{part} must be a list of numbers; found {value!r}.")
        return tuple(_number(item, part) for item in value)
    if part == "skipping":
        return checks.flag(value, part)
    return _number(value, part)


def _number(value: Any, part: str) -> float:
    if isinstance(value, str) and value in INFINITE:
        return INFINITE[value]
    try:
        return checks.number(value, part)
    except InputError:
        raise InputError(
            f"{part} must be a number, 'inf' or '-inf'; found {quote(value)}."
        ) from None


def _exactly(
    content: Mapping[str, Any],
    parts: tuple[str, ...],
    what: str,
    optional: tuple[str, ...] = (),
) -> None:
    """Raise where a mapping lacks a part or has an unknown one."""
    strange = next((name for name in content if name not in parts), None)
    if strange is not None:
        raise InputError(
            f"{what} has "
            f"{', '.join(parts)}; found {strange!r}{suggestion(strange, parts)}"
        )
    lacking = [part for part in parts if part not in content and part not in optional]
    if lacking:
        raise InputError(f"{what} has {', '.join(parts)}; there is no {lacking[0]!r}.")
