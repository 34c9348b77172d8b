"""A leaderboard's content -> a Markdown page and a small HTML page without scripts or network access, text escaped."""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepval.report.forms import content_policy, escape_markdown, table_markdown
from deepval.report.text_tables import MISSING, Mark, Table, TableCell, interval, number, percent
from deepval.results import ALWAYS, UNITS, BudgetKey
from deepval.tables.scores import REFERENCES

HEADER = ("rank", "allocator", "vs random", "95 %", "verdict", "nDG", "95 %", "gain", "benefit", "harm")
READING = (
    "Rank: 1 + the number of allocators that are resolvedly better; those that nothing tells apart share a rank. "
    "In brackets, the ranks that paired intervals allow. Gain, benefit, harm and the difference with random are shares "
    "of the all-cheap loss on test units, equal-weight means over cells. Oracle, always, never and random are "
    "references. "
    "Flagged submissions stand apart with the reason: they are not ranked."
)
STYLE = """
:root { color-scheme: light dark; --paper: #faf8f4; --card: #fff; --ink: #1c2329; --soft: #59636d; --line: #e4e0d7;
  --better: #2a6fb0; --worse: #b54d14; --serif: "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif; }
@media (prefers-color-scheme: dark) { :root { --paper: #13171b; --card: #1a2026; --ink: #e7eaed; --soft: #aab4bd;
  --line: #2b343c; --better: #6fb1ec; --worse: #f19a5f; } }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76rem;
  margin: 2.5rem auto; padding: 0 1.2rem; }
h1, h2 { font-family: var(--serif); font-weight: 500; } h1 { font-size: 2.2rem; margin: 0; } h2 { margin-top: 2.6rem; }
h3 { font-size: 1rem; margin: 0 0 .4rem; } p, li { color: var(--soft); max-width: 46rem; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.2rem 1.4rem;
  margin: 1rem 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th { font-weight: 400; color: var(--soft); }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:nth-child(2), td:nth-child(2) { text-align: left; }
tr:not(.reference) td:nth-child(2) { font-weight: 600; }
.reference td { color: var(--soft); font-style: italic; }
.better { color: var(--better); font-weight: 600; } .worse { color: var(--worse); font-weight: 600; }
@media print { body { background: none; margin: 0; } section { break-inside: avoid; } }
""".strip()


def as_markdown(board: Mapping[str, Any]) -> str:
    """The page as Markdown text."""
    parts = ["# Leaderboard", *map(escape_markdown, _opening(board))]
    for track in board["tracks"]:
        parts.append(f"## {escape_markdown(track['title'])}")
        parts += [table_markdown(table) for table in _tables(track, _reasons(board))]
    for title, lines in _lists(board):
        parts += [f"## {escape_markdown(title)}", "\n".join(f"- {escape_markdown(line)}" for line in lines)]
    return "\n\n".join(parts) + "\n"


def as_html(board: Mapping[str, Any]) -> str:
    """The page as one HTML file that loads and runs nothing."""
    parts = ["<h1>Leaderboard</h1>", *(f"<p>{html.escape(line)}</p>" for line in _opening(board))]
    for track in board["tracks"]:
        parts.append(f"<h2>{html.escape(track['title'])}</h2>")
        parts += [_html_table(table) for table in _tables(track, _reasons(board))]
    for title, lines in _lists(board):
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        parts.append(f"<h2>{html.escape(title)}</h2><ul>{items}</ul>")
    policy = content_policy(styles=[f"\n{STYLE}\n"])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Leaderboard</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{STYLE}\n</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _opening(board: Mapping[str, Any]) -> Iterator[str]:
    counted = f"{len(board['submissions'])} submissions on {len(board['cells'])} cells, {len(board['refused'])} refused"
    draws = board["draws"]
    yield f"{counted}; {draws['number']:,} draws of test units, seed {draws['seed']}; deepval {board['deepval']}."
    yield READING


