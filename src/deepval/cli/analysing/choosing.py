"""`deepval analyse perception-ranking` and `selection-regret`: choosing allocators by what they do for perception."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from deepval.cells import fitting
from deepval.cells.evaluation_data import note_looks
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.cli import options
from deepval.cli.analysing.shown import Cells, Shown
from deepval.cli.groups import Drawn
from deepval.cli.several import Several
from deepval.judging.budgets import Selection


@dataclass(frozen=True)
class Choice(Several):
    """What is chosen among, and by which objectives at which budgets."""

    allocator: Annotated[
        list[str] | None,
        typer.Option("--allocator", "-a", help="Recipe to fit and rank among the others. Repeatable. Default: none."),
    ] = None
    loss: Annotated[
        list[str] | None,
        typer.Option("--loss", help="Perception loss, E1 to E8. Repeatable. Default: all that are defined."),
    ] = None
    alpha: options.Alphas = None

    def checked(self) -> tuple[list[str] | None, list[float]]:
        """Losses and shares, all that is named known."""
        from deepval.allocators import recipe_named
        from deepval.paper.analyses.selection_regret import ALPHAS, checked_losses

        for name in self.allocator or ():
            recipe_named(name)
        return self.loss and checked_losses(self.loss), [Selection(alpha).alpha for alpha in self.alpha or ALPHAS]

    def scored(self, cells: Mapping[str, BuiltCell], *, units: str) -> dict[str, dict[str, Scored]]:
        """Scores of each cell by signals, and by recipes fitted on these units."""
        from deepval.allocators.allocator import SIGNALS
        from deepval.paper.analyses.selection_regret import FREE

        signals = [name for name in FREE if name in SIGNALS]
        return {
            name: fitting.scored_by_all(cell, self.allocator or (), signals=signals, units=units, lenient=True)
            for name, cell in options.watch(list(cells.items()), "scoring")
        }


def perception_ranking(sources: Cells, *, choice: Choice, output: Shown) -> None:
    """Show how often the best signals by perception gain and by decision gain are different ones.

    Example: deepval analyse perception-ranking cells/braking-monocular cells/braking-oracle -a gate-ridge
    """
    from deepval.paper.analyses import perception_ranking as analysis

    losses, alphas = choice.checked()
    built = sources.named()
    scores = choice.scored(built, units="fit")
    diagnostics = {name: fitting.diagnosed(cell) for name, cell in options.watch(list(built.items()), "diagnostics")}
    rows = analysis.rows(built, scores, diagnostics, losses=losses, alphas=alphas)
    note_looks(built.values(), by="analyse perception-ranking")
    output.tell(rows, analysis.table, analysis.cells_table)


def selection_regret(sources: Cells, *, choice: Choice, drawn: Drawn, output: Shown) -> None:
    """Choose on validation units by perception gain and by decision gain, and show what the first costs on test units.

    Example: deepval analyse selection-regret cells/braking-monocular cells/braking-oracle --loss E1 --loss E8
    """
    from deepval.paper.analyses import selection_regret as analysis

    losses, alphas = choice.checked()
    built = sources.named()
    scores = choice.scored(built, units="train")
    rows = analysis.rows(built, scores, losses=losses, alphas=alphas, **drawn.settings, watch=options.watch)
    note_looks(built.values(), by="analyse selection-regret")
    output.tell(rows, analysis.table, analysis.cells_table)
