"""Records of a result: budgets, reasons for None, and the rows of every allocator and
policy under every budget.

A record is a frozen dataclass that reads as a mapping of the columns that are written.
A field is one column, but an `Estimate` is three (value and bounds) and `Bounds` are
two; these are flat only in the mapping.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, get_args

KINDS = ("selection", "latency", "energy", "money")
"""Kinds of budgets: the first counts escalations, the others charge what modes and
allocators cost.
"""
MEASURED = KINDS[1:]
ALWAYS = "always"
"""How reports name the row `all-full`."""
ALWAYS_MODE = f"{ALWAYS} "
"""What the name of a row begins with that runs one mode on every input."""
TABLE_BY = "table by "
"""What the name of a row begins with that runs the mode of a group."""
UNITS = {
    "ms": "ms",
    "mj": "mJ",
    "mj_gpu": "mJ, GPU rail",
    "mj_all": "mJ, all rails",
    "usd": "USD",
}
"""Unit of each convention, as written in reports."""


@dataclass(frozen=True)
class BudgetKey:
    """The fields that identify a budget; different budgets have different labels.

    Attributes:
        kind: selection, latency, energy or money.
        alpha: Share of the inputs that a zero-cost allocator could escalate.
        convention: ms, mj, mj_gpu, mj_all or usd under a measured budget.
        accounting: cascade or skipping under a measured budget.
    """

    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "BudgetKey":
        """The key of a row, or of anything else that names its budget."""
        return cls(
            entry["kind"],
            entry["alpha"],
            entry.get("convention"),
            entry.get("accounting"),
        )

    def holds(self, **requested: Any) -> bool:
        """Whether the budget matches the requested fields; None matches any value, and
        shares match up to rounding.
        """
        for part, value in requested.items():
            if value is None:
                continue
            own = getattr(self, part)
            is_alike = math.isclose(own, value) if part == "alpha" else own == value
            if not is_alike:
                return False
        return True

    @property
    def unit(self) -> str:
        """The unit of the budget, with `skipping` unless it charges a cascade; empty
        for a selection budget.
        """
        parts = []
        if self.convention is not None:
            parts.append(UNITS[self.convention])
        if self.accounting == "skipping":
            parts.append("skipping")
        return ", ".join(parts)

    @property
    def label(self) -> str:
        """The budget in words, such as `latency 20% (ms, skipping)`."""
        label = f"{self.kind} {100 * self.alpha:.6g}%"
        return label if self.convention is None else f"{label} ({self.unit})"


class Bounds(NamedTuple):
    """Lower and upper bound of an interval."""

    low: float
    high: float


class Estimate(float):
    """A number with the bounds of its 95 % interval, which are None where there is
    none.
    """

    __slots__ = ("high", "low")
    low: float | None
    high: float | None

    def __new__(
        cls, value: float, low: float | None = None, high: float | None = None
    ) -> "Estimate":
        """The value with these bounds."""
        estimate = super().__new__(cls, value)
        estimate.low = low
        estimate.high = high
        return estimate

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (self.real, self.low, self.high)

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None where there is none."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2

    @classmethod
    def of(
        cls, value: float | None, low: float | None = None, high: float | None = None
    ) -> "Estimate | None":
        """The estimate; None where the value is None or NaN."""
        if value is None or math.isnan(value):
            return None
        return cls(value, low, high)


LO_HI = {"bounds": ("lo", "hi")}
"""Metadata of a field whose bounds are columns of these names, not NAME_lo and
NAME_hi.
"""
AnyRecord = TypeVar("AnyRecord", bound="Record")
AnyRow = TypeVar("AnyRow")
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Column(NamedTuple):
    """The form of a column's values, and whether it is required."""

    form: Any
    required: bool = False


