"""Reports of `deepval reproduce` -> docs/generated/replication.md.

    deepval reproduce docs/replication/*.toml --data ../shared/data --out all
    deepval reproduce docs/replication/lateral/*.toml --data ../shared/data --analysis \
        signs --out lateral
    python studies/renew_replication.py docs/generated/replication.md all/report.json \
        --lateral lateral/report.json
    python studies/renew_replication.py docs/generated/replication.md --one \
        one/report.json --folds folds.json
    python studies/renew_replication.py docs/generated/replication.md --planned \
        docs/replication/*.toml --data ../shared/data

The first command fits the paper's six allocators alone (docs/replication.md). The last
one makes the comparisons of docs/replication-plan.toml on the cells that the first one
left in the folder --work. Tables without a report stay as they are.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from deepval.basics.files.writing import write_atomically
from deepval.judge.pooled import compare_over
from deepval.judge.report.text_tables import (
    Table,
    interval,
    lines_of,
    number,
    percent,
    quantity,
)
from deepval.paper.published_figures import LEAST_AFFECTED
from deepval.paper.run import run
from deepval.paper.study import Cell

# Beside the studies, not among them: it writes another page with the same marks.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from renew_results import filled

MAIN = "kitti"
CONTROLLERS = ("braking", "receding-horizon")
GEOMETRIES = ("monocular", "oracle")
LEAST_OF_A_SIGN = 10
PLAN = Path("docs/replication-plan.toml")
RECIPES = (
    *("gate-ridge", "gate-gbm", "router-mlp-value", "router-mlp-binary"),
    *("router-gbm-value", "router-gbm-binary"),
)
"""The paper's learned allocators."""
MECHANISMS = {
    "reacted": "an added false positive is reacted to",
    "needed": "a needed miss is recovered",
    "lost": "a needed detection is lost",
    "alike": "same objects, other positions",
    "placed": "positions of objects that both report decide",
}


def planned_table(plan: Path, cells: Sequence[Cell]) -> Table:
    """The comparisons of a plan, all at selection budgets, each as the mean over its
    cells.
    """
    by_id = {at.cell.id: at for at in cells}
    rows = []
    for item in tomllib.loads(plan.read_text(encoding="utf-8"))["comparison"]:
        sides = (item["candidate"], item["baseline"])
        of = item.get("of", "gain")
        # a cell that is named twice counts once
        own_cells = [by_id[cell] for cell in sorted(set(item["cells"]))]
        results = {at.cell.id: at.part("results") for at in own_cells}
        compared = compare_over(results, *sides, of=of)
        for alpha in sorted(item["alphas"]):
            row = next(r for r in compared if r.budget.holds(alpha=alpha))
            expected = item.get("direction", "better")
            confirming = ("better", "worse") if expected == "different" else (expected,)
            rows.append(
                (
                    f"{sides[0]} against {sides[1]}",
                    _over(own_cells),
                    *(row.budget.label, of, expected),
                    percent(row.difference),
                    interval(row.lo, row.hi, percent),
                    row.verdict or "",
                    "yes" if row.verdict in confirming else "no",
                )
            )
    header = (
        *("planned", "over", "budget", "of", "expected"),
        *("difference", "95 %", "verdict", "as expected"),
    )
    return Table("Planned comparisons", header, lines_of(rows))


def _over(cells: Sequence[Cell]) -> str:
    """The number of cells, and what all of them share."""
    specs = [at.cell.spec for at in cells]
    shared = []
    for part in ("dataset", "system", "geometry"):
        values = {getattr(spec, part) for spec in specs}
        if len(values) == 1:
            shared.append(values.pop())
    return ", ".join([quantity(len(cells), "cell"), *shared])


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
    parser.add_argument(
        "--planned",
        type=Path,
        nargs="+",
        help="specifications of the cells that the plan is about",
    )
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--work", type=Path, default=Path("deepval-work"))
    given = parser.parse_args()
    made = {}
    if given.report is not None:
        report = json.loads(given.report.read_text(encoding="utf-8"))
        made["harm"] = harm_table(report)
    if given.planned is not None:
        cells = run(
            given.planned,
            work=given.work,
            data=given.data,
            recipes=RECIPES,
            analyses=(),
        ).cells
        made["planned"] = planned_table(PLAN, cells)
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
