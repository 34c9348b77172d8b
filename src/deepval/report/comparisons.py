"""Two allocators compared -> tables of their paired differences, at budgets and over whole gain curves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from deepval.judging.comparison import Comparison
from deepval.judging.diagnosis import Diagnosis, WidthCheck
from deepval.judging.over_cells import PooledComparison
from deepval.report.tables import (
    IN_LOSS,
    MISSING,
    SECOND,
    SECOND_BOUNDS,
    Mark,
    Table,
    TableCell,
    counted,
    interval,
    lines_of,
    mark_of,
    number,
    percent,
)
from deepval.results import Area, BudgetKey, Reason, Result, Row

MANY_TIES = 0.05


def diagnosis_tables(found: Diagnosis) -> Iterator[Table]:
    """The tables of a diagnosis, in the order of the questions."""
    yield _budgets(found)
    if found.ties:
        yield _ties(found)
    yield _held(found)
    if found.widths:
        yield _widths(found)
    if found.verdicts:
        yield _verdicts(found)


def opening(found: Diagnosis) -> str:
    """What is looked at, in a sentence."""
    return (
        f"{counted(found.inputs, 'input')} in {counted(found.units, 'unit')}: escalation changes the loss of "
        f"{found.affected:,}, helps {found.helped:,} and harms {found.harmed:,}."
    )


def _budgets(found: Diagnosis) -> Table:
    rows = [
        (row.budget.label, f"{row.slots:,}", row.state, "yes" if row.forced else "no", percent(row.oracle_share))
        for row in found.budgets
    ]
    slack = [row.budget.label for row in found.budgets if row.state == "slack"]
    binding = [row.budget.label for row in found.budgets if row.state == "binding"]
    said = []
    if binding:
        said.append(f"Which of the {found.helped:,} helped inputs come first matters at {_listed(binding)}.")
    if slack:
        said.append(
            f"There are slots for all {found.helped:,} helped inputs at {_listed(slack)}: there only what is left "
            "alone matters."
        )
    header = ("budget", "slots", "state", "must harm", "oracle gains")
    return _table("Does the budget bind?", header, rows, " ".join(said))


def _ties(found: Diagnosis) -> Table:
    rows = [(row.budget.label, row.allocator, percent(row.ties, 1), f"{row.scores:,}") for row in found.ties]
    tied = list(dict.fromkeys(row.allocator for row in found.ties if (row.ties or 0.0) > MANY_TIES))
    said = (
        f"More than {MANY_TIES:.0%} of a selection is left to chance with {_listed(tied)}."
        if tied
        else f"Scores decide: ties fill at most {MANY_TIES:.0%} of any selection."
    )
    return _table("Do ties decide?", ("budget", "allocator", "ties", "different scores"), rows, said)


def _held(found: Diagnosis) -> Table:
    rows = [
        (
            row.what, row.by, f"{row.holders:,}", number(row.effective, 1), f"{row.half:,}", row.top or MISSING,
            percent(row.top_share, 1), number(row.gini, 2),
        )
        for row in found.held
    ]  # fmt: skip
    value = found.held[0]
    if value.effective is None:
        said = "Nothing can be gained: no input is helped."
    else:
        said = (
            f"The value is spread as over {value.effective:.1f} of {counted(found.units, 'unit')}. The fewer, the "
            "shorter 95 % intervals fall: 6 even units cover 82 %, 24 cover 90 % (docs/statistics.md)."
        )
    header = ("of", "by", "holders", "as over", "half in", "largest", "its share", "Gini")
    return _table("On how much does it rest?", header, rows, said)


def _widths(found: Diagnosis) -> Table:
    rows = [
        (
            row.budget.label, row.allocator, _both(row.half_width, row.predicted, percent),
            _both(row.ndg_half_width, row.ndg_predicted, number),
            MISSING if row.units_needed is None else f"{row.units_needed:,}",
        )
        for row in found.widths
    ]  # fmt: skip
    needed = [row.units_needed for row in found.widths if row.units_needed is not None and _counts(row, found)]
    said = "Half-widths: of the interval, and predicted from the spread over draws (1.96 x spread)."
    if needed:
        enough = sum(number <= found.units for number in needed)
        said += (
            f" {counted(found.units, 'unit')} resolve{'s' * (found.units == 1)} a difference of "
            f"{percent(found.difference)} of the all-cheap loss in {enough} of {len(needed)} rows with 80 % power; the "
            f"most demanding needs {max(needed):,}."
        )
    header = ("budget", "allocator", "vs random +-", "nDG +-", f"units for {percent(found.difference)}")
    return _table("How wide are intervals, and how many units are enough?", header, rows, said)


def _counts(row: WidthCheck, found: Diagnosis) -> bool:
    """Whether a row is an allocator's, or a stand-in's where there is none."""
    return row.allocator != "oracle" or all(other.allocator in ("oracle", "random") for other in found.widths)


def _verdicts(found: Diagnosis) -> Table:
    rows = [
        (
            row.budget.label, row.allocator, row.verdict,
            ", ".join(f"{unit}: {verdict or 'none'}" for unit, verdict in row.without.items()) or MISSING,
            ", ".join(row.turned) or MISSING,
        )
        for row in found.verdicts
    ]  # fmt: skip
    hanging = sum(bool(row.without) for row in found.verdicts)
    said = (
        f"{hanging} of {len(found.verdicts)} verdicts change when one unit is left out."
        if hanging
        else f"No single unit decides any of the {len(found.verdicts)} verdicts."
    )
    header = ("budget", "allocator", "verdict", "without this unit", "sign turns without")
    return _table("Which verdicts does one unit decide?", header, rows, said)


def _both(measured: float | None, predicted: float | None, form: Callable[[float | None], str]) -> str:
    return f"{form(measured)} ({form(predicted)})" if predicted is not None else MISSING


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], said: str) -> Table:
    return Table(title, header, (tuple(tuple(map(TableCell, row)) for row in rows),), (said,))


LADDER = "oracle-ladder"
NO_COST, UNPRICED = Reason.NO_COST.said(), "no cost"
UNLISTED = ("all-full", "oracle", LADDER)


def overview(results: Mapping[str, Result], *, kind: str = "selection", alpha: float = 0.2) -> Table:
    """NDG of every allocator (rows) in every cell (columns), a plus where it beats random, an asterisk where it loses.

    `mean` is the mean nDG over the cells, given where all have one; `harm` the harm that it selects as a share of the
    all-cheap loss, mean over the cells, as a multiple of what random selects; `better` and `worse` count the verdicts.
    """
    found = {label: _rows(result, kind, alpha) for label, result in results.items()}
    names = list(dict.fromkeys(name for rows in found.values() for name in rows if name not in UNLISTED))
    lines = [_line(name, [rows.get(name) for rows in found.values()], list(found.values())) for name in names]
    header = ("allocator", *found, "mean", "harm", "better", "worse")
    notes = (
        "nDG; +: better than random, asterisk: worse, at 95 %; inf.: cannot run within the budget; "
        f"{MISSING}: undefined there. harm: as a multiple of random's.",
    )
    if any(row.verdict_words == NO_COST for rows in found.values() for row in rows.values()):
        notes = (*notes, f"{UNPRICED}: no cost known, so it is not judged under this budget.")
    on_ladder = sorted({row.allocator for rows in found.values() for row in rows.values() if row.oracle == LADDER})
    told = [f"{name}: nDG of {LADDER}, compared with random-ladder." for name in on_ladder if name in names]
    return Table(_label(results, kind, alpha), header, (tuple(lines),), (*notes, *told), ("worse", "better"))


def _label(results: Mapping[str, Result], kind: str, alpha: float) -> str:
    """The budgets of the cells, which are one where all count and charge alike."""
    budgets = [_budget(result, kind, alpha) for result in results.values()]
    return " or ".join(dict.fromkeys(budget.label for budget in budgets if budget)) or BudgetKey(kind, alpha).label


def _budget(result: Result, kind: str, alpha: float) -> BudgetKey | None:
    """The result's first budget of the kind and share."""
    return next((row.budget for row in result.rows if (row.kind, row.alpha) == (kind, alpha)), None)


