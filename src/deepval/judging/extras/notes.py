"""The judged table, scores and budgets -> notes on likely mistakes: leaked answers,
duplicates, wrong units.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from deepval.arrays import Bool, Float, Int, Shaped
from deepval.judging.allowances import Allowance
from deepval.judging.bootstrap import Bootstrap
from deepval.judging.tie_expectations import centred_ranks
from deepval.tables.costs import Costs
from deepval.tables.scans import ScannedScores, ScannedTable
from deepval.tables.scores import Scores
from deepval.tables.values import ValueTable

LOOKED_AT = 20_000
"""Number of inputs that checks for mistakes use; from a larger table, they use those of
its first units.
"""
LEAST, AGREEMENT, SEPARATION, SMALLEST = 40, 0.9, 0.99, 0.25
"""Smallest number of inputs with something to rank, and smallest rank agreement with an
answer, for a note on a score. SEPARATION applies instead if all answers other than zero
are equal. The SMALLEST share of the answers other than zero is left out, because a
little noise would change their order. Calibrated in docs/statistics.md."""
COPIES, COPIED_SHARE, PAIRS_OF_UNIT, DIGITS = 20, 0.05, 5, 6
"""Pairs of losses that must stand at several inputs, and their share of all pairs, for
a note on duplicated inputs; different pairs, or COPIES round ones, that two units must
share for one on duplicated units; digits up to which a loss is a round number."""
FASTEST_MODE_MS, FASTEST_ALLOCATOR_MS, TIMES_FULL, WATTS = (
    0.1,
    0.01,
    10.0,
    (0.05, 10_000.0),
)
"""Latencies below which a figure is probably in seconds, how many times the full mode
an allocator may cost, and the power that millijoules per millisecond can come to."""
UNEVEN = 100.0
"""A step in time is noted if it is this many times the median step of its unit; units
are if both their median steps and their latest times differ by more than this."""


class Timed(NamedTuple):
    """Inputs in time."""

    unit_ids: Shaped[np.ndarray, "unit"]
    unit: Int[np.ndarray, "input"]
    order: Float[np.ndarray, "input"]

    @classmethod
    def of(cls, tables: Sequence[ValueTable]) -> "Timed":
        """The inputs of several tables with different units."""
        begins = np.cumsum([0, *(len(table.unit_ids) for table in tables)])
        return cls(
            np.concatenate([table.unit_ids for table in tables]),
            np.concatenate(
                [
                    begin + table.unit
                    for begin, table in zip(begins, tables, strict=False)
                ]
            ),
            np.concatenate(
                [table.order for table in tables if table.order is not None]
            ),
        )


class Ranked(NamedTuple):
    """An allocator's scores of the inputs that are checked, and facts about all its
    judged inputs.

    Attributes:
        name: The allocator's name.
        kind: Whether a vehicle could compute the scores.
        values: The scores; if there are scores per mode, those of the full mode.
        rows: The inputs by rising score, None where they were not sorted.
        covered: Which inputs came with a score, None for all.
        missing: Share of the judged inputs without a score.
        fitted: Judged units that the allocator was fitted on.
    """

    name: str
    kind: str
    values: Float[np.ndarray, "input"]
    rows: Int[np.ndarray, "input"] | None
    covered: Bool[np.ndarray, "input"] | None
    missing: float
    fitted: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Subject:
    """What is checked for mistakes: judged inputs with their scores, all of them if
    they are few.

    Attributes:
        modes: The modes, cheap first.
        costs: Costs that are charged, or would be; None where none are known.
        cheap: Losses of the cheap mode on the inputs that are checked.
        full: Losses of the full mode on the same inputs.
        following: Position of each input's successor in its unit, -1 if it has none;
            None if the order is unknown.
        scores: The allocators.
        timed: Inputs in time, all of each unit; None where there is no time.
        table: All judged inputs; None where they are not in memory.
        per_unit: Inputs, cheap loss, value and benefit of each unit of the table.
    """

    modes: Sequence[str]
    costs: Costs | None
    cheap: Float[np.ndarray, "input"]
    full: Float[np.ndarray, "input"]
    following: Int[np.ndarray, "input"] | None
    scores: Sequence[Ranked]
    timed: Timed | None = None
    table: ValueTable | None = None
    per_unit: Float[np.ndarray, "unit total"] | None = None

    @cached_property
    def answers(self) -> list["HiddenQuantity"]:
        """Quantities by which a score must not be able to order inputs."""
        value = self.cheap - self.full
        plain = {
            "their decision values": value,
            "minus their full losses": 0.0 - self.full,
            "their cheap losses": self.cheap,
        }
        answers = [
            HiddenQuantity.of(words, np.arange(len(value)), column, len(value))
            for words, column in plain.items()
        ]
        if self.following is None:
            return answers
        rows = np.flatnonzero(self.following >= 0)
        following = value[self.following[rows]]
        return [
            *answers,
            HiddenQuantity.of(
                "the decision values of the next inputs", rows, following, len(value)
            ),
        ]


@dataclass(frozen=True, eq=False)
class HiddenQuantity:
    """A quantity that is unknown before escalation, of some inputs.

    Attributes:
        words: What it is called.
        rows: The inputs.
        values: The quantity of each.
        ranks: Centred ranks, equal for equal values, of all inputs; 0, the mean, where
            there is no answer.
    """

    words: str
    rows: Int[np.ndarray, "row"]
    values: Float[np.ndarray, "row"]
    ranks: Float[np.ndarray, "input"]

    @classmethod
    def of(
        cls,
        words: str,
        rows: Int[np.ndarray, "row"],
        values: Float[np.ndarray, "row"],
        inputs: int,
    ) -> "HiddenQuantity":
        """The answer for `rows` among `inputs` inputs, without its smallest values
        other than zero.
        """
        size = np.abs(values)
        some = size[size > 0]
        least = (
            np.partition(some, int(SMALLEST * len(some)))[int(SMALLEST * len(some))]
            if len(some)
            else 0.0
        )
        chosen = (size == 0) | (size >= least)
        ranks = np.zeros(inputs)
        ranks[rows[chosen]] = centred_ranks(values[chosen])
        return cls(words, rows[chosen], values[chosen], ranks)


def notes_in_memory(
    table: ValueTable,
    scores: Sequence[Scores],
    allowances: Sequence[Allowance],
    bootstrap: Bootstrap,
    calibrated_on: ValueTable | None,
) -> list[str]:
    """Notes on likely mistakes in a table in memory.

    Args:
        table: The judged inputs.
        scores: The allocators.
        allowances: The budgets.
        bootstrap: The resamples of the table.
        calibrated_on: Inputs on which streaming policies are calibrated.
    """
    sums = bootstrap.by_unit
    columns = (sums.inputs, sums.cheap_loss, sums.full_gain, sums.full_benefit)
    per_unit = np.column_stack(columns)
    streamed = ()
    if calibrated_on is not None:
        streamed = (calibrated_on, table)
    rows, complete = slice(None), True
    if len(table) > LOOKED_AT:
        units = int(np.searchsorted(np.cumsum(per_unit[:, 0]), LOOKED_AT, side="right"))
        rows, complete = (
            np.flatnonzero(table.unit < max(units, 1))[:LOOKED_AT],
            units > 0,
        )
    unit, order = table.unit[rows], None if table.order is None else table.order[rows]
    timed = (
        None if order is None or not complete else Timed(table.unit_ids, unit, order)
    )
    ranked = []
    for item in scores:
        values = item.values[rows] if item.values.ndim == 1 else item.values[rows, -1]
        missing = 1 - float(item.covered.mean())
        fitted = (
            ()
            if item.fit is None
            else tuple(table.unit_ids[np.unique(table.unit[item.fit.inside])].tolist())
        )
        ascending = None if item.modes or len(values) < len(table) else item.order[::-1]
        covered = item.covered[rows] if missing else None
        ranked.append(
            Ranked(item.name, item.kind, values, ascending, covered, missing, fitted)
        )
    subject = Subject(
        modes=table.modes,
        costs=next((a.costs for a in allowances if a.costs), table.costs),
        cheap=table.losses[rows, 0],
        full=table.losses[rows, -1],
        following=next_rows(unit, order) if complete else None,
        scores=ranked,
        timed=Timed.of(streamed) if streamed else timed,
        table=table,
        per_unit=per_unit,
    )
    return notes_on_mistakes(subject)


def notes_on_disk(
    table: ScannedTable,
    scores: Sequence[ScannedScores],
    allowances: Sequence[Allowance],
) -> list[str]:
    """Notes on likely mistakes in a table on disk.

    Only its sample is checked, and there without the checks that need neighbours in
    time.
    """
    step = max(1, math.ceil(len(table.sample) / LOOKED_AT))
    (cheap, full), ranked = (column[::step] for column in table.sample_losses), []
    for item in scores:
        values = item.sample[::step]
        covered = None if item.covered == 1 else values > -math.inf
        ranked.append(
            Ranked(item.name, item.kind, values, None, covered, 1 - item.covered)
        )
    costs = next((a.costs for a in allowances if a.costs), table.costs)
    return notes_on_mistakes(Subject(table.modes, costs, cheap, full, None, ranked))


def notes_on_mistakes(subject: Subject) -> list[str]:
    """Notes on likely mistakes in losses, scores, costs or times: one sentence each,
    with advice on what to check.
    """
    notes = list(_leaked_answers(subject))
    if subject.table is not None and subject.per_unit is not None:
        notes += _equal_units(subject.table, subject.per_unit) or _equal_inputs(
            subject.table
        )
    notes += [_fit_overlap(item) for item in subject.scores if item.fitted]
    if subject.costs is not None:
        notes += _costs_off(subject, subject.costs)
    if subject.timed is not None:
        notes += _time_off(subject.timed)
    return notes + [_without_score(item) for item in subject.scores if item.missing]


def next_rows(
    unit: Int[np.ndarray, "input"], order: Float[np.ndarray, "input"] | None
) -> Int[np.ndarray, "input"]:
    """The next input of the same unit in time, or in the order of rows where there is
    no time; -1 for the last.
    """
    rows = (
        np.argsort(unit, kind="stable") if order is None else np.lexsort((order, unit))
    )
    following = np.full(len(unit), -1)
    same = unit[rows[1:]] == unit[rows[:-1]]
    following[rows[:-1][same]] = rows[1:][same]
    return following


def rank_agreement(
    score: Float[np.ndarray, "row"], answer: Float[np.ndarray, "row"]
) -> float:
    """How far a score orders inputs as an answer does: 1 if it separates all different
    answers, about 0 if unrelated.

    It is the sum of products of ranks as a share of the largest such sum that any score
    can have: Spearman's correlation if no two values are equal, 2*AUC - 1 if the answer
    has two distinct values, NaN if it has only one.
    """
    if not len(answer):
        return math.nan
    ranks = centred_ranks(answer)
    most = _product(ranks, ranks)
    return _product(ranks, centred_ranks(score)) / most if most > 0 else math.nan


def _product(one: Float[np.ndarray, "row"], other: Float[np.ndarray, "row"]) -> float:
    """Sum of products, without the threads of a matrix product: starting them takes
    longer than the sum.
    """
    return float(np.einsum("i,i", one, other))


def _leaked_answers(subject: Subject) -> Iterator[str]:
    """Scores that order inputs nearly as losses do, which are not available to a
    vehicle before escalation.
    """
    for item in subject.scores:
        if item.kind == "diagnostic" or len(item.values) < LEAST:
            continue
        rows = np.argsort(item.values) if item.rows is None else item.rows
        places = np.arange(len(rows)) - (len(rows) - 1) / 2
        agreed = {}
        for answer in subject.answers:
            # A quick check first, because most scores agree with no answer. It uses
            # places among all inputs, which are spread wider than ranks among some
            # inputs, so that it misses no answer that is defined for some only.
            least = 0.9 * AGREEMENT * _product(answer.ranks, answer.ranks)
            if (
                item.covered is not None
                or _product(answer.ranks[rows], places) >= least > 0
            ):
                agreed[answer.words] = _agreement_with(answer, item)
        words = max(agreed, key=lambda name: agreed[name], default="")
        if words and agreed[words] > 0:
            yield (
                f"{item.name} orders inputs nearly as {words} do (rank agreement "
                f"{agreed[words]:.3g}), which nothing can before escalation: check "
                "that no loss went into the scores, and that "
                "each is of the right input."
            )


def _agreement_with(answer: HiddenQuantity, item: Ranked) -> float:
    """The agreement over all inputs or over those whose answer is not zero, whichever
    is less; 0 if it is too low.
    """
    scored = slice(None) if item.covered is None else item.covered[answer.rows]
    score, values = item.values[answer.rows[scored]], answer.values[scored]
    some = values != 0
    if np.count_nonzero(some) < LEAST:
        return 0.0
    overall, within = (
        rank_agreement(score, values),
        rank_agreement(score[some], values[some]),
    )
    if math.isnan(within):
        return overall if overall >= SEPARATION else 0.0
    return min(overall, within) if min(overall, within) >= AGREEMENT else 0.0


def _equal_units(
    table: ValueTable, per_unit: Float[np.ndarray, "unit total"]
) -> list[str]:
    """Units with the same losses in the same order as an earlier unit; few different
    losses are no evidence.
    """
    mixed = (per_unit * np.array([1.0, 0.754877666, 0.569840291, 0.430159709])).sum(
        axis=1
    )
    units = np.argsort(mixed)
    # Sums of the same losses in another order of rows differ in their last digits only.
    near = np.diff(mixed[units]) <= 1e-9 * np.abs(mixed[units[1:]])
    suspect = np.zeros(len(units), dtype=bool)
    suspect[units[1:][near]] = suspect[units[:-1][near]] = True
    suspect &= (per_unit[:, 0] >= PAIRS_OF_UNIT) & (
        np.abs(per_unit[:, 1:]).sum(axis=1) > 0
    )
    candidates = units[suspect[units]]
    candidates = candidates[
        np.cumsum(per_unit[candidates, 0]) <= max(LOOKED_AT, 2 * per_unit[:, 0].max())
    ]
    if len(candidates) < 2:
        return []
    chosen = np.zeros(len(units), dtype=bool)
    chosen[candidates] = True
    rows = np.flatnonzero(chosen[table.unit])
    unit, order = table.unit[rows], None if table.order is None else table.order[rows]
    rows = rows[
        np.argsort(unit, kind="stable") if order is None else np.lexsort((order, unit))
    ]
    losses = table.losses[rows]
    first: dict[bytes, str] = {}
    pairs = []
    starts = np.flatnonzero(np.diff(table.unit[rows], prepend=-1))
    for start, end in zip(starts, np.append(starts[1:], len(rows)), strict=True):
        name, part = str(table.unit_ids[table.unit[rows[start]]]), losses[start:end]
        earlier = first.setdefault(np.ascontiguousarray(part).tobytes(), name)
        if earlier != name and _conclusive(part):
            pairs.append((earlier, name))
    if not pairs:
        return []
    (one, other), more = pairs[0], len(pairs) - 1
    return [
        f"Units {one!r} and {other!r} hold exactly the same losses in the same order"
        + f", and so do {more} more pair{'s' * (more > 1)}" * (more > 0)
        + (
            ": check whether units were duplicated under other names, which makes "
            "intervals too narrow."
        )
    ]


def _conclusive(losses: Float[np.ndarray, "input mode"]) -> bool:
    """Whether two units cannot have these losses by chance: enough of them are
    different. Round ones count less.
    """
    different = np.unique(losses, axis=0)
    return (
        len(different) >= COPIES
        or int(np.count_nonzero(_many_digits(different[:, 0]))) >= PAIRS_OF_UNIT
    )


def _equal_inputs(table: ValueTable) -> list[str]:
    """Inputs that have exactly the losses of another, to more digits than round numbers
    have.
    """
    rows = (
        _rows_by_value(table.losses[:, 0])
        if len(table) > 2 * LOOKED_AT
        else np.arange(len(table))
    )
    cheap, full = table.losses[rows, 0], table.losses[rows, -1]
    before = np.maximum(rows - 1, 0)
    # A vehicle that stands still has the same losses in frame after frame, so a run of
    # equal rows counts once.
    run = (
        (table.losses[before, 0] == cheap)
        & (table.losses[before, -1] == full)
        & (table.unit[before] == table.unit[rows])
    )
    own = _many_digits(cheap) & ~(run & (rows > 0))
    rows, cheap, full = rows[own], cheap[own], full[own]
    if len(rows) < 2 * COPIES:
        return []
    ascending = np.lexsort((rows, full, cheap))
    rows, cheap, full = rows[ascending], cheap[ascending], full[ascending]
    same = (cheap[1:] == cheap[:-1]) & (full[1:] == full[:-1])
    repeats = np.flatnonzero(same & ~np.concatenate([[False], same[:-1]]))
    pairs = len(rows) - np.count_nonzero(same)
    if len(repeats) < max(COPIES, COPIED_SHARE * pairs) or pairs < len(rows) / 4:
        return []
    one, other = (
        str(table.input[row]) for row in (rows[repeats[0]], rows[repeats[0] + 1])
    )
    return [
        f"{len(repeats):,} of {pairs:,} different pairs of losses stand at several "
        f"inputs to the last digit, such as {one!r} and {other!r}: check whether "
        "inputs were duplicated under other ids."
    ]


def _many_digits(numbers: Float[np.ndarray, "row"]) -> Bool[np.ndarray, "row"]:
    """Which numbers have more than `DIGITS` significant digits."""
    size = np.abs(numbers)
    some = (size > 1e-200) & (size < 1e200)
    unit = 10.0 ** (np.floor(np.log10(np.where(some, size, 1.0))) - (DIGITS - 1))
    return some & (np.abs(size - np.rint(size / unit) * unit) > 1e-12 * size)


def _rows_by_value(column: Float[np.ndarray, "input"]) -> Int[np.ndarray, "row"]:
    """Rows of a long column whose values are in one part of all values; equal values
    are in the same part.
    """
    bits = math.ceil(math.log2(len(column) / (2 * LOOKED_AT)))
    rows, factor, shift = [], np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - bits)
    # a piece stays in the processor's cache
    for begin in range(0, len(column), 1 << 16):
        numbers = np.ascontiguousarray(
            column[begin : begin + (1 << 16)], dtype=np.float64
        )
        rows.append(
            begin + np.flatnonzero((numbers.view(np.uint64) * factor) >> shift == 1)
        )
    return np.concatenate(rows)[: 4 * LOOKED_AT]


def _fit_overlap(item: Ranked) -> str:
    """The note on an allocator that is judged on units that it was fitted on."""
    some = ", ".join(item.fitted[:3]) + (", ..." if len(item.fitted) > 3 else "")
    return (
        f"{item.name} was fitted on {len(item.fitted)} of the judged units ({some}): "
        "its gain there is no evidence for other units; judge it on units that it was "
        "not fitted on."
    )


def _costs_off(subject: Subject, costs: Costs) -> Iterator[str]:
    """Costs that are probably in another unit than the file states, a thousand times
    off.
    """
    modes = {
        name: entry for name, entry in costs.modes.items() if name in subject.modes
    }
    names = {item.name for item in subject.scores}
    allocators = {
        name: entry for name, entry in costs.allocators.items() if name in names
    }
    full = modes.get(subject.modes[-1], {})
    doubts = [
        f"mode {name!r} takes {entry['ms']:g} ms, as if in seconds"
        for name, entry in modes.items()
        if 0 < entry.get("ms", 0) < FASTEST_MODE_MS
    ]
    for name, entry in allocators.items():
        if 0 < entry.get("ms", 0) < FASTEST_ALLOCATOR_MS:
            doubts.append(
                f"allocator {name!r} takes {entry['ms']:g} ms, as if in seconds"
            )
        for unit, cost in entry.items():
            if unit in full and cost > TIMES_FULL * full[unit]:
                doubts.append(
                    f"allocator {name!r} costs {cost:g} {unit}, "
                    f"{cost / full[unit]:.3g} times the full mode, "
                    "as if in a smaller unit"
                )
    for name, entry in {**modes, **allocators}.items():
        ms, mj = entry.get("ms", 0), entry.get("mj", 0)
        if ms > 0 and mj > 0 and not WATTS[0] <= mj / ms <= WATTS[1]:
            doubts.append(
                f"{name!r} takes {mj:g} mJ in {ms:g} ms, which is {mj / ms:.3g} W"
            )
    for doubt in doubts:
        yield (
            f"{costs.source}: {doubt}: check that ms are milliseconds and mj "
            "millijoules per input."
        )


def _time_off(timed: Timed) -> Iterator[str]:
    """Inputs of a unit at the same time, gaps, and units whose times are probably in
    different units.
    """
    rows = np.lexsort((timed.order, timed.unit))
    unit, order = timed.unit[rows], timed.order[rows]
    inner = np.flatnonzero(unit[1:] == unit[:-1])
    step = order[inner + 1] - order[inner]
    repeated = inner[step == 0]
    if len(repeated):
        one = rows[repeated[0]]
        yield (
            f"{len(repeated):,} input{'s have' if len(repeated) > 1 else ' has'} the "
            f"order of another input of their unit (such as {timed.order[one]:g} in "
            f"{str(timed.unit_ids[timed.unit[one]])!r}): streaming takes these by id; "
            "check the column 'order'."
        )
    if (step > 0).any():
        moved = inner[step > 0]
        yield from _uneven(
            timed.unit_ids, unit[moved], step[step > 0], ends=order[moved + 1]
        )


def _uneven(
    unit_ids: Shaped[np.ndarray, "unit"],
    of: Int[np.ndarray, "step"],
    step: Float[np.ndarray, "step"],
    *,
    ends: Float[np.ndarray, "step"],
) -> Iterator[str]:
    """Notes on gaps within units, and on units whose times have different scales; steps
    stand unit by unit.
    """
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    sizes = np.diff(np.append(starts, len(of)))
    sorted_steps = step[np.lexsort((step, of))]
    usual = sorted_steps[starts + sizes // 2]
    largest = sorted_steps[starts + sizes - 1]
    units = unit_ids[of[starts]]
    wide = np.flatnonzero((largest > UNEVEN * usual) & (sizes > 2))
    if len(wide):
        one = wide[np.argmax(largest[wide] / usual[wide])]
        more = (
            (
                f", as {len(wide) - 1} more "
                f"unit{'s do' if len(wide) > 2 else ' does'} in part"
            )
            if len(wide) > 1
            else ""
        )
        yield (
            f"Unit {str(units[one])!r} has a step in 'order' of {largest[one]:g} "
            f"where its usual step is {usual[one]:g}{more}: check for missing inputs, "
            "and for times in mixed units (seconds, milliseconds)."
        )
    # Sparse inputs have long steps too, but their times do not reach further than those
    # of other units.
    reach = np.maximum.reduceat(np.abs(ends), starts)
    ascending = np.argsort(usual, kind="stable")
    ascending = ascending[sizes[ascending] > 2]
    finer = np.searchsorted(usual[ascending], usual[ascending] / UNEVEN)
    coarse, finer = ascending[finer > 0], finer[finer > 0]
    shortest = np.minimum.accumulate(reach[ascending])[finer - 1]
    apart = np.flatnonzero(reach[coarse] > UNEVEN * shortest)
    if len(apart):
        high, below = coarse[apart[-1]], ascending[: finer[apart[-1]]]
        low = below[np.argmin(reach[below])]
        yield (
            f"The usual step in 'order' is {usual[low]:g} in unit {str(units[low])!r} "
            f"and {usual[high]:g} in unit {str(units[high])!r}: check for times in "
            "mixed units (seconds, milliseconds)."
        )


def _without_score(item: Ranked) -> str:
    """The note on an allocator that has no score for some inputs, which are ranked
    last.
    """
    return (
        f"{item.name} has no score for {100 * item.missing:.3g} % of the judged "
        "inputs, which are ranked last (--missing worst): check that these were meant "
        "to be left out."
    )
