"""A result, losses, costs or any table -> a few lines of text or HTML, for the Python prompt and notebooks."""

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from deepval.judging.audits import setting
from deepval.report.console import render_brief
from deepval.report.forms import table_html
from deepval.report.result_tables import OF_LADDER, explanations, verdict_table
from deepval.report.sentences import closing_sentences, setting_sentences
from deepval.report.table import Table, lines_of, number, quantity
from deepval.results import HEADLINE, UNITS, BudgetKey, Result, Row
from deepval.tables.costs import CONVENTIONS, Convention, Costs
from deepval.tables.values import ValueTable

WIDTH = 80
"""Columns of the text: the width of a narrow window, so that no line breaks."""
MOST = 20
"""Largest number of rows of a table; a sentence gives the number of further rows."""
SHOWN = ("allocator", "nDG", "oracle", OF_LADDER, "vs random", "vs random 95 %", "verdict")


@dataclass(frozen=True)
class Brief:
    """Sentences, a table, and sentences below it."""

    words: tuple[str, ...]
    table: Table
    last: tuple[str, ...] = ()


def text(thing: object) -> str:
    """The thing as lines of at most 80 columns, without a line end."""
    summary = brief(thing)
    return render_brief(summary.words, summary.table, summary.last, width=WIDTH)


def html(thing: object) -> str:
    """The thing as HTML without style or script, with every text escaped."""
    summary = brief(thing)
    table = replace(summary.table, notes=(*summary.table.notes, *explanations(summary.table)))
    above, below = (
        "".join(f"<p>{markup.escape(sentence)}</p>" for sentence in part) for part in (summary.words, summary.last)
    )
    return f"<div>{above}{table_html(table, bare=True)}{below}</div>"


@singledispatch
def brief(thing: object) -> Brief:
    """The short form of a thing."""
    raise NotImplementedError(type(thing))


@brief.register
def _(thing: Table) -> Brief:
    return Brief((), thing)


@brief.register
def _(thing: Result) -> Brief:
    budgets = list(dict.fromkeys(row.budget for row in thing.rows))
    if not budgets:
        return Brief(tuple(setting_sentences(thing.setting)), Table("No allocator was judged", ("allocator",), ()))
    chosen = next((budget for budget in budgets if budget.holds(kind="selection", alpha=HEADLINE)), budgets[0])
    rows = [row for row in thing.rows if row.budget == chosen]
    table = verdict_table(_first(rows), f"At {chosen.label}, against random").select(*SHOWN)
    words = (next(iter(setting_sentences(thing.setting))), *(f"Note: {warning}" for warning in thing.warnings))
    return Brief(words, table, (*closing_sentences(rows), *_more(thing, rows, budgets, chosen)))


def _first(rows: Sequence[Row]) -> Sequence[Row]:
    return rows if len(rows) <= MOST else rows[:MOST]


def _more(result: Result, rows: Sequence[Row], budgets: Sequence[BudgetKey], chosen: BudgetKey) -> list[str]:
    """A sentence on the rows and budgets that are left out."""
    hidden = [f"{quantity(len(rows) - MOST, 'further row')} at this budget"] if len(rows) > MOST else []
    others = [budget.label for budget in budgets if budget != chosen]
    hidden += [", ".join(others[:6]) + (f" and {len(others) - 6} more" if len(others) > 6 else "")] if others else []
    if result.slices:
        hidden.append(f"{quantity(len(result.slices), 'row')} of slices")
    return [f"Not shown: {'; '.join(hidden)}. All: .to_pandas(), .report('page.html')."] if hidden else []


@brief.register
def _(thing: ValueTable) -> Brief:
    if not len(thing):
        return Brief((), Table("A table of losses without inputs", ("mode",), lines_of([[m] for m in thing.modes])))
    rows = []
    for index, mode in enumerate(thing.modes):
        loss, value = thing.losses[:, index], thing.mode_values[:, index]
        helped, harmed = (int((sign * value > thing.tolerance).sum()) for sign in (1, -1))
        counts = ("", "", "") if not index else (f"{helped:,}", f"{harmed:,}", number(float(value.sum())))
        rows.append((mode, number(float(loss.mean()), 4), number(float(loss.sum())), *counts))
    header = ("mode", "mean loss", "total loss", "helps", "harms", "total value")
    units = quantity(len(thing.unit_ids), "unit")
    return Brief(
        tuple(setting_sentences(setting(thing))),
        Table(f"Losses of {quantity(len(thing), 'input')} in {units}", header, lines_of(rows)),
        tuple(_columns(thing)),
    )


def _columns(table: ValueTable) -> list[str]:
    """A sentence on the other columns of a table of losses."""
    parts = ["order in time"] if table.order is not None else []
    parts += [f"columns {', '.join(table.attributes)}"] if table.attributes else []
    parts += ["costs"] if table.costs is not None else []
    return [f"Also there: {'; '.join(parts)}."] if parts else []


@brief.register
def _(thing: Costs) -> Brief:
    entries = [("mode", name, entry) for name, entry in thing.modes.items()]
    entries += [("allocator", name, entry) for name, entry in thing.allocators.items()]
    units: list[Convention] = [unit for unit in CONVENTIONS if any(unit in entry for _, _, entry in entries)]
    rows = [
        (kind, name, *(f"{entry[unit]:g}" if unit in entry else "–" for unit in units)) for kind, name, entry in entries
    ]
    header = ("", "name", *(UNITS[unit] for unit in units))
    return Brief((), Table(f"Costs per input ({thing.source})", header, lines_of(rows)))
