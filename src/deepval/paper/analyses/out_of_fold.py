"""Cells and allocators -> gain and harm out of fold: every unit scored by a fit on
other units; not official numbers.

Every recipe is fitted once per fold of units, and its scores are judged on all of these
units, beside signals, which need no fit: on single cells, and pooled over all of them.
The paper releases such numbers and does not score them: docs/definitions.md, Out of
fold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Bool, Float
from deepval.basics.errors import InputError
from deepval.basics.workers import Map
from deepval.deploy.allocators import check_allocators
from deepval.deploy.fitting import fold_scores
from deepval.judge.allowances import LEVELS, Budget, Selection
from deepval.judge.bootstrap import Gains, Totals
from deepval.judge.cases import judge, shared_seeds
from deepval.judge.differences import as_shares, has_large_prize, ndg
from deepval.judge.draws import Draws
from deepval.judge.intervals import Interval, estimate, interval_over
from deepval.judge.pairs import Basis, basis
from deepval.judge.pooled import can_resample, mean_over_cells, shared_draws
from deepval.judge.report.charts import at_headline
from deepval.judge.report.text_tables import (
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    percent,
)
from deepval.judge.results import HEADLINE, Result, joined
from deepval.judge.results import Estimate as ResultEstimate
from deepval.judge.tables.scores import is_reference
from deepval.judge.tables.split import units_of
from deepval.paper.analyses.contrasts import GATES
from deepval.paper.analysis import FIRST_OF_PAIR, Analysis, Option
from deepval.paper.columns import ALLOCATOR, NAME
from deepval.paper.study import Cell, DrawCount, of_each
from deepval.paper.tidy import NOT_PRINTED, Column, Dots, Estimate, Row, only, printed

STANDING = "out of fold over {} units: released, not scored"
RANDOM = "random"
BEST = "best"
"""Stands for the allocator with the largest gain."""
LEAST_PRIZE = 0.25
"""Draws in which the oracles gain less than this part of their gain in the sample are
left out of intervals.
"""
MOST_CELLS = 6
"""The table of single cells is printed for up to this number of cells."""


COLUMNS = (
    NAME,
    ALLOCATOR,
    Column("kind", "Kind of budget: selection"),
    Column(
        "alpha",
        "Share of inputs that may be escalated",
        heading="rate",
        text=lambda alpha: percent(alpha, 0),
    ),
    Column("standing", "Standing of the number: released, not scored"),
    Column("folds", "Number of folds of units"),
    Column("cells", "Number of cells"),
    Column("units", "Number of units judged on, of the cell with the most"),
    Column("test_units", "Test units among them"),
    Column("inputs", "Number of inputs, over all cells"),
    Column(
        "gain",
        "Sum of the cells' gain shares / sum of their oracles' shares",
        heading="gain",
        text=number,
        bounds="95 %",
    ),
    Column(
        "ndg",
        "nDG; over several cells, its mean",
        heading="nDG",
        text=number,
        bounds=NOT_PRINTED,
    ),
    Column(
        "harm",
        "Sum of the cells' harm shares / sum of random's",
        heading="harm",
        text=number,
        bounds="95 %",
    ),
    Column("versus", "Allocator that differences are taken with"),
    Column(
        "difference",
        "Its gain less that of `versus`",
        heading="ahead",
        text_of_row=lambda row: TableCell(
            number(row["difference"].value), mark_of(row["difference_verdict"])
        ),
        bounds="95 %",
        bounds_text=number,
    ),
    Column("difference_verdict", "better, worse or unresolved against `versus`"),
    Column("harm_difference", "Its harm less that of `versus`", bounds=NOT_PRINTED),
    Column(
        "versus_random",
        "Paired difference with random, as a share of the all-cheap loss",
        bounds=NOT_PRINTED,
    ),
    Column("verdict", "better, worse or unresolved against random"),
    Column("draws", "Number of draws of units"),
    Column(
        "held_out_ndg",
        "The official number for comparison: nDG on test units if fitted on all other "
        "units; None without results",
    ),
    Column("reason", "Why something is None"),
)
"""One allocator under one selection budget, out of fold: on one cell, or over all
of them (`all N cells`).
"""


class CellSamples(NamedTuple):
    """Contenders on one cell over resamples, and what they are measured by: the
    oracle's gain and random choice.
    """

    totals: Totals
    prize: Float[np.ndarray, "resample"]
    chance: Gains
    contenders: Mapping[str, Gains]


@dataclass(frozen=True, eq=False)
class Pool:
    """Contenders over cells, in the sample (index 0) and in every draw.

    Attributes:
        draws: The draws, shared by the cells of a data set.
        usable: Draws in which the oracles together gain at least a quarter of what they
            gain in the sample.
        in_all: Draws in which the oracle of every single cell does.
        gain: By contender, the sum of gain shares over the sum of the oracles' shares.
        ndg: By contender, the mean nDG.
        harm: By contender, the sum of harm shares over the sum of random's.
        ahead: By contender, the mean difference with random as a share of the all-cheap
            loss.
    """

    draws: Draws
    usable: Bool[np.ndarray, "draw"]
    in_all: Bool[np.ndarray, "draw"]
    gain: dict[str, Float[np.ndarray, "sample"]]
    ndg: dict[str, Float[np.ndarray, "sample"]]
    harm: dict[str, Float[np.ndarray, "sample"]]
    ahead: dict[str, Float[np.ndarray, "sample"]]

    @classmethod
    def of(
        cls, cells: Sequence[CellSamples], draws: Draws, *, resampled: bool
    ) -> "Pool":
        """The contenders that all cells have."""
        size = 1 + len(draws)

        def mean(
            losses: Iterable[Float[np.ndarray, "resample"]],
        ) -> Float[np.ndarray, "sample"]:
            parts = zip(cells, losses, strict=True)
            return mean_over_cells(
                [as_shares(cell.totals, loss[None])[0, :size] for cell, loss in parts]
            )

        def ratio(
            one: Float[np.ndarray, "sample"], other: Float[np.ndarray, "sample"]
        ) -> Float[np.ndarray, "sample"]:
            return np.divide(one, other, out=np.full(size, np.nan), where=other > 0)

        prize = mean(cell.prize for cell in cells)
        chance = mean(cell.chance.benefit - cell.chance.gain for cell in cells)
        pool = cls(
            draws,
            resampled & (prize[1:] >= LEAST_PRIZE * prize[0]),
            resampled
            & np.all(
                [has_large_prize(cell.totals, cell.prize[None])[0] for cell in cells],
                axis=0,
            ),
            *({}, {}, {}, {}),
        )
        for name in cells[0].contenders:
            if all(name in cell.contenders for cell in cells):
                own = [cell.contenders[name] for cell in cells]
                pairs = list(zip(cells, own, strict=True))
                pool.gain[name] = ratio(mean(item.gain for item in own), prize)
                pool.harm[name] = ratio(
                    mean(item.benefit - item.gain for item in own), chance
                )
                pool.ndg[name] = mean_over_cells(
                    [ndg(item.gain, cell.prize)[:size] for cell, item in pairs]
                )
                pool.ahead[name] = mean(
                    item.gain - cell.chance.gain for cell, item in pairs
                )
        return pool

    @property
    def best(self) -> str:
        """The contender with the largest gain, the first of several."""
        return max(
            self.gain, key=lambda name: np.nan_to_num(self.gain[name][0], nan=-np.inf)
        )

    def estimate(
        self, samples: Float[np.ndarray, "sample"], usable: Bool[np.ndarray, "draw"]
    ) -> ResultEstimate | None:
        """The number of the sample with its interval; None where it is undefined."""
        drawn = np.where(usable, samples[1:], np.nan)
        return estimate(float(samples[0]), interval_over(drawn, self.draws))

    def columns(self, name: str, versus: str) -> Row:
        """Columns of a contender, and of its differences with another one."""
        gain, harm = self.gain, self.harm
        every = np.full(self.usable.shape, bool(self.usable.any()))
        estimates = {
            "gain": self.estimate(gain[name], self.usable),
            "ndg": self.estimate(self.ndg[name], self.in_all),
            "harm": self.estimate(harm[name], every),
            "difference": self.estimate(gain[name] - gain[versus], self.usable),
            "harm_difference": self.estimate(harm[name] - harm[versus], every),
            "versus_random": self.estimate(self.ahead[name], every),
        }
        fields: Row = {"versus": versus, "draws": len(self.draws)}
        for of, own in estimates.items():
            fields[of] = Estimate()
            if own is not None:
                fields[of] = Estimate(float(own), own.low, own.high)
        fields["difference_verdict"] = _verdict(fields["difference"])
        fields["verdict"] = _verdict(fields["versus_random"])
        return fields


def _verdict(of: Estimate) -> str | None:
    if of.low is None or of.high is None:
        return None
    return Interval(of.low, of.high).verdict


ALLOCATORS = Option(
    "Signal or recipe, or all. Repeatable.",
    ("--allocator", "-a"),
    read=check_allocators,
)
FOLDS = Option("Number of folds.", limits=(2, 1_000))


def rows(
    cells: Sequence[Cell],
    allocators: Annotated[Sequence[str], ALLOCATORS] = GATES,
    *,
    folds: Annotated[int, FOLDS] = 5,
    units: str | Sequence[str] = "all",
    versus: Annotated[str, Option("Allocator to take differences with.")] = BEST,
    alphas: Sequence[float] = LEVELS,
    draws: DrawCount = 1000,
    seed: int = 0,
    map_fits: Map = map,
) -> Iterator[Row]:
    """One row per budget and allocator, random first: over all cells if there are
    several, then for each cell.

    Args:
        cells: The cells.
        allocators: Signals and recipes; "all" for all that apply to a cell.
        folds: Number of folds of units.
        units: Units to fit and judge on, by role or by name.
        versus: Allocator that differences are taken with; "best" for the one with the
            largest gain.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of units, or "exact".
        seed: Their seed.
        map_fits: Maps a function over folds, in this process or in workers.
    """
    names = check_allocators(allocators)
    contenders = (BEST, RANDOM, *names)
    if versus not in contenders:
        raise InputError(
            "--versus must be judged "
            f"too, one of {', '.join(contenders)}; found {versus!r}."
        )
    budgets = [Selection(alpha) for alpha in alphas]
    by_name = {cell.name: cell.cell for cell in cells}
    seeds = shared_seeds(by_name, seed, units=units)
    lists = {name: list(units_of(cell.split, units)) for name, cell in by_name.items()}
    bases = {}
    for at in cells:
        name = at.name
        cell = at.cell
        scored = fold_scores(
            name,
            cell,
            names,
            folds=folds,
            units=lists[name],
            map_fits=map_fits,
            watch=at.watch,
        )
        # The runner notes the look at test units for all allocators at once.
        settings = {
            "units": lists[name],
            "draws": draws,
            "seed": seeds[name],
            "missing": "worst",
        }
        result = judge(
            cell, scored, budgets, command=None, thresholds=False, **settings
        )
        bases[name] = basis(result)
    groups = {}
    if len(cells) > 1:
        groups[f"all {len(cells)} cells"] = list(by_name)
    groups |= {name: [name] for name in by_name}
    results = of_each(cells, "free")
    for label, members in groups.items():
        about: Row = {
            "cell": label,
            "kind": "selection",
            "standing": STANDING.format(
                units if isinstance(units, str) else "the chosen"
            ),
            "folds": folds,
            "cells": len(members),
            "units": max(len(lists[name]) for name in members),
            "test_units": max(
                len({*lists[name]} & {*by_name[name].split.test}) for name in members
            ),
            "inputs": sum(
                len(by_name[name].table.restrict(lists[name])) for name in members
            ),
        }
        own = {name: bases[name] for name in members}
        for budget in budgets:
            yield from _rows(own, budget, about, versus, results)


def _rows(
    bases: Mapping[str, Basis],
    budget: Budget,
    about: Mapping[str, Any],
    versus: str,
    results: Mapping[str, Result],
) -> Iterator[Row]:
    """The rows of one cell, or of several together."""
    cells = []
    judged = [
        {
            item.row.allocator: item
            for item in cell.judged
            if item.row.alpha == budget.alpha
        }
        for cell in bases.values()
    ]
    for own, cell in zip(judged, bases.values(), strict=True):
        used = {
            name: item.gains
            for name, item in own.items()
            if item.gains and not is_reference(name)
        }
        chance, prize = own[RANDOM].gains, own[RANDOM].prize
        assert chance is not None
        cells.append(CellSamples(cell.totals, prize, chance, {RANDOM: chance, **used}))
    pool = Pool.of(
        cells, shared_draws(bases), resampled=can_resample(list(bases.values()))
    )
    against = versus if versus in pool.gain else pool.best
    for name in pool.gain:
        official = _official(results.get(about["cell"]), name, budget.alpha)
        reason = joined(own[name].row.reason for own in judged)
        yield {
            **about,
            **pool.columns(name, against),
            "allocator": name,
            "alpha": budget.alpha,
            "held_out_ndg": official,
            "reason": reason,
        }


def _official(result: Result | None, allocator: str, alpha: float) -> float | None:
    rows = () if result is None else result.choosers
    numbers = (
        row.ndg
        for row in rows
        if (row.allocator, row.kind, row.alpha) == (allocator, "selection", alpha)
    )
    return next(numbers, None)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Allocators over all cells, if there are several, and by cell, if there are
    few.
    """
    over_cells = [row for row in rows if row["cells"] > 1]
    several = [_table_over_cells(over_cells)] if over_cells else []
    single = [row for row in rows if row["cells"] == 1]
    return [
        *several,
        *(
            []
            if len({row["cell"] for row in single}) > MOST_CELLS
            else [_table_of_cells(single)]
        ),
    ]


