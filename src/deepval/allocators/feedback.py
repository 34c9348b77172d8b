"""A frame, and the full outputs of the earlier frames that were escalated -> a score:
docs/definitions.md, Feedback.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepval.allocators.allocator import Allocator
from deepval.arrays import Float
from deepval.errors import InputError
from deepval.features import Glance, Sight
from deepval.features.views import CheapMode, OwnMemory, Past
from deepval.files.canonical import sha256
from deepval.world.objects import Objects


class Session(ABC):
    """The memory of an allocator within one unit; the next unit needs a new one."""

    @abstractmethod
    def score(self, glance: Glance) -> float:
        """The score of the unit's next frame; NaN if the cheap mode did not run on
        it.
        """

    @abstractmethod
    def learn(self, full: Objects) -> None:
        """Take in the full output of the frame that was scored last; called if and only
        if it was escalated.
        """


class FeedbackAllocator(Allocator):
    """Scores the frames of a unit in time order, from the views so far and the full
    outputs of escalated frames.

    Its scores depend on what was escalated before, so that it has none without a
    policy: `score` refuses.
    """

    @abstractmethod
    def session(self) -> Session:
        """A session at the beginning of a unit."""

    def past(self) -> Past:
        """An empty memory: sessions have their own."""
        return Past()

    def stages(self) -> Mapping[str, Callable[[Any], Any]]:
        """One step, from the glances of frames in time order to their scores, without
        anything to learn.
        """
        session = self.session()

        def score(seen: Glance | list[Glance]) -> Any:
            nonlocal session
            if isinstance(seen, list):
                return [score(glance) for glance in seen]
            session = session if seen.past.frames else self.session()
            return session.score(seen)

        return {"score": score}

    def _of_frame(self, glance: Glance) -> float:
        del glance
        raise InputError(
            f"{self.name} learns from the frames that it escalates, so its scores "
            "depend on the policy: judge it with `deepval evaluate CELL --feedback`, "
            "and route with `Router`, not by scores."
        )

    def _of_unit(self, sight: Sight) -> Float[np.ndarray, "time"]:
        return np.array([self._of_frame(glance) for glance in sight.glances])


class WithoutFeedback(FeedbackAllocator):
    """An ordinary allocator with one score per frame under the feedback contract: what
    it could learn is ignored.
    """

    def __init__(self, allocator: Allocator) -> None:
        if allocator.per_mode:
            raise InputError(
                f"{allocator.name} has a score per mode; feedback takes one score: "
                "choose another allocator."
            )
        self.allocator, self.name, self.uses = allocator, allocator.name, allocator.uses

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the allocator."""
        return self.allocator.modes

    def undefined(self, mode: CheapMode) -> str | None:
        """The reason for having no score for this cheap mode, or None."""
        return self.allocator.undefined(mode)

    def session(self) -> Session:
        """A session at the beginning of a unit."""
        return _Deaf(self.allocator, self.allocator.past().memory)


@dataclass
class _Deaf(Session):
    """A session that learns nothing, with the memory that the allocator needs of
    earlier frames.
    """

    allocator: Allocator
    memory: OwnMemory | None

    def score(self, glance: Glance) -> float:
        if self.memory is not None:
            past, self.memory = (
                glance.past._replace(memory=self.memory),
                self.memory.after(glance),
            )
            glance = glance._replace(
                past=past, after=glance.after._replace(memory=self.memory)
            )
        return float(self.allocator.score_frame(glance))  # pyright: ignore[reportArgumentType] one score per frame

    def learn(self, full: Objects) -> None:
        del full


def output_digest(full: Objects) -> str:
    """Names the full output of a frame in a log: x and the first 12 digits of the
    SHA-256 of its objects.
    """
    numbers = np.column_stack(
        [
            full.corners_m.reshape(-1, 8),
            full.closing_mps,
            np.nan_to_num(full.velocity_mps),
        ]
    )
    return (
        "x"
        + sha256(
            "\n".join(full.cls.tolist()).encode()
            + np.ascontiguousarray(numbers, "<f8").tobytes()
        )[:12]
    )


def with_feedback(allocator: Allocator) -> FeedbackAllocator:
    """The allocator under the feedback contract; an ordinary one ignores what it could
    learn.
    """
    return (
        allocator
        if isinstance(allocator, FeedbackAllocator)
        else WithoutFeedback(allocator)
    )
