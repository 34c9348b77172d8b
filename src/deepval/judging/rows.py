"""Resamples, scores and budgets -> rows: every allocator and every reference under every budget, with a verdict.

The verdict rests on the paired difference with random, as a share of the all-cheap loss, over every draw of units.
Per-mode scores choose among more than two modes, so theirs are the oracle and the chance that do: those of the ladder.
nDG has its own interval, without the draws whose prize is too small to divide by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deepval.arrays import Float
from deepval.judging import ladder, selections
from deepval.judging.budgets import Allowance
from deepval.judging.draws import simultaneous
from deepval.judging.resamples import Allocator, Resampling, Sample, held
from deepval.judging.totals import Difference, Totals
from deepval.results import Reason, Row, joined, known
from deepval.tables.scores import Scores


@dataclass(frozen=True, eq=False)
class Judged:
    """A row, and the samples behind it."""

    row: Row
    sample: Sample | None
    prize: Float[np.ndarray, "resample"]
    difference: Difference

    @property
    def paired(self) -> Float[np.ndarray, "resample"]:
        """The paired difference with random as a share of the all-cheap loss, NaN where undefined."""
        return self.difference.share


@dataclass(frozen=True, eq=False)
class Gained(Judged):
    """A row whose difference with chance is worked out when it is asked for: thousands of them are held at once."""

    totals: Totals
    chance_gain: Float[np.ndarray, "resample"]

    @property
    def paired(self) -> Float[np.ndarray, "resample"]:
        """The paired difference with random as a share of the all-cheap loss, NaN where undefined."""
        assert self.sample is not None
        return self.totals.paired(self.sample.gain, self.chance_gain).share


def paired_rows(judged: Sequence[Judged]) -> Float[np.ndarray, "row resample"]:
    """The paired differences of rows of one cell."""
    held = [
        (item.totals, item.sample.gain, item.chance_gain) for item in judged if isinstance(item, Gained) and item.sample
    ]
    if not held or len(held) < len(judged):
        return np.stack([item.paired for item in judged])
    totals, gains, chances = zip(*held, strict=True)
    return totals[0].paired(np.stack(gains), np.stack(chances)).share


@dataclass(frozen=True, eq=False)
class _Yardstick:
    """What a row is measured by: the oracle that its nDG divides by and the chance that its verdict compares with."""

    oracle: str
    chance: str
    prize: Float[np.ndarray, "resample"]
    chance_gain: Float[np.ndarray, "resample"]


def judge(
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
    label: str | None = None,
    *,
    ranked: Mapping[str, Sequence[Sample | None]] | None = None,
    brief: bool = False,
) -> list[Judged]:
    """Every allocator and every reference under every budget, budget by budget.

    Args:
        resamples: The units, resampled.
        scores: The allocators.
        allowances: What each budget allows.
        label: Name of the group of inputs, where it is one.
        ranked: Samples of every allocator, where they are known already.
        brief: Whether allocators' rows say point figures alone, for those who pool many of them: `Gained`.
    """
    allowances = [resamples.allowed(allowed) for allowed in allowances]
    oracle, chance = selections.best(resamples, allowances), selections.at_random(resamples, allowances)
    ladders = list(zip(ladder.oracles(resamples, allowances), ladder.chances(resamples, allowances), strict=True))
    if ranked is None:
        watched = resamples.watch(scores, "ranking inputs")
        ranked = {item.name: ranked_samples(resamples, item, allowances) for item in watched}
    judged = []
    for index, allowed in enumerate(allowances):
        bench = _Bench(resamples, allowed, label=label)
        slots = selections.slots(allowed, int(resamples.inputs[0]))
        best, mixed = ladders[index]
        full_only = _Yardstick("oracle", "random", oracle[index].gain, chance[index].gain)
        of_ladder = _Yardstick("oracle-ladder", "random-ladder", best.gain, mixed.gain) if best and mixed else full_only
        judged.append(bench.reference("random", chance[index], full_only, slots=slots))
        if mixed:
            judged.append(bench.reference("random-ladder", mixed, of_ladder, slots=None))
        judged.append(bench.all_full(full_only))
        for item in scores:
            by = of_ladder if item.modes else full_only
            judged.append(bench.allocator(item, ranked[item.name][index], by, brief=brief))
        judged.append(bench.reference("oracle", oracle[index], full_only, slots=slots))
        if best:
            judged.append(bench.reference("oracle-ladder", best, of_ladder, slots=None))
    return judged


def ranked_samples(resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance]) -> list[Sample | None]:
    """An allocator's samples under every budget; None where it cannot pay for itself."""
    if isinstance(scores, Scores) and scores.modes:
        return ladder.planned(held(resamples), scores, allowances)
    costs = [a.cost_of(scores.name) for a in allowances]
    samples = selections.ranked(resamples, scores.values, allowances, costs)
    return [s if a.feasible(c) else None for s, a, c in zip(samples, allowances, costs, strict=True)]


