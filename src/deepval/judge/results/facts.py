"""What surrounds the rows of a result: gaps, thresholds, streams, setting, provenance,
optima, widths, the picture of an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deepval.judge.results.records import (
    LO_HI,
    AllocatorRecord,
    Bounds,
    BudgetKey,
    BudgetRecord,
    Estimate,
    Record,
)


@dataclass(frozen=True, eq=False)
class Gap(AllocatorRecord):
    """Where the value between an allocator and the zero-cost oracle goes, in units of
    the loss.

    Attributes:
        allocator: Its name.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        gap: oracle_gain - gain (of the causal policy where there is one, else of the
            ranking).
        missed: Positive value that is not escalated.
        selected_harm: Harm that is escalated.
        left_out: Positive value that the budget forces even the oracle to leave:
            gap = missed + selected_harm - left_out.
        overhead: Oracle value lost to the allocator's own cost.
        ranking: Gap between that oracle and the k highest scores.
        causal: Gap between those and the causal cap; None without calibration units.
            gap = overhead + ranking + causal.
        break_even: Largest cost per input at which the ranking still reaches random's
            gain, in units of the convention.
        break_even_set: All such costs, as intervals [above, up to]; the first may start
            at 0 and includes it.
        reason: Why something is None.
    """

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


@dataclass(frozen=True, eq=False)
class ModeRate(Record):
    """How often a mode is run: share of the inputs, and its 95 % prediction interval on
    as many new units.
    """

    mode: str
    rate: Estimate = field(metadata=LO_HI)


@dataclass(frozen=True, eq=False, repr=False)
class Threshold(AllocatorRecord):
    """Where one allocator escalates from under one budget, under which policy, and how
    often that is to be expected.

    Attributes:
        allocator: Its name.
        kind: selection, latency or energy.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        policy: What decides input by input, whose rate and gain these are: frozen
            threshold, causal cap, adaptive threshold, token bucket, or price. Of a
            result always the frozen threshold, or the price.
        parameter: What was tuned in it: the step of an adaptive threshold, the size of
            a token bucket (None: endless).
        threshold: Escalate scores above it (an adaptive threshold starts there). None
            for scores per mode, which have a price.
        price: With scores per mode, what a unit of cost (of the convention; an
            escalation under a selection budget) must be worth: of all modes, cheap with
            score and cost 0, run the one of largest score - price x cost.
        tie_acceptance: Probability to escalate a score equal to the threshold (to buy
            at just the price).
        tied: Number of calibration inputs that are so.
        calibrated_on: `judged`, or `calibration` for units that are not judged;
            provenance lists both.
        calibration_inputs: Number of inputs there.
        target_rate: Share of them that is escalated in expectation: what the budget
            leaves after the allocator has paid for itself. None for scores per mode
            under a measured budget, which leaves costs, not escalations.
        calibration_rate: Share of the calibration inputs that the policy escalates,
            replayed in time order by `deepval threshold`; None in a result.
        gain: What it gains there, in loss units; None in a result, whose rows and
            streams have gains.
        rate: Share of the judged inputs that the policy escalates. In a result it is
            the expectation over ties, and `target_rate` where those were calibrated on.
        rate_lo: Lower bound of its 95 % prediction interval: the rate on as many new
            units.
        rate_hi: Upper bound.
        rates: The same by mode above cheap.
        rate_units: Number of units with inputs among those of the rate.
        effective_units: About a third of the number of units that decide the rate:
            (sum f^2)^2 / sum f^4 of what units contribute to its error.
        target_spend: What escalations may cost per input, in units of the convention;
            None under a selection budget.
        spend: What they are expected to cost on the judged inputs.
        draws: Number of draws.
        reason: Why something is None.
    """

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
    rate: Estimate | None = None
    rates: tuple[ModeRate, ...] = ()
    rate_units: int | None = None
    effective_units: float | None = None
    target_spend: float | None = None
    spend: float | None = None
    draws: int = 0
    reason: str | None = None

    def __repr__(self) -> str:
        at = "none" if self.threshold is None else f"above {self.threshold:.6g}"
        if self.price is not None:
            at = f"price {self.price:.6g}"
        rate = "" if self.rate is None else f", rate {self.rate:.3g}"
        return f"Threshold({self.allocator}, {self.budget.label}: {at}{rate})"


@dataclass(frozen=True, eq=False)
class CallShare(Record):
    """The smallest share of the inputs whose escalation recovers a part of the gap,
    with its 95 % interval.

    Attributes:
        recovered: The part of the gap, such as 0.8 for CPT(80 %).
        share: The share of the inputs; None where there is no gap to recover. Random's
            is `recovered` itself.
        lo: Lower bound over draws of units.
        hi: Upper bound.
    """

    recovered: float
    share: Estimate | None = field(metadata=LO_HI)


@dataclass(frozen=True, eq=False)
class Recovery(Record):
    """One allocator over all shares of calls at once: RouteLLM's average performance
    gap recovered, and CPTs.

    Attributes:
        allocator: Its name; `oracle` escalates at most so many and none that harms.
        apgr: Mean over all shares of (performance - cheap's) / (full's - cheap's); 1/2
            for random.
        apgr_lo: Lower bound of its 95 % interval over draws of units.
        apgr_hi: Upper bound.
        versus_random: apgr - 1/2.
        versus_random_lo: Lower bound.
        versus_random_hi: Upper bound.
        verdict: better, worse or unresolved against random; None for the oracle and
            without an interval.
        calls: Call-performance thresholds.
        draws: Number of draws.
        dropped: Draws in which the full mode is no better than the cheap one, so that
            there is no gap.
        reason: Why something is None.
    """

    allocator: str
    apgr: Estimate | None
    versus_random: Estimate | None = None
    verdict: str | None = None
    calls: tuple[CallShare, ...] = ()
    draws: int = 0
    dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Area(Record):
    """The area between two gain curves over all shares of the inputs: the mean
    difference of gain over all budgets.

    Attributes:
        candidate: The allocator in question.
        baseline: What it is compared with.
        difference: Mean over all shares of (candidate's gain - baseline's gain) /
            all-cheap loss.
        lo: Lower bound of its paired 95 % interval.
        hi: Upper bound.
        loss: The same in units of the loss.
        loss_lo: Lower bound.
        loss_hi: Upper bound.
        unit: share, or loss where the all-cheap loss is not positive or nearly zero:
            how to read it.
        verdict: better, worse or unresolved; None without an interval.
        draws: Number of draws.
        dropped: Draws that could not be compared, for want of a positive all-cheap
            loss.
        reason: Why something is None.
    """

    candidate: str
    baseline: str
    difference: Estimate | None = field(metadata=LO_HI)
    loss: Estimate | None
    unit: str
    verdict: str | None
    draws: int
    dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class OracleAt(Record):
    """What the oracle reaches in a setting at one selection budget.

    Attributes:
        alpha: Share of the inputs.
        quota: Number of inputs.
        oracle_share: Share of the all-cheap loss that the oracle removes.
        budget_binds: Whether more inputs than that have a positive value.
        quota_is_capacity: Whether so many inputs can be escalated without harm.
    """

    alpha: float
    quota: int
    oracle_share: float | None
    budget_binds: bool
    quota_is_capacity: bool


@dataclass(frozen=True, eq=False)
class Spread(Record):
    """How evenly the value to gain is spread over units and inputs; None where there is
    none.

    Attributes:
        top_unit: Id of the unit with the largest part.
        top_share: Its share of the total.
        effective_units: 1 / sum of squared shares: U where all are equal, 1 where one
            unit holds everything.
        gini: 0 where all are equal, near 1 where one unit holds everything.
        top_input: Id of the input with the largest part.
        top_input_share: Its share of the total.
        effective_inputs: As many equal inputs would be as uneven.
        half_inputs: Fewest inputs that together hold half of the total.
        half_inputs_share: What they hold of it.
    """

    top_unit: str | None
    top_share: float | None
    effective_units: float | None
    gini: float | None
    top_input: str | None = None
    top_input_share: float | None = None
    effective_inputs: float | None = None
    half_inputs: int | None = None
    half_inputs_share: float | None = None


@dataclass(frozen=True, eq=False)
class Setting(Record):
    """What escalation does on the judged inputs, whatever the allocator.

    Attributes:
        inputs: Number of inputs.
        units: Number of units.
        modes: Names of the modes, cheap first, full last.
        cheap_loss: All-cheap loss.
        affected: Number of inputs whose loss the full mode changes.
        harm_rate: Share of those that it makes worse.
        harm_ratio: Total harm over total benefit.
        all_full_share: Share of the all-cheap loss that escalating everything removes.
        budgets: What the oracle reaches at several shares.
        concentration: How the value to gain is spread over units and inputs.
        nouns: What a reader calls an input and a unit, such as frame and drive.
    """

    inputs: int
    units: int
    modes: tuple[str, ...]
    cheap_loss: float
    affected: int
    harm_rate: float | None
    harm_ratio: float | None
    all_full_share: float | None
    budgets: tuple[OracleAt, ...]
    concentration: Spread
    nouns: tuple[str, ...] = ("input", "unit")


@dataclass(frozen=True, eq=False)
class ScoresUsed(Record):
    """Which scores were judged: their SHA-256, and the share of the inputs that they
    cover.
    """

    digest: str
    coverage: float


@dataclass(frozen=True, eq=False)
class DrawsUsed(Record):
    """How units were drawn.

    Attributes:
        method: drawn, exact (enumerated) or none.
        number: Number of draws.
        seed: Their seed; None where there is no chance in them.
    """

    method: str
    number: int
    seed: int | None


@dataclass(frozen=True, eq=False)
class Provenance(Record):
    """What a result came from.

    Attributes:
        deepval: Version that judged.
        table: SHA-256 of the table.
        scores: Per allocator, its scores.
        costs: Cost per input by modes and allocators, name and convention; None where
            nothing is charged.
        draws: How units were drawn.
        units: Ids of the units judged.
        calibration_units: Ids of the units that policies are calibrated on; None
            without any.
        cell: Id of the cell judged; None for a values file.
        split: SHA-256 of the cell's split; None for a values file.
        role: Which units were judged: `test`, `all` or `chosen` (others); None in
            results of older versions.
        files: What the command line of a saved result named: `values`, the table or the
            cell's folder; each allocator's file of scores; `options`, those that say
            how to read them, one per line. None elsewhere.
    """

    deepval: str
    table: str
    scores: Mapping[str, ScoresUsed]
    costs: Mapping[str, Mapping[str, Mapping[str, float | str]]] | None
    draws: DrawsUsed
    units: tuple[str, ...]
    calibration_units: tuple[str, ...] | None
    cell: str | None = None
    split: str | None = None
    role: str | None = None
    files: Mapping[str, str] | None = None


@dataclass(frozen=True, eq=False)
class HalfWidth(BudgetRecord):
    """The median half-width of the paired interval over the allocators under one
    budget, a share of the loss.
    """

    kind: str
    alpha: float
    convention: str | None
    accounting: str | None
    half_width: float | None


@dataclass(frozen=True, eq=False)
class Spending(Record):
    """What a plan spends on escalation in one convention.

    Attributes:
        convention: ms, mj, mj_gpu, mj_all or usd.
        spent: What it spends, in units of the convention.
        allowed: What a budget of the same alpha allows there.
        excess: spent / allowed - 1.
    """

    convention: str
    spent: float
    allowed: float
    excess: float


@dataclass(frozen=True, eq=False)
class Optimum(BudgetRecord):
    """The best plan over all modes under one measured budget, with its certificate.

    Attributes:
        kind: latency, energy or money.
        alpha: The budget's share.
        convention: What it counts.
        value: What the plan gains, in units of the loss.
        share_of_cheap_loss: The same as a share of the all-cheap loss.
        full_only: What the best plan restricted to the full mode gains.
        full_only_share: full_only / value.
        lp_bound: No plan gains more.
        gap: Largest distance of the value below the optimum that the bound allows.
        multiplier: Value of one more unit of budget in the relaxed problem.
        core_inputs: Inputs whose changes were weighed.
        modes: Number of inputs per mode.
        spent: What the plan spends in each convention that is known.
        accounting: cascade or skipping.
    """

    kind: str
    alpha: float
    convention: str | None
    value: float
    share_of_cheap_loss: float | None
    full_only: float
    full_only_share: float | None
    lp_bound: float
    gap: float
    multiplier: float
    core_inputs: int
    modes: Mapping[str, int]
    spent: tuple[Spending, ...]
    accounting: str | None = "cascade"


@dataclass(frozen=True, eq=False)
class Unit(Record):
    """One unit's part: its inputs, its all-cheap loss, the oracle's gain in it and each
    allocator's, at one budget; and what each mode gains on all its inputs.
    """

    unit: str
    inputs: int
    cheap_loss: float
    alpha: float
    oracle_gain: float
    gains: Mapping[str, float]
    modes: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, eq=False)
class Curve(Record):
    """Gain share of one allocator against the share of inputs escalated, with its
    interval; null where undefined.
    """

    allocator: str
    alpha: tuple[float, ...]
    gain_share: tuple[float | None, ...]
    lo: tuple[float | None, ...]
    hi: tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class Inputs(Record):
    """Every judged input in columns: what point values are made of, and can be made
    again from other weights.

    Attributes:
        input: Id of each input.
        unit: Position in `units` of its unit.
        units: Ids of the units.
        losses: Its loss under every mode, cheap first.
        terms: Loss terms by name and mode, before weighting: loss = sum of weight x
            term in the order of `weights`.
        weights: Weight of each term.
        free: Terms whose weight changes no action, so that losses under other weights
            are exact.
        ranks: Per allocator with a plain score, the rank of each input: 1 is highest,
            equal scores share a rank.
    """

    input: tuple[str, ...]
    unit: tuple[int, ...]
    units: tuple[str, ...]
    losses: Mapping[str, tuple[float, ...]]
    terms: Mapping[str, Mapping[str, tuple[float, ...]]]
    weights: Mapping[str, float]
    free: tuple[str, ...]
    ranks: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Stream(BudgetRecord):
    """One causal policy of one allocator under one budget, calibrated on other units.

    Attributes:
        allocator: Its name.
        policy: frozen threshold, causal cap, adaptive threshold or token bucket.
        parameter: What was tuned on the calibration units (step or bucket size), None
            where nothing is.
        kind: selection, latency, energy or money.
        alpha: The budget's share.
        convention: What a measured budget counts.
        accounting: cascade or skipping under a measured budget.
        target_rate: Share of inputs to escalate after the allocator has paid for
            itself.
        rate: Share realised.
        rate_missed: Whether it is more than 5 points off.
        gain: Sum of decision values over what is escalated.
        benefit: Positive part.
        harm: Negative part, positive number.
        ndg: gain / oracle_gain.
        versus_ranking: nDG minus that of the same scores ranked in hindsight: the cost
            of causality.
        versus_ranking_lo: Lower bound of its paired 95 % interval, every draw kept
            however small its prize.
        versus_ranking_hi: Upper bound.
        versus_random: (gain - random's gain) / all-cheap loss.
        versus_random_lo: Lower bound of its paired 95 % interval.
        versus_random_hi: Upper bound.
        versus_random_loss: The same difference in units of the loss, gain - random's
            gain.
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
        versus_ranking_dropped: Draws left out of the interval against the ranking:
            their oracle gains nothing, the two differ.
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
    versus_ranking: Estimate | None = None
    versus_random: Estimate | None = None
    versus_random_loss: Estimate | None = None
    versus_random_unit: str = "share"
    versus_random_second: Bounds | None = None
    versus_random_loss_second: Bounds | None = None
    verdict: str | None = None
    verdict_words: str | None = None
    second_verdict: str | None = None
    draws: int = 0
    versus_ranking_dropped: int = 0
    versus_random_dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class PicturePoints(Record):
    """A policy at rising costs, in the units of the two axes.

    Attributes:
        name: The policy.
        cost: What it costs per input in all.
        quality: What it comes to there.
        low: The blind mixture at that cost plus the lower bound of the lead; empty
            where there is no interval.
        high: The same with the upper bound.
    """

    name: str
    cost: tuple[float, ...]
    quality: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, eq=False)
class PictureMark(Record):
    """One mode on every input.

    Attributes:
        name: The mode.
        cost: What it costs per input.
        quality: What it comes to.
        low: Lower bound of its 95 % interval.
        high: Upper bound.
    """

    name: str
    cost: float
    quality: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Picture(Record):
    """Quality against cost under one kind of budget.

    Attributes:
        budget: The budget of the headline answer.
        cost_axis: What the cost is, with its unit.
        quality_axis: What the quality is, with its unit.
        share: The judged budgets.
        share_cost: What each of them allows per input.
        fixed: Every mode on all inputs, cheap first.
        blind: The best choice that does not look at the inputs.
        oracle: A perfect router.
        routers: Every allocator, with the band of its lead around the blind line: it
            touches that line exactly where an interval of its lead includes 0.
        on_top: The candidate's score on a better base, where that is worth running.
    """

    budget: BudgetKey
    cost_axis: str
    quality_axis: str
    share: tuple[float, ...]
    share_cost: tuple[float, ...]
    fixed: tuple[PictureMark, ...]
    blind: PicturePoints
    oracle: PicturePoints | None
    routers: tuple[PicturePoints, ...]
    on_top: PicturePoints | None = None
