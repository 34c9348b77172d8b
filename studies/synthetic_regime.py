"""Value tables -> the figures that define their regime (docs/definitions.md, Regime),
beside the paper's ranges.

Run: python studies/synthetic_regime.py [seeds], for the synthetic world over several
seeds.
"""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from deepval.basics.errors import InputWarning
from deepval.driving.cells import build, sources
from deepval.judge.extras.setting import concentration
from deepval.judge.report.text_tables import quantity
from deepval.judge.tables.values import ValueTable, quota
from deepval.judge.tie_expectations import tie_audit

Downstream = tuple[str, str]
"""Downstream system and geometry."""


@dataclass(frozen=True)
class Regime:
    """Figures of one cell over all its inputs; NaN if no input is affected.

    Attributes:
        affected: Share of the inputs whose loss escalation changes.
        harmed: Share of the affected inputs whose loss rises.
        harm_ratio: Total harm over total benefit.
        all_full: Share of the all-cheap loss that escalating everything removes.
        oracle_20: Share of the all-cheap loss that an oracle removes at 20 %.
        tied: Share of the top 20 % by decision value that ties decide.
        top_unit: Share of the benefit that one unit holds.
    """

    affected: float
    harmed: float
    harm_ratio: float
    all_full: float
    oracle_20: float
    tied: float
    top_unit: float


PAPER: dict[Downstream, dict[str, tuple[float, float]]] = {
    ("braking", "monocular"): {
        "affected": (0.03, 0.25),
        "harmed": (0.342, 0.429),
        "harm_ratio": (0.168, 0.615),
        "all_full": (0.1647, 0.1647),
        "oracle_20": (0.2777, 0.2777),
        "tied": (0.74, 0.74),
    },
    ("braking", "oracle"): {
        "affected": (0.03, 0.25),
        "harmed": (0.246, 0.397),
        "harm_ratio": (0.080, 0.467),
        "all_full": (0.1401, 0.1401),
        "oracle_20": (0.2407, 0.2407),
    },
    ("receding-horizon", "monocular"): {
        "affected": (266 / 8008, 678 / 8008),
        "harmed": (0.484, 0.538),
        "harm_ratio": (0.282, 1.114),
        "all_full": (-0.0059, 0.1278),
        "oracle_20": (0.0516, 0.1781),
    },
    ("receding-horizon", "oracle"): {
        "affected": (463 / 8008, 463 / 8008),
        "harmed": (0.030, 0.170),
        "harm_ratio": (0.002, 0.051),
        "all_full": (0.6834, 0.6834),
        "oracle_20": (0.6858, 0.6858),
    },
}
"""Lowest and highest figure of the paper's tables `ceiling`, `sign` and `refgeom` for
YOLOv8s 320, 384 and 512 -> 640.

For KITTI braking the paper gives no number of affected inputs; 3 to 25 % is the
requirement on the synthetic world.
"""


def regime(table: ValueTable) -> Regime:
    """The figures of a cell: cheap is the first mode, full the last."""
    summary, values = table.summary(0.2), table.decision_values
    benefit = np.bincount(
        table.unit, weights=np.maximum(values, 0.0), minlength=len(table.unit_ids)
    )
    return Regime(
        affected=summary.affected / summary.inputs,
        harmed=summary.harm_rate,
        harm_ratio=summary.harm_ratio,
        all_full=summary.all_full_share,
        oracle_20=summary.oracle_share,
        tied=tie_audit(values, int(quota(len(table), 0.2))).share,
        top_unit=concentration(benefit, table.unit_ids).top_share,
    )


def regime_lines(cells: Mapping[Downstream, Sequence[ValueTable]]) -> Iterator[str]:
    """Mean and spread of each figure over the tables of a cell, beside the paper's
    range, cell by cell.
    """
    for (system, geometry), tables in cells.items():
        figures = [asdict(regime(table)) for table in tables]
        yield (
            f"{system}, {geometry} geometry: "
            f"{quantity(len(tables), 'seed')} of {len(tables[0]):,} inputs"
        )
        yield f"  {'':12s} {'mean':>8s} {'least':>8s} {'most':>8s}   paper"
        for name in figures[0]:
            numbers = np.array([figure[name] for figure in figures])
            bounds = PAPER.get((system, geometry), {}).get(name)
            range_text = (
                ""
                if bounds is None
                else " to ".join(f"{bound:.3f}" for bound in sorted(set(bounds)))
            )
            yield (
                f"  {name:12s} {numbers.mean():8.3f} "
                f"{numbers.min():8.3f} {numbers.max():8.3f}   {range_text}"
            )


def main() -> None:
    """Print the summary for YOLOv8s 320, 384 and 512 against 640."""
    warnings.simplefilter("ignore", InputWarning)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    systems, geometries = (
        tuple(dict.fromkeys(part)) for part in zip(*PAPER, strict=True)
    )
    for cheap in ("yolov8s-320", "yolov8s-384", "yolov8s-512"):
        tables = {cell: [] for cell in PAPER}
        for seed in range(seeds):
            world = sources.synthetic((cheap, "yolov8s-640"), seed=seed)
            for cell in build.cells(world, geometries=geometries, systems=systems):
                tables[cell.spec.system, cell.spec.geometry].append(cell.table)
        print(f"== {cheap} -> yolov8s-640")
        print("\n".join(regime_lines(tables)))


if __name__ == "__main__":
    main()