def _reasons(board: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Per flagged submission, the reasons why it is not ranked."""
    return {entry["allocator"]: entry["flags"] for entry in board["submissions"] if entry["flags"]}


def _tables(track: Mapping[str, Any], reasons: Mapping[str, Sequence[str]]) -> Iterator[Table]:
    """The track's mean under every kind of budget at the headline share, then each of its cells by selection.

    Flagged submissions follow each table in a table of their own.
    """
    of = track["cells_of_track"]
    built = f"{len(track['cells'])} cells" if of is None else f"{len(track['cells'])} of {of} cells"
    notes = [f"{track['comparisons']} comparisons with random over all budgets."]
    notes += [f"{name} lacks {', '.join(missing)}." for name, missing in sorted(track["incomplete"].items())]
    flagged = track["flagged"]
    for budget in dict.fromkeys(map(BudgetKey.of, track["overall"])):
        if budget.alpha == track["headline_alpha"]:
            title = f"Overall, {built}, {budget.label}"
            yield _table(title, _at(budget, track["overall"]), notes if budget.kind == "selection" else [])
            yield from _flagged_table(title, _at(budget, flagged["overall"]), reasons)
    headline = BudgetKey("selection", track["headline_alpha"])
    for cell, rows in track["by_cell"].items():
        title = f"{cell}, {headline.label}"
        yield _table(title, _at(headline, rows), [])
        yield from _flagged_table(title, _at(headline, flagged["by_cell"][cell]), reasons)


def _flagged_table(
    title: str, rows: Sequence[Mapping[str, Any]], reasons: Mapping[str, Sequence[str]]
) -> Iterator[Table]:
    names = sorted({row["allocator"] for row in rows})
    if names:
        yield _table(
            f"{title}: flagged, not ranked", rows, [f"{name}: {reason}." for name in names for reason in reasons[name]]
        )


def _at(budget: BudgetKey, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if BudgetKey.of(row) == budget]


def _table(title: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> Table:
    reasons = sorted({f"{row['allocator']}: {row['reason']}." for row in rows if row["reason"]})
    entered = tuple(_row(row) for row in rows if row["allocator"] not in REFERENCES)
    references = tuple(_row(row) for row in rows if row["allocator"] in REFERENCES)
    table = Table(title, HEADER, (entered, references), (*notes, *reasons))
    if len({row["oracle"] for row in rows if row["oracle"]}) < 2:
        return table
    order = sorted(rows, key=lambda row: row["allocator"] in REFERENCES)
    return table.with_column("nDG", "measured by", [f"{row['oracle']}, {row['chance']}" for row in order])


def _row(row: Mapping[str, Any]) -> tuple[TableCell, ...]:
    beaten = row.get("never_verdict") == "worse"
    mark: Mark = "worse" if row["verdict"] == "worse" else "better" if row["verdict"] == "better" and not beaten else ""
    words = f"{row['verdict'] or MISSING}{', but never is better' if beaten and row['verdict'] != 'worse' else ''}"
    rank = MISSING if row["rank"] is None else f"{row['rank']} [{row['rank']}-{row['rank_hi']}]"
    return (
        TableCell(rank),
        TableCell(ALWAYS if row["allocator"] == "all-full" else row["allocator"]),
        TableCell(percent(row["versus_random"]), mark),
        TableCell(interval(row["versus_random_lo"], row["versus_random_hi"], percent)),
        TableCell("reference" if row["allocator"] in REFERENCES else words),
        TableCell(number(row["ndg"])),
        TableCell(interval(row["ndg_lo"], row["ndg_hi"])),
        *(TableCell(percent(row[f"{part}_share"])) for part in ("gain", "benefit", "harm")),
    )


def _lists(board: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    entries = board["submissions"]
    noted = [f"{entry['allocator']}: {note}." for entry in entries for note in entry["integrity"]]
    noted += [f"{entry['allocator']}: {remark}" for entry in entries for remark in entry["remarks"]]
    unlike = [(name, cell["unlike"]) for name, cell in board["cells"].items() if cell["unlike"]]
    if unlike:
        differences = [f"{name} is not {like['cell']}: {'; '.join(like['because'])}." for name, like in unlike]
        yield "Cells called after official ones", differences
    yield "Integrity notes", noted or ["None."]
    yield "Submissions", [_description(entry) for entry in entries] or ["None."]
    refused = [f"{item['folder']}: {' '.join(item['reasons'])}" for item in board["refused"]]
    yield "Refused", refused or ["None."]


def _description(entry: Mapping[str, Any]) -> str:
    looks = ", ".join(entry["inputs"]) or "nothing"
    costs = [
        f"{' and '.join(f'{cost:g} {UNITS[unit]}' for unit, cost in figures.items())} under {profile}: "
        f"{entry['measured'][profile]}"
        for profile, figures in entry["costs"].items()
    ]
    parts = [f"{entry['allocator']} looks at {looks}", *costs, f"digest {entry['digest'][:12]}"]
    return "; ".join(parts) + "." + (f" Notes: {entry['notes']}" if entry["notes"] else "")


def _html_table(table: Table) -> str:
    lines = [f"<section><h3>{html.escape(table.title)}</h3><table>"]
    lines.append("<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in table.header) + "</tr>")
    for section, kind in zip(table.sections, ("", ' class="reference"'), strict=True):
        for row in section:
            cells = "".join(f"<td{_class(cell)}>{html.escape(cell.text)}</td>" for cell in row)
            lines.append(f"<tr{kind}>{cells}</tr>")
    notes = (f"<p>{html.escape(note)}</p>" for note in table.notes)
    return "\n".join([*lines, "</table>", *notes, "</section>"])


def _class(cell: TableCell) -> str:
    return f' class="{cell.mark}"' if cell.mark else ""
