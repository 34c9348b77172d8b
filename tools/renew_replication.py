"""The findings and rules of this version, and reports of `deepval reproduce` -> the tables of docs/replication.md.

    deepval reproduce docs/replication/*.toml --data ../shared/data --work work --out replication
    python tools/renew_replication.py docs/replication.md replication/report.json

Of several reports the first that tells a finding is taken, such as one on all cells and one, on fewer, of what takes
long. Without a report, the table of rules alone is made.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from renew_results import filled

from deepval.files import write_atomically
from deepval.report.tables import Table, lines_of
from deepval.reproduction.findings import findings
from deepval.reproduction.telling import MADE_UP

MAIN = "kitti"


def rules() -> Table:
    """Every finding with the rule that tells."""
    header = ("finding", "the paper says", "where", "rule", "analysis")
    texts = [(each.name, each.says, each.where, each.rule, f"{each.analysis}") for each in findings()]
    return Table("Findings and rules", header, lines_of(texts))


def tables(reports: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    """Verdicts, by the names of their marks."""
    told: dict[str, dict[str, tuple[str, str, str]]] = {}
    for report in reports:
        cells = [cell["collection"] for cell in report["cells"]]
        for each in report["findings"]:
            known = told.setdefault(each["name"], {})
            for name, found in each["told"].items():
                known.setdefault(name, (str(cells.count(name)), found["verdict"], found["words"]))
    every = findings()
    main = [
        (each.name, f"{each.says} ({each.where})", *told[each.name][MAIN])
        for each in every
        if MAIN in told.get(each.name, {})
    ]
    elsewhere = [
        (each.name, name, *found)
        for each in every
        for name, found in told.get(each.name, {}).items()
        if name not in (MAIN, MADE_UP)
    ]
    lacking = [
        (each.name, f"{each.says} ({each.where})") for each in every if not set(told.get(each.name, {})) - {MADE_UP}
    ]
    last = ("cells", "verdict", "here")
    return {
        "verdicts": Table("KITTI, pairs of public sources", ("finding", "the paper says", *last), lines_of(main)),
        "elsewhere": Table("Other scenes", ("finding", "scenes", *last), lines_of(elsewhere)),
        "lacking": Table("Nothing here can tell", ("finding", "the paper says"), lines_of(lacking)),
    }


def main() -> None:
    """Renew the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("report", type=Path, nargs="*")
    given = parser.parse_args()
    made = {"rules": rules()}
    if given.report:
        made |= tables([json.loads(path.read_text(encoding="utf-8")) for path in given.report])
    write_atomically(given.page, filled(given.page.read_text(encoding="utf-8"), made))


if __name__ == "__main__":
    main()
