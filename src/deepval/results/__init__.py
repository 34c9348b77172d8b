"""Result and its records: all that a report reads."""

from deepval.results.budget_key import UNITS, BudgetKey
from deepval.results.facts import (
    DrawsUsed,
    HalfWidth,
    Optimum,
    OracleAt,
    Provenance,
    ScoresUsed,
    Setting,
    Spending,
    Spread,
)
from deepval.results.reasons import Reason, joined
from deepval.results.records import BudgetRecord, Record, known
from deepval.results.result import HEADLINE, SCHEMA, Result
from deepval.results.rows import Curve, Gap, Inputs, ModeRate, Row, Stream, Threshold, Unit
from deepval.results.samples import Samples

__all__ = [
    "HEADLINE", "SCHEMA", "UNITS", "BudgetKey", "BudgetRecord", "Curve", "DrawsUsed", "Gap", "HalfWidth", "Inputs",
    "ModeRate", "Optimum", "OracleAt", "Provenance", "Reason", "Record", "Result", "Row", "Samples", "ScoresUsed",
    "Setting", "Spending", "Spread", "Stream", "Threshold", "Unit", "joined", "known",
]  # fmt: skip
