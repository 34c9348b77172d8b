"""The judged table, scores and budgets -> notes on likely mistakes: leaked answers,
duplicates, wrong units.

Each note is a function of a `Suspicion`; NOTES lists them in the order of a result.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from deepval.basics.arrays import (
    Bool,
    InputFlags,
    InputFloats,
    InputInts,
    Int,
    ModeFloats,
    PerRow,
    PerUnit,
    Shaped,
)
from deepval.judge.allowances import Allowance
from deepval.judge.bootstrap import Bootstrap
from deepval.judge.tables.costs import Costs
from deepval.judge.tables.scores import Scores
from deepval.judge.tables.values import ValueTable
from deepval.judge.tie_expectations import centred_ranks

if TYPE_CHECKING:
    from deepval.judge.tables.scans import ScannedScores, ScannedTable

Rows = Int[np.ndarray, "row"]
"""Positions of some inputs in a table."""
LOOKED_AT = 20_000
"""Number of inputs that checks for mistakes use; from a larger table, they use those of
its first units.
"""
LEAST = 40
"""Smallest number of inputs with something to rank."""
AGREEMENT = 0.9
"""Smallest rank agreement with a hidden quantity for a note on a score. This and the
next two are calibrated in docs/statistics.md."""
SEPARATION = 0.99
"""The same where all values of the quantity other than zero are equal."""
SMALLEST = 0.25
"""Share of the values other than zero, the smallest, that are left out: a little noise
would change their order."""
COPIES = 20
"""Pairs of losses that must stand at several inputs for a note on duplicated inputs;
different pairs, round or not, that two units must share for one on duplicated units."""
COPIED_SHARE = 0.05
"""Their share of all pairs of losses."""
PAIRS_OF_UNIT = 5
"""Different pairs, not round, that two units must share for a note."""
DIGITS = 6
"""Up to so many digits, a loss is a round number."""
FASTEST_MODE_MS = 0.1
FASTEST_ALLOCATOR_MS = 0.01
"""Latencies below which a figure is probably in seconds."""
TIMES_FULL = 10.0
"""An allocator may cost up to so many times the full mode."""
LEAST_WATTS = 0.05
MOST_WATTS = 10_000.0
"""The power that millijoules per millisecond can come to."""
UNEVEN = 100.0
"""A step in time is noted if it is this many times the median step of its unit; units
are if both their median steps and their latest times differ by more than this."""


@dataclass(frozen=True, eq=False)
class Timed:
    """Inputs by unit and time.

    Attributes:
        unit_ids: Ids of the units.
        unit: The unit of each input.
        order: Its time.
    """

    unit_ids: Shaped[np.ndarray, "unit"]
    unit: InputInts
    order: InputFloats

    @classmethod
    def of(cls, tables: Sequence[ValueTable]) -> "Timed | None":
        """The inputs of tables with different units; None where there is no time."""
        units = []
        orders = []
        units_before = 0
        for table in tables:
            if table.order is None:
                return None
            units.append(table.unit + units_before)
            orders.append(table.order)
            units_before += len(table.unit_ids)
        unit = np.concatenate(units)
        order = np.concatenate(orders)
        rows = np.lexsort((order, unit))
        unit_ids = np.concatenate([table.unit_ids for table in tables])
        return cls(unit_ids, unit[rows], order[rows])

    @property
    def later(self) -> Int[np.ndarray, "step"]:
        """The inputs that have an earlier one of the same unit, or one as early."""
        return np.flatnonzero(np.diff(self.unit) == 0) + 1


@dataclass(frozen=True, eq=False)
class Suspect:
    """An allocator's scores of the inputs that are checked.

    Attributes:
        name: The allocator's name.
        kind: Whether a vehicle could compute the scores.
        values: The scores; if there are scores per mode, those of the full mode.
        covered: Which inputs came with a score.
        missing: Share of all judged inputs without a score.
        fitted: Judged units that the allocator was fitted on.
        ascending: The inputs by rising score, where they are sorted already.
    """

    name: str
    kind: str
    values: InputFloats
    covered: InputFlags
    missing: float
    fitted: tuple[str, ...] = ()
    ascending: Rows | None = None


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What is checked for mistakes.

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
    """

    modes: Sequence[str]
    costs: Costs | None
    cheap: InputFloats
    full: InputFloats
    following: InputInts | None
    scores: Sequence[Suspect]
    timed: Timed | None = None
    table: ValueTable | None = None


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
    units = len(table.unit_ids)
    if len(table) > LOOKED_AT:
        inputs = np.cumsum(bootstrap.by_unit.inputs)
        units = int(np.searchsorted(inputs, LOOKED_AT, side="right"))
    # Not even the first unit may be short enough: then a part of it is checked.
    rows = np.flatnonzero(table.unit < max(units, 1))[:LOOKED_AT]
    is_checked = np.zeros(len(table), dtype=bool)
    is_checked[rows] = True
    checked = table.keep(is_checked)

    timed = None
    following = None
    if units > 0:
        timed = Timed.of([checked])
        following = next_rows(checked.unit, checked.order)
    if calibrated_on is not None:
        timed = Timed.of([calibrated_on, table])
    return notes_on_mistakes(
        Suspicion(
            modes=table.modes,
            costs=_costs(allowances, table.costs),
            cheap=checked.losses[:, 0],
            full=checked.losses[:, -1],
            following=following,
            scores=[_suspect(item, table, rows) for item in scores],
            timed=timed,
            table=table,
        )
    )


