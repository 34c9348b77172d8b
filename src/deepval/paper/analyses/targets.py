"""Cells of several downstream targets on the same frames -> what one score is worth to
each.

Formulas: docs/definitions.md, One score on several targets. Every score is one fixed
function of an input, judged on all units of every cell; only gates are fitted on each
cell, out of fold. A frame that a target cannot judge is no input of its cell, and an
input that a score does not cover is ranked last: both are counted and reported.

Gain of one score under several targets, where targets disagree, and self-reference
gaps.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

import numpy as np

from deepval.allocators import recipe_by_name
from deepval.cells.fitting import Scored, out_of_fold, recipes_for, score_on
from deepval.cells.folder import BuiltCell
from deepval.diagnostics import PLANNING_DIAGNOSTICS
from deepval.errors import InputError, InputWarning, NothingToLearnError, is_of_machine
from deepval.judging.allowances import LEVELS, Budget, Selection
from deepval.judging.concordance import sign_disagreement, spearman
from deepval.judging.differences import has_large_prize, ndg
from deepval.judging.evaluation import evaluate
from deepval.judging.intervals import interval_over
from deepval.judging.pairs import basis
from deepval.paper.analysis import Option, declare
from deepval.paper.row_columns import column, declared_table
from deepval.paper.tidy import count
from deepval.paper.tidy import share as in_percent
from deepval.progress import Watch, unwatched
from deepval.report.figures.gain_figures import across
from deepval.report.text_tables import MISSING, Table, number, percent
from deepval.results import Result, known
from deepval.systems.learned import LEARNED, MARKS
from deepval.tables.keys import positions
from deepval.tables.values import ValueTable

SCORES = (
    "uncertainty",
    "criticality",
    "reference-criticality",
    "gain-E1",
    "gain-E8",
    *PLANNING_DIAGNOSTICS,
)
"""The scores that are judged: deployable signals, criticality of the reference, missed
objects, risk, PKL and TIP.
"""
GATES = ("gate-gbm",)
"""The paper's gate, fitted on every target out of fold over units."""
REFERENCES = ("random", "oracle")


@dataclass(frozen=True)
class OnTarget:
    """One score on one target at one budget, over all units."""

    score: str = column("The score; `random` and `oracle` are references", "score")
    kind: str = column("deployable, diagnostic or reference", "kind")
    target: str = column("The cell that judges it", "target")
    alpha: float = column("Share of inputs that may be escalated")
    inputs: int = column("Inputs that the target can judge", "inputs", count)
    coverage: float = column(
        "Share of them that the score covers; the others are ranked last",
        "covered",
        in_percent,
    )
    ndg: float | None = column("nDG; None if undefined", "nDG", number)
    ndg_lo: float | None = column(
        "Lower end of its 95 % interval over units",
        "95 %",
        of_row=lambda row: _span(row.ndg_lo, row.ndg_hi),
    )
    ndg_hi: float | None = column("Upper end of the interval")


@dataclass(frozen=True)
class SelfReference:
    """How much of a planning metric's nDG comes from judging the planner by itself: 1 -
    nDG(logged) / nDG(itself).

    Both are taken on the inputs that both cells judge. The gap has no upper bound; None
    if the divisor is not positive.
    """

    score: str = column("The planning metric", "score")
    logged: str = column("Cell that judges by the logged future", "logged")
    itself: str = column("Cell that judges by the planner itself", "itself")
    alpha: float = column("Share of inputs that may be escalated")
    inputs: int = column("Inputs that both cells judge", "inputs", count)
    ndg_logged: float | None = column("nDG by the logged future", "nDG logged", number)
    ndg_itself: float | None = column("nDG by the planner itself", "nDG itself", number)
    gap: float | None = column("1 - ndg_logged / ndg_itself", "gap", number)
    gap_lo: float | None = column(
        "Lower end of its 95 % interval over units",
        "95 %",
        of_row=lambda row: _span(row.gap_lo, row.gap_hi),
    )
    gap_hi: float | None = column("Upper end of the interval")


