"""Rows of a result -> the table of verdicts, budget by budget."""

from collections.abc import Callable, Mapping, Sequence

from deepval.judge.bootstrap import LEAVE_OUT_UP_TO
from deepval.judge.pairs import ComparisonRow
from deepval.judge.report.text_tables import (
    Column,
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    of_loss,
    percent,
    reasons,
    tabulate,
)
from deepval.judge.results import FEW_UNITS, Row, Stream

ORACLES = {"oracle": "full", "oracle-ladder": "ladder"}
LADDER = "oracle-ladder"
OF_LADDER = "nDG of ladder"
YARDSTICKS = (
    "oracle 'full': nDG divides by oracle, and the verdict compares with random, over "
    "the full mode only; 'ladder': by oracle-ladder and with random-ladder, over all "
    f"modes. '{OF_LADDER}' divides every gain by oracle-ladder's: "
    "rows of both kinds on one scale."
)
ALL_ROWS = "vs random, all rows"
SECOND, SECOND_BOUNDS = "second opinion", "second 95 %"
EXPLAINED = {
    "nDG": "nDG: normalized decision gain, the share of the oracle's gain",
    "gain": "gain = benefit - harm, over never escalating",
    "vs random": "vs random: gain minus the gain of random",
    "kept": "kept: whether the rate of escalations stayed within the budget",
    "escalated": "escalated: inputs that run the expensive mode",
    SECOND: (
        "second opinion: verdict by wider intervals for few or unequal units "
        "(docs/statistics.md)"
    ),
}
"""Headings that need an explanation below the table."""
MOST_OPPOSED = 3
"""Decided rows up to which notes say how large a unit against them must be."""
WEAK = {
    " on few units": (
        f"on few units: the possible gain comes from fewer than {FEW_UNITS:g} units, "
        "where 95 % intervals covered the truth in 61 % of simulated samples "
        "(docs/statistics.md)."
    ),
    "rests on ": "rests on: without that unit the verdict changes.",
}
"""Words that qualify a verdict -> the explanation of these words."""
IN_LOSS = (
    "Without %: in units of the loss, because the all-cheap loss is not positive or is "
    "too near zero for shares."
)


def verdict_table(rows: Sequence[Row], title: str, *, is_sliced: bool = False) -> Table:
    """The rows of a result, budget by budget; the rows of slices, group by group."""

    def budget(row: Row) -> str:
        return f"{row.slice}, {row.label}" if is_sliced else row.label

    columns = list(COLUMNS)
    if not any(row.versus_random_loss_simultaneous for row in rows):
        columns = [column for column in columns if column.heading != ALL_ROWS]
    if not any(row.second_verdict for row in rows):
        second = (SECOND_BOUNDS, SECOND)
        columns = [column for column in columns if column.heading not in second]
    notes = [*reasons(rows), *_notes(rows)]
    if len({row.oracle for row in rows if row.oracle}) > 1:
        place = [column.heading for column in columns].index("nDG 95 %") + 1
        columns[place:place] = [
            Column("oracle", lambda row: ORACLES.get(row.oracle or "", ""), rank=4),
            Column(OF_LADDER, _of_ladder(rows), rank=4),
        ]
        notes.append(YARDSTICKS)
    return tabulate(
        title, columns, rows, groups=[Column("budget", budget)], notes=notes
    )


def _notes(rows: Sequence[Row]) -> list[str]:
    """What was left out of intervals, and what qualifies verdicts."""
    notes = []
    if any(row.versus_random_unit == "loss" for row in rows):
        notes.append(IN_LOSS)
    left_out = max((row.versus_random_dropped for row in rows), default=0)
    if left_out:
        notes.append(
            f"Up to {left_out} of {rows[0].draws} draws without a positive "
            "all-cheap loss are left out."
        )
    small = max((row.draws_dropped for row in rows), default=0)
    if small:
        notes.append(
            f"Up to {small} of {rows[0].draws} draws are left out of an nDG "
            "interval: in them the oracle's gain is too small."
        )
    words = " ".join(row.verdict_words or "" for row in rows)
    notes += [meaning for sign, meaning in WEAK.items() if sign in words]
    decided = [row for row in rows if row.verdict_words in ("better", "worse")]
    if any(row.units > LEAVE_OUT_UP_TO for row in decided):
        notes.append(
            f"Units were not left out in turn: there are more than {LEAVE_OUT_UP_TO}."
        )
    return notes + _opposing_units(rows)


