"""A table -> an HTML table in which every text is escaped; marks are classes or, without a style, signs."""

import html
import re

from deepval.report.tables import Table, TableCell

RULE = ' class="rule"'


def table_html(table: Table, *, bare: bool = False) -> str:
    """The table with its title, and its notes below; `bare` writes marks as signs, for pages without a style."""
    text = _signed if bare else _plain
    rows = [row for section in table.sections for row in section]
    wordy = [any(not _numeric(row[i].text) for row in rows) for i in range(len(table.header))]
    head = "".join(
        f'<th scope="col"{_words(w)}>{html.escape(name)}</th>' for name, w in zip(table.header, wordy, strict=True)
    )
    lines, starts = [], {sum(map(len, table.sections[:i])) for i in range(1, len(table.sections))}
    for i, row in enumerate(rows):
        cells = "".join(f"<td{_class(cell, w)}>{text(cell)}</td>" for cell, w in zip(row, wordy, strict=True))
        lines.append(f"<tr{RULE if i in starts else ''}>{cells}</tr>")
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in table.notes)
    inner = (
        f"<caption>{html.escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    )
    return f'<div class="scroll"><table>{inner}</table></div>{notes}'


def _plain(cell: TableCell) -> str:
    return html.escape(cell.text)


def _signed(cell: TableCell) -> str:
    signed = {"better": f"<b>{_plain(cell)}</b>", "worse": f"{_plain(cell)}*"}
    return signed.get(cell.mark, _plain(cell))


def _numeric(text: str) -> bool:
    return not re.search(r"[A-Za-z]{2}", text)


def _words(words: bool) -> str:  # noqa: FBT001
    return ' class="words"' if words else ""


def _class(cell: TableCell, words: bool) -> str:  # noqa: FBT001
    names = [cell.mark] if cell.mark else []
    names += ["words"] if words else []
    return f' class="{" ".join(names)}"' if names else ""
