"""Diagnoses, certificates, results of several cells and comparisons of two
allocators -> tables, and a gate.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args
from xml.etree import ElementTree

from deepval.errors import InputError, one_line
from deepval.judging.deployment import PolicyReplay
from deepval.judging.diagnosis import Diagnosis, WidthCheck
from deepval.judging.pairs import ComparisonRow
from deepval.judging.pooled import PooledComparison
from deepval.judging.priced_policies import HarmCertificate
from deepval.report.result_tables import IN_LOSS, SECOND, SECOND_BOUNDS
from deepval.report.text_tables import (
    MISSING,
    Mark,
    Table,
    TableCell,
    interval,
    lines_of,
    mark_of,
    number,
    percent,
    quantity,
)
from deepval.results import Area, BudgetKey, Reason, Result, Row

MANY_TIES = 0.05


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
    rows = [
        (
            row.budget.label,
            f"{row.slots:,}",
            row.state,
            "yes" if row.forced else "no",
            percent(row.oracle_share),
        )
        for row in diagnosis.budgets
    ]
    slack = [row.budget.label for row in diagnosis.budgets if row.state == "slack"]
    binding = [row.budget.label for row in diagnosis.budgets if row.state == "binding"]
    notes = []
    if binding:
        notes.append(
            f"Which of the {diagnosis.helped:,} helped inputs "
            f"come first matters at {', '.join(binding)}."
        )
    if slack:
        notes.append(
            f"At {', '.join(slack)} there are slots for all {diagnosis.helped:,} "
            "helped inputs: only the inputs that are not escalated matter."
        )
    header = ("budget", "slots", "state", "must harm", "oracle gains")
    return _table("Does the budget bind?", header, rows, " ".join(notes))


def _ties(diagnosis: Diagnosis) -> Table:
    rows = [
        (row.budget.label, row.allocator, percent(row.ties, 1), f"{row.scores:,}")
        for row in diagnosis.ties
    ]
    tied = list(
        dict.fromkeys(
            row.allocator for row in diagnosis.ties if (row.ties or 0.0) > MANY_TIES
        )
    )
    note = (
        (
            f"More than {MANY_TIES:.0%} of a selection is "
            f"left to chance with {', '.join(tied)}."
        )
        if tied
        else f"Scores decide: ties fill at most {MANY_TIES:.0%} of any selection."
    )
    return _table(
        "Do ties decide?",
        ("budget", "allocator", "ties", "different scores"),
        rows,
        note,
    )


def _concentration(diagnosis: Diagnosis) -> Table:
    rows = [
        (
            row.what,
            row.by,
            f"{row.holders:,}",
            number(row.effective, 1),
            f"{row.half:,}",
            row.top or MISSING,
            percent(row.top_share, 1),
            number(row.gini, 2),
        )
        for row in diagnosis.held
    ]
    value = diagnosis.held[0]
    if value.effective is None:
        note = "Nothing can be gained: no input is helped."
    else:
        note = (
            f"The possible gain comes from about {value.effective:.1f} of "
            f"{quantity(diagnosis.units, 'unit')}. With few units 95 % intervals are "
            "too short: 6 even units cover 82 %, 24 cover 90 % (docs/statistics.md)."
        )
    header = (
        "of",
        "by",
        "holders",
        "as over",
        "half in",
        "largest",
        "its share",
        "Gini",
    )
    return _table("On how much does it rest?", header, rows, note)


def _widths(diagnosis: Diagnosis) -> Table:
    rows = [
        (
            row.budget.label,
            row.allocator,
            _both(row.half_width, row.predicted, percent),
            _both(row.ndg_half_width, row.ndg_predicted, number),
            MISSING if row.units_needed is None else f"{row.units_needed:,}",
        )
        for row in diagnosis.widths
    ]
    needed = [
        row.units_needed
        for row in diagnosis.widths
        if row.units_needed is not None and _counts(row, diagnosis)
    ]
    note = (
        "Half-widths: of the interval, and predicted from the spread "
        "over draws (1.96 x spread)."
    )
    if needed:
        enough = sum(count <= diagnosis.units for count in needed)
        note += (
            f" {quantity(diagnosis.units, 'unit')} "
            f"resolve{'s' * (diagnosis.units == 1)} a difference of "
            f"{percent(diagnosis.difference)} of the all-cheap loss in {enough} of "
            f"{len(needed)} rows with 80 % power; the "
            f"most demanding needs {max(needed):,}."
        )
    header = (
        "budget",
        "allocator",
        "vs random +-",
        "nDG +-",
        f"units for {percent(diagnosis.difference)}",
    )
    return _table(
        "How wide are intervals, and how many units are enough?", header, rows, note
    )


def _counts(row: WidthCheck, diagnosis: Diagnosis) -> bool:
    """Whether a row counts towards the units needed: the oracle's row counts only if no
    allocator has one.
    """
    return row.allocator != "oracle" or all(
        other.allocator in ("oracle", "random") for other in diagnosis.widths
    )


def _verdicts(diagnosis: Diagnosis) -> Table:
    rows = [
        (
            row.budget.label,
            row.allocator,
            row.verdict,
            ", ".join(
                f"{unit}: {verdict or 'none'}" for unit, verdict in row.without.items()
            )
            or MISSING,
            ", ".join(row.turned) or MISSING,
        )
        for row in diagnosis.verdicts
    ]
    hanging = sum(bool(row.without) for row in diagnosis.verdicts)
    note = (
        (
            f"{hanging} of {len(diagnosis.verdicts)} verdicts change "
            "when one unit is left out."
        )
        if hanging
        else "No single unit decides a verdict."
    )
    header = (
        "budget",
        "allocator",
        "verdict",
        "without this unit",
        "sign turns without",
    )
    return _table("Which verdicts does one unit decide?", header, rows, note)


def _both(
    measured: float | None, predicted: float | None, form: Callable[[float | None], str]
) -> str:
    return f"{form(measured)} ({form(predicted)})" if predicted is not None else MISSING


def _table(
    title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], note: str
) -> Table:
    return Table(title, header, lines_of(rows), (note,))


LADDER = "oracle-ladder"
NO_COST, UNPRICED = Reason.NO_COST.text(), "no cost"
UNLISTED = ("never", "all-full", "oracle", LADDER)


def certificate_table(
    certified: HarmCertificate, replays: Sequence[PolicyReplay]
) -> Table:
    """The harm of the certified and of the plain threshold (the two replays), and the
    price of certainty.
    """
    own, plain = replays
    rows = [
        (name, percent(of.rate, 1), number(of.gain), percent(harm))
        for name, of, harm in (
            ("certified", own, certified.harm),
            ("plain", plain, certified.plain_harm),
        )
    ]
    least = (
        "any threshold"
        if certified.lowest is None
        else f"thresholds from {certified.lowest:.6g}"
    )
    most, units = percent(certified.bound), f"{certified.units:,}"
    notes = [
        f"A new unit like these {units} loses on average at most "
        f"{percent(certified.at_most)} of its all-cheap loss by escalations that "
        f"harm, of which at most {most} of a unit's loss count: (sum of the harms + "
        f"{most}) / ({units} + 1) = {percent(certified.figure)}.",
        f"Not counted here: {percent(certified.clipped_share, 1)} of the harm, in "
        f"{quantity(certified.clipped_units, 'unit')}. The chance that harm takes "
        f"{most} or more of a new unit's "
        f"loss is at most {percent(certified.at_most / certified.bound, 1)}.",
        f"Price of the certificate: rate {100 * (own.rate - plain.rate):+.1f} points, "
        f"gain {own.gain - plain.gain:+.3f}. Without "
        f"a budget, {least} would be certified.",
    ]
    if not own.rate:
        notes.append(
            "No calibration input is escalated: allow more harm, "
            "or calibrate on more units."
        )
    header = ("threshold", "rate", "gain", "harm per unit")
    return Table("Harm on the calibration units", header, lines_of(rows), tuple(notes))


def overview(
    results: Mapping[str, Result], *, kind: str = "selection", alpha: float = 0.2
) -> Table:
    """NDG of every allocator (rows) in every cell (columns), with a plus if it beats
    random, an asterisk if it loses.

    `mean` is the mean nDG over the cells, if every cell has one. `harm` is the selected
    harm as a share of the all-cheap loss, averaged over the cells, as a multiple of
    random's. `better` and `worse` count the verdicts.
    """
    rows_by_cell = {
        label: _rows(result, kind, alpha) for label, result in results.items()
    }
    names = list(
        dict.fromkeys(
            name
            for rows in rows_by_cell.values()
            for name in rows
            if name not in UNLISTED
        )
    )
    lines = [
        _line(
            name,
            [rows.get(name) for rows in rows_by_cell.values()],
            list(rows_by_cell.values()),
        )
        for name in names
    ]
    header = ("allocator", *rows_by_cell, "mean", "harm", "better", "worse")
    notes = (
        "nDG; +: better than random, asterisk: worse, at 95 %; inf.: cannot run "
        f"within the budget; {MISSING}: undefined there. harm: "
        "as a multiple of random's.",
    )
    if any(
        row.verdict_words == NO_COST
        for rows in rows_by_cell.values()
        for row in rows.values()
    ):
        notes = (
            *notes,
            f"{UNPRICED}: its cost is unknown, so it is not judged under this budget.",
        )
    on_ladder = sorted(
        {
            row.allocator
            for rows in rows_by_cell.values()
            for row in rows.values()
            if row.oracle == LADDER
        }
    )
    ladder_notes = [
        f"{name}: nDG of {LADDER}, compared with random-ladder."
        for name in on_ladder
        if name in names
    ]
    return Table(
        _label(results, kind, alpha),
        header,
        (tuple(lines),),
        (*notes, *ladder_notes),
        ("worse", "better"),
    )


def _label(results: Mapping[str, Result], kind: str, alpha: float) -> str:
    """The labels of the cells' budgets; one label if all cells count and charge
    alike.
    """
    budgets = [_budget(result, kind, alpha) for result in results.values()]
    return (
        " or ".join(dict.fromkeys(budget.label for budget in budgets if budget))
        or BudgetKey(kind, alpha).label
    )


def _budget(result: Result, kind: str, alpha: float) -> BudgetKey | None:
    """The result's first budget of the kind and share."""
    return next(
        (row.budget for row in result.rows if (row.kind, row.alpha) == (kind, alpha)),
        None,
    )


