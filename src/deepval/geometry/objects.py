"""Objects in the ego frame as decision rules see them, perceived and reference alike."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from deepval.arrays import Bool, Float, Int
from deepval.errors import InputError


@dataclass(frozen=True)
class Objects:
    """Flat lists of objects over `frames` frames, sorted by `frame`.

    `near_m` is the range (near face), `far_m` the far end along x, `lateral_m` the lowest and highest y,
    `closing_mps` the closing speed (0 where none is known).
    """

    frames: int
    frame: Int[np.ndarray, "obj"]
    near_m: Float[np.ndarray, "obj"]
    far_m: Float[np.ndarray, "obj"]
    lateral_m: Float[np.ndarray, "obj 2"]
    closing_mps: Float[np.ndarray, "obj"]

    def __post_init__(self) -> None:
        check_frames(self.frame, self.frames)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def centre_m(self) -> Float[np.ndarray, "obj 2"]:
        """Box centre (x, y): for a perceived object half a class length behind its near face."""
        return np.column_stack([(self.near_m + self.far_m) / 2, self.lateral_m.mean(axis=1)])

    def where(self, keep: Bool[np.ndarray, "obj"]) -> "Objects":
        """The objects marked by `keep`."""
        columns = {f.name: getattr(self, f.name)[keep] for f in fields(self) if f.name != "frames"}
        return Objects(frames=self.frames, **columns)


def check_frames(frame: Int[np.ndarray, "obj"], frames: int) -> None:
    """Raise unless frame indices are sorted and lie in 0..frames-1."""
    if len(frame) and (frame[0] < 0 or frame[-1] >= frames or (np.diff(frame) < 0).any()):
        raise InputError(
            f"frame indices must be sorted and lie in 0 to {frames - 1}; "
            f"found {frame.min()} to {frame.max()}: sort the rows by frame and check the number of frames."
        )


def stacked(parts: Sequence[Objects]) -> Objects:
    """The objects of several units one after the other, frames numbered on."""
    offset = np.cumsum([0, *(part.frames for part in parts)])
    frame = [part.frame + start for part, start in zip(parts, offset, strict=False)]
    return Objects(
        frames=int(offset[-1]),
        frame=np.concatenate([np.zeros(0, dtype=int), *frame]),
        near_m=np.concatenate([np.zeros(0), *(part.near_m for part in parts)]),
        far_m=np.concatenate([np.zeros(0), *(part.far_m for part in parts)]),
        lateral_m=np.concatenate([np.zeros((0, 2)), *(part.lateral_m for part in parts)]),
        closing_mps=np.concatenate([np.zeros(0), *(part.closing_mps for part in parts)]),
    )
