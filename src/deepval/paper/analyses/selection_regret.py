"""Cells and scores -> what it costs to choose an allocator by the perception gain it realises: selection regret.

docs/definitions.md, Choosing an allocator. Each objective chooses on the validation units; the two choices are compared
once, on the test units, by realised decision gain. So learned allocators must have been fitted on training units only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np

from deepval.allocators.allocator import SIGNALS
from deepval.arrays import Float, Int
from deepval.cells.fitting import Scored
from deepval.cells.folder import BuiltCell
from deepval.errors import InputError
from deepval.judging.budgets import Selection
from deepval.judging.comparison import Basis, Contender, basis, contenders
from deepval.judging.draws import Draws, seeds_by_units
from deepval.judging.evaluation import evaluate
from deepval.judging.over_cells import Pair, over_pairs, shared_draws
from deepval.judging.resamples import Sample
from deepval.judging.rows import Judged
from deepval.judging.ties import inclusion
from deepval.paper.analyses.judged import judged
from deepval.perception.reported.losses import LOSSES, perception_gains
from deepval.progress import Watch, unwatched
from deepval.report.charts import Chart, Dot, shares
from deepval.report.table import Table, TableCell, interval, mark_of, number, percent, quantity
from deepval.results import HEADLINE, BudgetKey, known
from deepval.tables.columns import positions
from deepval.tables.shares import quota
from deepval.tables.values import ValueTable

ALPHAS = (0.1, 0.2, 0.3, 0.5)
RANDOM = "random"
FREE = (RANDOM, "uncertainty", "criticality", "ego-speed")
"""Signals that were fitted to nothing."""
POOLS = ("target-free", "learned", "diagnostics")
"""Each holds those before it: signals fitted to nothing, then allocators that were fitted, then what nobody may see."""
HEADLINES = ("E1", "E8")
"""Perception losses that the paper looks at: missed objects, and their risk."""
TIED = 1e-9
"""Signals whose sums are nearer than this, as a part of all that there is to gain or lose, are tied."""
FEWEST_TEST, FEWEST_VALIDATION = 5, 8
"""Affected inputs that a cell needs to be judged, and to be chosen on: the paper leaves out cells with 4 and with 7."""

Pool = Mapping[str, Float[np.ndarray, "input"] | None]
"""Scores by signal; random has none."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Signals by what they realise of an objective at one budget.

    Attributes:
        names: The signals.
        realised: Sum of the objective over what each escalates, ties at the cut in exact expectation.
        level: Their ranks from 0 up, equal where they are tied.
    """

    names: tuple[str, ...]
    realised: Float[np.ndarray, "signal"]
    level: Int[np.ndarray, "signal"]

    @property
    def best(self) -> tuple[str, ...]:
        """The signals of the highest rank, sorted by name."""
        top = self.level.max()
        return tuple(sorted(name for name, level in zip(self.names, self.level, strict=True) if level == top))


def ranked(worth: Float[np.ndarray, "input"], pool: Pool, slots: int) -> Ranking:
    """The signals of a pool by what they realise of an objective with so many slots."""
    realised = np.array([_realised(worth, score, slots) for score in pool.values()])
    order = np.argsort(realised, kind="stable")
    steps = np.diff(realised[order]) > TIED * np.abs(worth).sum()
    level = np.empty(len(realised), dtype=np.int64)
    level[order] = np.concatenate([[0], np.cumsum(steps)])
    return Ranking(tuple(pool), realised, level)


def _realised(worth: Float[np.ndarray, "input"], score: Float[np.ndarray, "input"] | None, slots: int) -> float:
    if score is None:
        return slots / len(worth) * float(worth.sum())
    return float(inclusion(score, slots) @ worth)


def objectives(
    cell: BuiltCell, table: ValueTable, losses: Sequence[str] | None = None
) -> dict[str, Float[np.ndarray, "input"]]:
    """Perception gains of a table's inputs by loss, those that the cell's modes define, all or the named ones."""
    kept = positions(table.input, cell.table.input)
    gains = {name: gain[kept] for name, gain in perception_gains(*cell.evidence.losses).items()}
    wanted = LOSSES if losses is None else losses
    return {name: gains[name] for name in wanted if name in gains and not np.isnan(gains[name]).any()}


def checked_losses(losses: Iterable[str]) -> list[str]:
    """Names of perception losses."""
    named = list(dict.fromkeys(losses))
    unknown = next((name for name in named if name not in LOSSES), None)
    if unknown is not None:
        raise InputError(f"A perception loss must be one of {', '.join(LOSSES)}; found {unknown!r}.")
    return named


def pools(scored: Mapping[str, Scored], table: ValueTable) -> dict[str, Pool]:
    """The pools by name; one that would add nothing to those before it is left out.

    Signals that do not score every input of the table, and per-mode scores, are in none.
    """
    plain = {name: item.over(table) for name, item in scored.items() if not item.modes}
    whole = {name: item for name, item in plain.items() if item.covered.all()}
    kinds = {
        "target-free": [name for name in FREE if name in whole],
        "learned": [name for name, item in whole.items() if name not in SIGNALS and item.kind == "deployable"],
        "diagnostics": [name for name, item in whole.items() if item.kind == "diagnostic"],
    }
    found: dict[str, Pool] = {}
    members: dict[str, Float[np.ndarray, "input"] | None] = {RANDOM: None}
    for kind, names in kinds.items():
        if names:
            members = members | {name: whole[name].values for name in names}
            found[kind] = members
    return found


def too_few(table: ValueTable, fewest: int, units: str) -> str | None:
    """Why a table is not judged on, in words: too few of its inputs are affected; None where it is."""
    number = table.affected
    return None if number >= fewest else f"{number} affected {units} inputs, fewer than {fewest}"


BY_DECISION = "chosen by decision gain"


@dataclass(frozen=True)
class RegretRow:
    """What choosing by one perception gain costs at one budget, in a cell or as the equal-weight mean over cells.

    Attributes:
        cell: The cell; None in the mean over cells.
        cells: Number of cells; 0 where the cell is not scored.
        pool: What was chosen among.
        loss: The perception loss whose decrease chose: E1 to E8.
        alpha: Share of inputs that may be escalated.
        by_perception: Signal of the largest perception gain on the validation units, or those tied; of one cell only.
        by_decision: Signal of the largest decision gain there.
        alike: Cells in which both choose the same.
        gain_perception: What the first realises on the test units, as a share of the all-cheap loss.
        gain_decision: What the second realises.
        regret: gain_decision - gain_perception, paired; of tied signals the mean is taken.
        regret_lo: Lower bound of its 95 % interval over units, drawn once for all cells of a data set.
        regret_hi: Upper bound.
        ndg_regret: The same difference in nDG.
        ndg_regret_lo: Lower bound of its interval, draws with a small prize in any cell left out.
        ndg_regret_hi: Upper bound.
        verdict: better where choosing by decision gain is, worse where choosing by perception gain is, or unresolved.
        cells_better: Cells whose own interval says better.
        cells_worse: Cells whose own interval says worse.
        draws: Number of draws.
        dropped: Draws that could not be compared, for want of a positive all-cheap loss.
        ndg_dropped: Draws left out of the nDG interval.
        reason: Why something is None.
    """

    cell: str | None
    cells: int
    pool: str
    loss: str
    alpha: float
    by_perception: tuple[str, ...] = ()
    by_decision: tuple[str, ...] = ()
    alike: int = 0
    gain_perception: float | None = None
    gain_decision: float | None = None
    regret: float | None = None
    regret_lo: float | None = None
    regret_hi: float | None = None
    ndg_regret: float | None = None
    ndg_regret_lo: float | None = None
    ndg_regret_hi: float | None = None
    verdict: str | None = None
    cells_better: int = 0
    cells_worse: int = 0
    draws: int = 0
    dropped: int = 0
    ndg_dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class _Place:
    """What is asked of every cell."""

    pool: str
    loss: str
    alpha: float


@dataclass(frozen=True, eq=False)
class _Choice:
    """Both choices of a cell: names from the validation units, and the two as contenders on the test units."""

    by_perception: tuple[str, ...]
    by_decision: tuple[str, ...]
    pair: Pair


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Mapping[str, Mapping[str, Scored]],
    *,
    losses: Sequence[str] | None = None,
    alphas: Sequence[float] = ALPHAS,
    draws: int | Literal["exact"] = 1000,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[RegretRow]:
    """Per pool, perception loss and budget: the mean over cells, then each cell.

    Args:
        cells: Cells by name, of one or several data sets.
        scores: Per cell, scores of all inputs by signals and by allocators fitted on the training units.
        losses: Perception losses that choose; all that a cell's modes define where None.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of units, or "exact".
        seed: Their seed; data sets have children of it.
        watch: Who is told how far it is.
    """
    budgets = [Selection(alpha) for alpha in alphas]
    reasons = {name: _not_chosen_on(cell) for name, cell in cells.items()}
    scored = {name: cell for name, cell in cells.items() if reasons[name] is None}
    if not scored:
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise InputError(f"There must be a cell to choose on; found none ({told}).")
    seeds = seeds_by_units({name: cell.split.test for name, cell in scored.items()}, seed)
    choices: dict[str, dict[_Place, _Choice]] = {}
    for name, cell in watch(list(scored.items()), "choosing"):
        choices[name] = dict(_choices(name, cell, scores[name], losses, budgets, draws=draws, seed=seeds[name]))
    places = list(dict.fromkeys(place for found in choices.values() for place in found))
    return [row for place in places for row in _rows(place, choices, reasons)]


def _not_chosen_on(cell: BuiltCell) -> str | None:
    """Why nothing can be chosen on a cell, or compared there; None where it can."""
    if not cell.split.validation:
        return f"no validation units: {cell.split.too_few or 'the split gives it none'}"
    return too_few(judged(cell, "validation"), FEWEST_VALIDATION, "validation") or too_few(
        judged(cell, "test"), FEWEST_TEST, "test"
    )


def _choices(
    name: str,
    cell: BuiltCell,
    scored: Mapping[str, Scored],
    losses: Sequence[str] | None,
    budgets: Sequence[Selection],
    *,
    draws: int | Literal["exact"],
    seed: int,
) -> Iterator[tuple[_Place, _Choice]]:
    held, test = judged(cell, "validation"), judged(cell, "test")
    on_held, on_test = pools(scored, held), pools(scored, test)
    used = {signal for pool in on_test.values() for signal, score in pool.items() if score is not None}
    given = {signal: scored[signal].over(cell.table) for signal in scored if signal in used}
    result = evaluate(cell.listed, given, budgets, units=list(cell.split.test), draws=draws, seed=seed)
    reached = basis(result)
    for kind in on_held:
        pool: Pool = {signal: s for signal, s in on_held[kind].items() if signal in on_test.get(kind, ())}
        for budget in budgets:
            slots, key = int(quota(len(held), budget.alpha)), BudgetKey("selection", budget.alpha)
            by_decision = ranked(held.decision_values, pool, slots).best
            for loss, gain in objectives(cell, held, losses).items():
                by_perception = ranked(gain, pool, slots).best
                pair = Pair(name, reached, _either(reached, by_decision, key), _either(reached, by_perception, key))
                yield _Place(kind, loss, budget.alpha), _Choice(by_perception, by_decision, pair)


def _either(held: Basis, names: Sequence[str], key: BudgetKey) -> Contender:
    """One of several signals at random: the mean of what they reach in every resample."""
    members = [contenders(held, name)[key] for name in names]
    first, samples = members[0], [each.sample for each in members if each.sample is not None]
    assert isinstance(first, Judged)
    assert len(samples) == len(members)
    mean = [np.mean([getattr(each, part) for each in samples], axis=0) for part in ("gain", "benefit", "escalated")]
    return replace(first, sample=Sample(*mean))


def _rows(
    place: _Place, choices: Mapping[str, Mapping[_Place, _Choice]], reasons: Mapping[str, str | None]
) -> Iterator[RegretRow]:
    found = {name: each[place] for name, each in choices.items() if place in each}
    held = {name: choice.pair.held for name, choice in found.items()}
    draws = shared_draws(held)
    yield _row(None, place, list(found.values()), draws)
    for name, reason in reasons.items():
        if name in found:
            yield _row(name, place, [found[name]], draws)
        else:
            told = reason or f"no {place.loss} or no such pool there"
            yield RegretRow(name, 0, place.pool, place.loss, place.alpha, reason=told)


def _row(name: str | None, place: _Place, found: Sequence[_Choice], draws: Draws) -> RegretRow:
    key, names = BudgetKey("selection", place.alpha), (BY_DECISION, f"chosen by {place.loss}")
    pairs = [choice.pair for choice in found]
    over = over_pairs(pairs, key, names, draws=draws)
    gains = [_gain([pair.one for pair in pairs], pairs), _gain([pair.other for pair in pairs], pairs)]
    return RegretRow(
        cell=name,
        cells=len(found),
        pool=place.pool,
        loss=place.loss,
        alpha=place.alpha,
        by_perception=found[0].by_perception if name is not None else (),
        by_decision=found[0].by_decision if name is not None else (),
        alike=sum(choice.by_perception == choice.by_decision for choice in found),
        gain_perception=gains[1],
        gain_decision=gains[0],
        regret=over.difference,
        regret_lo=over.lo,
        regret_hi=over.hi,
        ndg_regret=over.ndg_difference,
        ndg_regret_lo=over.ndg_lo,
        ndg_regret_hi=over.ndg_hi,
        verdict=over.verdict,
        cells_better=over.cells_better,
        cells_worse=over.cells_worse,
        draws=over.draws,
        dropped=over.dropped,
        ndg_dropped=over.ndg_dropped,
        reason=over.reason,
    )


def _gain(chosen: Sequence[Contender], pairs: Sequence[Pair]) -> float | None:
    """Mean over cells of the realised gain as a share of the all-cheap loss; None where some cell has no share."""
    parts = [
        pair.held.totals.difference(each.sample.gain).share[0]
        for each, pair in zip(chosen, pairs, strict=True)
        if each.sample is not None
    ]
    return known(float(np.mean(parts)))


def table(rows: Sequence[RegretRow]) -> Table:
    """The means over cells, a section for each pool and perception loss."""
    header = ("chosen by", "budget", "alike", "regret", "95 %", "nDG", "nDG 95 %", "verdict")
    means = sorted((row for row in rows if row.cell is None), key=lambda row: (POOLS.index(row.pool), row.loss))
    sections = [
        tuple(_line(row, (_said(row) if i == 0 else "", *_mean(row))) for i, row in enumerate(members))
        for _, members in groupby(means, key=_said)
    ]
    notes = [
        "regret: test gain of the signal that decision gain chose on validation units, less that of the one that the "
        "perception gain chose, as a share of the all-cheap loss. verdict: of choosing by decision gain.",
        "alike: cells in which both choose the same.",
        *sorted({f"Without {row.cell}: {row.reason}." for row in rows if not row.cells}),
    ]
    title = "Selection regret: what choosing by perception gain costs"
    return Table(title, header, tuple(sections), tuple(notes), ("nDG 95 %", "nDG"))


def cells_table(rows: Sequence[RegretRow]) -> Table:
    """Every cell at the headline budget, by the paper's two perception losses where they are there."""
    header = ("cell", "gain", "pool", "by perception", "by decision", "regret", "95 %", "verdict")
    at = min((row.alpha for row in rows), key=lambda alpha: (abs(alpha - HEADLINE), alpha), default=HEADLINE)
    losses = {row.loss for row in rows} & set(HEADLINES) or {row.loss for row in rows}
    alone = [row for row in rows if row.cell is not None and row.cells and row.alpha == at and row.loss in losses]
    sections = []
    for cell in dict.fromkeys(row.cell or "" for row in alone):
        members = [row for row in alone if row.cell == cell]
        sections.append(tuple(_line(row, (cell if i == 0 else "", *_alone(row))) for i, row in enumerate(members)))
    return Table(f"What each objective chooses at {percent(at, 0)}, cell by cell", header, tuple(sections))


