"""Result -> sentences above its tables: the effect of escalation in this setting, and the method of the intervals."""

from collections.abc import Iterable

from deepval.report.tables import ALL_ROWS, almost_zero, counted, number, percent
from deepval.results import Result, Setting


def headline(result: Result) -> Iterable[str]:
    """The effect of escalation in this setting and the method of the intervals, in words."""
    yield from setting_words(result.setting)
    yield _interval_words(result)


def setting_words(setting: Setting) -> Iterable[str]:
    """The effect of escalation in a setting, in words."""
    inputs, affected = setting["inputs"], setting["affected"]
    modes = f"{setting['modes'][0]} -> {setting['modes'][-1]}"
    yield (
        f"{modes}: of {counted(inputs, 'input')} in {counted(setting['units'], 'unit')}, escalation changes the loss "
        f"of {affected:,} ({percent(affected / inputs, 1)}) and makes {percent(setting['harm_rate'], 1)} of those "
        f"worse (harm ratio {number(setting['harm_ratio'])})."
    )
    headline_budget = next(item for item in setting["budgets"] if item["alpha"] == 0.2)
    binding = "binding" if headline_budget["budget_binds"] else "slack"
    everything, oracle, loss = setting["all_full_share"], headline_budget["oracle_share"], setting["cheap_loss"]
    why = almost_zero(loss, everything, oracle)
    if why is not None:
        yield (
            f"{why[0].upper()}{why[1:]}. In units of the loss, escalating everything removes "
            f"{(everything or 0.0) * loss:.3g} and an oracle at 20 % removes {(oracle or 0.0) * loss:.3g} (the budget "
            f"is {binding})."
        )
    elif everything is not None:
        yield (
            f"Escalating everything removes {percent(everything)} of the all-cheap loss; an oracle at 20 % removes "
            f"{percent(oracle)} (the budget is {binding})."
        )
    spread = setting["concentration"]
    if spread["top_unit"] is not None:
        few = spread["half_inputs"]
        by_input = (
            f", and {few:,} of {counted(inputs, 'input')} {'holds' if few == 1 else 'hold'} "
            f"{percent(spread['half_inputs_share'], 1)}"
            if few
            else ""
        )
        yield (
            f"The value to gain is spread as over {number(spread['effective_units'], 1)} units; "
            f"{spread['top_unit']} holds {percent(spread['top_share'], 1)} of it{by_input}."
        )


def _interval_words(result: Result) -> str:
    draws = result.provenance["draws"]
    method = {"drawn": f"{draws['number']:,} draws of units, seed {draws['seed']}", "none": "no draws"}.get(
        draws["method"], f"all {draws['number']:,} draws of units, enumerated"
    )
    row_count = sum(row.versus_random_loss_simultaneous_lo is not None for row in result.rows)
    corrected = (
        f"verdicts are not corrected for the others; '{ALL_ROWS}' is to hold for all {row_count} rows of the table at "
        "once (how often it does: docs/statistics.md)"
        if row_count
        else "none corrected for the others"
    )
    comparisons = (
        f"{counted(result.comparisons, 'comparison')} with random {'is' if result.comparisons == 1 else 'are'} made"
    )
    return f"Intervals: {method}. {comparisons}, {corrected}."