def _rows(result: Result, kind: str, alpha: float) -> dict[str, Row]:
    budget = _budget(result, kind, alpha)
    return {row.allocator: row for row in result.rows if row.budget == budget}


def _line(
    name: str, rows: Sequence[Row | None], cells: Sequence[Mapping[str, Row]]
) -> tuple[TableCell, ...]:
    values = [None if row is None else row.ndg for row in rows]
    mean = (
        number(fmean(defined))
        if len(defined := [v for v in values if v is not None]) == len(rows)
        else MISSING
    )
    verdicts = [row.verdict for row in rows if row is not None]
    counts = [
        "" if name in ("random", "random-ladder") else str(verdicts.count(word))
        for word in ("better", "worse")
    ]
    return (
        TableCell(name),
        *map(_ndg_cell, rows),
        TableCell(mean),
        TableCell(number(_harm(rows, cells), 2)),
        *map(TableCell, counts),
    )


def _ndg_cell(row: Row | None) -> TableCell:
    if row is None:
        return TableCell(MISSING)
    if row.verdict == "infeasible":
        return TableCell("inf.")
    if row.verdict_words == NO_COST:
        return TableCell(UNPRICED)
    mark: Mark = row.verdict if row.verdict in ("better", "worse") else ""
    return TableCell(number(row.ndg, 2) + "+" * (mark == "better"), mark)


