"""Result and its records: all that a report reads."""

from deepval.results.facts import (
    Area,
    CallShare,
    Curve,
    DrawsUsed,
    HalfWidth,
    Inputs,
    Optimum,
    OracleAt,
    Provenance,
    Recovery,
    ScoresUsed,
    Setting,
    Spending,
    Spread,
    Unit,
)
from deepval.results.records import (
    FEW_UNITS,
    KINDS,
    MEASURED,
    UNITS,
    BudgetKey,
    BudgetRecord,
    Estimate,
    Gap,
    ModeRate,
    Reason,
    Record,
    Row,
    Stream,
    Threshold,
    in_words,
    joined,
    known,
)
from deepval.results.result import HEADLINE, SCHEMA, Result, Samples

__all__ = [
    "FEW_UNITS", "HEADLINE", "KINDS", "MEASURED", "SCHEMA", "UNITS", "Area", "BudgetKey", "BudgetRecord", "CallShare",
    "Curve", "DrawsUsed", "Estimate", "Gap", "HalfWidth", "Inputs", "ModeRate", "Optimum", "OracleAt", "Provenance",
    "Reason", "Record", "Recovery", "Result", "Row", "Samples", "ScoresUsed", "Setting", "Spending", "Spread", "Stream",
    "Threshold", "Unit", "in_words", "joined", "known",
]  # fmt: skip
