"""Cells and the budgets of a command -> scores that can be charged, and results under those budgets."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from deepval.allocators import RECIPES
from deepval.allocators.allocator import SIGNALS
from deepval.cells import fitting
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.cells.judgement import case_of, judge, read_evaluation_data, shared_seeds
from deepval.errors import InputError, InputWarning
from deepval.judging.allowances import LEVELS, Accounting, Budget, Measured, Selection, conventions, measured
from deepval.paper.analyses.streams import CONTROL, control_scores
from deepval.progress import Watch, unwatched
from deepval.results import MEASURED, Result
from deepval.tables.costs import CONVENTIONS, Convention, Costs
from deepval.tables.scores import Scores, align


@dataclass(frozen=True)
class Charging:
    """The budgets that cells are judged under.

    Attributes:
        alphas: Shares.
        kinds: selection, latency, energy, money.
        rails: Energy convention.
        costs: Costs to use instead of those of each cell.
        draws: Number of draws.
        seed: Seed of the draws.
    """

    kinds: tuple[str, ...] = ("latency",)
    alphas: tuple[float, ...] = LEVELS
    rails: Convention = "mj"
    costs: Costs | None = None
    draws: int | Literal["exact"] = 0
    seed: int = 0

    @property
    def conventions(self) -> tuple[Convention, ...]:
        """The costs that the measured budgets count."""
        units = conventions(self.rails)
        return tuple(units[kind] for kind in self.kinds if kind in units)

    def measured(self, accounting: Accounting = "cascade") -> list[Measured]:
        """The latency, energy and money budgets."""
        kinds = [kind for kind in self.kinds if kind in MEASURED]
        return [measured(kind, a, accounting=accounting, rails=self.rails) for kind in kinds for a in self.alphas]

    def figures(self, name: str, cell: BuiltCell) -> Costs:
        """The costs of modes and allocators for a cell."""
        costs = self.costs or cell.table.costs
        if costs is None:
            raise InputError(f"{name}: a measured budget needs costs, and the cell has none: give --costs.")
        return costs

    def charged(self, name: str, cell: BuiltCell, scores: Mapping[str, Any]) -> dict[str, Any]:
        """The scores with a known cost, batched serving as an allocator of its own; a warning names the others."""
        if not self.conventions:
            return dict(scores)
        figures = self.figures(name, cell)
        every = fitting.with_batched(scores, figures)
        priced = {
            allocator: item
            for allocator, item in every.items()
            if item.kind == "deployable"
            and all(unit in figures.allocators.get(allocator, {}) for unit in self.conventions)
        }
        omitted = [allocator for allocator in scores if allocator not in priced]
        if not priced:
            raise InputError(
                f"{name}: an allocator is charged its {' and '.join(self.conventions)}, and the costs have none of "
                f"{', '.join(omitted) or 'any'}: give --costs that do."
            )
        if omitted:
            pronoun = "it" if len(omitted) == 1 else "them"
            message = f"{name}: {', '.join(omitted)} left out, for the costs do not charge {pronoun}."
            warnings.warn(InputWarning(message), stacklevel=2)
        return priced


def stored(cells: Mapping[str, BuiltCell], charging: Charging) -> dict[str, dict[str, Scores]]:
    """The scores in the folder of each cell that can be charged."""
    return {
        name: charging.charged(name, cell, read_evaluation_data(cell.folder).scores({})) for name, cell in cells.items()
    }


def fitted(
    cells: Mapping[str, BuiltCell], charging: Charging, allocators: Sequence[str] | None, *, watch: Watch = unwatched
) -> dict[str, dict[str, Scored]]:
    """Scores by signals, and by allocators fitted on the training units: the validation units calibrate policies."""
    scores_by_cell = {}
    for name, cell in cells.items():
        recipes = [recipe for recipe in fitting.recipes_for(cell) if _is_selected(recipe, allocators)]
        if charging.conventions and allocators is None:
            priced = charging.figures(name, cell).allocators
            recipes = [recipe for recipe in recipes if recipe in priced or f"{recipe}-batched" in priced]
        signals = [signal for signal in SIGNALS if _is_selected(signal, allocators)]
        scored = fitting.scored_by_all(cell, recipes, signals=signals, units="train", watch=watch)
        not_empty = {allocator: item for allocator, item in scored.items() if len(item.input)}
        scores_by_cell[name] = charging.charged(name, cell, not_empty)
    return scores_by_cell


def _is_selected(name: str, allocators: Sequence[str] | None) -> bool:
    return allocators is None or name in allocators


def check_allocators(names: Sequence[str] | None) -> None:
    """Raise where a name is neither a signal nor a recipe."""
    unknown = next((name for name in names or () if name not in (*SIGNALS, *RECIPES)), None)
    if unknown is not None:
        allowed = ", ".join((*SIGNALS, *RECIPES))
        raise InputError(f"An allocator must be one of {allowed}; found {unknown!r}.")


def results(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scores | Scored]],
    charging: Charging,
    *,
    command: str,
    calibrate: bool = False,
    accountings: Sequence[Accounting] = ("cascade",),
    controls: int = 0,
    watch: Watch = unwatched,
) -> dict[str, Result]:
    """Cells judged on their test units.

    Args:
        cells: Cells by name.
        scores: Their scores (`stored`, `fitted`).
        charging: The budgets.
        command: Name of the analysis, for the ledgers.
        calibrate: Whether policies are calibrated on the validation units.
        accountings: How measured budgets charge an escalation.
        controls: Number of random scores to judge too.
        watch: Shows the progress.
    """
    judged, seeds = {}, shared_seeds(cells, charging.seed)
    for name, cell in watch(list(cells.items()), "judging"):
        free: list[Budget] = [Selection(a) for a in charging.alphas]
        paid = [budget for accounting in accountings for budget in charging.measured(accounting)]
        aligned = {n: _align(cell, n, item) for n, item in scores[name].items()}
        if controls:
            random = control_scores(len(cell.listed), controls, seed=charging.seed)
            aligned |= {n: align(cell.listed, n, item) for n, item in random.items()}
        costs = _with_controls(charging.figures(name, cell), aligned) if charging.conventions else None
        judged[name] = judge(
            case_of(cell, costs),
            aligned,
            [*free, *paid],
            command=command,
            draws=charging.draws,
            seed=seeds[name],
            calibration=list(cell.split.validation) if calibrate else None,
            watch=watch,
        )
    return judged


def _align(cell: BuiltCell, name: str, item: Scored | Scores) -> Scores:
    return align(cell.listed, name, item.over(cell.table) if isinstance(item, Scored) else item)


def _with_controls(costs: Costs, scores: Mapping[str, Scores]) -> Costs:
    """The costs with free controls: they are never deployed."""
    nothing = dict.fromkeys(CONVENTIONS, 0.0)
    return replace(costs, allocators={**costs.allocators, **{n: nothing for n in scores if n.startswith(CONTROL)}})
