"""The findings and rules of this version, and reports of `deepval reproduce` ->
docs/generated/replication.md.

    deepval reproduce docs/replication/*.toml --data ../shared/data --plan \
        docs/replication-plan.toml --out all
    deepval reproduce docs/replication/lateral/*.toml --data ../shared/data --analysis \
        signs --out lateral
    deepval reproduce docs/replication/ladder/*.toml --data ../shared/data --analysis \
        ladder --out ladder
    python studies/renew_replication.py docs/generated/replication.md \
        {all,ladder}/report.json \
        --lateral lateral/report.json
    python studies/renew_replication.py docs/generated/replication.md --one \
        one/report.json --folds folds.json \
        --unseen unseen/report.json

Of several reports, the first with a verdict on a finding is used. Without a report,
only the table of rules is written.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from deepval.files.writing import write_atomically
from deepval.judging.over_cells import PooledComparison
from deepval.paper.findings import findings
from deepval.paper.findings.rules import CONTROLLERS, LEAST_AFFECTED, MONOCULAR, ORACLE
from deepval.paper.verdicts import MADE_UP, PlannedRow, PlanOutcome, plan_table
from deepval.report.text_tables import Table, interval, lines_of, number, percent

# Beside the studies, not among them: it writes another page with the same marks.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from renew_results import filled

MAIN = "kitti"
LEAST_OF_A_SIGN = 10
MECHANISMS = {
    "reacted": "an added false positive is reacted to",
    "needed": "a needed miss is recovered",
    "lost": "a needed detection is lost",
    "alike": "same objects, other positions",
    "placed": "positions of objects that both report decide",
}


def rules() -> Table:
    """Every finding with its rule."""
    header = ("finding", "the paper says", "where", "rule", "analysis")
    texts = [
        (each.name, each.says, each.where, each.rule, f"{each.analysis}")
        for each in findings()
    ]
    return Table("Findings and rules", header, lines_of(texts))


def tables(reports: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    """Verdicts, by the names of their marks."""
    verdicts: dict[str, dict[str, tuple[str, str, str]]] = {}
    for report in reports:
        cells = [cell["collection"] for cell in report["cells"]]
        for each in report["findings"]:
            known = verdicts.setdefault(each["name"], {})
            for name, found in each["told"].items():
                known.setdefault(
                    name, (str(cells.count(name)), found["verdict"], found["words"])
                )
    every = findings()
    main = [
        (each.name, f"{each.says} ({each.where})", *verdicts[each.name][MAIN])
        for each in every
        if MAIN in verdicts.get(each.name, {})
    ]
    elsewhere = [
        (each.name, name, *found)
        for each in every
        for name, found in verdicts.get(each.name, {}).items()
        if name not in (MAIN, MADE_UP)
    ]
    lacking = [
        (each.name, f"{each.says} ({each.where})")
        for each in every
        if not set(verdicts.get(each.name, {})) - {MADE_UP}
    ]
    last = ("cells", "verdict", "here")
    return {
        "verdicts": Table(
            "KITTI, pairs of public sources",
            ("finding", "the paper says", *last),
            lines_of(main),
        ),
        "elsewhere": Table(
            "Other scenes", ("finding", "scenes", *last), lines_of(elsewhere)
        ),
        "lacking": Table(
            "Findings without data", ("finding", "the paper says"), lines_of(lacking)
        ),
    }


def planned_table(outcome: Mapping[str, Any]) -> Table:
    """The outcomes of the plan of a run."""
    rows = [
        PlannedRow(
            **{**row, "made": row["made"] and PooledComparison.of_columns(row["made"])}
        )
        for row in outcome["rows"]
    ]
    return plan_table(PlanOutcome(**{**outcome, "rows": tuple(rows)}))


def lateral_table(report: Mapping[str, Any]) -> Table:
    """The effect of escalation on the lateral controller, in the cells with enough
    affected inputs.
    """
    rows = report["analyses"]["signs"][MAIN]
    large = [row for row in rows if row["affected"] >= LEAST_AFFECTED]
    texts = [
        (
            f"{row['cheap']} → {row['full']}",
            row["geometry"],
            f"{row['affected']:,}",
            (
                f"{percent(row['harm_rate'], 1)} "
                f"{interval(row['harm_rate_lo'], row['harm_rate_hi'], _tenths)}"
            ),
            (
                f"{number(row['harm_ratio'])} "
                f"{interval(row['harm_ratio_lo'], row['harm_ratio_hi'])}"
            ),
            percent(row["all_full_share"]),
            percent(row["oracle_share"]),
        )
        for row in large
    ]
    header = (
        "modes",
        "geometry",
        "affected",
        "harmed",
        "harm ratio",
        "all-full",
        "Oracle@20",
    )
    left = (
        f"{len(rows) - len(large)} of {len(rows)} cells have fewer than "
        f"{LEAST_AFFECTED} affected inputs: left out."
    )
    return Table("Lateral corridor controller", header, lines_of(texts), (left,))


def harm_table(report: Mapping[str, Any]) -> Table:
    """Mechanisms of help and harm on KITTI: shares of the inputs with each sign, over
    cells.
    """
    rows = [
        row
        for row in report["analyses"]["mechanism"][MAIN]
        if row["inputs"] >= LEAST_OF_A_SIGN
    ]
    header = ("controller, geometry", "inputs", "cells", *MECHANISMS.values())
    texts = []
    for system, geometry, effect in product(
        CONTROLLERS, (MONOCULAR, ORACLE), ("harmed", "helped")
    ):
        group = [
            row
            for row in rows
            if (row["system"], row["geometry"], row["effect"])
            == (system, geometry, effect)
        ]
        spans = [
            _span([row[name] for row in group if row[name] is not None])
            for name in MECHANISMS
        ]
        texts.append((f"{system}, {geometry}", effect, str(len(group)), *spans))
    left = (
        "Shares of such inputs: least / median / largest over "
        f"cells with at least {LEAST_OF_A_SIGN} of them."
    )
    return Table("Mechanisms of help and harm", header, lines_of(texts), (left,))


def one_detector_tables(report: Mapping[str, Any]) -> dict[str, Table]:
    """Signs and verdicts of the cells of one detector at two resolutions, in a report
    on these cells alone.
    """
    texts = [
        (
            f"{row['cheap']} → {row['full'].rpartition('-')[2]}",
            f"{row['system']}, {row['geometry']}",
            str(row["affected"]),
            (
                f"{percent(row['harm_rate'], 1)} "
                f"{interval(row['harm_rate_lo'], row['harm_rate_hi'], _tenths)}"
            ),
            (
                f"{number(row['harm_ratio'])} "
                f"{interval(row['harm_ratio_lo'], row['harm_ratio_hi'])}"
            ),
        )
        for row in report["analyses"]["signs"][MAIN]
    ]
    row = report["analyses"]["signs"][MAIN][0]
    title = (
        f"One detector at two resolutions: {row['inputs']} inputs, {row['units']} units"
    )
    header = ("modes", "controller, geometry", "affected", "harmed", "harm ratio")
    verdicts = [
        (entry["name"], *_verdict(entry))
        for entry in report["findings"]
        if MAIN in entry["told"]
    ]
    return {
        "one-detector": Table(title, header, lines_of(texts)),
        "one-verdicts": Table(
            f"{row['units']} units", ("finding", "verdict", "here"), lines_of(verdicts)
        ),
    }


def folds_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Allocators out of fold over all units at 20 %, over cells."""
    rows = [row for row in rows if row["alpha"] == 0.2]
    texts = []
    for name in dict.fromkeys(row["allocator"] for row in rows):
        group = [row for row in rows if row["allocator"] == name]
        ndg = [row["ndg"] for row in group if row["ndg"] is not None]
        span = " / ".join(number(of(ndg)) for of in (min, median, max))
        verdicts = [row["verdict"] for row in group]
        texts.append(
            (
                name,
                str(len(group)),
                span,
                str(verdicts.count("better")),
                str(verdicts.count("worse")),
            )
        )
    title = (
        f"nDG at 20 %, out of fold over {rows[0]['units']} units ({rows[0]['folds']} "
        "folds): released, not scored"
    )
    return Table(
        title,
        ("allocator", "cells", "least / median / largest", "better", "worse"),
        lines_of(texts),
    )


