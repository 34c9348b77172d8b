"""Plain data -> the same with one place of it changed: what a damaged or invented file may hold."""

import copy
import random
from typing import Any

DEEPER = 0.85
"""Chance of every further step."""
INSTEAD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    3,
    0.5,
    -1e300,
    10**30,
    "",
    "x",
    "</script>",
    [],
    [0],
    {},
    {"a": 1},
    [[]],
    "random",
)


def keys(content: Any) -> list[Any]:
    """The keys or places of what has some."""
    return (
        list(content) if isinstance(content, dict) else list(range(len(content))) if isinstance(content, list) else []
    )


def way(content: Any, rng: random.Random) -> list[Any]:
    """A way to some place in plain data; every step is as likely as the others beside it."""
    found: list[Any] = []
    while keys(content) and (not found or rng.random() < DEEPER):
        found.append(rng.choice(keys(content)))
        content = content[found[-1]]
    return found


def at(content: Any, steps: list[Any]) -> Any:
    """What is there."""
    for key in steps:
        content = content[key]
    return content


def mutated(content: Any, rng: random.Random) -> tuple[Any, str]:
    """A copy with one change, and what was done."""
    made, steps = copy.deepcopy(content), way(content, rng)
    holder, last = at(made, steps[:-1]), steps[-1]
    kind = rng.choice(("instead", "instead", "gone", "twice", "more", "moved"))
    if kind == "gone":
        del holder[last]
    elif kind == "twice" and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif kind == "more" and isinstance(holder, dict):
        holder[rng.choice(("unknown", "__class__", ""))] = rng.choice(INSTEAD)
    elif kind == "moved":
        holder[last] = copy.deepcopy(at(content, way(content, rng)))
    else:
        holder[last] = rng.choice(INSTEAD)
    return made, f"{kind} at {'.'.join(map(str, steps))}"