@dataclass(frozen=True)
class Disagreement:
    """Two targets on the inputs that both judge: how often both are affected with
    opposite signs.
    """

    first: str = column("One target", "target")
    second: str = column("The other target", "other")
    inputs: int = column("Inputs that both judge", "in common", count)
    coverage_first: float = column(
        "Share of the first target's inputs that the other judges too",
        "of target",
        in_percent,
    )
    coverage_second: float = column(
        "Share of the other target's inputs that the first judges too",
        "of other",
        in_percent,
    )
    affected_first: int = column(
        "Common inputs on which the first is affected", "affected"
    )
    affected_second: int = column(
        "Common inputs on which the other is affected", "by other"
    )
    both: int = column("Inputs on which both are affected", "both")
    opposite: int = column("Inputs of opposite sign among these", "opposite")
    share: float | None = column("Their share", "share", in_percent)
    rank: float | None = column(
        "Spearman's correlation of the two decision values", "rank", number
    )


@dataclass(frozen=True)
class Targets:
    """The analysis: scores on targets, self-reference gaps, disagreements; `absent`
    says why scores are missing.
    """

    rows: tuple[OnTarget, ...]
    gaps: tuple[SelfReference, ...]
    disagreements: tuple[Disagreement, ...]
    absent: Mapping[str, str]


def across_targets(
    cells: Mapping[str, BuiltCell],
    scores: Iterable[str] = SCORES,
    *,
    gates: Iterable[str] = GATES,
    alphas: Sequence[float] = LEVELS,
    draws: int = 1000,
    watch: Watch = unwatched,
) -> Targets:
    """Every score judged on every cell, and gates fitted on it out of fold; cells share
    data set, modes, geometry.
    """
    _refuse_others(cells)
    scored, absent = _scored(cells, list(scores))
    recipes = list(gates)
    budgets = [Selection(alpha) for alpha in alphas]
    rows: list[OnTarget] = []
    for target, cell in watch(list(cells.items()), "targets"):
        fitted, reasons = _fitted(target, cell, recipes)
        absent |= reasons
        rows += _rows(target, cell.listed, fitted | scored, budgets, draws=draws)
    metrics = {
        name: item for name, item in scored.items() if name in PLANNING_DIAGNOSTICS
    }
    gaps = [
        gap
        for logged, itself in _pairs(cells)
        for alpha in alphas
        for gap in _gaps(cells, logged, itself, metrics, Selection(alpha), draws=draws)
    ]
    pairs = [_disagreement(cells, one, other) for one, other in combinations(cells, 2)]
    return Targets(tuple(rows), tuple(gaps), tuple(pairs), absent)


def rows(
    cells: Mapping[str, BuiltCell],
    scores: Annotated[
        Iterable[str],
        Option("Signal or diagnostic to judge. Repeatable.", ("--allocator", "-a")),
    ] = SCORES,
    *,
    gates: Annotated[
        Iterable[str],
        Option(
            "Recipe to fit on every target, out of fold over units. Repeatable.",
            ("--gate",),
        ),
    ] = GATES,
    alpha: float = 0.2,
    watch: Watch = unwatched,
) -> Targets:
    """Every score judged on every cell at the default budgets and at `alpha`; the
    tables show `alpha`.
    """
    return across_targets(
        cells, scores, gates=gates, alphas=sorted({*LEVELS, alpha}), watch=watch
    )


def figure(targets: Targets) -> Any:
    """The figure of nDG by target, score and budget."""
    return across(curves(targets))


def _refuse_others(cells: Mapping[str, BuiltCell]) -> None:
    (name, first), *others = cells.items()
    for other, cell in others:
        unlike = [
            words
            for part, words in _SHARED.items()
            if cell.definition[part] != first.definition[part]
        ]
        unlike += ["other modes"] if cell.table.modes != first.table.modes else []
        if unlike:
            raise InputError(
                "targets must be cells that differ in their downstream system alone; "
                f"{other} has {unlike[0]} than {name}: build them together."
            )


_SHARED = {
    "dataset": "another data set",
    "modes": "other modes",
    "geometry": "another geometry",
}


def _scored(
    cells: Mapping[str, BuiltCell], names: Sequence[str]
) -> tuple[dict[str, Scored], dict[str, str]]:
    """Each score, from the cell with the most inputs among those that define it; and
    why some scores are absent.
    """
    by_size = sorted(cells.values(), key=lambda cell: -len(cell.table))
    by_name: dict[str, Scored] = {}
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
                by_name[name] = scored
                absent.pop(name, None)
                break
            absent[name] = scored.reason or "no input has it"
    return by_name, absent


