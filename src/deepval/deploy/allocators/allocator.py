"""Allocator: a frame and the memory of earlier frames -> a score, before escalation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isnan, nan
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from deepval.basics import plugins
from deepval.basics.arrays import Float, Int
from deepval.basics.errors import InputError, quote, reason
from deepval.basics.files import reading
from deepval.basics.files.canonical import digest_of, json_canonical, json_content
from deepval.basics.files.reading import check_form
from deepval.basics.files.writing import write_atomically
from deepval.basics.progress import Watch, unwatched
from deepval.deploy.features import Glance, Sight
from deepval.deploy.features.cheap import LEAST_PROBABILITY, total
from deepval.deploy.features.glances import PLACE, required_mps2
from deepval.driving.planners.controllers import Rule
from deepval.driving.views import CheapMode, Past, View
from deepval.driving.world.objects import Outputs

FORMAT, VERSION = "deepval allocator", 1
LARGEST_BYTES = 64 * 2**20


def file_text(content: Mapping[str, Any]) -> str:
    """The text of an allocator's file: format and version, the content, and the hash of
    all of it.
    """
    whole = {"format": FORMAT, "version": VERSION, **content}
    hashed = whole | {"sha256": digest_of(whole)}
    lines = [
        f"{json_canonical(key)}: {json_canonical(value)}"
        for key, value in hashed.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def file_content(path: Path | str) -> dict[str, Any]:
    """The content of an allocator's file; files of another format or version and
    truncated files are refused.
    """
    data = reading.content(path, "an allocator's file", largest=LARGEST_BYTES)
    return _check_format(
        json_content(data, path, "an allocator as `deepval fit` writes it"), str(path)
    )


def _check_format(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(
            f"{source}: must be an allocator as `deepval fit` writes it, with "
            f'"format": "{FORMAT}".'
        )
    if content.get("version") != VERSION:
        raise InputError(
            f"{source}: this deepval reads version {VERSION} of allocator files; "
            f"found version {content.get('version')!r}. Fit it again, or install the "
            "deepval that wrote it."
        )
    return content


def check_hash(content: Mapping[str, Any], source: str) -> None:
    """Raise InputError if an allocator's file was changed after it was written."""
    try:
        digest = digest_of(
            {name: value for name, value in content.items() if name != "sha256"}
        )
    except (ValueError, RecursionError):
        # NaN, infinity or endless nesting: deepval never writes such a file.
        digest = None
    if digest is None or content.get("sha256") != digest:
        raise InputError(
            f"{source}: the file was altered after it was written: its hash does not "
            "fit. Fit it again."
        )


Part = Literal[
    "ego speed",
    "cheap boxes",
    "cheap objects",
    "cheap scores",
    "calibration",
    "previous frames",
    "image",
    "route",
]
"""Parts of a view; it has image boxes or, if the cheap mode observes, objects."""
Score = float | tuple[float, ...]
"""The score of a frame, or one for every mode above cheap."""


