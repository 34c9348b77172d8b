"""Result -> Markdown tables: bold where an allocator beats random, an asterisk where it loses to it."""

from deepval.report.headline import headline
from deepval.report.tables import Table, TableCell, tables
from deepval.results import Result


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
    """Text that Markdown and the HTML in it leave as it is."""
    for sign in "\\`*_|<>[]":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")