def _table_over_cells(rows: Sequence[Row]) -> Table:
    """Pooled gain, nDG and harm, and the difference with one allocator; the largest
    gain first.
    """
    label = rows[0]["standing"]
    ordered = sorted(rows, key=lambda row: (row["alpha"], -(row["gain"].value or 0.0)))
    others = ", ".join(
        f"{row['versus']} ({percent(row['alpha'], 0)})"
        for row in {row["alpha"]: row for row in rows}.values()
    )
    notes = (
        f"{rows[0]['cells']} cells, {rows[0]['units']} units, "
        f"{rows[0]['folds']} folds, "
        f"{label}. gain: sum of gain shares / sum of oracle shares; nDG: mean over "
        "cells; harm: sum of harm shares / random's. Units are drawn jointly.",
        f"ahead: gain less that of {others}; bold: better at 95 %, asterisk: worse.",
        (
            "Allocators that some cell lacks are not pooled; rows "
            "of single cells are in --json."
        ),
    )
    measured = (
        "gain",
        "ndg",
        "harm",
        "difference",
    )
    return printed(
        f"Allocators over {rows[0]['cells']} cells, {label}",
        only(COLUMNS, "alpha", "allocator", *measured),
        ordered,
        notes=notes,
        group=("alpha",),
    )


