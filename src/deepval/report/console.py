"""Result -> tables for the terminal: bold green if an allocator beats random, red* if it loses to random."""

from collections.abc import Iterator, Sequence

from deepval.judging.comparison import Comparison
from deepval.judging.over_cells import PooledComparison
from deepval.report.comparisons import comparison_table
from deepval.report.layout import Style, fold, lay_out, printable
from deepval.report.result_tables import explanations, result_tables
from deepval.report.sentences import MOST_SENTENCES, closing, excerpt, excerpt_sentences, headline
from deepval.report.table import Table, TableCell
from deepval.results import Result

PROSE = 120
"""Largest width of sentences on a wide terminal."""
COLOURS = {"better": "\x1b[1;32m", "worse": "\x1b[31m"}
BOLD, DIM, END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(
    result: Result,
    *,
    width: int = 140,
    color: bool = False,
    sections: Sequence[str] | None = None,
    most: int | None = None,
) -> str:
    """The result as text of this width, verdicts last; `sections` selects tables by the beginnings of their titles.

    A result with a table of more than `most` rows is summarised: the best and the worst rows of each budget, and the
    number of each verdict.
    """
    part = result if most is None else excerpt(result, most)
    summary = part is not result
    words = [*headline(result), *(f"Note: {warning}" for warning in _notes(result, summary=summary))]
    all_tables = list(result_tables(part))
    selected = [t for t in (*all_tables[1:], all_tables[0]) if sections is None or t.title.startswith(tuple(sections))]
    last = [] if all_tables[0] not in selected else excerpt_sentences(result, part) if summary else closing(result)
    return _rendered(words, selected, width=width, color=color, last=last)


def _notes(result: Result, *, summary: bool) -> Sequence[str]:
    """The warnings of a result; a summary has the first ones and the number of the others."""
    over = len(result.warnings) - MOST_SENTENCES
    return [*result.warnings[:MOST_SENTENCES], f"{over:,} further notes."] if summary and over > 0 else result.warnings


def render_comparison(rows: Sequence[Comparison | PooledComparison], *, width: int = 140, color: bool = False) -> str:
    """The comparison of two allocators, as text of this width."""
    return _rendered([], [comparison_table(rows)], width=width, color=color)


def render_tables(tables: Sequence[Table], *, width: int = 140, color: bool = False) -> str:
    """Tables as text for a terminal of this width."""
    return _rendered([], tables, width=width, color=color)


def render_brief(words: Sequence[str], table: Table, last: Sequence[str], *, width: int) -> str:
    """Sentences, a table and sentences below it, without a line end."""
    return _rendered(words, [table], width=width, color=False, last=last).strip("\n")


def _rendered(
    words: Sequence[str], parts: Sequence[Table], *, width: int, color: bool, last: Sequence[str] = ()
) -> str:
    lines = [fold(printable(sentence), min(width, PROSE)) for sentence in words]
    for table in parts:
        lines += ["", *_lines(table, width=width, color=color)]
    lines += ["", *(fold(printable(sentence), min(width, PROSE), indent=2) for sentence in last)] if last else []
    return "\n".join(lines) + "\n"


def _lines(table: Table, *, width: int, color: bool) -> Iterator[str]:
    prose = min(width, PROSE)
    title = fold(printable(table.title), prose)
    laid = lay_out(table, width, _coloured if color else _plain)
    yield f"{BOLD}{title}{END}" if color else title
    yield ""
    yield from laid.lines
    notes = [*table.notes, *explanations(table, laid.left_out)]
    if laid.left_out:
        notes.append(
            f"Left out at {width} columns: {', '.join(laid.left_out)}. All are there from {laid.needed} columns on, "
            "and in a file or pipe."
        )
    if notes:
        yield ""
    for note in notes:
        text = fold(printable(note), prose, indent=2)
        yield f"{DIM}{text}{END}" if color else text


_plain: Style = lambda text, cell: text  # noqa: E731


def _coloured(text: str, cell: TableCell) -> str:
    return f"{COLOURS[cell.mark]}{text}{END}" if cell.mark else text
