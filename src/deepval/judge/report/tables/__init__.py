"""Result -> its tables, one module each, and the sentences above them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deepval.judge.report.tables.gaps import gap_table
from deepval.judge.report.tables.ladder import ladder_table
from deepval.judge.report.tables.recovery import recovery_table
from deepval.judge.report.tables.setting import setting_sentences, units_judged
from deepval.judge.report.tables.streams import stream_table
from deepval.judge.report.tables.thresholds import threshold_table
from deepval.judge.report.tables.verdicts import (
    ALL_ROWS,
    EXPLAINED,
    IN_LOSS,
    SECOND,
    SECOND_BOUNDS,
    WEAK,
    verdict_table,
)
from deepval.judge.report.text_tables import Table, quantity
from deepval.judge.results import Result

__all__ = [
    "IN_LOSS",
    "SECOND",
    "SECOND_BOUNDS",
    "explanations",
    "headline",
    "result_tables",
    "setting_sentences",
    "tables_of",
    "threshold_table",
    "units_judged",
    "with_units",
]

SYMBOLS = {
    "–": "–: undefined or not measured",
    "inf.": "inf.: cannot run within the budget",
}


def tables_of(result: Result) -> dict[str, Table]:
    """The tables of a result that have rows, by the part of the result that each is
    made of.
    """
    comparisons = quantity(result.comparisons, "comparison")
    title = f"Verdicts ({comparisons} with random)"
    tables = {"rows": verdict_table(result.rows, title)}
    if result.slices:
        title = "Within groups of inputs"
        tables["slices"] = verdict_table(result.slices, title, is_sliced=True)
    if result.streams:
        tables["streams"] = stream_table(result.streams)
    if result.thresholds:
        units = result.provenance.calibration_units
        tables["thresholds"] = threshold_table(
            result.thresholds, calibration_units=units
        )
    if result.recovery:
        tables["recovery"] = recovery_table(result.recovery)
    if any(gap.gap is not None for gap in result.gaps):
        tables["gaps"] = gap_table(result)
    if result.ladder:
        tables["ladder"] = ladder_table(result.ladder)
    units = units_judged(result)
    return {part: with_units(table, units) for part, table in tables.items()}


def result_tables(result: Result) -> Iterator[Table]:
    """The tables of a result, each with the units that it is over."""
    yield from tables_of(result).values()


def with_units(table: Table, units: str) -> Table:
    """The table with the units that it is over in its title, unless that names units
    already.
    """
    if " units" in table.title:
        return table
    return replace(table, title=f"{table.title}, over {units}")


def explanations(table: Table, without: Sequence[str] = ()) -> list[str]:
    """The meaning of a table's signs and headings, unless its notes explain them;
    `without` names headings to skip.
    """
    notes = " ".join(note for note in table.notes if note not in WEAK.values())
    texts = {cell.text for row in table.rows for cell in row}
    marks = {cell.mark for row in table.rows for cell in row}
    signs = []
    for sign, meaning in SYMBOLS.items():
        if sign in texts and f"{sign}:" not in notes:
            signs.append(meaning)
    if "worse" in marks and "asterisk" not in notes:
        signs.append("asterisk: worse, at 95 %")
    if any(text.startswith("[") for text in texts) and "95 %" not in notes:
        signs.append("[low, high]: 95 % interval over units")
    if "vs random" in table.header:
        for name, meaning in EXPLAINED.items():
            if name in table.header and name not in without:
                signs.append(meaning)
        if any("%" in text for text in texts):
            signs.append("%: of the all-cheap loss")
    return [f"{'; '.join(signs)}."] if signs else []


def headline(result: Result) -> Iterator[str]:
    """The effect of escalation in this setting and the method of the intervals, in
    words.
    """
    yield from setting_sentences(result.setting, units_judged(result))
    draws = result.provenance.draws
    method = {
        "drawn": f"{draws.number:,} draws of units, seed {draws.seed}",
        "exact": f"all {draws.number:,} draws of units, enumerated",
        "none": "no draws",
    }[draws.method]
    at_once = sum(
        row.versus_random_loss_simultaneous is not None for row in result.rows
    )
    correction = "no correction for multiple comparisons"
    if at_once:
        correction = (
            f"verdicts have {correction}; '{ALL_ROWS}' covers all {at_once} rows of "
            "the table at once (how often: docs/statistics.md)"
        )
    comparisons = quantity(result.comparisons, "comparison")
    yield f"Intervals: {method}. {comparisons} with random; {correction}."