def _table_of_cells(rows: Sequence[Row]) -> Table:
    """Out-of-fold nDG by budget, a section for each cell, with the official number at
    the headline budget.
    """
    alphas = sorted({row["alpha"] for row in rows})
    at = min(alphas, key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    header = (
        "cell",
        "allocator",
        *(percent(alpha, 0) for alpha in alphas),
        f"95 % at {percent(at, 0)}",
    )
    header = (*header, f"harm, {percent(at, 0)}", f"held out, {percent(at, 0)}")
    sections = []
    for cell, group in groupby(rows, key=lambda row: row["cell"]):
        members, lines = list(group), []
        for name in dict.fromkeys(row["allocator"] for row in members):
            own = {row["alpha"]: row for row in members if row["allocator"] == name}
            head = own[at]
            lines.append(
                (
                    TableCell("" if lines else cell),
                    TableCell(name),
                    *(
                        TableCell(
                            number(row["ndg"].value)
                            + "+" * (row["verdict"] == "better"),
                            mark_of(row["verdict"]),
                        )
                        for row in (own[alpha] for alpha in alphas)
                    ),
                    TableCell(interval(*head["ndg"][1:])),
                    TableCell(number(head["harm"].value)),
                    TableCell(number(head["held_out_ndg"])),
                )
            )
        sections.append(tuple(lines))
    label = rows[0]["standing"] if rows else STANDING.format("all")
    opened = ", and test units are opened" * any(row["test_units"] for row in rows)
    notes = (
        (
            f"nDG {label}. Each unit is scored by a fit on the "
            f"units of the other folds{opened}."
        ),
        "+ and bold: better than random, at 95 %; asterisk: worse. harm: as a "
        "multiple of random's. held out: the official number, on test units.",
    )
    return Table(f"Allocators {label}", header, tuple(sections), notes, (header[-3],))


def charted(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows at the headline budget: over all cells if there are several."""
    over_cells = [row for row in rows if row["cells"] > 1]
    what = "Gain and harm" if over_cells else "nDG"
    for row in at_headline(over_cells or rows):
        yield row | {"what": what}


def _label(row: Row) -> str:
    if row["cells"] > 1:
        return row["allocator"]
    return f"{row['cell']}: {row['allocator']}"


def _series(row: Row) -> Row:
    """Gain and harm over all cells; of single cells, nDG beside the official one."""
    if row["cells"] > 1:
        return {"gain, of the oracles'": row["gain"], "harm, of random's": row["harm"]}
    return {"out of fold, not scored": row["ndg"], "held out": row["held_out_ndg"]}


OUT_OF_FOLD = Analysis(
    name="out-of-fold",
    shows="Judge allocators out of fold, over many cells",
    details=(
        "Signals and recipes over all units, or over those that --units names, each "
        "unit scored by a fit on other units: gain and harm pooled over cells, and "
        "paired differences between allocators. These numbers are released, not scored."
    ),
    see="definitions.md#out-of-fold",
    paper="held-out allocation",
    example="cells/braking-monocular -a lost -a gate-gbm --units fit",
    asks=("free",),
    by="cell",
    judges=True,
    among=FIRST_OF_PAIR,
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    charts=[
        Dots(
            "{what} at {alpha:.0%}, {standing}",
            _series,
            label=_label,
            percent=False,
            line=0.0,
            of=charted,
        )
    ],
)