class Record(Mapping[str, Any]):
    """A frozen dataclass that reads as a mapping of columns.

    The ends of an interval are attributes, too, as `row.ndg_lo`. Records with the same
    columns are equal.
    """

    @classmethod
    @cache
    def columns(cls) -> Mapping[str, Column]:
        """The columns by name, in the order in which they are written."""
        columns = {}
        for item in cls.__dataclass_fields__.values():
            form = item.type
            required = item.default is MISSING and item.default_factory is MISSING
            if _holds(Estimate, form):
                form = float | None if _holds(NoneType, form) else float
            if not _holds(Bounds, form):
                columns[item.name] = Column(form, required)
            for name in cls.ends().get(item.name, ()):
                columns[name] = Column(float | None)
        return columns

    @classmethod
    @cache
    def ends(cls) -> Mapping[str, tuple[str, str]]:
        """The fields that have an interval -> the columns of its ends."""
        ends = {}
        for name, item in cls.__dataclass_fields__.items():
            if _holds(Estimate, item.type) or _holds(Bounds, item.type):
                usual = (f"{name}_lo", f"{name}_hi")
                ends[name] = item.metadata.get("bounds", usual)
        return ends

    @classmethod
    def of_columns(cls: type[AnyRecord], columns: Mapping[str, Any]) -> AnyRecord:
        """The record that has these columns."""
        values = dict(columns)
        for name, (name_of_low, name_of_high) in cls.ends().items():
            low = values.pop(name_of_low, None)
            high = values.pop(name_of_high, None)
            if name in cls.columns():
                values[name] = Estimate.of(values.get(name), low, high)
            else:
                values[name] = None
                if low is not None and high is not None:
                    values[name] = Bounds(low, high)
        return cls(**values)

    def __post_init__(self) -> None:
        for name, (low, high) in self.ends().items():
            interval = getattr(self, name)
            # A field may be None, and an estimate may have no interval.
            object.__setattr__(self, low, getattr(interval, "low", None))
            object.__setattr__(self, high, getattr(interval, "high", None))

    def __getitem__(self, key: str) -> Any:
        if key not in self.columns():
            raise KeyError(key)
        value = getattr(self, key)
        return value.real if isinstance(value, Estimate) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns())

    def __len__(self) -> int:
        return len(self.columns())

    def __hash__(self) -> int:
        return hash(tuple(self.values()))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> float | None:
            """The ends of intervals, which are set with the fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


def _holds(kind: type, form: Any) -> bool:
    """Whether an annotation is a type, or names it among others."""
    return kind in (get_args(form) or (form,))


class BudgetRecord(Record):
    """A record under one budget, identified by its kind, alpha, convention and
    accounting.
    """

    @property
    def budget(self) -> BudgetKey:
        """The key of its budget."""
        return BudgetKey.of(vars(self))

    @property
    def name(self) -> str:
        """The allocator as reports name it: `always` for `all-full`."""
        allocator = vars(self)["allocator"]
        return ALWAYS if allocator == "all-full" else allocator


@dataclass(frozen=True, eq=False)
class AllocatorRecord(BudgetRecord):
    """A record of one allocator under one budget."""

    allocator: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None


def row_from(record: Any, kind: type[AnyRow], **values: Any) -> AnyRow:
    """A row of a dataclass with these values; every other field has the record's value
    of the same name.
    """
    row: Any = kind
    shared = {
        item.name: getattr(record, item.name)
        for item in fields(row)
        if item.name not in values
    }
    return kind(**shared, **values)


def lists_by_key(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of each key, in order; keys in order of appearance."""
    items: dict[Key, list[Item]] = {}
    for key, item in pairs:
        items.setdefault(key, []).append(item)
    return items


def known(value: float) -> float | None:
    """A number, or None where it is NaN."""
    return None if math.isnan(value) else float(value)


