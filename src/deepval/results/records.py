"""Records of a result: budgets, reasons for None, and the rows of every allocator and policy under every budget.

A record is a frozen dataclass that reads as a mapping. Its fields, in order, are the columns that are written.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

KINDS = ("selection", "latency", "energy", "money")
"""Kinds of budgets: the first counts escalations, the others charge what modes and allocators cost."""
MEASURED = KINDS[1:]
UNITS = {"ms": "ms", "mj": "mJ", "mj_gpu": "mJ, GPU rail", "mj_all": "mJ, all rails", "usd": "USD"}
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
        return cls(entry["kind"], entry["alpha"], entry.get("convention"), entry.get("accounting"))

    def holds(self, **requested: Any) -> bool:
        """Whether the budget matches the requested fields; None matches any value, and shares match up to rounding."""
        alpha = requested.pop("alpha", None)
        near = alpha is None or math.isclose(self.alpha, alpha)
        return near and all(value is None or getattr(self, part) == value for part, value in requested.items())

    @property
    def fields(self) -> dict[str, Any]:
        """The key as fields of a row."""
        return dict(vars(self))

    @property
    def share(self) -> str:
        """Alpha in percent."""
        return f"{100 * self.alpha:.6g}%"

    @property
    def unit(self) -> str:
        """The unit of the budget, with `skipping` unless it charges a cascade; empty for a selection budget."""
        counted = [] if self.convention is None else [UNITS[self.convention]]
        return ", ".join(counted + (["skipping"] if self.accounting == "skipping" else []))

    @property
    def label(self) -> str:
        """The budget in words, such as `latency 20% (ms, skipping)`."""
        return f"{self.kind} {self.share}" + (f" ({self.unit})" if self.unit else "")


class Record(Mapping[str, Any]):
    """A frozen dataclass whose fields can also be read by name, as those of a dict."""

    def __getitem__(self, key: str) -> Any:
        if key in self.__dataclass_fields__:
            return getattr(self, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    __dataclass_fields__: dict[str, Any]


class BudgetRecord(Record):
    """A record under one budget, identified by its kind, alpha, convention and accounting."""

    @property
    def budget(self) -> BudgetKey:
        """The key of its budget."""
        return BudgetKey.of(self)


def known(value: float) -> float | None:
    """A number, or None where it is NaN."""
    return None if math.isnan(value) else float(value)


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval; None where undefined. Records write it flat, as three columns."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def columns(self, name: str, low: str | None = None, high: str | None = None) -> dict[str, Any]:
        """The columns of a record: NAME, NAME_lo and NAME_hi unless other names are passed for the bounds."""
        return {name: self.value, low or f"{name}_lo": self.low, high or f"{name}_hi": self.high}


class Reason(Enum):
    """A reason; `text` replaces the fields in braces with figures."""

    NO_PRIZE = "the oracle gains nothing: no nDG"
    NO_SLOT = "the budget of {percent:.4g} % of {inputs} inputs allows no escalation: no nDG"
    NO_PRIZED_DRAW = "no draw has a quarter of the prize: no nDG interval"
    NO_SHARE = "the all-cheap loss is not positive: no share of it"
    NO_SHARE_DRAWN = "no draw has a positive all-cheap loss: no interval of a share of it"
    SINGLE_UNIT = "a single unit: no interval"
    NO_DRAWS = "no draws: no interval"
    BEYOND_SELECTION = "always escalating exceeds the budget, so it has no nDG"
    FULL_TOO_DEAR = "infeasible: the full mode alone fits from alpha = {alpha:.4g}"
    TOO_DEAR = "infeasible: costs {cost:g} {convention} per input, the budget leaves {limit:.4g}"
    NO_COST = "no cost known"
    DIAGNOSTIC = "no cost known: a diagnostic uses the answer, which no vehicle has, so there is no cost to charge"
    NOTHING_LEFT = "the allocator's own cost leaves nothing to escalate"
    NO_SKIPPING = "routers that choose among three or more models cannot yet be charged for one call only"
    RATE_ONLY = "streaming policies keep a rate of inputs, and here each input has its own cost: none is judged"
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
    texts = (reason.text() if isinstance(reason, Reason) else reason for reason in reasons if reason)
    return "; ".join(dict.fromkeys(texts)) or None


FEW_UNITS = 3.0
"""Effective units below which a verdict is one on few units (docs/statistics.md, How far to trust 95 %)."""


def in_words(verdict: str | None, *, effective_units: float | None, rests_on: str | None = None) -> str | None:
    """The verdict; a decided one with its weakness: `better on few units, but rests on 0007`.

    Args:
        verdict: As in `Row`.
        effective_units: Number of equal units that would be as uneven; None or NaN without a possible gain.
        rests_on: The unit without which the verdict changes, if there is one.
    """
    if verdict not in ("better", "worse"):
        return verdict
    few = " on few units" if effective_units is not None and effective_units < FEW_UNITS else ""
    return f"{verdict}{few}" + (f", but rests on {rests_on}" if rests_on is not None else "")


@dataclass(frozen=True)
class Row(BudgetRecord):
    """One allocator under one budget.

    Attributes:
        allocator: Its name. References have no verdict: `random`, `all-full` and `oracle`, and with three modes or more
            `random-ladder` and `oracle-ladder`.
        kind: selection, latency, energy or money.
        alpha: Share of the inputs that a zero-cost allocator could escalate.
        convention: ms, mj, mj_gpu, mj_all or usd under a measured budget.
        accounting: cascade or skipping under a measured budget.
        slice: Group of inputs that was judged, such as weather=rain; None for all.
        cost: What the allocator is charged per input, in units of the convention.
        inputs: Number of inputs judged.
        units: Number of units judged.
        cheap_loss: All-cheap loss of those inputs.
        slots: k, how many inputs may be escalated after the allocator has paid for itself.
        escalated: Expected number of inputs escalated.
        ties: Share of the selection that tie-breaks decide, not the score.
        gain: Sum of decision values over what is escalated.
        gain_share: gain / all-cheap loss.
        benefit: Positive part of the gain.
        harm: Negative part of the gain, as a positive number.
        oracle_gain: What a zero-cost oracle reaches under the same budget.
        oracle: Which one: `oracle` (full mode only) or, for per-mode scores, `oracle-ladder`.
        ndg: gain / oracle_gain.
        ndg_lo: Lower bound of its 95 % interval, draws with a small prize left out.
        ndg_hi: Upper bound.
        ndg_without_lo: Smallest nDG when any one unit is left out.
        ndg_without_hi: Largest.
        ndg_without_unit: The unit whose absence gives the smallest.
        chance: What stands for random below: `random` (full mode only) or, for per-mode scores, `random-ladder`.
        versus_random: (gain - random's gain) / all-cheap loss.
        versus_random_lo: Lower bound of its paired 95 % interval.
        versus_random_hi: Upper bound.
        versus_random_spread: Standard deviation over the draws: what `units_to_resolve` plans with.
        versus_random_simultaneous_lo: Lower bound that holds for all rows of the table at once, where asked for.
        versus_random_simultaneous_hi: Upper bound.
        versus_random_loss: The same difference in units of the loss, gain - random's gain.
        versus_random_loss_lo: Lower bound of its paired 95 % interval.
        versus_random_loss_hi: Upper bound.
        versus_random_loss_simultaneous_lo: Lower bound that holds for all rows of the table at once, where asked for.
        versus_random_loss_simultaneous_hi: Upper bound.
        versus_random_unit: share, or loss where the all-cheap loss is not positive or nearly zero: how to read it.
        versus_random_second_lo: Lower bound of the second opinion on `versus_random`, for few or unequal units.
        versus_random_second_hi: Upper bound.
        versus_random_loss_second_lo: Lower bound of the second opinion on `versus_random_loss`.
        versus_random_loss_second_hi: Upper bound.
        verdict: better, worse or unresolved against random; infeasible where the allocator cannot pay for itself;
            None without an interval. It is based on the share, or on the loss where the share is undefined.
        verdict_words: The verdict and its weakness: better on few units (the possible gain comes from fewer than 3),
            better, but rests on 0007 (without that unit the verdict changes).
        rests_on: That unit; of several, the one whose absence contradicts the verdict most.
        units_left_out: Number of units that were left out in turn; 0 where none was: the verdict is not decided, there
            are fewer than 3 or more than 100 units, scores are per mode, or only a group of the inputs is judged.
        second_verdict: Verdict of the second opinion: better, worse or unresolved; None where there is no verdict.
        draws: Number of draws.
        draws_dropped: Draws left out of the nDG interval: their oracle gain is below 1/4 of the full sample's.
        weight_dropped: The probability of those draws.
        versus_random_dropped: Draws without a positive all-cheap loss, left out of the paired interval.
        reason: Why something is None.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
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
    ndg: float | None = None
    ndg_lo: float | None = None
    ndg_hi: float | None = None
    ndg_without_lo: float | None = None
    ndg_without_hi: float | None = None
    ndg_without_unit: str | None = None
    chance: str | None = None
    versus_random: float | None = None
    versus_random_lo: float | None = None
    versus_random_hi: float | None = None
    versus_random_spread: float | None = None
    versus_random_simultaneous_lo: float | None = None
    versus_random_simultaneous_hi: float | None = None
    versus_random_loss: float | None = None
    versus_random_loss_lo: float | None = None
    versus_random_loss_hi: float | None = None
    versus_random_loss_simultaneous_lo: float | None = None
    versus_random_loss_simultaneous_hi: float | None = None
    versus_random_unit: str = "share"
    versus_random_second_lo: float | None = None
    versus_random_second_hi: float | None = None
    versus_random_loss_second_lo: float | None = None
    versus_random_loss_second_hi: float | None = None
    verdict: str | None = None
    verdict_words: str | None = None
    rests_on: str | None = None
    units_left_out: int = 0
    second_verdict: str | None = None
    draws: int = 0
    draws_dropped: int = 0
    weight_dropped: float = 0.0
    versus_random_dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Gap(BudgetRecord):
    """Where the value between an allocator and the zero-cost oracle goes, in units of the loss.

    Attributes:
        allocator: Its name.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        gap: oracle_gain - gain (of the causal policy where there is one, else of the ranking).
        missed: Positive value that is not escalated.
        selected_harm: Harm that is escalated.
        left_out: Positive value that the budget forces even the oracle to leave:
            gap = missed + selected_harm - left_out.
        overhead: Oracle value lost to the allocator's own cost.
        ranking: Gap between that oracle and the k highest scores.
        causal: Gap between those and the causal cap; None without calibration units. gap = overhead + ranking + causal.
        break_even: Largest cost per input at which the ranking still reaches random's gain, in units of the convention.
        break_even_set: All such costs, as intervals [above, up to]; the first may start at 0 and includes it.
        reason: Why something is None.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
    gap: float | None = None
    missed: float | None = None
    selected_harm: float | None = None
    left_out: float | None = None
    overhead: float | None = None
    ranking: float | None = None
    causal: float | None = None
    break_even: float | None = None
    break_even_set: tuple[tuple[float, float], ...] | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Stream(BudgetRecord):
    """One causal policy of one allocator under one budget, calibrated on other units.

    Attributes:
        allocator: Its name.
        policy: frozen threshold, causal cap, adaptive threshold or token bucket.
        parameter: What was tuned on the calibration units (step or bucket size), None where nothing is.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        target_rate: Share of inputs to escalate after the allocator has paid for itself.
        rate: Share realised.
        rate_missed: Whether it is more than 5 points off.
        gain: Sum of decision values over what is escalated.
        benefit: Positive part.
        harm: Negative part, positive number.
        ndg: gain / oracle_gain.
        versus_ranking: nDG minus that of the same scores ranked in hindsight: the cost of causality.
        versus_ranking_lo: Lower bound of its paired 95 % interval, every draw kept however small its prize.
        versus_ranking_hi: Upper bound.
        versus_random: (gain - random's gain) / all-cheap loss.
        versus_random_lo: Lower bound of its paired 95 % interval.
        versus_random_hi: Upper bound.
        versus_random_loss: The same difference in units of the loss, gain - random's gain.
        versus_random_loss_lo: Lower bound of its paired 95 % interval.
        versus_random_loss_hi: Upper bound.
        versus_random_unit: As in `Row`.
        versus_random_second_lo: As in `Row`.
        versus_random_second_hi: As in `Row`.
        versus_random_loss_second_lo: As in `Row`.
        versus_random_loss_second_hi: As in `Row`.
        verdict: As in `Row`.
        verdict_words: As in `Row`; units are not left out.
        second_verdict: As in `Row`.
        draws: Number of draws.
        versus_ranking_dropped: Draws left out of the interval against the ranking: their oracle gains nothing, the
            two differ.
        versus_random_dropped: As in `Row`.
        reason: Why something is None.
    """

    allocator: str
    policy: str
    parameter: float | None
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
    target_rate: float | None = None
    rate: float | None = None
    rate_missed: bool | None = None
    gain: float | None = None
    benefit: float | None = None
    harm: float | None = None
    ndg: float | None = None
    versus_ranking: float | None = None
    versus_ranking_lo: float | None = None
    versus_ranking_hi: float | None = None
    versus_random: float | None = None
    versus_random_lo: float | None = None
    versus_random_hi: float | None = None
    versus_random_loss: float | None = None
    versus_random_loss_lo: float | None = None
    versus_random_loss_hi: float | None = None
    versus_random_unit: str = "share"
    versus_random_second_lo: float | None = None
    versus_random_second_hi: float | None = None
    versus_random_loss_second_lo: float | None = None
    versus_random_loss_second_hi: float | None = None
    verdict: str | None = None
    verdict_words: str | None = None
    second_verdict: str | None = None
    draws: int = 0
    versus_ranking_dropped: int = 0
    versus_random_dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class ModeRate(Record):
    """How often a mode is run: share of the inputs, and its 95 % prediction interval on as many new units."""

    mode: str
    rate: float
    lo: float | None
    hi: float | None


@dataclass(frozen=True)
class Threshold(BudgetRecord):
    """Where one allocator escalates from under one budget, under which policy, and how often that is to be expected.

    Attributes:
        allocator: Its name.
        kind: selection, latency or energy.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        policy: What decides input by input, whose rate and gain these are: frozen threshold, causal cap, adaptive
            threshold, token bucket, or price. Of a result always the frozen threshold, or the price.
        parameter: What was tuned in it: the step of an adaptive threshold, the size of a token bucket (None: endless).
        threshold: Escalate scores above it (an adaptive threshold starts there). None for scores per mode, which have
            a price.
        price: With scores per mode, what a unit of cost (of the convention; an escalation under a selection budget)
            must be worth: of all modes, cheap with score and cost 0, run the one of largest score - price x cost.
        tie_acceptance: Probability to escalate a score equal to the threshold (to buy at just the price).
        tied: Number of calibration inputs that are so.
        calibrated_on: `judged`, or `calibration` for units that are not judged; provenance lists both.
        calibration_inputs: Number of inputs there.
        target_rate: Share of them that is escalated in expectation: what the budget leaves after the allocator has
            paid for itself. None for scores per mode under a measured budget, which leaves costs, not escalations.
        calibration_rate: Share of the calibration inputs that the policy escalates, replayed in time order by `deepval
            threshold`; None in a result.
        gain: What it gains there, in loss units; None in a result, whose rows and streams have gains.
        rate: Share of the judged inputs that the policy escalates. In a result it is the expectation over ties, and
            `target_rate` where those were calibrated on.
        rate_lo: Lower bound of its 95 % prediction interval: the rate on as many new units.
        rate_hi: Upper bound.
        rates: The same by mode above cheap.
        target_spend: What escalations may cost per input, in units of the convention; None under a selection budget.
        spend: What they are expected to cost on the judged inputs.
        draws: Number of draws.
        reason: Why something is None.
    """

    allocator: str
    kind: str
    alpha: float
    convention: str | None = None
    accounting: str | None = None
    policy: str = "frozen threshold"
    parameter: float | None = None
    threshold: float | None = None
    price: float | None = None
    tie_acceptance: float | None = None
    tied: int | None = None
    calibrated_on: str = "judged"
    calibration_inputs: int = 0
    target_rate: float | None = None
    calibration_rate: float | None = None
    gain: float | None = None
    rate: float | None = None
    rate_lo: float | None = None
    rate_hi: float | None = None
    rates: tuple[ModeRate, ...] = ()
    target_spend: float | None = None
    spend: float | None = None
    draws: int = 0
    reason: str | None = None
