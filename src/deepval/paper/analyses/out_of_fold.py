"""Cells and allocators -> gain and harm out of fold: every unit scored by a fit on
other units; not official numbers.

Every recipe is fitted once per fold of units, and its scores are judged on all of these
units, beside signals, which need no fit: on single cells, and pooled over all of them.
The paper releases such numbers and does not score them: docs/definitions.md, Out of
fold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from deepval.allocators import check_allocators
from deepval.arrays import Bool, Float
from deepval.cells.fitting import fold_scores
from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.judging.allowances import LEVELS, Budget, Selection
from deepval.judging.bootstrap import Gains, Totals
from deepval.judging.cases import judge, shared_seeds
from deepval.judging.differences import as_shares, has_large_prize, ndg
from deepval.judging.draws import Draws
from deepval.judging.intervals import Interval, estimate, interval_over
from deepval.judging.pairs import Basis, basis
from deepval.judging.pooled import can_resample, mean_over_cells, shared_draws
from deepval.paper.analyses.contrasts import GATES
from deepval.paper.analysis import FIRST_OF_PAIR, Option, declare
from deepval.paper.row_columns import (
    AllocatorName,
    CellName,
    column,
    declared_table,
    high,
    low,
)
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, at_headline, plain
from deepval.report.text_tables import (
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    percent,
)
from deepval.results import HEADLINE, BudgetRecord, Estimate, Result, joined
from deepval.tables.scores import is_reference
from deepval.tables.split import units_of
from deepval.workers import Map

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


@dataclass(frozen=True)
class OutOfFoldRow(BudgetRecord, AllocatorName, CellName):
    """One allocator under one selection budget, out of fold: on one cell, or over all
    of them (`all N cells`).
    """

    kind: str = column("Kind of budget: selection")
    alpha: float = column(
        "Share of inputs that may be escalated", "rate", lambda alpha: percent(alpha, 0)
    )
    standing: str = column("Standing of the number: released, not scored")
    folds: int = column("Number of folds of units")
    cells: int = column("Number of cells")
    units: int = column("Number of units judged on, of the cell with the most")
    test_units: int = column("Test units among them")
    inputs: int = column("Number of inputs, over all cells")
    gain: float | None = column(
        "Sum of the cells' gain shares / sum of their oracles' shares", "gain", number
    )
    gain_lo: float | None = low(heading="95 %")
    gain_hi: float | None = high()
    ndg: float | None = column("nDG; over several cells, its mean", "nDG", number)
    ndg_lo: float | None = low("Lower end of its 95 % interval over the units")
    ndg_hi: float | None = high()
    harm: float | None = column(
        "Sum of the cells' harm shares / sum of random's", "harm", number
    )
    harm_lo: float | None = low(heading="95 %")
    harm_hi: float | None = high()
    versus: str = column("Allocator that differences are taken with")
    difference: float | None = column(
        "Its gain less that of `versus`",
        "ahead",
        of_row=lambda row: TableCell(
            number(row.difference), mark_of(row.difference_verdict)
        ),
    )
    difference_lo: float | None = low("Lower end of its paired 95 % interval", "95 %")
    difference_hi: float | None = high()
    difference_verdict: str | None = column(
        "better, worse or unresolved against `versus`"
    )
    harm_difference: float | None = column("Its harm less that of `versus`")
    harm_difference_lo: float | None = low("Lower end of its paired 95 % interval")
    harm_difference_hi: float | None = high()
    versus_random: float | None = column(
        "Paired difference with random, as a share of the all-cheap loss"
    )
    versus_random_lo: float | None = low("Lower end of its paired 95 % interval")
    versus_random_hi: float | None = high()
    verdict: str | None = column("better, worse or unresolved against random")
    draws: int = column("Number of draws of units")
    held_out_ndg: float | None = column(
        "The official number for comparison: nDG on test units if fitted on all other "
        "units; None without results"
    )
    reason: str | None = column("Why something is None")


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
    ) -> Estimate | None:
        """The number of the sample with its interval; None where it is undefined."""
        drawn = np.where(usable, samples[1:], np.nan)
        return estimate(float(samples[0]), interval_over(drawn, self.draws))

    def columns(self, name: str, versus: str) -> dict[str, Any]:
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
        fields: dict[str, Any] = {"versus": versus, "draws": len(self.draws)}
        for of, own in estimates.items():
            low_end, high_end = (None, None) if own is None else (own.low, own.high)
            fields |= {
                of: None if own is None else float(own),
                f"{of}_lo": low_end,
                f"{of}_hi": high_end,
            }
        for of, verdict in (
            ("difference", "difference_verdict"),
            ("versus_random", "verdict"),
        ):
            ends = fields[f"{of}_lo"], fields[f"{of}_hi"]
            fields[verdict] = None if None in ends else Interval(*ends).verdict
        return fields


ALLOCATORS = Option(
    "Signal or recipe, or all. Repeatable.",
    ("--allocator", "-a"),
    read=check_allocators,
)
FOLDS = Option("Number of folds.", limits=(2, 1_000))


def rows(
    cells: Mapping[str, BuiltCell],
    allocators: Annotated[Sequence[str], ALLOCATORS] = GATES,
    results: Mapping[str, Result] | None = None,
    *,
    folds: Annotated[int, FOLDS] = 5,
    units: str | Sequence[str] = "all",
    versus: Annotated[str, Option("Allocator to take differences with.")] = BEST,
    alphas: Sequence[float] = LEVELS,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    map_fits: Map = map,
    watch: Watch = unwatched,
) -> list[OutOfFoldRow]:
    """One row per budget and allocator, random first: over all cells if there are
    several, then for each cell.

    Args:
        cells: Cells by name.
        allocators: Signals and recipes; "all" for all that apply to a cell.
        results: Judgements on the test units of each cell, shown for comparison.
        folds: Number of folds of units.
        units: Units to fit and judge on, by role or by name.
        versus: Allocator that differences are taken with; "best" for the one with the
            largest gain.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of units, or "exact".
        seed: Their seed.
        map_fits: Maps a function over folds, in this process or in workers.
        watch: Progress reporting.
    """
    names = check_allocators(allocators)
    contenders = (BEST, RANDOM, *names)
    if versus not in contenders:
        raise InputError(
            "--versus must be judged "
            f"too, one of {', '.join(contenders)}; found {versus!r}."
        )
    budgets, seeds = (
        [Selection(alpha) for alpha in alphas],
        shared_seeds(cells, seed, units=units),
    )
    lists = {name: list(units_of(cell.split, units)) for name, cell in cells.items()}
    bases = {}
    for name, cell in cells.items():
        scored = fold_scores(
            name,
            cell,
            names,
            folds=folds,
            units=lists[name],
            map_fits=map_fits,
            watch=watch,
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
    groups = {f"all {len(cells)} cells": list(cells)} if len(cells) > 1 else {}
    records = []
    for label, members in (groups | {name: [name] for name in cells}).items():
        about: dict[str, Any] = {
            "cell": label,
            "kind": "selection",
            "standing": STANDING.format(
                units if isinstance(units, str) else "the chosen"
            ),
            "folds": folds,
            "cells": len(members),
            "units": max(len(lists[name]) for name in members),
            "test_units": max(
                len({*lists[name]} & {*cells[name].split.test}) for name in members
            ),
            "inputs": sum(
                len(cells[name].table.restrict(lists[name])) for name in members
            ),
        }
        own = {name: bases[name] for name in members}
        records += [
            row
            for budget in budgets
            for row in _rows(own, budget, about, versus, results or {})
        ]
    return records


def _rows(
    bases: Mapping[str, Basis],
    budget: Budget,
    about: Mapping[str, Any],
    versus: str,
    results: Mapping[str, Result],
) -> list[OutOfFoldRow]:
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
    records = []
    for name in pool.gain:
        fields = {**about, **pool.columns(name, against)}
        official = _official(results.get(about["cell"]), name, budget.alpha)
        reason = joined(own[name].row.reason for own in judged)
        records.append(
            OutOfFoldRow(
                allocator=name,
                alpha=budget.alpha,
                held_out_ndg=official,
                reason=reason,
                **fields,
            )
        )
    return records


def _official(result: Result | None, allocator: str, alpha: float) -> float | None:
    rows = () if result is None else result.choosers
    numbers = (
        row.ndg
        for row in rows
        if (row.allocator, row.kind, row.alpha) == (allocator, "selection", alpha)
    )
    return next(numbers, None)


def tables(rows: Sequence[OutOfFoldRow]) -> list[Table]:
    """Allocators over all cells, if there are several, and by cell, if there are
    few.
    """
    over_cells = [row for row in rows if row.cells > 1]
    several = [_table_over_cells(over_cells)] if over_cells else []
    single = [row for row in rows if row.cells == 1]
    return [
        *several,
        *(
            []
            if len({row.cell for row in single}) > MOST_CELLS
            else [_table_of_cells(single)]
        ),
    ]


def _table_over_cells(rows: Sequence[OutOfFoldRow]) -> Table:
    """Pooled gain, nDG and harm, and the difference with one allocator; the largest
    gain first.
    """
    label, ordered = (
        rows[0].standing,
        sorted(rows, key=lambda row: (row.alpha, -(row.gain or 0.0))),
    )
    others = ", ".join(
        f"{row.versus} ({percent(row.alpha, 0)})"
        for row in {row.alpha: row for row in rows}.values()
    )
    notes = (
        f"{rows[0].cells} cells, {rows[0].units} units, {rows[0].folds} folds, "
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
        "gain_lo",
        "ndg",
        "harm",
        "harm_lo",
        "difference",
        "difference_lo",
    )
    return declared_table(
        OutOfFoldRow,
        ordered,
        f"Allocators over {rows[0].cells} cells, {label}",
        notes=notes,
        order=("alpha", "allocator", *measured),
        group=("alpha",),
    )


def _table_of_cells(rows: Sequence[OutOfFoldRow]) -> Table:
    """Out-of-fold nDG by budget, a section for each cell, with the official number at
    the headline budget.
    """
    alphas = sorted({row.alpha for row in rows})
    at = min(alphas, key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    header = (
        "cell",
        "allocator",
        *(percent(alpha, 0) for alpha in alphas),
        f"95 % at {percent(at, 0)}",
    )
    header = (*header, f"harm, {percent(at, 0)}", f"held out, {percent(at, 0)}")
    sections = []
    for cell, group in groupby(rows, key=lambda row: row.cell):
        members, lines = list(group), []
        for name in dict.fromkeys(row.allocator for row in members):
            own = {row.alpha: row for row in members if row.allocator == name}
            head = own[at]
            lines.append(
                (
                    TableCell("" if lines else cell),
                    TableCell(name),
                    *(
                        TableCell(
                            number(row.ndg) + "+" * (row.verdict == "better"),
                            mark_of(row.verdict),
                        )
                        for row in (own[alpha] for alpha in alphas)
                    ),
                    TableCell(interval(head.ndg_lo, head.ndg_hi)),
                    TableCell(number(head.harm)),
                    TableCell(number(head.held_out_ndg)),
                )
            )
        sections.append(tuple(lines))
    label = rows[0].standing if rows else STANDING.format("all")
    opened = ", and test units are opened" * any(row.test_units for row in rows)
    notes = (
        (
            f"nDG {label}. Each unit is scored by a fit on the "
            f"units of the other folds{opened}."
        ),
        "+ and bold: better than random, at 95 %; asterisk: worse. harm: as a "
        "multiple of random's. held out: the official number, on test units.",
    )
    return Table(f"Allocators {label}", header, tuple(sections), notes, (header[-3],))


def chart(rows: Sequence[OutOfFoldRow]) -> Chart:
    """At the headline budget: gain and harm over all cells; of single cells, nDG beside
    the official one.
    """
    label, dots = rows[0].standing if rows else STANDING.format("all"), []
    over_cells = [row for row in rows if row.cells > 1]
    for row in at_headline(over_cells or rows):
        if over_cells:
            dots.append(
                Dot(
                    row.allocator,
                    "gain, of the oracles'",
                    row.gain,
                    row.gain_lo,
                    row.gain_hi,
                )
            )
            dots.append(
                Dot(
                    row.allocator,
                    "harm, of random's",
                    row.harm,
                    row.harm_lo,
                    row.harm_hi,
                )
            )
        else:
            dots.append(
                Dot(
                    f"{row.cell}: {row.allocator}",
                    "out of fold, not scored",
                    row.ndg,
                    row.ndg_lo,
                    row.ndg_hi,
                )
            )
            dots.append(
                Dot(f"{row.cell}: {row.allocator}", "held out", row.held_out_ndg)
            )
    at = at_headline(rows)[0].alpha if rows else HEADLINE
    return plain(
        f"{'Gain and harm' if over_cells else 'nDG'} at {at:.0%}, {label}",
        dots,
        line=0.0,
    )


OUT_OF_FOLD = declare(
    __name__,
    shows="Judge allocators out of fold, over many cells",
    details=(
        "Signals and recipes over all units, or over those that --units names, each "
        "unit scored by a fit on other units: gain and harm pooled over cells, and "
        "paired differences between allocators. These numbers "
        "are released, not scored."
    ),
    see="definitions.md#out-of-fold",
    paper="held-out allocation",
    example="cells/braking-monocular -a lost -a gate-gbm --units fit",
    kind=OutOfFoldRow,
    takes={"cells": "cells", "results": "free"},
    by="cell",
    judges=True,
    among=FIRST_OF_PAIR,
)