def _opposing_units(rows: Sequence[Row]) -> list[str]:
    """How large one more unit against a verdict would have to be, for few verdicts."""
    decided = [
        row
        for row in rows
        if row.verdict in ("better", "worse") and row.break_even_unit is not None
    ]
    if len(decided) > MOST_OPPOSED:
        return []
    return [
        f"{row.allocator}, {row.budget.label}: one more unit against it, "
        f"{row.break_even_unit:.2g} times the largest seen, would end *{row.verdict}*; "
        f"{row.cancelling_unit:.2g} times would cancel the sum."
        for row in decided
    ]


def _of_ladder(rows: Sequence[Row]) -> Callable[[Row], str]:
    """A row's gain as a share of that of the best plan over all modes."""
    prizes: Mapping[object, float | None] = {
        (row.slice, row.budget): row.gain for row in rows if row.allocator == LADDER
    }

    def text(row: Row) -> str:
        prize = prizes.get((row.slice, row.budget)) or 0.0
        if not prize > 0 or row.ndg is None or row.gain is None:
            return number(None)
        return number(row.gain / prize)

    return text


# Differences with random: in percent of the all-cheap loss or, bare, in its units.


def _field(row: Row | Stream) -> str:
    return "versus_random_loss" if row.versus_random_unit == "loss" else "versus_random"


def versus_random(row: Row | Stream) -> str:
    """The difference with random."""
    form = number if row.versus_random_unit == "loss" else percent
    return form(row[_field(row)])


def bounds_versus_random(row: Row | Stream, kind: str = "") -> str:
    """Its interval, or another one of this kind."""
    form = number if row.versus_random_unit == "loss" else percent
    name = f"{_field(row)}{kind}"
    return interval(row[f"{name}_lo"], row[f"{name}_hi"], form)


def second_opinion(row: Row | Stream | ComparisonRow) -> str:
    """The verdict of the second opinion; `agrees` if it is the row's own."""
    if row.second_verdict == row.verdict and row.second_verdict:
        return "agrees"
    return row.second_verdict or ""


def _second_bounds(row: Row) -> str:
    return bounds_versus_random(row, "_second") if row.second_verdict else ""


# Columns.


def _name(row: Row) -> TableCell:
    return TableCell(row.name, "better" if row.marked == "better" else "")


def _escalated(row: Row) -> str:
    return "inf." if row.verdict == "infeasible" else number(row.escalated, 1)


def _loss(row: Row) -> float | None:
    """The loss that gains are a share of; None where they are in its units."""
    if row.versus_random_unit == "loss":
        return None
    return row.cheap_loss or None


def _gain_bounds(row: Row) -> str:
    if _loss(row) is None:
        return interval(row.versus_never_loss_lo, row.versus_never_loss_hi)
    return interval(row.versus_never_lo, row.versus_never_hi, percent)


def _ndg(row: Row) -> TableCell:
    return TableCell(number(row.ndg), mark_of(row.marked))


def _verdict(row: Row) -> str:
    """The verdict, and what is better without an allocator: `better, but never is
    better`.
    """
    words = row.verdict_words or row.verdict or ""
    if row.surpassed and row.verdict in ("better", "unresolved"):
        words += f", but {row.surpassed} is better"
    return words


# The gain is benefit - harm, so it goes before them; they and the nDG go last.
COLUMNS = (
    Column("allocator", _name),
    Column("escalated", _escalated, rank=2),
    Column("gain", lambda row: of_loss(row.gain, _loss(row)), rank=8),
    Column("gain 95 %", _gain_bounds, rank=5),
    Column("benefit", lambda row: of_loss(row.benefit, _loss(row)), rank=11),
    Column("harm", lambda row: of_loss(row.harm, _loss(row)), rank=12),
    Column("nDG", _ndg, rank=13),
    Column("nDG 95 %", lambda row: interval(row.ndg_lo, row.ndg_hi), rank=3),
    Column("vs random", versus_random, rank=15),
    Column("vs random 95 %", bounds_versus_random, rank=14),
    Column(ALL_ROWS, lambda row: bounds_versus_random(row, "_simultaneous"), rank=6),
    Column(SECOND_BOUNDS, _second_bounds, rank=1),
    Column(SECOND, second_opinion, rank=7),
    Column("verdict", _verdict),
)