def _suspect(scores: Scores, table: ValueTable, rows: Rows) -> Suspect:
    """The scores of some inputs of a table."""
    values = scores.values[rows]
    if values.ndim == 2:
        values = values[:, -1]
    fitted = ()
    if scores.fit is not None:
        inside = np.unique(table.unit[scores.fit.inside])
        fitted = tuple(table.unit_ids[inside].tolist())
    ascending = None
    if not scores.modes and len(rows) == len(table):
        ascending = scores.order[::-1]
    return Suspect(
        name=scores.name,
        kind=scores.kind,
        values=values,
        covered=scores.covered[rows],
        missing=1 - float(scores.covered.mean()),
        fitted=fitted,
        ascending=ascending,
    )


def notes_on_disk(
    table: "ScannedTable",
    scores: "Sequence[ScannedScores]",
    allowances: Sequence[Allowance],
) -> list[str]:
    """Notes on likely mistakes in a table on disk.

    Only its sample is checked, and there without the checks that need neighbours in
    time.
    """
    step = max(1, math.ceil(len(table.sample) / LOOKED_AT))
    cheap, full = table.sample_losses
    suspects = []
    for item in scores:
        values = item.sample[::step]
        covered = (values > -math.inf) | (item.covered == 1)
        suspects.append(
            Suspect(item.name, item.kind, values, covered, 1 - item.covered)
        )
    return notes_on_mistakes(
        Suspicion(
            modes=table.modes,
            costs=_costs(allowances, table.costs),
            cheap=cheap[::step],
            full=full[::step],
            following=None,
            scores=suspects,
        )
    )


def _costs(allowances: Sequence[Allowance], of_table: Costs | None) -> Costs | None:
    """The costs that are charged, or would be."""
    for allowance in allowances:
        if allowance.costs:
            return allowance.costs
    return of_table


def notes_on_mistakes(suspicion: Suspicion) -> list[str]:
    """Notes on likely mistakes in losses, scores, costs or times: one sentence each,
    with advice on what to check.
    """
    notes = []
    for note in NOTES:
        notes.extend(note(suspicion))
    return notes


def next_rows(unit: InputInts, order: InputFloats | None) -> InputInts:
    """The next input of the same unit in time, or in the order of rows where there is
    no time; -1 for the last.
    """
    rows = _rows_in_time(unit, order)
    following = np.full(len(unit), -1)
    same = unit[rows[1:]] == unit[rows[:-1]]
    following[rows[:-1][same]] = rows[1:][same]
    return following


def _rows_in_time(unit: InputInts, order: InputFloats | None) -> InputInts:
    if order is None:
        return np.argsort(unit, kind="stable")
    return np.lexsort((order, unit))


