"""The findings and rules of this version, and reports of `deepval reproduce` -> the tables of docs/replication.md.

    deepval reproduce docs/replication/*.toml --data ../shared/data --work work --out replication
    python tools/renew_replication.py docs/replication.md replication/report.json

Without a report, the table of rules alone is made.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from renew_results import filled

from deepval.files import write_atomically
from deepval.report.tables import Table, lines_of
from deepval.reproduction.findings import findings

MAIN = "kitti"


def rules() -> Table:
    """Every finding with the rule that tells."""
    header = ("finding", "the paper says", "where", "rule", "analysis")
    texts = [(each.name, each.says, each.where, each.rule, f"{each.analysis}") for each in findings()]
    return Table("Findings and rules", header, lines_of(texts))


def tables(report: Mapping[str, Any]) -> dict[str, Table]:
    """Verdicts, by the names of their marks."""
    told = report["findings"]
    header = ("finding", "the paper says", "verdict", "here")
    texts = [
        (each["name"], f"{each['says']} ({each['where']})", found["verdict"], found["words"])
        for each in told
        if (found := each["told"].get(MAIN)) is not None
    ]
    elsewhere = [
        (each["name"], dataset, found["verdict"], found["words"])
        for each in told
        for dataset, found in each["told"].items()
        if dataset != MAIN
    ]
    lacking = [(each["name"], f"{each['says']} ({each['where']})") for each in told if not each["told"]]
    return {
        "verdicts": Table("KITTI, 20 pairs of public sources", header, lines_of(texts)),
        "elsewhere": Table("Other scenes", ("finding", "scenes", "verdict", "here"), lines_of(elsewhere)),
        "lacking": Table("Nothing here can tell", ("finding", "the paper says"), lines_of(lacking)),
    }


def main() -> None:
    """Renew the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("report", type=Path, nargs="?")
    given = parser.parse_args()
    made = {"rules": rules()}
    if given.report is not None:
        made |= tables(json.loads(given.report.read_text(encoding="utf-8")))
    write_atomically(given.page, filled(given.page.read_text(encoding="utf-8"), made))


if __name__ == "__main__":
    main()
