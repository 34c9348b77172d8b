"""A table -> what escalation does in it, whatever the allocator, and how evenly its
gain is spread over units and inputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.basics.arrays import Float, Shaped
from deepval.judge.allowances import LEVELS
from deepval.judge.bootstrap import sums_by_unit
from deepval.judge.results import OracleAt, Setting, Spread, known
from deepval.judge.tables.values import Summary, ValueTable


@dataclass(frozen=True)
class Concentration:
    """How evenly a total is spread, from the positive parts; NaN without a total.

    Attributes:
        top_unit: Id of the unit with the largest part.
        top_share: Its share of the total.
        effective_units: 1 / sum of squared shares: U where all are equal, 1 where one
            unit has everything.
        gini: 0 where all are equal, near 1 where one unit has everything.
        half: Smallest number of units that together have half of the total; 0 where
            there is no total.
        half_share: Their share of the total.
    """

    top_unit: str | None
    top_share: float
    effective_units: float
    gini: float
    half: int = 0
    half_share: float = math.nan

    @classmethod
    def nothing(cls) -> "Concentration":
        """Without a total there is nothing to spread."""
        return cls(None, math.nan, math.nan, math.nan)


def concentration(
    parts: Float[np.ndarray, "part"],
    ids: Shaped[np.ndarray, "part"] | Sequence[str],
    *,
    positive: Float[np.ndarray, "positive"] | None = None,
) -> Concentration:
    """Concentration of non-negative parts of units or inputs.

    Args:
        parts: The parts, such as the oracle's gain in each unit.
        ids: Their names.
        positive: The positive parts in ascending order; sorted here where None.
    """
    total = parts.sum()
    number = len(parts)
    if not total > 0:
        return Concentration.nothing()
    if positive is None:
        positive = np.sort(parts[parts > 0])
    share = positive / total
    top = int(np.argmax(parts))
    # Parts of 0 have the lowest ranks and add nothing.
    rank = np.arange(number - len(share) + 1, number + 1)
    reached = np.cumsum(share[::-1])
    # Two halves that differ by rounding only are both halves.
    half = int(np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-12)))
    return Concentration(
        top_unit=str(ids[top]),
        top_share=float(parts[top] / total),
        effective_units=float(1 / (share @ share)),
        gini=float((2 * rank - number - 1) @ share / number),
        half=half + 1,
        half_share=float(reached[half] / reached[-1]),
    )


def setting(table: ValueTable) -> Setting:
    """The effect of escalation on the judged inputs, and the spread of the gain."""
    summaries = [table.summary(alpha) for alpha in LEVELS]
    by_unit = concentration(sums_by_unit(table, table.benefits), table.unit_ids)
    ascending = table.helpful[::-1]
    by_input = concentration(table.benefits, table.input, positive=ascending)
    return Setting(
        inputs=len(table),
        units=len(table.unit_ids),
        modes=table.modes,
        cheap_loss=table.cheap_loss,
        affected=table.affected,
        harm_rate=known(table.harm_rate),
        harm_ratio=known(table.harm_ratio),
        all_full_share=known(summaries[0].all_full_share),
        budgets=tuple(_oracle_at(summary) for summary in summaries),
        concentration=spread(by_unit, by_input),
        nouns=table.nouns,
    )


def _oracle_at(summary: Summary) -> OracleAt:
    """What the oracle reaches at one share."""
    return OracleAt(
        alpha=summary.alpha,
        quota=summary.quota,
        oracle_share=known(summary.oracle_share),
        budget_binds=summary.budget_binds,
        quota_is_capacity=summary.quota_is_capacity,
    )


def spread(by_unit: Concentration, by_input: Concentration) -> Spread:
    """How evenly the possible gain is spread, as a record of a result."""
    return Spread(
        by_unit.top_unit,
        known(by_unit.top_share),
        known(by_unit.effective_units),
        known(by_unit.gini),
        top_input=by_input.top_unit,
        top_input_share=known(by_input.top_share),
        effective_inputs=known(by_input.effective_units),
        half_inputs=by_input.half or None,
        half_inputs_share=known(by_input.half_share),
    )