def _rows(result: Result, kind: str, alpha: float) -> dict[str, Row]:
    budget = _budget(result, kind, alpha)
    return {row.allocator: row for row in result.rows if row.budget == budget}


def _line(name: str, rows: Sequence[Row | None], cells: Sequence[Mapping[str, Row]]) -> tuple[TableCell, ...]:
    values = [None if row is None else row.ndg for row in rows]
    mean = number(fmean(known)) if len(known := [v for v in values if v is not None]) == len(rows) else MISSING
    verdicts = [row.verdict for row in rows if row is not None]
    counts = ["" if name in ("random", "random-ladder") else str(verdicts.count(word)) for word in ("better", "worse")]
    return (
        TableCell(name),
        *map(_shown, rows),
        TableCell(mean),
        TableCell(number(_harm(rows, cells), 2)),
        *map(TableCell, counts),
    )


def _shown(row: Row | None) -> TableCell:
    if row is None:
        return TableCell(MISSING)
    if row.verdict == "infeasible":
        return TableCell("inf.")
    if row.verdict_words == NO_COST:
        return TableCell(UNPRICED)
    mark: Mark = row.verdict if row.verdict in ("better", "worse") else ""
    return TableCell(number(row.ndg, 2) + "+" * (mark == "better"), mark)


def _harm(rows: Sequence[Row | None], cells: Sequence[Mapping[str, Row]]) -> float | None:
    """Harm as a share of the all-cheap loss, mean over the cells, as a multiple of random's; None where undefined."""
    own, random = [], []
    for row, cell in zip(rows, cells, strict=True):
        base = cell["random"]
        if row is None or row.harm is None or base.harm is None or not row.cheap_loss:
            return None
        own.append(row.harm / row.cheap_loss)
        random.append(base.harm / row.cheap_loss)
    return fmean(own) / fmean(random) if fmean(random) else None