class Allocator(ABC):
    """Scores frames; higher means escalate first.

    A method with a body is a default only if its docstring says so.

    Attributes:
        name: Its name.
        uses: The parts of the view that it reads.
    """

    name: str
    uses: frozenset[Part]

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes to choose among, cheap first; by default any two."""
        return "cheap", "full"

    @property
    def per_mode(self) -> bool:
        """Whether every mode above cheap has its own score; by default there is one
        score for all.
        """
        return False

    def past(self) -> Past:
        """The memory at the beginning of a unit, for `glance`; by default that of every
        allocator.
        """
        return Past()

    def undefined(self, mode: CheapMode) -> str | None:
        """The reason for having no score for this cheap mode, or None; by default
        derived from `uses`.
        """
        return unseen(self.uses, mode)

    def score(self, view: View | Sight) -> Float[np.ndarray, "time *mode"]:
        """The score of each frame of a unit; NaN if the cheap mode did not run on
        it.
        """
        sight = (
            Sight(view, images="image" in self.uses) if isinstance(view, View) else view
        )
        if self.undefined(sight.view.mode) is not None:
            return np.full(
                (len(sight), len(self.modes) - 1) if self.per_mode else len(sight),
                np.nan,
            )
        return self._of_unit(sight)

    def score_frame(self, glance: Glance) -> Score:
        """The score of one frame as it arrives; bit-equal to `score` on its unit."""
        if not glance.frame.run or self.undefined(glance.mode) is not None:
            return (np.nan,) * (len(self.modes) - 1) if self.per_mode else np.nan
        return self._of_frame(glance)

    def stages(self) -> Mapping[str, Callable[[Any], Any]]:
        """Steps from a glance, or a list of glances, to scores, whose costs are
        measured separately; by default one.
        """

        def score(seen: Glance | list[Glance]) -> Any:
            return (
                [self.score_frame(glance) for glance in seen]
                if isinstance(seen, list)
                else self.score_frame(seen)
            )

        return {"score": score}

    @abstractmethod
    def _of_frame(self, glance: Glance) -> Score:
        """The score of a frame with a cheap run."""

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time *mode"]:
        """The scores of a unit; by default frame by frame."""
        frames = [self.score_frame(seen) for seen in sight.glances]
        try:
            scores = np.array(frames, float)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{self.name}: the scores of frames must be numbers of 64 bits, as "
                f"many for each; they are not ({reason(error)})."
            ) from error
        return (
            scores.reshape(len(sight), len(self.modes) - 1) if self.per_mode else scores
        )


def unseen(uses: frozenset[Part], mode: CheapMode) -> str | None:
    """The reason why an allocator of these parts cannot read this cheap mode's views;
    None if it can.
    """
    if {"cheap boxes", "cheap objects"} & uses in (
        frozenset(),
        {"cheap boxes", "cheap objects"},
    ):
        return None
    if mode.observes and "cheap boxes" in uses:
        return (
            "it looks at image boxes, and this cheap mode provides "
            "observed objects instead"
        )
    if not mode.observes and "cheap objects" in uses:
        return (
            "it looks at observed objects, and this cheap mode "
            "provides image boxes only"
        )
    return None


REQUIRED = PLACE["required"]


class Signal(Allocator):
    """An allocator that needs no training."""


@dataclass(frozen=True, eq=False)
class OwnSignal(Signal):
    """A user's function from a glance to a score, as an allocator.

    Attributes:
        name: Its name.
        function: The function.
        uses: The parts of the view that it may read: all but pictures, unless its
            attribute `uses` names others.
    """

    name: str
    function: Callable[[Glance], Any]
    uses: frozenset[Part] = frozenset(get_args(Part)) - {"image"}

    def _of_frame(self, glance: Glance) -> float:
        try:
            score = self.function(glance)
        except InputError:
            raise
        except Exception as error:
            sentence = plugins.complaint(error)
            if sentence is None:
                sentence = f"{self.name} fails with {type(error).__name__}: "
                sentence += f"{reason(error)}."
            raise InputError(sentence) from error
        value = nan
        if isinstance(score, Real | np.bool_):
            with suppress(OverflowError):
                value = float(score)
        if isnan(value):
            raise InputError(
                f"{self.name}: the function must return a number for every frame; "
                f"found {quote(score)}. Return float('-inf') for a frame that is to "
                "be escalated last."
            )
        return value


@dataclass(frozen=True)
class EgoSpeed(Signal):
    """Ego speed in m/s."""

    name = "ego-speed"
    uses = frozenset({"ego speed"})

    def _of_frame(self, glance: Glance) -> float:
        return glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Uncertainty(Signal):
    """Sum of 4 p (1-p) over cheap confidences p >= 0.10; undefined without
    probabilities.
    """

    name = "uncertainty"
    uses = frozenset({"cheap scores"})

    def undefined(self, mode: CheapMode) -> str | None:
        """The reason why there is no uncertainty if the mode has no probabilities; None
        if it has some.
        """
        if mode.has_probabilities:
            return None
        return (
            "the cheap mode has no scores"
            if mode.scores == "none"
            else "the cheap mode's scores are not calibrated"
        )

    def _of_frame(self, glance: Glance) -> float:
        if glance.mode.observes:
            probabilities = sorted(
                glance.mode.probability(np.asarray(glance.frame.score, float)).tolist(),
                reverse=True,
            )
        else:
            probabilities = [box.probability for box in glance.boxes]
        return total(
            [4.0 * p * (1.0 - p) for p in probabilities if p >= LEAST_PROBABILITY]
        )


@dataclass(frozen=True)
class Criticality(Signal):
    """Deceleration that the cheap objects require, observed or monocular, in m/s²:
    docs/definitions.md, Signals.
    """

    name = "criticality"
    uses = frozenset(
        {"ego speed", "cheap boxes", "cheap objects", "calibration", "previous frames"}
    )

    def _of_frame(self, glance: Glance) -> float:
        return glance.row[REQUIRED]


@dataclass(frozen=True)
class Memory(Signal):
    """Recent demand that has ceased: max over 8 frames of a_req - a_req now + 0.001 ego
    speed.
    """

    speed_weight: float = 0.001
    name = "memory"
    uses = Criticality.uses

    def _of_frame(self, glance: Glance) -> float:
        now = glance.row[REQUIRED]
        # A frame without a cheap run has NaN, which never wins this comparison.
        largest = now
        for row in glance.past.rows:
            if row[REQUIRED] > largest:
                largest = row[REQUIRED]
        return largest - now + self.speed_weight * glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Lost(Signal):
    """Demand of missing objects: a_req of lost objects, nearer by the way travelled, -
    a_req + 0.001 ego speed.

    An object is lost if it was seen in the last 8 frames and no used box has overlapped
    its last box since.
    """

    speed_weight: float = 0.001
    name = "lost"
    uses = Criticality.uses - {"cheap objects"}

    def _of_frame(self, glance: Glance) -> float:
        lost = required_mps2(glance.lost, [item.demand_mps2 for item in glance.lost])[0]
        return (
            lost - glance.row[REQUIRED] + self.speed_weight * glance.frame.ego_speed_mps
        )


SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (EgoSpeed(), Uncertainty(), Criticality(), Memory(), Lost())
}
"""The untrained deployable signals by name."""


LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Training:
    """The data and settings of a fit, sufficient to repeat it.

    Attributes:
        cell: Id of the cell, which contains the hash of its sources.
        recipe: Name of the recipe.
        target: Name of the target.
        units: The units of the fit inputs.
        inputs: Number of fit inputs.
        seed: Seed of the fit's random numbers.
        modes: Names of the cell's modes, cheap first.
        settings: The learner's settings.
        code: The user's own code that the recipe is of; None for deepval's recipes.
    """

    cell: str
    recipe: str
    target: str
    units: tuple[str, ...]
    inputs: int
    seed: int
    modes: tuple[str, ...]
    settings: Mapping[str, Any]
    code: plugins.Code | None = None

    def content(self) -> dict[str, Any]:
        """The training as a file states it: without code where it is deepval's."""
        content = asdict(self)
        if self.code is None:
            del content["code"]
        return content

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Training":
        """The training from a file's content; KeyError or InputError if it is missing
        or malformed.
        """
        training: Training = check_form(cls, content["training"], "training")
        if not 0 <= training.seed <= LARGEST_SEED:
            raise InputError(
                "training.seed must "
                f"be from 0 to {LARGEST_SEED}; found {quote(training.seed)}."
            )
        return training


