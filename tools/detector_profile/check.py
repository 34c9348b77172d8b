"""A profile and the outcomes it was fitted on -> simulated and measured figures side by
side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from deepval.driving.geometry.boxes import best_partner, frame_pairs, iou
from deepval.driving.perception.profile import Conditions, Profile
from deepval.driving.perception.reported.detections import Detections, persistent
from deepval.driving.perception.reported.losses import matching
from deepval.driving.perception.simulation import KITTI_SIZE_PX, detections_at, draw
from deepval.driving.world.truth import Truth
from detector_profile.outcomes import Specimen

BANDS_PX = (0.0, 7.0, 10.0, 14.0, 20.0, 30.0, 1e4)
VEHICLES = ("Car", "Van", "Truck", "Misc")


class ProfileFigure(NamedTuple):
    """One measured figure, its simulated value, and the number of objects, boxes or
    frames behind it.
    """

    name: str
    measured: float
    simulated: float
    rests_on: int


Source = Callable[[Specimen], Detections]


def above(detections: Detections, threshold: float) -> Detections:
    """The detections with at least that score."""
    return detections.where(detections.score >= threshold)


def hits(detections: Detections, truth: Truth) -> np.ndarray:
    """Per reference object: 1 detected, 0 missed, -1 not judged (too small, too hidden,
    mode not run).
    """
    match = matching(detections, truth)
    result = np.full(len(truth), -1)
    result[match.missed] = 0
    result[match.partner[match.partner >= 0]] = 1
    return result


def tallies(
    samples: Sequence[Specimen], source: Source, *, threshold: float
) -> dict[str, tuple[float, float]]:
    """Sums and counts behind every figure, on one set of detections."""
    sums: dict[str, list[float]] = {}

    def add(name: str, value: np.ndarray) -> None:
        entry = sums.setdefault(name, [0.0, 0.0])
        entry[0] += float(np.sum(value))
        entry[1] += float(np.size(value))

    hits_by: dict[tuple[str, int], np.ndarray] = {}
    for sample in samples:
        truth, every = sample.truth, source(sample)
        detections = above(every, threshold)
        hit = hits(detections, truth)
        hits_by[sample.scene.unit, sample.size] = hit
        vehicle, judged = np.isin(truth.cls, VEHICLES), hit >= 0
        height_px = truth.height_px * sample.size / KITTI_SIZE_PX[0]
        label = f"{sample.size}{' low' if sample.scene.unit == '0000' else ''}"
        for low, high in pairwise(BANDS_PX):
            band = judged & vehicle & (height_px >= low) & (height_px < high)
            add(f"recall vehicle {low:g}-{high:g} px", hit[band] == 1)
        add(f"recall vehicle at {label}", hit[judged & vehicle] == 1)
        add(f"recall person at {label}", hit[judged & ~vehicle] == 1)
        wrong = matching(detections, truth).false_positive
        run = sample.detections.run
        add(
            f"false positives per frame at {label}",
            np.bincount(detections.frame[wrong], minlength=len(run))[run],
        )
        add(
            f"boxes per frame at {label}",
            np.bincount(detections.frame, minlength=len(run))[run],
        )
        third = (
            run
            & np.concatenate([[False], run[:-1]])
            & np.concatenate([[False] * 2, run[:-2]])
        )
        add(
            f"boxes that persist at {label}",
            persistent(detections)[third[detections.frame]],
        )
        both = np.isin(truth.frame - 1, np.flatnonzero(run))
        add(
            "objects seen again in the next frame",
            next_frame(hit, truth)[both & (hit == 1)],
        )
    for (unit, size), hit in hits_by.items():
        full = hits_by.get((unit, 2 * size))
        if full is not None:
            seen = (hit >= 0) & (full == 1)
            add(f"seen at {size} if seen at {2 * size}", hit[seen] == 1)
            lost = (hit >= 0) & (full == 0)
            add(f"seen at {size} if missed at {2 * size}", hit[lost] == 1)
    return {name: (total, count) for name, (total, count) in sums.items()}


def next_frame(hit: np.ndarray, truth: Truth) -> np.ndarray:
    """Whether the same track was detected one frame earlier, per object."""
    earlier = {
        (int(t), int(f))
        for t, f, h in zip(truth.objects.track, truth.frame, hit, strict=True)
        if h == 1
    }
    return np.array(
        [
            (int(t), int(f) - 1) in earlier
            for t, f in zip(truth.objects.track, truth.frame, strict=True)
        ]
    )


def goodness(
    profile: Profile,
    samples: Sequence[Specimen],
    *,
    draws: int,
    seed: int,
    streets: Mapping[str, Conditions] | None = None,
    threshold: float = 0.25,
) -> list[ProfileFigure]:
    """Measured figures and their mean over simulated draws on the same objects and
    frames.

    `streets` are the units' own conditions; a unit without an entry draws them.
    """
    measured = tallies(samples, lambda sample: sample.detections, threshold=threshold)
    total: dict[str, list[float]] = {}
    for number in range(draws):
        drawn = {}
        for sample in samples:
            unit = sample.scene.unit
            if unit not in drawn:
                rng = np.random.default_rng([seed, number, len(drawn)])
                own = (streets or {}).get(unit)
                drawn[unit] = draw(
                    profile, sample.scene, truth=sample.truth, rng=rng, conditions=own
                )

        def simulated(sample: Specimen, drawn: dict = drawn) -> Detections:
            reported = detections_at(drawn[sample.scene.unit], sample.size)
            on_run_frames = reported.where(sample.detections.run[reported.frame])
            return replace(on_run_frames, status=sample.detections.status)

        for name, (value, count) in tallies(
            samples, simulated, threshold=threshold
        ).items():
            entry = total.setdefault(name, [0.0, 0.0])
            entry[0] += value
            entry[1] += count
    return [
        ProfileFigure(
            name,
            value / max(count, 1),
            total[name][0] / max(total[name][1], 1),
            int(count),
        )
        for name, (value, count) in measured.items()
    ]


def agreement(
    cheap: Sequence[Detections],
    full: Sequence[Detections],
    *,
    size: int,
    sure: float = 0.5,
    threshold: float = 0.25,
) -> dict[str, tuple[int, int]]:
    """Of the full mode's sure boxes, how many the cheap mode has too (IoU >= 0.5), and
    how many there are.

    By height band in pixels at the cheap mode, whose long side is `size`. It needs no
    reference, so it works on pictures without labels.
    """
    counts: dict[str, tuple[int, int]] = {}
    for weak, strong in zip(cheap, full, strict=True):
        strong, weak = above(strong, sure), above(weak, threshold)
        pairs = frame_pairs(strong.frame, weak.frame)
        overlap = iou(strong.box_px[pairs.first], weak.box_px[pairs.second])
        shared = best_partner(pairs, overlap, len(strong)).overlap >= 0.5
        height_px = (
            (strong.box_px[:, 3] - strong.box_px[:, 1]) * size / KITTI_SIZE_PX[0]
        )
        for low, high in pairwise(BANDS_PX):
            band = (height_px >= low) & (height_px < high)
            hits, count = counts.get(f"{low:g}-{high:g} px", (0, 0))
            counts[f"{low:g}-{high:g} px"] = (
                hits + int(shared[band].sum()),
                count + int(band.sum()),
            )
    return counts


def goodness_lines(figures: Sequence[ProfileFigure]) -> list[str]:
    """Figures as lines of text, in the order of their names."""
    lines = [f"{'figure':44s} measured simulated   rests on"]
    lines += [
        f"{f.name:44s} {f.measured:8.3f} {f.simulated:9.3f} {f.rests_on:10d}"
        for f in sorted(figures)
    ]
    return lines
