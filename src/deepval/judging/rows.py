"""Resamples, scores and budgets -> rows: every allocator and every reference under
every budget, with a verdict.

The verdict rests on the paired difference with random, as a share of the all-cheap
loss, over every draw of units. Per-mode scores choose among more than two modes, so
they are compared with an oracle and a random baseline that also choose among all modes.
nDG (normalized decision gain: share of the oracle's gain) has its own interval, without
the draws whose oracle gain is too small to divide by.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Bool, Float
from deepval.judging import mode_samples, selections
from deepval.judging.allowances import Allowance, no_prize
from deepval.judging.draws import LEVEL, simultaneous
from deepval.judging.resamples import (
    LEAVE_OUT_UP_TO,
    Allocator,
    Difference,
    Resampling,
    Sample,
    Totals,
    in_memory,
)
from deepval.results import (
    Bounds,
    BudgetKey,
    Estimate,
    Reason,
    Row,
    answer,
    in_words,
    joined,
    known,
)
from deepval.tables.scores import Scores

VERDICTS = ("verdict", "second_verdict", "never_verdict", "always_verdict")
REFERENCE: dict[str, Any] = dict.fromkeys(VERDICTS)
"""Fields of rows of references: they have no verdict."""
NO_NDG: dict[str, Any] = dict.fromkeys(("ndg", "ndg_without", "ndg_without_unit")) | {
    "draws_dropped": 0,
    "weight_dropped": 0.0,
}
"""Fields of rows that exceed the selection budget: they have no nDG."""
AT_ONCE = 256
"""Brief rows to compute at a time."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A row, and the samples behind it."""

    row: Row
    sample: Sample | None
    prize: Float[np.ndarray, "resample"]
    difference: Difference

    @property
    def paired(self) -> Float[np.ndarray, "resample"]:
        """The paired difference with random as a share of the all-cheap loss, NaN where
        undefined.
        """
        return self.difference.share


@dataclass(frozen=True, eq=False)
class Gained(Judged):
    """A row that computes its difference with random on demand, because thousands of
    rows are in memory at once.
    """

    totals: Totals
    chance_gain: Float[np.ndarray, "resample"]

    @property
    def paired(self) -> Float[np.ndarray, "resample"]:
        """The paired difference with random as a share of the all-cheap loss, NaN where
        undefined.
        """
        assert self.sample is not None
        return self.totals.paired_difference(self.sample.gain, self.chance_gain).share


def paired_differences(judged: Sequence[Judged]) -> Float[np.ndarray, "row resample"]:
    """The paired differences of rows of one cell."""
    gained = [
        (item.totals, item.sample.gain, item.chance_gain)
        for item in judged
        if isinstance(item, Gained) and item.sample
    ]
    if not gained or len(gained) < len(judged):
        return np.stack([item.paired for item in judged])
    totals, gains, chances = zip(*gained, strict=True)
    return totals[0].paired_difference(np.stack(gains), np.stack(chances)).share


