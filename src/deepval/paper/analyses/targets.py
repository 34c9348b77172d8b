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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any

import numpy as np

from deepval.basics.errors import (
    InputError,
    InputWarning,
    NothingToLearnError,
    is_of_machine,
)
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.allocators import recipe_by_name
from deepval.deploy.diagnostics import PLANNING_DIAGNOSTICS
from deepval.deploy.fitting import Scored, out_of_fold, recipes_for, score_on
from deepval.driving.cells.folder import BuiltCell
from deepval.driving.systems.learned import LEARNED, MARKS
from deepval.judge.allowances import LEVELS, Budget, Selection
from deepval.judge.concordance import sign_disagreement, spearman
from deepval.judge.differences import has_large_prize, ndg
from deepval.judge.evaluation import evaluate
from deepval.judge.intervals import interval_over
from deepval.judge.pairs import basis
from deepval.judge.report.figures.gain_figures import across
from deepval.judge.report.text_tables import MISSING, Table, number, percent
from deepval.judge.results import Result, known
from deepval.judge.tables.keys import positions
from deepval.judge.tables.values import ValueTable
from deepval.paper.analysis import Analysis, Option
from deepval.paper.study import Cell
from deepval.paper.tidy import Column, Row, count, only, printed
from deepval.paper.tidy import share as in_percent

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


COLUMNS = (
    Column("score", "The score; `random` and `oracle` are references", heading="score"),
    Column("kind", "deployable, diagnostic or reference", heading="kind"),
    Column("target", "The cell that judges it", heading="target"),
    Column("alpha", "Share of inputs that may be escalated"),
    Column("inputs", "Inputs that the target can judge", heading="inputs", text=count),
    Column(
        "coverage",
        "Share of them that the score covers; the others are ranked last",
        heading="covered",
        text=in_percent,
    ),
    Column("ndg", "nDG; None if undefined", heading="nDG", text=number),
    Column(
        "ndg_lo",
        "Lower end of its 95 % interval over units",
        heading="95 %",
        text_of_row=lambda row: _span(row["ndg_lo"], row["ndg_hi"]),
    ),
    Column("ndg_hi", "Upper end of the interval"),
)
"""One score on one target at one budget, over all units."""


SELF_REFERENCE_COLUMNS = (
    Column("score", "The planning metric", heading="score"),
    Column("logged", "Cell that judges by the logged future", heading="logged"),
    Column("itself", "Cell that judges by the planner itself", heading="itself"),
    Column("alpha", "Share of inputs that may be escalated"),
    Column("inputs", "Inputs that both cells judge", heading="inputs", text=count),
    Column("ndg_logged", "nDG by the logged future", heading="nDG logged", text=number),
    Column(
        "ndg_itself", "nDG by the planner itself", heading="nDG itself", text=number
    ),
    Column("gap", "1 - ndg_logged / ndg_itself", heading="gap", text=number),
    Column(
        "gap_lo",
        "Lower end of its 95 % interval over units",
        heading="95 %",
        text_of_row=lambda row: _span(row["gap_lo"], row["gap_hi"]),
    ),
    Column("gap_hi", "Upper end of the interval"),
)
"""How much of a planning metric's nDG comes from judging the planner by itself: 1 -
nDG(logged) / nDG(itself).

Both are taken on the inputs that both cells judge. The gap has no upper bound; None
if the divisor is not positive.
"""


DISAGREEMENT_COLUMNS = (
    Column("first", "One target", heading="target"),
    Column("second", "The other target", heading="other"),
    Column("inputs", "Inputs that both judge", heading="in common", text=count),
    Column(
        "coverage_first",
        "Share of the first target's inputs that the other judges too",
        heading="of target",
        text=in_percent,
    ),
    Column(
        "coverage_second",
        "Share of the other target's inputs that the first judges too",
        heading="of other",
        text=in_percent,
    ),
    Column(
        "affected_first",
        "Common inputs on which the first is affected",
        heading="affected",
    ),
    Column(
        "affected_second",
        "Common inputs on which the other is affected",
        heading="by other",
    ),
    Column("both", "Inputs on which both are affected", heading="both"),
    Column("opposite", "Inputs of opposite sign among these", heading="opposite"),
    Column("share", "Their share", heading="share", text=in_percent),
    Column(
        "rank",
        "Spearman's correlation of the two decision values",
        heading="rank",
        text=number,
    ),
)
"""Two targets on the inputs that both judge: how often both are affected with
opposite signs.
"""


WHOLE = (
    Column("rows", "Scores on targets (`COLUMNS`)"),
    Column("gaps", "Self-reference gaps (`SELF_REFERENCE_COLUMNS`)"),
    Column("disagreements", "Pairs of targets (`DISAGREEMENT_COLUMNS`)"),
    Column("absent", "Why scores are missing, by score"),
)
"""The analysis: one record of three tables."""


def across_targets(
    cells: Mapping[str, BuiltCell],
    scores: Iterable[str] = SCORES,
    *,
    gates: Iterable[str] = GATES,
    alphas: Sequence[float] = LEVELS,
    draws: int = 1000,
    watch: Watch = unwatched,
) -> Row:
    """Every score judged on every cell, and gates fitted on it out of fold; cells share
    data set, modes, geometry.
    """
    _refuse_others(cells)
    scored, absent = _scored(cells, list(scores))
    recipes = list(gates)
    budgets = [Selection(alpha) for alpha in alphas]
    rows: list[Row] = []
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
    return {
        "rows": tuple(rows),
        "gaps": tuple(gaps),
        "disagreements": tuple(pairs),
        "absent": absent,
    }


