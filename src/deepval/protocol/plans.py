"""A TOML file of comparisons -> a plan with a hash, its registration in a log beside
the file, and its outcomes.

The log has one line per registered plan: the plan itself, its SHA-256, how often the
test units of its cells had been opened by then, and the SHA-256 of all lines before it,
so that a changed or removed line is detected. The log contains no times. To prove a
date, commit the log or send the hash to a third party.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deepval.checks import share_of_inputs
from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import (
    digest_of,
    json_canonical,
    json_content,
    plain,
    read_toml,
    sha256,
)
from deepval.files.writing import append_line, lock
from deepval.judging.comparison import STATISTICS
from deepval.results import KINDS, BudgetKey

DIRECTIONS = {
    "better": ("better",),
    "worse": ("worse",),
    "different": ("better", "worse"),
}
"""The directions that a plan may expect, and the verdicts that confirm each."""
NEEDED, OPTIONAL = (
    ("candidate", "baseline", "cells", "alphas"),
    ("budget", "of", "direction"),
)


@dataclass(frozen=True)
class Planned:
    """One comparison that is declared before it is carried out.

    Attributes:
        candidate: The allocator under test, with @POLICY under a causal policy.
        baseline: The allocator to compare with; random for the verdicts of `evaluate`.
        cells: Ids of the cells, sorted; several cells are compared by their mean.
        alphas: Budgets as shares.
        budget: selection, latency, energy or money.
        of: The compared quantity: gain, benefit or harm.
        direction: The expected direction: better, worse or different.
    """

    candidate: str
    baseline: str
    cells: tuple[str, ...]
    alphas: tuple[float, ...]
    budget: str = "selection"
    of: str = "gain"
    direction: str = "better"


@dataclass(frozen=True)
class Made:
    """One comparison that was carried out, with its verdict."""

    candidate: str
    baseline: str
    cells: tuple[str, ...]
    budget: BudgetKey
    of: str
    verdict: str | None


@dataclass(frozen=True)
class PlannedOutcome:
    """A planned comparison at one budget: its verdict and whether it is as expected;
    None if not carried out.
    """

    planned: Planned
    alpha: float
    verdict: str | None
    as_expected: bool | None


@dataclass(frozen=True)
class Registration:
    """A line of the log.

    Attributes:
        plan: SHA-256 of the plan.
        opened: Per cell, how often its test units had been judged by then; None if its
            folder was not named.
    """

    plan: str
    opened: Mapping[str, int | None]


@dataclass(frozen=True)
class ComparisonPlan:
    """Comparisons that are declared together in one file."""

    comparisons: tuple[Planned, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the declared comparisons; the layout of the file does not
        matter.
        """
        return digest_of(plain([asdict(item) for item in self.comparisons]))

    @property
    def cells(self) -> tuple[str, ...]:
        """Ids of all cells that the plan names."""
        return tuple(sorted({cell for item in self.comparisons for cell in item.cells}))

    def outcomes(self, actual: Sequence[Made]) -> list[PlannedOutcome]:
        """The outcome of each planned comparison, given the comparisons that were
        carried out.
        """
        return [
            _outcome(item, alpha, actual)
            for item in self.comparisons
            for alpha in item.alphas
        ]

    def unplanned(self, actual: Iterable[Made]) -> list[Made]:
        """Comparisons that were carried out and are not in the plan."""
        return [
            m
            for m in actual
            if not any(
                _matches(item, a, m) for item in self.comparisons for a in item.alphas
            )
        ]


def _outcome(item: Planned, alpha: float, actual: Sequence[Made]) -> PlannedOutcome:
    match = next((m for m in actual if _matches(item, alpha, m)), None)
    if match is None:
        return PlannedOutcome(item, alpha, None, None)
    return PlannedOutcome(
        item, alpha, match.verdict, match.verdict in DIRECTIONS[item.direction]
    )


def _matches(item: Planned, alpha: float, actual: Made) -> bool:
    same = all(
        getattr(item, name) == getattr(actual, name)
        for name in ("candidate", "baseline", "cells", "of")
    )
    return same and actual.budget.holds(kind=item.budget, alpha=alpha)


