"""Cells, or results saved of them -> results under the budgets that analyses of cost look at."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

import deepval
from deepval.allocators import RECIPES
from deepval.allocators.allocator import SIGNALS
from deepval.cells import fitting
from deepval.cells.evaluation_data import note, read_evaluation_data
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.cells.spec import units_of
from deepval.cli import options
from deepval.cli.analysing.shown import Cells
from deepval.cli.groups import Drawn
from deepval.cli.several import Several
from deepval.errors import InputError, InputWarning
from deepval.judging.budgets import RAILS, Accounting, Budget, Measured, Selection, conventions, measured
from deepval.judging.draws import seeds_by_units
from deepval.paper.analyses.streams import CONTROL, control_scores
from deepval.results import MEASURED, Result
from deepval.tables.costs import CONVENTIONS, Convention, Costs
from deepval.tables.scores import Scores, align

LEVELS = (0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class Charges(Several):
    """The budgets that a command asks for, as they are given."""

    costs: options.CostFile = None
    alpha: options.Alphas = None
    budget: Annotated[
        list[str] | None,
        typer.Option("--budget", help="latency (the default), energy, money. Repeatable; several charge each."),
    ] = None
    rails: options.Rails = None

    def checked(
        self,
        drawn: Drawn | None = None,
        *,
        alphas: Sequence[float] = LEVELS,
        kinds: Sequence[str] = ("latency",),
        allowed: tuple[str, ...] = MEASURED,
    ) -> "Charging":
        """The same, checked; these shares and kinds where none are named."""
        named = tuple(dict.fromkeys(options.one_of(kind, allowed, "--budget") for kind in self.budget or kinds))
        if self.rails is not None and "energy" not in named:
            raise InputError("--rails is of energy budgets: give --budget energy too.")
        return Charging(
            alphas=tuple(Selection(alpha).alpha for alpha in self.alpha or alphas),
            kinds=named,
            rails=options.one_of(self.rails or RAILS[0], RAILS, "--rails"),
            costs=None if self.costs is None else Costs.of(self.costs),
            drawn=drawn or Drawn(draws="0"),
        )


@dataclass(frozen=True)
class Charging:
    """What cells are judged under, the options of a command already checked.

    Attributes:
        alphas: Shares.
        kinds: selection, latency, energy, money.
        rails: What energy counts.
        costs: Figures instead of each cell's own.
        drawn: The draws.
    """

    alphas: tuple[float, ...]
    kinds: tuple[str, ...]
    rails: Convention
    costs: Costs | None
    drawn: Drawn

    @property
    def conventions(self) -> tuple[Convention, ...]:
        """What the measured budgets count."""
        units = conventions(self.rails)
        return tuple(units[kind] for kind in self.kinds if kind in units)

    def measured(self, accounting: Accounting = "cascade") -> list[Measured]:
        """The latency, energy and money budgets."""
        kinds = [kind for kind in self.kinds if kind in MEASURED]
        return [measured(kind, a, accounting=accounting, rails=self.rails) for kind in kinds for a in self.alphas]

    def figures(self, name: str, cell: BuiltCell) -> Costs:
        """What modes and allocators of a cell cost."""
        costs = self.costs or cell.table.costs
        if costs is None:
            raise InputError(f"{name}: a measured budget needs costs, and the cell has none: give --costs.")
        return costs

    def charged(self, name: str, cell: BuiltCell, scores: Mapping[str, Any]) -> dict[str, Any]:
        """The scores whose cost is known, those served in batches under their own name too; the others are told of."""
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


def beside(cells: Mapping[str, BuiltCell], charging: Charging) -> dict[str, dict[str, Scores]]:
    """The scores beside each cell that can be charged."""
    return {
        name: charging.charged(name, cell, read_evaluation_data(cell.folder).scores({})) for name, cell in cells.items()
    }


def fitted(
    cells: Mapping[str, BuiltCell], charging: Charging, allocators: Sequence[str] | None
) -> dict[str, dict[str, Scored]]:
    """Scores by signals, and by recipes fitted on the training units alone: the validation units calibrate policies."""
    scores_by_cell = {}
    for name, cell in cells.items():
        recipes = [recipe for recipe in fitting.recipes_for(cell) if _is_selected(recipe, allocators)]
        if charging.conventions and allocators is None:
            priced = charging.figures(name, cell).allocators
            recipes = [recipe for recipe in recipes if recipe in priced or f"{recipe}-batched" in priced]
        signals = [signal for signal in SIGNALS if _is_selected(signal, allocators)]
        scored = fitting.scored_by_all(cell, recipes, signals=signals, units="train", watch=options.watch)
        not_empty = {allocator: item for allocator, item in scored.items() if len(item.input)}
        scores_by_cell[name] = charging.charged(name, cell, not_empty)
    return scores_by_cell


def _is_selected(name: str, allocators: Sequence[str] | None) -> bool:
    return allocators is None or name in allocators


def check_allocators(names: Sequence[str] | None) -> None:
    """Raise where a name is none that can be fitted or scored here."""
    unknown = next((name for name in names or () if name not in (*SIGNALS, *RECIPES)), None)
    if unknown is not None:
        allowed = ", ".join((*SIGNALS, *RECIPES))
        raise InputError(f"An allocator must be one of {allowed}; found {unknown!r}.")


def results(
    sources: Cells,
    charging: Charging,
    *,
    by: str,
    causal: bool = False,
    allocators: Sequence[str] | None = None,
    accountings: Sequence[Accounting] = ("cascade",),
    controls: int = 0,
) -> dict[str, Result]:
    """Results in files as they are, and of cells judged here on their test units.

    Args:
        sources: Results (.json), and cells.
        charging: The budgets.
        by: Name of the analysis, which the cells' ledgers are told.
        causal: Whether allocators are fitted on the training units and policies calibrated on the validation units;
            else the scores beside each cell are judged.
        allocators: Those to fit, where they are fitted.
        accountings: How measured budgets charge an escalation.
        controls: Scores that know nothing, to be judged too.
    """
    by_name, cells = sources.judged()
    scores = fitted(cells, charging, allocators) if causal else beside(cells, charging)
    units = {name: list(units_of(cell.split, "test")) for name, cell in cells.items()}
    seeds = seeds_by_units(units, charging.drawn.seed)
    for name, cell in options.watch(list(cells.items()), "judging"):
        free: list[Budget] = [Selection(a) for a in charging.alphas]
        paid = [budget for accounting in accountings for budget in charging.measured(accounting)]
        table, judged = cell.listed, {n: _align(cell, n, item) for n, item in scores[name].items()}
        if controls:
            judged |= {
                n: align(table, n, s) for n, s in control_scores(len(table), controls, seed=charging.drawn.seed).items()
            }
        if charging.conventions:
            table = replace(table, costs=_with_controls(charging.figures(name, cell), judged))
        by_name[name] = deepval.evaluate(
            table,
            judged,
            [*free, *paid],
            draws=charging.drawn.number,
            seed=seeds[name],
            units=units[name],
            calibration=list(cell.split.validation) if causal else None,
            watch=options.watch,
        )
        note(cell, by=f"analyse {by}", units=units[name], scores=judged)
    return by_name


def _align(cell: BuiltCell, name: str, item: Scored | Scores) -> Scores:
    return align(cell.listed, name, item.over(cell.table) if isinstance(item, Scored) else item)


def _with_controls(costs: Costs, scores: Mapping[str, Scores]) -> Costs:
    """The costs with free controls: they are never deployed."""
    nothing = dict.fromkeys(CONVENTIONS, 0.0)
    return replace(costs, allocators={**costs.allocators, **{n: nothing for n in scores if n.startswith(CONTROL)}})