@dataclass(frozen=True, eq=False)
class _Yardstick:
    """The references of a row: the oracle for its nDG, and the random baseline for its
    verdict.
    """

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
        label: Name of the slice of inputs, if they are one.
        ranked: Samples of every allocator, if they are computed already.
        brief: Whether rows of allocators have point figures only (`Gained`), for
            pooling many of them.
    """
    allowances = [
        a.on(in_memory(resamples).table) if a.per_input else a for a in allowances
    ]
    oracle, chance = (
        selections.best(resamples, allowances),
        selections.at_random(resamples, allowances),
    )
    ladders = [(None, None)] * len(allowances)
    if len(resamples.modes) > 2:
        best_plans, mixtures = (
            of(in_memory(resamples), allowances)
            for of in (mode_samples.oracles, mode_samples.chances)
        )
        ladders = list(zip(best_plans, mixtures, strict=True))
    if ranked is None:
        watched = resamples.watch(scores, "ranking inputs")
        ranked = {
            item.name: ranking_samples(resamples, item, allowances) for item in watched
        }
    unknown = [None] * len(allowances)
    ranks = {item.name for item in scores if not brief and not item.modes}
    ties = {
        item.name: selections.ties_decide(resamples, item, allowances)
        if item.name in ranks
        else unknown
        for item in scores
    }
    shared = {
        "slice": label,
        "inputs": int(resamples.inputs[0]),
        "units": len(resamples.unit_ids),
        "cheap_loss": float(resamples.cheap_loss[0]),
        "draws": len(resamples.draws),
    }
    judged = []
    for index, allowed in enumerate(allowances):
        bench = _Bench(
            resamples,
            allowed,
            vars(allowed.key) | shared | {"spender": allowed.spender},
        )
        counted = not allowed.per_input and allowed.spender is None
        slots = int(allowed.slots(int(resamples.inputs[0]))) if counted else None
        best, mixed = ladders[index]
        full_only = _Yardstick(
            "oracle", "random", oracle[index].gain, chance[index].gain
        )
        of_ladder = (
            _Yardstick("oracle-ladder", "random-ladder", best.gain, mixed.gain)
            if best and mixed
            else full_only
        )
        entries = [
            _Draft("random", chance[index], full_only, REFERENCE | {"slots": slots})
        ]
        if mixed:
            entries.append(_Draft("random-ladder", mixed, of_ladder, REFERENCE))
        nothing = np.zeros(len(resamples.inputs))
        entries.append(
            _Draft(
                "never",
                Sample(nothing, nothing, nothing),
                full_only,
                REFERENCE | {"slots": 0},
            )
        )
        entries.append(bench.all_full(full_only))
        for item in scores:
            chooses = isinstance(item, Scores) and item.choice
            if (
                chooses or allowed.spender is not None
            ) and item.name != allowed.spender:
                continue  # a choice is judged at its own spend, and nothing else is
            by = of_ladder if item.modes else full_only
            entries.append(
                bench.allocator(
                    item, ranked[item.name][index], by, ties=ties[item.name][index]
                )
            )
        entries.append(
            _Draft("oracle", oracle[index], full_only, REFERENCE | {"slots": slots})
        )
        if best:
            entries.append(_Draft("oracle-ladder", best, of_ladder, REFERENCE))
        judged += bench.rows(
            entries, brief={item.name for item in scores} if brief else set()
        )
    return judged


def ranking_samples(
    resamples: Resampling, scores: Allocator, allowances: Sequence[Allowance]
) -> list[Sample | None]:
    """An allocator's samples under every budget; None where it cannot pay for itself or
    its cost is unknown.
    """
    priced = [allowed for allowed in allowances if scores.name not in allowed.unpriced]
    if isinstance(scores, Scores) and scores.choice:
        samples = [mode_samples.choice_sample(in_memory(resamples), scores)] * len(
            priced
        )
    elif isinstance(scores, Scores) and scores.modes:
        samples = mode_samples.plan_samples(in_memory(resamples), scores, priced)
    else:
        costs = [a.cost_of(scores.name) for a in priced]
        ranked = selections.ranking(resamples, scores, priced, costs)
        samples = [
            s if a.feasible(c) else None
            for s, a, c in zip(ranked, priced, costs, strict=True)
        ]
    of_priced = iter(samples)
    return [
        None if scores.name in allowed.unpriced else next(of_priced)
        for allowed in allowances
    ]


@dataclass(frozen=True, eq=False)
class _Draft:
    """A row before its figures: its name, sample (None where it cannot run), references
    and fixed fields.
    """

    name: str
    sample: Sample | None
    by: _Yardstick
    fields: Mapping[str, Any]
    reasons: Sequence[Reason | str] = ()


class _Points(NamedTuple):
    """Rows that can run: their fields without intervals, and the samples from which
    intervals follow.
    """

    fields: Sequence[dict[str, Any]]
    difference: Difference
    ndg: Float[np.ndarray, "row resample"]
    worth: Bool[np.ndarray, "row"]
    selected: Bool[np.ndarray, "row draw"]


@dataclass(frozen=True, eq=False)
class _Bench:
    """Turns samples under one budget into rows, all at once; `shared` are the fields
    that are equal in all rows.
    """

    resamples: Resampling
    allowed: Allowance
    shared: Mapping[str, Any]

    def all_full(self, by: _Yardstick) -> _Draft:
        """Uniform full fidelity: infeasible under a small measured budget, beyond any
        selection budget.
        """
        fields = REFERENCE | {"slots": int(self.resamples.inputs[0])}
        everything = Sample(
            self.resamples.full_gain, self.resamples.full_benefit, self.resamples.inputs
        )
        if self.allowed.costs is None:
            return _Draft(
                "all-full", everything, by, fields | NO_NDG, [Reason.BEYOND_SELECTION]
            )
        if self.allowed.uniform_fits:
            return _Draft("all-full", everything, by, fields)
        return _Draft(
            "all-full",
            None,
            by,
            {},
            [Reason.FULL_TOO_DEAR.text(alpha=self.allowed.uniform_from)],
        )

    def allocator(
        self,
        scores: Allocator,
        sample: Sample | None,
        by: _Yardstick,
        *,
        ties: float | None,
    ) -> _Draft:
        if scores.name in self.allowed.unpriced:
            fields = {"verdict_words": Reason.NO_COST.text()}
            return _Draft(
                scores.name, None, by, fields, [self.allowed.unpriced[scores.name]]
            )
        cost = self.allowed.cost_of(scores.name)
        if sample is None:
            limit = self.allowed.budget.alpha * self.allowed.full
            reason = Reason.TOO_DEAR.text(
                cost=cost, convention=self.allowed.convention, limit=limit
            )
            return _Draft(
                scores.name, None, by, {"cost": cost, "verdict": "infeasible"}, [reason]
            )
        counted = not scores.modes and not self.allowed.per_input
        slots = (
            int(self.allowed.slots(int(self.resamples.inputs[0]), cost))
            if counted
            else None
        )
        fields = {
            "cost": None if self.allowed.costs is None else cost,
            "slots": slots,
            "ties": ties,
        }
        return _Draft(scores.name, sample, by, fields)

    def rows(
        self, entries: Sequence[_Draft], brief: Set[str] = frozenset()
    ) -> list[Judged]:
        """The entries as rows; the allocators in `brief` get point figures only."""
        able = [(entry, entry.sample) for entry in entries if entry.sample]
        short = (
            self._brief(
                [(entry, sample) for entry, sample in able if entry.name in brief]
            )
            if brief
            else iter(())
        )
        whole = self._compare(
            [(entry, sample) for entry, sample in able if entry.name not in brief]
        )
        return [
            next(short if entry.name in brief else whole)
            if entry.sample
            else self._blank(entry)
            for entry in entries
        ]

    def _blank(self, entry: _Draft) -> Judged:
        row = self._row(
            entry,
            {"oracle_gain": known(entry.by.prize[0]), "reason": joined(entry.reasons)},
        )
        return Judged(row, None, entry.by.prize, self._nothing)

    @cached_property
    def _nothing(self) -> Difference:
        """All NaN: for rows that have no difference, or whose difference is not
        stored.
        """
        nothing = np.full(len(self.resamples.counts), np.nan)
        return Difference(nothing, nothing)

    def _row(self, entry: _Draft, values: Mapping[str, Any]) -> Row:
        fields = {
            **self.shared,
            "oracle": entry.by.oracle,
            "chance": entry.by.chance,
            **values,
            **entry.fields,
        }
        words = in_words(
            fields.get("verdict"), effective_units=self.resamples.effective_units
        )
        fields.setdefault("verdict_words", words)
        return Row(entry.name, **fields, answer=answer(fields))

    def _brief(self, entries: Sequence[tuple[_Draft, Sample]]) -> Iterator[Judged]:
        """Rows of entries that can run, with point figures only; some at a time, so
        that few arrays are in memory.
        """
        for begin in range(0, len(entries), AT_ONCE):
            part = entries[begin : begin + AT_ONCE]
            for (entry, sample), fields in zip(
                part, self._points(part).fields, strict=True
            ):
                estimates = {
                    name: Estimate.of(fields[name])
                    for name in ("ndg", "versus_random", "versus_random_loss")
                }
                row = self._row(entry, fields | estimates)
                yield Gained(
                    row,
                    sample,
                    entry.by.prize,
                    self._nothing,
                    self.resamples,
                    entry.by.chance_gain,
                )

    def _points(self, entries: Sequence[tuple[_Draft, Sample]]) -> _Points:
        """Point figures of rows that can run, and their samples over the draws."""
        re, resampled = self.resamples, self.resamples.resampled
        gain, prize, chance = (
            np.stack(samples)
            for samples in zip(
                *((sample.gain, e.by.prize, e.by.chance_gain) for e, sample in entries),
                strict=True,
            )
        )
        difference, ndg, worth = (
            re.paired_difference(gain, chance),
            re.ndg(gain, prize),
            prize[:, 0] > 0,
        )
        selected = re.large_prizes(prize) & worth[:, None] & resampled
        no_share = (
            np.isnan(difference.share[:, re.drawn]).all(axis=1)
            & resampled
            & bool(re.cheap_loss[0] > 0)
        )
        columns = {
            "gain": gain[:, 0],
            "gain_share": re.share(gain[:, 0]),
            "oracle_gain": prize[:, 0],
            "ndg": ndg[:, 0],
            "versus_random": difference.share[:, 0],
            "versus_random_loss": difference.loss[:, 0],
        }
        points = zip(*(column.tolist() for column in columns.values()), strict=True)
        without_prize = (
            None
            if worth.all()
            else no_prize(self.allowed, int(re.inputs[0]), float(re.full_benefit[0]))
        )
        undefined = re.undefined()
        without_draw: dict[Reason, Any] = {
            Reason.NO_PRIZED_DRAW: worth & ~selected.any(axis=1) & resampled,
            Reason.NO_SHARE_DRAWN: no_share,
        }
        fields = []
        for i, ((entry, sample), point) in enumerate(zip(entries, points, strict=True)):
            no_draw = (reason for reason, rows in without_draw.items() if rows[i])
            reasons = (
                None if worth[i] else without_prize,
                *undefined,
                *no_draw,
                *entry.reasons,
            )
            fields.append(
                {
                    **dict(zip(columns, map(known, point), strict=True)),
                    "escalated": float(sample.escalated[0]),
                    "benefit": float(sample.benefit[0]),
                    "harm": max(0.0, float(sample.benefit[0] - sample.gain[0])),
                    "versus_random_unit": re.unit_shown,
                    "always_fits": self.allowed.uniform_fits,
                    "always_cost_ratio": self._cost_ratio(float(sample.escalated[0])),
                    "reason": joined(reasons),
                }
            )
        return _Points(fields, difference, ndg, worth, selected)

    def _cost_ratio(self, escalated: float) -> float | None:
        """What always escalating costs, relative to the budget or, where allocators are
        free, to these escalations.
        """
        if self.allowed.costs is None:
            return (
                float(self.resamples.inputs[0]) / escalated if escalated > 0 else None
            )
        return self.allowed.full / (
            self.allowed.cheap + self.allowed.budget.alpha * self.allowed.full
        )

    def _compare(self, entries: Sequence[tuple[_Draft, Sample]]) -> Iterator[Judged]:
        """Rows of entries that can run, with intervals and verdicts, all computed
        together.
        """
        if not entries:
            return
        re, draws, resampled = (
            self.resamples,
            self.resamples.draws,
            self.resamples.resampled,
        )
        fields, difference, ndg, worth, selected = self._points(entries)
        dropped = np.count_nonzero(~selected, axis=1)
        spans = (
            re.versus_each(difference),
            draws.intervals(ndg[:, re.drawn], selected),
            self._without(ndg),
        )
        spans = (
            *spans,
            self._versus_uniform(np.stack([sample.gain for _, sample in entries])),
        )
        for i, ((entry, sample), against, of_ndg, without, uniform) in enumerate(
            zip(entries, *spans, strict=True)
        ):
            counts = resampled and worth[i]
            values = {
                "ndg": of_ndg.estimate(ndg[i, 0]),
                **against.fields(Difference(difference.loss[i], difference.share[i])),
                **uniform,
                "versus_random_spread": known(against.spread),
                "draws_dropped": int(dropped[i]) if counts else 0,
                "weight_dropped": draws.weight_of(~selected[i])
                if counts and dropped[i]
                else 0.0,
            }
            row = self._row(entry, fields[i] | without | values)
            yield Judged(
                row,
                sample,
                entry.by.prize,
                Difference(difference.loss[i], difference.share[i]),
            )

    def _versus_uniform(
        self, gain: Float[np.ndarray, "row resample"]
    ) -> Iterator[dict[str, Any]]:
        """Per row, the fields that compare it with never and with always escalating."""
        re = self.resamples
        rows: list[dict[str, Any]] = [{} for _ in gain]
        for name, other in (
            ("never", np.zeros_like(re.full_gain)),
            ("always", re.full_gain),
        ):
            difference = re.paired_difference(gain, np.broadcast_to(other, gain.shape))
            for fields, versus, loss, share in zip(
                rows,
                re.versus_each(difference),
                difference.loss,
                difference.share,
                strict=True,
            ):
                fields |= versus.estimates(name, Difference(loss, share)) | {
                    f"{name}_verdict": versus.verdict
                }
        yield from rows

    def _without(
        self, ndg: Float[np.ndarray, "row resample"]
    ) -> Iterator[dict[str, Any]]:
        """Per row, the range of nDG with one unit left out, and the unit without which
        it is lowest.
        """
        left_out = ndg[:, self.resamples.left_out]
        if not left_out.size:
            yield from ({} for _ in ndg)
            return
        unknown = np.isnan(left_out)
        lowest, highest = (
            np.where(unknown, np.inf, left_out),
            np.where(unknown, -np.inf, left_out),
        )
        ids, bounds = (
            self.resamples.unit_ids,
            (lowest.min(axis=1).tolist(), highest.max(axis=1).tolist()),
        )
        for low, high, unit in zip(
            *bounds, lowest.argmin(axis=1).tolist(), strict=True
        ):
            yield (
                {"ndg_without": Bounds(low, high), "ndg_without_unit": ids[unit]}
                if low < np.inf
                else {}
            )


def with_simultaneous(judged: Sequence[Judged], resamples: Resampling) -> list[Judged]:
    """The same rows with intervals of the paired difference that cover all compared
    rows at once.
    """
    shares = _at_once(
        "versus_random", [item.difference.share for item in judged], judged, resamples
    )
    losses = _at_once(
        "versus_random_loss",
        [item.difference.loss for item in judged],
        judged,
        resamples,
    )
    return [
        replace(item, row=replace(item.row, **shares.get(i, {}), **losses.get(i, {})))
        for i, item in enumerate(judged)
    ]


def _at_once(
    name: str,
    samples: Sequence[Float[np.ndarray, "resample"]],
    judged: Sequence[Judged],
    resamples: Resampling,
) -> dict[int, dict[str, Bounds | None]]:
    """Simultaneous bounds by index of the row, for the rows whose difference of this
    name has an interval.
    """
    compared = [
        i
        for i, item in enumerate(judged)
        if item.row.verdict and item.row[f"{name}_lo"] is not None
    ]
    if not compared:
        return {}
    table = np.stack([samples[i] for i in compared])
    units = len(resamples.unit_ids)
    bounds = simultaneous(
        table[:, 0], table[:, resamples.drawn], resamples.draws, units=units
    )
    return {
        i: {f"{name}_simultaneous": of.bounds}
        for i, of in zip(compared, bounds, strict=True)
    }


FEWEST = 3
"""Smallest number of units at which one can be left out and the others drawn."""
NEAR = 0.5
"""Distance from 0, in spreads, of a near bound: three standard errors of a bound over
the draws that miss a unit.
"""
TRIED = 3
"""Largest number of units to leave out for one row, the most influential first."""
FEW = 8
"""Up to this many units, TRIED does not apply and one draw near 0 suffices, because
single draws set the bounds.
"""
SIGNS = {"better": 1.0, "worse": -1.0}


def with_words(
    judged: Sequence[Judged],
    resamples: Resampling,
    scores: Sequence[Allocator],
    allowances: Sequence[Allowance],
) -> list[Judged]:
    """The same rows with the unit that each decided verdict rests on, and with the
    verdict in words.
    """
    plain = {item.name: item for item in scores if not item.modes}
    units, enough = (
        len(resamples.unit_ids),
        FEWEST <= len(resamples.unit_ids) <= LEAVE_OUT_UP_TO,
    )
    decided = [
        i
        for i, item in enumerate(judged)
        if enough and item.row.verdict in SIGNS and item.row.allocator in plain
    ]
    if not decided:
        return list(judged)
    without = _Without(resamples, plain, allowances, [judged[i] for i in decided])
    rests_on: dict[int, str] = {}
    for i, suspects in zip(
        decided, _suspects([judged[i] for i in decided], resamples), strict=True
    ):
        changing = (
            unit
            for unit in suspects
            if without.verdict(unit, judged[i]) != judged[i].row.verdict
        )
        unit = next(changing, None)
        if unit is not None:
            rests_on[i] = resamples.unit_ids[unit]
    rows = list(judged)
    for i in decided:
        row, unit = judged[i].row, rests_on.get(i)
        words = in_words(
            row.verdict, effective_units=resamples.effective_units, rests_on=unit
        )
        row = replace(row, verdict_words=words, rests_on=unit, units_left_out=units)
        rows[i] = replace(judged[i], row=replace(row, answer=answer(vars(row))))
    return rows


def _suspects(judged: Sequence[Judged], resamples: Resampling) -> Iterator[list[int]]:
    """Per row, the units whose absence may move a bound past 0, the most influential
    first.

    A unit's influence is the share of the draws without it in which the difference has
    the other sign.
    """
    samples = np.stack([_towards(item, resamples) for item in judged])
    spread = resamples.draws.spreads(samples)[:, None]
    weights = (
        np.ones(len(resamples.draws))
        if resamples.draws.weights is None
        else resamples.draws.weights
    )
    missing = (resamples.draws.counts == 0) * weights[:, None]
    defined = (~np.isnan(samples)).astype(np.float64) @ missing
    turned, near = (
        np.divide(
            (samples <= bound).astype(np.float64) @ missing,
            defined,
            out=np.ones_like(defined),
            where=defined > 0,
        )
        for bound in (np.zeros_like(spread), NEAR * spread)
    )
    units = len(resamples.unit_ids)
    holding = resamples.per_unit[:, 0] > 0
    few = units <= FEW
    for own, close in zip(turned, near, strict=True):
        order = np.lexsort((-close, -own))
        enough = close > 0 if few else close >= (1 - LEVEL) / 2
        yield [int(unit) for unit in order if holding[unit] and enough[unit]][
            : None if few else TRIED
        ]


def _towards(item: Judged, resamples: Resampling) -> Float[np.ndarray, "draw"]:
    """The difference in every draw, oriented so that values below 0 contradict the
    verdict.
    """
    share = (
        item.row.versus_random is not None and item.row.versus_random.low is not None
    )
    difference = item.difference.share if share else item.difference.loss
    return SIGNS[item.row.verdict or ""] * difference[resamples.drawn]


@dataclass(frozen=True, eq=False)
class _Without:
    """Judges decided rows again without a unit; results are stored per unit and
    allocator.
    """

    resamples: Resampling
    scores: Mapping[str, Allocator]
    allowances: Sequence[Allowance]
    decided: Sequence[Judged]
    others: dict[int, Resampling] = field(default_factory=dict)
    verdicts: dict[tuple[int, str], dict[BudgetKey, str | None]] = field(
        default_factory=dict
    )

    def verdict(self, unit: int, item: Judged) -> str | None:
        """The verdict of a row on all other units."""
        key = unit, item.row.allocator
        if key not in self.verdicts:
            self.verdicts[key] = self._verdicts_without(unit, item.row.allocator)
        return self.verdicts[key][item.row.budget]

    def _verdicts_without(
        self, unit: int, allocator: str
    ) -> dict[BudgetKey, str | None]:
        budget_keys = {
            item.row.budget for item in self.decided if item.row.allocator == allocator
        }
        allowances = [
            _on_others(self.resamples, unit, allowed)
            for allowed in self.allowances
            if allowed.key in budget_keys
        ]
        if unit not in self.others:
            self.others[unit] = self.resamples.without(unit)
        others = self.others[unit]
        own = ranking_samples(others, self.scores[allocator], allowances)
        pairs = [
            (allowed.key, one.gain, other.gain)
            for allowed, one, other in zip(
                allowances, own, selections.at_random(others, allowances), strict=True
            )
            if one
        ]
        verdicts: dict[BudgetKey, str | None] = dict.fromkeys(budget_keys, "infeasible")
        if pairs:
            keys, gains, chances = zip(*pairs, strict=True)
            decided = others.verdicts(
                others.paired_difference(np.stack(gains), np.stack(chances))
            )
            verdicts |= dict(zip(keys, decided, strict=True))
        return verdicts


def _on_others(resamples: Resampling, unit: int, allowed: Allowance) -> Allowance:
    """The allowance on the inputs of all units but one."""
    if not allowed.per_input:
        return allowed
    table = in_memory(resamples).table
    return allowed.on(table.keep(table.unit != unit))
