"""Reports of `deepval reproduce` -> docs/generated/replication.md.

    deepval reproduce docs/replication/*.toml --data ../shared/data --plan \
        docs/replication-plan.toml --out all
    deepval reproduce docs/replication/lateral/*.toml --data ../shared/data --analysis \
        signs --out lateral
    python tools/renew_replication.py docs/generated/replication.md all/report.json \
        --lateral lateral/report.json
    python tools/renew_replication.py docs/generated/replication.md --one \
        one/report.json --folds folds.json

Tables without a report stay as they are.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from deepval.files.writing import write_atomically
from deepval.judging.over_cells import PooledComparison
from deepval.paper.published_figures import LEAST_AFFECTED
from deepval.paper.verdicts import PlannedRow, PlanOutcome, plan_table
from deepval.report.text_tables import Table, interval, lines_of, number, percent
from renew_results import filled

MAIN = "kitti"
CONTROLLERS = ("braking", "receding-horizon")
GEOMETRIES = ("monocular", "oracle")
LEAST_OF_A_SIGN = 10
MECHANISMS = {
    "reacted": "an added false positive is reacted to",
    "needed": "a needed miss is recovered",
    "lost": "a needed detection is lost",
    "alike": "same objects, other positions",
    "placed": "positions of objects that both report decide",
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
        CONTROLLERS, GEOMETRIES, ("harmed", "helped")
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


def one_detector_table(report: Mapping[str, Any]) -> Table:
    """Signs of the cells of one detector at two resolutions, in a report on these cells
    alone.
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
    return Table(title, header, lines_of(texts))


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
    parser.add_argument("report", type=Path, nargs="?")
    parser.add_argument("--lateral", type=Path, help="report on the lateral controller")
    parser.add_argument(
        "--one", type=Path, help="report on one detector at two resolutions"
    )
    parser.add_argument(
        "--folds",
        type=Path,
        help="rows of `deepval analyse out-of-fold` on the same cells",
    )
    given = parser.parse_args()
    made = {}
    if given.report is not None:
        report = json.loads(given.report.read_text(encoding="utf-8"))
        made["harm"] = harm_table(report)
        if report["plan"] is not None:
            made["planned"] = planned_table(report["plan"])
    if given.lateral is not None:
        made["lateral"] = lateral_table(
            json.loads(given.lateral.read_text(encoding="utf-8"))
        )
    if given.one is not None:
        made["one-detector"] = one_detector_table(
            json.loads(given.one.read_text(encoding="utf-8"))
        )
    if given.folds is not None:
        made["folds"] = folds_table(json.loads(given.folds.read_text(encoding="utf-8")))
    write_atomically(given.page, filled(given.page.read_text(encoding="utf-8"), made))


if __name__ == "__main__":
    main()
