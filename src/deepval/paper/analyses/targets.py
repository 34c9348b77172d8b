"""Cells of several downstream targets on the same frames -> what one score is worth to each.

Formulas: docs/definitions.md, One score on several targets.
Every score is one fixed function of an input, judged on all units of every cell. A frame that a target cannot judge is
no input of its cell, and an input that a score does not cover is ranked last: both are counted and told.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from deepval.cells.fitting import Scored, score_on
from deepval.cells.folder import BuiltCell
from deepval.diagnostics import PLANNING_DIAGNOSTICS
from deepval.errors import InputError, InputWarning, is_of_machine
from deepval.judging.agreement import sign_disagreement, spearman
from deepval.judging.budgets import Selection
from deepval.judging.comparison import basis
from deepval.judging.evaluation import evaluate
from deepval.progress import Watch, unwatched
from deepval.report.table import MISSING, Table, TableCell, number, percent
from deepval.results import Result, known
from deepval.systems.learned import LEARNED, MARKS
from deepval.tables.columns import positions
from deepval.tables.values import ValueTable

ALPHAS = (0.1, 0.2, 0.3, 0.5)
ALPHA = 0.2
SCORES = ("uncertainty", "criticality", "reference-criticality", "gain-E1", "gain-E8", *PLANNING_DIAGNOSTICS)
"""What is judged: what a vehicle could compute, the reference's criticality, missed objects, risk, PKL and TIP."""
REFERENCES = ("random", "oracle")


@dataclass(frozen=True)
class OnTarget:
    """One score on one target at one budget, over all units.

    Attributes:
        score: Its name; `random` and `oracle` are references.
        kind: deployable, diagnostic or reference.
        target: The cell that it is judged on.
        alpha: Share of inputs that may be escalated.
        inputs: Inputs that the target can judge.
        coverage: Share of them that the score covers; the others are ranked last.
        ndg: nDG; None where it is undefined.
        ndg_lo: Lower bound of its 95 % interval over units.
        ndg_hi: Upper bound.
    """

    score: str
    kind: str
    target: str
    alpha: float
    inputs: int
    coverage: float
    ndg: float | None
    ndg_lo: float | None
    ndg_hi: float | None


@dataclass(frozen=True)
class SelfReference:
    """How much of a planning metric's worth rests on judging the planner by itself: 1 - nDG(logged) / nDG(itself).

    Both on the inputs that both cells judge; unbounded above, None where the divisor is not positive.
    """

    score: str
    logged: str
    itself: str
    alpha: float
    inputs: int
    ndg_logged: float | None
    ndg_itself: float | None
    gap: float | None
    gap_lo: float | None
    gap_hi: float | None


@dataclass(frozen=True)
class Disagreement:
    """Two targets on the inputs that both judge: where both are affected, how often with opposite signs.

    `coverage` is the share of either target's inputs that the other judges too; `rank` Spearman's correlation.
    """

    first: str
    second: str
    inputs: int
    coverage_first: float
    coverage_second: float
    affected_first: int
    affected_second: int
    both: int
    opposite: int
    share: float | None
    rank: float | None


@dataclass(frozen=True)
class Targets:
    """The analysis: scores on targets, self-reference gaps, disagreements; `absent` says why scores are missing."""

    rows: tuple[OnTarget, ...]
    gaps: tuple[SelfReference, ...]
    disagreements: tuple[Disagreement, ...]
    absent: Mapping[str, str]


def across_targets(
    cells: Mapping[str, BuiltCell],
    scores: Iterable[str] = SCORES,
    *,
    alphas: Sequence[float] = ALPHAS,
    draws: int = 1000,
    watch: Watch = unwatched,
) -> Targets:
    """Every score judged on every cell; cells must share data set, modes and geometry."""
    _refuse_others(cells)
    found, absent = _scored(cells, list(scores))
    budgets = [Selection(alpha) for alpha in alphas]
    rows: list[OnTarget] = []
    for target, cell in watch(list(cells.items()), "targets"):
        rows += _rows(target, cell.listed, found, budgets, draws=draws)
    metrics = {name: each for name, each in found.items() if name in PLANNING_DIAGNOSTICS}
    gaps = [
        gap
        for logged, itself in _pairs(cells)
        for alpha in alphas
        for gap in _gaps(cells, logged, itself, metrics, Selection(alpha), draws=draws)
    ]
    pairs = [_disagreement(cells, one, other) for one, other in combinations(cells, 2)]
    return Targets(tuple(rows), tuple(gaps), tuple(pairs), absent)


