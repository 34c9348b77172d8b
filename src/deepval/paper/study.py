"""A cell -> its parts that analyses take: scores, costs, results with allocators free
and charged (`PARTS`).

`deepval analyse` makes parts from the scores in the folder of a cell and from its
options. `deepval reproduce` makes them from all allocators, fitted here, and stores
them: a stored part depends on the files of the cell, on its own settings and on the
code that makes it.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deepval.basics.arrays import Bool, Float, Shaped
from deepval.basics.errors import InputError, InputWarning, UnsuitableError
from deepval.basics.files import reading
from deepval.basics.files.canonical import SCORES as SCORES_FOLDER
from deepval.basics.files.writing import write_atomically
from deepval.basics.progress import Watch, unwatched
from deepval.deploy import fitting
from deepval.deploy.allocators import (
    EVERYTHING,
    RECIPES,
    PixelRecipe,
    PixelRouter,
    check_allocators,
    check_recipes,
    recipe_by_name,
)
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.fitting import Scored
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.cells.spec import CellSpec
from deepval.driving.perception.reported.losses import perception_gains
from deepval.judge.allowances import (
    LEVELS,
    RAILS,
    Accounting,
    Budget,
    Selection,
    conventions,
    measured,
)
from deepval.judge.cases import (
    EvaluationData,
    JudgedCell,
    case_of,
    judge,
    with_batched,
    with_costs,
)
from deepval.judge.draws import Draws, make_draws
from deepval.judge.ratios import ratio
from deepval.judge.results import MEASURED, Result
from deepval.judge.tables.columns import csv_text
from deepval.judge.tables.costs import CONVENTIONS, Convention, Costs, read_costs
from deepval.judge.tables.keys import positions
from deepval.judge.tables.scores import Scores, align
from deepval.judge.tables.split import units_of
from deepval.judge.tables.values import ValueTable
from deepval.paper.analyses.contrasts import (
    GAINS,
    PUBLISHED,
    RANK,
    SIGNED_CDF,
    VALUE,
    Label,
    scored_on_labels,
)
from deepval.paper.analysis import ALPHAS, Option
from deepval.paper.columns import estimate
from deepval.paper.costs import needed_costs
from deepval.paper.stored_files import (
    stored_result,
    stored_rows_cell,
    stored_scores,
    storing_fits,
)
from deepval.paper.tidy import Estimate, Row

FREE = ("random", "uncertainty", "criticality", "ego-speed")
"""Signals without a fit."""
CONTROL = "random scores"
"""Prefix of the names of control scores.

These are random, so what they lose is the cost of the policy alone.
"""
VALUES = "decision values"
"""Name of scores that are the decision values themselves, out of fold: what policies
lose with the best scores.
"""
BOARD = "jetson-agx-xavier"
BOARD_MODES = ("yolov8s-320", "yolov8s-640")
"""Modes whose costs stand for those of the cheap and the full mode if a cell has no
costs, as with public detectors.
"""
RELABELLED: dict[str, tuple[Label, ...]] = {
    "gate-ridge": (VALUE, *GAINS),
    "gate-gbm": (VALUE, *GAINS),
    "router-gbm-value": (VALUE, RANK, SIGNED_CDF, *PUBLISHED),
    "router-gbm-binary": (VALUE, *PUBLISHED),
}
"""Recipes that a reproduction fits on other labels.