def read_plan(path: Path) -> ComparisonPlan:
    """The plan in a TOML file: tables [[comparison]]."""
    content = read_toml(path)
    listed = content.pop("comparison", None)
    if content or not isinstance(listed, list) or not listed:
        problem = ", ".join(content) or "no [[comparison]]"
        raise InputError(
            f"{path}: a plan must be tables [[comparison]] and "
            f"nothing else; found {problem}."
        )
    return ComparisonPlan(
        tuple(
            _planned(item, f"{path}: comparison {i}")
            for i, item in enumerate(listed, 1)
        )
    )


def _planned(item: Any, where: str) -> Planned:
    unknown = (
        sorted(set(item) - {*NEEDED, *OPTIONAL})
        if isinstance(item, dict)
        else ["no table"]
    )
    missing = [] if unknown else [key for key in NEEDED if key not in item]
    if unknown or missing:
        problem = (
            f"{unknown[0]!r} is none of them"
            if unknown
            else f"{missing[0]!r} is missing"
        )
        raise InputError(
            f"{where}: must "
            f"have {', '.join(NEEDED)} and may have {', '.join(OPTIONAL)}; {problem}."
        )
    for key, allowed in (
        ("budget", KINDS),
        ("of", STATISTICS),
        ("direction", tuple(DIRECTIONS)),
    ):
        if key in item and item[key] not in allowed:
            raise InputError(
                f"{where}: {key} must "
                f"be one of {', '.join(allowed)}; found {item[key]!r}."
            )
    for key in ("cells", "alphas"):
        if not isinstance(item[key], list) or not item[key]:
            raise InputError(
                f"{where}: {key} must be a list that is not empty; found {item[key]!r}."
            )
    if not all(
        isinstance(text, str) and text
        for text in (item["candidate"], item["baseline"], *item["cells"])
    ):
        raise InputError(
            f"{where}: candidate, baseline and cells must be names; found {item!r}."
        )
    cells = tuple(sorted(set(item["cells"])))
    alphas = tuple(sorted({share_of_inputs(alpha) for alpha in item["alphas"]}))
    return Planned(**{**item, "cells": cells, "alphas": alphas})


def log_path(plan: Path) -> Path:
    """The log of a plan's registrations: plan.registered.jsonl beside plan.toml."""
    return plan.with_suffix(".registered.jsonl")


def registrations(plan: Path) -> list[Registration]:
    """The registrations in a plan's log; an error if a line was altered."""
    path = log_path(plan)
    data = reading.content(path) if reading.exists(path) else b""
    entries, before = [], b""
    for line in data.splitlines(keepends=True):
        try:
            content = json_content(
                line, path, "a log that `deepval compare --register` wrote"
            )
            whole = content["before"] == sha256(before) and content[
                "registered"
            ] == digest_of(content["plan"])
            entries.append(Registration(content["registered"], dict(content["opened"])))
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{path}: must be a log that `deepval compare --register` "
                f"wrote; line {len(entries) + 1} is none."
            ) from error
        if not whole:
            raise InputError(
                f"{path}: must be as `deepval compare --register` wrote it; line "
                f"{len(entries)} was altered."
            )
        before += line
    return entries


def register(path: Path, opened: Mapping[str, int | None]) -> Registration:
    """Append a plan to the log beside it; a plan that is in the log keeps its first
    registration.
    """
    plan = read_plan(path)
    with lock(
        reading.resolve(path).parent,
        f"{path}: another process is registering a plan there; try again.",
    ):
        earlier = next(
            (item for item in registrations(path) if item.plan == plan.digest), None
        )
        if earlier is not None:
            return earlier
        log = log_path(path)
        before = reading.content(log) if reading.exists(log) else b""
        counts = {cell: opened.get(cell) for cell in plan.cells}
        content = plain([asdict(item) for item in plan.comparisons])
        line = {
            "registered": plan.digest,
            "plan": content,
            "opened": counts,
            "before": sha256(before),
        }
        append_line(log, json_canonical(line))
    return Registration(plan.digest, counts)


def registered(path: Path) -> tuple[ComparisonPlan, Registration]:
    """A plan and its registration; an error if the file differs from every registered
    plan.
    """
    plan = read_plan(path)
    registration = next(
        (item for item in registrations(path) if item.plan == plan.digest), None
    )
    if registration is None:
        raise InputError(
            f"{path}: must be registered as it is before it is followed, and "
            f"{log_path(path)} does not hold {plan.digest[:12]}: run `deepval compare "
            f"--register {path}` before you look at test units."
        )
    return plan, registration