def comparison_table(rows: Sequence[Comparison | PooledComparison]) -> Table:
    """Paired differences between two allocators, on one table or as means over cells."""
    header = ["budget", "difference", "95 %", "nDG", SECOND_BOUNDS, SECOND, "verdict"]
    over = any(isinstance(row, PooledComparison) for row in rows)
    if over:
        header[4:6] = ["nDG 95 %", "better / worse in"]
    cells = []
    for row in rows:
        mark = mark_of(row.verdict)
        difference, bounds = percent(row.difference), interval(row.lo, row.hi, percent)
        if isinstance(row, Comparison) and row.unit == "loss":
            difference, bounds = number(row.loss), interval(row.loss_lo, row.loss_hi)
        more = [MISSING if row.ndg_difference is None else f"{row.ndg_difference:+.3f}"]
        if isinstance(row, PooledComparison):
            more += [interval(row.ndg_lo, row.ndg_hi), f"{row.cells_better} / {row.cells_worse} of {row.cells} cells"]
        else:
            more += _second_of(row)
        texts = (row.budget.label, difference, bounds, *more, row.verdict or "")
        cells.append(tuple(TableCell(text, mark if i == 1 else "") for i, text in enumerate(texts)))
    extra = () if over else (SECOND_BOUNDS,)
    return Table(_comparison_title(rows), tuple(header), (tuple(cells),), tuple(_comparison_notes(rows)), extra)


def _second_of(row: Comparison) -> tuple[str, str]:
    """As of a row: the interval of the second opinion, and what it says."""
    if row.second_verdict is None:
        return "", ""
    said = "agrees" if row.second_verdict == row.verdict else row.second_verdict
    if row.unit == "loss":
        return interval(row.second_loss_lo, row.second_loss_hi), said
    return interval(row.second_lo, row.second_hi, percent), said


def _comparison_title(rows: Sequence[Comparison | PooledComparison]) -> str:
    if not rows:
        return "Nothing compared"
    first = rows[0]
    part = "" if first.of == "gain" else f"{first.of}, "
    over = f", mean over {first.cells} cells" if isinstance(first, PooledComparison) else ""
    return f"{first.candidate} against {first.baseline}, {part}shares of the all-cheap loss{over}"


def _comparison_notes(rows: Sequence[Comparison | PooledComparison]) -> Iterator[str]:
    yield from sorted({row.reason for row in rows if row.reason})
    if any(isinstance(row, Comparison) and row.unit == "loss" for row in rows):
        yield IN_LOSS
    if any(row.of == "harm" for row in rows):
        yield "Less harm is better: a difference below 0 is in favour of the candidate."
    left = max((row.dropped for row in rows), default=0)
    if left:
        yield f"Up to {left} of {rows[0].draws} draws without a positive all-cheap loss could not be compared."
    pooled = [row for row in rows if isinstance(row, PooledComparison)]
    small = max((row.ndg_dropped for row in pooled), default=0)
    if small:
        yield f"Up to {small} of {rows[0].draws} draws are left out of an nDG interval (small prize in some cell)."
    missed = max((row.rates_missed or 0 for row in pooled), default=0)
    if missed:
        yield f"In up to {missed} of {pooled[0].cells} cells a causal policy misses its rate."


def area_table(row: Area) -> Table:
    """The area between two gain curves."""
    share = row.unit == "share"
    form = percent if share else number
    found = (row.difference, row.lo, row.hi) if share else (row.loss, row.loss_lo, row.loss_hi)
    header = ("candidate", "baseline", "area between", "95 %", "verdict")
    text = (row.candidate, row.baseline, form(found[0]), interval(found[1], found[2], form), row.verdict or MISSING)
    note = "area between gain curves: mean difference over all shares of inputs, " + (
        "as a share of the all-cheap loss." if share else "in units of the loss."
    )
    return Table("Area between gain curves", header, lines_of([text]), (note,))