def _fitted(
    target: str, cell: BuiltCell, recipes: Sequence[str]
) -> tuple[dict[str, Scored], dict[str, str]]:
    """Scores of a cell's inputs by recipes fitted on its other units, and why some
    recipes are absent.
    """
    by_name: dict[str, Scored] = {}
    absent: dict[str, str] = {}
    for recipe in recipes:
        name = f"{recipe}, out of fold"
        if recipe_by_name(recipe).name not in recipes_for(cell):
            absent[f"{name} on {target}"] = "the recipe does not apply to this cell"
            continue
        try:
            by_name[name] = out_of_fold(cell, recipe)
        except NothingToLearnError as error:
            absent[f"{name} on {target}"] = str(error)
    return by_name, absent


def _rows(
    target: str,
    table: ValueTable,
    scores: Mapping[str, Scored],
    budgets: Sequence[Budget],
    *,
    draws: int,
) -> Iterable[OnTarget]:
    result = _judged(table, scores, budgets, draws=draws)
    for name in (REFERENCES[0], *scores, REFERENCES[1]):
        kind = scores[name].kind if name in scores else "reference"
        coverage = (
            float(scores[name].over(table).covered.mean()) if name in scores else 1.0
        )
        for budget in budgets:
            row = result.row(name, "selection", budget.alpha)
            yield OnTarget(
                name,
                kind,
                target,
                budget.alpha,
                len(table),
                coverage,
                row.ndg,
                row.ndg_lo,
                row.ndg_hi,
            )


def _judged(
    table: ValueTable,
    scores: Mapping[str, Scored],
    budgets: Sequence[Budget],
    *,
    draws: int,
) -> Result:
    with warnings.catch_warnings():
        # No warning if a full mode harms more than it helps: here that is a finding,
        # and the rows show it.
        warnings.simplefilter("ignore", InputWarning)
        aligned = {name: scored.over(table) for name, scored in scores.items()}
        # Not `cells.judgement.judge`: a gap is judged on the inputs that two cells
        # share, which are no cell's table.
        return evaluate(table, aligned, list(budgets), draws=draws, missing="worst")


def _pairs(cells: Mapping[str, BuiltCell]) -> list[tuple[str, str]]:
    """Cells of the same planner and loss, judged by the logged future and by itself."""
    systems = {name: cell.definition["system"] for name, cell in cells.items()}
    pairs = []
    for one, system in systems.items():
        for other, itself in systems.items():
            if _target(system) != "logged" or _target(itself) != "self":
                continue
            if {**system["constants"], "target": "self"} == dict(itself["constants"]):
                pairs.append((one, other))
    return pairs


def _target(system: Mapping[str, object]) -> object:
    """What a learned planner's plan is compared with; None for other systems."""
    learned = any(
        str(system["name"]).removeprefix(name) in MARKS.values() for name in LEARNED
    )
    constants = system["constants"]
    return (
        constants.get("target") if learned and isinstance(constants, Mapping) else None
    )


def _gaps(
    cells: Mapping[str, BuiltCell],
    logged: str,
    itself: str,
    scores: Mapping[str, Scored],
    budget: Budget,
    *,
    draws: int,
) -> Iterable[SelfReference]:
    if not scores:
        return
    tables = _common(cells[logged].listed, cells[itself].listed)
    one, other = (_judged(table, scores, [budget], draws=draws) for table in tables)
    for name in scores:
        row, own = (
            result.row(name, "selection", budget.alpha) for result in (one, other)
        )
        low, high = _gap_interval(one, other, name)
        yield SelfReference(
            *(
                name,
                logged,
                itself,
                budget.alpha,
                len(tables[0]),
                row.ndg,
                own.ndg,
                _gap(row.ndg, own.ndg),
            ),
            *(low, high),
        )


def _gap(logged: float | None, itself: float | None) -> float | None:
    return (
        None
        if logged is None or itself is None or not itself > 0
        else 1 - logged / itself
    )


