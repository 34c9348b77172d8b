"""Result -> the answer as text: what to run first, and fifteen lines in all."""

import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deepval.basics.errors import InputError, argument, suggestion
from deepval.judge.report.lines import lay_out, printable
from deepval.judge.report.text_tables import Column, Table, quantity, tabulate
from deepval.judge.results import (
    ALWAYS_MODE,
    SCALES,
    TABLE_BY,
    Answer,
    BudgetKey,
    Effect,
    FixedMode,
    Keep,
    Result,
    Row,
    Unit,
    shown_cost,
    without_unit,
)
from deepval.judge.tables.columns import LIMITS

PROSE = 80
"""Longest line of a sentence, on a wide terminal, too."""
ASKED = ("slices", "streams", "thresholds", "recovery")
"""Parts of a result that are there only if they were asked for."""
MOST_ROWS = 4
"""Rows of allocators that are shown; all are in the tables of --all."""
BEST_UNITS, WORST_UNITS = 2, 3
"""Units that are shown where there is no score."""
COST_HEADINGS = {None: "escalated", "usd": "USD/1,000", "ms": "ms"}
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Typed:
    """What was typed, for the command to type next.

    Attributes:
        values: The values file or cell.
        scores: Its scores files, by allocator: FILE or NAME=FILE.
        options: Options that say how to read them, as --modes=small,large.
        has_prices: Whether the table has a price for each input: then budgets are of
            money unless others are stated.
    """

    values: str
    scores: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    has_prices: bool = False

    @classmethod
    def of(cls, result: Result) -> "Typed":
        """What was typed for a result, with words in capitals where it does not say."""
        provenance = result.provenance
        files = dict(provenance.files or {})
        named = (files.pop("options", None) or "").split("\n")
        values = files.pop("values", None)
        options = [word for word in named if word]
        has_prices = _has_prices(result)
        names = list(provenance.scores)
        if provenance.cell is None:
            scores = {name: "SCORES" for name in names}
            stated = any(word.startswith("--costs=") for word in options)
            if provenance.costs is not None and not has_prices and not stated:
                options.append("--costs=COSTS")
        else:
            scores = {name: name for name in names}
        if values is None:
            values = "VALUES" if provenance.cell is None else "CELL"
        return cls(values, scores | files, options, has_prices)


def _has_prices(result: Result) -> bool:
    """Whether the table of a result had a price for each input."""
    modes = (result.provenance.costs or {}).get("modes", {})
    return any("input by input" in str(mode.get("note")) for mode in modes.values())


def answer_text(
    result: Result,
    *,
    width: int = 80,
    typed: Typed | None = None,
    highlight: str | None = None,
) -> str:
    """The answer to the headline budget, the rows behind it, and the other budgets.

    Where a floor was named, the answer to that comes before.

    Args:
        result: The result.
        width: Columns of the terminal.
        typed: What was typed, for the next command; without it there is none.
        highlight: The allocator whose row comes first, instead of the candidate's.
    """
    above = []
    if result.keep is not None:
        above = _wrapped(result.keep.sentence, width)
        above += [*_wrapped(f"Doubt: {result.keep.doubt}", width), ""]
    if result.effect is not None:
        lines = _lines_of_effect(result, result.effect, width)
    elif result.answers:
        lines = _lines_of_answer(result, result.answer(), width, highlight)
    else:
        lines = ["No allocator was judged."]
        return "\n".join(map(printable, [*above, *lines])) + "\n"
    if typed is not None:
        lines += _next_lines(result, typed, width)
    return "\n".join(map(printable, [*above, *lines])) + "\n"


def render_answer(
    result: Result,
    *,
    width: int = 80,
    color: bool = False,
    typed: Typed | None = None,
    highlight: str | None = None,
) -> str:
    """The answer, and the tables of what was asked for besides."""
    text = answer_text(result, width=width, typed=typed, highlight=highlight)
    if not any(getattr(result, part) for part in ASKED):
        return text
    # Tables are loaded only where some were asked for.
    from deepval.judge.report.console import render_tables
    from deepval.judge.report.tables import tables_of

    tables = [table for part, table in tables_of(result).items() if part in ASKED]
    return text + render_tables(tables, width=width, color=color)