class Reason(Enum):
    """A reason; `text` replaces the fields in braces with figures."""

    NO_PRIZE = "the oracle gains nothing: no nDG"
    NO_SLOT = (
        "the budget of {percent:.4g} % of {inputs} inputs allows no escalation: no nDG"
    )
    NO_PRIZED_DRAW = "no draw has a quarter of the prize: no nDG interval"
    NO_SHARE = "the all-cheap loss is not positive: no share of it"
    NO_SHARE_DRAWN = (
        "no draw has a positive all-cheap loss: no interval of a share of it"
    )
    SINGLE_UNIT = "a single unit: no interval"
    NO_DRAWS = "no draws: no interval"
    BEYOND_SELECTION = "always escalating exceeds the budget, so it has no nDG"
    FIXED = "a fixed mode chooses no inputs: no nDG"
    FULL_TOO_DEAR = "infeasible: the full mode alone fits from alpha = {alpha:.4g}"
    TOO_DEAR = (
        "infeasible: costs {cost:g} {convention} per input, "
        "the budget leaves {limit:.4g}"
    )
    NO_COST = "no cost known"
    DIAGNOSTIC = (
        "no cost known: a diagnostic uses the answer, which no vehicle has, so there "
        "is no cost to charge"
    )
    NOTHING_LEFT = "the allocator's own cost leaves nothing to escalate"
    NO_SKIPPING = (
        "routers that choose among three or more models cannot yet "
        "be charged for one call only"
    )
    RATE_ONLY = (
        "streaming policies keep a rate of inputs, and here each input has its own "
        "cost: none is judged"
    )
    INFINITE_CUT = "the cut is at {cut}: no threshold separates these inputs"
    OWN_PRICES = "each input has its own cost: no one price per mode"
    NO_GAP = "the full mode is no better than the cheap one in all: no gap to recover"
    NO_RANKING = "per-mode scores are not one ranking"
    NOT_IN_MEMORY = "the table is larger than memory: no break-even"
    OTHER_ORACLES = "nDG of {one} and nDG of {other} have no difference"

    def text(self, **figures: float | str | None) -> str:
        """The reason in words."""
        return self.value.format(**figures)


def joined(reasons: Iterable[Reason | str | None]) -> str | None:
    """The distinct reasons as one text; None without any."""
    texts = (
        reason.text() if isinstance(reason, Reason) else reason
        for reason in reasons
        if reason
    )
    return "; ".join(dict.fromkeys(texts)) or None


FEW_UNITS = 3.0
"""Effective units below which a verdict is one on few units (docs/statistics.md, How
far to trust 95 %).
"""


def in_words(
    verdict: str | None, *, effective_units: float | None, rests_on: str | None = None
) -> str | None:
    """The verdict; a decided one with its weakness: `better on few units, but rests on
    0007`.

    Args:
        verdict: As in `Row`.
        effective_units: Number of equal units that would be as uneven; None or NaN
            without a possible gain.
        rests_on: The unit without which the verdict changes, if there is one.
    """
    if verdict not in ("better", "worse"):
        return verdict
    words = verdict
    if effective_units is not None and effective_units < FEW_UNITS:
        words += " on few units"
    if rests_on is not None:
        words += f", but rests on {rests_on}"
    return words