@dataclass(frozen=True, eq=False)
class _Bench:
    """Turns samples under one budget into rows."""

    resamples: Resampling
    allowed: Allowance
    label: str | None

    def reference(self, name: str, sample: Sample, by: _Yardstick, *, slots: int | None) -> Judged:
        judged = self._row(name, sample, by, slots=slots)
        return replace(judged, row=replace(judged.row, verdict=None, second_verdict=None))

    def all_full(self, by: _Yardstick) -> Judged:
        """Uniform full fidelity: infeasible under a small measured budget, beyond any selection budget."""
        inputs = int(self.resamples.inputs[0])
        if self.allowed.costs is None:
            judged = self.reference("all-full", self.resamples.all_full(), by, slots=inputs)
            blank = dict.fromkeys(("ndg", "ndg_lo", "ndg_hi", "ndg_without_lo", "ndg_without_hi", "ndg_without_unit"))
            reason = joined([judged.row.reason, Reason.BEYOND_SELECTION])
            return replace(judged, row=replace(judged.row, **blank, draws_dropped=0, weight_dropped=0.0, reason=reason))
        if self.allowed.uniform_fits:
            return self.reference("all-full", self.resamples.all_full(), by, slots=inputs)
        reason = Reason.FULL_TOO_DEAR.said(alpha=self.allowed.uniform_from)
        return self._blank("all-full", by, reason=reason)

    def allocator(self, scores: Allocator, sample: Sample | None, by: _Yardstick, *, brief: bool = False) -> Judged:
        cost = self.allowed.cost_of(scores.name)
        if scores.modes and self.allowed.accounting == "skipping":
            by = replace(by, prize=np.full(len(self.resamples.counts), np.nan))
            judged = self._blank(scores.name, by, reason=Reason.NO_SKIPPING.said())
            return replace(judged, row=replace(judged.row, oracle=None, chance=None, verdict="infeasible"))
        if sample is None:
            limit = self.allowed.budget.alpha * self.allowed.full
            reason = Reason.TOO_DEAR.said(cost=cost, convention=self.allowed.convention, limit=limit)
            judged = self._blank(scores.name, by, reason=reason)
            return replace(judged, row=replace(judged.row, cost=cost, verdict="infeasible"))
        plain = not scores.modes
        slots = selections.slots(self.allowed, int(self.resamples.inputs[0]), cost) if plain else None
        if brief:
            row, _ = self._point(scores.name, sample, by, slots=slots)
            return Gained(row, sample, by.prize, self._nothing, self.resamples, by.chance_gain)
        judged = self._row(scores.name, sample, by, slots=slots)
        ties = selections.ties_decide(self.resamples, scores.values, self.allowed, cost) if plain else None
        charged = None if self.allowed.costs is None else cost
        return replace(judged, row=replace(judged.row, ties=ties, cost=charged))

    def _blank(self, name: str, by: _Yardstick, *, reason: str) -> Judged:
        row = replace(self._start(name, by), oracle_gain=known(by.prize[0]), reason=reason)
        return Judged(row, None, by.prize, self._nothing)

    @cached_property
    def _nothing(self) -> Difference:
        """What all rows share whose difference is unknown, or not held."""
        nothing = np.full(len(self.resamples.counts), np.nan)
        return Difference(nothing, nothing)

    def _start(self, name: str, by: _Yardstick) -> Row:
        return Row(
            allocator=name,
            **self.allowed.key.fields,
            slice=self.label,
            oracle=by.oracle,
            chance=by.chance,
            inputs=int(self.resamples.inputs[0]),
            units=len(self.resamples.unit_ids),
            cheap_loss=float(self.resamples.cheap_loss[0]),
            draws=len(self.resamples.draws),
        )

    def _point(self, name: str, sample: Sample, by: _Yardstick, *, slots: int | None) -> tuple[Row, Difference]:
        """What the sample alone says, and the difference with chance."""
        re, prize = self.resamples, by.prize
        difference = re.paired(sample.gain, by.chance_gain)
        reasons = ([] if prize[0] > 0 else [Reason.NO_PRIZE]) + re.undefined()
        if re.resampled and prize[0] > 0 and not re.prized(prize).any():
            reasons.append(Reason.NO_PRIZED_DRAW)
        if re.resampled and re.cheap_loss[0] > 0 and np.isnan(difference.share[re.drawn]).all():
            reasons.append(Reason.NO_SHARE_DRAWN)
        row = replace(
            self._start(name, by),
            slots=slots,
            escalated=float(sample.escalated[0]),
            gain=float(sample.gain[0]),
            gain_share=known(re.share_of_sample(sample.gain[0])),
            benefit=float(sample.benefit[0]),
            harm=max(0.0, float(sample.benefit[0] - sample.gain[0])),
            oracle_gain=float(prize[0]),
            ndg=known(re.ndg(sample.gain[:1], prize[:1])[0]),
            versus_random=known(difference.share[0]),
            versus_random_loss=known(difference.loss[0]),
            versus_random_unit=re.unit_shown,
            reason=joined(reasons),
        )
        return row, difference

    def _row(self, name: str, sample: Sample, by: _Yardstick, *, slots: int | None) -> Judged:
        re, draws, prize = self.resamples, self.resamples.draws, by.prize
        row, difference = self._point(name, sample, by, slots=slots)
        against, ndg, resampled = re.versus(difference), re.ndg(sample.gain, prize), re.resampled
        kept = re.prized(prize) & bool(prize[0] > 0) & resampled
        of_ndg = draws.interval(ndg[re.drawn], kept)
        without = ndg[re.left_out]
        row = replace(
            row,
            ndg_lo=known(of_ndg.low),
            ndg_hi=known(of_ndg.high),
            ndg_without_lo=None if np.isnan(without).all() else float(np.nanmin(without)),
            ndg_without_hi=None if np.isnan(without).all() else float(np.nanmax(without)),
            ndg_without_unit=None if np.isnan(without).all() else re.unit_ids[np.nanargmin(without)],
            versus_random_lo=known(against.share.low),
            versus_random_hi=known(against.share.high),
            versus_random_spread=known(draws.spread(difference.share[re.drawn])) if resampled else None,
            versus_random_loss_lo=known(against.loss.low),
            versus_random_loss_hi=known(against.loss.high),
            versus_random_second_lo=known(against.second_share.low),
            versus_random_second_hi=known(against.second_share.high),
            versus_random_loss_second_lo=known(against.second_loss.low),
            versus_random_loss_second_hi=known(against.second_loss.high),
            verdict=against.verdict,
            second_verdict=against.second_verdict,
            draws_dropped=int(np.count_nonzero(~kept)) if resampled and prize[0] > 0 else 0,
            weight_dropped=draws.weight_of(~kept) if resampled and prize[0] > 0 else 0.0,
            versus_random_dropped=against.dropped,
        )
        return Judged(row, sample, prize, difference)


