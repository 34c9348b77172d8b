"""A leaderboard's content -> a study: a page in the house style with sortable tables,
and Markdown for a comment.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepval.basics.errors import few
from deepval.judge.report import study
from deepval.judge.report.charts import Chart, Dot, shares
from deepval.judge.report.study import LONG_CHART, Passage, Section, Study
from deepval.judge.report.text_tables import (
    MISSING,
    Mark,
    Table,
    TableCell,
    interval,
    mark_of,
    number,
    percent,
    quantity,
)
from deepval.judge.results import ALWAYS, UNITS, BudgetKey
from deepval.judge.tables.scores import REFERENCES

HEADER = (
    "rank",
    "allocator",
    "vs random",
    "95 %",
    "verdict",
    "nDG",
    "95 %",
    "gain",
    "benefit",
    "harm",
)
READING = (
    "Rank: 1 + the number of submissions that are shown to be better; those that "
    "cannot be told apart share a rank. In brackets, the ranks that paired intervals "
    "allow. Gain, benefit, harm and the difference with random are shares of the "
    "all-cheap loss on test units, equal-weight means over cells. Oracle, always, "
    "never and random are references. Flagged submissions stand apart with the "
    "reason: they are not ranked."
)


def as_markdown(board: Mapping[str, Any]) -> str:
    """The board as Markdown, short enough for the comment on a pull request: without
    the tables of single cells.
    """
    return study.as_markdown(_study(board, by_cell=False))


def as_html(board: Mapping[str, Any]) -> str:
    """The board as one HTML page that loads nothing and runs only its own script, which
    sorts tables.
    """
    return study.as_html(_study(board, by_cell=True))


def _study(board: Mapping[str, Any], *, by_cell: bool) -> Study:
    reasons = {
        entry["allocator"]: entry["flags"]
        for entry in board["submissions"]
        if entry["flags"]
    }
    draws = board["draws"]
    facts = (
        (
            "submissions",
            str(len(board["submissions"])),
            f"{len(reasons)} flagged, {len(board['refused'])} refused",
        ),
        (
            "cells",
            str(len(board["cells"])),
            f"{quantity(len(board['tracks']), 'track')}; test units only",
        ),
        (
            "draws",
            f"{draws['number']:,}",
            f"of test units, seed {draws['seed']}; deepval {board['deepval']}",
        ),
    )
    tracks = [
        Section(t["title"], READING, tuple(_passages(t, reasons, by_cell=by_cell)))
        for t in board["tracks"]
    ]
    lists = [
        Section(title, "", (Passage(items=tuple(lines)),))
        for title, lines in _lists(board)
    ]
    # first, because whoever asked for a place must read why it was not given
    if board["refused"]:
        lists, tracks = lists[:-1], [lists[-1], *tracks]
    return Study("Leaderboard", _conclusion(board), facts, (*tracks, *lists))


def _conclusion(board: Mapping[str, Any]) -> str:
    """Who is first in each track, if better than random and than never escalating."""
    sentences = []
    for track in board["tracks"]:
        first = [
            row for row in _at(_headline(track), track["overall"]) if row["rank"] == 1
        ]
        best = [row["allocator"] for row in first if _mark(row) == "better"]
        leads = f"first rank and better than random: {few(best, 6)}"
        sentences.append(
            f"{track['title']}: "
            f"{leads if best else 'no submission is shown to be worth it'}."
        )
    return " ".join(sentences) or "There are no cells to judge submissions on."


def _headline(track: Mapping[str, Any]) -> BudgetKey:
    return BudgetKey("selection", track["headline_alpha"])


def _passages(
    track: Mapping[str, Any], reasons: Mapping[str, Sequence[str]], *, by_cell: bool
) -> Iterator[Passage]:
    """The track's mean under every kind of budget at the headline share, then its
    cells, then flagged submissions.
    """
    of, headline, flagged = track["cells_of_track"], _headline(track), track["flagged"]
    built = (
        quantity(len(track["cells"]), "cell")
        if of is None
        else f"{len(track['cells'])} of {of} cells"
    )
    notes = [f"{track['comparisons']} comparisons with random over all budgets."]
    notes += [
        f"{name} lacks {', '.join(missing)}."
        for name, missing in sorted(track["incomplete"].items())
    ]
    pages = [
        (
            f"Overall, {built}, {budget.label}",
            budget,
            track["overall"],
            flagged["overall"],
        )
        for budget in dict.fromkeys(map(BudgetKey.of, track["overall"]))
        if budget.alpha == track["headline_alpha"]
    ]
    tables = [
        _table(title, _at(at, rows), notes if at == headline else [])
        for title, at, rows, _ in pages
    ]
    yield Passage(
        charts=(_chart(_at(headline, track["overall"])),), tables=tuple(tables)
    )
    yield Passage("Cell by cell", tables=(_matrix(track["by_cell"], headline),))
    if by_cell:
        single = (
            _table(f"{c}, {headline.label}", _at(headline, rows), [])
            for c, rows in track["by_cell"].items()
        )
        yield Passage(tables=tuple(single), folded=True)
    names = sorted(
        {
            row["allocator"]
            for rows in (flagged["overall"], *flagged["by_cell"].values())
            for row in rows
        }
    )
    if names:
        why = tuple(f"{name}: {reason}." for name in names for reason in reasons[name])
        apart = [
            _table(f"{title}: flagged, not ranked", _at(at, rows), [])
            for title, at, _, rows in pages
            if rows
        ]
        yield Passage("Apart: flagged, not ranked", items=why, tables=tuple(apart))


def _chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """The pooled differences with random of those that have a rank, with the ranks that
    are possible.
    """
    ranked = [row for row in rows if row["rank"] is not None][:LONG_CHART]
    bounds = ("versus_random", "versus_random_lo", "versus_random_hi")
    dots = (
        Dot(
            f"{row['allocator']}, rank {_ranks(row)}",
            "",
            *(row[name] for name in bounds),
        )
        for row in ranked
    )
    return shares(
        "difference with random, share of the all-cheap loss, with its 95 % interval",
        dots,
        line=0.0,
    )


def _matrix(
    by_cell: Mapping[str, Sequence[Mapping[str, Any]]], budget: BudgetKey
) -> Table:
    """Differences with random: a row per submission, a column per cell."""
    columns = {
        cell: {row["allocator"]: row for row in _at(budget, rows)}
        for cell, rows in by_cell.items()
    }
    names = sorted(
        {
            name
            for column in columns.values()
            for name in column
            if name not in REFERENCES
        }
    )
    rows = tuple(
        (
            TableCell(name),
            *(_difference(column.get(name)) for column in columns.values()),
        )
        for name in names
    )
    title = f"Difference with random in each cell, {budget.label}"
    return Table(
        title, ("allocator", *columns), (rows,), ("A dash: not judged there.",)
    )


def _difference(row: Mapping[str, Any] | None) -> TableCell:
    return (
        TableCell(MISSING)
        if row is None
        else TableCell(percent(row["versus_random"]), _mark(row))
    )


def _ranks(row: Mapping[str, Any]) -> str:
    return (
        str(row["rank"] or MISSING)
        if row["rank"] == row["rank_hi"]
        else f"{row['rank']}-{row['rank_hi']}"
    )


def _at(
    budget: BudgetKey, rows: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    return [row for row in rows if BudgetKey.of(row) == budget]


def _table(
    title: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str]
) -> Table:
    reasons = sorted(
        {f"{_name(row)}: {row['reason']}." for row in rows if row["reason"]}
    )
    entered = tuple(_row(row) for row in rows if row["allocator"] not in REFERENCES)
    references = tuple(_row(row) for row in rows if row["allocator"] in REFERENCES)
    table = Table(title, HEADER, (entered, references), (*notes, *reasons))
    if len({row["oracle"] for row in rows if row["oracle"]}) < 2:
        return table
    order = sorted(rows, key=lambda row: row["allocator"] in REFERENCES)
    return table.with_column(
        "nDG", "measured by", [f"{row['oracle']}, {row['chance']}" for row in order]
    )


def _name(row: Mapping[str, Any]) -> str:
    return ALWAYS if row["allocator"] == "all-full" else row["allocator"]


def _mark(row: Mapping[str, Any]) -> Mark:
    """The mark of a row: no good news if never escalating is better."""
    return (
        ""
        if row["verdict"] == "better" and row.get("never_verdict") == "worse"
        else mark_of(row["verdict"])
    )


def _row(row: Mapping[str, Any]) -> tuple[TableCell, ...]:
    beaten = row.get("never_verdict") == "worse"
    words = (
        f"{row['verdict'] or MISSING}"
        f"{', but never is better' if beaten and row['verdict'] != 'worse' else ''}"
    )
    rank = (
        MISSING
        if row["rank"] is None
        else f"{row['rank']} [{row['rank']}-{row['rank_hi']}]"
    )
    return (
        TableCell(rank),
        TableCell(_name(row)),
        _difference(row),
        TableCell(interval(row["versus_random_lo"], row["versus_random_hi"], percent)),
        TableCell("reference" if row["allocator"] in REFERENCES else words),
        TableCell(number(row["ndg"])),
        TableCell(interval(row["ndg_lo"], row["ndg_hi"])),
        *(
            TableCell(percent(row[f"{part}_share"]))
            for part in ("gain", "benefit", "harm")
        ),
    )


def _lists(board: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    entries = board["submissions"]
    noted = [
        f"{entry['allocator']}: {note}."
        for entry in entries
        for note in entry["integrity"]
    ]
    noted += [
        f"{entry['allocator']}: {remark}"
        for entry in entries
        for remark in entry["remarks"]
    ]
    unlike = [
        (name, cell["unlike"])
        for name, cell in board["cells"].items()
        if cell["unlike"]
    ]
    if unlike:
        differences = [
            f"{name} is not {like['cell']}: {'; '.join(like['because'])}."
            for name, like in unlike
        ]
        yield "Cells called after official ones", differences
    yield "Notes", noted or ["None."]
    yield "Submissions", [_description(entry) for entry in entries] or ["None."]
    refused = [
        f"{item['folder']}: {reason}"
        for item in board["refused"]
        for reason in item["reasons"]
    ]
    yield "Refused", refused or ["None."]


def _description(entry: Mapping[str, Any]) -> str:
    looks = ", ".join(entry["inputs"]) or "nothing"
    costs = [
        f"{' and '.join(f'{cost:g} {UNITS[unit]}' for unit, cost in figures.items())} "
        f"under {profile}: {entry['measured'][profile]}"
        for profile, figures in entry["costs"].items()
    ]
    parts = [
        f"{entry['allocator']} looks at {looks}",
        *costs,
        f"digest {entry['digest'][:12]}",
    ]
    return (
        "; ".join(parts) + "." + (f" Notes: {entry['notes']}" if entry["notes"] else "")
    )