Networks take ten times as long: only the commands fit them.
"""
Role = Literal["fit", "train"]


@dataclass(frozen=True)
class Choices:
    """The settings with which parts are made: the options of a command.

    The defaults are those of a reproduction.

    Attributes:
        command: Name of the command, for ledgers; None for a reproduction.
        kinds: Kinds of budgets: selection, latency, energy, money.
        alphas: Shares of inputs that may be escalated.
        rails: Energy convention.
        draws: Number of draws.
        seed: Seed of the draws, and of control scores.
        allocators: Signals and recipes by name; None for all that apply to a cell and
            have a cost.
        ranked: Recipes that a command fits to rank them among the signals.
        labels: Labels to fit each recipe on.
        controls: Number of random scores to judge beside the allocators.
        stored_scores: Whether a command includes the scores in the folders of cells.
        folds: Number of folds, if allocators are fitted and policies calibrated out of
            fold; else 0.
        units: Units of the folds, by role or by name.
    """

    command: str | None = None
    kinds: tuple[str, ...] = ("latency",)
    alphas: Sequence[float] = LEVELS
    rails: Convention = RAILS[0]
    draws: int | Literal["exact"] = 1000
    seed: int = 0
    allocators: Sequence[str] | None = None
    ranked: Sequence[str] = ()
    labels: Mapping[str, Sequence[Label]] = field(default_factory=lambda: RELABELLED)
    controls: int = 0
    stored_scores: bool = False
    folds: int = 0
    units: str | Sequence[str] = "all"

    @property
    def conventions(self) -> tuple[Convention, ...]:
        """The costs that the measured budgets count."""
        units = conventions(self.rails)
        return tuple(units[kind] for kind in self.kinds if kind in units)

    def measured(self, accounting: Accounting = "cascade") -> list[Budget]:
        """The latency, energy and money budgets."""
        kinds = [kind for kind in self.kinds if kind in MEASURED]
        return [
            measured(kind, a, accounting=accounting, rails=self.rails)
            for kind in kinds
            for a in self.alphas
        ]


Units = str | Sequence[str]
"""Units by role (train, validation, test, fit, all), by name, or both."""
DrawCount = int | Literal["exact"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of some units of a cell, with units and decision values.

    Attributes:
        cell: The cell.
        table: Losses by input and mode.
        draws: Resamples of the units, for intervals.
    """

    cell: "Cell"
    table: ValueTable
    draws: Draws

    @cached_property
    def value(self) -> Float[np.ndarray, "input"]:
        """Decision value: loss of the cheap mode less loss of the full mode."""
        return self.table.decision_values

    # A system whose losses are geometric differs by rounding on inputs that it does not
    # care about; its tolerance keeps them from counting as helped or harmed.

    @cached_property
    def helped(self) -> Bool[np.ndarray, "input"]:
        """Inputs whose loss the full mode lowers."""
        return self.value > self.table.tolerance

    @cached_property
    def harmed(self) -> Bool[np.ndarray, "input"]:
        """Inputs whose loss the full mode raises."""
        return self.value < -self.table.tolerance

    @property
    def affected(self) -> Bool[np.ndarray, "input"]:
        """Inputs whose loss the full mode changes."""
        return self.helped | self.harmed

    def aligned(
        self, by_input: Shaped[np.ndarray, "any"]
    ) -> Shaped[np.ndarray, "input"]:
        """Values by input of the cell, for these inputs."""
        # By id, never by position: units may have been left out or listed anew.
        return by_input[positions(self.table.input, self.cell.cell.table.input)]

    def only_those_of(self, other: "Inputs") -> "Inputs":
        """The inputs that another cell has too."""
        shared = positions(self.table.input, other.table.input) >= 0
        return replace(self, table=self.table.keep(shared))

    @cached_property
    def perception_gains(self) -> dict[str, Float[np.ndarray, "input"]]:
        """Decrease of each perception loss, E1 to E8, from cheap to full."""
        gains = perception_gains(*self.cell.cell.evidence.losses)
        return {loss: self.aligned(gain) for loss, gain in gains.items()}

    def share(
        self, part: Bool[np.ndarray, "input"], of: Bool[np.ndarray, "input"]
    ) -> Estimate:
        """Share of the inputs `of` that are in `part`, with its interval."""
        return estimate(ratio(self.table, part & of, of, draws=self.draws))


