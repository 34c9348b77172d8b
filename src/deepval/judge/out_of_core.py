"""Parquet files larger than memory, scores and budgets -> the Result that judging them
in memory would give.

All figures are exact. Figures that follow from sums over units and over the highest
scores come from the same code as in memory. Options that need the rows themselves are
refused with a message; such figures are None with a reason.

The first reading of the files sums by unit everything that does not depend on an order,
and sifts the scores and the decision values. If a cut falls in a block whose rows were
not stored, a second reading stores them.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Slots
from deepval.basics.errors import InputError, InputWarning, argument
from deepval.basics.progress import Watch
from deepval.judge.allowances import (
    LEVELS,
    Allowance,
    MissingCosts,
    allowance,
    budget_list,
    charging,
    cost_figures,
)
from deepval.judge.answers.blind import always_modes
from deepval.judge.bootstrap import Bootstrap, UnitSums, resample_counts
from deepval.judge.deployment import thresholds_on_disk
from deepval.judge.draws import make_draws
from deepval.judge.extras.gaps import gaps
from deepval.judge.extras.notes import notes_on_disk
from deepval.judge.extras.setting import Concentration, concentration, spread
from deepval.judge.extras.table_notes import TableFacts, notes_on
from deepval.judge.extras.units import unit_parts
from deepval.judge.judgement import judge
from deepval.judge.kernel import Sieve
from deepval.judge.pairs import contenders_of, samples_of
from deepval.judge.policies import Always, Never, Oracle, Policy, Random, Ranking
from deepval.judge.purses import RowInts, Rows
from deepval.judge.results import (
    OracleAt,
    Provenance,
    Result,
    ScoresUsed,
    Setting,
    known,
)
from deepval.judge.row_columns import (
    additions_of,
    half_widths,
    number_of_verdicts,
    rows_of,
)
from deepval.judge.sieve import QUANTILES, WIDEST, SiftedScores, Sifting
from deepval.judge.tables.chunks import CHUNK, OnDisk
from deepval.judge.tables.scans import (
    ScannedScores,
    ScannedTable,
    scan_scores,
    scan_values,
)
from deepval.judge.tables.scores import Missing, check_missing, check_names
from deepval.judge.tables.values import part_of, quota
from deepval.version import __version__


@dataclass
class Facts:
    """Counts and sums of a reading that do not depend on the allocator.

    Attributes:
        scale: A bound on the size of decision values. Values are divided by it before
            squaring, so that none overflows.
        affected: Judged inputs whose loss the full mode changes.
        harmful: Judged inputs whose loss the full mode raises.
        benefit: Sum of the positive decision values of judged inputs.
        harm: Sum of the negative decision values of judged inputs, as a positive
            number.
        squares: Sum of squares of the positive decision values of judged inputs, each
            as a share of `scale`.
        top: The largest decision value of a judged input, 0 where none is positive.
        top_row: Its row.
        gain: Sum of decision values over all inputs, judged or not.
        every_benefit: Sum of the positive decision values of all inputs.
        every_harm: Sum of the negative decision values of all inputs, as a positive
            number.
    """

    scale: float
    affected: int = 0
    harmful: int = 0
    benefit: float = 0.0
    harm: float = 0.0
    squares: float = 0.0
    top: float = 0.0
    top_row: int | None = None
    gain: float = 0.0
    every_benefit: float = 0.0
    every_harm: float = 0.0

    def note(self, values: Rows, judged: Bool[np.ndarray, "row"], first: int) -> None:
        """Add a piece of the rows, of which some are judged; `first` is its first
        row.
        """
        own = values if judged.all() else values[judged]
        self.gain += float(values.sum())
        self.every_benefit += float(values.sum(where=values > 0))
        self.every_harm -= float(values.sum(where=values < 0))
        if not len(own):
            return
        helpful, harmful = own > 0, own < 0
        self.affected += int(np.count_nonzero(helpful) + np.count_nonzero(harmful))
        self.harmful += int(np.count_nonzero(harmful))
        positive = own[helpful]
        self.benefit += float(positive.sum())
        self.harm -= float(own.sum(where=harmful))
        share = positive / self.scale
        self.squares += float(share @ share)
        if len(positive) and positive.max() > self.top:
            self.top = float(positive.max())
            self.top_row = first + int(np.argmax(np.where(judged, values, -math.inf)))


@dataclass(eq=False)
class Scan:
    """Reads a table and its scores, as often as the draws need.

    Attributes:
        table: The losses.
        scores: The scores.
        watch: Reports the progress of a reading.
        facts: Counts and sums of the first reading.
        by_unit: Sums over the judged inputs of each unit.
        oracle: The positive decision values, sifted.
        rankings: The scores, sifted.
        readings: Number of readings so far.
    """

    table: ScannedTable
    scores: Sequence[ScannedScores]
    watch: Watch
    facts: Facts = field(init=False)
    by_unit: UnitSums = field(init=False)
    oracle: Sifting = field(init=False)
    rankings: list[SiftedScores] = field(init=False)
    readings: int = 0

    def read(
        self,
        counts: Float[np.ndarray, "resample unit"],
        best: Int[np.ndarray, "resample of_oracle"],
        ranked: Sequence[Slots],
    ) -> None:
        """Read everything once, and once more if rows at the cuts of these slots were
        not stored.

        Args:
            counts: How often each resample contains each unit.
            best: Slots of the oracle.
            ranked: Slots of each score.
        """
        table = self.table
        # a difference of two losses is at most twice the largest
        self.facts = Facts(scale=2 * table.largest or 1.0)
        helpful = np.flatnonzero(table.sample > 0)
        self.oracle = self._sifting(
            table.sample[helpful],
            table.sample_unit[helpful],
            counts,
            best,
            signed=False,
        )
        self.rankings = [
            SiftedScores(
                self._sifting(
                    item.sample, table.sample_unit, counts, slots, signed=True
                )
            )
            for item, slots in zip(self.scores, ranked, strict=True)
        ]
        units = len(table.unit_ids)
        totals = np.zeros((3, units))
        first = 0
        # Everything below is a sum by unit: every draw is a weighted sum of these, so
        # one reading serves all draws.
        for losses, values, unit, scores in self._pieces():
            judged = unit >= 0
            self.facts.note(values, judged, first)
            first += len(values)
            if not judged.all():
                losses, values, unit, *scores = (
                    array[judged] for array in (losses, values, unit, *scores)
                )
            for total, weights in zip(
                totals, (losses, values, np.maximum(values, 0.0)), strict=True
            ):
                total += np.bincount(unit, weights=weights, minlength=units)
            # the oracle escalates no input that it would make worse
            up = np.flatnonzero(values > 0)
            self.oracle.add(values[up], values[up], unit[up])
            for ranking, score in zip(self.rankings, scores, strict=True):
                ranking.values.add(score, values, unit)
        self.by_unit = UnitSums(table.sizes.astype(np.float64), *totals)
        for column in self._siftings():
            column.read()
        # The sample may have placed a cut in a block whose rows were not stored: only
        # then the files are read again.
        for column, slots in zip(self._siftings(), (best, *ranked), strict=True):
            column.want(counts, slots)
        if any(column.requested.any() for column in self._siftings()):
            self.read_again()

    def read_again(self) -> None:
        """Read everything once more and store the rows of requested blocks."""
        oracle, *rankings = (
            (column, bool(column.requested.any())) for column in self._siftings()
        )
        for _, values, unit, scores in self._pieces(
            only=[requested for _, requested in rankings]
        ):
            judged = unit >= 0
            if oracle[1]:
                up = np.flatnonzero(judged & (values > 0))
                oracle[0].again(values[up], values[up], unit[up])
            chosen = (column for column, requested in rankings if requested)
            for column, score in zip(chosen, scores, strict=True):
                column.again(score[judged], values[judged], unit[judged])
        for column in self._siftings():
            column.read()

    def policies(self, allocators: Sequence[Policy]) -> list[Policy]:
        """The allocators between the references."""
        oracle = Oracle(
            SiftedScores(self.oracle), self.oracle.sieve.tables[0].sum(axis=0)
        )
        # Of more than two modes, the totals of those between are not read.
        modes = self.table.modes
        fixed = always_modes(modes) if len(modes) == 2 else []
        return [Random(), Never(), Always(), *allocators, oracle, *fixed]

    def _siftings(self) -> list[Sifting]:
        return [self.oracle, *(item.values for item in self.rankings)]

    def _sifting(
        self,
        sample: Rows,
        unit: RowInts,
        counts: Float[np.ndarray, "resample unit"],
        slots: Slots,
        *,
        signed: bool,
    ) -> Sifting:
        sieve = Sieve.over(
            sample,
            unit,
            step=self.table.step,
            counts=counts,
            slots=slots,
            quantities=1 + signed,
            quantiles=QUANTILES,
            widest=WIDEST,
        )
        return Sifting(sieve, signed, self.read_again)

    def _pieces(
        self, only: Sequence[bool] | None = None
    ) -> Iterator[tuple[Rows, Rows, RowInts, list[Rows]]]:
        """All-cheap losses, decision values, units and scores (those marked in `only`),
        CHUNK rows at a time.
        """
        self.readings += 1
        chosen = [
            item
            for item, taken in zip(
                self.scores, only or [True] * len(self.scores), strict=True
            )
            if taken
        ]
        losses, units, scores = (
            self.table.losses(),
            self.table.unit(),
            [item.chunks() for item in chosen],
        )
        number = math.ceil(len(self.table.parts) / CHUNK)
        for _ in self.watch(
            range(number),
            "reading the table" if self.readings == 1 else "reading the table again",
        ):
            cheap, full = next(losses)
            yield cheap, cheap - full, next(units), [next(chunks) for chunks in scores]


def refuse(source: OnDisk, asked: Mapping[str, Any]) -> None:
    """Raise where an option is set that needs the rows in memory; keys name it in
    Python and on the command line.
    """
    name = next((name for name, value in asked.items() if value), None)
    if name is not None:
        raise InputError(
            f"{source.source}: {name} needs the table in memory, and it is larger "
            f"({source.why}): leave it out, or allow more: "
            f"{argument('memory', '8GB')}."
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
    own: Sequence[str],
    missing: Missing,
    missing_costs: MissingCosts,
    simultaneous_intervals: bool,
    thresholds: bool,
    watch: Watch,
) -> Result:
    """Judge allocators on a table that stays in its files; arguments are those of
    `evaluate`.
    """
    check_names(scores)
    check_missing(missing)
    budgets_to_judge = budget_list(budgets)
    table = scan_values(
        source.source, modes=modes, costs=source.costs, units=units, watch=watch
    )
    score_files = scan_scores(table, scores, missing, watch)
    allowances = [
        allowance(budget, table.modes, table.costs) for budget in budgets_to_judge
    ]
    kinds = {item.name: item.kind for item in score_files}
    allowances = charging(kinds, allowances, missing_costs)
    drawn = make_draws(len(table.unit_ids), draws, seed)
    counts = resample_counts(drawn, len(table.unit_ids))
    inputs = counts @ table.sizes
    scan = Scan(table, score_files, watch)
    # Cuts of later figures are named before the first reading, so that it stores their
    # rows.
    best = [
        *(a.slots(inputs) for a in allowances),
        *(quota(inputs, alpha) for alpha in LEVELS),
    ]
    ranked = [
        np.column_stack([_slots(a, item.name, inputs) for a in allowances])
        for item in score_files
    ]
    scan.read(
        counts,
        np.column_stack([*best, _half_way(table.sample, table.step, best[0])]),
        ranked,
    )
    bootstrap = Bootstrap.of_sums(
        tuple(map(str, table.unit_ids)),
        table.modes,
        scan.by_unit,
        drawn,
        counts,
        rows=None,
        has_rewards=table.rewards,
        is_right_or_wrong=table.is_right_or_wrong,
        watch=watch,
    )
    allocators = [
        Ranking(item.name, sifted)
        for item, sifted in zip(score_files, scan.rankings, strict=True)
    ]
    contests = judge(bootstrap, scan.policies(allocators), allowances)
    is_estimated = table.estimated is not None
    diagnostics = [item.name for item in score_files if item.kind == "diagnostic"]
    additions = additions_of(
        bootstrap,
        contests,
        own=own,
        diagnostics=diagnostics,
        at_once=simultaneous_intervals,
        is_estimated=is_estimated,
    )
    rows = rows_of(bootstrap, contests, additions)
    notes = [
        *([] if table.estimated is None else [table.estimated]),
        *notes_on(_facts(scan, bootstrap), allowances),
        *notes_on_disk(table, score_files, allowances),
    ]
    for note in notes:
        warnings.warn(InputWarning(note), stacklevel=3)
    threshold_rows = ()
    if thresholds:
        threshold_rows = thresholds_on_disk(bootstrap, allocators, allowances)
    return Result(
        provenance=Provenance(
            deepval=__version__,
            table=table.digest,
            scores={
                item.name: ScoresUsed(item.digest, item.covered) for item in score_files
            },
            costs=cost_figures(allowances),
            draws=drawn.used,
            units=bootstrap.unit_ids,
            calibration_units=None,
            role="all" if units is None else "chosen",
        ),
        setting=_setting(scan, bootstrap),
        comparisons=number_of_verdicts(rows),
        half_widths=half_widths(contests),
        rows=rows,
        answers=additions.told.answers,
        gaps=gaps(bootstrap, contests, {}),
        thresholds=threshold_rows,
        units=unit_parts(bootstrap, contests),
        warnings=tuple(notes),
        samples=samples_of(bootstrap, contenders_of(rows, contests)),
        fresh=f"{source.source} is larger than memory ({source.why})",
    )


def _facts(scan: Scan, bootstrap: Bootstrap) -> TableFacts:
    """What notes on the table rest on."""
    facts = scan.facts
    return TableFacts(
        unit_ids=bootstrap.unit_ids,
        modes=scan.table.modes,
        costs=scan.table.costs,
        affected=facts.affected,
        cheap_loss=float(bootstrap.cheap_loss[0]),
        gain=facts.gain,
        harm_ratio=part_of(facts.every_harm, facts.every_benefit),
        has_rewards=scan.table.rewards,
    )


def _slots(
    allowed: Allowance, name: str, inputs: Float[np.ndarray, "resample"]
) -> Int[np.ndarray, "resample"]:
    """Number of inputs that an allocator may escalate in every resample: 0 where its
    cost is unknown.
    """
    if name in allowed.unpriced:
        return np.zeros(len(inputs), dtype=np.int64)
    return allowed.slots(inputs, allowed.cost_of(name))


def _half_way(
    sample: Rows, step: int, other: Int[np.ndarray, "resample"]
) -> Int[np.ndarray, "resample"]:
    """Number of the best inputs that together have half of the possible gain, estimated
    from a sample.

    Only the full sample needs this number; every draw has its number from `other`
    instead.
    """
    best = np.sort(sample[sample > 0])[::-1] if len(sample) else sample
    reached = np.cumsum(best)
    half = other.copy()
    half[0] = (
        step * (int(np.searchsorted(reached, reached[-1] / 2)) + 1)
        if len(best)
        else other[0]
    )
    return half


def _setting(scan: Scan, bootstrap: Bootstrap) -> Setting:
    """The effect of escalation on the judged inputs, and the spread of the possible
    gain.
    """
    table, facts, inputs = scan.table, scan.facts, len(scan.table)
    loss = float(bootstrap.cheap_loss[0])
    slots = np.array([int(quota(inputs, alpha)) for alpha in LEVELS])
    gains = scan.oracle.sums(bootstrap.counts[:1], slots[None])[0, :, 0]
    helpful = facts.affected - facts.harmful
    return Setting(
        inputs=inputs,
        units=len(table.unit_ids),
        modes=table.modes,
        cheap_loss=loss,
        affected=facts.affected,
        harm_rate=known(part_of(facts.harmful, facts.affected)),
        harm_ratio=known(part_of(facts.harm, facts.benefit)),
        all_full_share=known(part_of(float(bootstrap.full_gain[0]), loss)),
        budgets=tuple(
            OracleAt(
                alpha,
                int(k),
                known(part_of(float(gain), loss)),
                helpful > int(k),
                inputs - facts.harmful >= int(k),
            )
            for alpha, k, gain in zip(LEVELS, slots, gains, strict=True)
        ),
        concentration=spread(
            concentration(scan.by_unit.full_benefit, bootstrap.unit_ids),
            _over_inputs(scan, facts),
        ),
    )


def _over_inputs(scan: Scan, facts: Facts) -> Concentration:
    """How evenly the possible gain is spread over inputs; the Gini coefficient is not
    computed.
    """
    if facts.top_row is None or not facts.benefit > 0:
        return Concentration(None, math.nan, math.nan, math.nan)
    # 1 / sum of squared shares of the total
    effective = (facts.benefit / facts.scale) ** 2 / facts.squares
    top = scan.table.parts.id_at(facts.top_row)
    half, share = _half(scan.oracle, facts.benefit)
    return Concentration(
        top, facts.top / facts.benefit, effective, math.nan, half, share
    )


def _half(oracle: Sifting, total: float) -> tuple[int, float]:
    """Smallest number of inputs that together have half of the total, and their share
    of it.
    """
    # Blocks descend, so running sums over them find the block in which half of the
    # total is reached.
    numbers, sums = oracle.sieve.tables.sum(axis=2)
    # rounding of the sums must not cost one more input
    target = total / 2 * (1 - 1e-12)
    block = min(
        int(np.searchsorted(np.cumsum(sums), target)), int(np.flatnonzero(numbers)[-1])
    )
    before, inputs_before = float(sums[:block].sum()), int(numbers[:block].sum())
    # all rows have one value, so their number follows without reading them
    if oracle.sieve.single[block]:
        value = float(oracle.sieve.edges[block])
        more = max(1, math.ceil((target - before) / value))
        return inputs_before + more, (before + more * value) / total
    reached = before + np.cumsum(np.sort(oracle.block(block)["value"])[::-1])
    at = min(int(np.searchsorted(reached, target)), len(reached) - 1)
    return inputs_before + at + 1, float(reached[at]) / total