def check_highlight(results: Iterable[Result], name: str | None) -> None:
    """Raise where no result judges the allocator to highlight."""
    rows = [row for result in results for row in result.rows if row.answer is not None]
    names = dict.fromkeys(row.allocator for row in rows)
    if name is not None and name not in names:
        raise InputError(
            f"{argument('highlight')} must be one of {', '.join(names) or 'none'}; "
            f"found {name!r}{suggestion(name, names)}"
        )


def _lines_of_answer(
    result: Result, answer: Answer, width: int, highlight: str | None
) -> list[str]:
    lines = _wrapped(answer.sentence, width)
    advice = answer.hint or answer.instead
    # The reason not to run a router may name the fixed mode already.
    if answer.hint or f": always {answer.best_fixed} " not in answer.sentence:
        lines += _wrapped(advice, width)
    lines += ["", *_wrapped(_judged_on(result), width), *_basis(result, width)]
    lines += _table_lines(_rows_table(result, answer, highlight), width)
    if len(result.answers) > 1:
        lines += _wrapped(_budgets(result.answers), width)
    return [*lines, *_wrapped(f"Doubt: {answer.doubt}", width)]


def _table_lines(table: Table, width: int) -> tuple[str, ...]:
    return lay_out(table, width, has_rule=False).lines


def _basis(result: Result, width: int) -> list[str]:
    """What estimated values rest on; nothing where they were measured."""
    for note in result.warnings:
        basis, limits, _ = note.partition(LIMITS)
        if limits:
            return _wrapped(basis.strip(), width)
    return []


