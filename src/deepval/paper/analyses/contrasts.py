"""Results in which recipes stand once per label -> what one label does that another does not, paired, over cells.

Names are those of cells/label_fits.py: `RECIPE on LABEL`. Rows of single cells and the mean over cells have the same
form; the mean is joint, draw by draw (judging/over_cells.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepval.cells.label_fits import recipe_and_label, taught
from deepval.errors import InputError
from deepval.judging.over_cells import PooledComparison, compare_bases, together
from deepval.paper.row_columns import BudgetColumns, column, declared_table, high, low, share
from deepval.report.charts import Chart, Dot, at_headline, shares
from deepval.report.text_tables import Table, TableCell, interval, number, percent
from deepval.results import Result

ALL = "all cells"


@dataclass(frozen=True)
class LabelColumns:
    """A recipe fitted on two labels, and the cells that a row is over."""

    recipe: str = column("The recipe", "recipe")
    label: str = column("The label in question", "label")
    against: str = column("The label that it is compared with", "less")
    cell: str = column("The cell, or `all cells` for the equal-weight mean", "cell")
    cells: int = column("Number of cells that the row is over")


@dataclass(frozen=True)
class Contrast(BudgetColumns, LabelColumns):
    """One recipe fitted on one label against the same fitted on another, in one cell or as the mean over cells."""

    difference: float | None = column("(gain with label - gain with against) / all-cheap loss", "gain", share)
    lo: float | None = low("Lower end of its paired 95 % interval over all draws", "95 %", share)
    hi: float | None = high()
    ndg_difference: float | None = column("The same difference in nDG", "nDG", number)
    ndg_lo: float | None = low(
        "Lower end of its 95 % interval; draws in which some cell has a small prize are left out", "nDG 95 %"
    )
    ndg_hi: float | None = high()
    verdict: str | None = column("better, worse or unresolved: label against the other, by the difference")
    versus_random: str | None = column("Verdict of the recipe on the label against random; None of a mean")
    against_versus_random: str | None = column("Verdict of the recipe on the other label against random")
    draws: int = column("Number of draws")
    dropped: int = column("Draws that cannot be compared")
    reason: str | None = column("Why something is None")


def contrasts(results: Mapping[str, Result], pairs: Sequence[tuple[str, str]]) -> list[Contrast]:
    """Per recipe and pair of labels: under each budget the mean over the cells that have both, then those cells.

    Args:
        results: Results by cell, with samples. Cells with the same units need the same draws.
        pairs: Label and the label that it is compared with.
    """
    bases = together(results)
    verdicts = {
        cell: {(row.allocator, row.budget): row.verdict for row in result.rows} for cell, result in results.items()
    }
    named = {cell: {name for name, _ in known} for cell, known in verdicts.items()}
    every = dict.fromkeys(name for result in results.values() for name in (row.allocator for row in result.rows))
    recipes = dict.fromkeys(pair[0] for name in every if (pair := recipe_and_label(name)) is not None)
    records = []
    for recipe in recipes:
        for label, against in pairs:
            one, other = taught(recipe, label), taught(recipe, against)
            inside = {cell: item for cell, item in bases.items() if {one, other} <= named[cell]}
            if not inside:
                continue
            alone = {cell: compare_bases({cell: item}, one, other) for cell, item in inside.items()}
            for mean in compare_bases(inside, one, other):
                labels = (recipe, label, against)
                records.append(_contrast(mean, labels, ALL, (None, None)))
                for cell, rows in alone.items():
                    own = next(row for row in rows if row.budget == mean.budget)
                    both = verdicts[cell][one, own.budget], verdicts[cell][other, own.budget]
                    records.append(_contrast(own, labels, cell, both))
    if not records:
        names = ", ".join(dict.fromkeys(name for pair in pairs for name in pair))
        raise InputError(
            f"Labels are compared in results that judge a recipe on two of them, named 'RECIPE on LABEL'; none of "
            f"{', '.join(results)} has two of {names}."
        )
    return records


def _contrast(
    row: PooledComparison, labels: tuple[str, str, str], cell: str, verdicts: tuple[str | None, str | None]
) -> Contrast:
    recipe, label, against = labels
    return Contrast(
        recipe=recipe,
        label=label,
        against=against,
        cell=cell,
        cells=row.cells,
        **row.budget.fields,
        difference=row.difference,
        lo=row.lo,
        hi=row.hi,
        ndg_difference=row.ndg_difference,
        ndg_lo=row.ndg_lo,
        ndg_hi=row.ndg_hi,
        verdict=row.verdict,
        versus_random=verdicts[0],
        against_versus_random=verdicts[1],
        draws=row.draws,
        dropped=row.dropped,
        reason=row.reason,
    )


def single(rows: Sequence[Contrast]) -> list[Contrast]:
    """The rows of single cells."""
    return [row for row in rows if row.cell != ALL]


def pooled_table(title: str, rows: Sequence[Contrast], notes: Sequence[str] = ()) -> Table:
    """The means over cells, with the cells in which either label is ahead."""
    header = ("labels", "budget", "recipe", "cells", "gain", "95 %", "nDG", "nDG 95 %")
    counts = {}
    for row in single(rows):
        ahead = counts.setdefault((row.recipe, row.label, row.against, row.budget), [0, 0])
        ahead[0] += row.verdict == "better"
        ahead[1] += row.verdict == "worse"
    sections: dict[tuple[str, str], list[tuple[TableCell, ...]]] = {}
    for row in rows:
        if row.cell != ALL:
            continue
        key = f"{row.label} less {row.against}", row.budget.label
        lines = sections.setdefault(key, [])
        first = ("", "") if lines else key
        ahead, behind = counts[row.recipe, row.label, row.against, row.budget]
        mark = row.verdict if row.verdict in ("better", "worse") else ""
        texts = (number(row.ndg_difference), interval(row.ndg_lo, row.ndg_hi))
        lines.append(
            (
                *map(TableCell, (*first, row.recipe, f"{ahead}, {behind} of {row.cells}")),
                TableCell(share(row.difference), mark),
                TableCell(interval(row.lo, row.hi, share)),
                *map(TableCell, texts),
            )
        )
    sentences = (
        "gain, nDG: with the label less with the other, mean over cells; gain as a share of the all-cheap loss. cells: "
        "those in which the paired interval of the gain lies above 0, and below, of all.",
        *notes,
    )
    return Table(title, header, tuple(map(tuple, sections.values())), sentences)


def cell_table(title: str, rows: Sequence[Contrast]) -> Table:
    """The rows of single cells."""
    alone = sorted(single(rows), key=lambda row: row.cell)
    order = ("cell", "kind", "recipe", "label", "against", "difference", "lo", "ndg_difference", "ndg_lo")
    return declared_table(Contrast, alone, title, order=order)


def pooled_chart(rows: Sequence[Contrast]) -> Chart:
    """Differences of gain as means over cells at the headline budget: a row per pair of labels, a series per recipe."""
    at = at_headline([row for row in rows if row.cell == ALL])
    dots = (Dot(f"{row.label} less {row.against}", row.recipe, row.difference, row.lo, row.hi) for row in at)
    words = " or ".join(dict.fromkeys(percent(row.alpha, 0) for row in at))
    return shares(f"Difference in gain share at {words}", dots, line=0.0)
