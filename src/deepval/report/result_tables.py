"""Result -> its tables, and the sentences above and below them.

Tables: verdicts, slices, streams, thresholds, recovered gap, gap to the
oracle, ladder. Sentences above: the effect of escalation in this setting, and the
method of the intervals; below: the verdicts in words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from deepval.errors import few
from deepval.judging.bootstrap import LEAVE_OUT_UP_TO
from deepval.report.text_tables import (
    MISSING,
    Table,
    TableCell,
    almost_zero,
    cost,
    interval,
    lines_of,
    mark_of,
    number,
    percent,
    quantity,
)
from deepval.results import (
    FEW_UNITS,
    UNITS,
    Recovery,
    Result,
    Row,
    Setting,
    Stream,
    Threshold,
)

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
GAIN_BOUNDS = "gain 95 %"
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
SYMBOLS = {
    "–": "–: undefined or not measured",
    "inf.": "inf.: cannot run within the budget",
}
WEAK = {
    " on few units": (
        f"on few units: the possible gain comes from fewer than {FEW_UNITS:g} units, "
        "where 95 % intervals covered the truth in 61 % of simulated samples "
        "(docs/statistics.md)."
    ),
    "rests on ": "rests on: without that unit the verdict changes.",
}
"""Words that qualify a verdict -> the explanation of these words."""
NEW_UNITS = (
    "The 95 % prediction interval is for the rate on equally many new units "
    "(docs/statistics.md, Rates on new units)."
)
IN_LOSS = (
    "Without %: in units of the loss, because the all-cheap loss is not positive or is "
    "too near zero for shares."
)


def result_tables(result: Result) -> Iterator[Table]:
    """The tables of a result, each with the units that it is over; tables without rows
    are left out.
    """
    return (with_units(table, units_judged(result)) for table in _tables(result))


def _tables(result: Result) -> Iterator[Table]:
    yield verdict_table(
        result.rows,
        f"Verdicts ({quantity(result.comparisons, 'comparison')} with random)",
    )
    if result.slices:
        yield verdict_table(result.slices, "Within groups of inputs", sliced=True)
    if result.streams:
        yield _streams(result.streams)
    if result.thresholds:
        yield threshold_table(
            result.thresholds, calibration_units=result.provenance.calibration_units
        )
    if result.recovery:
        yield recovery_table(result.recovery)
    if any(gap.gap is not None for gap in result.gaps):
        yield _gaps(result)
    if result.ladder:
        yield _ladder(result)


def verdict_table(rows: Sequence[Row], title: str, *, sliced: bool = False) -> Table:
    """The rows of a result, budget by budget; the rows of slices, group by group."""
    header = (
        "budget",
        "allocator",
        "escalated",
        "gain",
        GAIN_BOUNDS,
        "benefit",
        "harm",
        "nDG",
        "nDG 95 %",
        "vs random",
        "vs random 95 %",
        "verdict",
    )
    every = any(row.versus_random_loss_simultaneous_lo is not None for row in rows)
    second = any(row.second_verdict for row in rows)
    header = (
        *header[:-1],
        *[ALL_ROWS] * every,
        *[SECOND_BOUNDS, SECOND] * second,
        header[-1],
    )
    notes = sorted({f"{row.name}: {row.reason}." for row in rows if row.reason})
    if any(row.versus_random_unit == "loss" for row in rows):
        notes.append(IN_LOSS)
    left = max((row.versus_random_dropped for row in rows), default=0)
    if left:
        notes.append(
            f"Up to {left} of {rows[0].draws} draws without a positive "
            "all-cheap loss are left out."
        )
    dropped = max((row.draws_dropped for row in rows), default=0)
    if dropped:
        notes.append(
            f"Up to {dropped} of {rows[0].draws} draws are left out of an nDG "
            "interval: in them the oracle's gain is too small."
        )
    sections = []
    for (label, budget), members in groupby(
        rows, key=lambda row: (row.slice, row.label)
    ):
        first = f"{label}, {budget}" if sliced else budget
        lines = (
            _verdict(row, first if i == 0 else "", every=every, second=second)
            for i, row in enumerate(members)
        )
        sections.append(tuple(lines))
    qualified = " ".join(row.verdict_words or "" for row in rows)
    notes += [meaning for sign, meaning in WEAK.items() if sign in qualified]
    if any(
        row.units > LEAVE_OUT_UP_TO and row.verdict_words in ("better", "worse")
        for row in rows
    ):
        notes.append(
            f"Units were not left out in turn: there are more than {LEAVE_OUT_UP_TO}."
        )
    extra = (
        SECOND_BOUNDS,
        "escalated",
        "nDG 95 %",
        GAIN_BOUNDS,
        "benefit",
        "harm",
        "nDG",
        SECOND,
        "vs random 95 %",
    )
    if len({row.oracle for row in rows if row.oracle}) < 2:
        return Table(title, header, tuple(sections), tuple(notes), extra)
    table = Table(
        title,
        header,
        tuple(sections),
        (*notes, YARDSTICKS),
        (*extra[:3], OF_LADDER, *extra[3:]),
    )
    table = table.with_column(
        "nDG 95 %", "oracle", [ORACLES.get(row.oracle or "", "") for row in rows]
    )
    return table.with_column("oracle", OF_LADDER, list(_of_ladder(rows)))


def _of_ladder(rows: Sequence[Row]) -> Iterator[str]:
    """Every row's gain as a share of the gain of the best plan over all modes under the
    same budget.
    """
    prizes = {
        (row.slice, row.budget): row.gain for row in rows if row.allocator == LADDER
    }
    for row in rows:
        prize = prizes.get((row.slice, row.budget))
        yield number(
            row.gain / prize
            if prize and prize > 0 and row.ndg is not None and row.gain is not None
            else None
        )


def explanations(table: Table, without: Sequence[str] = ()) -> list[str]:
    """The meaning of a table's signs and headings, unless its notes explain them;
    `without` names headings to skip.
    """
    notes = " ".join(note for note in table.notes if note not in WEAK.values())
    texts = {cell.text for section in table.sections for row in section for cell in row}
    marks = {cell.mark for section in table.sections for row in section for cell in row}
    signs = [
        meaning
        for sign, meaning in SYMBOLS.items()
        if sign in texts and f"{sign}:" not in notes
    ]
    if "worse" in marks and "asterisk" not in notes:
        signs.append("asterisk: worse, at 95 %")
    if any(text.startswith("[") for text in texts) and "95 %" not in notes:
        signs.append("[low, high]: 95 % interval over units")
    if "vs random" in table.header:
        signs += [
            meaning
            for name, meaning in EXPLAINED.items()
            if name in table.header and name not in without
        ]
        if any("%" in text for text in texts):
            signs.append("%: of the all-cheap loss")
    return [f"{'; '.join(signs)}."] if signs else []


def _versus_random(row: Row | Stream, *, every: bool = False) -> dict[str, str]:
    """The difference with random, its intervals and the second opinion on it, by
    heading.

    Numbers are in percent of the all-cheap loss or, bare, in units of the loss. The
    interval for `every` row holds for all rows at once. The second opinion is `agrees`
    if it is the row's own verdict.
    """
    field, form = (
        ("versus_random_loss", number)
        if row.versus_random_unit == "loss"
        else ("versus_random", percent)
    )
    kinds = {"vs random 95 %": "", SECOND_BOUNDS: "_second"} | (
        {ALL_ROWS: "_simultaneous"} if every else {}
    )
    texts = {
        name: interval(
            getattr(row, f"{field}{kind}_lo"), getattr(row, f"{field}{kind}_hi"), form
        )
        for name, kind in kinds.items()
    }
    opinion = "agrees" if row.second_verdict == row.verdict else row.second_verdict
    texts |= {"vs random": form(getattr(row, field)), SECOND: opinion or ""}
    return texts if row.second_verdict else texts | {SECOND: "", SECOND_BOUNDS: ""}


def of_loss(value: float | None, loss: float | None) -> str:
    """A value in percent of a loss; the plain number without a loss."""
    return number(value) if loss is None or value is None else percent(value / loss)


def _verdict(
    row: Row, budget: str, *, every: bool, second: bool
) -> tuple[TableCell, ...]:
    mark = mark_of(row.marked)
    compared = _versus_random(row, every=every)
    headings = (
        "vs random",
        "vs random 95 %",
        *[ALL_ROWS] * every,
        *[SECOND_BOUNDS, SECOND] * second,
    )
    loss = (row.cheap_loss or None) if row.versus_random_unit == "share" else None
    return (
        TableCell(budget),
        TableCell(row.name, mark if mark == "better" else ""),
        TableCell("inf." if row.verdict == "infeasible" else number(row.escalated, 1)),
        TableCell(of_loss(row.gain, loss)),
        TableCell(interval(row.versus_never_loss_lo, row.versus_never_loss_hi))
        if loss is None
        else TableCell(interval(row.versus_never_lo, row.versus_never_hi, percent)),
        TableCell(of_loss(row.benefit, loss)),
        TableCell(of_loss(row.harm, loss)),
        TableCell(number(row.ndg), mark),
        TableCell(interval(row.ndg_lo, row.ndg_hi)),
        *(TableCell(compared[name]) for name in headings),
        TableCell((row.verdict_words or row.verdict or "") + better_without(row)),
    )


def better_without(row: Row) -> str:
    """What weakens a verdict that is not worse: `, but never is better`; empty if
    neither never nor always is.
    """
    return (
        f", but {row.surpassed} is better"
        if row.surpassed and row.verdict in ("better", "unresolved")
        else ""
    )


def _streams(streams: Sequence[Stream]) -> Table:
    """The rows of policies in time order."""
    header = (
        "budget",
        "allocator",
        "policy",
        "rate",
        *AGAINST_RANKING,
        "vs random",
        "vs random 95 %",
        SECOND,
        "verdict",
    )
    sections = []
    for (budget, _), members in groupby(
        streams, key=lambda row: (row.budget.label, row.allocator)
    ):
        rows = []
        for i, row in enumerate(members):
            compared = _versus_random(row)
            cells = (
                budget if i == 0 else "",
                row.allocator if i == 0 else "",
                row.policy,
                percent(row.rate, 1),
                *(column(row) for column in AGAINST_RANKING.values()),
                compared["vs random"],
                compared["vs random 95 %"],
                compared[SECOND],
                row.verdict_words or row.verdict or "",
            )
            rows.append(tuple(TableCell(text) for text in cells))
        sections.append(tuple(rows))
    notes = [CALIBRATED]
    for what, field in (
        ("ranking", "versus_ranking_dropped"),
        ("random", "versus_random_dropped"),
    ):
        dropped = max(row[field] for row in streams)
        if dropped:
            notes.append(
                f"Up to {dropped} of {streams[0].draws} draws are left out of an "
                f"interval vs {what}."
            )
    extra = tuple(AGAINST_RANKING)[::-1]
    return Table("Streaming", header, tuple(sections), tuple(notes), extra)


AGAINST_RANKING: Mapping[str, Callable[[Stream], str]] = {
    "kept": lambda row: (
        "" if row.rate_missed is None else "missed" if row.rate_missed else "kept"
    ),
    "nDG": lambda row: number(row.ndg),
    "vs ranking": lambda row: number(row.versus_ranking),
    "vs ranking 95 %": lambda row: interval(
        row.versus_ranking_lo, row.versus_ranking_hi
    ),
}
CALIBRATED = (
    "Policies are calibrated on other units; 'vs ranking' is the difference in nDG, "
    "the cost of causality."
)


def threshold_table(
    thresholds: Sequence[Threshold], *, calibration_units: Sequence[str] | None
) -> Table:
    """The thresholds of allocators and their expected escalation rates, and the units
    that they are calibrated on.
    """
    header = (
        "budget",
        "allocator",
        "policy",
        "escalate above",
        "at the cut",
        "rate",
        "rate on new units, 95 %",
        "gain",
    )
    apart = any(
        row.calibration_rate is not None and row.calibrated_on == "calibration"
        for row in thresholds
    )
    sections = []
    for budget, members in groupby(thresholds, key=lambda row: row.budget.label):
        rows = []
        for i, row in enumerate(members):
            rate, bounds = (
                [percent(row.rate, 1)],
                [interval(row.rate_lo, row.rate_hi, _tenths)],
            )
            if row.price is not None:
                rate = [f"{entry.mode} {percent(entry.rate, 1)}" for entry in row.rates]
                bounds = [
                    f"{entry.mode} {interval(entry.lo, entry.hi, _tenths)}"
                    for entry in row.rates
                    if entry.lo is not None
                ]
            tied = (
                ""
                if row.tied is None
                else f"{percent(row.tie_acceptance, 1)} of {row.tied:,}"
            )
            first = (
                budget if i == 0 else "",
                row.allocator,
                _policy(row),
                _cut(row),
                tied,
            )
            texts = (*first, ", ".join(rate), ", ".join(bounds), number(row.gain))
            rows.append(tuple(map(TableCell, texts)))
        sections.append(tuple(rows))
    notes = sorted(
        {f"{row.allocator}: {row.reason}." for row in thresholds if row.reason}
    )
    notes.append(_calibration_note(thresholds, calibration_units))
    if any(row.price is not None for row in thresholds):
        notes.append(
            "price: run the mode with the largest score - price x cost; cheap has "
            "score and cost 0."
        )
    if any(row.policy == "adaptive threshold" for row in thresholds):
        notes.append(
            "An adaptive threshold starts at this score and "
            "follows the rate from there."
        )
    if any(row.gain is not None for row in thresholds):
        notes.append(
            "The gain is that of the policy on the calibration units, "
            "in units of the loss."
        )
    if apart:
        rates = [percent(row.calibration_rate, 1) for row in thresholds]
        notes.append(
            f"On the calibration units the policy escalates {', '.join(rates)}."
        )
    notes.append(
        "at the cut: share of the inputs with this score to escalate. Thresholds are "
        "rounded here, not in JSON."
    )
    table = Table("Thresholds", header, tuple(sections), tuple(notes), ("at the cut",))
    return (
        table
        if any(row.gain is not None for row in thresholds)
        else table.select(*header[:-1])
    )


def recovery_table(rows: Sequence[Recovery]) -> Table:
    """APGR and call-performance thresholds, allocator by allocator."""
    levels = [call.recovered for call in rows[0].calls]
    header = (
        "allocator",
        "APGR",
        "95 %",
        "verdict",
        *(f"CPT({percent(level, 0)})" for level in levels),
    )
    texts = []
    for row in rows:
        calls = [
            " ".join(
                filter(
                    None, (percent(call.share, 1), interval(call.lo, call.hi, _tenths))
                )
            )
            for call in row.calls
        ]
        bounds = interval(row.apgr_lo, row.apgr_hi)
        texts.append(
            (row.allocator, number(row.apgr), bounds, row.verdict or MISSING, *calls)
        )
    notes = [
        "APGR: recovered part of the gap between cheap and full, averaged over all "
        "shares of calls to full; random has 0.5. CPT(x): smallest share of calls "
        "that recovers x; random needs x.",
        *sorted({f"{row.allocator}: {row.reason}." for row in rows if row.reason}),
    ]
    return Table("Performance gap recovered", header, lines_of(texts), tuple(notes))


def _policy(row: Threshold) -> str:
    """The policy with its tuned parameter, if it has one."""
    return row.policy if row.parameter is None else f"{row.policy} ({row.parameter:g})"


def _cut(row: Threshold) -> str:
    """The threshold or price, with enough digits to distinguish scores."""
    if row.price is not None:
        return (
            "price "
            f"{row.price:.6g} "
            f"per {UNITS[row.convention] if row.convention else 'escalation'}"
        )
    return MISSING if row.threshold is None else f"{row.threshold:.6g}"


def _tenths(value: float | None) -> str:
    return percent(value, 1)


def _calibration_note(
    thresholds: Sequence[Threshold], units: Sequence[str] | None
) -> str:
    """A sentence on the units that the thresholds are calibrated on."""
    listing = (
        "" if units is None else f" ({quantity(len(units), 'unit')}: {few(units)})"
    )
    if any(row.calibrated_on == "calibration" for row in thresholds):
        return f"Calibrated on other units than the rates{listing}. {NEW_UNITS}"
    return f"Calibrated on the same units as the rates{listing}. {NEW_UNITS}"


def _gaps(result: Result) -> Table:
    header = (
        "budget",
        "allocator",
        "gap",
        "missed",
        "harm",
        "left out",
        "overhead",
        "ranking",
        "causal",
        "break-even",
    )
    # Same unit as the table of verdicts: if the all-cheap loss is almost zero, shares
    # of it mean nothing.
    loss = (
        None
        if any(row.versus_random_unit == "loss" for row in result.rows)
        else result.setting["cheap_loss"]
    )
    sections = []
    for budget, members in groupby(result.gaps, key=lambda gap: gap.budget.label):
        rows = []
        for i, gap in enumerate(members):
            unit = "" if gap.convention is None else f" {UNITS[gap.convention]}"
            parts = (
                gap.gap,
                gap.missed,
                gap.selected_harm,
                gap.left_out,
                gap.overhead,
                gap.ranking,
                gap.causal,
            )
            even = (
                MISSING
                if gap.break_even is None
                else f"{cost(gap.break_even, gap.convention)}{unit}"
            )
            texts = (
                budget if i == 0 else "",
                gap.allocator,
                *(of_loss(part, loss) for part in parts),
                even,
            )
            rows.append(tuple(TableCell(text) for text in texts))
        sections.append(tuple(rows))
    notes = ("gap = missed + harm - left out = overhead + ranking (+ causal).",)
    return Table("Where the gap to the oracle goes", header, tuple(sections), notes)


def _ladder(result: Result) -> Table:
    header = (
        "budget",
        "optimum",
        "full only",
        "share",
        "LP bound",
        "modes",
        "excess in other units",
    )
    rows = []
    for entry in result.ladder:
        modes = ", ".join(f"{name} {count}" for name, count in entry["modes"].items())
        others = [
            item for item in entry["spent"] if item["convention"] != entry["convention"]
        ]
        excess = ", ".join(
            f"{UNITS[item['convention']]} {percent(item['excess'], 1)}"
            for item in others
        )
        numbers = (
            number(entry["value"]),
            number(entry["full_only"]),
            percent(entry["full_only_share"], 1),
        )
        texts = (
            entry.budget.label,
            *numbers,
            number(entry["lp_bound"]),
            modes,
            excess or MISSING,
        )
        rows.append(tuple(TableCell(text) for text in texts))
    notes = (
        (
            "'share': value of the best plan with the full mode only, as a share of "
            "the optimum over all modes."
        ),
    )
    return Table("Multi-fidelity optimum", header, (tuple(rows),), notes)


def units_judged(*results: Result) -> str:
    """The units that every figure of some results is over, in words."""
    roles, numbers = (
        {result.provenance.role for result in results},
        [result.setting.units for result in results],
    )
    role = roles.pop() if len(roles) == 1 else None
    if role == "all":
        return "the only unit" if numbers == [1] else f"all {sum(numbers):,} units"
    return quantity(sum(numbers), f"{role} unit" if role else "unit")


def with_units(table: Table, units: str) -> Table:
    """The table with the units that it is over in its title, unless that names units
    already.
    """
    return (
        table
        if " units" in table.title
        else replace(table, title=f"{table.title}, over {units}")
    )


def headline(result: Result) -> Iterable[str]:
    """The effect of escalation in this setting and the method of the intervals, in
    words.
    """
    yield from setting_sentences(result.setting, units_judged(result))
    draws = result.provenance["draws"]
    method = {
        "drawn": f"{draws['number']:,} draws of units, seed {draws['seed']}",
        "none": "no draws",
    }.get(draws["method"], f"all {draws['number']:,} draws of units, enumerated")
    row_count = sum(
        row.versus_random_loss_simultaneous_lo is not None for row in result.rows
    )
    correction = (
        f"verdicts have no correction for multiple comparisons; '{ALL_ROWS}' covers "
        f"all {row_count} rows of the table at once (how often: docs/statistics.md)"
        if row_count
        else "no correction for multiple comparisons"
    )
    yield (
        "Intervals: "
        f"{method}. {quantity(result.comparisons, 'comparison')} "
        f"with random; {correction}."
    )


def setting_sentences(setting: Setting, units: str | None = None) -> Iterable[str]:
    """The effect of escalation in a setting, in words; `units` says over which units,
    by default their number.
    """
    inputs, affected = setting["inputs"], setting["affected"]
    modes = f"{setting['modes'][0]} -> {setting['modes'][-1]}"
    size = (
        f"{quantity(inputs, 'input')} in {units or quantity(setting['units'], 'unit')}"
    )
    yield (
        f"{modes}: of {size}, escalation changes the loss of {affected:,} "
        f"({percent(affected / inputs, 1)}) and makes "
        f"{percent(setting['harm_rate'], 1)} of those "
        f"worse (harm ratio {number(setting['harm_ratio'])})."
        if affected
        else f"{modes}: escalation changes the loss of none of {size}."
    )
    headline_budget = next(item for item in setting["budgets"] if item["alpha"] == 0.2)
    worth = (
        f"{'more than' if headline_budget['budget_binds'] else 'at most'} 20 % of the "
        "inputs are worth escalating"
    )
    everything, oracle, loss = (
        setting["all_full_share"],
        headline_budget["oracle_share"],
        setting["cheap_loss"],
    )
    why = almost_zero(loss, everything, oracle)
    if why is not None:
        yield (
            f"{why[0].upper()}{why[1:]}. In units of the loss, always escalating "
            f"removes {(everything or 0.0) * loss:.3g} and an oracle "
            f"at 20 % removes {(oracle or 0.0) * loss:.3g} ({worth})."
        )
    elif everything is not None:
        yield (
            f"Always escalating {'raises' if everything < 0 else 'lowers'} the "
            f"all-cheap loss by {percent(abs(everything))}; an "
            f"oracle at 20 % lowers it by {percent(oracle)} ({worth})."
        )
    spread = setting["concentration"]
    if spread["top_unit"] is not None:
        half = spread["half_inputs"]
        by_input = (
            f", and {half:,} of {quantity(inputs, 'input')} "
            f"{'has' if half == 1 else 'have'} "
            f"{percent(spread['half_inputs_share'], 1)}"
            if half
            else ""
        )
        effective = number(spread["effective_units"], 1)
        yield (
            "The possible gain comes from about "
            f"{'1 unit' if effective == '1.0' else f'{effective} units'}; the largest "
            "(unit "
            f"{spread['top_unit']}) has "
            f"{percent(spread['top_share'], 1)} of it{by_input}."
        )
