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
        FindingOutcome(each, {name: told for name, found in known.items() if (told := each.told(found)) is not None})
        for each in findings()
    ]


def collections(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Collections of a run: real ones first, those with more cells before others."""
    names = [cell["collection"] for cell in cells]
    return sorted(dict.fromkeys(names), key=lambda name: (name == MADE_UP, -names.count(name)))


def _known(collection: str, records: Records, cells: Sequence[Mapping[str, Any]]) -> RunRows:
    rows = {analysis: found.get(collection, ()) for analysis, found in records.items()}
    return RunRows(rows, {cell["cell"]: cell for cell in cells if cell["collection"] == collection})


def counts(found: Sequence[FindingOutcome], collection: str) -> tuple[int, int, int]:
    """How many findings hold, do not hold, and cannot be told in a collection."""
    told = [each.told[collection].verdict for each in found if collection in each.told]
    return told.count(HOLDS), told.count(FAILS), told.count(OPEN)


def sentence(found: Sequence[FindingOutcome], collection: str) -> str:
    """What became of the findings in a collection, in a sentence."""
    holds, fails, open_ = counts(found, collection)
    return f"On {collection}, {holds} findings of the paper hold, {fails} do not, and {open_} cannot be told."


def findings_part(found: Sequence[FindingOutcome], cells: Sequence[Mapping[str, Any]]) -> Part | None:
    """The part of the report that tells them."""
    names = [name for name in collections(cells) if any(name in each.told for each in found)]
    if not names:
        return None
    blocks = [
        Passage(f"On {name}", sayings=tuple(_saying(each, name) for each in found if name in each.told))
        for name in names
    ]
    silent = [f"{each.finding.says} ({each.finding.where})" for each in found if not each.told]
    if silent:
        blocks.append(Passage("What no cell or analysis here can tell", items=tuple(silent)))
    return Part("Findings", LEAD, tuple(blocks))


def _saying(each: FindingOutcome, collection: str) -> tuple[str, str]:
    told = each.told[collection]
    return (
        told.verdict,
        f"{each.finding.says} Here: {told.words}. ({each.finding.where}; analysis {each.finding.analysis})",
    )


def content(found: Sequence[FindingOutcome]) -> list[dict[str, Any]]:
    """The same in plain data."""
    return [
        {
            "name": each.finding.name,
            "theme": each.finding.theme,
            "says": each.finding.says,
            "where": each.finding.where,
            "rule": each.finding.rule,
            "analysis": each.finding.analysis,
            "told": {name: {"verdict": told.verdict, "words": told.words} for name, told in each.told.items()},
        }
        for each in found
    ]