@dataclass(frozen=True, eq=False, repr=False)
class Row(AllocatorRecord):
    """One allocator under one budget.

    Attributes:
        allocator: Its name. References have no verdict: `random`, `never` (escalates
            nothing), `all-full` (escalates everything; shown as `always`) and `oracle`,
            and with three modes or more `random-ladder` and `oracle-ladder`.
        kind: selection, latency, energy or money.
        alpha: Share of the inputs that a zero-cost allocator could escalate.
        convention: ms, mj, mj_gpu, mj_all or usd under a measured budget.
        accounting: cascade or skipping under a measured budget.
        spender: The router that chooses modes itself and whose own spend is the budget;
            None for any other budget.
        slice: Group of inputs that was judged, such as weather=rain; None for all.
        cost: What the allocator is charged per input, in units of the convention.
        inputs: Number of inputs judged.
        units: Number of units judged.
        cheap_loss: All-cheap loss of those inputs.
        slots: k, how many inputs may be escalated after the allocator has paid for
            itself.
        escalated: Expected number of inputs escalated.
        ties: Share of the selection that tie-breaks decide, not the score.
        gain: Sum of decision values over what is escalated.
        gain_share: gain / all-cheap loss.
        benefit: Positive part of the gain.
        harm: Negative part of the gain, as a positive number.
        oracle_gain: What a zero-cost oracle reaches under the same budget.
        oracle: Which one: `oracle` (full mode only) or, for per-mode scores,
            `oracle-ladder`.
        ndg: gain / oracle_gain.
        ndg_lo: Lower bound of its 95 % interval, draws with a small prize left out.
        ndg_hi: Upper bound.
        ndg_without_lo: Smallest nDG when any one unit is left out.
        ndg_without_hi: Largest.
        ndg_without_unit: The unit whose absence gives the smallest.
        chance: What stands for random below: `random` (full mode only) or, for per-mode
            scores, `random-ladder`.
        versus_random: (gain - random's gain) / all-cheap loss.
        versus_random_lo: Lower bound of its paired 95 % interval.
        versus_random_hi: Upper bound.
        versus_random_spread: Standard deviation over the draws: what `units_to_resolve`
            plans with.
        versus_random_simultaneous_lo: Lower bound that holds for all rows of the table
            at once, where asked for.
        versus_random_simultaneous_hi: Upper bound.
        versus_random_loss: The same difference in units of the loss, gain - random's
            gain.
        versus_random_loss_lo: Lower bound of its paired 95 % interval.
        versus_random_loss_hi: Upper bound.
        versus_random_loss_simultaneous_lo: Lower bound that holds for all rows of the
            table at once, where asked for.
        versus_random_loss_simultaneous_hi: Upper bound.
        versus_random_unit: share, or loss where the all-cheap loss is not positive or
            nearly zero: how to read it.
        versus_random_second_lo: Lower bound of the second opinion on `versus_random`,
            for few or unequal units.
        versus_random_second_hi: Upper bound.
        versus_random_loss_second_lo: Lower bound of the second opinion on
            `versus_random_loss`.
        versus_random_loss_second_hi: Upper bound.
        verdict: better, worse or unresolved against random; infeasible where the
            allocator cannot pay for itself; None without an interval. It is based on
            the share, or on the loss where the share is undefined.
        verdict_words: The verdict and its weakness: better on few units (the possible
            gain comes from fewer than 3), better, but rests on 0007 (without that unit
            the verdict changes).
        rests_on: That unit; of several, the one whose absence contradicts the verdict
            most.
        units_left_out: Number of units that were left out in turn; 0 where none was:
            the verdict is not decided, there are fewer than 3 or more than 100 units,
            scores are per mode, or only a group of the inputs is judged.
        second_verdict: Verdict of the second opinion: better, worse or unresolved; None
            without an interval. Without draws, the second opinion comes from the
            samples without one unit each (docs/guarantees.md).
        next_unit_lo: Difference with random of the worst unit, in units of the loss;
            divided by `cheap_loss` / `units_compared` it has the scale of
            `versus_random`. At most one new unit in `units_compared` + 1 is worse. None
            where there is no verdict or scores are per mode, and in groups of inputs.
        next_unit_hi: Difference of the best unit.
        units_compared: Number of units with inputs, which those two are among; 0 where
            they are None.
        break_even_unit: How large one more unit against the others would have to be,
            in multiples of the largest difference of a unit, to end the verdict; 0
            where it would take none.
        cancelling_unit: The same, to bring the total difference to 0.
        versus_never: Gain over never escalating / all-cheap loss: `gain_share`, with an
            interval.
        versus_never_lo: Lower bound of its 95 % interval, from the same draws and by
            the same rules as against random.
        versus_never_hi: Upper bound.
        versus_never_loss: The same in units of the loss.
        versus_never_loss_lo: Lower bound of its 95 % interval.
        versus_never_loss_hi: Upper bound.
        never_verdict: better, worse or unresolved against never escalating.
        versus_always: (gain - gain of always escalating) / all-cheap loss.
        versus_always_lo: Lower bound of its paired 95 % interval.
        versus_always_hi: Upper bound.
        versus_always_loss: The same in units of the loss.
        versus_always_loss_lo: Lower bound of its paired 95 % interval.
        versus_always_loss_hi: Upper bound.
        always_verdict: better, worse or unresolved against always escalating.
        always_fits: Whether always escalating fits the budget.
        always_cost_ratio: What always escalating costs / what the budget allows, cheap
            pass included; under a selection budget the number of inputs / the number of
            escalated inputs.
        spend: What it costs per input in all, the cheap mode and its own cost included,
            in units of the convention; under a selection budget the share of the inputs
            that it escalates. None for references but fixed modes.
        quality: Share of right answers where all losses are 0 or 1, mean reward where
            rewards were given; None for other losses.
        lead: Gain over the best blind choice at its own spend, in the unit of
            `versus_random`; per input where rewards were given.
        lead_lo: Lower bound of the interval that decides `answer`.
        lead_hi: Upper bound.
        lead_words: The lead and its interval as reports print them.
        answer: run, do not run or not settled; None for references.
        draws: Number of draws.
        draws_dropped: Draws left out of the nDG interval: their oracle gain is below
            1/4 of the full sample's.
        weight_dropped: The probability of those draws.
        versus_random_dropped: Draws without a positive all-cheap loss, left out of the
            paired interval.
        reason: Why something is None.
    """

    spender: str | None = None
    slice: str | None = None
    cost: float | None = None
    inputs: int = 0
    units: int = 0
    cheap_loss: float | None = None
    slots: int | None = None
    escalated: float | None = None
    ties: float | None = None
    gain: float | None = None
    gain_share: float | None = None
    benefit: float | None = None
    harm: float | None = None
    oracle_gain: float | None = None
    oracle: str | None = None
    ndg: Estimate | None = None
    ndg_without: Bounds | None = None
    ndg_without_unit: str | None = None
    chance: str | None = None
    versus_random: Estimate | None = None
    versus_random_spread: float | None = None
    versus_random_simultaneous: Bounds | None = None
    versus_random_loss: Estimate | None = None
    versus_random_loss_simultaneous: Bounds | None = None
    versus_random_unit: str = "share"
    versus_random_second: Bounds | None = None
    versus_random_loss_second: Bounds | None = None
    verdict: str | None = None
    verdict_words: str | None = None
    rests_on: str | None = None
    units_left_out: int = 0
    second_verdict: str | None = None
    next_unit: Bounds | None = None
    units_compared: int = 0
    break_even_unit: float | None = None
    cancelling_unit: float | None = None
    versus_never: Estimate | None = None
    versus_never_loss: Estimate | None = None
    never_verdict: str | None = None
    versus_always: Estimate | None = None
    versus_always_loss: Estimate | None = None
    always_verdict: str | None = None
    always_fits: bool | None = None
    always_cost_ratio: float | None = None
    spend: float | None = None
    quality: float | None = None
    lead: Estimate | None = None
    lead_words: str | None = None
    answer: str | None = None
    draws: int = 0
    draws_dropped: int = 0
    weight_dropped: float = 0.0
    versus_random_dropped: int = 0
    reason: str | None = None

    def __repr__(self) -> str:
        parts = []
        if self.gain is not None:
            parts.append(f"gain {self.gain:.4g}")
        if self.lead_words is not None:
            parts.append(f"lead {self.lead_words}")
        parts.append(self.answer or self.verdict or self.reason or "a reference")
        return f"Row({self.name}, {self.label}: {', '.join(parts)})"

    @property
    def label(self) -> str:
        """The budget in words; what a router spends itself is rounded, and the router
        is named.
        """
        if self.spender is None:
            return self.budget.label
        rounded = replace(self.budget, alpha=float(f"{self.alpha:.4g}"))
        return f"{rounded.label}, what {self.spender} spends"

    @property
    def surpassed(self) -> str | None:
        """What is shown to be better and needs no allocator: `never`, or `always` if it
        fits the budget.
        """
        if self.never_verdict == "worse":
            return "never"
        if self.always_fits and self.always_verdict == "worse":
            return ALWAYS
        return None

    @property
    def marked(self) -> str | None:
        """The verdict that a report marks by a colour or sign; none if better than
        random is not good enough.
        """
        if self.verdict == "better" and self.surpassed:
            return None
        return self.verdict


