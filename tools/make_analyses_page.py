"""The declarations of the analyses -> the tables of docs/analyses.md, between its markers, and the page of columns.

Run: python tools/make_analyses_page.py
"""

from collections.abc import Iterator
from pathlib import Path

from deepval.files.writing import write_atomically
from deepval.paper.analysis import GROUPS, REPORT_ONLY, Analysis, analysis
from deepval.paper.row_columns import columns

TARGET = Path(__file__).resolve().parent.parent / "docs" / "analyses.md"
COLUMNS = TARGET.parent / "generated" / "analysis-columns.md"
START, END = "<!-- made by tools/make_analyses_page.py -->\n", "<!-- end -->\n"


def page(text: str) -> str:
    """The page with its generated part renewed."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}{tables()}{END}{after}"


def tables() -> str:
    """One table of analyses for each group."""
    lines: list[str] = []
    for heading, names in GROUPS.items():
        lines += ["", f"### {heading}", "", "| `deepval analyse ...` | shows | in the paper |", "|---|---|---|"]
        lines += [_line(analysis(name)) for name in names if name not in REPORT_ONLY]
    return "\n".join([*lines, "", ""])


def column_page() -> str:
    """The page with the columns of each analysis."""
    lines = [
        "# Columns of the analyses",
        "",
        "Fields of the rows in CSV and JSON, written by `tools/make_analyses_page.py` from the code. Fields that several",
        "[analyses](../analyses.md) share are listed with the first one.",
        "",
    ]
    listed: set[tuple[str, str]] = set()
    for name in (name for names in GROUPS.values() for name in names if name not in REPORT_ONLY):
        for kind, meanings in _meanings(analysis(name)):
            fields = [f"`{field}`: {meaning}" for field, meaning in meanings if (field, meaning) not in listed]
            listed |= set(meanings)
            if fields:
                lines.append(f"- **{name}**, `{kind}`. {'; '.join(fields)}.")
    return "\n".join([*lines, ""])


def _line(declared: Analysis) -> str:
    page, _, anchor = (declared.see or "").partition("#")
    link = f"{'' if page == TARGET.name else page}#{anchor}"
    see = f" ([definition]({link}))" if declared.see else ""
    data = " Needs the data." if declared.needs_data else ""
    return f"| `{declared.name}` | {declared.shows}. {declared.details}{data}{see} | {declared.paper} |"


def _meanings(declared: Analysis) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The name of each row class, and its fields with their meanings."""
    kinds = declared.kind if isinstance(declared.kind, tuple) else (declared.kind,)
    for kind in () if declared.whole else kinds:
        yield kind.__name__, [(name, column.meaning) for name, column in columns(kind).items()]


if __name__ == "__main__":
    write_atomically(TARGET, page(TARGET.read_text(encoding="utf-8")))
    write_atomically(COLUMNS, column_page())
    print(TARGET, COLUMNS)
