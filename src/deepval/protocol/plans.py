"""A TOML file of comparisons -> a plan with a hash, its registration in a log beside, and what was done of it.

The log has one line per registered plan: the plan itself, its SHA-256, how often the test units of its cells had been
opened by then, and the SHA-256 of all lines before, so that no line can be changed or taken out unseen. There are no
times in it; who needs one commits the log, or sends the hash to somebody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deepval.errors import InputError
from deepval.files import reading
from deepval.files.canonical import digest_of, json_canonical, json_content, plain, read_toml, sha256
from deepval.files.writing import append_line, locked
from deepval.judging.contenders import STATISTICS
from deepval.results import KINDS, BudgetKey
from deepval.tables.shares import checked_share

DIRECTIONS = {"better": ("better",), "worse": ("worse",), "different": ("better", "worse")}
"""What a plan may expect, and the verdicts that bear it out."""
NEEDED, OPTIONAL = ("candidate", "baseline", "cells", "alphas"), ("budget", "of", "direction")


@dataclass(frozen=True)
class Planned:
    """One comparison that is declared before it is made.

    Attributes:
        candidate: The allocator in question, with @POLICY under a causal policy.
        baseline: What it is compared with; random for the verdicts of `evaluate`.
        cells: Ids of the cells, sorted; the mean over them where there are several.
        alphas: The budgets' shares.
        budget: selection, latency, energy or money.
        of: What is compared: gain, benefit or harm.
        direction: What is expected: better, worse or different.
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
    """One comparison that was made, with its verdict."""

    candidate: str
    baseline: str
    cells: tuple[str, ...]
    budget: BudgetKey
    of: str
    verdict: str | None


@dataclass(frozen=True)
class PlannedOutcome:
    """A planned comparison at one budget: its verdict, and whether that is what was expected; None if not made."""

    planned: Planned
    alpha: float
    verdict: str | None
    as_expected: bool | None


@dataclass(frozen=True)
class Registration:
    """A line of the log.

    Attributes:
        plan: SHA-256 of the plan.
        opened: Per cell, how often its test units had been judged on by then; None where its folder was not named.
    """

    plan: str
    opened: Mapping[str, int | None]


