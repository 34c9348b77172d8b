"""A cell and recipes -> how much a result depends on the seed of training: docs/definitions.md, Seeds and transfer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.judging.budgets import Selection
from deepval.judging.evaluation import evaluate
from deepval.progress import Watch, silent
from deepval.report.charts import Chart, Dot, plain
from deepval.report.text_table import Table, lines_of, number


@dataclass(frozen=True)
class SeedStudy:
    """One allocator fitted with several seeds, judged on the test units.

    Attributes:
        cell: The cell.
        allocator: The recipe.
        alpha: Share of inputs that may be escalated.
        seeds: The seeds.
        ndg: nDG by seed, None where it is undefined.
        verdicts: Verdict against random by seed.
        identical: Whether every seed gives the same scores to the bit.
    """

    cell: str
    allocator: str
    alpha: float
    seeds: tuple[int, ...]
    ndg: tuple[float | None, ...]
    verdicts: tuple[str | None, ...]
    identical: bool

    @property
    def span(self) -> float | None:
        """Largest nDG less the smallest; None where one is undefined."""
        known = [value for value in self.ndg if value is not None]
        return max(known) - min(known) if len(known) == len(self.ndg) else None


def rows(
    cells: Mapping[str, BuiltCell],
    recipes: Iterable[str],
    *,
    seeds: int = 6,
    alpha: float = 0.2,
    draws: int = 1000,
    watch: Watch = silent,
) -> list[SeedStudy]:
    """Each recipe fitted on each cell with seeds 0, 1, ... and judged on its test units."""
    wanted, found = list(recipes), []
    for name, cell in cells.items():
        for recipe in watch(wanted, f"seeds on {name}"):
            scored = {seed: score_on(cell, fit_on(cell, recipe, seed=seed)) for seed in range(seeds)}
            scores = {f"seed {seed}": item.over(cell.table) for seed, item in scored.items()}
            result = evaluate(cell.listed, scores, [Selection(alpha)], units=list(cell.split.test), draws=draws)
            judged = [result.row(each) for each in scores]
            same = len({item.score.tobytes() for item in scored.values()}) == 1
            ndg, verdicts = tuple(row.ndg for row in judged), tuple(row.verdict for row in judged)
            found.append(SeedStudy(name, recipe, alpha, tuple(scored), ndg, verdicts, same))
    return found


def table(rows: Sequence[SeedStudy]) -> Table:
    """The rows as a table."""
    header = ("cell", "allocator", "nDG by seed", "span", "better", "same bits")
    texts = [
        (
            row.cell,
            row.allocator,
            " ".join(number(v) for v in row.ndg),
            number(row.span),
            str(sum(verdict == "better" for verdict in row.verdicts)),
            "yes" if row.identical else "no",
        )
        for row in rows
    ]
    return Table("Training seeds", header, lines_of(texts))


def chart(rows: Sequence[SeedStudy]) -> Chart:
    """The nDG by seed for each recipe and cell."""
    dots = [Dot(f"{row.cell}: {row.allocator}", "", value) for row in rows for value in row.ndg]
    return plain("nDG by training seed", dots, line=0.0)
