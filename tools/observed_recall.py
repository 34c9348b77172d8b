"""What the detection profile keeps of logged tracks at two sizes, and invents, as a mean over seeds.

Run: python tools/observed_recall.py DATASET ROOT [--seeds 10] [--sizes 320 640]
"""

import argparse

import numpy as np

from deepval.cells import sources
from deepval.cells.spec import specs
from deepval.datasets import open_dataset
from deepval.paper.analyses.judged import count_matched_point
from deepval.paper.analyses.observations import BANDS_M, KeptTracks, observed_tracks


def main() -> None:
    """Print a Markdown table with a row per size, and the count-matched threshold of the larger one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("root")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs=2, default=(320, 640))
    given = parser.parse_args()
    source = open_dataset(given.dataset, given.root)
    rows: dict[str, list[KeptTracks]] = {}
    thresholds = []
    for seed in range(given.seeds):
        modes = [sources.ModeFile(f"profile-{size}", None, seed=seed) for size in given.sizes]
        (spec,) = specs(sources.from_files(source, modes), geometries=("tracks",))
        thresholds.append(count_matched_point(spec, units=spec.units).full)
        for kept in observed_tracks(spec):
            rows.setdefault(kept.mode, []).append(kept)
    bands = [f"from {low:g} m" if np.isinf(high) else f"{low:g}-{high:g} m" for low, high in BANDS_M]
    print("| mode | kept per state | false positives per state | recall |", " | ".join(bands), "|")
    print("| --- " * (4 + len(bands)) + "|")
    for mode, found in rows.items():
        figures = np.mean(
            [[f.kept / f.states, f.false_positives / f.states, f.recall, *f.band_recall] for f in found], 0
        )
        print(f"| {mode} | {figures[0]:.2f} | {figures[1]:.2f} |", " | ".join(f"{x:.2f}" for x in figures[2:]), "|")
    first = next(iter(rows.values()))[0]
    print(f"\n{first.states} states, {first.tracks / first.states:.2f} tracks in the image per state", end="; ")
    print("by band:", ", ".join(map(str, first.band_tracks)))
    print("count-matched threshold of the larger size on all units:", np.mean(thresholds).round(3), thresholds)


if __name__ == "__main__":
    main()