@dataclass(frozen=True)
class ComparisonPlan:
    """Comparisons that are declared together."""

    comparisons: tuple[Planned, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of what is declared, however the file is written."""
        return digest_of(plain([asdict(item) for item in self.comparisons]))

    @property
    def cells(self) -> tuple[str, ...]:
        """Ids of all cells that it names."""
        return tuple(sorted({cell for item in self.comparisons for cell in item.cells}))

    def outcomes(self, made: Sequence[Made]) -> list[PlannedOutcome]:
        """What became of each planned comparison on the cells at hand."""
        return [_outcome(item, alpha, made) for item in self.comparisons for alpha in item.alphas]

    def unplanned(self, made: Iterable[Made]) -> list[Made]:
        """Comparisons that were made and are not in the plan."""
        return [m for m in made if not any(_is(item, a, m) for item in self.comparisons for a in item.alphas)]


def _outcome(item: Planned, alpha: float, made: Sequence[Made]) -> PlannedOutcome:
    found = next((m for m in made if _is(item, alpha, m)), None)
    if found is None:
        return PlannedOutcome(item, alpha, None, None)
    return PlannedOutcome(item, alpha, found.verdict, found.verdict in DIRECTIONS[item.direction])


def _is(item: Planned, alpha: float, made: Made) -> bool:
    same = (item.candidate, item.baseline, item.cells, item.of) == (made.candidate, made.baseline, made.cells, made.of)
    return same and made.budget.holds(kind=item.budget, alpha=alpha)


def read_plan(path: Path) -> ComparisonPlan:
    """The plan in a TOML file: tables [[comparison]]."""
    content = read_toml(path)
    listed = content.pop("comparison", None)
    if content or not isinstance(listed, list) or not listed:
        found = ", ".join(content) or "no [[comparison]]"
        raise InputError(f"{path}: a plan must be tables [[comparison]] and nothing else; found {found}.")
    return ComparisonPlan(tuple(_planned(item, f"{path}: comparison {i}") for i, item in enumerate(listed, 1)))


def _planned(item: Any, where: str) -> Planned:
    wrong = sorted(set(item) - {*NEEDED, *OPTIONAL}) if isinstance(item, dict) else ["no table"]
    lacking = [] if wrong else [key for key in NEEDED if key not in item]
    if wrong or lacking:
        said = f"{wrong[0]!r} is none of them" if wrong else f"{lacking[0]!r} is missing"
        raise InputError(f"{where}: must have {', '.join(NEEDED)} and may have {', '.join(OPTIONAL)}; {said}.")
    for key, allowed in (("budget", KINDS), ("of", STATISTICS), ("direction", tuple(DIRECTIONS))):
        if key in item and item[key] not in allowed:
            raise InputError(f"{where}: {key} must be one of {', '.join(allowed)}; found {item[key]!r}.")
    for key in ("cells", "alphas"):
        if not isinstance(item[key], list) or not item[key]:
            raise InputError(f"{where}: {key} must be a list that is not empty; found {item[key]!r}.")
    if not all(isinstance(text, str) and text for text in (item["candidate"], item["baseline"], *item["cells"])):
        raise InputError(f"{where}: candidate, baseline and cells must be names; found {item!r}.")
    cells = tuple(sorted(set(item["cells"])))
    alphas = tuple(sorted({checked_share(alpha) for alpha in item["alphas"]}))
    return Planned(**{**item, "cells": cells, "alphas": alphas})


def log_path(plan: Path) -> Path:
    """Where a plan's registrations lie: plan.toml has plan.registered.jsonl beside it."""
    return plan.with_suffix(".registered.jsonl")


def registrations(plan: Path) -> list[Registration]:
    """The registrations in a plan's log, which must be as it was written, line by line."""
    path = log_path(plan)
    data = reading.content(path) if reading.exists(path) else b""
    found, before = [], b""
    for line in data.splitlines(keepends=True):
        try:
            content = json_content(line, path, "a log that `deepval register` wrote")
            whole = content["before"] == sha256(before) and content["registered"] == digest_of(content["plan"])
            found.append(Registration(content["registered"], dict(content["opened"])))
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{path}: must be a log that `deepval register` wrote; line {len(found) + 1} is none."
            ) from error
        if not whole:
            raise InputError(f"{path}: must be as `deepval register` wrote it; line {len(found)} was altered.")
        before += line
    return found


def register(path: Path, opened: Mapping[str, int | None]) -> Registration:
    """Write a plan into the log beside it; a plan that is there already stays as it was registered first."""
    plan = read_plan(path)
    with locked(reading.resolved(path).parent, f"{path}: another process is registering a plan there; try again."):
        known = next((item for item in registrations(path) if item.plan == plan.digest), None)
        if known is not None:
            return known
        log = log_path(path)
        before = reading.content(log) if reading.exists(log) else b""
        counts = {cell: opened.get(cell) for cell in plan.cells}
        content = plain([asdict(item) for item in plan.comparisons])
        line = {"registered": plan.digest, "plan": content, "opened": counts, "before": sha256(before)}
        append_line(log, json_canonical(line))
    return Registration(plan.digest, counts)


def registered(path: Path) -> tuple[ComparisonPlan, Registration]:
    """A plan, and its registration; raises where the file is not what was registered."""
    plan = read_plan(path)
    found = next((item for item in registrations(path) if item.plan == plan.digest), None)
    if found is None:
        raise InputError(
            f"{path}: must be registered as it is before it is followed, and {log_path(path)} does not hold "
            f"{plan.digest[:12]}: run `deepval register {path}` before test units are looked at."
        )
    return plan, found