@dataclass(frozen=True)
class Cell:
    """A cell and what analyses ask of it.

    Attributes:
        name: Its name in tables.
        collection: Name of the cells of its data set and units in a report.
        folder: Folder of the cell.
        spec: Its specification with the folder of its data; None if that folder is
            unknown.
        work: Folder in which parts are stored; None stores nothing.
        costs: Costs that replace the cell's own, or the name of costs that are used
            only if the cell has none.
        recipes: Recipes that a reproduction fits; None for all that apply to the cell.
        seed: Seed of its draws.
        built: The cell, if it has been read.
        choices: What its parts are made with.
        watch: Progress reporting.
        parts: The parts that exist, such as a saved result.
        unlocated: Why its data cannot be read, if that was tried.
    """

    name: str
    collection: str = ""
    folder: Path | None = None
    spec: CellSpec | None = None
    work: Path | None = None
    costs: str | Costs | None = None
    recipes: tuple[str, ...] | None = None
    seed: int = 0
    built: BuiltCell | None = field(default=None, repr=False, compare=False)
    choices: Choices = field(default_factory=Choices)
    watch: Watch = field(default=unwatched, repr=False, compare=False)
    parts: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    unlocated: str = ""

    def __getstate__(self) -> dict[str, Any]:
        # Parts are stored in files; another process reads them there.
        state = {name: value for name, value in vars(self).items() if name != "cell"}
        return state | {"parts": {}, "watch": unwatched}

    @cached_property
    def cell(self) -> BuiltCell:
        """The cell in its folder."""
        if self.built is not None:
            return self.built
        assert self.folder is not None
        assert self.work is not None
        return stored_rows_cell(self.folder, self.work)

    @property
    def is_reproduced(self) -> bool:
        """Whether the cell belongs to a reproduction rather than to a command."""
        return self.choices.command is None

    @property
    def description(self) -> Row:
        """The columns that describe it (`CELL`)."""
        modes = self.cell.table.modes
        spec = self.cell.spec
        return {
            "cell": self.name,
            "cheap": modes[0],
            "full": modes[-1],
            "geometry": spec.geometry,
            "system": spec.system,
        }

    def inputs(self, units: Units, draws: DrawCount = 0, seed: int = 0) -> Inputs:
        """The inputs of some units, with draws of these units."""
        table = loss_table(self.cell, units)
        return Inputs(self, table, make_draws(len(table.unit_ids), draws, seed))

    def shares_perception_with(self, other: "Cell") -> bool:
        """Whether the two differ in the downstream system alone."""
        # Compared by definition, not by name: a definition holds hashes of all files.
        mine = self.cell.definition
        theirs = other.cell.definition
        return all(
            mine[part] == theirs[part] for part in ("dataset", "modes", "geometry")
        )

    @property
    def located(self) -> CellSpec:
        """Its specification with the folder of its data, which it must have."""
        spec = self.part("located")
        assert spec is not None, f"{self.name}: needs_data must be declared"
        return spec

    def needed_costs(self, what: str) -> Costs:
        """Costs of modes and allocators; `what` names the quantity that needs them."""
        costs = self.part("costs")
        if costs is not None:
            return costs
        return needed_costs(self.name, self.cell.table, what)

    def part(self, name: str) -> Any:
        """One of PARTS, made if it is not stored; None where the part does not apply to
        this cell.
        """
        if self.is_reproduced:
            name = PARTS[name].reproduced_as or name
        if name not in self.parts:
            with self.storing_fits():
                self.parts[name] = PARTS[name].make(self, self.watch)
        return self.parts[name]

    def storing_fits(self) -> AbstractContextManager[None]:
        """While active, fits are stored in the work folder, and read from there if
        already stored.
        """
        return nullcontext() if self.work is None else storing_fits(self.work)

    def stored_scores(
        self,
        kind: str,
        settings: Mapping[str, Any],
        make: Callable[[], dict[str, Scored]],
    ) -> dict[str, Scored]:
        """Scores; stored if there is a work folder."""
        return (
            make()
            if self.work is None
            else stored_scores(self.cell, self.work, kind, settings, make)
        )

    def judgement(
        self,
        kind: str,
        scores: Callable[[], Mapping[str, Scores | Scored]],
        budgets: Sequence[Budget] | None = None,
        *,
        settings: Mapping[str, Any],
        **judging: Any,
    ) -> Result:
        """The judgement of scores on the test units; stored if there is a work
        folder.
        """
        command = self.choices.command or f"reproduce {kind}"
        options = {
            "case": self.cell,
            "command": command,
            "draws": self.choices.draws,
            "seed": self.seed,
        } | judging

        def make() -> Result:
            return judge(scores=scores(), budgets=budgets, **options)

        if self.work is None:
            return make()
        return stored_result(
            self.cell, self.work, kind, {"alphas": LEVELS, **settings}, make
        )


