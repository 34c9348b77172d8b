"""The table of what `deepval reproduce` runs: an analysis, the cells it takes together, and what it takes of each.

A row names the analysis as `deepval analyse` does. Its module has `rows(...)`, `table(rows)` (with more than one,
`tables(rows)` too) and `chart(rows)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from deepval.cells.folder import BuiltCell
from deepval.judging.budgets import Energy, Latency
from deepval.paper import pooled
from deepval.paper.analyses import break_even, budgets, external, gaps, skipping, streams, uniform
from deepval.paper.analyses.external import external_tables
from deepval.paper.analyses.targets import across_targets, target_tables
from deepval.paper.parts import ALPHAS
from deepval.report.charts import Chart
from deepval.report.comparisons import overview
from deepval.report.table import Table
from deepval.systems.driving import Driving

ESCALATION, PERCEPTION, ALLOCATORS, COST = (
    "What escalation does",
    "Perception against decision",
    "Allocators",
    "Cost",
)
THEMES = (ESCALATION, PERCEPTION, ALLOCATORS, COST)
GATES = ("gate-ridge", "gate-gbm")
SEEDED = ("router-mlp-value", "router-mlp-binary", "gate-gbm", "router-gbm-value", "router-gbm-binary")
"""Those of the paper; what else is made of trees is fitted by the same code, in which nothing is random."""
FREE = (
    *("gate-ridge", "gate-gbm", "gate-gbm-memory", "router-mlp-value", "router-mlp-binary", "router-gbm-value"),
    *("router-gbm-binary", "router-two-head", "router-recall"),
)
"""Recipes that need no extra and give one score per input."""


@dataclass(frozen=True)
class Analysis:
    """One analysis of a run.

    Attributes:
        name: Its name, as in `deepval analyse`.
        theme: The part of the report that it stands in.
        by: Cells that it takes together: one by one, those that share data set, modes and geometry (so that they differ
            in the consumer alone), those that share data set and modes, or all of a data set and its units.
        takes: For each argument, the part of the cells that it takes (`parts.PARTS`).
        settings: Further arguments.
        judges: Whether it judges allocators of its own on test units, which the cells' ledgers then count.
        long: Whether it takes so long that workers should begin with it.
        least: How many cells it takes at least.
        needs_data: Whether it is left out on cells whose data nobody said where to find.
        among: Which cells it is of, and what is said where there are none.
        written_in: Its module, where it is none of `deepval.paper.analyses`.
        called: The function that makes the rows, where it is not the module's own.
        told: The tables of the rows, where there are several.
        records: The plain rows that are written and compared, where the analysis has other things beside.
    """

    name: str
    theme: str
    by: Literal["cell", "view", "pair", "set"]
    takes: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    judges: bool = False
    long: bool = False
    least: int = 1
    needs_data: bool = False
    among: tuple[Callable[[BuiltCell], bool], str] | None = None
    written_in: str | None = None
    called: Callable[..., Sequence[Any]] | None = None
    told: Callable[[Sequence[Any]], list[Table]] | None = None
    records: Callable[[Sequence[Any]], Sequence[Any]] = list

    @property
    def module_name(self) -> str:
        """Where it is written."""
        return self.written_in or f"deepval.paper.analyses.{self.name.replace('-', '_')}"

    @property
    def module(self) -> ModuleType:
        """Its module."""
        return import_module(self.module_name)

    def rows(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The rows of some cells."""
        call = self.called or self.module.rows
        return list(call(**arguments, **self.settings))

    def tables(self, rows: Sequence[Any]) -> list[Table]:
        """The rows of all cells as tables."""
        several = self.told or getattr(self.module, "tables", None)
        return several(rows) if several else [self.module.table(rows)]

    def chart(self, rows: Sequence[Any]) -> Chart | None:
        """The rows as a chart, where the analysis has one."""
        draw = getattr(self.module, "chart", None)
        return None if draw is None else draw(rows)

    def plain_records(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """The rows as dicts, every field unrounded."""
        return [asdict(row) for row in self.records(rows)]


def _planned(cell: BuiltCell) -> bool:
    return isinstance(cell.spec.rule, Driving)


def _operated(cell: BuiltCell) -> bool:
    return (cell.spec.geometry, cell.spec.system) != ("oracle", "receding-horizon")


def _first_of_pair(cell: BuiltCell) -> bool:
    return (cell.spec.system, cell.spec.geometry) == ("braking", "monocular")


def _has_ladder(cell: BuiltCell) -> bool:
    return len(cell.table.modes) > 2


def _both(module: ModuleType) -> Callable[[Sequence[Any]], list[Table]]:
    """What rows come to over cells, then the rows."""
    return lambda rows: [module.over_cells_table(module.over_cells(rows)), module.table(rows)]


def _with_means(module: ModuleType) -> Callable[[Sequence[Any]], list[Any]]:
    """The rows, then what they come to over cells, which findings read."""
    return lambda rows: [*rows, *module.over_cells(rows)]


CELLS = {"cells": "cells"}
READ_AGAIN = {"cells": "cells", "located": "located"}
RESULTS = {"results": "results"}
CAUSAL = {"results": "causal"}
CHARGED = {"budgets": tuple(Latency(alpha) for alpha in ALPHAS)}
OPERATING = {"with_pairs": True, "with_tuned": True}

ANALYSES: tuple[Analysis, ...] = (
    Analysis("signs", ESCALATION, "cell", CELLS),
    Analysis("composition", ESCALATION, "cell", CELLS),
    Analysis("ties", ESCALATION, "cell", {"cells": "cells", "scores": "aligned"}, {"alphas": (0.2,)}),
    Analysis("mechanism", ESCALATION, "cell", READ_AGAIN),
    Analysis("viability", ESCALATION, "cell", READ_AGAIN, needs_data=True),
    Analysis("lift", ESCALATION, "set", READ_AGAIN, needs_data=True),
    Analysis(
        "operating-points",
        ESCALATION,
        "cell",
        READ_AGAIN,
        OPERATING,
        long=True,
        needs_data=True,
        among=(_operated, "no cell but of the receding horizon with oracle geometry"),
    ),
    Analysis("persistence", ESCALATION, "cell", READ_AGAIN, needs_data=True),
    Analysis("sensitivity", ESCALATION, "cell", READ_AGAIN),
    Analysis("robustness", ESCALATION, "pair", READ_AGAIN),
    Analysis(
        "external",
        ESCALATION,
        "set",
        CELLS,
        among=(_planned, "no cell of a published planner"),
        called=lambda cells: [external.rows(cells)],
        told=lambda rows: [table for each in rows for table in external_tables(each)],
        records=lambda rows: [row for each in rows for row in each.losses],
    ),
    Analysis("agreement", PERCEPTION, "cell", CELLS),
    Analysis("consumers", PERCEPTION, "view", CELLS, least=2),
    Analysis("optima", PERCEPTION, "view", CELLS, least=2),
    Analysis(
        "targets",
        PERCEPTION,
        "view",
        CELLS,
        least=2,
        judges=True,
        called=lambda cells: [across_targets(cells)],
        told=lambda rows: [table for each in rows for table in target_tables(each, 0.2)],
        records=lambda rows: [row for each in rows for row in each.rows],
    ),
    Analysis(
        "perception-ranking",
        PERCEPTION,
        "set",
        {"cells": "cells", "scores": "scores", "diagnostics": "diagnostics"},
        judges=True,
    ),
    Analysis("selection-regret", PERCEPTION, "set", {"cells": "cells", "scores": "train_scores"}, judges=True),
    Analysis("held-out", ALLOCATORS, "set", {"results": "results", "diagnosed": "diagnosed"}),
    Analysis("benefit-harm", ALLOCATORS, "set", RESULTS),
    Analysis("wins", ALLOCATORS, "set", RESULTS),
    Analysis("half-widths", ALLOCATORS, "set", RESULTS),
    Analysis("concentration", ALLOCATORS, "set", RESULTS),
    Analysis(
        "seeds",
        ALLOCATORS,
        "cell",
        CELLS,
        {"recipes": SEEDED},
        judges=True,
        long=True,
        among=(_first_of_pair, "no cell of braking with monocular geometry"),
    ),
    Analysis(
        "out-of-fold",
        ALLOCATORS,
        "cell",
        {"cells": "cells", "results": "results"},
        {"recipes": GATES},
        judges=True,
        among=(_first_of_pair, "no cell of braking with monocular geometry"),
    ),
    Analysis("transfer", ALLOCATORS, "view", CELLS, {"recipes": FREE}, least=2, judges=True),
    Analysis("objective-swap", ALLOCATORS, "set", {"results": "relabelled"}),
    Analysis("published-objectives", ALLOCATORS, "set", {"results": "relabelled"}),
    Analysis("target-transforms", ALLOCATORS, "set", {"results": "relabelled"}),
    Analysis(
        "overview",
        ALLOCATORS,
        "set",
        RESULTS,
        written_in="deepval.report.comparisons",
        called=lambda results: [overview(results, alpha=alpha) for alpha in ALPHAS],
        told=list,
        records=lambda rows: [],
    ),
    Analysis(
        "pooled",
        ALLOCATORS,
        "set",
        RESULTS,
        written_in="deepval.paper.pooled",
        called=pooled.rows,
        told=lambda rows: [pooled.table(rows)],
    ),
    Analysis(
        "charged",
        COST,
        "set",
        {"results": "charged"},
        written_in="deepval.report.comparisons",
        called=lambda results: [overview(results, kind="latency", alpha=alpha) for alpha in ALPHAS],
        told=list,
        records=lambda rows: [],
    ),
    Analysis(
        "budgets",
        COST,
        "set",
        {"results": "charged"},
        told=lambda rows: [budgets.overhead_table(budgets.overheads(rows)), budgets.table(rows)],
    ),
    Analysis(
        "break-even",
        COST,
        "set",
        {"cells": "cells", "scores": "priced", "costs": "costs"},
        CHARGED,
        judges=True,
        told=_both(break_even),
        records=_with_means(break_even),
    ),
    Analysis(
        "gaps",
        COST,
        "set",
        CAUSAL,
        called=lambda results: [row for row in gaps.rows(results) if row.kind == "latency"],
        told=_both(gaps),
        records=_with_means(gaps),
    ),
    Analysis("uniform", COST, "set", CAUSAL, told=_both(uniform)),
    Analysis("capacity", COST, "set", CELLS),
    Analysis(
        "ladder",
        COST,
        "set",
        {"cells": "cells", "costs": "costs"},
        {"budgets": tuple(kind(alpha) for kind in (Latency, Energy) for alpha in ALPHAS)},
        among=(_has_ladder, "no cell of three modes or more"),
    ),
    Analysis("skipping", COST, "set", {"results": "skipping"}, told=_both(skipping)),
    Analysis(
        "streams",
        COST,
        "set",
        CAUSAL,
        called=lambda results: [row for row in streams.rows(results) if row.kind == "selection"],
    ),
)
