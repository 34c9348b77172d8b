"""Detections of one mode, unit by unit -> what the mode covers, and warnings where that looks like a mistake."""

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deepval.errors import InputError, InputWarning
from deepval.perception.reported.detections import NEVER_RUN, Detections


class Covered(NamedTuple):
    """What a mode covers of a unit: frames, those it was run on (or failed on), those run to the end, boxes, scores."""

    frames: int
    reached: int
    run: int
    boxes: int
    low: float
    high: float


def covered(detections: Detections) -> Covered:
    """What a mode covers of one unit."""
    status, scores = detections.status, detections.score
    return Covered(
        frames=len(status),
        reached=int(np.count_nonzero(status != NEVER_RUN)),
        run=int(np.count_nonzero(detections.run)),
        boxes=len(scores),
        low=float(np.min(scores, initial=np.inf)),
        high=float(np.max(scores, initial=-np.inf)),
    )


def check_whole(mode: str, units: Mapping[str, Covered]) -> None:
    """Raise where a mode was not run at all on some unit: a cache that is filled in part."""
    missing = [unit for unit, part in units.items() if not part.reached]
    if missing:
        raise InputError(
            f"mode {mode}: every unit must have been run, and {len(missing)} of {len(units)} were not: "
            f"{', '.join(missing)}. Run `deepval perceive` to its end, or name the others with --units."
        )


def check_scenes(mode: str, units: Mapping[str, Covered]) -> None:
    """Raise where results that list every frame of a unit list only some: they do not cover their split."""
    for unit, part in units.items():
        if 0 < part.reached < part.frames:
            raise InputError(
                f"mode {mode}: results must list every sample of a scene, and {part.frames - part.reached} of "
                f"{part.frames} of {unit} are missing: give those without boxes an empty list, or leave the scene out "
                "with --units."
            )


def check_coverage(mode: str, units: Mapping[str, Covered], *, scored: bool, strict: bool = False) -> None:
    """Warn of what a mode does not cover, of units in which it reports nothing and of scores that are all the same.

    Args:
        mode: The mode's name.
        units: What it covers of each unit.
        scored: Whether it has scores.
        strict: Whether a unit in which it reports nothing is an error.
    """
    left = {unit: part.frames - part.reached for unit, part in units.items() if part.frames > part.reached}
    if left:
        _warn(
            f"mode {mode} was not run on {sum(left.values()):,} of {sum(part.frames for part in units.values()):,} "
            f"frames, which are no inputs then: in unit {', '.join(left)}."
        )
    silent = [unit for unit, part in units.items() if part.run and not part.boxes]
    if silent:
        message = (
            f"mode {mode} reports nothing at all in unit {', '.join(silent)}: "
            "check that it was run there; its frames count as frames without detections."
        )
        if strict:
            raise InputError(message)
        _warn(message)
    low, high = min(part.low for part in units.values()), max(part.high for part in units.values())
    boxes = sum(part.boxes for part in units.values())
    if scored and boxes > 1 and low == high:
        _warn(f"all {boxes:,} scores of mode {mode} are {low:g}, so they say nothing: declare them as none.")


def _warn(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=4)