def skippers() -> tuple[str, ...]:
    """Allocators of the package that do not look at the cheap mode's output."""
    uses_by_name = {name: signal.uses for name, signal in SIGNALS.items()}
    uses_by_name |= {
        name: PixelRouter.uses
        for name, recipe in RECIPES.items()
        if isinstance(recipe, PixelRecipe)
    }
    return tuple(
        name
        for name, parts in uses_by_name.items()
        if not any(part.startswith("cheap") for part in parts)
    )


def control_scores(
    inputs: int, number: int, *, seed: int = 0
) -> dict[str, Float[np.ndarray, "input"]]:
    """Random scores, to be judged beside the allocators: `number` of them by name."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return {f"{CONTROL} {index + 1}": rng.random(inputs) for index in range(number)}


def of_built(cells: Mapping[str, BuiltCell]) -> list[Cell]:
    """Built cells by name, with the scores and costs in their folders."""
    return [
        Cell(name, built=cell, folder=cell.folder, choices=Choices(command="python"))
        for name, cell in cells.items()
    ]


def loss_table(cell: JudgedCell, units: Units) -> ValueTable:
    """The losses of the named units."""
    # Units without inputs are listed too: so cells of one data set share draws.
    return cell.listed.restrict(list(units_of(cell.split, units)))


def of_each(cells: Sequence[Cell], name: str) -> dict[str, Any]:
    """A part of each cell by name; cells that it does not apply to are left out."""
    part = PARTS[name]
    parts = {}
    for cell in watched(cells, part.verb):
        own = cell.part(name)
        if own is not None:
            parts[cell.name] = own
    return parts


def watched(cells: Sequence[Cell], label: str | None) -> Iterable[Cell]:
    """The cells, with a progress bar if there is something to wait for."""
    if label is None or not cells:
        return cells
    return cells[0].watch(cells, label)


def consumer_pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Pairs of cells that differ in the downstream system alone."""
    pairs = []
    for first, second in combinations(cells, 2):
        if first.shares_perception_with(second):
            pairs.append((first, second))
    if not pairs:
        raise InputError(
            "Two cells with the same data set, modes and geometry are needed to "
            "compare consumers; found none among "
            f"{', '.join(cell.name for cell in cells)}."
        )
    return pairs


def costs_of(at: Cell) -> Costs | None:
    """The costs that the caller names, or the cell's own, or those of the board under
    the names of the cell's modes.
    """
    if isinstance(at.costs, Costs):
        return at.costs
    if at.cell.table.costs is not None or at.costs is None:
        return at.cell.table.costs
    profile, modes = read_costs(at.costs), at.cell.table.modes
    if all(mode in profile.modes for mode in modes):
        return profile
    return profile.with_modes(
        dict(zip((modes[0], modes[-1]), BOARD_MODES, strict=True))
    )


def _located(at: Cell, _watch: Watch) -> CellSpec | None:
    if at.unlocated:
        raise UnsuitableError(at.unlocated)
    return at.spec


def _needed_costs(at: Cell) -> Costs:
    costs = costs_of(at)
    if costs is None:
        raise UnsuitableError(
            f"{at.name}: a measured budget needs costs, and the "
            "cell has none: give --costs."
        )
    return costs


def recipes_of(at: Cell) -> tuple[str, ...]:
    """The recipes that a reproduction fits on a cell."""
    if at.cell.split.too_few is not None:
        return ()
    available = fitting.recipes_for(at.cell)
    return (
        available
        if at.recipes is None
        else tuple(name for name in available if name in at.recipes)
    )


def _recipes_with_latency(at: Cell) -> tuple[str, ...]:
    costs = _needed_costs(at).allocators
    return tuple(recipe for recipe in recipes_of(at) if "ms" in costs.get(recipe, {}))


