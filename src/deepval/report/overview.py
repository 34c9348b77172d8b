"""Results of several cells -> one table: every allocator's nDG in every cell at one budget, its mean, and its harm."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from deepval.report.tables import MISSING, Mark, Table, TableCell, number
from deepval.results import BudgetKey, Reason, Result, Row

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