@dataclass(frozen=True, eq=False)
class FixedMode(Record):
    """One mode on every input, under one budget.

    Attributes:
        mode: The mode.
        gain: What it gains over the cheap mode, in units of the loss.
        spend: What it costs per input in all, as in `Row`.
        quality: As in `Row`.
        fits: Whether the budget pays for it.
    """

    mode: str
    gain: float
    spend: float
    quality: float | None
    fits: bool


@dataclass(frozen=True, eq=False)
class Answer(Record):
    """What to run under one budget.

    Attributes:
        budget: The budget.
        verdict: run, do not run, or not settled. It is about the candidate; `do not
            run` denies all compared allocators.
        candidate: The allocator to run, or the nearest to that; None where none can
            run.
        gain: What the candidate gains over the cheap mode, in units of the loss.
        lead: Its gain over the best blind choice at its own spend, in the unit of
            `versus_random`; per input where rewards were given.
        lead_lo: Lower bound of the interval that decides.
        lead_hi: Upper bound.
        lead_words: The lead and its interval as reports print them.
        against: The best blind choice at the candidate's spend.
        best_fixed: The best mode, of those that fit the budget on every input.
        best_fixed_gain: What it gains over the cheap mode, in units of the loss.
        best_fixed_spend: What it costs per input beyond the cheap mode.
        fixed: Every mode on all inputs, cheap first.
        scale: How gains are told: right (share of right answers), reward (per input),
            share (of the all-cheap loss) or loss (per input).
        more_units: Number of further units that would settle it; None where it is
            settled, or where more than ten times as many would be needed.
        on_top: A better base than the cheap mode for a score, where that is worth
            running.
        on_top_score: Whose score; it need not be the candidate's.
        sentence: The answer.
        instead: What simply running a fixed mode gives.
        hint: The score on the better base, or other allocators that could be run.
        doubt: What is most worth knowing before trusting the answer.
    """

    budget: BudgetKey
    verdict: str
    candidate: str | None
    gain: float | None
    lead: Estimate | None
    lead_words: str | None
    against: str | None
    best_fixed: str
    best_fixed_gain: float
    best_fixed_spend: float
    fixed: tuple[FixedMode, ...]
    scale: str
    more_units: int | None
    on_top: str | None
    on_top_score: str | None
    sentence: str
    instead: str
    hint: str | None
    doubt: str


