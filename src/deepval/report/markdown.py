"""Result -> Markdown tables: bold if an allocator beats random, an asterisk if it loses to random."""

import re

from deepval.report.headline import headline
from deepval.report.tables import Table, TableCell, tables
from deepval.results import Result

ACTIVE = re.compile(
    r"""
    (?<![^\W_])@ | @[\w-]+\. | \$        # @names (not within a word), e-mail addresses, mathematics
    | :// | www\. | mailto: | xmpp:       # addresses
    | \#\d | \bGH-\d                     # issues
    | :[+-]1: | :\w*[a-z][\w+-]*:         # emoji
    | (?<![^\W_])[0-9a-f]{7,40}(?![^\W_])  # commits
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Text that GitHub turns into a link, a picture or a formula, even after a backslash."""
LINE_START = re.compile(r"^(\d{0,9})([-+.)#](?=\s)|(?:---|===))")
"""Signs at the start of a line that begin a list, a heading or a rule."""


def render(result: Result) -> str:
    """The result as Markdown text."""
    notes = [f"Note: {warning}" for warning in result.warnings]
    return "\n\n".join([*map(escaped, headline(result)), *map(escaped, notes), *map(table_text, tables(result))]) + "\n"


def table_text(table: Table) -> str:
    """One table as Markdown, with its title above and its notes below."""
    lines = [f"**{escaped(table.title)}**", "", _line(table.header), _line(["---"] * len(table.header))]
    lines += [_line([_marked(cell) for cell in row]) for section in table.sections for row in section]
    return "\n".join([*lines, *(f"\n{escaped(note)}" for note in table.notes)])


def _line(texts: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(texts) + " |"


def _marked(cell: TableCell) -> str:
    text = escaped(cell.text)
    return f"**{text}**" if cell.mark == "better" else f"{text}\\*" if cell.mark == "worse" else text


def escaped(text: str) -> str:
    """Markdown that GitHub renders as exactly this text.

    A backslash prevents a sign from being markup. It does not prevent GitHub from linking an address, a name or a
    number after rendering, or from typesetting mathematics: words with one of those become code spans, in which GitHub
    does neither. Pipes stay outside code spans, where a backslash means the same in a table as elsewhere.
    """
    words = re.split(r"([\s|]+)", text.strip())
    line = "".join(_code(word) if ACTIVE.search(word) else _plain(word) for word in words)
    return LINE_START.sub(r"\1\\\2", line)


def _plain(text: str) -> str:
    return re.sub(r"[\\`*_|<>\[\]&~]", r"\\\g<0>", re.sub(r"\s", " ", text))


def _code(word: str) -> str:
    """A code span whose fence is longer than any run of backticks in it."""
    fence = "`" * (1 + max(map(len, re.findall("`+", word)), default=0))
    pad = " " * ("`" in word)
    return f"{fence}{pad}{word}{pad}{fence}"
