"""Allocator: what scores a frame before escalation, from what it shows and what is remembered of those before it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.features import Glance, Sight
from deepval.features.cheap import LEAST_PROBABILITY, total
from deepval.features.glances import PLACE, required_mps2
from deepval.features.views import CheapMode, View
from deepval.files import reading
from deepval.files.canonical import digest_of, json_canonical, json_content

FORMAT, VERSION = "deepval allocator", 1
LARGEST_BYTES = 64 * 2**20


def file_text(content: Mapping[str, Any]) -> str:
    """The text of an allocator's file: format and version, the content, and the hash of all of it."""
    whole = {"format": FORMAT, "version": VERSION, **content}
    hashed = whole | {"sha256": digest_of(whole)}
    lines = [f"{json_canonical(key)}: {json_canonical(value)}" for key, value in hashed.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def file_content(path: Path | str) -> dict[str, Any]:
    """What an allocator's file holds; a file that is not one, of another version or cut off is refused."""
    data = reading.content(path, "an allocator's file", largest=LARGEST_BYTES)
    return _checked_format(json_content(data, path, "an allocator as `deepval fit` writes it"), str(path))


def _checked_format(content: Any, source: str) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f'{source}: must be an allocator as `deepval fit` writes it, with "format": "{FORMAT}".')
    if content.get("version") != VERSION:
        raise InputError(
            f"{source}: this deepval reads version {VERSION} of allocator files; found version "
            f"{content.get('version')!r}. Fit it again, or install the deepval that wrote it."
        )
    return content


def check_hash(content: Mapping[str, Any], source: str) -> None:
    """Raise where an allocator's file is not as it was written."""
    try:
        found = digest_of({name: value for name, value in content.items() if name != "sha256"})
    except (ValueError, RecursionError):
        # No file of ours holds NaN, infinity or lists without end.
        found = None
    if found is None or content.get("sha256") != found:
        raise InputError(f"{source}: the file was altered after it was written: its hash does not fit. Fit it again.")


Part = Literal[
    "ego speed", "cheap boxes", "cheap objects", "cheap scores", "calibration", "previous frames", "image", "route"
]
"""Parts of a view; it has boxes to look at or, where the cheap mode observes, objects."""
Score = float | tuple[float, ...]
"""The score of a frame, or one for every mode above cheap."""