def _scores(at: Cell, role: Role) -> dict[str, Scored]:
    if not at.is_reproduced:
        signals = [name for name in FREE if name in SIGNALS]
        return fitting.scored_by_all(
            at.cell, at.choices.ranked, signals=signals, units=role
        )
    recipes = recipes_of(at) if role == "fit" else _recipes_with_latency(at)
    settings = {"recipes": recipes, "units": role}
    scored = at.stored_scores(
        "scores", settings, lambda: fitting.scored_by_all(at.cell, recipes, units=role)
    )
    if role == "fit":
        _write_scores(at, scored)
    return scored


def _write_scores(at: Cell, scored: Mapping[str, Scored]) -> None:
    """Put scores where every command finds them: in a cell that the run has built.

    Those of test units alone: the others were fitted on.
    """
    assert at.folder is not None
    assert at.work is not None
    if not at.folder.resolve().is_relative_to(at.work.resolve()):
        return
    table = loss_table(at.cell, "test")
    for name, item in scored.items():
        file = at.folder / SCORES_FOLDER / f"{name}.csv"
        to_judge = np.isin(item.input, table.input)
        if to_judge.any() and not reading.is_file(file):
            columns = {
                column: values[to_judge] for column, values in item.columns().items()
            }
            write_atomically(file, csv_text(columns), make_folder=True)


def _diagnostics(at: Cell, _watch: Watch) -> dict[str, Scored]:
    return at.stored_scores(
        "diagnostics", {}, lambda: fitting.diagnostic_scores(at.cell)
    )


def _aligned(at: Cell, _watch: Watch) -> list[Scores] | None:
    if at.is_reproduced:
        return [
            item.over(at.cell.table)
            for item in at.part("scores").values()
            if len(item.input) == item.inputs
        ]
    case = EvaluationData(at.cell.folder, at.cell.table, at.cell)
    return list(case.scores({}).values()) if at.choices.stored_scores else None


def _results(at: Cell, _watch: Watch) -> Result:
    if at.is_reproduced:
        return at.judgement(
            "free", lambda: at.part("scores"), settings={"recipes": recipes_of(at)}
        )
    case = case_of(at.cell)
    scores = case.scores({})
    budgets = [
        Selection(a)
        if kind == "selection"
        else measured(kind, a, rails=case.energy_convention)
        for kind in case.kinds(scores)
        for a in LEVELS
    ]
    return at.judgement(
        "free",
        lambda: scores,
        budgets,
        settings={},
        case=case,
        units=case.units(None, usual="test"),
        missing_costs=case.missing_costs(scores, budgets),
    )


def _diagnostic_results(at: Cell, _watch: Watch) -> Result:
    # A command notes its look at the test units when it judges the scores beside these.
    ledger = {} if at.is_reproduced else {"command": None}
    return at.judgement(
        "diagnostic_results", lambda: at.part("diagnostics"), settings={}, **ledger
    )


def _diagnostic_names(at: Cell, _watch: Watch) -> set[str]:
    scores = {} if at.is_reproduced else case_of(at.cell).scores({})
    return {item.name for item in scores.values() if item.kind == "diagnostic"}


def _charge(at: Cell, scores: Mapping[str, Any]) -> dict[str, Any]:
    """The scores that have a cost; a warning names the others.

    Batched serving counts as a separate allocator.
    """
    units = at.choices.conventions
    if not units:
        return dict(scores)
    costs = _needed_costs(at)
    with_cost = {
        allocator: item
        for allocator, item in with_batched(scores, costs).items()
        if item.kind == "deployable"
        and all(unit in costs.allocators.get(allocator, {}) for unit in units)
    }
    omitted = [allocator for allocator in scores if allocator not in with_cost]
    if not with_cost and not at.is_reproduced:
        raise UnsuitableError(
            f"{at.name}: an allocator is charged its {' and '.join(units)}, and the "
            f"costs have none of {', '.join(omitted) or 'any'}: give --costs that do."
        )
    if omitted:
        pronoun = "it" if len(omitted) == 1 else "them"
        message = (
            f"{at.name}: {', '.join(omitted)} left out, because "
            f"the costs do not include {pronoun}."
        )
        warnings.warn(InputWarning(message), stacklevel=2)
    return with_cost


