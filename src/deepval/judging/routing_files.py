"""A routing <-> the text of its file: plain JSON that a person can read and change; nothing in it is executed."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deepval.errors import InputError, meant
from deepval.files import reading
from deepval.files.canonical import json_content, json_text, plain
from deepval.files.writing import file_path
from deepval.judging.policies import AdaptiveThreshold, CausalCap, FrozenThreshold, Policy, TokenBucket
from deepval.judging.prices import Price
from deepval.judging.routing import Routing

SCHEMA = "deepval/router/1"
LARGEST_BYTES = 64 * 2**20
PARTS = ("schema", "modes", "scores", "reset", "policy", "about")
SCORES = {False: "one", True: "per mode"}
INFINITE = {"inf": math.inf, "-inf": -math.inf}
"""How a file writes what JSON has no number for."""
FIELDS: dict[str, tuple[str, ...]] = {
    "frozen threshold": ("theta", "tie_acceptance"),
    "causal cap": ("alpha", "theta", "tie_acceptance"),
    "adaptive threshold": ("alpha", "eta", "validation_scores"),
    "token bucket": ("alpha", "cap", "theta", "tie_acceptance"),
    "price": ("price", "tie_acceptance", "costs"),
}
"""What a file holds of each policy."""


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
    """The routing in a file; one that is none, of another version or that does not add up is refused in a sentence."""
    source = file_path(path)
    content = json_content(reading.content(source, "a router's file", largest=LARGEST_BYTES), source, "a router's file")
    try:
        return _routing(content)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _routing(content: Any) -> Routing:
    found = content.get("schema") if isinstance(content, Mapping) else type(content).__name__
    if found != SCHEMA:
        raise InputError(f"must be a router of schema {SCHEMA!r}; found {found!r}.")
    _exactly(content, PARTS, "a router's file", optional=("about",))
    modes, scores, reset = content["modes"], content["scores"], content["reset"]
    if (
        not isinstance(modes, list)
        or not all(isinstance(mode, str) for mode in modes)
        or scores not in SCORES.values()
        or not isinstance(reset, bool)
    ):
        raise InputError(
            "modes must be a list of names, scores 'one' or 'per mode' and reset true or false; found "
            f"{modes!r}, {scores!r} and {reset!r}."
        )
    about = content.get("about", {})
    if not isinstance(about, Mapping):
        raise InputError(f"about must hold facts by name; found {about!r}.")
    per_mode = scores == SCORES[True]
    return Routing(_policy(content["policy"]), tuple(modes), per_mode=per_mode, reset=reset, about=about)


def _plain(policy: Policy | Price) -> dict[str, Any]:
    """A policy as a file holds it."""
    match policy:
        case Price():
            name, held = "price", [policy.price, policy.tie_acceptance, list(policy.costs)]
        case FrozenThreshold():
            name, held = "frozen threshold", [policy.theta, policy.tie_acceptance]
        case CausalCap():
            frozen = policy.threshold
            name, held = "causal cap", [policy.alpha, frozen.theta, frozen.tie_acceptance]
        case TokenBucket():
            frozen = policy.threshold
            name, held = "token bucket", [policy.alpha, policy.cap, frozen.theta, frozen.tie_acceptance]
        case AdaptiveThreshold():
            name, held = "adaptive threshold", [policy.alpha, policy.eta, policy.validation_scores.tolist()]
        case _:
            raise InputError(f"A router's file holds one of {', '.join(FIELDS)}; got a {type(policy).__name__}.")
    return {"name": name} | {part: _written(value) for part, value in zip(FIELDS[name], held, strict=True)}


def _policy(content: Any) -> Policy | Price:
    name = content.get("name") if isinstance(content, Mapping) else None
    if not isinstance(name, str) or name not in FIELDS:
        raise InputError(f"a policy's name must be one of {', '.join(FIELDS)}; found {name!r}{meant(name, FIELDS)}")
    _exactly(content, ("name", *FIELDS[name]), f"a {name}")
    listed = ("validation_scores", "costs")
    held = {part: _numbers(content, part) if part in listed else _number(content[part], part) for part in FIELDS[name]}
    makers: dict[str, Callable[..., Policy | Price]] = {
        "frozen threshold": FrozenThreshold,
        "causal cap": lambda alpha, **frozen: CausalCap(FrozenThreshold(**frozen), alpha),
        "token bucket": lambda alpha, cap, **frozen: TokenBucket(cap, FrozenThreshold(**frozen), alpha),
        "adaptive threshold": lambda alpha, eta, validation_scores: AdaptiveThreshold(
            eta, np.array(validation_scores), alpha
        ),
        "price": lambda price, tie_acceptance, costs: Price(price, tie_acceptance, tuple(costs)),
    }
    return makers[name](**held)


def _written(value: Any) -> Any:
    if isinstance(value, list):
        return [_written(each) for each in value]
    return value if math.isfinite(value) else str(value)


def _number(value: Any, part: str) -> float:
    if isinstance(value, str) and value in INFINITE:
        return INFINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{part} must be a number, 'inf' or '-inf'; found {value!r}.")
    return float(value)


def _numbers(content: Mapping[str, Any], part: str) -> list[float]:
    if not isinstance(content[part], list):
        raise InputError(f"{part} must be a list of numbers; found {content[part]!r}.")
    return [_number(value, part) for value in content[part]]


def _exactly(content: Mapping[str, Any], parts: tuple[str, ...], what: str, optional: tuple[str, ...] = ()) -> None:
    """Raise where a mapping lacks a part or has one that is none."""
    strange = next((name for name in content if name not in parts), None)
    if strange is not None:
        raise InputError(f"{what} has {', '.join(parts)}; found {strange!r}{meant(strange, parts)}")
    lacking = [part for part in parts if part not in content and part not in optional]
    if lacking:
        raise InputError(f"{what} has {', '.join(parts)}; there is no {lacking[0]!r}.")