@dataclass(frozen=True, eq=False)
class Effect(Record):
    """Whether the dearer mode helps, where no allocator was judged.

    Attributes:
        verdict: helps, harms, or not settled for new units.
        gain: Share of the loss that running it everywhere removes, or the gain per
            input where rewards were given or there is no such share.
        gain_lo: Lower bound of its 95 % interval.
        gain_hi: Upper bound.
        changed: Number of inputs that it changes.
        helped: Number of those that it makes better.
        harm_ratio: Total harm over total benefit.
        worse: Units in which it is worse, the worst first.
        largest: The unit that gains most.
        largest_share: Its share of the gain of all units.
        sentences: All that in words.
        doubt: What is most worth knowing before trusting it.
    """

    verdict: str
    gain: Estimate | None
    changed: int
    helped: int
    harm_ratio: float | None
    worse: tuple[str, ...]
    largest: str | None
    largest_share: float | None
    sentences: tuple[str, ...]
    doubt: str


@dataclass(frozen=True, eq=False)
class KeepOption(Record):
    """The cheapest option of one family that is shown to reach a floor.

    Attributes:
        family: What it is: `blind`, `table by task`, or an allocator.
        words: What to run.
        is_shown: Whether it is shown to reach the floor; if not, it is the first of its
            family that is not.
        spend: What it costs, as a share of the dearest mode on every input.
        reached: What it reaches of what the floor is about: the share kept, the
            quality, or the difference to the mode.
        lower: Lower bound of that; None without draws.
        options: Number of options in the family.
        passed: Number of those, from the dearest on, that are shown to reach it.
        shares: Share of the inputs that each mode gets, by group; of a blind mixture
            for the group `all`. Empty for allocators.
        default: The same for groups that are small or unknown.
    """

    family: str
    words: str
    is_shown: bool
    spend: float
    reached: float
    lower: float | None
    options: int
    passed: int
    shares: Mapping[str, Mapping[str, float]]
    default: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class KeepMode(Record):
    """One mode on every input, and what it reaches of a floor.

    Attributes:
        mode: The mode.
        spend: As in `KeepOption`.
        reached: As in `KeepOption`.
    """

    mode: str
    spend: float
    reached: float


@dataclass(frozen=True, eq=False)
class Keep(Record):
    """As good, for less: the cheapest option that is shown to reach a floor.

    Attributes:
        floor: The floor in words.
        share: Share of the quality of `mode` that must be kept; None for other floors.
        mode: The mode that the floor is relative to; None for a quality of its own.
        target: What `reached` must come to.
        kind: What the spend counts: selection, latency, energy or money.
        dearest: The mode that costs most.
        option: The family to run; None where nothing cheaper is shown to reach it.
        spend: What to run costs, as a share of the dearest mode on every input.
        families: The cheapest option of each family that is shown to reach it, or the
            first that is not.
        fixed: Every mode on all inputs.
        sentence: The answer.
        doubt: What is most worth knowing before trusting it.
    """

    floor: str
    share: float | None
    mode: str | None
    target: float
    kind: str
    dearest: str
    option: str | None
    spend: float
    families: tuple[KeepOption, ...]
    fixed: tuple[KeepMode, ...]
    sentence: str
    doubt: str