@dataclass(frozen=True, eq=False)
class HiddenQuantity:
    """A quantity that is unknown before escalation, of some inputs.

    Attributes:
        words: What it is called.
        rows: The inputs.
        values: The quantity of each.
        ranks: Centred ranks, equal for equal values, of all inputs; 0, the mean, for
            the others.
    """

    words: str
    rows: Rows
    values: PerRow
    ranks: InputFloats

    @cached_property
    def least_product(self) -> float:
        """The least sum of products with the places of a score that may agree."""
        return 0.9 * AGREEMENT * _product(self.ranks, self.ranks)

    @classmethod
    def of(
        cls, words: str, rows: Rows, values: PerRow, inputs: int
    ) -> "HiddenQuantity":
        """The quantity without its smallest values other than zero."""
        size = np.abs(values)
        other = np.sort(size[size > 0])
        least = 0.0
        if len(other):
            least = other[int(SMALLEST * len(other))]
        is_used = (size == 0) | (size >= least)
        ranks = np.zeros(inputs)
        ranks[rows[is_used]] = centred_ranks(values[is_used])
        return cls(words, rows[is_used], values[is_used], ranks)


def hidden_quantities(suspicion: Suspicion) -> list[HiddenQuantity]:
    """Quantities by which a score must not be able to order inputs."""
    value = suspicion.cheap - suspicion.full
    inputs = len(value)
    rows = np.arange(inputs)
    hidden = [
        HiddenQuantity.of("their decision values", rows, value, inputs),
        HiddenQuantity.of(
            "minus their full losses", rows, 0.0 - suspicion.full, inputs
        ),
        HiddenQuantity.of("their cheap losses", rows, suspicion.cheap, inputs),
    ]
    if suspicion.following is not None:
        rows = np.flatnonzero(suspicion.following >= 0)
        next_value = value[suspicion.following[rows]]
        words = "the decision values of the next inputs"
        hidden.append(HiddenQuantity.of(words, rows, next_value, inputs))
    return hidden


def rank_agreement(score: PerRow, answer: PerRow) -> float:
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
    if not most > 0:
        return math.nan
    return _product(ranks, centred_ranks(score)) / most


def _product(one: PerRow, other: PerRow) -> float:
    """Sum of products, without the threads of a matrix product: starting them takes
    longer than the sum.
    """
    return float(np.einsum("i,i", one, other))


def _leaked_answers(suspicion: Suspicion) -> Iterator[str]:
    """Scores that order inputs nearly as losses do, which are not available to a
    vehicle before escalation.
    """
    hidden = hidden_quantities(suspicion)
    for suspect in suspicion.scores:
        if suspect.kind == "diagnostic" or len(suspect.values) < LEAST:
            continue
        most = 0.0
        words = ""
        places = _places(suspect)
        for quantity in hidden:
            # Mostly no agreement is near, and then no ranks are needed to see it.
            may_agree = _product(quantity.ranks, places) >= quantity.least_product
            if may_agree or not suspect.covered.all():
                agreement = _agreement(suspect, quantity)
                if agreement > most:
                    most = agreement
                    words = quantity.words
        if words:
            yield (
                f"{suspect.name} orders inputs nearly as {words} do (rank agreement "
                f"{most:.3g}), which nothing can before escalation: check "
                "that no loss went into the scores, and that "
                "each is of the right input."
            )


def _places(suspect: Suspect) -> InputFloats:
    """The place of each input by rising score, centred: ranks but for equal scores.

    They are spread wider than ranks among some inputs, so that a product with them
    misses no quantity that is defined for some only.
    """
    ascending = suspect.ascending
    if ascending is None:
        ascending = np.argsort(suspect.values)
    places = np.empty(len(ascending))
    places[ascending] = np.arange(len(ascending)) - (len(ascending) - 1) / 2
    return places


def _agreement(suspect: Suspect, quantity: HiddenQuantity) -> float:
    """The agreement over all inputs or over those whose quantity is not zero, whichever
    is less; 0 if it is too low.
    """
    is_covered = suspect.covered[quantity.rows]
    score = suspect.values[quantity.rows][is_covered]
    values = quantity.values[is_covered]
    some = values != 0
    if np.count_nonzero(some) < LEAST:
        return 0.0
    agreement = rank_agreement(score, values)
    within = rank_agreement(score[some], values[some])
    needed = SEPARATION
    if not math.isnan(within):
        agreement = min(agreement, within)
        needed = AGREEMENT
    return agreement if agreement >= needed else 0.0


