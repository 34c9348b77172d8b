"""A run -> its report as HTML, Markdown and JSON: figures beside the paper's, then
every table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepval.basics.files.canonical import json_text, plain
from deepval.basics.files.writing import write_atomically
from deepval.deploy.board.tracks import LOCAL_NOTE, tracked_cell
from deepval.judge.report.forms import records_csv, table_latex
from deepval.judge.report.study import (
    Passage,
    Section,
    Study,
    as_html,
    as_markdown,
    nonempty,
    with_subject,
)
from deepval.judge.report.text_tables import Table, interval, lines_of, number, quantity
from deepval.judge.results import lists_by_key
from deepval.paper.analysis import ANALYSES, GROUPS, Analysis, analysis
from deepval.paper.published_figures import (
    LEAST_AFFECTED,
    LEAST_UNITS,
    SOURCE,
    Beside,
    BesidePaper,
    Records,
    compare_with_paper,
    records_of,
)
from deepval.paper.run import Run
from deepval.paper.tables import (
    HARDWARE,
    TABLES,
    NoFiguresError,
    analyses_of,
    paper_tables,
    table_records,
)
from deepval.version import __version__

LEADS = {
    ("What escalation does"): (
        "Over all units of each cell: how often the full mode changes "
        "the outcome, and which way."
    ),
    ("Perception against decision"): (
        "Whether what perception gains tells what the decision gains."
    ),
    "Allocators": (
        "Fitted on training and validation units, judged on the test units that the "
        "split's hash fixed."
    ),
    "Cost": "With allocators charged for what they take.",
}
FILES = ("report.html", "report.md", "report.json")
BESIDE = "Beside the paper"


def write_report(run: Run, out: Path) -> dict[str, Any]:
    """Write a run's report into a folder and return the content of its JSON file.

    The page has everything; the Markdown has the paper's tables, and links to a file
    for each analysis and to the figures beside the paper's.
    """
    records = records_of(run)
    beside = compare_with_paper(run, records)
    papers = _papers_tables(run, records)
    study = study_of(run, beside, _papers_section(run, records, list(papers)))
    further = _analysis_files(study)
    content = _content(run, records, beside)
    short = _short(study, list(further))
    texts = (as_html(study), as_markdown(short), json_text(content))
    files = dict(zip(FILES, texts, strict=True)) | _table_files(papers) | further
    for name, text in files.items():
        write_atomically(out / name, text, make_folder=True)
    return content


def _short(study: Study, files: Sequence[str]) -> Study:
    """The study with the parts that have files of their own as names of these."""
    parts = [part for part in study.parts if part.title not in (*GROUPS, BESIDE)]
    further = Section(
        "Further tables",
        "In files of their own, with every interval; each of the paper's tables is "
        "also in the folder tables, as CSV and LaTeX.",
        (Passage(items=tuple(files)),),
    )
    return replace(study, parts=(*parts, further))


def _analysis_files(study: Study) -> dict[str, str]:
    """Markdown of every part of a study that is not about the paper's tables."""
    files = {}
    for part in study.parts:
        if part.title in (*GROUPS, BESIDE):
            title = part.title.lower().replace(" ", "-")
            alone = Study(part.title, part.lead, (), (part,))
            files[f"analyses/{title}.md"] = as_markdown(alone)
    return files


def _table_files(papers: Mapping[str, Sequence[Table]]) -> dict[str, str]:
    """Every table of the paper as CSV and LaTeX."""
    files = {}
    for name, tables in papers.items():
        files[f"tables/{name}.csv"] = records_csv(table_records(tables))
        files[f"tables/{name}.tex"] = "\n\n".join(map(table_latex, tables)) + "\n"
    return files


def _papers_tables(run: Run, records: Records) -> dict[str, list[Table]]:
    """The paper's tables that a cell here has figures of, by name."""
    found = {}
    for name in TABLES:
        if name != HARDWARE and any(part in run.outcomes for part in analyses_of(name)):
            with suppress(NoFiguresError):
                found[name] = paper_tables(name, run, records)
    return found