class FittedAllocator(Allocator):
    """An allocator that a recipe fits, with a file format.

    Attributes:
        training: The data and settings of its fit.
        holds: The required content of its file, in words.
    """

    training: Training
    holds: ClassVar[str]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the cell of its fit."""
        return self.training.modes

    @classmethod
    @abstractmethod
    def feature_sets(cls) -> tuple[str, ...]:
        """Names of its feature sets; its file has one of them as `front`, and no two
        kinds share a name.
        """

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """The content of its file, in plain lists and numbers: name, training, feature
        set, all models.
        """

    @classmethod
    @abstractmethod
    def of(cls, content: Mapping[str, Any]) -> "FittedAllocator":
        """The allocator from a file's content; KeyError, TypeError or ValueError if the
        content is malformed.
        """

    def to_json(self) -> str:
        """The file's text: one line per part; equal allocators give equal texts."""
        return file_text(self.content())

    def save(self, path: Path | str) -> None:
        """Write the allocator to a file."""
        write_atomically(path, self.to_json())


@dataclass(frozen=True, eq=False)
class Examples:
    """The training data of an allocator: frames of the fit units and their labels.

    Attributes:
        sights: The sights of the fit units.
        chosen: The index of each input among the units' concatenated frames.
        labels: The label of each input; one for every mode above cheap if the recipe is
            `per_mode`.
        classify: Whether labels are 0 and 1.
        outputs: The objects of the full mode and of the reference in these units, if
            the recipe `needs_outputs`.
        rule: What the downstream system does about objects, if the recipe needs it and
            the system has a rule.
    """

    sights: tuple[Sight, ...]
    chosen: Int[np.ndarray, "input"]
    labels: Float[np.ndarray, "input *mode"]
    classify: bool
    outputs: tuple[Outputs, ...] | None = None
    rule: Rule | None = None

    @property
    def frames(self) -> list[tuple[View, int]]:
        """The view of each input's unit, and the index of its frame in it."""
        frames = [
            (sight.view, frame) for sight in self.sights for frame in range(len(sight))
        ]
        return [frames[row] for row in self.chosen.tolist()]


class Recipe(ABC):
    """How to fit an allocator.

    Attributes:
        name: Its name.
        target: The default target, a name of deepval.deploy.labels.
        makes: The kind of allocator.
        extra: The optional extra that a fit needs; such a recipe is fitted on request
            only.
        needs_outputs: Whether a fit needs the downstream rule and the outputs of the
            full mode and the reference.
    """

    name: str
    target: str
    makes: ClassVar[type[FittedAllocator]]
    extra: ClassVar[str | None] = None
    needs_outputs: ClassVar[bool] = False

    @property
    def per_mode(self) -> bool:
        """Whether labels are the values of every mode above cheap; by default, labels
        are those of the target.
        """
        return False

    def undefined(self, mode: CheapMode) -> str | None:
        """The reason why it cannot be fitted for this cheap mode, or None; by default
        it always can.
        """
        del mode

    @abstractmethod
    def admits(self, target: str, *, classifies: bool) -> bool:
        """Whether it can be fitted on a target; the labels are 0 and 1 if
        `classifies`.
        """

    @abstractmethod
    def fit(
        self, examples: Examples, training: Training, *, watch: Watch = unwatched
    ) -> FittedAllocator:
        """The allocator, fitted on examples; the same examples and seed give the same
        bytes.
        """

    @abstractmethod
    def like(self, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe with the settings from the training of one of its allocators."""