def unseen_table(report: Mapping[str, Any]) -> Table:
    """Verdicts without the frames on which some sources were trained."""
    texts = [
        (entry["name"], *_verdict(entry))
        for entry in report["findings"]
        if MAIN in entry["told"]
    ]
    title = (
        "KITTI, frames outside the "
        f"object training set: {report['cells'][0]['inputs']:,} inputs"
    )
    return Table(title, ("finding", "verdict", "here"), lines_of(texts))


def _verdict(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["told"][MAIN]["verdict"], entry["told"][MAIN]["words"]


def _span(shares: Sequence[float]) -> str:
    return (
        " / ".join(percent(of(shares), 1) for of in (min, median, max))
        if shares
        else ""
    )


def _tenths(share: float | None) -> str:
    return percent(share, 1)


def main() -> None:
    """Renew the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("report", type=Path, nargs="*")
    parser.add_argument("--lateral", type=Path, help="report on the lateral controller")
    parser.add_argument(
        "--one", type=Path, help="report on one detector at two resolutions"
    )
    parser.add_argument(
        "--folds",
        type=Path,
        help="rows of `deepval analyse out-of-fold` on the same cells",
    )
    parser.add_argument(
        "--unseen",
        type=Path,
        help="report without the frames on which some sources were trained",
    )
    given = parser.parse_args()
    made = {"rules": rules()}
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in given.report]
    if reports:
        made |= tables(reports)
        made["harm"] = harm_table(reports[0])
    if reports and reports[0]["plan"] is not None:
        made["planned"] = planned_table(reports[0]["plan"])
    if given.lateral is not None:
        made["lateral"] = lateral_table(
            json.loads(given.lateral.read_text(encoding="utf-8"))
        )
    if given.one is not None:
        made |= one_detector_tables(json.loads(given.one.read_text(encoding="utf-8")))
    if given.folds is not None:
        made["folds"] = folds_table(json.loads(given.folds.read_text(encoding="utf-8")))
    if given.unseen is not None:
        made["unseen"] = unseen_table(
            json.loads(given.unseen.read_text(encoding="utf-8"))
        )
    write_atomically(given.page, filled(given.page.read_text(encoding="utf-8"), made))


if __name__ == "__main__":
    main()