def _copies(suspicion: Suspicion) -> list[str]:
    """Duplicated units or, where there are none, duplicated inputs."""
    if suspicion.table is None:
        return []
    return _equal_units(suspicion.table) or _equal_inputs(suspicion.table)


def _equal_units(table: ValueTable) -> list[str]:
    """Units with the same losses in the same order as an earlier unit; few different
    losses are no evidence.
    """
    rows = _rows_of_alike_units(table)
    order = table.order
    if order is not None:
        order = order[rows]
    rows = rows[_rows_in_time(table.unit[rows], order)]
    first: dict[bytes, str] = {}
    pairs = []
    for part in np.split(rows, np.flatnonzero(np.diff(table.unit[rows])) + 1):
        if not len(part):
            continue
        losses = table.losses[part]
        name = str(table.unit_ids[table.unit[part[0]]])
        earlier = first.setdefault(losses.tobytes(), name)
        if earlier != name and _conclusive(losses):
            pairs.append((earlier, name))
    if not pairs:
        return []
    one, other = pairs[0]
    more = ""
    if len(pairs) > 1:
        more = f", and so do {_number(len(pairs) - 1, 'more pair')}"
    return [
        f"Units {one!r} and {other!r} hold exactly the same losses in the same order"
        f"{more}: check whether units were duplicated under other names, which makes "
        "intervals too narrow."
    ]


def _rows_of_alike_units(table: ValueTable) -> Rows:
    """The inputs of units whose sum of losses is that of another unit."""
    inputs = np.bincount(table.unit)
    mixed = table.losses[:, 0] + 0.754877666 * table.losses[:, -1]
    # Sums of the same losses in another order of rows differ in their last digits only.
    digits = np.round(np.frexp(np.bincount(table.unit, mixed))[0], 9)
    _, group, number = np.unique(digits, return_inverse=True, return_counts=True)
    # Units without any loss have the same sum by nature.
    is_alike = (number[group] > 1) & (digits != 0) & (inputs >= PAIRS_OF_UNIT)
    alike = np.flatnonzero(is_alike)
    alike = alike[np.argsort(digits[alike], kind="stable")]
    most = max(LOOKED_AT, 2 * int(inputs.max(initial=0)))
    alike = alike[np.cumsum(inputs[alike]) <= most]
    return np.flatnonzero(np.isin(table.unit, alike))


def _conclusive(losses: ModeFloats) -> bool:
    """Whether two units cannot have these losses by chance: enough of them are
    different. Round ones count less.
    """
    different = np.unique(losses, axis=0)
    exact = int(np.count_nonzero(_many_digits(different[:, 0])))
    return len(different) >= COPIES or exact >= PAIRS_OF_UNIT


def _equal_inputs(table: ValueTable) -> list[str]:
    """Inputs that have exactly the losses of another, to more digits than round numbers
    have.
    """
    rows = np.arange(len(table))
    if len(table) > 2 * LOOKED_AT:
        rows = _rows_by_value(table.losses[:, 0])
    losses = table.losses[:, [0, -1]]
    # A vehicle that stands still has the same losses in frame after frame, so a run of
    # equal rows counts once.
    before = np.maximum(rows - 1, 0)
    is_run = (losses[before] == losses[rows]).all(axis=1)
    is_run &= (table.unit[before] == table.unit[rows]) & (rows > 0)
    rows = rows[_many_digits(losses[rows, 0]) & ~is_run]
    # Mostly no cheap losses are equal: to sort these alone takes a tenth of the time.
    cheap = np.sort(losses[rows, 0])
    if np.count_nonzero(cheap[1:] == cheap[:-1]) < COPIES:
        return []
    # The order of equal inputs stays that of the table.
    rows = rows[np.lexsort((losses[rows, 1], losses[rows, 0]))]
    is_copy = (losses[rows[1:]] == losses[rows[:-1]]).all(axis=1)
    # Three equal inputs are one pair of losses that stands at several inputs.
    begins = np.flatnonzero(np.diff(is_copy, prepend=False) & is_copy)
    pairs = len(rows) - np.count_nonzero(is_copy)
    if len(begins) < max(COPIES, COPIED_SHARE * pairs) or pairs < len(rows) / 4:
        return []
    one, other = table.input[rows[begins[0] : begins[0] + 2]]
    return [
        f"{len(begins):,} of {pairs:,} different pairs of losses stand at several "
        f"inputs to the last digit, such as {str(one)!r} and {str(other)!r}: check "
        "whether inputs were duplicated under other ids."
    ]


