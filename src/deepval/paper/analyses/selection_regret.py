"""Cells and scores -> selection regret: the cost of choosing an allocator by the
perception gain that it realises.

docs/definitions.md, Choosing an allocator. Each objective chooses on the validation
units; the two choices are compared once, on the test units, by realised decision gain.
Learned allocators must be fitted on training units only.

Allocators selected on validation units by perception gain and by decision gain, and the
loss on test units from the first, by cell and pooled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any

import numpy as np

from deepval.basics.arrays import Float, Int
from deepval.basics.errors import InputError
from deepval.deploy.allocators.allocator import SIGNALS
from deepval.deploy.fitting import Scored
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.perception.reported.losses import LOSSES, perception_gains
from deepval.judge.allowances import LEVELS, Budget, Selection
from deepval.judge.bootstrap import Gains
from deepval.judge.cases import judge, shared_seeds
from deepval.judge.differences import as_shares
from deepval.judge.pairs import Basis, Contender, basis, contenders
from deepval.judge.pooled import Pair, mean_if_all, over_pairs, shared_draws
from deepval.judge.report.charts import Dot, shares
from deepval.judge.report.figures.gain_figures import estimates
from deepval.judge.report.text_tables import (
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    percent,
    quantity,
)
from deepval.judge.results import HEADLINE, BudgetKey, known
from deepval.judge.tables.keys import positions
from deepval.judge.tables.values import ValueTable, quota
from deepval.judge.tie_expectations import inclusion
from deepval.paper.analysis import Analysis, Option
from deepval.paper.columns import loss_title
from deepval.paper.study import FREE, Cell, DrawCount, loss_table, of_each, watched
from deepval.paper.tidy import NOT_PRINTED, Column, Dots, Estimate, Row

RANDOM = "random"
POOLS = ("target-free", "learned", "diagnostics")
"""Pools of signals; each contains those before it: signals without a fit, fitted
allocators, diagnostics.
"""
HEADLINES = ("E1", "E8")
"""Perception losses that the paper examines: missed objects, and their risk."""
TIED = 1e-9
"""Signals are tied if their sums differ by less than this share of all gains and
losses.
"""
FEWEST_TEST, FEWEST_VALIDATION = 5, 8
"""Fewest affected inputs of a cell that is judged, and of a cell to choose on; the
paper omits cells with 4 and with 7."""

Pool = Mapping[str, Float[np.ndarray, "input"] | None]
"""Scores by signal; random has none."""


@dataclass(frozen=True, eq=False)
class SignalRanking:
    """Signals ranked by the sum of an objective that they realise at one budget.

    Attributes:
        names: The signals.
        realised: Sum of the objective over the inputs that each signal escalates, in
            exact expectation over ties at the cut.
        level: Their ranks from 0 up, equal where they are tied.
    """

    names: tuple[str, ...]
    realised: Float[np.ndarray, "signal"]
    level: Int[np.ndarray, "signal"]

    @property
    def best(self) -> tuple[str, ...]:
        """The signals of the highest rank, sorted by name."""
        top = self.level.max()
        return tuple(
            sorted(
                name
                for name, level in zip(self.names, self.level, strict=True)
                if level == top
            )
        )


def ranked(worth: Float[np.ndarray, "input"], pool: Pool, slots: int) -> SignalRanking:
    """The signals of a pool, ranked by the sum of an objective that they realise with
    this number of slots.
    """
    realised = np.array([_realised(worth, score, slots) for score in pool.values()])
    order = np.argsort(realised, kind="stable")
    steps = np.diff(realised[order]) > TIED * np.abs(worth).sum()
    level = np.empty(len(realised), dtype=np.int64)
    level[order] = np.concatenate([[0], np.cumsum(steps)])
    return SignalRanking(tuple(pool), realised, level)


def _realised(
    worth: Float[np.ndarray, "input"],
    score: Float[np.ndarray, "input"] | None,
    slots: int,
) -> float:
    if score is None:
        return slots / len(worth) * float(worth.sum())
    return float(inclusion(score, slots) @ worth)


def objectives(
    cell: BuiltCell, table: ValueTable, losses: Sequence[str] | None = None
) -> dict[str, Float[np.ndarray, "input"]]:
    """Perception gains of a table's inputs by loss: all that the cell's modes define,
    or the named ones among them.
    """
    at = positions(table.input, cell.table.input)
    gains = {
        name: gain[at] for name, gain in perception_gains(*cell.evidence.losses).items()
    }
    names = LOSSES if losses is None else losses
    return {
        name: gains[name]
        for name in names
        if name in gains and not np.isnan(gains[name]).any()
    }


def checked_losses(losses: Iterable[str]) -> list[str]:
    """The names, if all are perception losses; an error otherwise."""
    named = list(dict.fromkeys(losses))
    unknown = next((name for name in named if name not in LOSSES), None)
    if unknown is not None:
        raise InputError(
            f"A perception loss must be one of {', '.join(LOSSES)}; found {unknown!r}."
        )
    return named


Losses = Annotated[
    Sequence[str] | None,
    Option(
        "Perception loss, E1 to E8. Repeatable. Default: all that are defined.",
        ("--loss",),
        read=checked_losses,
    ),
]


def pools(scored: Mapping[str, Scored], table: ValueTable) -> dict[str, Pool]:
    """The pools by name; one that would add nothing to those before it is left out.

    Signals that do not score every input of the table, and per-mode scores, are in
    none.
    """
    plain = {name: item.over(table) for name, item in scored.items() if not item.modes}
    whole = {name: item for name, item in plain.items() if item.covered.all()}
    kinds = {
        "target-free": [name for name in FREE if name in whole],
        "learned": [
            name
            for name, item in whole.items()
            if name not in SIGNALS and item.kind == "deployable"
        ],
        "diagnostics": [
            name for name, item in whole.items() if item.kind == "diagnostic"
        ],
    }
    by_name: dict[str, Pool] = {}
    members: dict[str, Float[np.ndarray, "input"] | None] = {RANDOM: None}
    for kind, names in kinds.items():
        if names:
            members = members | {name: whole[name].values for name in names}
            by_name[kind] = members
    return by_name


def too_few(table: ValueTable, fewest: int, units: str) -> str | None:
    """The reason to leave a table out if too few of its inputs are affected; None if
    there are enough.
    """
    number = table.affected
    return (
        None
        if number >= fewest
        else f"{number} affected {units} inputs, fewer than {fewest}"
    )


BY_DECISION = "chosen by decision gain"


COLUMNS = (
    Column("cell", "The cell; None in the mean over cells"),
    Column("cells", "Number of cells; 0 if the cell is not scored"),
    Column("pool", "The signals to choose from"),
    Column("loss", "The perception loss whose decrease chooses: E1 to E8"),
    Column("alpha", "Share of inputs that may be escalated"),
    Column(
        "by_perception",
        "Signals with the largest perception gain on the validation units, several if "
        "tied; empty in a mean",
    ),
    Column(
        "by_decision", "Signals with the largest decision gain on the validation units"
    ),
    Column("alike", "Cells in which both choose the same"),
    Column(
        "gain_perception",
        "Gain on the test units of the choice by perception, as a share of the "
        "all-cheap loss",
    ),
    Column("gain_decision", "The same gain of the choice by decision"),
    Column(
        "regret",
        "gain_decision - gain_perception, paired; the mean over tied signals",
        bounds=NOT_PRINTED,
    ),
    Column("ndg_regret", "The same difference in nDG", bounds=NOT_PRINTED),
    Column(
        "verdict",
        "better if choosing by decision gain is ahead, worse if choosing by "
        "perception gain is ahead, or unresolved",
    ),
    Column("cells_better", "Cells with the verdict better"),
    Column("cells_worse", "Cells with the verdict worse"),
    Column("draws", "Number of draws"),
    Column(
        "dropped", "Draws without a positive all-cheap loss, which cannot be compared"
    ),
    Column("ndg_dropped", "Draws left out of the nDG interval"),
    Column("reason", "Why something is None"),
)
"""What choosing by one perception gain costs at one budget, in a cell or as the
equal-weight mean over cells.
"""


NOT_SCORED: Row = {
    "cells": 0,
    "by_perception": (),
    "by_decision": (),
    "alike": 0,
    "gain_perception": None,
    "gain_decision": None,
    "regret": Estimate(),
    "ndg_regret": Estimate(),
    "verdict": None,
    "cells_better": 0,
    "cells_worse": 0,
    "draws": 0,
    "dropped": 0,
    "ndg_dropped": 0,
}
"""What the row of a cell has that is not scored."""


@dataclass(frozen=True)
class _Setting:
    """A pool, a perception loss and a budget."""

    pool: str
    loss: str
    alpha: float


@dataclass(frozen=True, eq=False)
class _Choice:
    """Both choices of a cell: names from the validation units, and the two as
    contenders on the test units.
    """

    by_perception: tuple[str, ...]
    by_decision: tuple[str, ...]
    pair: Pair


def rows(
    cells: Sequence[Cell],
    *,
    losses: Losses = None,
    alphas: Sequence[float] = LEVELS,
    draws: DrawCount = 1000,
    seed: int = 0,
) -> Iterator[Row]:
    """Per pool, perception loss and budget: the mean over cells, then each cell.

    Args:
        cells: The cells, of one or several data sets.
        losses: Perception losses to choose by; None for all that a cell's modes define.
        alphas: Shares of inputs that may be escalated.
        draws: Number of draws of units, or "exact".
        seed: Their seed; each data set uses a child seed.
    """
    budgets = [Selection(alpha) for alpha in alphas]
    reasons = {cell.name: not_chosen_on(cell.cell) for cell in cells}
    scored = [cell for cell in cells if reasons[cell.name] is None]
    if not scored:
        words = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise InputError(f"There must be a cell to choose on; found none ({words}).")
    scores = of_each(cells, "train_scores")
    seeds = shared_seeds({cell.name: cell.cell for cell in scored}, seed)
    choices: dict[str, dict[_Setting, _Choice]] = {}
    for cell in watched(scored, "choosing"):
        name = cell.name
        own = _choices(
            name,
            cell.cell,
            scores[name],
            losses,
            budgets,
            draws=draws,
            seed=seeds[name],
        )
        choices[name] = dict(own)
    settings = list(
        dict.fromkeys(setting for own in choices.values() for setting in own)
    )
    for setting in settings:
        yield from _rows(setting, choices, reasons)


def not_chosen_on(cell: BuiltCell) -> str | None:
    """The reason why a cell cannot be used to choose and compare; None if it can."""
    if not cell.split.validation:
        return f"no validation units: {cell.split.too_few or 'the split gives it none'}"
    return too_few(
        loss_table(cell, "validation"), FEWEST_VALIDATION, "validation"
    ) or too_few(loss_table(cell, "test"), FEWEST_TEST, "test")


def _choices(
    name: str,
    cell: BuiltCell,
    scored: Mapping[str, Scored],
    losses: Sequence[str] | None,
    budgets: Sequence[Budget],
    *,
    draws: DrawCount,
    seed: int,
) -> Iterator[tuple[_Setting, _Choice]]:
    validation, test = loss_table(cell, "validation"), loss_table(cell, "test")
    on_validation, on_test = pools(scored, validation), pools(scored, test)
    used = {
        signal
        for pool in on_test.values()
        for signal, score in pool.items()
        if score is not None
    }
    scores_by_signal = {
        signal: item for signal, item in scored.items() if signal in used
    }
    # The runner notes the look at test units.
    result = judge(
        cell, scores_by_signal, budgets, command=None, draws=draws, seed=seed
    )
    reached = basis(result)
    for kind in on_validation:
        pool: Pool = {
            signal: s
            for signal, s in on_validation[kind].items()
            if signal in on_test.get(kind, ())
        }
        for budget in budgets:
            slots, key = (
                int(quota(len(validation), budget.alpha)),
                BudgetKey("selection", budget.alpha),
            )
            by_decision = ranked(validation.decision_values, pool, slots).best
            for loss, gain in objectives(cell, validation, losses).items():
                by_perception = ranked(gain, pool, slots).best
                pair = Pair(
                    name,
                    reached,
                    _either(reached, by_decision, key),
                    _either(reached, by_perception, key),
                )
                yield (
                    _Setting(kind, loss, budget.alpha),
                    _Choice(by_perception, by_decision, pair),
                )


def _either(basis_of_cell: Basis, names: Sequence[str], key: BudgetKey) -> Contender:
    """A random one of several signals: the mean of their gains in every resample."""
    members = [contenders(basis_of_cell, name)[key] for name in names]
    first, samples = (
        members[0],
        [item.gains for item in members if item.gains is not None],
    )
    assert len(samples) == len(members)
    mean = [
        np.mean([getattr(item, part) for item in samples], axis=0)
        for part in ("gain", "benefit", "escalated")
    ]
    return replace(first, gains=Gains(*mean))


def _rows(
    setting: _Setting,
    choices: Mapping[str, Mapping[_Setting, _Choice]],
    reasons: Mapping[str, str | None],
) -> Iterator[Row]:
    chosen = {name: item[setting] for name, item in choices.items() if setting in item}
    bases = {name: choice.pair.held for name, choice in chosen.items()}
    shared_draws(bases)
    yield _row(None, setting, list(chosen.values()))
    for name, reason in reasons.items():
        if name in chosen:
            yield _row(name, setting, [chosen[name]])
        else:
            words = reason or f"no {setting.loss} or no such pool there"
            yield NOT_SCORED | {
                "cell": name,
                "pool": setting.pool,
                "loss": setting.loss,
                "alpha": setting.alpha,
                "reason": words,
            }


def _row(name: str | None, setting: _Setting, chosen: Sequence[_Choice]) -> Row:
    key, names = (
        BudgetKey("selection", setting.alpha),
        (BY_DECISION, f"chosen by {setting.loss}"),
    )
    pairs = [choice.pair for choice in chosen]
    over = over_pairs(pairs, key, names)
    gains = [
        _gain([pair.one for pair in pairs], pairs),
        _gain([pair.other for pair in pairs], pairs),
    ]
    return {
        "cell": name,
        "cells": len(chosen),
        "pool": setting.pool,
        "loss": setting.loss,
        "alpha": setting.alpha,
        "by_perception": chosen[0].by_perception if name is not None else (),
        "by_decision": chosen[0].by_decision if name is not None else (),
        "alike": sum(choice.by_perception == choice.by_decision for choice in chosen),
        "gain_perception": gains[1],
        "gain_decision": gains[0],
        "regret": Estimate(over.difference, over.lo, over.hi),
        "ndg_regret": Estimate(over.ndg_difference, over.ndg_lo, over.ndg_hi),
        "verdict": over.verdict,
        "cells_better": over.cells_better,
        "cells_worse": over.cells_worse,
        "draws": over.draws,
        "dropped": over.dropped,
        "ndg_dropped": over.ndg_dropped,
        "reason": over.reason,
    }


def _gain(chosen: Sequence[Contender], pairs: Sequence[Pair]) -> float | None:
    """Mean over cells of the realised gain as a share of the all-cheap loss; None if
    some cell has no share.
    """
    parts = [
        known(as_shares(pair.held.totals, item.gains.gain[None])[0, 0])
        for item, pair in zip(chosen, pairs, strict=True)
        if item.gains is not None
    ]
    return mean_if_all(parts)


def table(rows: Sequence[Row]) -> Table:
    """The means over cells, a section for each pool and perception loss."""
    header = (
        "chosen by",
        "budget",
        "alike",
        "regret",
        "95 %",
        "nDG",
        "nDG 95 %",
        "verdict",
    )
    means = sorted(
        (row for row in rows if row["cell"] is None),
        key=lambda row: (POOLS.index(row["pool"]), row["loss"]),
    )
    sections = [
        tuple(
            _line(row, (_heading(row) if i == 0 else "", *_mean(row)))
            for i, row in enumerate(members)
        )
        for _, members in groupby(means, key=_heading)
    ]
    notes = [
        "regret: test gain of the signal that decision gain chose on validation "
        "units, less that of the one that the perception gain chose, as a share of "
        "the all-cheap loss. verdict: of choosing by decision gain.",
        "alike: cells in which both choose the same.",
        *sorted(
            {
                f"Without {row['cell']}: {row['reason']}."
                for row in rows
                if not row["cells"]
            }
        ),
    ]
    title = "Selection regret: what choosing by perception gain costs"
    return Table(title, header, tuple(sections), tuple(notes), ("nDG 95 %", "nDG"))


def cells_table(rows: Sequence[Row]) -> Table:
    """Every cell at the headline budget, by the paper's two perception losses if the
    rows have them.
    """
    header = (
        "cell",
        "gain",
        "pool",
        "by perception",
        "by decision",
        "regret",
        "95 %",
        "verdict",
    )
    at = min(
        (row["alpha"] for row in rows),
        key=lambda alpha: (abs(alpha - HEADLINE), alpha),
        default=HEADLINE,
    )
    losses = {row["loss"] for row in rows} & set(HEADLINES) or {
        row["loss"] for row in rows
    }
    alone = [
        row
        for row in rows
        if row["cell"] is not None
        and row["cells"]
        and row["alpha"] == at
        and row["loss"] in losses
    ]
    sections = []
    for cell in dict.fromkeys(row["cell"] or "" for row in alone):
        members = [row for row in alone if row["cell"] == cell]
        sections.append(
            tuple(
                _line(row, (cell if i == 0 else "", *_alone(row)))
                for i, row in enumerate(members)
            )
        )
    return Table(
        f"What each objective chooses at {percent(at, 0)}, cell by cell",
        header,
        tuple(sections),
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """The means over cells, then the cells."""
    return [table(rows), cells_table(rows)]


def _heading(row: Row) -> str:
    cells = quantity(row["cells"], "cell")
    return f"{loss_title(row['loss'])}, {row['pool']}, mean of {cells}"


def _mean(row: Row) -> tuple[str, ...]:
    ndg = (
        number(row["ndg_regret"].value),
        interval(row["ndg_regret"].low, row["ndg_regret"].high),
    )
    return (
        percent(row["alpha"], 0),
        str(row["alike"]),
        *_regret(row),
        *ndg,
        row["verdict"] or "",
    )


def _alone(row: Row) -> tuple[str, ...]:
    chosen = " or ".join(row["by_perception"]), " or ".join(row["by_decision"])
    return row["loss"], row["pool"], *chosen, *_regret(row), row["verdict"] or ""


def _regret(row: Row) -> tuple[str, str]:
    return percent(row["regret"].value), interval(
        row["regret"].low, row["regret"].high, percent
    )


def _line(row: Row, texts: Sequence[str]) -> tuple[TableCell, ...]:
    mark = mark_of(row["verdict"])
    return tuple(
        TableCell(text, mark if text == percent(row["regret"].value) else "")
        for text in texts
    )


def charted(rows: Sequence[Row]) -> list[Row]:
    """The means over cells by the paper's two perception losses if the rows have
    them.
    """
    losses = {row["loss"] for row in rows}
    shown = losses & set(HEADLINES) or losses
    return [row for row in rows if row["cell"] is None and row["loss"] in shown]


def figure(rows: Sequence[Row]) -> Any:
    """The regret of choosing by misses among signals without a fit, at the headline
    budget: cells, then their mean.

    The mark names the choice by decision; it is open where both choose the same.
    """
    own = [
        row
        for row in rows
        if row["cells"] and (row["pool"], row["loss"]) == (POOLS[0], HEADLINES[0])
    ]
    at = min(
        (row["alpha"] for row in own),
        key=lambda alpha: (abs(alpha - HEADLINE), alpha),
        default=HEADLINE,
    )
    dots = [
        Dot(
            row["cell"] or f"pooled ({quantity(row['cells'], 'cell')})",
            " or ".join(row["by_decision"]) or "pooled",
            *(row["regret"].value, row["regret"].low, row["regret"].high),
        )
        for row in sorted(own, key=lambda row: row["cell"] is None)
        if row["alpha"] == at
    ]
    return estimates(shares(f"Regret of choosing by misses at {percent(at, 0)}", dots))


SELECTION_REGRET = Analysis(
    name="selection-regret",
    shows="Show the cost of selecting by perception gain",
    see="definitions.md#choosing-an-allocator",
    paper="selection regret",
    example="cells/braking-monocular cells/braking-oracle --loss E1 --loss E8",
    asks=("train_scores",),
    judges=True,
    details=(
        "Allocators selected on validation units by perception gain and by decision "
        "gain, and the loss on test units from the first, by cell and pooled."
    ),
    rows=rows,
    columns=COLUMNS,
    tables=tables,
    figure=figure,
    charts=[
        Dots(
            "Regret, of the all-cheap loss",
            {"{pool}": "regret"},
            label="{loss}, {alpha:.0%}",
            line=0.0,
            sort=("loss", "alpha"),
            of=charted,
        )
    ],
)
