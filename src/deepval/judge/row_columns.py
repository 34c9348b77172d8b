"""Judgements -> the flat rows of the file format, with their sentences.

Inside the program a figure stands in the record of the function that computes it, such
as `Figures` or `NextUnit`. Readers of a file want one flat row per policy and budget.
This module is the only place where one becomes the other, so that a field can be
renamed without a change of the file format.

Rows are judged without what extras know about them: that is computed once, from the
resamples and the contests, and carried here as `Additions`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from deepval.judge.answers.told import Told, tell
from deepval.judge.bootstrap import Bootstrap, Totals
from deepval.judge.differences import Comparison, unit_shown
from deepval.judge.extras.units import (
    DecidingUnit,
    NextUnit,
    deciding_units,
    jackknife_opinions,
    next_units,
)
from deepval.judge.intervals import Interval, bounds_of, estimate
from deepval.judge.judgement import Contest, Judgement
from deepval.judge.results import Bounds, HalfWidth, Row, in_words

if TYPE_CHECKING:
    from deepval.judge.extras.simultaneous import Simultaneous


@dataclass(frozen=True)
class Additions:
    """What extras know about rows, by judgement.

    Attributes:
        deciding_units: The unit that a decided verdict rests on.
        next_units: What the units say about one more.
        second_opinions: The second opinion where there are no draws.
        simultaneous: Intervals that hold for all rows at once.
        told: The answers, with what they add to rows.
    """

    deciding_units: Mapping[Judgement, DecidingUnit] = field(default_factory=dict)
    next_units: Mapping[Judgement, NextUnit] = field(default_factory=dict)
    second_opinions: Mapping[Judgement, Interval] = field(default_factory=dict)
    simultaneous: Mapping[Judgement, "Simultaneous"] = field(default_factory=dict)
    told: Told = field(default_factory=Told)


def additions_of(
    bootstrap: Bootstrap,
    contests: Sequence[Contest],
    *,
    own: Collection[str],
    diagnostics: Collection[str],
    at_once: bool,
    is_estimated: bool,
) -> Additions:
    """What extras know about the rows of all contests.

    Args:
        bootstrap: The resamples.
        contests: The judged policies.
        own: The user's own allocators, which alone may become the candidate.
        diagnostics: Scores that use the answer, which cannot be deployed.
        at_once: Whether to add intervals that hold for all rows at once.
        is_estimated: Whether losses are estimates, which say nothing of single units.
    """
    units = {}
    if not is_estimated:
        units = next_units(bootstrap, contests)
    intervals = {}
    if at_once:
        from deepval.judge.extras.simultaneous import simultaneous

        intervals = simultaneous(bootstrap, contests)
    return Additions(
        deciding_units=deciding_units(bootstrap, contests),
        next_units=units,
        second_opinions=jackknife_opinions(bootstrap, contests),
        simultaneous=intervals,
        told=tell(bootstrap, contests, own=own, diagnostics=diagnostics),
    )


def rows_of(
    bootstrap: Bootstrap,
    contests: Sequence[Contest],
    additions: Additions,
    *,
    label: str | None = None,
) -> tuple[Row, ...]:
    """The rows of all contests; `label` names the group of inputs that was judged."""
    shared = {
        "slice": label,
        "inputs": int(bootstrap.inputs[0]),
        "units": len(bootstrap.unit_ids),
        "cheap_loss": float(bootstrap.cheap_loss[0]),
        "draws": len(bootstrap.draws),
    }
    unit = unit_shown(bootstrap)
    rows = []
    for contest in contests:
        for entry in contest.entries:
            columns = row_fields(bootstrap, entry.judgement, additions, unit)
            rows.append(Row(**shared, **columns))
    return tuple(rows)


def number_of_verdicts(rows: Iterable[Row]) -> int:
    """Number of comparisons with random."""
    return sum(row.verdict in ("better", "worse", "unresolved") for row in rows)


def row_fields(
    totals: Totals, row: Judgement, additions: Additions, unit: str
) -> dict[str, Any]:
    """A judgement as the fields of a row of the published schema.

    Args:
        totals: The resamples.
        row: The judgement.
        additions: What extras know about it.
        unit: How to read differences, as share or loss.
    """
    columns: dict[str, Any] = {
        "allocator": row.allocator,
        "kind": row.budget.kind,
        "alpha": row.budget.alpha,
        "convention": row.budget.convention,
        "accounting": row.budget.accounting,
        "spender": row.spender,
        "cost": row.own_cost,
        "slots": row.slots,
        "ties": row.tied_share,
        "oracle_gain": row.oracle_gain,
        "oracle": row.references.oracle,
        "chance": row.references.chance,
        "verdict": row.verdict,
        "reason": row.reason,
    }
    if row.figures is not None:
        columns["always_fits"] = row.always_fits
        columns["versus_random_unit"] = unit
    columns |= _figure_columns(row, additions)
    columns |= _ndg_columns(row)
    columns |= _unit_columns(row, additions)
    columns["verdict_words"] = _words(totals, row, additions)
    columns |= _answer_columns(row, additions)
    return columns


def _words(totals: Totals, row: Judgement, additions: Additions) -> str | None:
    """The verdict with its weakness."""
    if row.refusal is not None:
        return row.refusal
    unit = None
    if row in additions.deciding_units:
        unit = additions.deciding_units[row].unit
    return in_words(row.verdict, effective_units=totals.effective_units, rests_on=unit)


def _figure_columns(row: Judgement, additions: Additions) -> dict[str, Any]:
    figures = row.figures
    if figures is None:
        return {}
    columns = {
        "escalated": figures.escalated,
        "gain": figures.gain,
        "gain_share": figures.gain_share,
        "benefit": figures.benefit,
        "harm": figures.harm,
        "always_cost_ratio": figures.always_cost_ratio,
        "versus_random_spread": figures.random.share.spread,
        "versus_random_dropped": figures.random.dropped,
    }
    columns |= comparison_fields("random", figures.random)
    if figures.never is not None:
        columns |= comparison_fields("never", figures.never)
    if figures.always is not None:
        columns |= comparison_fields("always", figures.always)
    columns |= second_fields(figures.random)
    # A reference is a yardstick: it has differences, and no verdict on them.
    if not row.is_reference:
        columns["second_verdict"] = figures.random.second_verdict
        if figures.never is not None and figures.always is not None:
            columns["never_verdict"] = figures.never.verdict
            columns["always_verdict"] = figures.always.verdict
    # Without draws the second opinion comes from the samples without one unit.
    if row in additions.second_opinions:
        second = additions.second_opinions[row]
        columns["versus_random_second"] = bounds_of(second)
        columns["second_verdict"] = second.verdict
    return columns


def _ndg_columns(row: Judgement) -> dict[str, Any]:
    if row.figures is None or row.figures.ndg is None:
        return {}
    ndg = row.figures.ndg
    value = None
    if ndg.value is not None:
        value = estimate(ndg.value, ndg.interval)
    return {
        "ndg": value,
        "ndg_without": bounds_of(ndg.without),
        "ndg_without_unit": ndg.without_unit,
        "draws_dropped": ndg.draws_dropped,
        "weight_dropped": ndg.weight_dropped,
    }


def _unit_columns(row: Judgement, additions: Additions) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if row in additions.deciding_units:
        deciding = additions.deciding_units[row]
        columns["rests_on"] = deciding.unit
        columns["units_left_out"] = deciding.units
    if row in additions.simultaneous:
        at_once = additions.simultaneous[row]
        columns["versus_random_simultaneous"] = bounds_of(at_once.share)
        columns["versus_random_loss_simultaneous"] = bounds_of(at_once.loss)
    if row in additions.next_units:
        next_unit = additions.next_units[row]
        columns["next_unit"] = Bounds(next_unit.worst, next_unit.best)
        columns["units_compared"] = next_unit.units
        if next_unit.opposing is not None:
            columns["break_even_unit"] = next_unit.opposing.ends
            columns["cancelling_unit"] = next_unit.opposing.cancels
    return columns


def _answer_columns(row: Judgement, additions: Additions) -> dict[str, Any]:
    """What the answer under the budget adds."""
    if row not in additions.told.rows:
        return {}
    own = additions.told.rows[row]
    return {
        "spend": own.spend,
        "quality": own.quality,
        "lead": own.lead,
        "lead_words": own.words,
        "answer": own.verdict,
    }


def comparison_fields(name: str, comparison: Comparison) -> dict[str, Any]:
    """A comparison with `name`: as a share, and in units of the loss."""
    return {
        f"versus_{name}": comparison.share.estimate,
        f"versus_{name}_loss": comparison.loss.estimate,
    }


def second_fields(comparison: Comparison) -> dict[str, Any]:
    """The second opinion on the difference with random."""
    return {
        "versus_random_second": bounds_of(comparison.share.second),
        "versus_random_loss_second": bounds_of(comparison.loss.second),
    }


def half_widths(contests: Sequence[Contest]) -> tuple[HalfWidth, ...]:
    """The typical width under each budget; None where no row has an interval."""
    by_budget = []
    for contest in contests:
        widths = []
        for entry in contest.entries:
            figures = entry.judgement.figures
            if figures is None or entry.policy.is_reference:
                continue
            interval = figures.random.share.interval
            if interval is not None:
                widths.append((interval.high - interval.low) / 2)
        half_width = median(widths) if widths else None
        key = contest.allowance.key
        by_budget.append(HalfWidth(**vars(key), half_width=half_width))
    return tuple(by_budget)