def _papers_section(run: Run, records: Records, names: Sequence[str]) -> Section:
    """The paper's tables with the figures of this run beside the paper's."""
    blocks = [
        Passage(name, tables=tuple(paper_tables(name, run, records, beside=True)))
        for name in names
    ]
    without = [name for name in TABLES if name not in names]
    if without:
        blocks.append(
            Passage(
                "Not here",
                (f"Tables without a figure of these cells: {', '.join(without)}.",),
            )
        )
    return Section(
        "The paper's tables",
        f"Rows and columns as in {SOURCE}; each entry is the figure here, with its "
        "95 % interval where it has one, and behind the bar the paper's.",
        tuple(blocks),
    )


def _content(run: Run, records: Records, beside: BesidePaper) -> dict[str, Any]:
    return {
        "deepval": __version__,
        "paper": SOURCE,
        "cells": [
            _about(at) | {"track": tracked_cell(at.cell.folder, at.name).track}
            for at in run.cells
        ],
        "notes": list(run.notes),
        "lacking": {cell: list(lines) for cell, lines in run.lacking.items()},
        "not_run": dict(run.idle),
        "refused": {
            name: {
                dataset: list(entry.refused)
                for dataset, entry in by_dataset.items()
                if entry.refused
            }
            for name, by_dataset in run.outcomes.items()
            if any(entry.refused for entry in by_dataset.values())
        },
        "beside_the_paper": plain(beside),
        "analyses": {
            name: {ds: plain(rows) for ds, rows in by_dataset.items()}
            for name, by_dataset in records.items()
        },
        "tables": {
            name: {
                ds: [plain(table) for table in tables]
                for ds, tables in by_dataset.items()
            }
            for name, by_dataset in _tables(run)
        },
    }


def _about(at: Any) -> dict[str, Any]:
    cell = at.cell
    return {
        "dataset": cell.spec.dataset,
        "collection": at.collection,
        "cell": at.name,
        "id": cell.id,
        "split": cell.split.digest,
        "cheap": cell.table.modes[0],
        "full": cell.table.modes[-1],
        "geometry": cell.spec.geometry,
        "system": cell.spec.system,
        "inputs": len(cell.table),
        "units": len(cell.split.units),
        "test_units": len(cell.split.test),
    }


def _tables(run: Run) -> Iterator[tuple[str, dict[str, list[Table]]]]:
    for name in ANALYSES:
        by_dataset = run.outcomes.get(name, {})
        tables = {
            dataset: analysis(name).report_tables(entry.rows)
            for dataset, entry in by_dataset.items()
            if entry.rows
        }
        if tables:
            yield name, tables


def study_of(run: Run, beside: BesidePaper, papers: Section) -> Study:
    """The report as a study: the paper's tables, what was run, figures beside the
    paper's, then every figure.
    """
    datasets = list(dict.fromkeys(at.collection for at in run.cells))
    ran = [
        name
        for name, by_dataset in run.outcomes.items()
        if any(entry.rows for entry in by_dataset.values())
    ]
    parts = [papers, _ran(run), _beside_paper(beside)]
    parts += [
        part for theme in GROUPS if (part := _theme(theme, run, datasets)) is not None
    ]
    facts = (
        ("Cells", str(len(run.cells)), f"of {', '.join(datasets)}"),
        ("Analyses", str(len(ran)), f"{len(run.idle)} had nothing to run on"),
        ("Figures", str(len(beside.figures)), "beside the paper's"),
        ("Not built", str(len(run.lacking)), "cells of the tracks that were asked for"),
    )
    sentence = f"{quantity(len(run.cells), 'cell')} run."
    if not beside.figures:
        sentence += " None is of a data set, geometry and system that the paper has."
    return Study("Replication", sentence, facts, tuple(parts))


