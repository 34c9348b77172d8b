"""The declarations of the analyses -> docs/generated/analyses.md: what each one shows,
and its columns.

Run: python tools/make_analyses_page.py
"""

from pathlib import Path

from deepval.basics.files.writing import write_atomically
from deepval.paper.analysis import GROUPS, REPORT_ONLY, Analysis, analysis

TARGET = Path(__file__).resolve().parent.parent / "docs" / "generated" / "analyses.md"


def page() -> str:
    """One table of analyses for each group, then the columns of each analysis."""
    lines = ["# Every analysis", ""]
    lines += [
        (
            "`tools/make_analyses_page.py` writes this page from the code; "
            "[analyses.md](../analyses.md) explains it."
        )
    ]
    for heading, names in GROUPS.items():
        lines += [
            "",
            f"## {heading}",
            "",
            "| `deepval analyse ...` | shows | in the paper |",
            "|---|---|---|",
        ]
        lines += [_line(analysis(name)) for name in names if name not in REPORT_ONLY]
    lines += ["", "## Columns", ""]
    lines += [
        (
            "Fields of the rows in CSV and JSON. Fields that several analyses share "
            "are listed with the first one."
        ),
        "",
    ]
    listed: set[tuple[str, str]] = set()
    for name in (
        name for names in GROUPS.values() for name in names if name not in REPORT_ONLY
    ):
        for kind, meanings in analysis(name).meanings.items():
            fields = [
                f"`{field}`: {meaning}"
                for field, meaning in meanings.items()
                if (field, meaning) not in listed
            ]
            listed |= set(meanings.items())
            if fields:
                lines.append(f"- **{name}**, `{kind}`. {'; '.join(fields)}.")
    return "\n".join([*lines, ""])


def _line(declared: Analysis) -> str:
    see = f" ([definition](../{declared.see}))" if declared.see else ""
    data = " Needs the data." if declared.needs_data else ""
    return (
        f"| `{declared.name}` "
        f"| {declared.shows}. {declared.details}{data}{see} | {declared.paper} |"
    )


if __name__ == "__main__":
    write_atomically(TARGET, page())
    print(TARGET)
