"""Result -> the answer as text: what to run first, and fifteen lines in all."""

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deepval.report.text_tables import printable, quantity
from deepval.results import (
    ALWAYS_MODE,
    Answer,
    BudgetKey,
    Effect,
    FixedMode,
    Result,
    Row,
    Unit,
)

PROSE = 80
"""Longest line of a sentence, on a wide terminal, too."""
MOST_ROWS = 4
"""Rows of allocators that are shown; all are in the tables of --all."""
BEST_UNITS, WORST_UNITS = 2, 3
"""Units that are shown where there is no score."""
GAIN_HEADINGS = {
    "right": "right, %",
    "reward": "reward",
    "share": "removed, %",
    "loss": "gain",
}
MINUS = "\N{MINUS SIGN}"

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Typed:
    """What was typed, for the command to type next.

    Attributes:
        values: The values file or cell.
        scores: Its scores files, by allocator: FILE or NAME=FILE.
        options: Options that say how to read them, as --column=unit=drive.
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


def answer_text(result: Result, *, width: int = 80, typed: Typed | None = None) -> str:
    """The answer to the headline budget, the rows behind it, and the other budgets."""
    if result.effect is not None:
        lines = _lines_of_effect(result, result.effect, width, typed)
    elif result.answers:
        lines = _lines_of_answer(result, result.answer(), width, typed)
    else:
        lines = ["No allocator was judged."]
    return "\n".join(map(printable, lines)) + "\n"


def _lines_of_answer(
    result: Result, answer: Answer, width: int, typed: Typed | None
) -> list[str]:
    lines = _wrapped(answer.sentence, width)
    lines += _wrapped(answer.hint or answer.instead, width)
    lines += ["", *_wrapped(_judged_on(result), width)]
    lines += _table(result, answer, width)
    if len(result.answers) > 1:
        lines += _wrapped(_budgets(result.answers), width)
    lines += _wrapped(f"Doubt: {answer.doubt}", width)
    if typed is not None:
        lines += _next_lines(result, typed, width)
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    width = min(width, PROSE)
    # Names of files and units must not be broken, and a figure stays with its unit.
    joined = text.replace(" %", "\xa0%")
    lines = textwrap.wrap(joined, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\xa0", " ") for line in lines]


def _judged_on(result: Result) -> str:
    """What was judged: `2,737 inputs of 40 units: mistral, mixtral, yi, gpt-4`."""
    setting = result.setting
    inputs = quantity(setting.inputs, setting.nouns[0])
    units = quantity(setting.units, setting.nouns[1])
    role = result.provenance.role
    chosen = "" if role in (None, "all") else f" ({role})"
    return f"{inputs} of {units}{chosen}; modes {', '.join(setting.modes)}"


def _table(result: Result, answer: Answer, width: int) -> list[str]:
    """The candidate first, other allocators, and fixed modes, the dearest first."""
    rows = [row for row in result.rows if row.budget == answer.budget]
    judged = [row for row in rows if row.answer is not None]
    judged.sort(key=lambda row: row.allocator != answer.candidate)
    header = (
        "",
        GAIN_HEADINGS[answer.scale],
        _cost_heading(answer),
        "against blind",
        "answer",
    )
    cells = [header, *(_judged_cells(row, answer) for row in judged[:MOST_ROWS])]
    hidden = len(judged) - MOST_ROWS
    if hidden > 0:
        cells.append((f"({hidden} more: --all)", "", "", "", ""))
    loss = result.setting.cheap_loss
    cells += [
        _fixed_cells(mode, answer, loss, result.setting.inputs)
        for mode in reversed(answer.fixed)
    ]
    return fitted(cells, width, droppable=(2, 1, 3))


def _cost_heading(answer: Answer) -> str:
    convention = answer.budget.convention
    if convention is None:
        return "escalated"
    return {"usd": "USD/1,000", "ms": "ms"}.get(convention, "mJ")


def _judged_cells(row: Row, answer: Answer) -> Cells:
    lead = (row.lead_words or "").replace(" points", "").replace(" % of the loss", "")
    gain = _gain(answer, row.gain, row.quality, row.cheap_loss, row.inputs)
    return (
        row.name,
        gain,
        _cost(answer, row.spend),
        lead.removesuffix(" per input"),
        row.answer or "",
    )


def _fixed_cells(mode: FixedMode, answer: Answer, loss: float, inputs: int) -> Cells:
    note = ""
    if mode.mode == answer.best_fixed:
        note = "best that fits"
    elif not mode.fits:
        note = "over budget"
    gain = _gain(answer, mode.gain, mode.quality, loss, inputs)
    return (ALWAYS_MODE + mode.mode, gain, _cost(answer, mode.spend), "", note)


def _gain(
    answer: Answer,
    gain: float | None,
    quality: float | None,
    loss: float | None,
    inputs: int,
) -> str:
    """A gain as the quality that it leads to, or in the unit of the answer."""
    if answer.scale == "right" and quality is not None:
        return f"{100 * quality:.1f}"
    if answer.scale == "reward" and quality is not None:
        return _minus(f"{quality:.3g}")
    if gain is None:
        return ""
    if answer.scale == "share" and loss:
        return _minus(f"{100 * gain / loss:.1f}")
    return _minus(f"{gain / inputs:.3g}")


def _cost(answer: Answer, spend: float | None) -> str:
    if spend is None:
        return ""
    if answer.budget.convention is None:
        return f"{100 * spend:.0f} %"
    if answer.budget.convention == "usd":
        return f"{1000 * spend:.2f}"
    return f"{spend:.4g}"


def _minus(text: str) -> str:
    """A number with a minus sign as wide as a plus sign."""
    return text.replace("-", MINUS)


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
    result: Result, typed: Typed, *, answer: Answer | None = None
) -> list[str]:
    """The parts of the next command, none of which is broken; ready for a shell."""
    values = shlex.quote(typed.values)
    options = [shlex.quote(word) for word in typed.options]
    if result.effect is not None:
        return ["deepval evaluate", values, *options, "-s SCORES.csv"]
    answer = answer or result.answer()
    name = answer.on_top_score or answer.candidate or ""
    file = typed.scores.get(name)
    scores = [] if file is None else [f"-s {shlex.quote(file)}"]
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
    if options:  # a report reads files that have our columns
        return ["deepval evaluate", values, *options, *scores, "--all"]
    return ["deepval report", values, *scores]


def _budget_words(budget: BudgetKey, *, has_prices: bool) -> list[str]:
    """The options of a budget, where it is not the one that is usual."""
    is_usual = budget.kind == "selection"
    if has_prices:
        is_usual = budget.kind == "money" and budget.accounting == "skipping"
    if is_usual:
        return []
    words = [f"--budget {budget.kind}"]
    if budget.convention in ("mj_gpu", "mj_all"):
        words.append(f"--rails {budget.convention}")
    if budget.accounting == "skipping":
        words.append("--skipping")
    return words


def _next_lines(result: Result, typed: Typed, width: int) -> list[str]:
    """The next command, in lines that a shell joins again."""
    first, *rest = next_words(result, typed)
    lines = [f"Next: {first}"]
    for word in rest:
        # Two more columns are for the sign that the command goes on.
        if len(lines[-1]) + 1 + len(word) + 2 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


# --- without a score ------------------------------------------------------------------


def _lines_of_effect(
    result: Result, effect: Effect, width: int, typed: Typed | None
) -> list[str]:
    """Whether the dearer mode helps, and the units where it does most and least."""
    # What a router could gain comes last, where budgets are judged at all.
    before, room = effect.sentences[:3], effect.sentences[3:]
    lines: list[str] = []
    for sentence in before:
        lines += _wrapped(sentence, width)
    lines += ["", *_wrapped(_judged_on(result), width)]
    # Among several modes, what each gives comes before where the dearest one does.
    if len(result.setting.modes) > 2 and result.answers:
        lines += _table(result, result.answer(), width)
    elif result.units:
        lines += fitted(list(_unit_rows(result)), width, droppable=(1,))
    for sentence in room:
        lines += _wrapped(sentence, width)
    lines += _wrapped(f"Doubt: {effect.doubt}", width)
    if typed is not None:
        lines += _next_lines(result, typed, width)
    return lines


def _unit_rows(result: Result) -> Iterator[Cells]:
    """The units in which the full mode gains most, and those where it gains least."""
    cheap = result.setting.modes[0]
    full = result.setting.modes[-1]

    def gain(unit: Unit) -> float:
        return unit.modes.get(full, 0.0)

    scale = result.answer().scale if result.answers else "share"
    is_quality = scale in ("right", "reward")
    what = GAIN_HEADINGS[scale].removesuffix(", %") if is_quality else "loss"
    change = "change" if is_quality else "removed"
    noun, unit_noun = result.setting.nouns
    yield (unit_noun, f"{noun}s", f"{what} of {cheap}", f"of {full}", change)
    ordered = sorted(result.units, key=gain, reverse=True)
    shown = ordered
    if len(ordered) > BEST_UNITS + WORST_UNITS:
        shown = [*ordered[:BEST_UNITS], *ordered[-WORST_UNITS:]]
    for unit in shown:
        figures = _losses(unit, gain(unit))
        if is_quality:
            figures = _qualities(unit, gain(unit), scale)
        yield (unit.unit, f"{unit.inputs:,}", *figures)


def _losses(unit: Unit, gain: float) -> tuple[str, str, str]:
    """The losses of a unit under both modes, and the share that is removed."""
    removed = "–"  # a share of no loss means nothing
    if unit.cheap_loss > 0:
        removed = _minus(f"{100 * gain / unit.cheap_loss:.0f} %")
    full_loss = unit.cheap_loss - gain
    return _minus(f"{unit.cheap_loss:,.4g}"), _minus(f"{full_loss:,.4g}"), removed


def _qualities(unit: Unit, gain: float, scale: str) -> tuple[str, str, str]:
    """The quality of a unit under both modes, and its change."""
    mean_loss = unit.cheap_loss / unit.inputs
    # Rewards are stored as negative losses; else a right answer has no loss.
    before = -mean_loss if unit.cheap_loss < 0 else 1 - mean_loss
    after = before + gain / unit.inputs
    if scale == "right":
        change = _minus(f"{100 * (after - before):.0f}")
        return f"{100 * before:.0f} %", f"{100 * after:.0f} %", change
    change = _minus(f"{after - before:.3g}")
    return _minus(f"{before:.3g}"), _minus(f"{after:.3g}"), change


# --- lines ----------------------------------------------------------------------------


def fitted(rows: Sequence[Cells], width: int, droppable: Sequence[int]) -> list[str]:
    """The rows as lines with equally wide columns; the first column begins at the left.

    Columns are dropped, in the order of `droppable`, until the lines fit.
    """
    kept = list(range(len(rows[0])))
    lines = _aligned(rows, kept)
    for column in droppable:
        if max(map(len, lines)) <= width:
            break
        kept.remove(column)
        lines = _aligned(rows, kept)
    return lines


def _aligned(rows: Sequence[Cells], kept: Sequence[int]) -> list[str]:
    last = kept[-1]
    widths = {i: max(len(row[i]) for row in rows) for i in kept}
    lines = []
    for row in rows:
        cells = []
        for i in kept:
            is_text = i == 0 or (i == last and not _is_figure(rows, i))
            form = str.ljust if is_text else str.rjust
            cells.append(form(row[i], widths[i]))
        lines.append("  ".join(cells).rstrip())
    return lines


def _is_figure(rows: Sequence[Cells], column: int) -> bool:
    """Whether a column holds figures below its heading."""
    texts = [row[column] for row in rows[1:] if row[column]]
    return all(text[-1] in "0123456789%]–" for text in texts)