def _scores_with_cost(at: Cell, _watch: Watch) -> dict[str, Any]:
    if not at.is_reproduced:
        return _charge(at, case_of(at.cell).scores({}))
    return {
        name: item
        for name, item in _charge(at, at.part("scores")).items()
        if len(item.input)
    }


def _judge_charged(
    at: Cell,
    kind: str,
    scores: Callable[[], Mapping[str, Any]],
    accountings: Iterable[Accounting] = ("cascade",),
    *,
    free: bool = True,
    settings: Mapping[str, Any],
    **judging: Any,
) -> Result:
    """The judgement of scores under the budgets of the choices: selection, and measured
    ones with costs charged.
    """
    budgets: list[Budget] = [Selection(a) for a in at.choices.alphas] if free else []
    budgets += [
        budget
        for accounting in accountings
        for budget in at.choices.measured(accounting)
    ]
    controls = control_scores(
        len(at.cell.listed), at.choices.controls, seed=at.choices.seed
    )

    def every() -> dict[str, Any]:
        return {
            **scores(),
            **{
                name: align(at.cell.listed, name, item)
                for name, item in controls.items()
            },
        }

    costs = None
    if at.choices.conventions:
        costs, nothing = _needed_costs(at), dict.fromkeys(CONVENTIONS, 0.0)
        free_controls = dict.fromkeys(controls, nothing)  # they are never deployed
        costs = replace(costs, allocators={**costs.allocators, **free_controls})
        settings = {**settings, "costs": costs.to_dict()}
    return at.judgement(
        kind, every, budgets, settings=settings, case=case_of(at.cell, costs), **judging
    )


def _charged(at: Cell, watch: Watch) -> Result:
    settings = (
        {"recipes": recipes_of(at), "budgets": "free and charged"}
        if at.is_reproduced
        else {}
    )
    return _judge_charged(
        at,
        "charged",
        lambda: at.part("scores_with_cost"),
        settings=settings,
        watch=watch,
    )


def _skipping(at: Cell, watch: Watch) -> Result | None:
    """The result under both accountings; a reproduction judges only allocators that
    need no cheap pass.
    """
    scores = {
        name: item
        for name, item in at.part("scores_with_cost").items()
        if not at.is_reproduced or name in skippers()
    }
    if not scores:
        return None
    return _judge_charged(
        at,
        "skipping",
        lambda: scores,
        ("cascade", "skipping"),
        free=not at.is_reproduced,
        settings={"allocators": list(scores)},
        watch=watch,
    )


def _causal(at: Cell, watch: Watch) -> Result | None:
    """The result of allocators fitted on training units, under policies calibrated on
    validation units.
    """
    calibration = list(at.cell.split.validation)
    if at.choices.folds:
        return _out_of_fold(at, watch)
    if not at.is_reproduced:
        return _judge_charged(
            at,
            "causal",
            lambda: _train_scores(at, watch),
            settings={},
            calibration=calibration,
            watch=watch,
        )
    if not calibration:
        return None
    return _judge_charged(
        at,
        "causal",
        lambda: with_costs(at.part("train_scores"), costs_of(at)),
        settings={"recipes": _recipes_with_latency(at)},
        calibration=calibration,
    )


def _out_of_fold(at: Cell, watch: Watch) -> Result:
    folds, units = at.choices.folds, list(units_of(at.cell.split, at.choices.units))
    names = check_allocators(at.choices.allocators or (EVERYTHING,))
    scores = _charge(
        at,
        fitting.fold_scores(
            at.name, at.cell, names, folds=folds, units=units, watch=watch
        ),
    )
    if not at.choices.conventions:
        scores[VALUES] = replace(
            align(at.cell.listed, VALUES, at.cell.listed.decision_values),
            kind="diagnostic",
        )
    return _judge_charged(
        at,
        "causal",
        lambda: scores,
        settings={},
        calibration=folds,
        units=units,
        missing="worst",
    )