def _gap_interval(
    one: Result, other: Result, name: str
) -> tuple[float | None, float | None]:
    """The 95 % interval over the draws, the same for both, in which both prizes and the
    divisor are large enough.
    """
    parts = [basis(result) for result in (one, other)]
    draws = parts[0].totals.draws
    samples, usable = [], np.full(len(draws), parts[0].totals.has_intervals)
    for part in parts:
        item = next(item for item in part.judged if item.row.allocator == name)
        if item.gains is None:
            return None, None
        usable &= has_large_prize(part.totals, item.prize[None])[0]
        samples.append(ndg(item.gains.gain, item.prize)[part.totals.drawn])
    usable &= samples[1] > 0
    undefined = np.full(len(draws), np.nan)
    gap = 1 - np.divide(samples[0], samples[1], out=undefined, where=usable)
    bounds = interval_over(gap, draws, scale=0.0)
    if bounds is None:
        return None, None
    return bounds.low, bounds.high


def _common(one: ValueTable, other: ValueTable) -> tuple[ValueTable, ValueTable]:
    """Both tables on the inputs that both have."""
    return one.keep(positions(one.input, other.input) >= 0), other.keep(
        positions(other.input, one.input) >= 0
    )


def _disagreement(cells: Mapping[str, BuiltCell], one: str, other: str) -> Disagreement:
    whole = cells[one].table, cells[other].table
    first, second = _common(*whole)
    a, b = (
        first.decision_values,
        second.decision_values[positions(first.input, second.input)],
    )
    tolerance = max(first.tolerance, second.tolerance)
    signs = sign_disagreement(a, b, tolerance=tolerance)
    return Disagreement(
        first=one,
        second=other,
        inputs=len(first),
        coverage_first=len(first) / len(whole[0]),
        coverage_second=len(first) / len(whole[1]),
        affected_first=int((np.abs(a) > tolerance).sum()),
        affected_second=int((np.abs(b) > tolerance).sum()),
        both=signs.of,
        opposite=signs.count,
        share=known(signs.share),
        rank=known(spearman(a, b)),
    )


def target_tables(analysis: Targets, alpha: float) -> list[Table]:
    """Scores by target, where targets disagree, and self-reference gaps if there are
    any.
    """
    tables = [_on_targets(analysis, alpha), _disagreements(analysis)]
    return tables + ([_gap_table(analysis, alpha)] if analysis.gaps else [])


def curves(analysis: Targets) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The nDG by target, score and budget, where it is defined."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in analysis.rows:
        if row.ndg is not None and row.score != "oracle":
            curves.setdefault(row.target, {}).setdefault(row.score, []).append(
                (row.alpha, row.ndg)
            )
    return curves


def _on_targets(analysis: Targets, alpha: float) -> Table:
    rows = [row for row in analysis.rows if row.alpha == alpha]
    targets = list(dict.fromkeys(row.target for row in rows))
    return declared_table(
        OnTarget,
        sorted(rows, key=lambda row: targets.index(row.target)),
        "One score, several targets",
        notes=(
            f"At {percent(alpha, 0)}, all units. inputs: those that the target judges.",
            *_absent(analysis),
        ),
        order=("target", "score", "kind", "inputs", "coverage", "ndg", "ndg_lo"),
        split=lambda row: row.target,
    )


def _absent(analysis: Targets) -> tuple[str, ...]:
    return tuple(
        f"{score} is left out: {why}" for score, why in analysis.absent.items()
    )


def _disagreements(analysis: Targets) -> Table:
    note = "share: opposite signs where both are affected."
    return declared_table(
        Disagreement, analysis.disagreements, "Where targets disagree", notes=(note,)
    )


def _gap_table(analysis: Targets, alpha: float) -> Table:
    gaps = [gap for gap in analysis.gaps if gap.alpha == alpha]
    return declared_table(
        SelfReference, gaps, f"Self-reference gap at {percent(alpha, 0)}"
    )


def _span(low: float | None, high: float | None) -> str:
    return (
        MISSING if low is None or high is None else f"[{number(low)}, {number(high)}]"
    )


TARGETS = declare(
    __name__,
    shows="Judge one score by several targets",
    paper="cross-target table, self-reference gap",
    example="cells/braking-oracle cells/planner-ade-oracle --figure eta.pdf",
    tables=target_tables,
    by="view",
    whole=True,
    records=lambda targets: targets.rows,
    least=2,
    judges=True,
)
