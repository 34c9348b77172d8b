"""A table of losses, and optional scores -> a diagnosis of the conclusions that the
table supports.

Six questions: does the budget bind, do ties decide, how many units and inputs
contribute the possible gain, how wide are the intervals, how many units would resolve a
difference, and which verdicts depend on a single unit.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from deepval.basics.arrays import InputFloats, Shaped
from deepval.basics.errors import InputWarning
from deepval.basics.progress import Watch, unwatched
from deepval.judge.allowances import Budget, MissingCosts
from deepval.judge.bootstrap import LEAVE_OUT_UP_TO, Gains, Totals
from deepval.judge.differences import has_large_prize, ndg
from deepval.judge.evaluation import evaluate
from deepval.judge.extras.planning import units_to_resolve
from deepval.judge.extras.setting import concentration
from deepval.judge.extras.units import FEWEST_UNITS
from deepval.judge.intervals import LEVEL, spreads
from deepval.judge.pairs import Contender, basis
from deepval.judge.results import (
    AllocatorRecord,
    BudgetRecord,
    Record,
    Result,
    Row,
    known,
)
from deepval.judge.tables.scores import Missing, Scores
from deepval.judge.tables.values import ValueTable

DIFFERENCE = 0.01
"""The default difference to resolve, as a share of the all-cheap loss."""
POWER = 0.8
TELLING = ("better", "worse", "unresolved")
NORMAL = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2)
STAND_INS = ("random", "oracle")
"""References whose widths are reported beside those of allocators: no skill and full
skill.
"""


@dataclass(frozen=True, eq=False)
class BudgetCheck(BudgetRecord):
    """Whether one budget binds.

    Attributes:
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        slots: Number of inputs that a zero-cost allocator may escalate.
        helped: Number of inputs that escalation helps.
        state: binding if more inputs are helped than may be escalated, otherwise slack.
        forced: Whether so many slots force even the oracle of a fixed quota to escalate
            harmful inputs.
        oracle_share: Share of the all-cheap loss that the oracle removes.
    """

    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    slots: int
    helped: int
    state: str
    forced: bool
    oracle_share: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class TieCheck(AllocatorRecord):
    """How much of an allocator's selection under one budget ties decide, and how many
    different scores it gives.
    """

    ties: float | None
    scores: int


@dataclass(frozen=True, eq=False)
class Held(Record):
    """How a total is spread over units or inputs.

    Attributes:
        what: value (what escalation can gain) or harm (what it can cost).
        by: unit or input.
        holders: Number of units or inputs with a part of the total.
        effective: 1 / sum of squared shares: the number of equal parts with the same
            sum of squares.
        half: Smallest number of units or inputs that together have half of the total.
        top: Id of the unit or input with the largest part.
        top_share: Its share of the total.
        gini: 0 where all parts are equal, near 1 where one unit or input has
            everything.
    """

    what: str
    by: str
    holders: int
    effective: float | None
    half: int
    top: str | None
    top_share: float | None
    gini: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class WidthCheck(AllocatorRecord):
    """How wide intervals are, and how many units would resolve a difference.

    Attributes:
        allocator: Name of an allocator, or of a reference in its place: random (no
            skill) or oracle (full skill).
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        half_width: Half of the paired interval against random, a share of the all-cheap
            loss.
        predicted: The same by the normal approximation, 1.96 x spread over draws.
        ndg_half_width: Half of the interval of nDG.
        ndg_predicted: The same by the normal approximation.
        units_needed: Units at which the requested difference would be resolved with 80
            % power.
    """

    half_width: float | None
    predicted: float | None
    ndg_half_width: float | None
    ndg_predicted: float | None
    units_needed: int | None


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitCheck(AllocatorRecord):
    """Whether a verdict against random hangs on one unit.

    Attributes:
        allocator: Its name.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        verdict: On all units.
        without: The verdict on the other units, by the unit whose absence changes it.
        turned: Units whose absence turns the sign of the difference itself.
    """

    verdict: str
    without: Mapping[str, str | None]
    turned: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Diagnosis(Record):
    """What a table of losses can resolve, and what it cannot.

    Attributes:
        inputs: Number of inputs.
        units: Number of units.
        affected: Inputs whose loss escalation changes; on the others every choice is as
            good.
        helped: Inputs that escalation helps.
        harmed: Inputs that escalation harms.
        difference: The difference to resolve, as a share of the all-cheap loss.
        budgets: Whether each budget binds.
        ties: What ties decide.
        held: How many units and inputs value and harm come from.
        widths: How wide intervals are, and how many units would be enough.
        verdicts: Which verdicts a single unit decides. Empty without scores or
            intervals, and with fewer than 3 or more than 100 units.
    """

    inputs: int
    units: int
    affected: int
    helped: int
    harmed: int
    difference: float
    budgets: tuple[BudgetCheck, ...]
    ties: tuple[TieCheck, ...]
    held: tuple[Held, ...]
    widths: tuple[WidthCheck, ...]
    verdicts: tuple[UnitCheck, ...]


def diagnose(
    table: ValueTable,
    scores: Mapping[str, Scores] | None = None,
    budgets: Iterable[Budget] | None = None,
    *,
    units: Sequence[str] | None = None,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    missing: Missing = "error",
    missing_costs: MissingCosts = "error",
    difference: float = DIFFERENCE,
    watch: Watch = unwatched,
) -> Diagnosis:
    """The conclusions that a table of losses supports about allocators under budgets.

    Without scores, they are about any allocator.

    Args:
        table: The losses.
        scores: Per allocator, its scores aligned with the table.
        budgets: As in `evaluate`.
        units: Units to judge on; None for all.
        draws: Number of draws, or "exact"; 0 for no widths and no verdicts.
        seed: Seed of the draws.
        missing: As in `evaluate`.
        missing_costs: As in `evaluate`.
        difference: The difference to resolve, as a share of the all-cheap loss.
        watch: Reports the progress of long loops.
    """
    by_allocator = dict(scores or {})
    asked = None if budgets is None else list(budgets)

    def judge(names: Sequence[str] | None) -> Result:
        return evaluate(
            table,
            by_allocator,
            asked,
            units=names,
            draws=draws,
            seed=seed,
            missing=missing,
            missing_costs=missing_costs,
        )

    judged = table if units is None else table.restrict(units)
    result = judge(units)
    own = basis(result)
    without = {}
    widths = []
    if own.totals.has_intervals:
        without = _without_each(judged, judge, watch)
        names = (*by_allocator, *STAND_INS)
        widths = [
            _width(item, item.row, item.gains, own.totals, difference)
            for item in own.judged
            if isinstance(item.row, Row) and item.gains and item.row.allocator in names
        ]
    values = judged.decision_values
    return Diagnosis(
        inputs=len(judged),
        units=len(judged.unit_ids),
        affected=judged.affected,
        helped=int(np.count_nonzero(values > 0)),
        harmed=int(np.count_nonzero(values < 0)),
        difference=difference,
        budgets=tuple(
            _binding(row, values) for row in result.rows if row.allocator == "oracle"
        ),
        ties=tuple(_ties(result, by_allocator, judged, table)),
        held=tuple(
            _concentration_of(what, by, judged)
            for what in ("value", "harm")
            for by in ("unit", "input")
        ),
        widths=tuple(widths),
        verdicts=tuple(
            _hanging(row, without) for row in result.rows if row.verdict in TELLING
        ),
    )


def _without_each(
    table: ValueTable, judge: Callable[[list[str]], Result], watch: Watch
) -> dict[str, Result]:
    """The results without each unit that has inputs; empty where units are too few or
    too many to leave one out.
    """
    names = [str(name) for name in table.unit_ids]
    inputs = np.bincount(table.unit, minlength=len(names))
    with_inputs = [name for name, own in zip(names, inputs, strict=True) if own]
    if not FEWEST_UNITS <= len(with_inputs) <= LEAVE_OUT_UP_TO:
        return {}
    results = {}
    for unit in watch(with_inputs, "leaving out units"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            results[unit] = judge([name for name in names if name != unit])
    return results


def _binding(oracle: Row, values: InputFloats) -> BudgetCheck:
    slots = oracle.slots or 0
    helped = int(np.count_nonzero(values > 0))
    return BudgetCheck(
        **vars(oracle.budget),
        slots=slots,
        helped=helped,
        state="binding" if helped > slots else "slack",
        forced=slots > int(np.count_nonzero(values >= 0)),
        oracle_share=oracle.gain_share,
    )


def _ties(
    result: Result,
    by_allocator: Mapping[str, Scores],
    judged: ValueTable,
    table: ValueTable,
) -> Iterator[TieCheck]:
    """What ties decide for every allocator with one score per input."""
    is_judged = np.isin(table.unit_ids, judged.unit_ids)[table.unit]
    for row in result.rows:
        scores = by_allocator.get(row.allocator)
        if scores is not None and row.slots and not scores.modes:
            different = np.unique(scores.values[is_judged & scores.covered])
            yield TieCheck(
                row.allocator, **vars(row.budget), ties=row.ties, scores=len(different)
            )


def _concentration_of(what: str, by: str, table: ValueTable) -> Held:
    values = table.decision_values
    if what == "harm":
        values = -values
    parts = np.maximum(values, 0.0)
    ids: Shaped[np.ndarray, "holder"] = table.input
    if by == "unit":
        ids = table.unit_ids
        parts = np.bincount(table.unit, weights=parts, minlength=len(ids))
    spread = concentration(parts, ids)
    return Held(
        what=what,
        by=by,
        holders=int(np.count_nonzero(parts)),
        effective=known(spread.effective_units),
        half=spread.half,
        top=spread.top_unit,
        top_share=known(spread.top_share),
        gini=known(spread.gini),
    )


def _width(
    item: Contender, row: Row, gains: Gains, totals: Totals, difference: float
) -> WidthCheck:
    """Widths of a row; random has no difference with itself, and the oracle's nDG is
    always 1.
    """
    half_width = None
    predicted = None
    units_needed = None
    spread = row.versus_random_spread
    if row.allocator != "random" and spread is not None:
        if row.versus_random is not None:
            half_width = row.versus_random.half_width
        predicted = NORMAL * spread
        units_needed = units_to_resolve(spread, row.units, difference, power=POWER)
    ndg_half_width = None
    ndg_predicted = None
    if row.allocator != "oracle":
        if row.ndg is not None:
            ndg_half_width = row.ndg.half_width
        samples = ndg(gains.gain[None], item.prize[None])[:, totals.drawn]
        is_large = has_large_prize(totals, item.prize[None])
        used = np.where(is_large, samples, np.nan)
        ndg_predicted = known(NORMAL * spreads(used, totals.draws)[0])
    return WidthCheck(
        row.allocator,
        **vars(row.budget),
        half_width=half_width,
        predicted=predicted,
        ndg_half_width=ndg_half_width,
        ndg_predicted=ndg_predicted,
        units_needed=units_needed,
    )


def _hanging(row: Row, without: Mapping[str, Result]) -> UnitCheck:
    changed = {}
    turned = []
    key = (row.allocator, row.budget)
    for unit, result in without.items():
        other = next(it for it in result.rows if (it.allocator, it.budget) == key)
        if other.verdict != row.verdict:
            changed[unit] = other.verdict
        if (row.versus_random_loss or 0.0) * (other.versus_random_loss or 0.0) < 0:
            turned.append(unit)
    return UnitCheck(
        row.allocator,
        **vars(row.budget),
        verdict=row.verdict or "",
        without=changed,
        turned=tuple(turned),
    )
