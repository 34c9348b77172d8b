"""A diagnosis -> its tables, one per question."""

from collections.abc import Callable, Iterator, Sequence

from deepval.judge.diagnosis import Diagnosis, UnitCheck, WidthCheck
from deepval.judge.report.text_tables import (
    MISSING,
    Column,
    Table,
    number,
    percent,
    quantity,
    tabulate,
    tenths,
)

MANY_TIES = 0.05
BUDGET = Column("budget", lambda row: row.budget.label)
ALLOCATOR = Column("allocator", lambda row: row.allocator)


def diagnosis_tables(diagnosis: Diagnosis) -> Iterator[Table]:
    """The tables of a diagnosis, in the order of the questions."""
    yield _budgets(diagnosis)
    if diagnosis.ties:
        yield _ties(diagnosis)
    yield _concentration(diagnosis)
    if diagnosis.widths:
        yield _widths(diagnosis)
    if diagnosis.verdicts:
        yield _verdicts(diagnosis)


def diagnosis_sentence(diagnosis: Diagnosis) -> str:
    """One sentence about the table: inputs, units, and how many inputs escalation helps
    and harms.
    """
    return (
        f"{quantity(diagnosis.inputs, 'input')} in "
        f"{quantity(diagnosis.units, 'unit')}: escalation changes the loss of "
        f"{diagnosis.affected:,}, helps "
        f"{diagnosis.helped:,} and harms {diagnosis.harmed:,}."
    )


def _budgets(diagnosis: Diagnosis) -> Table:
    columns = [
        BUDGET,
        Column("slots", lambda row: f"{row.slots:,}"),
        Column("state", lambda row: row.state),
        Column("must harm", lambda row: "yes" if row.forced else "no"),
        Column("oracle gains", lambda row: percent(row.oracle_share)),
    ]
    helped = f"{diagnosis.helped:,} helped inputs"
    binding = _labels(diagnosis, "binding")
    slack = _labels(diagnosis, "slack")
    notes = []
    if binding:
        notes.append(f"Which of the {helped} come first matters at {binding}.")
    if slack:
        notes.append(
            f"At {slack} there are slots for all {helped}: only the inputs that are "
            "not escalated matter."
        )
    title = "Does the budget bind?"
    return tabulate(title, columns, diagnosis.budgets, notes=[" ".join(notes)])


def _labels(diagnosis: Diagnosis, state: str) -> str:
    found = [row.budget.label for row in diagnosis.budgets if row.state == state]
    return ", ".join(found)


def _ties(diagnosis: Diagnosis) -> Table:
    columns = [
        BUDGET,
        ALLOCATOR,
        Column("ties", lambda row: tenths(row.ties)),
        Column("different scores", lambda row: f"{row.scores:,}"),
    ]
    tied = {
        row.allocator: None for row in diagnosis.ties if (row.ties or 0.0) > MANY_TIES
    }
    note = f"Scores decide: ties fill at most {MANY_TIES:.0%} of any selection."
    if tied:
        note = (
            f"More than {MANY_TIES:.0%} of a selection is "
            f"left to chance with {', '.join(tied)}."
        )
    return tabulate("Do ties decide?", columns, diagnosis.ties, notes=[note])


def _concentration(diagnosis: Diagnosis) -> Table:
    columns = [
        Column("of", lambda row: row.what),
        Column("by", lambda row: row.by),
        Column("holders", lambda row: f"{row.holders:,}", rank=2),
        Column("as over", lambda row: number(row.effective, 1)),
        Column("half in", lambda row: f"{row.half:,}"),
        Column("largest", lambda row: row.top or MISSING),
        Column("its share", lambda row: tenths(row.top_share)),
        Column("Gini", lambda row: number(row.gini, 2), rank=1),
    ]
    note = "Nothing can be gained: no input is helped."
    value = diagnosis.held[0]
    if value.effective is not None:
        note = (
            f"The possible gain comes from about {value.effective:.1f} of "
            f"{quantity(diagnosis.units, 'unit')}. With few units 95 % intervals are "
            "too short: 6 even units cover 82 %, 24 cover 90 % (docs/statistics.md)."
        )
    title = "On how much does it rest?"
    return tabulate(title, columns, diagnosis.held, notes=[note])


def _widths(diagnosis: Diagnosis) -> Table:
    difference = percent(diagnosis.difference)

    def versus_random(row: WidthCheck) -> str:
        return _both(row.half_width, row.predicted, percent)

    def ndg(row: WidthCheck) -> str:
        return _both(row.ndg_half_width, row.ndg_predicted, number)

    def units_needed(row: WidthCheck) -> str:
        return MISSING if row.units_needed is None else f"{row.units_needed:,}"

    columns = [
        BUDGET,
        ALLOCATOR,
        Column("vs random +-", versus_random),
        Column("nDG +-", ndg, rank=1),
        Column(f"units for {difference}", units_needed),
    ]
    note = (
        "Half-widths: of the interval, and predicted from the spread "
        "over draws (1.96 x spread)."
    )
    needed = _units_needed(diagnosis)
    if needed:
        enough = sum(count <= diagnosis.units for count in needed)
        note += (
            f" {quantity(diagnosis.units, 'unit')} "
            f"resolve{'s' * (diagnosis.units == 1)} a difference of "
            f"{difference} of the all-cheap loss in {enough} of "
            f"{len(needed)} rows with 80 % power; the "
            f"most demanding needs {max(needed):,}."
        )
    title = "How wide are intervals, and how many units are enough?"
    return tabulate(title, columns, diagnosis.widths, notes=[note])


def _units_needed(diagnosis: Diagnosis) -> list[int]:
    """The units that rows need; the oracle's row counts only if no allocator has
    one.
    """
    references = ("oracle", "random")
    alone = all(row.allocator in references for row in diagnosis.widths)
    return [
        row.units_needed
        for row in diagnosis.widths
        if row.units_needed is not None and (row.allocator != "oracle" or alone)
    ]


def _both(
    measured: float | None, predicted: float | None, form: Callable[[float | None], str]
) -> str:
    if predicted is None:
        return MISSING
    return f"{form(measured)} ({form(predicted)})"


def _without(row: UnitCheck) -> str:
    return _listed(
        [f"{unit}: {verdict or 'none'}" for unit, verdict in row.without.items()]
    )


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts) or MISSING


def _verdicts(diagnosis: Diagnosis) -> Table:
    columns = [
        BUDGET,
        ALLOCATOR,
        Column("verdict", lambda row: row.verdict),
        Column("without this unit", _without),
        Column("sign turns without", lambda row: _listed(row.turned), rank=1),
    ]
    note = "No single unit decides a verdict."
    hanging = sum(bool(row.without) for row in diagnosis.verdicts)
    if hanging:
        note = (
            f"{hanging} of {len(diagnosis.verdicts)} verdicts change "
            "when one unit is left out."
        )
    title = "Which verdicts does one unit decide?"
    return tabulate(title, columns, diagnosis.verdicts, notes=[note])
