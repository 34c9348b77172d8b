"""A finding of the paper: what it says and where, the rule by which it is told, and rows -> verdict by that rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.paper.findings.verdicts import Outcome, Row

CONTROLLERS = ("braking", "receding-horizon")
MONOCULAR, ORACLE = "monocular", "oracle"
LEAST_AFFECTED = 30
"""Affected inputs from which on a cell is asked; with fewer, shares of them say nothing."""
PUBLISHED = (
    *("gate-ridge", "gate-gbm", "router-mlp-value", "router-mlp-binary", "router-gbm-value", "router-gbm-binary"),
)
"""The paper's learned allocators; others of this package are none of its findings."""


@dataclass(frozen=True)
class RunRows:
    """The rows of one run on the cells of one data set.

    Attributes:
        rows: Rows by analysis, every field unrounded.
        cells: By label, what each cell is: geometry, system, cheap and full mode, counts.
    """

    rows: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Mapping[str, Any]]

    def of(self, analysis: str, **requested: Any) -> list[Row]:
        """Rows of an analysis with these fields; a tuple lists several values. Rows carry the fields of their cell."""
        rows = [{**self.cells.get(str(row.get("cell")), {}), **row} for row in self.rows.get(analysis, ())]
        return [row for row in rows if all(_is(row.get(name), value) for name, value in requested.items())]

    def controlled(self, analysis: str, **requested: Any) -> list[Row]:
        """Rows of the paper's controllers, on cells with enough affected inputs."""
        rows = self.of(analysis, **{"system": CONTROLLERS, **requested})
        return [row for row in rows if row.get("affected") is None or row["affected"] >= LEAST_AFFECTED]


def _is(value: Any, requested: Any) -> bool:
    return value in requested if isinstance(requested, tuple) else value == requested


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        name: A short name.
        theme: The part of the report that it belongs to.
        says: What the paper says.
        where: Where it says so.
        rule: What bears it out here and what contradicts it.
        analysis: The analysis that tells.
        told: Rows -> verdict and figures; None where the data set has nothing that could tell.
    """

    name: str
    theme: str
    says: str
    where: str
    rule: str
    analysis: str
    told: Callable[[RunRows], Outcome | None]
