"""A setting -> sentences: what escalation does there, whatever the allocator."""

from collections.abc import Iterator

from deepval.judge.report.text_tables import (
    almost_zero,
    number,
    percent,
    quantity,
    tenths,
)
from deepval.judge.results import HEADLINE, Result, Setting


def units_judged(*results: Result) -> str:
    """The units that every figure of some results is over, in words."""
    roles = {result.provenance.role for result in results}
    units = sum(result.setting.units for result in results)
    role = roles.pop() if len(roles) == 1 else None
    if role != "all":
        return quantity(units, f"{role} unit" if role else "unit")
    if units == 1:
        return "the only unit"
    return f"all {units:,} units"


def setting_sentences(setting: Setting, units: str | None = None) -> Iterator[str]:
    """The effect of escalation in a setting, in words; `units` says over which units,
    by default their number.
    """
    yield _effect(setting, units or quantity(setting.units, "unit"))
    oracle = _what_always_and_the_oracle_remove(setting)
    if oracle is not None:
        yield oracle
    if setting.concentration.top_unit is not None:
        yield _concentration(setting)


def _effect(setting: Setting, units: str) -> str:
    modes = f"{setting.modes[0]} -> {setting.modes[-1]}"
    size = f"{quantity(setting.inputs, 'input')} in {units}"
    if not setting.affected:
        return f"{modes}: escalation changes the loss of none of {size}."
    return (
        f"{modes}: of {size}, escalation changes the loss of {setting.affected:,} "
        f"({tenths(setting.affected / setting.inputs)}) and makes "
        f"{tenths(setting.harm_rate)} of those worse (harm ratio "
        f"{number(setting.harm_ratio)})."
    )


def _what_always_and_the_oracle_remove(setting: Setting) -> str | None:
    budget = next(item for item in setting.budgets if item.alpha == HEADLINE)
    most = "more than" if budget.budget_binds else "at most"
    worth = f"{most} 20 % of the inputs are worth escalating"
    loss = setting.cheap_loss
    everything = setting.all_full_share
    oracle = budget.oracle_share
    why = almost_zero(loss, everything, oracle)
    if why is not None:
        return (
            f"{why[0].upper()}{why[1:]}. In units of the loss, always escalating "
            f"removes {(everything or 0.0) * loss:.3g} and an oracle "
            f"at 20 % removes {(oracle or 0.0) * loss:.3g} ({worth})."
        )
    if everything is None:
        return None
    return (
        f"Always escalating {'raises' if everything < 0 else 'lowers'} the "
        f"all-cheap loss by {percent(abs(everything))}; an "
        f"oracle at 20 % lowers it by {percent(oracle)} ({worth})."
    )


def _concentration(setting: Setting) -> str:
    spread = setting.concentration
    effective = number(spread.effective_units, 1)
    units = "1 unit" if effective == "1.0" else f"{effective} units"
    sentence = (
        f"The possible gain comes from about {units}; the largest (unit "
        f"{spread.top_unit}) has {tenths(spread.top_share)} of it"
    )
    half = spread.half_inputs
    if not half:
        return f"{sentence}."
    have = "has" if half == 1 else "have"
    return (
        f"{sentence}, and {half:,} of {quantity(setting.inputs, 'input')} {have} "
        f"{tenths(spread.half_inputs_share)}."
    )