def rows(
    cells: Sequence[Cell],
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
) -> Iterator[Row]:
    """Every score judged on every cell at the default budgets and at `alpha`; the
    tables show `alpha`.
    """
    yield across_targets(
        {cell.name: cell.cell for cell in cells},
        scores,
        gates=gates,
        alphas=sorted({*LEVELS, alpha}),
        watch=cells[0].watch,
    )


def figure(rows: Sequence[Row]) -> Any:
    """The figure of nDG by target, score and budget."""
    return across(curves(rows[0]))


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
) -> Iterable[Row]:
    result = _judged(table, scores, budgets, draws=draws)
    for name in (REFERENCES[0], *scores, REFERENCES[1]):
        kind = scores[name].kind if name in scores else "reference"
        coverage = (
            float(scores[name].over(table).covered.mean()) if name in scores else 1.0
        )
        for budget in budgets:
            row = result.row(name, "selection", budget.alpha)
            yield {
                "score": name,
                "kind": kind,
                "target": target,
                "alpha": budget.alpha,
                "inputs": len(table),
                "coverage": coverage,
                "ndg": row.ndg,
                "ndg_lo": row.ndg_lo,
                "ndg_hi": row.ndg_hi,
            }


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
) -> Iterable[Row]:
    if not scores:
        return
    tables = _common(cells[logged].listed, cells[itself].listed)
    one, other = (_judged(table, scores, [budget], draws=draws) for table in tables)
    for name in scores:
        row, own = (
            result.row(name, "selection", budget.alpha) for result in (one, other)
        )
        low, high = _gap_interval(one, other, name)
        yield {
            "score": name,
            "logged": logged,
            "itself": itself,
            "alpha": budget.alpha,
            "inputs": len(tables[0]),
            "ndg_logged": row.ndg,
            "ndg_itself": own.ndg,
            "gap": _gap(row.ndg, own.ndg),
            "gap_lo": low,
            "gap_hi": high,
        }


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


def _disagreement(cells: Mapping[str, BuiltCell], one: str, other: str) -> Row:
    whole = cells[one].table, cells[other].table
    first, second = _common(*whole)
    a, b = (
        first.decision_values,
        second.decision_values[positions(first.input, second.input)],
    )
    tolerance = max(first.tolerance, second.tolerance)
    signs = sign_disagreement(a, b, tolerance=tolerance)
    return {
        "first": one,
        "second": other,
        "inputs": len(first),
        "coverage_first": len(first) / len(whole[0]),
        "coverage_second": len(first) / len(whole[1]),
        "affected_first": int((np.abs(a) > tolerance).sum()),
        "affected_second": int((np.abs(b) > tolerance).sum()),
        "both": signs.of,
        "opposite": signs.count,
        "share": known(signs.share),
        "rank": known(spearman(a, b)),
    }


def target_tables(records: Sequence[Row], alpha: float) -> list[Table]:
    """Scores by target, where targets disagree, and self-reference gaps if there are
    any.
    """
    tables = []
    for analysis in records:
        tables += [_on_targets(analysis, alpha), _disagreements(analysis)]
        if analysis["gaps"]:
            tables.append(_gap_table(analysis, alpha))
    return tables


def curves(analysis: Row) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The nDG by target, score and budget, where it is defined."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in analysis["rows"]:
        if row["ndg"] is not None and row["score"] != "oracle":
            curves.setdefault(row["target"], {}).setdefault(row["score"], []).append(
                (row["alpha"], row["ndg"])
            )
    return curves


def _on_targets(analysis: Row, alpha: float) -> Table:
    rows = [row for row in analysis["rows"] if row["alpha"] == alpha]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    return printed(
        "One score, several targets",
        only(COLUMNS, "target", "score", "kind", "inputs", "coverage", "ndg", "ndg_lo"),
        sorted(rows, key=lambda row: targets.index(row["target"])),
        notes=(
            f"At {percent(alpha, 0)}, all units. inputs: those that the target judges.",
            *_absent(analysis),
        ),
        section=lambda row: row["target"],
    )


def _absent(analysis: Row) -> tuple[str, ...]:
    return tuple(
        f"{score} is left out: {why}" for score, why in analysis["absent"].items()
    )


def _disagreements(analysis: Row) -> Table:
    note = "share: opposite signs where both are affected."
    return printed(
        "Where targets disagree",
        DISAGREEMENT_COLUMNS,
        analysis["disagreements"],
        notes=(note,),
    )


def _gap_table(analysis: Row, alpha: float) -> Table:
    gaps = [gap for gap in analysis["gaps"] if gap["alpha"] == alpha]
    return printed(
        f"Self-reference gap at {percent(alpha, 0)}", SELF_REFERENCE_COLUMNS, gaps
    )


def _span(low: float | None, high: float | None) -> str:
    return (
        MISSING if low is None or high is None else f"[{number(low)}, {number(high)}]"
    )


TARGETS = Analysis(
    name="targets",
    shows="Judge one score by several targets",
    paper="cross-target table, self-reference gap",
    example="cells/braking-oracle cells/planner-ade-oracle --figure eta.pdf",
    tables=target_tables,
    figure=figure,
    by="view",
    whole=True,
    records=lambda targets: targets["rows"],
    least=2,
    judges=True,
    details=(
        "Gain of one score under several targets, where targets disagree, and "
        "self-reference gaps."
    ),
    rows=rows,
    columns=WHOLE,
)
