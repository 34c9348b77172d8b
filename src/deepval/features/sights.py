"""View -> Sight: the glances of a unit's frames, in order as for a deployed router, computed once."""

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
    """The glances of a unit's frames; with `images` False, pictures are not opened."""

    view: View
    images: bool = True

    def __len__(self) -> int:
        return len(self.view)

    @cached_property
    def glances(self) -> tuple[Glance, ...]:
        """The glance of each frame, with the memory of the earlier ones."""
        glances, past = [], Past()
        for frame in frames_of(self.view, images=self.images):
            glances.append(glance(_with_sampled_picture(frame), past, mode=self.view.mode))
            past = glances[-1].after
        return tuple(glances)

    def rows(self, row: Row, columns: int) -> Float[np.ndarray, "time column"]:
        """The row of each frame, `columns` long; computed once per function `row`."""
        if row not in self._rows:
            table = np.array([row(seen) for seen in self.glances], float).reshape(len(self), columns)
            table.setflags(write=False)
            self._rows[row] = table
        return self._rows[row]

    @cached_property
    def _rows(self) -> dict[Row, Float[np.ndarray, "time column"]]:
        return {}


def _with_sampled_picture(frame: Frame) -> Frame:
    """The frame with a sampled picture, as features read it: the whole pictures of a unit would fill the memory."""
    return frame if frame.image is None else replace(frame, image=np.ascontiguousarray(sampled(frame.image)))
