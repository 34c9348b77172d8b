"""A TOML file <-> a detector's profile, which simulates it on new objects:
docs/definitions.md, Simulated detector.

A thing in the picture has a latent score at every resolution: it grows with the thing's
height in pixels at that resolution, depends on class, occlusion and range, and has
parts that belong to the object, drift over time and resolution, or are fresh in each
frame. score = top * sigmoid(latent); it is reported where score >= floor. False
positives are second boxes on objects (doubles) and things that do not exist (phantoms),
with scores of the same form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepval.basics.arrays import Bool, Float, Int, Shaped
from deepval.basics.errors import InputError
from deepval.basics.files.canonical import read_toml
from deepval.basics.files.reading import check_file_form
from deepval.driving.geometry.classes import CLASSES, SUPER_CLASS, lookup

DEFAULT = "yolov8s-kitti"
Table = Mapping[str, float]


@dataclass(frozen=True)
class Noise:
    """The shares of a unit-variance disturbance: one per object, one that drifts, the
    rest fresh in every frame.

    The drifting part decays with `memory_s` over time and with `size_scale` over the
    logarithm of resolution.
    """

    of_object: float
    drifting: float
    memory_s: float
    size_scale: float

    def __post_init__(self) -> None:
        if not (
            self.of_object >= 0
            and self.drifting >= 0
            and self.of_object + self.drifting <= 1 + 1e-9
        ):
            raise InputError(
                "the shares of a noise must not be negative and sum to at most 1; "
                "check the profile."
            )


@dataclass(frozen=True)
class ScoreLaw:
    """The latent score: piecewise linear in ln(height in px at the mode), plus class,
    occlusion and range.

    Range counts as `range_logit` * ln(range / 20 m). `spread` is the standard deviation
    of the residual, which `noise` splits. Classes that were never seen take the figure
    of Car.
    """

    height_px: tuple[float, ...]
    height_logit: tuple[float, ...]
    class_logit: Table
    occlusion_logit: tuple[float, ...]
    range_logit: float
    spread: float
    top: float
    floor: float
    noise: Noise


@dataclass(frozen=True)
class Edges:
    """Errors of the left, top, right and bottom edge relative to the reference, in box
    widths and heights.

    Scale = hypot(relative, px / height at the mode) * factor of the occlusion *
    exp(-per_logit * latent score), with `relative` and `px` for the left and right and
    for the top and bottom edge: boxes with high scores are tight. `together` are the
    correlations of left with right and of top with bottom: a box moves more than it
    grows.
    """

    bias: tuple[float, ...]
    relative: tuple[float, ...]
    px: tuple[float, ...]
    occlusion_factor: tuple[float, ...]
    per_logit: float
    together: tuple[float, ...]


@dataclass(frozen=True)
class Boxes:
    """Box noise of vehicles and of persons and cyclists: Student's t with `freedom`,
    drawn per object.

    An object with a bad box keeps a bad box: the scale of its edges is multiplied by
    sqrt(freedom / chi-squared), which is drawn once per object.
    """

    vehicle: Edges
    person: Edges
    freedom: float
    noise: Noise


@dataclass(frozen=True)
class Doubles:
    """Second boxes on vehicles and on persons (a bicycle beside its rider): latent
    score relative to the object's mean.

    Edges spread by `inward` box widths and heights into the object and by `outward` out
    of it: most second boxes cover a part of the object.
    """

    vehicle_logit: float
    person_logit: float
    vehicle_spread: float
    person_spread: float
    inward: float
    outward: float


@dataclass(frozen=True)
class Phantoms:
    """Things that do not exist: their number in a frame, lifetime, height, position and
    score.

    Streets differ: a unit has `per_frame` * exp(`unit_spread` * normal) phantoms per
    frame, and the mean of their ln height spreads by `ln_height_unit`. The lane has
    only a share `in_lane` of the phantoms that the quantiles of the position imply: an
    empty road has few things to mistake. Latent score = logit + slope * ln(height in px
    at the mode / 20) + spread * noise. `place` are the quantiles 0, 0.1, ..., 1 of the
    box's middle over the image width; the bottom edge lies `bottom` +- `bottom_spread`
    box heights below the road contact that the class height implies. `aspect` is width
    / height by class.
    """

    per_frame: float
    unit_spread: float
    lasting_s: float
    logit: float
    slope: float
    spread: float
    ln_height: float
    ln_height_spread: float
    ln_height_unit: float
    place: tuple[float, ...]
    in_lane: float
    bottom: float
    bottom_spread: float
    classes: Table
    aspect: Table


@dataclass(frozen=True)
class Profile:
    """The law of a detector's reports on the objects in a picture, at any resolution.

    `confusion` gives, for each true class, the probability of each reported class.
    """

    name: str
    fitted_on: str
    scores: ScoreLaw
    boxes: Boxes
    confusion: Mapping[str, Table]
    doubles: Doubles
    phantoms: Phantoms

    def __post_init__(self) -> None:
        knots = self.scores.height_px
        if len(knots) != len(self.scores.height_logit) or (np.diff(knots) <= 0).any():
            raise InputError(
                f"profile {self.name}: heights must increase "
                "and have one latent score each."
            )
        for true_class, shares in self.confusion.items():
            if abs(sum(shares.values()) - 1) > 1e-3:
                raise InputError(
                    f"profile {self.name}: the reported "
                    f"classes of {true_class} must sum to 1."
                )


def expected_logit(
    profile: Profile,
    height_px: Float[np.ndarray, "obj"],
    *,
    cls: Shaped[np.ndarray, "obj"],
    occlusion: Int[np.ndarray, "obj"],
    range_m: Float[np.ndarray, "obj"],
) -> Float[np.ndarray, "obj"]:
    """Mean latent score of objects; their height is in pixels at the mode's
    resolution.
    """
    scores = profile.scores
    grown = np.interp(
        np.log(np.maximum(height_px, 0.5)),
        np.log(scores.height_px),
        scores.height_logit,
    )
    # Below the first knot the line goes on downwards: nothing is seen at one pixel.
    first, second = np.log(scores.height_px[:2])
    slope = (scores.height_logit[1] - scores.height_logit[0]) / (second - first)
    grown = grown + slope * np.minimum(np.log(np.maximum(height_px, 0.5)) - first, 0.0)
    hidden = np.asarray(scores.occlusion_logit)[np.clip(occlusion, 0, 3)]
    far = scores.range_logit * np.log(np.clip(range_m, 2.0, 200.0) / 20.0)
    # A class outside the table counts as a car.
    logits = {
        str(name): scores.class_logit.get(str(name), scores.class_logit["Car"])
        for name in np.unique(cls)
    }
    return grown + lookup(cls, logits) + hidden + far


def is_person(cls: Shaped[np.ndarray, "obj"]) -> Bool[np.ndarray, "obj"]:
    """Whether an object is a person or a cyclist."""
    return ~np.isin(cls, [name for name in CLASSES if SUPER_CLASS[name] == "vehicle"])


def logit(score: Any, *, top: float) -> Any:
    """Latent score of a reported score: ln(s / (top - s))."""
    share = np.clip(score / top, 1e-6, 1 - 1e-3)
    return np.log(share / (1 - share))


def read_profile(path: Path | str | None = None) -> Profile:
    """A profile from a TOML file; the one that ships with deepval where None."""
    source = (
        Path(__file__).parent / "profiles" / f"{DEFAULT}.toml" if path is None else path
    )
    return check_file_form(
        Profile, read_toml(source), source, "a profile of a simulated detector"
    )


@dataclass(frozen=True)
class Conditions:
    """Effects of light, weather and street on a detector: shifted latent scores, haze
    with range, more phantoms.
    """

    shift: float = 0.0
    haze_per_m: float = 0.0
    phantoms: float = 1.0
    phantom_size: float = 1.0
