"""Thresholds -> their table, with the rates that they lead to."""

from collections.abc import Sequence

from deepval.basics.errors import few
from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    interval,
    number,
    quantity,
    reasons,
    tabulate,
    tenths,
)
from deepval.judge.results import UNITS, Threshold

NEW_UNITS = (
    "The 95 % prediction interval is for the rate on equally many new units "
    "(docs/statistics.md, Rates on new units)."
)


def threshold_table(
    thresholds: Sequence[Threshold], *, calibration_units: Sequence[str] | None
) -> Table:
    """The thresholds of allocators and their expected escalation rates, and the units
    that they are calibrated on.
    """
    columns = list(COLUMNS)
    if any(row.gain is not None for row in thresholds):
        columns.append(Column("gain", lambda row: number(row.gain)))
    notes = [*reasons(thresholds), *_notes(thresholds, calibration_units)]
    groups = [Column("budget", lambda row: row.budget.label)]
    return tabulate("Thresholds", columns, thresholds, groups=groups, notes=notes)


def _notes(
    thresholds: Sequence[Threshold], calibration_units: Sequence[str] | None
) -> list[str]:
    calibrated_apart = [row for row in thresholds if row.calibrated_on == "calibration"]
    which = "other units than" if calibrated_apart else "the same units as"
    units = ""
    if calibration_units is not None:
        number_of_units = quantity(len(calibration_units), "unit")
        units = f" ({number_of_units}: {few(calibration_units)})"
    notes = [f"Calibrated on {which} the rates{units}. {NEW_UNITS}"]
    notes += [_decided_by(row) for row in thresholds if _has_few_deciding(row)]
    if any(row.price is not None for row in thresholds):
        notes.append(
            "price: run the mode with the largest score - price x cost; cheap has "
            "score and cost 0."
        )
    if any(row.policy == "adaptive threshold" for row in thresholds):
        notes.append(
            "An adaptive threshold starts at this score and "
            "follows the rate from there."
        )
    if any(row.gain is not None for row in thresholds):
        notes.append(
            "The gain is that of the policy on the calibration units, "
            "in units of the loss."
        )
    if any(row.calibration_rate is not None for row in calibrated_apart):
        rates = ", ".join(tenths(row.calibration_rate) for row in thresholds)
        notes.append(f"On the calibration units the policy escalates {rates}.")
    notes.append(
        "at the cut: share of the inputs with this score to escalate. Thresholds are "
        "rounded here, not in JSON."
    )
    return notes


def _has_few_deciding(row: Threshold) -> bool:
    """Whether fewer than half of the units decide the rate: of normal residuals, three
    times the effective units are all of them.
    """
    if row.effective_units is None or row.rate_units is None:
        return False
    return 3 * row.effective_units < row.rate_units / 2


def _decided_by(row: Threshold) -> str:
    """The rate in words, where few units decide it."""
    assert row.effective_units is not None
    deciding = round(3 * row.effective_units)
    expected = f"expect {tenths(row.rate_lo)} to {tenths(row.rate_hi)} (95 %)"
    return (
        f"{row.allocator}: {tenths(row.rate)} on these units; on as many new ones "
        f"{expected}. About {deciding} of the {row.rate_units} units decide it."
    )


def _policy(row: Threshold) -> str:
    """The policy with its tuned parameter, if it has one."""
    if row.parameter is None:
        return row.policy
    return f"{row.policy} ({row.parameter:g})"


def _cut(row: Threshold) -> str:
    """The threshold or price, with enough digits to distinguish scores."""
    if row.price is not None:
        unit = UNITS[row.convention] if row.convention else "escalation"
        return f"price {row.price:.6g} per {unit}"
    return MISSING if row.threshold is None else f"{row.threshold:.6g}"


def _at_the_cut(row: Threshold) -> str:
    if row.tied is None:
        return ""
    return f"{tenths(row.tie_acceptance)} of {row.tied:,}"


def _rate(row: Threshold) -> str:
    if row.price is None:
        return tenths(row.rate)
    return ", ".join(f"{entry.mode} {tenths(entry.rate)}" for entry in row.rates)


def _rate_bounds(row: Threshold) -> str:
    if row.price is None:
        return interval(row.rate_lo, row.rate_hi, tenths)
    return ", ".join(
        f"{entry.mode} {interval(entry.lo, entry.hi, tenths)}"
        for entry in row.rates
        if entry.lo is not None
    )


COLUMNS = (
    Column("allocator", lambda row: row.allocator),
    Column("policy", _policy, rank=2),
    Column("escalate above", _cut),
    Column("at the cut", _at_the_cut, rank=1),
    Column("rate", _rate),
    Column("rate on new units, 95 %", _rate_bounds),
)
