"""Comparisons of a candidate with a baseline -> a gate that passes or fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from deepval.basics.errors import InputError, argument
from deepval.judge.pooled import PooledComparison
from deepval.judge.report.tables.comparison import (
    AnyComparison,
    bounds,
    difference,
    is_in_loss,
)
from deepval.judge.results import Area

GateName = Literal["worse", "not-better"]
GATES: tuple[str, ...] = get_args(GateName)
"""When a gate fails: the candidate is worse, or is not better."""


@dataclass(frozen=True)
class Gate:
    """A candidate that must not be worse than a baseline (or must be better), under
    every budget that was compared.

    A candidate that cannot pay for itself fails. A comparison without a verdict neither
    passes nor fails, unless the candidate must be better.

    Attributes:
        name: When the gate fails: `worse` or `not-better`.
        rows: The comparisons, at least one of them with a verdict.
    """

    name: str
    rows: Sequence[AnyComparison]

    def __post_init__(self) -> None:
        if all(row.verdict is None for row in self.rows):
            reason = "the two have no budget in common"
            if self.rows:
                reason = self.rows[0].reason
            raise InputError(
                f"{argument('fail_if')} needs a verdict; there is none: {reason}."
            )

    @property
    def failures(self) -> list[AnyComparison]:
        """The comparisons that fail."""
        return [row for row in self.rows if self._fails(row)]

    def _fails(self, row: AnyComparison) -> bool:
        if self.name == "not-better":
            return row.verdict != "better"
        return row.verdict in ("worse", "infeasible")

    @property
    def sentence(self) -> str:
        """The outcome in words, with the difference and its interval for every
        failure.
        """
        first = self.rows[0]
        if self.failures:
            where = [f"{_budget(row)} ({_figures(row)})" for row in self.failures]
            outcome = self.name.replace("-", " ")
        else:
            where = [_budget(row) for row in self.rows]
            outcome = "not worse" if self.name == "worse" else "better"
        at = ", ".join(where)
        return f"{first.candidate} is {outcome} than {first.baseline} at {at}."


def _budget(row: AnyComparison) -> str:
    return "all shares" if isinstance(row, Area) else row.budget.label


def _figures(row: AnyComparison) -> str:
    """The verdict, and the difference with its interval, or the reason why there is
    none.
    """
    verdict = row.verdict or "no verdict"
    has_loss = not isinstance(row, PooledComparison) and row.loss is not None
    if row.difference is None and not has_loss:
        return f"{verdict}: {row.reason}"
    unit = " in units of the loss" if is_in_loss(row) else " of the all-cheap loss"
    of = "" if isinstance(row, Area) or row.of == "gain" else f" (in {row.of})"
    around = f", 95 % interval {bounds(row)}" if bounds(row) else ""
    return f"{verdict}: {difference(row)}{unit}{of}{around}"