def _many_digits(numbers: PerRow) -> Bool[np.ndarray, "row"]:
    """Which numbers have more than `DIGITS` significant digits."""
    size = np.abs(numbers)
    some = (size > 1e-200) & (size < 1e200)
    unit = 10.0 ** (np.floor(np.log10(np.where(some, size, 1.0))) - (DIGITS - 1))
    return some & (np.abs(size - np.rint(size / unit) * unit) > 1e-12 * size)


def _rows_by_value(column: InputFloats) -> Rows:
    """Rows of a long column whose values are in one part of all values; equal values
    are in the same part.
    """
    bits = math.ceil(math.log2(len(column) / (2 * LOOKED_AT)))
    numbers = np.ascontiguousarray(column, dtype=np.float64).view(np.uint64)
    # The highest bits of a product with an odd number depend on all bits of a value.
    part = (numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits)
    return np.flatnonzero(part == 1)[: 4 * LOOKED_AT]


def _fit_overlap(suspicion: Suspicion) -> Iterator[str]:
    """Allocators that are judged on units that they were fitted on."""
    for suspect in suspicion.scores:
        if suspect.fitted:
            some = ", ".join(suspect.fitted[:3])
            if len(suspect.fitted) > 3:
                some += ", ..."
            yield (
                f"{suspect.name} was fitted on {len(suspect.fitted)} of the judged "
                f"units ({some}): its gain there is no evidence for other units; judge "
                "it on units that it was not fitted on."
            )


def _costs_in_other_units(suspicion: Suspicion) -> Iterator[str]:
    """Costs that are probably in another unit than the file states, a thousand times
    off.
    """
    if suspicion.costs is None:
        return
    for doubt in _doubts_on_costs(suspicion, suspicion.costs):
        yield (
            f"{suspicion.costs.source}: {doubt}: check that ms are milliseconds and mj "
            "millijoules per input."
        )


def _doubts_on_costs(suspicion: Suspicion, costs: Costs) -> Iterator[str]:
    names = [suspect.name for suspect in suspicion.scores]
    modes = {mode: own for mode, own in costs.modes.items() if mode in suspicion.modes}
    allocators = {name: own for name, own in costs.allocators.items() if name in names}
    full = modes.get(suspicion.modes[-1], {})
    for name, own in modes.items():
        if 0 < own.get("ms", 0) < FASTEST_MODE_MS:
            yield f"mode {name!r} takes {own['ms']:g} ms, as if in seconds"
    for name, own in allocators.items():
        if 0 < own.get("ms", 0) < FASTEST_ALLOCATOR_MS:
            yield f"allocator {name!r} takes {own['ms']:g} ms, as if in seconds"
        for unit, cost in own.items():
            if unit in full and cost > TIMES_FULL * full[unit]:
                yield (
                    f"allocator {name!r} costs {cost:g} {unit}, "
                    f"{cost / full[unit]:.3g} times the full mode, "
                    "as if in a smaller unit"
                )
    for name, own in (modes | allocators).items():
        ms = own.get("ms", 0)
        mj = own.get("mj", 0)
        if ms > 0 and mj > 0 and not LEAST_WATTS <= mj / ms <= MOST_WATTS:
            yield f"{name!r} takes {mj:g} mJ in {ms:g} ms, which is {mj / ms:.3g} W"


