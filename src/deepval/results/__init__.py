"""Result and its records: all that a report reads."""

from deepval.results.budget_key import KINDS, MEASURED, UNITS, BudgetKey
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
from deepval.results.recovery import Area, CallShare, Recovery
from deepval.results.result import HEADLINE, SCHEMA, Result
from deepval.results.rows import Curve, Gap, Inputs, ModeRate, Row, Stream, Threshold, Unit
from deepval.results.samples import Samples
from deepval.results.verdicts import FEW_UNITS, in_words

__all__ = [
    "FEW_UNITS", "HEADLINE", "KINDS", "MEASURED", "SCHEMA", "UNITS", "Area", "BudgetKey", "BudgetRecord", "CallShare",
    "Curve", "DrawsUsed", "Gap", "HalfWidth", "Inputs", "ModeRate", "Optimum", "OracleAt", "Provenance", "Reason",
    "Record", "Recovery", "Result", "Row", "Samples", "ScoresUsed", "Setting", "Spending", "Spread", "Stream",
    "Threshold", "Unit", "in_words", "joined", "known",
]  # fmt: skip