def _harm(
    rows: Sequence[Row | None], cells: Sequence[Mapping[str, Row]]
) -> float | None:
    """Mean harm over the cells (shares of the all-cheap loss), as a multiple of
    random's; None if undefined.
    """
    own, random = [], []
    for row, cell in zip(rows, cells, strict=True):
        base = cell["random"]
        if row is None or row.harm is None or base.harm is None or not row.cheap_loss:
            return None
        own.append(row.harm / row.cheap_loss)
        random.append(base.harm / row.cheap_loss)
    return fmean(own) / fmean(random) if fmean(random) else None


def comparison_table(
    rows: Sequence[ComparisonRow | PooledComparison], judged: Sequence[Row] = ()
) -> Table:
    """Paired differences between two allocators, on one value table or as means over
    cells.

    A note names those of the `judged` rows that are not to be run.
    """
    header = ["budget", "difference", "95 %", "nDG", SECOND_BOUNDS, SECOND, "verdict"]
    over = any(isinstance(row, PooledComparison) for row in rows)
    if over:
        header[4:6] = ["nDG 95 %", "better / worse in"]
    cells = []
    for row in rows:
        mark = mark_of(row.verdict)
        difference, bounds = percent(row.difference), interval(row.lo, row.hi, percent)
        if isinstance(row, ComparisonRow) and row.unit == "loss":
            difference, bounds = number(row.loss), interval(row.loss_lo, row.loss_hi)
        more = [MISSING if row.ndg_difference is None else f"{row.ndg_difference:+.3f}"]
        if isinstance(row, PooledComparison):
            more += [
                interval(row.ndg_lo, row.ndg_hi),
                f"{row.cells_better} / {row.cells_worse} of {row.cells} cells",
            ]
        else:
            more += _second_of(row)
        texts = (row.budget.label, difference, bounds, *more, row.verdict or "")
        cells.append(
            tuple(
                TableCell(text, mark if i == 1 else "") for i, text in enumerate(texts)
            )
        )
    extra = () if over else (SECOND_BOUNDS,)
    beaten = [
        f"{row.label}: do not run {row.name}: {row.lead_words or row.reason} against "
        "the best blind choice."
        for row in judged
        if row.answer == "do not run"
    ]
    notes = (*_comparison_notes(rows), *dict.fromkeys(beaten))
    return Table(_comparison_title(rows), tuple(header), (tuple(cells),), notes, extra)


