"""Shared data -> the detection profile that ships with deepval, and how well it
predicts what was measured.

Run: python tools/fit_profile.py ../shared/data With --more, the shipped profile stays
as it is. A refit on the 439 frames of kitti_more is judged beside it, half of the
sequences at a time, and the outcomes are counted.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deepval.driving.datasets import open_dataset
from deepval.driving.geometry.classes import COCO_CLASSES
from deepval.driving.perception.profile import read_profile
from deepval.driving.perception.reported.detection_files import open_detections
from deepval.driving.perception.reported.detection_rows import Source
from deepval.driving.perception.reported.detections import Detections
from deepval.driving.perception.simulation import detections_at, draw
from deepval.driving.world.scene import Scene
from deepval.driving.world.truth import Truth
from detector_profile.check import agreement, goodness, goodness_lines
from detector_profile.fit import fit_profile, streets, write_profile
from detector_profile.outcomes import Specimen, all_outcomes, unit_names

TARGET = (
    Path(__file__).resolve().parent.parent
    / "src"
    / "deepval"
    / "perception"
    / "profiles"
    / "yolov8s-kitti.toml"
)
SETS = {
    "yolov8s": (("0001", "0002", "0016"), (320, 384, 512, 640)),
    "yolov8s_lowres": (("0000",), (192, 256, 320, 384)),
}
OTHERS = ("0004", "0007", "0011", "0020")
HEAD = """\
How YOLOv8s sees KITTI, at any resolution. Figures fitted on real outcomes; no data \
are in here.
Made by: python tools/fit_profile.py ../shared/data
Latent score = height_logit(ln height in px at the mode) + class + occlusion + \
range_logit ln(range / 20 m) + noise;
score = top / (1 + exp(-latent)), reported from the floor on. See \
deepval.driving.perception.profile for the rest.
Truck, Bus, Tram and Person_sitting were not in the data: they take the figures of Car \
or keep their own name."""
FITTED_ON = (
    "YOLOv8s at 320, 384, 512, 640 on 97 frames of sequences 0001, 0002, 0016 and at "
    "192, 256, 320, 384 on the 154 low-resolution frames of 0000"
)


def drives(root: Path, units: Sequence[str]) -> list[tuple[Scene, Truth]]:
    """The scene and the reference of some sequences."""
    source = open_dataset("kitti", root / "kitti_tracking")
    return [source.read_unit(unit) for unit in source.select(units)]


def specimens(
    path: Path, size: int, pairs: Sequence[tuple[Scene, Truth]], source: Source
) -> list[Specimen]:
    """The detections of a file on some drives."""
    found = open_detections(
        path, source=source, units=[scene.unit for scene, _ in pairs]
    )
    found.check_units([scene.unit for scene, _ in pairs])
    return [Specimen(size, scene, truth, found.on(scene)) for scene, truth in pairs]


def read_samples(root: Path) -> list[Specimen]:
    """Every mode on every unit with pictures and a reference."""
    samples = []
    for name, (units, sizes) in SETS.items():
        pairs = drives(root, units)
        run = (
            None
            if "lowres" in name
            else {scene.unit: scene.has_image for scene, _ in pairs}
        )
        for size in sizes:
            path = root / "kitti_tracking" / "detections" / f"{name}_{size}.parquet"
            samples += specimens(path, size, pairs, Source(frames_run=run))
    return samples


def unlabelled(root: Path, size: int) -> list[Detections]:
    """YOLOv8s on the drives without labels, at one resolution."""
    import pyarrow.parquet as pq

    table = pq.read_table(
        root / "kitti_tracking" / "detections" / "unlabelled_yolov8s.parquet"
    ).to_pylist()
    drives = sorted({row["seq"] for row in table})
    found = []
    for drive in drives:
        frames = max(row["frame"] for row in table if row["seq"] == drive) + 1
        rows = [
            row
            for row in table
            if (row["seq"], row["size"]) == (drive, size) and row["cls"] in COCO_CLASSES
        ]
        rows.sort(key=lambda row: row["frame"])
        box_px = np.array(
            [[row[name] for name in ("x1", "y1", "x2", "y2")] for row in rows],
            dtype=float,
        )
        found.append(
            Detections(
                unit=drive,
                frame=np.array([row["frame"] for row in rows], dtype=int),
                cls=np.array([COCO_CLASSES[row["cls"]] for row in rows], dtype="<U14"),
                score=np.array([row["score"] for row in rows], dtype=float),
                box_px=box_px.reshape(-1, 4),
                status=np.zeros(frames, dtype=int),
            )
        )
    return found


def agreement_lines(root: Path) -> list[str]:
    """How well modes agree on drives without labels, and in simulation on other
    labelled sequences.
    """
    profile = read_profile(TARGET)
    drawn = [
        draw(profile, scene, truth=truth, rng=np.random.default_rng(place))
        for place, (scene, truth) in enumerate(drives(root, OTHERS))
    ]
    lines = []
    for cheap in (320, 384, 512):
        measured = agreement(unlabelled(root, cheap), unlabelled(root, 640), size=cheap)
        simulated = agreement(
            [detections_at(d, cheap) for d in drawn],
            [detections_at(d, 640) for d in drawn],
            size=cheap,
        )
        lines.append(
            f"sure at 640 and seen at {cheap}, by height at {cheap}: unlabelled "
            f"drives | simulated on {OTHERS}"
        )
        for band, (hits, count) in measured.items():
            seen, number = simulated[band]
            lines.append(
                f"  {band:12s} {hits / max(count, 1):.3f} of "
                f"{count:5d} | {seen / max(number, 1):.3f} of {number}"
            )
    return lines


def more_samples(root: Path) -> list[Specimen]:
    """YOLOv8s at four sizes on the frames of kitti_more, which its files list."""
    import csv

    with (root / "kitti_more" / "frames.csv").open(encoding="utf-8") as file:
        units = sorted({row["seq"] for row in csv.DictReader(file)})
    pairs, detections = drives(root, units), root / "kitti_more" / "detections"
    sizes = SETS["yolov8s"][1]
    return [
        item
        for size in sizes
        for item in specimens(
            detections / f"yolov8s_{size}.parquet", size, pairs, Source()
        )
    ]


def more_lines(root: Path) -> list[str]:
    """Measured figures on kitti_more beside those of the shipped profile and of a refit
    on the other half of units.
    """
    samples = more_samples(root)
    outcomes, _ = all_outcomes(samples)
    lines = [
        (
            f"{len(outcomes.score):,} object outcomes, "
            f"{int(outcomes.seen.sum()):,} of them detected"
        )
    ]
    units = unit_names(samples)
    for half in (units[::2], units[1::2]):
        judged = [sample for sample in samples if sample.scene.unit in half]
        others = [sample for sample in samples if sample.scene.unit not in half]
        refit = fit_profile(
            others, name="refit", fitted_on="the other half of the units"
        )
        lines.append(f"judged on {', '.join(half)}; refit on the others")
        for name, profile in (("shipped", read_profile(TARGET)), ("refit", refit)):
            lines += [
                name,
                *goodness_lines(goodness(profile, judged, draws=10, seed=1)),
            ]
    return lines


def main() -> None:
    """Fit the profile, write it, read it back and judge it."""
    if "--more" in sys.argv[2:]:
        print("\n".join(more_lines(Path(sys.argv[1]))))
        return
    samples = read_samples(Path(sys.argv[1]))
    write_profile(
        fit_profile(samples, name="yolov8s-kitti", fitted_on=FITTED_ON),
        TARGET,
        head=HEAD,
    )
    own = streets(samples)
    print(
        "phantoms over the profile's:",
        {u: f"{c.phantoms:.2f}x, size {c.phantom_size:.2f}x" for u, c in own.items()},
    )
    print(
        "\n".join(
            goodness_lines(
                goodness(read_profile(TARGET), samples, draws=40, seed=1, streets=own)
            )
        )
    )
    print("\n".join(agreement_lines(Path(sys.argv[1]))))
    print(f"written to {TARGET}")


if __name__ == "__main__":
    main()