def _wrapped(text: str, width: int) -> list[str]:
    width = min(width, PROSE)
    # Names of files and units must not be broken, and a figure stays with its unit.
    joined = text.replace(" %", "\xa0%")
    lines = textwrap.wrap(joined, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\xa0", " ") for line in lines]


def _judged_on(result: Result) -> str:
    """What was judged: `2,737 inputs of 40 units: mistral, mixtral, yi, gpt-4`."""
    setting = result.setting
    noun, unit_noun = setting.nouns
    judged = quantity(setting.inputs, noun)
    if unit_noun != noun:  # else each input is a unit
        judged += f" of {quantity(setting.units, unit_noun)}"
    role = result.provenance.role
    chosen = "" if role in (None, "all") else f" ({role})"
    return f"{judged}{chosen}; modes {', '.join(setting.modes)}"


def _rows_table(result: Result, answer: Answer, highlight: str | None) -> Table:
    """The candidate first, other allocators, and fixed modes, the dearest first."""
    judged = [
        row
        for row in result.rows
        if row.budget == answer.budget and row.answer is not None
    ]
    first = highlight or answer.candidate
    judged.sort(key=lambda row: row.allocator != first)
    hidden = len(judged) - MOST_ROWS
    shown: list[Row | FixedMode | None] = [*judged[:MOST_ROWS]]
    if hidden > 0:
        shown.append(None)
    shown += reversed(answer.fixed)

    def only(text: Callable[[Row | FixedMode], str]) -> Callable[[Any], str]:
        """The text of a row; none of the line that counts the hidden rows."""
        return lambda row: "" if row is None else text(row)

    def name(row: Row | FixedMode | None) -> str:
        if row is None:
            return f"({hidden} more: --all)"
        return row.name if isinstance(row, Row) else ALWAYS_MODE + row.mode

    def gain(row: Row | FixedMode) -> str:
        return _gain(result, answer, row)

    def cost(row: Row | FixedMode) -> str:
        return _cost(answer.budget.convention, row.spend)

    def lead(row: Row | FixedMode) -> str:
        words = row.get("lead_words")
        return "" if words is None else without_unit(words, answer.scale)

    def verdict(row: Row | FixedMode) -> str:
        if isinstance(row, Row):
            return row.answer or ""
        if row.mode == answer.best_fixed:
            return "best that fits"
        return "" if row.fits else "over budget"

    convention = answer.budget.convention
    columns = [
        Column("", name),
        Column(SCALES[answer.scale].heading, only(gain), rank=2),
        Column(COST_HEADINGS.get(convention, "mJ"), only(cost), rank=1),
        Column("against blind", only(lead), rank=3),
        Column("answer", only(verdict)),
    ]
    return tabulate("Answer", columns, shown)


def _gain(result: Result, answer: Answer, row: Row | FixedMode) -> str:
    """A gain as the quality that it leads to, or in the unit of the answer."""
    if row.quality is not None:
        return _figure(row.quality, answer.scale)
    if row.gain is None:
        return ""
    per = float(result.setting.inputs)
    if answer.scale == "share":
        per = result.setting.cheap_loss or per
    return _figure(row.gain / per, answer.scale)


def _figure(value: float, scale: str) -> str:
    """A quality or gain in its scale, with a minus sign as wide as a plus sign."""
    percent = SCALES[scale].percent
    text = f"{value:.3g}" if percent == 1 else f"{percent * value:.1f}"
    return _minus(text)


def _minus(text: str) -> str:
    """A number with a minus sign as wide as a plus sign."""
    return text.replace("-", MINUS)


def _cost(convention: str | None, spend: float | None) -> str:
    if spend is None:
        return ""
    cost = shown_cost(convention, spend)
    if convention is None:
        return f"{cost:.0f} %"
    return f"{cost:.2f}" if convention == "usd" else f"{cost:.4g}"


def _budgets(answers: Sequence[Answer]) -> str:
    """The verdict under every budget; each is one answer of its own."""
    parts = []
    kinds = {answer.budget.kind for answer in answers}
    for answer in answers:
        share = f"{100 * answer.budget.alpha:.4g} %"
        if len(kinds) > 1:
            share = answer.budget.label
        part = f"{share} {answer.verdict}"
        # Another budget may have another candidate.
        if answer.verdict == "run" and len({one.candidate for one in answers}) > 1:
            part += f" {answer.candidate}"
        parts.append(part)
    return "Budgets: " + ", ".join(parts)


def next_command(result: Result, typed: Typed, *, answer: Answer | None = None) -> str:
    """What to type next, in one line: about the answer, or the headline one."""
    return " ".join(next_words(result, typed, answer=answer))


def next_words(
    result: Result,
    typed: Typed,
    *,
    answer: Answer | None = None,
    is_on_page: bool = False,
) -> list[str]:
    """The parts of the next command, none of which is broken; ready for a shell.

    Args:
        result: The result.
        typed: What was typed.
        answer: The answer that it follows; the headline one where None.
        is_on_page: Whether it stands on a page, which needs no command that makes one.
    """
    values = shlex.quote(typed.values)
    options = [shlex.quote(word) for word in typed.options]
    if result.effect is not None:
        return ["deepval evaluate", values, *options, "-s SCORES.csv"]
    answer = answer or result.answer()
    name = answer.on_top_score or answer.candidate or ""
    file = typed.scores.get(name)
    scores = [] if file is None else [f"-s {shlex.quote(file)}"]
    if file is None and name.startswith(TABLE_BY):
        scores = [f"--table-by {shlex.quote(name.removeprefix(TABLE_BY))}"]
    if answer.verdict == "run" or answer.on_top is not None:
        # A router is calibrated on other units than those that judge it.
        kept = [word for word in options if not word.startswith("--units=")]
        alpha = f"--alpha {answer.budget.alpha:.6g}"
        budget = _budget_words(answer.budget, has_prices=typed.has_prices)
        words = ["deepval threshold", values, *kept, *scores, alpha, *budget]
        if answer.verdict != "run":
            words.append(f"--base {shlex.quote(str(answer.on_top))}")
        return words
    if file == name:
        scores = []  # the scores of a cell are found in its folder
    if is_on_page:
        return ["deepval evaluate", values, *options, *scores, "--diagnose"]
    if options:  # a report reads files that have our columns
        return ["deepval evaluate", values, *options, *scores, "--all"]
    return ["deepval report", values, *scores]


def _words_of_floor(keep: Keep, typed: Typed) -> list[str]:
    """The parts of the next command after a floor: write the table that keeps it, else
    save the result for a page.
    """
    options = [shlex.quote(word) for word in typed.options]
    if keep.share is not None:
        floor = f"--keep {100 * keep.share:.6g}%"
    elif keep.mode is None:
        floor = f"--at-least {keep.target:.6g}"
    else:
        points = "" if keep.target == 0 else f"{100 * keep.target:+.6g}pt"
        floor = f"--at-least {shlex.quote(keep.mode + points)}"
    values = shlex.quote(typed.values)
    option = keep.option or ""
    if option.startswith(TABLE_BY):
        table = f"--table-by {shlex.quote(option.removeprefix(TABLE_BY))}"
        kept = [word for word in options if not word.startswith("--units=")]
        return ["deepval threshold", values, *kept, table, floor, "--out router.json"]
    files = {name: file for name, file in typed.scores.items() if file != name}
    scores = [f"-s {shlex.quote(file)}" for file in files.values()]
    return ["deepval evaluate", values, *options, *scores, floor, "--out result.json"]


def _budget_words(budget: BudgetKey, *, has_prices: bool) -> list[str]:
    """The options of a budget, where it is not the one that is usual."""
    is_usual = budget.kind == "selection"
    if has_prices:
        is_usual = budget.kind == "money" and budget.accounting == "skipping"
    if is_usual:
        return []
    words = [f"--budget {budget.kind}"]
    if budget.accounting == "skipping":
        words.append("--skipping")
    return words


def _next_lines(result: Result, typed: Typed, width: int) -> list[str]:
    """The next command, in lines that a shell joins again."""
    words = next_words(result, typed)
    if result.keep is not None:
        words = _words_of_floor(result.keep, typed)
    first, *rest = words
    lines = [f"Next: {first}"]
    for word in rest:
        # Two more columns are for the sign that the command goes on.
        if len(lines[-1]) + 1 + len(word) + 2 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


# --- without a score ------------------------------------------------------------------


def _lines_of_effect(result: Result, effect: Effect, width: int) -> list[str]:
    """Whether the dearer mode helps, and the units where it does most and least."""
    lines: list[str] = []
    # What a router could gain comes last, where budgets are judged at all.
    for sentence in effect.sentences[:3]:
        lines += _wrapped(sentence, width)
    lines += ["", *_wrapped(_judged_on(result), width), *_basis(result, width)]
    # Among several modes, what each gives comes before where the dearest one does.
    if len(result.setting.modes) > 2 and result.answers:
        lines += _table_lines(_rows_table(result, result.answer(), None), width)
    elif result.units:
        lines += _table_lines(_units_table(result), width)
    for sentence in effect.sentences[3:]:
        lines += _wrapped(sentence, width)
    return [*lines, *_wrapped(f"Doubt: {effect.doubt}", width)]


def _units_table(result: Result) -> Table:
    """The units in which the full mode gains most, and those where it gains least."""
    cheap = result.setting.modes[0]
    full = result.setting.modes[-1]
    noun, unit_noun = result.setting.nouns
    scale = result.answer().scale if result.answers else "share"
    what, change = "loss", "removed"
    if scale in ("right", "reward"):
        what, change = SCALES[scale].heading.removesuffix(", %"), "change"

    def gain(unit: Unit) -> float:
        return unit.modes.get(full, 0.0)

    ordered = sorted(result.units, key=gain, reverse=True)
    if len(ordered) > BEST_UNITS + WORST_UNITS:
        ordered = [*ordered[:BEST_UNITS], *ordered[-WORST_UNITS:]]
    columns = [
        Column(unit_noun, lambda unit: unit.unit),
        Column(f"{noun}s", lambda unit: f"{unit.inputs:,}", rank=1),
        Column(f"{what} of {cheap}", lambda unit: _level(unit, 0.0, scale), rank=2),
        Column(f"of {full}", lambda unit: _level(unit, gain(unit), scale), rank=3),
        Column(change, lambda unit: _change(unit, gain(unit), scale)),
    ]
    return tabulate("Units", columns, ordered)


def _level(unit: Unit, gain: float, scale: str) -> str:
    """The quality of a unit after a gain, or its loss."""
    loss = unit.cheap_loss - gain
    if scale == "right":
        return f"{100 * (1 - loss / unit.inputs):.0f} %"
    if scale == "reward":
        # Rewards are stored as negative losses.
        return _minus(f"{-loss / unit.inputs:.3g}")
    return _minus(f"{loss:,.4g}")


def _change(unit: Unit, gain: float, scale: str) -> str:
    """What a gain is in points or per input, or the share of the loss it removes."""
    if scale == "right":
        return _minus(f"{100 * gain / unit.inputs:.0f}")
    if scale == "reward":
        return _minus(f"{gain / unit.inputs:.3g}")
    if not unit.cheap_loss > 0:
        return "–"  # a share of no loss means nothing
    return _minus(f"{100 * gain / unit.cheap_loss:.0f} %")
