"""Result and its records: all that a report reads."""

from deepval.results.facts import (
    Area,
    CallShare,
    DrawsUsed,
    HalfWidth,
    Optimum,
    OracleAt,
    Provenance,
    Recovery,
    ScoresUsed,
    Setting,
    Spending,
    Spread,
)
from deepval.results.reasons import Reason, joined
from deepval.results.records import KINDS, MEASURED, UNITS, BudgetKey, BudgetRecord, Record, known
from deepval.results.result import HEADLINE, SCHEMA, Result, Samples
from deepval.results.rows import FEW_UNITS, Curve, Gap, Inputs, ModeRate, Row, Stream, Threshold, Unit, in_words

__all__ = [
    "FEW_UNITS", "HEADLINE", "KINDS", "MEASURED", "SCHEMA", "UNITS", "Area", "BudgetKey", "BudgetRecord", "CallShare",
    "Curve", "DrawsUsed", "Gap", "HalfWidth", "Inputs", "ModeRate", "Optimum", "OracleAt", "Provenance", "Reason",
    "Record", "Recovery", "Result", "Row", "Samples", "ScoresUsed", "Setting", "Spending", "Spread", "Stream",
    "Threshold", "Unit", "in_words", "joined", "known",
]  # fmt: skip
