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
from deepval.results.rows import Curve, Gap, Inputs, Row, Stream, Unit
from deepval.results.samples import Samples
from deepval.results.verdicts import FEW_UNITS, in_words

__all__ = [
    "FEW_UNITS", "HEADLINE", "SCHEMA", "UNITS", "BudgetKey", "BudgetRecord", "Curve", "DrawsUsed", "Gap", "HalfWidth",
    "Inputs", "Optimum", "OracleAt", "Provenance", "Reason", "Record", "Result", "Row", "Samples", "ScoresUsed",
    "Setting", "Spending", "Spread", "Stream", "Unit", "in_words", "joined", "known",
]  # fmt: skip
