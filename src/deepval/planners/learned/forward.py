"""Rasters -> the network's logits, one at a time on one thread; equal rasters are run once.

One raster at a time: batches of eight would save an eighth of the time, but make the last digits of a frame depend on
the size of its batch. So a frame's numbers do not depend on the other frames.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from deepval.arrays import Bool, Float
from deepval.files.canonical import sha256
from deepval.planners.learned.weights import torch_library

REMEMBERED = 768
"""Number of stored outputs: at most 200 MB with the published network."""


class Forward:
    """A network with its most recent outputs."""

    def __init__(self, network: Any, *, remembered: int = REMEMBERED) -> None:
        self.network = network
        self.remembered = remembered
        self.runs = 0
        self._answers: OrderedDict[str, np.ndarray] = OrderedDict()

    def blocks(self, raster: Bool[np.ndarray, "channel x y"]) -> Float[np.ndarray, "step bx by"]:
        """Logits of each block of cells (see `Masks.within`)."""
        key = sha256(np.packbits(raster).tobytes())
        logits = self._answers.get(key)
        if logits is None:
            logits = self._run(raster)
            self._answers[key] = logits
            while len(self._answers) > self.remembered:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        return logits

    def _run(self, raster: Bool[np.ndarray, "channel x y"]) -> Float[np.ndarray, "step bx by"]:
        torch = torch_library()
        self.runs += 1
        with one_thread(), torch.inference_mode():
            batch = torch.from_numpy(raster[None].astype(np.float32)).contiguous(memory_format=torch.channels_last)
            return np.ascontiguousarray(self.network.blocks(batch)[0].numpy())


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, so that sums are in one order; torch's own setting is restored afterwards."""
    torch = torch_library()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(threads)
