"""Results of several cells -> one table with a column per cell."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    TableCell,
    mark_of,
    number,
    tabulate,
)
from deepval.judge.results import BudgetKey, Reason, Result, Row

LADDER = "oracle-ladder"
NO_COST, UNPRICED = Reason.NO_COST.text(), "no cost"
UNLISTED = ("never", "all-full", "oracle", LADDER)

Cells = Mapping[str, Mapping[str, Row]]
"""Cell -> allocator -> its row under the budget."""


def overview(
    results: Mapping[str, Result], *, kind: str = "selection", alpha: float = 0.2
) -> Table:
    """NDG of every allocator (rows) in every cell (columns), with a plus if it beats
    random, an asterisk if it loses.

    `mean` is the mean nDG over the cells, if every cell has one. `harm` is the selected
    harm as a share of the all-cheap loss, averaged over the cells, as a multiple of
    random's. `better` and `worse` count the verdicts.
    """
    cells = {}
    labels = []
    for cell, result in results.items():
        budget = _budget(result, kind, alpha)
        rows = [row for row in result.rows if row.budget == budget]
        cells[cell] = {row.allocator: row for row in rows}
        if budget is not None:
            labels.append(budget.label)

    listed: dict[str, list[Row]] = {}
    for rows_by_name in cells.values():
        for name, row in rows_by_name.items():
            if name not in UNLISTED:
                listed.setdefault(name, []).append(row)
    columns = [
        Column("allocator", lambda name: name),
        *(Column(cell, _ndg_in(rows)) for cell, rows in cells.items()),
        Column("mean", lambda name: _mean(listed[name], len(cells))),
        Column("harm", lambda name: number(_harm(name, cells), 2)),
        Column("better", _verdicts("better", listed), rank=2),
        Column("worse", _verdicts("worse", listed), rank=1),
    ]
    # Cells that count and charge alike have one label.
    title = " or ".join(dict.fromkeys(labels)) or BudgetKey(kind, alpha).label
    return tabulate(title, columns, list(listed), notes=_notes(cells, listed))


def _notes(cells: Cells, listed: Mapping[str, Sequence[Row]]) -> list[str]:
    notes = [
        "nDG; +: better than random, asterisk: worse, at 95 %; inf.: cannot run "
        f"within the budget; {MISSING}: undefined there. harm: "
        "as a multiple of random's.",
    ]
    every_row = [row for rows in cells.values() for row in rows.values()]
    if any(row.verdict_words == NO_COST for row in every_row):
        notes.append(
            f"{UNPRICED}: its cost is unknown, so it is not judged under this budget."
        )
    for name, rows in sorted(listed.items()):
        if LADDER in {row.oracle for row in rows}:
            notes.append(f"{name}: nDG of {LADDER}, compared with random-ladder.")
    return notes


def _budget(result: Result, kind: str, alpha: float) -> BudgetKey | None:
    """The result's first budget of the kind and share."""
    for row in result.rows:
        if (row.kind, row.alpha) == (kind, alpha):
            return row.budget
    return None


def _ndg_in(rows: Mapping[str, Row]) -> Callable[[str], str | TableCell]:
    def text(name: str) -> str | TableCell:
        if name not in rows:
            return MISSING
        row = rows[name]
        if row.verdict == "infeasible":
            return "inf."
        if row.verdict_words == NO_COST:
            return UNPRICED
        plus = "+" if row.verdict == "better" else ""
        return TableCell(number(row.ndg, 2) + plus, mark_of(row.verdict))

    return text


def _mean(rows: Sequence[Row], cells: int) -> str:
    values = [row.ndg for row in rows if row.ndg is not None]
    # A mean over some of the cells would look like one over all.
    return number(fmean(values)) if len(values) == cells else MISSING


def _verdicts(word: str, listed: Mapping[str, Sequence[Row]]) -> Callable[[str], str]:
    def text(name: str) -> str:
        if name in ("random", "random-ladder"):
            return ""
        return str(sum(row.verdict == word for row in listed[name]))

    return text


def _harm(name: str, cells: Cells) -> float | None:
    """Mean harm over the cells (shares of the all-cheap loss), as a multiple of
    random's; None if undefined.
    """
    own = []
    random = []
    for rows in cells.values():
        row = rows.get(name)
        base = rows["random"]
        if row is None or row.harm is None or base.harm is None or not row.cheap_loss:
            return None
        own.append(row.harm / row.cheap_loss)
        random.append(base.harm / row.cheap_loss)
    return fmean(own) / fmean(random) if fmean(random) else None
