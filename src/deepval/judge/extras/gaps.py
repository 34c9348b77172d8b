"""Rankings -> where the value between them and the oracle goes, in units of the loss.

The gap is split exactly in two ways: by sign, into what is missed and the harm that is
selected, less what the budget forces even the oracle to leave; and by cause, into the
own cost of the allocator, the order of its scores, and deciding in time order. Both
splits describe this protocol only. The causal part can be negative and, because values
are signed, so can the gain of extra capacity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.judge.bootstrap import Bootstrap, Cap
from deepval.judge.intervals import ROUNDING
from deepval.judge.judgement import Contest, Entry, Figures
from deepval.judge.policies import Ranking
from deepval.judge.results import BudgetKey, Gap, Reason


@dataclass(frozen=True)
class GapSplit:
    """The gap between a zero-cost oracle and an allocator, by sign and by cause.

    Attributes:
        gap: Gain of that oracle less the gain of the allocator.
        missed: Positive value that is not escalated.
        selected_harm: Harm that is escalated.
        left_out: Positive value that the budget forces even the oracle to leave.
        overhead: Gain that the oracle loses to the own cost of the allocator.
        ranking: Gap that is left between that oracle and the highest scores.
        causal: Gap between those and the causal cap; None without calibration units.
    """

    gap: float
    missed: float
    selected_harm: float
    left_out: float
    overhead: float
    ranking: float
    causal: float | None


def split_gap(
    figures: Figures,
    *,
    oracle: float,
    oracle_after_cost: float,
    all_benefit: float,
    causal: Cap | None = None,
) -> GapSplit:
    """Both splits of the gap of a ranking.

    Args:
        figures: What the ranking comes to.
        oracle: What the oracle gains without own cost.
        oracle_after_cost: What it gains with what the allocator's own cost leaves.
        all_benefit: All positive decision values.
        causal: What the causal cap gains; the gap is then between oracle and cap.
    """
    final = causal or Cap(figures.gain, figures.benefit, figures.harm)
    negligible = ROUNDING * max(all_benefit, figures.harm)

    def part(value: float) -> float:
        """A part of the gap; sums in another order differ in their last digits."""
        if abs(value) <= negligible:
            return 0.0
        return value

    after_ranking = None
    if causal is not None:
        after_ranking = part(figures.gain - final.gain)
    return GapSplit(
        gap=part(oracle - final.gain),
        missed=part(all_benefit - final.benefit),
        selected_harm=part(final.harm),
        left_out=part(all_benefit - oracle),
        overhead=part(oracle - oracle_after_cost),
        ranking=part(oracle_after_cost - figures.gain),
        causal=after_ranking,
    )


def gaps(
    bootstrap: Bootstrap,
    contests: Sequence[Contest],
    caps: Mapping[tuple[str, BudgetKey], Cap],
) -> tuple[Gap, ...]:
    """The parts of each allocator's gap under each budget of the user.

    Args:
        bootstrap: The resamples.
        contests: The judged policies.
        caps: What the causal cap of each allocator gains under each budget.
    """
    rows = []
    for contest in contests:
        # What a router spends itself is no budget that others have a gap under.
        if contest.allowance.spender is not None:
            continue
        rows += [
            _gap(bootstrap, contest, entry, caps)
            for entry in contest.entries
            if not entry.policy.is_reference
        ]
    return tuple(rows)


def _gap(
    bootstrap: Bootstrap,
    contest: Contest,
    entry: Entry,
    caps: Mapping[tuple[str, BudgetKey], Cap],
) -> Gap:
    row = entry.judgement
    allowance = contest.allowance
    start: dict[str, Any] = {"allocator": row.allocator, **vars(allowance.key)}
    if row.figures is None or not isinstance(entry.policy, Ranking):
        reason = row.reason or Reason.NO_RANKING.text()
        return Gap(**start, reason=reason)
    after = row.oracle_gain
    if row.own_cost is not None:
        after = contest.oracle.gain_of_sample(bootstrap, allowance, row.own_cost)
    split = split_gap(
        row.figures,
        oracle=row.oracle_gain,
        oracle_after_cost=after,
        all_benefit=float(bootstrap.full_benefit[0]),
        causal=caps.get((row.allocator, allowance.key)),
    )
    if not allowance.is_measured:
        return Gap(**start, **vars(split))
    if bootstrap.rows is None:
        return Gap(**start, **vars(split), reason=Reason.NOT_IN_MEMORY.text())
    from deepval.judge.extras.break_even import break_even_costs

    even = break_even_costs(bootstrap.rows, entry.policy, allowance)
    return Gap(
        **start,
        **vars(split),
        break_even=even.largest,
        break_even_set=even.spans,
    )