def _train_scores(at: Cell, watch: Watch) -> dict[str, Scored]:
    """Scores by the chosen signals, and by the chosen recipes with a cost fitted on the
    training units.
    """
    names = at.choices.allocators
    recipes = [
        name for name in fitting.recipes_for(at.cell) if names is None or name in names
    ]
    if at.choices.conventions and names is None:
        costs = _needed_costs(at).allocators
        recipes = [
            recipe
            for recipe in recipes
            if recipe in costs or f"{recipe}-batched" in costs
        ]
    signals = [name for name in SIGNALS if names is None or name in names]
    scored = fitting.scored_by_all(
        at.cell, recipes, signals=signals, units="train", watch=watch
    )
    return _charge(
        at, {allocator: item for allocator, item in scored.items() if len(item.input)}
    )


def _relabelled(at: Cell, watch: Watch) -> Result | None:
    labels = at.choices.labels
    if not at.is_reproduced:
        budgets = [Selection(alpha) for alpha in at.choices.alphas]
        scores = scored_on_labels(at.cell, labels, watch=watch)
        return at.judgement(
            "relabelled", lambda: scores, budgets, settings={}, missing="worst"
        )
    labels = {
        recipe: [label for label in of_recipe if label.lacking(at.cell) is None]
        for recipe, of_recipe in labels.items()
        if recipe in recipes_of(at)
    }
    targets = {
        recipe: {
            label.name: label.target(recipe_by_name(recipe)) for label in of_recipe
        }
        for recipe, of_recipe in labels.items()
    }
    if not any(targets.values()):
        return None
    return at.judgement(
        "relabelled",
        lambda: scored_on_labels(at.cell, labels),
        settings={"recipes": targets},
    )


@dataclass(frozen=True)
class PartOption:
    """An option of a command for a part: the type of its value, its declaration, its
    default.
    """

    kind: Any
    option: Option
    default: Any = None


@dataclass(frozen=True)
class Part:
    """A part of a cell that analyses ask for (`PARTS`).

    Attributes:
        meaning: What it is.
        make: Makes it from a cell.
        groups: Option groups that a command needs for it: draws, charges (measured
            budgets).
        options: Single options that a command needs for it, by the field of `Choices`
            that they set.
        saved: Help text of the argument that names cells, if saved results are accepted
            instead of cells.
        verb: Label of the progress bar while a command makes it.
        turn: In which turn a reproduction makes it. Parts of turns 1 and 2 need
            separate fits, on fewer units or other
        labels.
        ready: Whether it needs no computation.
        has_costs: Whether it depends on costs.
        reproduced_as: The part that a reproduction supplies instead.
    """

    meaning: str
    make: Callable[[Any, Watch], Any]
    groups: tuple[str, ...] = ()
    options: Mapping[str, PartOption] = field(default_factory=dict)
    saved: str | None = None
    verb: str | None = None
    turn: int = 0
    ready: bool = False
    has_costs: bool = False
    reproduced_as: str | None = None


ALLOCATORS = ("--allocator", "-a")
FITTED = PartOption(
    list[str] | None,
    Option(
        "Signal or recipe to judge. Repeatable. Default: all with a cost.",
        ALLOCATORS,
        read=check_allocators,
    ),
)
RANKED = PartOption(
    list[str] | None,
    Option(
        "Recipe to fit and rank among the signals. Repeatable. Default: none.",
        ALLOCATORS,
        read=check_recipes,
    ),
)
TAUGHT = PartOption(
    list[str] | None,
    Option(
        "Recipe to fit on every label. Repeatable. Default: the paper's.",
        ALLOCATORS,
        read=check_recipes,
    ),
)
BY_FOLD = PartOption(
    int,
    Option(
        "Folds to calibrate by; 0: test units once.", ("--folds",), limits=(0, 1_000)
    ),
    0,
)
FOLD_UNITS = PartOption(
    str, Option("Units of the folds: all, fit, or a,b,c.", ("--units",)), "all"
)
CONTROLS = PartOption(
    int,
    Option(
        "Random scores to judge beside the allocators.",
        ("--controls",),
        limits=(0, 1_000),
    ),
    3,
)
STORED = PartOption(
    bool,
    Option("Include the scores stored with each cell.", ("--scores",)),
    default=False,
)
JUDGED = (
    "Results (.json) that `deepval evaluate` saved, or cells: these are judged on "
    "their test units by their scores."
)
CALIBRATED = (
    "Cells: allocators are fitted on their training units, policies calibrated on "
    "their validation units, and both judged on their test units. Or results (.json) "
    "that `deepval evaluate --calibrate` saved."
)
LABELLED = (
    "Cells: recipes are fitted on their training and validation units and judged on "
    "their test units. Or results (.json) whose allocators "
    "are named 'RECIPE on LABEL'."
)


