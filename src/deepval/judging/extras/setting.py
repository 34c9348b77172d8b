"""A table -> what escalation does in it, whatever the allocator."""

from deepval.judging.allowances import LEVELS
from deepval.judging.bootstrap import sums_by_unit
from deepval.judging.extras.concentration import Concentration, concentration
from deepval.results import OracleAt, Setting, Spread, known
from deepval.tables.values import Summary, ValueTable


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
