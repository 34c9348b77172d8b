"""A cell and recipes -> how much a result depends on the seed of training: docs/definitions.md, Seeds and transfer."""

from collections.abc import Iterable
from dataclasses import dataclass

from deepval.cells.fitting import fit_on, score_on
from deepval.cells.folder import BuiltCell
from deepval.judging.budgets import Selection
from deepval.judging.evaluation import evaluate
from deepval.progress import Watch, unwatched


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


def seed_study(
    cell: BuiltCell,
    recipes: Iterable[str],
    *,
    seeds: int = 6,
    alpha: float = 0.2,
    draws: int = 1000,
    watch: Watch = unwatched,
) -> list[SeedStudy]:
    """Each recipe fitted with seeds 0, 1, ... and judged on the test units."""
    found = []
    for recipe in watch(list(recipes), f"seeds on {cell.folder.name}"):
        scored = {seed: score_on(cell, fit_on(cell, recipe, seed=seed)) for seed in range(seeds)}
        scores = {f"seed {seed}": item.over(cell.table) for seed, item in scored.items()}
        result = evaluate(cell.listed, scores, [Selection(alpha)], units=list(cell.split.test), draws=draws)
        rows = [result.row(name) for name in scores]
        same = len({item.score.tobytes() for item in scored.values()}) == 1
        ndg, verdicts = tuple(row.ndg for row in rows), tuple(row.verdict for row in rows)
        found.append(SeedStudy(cell.folder.name, recipe, alpha, tuple(scored), ndg, verdicts, same))
    return found
