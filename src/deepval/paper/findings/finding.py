"""A finding of the paper: what it says and where, the rule by which it is told, and rows -> verdict by that rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.paper.verdicts import Row, Told

CONTROLLERS = ("braking", "receding-horizon")
MONOCULAR, ORACLE = "monocular", "oracle"
LEAST_AFFECTED = 30
"""Affected inputs from which on a cell is asked; with fewer, shares of them say nothing."""
PUBLISHED = (
    *("gate-ridge", "gate-gbm", "router-mlp-value", "router-mlp-binary", "router-gbm-value", "router-gbm-binary"),
)
"""The paper's learned allocators; others of this package are none of its findings."""


@dataclass(frozen=True)
class KnownRows:
    """What one run knows of the cells of one data set.

    Attributes:
        rows: Rows by analysis, every field unrounded.
        cells: By label, what each cell is: geometry, system, cheap and full mode, counts.
    """

    rows: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Mapping[str, Any]]

    def of(self, analysis: str, **wanted: Any) -> list[Row]:
        """Rows of an analysis in which fields are as wanted; a tuple offers several. A row knows what its cell is."""
        found = [{**self.cells.get(str(row.get("cell")), {}), **row} for row in self.rows.get(analysis, ())]
        return [row for row in found if all(_is(row.get(name), value) for name, value in wanted.items())]

    def controlled(self, analysis: str, **wanted: Any) -> list[Row]:
        """The same of the paper's controllers, and of cells with enough affected inputs."""
        found = self.of(analysis, **{"system": CONTROLLERS, **wanted})
        return [row for row in found if row.get("affected") is None or row["affected"] >= LEAST_AFFECTED]


def _is(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else value == wanted


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
    told: Callable[[KnownRows], Told | None]
