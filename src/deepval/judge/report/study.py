"""A study in plain data (words, tables, charts) -> one Markdown text and one HTML page
in the house style.

The page contains its style and one script, which switches between light and dark and
sorts tables; it loads nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from deepval.judge.report.charts import Chart, dots_svg
from deepval.judge.report.forms import (
    content_policy,
    escape_markdown,
    table_html,
    table_markdown,
)
from deepval.judge.report.text_tables import Table, quantity
from deepval.version import __version__

LONG_TABLE = 30
"""A table of the page with more rows is folded."""
LONG_CHART = 60
"""A chart with more rows is left out: its table is easier to read."""
STYLE = """
main { padding-top: .5rem; }
.facts dd { font-size: 1.7rem; }
section > h3:first-of-type { margin-top: 1.2rem; }
.words { white-space: normal; min-width: 7rem; }
.lacks { margin: .4rem 0; padding-left: 1.2rem; }
.lacks li { margin: .25rem 0; max-width: 60rem; overflow-wrap: anywhere; }
figure svg .mark { stroke: none; } figure svg .bar-line { stroke-width: 1.6; fill: none; }
@media (max-width: 44rem) { figure { overflow-x: auto; } figure svg { min-width: 40rem; } }
"""  # noqa: E501
SERIES = 8
COLOURS = (
    "".join(
        f".d{i} {{ fill: var(--s{i}); stroke: var(--s{i}); }} " for i in range(SERIES)
    )
    + "\n"
)


@dataclass(frozen=True)
class Passage:
    """Words with a chart and tables under one heading.

    Attributes:
        title: The heading; empty if the part's heading is enough.
        words: Paragraphs.
        items: A list of sentences.
        charts: Charts.
        tables: Tables.
        folded: Whether tables of any length are folded on the page.
    """

    title: str = ""
    words: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a study."""

    title: str
    lead: str
    blocks: tuple[Passage, ...]


@dataclass(frozen=True)
class Study:
    """A study.

    Attributes:
        title: Its name.
        sentence: Its conclusion, in one sentence.
        facts: Numbers at the top: name, number, explanation.
        parts: The rest.
    """

    title: str
    sentence: str
    facts: tuple[tuple[str, str, str], ...]
    parts: tuple[Section, ...]


def as_markdown(study: Study) -> str:
    """The study as Markdown."""
    lines = [f"# {escape_markdown(study.title)}", escape_markdown(study.sentence)]
    lines.append(
        "\n".join(
            f"- {escape_markdown(f'{name}: {figure} ({more})')}"
            for name, figure, more in study.facts
        )
    )
    for part in study.parts:
        lines += [f"## {escape_markdown(part.title)}", escape_markdown(part.lead)]
        for block in part.blocks:
            lines += [f"### {escape_markdown(block.title)}"] if block.title else []
            lines += map(escape_markdown, block.words)
            lines += ["\n".join(f"- {escape_markdown(item)}" for item in block.items)]
            lines += map(table_markdown, block.tables)
    return "\n\n".join(filter(None, lines)) + "\n"


def as_html(study: Study) -> str:
    """The study as one page that loads nothing."""
    style = f"\n{_file('style.css')}{STYLE}{COLOURS}"
    head = f"\n{_file('head.js')}{_file('study.js')}"
    policy = content_policy(styles=[style], scripts=[head], images="data:")
    links = "".join(
        f'<a href="#{_anchor(part.title)}">{escape(part.title)}</a>'
        for part in study.parts
    )
    body = [
        '<a class="skip" href="#page">Skip to the study</a>',
        '<header class="masthead"><div class="brand">deepval<span>is the expensive '
        "mode worth it, for the decision that follows?</span></div>"
        '<button type="button" id="theme" class="quiet" aria-label="Switch between '
        'light and dark">◐</button></header>',
        (
            '<div class="bar"><div class="bar-inner">'
            f'<nav aria-label="Parts">{links}</nav></div></div>'
        ),
        '<main id="page" tabindex="-1">',
        (
            '<section class="hero"><p '
            f'class="kicker">{escape(study.title)}</p><h1>{escape(study.sentence)}</h1>'
        ),
        '<dl class="facts">',
        *(
            f"<div><dt>{escape(n)}</dt><dd>{escape(figure)}<small>{escape(more)}</small></dd></div>"
            for n, figure, more in study.facts
        ),
        "</dl></section>",
        *(line for part in study.parts for line in _section(part)),
        "</main>",
        (
            f"<footer><p>Made by deepval {__version__}. This page loads nothing from "
            "anywhere.</p></footer>"
        ),
    ]
    return (
        '<!doctype html>\n<html lang="en" data-theme="light">\n<head>\n'
        '<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(study.title)}</title>\n<style>{style}</style>\n"
        f"<script>{head}</script>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _section(part: Section) -> Iterator[str]:
    yield (
        f'<section id="{_anchor(part.title)}"><h2>{escape(part.title)}</h2>'
        f'<p class="lead">{escape(part.lead)}</p>'
    )
    for block in part.blocks:
        yield from _block(block)
    yield "</section>"


def _block(block: Passage) -> Iterator[str]:
    if block.title:
        yield f"<h3>{escape(block.title)}</h3>"
    yield from (f"<p>{escape(words)}</p>" for words in block.words)
    if block.items:
        yield (
            "<ul "
            "class="
            f'"lacks">{"".join(f"<li>{escape(item)}</li>" for item in block.items)}</'
            "ul>"
        )
    for chart in block.charts:
        if len(chart.rows) <= LONG_CHART and any(
            dot.point is not None for dot in chart.dots
        ):
            yield f"<figure>{dots_svg(chart)}</figure>"
    for table in block.tables:
        rows = sum(map(len, table.sections))
        if block.folded or rows > LONG_TABLE:
            head = f"<summary>{escape(table.title)}: {quantity(rows, 'row')}</summary>"
            yield f'<details class="behind">{head}{table_html(table)}</details>'
        else:
            yield table_html(table)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _file(name: str) -> str:
    return files("deepval.judge.report.html").joinpath(name).read_text(encoding="utf-8")


def with_subject(table: Table, of: str) -> Table:
    """The table with its subject in its title."""
    return Table(
        f"{table.title}, {of}", table.header, table.sections, table.notes, table.extra
    )


def nonempty(tables: Sequence[Table]) -> tuple[Table, ...]:
    """The tables that have rows."""
    return tuple(table for table in tables if any(table.sections))