def with_simultaneous(judged: Sequence[Judged], resamples: Resampling) -> list[Judged]:
    """The same rows with intervals of the paired difference that cover all compared rows at once."""
    shares = _at_once("versus_random", [item.difference.share for item in judged], judged, resamples)
    losses = _at_once("versus_random_loss", [item.difference.loss for item in judged], judged, resamples)
    return [
        replace(item, row=replace(item.row, **shares.get(i, {}), **losses.get(i, {}))) for i, item in enumerate(judged)
    ]


def _at_once(
    name: str, samples: Sequence[Float[np.ndarray, "resample"]], judged: Sequence[Judged], resamples: Resampling
) -> dict[int, dict[str, float]]:
    """Simultaneous bounds by the number of the row, of those rows whose difference of this name has an interval."""
    compared = [i for i, item in enumerate(judged) if item.row.verdict and item.row[f"{name}_lo"] is not None]
    if not compared:
        return {}
    table = np.stack([samples[i] for i in compared])
    units = len(resamples.unit_ids)
    bounds = simultaneous(table[:, 0], table[:, resamples.drawn], resamples.draws, units=units)
    low, high = f"{name}_simultaneous_lo", f"{name}_simultaneous_hi"
    return {i: {low: each.low, high: each.high} for i, each in zip(compared, bounds, strict=True)}
