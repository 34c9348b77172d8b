"""What is said of whole gain curves: how much of the gap between two modes an allocator recovers, at what calls."""

from dataclasses import dataclass

from deepval.results.records import Record


@dataclass(frozen=True)
class CallShare(Record):
    """The smallest share of the inputs whose escalation recovers a part of the gap, with its 95 % interval.

    Attributes:
        recovered: The part of the gap, such as 0.8 for CPT(80 %).
        share: The share of the inputs; None where there is no gap to recover. Random's is `recovered` itself.
        lo: Lower bound over draws of units.
        hi: Upper bound.
    """

    recovered: float
    share: float | None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class Recovery(Record):
    """One allocator over all shares of calls at once: RouteLLM's average performance gap recovered, and CPTs.

    Attributes:
        allocator: Its name; `oracle` escalates at most so many and none that harms.
        apgr: Mean over all shares of (performance - cheap's) / (full's - cheap's); 1/2 for random.
        apgr_lo: Lower bound of its 95 % interval over draws of units.
        apgr_hi: Upper bound.
        versus_random: apgr - 1/2.
        versus_random_lo: Lower bound.
        versus_random_hi: Upper bound.
        verdict: better, worse or unresolved against random; None for the oracle and without an interval.
        calls: Call-performance thresholds.
        draws: Number of draws.
        dropped: Draws in which the full mode is no better than the cheap one, so that there is no gap.
        reason: Why something is None.
    """

    allocator: str
    apgr: float | None
    apgr_lo: float | None = None
    apgr_hi: float | None = None
    versus_random: float | None = None
    versus_random_lo: float | None = None
    versus_random_hi: float | None = None
    verdict: str | None = None
    calls: tuple[CallShare, ...] = ()
    draws: int = 0
    dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Area(Record):
    """The area between two gain curves over all shares of the inputs: the mean difference of gain over all budgets.

    Attributes:
        candidate: The allocator in question.
        baseline: What it is compared with.
        difference: Mean over all shares of (candidate's gain - baseline's gain) / all-cheap loss.
        lo: Lower bound of its paired 95 % interval.
        hi: Upper bound.
        loss: The same in units of the loss.
        loss_lo: Lower bound.
        loss_hi: Upper bound.
        unit: share, or loss where the all-cheap loss is not positive or nearly zero: how to read it.
        verdict: better, worse or unresolved; None without an interval.
        draws: Number of draws.
        dropped: Draws that could not be compared, for want of a positive all-cheap loss.
        reason: Why something is None.
    """

    candidate: str
    baseline: str
    difference: float | None
    lo: float | None
    hi: float | None
    loss: float | None
    loss_lo: float | None
    loss_hi: float | None
    unit: str
    verdict: str | None
    draws: int
    dropped: int = 0
    reason: str | None = None
