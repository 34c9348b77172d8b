"""Judge the published per-image gains of a study on detector routing (ViGeng/bgt-ada),
beside the study's own figures.

python tools/published_log.py ../shared/data/bgt_ada/target_distributions.csv
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import deepval
from deepval.judge.tables import columns

ALPHAS = (0.2, 0.4, 0.6, 0.8)
CONSTANT = {31: 0.0323, 155: 0.0968, 310: 0.1129, 621: 0.1916}
"""precision_at_k that the study prints for a score that is the same for every image."""


def judged(path: Path) -> tuple[deepval.ValueTable, deepval.Result]:
    """The strong detector's gain in average precision per image, and the study's two
    targets judged as scores.
    """
    found = columns.read(path)
    gain, moric, helped = (
        found.numbers(name) for name in ("delta_ap", "moric_plus", "offload_bin")
    )
    names = [f"image-{i:04d}" for i in range(len(gain))]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", deepval.InputWarning
        )  # every image is a separate unit; values are rewards, not shares
        table = deepval.ValueTable.from_columns(
            unit=names,
            input=names,
            rewards={"weak": np.zeros(len(gain)), "strong": gain},
        )
        return table, deepval.evaluate(
            table, {"MORIC+": moric, "OffloadBin": helped}, ALPHAS
        )


def figures(path: Path) -> dict[str, Any]:
    """The figures that docs/results.md prints."""
    table, result = judged(path)
    number = len(table)
    rows = {
        name: [(result.row(name, alpha=alpha).gain or 0.0) / number for alpha in ALPHAS]
        for name in ("random", "MORIC+", "OffloadBin", "oracle")
    }
    ndg = {
        name: [result.row(name, alpha=alpha).ndg for alpha in ALPHAS] for name in rows
    }
    return {
        "affected": table.affected,
        "harm rate": table.harm_rate,
        "harm ratio": table.harm_ratio,
        "all-full": table.decision_values.mean(),
        "gain": rows,
        "ndg": ndg,
        "apgr": {
            row.allocator: (row.apgr, row.apgr_lo, row.apgr_hi) for row in result.apgr()
        },
        "constant": {k: (published, k / number) for k, published in CONSTANT.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="target_distributions.csv")
    for name, found in figures(parser.parse_args().file).items():
        print(name, found)
