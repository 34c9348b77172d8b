"""Logged tracks that a simulated detector observes at two sizes, and its false
positives, as means over seeds.

docs/definitions.md, Observations: the counts behind the external track.

Run: python studies/observed_recall.py DATASET ROOT [--seeds 10] [--sizes 320 640]
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepval.deploy.thresholds import count_matched_point
from deepval.driving.cells import sources
from deepval.driving.cells.spec import CellSpec, specs
from deepval.driving.cells.unit import unit_data
from deepval.driving.datasets import open_dataset
from deepval.driving.perception.placing import Tracks

BANDS_M: tuple[tuple[float, float], ...] = (
    (0.0, 10.0),
    (10.0, 20.0),
    (20.0, 30.0),
    (30.0, 50.0),
    (50.0, np.inf),
)


@dataclass(frozen=True)
class KeptTracks:
    """How many of the tracks that one mode must detect to observe it does detect.

    Attributes:
        mode: Its name.
        states: States on which it was run.
        tracks: Tracks there that are observed only where it detects them.
        kept: Number of these tracks that it detects.
        false_positives: Detections that belong to no track.
        band_tracks: Number of tracks in each band of range (distance of the centre from
            the ego origin).
        band_kept: Number of detected tracks in each band.
    """

    mode: str
    states: int
    tracks: int
    kept: int
    false_positives: int
    band_tracks: tuple[int, ...]
    band_kept: tuple[int, ...]

    @property
    def recall(self) -> float:
        """Share of the tracks that are kept; NaN without any."""
        return self.kept / self.tracks if self.tracks else float("nan")

    @property
    def band_recall(self) -> tuple[float, ...]:
        """The recall in each band."""
        counts = zip(self.band_kept, self.band_tracks, strict=True)
        return tuple(
            kept / tracks if tracks else float("nan") for kept, tracks in counts
        )


def observed_tracks(
    spec: CellSpec,
    *,
    placing: Tracks | None = None,
    units: Sequence[str] | None = None,
    bands_m: Sequence[tuple[float, float]] = BANDS_M,
) -> list[KeptTracks]:
    """Counts of every mode of a cell over units (all where None), under a placing of
    tracks.
    """
    placing = placing or Tracks()
    count = {mode: np.zeros((4, len(bands_m) + 1), dtype=int) for mode in spec.order}
    for unit in spec.units if units is None else units:
        seen = unit_data(spec, unit)
        away_m = np.linalg.norm(seen.truth.objects.corners_m.mean(axis=1), axis=1)
        for mode, used in seen.used.items():
            found = placing.observation(used, seen.scene, seen.truth)
            watched = found.watched & used.run[seen.truth.frame]
            kept = np.zeros(len(seen.truth), dtype=bool)
            kept[found.logged[found.logged >= 0]] = True
            bands = [
                np.ones(len(away_m), dtype=bool),
                *((away_m >= low) & (away_m < high) for low, high in bands_m),
            ]
            count[mode][0] += [np.count_nonzero(watched & band) for band in bands]
            count[mode][1] += [
                np.count_nonzero(watched & kept & band) for band in bands
            ]
            count[mode][2] += np.count_nonzero(found.logged < 0)
            count[mode][3] += np.count_nonzero(used.run)
    return [
        KeptTracks(
            mode=mode,
            states=int(states[0]),
            tracks=int(tracks[0]),
            kept=int(kept[0]),
            false_positives=int(invented[0]),
            band_tracks=tuple(tracks[1:].tolist()),
            band_kept=tuple(kept[1:].tolist()),
        )
        for mode, (tracks, kept, invented, states) in count.items()
    ]


def main() -> None:
    """Print a Markdown table with a row per size, and the count-matched threshold of
    the larger one.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("root")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs=2, default=(320, 640))
    arguments = parser.parse_args()
    source = open_dataset(arguments.dataset, arguments.root)
    rows: dict[str, list[KeptTracks]] = {}
    thresholds = []
    for seed in range(arguments.seeds):
        modes = [
            sources.ModeFile(f"profile-{size}", None, seed=seed)
            for size in arguments.sizes
        ]
        (spec,) = specs(sources.from_files(source, modes), geometries=("tracks",))
        thresholds.append(count_matched_point(spec, units=spec.units).full)
        for kept in observed_tracks(spec):
            rows.setdefault(kept.mode, []).append(kept)
    bands = [
        f"from {low:g} m" if np.isinf(high) else f"{low:g}-{high:g} m"
        for low, high in BANDS_M
    ]
    print(
        "| mode | kept per state | false positives per state | recall |",
        " | ".join(bands),
        "|",
    )
    print("| --- " * (4 + len(bands)) + "|")
    for mode, found in rows.items():
        figures = np.mean(
            [
                [
                    f.kept / f.states,
                    f.false_positives / f.states,
                    f.recall,
                    *f.band_recall,
                ]
                for f in found
            ],
            0,
        )
        print(
            f"| {mode} | {figures[0]:.2f} | {figures[1]:.2f} |",
            " | ".join(f"{x:.2f}" for x in figures[2:]),
            "|",
        )
    first = next(iter(rows.values()))[0]
    print(
        f"\n{first.states} states, {first.tracks / first.states:.2f} tracks in the "
        "image per state",
        end="; ",
    )
    print("by band:", ", ".join(map(str, first.band_tracks)))
    print(
        "count-matched threshold of the larger size on all units:",
        np.mean(thresholds).round(3),
        thresholds,
    )


if __name__ == "__main__":
    main()
