"""A run's rows -> what became of every finding of the paper, collection by collection, and the same in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepval.paper.findings import Finding, RunRows, findings
from deepval.paper.findings.verdicts import FAILS, HOLDS, OPEN, Outcome
from deepval.paper.published_figures import Records
from deepval.report.study import Part, Passage

MADE_UP = "synthetic"
LEAD = (
    "What the paper finds, what is found here, and by which rule that is told: of every cell, of most, or of a mean "
    "over cells, with 95 % intervals over units. The rules stand in docs/replication.md and were fixed before results."
)


@dataclass(frozen=True)
class FindingOutcome:
    """A finding, and what became of it in each collection that can tell."""

    finding: Finding
    told: Mapping[str, Outcome]


def finding_outcomes_of(records: Records, cells: Sequence[Mapping[str, Any]]) -> list[FindingOutcome]:
    """Every finding on the cells of a run, which are told as the report does."""
    known = {name: _known(name, records, cells) for name in collections(cells)}
    return [
        FindingOutcome(
            entry, {name: told for name, outcomes in known.items() if (told := entry.told(outcomes)) is not None}
        )
        for entry in findings()
    ]


def collections(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Collections of a run: real ones first, those with more cells before others."""
    names = [cell["collection"] for cell in cells]
    return sorted(dict.fromkeys(names), key=lambda name: (name == MADE_UP, -names.count(name)))


def _known(collection: str, records: Records, cells: Sequence[Mapping[str, Any]]) -> RunRows:
    rows = {analysis: outcomes.get(collection, ()) for analysis, outcomes in records.items()}
    return RunRows(rows, {cell["cell"]: cell for cell in cells if cell["collection"] == collection})


def counts(outcomes: Sequence[FindingOutcome], collection: str) -> tuple[int, int, int]:
    """How many findings hold, do not hold, and cannot be told in a collection."""
    told = [entry.told[collection].verdict for entry in outcomes if collection in entry.told]
    return told.count(HOLDS), told.count(FAILS), told.count(OPEN)


def sentence(outcomes: Sequence[FindingOutcome], collection: str) -> str:
    """What became of the findings in a collection, in a sentence."""
    holds, fails, open_ = counts(outcomes, collection)
    return f"On {collection}, {holds} findings of the paper hold, {fails} do not, and {open_} cannot be told."


def findings_part(outcomes: Sequence[FindingOutcome], cells: Sequence[Mapping[str, Any]]) -> Part | None:
    """The part of the report that tells them."""
    names = [name for name in collections(cells) if any(name in entry.told for entry in outcomes)]
    if not names:
        return None
    blocks = [
        Passage(f"On {name}", sayings=tuple(_saying(entry, name) for entry in outcomes if name in entry.told))
        for name in names
    ]
    silent = [f"{entry.finding.says} ({entry.finding.where})" for entry in outcomes if not entry.told]
    if silent:
        blocks.append(Passage("What no cell or analysis here can tell", items=tuple(silent)))
    return Part("Findings", LEAD, tuple(blocks))


def _saying(entry: FindingOutcome, collection: str) -> tuple[str, str]:
    told = entry.told[collection]
    return (
        told.verdict,
        f"{entry.finding.says} Here: {told.words}. ({entry.finding.where}; analysis {entry.finding.analysis})",
    )


def content(outcomes: Sequence[FindingOutcome]) -> list[dict[str, Any]]:
    """The same in plain data."""
    return [
        {
            "name": entry.finding.name,
            "theme": entry.finding.theme,
            "says": entry.finding.says,
            "where": entry.finding.where,
            "rule": entry.finding.rule,
            "analysis": entry.finding.analysis,
            "told": {name: {"verdict": told.verdict, "words": told.words} for name, told in entry.told.items()},
        }
        for entry in outcomes
    ]
