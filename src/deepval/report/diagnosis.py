"""A diagnosis -> one short table per question, each with a sentence that answers it."""

from collections.abc import Callable, Iterator, Sequence

from deepval.judging.diagnosis import Diagnosis, WidthCheck
from deepval.report.tables import MISSING, Table, TableCell, counted, number, percent

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
