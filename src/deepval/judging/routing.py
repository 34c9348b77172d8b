"""Scores of validation inputs, a rate and a policy -> the mode to run for each score as
it arrives.

With one score per input, a high score requests the full mode. With one score per mode
(estimates of their gains), the mode of the largest score is requested; if no score is
above 0, none is requested. If modes have costs, a price decides.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from deepval import checks
from deepval.arrays import Float, InputInts, InputNumbers, ModeFloats
from deepval.errors import InputError, quote, suggestion
from deepval.files import reading
from deepval.files.canonical import json_content, json_text, plain
from deepval.files.writing import file_path
from deepval.judging.priced_policies import (
    ConformalHarm,
    DualPrice,
    ReplayThreshold,
    score_scale,
)
from deepval.judging.prices import Price, PriceStream
from deepval.judging.streaming import (
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
        if (
            len(self.modes) < 2
            or not all(self.modes)
            or len(set(self.modes)) < len(self.modes)
        ):
            raise InputError(
                "A router needs different names of two modes "
                f"or more, cheap first; got {self.modes!r}."
            )
        if not isinstance(self.policy, Price):
            return
        costs, number = self.policy.costs, len(self.modes) - 1
        if not self.per_mode or (costs is not None and len(costs) != number):
            raise InputError(
                "A price needs a score and a cost for each mode above cheap, "
                f"{number} of "
                f"{', '.join(self.modes)}; "
                f"got {'one score' if costs is None else f'{len(costs)} costs'}."
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
        names = (
            checks.texts(modes, "modes")
            if modes is not None
            else MODES
            if values.ndim == 1
            else ()
        )
        if values.ndim == 2 and values.shape[1] != len(names) - 1:
            columns = values.shape[1]
            mode_names = (
                f"the modes {', '.join(names)}"
                if names
                else "no names: give modes=[...], cheap first"
            )
            raise InputError(
                "Scores per mode need a column for each mode above cheap; got "
                f"{columns} columns and {mode_names}."
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
        routing = cls(
            policy,
            names,
            per_mode=values.ndim == 2,
            reset=reset,
            about=facts | dict(about or {}),
        )
        own_costs = isinstance(policy, Price) and policy.costs is None
        if (
            "rate" in routing.about
            or own_costs
            or not isinstance(policy, FrozenThreshold | Price)
        ):
            # the rate of other policies depends on units, times or costs, which scores
            # lack
            return routing
        rows = np.arange(len(values))
        rate = float(np.mean(routing.replay(values, np.zeros_like(rows), rows) > 0))
        return replace(routing, about=facts | {"rate": rate} | dict(about or {}))

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
        unit = unit if self.reset else np.zeros_like(unit)
        if isinstance(self.policy, Price):
            return self.policy.decide(scores, unit, order, costs)
        if scores.ndim == 1:
            return np.where(
                self.policy.decide(scores, unit, order) > 0, len(self.modes) - 1, 0
            )
        largest = scores.max(axis=1)
        escalated = (
            self.policy.decide(np.where(largest > 0, largest, -np.inf), unit, order) > 0
        )
        return np.where(escalated, 1 + scores.argmax(axis=1), 0)

    @property
    def policy_name(self) -> str:
        """Name of the policy in a file; the name of the class for a user's own
        policy.
        """
        return NAMES.get(type(self.policy), type(self.policy).__name__)

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
        if costs is not None and (
            not isinstance(routing.policy, Price) or routing.policy.costs is not None
        ):
            raise InputError(
                "This router has no use for the costs of an input: leave them out."
            )
        if not routing.per_mode and not isinstance(self.stream, PriceStream):
            self.score = _single_score(score)
            return routing.modes[-1 if self.stream.decide(self.score) else 0]
        estimates = _mode_scores(score, len(routing.modes) - 1)
        self.score = max(estimates)
        if isinstance(self.stream, PriceStream):
            own = (
                _own_costs(costs, routing.modes, self.stream.price)
                if self.stream.price.costs is None
                else None
            )
            return routing.modes[self.stream.decide(estimates, own)]
        asked = self.stream.decide(self.score if self.score > 0 else -math.inf)
        return routing.modes[1 + estimates.index(self.score) if asked else 0]


def _own_costs(
    costs: Mapping[str, float] | None, modes: Sequence[str], price: Price
) -> list[float]:
    """Cost of each mode above cheap on an input, on top of the cheap one."""
    try:
        saved = float(costs[modes[0]]) if price.skipping and costs is not None else 0.0
        own = (
            [float(costs[mode]) - saved for mode in modes[1:]]
            if costs is not None
            else []
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        own = []
    if not own or not all(map(math.isfinite, own)):
        needed = modes if price.skipping else modes[1:]
        raise InputError(
            f"This router needs the cost of {', '.join(needed)} on every input, "
            f"decide(scores, costs={{...}}); got {quote(costs)}."
        )
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
    return Price.calibrate(scores, mode_costs, _share(alpha) * mode_costs[-1])


SETTABLE = ("adaptive threshold", "token bucket", "dual price")
"""Policies with a parameter."""


def _named_policy(
    name: str,
    scores: Float[np.ndarray, "input *mode"],
    alpha: float,
    parameter: float | None,
) -> StreamRule:
    makers = POLICIES
    if _with_spaces(name) not in makers:
        raise InputError(
            "A policy "
            "must "
            f"be one of {', '.join(makers)}; got {name!r}{suggestion(name, makers)}"
        )
    if parameter is not None and _with_spaces(name) not in SETTABLE:
        raise InputError(
            f"A {_with_spaces(name)} has no parameter "
            f"to set; got {quote(parameter)}: leave it out."
        )
    asking = scores.max(axis=1) if scores.ndim == 2 else scores
    frozen = FrozenThreshold.calibrate(asking, _share(alpha))
    if scores.ndim == 2 and frozen.theta <= 0:
        frozen = FrozenThreshold(0.0, 0.0)  # an estimate up to 0 requests no escalation
    return makers[_with_spaces(name)](frozen, asking, alpha, parameter)


def _adaptive(
    _: FrozenThreshold, scores: np.ndarray, alpha: float, parameter: float | None
) -> StreamRule:
    if parameter is None:
        raise InputError(
            "An adaptive threshold needs its step: parameter=0.02, "
            "or what `evaluate` tuned."
        )
    return AdaptiveThreshold(parameter, scores, alpha)


def _by_losses(*_: Any) -> StreamRule:
    raise InputError(
        "This policy is calibrated by losses, not by scores alone: calibrate it with "
        "`deepval threshold`."
    )


NAMES: dict[type, str] = {
    FrozenThreshold: "frozen threshold",
    CausalCap: "causal cap",
    AdaptiveThreshold: "adaptive threshold",
    TokenBucket: "token bucket",
    DualPrice: "dual price",
    ReplayThreshold: "replay threshold",
    ConformalHarm: "conformal harm",
    Price: "price",
}
"""Policies by class."""
POLICIES: dict[
    str, Callable[[FrozenThreshold, np.ndarray, float, float | None], StreamRule]
] = {
    "frozen threshold": lambda frozen, _scores, _alpha, _parameter: frozen,
    "causal cap": lambda frozen, _scores, alpha, _parameter: CausalCap(frozen, alpha),
    "adaptive threshold": _adaptive,
    "token bucket": lambda frozen, _, alpha, size: TokenBucket(
        math.inf if size is None else size, frozen, alpha
    ),
    "dual price": lambda frozen, scores, alpha, eta: DualPrice(
        frozen.theta, score_scale(scores), alpha, eta or 0.1
    ),
    "replay threshold": _by_losses,
    "conformal harm": _by_losses,
}
"""Policies by name: functions of a calibrated threshold, the validation scores, the
rate and a parameter.
"""


def _with_spaces(name: str) -> str:
    return name.replace("-", " ")


def _share(alpha: Any) -> float:
    if (
        isinstance(alpha, bool)
        or not isinstance(alpha, int | float | np.number)
        or not 0 < alpha <= 1
    ):
        raise InputError(
            f"alpha must lie in (0, 1], got {quote(alpha)}: pass "
            "the share of inputs to escalate."
        )
    return float(alpha)


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
SCORES = {False: "one", True: "per mode"}
INFINITE = {"inf": math.inf, "-inf": -math.inf}
"""How a file writes infinite values, for which JSON has no number."""
FIELDS: dict[str, tuple[str, ...]] = {
    "frozen threshold": ("theta", "tie_acceptance"),
    "causal cap": ("alpha", "theta", "tie_acceptance"),
    "adaptive threshold": ("alpha", "eta", "validation_scores"),
    "token bucket": ("alpha", "cap", "theta", "tie_acceptance"),
    "dual price": ("alpha", "eta", "theta", "scale"),
    "replay threshold": ("alpha", "theta", "tie_acceptance"),
    "conformal harm": ("theta", "tie_acceptance"),
    "price": ("price", "tie_acceptance", "costs"),
    "price per input": ("price", "tie_acceptance", "skipping"),
}
"""Fields of each policy in a file."""


def file_text(routing: Routing) -> str:
    """The text of a routing's file, the same for the same routing."""
    content = {
        "schema": SCHEMA,
        "modes": list(routing.modes),
        "scores": SCORES[routing.per_mode],
        "reset": routing.reset,
        "policy": _plain(routing.policy),
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
    schema = (
        content.get("schema")
        if isinstance(content, Mapping)
        else type(content).__name__
    )
    if schema != SCHEMA:
        raise InputError(f"must be a router of schema {SCHEMA!r}; found {schema!r}.")
    _exactly(content, PARTS, "a router's file", optional=("about",))
    modes, scores, reset = content["modes"], content["scores"], content["reset"]
    if (
        not isinstance(modes, list)
        or not all(isinstance(mode, str) for mode in modes)
        or scores not in SCORES.values()
        or not isinstance(reset, bool)
    ):
        raise InputError(
            "modes must be a list of names, scores 'one' or 'per mode' and reset true "
            f"or false; found {modes!r}, {scores!r} and {reset!r}."
        )
    about = content.get("about", {})
    if not isinstance(about, Mapping):
        raise InputError(f"about must hold facts by name; found {about!r}.")
    per_mode = scores == SCORES[True]
    return Routing(
        _policy(content["policy"]),
        tuple(modes),
        per_mode=per_mode,
        reset=reset,
        about=about,
    )


def _plain(policy: StreamRule | Price) -> dict[str, Any]:
    """A policy as written to a file."""
    name = NAMES.get(type(policy), "")
    name = (
        "price per input"
        if isinstance(policy, Price) and policy.costs is None
        else name
    )
    if not name:
        raise InputError(
            "A router's file "
            f"holds one of {', '.join(FIELDS)}; got a {type(policy).__name__}."
        )
    inside = vars(policy) | vars(vars(policy).get("threshold", policy))
    return {"name": name} | {part: _written(inside[part]) for part in FIELDS[name]}


def _policy(content: Any) -> StreamRule | Price:
    name = content.get("name") if isinstance(content, Mapping) else None
    if not isinstance(name, str) or name not in FIELDS:
        raise InputError(
            "a policy's name must "
            f"be one of {', '.join(FIELDS)}; found {name!r}{suggestion(name, FIELDS)}"
        )
    _exactly(content, ("name", *FIELDS[name]), f"a {name}")
    read = {"validation_scores": _numbers, "costs": _numbers, "skipping": _flag}
    values: dict[str, Any] = {
        part: read.get(part, _number)(content[part], part) for part in FIELDS[name]
    }
    kind = next((kind for kind, of in NAMES.items() if of == name), Price)
    if kind in (CausalCap, ReplayThreshold, TokenBucket):
        values["threshold"] = FrozenThreshold(
            values.pop("theta"), values.pop("tie_acceptance")
        )
    if kind is Price:
        values["costs"] = tuple(values["costs"]) if "costs" in values else None
    if "validation_scores" in values:
        values["validation_scores"] = np.array(values["validation_scores"])
    return kind(**values)


def _written(value: Any) -> Any:
    if isinstance(value, tuple | np.ndarray):
        return [_written(item) for item in np.asarray(value).tolist()]
    return value if math.isfinite(value) else str(value)


def _number(value: Any, part: str) -> float:
    if isinstance(value, str) and value in INFINITE:
        return INFINITE[value]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
    ):
        raise InputError(f"{part} must be a number, 'inf' or '-inf'; found {value!r}.")
    return float(value)


def _numbers(values: Any, part: str) -> list[float]:
    if not isinstance(values, list):
        raise InputError(f"{part} must be a list of numbers; found {values!r}.")
    return [_number(value, part) for value in values]


def _flag(value: Any, part: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{part} must be true or false; found {value!r}.")
    return value


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