def _second_of(row: ComparisonRow) -> tuple[str, str]:
    """The interval of the second opinion, and its verdict (`agrees` if it is the row's
    own).
    """
    if row.second_verdict is None:
        return "", ""
    opinion = "agrees" if row.second_verdict == row.verdict else row.second_verdict
    if row.unit == "loss":
        return interval(row.second_loss_lo, row.second_loss_hi), opinion
    return interval(row.second_lo, row.second_hi, percent), opinion


def _comparison_title(rows: Sequence[ComparisonRow | PooledComparison]) -> str:
    if not rows:
        return "Nothing compared"
    first = rows[0]
    part = "" if first.of == "gain" else f"{first.of}, "
    over = (
        f", mean over {quantity(first.cells, 'cell')}"
        if isinstance(first, PooledComparison)
        else ""
    )
    return (
        f"{first.candidate} against {first.baseline}, {part}shares "
        f"of the all-cheap loss{over}"
    )


def _comparison_notes(
    rows: Sequence[ComparisonRow | PooledComparison],
) -> Iterator[str]:
    yield from sorted({row.reason for row in rows if row.reason})
    if any(isinstance(row, ComparisonRow) and row.unit == "loss" for row in rows):
        yield IN_LOSS
    if any(row.of == "harm" for row in rows):
        yield "Less harm is better: a difference below 0 favours the candidate."
    left = max((row.dropped for row in rows), default=0)
    if left:
        yield (
            f"Up to {left} of {rows[0].draws} draws without a positive all-cheap loss "
            "could not be compared."
        )
    pooled = [row for row in rows if isinstance(row, PooledComparison)]
    small = max((row.ndg_dropped for row in pooled), default=0)
    if small:
        yield (
            f"Up to {small} of {rows[0].draws} draws are left out of an nDG interval: "
            "in some cell the oracle's gain is too small."
        )
    missed = max((row.rates_missed or 0 for row in pooled), default=0)
    if missed:
        yield (
            f"In up to {missed} of {pooled[0].cells} cells a causal "
            "policy misses its rate."
        )


def area_table(row: Area) -> Table:
    """The area between two gain curves."""
    share = row.unit == "share"
    form = percent if share else number
    bounds = (
        (row.difference, row.lo, row.hi)
        if share
        else (row.loss, row.loss_lo, row.loss_hi)
    )
    header = ("candidate", "baseline", "area between", "95 %", "verdict")
    text = (
        row.candidate,
        row.baseline,
        form(bounds[0]),
        interval(bounds[1], bounds[2], form),
        row.verdict or MISSING,
    )
    note = "area between gain curves: mean difference over all shares of inputs, " + (
        "as a share of the all-cheap loss." if share else "in units of the loss."
    )
    return Table("Area between gain curves", header, lines_of([text]), (note,))


