"""Result -> LaTeX tables (booktabs): bold if an allocator beats random, an asterisk if it loses to random."""

from deepval.report.headline import headline
from deepval.report.tables import Table, TableCell, tables
from deepval.results import Result

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "–": "--",
}  # fmt: skip


def render(result: Result) -> str:
    """The result as LaTeX tables, with the setting in words as comments above."""
    head = [f"% {line}" for line in (*headline(result), *(f"Note: {w}" for w in result.warnings))]
    return "\n".join([*head, "% needs \\usepackage{booktabs}", *map(table_text, tables(result))]) + "\n"


def table_text(table: Table) -> str:
    """One table as LaTeX."""
    columns = "ll" + "r" * (len(table.header) - 2)
    body = " \\midrule\n".join("".join(_line(row) for row in section) for section in table.sections)
    notes = " ".join(_escaped(note) for note in table.notes)
    return (
        "\\begin{table}[t]\n\\centering\n\\small\n"
        f"\\caption{{{_escaped(table.title)}. {notes}}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
        + _line([TableCell(name) for name in table.header])
        + "\\midrule\n"
        + body
        + "\\bottomrule\n\\end{tabular}\n\\end{table}"
    )


def _line(cells: list[TableCell] | tuple[TableCell, ...]) -> str:
    return " & ".join(_marked(cell) for cell in cells) + " \\\\\n"


def _marked(cell: TableCell) -> str:
    text = _escaped(cell.text)
    return f"\\textbf{{{text}}}" if cell.mark == "better" else f"{text}$^{{*}}$" if cell.mark == "worse" else text


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(sign, " " if ord(sign) < 32 else sign) for sign in text)
