"""Results and tables -> CSV, Markdown, LaTeX and HTML, every text escaped; the content
policy of an HTML page.

Markdown and LaTeX print an allocator that beats random in bold, and put an asterisk
after one that loses to random.
"""

import csv
import html
import io
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deepval.basics.files.canonical import sha256
from deepval.judge.report import console
from deepval.judge.report.tables import headline, result_tables
from deepval.judge.report.text_tables import Table, TableCell
from deepval.judge.results import Result, Row

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def result_csv(result: Result) -> str:
    """The rows as CSV text."""
    rows = (*result.rows, *result.slices)
    return _csv(
        Row.columns(), ((dict(row) | {"allocator": row.name}).values() for row in rows)
    )


def records_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records with the same fields as CSV text; the items of a list are separated by
    spaces.
    """
    return _csv(
        records[0] if records else (),
        (map(_csv_list, record.values()) for record in records),
    )


def _csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_csv_cell, row) for row in rows)
    return out.getvalue()


def _csv_list(value: Any) -> Any:
    return (
        " ".join("" if item is None else str(item) for item in value)
        if isinstance(value, list | tuple)
        else value
    )


def _csv_cell(value: object) -> object:
    """The value; text that a spreadsheet would evaluate as a formula gets a leading
    apostrophe.
    """
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(FORMULA)
        else ""
        if value is None
        else value
    )


ACTIVE = re.compile(
    r"""
    (?<![^\W_])@ | @[\w-]+\. | \$        # @names (not within a word), e-mail addresses, mathematics
    | :// | www\. | mailto: | xmpp:       # addresses
    | \#\d | \bGH-\d                     # issues
    | :[+-]1: | :\w*[a-z][\w+-]*:         # emoji
    | (?<![^\W_])[0-9a-f]{7,40}(?![^\W_])  # commits
    """,  # noqa: E501
    re.VERBOSE | re.IGNORECASE,
)
"""Text that GitHub turns into a link, a picture or a formula, even after a
backslash.
"""
LINE_START = re.compile(r"^(\d{0,9})([-+.)#](?=\s)|(?:---|===))")
"""Signs at the start of a line that begin a list, a heading or a rule."""


def result_markdown(result: Result) -> str:
    """The result as Markdown text."""
    sentences = (
        *headline(result),
        *(f"Note: {warning}" for warning in result.warnings),
    )
    return (
        "\n\n".join(
            [
                *map(escape_markdown, sentences),
                *map(table_markdown, result_tables(result)),
            ]
        )
        + "\n"
    )


def table_markdown(table: Table) -> str:
    """One table as Markdown, with its title above and its notes below."""
    rule = ["---"] * len(table.header)
    lines = [
        f"**{escape_markdown(table.title)}**",
        "",
        _markdown_line(table.header),
        _markdown_line(rule),
    ]
    lines += [
        _markdown_line([_markdown_cell(cell) for cell in row])
        for section in table.sections
        for row in section
    ]
    return "\n".join([*lines, *(f"\n{escape_markdown(note)}" for note in table.notes)])


def _markdown_line(texts: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(texts) + " |"


def _markdown_cell(cell: TableCell) -> str:
    text = escape_markdown(cell.text)
    return (
        f"**{text}**"
        if cell.mark == "better"
        else f"{text}\\*"
        if cell.mark == "worse"
        else text
    )


def escape_markdown(text: str) -> str:
    """Markdown that GitHub renders as exactly this text.

    A backslash prevents a sign from being markup. It does not prevent GitHub from
    linking an address, a name or a number after rendering, or from typesetting
    mathematics: words with one of those become code spans, in which GitHub does
    neither. Pipes stay outside code spans, where a backslash means the same in a table
    as elsewhere.
    """
    words = re.split(r"([\s|]+)", text.strip())
    line = "".join(
        _code_span(word) if ACTIVE.search(word) else _escape_signs(word)
        for word in words
    )
    return LINE_START.sub(r"\1\\\2", line)


def _escape_signs(text: str) -> str:
    return re.sub(r"[\\`*_|<>\[\]&~]", r"\\\g<0>", re.sub(r"\s", " ", text))


def _code_span(word: str) -> str:
    """A code span whose fence is longer than any run of backticks in it."""
    fence = "`" * (1 + max(map(len, re.findall("`+", word)), default=0))
    pad = " " * ("`" in word)
    return f"{fence}{pad}{word}{pad}{fence}"


SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
}


def result_latex(result: Result) -> str:
    """The result as LaTeX tables, with the setting in words as comments above."""
    head = [
        f"% {line}"
        for line in (*headline(result), *(f"Note: {w}" for w in result.warnings))
    ]
    return (
        "\n".join(
            [
                *head,
                "% needs \\usepackage{booktabs}",
                *map(table_latex, result_tables(result)),
            ]
        )
        + "\n"
    )


def table_latex(table: Table) -> str:
    """One table as LaTeX."""
    columns = "ll" + "r" * (len(table.header) - 2)
    body = " \\midrule\n".join(
        "".join(_latex_line(row) for row in section) for section in table.sections
    )
    notes = " ".join(_escape_latex(note) for note in table.notes)
    return (
        "\\begin{table}[t]\n\\centering\n\\small\n"
        f"\\caption{{{_escape_latex(table.title)}. {notes}}}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
        + _latex_line([TableCell(name) for name in table.header])
        + "\\midrule\n"
        + body
        + "\\bottomrule\n\\end{tabular}\n\\end{table}"
    )


def _latex_line(cells: list[TableCell] | tuple[TableCell, ...]) -> str:
    return " & ".join(_latex_cell(cell) for cell in cells) + " \\\\\n"


def _latex_cell(cell: TableCell) -> str:
    text = _escape_latex(cell.text)
    return (
        f"\\textbf{{{text}}}"
        if cell.mark == "better"
        else f"{text}$^{{*}}$"
        if cell.mark == "worse"
        else text
    )


def _escape_latex(text: str) -> str:
    return "".join(SPECIAL.get(sign, " " if ord(sign) < 32 else sign) for sign in text)


RULE = ' class="rule"'


def table_html(table: Table, *, bare: bool = False) -> str:
    """The table with its title, and its notes below; `bare` writes marks as signs, for
    pages without a style.
    """
    text = _html_with_signs if bare else _html_text
    rows = [row for section in table.sections for row in section]
    kinds = [
        "words" if any(not _is_number(row[i].text) for row in rows) else ""
        for i in range(len(table.header))
    ]
    head = "".join(
        f'<th scope="col"{_class(kind)}>{html.escape(name)}</th>'
        for name, kind in zip(table.header, kinds, strict=True)
    )
    lines, starts = (
        [],
        {sum(map(len, table.sections[:i])) for i in range(1, len(table.sections))},
    )
    for i, row in enumerate(rows):
        cells = "".join(
            f"<td{_class(cell.mark, k)}>{text(cell)}</td>"
            for cell, k in zip(row, kinds, strict=True)
        )
        lines.append(f"<tr{RULE if i in starts else ''}>{cells}</tr>")
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in table.notes)
    inner = (
        f"<caption>{html.escape(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody>"
    )
    return f'<div class="scroll"><table>{inner}</table></div>{notes}'


def _html_text(cell: TableCell) -> str:
    return html.escape(cell.text)


def _html_with_signs(cell: TableCell) -> str:
    signed = {"better": f"<b>{_html_text(cell)}</b>", "worse": f"{_html_text(cell)}*"}
    return signed.get(cell.mark, _html_text(cell))


def _is_number(text: str) -> bool:
    return not re.search(r"[A-Za-z]{2}", text)


def _class(*names: str) -> str:
    classes = " ".join(filter(None, names))
    return f' class="{classes}"' if classes else ""


def content_policy(
    *, styles: Sequence[str], scripts: Sequence[str] = (), images: str = ""
) -> str:
    """The policy of a page, for its <meta>.

    Args:
        styles: The exact texts of its <style> elements.
        scripts: The exact texts of its <script> elements.
        images: Allowed sources of pictures, such as `data:`.
    """
    sources = {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "style-src": " ".join(map(_source_hash, styles)),
        "script-src": " ".join(map(_source_hash, scripts)),
        "img-src": images,
    }
    return "; ".join(f"{name} {source}" for name, source in sources.items() if source)


def _source_hash(text: str) -> str:
    return f"'sha256-{b64encode(bytes.fromhex(sha256(text.encode()))).decode()}'"


FORMS: dict[str, Callable[[Result], str]] = {
    "text": console.render,
    "csv": result_csv,
    "markdown": result_markdown,
    "latex": result_latex,
    "json": Result.to_json,
}
"""Name of the format on the command line -> function from a result to text."""
