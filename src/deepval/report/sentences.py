"""Result -> sentences above and below its tables; a long result -> an excerpt.

Above: the effect of escalation in this setting, and the method of the intervals. Below: the verdicts in words.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from deepval.report.result_tables import ALL_ROWS, LADDER_CHANCE
from deepval.report.table import almost_zero, few, number, percent, quantity
from deepval.results import Result, Row, Setting
from deepval.tables.scores import REFERENCES

BEST, WORST = 10, 3
"""How many allocators with the largest and the smallest gains an excerpt shows per budget."""
RECORDS = ("rows", "slices", "streams", "gaps", "thresholds", "recovery", "ladder")
"""Fields of a result; every one of them has its own table."""
MOST_SENTENCES = 12
"""Largest number of notes, and of sentences about budgets, in an excerpt."""


def headline(result: Result) -> Iterable[str]:
    """The effect of escalation in this setting and the method of the intervals, in words."""
    yield from setting_sentences(result.setting)
    yield _interval_words(result)


def setting_sentences(setting: Setting) -> Iterable[str]:
    """The effect of escalation in a setting, in words."""
    inputs, affected = setting["inputs"], setting["affected"]
    modes = f"{setting['modes'][0]} -> {setting['modes'][-1]}"
    yield (
        f"{modes}: of {quantity(inputs, 'input')} in {quantity(setting['units'], 'unit')}, escalation changes the loss "
        f"of {affected:,} ({percent(affected / inputs, 1)}) and makes {percent(setting['harm_rate'], 1)} of those "
        f"worse (harm ratio {number(setting['harm_ratio'])})."
    )
    headline_budget = next(item for item in setting["budgets"] if item["alpha"] == 0.2)
    worth = f"{'more than' if headline_budget['budget_binds'] else 'at most'} 20 % of the inputs are worth escalating"
    everything, oracle, loss = setting["all_full_share"], headline_budget["oracle_share"], setting["cheap_loss"]
    why = almost_zero(loss, everything, oracle)
    if why is not None:
        yield (
            f"{why[0].upper()}{why[1:]}. In units of the loss, always escalating removes "
            f"{(everything or 0.0) * loss:.3g} and an oracle at 20 % removes {(oracle or 0.0) * loss:.3g} ({worth})."
        )
    elif everything is not None:
        yield (
            f"Always escalating {'raises' if everything < 0 else 'lowers'} the all-cheap loss by "
            f"{percent(abs(everything))}; an oracle at 20 % lowers it by {percent(oracle)} ({worth})."
        )
    spread = setting["concentration"]
    if spread["top_unit"] is not None:
        half = spread["half_inputs"]
        by_input = (
            f", and {half:,} of {quantity(inputs, 'input')} {'has' if half == 1 else 'have'} "
            f"{percent(spread['half_inputs_share'], 1)}"
            if half
            else ""
        )
        yield (
            f"The possible gain comes from about {number(spread['effective_units'], 1)} units; the largest (unit "
            f"{spread['top_unit']}) has {percent(spread['top_share'], 1)} of it{by_input}."
        )


def _interval_words(result: Result) -> str:
    draws = result.provenance["draws"]
    method = {"drawn": f"{draws['number']:,} draws of units, seed {draws['seed']}", "none": "no draws"}.get(
        draws["method"], f"all {draws['number']:,} draws of units, enumerated"
    )
    row_count = sum(row.versus_random_loss_simultaneous_lo is not None for row in result.rows)
    correction = (
        f"verdicts have no correction for multiple comparisons; '{ALL_ROWS}' covers all {row_count} rows of the table "
        "at once (how often: docs/statistics.md)"
        if row_count
        else "no correction for multiple comparisons"
    )
    return f"Intervals: {method}. {quantity(result.comparisons, 'comparison')} with random; {correction}."


def closing_sentences(every_row: Sequence[Row]) -> list[str]:
    """The verdicts of rows in words, budget by budget; comparisons with random-ladder have their own line."""
    lines = []
    first_index = {row.budget.label: index for index, row in reversed(list(enumerate(every_row)))}
    # Rows with one score per mode are compared with random-ladder; rows without a cost have words but no verdict.
    judged = [row for row in every_row if row.verdict_words or row.verdict]
    judged.sort(key=lambda row: (first_index[row.budget.label], row.chance == LADDER_CHANCE))
    for (budget, chance), rows in groupby(judged, key=lambda row: (row.budget.label, row.chance)):
        by_verdict: dict[str, list[str]] = {}
        by_second_verdict: dict[str, list[str]] = {}
        for row in rows:
            by_verdict.setdefault(row.verdict_words or row.verdict or "", []).append(row.allocator)
            if row.second_verdict and row.second_verdict != row.verdict:
                by_second_verdict.setdefault(row.second_verdict, []).append(row.allocator)
        lines.append(f"{budget}, against {chance or 'random'}: {_by_words(by_verdict)}.")
        lines[-1] += f" Second opinion: {_by_words(by_second_verdict)}." if by_second_verdict else ""
    return lines


def excerpt(result: Result, most: int) -> Result:
    """The result with the best and the worst rows of each budget by gain, if it has more than `most` rows.

    Other records are limited to the same allocators and budgets, and to `most` rows.
    """
    if max(len(getattr(result, name)) for name in RECORDS) <= most:
        return result
    members: dict[str, list[Row]] = {}
    for row in result.rows:
        members.setdefault(row.budget.label, []).append(row)
    rows = [row for label in members for row in _extremes(members[label])]
    pairs = {(row.budget.label, row.allocator) for row in rows}
    names = {row.allocator for row in rows}
    parts: dict[str, Any] = {
        name: tuple(item for item in getattr(result, name) if (item.budget.label, item.allocator) in pairs)[:most]
        for name in ("slices", "streams", "gaps", "thresholds")
    }
    parts["recovery"] = tuple(row for row in result.recovery if row.allocator in names)[:most]
    return replace(result, rows=tuple(rows[:most]), ladder=result.ladder[:most], **parts)


def _extremes(rows: Sequence[Row]) -> list[Row]:
    """The references, the best and the worst allocators under one budget, the largest gain first."""
    ranked = sorted(rows, key=lambda row: -math.inf if row.gain is None else row.gain, reverse=True)
    entered = [row.allocator for row in ranked if row.allocator not in REFERENCES]
    names = {*REFERENCES, *entered[:BEST], *entered[-WORST:]}
    return [row for row in ranked if row.allocator in names]


def excerpt_sentences(whole: Result, part: Result) -> list[str]:
    """The number of each verdict, budget by budget, and the number of rows in the excerpt and in the whole result."""
    members: dict[tuple[str, str], list[Row]] = {}
    for row in whole.rows:
        if row.verdict:
            members.setdefault((row.budget.label, row.chance or "random"), []).append(row)
    words = [
        f"{budget}, against {chance}: {_verdict_counts(rows)}."
        for (budget, chance), rows in islice(members.items(), MOST_SENTENCES)
    ]
    if len(members) > MOST_SENTENCES:
        words.append(f"The verdicts of {len(members) - MOST_SENTENCES:,} further budgets are not counted here.")
    count, total = (sum(len(getattr(result, name)) for name in RECORDS) for result in (part, whole))
    return [
        *words,
        f"This is a summary with {count:,} of {total:,} rows: the {BEST} largest and {WORST} smallest gains of each "
        "budget, and the references. --all prints every row; --json and --out FILE have them too, and --format csv has "
        "every verdict.",
    ]


def _verdict_counts(rows: Sequence[Row]) -> str:
    """How many rows have each verdict, and how many of these verdicts are qualified."""
    counts = Counter(row.verdict or "" for row in rows)
    weak = Counter(row.verdict or "" for row in rows if row.verdict_words not in (None, row.verdict))
    return ", ".join(
        f"{n:,} {verdict}" + (f" ({weak[verdict]:,} on few units or resting on one)" if weak[verdict] else "")
        for verdict, n in counts.most_common()
    )


def _by_words(names_by_words: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{words}: {few(names)}" for words, names in names_by_words.items())
