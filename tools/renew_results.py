"""The report of `deepval reproduce` on the track kitti-public -> the tables of
docs/generated/results.md.

    deepval reproduce kitti-public --data ../shared/data --work work --out reproduction
    python tools/renew_results.py reproduction/report.json docs/generated/results.md

A report that was made with `--costs` measured on this machine renews the tables of this
machine: `--latency here`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from deepval.basics.files.writing import write_atomically
from deepval.judge.report.forms import table_markdown
from deepval.judge.report.text_tables import Table, TableCell, lines_of, number, percent

ALPHAS = (10, 20, 30, 50)
DATASET = "kitti"


def tables(report: Mapping[str, Any], latency: str) -> dict[str, Table]:
    """The tables of the page by the names of their marks."""
    stored, rows = report["tables"], report["analyses"]
    found = {
        f"selection-{alpha}": _table(t)
        for alpha, t in zip(ALPHAS, stored["overview"][DATASET], strict=True)
    }
    found |= {
        f"{latency}-{alpha}": _table(t)
        for alpha, t in zip(ALPHAS, stored["charged"][DATASET], strict=True)
    }
    found["pooled"] = _table(stored["pooled"][DATASET][0])
    found["seeds"] = seed_table(rows["seeds"][DATASET])
    found["transfer"] = transfer_table(rows["transfer"][DATASET])
    return found


def _table(content: Mapping[str, Any]) -> Table:
    sections = tuple(
        tuple(tuple(TableCell(**cell) for cell in row) for row in part)
        for part in content["sections"]
    )
    return Table(
        content["title"], tuple(content["header"]), sections, tuple(content["notes"])
    )


def seed_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Training seeds, cell by cell."""
    texts = []
    for row in rows:
        known = [value for value in row["ndg"] if value is not None]
        span = max(known) - min(known) if known else None
        spread, better = (
            " ".join(number(value, 2) for value in row["ndg"]),
            row["verdicts"].count("better"),
        )
        share = f"{better}/{len(row['seeds'])}"
        texts.append(
            (
                row["cell"],
                row["allocator"],
                spread,
                number(span, 2),
                share,
                "yes" if row["identical"] else "no",
            )
        )
    header = ("cell", "allocator", "nDG by seed", "span", "better", "same bits")
    return Table("Six training seeds, selection 20%", header, lines_of(texts))


def transfer_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Routers fitted for one consumer and judged for the other, over every pair and
    geometry.
    """
    texts = []
    for recipe in dict.fromkeys(row["allocator"] for row in rows):
        mine = [row for row in rows if row["allocator"] == recipe]
        own = [row for row in mine if row["source"] == row["target"]]
        apart = [row for row in mine if row["source"] != row["target"]]
        regret = median(row["regret"] for row in apart if row["regret"] is not None)
        shares = []
        for part in (own, apart):
            at20 = [row["verdict"] for row in part if row["alpha"] == 0.2]
            shares.append(f"{at20.count('better')}/{len(at20)}")
        texts.append(
            (
                recipe,
                number(regret),
                percent(min(row["coverage"] for row in apart), 1),
                *shares,
            )
        )
    header = (
        "allocator",
        "median regret (nDG)",
        "least coverage",
        "own: better @20",
        "transferred: better @20",
    )
    return Table(
        "Transfer between braking and receding horizon, four budgets",
        header,
        lines_of(texts),
    )


def filled(page: str, tables: Mapping[str, Table]) -> str:
    """The page with every table between `<!-- table NAME -->` and `<!-- end -->`
    replaced.
    """
    for name, table in tables.items():
        begin = f"<!-- table {name} -->\n"
        if begin in page:
            head, rest = page.split(begin, 1)
            page = (
                head
                + begin
                + table_markdown(table)
                + "\n"
                + rest[rest.index("<!-- end -->") :]
            )
    return page


def main() -> None:
    """Renew the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--latency",
        choices=("board", "here"),
        default="board",
        help="whose costs the report has",
    )
    given = parser.parse_args()
    report = json.loads(given.report.read_text(encoding="utf-8"))
    page = given.page.read_text(encoding="utf-8")
    write_atomically(given.page, filled(page, tables(report, given.latency)))


if __name__ == "__main__":
    main()
