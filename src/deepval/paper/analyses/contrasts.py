"""Built cells, recipes and labels -> judgements of each recipe fitted on each label,
and differences between labels.

Only the label differs: inputs, settings, seed and fit units are the same. A label has
two forms: numbers for recipes that regress, and 0 or 1 for recipes that classify. The
allocators are named `RECIPE on LABEL`. Contrasts are paired; rows of single cells and
the mean over cells have the same form, and the mean is joint, draw by draw
(judge/pooled.py).
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from deepval.basics.errors import InputError, InputWarning, NothingToLearnError
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.allocators import Recipe, recipe_by_name
from deepval.deploy.fitting import Scored, fit_on, score_on
from deepval.deploy.labels import TARGETS, Gain
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.evidence import RoutingObjective
from deepval.judge.allowances import Selection
from deepval.judge.cases import judge, shared_seeds
from deepval.judge.pairs import ComparisonRow
from deepval.judge.pooled import PooledComparison, compare_bases, together
from deepval.judge.report.charts import at_headline
from deepval.judge.report.text_tables import Table, TableCell, interval, number, percent
from deepval.judge.results import BudgetKey, Result
from deepval.paper.columns import BUDGET
from deepval.paper.tidy import Column, Dots, Estimate, Row, only, printed, share

ON = " on "


@dataclass(frozen=True)
class Label:
    """A label that recipes learn to predict.

    Attributes:
        name: Name of the label.
        regressed: The target of recipes that regress.
        classified: The target of recipes that classify; None if the label has no such
            form.
    """

    name: str
    regressed: str
    classified: str | None = None

    def target(self, recipe: Recipe) -> str:
        """The form of the label that a recipe needs: numbers if it regresses, classes
        if it classifies.
        """
        if not TARGETS[recipe.target].classifies:
            return self.regressed
        if self.classified is None:
            raise InputError(
                f"{recipe.name} classifies, and {self.name} is "
                "a number: leave the recipe out."
            )
        return self.classified

    def lacking(self, cell: BuiltCell) -> str | None:
        """The first evidence column that the label needs and the cell does not have;
        None if it has all.
        """
        objective = TARGETS[self.regressed].objective
        needed = (
            {objective.column}
            if isinstance(objective, RoutingObjective)
            else {f"{mode}_{objective.loss}" for mode in ("cheap", "full")}
            if isinstance(objective, Gain)
            else set()
        )
        return min(needed - cell.evidence.columns.keys(), default=None)


VALUE = Label("value", "value", "value-binary")
GAINS = tuple(
    Label(f"gain-{loss}", f"gain-{loss}", f"gain-{loss}-binary")
    for loss in ("E1", "E5", "E8")
)
"""Perception gains: objects missed, errors of all kinds, risk."""
PUBLISHED = tuple(
    Label(name, f"{name}-cdf", f"{name}-binary") for name in ("oric", "ap-swap")
)
"""Objectives of published detector routers in their published form: share of fit values
not above, or whether positive."""
RANK, SIGNED_CDF = (Label(name, name) for name in ("value-rank", "value-signed-cdf"))
"""Decision value under another transform."""
LABELS = (VALUE, *GAINS, *PUBLISHED, RANK, SIGNED_CDF)

GATES = ("gate-ridge", "gate-gbm")
REGRESSORS = ("router-mlp-value", "router-gbm-value")
CLASSIFIERS = ("router-mlp-binary", "router-gbm-binary")


def fit_name(recipe: str, label: str) -> str:
    """The name of a recipe fitted on a label."""
    return f"{recipe}{ON}{label}"


def recipe_and_label(name: str) -> tuple[str, str] | None:
    """The recipe and the label in a name; None if the name has no label."""
    recipe, on, label = name.rpartition(ON)
    return (recipe, label) if on and label in {item.name for item in LABELS} else None


def known_labels(cell: BuiltCell, labels: Sequence[Label]) -> list[Label]:
    """The labels for which a cell has the evidence; a warning names the missing column
    of each of the others.
    """
    available = []
    for label in labels:
        lacking = label.lacking(cell)
        if lacking is None:
            available.append(label)
        else:
            message = (
                f"{cell.folder.name}: {label.name} left out, because "
                f"the cell has no column {lacking!r}."
            )
            warnings.warn(InputWarning(message), stacklevel=2)
    return available


def scored_on_labels(
    cell: BuiltCell,
    labels: Mapping[Any, Sequence[Label]],
    *,
    seed: int = 0,
    watch: Watch = unwatched,
) -> dict[str, Scored]:
    """Scores of the test inputs, for every recipe and each of its labels; labels that
    cannot be learnt are left out.
    """
    every = list(
        dict.fromkeys(label for of_recipe in labels.values() for label in of_recipe)
    )
    pairs = [
        (recipe_by_name(recipe) if isinstance(recipe, str) else recipe, label)
        for label in known_labels(cell, every)
        for recipe, of_recipe in labels.items()
        if label in of_recipe
    ]
    scores = {}
    for recipe, label in watch(pairs, f"fitting on {cell.folder.name}"):
        name = fit_name(recipe.name, label.name)
        try:
            fitted = fit_on(cell, recipe, target=label.target(recipe), seed=seed)
        except NothingToLearnError as error:
            warnings.warn(
                InputWarning(f"{cell.folder.name}, {name} left out: {error}"),
                stacklevel=2,
            )
            continue
        scores[name] = replace(score_on(cell, fitted), name=name)
    return scores


def judged_on_labels(
    cells: Mapping[str, BuiltCell],
    recipes: Sequence[str | Recipe],
    labels: Sequence[Label],
    *,
    alphas: Sequence[float],
    by: str,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Iterator[tuple[str, Result]]:
    """The judgement of every recipe on every label on the test units of each cell; the
    cell's ledger counts it.

    Args:
        cells: Cells by name; those with the same test units share their draws.
        recipes: Recipes to fit, by name or as recipes.
        labels: Labels to fit them on.
        alphas: Shares of inputs that may be escalated.
        by: Name of the analysis, for the ledger.
        draws: Number of draws.
        seed: Seed of the draws; fits have seed 0.
        watch: Shows the progress.
    """
    seeds, budgets = shared_seeds(cells, seed), [Selection(alpha) for alpha in alphas]
    for name, cell in cells.items():
        scores = scored_on_labels(cell, dict.fromkeys(recipes, labels), watch=watch)
        yield (
            name,
            judge(
                cell,
                scores,
                budgets,
                command=by,
                draws=draws,
                seed=seeds[name],
                missing="worst",
            ),
        )


ALL = "all cells"


COLUMNS = (
    Column("recipe", "The recipe", heading="recipe"),
    Column("label", "The label in question", heading="label"),
    Column("against", "The label that it is compared with", heading="less"),
    Column(
        "cell", "The cell, or `all cells` for the equal-weight mean", heading="cell"
    ),
    Column("cells", "Number of cells that the row is over"),
    *BUDGET,
    Column(
        "difference",
        "(gain with label - gain with against) / all-cheap loss",
        heading="gain",
        text=share,
        bounds="95 %",
        ends=("lo", "hi"),
    ),
    Column(
        "ndg_difference",
        "The same difference in nDG; draws in which some cell has a small prize are "
        "left out of its interval",
        heading="nDG",
        text=number,
        bounds="nDG 95 %",
        ends=("ndg_lo", "ndg_hi"),
    ),
    Column(
        "verdict",
        "better, worse or unresolved: the label against "
        "the other one, by the difference",
    ),
    Column(
        "versus_random",
        "Verdict of the recipe on the label against random; None for a mean",
    ),
    Column(
        "against_versus_random",
        "Verdict of the recipe on the other label against random",
    ),
    Column("draws", "Number of draws"),
    Column("dropped", "Draws that cannot be compared"),
    Column("reason", "Why something is None"),
)
"""One recipe fitted on one label against the same recipe on another, in one cell or
as the mean over cells.
"""


def label_contrasts(
    results: Mapping[str, Result], pairs: Sequence[tuple[str, str]]
) -> list[Row]:
    """Per recipe, pair of labels and budget: the mean over the cells that have both
    labels, then each of these cells.

    Args:
        results: Results by cell, with samples. Cells with the same units need the same
            draws.
        pairs: Label and the label that it is compared with.
    """
    bases = together(results)
    verdicts = {
        cell: {(row.allocator, row.budget): row.verdict for row in result.choosers}
        for cell, result in results.items()
    }
    named = {cell: {name for name, _ in known} for cell, known in verdicts.items()}
    every = dict.fromkeys(
        name
        for result in results.values()
        for name in (row.allocator for row in result.choosers)
    )
    recipes = dict.fromkeys(
        pair[0] for name in every if (pair := recipe_and_label(name)) is not None
    )
    records = []
    for recipe in recipes:
        for label, against in pairs:
            one, other = fit_name(recipe, label), fit_name(recipe, against)
            inside = {
                cell: item
                for cell, item in bases.items()
                if {one, other} <= named[cell]
            }
            if not inside:
                continue
            alone = {
                cell: compare_bases({cell: item}, one, other)
                for cell, item in inside.items()
            }
            fitted = {"recipe": recipe, "label": label, "against": against}
            for mean in compare_bases(inside, one, other):
                undefined = {"versus_random": None, "against_versus_random": None}
                records.append(fitted | {"cell": ALL} | _contrast(mean) | undefined)
                for cell, rows in alone.items():
                    own = next(row for row in rows if row.budget == mean.budget)
                    verdict, against_verdict = (
                        verdicts[cell][name, own.budget] for name in (one, other)
                    )
                    judged = {
                        "versus_random": verdict,
                        "against_versus_random": against_verdict,
                    }
                    records.append(fitted | {"cell": cell} | _contrast(own) | judged)
    if not records:
        names = ", ".join(dict.fromkeys(name for pair in pairs for name in pair))
        raise InputError(
            "Labels are compared in results that judge a recipe on two of them, named "
            f"'RECIPE on LABEL'; none of {', '.join(results)} has two of {names}."
        )
    return records


def _contrast(of: ComparisonRow | PooledComparison) -> Row:
    """What a comparison of a recipe on two labels says."""
    return {
        "cells": of.cells,
        **vars(of.budget),
        "difference": Estimate(of.difference, of.lo, of.hi),
        "ndg_difference": Estimate(of.ndg_difference, of.ndg_lo, of.ndg_hi),
        "verdict": of.verdict,
        "draws": of.draws,
        "dropped": of.dropped,
        "reason": of.reason,
    }


def single(rows: Sequence[Row]) -> list[Row]:
    """The rows of single cells."""
    return [row for row in rows if row["cell"] != ALL]


def pooled_table(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """The means over cells, with the number of cells in which either label is ahead."""
    header = ("labels", "budget", "recipe", "cells", "gain", "95 %", "nDG", "nDG 95 %")
    counts = {}
    for row in single(rows):
        ahead = counts.setdefault(
            (row["recipe"], row["label"], row["against"], BudgetKey.of(row)), [0, 0]
        )
        ahead[0] += row["verdict"] == "better"
        ahead[1] += row["verdict"] == "worse"
    sections: dict[tuple[str, str], list[tuple[TableCell, ...]]] = {}
    for row in rows:
        if row["cell"] != ALL:
            continue
        key = f"{row['label']} less {row['against']}", BudgetKey.of(row).label
        lines = sections.setdefault(key, [])
        first = ("", "") if lines else key
        ahead, behind = counts[
            row["recipe"], row["label"], row["against"], BudgetKey.of(row)
        ]
        mark = row["verdict"] if row["verdict"] in ("better", "worse") else ""
        texts = (
            number(row["ndg_difference"].value),
            interval(row["ndg_difference"].low, row["ndg_difference"].high),
        )
        lines.append(
            (
                *map(
                    TableCell,
                    (*first, row["recipe"], f"{ahead}, {behind} of {row['cells']}"),
                ),
                TableCell(share(row["difference"].value), mark),
                TableCell(
                    interval(row["difference"].low, row["difference"].high, share)
                ),
                *map(TableCell, texts),
            )
        )
    sentences = (
        "gain, nDG: with the label less with the other, mean over cells; gain as a "
        "share of the all-cheap loss. cells: those in which the paired interval of "
        "the gain lies above 0, and below, of all.",
        *notes,
    )
    return Table(title, header, tuple(map(tuple, sections.values())), sentences)


def cell_table(title: str, rows: Sequence[Row]) -> Table:
    """The rows of single cells."""
    alone = sorted(single(rows), key=lambda row: row["cell"])
    order = (
        "cell",
        "kind",
        "recipe",
        "label",
        "against",
        "difference",
        "ndg_difference",
    )
    return printed(title, only(COLUMNS, *order), alone)


def charted(rows: Sequence[Row]) -> Iterator[Row]:
    """The means over cells at the headline budget."""
    at = at_headline([row for row in rows if row["cell"] == ALL])
    shares = " or ".join(dict.fromkeys(percent(row["alpha"], 0) for row in at))
    for row in at:
        yield row | {"shares": shares}


ON_LABELS: dict[str, Any] = {
    "see": "analyses.md#labels",
    "columns": COLUMNS,
    "asks": ("relabelled",),
    "charts": [
        Dots(
            "Difference in gain share at {shares}",
            {"{recipe}": "difference"},
            label="{label} less {against}",
            line=0.0,
            of=charted,
        )
    ],
}
"""What the declarations of analyses of labels share."""
