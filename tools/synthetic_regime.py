"""The synthetic world's regime over several seeds, beside the paper's ranges.

Run: python tools/synthetic_regime.py [seeds]
"""

import sys
import warnings

from deepval.cells import build, sources
from deepval.errors import InputWarning
from deepval.paper.analyses.regime import PAPER, regime_lines


def main() -> None:
    """Print the summary for YOLOv8s 320, 384 and 512 against 640."""
    warnings.simplefilter("ignore", InputWarning)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    systems, geometries = (tuple(dict.fromkeys(part)) for part in zip(*PAPER, strict=True))
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