def tables(rows: Sequence[RegretRow]) -> list[Table]:
    """Both."""
    return [table(rows), cells_table(rows)]


def _said(row: RegretRow) -> str:
    return f"{row.loss} ({LOSSES[row.loss].partition(':')[0]}), {row.pool}, mean of {quantity(row.cells, 'cell')}"


def _mean(row: RegretRow) -> tuple[str, ...]:
    ndg = number(row.ndg_regret), interval(row.ndg_regret_lo, row.ndg_regret_hi)
    return percent(row.alpha, 0), str(row.alike), *_regret(row), *ndg, row.verdict or ""


def _alone(row: RegretRow) -> tuple[str, ...]:
    chosen = " or ".join(row.by_perception), " or ".join(row.by_decision)
    return row.loss, row.pool, *chosen, *_regret(row), row.verdict or ""


def _regret(row: RegretRow) -> tuple[str, str]:
    return percent(row.regret), interval(row.regret_lo, row.regret_hi, percent)


def _line(row: RegretRow, texts: Sequence[str]) -> tuple[TableCell, ...]:
    mark = mark_of(row.verdict)
    return tuple(TableCell(text, mark if text == percent(row.regret) else "") for text in texts)


def chart(rows: Sequence[RegretRow]) -> Chart:
    """The mean over cells by budget and by the paper's two perception losses where they are there, by pool."""
    losses = {row.loss for row in rows} & set(HEADLINES) or {row.loss for row in rows}
    means = [row for row in rows if row.cell is None and row.loss in losses]
    dots = (
        Dot(f"{row.loss}, {row.alpha:.0%}", row.pool, row.regret, row.regret_lo, row.regret_hi)
        for row in sorted(means, key=lambda row: (row.loss, row.alpha))
    )
    return shares("Regret, of the all-cheap loss", dots, line=0.0)
