"""View -> Sight: what the frames of a unit show, looked at one after the other as a deployed router does, and once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deepval.arrays import Float
from deepval.features.glances import Glance, glance
from deepval.features.images import sampled
from deepval.features.views import Frame, Past, View, frames_of

Row = Callable[[Glance], Float[np.ndarray, "column"]]


@dataclass(frozen=True, eq=False)
class Sight:
    """What the frames of a unit show; pictures are not opened where `images` is False."""

    view: View
    images: bool = True

    def __len__(self) -> int:
        return len(self.view)

    @cached_property
    def glances(self) -> tuple[Glance, ...]:
        """What each frame shows, given those before it."""
        found, past = [], Past()
        for frame in frames_of(self.view, images=self.images):
            found.append(glance(_kept(frame), past, mode=self.view.mode))
            past = found[-1].after
        return tuple(found)

    def rows(self, row: Row, columns: int) -> Float[np.ndarray, "time column"]:
        """A row of so many columns for each frame, made once."""
        if row not in self._rows:
            found = np.array([row(seen) for seen in self.glances], float).reshape(len(self), columns)
            found.setflags(write=False)
            self._rows[row] = found
        return self._rows[row]

    @cached_property
    def _rows(self) -> dict[Row, Float[np.ndarray, "time column"]]:
        return {}


def _kept(frame: Frame) -> Frame:
    """The frame with its picture as small as it is looked at: whole ones of a unit would fill the memory."""
    return frame if frame.image is None else replace(frame, image=np.ascontiguousarray(sampled(frame.image)))
