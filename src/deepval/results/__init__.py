"""Result and its records: all that a report reads."""

from deepval.results.facts import (
    Area,
    CallShare,
    Curve,
    DrawsUsed,
    Gap,
    HalfWidth,
    Inputs,
    ModeRate,
    Optimum,
    OracleAt,
    Provenance,
    Recovery,
    ScoresUsed,
    Setting,
    Spending,
    Spread,
    Stream,
    Threshold,
    Unit,
)
from deepval.results.records import (
    ALWAYS,
    FEW_UNITS,
    KINDS,
    LO_HI,
    MEASURED,
    UNITS,
    AllocatorRecord,
    Bounds,
    BudgetKey,
    BudgetRecord,
    Estimate,
    Reason,
    Record,
    Row,
    answer,
    in_words,
    joined,
    known,
    lists_by_key,
    row_from,
)
from deepval.results.result import HEADLINE, SCHEMA, Feedback, Result, Samples, share_of

__all__ = [
    "ALWAYS", "FEW_UNITS", "HEADLINE", "KINDS", "LO_HI", "MEASURED", "SCHEMA", "UNITS", "AllocatorRecord", "Area",
    "Bounds", "BudgetKey", "BudgetRecord", "CallShare", "Curve", "DrawsUsed", "Estimate", "Feedback", "Gap",
    "HalfWidth", "Inputs", "ModeRate", "Optimum", "OracleAt", "Provenance", "Reason", "Record", "Recovery", "Result",
    "Row", "Samples", "ScoresUsed", "Setting", "Spending", "Spread", "Stream", "Threshold", "Unit", "answer",
    "in_words", "joined", "known", "lists_by_key", "row_from", "share_of",
]  # fmt: skip
