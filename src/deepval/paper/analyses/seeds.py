"""A cell and recipes -> how much a result depends on the seed of training:
docs/definitions.md, Seeds and transfer.

nDG and verdict of an allocator fitted with several seeds, and whether its scores are
the same bits.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.errors import InputWarning, NothingToLearnError
from deepval.judging.allowances import Selection
from deepval.judging.cases import judge
from deepval.paper.analysis import FIRST_OF_PAIR, Option, declare
from deepval.paper.row_columns import (
    AllocatorName,
    CellName,
    column,
    declared_table,
    yes_no,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_tables import Table, number

RANDOMIZED = (
    "router-mlp-value",
    "router-mlp-binary",
    "gate-gbm",
    "router-gbm-value",
    "router-gbm-binary",
)
"""The recipes of the paper's study; no other recipe has a random fit."""


@dataclass(frozen=True)
class SeedStudy(AllocatorName, CellName):
    """One allocator fitted with several seeds, judged on the test units."""

    alpha: float = column("Share of inputs that may be escalated")
    seeds: tuple[int, ...] = column("The seeds")
    ndg: tuple[float | None, ...] = column(
        "nDG by seed; None if undefined",
        "nDG by seed",
        lambda values: " ".join(map(number, values)),
    )
    verdicts: tuple[str | None, ...] = column(
        "Verdict against random by seed",
        "better",
        lambda verdicts: str(verdicts.count("better")),
    )
    identical: bool = column(
        "Whether every seed gives the same scores to the bit", "same bits", yes_no
    )

    @property
    def span(self) -> float | None:
        """Largest nDG less the smallest; None if any nDG is undefined."""
        numbers = [value for value in self.ndg if value is not None]
        return max(numbers) - min(numbers) if len(numbers) == len(self.ndg) else None


def rows(
    cells: Mapping[str, BuiltCell],
    recipes: Iterable[str] = RANDOMIZED,
    *,
    seeds: Annotated[int, Option("Number of seeds: 0, 1, ...", limits=(1, 1_000))] = 6,
    alpha: float = 0.2,
    draws: int = 1000,
    watch: Watch = unwatched,
) -> list[SeedStudy]:
    """Each recipe fitted on each cell with seeds 0, 1, ... and judged on its test
    units.

    A cell that has nothing to learn is left out with a warning.
    """
    names, records = list(recipes), []
    for name, cell in cells.items():
        for recipe in watch(names, f"seeds on {name}"):
            try:
                scored = {
                    seed: score_on(cell, fit_on(cell, recipe, seed=seed))
                    for seed in range(seeds)
                }
            except NothingToLearnError as error:
                warnings.warn(f"{name}, left out: {error}", InputWarning, stacklevel=2)
                continue
            scores = {
                f"seed {seed}": item.over(cell.table) for seed, item in scored.items()
            }
            result = judge(cell, scores, [Selection(alpha)], command=None, draws=draws)
            judged_rows = [result.row(label) for label in scores]
            same = len({item.score.tobytes() for item in scored.values()}) == 1
            ndg, verdicts = (
                tuple(row.ndg for row in judged_rows),
                tuple(row.verdict for row in judged_rows),
            )
            records.append(
                SeedStudy(name, recipe, alpha, tuple(scored), ndg, verdicts, same)
            )
    return records


def table(rows: Sequence[SeedStudy]) -> Table:
    """The rows as a table."""
    spans = [number(row.span) for row in rows]
    return declared_table(SeedStudy, rows, "Training seeds").with_column(
        "nDG by seed", "span", spans
    )


def chart(rows: Sequence[SeedStudy]) -> Chart:
    """The nDG by seed for each recipe and cell."""
    dots = [
        Dot(f"{row.cell}: {row.allocator}", "", value)
        for row in rows
        for value in row.ndg
    ]
    return plain("nDG by training seed", dots, line=0.0)


SEEDS = declare(
    __name__,
    shows="Show how results depend on the training seed",
    see="definitions.md#seeds-and-transfer",
    paper="seed study",
    example="cells/braking-monocular -a router-mlp-value -a gate-gbm",
    by="cell",
    judges=True,
    long=True,
    among=FIRST_OF_PAIR,
)