class Allocator(ABC):
    """Scores frames; higher means escalate first. Methods with a body are defaults only where they say so.

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
        """Whether there is a score for every mode above cheap; by default there is one for all."""
        return False

    def undefined(self, mode: CheapMode) -> str | None:
        """Why there is no score for this cheap mode, None where there is; by default by what its views must hold."""
        return unseen(self.uses, mode)

    def score(self, view: View | Sight) -> Float[np.ndarray, "time *mode"]:
        """The score of each frame of a unit; NaN where the cheap mode was not run."""
        sight = Sight(view, images="image" in self.uses) if isinstance(view, View) else view
        if self.undefined(sight.view.mode) is not None:
            return np.full((len(sight), len(self.modes) - 1) if self.per_mode else len(sight), np.nan)
        return self._of_unit(sight)

    def score_frame(self, glance: Glance) -> Score:
        """The score of one frame as it arrives, to the bit that which its unit gives."""
        if not glance.frame.run or self.undefined(glance.mode) is not None:
            return (np.nan,) * (len(self.modes) - 1) if self.per_mode else np.nan
        return self._of_frame(glance)

    def stages(self) -> Mapping[str, Callable[[Any], Any]]:
        """Steps from a glance, or from a list of them, to scores, whose cost is told apart; by default one."""

        def score(seen: Glance | list[Glance]) -> Any:
            return [self.score_frame(each) for each in seen] if isinstance(seen, list) else self.score_frame(seen)

        return {"score": score}

    @abstractmethod
    def _of_frame(self, glance: Glance) -> Score:
        """The score of a frame on which the cheap mode was run."""

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time *mode"]:
        """The scores of a unit; by default those of its frames, one after the other."""
        found = np.array([self.score_frame(seen) for seen in sight.glances], float)
        return found.reshape(len(sight), len(self.modes) - 1) if self.per_mode else found


def unseen(uses: frozenset[Part], mode: CheapMode) -> str | None:
    """Why who reads these parts of a view sees nothing of this cheap mode, None where it does."""
    if {"cheap boxes", "cheap objects"} & uses in (frozenset(), {"cheap boxes", "cheap objects"}):
        return None
    if mode.observes and "cheap boxes" in uses:
        return "it looks at image boxes, and of this cheap mode it is observed objects that are looked at"
    if not mode.observes and "cheap objects" in uses:
        return "it looks at observed objects, and of this cheap mode there are image boxes only"
    return None


REQUIRED = PLACE["required"]


class Signal(Allocator):
    """An allocator that needs no training."""


@dataclass(frozen=True)
class EgoSpeed(Signal):
    """Ego speed in m/s."""

    name = "ego-speed"
    uses = frozenset({"ego speed"})

    def _of_frame(self, glance: Glance) -> float:
        return glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Uncertainty(Signal):
    """Sum of 4 p (1-p) over cheap confidences p >= 0.10; undefined without probabilities."""

    name = "uncertainty"
    uses = frozenset({"cheap scores"})

    def undefined(self, mode: CheapMode) -> str | None:
        """Why there is no uncertainty: the mode gives no probabilities."""
        if mode.has_probabilities:
            return None
        return "the cheap mode has no scores" if mode.scores == "none" else "the cheap mode's scores are not calibrated"

    def _of_frame(self, glance: Glance) -> float:
        if glance.mode.observes:
            found = sorted(glance.mode.probability(np.asarray(glance.frame.score, float)).tolist(), reverse=True)
        else:
            found = [box.probability for box in glance.boxes]
        return total([4.0 * p * (1.0 - p) for p in found if p >= LEAST_PROBABILITY])


@dataclass(frozen=True)
class Criticality(Signal):
    """Deceleration that the cheap objects require, observed or monocular, in m/s²: docs/definitions.md, Signals."""

    name = "criticality"
    uses = frozenset({"ego speed", "cheap boxes", "cheap objects", "calibration", "previous frames"})

    def _of_frame(self, glance: Glance) -> float:
        return glance.row[REQUIRED]


@dataclass(frozen=True)
class Memory(Signal):
    """What was required a moment ago and no longer is: max over 8 frames of a_req - a_req now + 0.001 ego speed."""

    speed_weight: float = 0.001
    name = "memory"
    uses = Criticality.uses

    def _of_frame(self, glance: Glance) -> float:
        now = glance.row[REQUIRED]
        # A NaN of a frame on which the cheap mode was not run never wins a comparison.
        largest = now
        for row in glance.past.rows:
            if row[REQUIRED] > largest:
                largest = row[REQUIRED]
        return largest - now + self.speed_weight * glance.frame.ego_speed_mps


@dataclass(frozen=True)
class Lost(Signal):
    """What missing objects require: a_req of lost objects, moved on by the way travelled - a_req + 0.001 ego speed.

    An object is lost that was seen in the last 8 frames and whose last box no used box has overlapped since.
    """

    speed_weight: float = 0.001
    name = "lost"
    uses = Criticality.uses - {"cheap objects"}

    def _of_frame(self, glance: Glance) -> float:
        lost = required_mps2(glance.lost, [each.demand_mps2 for each in glance.lost])[0]
        return lost - glance.row[REQUIRED] + self.speed_weight * glance.frame.ego_speed_mps


SIGNALS: dict[str, Signal] = {
    signal.name: signal for signal in (EgoSpeed(), Uncertainty(), Criticality(), Memory(), Lost())
}
"""The untrained deployable signals by name."""
