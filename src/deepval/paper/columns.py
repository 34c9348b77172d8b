"""Columns that several analyses share, and the functions that fill them."""

from typing import Any

import numpy as np

from deepval.driving.perception.reported.losses import LOSSES
from deepval.judge.draws import Draws
from deepval.judge.intervals import Interval
from deepval.judge.ratios import Ratio, ratio
from deepval.judge.report.text_tables import number
from deepval.judge.results import BudgetKey
from deepval.judge.tables.values import ValueTable
from deepval.paper.tidy import Column, Estimate, Row, count, share

NAME = Column("cell", "The cell", heading="cell")
ALLOCATOR = Column("allocator", "The allocator", heading="allocator")
_DESCRIPTION = (
    Column("full", "Its full mode"),
    Column("geometry", "How detections become objects"),
    Column("system", "The downstream system"),
)
CELL = (
    NAME,
    Column(
        "cheap",
        "Its cheap mode",
        heading="modes",
        text_of_row=lambda row: f"{row['cheap']} -> {row['full']}",
    ),
    *_DESCRIPTION,
)
"""The cell that a row is about, and what distinguishes it from others."""
DESCRIBED = (NAME, Column("cheap", "Its cheap mode"), *_DESCRIPTION)
"""The same, of which a printed table shows the name alone."""


def budget_text(row: Row) -> str:
    """The budget of a row in words."""
    return BudgetKey.of(row).label


BUDGET = (
    Column(
        "kind",
        "Kind of budget: selection, latency, energy or money",
        heading="budget",
        text_of_row=budget_text,
    ),
    Column(
        "alpha",
        "The budget's share: part of the inputs that a zero-cost allocator could "
        "escalate",
    ),
    Column("convention", "Unit of a measured budget: ms, mj, mj_gpu, mj_all or usd"),
    Column("accounting", "Accounting of a measured budget: cascade or skipping"),
)
"""The budget that a row is under."""
INPUTS = (
    Column("inputs", "Number of inputs"),
    Column("units", "Number of units"),
)
"""How many inputs and units a row is over; None if the row could not be judged."""
HARM = (
    Column(
        "affected",
        "Inputs whose loss the full mode changes",
        heading="affected",
        text=count,
    ),
    Column("harmed", "Affected inputs whose loss the full mode raises"),
    Column(
        "harm_rate",
        "Share of the affected inputs that are harmed",
        heading="harmed",
        text=share,
        bounds="95 %",
    ),
    Column(
        "harm_ratio",
        "Total harm over total benefit",
        heading="harm ratio",
        text=number,
        bounds="95 %",
    ),
    Column("draws", "Number of draws"),
    Column(
        "draws_dropped",
        "Draws without any benefit, left out of the interval of the harm ratio",
    ),
)
"""How many inputs escalation affects and harms, and how much; None if the row could
not be judged.
"""


def harm(table: ValueTable, draws: Draws) -> Row:
    """How many inputs of a table escalation affects and harms, and how much, with 95 %
    intervals over units (`INPUTS` and `HARM`).
    """
    values = table.decision_values
    harmed = values < -table.tolerance
    affected = np.abs(values) > table.tolerance
    rate = ratio(table, harmed, affected, draws=draws)
    total_harm = np.maximum(-values, 0.0)
    total_benefit = np.maximum(values, 0.0)
    total = ratio(table, total_harm, total_benefit, draws=draws)
    return {
        "inputs": len(table),
        "units": len(table.unit_ids),
        "affected": int(affected.sum()),
        "harmed": int(harmed.sum()),
        "harm_rate": estimate(rate),
        "harm_ratio": estimate(total),
        "draws": len(draws),
        "draws_dropped": total.dropped,
    }


def no_harm() -> Row:
    """The same columns where a row cannot be judged."""
    row: dict[str, Any] = {column.name: None for column in (*INPUTS, *HARM)}
    return row | {"harm_rate": Estimate(), "harm_ratio": Estimate()}


def estimate(of: Ratio) -> Estimate:
    """A ratio with its interval."""
    return Estimate(of.value, of.lo, of.hi)


def estimate_within(value: float | None, bounds: Interval | None) -> Estimate:
    """A value with its interval, if it has one."""
    if bounds is None:
        return Estimate(value)
    return Estimate(value, bounds.low, bounds.high)


def loss_title(loss: str) -> str:
    """The number of a perception loss and its name, as tables show them."""
    return f"{loss} ({LOSSES[loss].partition(':')[0]})"