rows = across_targets
"""The analysis by the name that all have; its tables are `target_tables`."""


def _refuse_others(cells: Mapping[str, BuiltCell]) -> None:
    (name, first), *others = cells.items()
    for other, cell in others:
        unlike = [said for part, said in _SHARED.items() if cell.definition[part] != first.definition[part]]
        unlike += ["other modes"] if cell.table.modes != first.table.modes else []
        if unlike:
            raise InputError(
                f"targets must be cells that differ in their downstream system alone; {other} has {unlike[0]} than "
                f"{name}: build them together."
            )


_SHARED = {"dataset": "another data set", "modes": "other modes", "geometry": "another geometry"}


def _scored(cells: Mapping[str, BuiltCell], names: Sequence[str]) -> tuple[dict[str, Scored], dict[str, str]]:
    """Each score by the cell that covers most inputs among those that can tell it; and why some are absent."""
    by_size = sorted(cells.values(), key=lambda cell: -len(cell.table))
    found: dict[str, Scored] = {}
    absent: dict[str, str] = {}
    for name in names:
        for cell in by_size:
            try:
                scored = score_on(cell, name, units="all")
            except InputError as error:
                if is_of_machine(error):
                    raise
                absent[name] = str(error)
                continue
            if len(scored.input):
                found[name] = scored
                absent.pop(name, None)
                break
            absent[name] = scored.reason or "no input has it"
    return found, absent


def _rows(
    target: str, table: ValueTable, scores: Mapping[str, Scored], budgets: Sequence[Selection], *, draws: int
) -> Iterable[OnTarget]:
    result = _judged(table, scores, budgets, draws=draws)
    for name in (REFERENCES[0], *scores, REFERENCES[1]):
        kind = scores[name].kind if name in scores else "reference"
        coverage = float(scores[name].over(table).covered.mean()) if name in scores else 1.0
        for budget in budgets:
            row = result.row(name, "selection", budget.alpha)
            told = (row.ndg, row.ndg_lo, row.ndg_hi)
            yield OnTarget(name, kind, target, budget.alpha, len(table), coverage, *told)


def _judged(table: ValueTable, scores: Mapping[str, Scored], budgets: Sequence[Selection], *, draws: int) -> Result:
    with warnings.catch_warnings():
        # That a full mode harms more than it helps is a finding here, and stands in the rows.
        warnings.simplefilter("ignore", InputWarning)
        aligned = {name: scored.over(table) for name, scored in scores.items()}
        return evaluate(table, aligned, list(budgets), draws=draws, missing="worst")


def _pairs(cells: Mapping[str, BuiltCell]) -> list[tuple[str, str]]:
    """Cells of the same planner and loss, judged by the logged future and by itself."""
    systems = {name: cell.definition["system"] for name, cell in cells.items()}
    found = []
    for one, told in systems.items():
        for other, itself in systems.items():
            if _target(told) != "logged" or _target(itself) != "self":
                continue
            if {**told["constants"], "target": "self"} == dict(itself["constants"]):
                found.append((one, other))
    return found


def _target(system: Mapping[str, object]) -> object:
    """What a learned planner's plan is compared with; None for other systems."""
    learned = any(str(system["name"]).removeprefix(name) in MARKS.values() for name in LEARNED)
    constants = system["constants"]
    return constants.get("target") if learned and isinstance(constants, Mapping) else None


def _gaps(
    cells: Mapping[str, BuiltCell],
    logged: str,
    itself: str,
    scores: Mapping[str, Scored],
    budget: Selection,
    *,
    draws: int,
) -> Iterable[SelfReference]:
    if not scores:
        return
    tables = _common(cells[logged].listed, cells[itself].listed)
    one, other = (_judged(table, scores, [budget], draws=draws) for table in tables)
    for name in scores:
        row, own = (result.row(name, "selection", budget.alpha) for result in (one, other))
        low, high = _gap_interval(one, other, name)
        yield SelfReference(
            *(name, logged, itself, budget.alpha, len(tables[0]), row.ndg, own.ndg, _gap(row.ndg, own.ndg)),
            *(low, high),
        )


def _gap(logged: float | None, itself: float | None) -> float | None:
    return None if logged is None or itself is None or not itself > 0 else 1 - logged / itself


