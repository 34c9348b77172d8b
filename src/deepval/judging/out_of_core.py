"""Parquet files larger than memory, scores and budgets -> the Result that judging them in memory would give.

All figures are exact. Figures that follow from sums over units and over the highest scores come from the same code as
in memory. Options that need the rows themselves are refused with a message; such figures are None with a reason.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from deepval.arrays import Float, Int
from deepval.errors import InputError, InputWarning
from deepval.judging import audits
from deepval.judging.budgets import LEVELS, Allowance, allowance, budget_list
from deepval.judging.contenders import samples_of
from deepval.judging.draws import Concentration, concentration, make_draws
from deepval.judging.notes import (
    MissingCosts,
    charged,
    charging,
    checked_on_disk,
    notes_on,
    notes_on_costs,
    notes_on_order,
)
from deepval.judging.resamples import LEAVE_OUT_UP_TO, drawn_totals, resample_counts
from deepval.judging.resting import with_words
from deepval.judging.rows import judge, with_simultaneous
from deepval.judging.scanning import Facts, Scan, ScannedResamples
from deepval.judging.sifting import SiftedScores, Sifting
from deepval.judging.thresholds import thresholds
from deepval.progress import Watch
from deepval.results import DrawsUsed, OracleAt, Provenance, Result, ScoresUsed, Setting, Unit, known
from deepval.tables.chunks import OnDisk
from deepval.tables.scans import scan_scores, scan_values
from deepval.tables.scores import Missing, check_missing, check_names
from deepval.tables.shares import quota
from deepval.version import __version__


def refuse(source: OnDisk, asked: Mapping[str, Any]) -> None:
    """Raise where an option is set that needs the rows in memory; keys name it in Python and on the command line."""
    name = next((name for name, value in asked.items() if value), None)
    if name is not None:
        raise InputError(
            f"{source.source}: {name} needs the table in memory, and it is larger ({source.why}): leave it out, or "
            "allow more (memory=..., --memory)."
        )


def evaluate_on_disk(
    source: OnDisk,
    scores: Mapping[str, Any],
    budgets: Any,
    *,
    draws: int | Literal["exact"],
    seed: int,
    modes: Sequence[str] | None,
    units: Sequence[str] | None,
    missing: Missing,
    missing_costs: MissingCosts,
    simultaneous_intervals: bool,
    watch: Watch,
) -> Result:
    """Judge allocators on a table that stays in its files; arguments are those of `evaluate`."""
    check_names(scores)
    check_missing(missing)
    budgets_to_judge = budget_list(budgets)
    table = scan_values(source.source, modes=modes, costs=source.costs, units=units, watch=watch)
    score_files = scan_scores(table, scores, missing, watch)
    allowances = [allowance(budget, table.modes, table.costs) for budget in budgets_to_judge]
    allowances = charging(score_files, allowances, missing_costs)
    drawn = make_draws(len(table.unit_ids), draws, seed)
    counts = resample_counts(drawn, len(table.unit_ids), leave_out_up_to=LEAVE_OUT_UP_TO)
    inputs = counts @ table.sizes
    scan = Scan(table, score_files, watch)
    best = [*(a.slots(inputs) for a in allowances), *(quota(inputs, alpha) for alpha in LEVELS)]
    ranked = [np.column_stack([_slots(a, item.name, inputs) for a in allowances]) for item in score_files]
    scan.read(counts, np.column_stack([*best, _half_way(table.sample, table.step, best[0])]), ranked)
    ids, facts, rankings = tuple(map(str, table.unit_ids)), scan.facts, scan.rankings
    totals = drawn_totals(ids, scan.per_unit, drawn, counts)
    resamples = ScannedResamples(**totals, modes=table.modes, watch=watch, oracle=scan.oracle)
    judged = with_words(judge(resamples, rankings, allowances), resamples, rankings, allowances)
    if simultaneous_intervals:
        judged = with_simultaneous(judged, resamples)
    notes = [
        *([] if table.estimated is None else [table.estimated]),
        *notes_on(ids, affected=facts.affected, cheap_loss=float(resamples.cheap_loss[0])),
        *notes_on_costs(allowances),
        *notes_on_order(
            table.modes, table.costs, gain=facts.gain, harm_ratio=_share(facts.every_harm, facts.every_benefit)
        ),
        *checked_on_disk(table, score_files, allowances),
    ]
    for note in notes:
        warnings.warn(InputWarning(note), stacklevel=3)
    rows = tuple(item.row for item in judged)
    return Result(
        provenance=Provenance(
            deepval=__version__,
            table=table.digest,
            scores={item.name: ScoresUsed(item.digest, item.covered) for item in score_files},
            costs=charged(allowances),
            draws=DrawsUsed(drawn.method, len(drawn), drawn.seed),
            units=ids,
            calibration_units=None,
        ),
        setting=_setting(scan, resamples),
        comparisons=sum(row.verdict in ("better", "worse", "unresolved") for row in rows),
        half_widths=audits.half_widths(rows, allowances),
        rows=rows,
        gaps=audits.gaps(resamples, rankings, allowances, judged=judged, caps={}),
        thresholds=thresholds(resamples, rankings, allowances),
        units=_units(resamples, rankings, allowances),
        warnings=tuple(notes),
        samples=samples_of(resamples, judged),
        fresh=f"{source.source} is larger than memory ({source.why})",
    )


def _slots(allowed: Allowance, name: str, inputs: Float[np.ndarray, "resample"]) -> Int[np.ndarray, "resample"]:
    """Number of inputs that an allocator may escalate in every resample: 0 where its cost is unknown."""
    if name in allowed.unpriced:
        return np.zeros(len(inputs), dtype=np.int64)
    return allowed.slots(inputs, allowed.cost_of(name))


def _half_way(
    sample: Float[np.ndarray, "row"], step: int, other: Int[np.ndarray, "resample"]
) -> Int[np.ndarray, "resample"]:
    """Number of best inputs with half of the possible gain, estimated from a sample.

    Defined for the full sample only; draws do not need it and repeat `other`.
    """
    best = np.sort(sample[sample > 0])[::-1] if len(sample) else sample
    reached = np.cumsum(best)
    half = other.copy()
    half[0] = step * (int(np.searchsorted(reached, reached[-1] / 2)) + 1) if len(best) else other[0]
    return half


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _setting(scan: Scan, resamples: ScannedResamples) -> Setting:
    """The effect of escalation on the judged inputs, and the spread of the possible gain."""
    table, facts, inputs = scan.table, scan.facts, len(scan.table)
    loss = float(resamples.cheap_loss[0])
    slots = np.array([int(quota(inputs, alpha)) for alpha in LEVELS])
    gains = scan.oracle.sums(resamples.counts[:1], slots[None])[0, :, 0]
    helpful = facts.affected - facts.harmful
    return Setting(
        inputs=inputs,
        units=len(table.unit_ids),
        modes=table.modes,
        cheap_loss=loss,
        affected=facts.affected,
        harm_rate=known(_share(facts.harmful, facts.affected)),
        harm_ratio=known(_share(facts.harm, facts.benefit)),
        all_full_share=known(_share(float(resamples.full_gain[0]), loss)),
        budgets=tuple(
            OracleAt(
                alpha, int(k), known(_share(float(gain), loss)), helpful > int(k), inputs - facts.harmful >= int(k)
            )
            for alpha, k, gain in zip(LEVELS, slots, gains, strict=True)
        ),
        concentration=audits.spread(concentration(scan.per_unit[:, -1], resamples.unit_ids), _over_inputs(scan, facts)),
    )


def _over_inputs(scan: Scan, facts: Facts) -> Concentration:
    """How evenly the possible gain is spread over inputs; the Gini coefficient is not computed."""
    if facts.top_row is None or not facts.benefit > 0:
        return Concentration(None, math.nan, math.nan, math.nan)
    effective = (facts.benefit / facts.scale) ** 2 / facts.squares
    top = scan.table.parts.id_at(facts.top_row)
    half, share = _half(scan.oracle, facts.benefit)
    return Concentration(top, facts.top / facts.benefit, effective, math.nan, half, share)


def _half(oracle: Sifting, total: float) -> tuple[int, float]:
    """Smallest number of inputs that together have half of the total, and their share of it."""
    numbers, sums = oracle.sieve.tables.sum(axis=2)
    target = total / 2 * (1 - 1e-12)
    block = min(int(np.searchsorted(np.cumsum(sums), target)), int(np.flatnonzero(numbers)[-1]))
    before, inputs_before = float(sums[:block].sum()), int(numbers[:block].sum())
    if oracle.sieve.single[block]:
        value = float(oracle.sieve.edges[block])
        more = max(1, math.ceil((target - before) / value))
        return inputs_before + more, (before + more * value) / total
    reached = before + np.cumsum(np.sort(oracle.block(block)["value"])[::-1])
    at = min(int(np.searchsorted(reached, target)), len(reached) - 1)
    return inputs_before + at + 1, float(reached[at]) / total


def _units(
    resamples: ScannedResamples, scores: Sequence[SiftedScores], allowances: Sequence[Allowance]
) -> tuple[Unit, ...]:
    """The part of each unit in the gain at the headline budget; empty where units are too many to list."""
    if resamples.left_out.start == resamples.left_out.stop:
        return ()
    allowed, inputs = audits.headline(allowances), int(resamples.inputs[0])
    parts = {}
    for item in scores:
        if item.name in allowed.unpriced:
            continue
        cost = allowed.cost_of(item.name)
        if allowed.feasible(cost):
            parts[item.name] = _gains(item.values, int(allowed.slots(inputs, cost)))
    oracle = resamples.oracle
    available = int(oracle.sieve.tables[0].sum())
    best = _gains(oracle, min(available, int(allowed.slots(inputs))))
    return audits.unit_rows(resamples, allowed, best, parts)


def _gains(score: Sifting, slots: int) -> Float[np.ndarray, "unit"]:
    """Gain of every unit over the highest scores."""
    return score.cut(slots).taken(slots)[1] if slots else np.zeros(score.sieve.tables.shape[2])