SCORES = ("aligned", "scores", "train_scores", "scores_with_cost")
"""Parts whose scores an analysis judges by itself."""
_CHARGES = ("charges", "draws")
PARTS: dict[str, Part] = {
    "cells": Part("the cell", lambda at, _: at.cell, ready=True),
    "located": Part(
        "its specification with the folder of its data",
        _located,
        ready=True,
    ),
    "costs": Part(
        "costs of modes and allocators",
        lambda at, _: costs_of(at),
        ("charges",),
        ready=True,
        has_costs=True,
    ),
    "aligned": Part(
        "scores that cover every input, aligned with the table",
        _aligned,
        (),
        {"stored_scores": STORED},
    ),
    "scores": Part(
        "scores of all inputs by signals and by allocators fitted on the fit units",
        lambda at, _: _scores(at, "fit"),
        (),
        {"ranked": RANKED},
        verb="scoring",
    ),
    "train_scores": Part(
        "scores of all inputs by signals and by allocators fitted "
        "on the training units",
        lambda at, _: _scores(at, "train"),
        (),
        {"ranked": RANKED},
        verb="scoring",
        turn=1,
        has_costs=True,
    ),
    "diagnostics": Part(
        "scores of all inputs by diagnostics", _diagnostics, verb="diagnostics"
    ),
    "results": Part(
        "the judgement of scores, allocators free",
        _results,
        ("draws",),
        saved=JUDGED,
        verb="judging",
    ),
    "free": Part(
        "the same in a reproduction; nothing for a command",
        lambda *_: None,
        reproduced_as="results",
    ),
    "diagnostic_results": Part(
        "the judgement of diagnostics",
        _diagnostic_results,
        ("draws",),
        verb="diagnostics",
    ),
    "diagnostic_names": Part(
        "names of diagnostics among the scores",
        _diagnostic_names,
        ready=True,
    ),
    "scores_with_cost": Part(
        "scores of allocators that the costs include",
        _scores_with_cost,
        ("charges",),
        has_costs=True,
    ),
    "charged": Part(
        "the judgement of scores, allocators free and charged",
        _charged,
        _CHARGES,
        saved=JUDGED,
        verb="judging",
        has_costs=True,
    ),
    "skipping": Part(
        "the judgement of scores charged with and without the cheap pass",
        _skipping,
        _CHARGES,
        saved=JUDGED,
        verb="judging",
        has_costs=True,
    ),
    "causal": Part(
        "the judgement of charged allocators under causal policies",
        _causal,
        _CHARGES,
        {"allocators": FITTED},
        saved=CALIBRATED,
        verb="judging",
        turn=1,
        has_costs=True,
    ),
    "streamed": Part(
        "the same with control scores, or out of fold",
        _causal,
        _CHARGES,
        {
            "allocators": FITTED,
            "controls": CONTROLS,
            "folds": BY_FOLD,
            "units": FOLD_UNITS,
        },
        saved=CALIBRATED,
        verb="judging",
        reproduced_as="causal",
    ),
    "relabelled": Part(
        "the judgement of recipes fitted on several labels",
        _relabelled,
        ("draws",),
        {"allocators": TAUGHT, "alphas": PartOption(list[float], ALPHAS, LEVELS)},
        saved=LABELLED,
        turn=2,
    ),
}
"""The parts of a cell that analyses may take, by name."""