def _gap_interval(one: Result, other: Result, name: str) -> tuple[float | None, float | None]:
    """The 95 % interval over the draws, the same for both, in which both prizes and the divisor are large enough."""
    parts = [basis(result) for result in (one, other)]
    draws = parts[0].totals.draws
    ndg, kept = [], np.full(len(draws), parts[0].totals.resampled)
    for part in parts:
        item = next(each for each in part.judged if each.row.allocator == name)
        if item.sample is None:
            return None, None
        kept &= part.totals.prized(item.prize)
        ndg.append(part.totals.ndg(item.sample.gain, item.prize)[part.totals.drawn])
    kept &= ndg[1] > 0
    found = draws.interval(1 - np.divide(ndg[0], ndg[1], out=np.full(len(draws), np.nan), where=kept), kept)
    return known(found.low), known(found.high)


def _common(one: ValueTable, other: ValueTable) -> tuple[ValueTable, ValueTable]:
    """Both tables on the inputs that both have."""
    return one.keep(positions(one.input, other.input) >= 0), other.keep(positions(other.input, one.input) >= 0)


def _disagreement(cells: Mapping[str, BuiltCell], one: str, other: str) -> Disagreement:
    whole = cells[one].table, cells[other].table
    first, second = _common(*whole)
    a, b = first.decision_values, second.decision_values[positions(first.input, second.input)]
    tolerance = max(first.tolerance, second.tolerance)
    found = sign_disagreement(a, b, tolerance=tolerance)
    return Disagreement(
        first=one,
        second=other,
        inputs=len(first),
        coverage_first=len(first) / len(whole[0]),
        coverage_second=len(first) / len(whole[1]),
        affected_first=int((np.abs(a) > tolerance).sum()),
        affected_second=int((np.abs(b) > tolerance).sum()),
        both=found.of,
        opposite=found.count,
        share=known(found.share),
        rank=known(spearman(a, b)),
    )


def target_tables(found: Targets, alpha: float) -> list[Table]:
    """Scores by target, where targets disagree and, where there are some, self-reference gaps."""
    tables = [_on_targets(found, alpha), _disagreements(found)]
    return tables + ([_gap_table(found, alpha)] if found.gaps else [])


def curves(found: Targets) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The nDG by target, score and budget, where it is defined."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in found.rows:
        if row.ndg is not None and row.score != "oracle":
            curves.setdefault(row.target, {}).setdefault(row.score, []).append((row.alpha, row.ndg))
    return curves


def _on_targets(found: Targets, alpha: float) -> Table:
    rows = [row for row in found.rows if row.alpha == alpha]
    blocks = []
    for target in dict.fromkeys(row.target for row in rows):
        lines = [
            (target, row.score, row.kind, f"{row.inputs:,}", percent(row.coverage, 1), number(row.ndg),
             _span(row.ndg_lo, row.ndg_hi))
            for row in rows if row.target == target
        ]  # fmt: skip
        blocks.append(tuple(tuple(map(TableCell, line)) for line in lines))
    header = ("target", "score", "kind", "inputs", "covered", "nDG", "95 %")
    notes = (f"At {percent(alpha, 0)}, all units. inputs: those that the target judges.", *_absent(found))
    return Table("One score, several targets", header, tuple(blocks), notes)


def _absent(found: Targets) -> tuple[str, ...]:
    return tuple(f"{score} is left out: {why}" for score, why in found.absent.items())


def _disagreements(found: Targets) -> Table:
    lines = tuple(
        tuple(
            map(
                TableCell,
                (
                    *(pair.first, pair.second, f"{pair.inputs:,}"),
                    *(percent(pair.coverage_first, 1), percent(pair.coverage_second, 1)),
                    *(str(pair.affected_first), str(pair.affected_second), str(pair.both), str(pair.opposite)),
                    *(MISSING if pair.share is None else percent(pair.share, 1), number(pair.rank)),
                ),
            )
        )
        for pair in found.disagreements
    )
    header = (
        *("target", "other", "in common", "of target", "of other", "affected", "by other", "both", "opposite"),
        *("share", "rank"),
    )
    return Table("Where targets disagree", header, (lines,), ("share: opposite signs where both are affected.",))


def _gap_table(found: Targets, alpha: float) -> Table:
    lines = tuple(
        tuple(
            map(
                TableCell,
                (
                    *(gap.score, gap.logged, gap.itself, f"{gap.inputs:,}", number(gap.ndg_logged)),
                    *(number(gap.ndg_itself), number(gap.gap), _span(gap.gap_lo, gap.gap_hi)),
                ),
            )
        )
        for gap in found.gaps
        if gap.alpha == alpha
    )
    header = ("score", "logged", "itself", "inputs", "nDG logged", "nDG itself", "gap", "95 %")
    return Table(f"Self-reference gap at {percent(alpha, 0)}", header, (lines,))


def _span(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"[{number(low)}, {number(high)}]"