def _ran(run: Run) -> Section:
    header = (
        "data set",
        "cell",
        "modes",
        "inputs",
        "units",
        "test units",
        "id",
        "split",
    )
    texts = []
    for at in run.cells:
        about = _about(at)
        modes = f"{about['cheap']} -> {about['full']}"
        counts = [f"{about[name]:,}" for name in ("inputs", "units", "test_units")]
        hashes = about["id"].rpartition("-")[2], about["split"][:12]
        texts.append((about["collection"], about["cell"], modes, *counts, *hashes))
    blocks = [Passage(tables=(Table("Cells", header, lines_of(texts)),))]
    if run.notes:
        blocks.append(
            Passage(
                "What was left out of these cells",
                items=tuple(f"{note}." for note in run.notes),
            )
        )
    reasons = lists_by_key(
        (line, cell) for cell, lines in run.lacking.items() for line in lines
    )
    if reasons:
        items = tuple(
            f"{line}: needed by {', '.join(cells)}." for line, cells in reasons.items()
        )
        blocks.append(Passage("What could not be built, and why", items=items))
    idle = [f"{name}: {why}." for name, why in run.idle.items()]
    for name, by_dataset in run.outcomes.items():
        idle += [
            f"{name}, {dataset}: {why}"
            for dataset, entry in by_dataset.items()
            for why in entry.refused
        ]
    if idle:
        blocks.append(Passage("What could not be run, and why", items=tuple(idle)))
    lead = (
        "Cells that were built on this machine or read from their folders; every table "
        "below is over these."
    )
    matches = [tracked_cell(at.cell.folder, at.name).match for at in run.cells]
    if any(match is not None and not match.cell.published for match in matches):
        lead = f"{lead} {LOCAL_NOTE}"
    return Section("What was run", lead, tuple(blocks))


def _beside_paper(beside: BesidePaper) -> Section:
    lead = (
        f"Figures of {SOURCE}, each beside the like of it here. A cell is the same "
        "where data set, modes, geometry and system are, a part of it where it has "
        "fewer inputs; it is like where all but the modes are, and then the paper's "
        "figures over its pairs of modes make a range. The last column says whether "
        "the paper's value lies inside the interval here, or whether its range shares "
        "a value with it; for a figure over variants of a cell, the interval goes from "
        f"the least variant to the largest. With fewer than {LEAST_AFFECTED} affected "
        f"inputs, or with affected inputs in fewer than {LEAST_UNITS} units, the "
        "column says not enough."
    )
    blocks = [
        Passage(tables=(_figures(table, rows),), folded=True)
        for table, rows in lists_by_key(
            (entry.table, entry) for entry in beside.figures
        ).items()
    ]
    if beside.without:
        tables_without = (
            f"{table} ({quantity(number_of, 'figure')})"
            for table, number_of in beside.without.items()
        )
        words = f"Without a like cell or analysis here: {'; '.join(tables_without)}."
        blocks.append(Passage("What of the paper has no like here", (words,)))
    return Section(BESIDE, lead, tuple(blocks))


def _figures(table: str, rows: Sequence[Beside]) -> Table:
    header = ("figure", "cell here", "kin", "paper", "here", "95 %", "inside")
    texts = [
        (
            entry.quantity,
            entry.cell,
            entry.kinship,
            number(entry.paper_lo)
            if entry.paper_lo == entry.paper_hi
            else f"{number(entry.paper_lo)} to {number(entry.paper_hi)}",
            number(entry.here),
            interval(entry.here_lo, entry.here_hi),
            entry.inside or "",
        )
        for entry in rows
    ]
    return Table(f"{table}, beside the paper", header, lines_of(texts))


def _theme(theme: str, run: Run, datasets: Sequence[str]) -> Section | None:
    blocks = []
    for declared in (analysis(name) for name in GROUPS[theme] if name in run.outcomes):
        by_dataset = run.outcomes[declared.name]
        blocks += [
            _block(
                declared, dataset, by_dataset[dataset].rows, alone=len(datasets) == 1
            )
            for dataset in datasets
            if dataset in by_dataset and by_dataset[dataset].rows
        ]
    return Section(theme, LEADS[theme], tuple(blocks)) if blocks else None


def _block(
    declared: Analysis, dataset: str, rows: Sequence[Any], *, alone: bool
) -> Passage:
    tables = nonempty(declared.report_tables(rows))
    named = tables if alone else tuple(with_subject(table, dataset) for table in tables)
    chart = None if declared.chart is None else declared.chart(rows)
    title = declared.name if alone else f"{declared.name}, {dataset}"
    return Passage(title, charts=() if chart is None else (chart,), tables=named)