def _repeated_times(suspicion: Suspicion) -> Iterator[str]:
    """Inputs of a unit at the same time."""
    timed = suspicion.timed
    if timed is None:
        return
    later = timed.later
    repeated = later[timed.order[later] == timed.order[later - 1]]
    if len(repeated):
        unit = str(timed.unit_ids[timed.unit[repeated[0]]])
        have = "input has" if len(repeated) == 1 else "inputs have"
        yield (
            f"{len(repeated):,} {have} the order of another input of their unit (such "
            f"as {timed.order[repeated[0]]:g} in {unit!r}): streaming takes these by "
            "id; check the column 'order'."
        )


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps in time of the units that have some.

    Attributes:
        unit_ids: Ids of these units.
        number: Number of steps.
        usual: The median step.
        largest: The largest one.
        reach: The latest time.
    """

    unit_ids: Shaped[np.ndarray, "unit"]
    number: Int[np.ndarray, "unit"]
    usual: PerUnit
    largest: PerUnit
    reach: PerUnit

    @classmethod
    def of(cls, timed: Timed) -> "Steps | None":
        """The steps of inputs in time; None where no unit has one."""
        later = timed.later
        later = later[timed.order[later] > timed.order[later - 1]]
        if not len(later):
            return None
        unit = timed.unit[later]
        step = timed.order[later] - timed.order[later - 1]
        starts = np.flatnonzero(np.diff(unit, prepend=-1))
        number = np.diff(starts, append=len(unit))
        ascending = step[np.lexsort((step, unit))]
        return cls(
            unit_ids=timed.unit_ids[unit[starts]],
            number=number,
            usual=ascending[starts + number // 2],
            largest=ascending[starts + number - 1],
            reach=np.maximum.reduceat(np.abs(timed.order[later]), starts),
        )


def _uneven_times(suspicion: Suspicion) -> Iterator[str]:
    """Gaps within units, and units whose times are probably in different units."""
    steps = None
    if suspicion.timed is not None:
        steps = Steps.of(suspicion.timed)
    if steps is not None:
        yield from _gaps(steps)
        yield from _mixed_scales(steps)


def _gaps(steps: Steps) -> Iterator[str]:
    # Of two steps, neither is usual.
    has_gap = (steps.largest > UNEVEN * steps.usual) & (steps.number > 2)
    units = np.flatnonzero(has_gap)
    if not len(units):
        return
    one = units[np.argmax(steps.largest[units] / steps.usual[units])]
    more = ""
    if len(units) > 1:
        do = "does" if len(units) == 2 else "do"
        more = f", as {_number(len(units) - 1, 'more unit')} {do} in part"
    yield (
        f"Unit {str(steps.unit_ids[one])!r} has a step in 'order' of "
        f"{steps.largest[one]:g} where its usual step is {steps.usual[one]:g}{more}: "
        "check for missing inputs, and for times in mixed units (seconds, "
        "milliseconds)."
    )


def _mixed_scales(steps: Steps) -> Iterator[str]:
    ascending = np.argsort(steps.usual, kind="stable")
    ascending = ascending[steps.number[ascending] > 2]
    usual = steps.usual[ascending]
    reach = steps.reach[ascending]
    # Sparse inputs have long steps too, but their times do not reach further than those
    # of other units.
    finer = np.searchsorted(usual, usual / UNEVEN)
    shortest = np.minimum.accumulate(reach)[finer - 1]
    apart = np.flatnonzero((finer > 0) & (reach > UNEVEN * shortest))
    if len(apart):
        high = ascending[apart[-1]]
        low = ascending[np.argmin(reach[: finer[apart[-1]]])]
        yield (
            f"The usual step in 'order' is {steps.usual[low]:g} in unit "
            f"{str(steps.unit_ids[low])!r} and {steps.usual[high]:g} in unit "
            f"{str(steps.unit_ids[high])!r}: check for times in mixed units (seconds, "
            "milliseconds)."
        )


def _without_score(suspicion: Suspicion) -> Iterator[str]:
    """Allocators that have no score for some inputs, which are ranked last."""
    for suspect in suspicion.scores:
        if suspect.missing:
            yield (
                f"{suspect.name} has no score for {100 * suspect.missing:.3g} % of the "
                "judged inputs, which are ranked last (--missing worst): check that "
                "these were meant to be left out."
            )


def _number(number: int, what: str) -> str:
    """A number with a word in singular or plural."""
    return f"{number} {what}{'s' * (number > 1)}"


NOTES = (
    _leaked_answers,
    _copies,
    _fit_overlap,
    _costs_in_other_units,
    _repeated_times,
    _uneven_times,
    _without_score,
)
"""All notes, in the order of a result."""