AnyComparison = ComparisonRow | PooledComparison | Area
GateName = Literal["worse", "not-better"]
GATES: tuple[str, ...] = get_args(GateName)
"""When a gate fails: the candidate is worse, or is not better."""


@dataclass(frozen=True)
class Gate:
    """A candidate that must not be worse than a baseline (or must be better), under
    every budget that was compared.

    A candidate that cannot pay for itself fails. A comparison without a verdict neither
    passes nor fails, unless the candidate must be better.

    Attributes:
        name: When the gate fails: `worse` or `not-better`.
        rows: The comparisons, at least one of them with a verdict.
    """

    name: str
    rows: Sequence[AnyComparison]

    def __post_init__(self) -> None:
        if all(row.verdict is None for row in self.rows):
            reason = (
                self.rows[0].reason if self.rows else "the two have no budget in common"
            )
            raise InputError(f"--fail-if needs a verdict; there is none: {reason}.")

    @property
    def failures(self) -> list[AnyComparison]:
        """The comparisons that fail."""
        return [row for row in self.rows if self._outcome(row) == "failure"]

    def _outcome(self, row: AnyComparison) -> str:
        """The name of the element that reports a comparison in JUnit: failure, skipped
        or system-out.
        """
        if row.verdict in ("worse", "infeasible") or (
            self.name == "not-better" and row.verdict != "better"
        ):
            return "failure"
        return "skipped" if row.verdict is None else "system-out"

    @property
    def sentence(self) -> str:
        """The outcome in words, with the difference and its interval for every
        failure.
        """
        candidate, baseline = self.rows[0].candidate, self.rows[0].baseline
        if self.failures:
            where = ", ".join(
                f"{_budget_label(row)} ({_numbers(row)})" for row in self.failures
            )
            return (
                f"{candidate} is "
                f"{self.name.replace('-', ' ')} than {baseline} at {where}."
            )
        return (
            f"{candidate} is {'not worse' if self.name == 'worse' else 'better'} "
            f"than {baseline} at "
        ) + (f"{', '.join(map(_budget_label, self.rows))}.")

    def junit(self) -> str:
        """The outcome as JUnit XML, one test case per budget."""
        outcomes = [self._outcome(row) for row in self.rows]
        counts = {
            "tests": len(self.rows),
            "failures": outcomes.count("failure"),
            "skipped": outcomes.count("skipped"),
        }
        numbers = {name: str(count) for name, count in (counts | {"errors": 0}).items()}
        root = ElementTree.Element("testsuites", numbers)
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": "deepval compare"} | numbers
        )
        for row, outcome in zip(self.rows, outcomes, strict=True):
            names = {
                "classname": one_line(f"{row.candidate} against {row.baseline}"),
                "name": _budget_label(row),
            }
            text = one_line(_numbers(row))
            case = ElementTree.SubElement(suite, "testcase", names)
            message = {} if outcome == "system-out" else {"message": text}
            ElementTree.SubElement(case, outcome, message).text = text
        ElementTree.indent(root)
        return (
            ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
        )


def _budget_label(row: AnyComparison) -> str:
    return "all shares" if isinstance(row, Area) else row.budget.label


def _numbers(row: AnyComparison) -> str:
    """The verdict, and the difference with its interval, or the reason why there is
    none.
    """
    verdict = row.verdict or "no verdict"
    if row.difference is None and (
        isinstance(row, PooledComparison) or row.loss is None
    ):
        return f"{verdict}: {row.reason}"
    of = "" if isinstance(row, Area) or row.of == "gain" else f" (in {row.of})"
    if not isinstance(row, PooledComparison) and row.unit == "loss":
        bounds, text = (
            interval(row.loss_lo, row.loss_hi),
            f"{number(row.loss)} in units of the loss{of}",
        )
    else:
        bounds, text = (
            interval(row.lo, row.hi, percent),
            f"{percent(row.difference)} of the all-cheap loss{of}",
        )
    return f"{verdict}: {text}" + (f", 95 % interval {bounds}" if bounds else "")
